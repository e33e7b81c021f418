/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that multiply matrices: products of data with a weight (linear, with
 * the bias that an addition brings later), products of data with data, einsum
 * as a product of reshaped operands, attention in its fused forms, and the
 * products inside recurrences. */
#include "onnx_layer.h"

/* ---- products --------------------------------------------------------- */

const struct onnx_node *model_onnx_biased(const struct onnx_maker *m,
                                          const struct onnx_node *add)
{
    const struct onnx_graph *g = m->g;

    if (!model_onnx_type_is(add, "Add") || add->nin != 2 || add->in[0] < 0 ||
        add->in[1] < 0)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const struct onnx_value *v = &g->values[add->in[i]];
        const struct onnx_shape *b = &g->shape[add->in[1 - i]];
        const struct onnx_node *n = v->node < 0 ? NULL : &g->nodes[v->node];
        const struct onnx_shape *y = &g->shape[add->in[i]];

        if (n && model_onnx_type_is(n, "MatMul") &&
            m->reader[add->in[i]] >= 0 && g->values[add->in[1 - i]].constant &&
            n->in[1] >= 0 && g->values[n->in[1]].constant &&
            g->shape[n->in[1]].rank == 2 && y->rank > 0 &&
            y->dim[y->rank - 1] > 0 &&
            model_onnx_elements(b) == y->dim[y->rank - 1])
            return n;
    }
    return NULL;
}

/* An operand of a product as a matrix: transposed where the node says so, a
 * vector (the batch is gone) as one row or one column. */
static int matrix(struct onnx_layer *l, int value, bool left, bool flip,
                  struct pdl_tensor *t)
{
    int id = model_onnx_operand(l->m, value);
    const char *name = left ? "a" : "b";

    model_onnx_sample(l->m->g, value, t, NULL);
    if (t->rank == 1) {
        t->dim[left ? 1 : 0] = t->dim[0];
        t->dim[left ? 0 : 1] = 1;
        t->rank = 2;
        return model_onnx_step(l, "reshape", name, id, *t);
    }
    if (flip && t->rank > 1) {
        int64_t d = t->dim[t->rank - 1];

        t->dim[t->rank - 1] = t->dim[t->rank - 2];
        t->dim[t->rank - 2] = d;
        return model_onnx_step(l, "transpose", name, id, *t);
    }
    return id;
}

static void product_of_data(struct onnx_layer *l, int a, int b)
{
    struct onnx_layer p = *l;
    struct pdl_tensor ta, tb, *y = &p.out[0];
    int id;

    p.op = "matmul";
    l->m->attention = true;
    p.in[p.nin++] =
        matrix(l, a, true, model_onnx_int(l->n, "transA", 0) != 0, &ta);
    p.in[p.nin++] =
        matrix(l, b, false, model_onnx_int(l->n, "transB", 0) != 0, &tb);
    if (y->rank < 2 && ta.rank == 2 && tb.rank == 2) {
        y->rank = 2;
        y->dim[0] = ta.dim[0];
        y->dim[1] = tb.dim[1];
        y->name = NULL;
        p.name = model_onnx_part(l, "product");
        id = model_onnx_emit(&p);
        id = model_onnx_step(l, "reshape", "y", id, l->out[0]);
    } else {
        id = model_onnx_emit(&p);
    }
    model_onnx_outputs(l, id);
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
        if (model_onnx_type_is(l->n, table[i].type))
            return table[i].o;
    return (struct operands){0, 1, -1};
}

static int64_t outputs_of(const struct onnx_layer *l)
{
    const struct pdl_tensor *y = &l->out[0];

    return y->rank > 0 ? y->dim[y->rank - 1] : 1;
}

/* Is the weight of a product stored as [inputs, outputs]? Of a square one only
 * the moves on its way tell. */
static bool inputs_first(const struct onnx_layer *l, int w)
{
    const struct onnx_graph *g = l->m->g;
    bool flip = model_onnx_int(l->n, "transB", 0) == 0;

    for (int hops = 0; hops < 64 && g->values[w].node >= 0; hops++) {
        const struct onnx_node *n = &g->nodes[g->values[w].node];

        if (n->nin < 1 || n->in[0] < 0)
            return false;
        flip = flip != model_onnx_type_is(n, "Transpose");
        w = n->in[0];
    }
    return flip;
}

/* Such a weight as ours, [outputs, inputs]; its file has it as it was. */
static void turn_weight(struct onnx_layer *l, int w, int64_t inputs)
{
    struct onnx_maker *m = l->m;
    int source = model_onnx_source(m->g, w);
    const struct onnx_shape *s = source < 0 ? NULL : &m->g->shape[source];
    const struct onnx_value *v;

    if (!s || s->rank != 2 || s->dim[0] != inputs ||
        s->dim[1] != l->attr.features || !inputs_first(l, w))
        return;
    v = &m->g->values[source];
    if (m->tensor[source] < 0 && m->reader[source] >= 0)
        m->tensor[source] =
            pdl_build_tensor(m->b, v->name, v->role, model_onnx_dtype(s->type),
                             2, (int64_t[]){l->attr.features, inputs});
    else if (inputs != l->attr.features)
        return; /* somebody else has it as it lies */
    l->attr.axis = 1;
}

/* x times a weight: MatMul, Gemm and the like, with a bias that follows. */
void model_onnx_linear_of(struct onnx_layer *l, int x, int w, int bias)
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
    turn_weight(l, w, inputs);
    model_onnx_weight(l, w, want);
    if (bias >= 0)
        model_onnx_weight(l, bias, l->attr.features);
    model_onnx_outputs(l, model_onnx_emit(l));
}

void model_onnx_linear(struct onnx_layer *l)
{
    struct operands o = product_operands(l);
    int out = l->n->nout > 0 ? l->n->out[0] : -1;
    int reader = out >= 0 ? l->m->reader[out] : -1;
    bool bits = model_onnx_type_is(l->n, "MatMulNBits") ||
                model_onnx_type_is(l->n, "MatMulBnb4");

    if (!model_onnx_given(l, o.x) || !model_onnx_given(l, o.w))
        return;
    if (reader >= 0 && model_onnx_biased(l->m, &l->m->g->nodes[reader]) == l->n)
        return; /* made together with its bias */
    if (model_onnx_constant_in(l, o.w) &&
        (model_onnx_shape_in(l, o.w)->rank == 2 || bits) &&
        !model_onnx_constant_in(l, o.x))
        model_onnx_linear_of(l, l->n->in[o.x], l->n->in[o.w],
                             model_onnx_constant_in(l, o.bias < 0 ? 99 : o.bias)
                                 ? l->n->in[o.bias]
                                 : -1);
    else
        product_of_data(l, l->n->in[o.x], l->n->in[o.w]);
}

/* An equation without the letter of the batch: the letters of both operands and
 * the result, where each occurs (bits of these three) and its size. */
struct einsum {
    char term[3][PDL_MAX_RANK + 1];
    int in[128];
    int64_t size[128];
};

enum { A = 1, B = 2, Y = 4 };

static bool add_letter(struct einsum *e, int term, char c, int64_t size)
{
    size_t n = strlen(e->term[term]);
    unsigned char i = (unsigned char)c;

    if (n >= PDL_MAX_RANK || (e->in[i] & 1 << term) || size < 0 ||
        (term == 1 && (e->in[i] & A) && e->size[i] != size))
        return false;
    e->term[term][n] = c;
    e->in[i] |= 1 << term;
    if (term < 2)
        e->size[i] = size;
    return true;
}

/* Where reading stands: the term, how many of its letters came, and where the
 * batch is in each. */
struct reading {
    int term, at, axis[3];
    char batch;
};

static bool read_letter(const struct onnx_layer *l, struct einsum *e,
                        struct reading *r, char c)
{
    const struct onnx_shape *x =
        r->term < 2 ? model_onnx_shape_in(l, r->term) : NULL;
    int at = r->at++;

    if (c == '.' || (unsigned char)c > 127 || r->term > 2 ||
        (x && at >= x->rank))
        return false;
    if (x && at == r->axis[r->term]) {
        bool same = !r->batch || r->batch == c;

        r->batch = c;
        return same;
    }
    return c == r->batch || add_letter(e, r->term, c, x ? x->dim[at] : 0);
}

/* False: it says what no product of matrices is. */
static bool read_einsum(const struct onnx_layer *l, struct einsum *e)
{
    size_t len;
    const char *eq = model_onnx_str(l->n, "equation", &len);
    struct reading r = {.axis = {-1, -1, -1}};
    struct pdl_tensor unused;

    for (int i = 0; i < 2; i++)
        model_onnx_sample(l->m->g, l->n->in[i], &unused, &r.axis[i]);
    for (const char *p = eq; eq && p < eq + len; p++) {
        if (*p == ',' || *p == '>') {
            r.term = *p == ',' ? r.term + 1 : 2;
            r.at = 0;
        } else if (*p != ' ' && *p != '-' && !read_letter(l, e, &r, *p)) {
            return false;
        }
    }
    return r.term == 2 && !e->in[(unsigned char)r.batch];
}

/* Appends the letters of a term that occur just there, and multiplies what they
 * count. */
static bool take(const struct einsum *e, int term, int where, char *to,
                 int64_t *size)
{
    size_t n = strlen(to);

    *size = 1;
    for (const char *c = e->term[term]; *c; c++)
        if (e->in[(unsigned char)*c] == where) {
            if (!pdl_mul64(*size, e->size[(unsigned char)*c], size))
                return false;
            to[n++] = *c;
        }
    to[n] = 0;
    return true;
}

/* x, whose letters are `from`, with its letters as `to`. */
static int turned(struct onnx_layer *l, const struct einsum *e,
                  const char *what, int x, const char *from, const char *to)
{
    struct onnx_layer s = {.m = l->m,
                           .n = l->n,
                           .op = "transpose",
                           .name = model_onnx_part(l, what)};
    struct pdl_tensor *t = &s.out[0];

    if (strcmp(from, to) == 0)
        return x;
    t->dtype = l->out[0].dtype;
    t->rank = s.attr.ndims = (int)strlen(to);
    for (int i = 0; i < t->rank; i++) {
        t->dim[i] = e->size[(unsigned char)to[i]];
        s.attr.dims[i] = strchr(from, to[i]) - from;
    }
    s.in[s.nin++] = x;
    s.nout = 1;
    return model_onnx_emit(&s);
}

static bool is_product(const struct einsum *e)
{
    for (int c = 0; c < 128; c++)
        if (e->in[c] && e->in[c] != (A | B) && e->in[c] != (A | Y) &&
            e->in[c] != (B | Y) && e->in[c] != (A | B | Y))
            return false;
    return true;
}

static void untold(struct onnx_layer *l)
{
    l->op = "other";
    model_onnx_blind(l->m, l->n);
    for (int i = 0; i < l->n->nin; i++)
        if (model_onnx_given(l, i))
            model_onnx_input(l, l->n->in[i]);
    model_onnx_outputs(l, model_onnx_emit(l));
}

/* Turned and reshaped to one product of matrices; its result to what it was. */
void model_onnx_einsum(struct onnx_layer *l)
{
    struct einsum e = {.in = {0}};
    char as[2 * PDL_MAX_RANK] = "", bs[2 * PDL_MAX_RANK] = "";
    char ys[2 * PDL_MAX_RANK] = "";
    struct onnx_layer p = *l;
    struct pdl_tensor a = {.rank = 3}, b = {.rank = 3};
    int64_t batch, m, n, k;
    int id;

    if (l->n->nin != 2 || !model_onnx_given(l, 0) || !model_onnx_given(l, 1) ||
        !read_einsum(l, &e) || !is_product(&e) ||
        !take(&e, 2, A | B | Y, as, &batch) || !take(&e, 2, A | Y, as, &m) ||
        !take(&e, 0, A | B, as, &k) || !take(&e, 2, A | B | Y, bs, &batch) ||
        !take(&e, 0, A | B, bs, &k) || !take(&e, 2, B | Y, bs, &n) ||
        !take(&e, 2, A | B | Y, ys, &batch) || !take(&e, 2, A | Y, ys, &m) ||
        !take(&e, 2, B | Y, ys, &n)) {
        untold(l);
        return;
    }
    memcpy(a.dim, (int64_t[]){batch, m, k}, 3 * sizeof *a.dim);
    memcpy(b.dim, (int64_t[]){batch, k, n}, 3 * sizeof *b.dim);
    p.op = "matmul";
    id = turned(l, &e, "turned_a", model_onnx_operand(l->m, l->n->in[0]),
                e.term[0], as);
    p.in[p.nin++] = model_onnx_step(l, "reshape", "a", id, a);
    id = turned(l, &e, "turned_b", model_onnx_operand(l->m, l->n->in[1]),
                e.term[1], bs);
    p.in[p.nin++] = model_onnx_step(l, "reshape", "b", id, b);
    p.out[0] = (struct pdl_tensor){.rank = 3, .dtype = l->out[0].dtype};
    memcpy(p.out[0].dim, (int64_t[]){batch, m, n}, 3 * sizeof *a.dim);
    id = model_onnx_emit(&p);
    a = l->out[0];
    a.rank = (int)strlen(ys);
    for (int i = 0; i < a.rank; i++)
        a.dim[i] = e.size[(unsigned char)ys[i]];
    id = model_onnx_step(l, "reshape", "y", id, a);
    model_onnx_outputs(l, turned(l, &e, "turned_y", id, ys, e.term[2]));
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
    return model_onnx_step(l, "reshape", what, x, t);
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
        id = model_onnx_step(l, "reshape", "y", id, l->out[0]);
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
    features = model_onnx_shape_in(l, 1)->rank == 2
                   ? model_onnx_shape_in(l, 1)->dim[1]
                   : -1;
    if (x.rank != 2 || features < 3) {
        model_onnx_blind(l->m, l->n);
        features = 3;
    }
    qkv.name = model_onnx_part(l, "qkv");
    qkv.out[0] = x;
    qkv.out[0].name = NULL;
    qkv.out[0].dim[x.rank > 0 ? x.rank - 1 : 0] = features;
    qkv.nout = 1;
    qkv.attr.features = features;
    qkv.attr.no_bias = !model_onnx_given(l, 2);
    model_onnx_input(&qkv, l->n->in[0]);
    model_onnx_weight(&qkv, l->n->in[1],
                      model_onnx_elements(model_onnx_shape_in(l, 1)));
    if (model_onnx_given(l, 2))
        model_onnx_weight(&qkv, l->n->in[2], features);
    made = model_onnx_emit(&qkv);
    each = qkv.out[0];
    each.dim[each.rank > 0 ? each.rank - 1 : 0] = features / 3;
    for (int i = 0; i < 3; i++)
        ids[i] = model_onnx_step(l, "slice", names[i], made, each);
    attend(l, ids, heads, 0);
}

void model_onnx_attention(struct onnx_layer *l)
{
    static const char *const names[3] = {"q", "k", "v"};
    int64_t heads = model_onnx_int(l->n, "q_num_heads",
                                   model_onnx_int(l->n, "num_heads", 0));
    int64_t kv = model_onnx_int(l->n, "kv_num_heads", 0);
    const struct onnx_shape *q = model_onnx_shape_in(l, 0),
                            *k = model_onnx_shape_in(l, 1);
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
        int from = model_onnx_given(l, i) ? i : 0; /* q, k, v packed in one */

        ids[i] = flat_heads(l, l->n->in[from], names[i]);
    }
    attend(l, ids, heads, kv);
}

/* LSTM, GRU, RNN: the product with the input, the product with the state,
 * and the rest. */
void model_onnx_rnn(struct onnx_layer *l)
{
    static const char *const names[2] = {"input", "state"};
    const struct onnx_shape *w = model_onnx_shape_in(l, 1),
                            *r = model_onnx_shape_in(l, 2);
    struct pdl_tensor x, y;
    int id = model_onnx_operand(l->m, l->n->in[0]);

    model_onnx_sample(l->m->g, l->n->in[0], &x, NULL);
    if (w->rank != 3 || r->rank != 3 || x.rank != 2)
        model_onnx_blind(l->m, l->n);
    for (int i = 0; i < 2 && w->rank == 3 && r->rank == 3 && x.rank == 2; i++) {
        const struct onnx_shape *p = i == 0 ? w : r;
        struct onnx_layer s = {.m = l->m,
                               .n = l->n,
                               .op = "linear",
                               .name = model_onnx_part(l, names[i])};

        y = x;
        y.dim[1] = p->dim[2];
        if (i == 1)
            id = model_onnx_step(l, "other", "gates", id, y);
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
    if (model_onnx_constant_in(l, 3))
        model_onnx_weight(l, l->n->in[3], -1);
    model_onnx_outputs(l, model_onnx_emit(l));
}
