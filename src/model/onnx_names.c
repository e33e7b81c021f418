/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of an ONNX file: one hash table of (scope, name) -> value. A scope is
 * the main graph, a subgraph (which sees the names around it) or a call of a
 * model function (which sees none). Chained buckets, doubled when full. */
#include "onnx_priv.h"

#include <xxhash.h>

enum { MAX_VALUES = 1 << 22 };

enum pdl_status model_onnx_oom(const struct onnx_graph *g)
{
    return pdl_fail(g->err, PDL_ENOMEM, "%s: too large: out of memory",
                    g->name);
}

enum pdl_status model_onnx_text(const struct onnx_graph *g,
                                ProtobufCBinaryData b, const char **out)
{
    char *s;

    if (b.len == 0) {
        *out = "";
        return PDL_OK;
    }
    if (memchr(b.data, 0, b.len))
        return pdl_fail(g->err, PDL_EPARSE, "%s: a name has a NUL byte in it",
                        g->name);
    s = pdl_arena_strndup(g->arena, (const char *)b.data, b.len);
    if (!s)
        return model_onnx_oom(g);
    *out = s;
    return PDL_OK;
}

int model_onnx_scope(struct onnx_graph *g, int parent)
{
    if (g->nscopes == g->scap) {
        int cap = g->scap ? 2 * g->scap : 16;
        int *p = pdl_arena_grow(g->arena, g->parents, (size_t)g->nscopes,
                                (size_t)cap, sizeof *p);

        if (!p)
            return -1;
        g->parents = p;
        g->scap = cap;
    }
    g->parents[g->nscopes] = parent;
    return g->nscopes++;
}

static uint64_t hash(int scope, const void *name, size_t len)
{
    return XXH3_64bits_withSeed(name, len, (XXH64_hash_t)scope);
}

static int find(const struct onnx_graph *g, int scope, ProtobufCBinaryData b)
{
    int i;

    if (g->nbuckets == 0 || b.len == 0)
        return -1;
    i = g->buckets[hash(scope, b.data, b.len) & (uint64_t)(g->nbuckets - 1)];
    for (; i >= 0; i = g->entries[i].next) {
        const struct onnx_entry *e = &g->entries[i];

        if (e->scope == scope && e->len == b.len &&
            memcmp(e->name, b.data, b.len) == 0)
            return e->value;
    }
    return -1;
}

int model_onnx_lookup(const struct onnx_graph *g, int scope,
                      ProtobufCBinaryData name, bool around)
{
    for (int s = scope; s >= 0; s = around ? g->parents[s] : -1) {
        int v = find(g, s, name);

        if (v >= 0)
            return v;
    }
    return -1;
}

static bool rehash(struct onnx_graph *g)
{
    int n = g->nbuckets ? 2 * g->nbuckets : 256;
    int *b = PDL_NEW(g->arena, int, n);
    struct onnx_entry *e = pdl_arena_grow(
        g->arena, g->entries, (size_t)g->nentries, (size_t)n, sizeof *e);

    if (!b || !e)
        return false;
    memset(b, -1, (size_t)n * sizeof *b);
    for (int i = 0; i < g->nentries; i++) {
        uint64_t h = hash(e[i].scope, e[i].name, e[i].len) & (uint64_t)(n - 1);

        e[i].next = b[h];
        b[h] = i;
    }
    g->buckets = b;
    g->entries = e;
    g->nbuckets = g->ecap = n;
    return true;
}

static enum pdl_status insert(struct onnx_graph *g, int scope, const char *name,
                              size_t len, int value)
{
    uint64_t h;

    if (g->nentries == g->ecap && !rehash(g))
        return model_onnx_oom(g);
    h = hash(scope, name, len) & (uint64_t)(g->nbuckets - 1);
    g->entries[g->nentries] =
        (struct onnx_entry){name, len, scope, value, g->buckets[h]};
    g->buckets[h] = g->nentries++;
    return PDL_OK;
}

static enum pdl_status add_value(struct onnx_graph *g, int *id)
{
    if (g->nvalues == MAX_VALUES)
        return pdl_fail(g->err, PDL_EPARSE, "%s: more than %d values", g->name,
                        MAX_VALUES);
    if (g->nvalues == g->vcap) {
        int cap = g->vcap ? 2 * g->vcap : 256;
        struct onnx_value *v = pdl_arena_grow(
            g->arena, g->values, (size_t)g->nvalues, (size_t)cap, sizeof *v);

        if (!v)
            return model_onnx_oom(g);
        g->values = v;
        g->vcap = cap;
    }
    *id = g->nvalues++;
    g->values[*id] = (struct onnx_value){.node = -1,
                                         .elements = -1,
                                         .outer = -1,
                                         .stored = {.rank = -1, .nval = -1}};
    return PDL_OK;
}

enum pdl_status model_onnx_declare(struct onnx_graph *g, int scope,
                                   ProtobufCBinaryData name, int *id)
{
    const char *text;
    enum pdl_status st = model_onnx_text(g, name, &text);

    if (st)
        return st;
    if (find(g, scope, name) >= 0)
        return pdl_fail(g->err, PDL_EPARSE, "%s: '%.200s' is defined twice",
                        g->name, text);
    st = add_value(g, id);
    if (st)
        return st;
    g->values[*id].name = text;
    g->values[*id].scope = scope;
    return name.len ? insert(g, scope, text, name.len, *id) : PDL_OK;
}

enum pdl_status model_onnx_alias(struct onnx_graph *g, int scope,
                                 ProtobufCBinaryData name, int id)
{
    const char *text;
    enum pdl_status st = model_onnx_text(g, name, &text);

    if (st || name.len == 0)
        return st;
    if (find(g, scope, name) >= 0)
        return pdl_fail(g->err, PDL_EPARSE, "%s: '%.200s' is defined twice",
                        g->name, text);
    return insert(g, scope, text, name.len, id);
}
