/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a platform that lists its links and routes.
 *
 * Routes: those of simgrid_zones.c, for every pair of hosts.
 *
 * Ends: SimGrid's links join nothing; they only stand in routes. Where they
 * begin and end follows from these: the first link of a route leaves its
 * source, the next one begins where the last one ended. So ends are made one
 * (union-find) as routes are walked; a link whose one end is reached is walked
 * towards the other. What is never walked backwards is one way, and pairs of
 * opposite one-way links of the same kind are the two ways of a cable. Where
 * that would make two hosts one (a link between any two of three hosts), no
 * graph has these routes: messages can be simulated on them, but there is
 * nothing to measure. */
#include "simgrid_priv.h"

#include <stdio.h>
#include <string.h>

struct listed_net { /* the shape of the net */
    int nhosts;
    const int *first; /* [src * nhosts + dst], in entries */
    const uint8_t *n;
    const int *entries;
    const struct net_listed_link *links;
};

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct listed_net *s = net->shape;
    size_t at = (size_t)src * (size_t)s->nhosts + (size_t)dst;

    for (int i = 0; i < s->n[at]; i++)
        links[i] = s->entries[s->first[at] + i];
    return s->n[at];
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct listed_net *s = net->shape;

    snprintf(buf, size, "%s%s", s->links[link].name,
             s->links[link].twin < 0      ? ""
             : s->links[link].twin > link ? "_UP"
                                          : "_DOWN");
}

/* ---- routes ------------------------------------------------------------ */

struct maker {
    const struct net_listed *l;
    const char *file;
    struct pdl_err *err;
    int *first;
    uint8_t *n;
    int *entries;
    int nentries, cap;
};

static enum pdl_status no_memory(const struct maker *m)
{
    return pdl_fail(m->err, PDL_ENOMEM, "%s: out of memory", m->file);
}

static bool make_room(struct maker *m, int n)
{
    int more = 2 * (m->cap + n);

    if (m->entries && m->nentries + n <= m->cap)
        return true;
    m->entries = pdl_arena_grow(m->l->arena, m->entries, (size_t)m->nentries,
                                (size_t)more, sizeof *m->entries);
    m->cap = more;
    return m->entries;
}

/* The points that are hosts, by their numbers. */
static int *hosts_of(const struct net_listed *l)
{
    int *at = PDL_NEW(l->arena, int, l->nhosts + 1);

    for (int p = 0; at && p < l->npoints; p++)
        if (l->points[p].host >= 0)
            at[l->points[p].host] = p;
    return at;
}

static enum pdl_status all_routes(struct maker *m)
{
    int hosts = m->l->nhosts, links[PDL_MAX_ROUTE];
    size_t all = (size_t)hosts * (size_t)hosts;
    int *point = hosts_of(m->l);
    struct net_zones *zones = NULL;
    enum pdl_status st = net_zones_create(m->l, m->file, &zones, m->err);

    m->first = PDL_NEW(m->l->arena, int, all);
    m->n = PDL_NEW(m->l->arena, uint8_t, all);
    if (st != PDL_OK || !m->first || !m->n || !point || !make_room(m, 1))
        return st != PDL_OK ? st : no_memory(m);
    for (size_t i = 0; i < all; i++) {
        int src = (int)(i / (size_t)hosts), dst = (int)(i % (size_t)hosts), n;
        struct pdl_err inner = {"", ""};

        if (src == dst)
            continue;
        n = net_zones_route(zones, point[src], point[dst], links, &inner);
        if (n <= 0)
            return pdl_fail(m->err, PDL_EPARSE, "%.200s (host %d to host %d)",
                            inner.msg, src, dst);
        if (!make_room(m, n))
            return no_memory(m);
        memcpy(m->entries + m->nentries, links, (size_t)n * sizeof *links);
        m->first[i] = m->nentries;
        m->n[i] = (uint8_t)n;
        m->nentries += n;
    }
    return PDL_OK;
}

/* ---- ends -------------------------------------------------------------- */

/* Ends of link l: nhosts + 2l and the next. Twins have theirs in common. */
struct ends {
    int *up;        /* union-find; hosts are their own roots */
    bool *fresh;    /* link not walked yet */
    bool *backward; /* link walked backwards */
    int nhosts;
    bool found; /* false: no network has these routes */
};

static int root(const struct ends *e, int v)
{
    while (e->up[v] != v) {
        e->up[v] = e->up[e->up[v]];
        v = e->up[v];
    }
    return v;
}

static bool join(struct ends *e, int v, int w)
{
    v = root(e, v);
    w = root(e, w);
    if (v == w)
        return true;
    if (v < e->nhosts && w < e->nhosts)
        return false;
    if (v < w) /* the lower number, so a host, is the root */
        e->up[w] = v;
    else
        e->up[v] = w;
    return true;
}

/* Where link l begins and ends. */
static int tail_of(const struct maker *m, const struct ends *e, int l)
{
    int twin = m->l->links[l].twin;

    return twin >= 0 && twin < l ? e->nhosts + 2 * twin + 1 : e->nhosts + 2 * l;
}

static int head_of(const struct maker *m, const struct ends *e, int l)
{
    int twin = m->l->links[l].twin;

    return twin >= 0 && twin < l ? e->nhosts + 2 * twin : e->nhosts + 2 * l + 1;
}

/* Is v an end of what comes next on a route: a link, or the goal? */
static bool leads_to(const struct maker *m, struct ends *e, int v,
                     const int *next, int goal)
{
    if (!next)
        return root(e, v) == root(e, goal);
    return root(e, v) == root(e, tail_of(m, e, *next)) ||
           root(e, v) == root(e, head_of(m, e, *next));
}

/* Walks link l from `at`; next: the link after it, or NULL. The vertex it
 * leads to, or -1. */
static int walk_link(const struct maker *m, struct ends *e, int l, int at,
                     const int *next, int goal)
{
    int tail = tail_of(m, e, l), head = head_of(m, e, l);
    bool known = !e->fresh[l], back = false;

    e->fresh[l] = false;
    if (known && root(e, tail) != root(e, at))
        back = root(e, head) == root(e, at) ||
               (!leads_to(m, e, head, next, goal) &&
                leads_to(m, e, tail, next, goal));
    if (back && m->l->links[l].twin >= 0)
        back = false; /* it has a way of its own for that */
    e->backward[l] = e->backward[l] || back;
    if (!join(e, back ? head : tail, at) ||
        (next && *next == l && !join(e, tail, head))) /* a switch's crossing */
        return -1;
    return back ? tail : head;
}

static bool walk_route(const struct maker *m, struct ends *e, int src, int dst)
{
    size_t pair = (size_t)src * (size_t)e->nhosts + (size_t)dst;
    int at = src;

    for (int i = 0; i < m->n[pair] && at >= 0; i++) {
        const int *l = m->entries + m->first[pair] + i;

        at = walk_link(m, e, *l, at, i + 1 < m->n[pair] ? l + 1 : NULL, dst);
    }
    return at >= 0 && join(e, at, dst);
}

static enum pdl_status find_ends(const struct maker *m, struct ends *e)
{
    pdl_arena *a = m->l->arena;
    int n = m->l->nhosts + 2 * m->l->nlinks;

    *e = (struct ends){.nhosts = m->l->nhosts, .found = true};
    e->up = PDL_NEW(a, int, n);
    e->fresh = PDL_NEW(a, bool, m->l->nlinks + 1);
    e->backward = PDL_NEW(a, bool, m->l->nlinks + 1);
    if (!e->up || !e->fresh || !e->backward)
        return no_memory(m);
    for (int v = 0; v < n; v++)
        e->up[v] = v;
    for (int l = 0; l < m->l->nlinks; l++)
        e->fresh[l] = m->l->links[l].twin < 0;
    for (int src = 0; src < e->nhosts && e->found; src++)
        for (int dst = 0; dst < e->nhosts && e->found; dst++)
            e->found = src == dst || walk_route(m, e, src, dst);
    for (int v = e->nhosts; !e->found && v < n; v++)
        e->up[v] = e->nhosts; /* all at one place */
    return PDL_OK;
}

/* ---- the network ------------------------------------------------------- */

/* Numbers the roots that are no hosts as switches. */
static int number_switches(const struct maker *m, const struct ends *e,
                           int *number)
{
    int n = 0, all = e->nhosts + 2 * m->l->nlinks;

    for (int v = 0; v < all; v++)
        number[v] = -1;
    for (int v = 0; v < e->nhosts; v++)
        number[v] = v;
    for (int l = 0; l < m->l->nlinks; l++) {
        int ends[2] = {root(e, tail_of(m, e, l)), root(e, head_of(m, e, l))};

        for (int k = 0; k < 2; k++)
            if (number[ends[k]] < 0)
                number[ends[k]] = e->nhosts + n++;
    }
    return n;
}

static bool opposite(const struct pdl_link *a, const struct pdl_link *b)
{
    return !b->shared && b->reverse < 0 && a->from == b->to &&
           a->to == b->from && a->bytes_per_s == b->bytes_per_s &&
           a->latency_s == b->latency_s;
}

/* One-way links back and forth: mostly neighbours in the file. */
static void pair_up(struct pdl_link *links, int n)
{
    enum { AHEAD = 64 };

    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n && k <= i + AHEAD; k++)
            if (!links[i].shared && links[i].reverse < 0 &&
                opposite(&links[i], &links[k])) {
                links[i].reverse = k;
                links[k].reverse = i;
            }
}

static enum pdl_status finish(const struct maker *m, const struct ends *e,
                              struct pdl_net *net)
{
    const struct net_listed *l = m->l;
    int *number = PDL_NEW(l->arena, int, e->nhosts + 2 * l->nlinks + 1);
    struct pdl_link *links = PDL_NEW(l->arena, struct pdl_link, l->nlinks + 1);

    if (!number || !links)
        return no_memory(m);
    net->nswitches = number_switches(m, e, number);
    for (int i = 0; i < l->nlinks; i++) {
        int from = number[root(e, tail_of(m, e, i))];
        int to = number[root(e, head_of(m, e, i))];
        bool shared = l->links[i].twin < 0 && (e->backward[i] || from == to);

        links[i] = (struct pdl_link){.from = from,
                                     .to = to,
                                     .bytes_per_s = l->links[i].bytes_per_s,
                                     .latency_s = l->links[i].latency_s,
                                     .shared = shared,
                                     .fatpipe = l->links[i].fatpipe,
                                     .reverse = shared ? i : l->links[i].twin};
    }
    pair_up(links, l->nlinks);
    net->links = links;
    return PDL_OK;
}

static const struct pdl_topo listed = {
    .name = "platform",
    .summary = "a SimGrid platform with its links and routes",
};

enum pdl_status net_listed_make(const struct net_listed *l, const char *file,
                                const struct pdl_net **out, struct pdl_err *err)
{
    struct maker m = {.l = l, .file = file, .err = err};
    struct listed_net *shape = PDL_NEW(l->arena, struct listed_net, 1);
    struct pdl_net *net = PDL_NEW(l->arena, struct pdl_net, 1);
    struct ends e;
    enum pdl_status st;

    if (!shape || !net)
        return no_memory(&m);
    st = all_routes(&m);
    if (st == PDL_OK)
        st = find_ends(&m, &e);
    if (st != PDL_OK)
        return st;
    *shape = (struct listed_net){l->nhosts, m.first, m.n, m.entries, l->links};
    *net = (struct pdl_net){.spec = pdl_arena_strdup(l->arena, file),
                            .nhosts = l->nhosts,
                            .nlinks = l->nlinks,
                            .route = route,
                            .link_name = link_name,
                            .shape = shape,
                            .topo = &listed};
    net->jumps = !e.found;
    st = finish(&m, &e, net);
    if (st == PDL_OK)
        *out = net;
    return st;
}
