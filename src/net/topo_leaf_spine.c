/* SPDX-License-Identifier: Apache-2.0
 *
 * Two levels of switches: every leaf is joined to every spine by `cables`
 * cables. routing=dmodk spreads by destination as the fat tree does (it is
 * fat-tree:down=HxL,up=1xS,links=1xC); ecmp is paths=ecmp; first always takes
 * the first spine, what a tree without multipath does. */
#include "topo_priv.h"

#include <stdio.h>

enum { LEAVES, HOSTS, SPINES, CABLES, ROUTING };
enum { DMODK }; /* first of the choices; ecmp is paths.c's */

struct leaf_spine {
    int64_t hosts, spines, cables, nhosts;
    int per, routing;
};

// clang-format off
static const struct pdl_param params[] = {
    {"leaves", PDL_PARAM_INT, NULL, 1, 65536, NULL, "leaf switches"},
    {"hosts", PDL_PARAM_INT, NULL, 1, 65536, NULL, "hosts of a leaf"},
    {"spines", PDL_PARAM_INT, NULL, 1, 65536, NULL, "spine switches"},
    {"cables", PDL_PARAM_INT, "1", 1, 4096, NULL,
     "cables between a leaf and a spine"},
    {"routing", PDL_PARAM_CHOICE, "dmodk", 0, 0, "dmodk|ecmp|first",
     "how a spine is chosen"},
};
// clang-format on

/* Ports of a leaf: round r of spines is cable r to each of them. */
static int up_link(const struct leaf_spine *t, int64_t leaf, int64_t port,
                   bool down)
{
    int64_t k = t->nhosts + leaf * t->spines * t->cables + port;

    return (int)(k * t->per + (down && t->per == 2 ? 1 : 0));
}

static void ports(const struct leaf_spine *t, int src, int dst, int64_t *up,
                  int64_t *down)
{
    int64_t n = t->spines * t->cables;

    if (t->routing == DMODK) {
        *up = dst % n;
        *down = *up % t->spines + src % t->cables * t->spines;
    } else {
        *up = *down = 0;
    }
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct leaf_spine *t = net->shape;
    int64_t from = src / t->hosts, to = dst / t->hosts, up, down;
    int n = 0;

    if (src == dst)
        return 0;
    links[n++] = src * t->per;
    if (from != to) {
        ports(t, src, dst, &up, &down);
        links[n++] = up_link(t, from, up, false);
        links[n++] = up_link(t, to, down, true);
    }
    links[n++] = dst * t->per + t->per - 1;
    return n;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct leaf_spine *t = net->shape;
    int64_t k = link / t->per, n = t->spines * t->cables;
    const char *way = t->per == 1 ? "" : link % 2 ? "_down" : "_up";

    if (k < t->nhosts)
        snprintf(buf, size, "host_%lld%s", (long long)k, way);
    else
        snprintf(buf, size, "leaf_%lld_spine_%lld_cable_%lld%s",
                 (long long)((k - t->nhosts) / n),
                 (long long)((k - t->nhosts) % n % t->spines),
                 (long long)((k - t->nhosts) % n / t->spines), way);
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct leaf_spine *t = PDL_NEW(a, struct leaf_spine, 1);
    int64_t leaves = v->v[LEAVES].i, hosts = leaves * v->v[HOSTS].i;
    int64_t n = v->v[SPINES].i * v->v[CABLES].i;
    struct net_cables c;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "leaf-spine: out of memory");
    t->hosts = v->v[HOSTS].i;
    t->spines = v->v[SPINES].i;
    t->cables = v->v[CABLES].i;
    t->nhosts = hosts;
    t->per = net_per_cable(v);
    t->routing = (int)v->v[ROUTING].i;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, leaves + t->spines, hosts + leaves * n);
    for (int64_t i = 0; i < hosts && c.status == PDL_OK; i++)
        net_cable(&c, i, hosts + i / t->hosts, 1);
    for (int64_t l = 0; l < leaves && c.status == PDL_OK; l++)
        for (int64_t p = 0; p < n; p++)
            net_cable(&c, hosts + l, hosts + leaves + p % t->spines, 1);
    net->route = route;
    net->link_name = link_name;
    net->shape = t;
    return net_cables_done(&c);
}

const struct pdl_topo net_leaf_spine = {
    .name = "leaf-spine",
    .group = PDL_TOPO_TREE,
    .summary = "two levels, every leaf joined to every spine",
    .source = "textbook",
    .example = "leaf-spine:leaves=8,hosts=16,spines=4",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
