/* SPDX-License-Identifier: Apache-2.0
 *
 * The strategy notation: clauses separated by ';', each "[layers:] term,
 * term, ...". A term is an axis ("data=8", "spatial=2x2", "tensor=8+seq",
 * "pipe=4(1f1b,m=16)", "data=4@fast:2*3+slow:2*1") or an option of the whole
 * plan ("zero=1"). The
 * words are in strategy_words.c, the way back in strategy_print.c.
 * The clause of "*" (or without layers) comes first wherever it is written. */
#include "strategy.h"

#include <stdio.h>
#include <string.h>

/* ---- parser ------------------------------------------------------------ */

struct reader {
    pdl_arena *arena;
    const char *text;
    const char *at; /* start of what is being read, for the column */
    struct pdl_strategy *out;
    struct pdl_err *err;
    uint32_t seen; /* options */
};

#define BAD(rd, ...)                                        \
    (bad((rd), pdl_arena_printf((rd)->arena, __VA_ARGS__)), \
     pdl_same(PDL_EPARSE))

static void bad(struct reader *rd, const char *what)
{
    pdl_say(rd->err, "strategy:%d: %s", (int)(rd->at - rd->text) + 1,
            what ? what : "out of memory");
}

/* A copy of [from, to) without blanks around it. */
static const char *trimmed(struct reader *rd, const char *from, const char *to)
{
    while (from < to && *from == ' ')
        from++;
    while (to > from && to[-1] == ' ')
        to--;
    return pdl_arena_strndup(rd->arena, from, (size_t)(to - from));
}

/* The same of the text itself: messages will point there. */
static const char *word(struct reader *rd, const char *from, const char *to)
{
    while (from < to && *from == ' ')
        from++;
    rd->at = from;
    return trimmed(rd, from, to);
}

/* The next piece up to a separator outside parentheses. */
static const char *piece_end(const char *p, char separator)
{
    int depth = 0;

    for (; *p && !(depth == 0 && *p == separator); p++)
        depth += *p == '(' ? 1 : *p == ')' && depth > 0 ? -1 : 0;
    return p;
}

static enum pdl_status read_count(struct reader *rd, const char *name,
                                  const char *value, int64_t *out)
{
    struct pdl_err inner;

    if (pdl_int_parse(value, 1, INT64_C(1) << 40, out, &inner) == PDL_OK)
        return PDL_OK;
    return BAD(rd, "%s: %s", name, inner.msg);
}

static int find_word(const char *const *words, const char *value)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    return -1;
}

static enum pdl_status read_choice(struct reader *rd, const char *name,
                                   const char *const *words, const char *value,
                                   int *out)
{
    char list[128];
    size_t n = 0;

    *out = find_word(words, value);
    if (*out >= 0)
        return PDL_OK;
    for (int i = 0; words[i] && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              words[i]);
    BAD(rd, "%s: '%.40s' is not known", name, value);
    pdl_hint(rd->err, "one of %s", list);
    return PDL_EPARSE;
}

/* "2x2x2" */
static enum pdl_status read_sizes(struct reader *rd, struct pdl_term *t,
                                  const char *value)
{
    const char *name = pdl_axis_name(t->axis);
    int max = t->axis == PDL_AXIS_SPATIAL ? 3 : 1;

    t->nsizes = 0;
    for (const char *p = value;; p++) {
        const char *end = p + strcspn(p, "x");
        const char *one = pdl_arena_strndup(rd->arena, p, (size_t)(end - p));
        enum pdl_status st;

        if (!one)
            return BAD(rd, "out of memory");
        if (t->nsizes == max)
            return BAD(rd, "%s=%.40s: at most %d size%s", name, value, max,
                       max > 1 ? "s" : "");
        st = read_count(rd, name, one, &t->size[t->nsizes]);
        if (st != PDL_OK)
            return st;
        t->nsizes++;
        p = end;
        if (!*p)
            return PDL_OK;
    }
}

static enum pdl_status pipe_argument(struct reader *rd, const char *arg)
{
    struct pdl_strategy *s = rd->out;
    int k;
    enum pdl_status st;

    if (strncmp(arg, "m=", 2) == 0)
        return read_count(rd, "m", arg + 2, &s->micro_batches);
    if (strncmp(arg, "v=", 2) == 0)
        return read_count(rd, "v", arg + 2, &s->virtual_stages);
    if (strncmp(arg, "at=", 3) == 0) {
        s->cuts = arg + 3;
        return arg[3] && !strpbrk(arg, ";: ")
                   ? PDL_OK
                   : BAD(rd, "pipe: 'at' wants layers: at=conv3+fc6");
    }
    st = read_choice(rd, "pipe", plan_schedules, arg, &k);
    if (st == PDL_OK)
        s->schedule = (enum pdl_schedule)k;
    return st;
}

static enum pdl_status context_argument(struct reader *rd, const char *arg)
{
    struct pdl_strategy *s = rd->out;
    int k = find_word(plan_context_kinds, arg);
    enum pdl_status st;

    if (k >= 0) {
        s->context_kind = (enum pdl_context_kind)k;
        return PDL_OK;
    }
    st = read_choice(rd, "context", plan_context_orders, arg, &k);
    if (st == PDL_OK)
        s->context_order = (enum pdl_context_order)k;
    else
        pdl_hint(rd->err, "one of ring, a2a, gather, zigzag, plain");
    return st;
}

static enum pdl_status expert_argument(struct reader *rd, const char *arg)
{
    double *x = &rd->out->imbalance;

    if (strncmp(arg, "imbalance=", 10) == 0 &&
        pdl_unit_parse(arg + 10, PDL_UNIT_NONE, x, NULL) == PDL_OK && *x >= 1 &&
        *x <= 1e6) {
        *x = *x > 1 ? *x : 0;
        return PDL_OK;
    }
    BAD(rd, "expert: '%.40s' is not imbalance=X, X at least 1", arg);
    pdl_hint(rd->err, "write it like expert=8(imbalance=1.3)");
    return PDL_EPARSE;
}

/* What stands in parentheses after the size of an axis. */
static enum pdl_status read_arguments(struct reader *rd, enum pdl_axis axis,
                                      const char *from, const char *to)
{
    while (from <= to) {
        const char *end = from + strcspn(from, ",)");
        const char *arg = trimmed(rd, from, end < to ? end : to);
        enum pdl_status st;

        if (!arg)
            return BAD(rd, "out of memory");
        if (axis == PDL_AXIS_PIPE)
            st = pipe_argument(rd, arg);
        else if (axis == PDL_AXIS_CONTEXT)
            st = context_argument(rd, arg);
        else if (axis == PDL_AXIS_EXPERT)
            st = expert_argument(rd, arg);
        else
            st = BAD(rd, "%s takes no '(%.40s)'", pdl_axis_name(axis), arg);
        if (st != PDL_OK)
            return st;
        from = end + 1;
        if (end >= to)
            break;
    }
    return PDL_OK;
}

/* ---- on which nodes ------------------------------------------------------ */

enum { MAX_PARTS = 64, MAX_SHARE = 4096 };

/* "h100:2*3", of [from, to): a group, how many ranks, how many shares each. */
static enum pdl_status read_part(struct reader *rd, const char *from,
                                 const char *to, struct pdl_term_part *out)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *one = pdl_arena_strndup(rd->arena, from, (size_t)(to - from));
    size_t n = one ? strspn(one, name) : 0;
    char *group = one ? pdl_arena_strndup(rd->arena, one, n) : NULL;
    char *count = NULL;
    enum pdl_status st = PDL_OK;

    if (!group)
        return BAD(rd, "out of memory");
    if (n == 0 || (one[n] && one[n] != ':'))
        return BAD(rd, "'@%.40s' is not GROUP:COUNT", one);
    *out = (struct pdl_term_part){.group = group};
    if (!one[n])
        return PDL_OK;
    count =
        pdl_arena_strndup(rd->arena, one + n + 1, strcspn(one + n + 1, "*"));
    one = strchr(one, '*');
    if (!count)
        return BAD(rd, "out of memory");
    st = read_count(rd, group, count, &out->count);
    if (st == PDL_OK && one)
        st = read_count(rd, group, one + 1, &out->share);
    if (st == PDL_OK && out->share > MAX_SHARE)
        st = BAD(rd, "%s: at most %d shares", group, (int)MAX_SHARE);
    return st;
}

/* All say how many, and these are the axis; or none does, as with shares. */
static enum pdl_status check_parts(struct reader *rd, const struct pdl_term *t)
{
    int64_t sum = 0, counts = 0, shares = 0;

    for (int i = 0; i < t->nparts; i++) {
        sum += t->part[i].count;
        counts += t->part[i].count > 0;
        shares += t->part[i].share > 0;
    }
    if ((counts && counts != t->nparts) || (shares && shares != t->nparts))
        return BAD(rd, "%s: all groups say how many, or none",
                   pdl_axis_name(t->axis));
    if (counts && sum != t->size[0])
        return BAD(rd, "%s=%lld: its groups have %lld", pdl_axis_name(t->axis),
                   (long long)t->size[0], (long long)sum);
    if (shares && t->axis != PDL_AXIS_DATA)
        return BAD(rd, "%s: shares are of samples, write data=...@",
                   pdl_axis_name(t->axis));
    return PDL_OK;
}

/* "h100:2*3+a100:2*1" */
static enum pdl_status read_parts(struct reader *rd, struct pdl_term *t,
                                  const char *text)
{
    struct pdl_term_part *part =
        PDL_NEW(rd->arena, struct pdl_term_part, MAX_PARTS);
    enum pdl_status st = PDL_OK;

    if (!part)
        return BAD(rd, "out of memory");
    if (t->axis != PDL_AXIS_PIPE && t->axis != PDL_AXIS_DATA)
        return BAD(rd, "%s: only pipe and data lie on groups",
                   pdl_axis_name(t->axis));
    for (const char *p = text; st == PDL_OK;) {
        const char *end = p + strcspn(p, "+");

        if (t->nparts == MAX_PARTS)
            return BAD(rd, "more than %d groups", (int)MAX_PARTS);
        st = read_part(rd, p, end, &part[t->nparts++]);
        if (!*end)
            break;
        p = end + 1;
    }
    t->part = part;
    return st == PDL_OK ? check_parts(rd, t) : st;
}

static enum pdl_status read_axis(struct reader *rd, enum pdl_axis axis,
                                 struct pdl_clause *c, const char *value)
{
    const char *open = strchr(value, '(');
    size_t len = open ? (size_t)(open - value) : strlen(value);
    struct pdl_term *t;
    char *sizes, *groups;
    enum pdl_status st;

    for (int i = 0; i < c->nterms; i++)
        if (c->term[i].axis == axis)
            return BAD(rd, "'%s' is given twice", pdl_axis_name(axis));
    t = &c->term[c->nterms];
    t->axis = axis;
    sizes = pdl_arena_strndup(rd->arena, value, len);
    if (!sizes)
        return BAD(rd, "out of memory");
    groups = strchr(sizes, '@');
    if (groups)
        *groups++ = '\0';
    if (groups && strcmp(c->layers, "*") != 0)
        return BAD(rd, "'@' holds for the whole model, not for %.60s",
                   c->layers);
    if (axis == PDL_AXIS_TENSOR && len > 4 &&
        strcmp(sizes + len - 4, "+seq") == 0) {
        rd->out->seq = true;
        sizes[len - 4] = '\0';
    }
    if (open) {
        const char *close = strchr(open, ')');

        if (!close || close[1])
            return BAD(rd, "'%.60s': unbalanced parentheses", value);
        st = read_arguments(rd, axis, open + 1, close);
        if (st != PDL_OK)
            return st;
    }
    c->nterms++;
    st = read_sizes(rd, t, sizes);
    return st == PDL_OK && groups ? read_parts(rd, t, groups) : st;
}

static enum pdl_status read_zero(struct reader *rd, const char *value)
{
    struct pdl_strategy *s = rd->out;

    if (value[0] < '0' || value[0] > '3' || (value[1] && value[1] != ':'))
        return BAD(rd, "zero: '%.40s' is not 0, 1, 2 or 3", value);
    s->zero = value[0] - '0';
    s->zero_group = 0;
    if (!value[1])
        return PDL_OK;
    return read_count(rd, "zero", value + 2, &s->zero_group);
}

/* Of some layers it may be none where that of all is not. */
static enum pdl_status read_compress(struct reader *rd, const char *value,
                                     bool own, const char **out)
{
    struct pdl_compression c;
    bool none = own && strcmp(value, "none") == 0;

    if (!none && !pdl_compress_parse(value, &c)) {
        BAD(rd,
            "compress: '%.40s' is not topk:SHARE, powersgd:RANK, int8, "
            "bf16, fp16, sign or lossless",
            value);
        pdl_hint(rd->err, "write it like compress=topk:0.01");
        return PDL_EPARSE;
    }
    *out = value;
    return PDL_OK;
}

static enum pdl_status read_offload(struct reader *rd, const char *value,
                                    bool *optimizer, bool *activations)
{
    if (strcmp(value, "optimizer") == 0)
        *optimizer = true;
    else if (strcmp(value, "activations") == 0)
        *activations = true;
    else
        return BAD(rd, "offload: '%.40s' is not optimizer or activations",
                   value);
    return PDL_OK;
}

static enum pdl_status
read_option(struct reader *rd, const struct plan_option *o, const char *value)
{
    void *field = (char *)rd->out + o->offset;
    uint32_t bit = UINT32_C(1) << (o - plan_options);
    enum pdl_status st;
    int k;

    if (rd->seen & bit && o->kind != PLAN_OPT_OFFLOAD)
        return BAD(rd, "'%s' is given twice", o->name);
    rd->seen |= bit;
    switch (o->kind) {
    case PLAN_OPT_CHOICE:
    case PLAN_OPT_FLAG:
        st = read_choice(rd, o->name, o->words, value, &k);
        if (st == PDL_OK && o->kind == PLAN_OPT_FLAG)
            *(bool *)field = k != 0;
        else if (st == PDL_OK)
            *(unsigned *)field = (unsigned)k;
        return st;
    case PLAN_OPT_COUNT:
        return read_count(rd, o->name, value, field);
    case PLAN_OPT_BYTES: {
        struct pdl_err inner;

        if (pdl_bytes_parse(value, field, &inner) == PDL_OK)
            return PDL_OK;
        BAD(rd, "%s: %s", o->name, inner.msg);
        pdl_hint(rd->err, "%s", inner.hint);
        return PDL_EPARSE;
    }
    case PLAN_OPT_TEXT:
        if (strlen(value) > 48 ||
            strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-:=") !=
                strlen(value))
            return BAD(rd, "%s: '%.60s' is not a name", o->name, value);
        *(const char **)field = strcmp(value, "auto") == 0 ? NULL : value;
        return PDL_OK;
    case PLAN_OPT_ZERO:
        return read_zero(rd, value);
    case PLAN_OPT_COMPRESS:
        return read_compress(rd, value, false, &rd->out->compress);
    case PLAN_OPT_OFFLOAD:
        return read_offload(rd, value, &rd->out->offload_optimizer,
                            &rd->out->offload_activations);
    }
    return PDL_EWRONG;
}

/* Some layers' own choice of what is made again, waits on the host, or how
 * their gradients travel. */
static enum pdl_status read_own(struct reader *rd, struct pdl_clause *c,
                                enum plan_option_kind kind, const char *value)
{
    enum pdl_status st;
    int k;

    if (kind == PLAN_OPT_OFFLOAD)
        return read_offload(rd, value, &c->offload_optimizer, &c->offload);
    if (kind == PLAN_OPT_COMPRESS && c->compress)
        return BAD(rd, "'compress' is given twice");
    if (kind == PLAN_OPT_COMPRESS)
        return read_compress(rd, value, true, &c->compress);
    if (c->own_recompute)
        return BAD(rd, "'recompute' is given twice");
    st = read_choice(rd, "recompute", plan_recomputes, value, &k);
    if (st == PDL_OK) {
        c->own_recompute = true;
        c->recompute = (enum pdl_recompute)k;
    }
    return st;
}

static enum pdl_status unknown_term(struct reader *rd, const char *name)
{
    struct pdl_suggest s;

    for (int i = 0; i < PDL_NAXES; i++)
        if (strcmp(name, pdl_axis_name((enum pdl_axis)i)) == 0) {
            BAD(rd, "'%s' needs a size", name);
            pdl_hint(rd->err, "write it like %s=4", name);
            return PDL_EPARSE;
        }
    BAD(rd, "unknown axis or option '%.40s'", name);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < PDL_NAXES; i++)
        pdl_suggest_try(&s, pdl_axis_name((enum pdl_axis)i));
    for (int i = 0; i < plan_noptions; i++)
        pdl_suggest_try(&s, plan_options[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(rd->err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(rd->err, "write it like data=8,filter=4");
    return PDL_EPARSE;
}

static enum pdl_status read_term(struct reader *rd, struct pdl_clause *c,
                                 const char *from, const char *to)
{
    const char *text = word(rd, from, to);
    const char *eq = text ? strchr(text, '=') : NULL;
    const char *name, *value;

    if (text && strcmp(text, "serial") == 0) {
        text = "data=1";
        eq = strchr(text, '=');
    }
    if (!text)
        return BAD(rd, "out of memory");
    if (!*text)
        return BAD(rd, "an empty term");
    if (!eq || !eq[1])
        return eq ? BAD(rd, "'%.40s' has no value", text)
                  : unknown_term(rd, text);
    name = pdl_arena_strndup(rd->arena, text, (size_t)(eq - text));
    value = pdl_arena_strdup(rd->arena, eq + 1);
    if (!name || !value)
        return BAD(rd, "out of memory");
    for (int i = 0; i < PDL_NAXES; i++)
        if (strcmp(pdl_axis_name((enum pdl_axis)i), name) == 0)
            return read_axis(rd, (enum pdl_axis)i, c, value);
    for (int i = 0; i < plan_noptions; i++)
        if (strcmp(plan_options[i].name, name) == 0) {
            if ((plan_options[i].words == plan_recomputes ||
                 plan_options[i].kind == PLAN_OPT_OFFLOAD ||
                 plan_options[i].kind == PLAN_OPT_COMPRESS) &&
                strcmp(c->layers, "*") != 0)
                return read_own(rd, c, plan_options[i].kind, value);
            if (strcmp(c->layers, "*") != 0)
                return BAD(rd, "'%s' holds for the whole model, not for %.60s",
                           name, c->layers);
            return read_option(rd, &plan_options[i], value);
        }
    return unknown_term(rd, name);
}

/* The clause of "*" is the first one, made when it is first needed. */
static struct pdl_clause *star(struct pdl_strategy *s)
{
    if (s->nclauses > 0 && strcmp(s->clause[0].layers, "*") == 0)
        return &s->clause[0];
    if (s->nclauses == PDL_MAX_CLAUSES)
        return NULL;
    memmove(&s->clause[1], &s->clause[0],
            (size_t)s->nclauses * sizeof s->clause[0]);
    s->nclauses++;
    s->clause[0] = (struct pdl_clause){.layers = "*"};
    return &s->clause[0];
}

static enum pdl_status read_clause(struct reader *rd, const char *from,
                                   const char *to)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));
    const char *eq = memchr(from, '=', (size_t)(to - from));
    struct pdl_clause *c = NULL;
    const char *layers = "*";

    if (colon && (!eq || colon < eq)) {
        layers = word(rd, from, colon);
        if (!layers || !*layers)
            return BAD(rd, "a clause without layers before ':'");
        if (layers[strcspn(layers, "(),;=")])
            return BAD(rd, "'%.60s' cannot be a layer", layers);
        from = colon + 1;
    }
    if (strcmp(layers, "*") == 0) {
        c = star(rd->out);
    } else if (rd->out->nclauses < PDL_MAX_CLAUSES) {
        c = &rd->out->clause[rd->out->nclauses++];
        *c = (struct pdl_clause){.layers = layers};
    }
    if (!c)
        return BAD(rd, "more than %d clauses", PDL_MAX_CLAUSES);
    for (;;) {
        const char *end = piece_end(from, ',');
        enum pdl_status st;

        end = end < to ? end : to;
        st = read_term(rd, c, from, end);
        if (st != PDL_OK || end == to)
            return st;
        from = end + 1;
    }
}

/* One form for each meaning: a clause of "*" that holds only options goes (its
 * options are the strategy's), and no axis at all is data=1. */
static void normalise(struct pdl_strategy *s)
{
    struct pdl_clause *c = &s->clause[0];

    if (s->zero == 0)
        s->zero_group = 0;
    if (strcmp(c->layers, "*") != 0 || c->nterms > 0)
        return;
    if (s->nclauses == 1) {
        c->term[c->nterms++] =
            (struct pdl_term){.axis = PDL_AXIS_DATA, .nsizes = 1, .size = {1}};
        return;
    }
    s->nclauses--;
    memmove(c, c + 1, (size_t)s->nclauses * sizeof *c);
}

enum pdl_status pdl_strategy_parse(pdl_arena *a, const char *text,
                                   struct pdl_strategy *out,
                                   struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct reader rd = {
        .arena = a, .text = text, .at = text, .out = s, .err = err};
    enum pdl_status st = PDL_OK;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "strategy: out of memory");
    for (const char *p = text; st == PDL_OK;) {
        const char *end = piece_end(p, ';');

        st = read_clause(&rd, p, end);
        if (!*end)
            break;
        p = end + 1;
    }
    if (st != PDL_OK)
        return st;
    normalise(s);
    *out = *s;
    return PDL_OK;
}

/* ---- comparison -------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_parts(const struct pdl_term *a, const struct pdl_term *b)
{
    if (a->nparts != b->nparts)
        return false;
    for (int i = 0; i < a->nparts; i++)
        if (!same_text(a->part[i].group, b->part[i].group) ||
            a->part[i].count != b->part[i].count ||
            a->part[i].share != b->part[i].share)
            return false;
    return true;
}

static bool same_clause(const struct pdl_clause *a, const struct pdl_clause *b)
{
    if (!same_text(a->layers, b->layers) || a->nterms != b->nterms ||
        a->own_recompute != b->own_recompute || a->recompute != b->recompute ||
        a->offload != b->offload ||
        a->offload_optimizer != b->offload_optimizer ||
        !same_text(a->compress, b->compress))
        return false;
    for (int t = 0; t < a->nterms; t++) {
        const struct pdl_term *x = &a->term[t], *y = &b->term[t];

        if (x->axis != y->axis || x->nsizes != y->nsizes || !same_parts(x, y))
            return false;
        for (int k = 0; k < x->nsizes; k++)
            if (x->size[k] != y->size[k])
                return false;
    }
    return true;
}

bool pdl_strategy_equal(const struct pdl_strategy *a,
                        const struct pdl_strategy *b)
{
    if (a->nclauses != b->nclauses)
        return false;
    for (int i = 0; i < a->nclauses; i++)
        if (!same_clause(&a->clause[i], &b->clause[i]))
            return false;
    return a->schedule == b->schedule && a->micro_batches == b->micro_batches &&
           a->virtual_stages == b->virtual_stages &&
           same_text(a->cuts, b->cuts) && a->imbalance == b->imbalance &&
           a->seq == b->seq && a->context_kind == b->context_kind &&
           a->context_order == b->context_order && a->zero == b->zero &&
           a->zero_group == b->zero_group && a->recompute == b->recompute &&
           a->save_gathered == b->save_gathered &&
           a->memory_paper == b->memory_paper &&
           a->exchange_paper == b->exchange_paper && a->swap == b->swap &&
           a->offload_optimizer == b->offload_optimizer &&
           a->offload_activations == b->offload_activations &&
           a->prefetch == b->prefetch && a->accumulate == b->accumulate &&
           a->bucket_bytes == b->bucket_bytes &&
           a->no_overlap == b->no_overlap &&
           same_text(a->allreduce, b->allreduce) &&
           same_text(a->compress, b->compress) && a->bn == b->bn &&
           a->bn_groups == b->bn_groups;
}
