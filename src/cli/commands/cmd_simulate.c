/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl simulate: how long a collective takes on a network, and where it is
 * hot. */
#include "cli/output/simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// clang-format off
#define AT(field) offsetof(struct cli_simulate_options, field)
static const struct pdl_opt opts[] = {
    {"algorithm", 'a', PDL_OPT_TEXT, AT(algorithm), "ALGORITHM", NULL,
     "the algorithm with its parameters, or FILE.coll (the first listed)"},
    {"topology", 't', PDL_OPT_TEXT, AT(topology), "TOPOLOGY", NULL,
     "the network"},
    {"size", 's', PDL_OPT_SIZE, AT(size), "BYTES", NULL,
     "bytes of each rank's buffer"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "number of ranks (one a host)"},
    {"density", 0, PDL_OPT_NUM, AT(density), "Q", NULL,
     "share of non-zeros, for the sparse algorithms"},
    {"groups", 0, PDL_OPT_COUNT, AT(groups), "N", NULL,
     "the ranks are N groups of neighbours, each of which does it, all at once: "
     "groups of a plan, jobs beside one another (1)"},
    {"strided", 0, PDL_OPT_FLAG, AT(strided), NULL, NULL,
     "with --groups: every N-th rank is of a group"},
    {"channels", 0, PDL_OPT_COUNT, AT(channels), "N", NULL,
     "N equal parts of the buffer at once, in each of which the ranks of a node "
     "come one place later: a ring of each part leaves nodes by adapters of its "
     "own, as libraries have it (1)"},
    {"mapping", 0, PDL_OPT_TEXT, AT(mapping), "HOW", NULL,
     "which host a rank is on: linear, random, reverse, or FILE with the number "
     "of each rank's (linear)"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "N", NULL,
     "of the random mapping, the pauses and ECMP's hash (0)"},
    {"repeat", 0, PDL_OPT_COUNT, AT(repeat), "N", NULL,
     "N in a row without a barrier; figures are those of one, in the mean "
     "(1; 100 with the model smpi and the program loop where that is not too long)"},
    {"jitter", 0, PDL_OPT_TIME, AT(jitter), "TIME", NULL,
     "mean of a random pause of a rank before each of them (0)"},
    {"start", 0, PDL_OPT_TIME, AT(start), "TIME", NULL,
     "the same before the first of them (as the others)"},
    {"work", 0, PDL_OPT_TIME, AT(work), "TIME", NULL,
     "the same before each message (0)"},
    {"share", 0, PDL_OPT_TEXT, AT(share), "NAME", "fair|rtt",
     "flows on a link get the same, or by 1/latency as in SimGrid (fair; "
     "rtt with the model smpi)"},
    {"exact", 0, PDL_OPT_FLAG, AT(exact), NULL, NULL,
     "with rtt: do not take what comes within a nanosecond as one instant, as "
     "SimGrid does"},
    {"model", 0, PDL_OPT_TEXT, AT(model), "NAME", "plain|smpi",
     "plain, or the factors and cross traffic of SimGrid's SMPI (plain)"},
    {"program", 0, PDL_OPT_TEXT, AT(program), "NAME", "loop|calls",
     "with the model smpi: a loop of MPI's collective, or a program whose every "
     "message is a call to MPI and which adds up itself (as the papers of the "
     "topology)"},
    {"energy", 0, PDL_OPT_TEXT, AT(energy), "NAME", "integrate|plugin",
     "energy of the links, integrated or as SimGrid's plugin samples it"},
    {"links", 0, PDL_OPT_FLAG, AT(links), NULL, NULL,
     "bytes, time in use and energy of every link that was used"},
    {"path", 0, PDL_OPT_FLAG, AT(path), NULL, NULL,
     "the chain of messages that decides the time"},
    {"timeline", 0, PDL_OPT_INT, AT(timeline), "N", NULL,
     "how much of all links is in use, in N or more parts of the time"},
    {"comm-groups", 0, PDL_OPT_TEXT, AT(comm_groups), "FILE.json", NULL,
     "of a Chakra trace: ranks of its named groups, {\"name\": [0, 1, ...]}"},
    {"chakra", 0, PDL_OPT_TEXT, AT(chakra), "PREFIX", NULL,
     "also write what every rank does as Chakra execution traces, "
     "PREFIX.0.et and so on"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts and the heat of the links"},
};
#undef AT
// clang-format on

enum { SMPI_CALLS = 100, SMPI_MESSAGES = 20000000, MOST_CHANNELS = 64 };
static const double smpi_jitter_s = 1e-9;

static bool is(const char *option, const char *value)
{
    return option && strcmp(option, value) == 0;
}

static struct pdl_sim_config config_of(const struct cli_simulate_options *o)
{
    bool smpi = is(o->model, "smpi");
    bool rtt = o->share ? is(o->share, "rtt") : smpi;
    struct pdl_sim_config c = {
        .share = rtt ? PDL_SHARE_RTT : PDL_SHARE_FAIR,
        .wire = smpi ? PDL_WIRE_SMPI : PDL_WIRE_PLAIN,
        .energy = is(o->energy, "plugin")      ? PDL_ENERGY_PLUGIN
                  : is(o->energy, "integrate") ? PDL_ENERGY_INTEGRATE
                                               : PDL_ENERGY_OFF,
        .precision_s = o->exact ? -1 : 0,
        .links = o->links,
        .bounds = true,
        .critical_path = o->path,
        .timeline = (int)o->timeline,
        .seed = (uint64_t)o->seed,
    };

    if (smpi && rtt)
        c.weight_s = PDL_WEIGHT_S_SMPI;
    return c;
}

/* Under SMPI, is every message a call of the program? */
static bool is_calls(const struct cli_simulate_options *o,
                     const struct pdl_net *net)
{
    if (!is(o->model, "smpi"))
        return false;
    return o->program ? is(o->program, "calls") : net->topo && net->topo->calls;
}

/* No program of ranks: switches add (coll/in_network.c). */
static bool is_in_network(const struct cli_simulate_options *o)
{
    return is(o->algorithm, "in-network");
}

static const char *first_algorithm(const char *collective)
{
    for (int i = 0; pdl_alg_at(i); i++)
        if (strcmp(pdl_alg_at(i)->collective->name, collective) == 0)
            return pdl_alg_at(i)->name;
    return "";
}

static bool is_goal(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".goal") == 0;
}

static bool is_trace(const char *name)
{
    return is_goal(name) || cli_is_chakra(name);
}

static enum pdl_status prepare_trace(pdl_arena *a, const char *path,
                                     const struct cli_simulate_options *o,
                                     struct cli_simulation *out,
                                     struct pdl_err *err)
{
    struct cli_chakra chakra = {path, o->comm_groups, o->algorithm, out->net};
    struct pdl_bytes in;
    enum pdl_status st;

    if (is_goal(path)) {
        st = pdl_file_read(a, path, (size_t)1 << 30, &in, err);
        if (st == PDL_OK)
            st = pdl_traffic_read_goal(a, in, path, &out->traced, err);
    } else {
        st = cli_chakra_read(a, &chakra, &out->traced, &out->chakra, err);
    }
    if (st != PDL_OK)
        return st;
    out->trace = path;
    out->job.nranks = out->traced.nranks;
    return cli_map_ranks(a, out->net, out->job.nranks, o->mapping, o->seed,
                         &out->hosts, err);
}

/* Ranks of all groups, and those of one. */
static enum pdl_status split(const struct cli_simulate_options *o, int *ranks,
                             int *groups, struct pdl_err *err)
{
    *groups = o->groups ? (int)o->groups : 1;
    if (*groups < 1 || *groups > *ranks || *ranks % *groups != 0)
        return pdl_fail(err, PDL_EINVAL, "%d ranks are not %d equal groups",
                        *ranks, *groups);
    *ranks /= *groups;
    return PDL_OK;
}

/* Channels are groups of all ranks: rank i of channel c is on the host of the
 * rank that is c places further on in its node. */
static enum pdl_status lay_channels(pdl_arena *a, struct cli_simulation *out,
                                    struct pdl_err *err)
{
    int p = out->job.nranks, k = out->net->node, *all;
    int64_t n = (int64_t)p * out->channels;

    if (k < 1 || p % k != 0) {
        pdl_fail(err, PDL_EINVAL, "--channels is about whole nodes of ranks");
        pdl_hint(err, "rail, nodes and system:NAME have nodes");
        return PDL_EINVAL;
    }
    all = PDL_NEW(a, int, n);
    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d channels",
                        out->channels);
    for (int c = 0; c < out->channels; c++)
        for (int i = 0; i < p; i++)
            all[c * p + i] = out->hosts[i - i % k + (i % k + c) % k];
    out->hosts = all;
    out->groups = out->channels;
    return PDL_OK;
}

static enum pdl_status add_in_network(pdl_arena *a, const char *collective,
                                      const struct cli_simulate_options *o,
                                      struct cli_simulation *out,
                                      struct pdl_err *err)
{
    struct pdl_alg *alg = PDL_NEW(a, struct pdl_alg, 1);
    enum pdl_status st;

    if (!alg)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (strcmp(collective, "allreduce") != 0)
        return pdl_fail(err, PDL_EINVAL, "in-network is of allreduce");
    alg->name = o->algorithm;
    alg->collective = pdl_collective_find(collective);
    out->job.alg = alg;
    out->job.nranks = o->ranks ? (int)o->ranks : out->net->nhosts;
    out->channels = (int)o->channels;
    out->times = 1;
    st = pdl_coll_in_network(a, out->net, out->job.nranks, o->size,
                             &out->channels, &out->sim, err);
    out->groups = out->channels;
    return st;
}

static enum pdl_status prepare(pdl_arena *a, const char *collective,
                               const struct cli_simulate_options *o,
                               struct cli_simulation *out, struct pdl_err *err)
{
    struct cli_job_size size = {0, o->size, o->density};
    const char *spec =
        o->algorithm ? o->algorithm : first_algorithm(collective);
    bool program = cli_is_program(spec);
    enum pdl_status st;

    size.ranks = o->ranks ? (int)o->ranks : program ? 0 : out->net->nhosts;
    out->groups = 1;
    out->channels = o->channels ? (int)o->channels : 1;
    size.bytes /= out->channels;
    st = size.ranks ? split(o, &size.ranks, &out->groups, err) : PDL_OK;
    if (st == PDL_OK)
        st =
            cli_job_make(a, collective, spec, out->groups > 1 ? NULL : out->net,
                         &size, &out->job, err);
    if (st == PDL_OK && strcmp(out->job.alg->collective->name, collective) != 0)
        st = pdl_fail(err, PDL_EINVAL, "%s is a program for %s", spec,
                      out->job.alg->collective->name);
    if (st == PDL_OK)
        st = cli_map_ranks(a, out->net, out->job.nranks * out->groups,
                           o->mapping, o->seed, &out->hosts, err);
    return st == PDL_OK && out->channels > 1 ? lay_channels(a, out, err) : st;
}

/* ---- several groups at once --------------------------------------------- */

struct groups {
    struct pdl_traffic one;
    int n; /* so many; strided: every n-th rank is of one */
    bool strided;
};

static int member(const struct groups *g, int rank)
{
    return g->strided ? rank / g->n : rank % g->one.nranks;
}

/* The peer's number among all, of a rank's own group. */
static int peer(const struct groups *g, int rank, int member)
{
    if (member < 0)
        return member;
    return g->strided ? member * g->n + rank % g->n
                      : rank / g->one.nranks * g->one.nranks + member;
}

static int64_t groups_nops(void *ctx, int rank)
{
    const struct groups *g = ctx;

    return g->one.nops(g->one.ctx, member(g, rank));
}

static void groups_op(void *ctx, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    const struct groups *g = ctx;

    g->one.op(g->one.ctx, member(g, rank), i, out);
    out->send_to = peer(g, rank, out->send_to);
    out->recv_from = peer(g, rank, out->recv_from);
}

static int64_t groups_alike(void *ctx, int64_t i)
{
    const struct groups *g = ctx;

    return g->one.alike(g->one.ctx, i);
}

/* g must outlive *t. */
static void put_together(const struct cli_simulate_options *o,
                         const struct cli_simulation *out, struct groups *g,
                         struct pdl_traffic *t)
{
    *g = (struct groups){*t, out->groups, o->strided};
    t->nranks *= out->groups;
    t->ctx = g;
    t->nops = groups_nops;
    t->op = groups_op;
    t->alike = g->one.alike ? groups_alike : NULL;
    t->turns = (struct pdl_turns){.n = 0};
}

/* How often in a row. A program under SMPI calls a collective in a loop, and
 * its ranks' own time between calls, scaled to the simulated host, keeps them
 * out of step: about 0.2 us of loop and clock reading, 1 ns on a GPU 200 times
 * the speed. What it prints is its whole time over the number of calls. So the
 * SMPI model does it too where that is not too long; ranks may take dozens of
 * calls to settle. */
static void settle_calls(const struct cli_simulate_options *o,
                         struct cli_simulation *out)
{
    int64_t messages = out->trace ? INT64_MAX
                                  : pdl_coll_nsteps(&out->job, 0) *
                                        out->job.nranks * out->groups;
    bool calls = !out->trace && is_calls(o, out->net);
    bool loop = is(o->model, "smpi") && !calls && !o->repeat &&
                !(o->jitter > 0) && messages <= SMPI_MESSAGES / SMPI_CALLS;

    out->times = o->repeat ? o->repeat : loop ? SMPI_CALLS : 1;
    out->jitter_s = loop ? smpi_jitter_s : o->jitter;
    out->work_s = calls && !(o->work > 0) ? smpi_jitter_s : o->work;
    out->start_s = calls && !(o->start > 0) ? PDL_SMPI_APART_S : o->start;
    out->job.dense_s_per_byte = calls ? PDL_SMPI_DENSE_S_PER_BYTE : 0;
    out->job.pairs_s_per_byte = calls ? PDL_SMPI_PAIRS_S_PER_BYTE : 0;
}

/* What one of n in a row took. */
static void take_one_of(struct cli_simulation *out)
{
    struct pdl_sim_result *r = &out->sim;
    int64_t n = out->times;
    double *sums[] = {&r->time_s,
                      &r->energy_j,
                      &r->bounds.latency_s,
                      &r->bounds.alone_s,
                      &r->bounds.link_s,
                      &r->bounds.host_s,
                      &r->bounds.bisection_s,
                      &r->bounds.lower_s};

    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        *sums[i] /= (double)n;
    r->messages /= n;
    r->bytes_on_wire /= n;
    r->max_link_bytes /= n;
}

static enum pdl_status run_calls(pdl_arena *a,
                                 const struct cli_simulate_options *o,
                                 const struct cli_simulation *out,
                                 const struct pdl_sim_config *config,
                                 struct pdl_sim_result *r, struct pdl_err *err)
{
    struct pdl_traffic_loop loop = {.times = out->times,
                                    .jitter_s = out->jitter_s,
                                    .start_s = out->start_s,
                                    .work_s = out->work_s,
                                    .seed = (uint64_t)o->seed};
    struct pdl_traffic traffic;
    struct groups groups;

    if (out->trace) {
        loop.once = out->traced;
        loop.once.host_of_rank = out->hosts;
    } else {
        pdl_coll_traffic(&out->job, out->hosts, &loop.once);
        if (out->groups > 1)
            put_together(o, out, &groups, &loop.once);
    }
    if (o->chakra) {
        enum pdl_status st = cli_chakra_write(o->chakra, &loop.once, err);

        if (st != PDL_OK)
            return st;
    }
    traffic = loop.once;
    if (out->times > 1 || out->jitter_s > 0 || out->start_s > 0 ||
        out->work_s > 0)
        pdl_traffic_repeat(&loop, &traffic);
    return pdl_sim_run(a, out->net, &traffic, config, r, err);
}

static enum pdl_status simulate(pdl_arena *a,
                                const struct cli_simulate_options *o,
                                struct cli_simulation *out, struct pdl_err *err)
{
    struct pdl_sim_config config = config_of(o);
    enum pdl_status st;

    settle_calls(o, out);
    st = run_calls(a, o, out, &config, &out->sim, err);
    if (st == PDL_OK)
        take_one_of(out);
    /* a job with too many steps to list has a time but no rounds */
    if (st == PDL_OK && !out->trace && out->groups == 1 &&
        pdl_coll_contention(&out->job, out->net, out->hosts, a, &out->rounds,
                            &out->nrounds, NULL) != PDL_OK)
        out->nrounds = 0;
    return st;
}

static enum pdl_status answer(pdl_arena *a, const char *what,
                              const struct cli_simulate_options *o,
                              struct cli_simulation *r, struct pdl_err *err)
{
    enum pdl_status st;

    if (is_in_network(o))
        return add_in_network(a, what, o, r, err);
    st = is_trace(what) ? prepare_trace(a, what, o, r, err)
                        : prepare(a, what, o, r, err);
    return st == PDL_OK ? simulate(a, o, r, err) : st;
}

static int report(const struct cli_simulate_options *o,
                  const struct cli_simulation *r, const struct pdl_args *args)
{
    struct pdl_buf json;
    int rc;

    pdl_buf_init(&json);
    cli_simulation_json(o, r, args, &json.sink);
    rc = cli_report(&json, o->report);
    pdl_buf_free(&json);
    return rc;
}

/* Options that say nothing about what was asked. */
static bool is_asked(const struct cli_simulate_options *o, const char *what,
                     struct pdl_err *err)
{
    bool trace = is_trace(what);

    if (trace && ((o->algorithm && is_goal(what)) || o->size || o->ranks ||
                  o->density > 0 || o->groups || o->strided || o->channels))
        pdl_fail(err, PDL_EINVAL,
                 "a trace has its own ranks, sizes and algorithms");
    else if (o->comm_groups && !cli_is_chakra(what))
        pdl_fail(err, PDL_EINVAL, "--comm-groups is of a Chakra trace");
    else if (o->strided && o->groups < 2)
        pdl_fail(err, PDL_EINVAL, "--strided needs --groups");
    else if (o->channels && (o->channels > MOST_CHANNELS || o->groups ||
                             o->size % (4 * o->channels) != 0))
        pdl_fail(err, PDL_EINVAL,
                 "--channels is 1 to %d equal parts of four-byte elements, of "
                 "one group",
                 MOST_CHANNELS);
    else if (is_in_network(o) &&
             (o->repeat || o->jitter > 0 || o->start > 0 || o->work > 0 ||
              o->mapping || o->density > 0 || o->groups || o->energy ||
              o->links || o->path || o->timeline || o->report || o->chakra ||
              is(o->model, "smpi") || is(o->share, "rtt")))
        pdl_fail(err, PDL_EINVAL,
                 "in-network takes --topology, --size, --ranks and --channels "
                 "(trees)");
    else if (o->program && !is(o->model, "smpi"))
        pdl_fail(err, PDL_EINVAL, "--program needs --model smpi");
    else
        return true;
    return false;
}

static int run(const struct pdl_args *args)
{
    const struct cli_simulate_options *o = args->opts;
    struct cli_simulate_options full = *o; /* what a page needs */
    struct pdl_err err = {"", ""};
    struct cli_simulation r = {.net = NULL};
    int rc = EXIT_OK;
    pdl_arena *a;
    enum pdl_status st;

    if (!o->topology || (o->size <= 0 && !is_trace(args->pos[0]))) {
        pdl_fail(&err, PDL_EINVAL, "simulate needs --topology and --size");
        pdl_hint(&err, "for example: %s", cli_simulate.example);
        return cli_usage(&err);
    }
    if (o->repeat < 0 || o->repeat > 1000000 || o->jitter < 0 || o->start < 0 ||
        o->work < 0 || o->timeline < 0 || o->timeline > 100000) {
        pdl_fail(&err, PDL_EINVAL,
                 "--repeat is 1 to 1000000, --timeline 1 to 100000; --jitter, "
                 "--start and --work are not negative");
        return cli_usage(&err);
    }
    if (!is_asked(o, args->pos[0], &err))
        return cli_usage(&err);
    full.links = o->links || o->report;
    a = pdl_arena_create((size_t)16 << 30);
    if (!a)
        return EXIT_BUG;
    st = pdl_net_make(a, o->topology, &r.net, &err);
    if (st == PDL_OK)
        st = answer(a, args->pos[0], &full, &r, &err);
    if (st == PDL_OK && args->json)
        cli_simulation_json(o, &r, NULL, cli_out());
    else if (st == PDL_OK)
        cli_simulation_text(o, &r, a);
    if (st == PDL_OK && o->report)
        rc = report(&full, &r, args);
    pdl_arena_destroy(a);
    return st == PDL_OK ? rc : cli_fail(st, &err);
}

const struct pdl_cmd cli_simulate = {
    .name = "simulate",
    .args = "COLLECTIVE|FILE.goal|FILE.0.et",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "how long a collective takes on a network, and where it is hot",
    .text =
        "Simulates every message of a collective algorithm as a flow on "
        "the network: flows share links max-min fairly. Prints the time, "
        "lower bounds, the busiest link and, round by round, the number "
        "of flows on the most crowded one. Parameters of the algorithm that "
        "the network "
        "fixes (ranks per node, extents of a torus, switches of a DLN) "
        "are taken from it. With --repeat a rank begins the next one as soon "
        "as it is done with its own part; with --jitter ranks drift out "
        "of step as real ones do. With --model smpi the default is 12 to 100 "
        "of them and 1 ns (where that is not long), which is how programs "
        "under SMPI are timed; --repeat 1 gives one, in step. FILE.goal is a "
        "trace of all ranks (GOAL) in place of a collective; it needs no size. "
        "FILE.0.et is the first rank's of a Chakra execution trace, with those "
        "of the other ranks beside it; its collectives run by --algorithm "
        "where that is of them and fits, else by the first listed that fits.",
    .example = "paradl simulate allreduce --algorithm ring --topology "
               "torus:4x4 --size 32MiB",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct cli_simulate_options),
    .run = run,
};
