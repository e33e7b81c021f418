/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel-port generalised fat tree PGFT(h; down; up; links) with D-mod-k
 * routing (Zahavi, "D-Mod-K Routing Providing Non-Blocking Traffic for Shift
 * Permutations on Real Life Fat Trees", 2010), in SimGrid's meaning of the
 * parameters, levels bottom up: a vertex of level l+1 has down[l] children, a
 * vertex of level l has up[l] parents, joined by links[l] cables each.
 *
 * A vertex of level l is a label of h digits; digit j < l counts to up[j],
 * digit j >= l to down[j], digit 0 runs fastest. Parents and children differ
 * in digit l only. Going up from level l to destination d, cable
 * (d / (up[0]...up[l-1])) mod (up[l]*links[l]); going down, the cable is
 * chosen among parallel ones by the source. Cables are numbered level by
 * level, by child, by port, so a route costs O(h) and no table.
 *
 * The downward cable follows SimGrid (3.32 to 4.1) exactly, where one scan
 * over a switch's ports goes on at the child: see down_port(). */
#include "topo_priv.h"

#include <string.h>
#include <stdio.h>

enum { DOWN, UP, LINKS };

struct tree {
    int levels;
    int per; /* links of a cable */
    int64_t down[NET_MAX_DIMS], up[NET_MAX_DIMS], links[NET_MAX_DIMS];
    int64_t vertices[NET_MAX_DIMS + 1]; /* of each level */
    int64_t first[NET_MAX_DIMS + 1];    /* the level's first vertex */
    int64_t cables[NET_MAX_DIMS + 1];   /* the first cable from level l up */
};

// clang-format off
static const struct pdl_param params[] = {
    {"down", PDL_PARAM_DIMS, NULL, 1, NET_MAX_HOSTS, NULL,
     "children of a switch, level by level from the bottom"},
    {"up", PDL_PARAM_DIMS, NULL, 1, NET_MAX_HOSTS, NULL,
     "parents of a vertex, level by level"},
    {"links", PDL_PARAM_DIMS, "1", 1, 65536, NULL,
     "cables between a vertex and each parent; one number: all levels"},
};
// clang-format on

/* Digit j of the labels of level l counts to this. */
static int64_t radix(const struct tree *t, int l, int j)
{
    return j < l ? t->up[j] : t->down[j];
}

static int64_t position(const struct tree *t, int l, const int64_t *label)
{
    int64_t pos = 0;

    for (int j = t->levels - 1; j >= 0; j--)
        pos = pos * radix(t, l, j) + label[j];
    return pos;
}

static void label_of(const struct tree *t, int l, int64_t pos, int64_t *label)
{
    for (int j = 0; j < t->levels; j++) {
        label[j] = pos % radix(t, l, j);
        pos /= radix(t, l, j);
    }
}

/* The cable from vertex `pos` of level l through its upward port. */
static int up_link(const struct tree *t, int l, int64_t pos, int64_t port,
                   bool down)
{
    int64_t k = t->cables[l] + pos * t->up[l] * t->links[l] + port;

    return (int)(k * t->per + (down && t->per == 2 ? 1 : 0));
}

/* The port by which a switch of level l is left towards `digit`. A switch's
 * ports are links[l-1] rounds of down[l-1] children; the search starts at the
 * round of the source, but when it follows a descent (last >= 0) it goes on
 * from that port's number and falls back to the round of the source only when
 * the numbers run out. */
static int64_t down_port(const struct tree *t, int l, int64_t src,
                         int64_t digit, int64_t last)
{
    int64_t n = t->down[l - 1], ports = n * t->links[l - 1];

    if (last >= 0) {
        int64_t from = last + 1;
        int64_t port = from + ((digit - from) % n + n) % n;

        if (port < ports)
            return port;
    }
    return (src % t->links[l - 1]) * n + digit;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct tree *t = net->shape;
    int64_t cur[NET_MAX_DIMS], to[NET_MAX_DIMS], d = dst, last = -1;
    int l = 0, n = 0, top = t->levels;

    if (src == dst)
        return 0;
    label_of(t, 0, src, cur);
    label_of(t, 0, dst, to);
    while (top > 1 && cur[top - 1] == to[top - 1])
        top--;
    for (; l < top; l++) {
        int64_t port = d % (t->up[l] * t->links[l]);

        links[n++] = up_link(t, l, position(t, l, cur), port, false);
        cur[l] = port % t->up[l];
        d /= t->up[l];
    }
    for (; l > 0; l--) {
        int64_t port = down_port(t, l, src, to[l - 1], last);
        int64_t cable = port / t->down[l - 1], parent = cur[l - 1];

        last = port;
        cur[l - 1] = to[l - 1];
        links[n++] = up_link(t, l - 1, position(t, l - 1, cur),
                             parent + cable * t->up[l - 1], true);
    }
    return n;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct tree *t = net->shape;
    int64_t k = link / t->per, ports;
    int l = 0;

    while (l + 1 < t->levels && k >= t->cables[l + 1])
        l++;
    ports = t->up[l] * t->links[l];
    k -= t->cables[l];
    snprintf(buf, size, "level%d_%lld_port%lld%s", l, (long long)(k / ports),
             (long long)(k % ports),
             t->per == 1 ? ""
             : link % 2  ? "_down"
                         : "_up");
}

static enum pdl_status count(struct tree *t, int64_t *switches, int64_t *cables)
{
    *switches = 0;
    *cables = 0;
    for (int l = 0; l <= t->levels; l++) {
        int64_t size[NET_MAX_DIMS], more;

        for (int j = 0; j < t->levels; j++)
            size[j] = radix(t, l, j);
        if (!pdl_prod64(size, t->levels, &t->vertices[l]))
            return PDL_EINVAL;
        t->first[l] = l == 0 ? 0 : t->first[l - 1] + t->vertices[l - 1];
        t->cables[l] = *cables;
        if (l > 0 && !pdl_add64(*switches, t->vertices[l], switches))
            return PDL_EINVAL;
        if (t->first[l] > NET_MAX_LINKS)
            return PDL_EINVAL;
        if (l < t->levels &&
            (!pdl_mul64(t->vertices[l], t->up[l] * t->links[l], &more) ||
             !pdl_add64(*cables, more, cables)))
            return PDL_EINVAL;
    }
    return PDL_OK;
}

static void lay_cables(const struct tree *t, struct net_cables *c)
{
    int64_t label[NET_MAX_DIMS];

    for (int l = 0; l < t->levels; l++)
        for (int64_t pos = 0; pos < t->vertices[l]; pos++)
            for (int64_t p = 0; p < t->up[l] * t->links[l]; p++) {
                label_of(t, l, pos, label);
                label[l] = p % t->up[l];
                net_cable(c, t->first[l] + pos,
                          t->first[l + 1] + position(t, l + 1, label), 1);
            }
}

static enum pdl_status levels(const struct pdl_topo_values *v, struct tree *t,
                              struct pdl_err *err)
{
    const struct net_dims *down = &v->v[DOWN].dims, *up = &v->v[UP].dims;
    const struct net_dims *links = &v->v[LINKS].dims;

    t->levels = down->n;
    t->per = net_per_cable(v);
    if (up->n != down->n)
        return pdl_fail(err, PDL_EPARSE,
                        "fat-tree: down has %d levels and up %d", down->n,
                        up->n);
    if (links->n != down->n && links->n != 1)
        return pdl_fail(err, PDL_EPARSE,
                        "fat-tree: down has %d levels and links %d", down->n,
                        links->n);
    for (int l = 0; l < t->levels; l++) {
        t->down[l] = down->d[l];
        t->up[l] = up->d[l];
        t->links[l] = links->d[links->n == 1 ? 0 : l];
    }
    return PDL_OK;
}

/* The top digit of the label, which switches of the top level do not have. */
static int turn(const struct pdl_net *net, int64_t by, int64_t within,
                int vertex)
{
    const struct tree *t = net->shape;
    int64_t top = t->down[t->levels - 1], hosts = t->vertices[0] / top;
    int l = t->levels;

    while (vertex < t->first[l])
        l--;
    if (l == t->levels || within != t->vertices[0])
        return vertex;
    return (int)(t->first[l] +
                 (vertex - t->first[l] + by / hosts * (t->vertices[l] / top)) %
                     t->vertices[l]);
}

/* The top digit may be turned where no port depends on it. */
static void allow_turns(const struct tree *t, struct pdl_net *net)
{
    int64_t top = t->down[t->levels - 1], hosts = t->vertices[0] / top, up = 1;

    for (int l = 0; l < t->levels; l++) {
        up *= t->up[l];
        if (t->links[l] != 1 || hosts % up != 0)
            return;
    }
    net_may_turn(net, hosts, top);
    net->turn = turn;
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct tree *t = PDL_NEW(a, struct tree, 1);
    int64_t switches, cables;
    struct net_cables c;
    enum pdl_status st;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "fat-tree: out of memory");
    st = levels(v, t, err);
    if (st != PDL_OK)
        return st;
    if (count(t, &switches, &cables) != PDL_OK)
        return pdl_fail(err, PDL_EINVAL, "fat-tree: too many vertices");
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, t->vertices[0], switches, cables);
    if (c.status == PDL_OK)
        lay_cables(t, &c);
    net->route = route;
    net->link_name = link_name;
    net->shape = t;
    allow_turns(t, net);
    return net_cables_done(&c);
}

const struct pdl_topo net_fat_tree = {
    .name = "fat-tree",
    .group = PDL_TOPO_TREE,
    .summary = "generalised fat tree, D-mod-k routing, as SimGrid's FAT_TREE",
    .source = "Zahavi 2010; SimGrid FatTreeZone",
    .example = "fat-tree:down=8x8,up=1x8",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
