/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's step on a system: every operation priced on representative ranks
 * (the slowest counts: collectives wait for it), run on two streams so that
 * gradient exchange hides behind backward where overlap is on, and pipelines
 * by an event simulation of their schedule (pipeline.c).
 *
 * What hides an exchange is slower while it runs: the kernels of a collective
 * hold a part of the PE (pe.interference), and a layer's collective that leaves
 * the node has half of the adapters. Limits: the exchange itself is slowed by
 * other collectives only, and the weight update by nothing. */
#include "oracle/step/stage.h"

#include <math.h>
#include <string.h>

static const struct oracle_price *priced(const struct oracle *o, int op,
                                         const struct oracle_ranks *r,
                                         bool gradient,
                                         struct pdl_projection *out)
{
    const struct oracle_price *p = oracle_slowest(o, op, r, gradient);

    if (p->flows > out->contention)
        out->contention = p->flows;
    return p;
}

static double *comm_phase(struct stage_time *t, enum pdl_plan_op_kind kind,
                          bool update)
{
    return update                     ? &t->gradient_comm
           : kind == PDL_PLAN_OP_HALO ? &t->halo
           : kind == PDL_PLAN_OP_SEND ? &t->p2p
                                      : &t->layer_comm;
}

bool oracle_is_exchange(const struct oracle *o, int op, enum phase phase)
{
    enum pdl_plan_op_kind kind = o->p->ops[op].kind;

    return phase == UPDATE ? oracle_is_comm(kind) || kind == PDL_PLAN_OP_RECV
                           : oracle_is_weight_traffic(o, op);
}

static void set_ready(const struct oracle *o, int op, double t,
                      struct streams *c)
{
    for (int k = 0; k < o->p->ops[op].nout; k++)
        c->ready[o->p->ops[op].out[k]] = t;
}

/* Weights one block ahead, and ahead of the gradients that wait. */
static bool gather_ahead(const struct oracle *o, int op, double ready,
                         double seconds, struct streams *c)
{
    double start, later;
    bool ahead = oracle_gathers_ahead(c, ready, seconds, &start, &later);

    for (int i = 0; ahead && i < c->nscatters; i++) {
        const struct pdl_plan_op *x = &o->p->ops[c->scatter[i]];

        if (o->record)
            o->record->start[c->scatter[i]] += later;
        for (int k = 0; k < x->nout; k++)
            c->ready[x->out[k]] += later;
    }
    if (ahead) {
        oracle_keep(o, op, start, seconds);
        set_ready(o, op, start + seconds, c);
    }
    c->nscatters = 0;
    return ahead;
}

static void run_on_streams(const struct oracle *o, int op, enum phase phase,
                           const struct oracle_price *price, struct streams *c)
{
    struct stream_op x = {.seconds = price->seconds,
                          .level = price->level,
                          .exchange = oracle_is_exchange(o, op, phase),
                          .comm = oracle_is_comm(o->p->ops[op].kind),
                          .update = phase == UPDATE};
    double start = oracle_inputs_ready(o, op, c), seconds, before = c->network;
    bool weights = x.exchange && !x.update;
    bool gather = weights && o->p->ops[op].kind == PDL_PLAN_OP_ALLGATHER;

    if (gather) { /* one block ahead */
        start = c->prefetch > start ? c->prefetch : start;
        c->prefetch = c->compute;
        if (gather_ahead(o, op, start, x.seconds, c))
            return;
    }
    if (!x.exchange && start > c->compute && oracle_waits_for_copy(o, op, c))
        c->late += start - c->compute;
    start = oracle_stream_step(c, &x, start, &seconds);
    if (weights && !gather)
        oracle_scattered(c, op, start, before);
    oracle_keep(o, op, start, seconds);
    set_ready(o, op, start + seconds, c);
}

/* What is gathered after the update is not there before it. */
static bool of_gradients(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];

    return x->nin == 0 ||
           o->p->tensors[x->in[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* Exchanges start in the order of the plan, as soon as their gradients are
 * there: those that are by now. */
static void start_exchanges(const struct oracle *o,
                            const struct oracle_ranks *r, struct streams *c,
                            struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[r->stage];

    while (c->item < s->nupdate) {
        const struct pdl_plan_item *x = &o->p->items[s->first_update + c->item];
        int op = x->first_op + c->op;

        if (c->op < x->nops && oracle_is_exchange(o, op, UPDATE)) {
            if (!of_gradients(o, op) ||
                oracle_inputs_ready(o, op, c) > c->compute)
                return;
            run_on_streams(o, op, UPDATE, priced(o, op, r, true, out), c);
        }
        if (++c->op >= x->nops) {
            c->item++;
            c->op = 0;
        }
    }
}

static bool has_started(const struct oracle *o, const struct streams *c,
                        int stage, int item, int k)
{
    int i = item - o->p->stages[stage].first_update;

    return i < c->item || (i == c->item && k < c->op);
}

static bool is_forward(const struct pdl_plan_op *op)
{
    return op->kind == PDL_PLAN_OP_COMPUTE && op->pass == PDL_FORWARD;
}

void oracle_add_items(const struct oracle *o, int first, int nitems,
                      enum phase phase, const struct oracle_ranks *r,
                      struct stage_time *t, struct streams *c,
                      struct pdl_projection *out)
{
    double *compute = phase == FORWARD    ? &t->forward
                      : phase == BACKWARD ? &t->backward
                                          : &t->update;

    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            int op = o->p->items[i].first_op + k;
            bool comm = oracle_is_comm(o->p->ops[op].kind);
            struct oracle_price price = *priced(o, op, r, phase == UPDATE, out);
            double s = price.seconds;
            double *busy;
            int level = price.level;

            c->level = level;
            if (oracle_of_copies(o, &o->p->items[i], k, phase, s, c))
                continue;
            if (comm && phase != UPDATE) { /* compute, but no operation */
                double copy = oracle_copy(o, op, r->rank[0]);

                *compute += copy;
                c->compute += copy;
            }
            if (phase == BACKWARD && c->held > 0)
                start_exchanges(o, r, c, out);
            if (phase != UPDATE || !oracle_is_exchange(o, op, UPDATE) ||
                !has_started(o, c, r->stage, i, k))
                run_on_streams(o, op, phase, &price, c);
            t->calls += s > 0 && !comm ? oracle_issued(o, op) : 0;
            if (!comm) {
                *compute += s;
                if (phase == BACKWARD && is_forward(&o->p->ops[op]))
                    t->recompute += s;
                continue;
            }
            busy = comm_phase(t, o->p->ops[op].kind, phase == UPDATE);
            *busy += s;
            if (busy == &t->layer_comm && level > 0)
                t->layer_between += s;
            if (phase != UPDATE && oracle_is_weight_traffic(o, op))
                continue; /* what is not hidden shows as waiting */
            if (phase == FORWARD)
                t->forward_comm += s;
            if (phase == BACKWARD)
                t->backward_comm += s;
            if (phase == FORWARD && o->p->ops[op].kind == PDL_PLAN_OP_SEND)
                t->forward_send += s;
            if (phase == BACKWARD && o->p->ops[op].kind == PDL_PLAN_OP_SEND)
                t->backward_send += s;
        }
}

bool oracle_overlaps(const struct oracle *o)
{
    return !o->p->strategy->no_overlap && !o->p->strategy->exchange_paper &&
           !(o->opt->framework && o->opt->framework->no_overlap);
}

/* What a phase took beyond its work; 0: what rounding leaves. */
static double waiting(double took, double work)
{
    return took - work > 1e-9 * took ? took - work : 0;
}

/* The host issues kernels ahead of the device; whichever is slower sets the
 * pace, and where they are close, now the one and now the other: a norm of
 * fifth power, from step times of small models (vTrain, MICRO 2024); of second
 * where the host waits for results and so gets no lead (compute_steps.c).
 * Returns what the device waits. */
double oracle_host_wait(const struct oracle *o, double device, int64_t calls)
{
    double host = o->opt->framework && o->opt->parameters != PDL_IDEAL
                      ? (double)calls / ORACLE_CALL * o->opt->framework->issue_s
                      : 0;
    double power = o->waits ? 2 : 5;

    return host > 0 && device > 0
               ? device * (pow(1 + pow(host / device, power), 1 / power) - 1)
               : 0;
}

/* What is gathered after the update (ZeRO 1 and 2) must be there before the
 * next step begins. */
double oracle_exposed(const struct streams *c, double backward_end,
                      double update)
{
    double end = c->network > c->compute ? c->network : c->compute;
    double t = end - backward_end - update;

    return t < 1e-12 * c->compute ? 0 : t; /* what rounding leaves */
}

/* A processor moves messages itself: what it computes has to wait. */
double oracle_held(const struct oracle *o)
{
    if (!oracle_overlaps(o) || o->opt->parameters == PDL_IDEAL ||
        oracle_without(o, ORACLE_INTERFERENCE))
        return 0;
    return o->pe.core && !(o->sys->pe.interference > 0)
               ? 1
               : o->sys->pe.interference;
}

/* What the stage makes itself is not ready; what an operation reads before any
 * has written it (state: weights, running statistics) is. */
static void forget(const struct oracle *o, const struct pdl_plan_stage *s,
                   double *ready)
{
    const int first[] = {s->first_forward, s->first_backward, s->first_update};
    const int n[] = {s->nforward, s->nbackward, s->nupdate};
    static const double STATE = -1;

    memset(ready, 0, (size_t)o->p->ntensors * sizeof *ready);
    for (int p = 0; p < 3; p++)
        for (int i = first[p]; i < first[p] + n[p]; i++)
            for (int k = 0; k < o->p->items[i].nops; k++) {
                const struct pdl_plan_op *x =
                    &o->p->ops[o->p->items[i].first_op + k];

                for (int t = 0; t < x->nin; t++)
                    if (ready[x->in[t]] == 0)
                        ready[x->in[t]] = STATE;
                for (int t = 0; t < x->nout; t++)
                    if (ready[x->out[t]] == 0)
                        ready[x->out[t]] = INFINITY;
            }
    for (int t = 0; t < o->p->ntensors; t++)
        if (ready[t] == STATE)
            ready[t] = 0;
}

/* Each way, copies of a micro-batch take no longer than a pipeline's PE has
 * between two of them. */
static void keep_pace(const struct oracle *o, int stage, struct streams *c)
{
    double busy = c->out_busy > c->in_busy ? c->out_busy : c->in_busy;

    if (oracle_in_flight(o, stage) > 1 && busy > c->compute) {
        c->late += busy - c->compute;
        c->compute = busy;
    }
}

static void price_forward(const struct oracle *o, int stage,
                          const struct oracle_ranks *r, struct streams *c,
                          struct stage_time *t, struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];

    oracle_add_items(o, s->first_forward, s->nforward, FORWARD, r, t, c, out);
    t->forward_copy = c->late;
    t->forward_comm +=
        waiting(c->compute, t->forward + t->forward_comm + t->forward_copy);
    t->forward += oracle_host_wait(o, c->compute, t->calls);
    t->calls = 0;
}

/* Backward of a micro-batch that nothing is exchanged beside. */
static bool run_alone(const struct oracle *o, int stage,
                      const struct oracle_ranks *r, const struct streams *c,
                      struct stage_time *t, struct streams *alone,
                      double *split, struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    size_t n = (size_t)o->p->ntensors;

    *alone = *c;
    alone->held = 0;
    alone->ready = PDL_NEW(o->arena, double, n + 1);
    alone->copied = PDL_NEW(o->arena, bool, n + 1);
    if (!alone->ready || !alone->copied)
        return false;
    memcpy(alone->ready, c->ready, n * sizeof *c->ready);
    memcpy(alone->copied, c->copied, n * sizeof *c->copied);
    alone->ahead =
        c->overlap && c->out_busy > 0 && oracle_in_flight(o, stage) > 1;
    oracle_add_items(o, s->first_backward, 1, BACKWARD, r, t, alone, out);
    alone->ahead = false;
    *split = alone->compute;
    oracle_add_items(o, s->first_backward + 1, s->nbackward - 1, BACKWARD, r, t,
                     alone, out);
    keep_pace(o, stage, alone);
    return true;
}

/* Returns when it ends alone, as most micro-batches are. Where copies are
 * waited for, what is exchanged beside it would change that too. */
static double price_backward(const struct oracle *o, int stage,
                             const struct oracle_ranks *r, struct streams *c,
                             struct stage_time *t, struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    double start = c->compute, late = c->late, split, took;
    struct stage_time again = *t, *sum = t;
    struct streams alone = {.late = -1};
    double alone_split = 0;

    if (c->out_busy > 0 && c->held > 0 &&
        run_alone(o, stage, r, c, t, &alone, &alone_split, out))
        sum = &again;
    c->ahead = c->overlap && c->out_busy > 0 && oracle_in_flight(o, stage) > 1;
    oracle_add_items(o, s->first_backward, 1, BACKWARD, r, sum, c, out);
    c->ahead = false;
    split = c->compute - c->slowed;
    oracle_add_items(o, s->first_backward + 1, s->nbackward - 1, BACKWARD, r,
                     sum, c, out);
    keep_pace(o, stage, c);
    took = c->compute - c->slowed - start;
    t->weights = s->nbackward > 1 ? c->compute - c->slowed - split : 0;
    t->backward_copy = c->late - late;
    if (sum != t) {
        took = alone.compute - start;
        t->weights = s->nbackward > 1 ? alone.compute - alone_split : 0;
        t->backward_copy = alone.late - late;
    }
    t->backward_comm +=
        waiting(took, t->backward + t->backward_comm + t->backward_copy);
    t->backward += oracle_host_wait(o, took, t->calls);
    return start + took;
}

static void price_update(const struct oracle *o, int stage,
                         const struct oracle_ranks *r, double backward_end,
                         struct streams *c, struct stage_time *t,
                         struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    double late = c->late;

    oracle_add_items(o, s->first_update, s->nupdate, UPDATE, r, t, c, out);
    if (c->in > c->compute && o->p->strategy->offload_optimizer) {
        c->late += c->in - c->compute;
        c->compute = c->in;
    }
    t->update_copy = c->late - late;
    t->exposed_gradients =
        oracle_exposed(c, backward_end, t->update + t->update_copy);
}

static void price_stage(const struct oracle *all, int stage, double *ready,
                        bool *copied, struct stage_time *t,
                        struct pdl_projection *out)
{
    struct oracle_lane room;
    const struct oracle *o = oracle_on_stage(all, stage, &room);
    struct streams c = {.ready = ready,
                        .copied = copied,
                        .overlap = oracle_overlaps(o),
                        .shares = !oracle_without(o, ORACLE_SHARING),
                        .held = oracle_held(o),
                        .alone = o->record && o->record->alone};
    struct oracle_ranks r;
    double backward_end;

    *t = (struct stage_time){0};
    oracle_find_ranks(o, stage, &r);
    forget(o, &o->p->stages[stage], ready);
    memset(copied, 0, (size_t)o->p->ntensors * sizeof *copied);
    price_forward(o, stage, &r, &c, t, out);
    backward_end = price_backward(o, stage, &r, &c, t, out);
    price_update(o, stage, &r, backward_end, &c, t, out);
}

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

    if (pdl_model_totals(o->p->model, &totals, NULL) != PDL_OK)
        totals.forward_flops = 0;
    out->pes = o->p->mesh->pes;
    out->batch = o->p->batch;
    oracle_fill_rates(o, o->p->model, totals.forward_flops, out);
}

/* FlashAttention 2 uses 35 % of an H100 (Shah et al., FlashAttention-3, 2024:
 * of long rows; what all rows approach is a bit more). What a framework's own
 * kernels use is of an A100; without Hopper's new instructions they have there
 * what FlashAttention 2 has of both (Dao 2023: 335 TFLOP/s for 200): 0.53 of
 * that part. They reach it with heads of 64, too. */
static void older_attention(const struct oracle *o, struct oracle_pe *pe)
{
    const struct pdl_framework *f = o->opt->framework;
    const char *arch = o->sys->pe.arch;
    struct pdl_kernels *k = &pe->k;
    bool hopper = arch && strcmp(arch, "hopper") == 0;
    double old = hopper ? .53 : 1;

    if (f && f->attention_forward > 0) {
        k->attention_forward = f->attention_forward * old;
        k->attention_backward = f->attention_backward * old;
        pe->any_head = true;
    } else if (f && f->flash2 && hopper) {
        k->attention_forward = fmin(k->attention_forward, .37);
        k->attention_backward = fmin(k->attention_backward, .32);
    }
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
    bool eight = o->opt->precision == PDL_PREC_FP8;

    oracle_pe_settle(&o->sys->pe, o->opt->precision, &o->pe);
    if (eight)
        oracle_pe_settle(&o->sys->pe, PDL_PREC_BF16, &o->pe16);
    oracle_leave_out(o, c);
    if (eight)
        o->pe16.flat = o->pe.flat;
    else
        o->pe16 = o->pe;
    older_attention(o, &o->pe16);
    oracle_steps_settle(o);
    o->busy = oracle_busy(o, busy_lanes(o));
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
    struct stage_time t[ORACLE_MAX_STAGES] = {{0}};
    struct oracle_changed changed;
    pdl_arena *a;
    double *ready;
    bool filled, host, *copied;

    if (plan->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (plan->mesh->pes > pdl_system_pes(sys))
        return pdl_fail(err, PDL_EINVAL,
                        "the strategy needs %lld PEs, %s has %lld",
                        (long long)plan->mesh->pes, sys->name,
                        (long long)pdl_system_pes(sys));
    if (oracle_allreduce_known(&o, err) != PDL_OK ||
        oracle_host_known(&o, err) != PDL_OK)
        return PDL_EINVAL;
    oracle_settle(&o, &changed);
    a = o.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    filled = a && oracle_prepare(&o) && oracle_find_order(&o) &&
             oracle_find_again(&o);
    ready = filled ? PDL_NEW(a, double, plan->ntensors + 1) : NULL;
    copied = filled ? PDL_NEW(a, bool, plan->ntensors + 1) : NULL;
    if (!ready || !copied) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    for (int s = 0; s < plan->nstages; s++)
        price_stage(&o, s, ready, copied, &t[s], &x);
    filled =
        in_lock_step(&o) ? fill_lock_step(&o, t, &x) : fill_lanes(&o, t, &x);
    fill_rates(&o, &x);
    filled = filled && oracle_memory(&o, &x);
    host = oracle_host_fits(&o, &x);
    pdl_arena_destroy(a);
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
