/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder's nodes: operands looked up and checked, weights made where the
 * operator makes its own, outputs inferred or compared with what an importer
 * knows, and everything said with the node's name. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

/* Only carry_out leaves a repeated segment: every other tensor of it exists
 * once a round. */
bool model_readable(const struct pdl_tensor *tensors,
                    const struct pdl_segment *segments, int reader, int t)
{
    int s = tensors[t].segment;

    return s == reader || segments[s].repeat == 1 || segments[s].carry_out == t;
}

static bool check_ids(pdl_build *b, const struct pdl_build_spec *spec,
                      const int *ids, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= b->ntensors) {
            pdl_build_fail(b, PDL_EINVAL, "%.100s (%s): no %s %d", spec->name,
                           spec->op, what, ids[i]);
            return false;
        }
        if (!model_readable(b->tensors, b->segments, b->nsegments - 1,
                            ids[i])) {
            pdl_build_fail(b, PDL_EINVAL,
                           "%.100s (%s): reads '%.100s' inside a repeated "
                           "block",
                           spec->name, spec->op, b->tensors[ids[i]].name);
            return false;
        }
    }
    return true;
}

static const struct pdl_op *find_op(pdl_build *b, const char *name,
                                    const char *node)
{
    const struct pdl_op *op = pdl_op_find(name);
    struct pdl_suggest s;

    if (op)
        return op;
    pdl_build_fail(b, PDL_EINVAL, "%.100s: no operator '%.60s'", node, name);
    pdl_suggest_init(&s, name);
    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++)
        pdl_suggest_try(&s, op->name);
    if (pdl_suggest_best(&s))
        pdl_hint(&b->err, "did you mean '%s'?", pdl_suggest_best(&s));
    return NULL;
}

/* Puts "name (op): " before a message of the operator's. */
static void fail_at(pdl_build *b, const struct pdl_build_spec *spec,
                    enum pdl_status st, const struct pdl_err *inner)
{
    pdl_build_fail(b, st, "%.100s (%s): %s", spec->name, spec->op, inner->msg);
    if (*inner->hint)
        pdl_hint(&b->err, "%s", inner->hint);
}

/* The node's own copy of its ids, outputs behind the rest. */
static int *copy_ids(pdl_build *b, const struct pdl_build_spec *spec,
                     struct pdl_node *node, int nout)
{
    size_t n = (size_t)spec->nin + (size_t)spec->nweights;
    int *ids = PDL_NEW(b->arena, int, n + (size_t)nout);

    if (!ids) {
        model_build_no_memory(b);
        return NULL;
    }
    if (spec->nin)
        memcpy(ids, spec->in, (size_t)spec->nin * sizeof *ids);
    if (spec->nweights)
        memcpy(ids + spec->nin, spec->weights,
               (size_t)spec->nweights * sizeof *ids);
    node->in = ids;
    node->weights = ids + spec->nin;
    node->out = ids + n;
    node->nout = nout;
    return ids + n;
}

static enum pdl_status outputs(pdl_build *b, const struct pdl_build_spec *spec,
                               const struct pdl_node *node,
                               struct pdl_tensor *out, int *nout)
{
    struct model_operands operands;
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    model_operands(b->tensors, node, &operands);
    *nout = spec->nout;
    if (spec->nout)
        memcpy(out, spec->out, (size_t)spec->nout * sizeof *out);
    for (int i = 0; i < spec->nout; i++)
        if (!model_shape_valid(&out[i])) {
            pdl_build_fail(b, PDL_EINVAL,
                           "%.100s (%s): an output shape is too large",
                           spec->name, spec->op);
            return b->status;
        }
    st = model_infer(node->op, &operands.use, out, nout, &err);
    if (st != PDL_OK)
        fail_at(b, spec, st, &err);
    return st;
}

static bool add_outputs(pdl_build *b, const struct pdl_build_spec *spec,
                        struct pdl_node *node)
{
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    int nout = 0, *ids;

    if (outputs(b, spec, node, out, &nout) != PDL_OK)
        return false;
    ids = copy_ids(b, spec, node, nout);
    if (!ids)
        return false;
    for (int i = 0; i < nout; i++) {
        const char *name = i < spec->nout ? out[i].name : NULL;
        char index[16] = "";

        if (i > 0)
            snprintf(index, sizeof index, "%d", i);
        name = name ? pdl_arena_strdup(b->arena, name)
                    : pdl_arena_printf(b->arena, "%s.y%s", node->name, index);
        if (!name) {
            model_build_no_memory(b);
            return false;
        }
        out[i].name = name;
        out[i].kind = PDL_TENSOR_ACTIVATION;
        ids[i] = model_build_add(b, &out[i]);
        if (ids[i] < 0)
            return false;
    }
    return true;
}

/* Of windows, 0 stands for 1: later readers find it spelled out. */
static void spell_out(struct pdl_attr *attr)
{
    for (int i = 0; i < PDL_MAX_SPATIAL && attr->kernel[i]; i++) {
        attr->stride[i] = model_or1(attr->stride[i]);
        attr->dilation[i] = model_or1(attr->dilation[i]);
    }
    if (attr->kernel[0] && attr->features)
        attr->groups = model_or1(attr->groups);
}

/* Fills a node except for its outputs. */
static bool describe(pdl_build *b, const struct pdl_build_spec *spec,
                     struct pdl_node *node)
{
    static const struct pdl_attr none;

    if (!spec->name || !spec->op) {
        pdl_build_fail(b, PDL_EINVAL, "a node needs a name and an operator");
        return false;
    }
    node->op = find_op(b, spec->op, spec->name);
    if (!node->op || !check_ids(b, spec, spec->in, spec->nin, "input") ||
        !check_ids(b, spec, spec->weights, spec->nweights, "weight"))
        return false;
    node->attr = spec->attr ? *spec->attr : none;
    spell_out(&node->attr);
    if (spec->nin > MODEL_MAX_IN || spec->nweights > PDL_OP_MAX_WEIGHTS ||
        spec->nout > PDL_OP_MAX_OUT || node->attr.ndims < 0 ||
        node->attr.ndims > PDL_MAX_RANK) {
        pdl_build_fail(b, PDL_EINVAL,
                       "%.100s (%s): too many operands, outputs or dims",
                       spec->name, spec->op);
        return false;
    }
    node->in = spec->in; /* for now: copied once the outputs are known */
    node->weights = spec->weights;
    node->nin = spec->nin;
    node->nweights = spec->nweights;
    node->name = pdl_arena_strdup(b->arena, spec->name);
    if (spec->source_op)
        node->source_op = pdl_arena_strdup(b->arena, spec->source_op);
    if (!node->name || (spec->source_op && !node->source_op)) {
        model_build_no_memory(b);
        return false;
    }
    return true;
}

int pdl_build_node(pdl_build *b, const struct pdl_build_spec *spec)
{
    struct pdl_node node = {.nin = 0};
    void *p;

    if (!model_build_ok(b))
        return -1;
    p = b->nodes;
    if (!model_build_room(b, &p, b->nnodes, &b->cap_nodes, sizeof *b->nodes))
        return model_build_no_memory(b);
    b->nodes = p;
    if (!describe(b, spec, &node) || !add_outputs(b, spec, &node))
        return -1;
    b->nodes[b->nnodes++] = node;
    b->segments[b->nsegments - 1].nnodes++;
    return node.out[0];
}

/* Makes the weights an operator asks for. */
static int make_weights(pdl_build *b, const struct pdl_op *op,
                        const struct pdl_build_spec *spec, int *ids)
{
    static const struct pdl_attr none;
    struct pdl_tensor w[PDL_OP_MAX_WEIGHTS], x;
    int n;

    if (!op->weights || spec->nin < 1)
        return 0;
    x = b->tensors[spec->in[0]];
    n = op->weights(spec->attr ? spec->attr : &none, &x, w);
    for (int i = 0; i < n; i++) {
        w[i].name = pdl_arena_printf(b->arena, "%s.%s", spec->name, w[i].name);
        /* token ids: the table is not made of integers */
        w[i].dtype = x.dtype > PDL_F4 ? PDL_F32 : x.dtype;
        if (!w[i].name)
            return model_build_no_memory(b);
        ids[i] = model_build_add(b, &w[i]);
        if (ids[i] < 0)
            return -1;
    }
    return n;
}

int model_build_own(pdl_build *b, const struct pdl_build_spec *spec)
{
    struct pdl_build_spec full = *spec;
    int weights[PDL_OP_MAX_WEIGHTS];
    const struct pdl_op *op;

    if (!model_build_ok(b))
        return -1;
    op = find_op(b, spec->op, spec->name);
    if (!op || !check_ids(b, spec, spec->in, spec->nin, "input"))
        return -1;
    full.weights = weights;
    full.nweights = make_weights(b, op, spec, weights);
    return full.nweights < 0 ? -1 : pdl_build_node(b, &full);
}

int pdl_build_op(pdl_build *b, const char *op, const char *name,
                 const struct pdl_attr *attr, const int *in, int nin)
{
    struct pdl_build_spec spec = {
        .op = op, .name = name, .attr = attr, .in = in, .nin = nin};

    return model_build_own(b, &spec);
}
