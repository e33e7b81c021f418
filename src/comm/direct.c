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
 * How they meet and agree is in direct_meet.c. */
#include "comm_direct.h"

enum {
    WORTH_TIMING = 2048, /* bytes; shorter copies cost nothing */
};

/* ---- flat ------------------------------------------------------------- */

static void flat_begin(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    int64_t bytes = d->call.count * d->size;

    if (bytes >= WORTH_TIMING) {
        d->streams = comm_habit_choose(c, COMM_SLOT, bytes);
        d->start_s = pdl_clock_s();
    }
    comm_direct_copy(
        d->streams, comm_area_flat(c->area, c->node_rank, (int)(d->number & 1)),
        d->call.in, bytes);
    comm_direct_worked(d, bytes * (1 + c->size));
    comm_direct_arrive(d);
}

static void flat_sum(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    const struct comm_call *call = &d->call;
    char *a = comm_area_flat(c->area, 0, half);
    char *b = comm_area_flat(c->area, 1, half);

    pdl_comm_combine(call->out, a, b, call->count, call->type, call->op);
    for (int r = 2; r < c->size; r++)
        comm_reduce(call->out, comm_area_flat(c->area, r, half), call->count,
                    call->type, call->op);
    if (call->op == PDL_COMM_AVG)
        comm_scale(call->out, call->count, call->type, c->size);
}

/* ---- pointer ---------------------------------------------------------- */

/* Sums blocks of its part and writes them into everyone's result. */
static enum pdl_status sum_pointers(struct comm_direct *d, struct pdl_err *err)
{
    enum { FEW = 64 };
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1), p = c->size;
    const char *in[FEW] = {NULL}, *from[FEW] = {NULL};
    char *out[FEW] = {NULL}, *block = comm_scratch(c);
    int64_t each = COMM_DIRECT_BLOCK / d->size,
            turn = COMM_DIRECT_TURN / d->size, done = 0;

    if (!block)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    for (int r = 0; r < p; r++) {
        in[r] = comm_direct_reach(
            d, comm_direct_seat(d, c->seat_of_rank[r])->post[half].in);
        out[r] = comm_direct_reach(
            d, comm_direct_seat(d, c->seat_of_rank[r])->post[half].out);
        if (!in[r] || !out[r])
            return comm_break(c, err, "rank %d freed a window in use", r);
    }
    while (d->at < d->end && done < turn) {
        int64_t n = d->end - d->at < each ? d->end - d->at : each;
        size_t bytes = (size_t)(n * d->size);
        int64_t off = d->at * d->size;

        for (int r = 0; r < p; r++)
            from[r] = in[r] + off;
        comm_direct_sum(d, block, from, n);
        for (int r = 0; r < p; r++)
            memcpy(out[r] + off, block, bytes);
        comm_direct_worked(d, (int64_t)2 * p * (int64_t)bytes);
        d->at += n;
        done += n;
    }
    return PDL_OK;
}

/* ---- cma -------------------------------------------------------------- */

static enum pdl_status sum_cma(struct comm_direct *d, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t each = COMM_SCRATCH / 2 / d->size, done = 0;
    enum pdl_status st = PDL_OK;

    if (!comm_scratch(c))
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    while (st == PDL_OK && d->at < d->end &&
           done < COMM_DIRECT_TURN / d->size) {
        int64_t n = d->end - d->at < each ? d->end - d->at : each;
        int64_t off = d->at * d->size;

        st = comm_direct_sum_cma(d, (char *)d->call.out + off, off, n, err);
        for (int r = 0; st == PDL_OK && r < c->size; r++)
            if (r != c->rank)
                st = comm_cma_write(
                    c, c->seat_of_rank[r],
                    comm_direct_seat(d, c->seat_of_rank[r])->post[half].out.at +
                        (uint64_t)off,
                    (const char *)d->call.out + off, n * d->size, err);
        comm_direct_worked(d, (int64_t)2 * c->size * n * d->size);
        d->at += n;
        done += n;
    }
    return st;
}

/* ---- staged ----------------------------------------------------------- */

static int64_t stage_elements(const struct comm_direct *d)
{
    return d->head.comm->area->stage_bytes / d->size;
}

/* Elements [*begin, + *n) of the vector are this stage's. */
static void stage_range(const struct comm_direct *d, int64_t *begin, int64_t *n)
{
    int64_t each = stage_elements(d);

    *begin = d->part * each;
    *n = d->call.count - *begin < each ? d->call.count - *begin : each;
}

/* What others add up goes into the stage; what is mine stays. */
static void stage_in(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    char *to = comm_area_stage(c->area, c->node_rank, (int)(d->number & 1));
    int64_t begin, n, from, until;
    const char *in;

    stage_range(d, &begin, &n);
    in = (const char *)d->call.in + begin * d->size;
    from = comm_direct_begin(n, c->size, c->rank) * d->size;
    until = comm_direct_begin(n, c->size, c->rank + 1) * d->size;
    comm_direct_copy(d->streams, to, in, from);
    comm_direct_copy(d->streams, to + until, in + until, n * d->size - until);
    comm_direct_worked(d, n * d->size - (until - from));
    comm_direct_arrive(d);
}

static void stage_sum(struct comm_direct *d)
{
    enum { FEW = 64 };
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    char *sums = comm_area_sums(c->area, c->node_rank, half);
    char *block = c->scratch;
    int64_t begin, n, from, until, each = COMM_DIRECT_BLOCK / d->size;
    const char *in[FEW] = {NULL};

    stage_range(d, &begin, &n);
    from = comm_direct_begin(n, c->size, c->rank);
    until = comm_direct_begin(n, c->size, c->rank + 1);
    for (int64_t i = from; i < until; i += each) {
        int64_t k = until - i < each ? until - i : each;

        for (int r = 0; r < c->size; r++)
            in[r] = (r == c->rank
                         ? (const char *)d->call.in + begin * d->size
                         : comm_area_stage(c->area, c->seat_of_rank[r], half)) +
                    i * d->size;
        comm_direct_sum(d, block, in, k);
        memcpy((char *)d->call.out + (begin + i) * d->size, block,
               (size_t)(k * d->size));
        comm_direct_copy(d->streams, sums + (i - from) * d->size, block,
                         k * d->size);
        comm_direct_worked(d, (c->size + 2) * k * d->size);
    }
    comm_direct_finish(d);
}

static void stage_out(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1);
    int64_t begin, n;

    stage_range(d, &begin, &n);
    for (int r = 0; r < c->size; r++) {
        int64_t from = comm_direct_begin(n, c->size, r);
        int64_t until = comm_direct_begin(n, c->size, r + 1);

        if (r == c->rank)
            continue;
        memcpy((char *)d->call.out + (begin + from) * d->size,
               comm_area_sums(c->area, c->seat_of_rank[r], half),
               (size_t)((until - from) * d->size));
        comm_direct_worked(d, (until - from) * d->size);
    }
}

/* ---- the machine ------------------------------------------------------ */

static enum pdl_status start_stages(struct comm_direct *d, struct pdl_err *err)
{
    int64_t each = stage_elements(d);

    if (!comm_scratch(d->head.comm))
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    comm_direct_stages(d);
    d->streams =
        comm_habit_choose(d->head.comm, COMM_STAGE, d->call.count * d->size);
    d->start_s = pdl_clock_s();
    d->parts = (d->call.count + each - 1) / each;
    d->part = 0;
    comm_direct_next(d);
    stage_in(d);
    d->phase = COMM_PHASE_STAGE_IN;
    return PDL_OK;
}

static enum pdl_status begin(struct comm_direct *d)
{
    comm_direct_next(d);
    if (d->way == COMM_WAY_FLAT) {
        flat_begin(d);
    } else {
        comm_direct_post(d, d->call.count * d->size, d->call.count * d->size);
        comm_direct_arrive(d);
    }
    d->phase = COMM_PHASE_GATHERING;
    return PDL_OK;
}

static enum pdl_status gathered(struct comm_direct *d, bool *done,
                                struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    enum pdl_status st = PDL_OK;

    if (d->odd >= 0)
        return comm_direct_unequal(d, d->odd, err);
    if (d->way == COMM_WAY_FLAT) {
        c->used = "slots";
        flat_sum(d);
        comm_direct_learn(d, COMM_SLOT, d->streams);
        *done = true;
        return PDL_OK;
    }
    st = comm_direct_decide(d, err);
    if (st != PDL_OK)
        return st;
    c->used = comm_direct_way(d);
    if (d->way == COMM_WAY_STAGED)
        return start_stages(d, err);
    d->at = comm_direct_begin(d->call.count, c->size, c->rank);
    d->end = comm_direct_begin(d->call.count, c->size, c->rank + 1);
    d->phase = COMM_PHASE_WORKING;
    return PDL_OK;
}

static enum pdl_status summing(struct comm_direct *d, struct pdl_err *err)
{
    enum pdl_status st =
        d->way == COMM_WAY_CMA ? sum_cma(d, err) : sum_pointers(d, err);

    if (st == PDL_OK && d->at == d->end) {
        comm_direct_finish(d);
        d->phase = COMM_PHASE_LEAVING;
    }
    return st;
}

static void next_stage(struct comm_direct *d, bool *done)
{
    stage_out(d);
    if (++d->part == d->parts) {
        comm_direct_learn(d, COMM_STAGE, d->streams);
        comm_direct_learn_way(d);
        *done = true;
        return;
    }
    comm_direct_next(d);
    stage_in(d);
    d->phase = COMM_PHASE_STAGE_IN;
}

/* Goes on until it is done or must wait. */
static enum pdl_status advance(pdl_comm_request *r, bool *done,
                               struct pdl_err *err)
{
    struct comm_direct *d = (struct comm_direct *)r;
    enum pdl_status st = PDL_OK;

    *done = false;
    if (d->phase == COMM_PHASE_BEGIN)
        st = begin(d);
    if (st == PDL_OK && d->phase == COMM_PHASE_GATHERING &&
        comm_direct_all_arrived(d))
        st = gathered(d, done, err);
    if (st == PDL_OK && d->phase == COMM_PHASE_WORKING)
        st = summing(d, err);
    if (st == PDL_OK && d->phase == COMM_PHASE_LEAVING) {
        *done = comm_direct_all_finished(d);
        if (*done)
            comm_direct_learn_way(d);
    }
    if (st == PDL_OK && d->phase == COMM_PHASE_STAGE_IN &&
        comm_direct_all_arrived(d)) {
        stage_sum(d);
        d->phase = COMM_PHASE_STAGE_OUT;
    }
    if (st == PDL_OK && d->phase == COMM_PHASE_STAGE_OUT &&
        comm_direct_all_finished(d))
        next_stage(d, done);
    return st;
}

/* Others may still read what a broken one has set aside. */
static bool release(pdl_comm_request *r, bool force)
{
    struct comm_direct *d = (struct comm_direct *)r;

    if (d->aside && !force && *r->comm->broken)
        return false;
    free(d->aside);
    d->aside = NULL;
    return true;
}

static void fill(struct comm_direct *d, pdl_comm *c,
                 const struct comm_call *call, bool flat)
{
    comm_direct_fill(d, c, call, flat);
    d->head.advance = d->move ? comm_move_advance : advance;
    d->head.release = release;
}

/* The programs that are done so: of each collective one, allreduce two. */
static bool is_direct(const char *collective, const char *spec)
{
    static const char *const known[][2] = {
        {"allreduce", "flat"},   {"allreduce", "ordered"},
        {"allgather", "linear"}, {"reduce-scatter", "ordered"},
        {"alltoall", "linear"},  {"broadcast", "linear"},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(collective, known[i][0]) == 0 &&
            strcmp(spec, known[i][1]) == 0)
            return true;
    return false;
}

/* An allreduce says by its program whether it is short; the others go by
 * their size. */
static bool through_slots(const struct comm_call *call, const char *spec)
{
    int64_t bytes = call->count * comm_type_bytes(call->type);

    return strcmp(call->collective, "allreduce") != 0
               ? bytes <= COMM_FLAT_BYTES
               : bytes <= COMM_FLAT_SUM && strcmp(spec, "flat") == 0;
}

bool comm_direct_fits(const pdl_comm *c, const struct comm_call *call,
                      const char *spec)
{
    if (!spec || !is_direct(call->collective, spec) || !c->area ||
        c->node_size != c->size || c->size < 2 || c->size > COMM_DIRECT_RANKS ||
        call->count == 0)
        return false;
    return strcmp(spec, "flat") != 0 || through_slots(call, spec);
}

/* Waits where it stands: nothing is allocated, nothing queued. */
enum pdl_status comm_direct_run(pdl_comm *c, const struct comm_call *call,
                                const char *spec, struct pdl_err *err)
{
    struct comm_patience patience = {.turns = 0};
    enum pdl_status st;
    struct comm_direct d;
    bool done = false;

    fill(&d, c, call, through_slots(call, spec));
    patience.is_long = d.head.is_long;
    for (;;) {
        st = d.head.advance(&d.head, &done, err);
        if (st != PDL_OK || done)
            break;
        st = comm_wait_turn(c, &patience, d.head.what, err);
        if (st != PDL_OK)
            break;
    }
    if (st != PDL_OK && !*c->broken)
        comm_break(c, err, "%s: %s", d.head.what, pdl_status_text(st));
    release(&d.head, false); /* of a broken one memory is lost: it is in use */
    return st;
}

enum pdl_status comm_direct_start(pdl_comm *c, const struct comm_call *call,
                                  const char *spec, pdl_comm_request **out,
                                  struct pdl_err *err)
{
    struct comm_direct *d = malloc(sizeof *d);

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    fill(d, c, call, through_slots(call, spec));
    return comm_enqueue(&d->head, out, err);
}
