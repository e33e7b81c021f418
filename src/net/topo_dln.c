/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributed Loop Network DLN(q,p) (CCGrid 2021) and its product in two
 * dimensions, dln2d(x,y,z) (HPCAsia 2023 poster). Reconstructions from slides:
 * 2^q switches on a loop with cables between s and s + 2^k for every k < q
 * (the longest is its own inverse, one cable a pair), 2^p hosts on each:
 * degree 2^p + 2q - 1. dln2d joins rows by a loop of x bits and columns by one
 * of y bits: degree 2^z + 2x - 1 + 2y - 1.
 *
 * Routing is greedy by signed binary digits (non-adjacent form): the lowest
 * bit k of the remaining distance is removed by +2^k or, where the next bit is
 * set too, by -2^k. The number of hops is the least possible.
 *
 * ranks=g puts g hosts behind each port: they share its cable through an
 * adapter, a vertex of its own. double=1 lays the longest cable of a loop
 * twice (as one trunk), which balances the halving-doubling schedules. */
#include "topo_priv.h"

enum { SWITCHES, HOSTS, Q, P, RANKS, DOUBLE, PORT, PORT_LAT };
enum { X, Y, Z, RANKS2, DOUBLE2, PORT2, PORT_LAT2 };

/* x bits fastest, then y bits; a DLN is one row. */
struct dln {
    struct net_graph graph;
    int bits[2];
    int hosts, ranks; /* ports of a switch; hosts of a port */
    int nhosts, nloop;
};

// clang-format off
static const struct pdl_param params[] = {
    {"switches", PDL_PARAM_INT, "0", 0, 1 << 20, NULL,
     "switches, a power of two (or q)"},
    {"hosts", PDL_PARAM_INT, "0", 0, 65536, NULL,
     "ports with a host of a switch (or p)"},
    {"q", PDL_PARAM_INT, "0", 0, 20, NULL, "2^q switches"},
    {"p", PDL_PARAM_INT, "0", 0, 16, NULL, "2^p hosts of a switch"},
    {"ranks", PDL_PARAM_INT, "1", 1, 64, NULL, "hosts that share a port"},
    {"double", PDL_PARAM_INT, "0", 0, 1, NULL,
     "1: two cables for the longest shortcut"},
    {"port-bw", PDL_PARAM_RATE, "16GB/s", 0, 0, NULL,
     "rate from a host to its shared port"},
    {"port-lat", PDL_PARAM_TIME, "0s", 0, 0, NULL, "its latency"},
};
static const struct pdl_param params2d[] = {
    {"x", PDL_PARAM_INT, NULL, 1, 16, NULL, "2^x switches a row"},
    {"y", PDL_PARAM_INT, NULL, 1, 16, NULL, "2^y rows"},
    {"z", PDL_PARAM_INT, NULL, 0, 16, NULL, "2^z hosts of a switch"},
    {"ranks", PDL_PARAM_INT, "1", 1, 64, NULL, "hosts that share a port"},
    {"double", PDL_PARAM_INT, "0", 0, 1, NULL,
     "1: two cables for the longest shortcut"},
    {"port-bw", PDL_PARAM_RATE, "16GB/s", 0, 0, NULL,
     "rate from a host to its shared port"},
    {"port-lat", PDL_PARAM_TIME, "0s", 0, 0, NULL, "its latency"},
};
// clang-format on

/* One hop of a loop of 2^bits from a towards b. */
static int loop_step(int bits, int a, int b)
{
    int mask = (1 << bits) - 1, d = (b - a) & mask, k = 0;

    while (!(d >> k & 1))
        k++;
    if (k + 1 < bits && (d >> (k + 1) & 1))
        return (a - (1 << k)) & mask;
    return (a + (1 << k)) & mask;
}

static int switch_step(const struct dln *t, int a, int b)
{
    int mask = (1 << t->bits[0]) - 1;

    if ((a & mask) != (b & mask))
        return (a & ~mask) | loop_step(t->bits[0], a & mask, b & mask);
    return (loop_step(t->bits[1], a >> t->bits[0], b >> t->bits[0])
            << t->bits[0]) |
           (a & mask);
}

static int port_vertex(const struct dln *t, int port)
{
    return t->nhosts + t->nloop + port;
}

static int next(const struct pdl_net *net, int at, int dst)
{
    const struct dln *t = net->shape;
    int port = dst / t->ranks, goal = port / t->hosts, from = at / t->ranks;

    if (at < t->nhosts)
        return t->ranks > 1 ? port_vertex(t, from)
                            : t->nhosts + from / t->hosts;
    at -= t->nhosts;
    if (at >= t->nloop) {
        from = at - t->nloop;
        return from == port ? dst : t->nhosts + from / t->hosts;
    }
    if (at == goal)
        return t->ranks > 1 ? port_vertex(t, port) : dst;
    return t->nhosts + switch_step(t, at, goal);
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct dln *t = net->shape;

    return net_graph_walk(net, &t->graph, next, src, dst, links);
}

/* Distances on the loops are all that routes look at. */
static int turn(const struct pdl_net *net, int64_t by, int64_t within,
                int vertex)
{
    const struct dln *t = net->shape;
    int i = vertex - t->nhosts;

    if (i < t->nloop)
        return t->nhosts +
               (int)net_turned(i, (int64_t)t->hosts * t->ranks, by, within);
    return port_vertex(t, (int)net_turned(i - t->nloop, t->ranks, by, within));
}

static void allow_turns(const struct dln *t, struct pdl_net *net)
{
    int64_t stride = 1;
    int64_t extents[] = {t->ranks, t->hosts, (int64_t)1 << t->bits[0],
                         (int64_t)1 << t->bits[1]};

    for (int i = 0; i < 4; stride *= extents[i++])
        net_may_turn(net, stride, extents[i]);
    net->turn = turn;
}

/* The loops of one dimension: `stride` apart, one for each other index. */
static void lay_loops(const struct dln *t, int dim, bool twice,
                      struct net_cables *c)
{
    int bits = t->bits[dim], stride = dim ? 1 << t->bits[0] : 1;
    int mask = ((1 << bits) - 1) * stride;

    for (int s = 0; s < t->nloop; s++)
        for (int k = 0; k < bits; k++) {
            int to = (s & ~mask) | ((s + (stride << k)) & mask);
            bool longest = k == bits - 1;

            if (!longest || to > s)
                net_cable(c, t->nhosts + s, t->nhosts + to,
                          longest && twice ? 2 : 1);
        }
}

static void lay_hosts(const struct dln *t, double rate, double latency,
                      struct net_cables *c)
{
    for (int h = 0; h < t->nhosts; h++) {
        int port = h / t->ranks, sw = t->nhosts + port / t->hosts;

        if (t->ranks == 1) {
            net_cable(c, h, sw, 1);
            continue;
        }
        net_inside(c, net_cable_of(c, h, port_vertex(t, port), rate, latency));
        if (h % t->ranks == 0)
            net_cable(c, port_vertex(t, port), sw, 1);
    }
}

/* common: RANKS, DOUBLE, PORT, PORT_LAT in that order */
static enum pdl_status make(pdl_arena *a, const struct pdl_topo_values *v,
                            const struct net_value *common, struct dln *t,
                            struct pdl_net *net, struct pdl_err *err)
{
    int64_t loop = (int64_t)1 << (t->bits[0] + t->bits[1]);
    int64_t ports = loop * t->hosts, hosts = ports * common[0].i;
    struct net_cables c;

    t->ranks = (int)common[0].i;
    t->nloop = (int)loop;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(
        &c, hosts, loop + (t->ranks > 1 ? ports : 0),
        hosts + (t->ranks > 1 ? ports : 0) + loop * (t->bits[0] + t->bits[1]));
    t->nhosts = net->nhosts;
    if (c.status == PDL_OK) {
        lay_hosts(t, common[2].x, common[3].x, &c);
        for (int dim = 0; dim < 2; dim++)
            lay_loops(t, dim, common[1].i == 1, &c);
    }
    net->route = route;
    net->shape = t;
    allow_turns(t, net);
    return net_finish_graph(a, &c, &t->graph);
}

/* Either a count or its logarithm. */
static enum pdl_status either(const struct net_value *count,
                              const struct net_value *log, const char *names,
                              int64_t *out, struct pdl_err *err)
{
    if (count->given == log->given)
        return pdl_fail(err, PDL_EPARSE, "dln: give one of %s", names);
    *out = log->given ? (int64_t)1 << log->i : count->i;
    return PDL_OK;
}

static enum pdl_status dln(pdl_arena *a, const struct pdl_topo_values *v,
                           struct pdl_net *net, struct pdl_err *err)
{
    struct dln *t = PDL_NEW(a, struct dln, 1);
    int64_t switches, hosts;
    enum pdl_status st;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "dln: out of memory");
    st = either(&v->v[SWITCHES], &v->v[Q], "switches and q", &switches, err);
    if (st == PDL_OK)
        st = either(&v->v[HOSTS], &v->v[P], "hosts and p", &hosts, err);
    if (st != PDL_OK)
        return st;
    if (switches < 2 || (switches & (switches - 1)))
        return pdl_fail(err, PDL_EINVAL,
                        "dln: switches: %lld is not a power of two of 2 or "
                        "more",
                        (long long)switches);
    if (hosts < 1)
        return pdl_fail(err, PDL_EINVAL, "dln: hosts: 0 is outside 1 to 65536");
    while ((int64_t)1 << t->bits[0] < switches)
        t->bits[0]++;
    t->hosts = (int)hosts;
    return make(a, v, &v->v[RANKS], t, net, err);
}

static enum pdl_status dln2d(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct dln *t = PDL_NEW(a, struct dln, 1);

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "dln2d: out of memory");
    t->bits[0] = (int)v->v[X].i;
    t->bits[1] = (int)v->v[Y].i;
    t->hosts = 1 << v->v[Z].i;
    if (t->bits[0] + t->bits[1] > 20)
        return pdl_fail(err, PDL_EINVAL, "dln2d: more than %d switches",
                        1 << 20);
    return make(a, v, &v->v[RANKS2], t, net, err);
}

const struct pdl_topo net_dln = {
    .name = "dln",
    .group = PDL_TOPO_SHORT,
    .summary = "loop of 2^q switches with shortcuts of every power of two",
    .source = "DLN(q,p), CCGrid 2021 (reconstruction from slides)",
    .example = "dln:switches=64,hosts=4",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = dln,
};

const struct pdl_topo net_dln2d = {
    .name = "dln2d",
    .group = PDL_TOPO_SHORT,
    .summary = "grid of switches, rows and columns are DLN loops",
    .source = "2-D DLN(x,y,z), HPCAsia 2023 poster (reconstruction)",
    .example = "dln2d:x=3,y=2,z=4",
    .params = params2d,
    .nparams = sizeof params2d / sizeof params2d[0],
    .build = dln2d,
};
