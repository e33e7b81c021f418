/* SPDX-License-Identifier: Apache-2.0
 *
 * From a document tree to a description, driven by the table of keys. Unknown
 * keys, numbers without their unit, wrong kinds, values out of range and
 * missing keys are refused, each with the place and the dotted path. A key
 * that is absent keeps what is there: the default, or what "base" brought. */
#include "system_priv.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ROWS = 1 << 20, MAX_FILE = 64 << 20 };

struct reader {
    pdl_arena *a;
    struct pdl_err *err;
    bool partial; /* on top of a base: nothing is required */
    char path[SYSTEM_PATH];
};

static enum pdl_status read_map(struct reader *r, const struct system_table *t,
                                const struct pdl_doc *map, void *base);

/* Extends the path; the returned length restores it. */
static size_t enter(struct reader *r, const char *name)
{
    size_t len = strlen(r->path);

    snprintf(r->path + len, sizeof r->path - len, "%s%s", len ? "." : "", name);
    return len;
}

static enum pdl_status place(const struct reader *r, const struct pdl_doc *d,
                             enum pdl_status st)
{
    struct pdl_err inner;

    if (!r->err || st == PDL_OK)
        return st;
    inner = *r->err;
    pdl_say(r->err, "%s:%d:%d: %s: %s", d->file, d->line, d->col, r->path,
            inner.msg);
    if (*inner.hint)
        pdl_hint(r->err, "%s", inner.hint);
    return st;
}

static enum pdl_status want(const struct reader *r, const struct pdl_doc *d,
                            enum pdl_doc_kind kind)
{
    static const char *const kinds[] = {"nothing", "a value", "a list",
                                        "a map"};

    if (d->kind == kind)
        return PDL_OK;
    return pdl_fail(r->err, PDL_EPARSE, "%s:%d:%d: %s%sexpected %s, found %s",
                    d->file, d->line, d->col, r->path, *r->path ? ": " : "",
                    kinds[kind], kinds[d->kind]);
}

static enum pdl_status no_memory(const struct reader *r,
                                 const struct pdl_doc *d)
{
    return pdl_fail(r->err, PDL_ENOMEM, "%s: too large to hold in memory",
                    d->file);
}

static enum pdl_status read_ints(struct reader *r, const struct pdl_doc *list,
                                 struct pdl_ints *out)
{
    enum pdl_status st = want(r, list, PDL_DOC_LIST);
    int64_t *v, n = 0;

    if (st != PDL_OK)
        return st;
    v = PDL_NEW(r->a, int64_t, list->count);
    if (!v)
        return no_memory(r, list);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        st = want(r, d, PDL_DOC_SCALAR);
        if (st == PDL_OK)
            st = place(
                r, d,
                pdl_int_parse(d->text, INT64_MIN, INT64_MAX, &v[n++], r->err));
        if (st != PDL_OK)
            return st;
    }
    *out = (struct pdl_ints){v, n};
    return PDL_OK;
}

static enum pdl_status read_introws(struct reader *r,
                                    const struct system_field *f,
                                    const struct pdl_doc *list, void *base)
{
    enum pdl_status st = want(r, list, PDL_DOC_LIST);
    struct pdl_ints *rows;
    int64_t n = 0;

    if (st != PDL_OK)
        return st;
    rows = PDL_NEW(r->a, struct pdl_ints, list->count);
    if (!rows)
        return no_memory(r, list);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        st = read_ints(r, d, &rows[n++]);
        if (st != PDL_OK)
            return st;
    }
    *(const struct pdl_ints **)((char *)base + f->at) = rows;
    *(int64_t *)((char *)base + f->count_at) = n;
    return PDL_OK;
}

static enum pdl_status read_texts(struct reader *r,
                                  const struct system_field *f,
                                  const struct pdl_doc *list, void *base)
{
    enum pdl_status st = want(r, list, PDL_DOC_LIST);
    const char **texts;
    int64_t n = 0;

    if (st != PDL_OK)
        return st;
    texts = PDL_NEW(r->a, const char *, list->count);
    if (!texts)
        return no_memory(r, list);
    for (const struct pdl_doc *d = list->child; d; d = d->next) {
        st = want(r, d, PDL_DOC_SCALAR);
        if (st != PDL_OK)
            return st;
        texts[n++] = d->text;
    }
    *(const char *const **)((char *)base + f->at) = texts;
    *(int64_t *)((char *)base + f->count_at) = n;
    return PDL_OK;
}

static enum pdl_status read_rows(struct reader *r, const struct system_field *f,
                                 const struct pdl_doc *list, void *base)
{
    enum pdl_status st = want(r, list, PDL_DOC_LIST);
    bool partial = r->partial;
    int64_t n = 0;
    char *rows;

    if (st != PDL_OK)
        return st;
    r->partial = false;
    rows = pdl_arena_alloc(r->a, (size_t)list->count, f->sub->size);
    if (!rows)
        return no_memory(r, list);
    for (const struct pdl_doc *d = list->child; d; d = d->next, n++) {
        void *row = rows + (size_t)n * f->sub->size;
        char number[24];
        size_t mark;

        snprintf(number, sizeof number, "%lld", (long long)n);
        mark = enter(r, number);
        system_defaults(f->sub, row);
        st = read_map(r, f->sub, d, row);
        r->path[mark] = '\0';
        if (st != PDL_OK)
            return st;
    }
    r->partial = partial;
    *(void **)((char *)base + f->at) = rows;
    *(int64_t *)((char *)base + f->count_at) = n;
    return PDL_OK;
}

/* type and whatever else, as text: the net room knows the parameters. */
static enum pdl_status read_topology(struct reader *r,
                                     const struct pdl_doc *map,
                                     struct pdl_network *net)
{
    enum pdl_status st = want(r, map, PDL_DOC_MAP);
    struct pdl_pair *params;

    if (st != PDL_OK)
        return st;
    params = PDL_NEW(r->a, struct pdl_pair, map->count);
    if (!params)
        return no_memory(r, map);
    net->topology = NULL;
    net->params = params;
    net->nparams = 0;
    for (const struct pdl_doc *d = map->child; d; d = d->next) {
        size_t mark = enter(r, d->key);

        st = want(r, d, PDL_DOC_SCALAR);
        r->path[mark] = '\0';
        if (st != PDL_OK)
            return st;
        if (strcmp(d->key, "type") == 0)
            net->topology = d->text;
        else
            params[net->nparams++] = (struct pdl_pair){d->key, d->text};
    }
    if (!net->topology)
        return pdl_fail(r->err, PDL_EPARSE, "%s:%d:%d: missing key '%s.type'",
                        map->file, map->line, map->col, r->path);
    return PDL_OK;
}

/* A name of the library, or a map that may start from one. */
static enum pdl_status read_pe(struct reader *r, const struct pdl_doc *d,
                               struct pdl_pe *pe)
{
    const struct pdl_doc *base = pdl_doc_get(d, "base");
    const char *name = d->kind == PDL_DOC_SCALAR ? d->text : NULL;

    if (base && base->kind == PDL_DOC_SCALAR)
        name = base->text;
    if (name) {
        enum pdl_status st = pdl_pe_open(r->a, name, pe, r->err);

        if (st != PDL_OK)
            return place(r, base ? base : d, st);
    }
    if (d->kind == PDL_DOC_SCALAR)
        return PDL_OK;
    return read_map(r, &system_pe_table, d, pe);
}

static enum pdl_status read_field(struct reader *r,
                                  const struct system_field *f,
                                  const struct pdl_doc *d, void *base)
{
    void *at = (char *)base + f->at;
    enum pdl_status st;

    switch (f->kind) {
    case SYSTEM_TEXTS:
        return read_texts(r, f, d, base);
    case SYSTEM_INTS: {
        struct pdl_ints ints = {NULL, 0};

        st = read_ints(r, d, &ints);
        if (st == PDL_OK) {
            *(const int64_t **)at = ints.v;
            *(int64_t *)((char *)base + f->count_at) = ints.n;
        }
        return st;
    }
    case SYSTEM_INTROWS:
        return read_introws(r, f, d, base);
    case SYSTEM_ROWS:
        return read_rows(r, f, d, base);
    case SYSTEM_MAP:
        return read_map(r, f->sub, d, at);
    case SYSTEM_PE:
        return read_pe(r, d, at);
    case SYSTEM_TOPOLOGY:
        /* lies at the start of struct pdl_network */
        return read_topology(r, d, base);
    default:
        st = want(r, d, PDL_DOC_SCALAR);
        if (st != PDL_OK)
            return st;
        return place(r, d, system_scalar(r->a, f, base, d->text, r->err));
    }
}

static enum pdl_status only_known(struct reader *r,
                                  const struct system_table *t,
                                  const struct pdl_doc *map)
{
    const char *keys[SYSTEM_MAX_FIELDS + 3];
    int n = 0;

    for (int i = 0; i < t->count; i++)
        keys[n++] = t->fields[i].name;
    if (t == &system_root || t == &system_pe_table)
        keys[n++] = "base";
    if (t == &system_root)
        keys[n++] = "schema";
    keys[n] = NULL;
    return pdl_doc_only(map, keys, r->err);
}

static bool is_set(const struct system_field *f, const void *base)
{
    const void *at = (const char *)base + f->at;

    if (f->kind == SYSTEM_TEXT)
        return *(const char *const *)at != NULL;
    if (f->kind == SYSTEM_PE)
        return ((const struct pdl_pe *)at)->name != NULL;
    return false;
}

static enum pdl_status read_map(struct reader *r, const struct system_table *t,
                                const struct pdl_doc *map, void *base)
{
    enum pdl_status st = want(r, map, PDL_DOC_MAP);

    if (st == PDL_OK)
        st = only_known(r, t, map);
    for (int i = 0; st == PDL_OK && i < t->count; i++) {
        const struct system_field *f = &t->fields[i];
        const struct pdl_doc *d = pdl_doc_get(map, f->name);
        size_t mark = enter(r, f->name);

        if (d)
            st = read_field(r, f, d, base);
        else if (f->required && !r->partial && !is_set(f, base))
            st = pdl_fail(r->err, PDL_EPARSE, "%s:%d:%d: missing key '%s'",
                          map->file, map->line, map->col, r->path);
        r->path[mark] = '\0';
    }
    return st;
}

enum pdl_status system_read_table(pdl_arena *a, const struct system_table *t,
                                  const struct pdl_doc *map, void *base,
                                  struct pdl_err *err)
{
    struct reader r = {.a = a, .err = err, .path = ""};

    return read_map(&r, t, map, base);
}

static enum pdl_status check_schema(const struct pdl_doc *root,
                                    struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(root, "schema");

    if (!d)
        return PDL_OK;
    if (d->kind == PDL_DOC_SCALAR && strcmp(d->text, "paradl.system/1") == 0)
        return PDL_OK;
    return pdl_doc_fail(d, err, "schema: this program reads paradl.system/1");
}

/* A machine of several: what they have in common, before the file's own
 * keys. */
static enum pdl_status read_groups(struct reader *r, const struct pdl_doc *root,
                                   bool inside, struct pdl_system *sys)
{
    const struct pdl_doc *d = pdl_doc_get(root, "groups");
    const struct system_field *f = system_root.fields;
    enum pdl_status st;

    if (!d)
        return PDL_OK;
    if (inside)
        return pdl_doc_fail(d, r->err, "groups: a group has no groups");
    if (pdl_doc_get(root, "pe_groups") || pdl_doc_get(root, "base"))
        return pdl_doc_fail(d, r->err,
                            "groups: beside 'base' or 'pe_groups' they would "
                            "say twice what the nodes are");
    while (strcmp(f->name, "groups") != 0)
        f++;
    snprintf(r->path, sizeof r->path, "groups");
    st = read_rows(r, f, d, sys);
    r->path[0] = '\0';
    return st == PDL_OK ? system_join(r->a, d, sys, r->err) : st;
}

static enum pdl_status read_base(struct reader *r, const struct pdl_doc *root,
                                 bool inside, struct pdl_system *sys)
{
    const struct pdl_doc *base = pdl_doc_get(root, "base");

    system_defaults(&system_root, sys);
    r->partial = base != NULL || pdl_doc_get(root, "groups") != NULL;
    if (!base || pdl_doc_get(root, "groups"))
        return read_groups(r, root, inside, sys);
    if (base->kind != PDL_DOC_SCALAR ||
        !system_builtin_find(system_builtins, base->text))
        return pdl_doc_fail(base, r->err,
                            "base: not the name of a built-in system");
    return pdl_system_open(r->a, base->text, sys, r->err);
}

static enum pdl_status place_file(const char *name, enum pdl_status st,
                                  struct pdl_err *err)
{
    struct pdl_err inner;

    if (st == PDL_OK || st == PDL_ENOMEM || !err)
        return st;
    inner = *err;
    pdl_say(err, "%s: %s", name, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

enum pdl_status system_read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            bool inside, struct pdl_system *out,
                            struct pdl_err *err)
{
    struct reader r = {.a = a, .err = err, .path = ""};
    const struct pdl_doc *root = NULL;
    struct pdl_system sys = {.name = NULL};
    const struct pdl_node_group *groups;
    enum pdl_status st;

    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d MiB", name,
                        MAX_FILE >> 20);
    st = pdl_doc_yaml(a, in, name, &root, err);
    if (st == PDL_OK)
        st = check_schema(root, err);
    if (st == PDL_OK)
        st = read_base(&r, root, inside, &sys);
    groups = sys.groups;
    if (st == PDL_OK)
        st = read_map(&r, &system_root, root, &sys);
    if (st != PDL_OK)
        return st;
    if (groups)
        sys.groups = groups; /* the rows without what they mean came again */
    if (sys.built_nodes < 0)
        sys.built_nodes = sys.nodes;
    st = place_file(name, pdl_system_update(a, &sys, err), err);
    if (st == PDL_OK)
        *out = sys;
    return st;
}

enum pdl_status pdl_system_read(pdl_arena *a, struct pdl_bytes in,
                                const char *name, struct pdl_system *out,
                                struct pdl_err *err)
{
    return system_read(a, in, name, false, out, err);
}
