/* SPDX-License-Identifier: Apache-2.0
 *
 * Links one after the other, for the generators. Full duplex makes two links
 * of a cable, numbered 2k and 2k+1; shared makes one. The order of the calls
 * fixes the numbers, so that a generator whose shape is regular can compute a
 * link's number instead of looking it up. */
#include "topo_priv.h"

#include <math.h>

void net_cables_init(struct net_cables *c, pdl_arena *a,
                     const struct pdl_topo_values *v, struct pdl_net *net,
                     struct pdl_err *err)
{
    *c = (struct net_cables){
        .arena = a,
        .net = net,
        .bytes_per_s = v->bytes_per_s,
        .latency_s = v->latency_s,
        .shared = v->shared,
        .err = err,
    };
}

void net_cables_counts(struct net_cables *c, int64_t hosts, int64_t switches,
                       int64_t cables)
{
    const char *name = c->net->topo ? c->net->topo->name : "network";

    if (c->status != PDL_OK)
        return;
    if (hosts < 1 || hosts > NET_MAX_HOSTS || switches < 0 ||
        switches > NET_MAX_HOSTS || cables < 0 || cables > NET_MAX_LINKS / 2) {
        c->status = pdl_fail(c->err, PDL_EINVAL,
                             "%s: %lld hosts, %lld switches, %lld cables are "
                             "more than %d, %d, %d",
                             name, (long long)hosts, (long long)switches,
                             (long long)cables, NET_MAX_HOSTS, NET_MAX_HOSTS,
                             NET_MAX_LINKS / 2);
        return;
    }
    c->net->nhosts = (int)hosts;
    c->net->nswitches = (int)switches;
    c->cap = cables * (c->shared ? 1 : 2);
    c->links = PDL_NEW(c->arena, struct pdl_link, c->cap ? c->cap : 1);
    if (!c->links)
        c->status = pdl_fail(c->err, PDL_ENOMEM, "%s: out of memory", name);
}

static bool room(struct net_cables *c, int64_t more)
{
    int64_t cap = c->cap ? 2 * c->cap : 64;

    if (c->status != PDL_OK)
        return false;
    if (c->nlinks + more <= c->cap)
        return true;
    if (cap <= NET_MAX_LINKS) {
        struct pdl_link *grown = pdl_arena_grow(
            c->arena, c->links, (size_t)c->nlinks, (size_t)cap, sizeof *grown);

        if (grown) {
            c->links = grown;
            c->cap = cap;
            return true;
        }
    }
    c->status = pdl_fail(c->err, PDL_ENOMEM, "%s: too many links",
                         c->net->topo ? c->net->topo->name : "network");
    return false;
}

static int add(struct net_cables *c, int64_t u, int64_t v, double bytes_per_s,
               double latency_s)
{
    c->links[c->nlinks] = (struct pdl_link){
        .from = (int)u,
        .to = (int)v,
        .bytes_per_s = bytes_per_s,
        .latency_s = latency_s,
        .reverse = -1,
        .cables = 1,
    };
    return (int)c->nlinks++;
}

int net_cable_of(struct net_cables *c, int64_t u, int64_t v, double bytes_per_s,
                 double latency_s)
{
    int k, back;

    if (!room(c, c->shared ? 1 : 2))
        return 0;
    k = add(c, u, v, bytes_per_s, latency_s);
    if (c->shared) {
        c->links[k].shared = true;
        c->links[k].reverse = k;
        return k;
    }
    back = add(c, v, u, bytes_per_s, latency_s);
    c->links[k].reverse = back;
    c->links[back].reverse = k;
    return k;
}

int net_cable(struct net_cables *c, int64_t u, int64_t v, int64_t width)
{
    int64_t before = c->nlinks;
    int k = net_cable_of(c, u, v, c->bytes_per_s * (double)width, c->latency_s);

    for (int64_t i = before; i < c->nlinks; i++)
        c->links[i].cables = (int)width;
    return k;
}

void net_inside(struct net_cables *c, int link)
{
    if (c->status != PDL_OK)
        return;
    c->links[link].length_m = -1;
    if (c->links[link].reverse >= 0)
        c->links[c->links[link].reverse].length_m = -1;
}

int net_arc(struct net_cables *c, int64_t u, int64_t v)
{
    return room(c, 1) ? add(c, u, v, c->bytes_per_s, c->latency_s) : 0;
}

int net_crossing(struct net_cables *c, int64_t v, double bytes_per_s,
                 double latency_s)
{
    int k;

    if (!room(c, 1))
        return 0;
    k = add(c, v, v, bytes_per_s, latency_s);
    c->links[k].shared = true;
    c->links[k].reverse = k;
    return k;
}

void net_may_turn(struct pdl_net *net, int64_t stride, int64_t extent)
{
    struct pdl_turns *t = &net->turns;

    if (extent > 1 && t->n < PDL_MAX_TURNS)
        t->level[t->n++] = (struct pdl_turn){stride, extent};
}

enum pdl_status net_cables_done(struct net_cables *c)
{
    if (c->status != PDL_OK)
        return c->status;
    for (int64_t i = 0; i < c->nlinks; i++)
        if (!isfinite(c->links[i].bytes_per_s))
            return pdl_fail(c->err, PDL_EINVAL, "%s: a link's rate overflows",
                            c->net->topo ? c->net->topo->name : "network");
    c->net->links = c->links;
    c->net->nlinks = (int)c->nlinks;
    return PDL_OK;
}
