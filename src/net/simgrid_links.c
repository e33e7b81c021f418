/* SPDX-License-Identifier: Apache-2.0
 *
 * Links of SimGrid platforms that list them: <link>, <backbone>, <host_link>.
 * A SPLITDUPLEX link is two, one a way. */
#include "simgrid_listing.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LINKS = 1 << 20 };

/* Old files leave the base unit out. */
double net_listing_quantity(struct net_listing *s, const char **atts,
                            const char *name, enum pdl_unit unit)
{
    const char *text = net_attribute(atts, name);
    size_t len = text ? strlen(text) : 0;
    struct pdl_err inner = {"", ""};
    double x = 0;
    char full[64];

    if (len == 0 && unit == PDL_UNIT_SECONDS)
        return 0;
    if (len == 0 || len > 40) {
        NET_REFUSE(s, "%s is %s", name, len ? "too long" : "missing");
        return 1;
    }
    snprintf(full, sizeof full, "%s%s", text,
             text[len - 1] < '0' || text[len - 1] > '9' ? ""
             : unit == PDL_UNIT_SECONDS                 ? "s"
                                                        : "B/s");
    if (pdl_unit_parse(full, unit, &x, &inner) != PDL_OK)
        NET_REFUSE(s, "%s: %.200s", name, inner.msg);
    else if (!(x >= 0) || (unit != PDL_UNIT_SECONDS && !(x > 0)))
        NET_REFUSE(s, "%s: '%s' is not positive", name, text);
    return x;
}

static void put_link(struct net_listing *s, struct net_listed_link link)
{
    if (NET_ROOM(s, s->l.links, s->l.nlinks, s->l.link_cap, MAX_LINKS))
        s->l.links[s->l.nlinks++] = link;
}

int net_listing_link(struct net_listing *s, const char *id, const char *policy,
                     double bytes_per_s, double latency_s)
{
    struct net_listed_link link = {
        .name = pdl_arena_printf(s->l.arena, "%.64s", id),
        .bytes_per_s = bytes_per_s,
        .latency_s = latency_s,
        .twin = -1};
    bool split = policy && (strcmp(policy, "SPLITDUPLEX") == 0 ||
                            strcmp(policy, "FULLDUPLEX") == 0);
    int n = s->l.nlinks;

    if (!link.name)
        net_listing_no_memory(s);
    link.fatpipe = policy && strcmp(policy, "FATPIPE") == 0;
    if (policy && !split && !link.fatpipe && strcmp(policy, "SHARED") != 0)
        NET_REFUSE(s, "sharing_policy: none of SPLITDUPLEX, SHARED, FATPIPE");
    if (s->status != PDL_OK)
        return -1;
    net_listing_name(s, NET_NAME_LINK, id, n);
    link.twin = split ? n + 1 : -1;
    put_link(s, link);
    link.twin = n;
    if (split)
        put_link(s, link);
    return n;
}

void net_listing_on_link(struct net_listing *s, const char **atts)
{
    const char *id = net_attribute(atts, "id");

    if (!id) {
        NET_REFUSE(s, "a link without an id");
        return;
    }
    net_listing_link(
        s, id, net_attribute(atts, "sharing_policy"),
        net_listing_quantity(s, atts, "bandwidth", PDL_UNIT_BYTES_S),
        net_listing_quantity(s, atts, "latency", PDL_UNIT_SECONDS));
}

void net_listing_on_backbone(struct net_listing *s, const char **atts)
{
    int before = s->l.nlinks;

    net_listing_on_link(s, atts);
    if (s->zone < 0 || s->l.nlinks != before + 1)
        NET_REFUSE(s, "a backbone is one link of a zone");
    else
        s->l.zones[s->zone].backbone = before;
}

int net_listing_find_link(struct net_listing *s, const char *id)
{
    size_t len = id ? strlen(id) : 0;
    int link = id ? net_names_find(s->l.names, NET_NAME_LINK, id) : -1;
    int up = len > 3 && strcmp(id + len - 3, "_UP") == 0 ? 3 : 0;
    int down = len > 5 && strcmp(id + len - 5, "_DOWN") == 0 ? 5 : 0;
    char *name;

    if (link >= 0 || up + down == 0)
        return link;
    name = pdl_arena_strndup(s->l.arena, id, len - (size_t)(up + down));
    link = name ? net_names_find(s->l.names, NET_NAME_LINK, name) : -1;
    if (link < 0 || s->l.links[link].twin < 0)
        return -1;
    return link + (down > 0);
}

void net_listing_on_host_link(struct net_listing *s, const char **atts)
{
    const char *id = net_attribute(atts, "id");
    int host = id ? net_names_find(s->l.names, NET_NAME_VERTEX, id) : -1;
    int up = net_listing_find_link(s, net_attribute(atts, "up"));
    int down = net_listing_find_link(s, net_attribute(atts, "down"));

    if (host < 0 || up < 0 || down < 0) {
        NET_REFUSE(s, "host_link: no such host or link: '%.40s'", id ? id : "");
        return;
    }
    s->l.points[host].up = up;
    s->l.points[host].down = down;
}
