/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate --fit with a file of training steps: the parameters of a system
 * that such runs identify, and how far off projections are of kinds of
 * strategies that were left out. */
#include "cli/questions/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fitting {
    const struct cli_runs *runs;
    const char *const *group; /* of each run */
    const char *without;      /* the group left out; NULL: none */
    const int *same;          /* of each run: the first with its plan */
    struct pdl_projection *x; /* of those */
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
        struct pdl_projection *x = &f->x[f->same[i]];

        if (f->same[i] == i)
            x->step_s = 0;
        if (f->without && strcmp(f->without, f->group[i]) == 0)
            continue;
        if (!(x->step_s > 0) && !try_run(sys, r, x))
            return INFINITY;
        sum += off(r, x);
        n++;
    }
    return n > 0 ? sqrt(sum / n) : INFINITY;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_job(const struct pdl_run *a, const struct pdl_run *b)
{
    return same_text(a->model, b->model) && same_text(a->system, b->system) &&
           same_text(a->strategy, b->strategy) && a->batch == b->batch &&
           same_text(a->precision, b->precision) &&
           same_text(a->optimizer, b->optimizer) &&
           same_text(a->framework, b->framework) &&
           same_text(a->attention, b->attention) &&
           same_text(a->dropout, b->dropout) &&
           same_text(a->gradient_dtype, b->gradient_dtype) &&
           a->compile == b->compile && a->async_tensor == b->async_tensor;
}

/* Runs that were measured twice are projected once. */
static enum pdl_status find_same(pdl_arena *a, struct fitting *f,
                                 struct pdl_err *err)
{
    const struct cli_runs *s = f->runs;
    int *same = PDL_NEW(a, int, s->n + 1);

    f->x = PDL_NEW(a, struct pdl_projection, s->n + 1);
    if (!same || !f->x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < s->n; i++)
        for (same[i] = 0; same[i] < i; same[i]++)
            if (same_job(s->run[same[i]].run, s->run[i].run))
                break;
    f->same = same;
    return PDL_OK;
}

/* ---- groups of runs left out ------------------------------------------- */

static const char *group_of(pdl_arena *a, const struct cli_runs *s, int i,
                            const char *key)
{
    char buf[24];

    if (strcmp(key, "kind") == 0)
        return s->run[i].run->axes;
    if (strcmp(key, "run") == 0)
        return s->run[i].run->id;
    snprintf(buf, sizeof buf, "%lld", (long long)s->pes[i]);
    return pdl_arena_strdup(a, buf);
}

/* Which runs are left out together: of a kind of strategies, on as many PEs,
 * or each run by itself. */
static const char *const *group_runs(pdl_arena *a, const struct cli_runs *s,
                                     const char *key)
{
    const char **group = PDL_NEW(a, const char *, s->n + 1);

    for (int i = 0; group && i < s->n; i++) {
        group[i] = group_of(a, s, i, key);
        if (!group[i])
            return NULL;
    }
    return group;
}

static bool first_of_group(const struct fitting *f, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(f->group[k], f->group[i]) == 0)
            return false;
    return true;
}

/* Every group is left out once, the rest is fitted from the starts (the values
 * of the base have seen the group), and the group is projected. NAN: of a run
 * that could not be. */
static enum pdl_status project_left_out(struct cli_measured *m,
                                        const struct pdl_system *base,
                                        const struct cli_runs *s,
                                        const char *key, struct cli_fit *fit,
                                        double *off, struct pdl_err *err)
{
    struct fitting f = {.runs = s, .group = group_runs(m->a, s, key)};

    if (!f.group || find_same(m->a, &f, err) != PDL_OK)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < s->n; i++) {
        struct pdl_system sys = *base;
        struct pdl_fit_result ignored;

        if (!first_of_group(&f, i))
            continue;
        f.without = f.group[i];
        pdl_fit_reset(&sys, fit->param, fit->n);
        pdl_fit_system(&sys, fit->param, fit->n, runs_cost, &f, s->n, true,
                       &ignored);
        for (int k = i; k < s->n; k++) {
            struct pdl_projection x;

            if (strcmp(f.group[k], f.without) != 0)
                continue;
            off[k] = isfinite(ignored.after) && try_run(&sys, &s->run[k], &x)
                         ? x.step_s / s->measured[k] - 1
                         : NAN;
        }
    }
    return PDL_OK;
}

/* 90 % of Student's distribution with 1, 2, ... degrees of freedom are below;
 * 80 % are within. */
static double student(int n)
{
    static const double t[] = {3.078, 1.886, 1.638, 1.533, 1.476, 1.440};
    int last = (int)(sizeof t / sizeof t[0]);

    if (n < 1)
        return 0;
    return n <= last ? t[n - 1] : PDL_IN_80_PERCENT * (1 + .75 / n);
}

/* The error of a kind of strategies that a fit has not seen: each kind is one
 * sample of it, however many runs it has, so few of them say less (Student).
 * How far measurements scatter is in it. */
static double error_of_kinds(const struct fitting *f, const double *off, int n)
{
    double sum = 0;
    int kinds = 0;

    for (int i = 0; i < n; i++) {
        double square_sum = 0;
        int runs = 0;

        if (!first_of_group(f, i))
            continue;
        for (int k = i; k < n; k++)
            if (strcmp(f->group[k], f->group[i]) == 0) {
                square_sum += square(log(1 + off[k]));
                runs++;
            }
        sum += square_sum / runs;
        kinds++;
    }
    return kinds > 0 ? student(kinds) * sqrt(sum / kinds) : 0;
}

/* 0 when there is only one kind. */
static enum pdl_status held_out_error(struct cli_measured *m,
                                      const struct pdl_system *base,
                                      const struct cli_runs *s,
                                      struct cli_fit *fit, struct pdl_err *err)
{
    struct fitting f = {.runs = s, .group = group_runs(m->a, s, "kind")};
    enum pdl_status st;

    fit->kind_off = PDL_NEW(m->a, double, s->n + 1);
    if (!f.group || !fit->kind_off)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = project_left_out(m, base, s, "kind", fit, fit->kind_off, err);
    for (int i = 0; st == PDL_OK && i < s->n; i++)
        if (isnan(fit->kind_off[i]))
            return PDL_OK; /* nothing was left to fit */
    if (st == PDL_OK)
        fit->held_out = error_of_kinds(&f, fit->kind_off, s->n);
    return st;
}

/* Networks that were not fitted: the sum of the convolutions of one was off by
 * at most this in 80 % of 19 cases each (ResNet-50's layers, whole and split,
 * on an H200 with a model fitted to VGG-16's), in 32 bits and in 16. A part
 * that no fitted run had: as far off as the start of a parameter may be. */
static const double OTHER_NETWORK_32 = .09, OTHER_NETWORK_16 = .19;
static const double EXERCISED = .03; /* of a step */
static const double SMALL_MOVE = .003;

static double other_network(const struct cli_runs *s)
{
    bool wide = true;

    for (int i = 0; i < s->n; i++) {
        enum pdl_precision p = s->run[i].job->oracle.precision;

        wide = wide && (p == PDL_PREC_FP32 || p == PDL_PREC_FP64);
    }
    return wide ? OTHER_NETWORK_32 : OTHER_NETWORK_16;
}

static double largest_share(const struct cli_runs *s,
                            const struct pdl_interval_part *p)
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

/* Three digits: more would only look exact. */
static double rounded(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.3g", v);
    return strtod(text, NULL);
}

static void add_moves(const struct cli_fit *fit, const struct pdl_fit_moves *x,
                      struct pdl_spread *list, int *n)
{
    for (int k = 0; k < fit->n; k++)
        for (int i = 0; i <= k; i++)
            if (i == k || fabs(x->move[k][i]) >= SMALL_MOVE)
                list[(*n)++] = (struct pdl_spread){
                    fit->param[i].name, rounded(x->move[k][i]), k + 1};
}

/* What the fit knows of its parameters and of the parts of a step, into the
 * system. */
static enum pdl_status keep_spreads(struct cli_measured *m,
                                    struct pdl_system *sys, struct fitting *f,
                                    const struct cli_fit *fit,
                                    struct pdl_err *err)
{
    const struct cli_runs *s = f->runs;
    struct pdl_fit_moves *moves = PDL_NEW(m->a, struct pdl_fit_moves, 1);
    int most = fit->n * (fit->n + 1) / 2, parts = 0, n = 0;
    struct pdl_spread *list;

    while (pdl_interval_part_at(parts))
        parts++;
    list = PDL_NEW(m->a, struct pdl_spread, most + parts);
    if (!list || !moves)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    pdl_fit_moves(sys, fit->param, fit->n, runs_cost, f, s->n, moves);
    add_moves(fit, moves, list, &n);
    for (int i = 0; i < parts; i++) {
        const struct pdl_interval_part *p = pdl_interval_part_at(i);
        bool seen = largest_share(s, p) >= EXERCISED;

        if (!seen || i == 0)
            list[n++] = (struct pdl_spread){
                p->name,
                seen ? other_network(s) : rounded(log(PDL_PRIOR_FACTOR)), 0};
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
    double *left = fit->leave_out ? PDL_NEW(m->a, double, s->n + 1) : NULL;

    fit->residual = PDL_NEW(m->a, struct cli_residual, s->n + 1);
    if (!fit->residual || (fit->leave_out && !left))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (left) {
        enum pdl_status st =
            project_left_out(m, sys, s, fit->leave_out, fit, left, err);

        if (st != PDL_OK)
            return st;
    }
    for (int i = 0; i < s->n; i++) {
        struct pdl_projection x = {.step_s = NAN};

        try_run(sys, &s->run[i], &x);
        fit->residual[i] =
            (struct cli_residual){s->run[i].run->id, s->run[i].run->strategy,
                                  x.step_s / s->measured[i] - 1,
                                  left ? left[i] : NAN, fit->kind_off[i]};
    }
    return PDL_OK;
}

static enum pdl_status give_start(struct pdl_fit_param *p, int n, char *text,
                                  struct pdl_err *err)
{
    char *eq = strchr(text, '='), *end;
    struct pdl_suggest near;

    if (!eq)
        return pdl_fail(err, PDL_EINVAL,
                        "--start: expected PARAMETER=VALUE, found '%s'", text);
    *eq = '\0';
    pdl_suggest_init(&near, text);
    for (int i = 0; i < n; i++) {
        pdl_suggest_try(&near, p[i].name);
        if (strcmp(p[i].name, text) != 0)
            continue;
        p[i].start = pdl_strtod(eq + 1, &end);
        if (*end || end == eq + 1 ||
            !(p[i].start >= p[i].low && p[i].start <= p[i].high))
            return pdl_fail(err, PDL_EINVAL,
                            "--start: %s is from %g to %g, not '%s'", text,
                            p[i].low, p[i].high, eq + 1);
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "--start: no such parameter: '%s'", text);
    if (pdl_suggest_best(&near))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&near));
    return PDL_EINVAL;
}

/* The parameters, with the starts that were asked for. */
static enum pdl_status list_params(struct cli_measured *m, struct cli_fit *fit,
                                   struct pdl_err *err)
{
    struct pdl_fit_param *list =
        PDL_NEW(m->a, struct pdl_fit_param, PDL_FIT_MAX);
    char *copy = pdl_arena_strdup(m->a, fit->start ? fit->start : ""), *rest;
    enum pdl_status st = PDL_OK;

    if (!list || !copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    while (fit->n < PDL_FIT_MAX && pdl_fit_run_param(fit->n)) {
        list[fit->n] = *pdl_fit_run_param(fit->n);
        fit->n++;
    }
    fit->param = list;
    for (char *part = strtok_r(copy, ",", &rest); st == PDL_OK && part;
         part = strtok_r(NULL, ",", &rest))
        st = give_start(list, fit->n, part, err);
    return st;
}

static enum pdl_status fit_all(struct cli_measured *m, struct pdl_system *sys,
                               struct cli_runs *s, struct cli_fit *fit,
                               struct pdl_err *err)
{
    struct fitting f = {.runs = s};
    enum pdl_status st;

    if (s->n == 0)
        return pdl_fail(err, PDL_EINVAL, "%s: no run could be projected",
                        m->file);
    fit->rows = s->n;
    st = find_same(m->a, &f, err);
    if (st == PDL_OK)
        st = held_out_error(m, sys, s, fit, err);
    if (st != PDL_OK)
        return st;
    sys->projection_error = rounded(fit->held_out);
    pdl_fit_reset(sys, fit->param, fit->n);
    pdl_fit_system(sys, fit->param, fit->n, runs_cost, &f, s->n, true,
                   &fit->result);
    st = keep_residuals(m, sys, s, fit, err);
    return st == PDL_OK ? keep_spreads(m, sys, &f, fit, err) : st;
}

enum pdl_status cli_fit_runs(struct cli_measured *m, struct pdl_system *sys,
                             struct cli_fit *fit, struct pdl_err *err)
{
    struct cli_runs s;
    enum pdl_status st = list_params(m, fit, err);

    fit->usage = st == PDL_EINVAL;
    if (st == PDL_OK)
        st = cli_runs_read(m, true, &s, err);
    if (st != PDL_OK)
        return st;
    st = fit_all(m, sys, &s, fit, err);
    cli_runs_close(&s);
    return st;
}
