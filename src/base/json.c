/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON writer: two blanks a level, flat arrays on one line, doubles as the
 * shortest decimal that reads back the same. */
#include "base_priv.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void pdl_json_init(struct pdl_json *j, struct pdl_sink *out)
{
    *j = (struct pdl_json){.out = out};
}

static void newline(struct pdl_json *j)
{
    if (j->compact)
        return;
    pdl_put(j->out, "\n", 1);
    for (int i = 0; i < j->depth; i++)
        pdl_put(j->out, "  ", 2);
}

/* What stands before a value or a key: comma, line break. */
static void separate(struct pdl_json *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (j->depth == 0)
        return;
    if (j->level[j->depth - 1].any)
        pdl_put(j->out, j->level[j->depth - 1].flat ? ", " : ",",
                j->level[j->depth - 1].flat ? 2 : 1);
    j->level[j->depth - 1].any = true;
    if (!j->level[j->depth - 1].flat)
        newline(j);
}

static void open_level(struct pdl_json *j, bool array, bool flat)
{
    separate(j);
    if (j->depth == (int)(sizeof j->level / sizeof j->level[0]))
        abort(); /* our own nesting, not input */
    flat = flat || (j->depth > 0 && j->level[j->depth - 1].flat);
    j->level[j->depth].array = array;
    j->level[j->depth].any = false;
    j->level[j->depth].flat = flat;
    j->depth++;
    pdl_put(j->out, array ? "[" : "{", 1);
}

void pdl_json_object(struct pdl_json *j)
{
    open_level(j, false, false);
}

void pdl_json_array(struct pdl_json *j)
{
    open_level(j, true, false);
}

void pdl_json_flat(struct pdl_json *j)
{
    open_level(j, true, true);
}

void pdl_json_row(struct pdl_json *j)
{
    open_level(j, false, true);
}

void pdl_json_end(struct pdl_json *j)
{
    bool array, broken;

    if (j->depth == 0)
        abort();
    j->depth--;
    array = j->level[j->depth].array;
    broken = j->level[j->depth].any && !j->level[j->depth].flat;
    if (broken)
        newline(j);
    pdl_put(j->out, array ? "]" : "}", 1);
    if (j->depth == 0)
        pdl_put(j->out, "\n", 1);
}

/* Names read from files may hold any bytes, JSON may not. */
int base_utf8_len(const char *s)
{
    unsigned char c = (unsigned char)*s;
    int n = c < 0x80                ? 1
            : c >= 0xc2 && c < 0xe0 ? 2
            : c < 0xc2              ? 0
            : c < 0xf0              ? 3
            : c < 0xf5              ? 4
                                    : 0;

    for (int i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && (unsigned char)s[1] < 0xa0) ||
        (c == 0xed && (unsigned char)s[1] >= 0xa0) ||
        (c == 0xf0 && (unsigned char)s[1] < 0x90) ||
        (c == 0xf4 && (unsigned char)s[1] >= 0x90))
        return 0;
    return n;
}

bool pdl_is_utf8(const char *s)
{
    for (int n; *s; s += n)
        if ((n = base_utf8_len(s)) == 0)
            return false;
    return true;
}

static void quote(struct pdl_json *j, const char *s)
{
    char esc[8];
    int n;

    pdl_put(j->out, "\"", 1);
    for (;; s++) {
        const char *from = s;

        while ((unsigned char)*s >= 0x20 && *s != '"' && *s != '\\' &&
               (n = base_utf8_len(s)) > 0)
            s += n;
        pdl_put(j->out, from, (size_t)(s - from));
        if (!*s)
            break;
        if (*s == '"' || *s == '\\')
            snprintf(esc, sizeof esc, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            snprintf(esc, sizeof esc, "\\u%04x", (unsigned)*s);
        else
            snprintf(esc, sizeof esc, "\\ufffd");
        pdl_puts(j->out, esc);
    }
    pdl_put(j->out, "\"", 1);
}

void pdl_json_key(struct pdl_json *j, const char *key)
{
    separate(j);
    quote(j, key);
    pdl_puts(j->out, ": ");
    j->after_key = true;
}

void pdl_json_str(struct pdl_json *j, const char *s)
{
    separate(j);
    if (s)
        quote(j, s);
    else
        pdl_puts(j->out, "null");
}

void pdl_json_int(struct pdl_json *j, int64_t v)
{
    separate(j);
    pdl_printf(j->out, "%lld", (long long)v);
}

void pdl_json_num(struct pdl_json *j, double v)
{
    char text[40];

    separate(j);
    if (!isfinite(v)) {
        pdl_puts(j->out, "null");
        return;
    }
    /* 15 digits are always kept, except below the smallest normal double */
    for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        base_put_double(text, sizeof text, digits, v);
        if (base_strtod(text, NULL) == v)
            break;
    }
    pdl_puts(j->out, text);
}

void pdl_json_bool(struct pdl_json *j, bool v)
{
    separate(j);
    pdl_puts(j->out, v ? "true" : "false");
}

void pdl_json_kstr(struct pdl_json *j, const char *key, const char *s)
{
    pdl_json_key(j, key);
    pdl_json_str(j, s);
}

void pdl_json_kint(struct pdl_json *j, const char *key, int64_t v)
{
    pdl_json_key(j, key);
    pdl_json_int(j, v);
}

void pdl_json_knum(struct pdl_json *j, const char *key, double v)
{
    pdl_json_key(j, key);
    pdl_json_num(j, v);
}

void pdl_json_kbool(struct pdl_json *j, const char *key, bool v)
{
    pdl_json_key(j, key);
    pdl_json_bool(j, v);
}

void pdl_json_schema(struct pdl_json *j, const char *name)
{
    char text[64];

    snprintf(text, sizeof text, "paradl.%s/1", name);
    pdl_json_object(j);
    pdl_json_kstr(j, "schema", text);
}
