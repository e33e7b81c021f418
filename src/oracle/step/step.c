/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step takes: seconds of its stages, one operation after another and on
 * the streams of a PE, so that gradient exchange hides behind backward where
 * overlap is on; the span of the pipeline's tasks; and what exchange and update
 * show of the lane that takes longest. */
#include "oracle/step/step.h"

#include <math.h>

/* ---- what hides what -------------------------------------------------- */

bool oracle_overlaps(const struct oracle *o, int64_t zero)
{
    const struct pdl_framework *f = o->opt->framework;

    return !o->p->strategy->no_overlap && !o->p->strategy->exchange_paper &&
           !(f && f->no_overlap && !(f->sharded_overlap && zero >= 2));
}

/* A processor moves messages itself: what it computes has to wait. */
double oracle_held(const struct oracle *o, int64_t zero)
{
    if (!oracle_overlaps(o, zero) || o->opt->parameters == PDL_IDEAL ||
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
static double host_wait(const struct oracle *o, double device, double calls)
{
    double host = o->opt->framework && o->opt->parameters != PDL_IDEAL
                      ? calls / ORACLE_CALL * o->opt->framework->issue_s
                      : 0;
    double power = o->waits ? 2 : 5;

    return host > 0 && device > 0
               ? device * (pow(1 + pow(host / device, power), 1 / power) - 1)
               : 0;
}

/* Seconds as the streams and the host's calls let them be, from those one after
 * another. */
static void settle_time(const struct oracle *o, const struct stage_found *f,
                        struct stage_timed *x)
{
    const struct stage_ran *ran = &x->ran;
    struct stage_time *t = &x->time;

    *t = f->sums;
    t->forward_copy = ran->forward_copy;
    t->backward_copy = ran->backward_copy;
    t->forward_comm +=
        waiting(ran->forward, t->forward + t->forward_comm + t->forward_copy);
    t->backward_comm += waiting(
        ran->backward, t->backward + t->backward_comm + t->backward_copy);
    t->weights = ran->weights;
    t->forward += host_wait(o, ran->forward, f->calls[0]);
    t->backward += host_wait(o, ran->backward, f->calls[1]);
    t->calls = 0;
}

/* ---- kinds of stages -------------------------------------------------- */

static struct stage_run run_of(const struct step *c, const struct step_stage *k,
                               bool flying)
{
    const struct oracle_record *record = c->o->record;

    return (struct stage_run){.passes = &k->work->run,
                              .update = k->update ? &k->update->run : NULL,
                              .blocks = k->blocks,
                              .overlap = c->overlap,
                              .shares = !oracle_without(c->o, ORACLE_SHARING),
                              .flying = flying,
                              .alone = record && record->alone,
                              .held = c->overlap ? k->held : 0,
                              .end = c->end,
                              .made = c->made,
                              .slots = k->slots,
                              .back = c->back,
                              .record = c->o->record};
}

static int flights(const struct step_stage *k)
{
    return k->work->shape->copies ? 2 : 1;
}

void oracle_time_kind(struct step *c, struct step_stage *k)
{
    const struct stage_work *w = k->work;
    struct stage_found *f = k->found;
    struct stage_time t = {.forward = 0};

    for (int p = 0; p < PASSES; p++) {
        for (int i = 0; i < w->shape->parts[p]; i++)
            oracle_add_times(
                &t, &w->part[p][i],
                oracle_part_times(w->shape, (enum pass)p, i, k->blocks));
        if (p == PASS_FORWARD)
            f->calls[0] = t.calls;
    }
    f->calls[1] = t.calls - f->calls[0];
    f->sums = t;
    for (int i = 0; i < flights(k); i++) {
        struct stage_timed *x = &f->timed[i];

        *x = (struct stage_timed){
            .ran = {.forward = t.forward + t.forward_comm,
                    .backward = t.backward + t.backward_comm,
                    .weights = t.weights}};
        if (w->shape->copies && !c->runs) {
            struct stage_run run = run_of(c, k, i);

            oracle_run_passes(&run, &x->ran);
        }
        settle_time(c->o, f, x);
    }
}

static struct step_stage *kind_of(const struct step *c, int l, int k)
{
    return &c->stage[c->of[k * c->lanes + l]];
}

/* Stage k of lane l. */
static struct stage_timed *timed_of(const struct step *c, int l, int k)
{
    const struct step_stage *x = kind_of(c, l, k);

    return &x->found->timed[x->work->shape->copies &&
                            c->in_flight[l * c->chunks + k] > 1];
}

/* ---- stages that are run with their update ---------------------------- */

static bool make_room(struct step *c, int64_t steps)
{
    if (steps > c->nend) {
        c->nend = 2 * steps;
        c->end = PDL_NEW(c->arena, double, c->nend);
    }
    return c->end != NULL;
}

static bool keep_made(struct step *c, struct stage_found *f, int i,
                      struct stage_run *run)
{
    if (run->slots > f->nmade[i]) {
        f->made[i] = PDL_NEW(c->arena, double, run->slots);
        f->nmade[i] = f->made[i] ? run->slots : 0;
    }
    run->made = f->made[i];
    return run->made != NULL;
}

/* again: both passes end as they did, with the update before. */
bool oracle_run_kind(struct step *c, struct step_stage *k, bool again)
{
    struct stage_found *f = k->found;

    if (!make_room(c, k->update->run.n + 1))
        return false;
    if (!again)
        oracle_time_kind(c, k);
    for (int i = 0; i < flights(k); i++) {
        struct stage_run run = run_of(c, k, i);
        struct stage_timed *t = &f->timed[i];
        double *copy = &t->copy[c->which];

        if (!keep_made(c, f, i, &run))
            return false;
        t->exposed[c->which] =
            again ? oracle_run_update(&run, &t->ran, &f->ended[i], copy)
                  : oracle_run_stage(&run, &t->ran, &f->ended[i], copy);
        t->shown[c->which] = true;
        if (!again)
            settle_time(c->o, f, t);
    }
    return true;
}

/* May an update change backward? */
static bool exchanges_early(const struct step *c)
{
    bool early = false;

    for (int i = 0; i < c->n; i++)
        early = early || (c->stage[i].update->early && c->overlap &&
                          c->stage[i].held > 0);
    return early;
}

/* Where weights travel, what is exchanged beside backward changes it. */
static bool run_kinds(struct step *c)
{
    bool early, again;

    if (!c->runs || c->ran == c->which)
        return true;
    early = exchanges_early(c);
    again = c->ran >= 0 && !c->early && !early;
    for (int i = 0; i < c->n; i++)
        if (!oracle_run_kind(c, &c->stage[i], again))
            return false;
    c->ran = c->which;
    c->early = early;
    c->span = again ? c->span : -1;
    return true;
}

/* ---- lanes ------------------------------------------------------------ */

static struct stage_time lane_time(const struct step *c, int lane, int chunks)
{
    struct stage_time sum = {.forward = 0};

    for (int k = 0; k < chunks; k++)
        oracle_add_times(&sum, &timed_of(c, lane, k)->time, 1);
    return sum;
}

/* The tasks of a stage include the messages that it waits for. */
static void stage_tasks(const struct stage_time *t, double *forward,
                        double *backward, double *weights)
{
    double back = t->backward + t->backward_comm + t->backward_copy;

    *forward = t->forward + t->forward_comm + t->forward_copy;
    *weights = t->weights < back ? t->weights : back;
    *backward = back - *weights;
}
static void find_span(struct step *c)
{
    double pass[PASSES][ORACLE_MAX_STAGES];

    if (c->span >= 0)
        return;
    for (int l = 0; l < c->lanes; l++)
        for (int k = 0; k < c->chunks; k++) {
            int s = pdl_schedule_stage(c->order->schedule, c->lanes, l, k);

            stage_tasks(&timed_of(c, l, k)->time, &pass[0][s], &pass[1][s],
                        &pass[2][s]);
        }
    c->span = oracle_order_span(
        c->order, (const double *[]){pass[0], pass[1], pass[2]}, c->spans);
}

/* What exchange and the optimizer's copies show of a stage. */
static bool show(struct step *c, const struct step_stage *k, bool flying,
                 struct stage_timed *t)
{
    struct stage_run run;

    if (t->shown[c->which])
        return true;
    if (!make_room(c, k->update->run.n + 1))
        return false;
    run = run_of(c, k, flying);
    run.overlap = true;
    run.held = k->held;
    t->exposed[c->which] = oracle_run_beside(&run, &t->ran, &t->copy[c->which]);
    t->shown[c->which] = true;
    return true;
}

static bool add_update(struct step *c, int l, int k, struct stage_time *sum)
{
    const struct step_stage *v = kind_of(c, l, k);
    const struct stage_exchange *u = v->update;
    struct stage_timed *t = timed_of(c, l, k);
    bool hides = c->runs || c->hides;

    if (hides && !show(c, v, t == &v->found->timed[1], t))
        return false;
    sum->update += u->run.update;
    sum->gradient_comm += u->run.gradient_comm;
    sum->exposed_gradients += hides ? t->exposed[c->which] : u->apart;
    sum->update_copy += hides ? t->copy[c->which] : u->apart_copy;
    return true;
}

/* Exchange and update of a lane, added to it; false: out of memory. */
static bool add_updates(struct step *c, int l, struct stage_time *lane)
{
    for (int k = 0; k < c->chunks; k++)
        if (!add_update(c, l, k, lane))
            return false;
    return true;
}

static bool stage_time(struct step *c, int stage, struct stage_time *out)
{
    int l = pdl_schedule_lane(c->order->schedule, c->lanes, stage);
    int k = stage / c->lanes;

    *out = timed_of(c, l, k)->time;
    return add_update(c, l, k, out);
}

/* What a lane's exchange and update show at most: all of it after backward,
 * which was slowed as much as it can be, kernels by what exchange holds of the
 * PE, collectives (and exchange by them) by half of the adapters. */
static double most_tail(const struct step *c, int l)
{
    double sum = 0;

    for (int k = 0; k < c->chunks; k++) {
        const struct step_stage *v = kind_of(c, l, k);
        const struct stage_time *t = &timed_of(c, l, k)->time;

        sum += v->update->run.all + v->held / (1 - v->held) * t->backward +
               2 * t->backward_comm;
    }
    return sum;
}

/* The lane that takes longest, from its first task to the end of its update;
 * < 0: out of memory. */
static int critical(struct step *c)
{
    double longest = -1;
    int worst = 0;

    for (int l = 0; l < c->lanes; l++) {
        struct stage_time t = {.forward = 0};
        double all;

        if (!c->runs && c->spans[l] + most_tail(c, l) < longest)
            continue;
        if (!add_updates(c, l, &t))
            return -1;
        all = c->spans[l] + (t.exposed_gradients + t.update + t.update_copy);
        if (all > longest) {
            longest = all;
            worst = l;
        }
    }
    return worst;
}

static double contention(const struct step *c)
{
    double most = 0;

    for (int i = 0; i < c->n; i++)
        most = fmax(most, fmax(c->stage[i].work->contention,
                               c->stage[i].update->run.contention));
    return most;
}

/* ---- the step --------------------------------------------------------- */

static double stage_busy(const struct stage_time *t)
{
    return t->forward + t->backward + t->forward_comm + t->backward_comm +
           t->forward_copy + t->backward_copy;
}

/* What input and output add to the rest of the step. */
static double loading(const struct oracle_loading *x, double rest_s)
{
    return x->open_s + (x->load_s > rest_s ? x->load_s - rest_s : 0);
}

static void fill_times(const struct step *c, const struct stage_time *t,
                       double span, struct pdl_projection *out)
{
    double m = (double)c->o->p->micro_batches;
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
    out->bubble_s = span - m * stage_busy(t);
    if (out->bubble_s < 1e-12 * span) /* what rounding leaves */
        out->bubble_s = 0;
    out->step_s = out->compute_s + out->exposed_comm_s + out->bubble_s + copies;
    out->io_s = loading(&c->load, out->step_s);
    out->step_s += out->io_s;
    out->io_s += copies;
}

/* ---- the papers' pipeline --------------------------------------------- */

/* exchange=paper with micro-batches: all stages move in lock step. A slot is
 * as long as the slowest stage's task, and between two slots of a pass all
 * neighbours exchange, as long as the slowest message. One micro-batch is the
 * papers' layer parallelism, which waits instead. */
static bool in_lock_step(const struct oracle *o)
{
    return o->p->strategy->exchange_paper && o->p->nstages > 1 &&
           o->p->micro_batches > 1;
}

/* Every stage as slow as the slowest, messages taken out of the tasks; false:
 * out of memory. */
static bool find_slowest(struct step *c, struct stage_time *out)
{
    for (int s = 0; s < c->o->p->nstages; s++) {
        struct stage_time t;

        if (!stage_time(c, s, &t))
            return false;
        t.forward_comm -= t.forward_send;
        t.backward_comm -= t.backward_send;
        for (int i = 0; i < STAGE_TIMES; i++)
            out->each[i] = fmax(out->each[i], t.each[i]);
    }
    return true;
}

static double span_of(const struct step *c, const struct stage_time *t)
{
    double pass[PASSES][ORACLE_MAX_STAGES];

    for (int s = 0; s < c->o->p->nstages; s++)
        stage_tasks(t, &pass[0][s], &pass[1][s], &pass[2][s]);
    return oracle_order_span(
        c->order, (const double *[]){pass[0], pass[1], pass[2]}, NULL);
}

/* The plan's own schedule says how many slots a pass has. */
static bool fill_lock_step(struct step *c, struct pdl_projection *out)
{
    struct stage_time x = {.forward = 0};
    double slots = span_of(c, &(struct stage_time){.forward = 1}), messages;

    if (!find_slowest(c, &x))
        return false;
    messages = (slots - 1) * (x.forward_send + x.backward_send);
    x.p2p = 0;
    fill_times(c, &x, span_of(c, &x), out);
    out->p2p_s = messages;
    out->comm_s += messages;
    out->exposed_comm_s += messages;
    out->step_s += messages;
    return true;
}

/* ---- all of it -------------------------------------------------------- */

double oracle_step_least(const struct step *c, bool staggered)
{
    double before = 0, least = 0;

    for (int l = 0; l < c->lanes; l++) {
        struct stage_time lane = lane_time(c, l, c->chunks);
        struct stage_time first = lane_time(c, l, 1);

        least = fmax(
            least, before + (double)c->o->p->micro_batches * stage_busy(&lane));
        if (staggered)
            before += stage_busy(&first);
    }
    return least;
}

bool oracle_step_time(struct step *c, struct pdl_projection *out)
{
    struct stage_time lane;
    int worst;

    if (!run_kinds(c))
        return false;
    find_span(c);
    worst = critical(c);
    if (worst < 0)
        return false;
    lane = lane_time(c, worst, c->chunks);
    out->contention = contention(c);
    if (!add_updates(c, worst, &lane))
        return false;
    fill_times(c, &lane, c->spans[worst], out);
    return !in_lock_step(c->o) || fill_lock_step(c, out);
}
