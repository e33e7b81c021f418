/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch by method: samples a second of one strategy where everything stays, as
 * earlier methods decide for its blocks, and as swap=karma does. */
#include "cli/output/fit_in.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The strategy without what a method would decide; false: it has stages, or
 * layers that differ. */
static bool plain(pdl_arena *a, const char *text, struct pdl_strategy *s)
{
    if (!text || pdl_strategy_parse(a, text, s, NULL) != PDL_OK ||
        s->nclauses > 1)
        return false;
    s->recompute = PDL_RECOMPUTE_NONE;
    s->offload_activations = false;
    s->swap = PDL_SWAP_KARMA;
    return true;
}

/* The best that is known of it. */
static void add(struct cli_methods *m, int i, const char *name, bool fits,
                double step_s)
{
    m->name[i] = name;
    m->nmethods = i + 1 > m->nmethods ? i + 1 : m->nmethods;
    if (m->rate[i][m->n] == 0 && fits && step_s > 0)
        m->rate[i][m->n] = (double)m->batch[m->n] / step_s;
}

/* Is the same done under another name? */
static bool named_later(int i)
{
    const struct pdl_karma_policy *p = pdl_karma_policy_at(i), *q;

    for (int k = i + 1; (q = pdl_karma_policy_at(k)) != NULL; k++)
        if (q->decide == p->decide)
            return true;
    return false;
}

/* One column; again with the optimizer on the host where something does not
 * fit. */
static bool follow_all(const struct cli_job *j, const struct pdl_strategy *s,
                       struct cli_methods *m)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_plan_options po = {.batch = m->batch[m->n], .allow_empty = true};
    struct pdl_strategy *mine = a ? PDL_NEW(a, struct pdl_strategy, 1) : NULL;
    const struct pdl_karma_policy *p;
    struct pdl_outofcore x;
    bool ok;
    int n = 1;

    if (mine)
        *mine = *s;
    ok = mine && pdl_oracle_outofcore(a, j->model, &j->sys, &j->oracle, &po,
                                      mine, &x, NULL) == PDL_OK;
    if (ok)
        add(m, 0, "in core", x.in_core.feasible && !s->offload_optimizer,
            x.in_core.step_s);
    for (int i = 1; ok && (p = pdl_karma_policy_at(i)) != NULL; i++) {
        struct pdl_karma_plan plan; /* 0: keep */

        if (named_later(i) || n + 1 == CLI_METHODS)
            continue;
        if (pdl_karma_follow(a, &x.karma, p, &plan, NULL) == PDL_OK)
            add(m, n, p->name, plan.step.fits, plan.step.step_s + x.rest_s);
        n++;
    }
    if (ok)
        add(m, n, "karma", x.x.feasible, x.x.step_s);
    pdl_arena_destroy(a);
    return ok;
}

void cli_methods(const struct cli_job *j, const char *strategy, int64_t from,
                 int64_t to, struct cli_methods *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy *s = a ? PDL_NEW(a, struct pdl_strategy, 1) : NULL;
    bool host, ok = s && plain(a, strategy, s);
    int doubled = 0;

    *out = (struct cli_methods){.n = 0};
    while (from << (doubled + 1) <= to)
        doubled++;
    if (doubled >= CLI_METHOD_BATCHES) /* the last ones */
        from <<= doubled + 1 - CLI_METHOD_BATCHES;
    host = ok && s->offload_optimizer;
    for (int64_t b = from; ok && b <= to; b *= 2, out->n++) {
        out->batch[out->n] = b;
        s->offload_optimizer = host;
        ok = follow_all(j, s, out);
        s->offload_optimizer = true;
        if (ok && !host)
            (void)!follow_all(j, s, out);
        if (!ok)
            break;
    }
    pdl_arena_destroy(a);
}

void cli_methods_text(const struct cli_methods *m)
{
    struct pdl_sink *out = cli_out();

    if (m->n == 0)
        return;
    pdl_puts(out, "Samples a second, by method and batch (-: does not fit; the "
                  "optimizer is on the\nhost where it takes that)\n"
                  "              ");
    for (int b = 0; b < m->n; b++)
        pdl_printf(out, " %9lld", (long long)m->batch[b]);
    pdl_puts(out, "\n");
    for (int i = 0; i < m->nmethods; i++) {
        pdl_printf(out, "  %-12s", m->name[i]);
        for (int b = 0; b < m->n; b++)
            if (m->rate[i][b] > 0)
                pdl_printf(out, " %9.*f", m->rate[i][b] < 100 ? 2 : 0,
                           m->rate[i][b]);
            else
                pdl_puts(out, "         -");
        pdl_puts(out, "\n");
    }
}

void cli_methods_json(struct pdl_json *w, const struct cli_methods *m)
{
    if (m->n == 0)
        return;
    pdl_json_key(w, "methods");
    pdl_json_array(w);
    for (int i = 0; i < m->nmethods; i++)
        for (int b = 0; b < m->n; b++) {
            pdl_json_row(w);
            pdl_json_kstr(w, "name", m->name[i]);
            pdl_json_kint(w, "batch", m->batch[b]);
            pdl_json_kbool(w, "fits", m->rate[i][b] > 0);
            pdl_json_knum(w, "samples_per_s",
                          m->rate[i][b] > 0 ? m->rate[i][b] : NAN);
            pdl_json_end(w);
        }
    pdl_json_end(w);
}
