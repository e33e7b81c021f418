/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that move, cut and reduce: how, in the dimensions of a sample, which
 * has no batch. Where that cannot be told (the batch itself is cut, or an
 * amount is computed) the layer is "other": it has a shape, and nobody may
 * take it for something it is not. */
#include "onnx_layer.h"

#include <math.h>

/* For each dimension of a value the sample's; -1: the batch. */
bool model_onnx_sample_axes(const struct onnx_layer *l, int id, int *map)
{
    const struct onnx_shape *s = &l->m->g->shape[id];
    struct pdl_tensor t;
    int where = -1;

    if (!model_onnx_sample(l->m->g, id, &t, &where) || s->rank < 0)
        return false;
    for (int i = 0; i < s->rank; i++)
        map[i] = where < 0 || i < where ? i : i == where ? -1 : i - 1;
    return true;
}

static void outputs(struct onnx_layer *l)
{
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* Nobody knows how: the shape alone. */
static void unknown(struct onnx_layer *l)
{
    l->op = "other";
    l->attr = (struct pdl_attr){.groups = 0};
    outputs(l);
}

/* A list of whole numbers: an attribute, or a stored input. -1: not known. */
static int numbers(const struct onnx_layer *l, const char *attr, int input,
                   int64_t *out)
{
    const struct onnx_shape *s = model_onnx_shape_in(l, input);
    int n = model_onnx_ints(l->n, attr, out, PDL_MAX_RANK);

    if (n >= 0 || !model_onnx_given(l, input))
        return n > PDL_MAX_RANK ? -1 : n;
    if (s->nval < 0 || s->nval > PDL_MAX_RANK)
        return -1;
    for (int i = 0; i < s->nval; i++) {
        double v = s->val[i];

        if (!(v > -9e15)) /* NaN, too */
            v = v < 0 ? -9e15 : 0;
        out[i] = v > 9e15 ? INT64_MAX / 2 : (int64_t)v;
    }
    return s->nval;
}

/* ---- transpose ---------------------------------------------------------- */

static bool permutation(struct onnx_layer *l)
{
    int in[PDL_MAX_RANK], out[PDL_MAX_RANK];
    int64_t perm[PDL_MAX_RANK];
    int rank = model_onnx_shape_in(l, 0)->rank;
    int n = model_onnx_ints(l->n, "perm", perm, PDL_MAX_RANK);

    if (l->n->out[0] < 0 || !model_onnx_sample_axes(l, l->n->in[0], in) ||
        !model_onnx_sample_axes(l, l->n->out[0], out) ||
        (n >= 0 && n != rank) || l->m->g->shape[l->n->out[0]].rank != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        int64_t from = n < 0 ? rank - 1 - i : perm[i];

        if (from < 0 || from >= rank || (in[from] < 0) != (out[i] < 0))
            return false;
        if (out[i] < 0)
            continue;
        l->attr.dims[out[i]] = in[from];
        l->attr.ndims++;
    }
    return true;
}

static bool in_order(const struct pdl_attr *a)
{
    for (int i = 0; i < a->ndims; i++)
        if (a->dims[i] != i)
            return false;
    return true;
}

void model_onnx_transpose(struct onnx_layer *l)
{
    model_onnx_input(l, l->n->in[0]);
    if (!permutation(l)) {
        unknown(l);
        return;
    }
    if (in_order(&l->attr)) { /* only the batch has moved */
        l->op = "identity";
        l->attr.ndims = 0;
    }
    outputs(l);
}

/* ---- slices ------------------------------------------------------------- */

static int cut_as(struct onnx_layer *l, const char *name, int x, int axis,
                  const int64_t *dims)
{
    const struct pdl_tensor *t = pdl_build_get(l->m->b, x);
    struct onnx_layer s = {.m = l->m,
                           .n = l->n,
                           .op = "slice",
                           .attr = {.axis = axis, .ndims = 3}};
    int64_t count = (dims[1] - dims[0] - 1) / dims[2] + 1;

    if (!t)
        return x;
    s.name = name;
    memcpy(s.attr.dims, dims, 3 * sizeof *dims);
    s.in[s.nin++] = x;
    s.out[0] = *t;
    s.out[0].name = NULL;
    s.out[0].dim[axis] = count;
    s.nout = 1;
    return model_onnx_emit(&s);
}

/* One cut on top of what was cut before; returns the tensor made. */
static int cut(struct onnx_layer *l, int x, int axis, const int64_t *dims)
{
    const struct pdl_tensor *t = pdl_build_get(l->m->b, x);
    bool more = t && t->kind == PDL_TENSOR_ACTIVATION && x != l->in[0];

    return cut_as(l, more ? model_onnx_part(l, "Then") : l->name, x, axis,
                  dims);
}

/* Start, end and step of each axis, within it and upwards. */
static bool cuts(struct onnx_layer *l, int64_t (*out)[3])
{
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    int64_t start[PDL_MAX_RANK], end[PDL_MAX_RANK], axes[PDL_MAX_RANK],
        step[PDL_MAX_RANK];
    int n = numbers(l, "starts", 1, start), m = numbers(l, "ends", 2, end);
    int given = numbers(l, "axes", 3, axes), steps = numbers(l, "", 4, step);

    if (n < 1 || n != m || (given >= 0 && given != n) ||
        (given < 0 && model_onnx_given(l, 3)) || (steps >= 0 && steps != n) ||
        (steps < 0 && model_onnx_given(l, 4)))
        return false;
    for (int i = 0; i < n; i++) {
        int64_t axis = given > 0 ? axes[i] : i, d;

        axis += axis < 0 ? x->rank : 0;
        if (axis < 0 || axis >= x->rank || (steps > 0 && step[i] < 1))
            return false;
        d = x->dim[axis];
        start[i] += start[i] < 0 ? d : 0;
        end[i] += end[i] < 0 ? d : 0;
        out[axis][0] = start[i] < 0 ? 0 : start[i];
        out[axis][1] = end[i] > d ? d : end[i];
        out[axis][2] = steps > 0 ? step[i] : 1;
        if (d < 0 || out[axis][1] <= out[axis][0])
            return false;
    }
    return true;
}

void model_onnx_slice(struct onnx_layer *l)
{
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    int64_t how[PDL_MAX_RANK][3];
    int map[PDL_MAX_RANK], made;
    bool known = model_onnx_sample_axes(l, l->n->in[0], map);

    for (int i = 0; i < x->rank; i++) {
        how[i][0] = 0;
        how[i][1] = x->dim[i];
        how[i][2] = 1;
    }
    known = known && cuts(l, how);
    for (int i = 0; known && i < x->rank; i++)
        known = map[i] >= 0 ||
                (how[i][0] == 0 && how[i][1] == x->dim[i] && how[i][2] == 1);
    model_onnx_input(l, l->n->in[0]);
    if (!known) {
        unknown(l);
        return;
    }
    made = l->in[0];
    for (int i = 0; i < x->rank; i++)
        if (map[i] >= 0 &&
            (how[i][0] > 0 || how[i][1] < x->dim[i] || how[i][2] > 1))
            made = cut(l, made, map[i], how[i]);
    if (made == l->in[0]) { /* nothing is cut off */
        l->op = "identity";
        made = model_onnx_emit(l);
    }
    model_onnx_outputs(l, made);
}

void model_onnx_split(struct onnx_layer *l)
{
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    int64_t axis = model_onnx_int(l->n, "axis", 0);
    int map[PDL_MAX_RANK];
    bool known = model_onnx_sample_axes(l, l->n->in[0], map);

    axis += axis < 0 ? x->rank : 0;
    known = known && axis >= 0 && axis < x->rank && map[axis] >= 0 &&
            l->nout == l->n->nout && l->nout <= PDL_MAX_RANK;
    model_onnx_input(l, l->n->in[0]);
    if (!known) {
        unknown(l);
        return;
    }
    l->attr.axis = map[axis];
    l->attr.ndims = l->nout;
    for (int i = 0; i < l->nout; i++)
        l->attr.dims[i] = l->out[i].dim[map[axis]];
    outputs(l);
}

/* The next run of stored indices that ascend by one; false: one is outside. */
static bool next_run(const struct onnx_shape *at, int64_t extent, int *i,
                     int64_t *how)
{
    double first = at->val[*i];

    how[0] = (int64_t)first + (first < 0 ? extent : 0);
    how[1] = how[0];
    how[2] = 1;
    for (int k = 0; *i < at->nval && at->val[*i] == first + k; k++, ++*i)
        how[1]++;
    return how[0] >= 0 && how[1] <= extent;
}

/* x[:, 3], x[:, 3:5] and x[:, [4, 0, 1]] are written as a gather by stored
 * indices: a few runs of them, joined. */
bool model_onnx_gather_fixed(struct onnx_layer *l)
{
    enum { RUNS = 16 };
    const struct onnx_shape *x = model_onnx_shape_in(l, 0),
                            *at = model_onnx_shape_in(l, 1);
    int64_t axis = model_onnx_int(l->n, "axis", 0), how[RUNS][3];
    int map[PDL_MAX_RANK], made, runs = 0;

    axis += axis < 0 ? x->rank : 0;
    if (!model_onnx_type_is(l->n, "Gather") || at->nval < 1 || at->rank > 1 ||
        !model_onnx_sample_axes(l, l->n->in[0], map) || axis < 0 ||
        axis >= x->rank || map[axis] < 0 || l->nout != 1)
        return false;
    for (int i = 0; i < at->nval;)
        if (runs == RUNS || !next_run(at, x->dim[axis], &i, how[runs++]))
            return false;
    model_onnx_input(l, l->n->in[0]);
    if (runs == 1) {
        made = cut(l, l->in[0], map[axis], how[0]);
    } else {
        struct onnx_layer y = *l;

        y.op = "concat";
        y.attr.axis = map[axis];
        y.nin = 0;
        for (int i = 0; i < runs; i++)
            y.in[y.nin++] =
                cut_as(l, model_onnx_part(l, model_label("Run%d", i).s),
                       l->in[0], map[axis], how[i]);
        made = model_onnx_emit(&y);
    }
    if (at->rank == 0)
        made = model_onnx_step(l, "reshape", "Squeeze", made, l->out[0]);
    model_onnx_outputs(l, made);
    return true;
}

/* ---- reductions ------------------------------------------------------- */

void model_onnx_reduce(struct onnx_layer *l)
{
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    int64_t axes[PDL_MAX_RANK];
    int map[PDL_MAX_RANK], n = numbers(l, "axes", 1, axes);
    bool known = model_onnx_sample_axes(l, l->n->in[0], map) && n > 0;

    for (int i = 0; known && i < n; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? x->rank : 0);

        known = axis >= 0 && axis < x->rank && map[axis] >= 0;
        if (known)
            l->attr.dims[l->attr.ndims++] = map[axis];
    }
    l->attr.keep_dims = model_onnx_int(l->n, "keepdims", 1) != 0;
    model_onnx_input(l, l->n->in[0]);
    if (known)
        outputs(l);
    else
        unknown(l);
}

/* ---- resize ----------------------------------------------------------- */

/* Enlarged by whole numbers, the element nearest to the middle of a pixel is
 * the one below. */
static bool by_whole_numbers(const struct onnx_layer *l)
{
    const struct pdl_tensor *x = pdl_build_get(l->m->b, l->in[0]);
    size_t len = 0;
    const char *form =
        model_onnx_str(l->n, "coordinate_transformation_mode", &len);
    bool middle =
        !form || (len >= 10 && !memcmp(form + len - 10, "half_pixel", 10));

    for (int i = 0; x && middle && i < x->rank; i++)
        middle = x->rank == l->out[0].rank && x->dim[i] > 0 &&
                 l->out[0].dim[i] % x->dim[i] == 0;
    form = model_onnx_str(l->n, "nearest_mode", &len);
    return x && middle && (!form || (len > 5 && !memcmp(form, "round", 5)));
}

/* Where scales say how far elements are apart, those must be the extents'. */
static bool scales_fit(const struct onnx_layer *l, const struct pdl_tensor *x)
{
    bool two = l->n->opset < 11 || model_onnx_type_is(l->n, "Upsample");
    int at = two ? 1 : 2;
    const struct onnx_shape *s =
        model_onnx_given(l, at) ? model_onnx_shape_in(l, at) : NULL;
    int spatial = x->rank - 1;

    if (!s || s->nval == 0)
        return l->n->nin > 3 && model_onnx_given(l, 3);
    if (s->nval < spatial)
        return false;
    for (int i = 0; i < spatial; i++) {
        double want = (double)l->out[0].dim[1 + i] / (double)x->dim[1 + i];
        double is = s->val[s->nval - spatial + i];

        if (fabs(is - want) > 1e-6 * want)
            return false;
    }
    return true;
}

/* Linear or cubic interpolation of images, by how their elements lie. */
static bool between(struct onnx_layer *l)
{
    const struct pdl_tensor *x = pdl_build_get(l->m->b, l->in[0]);
    const char *key = "coordinate_transformation_mode";
    bool torch = model_onnx_is(l->n, key, "pytorch_half_pixel"), one = false;
    bool cubic = model_onnx_is(l->n, "mode", "cubic");
    size_t len = 0;

    if (!(cubic || model_onnx_is(l->n, "mode", "linear")) || !x ||
        x->rank != l->out[0].rank || x->rank < 2 ||
        x->dim[0] != l->out[0].dim[0] ||
        model_onnx_int(l->n, "antialias", 0) != 0 ||
        (cubic && model_onnx_int(l->n, "exclude_outside", 0) != 0))
        return false;
    for (int i = 1; i < x->rank; i++)
        one = one || l->out[0].dim[i] == 1;
    l->attr.alpha = cubic ? model_onnx_float(l->n, "cubic_coeff_a", -0.75) : 1;
    if (cubic && !(l->attr.alpha < 0))
        return false;
    if (model_onnx_is(l->n, key, "align_corners")) {
        l->attr.offset = 1;
        return true;
    }
    if (l->n->opset >= 11 && !model_onnx_type_is(l->n, "Upsample") &&
        !model_onnx_is(l->n, key, "asymmetric"))
        l->attr.beta = 0.5;
    return scales_fit(l, x) && !(torch && one) &&
           (!(l->attr.beta > 0) || torch || !model_onnx_str(l->n, key, &len) ||
            model_onnx_is(l->n, key, "half_pixel"));
}

/* The runtime has the nearest element of images, rounding down, and linear
 * and cubic interpolation. */
void model_onnx_resize(struct onnx_layer *l)
{
    size_t len = 0;
    bool nearest = model_onnx_is(l->n, "mode", "nearest") ||
                   !model_onnx_str(l->n, "mode", &len);
    bool down =
        model_onnx_type_is(l->n, "Upsample") || l->n->opset < 11 ||
        (model_onnx_is(l->n, "coordinate_transformation_mode", "asymmetric") &&
         model_onnx_is(l->n, "nearest_mode", "floor"));

    model_onnx_input(l, l->n->in[0]);
    if (l->nout != 1 || l->out[0].rank < 2 ||
        !(nearest ? down || by_whole_numbers(l) : between(l))) {
        l->attr.alpha = l->attr.beta = l->attr.offset = 0;
        unknown(l);
        return;
    }
    l->attr.ndims = l->out[0].rank - 1;
    memcpy(l->attr.dims, l->out[0].dim + 1,
           (size_t)l->attr.ndims * sizeof l->attr.dims[0]);
    outputs(l);
}
