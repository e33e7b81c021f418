/* SPDX-License-Identifier: Apache-2.0
 *
 * CIFAR-10 and CIFAR-100, "binary version" (A. Krizhevsky, "Learning multiple
 * layers of features from tiny images", 2009): records of a label (CIFAR-100:
 * a coarse and a fine one) and 3072 bytes, three planes of 32 x 32. There is
 * no header: a file is taken for one when its length is a multiple of the
 * record and every label is in range. */
#include "io_priv.h"

enum { PLANES = 3, SIDE = 32, PIXELS = PLANES * SIDE * SIDE };

static const struct variant {
    int labels, classes; /* bytes before the pixels; range of the last one */
} variants[] = {{1, 10}, {2, 100}};

static bool fits(const struct variant *v, struct pdl_bytes in, bool whole)
{
    size_t record = (size_t)v->labels + PIXELS;

    if (in.len < record || (whole && in.len % record != 0))
        return false;
    for (size_t at = 0; at < in.len; at += record)
        if (at + (size_t)v->labels <= in.len &&
            ((unsigned char)in.data[at + (size_t)v->labels - 1] >= v->classes ||
             (v->labels > 1 && (unsigned char)in.data[at] >= 20)))
            return false;
    return true;
}

enum pdl_status io_cifar_parse(struct pdl_bytes in, const char *name,
                               struct io_array *input, struct io_array *target,
                               struct pdl_err *err)
{
    const struct variant *v = NULL;
    const unsigned char *p = (const unsigned char *)in.data;

    for (size_t i = 0; !v && i < sizeof variants / sizeof variants[0]; i++)
        if (fits(&variants[i], in, true))
            v = &variants[i];
    if (!v)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: no CIFAR file: the length is no multiple of a "
                        "record, or a label is out of range",
                        name);
    *input = (struct io_array){
        .at = p + v->labels,
        .stride = v->labels + PIXELS,
        .count = (int64_t)in.len / (v->labels + PIXELS),
        .elem = io_elem_find("u8"),
        .rank = 3,
        .dim = {PLANES, SIDE, SIDE},
        .step = {(int64_t)SIDE * SIDE, SIDE, 1},
        .scale = 1.0 / 255,
    };
    *target = *input;
    target->at = p + v->labels - 1;
    target->rank = 0;
    return PDL_OK;
}

/* Names of the files as they are distributed. */
static const struct {
    const char *file, *split;
} files[] = {
    {"data_batch_1.bin", "train"}, {"data_batch_2.bin", "train"},
    {"data_batch_3.bin", "train"}, {"data_batch_4.bin", "train"},
    {"data_batch_5.bin", "train"}, {"test_batch.bin", "test"},
    {"train.bin", "train"},        {"test.bin", "test"},
};

static bool cifar_probe(const struct io_source *src)
{
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        if (!src->folder && !src->packed &&
            fits(&variants[i], src->head, false))
            return src->bytes % (variants[i].labels + PIXELS) == 0;
    return src->folder && (io_has_file(src, "data_batch_1.bin") ||
                           (io_has_file(src, "train.bin") &&
                            io_has_file(src, "fine_label_names.txt")));
}

static enum pdl_status add(pdl_io *io, const char *path, const char *split,
                           struct pdl_err *err)
{
    struct io_array input, target;
    struct pdl_bytes in;
    enum pdl_status st;

    if (!path)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    st = io_load(io, path, &in, err);
    if (st == PDL_OK)
        st = io_cifar_parse(in, path, &input, &target, err);
    if (st != PDL_OK)
        return st;
    if (io->opt.classes == 0) /* a small file need not hold all of them */
        io->opt.classes = input.stride == PIXELS + 1 ? 10 : 100;
    return io_segment_add(io, io_split(io, split), &input, &target, err);
}

static enum pdl_status cifar_open(pdl_io *io, const struct io_source *src,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (!src->folder)
        st = add(io, src->path, "train", err);
    for (size_t i = 0; i < sizeof files / sizeof files[0] && st == PDL_OK; i++)
        if (src->folder && io_has_file(src, files[i].file))
            st = add(io, io_join(io->arena, src->path, files[i].file),
                     files[i].split, err);
    return st == PDL_OK ? io_segments_describe(io, err) : st;
}

const struct io_format io_format_cifar = {
    .pub = {"cifar", "CIFAR-10 and CIFAR-100, binary version"},
    .probe = cifar_probe,
    .open = cifar_open,
};
