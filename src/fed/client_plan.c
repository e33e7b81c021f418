/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan that a client's devices train on, and what it cannot be. */
#include "fed/learner.h"

enum pdl_status fed_plan_lower(fed_learner *l, const char *strategy,
                               int64_t batch, const struct pdl_plan **out,
                               struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(l->arena, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = batch, .dtype = PDL_F32};
    enum pdl_status st =
        s ? pdl_strategy_parse(l->arena, strategy, s, err)
          : pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");

    return st == PDL_OK
               ? pdl_plan_lower(l->arena, l->opt.model, s, &opt, out, err)
               : st;
}

static bool cuts_samples_alone(const struct pdl_strategy *s)
{
    bool alone = s->accumulate <= 1;

    for (int c = 0; c < s->nclauses; c++)
        for (int i = 0; i < s->clause[c].nterms; i++)
            alone = alone && s->clause[c].term[i].axis == PDL_AXIS_DATA;
    return alone;
}

/* Distances between samples need all of a batch's features, row by row. */
static enum pdl_status check_strategy(const fed_learner *l, struct pdl_err *err)
{
    const struct pdl_strategy *s = l->plan->strategy;
    bool rows = l->plan->nstages == 1 && cuts_samples_alone(s);

    if (l->plan->mesh->pes > 64)
        return pdl_fail(err, PDL_EINVAL, "a client of more than 64 devices");
    if (l->opt.distils && !rows)
        return pdl_fail(err, PDL_EINVAL,
                        "what distils takes a client's strategy that cuts "
                        "samples alone and takes a batch at once, such as "
                        "data=2");
    return PDL_OK;
}

/* A part's two devices may each be several that share the samples. Stems that
 * take turns in one memory have one device. */
static enum pdl_status check_parts(fed_learner *l, struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(l->arena, struct pdl_strategy, 1);
    enum pdl_status st =
        s ? pdl_strategy_parse(l->arena, l->opt.strategy, s, err)
          : pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");

    if (st != PDL_OK)
        return st;
    if (s->nclauses != 1 || !cuts_samples_alone(s)) {
        pdl_fail(err, PDL_EINVAL,
                 "a part of a network takes a strategy that cuts samples "
                 "alone, such as data=2: what else there is to cut, its "
                 "division has cut");
        return PDL_EINVAL;
    }
    if (l->opt.stems != FED_STEMS_AGAIN)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL,
             "stems that take turns in the memory of a part take no strategy");
    pdl_hint(err, "feddct:stems=keep");
    return PDL_EINVAL;
}

enum pdl_status fed_plan_make(fed_learner *l, struct pdl_err *err)
{
    const struct fed_learner_options *o = &l->opt;
    const char *how = o->strategy ? o->strategy : "data=1";
    enum pdl_status st;

    st = o->parts > 1 && o->strategy ? check_parts(l, err) : PDL_OK;
    if (st == PDL_OK && o->parts > 1 && o->stems != FED_STEMS_WHOLE)
        how = fed_stem_strategy(l->arena, o, err);
    if (st != PDL_OK || !how)
        return PDL_EINVAL;
    st = fed_plan_lower(l, how, o->batch, &l->plan, err);
    if (st == PDL_OK)
        st = check_strategy(l, err);
    if (st != PDL_OK)
        return st;
    l->parts = o->parts > 1 ? o->parts : 1;
    l->ranks = (int)l->plan->mesh->pes;
    l->nets = l->parts * l->ranks;
    l->turns.taken = l->parts > 1 && o->stems == FED_STEMS_AGAIN;
    l->net = PDL_NEW(l->arena, struct fed_net, l->nets);
    l->comms = PDL_NEW(l->arena, pdl_comm *, l->nets);
    l->bells = PDL_NEW(l->arena, pdl_comm *, l->parts);
    l->mail = PDL_NEW(l->arena, struct pdl_comm_message, 4 * l->parts);
    return l->net && l->comms && l->bells && l->mail
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
}
