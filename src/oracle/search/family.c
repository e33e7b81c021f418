/* SPDX-License-Identifier: Apache-2.0
 *
 * Which networks have points that can be priced from blocks, and what a point
 * is as a strategy. */
#include "oracle/search/blocks.h"

#include <string.h>

/* Blocks of another kind beside those that repeat, as the first of Kimi K2's,
 * which alone is dense: stages that hold one are not like the others. */
static bool has_other_blocks(const struct pdl_model *m)
{
    for (int s = 0; s < m->nsegments; s++)
        for (int i = 0; m->segments[s].repeat == 1 && i < m->segments[s].nnodes;
             i++)
            if (pdl_op_id(m->nodes[m->segments[s].first_node + i].op) ==
                PDL_ID_ATTENTION)
                return true;
    return false;
}

bool oracle_family_make(const struct pdl_model *model,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt,
                        const struct pdl_plan_options *plan,
                        struct oracle_family *out)
{
    struct pdl_model_totals totals;
    int repeated = 0;

    *out = (struct oracle_family){
        .model = model, .sys = sys, .opt = opt, .plan = *plan, .block = -1};
    if (sys->npe_groups > 0)
        return false; /* stages are not alike */
    for (int s = 0; s < model->nsegments; s++) {
        if (model->segments[s].repeat > 1) {
            repeated++;
            out->block = s;
            out->layers = model->segments[s].repeat;
        }
        out->first_node += out->block < 0 ? model->segments[s].nnodes : 0;
    }
    if (pdl_model_totals(model, &totals, NULL) == PDL_OK)
        out->forward_flops = totals.forward_flops;
    return repeated == 1 && !has_other_blocks(model) && model->nsegments <= 8 &&
           !plan->inner && sys->npe_groups == 0 && !opt->nodes &&
           strcmp(model->kind, "transformer") == 0;
}

static void add_term(struct pdl_clause *c, enum pdl_axis axis, int64_t n)
{
    c->term[c->nterms++] =
        (struct pdl_term){.axis = axis, .nsizes = 1, .size = {n}};
}

/* Those that are not named come first. */
static void put_in_order(struct pdl_clause *c, uint32_t order)
{
    int n = 0;

    for (; order > 0; order >>= 4)
        for (int i = n; i < c->nterms; i++)
            if (c->term[i].axis == (enum pdl_axis)((order & 15) - 1)) {
                struct pdl_term t = c->term[i];

                memmove(&c->term[n + 1], &c->term[n],
                        (size_t)(i - n) * sizeof t);
                c->term[n++] = t;
            }
}

enum pdl_schedule oracle_point_schedule(const struct oracle_point *x)
{
    static const enum pdl_schedule bubbles[] = {
        PDL_SCHEDULE_1F1B, PDL_SCHEDULE_ZB_H1, PDL_SCHEDULE_ZB_H2,
        PDL_SCHEDULE_ZB_V};

    return x->chunks > 1 ? PDL_SCHEDULE_INTERLEAVED
           : x->pipe > 1 ? bubbles[x->bubble]
                         : PDL_SCHEDULE_1F1B;
}

void oracle_point_strategy(const struct oracle_family *f,
                           const struct oracle_point *x,
                           struct pdl_strategy *out)
{
    int64_t m = f->plan.batch / (oracle_point_replicas(x) * x->micro);
    struct pdl_clause *c = &out->clause[0];

    *out = (struct pdl_strategy){.nclauses = 1};
    c->layers = "*";
    if (x->pipe > 1) {
        add_term(c, PDL_AXIS_PIPE, x->pipe);
        out->micro_batches = m;
    } else if (m > 1) {
        out->accumulate = m;
    }
    out->schedule = oracle_point_schedule(x);
    if (x->chunks > 1)
        out->virtual_stages = x->chunks;
    add_term(c, PDL_AXIS_DATA, x->data);
    if (x->expert > 1)
        add_term(c, PDL_AXIS_EXPERT, x->expert);
    if (x->context > 1)
        add_term(c, PDL_AXIS_CONTEXT, x->context);
    out->context_kind =
        x->context > 1 && x->a2a ? PDL_CONTEXT_A2A : PDL_CONTEXT_RING;
    if (x->tensor > 1)
        add_term(c, PDL_AXIS_TENSOR, x->tensor);
    put_in_order(c, x->order);
    out->seq = x->seq && x->tensor > 1;
    out->zero = x->zero;
    out->zero_group = x->group; /* cuts the mesh whether or not they do */
    out->recompute = x->recompute;
    out->no_overlap = x->no_overlap;
    out->offload_activations = x->activations;
    out->offload_optimizer = x->optimizer;
}

bool oracle_point_alike(const struct oracle_point *a,
                        const struct oracle_point *b)
{
    return a->tensor == b->tensor && a->seq == b->seq &&
           a->expert == b->expert && a->context == b->context &&
           a->a2a == b->a2a && a->group == b->group && a->order == b->order;
}
