/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a job on real buffers in one process, in an order of steps drawn from
 * a seed: a step begins, or a message moves, whenever it may. What the
 * verifier proves must hold here for every seed. */
#include "coll_priv.h"

#include <inttypes.h>

struct saved {
    int64_t s;
    char *data;
    struct saved *next;
};

struct exec {
    const struct pdl_coll_job *job;
    pdl_arena *arena;
    enum pdl_coll_type type;
    void *const *bufs;
    struct saved **saved; /* by rank */
};

static void *chunk_at(const struct exec *x, int rank, int buf, int64_t c)
{
    return (char *)x->bufs[rank * x->job->nbufs + buf] +
           8 * pdl_coll_chunk_begin(&x->job->buf[buf], c);
}

static int64_t chunk_size(const struct exec *x, int buf, int64_t c)
{
    return pdl_coll_chunk_begin(&x->job->buf[buf], c + 1) -
           pdl_coll_chunk_begin(&x->job->buf[buf], c);
}

static void add(enum pdl_coll_type type, void *to, const void *from, int64_t n)
{
    if (type == PDL_COLL_FLOAT64) {
        double *a = to;
        const double *b = from;

        for (int64_t i = 0; i < n; i++)
            a[i] += b[i];
    } else {
        uint64_t *a = to; /* wraps round */
        const uint64_t *b = from;

        for (int64_t i = 0; i < n; i++)
            a[i] += b[i];
    }
}

static enum pdl_status save(void *ctx, int rank, int64_t s,
                            const struct pdl_step *step, struct pdl_err *err)
{
    struct exec *x = ctx;
    int64_t n = pdl_coll_span_count(x->job, step->send, step->nsend), c;
    struct saved *m = PDL_NEW(x->arena, struct saved, 1);
    struct coll_cursor at = {0, 0, 0};
    char *to;
    int buf;

    to = PDL_NEW(x->arena, char, 8 * n + 1);
    if (!m || !to)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a message");
    *m = (struct saved){s, to, x->saved[rank]};
    x->saved[rank] = m;
    while (coll_next(x->job, step->send, step->nsend, &at, &buf, &c)) {
        size_t bytes = (size_t)(8 * chunk_size(x, buf, c));

        memcpy(to, chunk_at(x, rank, buf, c), bytes);
        to += bytes;
    }
    return PDL_OK;
}

static const char *find_saved(struct exec *x, int rank, int64_t s)
{
    struct saved **at = &x->saved[rank], *m;

    while ((*at)->s != s)
        at = &(*at)->next;
    m = *at;
    *at = m->next;
    return m->data;
}

static enum pdl_status transfer(void *ctx, const struct coll_message *m,
                                struct pdl_err *err)
{
    struct exec *x = ctx;
    const char *aside = m->saved ? find_saved(x, m->from, m->send_step) : NULL;
    struct coll_cursor out = {0, 0, 0}, in = {0, 0, 0};
    int64_t c, into, n;
    int buf, to;

    while (coll_next(x->job, m->send->send, m->send->nsend, &out, &buf, &c)) {
        const void *from;

        n = chunk_size(x, buf, c);
        if (!coll_next(x->job, m->recv->recv, m->recv->nrecv, &in, &to,
                       &into) ||
            chunk_size(x, to, into) != n)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d step %" PRId64 ": sizes do not agree",
                            m->from, m->send_step);
        from = aside ? (const void *)aside : chunk_at(x, m->from, buf, c);
        if (m->recv->act == PDL_ACT_REDUCE)
            add(x->type, chunk_at(x, m->to, to, into), from, n);
        else if (n > 0)
            memmove(chunk_at(x, m->to, to, into), from, (size_t)(8 * n));
        if (aside)
            aside += 8 * n;
    }
    return PDL_OK;
}

enum pdl_status pdl_coll_exec(const struct pdl_coll_job *job,
                              enum pdl_coll_type type, void *const *bufs,
                              uint64_t seed, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)4 << 30);
    struct exec x = {.job = job, .arena = a, .type = type, .bufs = bufs};
    struct coll_run run = {.job = job,
                           .ctx = &x,
                           .save = save,
                           .transfer = transfer,
                           .shuffle = true,
                           .seed = seed};
    enum pdl_status st = PDL_OK;

    x.saved = a ? PDL_NEW(a, struct saved *, job->nranks) : NULL;
    if (!x.saved)
        st = pdl_fail(err, PDL_ENOMEM, "no memory to run the job");
    if (st == PDL_OK)
        st = coll_walk(&run, a, err);
    pdl_arena_destroy(a);
    return st;
}
