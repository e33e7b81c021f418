/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up data of any shape, a function of (seed, split, sample, element), so
 * that there is nothing to read and every rank agrees. It can be learned: an
 * image is the pattern of its class plus noise of the same size, and in a
 * sequence three tokens of four follow from the one before. */
#include "io_priv.h"

#include <string.h>

enum { TRAIN_SAMPLES = 50000, TEST_SAMPLES = 10000, CLASSES = 10 };
enum { LABEL, NOISE, PATTERN, TOKEN }; /* streams */
enum { ROW = 1024 };                   /* numbers made at once */
enum { PATTERNS = 1 << 18 };           /* numbers kept at most */

static uint64_t key_of(const pdl_io *io, int split)
{
    return pdl_draw_key(io->opt.seed, PDL_DRAW_SYNTHETIC, split);
}

static int64_t below(uint32_t x, int64_t n)
{
    return (int64_t)((uint64_t)x * (uint64_t)n >> 32);
}

/* In [-1, 1). */
static float symmetric(uint32_t x)
{
    return (float)(int32_t)(x ^ 0x80000000u) * 0x1p-31f;
}

static int64_t label_of(const pdl_io *io, int split, int64_t sample)
{
    return below(pdl_philox(key_of(io, split), LABEL, (uint64_t)sample).v[0],
                 io->d.classes > 0 ? io->d.classes : 1);
}

/* Noise of a sample: stream and counter are made of both numbers. */
static float noise(uint64_t key, int64_t sample, int64_t element)
{
    return symmetric(
        pdl_philox(key, (uint64_t)sample << 2 | NOISE, (uint64_t)element).v[0]);
}

/* n <= ROW elements of a class's pattern from element e on. The numbers of an
 * image are the words of one stream, in order. */
static void pattern_row(const pdl_io *io, int64_t label, int64_t e, int64_t n,
                        float *dst)
{
    uint32_t b[ROW];

    pdl_philox_words(key_of(io, 0), (uint64_t)label << 2 | PATTERN, (uint64_t)e,
                     n, b);
    for (int64_t i = 0; i < n; i++)
        dst[i] = symmetric(b[i]);
}

/* Patterns of all classes, made once where they are few; io->state. */
struct patterns {
    int64_t volume;
    float *of; /* [classes, volume] */
};

/* n elements of a row from element e of the image: pattern plus noise. */
static void image_row(const pdl_io *io, int split, int64_t sample,
                      int64_t label, int64_t e, int64_t n, float *dst)
{
    const struct patterns *all = io->state;
    uint64_t key = key_of(io, split);
    uint32_t a[ROW];
    float b[ROW];

    for (int64_t at = 0; at < n; at += ROW) {
        int64_t m = n - at < ROW ? n - at : ROW;
        const float *p = all ? all->of + label * all->volume + e + at : b;

        pdl_philox_words(key, (uint64_t)sample << 2 | NOISE, (uint64_t)(e + at),
                         m, a);
        if (!all)
            pattern_row(io, label, e + at, m, b);
        for (int64_t i = 0; i < m; i++)
            dst[at + i] = symmetric(a[i]) + p[i];
    }
}

/* Dimensions that the box has whole are one row with those before them. */
static void image(const pdl_io *io, int split, int64_t sample,
                  const struct pdl_box *box, float *dst)
{
    const struct pdl_field *f = &io->d.input;
    int64_t label = label_of(io, split, sample), at[PDL_DATA_RANK] = {0};
    int64_t run = 1, inner = 1;
    int last = f->rank - 1, d;

    if (pdl_box_empty(box))
        return;
    for (; last > 0 && box->hi[last] - box->lo[last] == f->dim[last]; last--)
        inner *= f->dim[last];
    run = inner * (last >= 0 ? box->hi[last] - box->lo[last] : 1);
    memcpy(at, box->lo, sizeof at);
    do {
        int64_t e = 0;

        for (d = 0; d <= last; d++)
            e = e * f->dim[d] + at[d];
        image_row(io, split, sample, label, e * inner, run, dst);
        dst += run;
        for (d = last - 1; d >= 0 && ++at[d] == box->hi[d]; d--)
            at[d] = box->lo[d];
    } while (d >= 0);
}

/* Tokens [from, to) of a sample; the rule is followed from the first one. */
static void sequence(const pdl_io *io, int split, int64_t sample, int64_t from,
                     int64_t to, int32_t *dst)
{
    uint64_t key = key_of(io, split);
    int64_t n = io->d.classes, token = 0;

    for (int64_t t = 0; t < to; t++) {
        struct pdl_rng4 x =
            pdl_philox(key, (uint64_t)sample << 2 | TOKEN, (uint64_t)t);

        if (t == 0 || (x.v[1] & 3) == 0)
            token = below(x.v[0], n);
        else
            token = (token * 5 + 3) % n;
        if (t >= from)
            dst[t - from] = (int32_t)token;
    }
}

static enum pdl_status synthetic_input(const pdl_io *io, int split,
                                       int64_t sample,
                                       const struct pdl_box *box, void *dst,
                                       struct pdl_err *err)
{
    (void)err;
    if (io->d.input.integer)
        sequence(io, split, sample, box->lo[0], box->hi[0], dst);
    else
        image(io, split, sample, box, dst);
    return PDL_OK;
}

/* Classes, the next tokens, or numbers around the label's. */
static enum pdl_status synthetic_target(const pdl_io *io, int split,
                                        int64_t sample,
                                        const struct pdl_box *box, void *dst,
                                        struct pdl_err *err)
{
    int64_t label = label_of(io, split, sample), n = pdl_box_volume(box);

    (void)err;
    if (io->d.input.integer && io->d.target.rank == 1) {
        sequence(io, split, sample, box->lo[0] + 1, box->hi[0] + 1, dst);
        return PDL_OK;
    }
    for (int64_t i = 0; i < n; i++)
        if (io->d.target.integer)
            ((int32_t *)dst)[i] = (int32_t)label;
        else
            ((float *)dst)[i] = noise(key_of(io, split), sample, ~i);
    return PDL_OK;
}

static const struct io_ops synthetic_ops = {
    .input = synthetic_input,
    .target = synthetic_target,
};

static enum pdl_status make_patterns(pdl_io *io, struct pdl_err *err)
{
    const struct pdl_field *f = &io->d.input;
    int64_t classes = io->d.classes > 0 ? io->d.classes : 1, volume = 1;
    struct patterns *p;

    for (int d = 0; d < f->rank; d++) {
        if (f->dim[d] < 1 || volume > PATTERNS / f->dim[d])
            return PDL_OK;
        volume *= f->dim[d];
    }
    if (f->integer || volume > PATTERNS / classes)
        return PDL_OK;
    p = PDL_NEW(io->arena, struct patterns, 1);
    if (p)
        p->of = PDL_NEW(io->arena, float, (size_t)(classes * volume));
    if (!p || !p->of)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->volume = volume;
    for (int64_t c = 0; c < classes; c++)
        for (int64_t e = 0; e < volume; e += ROW)
            pattern_row(io, c, e, volume - e < ROW ? volume - e : ROW,
                        p->of + c * volume + e);
    io->state = p;
    return PDL_OK;
}

static bool synthetic_probe(const struct io_source *src)
{
    return strcmp(src->path, "synthetic") == 0;
}

static enum pdl_status synthetic_open(pdl_io *io, const struct io_source *src,
                                      struct pdl_err *err)
{
    const struct pdl_dataset *like = io->opt.like;

    (void)src;
    io->d.input = (struct pdl_field){false, 3, {1, 28, 28}};
    io->d.target = (struct pdl_field){.integer = true};
    io->d.classes = io->opt.classes > 0 ? io->opt.classes : CLASSES;
    io->d.nsplits = 2;
    io->d.split[0] = (struct pdl_data_split){"train", TRAIN_SAMPLES};
    io->d.split[1] = (struct pdl_data_split){"test", TEST_SAMPLES};
    if (like) {
        io->d.input = like->input;
        io->d.target = like->target;
        io->d.classes = like->classes;
        for (int i = 0; i < like->nsplits && i < 2; i++)
            io->d.split[i].samples = like->split[i].samples;
    }
    if ((io->d.input.integer || io->d.target.integer) && io->d.classes < 1)
        return pdl_fail(err, PDL_EINVAL,
                        "synthetic data of labels or tokens needs the number "
                        "of classes");
    if (io->d.input.integer && io->d.input.rank != 1)
        return pdl_fail(err, PDL_EINVAL,
                        "synthetic tokens are sequences: one dimension");
    io->ops = &synthetic_ops;
    io->finite = true;
    return make_patterns(io, err);
}

const struct io_format io_format_synthetic = {
    .pub = {"synthetic", "made-up data of any shape"},
    .probe = synthetic_probe,
    .open = synthetic_open,
};
