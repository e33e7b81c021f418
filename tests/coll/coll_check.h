/* Runs a job on random numbers and says whether the result is right; shared
 * by the tests of the executor, of mutants and of programs read from text. */
#ifndef COLL_CHECK_H
#define COLL_CHECK_H

#include "paradl/coll.h"

#include <stdlib.h>

static uint64_t input_value(uint64_t seed, int rank, int64_t i)
{
    struct pdl_rng4 r = pdl_philox(seed, (uint64_t)rank, (uint64_t)i);

    return (uint64_t)r.v[1] << 32 | r.v[0];
}

/* Element i of chunk `into` of rank's result buffer must be ... */
static uint64_t wanted_value(const struct pdl_coll_job *job, uint64_t seed,
                             const struct pdl_want *want, int64_t i)
{
    int64_t at = pdl_coll_chunk_begin(&job->buf[0], want->chunk) + i;
    uint64_t sum = 0;

    if (want->what == PDL_WANT_ONE)
        return input_value(seed, want->from, at);
    for (int r = 0; r < job->nranks; r++)
        sum += input_value(seed, r, at);
    return sum;
}

static void fill(const struct pdl_coll_job *job, uint64_t **bufs, uint64_t seed)
{
    const struct pdl_coll_buf *in = &job->buf[0];

    for (int r = 0; r < job->nranks; r++)
        for (int64_t c = 0; c < in->chunks; c++)
            if (job->alg->collective->holds(job, r, c))
                for (int64_t i = pdl_coll_chunk_begin(in, c);
                     i < pdl_coll_chunk_begin(in, c + 1); i++)
                    bufs[r * job->nbufs][i] = input_value(seed, r, i);
}

static bool result_is_right(const struct pdl_coll_job *job, uint64_t **bufs,
                            uint64_t seed)
{
    int result = job->alg->collective->result;
    const struct pdl_coll_buf *out = &job->buf[result];

    for (int r = 0; r < job->nranks; r++)
        for (int64_t c = 0; c < out->chunks; c++) {
            struct pdl_want want = job->alg->collective->wants(job, r, c);
            int64_t first = pdl_coll_chunk_begin(out, c);
            int64_t n = pdl_coll_chunk_begin(out, c + 1) - first;

            for (int64_t i = 0; i < n && want.what != PDL_WANT_ANYTHING; i++)
                if (bufs[r * job->nbufs + result][first + i] !=
                    wanted_value(job, seed, &want, i))
                    return false;
        }
    return true;
}

/* One run in an order drawn from the seed, on inputs drawn from it too. */
static bool runs_right(const struct pdl_coll_job *job, uint64_t seed,
                       struct pdl_err *err)
{
    int n = job->nranks * job->nbufs;
    uint64_t **bufs = calloc((size_t)n, sizeof *bufs);
    bool right;

    for (int i = 0; i < n; i++)
        bufs[i] =
            calloc((size_t)job->buf[i % job->nbufs].count + 1, sizeof **bufs);
    fill(job, bufs, seed);
    right = pdl_coll_exec(job, PDL_COLL_INT64, (void *const *)bufs, seed,
                          err) == PDL_OK &&
            result_is_right(job, bufs, seed);
    for (int i = 0; i < n; i++)
        free(bufs[i]);
    free(bufs);
    return right;
}

#endif
