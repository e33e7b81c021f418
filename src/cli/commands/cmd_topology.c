/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl topology show, export: what a network is, and one as a SimGrid
 * platform. */
#include "cli/cli_priv.h"
#include "paradl/net.h"

#include <stdio.h>
#include <string.h>

struct options {
    bool links;
    const char *routes, *output;
};

/* ---- routes ------------------------------------------------------------ */

static double latency_of(const struct pdl_net *net, const int *links, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += net->links[links[i]].latency_s;
    return sum;
}

static void print_route(const struct pdl_net *net, int src, int dst)
{
    struct pdl_sink *out = cli_out();
    int links[PDL_MAX_ROUTE], n = net->route(net, src, dst, links);
    char name[128];

    pdl_printf(out, "%d %d %.9g", src, dst, latency_of(net, links, n));
    for (int i = 0; i < n; i++)
        pdl_printf(out, " %s@%.9g",
                   pdl_net_link_name(net, links[i], name, sizeof name),
                   net->links[links[i]].bytes_per_s);
    pdl_puts(out, "\n");
}

static void json_route(struct pdl_json *j, const struct pdl_net *net, int src,
                       int dst)
{
    int links[PDL_MAX_ROUTE], n = net->route(net, src, dst, links);
    char name[128];

    pdl_json_row(j);
    pdl_json_kint(j, "src", src);
    pdl_json_kint(j, "dst", dst);
    pdl_json_knum(j, "latency_s", latency_of(net, links, n));
    pdl_json_key(j, "links");
    pdl_json_flat(j);
    for (int i = 0; i < n; i++)
        pdl_json_str(j, pdl_net_link_name(net, links[i], name, sizeof name));
    pdl_json_end(j);
    pdl_json_end(j);
}

struct range {
    int src0, src1, dst0, dst1; /* ends included */
};

static enum pdl_status parse_routes(const char *text, int nhosts,
                                    struct range *out, struct pdl_err *err)
{
    struct pdl_err inner = {"", ""};
    size_t len = strcspn(text, ",");
    int64_t src = 0, dst = 0;
    char one[32];

    *out = (struct range){0, nhosts - 1, 0, nhosts - 1};
    if (strcmp(text, "all") == 0)
        return PDL_OK;
    if (!text[len] || len >= sizeof one)
        return pdl_fail(err, PDL_EINVAL,
                        "--routes: '%.40s' is neither SRC,DST nor all", text);
    memcpy(one, text, len);
    one[len] = '\0';
    if (pdl_int_parse(one, 0, nhosts - 1, &src, &inner) != PDL_OK ||
        pdl_int_parse(text + len + 1, 0, nhosts - 1, &dst, &inner) != PDL_OK)
        return pdl_fail(err, PDL_EINVAL, "--routes: %s", inner.msg);
    *out = (struct range){(int)src, (int)src, (int)dst, (int)dst};
    return PDL_OK;
}

/* ---- show -------------------------------------------------------------- */

static void json_links(struct pdl_json *j, const struct pdl_net *net)
{
    char name[128];

    pdl_json_key(j, "link_list");
    pdl_json_array(j);
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        pdl_json_row(j);
        pdl_json_kstr(j, "name", pdl_net_link_name(net, i, name, sizeof name));
        pdl_json_kint(j, "from", k->from);
        pdl_json_kint(j, "to", k->to);
        pdl_json_knum(j, "bytes_per_s", k->bytes_per_s);
        pdl_json_knum(j, "latency_s", k->latency_s);
        pdl_json_kbool(j, "shared", k->shared);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

/* Of a Kautz network of diameter 2: the gratings and wavelengths its arcs
 * pass, and the triangles by which credits return. */
struct optics {
    int gratings, waves;
    int64_t pairs, triangles;
};

static bool optics_of(const struct pdl_net *net, struct optics *o)
{
    int d = 1;

    *o = (struct optics){.gratings = 0};
    if (!net->topo || strcmp(net->topo->name, "kautz") != 0)
        return false;
    while (d * (d + 1) < net->nhosts)
        d++;
    for (int i = 0; i < net->nlinks; i++) {
        int from = net->links[i].from, to = net->links[i].to, grating, wave;

        if (!pdl_kautz_wave(d, from, to, &grating, &wave))
            return false;
        o->gratings = grating >= o->gratings ? grating + 1 : o->gratings;
        o->waves = wave >= o->waves ? wave + 1 : o->waves;
        if (pdl_kautz_credit(d, from, to) == from)
            o->pairs++;
        else
            o->triangles++;
    }
    o->pairs /= 2;
    o->triangles /= 3;
    return true;
}

static void json_show(const struct pdl_net *net, const struct pdl_metrics *m,
                      const struct options *o, const struct range *r)
{
    struct optics optics;
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "topology");
    pdl_json_kstr(&j, "topology", net->spec);
    pdl_json_kint(&j, "hosts", m->hosts);
    pdl_json_kint(&j, "switches", m->switches);
    pdl_json_kint(&j, "links", m->cables);
    pdl_json_kint(&j, "diameter", m->diameter);
    pdl_json_knum(&j, "average_hops", m->average_hops);
    pdl_json_kint(&j, "measured_from", m->sources);
    pdl_json_kint(&j, "longest_route", m->longest_route);
    pdl_json_knum(&j, "average_route", m->route_links);
    pdl_json_kint(&j, "bisection_links", m->bisection_cables);
    pdl_json_knum(&j, "bisection_bytes_per_s", m->bisection_bytes_per_s);
    pdl_json_kbool(&j, "bisection_exact", m->bisection_exact);
    pdl_json_knum(&j, "cable_m", m->cable_m);
    pdl_json_knum(&j, "cost", m->cost);
    pdl_json_knum(&j, "power_w", m->power_w);
    pdl_json_knum(&j, "setup_s", net->setup_s);
    if (optics_of(net, &optics)) {
        pdl_json_kint(&j, "gratings", optics.gratings);
        pdl_json_kint(&j, "wavelengths", optics.waves);
        pdl_json_kint(&j, "credit_pairs", optics.pairs);
        pdl_json_kint(&j, "credit_triangles", optics.triangles);
    }
    if (o->links)
        json_links(&j, net);
    if (o->routes) {
        pdl_json_key(&j, "routes");
        pdl_json_array(&j);
        for (int s = r->src0; s <= r->src1; s++)
            for (int d = r->dst0; d <= r->dst1; d++)
                if (s != d)
                    json_route(&j, net, s, d);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
}

static void text_metrics(const struct pdl_net *net, const struct pdl_metrics *m)
{
    struct pdl_sink *out = cli_out();
    struct optics optics;
    char text[64];

    cli_say(2, "%s", net->spec);
    pdl_printf(out, "  hosts          %d\n", m->hosts);
    if (m->diameter == 0 && m->hosts > 1) {
        cli_say(17,
                "  links          %d; no graph has these routes: no "
                "distances, no cuts",
                net->nlinks);
        pdl_printf(out, "  routes         %.3f links on average, %d at most\n",
                   m->route_links, m->longest_route);
        return;
    }
    pdl_printf(out, "  switches       %d\n", m->switches);
    pdl_printf(out, "  cables         %lld, %.0f m\n", (long long)m->cables,
               m->cable_m);
    pdl_printf(out, "  diameter       %d hops from host to host\n",
               m->diameter);
    pdl_printf(out, "  average        %.3f hops", m->average_hops);
    if (m->sources < m->hosts)
        pdl_printf(out, " (from %d hosts drawn at random)", m->sources);
    pdl_puts(out, "\n");
    pdl_printf(out, "  routes         %.3f links on average, %d at most\n",
               m->route_links, m->longest_route);
    pdl_printf(out, "  bisection      %s%lld cables, %s%s\n",
               m->bisection_exact ? "" : "at most ",
               (long long)m->bisection_cables,
               pdl_unit_format(m->bisection_bytes_per_s, PDL_UNIT_BYTES_S, text,
                               sizeof text),
               m->bisection_exact ? "" : " (best cut found)");
    pdl_printf(out, "  cost           %.0f $ for switches and cables\n",
               m->cost);
    pdl_printf(out, "  power          %s for switches\n",
               pdl_unit_format(m->power_w, PDL_UNIT_WATT, text, sizeof text));
    if (net->setup_s > 0)
        pdl_printf(
            out, "  set-up         %s, once\n",
            pdl_unit_format(net->setup_s, PDL_UNIT_SECONDS, text, sizeof text));
    if (optics_of(net, &optics))
        pdl_printf(out,
                   "  optics         %d gratings of %d wavelengths\n"
                   "  credits        along %lld pairs and %lld triangles\n",
                   optics.gratings, optics.waves, (long long)optics.pairs,
                   (long long)optics.triangles);
}

static enum pdl_status text_links(pdl_arena *a, const struct pdl_net *net,
                                  struct pdl_err *err)
{
    static const struct pdl_column columns[] = {
        {"link", false}, {"from", true},    {"to", true},
        {"rate", true},  {"latency", true},
    };
    struct pdl_table t;
    char name[128], rate[64], lat[64];

    pdl_table_init(&t, a, columns, 5);
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *k = &net->links[i];

        pdl_table_cell(&t, "%s", pdl_net_link_name(net, i, name, sizeof name));
        pdl_table_cell(&t, "%d", k->from);
        pdl_table_cell(&t, "%d", k->to);
        pdl_table_cell(&t, "%s",
                       pdl_unit_format(k->bytes_per_s, PDL_UNIT_BYTES_S, rate,
                                       sizeof rate));
        pdl_table_cell(
            &t, "%s",
            pdl_unit_format(k->latency_s, PDL_UNIT_SECONDS, lat, sizeof lat));
    }
    if (t.status != PDL_OK)
        return pdl_fail(err, t.status, "topology: out of memory");
    pdl_table_print(&t, cli_width(), cli_out());
    return PDL_OK;
}

static enum pdl_status text_show(pdl_arena *a, const struct pdl_net *net,
                                 const struct options *o, const struct range *r,
                                 struct pdl_err *err)
{
    struct pdl_metrics m;
    enum pdl_status st = PDL_OK;

    if (o->routes) {
        for (int s = r->src0; s <= r->src1; s++)
            for (int d = r->dst0; d <= r->dst1; d++)
                if (s != d)
                    print_route(net, s, d);
        return PDL_OK;
    }
    if (o->links)
        return text_links(a, net, err);
    st = pdl_net_metrics(a, net, &m, err);
    if (st == PDL_OK)
        text_metrics(net, &m);
    return st;
}

static int show_net(pdl_arena *a, const struct pdl_args *args,
                    const struct pdl_net *net)
{
    const struct options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct range r = {0, 0, 0, 0};
    struct pdl_metrics m;
    enum pdl_status st;

    if (o->routes && parse_routes(o->routes, net->nhosts, &r, &err) != PDL_OK)
        return cli_usage(&err);
    if (!args->json) {
        st = text_show(a, net, o, &r, &err);
    } else {
        st = pdl_net_metrics(a, net, &m, &err);
        if (st == PDL_OK)
            json_show(net, &m, o, &r);
    }
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

static int export_net(pdl_arena *a, const struct pdl_args *args,
                      const struct pdl_net *net)
{
    const struct options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;
    enum pdl_status st;
    int rc;

    (void)a;
    pdl_buf_init(&text);
    st = pdl_net_write_simgrid(net, &text.sink, &err);
    rc = st == PDL_OK ? cli_write(o->output, &text) : cli_fail(st, &err);
    pdl_buf_free(&text);
    return rc;
}

static int with_net(const struct pdl_args *args,
                    int (*use)(pdl_arena *, const struct pdl_args *,
                               const struct pdl_net *))
{
    pdl_arena *a = pdl_arena_create(4 * PDL_ARENA_DEFAULT);
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st =
        a ? pdl_net_make(a, args->pos[0], &net, &err)
          : pdl_fail(&err, PDL_ENOMEM, "topology: out of memory");
    int rc = st == PDL_OK ? use(a, args, net) : cli_fail(st, &err);

    pdl_arena_destroy(a);
    return rc;
}

static int show(const struct pdl_args *args)
{
    return with_net(args, show_net);
}

static int export(const struct pdl_args *args)
{
    return with_net(args, export_net);
}

/* ---- commands ---------------------------------------------------------- */

static const struct pdl_opt show_opts[] = {
    {"links", 0, PDL_OPT_FLAG, offsetof(struct options, links), NULL, NULL,
     "list every link"},
    {"routes", 0, PDL_OPT_TEXT, offsetof(struct options, routes), "SRC,DST",
     NULL, "the links from one host to another; 'all' for every pair"},
};

static const struct pdl_opt export_opts[] = {
    {"output", 'o', PDL_OPT_TEXT, offsetof(struct options, output), "FILE",
     NULL, "where to write; standard output when absent"},
};

const struct pdl_cmd cli_topology_show = {
    .name = "topology show",
    .args = "TOPOLOGY",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a network is: size, distances, bisection, cost",
    .text =
        "Builds the network that TOPOLOGY describes (a generator with "
        "parameters, or a SimGrid platform file *.xml with one <cluster> or "
        "the "
        "links and routes of one zone) and "
        "prints its figures. Hops are cables from host to host on the "
        "shortest path; a route may list more links, such as the crossing of "
        "a switch. The bisection is exact where a formula is known and else "
        "the best cut found. Cables, cost and power follow a floor plan of "
        "racks of 32 hosts. With --routes, one line for a pair: source, "
        "destination, latency in seconds, and link@bytes-per-second for each "
        "link.",
    .example = "paradl topology show torus:4x4",
    .opts = show_opts,
    .nopts = sizeof show_opts / sizeof show_opts[0],
    .opts_size = sizeof(struct options),
    .run = show,
};

const struct pdl_cmd cli_topology_export = {
    .name = "topology export",
    .args = "TOPOLOGY",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "write a network as a SimGrid platform",
    .text = "Writes the network as a SimGrid platform (version 4.1): as a "
            "<cluster> where SimGrid has such a one, else with all links and "
            "the route of every pair of hosts, for up to 512 hosts. Hosts are "
            "called node-0, node-1, ...",
    .example = "paradl topology export torus:4x4",
    .opts = export_opts,
    .nopts = sizeof export_opts / sizeof export_opts[0],
    .opts_size = sizeof(struct options),
    .run = export,
    .no_json = true,
};
