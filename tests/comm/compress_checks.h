/* What every rank checks of a compressed sum; see comm_checks.h. */
#ifndef COMPRESS_CHECKS_H
#define COMPRESS_CHECKS_H

#include "comm_checks.h"
#include "comm_compress.h"

enum { DIM = 5003, STEPS = 3 };

static inline float gradient(int rank, int step, int64_t i)
{
    uint32_t u =
        pdl_philox(21, (uint64_t)(rank * 100 + step), (uint64_t)i).v[0];

    return (float)ldexp((int32_t)u, -40 - (int)(i / 700));
}

static inline double value_of(const struct pdl_compressor *c)
{
    return !c->value ? 0 : c->least >= 1 ? 4 : .05;
}

/* Several sums in a row; their bits (all ranks must have the same) into hash,
 * and what was given, less what came out, into missing. */
static inline int sum_steps(pdl_comm *c, const struct pdl_compressor *how,
                            uint64_t *hash, double *missing)
{
    static const uint64_t prime = UINT64_C(0x100000001b3);
    float *g = calloc(DIM, sizeof *g), *sum = calloc(DIM, sizeof *sum);
    struct pdl_err err = {"", ""};
    pdl_compress *x = NULL;
    int bad =
        said(pdl_compress_create(c, DIM, how->name, value_of(how), 5, &x, &err),
             how->name, &err);

    *hash = UINT64_C(0xcbf29ce484222325);
    for (int s = 0; s < STEPS && !bad; s++) {
        bool done = s % 2;

        for (int64_t i = 0; i < DIM; i++)
            g[i] = gradient(pdl_comm_rank(c), s, i);
        pdl_compress_take(x, g);
        bad |= said(pdl_compress_start(x, &err), "start", &err);
        while (!bad && !done)
            bad |= said(pdl_compress_test(x, &done, &err), "test", &err);
        if (!bad)
            bad |= said(pdl_compress_wait(x, &err), "wait", &err);
        if (!bad)
            pdl_compress_put(x, sum);
        for (int64_t i = 0; i < DIM && !bad; i++) {
            uint32_t u;

            memcpy(&u, &sum[i], sizeof u);
            *hash = (*hash ^ u) * prime;
            missing[i] -= sum[i];
            for (int r = 0; r < pdl_comm_size(c); r++)
                missing[i] += gradient(r, s, i);
        }
    }
    if (!bad && pdl_compress_residual(x))
        for (int64_t i = 0; i < DIM; i++)
            g[i] = pdl_compress_residual(x)[i];
    else
        memset(g, 0, DIM * sizeof *g);
    bad |= said(
        pdl_comm_allreduce(c, g, sum, DIM, PDL_COMM_F32, PDL_COMM_SUM, &err),
        "what is kept", &err);
    for (int64_t i = 0; i < DIM; i++)
        missing[i] -= sum[i];
    pdl_compress_destroy(x);
    free(g);
    free(sum);
    return bad;
}

/* Nothing is lost: what was given is what came out and what is kept. */
static inline int check_way(pdl_comm *c, const struct pdl_compressor *how,
                            uint64_t *hash)
{
    double *missing = calloc(DIM, sizeof *missing), most = 0;
    int bad = sum_steps(c, how, hash, missing);

    for (int64_t i = 0; i < DIM; i++)
        most = fmax(most, fabs(missing[i]) / ldexp(1, -9 - (int)(i / 700)));
    free(missing);
    if (most > 1e-5 * STEPS * pdl_comm_size(c)) {
        fprintf(stderr, "%s on %d ranks: %g is lost\n", how->name,
                pdl_comm_size(c), most);
        bad = 1;
    }
    return bad;
}

#endif
