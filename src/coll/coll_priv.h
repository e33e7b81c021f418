/* Shared by the algorithms: spans, groups of ranks, and the patterns most of
 * them are made of (ring, butterfly, binomial tree, rounds of many ports).
 *
 * To add an algorithm: write its file, declare its descriptor at the end of
 * this one, add one line in algs.c. */
#ifndef COLL_PRIV_H
#define COLL_PRIV_H

#include "paradl/coll.h"

#include <assert.h>
#include <string.h>

/* ---- small arithmetic -------------------------------------------------- */

static inline int64_t coll_mod(int64_t a, int64_t n)
{
    int64_t m = a % n;

    return m < 0 ? m + n : m;
}

static inline bool coll_is_pow2(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* floor(log2(n)), n >= 1 */
static inline int coll_log2(int64_t n)
{
    int l = 0;

    while (n >>= 1)
        l++;
    return l;
}

/* ---- steps ------------------------------------------------------------- */

static inline struct pdl_span coll_run(int buf, int64_t first, int64_t run)
{
    return (struct pdl_span){.buf = buf, .first = first, .run = run, .n = 1};
}

/* A step that does nothing yet. */
static inline void coll_blank(struct pdl_step *out)
{
    memset(out, 0, sizeof *out);
    out->send_to = out->recv_from = -1;
}

static inline void coll_send(struct pdl_step *out, int to, struct pdl_span what)
{
    out->send_to = to;
    if (what.n > 0 && what.run > 0) {
        assert(out->nsend < PDL_STEP_SPANS);
        out->send[out->nsend++] = what;
    }
}

static inline void coll_recv(struct pdl_step *out, int from,
                             struct pdl_span what)
{
    out->recv_from = from;
    if (what.n > 0 && what.run > 0) {
        assert(out->nrecv < PDL_STEP_SPANS);
        out->recv[out->nrecv++] = what;
    }
}

static inline void coll_after(struct pdl_step *out, int64_t s)
{
    if (s >= 0) {
        assert(out->nafter < PDL_STEP_AFTER);
        out->after[out->nafter++] = s;
    }
}

/* Every step waits for the one before. */
static inline void coll_chain(struct pdl_step *out, int64_t s)
{
    out->nafter = 0;
    coll_after(out, s - 1);
}

/* One buffer of the job's size cut into so many chunks. */
static inline void coll_one_buffer(struct pdl_coll_job *job, int64_t chunks)
{
    job->nbufs = 1;
    job->buf[0] = (struct pdl_coll_buf){job->count, chunks};
}

/* Allowed turns: of the ring of all ranks; of the letters of K(d,2). */
void coll_turn_ring(const struct pdl_coll_job *job, struct pdl_turns *out);
void coll_turn_letters(const struct pdl_coll_job *job, struct pdl_turns *out);

/* ---- patterns (patterns.c) --------------------------------------------- */

/* Member i of n is rank base + i*stride; `me` is this rank's i. */
struct coll_group {
    int base, stride, n, me;
};

static inline int coll_member(const struct coll_group *g, int64_t i)
{
    return g->base + (int)coll_mod(i, g->n) * g->stride;
}

/* Piece i is `unit` chunks of a buffer from base + i*unit. */
struct coll_view {
    int buf;
    int64_t base, unit;
};

/* Step t = 0..n-2 of a ring reduce-scatter after which member i owns piece i,
 * and of the ring allgather that follows. */
void coll_ring_scatter(const struct coll_group *g, const struct coll_view *v,
                       int64_t t, struct pdl_step *out);
void coll_ring_gather(const struct coll_group *g, const struct coll_view *v,
                      int64_t t, struct pdl_step *out);

/* A reduce-scatter along each of up to three levels in turn and the way back.
 * Level 0 has stride 1; a rank's index in level l is its l-th digit. */
struct coll_levels {
    int n;
    int64_t extent[3];
};
int64_t coll_levels_nsteps(const struct coll_levels *l);
/* phase counts 0..2n-1: the way in, then the way out. */
void coll_levels_step(const struct coll_levels *l, int rank, int64_t base,
                      int64_t s, struct pdl_step *out, int *phase, int64_t *t);
int64_t coll_levels_alike(const struct coll_levels *l, int64_t s);
void coll_levels_cost(const struct coll_levels *l, double bytes,
                      struct pdl_coll_cost *out);

/* A butterfly of 2^rounds members: in round j member i pairs with
 * partner(i,j), and of two partners exactly one has bit j of bits(i). Partners
 * of round j agree in the bits of all earlier rounds. */
struct coll_butterfly {
    int rounds;
    const struct pdl_coll_job *job;
    int64_t (*partner)(const struct coll_butterfly *b, int64_t i, int j);
    uint32_t (*bits)(const struct coll_butterfly *b, int64_t i);
};
int64_t coll_xor_near(const struct coll_butterfly *b, int64_t i, int j);
int64_t coll_xor_far(const struct coll_butterfly *b, int64_t i, int j);
uint32_t coll_bits_near(const struct coll_butterfly *b, int64_t i);
uint32_t coll_bits_far(const struct coll_butterfly *b, int64_t i);

/* The span that round j of the halving sends (out) or keeps, of 2^rounds
 * pieces; the doubling of round j sends what was kept and vice versa. */
void coll_halves(const struct coll_butterfly *b, const struct coll_view *v,
                 int64_t i, int j, struct pdl_span *keep,
                 struct pdl_span *give);

/* The body of an allreduce among the members of a group: the members of the
 * power of two below n run a butterfly, the others fold into a neighbour
 * first and get the result last. halve: reduce-scatter and allgather of
 * 2^rounds pieces; else whole-vector exchanges. */
struct coll_fold {
    struct coll_butterfly b;
    bool halve;
};
int64_t coll_fold_pieces(const struct coll_fold *f);
int64_t coll_fold_nsteps(const struct coll_fold *f, const struct coll_group *g);
void coll_fold_step(const struct coll_fold *f, const struct coll_group *g,
                    const struct coll_view *v, int64_t s, struct pdl_step *out);
void coll_fold_cost(const struct coll_fold *f, int64_t n, double bytes,
                    struct pdl_coll_cost *out);

/* Binomial tree rooted at member 0. */
int64_t coll_binomial_nsteps(const struct coll_group *g);
void coll_binomial_reduce(const struct coll_group *g, struct pdl_span what,
                          int64_t s, struct pdl_step *out);
void coll_binomial_bcast(const struct coll_group *g, struct pdl_span what,
                         int64_t s, struct pdl_step *out);

/* Rounds of ports[i] steps that run at the same time, with steps between them
 * that join what came before (a step can wait for only four). */
struct coll_rounds {
    int rounds;
    int64_t ports[4];
};
static inline struct coll_rounds coll_even_rounds(int rounds, int64_t ports)
{
    return (struct coll_rounds){rounds, {ports, ports, ports, ports}};
}
int64_t coll_rounds_nsteps(const struct coll_rounds *r);
/* Which port of which round step s is; false: it was a join, now written.
 * Where it is a port the wait for the round before is written. */
bool coll_rounds_locate(const struct coll_rounds *r, int64_t s, int64_t *round,
                        int64_t *port, struct pdl_step *out);

/* Blocks straight to their ranks: step s sends to r+s, waiting for nothing. */
enum pdl_status coll_shift_setup(struct pdl_coll_job *job, struct pdl_err *err);
int64_t coll_shift_nsteps(const struct pdl_coll_job *job, int rank);
void coll_shift_step(const struct pdl_coll_job *job, int rank, int64_t s,
                     struct pdl_step *out);
/* A message that unites so many inputs is pairs of index and value. */
bool coll_is_pairs(const struct pdl_coll_job *job, int terms);
/* Every rank sends block i of a sparse vector to rank i, all at once, and
 * adds what it gets: the first steps of ssar and dsar. The last of them waits
 * for all. */
int64_t coll_split_nsteps(int nranks);
void coll_split_step(int nranks, int rank, int64_t s, struct pdl_step *out);

/* ---- settling parameters (params.c) ------------------------------------ */

/* Ranks per node: given, or 4 where that divides, or the largest divisor not
 * above the square root. */
enum pdl_status coll_settle_k(struct pdl_coll_job *job, struct pdl_err *err);
enum pdl_status coll_settle_segments(struct pdl_coll_job *job, int64_t usual);
/* A grid of x*y*z ranks: given, or as square as possible in `dims`. */
enum pdl_status coll_settle_grid(struct pdl_coll_job *job, int dims,
                                 struct pdl_err *err);
enum pdl_status coll_need_pow2(const struct pdl_coll_job *job,
                               struct pdl_err *err);
/* That, and a chunk of one buffer for each rank. */
enum pdl_status coll_pow2_setup(struct pdl_coll_job *job, struct pdl_err *err);
/* The count is a multiple of n. */
enum pdl_status coll_need_multiple(const struct pdl_coll_job *job, int64_t n,
                                   struct pdl_err *err);

#define COLL_KEY(field, lo, hi, text)                                       \
    {                                                                       \
#field, offsetof(struct pdl_coll_params, field), (lo), (hi), (text) \
    }
#define COLL_KEYS(table) \
    .keys = (table), .nkeys = (int)(sizeof(table) / sizeof(table)[0])

/* ---- running (run.c) --------------------------------------------------- */

/* A message: step send_step of rank `from` to step recv_step of rank `to`. */
struct coll_message {
    int from, to;
    int64_t send_step, recv_step;
    const struct pdl_step *send, *recv;
    bool saved; /* it was set aside when it began */
};

/* Walks every rank's program in a legal order and calls `transfer` for every
 * message, when both sides have begun it. */
struct coll_run {
    const struct pdl_coll_job *job;
    void *ctx;
    /* A step begins; NULL: nobody needs to know. */
    void (*begin)(void *ctx, int rank, int64_t s, const struct pdl_step *step);
    /* A step begins that will receive into what it sends: set its message
     * aside. Every other message can be taken from the buffers. NULL: nobody
     * takes any (finding out costs as much as the chunks are many). */
    enum pdl_status (*save)(void *ctx, int rank, int64_t s,
                            const struct pdl_step *step, struct pdl_err *err);
    enum pdl_status (*transfer)(void *ctx, const struct coll_message *m,
                                struct pdl_err *err);
    bool shuffle; /* draw the order from the seed; else first come */
    uint64_t seed;
    int ports;                 /* result: most sends a rank had open at once */
    int64_t messages;          /* result: between different ranks */
    int64_t steps, rank_bytes; /* result: of the rank that has most */
};
enum pdl_status coll_walk(struct coll_run *run, pdl_arena *a,
                          struct pdl_err *err);

/* The same for ranks in step (in_step.c), whose steps have no hazards either.
 * Not *all: they are not, and what was transferred is to be forgotten. */
enum pdl_status coll_walk_in_step(struct coll_run *run, pdl_arena *a, bool *all,
                                  struct pdl_err *err);

/* The i-th chunk that spans list; the cursor starts as zeros. */
struct coll_cursor {
    int span;
    int64_t run, i;
};
bool coll_next(const struct pdl_coll_job *job, const struct pdl_span *spans,
               int n, struct coll_cursor *at, int *buf, int64_t *chunk);
/* Numbers inside their ranges, spans inside their buffers; PDL_EWRONG. */
enum pdl_status coll_check_step(const struct pdl_coll_job *job, int rank,
                                int64_t s, const struct pdl_step *step,
                                struct pdl_err *err);
/* No two unordered steps of a rank touch a chunk that one of them writes. */
enum pdl_status coll_check_hazards(const struct pdl_coll_job *job, int rank,
                                   pdl_arena *a, struct pdl_err *err);
/* Chunks of all buffers together, and the first of buffer b among them. */
int64_t coll_cells(const struct pdl_coll_job *job, int b);

/* ---- the tables -------------------------------------------------------- */

extern const struct pdl_collective coll_allreduce, coll_reduce_scatter,
    coll_allgather, coll_broadcast, coll_alltoall, coll_halo, coll_exchange;

extern const struct pdl_alg coll_allreduce_ring, coll_allreduce_segmented_ring,
    coll_allreduce_recursive_doubling, coll_allreduce_halving_doubling,
    coll_allreduce_halving_doubling_far, coll_allreduce_rabenseifner,
    coll_allreduce_shd, coll_allreduce_shd_circulant,
    coll_allreduce_double_tree, coll_allreduce_binomial, coll_allreduce_swing,
    coll_allreduce_ring_ring, coll_allreduce_ring_rab, coll_allreduce_ring_rdb,
    coll_allreduce_binomial_ring, coll_allreduce_binomial_binomial,
    coll_allreduce_ring_ring_pipelined, coll_allreduce_torus,
    coll_allreduce_sparse_ring, coll_allreduce_sparse_ring_ring,
    coll_allreduce_ssar, coll_allreduce_dsar, coll_allreduce_kautz,
    coll_allreduce_kautz_small, coll_allreduce_ordered, coll_allreduce_flat,
    coll_reduce_scatter_ordered, coll_reduce_scatter_ring,
    coll_reduce_scatter_halving, coll_reduce_scatter_kautz, coll_allgather_ring,
    coll_allgather_recursive_doubling, coll_allgather_bruck,
    coll_allgather_linear, coll_broadcast_linear, coll_allgather_kautz,
    coll_broadcast_binomial, coll_broadcast_scatter_allgather,
    coll_broadcast_chain, coll_alltoall_pairwise, coll_alltoall_node_pairwise,
    coll_alltoall_torus, coll_alltoall_linear, coll_alltoall_bruck,
    coll_alltoall_kautz, coll_alltoall_xy, coll_alltoall_half_split,
    coll_alltoall_parity, coll_alltoall_direct, coll_halo_neighbours,
    coll_exchange_pairwise;

#endif
