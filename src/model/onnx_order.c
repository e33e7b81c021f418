/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a graph's nodes. ONNX demands that they are sorted, but files
 * rewritten by optimisers often are not, and every runtime sorts them anyway.
 * Depth-first over what a node reads, itself or in its subgraphs, on an
 * explicit stack; nodes already in order stay where they are. Cycles fail. */
#include "onnx_priv.h"

struct order {
    struct onnx_graph *g;
    int scope;        /* names of outputs -> index of the node */
    int *start, *dep; /* dep[start[i] .. start[i + 1]) */
    int ndeps, cap;
    bool inner; /* look into subgraphs too */
    bool failed;
};

static void add_dep(struct order *o, ProtobufCBinaryData name)
{
    int id = model_onnx_lookup(o->g, o->scope, name, false);

    if (id < 0 || o->failed)
        return;
    if (o->ndeps == o->cap) {
        int cap = o->cap ? 2 * o->cap : 256;
        int *p = pdl_arena_grow(o->g->arena, o->dep, (size_t)o->ndeps,
                                (size_t)cap, sizeof *p);

        o->failed = !p;
        if (!p)
            return;
        o->dep = p;
        o->cap = cap;
    }
    o->dep[o->ndeps++] = id;
}

/* Everything a node reads, subgraphs included. A name of an inner scope that
 * hides one of ours adds an edge that is not there; should that close a cycle,
 * subgraphs are left out. */
// NOLINTNEXTLINE(misc-no-recursion): the wire walk bounds the nesting
static void node_deps(struct order *o, const Onnx__Node *n)
{
    for (size_t i = 0; i < n->n_input; i++)
        add_dep(o, n->input[i]);
    for (size_t i = 0; i < n->n_attribute && o->inner; i++) {
        const Onnx__Attribute *a = n->attribute[i];

        for (size_t k = 0; a->g && k < a->g->n_node; k++)
            node_deps(o, a->g->node[k]);
        for (size_t k = 0; a->g && k < a->g->n_output; k++)
            add_dep(o, a->g->output[k]->name);
        for (size_t j = 0; j < a->n_graphs; j++)
            for (size_t k = 0; k < a->graphs[j]->n_node; k++)
                node_deps(o, a->graphs[j]->node[k]);
    }
}

static enum pdl_status collect(struct order *o, Onnx__Node *const *nodes, int n)
{
    o->scope = model_onnx_scope(o->g, -1);
    o->start = PDL_NEW(o->g->arena, int, n + 1);
    if (o->scope < 0 || !o->start)
        return model_onnx_oom(o->g);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i]->n_output; k++) {
            ProtobufCBinaryData name = nodes[i]->output[k];
            enum pdl_status st = PDL_OK;

            if (model_onnx_lookup(o->g, o->scope, name, false) < 0)
                st = model_onnx_alias(o->g, o->scope, name, i);
            if (st)
                return st;
        }
    for (int i = 0; i < n; i++) {
        o->start[i] = o->ndeps;
        node_deps(o, nodes[i]);
    }
    o->start[n] = o->ndeps;
    return o->failed ? model_onnx_oom(o->g) : PDL_OK;
}

static enum pdl_status cycle(const struct order *o, const Onnx__Node *n)
{
    const char *name;
    enum pdl_status st =
        model_onnx_text(o->g, n->n_output ? n->output[0] : n->name, &name);

    return st ? st
              : pdl_fail(o->g->err, PDL_EPARSE,
                         "%s: the graph has a cycle through '%.200s'",
                         o->g->name, name);
}

/* state: 0 not seen, 1 on the stack, 2 done; at: next dependency to look at */
static enum pdl_status visit(struct order *o, Onnx__Node *const *nodes,
                             int *work, int n, int *out)
{
    int *state = work, *at = state + n, *stack = at + n, made = 0;

    for (int root = 0; root < n; root++) {
        int top = 0;

        if (state[root])
            continue;
        stack[top++] = root;
        while (top > 0) {
            int i = stack[top - 1], next = -1;

            if (state[i] == 0) {
                state[i] = 1;
                at[i] = o->start[i];
            }
            while (o->dep && at[i] < o->start[i + 1] && next < 0) {
                int d = o->dep[at[i]++];

                if (state[d] == 1)
                    return cycle(o, nodes[d]);
                next = state[d] == 0 ? d : -1;
            }
            if (next >= 0) {
                stack[top++] = next;
                continue;
            }
            state[i] = 2;
            out[made++] = i;
            top--;
        }
    }
    return PDL_OK;
}

enum pdl_status model_onnx_order(struct onnx_graph *g, Onnx__Node *const *nodes,
                                 size_t count, const int **out)
{
    struct order o = {.g = g, .inner = true};
    int *order = PDL_NEW(g->arena, int, count + 1);
    int *work = PDL_NEW(g->arena, int, 3 * count + 1);
    enum pdl_status st = PDL_OK;

    if (count > (1U << 20))
        return pdl_fail(g->err, PDL_EPARSE, "%s: too many nodes", g->name);
    if (!order || !work)
        return model_onnx_oom(g);
    for (int attempt = 0; attempt < 2; attempt++) {
        st = collect(&o, nodes, (int)count);
        if (st == PDL_OK)
            st = visit(&o, nodes, work, (int)count, order);
        if (st != PDL_EPARSE)
            break;
        o = (struct order){.g = g};
        memset(work, 0, (3 * count + 1) * sizeof *work);
    }
    *out = order;
    return st;
}
