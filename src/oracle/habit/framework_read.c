/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a framework's file. `adds` is a list of groups: habits that one source
 * gives, with its kind. `runs` says what it can run, in the words of the
 * strategy notation, whose parser reads them: what that learns is known here.
 * Unknown keys, a habit given twice, and a group without kind or source are
 * refused with their place. */
#include "oracle/habit/framework.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_KEYS = 80 };

struct reader {
    pdl_arena *a;
    struct pdl_framework *f;
    struct pdl_habit *habit; /* MAX_KEYS of them */
    uint8_t given[MAX_KEYS]; /* by the file itself, not by its base */
    struct pdl_err *err;
};

static enum pdl_status want(const struct reader *r, const struct pdl_doc *d,
                            enum pdl_doc_kind kind)
{
    if (d->kind == kind)
        return PDL_OK;
    return pdl_doc_fail(d, r->err, "%s: expected a %s", d->key ? d->key : "row",
                        kind == PDL_DOC_MAP ? "map" : "list");
}

/* ---- adds ---------------------------------------------------------------- */

static enum pdl_status read_split(const struct reader *r,
                                  const struct pdl_doc *d, enum pdl_split *out)
{
    static const char *const words[] = {"work", "blocks", "greedy"};
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < 3; i++)
        if (strcmp(words[i], text) == 0) {
            *out = (enum pdl_split)i;
            return PDL_OK;
        }
    pdl_doc_fail(d, r->err, "split: '%.40s' is not known", text);
    pdl_hint(r->err, "one of work, blocks, greedy");
    return PDL_EPARSE;
}

static enum pdl_status read_value(const struct reader *r,
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

static enum pdl_status read_origin(const struct reader *r,
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
static struct pdl_habit *slot(const struct reader *r, const char *key)
{
    for (int i = 0; i < r->f->nhabits; i++)
        if (strcmp(r->habit[i].key, key) == 0)
            return &r->habit[i];
    return &r->habit[r->f->nhabits++];
}

static enum pdl_status read_group(struct reader *r, const struct pdl_doc *group)
{
    const char *known[MAX_KEYS + 3] = {"kind", "source"};
    const struct framework_key *k;
    struct pdl_habit origin = {.key = NULL};
    enum pdl_status st = want(r, group, PDL_DOC_MAP);

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

/* ---- runs ---------------------------------------------------------------- */

static enum pdl_status read_axis(const struct reader *r,
                                 const struct pdl_doc *d, const char *word,
                                 uint32_t *set)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, word);
    pdl_suggest_try(&s, "sequence");
    for (int i = 0; i < PDL_NAXES; i++) {
        pdl_suggest_try(&s, pdl_axis_name((enum pdl_axis)i));
        if (strcmp(word, pdl_axis_name((enum pdl_axis)i)) == 0) {
            *set |= UINT32_C(1) << i;
            return PDL_OK;
        }
    }
    if (strcmp(word, "sequence") == 0) {
        *set |= UINT32_C(1) << PDL_AXIS_SEQUENCE;
        return PDL_OK;
    }
    pdl_doc_fail(d, r->err, "no axis '%.40s'", word);
    if (pdl_suggest_best(&s))
        pdl_hint(r->err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EPARSE;
}

/* "data+tensor+pipe" */
static enum pdl_status read_axes(const struct reader *r,
                                 const struct pdl_doc *d, uint32_t *set)
{
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    *set = 0;
    for (;;) {
        size_t n = strcspn(text, "+");
        char word[24];

        snprintf(word, sizeof word, "%.*s", n < 23 ? (int)n : 23, text);
        if (st == PDL_OK)
            st = read_axis(r, d, word, set);
        if (st != PDL_OK || !text[n])
            return st;
        text += n + 1;
    }
}

static enum pdl_status read_products(const struct reader *r,
                                     const struct pdl_doc *list,
                                     struct pdl_abilities *out)
{
    enum pdl_status st = want(r, list, PDL_DOC_LIST);

    if (st == PDL_OK && list->count > PDL_MAX_PRODUCTS)
        return pdl_doc_fail(list, r->err, "axes: more than %d products",
                            PDL_MAX_PRODUCTS);
    out->naxes = 0;
    for (const struct pdl_doc *d = list->child; st == PDL_OK && d; d = d->next)
        st = read_axes(r, d, &out->axes[out->naxes++]);
    return st;
}

static enum pdl_status read_zero(const struct reader *r,
                                 const struct pdl_doc *map,
                                 struct pdl_abilities *out)
{
    static const char *const stages[] = {"1", "2", "3", NULL};
    enum pdl_status st = want(r, map, PDL_DOC_MAP);

    if (st == PDL_OK)
        st = pdl_doc_only(map, stages, r->err);
    for (int i = 0; st == PDL_OK && stages[i]; i++) {
        const struct pdl_doc *d = pdl_doc_get(map, stages[i]);

        out->zero[i + 1] = 0;
        if (d)
            st = read_axes(r, d, &out->zero[i + 1]);
    }
    return st;
}

/* What a word of a list is in the notation, and where it ends up there. */
static int schedule(const struct pdl_strategy *s)
{
    return (int)s->schedule;
}

static int context(const struct pdl_strategy *s)
{
    return (int)s->context_kind;
}

static int recompute(const struct pdl_strategy *s)
{
    return (int)s->recompute;
}

#define AT(member) offsetof(struct pdl_abilities, member)
static const struct words {
    const char *key, *before, *after;
    int (*get)(const struct pdl_strategy *);
    size_t at;
} words[] = {
    {"schedules", "pipe=2(", ")", schedule, AT(schedules)},
    {"contexts", "context=2(", ")", context, AT(contexts)},
    {"recompute", "recompute=", "", recompute, AT(recompute)},
};
enum { NWORDS = sizeof words / sizeof words[0] };
#undef AT

static enum pdl_status read_word(const struct reader *r, const struct words *w,
                                 const struct pdl_doc *d, uint32_t *set)
{
    const char *text = "";
    struct pdl_strategy s;
    struct pdl_err inner = {"", ""};
    enum pdl_status st = pdl_doc_str(d, &text, r->err);
    const char *all;

    if (st != PDL_OK)
        return st;
    all = strpbrk(text, ",;:()=* ") || !*text
              ? ""
              : pdl_arena_printf(r->a, "%s%s%s", w->before, text, w->after);
    if (!all)
        return pdl_fail(r->err, PDL_ENOMEM, "out of memory");
    if (!*all || pdl_strategy_parse(r->a, all, &s, &inner) != PDL_OK) {
        pdl_doc_fail(d, r->err, "%s: '%.40s' is not known", w->key, text);
        if (*inner.hint)
            pdl_hint(r->err, "%s", inner.hint);
        return PDL_EPARSE;
    }
    *set |= UINT32_C(1) << w->get(&s);
    return PDL_OK;
}

static enum pdl_status read_precision(const struct reader *r,
                                      const struct pdl_doc *d, uint32_t *set)
{
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);
    enum pdl_precision p =
        st == PDL_OK ? pdl_precision_find(text) : PDL_NPRECISIONS;

    if (st != PDL_OK)
        return st;
    if (p >= PDL_NPRECISIONS)
        return pdl_doc_fail(d, r->err, "no precision '%.40s'", text);
    *set |= UINT32_C(1) << p;
    return PDL_OK;
}

static enum pdl_status read_optimizer(const struct reader *r,
                                      const struct pdl_doc *d, uint32_t *set)
{
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    if (st != PDL_OK)
        return st;
    if (strcmp(text, "sgd") != 0 && strcmp(text, "adam") != 0)
        return pdl_doc_fail(d, r->err, "optimizers: '%.40s' is not sgd or adam",
                            text);
    *set |= *text == 'a' ? UINT32_C(1) << 2 : UINT32_C(1) << 1;
    return PDL_OK;
}

static enum pdl_status read_offload(struct reader *r, const struct pdl_doc *d,
                                    struct pdl_abilities *out)
{
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    if (st != PDL_OK)
        return st;
    if (strcmp(text, "optimizer") == 0)
        out->offload_optimizer = true;
    else if (strcmp(text, "activations") == 0)
        out->offload_activations = true;
    else
        return pdl_doc_fail(d, r->err,
                            "offload: '%.40s' is not optimizer or activations",
                            text);
    return PDL_OK;
}

static enum pdl_status read_item(struct reader *r, const char *key,
                                 const struct pdl_doc *d)
{
    struct pdl_abilities *out = &r->f->runs;

    for (int i = 0; i < NWORDS; i++)
        if (strcmp(words[i].key, key) == 0)
            return read_word(r, &words[i], d,
                             (uint32_t *)(void *)((char *)out + words[i].at));
    if (strcmp(key, "precisions") == 0)
        return read_precision(r, d, &out->precisions);
    if (strcmp(key, "optimizers") == 0)
        return read_optimizer(r, d, &out->optimizers);
    return read_offload(r, d, out);
}

static enum pdl_status read_lists(struct reader *r, const struct pdl_doc *map)
{
    static const char *const lists[] = {"schedules",  "contexts",   "recompute",
                                        "precisions", "optimizers", "offload"};
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct pdl_doc *list = pdl_doc_get(map, lists[i]);

        if (list && st == PDL_OK)
            st = want(r, list, PDL_DOC_LIST);
        for (const struct pdl_doc *d = list ? list->child : NULL;
             st == PDL_OK && d; d = d->next)
            st = read_item(r, lists[i], d);
    }
    return st;
}

/* A value as text: "1f1b, gpipe", "1 beside data+pipe, 3 beside data". */
static const char *text_of(pdl_arena *a, const struct pdl_doc *d)
{
    const char *all = d->text;

    for (const struct pdl_doc *x = d->child; x; x = x->next)
        all = pdl_arena_printf(a, "%s%s%s%s%s", x == d->child ? "" : all,
                               x == d->child ? "" : ", ", x->key ? x->key : "",
                               x->key ? " beside " : "", x->text);
    return d->child || all ? all : "";
}

static enum pdl_status note_abilities(struct reader *r,
                                      const struct pdl_doc *map)
{
    struct pdl_habit *out = PDL_NEW(r->a, struct pdl_habit, map->count);
    int n = 0;

    for (const struct pdl_doc *d = map->child; out && d; d = d->next) {
        out[n].key = d->key;
        out[n].value = text_of(r->a, d);
        if (!out[n++].value)
            out = NULL;
    }
    r->f->ability = out;
    r->f->nabilities = n;
    return out ? PDL_OK : pdl_fail(r->err, PDL_ENOMEM, "out of memory");
}

static enum pdl_status read_runs(struct reader *r, const struct pdl_doc *map)
{
    static const char *const known[] = {
        "axes",       "zero",     "zero_group", "schedules", "contexts",
        "recompute",  "by_layer", "offload",    "export",    "precisions",
        "optimizers", "source",   NULL};
    struct pdl_abilities *out = &r->f->runs;
    const struct pdl_doc *axes = pdl_doc_get(map, "axes"),
                         *zero = pdl_doc_get(map, "zero"),
                         *group = pdl_doc_get(map, "zero_group"),
                         *layer = pdl_doc_get(map, "by_layer"),
                         *export = pdl_doc_get(map, "export"),
                         *source = pdl_doc_get(map, "source");
    enum pdl_status st = want(r, map, PDL_DOC_MAP);

    *out = (struct pdl_abilities){.known = true};
    if (st == PDL_OK)
        st = pdl_doc_only(map, known, r->err);
    if (st == PDL_OK && (!source || !axes))
        return pdl_doc_fail(map, r->err, "runs: missing key '%s'",
                            axes ? "source" : "axes");
    if (st == PDL_OK)
        st = read_products(r, axes, out);
    if (st == PDL_OK && zero)
        st = read_zero(r, zero, out);
    if (st == PDL_OK)
        st = read_lists(r, map);
    if (st == PDL_OK && group)
        st = pdl_doc_bool(group, &out->zero_group, r->err);
    if (st == PDL_OK && layer)
        st = pdl_doc_bool(layer, &out->by_layer, r->err);
    if (st == PDL_OK && export)
        st = pdl_doc_str(export, &out->exporter, r->err);
    if (st == PDL_OK)
        st = pdl_doc_str(source, &out->source, r->err);
    return st == PDL_OK ? note_abilities(r, map) : st;
}

/* ---- the file ------------------------------------------------------------ */

static enum pdl_status read_base(struct reader *r, const struct pdl_doc *d)
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

static enum pdl_status read_head(struct reader *r, const struct pdl_doc *root)
{
    static const char *const known[] = {"schema", "name", "title", "base",
                                        "adds",   "runs", NULL};
    const struct pdl_doc *name = pdl_doc_get(root, "name"),
                         *title = pdl_doc_get(root, "title"),
                         *base = pdl_doc_get(root, "base"),
                         *schema = pdl_doc_get(root, "schema");
    enum pdl_status st = want(r, root, PDL_DOC_MAP);

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

static enum pdl_status read_root(struct reader *r, const struct pdl_doc *root)
{
    const struct pdl_doc *adds = pdl_doc_get(root, "adds"),
                         *runs = pdl_doc_get(root, "runs");
    enum pdl_status st = read_head(r, root);

    if (st == PDL_OK && adds)
        st = want(r, adds, PDL_DOC_LIST);
    for (const struct pdl_doc *d = st == PDL_OK && adds ? adds->child : NULL;
         st == PDL_OK && d; d = d->next)
        st = read_group(r, d);
    if (st == PDL_OK && runs)
        st = read_runs(r, runs);
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
    struct reader r = {.a = a,
                       .f = PDL_NEW(a, struct pdl_framework, 1),
                       .habit = PDL_NEW(a, struct pdl_habit, MAX_KEYS),
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
