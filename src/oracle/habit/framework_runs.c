/* SPDX-License-Identifier: Apache-2.0
 *
 * What a framework can run, and what of it a launch file can say: `runs` and
 * `exports` of its file, in the words of the strategy notation. */
#include "oracle/habit/framework_reader.h"

#include <stdio.h>
#include <string.h>

static enum pdl_status read_axis(const struct framework_reader *r,
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
static enum pdl_status read_axes(const struct framework_reader *r,
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

static enum pdl_status read_products(const struct framework_reader *r,
                                     const struct pdl_doc *list,
                                     struct pdl_abilities *out)
{
    enum pdl_status st = oracle_framework_want(r, list, PDL_DOC_LIST);

    if (st == PDL_OK && list->count > PDL_MAX_PRODUCTS)
        return pdl_doc_fail(list, r->err, "axes: more than %d products",
                            PDL_MAX_PRODUCTS);
    out->naxes = 0;
    for (const struct pdl_doc *d = list->child; st == PDL_OK && d; d = d->next)
        st = read_axes(r, d, &out->axes[out->naxes++]);
    return st;
}

static enum pdl_status read_zero(const struct framework_reader *r,
                                 const struct pdl_doc *map,
                                 struct pdl_abilities *out)
{
    static const char *const stages[] = {"0", "1", "2", "3", NULL};
    enum pdl_status st = oracle_framework_want(r, map, PDL_DOC_MAP);

    if (st == PDL_OK)
        st = pdl_doc_only(map, stages, r->err);
    for (int i = 0; st == PDL_OK && stages[i]; i++) {
        const struct pdl_doc *d = pdl_doc_get(map, stages[i]);

        if (d)
            st = read_axes(r, d, &out->zero[i]);
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

/* Words of other lists, and what of the abilities they set: a bit, or a
 * flag. */
// clang-format off
static const struct choice {
    const char *key, *word, *all;
    size_t at;
    uint32_t bit;
    bool flag; /* bit 0: what it becomes */
} choices[] = {
    {"optimizers", "sgd", "sgd or adam", AT(optimizers), 1 << 1, false},
    {"optimizers", "adam", "sgd or adam", AT(optimizers), 1 << 2, false},
    {"offload", "optimizer", "optimizer or activations", AT(offload_optimizer), 0, true},
    {"offload", "activations", "optimizer or activations", AT(offload_activations), 0, true},
    {"overlap", "on", "on or off", AT(known), 0, true}, /* nothing more */
    {"overlap", "off", "on or off", AT(overlaps), 0, false},
};
// clang-format on
enum { NCHOICES = sizeof choices / sizeof choices[0] };
#undef AT

static enum pdl_status read_word(const struct framework_reader *r,
                                 const struct words *w, const struct pdl_doc *d,
                                 uint32_t *set)
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

static enum pdl_status read_precision(const struct framework_reader *r,
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

static enum pdl_status read_choice(const struct framework_reader *r,
                                   const char *key, const struct pdl_doc *d,
                                   struct pdl_abilities *out)
{
    const char *text = "", *all = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    for (int i = 0; i < NCHOICES && st == PDL_OK; i++) {
        void *at = (char *)out + choices[i].at;

        if (strcmp(choices[i].key, key) != 0)
            continue;
        all = choices[i].all;
        if (strcmp(choices[i].word, text) != 0)
            continue;
        if (choices[i].bit)
            *(uint32_t *)at |= choices[i].bit;
        else
            *(bool *)at = choices[i].flag;
        return PDL_OK;
    }
    return st == PDL_OK ? pdl_doc_fail(d, r->err, "%s: '%.40s' is not %s", key,
                                       text, all)
                        : st;
}

static enum pdl_status read_never(const struct framework_reader *r,
                                  const struct pdl_doc *d,
                                  struct pdl_abilities *out)
{
    if (out->nnever == PDL_MAX_PRODUCTS)
        return pdl_doc_fail(d, r->err, "never_on: more than %d",
                            PDL_MAX_PRODUCTS);
    return pdl_doc_str(d, &out->never_on[out->nnever++], r->err);
}

static enum pdl_status read_orders(const struct framework_reader *r,
                                   const struct pdl_doc *d,
                                   enum pdl_rank_orders *out)
{
    static const char *const orders[] = {"any", "fixed", "data-first"};
    const char *text = "";
    enum pdl_status st = pdl_doc_str(d, &text, r->err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < 3; i++)
        if (strcmp(orders[i], text) == 0) {
            *out = (enum pdl_rank_orders)i;
            return PDL_OK;
        }
    pdl_doc_fail(d, r->err, "orders: '%.40s' is not known", text);
    pdl_hint(r->err, "one of any, fixed, data-first");
    return PDL_EPARSE;
}

static enum pdl_status read_item(const struct framework_reader *r,
                                 const char *key, const struct pdl_doc *d,
                                 struct pdl_abilities *out)
{
    for (int i = 0; i < NWORDS; i++)
        if (strcmp(words[i].key, key) == 0)
            return read_word(r, &words[i], d,
                             (uint32_t *)(void *)((char *)out + words[i].at));
    if (strcmp(key, "precisions") == 0)
        return read_precision(r, d, &out->precisions);
    if (strcmp(key, "never_on") == 0)
        return read_never(r, d, out);
    return read_choice(r, key, d, out);
}

static enum pdl_status read_lists(const struct framework_reader *r,
                                  const struct pdl_doc *map,
                                  struct pdl_abilities *out)
{
    static const char *const lists[] = {"schedules",  "contexts",   "recompute",
                                        "precisions", "optimizers", "offload",
                                        "overlap",    "never_on"};
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct pdl_doc *list = pdl_doc_get(map, lists[i]);

        if (list && st == PDL_OK)
            st = oracle_framework_want(r, list, PDL_DOC_LIST);
        for (const struct pdl_doc *d = list ? list->child : NULL;
             st == PDL_OK && d; d = d->next)
            st = read_item(r, lists[i], d, out);
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

/* Those of `exports` are said to be. */
static enum pdl_status note_abilities(struct framework_reader *r,
                                      const struct pdl_doc *map,
                                      const char *before)
{
    int n = *before ? r->f->nabilities : 0;
    struct pdl_habit *out = PDL_NEW(r->a, struct pdl_habit, n + map->count);

    if (out && n > 0)
        memcpy(out, r->f->ability, (size_t)n * sizeof *out);
    for (const struct pdl_doc *d = map->child; out && d; d = d->next) {
        out[n].key = pdl_arena_printf(r->a, "%s%s", before, d->key);
        out[n].value = text_of(r->a, d);
        if (!out[n].key || !out[n].value)
            out = NULL;
        n++;
    }
    r->f->ability = out;
    r->f->nabilities = n;
    return out ? PDL_OK : pdl_fail(r->err, PDL_ENOMEM, "out of memory");
}

/* Of `runs`, or of `exports`. */
static enum pdl_status read_abilities(const struct framework_reader *r,
                                      const struct pdl_doc *map,
                                      struct pdl_abilities *out)
{
    const struct pdl_doc *axes = pdl_doc_get(map, "axes"),
                         *zero = pdl_doc_get(map, "zero"),
                         *group = pdl_doc_get(map, "zero_group"),
                         *layer = pdl_doc_get(map, "by_layer"),
                         *orders = pdl_doc_get(map, "orders");
    enum pdl_status st = PDL_OK;

    *out = (struct pdl_abilities){.known = true,
                                  .overlaps = pdl_doc_get(map, "overlap"),
                                  .zero = {UINT32_MAX}};
    if (!axes)
        return pdl_doc_fail(map, r->err, "%s: missing key 'axes'", map->key);
    st = read_products(r, axes, out);
    if (st == PDL_OK && zero)
        st = read_zero(r, zero, out);
    if (st == PDL_OK)
        st = read_lists(r, map, out);
    if (st == PDL_OK && group)
        st = pdl_doc_bool(group, &out->zero_group, r->err);
    if (st == PDL_OK && layer)
        st = pdl_doc_bool(layer, &out->by_layer, r->err);
    if (st == PDL_OK && orders)
        st = read_orders(r, orders, &out->orders);
    return st;
}

enum pdl_status oracle_framework_exports(struct framework_reader *r,
                                         const struct pdl_doc *map)
{
    static const char *const known[] = {"axes",      "zero",     "zero_group",
                                        "schedules", "contexts", "recompute",
                                        "by_layer",  "offload",  "overlap",
                                        "orders",    NULL};
    enum pdl_status st = oracle_framework_want(r, map, PDL_DOC_MAP);

    if (st == PDL_OK)
        st = pdl_doc_only(map, known, r->err);
    if (st == PDL_OK)
        st = read_abilities(r, map, &r->f->exports);
    return st == PDL_OK ? note_abilities(r, map, "exports ") : st;
}

enum pdl_status oracle_framework_runs(struct framework_reader *r,
                                      const struct pdl_doc *map)
{
    static const char *const known[] = {
        "axes",       "zero",       "zero_group", "schedules",
        "contexts",   "recompute",  "by_layer",   "offload",
        "overlap",    "export",     "source",     "orders",
        "precisions", "optimizers", "never_on",   NULL};
    struct pdl_abilities *out = &r->f->runs;
    const struct pdl_doc *export = pdl_doc_get(map, "export"),
                         *source = pdl_doc_get(map, "source");
    enum pdl_status st = oracle_framework_want(r, map, PDL_DOC_MAP);

    r->f->exports = (struct pdl_abilities){.known = false};
    if (st == PDL_OK)
        st = pdl_doc_only(map, known, r->err);
    if (st == PDL_OK)
        st = read_abilities(r, map, out);
    if (st == PDL_OK && !source)
        return pdl_doc_fail(map, r->err, "runs: missing key 'source'");
    if (st == PDL_OK && export)
        st = pdl_doc_str(export, &out->exporter, r->err);
    if (st == PDL_OK)
        st = pdl_doc_str(source, &out->source, r->err);
    return st == PDL_OK ? note_abilities(r, map, "") : st;
}
