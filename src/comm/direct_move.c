/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter, allgather, all-to-all and broadcast of all ranks of one node
 * at once: the programs `ordered` and `linear` of coll.h, in which every block
 * goes straight from its rank to where it is wanted. Each rank takes what it
 * gets, one of four ways:
 *
 *   flat      blocks go through the ranks' slots of the area. One wait.
 *   pointer   buffers are in windows (or in one process): read where they are
 *   cma       the same through the kernel
 *   staged    pieces of the blocks go through the stages of the area, twice
 *             buffered: one wait a part
 *
 * A piece of memory that the kernel copies costs it a look at every page; two
 * copies through a stage that stays in the caches are often faster than one by
 * the kernel, and in a broadcast two processors share them. Which is better
 * here is tried as it is used (stream.c). An input that the output overlaps is
 * set aside first. */
#include "comm_direct.h"

enum {
    PART_LEAST = 16384, /* bytes of a piece; less is not worth a wait */
    PART_MOST = 131072, /* what is passed on should still be in the cache */
    PARTS = 4,
    TURNS = 2,
};

/* Elements that go from one rank to another: from where in the input of one,
 * to where in the output of the other. */
struct piece {
    int64_t from, to, n;
};

struct comm_move {
    const char *collective;
    bool sums;  /* what arrives is added up */
    bool apart; /* a block for every rank: each has its room in a stage */
    struct piece (*piece)(const struct comm_direct *d, int from, int to);
};

/* ---- what goes where -------------------------------------------------- */

static struct piece block(const struct comm_direct *d, int r)
{
    int64_t begin = comm_direct_begin(d->call.count, d->head.comm->size, r);

    return (struct piece){
        begin, begin,
        comm_direct_begin(d->call.count, d->head.comm->size, r + 1) - begin};
}

static struct piece scattered(const struct comm_direct *d, int from, int to)
{
    struct piece p = block(d, to);

    (void)from;
    p.to = 0;
    return p;
}

static struct piece gathered(const struct comm_direct *d, int from, int to)
{
    struct piece p = block(d, from);

    (void)to;
    p.from = 0;
    return p;
}

static struct piece exchanged(const struct comm_direct *d, int from, int to)
{
    struct piece p = block(d, to);

    p.to = block(d, from).to;
    return p;
}

static struct piece sent_out(const struct comm_direct *d, int from, int to)
{
    (void)to;
    return (struct piece){0, 0, from == d->call.root ? d->call.count : 0};
}

static const struct comm_move moves[] = {
    {"reduce-scatter", true, true, scattered},
    {"allgather", false, false, gathered},
    {"alltoall", false, true, exchanged},
    {"broadcast", false, false, sent_out},
};
enum { NMOVES = sizeof moves / sizeof moves[0] };

const struct comm_move *comm_move_find(const char *collective)
{
    for (int i = 0; i < NMOVES; i++)
        if (strcmp(moves[i].collective, collective) == 0)
            return &moves[i];
    return NULL;
}

unsigned comm_move_kind(const struct comm_move *m)
{
    return (unsigned)(m - moves) + 1;
}

static enum comm_habits habit(const struct comm_direct *d,
                              enum comm_habits first)
{
    return first + 3 * (comm_move_kind(d->move) - 1);
}

/* ---- the buffers ------------------------------------------------------ */

static const char *input(const struct comm_direct *d, int64_t i)
{
    return (const char *)d->call.in + i * d->size;
}

static char *output(const struct comm_direct *d, int64_t i)
{
    return (char *)d->call.out + i * d->size;
}

/* Elements of this rank's input and output. */
static int64_t in_count(const struct comm_direct *d)
{
    return d->move->piece == gathered ? block(d, d->head.comm->rank).n
                                      : d->call.count;
}

static int64_t out_count(const struct comm_direct *d)
{
    return d->move->sums ? block(d, d->head.comm->rank).n : d->call.count;
}

/* Nobody may overwrite what others still read: an input that is not exactly
 * where it belongs in the output is copied away. */
static enum pdl_status set_aside(struct comm_direct *d, struct pdl_err *err)
{
    int me = d->head.comm->rank;
    int64_t in_bytes = in_count(d) * d->size;
    const char *in = d->call.in, *out = d->call.out;
    struct piece own = d->move->piece(d, me, me);

    if (in >= out + out_count(d) * d->size || out >= in + in_bytes)
        return PDL_OK;
    if (!d->move->apart && input(d, own.from) == output(d, own.to))
        return PDL_OK;
    d->aside = malloc((size_t)in_bytes + 1);
    if (!d->aside)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    memcpy(d->aside, in, (size_t)in_bytes);
    d->call.in = d->aside;
    comm_direct_worked(d, in_bytes);
    return PDL_OK;
}

/* ---- pointer and cma -------------------------------------------------- */

static enum pdl_status sum_own_pointers(struct comm_direct *d,
                                        struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int half = (int)(d->number & 1), p = c->size;
    const char *in[COMM_DIRECT_RANKS] = {NULL};
    int64_t each = COMM_DIRECT_BLOCK / d->size;
    struct piece own = block(d, c->rank);

    for (int r = 0; r < p; r++) {
        in[r] = comm_direct_reach(
            d, comm_direct_seat(d, c->seat_of_rank[r])->post[half].in);
        if (!in[r])
            return comm_break(c, err, "rank %d freed a window in use", r);
        in[r] += own.from * d->size;
    }
    for (int64_t i = 0; i < own.n; i += each) {
        int64_t n = own.n - i < each ? own.n - i : each;

        comm_direct_sum(d, output(d, i), in, n);
        for (int r = 0; r < p; r++)
            in[r] += n * d->size;
    }
    comm_direct_worked(d, (p + 1) * own.n * d->size);
    return PDL_OK;
}

static enum pdl_status sum_own_cma(struct comm_direct *d, struct pdl_err *err)
{
    int64_t each = COMM_SCRATCH / 2 / d->size;
    struct piece own = block(d, d->head.comm->rank);
    enum pdl_status st = PDL_OK;

    if (!comm_scratch(d->head.comm))
        return pdl_fail(err, PDL_ENOMEM, "no memory for a collective");
    for (int64_t i = 0; st == PDL_OK && i < own.n; i += each) {
        int64_t n = own.n - i < each ? own.n - i : each;

        st = comm_direct_sum_cma(d, output(d, i), (own.from + i) * d->size, n,
                                 err);
    }
    comm_direct_worked(d, (d->head.comm->size + 1) * own.n * d->size);
    return st;
}

/* Rank r's block for this one, from where it is. */
static enum pdl_status take_block(struct comm_direct *d, int r,
                                  struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    int seat = c->seat_of_rank[r];
    struct comm_place at =
        comm_direct_seat(d, seat)->post[(int)(d->number & 1)].in;
    struct piece p = d->move->piece(d, r, c->rank);
    const char *from = r == c->rank ? d->call.in : NULL;
    int64_t bytes = p.n * d->size;

    if (bytes == 0)
        return PDL_OK;
    comm_direct_worked(d, bytes);
    if (!from && d->way == COMM_WAY_CMA)
        return comm_cma_read(c, seat, output(d, p.to),
                             at.at + (uint64_t)(p.from * d->size), bytes, err);
    if (!from)
        from = comm_direct_reach(d, at);
    if (!from)
        return comm_break(c, err, "rank %d freed a window in use", r);
    from += p.from * d->size;
    if (from != output(d, p.to))
        comm_direct_copy(d->out_streams, output(d, p.to), from, bytes);
    return PDL_OK;
}

/* Everyone begins with another rank. */
static enum pdl_status take(struct comm_direct *d, struct pdl_err *err)
{
    pdl_comm *c = d->head.comm;
    enum pdl_status st = PDL_OK;

    if (d->move->sums)
        st = d->way == COMM_WAY_CMA ? sum_own_cma(d, err)
                                    : sum_own_pointers(d, err);
    for (int i = 1; !d->move->sums && st == PDL_OK && i <= c->size; i++)
        st = take_block(d, (c->rank + i) % c->size, err);
    return st;
}

/* ---- slots and stages ------------------------------------------------- */

/* A stage is used piece after piece, over and over: lines that another core
 * still has in its cache are dear to write. By few turns, so that it is warm
 * after few uses: what is tried now and then is compared with what is used. */
static char *stage_room(const struct comm_direct *d, int seat)
{
    struct comm_area *a = d->head.comm->area;
    int64_t bytes =
        d->each * d->size * (d->move->apart ? d->head.comm->size : 1);
    int64_t fit = a->stage_bytes / bytes, used = fit < TURNS ? fit : TURNS;
    int64_t slot = (int64_t)((d->number >> 1) % (uint64_t)used);

    return comm_area_stage(a, seat, (int)(d->number & 1)) + slot * bytes;
}

/* Where rank r's piece for another rank is, of this part. */
static char *room(const struct comm_direct *d, int r, int to)
{
    int seat = d->head.comm->seat_of_rank[r];
    char *at =
        d->way == COMM_WAY_FLAT
            ? comm_area_flat(d->head.comm->area, seat, (int)(d->number & 1))
            : stage_room(d, seat);

    return at + (d->move->apart ? to * d->each * d->size : 0);
}

/* What of a block belongs to this part. */
static struct piece in_part(const struct comm_direct *d, int from, int to)
{
    struct piece p = d->move->piece(d, from, to);
    int64_t skip = d->part * d->each;

    p.n = p.n - skip < d->each ? p.n - skip : d->each;
    p.n = p.n > 0 ? p.n : 0;
    p.from += skip;
    p.to += skip;
    return p;
}

static void put_in(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    int me = c->rank;

    for (int i = 1; i < c->size; i++) {
        int to = (me + i) % c->size;
        struct piece p = in_part(d, me, to);

        comm_direct_copy(d->streams, room(d, me, to), input(d, p.from),
                         p.n * d->size);
        comm_direct_worked(d, p.n * d->size);
        if (!d->move->apart)
            break; /* the same for all */
    }
    comm_direct_arrive(d);
}

/* While the others arrive. */
static void take_own(struct comm_direct *d)
{
    int me = d->head.comm->rank;
    struct piece p = in_part(d, me, me);

    if (d->move->sums || p.n == 0 || input(d, p.from) == output(d, p.to))
        return;
    comm_direct_copy(d->out_streams, output(d, p.to), input(d, p.from),
                     p.n * d->size);
    comm_direct_worked(d, p.n * d->size);
}

static void sum_out(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    const char *from[COMM_DIRECT_RANKS] = {NULL};
    struct piece own = in_part(d, c->rank, c->rank);
    int64_t each = COMM_DIRECT_BLOCK / d->size;

    for (int64_t i = 0; i < own.n; i += each) {
        int64_t n = own.n - i < each ? own.n - i : each;

        for (int r = 0; r < c->size; r++)
            from[r] = r == c->rank ? input(d, own.from + i)
                                   : room(d, r, c->rank) + i * d->size;
        comm_direct_sum(d, output(d, own.to + i), from, n);
    }
    comm_direct_worked(d, (c->size + 1) * own.n * d->size);
}

static void take_out(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;

    if (d->move->sums) {
        sum_out(d);
        return;
    }
    for (int i = 1; i < c->size; i++) {
        int r = (c->rank + i) % c->size;
        struct piece p = in_part(d, r, c->rank);

        comm_direct_copy(d->out_streams, output(d, p.to), room(d, r, c->rank),
                         p.n * d->size);
        comm_direct_worked(d, p.n * d->size);
    }
}

/* ---- the machine ------------------------------------------------------ */

static void next_part(struct comm_direct *d)
{
    comm_direct_next(d);
    put_in(d);
    take_own(d);
    d->phase = COMM_PHASE_STAGE_IN;
}

/* A block of an allgather may use a whole stage, those of an all-to-all share
 * it. Several parts, so that ranks copy in and out at the same time; not where
 * they wait for a processor at every one. */
static void start_parts(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    bool flat = d->way == COMM_WAY_FLAT;
    int64_t bytes = flat ? COMM_FLAT_BYTES : c->area->stage_bytes;
    int64_t blocks = d->move->piece == sent_out ? 1 : c->size;
    int64_t longest = (d->call.count + blocks - 1) / blocks;
    int64_t most = bytes / d->size / (d->move->apart ? c->size : 1);
    int64_t few = PART_LEAST / d->size, some = longest / PARTS;

    if (some > PART_MOST / d->size)
        some = PART_MOST / d->size;
    some = flat || c->crowded ? longest : some < few ? few : some;
    d->each = some < most ? some : most;
    d->parts = (longest + d->each - 1) / d->each;
    d->part = 0;
    next_part(d);
}

/* How to copy into stages one rank says, since others pay for it; how to copy
 * out of them each knows. */
static void choose_copies(struct comm_direct *d)
{
    pdl_comm *c = d->head.comm;
    int who = c->seat_of_rank[comm_direct_decider(d)];

    d->streams = comm_direct_seat(d, who)->post[(int)(d->number & 1)].streams;
    d->out_streams =
        comm_habit_choose(c, habit(d, COMM_MOVE_OUT), d->call.count * d->size);
    d->start_s = pdl_clock_s();
}

static enum pdl_status begin(struct comm_direct *d, struct pdl_err *err)
{
    enum pdl_status st = set_aside(d, err);

    if (st != PDL_OK)
        return st;
    if (d->way == COMM_WAY_FLAT) {
        start_parts(d);
        return PDL_OK;
    }
    comm_direct_next(d);
    comm_direct_post(d, in_count(d) * d->size, out_count(d) * d->size);
    comm_direct_seat(d, d->head.comm->node_rank)
        ->post[(int)(d->number & 1)]
        .streams = d->head.comm->rank == comm_direct_decider(d) &&
                   comm_habit_choose(d->head.comm, habit(d, COMM_MOVE_IN),
                                     d->call.count * d->size);
    comm_direct_arrive(d);
    d->phase = COMM_PHASE_GATHERING;
    return PDL_OK;
}

static enum pdl_status all_there(struct comm_direct *d, struct pdl_err *err)
{
    enum pdl_status st;

    if (d->odd >= 0)
        return comm_direct_unequal(d, d->odd, err);
    st = comm_direct_decide(d, err);
    if (st != PDL_OK)
        return st;
    if (d->way != COMM_WAY_CMA)
        choose_copies(d);
    if (d->way == COMM_WAY_STAGED) {
        comm_direct_stages(d);
        start_parts(d);
        return PDL_OK;
    }
    st = take(d, err);
    comm_direct_finish(d);
    d->phase = COMM_PHASE_LEAVING;
    return st;
}

static void leave(struct comm_direct *d)
{
    d->head.comm->used = comm_direct_way(d);
    if (d->way == COMM_WAY_STAGED &&
        d->head.comm->rank == comm_direct_decider(d))
        comm_direct_learn(d, habit(d, COMM_MOVE_IN), d->streams);
    if (d->way != COMM_WAY_CMA)
        comm_direct_learn(d, habit(d, COMM_MOVE_OUT), d->out_streams);
    comm_direct_learn_way(d);
}

/* Everyone's piece of this part is there. */
static enum pdl_status part_there(struct comm_direct *d, bool *done,
                                  struct pdl_err *err)
{
    if (d->odd >= 0)
        return comm_direct_unequal(d, d->odd, err);
    take_out(d);
    if (++d->part < d->parts) {
        next_part(d);
        return PDL_OK;
    }
    leave(d);
    *done = true;
    return PDL_OK;
}

enum pdl_status comm_move_advance(pdl_comm_request *r, bool *done,
                                  struct pdl_err *err)
{
    struct comm_direct *d = (struct comm_direct *)r;
    enum pdl_status st = PDL_OK;

    *done = false;
    if (d->phase == COMM_PHASE_BEGIN)
        st = begin(d, err);
    if (st == PDL_OK && d->phase == COMM_PHASE_GATHERING &&
        comm_direct_all_arrived(d))
        st = all_there(d, err);
    while (st == PDL_OK && !*done && d->phase == COMM_PHASE_STAGE_IN &&
           comm_direct_all_arrived(d))
        st = part_there(d, done, err);
    if (st == PDL_OK && d->phase == COMM_PHASE_LEAVING &&
        comm_direct_all_finished(d)) {
        leave(d);
        *done = true;
    }
    return st;
}
