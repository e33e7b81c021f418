/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl topology list, show: what networks there are and what one is. */
#include "cli_priv.h"
#include "paradl/net.h"

#include <stdio.h>
#include <string.h>

struct options {
    bool links;
    const char *routes;
};

static const struct pdl_opt opts[] = {
    {"links", 0, PDL_OPT_FLAG, offsetof(struct options, links), NULL, NULL,
     "list every link"},
    {"routes", 0, PDL_OPT_TEXT, offsetof(struct options, routes), "SRC,DST",
     NULL, "the links from one host to another; 'all' for every pair"},
};

/* ---- routes ---------------------------------------------------------------- */

static void print_route(const struct pdl_net *net, int src, int dst,
                        struct pdl_sink *out)
{
    int links[PDL_MAX_ROUTE], n = net->route(net, src, dst, links);
    double latency = 0;
    char name[128];

    for (int i = 0; i < n; i++)
        latency += net->links[links[i]].latency_s;
    pdl_printf(out, "%d %d %.9g", src, dst, latency);
    for (int i = 0; i < n; i++)
        pdl_printf(out, " %s@%.9g",
                   pdl_net_link_name(net, links[i], name, sizeof name),
                   net->links[links[i]].bytes_per_s);
    pdl_puts(out, "\n");
}

static enum pdl_status parse_pair(const char *text, int nhosts, int64_t *src,
                                  int64_t *dst, struct pdl_err *err)
{
    size_t len = strcspn(text, ",");
    char one[32];
    enum pdl_status st;

    if (!text[len] || len >= sizeof one)
        return pdl_fail(err, PDL_EINVAL, "--routes: '%.40s' is not SRC,DST",
                        text);
    memcpy(one, text, len);
    one[len] = '\0';
    st = pdl_int_parse(one, 0, nhosts - 1, src, err);
    if (st == PDL_OK)
        st = pdl_int_parse(text + len + 1, 0, nhosts - 1, dst, err);
    return st;
}

static int routes(const struct pdl_net *net, const char *which)
{
    struct pdl_err err = {"", ""};
    int64_t src, dst;

    if (strcmp(which, "all") == 0) {
        for (int i = 0; i < net->nhosts; i++)
            for (int j = 0; j < net->nhosts; j++)
                if (i != j)
                    print_route(net, i, j, cli_out());
        return EXIT_OK;
    }
    if (parse_pair(which, net->nhosts, &src, &dst, &err) != PDL_OK)
        return cli_usage(&err);
    print_route(net, (int)src, (int)dst, cli_out());
    return EXIT_OK;
}

/* ---- show ------------------------------------------------------------------ */

static int show_net(const struct pdl_args *args, const struct pdl_net *net)
{
    const struct options *o = args->opts;

    if (o->routes)
        return routes(net, o->routes);
    pdl_printf(cli_out(), "%s: %d hosts, %d switches, %d links\n", net->spec,
               net->nhosts, net->nswitches, net->nlinks);
    return EXIT_OK;
}

static int show(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st =
        a ? pdl_net_make(a, args->pos[0], &net, &err)
          : pdl_fail(&err, PDL_ENOMEM, "topology: out of memory");
    int rc = st == PDL_OK ? show_net(args, net) : cli_fail(st, &err);

    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_topology_show = {
    .name = "topology show",
    .args = "TOPOLOGY",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a network is: size, distances, bisection, cables, cost",
    .text = "Builds the network that TOPOLOGY describes and prints its "
            "figures.",
    .example = "paradl topology show torus:4x4",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = show,
};
