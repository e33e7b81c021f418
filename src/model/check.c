/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves a model sound, whoever made it: ids in range, every tensor made once
 * and before it is read, segments that tile the nodes and hand on what they
 * say, shapes that inference gives again. Linear in the nodes. */
#include "model_priv.h"

#include <stdlib.h>
#include <string.h>

static enum pdl_status check_tensors(const struct pdl_model *m,
                                     struct pdl_err *err)
{
    for (int i = 0; i < m->ntensors; i++) {
        const struct pdl_tensor *t = &m->tensors[i];

        if (!t->name || !model_shape_valid(t) ||
            (unsigned)t->kind > PDL_TENSOR_CONST ||
            (unsigned)t->dtype > PDL_OTHER)
            return pdl_fail(err, PDL_EWRONG,
                            "%s: tensor %d has no name, kind, type or shape",
                            m->name, i);
        if (t->segment < 0 || t->segment >= m->nsegments)
            return pdl_fail(err, PDL_EWRONG,
                            "%s: '%.100s' is in segment %d of "
                            "%d",
                            m->name, t->name, t->segment, m->nsegments);
    }
    return PDL_OK;
}

static enum pdl_status check_segment(const struct pdl_model *m, int s,
                                     struct pdl_err *err)
{
    const struct pdl_segment *g = &m->segments[s];
    bool in = g->carry_in >= 0 && g->carry_in < m->ntensors;
    bool out = g->carry_out >= 0 && g->carry_out < m->ntensors;

    if (g->repeat < 1 || g->nnodes < 0 || g->first_index < 0)
        return pdl_fail(err, PDL_EWRONG, "%s: segment %d repeats %lld times",
                        m->name, s, (long long)g->repeat);
    if (g->repeat == 1 && g->carry_in == -1 && g->carry_out == -1)
        return PDL_OK;
    if (!in || !out || m->tensors[g->carry_in].segment >= s ||
        m->tensors[g->carry_out].segment != s ||
        !model_same_shape(&m->tensors[g->carry_in], &m->tensors[g->carry_out]))
        return pdl_fail(err, PDL_EWRONG,
                        "%s: segment %d does not hand on what it takes",
                        m->name, s);
    return PDL_OK;
}

static enum pdl_status check_segments(const struct pdl_model *m,
                                      struct pdl_err *err)
{
    int64_t next = 0;

    for (int s = 0; s < m->nsegments; s++) {
        enum pdl_status st = check_segment(m, s, err);

        if (st != PDL_OK)
            return st;
        if (m->segments[s].first_node != next)
            return pdl_fail(
                err, PDL_EWRONG, "%s: segment %d starts at node %d, not %lld",
                m->name, s, m->segments[s].first_node, (long long)next);
        next += m->segments[s].nnodes;
    }
    if (m->nsegments < 1 || next != m->nnodes)
        return pdl_fail(err, PDL_EWRONG,
                        "%s: the segments hold %lld of %d nodes", m->name,
                        (long long)next, m->nnodes);
    return PDL_OK;
}

static enum pdl_status bad(const struct pdl_model *m, const struct pdl_node *n,
                           const char *what, int id, struct pdl_err *err)
{
    return pdl_fail(err, PDL_EWRONG, "%s: %.100s %s %d", m->name, n->name, what,
                    id);
}

static enum pdl_status check_reads(const struct pdl_model *m, int s,
                                   const struct pdl_node *n, const char *made,
                                   struct pdl_err *err)
{
    for (int i = 0; i < n->nin + n->nweights; i++) {
        int id = i < n->nin ? n->in[i] : n->weights[i - n->nin];

        if (id < 0 || id >= m->ntensors)
            return bad(m, n, "reads no tensor", id, err);
        if (m->tensors[id].kind == PDL_TENSOR_ACTIVATION &&
            (!made[id] || i >= n->nin))
            return bad(m, n, "reads before it is made tensor", id, err);
        if (m->tensors[id].segment > s ||
            !model_readable(m->tensors, m->segments, s, id))
            return bad(m, n, "reads inside another segment tensor", id, err);
    }
    return PDL_OK;
}

static enum pdl_status check_writes(const struct pdl_model *m, int s,
                                    const struct pdl_node *n, char *made,
                                    struct pdl_err *err)
{
    for (int i = 0; i < n->nout; i++) {
        int id = n->out[i];

        if (id < 0 || id >= m->ntensors)
            return bad(m, n, "makes no tensor", id, err);
        if (m->tensors[id].kind != PDL_TENSOR_ACTIVATION || made[id] ||
            m->tensors[id].segment != s)
            return bad(m, n, "makes a second time tensor", id, err);
        made[id] = 1;
    }
    return PDL_OK;
}

static enum pdl_status check_shapes(const struct pdl_model *m,
                                    const struct pdl_node *n,
                                    struct pdl_err *err)
{
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    struct model_operands operands;
    struct pdl_err inner = {"", ""};
    int nout = n->nout;

    for (int i = 0; i < nout; i++)
        out[i] = m->tensors[n->out[i]];
    model_operands(m->tensors, n, &operands);
    if (model_infer(n->op, &operands.use, out, &nout, &inner) == PDL_OK)
        return PDL_OK;
    return pdl_fail(err, PDL_EWRONG, "%s: %.100s (%s): %.200s", m->name,
                    n->name, n->op->name, inner.msg);
}

static enum pdl_status check_node(const struct pdl_model *m, int s, int i,
                                  char *made, struct pdl_err *err)
{
    const struct pdl_node *n = &m->nodes[i];
    enum pdl_status st;

    if (!n->name || !n->op || n->nin < 0 || n->nin > MODEL_MAX_IN ||
        n->nweights < 0 || n->nweights > PDL_OP_MAX_WEIGHTS || n->nout < 1 ||
        n->nout > PDL_OP_MAX_OUT || n->attr.ndims < 0 ||
        n->attr.ndims > PDL_MAX_RANK)
        return pdl_fail(err, PDL_EWRONG, "%s: node %d is malformed", m->name,
                        i);
    st = check_reads(m, s, n, made, err);
    if (st == PDL_OK)
        st = check_writes(m, s, n, made, err);
    if (st == PDL_OK)
        st = check_shapes(m, n, err);
    return st;
}

enum pdl_status pdl_model_check(const struct pdl_model *m, struct pdl_err *err)
{
    enum pdl_status st = check_tensors(m, err);
    char *made;

    if (st == PDL_OK)
        st = check_segments(m, err);
    if (st != PDL_OK)
        return st;
    made = calloc((size_t)m->ntensors + 1, 1);
    if (!made)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int s = 0; s < m->nsegments && st == PDL_OK; s++)
        for (int i = 0; i < m->segments[s].nnodes && st == PDL_OK; i++)
            st = check_node(m, s, m->segments[s].first_node + i, made, err);
    free(made);
    return st;
}
