/* SPDX-License-Identifier: Apache-2.0
 *
 * What a move does in a rank's own memory. The runtime (src/train/exchange.c)
 * sends and receives boxes; one that is no run of bytes in the part it lies in
 * goes through a buffer. Who gives what to whom, and how tensors lie in memory,
 * are said here once: the runtime moves by it, the oracle prices the copies and
 * counts the buffers. */
#include "plan_priv.h"

enum { MEMBERS = 64, ALIGN = 64 };

bool pdl_plan_channels_last(const struct pdl_plan *p, int tensor)
{
    const struct pdl_plan_tensor *t = &p->tensors[tensor];
    bool activation = t->kind == PDL_PLAN_INPUT || t->kind == PDL_PLAN_LABEL ||
                      t->kind == PDL_PLAN_ACTIVATION ||
                      t->kind == PDL_PLAN_GRADIENT;
    enum pdl_tensor_kind k = PDL_TENSOR_ACTIVATION;

    if (t->model_tensor >= 0) /* a weight that was moved is still a weight */
        k = p->model->tensors[t->model_tensor].kind;
    return activation && t->ndims >= 4 && k != PDL_TENSOR_WEIGHT &&
           k != PDL_TENSOR_BUFFER;
}

bool pdl_plan_in_place(const struct pdl_plan *p, int op, int k)
{
    const struct pdl_plan_op *o = &p->ops[op], *next = o + 1;

    if (o->kind != PDL_PLAN_OP_ALLREDUCE || k >= o->nin || op + 1 >= p->nops ||
        next->kind != PDL_PLAN_OP_FREE)
        return false;
    if (k < next->nin && next->in[k] == o->in[k]) /* mostly in this order */
        return true;
    for (int j = 0; j < next->nin; j++)
        if (next->in[j] == o->in[k])
            return true;
    return false;
}

/* ---- who gives what to whom ------------------------------------------- */

void pdl_plan_members(const struct pdl_plan *p, int op, int k,
                      struct pdl_plan_members *m)
{
    const struct pdl_plan_op *o = &p->ops[op];

    for (int g = 0; g < m->n; g++) {
        pdl_plan_box(p, o->in[k], m->rank[g], &m->in[g]);
        pdl_plan_box(p, o->out[k], m->rank[g], &m->out[g]);
    }
}

static bool same_box(const struct pdl_box *a, const struct pdl_box *b)
{
    for (int d = 0; d < a->ndims; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d])
            return false;
    return a->ndims == b->ndims;
}

/* The member that gives `to` the items of member g's box; -1: one before it. */
static int source(const struct pdl_plan_members *m, int g, int to)
{
    if (same_box(&m->in[to], &m->in[g]))
        return to;
    for (int i = 0; i < g; i++)
        if (same_box(&m->in[i], &m->in[g]))
            return -1;
    return g;
}

bool pdl_plan_gives(const struct pdl_plan_members *m, bool sum, int g, int to,
                    struct pdl_box *box)
{
    if (!sum && source(m, g, to) != g)
        return false;
    return pdl_box_intersect(&m->in[g], &m->out[to], box);
}

/* ---- what is copied --------------------------------------------------- */

/* A part of a tensor as it lies in memory. */
struct stored {
    const struct pdl_box *box;
    bool last;
    int bits;
};

static bool is_run(const struct stored *s, const struct pdl_box *part)
{
    return pdl_box_run(s->box, part, s->last) == pdl_box_volume(part);
}

static int64_t bytes_of(const struct stored *s, const struct pdl_box *part)
{
    return pdl_box_volume(part) * s->bits / 8;
}

static void add_copy(const struct stored *s, const struct pdl_box *part,
                     struct pdl_plan_copies *out)
{
    int64_t run = pdl_box_run(s->box, part, s->last);

    if (run == 0)
        return;
    out->bytes += bytes_of(s, part);
    out->runs += pdl_box_volume(part) / run;
}

static int64_t aligned(const struct stored *s, const struct pdl_box *part)
{
    return (bytes_of(s, part) + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t through_buffer(const struct stored *s, const struct pdl_box *box,
                              struct pdl_plan_copies *out)
{
    if (is_run(s, box))
        return 0;
    add_copy(s, box, out);
    return aligned(s, box);
}

/* Terms of a sum are added where they have come, not put into place. */
static int64_t count(const struct pdl_plan_members *m, bool sum,
                     const struct stored *in, const struct stored *to,
                     struct pdl_plan_copies *out)
{
    struct pdl_box box, own;
    int64_t buffer = 0;

    for (int g = 0; g < m->n; g++) {
        if (g == m->me)
            continue;
        if (pdl_plan_gives(m, sum, m->me, g, &box))
            buffer += through_buffer(in, &box, out);
        if (!pdl_plan_gives(m, sum, g, m->me, &box))
            continue;
        out->summed += sum ? bytes_of(to, &box) : 0;
        buffer += sum ? aligned(to, &box) : through_buffer(to, &box, out);
    }
    if (!pdl_box_intersect(&m->in[m->me], &m->out[m->me], &own))
        return buffer;
    if (!sum) {
        add_copy(is_run(to, &own) ? in : to, &own, out);
        return buffer;
    }
    out->summed += bytes_of(in, &own);
    return is_run(in, &own) ? buffer : buffer + aligned(in, &own);
}

/* A ring begins with the rank's own blocks, put where the others will come;
 * all that moves, and gradients come home, from slot to slot as it lies. */
static void count_rotation(const struct pdl_plan *p,
                           const struct pdl_plan_op *o, int64_t rank,
                           struct pdl_plan_copies *out)
{
    for (int k = 0; k < o->nin && p->tensors[o->in[k]].of == 0; k++) {
        struct pdl_box b;

        pdl_plan_box(p, o->in[k], rank, &b);
        out->bytes +=
            pdl_box_volume(&b) * pdl_dtype_bits(p->tensors[o->in[k]].dtype) / 8;
        out->runs++;
    }
}

void pdl_plan_copies(const struct pdl_plan *p, int op, int64_t rank,
                     struct pdl_plan_copies *out)
{
    const struct pdl_plan_op *o = &p->ops[op];
    bool sum = o->kind == PDL_PLAN_OP_REDUCE_SCATTER;
    struct pdl_box in[MEMBERS], to[MEMBERS];
    int64_t ranks[MEMBERS];
    struct pdl_plan_members m = {.rank = ranks, .in = in, .out = to};
    int64_t n = pdl_mesh_group(p->mesh, rank, o->group, ranks, MEMBERS);

    *out = (struct pdl_plan_copies){.bytes = 0};
    if (o->kind == PDL_PLAN_OP_ROTATE)
        count_rotation(p, o, rank, out);
    if (o->kind == PDL_PLAN_OP_ROTATE || o->kind < PDL_PLAN_OP_REDUCE_SCATTER ||
        o->kind > PDL_PLAN_OP_SLICE || o->kind == PDL_PLAN_OP_ALLTOALLV ||
        n > MEMBERS)
        return;
    m.n = (int)n;
    while (m.me < m.n && ranks[m.me] != rank)
        m.me++;
    for (int k = 0; k < o->nout && m.me < m.n; k++) {
        struct stored from = {&in[m.me], pdl_plan_channels_last(p, o->in[k]),
                              pdl_dtype_bits(p->tensors[o->in[k]].dtype)};
        struct stored dest = {&to[m.me], pdl_plan_channels_last(p, o->out[k]),
                              pdl_dtype_bits(p->tensors[o->out[k]].dtype)};
        int64_t buffer;

        pdl_plan_members(p, op, k, &m);
        buffer = count(&m, sum, &from, &dest, out);
        out->buffer = buffer > out->buffer ? buffer : out->buffer;
    }
}
