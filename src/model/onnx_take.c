/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that find their elements by numbers of the sample: GatherElements,
 * GatherND with a batch, and what such numbers are made of, CumSum and Expand.
 * What reaches into other samples, or is found by stored numbers, has a shape
 * and no more: "gather", "other". */
#include "onnx_layer.h"

/* The sample's dimension of an axis; -1: the batch, or there is none. */
static int own_axis(const struct onnx_layer *l, int64_t axis)
{
    int rank = model_onnx_shape_in(l, 0)->rank, map[PDL_MAX_RANK];

    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank &&
                   model_onnx_sample_axes(l, l->n->in[0], map)
               ? map[axis]
               : -1;
}

/* Do both operands hold a batch, as the same dimension? */
static bool same_batch(const struct onnx_layer *l)
{
    int a[PDL_MAX_RANK], b[PDL_MAX_RANK], x = -1, y = -1;

    if (!model_onnx_given(l, 1) || model_onnx_constant_in(l, 0) ||
        model_onnx_constant_in(l, 1) ||
        !model_onnx_sample_axes(l, l->n->in[0], a) ||
        !model_onnx_sample_axes(l, l->n->in[1], b))
        return false;
    for (int i = 0; i < model_onnx_shape_in(l, 0)->rank; i++)
        x = a[i] < 0 ? i : x;
    for (int i = 0; i < model_onnx_shape_in(l, 1)->rank; i++)
        y = b[i] < 0 ? i : y;
    return x >= 0 && x == y;
}

static bool take_elements(struct onnx_layer *l)
{
    l->attr.axis = own_axis(l, model_onnx_int(l->n, "axis", 0));
    if (!model_onnx_type_is(l->n, "GatherElements") || l->attr.axis < 0 ||
        !same_batch(l))
        return false;
    l->op = "take";
    model_onnx_plain(l);
    return true;
}

/* Of each sample the rows that it names itself. */
static bool take_rows(struct onnx_layer *l)
{
    const struct onnx_shape *at = model_onnx_shape_in(l, 1);
    struct pdl_tensor rows;

    if (!model_onnx_type_is(l->n, "GatherND") ||
        model_onnx_int(l->n, "batch_dims", 0) != 1 || own_axis(l, 0) >= 0 ||
        !same_batch(l) || at->rank < 2 || at->dim[at->rank - 1] != 1)
        return false;
    model_onnx_input(l, l->n->in[0]);
    model_onnx_input(l, l->n->in[1]);
    rows = *pdl_build_get(l->m->b, l->in[1]);
    rows.rank--;
    l->in[1] = model_onnx_step(l, "reshape", "Squeeze", l->in[1], rows);
    l->op = "take_rows";
    l->attr.axis = 0;
    model_onnx_outputs(l, model_onnx_emit(l));
    return true;
}

void model_onnx_take(struct onnx_layer *l)
{
    if (take_elements(l) || take_rows(l))
        return;
    l->attr.axis = 0;
    model_onnx_plain(l);
}

void model_onnx_cumsum(struct onnx_layer *l)
{
    const struct onnx_shape *axis = model_onnx_shape_in(l, 1);
    int64_t back = model_onnx_int(l->n, "reverse", 0),
            others = model_onnx_int(l->n, "exclusive", 0);

    l->attr.axis = axis->nval == 1 ? own_axis(l, (int64_t)axis->val[0]) : -1;
    if (l->attr.axis < 0) {
        l->op = "other";
        l->attr.axis = 0;
    } else if (back || others) {
        l->attr.ndims = 2;
        l->attr.dims[0] = back != 0;
        l->attr.dims[1] = others != 0;
    }
    model_onnx_plain(l);
}

void model_onnx_argmax(struct onnx_layer *l)
{
    l->attr.axis = own_axis(l, model_onnx_int(l->n, "axis", 0));
    l->attr.keep_dims = model_onnx_int(l->n, "keepdims", 1) != 0;
    if (l->attr.axis < 0 || model_onnx_int(l->n, "select_last_index", 0)) {
        l->op = "other";
        l->attr.axis = 0;
    }
    model_onnx_plain(l);
}

void model_onnx_expand(struct onnx_layer *l)
{
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    const struct pdl_tensor *y = &l->out[0];
    int in[PDL_MAX_RANK], out[PDL_MAX_RANK];
    bool known = !model_onnx_constant_in(l, 0) &&
                 model_onnx_sample_axes(l, l->n->in[0], in) &&
                 model_onnx_sample_axes(l, l->n->out[0], out) &&
                 x->rank == l->m->g->shape[l->n->out[0]].rank;

    for (int i = 0; known && i < x->rank; i++)
        known = in[i] == out[i] &&
                (in[i] < 0 || x->dim[i] == 1 || x->dim[i] == y->dim[in[i]]);
    if (known) {
        l->attr.ndims = y->rank;
        memcpy(l->attr.dims, y->dim, (size_t)y->rank * sizeof *y->dim);
    } else {
        l->op = "other";
    }
    model_onnx_plain(l);
}
