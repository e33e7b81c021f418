/* SPDX-License-Identifier: Apache-2.0
 *
 * Execution traces of Chakra as files: one a rank, PREFIX.0.et, PREFIX.1.et and
 * so on, as ASTRA-sim has them. */
#include "cli/questions/cli_collective.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 1 << 16, MOST_PATH = 4096 };
static const size_t most_bytes = (size_t)1 << 30;

bool cli_is_chakra(const char *name)
{
    size_t n = strlen(name);

    return n > 3 && strcmp(name + n - 3, ".et") == 0;
}

/* "step.0.et": "step"; NULL: of one rank. */
static const char *prefix_of(pdl_arena *a, const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcmp(path + n - 5, ".0.et") == 0
               ? pdl_arena_strndup(a, path, n - 5)
               : NULL;
}

static bool is_there(const char *prefix, int rank)
{
    char path[MOST_PATH];

    snprintf(path, sizeof path, "%s.%d.et", prefix, rank);
    return access(path, F_OK) == 0;
}

static enum pdl_status read_files(pdl_arena *a, const char *path,
                                  struct pdl_chakra *out, struct pdl_err *err)
{
    const char *prefix = prefix_of(a, path);
    struct pdl_bytes *file;
    const char **name;
    enum pdl_status st = PDL_OK;

    out->nranks = 1;
    while (prefix && out->nranks < MOST_RANKS && is_there(prefix, out->nranks))
        out->nranks++;
    out->file = file = PDL_NEW(a, struct pdl_bytes, out->nranks);
    out->name = name = PDL_NEW(a, const char *, out->nranks);
    for (int r = 0; file && name && r < out->nranks && st == PDL_OK; r++) {
        name[r] = r ? pdl_arena_printf(a, "%s.%d.et", prefix, r) : path;
        if (!name[r])
            break;
        st = pdl_file_read(a, name[r], most_bytes, &file[r], err);
    }
    if (!file || !name || !name[out->nranks - 1])
        return st != PDL_OK ? st : pdl_fail(err, PDL_ENOMEM, "out of memory");
    return st;
}

enum pdl_status cli_chakra_read(pdl_arena *a, const struct cli_chakra *what,
                                struct pdl_traffic *out,
                                struct pdl_chakra_count *count,
                                struct pdl_err *err)
{
    struct pdl_chakra in = {.algorithm = what->algorithm,
                            .net = what->net,
                            .groups_name = what->groups};
    enum pdl_status st = read_files(a, what->path, &in, err);

    if (st == PDL_OK && what->groups)
        st = pdl_file_read(a, what->groups, most_bytes, &in.groups, err);
    return st == PDL_OK ? pdl_coll_read_chakra(a, &in, out, count, err) : st;
}

enum pdl_status cli_chakra_write(const char *prefix,
                                 const struct pdl_traffic *t,
                                 struct pdl_err *err)
{
    char path[MOST_PATH];
    enum pdl_status st = PDL_OK;

    if (t->nranks > MOST_RANKS)
        return pdl_fail(err, PDL_EINVAL, "--chakra writes at most %d files",
                        MOST_RANKS);
    for (int r = 0; r < t->nranks && st == PDL_OK; r++) {
        struct pdl_buf b;

        pdl_buf_init(&b);
        snprintf(path, sizeof path, "%s.%d.et", prefix, r);
        st = pdl_coll_write_chakra(t, r, &b.sink, err);
        if (st == PDL_OK)
            st = pdl_file_write(path, b.text, b.len, err);
        pdl_buf_free(&b);
    }
    return st;
}
