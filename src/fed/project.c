/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of all rounds without training: printed, or what they take on devices
 * and links as they are said to be. */
#include "fed/fed_priv.h"

#include <stdlib.h>

/* What the plan of a round adds; its time is kept. */
static void add_plan(const struct pdl_fed_round *r,
                     struct pdl_fed_projection *out, double *seconds)
{
    seconds[out->rounds++] = r->seconds;
    out->total_s += r->seconds;
    out->down_bytes += (double)r->down_bytes;
    out->up_bytes += (double)r->up_bytes;
    out->across_bytes += (double)r->across_bytes;
    out->tasks += r->ntasks;
    for (int64_t i = 0; i < r->ntasks; i++)
        out->lost += r->task[i].lost != NULL;
}

enum pdl_status pdl_fed_project(const struct pdl_fed_job *job,
                                struct pdl_fed_projection *out,
                                struct pdl_err *err)
{
    struct fed f = {.job = job, .ranks = 1, .dry = true};
    struct pdl_fed_projection x = {.rounds = 0};
    double *seconds = calloc((size_t)job->rounds + 1, sizeof seconds[0]), n;
    enum pdl_status st = seconds ? fed_open(&f, err)
                                 : pdl_fail(err, PDL_ENOMEM, "out of memory");

    for (; st == PDL_OK && f.sum_up.rounds < job->rounds; f.sum_up.rounds++) {
        st = fed_plan_round(&f, err);
        if (st == PDL_OK)
            add_plan(&f.plan.is, &x, seconds);
    }
    if (st == PDL_OK && x.rounds > 0) {
        n = (double)x.rounds;
        pdl_sort(seconds, x.rounds);
        x.mean_s = x.total_s / n;
        x.median_s = seconds[x.rounds / 2];
        x.p90_s = seconds[x.rounds * 9 / 10];
        x.down_bytes /= n;
        x.up_bytes /= n;
        x.across_bytes /= n;
        x.parameters = f.n;
        x.memory_bytes = fed_learner_memory(f.learner);
        *out = x;
    }
    free(seconds);
    fed_close(&f);
    return st;
}

enum pdl_status pdl_fed_emit(const struct pdl_fed_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    struct fed f = {.job = job, .ranks = 1, .dry = true};
    enum pdl_status st = fed_open(&f, err);

    for (; st == PDL_OK && f.sum_up.rounds < job->rounds; f.sum_up.rounds++) {
        st = fed_plan_round(&f, err);
        if (st == PDL_OK)
            pdl_fed_round_print(&f.plan.is, out);
    }
    fed_close(&f);
    return st;
}
