/* SPDX-License-Identifier: Apache-2.0
 *
 * Dragonfly of groups of chassis of routers, in SimGrid's model of the Cray
 * Cascade (Faanes et al., SC 2012): "groups,blue;chassis,black;routers,green;
 * nodes". Routers of a chassis are fully joined by green cables, routers of
 * one slot in all chassis of a group by black ones, groups pairwise by one
 * blue cable: group i's end towards group j is router j of its first chassis
 * (so groups <= routers). Trunks of n cables are one link of n times the
 * rate.
 *
 * routing=simgrid (the default, so that published SimGrid figures can be
 * reproduced) is minimal routing as DragonflyZone of SimGrid 3.32 to 4.1 does
 * it: green to the slot, black to the chassis, and it forgets the chassis
 * after a green hop, going on as if it stood in the first chassis. Inside a
 * group, from a chassis other than the first to another slot, its route is
 * therefore no walk: the black hop starts in the first chassis, appears when
 * none is needed (same chassis) or is missing (to the first chassis).
 * routing=minimal is the same without that slip; every route is then a walk. */
#include "topo_priv.h"

#include <stdio.h>

enum { GROUPS, CHASSIS, ROUTERS, NODES, BLUE, BLACK, GREEN, ROUTING };

struct dragonfly {
    int64_t groups, chassis, routers, nodes;
    int per;
    bool slip;                  /* SimGrid's */
    int64_t green, black, blue; /* the first cable of each colour */
};

// clang-format off
static const struct pdl_param params[] = {
    {"groups", PDL_PARAM_INT, NULL, 1, 65536, NULL, "groups"},
    {"chassis", PDL_PARAM_INT, NULL, 1, 65536, NULL, "chassis of a group"},
    {"routers", PDL_PARAM_INT, NULL, 1, 65536, NULL, "routers of a chassis"},
    {"nodes", PDL_PARAM_INT, NULL, 1, 65536, NULL, "hosts of a router"},
    {"blue", PDL_PARAM_INT, "1", 1, 65536, NULL, "cables between two groups"},
    {"black", PDL_PARAM_INT, "1", 1, 65536, NULL, "cables between two chassis"},
    {"green", PDL_PARAM_INT, "1", 1, 65536, NULL,
     "cables between two routers of a chassis"},
    {"routing", PDL_PARAM_CHOICE, "simgrid", 0, 0, "simgrid|minimal",
     "minimal routing, with or without SimGrid's slip inside a group"},
};
// clang-format on

/* Number of the pair i < j among n. */
static int64_t pair(int64_t n, int64_t i, int64_t j)
{
    return i * n - i * (i + 1) / 2 + j - i - 1;
}

static int64_t pairs(int64_t n)
{
    return n * (n - 1) / 2;
}

/* The link from index i to index j of the cable `base + pair + stride...`. */
static int directed(const struct dragonfly *f, int64_t cable, bool back)
{
    return (int)(cable * f->per + (back && f->per == 2 ? 1 : 0));
}

static int host_link(const struct dragonfly *f, int64_t host, bool down)
{
    return directed(f, host, down);
}

/* From slot i to slot j of chassis c (counted over all groups). */
static int green(const struct dragonfly *f, int64_t c, int64_t i, int64_t j)
{
    int64_t p = i < j ? pair(f->routers, i, j) : pair(f->routers, j, i);

    return directed(f, f->green + c * pairs(f->routers) + p, i > j);
}

/* From chassis i to chassis j at slot s of group g. */
static int black(const struct dragonfly *f, int64_t g, int64_t s, int64_t i,
                 int64_t j)
{
    int64_t p = i < j ? pair(f->chassis, i, j) : pair(f->chassis, j, i);

    return directed(f, f->black + (g * pairs(f->chassis) + p) * f->routers + s,
                    i > j);
}

static int blue(const struct dragonfly *f, int64_t i, int64_t j)
{
    int64_t p = i < j ? pair(f->groups, i, j) : pair(f->groups, j, i);

    return directed(f, f->blue + p, i > j);
}

struct place {
    int64_t group, chassis, slot;
};

static struct place place(const struct dragonfly *f, int64_t router)
{
    return (struct place){
        .group = router / (f->chassis * f->routers),
        .chassis = router / f->routers % f->chassis,
        .slot = router % f->routers,
    };
}

/* From `at` to the first chassis' router of slot `to`, then to group `to`. */
static int leave_group(const struct dragonfly *f, struct place *at, int64_t to,
                       int *links)
{
    int n = 0;

    if (at->slot != to)
        links[n++] =
            green(f, at->group * f->chassis + at->chassis, at->slot, to);
    if (at->chassis != 0)
        links[n++] = black(f, at->group, to, at->chassis, 0);
    links[n++] = blue(f, at->group, to);
    *at = (struct place){.group = to, .chassis = 0, .slot = at->group};
    return n;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct dragonfly *f = net->shape;
    int64_t from = src / f->nodes, goal = dst / f->nodes;
    struct place at = place(f, from), to = place(f, goal);
    int n = 0;

    if (src == dst)
        return 0;
    links[n++] = host_link(f, src, false);
    if (from != goal) {
        if (at.group != to.group)
            n += leave_group(f, &at, to.group, links + n);
        if (at.slot != to.slot) {
            links[n++] =
                green(f, at.group * f->chassis + at.chassis, at.slot, to.slot);
            if (f->slip)
                at.chassis = 0;
        }
        if (at.chassis != to.chassis)
            links[n++] = black(f, at.group, to.slot, at.chassis, to.chassis);
    }
    links[n++] = host_link(f, dst, true);
    return n;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct dragonfly *f = net->shape;
    const struct pdl_link *k = &net->links[f->per == 2 ? link & ~1 : link];
    const char *way = f->per == 1 ? "" : link % 2 ? "_down" : "_up";
    int64_t c = link / f->per;
    struct place u, v;

    if (c < f->green) {
        snprintf(buf, size, "local_%d_router_%d%s", k->from,
                 k->to - net->nhosts, way);
        return;
    }
    u = place(f, k->from - net->nhosts);
    v = place(f, k->to - net->nhosts);
    if (c < f->black)
        snprintf(buf, size, "green_group_%lld_chassis_%lld_%lld_%lld%s",
                 (long long)u.group, (long long)u.chassis, (long long)u.slot,
                 (long long)v.slot, way);
    else if (c < f->blue)
        snprintf(buf, size, "black_group_%lld_slot_%lld_%lld_%lld%s",
                 (long long)u.group, (long long)u.slot, (long long)u.chassis,
                 (long long)v.chassis, way);
    else
        snprintf(buf, size, "blue_%lld_%lld%s", (long long)u.group,
                 (long long)v.group, way);
}

static void lay_cables(const struct dragonfly *f, int64_t hosts,
                       const int64_t *width, struct net_cables *c)
{
    int64_t group = f->chassis * f->routers, first = hosts;

    for (int64_t h = 0; h < hosts; h++)
        net_cable(c, h, first + h / f->nodes, 1);
    for (int64_t k = 0; k < f->groups * f->chassis; k++)
        for (int64_t i = 0; i < f->routers; i++)
            for (int64_t j = i + 1; j < f->routers; j++)
                net_cable(c, first + k * f->routers + i,
                          first + k * f->routers + j, width[2]);
    for (int64_t g = 0; g < f->groups; g++)
        for (int64_t i = 0; i < f->chassis; i++)
            for (int64_t j = i + 1; j < f->chassis; j++)
                for (int64_t s = 0; s < f->routers; s++)
                    net_cable(c, first + g * group + i * f->routers + s,
                              first + g * group + j * f->routers + s, width[1]);
    for (int64_t i = 0; i < f->groups; i++)
        for (int64_t j = i + 1; j < f->groups; j++)
            net_cable(c, first + i * group + j, first + j * group + i,
                      width[0]);
}

static void shape(const struct pdl_topo_values *v, struct dragonfly *f)
{
    f->groups = v->v[GROUPS].i;
    f->chassis = v->v[CHASSIS].i;
    f->routers = v->v[ROUTERS].i;
    f->nodes = v->v[NODES].i;
    f->per = net_per_cable(v);
    f->slip = v->v[ROUTING].i == 0;
}

/* All factors are at most 2^16; false when a product leaves 2^62. */
static bool count(struct dragonfly *f, int64_t *hosts, int64_t *switches,
                  int64_t *cables)
{
    int64_t greens, blacks;

    return pdl_mul64(f->groups * f->chassis, f->routers, switches) &&
           pdl_mul64(*switches, f->nodes, hosts) && *hosts <= NET_MAX_HOSTS &&
           pdl_mul64(f->groups * f->chassis, pairs(f->routers), &greens) &&
           pdl_mul64(f->groups * pairs(f->chassis), f->routers, &blacks) &&
           pdl_add64(*hosts, greens, &f->black) &&
           pdl_add64(f->black, blacks, &f->blue) &&
           pdl_add64(f->blue, pairs(f->groups), cables);
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct dragonfly *f = PDL_NEW(a, struct dragonfly, 1);
    int64_t width[] = {v->v[BLUE].i, v->v[BLACK].i, v->v[GREEN].i};
    int64_t hosts, switches, cables;
    struct net_cables c;

    if (!f)
        return pdl_fail(err, PDL_ENOMEM, "dragonfly: out of memory");
    shape(v, f);
    if (f->groups > f->routers && f->groups > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "dragonfly: %lld groups need as many routers in a "
                        "chassis (%lld)",
                        (long long)f->groups, (long long)f->routers);
    if (!count(f, &hosts, &switches, &cables))
        return pdl_fail(err, PDL_EINVAL, "dragonfly: more than %d hosts",
                        NET_MAX_HOSTS);
    f->green = hosts;
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, switches, cables);
    if (c.status == PDL_OK)
        lay_cables(f, hosts, width, &c);
    net->route = route;
    net->link_name = link_name;
    net->shape = f;
    net->jumps = f->slip && f->chassis > 1 && f->routers > 1;
    return net_cables_done(&c);
}

const struct pdl_topo net_dragonfly = {
    .name = "dragonfly",
    .group = PDL_TOPO_SHORT,
    .summary = "groups, chassis, routers, nodes, as SimGrid's DRAGONFLY",
    .source = "Kim et al., ISCA 2008; Faanes et al., SC 2012; SimGrid "
              "DragonflyZone",
    .example = "dragonfly:groups=4,chassis=4,routers=4,nodes=4",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
