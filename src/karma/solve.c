/* SPDX-License-Identifier: Apache-2.0
 *
 * The best decisions over all distances and places of states. Policies come
 * first: they are what the search has to beat. */
#include "karma_priv.h"

#include <math.h>
#include <string.h>

enum { EXACT_BLOCKS = 12, FREE_GROUPS = 6 };

static const int64_t EXACT_WIDTH = INT64_C(1) << 18, WIDTH = 2000;

struct solve {
    pdl_arena *arena;
    const struct pdl_karma *k;
    const struct karma_bound *missing;
    struct pdl_karma_plan best;
    enum pdl_karma_choice *choice;
    bool *host;
    double *tail;
    bool any; /* best is something */
};

static void take(struct solve *v, const struct pdl_karma_plan *p)
{
    const struct pdl_karma *k = v->k;
    bool better =
        p->step.fits != v->best.step.fits
            ? p->step.fits
            : (p->step.fits ? p->step.step_s < v->best.step.step_s
                            : p->step.peak_bytes < v->best.step.peak_bytes);

    if (v->any && !better)
        return;
    v->any = true;
    memcpy(v->best.choice, p->choice, (size_t)k->nblocks * sizeof *p->choice);
    memcpy(v->best.host, p->host, (size_t)k->ngroups * sizeof *p->host);
    v->best.ahead = p->ahead;
    v->best.step = p->step;
}

static enum pdl_status try_policies(struct solve *v, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; pdl_karma_policy_at(i) && st == PDL_OK; i++) {
        struct pdl_karma_plan p;

        st = pdl_karma_follow(v->arena, v->k, pdl_karma_policy_at(i), &p, err);
        if (st == PDL_OK)
            take(v, &p);
    }
    return st;
}

/* Decisions for a distance: the best pass that no update follows, or the best
 * last one. Below: what no decisions of its kind are. */
struct trial {
    int ahead;
    int64_t width;
    bool last;
    double limit, below;
};

static void leave_out_update(struct solve *v, struct karma_update *u)
{
    u->device_s = u->in_s = 0;
    for (int i = 0; i < v->k->nblocks; i++)
        u->tail[i] = -1;
}

static enum pdl_status try_pass(struct solve *v, struct trial *t,
                                struct pdl_err *err)
{
    struct karma_search s = {.k = v->k,
                             .missing = v->missing,
                             .ahead = t->ahead,
                             .width = t->width,
                             .limit = t->limit,
                             .bound = INFINITY};
    struct pdl_karma_plan p = {
        .choice = v->choice, .host = v->host, .ahead = t->ahead};
    double got, others = (double)(karma_passes(v->k) - 1);
    bool found;
    enum pdl_status st;

    s.update.tail = v->tail;
    karma_update(v->k, v->host, &s.update);
    if (!t->last)
        leave_out_update(v, &s.update);
    st = karma_search(&s, v->choice, &found, err);
    v->best.looked += s.looked;
    t->below = s.bound;
    t->limit = s.limit;
    if (st != PDL_OK || !found)
        return st;
    st = pdl_karma_run(v->k, &p, NULL, &p.step, err);
    got = t->last ? p.step.step_s - others * p.step.pass_s : p.step.pass_s;
    if (st == PDL_OK && (!p.step.fits || got > s.limit * (1 + 1e-9)))
        return pdl_fail(err, PDL_EWRONG,
                        "a step of %.17g s was planned as %.17g s", got,
                        s.limit);
    if (st == PDL_OK)
        take(v, &p);
    return st;
}

/* bound: what is proved for this distance and these places of states. Of
 * several passes the last has an update behind it, the others are found for
 * themselves; the better decisions count for all. */
static enum pdl_status try_distance(struct solve *v, int ahead, int64_t width,
                                    double *bound, struct pdl_err *err)
{
    double n = (double)karma_passes(v->k), others = 0;
    struct trial t = {.ahead = ahead, .width = width};
    enum pdl_status st = PDL_OK;

    if (n > 1) {
        t.limit = v->best.step.fits ? v->best.step.step_s / n : INFINITY;
        st = try_pass(v, &t, err);
        others = (n - 1) * fmin(t.below, t.limit);
    }
    t.last = true;
    t.limit = v->best.step.fits ? v->best.step.step_s - others : INFINITY;
    if (st == PDL_OK)
        st = try_pass(v, &t, err);
    *bound = n > 1 ? others + fmin(t.below, t.limit) : t.below;
    return st;
}

/* Groups that choose. */
static int free_groups(const struct pdl_karma *k)
{
    int n = 0;

    for (int g = 0; g < k->ngroups; g++)
        n += g == 0 || !k->group[g].as_before;
    return n;
}

/* Which groups are on the host: the bits of `which`, or, where there are many,
 * as many as it says. */
static void place(struct solve *v, int choose, int which)
{
    for (int g = 0, n = -1; g < v->k->ngroups; g++) {
        n += g == 0 || !v->k->group[g].as_before;
        v->host[g] = choose <= FREE_GROUPS ? (which >> n & 1) != 0 : n < which;
    }
}

/* All distances and places: first as if the chain were long. What that leaves
 * open of a short one is searched whole, with the best of all to beat. */
static enum pdl_status try_all(struct solve *v, int choose, double *lowest,
                               struct pdl_err *err)
{
    int first = v->k->least_ahead > 0 ? v->k->least_ahead : 1;
    int last = v->k->most_ahead > 0 ? v->k->most_ahead : PDL_KARMA_AHEAD;
    int places = choose <= FREE_GROUPS ? 1 << choose : choose + 1;
    int passes = v->k->nblocks <= EXACT_BLOCKS ? 2 : 1;
    int distances = last - first + 1;
    double *bound = PDL_NEW(v->arena, double, places *distances + 1);
    enum pdl_status st = PDL_OK;

    if (!bound)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int pass = 0; pass < passes; pass++)
        for (int i = 0; i < places * distances && st == PDL_OK; i++) {
            if (pass > 0 && bound[i] >= v->best.step.step_s * (1 - 1e-9) &&
                v->best.step.fits)
                continue;
            place(v, choose, i / distances);
            st = try_distance(v, first + i % distances,
                              pass > 0 ? EXACT_WIDTH : WIDTH, &bound[i], err);
        }
    *lowest = INFINITY;
    for (int i = 0; i < places * distances; i++)
        *lowest = fmin(*lowest, bound[i]);
    return st;
}

enum pdl_status pdl_karma_solve(pdl_arena *a, const struct pdl_karma *k,
                                struct pdl_karma_plan *out, struct pdl_err *err)
{
    struct solve v = {.arena = a, .k = k};
    int choose = free_groups(k);
    double bound = INFINITY;
    enum pdl_status st;

    v.best.choice = PDL_NEW(a, enum pdl_karma_choice, k->nblocks + 1);
    v.best.host = PDL_NEW(a, bool, k->ngroups + 1);
    v.choice = PDL_NEW(a, enum pdl_karma_choice, k->nblocks + 1);
    v.host = PDL_NEW(a, bool, k->ngroups + 1);
    v.tail = PDL_NEW(a, double, k->nblocks + 1);
    v.missing = karma_bound_make(a, k);
    if (!v.best.choice || !v.best.host || !v.choice || !v.host || !v.tail ||
        !v.missing)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = try_policies(&v, err);
    if (st == PDL_OK)
        st = try_all(&v, choose, &bound, err);
    if (st != PDL_OK)
        return st;
    v.best.bound_s = fmin(bound, v.best.step.step_s);
    v.best.exact =
        bound >= v.best.step.step_s * (1 - 1e-9) && choose <= FREE_GROUPS;
    *out = v.best;
    return PDL_OK;
}
