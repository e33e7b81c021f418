/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a model in our own format (doc/formats/model.md). What the reader
 * would fill in by itself is left out: the input when it is the layer before,
 * weights an operator makes by its own convention, outputs that inference
 * gives. So a network reads like a list of layers, and reading and writing
 * again gives the same text.
 *
 * Names must be told apart in a file: of several tensors with one name, the
 * second is written name~2 and so on. */
#include "model_priv.h"

#include <stdio.h>
#include <string.h>

/* Whether a weight is made by its node or was used before it could be. */
enum { UNUSED, MADE, USED };

struct writer {
    const struct pdl_model *m;
    struct pdl_sink *out;
    pdl_arena *arena;
    struct model_names tensors; /* written name -> tensor */
    struct model_names layers;  /* layer name -> node, -1 when not unique */
    const char **names;         /* of tensors, as written */
    char *own;                  /* of tensors: enum */
    char *own_node;             /* nodes that make their weights */
    int last;                   /* what `in` is when it is left out */
};

/* ---- text ------------------------------------------------------------- */

static bool is_plain(const char *s)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";

    return *s && *s != '-' && *s != '+' && *s != '.' &&
           s[strspn(s, safe)] == '\0' && strcmp(s, "null") != 0;
}

/* Length of the UTF-8 sequence at s and its code point; 1 and the byte where
 * there is none. */
static int decode(const unsigned char *s, unsigned *cp)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = s[0] >= 0xf0 && s[0] < 0xf8 ? 4
            : s[0] >= 0xe0              ? 3
            : s[0] >= 0xc0              ? 2
                                        : 1;
    unsigned v = n == 1 ? s[0] : s[0] & (0xffU >> (n + 1));

    *cp = s[0];
    if (s[0] >= 0xf8)
        return 1;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 1;
        v = v << 6 | (s[i] & 0x3fU);
    }
    if (n > 1 && (v < least[n] || v > 0x10ffff || (v >> 11) == 0x1b))
        return 1;
    *cp = v;
    return n;
}

static void put_text(struct pdl_sink *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned cp;

    if (is_plain(text)) {
        pdl_puts(out, text);
        return;
    }
    pdl_puts(out, "\"");
    for (; *s; s += decode(s, &cp)) {
        decode(s, &cp);
        if (cp == '"' || cp == '\\')
            pdl_printf(out, "\\%c", (int)cp);
        else if (cp >= 0x20 && cp < 0x7f)
            pdl_printf(out, "%c", (int)cp);
        else if (cp < 0x100)
            pdl_printf(out, "\\x%02x", cp);
        else if (cp < 0x10000)
            pdl_printf(out, "\\u%04x", cp);
        else
            pdl_printf(out, "\\U%08x", cp);
    }
    pdl_puts(out, "\"");
}

/* ---- names ------------------------------------------------------------ */

/* The name a node gives its i-th output by itself. */
static const char *default_output(struct writer *w, const char *node, int i)
{
    return i ? pdl_arena_printf(w->arena, "%s.y%d", node, i)
             : pdl_arena_printf(w->arena, "%s.y", node);
}

static bool name_tensor(struct writer *w, int t)
{
    const char *name = w->m->tensors[t].name;

    for (int k = 2; name && model_names_find(&w->tensors, name); k++)
        name = pdl_arena_printf(w->arena, "%s~%d", w->m->tensors[t].name, k);
    w->names[t] = name;
    return name && model_names_add(&w->tensors, w->arena, name, t);
}

static bool make_names(struct writer *w)
{
    const struct pdl_model *m = w->m;

    w->names = PDL_NEW(w->arena, const char *, m->ntensors + 1);
    w->own = PDL_NEW(w->arena, char, m->ntensors + 1);
    w->own_node = PDL_NEW(w->arena, char, m->nnodes + 1);
    if (!w->names || !w->own || !w->own_node)
        return false;
    for (int t = 0; t < m->ntensors; t++)
        if (!name_tensor(w, t))
            return false;
    for (int n = 0; n < m->nnodes; n++) {
        int *same = model_names_find(&w->layers, m->nodes[n].name);

        if (same)
            *same = -1;
        else if (!model_names_add(&w->layers, w->arena, m->nodes[n].name, n))
            return false;
    }
    return true;
}

/* A layer's name stands for its first output, where nothing else has it. */
static const char *reference(const struct writer *w, int t)
{
    const char *name = w->names[t];
    size_t n = strlen(name);
    char layer[256];
    const int *node;

    if (n < 3 || n >= sizeof layer || strcmp(name + n - 2, ".y") != 0)
        return name;
    snprintf(layer, sizeof layer, "%.*s", (int)n - 2, name);
    node = model_names_find(&w->layers, layer);
    if (!node || *node < 0 || w->m->nodes[*node].out[0] != t ||
        model_names_find(&w->tensors, layer))
        return name;
    return w->m->nodes[*node].name;
}

/* ---- what needs to be said -------------------------------------------- */

/* Whether the reader would make the same weights by itself. */
static bool conventional(struct writer *w, const struct pdl_node *n, int s)
{
    const struct pdl_tensor *x = n->nin ? &w->m->tensors[n->in[0]] : NULL;
    enum pdl_dtype dtype = x && x->dtype <= PDL_F4 ? x->dtype : PDL_F32;
    struct pdl_tensor want[PDL_OP_MAX_WEIGHTS];

    if (!n->op->weights || !x ||
        n->op->weights(&n->attr, x, want) != n->nweights)
        return false;
    for (int i = 0; i < n->nweights; i++) {
        const struct pdl_tensor *t = &w->m->tensors[n->weights[i]];
        const char *name =
            pdl_arena_printf(w->arena, "%s.%s", n->name, want[i].name);

        if (!name || strcmp(name, w->names[n->weights[i]]) != 0 ||
            t->kind != want[i].kind || t->dtype != dtype || t->segment != s ||
            w->own[n->weights[i]] != UNUSED || !model_same_shape(t, &want[i]))
            return false;
    }
    return true;
}

/* Marks what a node reads as used, or its weights as made. */
static void mark(struct writer *w, const struct pdl_node *n, bool own)
{
    for (int k = 0; k < n->nin; k++)
        if (w->own[n->in[k]] == UNUSED)
            w->own[n->in[k]] = USED;
    for (int k = 0; k < n->nweights; k++)
        if (w->own[n->weights[k]] == UNUSED)
            w->own[n->weights[k]] = own ? MADE : USED;
}

static void find_own(struct writer *w)
{
    for (int s = 0; s < w->m->nsegments; s++)
        for (int i = 0; i < w->m->segments[s].nnodes; i++) {
            int node = w->m->segments[s].first_node + i;
            const struct pdl_node *n = &w->m->nodes[node];

            w->own_node[node] = conventional(w, n, s);
            mark(w, n, w->own_node[node]);
        }
}

/* Whether inference gives a node's outputs, types and names too. */
static bool inferred(struct writer *w, const struct pdl_node *n)
{
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    struct model_operands operands;
    int nout = 0;

    model_operands(w->m->tensors, n, &operands);
    if (model_infer(n->op, &operands.use, out, &nout, NULL) != PDL_OK ||
        nout != n->nout)
        return false;
    for (int i = 0; i < nout; i++) {
        const char *name = default_output(w, n->name, i);

        if (!name || strcmp(name, w->names[n->out[i]]) != 0 ||
            out[i].dtype != w->m->tensors[n->out[i]].dtype ||
            !model_same_shape(&out[i], &w->m->tensors[n->out[i]]))
            return false;
    }
    return true;
}

/* ---- lines ------------------------------------------------------------ */

static void put_ids(struct writer *w, const char *key, const int *ids, int n)
{
    pdl_printf(w->out, ", %s: [", key);
    for (int i = 0; i < n; i++) {
        if (i)
            pdl_puts(w->out, ", ");
        put_text(w->out, reference(w, ids[i]));
    }
    pdl_puts(w->out, "]");
}

static void put_tensor(struct writer *w, int t)
{
    const struct pdl_tensor *x = &w->m->tensors[t];

    pdl_puts(w->out, "{name: ");
    put_text(w->out, w->names[t]);
    if (x->dtype != PDL_F32)
        pdl_printf(w->out, ", dtype: %s", pdl_dtype_name(x->dtype));
    pdl_puts(w->out, ", shape: ");
    model_write_list(w->out, x->dim, x->rank);
}

/* The tensors that no node makes, of the given kinds. */
static void put_tensors(struct writer *w, const char *indent, int first,
                        int end, bool inputs)
{
    static const char *const kinds[] = {
        [PDL_TENSOR_INPUT] = "input",
        [PDL_TENSOR_WEIGHT] = "weight",
        [PDL_TENSOR_BUFFER] = "buffer",
        [PDL_TENSOR_CONST] = "const",
    };
    bool any = false;

    for (int t = 0; t < w->m->ntensors; t++) {
        const struct pdl_tensor *x = &w->m->tensors[t];
        const struct pdl_segment *s = &w->m->segments[x->segment];
        bool here = first < 0 ? s->carry_in < 0
                              : x->segment >= first && x->segment < end;

        if (!here || x->kind == PDL_TENSOR_ACTIVATION || w->own[t] == MADE ||
            (x->kind == PDL_TENSOR_INPUT) != inputs)
            continue;
        if (!any)
            pdl_printf(w->out, "%s%s:\n", indent,
                       inputs ? "inputs" : "tensors");
        any = true;
        pdl_printf(w->out, "%s  - ", indent);
        put_tensor(w, t);
        if (!inputs)
            pdl_printf(w->out, ", kind: %s", kinds[x->kind]);
        pdl_puts(w->out, "}\n");
    }
}

static void put_outputs(struct writer *w, const struct pdl_node *n)
{
    pdl_puts(w->out, ", out: [");
    for (int i = 0; i < n->nout; i++) {
        if (i)
            pdl_puts(w->out, ", ");
        put_tensor(w, n->out[i]);
        pdl_puts(w->out, "}");
    }
    pdl_puts(w->out, "]");
}

static void put_node(struct writer *w, const char *indent, int node)
{
    const struct pdl_node *n = &w->m->nodes[node];
    int spatial = n->nin ? w->m->tensors[n->in[0]].rank - 1 : 0;

    pdl_printf(w->out, "%s- {op: %s, name: ", indent, n->op->name);
    put_text(w->out, n->name);
    if (n->source_op) {
        pdl_puts(w->out, ", source_op: ");
        put_text(w->out, n->source_op);
    }
    if (n->nin != 1 || n->in[0] != w->last)
        put_ids(w, "in", n->in, n->nin);
    model_attr_write(w->out, &n->attr, spatial);
    if (n->op->weights ? !w->own_node[node] : n->nweights > 0)
        put_ids(w, "weights", n->weights, n->nweights);
    if (!inferred(w, n))
        put_outputs(w, n);
    pdl_puts(w->out, "}\n");
    w->last = n->out[0];
}

static void put_block(struct writer *w, int s)
{
    const struct pdl_segment *g = &w->m->segments[s];

    pdl_printf(w->out, "  - repeat: %lld\n", (long long)g->repeat);
    if (g->first_index)
        pdl_printf(w->out, "    first: %lld\n", (long long)g->first_index);
    if (g->carry_in != w->last) {
        pdl_puts(w->out, "    carry: ");
        put_text(w->out, reference(w, g->carry_in));
        pdl_puts(w->out, "\n");
    }
    w->last = g->carry_in;
    put_tensors(w, "    ", s, s + 1, true);
    put_tensors(w, "    ", s, s + 1, false);
    pdl_printf(w->out, "    layers:%s\n", g->nnodes ? "" : " []");
    for (int i = 0; i < g->nnodes; i++)
        put_node(w, "      ", g->first_node + i);
    if (g->carry_out != w->last) {
        pdl_puts(w->out, "    out: ");
        put_text(w->out, reference(w, g->carry_out));
        pdl_puts(w->out, "\n");
    }
    w->last = g->carry_out;
}

/* What an importer could not know: operators, symbolic dimensions. */
static void put_gaps(struct writer *w)
{
    const struct pdl_model *m = w->m;

    if (m->nunknown)
        pdl_puts(w->out, "unknown_ops:\n");
    for (int i = 0; i < m->nunknown; i++) {
        pdl_puts(w->out, "  ");
        put_text(w->out, m->unknown_ops[i]);
        pdl_printf(w->out, ": %lld\n", (long long)m->unknown_counts[i]);
    }
    for (int i = 0; i < m->nunbound; i++) {
        pdl_puts(w->out, i ? ", " : "unbound: [");
        put_text(w->out, m->unbound[i]);
    }
    if (m->nunbound)
        pdl_puts(w->out, "]\n");
}

static void put_head(struct writer *w)
{
    const struct pdl_model *m = w->m;

    pdl_puts(w->out, "format: paradl-model/1\nname: ");
    put_text(w->out, m->name);
    pdl_puts(w->out, "\nkind: ");
    put_text(w->out, m->kind);
    pdl_puts(w->out, "\nsource: ");
    put_text(w->out, m->source);
    pdl_puts(w->out, "\n");
    if (m->tokens)
        pdl_printf(w->out, "tokens: %lld\n", (long long)m->tokens);
    if (m->source_nodes >= 0)
        pdl_printf(w->out, "source_nodes: %lld\n", (long long)m->source_nodes);
    put_gaps(w);
}

/* ---- the whole -------------------------------------------------------- */

static int first_input(const struct pdl_model *m)
{
    for (int t = 0; t < m->ntensors; t++)
        if (m->tensors[t].kind == PDL_TENSOR_INPUT &&
            m->segments[m->tensors[t].segment].carry_in < 0)
            return t;
    return -1;
}

static void write_model(struct writer *w)
{
    const struct pdl_model *m = w->m;

    put_head(w);
    put_tensors(w, "", -1, -1, true);
    put_tensors(w, "", -1, -1, false);
    pdl_printf(w->out, "layers:%s\n", m->nnodes ? "" : " []");
    w->last = first_input(m);
    for (int s = 0; s < m->nsegments; s++) {
        const struct pdl_segment *g = &m->segments[s];

        if (g->carry_in >= 0) {
            put_block(w, s);
            continue;
        }
        for (int i = 0; i < g->nnodes; i++)
            put_node(w, "  ", g->first_node + i);
    }
}

void pdl_model_yaml_write(const struct pdl_model *m, struct pdl_sink *out)
{
    struct writer w = {.m = m, .out = out};

    w.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (!w.arena || !make_names(&w)) {
        out->failed = true;
    } else {
        find_own(&w);
        write_model(&w);
    }
    pdl_arena_destroy(w.arena);
}
