/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured runs, each projected as the command line would. */
#include "runs.h"

/* The strategy as the command line takes it, on the system asked for. A run
 * the oracle refuses stays, with the reason. */
static const char *price(struct cli_measured *m, struct cli_run *r)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    r->q =
        (struct cli_question){.model = r->run->model,
                              .strategy = r->run->strategy,
                              .system = m->system ? m->system : r->run->system,
                              .precision = r->run->precision,
                              .optimizer = r->run->optimizer,
                              .framework = r->run->framework,
                              .congestion = m->congestion,
                              .without = m->without,
                              .batch = r->run->batch};
    if (!r->q.system)
        return "no system";
    r->job = PDL_NEW(m->a, struct cli_job, 1);
    st = r->job ? cli_job_open(m->a, &r->q, r->job, &err) : PDL_ENOMEM;
    if (st == PDL_OK)
        st = cli_job_price(m->a, &r->q, r->q.strategy, r->job, &err);
    return st == PDL_OK ? NULL : pdl_arena_printf(m->a, "%s", err.msg);
}

/* Drops what cannot be projected, after saying so. */
static void price_all(struct cli_measured *m, const struct pdl_runs *from,
                      struct cli_runs *s)
{
    for (int i = 0; i < from->n; i++) {
        struct cli_run *r = &s->run[s->n];
        const char *refused;

        *r = (struct cli_run){.run = &from->run[i]};
        refused = price(m, r);
        if (refused) {
            pdl_printf(cli_stderr(), "%s: not projected: %s\n", r->run->id,
                       refused);
            continue;
        }
        s->measured_run[s->n] = r->run;
        s->pes[s->n] = r->job->x.pes;
        s->projected[s->n] = r->job->x.step_s;
        s->measured[s->n++] = r->run->step_s;
    }
}

enum pdl_status cli_runs_read(struct cli_measured *m, struct cli_runs *out,
                              struct pdl_err *err)
{
    struct pdl_select select;
    struct pdl_runs runs;
    struct pdl_oracle_options unused;
    uint32_t without;
    enum pdl_status st =
        pdl_select_parse(m->a, m->select, pdl_run_keys, &select, err);

    *out = (struct cli_runs){.n = 0};
    if (st == PDL_OK) /* once, not once a run */
        st = cli_effects(m->without, &without, err);
    if (st == PDL_OK)
        st = cli_congestion(m->congestion, &unused, err);
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
    if (!out->run || !out->measured_run || !out->pes || !out->projected ||
        !out->measured)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    price_all(m, &runs, out);
    return PDL_OK;
}
