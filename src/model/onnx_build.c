/* SPDX-License-Identifier: Apache-2.0
 *
 * From the graph with shapes and roles to a model: tensors for a sample, one
 * layer for each node that computes on data. Weights moved about, shapes
 * computed and masks prepared are not layers.
 *
 * The batch dimension goes. Where it is symbolic, the pass with twice the
 * batch shows where it is; else it is the dimension that equals the batch of
 * the first data input. A product of batch and tokens keeps the tokens.
 *
 * Limits: of an If only the larger branch becomes layers, of a loop one round;
 * parameters of all of them count. */
#include "onnx_layer.h"

/* ---- shapes for one sample -------------------------------------------- */

/* The axis that is the batch, -1: none; *share: what else it holds. */
static int batch_axis(const struct onnx_graph *g, int id, int64_t *share)
{
    const struct onnx_shape *s = &g->shape[id];
    const struct onnx_shape *t = g->twice ? &g->twice[id] : NULL;
    int64_t b = g->batch;

    *share = 1;
    if (g->values[id].constant)
        return s->rank > 1 && s->dim[0] == 1 ? 0 : -1;
    if (t && t->rank == s->rank) {
        bool same = true;

        for (int i = 0; i < s->rank; i++)
            if (s->dim[i] == b && t->dim[i] == 2 * b)
                return i;
        for (int i = 0; i < s->rank; i++) {
            same = same && s->dim[i] == t->dim[i];
            if (s->dim[i] > 0 && s->dim[i] % b == 0 &&
                t->dim[i] == 2 * s->dim[i]) {
                *share = s->dim[i] / b;
                return i;
            }
        }
        if (same)
            return s->rank > 1 && s->dim[0] == 1 ? 0 : -1;
    }
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] == b)
            return i;
    if (b > 1 && s->rank > 0 && s->dim[0] > 0 && s->dim[0] % b == 0) {
        *share = s->dim[0] / b;
        return 0;
    }
    return s->rank > 1 && s->dim[0] == 1 ? 0 : -1;
}

bool model_onnx_sample(const struct onnx_graph *g, int id, struct pdl_tensor *t,
                       int *axis)
{
    const struct onnx_shape *s = &g->shape[id];
    int64_t share = 1;
    int where = s->rank > 0 ? batch_axis(g, id, &share) : -1;
    bool known = s->rank >= 0;

    *t = (struct pdl_tensor){.name = g->values[id].name};
    t->dtype = model_onnx_dtype(s->type);
    for (int i = 0; i < s->rank; i++) {
        int64_t d = i == where ? share : s->dim[i];

        if (i == where && share == 1)
            continue;
        known = known && d >= 0;
        t->dim[t->rank++] = d < 0 ? 0 : d;
    }
    if (axis)
        *axis = share == 1 ? where : -1;
    if (!model_shape_valid(t)) {
        t->rank = 0;
        return false;
    }
    return known;
}

/* ---- tensors ---------------------------------------------------------- */

static bool moves_only(const struct onnx_node *n)
{
    char r = n->op ? n->op->roles[0] : '.';

    return (r == 'p' || r == 'd') && n->nin > 0 && n->in[0] >= 0;
}

int model_onnx_source(const struct onnx_graph *g, int id)
{
    for (int hops = 0; hops < 64; hops++) {
        const struct onnx_value *v = &g->values[id];

        if (v->role != PDL_TENSOR_INPUT)
            return id;
        if (!v->constant || v->node < 0 || !moves_only(&g->nodes[v->node]))
            return -1;
        id = g->nodes[v->node].in[0];
    }
    return -1;
}

/* A stored tensor in its own shape, or, where it has the same elements, in
 * the one its reader sees. */
static int stored_tensor(struct onnx_maker *m, int id,
                         const struct pdl_tensor *seen)
{
    const struct onnx_value *v = &m->g->values[id];
    const struct onnx_shape *s = &m->g->shape[id];
    int64_t n = v->elements >= 0 ? v->elements : model_onnx_elements(s);
    enum pdl_dtype type = model_onnx_dtype(s->type);

    if (m->tensor[id] >= 0)
        return m->tensor[id];
    if (seen && pdl_tensor_elements(seen) == n)
        m->tensor[id] = pdl_build_tensor(m->b, v->name, v->role, type,
                                         seen->rank, seen->dim);
    else if (s->rank >= 0 && model_onnx_elements(s) == n)
        m->tensor[id] =
            pdl_build_tensor(m->b, v->name, v->role, type, s->rank, s->dim);
    else
        m->tensor[id] = pdl_build_tensor(m->b, v->name, v->role, type, 1, &n);
    return m->tensor[id];
}

static int constant_tensor(struct onnx_maker *m, const char *name,
                           const struct pdl_tensor *t)
{
    return pdl_build_tensor(m->b, name, PDL_TENSOR_CONST, t->dtype, t->rank,
                            t->dim);
}

int model_onnx_operand(struct onnx_maker *m, int id)
{
    const struct onnx_value *v = &m->g->values[id];
    struct pdl_tensor t;
    int from = id;

    model_onnx_sample(m->g, id, &t, NULL);
    for (int hops = 0; m->tensor[from] < 0 && hops < 64; hops++) {
        const struct onnx_value *f = &m->g->values[from];

        if (f->node < 0 || f->constant || !moves_only(&m->g->nodes[f->node]))
            break;
        from = m->g->nodes[f->node].in[0];
    }
    if (m->tensor[from] >= 0) {
        const struct pdl_tensor *have = pdl_build_get(m->b, m->tensor[from]);

        if (from == id || (have && model_same_shape(have, &t)))
            return m->tensor[from];
    }
    from = v->constant ? model_onnx_source(m->g, id) : -1;
    if (from >= 0 && (m->g->values[from].role == PDL_TENSOR_WEIGHT ||
                      m->g->values[from].role == PDL_TENSOR_BUFFER)) {
        int stored = stored_tensor(m, from, &t);
        const struct pdl_tensor *have = pdl_build_get(m->b, stored);

        if (have && model_same_shape(have, &t))
            return stored;
    }
    if (v->kind == ONNX_INPUT && v->data)
        m->tensor[id] = pdl_build_tensor(m->b, v->name, PDL_TENSOR_INPUT,
                                         t.dtype, t.rank, t.dim);
    else
        m->tensor[id] = constant_tensor(m, v->name, &t);
    return m->tensor[id];
}

/* ---- layers ----------------------------------------------------------- */

void model_onnx_input(struct onnx_layer *l, int id)
{
    if (l->nin < MODEL_MAX_IN)
        l->in[l->nin++] = model_onnx_operand(l->m, id);
}

void model_onnx_weight(struct onnx_layer *l, int id, int64_t want)
{
    struct onnx_maker *m = l->m;
    int source = model_onnx_source(m->g, id);
    int64_t n = -1;
    struct pdl_tensor seen;

    model_onnx_sample(m->g, id, &seen, NULL);
    if (source >= 0)
        n = m->g->values[source].elements >= 0
                ? m->g->values[source].elements
                : model_onnx_elements(&m->g->shape[source]);
    if (l->nw == PDL_OP_MAX_WEIGHTS)
        return;
    if (source >= 0 && (want < 0 || n == want)) {
        /* in its own shape, unless the reader sees it without ones in front */
        bool fewer = seen.rank < m->g->shape[source].rank;

        l->w[l->nw++] =
            stored_tensor(m, source, want < 0 || fewer ? &seen : NULL);
        return;
    }
    if (want >= 0) {
        seen.rank = 1;
        seen.dim[0] = want;
    }
    l->w[l->nw++] = constant_tensor(m, m->g->values[id].name, &seen);
}

static bool accepted(const struct onnx_layer *l)
{
    const struct pdl_op *op = pdl_op_find(l->op);
    struct model_operands o;
    struct pdl_tensor out[PDL_OP_MAX_OUT], in[MODEL_MAX_IN],
        w[PDL_OP_MAX_WEIGHTS];
    int nout = l->nout;

    if (!op)
        return false;
    for (int i = 0; i < l->nin + l->nw; i++) {
        int id = i < l->nin ? l->in[i] : l->w[i - l->nin];
        const struct pdl_tensor *t = pdl_build_get(l->m->b, id);

        if (!t)
            return false;
        if (i < l->nin)
            in[i] = *t;
        else
            w[i - l->nin] = *t;
    }
    for (int i = 0; i < l->nin; i++)
        o.in[i] = &in[i];
    for (int i = 0; i < l->nw; i++)
        o.w[i] = &w[i];
    o.use = (struct pdl_op_use){&l->attr, o.in, o.w, l->nin, l->nw};
    memcpy(out, l->out, (size_t)nout * sizeof *out);
    return model_infer(op, &o.use, out, &nout, NULL) == PDL_OK;
}

void model_onnx_blind(struct onnx_maker *m, const struct onnx_node *n)
{
    if (!m->blind)
        m->blind_at = n->nout > 0 && n->out[0] >= 0
                          ? m->g->values[n->out[0]].name
                          : n->name;
    m->blind = true;
}

static bool empty(const struct onnx_maker *m, int tensor)
{
    const struct pdl_tensor *t = pdl_build_get(m->b, tensor);

    return t && pdl_tensor_elements(t) == 0;
}

int model_onnx_emit(struct onnx_layer *l)
{
    struct pdl_build_spec spec = {.op = l->op,
                                  .name = l->name,
                                  .source_op = l->n->type,
                                  .attr = &l->attr,
                                  .in = l->in,
                                  .nin = l->nin,
                                  .weights = l->w,
                                  .nweights = l->nw,
                                  .out = l->out,
                                  .nout = l->nout};
    static const struct pdl_attr none;

    const struct pdl_op *op = pdl_op_find(l->op);
    bool fits = accepted(l);

    if (op && op->flops &&
        (!fits || pdl_tensor_elements(&l->out[0]) == 0 ||
         empty(l->m, l->in[0])))
        model_onnx_blind(l->m, l->n);
    if (!fits) {
        spec.op = "other";
        spec.attr = &none;
    }
    return fits && l->own ? model_build_own(l->m->b, &spec)
                          : pdl_build_node(l->m->b, &spec);
}

void model_onnx_outputs(struct onnx_layer *l, int first)
{
    int made = 0;

    for (int i = 0; i < l->n->nout && made < l->nout; i++)
        if (l->n->out[i] >= 0 && l->n->out[i] < l->m->g->nvalues)
            l->m->tensor[l->n->out[i]] =
                made++ == 0 ? first
                            : pdl_build_output(l->m->b, first, made - 1);
}

/* ---- which nodes ------------------------------------------------------ */

/* Nodes of a body that is not shown: the smaller branches. */
static void hide_bodies(struct onnx_maker *m, int owner)
{
    const struct onnx_node *n = &m->g->nodes[owner];
    int best = -1, most = -1;

    if (strcmp(n->type, "If") != 0)
        return;
    for (int b = 0; b < n->nbodies; b++)
        if (n->bodies[b].nodes > most) {
            most = n->bodies[b].nodes;
            best = b;
        }
    for (int b = 0; b < n->nbodies; b++)
        for (int i = 0; b != best && i < n->bodies[b].nodes; i++)
            m->skip[n->bodies[b].first + i] = true;
}

/* Rows of a table by stored indices: positions, usually. */
static bool looks_up(const struct onnx_graph *g, const struct onnx_node *n)
{
    int source = n->op->roles[0] == 't' && n->nin > 1 && n->in[0] >= 0
                     ? model_onnx_source(g, n->in[0])
                     : -1;

    return source >= 0 && g->values[source].role == PDL_TENSOR_WEIGHT &&
           n->in[1] >= 0 && model_onnx_elements(&g->shape[n->in[1]]) != 1;
}

/* Its second operand says where elements of the first are. */
static bool finds_by_data(const struct onnx_node *n)
{
    return n->op && n->nin > 1 && strncmp(n->type, "Gather", 6) == 0;
}

/* Counted from the data, not from their shape, and not known beforehand. */
static void find_counted(const struct onnx_graph *g, bool *counted)
{
    for (int i = 0; i < g->ninputs; i++)
        counted[g->inputs[i]] = g->values[g->inputs[i]].data;
    for (int i = 0; i < g->nnodes; i++) {
        const struct onnx_node *n = &g->nodes[i];
        bool from = false;

        for (int k = 0; k < n->nin; k++)
            from = from || (n->in[k] >= 0 && counted[n->in[k]] &&
                            !(n->op && model_onnx_role(n, k) == '.'));
        for (int k = 0; k < n->nout; k++)
            if (n->out[k] >= 0)
                counted[n->out[k]] = from && g->shape[n->out[k]].nval <= 0;
    }
}

/* Rows may be counted from the tokens: what does that is layers, although it
 * makes no features. */
static enum pdl_status find_rows(struct onnx_maker *m)
{
    const struct onnx_graph *g = m->g;
    bool *counted = PDL_NEW(g->arena, bool, g->nvalues + 1);

    if (!counted)
        return model_onnx_oom(m->g);
    find_counted(g, counted);
    for (int i = g->nnodes - 1; i >= 0; i--) {
        const struct onnx_node *n = &g->nodes[i];
        bool leads = false;

        for (int k = 0; k < n->nout; k++)
            leads = leads || (n->out[k] >= 0 && m->row[n->out[k]]);
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] >= 0 && counted[n->in[k]] &&
                (leads || (k == 1 && finds_by_data(n))))
                m->row[n->in[k]] = true;
    }
    return PDL_OK;
}

static bool computes(const struct onnx_maker *m, const struct onnx_node *n)
{
    const struct onnx_graph *g = m->g;
    bool data = false;

    if (!n->op)
        return true;
    if (strcmp(n->op->op, "-") == 0 || strcmp(n->op->op, "cast") == 0)
        return false;
    if (looks_up(g, n))
        return true;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i] >= 0)
            data = data || m->row[n->out[i]] ||
                   (g->values[n->out[i]].feature &&
                    !g->values[n->out[i]].constant);
    return data;
}

/* In a training graph what follows from a gradient is no layer: backward is
 * ours to derive. */
static void hide_backward(struct onnx_maker *m)
{
    struct onnx_graph *g = m->g;

    for (int i = 0; i < g->nvalues && g->training; i++)
        g->values[i].backward =
            g->values[i].node < 0 && strstr(g->values[i].name, "_grad");
    for (int i = 0; i < g->nnodes && g->training; i++) {
        const struct onnx_node *n = &g->nodes[i];
        bool back = strcmp(n->type, "YieldOp") == 0;

        for (int k = 0; k < n->nin && !back; k++)
            back = n->in[k] >= 0 && g->values[n->in[k]].backward;
        for (int k = 0; k < n->nout; k++)
            if (n->out[k] >= 0)
                g->values[n->out[k]].backward =
                    back || strstr(g->values[n->out[k]].name, "_grad");
        m->skip[i] = m->skip[i] || back;
    }
}

/* The middle of layers that are spelled out. */
static void hide_chains(struct onnx_maker *m)
{
    for (int i = 0; i < m->g->nnodes; i++) {
        struct onnx_fused f;

        if (!m->skip[i] && model_onnx_fused(m, &m->g->nodes[i], &f))
            for (int k = 0; k < f.n; k++)
                m->skip[f.node[k]] = true;
    }
}

static enum pdl_status plan(struct onnx_maker *m)
{
    struct onnx_graph *g = m->g;
    enum pdl_status st = find_rows(m);

    for (int i = 0; i < g->nvalues; i++)
        m->tensor[i] = m->reader[i] = -1;
    hide_backward(m);
    for (int i = 0; i < g->nnodes; i++) {
        const struct onnx_node *n = &g->nodes[i];

        m->skip[i] = m->skip[i] || !computes(m, n);
        hide_bodies(m, i);
        for (int k = 0; k < n->nin; k++)
            if (n->in[k] >= 0) {
                m->reader[n->in[k]] = m->reader[n->in[k]] == -1 ? i : -2;
                m->readers[n->in[k]]++;
            }
    }
    for (int i = 0; i < g->noutputs; i++) {
        m->reader[g->outputs[i]] = -2;
        m->readers[g->outputs[i]]++;
    }
    hide_chains(m);
    for (int i = 0; i < g->nnodes && st == PDL_OK; i++)
        if (!m->skip[i])
            st = model_onnx_lodge(m, &g->nodes[i]);
    return st;
}

/* Recurrences read [T, N, E] unless their layout says otherwise. */
static bool time_first(const struct onnx_graph *g, int id)
{
    for (int i = 0; i < g->nnodes; i++) {
        const struct onnx_node *n = &g->nodes[i];

        if (n->nin > 0 && n->in[0] == id && n->op &&
            strcmp(n->op->op, "rnn") == 0)
            return model_onnx_int(n, "layout", 0) == 0;
    }
    return false;
}

/* The batch of the first data input. */
static int64_t batch_of(const struct onnx_graph *g)
{
    for (int i = 0; i < g->ninputs; i++) {
        const struct onnx_shape *s = &g->shape[g->inputs[i]];
        int axis;

        if (!g->values[g->inputs[i]].data || s->rank < 2)
            continue;
        axis = time_first(g, g->inputs[i]) ? 1 : 0;
        if (s->dim[axis] > 0)
            return s->dim[axis];
    }
    return 1;
}

/* Length of the first input of tokens: [N, T] of integers. */
static int64_t tokens_of(const struct onnx_graph *g)
{
    for (int i = 0; i < g->ninputs; i++) {
        const struct onnx_shape *s = &g->shape[g->inputs[i]];

        if (g->values[g->inputs[i]].data && s->rank == 2 && s->dim[1] > 0 &&
            model_onnx_int_type(s->type))
            return s->dim[1];
    }
    return 0;
}

static void finish(struct onnx_maker *m)
{
    struct onnx_graph *g = m->g;
    bool named = false;

    for (int i = 0; i < g->nvalues; i++) /* what no layer shown reads */
        if (!m->merged[i] && (g->values[i].role == PDL_TENSOR_WEIGHT ||
                              g->values[i].role == PDL_TENSOR_BUFFER))
            stored_tensor(m, i, NULL);
    for (int i = 0; i < g->ndims && m->blind; i++)
        if (g->dims[i].used && g->dims[i].value < 0) {
            pdl_build_unbound(m->b, g->dims[i].name);
            named = true;
        }
    if (m->blind && !named)
        pdl_build_unbound(m->b, m->blind_at);
    pdl_build_meta(m->b,
                   m->attention ? "transformer"
                   : m->conv    ? "cnn"
                                : "other",
                   "ONNX", tokens_of(g), (int64_t)g->model->graph->n_node);
}

/* "models/resnet50.onnx" is called resnet50. */
static const char *base_name(struct onnx_graph *g)
{
    const char *slash = strrchr(g->name, '/');
    const char *base = slash ? slash + 1 : g->name, *dot = strrchr(base, '.');
    size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);

    return pdl_arena_strndup(g->arena, base, len);
}

enum pdl_status model_onnx_build(struct onnx_graph *g,
                                 const struct pdl_model **out)
{
    struct onnx_maker m = {.g = g};
    const char *name = base_name(g);
    enum pdl_status st;

    m.tensor = PDL_NEW(g->arena, int, g->nvalues + 1);
    m.reader = PDL_NEW(g->arena, int, g->nvalues + 1);
    m.readers = PDL_NEW(g->arena, int, g->nvalues + 1);
    m.skip = PDL_NEW(g->arena, bool, g->nnodes + 1);
    m.merged = PDL_NEW(g->arena, bool, g->nvalues + 1);
    m.row = PDL_NEW(g->arena, bool, g->nvalues + 1);
    m.labels = model_onnx_scope(g, -1);
    m.parents = model_onnx_scope(g, -1);
    m.b = name ? pdl_build_begin(g->arena, name) : NULL;
    if (!m.tensor || !m.reader || !m.readers || !m.skip || !m.merged ||
        !m.row || m.labels < 0 || m.parents < 0 || !m.b)
        return model_onnx_oom(g);
    st = plan(&m);
    if (st)
        return st;
    g->batch = batch_of(g);
    for (int i = 0; i < g->ninputs; i++)
        if (g->values[g->inputs[i]].data)
            model_onnx_operand(&m, g->inputs[i]);
    for (int i = 0; i < g->nnodes; i++) {
        if (!g->nodes[i].op)
            pdl_build_unknown(m.b, g->nodes[i].type);
        if (!m.skip[i])
            model_onnx_layer(&m, &g->nodes[i]);
    }
    finish(&m);
    st = pdl_build_end(m.b, out, g->err);
    return st == PDL_EINVAL ? PDL_EPARSE : st;
}
