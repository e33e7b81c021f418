/* SPDX-License-Identifier: Apache-2.0
 *
 * From the file to one flat list of values and nodes. Nodes of subgraphs (If,
 * Loop, Scan, fused operators that carry a decoder) stand in the list before
 * the node that owns them; a call of a model function is replaced by the
 * function's nodes. Constants become stored values and are no nodes here.
 *
 * Limits: nodes and nesting are bounded, since functions that call functions
 * can grow without bound. */
#include "onnx_priv.h"

#include <stdio.h>

enum { MAX_NODES = 1 << 20, MAX_NEST = 64 };

static void *arena_alloc(void *arena, size_t size)
{
    return pdl_arena_alloc(arena, 1, size);
}

static void arena_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

enum pdl_status model_onnx_unpack(struct onnx_graph *g, struct pdl_bytes in)
{
    ProtobufCAllocator alloc = {arena_alloc, arena_free, g->arena};
    struct pdl_buf small;
    enum pdl_status st;

    pdl_buf_init(&small);
    st = model_onnx_strip(in, g->name, &small, g->err);
    if (st == PDL_OK) {
        g->model =
            onnx__model__unpack(&alloc, small.len, (const uint8_t *)small.text);
        if (!g->model)
            st = pdl_fail(g->err, PDL_EPARSE,
                          "%s: not an ONNX model, or too large", g->name);
        else if (!g->model->graph)
            st = pdl_fail(g->err, PDL_EPARSE,
                          "%s: not an ONNX model: it has no graph", g->name);
    }
    pdl_buf_free(&small);
    return st;
}

struct opsets {
    Onnx__OpsetId *const *list;
    size_t n;
};

/* Where nodes are being read. */
struct place {
    int scope, depth;
    bool top;
    const struct onnx_frame *frame;
    struct opsets opsets;
};

static enum pdl_status read_graph(struct onnx_graph *g, const Onnx__Graph *src,
                                  const struct place *at,
                                  struct onnx_body *body);

static bool same(ProtobufCBinaryData a, ProtobufCBinaryData b)
{
    return a.len == b.len && (a.len == 0 || !memcmp(a.data, b.data, a.len));
}

static bool standard(ProtobufCBinaryData d)
{
    return d.len == 0 || (d.len == 7 && !memcmp(d.data, "ai.onnx", 7));
}

static int64_t opset_of(const struct place *at, ProtobufCBinaryData domain)
{
    for (size_t i = 0; i < at->opsets.n; i++) {
        const Onnx__OpsetId *o = at->opsets.list[i];

        if (same(o->domain, domain) ||
            (standard(o->domain) && standard(domain)))
            return o->version;
    }
    return 1;
}

/* "domain::name" of a function; false: longer than any real one. */
static bool function_key(ProtobufCBinaryData domain, ProtobufCBinaryData name,
                         char *buf, size_t size, ProtobufCBinaryData *key)
{
    if (domain.len + name.len + 3 > size)
        return false;
    snprintf(buf, size, "%.*s::%.*s", (int)domain.len,
             domain.len ? (const char *)domain.data : "", (int)name.len,
             name.len ? (const char *)name.data : "");
    key->data = (uint8_t *)buf;
    key->len = strlen(buf);
    return true;
}

static const Onnx__Function *find_function(const struct onnx_graph *g,
                                           const Onnx__Node *n)
{
    ProtobufCBinaryData key;
    char buf[512];
    int i = -1;

    if (g->model->n_functions > 0 &&
        function_key(n->domain, n->op_type, buf, sizeof buf, &key))
        i = model_onnx_lookup(g, g->functions, key, false);
    return i < 0 ? NULL : g->model->functions[i];
}

static enum pdl_status name_functions(struct onnx_graph *g)
{
    g->functions = model_onnx_scope(g, -1);
    if (g->functions < 0)
        return model_onnx_oom(g);
    for (size_t i = 0; i < g->model->n_functions; i++) {
        const Onnx__Function *f = g->model->functions[i];
        ProtobufCBinaryData key;
        char buf[512];
        enum pdl_status st = PDL_OK;

        if (function_key(f->domain, f->name, buf, sizeof buf, &key) &&
            model_onnx_lookup(g, g->functions, key, false) < 0)
            st = model_onnx_alias(g, g->functions, key, (int)i);
        if (st)
            return st;
    }
    return PDL_OK;
}

static enum pdl_status add_node(struct onnx_graph *g, int *id)
{
    if (g->nnodes == MAX_NODES)
        return pdl_fail(g->err, PDL_EPARSE, "%s: more than %d nodes", g->name,
                        MAX_NODES);
    if (g->nnodes == g->ncap) {
        int cap = g->ncap ? 2 * g->ncap : 256;
        struct onnx_node *p = pdl_arena_grow(
            g->arena, g->nodes, (size_t)g->nnodes, (size_t)cap, sizeof *p);

        if (!p)
            return model_onnx_oom(g);
        g->nodes = p;
        g->ncap = cap;
    }
    *id = g->nnodes++;
    return PDL_OK;
}

/* The ids of the values a node reads. */
static enum pdl_status resolve(struct onnx_graph *g, const struct place *at,
                               struct onnx_node *n)
{
    n->nin = (int)n->src->n_input;
    n->in = PDL_NEW(g->arena, int, n->nin + 1);
    if (!n->in)
        return model_onnx_oom(g);
    for (int i = 0; i < n->nin; i++) {
        ProtobufCBinaryData name = n->src->input[i];

        n->in[i] = model_onnx_lookup(g, at->scope, name, true);
        if (n->in[i] < 0 && name.len > 0) {
            const char *text;
            enum pdl_status st = model_onnx_text(g, name, &text);

            return st ? st
                      : pdl_fail(g->err, PDL_EPARSE,
                                 "%s: node '%.100s' (%.60s) reads '%.100s', "
                                 "which nothing before it makes",
                                 g->name, n->name, n->type, text);
        }
    }
    return PDL_OK;
}

static enum pdl_status make_outputs(struct onnx_graph *g,
                                    const struct place *at, struct onnx_node *n,
                                    int id)
{
    n->nout = (int)n->src->n_output;
    n->out = PDL_NEW(g->arena, int, n->nout + 1);
    if (!n->out)
        return model_onnx_oom(g);
    for (int i = 0; i < n->nout; i++) {
        enum pdl_status st;

        n->out[i] = -1;
        if (n->src->output[i].len == 0)
            continue;
        st = model_onnx_declare(g, at->scope, n->src->output[i], &n->out[i]);
        if (st)
            return st;
        g->values[n->out[i]].node = id;
        g->values[n->out[i]].slot = i;
    }
    return PDL_OK;
}

static enum pdl_status read_body(struct onnx_graph *g, const struct place *at,
                                 const Onnx__Attribute *a,
                                 const Onnx__Graph *src, struct onnx_body *body)
{
    struct place inner = *at;
    enum pdl_status st = PDL_OK;

    inner.scope = model_onnx_scope(g, at->scope);
    if (inner.scope < 0)
        return model_onnx_oom(g);
    inner.depth++;
    inner.top = false;
    body->attr = NULL;
    if (a->has_name)
        st = model_onnx_text(g, a->name, &body->attr);
    if (st)
        return st;
    body->first = g->nnodes;
    st = read_graph(g, src, &inner, body);
    body->nodes = g->nnodes - body->first;
    return st;
}

static enum pdl_status read_bodies(struct onnx_graph *g, const struct place *at,
                                   struct onnx_node *n)
{
    int count = 0;

    for (size_t i = 0; i < n->src->n_attribute; i++)
        count += (n->src->attribute[i]->g ? 1 : 0) +
                 (int)n->src->attribute[i]->n_graphs;
    n->nbodies = 0;
    n->bodies = NULL;
    if (count == 0)
        return PDL_OK;
    n->bodies = PDL_NEW(g->arena, struct onnx_body, count);
    if (!n->bodies)
        return model_onnx_oom(g);
    for (size_t i = 0; i < n->src->n_attribute; i++) {
        const Onnx__Attribute *a = n->src->attribute[i];
        enum pdl_status st = PDL_OK;

        if (a->g)
            st = read_body(g, at, a, a->g, &n->bodies[n->nbodies++]);
        for (size_t k = 0; k < a->n_graphs && st == PDL_OK; k++)
            st = read_body(g, at, a, a->graphs[k], &n->bodies[n->nbodies++]);
        if (st)
            return st;
    }
    return PDL_OK;
}

/* What goes round a loop enters the body where it enters the node: Loop has
 * the trip count and the condition in front in both. */
static void link_bodies(struct onnx_graph *g, const struct onnx_node *n)
{
    bool loop = strcmp(n->type, "Loop") == 0;
    int64_t scans = model_onnx_int(n, "num_scan_inputs", 0);

    if (!loop && strcmp(n->type, "Scan") != 0)
        return;
    for (int b = 0; b < n->nbodies; b++)
        for (int i = loop ? 2 : 0; i < n->bodies[b].nin && i < n->nin; i++)
            if (n->in[i] >= 0 && (loop || i < n->nin - scans))
                g->values[n->bodies[b].in[i]].outer = n->in[i];
}

/* Optimisers write the same Constant twice; that much is let pass. */
static bool again(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->kind == ONNX_STORED && a->node < 0 &&
           a->stored.type == b->stored.type && a->elements == b->elements &&
           a->stored.rank == b->stored.rank;
}

static enum pdl_status read_constant(struct onnx_graph *g,
                                     const struct place *at,
                                     const struct onnx_node *n)
{
    struct onnx_value v = {.name = "", .node = -1};
    enum pdl_status st;
    int id = -1, old;

    if (n->src->n_output == 0 || n->src->output[0].len == 0)
        return PDL_OK;
    st = model_onnx_constant(g, n, &v);
    old = model_onnx_lookup(g, at->scope, n->src->output[0], false);
    if (st || (old >= 0 && again(&g->values[old], &v)))
        return st;
    st = model_onnx_declare(g, at->scope, n->src->output[0], &id);
    return st ? st : model_onnx_constant(g, n, &g->values[id]);
}

static enum pdl_status read_nodes(struct onnx_graph *g,
                                  Onnx__Node *const *nodes, size_t count,
                                  const struct place *at);

/* The function's names see nothing but its inputs; its outputs become the
 * outputs of the call. */
static enum pdl_status inline_call(struct onnx_graph *g,
                                   const Onnx__Function *f,
                                   const struct onnx_node *n,
                                   const struct place *at)
{
    struct place inner = {.depth = at->depth + 1, .top = false};
    struct onnx_frame *frame = PDL_NEW(g->arena, struct onnx_frame, 1);
    enum pdl_status st = PDL_OK;

    inner.scope = model_onnx_scope(g, -1);
    if (!frame || inner.scope < 0)
        return model_onnx_oom(g);
    *frame = (struct onnx_frame){n->src, f, at->frame};
    inner.frame = frame;
    inner.opsets = (struct opsets){f->opset_import, f->n_opset_import};
    if (f->n_opset_import == 0)
        inner.opsets = at->opsets;
    for (size_t i = 0; i < f->n_input && i < (size_t)n->nin && !st; i++)
        if (n->in[i] >= 0)
            st = model_onnx_alias(g, inner.scope, f->input[i], n->in[i]);
    if (st == PDL_OK)
        st = read_nodes(g, f->node, f->n_node, &inner);
    for (size_t i = 0; i < f->n_output && i < n->src->n_output && !st; i++) {
        int v = model_onnx_lookup(g, inner.scope, f->output[i], false);

        if (v < 0)
            return pdl_fail(g->err, PDL_EPARSE,
                            "%s: function '%.100s' does not make its output",
                            g->name, n->type);
        st = model_onnx_alias(g, at->scope, n->src->output[i], v);
    }
    return st;
}

static enum pdl_status describe(struct onnx_graph *g, const struct place *at,
                                const Onnx__Node *src, struct onnx_node *n)
{
    const char *domain;
    enum pdl_status st;

    *n = (struct onnx_node){.src = src, .frame = at->frame, .top = at->top};
    n->opset = opset_of(at, src->domain);
    if (src->n_input > INT16_MAX || src->n_output > INT16_MAX)
        return pdl_fail(g->err, PDL_EPARSE,
                        "%s: a node has more than %d operands", g->name,
                        INT16_MAX);
    st = model_onnx_text(g, src->name, &n->name);
    if (st == PDL_OK)
        st = model_onnx_text(g, src->op_type, &n->type);
    if (st == PDL_OK)
        st = model_onnx_text(g, src->domain, &domain);
    if (st)
        return st;
    if (n->type[0] == '\0')
        return pdl_fail(g->err, PDL_EPARSE, "%s: node '%.100s' has no operator",
                        g->name, n->name);
    n->op = model_onnx_op(standard(src->domain) ? "" : domain, n->type);
    return resolve(g, at, n);
}

static enum pdl_status read_node(struct onnx_graph *g, const Onnx__Node *src,
                                 const struct place *at)
{
    struct onnx_node n;
    const Onnx__Function *f = find_function(g, src);
    enum pdl_status st = describe(g, at, src, &n);
    int id = -1;

    if (st)
        return st;
    if (f)
        return inline_call(g, f, &n, at);
    if (strcmp(n.type, "Constant") == 0 && standard(src->domain))
        return read_constant(g, at, &n);
    st = read_bodies(g, at, &n);
    if (st == PDL_OK)
        link_bodies(g, &n);
    if (st == PDL_OK)
        st = add_node(g, &id);
    if (st == PDL_OK)
        st = make_outputs(g, at, &n, id);
    if (st == PDL_OK)
        g->nodes[id] = n;
    return st;
}

static enum pdl_status read_nodes(struct onnx_graph *g,
                                  Onnx__Node *const *nodes, size_t count,
                                  const struct place *at)
{
    const int *order = NULL;
    enum pdl_status st;

    if (at->depth > MAX_NEST)
        return pdl_fail(g->err, PDL_EPARSE, "%s: graphs are nested too deeply",
                        g->name);
    st = model_onnx_order(g, nodes, count, &order);
    for (size_t i = 0; i < count && st == PDL_OK; i++)
        st = read_node(g, nodes[order[i]], at);
    return st;
}

static enum pdl_status read_initializers(struct onnx_graph *g,
                                         const Onnx__Graph *src, int scope)
{
    enum pdl_status st = PDL_OK;
    int id = -1;

    for (size_t i = 0; i < src->n_initializer && st == PDL_OK; i++) {
        const Onnx__Tensor *t = src->initializer[i];

        st = model_onnx_declare(g, scope, t->name, &id);
        if (st == PDL_OK)
            st = model_onnx_tensor(g, t, g->values[id].name, &g->values[id]);
    }
    for (size_t i = 0; i < src->n_sparse_initializer && st == PDL_OK; i++) {
        const Onnx__SparseTensor *s = src->sparse_initializer[i];
        ProtobufCBinaryData none = {0};

        st = model_onnx_declare(g, scope, s->values ? s->values->name : none,
                                &id);
        if (st == PDL_OK)
            st = model_onnx_sparse(g, s, &g->values[id]);
    }
    return st;
}

/* Inputs that are not initializers too (old files list all of them). */
static enum pdl_status read_inputs(struct onnx_graph *g, const Onnx__Graph *src,
                                   const struct place *at,
                                   struct onnx_body *body)
{
    body->in = PDL_NEW(g->arena, int, src->n_input + 1);
    if (!body->in)
        return model_onnx_oom(g);
    for (size_t i = 0; i < src->n_input; i++) {
        const Onnx__ValueInfo *info = src->input[i];
        int id = model_onnx_lookup(g, at->scope, info->name, false);
        enum pdl_status st;

        if (id >= 0 && g->values[id].kind == ONNX_STORED) {
            g->values[id].type = info->type;
            continue;
        }
        st = model_onnx_declare(g, at->scope, info->name, &id);
        if (st)
            return st;
        g->values[id].type = info->type;
        if (at->top)
            g->values[id].kind = ONNX_INPUT;
        body->in[body->nin++] = id;
    }
    return PDL_OK;
}

static enum pdl_status read_outputs(struct onnx_graph *g,
                                    const Onnx__Graph *src, int scope,
                                    struct onnx_body *body)
{
    body->out = PDL_NEW(g->arena, int, src->n_output + 1);
    if (!body->out)
        return model_onnx_oom(g);
    for (size_t i = 0; i < src->n_output; i++) {
        const Onnx__ValueInfo *info = src->output[i];
        int id = model_onnx_lookup(g, scope, info->name, true);

        if (id < 0)
            return pdl_fail(g->err, PDL_EPARSE,
                            "%s: output %zu of the graph is made by no node",
                            g->name, i);
        if (!g->values[id].type)
            g->values[id].type = info->type;
        body->out[body->nout++] = id;
    }
    for (size_t i = 0; i < src->n_value_info; i++) {
        int id = model_onnx_lookup(g, scope, src->value_info[i]->name, false);

        if (id >= 0 && !g->values[id].type)
            g->values[id].type = src->value_info[i]->type;
    }
    return PDL_OK;
}

static enum pdl_status read_graph(struct onnx_graph *g, const Onnx__Graph *src,
                                  const struct place *at,
                                  struct onnx_body *body)
{
    enum pdl_status st = read_initializers(g, src, at->scope);

    if (st == PDL_OK)
        st = read_inputs(g, src, at, body);
    if (st == PDL_OK)
        st = read_nodes(g, src->node, src->n_node, at);
    if (st == PDL_OK)
        st = read_outputs(g, src, at->scope, body);
    return st;
}

enum pdl_status model_onnx_flatten(struct onnx_graph *g)
{
    struct place at = {.top = true};
    struct onnx_body body = {0};
    enum pdl_status st;

    at.opsets =
        (struct opsets){g->model->opset_import, g->model->n_opset_import};
    at.scope = model_onnx_scope(g, -1);
    if (at.scope < 0)
        return model_onnx_oom(g);
    st = name_functions(g);
    if (st == PDL_OK)
        st = read_graph(g, g->model->graph, &at, &body);
    g->inputs = body.in;
    g->ninputs = body.nin;
    g->outputs = body.out;
    g->noutputs = body.nout;
    return st;
}
