/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of `paradl design` as JSON and as a table with commas. */
#include "cli/output/design.h"

#include <string.h>

static const char *const hows[] = {[PDL_DESIGN_SEARCHED] = "searched",
                                   [PDL_DESIGN_SAME] = "same machine",
                                   [PDL_DESIGN_BOUNDED] = "bounded",
                                   [PDL_DESIGN_BETWEEN] = "between",
                                   [PDL_DESIGN_OPEN] = "open"};

static void bill(struct pdl_json *w, const struct pdl_materials *m)
{
    pdl_json_key(w, "bill");
    pdl_json_object(w);
    pdl_json_kint(w, "nodes", m->nodes);
    pdl_json_kint(w, "spare_nodes", m->spare_nodes);
    pdl_json_kint(w, "racks", m->racks);
    pdl_json_kint(w, "planes", m->planes);
    pdl_json_kint(w, "switches", m->switches);
    pdl_json_kint(w, "ports", m->ports);
    pdl_json_kint(w, "near_cables", m->near_cables);
    pdl_json_kint(w, "far_cables", m->far_cables);
    pdl_json_kint(w, "optics", m->optics);
    pdl_json_knum(w, "near_m", m->near_m);
    pdl_json_knum(w, "far_m", m->far_m);
    pdl_json_knum(w, "longest_m", m->longest_m);
    pdl_json_knum(w, "link_bytes_per_s", m->link_bytes_per_s);
    pdl_json_knum(w, "nodes_cost", m->nodes_cost);
    pdl_json_knum(w, "switch_cost", m->switch_cost);
    pdl_json_knum(w, "cable_cost", m->cable_cost);
    pdl_json_knum(w, "rack_cost", m->rack_cost);
    pdl_json_knum(w, "facility_cost_per_year", m->facility_cost);
    pdl_json_knum(w, "capital", m->capital);
    pdl_json_knum(w, "nodes_w", m->nodes_w);
    pdl_json_knum(w, "network_w", m->network_w);
    pdl_json_knum(w, "facility_w", m->facility_w);
    pdl_json_end(w);
}

static void run(struct pdl_json *w, const struct pdl_workload *k,
                const struct pdl_design_run *r)
{
    pdl_json_object(w);
    pdl_json_kstr(w, "workload", k->name);
    pdl_json_kstr(w, "strategy", r->strategy);
    pdl_json_kstr(w, "reason", r->reason);
    pdl_json_kstr(w, "how", hows[r->how]);
    pdl_json_knum(w, "gap", r->gap);
    if (r->strategy) {
        pdl_json_knum(w, "step_s", r->x.step_s);
        pdl_json_knum(w, "exchange_s", r->exchange_s);
        pdl_json_knum(w, "low_s", r->x.low_s);
        pdl_json_knum(w, "high_s", r->x.high_s);
        pdl_json_knum(w, "mfu", r->x.mfu);
        pdl_json_kint(w, "peak_bytes", r->x.peak_bytes);
        pdl_json_knum(w, "train_s", r->run.train_s);
        pdl_json_knum(w, "goodput", r->run.goodput);
        if (r->waiting > 0)
            pdl_json_knum(w, "waiting", r->waiting);
        pdl_json_knum(w, "interruptions", r->run.failures);
        pdl_json_knum(w, "cost", r->cost);
        if (r->tokens > 0)
            pdl_json_knum(w, "cost_per_million_tokens",
                          r->cost / r->tokens * 1e6);
        pdl_json_knum(w, "energy_kwh", r->kwh);
        pdl_json_knum(w, "co2_kg", r->co2_kg);
    }
    pdl_json_end(w);
}

static void plans(struct pdl_json *w, const struct pdl_designs *d,
                  const struct pdl_design_point *p)
{
    bill(w, &p->bill);
    pdl_json_key(w, "runs");
    pdl_json_array(w);
    for (int k = 0; k < d->question->nworkloads; k++)
        run(w, &d->question->workload[k], &p->run[k]);
    pdl_json_end(w);
}

/* What a design grows to. */
static void growth(struct pdl_json *w, const struct pdl_designs *d,
                   const struct pdl_design_point *p)
{
    pdl_json_knum(w, "part", p->part);
    pdl_json_key(w, "then");
    pdl_json_array(w);
    while (p->text->then > 0) {
        p = &d->point[p->text->then];
        pdl_json_object(w);
        pdl_json_knum(w, "after_s", p->text->after_s);
        pdl_json_kint(w, "pes", p->text->pes);
        pdl_json_knum(w, "part", p->part);
        plans(w, d, p);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void one(struct pdl_json *w, const struct pdl_designs *d, int rank)
{
    const struct pdl_design_point *p = &d->point[d->order[rank]];

    pdl_json_object(w);
    pdl_json_kint(w, "rank", rank + 1);
    pdl_json_kstr(w, "name", p->text->label);
    pdl_json_kstr(w, "system", p->text->system);
    pdl_json_kstr(w, "network", p->text->network);
    pdl_json_kstr(w, "topology", p->fabric.spec);
    pdl_json_kint(w, "pes", p->text->pes);
    pdl_json_kint(w, "sites", p->text->sites > 1 ? p->text->sites : 1);
    pdl_json_kint(w, "local_steps",
                  p->text->local_steps > 1 ? p->text->local_steps : 1);
    pdl_json_kbool(w, "feasible", rank < d->nfit);
    pdl_json_kstr(w, "excluded", p->excluded);
    pdl_json_kbool(w, "front", p->front);
    if (p->complete) {
        pdl_json_knum(w, "time_s", p->time_s);
        pdl_json_knum(w, "cost", p->cost);
        pdl_json_knum(w, "energy_kwh", p->kwh);
        pdl_json_knum(w, "co2_kg", p->co2_kg);
        if (p->rent_cost > 0)
            pdl_json_knum(w, "rent_cost", p->rent_cost);
        if (p->even > 0)
            pdl_json_knum(w, "break_even_utilisation", p->even);
        pdl_json_knum(w, "wins", p->wins);
        pdl_json_knum(w, "near_best", p->near_best);
        pdl_json_knum(w, "keeps", p->keeps);
    }
    plans(w, d, p);
    if (p->text->then > 0)
        growth(w, d, p);
    pdl_json_end(w);
}

static void question(struct pdl_json *w, const struct pdl_designs *d)
{
    const struct pdl_question *q = d->question;

    pdl_json_kstr(w, "name", q->name);
    pdl_json_kstr(w, "goal", pdl_design_goal_name(q->goal));
    pdl_json_kstr(w, "money", q->rent ? "rent" : "buy");
    pdl_json_knum(w, "years", q->years);
    pdl_json_knum(w, "utilisation", q->utilisation);
    pdl_json_knum(w, "rack_w", q->rack_w);
    pdl_json_kstr(w, "region", q->region);
    if (q->repair_s > 0)
        pdl_json_knum(w, "repair_s", q->repair_s);
    if (q->budget > 0)
        pdl_json_knum(w, "budget", q->budget);
    if (q->power_w > 0)
        pdl_json_knum(w, "power_w", q->power_w);
    if (q->racks > 0)
        pdl_json_kint(w, "racks", q->racks);
    if (q->delivery > 0)
        pdl_json_kint(w, "delivery", q->delivery);
    pdl_json_key(w, "workloads");
    pdl_json_array(w);
    for (int k = 0; k < q->nworkloads; k++) {
        const struct pdl_workload *x = &q->workload[k];

        pdl_json_row(w);
        pdl_json_kstr(w, "name", x->name);
        pdl_json_kstr(w, "model", x->model);
        pdl_json_kint(w, "batch", x->batch);
        pdl_json_knum(w, "steps", d->point[0].run[k].steps);
        pdl_json_knum(w, "weight", x->weight);
        if (x->deadline_s > 0)
            pdl_json_knum(w, "deadline_s", x->deadline_s);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void limits(struct pdl_json *w, const struct pdl_designs *d)
{
    pdl_json_key(w, "limits");
    pdl_json_array(w);
    for (int k = 0; k < d->nlimits; k++) {
        const struct pdl_design_limit *l = &d->limit[k];

        pdl_json_row(w);
        pdl_json_kstr(w, "limit", l->name);
        pdl_json_knum(w, "allowed", l->allowed);
        pdl_json_kint(w, "broken", l->broken);
        pdl_json_kint(w, "alone", l->alone);
        if (l->alone > 0)
            pdl_json_knum(w, "nearest", l->nearest);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void what_if(struct pdl_json *w, const struct pdl_designs *d)
{
    pdl_json_key(w, "changes");
    pdl_json_array(w);
    for (int i = 0; i < d->nchanges; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "what", d->change[i].what);
        pdl_json_knum(w, "ratio", d->change[i].value);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_key(w, "flips");
    pdl_json_array(w);
    for (int i = 0; i < d->nflips; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "what", d->flip[i].what);
        pdl_json_knum(w, "factor", d->flip[i].factor);
        pdl_json_kstr(w, "winner", d->point[d->flip[i].winner].text->label);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void prices(struct pdl_json *w, const struct pdl_designs *d)
{
    const struct pdl_prices *p = &d->prices;

    pdl_json_key(w, "prices");
    pdl_json_object(w);
    pdl_json_kstr(w, "name", p->name);
    pdl_json_kstr(w, "currency", p->currency);
    pdl_json_key(w, "items");
    pdl_json_array(w);
    for (int i = 0; i < p->n; i++) {
        if (!d->used[i])
            continue;
        pdl_json_row(w);
        pdl_json_kstr(w, "item", p->item[i].item);
        pdl_json_knum(w, "value", p->item[i].value);
        pdl_json_knum(w, "low", p->item[i].low);
        pdl_json_knum(w, "high", p->item[i].high);
        pdl_json_kstr(w, "kind", p->item[i].kind);
        pdl_json_kstr(w, "date", p->item[i].date);
        pdl_json_kstr(w, "source", p->item[i].source);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_end(w);
}

void cli_design_json(struct pdl_json *w, const struct pdl_designs *d)
{
    question(w, d);
    pdl_json_kbool(w, "stopped", d->stopped);
    pdl_json_kbool(w, "tie", d->tie);
    pdl_json_kint(w, "feasible_count", d->nfit);
    limits(w, d);
    pdl_json_key(w, "designs");
    pdl_json_array(w);
    for (int i = 0; i < d->n; i++)
        one(w, d, i);
    pdl_json_end(w);
    pdl_json_kstr(w, "unpriced", d->unpriced);
    what_if(w, d);
    prices(w, d);
    pdl_json_key(w, "search");
    pdl_json_object(w);
    pdl_json_kint(w, "runs", d->stats.runs);
    pdl_json_kint(w, "searched", d->stats.searched);
    pdl_json_kint(w, "same", d->stats.same);
    pdl_json_kint(w, "bounded", d->stats.bounded);
    pdl_json_kint(w, "between", d->stats.between);
    pdl_json_kint(w, "remembered", d->stats.remembered);
    pdl_json_kint(w, "priced", d->stats.priced);
    pdl_json_knum(w, "search_s", d->stats.seconds);
    pdl_json_end(w);
}

/* ---- a table with commas ----------------------------------------------- */

/* Between quotes. */
static void inside(struct pdl_sink *out, const char *s)
{
    for (; s && *s; s++)
        pdl_printf(out, *s == '"' ? "\"\"" : "%c", *s);
}

static void quoted(struct pdl_sink *out, const char *s)
{
    pdl_puts(out, "\"");
    inside(out, s);
    pdl_puts(out, "\"");
}

static void plans_csv(struct pdl_sink *out, const struct pdl_designs *d,
                      const struct pdl_design_point *p)
{
    pdl_puts(out, "\"");
    for (int k = 0; k < d->question->nworkloads; k++) {
        pdl_puts(out, k ? "; " : "");
        inside(out, d->question->workload[k].name);
        pdl_puts(out, ": ");
        inside(out, p->run[k].strategy ? p->run[k].strategy : "none");
    }
    pdl_puts(out, "\"");
}

void cli_design_csv(struct pdl_sink *out, const struct pdl_designs *d)
{
    pdl_puts(out, "rank,design,system,network,pes,feasible,front,time_s,cost,"
                  "energy_kwh,co2_kg,wins,near_best,capital,facility_w,racks,"
                  "switches,optics,excluded,keeps,plans\n");
    for (int i = 0; i < d->n; i++) {
        const struct pdl_design_point *p = &d->point[d->order[i]], *end = p;

        while (end->text->then > 0) /* what it grows to is bought too */
            end = &d->point[end->text->then];
        pdl_printf(out, "%d,", i + 1);
        quoted(out, p->text->label);
        pdl_puts(out, ",");
        quoted(out, p->text->system);
        pdl_puts(out, ",");
        quoted(out, p->text->network ? p->text->network : "");
        pdl_printf(out, ",%lld,%d,%d,", (long long)p->text->pes, i < d->nfit,
                   p->front);
        if (p->complete)
            pdl_printf(out, "%.6g,%.6g,%.6g,%.6g,%.4g,%.4g", p->time_s, p->cost,
                       p->kwh, p->co2_kg, p->wins, p->near_best);
        else
            pdl_puts(out, ",,,,,");
        pdl_printf(out, ",%.6g,%.6g,%lld,%lld,%lld,", end->bill.capital,
                   end->bill.facility_w, (long long)end->bill.racks,
                   (long long)end->bill.switches, (long long)end->bill.optics);
        quoted(out, p->excluded ? p->excluded : "");
        pdl_puts(out, ",");
        if (p->complete)
            pdl_printf(out, "%.4g", p->keeps);
        pdl_puts(out, ",");
        plans_csv(out, d, p);
        pdl_puts(out, "\n");
    }
}
