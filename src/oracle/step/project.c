/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's step on a system: its stages (stage.c), the pipeline by an event
 * simulation of its schedule (pipeline.c), the lane that takes longest, and
 * memory. */
#include "oracle/step/stage.h"

#include <math.h>
#include <string.h>

bool oracle_find_order(struct oracle *o)
{
    o->order = oracle_plan_order(o->arena, o->p);
    return o->order && (!pdl_schedule_splits(o->order->schedule) ||
                        oracle_order_runs(o->order, o->arena, o->arena));
}

static double span_of_tasks(const struct oracle *o,
                            const double *const seconds[ORACLE_PASSES],
                            double *lanes)
{
    double span = oracle_order_span(o->order, seconds, lanes), *done;
    int passes = pdl_schedule_splits(o->order->schedule) ? 3 : 2;

    done = o->record ? o->record->done : NULL;
    for (int p = 0; done && p < passes; p++)
        for (int s = 0; s < o->p->nstages; s++)
            for (int64_t m = 0; m < o->p->micro_batches; m++)
                *done++ = oracle_order_end(o->order, p, s, m);
    return span;
}

/* Tasks of a stage include the messages that it waits for. */
static double makespan(const struct oracle *o, const struct stage_time *t,
                       double *lanes)
{
    double forward[ORACLE_MAX_STAGES], backward[ORACLE_MAX_STAGES];
    double weights[ORACLE_MAX_STAGES];

    for (int s = 0; s < o->p->nstages; s++) {
        double back = t[s].backward + t[s].backward_comm + t[s].backward_copy;

        forward[s] = t[s].forward + t[s].forward_comm + t[s].forward_copy;
        weights[s] = t[s].weights < back ? t[s].weights : back;
        backward[s] = back - weights[s];
    }
    return span_of_tasks(o, (const double *[]){forward, backward, weights},
                         lanes);
}

void oracle_add_stage(struct stage_time *sum, const struct stage_time *t)
{
    sum->forward += t->forward;
    sum->backward += t->backward;
    sum->update += t->update;
    sum->recompute += t->recompute;
    sum->layer_comm += t->layer_comm;
    sum->layer_between += t->layer_between;
    sum->halo += t->halo;
    sum->p2p += t->p2p;
    sum->gradient_comm += t->gradient_comm;
    sum->forward_comm += t->forward_comm;
    sum->backward_comm += t->backward_comm;
    sum->exposed_gradients += t->exposed_gradients;
    sum->forward_copy += t->forward_copy;
    sum->backward_copy += t->backward_copy;
    sum->update_copy += t->update_copy;
}

/* ---- the step ----------------------------------------------------------------- */

double oracle_stage_busy(const struct stage_time *t)
{
    return t->forward + t->backward + t->forward_comm + t->backward_comm +
           t->forward_copy + t->backward_copy;
}

double oracle_stage_tail(const struct stage_time *t)
{
    return t->exposed_gradients + t->update + t->update_copy;
}

void oracle_fill_times(double m, const struct stage_time *t, double span,
                       const struct oracle_loading *load,
                       struct pdl_projection *out)
{
    double copies = m * (t->forward_copy + t->backward_copy) + t->update_copy;

    out->forward_s = m * t->forward;
    out->backward_s = m * (t->backward - t->recompute);
    out->recompute_s = m * t->recompute;
    out->update_s = t->update;
    out->layer_comm_s = m * t->layer_comm;
    out->layer_between_s = m * t->layer_between;
    out->halo_s = m * t->halo;
    out->p2p_s = m * t->p2p;
    out->gradient_comm_s = t->gradient_comm;
    out->compute_s =
        out->forward_s + out->backward_s + out->recompute_s + out->update_s;
    out->comm_s =
        out->layer_comm_s + out->halo_s + out->p2p_s + out->gradient_comm_s;
    out->exposed_comm_s =
        m * (t->forward_comm + t->backward_comm) + t->exposed_gradients;
    out->bubble_s = span - m * oracle_stage_busy(t);
    if (out->bubble_s < 1e-12 * span) /* what rounding leaves */
        out->bubble_s = 0;
    out->step_s = out->compute_s + out->exposed_comm_s + out->bubble_s + copies;
    out->io_s = oracle_io(load, out->step_s);
    out->step_s += out->io_s;
    out->io_s += copies;
}

static void fill_times(const struct oracle *o, const struct stage_time *t,
                       double span, struct pdl_projection *out)
{
    struct oracle_loading load = oracle_loading(o);

    oracle_fill_times((double)o->p->micro_batches, t, span, &load, out);
}

/* The lane that takes longest is the critical one. */
static bool fill_lanes(const struct oracle *o, const struct stage_time *t,
                       struct pdl_projection *out)
{
    struct stage_time lane[ORACLE_MAX_STAGES];
    double span[ORACLE_MAX_STAGES], longest = makespan(o, t, span);
    int worst = 0;

    if (longest < 0)
        return false;
    memset(lane, 0, (size_t)o->p->lanes * sizeof lane[0]);
    for (int s = 0; s < o->p->nstages; s++)
        oracle_add_stage(&lane[pdl_plan_lane(o->p, s)], &t[s]);
    for (int l = 0; l < o->p->lanes; l++)
        if (span[l] + oracle_stage_tail(&lane[l]) >
            span[worst] + oracle_stage_tail(&lane[worst]))
            worst = l;
    fill_times(o, &lane[worst], span[worst], out);
    return true;
}

/* ---- the papers' pipeline ------------------------------------------------------ */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* exchange=paper with micro-batches: all stages move in lock step. A slot is
 * as long as the slowest stage's task, and between two slots of a pass all
 * neighbours exchange, as long as the slowest message. One micro-batch is the
 * papers' layer parallelism, which waits instead. */
static bool in_lock_step(const struct oracle *o)
{
    return o->p->strategy->exchange_paper && o->p->nstages > 1 &&
           o->p->micro_batches > 1;
}

/* Every stage as slow as the slowest, messages taken out of the tasks. */
static struct stage_time slowest_of(const struct stage_time *t, int n)
{
    struct stage_time x = t[0];

    for (int s = 0; s < n; s++) {
        x.forward = larger(x.forward, t[s].forward);
        x.backward = larger(x.backward, t[s].backward);
        x.recompute = larger(x.recompute, t[s].recompute);
        x.update = larger(x.update, t[s].update);
        x.layer_comm = larger(x.layer_comm, t[s].layer_comm);
        x.layer_between = larger(x.layer_between, t[s].layer_between);
        x.halo = larger(x.halo, t[s].halo);
        x.gradient_comm = larger(x.gradient_comm, t[s].gradient_comm);
        x.exposed_gradients =
            larger(x.exposed_gradients, t[s].exposed_gradients);
        x.forward_comm = larger(s > 0 ? x.forward_comm : 0,
                                t[s].forward_comm - t[s].forward_send);
        x.backward_comm = larger(s > 0 ? x.backward_comm : 0,
                                 t[s].backward_comm - t[s].backward_send);
        x.forward_send = larger(x.forward_send, t[s].forward_send);
        x.backward_send = larger(x.backward_send, t[s].backward_send);
        x.weights = larger(x.weights, t[s].weights);
        x.forward_copy = larger(x.forward_copy, t[s].forward_copy);
        x.backward_copy = larger(x.backward_copy, t[s].backward_copy);
        x.update_copy = larger(x.update_copy, t[s].update_copy);
    }
    return x;
}

static double span_of(const struct oracle *o, const struct stage_time *each)
{
    struct stage_time t[ORACLE_MAX_STAGES] = {{0}};

    for (int s = 0; s < o->p->nstages; s++)
        t[s] = *each;
    return makespan(o, t, NULL);
}

/* The plan's own schedule says how many slots a pass has. */
static bool fill_lock_step(const struct oracle *o, const struct stage_time *t,
                           struct pdl_projection *out)
{
    struct stage_time x = slowest_of(t, o->p->nstages);
    double slots = span_of(o, &(struct stage_time){.forward = 1});
    double span = span_of(o, &x);
    double messages = (slots - 1) * (x.forward_send + x.backward_send);

    if (slots < 0 || span < 0)
        return false;
    x.p2p = 0;
    fill_times(o, &x, span, out);
    out->p2p_s = messages;
    out->comm_s += messages;
    out->exposed_comm_s += messages;
    out->step_s += messages;
    return true;
}

void oracle_fill_rates(const struct oracle *o, const struct pdl_model *model,
                       int64_t forward_flops, struct pdl_projection *out)
{
    double peak = oracle_peak(o);

    out->samples_per_s = (double)out->batch / out->step_s;
    out->tokens_per_s = out->samples_per_s * (double)model->tokens;
    if (o->opt->dataset > 0)
        out->epoch_s =
            out->step_s * (double)o->opt->dataset / (double)out->batch;
    if (peak > 0)
        out->mfu = 3.0 * (double)forward_flops * (double)out->batch /
                   (out->step_s * (double)out->pes * peak);
}

static void fill_rates(const struct oracle *o, struct pdl_projection *out)
{
    struct pdl_model_totals totals = {.forward_flops = 0};
    const struct pdl_model *m = o->p->given  ? o->p->given
                                : o->p->roll ? o->p->roll->model
                                             : o->p->model;

    if (pdl_model_totals(m, &totals, NULL) != PDL_OK)
        totals.forward_flops = 0;
    out->pes = o->p->mesh->pes;
    out->batch = o->p->batch;
    oracle_fill_rates(o, m, totals.forward_flops, out);
}

/* Lanes of the pipeline at work on the mean, where each stage takes as long as
 * any other and backward twice as long as forward: the schedule's own. */
static double busy_lanes(const struct oracle *o)
{
    double pass[3][ORACLE_MAX_STAGES], span = -1;
    bool split = pdl_schedule_splits(o->p->strategy->schedule);
    const struct oracle_order *order;
    pdl_arena *a;

    if (o->p->nstages < 2 || o->p->nstages > ORACLE_MAX_STAGES ||
        !oracle_has_profile(o))
        return o->p->lanes;
    for (int s = 0; s < o->p->nstages; s++) {
        pass[0][s] = pass[2][s] = 1;
        pass[1][s] = split ? 1 : 2;
    }
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    order = a ? oracle_plan_order(a, o->p) : NULL;
    if (order)
        span = oracle_order_span(
            order, (const double *[]){pass[0], pass[1], pass[2]}, NULL);
    pdl_arena_destroy(a);
    return span > 0 ? 3 * (double)(o->p->nstages * o->p->micro_batches) / span
                    : o->p->lanes;
}

void oracle_settle(struct oracle *o, struct oracle_changed *c)
{
    bool eight = oracle_is_narrow(o->opt->precision);

    oracle_pe_settle(&o->sys->pe, o->opt->precision, &o->pe);
    if (eight)
        oracle_pe_settle(&o->sys->pe, PDL_PREC_BF16, &o->pe16);
    oracle_leave_out(o, c);
    if (eight)
        o->pe16.flat = o->pe.flat;
    else
        o->pe16 = o->pe;
    oracle_older_attention(o, &o->pe16);
    oracle_steps_settle(o);
    o->busy = oracle_busy(o, busy_lanes(o));
}

int64_t oracle_times(const struct oracle *o, int round)
{
    const struct pdl_plan_roll *r = o->p->roll;

    for (int g = 0; r && g < r->ngroups; g++) {
        int first = r->groups[g].first + r->width * r->period;

        if (round >= first && round < first + r->period)
            return r->groups[g].repeat;
    }
    return 1;
}

/* Rounds of a rolled plan are counted, not written; false: out of memory. */
static bool unfold(struct oracle *o)
{
    const struct pdl_plan *p = o->p;
    bool parts = p->roll != NULL && !o->record;

    for (int s = 0; s < p->nstages; s++)
        parts = parts && p->stages[s].nforward <= STAGE_PARTS &&
                p->stages[s].nbackward <= 2 * STAGE_PARTS - 2;
    if (!parts)
        return pdl_plan_unroll(o->arena, p, &o->p, NULL) == PDL_OK;
    return pdl_plan_rounds_open(o->arena, p, &o->rounds, NULL) == PDL_OK &&
           pdl_plan_write_gathers(o->arena, p, &o->p, NULL) == PDL_OK;
}

static enum pdl_status check(const struct oracle *o, struct pdl_err *err)
{
    const struct pdl_plan *plan = o->p;

    if (plan->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (plan->mesh->pes > pdl_system_pes(o->sys))
        return pdl_fail(err, PDL_EINVAL,
                        "the strategy needs %lld PEs, %s has %lld",
                        (long long)plan->mesh->pes, o->sys->name,
                        (long long)pdl_system_pes(o->sys));
    return oracle_allreduce_known(o, err) == PDL_OK &&
                   oracle_host_known(o, err) == PDL_OK
               ? PDL_OK
               : PDL_EINVAL;
}

/* False: out of memory. */
static bool price(struct oracle *o, struct pdl_projection *x)
{
    struct stage_time t[ORACLE_MAX_STAGES] = {{0}};

    if (!unfold(o) || !oracle_prepare(o) || !oracle_find_order(o) ||
        !oracle_find_again(o) || !oracle_price_stages(o, t, &x->contention) ||
        !(in_lock_step(o) ? fill_lock_step(o, t, x) : fill_lanes(o, t, x)))
        return false;
    fill_rates(o, x);
    return oracle_memory(o, x);
}

enum pdl_status oracle_project(const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct oracle_record *record,
                               struct pdl_projection *out, struct pdl_err *err)
{
    struct oracle o = {
        .p = plan, .sys = sys, .opt = opt, .err = err, .record = record};
    struct pdl_projection x = {.reason = ""};
    struct oracle_changed changed;
    bool filled, host;

    if (check(&o, err) != PDL_OK)
        return PDL_EINVAL;
    oracle_settle(&o, &changed);
    o.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    filled = o.arena && price(&o, &x);
    host = oracle_host_fits(&o, &x);
    pdl_arena_destroy(o.arena);
    if (!filled)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!isfinite(x.step_s))
        return pdl_fail(
            err, PDL_EINVAL, "allreduce=%s does not run on groups of this size",
            plan->strategy->allreduce ? plan->strategy->allreduce : "auto");
    x.feasible = x.peak_bytes <= x.capacity_bytes;
    if (!x.feasible)
        x.reason = "more memory than a PE has";
    else if (!host)
        x.reason = "more memory than a host has";
    x.feasible = x.feasible && host;
    *out = x;
    return PDL_OK;
}

enum pdl_status pdl_project(const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            struct pdl_projection *out, struct pdl_err *err)
{
    return oracle_project(plan, sys, opt, NULL, out, err);
}
