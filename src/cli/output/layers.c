/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer by layers: its clauses one a line, beside the best strategy that
 * is the same for all layers, and what was looked at to find it. */
#include "cli/output/layers.h"

#include <string.h>

static double gain_of(const struct pdl_layers_result *l)
{
    return l->best.priced && l->uniform.priced && l->best.x.step_s > 0
               ? l->uniform.x.step_s / l->best.x.step_s
               : 1;
}

void cli_layers_json(struct pdl_json *w, const struct pdl_layers_result *l)
{
    pdl_json_key(w, "per_layer");
    pdl_json_object(w);
    pdl_json_kbool(w, "better", l->better);
    pdl_json_knum(w, "gain", gain_of(l));
    if (l->uniform.priced) {
        pdl_json_kstr(w, "uniform", l->uniform.strategy);
        pdl_json_knum(w, "uniform_step_s", l->uniform.x.step_s);
    }
    if (l->layered.priced) {
        pdl_json_kstr(w, "layered", l->layered.strategy);
        pdl_json_knum(w, "layered_step_s", l->layered.x.step_s);
        pdl_json_knum(w, "sum_hidden_s", l->hidden_s);
        pdl_json_knum(w, "sum_exposed_s", l->exposed_s);
    }
    pdl_json_kint(w, "units", l->units);
    pdl_json_kint(w, "classes", l->classes);
    pdl_json_kint(w, "candidates", l->candidates);
    pdl_json_kint(w, "pairs", l->pairs);
    pdl_json_kint(w, "clauses", l->clauses);
    pdl_json_kint(w, "parts_lowered", l->lowered);
    pdl_json_kint(w, "moves_priced", l->moves);
    pdl_json_kint(w, "pipelines", l->pipelines);
    pdl_json_kint(w, "plans_compared", l->tried);
    pdl_json_kbool(w, "exact", l->exact);
    pdl_json_kbool(w, "limited", l->limited);
    pdl_json_end(w);
}

static void row(struct pdl_table *t, const char *what,
                const struct pdl_found *f)
{
    char s[4][32];

    if (!f->priced)
        return;
    pdl_table_cell(t, "%s", what);
    pdl_table_cell(t, "%s",
                   pdl_unit_format(f->x.step_s, PDL_UNIT_SECONDS, s[0], 32));
    pdl_table_cell(t, "%s",
                   pdl_unit_format(f->x.compute_s, PDL_UNIT_SECONDS, s[1], 32));
    pdl_table_cell(
        t, "%s",
        pdl_unit_format(f->x.exposed_comm_s, PDL_UNIT_SECONDS, s[2], 32));
    pdl_table_cell(
        t, "%s",
        pdl_unit_format((double)f->x.peak_bytes, PDL_UNIT_BYTES, s[3], 32));
    pdl_table_cell(t, "%.0f%s", f->x.samples_per_s, f->x.feasible ? "" : " x");
}

static void clauses(const char *text)
{
    for (const char *end; *text; text = *end ? end + 1 : end) {
        while (*text == ' ')
            text++;
        end = strchr(text, ';');
        end = end ? end : text + strlen(text);
        cli_say(4, "  %.*s", (int)(end - text), text);
    }
}

static void verdict(const struct pdl_layers_result *l)
{
    if (l->better && l->uniform.priced && l->uniform.x.feasible)
        cli_say(2, "%.1f %% faster than %s for all layers:",
                100 * (gain_of(l) - 1), l->uniform.strategy);
    else if (l->better)
        pdl_puts(cli_out(), "no strategy for all layers fits; by layer:\n");
    else if (l->layered.priced)
        pdl_puts(cli_out(), "no choice by layer was better; for all layers:\n");
    else
        pdl_puts(cli_out(), "no choice by layer is possible; for all:\n");
}

void cli_layers_text(pdl_arena *a, const struct pdl_layers_result *l,
                     const struct cli_job *j, const struct cli_question *q)
{
    static const struct pdl_column columns[] = {
        {"STRATEGY", false}, {"STEP", true},   {"COMPUTE", true},
        {"EXPOSED", true},   {"MEMORY", true}, {"SAMPLES/S", true},
    };
    struct pdl_table table;

    cli_say(2, "%s, batch %lld, on %lld PEs of %s", j->model->name,
            (long long)q->batch, (long long)q->pes, j->sys.name);
    pdl_table_init(&table, a, columns, 6);
    row(&table, "by layer", &l->layered);
    row(&table, "for all layers", &l->uniform);
    pdl_table_print(&table, cli_width(), cli_out());
    if (l->best.priced) {
        verdict(l);
        clauses(l->best.strategy);
    }
    cli_say(2,
            "%d units of layers (%d different), %d candidates, %lld "
            "redistributions, %d pipeline%s, %d plans compared%s",
            l->units, l->classes, l->candidates, (long long)l->moves,
            l->pipelines, l->pipelines == 1 ? "" : "s", l->tried,
            l->limited  ? "; switches limited to what the notation holds"
            : !l->exact ? "; some were left out: no proof of an optimum"
                        : "");
    if (l->stopped)
        pdl_puts(cli_out(), "stopped before the end: the best so far\n");
}
