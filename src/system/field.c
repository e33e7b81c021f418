/* SPDX-License-Identifier: Apache-2.0
 *
 * One value of a description: from text, and found by its dotted path. */
#include "system_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const shapes[PDL_NLINK_SHAPES] = {
    [PDL_LINKS_NONE] = "none",     [PDL_LINKS_ALL_TO_ALL] = "all-to-all",
    [PDL_LINKS_SWITCH] = "switch", [PDL_LINKS_GRAPH] = "graph",
    [PDL_LINKS_FABRIC] = "fabric",
};

const char *pdl_link_shape_name(enum pdl_link_shape s)
{
    return shapes[s];
}

enum pdl_status system_no_memory(struct pdl_err *err, const char *what)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: too large to hold in memory", what);
}

static enum pdl_status outside(const struct system_field *f, const char *text,
                               struct pdl_err *err)
{
    char lo[40], hi[40];

    return pdl_fail(err, PDL_EPARSE, "%.40s is outside %s to %s", text,
                    pdl_unit_format(f->min, f->unit, lo, sizeof lo),
                    pdl_unit_format(f->max, f->unit, hi, sizeof hi));
}

static enum pdl_status number(const struct system_field *f, void *at,
                              const char *text, struct pdl_err *err)
{
    double v = 0;
    enum pdl_status st = pdl_unit_parse(text, f->unit, &v, err);

    if (st != PDL_OK)
        return st;
    if (!(v >= f->min && v <= f->max))
        return outside(f, text, err);
    *(double *)at = v;
    return PDL_OK;
}

static enum pdl_status bytes(const struct system_field *f, void *at,
                             const char *text, struct pdl_err *err)
{
    int64_t v = 0;
    enum pdl_status st = pdl_bytes_parse(text, &v, err);

    if (st != PDL_OK)
        return st;
    if ((double)v > f->max)
        return outside(f, text, err);
    *(int64_t *)at = v;
    return PDL_OK;
}

static enum pdl_status shape(void *at, const char *text, struct pdl_err *err)
{
    for (int i = 0; i < PDL_NLINK_SHAPES; i++)
        if (strcmp(shapes[i], text) == 0) {
            *(int64_t *)at = i;
            return PDL_OK;
        }
    pdl_fail(err, PDL_EPARSE, "no shape '%.40s'", text);
    pdl_hint(err, "one of none, all-to-all, switch, graph, fabric");
    return PDL_EPARSE;
}

enum pdl_status system_scalar(pdl_arena *a, const struct system_field *f,
                              void *base, const char *text, struct pdl_err *err)
{
    void *at = (char *)base + f->at;

    switch (f->kind) {
    case SYSTEM_TEXT: {
        const char *copy = pdl_arena_strdup(a, text);

        if (!copy)
            return system_no_memory(err, f->name);
        *(const char **)at = copy;
        return PDL_OK;
    }
    case SYSTEM_COUNT:
        return pdl_int_parse(text, (int64_t)f->min, (int64_t)f->max, at, err);
    case SYSTEM_BYTES:
        return bytes(f, at, text, err);
    case SYSTEM_NUM:
        return number(f, at, text, err);
    case SYSTEM_SHAPE:
        return shape(at, text, err);
    case SYSTEM_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return pdl_fail(err, PDL_EPARSE, "'%.40s' is not true or false",
                            text);
        *(bool *)at = *text == 't';
        return PDL_OK;
    default:
        return pdl_fail(err, PDL_EPARSE,
                        "expected a list or a map, found "
                        "a value");
    }
}

static bool same(const char *name, const char *part, size_t len)
{
    return strlen(name) == len && memcmp(name, part, len) == 0;
}

/* The row of a list that a path names, by number or by its first key. */
static void *row_of(const struct system_field *f, void *base, const char *part,
                    size_t len)
{
    int64_t count = *(int64_t *)((char *)base + f->count_at), index = -1;
    char *rows = *(char **)((char *)base + f->at);

    for (int64_t i = 0; i < count; i++) {
        const char *name = *(const char **)(rows + (size_t)i * f->sub->size +
                                            f->sub->fields[0].at);
        char number[24];

        snprintf(number, sizeof number, "%lld", (long long)i);
        if (index < 0 && (same(number, part, len) || same(name, part, len)))
            index = i;
    }
    return index < 0 ? NULL : rows + (size_t)index * f->sub->size;
}

const struct system_field *system_find(const struct system_table *t, void *base,
                                       const char *path, void **holder)
{
    while (t) {
        const struct system_field *f = NULL;
        size_t len = strcspn(path, ".");

        for (int i = 0; i < t->count && !f; i++)
            if (same(t->fields[i].name, path, len))
                f = &t->fields[i];
        if (!f)
            return NULL;
        path += len + (path[len] == '.');
        if (f->kind <= SYSTEM_SHAPE) {
            *holder = base;
            return *path ? NULL : f;
        }
        if (f->kind == SYSTEM_MAP || f->kind == SYSTEM_PE) {
            base = (char *)base + f->at;
        } else if (f->kind == SYSTEM_ROWS) {
            len = strcspn(path, ".");
            base = row_of(f, base, path, len);
            path += len + (path[len] == '.');
            if (!base)
                return NULL;
        } else {
            return NULL;
        }
        t = f->sub;
    }
    return NULL;
}

void system_suggest(pdl_arena *a, const struct system_table *t,
                    const char *prefix, struct pdl_suggest *s)
{
    for (int i = 0; i < t->count; i++) {
        const struct system_field *f = &t->fields[i];
        const char *path =
            pdl_arena_printf(a, "%s%s%s", prefix, *prefix ? "." : "", f->name);

        if (!path)
            return;
        if (f->kind <= SYSTEM_SHAPE)
            pdl_suggest_try(s, path);
        else if (f->kind == SYSTEM_MAP || f->kind == SYSTEM_PE)
            system_suggest(a, f->sub, path, s);
    }
}

enum pdl_status system_add_text(pdl_arena *a, const char *const **list,
                                int64_t *count, struct pdl_err *err,
                                const char *fmt, ...)
{
    char text[1024];
    const char **grown, *copy;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
    copy = pdl_arena_strdup(a, text);
    grown = pdl_arena_grow(a, *list, (size_t)*count, (size_t)*count + 1,
                           sizeof *grown);
    if (!grown || !copy)
        return system_no_memory(err, "the description");
    grown[(*count)++] = copy;
    *list = grown;
    return PDL_OK;
}
