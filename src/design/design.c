/* SPDX-License-Identifier: Apache-2.0
 *
 * A question from its text to its answer. */
#include "design_priv.h"

#include <string.h>

static void mark(struct pdl_designs *d, const struct design_items *n)
{
    for (int k = 0; k < DESIGN_NITEMS; k++)
        if (n->at[k] >= 0)
            d->used[n->at[k]] = true;
    for (int i = 0; i < n->nkinds; i++)
        for (int k = 0; k < DESIGN_KINDS; k++)
            if (n->kind[i].at[k] >= 0)
                d->used[n->kind[i].at[k]] = true;
}

static enum pdl_status machines(struct design_work *w, struct pdl_err *err)
{
    struct pdl_designs *d = w->d;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < d->nmachines && st == PDL_OK; i++) {
        struct pdl_design_point *p = &d->point[i];

        if (w->opt->progress &&
            !w->opt->progress(w->opt->ctx, 0,
                              (int64_t)d->nmachines * w->q->nworkloads))
            return pdl_fail(err, PDL_EINVAL,
                            "stopped at machine %d of %d, before a search",
                            i + 1, d->nmachines);
        p->text = &w->q->design[i];
        d->unpriced = design_unpriced(w->arena, p->text->system, d->unpriced);
        if (!d->unpriced)
            return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
        p->run = PDL_NEW(w->arena, struct pdl_design_run, w->q->nworkloads);
        if (!p->run)
            return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
        st = design_machine(w->arena, w->q, p, err);
        if (st == PDL_OK)
            st = design_items(w->arena, w->q, &d->prices, p, &w->items[i], err);
        if (st == PDL_OK)
            mark(d, &w->items[i]);
        if (st == PDL_OK)
            st = design_place(p->text, design_count(w->q, p, err), err);
    }
    return st;
}

enum pdl_status pdl_design(pdl_arena *a, const struct pdl_question *q,
                           const struct pdl_design_options *opt,
                           struct pdl_designs *out, struct pdl_err *err)
{
    struct pdl_designs d = {.question = q,
                            .n = q->ndesigns,
                            .nmachines = q->nmachines,
                            .unpriced = ""};
    struct design_work w = {.arena = a, .q = q, .opt = opt, .d = &d};
    double start = pdl_clock_s();
    enum pdl_status st = pdl_prices_open(a, q->prices, &d.prices, err);

    if (st != PDL_OK)
        return st;
    d.point = PDL_NEW(a, struct pdl_design_point, q->nmachines);
    w.items = PDL_NEW(a, struct design_items, q->nmachines);
    w.value = PDL_NEW(a, double, d.prices.n + 1);
    d.used = PDL_NEW(a, bool, d.prices.n + 1);
    w.runs = PDL_NEW(a, struct pdl_design_run, q->nworkloads);
    w.train = PDL_NEW(a, double, 2 * q->nworkloads);
    if (!d.point || !w.items || !w.value || !d.used || !w.runs || !w.train)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int i = 0; i < d.prices.n; i++)
        w.value[i] = d.prices.item[i].value;
    st = machines(&w, err);
    if (st == PDL_OK)
        st = design_plans(&w, err);
    if (st == PDL_OK)
        st = design_rank(&w, err);
    if (st == PDL_OK && d.nfit > 0)
        st = design_vary(&w, err);
    d.stats.seconds = pdl_clock_s() - start;
    if (st == PDL_OK)
        *out = d;
    return st;
}
