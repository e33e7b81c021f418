/* SPDX-License-Identifier: Apache-2.0
 *
 * One of k choices for each segment of a chain, together with the stages that
 * the chain is cut into. A step of a pipeline costs
 *     fill x (sum of all stages) + each x (slowest stage)
 * (1F1B: 1 and m - 1), and a stage has room for what its weights need once and
 * what its activations need for each micro-batch in flight. So a partial
 * answer is three numbers: seconds so far, seconds of the stage at hand, bytes
 * of the stage at hand; one that is worse in all three than another of the
 * same segment, stage and choice is dropped (labels, as in shortest paths with
 * resources: Desrochers and Soumis, INFOR 26, 1988; the stages are those of
 * Piper, Tarnawski et al., NeurIPS 2021).
 *
 * The slowest stage is not known while labels grow: it is bounded, and the
 * bound is lowered to just below what the last answer needed until there is
 * none. Answers are all that no other beats in both sum and slowest stage, so
 * the best of them is the best of all. Where labels or bounds are too many
 * the answer is marked as not exact. */
#include "chain.h"

#include <math.h>
#include <string.h>

enum { MOST_LABELS = 24, MOST_BOUNDS = 400, FEW_BOUNDS = 12 };
/* transitions of one bound, beyond which bounds are few */
static const int64_t MANY = 400000;

struct label {
    double sum, stage_s, bytes;
    int from; /* label before; -1: none */
    int pick, stage;
};

/* The labels of one segment, stage and choice. */
struct cell {
    int n;
    struct label label[MOST_LABELS];
};

struct solver {
    pdl_arena *arena;
    const struct oracle_chain *c;
    double bound;
    struct cell *cell;   /* [stages][k] of the segment at hand */
    int *first, *number; /* [stages][k] of the one before: in `all` */
    struct label *all;
    int64_t n, cap;
    bool roomy; /* whatever is chosen fits: bytes do not count */
    bool full;  /* labels were dropped that others did not beat */
    bool failed;
};

/* ---- labels -------------------------------------------------------------------- */

static bool beats(const struct label *a, const struct label *b)
{
    return a->sum <= b->sum && a->stage_s <= b->stage_s && a->bytes <= b->bytes;
}

static void add_label(struct solver *s, struct cell *c, const struct label *l)
{
    int n = 0, worst = 0;

    for (int i = 0; i < c->n; i++)
        if (beats(&c->label[i], l))
            return;
    for (int i = 0; i < c->n; i++)
        if (!beats(l, &c->label[i]))
            c->label[n++] = c->label[i];
    c->n = n;
    if (n < MOST_LABELS) {
        c->label[c->n++] = *l;
        return;
    }
    s->full = true;
    for (int i = 1; i < n; i++)
        worst = c->label[i].sum > c->label[worst].sum ? i : worst;
    if (l->sum < c->label[worst].sum)
        c->label[worst] = *l;
}

/* Segment i with choice `pick` after label `from`; begins: in a new stage. */
static void extend(struct solver *s, int i, int pick, int from, bool begins)
{
    const struct oracle_chain *c = s->c;
    const struct label *l = from >= 0 ? &s->all[from] : NULL;
    int64_t at = (int64_t)i * c->k + pick;
    int stage = l ? l->stage + begins : 0;
    double seconds = c->run[at];
    struct label next = {.from = from, .pick = pick, .stage = stage};

    if (l && c->pair[i])
        seconds += c->pair[i][(int64_t)l->pick * c->k + pick];
    if (!(seconds < s->bound))
        return;
    if (l && begins)
        seconds += c->send[i][l->pick];
    next.sum = (l ? l->sum : 0) + seconds;
    next.stage_s = (l && !begins ? l->stage_s : 0) + seconds;
    if (!s->roomy)
        next.bytes = (l && !begins ? l->bytes : 0) + c->state[at] +
                     c->in_flight[stage] * c->keep[at];
    if (isfinite(next.sum) && next.stage_s < s->bound && next.bytes <= c->room)
        add_label(s, &s->cell[stage * c->k + pick], &next);
}

static void store(struct solver *s, int cells)
{
    for (int i = 0; i < cells && !s->failed; i++) {
        struct cell *c = &s->cell[i];

        if (s->n + c->n > s->cap) {
            int64_t cap = 2 * s->cap + MOST_LABELS + 1024;
            void *more = pdl_arena_grow(s->arena, s->all, (size_t)s->n,
                                        (size_t)cap, sizeof *s->all);

            s->failed = !more || cap > INT32_MAX;
            if (s->failed)
                return;
            s->all = more;
            s->cap = cap;
        }
        s->first[i] = (int)s->n;
        s->number[i] = c->n;
        if (s->all && c->n > 0)
            memcpy(s->all + s->n, c->label, (size_t)c->n * sizeof *s->all);
        s->n += c->n;
        c->n = 0;
    }
}

static void extend_all(struct solver *s, int i)
{
    const struct oracle_chain *c = s->c;
    bool may = c->send[i] != NULL;

    for (int b = 0; b < c->stages * c->k; b++)
        for (int l = s->first[b]; l < s->first[b] + s->number[b]; l++)
            for (int pick = 0; pick < c->k; pick++) {
                if (!may || !c->fixed)
                    extend(s, i, pick, l, false);
                if (may && b / c->k + 1 < c->stages)
                    extend(s, i, pick, l, true);
            }
}

/* The least sum under the bound; false: there is none. */
static bool solve(struct solver *s, struct oracle_chain_answer *out)
{
    const struct oracle_chain *c = s->c;
    int cells = c->stages * c->k, best = -1;

    s->n = 0;
    for (int pick = 0; pick < c->k; pick++)
        extend(s, 0, pick, -1, false);
    store(s, cells);
    for (int i = 1; i < c->n && !s->failed; i++) {
        extend_all(s, i);
        store(s, cells);
    }
    for (int b = cells - c->k; s->all && b < cells && !s->failed; b++)
        for (int l = s->first[b]; l < s->first[b] + s->number[b]; l++)
            if (best < 0 || s->all[l].sum < s->all[best].sum)
                best = l;
    if (best < 0 || !s->all)
        return false;
    out->sum = s->all[best].sum;
    out->slowest = 0;
    for (int i = c->n - 1; i >= 0; i--, best = s->all[best].from) {
        out->pick[i] = s->all[best].pick;
        out->stage[i] = s->all[best].stage;
        out->slowest = fmax(out->slowest, s->all[best].stage_s);
    }
    out->cost = c->fill * out->sum + c->each * out->slowest;
    return true;
}

/* ---- bounds -------------------------------------------------------------------- */

/* Would everything in one stage fit, at its largest? */
static bool is_roomy(const struct oracle_chain *c)
{
    double sum = 0, held = 0;

    for (int i = 0; i < c->stages; i++)
        held = fmax(held, c->in_flight[i]);
    for (int i = 0; i < c->n; i++) {
        double most = 0;

        for (int64_t k = (int64_t)i * c->k; k < (int64_t)(i + 1) * c->k; k++)
            most = fmax(most, c->state[k] + held * c->keep[k]);
        sum += most;
    }
    return sum <= c->room;
}

static bool start(struct solver *s, pdl_arena *a, const struct oracle_chain *c)
{
    int64_t cells = (int64_t)c->stages * c->k;

    *s = (struct solver){
        .arena = a, .c = c, .bound = INFINITY, .roomy = is_roomy(c)};
    s->cell = PDL_NEW(a, struct cell, cells);
    s->first = PDL_NEW(a, int, cells);
    s->number = PDL_NEW(a, int, cells);
    return s->cell && s->first && s->number;
}

/* The next bound: below what the last answer needed; of a large chain, a
 * twelfth of the way to what no pipeline can be below. */
static double lower(const struct oracle_chain *c,
                    const struct oracle_chain_answer *last, double least)
{
    double floor = least / c->stages;
    double step = (double)c->n * c->stages * c->k * c->k > (double)MANY
                      ? fmax(last->slowest - floor, 0) / FEW_BOUNDS
                      : 0;

    return last->slowest - step;
}

int oracle_chain_solve(pdl_arena *a, const struct oracle_chain *c,
                       bool (*found)(void *ctx,
                                     const struct oracle_chain_answer *),
                       void *ctx, bool *exact)
{
    pdl_arena *own = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct oracle_chain_answer x = {.pick = PDL_NEW(a, int, c->n + 1),
                                    .stage = PDL_NEW(a, int, c->n + 1)};
    double best = INFINITY, least = 0, floor;
    struct solver s;
    int n = 0;

    *exact = true;
    if (!own || !x.pick || !x.stage || c->n < c->stages || !start(&s, own, c)) {
        pdl_arena_destroy(own);
        return c->n < c->stages ? 0 : -1;
    }
    while (n < MOST_BOUNDS && solve(&s, &x)) {
        if (n++ == 0)
            least = x.sum;
        best = fmin(best, x.cost);
        if (!found(ctx, &x))
            break;
        floor = least / c->stages;
        if (c->stages == 1 || c->fill * x.sum + c->each * floor >= best)
            break; /* sums only grow, and no bound is below the mean */
        s.bound = lower(c, &x, least);
        *exact = *exact && s.bound >= x.slowest;
    }
    *exact = *exact && !s.full && n < MOST_BOUNDS;
    n = s.failed ? -1 : n;
    pdl_arena_destroy(own);
    return n;
}
