/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage of a plan: every operation priced on representative ranks (the
 * slowest counts: collectives wait for it), and run on the streams of a PE, so
 * that gradient exchange hides behind backward where overlap is on. */
#include "oracle/step/stage.h"

#include <math.h>

bool oracle_overlaps(const struct oracle *o)
{
    return !o->p->strategy->no_overlap && !o->p->strategy->exchange_paper &&
           !(o->opt->framework && o->opt->framework->no_overlap);
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

void oracle_time_stage(const struct oracle *o, const struct stage_ran *ran,
                       const int64_t calls[2], struct stage_time *t)
{
    t->forward_copy = ran->forward_copy;
    t->backward_copy = ran->backward_copy;
    t->forward_comm +=
        waiting(ran->forward, t->forward + t->forward_comm + t->forward_copy);
    t->backward_comm += waiting(
        ran->backward, t->backward + t->backward_comm + t->backward_copy);
    t->weights = ran->weights;
    t->forward += oracle_host_wait(o, ran->forward, calls[0]);
    t->backward += oracle_host_wait(o, ran->backward, calls[1]);
    t->calls = 0;
}

int oracle_pass_items(const struct pdl_plan *p, int first, int n)
{
    int k = n > 0;

    if (p->roll)
        while (k + 1 < n && p->items[first + k].repeat > 1)
            k += 2;
    return k;
}

/* ---- of a whole plan ----------------------------------------------------------- */

/* One stage, its programs and prices; what it lies in is the next one's. */
struct whole {
    const struct oracle *o;
    int stage;
    struct oracle_ranks ranks;
    pdl_arena *arena;
    struct stream_price *price; /* of each operation of the plan */
    struct stage_passes passes;
    struct stage_update update;
    struct stage_time *time;
    int64_t calls[2]; /* of forward and backward */
    int nparts[PASSES];
    double contention;
};

/* An item, or those of a pass that no part of is repeated, with prices. */
static bool write_part(struct whole *w, struct program *p, enum pass pass,
                       int first, int n)
{
    const struct pdl_plan_item *it = &w->o->p->items[first];
    enum phase phase = pass == PASS_FORWARD ? FORWARD : BACKWARD;
    struct stage_passes *x = &w->passes;
    int at = w->nparts[pass]++;
    struct stage_time one = {0};
    struct stream_list list;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < it[i].nops; k++)
            oracle_price_stream(w->o, it[i].first_op + k, phase, &w->ranks,
                                &w->price[it[i].first_op + k]);
    if (!oracle_program_part(p, phase, first, n, 0, &list) ||
        !oracle_price_list(w->arena, &list, p->all, w->price,
                           &x->list[pass][at]))
        return false;
    x->times[pass][at] = n == 1 && it->repeat > 1 ? it->repeat : 1;
    x->parts = w->nparts[pass] > x->parts ? w->nparts[pass] : x->parts;
    oracle_add_list(&list, phase == BACKWARD, w->price, &one, &w->contention);
    oracle_add_times(w->time, &one, x->times[pass][at]);
    w->calls[phase] += one.calls * x->times[pass][at];
    return true;
}

/* Items of a rolled plan are parts. */
static bool write_pass(struct whole *w, struct program *p, enum pass pass,
                       int first, int n)
{
    if (!w->o->p->roll)
        return write_part(w, p, pass, first, n);
    for (int i = 0; i < n; i++)
        if (!write_part(w, p, pass, first + i, 1))
            return false;
    return true;
}

static bool write_passes(struct whole *w, struct program *p)
{
    const struct pdl_plan_stage *s = &w->o->p->stages[w->stage];
    struct stage_passes *x = &w->passes;
    int n = oracle_pass_items(w->o->p, s->first_backward, s->nbackward);

    x->split = n < s->nbackward;
    if (!write_pass(w, p, PASS_FORWARD, s->first_forward, s->nforward))
        return false;
    x->copies = p->count[ON_OUT] > 0;
    if (!write_pass(w, p, PASS_BACKWARD, s->first_backward, n) ||
        (x->split &&
         !write_pass(w, p, PASS_LATE, s->first_backward + n, s->nbackward - n)))
        return false;
    x->back = p->back;
    return true;
}

static bool write_update(struct whole *w, struct program *p)
{
    struct stage_update *u = &w->update;
    struct stream_step *steps;
    int first, n;

    oracle_update_ops(w->o->p, w->stage, &first, &n);
    for (int i = first; i < first + n; i++)
        oracle_price_stream(w->o, i, UPDATE, &w->ranks, &w->price[i]);
    steps = PDL_NEW(w->arena, struct stream_step,
                    oracle_update_steps(w->o->p, w->stage) + 1);
    u->n = steps ? oracle_program_update(p, steps) : -1;
    u->steps = steps;
    u->price = w->price;
    u->optimizer = w->o->p->strategy->offload_optimizer;
    if (u->n >= 0)
        oracle_add_steps(u);
    w->contention = fmax(w->contention, u->contention);
    return u->n >= 0;
}

/* Memory for running it; false: there is none. */
static bool make_run(const struct whole *w, struct stage_run *x)
{
    const struct oracle *o = w->o;
    int64_t tensors =
        o->rounds ? pdl_plan_rounds_tensors(o->rounds) : o->p->ntensors;

    *x = (struct stage_run){
        .passes = &w->passes,
        .update = &w->update,
        .blocks = 1,
        .overlap = oracle_overlaps(o),
        .shares = !oracle_without(o, ORACLE_SHARING),
        .flying = o->order && oracle_in_flight(o, w->stage) > 1,
        .alone = o->record && o->record->alone,
        .held = oracle_held(o),
        .end = PDL_NEW(w->arena, double, w->update.n + 1),
        .made = PDL_NEW(w->arena, double, tensors + 1),
        .slots = tensors,
        .back = PDL_NEW(w->arena, double, oracle_run_back(&w->passes)),
        .record = o->record};
    return x->end && x->made && x->back;
}

static bool price_stage(struct whole *w)
{
    struct program p = {.o = w->o,
                        .keep = w->arena,
                        .scratch = w->arena,
                        .all = w->o->record != NULL,
                        .repeats = w->o->p->roll != NULL,
                        .stage = w->stage};
    struct stage_time *t = w->time;
    struct stage_run run;
    struct stage_ran ran;
    struct streams end;

    oracle_find_ranks(w->o, w->stage, &w->ranks);
    *t = (struct stage_time){0};
    if (!oracle_program_begin(&p) || !write_passes(w, &p) ||
        !write_update(w, &p) || !make_run(w, &run))
        return false;
    t->update = w->update.update;
    t->gradient_comm = w->update.gradient_comm;
    t->exposed_gradients = oracle_run_stage(&run, &ran, &end, &t->update_copy);
    oracle_time_stage(w->o, &ran, w->calls, t);
    return true;
}

bool oracle_price_stages(const struct oracle *o, struct stage_time *t,
                         double *contention)
{
    struct stream_price *price =
        PDL_NEW(o->arena, struct stream_price, o->p->nops + 1);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    bool ok = price && a;

    for (int s = 0; ok && s < o->p->nstages; s++) {
        struct oracle_lane room;
        struct whole w = {.o = oracle_on_stage(o, s, &room),
                          .stage = s,
                          .arena = a,
                          .price = price,
                          .time = &t[s]};

        pdl_arena_reset(a);
        ok = price_stage(&w);
        *contention = fmax(*contention, w.contention);
    }
    pdl_arena_destroy(a);
    return ok;
}

double oracle_forward_s(const struct pdl_plan *plan,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt};
    struct oracle_changed changed;
    struct stage_time t = {0};
    struct stage_ran ran = {.forward = -1};
    struct stage_run run;
    struct whole w = {.o = &o, .time = &t};
    struct program p = {.o = &o};
    const struct pdl_plan_stage *s = &plan->stages[0];

    oracle_pe_settle(&sys->pe, opt->precision, &o.pe);
    oracle_leave_out(&o, &changed);
    o.arena = w.arena = p.keep = p.scratch =
        pdl_arena_create(PDL_ARENA_DEFAULT);
    if (o.arena && oracle_prepare(&o) && oracle_program_begin(&p) &&
        (w.price = PDL_NEW(o.arena, struct stream_price, plan->nops + 1))) {
        oracle_find_ranks(&o, 0, &w.ranks);
        if (write_pass(&w, &p, PASS_FORWARD, s->first_forward, s->nforward) &&
            (w.passes.back = p.back, make_run(&w, &run))) {
            run.overlap = false;
            oracle_run_passes(&run, &ran);
        }
    }
    pdl_arena_destroy(o.arena);
    return ran.forward;
}
