/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of `paradl design` for people. */
#include "cli/output/design.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CHANGES = 8, MOST_FLIPS = 6 };

#define SAFE 0.8 /* of draws */

static const char *num(double v, char *buf, size_t size)
{
    return pdl_unit_format(v, PDL_UNIT_NONE, buf, size);
}

static const char *seconds(double v, char *buf, size_t size)
{
    if (v >= 2 * 86400)
        snprintf(buf, size, "%.3g d", v / 86400);
    else if (v >= 2 * 3600)
        snprintf(buf, size, "%.3g h", v / 3600);
    else
        pdl_unit_format(v, PDL_UNIT_SECONDS, buf, size);
    return buf;
}

static void row(struct pdl_table *t, const struct pdl_designs *d, int rank)
{
    const struct pdl_design_point *p = &d->point[d->order[rank]], *end = p;
    char a[32];

    while (end->text->then > 0) /* what it draws in the end */
        end = &d->point[end->text->then];

    pdl_table_cell(t, "%s", p->front ? "*" : "");
    pdl_table_cell(t, "%s", p->text->label);
    pdl_table_cell(t, "%s", seconds(p->time_s, a, sizeof a));
    pdl_table_cell(t, "%s", num(p->cost, a, sizeof a));
    pdl_table_cell(t, "%s", num(p->kwh * 1e3, a, sizeof a));
    pdl_table_cell(t, "%s", num(p->co2_kg / 1e3, a, sizeof a));
    pdl_table_cell(
        t, "%s",
        pdl_unit_format(end->bill.facility_w, PDL_UNIT_WATT, a, sizeof a));
    pdl_table_cell(t, "%.0f %%", 100 * p->wins);
}

static void table(pdl_arena *a, const struct pdl_designs *d, int top)
{
    char cost[32];
    const struct pdl_column columns[] = {
        {"", false},  {"DESIGN", false}, {"TIME", true},  {cost, true},
        {"Wh", true}, {"t CO2", true},   {"POWER", true}, {"WINS", true}};
    struct pdl_table t;
    int n = d->nfit < top ? d->nfit : top;

    snprintf(cost, sizeof cost, "%.8s", d->prices.currency);
    pdl_table_init(&t, a, columns, 8);
    t.whole = 2;
    for (int i = 0; i < n; i++)
        row(&t, d, i);
    if (n > 0)
        pdl_table_print(&t, cli_text_width(), cli_out());
    if (n < d->nfit)
        cli_say(2, "%d more keep the constraints (--top)", d->nfit - n);
}

/* What would let others in. */
static void limits(const struct pdl_designs *d)
{
    for (int k = 0; k < d->nlimits; k++) {
        const struct pdl_design_limit *l = &d->limit[k];

        if (l->alone > 0)
            cli_say(4,
                    "  %s keeps out %d that keep the rest, the nearest by "
                    "%.3g %%",
                    l->name, l->alone, 100 * (l->nearest - 1));
    }
}

static void counts(const struct pdl_designs *d)
{
    int broken = 0, without = 0, open = 0;

    for (int i = 0; i < d->n; i++) {
        const struct pdl_design_point *p = &d->point[i];
        bool waits = false;

        for (int k = 0; k < d->question->nworkloads; k++)
            waits = waits || p->run[k].how == PDL_DESIGN_OPEN;
        open += waits;
        without += !p->complete && !waits;
        broken += p->complete && p->excluded;
    }
    cli_say(2,
            "%d design%s: %d keep the constraints, %d break one, for %d no "
            "plan fits",
            d->n, d->n == 1 ? "" : "s", d->nfit, broken, without);
    limits(d);
    if (open > 0)
        cli_say(2, "stopped: %d designs were not looked at", open);
    cli_say(2,
            "%lld plans wanted: %lld searched, %lld of the same machine, %lld "
            "by a bound, %lld between others, %lld remembered; %.1f s",
            (long long)d->stats.runs, (long long)d->stats.searched,
            (long long)d->stats.same, (long long)d->stats.bounded,
            (long long)d->stats.between, (long long)d->stats.remembered,
            d->stats.seconds);
}

static void one_plans(const struct pdl_designs *d,
                      const struct pdl_design_point *p)
{
    char a[32], b[32], c[32], e[32], w[32];

    for (int k = 0; k < d->question->nworkloads; k++) {
        const struct pdl_design_run *r = &p->run[k];
        char wait[48] = "";

        cli_say(6, "  %s: %s", d->question->workload[k].name, r->strategy);
        if (r->waiting > 5e-4)
            snprintf(wait, sizeof wait, ", %.1f %% waiting for nodes",
                     100 * r->waiting);
        cli_say(
            6,
            "    step %s, run %s (%.1f %% of it progress, %.0f "
            "interruptions%s), %s %s%s%s, %s Wh",
            pdl_unit_format(r->x.step_s, PDL_UNIT_SECONDS, a, sizeof a),
            seconds(r->run.train_s, b, sizeof b), 100 * r->run.goodput,
            r->run.failures, wait, num(r->cost, c, sizeof c),
            d->prices.currency, r->tokens > 0 ? ", per million tokens " : "",
            r->tokens > 0 ? num(r->cost / r->tokens * 1e6, e, sizeof e) : "",
            num(r->kwh * 1e3, w, sizeof w));
        if (p->jobs > 1)
            cli_say(
                6,
                "    that is one of %lld sites, which meet every %lld "
                "steps: %s a step",
                (long long)p->jobs, (long long)p->text->local_steps,
                pdl_unit_format(r->exchange_s, PDL_UNIT_SECONDS, a, sizeof a));
    }
}

static void rent_or_buy(const struct pdl_designs *d,
                        const struct pdl_design_point *p)
{
    char a[32];

    if (p->rent_cost > 0 && p->even > 0 && p->even <= 1)
        cli_say(
            4,
            "  rented it would cost %s %s: buying is cheaper where it is in "
            "use more than %.0f %% of %g years (here %.0f %%)",
            num(p->rent_cost, a, sizeof a), d->prices.currency, 100 * p->even,
            d->question->years, 100 * d->question->utilisation);
    else if (p->rent_cost > 0)
        cli_say(4, "  rented it would cost %s %s, less than bought",
                num(p->rent_cost, a, sizeof a), d->prices.currency);
}

/* What it is at the beginning, and what it grows to. */
static void plans(const struct pdl_designs *d, const struct pdl_design_point *p)
{
    char a[32];

    if (p->text->then > 0)
        cli_say(2,
                "  as %lld PEs, %.0f %% of the mix:", (long long)p->text->pes,
                100 * p->part);
    one_plans(d, p);
    while (p->text->then > 0) {
        p = &d->point[p->text->then];
        if (!(p->part > 0)) {
            cli_say(2, "  done before it grows to %lld PEs",
                    (long long)p->text->pes);
            return;
        }
        cli_say(2, "  from %s on %lld PEs, %.0f %% of the mix:",
                seconds(p->text->after_s, a, sizeof a), (long long)p->text->pes,
                100 * p->part);
        one_plans(d, p);
    }
}

static void materials(const struct pdl_designs *d,
                      const struct pdl_design_point *p)
{
    const struct pdl_materials *m = &p->bill;
    char a[32], b[32], c[32], e[32];
    char spare[48] = "";
    int64_t nodes = m->nodes + m->spare_nodes;

    if (m->spare_nodes > 0)
        snprintf(spare, sizeof spare, ", %lld of them spare",
                 (long long)m->spare_nodes);
    cli_say(
        4, "  %lld node%s%s, %lld rack%s, %s at most, %s with cooling",
        (long long)nodes, nodes == 1 ? "" : "s", spare, (long long)m->racks,
        m->racks == 1 ? "" : "s",
        pdl_unit_format(m->nodes_w + m->network_w, PDL_UNIT_WATT, a, sizeof a),
        pdl_unit_format(m->facility_w, PDL_UNIT_WATT, b, sizeof b));
    if (p->fabric.spec)
        cli_say(
            4,
            "  %lld x %s: %lld switches, %lld ports of %s, %lld cables "
            "within 3 m, %lld longer (%s m, the longest %.0f m), %lld "
            "optics",
            (long long)m->planes, p->fabric.spec, (long long)m->switches,
            (long long)m->ports,
            pdl_unit_format(m->link_bytes_per_s, PDL_UNIT_BYTES_S, a, sizeof a),
            (long long)m->near_cables, (long long)m->far_cables,
            num(m->far_m, b, sizeof b), m->longest_m, (long long)m->optics);
    if (!d->question->rent)
        cli_say(
            4,
            "  %s %s: nodes %s, switches %s, cables and optics %s, racks "
            "%.1f %%",
            num(m->capital, a, sizeof a), d->prices.currency,
            num(m->nodes_cost, b, sizeof b), num(m->switch_cost, c, sizeof c),
            num(m->cable_cost, e, sizeof e), 100 * m->rack_cost / m->capital);
}

/* It keeps the constraints by value; by what may be, another may be safer. */
static void safe(const struct pdl_designs *d)
{
    const struct pdl_design_point *p = &d->point[d->order[0]];
    int i = 0;

    if (p->keeps > 0.995)
        return;
    cli_say(2, "keeps the constraints in %.0f %% of draws of what is uncertain",
            100 * p->keeps);
    if (p->keeps >= SAFE)
        return;
    while (i < d->nfit && d->point[d->order[i]].keeps < SAFE)
        i++;
    if (i < d->nfit)
        cli_say(2, "the best of those that keep them in %.0f %%: %s (%.0f %%)",
                100 * SAFE, d->point[d->order[i]].text->label,
                100 * d->point[d->order[i]].keeps);
    else
        cli_say(2, "none keeps them in %.0f %%", 100 * SAFE);
}

static void sure(const struct pdl_designs *d)
{
    const struct pdl_design_point *p = &d->point[d->order[0]];

    if (d->nfit < 2)
        return;
    if (!d->tie) {
        cli_say(2,
                "within 5 %% of the best in %.0f %% of draws of what is "
                "uncertain",
                100 * p->near_best);
        return;
    }
    cli_say(2,
            "tie: it is within 5 %% of the best in only %.0f %% of draws of "
            "what is uncertain; as likely to win:",
            100 * p->near_best);
    for (int i = 1; i < d->nfit; i++) {
        const struct pdl_design_point *x = &d->point[d->order[i]];

        if (x->wins >= 0.1)
            cli_say(6, "  %s (%.0f %%)", x->text->label, 100 * x->wins);
    }
}

static void what_if(const struct pdl_designs *d)
{
    const char *goal = pdl_design_goal_name(d->question->goal);
    int n = 0;

    for (int i = 0; i < d->nchanges && n < MOST_CHANGES; i++) {
        double change = 100 * (d->change[i].value - 1);

        if (fabs(change) < 0.05)
            continue;
        if (n++ == 0)
            cli_say(2, "what a change does to its %s:", goal);
        cli_say(6, "  %s: %+.1f %%", d->change[i].what, change);
    }
    for (int i = 0; i < d->nflips && i < MOST_FLIPS; i++) {
        if (i == 0)
            cli_say(2, "what would change the answer:");
        cli_say(6, "  %s %+.1f %%: %s", d->flip[i].what,
                100 * (d->flip[i].factor - 1),
                d->point[d->flip[i].winner].text->label);
    }
}

/* Which of the prices are not of a list. */
static void assumed(const struct pdl_designs *d)
{
    char names[512] = "";

    for (int i = 0; i < d->prices.n; i++) {
        size_t n = strlen(names);

        if (d->used[i] && strcmp(d->prices.item[i].kind, "assumed") == 0)
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                     d->prices.item[i].item);
    }
    if (*names)
        cli_say(2, "note: assumed, not listed, in prices '%s': %s",
                d->prices.name, names);
}

void cli_design_text(pdl_arena *a, const struct pdl_designs *d, int top)
{
    const struct pdl_question *q = d->question;
    const struct pdl_design_point *best;

    if (d->nfit == 0)
        return; /* cli_design_none() says why */
    cli_say(2, "%s: %d design%s for %d workload%s, to %s, by %s", q->name, d->n,
            d->n == 1 ? "" : "s", q->nworkloads, q->nworkloads == 1 ? "" : "s",
            q->rent ? "rent" : "buy", pdl_design_goal_name(q->goal));
    table(a, d, top);
    counts(d);
    best = &d->point[d->order[0]];
    cli_say(2, "best: %s", best->text->label);
    sure(d);
    safe(d);
    plans(d, best);
    materials(d, best);
    rent_or_buy(d, best);
    while (best->text->then > 0) {
        best = &d->point[best->text->then];
        cli_say(2, "  grown to %lld PEs:", (long long)best->text->pes);
        materials(d, best);
    }
    what_if(d);
    assumed(d);
    for (int i = 0; i < d->n; i++)
        if (d->question->design[i].local_steps > 1) {
            cli_say(2, "note: sites that meet now and then may need more steps "
                       "than are counted");
            break;
        }
    if (*d->unpriced)
        cli_say(2, "note: what is set costs nothing here: %s", d->unpriced);
}

/* By how much one of several constraints would have to give. */
static const char *relaxed(const struct pdl_designs *d, char *buf, size_t size)
{
    int alone = 0, broken = 0, n = 0;

    for (int k = 0; k < d->nlimits; k++) {
        alone += d->limit[k].alone > 0;
        broken += d->limit[k].broken > 0;
    }
    if (broken < 2)
        return "";
    snprintf(
        buf, size, "; %s:",
        alone > 0 ? "one of these would do" : "every design breaks several");
    for (int k = 0; k < d->nlimits; k++) {
        const struct pdl_design_limit *l = &d->limit[k];
        size_t at = strlen(buf);

        if (alone > 0 && l->alone > 0)
            snprintf(buf + at, size - at, "%s %s %.3g times", n++ ? "," : "",
                     l->name, l->nearest);
        else if (alone == 0 && l->broken > 0)
            snprintf(buf + at, size - at, "%s %s", n++ ? "," : "", l->name);
    }
    return buf;
}

void cli_design_none(const struct pdl_designs *d, struct pdl_err *err)
{
    char more[200];
    const struct pdl_design_point *p = &d->point[d->order[0]];
    const struct pdl_question *q = d->question;

    if (d->stopped) {
        pdl_fail(err, PDL_EINVAL, "stopped before a design was complete");
        return;
    }
    if (p->excluded) {
        pdl_fail(err, PDL_EINVAL,
                 "no design keeps the constraints; the nearest, '%.120s', "
                 "breaks %s%s",
                 p->text->label, p->excluded, relaxed(d, more, sizeof more));
        return;
    }
    for (int k = 0; k < q->nworkloads; k++)
        if (!p->run[k].strategy) {
            pdl_fail(err, PDL_EINVAL,
                     "no design runs every workload: %.60s on '%.120s': %.200s",
                     q->workload[k].name, p->text->label,
                     p->run[k].reason ? p->run[k].reason : "no plan");
            return;
        }
}
