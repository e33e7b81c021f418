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

#define TITLE "paradl design memo 1\n"

enum { MAX_FILE = 64 << 20, KEY = 16 };

struct entry {
    uint64_t key;
    const char *strategy;
};

struct design_memo {
    pdl_arena *arena;
    struct entry *entry;
    size_t n, cap;
};

const char *design_memo_find(const struct design_memo *m, uint64_t key)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->entry[i].key == key)
            return m->entry[i].strategy;
    return NULL;
}

void design_memo_add(struct design_memo *m, uint64_t key, const char *strategy)
{
    const char *copy = NULL;

    if (design_memo_find(m, key) || strpbrk(strategy, "\r\n"))
        return;
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        struct entry *e =
            pdl_arena_grow(m->arena, m->entry, m->n, cap, sizeof *e);

        if (!e)
            return; /* it will be searched again */
        m->entry = e;
        m->cap = cap;
    }
    copy = pdl_arena_strdup(m->arena, strategy);
    if (copy)
        m->entry[m->n++] = (struct entry){key, copy};
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
        char key[KEY + 1] = "", *rest = NULL;
        uint64_t k = 0;
        char *plan;

        if (stop && stop - at > KEY + 1 && at[KEY] == ' ') {
            memcpy(key, at, KEY);
            k = strtoull(key, &rest, 16);
        }
        if (!rest || *rest || memchr(at, '\0', (size_t)(stop - at)))
            return pdl_fail(
                err, PDL_EPARSE,
                "%.200s:%d:1: not a key of %d digits and a strategy", path,
                line, KEY);
        plan = pdl_arena_strndup(m->arena, at + KEY + 1,
                                 (size_t)(stop - at) - KEY - 1);
        if (!plan)
            return pdl_fail(err, PDL_ENOMEM, "%.200s: out of memory", path);
        design_memo_add(m, k, plan);
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
        pdl_printf(&b.sink, "%016llx %s\n", (unsigned long long)m->entry[i].key,
                   m->entry[i].strategy);
    st = b.sink.failed ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                       : pdl_file_write(path, b.text, b.len, err);
    pdl_buf_free(&b);
    return st;
}
