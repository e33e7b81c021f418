/* SPDX-License-Identifier: Apache-2.0
 *
 * plan --against: what is run today beside the best, part by part, and whether
 * projections can tell the two apart. */
#include "cli/output/projection.h"

#include <math.h>
#include <stdio.h>

#define AT(field) offsetof(struct pdl_projection, field)
static const struct part {
    const char *name, *key;
    size_t at;
} parts[] = {
    {"computation", "compute_s", AT(compute_s)},
    {"exposed communication", "exposed_comm_s", AT(exposed_comm_s)},
    {"bubble", "bubble_s", AT(bubble_s)},
    {"I/O and copies", "io_s", AT(io_s)},
};
#undef AT
enum { NPARTS = sizeof parts / sizeof parts[0] };

static double part(const struct part *p, const struct pdl_projection *x)
{
    return *(const double *)(const void *)((const char *)x + p->at);
}

/* What the framework or its launch file lacks for it; empty: nothing. */
static void lacks(const struct pdl_framework *f, const char *strategy,
                  struct pdl_err *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;

    *out = (struct pdl_err){"", ""};
    if (a && pdl_strategy_parse(a, strategy, &s, NULL) == PDL_OK)
        (void)pdl_framework_plans(f, &s, out);
    pdl_arena_destroy(a);
}

/* As own runs have it, where both are anchored to some. */
static double longer_by(const struct pdl_found *mine,
                        const struct pdl_found *best)
{
    bool own = mine->anchored_s > 0 && best->anchored_s > 0;

    return own ? mine->anchored_s / best->anchored_s - 1
               : mine->x.step_s / best->x.step_s - 1;
}

static const char *verdict(const struct pdl_found *mine,
                           const struct pdl_found *best)
{
    double by = longer_by(mine, best);

    if (!mine->x.feasible)
        return "but it does not fit";
    if (fabs(by) <= PDL_TIE)
        return "as good: projections cannot tell the two apart";
    if (by < 0)
        return "shorter, but it was not searched or is less sure";
    return (mine->anchored_s > 0 ? mine->anchored_s : mine->x.step_s) >
                   best->high_s
               ? "longer, and by more than the best is unsure of"
               : "longer; within what the best is unsure of, so try both";
}

void cli_against_text(const struct pdl_found *mine,
                      const struct pdl_found *best,
                      const struct pdl_framework *f)
{
    double by = longer_by(mine, best);
    char step[32], peak[32], capacity[32];
    struct pdl_err lack;

    lacks(f, mine->strategy, &lack);
    cli_say(2, "against %s", mine->strategy);
    cli_say(10, "  step    %s, %+.1f %%: %s",
            pdl_unit_format(
                mine->anchored_s > 0 ? mine->anchored_s : mine->x.step_s,
                PDL_UNIT_SECONDS, step, sizeof step),
            100 * by, verdict(mine, best));
    for (int i = 0; i < NPARTS; i++) {
        double more = part(&parts[i], &mine->x) - part(&parts[i], &best->x);

        if (fabs(more) >= .005 * best->x.step_s)
            cli_say(10, "          %s %s of %s",
                    pdl_unit_format(fabs(more), PDL_UNIT_SECONDS, step,
                                    sizeof step),
                    more > 0 ? "more" : "less", parts[i].name);
    }
    cli_say(10, "  memory  %s of %s%s",
            pdl_unit_format((double)mine->x.peak_bytes, PDL_UNIT_BYTES, peak,
                            sizeof peak),
            pdl_unit_format((double)mine->x.capacity_bytes, PDL_UNIT_BYTES,
                            capacity, sizeof capacity),
            mine->x.feasible ? "" : ": does not fit (with the headroom)");
    cli_say(10, "  runs    %d measured like it, %d like the best", mine->runs,
            best->runs);
    if (*lack.msg)
        cli_say(10, "  note    %s", lack.msg);
}

void cli_against_json(struct pdl_json *w, const struct pdl_found *mine,
                      const struct pdl_found *best,
                      const struct pdl_framework *f)
{
    struct pdl_err lack;

    lacks(f, mine->strategy, &lack);
    pdl_json_key(w, "against");
    pdl_json_object(w);
    pdl_json_kstr(w, "strategy", mine->strategy);
    pdl_json_kbool(w, "feasible", mine->x.feasible);
    pdl_json_knum(w, "step_s", mine->x.step_s);
    pdl_json_knum(w, "upper_s", mine->high_s);
    pdl_json_kint(w, "peak_bytes", mine->x.peak_bytes);
    pdl_json_kint(w, "measured_runs", mine->runs);
    if (mine->anchored_s > 0)
        pdl_json_knum(w, "anchored_s", mine->anchored_s);
    pdl_json_knum(w, "slower_by", longer_by(mine, best));
    pdl_json_kbool(w, "tie", fabs(longer_by(mine, best)) <= PDL_TIE);
    for (int i = 0; i < NPARTS; i++)
        pdl_json_knum(w, parts[i].key, part(&parts[i], &mine->x));
    pdl_json_kstr(w, "lacks", lack.msg);
    pdl_json_end(w);
}
