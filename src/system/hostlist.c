/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm host lists, both ways, and SLURM_TASKS_PER_NODE. The rules are those
 * scontrol 22.05 follows (tests/data/system/slurm_hostlist_truth.txt): zero
 * padding is the width of a range's first number, several brackets multiply
 * in row-major order, duplicates stay, text after the last bracket is an
 * error. Where scontrol prints garbage (a bracket that is not closed) this is
 * an error too. Expansion is bounded, so that n[0-999999999] costs nothing. */
#include "system_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 8, MAX_DIGITS = 18, MAX_NAME = 256, MAX_RANGES = 1 << 16 };

struct range {
    int64_t lo, hi;
    int width;
};

/* One item: text, bracket, text, bracket ... */
struct item {
    const char *text, *end;
    struct {
        const char *before;
        int nbefore;
        struct range *ranges;
        int nranges;
        int64_t count;
    } groups[MAX_GROUPS];
    int ngroups;
    const char *tail;
    int ntail;
    int64_t count;
};

static enum pdl_status bad(const struct item *it, struct pdl_err *err,
                           const char *what)
{
    int len = (int)(it->end - it->text);

    return pdl_fail(err, PDL_EPARSE, "host list: '%.*s%s': %s",
                    len > 60 ? 60 : len, it->text, len > 60 ? "..." : "", what);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

static int digits(const char *p, const char *end)
{
    int n = 0;

    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

static int64_t number(const char *p, int n)
{
    int64_t v = 0;

    for (int i = 0; i < n; i++)
        v = 10 * v + (p[i] - '0');
    return v;
}

static enum pdl_status parse_range(const struct item *it, const char **pp,
                                   const char *end, struct range *out,
                                   struct pdl_err *err)
{
    const char *p = *pp;
    int n = digits(p, end), m = n;
    const char *q = p;

    if (n > 0 && p + n < end && p[n] == '-') {
        q = p + n + 1;
        m = digits(q, end);
    }
    if (n == 0 || m == 0)
        return bad(it, err, "a range is number or number-number");
    if (n > MAX_DIGITS || m > MAX_DIGITS)
        return bad(it, err, "a number has too many digits");
    *out = (struct range){number(p, n), number(q, m), n};
    if (out->hi < out->lo)
        return bad(it, err, "a range runs backwards");
    *pp = q + m;
    return PDL_OK;
}

/* The ranges of one bracket; *pp stands behind '[' and ends behind ']'. */
static enum pdl_status parse_bracket(pdl_arena *a, struct item *it,
                                     const char **pp, struct pdl_err *err)
{
    const char *p = *pp, *close = memchr(p, ']', (size_t)(it->end - p));
    struct range *ranges;
    int cap = 1, n = 0;
    int64_t count = 0;

    if (!close)
        return bad(it, err, "a bracket is not closed");
    for (const char *q = p; q < close; q++)
        cap += *q == ',';
    ranges = cap <= MAX_RANGES ? PDL_NEW(a, struct range, cap) : NULL;
    if (!ranges)
        return bad(it, err, "too many ranges");
    for (;;) {
        enum pdl_status st = parse_range(it, &p, close, &ranges[n], err);

        if (st != PDL_OK)
            return st;
        if (!pdl_add64(count, ranges[n].hi - ranges[n].lo + 1, &count))
            return bad(it, err, "too many hosts");
        n++;
        if (p == close)
            break;
        if (*p++ != ',')
            return bad(it, err, "a range is number or number-number");
    }
    it->groups[it->ngroups].ranges = ranges;
    it->groups[it->ngroups].nranges = n;
    it->groups[it->ngroups++].count = count;
    *pp = close + 1;
    return PDL_OK;
}

static enum pdl_status parse_item(pdl_arena *a, struct item *it,
                                  struct pdl_err *err)
{
    const char *p = it->text;

    it->count = 1;
    while (p < it->end) {
        const char *start = p;
        enum pdl_status st;

        while (p < it->end && is_name(*p))
            p++;
        if (p == it->end) {
            it->tail = start;
            it->ntail = (int)(p - start);
            break;
        }
        if (*p != '[')
            return bad(it, err, "a name has letters, digits, '-', '_', '.'");
        if (it->ngroups == MAX_GROUPS)
            return bad(it, err, "too many brackets");
        it->groups[it->ngroups].before = start;
        it->groups[it->ngroups].nbefore = (int)(p - start);
        p++;
        st = parse_bracket(a, it, &p, err);
        if (st != PDL_OK)
            return st;
        if (!pdl_mul64(it->count, it->groups[it->ngroups - 1].count,
                       &it->count))
            return bad(it, err, "too many hosts");
    }
    if (it->ngroups > 0 && it->ntail > 0)
        return bad(it, err, "text after the last bracket");
    return PDL_OK;
}

/* The k-th number of a bracket, with its width. */
static int put_number(char *out, size_t size, const struct range *ranges,
                      int64_t k)
{
    while (k > ranges->hi - ranges->lo) {
        k -= ranges->hi - ranges->lo + 1;
        ranges++;
    }
    k += ranges->lo;
    return snprintf(out, size, "%0*lld", ranges->width, (long long)k);
}

static const char *nth_name(pdl_arena *a, const struct item *it, int64_t k)
{
    char name[MAX_NAME];
    int64_t below = it->count;
    size_t len = 0;

    for (int g = 0; g < it->ngroups && len < sizeof name; g++) {
        int64_t index;

        below /= it->groups[g].count;
        index = k / below;
        k %= below;
        len += (size_t)snprintf(name + len, sizeof name - len, "%.*s",
                                it->groups[g].nbefore, it->groups[g].before);
        if (len < sizeof name)
            len += (size_t)put_number(name + len, sizeof name - len,
                                      it->groups[g].ranges, index);
    }
    if (len < sizeof name)
        len += (size_t)snprintf(name + len, sizeof name - len, "%.*s",
                                it->ntail, it->ntail ? it->tail : "");
    return len < sizeof name ? pdl_arena_strdup(a, name) : NULL;
}

static enum pdl_status expand_item(pdl_arena *a, struct item *it,
                                   struct pdl_hosts *out, int64_t *cap,
                                   struct pdl_err *err)
{
    enum pdl_status st = parse_item(a, it, err);

    if (st != PDL_OK)
        return st;
    if (it->count > PDL_MAX_HOSTS - out->count) {
        pdl_fail(err, PDL_EPARSE, "host list: more than %d hosts",
                 PDL_MAX_HOSTS);
        return PDL_EPARSE;
    }
    if (out->count + it->count > *cap) {
        int64_t want = 2 * (out->count + it->count);
        const char **grown = pdl_arena_grow(a, out->names, (size_t)out->count,
                                            (size_t)want, sizeof *grown);

        if (!grown)
            return system_no_memory(err, "host list");
        out->names = grown;
        *cap = want;
    }
    for (int64_t k = 0; k < it->count; k++) {
        const char *name = nth_name(a, it, k);

        if (!name)
            return bad(it, err, "a name is too long");
        out->names[out->count++] = name;
    }
    return PDL_OK;
}

/* The end of an item: a comma or blank outside brackets; blanks after a
 * bracket that stayed open are no part of it. */
static const char *item_end(const char *start)
{
    const char *p = start;
    bool inside = false;

    for (; *p; p++) {
        if (*p == '[')
            inside = true;
        else if (*p == ']')
            inside = false;
        else if (!inside && strchr(", \t\r\n", *p))
            break;
    }
    while (p > start && !*p && strchr(" \t\r\n", p[-1]))
        p--;
    return p;
}

enum pdl_status pdl_hostlist_expand(pdl_arena *a, const char *text,
                                    struct pdl_hosts *out, struct pdl_err *err)
{
    struct pdl_hosts hosts = {NULL, 0};
    int64_t cap = 0;

    while (*text) {
        struct item it = {.text = text, .end = item_end(text)};
        enum pdl_status st;

        if (strchr(" \t\r\n", *text)) {
            text++;
            continue;
        }
        if (it.end == it.text)
            return pdl_fail(err, PDL_EPARSE, "host list: an empty name");
        st = expand_item(a, &it, &hosts, &cap, err);
        if (st != PDL_OK)
            return st;
        text = it.end;
        if (*text == ',' && !*++text)
            return pdl_fail(err, PDL_EPARSE, "host list: an empty name");
    }
    if (hosts.count == 0)
        return pdl_fail(err, PDL_EPARSE, "host list: empty");
    *out = hosts;
    return PDL_OK;
}

/* ---- the way back ----------------------------------------------------- */

struct split {
    int prefix, width; /* bytes before the number; its digits */
    int64_t value;
};

static struct split split_name(const char *name)
{
    int len = (int)strlen(name), at = len;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    if (len - at > MAX_DIGITS)
        at = len - MAX_DIGITS;
    return (struct split){at, len - at, number(name + at, len - at)};
}

/* Writes hosts i.. that share a prefix and returns the first that does not. */
static int64_t put_group(struct pdl_sink *out, const struct pdl_hosts *in,
                         int64_t i)
{
    struct split first = split_name(in->names[i]);
    int64_t end = i + 1;

    while (end < in->count && first.width > 0) {
        struct split s = split_name(in->names[end]);

        if (s.width == 0 || s.prefix != first.prefix ||
            memcmp(in->names[i], in->names[end], (size_t)first.prefix) != 0)
            break;
        end++;
    }
    if (end == i + 1) {
        pdl_puts(out, in->names[i]);
        return end;
    }
    pdl_printf(out, "%.*s[", first.prefix, in->names[i]);
    while (i < end) {
        struct split lo = split_name(in->names[i]), hi = lo;
        int64_t k = i + 1;

        for (; k < end; k++) {
            struct split s = split_name(in->names[k]);
            char digits_of[24];

            /* the number must print the same with the first one's width */
            snprintf(digits_of, sizeof digits_of, "%0*lld", lo.width,
                     (long long)s.value);
            if (s.value != hi.value + 1 ||
                strcmp(digits_of, in->names[k] + s.prefix) != 0)
                break;
            hi = s;
        }
        pdl_puts(out, in->names[i] + lo.prefix);
        if (k > i + 1)
            pdl_printf(out, "-%s", in->names[k - 1] + lo.prefix);
        i = k;
        pdl_puts(out, i < end ? "," : "]");
    }
    return end;
}

enum pdl_status pdl_hostlist_compress(pdl_arena *a, const struct pdl_hosts *in,
                                      const char **out, struct pdl_err *err)
{
    struct pdl_buf buf;
    const char *copy;

    pdl_buf_init(&buf);
    for (int64_t i = 0; i < in->count;) {
        if (i)
            pdl_puts(&buf.sink, ",");
        i = put_group(&buf.sink, in, i);
    }
    copy =
        buf.sink.failed ? NULL : pdl_arena_strdup(a, buf.text ? buf.text : "");
    pdl_buf_free(&buf);
    if (!copy)
        return system_no_memory(err, "host list");
    *out = copy;
    return PDL_OK;
}

static int by_name(const void *pa, const void *pb)
{
    const char *a = *(const char *const *)pa, *b = *(const char *const *)pb;
    struct split x = split_name(a), y = split_name(b);
    int least = x.prefix < y.prefix ? x.prefix : y.prefix;
    int c = memcmp(a, b, (size_t)least);

    if (c == 0)
        c = (x.prefix > y.prefix) - (x.prefix < y.prefix);
    if (c == 0)
        c = (x.value > y.value) - (x.value < y.value);
    if (c == 0)
        c = (x.width > y.width) - (x.width < y.width);
    return c;
}

void pdl_hostlist_sort(struct pdl_hosts *hosts)
{
    if (hosts->count > 1)
        qsort(hosts->names, (size_t)hosts->count, sizeof *hosts->names,
              by_name);
}

/* ---- SLURM_TASKS_PER_NODE --------------------------------------------- */

static enum pdl_status bad_tasks(const char *text, struct pdl_err *err)
{
    pdl_fail(err, PDL_EPARSE, "'%.60s' is not a list of tasks per node", text);
    pdl_hint(err, "Slurm writes it like 8(x4),2");
    return PDL_EPARSE;
}

enum pdl_status pdl_tasks_expand(pdl_arena *a, const char *text,
                                 struct pdl_ints *out, struct pdl_err *err)
{
    const char *end = text + strlen(text), *p = text;
    int64_t *v = NULL, n = 0;

    do {
        int d = digits(p, end);
        int64_t tasks, times = 1, *grown;

        if (d == 0 || d > 9)
            return bad_tasks(text, err);
        tasks = number(p, d);
        p += d;
        if (strncmp(p, "(x", 2) == 0) {
            d = digits(p + 2, end);
            if (d == 0 || d > 9 || p[2 + d] != ')')
                return bad_tasks(text, err);
            times = number(p + 2, d);
            p += d + 3;
        }
        if (tasks < 1 || times < 1 || times > PDL_MAX_HOSTS - n)
            return bad_tasks(text, err);
        grown = pdl_arena_grow(a, v, (size_t)n, (size_t)(n + times), sizeof *v);
        if (!grown)
            return system_no_memory(err, "tasks per node");
        v = grown;
        for (int64_t i = 0; i < times; i++)
            v[n++] = tasks;
    } while (*p++ == ',');
    if (p[-1] != '\0')
        return bad_tasks(text, err);
    *out = (struct pdl_ints){v, n};
    return PDL_OK;
}
