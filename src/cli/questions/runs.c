/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured runs, each projected as the command line would. */
#include "cli/questions/runs.h"

static void ask(const struct cli_measured *m, struct cli_run *r)
{
    const struct pdl_run *x = r->run;

    r->q = (struct cli_question){.model = x->model,
                                 .strategy = x->strategy,
                                 .system = m->system ? m->system : x->system,
                                 .precision = x->precision,
                                 .optimizer = x->optimizer,
                                 .framework = x->framework,
                                 .attention = x->attention,
                                 .dropout = x->dropout,
                                 .gradient_dtype = x->gradient_dtype,
                                 .compile = x->compile,
                                 .async_tensor = x->async_tensor,
                                 .congestion = m->congestion,
                                 .without = m->without,
                                 .batch = x->batch};
}

static double micro_batch(const struct cli_job *j)
{
    const struct pdl_clause *c = &j->strategy.clause[0];
    double n = (double)j->plan->batch / (double)j->plan->micro_batches;

    for (int t = 0; t < c->nterms; t++)
        if (c->term[t].axis == PDL_AXIS_DATA)
            n /= (double)c->term[t].size[0];
    return n;
}

/* The strategy as the command line takes it, on the system asked for. A run
 * the oracle refuses stays, with the reason. Plans of large jobs are large:
 * they go unless they are wanted. */
static const char *price(struct cli_measured *m, struct cli_run *r, bool keep)
{
    struct pdl_err err = {"out of memory", ""};
    enum pdl_status st;

    ask(m, r);
    if (!r->q.system)
        return "no system";
    r->job = PDL_NEW(m->a, struct cli_job, 1);
    if (!r->job)
        return "out of memory";
    st = cli_job_open(&r->q, r->job, &err);
    if (st == PDL_OK)
        st = cli_job_price(&r->q, r->q.strategy, r->job, &err);
    if (st == PDL_OK) {
        pdl_evidence_key(r->job->plan->model, r->job->plan->strategy,
                         &r->job->sys, &r->job->oracle, r->key, sizeof r->key);
        r->job->oracle.left_out = m->leave_out;
        pdl_interval(r->job->plan, &r->job->sys, &r->job->oracle, &r->job->x);
        r->micro = micro_batch(r->job);
    }
    if (!keep || st != PDL_OK) {
        cli_job_close(r->job);
        *r->job = (struct cli_job){.x = r->job->x};
    }
    return st == PDL_OK ? NULL : pdl_arena_strdup(m->a, err.msg);
}

void cli_runs_close(struct cli_runs *s)
{
    for (int i = 0; i < s->n; i++)
        cli_job_close(s->run[i].job);
}

/* Once, not once a run. */
static enum pdl_status check_terms(const struct cli_measured *m,
                                   struct pdl_err *err)
{
    pdl_job *j = pdl_job_create();
    enum pdl_status st = j ? pdl_job_set(j, "without", m->without, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = pdl_job_set(j, "congestion", m->congestion, err);
    pdl_job_destroy(j);
    return st;
}

static void note_memory(const struct cli_run *r, struct cli_runs *s)
{
    const struct pdl_projection *x = &r->job->x;
    const struct cli_memory m[] = {
        {r->run, "allocated", (double)x->allocated_bytes,
         r->run->allocated_bytes},
        {r->run, "reserved", (double)x->reserved_bytes, r->run->reserved_bytes},
        {r->run, "device", (double)x->peak_bytes, r->run->device_bytes},
        {r->run, "stage0", (double)x->reserved_bytes,
         r->run->stage0_reserved_bytes},
        {r->run, "resident",
         (double)(x->weights_bytes + x->gradients_bytes + x->optimizer_bytes),
         r->run->resident_bytes},
    };

    for (size_t i = 0; i < sizeof m / sizeof m[0]; i++)
        if (m[i].measured > 0)
            s->memory[s->nmemory++] = m[i];
}

static void note_verdict(const struct cli_run *r, struct cli_verdicts *v)
{
    if (!r->run->tried)
        return;
    v->row[v->n++] =
        (struct cli_verdict){r->run, r->job->x.step_s, r->job->x.feasible};
    v->fit += r->run->fits;
    v->out += !r->run->fits;
    v->fit_right += r->run->fits && r->job->x.feasible;
    v->out_right += !r->run->fits && !r->job->x.feasible;
}

/* Drops what cannot be projected, after saying so. */
static void price_all(struct cli_measured *m, const struct pdl_runs *from,
                      bool keep, struct cli_runs *s)
{
    for (int i = 0; i < from->n; i++) {
        struct cli_run *r = &s->run[s->n];
        const char *refused;

        *r = (struct cli_run){.run = &from->run[i]};
        refused = price(m, r, keep);
        if (refused) {
            pdl_printf(cli_stderr(), "%s: not projected: %s\n", r->run->id,
                       refused);
            continue;
        }
        note_memory(r, s);
        note_verdict(r, &s->verdicts);
        if (!(r->run->step_s > 0)) {
            cli_job_close(r->job);
            continue;
        }
        s->measured_run[s->n] = r->run;
        s->pes[s->n] = r->job->x.pes;
        s->projected[s->n] = r->job->x.step_s;
        s->measured[s->n++] = r->run->step_s;
    }
}

enum pdl_status cli_runs_read(struct cli_measured *m, bool keep,
                              struct cli_runs *out, struct pdl_err *err)
{
    struct pdl_row_filter select;
    struct pdl_runs runs;
    enum pdl_status st =
        pdl_row_filter_parse(m->a, m->select, pdl_run_keys, &select, err);

    *out = (struct cli_runs){.n = 0};
    if (st == PDL_OK)
        st = check_terms(m, err);
    if (st == PDL_OK)
        st = pdl_runs_read(m->a, m->doc, &select, &runs, err);
    if (st != PDL_OK)
        return st;
    if (runs.n == 0)
        return pdl_fail(err, PDL_EINVAL, "%s: nothing selected", m->file);
    out->run = PDL_NEW(m->a, struct cli_run, runs.n + 1);
    out->measured_run = PDL_NEW(m->a, const struct pdl_run *, runs.n + 1);
    out->pes = PDL_NEW(m->a, int64_t, runs.n + 1);
    out->projected = PDL_NEW(m->a, double, runs.n + 1);
    out->measured = PDL_NEW(m->a, double, runs.n + 1);
    out->memory = PDL_NEW(m->a, struct cli_memory, 5 * (runs.n + 1));
    out->verdicts.row = PDL_NEW(m->a, struct cli_verdict, runs.n + 1);
    if (!out->verdicts.row || !out->memory || !out->run || !out->measured_run ||
        !out->pes || !out->projected || !out->measured)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    price_all(m, &runs, keep, out);
    return PDL_OK;
}

/* Gives the job runs besides those it has. */
static enum pdl_status use_runs(pdl_arena *a, struct cli_job *j,
                                const struct pdl_own_run *run, int n,
                                struct pdl_err *err)
{
    int had = j->oracle.nown;
    struct pdl_own_run *all = PDL_NEW(a, struct pdl_own_run, had + n + 1);
    enum pdl_status st;

    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < had; i++)
        all[i] = j->oracle.own[i];
    for (int i = 0; i < n; i++)
        all[had + i] = run[i];
    pdl_job_use_runs(j->job, all, had + n);
    st = pdl_job_open(j->job, err);
    if (st == PDL_OK)
        cli_job_take(j);
    return st;
}

enum pdl_status cli_runs_own(pdl_arena *a, const char *file, struct cli_job *j,
                             struct pdl_err *err)
{
    struct cli_measured m = {.file = file, .a = a};
    struct pdl_own_run *own;
    struct cli_runs runs;
    enum pdl_status st = cli_measured_open(&m, err);

    if (st == PDL_OK)
        st = cli_runs_read(&m, false, &runs, err);
    if (st != PDL_OK)
        return st;
    own = PDL_NEW(a, struct pdl_own_run, runs.n + 1);
    for (int i = 0; own && i < runs.n; i++)
        own[i] = (struct pdl_own_run){runs.run[i].key, runs.projected[i],
                                      runs.measured[i]};
    cli_runs_close(&runs);
    return own ? use_runs(a, j, own, runs.n, err)
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status cli_runs_measured(pdl_arena *a, double measured_s,
                                  struct cli_job *j, struct pdl_err *err)
{
    struct pdl_own_run run = {.projected_s = j->x.step_s,
                              .measured_s = measured_s};
    char key[192];

    pdl_evidence_key(j->plan->model, j->plan->strategy, &j->sys, &j->oracle,
                     key, sizeof key);
    run.key = pdl_arena_strdup(a, key);
    return run.key ? use_runs(a, j, &run, 1, err)
                   : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
