/* SPDX-License-Identifier: Apache-2.0
 *
 * A Chakra execution trace as traffic: computations take their time, messages
 * are messages, and collectives are the steps of an algorithm. Nodes of one
 * stream and collectives of one group follow each other, in the order that
 * chakra_order.c finds; everything else waits for its data_deps only. */
#include "chakra.h"

#include <inttypes.h>
#include <stdlib.h>

/* Tags of collectives' messages are above all of nodes'. */
#define FIRST_TAG ((int64_t)1 << 40)

/* What the next node of a stream or of a group waits for, in a table by hash:
 * every node may have a stream of its own. */
struct lane {
    int64_t stream;
    const struct chakra_group *group;
    int64_t last;
    bool used;
};

struct build {
    struct chakra_trace *t;
    const struct pdl_chakra *in;
    struct pdl_trace *out;
    int rank;
    int64_t *end; /* of each node of the rank: the operation that ends it */
    struct lane *lanes;
    int64_t nlanes, lanes_cap; /* a power of two */
    int64_t *ops;              /* of the steps of a collective */
    int64_t ops_cap;
    bool *waited;
    int64_t waited_cap;
    bool full;               /* no memory for a lane: latches */
    struct pdl_coll_job job; /* the last that was made */
    const char *job_coll;
    int64_t job_bytes;
};

/* Where the lane is, or where there is room for it. */
static struct lane *find(struct lane *lanes, int64_t cap, int64_t stream,
                         const struct chakra_group *group)
{
    uint64_t at = (uint64_t)stream ^ (uint64_t)(uintptr_t)group;

    at *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
    at >>= 20;
    for (;; at++) {
        struct lane *l = &lanes[at & (uint64_t)(cap - 1)];

        if (!l->used || (l->stream == stream && l->group == group))
            return l;
    }
}

static bool more_lanes(struct build *b)
{
    int64_t cap = b->lanes_cap ? 2 * b->lanes_cap : 64;
    struct lane *lanes = PDL_NEW(b->t->arena, struct lane, cap);

    for (int64_t i = 0; lanes && i < b->lanes_cap; i++)
        if (b->lanes[i].used)
            *find(lanes, cap, b->lanes[i].stream, b->lanes[i].group) =
                b->lanes[i];
    if (!lanes)
        return false;
    b->lanes = lanes;
    b->lanes_cap = cap;
    return true;
}

/* NULL: it has none, or there is no memory, which is said at the end. */
static struct lane *lane_of(struct build *b, const struct chakra_node *n,
                            const struct chakra_group *group)
{
    int64_t stream = group ? CHAKRA_NO_STREAM : n->stream;
    struct lane *l;

    if (!group && stream == CHAKRA_NO_STREAM)
        return NULL;
    if (2 * b->nlanes >= b->lanes_cap && !more_lanes(b)) {
        b->full = true;
        return NULL;
    }
    l = find(b->lanes, b->lanes_cap, stream, group);
    if (!l->used) {
        *l = (struct lane){stream, group, -1, true};
        b->nlanes++;
    }
    return l;
}

static void wait_for_all(struct build *b, const struct chakra_node *n,
                         int64_t op, const struct chakra_group *group)
{
    const struct chakra_rank *r = &b->t->ranks[b->rank];
    const struct lane *lanes[] = {lane_of(b, n, NULL),
                                  group ? lane_of(b, n, group) : NULL};

    for (int64_t i = 0; i < n->nafter; i++)
        pdl_trace_wait(b->out, op, b->end[r->after[n->first_after + i]]);
    for (int i = 0; i < 2; i++)
        if (lanes[i] && lanes[i]->last >= 0)
            pdl_trace_wait(b->out, op, lanes[i]->last);
}

static int64_t add_op(struct build *b, struct pdl_traffic_op op, int64_t tag)
{
    return pdl_trace_op(b->out, &op, tag);
}

static const struct pdl_traffic_op nothing = {.send_to = -1, .recv_from = -1};

/* ---- collectives --------------------------------------------------------- */

/* The job of an algorithm where it fits. */
static enum pdl_status try_job(struct build *b, const char *coll,
                               const char *spec, int ranks, int64_t bytes,
                               struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st;

    *job = (struct pdl_coll_job){.nranks = ranks};
    st = pdl_alg_parse(coll, spec, job, err);
    if (st != PDL_OK)
        return st;
    job->elem_bytes = bytes % 4 == 0 ? 4 : 1;
    job->count = bytes / job->elem_bytes;
    if (b->in->net && ranks == b->in->net->nhosts)
        pdl_coll_suit(job, b->in->net);
    return pdl_coll_setup(job, err);
}

/* comm_size is what a rank puts in; a buffer of ours holds all blocks. */
static enum pdl_status make_job(struct build *b, const struct chakra_node *n,
                                int ranks)
{
    const char *coll = coll_chakra_collective(n->coll);
    struct pdl_err why = {"", ""};
    struct pdl_coll_job job;
    int64_t bytes = n->bytes;

    if (strcmp(coll, "allgather") == 0 && !pdl_mul64(bytes, ranks, &bytes))
        return pdl_fail(b->t->err, PDL_EPARSE,
                        "%s: node %" PRIu64 " is too large",
                        b->t->ranks[b->rank].name, (uint64_t)n->id);

    if (strcmp(coll, "barrier") == 0)
        coll = "allreduce", bytes = 0;
    if (b->job_coll && strcmp(b->job_coll, coll) == 0 &&
        b->job.nranks == ranks && b->job_bytes == bytes)
        return PDL_OK;
    b->job_coll = coll;
    b->job_bytes = bytes;
    if (b->in->algorithm && try_job(b, coll, b->in->algorithm, ranks, bytes,
                                    &b->job, NULL) == PDL_OK)
        return PDL_OK;
    for (int i = 0; pdl_alg_at(i); i++)
        if (strcmp(pdl_alg_at(i)->collective->name, coll) == 0 &&
            try_job(b, coll, pdl_alg_at(i)->name, ranks, bytes, &job, &why) ==
                PDL_OK) {
            b->job = job;
            return PDL_OK;
        }
    return pdl_fail(b->t->err, PDL_EPARSE,
                    "%s: node %" PRIu64 ": no %s runs on %d ranks: %.100s",
                    b->t->ranks[b->rank].name, (uint64_t)n->id, coll, ranks,
                    why.msg);
}

static int64_t add_step(struct build *b, const struct chakra_group *g,
                        const struct pdl_step *s, int64_t tag)
{
    struct pdl_traffic_op op = {
        .send_to = s->send_to < 0 ? -1 : g->ranks[s->send_to],
        .recv_from = s->recv_from < 0 ? -1 : g->ranks[s->recv_from],
        .send_bytes = pdl_coll_send_bytes(&b->job, s),
        .recv_bytes = pdl_coll_recv_bytes(&b->job, s),
    };

    return add_op(b, op, tag);
}

static bool has_room_for(struct build *b, int64_t steps)
{
    pdl_arena *a = b->t->arena;

    while (b->ops_cap < steps)
        if (!coll_chakra_reserve(a, &b->ops, b->ops_cap, &b->ops_cap,
                                 sizeof *b->ops))
            return false;
    while (b->waited_cap < steps)
        if (!coll_chakra_reserve(a, &b->waited, b->waited_cap, &b->waited_cap,
                                 sizeof *b->waited))
            return false;
    return true;
}

/* All steps between an operation that they wait for and one that waits for
 * them. */
static enum pdl_status add_collective(struct build *b,
                                      const struct chakra_node *n,
                                      const struct chakra_group *g,
                                      int64_t *end)
{
    enum pdl_status st = make_job(b, n, g->n);
    int me = coll_chakra_member(g, b->rank);
    int64_t begin, steps = st == PDL_OK ? pdl_coll_nsteps(&b->job, me) : 0;

    if (st != PDL_OK)
        return st;
    if (!has_room_for(b, steps))
        return coll_chakra_no_room(b->t);
    begin = add_op(b, nothing, 0);
    wait_for_all(b, n, begin, g);
    for (int64_t s = 0; s < steps; s++) {
        struct pdl_step step;

        pdl_coll_step(&b->job, me, s, &step);
        b->ops[s] = add_step(b, g, &step, FIRST_TAG + n->event);
        b->waited[s] = false;
        if (step.nafter == 0)
            pdl_trace_wait(b->out, b->ops[s], begin);
        for (int k = 0; k < step.nafter; k++) {
            pdl_trace_wait(b->out, b->ops[s], b->ops[step.after[k]]);
            b->waited[step.after[k]] = true;
        }
    }
    *end = add_op(b, nothing, 0);
    pdl_trace_wait(b->out, *end, begin);
    for (int64_t s = 0; s < steps; s++)
        if (!b->waited[s])
            pdl_trace_wait(b->out, *end, b->ops[s]);
    return PDL_OK;
}

/* ---- nodes --------------------------------------------------------------- */

static enum pdl_status add_node(struct build *b, int64_t i)
{
    const struct chakra_node *n = &b->t->ranks[b->rank].nodes[i];
    const struct chakra_group *g =
        n->type == CHAKRA_COLLECTIVE ? coll_chakra_group(b->t, n) : NULL;
    struct pdl_traffic_op op = {
        .send_to = n->type == CHAKRA_SEND ? n->peer : -1,
        .recv_from = n->type == CHAKRA_RECV ? n->peer : -1,
        .send_bytes = n->bytes,
        .recv_bytes = n->bytes,
        .compute_s = n->type < CHAKRA_SEND ? n->seconds : 0,
    };
    struct lane *lane;
    enum pdl_status st = PDL_OK;

    if (g) {
        st = add_collective(b, n, g, &b->end[i]);
    } else {
        b->end[i] = add_op(b, op, n->tag);
        wait_for_all(b, n, b->end[i], NULL);
    }
    lane = lane_of(b, n, NULL);
    if (lane)
        lane->last = b->end[i];
    lane = g ? lane_of(b, n, g) : NULL;
    if (lane)
        lane->last = b->end[i];
    return st;
}

static enum pdl_status add_rank(struct build *b, int rank)
{
    const struct chakra_rank *r = &b->t->ranks[rank];
    enum pdl_status st = pdl_trace_rank(b->out, rank, b->t->err);

    b->rank = rank;
    b->nlanes = b->lanes_cap = 0;
    b->end = PDL_NEW(b->t->arena, int64_t, r->n + 1);
    if (!b->end)
        return coll_chakra_no_room(b->t);
    for (int64_t i = 0; i < r->n && st == PDL_OK; i++)
        st = add_node(b, r->order[i]);
    return st == PDL_OK && b->full ? coll_chakra_no_room(b->t) : st;
}

/* Is it an algorithm of any collective? */
static enum pdl_status check_algorithm(const char *spec, struct pdl_err *err)
{
    struct pdl_coll_job job;

    for (int i = 0; spec && pdl_collective_at(i); i++) {
        job = (struct pdl_coll_job){.nranks = 1};
        if (pdl_alg_parse(pdl_collective_at(i)->name, spec, &job, NULL) ==
            PDL_OK)
            return PDL_OK;
    }
    job = (struct pdl_coll_job){.nranks = 1};
    return spec ? pdl_alg_parse("allreduce", spec, &job, err) : PDL_OK;
}

enum pdl_status pdl_coll_read_chakra(pdl_arena *a, const struct pdl_chakra *in,
                                     struct pdl_traffic *out,
                                     struct pdl_chakra_count *count,
                                     struct pdl_err *err)
{
    struct chakra_trace t = {.arena = a, .err = err, .nranks = in->nranks};
    struct build b = {.t = &t, .in = in};
    struct pdl_chakra_count seen = {0, 0, 0, 0, 0};
    enum pdl_status st;

    t.ranks = PDL_NEW(a, struct chakra_rank, in->nranks);
    b.out = pdl_trace_create(a, in->name[0], in->nranks);
    if (!t.ranks || !b.out)
        return coll_chakra_no_room(&t);
    st = check_algorithm(in->algorithm, err);
    if (st == PDL_OK)
        st = coll_chakra_groups(&t, in->groups, in->groups_name);
    for (int r = 0; r < in->nranks && st == PDL_OK; r++)
        st = coll_chakra_read(&t, r, in->file[r], in->name[r], &seen);
    coll_chakra_sort_groups(&t);
    if (st == PDL_OK)
        st = coll_chakra_order(&t);
    for (int r = 0; r < in->nranks && st == PDL_OK; r++)
        st = add_rank(&b, r);
    if (st == PDL_OK)
        st = pdl_trace_done(b.out, out, err);
    if (st == PDL_OK && count)
        *count = seen;
    return st;
}
