/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a system as a TOPOLOGY of the command line, one host a PE,
 * node by node. The clusters of the papers have a topology of their own; a
 * torus keeps its dimensions (another number of PEs gets as even ones as its
 * prime factors allow); everything else becomes rails: every PE an adapter of
 * its share of the node's NICs, units of the first level's size, and uplinks
 * thinned by the last level's oversubscription. Shared NICs and dragonflies
 * are so only approximated: one message alone cannot use a neighbour's share,
 * and group-to-group cables are pooled. */
#include "system_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 8, MOST_SPINES = 8 };

static const char *param(const struct pdl_network *net, const char *key)
{
    for (int64_t i = 0; i < net->nparams; i++)
        if (strcmp(net->params[i].key, key) == 0)
            return net->params[i].value;
    return NULL;
}

static const char *cluster(pdl_arena *a, const struct pdl_system *sys)
{
    return pdl_arena_printf(a, "%s:nodes=%lld", sys->network.topology,
                            (long long)sys->nodes);
}

/* The machine's NVSwitch joins all GPUs, that of the paper's file does not. */
static const char *dgx2(pdl_arena *a, const struct pdl_system *sys)
{
    return pdl_arena_printf(a, "%s,nvswitch=star", cluster(a, sys));
}

/* The torus's dimensions: as described, or p's prime factors, the largest
 * first, each to the smallest dimension. */
static const char *torus(pdl_arena *a, const struct pdl_system *sys)
{
    const char *text = param(&sys->network, "dims"), *p = text ? text : "1x1x1";
    int64_t dims[MAX_DIMS], product = 1, left = pdl_system_pes(sys);
    const struct pdl_level *top = &sys->levels[sys->nlevels - 1];
    char list[128] = "", bw[40], lat[40];
    int n = 0;

    for (char *end; n < MAX_DIMS && *p; p = *end == 'x' ? end + 1 : "") {
        dims[n] = strtoll(p, &end, 10);
        if (dims[n] < 1 || !pdl_mul64(product, dims[n], &product))
            return NULL;
        n++;
    }
    if (n == 0)
        return NULL;
    if (product != left) {
        int64_t factors[64];
        int k = 0;

        for (int64_t f = 2; left > 1; f = f * f > left ? left : f + 1)
            for (; left % f == 0 && k < 64; left /= f)
                factors[k++] = f;
        for (int i = 0; i < n; i++)
            dims[i] = 1;
        while (k-- > 0) {
            int least = 0;

            for (int i = 1; i < n; i++)
                least = dims[i] < dims[least] ? i : least;
            dims[least] *= factors[k];
        }
    }
    for (int i = 0; i < n; i++) {
        size_t len = strlen(list);

        snprintf(list + len, sizeof list - len, "%s%lld", i ? "x" : "",
                 (long long)dims[i]);
    }
    return pdl_arena_printf(
        a, "torus:%s,bw=%s,lat=%s", list,
        pdl_unit_print(top->flow_bytes_per_s, PDL_UNIT_BYTES_S, bw, sizeof bw),
        pdl_unit_print(top->latency_s, PDL_UNIT_SECONDS, lat, sizeof lat));
}

/* Spines that divide the uplinks of a rail switch, at most eight. */
static int64_t spines_for(int64_t uplinks)
{
    int64_t s = uplinks < MOST_SPINES ? uplinks : MOST_SPINES;

    while (uplinks % s != 0)
        s--;
    return s;
}

static const char *rails(pdl_arena *a, const struct pdl_system *sys)
{
    const struct pdl_level *node = &sys->levels[0];
    const struct pdl_level *first = &sys->levels[sys->nlevels > 1];
    const struct pdl_level *top = &sys->levels[sys->nlevels - 1];
    int64_t unit = sys->network.ntiers > 0 && sys->network.tiers[0].nodes > 0
                       ? sys->network.tiers[0].nodes
                       : sys->nodes;
    int64_t uplinks = (int64_t)((double)unit / top->oversubscription);
    int64_t spines = spines_for(uplinks > 0 ? uplinks : 1);
    char nv[40], nvlat[40], bw[40], lat[40];

    return pdl_arena_printf(
        a,
        "rail:nodes=%lld,gpus=%lld,unit=%lld,spines=%lld,uplinks=%lld,"
        "nvlink=%s,nvlink-lat=%s,bw=%s,lat=%s",
        (long long)sys->nodes, (long long)sys->node.pes, (long long)unit,
        (long long)spines, (long long)((uplinks > 0 ? uplinks : 1) / spines),
        pdl_unit_print(node->bytes_per_s > 0 ? node->bytes_per_s : 1e12,
                       PDL_UNIT_BYTES_S, nv, sizeof nv),
        pdl_unit_print(system_round(node->latency_s / 2), PDL_UNIT_SECONDS,
                       nvlat, sizeof nvlat),
        pdl_unit_print(system_round(first->bytes_per_s), PDL_UNIT_BYTES_S, bw,
                       sizeof bw),
        pdl_unit_print(system_round(first->latency_s / 2), PDL_UNIT_SECONDS,
                       lat, sizeof lat));
}

static const struct {
    const char *type;
    int64_t pes; /* only with so many a node; 0: any */
    const char *(*spec)(pdl_arena *a, const struct pdl_system *sys);
} kinds[] = {
    {"abci", 4, cluster},
    {"dgx1-cluster", 8, cluster},
    {"dgx2-cluster", 16, dgx2},
    {"torus", 0, torus},
};

enum pdl_status pdl_system_topology(pdl_arena *a, const struct pdl_system *sys,
                                    const char **out, struct pdl_err *err)
{
    const char *type = sys->network.topology ? sys->network.topology : "";
    const char *(*spec)(pdl_arena *, const struct pdl_system *) = rails;
    const char *text;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].type, type) == 0 &&
            (kinds[i].pes == 0 || kinds[i].pes == sys->node.pes))
            spec = kinds[i].spec;
    if (sys->levels[sys->nlevels - 1].bytes_per_s <= 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the rate of its network is not known", sys->name);
    text = spec(a, sys);
    if (!text)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: network.topology.dims: not like 16x16x16",
                        sys->name);
    *out = text;
    return PDL_OK;
}
