/* SPDX-License-Identifier: Apache-2.0
 *
 * Max-min rates of one set of flows, and the proof that rates are max-min.
 *
 * The proof is the classical certificate: feasible rates are the weighted
 * max-min ones if and only if every flow is at its bound or crosses a
 * bottleneck, a full link on which no flow has a larger rate / weight
 * (Bertsekas and Gallager, Data Networks, 6.5.2). It shares no code with the
 * solver. Cost: one pass over the uses. */
#include "sim_priv.h"

#include <math.h>

static enum pdl_status check_problem(const struct pdl_maxmin *p,
                                     struct pdl_err *err)
{
    for (int l = 0; l < p->nlinks; l++)
        if (!(p->capacity[l] > 0) || !isfinite(p->capacity[l]))
            return pdl_fail(err, PDL_EINVAL, "link %d: capacity %g", l,
                            p->capacity[l]);
    for (int f = 0; f < p->nflows; f++) {
        const struct pdl_maxmin_flow *flow = &p->flows[f];

        if (!(flow->weight > 0) || !isfinite(flow->weight) ||
            !(flow->bound >= 0))
            return pdl_fail(err, PDL_EINVAL, "flow %d: weight %g, bound %g", f,
                            flow->weight, flow->bound);
        if (flow->nuses < 1)
            return pdl_fail(err, PDL_EINVAL, "flow %d uses no link", f);
        for (int i = 0; i < flow->nuses; i++) {
            int l = flow->uses[i].link;

            if (l < 0 || l >= p->nlinks || !(flow->uses[i].amount > 0))
                return pdl_fail(err, PDL_EINVAL, "flow %d: link %d, amount %g",
                                f, l, flow->uses[i].amount);
            for (int k = 0; k < i; k++)
                if (flow->uses[k].link == l)
                    return pdl_fail(err, PDL_EINVAL,
                                    "flow %d uses link %d twice", f, l);
        }
    }
    return PDL_OK;
}

enum pdl_status pdl_maxmin_solve(const struct pdl_maxmin *p, double *rates,
                                 struct pdl_err *err)
{
    pdl_arena *scratch = NULL;
    struct net_share s;
    enum pdl_status st = check_problem(p, err);

    if (st != PDL_OK)
        return st;
    scratch = pdl_arena_create((size_t)8 << 30);
    if (!scratch)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d flows", p->nflows);
    st = net_share_init(&s, scratch, p->capacity, p->nlinks, err);
    if (st != PDL_OK)
        goto out;
    net_share_reserve(&s, p->nflows);
    for (int f = 0; f < p->nflows; f++)
        net_share_add(&s, f, p->flows[f].uses, p->flows[f].nuses,
                      p->flows[f].weight, p->flows[f].bound);
    net_share_solve(&s);
    if (s.failed) {
        st = pdl_fail(err, PDL_ENOMEM, "no memory for %d flows", p->nflows);
        goto out;
    }
    for (int f = 0; f < p->nflows; f++)
        rates[f] = s.flows[f].rate;
out:
    pdl_arena_destroy(scratch);
    return st;
}

/* Of each link: what it carries and the largest rate / weight on it. */
struct load {
    double used, level;
};

static enum pdl_status check_loads(const struct pdl_maxmin *p,
                                   const double *rates, double tolerance,
                                   struct load *loads, struct pdl_err *err)
{
    for (int f = 0; f < p->nflows; f++) {
        const struct pdl_maxmin_flow *flow = &p->flows[f];

        if (!(rates[f] > 0) || !isfinite(rates[f]))
            return pdl_fail(err, PDL_EWRONG, "flow %d has rate %g", f,
                            rates[f]);
        if (flow->bound > 0 && rates[f] > flow->bound * (1 + tolerance))
            return pdl_fail(err, PDL_EWRONG, "flow %d: %g is above %g", f,
                            rates[f], flow->bound);
        for (int i = 0; i < flow->nuses; i++) {
            struct load *l = &loads[flow->uses[i].link];

            l->used += flow->uses[i].amount * rates[f];
            l->level = fmax(l->level, rates[f] / flow->weight);
        }
    }
    for (int l = 0; l < p->nlinks; l++)
        if (loads[l].used > p->capacity[l] * (1 + tolerance))
            return pdl_fail(err, PDL_EWRONG, "link %d carries %.17g of %.17g",
                            l, loads[l].used, p->capacity[l]);
    return PDL_OK;
}

static bool has_bottleneck(const struct pdl_maxmin *p, int f, double rate,
                           double tolerance, const struct load *loads)
{
    const struct pdl_maxmin_flow *flow = &p->flows[f];

    if (flow->bound > 0 && rate >= flow->bound * (1 - tolerance))
        return true;
    for (int i = 0; i < flow->nuses; i++) {
        int l = flow->uses[i].link;

        if (loads[l].used >= p->capacity[l] * (1 - tolerance) &&
            rate / flow->weight >= loads[l].level * (1 - tolerance))
            return true;
    }
    return false;
}

enum pdl_status pdl_maxmin_check(const struct pdl_maxmin *p,
                                 const double *rates, double tolerance,
                                 struct pdl_err *err)
{
    pdl_arena *scratch = NULL;
    struct load *loads;
    enum pdl_status st = check_problem(p, err);

    if (st != PDL_OK)
        return st;
    scratch = pdl_arena_create((size_t)8 << 30);
    loads = scratch ? PDL_NEW(scratch, struct load, p->nlinks + 1) : NULL;
    st = loads ? check_loads(p, rates, tolerance, loads, err)
               : pdl_fail(err, PDL_ENOMEM, "no memory for %d links", p->nlinks);
    for (int f = 0; st == PDL_OK && f < p->nflows; f++)
        if (!has_bottleneck(p, f, rates[f], tolerance, loads))
            st = pdl_fail(err, PDL_EWRONG, "flow %d has no bottleneck", f);
    pdl_arena_destroy(scratch);
    return st;
}
