/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranked plans as a table. Strategies are never cut: without their middle,
 * ten of them would look alike. */
#include "cli/output/projection.h"

static const char *seconds(double v, char *buf)
{
    return v > 0 ? pdl_unit_format(v, PDL_UNIT_SECONDS, buf, 32) : "-";
}

/* What is ranked by has the last column. */
static void last_cell(struct pdl_table *t, const struct pdl_projection *x,
                      const struct pdl_system *sys, enum pdl_goal goal)
{
    struct pdl_bill bill;

    pdl_project_bill(x, sys, &bill);
    if (goal == PDL_GOAL_ENERGY)
        pdl_table_cell(t, "%.4g kJ", bill.energy_j / 1e3);
    else if (goal == PDL_GOAL_COST)
        pdl_table_cell(t, "%.4g%s%s", bill.cost, sys->currency ? " " : "",
                       sys->currency ? sys->currency : "");
    else
        pdl_table_cell(t,
                       x->samples_per_s < 10    ? "%.2f"
                       : x->samples_per_s < 100 ? "%.1f"
                                                : "%.0f",
                       x->samples_per_s);
}

static void add_row(struct pdl_table *t, const struct pdl_found *f,
                    const struct pdl_system *sys, enum pdl_goal goal, bool best,
                    bool ranked, bool runs)
{
    struct pdl_projection own = f->x;
    const struct pdl_projection *x = &own;
    char buf[32];

    if (f->anchored_s > 0) {
        own.samples_per_s *= own.step_s / f->anchored_s;
        own.step_s = f->anchored_s;
    }
    pdl_table_cell(t, "%s",
                   !x->feasible  ? "x"
                   : best        ? "*"
                   : f->tie == 1 ? "="
                                 : "");
    pdl_table_cell(t, "%s", f->strategy);
    pdl_table_cell(t, "%s", seconds(x->step_s, buf));
    if (ranked)
        pdl_table_cell(t, "%s", seconds(f->high_s, buf));
    if (!runs) /* for both there is no room */
        pdl_table_cell(t, "%s", seconds(x->compute_s, buf));
    pdl_table_cell(t, "%s", seconds(x->exposed_comm_s, buf));
    pdl_table_cell(t, "%s", seconds(x->bubble_s, buf));
    pdl_table_cell(t, "%s",
                   pdl_unit_format((double)x->peak_bytes, PDL_UNIT_BYTES, buf,
                                   sizeof buf));
    last_cell(t, x, sys, goal);
    if (runs)
        pdl_table_cell(t, "%d", f->runs);
}

void cli_plans_text(pdl_arena *a, const struct pdl_found *list, int show,
                    const struct pdl_system *sys, enum pdl_goal goal)
{
    struct pdl_column all[] = {
        {"", false},      {"STRATEGY", false}, {"STEP", true},
        {"UP TO", true},  {"COMPUTE", true},   {"EXPOSED", true},
        {"BUBBLE", true}, {"MEMORY", true},    {"SAMPLES/S", true},
        {"RUNS", true},
    };
    struct pdl_column columns[sizeof all / sizeof all[0]];
    bool ranked = show > 0 && list[0].tie > 0, runs = false;
    struct pdl_table t;
    int n = 0;

    if (goal == PDL_GOAL_ENERGY || goal == PDL_GOAL_COST)
        all[8].title = goal == PDL_GOAL_COST ? "COST" : "ENERGY";
    for (int i = 0; i < show; i++)
        runs = runs || list[i].runs > 0;
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
        if ((ranked || i != 3) && (runs ? i != 4 : i != 9))
            columns[n++] = all[i];
    pdl_table_init(&t, a, columns, n);
    t.whole = 2;
    for (int i = 0; i < show; i++)
        add_row(&t, &list[i], sys, goal, i == 0, ranked, runs);
    cli_marked_table(&t);
}
