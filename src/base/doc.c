/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading values out of a document tree, with messages that name the place. */
#include "paradl/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct pdl_doc *pdl_doc_get(const struct pdl_doc *map, const char *key)
{
    if (!map || map->kind != PDL_DOC_MAP)
        return NULL;
    for (const struct pdl_doc *d = map->child; d; d = d->next)
        if (strcmp(d->key, key) == 0)
            return d->kind == PDL_DOC_NULL ? NULL : d;
    return NULL;
}

enum pdl_status pdl_doc_fail(const struct pdl_doc *d, struct pdl_err *err,
                             const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return pdl_fail(err, PDL_EPARSE, "%s:%d:%d: %s", d->file, d->line, d->col,
                    text);
}

/* Puts "file:line:col: key: " before a message that knows no place. */
static enum pdl_status place(const struct pdl_doc *d, enum pdl_status st,
                             struct pdl_err *err)
{
    struct pdl_err inner;

    if (!err)
        return st;
    inner = *err;
    pdl_fail(err, st, "%s:%d:%d: %s%s%s", d->file, d->line, d->col,
             d->key ? d->key : "", d->key ? ": " : "", inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

static enum pdl_status unexpected(const struct pdl_doc *d, const char *what,
                                  struct pdl_err *err)
{
    static const char *const kinds[] = {"null", "a value", "a list", "a map"};

    return pdl_doc_fail(d, err, "%s%sexpected %s, found %s",
                        d->key ? d->key : "", d->key ? ": " : "", what,
                        kinds[d->kind]);
}

static enum pdl_status want_scalar(const struct pdl_doc *d, const char *what,
                                   struct pdl_err *err)
{
    return d->kind == PDL_DOC_SCALAR ? PDL_OK : unexpected(d, what, err);
}

enum pdl_status pdl_doc_int(const struct pdl_doc *d, int64_t min, int64_t max,
                            int64_t *out, struct pdl_err *err)
{
    enum pdl_status st = want_scalar(d, "a whole number", err);

    if (st != PDL_OK)
        return st;
    st = pdl_int_parse(d->text, min, max, out, err);
    return st == PDL_OK ? st : place(d, st, err);
}

enum pdl_status pdl_doc_num(const struct pdl_doc *d, enum pdl_unit unit,
                            double min, double max, double *out,
                            struct pdl_err *err)
{
    enum pdl_status st = want_scalar(d, "a number", err);
    double v;

    if (st != PDL_OK)
        return st;
    st = pdl_unit_parse(d->text, unit, &v, err);
    if (st != PDL_OK)
        return place(d, st, err);
    if (!(v >= min && v <= max))
        return pdl_doc_fail(d, err, "%s%s%.40s is outside %g to %g",
                            d->key ? d->key : "", d->key ? ": " : "", d->text,
                            min, max);
    *out = v;
    return PDL_OK;
}

enum pdl_status pdl_doc_bool(const struct pdl_doc *d, bool *out,
                             struct pdl_err *err)
{
    enum pdl_status st = want_scalar(d, "true or false", err);
    bool yes;

    if (st != PDL_OK)
        return st;
    yes = strcmp(d->text, "true") == 0;
    if (!yes && strcmp(d->text, "false") != 0)
        return pdl_doc_fail(d, err, "%s%s'%.40s' is not true or false",
                            d->key ? d->key : "", d->key ? ": " : "", d->text);
    *out = yes;
    return PDL_OK;
}

enum pdl_status pdl_doc_str(const struct pdl_doc *d, const char **out,
                            struct pdl_err *err)
{
    enum pdl_status st = want_scalar(d, "text", err);

    if (st == PDL_OK)
        *out = d->text;
    return st;
}

enum pdl_status pdl_doc_only(const struct pdl_doc *map, const char *const *keys,
                             struct pdl_err *err)
{
    if (map->kind != PDL_DOC_MAP)
        return unexpected(map, "a map", err);
    for (const struct pdl_doc *d = map->child; d; d = d->next) {
        struct pdl_suggest s;
        int i = 0;

        while (keys[i] && strcmp(keys[i], d->key) != 0)
            i++;
        if (keys[i])
            continue;
        pdl_fail(err, PDL_EPARSE, "%s:%d:%d: unknown key '%.60s'", d->file,
                 d->key_line, d->key_col, d->key);
        pdl_suggest_init(&s, d->key);
        for (i = 0; keys[i]; i++)
            pdl_suggest_try(&s, keys[i]);
        if (pdl_suggest_best(&s))
            pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
        return PDL_EPARSE;
    }
    return PDL_OK;
}
