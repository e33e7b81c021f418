/* SPDX-License-Identifier: Apache-2.0
 *
 * Prices outside a whole projection: one operation alone, all operations of a
 * plan, forward alone. */
#include "oracle/step/stage.h"

static bool in_update(const struct pdl_plan *p, int op)
{
    for (int s = 0; s < p->nstages; s++)
        for (int i = 0; i < p->stages[s].nupdate; i++) {
            const struct pdl_plan_item *x =
                &p->items[p->stages[s].first_update + i];

            if (op >= x->first_op && op < x->first_op + x->nops)
                return true;
        }
    return false;
}

void pdl_price_op(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt, int op,
                  struct pdl_op_price *out)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt};
    const struct pdl_plan_op *x = &plan->ops[op];
    int t = x->nin > 0 ? x->in[0] : x->out[0];
    int64_t ranks[ORACLE_MAX_RANKS + ORACLE_MORE];
    int n = oracle_ranks(plan, plan->tensors[t].stage, ranks);
    struct oracle_changed changed;
    const struct oracle *mine;
    struct oracle_lane own;

    oracle_settle(&o, &changed);
    mine = oracle_on_stage(&o, plan->tensors[t].stage, &own);
    n += oracle_more_ranks(&o, op, ranks, n, ranks + n);
    *out = (struct pdl_op_price){.level = -1};
    for (int i = 0; i < n; i++) {
        struct oracle_price how;
        double s = oracle_comm(mine, op, ranks[i], in_update(plan, op), &how);

        if (how.level < 0)
            s = oracle_compute(mine, op, ranks[i]);
        if (s >= out->seconds)
            *out = (struct pdl_op_price){s, how.level, how.flows, how.at};
    }
}

void pdl_exchange_seconds(const struct pdl_plan *plan,
                          const struct pdl_system *sys,
                          const struct pdl_oracle_options *opt, int op,
                          const char *algorithm, const char *compress,
                          const double *bytes, int n, double *seconds,
                          double *coding)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt};
    int stage = plan->tensors[plan->ops[op].in[0]].stage;
    int64_t ranks[ORACLE_MAX_RANKS + ORACLE_MORE];
    struct oracle_changed changed;
    struct oracle_lane room;

    oracle_settle(&o, &changed);
    oracle_ranks(plan, stage, ranks);
    for (int i = 0; i < n; i++)
        seconds[i] =
            oracle_exchange(oracle_on_stage(&o, stage, &room), op, ranks[0],
                            algorithm, compress, bytes[i], &coding[i]);
}

static void price_items(const struct oracle *o, const struct oracle_ranks *r,
                        int first, int nitems, bool gradient, bool comm_only,
                        struct pdl_op_price *out)
{
    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            int op = o->p->items[i].first_op + k;
            const struct oracle_price *p;

            if (comm_only && !oracle_is_comm(o->p->ops[op].kind))
                continue;
            p = oracle_slowest(o, op, r, gradient);
            out[op] =
                (struct pdl_op_price){p->seconds, p->level, p->flows, p->at};
        }
}

static void price_stages(const struct oracle *o, bool comm_only,
                         struct pdl_op_price *out)
{
    for (int s = 0; s < o->p->nstages; s++) {
        const struct pdl_plan_stage *x = &o->p->stages[s];
        struct oracle_lane own;
        const struct oracle *mine = oracle_on_stage(o, s, &own);
        struct oracle_ranks r;

        oracle_find_ranks(o, s, &r);
        price_items(mine, &r, x->first_forward, x->nforward, false, comm_only,
                    out);
        price_items(mine, &r, x->first_backward, x->nbackward, false, comm_only,
                    out);
        price_items(mine, &r, x->first_update, x->nupdate, true, comm_only,
                    out);
    }
}

enum pdl_status oracle_price_ops(const struct pdl_plan *plan,
                                 const struct pdl_system *sys,
                                 const struct pdl_oracle_options *opt,
                                 bool comm_only, struct pdl_op_price *out,
                                 struct pdl_err *err)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt, .err = err};
    struct oracle_changed changed;
    bool ready;

    oracle_settle(&o, &changed);
    o.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    ready = o.arena && oracle_prepare(&o);
    for (int i = 0; i < plan->nops; i++)
        out[i] = (struct pdl_op_price){.level = -1};
    if (ready)
        price_stages(&o, comm_only, out);
    pdl_arena_destroy(o.arena);
    return ready ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status pdl_price_ops(const struct pdl_plan *plan,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *opt,
                              struct pdl_op_price *out, struct pdl_err *err)
{
    return oracle_price_ops(plan, sys, opt, false, out, err);
}

double oracle_forward_s(const struct pdl_plan *plan,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt};
    struct oracle_changed changed;
    struct stage_work w = {.shape = NULL};
    struct stage_exchange u = {.lived = NULL};
    struct stage_run run = {.passes = &w.run, .update = &u.run, .blocks = 1};
    struct stage_ran ran = {.forward = -1};
    struct stream_price *price;

    oracle_settle_pe(&o);
    oracle_leave_out(&o, &changed);
    o.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (o.arena && oracle_prepare(&o) &&
        (price = PDL_NEW(o.arena, struct stream_price, plan->nops + 1)) &&
        oracle_plan_stage(&o, o.arena, 0, price, &w, &u) &&
        (run.made = PDL_NEW(o.arena, double, plan->ntensors + 1)) &&
        (run.back = PDL_NEW(o.arena, double, oracle_run_back(&w.run))))
        oracle_run_passes(&run, &ran);
    pdl_arena_destroy(o.arena);
    return ran.forward;
}
