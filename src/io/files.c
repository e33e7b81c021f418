/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of data sets: mapped while the data set is open, or inflated into its
 * arena when they are gzipped. */
#include "io_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char *io_join(pdl_arena *a, const char *folder, const char *name)
{
    return pdl_arena_printf(a, "%s/%s", folder, name);
}

bool io_has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    if (n > 3 && strcmp(name + n - 3, ".gz") == 0)
        n -= 3;
    return n >= m && strncmp(name + n - m, suffix, m) == 0;
}

bool io_has_file(const struct io_source *src, const char *name)
{
    for (int i = 0; i < src->nnames; i++)
        if (strcmp(src->name[i], name) == 0)
            return true;
    return false;
}

enum pdl_status io_load(pdl_io *io, const char *path, struct pdl_bytes *out,
                        struct pdl_err *err)
{
    struct io_loaded *f = &io->file[io->nfiles];
    struct pdl_bytes map, plain;
    enum pdl_status st;

    if (io->nfiles == (int)(sizeof io->file / sizeof io->file[0]))
        return pdl_fail(err, PDL_EPARSE, "%s: too many files", path);
    st = pdl_file_map(path, &map, err);
    if (st != PDL_OK)
        return st;
    st = pdl_gunzip(io->arena, map, path, (size_t)io->opt.max_bytes, &plain,
                    err);
    if (st == PDL_OK) {
        *f = (struct io_loaded){pdl_arena_strdup(io->arena, path), plain,
                                plain.data == map.data};
        if (!f->path)
            st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    }
    if (st != PDL_OK || !f->mapped)
        pdl_file_unmap(&map);
    if (st != PDL_OK)
        return st;
    io->nfiles++;
    *out = plain;
    return PDL_OK;
}

/* gzread passes plain files through. */
enum pdl_status io_peek(pdl_arena *a, const char *path, size_t want,
                        struct pdl_bytes *out, bool *packed,
                        struct pdl_err *err)
{
    char *buf = pdl_arena_alloc(a, want, 1);
    gzFile f = buf ? gzopen(path, "rb") : NULL;
    int got;

    if (!buf)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    if (!f)
        return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
    got = gzread(f, buf, (unsigned)want);
    *packed = !gzdirect(f);
    gzclose(f);
    if (got < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: damaged gzip data", path);
    *out = (struct pdl_bytes){buf, (size_t)got};
    return PDL_OK;
}
