/* SPDX-License-Identifier: Apache-2.0
 *
 * The family language of family.h. Expressions are evaluated where they are
 * asked for, straight from the text: a configuration asks for some sixty
 * fields once each, so there is nothing worth storing. */
#include "family.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
    const char *p;
    size_t n;
};

static const char *find_char(struct span s, char c)
{
    return s.n ? memchr(s.p, c, s.n) : NULL;
}

/* Cuts s at the first c: returns what stands before, s keeps what follows. */
static struct span cut(struct span *s, char c)
{
    const char *hit = find_char(*s, c);
    struct span head = {s->p, hit ? (size_t)(hit - s->p) : s->n};

    s->p += head.n + (hit ? 1 : 0);
    s->n -= head.n + (hit ? 1 : 0);
    return head;
}

const struct model_row *model_row_find(const struct model_row *rows,
                                       const char *name)
{
    for (; name && rows->name; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

/* The last token "field=...", "field" or (sep '?') "field?..." of a row, or
 * of the rows it builds on. p is NULL when there is none. */
static struct span find_token(const struct model_fields *f, struct span field,
                              char sep)
{
    const struct model_row *row = f->row;
    struct span found = {NULL, 0};

    for (int hops = 0; row && !found.p && hops < 16; hops++) {
        struct span rest = {row->text, strlen(row->text)};

        while (rest.n) {
            struct span token = cut(&rest, ' '), value = token;
            struct span name = {token.p, strcspn(token.p, "=? ")};

            if (name.n > token.n)
                name.n = token.n;
            if (name.n != field.n || memcmp(name.p, field.p, field.n) != 0)
                continue;
            if (name.n == token.n && sep == '=')
                found = (struct span){":1", 2};
            if (name.n == token.n || token.p[name.n] != sep)
                continue;
            value.p += name.n + 1;
            value.n -= name.n + 1;
            found = value;
        }
        row = model_row_find(f->rows, row->like);
    }
    return found;
}

bool model_field_known(const struct model_fields *f, const char *field)
{
    return find_token(f, (struct span){field, strlen(field)}, '=').p != NULL;
}

const struct pdl_doc *model_field_doc(const struct model_fields *f,
                                      const char *key, size_t len)
{
    struct span rest = {key, len};
    const struct pdl_doc *d = f->map;

    if (rest.n && *rest.p == '^') {
        d = f->outer;
        rest.p++;
        rest.n--;
    }
    while (d && rest.n) {
        struct span part = cut(&rest, '.');
        char name[64];

        if (part.n >= sizeof name)
            return NULL;
        memcpy(name, part.p, part.n);
        name[part.n] = '\0';
        d = pdl_doc_get(d, name);
    }
    return d;
}

static void fail(struct model_fields *f, const struct pdl_doc *at,
                 const char *text)
{
    if (f->status != PDL_OK)
        return;
    f->status = pdl_doc_fail(at ? at : f->map, f->err, "%s", text);
}

static int64_t eval(struct model_fields *f, struct span field);

static int64_t factor(struct model_fields *f, struct span s)
{
    if (s.n && ((*s.p >= '0' && *s.p <= '9') || *s.p == '-'))
        return strtoll(s.p, NULL, 10);
    return eval(f, s);
}

static struct span key_of(struct model_fields *f, struct span field,
                          const struct pdl_doc **at);

/* a / b, which must come out even. */
static int64_t divide(struct model_fields *f, struct span a, struct span b)
{
    int64_t x = factor(f, a), y = factor(f, b);
    const struct pdl_doc *at = NULL, *unused = NULL;
    struct span ka, kb;
    char text[300];

    if (f->status != PDL_OK)
        return 0;
    if (y != 0 && x % y == 0)
        return x / y;
    ka = key_of(f, a, &unused);
    kb = key_of(f, b, &at);
    snprintf(text, sizeof text, "%.*s (%lld) is not divisible by %.*s (%lld)",
             (int)ka.n, ka.p, (long long)x, (int)kb.n, kb.p, (long long)y);
    fail(f, at, text);
    return 0;
}

static int64_t term(struct model_fields *f, struct span s)
{
    size_t n = 1;
    struct span a = s, b;
    int64_t x, y, v = 0;

    while (n < s.n && !strchr("*/+-", s.p[n]))
        n++;
    if (n >= s.n)
        return factor(f, s);
    a.n = n;
    b = (struct span){s.p + n + 1, s.n - n - 1};
    if (s.p[n] == '/')
        return divide(f, a, b);
    x = factor(f, a);
    y = factor(f, b);
    if (s.p[n] == '*' ? !pdl_mul64(x, y, &v)
                      : !pdl_add64(x, s.p[n] == '+' ? y : -y, &v))
        fail(f, NULL, "the sizes are too large to count");
    return v;
}

static void text_for_number(struct model_fields *f, const struct pdl_doc *d)
{
    char text[200];

    snprintf(text, sizeof text,
             "%.60s: expected a number, found text \"%.60s\"",
             d->key ? d->key : "", d->text);
    fail(f, d, text);
}

/* An integer, or a bool as 0 or 1; a float that is whole (4.0) is one too,
 * and "auto" is 0. */
static int64_t number(struct model_fields *f, const struct pdl_doc *d)
{
    int64_t v = 0;
    enum pdl_status st;

    if (d->kind == PDL_DOC_SCALAR && !d->quoted) {
        size_t n = strlen(d->text);

        if (strcmp(d->text, "true") == 0 || strcmp(d->text, "false") == 0)
            return d->text[0] == 't';
        if (n > 2 && n < 20 && strcmp(d->text + n - 2, ".0") == 0 &&
            strspn(d->text, "0123456789") == n - 2)
            return strtoll(d->text, NULL, 10) <= MODEL_FIELD_MAX
                       ? strtoll(d->text, NULL, 10)
                       : (fail(f, d, "the value is too large"), 0);
    }
    if (d->kind == PDL_DOC_SCALAR && d->quoted) {
        if (strcmp(d->text, "auto") != 0)
            text_for_number(f, d);
        return 0;
    }
    st = pdl_doc_int(d, 0, MODEL_FIELD_MAX, &v, f->status ? NULL : f->err);
    if (st != PDL_OK && f->status == PDL_OK)
        f->status = st;
    return v;
}

static int64_t contains(const struct pdl_doc *d, struct span text, bool whole)
{
    char want[48];

    if (d->kind != PDL_DOC_SCALAR || text.n >= sizeof want)
        return 0;
    memcpy(want, text.p, text.n);
    want[text.n] = '\0';
    return whole ? strcmp(d->text, want) == 0 : strstr(d->text, want) != NULL;
}

/* One alternative "key...". False when the key is not there. */
static bool alternative(struct model_fields *f, struct span alt, int64_t *out,
                        const struct pdl_doc **at)
{
    char first = alt.n ? *alt.p : '\0';
    struct span key = alt;
    const struct pdl_doc *d;
    char op;

    if (first == '!' || first == '#') {
        key.p++;
        key.n--;
    }
    alt = key;
    key.n = 0;
    while (key.n < alt.n && !strchr("~={", alt.p[key.n]))
        key.n++;
    op = key.n < alt.n ? alt.p[key.n] : '\0';
    d = model_field_doc(f, key.p, key.n);
    if (!d)
        return false;
    *at = d;
    if (first == '#') {
        *out = d->count;
    } else if (op == '~' || op == '=') {
        struct span text = {key.p + key.n + 1, alt.n - key.n - 1};

        *out = contains(d, text, op == '=');
    } else if (op == '{') {
        struct span b = {key.p + key.n + 1, alt.n - key.n - 2};
        struct span a = cut(&b, ',');

        *out = term(f, number(f, d) ? a : b);
    } else {
        *out = number(f, d);
    }
    if (first == '!')
        *out = !*out;
    return true;
}

static void missing(struct model_fields *f, struct span keys)
{
    char text[300];
    struct span rest = keys, first = cut(&rest, '|');

    if (f->status != PDL_OK)
        return;
    snprintf(text, sizeof text, "the key %.*s is missing", (int)first.n,
             first.p);
    f->status = pdl_doc_fail(f->map, f->err, "%s", text);
    if (rest.n && f->status != PDL_OK) {
        size_t n = 0;

        while (rest.n && n < sizeof text - 70) {
            struct span key = cut(&rest, '|');

            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s",
                                  n ? ", " : "", (int)(key.n > 60 ? 60 : key.n),
                                  key.p);
        }
        pdl_hint(f->err, "other names that are read: %s", text);
    }
}

/* Evaluates; *at and *key say where the value came from. */
static int64_t resolve(struct model_fields *f, struct span field,
                       const struct pdl_doc **at, struct span *key)
{
    struct span expr = find_token(f, field, '='), soft, keys, rest;
    int64_t v = 0;

    if (!expr.p)
        return 0;
    if (expr.n && *expr.p == ':')
        return term(f, (struct span){expr.p + 1, expr.n - 1});
    if (expr.n && *expr.p >= '0' && *expr.p <= '9')
        return term(f, expr);
    keys = cut(&expr, '?');
    rest = keys;
    while (rest.n) {
        struct span alt = cut(&rest, '|');

        if (alternative(f, alt, &v, at)) {
            *key = alt;
            return v;
        }
    }
    if (expr.n)
        return term(f, expr);
    soft = find_token(f, field, '?');
    if (soft.p && f->nested)
        return term(f, soft);
    missing(f, keys);
    return 0;
}

static int64_t eval(struct model_fields *f, struct span field)
{
    const struct pdl_doc *at = NULL;
    struct span key = field;
    int64_t v;

    if (f->status != PDL_OK || f->depth > 12)
        return 0;
    f->depth++;
    v = resolve(f, field, &at, &key);
    f->depth--;
    return f->status == PDL_OK ? v : 0;
}

/* The name people know a field by: the key that set it. */
static struct span key_of(struct model_fields *f, struct span field,
                          const struct pdl_doc **at)
{
    struct span key = field;

    *at = NULL;
    (void)resolve(f, field, at, &key);
    if (*at && (*at)->key)
        return (struct span){(*at)->key, strlen((*at)->key)};
    return field;
}

int64_t model_field(struct model_fields *f, const char *field)
{
    return eval(f, (struct span){field, strlen(field)});
}

int64_t model_field_of(struct model_fields *f, const char *prefix,
                       const char *field)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", prefix, field);
    return model_field(f, model_field_known(f, name) ? name : field);
}

const char *model_field_key(struct model_fields *f, const char *field,
                            const struct pdl_doc **at)
{
    (void)key_of(f, (struct span){field, strlen(field)}, at);
    return *at && (*at)->key ? (*at)->key : field;
}

void model_field_fail(struct model_fields *f, const char *field,
                      const char *fmt, ...)
{
    const struct pdl_doc *at = NULL;
    char text[300];
    va_list ap;

    if (f->status != PDL_OK)
        return;
    (void)model_field_key(f, field, &at);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fail(f, at, text);
}
