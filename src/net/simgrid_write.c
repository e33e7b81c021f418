/* SPDX-License-Identifier: Apache-2.0
 *
 * SimGrid platform files out. The topologies SimGrid has are written as its
 * <cluster>; every other one as a Full zone that lists all links and, for
 * every pair of hosts, its route: exact, but quadratic, so only up to
 * MAX_LISTED hosts. A full-duplex cable is two SHARED links there, one for
 * each direction, which is what it is here. */
#include "topo_priv.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_LISTED = 512 };

static void dims(struct pdl_sink *out, const struct net_dims *d, int n)
{
    for (int i = 0; i < n; i++)
        pdl_printf(out, "%s%lld", i ? "," : "",
                   (long long)d->d[d->n == 1 ? 0 : i]);
}

static void fat_tree(const struct pdl_topo_values *v, struct pdl_sink *out)
{
    int n = net_value(v, "down")->dims.n;

    pdl_printf(out, "%d;", n);
    dims(out, &net_value(v, "down")->dims, n);
    pdl_puts(out, ";");
    dims(out, &net_value(v, "up")->dims, n);
    pdl_puts(out, ";");
    dims(out, &net_value(v, "links")->dims, n);
}

static void torus(const struct pdl_topo_values *v, struct pdl_sink *out)
{
    dims(out, &net_value(v, "dims")->dims, net_value(v, "dims")->dims.n);
}

static void dragonfly(const struct pdl_topo_values *v, struct pdl_sink *out)
{
    pdl_printf(out, "%d,%d;%d,%d;%d,%d;%d", (int)net_value(v, "groups")->i,
               (int)net_value(v, "blue")->i, (int)net_value(v, "chassis")->i,
               (int)net_value(v, "black")->i, (int)net_value(v, "routers")->i,
               (int)net_value(v, "green")->i, (int)net_value(v, "nodes")->i);
}

static const struct form {
    const struct pdl_topo *topo;
    const char *name;
    void (*parameters)(const struct pdl_topo_values *v, struct pdl_sink *out);
} forms[] = {
    {&net_fat_tree, "FAT_TREE", fat_tree},
    {&net_torus, "TORUS", torus},
    {&net_dragonfly, "DRAGONFLY", dragonfly},
    {&net_star, "FLAT", NULL},
};

/* Which cluster form has exactly these links and routes; NULL: none. */
static const struct form *form_of(const struct pdl_net *net)
{
    const struct net_value *routing;

    if (!net->topo || !net->values || net->harmed ||
        net->spread != PDL_SPREAD_NONE)
        return NULL;
    routing = net_value(net->values, "routing");
    if (net->topo == &net_dragonfly && routing->i != 0)
        return NULL;
    routing = net_value(net->values, "ties");
    if (routing && routing->i != 0)
        return NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].topo == net->topo)
            return &forms[i];
    return NULL;
}

static void quantity(struct pdl_sink *out, const char *name, double v,
                     const char *unit)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break; /* the shortest that reads back the same */
    }
    pdl_printf(out, " %s=\"%s%s\"", name, text, unit);
}

static void write_cluster(const struct pdl_net *net, const struct form *form,
                          struct pdl_sink *out)
{
    const struct pdl_topo_values *v = net->values;

    pdl_printf(out,
               "    <cluster id=\"cluster\" prefix=\"node-\" suffix=\"\" "
               "radical=\"0-%d\" speed=\"1Gf\"",
               net->nhosts - 1);
    quantity(out, "bw", v->bytes_per_s, "Bps");
    quantity(out, "lat", v->latency_s, "s");
    if (v->shared)
        pdl_puts(out, " sharing_policy=\"SHARED\"");
    if (form->parameters) {
        pdl_printf(out, "\n        topology=\"%s\" topo_parameters=\"",
                   form->name);
        form->parameters(v, out);
        pdl_puts(out, "\"");
    } else if (net_value(v, "backbone")->given) {
        quantity(out, "bb_bw", net_value(v, "backbone")->x, "Bps");
        quantity(out, "bb_lat", net_value(v, "backbone-lat")->x, "s");
    }
    if (v->limiter_bytes_per_s > 0)
        quantity(out, "limiter_link", v->limiter_bytes_per_s, "Bps");
    pdl_puts(out, "/>\n");
}

static void write_route(const struct pdl_net *net, int src, int dst,
                        struct pdl_sink *out)
{
    int links[PDL_MAX_ROUTE], n = net->route(net, src, dst, links);

    pdl_printf(out,
               "    <route src=\"node-%d\" dst=\"node-%d\" "
               "symmetrical=\"NO\">",
               src, dst);
    for (int i = 0; i < n; i++)
        pdl_printf(out, "<link_ctn id=\"l%d\"/>", links[i]);
    pdl_puts(out, "</route>\n");
}

static void write_listed(const struct pdl_net *net, struct pdl_sink *out)
{
    for (int h = 0; h < net->nhosts; h++)
        pdl_printf(out, "    <host id=\"node-%d\" speed=\"1Gf\"/>\n", h);
    for (int i = 0; i < net->nlinks; i++) {
        pdl_printf(out, "    <link id=\"l%d\"", i);
        quantity(out, "bandwidth", net->links[i].bytes_per_s, "Bps");
        quantity(out, "latency", net->links[i].latency_s, "s");
        pdl_printf(out, "%s/>\n",
                   net->links[i].fatpipe ? " sharing_policy=\"FATPIPE\"" : "");
    }
    for (int i = 0; i < net->nhosts; i++)
        for (int j = 0; j < net->nhosts; j++)
            if (i != j)
                write_route(net, i, j, out);
}

enum pdl_status pdl_net_write_simgrid(const struct pdl_net *net,
                                      struct pdl_sink *out, struct pdl_err *err)
{
    const struct form *form = form_of(net);

    if (!form && net->nhosts > MAX_LISTED)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: SimGrid has no such cluster, and %d hosts are too "
                        "many to list every route (at most %d)",
                        net->spec, net->nhosts, MAX_LISTED);
    pdl_puts(out, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                  "\"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n  <zone id=\"world\" "
                  "routing=\"Full\">\n");
    if (form)
        write_cluster(net, form, out);
    else
        write_listed(net, out);
    pdl_puts(out, "  </zone>\n</platform>\n");
    return out->failed ? pdl_fail(err, PDL_EIO, "cannot write the platform")
                       : PDL_OK;
}
