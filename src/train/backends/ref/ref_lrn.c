/* SPDX-License-Identifier: Apache-2.0
 *
 * Local response normalisation over neighbouring channels (Krizhevsky et al.,
 * 2012, 3.3), with the window and defaults of ONNX. With
 *     s_c = k + alpha / n sum x_j^2 over the n channels around c
 * y = x s^-beta, and
 *     dx_i = dy_i s_i^-beta - 2 alpha beta / n x_i sum dy_j x_j s_j^(-beta - 1)
 * over the channels j that have i in their window. */
#include "train/backends/ref/ref.h"

#include <math.h>

struct response {
    int64_t before, after, channels, step; /* of the window; of storage */
    double alpha, beta, offset;
    const double *x;
};

static struct response response_of(const struct ref_run *r)
{
    const struct pdl_attr *a = &r->node->attr;
    const struct ref_array *x = &r->in[r->op.x];
    int64_t n = a->window > 0 ? a->window : 5;

    return (struct response){
        .before = (n - 1) / 2,
        .after = n / 2,
        .channels = x->n[1],
        .step = x->stride[1],
        .alpha = (a->alpha > 0 ? a->alpha : 1e-4) / (double)n,
        .beta = a->beta > 0 ? a->beta : 0.75,
        .offset = a->offset > 0 ? a->offset : 1,
        .x = x->at};
}

/* s of channel c at place p (of channel 0). */
static double sum_around(const struct response *q, int64_t p, int64_t c)
{
    int64_t from = ref_max(c - q->before, 0);
    int64_t to = ref_min(c + q->after, q->channels - 1);
    double sum = 0;

    for (int64_t j = from; j <= to; j++)
        sum += q->x[p + j * q->step] * q->x[p + j * q->step];
    return q->offset + q->alpha * sum;
}

static double forward(const struct response *q, int64_t p, int64_t c)
{
    return q->x[p + c * q->step] * pow(sum_around(q, p, c), -q->beta);
}

static double backward(const struct response *q, const double *dy, int64_t p,
                       int64_t c)
{
    int64_t from = ref_max(c - q->after, 0);
    int64_t to = ref_min(c + q->before, q->channels - 1);
    double sum = 0;

    for (int64_t j = from; j <= to; j++)
        sum += dy[p + j * q->step] * q->x[p + j * q->step] *
               pow(sum_around(q, p, j), -q->beta - 1);
    return dy[p + c * q->step] * pow(sum_around(q, p, c), -q->beta) -
           2 * q->alpha * q->beta * q->x[p + c * q->step] * sum;
}

static void lrn(struct ref_run *r)
{
    struct response q = response_of(r);
    const struct ref_array *x = &r->in[r->op.x];
    const double *dy = r->call->pass == PDL_FORWARD ? NULL : r->in[r->op.dy].at;

    for (int64_t i = 0; i < x->count; i++) {
        int64_t c = i / q.step % q.channels;

        r->out[0].at[i] = dy ? backward(&q, dy, i - c * q.step, c)
                             : forward(&q, i - c * q.step, c);
    }
}

static const struct ref_op rows[] = {
    {"lrn", lrn, NULL, NULL},
};

const struct ref_ops train_ref_lrn = {rows, sizeof rows / sizeof rows[0]};
