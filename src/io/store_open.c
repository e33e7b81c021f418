/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a store for the samples of a data set. A record is the input and the
 * target as the source stores numbers (pixels and small tokens in a byte), so
 * that what is read from a store has the bits of what is read from the
 * source. */
#include "store.h"

#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- records ------------------------------------------------------------- */

/* Numbers of four bytes to those of the store; false: one does not fit. */
static bool pack(const struct io_array *a, bool integer, const void *from,
                 unsigned char *to)
{
    int64_t n = a->stride / a->elem->bytes;
    const int32_t *whole = from;
    const float *real = from;

    if (a->elem->bytes == 4) {
        memcpy(to, from, (size_t)n * 4);
        return true;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = integer ? 0 : real[i] * 255.0F;
        int32_t k = integer ? whole[i] : (int32_t)(v + 0.5F);

        if (k < 0 || k >= 1 << (8 * a->elem->bytes) ||
            (!integer && (float)(k * a->scale) != real[i]))
            return false;
        memcpy(to + i * a->elem->bytes, &k, (size_t)a->elem->bytes);
    }
    return true;
}

/* Bytes that the source holds as bytes, one after the other: a copy. */
static bool copy_bytes(const pdl_store *s, const pdl_io *io, int split,
                       int64_t sample, unsigned char *to)
{
    int64_t n = 1;

    for (int i = 0; io->pixels && i < io->nsegments; i++) {
        const struct io_segment *x = &io->segment[i];

        if (x->split != split || sample < x->first ||
            sample >= x->first + x->input.count)
            continue;
        for (int d = x->input.rank - 1; d >= 0; n *= x->input.dim[d--])
            if (x->input.step[d] != n)
                return false;
        if (n != s->input.stride)
            return false;
        memcpy(to, x->input.at + (sample - x->first) * x->input.stride,
               (size_t)n);
        return true;
    }
    return false;
}

enum pdl_status io_store_encode(const pdl_store *s, const pdl_io *io, int split,
                                int64_t sample, void *record,
                                struct pdl_err *err)
{
    const struct pdl_dataset *d = &io->d;
    struct pdl_box in = pdl_field_box(&d->input),
                   out = pdl_field_box(&d->target);
    int64_t n = pdl_box_volume(&in), m = pdl_box_volume(&out);
    float *x = malloc((size_t)(n > m ? n : m) * sizeof *x);
    unsigned char *to = record;
    enum pdl_status st;

    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", s->path);
    memset(to + s->target_at, 0, (size_t)(s->h.record_bytes - s->target_at));
    st = PDL_OK;
    if (io->ops->bytes && s->input.elem->bytes == 1) {
        st = io->ops->bytes(io, split, sample, to, err);
    } else if (!copy_bytes(s, io, split, sample, to)) {
        st = io->ops->input(io, split, sample, &in, x, err);
        if (st == PDL_OK && !pack(&s->input, d->input.integer, x, to))
            st = pdl_fail(err, PDL_EPARSE,
                          "%s: sample %lld is no picture of bytes", io->path,
                          (long long)sample);
    }
    if (st == PDL_OK)
        st = io->ops->target(io, split, sample, &out, x, err);
    if (st == PDL_OK &&
        !pack(&s->target, d->target.integer, x, to + s->target_at))
        st = pdl_fail(err, PDL_EPARSE,
                      "%s: the target of sample %lld is out of range", io->path,
                      (long long)sample);
    free(x);
    return st;
}

enum pdl_status pdl_store_encode(const pdl_store *s, const pdl_io *io,
                                 int split, int64_t sample, void *record,
                                 struct pdl_err *err)
{
    struct io_guard g;
    enum pdl_status st;

    if (split < 0 || split >= io->d.nsplits || sample < 0 ||
        sample >= io->d.split[split].samples)
        return pdl_fail(err, PDL_EINVAL, "%s: no sample %lld", io->path,
                        (long long)sample);
    io_guard_begin(&g);
    if (sigsetjmp(g.jump, 0) == 0)
        st = io_store_encode(s, io, split, sample, record, err);
    else
        st = io_guard_fail(io, &g, err);
    io_guard_end(&g);
    return st;
}

/* ---- opening ------------------------------------------------------------- */

/* Zeros after it: headers are compared. */
static void set_text(char *to, size_t room, const char *text)
{
    memset(to, 0, room);
    snprintf(to, room, "%s", text);
}

static const char *elem_for(const struct pdl_dataset *d, bool integer,
                            bool pixels)
{
    if (!integer)
        return pixels ? "u8" : "f32";
    return d->classes > 65536 || d->classes < 1 ? "i32"
           : d->classes > 256                   ? "u16"
                                                : "u8";
}

static struct store_field describe_field(const struct pdl_dataset *d,
                                         const struct pdl_field *f, bool pixels)
{
    struct store_field x = {
        .integer = f->integer, .rank = f->rank, .pixels = pixels};

    set_text(x.elem, sizeof x.elem, elem_for(d, f->integer, pixels));
    for (int i = 0; i < f->rank; i++)
        x.dim[i] = f->dim[i];
    return x;
}

static struct io_array lay(const struct store_field *f)
{
    struct io_array a = {.elem = io_elem_find(f->elem), .rank = f->rank};
    int64_t n = a.elem->bytes;

    for (int d = f->rank - 1; d >= 0; n *= f->dim[d--]) {
        a.dim[d] = f->dim[d];
        a.step[d] = n;
    }
    a.stride = n;
    a.count = 1;
    a.scale = f->pixels ? a.elem->scale : 1;
    return a;
}

static int64_t round_up(int64_t n)
{
    return (n + 7) / 8 * 8;
}

static void lay_fields(pdl_store *s)
{
    s->input = lay(&s->h.input);
    s->target = lay(&s->h.target);
    s->target_at = s->input.stride;
}

static void describe(pdl_store *s, const pdl_io *io, int split)
{
    const struct pdl_dataset *d = &io->d;

    s->h.samples = d->split[split].samples;
    s->h.classes = d->classes;
    s->h.input = describe_field(d, &d->input, io->pixels);
    s->h.target = describe_field(d, &d->target, false);
    set_text(s->h.split, sizeof s->h.split, d->split[split].name);
    set_text(s->h.format, sizeof s->h.format, d->format);
    lay_fields(s);
    s->h.record_bytes = round_up(s->input.stride + s->target.stride);
}

/* What tells a data set from another: how it looks, and three samples. */
static enum pdl_status take_fingerprint(pdl_store *s, const pdl_io *io,
                                        int split, struct pdl_err *err)
{
    int64_t n = s->h.samples, at[3] = {0, n / 2, n - 1};
    void *record = malloc((size_t)s->h.record_bytes);
    uint64_t x = (uint64_t)n * 31 + (uint64_t)s->h.classes;
    enum pdl_status st = PDL_OK;

    if (!record)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", s->path);
    for (int i = 0; i < 3 && st == PDL_OK; i++) {
        st = pdl_store_encode(s, io, split, at[i], record, err);
        x = x * 0x9e3779b97f4a7c15U + pdl_store_sum(s, at[i], record);
    }
    free(record);
    s->h.fingerprint = x;
    return st;
}

static enum pdl_status compare(const pdl_store *s,
                               const struct store_header *want,
                               struct pdl_err *err)
{
    if (s->h.fingerprint == want->fingerprint &&
        s->h.samples == want->samples &&
        s->h.record_bytes == want->record_bytes &&
        memcmp(&s->h.input, &want->input, sizeof want->input) == 0 &&
        memcmp(&s->h.target, &want->target, sizeof want->target) == 0)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%s: holds samples of another data set", s->path);
    pdl_hint(err, "use another folder, or remove the file");
    return PDL_EINVAL;
}

static enum pdl_status open_for(pdl_store *s, const pdl_io *io, int split,
                                int64_t capacity, struct pdl_err *err)
{
    struct store_header want;
    enum pdl_status st;

    describe(s, io, split);
    s->h.capacity = capacity;
    st = take_fingerprint(s, io, split, err);
    want = s->h;
    if (st == PDL_OK)
        st = io_store_open_file(s, true, err);
    if (st == PDL_OK)
        st = compare(s, &want, err);
    return st;
}

static pdl_store *create(const char *path, bool writable)
{
    pdl_store *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->fd = -1;
    s->writable = writable;
    pthread_rwlock_init(&s->lock, NULL);
    s->path = strdup(path);
    if (s->path)
        return s;
    pdl_store_close(s);
    return NULL;
}

enum pdl_status pdl_store_open(const char *path, const pdl_io *source,
                               int split, int64_t capacity, pdl_store **out,
                               struct pdl_err *err)
{
    pdl_store *s = create(path, source != NULL);
    enum pdl_status st;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    io_guard_install();
    st = source ? open_for(s, source, split, capacity, err)
                : io_store_open_file(s, false, err);
    if (st == PDL_OK) {
        lay_fields(s);
        st = io_store_index(s, err);
    }
    if (st == PDL_OK && source && s->h.capacity < capacity)
        st = pdl_store_resize(s, capacity, err);
    if (st != PDL_OK)
        pdl_store_close(s);
    else
        *out = s;
    return st;
}

void pdl_store_close(pdl_store *s)
{
    if (!s)
        return;
    io_store_close_file(s);
    pthread_rwlock_destroy(&s->lock);
    free(s->table);
    free(s->free);
    free(s->verified);
    free(s->path);
    free(s);
}

enum pdl_status pdl_store_sync(pdl_store *s, struct pdl_err *err)
{
    return fsync(s->fd) == 0
               ? PDL_OK
               : pdl_fail(err, PDL_EIO, "%s: cannot be written to disk",
                          s->path);
}

/* Samples of slots that go move to slots that stay. */
enum pdl_status pdl_store_resize(pdl_store *s, int64_t capacity,
                                 struct pdl_err *err)
{
    int64_t low = 0;
    enum pdl_status st;

    if (capacity == s->h.capacity)
        return PDL_OK;
    if (s->count > capacity)
        return pdl_fail(err, PDL_EINVAL, "%s: %lld samples are in the store",
                        s->path, (long long)s->count);
    pthread_rwlock_wrlock(&s->lock);
    for (int64_t i = capacity; i < s->h.capacity; i++) {
        if (s->line[i].sample < 0)
            continue;
        while (s->line[low].sample >= 0)
            low++;
        memcpy(io_store_slot(s, low), io_store_slot(s, i),
               (size_t)s->h.record_bytes);
        s->line[low].sum = s->line[i].sum;
        s->line[low].sample = s->line[i].sample;
        s->line[i].sample = -1;
    }
    st = io_store_set_capacity(s, capacity, err);
    if (st == PDL_OK)
        st = io_store_index(s, err);
    pthread_rwlock_unlock(&s->lock);
    return st;
}

void pdl_store_describe(const pdl_store *s, struct pdl_store_info *out)
{
    *out = (struct pdl_store_info){
        .samples = s->h.samples,
        .classes = s->h.classes,
        .capacity = s->h.capacity,
        .count = s->count,
        .record_bytes = s->h.record_bytes,
        .file_bytes = io_store_file_bytes(&s->h),
        .version = (int)s->h.version,
        .split = s->h.split,
        .format = s->h.format,
        .elem = s->h.input.elem,
        .healed = s->healed,
        .dropped = s->dropped,
    };
    out->input.integer = s->h.input.integer != 0;
    out->input.rank = s->h.input.rank;
    memcpy(out->input.dim, s->h.input.dim, sizeof out->input.dim);
}
