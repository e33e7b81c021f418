/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl collective nccl: which algorithm and protocol NCCL takes on a system,
 * and why. */
#include "cli/cli_priv.h"

#include "paradl/system.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *system, *size;
    int64_t ranks, per_node;
};

// clang-format off
#define AT(field) offsetof(struct options, field)
static const struct pdl_opt opts[] = {
    {"system", 0, PDL_OPT_TEXT, AT(system), "SYSTEM", NULL,
     "the machine, of NVIDIA's GPUs"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "number of ranks (all PEs of the system)"},
    {"per-node", 0, PDL_OPT_COUNT, AT(per_node), "N", NULL,
     "ranks on each node (as many as it has PEs)"},
    {"size", 's', PDL_OPT_TEXT, AT(size), "BYTES|A..B", NULL,
     "bytes of each rank's whole buffer; A..B: what is taken from size to size "
     "(1KiB..1GiB)"},
};
#undef AT
// clang-format on

static const int64_t most_bytes = (int64_t)1 << 50;

struct question {
    const struct options *o;
    const char *collective;
    struct pdl_system sys;
    int64_t ranks, first, last;
};

static enum pdl_status read_size(struct question *q, struct pdl_err *err)
{
    const char *text = q->o->size ? q->o->size : "1KiB..1GiB";
    const char *dots = strstr(text, "..");
    char low[32];
    enum pdl_status st;

    snprintf(low, sizeof low, "%.*s", dots ? (int)(dots - text) : 31, text);
    st = pdl_bytes_parse(low, &q->first, err);
    q->last = q->first;
    if (st == PDL_OK && dots)
        st = pdl_bytes_parse(dots + 2, &q->last, err);
    if (st == PDL_OK &&
        (q->first < 1 || q->last < q->first || q->last > most_bytes))
        st = pdl_fail(err, PDL_EINVAL,
                      "--size '%.40s' is no size or range up to 1 PiB", text);
    return st;
}

static enum pdl_status ways(const struct question *q, int64_t bytes,
                            struct pdl_nccl_way *out, int *n,
                            struct pdl_err *err)
{
    return pdl_nccl_ways(&q->sys, q->collective, q->ranks, q->o->per_node,
                         bytes, out, n, err);
}

static const char *value(double v, enum pdl_unit unit, char *buf, size_t size)
{
    return pdl_unit_format(v, unit, buf, size);
}

/* One size: all ways, the quickest first. */
static enum pdl_status say_ways(const struct question *q, pdl_arena *a,
                                struct pdl_err *err)
{
    static const struct pdl_column columns[] = {
        {"algorithm", false}, {"protocol", false}, {"time", true},
        {"latency", true},    {"rate", true},      {"channels", true},
    };
    struct pdl_nccl_way list[PDL_NCCL_WAYS];
    struct pdl_table t;
    char text[3][32];
    int n = 0;
    enum pdl_status st = ways(q, q->first, list, &n, err);

    if (st != PDL_OK)
        return st;
    pdl_table_init(&t, a, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < n; i++) {
        const struct pdl_nccl_way *w = &list[i];

        pdl_table_cell(&t, "%s", w->algorithm);
        pdl_table_cell(&t, "%s", w->protocol);
        pdl_table_cell(
            &t, "%s",
            value(w->seconds, PDL_UNIT_SECONDS, text[0], sizeof text[0]));
        pdl_table_cell(
            &t, "%s",
            value(w->latency_s, PDL_UNIT_SECONDS, text[1], sizeof text[1]));
        pdl_table_cell(
            &t, "%s",
            value(w->bytes_per_s, PDL_UNIT_BYTES_S, text[2], sizeof text[2]));
        pdl_table_cell(&t, "%d", w->channels);
    }
    pdl_table_print(&t, cli_width(), cli_out());
    return PDL_OK;
}

/* Sizes that double: what is taken, and by how much the next way is slower. */
static enum pdl_status say_sizes(const struct question *q, pdl_arena *a,
                                 struct pdl_err *err)
{
    static const struct pdl_column columns[] = {
        {"size", true}, {"algorithm", false}, {"protocol", false},
        {"time", true}, {"of buffer", true},  {"next", false},
        {"", true},
    };
    struct pdl_nccl_way list[PDL_NCCL_WAYS];
    struct pdl_table t;
    char text[3][32];
    int n = 0;

    pdl_table_init(&t, a, columns, sizeof columns / sizeof columns[0]);
    for (int64_t s = q->first; s <= q->last; s *= 2) {
        enum pdl_status st = ways(q, s, list, &n, err);

        if (st != PDL_OK)
            return st;
        pdl_table_cell(
            &t, "%s",
            value((double)s, PDL_UNIT_BYTES, text[0], sizeof text[0]));
        pdl_table_cell(&t, "%s", list[0].algorithm);
        pdl_table_cell(&t, "%s", list[0].protocol);
        pdl_table_cell(
            &t, "%s",
            value(list[0].seconds, PDL_UNIT_SECONDS, text[1], sizeof text[1]));
        pdl_table_cell(&t, "%s",
                       value((double)s / list[0].seconds, PDL_UNIT_BYTES_S,
                             text[2], sizeof text[2]));
        if (n < 2) {
            pdl_table_cell(&t, "-");
            pdl_table_cell(&t, "-");
            continue;
        }
        pdl_table_cell(&t, "%s %s", list[1].algorithm, list[1].protocol);
        pdl_table_cell(&t, "+%.0f %%",
                       100 * (list[1].seconds / list[0].seconds - 1));
    }
    pdl_table_print(&t, cli_width(), cli_out());
    return PDL_OK;
}

static enum pdl_status print_json(const struct question *q, struct pdl_err *err)
{
    struct pdl_nccl_way list[PDL_NCCL_WAYS];
    enum pdl_status st = PDL_OK;
    struct pdl_json w;
    int n = 0;

    st = ways(q, q->first, list, &n, err);
    if (st != PDL_OK)
        return st;
    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "collective-nccl");
    pdl_json_kstr(&w, "collective", q->collective);
    pdl_json_kstr(&w, "system", q->sys.name);
    pdl_json_kint(&w, "ranks", q->ranks);
    pdl_json_key(&w, "sizes");
    pdl_json_array(&w);
    for (int64_t s = q->first; s <= q->last && st == PDL_OK; s *= 2) {
        st = ways(q, s, list, &n, err);
        pdl_json_object(&w);
        pdl_json_kint(&w, "bytes", s);
        pdl_json_key(&w, "ways");
        pdl_json_array(&w);
        for (int i = 0; i < n; i++) {
            pdl_json_row(&w);
            pdl_json_kstr(&w, "algorithm", list[i].algorithm);
            pdl_json_kstr(&w, "protocol", list[i].protocol);
            pdl_json_knum(&w, "time_s", list[i].seconds);
            pdl_json_knum(&w, "latency_s", list[i].latency_s);
            pdl_json_knum(&w, "bytes_per_s", list[i].bytes_per_s);
            pdl_json_kint(&w, "channels", list[i].channels);
            pdl_json_end(&w);
        }
        pdl_json_end(&w);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_end(&w);
    return st;
}

static int run(const struct pdl_args *args)
{
    struct question q = {.o = args->opts, .collective = args->pos[0]};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    if (!a)
        return EXIT_BUG;
    if (!q.o->system) {
        pdl_arena_destroy(a);
        pdl_fail(&err, PDL_EINVAL, "collective nccl needs --system");
        return cli_usage(&err);
    }
    st = pdl_system_open(a, q.o->system, &q.sys, &err);
    if (st == PDL_OK)
        st = read_size(&q, &err);
    q.ranks = q.o->ranks ? q.o->ranks : q.sys.nodes * q.sys.node.pes;
    if (st == PDL_OK && args->json)
        st = print_json(&q, &err);
    else if (st == PDL_OK && q.first < q.last)
        st = say_sizes(&q, a, &err);
    else if (st == PDL_OK)
        st = say_ways(&q, a, &err);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_collective_nccl = {
    .name = "collective nccl",
    .args = "COLLECTIVE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "which algorithm and protocol NCCL takes, and why",
    .text =
        "Prices every algorithm (ring, tree, NVLS, NVLS tree, PAT) and "
        "protocol "
        "(LL, LL128, Simple) of NCCL by the model of its own tuner, with the "
        "tuner's constants and channels as a simple search finds them: the "
        "quickest is what NCCL takes. Times are what the tuner expects, not "
        "simulated; `paradl simulate` says what links allow.",
    .example = "paradl collective nccl allreduce --system dgx-h100 --ranks 16",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = run,
};
