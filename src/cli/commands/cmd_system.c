/* SPDX-License-Identifier: Apache-2.0
 *
 * system list, system import. */
#include "cli/cli_priv.h"
#include "paradl/system.h"

#include <stdio.h>
#include <string.h>

/* ---- list ------------------------------------------------------------- */

static int list_json(pdl_arena *a, struct pdl_sink *out)
{
    const struct pdl_builtin *b;
    struct pdl_json j;

    pdl_json_init(&j, out);
    pdl_json_schema(&j, "system-list");
    pdl_json_key(&j, "systems");
    pdl_json_array(&j);
    for (int i = 0; (b = pdl_system_builtin(i)); i++) {
        struct pdl_err err = {"", ""};
        struct pdl_system sys;

        if (pdl_system_open(a, b->name, &sys, &err) != PDL_OK)
            return cli_fail(PDL_EWRONG, &err);
        pdl_json_row(&j);
        pdl_json_kstr(&j, "name", sys.name);
        pdl_json_kstr(&j, "title", sys.title);
        pdl_json_kint(&j, "nodes", sys.nodes);
        pdl_json_kint(&j, "pes_per_node", sys.node.pes);
        pdl_json_kstr(&j, "pe", sys.pe.name);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_key(&j, "pes");
    pdl_json_array(&j);
    for (int i = 0; (b = pdl_pe_builtin(i)); i++)
        pdl_json_str(&j, b->name);
    pdl_json_end(&j);
    pdl_json_end(&j);
    return EXIT_OK;
}

/* What it does at most, in the precision of most training. */
static double peak_of(const struct pdl_pe *pe)
{
    double bf16 = pe->peak_flop_per_s[PDL_PREC_BF16];

    return bf16 > 0 ? bf16 : pe->peak_flop_per_s[PDL_PREC_FP16];
}

static void list_pes(pdl_arena *a, struct pdl_sink *out)
{
    static const struct pdl_column columns[] = {{"PE", false},
                                                {"BF16 OR FP16", true},
                                                {"MEMORY", true},
                                                {"WHAT IT IS", false}};
    const struct pdl_builtin *b;
    struct pdl_table t;

    pdl_table_init(&t, a, columns, 4);
    for (int i = 0; (b = pdl_pe_builtin(i)); i++) {
        struct pdl_pe pe;
        char flops[32], mem[32];

        if (pdl_pe_open(a, b->name, &pe, NULL) != PDL_OK)
            continue;
        pdl_table_cell(&t, "%s", pe.name);
        pdl_table_cell(&t, "%s",
                       pdl_unit_format(peak_of(&pe), PDL_UNIT_FLOP_S, flops,
                                       sizeof flops));
        pdl_table_cell(&t, "%s",
                       pdl_unit_format((double)pe.memory_bytes, PDL_UNIT_BYTES,
                                       mem, sizeof mem));
        pdl_table_cell(&t, "%s", pe.title);
    }
    pdl_table_print(&t, cli_width(), out);
}

static int list_text(pdl_arena *a, struct pdl_sink *out)
{
    static const struct pdl_column columns[] = {
        {"SYSTEM", false}, {"NODES", true},    {"PES", true},
        {"PE", false},     {"NETWORK", false}, {"WHAT IT IS", false}};
    const struct pdl_builtin *b;
    struct pdl_err err = {"", ""};
    struct pdl_table t;

    pdl_table_init(&t, a, columns, 6);
    for (int i = 0; (b = pdl_system_builtin(i)); i++) {
        struct pdl_system s;

        if (pdl_system_open(a, b->name, &s, &err) != PDL_OK)
            return cli_fail(PDL_EWRONG, &err);
        pdl_table_cell(&t, "%s", s.name);
        if (s.built_nodes)
            pdl_table_cell(&t, "%lld", (long long)s.nodes);
        else
            pdl_table_cell(&t, "any");
        pdl_table_cell(&t, "%lld", (long long)s.node.pes);
        pdl_table_cell(&t, "%s", s.pe.name);
        pdl_table_cell(&t, "%s", s.network.topology ? s.network.topology : "-");
        pdl_table_cell(&t, "%s", s.title);
    }
    pdl_table_print(&t, cli_width(), out);
    pdl_puts(out,
             "PES: processing elements of a node, one accelerator each\n\n");
    list_pes(a, out);
    pdl_puts(out, "\nParameters: dgx-a100:nodes=48,nic=4x12.5GB/s,"
                  "pe=a100-40g\nWhat one is made of: paradl system show "
                  "NAME\n");
    return EXIT_OK;
}

static int system_list(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int rc;

    if (!a)
        return EXIT_BUG;
    rc = args->json ? list_json(a, cli_out()) : list_text(a, cli_out());
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_system_list = {
    .name = "system list",
    .args = "",
    .summary = "the built-in systems and processing elements",
    .text = "Lists the systems that can be named where a command takes "
            "SYSTEM, and the processing elements for pe=. A built-in is a "
            "design: more nodes than it has continue it.",
    .example = "paradl system list",
    .run = system_list,
};

/* ---- import ----------------------------------------------------------- */

struct import_options {
    int64_t np, nodes;
    const char *base, *out, *op, *tasks, *name;
};

#define AT(field) offsetof(struct import_options, field)
static const struct pdl_opt import_opts[] = {
    {"np", 0, PDL_OPT_COUNT, AT(np), "N", NULL,
     "number of ranks, where the file does not say it (OSU)"},
    {"nodes", 0, PDL_OPT_COUNT, AT(nodes), "N", NULL,
     "number of nodes they ran on, where the file does not say it"},
    {"op", 0, PDL_OPT_TEXT, AT(op), "COLLECTIVE", NULL,
     "the collective, where a log does not say it"},
    {"tasks", 0, PDL_OPT_TEXT, AT(tasks), "LIST", NULL,
     "SLURM_TASKS_PER_NODE, for a host list"},
    {"base", 0, PDL_OPT_TEXT, AT(base), "SYSTEM", NULL,
     "the system to add to (default: an empty one)"},
    {"name", 0, PDL_OPT_TEXT, AT(name), "NAME", NULL,
     "what to call the result"},
    {"output", 'o', PDL_OPT_TEXT, AT(out), "FILE", NULL,
     "write the system there (default: standard output)"},
};
#undef AT

static const struct pdl_importer *find_importer(const char *name,
                                                struct pdl_err *err)
{
    const struct pdl_importer *im;
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; (im = pdl_importer_at(i)); i++) {
        if (strcmp(im->name, name) == 0)
            return im;
        pdl_suggest_try(&s, im->name);
    }
    pdl_fail(err, PDL_EINVAL, "no format '%.40s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "one of nccl-tests, osu, nccl-topo, hwloc, hostlist");
    return NULL;
}

static enum pdl_status import_all(const struct pdl_args *args, pdl_arena *a,
                                  const struct pdl_importer *im,
                                  struct pdl_system *sys, int64_t *before,
                                  struct pdl_err *err)
{
    const struct import_options *o = args->opts;
    struct pdl_import how = {
        .np = o->np, .nodes = o->nodes, .op = o->op, .tasks = o->tasks};
    enum pdl_status st = PDL_OK;

    if (o->base)
        st = pdl_system_open(a, o->base, sys, err);
    else
        pdl_system_blank(sys);
    if (st != PDL_OK)
        return st;
    *before = sys->ncollectives;
    if (o->name)
        sys->name = o->name;
    for (int i = 1; i < args->npos && st == PDL_OK; i++) {
        struct pdl_bytes in = {NULL, 0};

        st = pdl_file_read(a, args->pos[i], 64 << 20, &in, err);
        if (st == PDL_OK)
            st = im->run(a, in, args->pos[i], &how, sys, err);
    }
    if (st != PDL_OK)
        return st;
    st = pdl_system_update(a, sys, err);
    if (st == PDL_EINVAL && !o->base && !*err->hint)
        pdl_hint(err, "--base SYSTEM says what the file does not");
    return st;
}

static void tell(const struct pdl_args *args, const struct pdl_system *sys,
                 int64_t before)
{
    for (int64_t i = before; i < sys->ncollectives && !args->quiet; i++) {
        const struct pdl_collective_fit *c = &sys->collectives[i];
        char alpha[40], rate[40];

        pdl_unit_format(c->alpha_s, PDL_UNIT_SECONDS, alpha, sizeof alpha);
        pdl_unit_format(c->bytes_per_s, PDL_UNIT_BYTES_S, rate, sizeof rate);
        pdl_printf(cli_stderr(),
                   "paradl: %s on %lld PEs: alpha %s, bandwidth %s, off by at "
                   "most %.1f %% over %lld sizes\n",
                   c->op, (long long)c->pes, alpha,
                   c->bytes_per_s > 0 ? rate : "not visible",
                   100 * c->max_error, (long long)c->ntimes);
    }
}

static int system_import(const struct pdl_args *args)
{
    const struct import_options *o = args->opts;
    struct pdl_err err = {"", ""};
    const struct pdl_importer *im = find_importer(args->pos[0], &err);
    pdl_arena *a;
    struct pdl_system sys;
    enum pdl_status st;
    struct pdl_buf text;
    int64_t before = 0;
    int rc;

    if (!im)
        return cli_fail(PDL_EINVAL, &err);
    if (o->np < 0 || o->nodes < 0) {
        pdl_say(&err, "--np and --nodes are counts");
        return cli_usage(&err);
    }
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (!a)
        return EXIT_BUG;
    st = import_all(args, a, im, &sys, &before, &err);
    if (st != PDL_OK) {
        pdl_arena_destroy(a);
        return cli_fail(st, &err);
    }
    pdl_buf_init(&text);
    if (args->json) {
        struct pdl_json j;

        pdl_json_init(&j, &text.sink);
        pdl_json_schema(&j, "system");
        pdl_system_json(&sys, &j);
        pdl_json_end(&j);
    } else {
        pdl_system_write(&sys, &text.sink);
    }
    rc = text.sink.failed ? EXIT_BUG : cli_write(o->out, &text);
    tell(args, &sys, before);
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_system_import = {
    .name = "system import",
    .args = "nccl-tests|osu|nccl-topo|hwloc|hostlist FILE...",
    .min_pos = 2,
    .max_pos = PDL_MAX_ARGS,
    .summary = "describe a system from what its own tools print",
    .text = "Reads logs of nccl-tests or of the OSU micro-benchmarks (times, "
            "and the line alpha + bytes/bandwidth fitted to them), NCCL's "
            "topology XML, hwloc XML, or a Slurm host list, and writes a "
            "system file. With --base the file is that system with what was "
            "read in place of what it had; without, an empty one, in which "
            "what the input does not say is left out and listed under "
            "'unverified'.",
    .example = "paradl system import nccl-tests log.txt --base dgx-h100 "
               "-o system.yaml",
    .opts = import_opts,
    .nopts = sizeof import_opts / sizeof import_opts[0],
    .opts_size = sizeof(struct import_options),
    .run = system_import,
    .no_json = true,
};
