/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a checkpoint: any box of any tensor, from whatever shards hold
 * parts of it, which is all that resuming on other ranks takes. Files are
 * read in whole chunks and a chunk is compared with its checksum before a
 * byte of it is used. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static enum pdl_status check_files(const pdl_ckpt *c, struct pdl_err *err)
{
    for (int i = 0; i < c->nfiles; i++) {
        const char *name = c->file[i].name;
        struct stat sb;

        if (fstatat(c->fd, name, &sb, AT_SYMLINK_NOFOLLOW) != 0)
            return pdl_fail(err, PDL_EIO, "%s/%s: %s", c->path, name,
                            strerror(errno));
        if (!S_ISREG(sb.st_mode))
            return pdl_fail(err, PDL_EPARSE, "%s/%s: is no file", c->path,
                            name);
        if (sb.st_size != c->file[i].bytes)
            return pdl_fail(err, PDL_EPARSE,
                            "%s/%s: %lld bytes instead of %lld", c->path, name,
                            (long long)sb.st_size, (long long)c->file[i].bytes);
    }
    return PDL_OK;
}

static enum pdl_status load(pdl_ckpt *c, struct pdl_err *err)
{
    const char *path = pdl_arena_printf(c->arena, "%s/manifest.json", c->path);
    struct pdl_bytes in;
    enum pdl_status st;

    if (!path)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", c->path);
    st = io_read_file(c->arena, c->fd, "manifest.json", path, &in, err);
    if (st == PDL_OK)
        st = io_manifest_parse(c, in, path, true, err);
    return st == PDL_OK ? check_files(c, err) : st;
}

/* Takes the descriptor, whatever comes back. */
static enum pdl_status open_at(int fd, const char *path, pdl_ckpt **out,
                               struct pdl_err *err)
{
    pdl_ckpt *c = fd >= 0 ? calloc(1, sizeof *c) : NULL;
    enum pdl_status st = PDL_ENOMEM;

    if (fd < 0)
        return io_sys_fail(err, path);
    if (!c)
        close(fd);
    else
        c->fd = fd;
    if (c)
        c->arena = pdl_arena_create((size_t)16 << 30);
    if (c && c->arena)
        c->path = pdl_arena_strdup(c->arena, path);
    if (c && c->path)
        st = load(c, err);
    else
        (void)pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    if (st != PDL_OK) {
        pdl_ckpt_close(c);
        return st;
    }
    *out = c;
    return PDL_OK;
}

enum pdl_status io_ckpt_open(int at, const char *name, const char *path,
                             pdl_ckpt **out, struct pdl_err *err)
{
    return open_at(io_open_folder(at, name), path, out, err);
}

/* A path that somebody gave may lead through links; nothing inside does. */
enum pdl_status pdl_ckpt_open(const char *path, pdl_ckpt **out,
                              struct pdl_err *err)
{
    return open_at(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path, out,
                   err);
}

void pdl_ckpt_close(pdl_ckpt *c)
{
    if (!c)
        return;
    close(c->fd);
    pdl_arena_destroy(c->arena);
    free(c);
}

uint64_t pdl_ckpt_owner(const pdl_ckpt *c)
{
    return c->owner;
}

const char *pdl_ckpt_path(const pdl_ckpt *c)
{
    return c->path;
}

const struct pdl_ckpt_state *pdl_ckpt_state(const pdl_ckpt *c)
{
    return &c->state;
}

int pdl_ckpt_count(const pdl_ckpt *c)
{
    return c->ntensors;
}

const struct pdl_ckpt_tensor *pdl_ckpt_tensor(const pdl_ckpt *c, int i)
{
    return i >= 0 && i < c->ntensors ? &c->tensor[i].pub : NULL;
}

static int by_name(const void *key, const void *t)
{
    return strcmp(key, ((const struct io_tensor *)t)->pub.name);
}

int pdl_ckpt_find(const pdl_ckpt *c, const char *name)
{
    const struct io_tensor *t =
        bsearch(name, c->tensor, (size_t)c->ntensors, sizeof *t, by_name);

    return t ? (int)(t - c->tensor) : -1;
}

/* ---- data ---- */

static int open_file(const pdl_ckpt *c, int file, char *path, size_t size,
                     struct pdl_err *err)
{
    int fd;

    snprintf(path, size, "%s/%s", c->path, c->file[file].name);
    fd = openat(c->fd, c->file[file].name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        (void)io_sys_fail(err, path);
    return fd;
}

/* Chunks [first, end) of a shard, checked. */
static enum pdl_status read_chunks(const pdl_ckpt *c, const struct io_shard *s,
                                   int64_t first, int64_t end, char *dst,
                                   struct pdl_err *err)
{
    char path[4096];
    int64_t chunk = c->chunk_bytes, from = first * chunk;
    int64_t to = end * chunk < s->bytes ? end * chunk : s->bytes;
    int fd = open_file(c, s->file, path, sizeof path, err);
    enum pdl_status st;

    if (fd < 0)
        return PDL_EIO;
    st = io_read_at(fd, path, s->offset + from, dst, to - from, err);
    close(fd);
    for (int64_t i = first; i < end && st == PDL_OK; i++) {
        int64_t n = s->bytes - i * chunk < chunk ? s->bytes - i * chunk : chunk;

        if (XXH3_64bits(dst + (i - first) * chunk, (size_t)n) != s->sum[i])
            st = pdl_fail(err, PDL_EPARSE,
                          "%s: damaged: the checksum of bytes %lld to %lld "
                          "differs",
                          path, (long long)(s->offset + i * chunk),
                          (long long)(s->offset + i * chunk + n));
    }
    return st;
}

static enum pdl_status read_part(const pdl_ckpt *c, const struct io_tensor *t,
                                 const struct io_shard *s,
                                 const struct pdl_box *part,
                                 const struct pdl_box *box, void *dst,
                                 struct pdl_err *err)
{
    int64_t size = pdl_dtype_bits(t->pub.dtype) / 8, lo, hi, first, end;
    enum pdl_status st;
    char *buf;

    io_part_span(part, &s->box, &lo, &hi);
    first = lo * size / c->chunk_bytes;
    end = (hi * size - 1) / c->chunk_bytes + 1;
    buf = malloc((size_t)((end - first) * c->chunk_bytes < s->bytes
                              ? (end - first) * c->chunk_bytes
                              : s->bytes));
    if (!buf)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", c->path);
    st = read_chunks(c, s, first, end, buf, err);
    /* the buffer begins inside an element only if a chunk does: skip bytes */
    if (st == PDL_OK)
        io_copy_part(part, size, &s->box,
                     buf + (lo * size - first * c->chunk_bytes), lo, box, dst);
    free(buf);
    return st;
}

enum pdl_status pdl_ckpt_read(const pdl_ckpt *c, int tensor,
                              const struct pdl_box *box, void *dst,
                              struct pdl_err *err)
{
    const struct io_tensor *t;
    struct pdl_box part;
    enum pdl_status st = PDL_OK;
    bool ok = tensor >= 0 && tensor < c->ntensors;

    t = ok ? &c->tensor[tensor] : NULL;
    ok = ok && box->ndims == t->pub.rank;
    for (int d = 0; ok && d < box->ndims; d++)
        ok = box->lo[d] >= 0 && box->lo[d] <= box->hi[d] &&
             box->hi[d] <= t->pub.dim[d];
    if (!ok)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: a tensor or box that is not there", c->path);
    for (int i = 0; i < t->nshards && st == PDL_OK; i++)
        if (pdl_box_intersect(&t->shard[i].box, box, &part))
            st = read_part(c, t, &t->shard[i], &part, box, dst, err);
    return st;
}

enum pdl_status pdl_ckpt_verify(const pdl_ckpt *c, struct pdl_err *err)
{
    char *buf = malloc((size_t)c->chunk_bytes);
    enum pdl_status st = PDL_OK;

    if (!buf)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", c->path);
    for (int t = 0; t < c->ntensors; t++)
        for (int i = 0; i < c->tensor[t].nshards; i++) {
            const struct io_shard *s = &c->tensor[t].shard[i];

            for (int64_t k = 0; k < s->nchunks && st == PDL_OK; k++)
                st = read_chunks(c, s, k, k + 1, buf, err);
        }
    free(buf);
    return st;
}
