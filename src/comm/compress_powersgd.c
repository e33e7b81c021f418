/* SPDX-License-Identifier: Apache-2.0
 *
 * compress=powersgd:R (Vogels et al., PowerSGD, NeurIPS 2019): the vector, laid
 * out as a square matrix M of each rank, is taken to be P Q' with R columns
 * each. One step of the power method: P = sum of M Q, made orthonormal; Q = sum
 * of M' P; the sum of the gradients is P Q'. Q is where the next step begins.
 * A rank keeps M - P (M' P)', what it did not give.
 *
 * The square is ours: the paper has a matrix for every weight. P and Q are
 * summed by allreduces, so the bits are the same on all ranks, and on all
 * transports where the communicator's order is fixed. */
#include "comm_compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum phase { FIRST, SECOND, DONE };

struct powersgd {
    int64_t rows, cols, rank;
    enum phase phase;
    float *p, *q, *mine; /* rank x rows; rank x cols, summed and own */
};

static enum pdl_status create(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own = calloc(1, sizeof *s);

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    s->rows = (int64_t)sqrt((double)x->dim);
    s->rows = s->rows > 0 ? s->rows : 1;
    s->cols = (x->dim + s->rows - 1) / s->rows;
    s->rank = (int64_t)x->value < s->rows ? (int64_t)x->value : s->rows;
    s->p = calloc((size_t)(s->rank * s->rows), sizeof *s->p);
    s->q = calloc((size_t)(s->rank * s->cols), sizeof *s->q);
    s->mine = calloc((size_t)(s->rank * s->cols), sizeof *s->mine);
    if (!s->p || !s->q || !s->mine)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    for (int64_t i = 0; i < s->rank * s->cols; i++)
        s->q[i] = (float)((double)pdl_philox(x->seed, 77, (uint64_t)i).v[0] /
                              4294967296.0 -
                          .5);
    return PDL_OK;
}

static void destroy(pdl_compress *x)
{
    struct powersgd *s = x->own;

    if (!s)
        return;
    free(s->p);
    free(s->q);
    free(s->mine);
    free(s);
}

static void take(pdl_compress *x, const float *gradient)
{
    for (int64_t i = 0; i < x->dim; i++)
        x->residual[i] += gradient[i];
}

/* Of row i of the matrix, whose end may be past the vector's. */
static int64_t width(const pdl_compress *x, int64_t i)
{
    const struct powersgd *s = x->own;
    int64_t left = x->dim - i * s->cols;

    return left < 0 ? 0 : left < s->cols ? left : s->cols;
}

static float dot(const float *a, const float *b, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            lane[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int k = 0; k < 16; k++)
        sum += lane[k];
    return sum;
}

static void add(float *y, float by, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

static enum pdl_status sum(pdl_compress *x, float *v, int64_t n,
                           struct pdl_err *err)
{
    int ranks = pdl_comm_size(x->comm);

    x->sent += (int64_t)(ranks - 1) * 2 * n * (int64_t)sizeof *v / ranks;
    return pdl_comm_start_allreduce(x->comm, v, v, n, PDL_COMM_F32,
                                    PDL_COMM_SUM, &x->request, err);
}

static enum pdl_status start(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own;

    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->rank; k++)
            s->p[k * s->rows + i] =
                dot(x->residual + i * s->cols, s->q + k * s->cols, width(x, i));
    s->phase = FIRST;
    return sum(x, s->p, s->rank * s->rows, err);
}

/* Gram and Schmidt, twice, since once is not enough for nearly equal columns.
 * A column that is nothing stays nothing. */
static void orthonormalise(struct powersgd *s)
{
    for (int64_t k = 0; k < s->rank; k++) {
        float *c = s->p + k * s->rows, norm, before;

        before = sqrtf(dot(c, c, s->rows));
        for (int again = 0; again < 2; again++)
            for (int64_t j = 0; j < k; j++) {
                const float *d = s->p + j * s->rows;

                add(c, -dot(c, d, s->rows), d, s->rows);
            }
        norm = sqrtf(dot(c, c, s->rows));
        for (int64_t i = 0; i < s->rows; i++)
            c[i] = norm > 1e-6f * before || isnan(norm) ? c[i] / norm : 0;
    }
}

static enum pdl_status project(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own;
    size_t bytes = (size_t)(s->rank * s->cols) * sizeof *s->q;

    orthonormalise(s);
    memset(s->mine, 0, bytes);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->rank; k++)
            add(s->mine + k * s->cols, s->p[k * s->rows + i],
                x->residual + i * s->cols, width(x, i));
    memcpy(s->q, s->mine, bytes);
    s->phase = SECOND;
    return sum(x, s->q, s->rank * s->cols, err);
}

static enum pdl_status go(pdl_compress *x, bool wait, bool *done,
                          struct pdl_err *err)
{
    struct powersgd *s = x->own;
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && s->phase != DONE) {
        st = comm_compress_settle(x, wait, done, err);
        if (st != PDL_OK || !*done)
            return st;
        if (s->phase == FIRST)
            st = project(x, err);
        else
            s->phase = DONE;
    }
    *done = true;
    return st;
}

static void put(pdl_compress *x, float *out)
{
    struct powersgd *s = x->own;

    memset(out, 0, (size_t)x->dim * sizeof *out);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->rank; k++) {
            float by = s->p[k * s->rows + i];

            add(out + i * s->cols, by, s->q + k * s->cols, width(x, i));
            add(x->residual + i * s->cols, -by, s->mine + k * s->cols,
                width(x, i));
        }
}

const struct comm_compressor comm_compress_powersgd = {
    .create = create,
    .destroy = destroy,
    .take = take,
    .start = start,
    .go = go,
    .put = put,
};
