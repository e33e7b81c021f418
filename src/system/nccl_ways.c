/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm and protocol NCCL takes, and what its tuner expects of each:
 * a latency of hops and a rate of channels. LL sends four bytes of data with
 * four of a flag, LL128 120 with eight, Simple waits for a buffer; NVLS adds in
 * the NVSwitch, and in a tree of nodes; PAT is of allgather and reduce-scatter
 * with one rank a node. The constants are in nccl_tuner.c, whose source has the
 * formulas, too, that are written anew here.
 *
 * NCCL searches channels in the graph of a machine. Here it is: of the rates
 * that it tries, the one whose channels fill links and adapters best. Not
 * here: CollNet, latencies that adapters report, and what another CPU than
 * Intel's or AMD's changes. */
#include "system_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A PCIe 3 x16 is 15.75 GB/s by its clock and 12 to NCCL; each generation
 * twice as much. */
static const double pcie_3 = 15.75e9, pcie_3_nccl = 12e9;
enum { MOST_CHANNELS = 32 };

/* NCCL's tables have these only. */
static const struct {
    const char *arch, *as;
} archs[] = {
    {"pascal", "volta"},
    {"turing", "volta"},
    {"ada", "ampere"},
};

struct graph {
    int channels;
    double near, far; /* bytes/s of a channel, in and between nodes */
};

struct tuner {
    const struct pdl_system *sys;
    const struct pdl_nccl_rates *rates;
    double ranks, nodes, per_node;
    int64_t bytes;
    bool nvlink, reduces, amd, sums, gathers; /* what the collective is */
    double steps;
    int column; /* of the tables: 1, 2 or more nodes */
    struct graph ring, nvls;
};

/* ---- channels ------------------------------------------------------------ */

/* So many GB/s that channels may have; how many of them there is room for is
 * the caller's. */
typedef double (*room_for)(const struct tuner *t, double bytes_per_s);

static bool is_nvlink(const struct pdl_system *sys)
{
    return sys->node.links.type &&
           strncmp(sys->node.links.type, "NVLink", 6) == 0;
}

static double pcie_rate(const struct pdl_system *sys)
{
    double rate = sys->node.host.pcie_bytes_per_s;

    return rate > 0 ? pcie_3_nccl * exp2(round(log2(rate / pcie_3))) : 0;
}

/* Of a PE, as NCCL counts it. Where the cables are not known: as many of the
 * rate that its data sheet gives them. */
static double links_rate(const struct tuner *t)
{
    const struct pdl_node_links *l = &t->sys->node.links;
    bool newest = strcmp(t->rates->arch, "blackwell") == 0;
    double cable = l->link_bytes_per_s > 0 ? l->link_bytes_per_s
                   : newest                ? 50e9
                                           : 25e9;

    if (!is_nvlink(t->sys))
        return pcie_rate(t->sys);
    return t->rates->nvlink_bytes_per_s * round(l->bytes_per_s / cable);
}

static double room_in_node(const struct tuner *t, double rate)
{
    return floor(links_rate(t) / rate);
}

/* A ring that goes on passes all ranks of a node, the PCIe of two of them and
 * two adapters. */
static double room_between(const struct tuner *t, double rate)
{
    const struct pdl_nics *nics = &t->sys->node.nics;
    double pcie = pcie_rate(t->sys);
    double one = pcie > 0 ? fmin(nics->bytes_per_s, pcie) : nics->bytes_per_s;
    double out = (double)nics->count * floor(one / rate);

    if (pcie > 0)
        out = fmin(out, t->per_node * floor(pcie / rate));
    return t->per_node > 1 ? fmin(out, room_in_node(t, rate)) : out;
}

static struct graph search(const struct tuner *t, const double *rates,
                           room_for room)
{
    struct graph best = {0, 0, 0};

    for (; *rates > 0; rates++) {
        double rate = *rates * 1e9;
        int n = (int)fmin(room(t, rate), MOST_CHANNELS);

        if (n * rate > best.channels * best.near * (1 + 1e-12))
            best = (struct graph){n, rate, rate};
    }
    return best;
}

/* NCCL doubles few channels that are fast. */
static void twice(const struct tuner *t, struct graph *g)
{
    bool newer = t->rates->nvls_part > 0;

    if (g->near < 25e9 || (newer && g->near < 50e9 && g->channels > 4) ||
        2 * g->channels > MOST_CHANNELS)
        return;
    g->channels *= 2;
    g->near /= 2;
    g->far /= 2;
}

/* One for each rank of a node, each over all of its links. */
static struct graph nvls_channels(const struct tuner *t)
{
    struct graph g = {(int)t->per_node, 0, 0};

    for (const double *r = t->rates->near; *r > 0 && g.near == 0; r++)
        if (room_in_node(t, *r * 1e9) >= t->per_node)
            g.near = *r * 1e9;
    for (const double *r = t->rates->far; *r > 0 && g.far == 0; r++)
        if (room_between(t, *r * 1e9) >= t->per_node)
            g.far = *r * 1e9;
    return g;
}

/* ---- rates --------------------------------------------------------------- */

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static double ring_rate(const struct tuner *t, const char *protocol)
{
    double all =
        t->ring.channels * (t->nodes <= 2 ? t->ring.near : t->ring.far);
    double ll = t->rates->ll_bytes_per_s[t->column];

    if (t->nodes > 1) /* by the CPU: Intel's stand in the first row */
        ll = pdl_nccl_rates(t->amd ? "ampere" : "volta")
                 ->ll_bytes_per_s[t->column];
    if (is(protocol, "LL"))
        all = fmin(all / 2, ll);
    if (is(protocol, "LL128"))
        all = fmin(.92 * all,
                   t->ring.channels * t->rates->ring_ll128_bytes_per_s);
    return all * t->ranks / t->steps;
}

static double tree_rate(const struct tuner *t, const char *protocol)
{
    const double *part = pdl_nccl_tree_part(protocol);
    double n = t->ring.channels, ll = t->rates->ll_bytes_per_s[t->column];
    double all = n * (t->nodes <= 2 ? t->ring.near : t->ring.far);
    double size = floor(log2(fmax((double)t->bytes / 64, .5)));

    if (t->nodes > 1)
        ll = pdl_nccl_rates(t->amd ? "ampere" : "volta")
                 ->ll_bytes_per_s[t->column];
    all = fmin(.92 * all, n * t->rates->tree_bytes_per_s[t->column]);
    if (is(protocol, "LL"))
        all = fmin(all / 3.8, ll);
    if (is(protocol, "LL128"))
        all = fmin(all * (t->nodes <= 1 ? 7. / 9 : 120. / 128),
                   n * t->rates->tree_ll128_bytes_per_s[t->column]);
    if (size >= 0 && size < PDL_NCCL_TREE_SIZES - 1)
        all *= part[(int)size];
    return all / 2;
}

static double nvls_rate(const struct tuner *t, bool tree)
{
    double n = t->nvls.channels;
    double rate = t->nvls.near * t->rates->nvls_part * (n - 1) / n;

    if (n < 2)
        return 0;
    rate *= t->sums ? 2 : (t->per_node - 1) / t->per_node;
    if (t->nodes > 1)
        rate = fmin(rate, t->nvls.far * (t->nodes <= 2 && tree ? 2 : 1));
    if (tree)
        rate = fmin(rate, t->rates->nvls_tree_bytes_per_s[t->column]);
    return n * rate * (t->sums ? t->ranks / t->steps : 1);
}

/* ---- latencies ----------------------------------------------------------- */

static const struct pdl_nccl_latency *latency_of(const char *algorithm,
                                                 const char *protocol)
{
    for (int i = 0; pdl_nccl_latency(i); i++)
        if (is(pdl_nccl_latency(i)->algorithm, algorithm) &&
            is(pdl_nccl_latency(i)->protocol, protocol))
            return pdl_nccl_latency(i);
    return NULL;
}

static double near_hop(const struct tuner *t, const struct pdl_nccl_latency *l)
{
    return t->nvlink ? l->nvlink_hop_s : l->pci_hop_s;
}

/* One rank a node sees all of it, which the tuner takes from trees. */
static double far_hop(const struct tuner *t, const struct pdl_nccl_latency *l)
{
    const struct pdl_nccl_latency *tree = latency_of("tree", l->protocol);

    return t->per_node <= 1 && tree ? tree->net_hop_s : l->net_hop_s;
}

static double ring_latency(const struct tuner *t,
                           const struct pdl_nccl_latency *l)
{
    bool simple = is(l->protocol, "Simple");
    double post = t->nodes > 1 ? (t->amd ? 2e-6 : 1e-6) * (simple ? 3 : 1) : 0;
    double hop = t->nodes > 1 ? l->net_hop_s : near_hop(t, l);
    double far = (t->nodes - 1) * (t->sums ? 2 : 1), lat;

    if (!t->sums && !t->gathers) /* broadcast: along one chain */
        return l->base_s + hop;
    lat = l->base_s + (t->steps - far) * fmax(near_hop(t, l), post) +
          far * far_hop(t, l);
    /* a plateau that the tuner corrects for */
    if (simple && t->nodes > 1 && t->sums &&
        (double)t->bytes / (t->ring.channels * t->ranks) >= 64)
        lat *= is(t->rates->arch, "volta") ? 1.9 : 1.4;
    return lat;
}

static double tree_latency(const struct tuner *t,
                           const struct pdl_nccl_latency *l)
{
    return l->base_s + 2 * ((t->per_node - 1) * near_hop(t, l) +
                            floor(log2(t->nodes)) * far_hop(t, l));
}

static double pat_latency(const struct tuner *t,
                          const struct pdl_nccl_latency *l)
{
    return l->base_s + floor(log2(t->nodes)) * far_hop(t, l) / 3.5 +
           t->ranks * 2.8e-6;
}

/* ---- ways ---------------------------------------------------------------- */

/* LL128 needs stores of 128 bytes to arrive whole: NVLink, and adapters beside
 * PEs. */
static bool has_ll128(const struct tuner *t)
{
    return t->nvlink && (t->nodes <= 1 || t->sys->node.nics.direct) &&
           !is(t->sys->pe.arch, "pascal");
}

static bool price(const struct tuner *t, const struct pdl_nccl_latency *l,
                  struct pdl_nccl_way *w)
{
    bool ring = is(l->algorithm, "ring"),
         nvls = !strncmp(l->algorithm, "nvls", 4);
    bool tree = is(l->algorithm, "nvls-tree");
    const struct graph *g = nvls ? &t->nvls : &t->ring;

    if (is(l->protocol, "LL128") && !has_ll128(t))
        return false;
    *w = (struct pdl_nccl_way){.algorithm = l->algorithm,
                               .protocol = l->protocol,
                               .channels = g->channels,
                               .channel_bytes_per_s = g->near};
    if (ring) {
        w->latency_s = ring_latency(t, l);
        w->bytes_per_s = ring_rate(t, l->protocol);
    } else if (is(l->algorithm, "tree") && t->sums) {
        w->latency_s = tree_latency(t, l);
        w->bytes_per_s = tree_rate(t, l->protocol);
    } else if (nvls && t->reduces && t->rates->nvls_part > 0 &&
               tree == (t->nodes > 1) && (t->sums || (t->gathers && !tree))) {
        w->latency_s = near_hop(t, l) +
                       (tree ? 2 * floor(log2(t->nodes)) * far_hop(t, l) : 0);
        w->bytes_per_s = nvls_rate(t, tree);
    } else if (is(l->algorithm, "pat") && t->gathers && t->per_node <= 1) {
        w->latency_s = pat_latency(t, l);
        w->bytes_per_s = .75 * t->ring.channels * t->ring.far;
    }
    w->seconds = w->bytes_per_s > 0
                     ? w->latency_s + (double)t->bytes / w->bytes_per_s
                     : 0;
    return w->bytes_per_s > 0;
}

static int by_time(const void *a, const void *b)
{
    const struct pdl_nccl_way *x = a, *y = b;

    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static enum pdl_status set_machine(struct tuner *t, struct pdl_err *err)
{
    const struct pdl_system *sys = t->sys;
    const char *arch = sys->pe.arch ? sys->pe.arch : "";

    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (is(archs[i].arch, arch))
            arch = archs[i].as;
    t->rates = pdl_nccl_rates(arch);
    if (!t->rates)
        return pdl_fail(err, PDL_EINVAL, "NCCL has no rates for %s",
                        sys->pe.title ? sys->pe.title : sys->pe.name);
    t->nvlink = is_nvlink(sys);
    t->reduces = sys->node.links.reduces;
    t->amd = sys->node.host.title && strstr(sys->node.host.title, "EPYC");
    return PDL_OK;
}

static enum pdl_status set_size(struct tuner *t, const char *collective,
                                struct pdl_err *err)
{
    double p = t->ranks;

    t->sums = is(collective, "allreduce");
    t->gathers =
        is(collective, "allgather") || is(collective, "reduce-scatter");
    if (!t->sums && !t->gathers && !is(collective, "broadcast"))
        return pdl_fail(err, PDL_EINVAL,
                        "NCCL's tuner has allreduce, allgather, "
                        "reduce-scatter and broadcast, not %.40s",
                        collective);
    t->steps = t->sums ? 2 * (p - 1) : t->gathers ? p - 1 : p;
    t->column = t->nodes <= 1 ? 0 : t->nodes <= 2 ? 1 : 2;
    return PDL_OK;
}

static enum pdl_status place(struct tuner *t, int64_t ranks, int64_t per_node,
                             struct pdl_err *err)
{
    int64_t pes = t->sys->node.pes;

    if (per_node == 0)
        per_node = ranks < pes ? ranks : pes;
    if (ranks < 2 || per_node < 1 || per_node > pes || ranks % per_node != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld ranks are not nodes of %lld (at least 2 ranks, "
                        "at most %lld a node)",
                        (long long)ranks, (long long)per_node, (long long)pes);
    t->ranks = (double)ranks;
    t->per_node = (double)per_node;
    t->nodes = (double)ranks / (double)per_node;
    if (t->nodes > 1 && t->sys->node.nics.count < 1)
        return pdl_fail(err, PDL_EINVAL, "nodes of %s have no adapters",
                        t->sys->name);
    return PDL_OK;
}

enum pdl_status pdl_nccl_ways(const struct pdl_system *sys,
                              const char *collective, int64_t ranks,
                              int64_t per_node, int64_t bytes,
                              struct pdl_nccl_way *out, int *n,
                              struct pdl_err *err)
{
    struct tuner t = {.sys = sys, .bytes = bytes};
    enum pdl_status st = place(&t, ranks, per_node, err);

    if (st == PDL_OK)
        st = set_machine(&t, err);
    if (st == PDL_OK)
        st = set_size(&t, collective, err);
    if (st != PDL_OK)
        return st;
    t.ring = t.nodes > 1 ? search(&t, t.rates->far, room_between)
                         : search(&t, t.rates->near, room_in_node);
    twice(&t, &t.ring);
    t.nvls = nvls_channels(&t);
    *n = 0;
    for (int i = 0; pdl_nccl_latency(i) && *n < PDL_NCCL_WAYS; i++)
        *n += price(&t, pdl_nccl_latency(i), &out[*n]);
    if (*n == 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: links and adapters are slower "
                        "than any rate NCCL tries",
                        sys->name);
    qsort(out, (size_t)*n, sizeof *out, by_time);
    return PDL_OK;
}
