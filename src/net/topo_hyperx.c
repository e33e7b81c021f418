/* SPDX-License-Identifier: Apache-2.0
 *
 * HyperX (Ahn et al., SC 2009): switches at the points of a grid, all switches
 * of a line fully joined; and full2d, the two-dimensional fully connected
 * network whose points are the hosts themselves (CCGrid 2024; degree n+m-2,
 * diameter 2). Dimension-order routing, so a route has one hop for each
 * coordinate that differs. Point (x0, x1, ...) has number
 * x0 + d0*(x1 + d1*(...)). */
#include "topo_priv.h"

enum { DIMS, HOSTS, CABLES };
enum { ROUTING = 1 };

struct hyperx {
    struct net_graph graph;
    struct net_dims dims;
    int64_t stride[NET_MAX_DIMS];
    int nhosts;
    int hosts;     /* of a switch; 0: the points are hosts */
    bool backward; /* last dimension first */
};

// clang-format off
static const struct pdl_param params[] = {
    {"dims", PDL_PARAM_DIMS, NULL, 1, 65536, NULL,
     "switches along each dimension"},
    {"hosts", PDL_PARAM_INT, "1", 1, 65536, NULL, "hosts of a switch"},
    {"cables", PDL_PARAM_INT, "1", 1, 65536, NULL,
     "cables between two switches, as one trunk"},
};
static const struct pdl_param params2d[] = {
    {"dims", PDL_PARAM_DIMS, NULL, 1, 65536, NULL, "hosts along x and y"},
    {"routing", PDL_PARAM_CHOICE, "xy", 0, 0, "xy|yx",
     "which coordinate is put right first"},
};
// clang-format on

/* The first coordinate that differs is put right. */
static int64_t step(const struct hyperx *h, int64_t at, int64_t to)
{
    for (int i = 0; i < h->dims.n; i++) {
        int j = h->backward ? h->dims.n - 1 - i : i;
        int64_t x = at / h->stride[j] % h->dims.d[j];
        int64_t y = to / h->stride[j] % h->dims.d[j];

        if (x != y)
            return at + (y - x) * h->stride[j];
    }
    return at;
}

static int next(const struct pdl_net *net, int at, int dst)
{
    const struct hyperx *h = net->shape;
    int goal;

    if (h->hosts == 0)
        return (int)step(h, at, dst);
    if (at < h->nhosts)
        return h->nhosts + at / h->hosts;
    goal = dst / h->hosts;
    if (at - h->nhosts == goal)
        return dst;
    return h->nhosts + (int)step(h, at - h->nhosts, goal);
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct hyperx *h = net->shape;

    return net_graph_walk(net, &h->graph, next, src, dst, links);
}

/* Which coordinates differ does not change. */
static int turn(const struct pdl_net *net, int64_t by, int64_t within,
                int vertex)
{
    const struct hyperx *h = net->shape;

    return h->nhosts +
           (int)net_turned(vertex - h->nhosts, h->hosts, by, within);
}

static void allow_turns(const struct hyperx *h, struct pdl_net *net)
{
    int64_t hosts = h->hosts ? h->hosts : 1;

    net_may_turn(net, 1, hosts);
    for (int j = 0; j < h->dims.n; j++)
        net_may_turn(net, hosts * h->stride[j], h->dims.d[j]);
    net->turn = turn;
}

static void lay_lines(const struct hyperx *h, int64_t points, int64_t width,
                      struct net_cables *c)
{
    int64_t first = h->hosts ? h->nhosts : 0;

    for (int j = 0; j < h->dims.n; j++)
        for (int64_t u = 0; u < points; u++)
            for (int64_t x = u / h->stride[j] % h->dims.d[j] + 1,
                         v = u + h->stride[j];
                 x < h->dims.d[j]; x++, v += h->stride[j])
                net_cable(c, first + u, first + v, width);
}

static enum pdl_status make(pdl_arena *a, const struct pdl_topo_values *v,
                            struct hyperx *h, int64_t width,
                            struct pdl_net *net, struct pdl_err *err)
{
    int64_t points, lines = 0, hosts;
    struct net_cables c;

    if (!pdl_prod64(h->dims.d, h->dims.n, &points) || points > NET_MAX_HOSTS)
        return pdl_fail(err, PDL_EINVAL, "%s: more than %d switches",
                        v->topo->name, NET_MAX_HOSTS);
    for (int j = 0; j < h->dims.n; j++) {
        h->stride[j] = j ? h->stride[j - 1] * h->dims.d[j - 1] : 1;
        lines += points * (h->dims.d[j] - 1) / 2;
    }
    hosts = h->hosts ? points * h->hosts : points;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, h->hosts ? points : 0,
                      lines + (h->hosts ? hosts : 0));
    h->nhosts = net->nhosts;
    for (int64_t i = 0; h->hosts && c.status == PDL_OK && i < hosts; i++)
        net_cable(&c, i, hosts + i / h->hosts, 1);
    if (c.status == PDL_OK)
        lay_lines(h, points, width, &c);
    net->route = route;
    net->shape = h;
    allow_turns(h, net);
    return net_finish_graph(a, &c, &h->graph);
}

static enum pdl_status hyperx(pdl_arena *a, const struct pdl_topo_values *v,
                              struct pdl_net *net, struct pdl_err *err)
{
    struct hyperx *h = PDL_NEW(a, struct hyperx, 1);

    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "hyperx: out of memory");
    h->dims = v->v[DIMS].dims;
    h->hosts = (int)v->v[HOSTS].i;
    return make(a, v, h, v->v[CABLES].i, net, err);
}

static enum pdl_status full2d(pdl_arena *a, const struct pdl_topo_values *v,
                              struct pdl_net *net, struct pdl_err *err)
{
    struct hyperx *h = PDL_NEW(a, struct hyperx, 1);

    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "full2d: out of memory");
    h->dims = v->v[DIMS].dims;
    h->backward = v->v[ROUTING].i == 1;
    if (h->dims.n != 2)
        return pdl_fail(err, PDL_EPARSE, "full2d: dims: %d dimensions, not 2",
                        h->dims.n);
    return make(a, v, h, 1, net, err);
}

const struct pdl_topo net_hyperx = {
    .name = "hyperx",
    .group = PDL_TOPO_GRID,
    .summary = "grid of switches, every line fully connected",
    .source = "Ahn et al., SC 2009",
    .example = "hyperx:4x4,hosts=4",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = hyperx,
};

const struct pdl_topo net_full2d = {
    .name = "full2d",
    .group = PDL_TOPO_GRID,
    .summary = "two-dimensional fully connected network of hosts",
    .source = "CCGrid 2024 (definition from the abstract)",
    .example = "full2d:16x17",
    .params = params2d,
    .nparams = sizeof params2d / sizeof params2d[0],
    .build = full2d,
};
