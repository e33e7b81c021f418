/* SPDX-License-Identifier: Apache-2.0
 *
 * compress=topk: the largest elements, summed by a sparse allreduce; the rest
 * is kept (feedback.c, sparse_allreduce.c). */
#include "comm_compress.h"

#include <stdlib.h>
#include <string.h>

struct topk {
    pdl_feedback *feedback;
    pdl_comm_sparse *sum;
    struct pdl_sparse mine, all;
};

/* The algorithm that the oracle prices. */
static const char algorithm[] = "sparse-ring";

static enum pdl_status create(pdl_compress *x, struct pdl_err *err)
{
    struct topk *t = x->own = calloc(1, sizeof *t);
    int64_t k = (int64_t)((double)x->dim * x->value);
    enum pdl_status st;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    k = k > 0 ? k : 1;
    st = pdl_feedback_create(x->dim, k, PDL_TOPK_EXACT, x->seed, &t->feedback,
                             err);
    return st == PDL_OK ? pdl_comm_sparse_create(x->comm, x->dim, k, algorithm,
                                                 &t->sum, err)
                        : st;
}

static void destroy(pdl_compress *x)
{
    struct topk *t = x->own;

    if (!t)
        return;
    pdl_feedback_destroy(t->feedback);
    pdl_comm_sparse_destroy(t->sum);
    free(t);
}

static void take(pdl_compress *x, const float *gradient)
{
    struct topk *t = x->own;

    pdl_feedback_step(t->feedback, gradient, &t->mine);
}

static enum pdl_status start(pdl_compress *x, struct pdl_err *err)
{
    struct topk *t = x->own;

    return pdl_comm_sparse_start(t->sum, &t->mine, err);
}

static enum pdl_status go(pdl_compress *x, bool wait, bool *done,
                          struct pdl_err *err)
{
    struct topk *t = x->own;
    enum pdl_status st;

    *done = true;
    if (!wait)
        return pdl_comm_sparse_test(t->sum, done, err);
    st = pdl_comm_sparse_wait(t->sum, &t->all, err);
    x->sent = pdl_comm_sparse_sent(t->sum);
    return st;
}

static void put(pdl_compress *x, float *sum)
{
    const struct topk *t = x->own;

    memset(sum, 0, (size_t)x->dim * sizeof *sum);
    pdl_sparse_add(&t->all, 1, sum);
}

float *comm_topk_residual(pdl_compress *x)
{
    struct topk *t = x->own;

    return pdl_feedback_residual(t->feedback);
}

const struct comm_compressor comm_compress_topk = {
    .create = create,
    .destroy = destroy,
    .take = take,
    .start = start,
    .go = go,
    .put = put,
};
