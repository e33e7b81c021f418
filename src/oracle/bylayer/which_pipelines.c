/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines that are worth a strategy for each layer: those of the best plans
 * that are the same for all layers. That search has priced every number of
 * stages and of micro-batches, schedule and sharding of states; what is chosen
 * by layer changes how a stage does its work, not how many there should be. A
 * plan of one stage is one of them: there only what saves memory is chosen by
 * block. */
#include "oracle/bylayer/bylayer.h"
#include "oracle/search/space.h"

#include <string.h>

/* A pipeline that takes so much longer than the best plan is not looked at:
 * what is chosen by layer gains less. */
static const double WORTH = 1.5;

static int64_t pipe_of(const struct pdl_strategy *s)
{
    const struct pdl_term *t = s->clause[0].term;
    const struct pdl_term *end = t + s->clause[0].nterms;

    while (t < end && t->axis != PDL_AXIS_PIPE)
        t++;
    return t < end ? t->size[0] : 1;
}

static bool same_pipe(const struct pdl_strategy *a,
                      const struct pdl_strategy *b)
{
    return pipe_of(a) == pipe_of(b) && a->schedule == b->schedule &&
           a->micro_batches == b->micro_batches &&
           a->accumulate == b->accumulate &&
           a->virtual_stages == b->virtual_stages && a->zero == b->zero;
}

/* Backward in two tasks is not what units are priced for. */
static bool is_usable(const struct pdl_strategy *s)
{
    return s->nclauses == 1 && strcmp(s->clause[0].layers, "*") == 0 &&
           !pdl_schedule_splits(s->schedule) &&
           (pipe_of(s) == 1 || s->clause[0].term[0].axis == PDL_AXIS_PIPE);
}

enum pdl_status oracle_layers_pipes(pdl_arena *a,
                                    const struct pdl_search_result *all,
                                    bool stages, struct pdl_strategy *out,
                                    int *n, struct pdl_err *err)
{
    double best = all->n > 0 ? all->list[0].x.step_s : 0;
    enum pdl_status st = PDL_OK;

    *n = 0;
    for (int64_t i = 0; i < all->n && *n < ORACLE_MOST_PIPES && st == PDL_OK;
         i++) {
        struct pdl_strategy *s = &out[*n];
        bool known = false;

        if (!all->list[i].priced || all->list[i].x.step_s > WORTH * best)
            continue;
        st = pdl_strategy_parse(a, all->list[i].strategy, s, err);
        if (st != PDL_OK || !is_usable(s) || (pipe_of(s) > 1) != stages)
            continue;
        for (int k = 0; k < *n; k++)
            known = known || same_pipe(&out[k], s);
        *n += !known;
    }
    return st;
}

/* Where the plan of `base` for all layers begins its stages. */
enum pdl_status oracle_stages_cut(struct oracle_stages *s,
                                  const struct pdl_model *model,
                                  const struct pdl_search_options *opt,
                                  struct pdl_err *err)
{
    struct pdl_plan_options po = {
        .batch = opt->batch,
        .dtype = pdl_precision_storage(s->x.oracle->precision),
        .split = pdl_framework_split(s->x.oracle->framework),
        .allow_empty = opt->allow_empty};
    int *cut = PDL_NEW(s->x.arena, int, s->stages);
    const struct pdl_plan *plan;
    enum pdl_status st;

    if (!cut)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_speeds(s->x.arena, s->x.sys, s->x.oracle->precision, &po, err);
    if (st == PDL_OK)
        st = pdl_plan_lower(s->x.arena, model, s->base, &po, &plan, err);
    for (int64_t k = 1; st == PDL_OK && k < s->stages; k++)
        cut[k - 1] = oracle_first_node(plan, (int)k);
    s->cut = cut;
    return st;
}

/* The stages of `base` on the PEs and the batch of the question. False: they
 * cannot be had. */
bool oracle_stages_of(struct oracle_stages *s,
                      const struct pdl_search_options *opt,
                      const struct pdl_strategy *base)
{
    s->base = base;
    s->lanes = pipe_of(base);
    s->stages =
        base->schedule == PDL_SCHEDULE_INTERLEAVED
            ? s->lanes * (base->virtual_stages > 0 ? base->virtual_stages : 2)
            : s->lanes;
    s->micro = base->micro_batches > 0 ? base->micro_batches
               : base->accumulate > 0  ? base->accumulate
                                       : 1;
    s->opt = *opt;
    s->opt.pes = opt->pes / s->lanes;
    s->opt.batch = opt->batch / s->micro;
    s->x.opt = &s->opt;
    return s->opt.pes * s->lanes == opt->pes &&
           s->opt.batch * s->micro == opt->batch && s->opt.batch > 0;
}
