/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a system as a TOPOLOGY of the command line, one host a PE,
 * node by node. A torus keeps its dimensions (another number of PEs gets as
 * even ones as its prime factors allow); everything else becomes what its
 * levels say ("nodes"): the machine that the oracle prices collectives on.
 * Dragonflies are so only approximated: group-to-group cables are pooled. The
 * networks of the papers' clusters have names of their own (abci,
 * dgx1-cluster, dgx2-cluster). */
#include "system_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *param(const struct pdl_network *net, const char *key)
{
    for (int64_t i = 0; i < net->nparams; i++)
        if (strcmp(net->params[i].key, key) == 0)
            return net->params[i].value;
    return NULL;
}

/* As many as p has prime factors, the largest first, each to the smallest
 * dimension. */
static void deal_factors(int64_t p, int64_t *dims, int n)
{
    int64_t factors[64] = {0};
    int k = 0;

    for (int64_t f = 2; p > 1; f = f * f > p ? p : f + 1)
        for (; p % f == 0 && k < 64; p /= f)
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

int pdl_system_torus(const struct pdl_system *sys, int64_t pes,
                     int64_t dims[PDL_TORUS_DIMS])
{
    const char *text = param(&sys->network, "dims"), *p = text ? text : "1x1x1";
    int64_t product = 1;
    int n = 0;

    if (!sys->network.topology || strcmp(sys->network.topology, "torus") != 0)
        return 0;
    for (char *end; n < PDL_TORUS_DIMS && *p; p = *end == 'x' ? end + 1 : "") {
        dims[n] = strtoll(p, &end, 10);
        if (dims[n] < 1 || !pdl_mul64(product, dims[n], &product))
            return 0;
        n++;
    }
    if (n > 0 && product != pes)
        deal_factors(pes, dims, n);
    return n;
}

static const char *torus(pdl_arena *a, const struct pdl_system *sys)
{
    const struct pdl_level *top = &sys->levels[sys->nlevels - 1];
    int64_t dims[PDL_TORUS_DIMS];
    int n = pdl_system_torus(sys, pdl_system_pes(sys), dims);
    char list[128] = "", bw[40], lat[40];

    if (n == 0)
        return NULL;
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

/* Nodes of a unit, units of a larger one, ...: "17x2"; the top holds all. */
static void units(const struct pdl_system *sys, char *out, size_t size)
{
    int64_t below = sys->node.pes;
    size_t len = 0;

    snprintf(out, size, "%lld", (long long)sys->nodes);
    for (int k = 1; k + 1 < sys->nlevels && len < size; k++) {
        int64_t here = sys->levels[k].pes;

        len += (size_t)snprintf(out + len, size - len, "%s%lld",
                                k > 1 ? "x" : "", (long long)(here / below));
        below = here;
    }
}

/* Half of what a message to the next level takes more, on average. */
static double tier_latency(const struct pdl_system *sys)
{
    const struct pdl_level *top = &sys->levels[sys->nlevels - 1];

    return sys->nlevels > 2 ? (top->latency_s - sys->levels[1].latency_s) / 2 /
                                  (sys->nlevels - 2)
                            : 0;
}

static const char *nodes(pdl_arena *a, const struct pdl_system *sys)
{
    const struct pdl_level *in = &sys->levels[0];
    const struct pdl_level *first = &sys->levels[sys->nlevels > 1];
    const struct pdl_level *top = &sys->levels[sys->nlevels - 1];
    const struct pdl_level *below =
        &sys->levels[sys->nlevels > 2 ? sys->nlevels - 2 : 0];
    double pes = (double)sys->node.pes;
    double inside = in->bytes_per_s > 0 ? in->bytes_per_s : 1e12;
    double pair = in->flow_bytes_per_s > 0 ? in->flow_bytes_per_s : inside;
    double up = top->bytes_per_s * (double)below->pes / top->oversubscription;
    char list[128], text[6][40];
    const double value[6] = {
        inside, in->latency_s,     pair < inside ? pair : inside,
        up,     tier_latency(sys), first->bytes_per_s * pes};

    units(sys, list, sizeof list);
    for (int i = 0; i < 6; i++)
        pdl_unit_print(system_round(value[i]),
                       i == 1 || i == 4 ? PDL_UNIT_SECONDS : PDL_UNIT_BYTES_S,
                       text[i], sizeof text[i]);
    return pdl_arena_printf(
        a,
        "nodes:nodes=%lld,pes=%lld,units=%s,inside=%s,inside-lat=%s,pair=%s,"
        "up=%s,up-lat=%s,bw=%s,lat=%s",
        (long long)sys->nodes, (long long)sys->node.pes, list, text[0], text[1],
        text[2], text[3], text[4], text[5],
        pdl_unit_print(system_round(first->latency_s / 2), PDL_UNIT_SECONDS,
                       (char[40]){0}, 40));
}

enum pdl_status pdl_system_measured(pdl_arena *a, struct pdl_system *sys,
                                    struct pdl_err *err)
{
    struct pdl_level *l = PDL_NEW(a, struct pdl_level, sys->nlevels);

    if (!l)
        return system_no_memory(err, sys->name);
    for (int i = 0; i < sys->nlevels; i++) {
        l[i] = sys->levels[i];
        if (l[i].measured_bytes_per_s > 0) {
            l[i].flow_bytes_per_s *=
                i > 0 ? l[i].measured_bytes_per_s / l[i].bytes_per_s : 0;
            l[i].bytes_per_s = l[i].measured_bytes_per_s;
        }
        if (l[i].measured_latency_s > 0)
            l[i].latency_s = l[i].measured_latency_s;
        if (i > 0 && sys->network.step_s > 0)
            l[i].latency_s = sys->network.step_s;
    }
    sys->levels = l;
    return PDL_OK;
}

enum pdl_status pdl_system_topology(pdl_arena *a, const struct pdl_system *sys,
                                    const char **out, struct pdl_err *err)
{
    const char *type = sys->network.topology ? sys->network.topology : "";
    const char *text;

    if (sys->levels[sys->nlevels - 1].bytes_per_s <= 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the rate of its network is not known", sys->name);
    text = strcmp(type, "torus") == 0 ? torus(a, sys) : nodes(a, sys);
    if (!text)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: network.topology.dims: not like 16x16x16",
                        sys->name);
    *out = text;
    return PDL_OK;
}
