/* SPDX-License-Identifier: Apache-2.0
 *
 * Error bars: the interval that holds 80 % of the steps one would measure.
 *
 * Three things are uncertain. The form of the model: how far off projections
 * were of kinds of strategies that a fit had not seen (projection_error of the
 * system). Its parameters: they are off by as much as the posterior of the fit
 * says, several together (uncertainty of the system, written by calibrate
 * --fit; fit_spread.c); the step is priced again with each such move. And parts
 * of the step that no fitted run had (halos, layer collectives between nodes),
 * or that were fitted on another network (computation): a spread of their own.
 * All are taken as independent, so their squares add, in the logarithm of the
 * time.
 *
 * A system that was not fitted to runs has the error of runs like this one, of
 * any machine (evidence.c).
 *
 * Congestion by other jobs is an input with a range: its ends stretch the
 * interval, its middle (of the logarithm) is the projection. */
#include "oracle/measure/measure.h"
#include "oracle/oracle_priv.h"

#include <math.h>
#include <string.h>

bool pdl_memory_tight(const struct pdl_projection *x)
{
    return x->feasible && (double)x->peak_bytes * (1 + PDL_MEMORY_ERROR) >
                              (double)x->capacity_bytes;
}

#define AT(field) offsetof(struct pdl_projection, field)
static const struct pdl_interval_part parts[] = {
    {"time.compute", AT(compute_s)},
    {"time.layer_between_nodes", AT(layer_between_s)},
    {"time.halo", AT(halo_s)},
    {"time.p2p", AT(p2p_s)},
};
#undef AT

const struct pdl_interval_part *pdl_interval_part_at(int i)
{
    return i >= 0 && i < (int)(sizeof parts / sizeof parts[0]) ? &parts[i]
                                                               : NULL;
}

/* The share of the part of that name; negative: there is none such. */
static double share(const char *name, const struct pdl_projection *x)
{
    for (int i = 0; pdl_interval_part_at(i); i++)
        if (strcmp(parts[i].name, name) == 0)
            return *(const double *)(const void *)((const char *)x +
                                                   parts[i].offset) /
                   x->step_s;
    return -1;
}

static const struct pdl_fit_param *param_of(const char *name)
{
    for (int i = 0; pdl_fit_run_param(i); i++)
        if (strcmp(pdl_fit_run_param(i)->name, name) == 0)
            return pdl_fit_run_param(i);
    return NULL;
}

/* Within what a fit may find: an efficiency above 1 is none. */
static void move_one(struct pdl_system *sys, const struct pdl_spread *s)
{
    const struct pdl_fit_param *p = param_of(s->parameter);
    double *v;

    if (!p)
        return;
    v = (double *)(void *)((char *)sys + p->offset);
    if (*v <= 0)
        *v = p->start;
    *v = fmin(fmax(*v * exp(-s->spread), p->low), p->high);
}

/* The step with a parameter off, and with those that are off together. */
static double project_with(const struct pdl_plan *plan,
                           const struct pdl_system *sys,
                           const struct pdl_oracle_options *opt, int64_t first,
                           double fallback)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int64_t move = sys->spreads[first].move;
    struct pdl_system moved = *sys;
    struct pdl_projection y;
    double step = fallback;

    move_one(&moved, &sys->spreads[first]);
    for (int64_t i = first + 1; move > 0 && i < sys->nspreads; i++)
        if (sys->spreads[i].move == move)
            move_one(&moved, &sys->spreads[i]);
    if (a && pdl_system_update(a, &moved, NULL) == PDL_OK &&
        oracle_project(plan, &moved, opt, NULL, &y, NULL) == PDL_OK)
        step = y.step_s;
    pdl_arena_destroy(a);
    return step;
}

static bool is_counted(const struct pdl_system *sys, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (sys->spreads[i].move > 0 &&
            sys->spreads[k].move == sys->spreads[i].move)
            return true;
    return false;
}

static double by_evidence(const struct pdl_plan *plan,
                          const struct pdl_system *sys,
                          const struct pdl_oracle_options *opt)
{
    struct pdl_evidence e;
    char key[192];

    pdl_evidence_key(plan->model, plan->strategy, sys, opt, key, sizeof key);
    pdl_evidence_find(key, opt->left_out, &e);
    return e.half_width;
}

static double half_width(const struct pdl_plan *plan,
                         const struct pdl_system *sys,
                         const struct pdl_oracle_options *opt,
                         const struct pdl_projection *at)
{
    double e = sys->projection_error > 0 ? sys->projection_error
                                         : by_evidence(plan, sys, opt);
    double sum = e * e;

    for (int64_t i = 0; i < sys->nspreads; i++) {
        double part = share(sys->spreads[i].parameter, at), x;

        if (is_counted(sys, i))
            continue;
        x = part >= 0
                ? sys->spreads[i].spread * part
                : log(project_with(plan, sys, opt, i, at->step_s) / at->step_s);
        sum += x * x;
    }
    return sqrt(sum);
}

void pdl_interval(const struct pdl_plan *plan, const struct pdl_system *sys,
                  const struct pdl_oracle_options *opt,
                  struct pdl_projection *x)
{
    struct pdl_oracle_options end = *opt;
    struct pdl_projection y;
    double h;

    if (opt->parameters == PDL_IDEAL || !(x->step_s > 0))
        return;
    h = half_width(plan, sys, opt, x);
    x->low_s = x->step_s * exp(-h);
    x->high_s = x->step_s * exp(h);
    if (!(opt->congestion_low > 0 && opt->congestion_high > 0))
        return;
    end.congestion = opt->congestion_low;
    if (oracle_project(plan, sys, &end, NULL, &y, NULL) == PDL_OK)
        x->low_s = y.step_s * exp(-h);
    end.congestion = opt->congestion_high;
    if (oracle_project(plan, sys, &end, NULL, &y, NULL) == PDL_OK)
        x->high_s = y.step_s * exp(h);
}
