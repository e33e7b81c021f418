/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units. A table of suffixes for each kind; the parser takes a
 * number, optional blanks and one suffix. Prefixes are exact: Ki, Mi, Gi are
 * powers of 1024, k, M, G powers of 1000, and b is a bit where B is a byte. */
#include "base_priv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct suffix {
    const char *text;
    double scale;
};

#define Ki 1024.0
#define Mi (Ki * Ki)
#define Gi (Ki * Mi)
#define Ti (Ki * Gi)
#define Pi (Ki * Ti)

// clang-format off
static const struct suffix none[] = {
    {"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9},
    {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {0}};
static const struct suffix bytes[] = {
    {"B", 1}, {"KiB", Ki}, {"MiB", Mi}, {"GiB", Gi}, {"TiB", Ti}, {"PiB", Pi},
    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
    {"PB", 1e15}, {"EB", 1e18}, {"bytes", 1}, {0}};
static const struct suffix bytes_s[] = {
    {"B/s", 1}, {"kB/s", 1e3}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9},
    {"TB/s", 1e12}, {"PB/s", 1e15}, {"KiB/s", Ki}, {"MiB/s", Mi},
    {"GiB/s", Gi}, {"TiB/s", Ti}, {"bps", 1 / 8.0}, {"kbps", 1e3 / 8},
    {"Mbps", 1e6 / 8}, {"Gbps", 1e9 / 8}, {"Tbps", 1e12 / 8},
    {"b/s", 1 / 8.0}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8},
    {"Tb/s", 1e12 / 8}, {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8},
    {"Bps", 1}, {"kBps", 1e3}, {"MBps", 1e6}, {"GBps", 1e9},
    {"TBps", 1e12}, {0}};
static const struct suffix seconds[] = {
    {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6},
    {"\xce\xbcs", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12}, {"min", 60},
    {"h", 3600}, {"d", 86400}, {0}};
static const struct suffix flop_s[] = {
    {"FLOP/s", 1}, {"kFLOP/s", 1e3}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18},
    {"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}, {0}};
static const struct suffix watt[] = {
    {"W", 1}, {"mW", 1e-3}, {"kW", 1e3}, {"MW", 1e6}, {0}};
static const struct suffix metre[] = {
    {"m", 1}, {"cm", 1e-2}, {"mm", 1e-3}, {"km", 1e3}, {0}};
static const struct suffix hertz[] = {
    {"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}, {0}};

/* What people read: the suffixes to choose from, rising. */
static const struct suffix show_none[] = {
    {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {0}};
static const struct suffix show_bytes[] = {
    {"B", 1}, {"KiB", Ki}, {"MiB", Mi}, {"GiB", Gi}, {"TiB", Ti}, {0}};
static const struct suffix show_bytes_s[] = {
    {"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {0}};
static const struct suffix show_seconds[] = {
    {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {0}};
static const struct suffix show_flop_s[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12},
    {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}, {0}};
static const struct suffix show_watt[] = {
    {"W", 1}, {"kW", 1e3}, {"MW", 1e6}, {0}};
static const struct suffix show_metre[] = {
    {"mm", 1e-3}, {"m", 1}, {"km", 1e3}, {0}};
static const struct suffix show_hertz[] = {
    {"Hz", 1}, {"MHz", 1e6}, {"GHz", 1e9}, {0}};

static const struct kind {
    const struct suffix *read, *show;
    const char *example;
} kinds[PDL_NUNITS] = {
    [PDL_UNIT_NONE]    = {none,    show_none,    "1000"},
    [PDL_UNIT_BYTES]   = {bytes,   show_bytes,   "32MiB or 80GB"},
    [PDL_UNIT_BYTES_S] = {bytes_s, show_bytes_s, "12.5GB/s or 400Gbps"},
    [PDL_UNIT_SECONDS] = {seconds, show_seconds, "5us or 1.5s"},
    [PDL_UNIT_FLOP_S]  = {flop_s,  show_flop_s,  "312TFLOP/s"},
    [PDL_UNIT_WATT]    = {watt,    show_watt,    "700W"},
    [PDL_UNIT_METRE]   = {metre,   show_metre,   "5m"},
    [PDL_UNIT_HERTZ]   = {hertz,   show_hertz,   "1.98GHz"},
};
// clang-format on

static const struct suffix *find_suffix(const struct suffix *list,
                                        const char *text)
{
    for (; list->text; list++)
        if (strcmp(list->text, text) == 0)
            return list;
    return NULL;
}

/* 5us must be the double 5e-6: 5 * 1e-6 is not, 5 / 1e6 is. */
static double scaled(double v, double scale)
{
    return scale < 1 ? v / round(1 / scale) : v * scale;
}

/* strtod also reads hexadecimal, "inf" and "nan": those are not numbers a
 * person writes here. */
static bool plain_number(const char *s)
{
    if (*s == '+' || *s == '-')
        s++;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
        return false;
    return (*s >= '0' && *s <= '9') || *s == '.';
}

static enum pdl_status bad_suffix(const char *text, const char *suffix,
                                  const struct kind *k, struct pdl_err *err)
{
    struct pdl_suggest s;

    if (!*suffix) {
        pdl_fail(err, PDL_EPARSE, "'%.40s' needs a unit", text);
        pdl_hint(err, "write it like %s", k->example);
        return PDL_EPARSE;
    }
    pdl_fail(err, PDL_EPARSE, "'%.40s': unknown unit '%.20s'", text, suffix);
    pdl_suggest_init(&s, suffix);
    for (const struct suffix *x = k->read; x->text; x++)
        pdl_suggest_try(&s, x->text);
    if (pdl_suggest_best(&s) && *pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "write it like %s", k->example);
    return PDL_EPARSE;
}

enum pdl_status pdl_unit_parse(const char *text, enum pdl_unit unit,
                               double *out, struct pdl_err *err)
{
    const struct kind *k = &kinds[unit];
    const struct suffix *x;
    char *end;
    double v;

    if (!plain_number(text)) {
        pdl_fail(err, PDL_EPARSE, "'%.40s' is not a number", text);
        pdl_hint(err, "write it like %s", k->example);
        return PDL_EPARSE;
    }
    v = base_strtod(text, &end);
    if (end == text)
        return pdl_fail(err, PDL_EPARSE, "'%.40s' is not a number", text);
    while (*end == ' ')
        end++;
    x = find_suffix(k->read, end);
    if (!x && !(*end == '\0' && v == 0))
        return bad_suffix(text, end, k, err);
    v = x ? scaled(v, x->scale) : v;
    if (!isfinite(v))
        return pdl_fail(err, PDL_EPARSE, "'%.40s' is too large", text);
    *out = v;
    return PDL_OK;
}

enum pdl_status pdl_int_parse(const char *text, int64_t min, int64_t max,
                              int64_t *out, struct pdl_err *err)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (!plain_number(text) || end == text || *end)
        return pdl_fail(err, PDL_EPARSE, "'%.40s' is not a whole number", text);
    if (errno == ERANGE || v < min || v > max)
        return pdl_fail(err, PDL_EPARSE, "%.40s is outside %lld to %lld", text,
                        (long long)min, (long long)max);
    *out = v;
    return PDL_OK;
}

/* Whole numbers above 2^53 would lose their last digits as doubles. */
static bool whole_bytes(const char *text, int64_t *out)
{
    const struct suffix *x;
    char *end;
    long long v;

    if (!plain_number(text))
        return false;
    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE)
        return false;
    while (*end == ' ')
        end++;
    x = find_suffix(bytes, end);
    return x && v >= 0 && pdl_mul64(v, (int64_t)x->scale, out);
}

enum pdl_status pdl_bytes_parse(const char *text, int64_t *out,
                                struct pdl_err *err)
{
    double v = 0;
    enum pdl_status st;

    if (whole_bytes(text, out))
        return PDL_OK;
    st = pdl_unit_parse(text, PDL_UNIT_BYTES, &v, err);
    if (st != PDL_OK)
        return st;
    if (v < 0 || v != floor(v))
        return pdl_fail(err, PDL_EPARSE,
                        "'%.40s' is not a whole number of bytes", text);
    if (v >= 0x1p63)
        return pdl_fail(err, PDL_EPARSE, "'%.40s' is too large", text);
    *out = (int64_t)v;
    return PDL_OK;
}

const char *pdl_unit_format(double value, enum pdl_unit unit, char *buf,
                            size_t size)
{
    const struct suffix *x = kinds[unit].show;
    double v = fabs(value);
    char digits[400]; /* 1e308 in full */

    if (!isfinite(value)) {
        snprintf(buf, size, "-");
        return buf;
    }
    /* 0.9995 of the next unit would print as 1e+03 of this one */
    while (x[1].text && v >= 0.9995 * x[1].scale && v > 0)
        x++;
    v = value / x->scale;
    if (fabs(v) >= 999.5) /* %.3g would print 1e+03 */
        snprintf(digits, sizeof digits, "%.0f", v);
    else
        base_put_double(digits, sizeof digits, 3, v);
    snprintf(buf, size, "%s%s%s", digits, *x->text ? " " : "", x->text);
    return buf;
}

static const char *si_suffix(const struct suffix *list)
{
    while (list->scale != 1)
        list++;
    return list->text;
}

/* The largest unit in which a short text reads back exactly. */
static const struct suffix *short_exact(double value, const struct suffix *list)
{
    const struct suffix *best = NULL;

    for (const struct suffix *x = list; x->text; x++) {
        char digits[32];

        base_put_double(digits, sizeof digits, 6, value / x->scale);
        if (scaled(base_strtod(digits, NULL), x->scale) == value &&
            !strchr(digits, 'e') && (fabs(value) >= x->scale || !best) &&
            (!best || x->scale > best->scale))
            best = x;
    }
    return best;
}

const char *pdl_unit_print(double value, enum pdl_unit unit, char *buf,
                           size_t size)
{
    const struct suffix *best = short_exact(value, kinds[unit].show);
    char digits[32];

    /* 80 GB is no round number of GiB, but it is one of GB */
    if (!best)
        best = short_exact(value, kinds[unit].read);
    if (best)
        base_put_double(digits, sizeof digits, 6, value / best->scale);
    else
        base_put_double(digits, sizeof digits, 17, value);
    snprintf(buf, size, "%s%s", digits,
             best ? best->text : si_suffix(kinds[unit].show));
    return buf;
}
