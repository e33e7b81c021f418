/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a search beside its plans, as JSON: what it chose from, what
 * was excluded, and the front of time and memory. */
#include "cli/output/projection.h"

/* Among the plans that are listed. */
static bool dominated(const struct pdl_search_result *r, int64_t i)
{
    const struct pdl_projection *x = &r->list[i].x;

    for (int64_t k = 0; k < r->n; k++) {
        const struct pdl_projection *y = &r->list[k].x;

        if (k != i && r->list[k].priced && y->step_s <= x->step_s &&
            y->peak_bytes <= x->peak_bytes &&
            (y->step_s < x->step_s || y->peak_bytes < x->peak_bytes || k < i))
            return true;
    }
    return false;
}

/* Of the front, the quickest that is slower than `after`; NULL: none. All have
 * times of their own. */
static const struct pdl_found *next_of(const struct pdl_search_result *r,
                                       double after)
{
    const struct pdl_found *next = NULL;

    for (int64_t i = 0; i < r->n; i++)
        if (r->list[i].priced && r->list[i].x.step_s > after &&
            (!next || r->list[i].x.step_s < next->x.step_s) && !dominated(r, i))
            next = &r->list[i];
    return next;
}

/* By time, which need not be the order of the plans: ties begin with the
 * simplest. */
void cli_front_json(struct pdl_json *w, const struct pdl_search_result *r)
{
    const struct pdl_found *f = next_of(r, -1);

    pdl_json_key(w, "front");
    pdl_json_array(w);
    for (; f; f = next_of(r, f->x.step_s)) {
        pdl_json_row(w);
        pdl_json_kstr(w, "strategy", f->strategy);
        pdl_json_knum(w, "step_s", f->x.step_s);
        pdl_json_kint(w, "peak_bytes", f->x.peak_bytes);
        pdl_json_kbool(w, "feasible", f->x.feasible);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

void cli_excluded_json(struct pdl_json *w, const struct pdl_search_result *r)
{
    pdl_json_key(w, "excluded");
    pdl_json_array(w);
    for (int64_t i = 0; i < r->n; i++)
        if (r->list[i].excluded) {
            pdl_json_row(w);
            pdl_json_kstr(w, "strategy", r->list[i].strategy);
            pdl_json_kstr(w, "reason", r->list[i].excluded);
            pdl_json_end(w);
        }
    pdl_json_end(w);
}

void cli_space_json(struct pdl_json *w, const struct pdl_search_result *r,
                    bool axes)
{
    pdl_json_kint(w, "points", r->points);
    pdl_json_key(w, "pruned_by");
    pdl_json_row(w);
    pdl_json_kint(w, "limit", r->refused);
    pdl_json_kint(w, "memory", r->too_large);
    pdl_json_kint(w, "time", r->too_slow);
    pdl_json_end(w);
    pdl_json_kint(w, "unasked", r->unasked);
    pdl_json_kint(w, "orders", r->orders);
    pdl_json_kint(w, "reordered", r->reordered);
    if (!axes)
        return;
    pdl_json_key(w, "space");
    pdl_json_array(w);
    for (int i = 0; i < r->naxes; i++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "axis", r->axes[i].name);
        pdl_json_kstr(w, "values", r->axes[i].values);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}
