/* SPDX-License-Identifier: Apache-2.0
 *
 * Data sets that are arrays in memory: a split is a row of segments, each an
 * array of inputs and one of targets. CIFAR's five training files are five
 * segments; an IDX pair is one. */
#include "guard.h"

#include <string.h>

int io_split(pdl_io *io, const char *name)
{
    int s = pdl_dataset_split(&io->d, name);

    if (s >= 0)
        return s;
    if (io->d.nsplits == PDL_DATA_SPLITS)
        return -1;
    s = io->d.nsplits++;
    io->d.split[s] = (struct pdl_data_split){.name = name};
    return s;
}

int64_t io_holdout(const pdl_io *io, int64_t n, double usual)
{
    double share = io->opt.holdout == 0 ? usual : io->opt.holdout;
    int64_t held;

    if (!(share > 0))
        return 0;
    held = (int64_t)((double)n * (share < 1 ? share : 1));
    return held < n ? held : n - 1;
}

enum pdl_status io_segment_add(pdl_io *io, int split,
                               const struct io_array *input,
                               const struct io_array *target,
                               struct pdl_err *err)
{
    struct io_segment *s = &io->segment[io->nsegments];

    if (split < 0 || io->nsegments == IO_SEGMENTS)
        return pdl_fail(err, PDL_EPARSE, "%s: too many splits or files",
                        io->path);
    if (input->count != target->count)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: %lld inputs but %lld targets in '%s'", io->path,
                        (long long)input->count, (long long)target->count,
                        io->d.split[split].name);
    *s =
        (struct io_segment){split, io->d.split[split].samples, *input, *target};
    io->d.split[split].samples += input->count;
    io->nsegments++;
    return PDL_OK;
}

static bool same_shape(const struct io_array *a, const struct io_array *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

static enum pdl_status count_classes(pdl_io *io, struct pdl_err *err)
{
    int64_t max = -1;

    for (int i = 0; i < io->nsegments; i++) {
        int64_t m = io_array_max(&io->segment[i].target);

        if (m < 0)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: the label of sample %lld (counted from 0; "
                            "'%s') is no class: negative, or too large",
                            io->path, (long long)(io->segment[i].first - 1 - m),
                            io->d.split[io->segment[i].split].name);
        max = m > max ? m : max;
    }
    if (io->opt.classes > 0 && max >= io->opt.classes)
        return pdl_fail(err, PDL_EPARSE, "%s: label %lld of %lld classes",
                        io->path, (long long)max, (long long)io->opt.classes);
    io->d.classes = io->opt.classes > 0 ? io->opt.classes : max + 1;
    return PDL_OK;
}

static struct pdl_field field_of(const struct io_array *a, bool integer)
{
    struct pdl_field f = {.integer = integer, .rank = a->rank};

    memcpy(f.dim, a->dim, sizeof f.dim);
    return f;
}

enum pdl_status io_segments_describe(pdl_io *io, struct pdl_err *err)
{
    const struct io_segment *first = &io->segment[0];
    bool labels = io->nsegments > 0;
    enum pdl_status st = PDL_OK;

    if (io->nsegments == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no samples", io->path);
    for (int i = 0; i < io->nsegments; i++) {
        const struct io_segment *s = &io->segment[i];

        if (!same_shape(&s->input, &first->input) ||
            !same_shape(&s->target, &first->target))
            return pdl_fail(err, PDL_EPARSE,
                            "%s: the samples of '%s' have another shape than "
                            "those of '%s'",
                            io->path, io->d.split[s->split].name,
                            io->d.split[first->split].name);
        labels &= s->target.elem->integer;
    }
    if (labels)
        st = count_classes(io, err);
    io->d.input = field_of(&first->input, false);
    io->d.target = field_of(&first->target, labels);
    io->ops = &io_segment_ops;
    io->finite = io->pixels = true;
    for (int i = 0; i < io->nsegments; i++)
        io->pixels &= io->segment[i].input.elem == io_elem_find("u8");
    for (int i = 0; i < io->nsegments; i++)
        io->finite &= io->segment[i].input.elem->integer &&
                      io->segment[i].target.elem->integer;
    return st;
}

static const struct io_segment *segment_of(const pdl_io *io, int split,
                                           int64_t sample)
{
    for (int i = 0; i < io->nsegments; i++) {
        const struct io_segment *s = &io->segment[i];

        if (s->split == split && sample >= s->first &&
            sample < s->first + s->input.count)
            return s;
    }
    return NULL; /* the caller has checked the range */
}

static enum pdl_status segment_input(const pdl_io *io, int split,
                                     int64_t sample, const struct pdl_box *box,
                                     void *dst, struct pdl_err *err)
{
    const struct io_segment *s = segment_of(io, split, sample);

    if (!s)
        return pdl_fail(err, PDL_EINVAL, "%s: no sample %lld", io->path,
                        (long long)sample);
    io_array_read(&s->input, sample - s->first, box, io->d.input.integer, dst);
    return PDL_OK;
}

static enum pdl_status segment_target(const pdl_io *io, int split,
                                      int64_t sample, const struct pdl_box *box,
                                      void *dst, struct pdl_err *err)
{
    const struct io_segment *s = segment_of(io, split, sample);

    if (!s)
        return pdl_fail(err, PDL_EINVAL, "%s: no sample %lld", io->path,
                        (long long)sample);
    io_array_read(&s->target, sample - s->first, box, io->d.target.integer,
                  dst);
    return PDL_OK;
}

static const char *segment_where(const pdl_io *io, int split, int64_t sample,
                                 bool target, int64_t *number)
{
    const struct io_segment *s = segment_of(io, split, sample);

    if (!s)
        return io->path;
    *number = sample - s->first;
    return io_file_at(io, target ? s->target.at : s->input.at);
}

const struct io_ops io_segment_ops = {
    .input = segment_input,
    .target = segment_target,
    .where = segment_where,
};
