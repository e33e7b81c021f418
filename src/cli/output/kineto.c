/* SPDX-License-Identifier: Apache-2.0
 *
 * A projection beside a trace of PyTorch's profiler, phase by phase, and
 * where the measured time went. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

static const char *seconds(double s, char *buf, size_t size)
{
    return pdl_unit_format(s, PDL_UNIT_SECONDS, buf, size);
}

/* Time in which the device had nothing to do is the host's: what it costs to
 * launch kernels belongs to a framework. */
static void say_idle(const struct pdl_kineto_row *r, double step_s)
{
    enum { WORTH_SAYING = 5 }; /* a fifth of the step */
    char text[200];

    if (strncmp(r->name, "idle", 4) != 0 ||
        r->measured_s < step_s / WORTH_SAYING ||
        r->projected_s > r->measured_s / 2)
        return;
    snprintf(text, sizeof text,
             "the device had nothing to do in %.0f %% of the step: if that is "
             "the host launching kernels, --framework NAME projects it",
             100 * r->measured_s / step_s);
    pdl_wrap(cli_out(), text, 0, 0);
}

static int64_t calls_of(const struct pdl_kineto *k, const char *class)
{
    for (int i = 0; i < k->nclasses; i++)
        if (strcmp(k->of[i].name, class) == 0)
            return k->of[i].calls;
    return 0;
}

static int64_t nodes_of(const struct pdl_model *m, enum pdl_op_id id)
{
    int64_t n = 0;

    for (int s = 0; s < m->nsegments; s++) {
        const struct pdl_segment *g = &m->segments[s];

        for (int i = g->first_node; i < g->first_node + g->nnodes; i++)
            n += pdl_op_id(m->nodes[i].op) == id ? g->repeat : 0;
    }
    return n;
}

/* Stages that the nodes of a model are dealt to. */
static int64_t stages_of(const struct pdl_strategy *s)
{
    int64_t n = 1;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_PIPE)
                n = s->clause[c].term[t].size[0];
    return n;
}

/* A trace of something else: kernels that the network has no operator for, or
 * another number of products. Every linear layer and convolution is one in
 * forward and two in backward, once for each micro-batch; recomputation and
 * attention of single products add to them, a fused kernel takes some away. */
static bool is_other(const struct pdl_kineto *k, const struct cli_job *j,
                     char *why, size_t size)
{
    static const double FAR = 2.5;
    const struct pdl_model *m = j->model;
    int64_t conv = nodes_of(m, PDL_ID_CONV);
    double products = 3.0 * (double)(conv + nodes_of(m, PDL_ID_LINEAR)) *
                      (double)j->plan->micro_batches /
                      (double)stages_of(j->plan->strategy);
    double seen =
        (double)(calls_of(k, "matrix product") + calls_of(k, "convolution")) /
        (double)k->steps;

    why[0] = '\0';
    if (conv == 0 && calls_of(k, "convolution") > 0)
        snprintf(why, size, "the trace has convolutions, %s has none", m->name);
    else if (nodes_of(m, PDL_ID_ATTENTION) == 0 && calls_of(k, "attention") > 0)
        snprintf(why, size, "the trace has attention, %s has none", m->name);
    else if (k->marked && nodes_of(m, PDL_ID_EXPERTS) == 0 &&
             (seen > FAR * products || FAR * seen < products))
        snprintf(why, size,
                 "the trace has %.0f products and convolutions a step, %s as "
                 "projected about %.0f",
                 seen, m->name, products);
    return why[0] != '\0';
}

static void say_other(const struct pdl_kineto *k, const struct cli_job *j)
{
    char why[160], note[256];

    if (!is_other(k, j, why, sizeof why))
        return;
    snprintf(note, sizeof note,
             "%s: is it a trace of this model, batch and strategy?", why);
    cli_mark(CLI_WARN, "note:", note);
}

void cli_kineto_text(const struct pdl_kineto *k, const struct cli_job *j)
{
    struct pdl_kineto_row row[PDL_KINETO_ROWS];
    struct pdl_sink *out = cli_out();
    int n = pdl_kineto_join(k, &j->x, row);
    char a[32], b[32];

    pdl_printf(out, "\n%-24s %10s %10s %10s\n", "of a step", "PROJECTED",
               "MEASURED", "OFF");
    for (int i = 0; i < n; i++) {
        pdl_printf(out, "%-24s %10s %10s", row[i].name,
                   seconds(row[i].projected_s, a, sizeof a),
                   seconds(row[i].measured_s, b, sizeof b));
        if (row[i].measured_s > 0)
            pdl_printf(out, " %+8.1f %%",
                       100 * (row[i].projected_s / row[i].measured_s - 1));
        pdl_puts(out, "\n");
    }
    pdl_printf(out, "\n%-24s %10s %10s %10s\n", "measured", "TIME", "OF A STEP",
               "CALLS");
    for (int i = 0; i < k->nclasses; i++)
        if (k->of[i].calls > 0)
            pdl_printf(out, "%-24s %10s %8.1f %% %10lld\n", k->of[i].name,
                       seconds(k->of[i].seconds, a, sizeof a),
                       100 * k->of[i].seconds / k->step_s,
                       (long long)k->of[i].calls);
    if (k->marked)
        pdl_printf(out, "%lld steps in the trace\n", (long long)k->steps);
    else
        pdl_puts(out, "no steps are marked (profiler.step()): the whole trace "
                      "is taken as one\n");
    for (int i = 0; i < n; i++)
        say_idle(&row[i], k->step_s);
    say_other(k, j);
}

void cli_kineto_json(struct pdl_json *w, const struct pdl_kineto *k,
                     const struct cli_job *j)
{
    struct pdl_kineto_row row[PDL_KINETO_ROWS];
    int n = pdl_kineto_join(k, &j->x, row);
    char why[160];

    pdl_json_key(w, "kineto");
    pdl_json_object(w);
    pdl_json_kint(w, "steps", k->steps);
    pdl_json_kint(w, "events", k->events);
    pdl_json_kint(w, "kernels", k->kernels);
    if (is_other(k, j, why, sizeof why))
        pdl_json_kstr(w, "of_another", why);
    pdl_json_key(w, "phases");
    pdl_json_array(w);
    for (int i = 0; i < n; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "phase", row[i].name);
        pdl_json_knum(w, "projected_s", row[i].projected_s);
        pdl_json_knum(w, "measured_s", row[i].measured_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_key(w, "classes");
    pdl_json_array(w);
    for (int i = 0; i < k->nclasses; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "class", k->of[i].name);
        pdl_json_knum(w, "seconds", k->of[i].seconds);
        pdl_json_kint(w, "calls", k->of[i].calls);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_end(w);
}
