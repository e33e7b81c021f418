/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a framework's file. `adds` is a list of groups: habits that one source
 * gives, with its kind. `runs` says what it can run, in the words of the
 * strategy notation, whose parser reads them: what that learns is known here;
 * `exports` says what of it a launch file can have, where that is less.
 * Unknown keys, a habit given twice, and a group without kind or source are
 * refused with their place. */
#include "oracle/habit/framework_reader.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 20 };

enum pdl_status oracle_framework_want(const struct framework_reader *r,
                                      const struct pdl_doc *d,
                                      enum pdl_doc_kind kind)
{
    if (d->kind == kind)
        return PDL_OK;
    return pdl_doc_fail(d, r->err, "%s: expected a %s", d->key ? d->key : "row",
                        kind == PDL_DOC_MAP ? "map" : "list");
}

/* ---- adds ---------------------------------------------------------------- */

static enum pdl_status read_split(const struct framework_reader *r,
                                  const struct pdl_doc *d, enum pdl_split *out)
{
    static const char *const words[] = {"work", "blocks", "greedy"};
    enum { WORDS = sizeof words / sizeof words[0] };
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < WORDS; i++)
        if (strcmp(words[i], text) == 0) {
            *out = (enum pdl_split)i;
            return PDL_OK;
        }
    pdl_doc_fail(d, r->err, "split: '%.40s' is not known", text);
    pdl_hint(r->err, "one of work, blocks, greedy");
    return PDL_EPARSE;
}

static enum pdl_status read_value(const struct framework_reader *r,
                                  const struct framework_key *k,
                                  const struct pdl_doc *d)
{
    void *at = (char *)r->f + k->at;

    switch (k->kind) {
    case FRAMEWORK_FLAG:
        return pdl_doc_bool(d, at, r->err);
    case FRAMEWORK_COUNT:
        return pdl_doc_int(d, 0, (int64_t)k->max, at, r->err);
    case FRAMEWORK_SPLIT:
        return read_split(r, d, at);
    case FRAMEWORK_NUM:
        break;
    }
    return pdl_doc_num(d, k->unit, 0, k->max, at, r->err);
}

/* "counted", "profiled" or "fitted(some set)". */
static bool is_kind(const char *text)
{
    size_t n = strlen(text);

    return strcmp(text, "counted") == 0 || strcmp(text, "profiled") == 0 ||
           (strncmp(text, "fitted(", 7) == 0 && n > 8 && text[n - 1] == ')');
}

static enum pdl_status read_origin(const struct framework_reader *r,
                                   const struct pdl_doc *group,
                                   struct pdl_habit *out)
{
    const struct pdl_doc *kind = pdl_doc_get(group, "kind");
    const struct pdl_doc *source = pdl_doc_get(group, "source");
    enum pdl_status st;

    if (!kind || !source) {
        pdl_doc_fail(group, r->err, "adds: a group without '%s'",
                     kind ? "source" : "kind");
        pdl_hint(r->err, "every number says where it comes from and whether it "
                         "was counted, profiled or fitted(to what)");
        return PDL_EPARSE;
    }
    st = pdl_doc_str(kind, &out->kind, r->err);
    if (st == PDL_OK)
        st = pdl_doc_str(source, &out->source, r->err);
    if (st == PDL_OK && !*out->source)
        return pdl_doc_fail(source, r->err, "source: empty");
    if (st != PDL_OK || is_kind(out->kind))
        return st;
    pdl_doc_fail(kind, r->err, "kind: '%.40s' is none", out->kind);
    pdl_hint(r->err, "counted, profiled or fitted(to what)");
    return PDL_EPARSE;
}

/* Where the habit of this key is, or is to be. */
static struct pdl_habit *slot(const struct framework_reader *r, const char *key)
{
    for (int i = 0; i < r->f->nhabits; i++)
        if (strcmp(r->habit[i].key, key) == 0)
            return &r->habit[i];
    return &r->habit[r->f->nhabits++];
}

static enum pdl_status read_group(struct framework_reader *r,
                                  const struct pdl_doc *group)
{
    const char *known[FRAMEWORK_KEYS + 3] = {"kind", "source"};
    const struct framework_key *k;
    struct pdl_habit origin = {.key = NULL};
    enum pdl_status st = oracle_framework_want(r, group, PDL_DOC_MAP);

    for (int i = 0; (k = oracle_framework_key(i)) != NULL; i++)
        known[i + 2] = k->name;
    if (st == PDL_OK)
        st = pdl_doc_only(group, known, r->err);
    if (st == PDL_OK)
        st = read_origin(r, group, &origin);
    for (int i = 0; st == PDL_OK && (k = oracle_framework_key(i)) != NULL;
         i++) {
        const struct pdl_doc *d = pdl_doc_get(group, k->name);

        if (!d)
            continue;
        if (r->given[i])
            return pdl_doc_fail(d, r->err, "%s: given twice", k->name);
        r->given[i] = 1;
        st = read_value(r, k, d);
        *slot(r, k->name) = (struct pdl_habit){k->name, d->text, k->what,
                                               origin.kind, origin.source};
    }
    return st;
}

/* ---- the file ------------------------------------------------------------ */

static enum pdl_status read_base(struct framework_reader *r,
                                 const struct pdl_doc *d)
{
    const struct pdl_framework *base = NULL;
    const char *name = "";
    enum pdl_status st = pdl_doc_str(d, &name, r->err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; pdl_framework_builtin(i); i++)
        if (strcmp(pdl_framework_builtin(i)->name, name) == 0)
            st = pdl_framework_open(r->a, name, &base, r->err);
    if (st != PDL_OK)
        return st;
    if (!base)
        return pdl_doc_fail(d, r->err, "base: '%.40s' is no built-in framework",
                            name);
    *r->f = *base;
    if (base->nhabits > 0)
        memcpy(r->habit, base->habit, (size_t)base->nhabits * sizeof *r->habit);
    return PDL_OK;
}

static enum pdl_status read_head(struct framework_reader *r,
                                 const struct pdl_doc *root)
{
    static const char *const known[] = {"schema", "name", "title",   "base",
                                        "adds",   "runs", "exports", NULL};
    const struct pdl_doc *name = pdl_doc_get(root, "name"),
                         *title = pdl_doc_get(root, "title"),
                         *base = pdl_doc_get(root, "base"),
                         *schema = pdl_doc_get(root, "schema");
    enum pdl_status st = oracle_framework_want(r, root, PDL_DOC_MAP);

    if (st == PDL_OK)
        st = pdl_doc_only(root, known, r->err);
    if (st == PDL_OK && schema &&
        (schema->kind != PDL_DOC_SCALAR ||
         strcmp(schema->text, "paradl.framework/1") != 0))
        return pdl_doc_fail(schema, r->err,
                            "schema: this program reads paradl.framework/1");
    if (st == PDL_OK && (!name || !title))
        return pdl_doc_fail(root, r->err, "missing key '%s'",
                            name ? "title" : "name");
    if (st == PDL_OK && base)
        st = read_base(r, base);
    if (st == PDL_OK)
        st = pdl_doc_str(name, &r->f->name, r->err);
    return st == PDL_OK ? pdl_doc_str(title, &r->f->title, r->err) : st;
}

static enum pdl_status read_root(struct framework_reader *r,
                                 const struct pdl_doc *root)
{
    const struct pdl_doc *adds = pdl_doc_get(root, "adds"),
                         *runs = pdl_doc_get(root, "runs"),
                         *exports = pdl_doc_get(root, "exports");
    enum pdl_status st = read_head(r, root);

    if (st == PDL_OK && adds)
        st = oracle_framework_want(r, adds, PDL_DOC_LIST);
    for (const struct pdl_doc *d = st == PDL_OK && adds ? adds->child : NULL;
         st == PDL_OK && d; d = d->next)
        st = read_group(r, d);
    if (st == PDL_OK && runs)
        st = oracle_framework_runs(r, runs);
    if (st == PDL_OK && exports)
        st = oracle_framework_exports(r, exports);
    if (st == PDL_OK && r->f->steps && !(r->f->issue_s > 0))
        st = pdl_doc_fail(root, r->err,
                          "steps without issue: the time of "
                          "the host that they count in");
    return st;
}

enum pdl_status pdl_framework_read(pdl_arena *a, struct pdl_bytes in,
                                   const char *name,
                                   const struct pdl_framework **out,
                                   struct pdl_err *err)
{
    struct framework_reader r = {
        .a = a,
        .f = PDL_NEW(a, struct pdl_framework, 1),
        .habit = PDL_NEW(a, struct pdl_habit, FRAMEWORK_KEYS),
        .err = err};
    const struct pdl_doc *root = NULL;
    enum pdl_status st;

    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d KiB", name,
                        MAX_FILE >> 10);
    if (!r.f || !r.habit)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *r.f = (struct pdl_framework){.name = NULL};
    st = pdl_doc_yaml(a, in, name, &root, err);
    if (st == PDL_OK)
        st = read_root(&r, root);
    r.f->habit = r.habit;
    if (st == PDL_OK)
        *out = r.f;
    return st;
}
