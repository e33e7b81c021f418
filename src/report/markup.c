/* SPDX-License-Identifier: Apache-2.0
 *
 * Text and numbers into HTML and SVG. Names come from files that anybody may
 * have written: everything is escaped here and nowhere else. Numbers are made
 * of integers, because printf's decimal point follows the locale. */
#include "report_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at s; 0 when it is none (or is one that XML
 * does not allow). */
static int char_length(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : 0;
    unsigned c;

    if (n == 0 && s[0] >= 0xe0)
        n = s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n == 1)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    c = n == 2 ? s[0] & 0x1fU : n == 3 ? s[0] & 0x0fU : s[0] & 0x07U;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fU);
    }
    if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) ||
        (c >= 0xd800 && c < 0xe000) || (c & 0xfffe) == 0xfffe ||
        (n == 2 && c < 0xa0))
        return 0;
    return n;
}

static void put_char(struct pdl_sink *out, const char *s, int n)
{
    static const struct {
        char c;
        const char *text;
    } special[] = {{'&', "&amp;"},
                   {'<', "&lt;"},
                   {'>', "&gt;"},
                   {'"', "&quot;"},
                   {'\'', "&#39;"}};

    for (size_t i = 0; n == 1 && i < sizeof special / sizeof special[0]; i++)
        if (*s == special[i].c) {
            pdl_puts(out, special[i].text);
            return;
        }
    if (n == 0)
        pdl_puts(out, "\xef\xbf\xbd");
    else
        pdl_put(out, s, (size_t)n);
}

static const char *put_chars(struct pdl_sink *out, const char *s, int count)
{
    for (; *s && count > 0; count--) {
        int n = char_length((const unsigned char *)s);

        if (out)
            put_char(out, s, n);
        s += n > 0 ? n : 1;
    }
    return s;
}

void report_text(struct pdl_sink *out, const char *s)
{
    if (s)
        put_chars(out, s, INT32_MAX);
}

void report_loose(struct pdl_sink *out, const char *s)
{
    while (s && *s) {
        bool comma = *s == ',';

        s = put_chars(out, s, 1);
        if (comma && *s && *s != ' ')
            pdl_puts(out, "<wbr>");
    }
}

bool report_short(struct pdl_sink *out, const char *s, int columns)
{
    int n = 0, head = (columns - 1) * 2 / 3;

    for (const char *p = s; *p; n++)
        p = put_chars(NULL, p, 1);
    if (n <= columns) {
        report_text(out, s);
        return false;
    }
    put_chars(out, s, head);
    pdl_puts(out, "\xe2\x80\xa6");
    report_text(out, put_chars(NULL, s, n - (columns - 1 - head)));
    return true;
}

void report_num(struct pdl_sink *out, double v)
{
    double limit = 1e12;
    long long tenths =
        isnan(v) ? 0 : llround(fmax(-limit, fmin(limit, v)) * 10);
    long long all = tenths < 0 ? -tenths : tenths;

    if (tenths < 0)
        pdl_puts(out, "-");
    pdl_printf(out, "%lld", all / 10);
    if (all % 10)
        pdl_printf(out, ".%lld", all % 10);
}

void report_attr(struct pdl_sink *out, const char *name, double v)
{
    pdl_printf(out, " %s=\"", name);
    report_num(out, v);
    pdl_puts(out, "\"");
}

void report_tip(struct pdl_sink *out, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pdl_puts(out, "<title>");
    report_text(out, text);
    pdl_puts(out, "</title>");
}

void report_json(struct pdl_sink *out, struct pdl_bytes json)
{
    const char *p = json.data, *end = json.data + json.len;

    while (p < end) {
        const char *lt = memchr(p, '<', (size_t)(end - p));

        pdl_put(out, p, (size_t)((lt ? lt : end) - p));
        if (!lt)
            break;
        pdl_puts(out, "\\u003c");
        p = lt + 1;
    }
}
