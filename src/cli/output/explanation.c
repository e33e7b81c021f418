/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation of a projection, for people and as JSON. */
#include "cli/output/projection.h"

#include <string.h>

static enum pdl_status explain(pdl_arena *a, const struct cli_job *j,
                               struct pdl_explanation *e)
{
    return pdl_explain(a, j->plan, &j->sys, &j->oracle, &j->x, e, NULL);
}

void cli_explain_json(struct pdl_json *w, const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_explanation e = {0};

    if (a)
        (void)explain(a, j, &e);
    pdl_json_key(w, "limits");
    pdl_json_array(w);
    for (int i = 0; i < e.nlimits; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "id", e.limits[i].id);
        pdl_json_kstr(w, "kind",
                      e.limits[i].kind == PDL_LIMIT ? "limit" : "bottleneck");
        pdl_json_kstr(w, "phase", e.limits[i].phase);
        pdl_json_knum(w, "share", e.limits[i].share);
        pdl_json_kstr(w, "text", e.limits[i].text);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_key(w, "gains");
    pdl_json_array(w);
    for (int i = 0; i < e.ngains; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "resource", e.gains[i].resource);
        pdl_json_knum(w, "factor", e.gains[i].factor);
        pdl_json_knum(w, "step_s", e.gains[i].step_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_arena_destroy(a);
}

static void gains_text(const struct cli_job *j, const struct pdl_explanation *e)
{
    struct pdl_sink *out = cli_out();
    bool any = false;
    char t[32];

    for (int i = 0; i < e->ngains; i++) {
        const struct pdl_gain *g = &e->gains[i];
        double less = 1 - g->step_s / j->x.step_s;
        bool fits = g->feasible && !j->x.feasible;

        if (less < 0.0005 && !fits)
            continue;
        if (!any)
            cli_head("Step with 10 % more of");
        any = true;
        pdl_printf(out, "  %-22s %12s  %5.1f %% less%s\n", g->resource,
                   pdl_unit_format(g->step_s, PDL_UNIT_SECONDS, t, sizeof t),
                   100 * less, fits ? ", and it fits" : "");
    }
}

void cli_explain_text(const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_explanation e = {0};

    if (a)
        (void)explain(a, j, &e);
    if (e.nlimits > 0)
        cli_head("What limits it");
    for (int i = 0; i < e.nlimits; i++) {
        int at = 4 + (int)strlen(e.limits[i].id);

        pdl_printf(cli_out(), "  %s: ", e.limits[i].id);
        pdl_wrap(cli_out(), e.limits[i].text, 4, at);
    }
    gains_text(j, &e);
    pdl_arena_destroy(a);
}
