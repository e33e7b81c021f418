/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from a description: the levels of the machine, innermost
 * first. A level's rate is what one PE can inject; where the level is
 * oversubscribed and every PE sends across it, divide. Levels above the one
 * that already holds every PE are left out, so that one node has one level
 * and ABCI with 16 nodes never sees its spine. */
#include "system_priv.h"

static double min_pair(const struct pdl_node_desc *node)
{
    double least = 0;

    for (int64_t i = 0; i < node->links.npairs; i++) {
        double rate =
            (double)node->links.pairs[i].v[2] * node->links.link_bytes_per_s;

        if (least == 0 || rate < least)
            least = rate;
    }
    return least;
}

double pdl_node_pair_rate(const struct pdl_node_desc *node, int64_t a,
                          int64_t b)
{
    const struct pdl_node_links *l = &node->links;

    if (a == b || a < 0 || b < 0 || a >= node->pes || b >= node->pes)
        return 0;
    if (l->shape == PDL_LINKS_GRAPH) {
        for (int64_t i = 0; i < l->npairs; i++) {
            const int64_t *v = l->pairs[i].v;

            if ((v[0] == a && v[1] == b) || (v[0] == b && v[1] == a))
                return (double)v[2] * l->link_bytes_per_s;
        }
        return 0;
    }
    if (l->shape == PDL_LINKS_NONE)
        return 0;
    if (l->pair_bytes_per_s > 0)
        return l->pair_bytes_per_s;
    if (l->shape == PDL_LINKS_ALL_TO_ALL && node->pes > 1)
        return l->bytes_per_s / (double)(node->pes - 1);
    return l->bytes_per_s;
}

static struct pdl_level node_level(const struct pdl_system *sys)
{
    const struct pdl_node_links *l = &sys->node.links;
    const struct pdl_host *h = &sys->node.host;
    struct pdl_level level = {
        .name = "node",
        .pes = sys->node.pes,
        .bytes_per_s = l->bytes_per_s,
        .measured_bytes_per_s = l->measured_bytes_per_s,
        .latency_s = l->latency_s,
        .measured_latency_s = l->measured_latency_s,
        .oversubscription = 1,
    };

    if (l->shape == PDL_LINKS_NONE) {
        level.bytes_per_s = h->pcie_bytes_per_s;
        level.flow_bytes_per_s = h->pcie_bytes_per_s;
        if (level.latency_s == 0)
            level.latency_s = 2 * h->pcie_latency_s;
    } else if (l->shape == PDL_LINKS_GRAPH) {
        level.flow_bytes_per_s = min_pair(&sys->node);
    } else {
        level.flow_bytes_per_s = pdl_node_pair_rate(&sys->node, 0, 1);
    }
    if (level.flow_bytes_per_s == 0)
        level.flow_bytes_per_s = level.bytes_per_s;
    return level;
}

static struct pdl_level tier_level(const struct pdl_system *sys,
                                   const struct pdl_tier *t)
{
    const struct pdl_nics *n = &sys->node.nics;
    double share = (double)n->count / (double)sys->node.pes;
    double flow = n->bytes_per_s > share * n->bytes_per_s
                      ? n->bytes_per_s
                      : share * n->bytes_per_s;
    int64_t nodes =
        t->nodes == 0 || t->nodes > sys->nodes ? sys->nodes : t->nodes;

    return (struct pdl_level){
        .name = t->name,
        .pes = nodes * sys->node.pes,
        .bytes_per_s =
            t->bytes_per_s > 0 ? t->bytes_per_s : share * n->bytes_per_s,
        .measured_bytes_per_s = t->measured_bytes_per_s > 0
                                    ? t->measured_bytes_per_s
                                    : share * n->measured_bytes_per_s,
        .flow_bytes_per_s = t->flow_bytes_per_s > 0 ? t->flow_bytes_per_s
                            : t->bytes_per_s > 0    ? t->bytes_per_s
                                                    : flow,
        .latency_s = t->latency_s > 0 ? t->latency_s : 2 * n->latency_s,
        .measured_latency_s = t->measured_latency_s,
        .oversubscription = t->oversubscription,
    };
}

static enum pdl_status note_growth(pdl_arena *a, struct pdl_system *sys,
                                   struct pdl_err *err)
{
    return system_add_text(a, &sys->notes, &sys->nnotes, err,
                           "grown to %lld nodes: %lld are described, the same "
                           "design is continued",
                           (long long)sys->nodes, (long long)sys->built_nodes);
}

enum pdl_status pdl_system_update(pdl_arena *a, struct pdl_system *sys,
                                  struct pdl_err *err)
{
    static const struct pdl_tier plain = {.name = "network",
                                          .oversubscription = 1};
    enum pdl_status st = pdl_system_check(sys, err);
    struct pdl_level *levels;
    int n = 0;

    if (st != PDL_OK)
        return st;
    levels = PDL_NEW(a, struct pdl_level, sys->network.ntiers + 2);
    if (!levels)
        return system_no_memory(err, sys->name);
    levels[n++] = node_level(sys);
    for (int64_t i = 0; i < sys->network.ntiers; i++)
        if (levels[n - 1].pes < pdl_system_pes(sys))
            levels[n++] = tier_level(sys, &sys->network.tiers[i]);
    if (levels[n - 1].pes < pdl_system_pes(sys))
        levels[n++] = tier_level(sys, &plain);
    if (sys->built_nodes > 0 && sys->nodes > sys->built_nodes && !sys->grown) {
        st = note_growth(a, sys, err);
        if (st != PDL_OK)
            return st;
        sys->grown = true;
    }
    sys->levels = levels;
    sys->nlevels = n;
    return PDL_OK;
}

int64_t pdl_system_machine_pes(const struct pdl_system *sys)
{
    int64_t n = sys->node.host.machines;

    return n > 1 && sys->node.pes % n == 0 ? sys->node.pes / n : sys->node.pes;
}

enum pdl_status pdl_system_for_pes(pdl_arena *a, struct pdl_system *sys,
                                   int64_t pes, struct pdl_err *err)
{
    if (pes < 1)
        return pdl_fail(err, PDL_EINVAL, "%lld PEs is not a machine",
                        (long long)pes);
    if (pes <= pdl_system_pes(sys))
        return PDL_OK;
    if (pes > INT64_MAX - sys->node.pes)
        return pdl_fail(err, PDL_EINVAL, "%lld PEs is too many",
                        (long long)pes);
    if (!sys->grown && sys->built_nodes != 0)
        sys->built_nodes = sys->nodes;
    sys->nodes = (pes + sys->node.pes - 1) / sys->node.pes;
    return pdl_system_update(a, sys, err);
}

int pdl_system_level(const struct pdl_system *sys, int64_t a, int64_t b)
{
    int i = 0;

    while (i < sys->nlevels - 1 &&
           a / sys->levels[i].pes != b / sys->levels[i].pes)
        i++;
    return i;
}

int pdl_system_level_of(const struct pdl_system *sys, int64_t pes)
{
    return pdl_system_level(sys, 0, pes > 0 ? pes - 1 : 0);
}

int64_t pdl_system_group(const struct pdl_system *sys, int64_t node)
{
    for (int64_t i = 0; i < sys->npe_groups; i++) {
        if (node < sys->pe_groups[i].nodes)
            return sys->pe_groups[i].group - 1;
        node -= sys->pe_groups[i].nodes;
    }
    return -1;
}

const struct pdl_pe *pdl_system_pe(const struct pdl_system *sys, int64_t node)
{
    for (int64_t i = 0; i < sys->npe_groups; i++) {
        if (node < sys->pe_groups[i].nodes)
            return &sys->pe_groups[i].pe;
        node -= sys->pe_groups[i].nodes;
    }
    return &sys->pe;
}
