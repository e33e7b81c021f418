/* SPDX-License-Identifier: Apache-2.0
 *
 * From the step of a plan to a whole run: time with interruptions, money,
 * energy, carbon. What is bought is paid off in equal parts over the hours it
 * is used for (years times utilisation); the building is paid by the kW and
 * year, electricity by the kWh, cooling included. A rented PE costs its hours,
 * electricity included. */
#include "design_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOURS_A_YEAR 8766.0

/* Written by all nodes at once, each as fast as prices or the system say, all
 * together no faster than its file system takes. */
static double save_s(const struct pdl_design_run *r, double nodes,
                     double node_gb_s, const struct pdl_storage *shared)
{
    double rate = shared->node_bytes_per_s > 0 ? shared->node_bytes_per_s
                                               : node_gb_s * 1e9;

    rate *= nodes;
    if (shared->bytes_per_s > 0)
        rate = fmin(rate, shared->bytes_per_s);
    return rate > 0 ? r->state_bytes / rate : 0;
}

/* All nodes over those of a job. */
static double with_spares(const struct pdl_materials *m)
{
    return 1 + (double)m->spare_nodes / (double)m->nodes;
}

/* Of all PEs of a job for an hour. */
static double rent_of(const struct design_items *n, const double *value)
{
    double sum = 0;

    for (int i = 0; i < n->nkinds; i++)
        sum += (double)(n->kind[i].nodes * n->kind[i].pes) *
               design_value(n->kind[i].at, DESIGN_RENT, value);
    return sum;
}

static void one_run(const struct design_work *w, int i, const double *value,
                    double step, struct pdl_design_run *r,
                    const struct pdl_materials *m)
{
#define V(k) design_value(w->items[i].at, k, value)
    const struct pdl_question *q = w->q;
    const struct pdl_design_point *p = &w->d->point[i];
    const struct design_items *n = &w->items[i];
    double hours, used;
    struct pdl_bill bill;
    struct pdl_long_run run = {
        .steps_s = r->steps * (r->x.step_s * step + r->exchange_s),
        .pes = p->text->pes,
        .mtbf_pe_s = V(DESIGN_MTBF) * 3600,
        .checkpoint_s =
            save_s(r, (double)m->nodes, V(DESIGN_STORAGE), &p->sys.storage),
        .restart_s = V(DESIGN_RESTART)};

    pdl_goodput(&run, &r->run);
    r->waiting = pdl_waiting_part(m->spare_nodes, q->repair_s, r->run.mtbf_s);
    r->run.train_s /= 1 - r->waiting;
    r->run.goodput *= 1 - r->waiting;
    hours = r->run.train_s / 3600;
    pdl_project_bill(&r->x, &p->sys, &bill);
    r->kwh = V(DESIGN_PUE) * hours / 1e3 *
             ((double)p->jobs * bill.energy_j / r->x.step_s + m->network_w +
              m->spares_w);
    r->co2_kg = r->kwh * V(DESIGN_CARBON);
    used = hours / (HOURS_A_YEAR * q->utilisation);
    r->cost = q->rent
                  ? (double)p->jobs * hours * rent_of(n, value) * with_spares(m)
                  : (m->capital / q->years + m->facility_cost) * used +
                        r->kwh * V(DESIGN_ELECTRICITY);
#undef V
}

void design_account(const struct design_work *w, int i, const double *value,
                    struct pdl_design_run *runs, struct pdl_materials *bill,
                    struct design_totals *out)
{
    const struct pdl_question *q = w->q;
    const double *step =
        w->step ? &w->step[(size_t)i * (size_t)q->nworkloads] : NULL;

    int64_t nodes;

    *out = (struct design_totals){0};
    design_bill(q, &w->items[i], value, bill);
    nodes = bill->nodes + bill->spare_nodes;
    for (int k = 0; k < q->nworkloads; k++) {
        double weight = q->workload[k].weight;

        if (!runs[k].strategy)
            continue;
        one_run(w, i, value, step ? step[k] : 1, &runs[k], bill);
        out->time_s += weight * runs[k].run.train_s;
        out->cost += weight * runs[k].cost;
        out->kwh += weight * runs[k].kwh;
        out->co2_kg += weight * runs[k].co2_kg;
    }
    out->capital = bill->capital;
    out->facility_w = bill->facility_w;
    out->racks = (double)bill->racks;
    out->pes = (double)(nodes * w->d->point[i].sys.node.pes);
    out->node_w = bill->nodes_w / (double)nodes;
}

/* How long it is this machine; INFINITY: to the end. */
static double stays_s(const struct design_work *w, int i)
{
    const struct pdl_design_text *t = &w->q->design[i];

    return t->then > 0 ? w->q->design[t->then].after_s - t->after_s : INFINITY;
}

static void add_part(struct design_totals *sum, const struct design_totals *t,
                     double part)
{
    sum->time_s += part * t->time_s;
    sum->cost += part * t->cost;
    sum->kwh += part * t->kwh;
    sum->co2_kg += part * t->co2_kg;
    sum->capital = fmax(sum->capital, t->capital);
    sum->facility_w = fmax(sum->facility_w, t->facility_w);
    sum->node_w = fmax(sum->node_w, t->node_w);
    sum->racks = fmax(sum->racks, t->racks);
    sum->pes = fmax(sum->pes, t->pes);
}

/* Runs by themselves that begin with the design: the seconds so far, and behind
 * them what is left of each. */
static void add_train(const struct design_work *w, int i,
                      const struct pdl_design_run *runs)
{
    double *left = w->train + w->q->nworkloads;

    for (int k = 0; k < w->q->nworkloads; k++) {
        double all = runs[k].run.train_s;
        double part = all > 0 ? fmin(left[k], stays_s(w, i) / all) : left[k];

        w->train[k] += part * all;
        left[k] -= part;
    }
}

struct design_totals design_total(const struct design_work *w, int i,
                                  const double *value, bool settle)
{
    struct design_totals sum = {0};
    double left = 1;

    for (int k = 0; k < w->q->nworkloads; k++) {
        w->train[k] = 0;
        w->train[w->q->nworkloads + k] = 1;
    }
    for (; i >= 0; i = design_next(w, i)) {
        struct pdl_design_point *p = &w->d->point[i];
        struct pdl_materials bill = p->bill;
        struct design_totals t;
        double part;

        if (!settle)
            memcpy(w->runs, p->run, (size_t)w->q->nworkloads * sizeof *w->runs);
        design_account(w, i, value, settle ? p->run : w->runs,
                       settle ? &p->bill : &bill, &t);
        part = t.time_s > 0 ? fmin(left, stays_s(w, i) / t.time_s) : left;
        add_part(&sum, &t, part);
        add_train(w, i, settle ? p->run : w->runs);
        left -= part;
        if (settle)
            p->part = part;
    }
    return sum;
}

/* Hours of its PEs at the price of renting them, where there is one; what is
 * bought costs the more the less it is used. */
void design_compare_rent(const struct design_work *w, int i)
{
    struct pdl_design_point *p = &w->d->point[i];
    const struct pdl_price_item *rent;
    char item[128];
    double use = design_value(w->items[i].at, DESIGN_ELECTRICITY, w->value);

    snprintf(item, sizeof item, "rent.%.80s", p->sys.pe.name);
    rent = pdl_price_find(&w->d->prices, item);
    if (w->q->rent || !rent || p->sys.ngroups > 0 || p->text->then > 0)
        return;
    use *= p->kwh;
    p->rent_cost = (double)p->text->pes * p->time_s / 3600 * rent->value *
                   with_spares(&p->bill);
    if (p->rent_cost > use)
        p->even = w->q->utilisation * (p->cost - use) / (p->rent_cost - use);
}

double design_goal_of(const struct pdl_question *q,
                      const struct design_totals *t)
{
    switch (q->goal) {
    case PDL_DESIGN_TIME:
        return t->time_s;
    case PDL_DESIGN_ENERGY:
        return t->kwh;
    case PDL_DESIGN_CARBON:
        return t->co2_kg;
    case PDL_DESIGN_COST:
    case PDL_NDESIGN_GOALS:
        break;
    }
    return t->cost;
}
