/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounds were, for checkpoints: a run that goes on tells of those before,
 * so that its result and its page are of the whole run. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdlib.h>

enum { TRAIN_LOSS, LOSS, RIGHT, CAME, LOST, DOWN, UP, ACROSS, SECONDS, FIXED };

int64_t fed_history_width(const struct fed *f)
{
    return FIXED + f->job->partition.groups;
}

double *fed_history_room(struct fed *f, int64_t rows)
{
    int64_t width = fed_history_width(f);
    double *to = realloc(f->history, (size_t)(rows * width + 1) * sizeof to[0]);

    f->plan.failed = f->plan.failed || !to;
    f->history = to ? to : f->history;
    return to;
}

void fed_history_add(struct fed *f, const struct pdl_fed_line *l)
{
    int64_t width = fed_history_width(f);
    double *row = fed_history_room(f, f->nhistory + 1);

    if (!row)
        return;
    row += f->nhistory++ * width;
    row[TRAIN_LOSS] = l->train_loss;
    row[LOSS] = l->loss;
    row[RIGHT] = l->accuracy;
    row[CAME] = (double)l->trained;
    row[LOST] = (double)l->lost;
    row[DOWN] = (double)l->plan->down_bytes;
    row[UP] = (double)l->plan->up_bytes;
    row[ACROSS] = (double)l->plan->across_bytes;
    row[SECONDS] = l->plan->seconds;
    for (int64_t g = 0; g < l->groups; g++)
        row[FIXED + g] = l->group_accuracy ? l->group_accuracy[g] : NAN;
}

/* Of a whole number that a file may have spoilt. */
static int64_t whole(double x)
{
    return x >= 0 && x < 9e15 ? (int64_t)x : 0;
}

static void tell_row(const struct fed *f, int64_t i,
                     const struct pdl_fed_line *last)
{
    static const struct pdl_fed_line nothing;
    const double *row = f->history + i * fed_history_width(f);
    struct pdl_fed_round plan = {.round = i,
                                 .down_bytes = whole(row[DOWN]),
                                 .up_bytes = whole(row[UP]),
                                 .across_bytes = whole(row[ACROSS]),
                                 .seconds = row[SECONDS]};
    struct pdl_fed_line line = i + 1 < f->nhistory ? nothing : *last;

    line.plan = &plan;
    line.past = true;
    line.round = i + 1;
    line.rounds = f->job->rounds;
    line.trained = whole(row[CAME]);
    line.lost = whole(row[LOST]);
    line.train_loss = row[TRAIN_LOSS];
    line.loss = row[LOSS];
    line.accuracy = row[RIGHT];
    line.groups = f->job->partition.groups;
    line.clients = f->job->partition.clients;
    line.group_accuracy = row + FIXED;
    f->job->tell(f->job->ctx, &line);
}

/* Right answers of the last test so far; NaN: there was none. */
double fed_history_last(const struct fed *f)
{
    double last = NAN;

    for (int64_t i = 0; i < f->nhistory; i++) {
        const double *row = f->history + i * fed_history_width(f);

        last = isnan(row[RIGHT]) ? last : row[RIGHT];
    }
    return last;
}

void fed_history_tell(struct fed *f, const struct pdl_fed_line *last)
{
    for (int64_t i = 0; i < f->nhistory; i++) {
        const double *row = f->history + i * fed_history_width(f);

        if (f->job->tell)
            tell_row(f, i, last);
        if (!isnan(row[RIGHT])) {
            f->sum_up.accuracy = row[RIGHT];
            f->sum_up.loss = row[LOSS];
        }
    }
}
