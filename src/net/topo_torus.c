/* SPDX-License-Identifier: Apache-2.0
 *
 * Torus and mesh of hosts, each its own router, with dimension-order routing.
 * Host (x0, x1, ...) has number x0 + d0*(x1 + d1*(...)); its cable of
 * dimension j leads to the next host of that dimension. The torus goes in
 * SimGrid's direction: the shorter way round, and when both are equal the one
 * without the wrap for the lower half of the ring and with it for the upper
 * half (TorusZone of SimGrid 3.32 to 4.1); with ties=up all of them upwards, so
 * that the torus looks the same from every host. A ring of two hosts has two
 * cables, of which this routing uses one; a dimension of size 1 has none. */
#include "topo_priv.h"

#include <stdio.h>

enum { DIMS, TIES };

struct grid {
    struct net_dims dims;
    int per;
    bool wrap, even; /* even: ties go up everywhere */
    int64_t stride[NET_MAX_DIMS];
    int64_t cables[NET_MAX_DIMS]; /* the first cable of a dimension */
};

// clang-format off
static const struct pdl_param params[] = {
    {"dims", PDL_PARAM_DIMS, NULL, 1, NET_MAX_HOSTS, NULL,
     "hosts along each dimension, the first runs fastest"},
    {"ties", PDL_PARAM_CHOICE, "simgrid", 0, 0, "simgrid|up",
     "where both ways round are equally long: as SimGrid, or up"},
};
enum { NPARAMS = sizeof params / sizeof params[0] }; /* a mesh has no ties */
// clang-format on

/* The cable of dimension j that starts at a host: of a torus every host has
 * one; of a mesh the last of a line has none, so lines are one shorter. */
static int64_t cable(const struct grid *g, int64_t host, int j)
{
    int64_t s = g->stride[j], d = g->dims.d[j];

    if (g->wrap)
        return g->cables[j] + host;
    return g->cables[j] + host / (s * d) * (s * (d - 1)) + host % (s * d);
}

bool pdl_torus_goes_up(int64_t from, int64_t to, int64_t d)
{
    return (to > from && to <= from + d / 2) ||
           (from > d / 2 && (from + d / 2) % d >= to);
}

static bool go_up(const struct grid *g, int64_t from, int64_t to, int64_t d)
{
    if (!g->wrap)
        return to > from;
    if (g->even)
        return (to - from + d) % d <= d / 2;
    return pdl_torus_goes_up(from, to, d);
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct grid *g = net->shape;
    int64_t at = src;
    int n = 0;

    for (int j = 0; j < g->dims.n; j++) {
        int64_t d = g->dims.d[j], s = g->stride[j];
        int64_t x = at / s % d, to = dst / s % d;
        bool up = go_up(g, x, to, d);

        while (x != to) {
            int64_t next = up ? (x + 1 == d ? 0 : x + 1) : (x ? x : d) - 1;
            int64_t after = at + (next - x) * s;

            links[n++] = (int)(cable(g, up ? at : after, j) * g->per +
                               (!up && g->per == 2 ? 1 : 0));
            at = after;
            x = next;
        }
    }
    return n;
}

/* Half way round: a host in the middle of the ring goes down, the others up. */
static bool tied(const struct pdl_net *net, int64_t within, int src, int dst)
{
    const struct grid *g = net->shape;

    for (int j = 0; j < g->dims.n; j++) {
        int64_t d = g->dims.d[j], s = g->stride[j], x = src / s % d;

        if (s * d == within && 2 * (dst / s % d - x) % (2 * d) == d)
            return true;
        if (s * d == within && 2 * (x - dst / s % d) % (2 * d) == d)
            return true;
    }
    return false;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct grid *g = net->shape;
    bool back = g->per == 2 && link % 2;
    const struct pdl_link *k = &net->links[back ? link - 1 : link];

    snprintf(buf, size, "link_from_%d_to_%d%s", k->from, k->to,
             g->per == 1 ? ""
             : back      ? "_down"
                         : "_up");
}

static enum pdl_status count(struct grid *g, int64_t *hosts, int64_t *cables,
                             struct pdl_err *err)
{
    int64_t longest = 0;

    if (!pdl_prod64(g->dims.d, g->dims.n, hosts) || *hosts > NET_MAX_HOSTS)
        return pdl_fail(err, PDL_EINVAL, "%s: more than %d hosts",
                        g->wrap ? "torus" : "mesh", NET_MAX_HOSTS);
    *cables = 0;
    for (int j = 0; j < g->dims.n; j++) {
        int64_t d = g->dims.d[j];

        g->stride[j] = j ? g->stride[j - 1] * g->dims.d[j - 1] : 1;
        g->cables[j] = *cables;
        if (d > 1)
            *cables += g->wrap ? *hosts : *hosts / d * (d - 1);
        longest += g->wrap ? d / 2 : d - 1;
    }
    if (longest > PDL_MAX_ROUTE)
        return pdl_fail(
            err, PDL_EINVAL, "%s: routes of %lld links are longer than %d",
            g->wrap ? "torus" : "mesh", (long long)longest, PDL_MAX_ROUTE);
    return PDL_OK;
}

static void lay_cables(const struct grid *g, int64_t hosts,
                       struct net_cables *c)
{
    for (int j = 0; j < g->dims.n; j++) {
        int64_t d = g->dims.d[j], s = g->stride[j];

        for (int64_t h = 0; d > 1 && h < hosts; h++) {
            bool last = h / s % d == d - 1;

            if (!last || g->wrap)
                net_cable(c, h, last ? h - (d - 1) * s : h + s, 1);
        }
    }
}

static enum pdl_status make(pdl_arena *a, const struct pdl_topo_values *v,
                            bool wrap, struct pdl_net *net, struct pdl_err *err)
{
    struct grid *g = PDL_NEW(a, struct grid, 1);
    int64_t hosts, cables;
    struct net_cables c;
    enum pdl_status st;

    if (!g)
        return pdl_fail(err, PDL_ENOMEM, "torus: out of memory");
    g->dims = v->v[DIMS].dims;
    g->per = net_per_cable(v);
    g->wrap = wrap;
    g->even = wrap && v->v[TIES].i == 1;
    st = count(g, &hosts, &cables, err);
    if (st != PDL_OK)
        return st;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, 0, cables);
    if (c.status == PDL_OK)
        lay_cables(g, hosts, &c);
    for (int j = 0; j < g->dims.n && wrap; j++)
        if (g->dims.d[j] > 2)
            net_may_turn(net, g->stride[j], g->dims.d[j]);
    net->route = route;
    net->tied = g->even ? NULL : tied;
    net->link_name = link_name;
    net->shape = g;
    return net_cables_done(&c);
}

static enum pdl_status torus(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    return make(a, v, true, net, err);
}

static enum pdl_status mesh(pdl_arena *a, const struct pdl_topo_values *v,
                            struct pdl_net *net, struct pdl_err *err)
{
    return make(a, v, false, net, err);
}

const struct pdl_topo net_torus = {
    .name = "torus",
    .group = PDL_TOPO_GRID,
    .summary = "torus of hosts, dimension-order routing, as SimGrid's TORUS",
    .source = "SimGrid TorusZone",
    .example = "torus:8x8x16",
    .params = params,
    .nparams = NPARAMS,
    .build = torus,
};

const struct pdl_topo net_mesh = {
    .name = "mesh",
    .group = PDL_TOPO_GRID,
    .summary = "mesh of hosts, dimension-order routing",
    .source = "textbook",
    .example = "mesh:4x4",
    .params = params,
    .nparams = NPARAMS - 1,
    .build = mesh,
};
