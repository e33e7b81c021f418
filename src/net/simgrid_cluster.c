/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters and cabinets of SimGrid platforms that have more than one: a zone
 * whose hosts have a link up and one down, and perhaps a backbone, and for a
 * cluster a router as gateway (named by router_id, else like a host with the
 * cluster's id and "_router"). A platform that is a single cluster is not made
 * from this: it may have another topology and any size. */
#include "simgrid_listing.h"

#include <string.h>

/* Up to nine digits; false when there are none or more. */
static bool digits(const char **p, int64_t *out)
{
    int n = 0;

    *out = 0;
    for (; **p >= '0' && **p <= '9' && n < 10; ++*p, n++)
        *out = *out * 10 + (**p - '0');
    return n > 0 && n < 10;
}

/* The next range of "0-15,20"; false: it is not like that. */
static bool next_range(const char **p, int64_t *first, int64_t *last)
{
    if (!digits(p, first))
        return false;
    *last = *first;
    if (**p == '-' && (++*p, !digits(p, last)))
        return false;
    if (*last < *first || (**p && **p != ','))
        return false;
    return true;
}

int64_t net_radical_count(const char *text)
{
    int64_t total = 0, first, last;

    for (;; text++) {
        if (!next_range(&text, &first, &last))
            return -1;
        total += last - first + 1;
        if (!*text)
            return total;
    }
}

/* What the hosts of a cluster or cabinet have in common. */
struct common {
    const char *prefix, *suffix, *policy, *radical;
    double bytes_per_s, latency_s;
};

static const char *text_of(const char **atts, const char *name,
                           const char *absent)
{
    const char *v = net_attribute(atts, name);

    return v ? v : absent;
}

static void put_host(struct net_listing *s, const struct common *c, int64_t i)
{
    char *host = pdl_arena_printf(s->l.arena, "%.200s%lld%.200s", c->prefix,
                                  (long long)i, c->suffix);
    char *link = host ? pdl_arena_printf(s->l.arena, "link_%s", host) : NULL;
    int point, up;

    if (!link) {
        net_listing_no_memory(s);
        return;
    }
    point = net_listing_point(s, host, true);
    up = net_listing_link(s, link, c->policy, c->bytes_per_s, c->latency_s);
    if (s->status != PDL_OK)
        return;
    s->l.points[point].up = up;
    s->l.points[point].down =
        s->l.links[up].twin >= 0 ? s->l.links[up].twin : up;
}

static void put_hosts(struct net_listing *s, const char **atts,
                      const char *policy)
{
    struct common c = {
        .prefix = text_of(atts, "prefix", ""),
        .suffix = text_of(atts, "suffix", ""),
        .policy = policy,
        .radical = text_of(atts, "radical", ""),
        .bytes_per_s = net_listing_quantity(s, atts, "bw", PDL_UNIT_BYTES_S),
        .latency_s = net_listing_quantity(s, atts, "lat", PDL_UNIT_SECONDS)};
    const char *p = c.radical;
    int64_t first, last, n = net_radical_count(p);

    if (n < 0)
        NET_REFUSE(s, "radical: is not like 0-15");
    else if (n > NET_MAX_LISTED)
        NET_REFUSE(s, "more than %d in one platform", NET_MAX_LISTED);
    for (; s->status == PDL_OK && next_range(&p, &first, &last); p++) {
        for (int64_t i = first; i <= last && s->status == PDL_OK; i++)
            put_host(s, &c, i);
        if (!*p)
            return;
    }
}

void net_listing_cabinet(struct net_listing *s, const char **atts)
{
    s->others = true;
    put_hosts(s, atts, "SPLITDUPLEX");
}

static void put_backbone(struct net_listing *s, const char **atts,
                         const char *id)
{
    char *name = pdl_arena_printf(s->l.arena, "%.200s_backbone", id);
    const char *bw = net_attribute(atts, "bb_bw");

    if (!bw || !*bw)
        return;
    if (!name) {
        net_listing_no_memory(s);
        return;
    }
    s->l.zones[s->zone].backbone = net_listing_link(
        s, name, net_attribute(atts, "bb_sharing_policy"),
        net_listing_quantity(s, atts, "bb_bw", PDL_UNIT_BYTES_S),
        net_listing_quantity(s, atts, "bb_lat", PDL_UNIT_SECONDS));
}

/* Why it cannot be one of several; NULL: it can. */
static const char *oddity(const char **atts)
{
    const char *topology = net_attribute(atts, "topology");
    const char *limit = net_attribute(atts, "limiter_link");

    if (topology && strcmp(topology, "FLAT") != 0)
        return "beside others a cluster must be FLAT";
    if (limit && *limit)
        return "beside others a cluster cannot have a limiter_link";
    if (net_radical_count(text_of(atts, "radical", "")) > NET_MAX_LISTED)
        return "beside others a cluster is too large";
    return NULL;
}

static void put_cluster(struct net_listing *s, const char **atts)
{
    const char *id = text_of(atts, "id", "");
    const char *router = net_attribute(atts, "router_id");

    if (!router || !*router)
        router = pdl_arena_printf(s->l.arena, "%.200s%.200s_router%.200s",
                                  text_of(atts, "prefix", ""), id,
                                  text_of(atts, "suffix", ""));
    if (!router) {
        net_listing_no_memory(s);
        return;
    }
    net_listing_open(s, *id ? id : NULL, "Cluster");
    put_hosts(s, atts, text_of(atts, "sharing_policy", "SPLITDUPLEX"));
    if (s->status != PDL_OK)
        return;
    net_listing_point(s, router, false);
    put_backbone(s, atts, id);
    net_listing_close(s);
}

/* What is wrong with a cluster matters here only if it is not the only one. */
void net_listing_cluster(struct net_listing *s, const char **atts)
{
    int zone = s->zone;

    s->nclusters++;
    if (!s->odd)
        s->odd = oddity(atts);
    if (s->odd)
        return;
    if (strcmp(text_of(atts, "sharing_policy", ""), "FATPIPE") == 0 ||
        strcmp(text_of(atts, "bb_sharing_policy", ""), "FATPIPE") == 0)
        s->others = true; /* no topology of ours has such links */
    put_cluster(s, atts);
    if (s->status != PDL_EPARSE)
        return;
    s->odd = pdl_arena_strdup(s->l.arena, s->err->msg);
    s->status = PDL_OK;
    s->zone = zone;
    if (!s->odd)
        net_listing_no_memory(s);
}
