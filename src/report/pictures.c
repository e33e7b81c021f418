/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections about one plan, shared by the pages of `plan` (its best) and
 * `project`. Each is there when the document has its data. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>

static const struct report_picture *const pictures[] = {
    &report_picture_words,  &report_picture_phases,   &report_picture_waterfall,
    &report_picture_stages, &report_picture_schedule, &report_picture_outofcore,
    &report_picture_gains,  &report_picture_links,
};

void report_pictures(const struct report_view *v)
{
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        if (v->p->rd.st != PDL_OK || !pictures[i]->has(v))
            continue;
        report_section(v->p->out, pictures[i]->id, pictures[i]->title);
        pictures[i]->draw(v);
        report_section_end(v->p->out);
    }
}

/* ---- parts of time and memory ------------------------------------------ */

const char *const report_time_names[REPORT_TIMES] = {
    "forward", "backward", "update", "exposed communication", "bubble", "I/O"};
static const char *const time_keys[REPORT_TIMES] = {
    "forward_s",      "backward_s", "update_s",
    "exposed_comm_s", "bubble_s",   "io_s"};
const char *const report_memory_names[REPORT_MEMORY] = {
    "weights",   "gradients", "optimizer", "activations",
    "workspace", "buffers",   "other"};
static const char *const memory_keys[REPORT_MEMORY - 1] = {
    "weights_bytes",     "gradients_bytes", "optimizer_bytes",
    "activations_bytes", "workspace_bytes", "comm_buffers_bytes"};

void report_read_times(struct report_reader *rd, const struct pdl_doc *time,
                       double *parts)
{
    for (int i = 0; i < REPORT_TIMES; i++)
        parts[i] = report_get_num(rd, time, time_keys[i]);
    /* doing the forward pass again is part of going back */
    parts[1] += report_get_num(rd, time, "recompute_s");
}

double report_read_memory(struct report_reader *rd,
                          const struct pdl_doc *memory, double *parts)
{
    double sum = 0, peak = report_get_num(rd, memory, "peak_bytes");

    for (int i = 0; i < REPORT_MEMORY - 1; i++)
        sum += parts[i] = report_get_num(rd, memory, memory_keys[i]);
    parts[REPORT_MEMORY - 1] = fmax(0, peak - sum);
    return peak;
}

/* ---- tiles ------------------------------------------------------------- */

static void tile(struct pdl_sink *out, const char *name, const char *value,
                 const char *more)
{
    pdl_puts(out, "<div><dt>");
    report_text(out, name);
    pdl_puts(out, "</dt><dd>");
    report_text(out, value);
    if (more && *more) {
        pdl_puts(out, "<small>");
        report_text(out, more);
        pdl_puts(out, "</small>");
    }
    pdl_puts(out, "</dd></div>\n");
}

static double number(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = map ? pdl_doc_get(map, key) : NULL;
    double v = 0;

    return d && pdl_doc_num(d, PDL_UNIT_NONE, 0, 1e30, &v, NULL) == PDL_OK ? v
                                                                           : 0;
}

static void step_tile(const struct report_view *v)
{
    const struct pdl_doc *range = pdl_doc_get(v->plan, "interval_s");
    char value[64], low[32], high[32], more[96] = "";
    double a = 0, b = 0;

    if (range && range->kind == PDL_DOC_LIST && range->count == 2 &&
        pdl_doc_num(range->child, PDL_UNIT_NONE, 0, 1e30, &a, NULL) == PDL_OK &&
        pdl_doc_num(range->child->next, PDL_UNIT_NONE, 0, 1e30, &b, NULL) ==
            PDL_OK)
        snprintf(more, sizeof more, "80 %%: %s to %s",
                 pdl_unit_format(a, PDL_UNIT_SECONDS, low, sizeof low),
                 pdl_unit_format(b, PDL_UNIT_SECONDS, high, sizeof high));
    tile(v->p->out, "a step",
         pdl_unit_format(number(v->plan, "step_s"), PDL_UNIT_SECONDS, value,
                         sizeof value),
         more);
}

static void rate_tile(const struct report_view *v)
{
    double tokens = number(v->plan, "tokens_per_s");
    double samples = number(v->plan, "samples_per_s");
    char value[64], more[64] = "samples/s";

    snprintf(value, sizeof value, samples < 10 ? "%.2f" : "%.0f", samples);
    if (tokens > samples)
        snprintf(more, sizeof more, "samples/s, %.3g %s tokens/s",
                 tokens < 1e6 ? tokens / 1e3 : tokens / 1e6,
                 tokens < 1e6 ? "k" : "M");
    tile(v->p->out, "throughput", value, more);
}

static void memory_tile(const struct report_view *v)
{
    const struct pdl_doc *memory = pdl_doc_get(v->plan, "memory");
    double peak = number(memory, "peak_bytes");
    double capacity = number(memory, "capacity_bytes");
    char value[64], cap[64], more[96] = "";

    if (capacity > 0)
        snprintf(more, sizeof more, "%.3g %% of %s", 100 * peak / capacity,
                 pdl_unit_format(capacity, PDL_UNIT_BYTES, cap, sizeof cap));
    tile(v->p->out, "memory of a PE",
         pdl_unit_format(peak, PDL_UNIT_BYTES, value, sizeof value), more);
}

static void say_notes(const struct report_view *v)
{
    const struct pdl_doc *evidence = pdl_doc_get(v->plan, "evidence");
    const struct pdl_doc *notes = pdl_doc_get(v->plan, "notes");
    const char *text = evidence ? report_opt_str(evidence, "text") : NULL;

    if (text && text[0])
        report_para(v->p->out, "%s.", text);
    for (const struct pdl_doc *d = notes ? notes->child : NULL; d; d = d->next)
        if (d->kind == PDL_DOC_SCALAR)
            report_para(v->p->out, "Note: %s.", d->text);
}

void report_tiles(const struct report_view *v)
{
    double mfu = number(v->plan, "mfu"), energy = number(v->plan, "energy_j");
    double cost = number(v->plan, "cost"), epoch = number(v->plan, "epoch_s");
    char text[64];

    pdl_puts(v->p->out, "<dl class=\"tiles\">\n");
    step_tile(v);
    rate_tile(v);
    snprintf(text, sizeof text, "%.1f %%", 100 * mfu);
    tile(v->p->out, "of the peak", text, "of arithmetic (MFU)");
    memory_tile(v);
    if (epoch > 0)
        tile(v->p->out, "an epoch",
             pdl_unit_format(epoch, PDL_UNIT_SECONDS, text, sizeof text), "");
    if (energy > 0) {
        snprintf(text, sizeof text, energy < 1e6 ? "%.1f kJ" : "%.2f MJ",
                 energy < 1e6 ? energy / 1e3 : energy / 1e6);
        tile(v->p->out, "energy of a step", text, "at most");
    }
    if (cost > 0) {
        snprintf(text, sizeof text, "%.4g $", cost);
        tile(v->p->out, "cost of a step", text, "");
    }
    pdl_puts(v->p->out, "</dl>\n");
    say_notes(v);
}

/* ---- what is assumed --------------------------------------------------- */

#define SCOPE                                                                  \
    "Times are of one step on the stage that takes longest; memory is of the " \
    "PE that needs most."

void report_assume(struct report_page *p)
{
    static const char *const ideal[] = {
        "Ideal parameters: peak arithmetic rates, the bandwidth of one flow, "
        "latencies of the routes.",
        SCOPE, NULL};
    static const char *const empirical[] = {
        "Empirical parameters: sustained arithmetic rates, operators that "
        "memory limits priced by their bytes, launches, measured latency and "
        "bandwidth, contention of flows that share a node's adapters.",
        SCOPE, NULL};
    static const char *const unknown[] = {SCOPE, NULL};
    const char *kind = report_opt_str(p->doc, "parameters");

    p->assumptions = !kind ? unknown : *kind == 'i' ? ideal : empirical;
}
