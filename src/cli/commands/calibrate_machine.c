/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl calibrate without --fit: this machine as a system. A PE is a rank's
 * share of the node: its threads, its part of the memory and of what the
 * memory delivers when all are busy. What the ranks reach each other with is
 * measured as messages by transport and as allreduce by size and number of
 * ranks; the ring that the oracle prices gets the alpha and the rate that make
 * it take as long as the allreduce of the whole node.
 *
 * Nothing is nominal here: where the file has a place for a data-sheet value
 * it is the highest that was measured, and `unverified` says so. */
#include "cli/commands/cli_calibrate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FACTS = 32, MAX_FITS = 80, MAX_TEXTS = 8 };

struct draft {
    pdl_arena *a;
    const struct cli_calibrate_options *o;
    struct cli_measurement m;
    struct pdl_system sys;
    struct cli_kernels kernels;
    struct cli_trust trust;
    struct pdl_fact fact[MAX_FACTS];
    struct pdl_collective_fit fit[MAX_FITS];
    const char *sources[MAX_TEXTS], *unverified[MAX_TEXTS];
    struct pdl_err *err;
    enum pdl_status st; /* the first failure latches */
};

/* ---- reading what was measured ---------------------------------------- */

static double number(struct draft *d, const struct pdl_doc *map,
                     const char *key)
{
    const struct pdl_doc *x = pdl_doc_get(map, key);
    double v = 0;

    if (d->st == PDL_OK && !x)
        d->st = pdl_doc_fail(map, d->err, "no \"%s\"", key);
    if (d->st == PDL_OK)
        d->st = pdl_doc_num(x, PDL_UNIT_NONE, 0, 1e30, &v, d->err);
    return v;
}

static const char *text(struct draft *d, const struct pdl_doc *map,
                        const char *key)
{
    const struct pdl_doc *x = pdl_doc_get(map, key);
    const char *s = "";

    if (d->st == PDL_OK && x)
        d->st = pdl_doc_str(x, &s, d->err);
    return s;
}

static const struct pdl_doc *first(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *list = pdl_doc_get(map, key);

    return list && list->kind == PDL_DOC_LIST ? list->child : NULL;
}

static void *take(struct draft *d, size_t n, size_t size)
{
    void *p = d->st == PDL_OK ? pdl_arena_alloc(d->a, n, size) : NULL;

    if (!p && d->st == PDL_OK)
        d->st = pdl_fail(d->err, PDL_ENOMEM, "out of memory");
    return p;
}

/* ---- facts ------------------------------------------------------------ */

static void read_facts(struct draft *d)
{
    int64_t n = 0;

    for (const struct pdl_doc *x = first(d->m.machine, "facts");
         x && n < MAX_FACTS && d->st == PDL_OK; x = x->next)
        d->fact[n++] = (struct pdl_fact){.name = text(d, x, "name"),
                                         .value = number(d, x, "value"),
                                         .unit = text(d, x, "unit")};
    d->sys.measured = d->fact;
    d->sys.nmeasured = n;
}

static double fact(const struct draft *d, const char *name)
{
    for (int64_t i = 0; i < d->sys.nmeasured; i++)
        if (strcmp(d->fact[i].name, name) == 0)
            return d->fact[i].value;
    return 0;
}

/* ---- operators -------------------------------------------------------- */

static void read_dims(struct draft *d, const struct pdl_doc *x,
                      struct pdl_profile_row *row)
{
    const struct pdl_doc *list = pdl_doc_get(x, "dims");
    int64_t *dims = take(d, PDL_PROFILE_DIMS, sizeof *dims), n = 0;

    for (const struct pdl_doc *k = list ? list->child : NULL;
         k && d->st == PDL_OK && n < PDL_PROFILE_DIMS; k = k->next)
        d->st = pdl_doc_int(k, 0, INT64_MAX / 2, &dims[n++], d->err);
    row->dims = dims;
    row->ndims = n;
}

static double flops(const struct pdl_profile_row *r)
{
    return strcmp(r->op, "matmul") == 0 && r->ndims == 3
               ? 2.0 * (double)r->dims[0] * (double)r->dims[1] *
                     (double)r->dims[2]
               : 0;
}

static void keep_rate(struct pdl_pe *pe, const struct pdl_profile_row *r)
{
    enum pdl_precision p = pdl_precision_find(r->precision);
    double rate = flops(r) / r->seconds;

    if (p != PDL_NPRECISIONS && rate > pe->matmul_flop_per_s[p])
        pe->matmul_flop_per_s[p] = rate;
}

static void read_operators(struct draft *d)
{
    const struct pdl_doc *list = pdl_doc_get(d->m.machine, "operators");
    size_t room = list ? (size_t)list->count + 1 : 1;
    struct pdl_profile_row *row = take(d, room, sizeof *row);
    struct pdl_pe *pe = &d->sys.pe;
    int64_t n = 0;

    for (const struct pdl_doc *x = list ? list->child : NULL;
         x && d->st == PDL_OK; x = x->next) {
        struct pdl_profile_row *r = &row[n];

        *r = (struct pdl_profile_row){.op = text(d, x, "op"),
                                      .pass = text(d, x, "pass"),
                                      .precision = text(d, x, "precision"),
                                      .seconds = number(d, x, "seconds")};
        read_dims(d, x, r);
        if (d->st != PDL_OK || !(r->seconds > 0))
            continue;
        keep_rate(pe, r);
        if (strcmp(r->op, "call") == 0)
            pe->launch_s = pe->host_call_s = r->seconds;
        else
            n++;
    }
    pe->profile = row;
    pe->nprofile = n;
}

/* ---- messages and collectives ----------------------------------------- */

struct points {
    double bytes[64], seconds[64];
    double signals[64], worked[64]; /* 0: not counted */
    int n;
};

static void add_fit(struct draft *d, struct pdl_collective_fit f,
                    const struct points *p)
{
    struct pdl_ints *times = take(d, (size_t)p->n + 1, sizeof *times);
    int64_t *v = take(d, (size_t)p->n * 4 + 1, sizeof *v);
    struct pdl_fit line = {0};

    if (d->st == PDL_OK && p->n > 1)
        d->st = pdl_fit_line(p->bytes, p->seconds, p->n, &line, d->err);
    if (d->st != PDL_OK || d->sys.ncollectives == MAX_FITS || p->n < 2)
        return;
    for (int64_t i = 0; i < p->n; i++) {
        double ns = p->seconds[i] * 1e9;

        v[4 * i] = (int64_t)p->bytes[i];
        v[4 * i + 1] = ns < 1 ? 1 : (int64_t)(ns + .5);
        v[4 * i + 2] = (int64_t)p->signals[i];
        v[4 * i + 3] = (int64_t)p->worked[i];
        times[i] = (struct pdl_ints){v + 4 * i, p->signals[i] > 0 ? 4 : 2};
    }
    f.alpha_s = line.alpha_s;
    f.bytes_per_s = line.bytes_per_s;
    f.max_error = line.max_error;
    f.min_bytes = p->bytes[0];
    f.max_bytes = p->bytes[p->n - 1];
    f.times = times;
    f.ntimes = p->n;
    d->fit[d->sys.ncollectives++] = f;
    d->sys.collectives = d->fit;
}

/* Latency and rate of one message: of the best way there is. */
static void read_messages(struct draft *d)
{
    for (const struct pdl_doc *x = first(d->m.machine, "messages");
         x && d->st == PDL_OK; x = x->next) {
        const char *transport = text(d, x, "transport");
        bool far = strcmp(text(d, x, "between_nodes"), "true") == 0;
        struct points p = {.n = 0};

        for (const struct pdl_doc *t = first(x, "times");
             t && t->count == 2 && d->st == PDL_OK && p.n < 64; t = t->next) {
            d->st = pdl_doc_num(t->child, PDL_UNIT_NONE, 0, 1e15, &p.bytes[p.n],
                                d->err);
            if (d->st == PDL_OK)
                d->st = pdl_doc_num(t->child->next, PDL_UNIT_NONE, 0, 1e6,
                                    &p.seconds[p.n++], d->err);
        }
        add_fit(d,
                (struct pdl_collective_fit){
                    .op = "p2p",
                    .library = pdl_arena_printf(d->a, "paradl %s%s", transport,
                                                far ? " between nodes" : ""),
                    .source = "paradl calibrate",
                    .pes = 2,
                    .nodes = far ? 2 : 1},
                &p);
    }
}

/* The times of one round: of each size those a quarter of its calls stays
 * below, as of steps that are trained, and of the rounds the least. Calls take
 * what the clock says, and other work only makes them longer. */
static void read_round(struct draft *d, const struct pdl_doc *doc, int round,
                       struct points *p)
{
    int n = 0;

    for (const struct pdl_doc *x = first(doc, "results");
         x && d->st == PDL_OK && n < 64; x = x->next, n++) {
        double seconds = number(d, x, "quartile_s");

        p->bytes[n] = number(d, x, "bytes");
        if (round == 0 || seconds < p->seconds[n])
            p->seconds[n] = seconds;
        p->signals[n] = number(d, x, "signals");
        p->worked[n] = number(d, x, "worked_bytes");
    }
    p->n = n;
}

/* As nccl-tests has it: of the bytes, how many each link of a ring carries. */
static double bus_factor(const char *op, double ranks)
{
    if (strcmp(op, "broadcast") == 0)
        return 1;
    return (strcmp(op, "allreduce") == 0 ? 2 : 1) * (ranks - 1) / ranks;
}

static void read_collective(struct draft *d, const struct cli_bench_runs *b)
{
    struct points p = {.n = 0};
    struct pdl_collective_fit f = {.op = b->collective,
                                   .library = "paradl",
                                   .source = "paradl calibrate",
                                   .pes = b->ranks};

    for (int r = 0; r < b->rounds; r++)
        read_round(d, b->round[r], r, &p);
    for (int k = 0; k < p.n; k++) {
        double bus = p.bytes[k] / p.seconds[k] *
                     bus_factor(b->collective, (double)b->ranks);

        f.bus_bytes_per_s = bus > f.bus_bytes_per_s ? bus : f.bus_bytes_per_s;
    }
    f.nodes = (int64_t)number(d, b->round[0], "nodes");
    add_fit(d, f, &p);
}

static const struct pdl_collective_fit *
find(const struct draft *d, const char *op, int64_t pes, int64_t nodes)
{
    for (int64_t i = 0; i < d->sys.ncollectives; i++)
        if (strcmp(d->fit[i].op, op) == 0 && d->fit[i].pes == pes &&
            d->fit[i].nodes == nodes)
            return &d->fit[i];
    return NULL;
}

/* ---- the parts of a system -------------------------------------------- */

/* A line of /proc/cpuinfo: "model name : ...". */
static const char *cpu_title(pdl_arena *a)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    const char *found = NULL;

    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = pdl_arena_strdup(a, colon + 1 + strspn(colon + 1, " "));
    }
    if (f)
        fclose(f);
    return found ? found : "unknown processor";
}

static void fill_pe(struct draft *d, int64_t pes, int64_t memory)
{
    struct pdl_pe *pe = &d->sys.pe;
    double alone = fact(d, "triad_1"), all = fact(d, "triad_all");
    double part = alone > 0 ? all / (double)pes / alone : 1;
    struct pdl_cache cache = pdl_last_cache(PDL_CACHES);

    pe->name = "cpu";
    pe->title =
        pdl_arena_printf(d->a, "%s, %" PRId64 " thread%s a PE", cpu_title(d->a),
                         d->o->threads, d->o->threads == 1 ? "" : "s");
    pe->arch = "cpu";
    pe->units = d->o->threads;
    pe->memory_bytes = memory / pes;
    pe->memory_usable = .9;
    pe->memory_bytes_per_s = alone;
    pe->memory_efficiency = part < .999 ? part : .999; /* 1: not known */
    pe->l2_bytes = cache.bytes * pdl_cores() / cache.cpus / pes;
    pe->peak_flop_per_s[PDL_PREC_FP32] = fact(d, "peak_fp32");
}

/* No peak is below what was reached. */
static void raise_peaks(struct pdl_pe *pe)
{
    for (int p = 0; p < PDL_NPRECISIONS; p++)
        if (pe->matmul_flop_per_s[p] > pe->peak_flop_per_s[p])
            pe->peak_flop_per_s[p] = pe->matmul_flop_per_s[p];
}

/* The ring that takes as long as the allreduce of the node. */
static void fill_links(struct draft *d, int64_t pes)
{
    struct pdl_node_links *l = &d->sys.node.links;
    const struct pdl_collective_fit *one = find(d, "p2p", 2, 1);
    const struct pdl_collective_fit *all = find(d, "allreduce", pes, 1);
    double steps = 2 * ((double)pes - 1);

    if (pes < 2 || !one || !all)
        return;
    l->type = "shared memory";
    l->shape = PDL_LINKS_SWITCH;
    l->latency_s = one->alpha_s;
    l->measured_latency_s = all->alpha_s / steps;
    l->measured_bytes_per_s = all->bytes_per_s * steps / (double)pes;
    l->bytes_per_s = one->bytes_per_s > l->measured_bytes_per_s
                         ? one->bytes_per_s
                         : l->measured_bytes_per_s;
}

static void fill_network(struct draft *d, int64_t nodes)
{
    const struct pdl_collective_fit *far = find(d, "p2p", 2, 2);
    struct pdl_nics *n = &d->sys.node.nics;

    d->sys.network.library = "paradl";
    if (nodes < 2 || !far)
        return;
    *n = (struct pdl_nics){.type = "as measured",
                           .count = 1,
                           .bytes_per_s = far->bytes_per_s,
                           .latency_s = far->alpha_s / 2};
}

static void fill_host(struct draft *d, int64_t memory)
{
    struct pdl_host *h = &d->sys.node.host;

    h->title = cpu_title(d->a);
    h->cores = sysconf(_SC_NPROCESSORS_ONLN);
    h->memory_bytes = memory;
    h->memory_bytes_per_s = fact(d, "triad_all");
}

/* What it costs to wait where ranks share processors, by collective. */
static void note_signals(struct draft *d)
{
    const char *last = "";

    for (int i = 0; i < d->m.nbench && d->sys.nmeasured < MAX_FACTS; i++) {
        const char *op = d->m.bench[i].collective;
        double s = pdl_collective_signal_s(&d->sys, op);

        if (strcmp(op, last) == 0 || !(s > 0))
            continue;
        last = op;
        d->fact[d->sys.nmeasured++] = (struct pdl_fact){
            .name = pdl_arena_printf(d->a, "crowded_signal_%s", op),
            .value = s,
            .unit = "s",
            .note = "a rank waits for one signal of another, more ranks than "
                    "processors"};
    }
}

static void fill_texts(struct draft *d)
{
    const char *library = text(d, d->m.machine, "library");
    struct utsname u;
    char day[32];
    time_t now = time(NULL);
    struct tm tm;

    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &tm));
    if (uname(&u) != 0)
        snprintf(u.nodename, sizeof u.nodename, "this machine");
    d->sys.name = d->o->name ? d->o->name : "this-machine";
    d->sys.title =
        pdl_arena_printf(d->a, "%.60s, %s", u.nodename,
                         d->o->device ? d->sys.pe.title : cpu_title(d->a));
    d->sources[0] = pdl_arena_printf(
        d->a, "measured on %.60s on %s by paradl %s; operators by %s",
        u.nodename, day, pdl_version(), *library ? library : "nothing");
    d->unverified[0] = "pe.peak, memory_bandwidth, node.links.bandwidth: the "
                       "highest measured, no data sheet";
    d->unverified[1] = "node.links.measured_latency and measured_bandwidth: "
                       "of the ring that would take as long as the allreduce "
                       "measured, whatever its algorithm";
    d->sys.sources = d->sources;
    d->sys.nsources = 1;
    d->sys.unverified = d->unverified;
    d->sys.nunverified = 2;
}

static void build(struct draft *d)
{
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t ranks = d->o->ranks, nodes;

    pdl_system_blank(&d->sys);
    nodes = (int64_t)number(d, d->m.machine, "nodes");
    if (d->st == PDL_OK && (nodes < 1 || ranks % nodes != 0))
        d->st = pdl_fail(d->err, PDL_EINVAL,
                         "%" PRId64 " ranks on %" PRId64
                         " nodes: not as many on each",
                         ranks, nodes);
    read_facts(d);
    read_operators(d);
    read_messages(d);
    for (int i = 0; i < d->m.nbench; i++)
        read_collective(d, &d->m.bench[i]);
    if (d->st != PDL_OK)
        return;
    d->sys.nodes = d->sys.built_nodes = nodes;
    d->sys.node.pes = ranks / nodes;
    if (d->o->device)
        cli_fill_device(d->a, d->m.machine, &d->sys);
    else
        fill_pe(d, d->sys.node.pes, memory);
    raise_peaks(&d->sys.pe);
    fill_links(d, d->sys.node.pes);
    fill_network(d, nodes);
    fill_host(d, memory);
    note_signals(d);
    fill_texts(d);
    cli_fit_kernels(&d->sys, &d->kernels);
    cli_calibrate_trust(d->a, d->m.machine, &d->sys, &d->trust);
    d->st = pdl_system_update(d->a, &d->sys, d->err);
}

/* ---- output ----------------------------------------------------------- */

static void print_host(const struct draft *d, struct pdl_sink *out)
{
    const struct pdl_pe *pe = &d->sys.pe;

    pdl_printf(out,
               "  PE               %" PRId64 " thread%s, %.4g GFLOP/s, "
               "matrix products %.4g\n",
               pe->units, pe->units == 1 ? "" : "s",
               pe->peak_flop_per_s[PDL_PREC_FP32] / 1e9,
               pe->matmul_flop_per_s[PDL_PREC_FP32] / 1e9);
    pdl_printf(out, "  memory           %.4g GB/s one PE, %.4g GB/s all\n",
               fact(d, "triad_1") / 1e9, fact(d, "triad_all") / 1e9);
}

static void print_text(const struct draft *d, const char *path)
{
    const struct pdl_system *s = &d->sys;
    struct pdl_sink *out = cli_out();

    pdl_printf(out, "%s: %s\n", path, s->title);
    if (d->o->device)
        cli_print_device(d->m.machine, s, out);
    else
        print_host(d, out);
    if (s->node.links.bytes_per_s > 0)
        pdl_printf(out, "  messages         %.3g us + bytes / %.4g GB/s\n",
                   s->node.links.latency_s * 1e6,
                   s->node.links.bytes_per_s / 1e9);
    for (int64_t i = 0; i < s->ncollectives; i++)
        if (strcmp(d->fit[i].op, "p2p") != 0)
            pdl_printf(out,
                       "  %-14s on %-3" PRId64 " %.3g us + bytes / %.4g "
                       "GB/s (off by up to %.0f %%)\n",
                       d->fit[i].op, d->fit[i].pes, d->fit[i].alpha_s * 1e6,
                       d->fit[i].bytes_per_s / 1e9, 100 * d->fit[i].max_error);
    if (d->kernels.rows > 0)
        pdl_printf(
            out,
            "  operators        %d measured; error of the logarithm %.3f "
            "-> %.3f\n",
            d->kernels.rows, d->kernels.before, d->kernels.after);
    if (d->trust.probes > 0)
        pdl_printf(out,
                   "  projections      80 %% of %d probe networks within "
                   "%.0f %%, each by the others; steps repeat to %.1f %%\n",
                   d->trust.probes, 100 * (exp(d->trust.error) - 1),
                   100 * d->trust.spread);
}

/* Measured while others work, a system is slower than the machine is. */
static void warn(const struct draft *d, bool quiet)
{
    static const double MUCH = .1;

    if (quiet || (d->trust.others < MUCH && d->trust.spread < MUCH))
        return;
    fprintf(stderr,
            "paradl: the machine was not quiet: other work took %.0f %% of the "
            "processors, steps repeat to %.0f %% only\n"
            "  hint: calibrate again when nothing else runs\n",
            100 * d->trust.others, 100 * d->trust.spread);
}

static void print_json(const struct draft *d, double seconds)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "calibrate-machine");
    pdl_json_kint(&w, "rows", d->kernels.rows);
    pdl_json_knum(&w, "error_before", d->kernels.before);
    pdl_json_knum(&w, "error_after", d->kernels.after);
    pdl_json_knum(&w, "seconds", seconds);
    pdl_json_kint(&w, "probes", d->trust.probes);
    pdl_json_knum(&w, "projection_error", d->trust.error);
    pdl_json_knum(&w, "other_load", d->trust.others);
    pdl_json_knum(&w, "spread", d->trust.spread);
    pdl_json_key(&w, "system");
    pdl_json_object(&w);
    pdl_system_json(&d->sys, &w);
    pdl_json_end(&w);
    pdl_json_end(&w);
}

static int deliver(const struct draft *d, const struct pdl_args *args,
                   double seconds)
{
    struct pdl_buf text;
    int rc;

    warn(d, args->quiet);
    if (args->json)
        print_json(d, seconds);
    if (args->json && !d->o->output)
        return EXIT_OK;
    pdl_buf_init(&text);
    pdl_system_write(&d->sys, &text.sink);
    rc = cli_write(d->o->output, &text);
    pdl_buf_free(&text);
    if (rc == EXIT_OK && !args->json && d->o->output)
        print_text(d, d->o->output);
    return rc;
}

static enum pdl_status settle(struct cli_calibrate_options *o,
                              struct pdl_err *err)
{
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (o->ranks < 0 || o->ranks > 4096 || o->threads < 0 ||
        o->threads > 4096 || o->most < 0 || o->most > 4096)
        return pdl_fail(err, PDL_EINVAL,
                        "-n, --threads, --max-ranks: from 1 "
                        "to 4096");
    if (o->rounds < 0 || o->rounds > CLI_MEASURE_ROUNDS)
        return pdl_fail(err, PDL_EINVAL, "--rounds: from 1 to %d",
                        (int)CLI_MEASURE_ROUNDS);
    o->rounds = o->rounds ? o->rounds : 3;
    o->ranks = o->device ? 1 : o->ranks ? o->ranks : cores;
    if (!o->threads)
        o->threads = cores > o->ranks ? cores / o->ranks : 1;
    if (!(o->seconds > 0))
        o->seconds = .1;
    if (!o->most) /* to twice as many as there are processors, at least 8 */
        o->most = cores < 4 ? 8 : 2 * cores;
    if (o->most < o->ranks)
        o->most = o->ranks;
    return PDL_OK;
}

int cli_calibrate_machine(const struct pdl_args *args)
{
    struct cli_calibrate_options o =
        *(const struct cli_calibrate_options *)args->opts;
    struct pdl_err err = {"", ""};
    double start = pdl_clock_s();
    struct draft *d = calloc(1, sizeof *d);
    int rc;

    if (!d)
        return EXIT_BUG;
    if (cli_check_output(o.output, NULL, &err) != PDL_OK) {
        free(d);
        return cli_fail(PDL_EIO, &err);
    }
    if (pdl_opt_given(&cli_calibrate, args, "seconds") && !(o.seconds > 0))
        pdl_fail(&err, PDL_EINVAL, "--seconds: a time above 0");
    if (*err.msg || settle(&o, &err) != PDL_OK) {
        free(d);
        return cli_usage(&err);
    }
    d->o = &o;
    d->err = &err;
    d->a = d->m.a = pdl_arena_create(PDL_ARENA_DEFAULT);
    d->st = d->a ? cli_measure(&o, args->quiet, &d->m, &err)
                 : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (d->st == PDL_OK)
        build(d);
    rc = d->st == PDL_OK ? deliver(d, args, pdl_clock_s() - start)
                         : cli_fail(d->st, &err);
    pdl_arena_destroy(d->a);
    free(d);
    return rc;
}
