/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reader of a projection should know beside its numbers: memory that is
 * filled further than projections of it are sure, in which order the ranks of a
 * context axis have their positions, what the framework does not run, whether
 * anything like it was ever measured, what was assumed of the system. One
 * sentence each, the same for every command, on the page and in JSON. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

bool cli_memory_note(const struct pdl_projection *x, char *buf, size_t size)
{
    char peak[32], cap[32];

    buf[0] = '\0';
    if (!pdl_memory_tight(x))
        return false;
    snprintf(
        buf, size,
        "memory is nearly full, %s of %s; 4 of 5 measured runs were within "
        "%.1f %% of their projection, --headroom leaves room",
        pdl_unit_format((double)x->peak_bytes, PDL_UNIT_BYTES, peak,
                        sizeof peak),
        pdl_unit_format((double)x->capacity_bytes, PDL_UNIT_BYTES, cap,
                        sizeof cap),
        100 * PDL_MEMORY_ERROR);
    return true;
}

static int64_t context_of(const struct pdl_strategy *s)
{
    int64_t most = 1;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_CONTEXT &&
                s->clause[c].term[t].size[0] > most)
                most = s->clause[c].term[t].size[0];
    return most;
}

static bool is_causal(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_ATTENTION &&
            m->nodes[i].attr.causal)
            return true;
    return false;
}

bool cli_order_note(const struct pdl_plan *p, char *buf, size_t size)
{
    int64_t n = context_of(p->strategy);

    buf[0] = '\0';
    if (n < 2 || p->strategy->context_kind == PDL_CONTEXT_A2A ||
        !is_causal(p->model))
        return false;
    if (p->deal.ranks > 1)
        snprintf(buf, size,
                 "context=%lld: positions in a zigzag, so that a causal mask "
                 "leaves all ranks as much work",
                 (long long)n);
    else
        snprintf(
            buf, size,
            "context=%lld: positions in their order, so that a causal mask "
            "leaves the last rank %.3g times the mean work of attention",
            (long long)n, 2 - 1 / (double)n);
    return true;
}

void cli_note(struct cli_notes *out, const char *text)
{
    if (out->n < CLI_NOTES && text[0])
        snprintf(out->text[out->n++], sizeof out->text[0], "%.255s", text);
}

/* What '@' came to: "data: new 16 ranks, 23 shares each; old ..." */
static void note_groups(const struct cli_job *j, struct cli_notes *out)
{
    const struct pdl_clause *c = &j->plan->strategy->clause[0];

    for (int t = 0; t < c->nterms; t++) {
        const struct pdl_term *x = &c->term[t];
        char text[256];
        size_t n =
            (size_t)snprintf(text, sizeof text, "%s: ", pdl_axis_name(x->axis));

        for (int i = 0; i < x->nparts && n < sizeof text; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld on %.40s",
                                  i ? ", " : "", (long long)x->part[i].count,
                                  x->part[i].group);
            if (x->part[i].share > 0 && n < sizeof text)
                n += (size_t)snprintf(text + n, sizeof text - n,
                                      " with %lld shares of the samples each",
                                      (long long)x->part[i].share);
        }
        if (x->nparts > 0)
            cli_note(out, text);
    }
}

/* More of the peak than anything measured had. */
static const double TOO_GOOD = 1.05;

/* The part of the FLOPs counted that lies behind causal masks: half of the
 * scores, which are counted in full and not computed. */
static double masked(const struct pdl_model *m)
{
    struct pdl_model_totals all;
    double hidden = 0;

    if (pdl_model_totals(m, &all, NULL) != PDL_OK || all.forward_flops <= 0)
        return 0;
    for (int i = 0; i < m->nnodes; i++) {
        struct pdl_work w;

        if (m->nodes[i].attr.causal && m->nodes[i].attr.window == 0 &&
            pdl_node_work(m, i, PDL_FORWARD, 1, PDL_F32, &w, NULL) == PDL_OK)
            hidden += (double)w.flops / 2 * (double)pdl_node_repeat(m, i);
    }
    return hidden / (double)all.forward_flops;
}

static void note_mfu(const struct cli_job *j, struct cli_notes *out)
{
    double best = pdl_evidence_mfu(&j->sys.pe, j->oracle.precision), part;
    char text[256];
    int n;

    if (!(best > 0) || j->x.mfu <= TOO_GOOD * best)
        return;
    part = masked(j->model);
    n = snprintf(text, sizeof text,
                 "no measured run reached more than %.0f %% of the peak on %s "
                 "PEs in %s: %.0f %% is more than to be expected",
                 100 * best, j->sys.pe.arch ? j->sys.pe.arch : j->sys.pe.name,
                 pdl_precision_name(j->oracle.precision), 100 * j->x.mfu);
    if (part > .1 && n < (int)sizeof text)
        snprintf(
            text + n, sizeof text - (size_t)n,
            " (%.0f %% of it is counted behind causal masks, where nothing "
            "is computed)",
            100 * part);
    cli_note(out, text);
}

void cli_evidence(const struct cli_job *j, struct pdl_evidence *out, char *buf,
                  size_t size)
{
    char key[192];

    pdl_evidence_key(j->plan->model, j->plan->strategy, &j->sys, &j->oracle,
                     key, sizeof key);
    pdl_evidence_find(key, NULL, out);
    if (j->oracle.parameters == PDL_IDEAL)
        buf[0] = '\0';
    else if (out->runs > 0)
        snprintf(buf, size,
                 "evidence: %d measured run%s of the same framework, kind of "
                 "PE, network, precision, axes, schedule and ZeRO, %.0f %% off "
                 "in the mean",
                 out->runs, out->runs == 1 ? "" : "s", 100 * out->error);
    else if (out->near > 0)
        snprintf(buf, size,
                 "evidence: no measured run is like it in all; %d differ%s in "
                 "schedule, ZeRO or offload alone, %.0f %% off in the mean",
                 out->near, out->near == 1 ? "s" : "", 100 * out->error);
    else
        snprintf(buf, size,
                 "evidence: no measured run has the same framework, kind of "
                 "PE, network, precision and axes; %d share framework and kind "
                 "of network",
                 out->like);
}

/* An operator that has no price, or a kind of configuration read as Llama's. */
static void note_unknown(const char *what, int64_t count, const char *more,
                         struct cli_notes *out)
{
    static const char kind[] = "model_type:";
    size_t n = sizeof kind - 1;
    char note[256];

    if (strncmp(what, kind, n) == 0)
        snprintf(note, sizeof note,
                 "model_type %.60s is not known: read as a Llama-like decoder; "
                 "compare 'paradl model show' with what is published",
                 what + n);
    else
        snprintf(note, sizeof note,
                 "operator %.60s is not known (%lld time%s) and costs nothing "
                 "here%s",
                 what, (long long)count, count == 1 ? "" : "s", more);
    cli_note(out, note);
}

/* What of the network is not priced, or priced as something else. */
static void note_model(const struct pdl_model *m, struct cli_notes *out)
{
    char note[256];

    for (int i = 0; i < m->nunknown && i < 3; i++)
        note_unknown(m->unknown_ops[i], m->unknown_counts[i],
                     i == 2 && m->nunknown > 3 ? "; nor are others" : "", out);
    if (m->most_tokens) {
        snprintf(note, sizeof note,
                 m->tokens > m->most_tokens
                     ? "sequences of %lld tokens are longer than the %lld that "
                       "the model takes"
                     : "sequences of %lld tokens are assumed, the model takes "
                       "%lld: --dim seq=N says how long yours are",
                 (long long)m->tokens, (long long)m->most_tokens);
        cli_note(out, note);
    }
    if (m->inexact) {
        snprintf(note, sizeof note, "not as in its file: %.200s", m->inexact);
        cli_note(out, note);
    }
}

static void note_ideal(const struct cli_job *j, struct cli_notes *out)
{
    if (!j->oracle.framework && j->oracle.parameters != PDL_IDEAL)
        cli_note(out, "ideal: no framework runs this as it is; --framework "
                      "adds what one does");
}

static void note_system(const struct cli_job *j, struct cli_notes *out)
{
    for (int64_t i = 0; i < j->sys.nnotes; i++)
        cli_note(out, j->sys.notes[i]);
}

/* A framework that is not for these PEs, and a network or a number of PEs that
 * its launch file cannot say. */
static void note_framework(const struct cli_job *j, struct cli_notes *out)
{
    const struct pdl_abilities *f =
        j->oracle.framework ? pdl_framework_runs(j->oracle.framework) : NULL;
    struct pdl_err cannot = {"", ""};
    int64_t each = pdl_system_machine_pes(&j->sys);
    char note[256];

    if (!pdl_framework_on(j->oracle.framework, &j->sys.pe)) {
        snprintf(note, sizeof note,
                 "%s does not run on %s: what is projected is its habits there",
                 pdl_framework_name(j->oracle.framework), j->sys.pe.name);
        cli_note(out, note);
    }
    if (pdl_framework_trains(j->oracle.framework, j->oracle.precision,
                             j->oracle.optimizer_slots, &cannot) != PDL_OK)
        cli_note(out, cannot.msg);
    if (!f || !f->exporter)
        return;
    if (pdl_export_suits(j->model, f->exporter, &cannot) != PDL_OK)
        snprintf(note, sizeof note, "no job is written for it: %.220s",
                 cannot.msg);
    else if (strcmp(f->exporter, "paradl") != 0 && j->x.pes > each &&
             j->x.pes % each != 0)
        snprintf(note, sizeof note,
                 "no job is written for it: %lld PEs are no whole machines of "
                 "%lld",
                 (long long)j->x.pes, (long long)each);
    else
        return;
    cli_note(out, note);
}

void cli_given_notes(const struct cli_job *j, struct cli_notes *out)
{
    out->n = 0;
    note_ideal(j, out);
    note_model(j->model, out);
    note_system(j, out);
}

void cli_job_notes(const struct cli_job *j, struct cli_notes *out)
{
    struct pdl_err cannot = {"", ""};
    char note[256];

    out->n = 0;
    note_ideal(j, out);
    if (j->oracle.headroom < PDL_MEMORY_ERROR &&
        cli_memory_note(&j->x, note, sizeof note))
        cli_note(out, note);
    if (cli_order_note(j->plan, note, sizeof note))
        cli_note(out, note);
    if (pdl_framework_can(j->oracle.framework, &j->asked, &cannot) != PDL_OK)
        cli_note(out, cannot.msg);
    note_framework(j, out);
    note_model(j->model, out);
    note_groups(j, out);
    note_mfu(j, out);
    note_system(j, out);
}

void cli_notes_text(const struct cli_notes *n)
{
    for (int i = 0; i < n->n; i++)
        cli_mark(CLI_WARN, "note:", n->text[i]);
}

void cli_notes_json(struct pdl_json *w, const struct cli_notes *n)
{
    pdl_json_key(w, "notes");
    pdl_json_array(w);
    for (int i = 0; i < n->n; i++)
        pdl_json_str(w, n->text[i]);
    pdl_json_end(w);
}
