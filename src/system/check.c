/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a description, one function for each part. They catch
 * what a table of ranges cannot: numbers that contradict each other. */
#include "system_priv.h"

#include <string.h>

/* Rates come from data sheets rounded to three digits. */
#define SLACK 1.01

/* Keeps the checks below quadratic in something small. */
enum { MAX_PAIRS = 4096 };

#define BROKEN(...) pdl_fail(err, PDL_EINVAL, __VA_ARGS__)

static enum pdl_status check_profile(const struct pdl_pe *pe,
                                     struct pdl_err *err)
{
    for (int64_t i = 0; i < pe->nprofile; i++) {
        const struct pdl_profile_row *r = &pe->profile[i];

        if ((r->seconds > 0) == (r->efficiency > 0))
            return BROKEN("pe.profile.%lld: needs either seconds or "
                          "efficiency",
                          (long long)i);
        if (r->ndims > PDL_PROFILE_DIMS)
            return BROKEN("pe.profile.%lld: more than %d dims", (long long)i,
                          PDL_PROFILE_DIMS);
        if (r->precision && pdl_precision_find(r->precision) == PDL_NPRECISIONS)
            return BROKEN("pe.profile.%lld: no precision '%.40s'", (long long)i,
                          r->precision);
    }
    return PDL_OK;
}

static enum pdl_status check_pe(const struct pdl_pe *pe, struct pdl_err *err)
{
    for (int p = 0; p < PDL_NPRECISIONS; p++)
        if (pe->peak_flop_per_s[p] > 0 &&
            pe->matmul_flop_per_s[p] > pe->peak_flop_per_s[p])
            return BROKEN("pe.matmul.%s: %g FLOP/s is more than the peak, %g",
                          pdl_precision_name((enum pdl_precision)p),
                          pe->matmul_flop_per_s[p], pe->peak_flop_per_s[p]);
    if (pe->sustained_hz > pe->clock_hz && pe->clock_hz > 0)
        return BROKEN("pe.sustained_clock: faster than pe.clock");
    if (pe->idle_w > pe->peak_w && pe->peak_w > 0)
        return BROKEN("pe.idle_power: more than pe.peak_power");
    return check_profile(pe, err);
}

static enum pdl_status check_pair(const struct pdl_node_desc *node, int64_t i,
                                  struct pdl_err *err)
{
    const struct pdl_ints *p = &node->links.pairs[i];

    if (p->n != 3)
        return BROKEN("node.links.pairs.%lld: needs [PE, PE, cables]",
                      (long long)i);
    if (p->v[0] < 0 || p->v[1] < 0 || p->v[0] >= node->pes ||
        p->v[1] >= node->pes || p->v[0] == p->v[1])
        return BROKEN("node.links.pairs.%lld: not two PEs of 0 to %lld",
                      (long long)i, (long long)node->pes - 1);
    if (p->v[2] < 1 || p->v[2] > 1000)
        return BROKEN("node.links.pairs.%lld: %lld cables", (long long)i,
                      (long long)p->v[2]);
    for (int64_t k = 0; k < i; k++) {
        const int64_t *q = node->links.pairs[k].v;

        if ((q[0] == p->v[0] && q[1] == p->v[1]) ||
            (q[0] == p->v[1] && q[1] == p->v[0]))
            return BROKEN("node.links.pairs.%lld: the pair is there already",
                          (long long)i);
    }
    return PDL_OK;
}

static enum pdl_status check_graph(const struct pdl_node_desc *node,
                                   struct pdl_err *err)
{
    const struct pdl_node_links *l = &node->links;

    if (l->npairs > 0 && l->link_bytes_per_s == 0)
        return BROKEN("node.links.link_bandwidth: missing, pairs need it");
    if (l->npairs > node->pes * (node->pes - 1) / 2)
        return BROKEN("node.links.pairs: more than there are pairs of PEs");
    if (l->npairs > MAX_PAIRS)
        return BROKEN("node.links.pairs: more than %d", MAX_PAIRS);
    for (int64_t i = 0; i < l->npairs; i++) {
        enum pdl_status st = check_pair(node, i, err);

        if (st != PDL_OK)
            return st;
    }
    for (int64_t pe = 0; pe < node->pes && l->npairs > 0; pe++) {
        double sum = 0;

        for (int64_t i = 0; i < l->npairs; i++)
            if (l->pairs[i].v[0] == pe || l->pairs[i].v[1] == pe)
                sum += (double)l->pairs[i].v[2] * l->link_bytes_per_s;
        if (sum > SLACK * l->bytes_per_s)
            return BROKEN("node.links.pairs: PE %lld has %g B/s of cables, "
                          "bandwidth says %g",
                          (long long)pe, sum, l->bytes_per_s);
    }
    return PDL_OK;
}

static enum pdl_status check_links(const struct pdl_node_desc *node,
                                   struct pdl_err *err)
{
    const struct pdl_node_links *l = &node->links;

    if (l->shape == PDL_LINKS_NONE) {
        if (l->bytes_per_s > 0)
            return BROKEN("node.links.shape: missing, bandwidth is given");
        return PDL_OK;
    }
    if (l->bytes_per_s == 0)
        return BROKEN("node.links.bandwidth: missing");
    if (l->pair_bytes_per_s > SLACK * l->bytes_per_s)
        return BROKEN("node.links.pair_bandwidth: more than a PE has");
    if (l->shape == PDL_LINKS_ALL_TO_ALL &&
        l->pair_bytes_per_s * (double)(node->pes - 1) > SLACK * l->bytes_per_s)
        return BROKEN("node.links.pair_bandwidth: %lld peers take more than "
                      "a PE has",
                      (long long)node->pes - 1);
    if (l->measured_bytes_per_s > SLACK * l->bytes_per_s)
        return BROKEN("node.links.measured_bandwidth: more than nominal");
    if (l->shape == PDL_LINKS_GRAPH && l->npairs == 0)
        return BROKEN("node.links.pairs: missing, a graph needs them");
    if (l->shape != PDL_LINKS_GRAPH && l->npairs > 0)
        return BROKEN("node.links.pairs: only with shape: graph");
    return check_graph(node, err);
}

static enum pdl_status check_nics(const struct pdl_node_desc *node,
                                  struct pdl_err *err)
{
    const struct pdl_nics *n = &node->nics;

    if (n->count > 0 && n->bytes_per_s == 0)
        return BROKEN("node.nics.bandwidth: missing");
    if (n->measured_bytes_per_s > SLACK * n->bytes_per_s)
        return BROKEN("node.nics.measured_bandwidth: more than nominal");
    if (n->npes > 0 && n->npes != n->count)
        return BROKEN("node.nics.pes: %lld rows for %lld NICs",
                      (long long)n->npes, (long long)n->count);
    for (int64_t i = 0; i < n->npes; i++)
        for (int64_t k = 0; k < n->pes[i].n; k++)
            if (n->pes[i].v[k] < 0 || n->pes[i].v[k] >= node->pes)
                return BROKEN("node.nics.pes.%lld: no PE %lld", (long long)i,
                              (long long)n->pes[i].v[k]);
    return PDL_OK;
}

static enum pdl_status check_network(const struct pdl_system *sys,
                                     struct pdl_err *err)
{
    const struct pdl_network *net = &sys->network;

    for (int64_t i = 0; i < net->ntiers; i++) {
        const struct pdl_tier *t = &net->tiers[i], *below = t - 1;

        if (t->nodes == 0 && i < net->ntiers - 1)
            return BROKEN("network.levels.%lld.nodes: missing (only the last "
                          "level may leave it out)",
                          (long long)i);
        if (t->nodes > 0 && i > 0 && t->nodes <= below->nodes)
            return BROKEN("network.levels.%lld.nodes: not larger than the "
                          "level below",
                          (long long)i);
        if (i > 0 && t->latency_s > 0 && t->latency_s < below->latency_s)
            return BROKEN("network.levels.%lld.latency: less than the level "
                          "below",
                          (long long)i);
        if (t->bytes_per_s == 0 && sys->node.nics.count == 0)
            return BROKEN("network.levels.%lld.bandwidth: missing, and the "
                          "node has no NICs",
                          (long long)i);
    }
    if (sys->nodes > 1 && sys->node.nics.count == 0 && net->ntiers == 0)
        return BROKEN("node.nics: missing, %lld nodes must be joined",
                      (long long)sys->nodes);
    return PDL_OK;
}

static bool is_time(const struct pdl_ints *t)
{
    if ((t->n != 2 && t->n != 4) || t->v[0] < 0 || t->v[1] <= 0)
        return false;
    return t->n == 2 || (t->v[2] >= 0 && t->v[3] >= 0);
}

static enum pdl_status check_collectives(const struct pdl_system *sys,
                                         struct pdl_err *err)
{
    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *c = &sys->collectives[i];

        for (int64_t k = 0; k < c->ntimes; k++)
            if (!is_time(&c->times[k]))
                return BROKEN("collectives.%lld.times.%lld: needs [bytes, "
                              "nanoseconds] or [bytes, nanoseconds, signals, "
                              "worked bytes]",
                              (long long)i, (long long)k);
        if (c->nodes > c->pes)
            return BROKEN("collectives.%lld.nodes: more than its PEs",
                          (long long)i);
    }
    return PDL_OK;
}

enum pdl_status pdl_system_check(const struct pdl_system *sys,
                                 struct pdl_err *err)
{
    enum pdl_status st;
    int64_t pes;

    if (!sys->name || !*sys->name)
        return BROKEN("name: missing");
    if (!sys->pe.name || !*sys->pe.name)
        return BROKEN("pe.name: missing");
    if (sys->nodes < 1 || sys->node.pes < 1 ||
        !pdl_mul64(sys->nodes, sys->node.pes, &pes) || pes > INT32_MAX)
        return BROKEN("nodes: %lld nodes of %lld PEs are more than %d PEs",
                      (long long)sys->nodes, (long long)sys->node.pes,
                      INT32_MAX);
    if (sys->ngroups > 0 && sys->nodes < system_group_nodes(sys))
        return BROKEN("nodes: %lld, but the groups have %lld",
                      (long long)sys->nodes,
                      (long long)system_group_nodes(sys));
    st = check_pe(&sys->pe, err);
    for (int64_t i = 0; i < sys->npe_groups && st == PDL_OK; i++)
        st = check_pe(&sys->pe_groups[i].pe, err);
    if (st == PDL_OK)
        st = check_links(&sys->node, err);
    if (st == PDL_OK)
        st = check_nics(&sys->node, err);
    if (st == PDL_OK)
        st = check_network(sys, err);
    if (st == PDL_OK)
        st = check_collectives(sys, err);
    return st;
}
