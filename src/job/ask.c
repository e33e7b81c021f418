/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be asked of a job beyond its price: why, how sure, what is best. */
#include "job_priv.h"

#include <string.h>

enum pdl_status pdl_job_interval(pdl_job *j, struct pdl_err *err)
{
    enum pdl_status st = pdl_job_price(j, err);

    if (st == PDL_OK)
        pdl_interval(j->plan, &j->sys, &j->oracle, &j->x);
    return st;
}

enum pdl_status pdl_job_explain(pdl_job *j, struct pdl_explanation *out,
                                struct pdl_err *err)
{
    enum pdl_status st = pdl_job_price(j, err);

    return st == PDL_OK ? pdl_explain(j->step, j->plan, &j->sys, &j->oracle,
                                      &j->x, out, err)
                        : st;
}

/* ---- search ------------------------------------------------------------ */

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    pdl_job *j = ctx;

    return !atomic_load(&j->cancelled) &&
           (!j->progress || j->progress(j->ctx, done, total));
}

enum pdl_goal pdl_job_goal(const pdl_job *j)
{
    const char *name = j->text[JOB_GOAL];
    static const char *const names[] = {[PDL_GOAL_TIME] = "time",
                                        [PDL_GOAL_MEMORY] = "memory",
                                        [PDL_GOAL_ENERGY] = "energy",
                                        [PDL_GOAL_COST] = "cost",
                                        [PDL_GOAL_PARETO] = "pareto"};

    for (int i = 0; name && i <= PDL_GOAL_PARETO; i++)
        if (strcmp(names[i], name) == 0)
            return (enum pdl_goal)i;
    return PDL_GOAL_TIME;
}

/* Nothing can be ranked by what the system does not say. */
static enum pdl_status can_count(const pdl_job *j, enum pdl_goal goal,
                                 struct pdl_err *err)
{
    const struct pdl_pe *pe = &j->sys.pe;
    const char *system = j->given ? j->sys.name : j->text[JOB_SYSTEM], *field;
    bool cost = goal == PDL_GOAL_COST;

    if (!(cost && !(pe->price_per_hour > 0)) &&
        !(goal == PDL_GOAL_ENERGY && !(pe->peak_w > 0)))
        return PDL_OK;
    field = cost ? "price_per_hour=2.5" : "peak_power=400W";
    pdl_fail(err, PDL_EINVAL, "goal %s: %s does not say its %s",
             j->text[JOB_GOAL], j->sys.name, cost ? "price" : "power");
    pdl_hint(err, "name it %s%cpe.%s", system, strchr(system, ':') ? ',' : ':',
             field);
    return PDL_EINVAL;
}

static enum pdl_offload offload_of(const pdl_job *j)
{
    const char *name = j->text[JOB_OFFLOAD];

    return !name                       ? PDL_OFFLOAD_ASKED
           : strcmp(name, "auto") == 0 ? PDL_OFFLOAD_AUTO
                                       : PDL_OFFLOAD_NONE;
}

static enum pdl_status ready(pdl_job *j, struct pdl_search_options *out,
                             struct pdl_err *err)
{
    static const enum job_setting needed[] = {JOB_SYSTEM, JOB_PES, JOB_BATCH};
    enum pdl_status st;

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!j->text[needed[i]] && !(needed[i] == JOB_SYSTEM && j->given))
            return pdl_fail(err, PDL_EINVAL, "a search needs %s",
                            pdl_job_setting_at((int)needed[i])->name);
    st = pdl_job_open(j, err);
    *out = (struct pdl_search_options){
        .pes = j->count[JOB_PES],
        .batch = j->count[JOB_BATCH],
        .allow_empty = j->count[JOB_ALLOW_EMPTY] != 0,
        .offload = offload_of(j),
        .axes = j->text[JOB_AXES],
        .basic = j->count[JOB_BASIC] != 0,
        .goal = pdl_job_goal(j),
        .top = j->count[JOB_TOP],
        .exhaustive = j->count[JOB_EXHAUSTIVE] != 0,
        .one_order = j->count[JOB_ONE_ORDER] != 0,
        .uncounted = j->count[JOB_UNCOUNTED] != 0,
        .only_fits = j->count[JOB_ONLY_FITS] != 0,
        .threads = (int)j->count[JOB_THREADS],
        .progress = go_on,
        .ctx = j};
    if (st == PDL_OK)
        st = can_count(j, out->goal, err);
    pdl_arena_reset(j->found);
    return st;
}

enum pdl_status pdl_job_search(pdl_job *j, struct pdl_search_result *out,
                               struct pdl_err *err)
{
    struct pdl_search_options opt;
    enum pdl_status st = ready(j, &opt, err);

    return st == PDL_OK ? pdl_search(j->found, j->model, &j->sys, &j->oracle,
                                     &opt, out, err)
                        : st;
}

enum pdl_status pdl_job_rank(pdl_job *j, struct pdl_search_result *found,
                             struct pdl_err *err)
{
    struct pdl_search_options opt = {
        .batch = j->count[JOB_BATCH],
        .allow_empty = j->count[JOB_ALLOW_EMPTY] != 0};

    return pdl_oracle_rank(j->model, &j->sys, &j->oracle, &opt, found->list,
                           found->n, err);
}

enum pdl_status pdl_job_search_layers(pdl_job *j, struct pdl_layers_result *out,
                                      struct pdl_err *err)
{
    struct pdl_search_options opt;
    enum pdl_status st = ready(j, &opt, err);

    return st == PDL_OK ? pdl_search_layers(j->found, j->model, &j->sys,
                                            &j->oracle, &opt, out, err)
                        : st;
}
