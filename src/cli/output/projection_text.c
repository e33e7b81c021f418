/* SPDX-License-Identifier: Apache-2.0
 *
 * A projection for people: the time of a step by phase, what the network does
 * meanwhile, the memory of a PE, and what the numbers rest on. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

static void line(const char *name, double v, enum pdl_unit unit, double share)
{
    char buf[32];

    pdl_printf(cli_out(), "  %-22s %12s", name,
               pdl_unit_format(v, unit, buf, sizeof buf));
    if (share >= 0)
        pdl_printf(cli_out(), "  %5.1f %%", 100 * share);
    pdl_puts(cli_out(), "\n");
}

static void print_times(const struct cli_job *j)
{
    const struct pdl_projection *x = &j->x;
    const struct {
        const char *name;
        double s;
    } rows[] = {
        {"forward", x->forward_s},
        {"backward", x->backward_s},
        {"recompute", x->recompute_s},
        {"update", x->update_s},
        {"exposed communication", x->exposed_comm_s},
        {"pipeline bubble", x->bubble_s},
        {pdl_strategy_hosts_states(j->plan->strategy) ||
                 pdl_strategy_offloads(j->plan->strategy)
             ? "input, offload copies"
             : "input",
         x->io_s},
    };
    const struct {
        const char *name;
        double s;
    } busy[] = {
        {"gradient exchange", x->gradient_comm_s},
        {"layer collectives", x->layer_comm_s},
        {"halo exchange", x->halo_s},
        {"stage to stage", x->p2p_s},
    };

    line("step", x->step_s, PDL_UNIT_SECONDS, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].s > 0)
            line(rows[i].name, rows[i].s, PDL_UNIT_SECONDS,
                 rows[i].s / x->step_s);
    cli_head("Network busy");
    for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++)
        if (busy[i].s > 0)
            line(busy[i].name, busy[i].s, PDL_UNIT_SECONDS, -1);
}

static void print_interval(const struct cli_job *j)
{
    struct pdl_projection x = j->x;
    char low[32], high[32];

    pdl_interval(j->plan, &j->sys, &j->oracle, &x);
    if (x.low_s > 0)
        pdl_printf(
            cli_out(), "80 %% of steps between %s and %s\n",
            pdl_unit_format(x.low_s, PDL_UNIT_SECONDS, low, sizeof low),
            pdl_unit_format(x.high_s, PDL_UNIT_SECONDS, high, sizeof high));
}

static void print_evidence(const struct cli_job *j)
{
    struct pdl_evidence e;
    char text[256];

    cli_evidence(j, &e, text, sizeof text);
    if (text[0])
        cli_say(2, "%s", text);
}

static void print_bill(const struct cli_job *j)
{
    struct pdl_bill bill;

    pdl_project_bill(&j->x, &j->sys, &bill);
    if (bill.energy_j > 0)
        pdl_printf(cli_out(), "%s%.3g kJ a step", bill.upper_bound ? "<= " : "",
                   bill.energy_j / 1e3);
    if (bill.cost > 0)
        pdl_printf(cli_out(), "%scost of 1000 steps %.3g %s",
                   bill.energy_j > 0 ? ", " : "", 1e3 * bill.cost,
                   j->sys.currency ? j->sys.currency : "");
    if (bill.energy_j > 0 || bill.cost > 0)
        pdl_puts(cli_out(), "\n");
}

static void print_swapped(const struct cli_job *j)
{
    struct pdl_sink *out = cli_out();
    struct pdl_buf text;

    pdl_buf_init(&text);
    pdl_strategy_print(&j->strategy, &text.sink);
    pdl_puts(out, "Swapped: ");
    pdl_wrap(out, text.text ? text.text : "", 2, 9);
    pdl_buf_free(&text);
}

/* Equal but for numbers: said of another layer. */
static bool is_alike(const char *a, const char *b)
{
    while (*a && *b) {
        size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");

        if ((n > 0) != (m > 0) || (n == 0 && *a != *b))
            return false;
        a += n > 0 ? n : 1;
        b += m > 0 ? m : 1;
    }
    return *a == *b;
}

/* Of these from one on, how many say the same; 0: one before it does. */
static int count_alike(const struct pdl_plan *p, int of)
{
    int n = 0;

    for (int i = 0; i < p->nfallbacks; i++)
        if (is_alike(p->fallbacks[of], p->fallbacks[i])) {
            if (i < of)
                return 0;
            n++;
        }
    return n;
}

/* What an axis does not cut, once for layers that are alike. */
static void print_fallbacks(const struct pdl_plan *p)
{
    enum { MOST = 8 };
    int said = 0;

    for (int i = 0; i < p->nfallbacks && said < MOST; i++) {
        int n = count_alike(p, i);
        char note[160];

        if (n == 0)
            continue;
        snprintf(note, sizeof note, n > 1 ? "%s (of %d layers)" : "%s",
                 p->fallbacks[i], n);
        cli_mark(CLI_WARN, "note:", note);
        said++;
    }
}

void cli_job_text(const struct cli_job *j)
{
    const struct pdl_projection *x = &j->x;
    struct pdl_sink *out = cli_out();
    struct cli_notes notes;

    cli_say(2, "%s, batch %lld, on %lld PE%s of %s (%s, %s)", j->model->name,
            (long long)x->batch, (long long)x->pes, x->pes == 1 ? "" : "s",
            j->sys.name, pdl_precision_name(j->oracle.precision),
            j->oracle.parameters == PDL_IDEAL ? "ideal" : "empirical");
    if (j->asked.swap)
        print_swapped(j);
    cli_head("Time of a step");
    print_times(j);
    print_interval(j);
    print_evidence(j);
    cli_contention_text(j);
    cli_head("Memory of a PE");
    line("weights", (double)x->weights_bytes, PDL_UNIT_BYTES, -1);
    line("gradients", (double)x->gradients_bytes, PDL_UNIT_BYTES, -1);
    line("optimizer", (double)x->optimizer_bytes, PDL_UNIT_BYTES, -1);
    line("activations", (double)x->activations_bytes, PDL_UNIT_BYTES, -1);
    line("peak", (double)x->peak_bytes, PDL_UNIT_BYTES,
         (double)x->peak_bytes / (double)x->capacity_bytes);
    if (x->gamma > 0)
        pdl_printf(out, "  %-24s %10.2f\n", "reuse (gamma)", x->gamma);
    if (x->host_bytes > 0)
        line("on the host", (double)x->host_bytes, PDL_UNIT_BYTES, -1);
    if (!x->feasible)
        cli_mark(CLI_BAD, "DOES NOT FIT:", x->reason);
    pdl_printf(out, "%.1f samples/s, %.1f %% of the peak FLOP/s\n",
               x->samples_per_s, 100 * x->mfu);
    print_bill(j);
    cli_outofcore_text(j);
    cli_explain_text(j);
    cli_job_notes(j, &notes);
    cli_notes_text(&notes);
    print_fallbacks(j->plan);
}
