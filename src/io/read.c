/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of samples, augmented. A box is cut after augmentation: its source is
 * found by undoing crop and flip, so that a rank reads the rows it needs and
 * all ranks together make exactly the image that one rank would.
 *
 * Crop and flip follow torchvision's RandomCrop(padding) and
 * RandomHorizontalFlip, in this order, before normalisation; the draw is
 * Philox keyed by (seed, epoch) at the sample's id. */
#include "guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Output pixel (h, w) is source pixel (h + down, (flip ? W-1-w : w) +
 * right). */
struct warp {
    int64_t down, right;
    bool flip;
};

static struct warp draw(const struct pdl_augment *g, int64_t sample)
{
    struct pdl_rng4 x = {{0, 0, 0, 0}};
    uint64_t n = (uint64_t)(2 * g->pad + 1);

    if (g->pad > 0 || g->flip)
        x = pdl_philox(pdl_draw_key(g->seed, PDL_DRAW_AUGMENT, g->epoch), 0,
                       (uint64_t)sample);
    if (g->pad <= 0)
        return (struct warp){0, 0, g->flip && (x.v[2] & 1)};
    return (struct warp){(int64_t)(x.v[0] * n >> 32) - g->pad,
                         (int64_t)(x.v[1] * n >> 32) - g->pad,
                         g->flip && (x.v[2] & 1)};
}

/* What to read so that the box can be filled, cut to the image. */
static struct pdl_box source_box(const struct pdl_field *f,
                                 const struct pdl_box *box,
                                 const struct warp *w)
{
    struct pdl_box whole = pdl_field_box(f), s = *box;
    int y = f->rank - 2, x = f->rank - 1;

    if (f->rank >= 3) {
        int64_t lo = w->flip ? f->dim[x] - box->hi[x] : box->lo[x];

        s.lo[y] += w->down;
        s.hi[y] += w->down;
        s.hi[x] = lo + (box->hi[x] - box->lo[x]) + w->right;
        s.lo[x] = lo + w->right;
    }
    (void)pdl_box_intersect(&s, &whole, &s);
    return s;
}

struct job {
    const struct pdl_field *field;
    const struct pdl_read *r;
    struct warp warp;
    struct pdl_box source;
    const float *in;
    float *out;
};

/* The source's row for output row `at`, or NULL outside the image. Index 0
 * is the source's first column. */
static const float *source_row(const struct job *j, const int64_t *at)
{
    int rank = j->field->rank;
    int64_t i = 0;

    if (pdl_box_empty(&j->source))
        return NULL;
    for (int d = 0; d + 1 < rank; d++) {
        int64_t lo = j->source.lo[d], hi = j->source.hi[d];
        int64_t from = at[d] + (rank >= 3 && d == rank - 2 ? j->warp.down : 0);

        if (from < lo || from >= hi)
            return NULL;
        i = i * (hi - lo) + from - lo;
    }
    return j->in +
           i * (rank > 0 ? j->source.hi[rank - 1] - j->source.lo[rank - 1] : 1);
}

/* A row that lies in the source from end to end. */
static void scale_row(const float *row, int64_t n, float mean, float std,
                      float *out, int64_t step)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            out[i] = (row[i] - mean) / std;
    else
        for (int64_t i = 0; i < n; i++)
            out[i * step] = (row[i] - mean) / std;
}

/* One row of the output; `step` floats from one column to the next. */
static void place_row(const struct job *j, const int64_t *at, float *out,
                      int64_t step)
{
    const struct pdl_augment *g = j->r->augment;
    const float *row = source_row(j, at);
    int x = j->field->rank - 1;
    int64_t c = g && g->channels > 1 ? at[0] : 0;
    float mean = g && g->channels > 0 ? g->mean[c] : 0;
    float std = g && g->channels > 0 ? g->std[c] : 1;
    int64_t by = j->warp.flip ? -1 : 1, last = j->field->dim[x] - 1;
    int64_t w = j->r->box.lo[x], from = j->warp.flip ? last - w : w;
    int64_t n = j->source.hi[x] - j->source.lo[x];

    from += j->warp.right - j->source.lo[x];
    if (row && by > 0 && from >= 0 && from + j->r->box.hi[x] - w <= n) {
        scale_row(row + from, j->r->box.hi[x] - w, mean, std, out, step);
        return;
    }
    for (; w < j->r->box.hi[x]; w++, from += by, out += step) {
        float v = row && from >= 0 && from < n ? row[from] : 0;

        *out = (v - mean) / std;
    }
}

/* Row by row; the last dimension is the row. */
static void place(const struct job *j)
{
    const struct pdl_box *b = &j->r->box;
    int rank = j->field->rank, d;
    int64_t at[PDL_DATA_RANK] = {0}, step[PDL_DATA_RANK] = {0}, n = 1;
    bool last = j->r->channels_last && rank >= 3;

    if (last)
        step[0] = 1, n = b->hi[0] - b->lo[0];
    for (d = rank - 1; d >= (last ? 1 : 0); d--) {
        step[d] = n;
        n *= b->hi[d] - b->lo[d];
    }
    memcpy(at, b->lo, (size_t)rank * sizeof at[0]);
    do {
        float *out = j->out;

        for (d = 0; d + 1 < rank; d++)
            out += (at[d] - b->lo[d]) * step[d];
        place_row(j, at, out, step[rank - 1]);
        for (d = rank - 2; d >= 0 && ++at[d] == b->hi[d]; d--)
            at[d] = b->lo[d];
    } while (d >= 0);
}

static enum pdl_status check(const pdl_io *io, const struct pdl_read *r,
                             const struct pdl_field *f, struct pdl_err *err)
{
    const struct pdl_augment *g = r->augment;
    bool ok = r->split >= 0 && r->split < io->d.nsplits &&
              r->box.ndims == f->rank && r->nsamples >= 0;

    for (int d = 0; ok && d < f->rank; d++)
        ok = r->box.lo[d] >= 0 && r->box.lo[d] <= r->box.hi[d] &&
             r->box.hi[d] <= f->dim[d];
    for (int64_t i = 0; ok && i < r->nsamples; i++)
        ok =
            r->samples[i] >= 0 && r->samples[i] < io->d.split[r->split].samples;
    if (!ok)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: a split, sample or box that is not there",
                        io->path);
    if (g && (g->pad < 0 || g->pad > 1 << 20 || g->channels > 16 ||
              (g->channels > 1 && g->channels != f->dim[0])))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %d means for %lld channels, or a padding of %lld",
                        io->path, g->channels, (long long)f->dim[0],
                        (long long)g->pad);
    return PDL_OK;
}

static bool is_plain(const struct pdl_field *f, const struct pdl_read *r)
{
    return f->integer || f->rank == 0 ||
           ((!r->channels_last || f->rank < 3) && !r->augment);
}

/* A number that is none spoils the weights long before somebody looks at the
 * data: it is an error of its file. */
static enum pdl_status check_finite(const pdl_io *io, const struct pdl_read *r,
                                    int64_t sample, bool target, const float *x,
                                    int64_t n, struct pdl_err *err)
{
    const char *path = io->path;
    int64_t number = sample, i = 0;

    if (io->finite)
        return PDL_OK;
    while (i < n && isfinite(x[i]))
        i++;
    if (i == n)
        return PDL_OK;
    if (io->ops->where)
        path = io->ops->where(io, r->split, sample, target, &number);
    return pdl_fail(err, PDL_EPARSE,
                    "%s: %s %lld (counted from 0; '%s') holds %s", path,
                    target ? "the target of sample" : "sample",
                    (long long)number, io->d.split[r->split].name,
                    isnan(x[i]) ? "a NaN" : "an infinite number");
}

/* One sample through a buffer of its source. */
static enum pdl_status one(const pdl_io *io, struct job *j, int64_t sample,
                           float *buf, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    j->warp = (struct warp){0, 0, false};
    if (j->r->augment)
        j->warp = draw(j->r->augment, sample);
    j->source = source_box(j->field, &j->r->box, &j->warp);
    if (!pdl_box_empty(&j->source)) {
        st = io->ops->input(io, j->r->split, sample, &j->source, buf, err);
        if (st == PDL_OK)
            st = check_finite(io, j->r, sample, false, buf,
                              pdl_box_volume(&j->source), err);
    }
    if (st == PDL_OK)
        place(j);
    return st;
}

/* All samples; buf NULL: they go where they belong at once. */
static enum pdl_status read_inputs(const pdl_io *io, const struct pdl_read *r,
                                   float *buf, float *dst, struct pdl_err *err)
{
    const struct pdl_field *f = &io->d.input;
    struct job j = {.field = f, .r = r, .in = buf, .out = dst};
    int64_t n = pdl_box_volume(&r->box);
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < r->nsamples && st == PDL_OK; i++, j.out += n) {
        if (buf) {
            st = one(io, &j, r->samples[i], buf, err);
            continue;
        }
        st = io->ops->input(io, r->split, r->samples[i], &r->box, j.out, err);
        if (st == PDL_OK && !f->integer)
            st = check_finite(io, r, r->samples[i], false, j.out, n, err);
    }
    return st;
}

static enum pdl_status read_targets(const pdl_io *io, const struct pdl_read *r,
                                    float *buf, float *dst, struct pdl_err *err)
{
    int64_t n = pdl_box_volume(&r->box);
    enum pdl_status st = PDL_OK;

    (void)buf;
    for (int64_t i = 0; i < r->nsamples && st == PDL_OK; i++, dst += n) {
        st = io->ops->target(io, r->split, r->samples[i], &r->box, dst, err);
        if (st == PDL_OK && !io->d.target.integer)
            st = check_finite(io, r, r->samples[i], true, dst, n, err);
    }
    return st;
}

/* A file that is mapped may shrink at any time. */
static enum pdl_status
guarded(const pdl_io *io, const struct pdl_read *r, float *buf, float *dst,
        enum pdl_status (*read)(const pdl_io *io, const struct pdl_read *r,
                                float *buf, float *dst, struct pdl_err *err),
        struct pdl_err *err)
{
    struct io_guard g;
    enum pdl_status st;

    io_guard_begin(&g);
    if (sigsetjmp(g.jump, 0) == 0)
        st = read(io, r, buf, dst, err);
    else
        st = io_guard_fail(io, &g, err);
    io_guard_end(&g);
    return st;
}

enum pdl_status pdl_io_input(const pdl_io *io, const struct pdl_read *r,
                             void *dst, struct pdl_err *err)
{
    const struct pdl_field *f = &io->d.input;
    int64_t n = pdl_box_volume(&r->box);
    enum pdl_status st = check(io, r, f, err);
    float *buf = NULL;

    if (st != PDL_OK || n == 0)
        return st;
    if (!is_plain(f, r)) {
        buf = malloc((size_t)n * sizeof *buf);
        if (!buf)
            return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    }
    st = guarded(io, r, buf, dst, read_inputs, err);
    free(buf);
    return st;
}

/* Both kinds of targets have four bytes. */
enum pdl_status pdl_io_target(const pdl_io *io, const struct pdl_read *r,
                              void *dst, struct pdl_err *err)
{
    struct pdl_read plain = *r;
    enum pdl_status st;

    plain.augment = NULL;
    st = check(io, &plain, &io->d.target, err);
    if (st != PDL_OK || pdl_box_volume(&r->box) == 0)
        return st;
    return guarded(io, &plain, NULL, dst, read_targets, err);
}

/* ---- moments ---- */

enum pdl_status pdl_io_moments(const pdl_io *io, int split, int64_t limit,
                               struct pdl_augment *out, struct pdl_err *err)
{
    const struct pdl_field *f = &io->d.input;
    struct pdl_read r = {
        .split = split, .nsamples = 1, .box = pdl_field_box(f)};
    int64_t n = pdl_box_volume(&r.box), total, used, per;
    int channels = f->rank >= 3 && f->dim[0] <= 16 ? (int)f->dim[0] : 1;
    double sum[16] = {0}, square[16] = {0};
    enum pdl_status st = PDL_OK;
    float *x;

    if (f->integer || split < 0 || split >= io->d.nsplits || limit < 1)
        return pdl_fail(err, PDL_EINVAL, "%s: no numbers to average", io->path);
    total = io->d.split[split].samples;
    used = limit < total ? limit : total;
    per = n / channels;
    x = calloc((size_t)n, sizeof *x);
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    for (int64_t i = 0; i < used && st == PDL_OK; i++) {
        int64_t sample = (int64_t)((double)total / (double)used * (double)i);

        r.samples = &sample;
        st = pdl_io_input(io, &r, x, err);
        for (int64_t e = 0; e < n && st == PDL_OK; e++) {
            sum[e / per] += x[e];
            square[e / per] += (double)x[e] * x[e];
        }
    }
    free(x);
    out->channels = channels;
    for (int c = 0; c < channels && st == PDL_OK; c++) {
        double m = sum[c] / (double)(used * per);
        double v = square[c] / (double)(used * per) - m * m;

        out->mean[c] = (float)m;
        out->std[c] = v > 0 ? (float)sqrt(v) : 1;
    }
    return st;
}
