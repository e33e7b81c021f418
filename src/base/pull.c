/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON that is too large to hold, one token after the other: traces of a
 * profiler take up to a gigabyte, and a tree of them ten times that. Plain
 * or gzip, told apart by zlib. The grammar is RFC 8259's with one liberty,
 * Python's NaN and Infinity. Escapes in strings are undone but for \u, which
 * becomes "?" where it is no ASCII: names of kernels need no more. */
#include "base_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 1 << 16, DEPTH = 64, LONGEST = 1 << 20 };

/* What may come next. */
enum want { VALUE, FIRST_VALUE, KEY, FIRST_KEY, COLON, COMMA, NOTHING };

struct pdl_pull {
    const char *name;
    gzFile file;             /* NULL: bytes */
    struct pdl_bytes rest;   /* not yet read, of bytes */
    unsigned char in[CHUNK]; /* read, not yet consumed */
    int at, len;
    int line, col;
    bool object[DEPTH]; /* or array */
    int depth;
    enum want want;
    char *text; /* of the token */
    int ntext, cap;
};

enum pdl_status pdl_pull_fail(const struct pdl_pull *p, struct pdl_err *err,
                              const char *fmt, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return pdl_fail(err, PDL_EPARSE, "%s:%d:%d: %s", p->name, p->line, p->col,
                    what);
}

static enum pdl_status pull_make(const char *name, struct pdl_pull **out,
                                 struct pdl_err *err)
{
    struct pdl_pull *p = calloc(1, sizeof *p);

    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->name = name;
    p->line = 1;
    *out = p;
    return PDL_OK;
}

enum pdl_status pdl_pull_open(const char *path, struct pdl_pull **out,
                              struct pdl_err *err)
{
    struct pdl_pull *p;
    enum pdl_status st = pull_make(path, &p, err);

    if (st != PDL_OK)
        return st;
    p->file = gzopen(path, "rb");
    if (!p->file) {
        st = pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
        pdl_pull_close(p);
        return st;
    }
    *out = p;
    return PDL_OK;
}

enum pdl_status pdl_pull_bytes(struct pdl_bytes in, const char *name,
                               struct pdl_pull **out, struct pdl_err *err)
{
    enum pdl_status st = pull_make(name, out, err);

    if (st == PDL_OK)
        (*out)->rest = in;
    return st;
}

void pdl_pull_close(struct pdl_pull *p)
{
    if (!p)
        return;
    if (p->file)
        gzclose(p->file);
    free(p->text);
    free(p);
}

static void refill(struct pdl_pull *p)
{
    p->at = p->len = 0;
    if (p->file) {
        p->len = gzread(p->file, p->in, CHUNK);
        return;
    }
    p->len = p->rest.len < CHUNK ? (int)p->rest.len : CHUNK;
    if (p->len > 0)
        memcpy(p->in, p->rest.data, (size_t)p->len);
    p->rest.data += p->len;
    p->rest.len -= (size_t)p->len;
}

/* The next byte without taking it; -1 at the end, -2 where reading failed. */
static int peek(struct pdl_pull *p)
{
    if (p->at >= p->len) {
        refill(p);
        if (p->len < 0)
            return -2;
        if (p->len == 0)
            return -1;
    }
    return p->in[p->at];
}

static void take(struct pdl_pull *p)
{
    if (p->in[p->at] == '\n') {
        p->line++;
        p->col = 0;
    } else {
        p->col += (p->in[p->at] & 0xc0) != 0x80;
    }
    p->at++;
}

static bool put(struct pdl_pull *p, int c)
{
    if (p->ntext + 1 >= p->cap) {
        int cap = p->cap ? 2 * p->cap : 256;
        char *text = cap <= LONGEST ? realloc(p->text, (size_t)cap) : NULL;

        if (!text)
            return false;
        p->text = text;
        p->cap = cap;
    }
    p->text[p->ntext++] = (char)c;
    p->text[p->ntext] = '\0';
    return true;
}

static bool hex4(struct pdl_pull *p, int *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(p);
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *d = c > 0 ? strchr(digits, c) : NULL;

        if (!d)
            return false;
        *out = *out * 16 + (int)((d - digits) % 16);
        take(p);
    }
    return true;
}

/* After a backslash. */
static bool unescape(struct pdl_pull *p)
{
    const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t", *hit;
    int c = peek(p), code;

    if (c <= 0)
        return false;
    take(p);
    if (c == 'u')
        return hex4(p, &code) && put(p, code > 0 && code < 128 ? code : '?');
    hit = strchr(from, c);
    return hit && put(p, to[hit - from]);
}

static enum pdl_status read_string(struct pdl_pull *p, struct pdl_err *err)
{
    int c;

    take(p); /* the quote */
    while ((c = peek(p)) != '"') {
        if (c < 0)
            return pdl_pull_fail(p, err, "the text ends inside a string");
        if (c < 0x20)
            return pdl_pull_fail(p, err, "a control character in a string");
        take(p);
        if (c == '\\' ? !unescape(p) : !put(p, c))
            return pdl_pull_fail(p, err, "a string that cannot be read");
    }
    take(p);
    return PDL_OK;
}

static bool in_word(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

/* digits, or false where there is none */
static bool digits(const char **s)
{
    const char *from = *s;

    while (**s >= '0' && **s <= '9')
        ++*s;
    return *s > from;
}

static bool is_number(const char *s)
{
    const char *whole;

    s += *s == '-';
    whole = s;
    if (!digits(&s) || (*whole == '0' && s > whole + 1))
        return false;
    if (*s == '.' && (s++, !digits(&s)))
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        if (!digits(&s))
            return false;
    }
    return *s == '\0';
}

static enum pdl_status read_word(struct pdl_pull *p, enum pdl_token *kind,
                                 struct pdl_err *err)
{
    static const char *const words[] = {"true", "false",    "null",
                                        "NaN",  "Infinity", "-Infinity"};

    while (in_word(peek(p)) && p->ntext < 400 && put(p, peek(p)))
        take(p);
    *kind = PDL_TOKEN_NUMBER;
    if (p->ntext > 0 && is_number(p->text))
        return PDL_OK;
    *kind = PDL_TOKEN_WORD;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (p->ntext > 0 && strcmp(p->text, words[i]) == 0)
            return PDL_OK;
    return pdl_pull_fail(p, err, "a value is expected here");
}

static void after_value(struct pdl_pull *p)
{
    p->want = p->depth > 0 ? COMMA : NOTHING;
}

static enum pdl_status open_level(struct pdl_pull *p, bool object,
                                  enum pdl_token *kind, struct pdl_err *err)
{
    take(p);
    if (p->depth == DEPTH)
        return pdl_pull_fail(p, err, "nested deeper than 64");
    p->object[p->depth++] = object;
    p->want = object ? FIRST_KEY : FIRST_VALUE;
    *kind = object ? PDL_TOKEN_OBJECT : PDL_TOKEN_ARRAY;
    return PDL_OK;
}

static bool may_close(const struct pdl_pull *p, int c)
{
    return p->depth > 0 && c == (p->object[p->depth - 1] ? '}' : ']') &&
           (p->want == COMMA || p->want == FIRST_KEY || p->want == FIRST_VALUE);
}

/* Takes blanks, and the comma or colon that must stand here. */
static enum pdl_status separators(struct pdl_pull *p, struct pdl_err *err)
{
    for (;;) {
        int c = peek(p);

        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            take(p);
        } else if (p->want == COMMA && c == ',') {
            take(p);
            p->want = p->object[p->depth - 1] ? KEY : VALUE;
        } else if (p->want == COLON && c == ':') {
            take(p);
            p->want = VALUE;
        } else {
            return c == -2 ? pdl_fail(err, PDL_EPARSE,
                                      "%s: cannot be read, or damaged gzip "
                                      "data",
                                      p->name)
                           : PDL_OK;
        }
    }
}

static enum pdl_status read_value(struct pdl_pull *p, int c,
                                  enum pdl_token *kind, struct pdl_err *err)
{
    enum pdl_status st;

    if (c == '{' || c == '[')
        return open_level(p, c == '{', kind, err);
    *kind = PDL_TOKEN_STRING;
    st = c == '"' ? read_string(p, err) : read_word(p, kind, err);
    after_value(p);
    return st;
}

static enum pdl_status read_token(struct pdl_pull *p, enum pdl_token *kind,
                                  struct pdl_err *err)
{
    int c = peek(p);

    if (may_close(p, c)) {
        take(p);
        p->depth--;
        after_value(p);
        *kind = PDL_TOKEN_CLOSE;
        return PDL_OK;
    }
    if (p->want == NOTHING) {
        *kind = PDL_TOKEN_END;
        return c == -1 ? PDL_OK : pdl_pull_fail(p, err, "text after the value");
    }
    if (c < 0)
        return pdl_pull_fail(p, err, "the text ends early");
    if (p->want == KEY || p->want == FIRST_KEY) {
        *kind = PDL_TOKEN_KEY;
        p->want = COLON;
        return c == '"'
                   ? read_string(p, err)
                   : pdl_pull_fail(p, err, "a key in quotes is expected here");
    }
    if (p->want == COMMA || p->want == COLON)
        return pdl_pull_fail(p, err,
                             p->want == COMMA ? "a comma is expected here"
                                              : "a colon is expected here");
    return read_value(p, c, kind, err);
}

enum pdl_status pdl_pull_next(struct pdl_pull *p, enum pdl_token *kind,
                              const char **text, struct pdl_err *err)
{
    enum pdl_status st = separators(p, err);

    p->ntext = 0;
    if (!put(p, 0))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->ntext = 0;
    if (st == PDL_OK)
        st = read_token(p, kind, err);
    if (text)
        *text = p->text;
    return st;
}

enum pdl_status pdl_pull_skip(struct pdl_pull *p, struct pdl_err *err)
{
    int depth = p->depth;
    enum pdl_token kind = PDL_TOKEN_END;
    enum pdl_status st;

    do
        st = pdl_pull_next(p, &kind, NULL, err);
    while (st == PDL_OK && kind != PDL_TOKEN_END && p->depth > depth);
    return st;
}
