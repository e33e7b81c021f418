/* SPDX-License-Identifier: Apache-2.0
 *
 * HDF5: a data set of inputs and one of targets, samples first, either in
 * groups /train, /test, /val or at the root. Only the box that is asked for is
 * read from the file, so a rank of a spatial split reads its rows and a file
 * may be larger than memory.
 *
 * The library of Debian has global state and no locks; one lock of ours
 * stands before it. Pixels of 8 bits are scaled to [0,1] as everywhere. */
#include "io_priv.h"

#include <string.h>

static bool is_hdf5(const struct io_source *src)
{
    return !src->folder && src->head.len >= 8 &&
           memcmp(src->head.data, "\x89HDF\r\n\x1a\n", 8) == 0;
}

#ifdef PDL_HAVE_HDF5

#include <hdf5.h>
#include <pthread.h>

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

/* One array on disk; dims in the field's order. */
struct array {
    hid_t id;
    int ndims; /* of the file, samples included */
    hsize_t dim[PDL_DATA_RANK + 1];
    int rank;
    bool add_channel, integer;
    float scale;
};

struct file {
    hid_t id;
    struct array input[PDL_DATA_SPLITS], target[PDL_DATA_SPLITS];
};

static const char *const groups[] = {"/train", "/test", "/val", ""};

/* What was never written has no storage, whatever its extent: a few bytes may
 * claim 2^60 labels, and reading them never ends. Deflate, the strongest filter
 * in use, makes 1032 bytes of one. */
static bool is_stored(const struct array *a, size_t item)
{
    enum { RATIO = 4096 };
    int64_t n = (int64_t)item, stored = (int64_t)H5Dget_storage_size(a->id);

    for (int i = 0; i < a->ndims; i++)
        if (a->dim[i] > INT64_MAX || !pdl_mul64(n, (int64_t)a->dim[i], &n))
            return false;
    return n / RATIO <= stored;
}

static enum pdl_status open_array(const pdl_io *io, struct file *f,
                                  const char *path, struct array *a,
                                  struct pdl_err *err)
{
    hid_t space, type;
    size_t item = 0;

    *a = (struct array){.id = H5Dopen2(f->id, path, H5P_DEFAULT), .scale = 1};
    if (a->id < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no data set %s", io->path, path);
    space = H5Dget_space(a->id);
    type = H5Dget_type(a->id);
    a->ndims = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    if (a->ndims >= 1 && a->ndims <= PDL_DATA_RANK + 1)
        H5Sget_simple_extent_dims(space, a->dim, NULL);
    a->integer = type >= 0 && H5Tget_class(type) == H5T_INTEGER;
    if (type >= 0)
        item = H5Tget_size(type);
    if (a->integer && item == 1)
        a->scale = 1.0F / 255;
    if (type >= 0 && !a->integer && H5Tget_class(type) != H5T_FLOAT)
        a->ndims = -1;
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    if (a->ndims < 1 || a->ndims > PDL_DATA_RANK + 1)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: %s is no array of numbers with 1 to %d dimensions",
                        io->path, path, PDL_DATA_RANK + 1);
    if (!is_stored(a, item))
        return pdl_fail(err, PDL_EPARSE,
                        "%s: %s claims more values than the file can hold",
                        io->path, path);
    a->add_channel = a->ndims == 3;
    a->rank = a->ndims - 1 + (a->add_channel ? 1 : 0);
    return PDL_OK;
}

static struct pdl_field field_of(const struct array *a, bool integer)
{
    struct pdl_field f = {.integer = integer, .rank = a->rank};
    int d = 0;

    if (a->add_channel)
        f.dim[d++] = 1;
    for (int i = 1; i < a->ndims; i++)
        f.dim[d++] = (int64_t)a->dim[i];
    return f;
}

/* Box in file order: the sample, then the dimensions behind it. */
static bool read_box(const struct array *a, int64_t sample,
                     const struct pdl_box *box, bool integer, void *dst)
{
    hsize_t start[PDL_DATA_RANK + 1] = {(hsize_t)sample};
    hsize_t count[PDL_DATA_RANK + 1] = {1};
    hid_t file = H5Dget_space(a->id), mem;
    herr_t rc;

    for (int i = 1; i < a->ndims; i++) {
        int d = i - 1 + (a->add_channel ? 1 : 0);

        start[i] = (hsize_t)box->lo[d];
        count[i] = (hsize_t)(box->hi[d] - box->lo[d]);
    }
    mem = H5Screate_simple(a->ndims, count, NULL);
    rc = H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL);
    if (rc >= 0)
        rc = H5Dread(a->id, integer ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT, mem,
                     file, H5P_DEFAULT, dst);
    H5Sclose(mem);
    H5Sclose(file);
    return rc >= 0;
}

static enum pdl_status hdf5_input(const pdl_io *io, int split, int64_t sample,
                                  const struct pdl_box *box, void *dst,
                                  struct pdl_err *err)
{
    const struct array *a = &((const struct file *)io->state)->input[split];
    int64_t n = pdl_box_volume(box);
    float *x = dst;
    bool ok;

    if (n == 0)
        return PDL_OK;
    pthread_mutex_lock(&library);
    ok = read_box(a, sample, box, false, dst);
    pthread_mutex_unlock(&library);
    if (!ok)
        return pdl_fail(err, PDL_EIO, "%s: sample %lld cannot be read",
                        io->path, (long long)sample);
    for (int64_t i = 0; i < n; i++)
        x[i] *= a->scale;
    return PDL_OK;
}

static enum pdl_status hdf5_target(const pdl_io *io, int split, int64_t sample,
                                   const struct pdl_box *box, void *dst,
                                   struct pdl_err *err)
{
    const struct array *a = &((const struct file *)io->state)->target[split];
    int64_t n = pdl_box_volume(box);
    const int32_t *y = dst;
    bool ok;

    if (n == 0)
        return PDL_OK;
    pthread_mutex_lock(&library);
    ok = read_box(a, sample, box, io->d.target.integer, dst);
    pthread_mutex_unlock(&library);
    if (!ok)
        return pdl_fail(err, PDL_EIO, "%s: target %lld cannot be read",
                        io->path, (long long)sample);
    for (int64_t i = 0; i < n && io->d.target.integer; i++)
        if (y[i] < 0 || y[i] >= io->d.classes)
            return pdl_fail(err, PDL_EPARSE, "%s: label %d of %lld classes",
                            io->path, y[i], (long long)io->d.classes);
    return PDL_OK;
}

static void close_arrays(struct file *f)
{
    for (int i = 0; i < PDL_DATA_SPLITS; i++) {
        if (f->input[i].id > 0)
            H5Dclose(f->input[i].id);
        if (f->target[i].id > 0)
            H5Dclose(f->target[i].id);
    }
    if (f->id > 0)
        H5Fclose(f->id);
}

static void hdf5_close(pdl_io *io)
{
    pthread_mutex_lock(&library);
    close_arrays(io->state);
    pthread_mutex_unlock(&library);
}

static const struct io_ops hdf5_ops = {
    .input = hdf5_input,
    .target = hdf5_target,
    .close = hdf5_close,
};

/* ---- opening ---- */

/* The largest label, read in pieces; -1 when one is negative. */
static int64_t max_label(const struct array *a)
{
    enum { PIECE = 4096 };
    int32_t y[PIECE];
    hid_t file = H5Dget_space(a->id);
    int64_t max = 0;

    for (hsize_t at = 0; at < a->dim[0] && max >= 0; at += PIECE) {
        hsize_t n = a->dim[0] - at < PIECE ? a->dim[0] - at : PIECE;
        hid_t mem = H5Screate_simple(1, &n, NULL);

        if (H5Sselect_hyperslab(file, H5S_SELECT_SET, &at, NULL, &n, NULL) <
                0 ||
            H5Dread(a->id, H5T_NATIVE_INT32, mem, file, H5P_DEFAULT, y) < 0)
            max = -1;
        H5Sclose(mem);
        for (hsize_t i = 0; i < n && max >= 0; i++)
            max = y[i] < 0 ? -1 : y[i] > max ? y[i] : max;
    }
    H5Sclose(file);
    return max;
}

static enum pdl_status open_split(pdl_io *io, struct file *f, const char *group,
                                  struct pdl_err *err)
{
    const char *x = io->opt.input ? io->opt.input : "x";
    const char *y = io->opt.target ? io->opt.target : "y";
    int s = io_split(io, *group ? group + 1 : "train");
    const char *in = pdl_arena_printf(io->arena, "%s/%s", group, x);
    const char *out = pdl_arena_printf(io->arena, "%s/%s", group, y);
    enum pdl_status st;

    if (!in || !out)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    st = open_array(io, f, in, &f->input[s], err);
    if (st == PDL_OK)
        st = open_array(io, f, out, &f->target[s], err);
    if (st != PDL_OK)
        return st;
    if (f->input[s].dim[0] != f->target[s].dim[0])
        return pdl_fail(err, PDL_EPARSE, "%s: %s and %s differ in length",
                        io->path, in, out);
    io->d.split[s].samples = (int64_t)f->input[s].dim[0];
    return PDL_OK;
}

static bool same_field(const struct pdl_field *a, const struct pdl_field *b)
{
    return a->rank == b->rank && a->integer == b->integer &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

static enum pdl_status describe(pdl_io *io, struct file *f, struct pdl_err *err)
{
    bool labels = f->target[0].integer && f->target[0].rank == 0;

    io->d.input = field_of(&f->input[0], false);
    io->d.target = field_of(&f->target[0], labels);
    for (int s = 0; s < io->d.nsplits; s++) {
        struct pdl_field x = field_of(&f->input[s], false);
        struct pdl_field y = field_of(&f->target[s], labels);
        int64_t max =
            labels && io->opt.classes <= 0 ? max_label(&f->target[s]) : 0;

        if (!same_field(&x, &io->d.input) || !same_field(&y, &io->d.target))
            return pdl_fail(err, PDL_EPARSE, "%s: splits of different shapes",
                            io->path);
        if (max < 0 || max >= INT32_MAX)
            return pdl_fail(err, PDL_EPARSE, "%s: a label is out of range",
                            io->path);
        if (labels && max + 1 > io->d.classes)
            io->d.classes = max + 1;
    }
    if (labels && io->opt.classes > 0)
        io->d.classes = io->opt.classes;
    return PDL_OK;
}

static enum pdl_status open_file(pdl_io *io, struct file *f,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the library must not print */
    f->id = H5Fopen(io->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (f->id < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: a damaged HDF5 file", io->path);
    for (int i = 0; i < 4 && st == PDL_OK; i++)
        if (*groups[i] ? H5Lexists(f->id, groups[i], H5P_DEFAULT) > 0
                       : io->d.nsplits == 0)
            st = open_split(io, f, groups[i], err);
    return st == PDL_OK ? describe(io, f, err) : st;
}

static enum pdl_status hdf5_open(pdl_io *io, const struct io_source *src,
                                 struct pdl_err *err)
{
    struct file *f = PDL_NEW(io->arena, struct file, 1);
    enum pdl_status st;

    (void)src;
    if (!f)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    pthread_mutex_lock(&library);
    st = open_file(io, f, err);
    if (st != PDL_OK)
        close_arrays(f);
    pthread_mutex_unlock(&library);
    if (st != PDL_OK)
        return st;
    io->state = f;
    io->ops = &hdf5_ops;
    return PDL_OK;
}

#else

static enum pdl_status hdf5_open(pdl_io *io, const struct io_source *src,
                                 struct pdl_err *err)
{
    enum pdl_status st = pdl_fail(
        err, PDL_ENOENV, "%s: this program was built without HDF5", src->path);

    (void)io;
    pdl_hint(err, "install libhdf5-dev and build again");
    return st;
}

#endif

const struct io_format io_format_hdf5 = {
    .pub = {"hdf5", "HDF5 data sets of inputs and targets"},
    .probe = is_hdf5,
    .open = hdf5_open,
};
