/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces: what every rank does, put together operation by operation, with any
 * number of waits between those of a rank; as traffic. A message meets the next
 * of its pair, so that two ranks must send and receive tags in one order; else
 * the trace is refused. */
#include "topo_priv.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 1 << 26, MOST_AFTER = 4 };

struct trace_op {
    int64_t first_after; /* chain of waits; -1: none */
    int64_t place;       /* in the traffic; -1: not yet, -2: being placed */
    struct pdl_traffic_op op;
    int64_t tag;
};

/* An operation waits for `before`, both numbered in their rank. */
struct wait {
    int64_t before, next;
};

struct rank_ops {
    struct pdl_traffic_op *op;
    int64_t n, cap, *tag;
};

struct pdl_trace {
    pdl_arena *arena;
    const char *name;
    int rank, nranks;
    struct rank_ops *ranks;
    bool full; /* no memory: latches */
    /* of the rank that is made */
    struct trace_op *ops;
    int64_t nops, ops_cap;
    struct wait *waits;
    int64_t nwaits, waits_cap;
};

static enum pdl_status no_room(const struct pdl_trace *t, struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", t->name);
}

/* Room for one more. */
bool net_reserve(pdl_arena *a, void *list, int64_t n, int64_t *cap, size_t size)
{
    void *at;
    int64_t more = *cap ? 2 * *cap : 64;

    if (n < *cap)
        return true;
    if (n >= MOST_OPS)
        return false;
    memcpy(&at, list, sizeof at); /* of any type */
    at = pdl_arena_grow(a, at, (size_t)n, (size_t)more, size);
    memcpy(list, &at, sizeof at);
    *cap = at ? more : 0;
    return at != NULL;
}

struct pdl_trace *pdl_trace_create(pdl_arena *a, const char *name, int nranks)
{
    struct pdl_trace *t = PDL_NEW(a, struct pdl_trace, 1);

    if (!t)
        return NULL;
    *t = (struct pdl_trace){
        .arena = a, .name = name, .rank = -1, .nranks = nranks};
    t->ranks = PDL_NEW(a, struct rank_ops, nranks + 1);
    return t->ranks ? t : NULL;
}

int64_t pdl_trace_op(struct pdl_trace *t, const struct pdl_traffic_op *op,
                     int64_t tag)
{
    if (!net_reserve(t->arena, &t->ops, t->nops, &t->ops_cap, sizeof *t->ops)) {
        t->full = true;
        return 0;
    }
    t->ops[t->nops] = (struct trace_op){
        .first_after = -1, .place = -1, .op = *op, .tag = tag};
    t->ops[t->nops].op.nafter = 0;
    return t->nops++;
}

void pdl_trace_wait(struct pdl_trace *t, int64_t op, int64_t before)
{
    if (t->full || !net_reserve(t->arena, &t->waits, t->nwaits, &t->waits_cap,
                                sizeof *t->waits)) {
        t->full = true;
        return;
    }
    t->waits[t->nwaits] = (struct wait){before, t->ops[op].first_after};
    t->ops[op].first_after = t->nwaits++;
}

void pdl_trace_wait_like(struct pdl_trace *t, int64_t op, int64_t like)
{
    for (int64_t w = t->full ? -1 : t->ops[like].first_after;
         w >= 0 && !t->full; w = t->waits[w].next)
        pdl_trace_wait(t, op, t->waits[w].before);
}

/* ---- one rank ------------------------------------------------------------ */

/* Writes an operation of the traffic; its waits are places. */
static bool put(struct pdl_trace *t, struct pdl_traffic_op op, int64_t tag)
{
    struct rank_ops *r = &t->ranks[t->rank];
    int64_t cap = r->cap;

    if (!net_reserve(t->arena, &r->op, r->n, &r->cap, sizeof *r->op) ||
        !net_reserve(t->arena, &r->tag, r->n, &cap, sizeof *r->tag))
        return false;
    r->tag[r->n] = tag;
    r->op[r->n++] = op;
    return true;
}

/* What waits for more than an operation can has operations that do nothing but
 * wait before it. */
static bool place(struct pdl_trace *t, struct trace_op *o)
{
    struct pdl_traffic_op join = {.send_to = -1, .recv_from = -1};

    for (int64_t w = o->first_after; w >= 0; w = t->waits[w].next) {
        if (join.nafter == MOST_AFTER) {
            if (!put(t, join, 0))
                return false;
            join.nafter = 1;
            join.after[0] = t->ranks[t->rank].n - 1;
        }
        join.after[join.nafter++] = t->ops[t->waits[w].before].place;
    }
    o->op.nafter = join.nafter;
    memcpy(o->op.after, join.after, sizeof o->op.after);
    o->place = t->ranks[t->rank].n;
    return put(t, o->op, o->tag);
}

/* The first that o waits for and that has no place; -1: none. */
static int64_t missing(const struct pdl_trace *t, const struct trace_op *o)
{
    for (int64_t w = o->first_after; w >= 0; w = t->waits[w].next)
        if (t->ops[t->waits[w].before].place < 0)
            return t->waits[w].before;
    return -1;
}

/* In their order, but for what they wait for: that before. */
static enum pdl_status place_all(struct pdl_trace *t, struct pdl_err *err)
{
    int64_t *stack = PDL_NEW(t->arena, int64_t, t->nops + 1);

    for (int64_t i = 0; stack && i < t->nops; i++) {
        int64_t n = 0;

        if (t->ops[i].place >= 0)
            continue;
        stack[n++] = i;
        t->ops[i].place = -2;
        while (n > 0) {
            struct trace_op *o = &t->ops[stack[n - 1]];
            int64_t b = missing(t, o);

            if (b >= 0 && t->ops[b].place == -2)
                return pdl_fail(
                    err, PDL_EPARSE,
                    "%s: operation %lld of rank %d waits for itself", t->name,
                    (long long)b, t->rank);
            if (b >= 0) {
                stack[n++] = b;
                t->ops[b].place = -2;
                continue;
            }
            /* its place is known when it is there */
            if (!place(t, o))
                return no_room(t, err);
            n--;
        }
    }
    return stack ? PDL_OK : no_room(t, err);
}

static enum pdl_status end_rank(struct pdl_trace *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (t->full)
        return no_room(t, err);
    if (t->rank >= 0)
        st = place_all(t, err);
    t->nops = t->nwaits = 0;
    return st;
}

enum pdl_status pdl_trace_rank(struct pdl_trace *t, int rank,
                               struct pdl_err *err)
{
    enum pdl_status st = end_rank(t, err);

    t->rank = rank;
    if (st == PDL_OK && t->ranks[rank].n > 0)
        st = pdl_fail(err, PDL_EPARSE, "%s: rank %d is there twice", t->name,
                      rank);
    return st;
}

/* ---- who meets whom ------------------------------------------------------ */

struct half {
    int from, to;
    int64_t nth, bytes, tag;
};

static int by_pair(const void *a, const void *b)
{
    const struct half *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->nth > y->nth) - (x->nth < y->nth);
}

/* All sends, or all receives, by pair and in order. */
static int64_t halves(const struct pdl_trace *t, bool sends, struct half *out)
{
    int64_t n = 0;

    for (int r = 0; r < t->nranks; r++)
        for (int64_t i = 0; i < t->ranks[r].n; i++) {
            const struct pdl_traffic_op *o = &t->ranks[r].op[i];

            if ((sends ? o->send_to : o->recv_from) < 0)
                continue;
            if (out)
                out[n] = (struct half){
                    sends ? r : o->recv_from, sends ? o->send_to : r, i,
                    sends ? o->send_bytes : o->recv_bytes, t->ranks[r].tag[i]};
            n++;
        }
    if (out && n > 1)
        qsort(out, (size_t)n, sizeof *out, by_pair);
    return n;
}

static enum pdl_status check_pairs(struct pdl_trace *t, struct pdl_err *err)
{
    int64_t n = halves(t, true, NULL), m = halves(t, false, NULL);
    struct half *s = PDL_NEW(t->arena, struct half, n + 1);
    struct half *r = PDL_NEW(t->arena, struct half, m + 1);

    if (!s || !r)
        return no_room(t, err);
    halves(t, true, s);
    halves(t, false, r);
    for (int64_t i = 0; i < n || i < m; i++) {
        const struct half *x = i < n ? &s[i] : &r[i], *y = i < m ? &r[i] : x;

        if (i >= n || i >= m || x->from != y->from || x->to != y->to)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: from %d to %d are not as many sends as "
                            "receives",
                            t->name, x->from, x->to);
        if (x->bytes != y->bytes || x->tag != y->tag)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: from %d to %d a message of %lld bytes, tag "
                            "%lld meets a receive of %lld, tag %lld: pairs "
                            "must be in one order",
                            t->name, x->from, x->to, (long long)x->bytes,
                            (long long)x->tag, (long long)y->bytes,
                            (long long)y->tag);
    }
    return PDL_OK;
}

/* ---- as traffic ---------------------------------------------------------- */

static int64_t nops(void *ctx, int rank)
{
    return ((const struct rank_ops *)ctx)[rank].n;
}

static void op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    *out = ((const struct rank_ops *)ctx)[rank].op[i];
}

enum pdl_status pdl_trace_done(struct pdl_trace *t, struct pdl_traffic *out,
                               struct pdl_err *err)
{
    enum pdl_status st = end_rank(t, err);
    int64_t most = 1;

    if (st == PDL_OK)
        st = check_pairs(t, err);
    if (st != PDL_OK)
        return st;
    for (int r = 0; r < t->nranks; r++)
        most = t->ranks[r].n > most ? t->ranks[r].n : most;
    *out = (struct pdl_traffic){
        .nranks = t->nranks,
        .ctx = t->ranks,
        .nops = nops,
        .op = op,
        .window = most < INT32_MAX ? (int)most : INT32_MAX};
    return PDL_OK;
}
