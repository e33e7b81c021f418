/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan's traffic on the links of a network. Operations of one kind, group
 * and lane add up to one pattern of messages first, so that routes are walked
 * once for each pattern and rank, however many layers there are:
 *   ring   every rank to the next of its group, 2(n-1)/n of the bytes of an
 *          allreduce, (n-1)/n of what a reduce-scatter has or an allgather
 *          makes (Patarasuk and Yuan, JPDC 2009): what the prices count;
 *   stage  a rank of one lane to that of another;
 *   pairs  halos and all-to-alls: the boxes say who gets what from whom;
 *          tokens go to all experts alike. An allreduce whose algorithm the
 *          strategy names: every message of its program.
 *
 * Limits: the ring where the price chooses the algorithm; all groups of a lane
 * like the first; pairs in groups of at most MAX_PAIRS ranks. */
#include "oracle/wire/wire.h"

#include "paradl/coll.h"
#include "paradl/net.h"

#include <string.h>

enum { MAX_PATTERNS = 256, MAX_PAIRS = 512 };

enum shape { RING, STAGE, PAIRS };

struct pattern {
    enum shape shape;
    uint32_t group;
    int lane, to; /* to: STAGE */
    double bytes; /* of one rank */
    double *pair; /* PAIRS: [to][from] of a group's n x n */
};

struct traffic {
    pdl_arena *arena;
    const struct pdl_plan *p;
    const struct pdl_net *net;
    struct pattern pattern[MAX_PATTERNS];
    int n;
    int64_t *bytes;
    int64_t *ranks; /* of a group */
    int64_t per_node;
};

static int64_t group_size(const struct pdl_mesh *m, uint32_t group)
{
    return pdl_mesh_group(m, 0, group, NULL, 0);
}

static struct pattern *find(struct traffic *t, struct pattern like)
{
    for (int i = 0; i < t->n; i++)
        if (t->pattern[i].shape == like.shape &&
            t->pattern[i].group == like.group &&
            t->pattern[i].lane == like.lane && t->pattern[i].to == like.to)
            return &t->pattern[i];
    if (t->n == MAX_PATTERNS)
        return NULL;
    if (like.shape == PAIRS) {
        int64_t n = group_size(t->p->mesh, like.group);

        like.pair = n <= MAX_PAIRS ? PDL_NEW(t->arena, double, n *n) : NULL;
        if (!like.pair)
            return NULL;
    }
    t->pattern[t->n] = like;
    return &t->pattern[t->n++];
}

static void add_pairs(struct traffic *t, const struct pdl_plan_op *x,
                      double times, int64_t first, struct pattern *at)
{
    int64_t n = group_size(t->p->mesh, x->group), got[MAX_PAIRS];

    pdl_mesh_group(t->p->mesh, first, x->group, t->ranks, n);
    for (int64_t i = 0; i < n; i++) {
        pdl_plan_transfers(t->p, x->in[0], x->out[0], t->ranks, n, t->ranks[i],
                           got);
        for (int64_t k = 0; k < n; k++)
            at->pair[i * n + k] += k == i ? 0 : times * (double)got[k];
    }
}

/* Tokens that visit experts elsewhere: to every rank as many, as the price has
 * it. */
static void add_visits(struct traffic *t, const struct pdl_plan_op *x,
                       double times, const struct pdl_work *w,
                       struct pattern *at)
{
    int64_t n = group_size(t->p->mesh, x->group);
    bool leave = t->p->tensors[x->in[0]].of > 0;
    double bytes = (double)(leave ? w->read_bytes : w->write_bytes) / (double)n;

    for (int64_t i = 0; i < n * n; i++)
        at->pair[i] += i / n == i % n ? 0 : times * bytes;
}

/* The program of the algorithm that it names; false: a ring. */
static bool has_program(const struct traffic *t, const struct pdl_plan_op *x,
                        int64_t bytes, struct pdl_coll_job *job)
{
    const char *name = x->algorithm;
    int64_t n = group_size(t->p->mesh, x->group);

    return x->kind == PDL_PLAN_OP_ALLREDUCE && name && n <= MAX_PAIRS &&
           strcmp(name, "ring") != 0 &&
           pdl_coll_job_make("allreduce", name, (int)n, bytes, 1, job, NULL) ==
               PDL_OK;
}

static void add_program(const struct pdl_coll_job *job, double times,
                        struct pattern *at)
{
    struct pdl_step step;

    for (int r = 0; r < job->nranks; r++)
        for (int64_t s = 0; s < pdl_coll_nsteps(job, r); s++) {
            pdl_coll_step(job, r, s, &step);
            if (step.send_to >= 0 && step.send_to != r)
                at->pair[(int64_t)step.send_to * job->nranks + r] +=
                    times * (double)pdl_coll_send_bytes(job, &step);
        }
}

/* Of the bytes that one rank has and makes, those that it sends on. */
static double ring_bytes(enum pdl_plan_op_kind kind, const struct pdl_work *w,
                         double n)
{
    switch (kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        return 2 * (n - 1) / n * (double)w->read_bytes;
    case PDL_PLAN_OP_REDUCE_SCATTER:
        return (n - 1) / n * (double)w->read_bytes;
    case PDL_PLAN_OP_ALLGATHER:
        return (n - 1) / n * (double)w->write_bytes;
    case PDL_PLAN_OP_ROTATE: /* of one block and two, it is the one */
        return (n - 1) * (double)(w->read_bytes < w->write_bytes
                                      ? w->read_bytes
                                      : w->write_bytes);
    default:
        return 0;
    }
}

static void add_op(struct traffic *t, int op, double times)
{
    const struct pdl_plan_op *x = &t->p->ops[op];
    int tensor = x->nin > 0 ? x->in[0] : x->out[0];
    int lane = pdl_plan_lane(t->p, t->p->tensors[tensor].stage);
    int64_t first = pdl_plan_lane_rank(t->p, lane),
            n = group_size(t->p->mesh, x->group);
    struct pattern like = {.group = x->group, .lane = lane}, *at;
    struct pdl_coll_job job;
    struct pdl_work w;
    bool program;

    if (n < 2 || x->kind < PDL_PLAN_OP_ALLREDUCE ||
        x->kind > PDL_PLAN_OP_SEND || x->kind == PDL_PLAN_OP_SLICE)
        return;
    pdl_plan_op_work(t->p, op, first, &w);
    program = has_program(t, x, w.read_bytes, &job);
    if (x->kind == PDL_PLAN_OP_SEND) {
        like.shape = STAGE;
        like.to = pdl_plan_lane(t->p, t->p->tensors[x->out[0]].stage);
    } else if (x->kind == PDL_PLAN_OP_ALLTOALL ||
               x->kind == PDL_PLAN_OP_ALLTOALLV ||
               x->kind == PDL_PLAN_OP_HALO || program) {
        like.shape = PAIRS;
    }
    at = find(t, like);
    if (!at)
        return;
    if (like.shape == STAGE)
        at->bytes += times * (double)w.read_bytes;
    else if (like.shape == RING)
        at->bytes += times * ring_bytes(x->kind, &w, (double)n);
    else if (program)
        add_program(&job, times, at);
    else if (x->kind == PDL_PLAN_OP_ALLTOALLV)
        add_visits(t, x, times, &w, at);
    else
        add_pairs(t, x, times, first, at);
}

/* ---- routes ----------------------------------------------------------- */

static void message(struct traffic *t, int64_t from, int64_t to, double bytes)
{
    int links[PDL_MAX_ROUTE], n;

    if (from == to || bytes <= 0)
        return;
    n = pdl_net_route(t->net, (int)from, (int)to, (int64_t)bytes, links);
    for (int i = 0; i < n; i++)
        t->bytes[links[i]] += (int64_t)bytes;
}

/* The rank at a place of a ring: those of one node are turned by so many. */
static int64_t turned(const struct traffic *t, int64_t n, int64_t at,
                      int64_t by)
{
    int64_t node = t->ranks[at] / t->per_node, first = at, end = at + 1;

    while (first > 0 && t->ranks[first - 1] / t->per_node == node)
        first--;
    while (end < n && t->ranks[end] / t->per_node == node)
        end++;
    return t->ranks[first + (at - first + by) % (end - first)];
}

/* Libraries open as many rings as the group has ranks in a node, each of which
 * leaves the node from another one, so that all their adapters are used: as the
 * prices have it. */
static void of_ring(struct traffic *t, const struct pattern *p, int64_t n)
{
    int64_t rings = 1;

    while (rings < n &&
           t->ranks[rings] / t->per_node == t->ranks[0] / t->per_node)
        rings++;
    if (rings == n) /* inside one node */
        rings = 1;
    for (int64_t k = 0; k < rings; k++)
        for (int64_t i = 0; i < n; i++)
            message(t, turned(t, n, i, k), turned(t, n, (i + 1) % n, k),
                    p->bytes / (double)rings);
}

/* All messages of one group, whose ranks are in t->ranks. */
static void of_group(struct traffic *t, const struct pattern *p, int64_t n)
{
    if (p->shape == STAGE)
        message(t, t->ranks[p->lane % n], t->ranks[p->to % n], p->bytes);
    if (p->shape == RING)
        of_ring(t, p, n);
    for (int64_t i = 0; p->shape == PAIRS && i < n * n; i++)
        message(t, t->ranks[i % n], t->ranks[i / n], p->pair[i]);
}

/* The place of a rank among those along a set of factors. */
static int64_t place(const struct pdl_mesh *m, int64_t rank, uint32_t group)
{
    int64_t at = 0;

    for (int f = 0; f < m->nfactors; f++)
        if (group >> f & 1)
            at = at * m->factor[f] + pdl_mesh_coord(m, rank, f);
    return at;
}

static void send_all(struct traffic *t, const struct pattern *p)
{
    const struct pdl_mesh *m = t->p->mesh;
    bool along = (p->group & t->p->pipe_factors) != 0;

    for (int64_t r = 0; r < m->pes; r++)
        if (place(m, r, p->group) == 0 &&
            (along || pdl_plan_rank_lane(t->p, r) == p->lane))
            of_group(t, p, pdl_mesh_group(m, r, p->group, t->ranks, m->pes));
}

static void add_items(struct traffic *t, int first, int nitems, double times)
{
    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < t->p->items[i].nops; k++)
            add_op(t, t->p->items[i].first_op + k,
                   times * (double)(t->p->items[i].repeat > 0
                                        ? t->p->items[i].repeat
                                        : 1));
}

enum pdl_status pdl_link_traffic(pdl_arena *a, const struct pdl_plan *plan,
                                 const struct pdl_net *net, int64_t per_node,
                                 int64_t *bytes, struct pdl_err *err)
{
    struct traffic *t = PDL_NEW(a, struct traffic, 1);
    double micro = (double)plan->micro_batches;

    if (plan->mesh->pes > net->nhosts)
        return pdl_fail(err, PDL_EINVAL, "the network has %d hosts, not %lld",
                        net->nhosts, (long long)plan->mesh->pes);
    if (t)
        t->ranks = PDL_NEW(a, int64_t, plan->mesh->pes + 1);
    if (!t || !t->ranks)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    t->arena = a;
    t->p = plan;
    t->net = net;
    t->bytes = bytes;
    t->per_node = per_node > 0 ? per_node : 1;
    memset(bytes, 0, (size_t)net->nlinks * sizeof *bytes);
    for (int s = 0; s < plan->nstages; s++) {
        const struct pdl_plan_stage *st = &plan->stages[s];

        add_items(t, st->first_forward, st->nforward, micro);
        add_items(t, st->first_backward, st->nbackward, micro);
        add_items(t, st->first_update, st->nupdate, 1);
    }
    for (int i = 0; i < t->n; i++)
        send_all(t, &t->pattern[i]);
    return PDL_OK;
}
