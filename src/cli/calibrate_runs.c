/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate --fit with a file of training steps: the parameters of a system
 * that such runs identify, and how far off projections are of kinds of
 * strategies that were left out. */
#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fitting {
    struct cli_measured *m;
    struct cli_runs *runs;
    const char *without; /* axes left out; NULL: none */
};

static double square(double x)
{
    return x * x;
}

/* The step counts as much as its two parts, where they were measured: the
 * sum alone cannot tell a slow device from a slow network. */
static double off(const struct cli_run *r, const struct pdl_projection *x)
{
    double step = square(log(x->step_s / r->run->step_s));

    if (!(r->run->compute_s > 0 && r->run->comm_s > 0))
        return step;
    return (2 * step + square(log(x->compute_s / r->run->compute_s)) +
            square(log((x->comm_s + x->io_s) / r->run->comm_s))) /
           4;
}

/* Each run on its own size of the machine, with the parameters under trial. */
static bool try_run(const struct pdl_system *sys, const struct cli_run *r,
                    struct pdl_projection *x)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system trial = *sys;
    bool ok;

    trial.nodes = r->job->sys.nodes;
    ok = a && pdl_system_update(a, &trial, NULL) == PDL_OK &&
         pdl_project(r->job->plan, &trial, &r->job->oracle, x, NULL) == PDL_OK;
    pdl_arena_destroy(a);
    return ok;
}

static double runs_cost(const struct pdl_system *sys, void *ctx)
{
    struct fitting *f = ctx;
    double sum = 0;
    int n = 0;

    for (int i = 0; i < f->runs->n; i++) {
        const struct cli_run *r = &f->runs->run[i];
        struct pdl_projection x;

        if (f->without && strcmp(f->without, r->run->axes) == 0)
            continue;
        if (!try_run(sys, r, &x))
            return INFINITY;
        sum += off(r, &x);
        n++;
    }
    return n > 0 ? sqrt(sum / n) : INFINITY;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* How far projections are off for strategies that a fit has not seen: each
 * kind is left out once. 0 when there is only one. */
static double held_out_error(struct cli_measured *m,
                             const struct pdl_system *base, struct cli_runs *s,
                             const struct cli_fit *fit)
{
    double *e = PDL_NEW(m->a, double, s->n + 1);
    int n = 0;

    for (int i = 0; e && i < s->n; i++) {
        struct fitting f = {m, s, s->run[i].run->axes};
        struct pdl_system sys = *base;
        struct pdl_fit_result ignored;
        bool again = false;

        for (int k = 0; k < i; k++)
            again = again || strcmp(s->run[k].run->axes, f.without) == 0;
        if (again)
            continue;
        pdl_fit_system(&sys, fit->param, fit->n, runs_cost, &f, s->n, &ignored);
        if (!isfinite(ignored.after))
            return 0; /* nothing is left to fit */
        for (int k = i; k < s->n; k++) {
            struct pdl_projection x;

            if (strcmp(s->run[k].run->axes, f.without) == 0 &&
                try_run(&sys, &s->run[k], &x))
                e[n++] = fabs(log(x.step_s / s->measured[k]));
        }
    }
    if (n == 0)
        return 0;
    qsort(e, (size_t)n, sizeof *e, by_size);
    return e[(n * 8 - 1) / 10];
}

/* Networks that were not fitted: the sum of the convolutions of one was off by
 * at most this in 80 % of 19 cases each (ResNet-50's layers, whole and split,
 * on an H200 with a model fitted to VGG-16's), in 32 bits and in 16. A part
 * that no fitted run had: as far off as the start of a parameter is. */
static const double OTHER_NETWORK_32 = .09, OTHER_NETWORK_16 = .19;
static const double EXERCISED = .03; /* of a step */

static double other_network(const struct cli_runs *s)
{
    bool wide = true;

    for (int i = 0; i < s->n; i++) {
        enum pdl_precision p = s->run[i].job->oracle.precision;

        wide = wide && (p == PDL_PREC_FP32 || p == PDL_PREC_FP64);
    }
    return wide ? OTHER_NETWORK_32 : OTHER_NETWORK_16;
}

static double largest_share(const struct cli_runs *s, const struct pdl_part *p)
{
    double most = 0;

    for (int i = 0; i < s->n; i++) {
        const char *x = (const char *)&s->run[i].job->x;
        double part = *(const double *)(const void *)(x + p->offset) /
                      s->run[i].job->x.step_s;

        most = part > most ? part : most;
    }
    return most;
}

/* What the fit knows of its parameters and of the parts of a step, into the
 * system. */
static enum pdl_status keep_spreads(struct cli_measured *m,
                                    struct pdl_system *sys,
                                    const struct cli_runs *s,
                                    const struct cli_fit *fit,
                                    struct pdl_err *err)
{
    int most = fit->n, n = 0;
    struct pdl_spread *list;

    while (pdl_part_at(most - fit->n))
        most++;
    list = PDL_NEW(m->a, struct pdl_spread, most);
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < fit->n; i++)
        list[n++] =
            (struct pdl_spread){fit->param[i].name, fit->result.spread[i]};
    for (int i = 0; pdl_part_at(i); i++) {
        const struct pdl_part *p = pdl_part_at(i);
        bool seen = largest_share(s, p) >= EXERCISED;

        if (!seen || i == 0)
            list[n++] = (struct pdl_spread){
                p->name, seen ? other_network(s) : fit->result.prior};
    }
    sys->spreads = list;
    sys->nspreads = n;
    return pdl_system_update(m->a, sys, err);
}

/* What the fit leaves of each run. */
static enum pdl_status keep_residuals(struct cli_measured *m,
                                      const struct pdl_system *sys,
                                      const struct cli_runs *s,
                                      struct cli_fit *fit, struct pdl_err *err)
{
    fit->residual = PDL_NEW(m->a, struct cli_residual, s->n + 1);
    if (!fit->residual)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < s->n; i++) {
        struct pdl_projection x = {.step_s = NAN};

        try_run(sys, &s->run[i], &x);
        fit->residual[i] =
            (struct cli_residual){s->run[i].run->id, s->run[i].run->strategy,
                                  x.step_s / s->measured[i] - 1};
    }
    return PDL_OK;
}

enum pdl_status cli_fit_runs(struct cli_measured *m, struct pdl_system *sys,
                             struct cli_fit *fit, struct pdl_err *err)
{
    struct cli_runs s;
    struct fitting f = {m, &s, NULL};
    enum pdl_status st = cli_runs_read(m, true, &s, err);

    if (st != PDL_OK)
        return st;
    if (s.n == 0)
        return pdl_fail(err, PDL_EINVAL, "%s: no run could be projected",
                        m->file);
    fit->param = pdl_fit_run_param(0);
    while (fit->n < PDL_FIT_MAX && pdl_fit_run_param(fit->n))
        fit->n++;
    fit->rows = s.n;
    sys->projection_error = held_out_error(m, sys, &s, fit);
    fit->held_out = sys->projection_error;
    pdl_fit_system(sys, fit->param, fit->n, runs_cost, &f, s.n, &fit->result);
    st = keep_residuals(m, sys, &s, fit, err);
    return st == PDL_OK ? keep_spreads(m, sys, &s, fit, err) : st;
}
