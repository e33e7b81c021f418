/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape inference: one pass over the nodes in order, each by the function of
 * its row in onnx_ops.c. A function never fails: what it cannot tell stays
 * unknown, and a declared shape (value_info) may fill the gap.
 *
 * The pass is made twice where the batch is symbolic, the second time with
 * twice the batch. A dimension that doubled is the batch or a multiple of it,
 * wherever a transpose or a reshape has moved it: that is how the batch is
 * taken out of the shapes of the model (onnx_build.c). */
#include "onnx_priv.h"

#include <math.h>

static const struct onnx_shape nothing = {.rank = -1, .nval = -1};

bool model_onnx_has(const struct onnx_call *c, int i)
{
    return i < c->n->nin && c->n->in[i] >= 0;
}

const struct onnx_shape *model_onnx_in(const struct onnx_call *c, int i)
{
    int id = i < c->n->nin ? c->n->in[i] : -1;

    for (int hops = 0; id >= 0 && hops < 64; hops++) {
        if (c->all[id].rank >= 0 || c->g->values[id].outer < 0)
            return &c->all[id];
        id = c->g->values[id].outer;
    }
    return &nothing;
}

struct onnx_shape *model_onnx_out(const struct onnx_call *c, int i)
{
    int id = i < c->n->nout ? c->n->out[i] : -1;

    return id >= 0 ? &c->all[id] : c->spare;
}

void model_onnx_set(struct onnx_shape *s, int rank, const int64_t *dim)
{
    if (rank > PDL_MAX_RANK)
        rank = -1;
    s->rank = rank;
    s->nval = -1;
    for (int i = 0; i < rank; i++)
        s->dim[i] = dim && dim[i] >= 0 ? dim[i] : -1;
}

int64_t model_onnx_elements(const struct onnx_shape *s)
{
    int64_t n = 1;

    if (s->rank < 0)
        return -1;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0 || !pdl_mul64(n, s->dim[i], &n))
            return -1;
    return n;
}

int64_t model_onnx_whole(double v)
{
    if (isnan(v))
        return ONNX_ANY;
    if (v > 4e18)
        return INT64_C(4000000000000000000);
    if (v < -4e18)
        return -INT64_C(4000000000000000000);
    return (int64_t)v;
}

int model_onnx_list(const struct onnx_call *c, const char *attr, int i,
                    int64_t *out, int cap)
{
    const struct onnx_shape *s;
    int n = attr ? model_onnx_ints(c->n, attr, out, cap) : -1;

    if (n >= 0 || i < 0 || !model_onnx_has(c, i))
        return n;
    s = model_onnx_in(c, i);
    if (s->nval < 0)
        return -1;
    for (int k = 0; k < s->nval && k < cap; k++)
        out[k] = model_onnx_whole(s->val[k]);
    return s->nval;
}

double *model_onnx_room(struct onnx_call *c, struct onnx_shape *s, int64_t n)
{
    if (n < 0 || n > ONNX_MAX_FOLD)
        return NULL;
    s->val = PDL_NEW(c->g->arena, double, n + 1);
    if (!s->val) {
        c->starved = true;
        return NULL;
    }
    s->nval = (int)n;
    return s->val;
}

/* What the file declares fills what inference left open. */
static void fill(const struct onnx_graph *g, int value, int64_t times,
                 struct onnx_shape *s)
{
    struct onnx_shape d;

    if (!g->values[value].type)
        return;
    model_onnx_declared(g, value, times, &d);
    if (s->type == 0)
        s->type = d.type;
    if (s->rank < 0) {
        s->rank = d.rank;
        memcpy(s->dim, d.dim, sizeof s->dim);
        return;
    }
    for (int i = 0; i < s->rank && s->rank == d.rank; i++)
        if (s->dim[i] < 0)
            s->dim[i] = d.dim[i];
}

static enum pdl_status infer_all(struct onnx_graph *g, int64_t times,
                                 const struct onnx_shape **out)
{
    struct onnx_shape *all =
        PDL_NEW(g->arena, struct onnx_shape, g->nvalues + 1);
    struct onnx_shape spare;
    struct onnx_call c = {.g = g, .all = all, .spare = &spare};

    if (!all)
        return model_onnx_oom(g);
    for (int i = 0; i < g->nvalues; i++) {
        all[i] =
            g->values[i].kind == ONNX_STORED ? g->values[i].stored : nothing;
        if (g->values[i].node < 0 && g->values[i].kind != ONNX_STORED)
            model_onnx_declared(g, i, times, &all[i]);
    }
    for (int i = 0; i < g->nnodes; i++) {
        spare = nothing;
        c.n = &g->nodes[i];
        if (c.n->op && c.n->op->infer)
            c.n->op->infer(&c);
        for (int k = 0; k < c.n->nout; k++)
            if (c.n->out[k] >= 0)
                fill(g, c.n->out[k], times, &all[c.n->out[k]]);
        if (c.starved)
            return model_onnx_oom(g);
    }
    *out = all;
    return PDL_OK;
}

enum pdl_status model_onnx_infer(struct onnx_graph *g)
{
    bool batch = false;
    enum pdl_status st = infer_all(g, 1, &g->shape);

    for (int i = 0; i < g->ndims; i++)
        batch = batch || (g->dims[i].batch && g->dims[i].used);
    g->twice = NULL;
    return st || !batch ? st : infer_all(g, 2, &g->twice);
}
