/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that were found before, so that a sweep that was stopped goes on: lines
 * "KEY STRATEGY" after a title. The key is a hash of all that the search was
 * told and of the program's version; a plan is priced again before it counts.
 */
#include "design_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLE "paradl design memo 2\n"

enum { MAX_FILE = 64 << 20, KEY = 16 };

struct design_memo {
    pdl_arena *arena;
    struct design_memo_entry *entry;
    size_t n, cap;
};

int design_memo_find(const struct design_memo *m, uint64_t key,
                     struct design_memo_entry *out, int most)
{
    int n = 0;

    for (size_t i = 0; i < m->n && n < most; i++)
        if (m->entry[i].key == key)
            out[n++] = m->entry[i];
    return n;
}

static void add(struct design_memo *m, struct design_memo_entry e)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        struct design_memo_entry *more =
            pdl_arena_grow(m->arena, m->entry, m->n, cap, sizeof *more);

        if (!more)
            return; /* it will be searched again */
        m->entry = more;
        m->cap = cap;
    }
    e.strategy = pdl_arena_strdup(m->arena, e.strategy);
    if (e.strategy)
        m->entry[m->n++] = e;
}

void design_memo_put(struct design_memo *m, uint64_t key,
                     const char *const *strategy, const double *step_s, int n)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->n; i++)
        if (m->entry[i].key != key)
            m->entry[kept++] = m->entry[i];
    m->n = kept;
    for (int i = 0; i < n; i++)
        if (!strpbrk(strategy[i], "\r\n"))
            add(m, (struct design_memo_entry){key, strategy[i], step_s[i]});
}

/* "KEY STEP STRATEGY"; the line is written into. */
static bool read_line(char *line, struct design_memo_entry *out)
{
    char *step = strchr(line, ' '), *plan = NULL, *end = NULL;

    if (!step || step - line != KEY)
        return false;
    *step++ = '\0';
    out->key = strtoull(line, &end, 16);
    if (*end)
        return false;
    out->step_s = pdl_strtod(step, &plan);
    out->strategy = plan + 1;
    return plan != step && *plan == ' ' && plan[1] && out->step_s > 0;
}

static enum pdl_status read_all(struct design_memo *m, struct pdl_bytes in,
                                const char *path, struct pdl_err *err)
{
    const char *at = in.data + strlen(TITLE), *end = in.data + in.len;
    int line = 2;

    if (in.len < strlen(TITLE) || memcmp(in.data, TITLE, strlen(TITLE)) != 0)
        return pdl_fail(err, PDL_EPARSE,
                        "%.200s:1:1: no file of plans that were found before",
                        path);
    for (; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = stop ? (size_t)(stop - at) : 0;
        char *text = pdl_arena_strndup(m->arena, at, n);
        struct design_memo_entry e;

        if (!text)
            return pdl_fail(err, PDL_ENOMEM, "%.200s: out of memory", path);
        if (!stop || strlen(text) != n || !read_line(text, &e))
            return pdl_fail(err, PDL_EPARSE,
                            "%.200s:%d:1: not a key of %d digits, a step and a "
                            "strategy",
                            path, line, KEY);
        add(m, e);
        at = stop + 1;
    }
    return PDL_OK;
}

enum pdl_status design_memo_open(const char *path, struct design_memo **out,
                                 struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct design_memo *m = a ? PDL_NEW(a, struct design_memo, 1) : NULL;
    struct pdl_bytes in = {NULL, 0};
    enum pdl_status st = PDL_OK;

    if (!m) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    m->arena = a;
    if (access(path, F_OK) == 0 || errno != ENOENT)
        st = pdl_file_read(a, path, MAX_FILE, &in, err);
    if (st == PDL_OK && in.data)
        st = read_all(m, in, path, err);
    if (st == PDL_OK)
        *out = m;
    else
        pdl_arena_destroy(a);
    return st;
}

void design_memo_close(struct design_memo *m)
{
    if (m)
        pdl_arena_destroy(m->arena);
}

enum pdl_status design_memo_save(const struct design_memo *m, const char *path,
                                 struct pdl_err *err)
{
    struct pdl_buf b;
    enum pdl_status st;

    pdl_buf_init(&b);
    pdl_puts(&b.sink, TITLE);
    for (size_t i = 0; i < m->n; i++)
        pdl_printf(&b.sink, "%016llx %.17g %s\n",
                   (unsigned long long)m->entry[i].key, m->entry[i].step_s,
                   m->entry[i].strategy);
    st = b.sink.failed ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                       : pdl_file_write(path, b.text, b.len, err);
    pdl_buf_free(&b);
    return st;
}
