/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit on what a vertex passes on, both directions together: SimGrid's
 * limiter_link. Every vertex of a route has one link of its own, listed
 * before the link by which the route leaves it and once more at the end for
 * the destination. */
#include "topo_priv.h"

#include <stdio.h>

struct limited {
    const struct pdl_net *inner;
    int limited; /* vertices 0..limited-1 have one */
};

static int limit_of(const struct limited *l, int v, int *links)
{
    if (v >= l->limited)
        return 0;
    *links = l->inner->nlinks + v;
    return 1;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct limited *l = net->shape;
    int inner[PDL_MAX_ROUTE], at = src, count = 0;
    int n = l->inner->route(l->inner, src, dst, inner);

    for (int i = 0; i < n; i++) {
        const struct pdl_link *k = &net->links[inner[i]];
        int from = k->shared ? at : k->from;

        if (k->from != k->to)
            count += limit_of(l, from, links + count);
        links[count++] = inner[i];
        at = k->from == from ? k->to : k->from;
    }
    return n ? count + limit_of(l, dst, links + count) : 0;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct limited *l = net->shape;

    if (link < l->inner->nlinks)
        pdl_net_link_name(l->inner, link, buf, size);
    else
        snprintf(buf, size, "limiter_%d", link - l->inner->nlinks);
}

static int longest(const struct pdl_net *net)
{
    const struct net_value *dims = net_value(net->values, "dims");
    int n = 0;

    for (int i = 0; dims && i < dims->dims.n; i++)
        n += (int)dims->dims.d[i] / 2;
    return n;
}

enum pdl_status net_limit(pdl_arena *a, const struct pdl_net *inner,
                          double bytes_per_s, bool switches,
                          const struct pdl_net **out, struct pdl_err *err)
{
    struct limited *l = PDL_NEW(a, struct limited, 1);
    struct pdl_net *net = PDL_NEW(a, struct pdl_net, 1);
    struct pdl_topo_values *values = PDL_NEW(a, struct pdl_topo_values, 1);
    int limited = inner->nhosts + (switches ? inner->nswitches : 0);
    struct pdl_link *links =
        PDL_NEW(a, struct pdl_link, (size_t)inner->nlinks + (size_t)limited);

    if (!l || !net || !links || !values)
        return pdl_fail(err, PDL_ENOMEM, "limiter: out of memory");
    if (inner->jumps && net_per_cable(inner->values) == 1)
        return pdl_fail(err, PDL_EINVAL,
                        "a dragonfly with shared cables and a limiter is not "
                        "supported");
    if (2 * longest(inner) + 1 > PDL_MAX_ROUTE)
        return pdl_fail(err, PDL_EINVAL, "routes are longer than %d links",
                        PDL_MAX_ROUTE);
    *l = (struct limited){inner, limited};
    for (int i = 0; i < inner->nlinks; i++)
        links[i] = inner->links[i];
    for (int v = 0; v < limited; v++) {
        int k = inner->nlinks + v;

        links[k] = (struct pdl_link){.from = v,
                                     .to = v,
                                     .bytes_per_s = bytes_per_s,
                                     .shared = true,
                                     .reverse = k};
    }
    *values = *inner->values;
    values->limiter_bytes_per_s = bytes_per_s;
    *net = *inner;
    net->values = values;
    net->links = links;
    net->nlinks = inner->nlinks + limited;
    net->route = route;
    net->link_name = link_name;
    net->shape = l;
    *out = net;
    return PDL_OK;
}
