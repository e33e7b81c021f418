/* SPDX-License-Identifier: Apache-2.0
 *
 * From a strategy as it is written to the plan that is priced: the one recipe
 * that jobs and searches follow. */
#include "oracle/oracle_priv.h"

#include "paradl/coll.h"

enum pdl_dtype pdl_precision_storage(enum pdl_precision p)
{
    switch (p) {
    case PDL_PREC_BF16:
    case PDL_PREC_FP8:
    case PDL_PREC_FP4:
        return PDL_BF16;
    case PDL_PREC_FP16:
        return PDL_F16;
    case PDL_PREC_FP64:
    case PDL_PREC_FP64_TENSOR:
        return PDL_F64;
    default:
        return PDL_F32;
    }
}

const char *oracle_strategy_text(pdl_arena *a, const struct pdl_strategy *s)
{
    const char *text = NULL;
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    if (!b.sink.failed)
        text = pdl_arena_strdup(a, b.text);
    pdl_buf_free(&b);
    return text;
}

void oracle_drop_ones(struct pdl_clause *c)
{
    int n = 0;

    for (int i = 0; i < c->nterms; i++)
        if (c->term[i].size[0] > 1)
            c->term[n++] = c->term[i];
    c->nterms = n;
}

int oracle_first_node(const struct pdl_plan *p, int stage)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    int first = p->model->nnodes;

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int k = 0; k < p->items[i].nops; k++) {
            const struct pdl_plan_op *op = &p->ops[p->items[i].first_op + k];

            if (op->kind == PDL_PLAN_OP_COMPUTE && op->node >= 0 &&
                op->node < first)
                first = op->node;
        }
    return first;
}

/* What follows from the options of the oracle, the system and the framework. */
static enum pdl_status settle(pdl_arena *a, const struct pdl_model *model,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *oracle,
                              struct pdl_plan_options *po,
                              struct pdl_strategy *s, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    po->split = pdl_framework_split(oracle->framework);
    po->dtype = pdl_precision_storage(oracle->precision);
    po->knows = pdl_alg_known;
    if (sys)
        st = pdl_speeds(a, sys, oracle->precision, po, err);
    if (st == PDL_OK)
        pdl_framework_adapt(oracle->framework, model, s);
    return st;
}

enum pdl_status pdl_oracle_outofcore(
    pdl_arena *a, const struct pdl_model *model, const struct pdl_system *sys,
    const struct pdl_oracle_options *oracle, const struct pdl_plan_options *opt,
    struct pdl_strategy *s, struct pdl_outofcore *out, struct pdl_err *err)
{
    struct pdl_plan_options *po = PDL_NEW(a, struct pdl_plan_options, 1);
    enum pdl_status st;

    if (!po)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *po = *opt;
    st = settle(a, model, sys, oracle, po, s, err);
    if (st == PDL_OK)
        st = pdl_outofcore(a, model, sys, oracle, po, s, out, err);
    return st == PDL_OK ? pdl_karma_prove(a, &out->karma, &out->plan, err) : st;
}

enum pdl_status pdl_oracle_lower(
    pdl_arena *a, const struct pdl_model *model, const struct pdl_system *sys,
    const struct pdl_oracle_options *oracle, const struct pdl_plan_options *opt,
    struct pdl_strategy *s, const struct pdl_plan **out, struct pdl_err *err)
{
    struct pdl_plan_options po = *opt;
    enum pdl_status st = settle(a, model, sys, oracle, &po, s, err);

    if (st == PDL_OK && sys)
        st = pdl_swap_settle(a, model, sys, oracle, &po, s, err);
    if (st != PDL_OK)
        return st;
    return (po.rolled ? pdl_plan_lower_rolled : pdl_plan_lower)(a, model, s,
                                                                &po, out, err);
}
