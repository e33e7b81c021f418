/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of one node that do an operation together: how they meet, and agree.
 *
 * Every operation (where it goes through stages: every part) has a number.
 * `arrived` says that a rank's data of that number can be read, `finished`
 * that it no longer reads or writes others' memory for it. Whoever arrives at
 * i + 1 has left i, so what belongs to i may be overwritten by i + 2.
 *
 * Which way is taken must be the same on all ranks: what each knows of its own
 * buffers is in its post, and everyone looks at all posts. */
#include "comm_direct.h"

#include <math.h>

enum {
    WORTH_KERNEL = 65536, /* bytes; for less a call of it is too dear */
};

/* What a rank asks for goes with its arrival, at no cost. For what goes through
 * slots it is told exactly (an allreduce: 15 bits of elements, type,
 * operation) or as a number made from it (the others); for what is longer only
 * that it is, and the posts are compared. */
enum { TAG_BITS = 22, TAG_LONG = 1 << 21 };

/* ---- waiting for the others ------------------------------------------- */

struct comm_seat *comm_direct_seat(const struct comm_direct *d, int i)
{
    return comm_area_seat(d->head.comm->area, i);
}

void comm_direct_worked(struct comm_direct *d, int64_t bytes)
{
    d->head.comm->worked += bytes;
}

static void count_wait(struct comm_direct *d)
{
    d->head.comm->signals += d->head.comm->size - 1;
}

/* A rank that has gone on to the next operation has seen this one's tags: its
 * own is not looked at any more. */
static bool has_come(struct comm_direct *d, int i)
{
    uint64_t at = atomic_load_explicit(&comm_direct_seat(d, i)->arrived,
                                       memory_order_acquire);

    if (at >> TAG_BITS == d->number &&
        (at & (((uint64_t)1 << TAG_BITS) - 1)) != d->tag)
        d->odd = i;
    return at >> TAG_BITS >= d->number;
}

void comm_direct_next(struct comm_direct *d)
{
    d->number = ++d->head.comm->number;
}

void comm_direct_arrive(struct comm_direct *d)
{
    count_wait(d);
    atomic_store_explicit(
        &comm_direct_seat(d, d->head.comm->node_rank)->arrived,
        d->number << TAG_BITS | d->tag, memory_order_release);
    comm_meet(d->head.comm);
    d->head.comm->moves++; /* who waits now waits for something else */
    d->next = 0;
}

bool comm_direct_all_arrived(struct comm_direct *d)
{
    int n = d->head.comm->size;

    while (d->next < n && has_come(d, d->next))
        d->next++;
    return d->next == n;
}

void comm_direct_finish(struct comm_direct *d)
{
    atomic_store_explicit(
        &comm_direct_seat(d, d->head.comm->node_rank)->finished, d->number,
        memory_order_release);
    comm_meet(d->head.comm);
    d->head.comm->moves++;
    d->next = 0;
    count_wait(d);
}

bool comm_direct_all_finished(struct comm_direct *d)
{
    int n = d->head.comm->size;

    while (d->next < n &&
           atomic_load_explicit(&comm_direct_seat(d, d->next)->finished,
                                memory_order_acquire) >= d->number)
        d->next++;
    return d->next == n;
}

/* ---- copies and sums -------------------------------------------------- */

int64_t comm_direct_begin(int64_t count, int p, int r)
{
    struct pdl_coll_buf b = {count, p};

    return pdl_coll_chunk_begin(&b, r);
}

void comm_direct_sum(const struct comm_direct *d, void *to,
                     const char *const *from, int64_t n)
{
    const struct comm_call *call = &d->call;
    int p = d->head.comm->size;

    pdl_comm_combine(to, from[0], from[1], n, call->type, call->op);
    for (int r = 2; r < p; r++)
        comm_reduce(to, from[r], n, call->type, call->op);
    if (call->op == PDL_COMM_AVG)
        comm_scale(to, n, call->type, p);
}

/* This rank's input may be where the sum goes, so the sum is made beside it
 * when its turn is not among the first two. */
enum pdl_status comm_direct_sum_cma(struct comm_direct *d, char *to,
                                    int64_t off, int64_t n, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t bytes = n * d->size;
    const char *mine = (const char *)d->call.in + off;
    char *first = c->scratch, *other = first + COMM_SCRATCH / 2;
    char *sum = c->rank < 2 ? to : first;
    enum pdl_status st = PDL_OK;

    for (int r = 0; st == PDL_OK && r < c->size; r++) {
        int seat = c->seat_of_rank[r];
        uint64_t from =
            comm_direct_seat(d, seat)->post[half].in.at + (uint64_t)off;

        if (r != c->rank)
            st = comm_cma_read(c, seat, r == 0 ? first : other, from, bytes,
                               err);
        if (st != PDL_OK || r == 0)
            continue;
        if (r == 1)
            pdl_comm_combine(sum, c->rank == 0 ? mine : first,
                             c->rank == 1 ? mine : other, n, d->call.type,
                             d->call.op);
        else
            comm_reduce(sum, r == c->rank ? mine : other, n, d->call.type,
                        d->call.op);
    }
    if (st == PDL_OK && sum != to)
        memcpy(to, sum, (size_t)bytes);
    if (st == PDL_OK && d->call.op == PDL_COMM_AVG)
        comm_scale(to, n, d->call.type, c->size);
    return st;
}

void comm_direct_stages(const struct comm_direct *d)
{
    if (!d->head.comm->staged)
        comm_area_touch_stages(d->head.comm->area);
    d->head.comm->staged = true;
}

void comm_direct_copy(bool streams, void *to, const void *from, int64_t bytes)
{
    if (streams)
        comm_stream_copy(to, from, bytes);
    else if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

void comm_direct_learn(const struct comm_direct *d, enum comm_habits what,
                       bool second)
{
    if (d->start_s > 0)
        comm_habit_learn(d->head.comm, what, d->call.count * d->size, second,
                         pdl_clock_s() - d->start_s);
}

/* ---- one way or another ----------------------------------------------- */

/* One that gets something from another rank: it sees what copies cost. */
int comm_direct_decider(const struct comm_direct *d)
{
    return d->move ? (d->call.root + 1) % d->head.comm->size : 0;
}

/* Who decided learns. */
void comm_direct_learn_way(const struct comm_direct *d)
{
    if (d->way_s > 0 && d->head.comm->rank == comm_direct_decider(d))
        comm_habit_learn(d->head.comm, comm_direct_kernel(d),
                         d->call.count * d->size, d->way == COMM_WAY_CMA,
                         pdl_clock_s() - d->way_s);
}

enum comm_habits comm_direct_kernel(const struct comm_direct *d)
{
    return d->move ? COMM_MOVE_KERNEL + 3 * (comm_move_kind(d->move) - 1)
                   : COMM_KERNEL;
}

static int64_t asked(const struct comm_direct *d)
{
    int64_t code =
        (d->call.count * 8 + (int64_t)d->call.type) * 8 + (int64_t)d->call.op;

    return d->move ? (code * 8 + comm_move_kind(d->move)) * COMM_DIRECT_RANKS +
                         d->call.root
                   : code;
}

void comm_direct_post(struct comm_direct *d, int64_t in_bytes,
                      int64_t out_bytes)
{
    pdl_comm *c = d->head.comm;
    struct comm_seat *s = comm_direct_seat(d, c->node_rank);
    int64_t bytes = d->call.count * d->size;
    int half = (int)(d->number & 1);

    s->post[half].in = comm_place_of(c, d->call.in, in_bytes);
    s->post[half].out = comm_place_of(c, d->call.out, out_bytes);
    s->post[half].check = asked(d);
    s->post[half].at_s = bytes >= WORTH_KERNEL ? pdl_clock_s() : 0;
    s->post[half].kernel = c->rank == comm_direct_decider(d) &&
                           c->reach == COMM_REACH_WINDOW && c->cma &&
                           bytes >= WORTH_KERNEL &&
                           comm_habit_choose(c, comm_direct_kernel(d), bytes);
}

enum pdl_status comm_direct_unequal(struct comm_direct *d, int other,
                                    struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;

    return comm_break(c, err,
                      "%s: rank %d and rank %d ask for "
                      "different counts, types or operations",
                      d->head.what, c->rank, c->rank_of_seat[other]);
}

/* Everyone is there: do all ask for the same, and are all in windows? */
enum pdl_status comm_direct_decide(struct comm_direct *d, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t check = comm_direct_seat(d, c->node_rank)->post[half].check;
    bool windows = c->reach == COMM_REACH_WINDOW, plain = windows;
    double last_s = 0;

    for (int i = 0; i < c->size; i++) {
        struct comm_seat *s = comm_direct_seat(d, i);

        if (s->post[half].check != check)
            return comm_direct_unequal(d, i, err);
        last_s = fmax(last_s, s->post[half].at_s);
        windows =
            windows && s->post[half].in.window && s->post[half].out.window;
        plain = plain && !s->post[half].in.window && !s->post[half].out.window;
    }
    d->way = c->reach == COMM_REACH_POINTER || windows ? COMM_WAY_POINTER
             : c->reach == COMM_REACH_CMA              ? COMM_WAY_CMA
                                                       : COMM_WAY_STAGED;
    if (d->way == COMM_WAY_STAGED && plain && c->cma &&
        d->call.count * d->size >= WORTH_KERNEL) {
        d->way_s = last_s; /* who decides may have looked late */
        if (comm_direct_seat(d, c->seat_of_rank[comm_direct_decider(d)])
                ->post[half]
                .kernel)
            d->way = COMM_WAY_CMA;
    }
    return PDL_OK;
}

const char *comm_direct_way(const struct comm_direct *d)
{
    return d->way == COMM_WAY_FLAT                     ? "slots"
           : d->way == COMM_WAY_STAGED                 ? "staged"
           : d->way == COMM_WAY_CMA                    ? "cma"
           : d->head.comm->reach == COMM_REACH_POINTER ? "memory"
                                                       : "window";
}

char *comm_direct_reach(const struct comm_direct *d, struct comm_place at)
{
    if (at.window == 0)
        return (char *)(uintptr_t)at.at; /* one process */
    return comm_place_here(d->head.comm, at);
}

/* Of what is not exactly told: a number that hardly two share. */
static uint64_t shortened(int64_t code)
{
    return (uint64_t)code * UINT64_C(0x9e3779b97f4a7c15) >> 43;
}

void comm_direct_fill(struct comm_direct *d, pdl_comm *c,
                      const struct comm_call *call, bool flat)
{
    memset(d, 0, sizeof *d);
    d->head.comm = c;
    d->head.what = call->collective;
    d->call = *call;
    d->move = comm_move_find(call->collective);
    d->size = comm_type_bytes(call->type);
    d->head.is_long = call->count * d->size >= COMM_LONG_BYTES;
    d->way = flat ? COMM_WAY_FLAT : COMM_WAY_UNDECIDED;
    d->tag = !flat     ? TAG_LONG
             : d->move ? shortened(asked(d))
                       : (uint64_t)asked(d);
    d->odd = -1;
}
