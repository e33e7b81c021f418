/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl model show. Layers of a repeated block are shown once
 * with how often it occurs; in JSON each is listed with its own name, round by
 * round, as it is written: nothing is held for the rounds. */
#include "cli/cli_priv.h"

#include "paradl/model.h"

#include <stdio.h>
#include <string.h>

struct options {
    bool layers;
    const char *dim;
};

static const struct pdl_opt show_opts[] = {
    {"layers", 0, PDL_OPT_FLAG, offsetof(struct options, layers), NULL, NULL,
     "list the layers with shapes, parameters and FLOPs"},
    {"dim", 0, PDL_OPT_TEXT, offsetof(struct options, dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of a file: batch=8,seq=2048"},
};

static enum pdl_status load(const struct pdl_args *args, pdl_arena *a,
                            const struct pdl_model **m, struct pdl_err *err)
{
    const struct options *o = args->opts;
    struct pdl_model_options opt = {.dims = o->dim};

    if (!a)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    return pdl_model_load(a, args->pos[0], &opt, m, err);
}

/* Nodes as people count them: those of the file, where there is one. */
static int64_t node_count(const struct pdl_model *m,
                          const struct pdl_model_totals *t)
{
    return m->source_nodes >= 0 ? m->source_nodes : t->nodes;
}

/* ---- JSON ------------------------------------------------------------- */

static void json_shape(struct pdl_json *j, const char *key,
                       const struct pdl_tensor *t)
{
    pdl_json_key(j, key);
    pdl_json_flat(j);
    for (int i = 0; t && i < t->rank; i++)
        pdl_json_int(j, t->dim[i]);
    pdl_json_end(j);
}

static const struct pdl_tensor *tensor(const struct pdl_model *m,
                                       const int *ids, int n)
{
    return n ? &m->tensors[ids[0]] : NULL;
}

static enum pdl_status json_layer(struct pdl_json *j, const struct pdl_model *m,
                                  int node, int64_t round, struct pdl_err *err)
{
    const struct pdl_node *n = &m->nodes[node];
    struct pdl_work w;
    char name[512];
    enum pdl_status st =
        pdl_node_work(m, node, PDL_FORWARD, 1, PDL_F32, &w, err);

    if (st != PDL_OK)
        return st;
    pdl_json_row(j);
    pdl_json_kstr(j, "name", pdl_node_name(m, node, round, name, sizeof name));
    pdl_json_kstr(j, "op", n->op->name);
    json_shape(j, "x", tensor(m, n->in, n->nin));
    json_shape(j, "y", tensor(m, n->out, n->nout));
    json_shape(j, "w", tensor(m, n->weights, n->nweights));
    pdl_json_kint(j, "parameters", pdl_node_parameters(m, node));
    pdl_json_kint(j, "forward_flops", w.flops);
    pdl_json_end(j);
    return PDL_OK;
}

static enum pdl_status
json_layers(struct pdl_json *j, const struct pdl_model *m, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    pdl_json_key(j, "layers");
    pdl_json_array(j);
    for (int s = 0; s < m->nsegments; s++) {
        const struct pdl_segment *g = &m->segments[s];

        for (int64_t r = 0; g->nnodes && r < g->repeat && !j->out->failed; r++)
            for (int i = 0; i < g->nnodes && st == PDL_OK; i++)
                st = json_layer(j, m, g->first_node + i, r, err);
    }
    pdl_json_end(j);
    return st;
}

static enum pdl_status show_json(const struct pdl_model *m,
                                 const struct pdl_model_totals *t, bool layers,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "model");
    pdl_json_kstr(&j, "name", m->name);
    pdl_json_kint(&j, "parameters", t->parameters);
    pdl_json_kint(&j, "buffers", t->buffers);
    pdl_json_kint(&j, "nodes", node_count(m, t));
    pdl_json_key(&j, "unknown_ops");
    pdl_json_flat(&j);
    for (int i = 0; i < m->nunknown; i++)
        pdl_json_str(&j, m->unknown_ops[i]);
    pdl_json_end(&j);
    /* a count that lacks dimensions is no count */
    pdl_json_key(&j, "forward_flops_per_sample");
    if (m->nunbound > 0)
        pdl_json_str(&j, NULL);
    else
        pdl_json_int(&j, t->forward_flops);
    if (layers)
        st = json_layers(&j, m, err);
    pdl_json_end(&j);
    return st;
}

/* ---- text ------------------------------------------------------------- */

static const char *grouped(int64_t v, char *buf, size_t size)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);
    size_t k = 0;

    for (int i = 0; i < n && k + 2 < size; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf[k++] = ',';
        buf[k++] = text[i];
    }
    buf[k] = '\0';
    return buf;
}

static void line(struct pdl_sink *out, const char *what, int64_t v,
                 const char *unit)
{
    char all[64], some[32];

    pdl_printf(out, "%-14s %s%s", what, grouped(v, all, sizeof all), unit);
    if (v >= 10000)
        pdl_printf(
            out, " (%s)",
            pdl_unit_format((double)v, PDL_UNIT_NONE, some, sizeof some));
    pdl_puts(out, "\n");
}

static void show_head(const struct pdl_model *m,
                      const struct pdl_model_totals *t, struct pdl_sink *out)
{
    cli_say(15, "%-14s %s", "model", m->name);
    if (*m->source)
        cli_say(15, "%-14s %s", "source", m->source);
    if (m->tokens)
        line(out, "tokens", m->tokens, " a sample");
    line(out, "parameters", t->parameters, "");
    line(out, "buffers", t->buffers, "");
    line(out, "nodes", node_count(m, t), "");
    line(out, "forward FLOPs", t->forward_flops, " a sample");
    line(out, "activations", t->activations, " a sample");
    for (int i = 0; i < m->nunknown; i++)
        pdl_printf(out, "%-14s %s, %lld times: no FLOPs counted\n",
                   i ? "" : "unknown", m->unknown_ops[i],
                   (long long)m->unknown_counts[i]);
}

/* What makes the figures incomplete, and what would help. */
static void note_unbound(const struct pdl_model *m)
{
    if (m->nunbound == 0)
        return;
    pdl_puts(cli_stderr(), "paradl: FLOPs are incomplete: not known are");
    for (int i = 0; i < m->nunbound; i++)
        pdl_printf(cli_stderr(), "%s %.60s", i ? "," : "", m->unbound[i]);
    pdl_puts(cli_stderr(), " (hint: --dim NAME=N,... binds dimensions)\n");
}

static void cell_shape(struct pdl_table *t, const struct pdl_tensor *x)
{
    char text[128] = "";
    size_t n = 0;

    for (int i = 0; x && i < x->rank && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i ? "x" : "",
                              (long long)x->dim[i]);
    pdl_table_cell(t, "%s", text);
}

static void cell_number(struct pdl_table *t, int64_t v)
{
    char text[32];

    pdl_table_cell(
        t, "%s", pdl_unit_format((double)v, PDL_UNIT_NONE, text, sizeof text));
}

static bool has_blocks(const struct pdl_model *m)
{
    for (int s = 0; s < m->nsegments; s++)
        if (m->segments[s].repeat > 1)
            return true;
    return false;
}

static enum pdl_status show_layer(struct pdl_table *t,
                                  const struct pdl_model *m,
                                  const struct pdl_segment *g, int node,
                                  bool blocks, struct pdl_err *err)
{
    const struct pdl_node *n = &m->nodes[node];
    struct pdl_work w;
    char name[512];
    enum pdl_status st =
        pdl_node_work(m, node, PDL_FORWARD, 1, PDL_F32, &w, err);

    if (st != PDL_OK)
        return st;
    pdl_table_cell(
        t, "%s",
        g->repeat > 1 ? n->name : pdl_node_name(m, node, 0, name, sizeof name));
    if (blocks && g->repeat > 1)
        pdl_table_cell(t, "x%lld", (long long)g->repeat);
    else if (blocks)
        pdl_table_cell(t, "%s", "");
    pdl_table_cell(t, "%s",
                   n->source_op && n->op->flags & PDL_OP_UNKNOWN ? n->source_op
                                                                 : n->op->name);
    cell_shape(t, tensor(m, n->in, n->nin));
    cell_shape(t, tensor(m, n->out, n->nout));
    cell_number(t, pdl_node_parameters(m, node));
    cell_number(t, w.flops);
    return PDL_OK;
}

static enum pdl_status show_layers(const struct pdl_model *m, pdl_arena *a,
                                   struct pdl_err *err)
{
    static const struct pdl_column with[] = {
        {"layer", false}, {"", true},       {"op", false},  {"x", false},
        {"y", false},     {"params", true}, {"FLOPs", true}};
    static const struct pdl_column without[] = {
        {"layer", false}, {"op", false},    {"x", false},
        {"y", false},     {"params", true}, {"FLOPs", true}};
    bool blocks = has_blocks(m);
    enum pdl_status st = PDL_OK;
    struct pdl_table t;

    if (blocks)
        pdl_table_init(&t, a, with, sizeof with / sizeof with[0]);
    else
        pdl_table_init(&t, a, without, sizeof without / sizeof without[0]);
    for (int s = 0; s < m->nsegments; s++)
        for (int i = 0; i < m->segments[s].nnodes && st == PDL_OK; i++)
            st = show_layer(&t, m, &m->segments[s],
                            m->segments[s].first_node + i, blocks, err);
    if (st == PDL_OK && t.status != PDL_OK)
        st = pdl_fail(err, t.status, "out of memory");
    if (st == PDL_OK) {
        pdl_puts(cli_out(), "\n");
        t.whole = 1;
        pdl_table_print(&t, cli_width(), cli_out());
    }
    return st;
}

static int show(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;
    enum pdl_status st = load(args, a, &m, &err);

    if (st == PDL_OK)
        st = pdl_model_totals(m, &t, &err);
    if (st == PDL_OK && !args->quiet)
        note_unbound(m);
    if (st == PDL_OK && args->json) {
        st = show_json(m, &t, o->layers, &err);
    } else if (st == PDL_OK) {
        show_head(m, &t, cli_out());
        if (o->layers)
            st = show_layers(m, a, &err);
    }
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_model_show = {
    .name = "model show",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "parameters, FLOPs and layers of a network",
    .text =
        "MODEL is a network of the zoo (resnet50), a family with parameters "
        "(resnet:depth=152,input=320), or a file: ONNX, the config.json of "
        "a Hugging Face model, safetensors, or our own YAML. Shapes are "
        "per sample, without the batch dimension. FLOPs are 2 per "
        "multiply-add of convolution, linear, matmul and attention.",
    .example = "paradl model show resnet50 --layers",
    .opts = show_opts,
    .nopts = sizeof show_opts / sizeof show_opts[0],
    .opts_size = sizeof(struct options),
    .run = show,
};
