/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl simulate: how long a collective takes on a network, and where it is
 * hot. */
#include "cli_collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
    const char *algorithm, *topology, *mapping, *share, *model, *energy;
    int64_t size, ranks, seed, repeat;
    double density, jitter;
    bool links;
};

// clang-format off
#define AT(field) offsetof(struct options, field)
static const struct pdl_opt opts[] = {
    {"algorithm", 'a', PDL_OPT_TEXT, AT(algorithm), "A", NULL,
     "the algorithm with its parameters, or FILE.coll (the first listed)"},
    {"topology", 't', PDL_OPT_TEXT, AT(topology), "T", NULL,
     "the network"},
    {"size", 's', PDL_OPT_SIZE, AT(size), "BYTES", NULL,
     "bytes of each rank's buffer"},
    {"ranks", 'n', PDL_OPT_INT, AT(ranks), "P", NULL,
     "number of ranks (one a host)"},
    {"density", 0, PDL_OPT_NUM, AT(density), "Q", NULL,
     "share of non-zeros, for the sparse algorithms"},
    {"mapping", 0, PDL_OPT_TEXT, AT(mapping), "NAME", "linear|random|reverse",
     "which host a rank is on (linear)"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "N", NULL,
     "of the random mapping and the jitter (0)"},
    {"repeat", 0, PDL_OPT_INT, AT(repeat), "N", NULL,
     "N in a row without a barrier; figures are those of one (1)"},
    {"jitter", 0, PDL_OPT_TIME, AT(jitter), "TIME", NULL,
     "mean of a random pause of a rank before each message (0)"},
    {"share", 0, PDL_OPT_TEXT, AT(share), "NAME", "fair|rtt",
     "flows on a link get the same, or by 1/latency as in SimGrid (fair)"},
    {"model", 0, PDL_OPT_TEXT, AT(model), "NAME", "plain|smpi",
     "plain, or the factors and cross traffic of SimGrid's SMPI (plain)"},
    {"energy", 0, PDL_OPT_TEXT, AT(energy), "NAME", "integrate|plugin",
     "energy of the links, integrated or as SimGrid's plugin samples it"},
    {"links", 0, PDL_OPT_FLAG, AT(links), NULL, NULL,
     "bytes, time in use and energy of every link that was used"},
};
#undef AT
// clang-format on

/* Everything about one simulation. */
struct outcome {
    const struct pdl_net *net;
    struct pdl_coll_job job;
    int *hosts;
    struct pdl_sim_result sim; /* of one, but links of all `times` */
    int64_t times;
    struct pdl_coll_round *rounds;
    int64_t nrounds;
};

static bool is(const char *option, const char *value)
{
    return option && strcmp(option, value) == 0;
}

static struct pdl_sim_config config_of(const struct options *o)
{
    struct pdl_sim_config c = {
        .share = is(o->share, "rtt") ? PDL_SHARE_RTT : PDL_SHARE_FAIR,
        .wire = is(o->model, "smpi") ? PDL_WIRE_SMPI : PDL_WIRE_PLAIN,
        .energy = is(o->energy, "plugin")      ? PDL_ENERGY_PLUGIN
                  : is(o->energy, "integrate") ? PDL_ENERGY_INTEGRATE
                                               : PDL_ENERGY_OFF,
        .links = o->links,
        .bounds = true,
    };

    if (is(o->model, "smpi") && is(o->share, "rtt"))
        c.weight_s = PDL_WEIGHT_S_SMPI;
    return c;
}

static const char *first_algorithm(const char *collective)
{
    for (int i = 0; pdl_alg_at(i); i++)
        if (strcmp(pdl_alg_at(i)->collective->name, collective) == 0)
            return pdl_alg_at(i)->name;
    return "";
}

static enum pdl_status prepare(pdl_arena *a, const char *collective,
                               const struct options *o, struct outcome *out,
                               struct pdl_err *err)
{
    struct cli_job_size size = {0, o->size, o->density};
    const char *spec =
        o->algorithm ? o->algorithm : first_algorithm(collective);
    bool program = cli_is_program(spec);
    enum pdl_status st;

    size.ranks = o->ranks ? (int)o->ranks : program ? 0 : out->net->nhosts;
    st = cli_job_make(a, collective, spec, out->net, &size, &out->job, err);
    if (st == PDL_OK && strcmp(out->job.alg->collective->name, collective) != 0)
        st = pdl_fail(err, PDL_EINVAL, "%s is a program for %s", spec,
                      out->job.alg->collective->name);
    if (st == PDL_OK)
        st = cli_map_ranks(a, out->net, out->job.nranks, o->mapping, o->seed,
                           &out->hosts, err);
    return st;
}

/* What one of n in a row took. */
static void take_one_of(int64_t n, struct outcome *out)
{
    struct pdl_sim_result *r = &out->sim;

    r->time_s /= (double)n;
    r->energy_j /= (double)n;
    r->bounds.lower_s /= (double)n;
    r->messages /= n;
    r->bytes_on_wire /= n;
    r->max_link_bytes /= n;
    out->times = n;
}

static enum pdl_status simulate(pdl_arena *a, const struct options *o,
                                struct outcome *out, struct pdl_err *err)
{
    struct pdl_sim_config config = config_of(o);
    struct pdl_traffic_loop loop = {.times = o->repeat ? o->repeat : 1,
                                    .jitter_s = o->jitter,
                                    .seed = (uint64_t)o->seed};
    struct pdl_traffic traffic;
    enum pdl_status st;

    pdl_coll_traffic(&out->job, out->hosts, &loop.once);
    traffic = loop.once;
    if (o->repeat || o->jitter > 0)
        pdl_traffic_repeat(&loop, &traffic);
    st = pdl_sim_run(a, out->net, &traffic, &config, &out->sim, err);
    if (st == PDL_OK)
        take_one_of(loop.times, out);
    /* a job with too many steps to list has a time but no rounds */
    if (st == PDL_OK &&
        pdl_coll_contention(&out->job, out->net, out->hosts, a, &out->rounds,
                            &out->nrounds, NULL) != PDL_OK)
        out->nrounds = 0;
    return st;
}

static void print_links_json(struct pdl_json *j, const struct outcome *r)
{
    char name[128];
    double n = (double)r->times;

    pdl_json_key(j, "links");
    pdl_json_array(j);
    for (int i = 0; r->sim.links && i < r->net->nlinks; i++) {
        const struct pdl_link_use *use = &r->sim.links[i];

        if (use->bytes == 0)
            continue;
        pdl_json_row(j);
        pdl_json_kint(j, "link", i);
        pdl_json_kstr(j, "name",
                      pdl_net_link_name(r->net, i, name, sizeof name));
        pdl_json_kint(j, "bytes", use->bytes / r->times);
        pdl_json_knum(j, "busy_s", use->busy_s / n);
        pdl_json_knum(
            j, "utilization",
            use->load / n / r->net->links[i].bytes_per_s / r->sim.time_s);
        pdl_json_knum(j, "energy_j", use->energy_j / n);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void print_json(const struct options *o, const struct outcome *r)
{
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "simulate");
    pdl_json_kstr(&j, "collective", r->job.alg->collective->name);
    pdl_json_kstr(&j, "algorithm", r->job.alg->name);
    pdl_json_kstr(&j, "topology", o->topology);
    pdl_json_kint(&j, "size_bytes", o->size);
    pdl_json_kint(&j, "ranks", r->job.nranks);
    if (o->repeat)
        pdl_json_kint(&j, "repeat", o->repeat);
    if (o->jitter > 0)
        pdl_json_knum(&j, "jitter_s", o->jitter);
    pdl_json_kint(&j, "messages", r->sim.messages);
    pdl_json_knum(&j, "time_s", r->sim.time_s);
    pdl_json_knum(&j, "wall_s", r->sim.wall_s);
    pdl_json_knum(&j, "lower_bound_s", r->sim.bounds.lower_s);
    pdl_json_kint(&j, "bytes_on_wire", r->sim.bytes_on_wire);
    pdl_json_kint(&j, "max_link_bytes", r->sim.max_link_bytes);
    pdl_json_key(&j, "contention");
    pdl_json_flat(&j);
    for (int64_t i = 0; i < r->nrounds; i++)
        for (int64_t k = 0; k < r->rounds[i].repeat; k++)
            pdl_json_int(&j, r->rounds[i].link_flows);
    pdl_json_end(&j);
    if (o->energy)
        pdl_json_knum(&j, "energy_j", r->sim.energy_j);
    if (o->links)
        print_links_json(&j, r);
    pdl_json_end(&j);
}

static void print_contention(const struct outcome *r)
{
    struct pdl_sink *out = cli_out();
    const char *comma = "";
    int64_t same;

    if (r->nrounds == 0)
        return;
    pdl_puts(out, "contention     ");
    for (int64_t i = 0; i < r->nrounds; i++) {
        same = r->rounds[i].repeat;
        while (i + 1 < r->nrounds &&
               r->rounds[i + 1].link_flows == r->rounds[i].link_flows)
            same += r->rounds[++i].repeat;
        pdl_printf(out, "%s%" PRId64, comma, r->rounds[i].link_flows);
        if (same > 1)
            pdl_printf(out, " x%" PRId64, same);
        comma = ", ";
    }
    pdl_puts(out, " flows on the busiest link, round by round\n");
}

static void print_links(const struct outcome *r, bool energy, pdl_arena *a)
{
    static const struct pdl_column columns[] = {
        {"link", false}, {"bytes", true}, {"in use", true}, {"energy", true}};
    struct pdl_table t;
    char text[64], name[128];
    double n = (double)r->times;

    pdl_table_init(&t, a, columns, energy ? 4 : 3);
    for (int i = 0; i < r->net->nlinks; i++) {
        const struct pdl_link_use *use = &r->sim.links[i];

        if (use->bytes == 0)
            continue;
        pdl_table_cell(&t, "%s",
                       pdl_net_link_name(r->net, i, name, sizeof name));
        pdl_table_cell(&t, "%s",
                       pdl_unit_format((double)use->bytes / n, PDL_UNIT_BYTES,
                                       text, sizeof text));
        pdl_table_cell(&t, "%s",
                       pdl_unit_format(use->busy_s / n, PDL_UNIT_SECONDS, text,
                                       sizeof text));
        if (energy)
            pdl_table_cell(&t, "%.4g J", use->energy_j / n);
    }
    pdl_table_print(&t, cli_width(), cli_out());
}

static void print_text(const struct options *o, const struct outcome *r,
                       pdl_arena *a)
{
    struct pdl_sink *out = cli_out();
    char text[64], rate[64], name[128];
    double time = r->sim.time_s;

    pdl_printf(
        out, "%s/%s, %s on %d ranks, %s\n", r->job.alg->collective->name,
        r->job.alg->name,
        pdl_unit_format((double)o->size, PDL_UNIT_BYTES, text, sizeof text),
        r->job.nranks, o->topology);
    pdl_printf(out, "time           %s (%s of buffer)\n",
               pdl_unit_format(time, PDL_UNIT_SECONDS, text, sizeof text),
               pdl_unit_format(time > 0 ? (double)o->size / time : 0,
                               PDL_UNIT_BYTES_S, rate, sizeof rate));
    pdl_printf(out, "lower bound    %s\n",
               pdl_unit_format(r->sim.bounds.lower_s, PDL_UNIT_SECONDS, text,
                               sizeof text));
    pdl_printf(out, "messages       %" PRId64 ", %s on all links\n",
               r->sim.messages,
               pdl_unit_format((double)r->sim.bytes_on_wire, PDL_UNIT_BYTES,
                               text, sizeof text));
    if (r->sim.max_link >= 0)
        pdl_printf(
            out, "busiest link   %s, %s\n",
            pdl_net_link_name(r->net, r->sim.max_link, name, sizeof name),
            pdl_unit_format((double)r->sim.max_link_bytes, PDL_UNIT_BYTES, text,
                            sizeof text));
    print_contention(r);
    if (o->energy)
        pdl_printf(out, "link energy    %.4g J\n", r->sim.energy_j);
    if (o->links && r->sim.links)
        print_links(r, o->energy != NULL, a);
}

static int run(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct outcome r = {.net = NULL};
    pdl_arena *a;
    enum pdl_status st;
    bool usage = false;

    if (!o->topology || o->size <= 0) {
        pdl_fail(&err, PDL_EINVAL, "simulate needs --topology and --size");
        return cli_usage(&err);
    }
    if (o->repeat < 0 || o->repeat > 1000000 || o->jitter < 0) {
        pdl_fail(&err, PDL_EINVAL,
                 "--repeat is 1 to 1000000, --jitter is not negative");
        return cli_usage(&err);
    }
    a = pdl_arena_create((size_t)16 << 30);
    if (!a)
        return EXIT_BUG;
    st = pdl_net_make(a, o->topology, &r.net, &err);
    if (st == PDL_OK) {
        st = prepare(a, args->pos[0], o, &r, &err);
        usage = st == PDL_EINVAL;
    }
    if (st == PDL_OK)
        st = simulate(a, o, &r, &err);
    if (st == PDL_OK && args->json)
        print_json(o, &r);
    else if (st == PDL_OK)
        print_text(o, &r, a);
    pdl_arena_destroy(a);
    if (usage)
        return cli_usage(&err);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_simulate = {
    .name = "simulate",
    .args = "COLLECTIVE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "how long a collective takes on a network, and where it is hot",
    .text =
        "Simulates every message of a collective algorithm as a flow on "
        "the network: flows share links max-min fairly. Prints the time, "
        "a lower bound, the busiest link and the number of flows on it "
        "in every round. Parameters of the algorithm that the network "
        "fixes (ranks per node, extents of a torus, switches of a DLN) "
        "are taken from it. With --repeat a rank begins the next one as soon "
        "as it is done with its own part; with --jitter ranks drift out "
        "of step as real ones do.",
    .example = "paradl simulate allreduce --algorithm ring --topology "
               "torus:4x4 --size 32MiB",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = run,
};
