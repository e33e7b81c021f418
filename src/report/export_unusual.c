/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network has that launchers are not told of: layers that mix tokens in
 * another way than full attention, branches arranged otherwise, positions of
 * another kind. A job that leaves one out would train another network, so all
 * of them are named and nothing is written. */
#include "export.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && memcmp(name + n - k, end, k) == 0;
}

/* By the name of a node (transformer.h): a part of it, or its end. */
static const struct {
    const char *part, *end, *what;
} named[] = {
    {".mixer.", NULL, "layers that do not attend"},
    {NULL, ".attn.sinks", "attention sinks"},
    {NULL, ".attn.gate", "gated attention"},
    {NULL, ".attn.index", "sparse attention"},
    {NULL, ".attn.out_joined", "output projections in groups"},
    {NULL, ".attn.post_norm", "norms after branches"},
    {NULL, ".attn.sub_norm", "norms inside attention"},
    {NULL, ".attn.scale", "scaled branches"},
    {NULL, ".attn.damping", "damped branches"},
    {".cross.", NULL, "cross attention"},
    {".per_layer.", NULL, "embeddings of each layer"},
    {NULL, ".moe.shared_gate", "gates of shared experts"},
    {NULL, ".moe.latent_in", "latent experts"},
    {NULL, ".moe.add_dense", "dense layers beside experts"},
    {"embed.norm", NULL, "a norm of the embedding"},
    {"embed.project", NULL, "a projection of the embedding"},
    {"embed.images", NULL, "images"},
};
enum { NNAMED = sizeof named / sizeof named[0] };

/* "layers.{i}.add": both branches meet in one sum. */
static bool is_parallel(const char *name)
{
    size_t n = strlen(name);

    return ends_with(name, ".add") && n > 5 && name[n - 5] == '}';
}

static bool is_core(const struct pdl_node *n)
{
    return ends_with(n->name, ".attn.core");
}

static const struct pdl_node *first_core(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (is_core(&m->nodes[i]))
            return &m->nodes[i];
    return NULL;
}

static bool differs(const struct pdl_attr *a, const struct pdl_attr *b)
{
    return a->heads != b->heads || a->kv_heads != b->kv_heads ||
           a->head_dim != b->head_dim || a->window != b->window;
}

struct found {
    const char *what[NNAMED + 20];
    int n;
};

static void add(struct found *f, bool yes, const char *what)
{
    for (int i = 0; i < f->n; i++)
        yes = yes && strcmp(f->what[i], what) != 0;
    if (yes && f->n < (int)(sizeof f->what / sizeof f->what[0]))
        f->what[f->n++] = what;
}

static void by_name(const struct pdl_node *n, struct found *f)
{
    for (int i = 0; i < NNAMED; i++)
        add(f,
            named[i].part ? strstr(n->name, named[i].part) != NULL
                          : ends_with(n->name, named[i].end),
            named[i].what);
    add(f, is_parallel(n->name), "attention and feed-forward side by side");
}

static void by_numbers(const struct pdl_node *n, const struct pdl_node *core,
                       struct found *f)
{
    bool rope = ends_with(n->name, ".attn.q_rope");
    bool linear = n->attr.scale > 0 && !(n->attr.alpha > 0);
    bool latent = strstr(n->name, ".attn.") && core->attr.v_head_dim > 0 &&
                  core->attr.v_head_dim != core->attr.head_dim;

    add(f, is_core(n) && n->attr.window > 0, "sliding windows");
    add(f, is_core(n) && differs(&n->attr, &core->attr),
        "heads that differ from layer to layer");
    add(f,
        rope && !latent && n->attr.features > 0 &&
            n->attr.features < core->attr.head_dim,
        "rotary positions of a part of each head");
    add(f, rope && linear, "linearly stretched rotary positions");
    add(f, ends_with(n->name, ".act") && pdl_op_id(n->op) == PDL_ID_RELU,
        "ReLU");
}

/* Norms of a launcher have weights; layer norms biases, too. Those of queries
 * and keys are of each head. */
static void by_norms(const struct pdl_model *m, const struct pdl_node *n,
                     const struct pdl_node *core, struct found *f)
{
    enum pdl_op_id id = pdl_op_id(n->op);
    bool layer = id == PDL_ID_LAYER_NORM, of_heads;

    if (!layer && id != PDL_ID_RMS_NORM)
        return;
    of_heads = ends_with(n->name, ".attn.q_norm") ||
               ends_with(n->name, ".attn.k_norm");
    add(f, n->nweights == 0, "norms without weights");
    add(f, layer && n->nweights == 1, "layer norms without biases");
    add(f,
        of_heads && n->nweights > 0 &&
            m->tensors[n->weights[0]].dim[0] != core->attr.head_dim,
        "norms of queries and keys over all heads");
}

static bool starts_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

/* Biases are of all layers, of queries, keys and values alone, or of none. */
static void by_biases(const struct pdl_model *m, struct found *f)
{
    const struct pdl_node *out = report_node(m, ".attn.out");
    const struct pdl_node *down = report_node(m, ".ffn.down");
    const struct pdl_node *experts = report_node(m, ".moe.experts");
    bool all = out && out->nweights > 1;

    add(f,
        (down && (down->nweights > 1) != all) ||
            (all && !report_biased(m, ".attn.q")),
        "biases of some layers alone");
    add(f, experts && !experts->attr.no_bias, "biases of experts");
    add(f, report_biased(m, ".moe.router"), "a bias of the router");
    add(f, report_biased(m, "head"), "a bias of the head");
}

static void by_whole(const struct pdl_model *m, struct found *f)
{
    const struct pdl_node *act = report_node(m, ".ffn.act");

    if (!act)
        act = report_node(m, ".moe.shared.act");
    add(f,
        act && pdl_op_id(act->op) == PDL_ID_GELU &&
            (report_node(m, ".ffn.gate") || report_node(m, ".moe.shared.gate")),
        "gates of GELU");
    by_biases(m, f);
    for (int i = 0; i < m->nunknown; i++)
        add(f, true,
            starts_with(m->unknown_ops[i], "model_type:")
                ? "a model_type that is not known"
                : "parts that are not known");
}

static bool has_positions(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (ends_with(m->nodes[i].name, ".attn.q_rope") ||
            strcmp(m->nodes[i].name, "embed.positions") == 0)
            return true;
    return false;
}

static bool is_latent(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++)
        if (ends_with(m->nodes[i].name, ".attn.kv_a"))
            return true;
    return false;
}

enum pdl_status report_usual(const struct pdl_model *m, const char *format,
                             struct pdl_err *err)
{
    const struct pdl_node *core = first_core(m);
    struct found f = {.n = 0};
    char list[640] = "";
    size_t len = 0;

    for (int i = 0; i < m->nnodes; i++) {
        by_name(&m->nodes[i], &f);
        if (core) {
            by_numbers(&m->nodes[i], core, &f);
            by_norms(m, &m->nodes[i], core, &f);
        }
    }
    by_whole(m, &f);
    add(&f, !has_positions(m), "no positions, or those of ALiBi");
    /* Megatron's latent attention stretches as DeepSeek's does (yarn) */
    if (m->inexact &&
        !(is_latent(m) &&
          strcmp(m->inexact, "its scaling of rotary positions") == 0))
        add(&f, true, m->inexact);
    if (f.n == 0)
        return PDL_OK;
    for (int i = 0; i < f.n && len < sizeof list; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s",
                                i > 0 ? ", " : "", f.what[i]);
    pdl_fail(err, PDL_EINVAL, "%s is not told of what %s has: %s", format,
             m->name, list);
    pdl_hint(err, "'paradl project --emit' writes the plan itself");
    return PDL_EINVAL;
}
