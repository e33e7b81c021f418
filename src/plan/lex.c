/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and words of plan files (doc/formats/plan.md). Text is UTF-8 without
 * control characters; lines end with a line feed. */
#include "lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void plan_lex_init(struct plan_lex *x, pdl_arena *a, struct pdl_bytes in,
                   const char *file, struct pdl_err *err)
{
    *x = (struct plan_lex){.arena = a,
                           .file = file,
                           .err = err,
                           .next = in.data,
                           .end = in.data + in.len,
                           .start = in.data,
                           .at = in.data,
                           .eol = in.data};
}

void plan_lex_fail(struct plan_lex *x, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    if (x->status != PDL_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    x->status =
        pdl_fail(x->err, PDL_EPARSE, "%s:%d:%d: %s", x->file,
                 x->line > 0 ? x->line : 1, (int)(x->at - x->start) + 1, text);
}

void plan_lex_hint(struct plan_lex *x, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pdl_hint(x->err, "%s", text);
}

bool plan_lex_line(struct plan_lex *x)
{
    while (x->status == PDL_OK && x->next < x->end) {
        const char *nl = memchr(x->next, '\n', (size_t)(x->end - x->next));

        x->start = x->at = x->next;
        x->eol = nl ? nl : x->end;
        x->next = nl ? nl + 1 : x->end;
        x->line++;
        for (const char *p = x->start; p < x->eol; p++)
            if ((unsigned char)*p < 32 || *p == 127) {
                x->at = p;
                plan_lex_fail(x, "a control character");
                return false;
            }
        if (plan_lex_more(x) && *x->at != '#')
            return true;
    }
    return false;
}

bool plan_lex_more(struct plan_lex *x)
{
    while (x->at < x->eol && *x->at == ' ')
        x->at++;
    return x->status == PDL_OK && x->at < x->eol;
}

bool plan_lex_is(const struct plan_lex *x, const char *text)
{
    size_t n = strlen(text);

    return x->status == PDL_OK && (size_t)(x->eol - x->at) >= n &&
           memcmp(x->at, text, n) == 0;
}

bool plan_lex_take(struct plan_lex *x, const char *text)
{
    if (!plan_lex_is(x, text))
        return false;
    x->at += strlen(text);
    return true;
}

void plan_lex_need(struct plan_lex *x, const char *text)
{
    if (!plan_lex_take(x, text))
        plan_lex_fail(x, "expected '%s'", text);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* After the opening quote. */
static const char *quoted(struct plan_lex *x)
{
    char *out = pdl_arena_alloc(x->arena, (size_t)(x->eol - x->at) + 1, 1);
    size_t n = 0;

    if (!out) {
        plan_lex_fail(x, "out of memory");
        return "";
    }
    while (x->at < x->eol && *x->at != '"') {
        char c = *x->at++;

        if (c == '\\' && x->eol - x->at >= 3 && x->at[0] == 'x' &&
            hex(x->at[1]) >= 0 && hex(x->at[2]) >= 0) {
            c = (char)(16 * hex(x->at[1]) + hex(x->at[2]));
            x->at += 3;
        } else if (c == '\\' && x->at < x->eol &&
                   (*x->at == '"' || *x->at == '\\')) {
            c = *x->at++;
        } else if (c == '\\') {
            plan_lex_fail(x, "only \\\", \\\\ and \\xNN may follow a "
                             "backslash");
            return "";
        }
        if (c == '\0') {
            plan_lex_fail(x, "a zero byte in a name");
            return "";
        }
        out[n++] = c;
    }
    plan_lex_need(x, "\"");
    return out;
}

const char *plan_lex_word(struct plan_lex *x, bool rest)
{
    const char *start, *end;
    char *word;

    if (!plan_lex_more(x)) {
        plan_lex_fail(x, "the line ends too early");
        return "";
    }
    if (plan_lex_take(x, "\""))
        return quoted(x);
    start = x->at;
    end = rest ? x->eol : memchr(start, ' ', (size_t)(x->eol - start));
    if (!end)
        end = x->eol;
    while (rest && end > start && end[-1] == ' ')
        end--;
    x->at = end;
    word = pdl_arena_strndup(x->arena, start, (size_t)(end - start));
    if (!word)
        plan_lex_fail(x, "out of memory");
    return word ? word : "";
}

int64_t plan_lex_int(struct plan_lex *x, int64_t min, int64_t max)
{
    const char *start = x->at;
    bool minus = min < 0 && plan_lex_take(x, "-");
    int64_t v = 0;
    int digits = 0;

    if (x->status != PDL_OK)
        return min;
    for (; x->at < x->eol && *x->at >= '0' && *x->at <= '9'; x->at++, digits++)
        if (!pdl_mul64(v, 10, &v) || !pdl_add64(v, *x->at - '0', &v)) {
            x->at = start;
            plan_lex_fail(x, "the number is too large");
            return min;
        }
    v = minus ? -v : v;
    if (digits == 0) {
        plan_lex_fail(x, "expected a number");
    } else if (v < min || v > max) {
        x->at = start;
        plan_lex_fail(x, "%lld is out of range", (long long)v);
    }
    return x->status == PDL_OK ? v : min;
}

void plan_lex_done(struct plan_lex *x)
{
    if (plan_lex_more(x))
        plan_lex_fail(x, "the line should end here");
}
