/* SPDX-License-Identifier: Apache-2.0
 *
 * A workload as a job of the search: its settings, its part on one of several
 * sites, how long it trains, what its checkpoints save, and what sites that
 * train by themselves exchange. */
#include "design_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *framework_of(const struct pdl_workload *w,
                                const struct pdl_model *m)
{
    if (w->framework)
        return w->framework;
    return strcmp(m->kind, "transformer") == 0 ? "megatron" : "own";
}

enum pdl_status design_job(const struct pdl_workload *w,
                           const struct pdl_system *sys, pdl_job **out,
                           struct pdl_err *err)
{
    pdl_job *j = *out = pdl_job_create();
    const char *name, *none;
    char batch[32];
    const struct {
        const char *key, *value;
    } set[] = {{"model", w->model},
               {"dim", w->dim},
               {"precision", w->precision},
               {"optimizer", w->optimizer},
               {"batch", batch},
               {"one-order", "yes"},
               {"uncounted", "yes"}};
    enum pdl_status st = PDL_OK;

    if (!j)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    pdl_job_use_system(j, sys);
    snprintf(batch, sizeof batch, "%lld", (long long)w->batch);
    for (size_t i = 0; i < sizeof set / sizeof set[0] && st == PDL_OK; i++)
        st = pdl_job_set(j, set[i].key, set[i].value, err);
    if (st == PDL_OK)
        st = pdl_job_open(j, err);
    if (st != PDL_OK)
        return st;
    name = framework_of(w, pdl_job_model(j));
    none = strcmp(name, "none") == 0 ? NULL : name;
    st = pdl_job_set(j, "framework", none, err);
    if (st == PDL_OK && none && strcmp(name, "own") != 0)
        st = pdl_job_set(j, "headroom", "10%", err);
    return st == PDL_OK ? pdl_job_open(j, err) : st;
}

enum pdl_status design_job_size(const struct pdl_workload *w,
                                const struct pdl_design_point *p, pdl_job *j,
                                struct pdl_err *err)
{
    char text[32];
    enum pdl_status st;

    snprintf(text, sizeof text, "%lld", (long long)(p->text->pes / p->jobs));
    st = pdl_job_set(j, "pes", text, err);
    /* which axis is outermost is half of the answer between sites */
    if (st == PDL_OK && p->text->sites > p->jobs)
        st = pdl_job_set(j, "one-order", NULL, err);
    snprintf(text, sizeof text, "%lld", (long long)(w->batch / p->jobs));
    return st == PDL_OK && p->jobs > 1 ? pdl_job_set(j, "batch", text, err)
                                       : st;
}

/* Bytes of a value that is kept for a weight, at full precision. */
enum { STATE_BYTES = 4 };

/* How many steps a run has, and what its checkpoints save: weights and, at
 * full precision, a copy and the optimizer's state. */
enum pdl_status design_measure(const struct pdl_workload *w, const pdl_job *j,
                               struct pdl_design_run *out, struct pdl_err *err)
{
    const struct pdl_model *m = pdl_job_model(j);
    const struct pdl_oracle_options *o = pdl_job_options(j);
    struct pdl_model_totals total = {0};
    double samples = w->samples;
    enum pdl_status st = pdl_model_totals(m, &total, err);

    if (st == PDL_OK && w->tokens > 0 && m->tokens == 0)
        st = pdl_fail(err, PDL_EINVAL,
                      "workload '%.60s': %.60s has no tokens; say samples",
                      w->name, m->name);
    if (w->tokens > 0 && m->tokens > 0)
        samples = w->tokens / (double)m->tokens;
    out->steps = w->steps > 0 ? w->steps : ceil(samples / (double)w->batch);
    out->tokens = out->steps * (double)w->batch * (double)m->tokens;
    out->state_bytes =
        (double)total.parameters *
        (pdl_precision_bytes(o->precision) +
         STATE_BYTES * (double)(o->optimizer_slots +
                                (pdl_precision_bytes(o->precision) < 4)));
    return st;
}

/* Sites that train by themselves add up how far each of their weights moved, at
 * full precision, in a ring, every so many steps; of one step. */
double design_between_sites(const struct pdl_question *q,
                            const struct pdl_design_point *p, const pdl_job *j)
{
    struct pdl_model_totals total = {0};
    double n = (double)p->jobs;

    if (p->jobs < 2 ||
        pdl_model_totals(pdl_job_model(j), &total, NULL) != PDL_OK)
        return 0;
    return 2 * (n - 1) *
           (STATE_BYTES * (double)total.parameters / n / q->site_bytes_per_s +
            q->site_latency_s) /
           (double)p->text->local_steps;
}
