/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the plans that were found to name first. A search finds the corners
 * in which a model is too optimistic: what is ranked is the upper end of the
 * interval, which is wider the less was measured like a plan. Plans that
 * projections cannot tell apart are ties; the simplest is named first, since
 * every further axis, schedule and switch is one more thing to go wrong. */
#include "oracle/measure/measure.h"
#include "oracle/oracle_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- how simple ------------------------------------------------------- */

/* Cutting sequences asks for more than cutting layers: masks, the order of
 * positions, what the loss is summed over. */
static int weight(enum pdl_axis axis)
{
    return axis == PDL_AXIS_DATA ? 0 : axis == PDL_AXIS_CONTEXT ? 3 : 2;
}

static int axes_of(const struct pdl_strategy *s)
{
    int n = 0;

    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].size[0] > 1)
                n += weight(s->clause[c].term[t].axis);
    return n;
}

/* Does an axis come before one that launchers have outside it? */
static bool is_reordered(const struct pdl_strategy *s)
{
    const struct pdl_clause *c = &s->clause[0];

    for (int t = 1; t < c->nterms; t++)
        if (c->term[t].axis == PDL_AXIS_PIPE && c->term[t].size[0] > 1)
            return true;
    return false;
}

/* Things beside data parallelism that must be set up, be right and be
 * understood when the loss diverges. Sequence parallelism, ZeRO 1 and
 * accumulation come with the launchers. */
static int complexity(const struct pdl_strategy *s)
{
    return axes_of(s) + (s->nclauses > 1 ? 2 * s->nclauses : 0) +
           (s->schedule != PDL_SCHEDULE_1F1B) +
           (s->schedule > PDL_SCHEDULE_INTERLEAVED) + (s->zero > 1) +
           (s->zero_group > 0) + (s->recompute != PDL_RECOMPUTE_NONE) +
           2 * pdl_strategy_hosts_states(s) + 2 * pdl_strategy_offloads(s) +
           s->no_overlap + (s->context_kind != PDL_CONTEXT_RING) +
           is_reordered(s);
}

/* ---- how long at most ------------------------------------------------- */

/* What own runs make of it, where there are any. */
static enum pdl_status anchored(pdl_arena *a,
                                const struct pdl_oracle_options *oracle,
                                const char *key, struct pdl_found *f)
{
    struct pdl_anchor own;
    enum pdl_status st = pdl_anchor_find(a, oracle->own, oracle->nown, key,
                                         log(f->high_s / f->x.step_s), &own);

    f->anchored_s = 0;
    if (st != PDL_OK || own.runs == 0)
        return st;
    f->anchored_s = f->x.step_s * own.factor;
    f->high_s = f->anchored_s * exp(own.half_width);
    f->runs += own.alike ? own.runs : 0;
    return PDL_OK;
}

/* Systems that were fitted have intervals by parts of the step, which only a
 * plan tells; others by evidence, which its strategy tells. */
static enum pdl_status bound(pdl_arena *a, const struct pdl_model *model,
                             const struct pdl_system *sys,
                             const struct pdl_oracle_options *oracle,
                             const struct pdl_search_options *opt,
                             struct pdl_strategy *s, struct pdl_found *f)
{
    struct pdl_plan_options po = {
        .rolled = true, .batch = opt->batch, .allow_empty = opt->allow_empty};
    const struct pdl_plan *plan;
    struct pdl_evidence e;
    char key[192];
    enum pdl_status st = PDL_OK;

    pdl_evidence_key(model, s, sys, oracle, key, sizeof key);
    pdl_evidence_find(key, oracle->left_out, &e);
    f->runs = e.runs;
    f->high_s = f->x.step_s * exp(e.half_width);
    if (sys->projection_error > 0 || sys->nspreads > 0) {
        st = pdl_oracle_lower(a, model, sys, oracle, &po, s, &plan, NULL);
        if (st == PDL_OK) {
            pdl_interval(plan, sys, oracle, &f->x);
            f->high_s = fmax(f->x.high_s, f->x.step_s);
        }
    }
    return st == PDL_OK ? anchored(a, oracle, key, f) : st;
}

struct ranked {
    struct pdl_found found;
    int complexity;
};

static int by_bound(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    if (a->found.high_s != b->found.high_s)
        return a->found.high_s < b->found.high_s ? -1 : 1;
    return strcmp(a->found.strategy, b->found.strategy);
}

static int by_simplicity(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    return a->complexity != b->complexity ? a->complexity - b->complexity
                                          : by_bound(pa, pb);
}

static void group(struct ranked *list, int64_t n)
{
    int64_t first = 0;
    int tie = 1;

    while (first < n) {
        int64_t end = first + 1;

        while (end < n && list[end].found.high_s <=
                              list[first].found.high_s * (1 + PDL_TIE))
            end++;
        qsort(list + first, (size_t)(end - first), sizeof *list, by_simplicity);
        for (int64_t i = first; i < end; i++)
            list[i].found.tie = tie;
        first = end;
        tie++;
    }
}

static enum pdl_status look_at(pdl_arena *a, const struct pdl_model *model,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *oracle,
                               const struct pdl_search_options *opt,
                               struct ranked *r)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    enum pdl_status st =
        s ? pdl_strategy_parse(a, r->found.strategy, s, NULL) : PDL_ENOMEM;

    if (st == PDL_OK) {
        r->complexity = complexity(s);
        st = bound(a, model, sys, oracle, opt, s, &r->found);
    }
    return st;
}

enum pdl_status pdl_oracle_rank(const struct pdl_model *model,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *oracle,
                                const struct pdl_search_options *opt,
                                struct pdl_found *list, int64_t n,
                                struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct ranked *r = NULL;
    enum pdl_status st = PDL_OK;
    int64_t fit = 0;

    while (fit < n && list[fit].priced && list[fit].x.feasible)
        fit++;
    r = calloc((size_t)fit + 1, sizeof *r);
    if (!a || !r)
        st = PDL_ENOMEM;
    for (int64_t i = 0; i < fit && st == PDL_OK; i++) {
        r[i].found = list[i];
        st = look_at(a, model, sys, oracle, opt, &r[i]);
        pdl_arena_reset(a);
    }
    if (st == PDL_OK) {
        qsort(r, (size_t)fit, sizeof *r, by_bound);
        group(r, fit);
        for (int64_t i = 0; i < fit; i++)
            list[i] = r[i].found;
    }
    free(r);
    pdl_arena_destroy(a);
    return st == PDL_OK ? PDL_OK : pdl_fail(err, st, "plans cannot be ranked");
}
