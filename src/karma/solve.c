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
    struct pdl_karma_plan best;
    enum pdl_karma_choice *choice;
    bool *host;
    double *tail;
    double bound;
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

static enum pdl_status try_distance(struct solve *v, int ahead,
                                    struct pdl_err *err)
{
    struct karma_search s = {
        .k = v->k,
        .ahead = ahead,
        .width = v->k->nblocks <= EXACT_BLOCKS ? EXACT_WIDTH : WIDTH,
        .limit = v->best.step.fits ? v->best.step.step_s : INFINITY,
        .bound = INFINITY};
    struct pdl_karma_plan p = {
        .choice = v->choice, .host = v->host, .ahead = ahead};
    bool found;
    enum pdl_status st;

    s.update.tail = v->tail;
    karma_update(v->k, v->host, &s.update);
    st = karma_search(&s, v->choice, &found, err);
    v->best.looked += s.looked;
    v->bound = fmin(v->bound, s.bound);
    if (st == PDL_OK && found)
        st = pdl_karma_run(v->k, &p, NULL, &p.step, err);
    if (st == PDL_OK && found &&
        (!p.step.fits || p.step.step_s > s.limit * (1 + 1e-9)))
        return pdl_fail(err, PDL_EWRONG,
                        "a step of %.17g s was planned as %.17g s",
                        p.step.step_s, s.limit);
    if (st == PDL_OK && found)
        take(v, &p);
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

enum pdl_status pdl_karma_solve(pdl_arena *a, const struct pdl_karma *k,
                                struct pdl_karma_plan *out, struct pdl_err *err)
{
    struct solve v = {.arena = a, .k = k, .bound = INFINITY};
    int first = k->least_ahead > 0 ? k->least_ahead : 1;
    int last = k->most_ahead > 0 ? k->most_ahead : PDL_KARMA_AHEAD;
    int choose = free_groups(k);
    int places = choose <= FREE_GROUPS ? 1 << choose : choose + 1;
    enum pdl_status st;

    v.best.choice = PDL_NEW(a, enum pdl_karma_choice, k->nblocks + 1);
    v.best.host = PDL_NEW(a, bool, k->ngroups + 1);
    v.choice = PDL_NEW(a, enum pdl_karma_choice, k->nblocks + 1);
    v.host = PDL_NEW(a, bool, k->ngroups + 1);
    v.tail = PDL_NEW(a, double, k->nblocks + 1);
    if (!v.best.choice || !v.best.host || !v.choice || !v.host || !v.tail)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = try_policies(&v, err);
    for (int w = 0; w < places && st == PDL_OK; w++)
        for (int d = first; d <= last && st == PDL_OK; d++) {
            place(&v, choose, w);
            st = try_distance(&v, d, err);
        }
    if (st != PDL_OK)
        return st;
    v.best.bound_s = fmin(v.bound, v.best.step.step_s);
    v.best.exact =
        v.bound >= v.best.step.step_s * (1 - 1e-9) && choose <= FREE_GROUPS;
    *out = v.best;
    return PDL_OK;
}
