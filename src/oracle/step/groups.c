/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies that say on which nodes an axis lies ("pipe=4@new+old",
 * "data=8@new:4*3+old:4*1"). What they leave open is filled in: how many ranks,
 * by the sizes of the groups, and shares of samples, by the speeds of their
 * PEs. The machine is then put into the order of the ranks, so that all that
 * follows finds every rank on its kind of node. */
#include "oracle/oracle_priv.h"

#include <string.h>

struct laid {
    pdl_arena *arena;
    const struct pdl_system *sys;
    struct pdl_term *term;
    struct pdl_term_part *part; /* the term's, to be filled in */
    int64_t *group;             /* of each of them */
    struct pdl_err *err;
};

static enum pdl_status no_group(const struct laid *l, const char *name)
{
    struct pdl_suggest s;

    pdl_fail(l->err, PDL_EINVAL, "strategy: the machine has no group '%.60s'",
             name);
    pdl_suggest_init(&s, name);
    for (int64_t i = 0; i < l->sys->ngroups; i++)
        pdl_suggest_try(&s, l->sys->groups[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(l->err, "did you mean '%s'?", pdl_suggest_best(&s));
    else if (l->sys->ngroups > 0)
        pdl_hint(l->err, "its first is '%s'", l->sys->groups[0].name);
    else
        pdl_hint(l->err, "groups are written in a system file");
    return PDL_EINVAL;
}

static enum pdl_status find_groups(struct laid *l)
{
    for (int i = 0; i < l->term->nparts; i++) {
        int64_t g = 0;

        while (g < l->sys->ngroups &&
               strcmp(l->sys->groups[g].name, l->part[i].group) != 0)
            g++;
        if (g == l->sys->ngroups)
            return no_group(l, l->part[i].group);
        l->group[i] = g;
    }
    return PDL_OK;
}

/* As many ranks as each group has nodes of all that are named. */
static enum pdl_status count_ranks(struct laid *l)
{
    int64_t size = l->term->size[0], nodes = 0;

    if (l->part[0].count > 0)
        return PDL_OK;
    for (int i = 0; i < l->term->nparts; i++)
        nodes += l->sys->groups[l->group[i]].nodes;
    for (int i = 0; i < l->term->nparts; i++) {
        int64_t n = size * l->sys->groups[l->group[i]].nodes;

        if (n % nodes != 0) {
            pdl_fail(l->err, PDL_EINVAL,
                     "strategy: %s=%lld cannot be dealt to %lld of %lld nodes "
                     "of '%.60s'",
                     pdl_axis_name(l->term->axis), (long long)size,
                     (long long)l->sys->groups[l->group[i]].nodes,
                     (long long)nodes, l->part[i].group);
            pdl_hint(l->err, "say how many: %s=%lld@%s:1+...",
                     pdl_axis_name(l->term->axis), (long long)size,
                     l->part[0].group);
            return PDL_EINVAL;
        }
        l->part[i].count = n / nodes;
    }
    return PDL_OK;
}

/* ---- shares ----------------------------------------------------------- */

enum { MAX_SHARE = 4096 };

/* The share that takes longest to grow by one. */
static int next_share(const struct laid *l, const double *speed)
{
    int best = 0;

    for (int i = 1; i < l->term->nparts; i++)
        if ((double)(l->part[i].share + 1) / speed[i] <
            (double)(l->part[best].share + 1) / speed[best])
            best = i;
    return best;
}

/* Samples of a rank of each group, one of the micro-batch after the other to
 * who would be done with it first. */
static enum pdl_status deal_shares(struct laid *l, enum pdl_precision precision,
                                   int64_t samples)
{
    double speed[64];
    int64_t left = samples;

    if (l->term->axis != PDL_AXIS_DATA || l->part[0].share > 0)
        return PDL_OK;
    for (int i = 0; i < l->term->nparts; i++) {
        const struct pdl_pe *pe = &l->sys->groups[l->group[i]].whole->pe;

        speed[i] = pdl_pe_matmul_rate(pe, precision, 1);
        if (!(speed[i] > 0))
            return pdl_fail(l->err, PDL_EINVAL, "%s has no %s arithmetic",
                            pe->name, pdl_precision_name(precision));
        l->part[i].share = 1;
        left -= l->part[i].count;
    }
    for (int i = next_share(l, speed);
         left >= l->part[i].count && l->part[i].share < MAX_SHARE;
         i = next_share(l, speed)) {
        l->part[i].share++;
        left -= l->part[i].count;
    }
    return PDL_OK;
}

/* ---- the machine ------------------------------------------------------ */

/* The coordinate of a rank along the axis, and so its group. */
static int64_t group_of(const struct laid *l, const struct pdl_mesh *m,
                        int64_t rank)
{
    const struct pdl_mesh_term *t = m->term[0];
    int64_t at = 0;

    while (t->axis != l->term->axis)
        t++;
    for (int f = t->first; f < t->first + t->count; f++)
        at = at * m->factor[f] + pdl_mesh_coord(m, rank, f);
    for (int i = 0; i < l->term->nparts; i++) {
        if (at < l->part[i].count)
            return l->group[i];
        at -= l->part[i].count;
    }
    return -1;
}

static enum pdl_status torn(const struct laid *l, int64_t node)
{
    pdl_fail(l->err, PDL_EINVAL,
             "strategy: '@' tears node %lld: its %lld PEs are of one group",
             (long long)node, (long long)l->sys->node.pes);
    pdl_hint(l->err, "put axes behind %s that fill a node",
             pdl_axis_name(l->term->axis));
    return PDL_EINVAL;
}

/* The group of each node in the order of ranks, as runs. */
static enum pdl_status order_nodes(const struct laid *l,
                                   const struct pdl_mesh *m,
                                   struct pdl_pe_group *run, int64_t *nruns)
{
    int64_t per = l->sys->node.pes, nodes = (m->pes + per - 1) / per;

    *nruns = 0;
    for (int64_t i = 0; i < nodes; i++) {
        int64_t g = group_of(l, m, i * per);

        for (int64_t r = i * per; r < (i + 1) * per && r < m->pes; r++)
            if (group_of(l, m, r) != g)
                return torn(l, i);
        if (*nruns == 0 || run[*nruns - 1].group != g + 1)
            run[(*nruns)++] = (struct pdl_pe_group){
                .pe = l->sys->groups[g].whole->pe, .group = g + 1};
        run[*nruns - 1].nodes++;
    }
    return PDL_OK;
}

static enum pdl_status have_nodes(const struct laid *l,
                                  const struct pdl_pe_group *run, int64_t nruns)
{
    for (int64_t g = 0; g < l->sys->ngroups; g++) {
        int64_t used = 0;

        for (int64_t i = 0; i < nruns; i++)
            used += run[i].group == g + 1 ? run[i].nodes : 0;
        if (used > l->sys->groups[g].nodes)
            return pdl_fail(l->err, PDL_EINVAL,
                            "strategy: wants %lld nodes of '%.60s', which has "
                            "%lld",
                            (long long)used, l->sys->groups[g].name,
                            (long long)l->sys->groups[g].nodes);
    }
    return PDL_OK;
}

static enum pdl_status arrange(const struct laid *l,
                               const struct pdl_strategy *s,
                               struct pdl_system *out)
{
    struct pdl_mesh *m = PDL_NEW(l->arena, struct pdl_mesh, 1);
    struct pdl_pe_group *run;
    int64_t nruns, nodes;
    enum pdl_status st;

    if (!m)
        return pdl_fail(l->err, PDL_ENOMEM, "out of memory");
    st = pdl_mesh_make(s, m, l->err);
    if (st != PDL_OK)
        return st;
    nodes = (m->pes + l->sys->node.pes - 1) / l->sys->node.pes;
    if (nodes > l->sys->nodes)
        return pdl_fail(
            l->err, PDL_EINVAL, "strategy: %lld PEs; the groups have %lld",
            (long long)m->pes, (long long)(l->sys->nodes * l->sys->node.pes));
    run = PDL_NEW(l->arena, struct pdl_pe_group, nodes + 1);
    if (!run)
        return pdl_fail(l->err, PDL_ENOMEM, "out of memory");
    st = order_nodes(l, m, run, &nruns);
    if (st == PDL_OK)
        st = have_nodes(l, run, nruns);
    if (st == PDL_OK) {
        *out = *l->sys;
        out->pe_groups = run;
        out->npe_groups = nruns;
    }
    return st;
}

/* The one term that lies on groups. */
static enum pdl_status find_term(struct pdl_strategy *s, struct pdl_term **out,
                                 struct pdl_err *err)
{
    struct pdl_clause *c = &s->clause[0];

    *out = NULL;
    for (int t = 0; t < c->nterms; t++) {
        if (c->term[t].nparts == 0)
            continue;
        if (*out)
            return pdl_fail(err, PDL_EINVAL,
                            "strategy: one axis lies on groups, not %s and %s",
                            pdl_axis_name((*out)->axis),
                            pdl_axis_name(c->term[t].axis));
        *out = &c->term[t];
    }
    return PDL_OK;
}

enum pdl_status pdl_strategy_lay(pdl_arena *a, const struct pdl_system *sys,
                                 enum pdl_precision precision, int64_t batch,
                                 struct pdl_strategy *s, struct pdl_system *out,
                                 struct pdl_err *err)
{
    struct laid l = {.arena = a, .sys = sys, .err = err};
    int64_t micro = s->micro_batches > 0 ? s->micro_batches
                    : s->accumulate > 0  ? s->accumulate
                                         : 1;
    enum pdl_status st = find_term(s, &l.term, err);

    if (st != PDL_OK || !l.term)
        return st;
    l.part = PDL_NEW(a, struct pdl_term_part, l.term->nparts);
    l.group = PDL_NEW(a, int64_t, l.term->nparts);
    if (!l.part || !l.group)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memcpy(l.part, l.term->part, (size_t)l.term->nparts * sizeof *l.part);
    l.term->part = l.part;
    st = find_groups(&l);
    if (st == PDL_OK)
        st = count_ranks(&l);
    if (st == PDL_OK)
        st = deal_shares(&l, precision, batch / micro);
    return st == PDL_OK ? arrange(&l, s, out) : st;
}
