/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduce of all ranks of one node at once. These are the programs `flat`
 * and `ordered` of coll.h: rank r adds up its part of everybody's vector in
 * the order of ranks. A message is a read of the other's memory, so several of
 * them are done in one pass over blocks that stay in the cache, and the sum of
 * a block goes to every rank's result while it is there. Four ways to reach
 * the others:
 *
 *   flat      the whole vector goes into the rank's slot of the area; everyone
 *             adds up all of them. One wait. Short vectors.
 *   pointer   results and inputs are in windows (or in one process): read all,
 *             write all, 2 + P memory passes of N/P on a rank and no copy
 *   cma       the same through the kernel
 *   staged    parts of the vector go through the stages of the area, twice
 *             buffered
 *
 * Every operation (of `staged`: every part) has a number. `arrived` says that
 * a rank's data of that number can be read, `finished` that it no longer reads
 * or writes others' memory for it. Whoever arrives at i + 1 has left i, so
 * what belongs to i may be overwritten by i + 2.
 *
 * Which way is taken must be the same on all ranks: what each knows of its own
 * buffers is in its post, and everyone looks at all posts. */
#include "comm_core.h"

#include <inttypes.h>

enum {
    WORTH_TIMING = 2048,  /* bytes; shorter copies cost nothing */
    WORTH_KERNEL = 65536, /* bytes; for less a call of it is too dear */
    BLOCK = 32768,        /* summed while it stays in the first cache */
    TURN = 4 << 20,       /* bytes summed before others get a turn */
};

enum way { UNDECIDED, FLAT, POINTER, CMA, STAGED };
enum phase {
    BEGIN,
    GATHERING,
    SUMMING,
    LEAVING,
    STAGE_IN,
    STAGE_SUM,
    STAGE_OUT
};

struct direct {
    pdl_comm_request head;
    struct comm_call call;
    enum way way;
    enum phase phase;
    uint64_t number;
    uint64_t tag;        /* what is asked for, in TAG_BITS */
    int odd;             /* a seat that asks for something else; -1: none */
    int next;            /* seats before it have been seen */
    int64_t size;        /* of an element */
    int64_t at, end;     /* elements of its part still to sum */
    int64_t part, parts; /* staged: which of how many */
    bool streams;        /* copies for others go past the cache */
    double start_s;
    double way_s; /* when there was a choice of ways; 0: none */
};

/* ---- waiting for the others ------------------------------------------- */

static struct comm_seat *seat(const struct direct *d, int i)
{
    return comm_area_seat(d->head.comm->area, i);
}

/* This rank reads or writes so many bytes, and waits for everyone once. */
static void count_work(struct direct *d, int64_t bytes)
{
    d->head.comm->worked += bytes;
}

static void count_wait(struct direct *d)
{
    d->head.comm->signals += d->head.comm->size - 1;
}

/* What a rank asks for goes with its arrival, at no cost: exactly for what
 * goes through slots (32 KiB: 15 bits of elements, type, operation), that it is
 * longer for all others, whose counts decide() compares. */
enum { TAG_BITS = 22, TAG_LONG = 1 << 21 };

static int64_t asked(const struct direct *d)
{
    return d->call.count * 64 + (int64_t)d->call.type * 8 + (int64_t)d->call.op;
}

/* A rank that has gone on to the next operation has seen this one's tags: its
 * own is not looked at any more. */
static bool has_come(struct direct *d, int i)
{
    uint64_t at =
        atomic_load_explicit(&seat(d, i)->arrived, memory_order_acquire);

    if (at >> TAG_BITS == d->number &&
        (at & (((uint64_t)1 << TAG_BITS) - 1)) != d->tag)
        d->odd = i;
    return at >> TAG_BITS >= d->number;
}

static void arrive(struct direct *d)
{
    count_wait(d);
    atomic_store_explicit(&seat(d, d->head.comm->node_rank)->arrived,
                          d->number << TAG_BITS | d->tag, memory_order_release);
    comm_meet(d->head.comm);
    d->head.comm->moves++; /* who waits now waits for something else */
    d->next = 0;
}

static bool all_arrived(struct direct *d)
{
    int n = d->head.comm->size;

    while (d->next < n && has_come(d, d->next))
        d->next++;
    return d->next == n;
}

static void finish(struct direct *d)
{
    atomic_store_explicit(&seat(d, d->head.comm->node_rank)->finished,
                          d->number, memory_order_release);
    comm_meet(d->head.comm);
    d->head.comm->moves++;
    d->next = 0;
    count_wait(d);
}

static bool all_finished(struct direct *d)
{
    int n = d->head.comm->size;

    while (d->next < n &&
           atomic_load_explicit(&seat(d, d->next)->finished,
                                memory_order_acquire) >= d->number)
        d->next++;
    return d->next == n;
}

/* ---- sums ------------------------------------------------------------- */

/* to = from[0] op from[1] ..., in this order; `to` is none of them but may be
 * one of the first two. */
static void sum_block(const struct direct *d, void *to, const char *const *from,
                      int64_t n)
{
    const struct comm_call *call = &d->call;
    int p = d->head.comm->size;

    comm_reduce3(to, from[0], from[1], n, call->type, call->op);
    for (int r = 2; r < p; r++)
        comm_reduce(to, from[r], n, call->type, call->op);
    if (call->op == PDL_COMM_AVG)
        comm_scale(to, n, call->type, p);
}

static int64_t part_begin(int64_t count, int p, int r)
{
    struct pdl_coll_buf b = {count, p};

    return pdl_coll_chunk_begin(&b, r);
}

/* ---- copies for the others -------------------------------------------- */

static void share_copy(const struct direct *d, void *to, const void *from,
                       int64_t bytes)
{
    if (d->streams)
        comm_stream_copy(to, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
}

static void learn(const struct direct *d, enum comm_habits what)
{
    if (d->start_s > 0)
        comm_habit_learn(d->head.comm, what, d->call.count * d->size,
                         d->streams, pdl_clock_s() - d->start_s);
}

/* Rank 0 decided, rank 0 learns. */
static void learn_way(const struct direct *d)
{
    if (d->way_s > 0 && d->head.comm->rank == 0)
        comm_habit_learn(d->head.comm, COMM_KERNEL, d->call.count * d->size,
                         d->way == CMA, pdl_clock_s() - d->way_s);
}

/* ---- flat ------------------------------------------------------------- */

static void flat_begin(struct direct *d)
{
    pdl_comm *c = d->head.comm;
    int64_t bytes = d->call.count * d->size;

    if (bytes >= WORTH_TIMING) {
        d->streams = comm_habit_choose(c, COMM_SLOT, bytes);
        d->start_s = pdl_clock_s();
    }
    share_copy(d, comm_area_flat(c->area, c->node_rank, (int)(d->number & 1)),
               d->call.in, bytes);
    count_work(d, bytes * (1 + c->size));
    arrive(d);
}

static void flat_sum(struct direct *d)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    const struct comm_call *call = &d->call;
    char *a = comm_area_flat(c->area, 0, half);
    char *b = comm_area_flat(c->area, 1, half);

    comm_reduce3(call->out, a, b, call->count, call->type, call->op);
    for (int r = 2; r < c->size; r++)
        comm_reduce(call->out, comm_area_flat(c->area, r, half), call->count,
                    call->type, call->op);
    if (call->op == PDL_COMM_AVG)
        comm_scale(call->out, call->count, call->type, c->size);
}

/* ---- one way or another ----------------------------------------------- */

static void post(struct direct *d)
{
    pdl_comm *c = d->head.comm;
    struct comm_seat *s = seat(d, c->node_rank);
    int64_t bytes = d->call.count * d->size;
    int half = (int)(d->number & 1);

    s->post[half].in = comm_place_of(c, d->call.in, bytes);
    s->post[half].out = comm_place_of(c, d->call.out, bytes);
    s->post[half].check = asked(d);
    s->post[half].kernel = c->rank == 0 && c->reach == COMM_REACH_WINDOW &&
                           c->cma && bytes >= WORTH_KERNEL &&
                           comm_habit_choose(c, COMM_KERNEL, bytes);
}

static enum pdl_status unequal(struct direct *d, int other, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;

    return comm_break(c, err,
                      "allreduce: rank %d and rank %d ask for "
                      "different counts, types or operations",
                      c->rank, c->rank_of_seat[other]);
}

/* Everyone is there: do all ask for the same, and are all in windows? */
static enum pdl_status decide(struct direct *d, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t check = seat(d, c->node_rank)->post[half].check;
    bool windows = c->reach == COMM_REACH_WINDOW, plain = windows;

    for (int i = 0; i < c->size; i++) {
        struct comm_seat *s = seat(d, i);

        if (s->post[half].check != check)
            return unequal(d, i, err);
        windows =
            windows && s->post[half].in.window && s->post[half].out.window;
        plain = plain && !s->post[half].in.window && !s->post[half].out.window;
    }
    d->way = c->reach == COMM_REACH_POINTER || windows ? POINTER
             : c->reach == COMM_REACH_CMA              ? CMA
                                                       : STAGED;
    if (d->way == STAGED && plain && c->cma &&
        d->call.count * d->size >= WORTH_KERNEL) {
        d->way_s = pdl_clock_s();
        if (seat(d, c->seat_of_rank[0])->post[half].kernel)
            d->way = CMA;
    }
    return PDL_OK;
}

/* ---- pointer ---------------------------------------------------------- */

static char *reach(const struct direct *d, struct comm_place at)
{
    if (at.window == 0)
        return (char *)(uintptr_t)at.at; /* one process */
    return comm_place_here(d->head.comm, at);
}

/* Sums blocks of its part and writes them into everyone's result. */
static enum pdl_status sum_pointers(struct direct *d, struct pdl_err *err)
{
    enum { FEW = 64 };
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1), p = c->size;
    const char *in[FEW] = {NULL}, *from[FEW] = {NULL};
    char *out[FEW] = {NULL}, *block = comm_scratch(c);
    int64_t each = BLOCK / d->size, turn = TURN / d->size, done = 0;

    if (!block)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    for (int r = 0; r < p; r++) {
        in[r] = reach(d, seat(d, c->seat_of_rank[r])->post[half].in);
        out[r] = reach(d, seat(d, c->seat_of_rank[r])->post[half].out);
        if (!in[r] || !out[r])
            return comm_break(c, err, "rank %d freed a window in use", r);
    }
    while (d->at < d->end && done < turn) {
        int64_t n = d->end - d->at < each ? d->end - d->at : each;
        size_t bytes = (size_t)(n * d->size);
        int64_t off = d->at * d->size;

        for (int r = 0; r < p; r++)
            from[r] = in[r] + off;
        sum_block(d, block, from, n);
        for (int r = 0; r < p; r++)
            memcpy(out[r] + off, block, bytes);
        count_work(d, (int64_t)2 * p * (int64_t)bytes);
        d->at += n;
        done += n;
    }
    return PDL_OK;
}

/* ---- cma -------------------------------------------------------------- */

/* The sum of a block of this rank's part, left in its result. Its own input
 * may be the same memory, so the sum is made beside it when its turn is not
 * among the first two. */
static enum pdl_status sum_cma_block(struct direct *d, int64_t n,
                                     struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t off = d->at * d->size, bytes = n * d->size;
    const char *mine = (const char *)d->call.in + off;
    char *out = (char *)d->call.out + off, *first = c->scratch;
    char *other = first + COMM_SCRATCH / 2;
    char *sum = c->rank < 2 ? out : first;
    enum pdl_status st = PDL_OK;

    for (int r = 0; st == PDL_OK && r < c->size; r++) {
        int seat_r = c->seat_of_rank[r];
        char *to = r == 0 ? first : other;

        if (r != c->rank)
            st = comm_cma_read(
                c, seat_r, to,
                seat(d, seat_r)->post[half].in.at + (uint64_t)off, bytes, err);
        if (st != PDL_OK || r == 0)
            continue;
        if (r == 1)
            comm_reduce3(sum, c->rank == 0 ? mine : first,
                         c->rank == 1 ? mine : other, n, d->call.type,
                         d->call.op);
        else
            comm_reduce(sum, r == c->rank ? mine : other, n, d->call.type,
                        d->call.op);
    }
    if (st == PDL_OK && sum != out)
        memcpy(out, sum, (size_t)bytes);
    if (st == PDL_OK && d->call.op == PDL_COMM_AVG)
        comm_scale(out, n, d->call.type, c->size);
    return st;
}

static enum pdl_status sum_cma(struct direct *d, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t each = COMM_SCRATCH / 2 / d->size, done = 0;
    enum pdl_status st = PDL_OK;

    if (!comm_scratch(c))
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    while (st == PDL_OK && d->at < d->end && done < TURN / d->size) {
        int64_t n = d->end - d->at < each ? d->end - d->at : each;
        int64_t off = d->at * d->size;

        st = sum_cma_block(d, n, err);
        for (int r = 0; st == PDL_OK && r < c->size; r++)
            if (r != c->rank)
                st = comm_cma_write(
                    c, c->seat_of_rank[r],
                    seat(d, c->seat_of_rank[r])->post[half].out.at +
                        (uint64_t)off,
                    (const char *)d->call.out + off, n * d->size, err);
        count_work(d, (int64_t)2 * c->size * n * d->size);
        d->at += n;
        done += n;
    }
    return st;
}

/* ---- staged ----------------------------------------------------------- */

static int64_t stage_elements(const struct direct *d)
{
    return d->head.comm->area->stage_bytes / d->size;
}

/* Elements [*begin, + *n) of the vector are this stage's. */
static void stage_range(const struct direct *d, int64_t *begin, int64_t *n)
{
    int64_t each = stage_elements(d);

    *begin = d->part * each;
    *n = d->call.count - *begin < each ? d->call.count - *begin : each;
}

/* What others add up goes into the stage; what is mine stays. */
static void stage_in(struct direct *d)
{
    pdl_comm *c = d->head.comm;
    char *to = comm_area_stage(c->area, c->node_rank, (int)(d->number & 1));
    int64_t begin, n, from, until;
    const char *in;

    stage_range(d, &begin, &n);
    in = (const char *)d->call.in + begin * d->size;
    from = part_begin(n, c->size, c->rank) * d->size;
    until = part_begin(n, c->size, c->rank + 1) * d->size;
    share_copy(d, to, in, from);
    share_copy(d, to + until, in + until, n * d->size - until);
    count_work(d, n * d->size - (until - from));
    arrive(d);
}

static void stage_sum(struct direct *d)
{
    enum { FEW = 64 };
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    char *sums = comm_area_sums(c->area, c->node_rank, half);
    char *block = c->scratch;
    int64_t begin, n, from, until, each = BLOCK / d->size;
    const char *in[FEW] = {NULL};

    stage_range(d, &begin, &n);
    from = part_begin(n, c->size, c->rank);
    until = part_begin(n, c->size, c->rank + 1);
    for (int64_t i = from; i < until; i += each) {
        int64_t k = until - i < each ? until - i : each;

        for (int r = 0; r < c->size; r++)
            in[r] = (r == c->rank
                         ? (const char *)d->call.in + begin * d->size
                         : comm_area_stage(c->area, c->seat_of_rank[r], half)) +
                    i * d->size;
        sum_block(d, block, in, k);
        memcpy((char *)d->call.out + (begin + i) * d->size, block,
               (size_t)(k * d->size));
        share_copy(d, sums + (i - from) * d->size, block, k * d->size);
        count_work(d, (c->size + 2) * k * d->size);
    }
    finish(d);
}

static void stage_out(struct direct *d)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t begin, n;

    stage_range(d, &begin, &n);
    for (int r = 0; r < c->size; r++) {
        int64_t from = part_begin(n, c->size, r);
        int64_t until = part_begin(n, c->size, r + 1);

        if (r == c->rank)
            continue;
        memcpy((char *)d->call.out + (begin + from) * d->size,
               comm_area_sums(c->area, c->seat_of_rank[r], half),
               (size_t)((until - from) * d->size));
        count_work(d, (until - from) * d->size);
    }
}

/* ---- the machine ------------------------------------------------------ */

static enum pdl_status start_stages(struct direct *d, struct pdl_err *err)
{
    int64_t each = stage_elements(d);

    if (!comm_scratch(d->head.comm))
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    d->streams =
        comm_habit_choose(d->head.comm, COMM_STAGE, d->call.count * d->size);
    d->start_s = pdl_clock_s();
    d->parts = (d->call.count + each - 1) / each;
    d->part = 0;
    d->number = ++d->head.comm->number;
    stage_in(d);
    d->phase = STAGE_IN;
    return PDL_OK;
}

static enum pdl_status begin(struct direct *d)
{
    d->number = ++d->head.comm->number;
    if (d->way == FLAT) {
        flat_begin(d);
    } else {
        post(d);
        arrive(d);
    }
    d->phase = GATHERING;
    return PDL_OK;
}

static enum pdl_status gathered(struct direct *d, bool *done,
                                struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    enum pdl_status st = PDL_OK;

    if (d->odd >= 0)
        return unequal(d, d->odd, err);
    if (d->way == FLAT) {
        c->used = "slots";
        flat_sum(d);
        learn(d, COMM_SLOT);
        *done = true;
        return PDL_OK;
    }
    st = decide(d, err);
    if (st != PDL_OK)
        return st;
    c->used = d->way == STAGED                 ? "staged"
              : d->way == CMA                  ? "cma"
              : c->reach == COMM_REACH_POINTER ? "memory"
                                               : "window";
    if (d->way == STAGED)
        return start_stages(d, err);
    d->at = part_begin(d->call.count, c->size, c->rank);
    d->end = part_begin(d->call.count, c->size, c->rank + 1);
    d->phase = SUMMING;
    return PDL_OK;
}

static enum pdl_status summing(struct direct *d, struct pdl_err *err)
{
    enum pdl_status st = d->way == CMA ? sum_cma(d, err) : sum_pointers(d, err);

    if (st == PDL_OK && d->at == d->end) {
        finish(d);
        d->phase = LEAVING;
    }
    return st;
}

static void next_stage(struct direct *d, bool *done)
{
    stage_out(d);
    if (++d->part == d->parts) {
        learn(d, COMM_STAGE);
        learn_way(d);
        *done = true;
        return;
    }
    d->number = ++d->head.comm->number;
    stage_in(d);
    d->phase = STAGE_IN;
}

/* Goes on until it is done or must wait. */
static enum pdl_status advance(pdl_comm_request *r, bool *done,
                               struct pdl_err *err)
{
    struct direct *d = (struct direct *)r;
    enum pdl_status st = PDL_OK;

    *done = false;
    if (d->phase == BEGIN)
        st = begin(d);
    if (st == PDL_OK && d->phase == GATHERING && all_arrived(d))
        st = gathered(d, done, err);
    if (st == PDL_OK && d->phase == SUMMING)
        st = summing(d, err);
    if (st == PDL_OK && d->phase == LEAVING) {
        *done = all_finished(d);
        if (*done)
            learn_way(d);
    }
    if (st == PDL_OK && d->phase == STAGE_IN && all_arrived(d)) {
        stage_sum(d);
        d->phase = STAGE_OUT;
    }
    if (st == PDL_OK && d->phase == STAGE_OUT && all_finished(d))
        next_stage(d, done);
    return st;
}

static bool release(pdl_comm_request *r, bool force)
{
    (void)r, (void)force;
    return true;
}

static void fill(struct direct *d, pdl_comm *c, const struct comm_call *call,
                 bool flat)
{
    memset(d, 0, sizeof *d);
    d->head.comm = c;
    d->head.what = "allreduce";
    d->head.advance = advance;
    d->head.release = release;
    d->call = *call;
    d->size = comm_type_bytes(call->type);
    d->head.is_long = call->count * d->size >= COMM_LONG_BYTES;
    d->way = flat ? FLAT : UNDECIDED;
    d->tag = flat ? (uint64_t)asked(d) : TAG_LONG;
    d->odd = -1;
}

bool comm_direct_fits(const pdl_comm *c, const struct comm_call *call,
                      const char *spec)
{
    bool flat = spec && strcmp(spec, "flat") == 0;

    if (!spec || strcmp(call->collective, "allreduce") != 0 || !c->area ||
        c->node_size != c->size || c->size < 2 || c->size > 64 ||
        call->count == 0)
        return false;
    if (flat)
        return call->count * comm_type_bytes(call->type) <= COMM_FLAT_BYTES;
    return strcmp(spec, "ordered") == 0;
}

/* Waits where it stands: nothing is allocated, nothing queued. */
enum pdl_status comm_direct_run(pdl_comm *c, const struct comm_call *call,
                                bool flat, struct pdl_err *err)
{
    struct comm_patience patience = {.turns = 0};
    enum pdl_status st;
    struct direct d;
    bool done = false;

    fill(&d, c, call, flat);
    patience.is_long = d.head.is_long;
    for (;;) {
        st = advance(&d.head, &done, err);
        if (st != PDL_OK || done)
            break;
        st = comm_wait_turn(c, &patience, "allreduce", err);
        if (st != PDL_OK)
            break;
    }
    if (st != PDL_OK && !*c->broken)
        comm_break(c, err, "allreduce: %s", pdl_status_text(st));
    return st;
}

enum pdl_status comm_direct_start(pdl_comm *c, const struct comm_call *call,
                                  bool flat, pdl_comm_request **out,
                                  struct pdl_err *err)
{
    struct direct *d = malloc(sizeof *d);

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    fill(d, c, call, flat);
    return comm_enqueue(&d->head, out, err);
}
