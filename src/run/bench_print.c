/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a benchmark, as a table with the columns of nccl-tests (sizes
 * in bytes, times in us, bandwidths in GB/s; busbw is what each link of a ring
 * would carry) and as JSON. */
#include "bench.h"

#include <inttypes.h>

static const struct pdl_column columns[] = {
    {"size", true},       {"count", true},    {"type", false}, {"redop", false},
    {"time", true},       {"algbw", true},    {"busbw", true}, {"#wrong", true},
    {"mpi", true},        {"ratio", true},    {"limit", true}, {"of it", true},
    {"algorithm", false}, {"through", false},
};
enum { NCOLUMNS = sizeof columns / sizeof columns[0] };

static const char *const types[] = {
#define X(name, text, bytes) text,
    PDL_COMM_TYPE_LIST(X)
#undef X
};
static const char *const ops[] = {"sum", "max", "min", "avg"};

static void print_row(const struct bench *b, const struct bench_row *r,
                      struct pdl_table *t)
{
    double rate = (double)r->bytes / r->ours_s / 1e9;

    pdl_table_cell(t, "%" PRId64, r->bytes);
    pdl_table_cell(t, "%" PRId64, r->bytes / b->size);
    pdl_table_cell(t, "%s", types[b->type]);
    pdl_table_cell(t, "%s", b->coll->reduces ? ops[b->op] : "none");
    pdl_table_cell(t, "%.2f", r->ours_s * 1e6);
    pdl_table_cell(t, "%.2f", rate);
    pdl_table_cell(t, "%.2f", rate * run_bench_bus_factor(b));
    pdl_table_cell(t, "%" PRId64, r->wrong);
    if (r->mpi_s > 0) {
        pdl_table_cell(t, "%.2f", r->mpi_s * 1e6);
        pdl_table_cell(t, "%.2f", r->mpi_s / r->ours_s);
    } else {
        pdl_table_cell(t, "-");
        pdl_table_cell(t, "-");
    }
    pdl_table_cell(t, "%.2f", r->limit_s * 1e6);
    pdl_table_cell(t, "%.0f %%", 100 * r->limit_s / r->ours_s);
    pdl_table_cell(t, "%s", r->algorithm);
    pdl_table_cell(t, "%s", r->transport);
}

static void print_text(const struct bench *b)
{
    struct pdl_sink *out = run_out();
    pdl_arena *a = pdl_arena_create(1 << 22);
    struct pdl_comm_info info;
    struct pdl_table t;
    double total = 0;

    pdl_comm_describe(b->comm, &info);
    pdl_printf(out, "# %s, %d ranks, %d node%s, transport %s%s\n",
               b->coll->name, b->ranks, info.nodes, info.nodes == 1 ? "" : "s",
               info.transport,
               info.crowded ? ", more ranks than processors" : "");
    if (*info.note)
        pdl_printf(out, "# note: %s\n", info.note);
    if (b->probe.round_trip_s > 0)
        pdl_printf(out, "# core to core and back: %.0f ns\n",
                   b->probe.round_trip_s * 1e9);
    pdl_printf(
        out, "# memory: one rank copies %.1f GB/s, all together %.1f GB/s\n",
        b->probe.copy_bytes_per_s / 1e9, b->probe.copy_all_bytes_per_s / 1e9);
    pdl_puts(out, "# times in us (median of the slowest rank), bandwidths in "
                  "GB/s;\n# limit: all ranks copy what they get\n");
    if (!a)
        return;
    pdl_table_init(&t, a, columns, NCOLUMNS);
    for (int i = 0; i < b->nsizes; i++) {
        print_row(b, &b->row[i], &t);
        total += (double)b->row[i].bytes / b->row[i].ours_s / 1e9;
    }
    pdl_table_print(&t, 0, out);
    pdl_printf(out, "# average bus bandwidth: %.4g GB/s\n",
               total / b->nsizes * run_bench_bus_factor(b));
    pdl_arena_destroy(a);
}

static void print_json(const struct bench *b)
{
    struct pdl_comm_info info;
    struct pdl_json w;

    pdl_comm_describe(b->comm, &info);
    pdl_json_init(&w, run_out());
    pdl_json_schema(&w, "bench");
    pdl_json_kstr(&w, "collective", b->coll->name);
    pdl_json_kint(&w, "ranks", b->ranks);
    pdl_json_kint(&w, "nodes", info.nodes);
    pdl_json_kstr(&w, "type", types[b->type]);
    pdl_json_kstr(&w, "op", ops[b->op]);
    pdl_json_kbool(&w, "in_place", b->o->in_place);
    pdl_json_kbool(&w, "crowded", info.crowded);
    pdl_json_kstr(&w, "note", info.note);
    pdl_json_key(&w, "results");
    pdl_json_array(&w);
    for (int i = 0; i < b->nsizes; i++) {
        const struct bench_row *r = &b->row[i];

        pdl_json_row(&w);
        pdl_json_kint(&w, "bytes", r->bytes);
        pdl_json_knum(&w, "ours_s", r->ours_s);
        pdl_json_key(&w, "mpi_s");
        if (r->mpi_s > 0)
            pdl_json_num(&w, r->mpi_s);
        else
            pdl_json_str(&w, NULL);
        pdl_json_kstr(&w, "algorithm", r->algorithm);
        pdl_json_kstr(&w, "transport", r->transport);
        pdl_json_knum(&w, "min_s", r->ours_min_s);
        pdl_json_knum(&w, "quartile_s", r->ours_quartile_s);
        pdl_json_knum(&w, "limit_s", r->limit_s);
        pdl_json_kint(&w, "signals", r->signals);
        pdl_json_kint(&w, "worked_bytes", r->worked);
        pdl_json_kint(&w, "iterations", r->iterations);
        pdl_json_kint(&w, "wrong", r->wrong);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_key(&w, "probe");
    pdl_json_row(&w);
    pdl_json_knum(&w, "round_trip_s", b->probe.round_trip_s);
    pdl_json_knum(&w, "copy_bytes_per_s", b->probe.copy_bytes_per_s);
    pdl_json_knum(&w, "copy_all_bytes_per_s", b->probe.copy_all_bytes_per_s);
    pdl_json_end(&w);
    pdl_json_end(&w);
}

void run_bench_print(const struct bench *b, bool json)
{
    if (json)
        print_json(b);
    else
        print_text(b);
}
