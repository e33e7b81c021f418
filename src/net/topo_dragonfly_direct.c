/* SPDX-License-Identifier: Apache-2.0
 *
 * Dragonfly without switches: the hosts are the routers. Groups are fully
 * connected, each host has `global` cables to other groups, every two groups
 * are joined by one. Group G's cable to H is on host ((H-G-1) mod g) / global.
 * With groups = group + 1 and global = 1 the degree is the group's size: the
 * network that the Kautz papers' comparison is read as (reconstruction: the
 * abstracts do not say which Dragonfly they mean). Minimal routing: at most
 * local, global, local (with global > 1 two global hops can be shorter and are
 * not used). */
#include "topo_priv.h"

enum { GROUP, GROUPS, GLOBAL };

struct direct {
    struct net_graph graph;
    int group, groups, global;
};

// clang-format off
static const struct pdl_param params[] = {
    {"group", PDL_PARAM_INT, NULL, 1, 4096, NULL, "hosts of a group"},
    {"groups", PDL_PARAM_INT, "0", 0, 65536, NULL,
     "groups; 0: as many as there are global cables for"},
    {"global", PDL_PARAM_INT, "1", 1, 256, NULL, "global cables of a host"},
};
// clang-format on

/* The host of group g that has the cable to group h. */
static int gate(const struct direct *d, int g, int h)
{
    int slot = (h - g - 1 + d->groups) % d->groups;

    return g * d->group + slot / d->global;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct direct *d = net->shape;
    int g = src / d->group, h = dst / d->group;
    int path[4] = {src}, n = 1;

    if (g != h) {
        int out = gate(d, g, h), in = gate(d, h, g);

        if (out != path[n - 1])
            path[n++] = out;
        path[n++] = in;
    }
    if (path[n - 1] != dst)
        path[n++] = dst;
    return net_graph_path(&d->graph, path, n, links);
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct direct *d = PDL_NEW(a, struct direct, 1);
    int64_t size = v->v[GROUP].i, most = size * v->v[GLOBAL].i + 1;
    int64_t groups = v->v[GROUPS].i ? v->v[GROUPS].i : most;
    struct net_cables c;

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "dragonfly-direct: out of memory");
    if (groups > most)
        return pdl_fail(err, PDL_EINVAL,
                        "dragonfly-direct: %lld groups, but a group has %lld "
                        "global cables",
                        (long long)groups, (long long)(most - 1));
    d->group = (int)size;
    d->groups = (int)groups;
    d->global = (int)v->v[GLOBAL].i;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(
        &c, groups * size, 0,
        groups * size * (size - 1) / 2 + groups * (groups - 1) / 2);
    for (int64_t g = 0; g < groups && c.status == PDL_OK; g++)
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = i + 1; j < size; j++)
                net_cable(&c, g * size + i, g * size + j, 1);
    for (int g = 0; g < d->groups && c.status == PDL_OK; g++)
        for (int h = g + 1; h < d->groups; h++)
            net_cable(&c, gate(d, g, h), gate(d, h, g), 1);
    net->route = route;
    net->shape = d;
    return net_finish_graph(a, &c, &d->graph);
}

const struct pdl_topo net_dragonfly_direct = {
    .name = "dragonfly-direct",
    .group = PDL_TOPO_SHORT,
    .summary = "dragonfly without switches: hosts are the routers",
    .source = "Kim et al., ISCA 2008; reconstruction of a baseline",
    .example = "dragonfly-direct:group=16",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
