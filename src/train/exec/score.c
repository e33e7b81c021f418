/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test split says of the weights: the mean loss, of sequences of
 * classes its exponential (perplexity), and the share of right answers. */
#include "train/exec/loop.h"

#include <math.h>
#include <string.h>

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

static enum pdl_status open_classes(struct train_loop *l, struct pdl_err *err)
{
    struct train_score *s = &l->score;
    int64_t n = pdl_io_describe(l->job->io)->classes;

    memset(s->right, 0, sizeof s->right);
    memset(s->of, 0, sizeof s->of);
    if (s->labels || n > PDL_TRAIN_CLASSES || l->t->positions > 1)
        return PDL_OK;
    s->nclasses = (int)n;
    return train_labels(&l->test, l->arena, &s->labels, err);
}

static void count_classes(struct train_loop *l, int64_t at, int64_t n)
{
    struct train_score *s = &l->score;

    for (int64_t i = 0; s->labels && i < n; i++) {
        int c = s->labels[at + i];

        if (c < 0 || c >= s->nclasses)
            continue;
        s->of[c]++;
        s->right[c] += l->t->losses[2 * i + 1] > 0;
    }
}

void train_score_classes(const struct train_loop *l,
                         struct pdl_train_summary *out)
{
    const struct train_score *s = &l->score;

    out->nclasses = s->labels && !isnan(s->accuracy) ? s->nclasses : 0;
    for (int c = 0; c < out->nclasses; c++)
        out->by_class[c] =
            s->of[c] > 0 ? (double)s->right[c] / (double)s->of[c] : NAN;
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
        count_classes(l, at, n - at < batch ? n - at : batch);
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
    double from = pdl_clock_s();
    enum pdl_status st;

    l->score.loss = l->score.perplexity = l->score.accuracy = NAN;
    if (n == 0)
        return PDL_OK;
    st = open_classes(l, err);
    if (st == PDL_OK)
        st = pdl_trainer_settle(l->t, err);
    if (st == PDL_OK)
        st = train_average_in(l, err);
    if (st == PDL_OK)
        st = add_up(l, n, &sum, stop, err);
    if (st == PDL_OK)
        st = train_average_out(l, err);
    l->score.seconds += pdl_clock_s() - from;
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
