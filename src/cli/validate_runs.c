/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of measured training steps (schema paradl.runs/1): projects each run
 * as the command line would, and compares; and the parameters of a system
 * that such runs can identify. */
#include "measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const char *id, *set, *model, *strategy, *axes, *refused;
    struct cli_question q;
    struct cli_job *job;
    double measured_s, compute_s, comm_s; /* 0: not measured */
};

struct runs {
    struct run *run;
    int n;
    double *projected, *measured;
};

static const char *const keys[] = {"id",       "set",  "model",     "system",
                                   "strategy", "axes", "framework", NULL};

static const char *text_of(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = map ? pdl_doc_get(map, key) : NULL;

    return d && d->kind == PDL_DOC_SCALAR ? d->text : NULL;
}

/* "data+filter": the axes larger than 1. */
static const char *axes_of(pdl_arena *a, const char *strategy)
{
    struct pdl_strategy s;
    char buf[128] = "";
    size_t len = 0;

    if (pdl_strategy_parse(a, strategy, &s, NULL) != PDL_OK)
        return "";
    for (int axis = 0; axis < PDL_NAXES; axis++) {
        bool large = false;

        for (int c = 0; c < s.nclauses; c++)
            for (int t = 0; t < s.clause[c].nterms; t++) {
                const struct pdl_term *x = &s.clause[c].term[t];

                for (int k = 0; (int)x->axis == axis && k < x->nsizes; k++)
                    large = large || x->size[k] > 1;
            }
        if (large && len < sizeof buf - 16)
            len += (size_t)snprintf(buf + len, sizeof buf - len, "%s%s",
                                    len ? "+" : "",
                                    pdl_axis_name((enum pdl_axis)axis));
    }
    return len ? pdl_arena_strdup(a, buf) : "serial";
}

static bool wanted(const struct pdl_select *s, const struct run *r)
{
    const struct {
        const char *key, *value;
    } has[] = {{"id", r->id},
               {"set", r->set},
               {"model", r->model},
               {"system", r->q.system},
               {"strategy", r->strategy},
               {"axes", r->axes},
               {"framework", r->q.framework}};

    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++)
        if (!pdl_select_has(s, has[i].key, has[i].value ? has[i].value : ""))
            return false;
    return true;
}

static enum pdl_status read_run(struct cli_measured *m, const struct pdl_doc *d,
                                struct run *r, struct pdl_err *err)
{
    const struct pdl_doc *options, *measured, *batch, *step;

    if (d->kind != PDL_DOC_MAP)
        return pdl_doc_fail(d, err, "expected a run");
    options = pdl_doc_get(d, "options");
    measured = pdl_doc_get(d, "measured");
    batch = pdl_doc_get(d, "batch");
    step = measured && measured->kind == PDL_DOC_MAP
               ? pdl_doc_get(measured, "step_s")
               : NULL;
    if (options && options->kind != PDL_DOC_MAP)
        return pdl_doc_fail(options, err, "options: expected a map");
    *r = (struct run){.id = text_of(d, "id"),
                      .set = text_of(d, "set"),
                      .model = text_of(d, "model"),
                      .strategy = text_of(d, "strategy")};
    if (!r->id || !r->model || !r->strategy || !batch)
        return pdl_doc_fail(d, err, "a run needs id, model, strategy, batch");
    if (!step)
        return PDL_OK; /* nothing to compare a time with */
    r->q = (struct cli_question){.model = r->model,
                                 .strategy = r->strategy,
                                 .system = text_of(d, "system"),
                                 .precision = text_of(d, "precision"),
                                 .optimizer = text_of(d, "optimizer"),
                                 .framework = text_of(options, "framework")};
    r->axes = axes_of(m->a, r->strategy);
    if (pdl_doc_num(step, PDL_UNIT_NONE, 0, 1e9, &r->measured_s, err) != PDL_OK)
        return PDL_EPARSE;
    step = pdl_doc_get(measured, "compute_s");
    if (step &&
        pdl_doc_num(step, PDL_UNIT_NONE, 0, 1e9, &r->compute_s, err) != PDL_OK)
        return PDL_EPARSE;
    step = pdl_doc_get(measured, "comm_s");
    if (step &&
        pdl_doc_num(step, PDL_UNIT_NONE, 0, 1e9, &r->comm_s, err) != PDL_OK)
        return PDL_EPARSE;
    return pdl_doc_int(batch, 1, INT64_MAX / 2, &r->q.batch, err);
}

/* The strategy as the command line takes it, on the system asked for. A run
 * the oracle refuses stays, with the reason. */
static void price(struct cli_measured *m, struct run *r)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    if (m->system)
        r->q.system = m->system;
    if (!r->q.system) {
        r->refused = "no system";
        return;
    }
    r->job = PDL_NEW(m->a, struct cli_job, 1);
    st = r->job ? cli_job_open(m->a, &r->q, r->job, &err) : PDL_ENOMEM;
    if (st == PDL_OK)
        st = cli_job_price(m->a, &r->q, r->strategy, r->job, &err);
    if (st != PDL_OK)
        r->refused = pdl_arena_printf(m->a, "%s", err.msg);
}

static enum pdl_status read_runs(struct cli_measured *m, struct runs *out,
                                 struct pdl_err *err)
{
    const struct pdl_doc *list = pdl_doc_get(m->doc, "runs");
    struct pdl_select select;
    enum pdl_status st = pdl_select_parse(m->a, m->select, keys, &select, err);

    *out = (struct runs){.n = 0};
    if (st != PDL_OK)
        return st;
    if (!list || list->kind != PDL_DOC_LIST)
        return pdl_doc_fail(m->doc, err, "no list of \"runs\"");
    out->run = PDL_NEW(m->a, struct run, list->count + 1);
    out->projected = PDL_NEW(m->a, double, list->count + 1);
    out->measured = PDL_NEW(m->a, double, list->count + 1);
    if (!out->run || !out->projected || !out->measured)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        struct run *r = &out->run[out->n];

        st = read_run(m, d, r, err);
        if (st != PDL_OK)
            return st;
        if (r->measured_s > 0 && wanted(&select, r))
            out->n++;
    }
    if (out->n == 0)
        return pdl_fail(err, PDL_EINVAL, "%s: nothing selected", m->file);
    return PDL_OK;
}

/* Drops what cannot be projected, after saying so. */
static void price_all(struct cli_measured *m, struct runs *s)
{
    int kept = 0;

    for (int i = 0; i < s->n; i++) {
        price(m, &s->run[i]);
        if (s->run[i].refused) {
            pdl_printf(cli_stderr(), "%s: not projected: %s\n", s->run[i].id,
                       s->run[i].refused);
            continue;
        }
        s->run[kept] = s->run[i];
        s->projected[kept] = s->run[kept].job->x.step_s;
        s->measured[kept] = s->run[kept].measured_s;
        kept++;
    }
    s->n = kept;
}

/* ---- fit -------------------------------------------------------------------- */

/* Starts: NCCL on EDR InfiniBand and NVLink 2 as published for this machine;
 * a study of VGG-16 runs for what a benchmark cannot show. */
#define PRIOR     .003
#define AT(field) offsetof(struct pdl_system, field)
// clang-format off
static const struct pdl_fit_param params[] = {
    {"pe.kernels.conv_forward.fp32",
     AT(pe.kernels.conv_forward) + PDL_PREC_FP32 * sizeof(double), .3, 3, 1.43, PRIOR},
    {"pe.memory_efficiency", AT(pe.memory_efficiency), .5, .95, .7, PRIOR},
    {"node.nics.measured_bandwidth", AT(node.nics.measured_bytes_per_s),
     2e9, 12.5e9, 6.7e9, PRIOR},
    {"node.links.measured_bandwidth", AT(node.links.measured_bytes_per_s),
     10e9, 150e9, 80e9, PRIOR},
    {"network.ring_step", AT(network.step_s), 5e-6, 200e-6,
     33e-6, PRIOR},
    {"network.sync", AT(network.sync_s), 5e-6, 1e-3, 140e-6, PRIOR},
    {"pe.host_call", AT(pe.host_call_s), 5e-6, 500e-6, 100e-6, PRIOR},
    {"storage.latency", AT(storage.latency_s), .1e-6, 20e-6, 4e-6, PRIOR},
    {"storage.contention", AT(storage.contention_s), .1e-9, 50e-9, 4e-9, PRIOR},
};
// clang-format on
#undef AT
#undef PRIOR

struct fitting {
    struct cli_measured *m;
    struct runs *runs;
    const char *without; /* axes left out; NULL: none */
};

static double square(double x)
{
    return x * x;
}

/* The step counts as much as its two parts, where they were measured: the
 * sum alone cannot tell a slow device from a slow network. */
static double off(const struct run *r, const struct pdl_projection *x)
{
    double step = square(log(x->step_s / r->measured_s));

    if (!(r->compute_s > 0 && r->comm_s > 0))
        return step;
    return (2 * step + square(log(x->compute_s / r->compute_s)) +
            square(log((x->comm_s + x->io_s) / r->comm_s))) /
           4;
}

/* Each run on its own size of the machine, with the parameters under trial. */
static bool try_run(const struct pdl_system *sys, const struct run *r,
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
        const struct run *r = &f->runs->run[i];
        struct pdl_projection x;

        if (f->without && strcmp(f->without, r->axes) == 0)
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
                             const struct pdl_system *base, struct runs *s,
                             const struct cli_fit *fit)
{
    double *e = PDL_NEW(m->a, double, s->n + 1);
    int n = 0;

    for (int i = 0; e && i < s->n; i++) {
        struct fitting f = {m, s, s->run[i].axes};
        struct pdl_system sys = *base;
        struct pdl_fit_result ignored;
        bool again = false;

        for (int k = 0; k < i; k++)
            again = again || strcmp(s->run[k].axes, f.without) == 0;
        if (again)
            continue;
        pdl_fit_system(&sys, fit->param, fit->n, runs_cost, &f, s->n, &ignored);
        if (!isfinite(ignored.after))
            return 0; /* nothing is left to fit */
        for (int k = i; k < s->n; k++) {
            struct pdl_projection x;

            if (strcmp(s->run[k].axes, f.without) == 0 &&
                try_run(&sys, &s->run[k], &x))
                e[n++] = fabs(log(x.step_s / s->run[k].measured_s));
        }
    }
    if (n == 0)
        return 0;
    qsort(e, (size_t)n, sizeof *e, by_size);
    return e[(n * 8 - 1) / 10];
}

enum pdl_status cli_fit_runs(struct cli_measured *m, struct pdl_system *sys,
                             struct cli_fit *fit, struct pdl_err *err)
{
    struct runs s;
    struct fitting f = {m, &s, NULL};
    enum pdl_status st = read_runs(m, &s, err);

    if (st != PDL_OK)
        return st;
    price_all(m, &s);
    if (s.n == 0)
        return pdl_fail(err, PDL_EINVAL, "%s: no run could be projected",
                        m->file);
    fit->param = params;
    fit->n = (int)(sizeof params / sizeof params[0]);
    fit->rows = s.n;
    sys->projection_error = held_out_error(m, sys, &s, fit);
    fit->held_out = sys->projection_error;
    pdl_fit_system(sys, fit->param, fit->n, runs_cost, &f, s.n, &fit->result);
    return pdl_system_update(m->a, sys, err);
}

/* ---- validate --------------------------------------------------------------- */

static enum pdl_status group(struct cli_measured *m, const struct runs *s,
                             struct cli_groups *g)
{
    static const char *const by[] = {"axes", "model", "set", "axes, model"};
    const char **text = PDL_NEW(m->a, const char *, s->n + 1);
    enum pdl_status st = text ? PDL_OK : PDL_ENOMEM;

    for (int k = 0; k < 4 && st == PDL_OK; k++) {
        for (int i = 0; i < s->n; i++) {
            const struct run *r = &s->run[i];
            int stem = (int)strcspn(r->model, ":");

            text[i] = k == 0   ? r->axes
                      : k == 1 ? pdl_arena_printf(m->a, "%.*s", stem, r->model)
                      : k == 2 ? r->set
                               : pdl_arena_printf(m->a, "%s %.*s", r->axes,
                                                  stem, r->model);
        }
        st =
            cli_group_by(m->a, g, by[k], text, s->projected, s->measured, s->n);
    }
    return st;
}

/* Of runs with the same model and number of PEs: how much slower the best
 * projected one is than the best measured one; the mean. */
static double regret(const struct runs *s)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < s->n; i++) {
        int best = i, chosen = i, size = 0;

        for (int k = 0; k < s->n; k++) {
            bool same = strcmp(s->run[k].model, s->run[i].model) == 0 &&
                        s->run[k].job->x.pes == s->run[i].job->x.pes &&
                        s->run[k].q.batch == s->run[i].q.batch;

            if (!same)
                continue;
            if (k < i)
                break;
            size++;
            best = s->measured[k] < s->measured[best] ? k : best;
            chosen = s->projected[k] < s->projected[chosen] ? k : chosen;
        }
        if (size < 2)
            continue;
        sum += s->measured[chosen] / s->measured[best] - 1;
        n++;
    }
    return n > 0 ? sum / n : 0;
}

static void json_rows(struct pdl_json *w, const struct runs *s)
{
    pdl_json_key(w, "rows");
    pdl_json_array(w);
    for (int i = 0; i < s->n; i++) {
        const struct run *r = &s->run[i];
        const struct pdl_projection *x = &r->job->x;

        pdl_json_row(w);
        pdl_json_kstr(w, "id", r->id);
        pdl_json_kstr(w, "set", r->set);
        pdl_json_kstr(w, "model", r->model);
        pdl_json_kstr(w, "strategy", r->strategy);
        pdl_json_kint(w, "pes", x->pes);
        pdl_json_knum(w, "projected_s", x->step_s);
        pdl_json_knum(w, "low_s", x->low_s > 0 ? x->low_s : NAN);
        pdl_json_knum(w, "high_s", x->high_s > 0 ? x->high_s : NAN);
        pdl_json_knum(w, "measured_s", r->measured_s);
        pdl_json_knum(w, "accuracy", 1 - fabs(x->step_s / r->measured_s - 1));
        pdl_json_knum(w, "compute_s", x->compute_s);
        pdl_json_knum(w, "comm_s", x->comm_s);
        pdl_json_knum(w, "io_s", x->io_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static double coverage(const struct runs *s)
{
    int in = 0;

    for (int i = 0; i < s->n; i++)
        in += s->run[i].job->x.low_s <= s->measured[i] &&
              s->measured[i] <= s->run[i].job->x.high_s;
    return s->n > 0 ? (double)in / s->n : 0;
}

static void print_json(const struct runs *s, const struct cli_groups *g,
                       const struct pdl_match *all)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "validate");
    json_rows(&w, s);
    pdl_json_knum(&w, "mean_accuracy", all->accuracy);
    pdl_json_knum(&w, "mape", all->mape);
    pdl_json_knum(&w, "spearman", all->spearman);
    pdl_json_knum(&w, "regret", regret(s));
    pdl_json_knum(&w, "coverage", coverage(s));
    cli_groups_json(g, &w);
    pdl_json_end(&w);
}

static void print_rows(const struct runs *s, pdl_arena *a)
{
    static const struct pdl_column columns[] = {
        {"run", false},     {"model", false},    {"strategy", false},
        {"PEs", true},      {"projected", true}, {"measured", true},
        {"accuracy", true},
    };
    struct pdl_table t;

    pdl_table_init(&t, a, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < s->n; i++) {
        char p[32], q[32];

        pdl_table_cell(&t, "%s", s->run[i].id);
        pdl_table_cell(&t, "%s", s->run[i].model);
        pdl_table_cell(&t, "%s", s->run[i].strategy);
        pdl_table_cell(&t, "%lld", (long long)s->run[i].job->x.pes);
        pdl_table_cell(
            &t, "%s",
            pdl_unit_format(s->projected[i], PDL_UNIT_SECONDS, p, sizeof p));
        pdl_table_cell(
            &t, "%s",
            pdl_unit_format(s->measured[i], PDL_UNIT_SECONDS, q, sizeof q));
        pdl_table_cell(&t, "%.1f %%",
                       100 - 100 * fabs(s->projected[i] / s->measured[i] - 1));
    }
    pdl_table_print(&t, cli_width(), cli_out());
}

int cli_validate_runs(struct cli_measured *m, bool json)
{
    struct pdl_err err = {"", ""};
    struct cli_groups g = {.n = 0};
    struct pdl_match all = {.n = 0};
    struct runs s;
    enum pdl_status st = read_runs(m, &s, &err);

    if (st == PDL_OK) {
        price_all(m, &s);
        st = group(m, &s, &g);
        if (st == PDL_OK)
            st = pdl_match(m->a, s.projected, s.measured, s.n, &all);
        if (st != PDL_OK)
            pdl_fail(&err, st, "out of memory");
    }
    if (st != PDL_OK)
        return cli_fail(st, &err);
    if (json) {
        print_json(&s, &g, &all);
        return EXIT_OK;
    }
    print_rows(&s, m->a);
    cli_groups_print(&g, m->a);
    pdl_printf(cli_out(),
               "mean accuracy %.1f %%, Spearman %.2f, regret %.1f %%, coverage "
               "%.0f %%\n",
               100 * all.accuracy, all.spearman, 100 * regret(&s),
               100 * coverage(&s));
    return EXIT_OK;
}
