/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON. jansson decides whether the text is JSON (strict, bounded depth) and
 * says where it is not; a walk over the text it accepted then builds the
 * tree, because jansson keeps neither the places of values nor the digits of
 * numbers. Python's NaN and Infinity are not JSON: the copy that is checked
 * has zeros there, the tree keeps the words. Columns count characters, as in
 * YAML and in an editor. jansson's own memory is not ours to limit, so a text
 * with more values than the arena could hold is refused before it starts. */
#include "base_priv.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    const char *p, *end;
    int line, col;    /* of mark */
    const char *mark; /* counted up to here: one long line stays linear */
};

static int column(struct walk *w)
{
    for (; w->mark < w->p; w->mark++)
        w->col += ((unsigned char)*w->mark & 0xc0) != 0x80;
    return w->col;
}

static void skip_blank(struct walk *w)
{
    for (; w->p < w->end; w->p++) {
        if (*w->p == '\n') {
            w->line++;
            w->col = 1;
            w->mark = w->p + 1;
        } else if (*w->p != ' ' && *w->p != '\t' && *w->p != '\r' &&
                   *w->p != ',' && *w->p != ':') {
            break;
        }
    }
}

static int put_utf8(char *out, unsigned cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

static unsigned hex4(const char *p)
{
    char text[5] = {p[0], p[1], p[2], p[3], '\0'};

    return (unsigned)strtoul(text, NULL, 16);
}

/* One escape of a string already known to be well formed. */
static int unescape(const char **p, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *hit = strchr(from, **p);
    unsigned cp;

    if (hit) {
        out[0] = to[hit - from];
        (*p)++;
        return 1;
    }
    cp = hex4(*p + 1);
    *p += 5;
    if (cp >= 0xd800 && cp < 0xdc00) {
        cp = 0x10000 + ((cp - 0xd800) << 10) + (hex4(*p + 2) - 0xdc00);
        *p += 6;
    }
    return put_utf8(out, cp);
}

/* A string; buf has room for its raw length. */
static enum pdl_status string(struct base_doc_builder *b, struct walk *w,
                              char *buf)
{
    int col = column(w);
    size_t n = 0;

    w->p++;
    while (*w->p != '"') {
        if (*w->p != '\\') {
            buf[n++] = *w->p++;
            continue;
        }
        w->p++;
        n += (size_t)unescape(&w->p, buf + n);
    }
    w->p++;
    return base_doc_scalar(b, buf, n, true, w->line, col);
}

static enum pdl_status literal(struct base_doc_builder *b, struct walk *w)
{
    int col = column(w);
    size_t n = 0;

    while (w->p + n < w->end && !strchr(" \t\r\n,:]}", w->p[n]))
        n++;
    w->p += n;
    if (n == 4 && memcmp(w->p - n, "null", 4) == 0)
        return base_doc_scalar(b, NULL, 0, false, w->line, col);
    return base_doc_scalar(b, w->p - n, n, false, w->line, col);
}

static enum pdl_status build(struct base_doc_builder *b, struct walk *w,
                             char *buf)
{
    enum pdl_status st = PDL_OK;

    for (skip_blank(w); w->p < w->end && st == PDL_OK; skip_blank(w)) {
        int col = column(w);

        switch (*w->p) {
        case '{':
        case '[':
            st = base_doc_open(b, *w->p == '{' ? PDL_DOC_MAP : PDL_DOC_LIST,
                               w->line, col);
            w->p++;
            break;
        case '}':
        case ']':
            base_doc_close(b);
            w->p++;
            break;
        case '"':
            st = string(b, w, buf);
            break;
        default:
            st = literal(b, w);
        }
    }
    return st;
}

static bool ends_value(char c)
{
    return strchr(" \t\r\n,:[]{}", c) != NULL; /* or '\0' */
}

/* Puts a zero where Python wrote what JSON does not have: whole words only,
 * or 1NaN would pass as 10. The text ends with a zero byte. */
static void replace_nonfinite(char *text, size_t len)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool inside = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            inside = !inside;
        else if (inside && text[i] == '\\')
            i++;
        if (inside)
            continue;
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            size_t n = strlen(words[k]);

            if (len - i >= n && memcmp(text + i, words[k], n) == 0 &&
                (i == 0 || ends_value(text[i - 1])) &&
                ends_value(text[i + n])) {
                memset(text + i, ' ', n);
                text[i] = '0';
            }
        }
    }
}

/* Fewer values than commas, colons or brackets there cannot be (and at most
 * three times the largest of the three). */
static size_t least_values(const char *text, size_t len)
{
    size_t commas = 0, colons = 0, opens = 0, n;
    bool inside = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            inside = !inside;
        else if (inside)
            i += text[i] == '\\';
        else {
            commas += text[i] == ',';
            colons += text[i] == ':';
            opens += text[i] == '[' || text[i] == '{';
        }
    }
    n = commas > colons ? commas : colons;
    return n > opens ? n : opens;
}

/* jansson takes a zero byte after the value for the end of the text. */
static enum pdl_status no_zeros(const char *text, size_t len, const char *name,
                                struct pdl_err *err)
{
    const char *zero = len ? memchr(text, '\0', len) : NULL;
    struct walk w = {text, zero, 1, 1, text};

    if (!zero)
        return PDL_OK;
    for (; w.p < zero; w.p++)
        if (*w.p == '\n') {
            w.line++;
            w.col = 1;
            w.mark = w.p + 1;
        }
    return pdl_fail(err, PDL_EPARSE, "%s:%d:%d: text with a NUL byte", name,
                    w.line, column(&w));
}

static enum pdl_status check(const char *text, size_t len, const char *name,
                             struct pdl_err *err)
{
    json_error_t e;
    size_t flags = JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY;
    json_t *root = json_loadb(text, len, flags, &e);

    if (root) {
        json_decref(root);
        return PDL_OK;
    }
    return pdl_fail(err, PDL_EPARSE, "%s:%d:%d: %s", name,
                    e.line > 0 ? e.line : 1, e.column > 0 ? e.column : 1,
                    e.text);
}

enum pdl_status pdl_doc_json(pdl_arena *a, struct pdl_bytes in,
                             const char *name, const struct pdl_doc **out,
                             struct pdl_err *err)
{
    bool marked = in.len >= 3 && memcmp(in.data, "\xef\xbb\xbf", 3) == 0;
    const char *text = marked ? in.data + 3 : in.data; /* byte order mark */
    size_t len = marked ? in.len - 3 : in.len;
    char *copy = pdl_arena_strndup(a, text, len);
    char *buf = pdl_arena_alloc(a, len + 1, 1);
    struct base_doc_builder b;
    struct walk w;
    enum pdl_status st;

    if (!copy || !buf ||
        least_values(text, len) > base_arena_left(a) / sizeof(struct pdl_doc))
        return pdl_fail(err, PDL_ENOMEM, "%s: too large to hold in memory",
                        name);
    replace_nonfinite(copy, len);
    st = no_zeros(text, len, name, err);
    if (st == PDL_OK)
        st = check(copy, len, name, err);
    if (st != PDL_OK)
        return st;
    w = (struct walk){text, text + len, 1, 1, text};
    base_doc_begin(&b, a, name, err);
    st = build(&b, &w, buf);
    if (st == PDL_OK)
        *out = b.root;
    return st;
}
