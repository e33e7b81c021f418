/* SPDX-License-Identifier: Apache-2.0
 *
 * Data sets of compressed images with one label each. An image is decoded when
 * it is read, every time: a store (store.c) holds what came out. */
#include "images.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_SIDE = 224, MOST_SIDE = 4096 };

static enum pdl_status read_whole(const struct io_image *image,
                                  struct pdl_bytes *out, struct pdl_err *err)
{
    if (image->data.data) {
        *out = image->data;
        return PDL_OK;
    }
    return pdl_file_map(image->path, out, err);
}

static enum pdl_status images_bytes(const pdl_io *io, int split, int64_t sample,
                                    unsigned char *dst, struct pdl_err *err)
{
    const struct io_images *s = io->state;
    const struct io_image *image = &s->split[split].image[sample];
    struct pdl_bytes in = {NULL, 0};
    enum pdl_status st = read_whole(image, &in, err);

    if (st == PDL_OK)
        st = io_jpeg_decode(in, image->path, s->side, dst, err);
    if (!image->data.data && in.data)
        pdl_file_unmap(&in);
    return st;
}

static enum pdl_status images_input(const pdl_io *io, int split, int64_t sample,
                                    const struct pdl_box *box, void *dst,
                                    struct pdl_err *err)
{
    const struct io_images *s = io->state;
    int64_t n = s->side * s->side;
    unsigned char *planes = malloc((size_t)(3 * n));
    struct io_array a = {.at = planes,
                         .count = 1,
                         .stride = 3 * n,
                         .elem = io_elem_find("u8"),
                         .rank = 3,
                         .dim = {3, s->side, s->side},
                         .step = {n, s->side, 1},
                         .scale = 1.0 / 255};
    enum pdl_status st;

    if (!planes)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    st = images_bytes(io, split, sample, planes, err);
    if (st == PDL_OK)
        io_array_read(&a, 0, box, false, dst);
    free(planes);
    return st;
}

static enum pdl_status images_target(const pdl_io *io, int split,
                                     int64_t sample, const struct pdl_box *box,
                                     void *dst, struct pdl_err *err)
{
    const struct io_images *s = io->state;

    (void)box;
    (void)err;
    *(int32_t *)dst = s->split[split].image[sample].label;
    return PDL_OK;
}

static const char *images_where(const pdl_io *io, int split, int64_t sample,
                                bool target, int64_t *number)
{
    const struct io_images *s = io->state;

    (void)target;
    (void)number;
    return s->split[split].image[sample].path;
}

static void images_close(pdl_io *io)
{
    struct io_images *s = io->state;

    for (int i = 0; i < PDL_DATA_SPLITS; i++)
        free(s->split[i].image);
    for (int i = 0; i < s->nmaps; i++)
        pdl_file_unmap(&s->map[i]);
    free(s->map);
}

static const struct io_ops image_ops = {
    .input = images_input,
    .target = images_target,
    .close = images_close,
    .bytes = images_bytes,
    .where = images_where,
};

struct io_images *io_images_new(pdl_io *io, struct pdl_err *err)
{
    struct io_images *s = PDL_NEW(io->arena, struct io_images, 1);

    if (!s) {
        pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
        return NULL;
    }
    *s = (struct io_images){.side =
                                io->opt.side > 0 ? io->opt.side : USUAL_SIDE};
    if (s->side > MOST_SIDE) {
        pdl_fail(err, PDL_EINVAL, "%s: images of %lld x %lld", io->path,
                 (long long)s->side, (long long)s->side);
        return NULL;
    }
    io->state = s;
    io->ops = &image_ops;
    return s;
}

enum pdl_status io_images_add(pdl_io *io, int split,
                              const struct io_image *image, struct pdl_err *err)
{
    struct io_images *s = io->state;
    int64_t n, room;
    struct io_image *more;

    if (split < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: too many splits", io->path);
    n = s->split[split].n;
    if (n == s->split[split].room) {
        room = n > 0 ? 2 * n : 256;
        more = realloc(s->split[split].image, (size_t)room * sizeof *more);
        if (!more)
            return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
        s->split[split].image = more;
        s->split[split].room = room;
    }
    s->split[split].image[s->split[split].n++] = *image;
    return PDL_OK;
}

enum pdl_status io_images_describe(pdl_io *io, int64_t classes,
                                   struct pdl_err *err)
{
    const struct io_images *s = io->state;

    for (int i = 0; i < io->d.nsplits; i++)
        io->d.split[i].samples = s->split[i].n;
    if (io->d.nsplits == 0 || s->split[0].n == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no images", io->path);
    if (io->opt.classes > 0 && classes > io->opt.classes)
        return pdl_fail(err, PDL_EPARSE, "%s: %lld classes, %lld are wanted",
                        io->path, (long long)classes,
                        (long long)io->opt.classes);
    io->d.input = (struct pdl_field){.rank = 3, .dim = {3, s->side, s->side}};
    io->d.target = (struct pdl_field){.integer = true};
    io->d.classes = io->opt.classes > 0 ? io->opt.classes : classes;
    io->finite = io->pixels = true;
    return PDL_OK;
}
