/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer from one ONNX node: attributes and operands in the order of our
 * operators. A table by our operator's name; what is not in it has nothing but
 * inputs, weights and a shape. Fused operators become the layers they stand
 * for, so that their FLOPs are counted by the same rules. */
#include "onnx_layer.h"

typedef void layer_fn(struct onnx_layer *l);

static bool is(const struct onnx_node *n, const char *type)
{
    return strcmp(n->type, type) == 0;
}

static const struct onnx_shape *shape(const struct onnx_layer *l, int i)
{
    static const struct onnx_shape none = {.rank = -1, .nval = -1};

    return i < l->n->nin && l->n->in[i] >= 0 ? &l->m->g->shape[l->n->in[i]]
                                             : &none;
}

static bool has(const struct onnx_layer *l, int i)
{
    return i < l->n->nin && l->n->in[i] >= 0;
}

static bool constant(const struct onnx_layer *l, int i)
{
    return has(l, i) && l->m->g->values[l->n->in[i]].constant;
}

/* Names another layer of the same node: "name.part". */
static const char *part(const struct onnx_layer *l, const char *what)
{
    const char *s = pdl_arena_printf(l->m->g->arena, "%s.%s", l->name, what);

    return s ? s : l->name;
}

/* A helper layer of the node: one input, one output. */
static int step(struct onnx_layer *l, const char *op, const char *what, int x,
                struct pdl_tensor out)
{
    struct onnx_layer s = {
        .m = l->m, .n = l->n, .op = op, .name = part(l, what)};

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
    const struct onnx_shape *x = shape(l, 0);

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
    const struct onnx_shape *x = shape(l, 0);
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
    bool q = is(l->n, "QLinearConv"), up = is(l->n, "ConvTranspose");
    int wi = q ? 3 : 1, bi = q ? 8 : is(l->n, "ConvInteger") ? 99 : 2;
    const struct onnx_shape *x = shape(l, 0), *w = shape(l, wi);
    int64_t groups = model_onnx_int(l->n, "group", 1);

    windows(l, w, x->rank - 2);
    if (up && l->n->out[0] >= 0)
        deconv_pads(l, x->rank - 2);
    l->attr.groups = groups < 1 ? 1 : groups;
    if (w->rank > 1)
        l->attr.features = up ? w->dim[1] : w->dim[0];
    if (up && (l->attr.features < 0 ||
               !pdl_mul64(l->attr.features, l->attr.groups, &l->attr.features)))
        l->attr.features = 0;
    l->attr.no_bias = !has(l, bi);
    model_onnx_input(l, l->n->in[0]);
    if (has(l, wi))
        model_onnx_weight(l, l->n->in[wi], model_onnx_elements(w));
    if (has(l, bi))
        model_onnx_weight(l, l->n->in[bi], l->attr.features);
    l->m->conv = true;
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void pool(struct onnx_layer *l)
{
    if (strstr(l->op, "global") == NULL)
        windows(l, NULL, shape(l, 0)->rank - 2);
    l->attr.ceil_mode = model_onnx_int(l->n, "ceil_mode", 0) != 0;
    l->attr.count_pad = model_onnx_int(l->n, "count_include_pad", 0) != 0;
    l->nout = 1;
    model_onnx_input(l, l->n->in[0]);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* ---- products --------------------------------------------------------- */

const struct onnx_node *model_onnx_biased(const struct onnx_maker *m,
                                          const struct onnx_node *add)
{
    const struct onnx_graph *g = m->g;

    if (!is(add, "Add") || add->nin != 2 || add->in[0] < 0 || add->in[1] < 0)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const struct onnx_value *v = &g->values[add->in[i]];
        const struct onnx_shape *b = &g->shape[add->in[1 - i]];
        const struct onnx_node *n = v->node < 0 ? NULL : &g->nodes[v->node];
        const struct onnx_shape *y = &g->shape[add->in[i]];

        if (n && is(n, "MatMul") && m->reader[add->in[i]] >= 0 &&
            g->values[add->in[1 - i]].constant && n->in[1] >= 0 &&
            g->values[n->in[1]].constant && g->shape[n->in[1]].rank == 2 &&
            y->rank > 0 && y->dim[y->rank - 1] > 0 &&
            model_onnx_elements(b) == y->dim[y->rank - 1])
            return n;
    }
    return NULL;
}

static void product_of_data(struct onnx_layer *l, int a, int b)
{
    bool ta = model_onnx_int(l->n, "transA", 0) != 0,
         tb = model_onnx_int(l->n, "transB", 0) != 0;
    const bool flip[2] = {ta, tb};

    l->op = "matmul";
    l->m->attention = true;
    for (int i = 0; i < 2; i++) {
        struct pdl_tensor t;
        int id = model_onnx_operand(l->m, i == 0 ? a : b);

        model_onnx_sample(l->m->g, i == 0 ? a : b, &t, NULL);
        if (flip[i] && t.rank > 1) {
            int64_t d = t.dim[t.rank - 1];

            t.dim[t.rank - 1] = t.dim[t.rank - 2];
            t.dim[t.rank - 2] = d;
            id = step(l, "transpose", i == 0 ? "a" : "b", id, t);
        }
        l->in[l->nin++] = id;
    }
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* Which operands of a product are data and weight; -1 for no bias. */
struct operands {
    int x, w, bias;
};

static struct operands product_operands(const struct onnx_layer *l)
{
    static const struct {
        const char *type;
        struct operands o;
    } table[] = {{"Gemm", {0, 1, 2}},
                 {"FusedGemm", {0, 1, 2}},
                 {"GemmFastGelu", {0, 1, 2}},
                 {"QLinearMatMul", {0, 3, -1}},
                 {"QGemm", {0, 3, 6}},
                 {"MatMulNBits", {0, 1, 5}},
                 {"MatMulIntegerToFloat", {0, 1, 6}},
                 {"DynamicQuantizeMatMul", {0, 1, 4}}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (is(l->n, table[i].type))
            return table[i].o;
    return (struct operands){0, 1, -1};
}

static int64_t outputs_of(const struct onnx_layer *l)
{
    const struct pdl_tensor *y = &l->out[0];

    return y->rank > 0 ? y->dim[y->rank - 1] : 1;
}

/* x times a weight: MatMul, Gemm and the like, with a bias that follows. */
static void linear_of(struct onnx_layer *l, int x, int w, int bias)
{
    struct pdl_tensor t;
    int64_t inputs, want;

    model_onnx_sample(l->m->g, x, &t, NULL);
    inputs = t.rank > 0 ? t.dim[t.rank - 1] : 1;
    l->attr.features = outputs_of(l);
    if (!pdl_mul64(inputs, l->attr.features, &want))
        want = -1;
    if (bias >= 0 &&
        model_onnx_elements(&l->m->g->shape[bias]) != l->attr.features)
        bias = -1;
    l->attr.no_bias = bias < 0;
    model_onnx_input(l, x);
    model_onnx_weight(l, w, want);
    if (bias >= 0)
        model_onnx_weight(l, bias, l->attr.features);
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void linear(struct onnx_layer *l)
{
    struct operands o = product_operands(l);
    int out = l->n->nout > 0 ? l->n->out[0] : -1;
    int reader = out >= 0 ? l->m->reader[out] : -1;
    bool bits = is(l->n, "MatMulNBits") || is(l->n, "MatMulBnb4");

    if (!has(l, o.x) || !has(l, o.w))
        return;
    if (reader >= 0 && model_onnx_biased(l->m, &l->m->g->nodes[reader]) == l->n)
        return; /* made together with its bias */
    if (constant(l, o.w) && (shape(l, o.w)->rank == 2 || bits) &&
        !constant(l, o.x))
        linear_of(
            l, l->n->in[o.x], l->n->in[o.w],
            constant(l, o.bias < 0 ? 99 : o.bias) ? l->n->in[o.bias] : -1);
    else
        product_of_data(l, l->n->in[o.x], l->n->in[o.w]);
}

/* Letters of an equation by where they occur: batch, rows, columns, inner. */
struct letters {
    int64_t b, m, n, k;
};

static bool einsum_sizes(const struct onnx_layer *l, struct letters *z)
{
    size_t len;
    const char *eq = model_onnx_str(l->n, "equation", &len), *p = eq;
    int64_t size[128];
    int in[128] = {0}, input = 0, at = 0, axis[2] = {-1, -1};
    struct pdl_tensor unused;

    for (int i = 0; i < 2; i++)
        model_onnx_sample(l->m->g, l->n->in[i], &unused, &axis[i]);
    for (; eq && p < eq + len && *p != '>'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c == '.' || c > 127 || input > 1)
            return false;
        if (c == ',') {
            input++;
            at = 0;
        } else if (c > ' ' && c != '-') {
            const struct onnx_shape *x = shape(l, input);

            if (at >= x->rank || x->dim[at] < 0)
                return false;
            size[c] = at == axis[input] ? 1 : x->dim[at];
            in[c] |= 1 << input;
            at++;
        }
    }
    if (!eq || p >= eq + len)
        return false;
    for (p++; p < eq + len; p++)
        if ((unsigned char)*p < 128)
            in[(unsigned char)*p] |= 4;
    *z = (struct letters){1, 1, 1, 1};
    for (int c = '0'; c < 128; c++) {
        int64_t *d = in[c] == 7         ? &z->b
                     : in[c] == 3       ? &z->k
                     : (in[c] & 3) == 1 ? &z->m
                     : (in[c] & 3) == 2 ? &z->n
                                        : NULL;

        if (d && !pdl_mul64(*d, size[c], d))
            return false;
    }
    return true;
}

/* Reshaped to one product of matrices; its result to what it was. */
static void einsum(struct onnx_layer *l)
{
    struct letters z;
    struct onnx_layer y = *l;
    struct pdl_tensor a = {.rank = 3}, b = {.rank = 3};
    int id;

    if (l->n->nin != 2 || !has(l, 0) || !has(l, 1) || !einsum_sizes(l, &z)) {
        l->op = "other";
        model_onnx_blind(l->m, l->n);
        for (int i = 0; i < l->n->nin; i++)
            if (has(l, i))
                model_onnx_input(l, l->n->in[i]);
        model_onnx_outputs(l, model_onnx_emit(l));
        return;
    }
    memcpy(a.dim, (int64_t[]){z.b, z.m, z.k}, 3 * sizeof *a.dim);
    memcpy(b.dim, (int64_t[]){z.b, z.k, z.n}, 3 * sizeof *b.dim);
    y.op = "matmul";
    y.in[y.nin++] =
        step(l, "reshape", "a", model_onnx_operand(l->m, l->n->in[0]), a);
    y.in[y.nin++] =
        step(l, "reshape", "b", model_onnx_operand(l->m, l->n->in[1]), b);
    y.out[0] = (struct pdl_tensor){.rank = 3, .dtype = l->out[0].dtype};
    memcpy(y.out[0].dim, (int64_t[]){z.b, z.m, z.n}, 3 * sizeof *a.dim);
    id = model_onnx_emit(&y);
    model_onnx_outputs(l, step(l, "reshape", "y", id, l->out[0]));
}

/* ---- attention -------------------------------------------------------- */

/* [heads, T, d] or [T, heads d], as [T, heads d]. */
static int flat_heads(struct onnx_layer *l, int id, const char *what)
{
    struct pdl_tensor t;
    int x = model_onnx_operand(l->m, id);

    model_onnx_sample(l->m->g, id, &t, NULL);
    if (t.rank != 3)
        return x;
    t.dim[0] = t.dim[0] * t.dim[2];
    t.rank = 2;
    memmove(t.dim, (int64_t[]){t.dim[1], t.dim[0]}, 2 * sizeof *t.dim);
    return step(l, "reshape", what, x, t);
}

static void attend(struct onnx_layer *l, const int *qkv, int64_t heads,
                   int64_t kv)
{
    struct onnx_layer y = *l;
    const struct pdl_tensor *q = pdl_build_get(l->m->b, qkv[0]), *v;
    int id;

    l->m->attention = true;
    y.attr.heads = heads;
    y.attr.kv_heads = kv;
    if (q && q->rank == 2 && heads > 0)
        y.attr.head_dim = q->dim[1] / heads;
    v = pdl_build_get(l->m->b, qkv[2]);
    if (v && v->rank == 2 && (kv > 0 ? kv : heads) > 0)
        y.attr.v_head_dim = v->dim[1] / (kv > 0 ? kv : heads);
    memcpy(y.in, qkv, 3 * sizeof *qkv);
    y.nin = 3;
    y.nout = 1;
    if (y.out[0].rank == 3) {
        y.out[0].rank = 2;
        y.out[0].dim[0] = l->out[0].dim[1];
        y.out[0].dim[1] = l->out[0].dim[0] * l->out[0].dim[2];
    }
    id = model_onnx_emit(&y);
    if (l->out[0].rank == 3)
        id = step(l, "reshape", "y", id, l->out[0]);
    l->nout = 1;
    model_onnx_outputs(l, id);
}

/* com.microsoft Attention: one product makes q, k and v. */
static void packed_attention(struct onnx_layer *l)
{
    static const char *const names[3] = {"q", "k", "v"};
    struct onnx_layer qkv = {.m = l->m, .n = l->n, .op = "linear"};
    struct pdl_tensor x, each;
    int64_t heads = model_onnx_int(l->n, "num_heads", 0), features;
    int ids[3], made;

    model_onnx_sample(l->m->g, l->n->in[0], &x, NULL);
    features = shape(l, 1)->rank == 2 ? shape(l, 1)->dim[1] : -1;
    if (x.rank != 2 || features < 3) {
        model_onnx_blind(l->m, l->n);
        features = 3;
    }
    qkv.name = part(l, "qkv");
    qkv.out[0] = x;
    qkv.out[0].name = NULL;
    qkv.out[0].dim[x.rank > 0 ? x.rank - 1 : 0] = features;
    qkv.nout = 1;
    qkv.attr.features = features;
    qkv.attr.no_bias = !has(l, 2);
    model_onnx_input(&qkv, l->n->in[0]);
    model_onnx_weight(&qkv, l->n->in[1], model_onnx_elements(shape(l, 1)));
    if (has(l, 2))
        model_onnx_weight(&qkv, l->n->in[2], features);
    made = model_onnx_emit(&qkv);
    each = qkv.out[0];
    each.dim[each.rank > 0 ? each.rank - 1 : 0] = features / 3;
    for (int i = 0; i < 3; i++)
        ids[i] = step(l, "slice", names[i], made, each);
    attend(l, ids, heads, 0);
}

static void attention(struct onnx_layer *l)
{
    static const char *const names[3] = {"q", "k", "v"};
    int64_t heads = model_onnx_int(l->n, "q_num_heads",
                                   model_onnx_int(l->n, "num_heads", 0));
    int64_t kv = model_onnx_int(l->n, "kv_num_heads", 0);
    const struct onnx_shape *q = shape(l, 0), *k = shape(l, 1);
    int ids[3];

    if (strstr(l->n->type, "MultiHead") == NULL && l->n->op->domain[0] &&
        strcmp(l->n->type, "GroupQueryAttention") != 0) {
        packed_attention(l);
        return;
    }
    if (heads == 0 && q->rank == 4) {
        heads = q->dim[1];
        kv = k->rank == 4 ? k->dim[1] : 0;
    }
    for (int i = 0; i < 3; i++) {
        int from = has(l, i) ? i : 0; /* q, k, v packed in one */

        ids[i] = flat_heads(l, l->n->in[from], names[i]);
    }
    attend(l, ids, heads, kv);
}

/* ---- norms, tables ---------------------------------------------------- */

static void norm(struct onnx_layer *l)
{
    int first = 1, last = l->n->nin;
    bool skip = strncmp(l->n->type, "Skip", 4) == 0;
    int x = model_onnx_operand(l->m, l->n->in[0]);

    if (skip && has(l, 1)) {
        struct onnx_layer add = {
            .m = l->m, .n = l->n, .op = "add", .name = part(l, "Add")};

        add.in[add.nin++] = x;
        model_onnx_input(&add, l->n->in[1]);
        if (has(l, l->nout > 0 && is(l->n, "SkipLayerNormalization") ? 4 : 3) &&
            !is(l->n, "SkipGroupNorm"))
            model_onnx_weight(
                &add, l->n->in[is(l->n, "SkipLayerNormalization") ? 4 : 3], -1);
        add.out[0] = l->out[0];
        add.out[0].name = NULL;
        add.nout = 1;
        x = model_onnx_emit(&add);
        first = 2;
        last = is(l->n, "SkipSimplifiedLayerNormalization") ? 3 : 4;
    }
    l->in[l->nin++] = x;
    l->attr.groups =
        model_onnx_int(l->n, "num_groups", model_onnx_int(l->n, "groups", 0));
    if (strcmp(l->op, "layer_norm") == 0 || strcmp(l->op, "rms_norm") == 0)
        l->attr.features = model_onnx_elements(shape(l, first));
    l->attr.no_bias = !has(l, first + 1) || last <= first + 1;
    for (int i = first; i < last && i < l->n->nin; i++)
        if (constant(l, i))
            model_onnx_weight(l, l->n->in[i], -1);
    l->nout = 1;
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void batch_norm(struct onnx_layer *l)
{
    l->nout = 1;
    model_onnx_input(l, l->n->in[0]);
    for (int i = 1; i < 5 && has(l, i); i++)
        model_onnx_weight(l, l->n->in[i], model_onnx_elements(shape(l, i)));
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* Gather: of a table of weights an embedding, of data a selection. */
static void gather(struct onnx_layer *l)
{
    const struct onnx_shape *t = shape(l, 0);
    int source = constant(l, 0) ? model_onnx_source(l->m->g, l->n->in[0]) : -1;

    if (source >= 0 && t->rank == 2 && has(l, 1) &&
        model_onnx_int(l->n, "axis", 0) == 0 && is(l->n, "Gather")) {
        l->op = "embedding";
        l->attr.vocab = t->dim[0];
        l->attr.features = t->dim[1];
        model_onnx_input(l, l->n->in[1]);
        model_onnx_weight(l, l->n->in[0], model_onnx_elements(t));
    } else if (source >= 0) {
        l->op = "other";
        if (has(l, 1))
            model_onnx_input(l, l->n->in[1]);
        model_onnx_weight(l, l->n->in[0], -1);
    } else {
        l->op = "gather";
        model_onnx_input(l, l->n->in[0]);
    }
    model_onnx_outputs(l, model_onnx_emit(l));
}

static void prelu(struct onnx_layer *l)
{
    l->attr.features = model_onnx_elements(shape(l, 1));
    model_onnx_input(l, l->n->in[0]);
    if (has(l, 1))
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

        if (!has(l, i))
            continue;
        if (l->n->op)
            r = l->n->op->roles[(size_t)i < strlen(l->n->op->roles)
                                    ? (size_t)i
                                    : strlen(l->n->op->roles) - 1];
        else
            r = 'x';
        source = constant(l, i) ? model_onnx_source(l->m->g, l->n->in[i]) : -1;
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
    const struct onnx_shape *s = shape(l, 0);
    struct pdl_tensor t;
    int where = -1;

    model_onnx_sample(l->m->g, l->n->in[0], &t, &where);
    axis = axis < 0 ? axis + s->rank : axis;
    return (int)(where >= 0 && axis > where ? axis - 1 : axis);
}

static void plain(struct onnx_layer *l)
{
    plain_operands(l);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* The mask is not kept: it is made again from its seed. */
static void dropout(struct onnx_layer *l)
{
    l->nout = 1;
    plain(l);
}

static void with_axis(struct onnx_layer *l)
{
    if (has(l, 0))
        l->attr.axis = sample_axis(
            l, model_onnx_int(l->n, "axis", is(l->n, "Concat") ? 1 : -1));
    plain(l);
}

/* An addition that is the bias of a product makes the product. */
static void add(struct onnx_layer *l)
{
    const struct onnx_node *product = model_onnx_biased(l->m, l->n);
    int out = product ? product->out[0] : -1;

    if (!product) {
        plain(l);
        return;
    }
    l->op = "linear";
    linear_of(l, product->in[0], product->in[1],
              l->n->in[0] == out ? l->n->in[1] : l->n->in[0]);
}

/* ReLU6 is written as a clip. */
static void clip(struct onnx_layer *l)
{
    double low = model_onnx_float(l->n, "min", -1),
           high = model_onnx_float(l->n, "max", -1);

    if (shape(l, 1)->nval == 1)
        low = shape(l, 1)->val[0];
    if (shape(l, 2)->nval == 1)
        high = shape(l, 2)->val[0];
    if (low == 0 && high == 6)
        l->op = "relu6";
    plain(l);
}

/* LSTM, GRU, RNN: the product with the input, the product with the state,
 * and the rest. */
static void rnn(struct onnx_layer *l)
{
    static const char *const names[2] = {"input", "state"};
    const struct onnx_shape *w = shape(l, 1), *r = shape(l, 2);
    struct pdl_tensor x, y;
    int id = model_onnx_operand(l->m, l->n->in[0]);

    model_onnx_sample(l->m->g, l->n->in[0], &x, NULL);
    if (w->rank != 3 || r->rank != 3 || x.rank != 2)
        model_onnx_blind(l->m, l->n);
    for (int i = 0; i < 2 && w->rank == 3 && r->rank == 3 && x.rank == 2; i++) {
        const struct onnx_shape *p = i == 0 ? w : r;
        struct onnx_layer s = {
            .m = l->m, .n = l->n, .op = "linear", .name = part(l, names[i])};

        y = x;
        y.dim[1] = p->dim[2];
        if (i == 1)
            id = step(l, "other", "gates", id, y);
        s.in[s.nin++] = id;
        s.attr.features = p->dim[0] * p->dim[1];
        s.attr.no_bias = true;
        model_onnx_weight(&s, l->n->in[1 + i], model_onnx_elements(p));
        s.out[0] = x;
        s.out[0].name = NULL;
        s.out[0].dim[1] = s.attr.features;
        s.nout = 1;
        id = model_onnx_emit(&s);
    }
    l->op = "other";
    l->in[l->nin++] = id;
    if (constant(l, 3))
        model_onnx_weight(l, l->n->in[3], -1);
    model_onnx_outputs(l, model_onnx_emit(l));
}

static const struct {
    const char *op;
    layer_fn *make;
} makers[] = {
    {"conv", conv},
    {"conv_transpose", conv},
    {"max_pool", pool},
    {"avg_pool", pool},
    {"global_avg_pool", pool},
    {"global_max_pool", pool},
    {"linear", linear},
    {"matmul", einsum},
    {"attention", attention},
    {"batch_norm", batch_norm},
    {"layer_norm", norm},
    {"rms_norm", norm},
    {"group_norm", norm},
    {"instance_norm", norm},
    {"embedding", gather},
    {"prelu", prelu},
    {"softmax", with_axis},
    {"log_softmax", with_axis},
    {"concat", with_axis},
    {"add", add},
    {"dropout", dropout},
    {"clip", clip},
    {"rnn", rnn},
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

    return reader >= 0 && is(n, "MatMul") &&
           model_onnx_biased(m, &m->g->nodes[reader]) == n;
}

void model_onnx_layer(struct onnx_maker *m, const struct onnx_node *n)
{
    const char *op = n->op ? n->op->op : "other";
    struct onnx_layer l = {.m = m, .n = n, .op = op};
    const struct onnx_node *named = model_onnx_biased(m, n);

    if (product_with_bias(m, n))
        return;
    if (!named || !constant(&(struct onnx_layer){.m = m, .n = named}, 1))
        named = n;
    l.name = model_onnx_label(m, named, (int)(n - m->g->nodes), op);
    shape_outputs(&l);
    if (l.nout == 0)
        return;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(op, makers[i].op) == 0 && n->nin > 0 && n->in[0] >= 0) {
            makers[i].make(&l);
            return;
        }
    plain(&l);
}
