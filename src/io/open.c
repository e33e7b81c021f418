/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a data set: what is there, which format it is, and the checks that
 * hold for all of them. */
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* In the order of probing: those with a magic number first, those that take
 * anything last. To add one: its file, a declaration in io_priv.h, a row. */
static const struct io_format *const formats[] = {
    &io_format_synthetic,  &io_format_npy, &io_format_hdf5,
    &io_format_webdataset, &io_format_idx, &io_format_cifar,
    &io_format_images,     &io_format_csv, &io_format_text,
    &io_format_tokens,
};
enum { NFORMATS = sizeof formats / sizeof formats[0], HEAD = 65536 };

const struct pdl_format *pdl_format_at(int i)
{
    return i >= 0 && i < NFORMATS ? &formats[i]->pub : NULL;
}

/* ---- what is there ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pdl_status list_folder(pdl_arena *a, struct io_source *src,
                                   struct pdl_err *err)
{
    DIR *d = opendir(src->path);
    struct dirent *e;
    enum pdl_status st = PDL_OK;

    if (!d)
        return pdl_fail(err, PDL_EIO, "%s: %s", src->path, strerror(errno));
    src->name = PDL_NEW(a, const char *, IO_NAMES);
    while (src->name && (e = readdir(d)) != NULL && src->nnames < IO_NAMES) {
        if (e->d_name[0] == '.')
            continue;
        src->name[src->nnames] = pdl_arena_strdup(a, e->d_name);
        if (!src->name[src->nnames++])
            break;
    }
    closedir(d);
    if (!src->name || (src->nnames > 0 && !src->name[src->nnames - 1]))
        st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", src->path);
    else
        qsort(src->name, (size_t)src->nnames, sizeof *src->name, by_name);
    return st;
}

static enum pdl_status look(pdl_arena *a, const char *path,
                            struct io_source *src, struct pdl_err *err)
{
    struct stat sb;

    *src = (struct io_source){.path = path};
    if (strcmp(path, "synthetic") == 0)
        return PDL_OK;
    if (stat(path, &sb) != 0)
        return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(sb.st_mode)) {
        src->folder = true;
        return list_folder(a, src, err);
    }
    if (!S_ISREG(sb.st_mode))
        return pdl_fail(err, PDL_EIO, "%s: not a regular file", path);
    src->bytes = sb.st_size;
    return io_peek(a, path, HEAD, &src->head, &src->packed, err);
}

/* ---- which format ---- */

static const struct io_format *unknown_format(const char *name,
                                              struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; i < NFORMATS; i++)
        pdl_suggest_try(&s, formats[i]->pub.name);
    pdl_say(err, "no format of data is called '%.40s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return NULL;
}

static const struct io_format *choose(const struct io_source *src,
                                      const struct pdl_io_options *opt,
                                      struct pdl_err *err)
{
    for (int i = 0; i < NFORMATS; i++)
        if (opt->format ? strcmp(formats[i]->pub.name, opt->format) == 0
                        : formats[i]->probe(src))
            return formats[i];
    if (opt->format)
        return unknown_format(opt->format, err);
    pdl_say(err, "%s: no data set that can be read", src->path);
    pdl_hint(
        err,
        "IDX, CIFAR, HDF5, NumPy, JPEG, tar, CSV, text and token files are");
    return NULL;
}

/* ---- opening ---- */

static pdl_io *create(const char *path, const struct pdl_io_options *opt)
{
    pdl_io *io = calloc(1, sizeof *io);

    if (!io)
        return NULL;
    if (opt)
        io->opt = *opt;
    if (io->opt.max_bytes <= 0)
        io->opt.max_bytes = (int64_t)8 << 30;
    if (io->opt.sequence <= 0)
        io->opt.sequence = 256;
    /* room for small things besides the data */
    io->arena =
        pdl_arena_create((size_t)io->opt.max_bytes + ((size_t)16 << 20));
    io->path = io->arena ? pdl_arena_strdup(io->arena, path) : NULL;
    if (!io->path) {
        pdl_io_close(io);
        return NULL;
    }
    io->d.name = io->path;
    return io;
}

void pdl_io_close(pdl_io *io)
{
    if (!io)
        return;
    if (io->ops && io->ops->close)
        io->ops->close(io);
    for (int i = 0; i < io->nfiles; i++)
        if (io->file[i].mapped)
            pdl_file_unmap(&io->file[i].bytes);
    pdl_arena_destroy(io->arena);
    free(io);
}

/* Formats look at labels and headers: of files that may shrink meanwhile. */
static enum pdl_status open_guarded(pdl_io *io, const struct io_format *f,
                                    const struct io_source *src,
                                    struct pdl_err *err)
{
    struct io_guard g;
    enum pdl_status st;

    io_guard_begin(&g);
    if (sigsetjmp(g.jump, 0) == 0)
        st = f->open(io, src, err);
    else
        st = io_guard_fail(io, &g, err);
    io_guard_end(&g);
    return st;
}

static enum pdl_status open_source(pdl_io *io, const struct io_source *src,
                                   struct pdl_err *err)
{
    const struct io_format *f = choose(src, &io->opt, err);
    enum pdl_status st;

    if (!f)
        return io->opt.format ? PDL_EINVAL : PDL_EPARSE;
    io->d.format = f->pub.name;
    st = open_guarded(io, f, src, err);
    return st == PDL_OK ? pdl_dataset_check(&io->d, err) : st;
}

enum pdl_status io_open_memory(const char *name, struct pdl_bytes in,
                               const struct io_format *format,
                               const struct pdl_io_options *opt, pdl_io **out,
                               struct pdl_err *err)
{
    pdl_io *io = create(name, opt);
    enum pdl_status st;

    if (!io)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    io->d.format = format->pub.name;
    st = pdl_gunzip(io->arena, in, name, (size_t)io->opt.max_bytes, &in, err);
    if (st != PDL_OK)
        goto out;
    if (format == &io_format_csv)
        st = io_csv_open(io, in, err);
    else if (format == &io_format_text)
        st = io_text_open(io, &in, 1, err);
    else
        st = io_tokens_open(io, &in, 1, err);
    if (st == PDL_OK)
        st = pdl_dataset_check(&io->d, err);
out:
    if (st != PDL_OK) {
        pdl_io_close(io);
        return st;
    }
    *out = io;
    return PDL_OK;
}

enum pdl_status pdl_io_open(const char *path, const struct pdl_io_options *opt,
                            pdl_io **out, struct pdl_err *err)
{
    struct io_source src;
    struct stat sb;
    enum pdl_status st;
    pdl_io *io;

    if (strcmp(path, "digits") == 0 && stat(path, &sb) != 0)
        return io_open_memory(path,
                              (struct pdl_bytes){(const char *)io_digits,
                                                 (size_t)io_digits_bytes},
                              &io_format_csv, opt, out, err);
    io = create(path, opt);
    if (!io)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    st = look(io->arena, path, &src, err);
    if (st == PDL_OK)
        st = open_source(io, &src, err);
    if (st != PDL_OK) {
        pdl_io_close(io);
        return st;
    }
    *out = io;
    return PDL_OK;
}

const struct pdl_dataset *pdl_io_describe(const pdl_io *io)
{
    return &io->d;
}
