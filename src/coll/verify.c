/* SPDX-License-Identifier: Apache-2.0
 *
 * The proof. Three parts:
 *  1. every step on its own is well formed, and no two unordered steps of a
 *     rank touch a chunk that one of them writes (hazards.c). Therefore what
 *     a message holds does not depend on the order of unordered steps;
 *  2. one legal order, with synchronous sends, comes to the end (run.c): no
 *     deadlock, every send met by a receive of as many chunks of the same
 *     sizes;
 *  3. in that order every chunk is followed as the set of the inputs it is
 *     the sum of; in the end it must be what the collective wants. No input
 *     is ever added twice, nor two different chunks to each other.
 * By 1, what 3 finds in one order holds in all.
 *
 * Up to 512 ranks a chunk's contents are exact: the input chunk's number and
 * one bit a rank. Beyond, they are a sum modulo 2^61-1 of labels that are
 * random functions of (rank, chunk): a wrong sum passes with a probability of
 * about 2^-61 for each chunk compared (Schwartz-Zippel). */
#include "coll_priv.h"

#include <inttypes.h>

enum { EXACT_RANKS = 512 };
#define MEMORY (((size_t)3 << 30))
#define PRIME  ((UINT64_C(1) << 61) - 1)

struct saved {
    int rank;
    int64_t s;
    int64_t *origin;
    uint64_t *set;
    int32_t *terms;
    struct saved *next;
};

struct proof {
    const struct pdl_coll_job *job;
    pdl_arena *arena;
    bool exact;
    int words;                   /* of a set */
    int64_t cells;               /* chunks a rank */
    int64_t each[PDL_COLL_BUFS]; /* elements of every chunk; -1: they differ */
    int64_t *origin; /* exact: chunk number of the inputs; -1: empty */
    uint64_t *set;   /* exact: words of bits; else one label */
    int32_t *terms;  /* inputs in the sum */
    struct saved **saved, *spare; /* messages set aside, by rank */
};

static uint64_t label(int rank, int64_t chunk)
{
    struct pdl_rng4 r =
        pdl_philox(UINT64_C(0x70726f6f66), (uint64_t)rank, (uint64_t)chunk);

    return (((uint64_t)r.v[1] << 32 | r.v[0]) & PRIME) % PRIME;
}

static uint64_t add_mod(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;

    return sum >= PRIME ? sum - PRIME : sum;
}

/* ---- contents ------------------------------------------------------------ */

static int64_t cell(const struct proof *v, int rank, int buf, int64_t c)
{
    return rank * v->cells + coll_cells(v->job, buf) + c;
}

static void put_input(struct proof *v, int rank, int64_t c)
{
    int64_t at = cell(v, rank, 0, c);

    v->terms[at] = 1;
    if (v->exact) {
        v->origin[at] = c;
        v->set[at * v->words + rank / 64] = UINT64_C(1) << (rank % 64);
    } else {
        v->set[at] = label(rank, c);
    }
}

static enum pdl_status prepare(struct proof *v, struct pdl_err *err)
{
    const struct pdl_coll_job *job = v->job;
    int64_t all;

    v->exact = job->nranks <= EXACT_RANKS;
    v->words = v->exact ? (job->nranks + 63) / 64 : 1;
    v->cells = coll_cells(job, job->nbufs);
    for (int b = 0; b < job->nbufs; b++)
        v->each[b] = job->buf[b].count % job->buf[b].chunks
                         ? -1
                         : job->buf[b].count / job->buf[b].chunks;
    if (!pdl_mul64(v->cells, job->nranks, &all))
        return pdl_fail(err, PDL_EINVAL, "too many chunks to prove");
    v->terms = PDL_NEW(v->arena, int32_t, all);
    v->origin = v->exact ? PDL_NEW(v->arena, int64_t, all) : NULL;
    v->set = pdl_arena_alloc(v->arena, (size_t)all,
                             (size_t)v->words * sizeof *v->set);
    v->saved = PDL_NEW(v->arena, struct saved *, job->nranks);
    if (!v->terms || (v->exact && !v->origin) || !v->set || !v->saved)
        return pdl_fail(err, PDL_ENOMEM, "%d ranks are too many to prove here",
                        job->nranks);
    for (int64_t i = 0; v->exact && i < all; i++)
        v->origin[i] = -1;
    for (int r = 0; r < job->nranks; r++)
        for (int64_t c = 0; c < job->buf[0].chunks; c++)
            if (job->alg->collective->holds(job, r, c))
                put_input(v, r, c);
    return PDL_OK;
}

/* ---- messages ------------------------------------------------------------ */

/* Where a chunk's contents are: in a rank's cells or set aside. */
struct contents {
    int64_t *origin;
    uint64_t *set;
    int32_t *terms;
};

static struct contents at_cell(const struct proof *v, int64_t i)
{
    return (struct contents){v->exact ? v->origin + i : NULL,
                             v->set + i * v->words, v->terms + i};
}

static struct contents at_saved(const struct proof *v, const struct saved *m,
                                int64_t i)
{
    return (struct contents){v->exact ? m->origin + i : NULL,
                             m->set + i * v->words, m->terms + i};
}

static void copy(const struct proof *v, struct contents to,
                 struct contents from)
{
    *to.terms = *from.terms;
    if (v->exact)
        *to.origin = *from.origin;
    memcpy(to.set, from.set, (size_t)v->words * sizeof *to.set);
}

static enum pdl_status save(void *ctx, int rank, int64_t s,
                            const struct pdl_step *step, struct pdl_err *err)
{
    struct proof *v = ctx;
    int64_t n = pdl_coll_span_chunks(step->send, step->nsend), i = 0, c;
    struct coll_cursor at = {0, 0, 0};
    struct saved *m = PDL_NEW(v->arena, struct saved, 1);
    int buf;

    if (m) {
        *m = (struct saved){.rank = rank, .s = s, .next = v->saved[rank]};
        m->origin = v->exact ? PDL_NEW(v->arena, int64_t, n) : NULL;
        m->set = PDL_NEW(v->arena, uint64_t, n * v->words);
        m->terms = PDL_NEW(v->arena, int32_t, n);
    }
    if (!m || (v->exact && !m->origin) || !m->set || !m->terms)
        return pdl_fail(err, PDL_ENOMEM, "the job is too large to prove here");
    v->saved[rank] = m;
    while (coll_next(v->job, step->send, step->nsend, &at, &buf, &c))
        copy(v, at_saved(v, m, i++), at_cell(v, cell(v, rank, buf, c)));
    return PDL_OK;
}

static struct saved *find_saved(struct proof *v, int rank, int64_t s)
{
    struct saved **at = &v->saved[rank], *m;

    while ((*at)->s != s)
        at = &(*at)->next;
    m = *at;
    *at = m->next;
    return m;
}

static enum pdl_status add(struct proof *v, struct contents to,
                           struct contents from, const struct coll_message *m,
                           struct pdl_err *err)
{
    if (*from.terms == 0)
        return PDL_OK;
    if (*to.terms == 0) {
        copy(v, to, from);
        return PDL_OK;
    }
    *to.terms += *from.terms;
    if (!v->exact) {
        *to.set = add_mod(*to.set, *from.set);
        return PDL_OK;
    }
    if (*to.origin != *from.origin)
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": adds chunk %" PRId64
                        " to chunk %" PRId64,
                        m->to, m->recv_step, *from.origin, *to.origin);
    for (int w = 0; w < v->words; w++) {
        uint64_t both = to.set[w] & from.set[w];

        if (both)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d step %" PRId64
                            ": adds the input of rank %d twice",
                            m->to, m->recv_step,
                            64 * w + coll_log2((int64_t)(both & -both)));
        to.set[w] |= from.set[w];
    }
    return PDL_OK;
}

static int64_t chunk_size(const struct proof *v, int buf, int64_t c)
{
    const struct pdl_coll_job *job = v->job;

    if (v->each[buf] >= 0)
        return v->each[buf];
    return pdl_coll_chunk_begin(&job->buf[buf], c + 1) -
           pdl_coll_chunk_begin(&job->buf[buf], c);
}

static enum pdl_status wrong_terms(const struct coll_message *m, int terms,
                                   struct pdl_err *err)
{
    return pdl_fail(err, PDL_EWRONG,
                    "rank %d step %" PRId64 ": a message of %d inputs says "
                    "it is of %d, and its receiver of %d",
                    m->from, m->send_step, terms, m->send->send_terms,
                    m->recv->recv_terms);
}

static enum pdl_status transfer(void *ctx, const struct coll_message *m,
                                struct pdl_err *err)
{
    struct proof *v = ctx;
    struct coll_cursor out = {0, 0, 0}, in = {0, 0, 0};
    struct saved *aside =
        m->saved ? find_saved(v, m->from, m->send_step) : NULL;
    enum pdl_status st = PDL_OK;
    int64_t c, into, i = 0;
    int buf, to;

    for (;; i++) {
        bool more =
            coll_next(v->job, m->send->send, m->send->nsend, &out, &buf, &c);
        struct contents from, there;

        if (more != coll_next(v->job, m->recv->recv, m->recv->nrecv, &in, &to,
                              &into) ||
            (more && chunk_size(v, buf, c) != chunk_size(v, to, into)))
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d step %" PRId64
                            " sends rank %d step %" PRId64
                            " another size than it takes",
                            m->from, m->send_step, m->to, m->recv_step);
        if (!more)
            return st;
        from = aside ? at_saved(v, aside, i)
                     : at_cell(v, cell(v, m->from, buf, c));
        there = at_cell(v, cell(v, m->to, to, into));
        if (m->send->send_terms != m->recv->recv_terms ||
            (m->send->send_terms > 0 && m->send->send_terms != *from.terms))
            return wrong_terms(m, *from.terms, err);
        if (m->recv->act == PDL_ACT_COPY)
            copy(v, there, from);
        else
            st = add(v, there, from, m, err);
        if (st != PDL_OK)
            return st;
    }
}

/* ---- the end ------------------------------------------------------------- */

static bool holds_exactly(const struct proof *v, int64_t at,
                          const struct pdl_want *want)
{
    int p = v->job->nranks;

    if (v->origin[at] != want->chunk)
        return false;
    for (int w = 0; w < v->words; w++) {
        int bits = p - 64 * w;
        uint64_t must = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

        if (want->what == PDL_WANT_ONE)
            must = want->from / 64 == w ? UINT64_C(1) << (want->from % 64) : 0;
        if (v->set[at * v->words + w] != must)
            return false;
    }
    return true;
}

static uint64_t label_of_all(int nranks, int64_t chunk)
{
    uint64_t sum = 0;

    for (int r = 0; r < nranks; r++)
        sum = add_mod(sum, label(r, chunk));
    return sum;
}

static bool right(const struct proof *v, int64_t at,
                  const struct pdl_want *want, const uint64_t *sums)
{
    if (want->what == PDL_WANT_ANYTHING)
        return true;
    if (v->exact)
        return holds_exactly(v, at, want);
    if (want->what == PDL_WANT_ONE)
        return v->terms[at] == 1 &&
               v->set[at] == label(want->from, want->chunk);
    return v->terms[at] == v->job->nranks && v->set[at] == sums[want->chunk];
}

static enum pdl_status check_end(const struct proof *v, struct pdl_err *err)
{
    const struct pdl_coll_job *job = v->job;
    const struct pdl_collective *coll = job->alg->collective;
    int64_t n = job->buf[coll->result].chunks;
    uint64_t *sums = PDL_NEW(v->arena, uint64_t, n);

    if (!sums)
        return pdl_fail(err, PDL_ENOMEM, "no memory to prove");
    for (int64_t c = 0; !v->exact && c < n; c++)
        sums[c] = label_of_all(job->nranks, c);
    for (int r = 0; r < job->nranks; r++)
        for (int64_t c = 0; c < n; c++) {
            struct pdl_want want = coll->wants(job, r, c);
            int64_t at = cell(v, r, coll->result, c);

            if (!right(v, at, &want, sums))
                return pdl_fail(err, PDL_EWRONG,
                                "rank %d ends with %d of %d inputs in chunk "
                                "%" PRId64 ", or the wrong ones",
                                r, v->terms[at],
                                want.what == PDL_WANT_ONE ? 1 : job->nranks, c);
        }
    return PDL_OK;
}

static enum pdl_status check_all_hazards(const struct pdl_coll_job *job,
                                         struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int r = 0; st == PDL_OK && r < job->nranks; r++) {
        pdl_arena *a = pdl_arena_create(MEMORY);

        st = a ? coll_check_hazards(job, r, a, err)
               : pdl_fail(err, PDL_ENOMEM, "no memory to prove");
        pdl_arena_destroy(a);
    }
    return st;
}

/* *all: the ranks were in step, and this is the proof; else nothing is
 * known. */
static enum pdl_status prove(const struct pdl_coll_job *job, bool in_step,
                             struct coll_run *run, bool *all,
                             struct pdl_err *why)
{
    struct proof v = {.job = job, .arena = pdl_arena_create(MEMORY)};
    enum pdl_status st = v.arena
                             ? prepare(&v, why)
                             : pdl_fail(why, PDL_ENOMEM, "no memory to prove");

    *run = (struct coll_run){
        .job = job, .ctx = &v, .save = save, .transfer = transfer};
    if (st == PDL_OK)
        st = in_step ? coll_walk_in_step(run, v.arena, all, why)
                     : coll_walk(run, v.arena, why);
    if (st == PDL_OK && *all)
        st = check_end(&v, why);
    pdl_arena_destroy(v.arena);
    return st;
}

enum pdl_status pdl_coll_verify(const struct pdl_coll_job *job,
                                struct pdl_coll_proof *proof,
                                struct pdl_err *err)
{
    struct pdl_err why = {"", ""};
    struct coll_run run;
    bool all = false;
    enum pdl_status st = prove(job, true, &run, &all, &why);

    if (!all) {
        all = true;
        st = check_all_hazards(job, &why);
        if (st == PDL_OK)
            st = prove(job, false, &run, &all, &why);
    }
    if (st != PDL_OK)
        return pdl_fail(err, st, "%s/%s on %d ranks: %s",
                        job->alg->collective->name, job->alg->name, job->nranks,
                        why.msg);
    if (proof)
        *proof = (struct pdl_coll_proof){.steps = run.steps,
                                         .messages = run.messages,
                                         .max_rank_bytes = run.rank_bytes,
                                         .ports = run.ports,
                                         .exact = job->nranks <= EXACT_RANKS};
    return PDL_OK;
}
