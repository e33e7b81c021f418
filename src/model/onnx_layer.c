/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer from one ONNX node: attributes and operands in the order of our
 * operators. A table by our operator's name; what is not in it has nothing but
 * inputs, weights and a shape. Fused operators become the layers they stand
 * for, so that their FLOPs are counted by the same rules. */
#include "onnx_layer.h"

#include <math.h>

const struct onnx_shape *model_onnx_shape_in(const struct onnx_layer *l, int i)
{
    static const struct onnx_shape none = {.rank = -1, .nval = -1};

    return model_onnx_given(l, i) ? &l->m->g->shape[l->n->in[i]] : &none;
}

const char *model_onnx_part(const struct onnx_layer *l, const char *what)
{
    const char *s = pdl_arena_printf(l->m->g->arena, "%s.%s", l->name, what);

    return s ? s : l->name;
}

int model_onnx_step(struct onnx_layer *l, const char *op, const char *what,
                    int x, struct pdl_tensor out)
{
    struct onnx_layer s = {
        .m = l->m, .n = l->n, .op = op, .name = model_onnx_part(l, what)};

    s.in[s.nin++] = x;
    s.out[0] = out;
    s.out[0].name = NULL;
    s.nout = 1;
    return model_onnx_emit(&s);
}

/* ---- windows ---------------------------------------------------------- */

/* Pads of auto_pad: what brings ceil(x / stride) windows. */
static void same_pads(const struct onnx_layer *l, struct pdl_attr *a, int space)
{
    bool lower = model_onnx_is(l->n, "auto_pad", "SAME_LOWER");
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);

    if (!lower && !model_onnx_is(l->n, "auto_pad", "SAME_UPPER"))
        return;
    for (int i = 0; i < space && i + 2 < x->rank; i++) {
        int64_t s = model_or1(a->stride[i]), d = x->dim[i + 2], total;

        if (d < 0)
            return;
        total = ((d + s - 1) / s - 1) * s +
                (a->kernel[i] - 1) * model_or1(a->dilation[i]) + 1 - d;
        total = total < 0 ? 0 : total;
        a->pad[i] = lower ? total - total / 2 : total / 2;
        a->pad_end[i] = total - a->pad[i];
    }
}

static bool bounded(const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i] < -65536 || v[i] > INT32_MAX)
            return false;
    return true;
}

/* kernel, stride, dilation and padding of a node with `space` dimensions. */
static void windows(struct onnx_layer *l, const struct onnx_shape *w, int space)
{
    struct pdl_attr *a = &l->attr;
    int64_t pads[2 * PDL_MAX_SPATIAL] = {0};

    if (space < 1 || space > PDL_MAX_SPATIAL)
        return;
    if (model_onnx_ints(l->n, "kernel_shape", a->kernel, space) != space && w &&
        w->rank == space + 2)
        memcpy(a->kernel, w->dim + 2, (size_t)space * sizeof *a->kernel);
    model_onnx_ints(l->n, "strides", a->stride, space);
    model_onnx_ints(l->n, "dilations", a->dilation, space);
    model_onnx_ints(l->n, "pads", pads, 2 * space);
    model_onnx_ints(l->n, "output_padding", a->output_pad, space);
    if (!bounded(a->kernel, space) || !bounded(a->stride, space) ||
        !bounded(a->dilation, space) || !bounded(pads, 2 * space) ||
        !bounded(a->output_pad, space)) {
        memset(a, 0, sizeof *a);
        return;
    }
    for (int i = 0; i < space; i++) {
        a->pad[i] = pads[i];
        a->pad_end[i] = pads[space + i];
    }
    same_pads(l, a, space);
}

/* A transposed convolution may name its output instead of its padding. */
static void deconv_pads(struct onnx_layer *l, int space)
{
    struct pdl_attr *a = &l->attr;
    const struct onnx_shape *x = model_onnx_shape_in(l, 0);
    const struct onnx_shape *y = &l->m->g->shape[l->n->out[0]];

    for (int i = 0; i < space && i < PDL_MAX_SPATIAL && y->rank == x->rank;
         i++) {
        int64_t d = x->dim[2 + i], want = y->dim[2 + i], extra;

        if (d < 1 || want < 0 || d > INT32_MAX || want > INT32_MAX)
            return;
        extra = model_or1(a->stride[i]) * (d - 1) +
                (a->kernel[i] - 1) * model_or1(a->dilation[i]) + 1 +
                a->output_pad[i] - want;
        if (extra == a->pad[i] + a->pad_end[i])
            continue;
        a->pad[i] = extra < 0 ? 0 : extra / 2;
        a->pad_end[i] = extra < 0 ? 0 : extra - extra / 2;
        a->output_pad[i] -= extra < 0 ? extra : 0;
    }
}

/* Conv, ConvTranspose and their quantised forms. */
static void conv(struct onnx_layer *l)
{
    bool q = model_onnx_type_is(l->n, "QLinearConv"),
         up = model_onnx_type_is(l->n, "ConvTranspose");
    int wi = q ? 3 : 1, bi = q ? 8 : 2;
    const struct onnx_shape *x = model_onnx_shape_in(l, 0),
                            *w = model_onnx_shape_in(l, wi);
    int64_t groups = model_onnx_int(l->n, "group", 1);

    if (model_onnx_type_is(l->n, "ConvInteger"))
        bi = -1; /* zero points follow */
    if (model_onnx_type_is(l->n, "DeformConv"))
        bi = 3; /* behind the offsets */
    windows(l, w, x->rank - 2);
    if (up && l->n->out[0] >= 0)
        deconv_pads(l, x->rank - 2);
    l->attr.groups = groups < 1 ? 1 : groups;
    if (w->rank > 1)
        l->attr.features = up ? w->dim[1] : w->dim[0];
    if (up && (l->attr.features < 0 ||
               !pdl_mul64(l->attr.features, l->attr.groups, &l->attr.features)))
        l->attr.features = 0;
    l->attr.no_bias = !model_onnx_given(l, bi);
    model_onnx_input(l, l->n->in[0]);
    if (model_onnx_given(l, wi))
        model_onnx_weight(l, l->n->in[wi], model_onnx_elements(w));
    if (model_onnx_given(l, bi))
        model_onnx_weight(l, l->n->in[bi], l->attr.features);
    l->m->conv = true;
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void pool(struct onnx_layer *l)
{
    if (strstr(l->op, "global") == NULL)
        windows(l, NULL, model_onnx_shape_in(l, 0)->rank - 2);
    l->attr.ceil_mode = model_onnx_int(l->n, "ceil_mode", 0) != 0;
    l->attr.count_pad = model_onnx_int(l->n, "count_include_pad", 0) != 0;
    l->nout = 1;
    model_onnx_input(l, l->n->in[0]);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* ---- norms, tables ---------------------------------------------------- */

static void lrn(struct onnx_layer *l)
{
    l->attr.window = model_onnx_int(l->n, "size", 5);
    l->attr.alpha = model_onnx_float(l->n, "alpha", 1e-4);
    l->attr.beta = model_onnx_float(l->n, "beta", 0.75);
    l->attr.offset = model_onnx_float(l->n, "bias", 1);
    l->nout = 1;
    model_onnx_input(l, l->n->in[0]);
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void norm(struct onnx_layer *l)
{
    int first = 1, last = l->n->nin;
    bool skip = strncmp(l->n->type, "Skip", 4) == 0;
    int x = model_onnx_operand(l->m, l->n->in[0]);

    if (skip && model_onnx_given(l, 1)) {
        struct onnx_layer add = {.m = l->m,
                                 .n = l->n,
                                 .op = "add",
                                 .name = model_onnx_part(l, "Add")};

        add.in[add.nin++] = x;
        model_onnx_input(&add, l->n->in[1]);
        if (model_onnx_given(
                l, l->nout > 0 &&
                           model_onnx_type_is(l->n, "SkipLayerNormalization")
                       ? 4
                       : 3) &&
            !model_onnx_type_is(l->n, "SkipGroupNorm"))
            model_onnx_weight(
                &add,
                l->n->in[model_onnx_type_is(l->n, "SkipLayerNormalization")
                             ? 4
                             : 3],
                -1);
        add.out[0] = l->out[0];
        add.out[0].name = NULL;
        add.nout = 1;
        x = model_onnx_emit(&add);
        first = 2;
        last = model_onnx_type_is(l->n, "SkipSimplifiedLayerNormalization") ? 3
                                                                            : 4;
    }
    l->in[l->nin++] = x;
    l->attr.groups =
        model_onnx_int(l->n, "num_groups", model_onnx_int(l->n, "groups", 0));
    if (strcmp(l->op, "layer_norm") == 0 || strcmp(l->op, "rms_norm") == 0)
        l->attr.features = model_onnx_elements(model_onnx_shape_in(l, first));
    l->attr.epsilon = model_onnx_float(l->n, "epsilon", skip ? 1e-12 : 1e-5);
    l->attr.no_bias = !model_onnx_given(l, first + 1) || last <= first + 1;
    for (int i = first; i < last && i < l->n->nin; i++)
        if (model_onnx_constant_in(l, i))
            model_onnx_weight(l, l->n->in[i], -1);
    l->nout = 1;
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* PyTorch's exporter stores equal initial values once, for all layers: where
 * scale and variance, or shift and mean, are one tensor, the file holds no
 * trained weights, and the layer has its own. */
static bool is_merged(const struct onnx_layer *l)
{
    for (int i = 1; i < 5; i++)
        if (!model_onnx_given(l, i) || !model_onnx_constant_in(l, i) ||
            model_onnx_source(l->m->g, l->n->in[i]) < 0)
            return false;
    return model_onnx_source(l->m->g, l->n->in[1]) ==
               model_onnx_source(l->m->g, l->n->in[4]) ||
           model_onnx_source(l->m->g, l->n->in[2]) ==
               model_onnx_source(l->m->g, l->n->in[3]);
}

static void batch_norm(struct onnx_layer *l)
{
    l->nout = 1;
    l->attr.epsilon = model_onnx_float(l->n, "epsilon", 1e-5);
    /* ONNX has the share that stays, with the digits of a float */
    l->attr.momentum =
        round(1e7 * (1 - model_onnx_float(l->n, "momentum", 0.9))) / 1e7;
    model_onnx_input(l, l->n->in[0]);
    l->own = is_merged(l);
    for (int i = 1; i < 5 && model_onnx_given(l, i); i++)
        if (l->own)
            l->m->merged[model_onnx_source(l->m->g, l->n->in[i])] = true;
        else
            model_onnx_weight(l, l->n->in[i],
                              model_onnx_elements(model_onnx_shape_in(l, i)));
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* Stored indices of an embedding are all 0, the types of tokens; others (Swin's
 * distances) are rows that the model does not have: dims says so. */
static bool from_data_or_zero(const struct onnx_layer *l)
{
    const struct onnx_shape *at = model_onnx_shape_in(l, 1);

    if (!model_onnx_constant_in(l, 1))
        return true;
    for (int i = 0; i < at->nval; i++)
        if (at->val[i] != 0)
            return false;
    return at->nval > 0;
}

/* Rows are whole numbers; what is counted in features may not be. */
static bool whole(const struct onnx_layer *l, int x)
{
    const struct pdl_tensor *t = pdl_build_get(l->m->b, x);

    return t && (t->kind != PDL_TENSOR_ACTIVATION ||
                 (t->dtype >= PDL_I8 && t->dtype <= PDL_U64));
}

/* Gather: of a table of weights an embedding, of data a selection. */
static void gather(struct onnx_layer *l)
{
    const struct onnx_shape *t = model_onnx_shape_in(l, 0);
    int source = model_onnx_constant_in(l, 0)
                     ? model_onnx_source(l->m->g, l->n->in[0])
                     : -1;

    if (source >= 0 && t->rank == 2 && model_onnx_given(l, 1) &&
        model_onnx_int(l->n, "axis", 0) == 0 &&
        model_onnx_type_is(l->n, "Gather")) {
        l->attr.ndims = !from_data_or_zero(l);
        l->op = "embedding";
        l->attr.vocab = t->dim[0];
        l->attr.features = t->dim[1];
        model_onnx_input(l, l->n->in[1]);
        model_onnx_weight(l, l->n->in[0], model_onnx_elements(t));
        if (!whole(l, l->in[0]))
            l->op = "other";
    } else if (source >= 0) {
        l->op = "other";
        if (model_onnx_given(l, 1))
            model_onnx_input(l, l->n->in[1]);
        model_onnx_weight(l, l->n->in[0], -1);
    } else if (model_onnx_gather_fixed(l)) {
        return;
    } else {
        l->op = "gather";
        model_onnx_input(l, l->n->in[0]);
    }
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void prelu(struct onnx_layer *l)
{
    l->attr.features = model_onnx_elements(model_onnx_shape_in(l, 1));
    model_onnx_input(l, l->n->in[0]);
    if (model_onnx_given(l, 1))
        model_onnx_weight(l, l->n->in[1], l->attr.features);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* ---- the rest --------------------------------------------------------- */

/* Data as inputs; parameters and buffers as weights; other constants as
 * inputs, which broadcasting needs. */
static void plain_operands(struct onnx_layer *l)
{
    for (int i = 0; i < l->n->nin; i++) {
        char r = '.';
        int source;

        if (!model_onnx_given(l, i))
            continue;
        if (l->n->op)
            r = l->n->op->roles[(size_t)i < strlen(l->n->op->roles)
                                    ? (size_t)i
                                    : strlen(l->n->op->roles) - 1];
        else
            r = 'x';
        source = model_onnx_constant_in(l, i)
                     ? model_onnx_source(l->m->g, l->n->in[i])
                     : -1;
        if (r == '.')
            continue;
        if (source >= 0 && l->m->g->values[source].role != PDL_TENSOR_CONST &&
            l->nw < PDL_OP_MAX_WEIGHTS)
            model_onnx_weight(l, l->n->in[i], -1);
        else
            model_onnx_input(l, l->n->in[i]);
    }
}

static int sample_axis(const struct onnx_layer *l, int64_t axis)
{
    const struct onnx_shape *s = model_onnx_shape_in(l, 0);
    struct pdl_tensor t;
    int where = -1;

    model_onnx_sample(l->m->g, l->n->in[0], &t, &where);
    axis = axis < 0 ? axis + s->rank : axis;
    return (int)(where >= 0 && axis > where ? axis - 1 : axis);
}

void model_onnx_plain(struct onnx_layer *l)
{
    plain_operands(l);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* A weight less data is no difference that the model can say: weights come
 * after the data. */
static bool begins_with_weight(const struct onnx_layer *l)
{
    const struct onnx_graph *g = l->m->g;
    int w = l->n->nin == 2 && model_onnx_constant_in(l, 0) &&
                    !model_onnx_constant_in(l, 1)
                ? model_onnx_source(g, l->n->in[0])
                : -1;

    return w >= 0 && g->values[w].role != PDL_TENSOR_CONST &&
           (strcmp(l->op, "sub") == 0 || strcmp(l->op, "div") == 0 ||
            strcmp(l->op, "pow") == 0);
}

static void element_wise(struct onnx_layer *l)
{
    bool number = model_onnx_with_number(l);

    if (!number && begins_with_weight(l))
        l->op = "other";
    if (!number)
        model_onnx_plain(l);
}

/* A learned token before those of the data. */
static bool token_in_front(struct onnx_layer *l)
{
    const struct pdl_tensor *y = &l->out[0];

    if (l->nin != 1 || l->nw != 1 || l->attr.axis != 0 || y->rank != 2 ||
        l->n->nin != 2 || !model_onnx_constant_in(l, 0) ||
        pdl_tensor_elements(pdl_build_get(l->m->b, l->w[0])) != y->dim[1])
        return false;
    l->op = "class_token";
    l->attr = (struct pdl_attr){.features = 0};
    return true;
}

/* Weights come after the data: a join in another order is none that the model
 * can say. */
static void concat(struct onnx_layer *l)
{
    bool mixed = false;

    if (model_onnx_given(l, 0))
        l->attr.axis = sample_axis(l, model_onnx_int(l->n, "axis", 1));
    plain_operands(l);
    for (int i = 1; i < l->n->nin && l->nw > 0; i++)
        mixed = mixed || (!model_onnx_constant_in(l, i) &&
                          model_onnx_constant_in(l, i - 1));
    if (mixed && !token_in_front(l))
        l->op = "other";
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* A softmax is of the last dimension by default; before opset 13, of the
 * channels. */
static void with_axis(struct onnx_layer *l)
{
    bool second = l->n->opset < 13;

    if (model_onnx_given(l, 0))
        l->attr.axis =
            sample_axis(l, model_onnx_int(l->n, "axis", second ? 1 : -1));
    model_onnx_plain(l);
}

/* 0, 1, 2 ... of a whole sequence. */
static bool counts_up(const struct onnx_shape *s)
{
    for (int i = 0; i < s->nval; i++)
        if (s->val[i] != i)
            return false;
    return s->nval > 1;
}

/* The i-th of a list of whole numbers: an attribute of old graphs, an input of
 * others. False: nobody knows it. */
static bool pad_at(const struct onnx_layer *l, int i, int64_t *pad)
{
    int64_t old[2 * PDL_MAX_RANK] = {0};
    const struct onnx_shape *s = model_onnx_shape_in(l, 1);

    if (l->n->opset < 11) {
        model_onnx_ints(l->n, l->n->opset < 2 ? "paddings" : "pads", old,
                        2 * PDL_MAX_RANK);
        *pad = i < 2 * PDL_MAX_RANK ? old[i] : 0;
        return i < 2 * PDL_MAX_RANK;
    }
    *pad = i < s->nval ? (int64_t)s->val[i] : 0;
    return i < s->nval;
}

static bool pads_zeros(const struct onnx_layer *l)
{
    const struct onnx_shape *v =
        model_onnx_given(l, 2) ? model_onnx_shape_in(l, 2) : NULL;
    size_t len = 0;
    const char *mode = model_onnx_str(l->n, "mode", &len);

    return (!mode || len == 0 || model_onnx_is(l->n, "mode", "constant")) &&
           model_onnx_float(l->n, "value", 0) == 0 &&
           (!v || (v->nval == 1 && v->val[0] == 0));
}

/* Where the i-th pair of pads goes: the dimension of a sample, -1: the batch,
 * -2: nobody knows. */
static int pad_axis(const struct onnx_layer *l, int i, int where)
{
    const struct onnx_shape *axes =
        model_onnx_given(l, 3) ? model_onnx_shape_in(l, 3) : NULL;
    int64_t axis = i;

    if (axes && i >= axes->nval)
        return -2;
    if (axes)
        axis = (int64_t)axes->val[i];
    if (axis < 0)
        axis += model_onnx_shape_in(l, 0)->rank;
    if (axis == where)
        return -1;
    return (int)(where >= 0 && axis > where ? axis - 1 : axis);
}

/* Zeros in front of and behind the extents of an image. */
static bool image_pads(struct onnx_layer *l)
{
    const struct onnx_shape *axes =
        model_onnx_given(l, 3) ? model_onnx_shape_in(l, 3) : NULL;
    int n = axes ? axes->nval : model_onnx_shape_in(l, 0)->rank, where = -1;
    struct pdl_tensor t;

    model_onnx_sample(l->m->g, l->n->in[0], &t, &where);
    for (int i = 0; i < n; i++) {
        int d = pad_axis(l, i, where);
        int64_t front, behind;

        if (!pad_at(l, i, &front) || !pad_at(l, n + i, &behind))
            return false;
        if (front == 0 && behind == 0)
            continue;
        if (d < 1 || d > PDL_MAX_SPATIAL)
            return false;
        l->attr.pad[d - 1] = front;
        l->attr.pad_end[d - 1] = behind;
    }
    return n > 0;
}

static void pad(struct onnx_layer *l)
{
    if (!model_onnx_given(l, 0) || !pads_zeros(l) || !image_pads(l)) {
        memset(l->attr.pad, 0, sizeof l->attr.pad);
        memset(l->attr.pad_end, 0, sizeof l->attr.pad_end);
        l->op = "other";
    }
    model_onnx_plain(l);
}

const struct onnx_node *model_onnx_positions(const struct onnx_maker *m,
                                             const struct onnx_node *add)
{
    const struct onnx_graph *g = m->g;

    for (int i = 0; model_onnx_type_is(add, "Add") && add->nin == 2 && i < 2;
         i++) {
        int id = add->in[i], x = add->in[1 - i], table;
        const struct onnx_node *n = id < 0 || x < 0 || g->values[id].node < 0
                                        ? NULL
                                        : &g->nodes[g->values[id].node];

        if (!n || !model_onnx_type_is(n, "Gather") || n->nin != 2 ||
            n->in[0] < 0 || n->in[1] < 0 || m->reader[id] < 0 ||
            !counts_up(&g->shape[n->in[1]]) || g->shape[n->in[0]].rank != 2 ||
            model_onnx_int(n, "axis", 0) != 0 || g->values[x].constant)
            continue;
        table = model_onnx_source(g, n->in[0]);
        if (table >= 0 && g->values[table].role == PDL_TENSOR_WEIGHT)
            return n;
    }
    return NULL;
}

static void positions(struct onnx_layer *l, const struct onnx_node *lookup)
{
    const struct onnx_shape *t = &l->m->g->shape[lookup->in[0]];

    l->op = "position_embedding";
    l->attr.vocab = t->dim[0];
    l->attr.features = t->dim[1];
    model_onnx_input(l, l->n->in[l->n->in[0] == lookup->out[0] ? 1 : 0]);
    model_onnx_weight(l, lookup->in[0], model_onnx_elements(t));
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* An addition that is the bias of a product makes the product. */
static void add(struct onnx_layer *l)
{
    const struct onnx_node *product = model_onnx_biased(l->m, l->n);
    const struct onnx_node *lookup = model_onnx_positions(l->m, l->n);
    int out = product ? product->out[0] : -1;

    if (lookup) {
        positions(l, lookup);
        return;
    }
    if (!product) {
        element_wise(l);
        return;
    }
    l->op = "linear";
    model_onnx_linear_of(l, product->in[0], product->in[1],
                         l->n->in[0] == out ? l->n->in[1] : l->n->in[0]);
}

static const struct {
    const char *op;
    onnx_layer_fn *make;
} makers[] = {
    {"conv", conv},
    {"conv_transpose", conv},
    {"max_pool", pool},
    {"avg_pool", pool},
    {"global_avg_pool", pool},
    {"global_max_pool", pool},
    {"linear", model_onnx_linear},
    {"matmul", model_onnx_einsum},
    {"attention", model_onnx_attention},
    {"batch_norm", batch_norm},
    {"layer_norm", norm},
    {"rms_norm", norm},
    {"group_norm", norm},
    {"instance_norm", norm},
    {"lrn", lrn},
    {"embedding", gather},
    {"gather", model_onnx_take},
    {"cumsum", model_onnx_cumsum},
    {"expand", model_onnx_expand},
    {"argmax", model_onnx_argmax},
    {"prelu", prelu},
    {"pad", pad},
    {"softmax", with_axis},
    {"log_softmax", with_axis},
    {"concat", concat},
    {"add", add},
    {"sub", element_wise},
    {"mul", element_wise},
    {"div", element_wise},
    {"pow", element_wise},
    {"max", element_wise},
    {"where", model_onnx_where},
    {"equal", model_onnx_compare},
    {"less", model_onnx_compare},
    {"less_equal", model_onnx_compare},
    {"greater", model_onnx_compare},
    {"greater_equal", model_onnx_compare},
    {"min", element_wise},
    {"dropout", model_onnx_dropout},
    {"clip", model_onnx_clip},
    {"relu", model_onnx_relu},
    {"leaky_relu", model_onnx_leaky},
    {"elu", model_onnx_elu},
    {"selu", model_onnx_selu},
    {"hard_sigmoid", model_onnx_hard_sigmoid},
    {"gelu", model_onnx_gelu},
    {"transpose", model_onnx_transpose},
    {"slice", model_onnx_slice},
    {"split", model_onnx_split},
    {"resize", model_onnx_resize},
    {"reduce_mean", model_onnx_reduce},
    {"reduce_sum", model_onnx_reduce},
    {"reduce_max", model_onnx_reduce},
    {"reduce_min", model_onnx_reduce},
    {"reduce_prod", model_onnx_reduce},
    {"reduce_l2", model_onnx_reduce},
    {"rnn", model_onnx_rnn},
};

/* Shapes of the outputs that are not left out. */
static void shape_outputs(struct onnx_layer *l)
{
    for (int i = 0; i < l->n->nout && l->nout < PDL_OP_MAX_OUT; i++) {
        if (l->n->out[i] < 0)
            continue;
        model_onnx_sample(l->m->g, l->n->out[i], &l->out[l->nout++], NULL);
    }
}

static bool product_with_bias(const struct onnx_maker *m,
                              const struct onnx_node *n)
{
    int reader = n->nout > 0 && n->out[0] >= 0 ? m->reader[n->out[0]] : -1;

    return reader >= 0 && model_onnx_type_is(n, "MatMul") &&
           model_onnx_biased(m, &m->g->nodes[reader]) == n;
}

static bool added_positions(const struct onnx_maker *m,
                            const struct onnx_node *n)
{
    int reader = n->nout > 0 && n->out[0] >= 0 ? m->reader[n->out[0]] : -1;

    return reader >= 0 && model_onnx_positions(m, &m->g->nodes[reader]) == n;
}

void model_onnx_layer(struct onnx_maker *m, const struct onnx_node *n)
{
    const char *op = n->op ? n->op->op : "other";
    struct onnx_layer l = {.m = m, .n = n, .op = op};
    const struct onnx_node *named = model_onnx_biased(m, n);
    struct onnx_fused f;
    bool fused;

    if (product_with_bias(m, n) || added_positions(m, n))
        return;
    fused = model_onnx_fused(m, n, &f);
    if (!named ||
        !model_onnx_constant_in(&(struct onnx_layer){.m = m, .n = named}, 1))
        named = n;
    l.name = model_onnx_label(m, named, (int)(n - m->g->nodes), op);
    shape_outputs(&l);
    if (l.nout == 0)
        return;
    if (fused) {
        model_onnx_fused_layer(&l, &f);
        return;
    }
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(op, makers[i].op) == 0 && n->nin > 0 && n->in[0] >= 0) {
            makers[i].make(&l);
            return;
        }
    model_onnx_plain(&l);
}
