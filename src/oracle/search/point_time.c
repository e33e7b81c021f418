/* SPDX-License-Identifier: Apache-2.0
 *
 * What a point takes: the span of its pipeline, and what exchange and update
 * show of the lane that takes longest. */
#include "oracle/search/point_priv.h"

#include <math.h>

/* ---- time ---------------------------------------------------------------------------- */

static bool make_room(struct oracle_pricer *c, int64_t steps)
{
    if (steps > c->steps) {
        c->steps = 2 * steps;
        c->end = PDL_NEW(c->arena, double, c->steps);
    }
    return c->end != NULL;
}

static bool find_span(struct oracle_pricer *c)
{
    const struct split *s = c->split;
    const struct oracle_order *o;
    int64_t p = c->mesh.pipe;

    if (c->span >= 0)
        return true;
    o = oracle_point_order(c, false);
    for (int64_t k = 0; o && k < p * s->chunks; k++) {
        const struct stage_time *t = &oracle_timed_of(c, k % p, k / p)->time;
        int64_t i = oracle_stage_of(c, k % p, k / p);

        c->forward[i] = t->forward + t->forward_comm + t->forward_copy;
        c->backward[i] = t->backward + t->backward_comm + t->backward_copy;
        c->weights[i] = fmin(t->weights, c->backward[i]);
        c->backward[i] -= c->weights[i];
    }
    if (o)
        c->span = oracle_order_span(
            o, (const double *[]){c->forward, c->backward, c->weights},
            c->spans);
    return o != NULL;
}

/* A stage in which weights travel, run with its update. */
static bool run_stage(struct oracle_pricer *c, const struct oracle_point *x,
                      struct class *k, bool again)
{
    const struct stage_exchange *u = k->update[x->zero][x->optimizer];
    struct passes *p = k->passes;

    for (int f = 0; f < (k->work->shape->copies ? 2 : 1); f++) {
        struct stage_run run = oracle_run_of(c, k, f);
        struct timed *t = &p->timed[f];
        double *copy = &t->copy[x->zero][x->optimizer];

        if (run.slots > p->nmade[f]) {
            p->made[f] = PDL_NEW(c->arena, double, run.slots);
            p->nmade[f] = p->made[f] ? run.slots : 0;
        }
        run.made = p->made[f];
        run.update = &u->run;
        if (!run.made)
            return false;
        t->exposed[x->zero][x->optimizer] =
            again ? oracle_run_update(&run, &t->ran, &p->ended[f], copy)
                  : oracle_run_stage(&run, &t->ran, &p->ended[f], copy);
        t->shown[x->zero][x->optimizer] = true;
        if (again)
            continue;
        t->time = p->sums;
        oracle_time_stage(&c->lite, &t->ran, p->calls, &t->time);
    }
    return true;
}

/* May an update change backward? */
static bool exchanges_early(const struct oracle_pricer *c,
                            const struct oracle_point *x)
{
    bool early = false;

    for (int i = 0; i < c->split->nclasses; i++)
        early =
            early || c->split->classes[i].update[x->zero][x->optimizer]->early;
    return early && c->overlap && c->held > 0;
}

/* Stages in which weights travel, run with their update: what is exchanged
 * beside backward changes it. */
static bool run_stages(struct oracle_pricer *c, const struct oracle_point *x,
                       struct pdl_err *err)
{
    struct split *s = c->split;
    bool early, again;

    if (!c->traffic || (c->ran && c->optimizer == x->optimizer))
        return true;
    early = exchanges_early(c, x);
    again = c->ran && !c->early && !early;
    for (int i = 0; i < s->nclasses; i++) {
        struct class *k = &s->classes[i];

        if (!make_room(c, k->update[x->zero][x->optimizer]->run.n + 1) ||
            oracle_mesh_price(c->pieces, k->works, err) != PDL_OK)
            return false;
        if (!again)
            oracle_time_class(c, k);
        if (!run_stage(c, x, k, again))
            return false;
    }
    c->ran = true;
    c->early = early;
    c->optimizer = x->optimizer;
    c->span = again ? c->span : -1;
    return true;
}

/* What exchange and the optimizer's copies show of a stage. */
static bool show(struct oracle_pricer *c, const struct oracle_point *x,
                 const struct class *k, bool flying, struct timed *t)
{
    int z = x->zero, o = x->optimizer;
    const struct stage_exchange *u = k->update[z][o];
    struct stage_run run;

    if (t->shown[z][o])
        return true;
    if (!make_room(c, u->run.n + 1))
        return false;
    run = oracle_run_of(c, k, flying);
    run.overlap = true;
    run.held = c->held;
    run.update = &u->run;
    t->exposed[z][o] = oracle_run_beside(&run, &t->ran, &t->copy[z][o]);
    t->shown[z][o] = true;
    return true;
}

/* Exchange and update of a lane, added to it; false: out of memory. */
static bool add_update(struct oracle_pricer *c, const struct oracle_point *x,
                       int64_t l, struct stage_time *lane)
{
    const struct split *s = c->split;
    bool hides = c->traffic || oracle_point_overlaps(c, x);

    for (int64_t k = 0; k < s->chunks; k++) {
        const struct class *v = &s->classes[s->of[k * c->mesh.pipe + l]];
        const struct stage_exchange *u = v->update[x->zero][x->optimizer];
        struct timed *t = oracle_timed_of(c, l, k);

        if (hides && !show(c, x, v, t == &v->passes->timed[1], t))
            return false;
        lane->update += u->run.update;
        lane->gradient_comm += u->run.gradient_comm;
        lane->exposed_gradients +=
            hides ? t->exposed[x->zero][x->optimizer] : u->apart;
        lane->update_copy +=
            hides ? t->copy[x->zero][x->optimizer] : u->apart_copy;
    }
    return true;
}

/* What a lane's exchange and update show at most: all of it after backward,
 * which was slowed as much as it can be, kernels by what exchange holds of the
 * PE, collectives (and exchange by them) by half of the adapters. */
static double most_tail(const struct oracle_pricer *c,
                        const struct oracle_point *x, int64_t l)
{
    const struct split *s = c->split;
    double slower = c->held / (1 - c->held), sum = 0;

    for (int64_t k = 0; k < s->chunks; k++) {
        const struct class *v = &s->classes[s->of[k * c->mesh.pipe + l]];
        const struct stage_time *t = &oracle_timed_of(c, l, k)->time;

        sum += v->update[x->zero][x->optimizer]->run.all +
               slower * t->backward + 2 * t->backward_comm;
    }
    return sum;
}

/* The lane that takes longest, as project.c has it; < 0: out of memory. */
static int64_t critical(struct oracle_pricer *c, const struct oracle_point *x)
{
    double longest = -1;
    int64_t worst = 0;

    for (int64_t l = 0; l < c->mesh.pipe; l++) {
        struct stage_time tail = {0};

        if (!c->traffic && c->spans[l] + most_tail(c, x, l) < longest)
            continue;
        if (!add_update(c, x, l, &tail))
            return -1;
        if (c->spans[l] + oracle_stage_tail(&tail) > longest) {
            longest = c->spans[l] + oracle_stage_tail(&tail);
            worst = l;
        }
    }
    return worst;
}

enum pdl_status oracle_point_time(struct oracle_pricer *c,
                                  const struct oracle_point *x,
                                  struct pdl_projection *out,
                                  struct pdl_err *err)
{
    const struct split *s = c->split;
    struct stage_time lane;
    int64_t worst = run_stages(c, x, err) && find_span(c) ? critical(c, x) : -1;

    if (worst < 0)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    lane = oracle_lane_time(c, worst);
    add_update(c, x, worst, &lane);
    out->contention = 0;
    for (int i = 0; i < s->nclasses; i++) {
        const struct class *k = &s->classes[i];

        out->contention =
            fmax(out->contention,
                 fmax(k->work->contention,
                      k->update[x->zero][x->optimizer]->run.contention));
    }
    oracle_fill_times(c->micro_batches, &lane, c->spans[worst], &c->load, out);
    out->pes = oracle_point_pes(&c->mesh);
    out->batch = c->f->plan.batch;
    oracle_fill_rates(&c->lite, c->f->model, c->f->forward_flops, out);
    return PDL_OK;
}

enum pdl_status oracle_point_price(struct oracle_pricer *c,
                                   const struct oracle_point *x,
                                   struct pdl_projection *out,
                                   struct pdl_err *err)
{
    double least;
    enum pdl_status st = oracle_point_memory(c, x, out, &least, err);

    return st == PDL_OK ? oracle_point_time(c, x, out, err) : st;
}
