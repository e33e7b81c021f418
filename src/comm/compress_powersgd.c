/* SPDX-License-Identifier: Apache-2.0
 *
 * compress=powersgd:R (Vogels et al., PowerSGD, NeurIPS 2019): each matrix M of
 * the gradients is taken to be P Q' with R columns each. One step of the power
 * method: P = sum of M Q, made orthonormal; Q = sum of M' P; the sum of the
 * gradients is P Q'. Q is where the next step begins. A rank keeps M - P (M'
 * P)', what it did not give. Vectors, and matrices of which factors would save
 * too little, go as they are, beside P. A vector of which nothing is said is
 * one square: that needs less, and follows the gradients much worse.
 *
 * Two allreduces for all matrices together, so the bits are the same on all
 * ranks, and on all transports where the communicator's order is fixed. */
#include "comm_compress.h"
#include "comm_simd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum phase { FIRST, SECOND, DONE };

/* n elements from begin on, the last row may be shorter. */
struct matrix {
    int64_t begin, n, rows, cols;
    int64_t rank;     /* 0: as it is, at p */
    int64_t p_at, at; /* in p; in q and mine */
};

struct powersgd {
    struct matrix *m;
    int n;
    int64_t p_n, q_n;
    enum phase phase;
    float *p, *q, *mine; /* factors; the second summed, and own */
};

/* ---- what the vector is made of ---------------------------------------- */

static void give_room(struct powersgd *s)
{
    free(s->m);
    free(s->p);
    free(s->q);
    free(s->mine);
    *s = (struct powersgd){.n = 0};
}

/* Where the factors are. */
static void lay_out(struct powersgd *s)
{
    for (int i = 0; i < s->n; i++) {
        struct matrix *m = &s->m[i];

        m->p_at = s->p_n;
        m->at = s->q_n;
        s->p_n += m->rank > 0 ? m->rank * m->rows : m->n;
        s->q_n += m->rank * m->cols;
    }
}

static void begin_anew(pdl_compress *x)
{
    const struct powersgd *s = x->own;

    for (int64_t i = 0; i < s->q_n; i++)
        s->q[i] = (float)((double)pdl_philox(x->seed, 77, (uint64_t)i).v[0] /
                              4294967296.0 -
                          .5);
}

static enum pdl_status take_room(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own;

    lay_out(s);
    s->p = calloc((size_t)s->p_n + 1, sizeof *s->p);
    s->q = calloc((size_t)s->q_n + 1, sizeof *s->q);
    s->mine = calloc((size_t)s->q_n + 1, sizeof *s->mine);
    if (!s->p || !s->q || !s->mine)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    begin_anew(x);
    return PDL_OK;
}

static enum pdl_status create(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own = calloc(1, sizeof *s);
    struct matrix *m = s ? calloc(1, sizeof *m) : NULL;

    if (!m)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    s->m = m;
    s->n = 1;
    m->n = x->dim;
    m->rows = (int64_t)sqrt((double)x->dim);
    m->rows = m->rows > 0 ? m->rows : 1;
    m->cols = (x->dim + m->rows - 1) / m->rows;
    m->rank = (int64_t)x->value < m->rows ? (int64_t)x->value : m->rows;
    return take_room(x, err);
}

static enum pdl_status shape(pdl_compress *x, int n,
                             const struct pdl_compress_part *parts,
                             struct pdl_err *err)
{
    struct powersgd *s = x->own;

    give_room(s);
    s->m = calloc((size_t)n + 1, sizeof *s->m);
    if (!s->m)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    s->n = n;
    for (int i = 0; i < n; i++)
        s->m[i] = (struct matrix){
            .begin = parts[i].begin,
            .n = parts[i].rows * parts[i].cols,
            .rows = parts[i].rows,
            .cols = parts[i].cols,
            .rank = pdl_coll_factors(parts[i].rows, parts[i].cols,
                                     (int64_t)x->value),
        };
    return take_room(x, err);
}

static void destroy(pdl_compress *x)
{
    if (x->own)
        give_room(x->own);
    free(x->own);
}

/* ---- a sum -------------------------------------------------------------- */

static void take(pdl_compress *x, const float *gradient)
{
    const struct powersgd *s = x->own;

    for (int k = 0; k < s->n; k++)
        for (int64_t i = s->m[k].begin; i < s->m[k].begin + s->m[k].n; i++)
            x->residual[i] += gradient[i];
}

/* Of row i of the matrix. */
static int64_t width(const struct matrix *m, int64_t i)
{
    int64_t left = m->n - i * m->cols;

    return left < 0 ? 0 : left < m->cols ? left : m->cols;
}

INLINE float dot(const float *a, const float *b, int64_t n)
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

INLINE void add(float *y, float by, const float *x, int64_t n)
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

MANY_TARGETS static void times_q(pdl_compress *x, const struct matrix *m)
{
    struct powersgd *s = x->own;
    const float *row = x->residual + m->begin;

    if (m->rank == 0)
        memcpy(s->p + m->p_at, row, (size_t)m->n * sizeof *row);
    for (int64_t i = 0; m->rank > 0 && i < m->rows; i++, row += m->cols)
        for (int64_t k = 0; k < m->rank; k++)
            s->p[m->p_at + k * m->rows + i] =
                dot(row, s->q + m->at + k * m->cols, width(m, i));
}

static enum pdl_status start(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own;

    for (int i = 0; i < s->n; i++)
        times_q(x, &s->m[i]);
    s->phase = FIRST;
    return sum(x, s->p, s->p_n, err);
}

/* Gram and Schmidt, twice, since once is not enough for nearly equal columns.
 * A column that is nothing stays nothing. */
MANY_TARGETS static void orthonormalise(float *p, int64_t rank, int64_t rows)
{
    for (int64_t k = 0; k < rank; k++) {
        float *c = p + k * rows, norm, before;

        before = sqrtf(dot(c, c, rows));
        for (int again = 0; again < 2; again++)
            for (int64_t j = 0; j < k; j++) {
                const float *d = p + j * rows;

                add(c, -dot(c, d, rows), d, rows);
            }
        norm = sqrtf(dot(c, c, rows));
        for (int64_t i = 0; i < rows; i++)
            c[i] = norm > 1e-6f * before || isnan(norm) ? c[i] / norm : 0;
    }
}

MANY_TARGETS static void times_p(pdl_compress *x, const struct matrix *m)
{
    struct powersgd *s = x->own;
    const float *row = x->residual + m->begin;

    for (int64_t i = 0; m->rank > 0 && i < m->rows; i++, row += m->cols)
        for (int64_t k = 0; k < m->rank; k++)
            add(s->mine + m->at + k * m->cols, s->p[m->p_at + k * m->rows + i],
                row, width(m, i));
}

static enum pdl_status project(pdl_compress *x, struct pdl_err *err)
{
    struct powersgd *s = x->own;
    size_t bytes = (size_t)s->q_n * sizeof *s->q;

    memset(s->mine, 0, bytes);
    for (int i = 0; i < s->n; i++) {
        const struct matrix *m = &s->m[i];

        orthonormalise(s->p + m->p_at, m->rank, m->rows);
        times_p(x, m);
    }
    memcpy(s->q, s->mine, bytes);
    s->phase = SECOND;
    return sum(x, s->q, s->q_n, err);
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

MANY_TARGETS static void put_matrix(pdl_compress *x, const struct matrix *m,
                                    float *out)
{
    const struct powersgd *s = x->own;
    float *rest = x->residual + m->begin;

    if (m->rank == 0) {
        memcpy(out, s->p + m->p_at, (size_t)m->n * sizeof *out);
        memset(rest, 0, (size_t)m->n * sizeof *rest);
        return;
    }
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = 0; k < m->rank; k++) {
            float by = s->p[m->p_at + k * m->rows + i];

            add(out + i * m->cols, by, s->q + m->at + k * m->cols, width(m, i));
            add(rest + i * m->cols, -by, s->mine + m->at + k * m->cols,
                width(m, i));
        }
}

static void put(pdl_compress *x, float *out)
{
    const struct powersgd *s = x->own;

    memset(out, 0, (size_t)x->dim * sizeof *out);
    for (int i = 0; i < s->n; i++)
        put_matrix(x, &s->m[i], out + s->m[i].begin);
}

const struct comm_compressor comm_compress_powersgd = {
    .create = create,
    .shape = shape,
    .destroy = destroy,
    .take = take,
    .start = start,
    .go = go,
    .put = put,
    .forget = begin_anew,
};
