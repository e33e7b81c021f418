/* SPDX-License-Identifier: Apache-2.0
 *
 * Error bars: the interval that holds 80 % of the steps one would measure.
 *
 * Three things are uncertain. The form of the model: how far off projections
 * were of kinds of strategies that a fit had not seen (projection_error of the
 * system). And its parameters: each is off by up to a factor exp(spread) in
 * 80 % of cases (uncertainty of the system, written by calibrate --fit: what
 * was known before and what the rows say, fit.c); the step is priced again
 * with each moved by that much. And parts of the step that no fitted run had
 * (halos, layer collectives between nodes), or that were fitted on another
 * network (computation): a spread of their own. All are taken as independent,
 * so their squares add, in the logarithm of the time. (Parameters that the rows
 * can only tell apart together are a little less certain than that.)
 *
 * A system that was not fitted to runs has only a stated guess.
 *
 * Congestion by other jobs is an input with a range: its ends stretch the
 * interval, its middle (of the logarithm) is the projection. */
#include "oracle_priv.h"

#include <math.h>
#include <string.h>

/* Without a fit: 80 % of 309 published runs of other machines (doc/accuracy.md)
 * are within exp(0.126) of their projections. The form of the model was
 * settled with these runs in view, so somewhat more is to be expected
 * elsewhere. */
static const double GUESS_ERROR = .145;

#define AT(field) offsetof(struct pdl_projection, field)
static const struct pdl_part parts[] = {
    {"time.compute", AT(compute_s)},
    {"time.layer_between_nodes", AT(layer_between_s)},
    {"time.halo", AT(halo_s)},
    {"time.p2p", AT(p2p_s)},
};
#undef AT

const struct pdl_part *pdl_part_at(int i)
{
    return i >= 0 && i < (int)(sizeof parts / sizeof parts[0]) ? &parts[i]
                                                               : NULL;
}

/* The share of the part of that name; negative: there is none such. */
static double share(const char *name, const struct pdl_projection *x)
{
    for (int i = 0; pdl_part_at(i); i++)
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

static double project_with(const struct pdl_plan *plan,
                           const struct pdl_system *sys,
                           const struct pdl_oracle_options *opt,
                           const struct pdl_spread *s, double fallback)
{
    const struct pdl_fit_param *p = param_of(s->parameter);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system moved = *sys;
    struct pdl_projection y;
    double step = fallback, *v;

    if (p && a) {
        v = (double *)(void *)((char *)&moved + p->offset);
        if (*v <= 0)
            *v = p->start;
        *v *= exp(-s->spread); /* up might leave what is possible */
        if (pdl_system_update(a, &moved, NULL) == PDL_OK &&
            oracle_project(plan, &moved, opt, NULL, &y, NULL) == PDL_OK)
            step = y.step_s;
    }
    pdl_arena_destroy(a);
    return step;
}

static double half_width(const struct pdl_plan *plan,
                         const struct pdl_system *sys,
                         const struct pdl_oracle_options *opt,
                         const struct pdl_projection *at)
{
    double e = sys->projection_error > 0 ? sys->projection_error : GUESS_ERROR;
    double sum = e * e;

    for (int64_t i = 0; i < sys->nspreads; i++) {
        const struct pdl_spread *s = &sys->spreads[i];
        double part = share(s->parameter, at);
        double x =
            part >= 0
                ? s->spread * part
                : log(project_with(plan, sys, opt, s, at->step_s) / at->step_s);

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
