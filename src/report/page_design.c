/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of `paradl design`, to bring to a meeting: which design and how
 * sure, the front, all designs with their plans, where the money goes, what
 * would change the answer, and where every price comes from. */
#include "report_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_POINTS = 400, MOST_BARS = 16, MOST_EFFECTS = 16, MOST_ROWS = 200 };

struct look {
    struct report_page *p;
    const struct pdl_doc *designs, *best;
    const char *currency, *goal;
    bool rent;
};

static const char *amount(double v, char *buf, size_t size)
{
    return pdl_unit_format(v, PDL_UNIT_NONE, buf, size);
}

/* The largest unit of which the longest time has a few. */
static double time_unit(const struct pdl_doc *designs, struct report_reader *rd,
                        const char **name)
{
    static const struct {
        const char *name;
        double s;
    } units[] = {{"days", 86400}, {"hours", 3600}, {"minutes", 60}};
    double most = 0;

    for (const struct pdl_doc *d = designs->child; d; d = d->next)
        if (pdl_doc_get(d, "time_s"))
            most = fmax(most, report_get_num(rd, d, "time_s"));
    for (int i = 0; i < 3; i++)
        if (most >= 5 * units[i].s) {
            *name = units[i].name;
            return units[i].s;
        }
    *name = "seconds";
    return 1;
}

static const char *days(double s, char *buf, size_t size)
{
    if (s >= 2 * 86400)
        snprintf(buf, size, "%.3g d", s / 86400);
    else if (s >= 2 * 3600)
        snprintf(buf, size, "%.3g h", s / 3600);
    else
        pdl_unit_format(s, PDL_UNIT_SECONDS, buf, size);
    return buf;
}

/* What it grows to in the end. */
static const struct pdl_doc *last_stage(const struct pdl_doc *d)
{
    const struct pdl_doc *then = pdl_doc_get(d, "then");

    for (then = then ? then->child : NULL; then; then = then->next)
        d = then;
    return d;
}

/* ---- the question ------------------------------------------------------ */

static void workloads(struct look *l)
{
    static const struct report_column columns[] = {
        {"workload", false}, {"model", false}, {"batch", true},
        {"steps", true},     {"runs", true},   {"deadline", true}};
    struct report_page *p = l->p;
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "workloads");
    struct report_table t;
    char a[32];

    report_table_begin(&t, p->out, columns, 6);
    for (const struct pdl_doc *d = list ? list->child : NULL; d; d = d->next) {
        report_cell(&t, "%s", report_get_str(&p->rd, d, "name"));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "model"));
        report_cell(&t, "%.0f", report_get_num(&p->rd, d, "batch"));
        report_cell(&t, "%s",
                    amount(report_get_num(&p->rd, d, "steps"), a, sizeof a));
        report_cell(&t, "%g", report_get_num(&p->rd, d, "weight"));
        report_cell(
            &t, "%s",
            pdl_doc_get(d, "deadline_s")
                ? days(report_get_num(&p->rd, d, "deadline_s"), a, sizeof a)
                : "");
    }
    report_table_end(&t);
}

static void asked(struct look *l)
{
    struct report_page *p = l->p;
    char a[32];

    report_section(p->out, "asked", "What was asked?");
    workloads(l);
    if (l->rent)
        report_para(p->out, "Rented by the hour.");
    else
        report_para(p->out,
                    "Bought and paid off over %g years, of which %.0f %% are "
                    "used.",
                    report_get_num(&p->rd, p->doc, "years"),
                    100 * report_get_num(&p->rd, p->doc, "utilisation"));
    report_para(
        p->out, "Electricity of: %s. A node that fails %s%s.",
        report_get_str(&p->rd, p->doc, "region"),
        pdl_doc_get(p->doc, "repair_s") ? "is back after "
                                        : "is replaced at once",
        pdl_doc_get(p->doc, "repair_s")
            ? days(report_get_num(&p->rd, p->doc, "repair_s"), a, sizeof a)
            : "");
    report_section_end(p->out);
}

/* ---- the answer -------------------------------------------------------- */

static void answer(struct look *l)
{
    struct report_page *p = l->p;
    char a[32], b[32], c[32], e[32];
    double near = report_get_num(&p->rd, l->best, "near_best");
    const char *unpriced = report_opt_str(p->doc, "unpriced");

    report_section(p->out, "answer", "Which machine?");
    report_para(
        p->out, "%s: %s for the mix, %s %s, %s MWh, %s t of CO2.",
        report_get_str(&p->rd, l->best, "name"),
        days(report_get_num(&p->rd, l->best, "time_s"), a, sizeof a),
        amount(report_get_num(&p->rd, l->best, "cost"), b, sizeof b),
        l->currency,
        amount(report_get_num(&p->rd, l->best, "energy_kwh") / 1e3, c,
               sizeof c),
        amount(report_get_num(&p->rd, l->best, "co2_kg") / 1e3, e, sizeof e));
    if (report_get_bool(&p->rd, p->doc, "tie"))
        report_para(p->out,
                    "A tie: when prices and projections are drawn anew from "
                    "their intervals, it is within 5 %% of the best in %.0f "
                    "%% of draws only. The table says who wins how often.",
                    100 * near);
    else
        report_para(p->out,
                    "When prices and projections are drawn anew from their "
                    "intervals, it is within 5 %% of the best in %.0f %% of "
                    "draws.",
                    100 * near);
    if (pdl_doc_get(l->best, "break_even_utilisation"))
        report_para(
            p->out,
            "Rented it would cost %s %s; buying is cheaper above a utilisation "
            "of %.0f %%.",
            amount(report_get_num(&p->rd, l->best, "rent_cost"), a, sizeof a),
            l->currency,
            100 * report_get_num(&p->rd, l->best, "break_even_utilisation"));
    if (unpriced && *unpriced)
        report_para(p->out, "What is set costs nothing here: %s.", unpriced);
    if (report_get_bool(&p->rd, p->doc, "stopped"))
        report_para(p->out, "The sweep was stopped: designs are missing.");
    report_section_end(p->out);
}

/* ---- the front --------------------------------------------------------- */

static void front(struct look *l)
{
    struct report_page *p = l->p;
    struct report_point *points =
        PDL_NEW(p->arena, struct report_point, MOST_POINTS);
    char *title =
        pdl_arena_printf(p->arena, "cost of the mix, %s", l->currency);
    const char *unit;
    double unit_s = time_unit(l->designs, &p->rd, &unit);
    char *time = pdl_arena_printf(p->arena, "time of the mix, %s", unit);
    struct report_scatter c = {
        .id = "front-chart",
        .label = "time of the mix against its cost, a point a design",
        .x = {.title = time, .unit = PDL_UNIT_NONE, .log = true, .tight = true},
        .y = {.title = title, .log = true, .tens = true, .tight = true},
        .points = points};

    for (const struct pdl_doc *d = points && time ? l->designs->child : NULL;
         d && c.n < MOST_POINTS; d = d->next) {
        bool fits = report_get_bool(&p->rd, d, "feasible");
        bool ring = report_get_bool(&p->rd, d, "front");

        if (!pdl_doc_get(d, "time_s"))
            continue;
        points[c.n++] = (struct report_point){
            .name = report_get_str(&p->rd, d, "name"),
            .x = report_get_num(&p->rd, d, "time_s") / unit_s,
            .y = report_get_num(&p->rd, d, "cost"),
            .ring = ring,
            .number = (int)report_get_num(&p->rd, d, "rank"),
            .grey = !fits || !ring};
    }
    if (c.n == 0 || p->rd.st != PDL_OK)
        return;
    report_section(p->out, "front", "What can be had?");
    report_para(p->out,
                "Large, with their numbers in the table: no other design "
                "is better in time, cost and energy together. Grey: "
                "one is, or a constraint is broken.");
    report_scatter(p->out, &c);
    report_section_end(p->out);
}

/* ---- all designs ------------------------------------------------------- */

/* The plans of its workloads. */
static const char *plans_of(struct look *l, const struct pdl_doc *d)
{
    const struct pdl_doc *runs = report_get_list(&l->p->rd, d, "runs");
    const char *text = "";

    for (const struct pdl_doc *r = runs ? runs->child : NULL; r && text;
         r = r->next)
        text = pdl_arena_printf(l->p->arena, "%s%s%s", text, *text ? "; " : "",
                                report_get_str(&l->p->rd, r, "strategy"));
    return text ? text : "";
}

static void design_row(struct look *l, const struct pdl_doc *d,
                       struct report_table *t)
{
    struct report_page *p = l->p;
    const struct pdl_doc *bill = report_get_map(&p->rd, last_stage(d), "bill");
    const char *excluded = report_opt_str(d, "excluded");
    char a[32];

    report_cell(t, "%.0f", report_get_num(&p->rd, d, "rank"));
    report_cell(t, "%s%s", report_get_str(&p->rd, d, "name"),
                report_get_bool(&p->rd, d, "front") ? " *" : "");
    if (!pdl_doc_get(d, "time_s")) {
        for (int i = 0; i < 5; i++)
            report_cell(t, "%s", "");
        report_cell(t, "%s", "no plan for every workload");
        report_cell(t, "%s", "");
        return;
    }
    report_cell(t, "%s",
                days(report_get_num(&p->rd, d, "time_s"), a, sizeof a));
    report_cell(t, "%s",
                amount(report_get_num(&p->rd, d, "cost"), a, sizeof a));
    report_cell(
        t, "%s",
        amount(report_get_num(&p->rd, d, "energy_kwh") / 1e3, a, sizeof a));
    report_cell_unit(t, bill ? report_get_num(&p->rd, bill, "facility_w") : 0,
                     PDL_UNIT_WATT);
    report_cell(t, "%.0f %%", 100 * report_get_num(&p->rd, d, "wins"));
    report_cell(t, "%s", excluded ? excluded : "");
    report_cell(t, "%s", plans_of(l, d));
}

static void table(struct look *l)
{
    static const struct report_column columns[] = {
        {"", true},     {"design", false}, {"time", true},
        {"cost", true}, {"MWh", true},     {"power", true},
        {"wins", true}, {"breaks", false}, {"plans", false}};
    struct report_table t;
    int n = 0;

    report_section(l->p->out, "designs", "All designs");
    report_table_begin(&t, l->p->out, columns, 9);
    for (const struct pdl_doc *d = l->designs->child; d && n < MOST_ROWS;
         d = d->next, n++)
        design_row(l, d, &t);
    report_table_end(&t);
    if (n < l->designs->count)
        report_para(l->p->out, "And %d more, in --csv and --json.",
                    l->designs->count - n);
    report_section_end(l->p->out);
}

/* Of a machine; when: from what time on it is that, or "". */
static void plan_rows(struct look *l, const struct pdl_doc *at,
                      const char *when, struct report_table *t)
{
    struct report_page *p = l->p;
    const struct pdl_doc *runs = report_get_list(&p->rd, at, "runs");
    char a[32];

    for (const struct pdl_doc *r = runs ? runs->child : NULL; r; r = r->next) {
        report_cell(t, "%s%s", report_get_str(&p->rd, r, "workload"), when);
        report_cell(t, "%s", report_get_str(&p->rd, r, "strategy"));
        report_cell_unit(t, report_get_num(&p->rd, r, "step_s"),
                         PDL_UNIT_SECONDS);
        report_cell(t, "%s",
                    days(report_get_num(&p->rd, r, "train_s"), a, sizeof a));
        report_cell(t, "%.1f %%", 100 * report_get_num(&p->rd, r, "goodput"));
        report_cell(t, "%s",
                    amount(report_get_num(&p->rd, r, "cost"), a, sizeof a));
        report_cell(
            t, "%s",
            amount(report_get_num(&p->rd, r, "energy_kwh") / 1e3, a, sizeof a));
    }
}

static void plans(struct look *l)
{
    static const struct report_column columns[] = {
        {"workload", false}, {"plan", false}, {"step", true}, {"run", true},
        {"progress", true},  {"cost", true},  {"MWh", true}};
    struct report_page *p = l->p;
    const struct pdl_doc *then = pdl_doc_get(l->best, "then");
    struct report_table t;
    char when[64], a[32];

    report_section(p->out, "plans", "What runs on it?");
    report_table_begin(&t, p->out, columns, 7);
    plan_rows(l, l->best, "", &t);
    for (const struct pdl_doc *d = then ? then->child : NULL; d; d = d->next) {
        snprintf(when, sizeof when, ", %lld PEs from %s on",
                 (long long)report_get_num(&p->rd, d, "pes"),
                 days(report_get_num(&p->rd, d, "after_s"), a, sizeof a));
        if (report_get_num(&p->rd, d, "part") > 0)
            plan_rows(l, d, when, &t);
    }
    report_table_end(&t);
    report_section_end(p->out);
}

/* ---- money --------------------------------------------------------------- */

/* Of the mix on the best: hours of what was bought, and what it draws. */
static void spent(struct look *l)
{
    static const char *const names[] = {"nodes", "network", "racks", "building",
                                        "electricity"};
    static const struct report_column columns[] = {
        {"of the cost of the mix", false}, {"", true}, {"part", true}};
    struct report_page *p = l->p;
    const struct pdl_doc *bill = report_get_map(&p->rd, l->best, "bill");
    double years = report_get_num(&p->rd, p->doc, "years"), part[5], used;
    double cost = report_get_num(&p->rd, l->best, "cost");
    struct report_table t;
    char a[32];

    if (!bill || pdl_doc_get(l->best, "then") || !(cost > 0))
        return;
    used = report_get_num(&p->rd, l->best, "time_s") / 3600 /
           (8766 * report_get_num(&p->rd, p->doc, "utilisation"));
    part[0] = report_get_num(&p->rd, bill, "nodes_cost") / years * used;
    part[1] = (report_get_num(&p->rd, bill, "switch_cost") +
               report_get_num(&p->rd, bill, "cable_cost")) /
              years * used;
    part[2] = report_get_num(&p->rd, bill, "rack_cost") / years * used;
    part[3] = report_get_num(&p->rd, bill, "facility_cost_per_year") * used;
    part[4] = cost - part[0] - part[1] - part[2] - part[3];
    report_table_begin(&t, p->out, columns, 3);
    for (int i = 0; i < 5; i++) {
        report_cell(&t, "%s", names[i]);
        report_cell(&t, "%s", amount(part[i], a, sizeof a));
        report_cell(&t, "%.1f %%", 100 * part[i] / cost);
    }
    report_table_end(&t);
}

static void money(struct look *l)
{
    static const char *const names[] = {"nodes", "switches",
                                        "cables and optics", "racks"};
    static const char *const keys[] = {"nodes_cost", "switch_cost",
                                       "cable_cost", "rack_cost"};
    struct report_page *p = l->p;
    struct report_bar bars[MOST_BARS] = {{.label = NULL}};
    int n = 0;

    for (const struct pdl_doc *d = l->designs->child; d && n < MOST_BARS;
         d = d->next) {
        const struct pdl_doc *bill =
            report_get_map(&p->rd, last_stage(d), "bill");

        if (!bill || !report_get_bool(&p->rd, d, "feasible"))
            continue;
        bars[n].label = report_get_str(&p->rd, d, "name");
        for (int k = 0; k < 4; k++)
            bars[n].parts[k] = report_get_num(&p->rd, bill, keys[k]);
        n++;
    }
    if (l->rent || n == 0 || p->rd.st != PDL_OK)
        return;
    report_section(p->out, "money", "Where does the money go?");
    report_bars(p->out, &(struct report_bars){
                            .id = "money-chart",
                            .label = "capital of the best designs, stacked",
                            .title = "capital",
                            .unit = PDL_UNIT_NONE,
                            .parts = names,
                            .nparts = 4,
                            .bars = bars,
                            .nbars = n,
                        });
    spent(l);
    report_section_end(p->out);
}

static void materials(struct look *l)
{
    static const struct {
        const char *key, *name;
        enum pdl_unit unit;
    } rows[] = {{"nodes", "nodes", PDL_UNIT_NONE},
                {"spare_nodes", "spare nodes", PDL_UNIT_NONE},
                {"racks", "racks", PDL_UNIT_NONE},
                {"planes", "planes of the network", PDL_UNIT_NONE},
                {"switches", "switches", PDL_UNIT_NONE},
                {"ports", "switch ports", PDL_UNIT_NONE},
                {"near_cables", "cables of up to 3 m", PDL_UNIT_NONE},
                {"far_cables", "longer cables", PDL_UNIT_NONE},
                {"far_m", "their length", PDL_UNIT_METRE},
                {"optics", "transceivers", PDL_UNIT_NONE},
                {"nodes_w", "power of the nodes, at most", PDL_UNIT_WATT},
                {"network_w", "power of the network", PDL_UNIT_WATT},
                {"facility_w", "with cooling", PDL_UNIT_WATT},
                {"capital", "capital", PDL_UNIT_NONE}};
    static const struct report_column columns[] = {{"", false}, {"", true}};
    struct report_page *p = l->p;
    const struct pdl_doc *bill =
        report_get_map(&p->rd, last_stage(l->best), "bill");
    struct report_table t;

    if (!bill)
        return;
    report_section(p->out, "bill", "Bill of materials");
    report_table_begin(&t, p->out, columns, 2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        report_cell(&t, "%s", rows[i].name);
        report_cell_unit(&t, report_get_num(&p->rd, bill, rows[i].key),
                         rows[i].unit);
    }
    report_table_end(&t);
    report_section_end(p->out);
}

/* ---- what would change it ------------------------------------------------ */

/* What saves: a price that falls saves what it costs more when it rises. */
static void changes(struct look *l)
{
    struct report_page *p = l->p;
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "changes");
    struct report_effect effects[MOST_EFFECTS];
    int n = 0;

    for (const struct pdl_doc *d = list ? list->child : NULL;
         d && n < MOST_EFFECTS; d = d->next) {
        const char *what = report_get_str(&p->rd, d, "what");
        double ratio = report_get_num(&p->rd, d, "ratio");
        const char *plus = strstr(what, " +10 %");

        if (fabs(ratio - 1) < 5e-5)
            continue;
        effects[n++] = (struct report_effect){
            ratio < 1 || !plus ? what
                               : pdl_arena_printf(p->arena, "%.*s -10 %%",
                                                  (int)(plus - what), what),
            ratio < 1 ? ratio : 2 - ratio};
    }
    if (n == 0 || p->rd.st != PDL_OK)
        return;
    report_section(p->out, "changes", "What is worth how much?");
    report_tornado(p->out, &(struct report_tornado){
                               .id = "changes-chart",
                               .label = "the goal after a change of 10 %",
                               .title = l->goal,
                               .less = "less",
                               .unit = PDL_UNIT_NONE,
                               .today = 1,
                               .effects = effects,
                               .n = n});
    report_section_end(p->out);
}

/* What keeps designs out. */
static void limits(struct look *l)
{
    static const struct report_column columns[] = {{"constraint", false},
                                                   {"allows", true},
                                                   {"designs break it", true},
                                                   {"and no other", true},
                                                   {"the nearest by", true}};
    struct report_page *p = l->p;
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "limits");
    struct report_table t;
    char a[32];

    report_section(p->out, "limits", "What keeps designs out?");
    report_para(p->out,
                "Where prices and projections are drawn anew, the best keeps "
                "all of these in %.0f %% of draws.",
                100 * report_get_num(&p->rd, l->best, "keeps"));
    report_table_begin(&t, p->out, columns, 5);
    for (const struct pdl_doc *d = list ? list->child : NULL; d; d = d->next) {
        const char *name = report_get_str(&p->rd, d, "limit");
        double allowed = report_get_num(&p->rd, d, "allowed");

        report_cell(&t, "%s", name);
        if (strncmp(name, "deadline", 8) == 0)
            report_cell(&t, "%s", days(allowed, a, sizeof a));
        else if (strstr(name, "power"))
            report_cell_unit(&t, allowed, PDL_UNIT_WATT);
        else
            report_cell(&t, "%s", amount(allowed, a, sizeof a));
        report_cell(&t, "%.0f", report_get_num(&p->rd, d, "broken"));
        report_cell(&t, "%.0f", report_get_num(&p->rd, d, "alone"));
        if (pdl_doc_get(d, "nearest"))
            report_cell(&t, "%.3g %%",
                        100 * (report_get_num(&p->rd, d, "nearest") - 1));
        else
            report_cell(&t, "%s", "");
    }
    report_table_end(&t);
    report_section_end(p->out);
}

static void flips(struct look *l)
{
    static const struct report_column columns[] = {
        {"if this is off", false}, {"by", true}, {"then", false}};
    struct report_page *p = l->p;
    const struct pdl_doc *list = report_get_list(&p->rd, p->doc, "flips");
    struct report_table t;

    if (!list || !list->child)
        return;
    report_section(p->out, "flips", "What would change the answer?");
    report_table_begin(&t, p->out, columns, 3);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        report_cell(&t, "%s", report_get_str(&p->rd, d, "what"));
        report_cell(&t, "%+.1f %%",
                    100 * (report_get_num(&p->rd, d, "factor") - 1));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "winner"));
    }
    report_table_end(&t);
    report_section_end(p->out);
}

static void sources(struct look *l, const struct pdl_doc *prices)
{
    static const struct report_column columns[] = {
        {"item", false}, {"value", true}, {"from", true},   {"to", true},
        {"kind", false}, {"date", false}, {"source", false}};
    struct report_page *p = l->p;
    const struct pdl_doc *items = report_get_list(&p->rd, prices, "items");
    struct report_table t;

    report_section(p->out, "prices", "Prices and other figures");
    report_table_begin(&t, p->out, columns, 7);
    for (const struct pdl_doc *d = items ? items->child : NULL; d;
         d = d->next) {
        report_cell(&t, "%s", report_get_str(&p->rd, d, "item"));
        report_cell(&t, "%g", report_get_num(&p->rd, d, "value"));
        report_cell(&t, "%g", report_get_num(&p->rd, d, "low"));
        report_cell(&t, "%g", report_get_num(&p->rd, d, "high"));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "kind"));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "date"));
        report_cell(&t, "%s", report_get_str(&p->rd, d, "source"));
    }
    report_table_end(&t);
    report_section_end(p->out);
}

static void write_page(struct report_page *p)
{
    static const char *const assumptions[] = {
        "Every plan is the best of the search of its design, or within the "
        "stated gap of a bound.",
        "Time includes interruptions, checkpoints and restarts; energy "
        "includes cooling.",
        "Levels of networks that nobody measured follow from their shape "
        "(doc/design.md).",
        NULL};
    struct look l = {.p = p};
    const struct pdl_doc *prices = report_get_map(&p->rd, p->doc, "prices");
    const char *name = report_get_str(&p->rd, p->doc, "name");

    l.designs = report_get_list(&p->rd, p->doc, "designs");
    l.goal = report_get_str(&p->rd, p->doc, "goal");
    l.rent = strcmp(report_get_str(&p->rd, p->doc, "money"), "rent") == 0;
    l.currency = prices ? report_get_str(&p->rd, prices, "currency") : "";
    l.best = l.designs ? l.designs->child : NULL;
    report_head(p->out, name);
    if (prices && l.best && pdl_doc_get(l.best, "near_best")) {
        answer(&l);
        asked(&l);
        front(&l);
        plans(&l);
        table(&l);
        money(&l);
        materials(&l);
        changes(&l);
        flips(&l);
        limits(&l);
        sources(&l, prices);
    }
    p->assumptions = assumptions;
}

const struct report_page_kind report_page_design = {"design", write_page};
