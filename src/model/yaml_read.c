/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a model in our own format (doc/formats/model.md). The document tree
 * knows where everything stands, so every refusal names a line and a column,
 * also those of the builder and of the operators. */
#include "model_priv.h"

#include <stdio.h>
#include <string.h>

struct reader {
    pdl_arena *arena;
    pdl_build *b;
    struct pdl_err *err;
    struct model_names names;  /* of tensors */
    struct model_names layers; /* to first output; -1 when two have the name */
    const char **keys;         /* a layer may have */
    int known;                 /* tensors registered */
    int last;                  /* what `in` is when it is left out */
    bool inside;               /* a repeated block */
};

/* The builder's failure, placed. */
static enum pdl_status built(struct reader *r, const struct pdl_doc *d)
{
    struct pdl_err inner = {"", ""};
    enum pdl_status st = model_build_status(r->b, &inner);

    if (st == PDL_OK)
        return st;
    pdl_doc_fail(d, r->err, "%s", inner.msg);
    if (*inner.hint)
        pdl_hint(r->err, "%s", inner.hint);
    return st == PDL_ENOMEM ? st : PDL_EPARSE;
}

static enum pdl_status no_memory(const struct pdl_doc *d, struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: too large to hold in memory",
                    d->file);
}

/* Registers the names of tensors made since the last time. */
static enum pdl_status note_tensors(struct reader *r, const struct pdl_doc *d)
{
    const struct pdl_tensor *t;
    enum pdl_status st = built(r, d);

    if (st != PDL_OK)
        return st;
    for (; (t = pdl_build_get(r->b, r->known)) != NULL; r->known++) {
        if (model_names_find(&r->names, t->name))
            return pdl_doc_fail(d, r->err, "two tensors are called '%.100s'",
                                t->name);
        if (!model_names_add(&r->names, r->arena, t->name, r->known))
            return no_memory(d, r->err);
    }
    return PDL_OK;
}

/* ---- tensors ---------------------------------------------------------- */

/* The list inputs or tensors of the file or of a block. */
static enum pdl_status read_tensors(struct reader *r, const struct pdl_doc *map,
                                    bool inputs)
{
    const struct pdl_doc *list =
        pdl_doc_get(map, inputs ? "inputs" : "tensors");
    enum pdl_status st =
        list ? model_yaml_want(list, PDL_DOC_LIST, "a list of tensors", r->err)
             : PDL_OK;

    if (!list || st != PDL_OK)
        return st;
    for (const struct pdl_doc *d = list->child; d && st == PDL_OK;
         d = d->next) {
        struct pdl_tensor t = {.rank = 0};
        const struct pdl_doc *name;

        st = model_yaml_tensor(d, !inputs, &t, r->err);
        if (st == PDL_OK)
            st = model_yaml_need(d, "name", &name, r->err);
        if (st != PDL_OK)
            break;
        pdl_build_tensor(r->b, t.name, inputs ? PDL_TENSOR_INPUT : t.kind,
                         t.dtype, t.rank, t.dim);
        st = note_tensors(r, d);
    }
    return st;
}

/* ---- layers ----------------------------------------------------------- */

static enum pdl_status resolve(struct reader *r, const struct pdl_doc *d,
                               int *out)
{
    const char *name;
    enum pdl_status st = pdl_doc_str(d, &name, r->err);
    const int *id;

    if (st != PDL_OK)
        return st;
    id = model_names_find(&r->names, name);
    if (!id)
        id = model_names_find(&r->layers, name);
    if (!id)
        return pdl_doc_fail(d, r->err, "no tensor or layer '%.100s' so far",
                            name);
    if (*id < 0)
        return pdl_doc_fail(d, r->err, "two layers are called '%.100s'", name);
    *out = *id;
    return PDL_OK;
}

static enum pdl_status resolve_list(struct reader *r, const struct pdl_doc *d,
                                    int max, int *ids, int *n)
{
    enum pdl_status st =
        model_yaml_want(d, PDL_DOC_LIST, "a list of names", r->err);

    if (st == PDL_OK && d->count > max)
        st = pdl_doc_fail(d, r->err, "%s: more than %d entries", d->key, max);
    *n = 0;
    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *c = d->child; c && st == PDL_OK; c = c->next)
        st = resolve(r, c, &ids[(*n)++]);
    return st;
}

struct layer {
    struct pdl_attr attr;
    int in[MODEL_MAX_IN], weights[PDL_OP_MAX_WEIGHTS];
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    struct pdl_build_spec spec;
    bool own; /* makes its weights itself */
};

static enum pdl_status read_outputs(struct reader *r, const struct pdl_doc *d,
                                    struct layer *l)
{
    enum pdl_status st =
        model_yaml_want(d, PDL_DOC_LIST, "a list of tensors", r->err);

    if (st == PDL_OK && (d->count > PDL_OP_MAX_OUT || d->count < 1))
        st = pdl_doc_fail(d, r->err, "out: 1 to %d entries", PDL_OP_MAX_OUT);
    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *c = d->child; c && st == PDL_OK; c = c->next)
        st = model_yaml_tensor(c, false, &l->out[l->spec.nout++], r->err);
    l->spec.out = l->out;
    return st;
}

static enum pdl_status read_operands(struct reader *r,
                                     const struct pdl_doc *map, struct layer *l)
{
    const struct pdl_doc *d = pdl_doc_get(map, "in");
    enum pdl_status st = PDL_OK;

    l->spec.in = l->in;
    if (d) {
        st = resolve_list(r, d, MODEL_MAX_IN, l->in, &l->spec.nin);
    } else if (r->last >= 0) {
        l->in[0] = r->last;
        l->spec.nin = 1;
    } else {
        return pdl_doc_fail(map, r->err, "needs 'in': nothing stands before");
    }
    d = pdl_doc_get(map, "weights");
    l->own = !d;
    l->spec.weights = l->weights;
    if (d && st == PDL_OK)
        st = resolve_list(r, d, PDL_OP_MAX_WEIGHTS, l->weights,
                          &l->spec.nweights);
    return st;
}

static enum pdl_status read_words(struct reader *r, const struct pdl_doc *map,
                                  struct layer *l)
{
    const struct pdl_doc *op, *name, *d = pdl_doc_get(map, "source_op");
    enum pdl_status st = pdl_doc_only(map, r->keys, r->err);

    if (st == PDL_OK)
        st = model_yaml_need(map, "op", &op, r->err);
    if (st == PDL_OK)
        st = model_yaml_need(map, "name", &name, r->err);
    if (st == PDL_OK)
        st = pdl_doc_str(op, &l->spec.op, r->err);
    if (st == PDL_OK)
        st = pdl_doc_str(name, &l->spec.name, r->err);
    if (st == PDL_OK && d)
        st = pdl_doc_str(d, &l->spec.source_op, r->err);
    return st;
}

static enum pdl_status note_layer(struct reader *r, const struct pdl_doc *d,
                                  const char *name, int t)
{
    int *same = model_names_find(&r->layers, name);

    r->last = t;
    if (same)
        *same = -1;
    else if (!model_names_add(&r->layers, r->arena, name, t))
        return no_memory(d, r->err);
    return PDL_OK;
}

static enum pdl_status read_layer(struct reader *r, const struct pdl_doc *map)
{
    struct layer l = {.own = true};
    const struct pdl_tensor *x;
    const struct pdl_doc *d;
    enum pdl_status st = read_words(r, map, &l);
    int t;

    if (st == PDL_OK)
        st = read_operands(r, map, &l);
    if (st != PDL_OK)
        return st;
    x = l.spec.nin ? pdl_build_get(r->b, l.in[0]) : NULL;
    st = model_attr_read(map, x ? x->rank - 1 : 0, &l.attr, r->err);
    d = pdl_doc_get(map, "out");
    if (st == PDL_OK && d)
        st = read_outputs(r, d, &l);
    if (st != PDL_OK)
        return st;
    l.spec.attr = &l.attr;
    t = l.own ? model_build_own(r->b, &l.spec) : pdl_build_node(r->b, &l.spec);
    st = note_tensors(r, map);
    return st == PDL_OK ? note_layer(r, map, l.spec.name, t) : st;
}

static enum pdl_status read_layers(struct reader *r, const struct pdl_doc *map);

static enum pdl_status read_block(struct reader *r, const struct pdl_doc *map)
{
    static const char *const keys[] = {"repeat", "first",   "carry",  "out",
                                       "inputs", "tensors", "layers", NULL};
    const struct pdl_doc *d = pdl_doc_get(map, "first");
    int64_t repeat = 1, first = 0;
    int out;
    enum pdl_status st = pdl_doc_only(map, keys, r->err);

    if (st == PDL_OK && r->inside)
        st = pdl_doc_fail(map, r->err, "a repeated block inside another");
    if (st == PDL_OK)
        st = pdl_doc_int(pdl_doc_get(map, "repeat"), 1, INT64_MAX, &repeat,
                         r->err);
    if (st == PDL_OK && d)
        st = pdl_doc_int(d, 0, INT64_MAX / 2, &first, r->err);
    d = pdl_doc_get(map, "carry");
    if (st == PDL_OK && d)
        st = resolve(r, d, &r->last);
    if (st != PDL_OK)
        return st;
    pdl_build_repeat(r->b, repeat, first, r->last);
    r->inside = true;
    st = built(r, map);
    if (st == PDL_OK)
        st = read_tensors(r, map, true);
    if (st == PDL_OK)
        st = read_tensors(r, map, false);
    if (st == PDL_OK)
        st = read_layers(r, map);
    out = r->last;
    d = pdl_doc_get(map, "out");
    if (st == PDL_OK && d)
        st = resolve(r, d, &out);
    if (st != PDL_OK)
        return st;
    r->last = pdl_build_repeat_end(r->b, out);
    r->inside = false;
    return built(r, map);
}

static enum pdl_status read_layers(struct reader *r, const struct pdl_doc *map)
{
    const struct pdl_doc *list = NULL;
    enum pdl_status st = model_yaml_need(map, "layers", &list, r->err);

    if (st == PDL_OK)
        st = model_yaml_want(list, PDL_DOC_LIST, "a list of layers", r->err);
    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *d = list->child; d && st == PDL_OK;
         d = d->next) {
        st = model_yaml_want(d, PDL_DOC_MAP, "a layer, {op: ..., name: ...}",
                             r->err);
        if (st == PDL_OK)
            st = pdl_doc_get(d, "repeat") ? read_block(r, d) : read_layer(r, d);
    }
    return st;
}

/* ---- the file --------------------------------------------------------- */

static bool list_keys(struct reader *r)
{
    static const char *const own[] = {"op",      "name", "source_op", "in",
                                      "weights", "out",  "repeat"};
    enum { NOWN = sizeof own / sizeof own[0] };
    int n = 0;

    while (model_attr_key(n))
        n++;
    r->keys = PDL_NEW(r->arena, const char *, NOWN + n + 1);
    if (!r->keys)
        return false;
    for (int i = 0; i < NOWN; i++)
        r->keys[i] = own[i];
    for (int i = 0; i < n; i++)
        r->keys[NOWN + i] = model_attr_key(i);
    return true;
}

static enum pdl_status read_unknown(struct reader *r, const struct pdl_doc *d)
{
    enum pdl_status st = model_yaml_want(
        d, PDL_DOC_MAP, "a map from operators to how often they occur", r->err);

    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *c = d->child; c && st == PDL_OK; c = c->next) {
        int64_t n = 0;

        st = pdl_doc_int(c, 1, INT64_MAX, &n, r->err);
        if (st == PDL_OK)
            model_build_unknown(r->b, c->key, n);
    }
    return st == PDL_OK ? built(r, d) : st;
}

static enum pdl_status read_unbound(struct reader *r, const struct pdl_doc *d)
{
    enum pdl_status st =
        model_yaml_want(d, PDL_DOC_LIST, "a list of names", r->err);
    const char *name = "";

    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *c = d->child; c && st == PDL_OK; c = c->next) {
        st = pdl_doc_str(c, &name, r->err);
        if (st == PDL_OK)
            pdl_build_unbound(r->b, name);
    }
    return st;
}

static enum pdl_status read_format(const struct pdl_doc *root,
                                   struct pdl_err *err)
{
    const struct pdl_doc *d = NULL;
    const char *text = "";
    enum pdl_status st = model_yaml_need(root, "format", &d, err);

    if (st != PDL_OK)
        pdl_hint(err, "its first line is 'format: paradl-model/1'");
    if (st == PDL_OK)
        st = pdl_doc_str(d, &text, err);
    if (st == PDL_OK && strcmp(text, "paradl-model/1") != 0)
        st = pdl_doc_fail(
            d, err, "format: '%.40s', but this reads paradl-model/1", text);
    return st;
}

static enum pdl_status read_head(struct reader *r, const struct pdl_doc *root)
{
    static const char *const keys[] = {
        "format",      "name",    "kind",   "source",  "tokens", "source_nodes",
        "unknown_ops", "unbound", "inputs", "tensors", "layers", NULL};
    const struct pdl_doc *d;
    const char *text = root->file, *kind = NULL, *source = NULL;
    int64_t tokens = 0, nodes = -1;
    enum pdl_status st = pdl_doc_only(root, keys, r->err);

    if (st == PDL_OK)
        st = read_format(root, r->err);
    if (st == PDL_OK && (d = pdl_doc_get(root, "name")) != NULL)
        st = pdl_doc_str(d, &text, r->err);
    if (st == PDL_OK && (d = pdl_doc_get(root, "kind")) != NULL)
        st = pdl_doc_str(d, &kind, r->err);
    if (st == PDL_OK && (d = pdl_doc_get(root, "source")) != NULL)
        st = pdl_doc_str(d, &source, r->err);
    if (st == PDL_OK && (d = pdl_doc_get(root, "tokens")) != NULL)
        st = pdl_doc_int(d, 0, INT64_MAX, &tokens, r->err);
    if (st == PDL_OK && (d = pdl_doc_get(root, "source_nodes")) != NULL)
        st = pdl_doc_int(d, 0, INT64_MAX, &nodes, r->err);
    if (st != PDL_OK)
        return st;
    r->b = pdl_build_begin(r->arena, text);
    pdl_build_meta(r->b, kind, source, tokens, nodes);
    d = pdl_doc_get(root, "unknown_ops");
    st = d ? read_unknown(r, d) : PDL_OK;
    d = pdl_doc_get(root, "unbound");
    if (st == PDL_OK && d)
        st = read_unbound(r, d);
    return st == PDL_OK ? built(r, root) : st;
}

enum pdl_status pdl_model_yaml(pdl_arena *a, struct pdl_bytes in,
                               const char *name, const struct pdl_model **out,
                               struct pdl_err *err)
{
    struct reader r = {.arena = a, .err = err, .last = -1};
    const struct pdl_doc *root = NULL;
    enum pdl_status st = pdl_doc_yaml(a, in, name, &root, err);

    if (st != PDL_OK)
        return st;
    if (root->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, err,
                            "expected a model, 'format: "
                            "paradl-model/1' and 'layers'");
    if (!list_keys(&r))
        return no_memory(root, err);
    st = read_head(&r, root);
    if (st == PDL_OK)
        st = read_tensors(&r, root, true);
    if (st == PDL_OK && r.known > 0)
        r.last = 0;
    if (st == PDL_OK)
        st = read_tensors(&r, root, false);
    if (st == PDL_OK)
        st = read_layers(&r, root);
    return st == PDL_OK ? pdl_build_end(r.b, out, err) : st;
}
