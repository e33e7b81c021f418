/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test split says of a model, or of the parts of a divided one by the
 * mean of their logits. */
#include "fed/learner.h"

#include <math.h>

/* Of one sample, by the mean of the parts' logits. */
static double vote(const fed_learner *l, int64_t row, int32_t label,
                   double *right)
{
    int64_t c = l->classes, best = 0;
    double mean[1024] = {0}, others = 0;

    for (int64_t i = 0; i < c; i++) {
        for (int k = 0; k < l->parts; k++)
            mean[i] +=
                (double)l->net[(int64_t)k * l->ranks].logits[row * c + i] /
                l->parts;
        best = mean[i] > mean[best] ? i : best;
    }
    for (int64_t i = 0; i < c; i++)
        others += i == best ? 0 : exp(mean[i] - mean[best]);
    *right = best == label;
    return log1p(others) + mean[best] - mean[label];
}

static enum pdl_status count_votes(fed_learner *l, int64_t first, int64_t n,
                                   double *loss_sum, double *right,
                                   struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    struct pdl_read r = {.split = pdl_dataset_split(d, "test"),
                         .samples = l->all + first,
                         .nsamples = n,
                         .box = pdl_field_box(&d->target)};
    enum pdl_status st = pdl_io_target(l->opt.io, &r, l->labels, err);

    *loss_sum = 0;
    for (int64_t i = 0; i < n && st == PDL_OK; i++)
        *loss_sum += vote(l, i, l->labels[i], &right[i]);
    return st;
}

enum pdl_status fed_learner_test(fed_learner *l, const float *w, int64_t first,
                                 int64_t n, double *loss_sum, double *right,
                                 struct pdl_err *err)
{
    struct pdl_train_result r = {.loss = 0};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < l->nets && st == PDL_OK; i += l->ranks) {
        struct fed_net *x = &l->net[i];
        struct pdl_train_feed feed =
            pdl_train_list_feed(x->tests, l->all + first, n);

        st = fed_spans_put(x->judge, x->judge_span, x->njudge, w, err);
        if (st == PDL_OK)
            st = pdl_trainer_evaluate(x->judge, n, &feed, &r, err);
    }
    if (st != PDL_OK)
        return st;
    if (l->parts > 1)
        return count_votes(l, first, n, loss_sum, right, err);
    *loss_sum = r.loss_sum;
    for (int64_t i = 0; i < n; i++) {
        double loss;

        pdl_trainer_saw(l->net[0].judge, i, &loss, &right[i]);
    }
    return PDL_OK;
}
