/* SPDX-License-Identifier: Apache-2.0
 *
 * Constraints: what a design has of each, and how many times what is allowed;
 * which constraint keeps how many designs out, and how much more of it would
 * let the nearest in; whether a design keeps them where what is uncertain is
 * drawn anew. Those of machines hold at every stage of growth. */
#include "design_priv.h"

#include <stdio.h>

/* Of machines; behind them come the deadlines, one a workload. */
enum { BUDGET, RACK_POWER, POWER, RACKS, DELIVERY, OF_MACHINES };

/* Runs take days. */
static const char *say(double v, enum pdl_unit unit, char *buf, size_t size)
{
    if (unit == PDL_UNIT_SECONDS && v >= 86400)
        snprintf(buf, size, "%.4g d", v / 86400);
    else
        pdl_unit_format(v, unit, buf, size);
    return buf;
}

static double has(const struct design_work *w, int what,
                  const struct design_totals *t)
{
    switch (what) {
    case BUDGET:
        return w->q->rent ? t->cost : t->capital;
    case RACK_POWER:
        return t->node_w;
    case POWER:
        return t->facility_w;
    case RACKS:
        return t->racks;
    case DELIVERY:
        return t->pes;
    default:
        return w->train[what - OF_MACHINES];
    }
}

static void add(struct pdl_designs *d, const char *name, int what,
                double allowed, enum pdl_unit unit)
{
    if (allowed > 0 && name)
        d->limit[d->nlimits++] = (struct pdl_design_limit){
            .name = name, .what = what, .allowed = allowed, .unit = unit};
}

enum pdl_status design_limits_open(struct design_work *w, struct pdl_err *err)
{
    const struct pdl_question *q = w->q;
    struct pdl_designs *d = w->d;

    d->limit =
        PDL_NEW(w->arena, struct pdl_design_limit, OF_MACHINES + q->nworkloads);
    if (!d->limit)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    add(d, "budget", BUDGET, q->budget, PDL_UNIT_NONE);
    add(d, "rack_power", RACK_POWER, q->rack_w, PDL_UNIT_WATT);
    add(d, "power", POWER, q->power_w, PDL_UNIT_WATT);
    add(d, "racks", RACKS, (double)q->racks, PDL_UNIT_NONE);
    add(d, "delivery", DELIVERY, (double)q->delivery, PDL_UNIT_NONE);
    for (int k = 0; k < q->nworkloads; k++)
        add(d,
            pdl_arena_printf(w->arena, "deadline of %.60s",
                             q->workload[k].name),
            OF_MACHINES + k, q->workload[k].deadline_s, PDL_UNIT_SECONDS);
    return PDL_OK;
}

/* What it breaks most stands in its text. */
static void break_one(struct design_work *w, struct pdl_design_point *p,
                      const struct pdl_design_limit *l, double of)
{
    char a[32], b[32];

    if (of / l->allowed <= p->excess)
        return;
    p->excess = of / l->allowed;
    p->excluded =
        pdl_arena_printf(w->arena, "%s: %s of %s (%.3g times)", l->name,
                         say(of, l->unit, a, sizeof a),
                         say(l->allowed, l->unit, b, sizeof b), p->excess);
}

void design_limits(struct design_work *w, int i, const struct design_totals *t)
{
    struct pdl_design_point *p = &w->d->point[i];
    struct pdl_design_limit *alone = NULL;
    int broken = 0;

    if (!p->complete)
        return;
    for (int k = 0; k < w->d->nlimits; k++) {
        struct pdl_design_limit *l = &w->d->limit[k];
        double of = has(w, l->what, t);

        if (of <= l->allowed)
            continue;
        break_one(w, p, l, of);
        l->broken++;
        broken++;
        alone = l;
    }
    if (broken != 1)
        return;
    alone->alone++;
    if (alone->alone == 1 || p->excess < alone->nearest)
        alone->nearest = p->excess;
}

bool design_keeps(const struct design_work *w, const struct design_totals *t)
{
    for (int k = 0; k < w->d->nlimits; k++)
        if (has(w, w->d->limit[k].what, t) > w->d->limit[k].allowed)
            return false;
    return true;
}
