/* SPDX-License-Identifier: Apache-2.0
 *
 * From the text of a design to its machine: the system with its parameters,
 * as many nodes as it takes, and the levels of another network where one is
 * named. Sites far apart have a network each; where gradients cross in every
 * step there is one level more, what a site injects over what its link carries;
 * where every site trains by itself the machine of a job is one site. */
#include "design_priv.h"

#include <math.h>
#include <string.h>

enum pdl_status design_place(const struct pdl_design_text *t,
                             enum pdl_status st, struct pdl_err *err)
{
    struct pdl_err inner;

    if (!err || st == PDL_OK || st == PDL_ENOMEM)
        return st;
    inner = *err;
    pdl_say(err, "design '%.120s': %s", t->label, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

/* The network that is counted where none is named: a tree as tapered as the
 * described levels are. */
static const char *as_described(pdl_arena *a, const struct pdl_system *s)
{
    return pdl_arena_printf(a, "fat-tree:taper=%g",
                            s->levels[s->nlevels - 1].oversubscription);
}

/* The levels of a site, and the one above all of them. */
static enum pdl_status far_apart(pdl_arena *a, const struct pdl_question *q,
                                 int64_t nodes, struct pdl_system *s,
                                 struct pdl_err *err)
{
    int64_t n = s->network.ntiers;
    const struct pdl_nics *nics = &s->node.nics;
    double out = (double)(nodes * nics->count) * nics->bytes_per_s;
    struct pdl_tier *tier = PDL_NEW(a, struct pdl_tier, n + 2);

    if (!tier)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    for (int64_t i = 0; i < n; i++) {
        tier[i] = s->network.tiers[i];
        if (tier[i].nodes == 0 || tier[i].nodes >= nodes) {
            tier[i].nodes = nodes;
            n = i + 1;
        }
    }
    if (n == 0 || tier[n - 1].nodes < nodes)
        tier[n++] = (struct pdl_tier){
            .name = "site", .nodes = nodes, .oversubscription = 1};
    n++;
    tier[n - 1] = (struct pdl_tier){
        .name = "sites",
        .flow_bytes_per_s = fmin(nics->bytes_per_s, q->site_bytes_per_s),
        .latency_s = fmax(tier[n - 2].latency_s, 2 * nics->latency_s) +
                     q->site_latency_s,
        .oversubscription = fmax(1, out / q->site_bytes_per_s)};
    s->network.tiers = tier;
    s->network.ntiers = n;
    s->ncollectives = 0; /* those were measured on one site */
    return pdl_system_update(a, s, err);
}

static enum pdl_status join(pdl_arena *a, int64_t nodes,
                            struct pdl_design_point *p, struct pdl_err *err)
{
    const char *network = p->text->network;
    struct pdl_system *s = &p->sys;
    struct pdl_tier *tier;
    enum pdl_status st;

    if (!network && s->node.nics.count < 1)
        return PDL_OK; /* its PEs are joined without adapters */
    if (!network)
        network = as_described(a, s);
    st = network ? pdl_fabric_make(a, network, s, nodes, &p->fabric, err)
                 : pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    if (st != PDL_OK || !p->text->network)
        return st;
    tier = PDL_NEW(a, struct pdl_tier, p->fabric.ntiers + 1);
    if (!tier)
        return pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    memcpy(tier, p->fabric.tier, (size_t)p->fabric.ntiers * sizeof *tier);
    s->network.tiers = tier;
    s->network.ntiers = p->fabric.ntiers;
    s->network.topology = network;
    s->network.nparams = 0;
    s->ncollectives = 0; /* those were measured on another network */
    return pdl_system_update(a, s, err);
}

/* What a PE and a node draw in the mean of all kinds. */
static enum pdl_status blend(struct pdl_system *s, struct pdl_err *err)
{
    double peak = 0, idle = 0, node = 0, nodes = 0;

    for (int64_t i = 0; i < s->ngroups; i++) {
        const struct pdl_system *g = s->groups[i].whole;
        double n = (double)s->groups[i].nodes;

        if (!(g->pe.peak_w > 0)) {
            pdl_fail(err, PDL_EINVAL, "%s does not say the power of its %s",
                     g->name, g->pe.name);
            pdl_hint(err, "pe: {peak_power: 700W} in its file");
            return PDL_EINVAL;
        }
        peak += n * g->pe.peak_w;
        idle += n * (g->pe.idle_w > 0 ? g->pe.idle_w : g->pe.peak_w);
        node += n * g->node.peak_w;
        nodes += n;
    }
    s->pe.peak_w = peak / nodes;
    s->pe.idle_w = idle / nodes;
    s->node.peak_w = node / nodes;
    return PDL_OK;
}

/* A machine of several kinds of nodes is what it is. */
static enum pdl_status check_groups(const struct pdl_design_text *t,
                                    struct pdl_system *s, struct pdl_err *err)
{
    if (s->ngroups == 0)
        return PDL_OK;
    if (t->pes != pdl_system_pes(s) || t->local_steps > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s has groups of nodes, %lld PEs in all, and is "
                        "taken whole",
                        s->name, (long long)pdl_system_pes(s));
    return blend(s, err);
}

static enum pdl_status check_sites(const struct pdl_question *q,
                                   const struct pdl_design_point *p,
                                   int64_t nodes, struct pdl_err *err)
{
    int64_t sites = p->text->sites;

    if (sites < 2)
        return PDL_OK;
    if (!(q->site_bytes_per_s > 0)) {
        pdl_fail(err, PDL_EINVAL, "what joins its sites is not said");
        pdl_hint(err, "site_link: 100GB/s, site_latency: 20ms");
        return PDL_EINVAL;
    }
    if (p->sys.node.nics.count < 1)
        return pdl_fail(err, PDL_EINVAL,
                        "%s has no adapters, so it has no sites", p->sys.name);
    if (nodes % sites != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld nodes are not dealt to %lld sites equally",
                        (long long)nodes, (long long)sites);
    for (int k = 0; p->text->local_steps > 1 && k < q->nworkloads; k++)
        if (q->workload[k].batch % sites != 0)
            return pdl_fail(err, PDL_EINVAL,
                            "a batch of %lld of %.60s is not dealt to %lld "
                            "sites equally",
                            (long long)q->workload[k].batch,
                            q->workload[k].name, (long long)sites);
    return PDL_OK;
}

enum pdl_status design_machine(pdl_arena *a, const struct pdl_question *q,
                               struct pdl_design_point *p, struct pdl_err *err)
{
    enum pdl_status st = pdl_system_open(a, p->text->system, &p->sys, err);
    struct pdl_system *s = &p->sys;
    int64_t sites = p->text->sites > 1 ? p->text->sites : 1, nodes = 0;

    if (st == PDL_OK && !(s->pe.memory_bytes_per_s > 0))
        st = pdl_fail(err, PDL_EINVAL,
                      "%s does not say the memory bandwidth of its %s", s->name,
                      s->pe.name);
    if (st == PDL_OK)
        st = check_groups(p->text, s, err);
    if (st == PDL_OK && p->text->pes % s->node.pes != 0 &&
        p->text->pes > s->node.pes)
        st = pdl_fail(err, PDL_EINVAL,
                      "%lld PEs are no whole number of nodes of %lld",
                      (long long)p->text->pes, (long long)s->node.pes);
    if (st == PDL_OK) { /* exactly these nodes, no larger machine */
        nodes = (p->text->pes + s->node.pes - 1) / s->node.pes;
        st = check_sites(q, p, nodes, err);
    }
    p->jobs = p->text->local_steps > 1 ? sites : 1;
    if (st == PDL_OK) {
        s->built_nodes = 0;
        s->nodes = nodes / p->jobs;
        st = pdl_system_update(a, s, err);
    }
    if (st == PDL_OK)
        st = join(a, nodes / sites, p, err);
    if (st == PDL_OK && sites > p->jobs)
        st = far_apart(a, q, nodes / sites, s, err);
    return design_place(p->text, st, err);
}
