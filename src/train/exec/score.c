/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test split says of the weights: the mean loss, of sequences of
 * classes its exponential (perplexity), and the share of right answers. */
#include "train/exec/loop.h"

#include <math.h>

bool train_asked_to_stop(const struct train_loop *l)
{
    return l->job->stop && *l->job->stop;
}

int64_t train_score_samples(const struct train_loop *l)
{
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    int64_t n, most = l->job->test_samples;

    if (l->test.split < 0 || most < 0)
        return 0;
    n = d->split[l->test.split].samples;
    return most > 0 && most < n ? most : n;
}

/* Sums over the split; *stop: it was left. */
static enum pdl_status add_up(struct train_loop *l, int64_t n,
                              struct pdl_train_result *sum, bool *stop,
                              struct pdl_err *err)
{
    int64_t batch = l->job->plan->batch;
    enum pdl_status st = train_pass_begin(&l->test, l->t, n, err);

    for (int64_t at = 0; at < n && st == PDL_OK && !*stop; at += batch) {
        struct pdl_train_result r = {.loss = 0};

        pdl_trainer_vote(l->t, train_asked_to_stop(l), false, false);
        st = train_pass_batch(&l->test, l->t, at, &r, err);
        if (st != PDL_OK)
            break;
        sum->loss_sum += r.loss_sum;
        sum->correct += r.correct;
        sum->counted += r.counted;
        *stop = r.stop > 0;
    }
    train_ahead_close(&l->test);
    return st;
}

enum pdl_status train_score(struct train_loop *l, bool *stop,
                            struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    int64_t n = train_score_samples(l);
    struct pdl_train_result sum = {.loss = 0};
    enum pdl_status st;

    l->score = (struct train_score){NAN, NAN, NAN};
    if (n == 0)
        return PDL_OK;
    st = pdl_trainer_settle(l->t, err);
    if (st == PDL_OK)
        st = train_average_in(l, err);
    if (st == PDL_OK)
        st = add_up(l, n, &sum, stop, err);
    if (st == PDL_OK)
        st = train_average_out(l, err);
    if (st != PDL_OK || *stop)
        return st;
    l->score.loss = sum.loss_sum / (double)n;
    if (l->job->opt.mean_squares)
        return PDL_OK;
    if (d->target.integer && d->target.rank == 1 && d->input.integer)
        l->score.perplexity = exp(l->score.loss);
    if (sum.counted > 0)
        l->score.accuracy = (double)sum.correct / (double)sum.counted;
    return PDL_OK;
}
