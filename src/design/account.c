/* SPDX-License-Identifier: Apache-2.0
 *
 * From the step of a plan to a whole run: time with interruptions, money,
 * energy, carbon. What is bought is paid off in equal parts over the hours it
 * is used for (years times utilisation); the building is paid by the kW and
 * year, electricity by the kWh, cooling included. A rented PE costs its hours,
 * electricity included. */
#include "design_priv.h"

#include <math.h>

#define HOURS_A_YEAR 8766.0

static double save_s(const struct pdl_design_run *r, double nodes,
                     double node_gb_s)
{
    return node_gb_s > 0 ? r->state_bytes / 1e9 / (nodes * node_gb_s) : 0;
}

static void one_run(const struct design_work *w, int i, const double *value,
                    double step, struct pdl_design_run *r,
                    const struct pdl_materials *m)
{
#define V(k) design_value(&w->items[i], k, value)
    const struct pdl_question *q = w->q;
    const struct pdl_design_point *p = &w->d->point[i];
    double pes = (double)p->text->pes, hours, used;
    struct pdl_bill bill;
    struct pdl_long_run run = {
        .steps_s = r->steps * (r->x.step_s * step + r->exchange_s),
        .pes = p->text->pes,
        .mtbf_pe_s = V(DESIGN_MTBF) * 3600,
        .checkpoint_s = save_s(r, (double)m->nodes, V(DESIGN_STORAGE)),
        .restart_s = V(DESIGN_RESTART)};

    pdl_goodput(&run, &r->run);
    hours = r->run.train_s / 3600;
    pdl_project_bill(&r->x, &p->sys, &bill);
    r->kwh = V(DESIGN_PUE) * hours / 1e3 *
             ((double)p->jobs * bill.energy_j / r->x.step_s + m->network_w);
    r->co2_kg = r->kwh * V(DESIGN_CARBON);
    used = hours / (HOURS_A_YEAR * q->utilisation);
    r->cost = q->rent ? pes * hours * V(DESIGN_RENT)
                      : (m->capital / q->years + m->facility_cost) * used +
                            r->kwh * V(DESIGN_ELECTRICITY);
#undef V
}

void design_account(const struct design_work *w, int i, const double *value,
                    const double *step, struct pdl_design_run *runs,
                    struct pdl_materials *bill, struct design_totals *out)
{
    const struct pdl_question *q = w->q;

    *out = (struct design_totals){0};
    design_bill(q, &w->items[i], value, &w->d->point[i].sys, bill);
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
