/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a data set into this rank's parts of inputs and labels: the
 * rank's samples, and of each only the box that it computes on. Which sample
 * stands at a position is a function of (seed, epoch): see paradl/data.h. */
#include "train/train_priv.h"

#include <stdio.h>
#include <string.h>

/* Several inputs are sequences, one after another in a sample: what the
 * encoder reads, then what the decoder reads. Where input `tensor` begins. */
int64_t train_begins_at(const struct pdl_model *m, int tensor)
{
    int64_t at = 0;

    for (int i = 0; i < tensor; i++)
        if (m->tensors[i].kind == PDL_TENSOR_INPUT)
            at += m->tensors[i].dim[0];
    return at;
}

int train_inputs(const struct pdl_model *m)
{
    int n = 0;

    for (int i = 0; i < m->ntensors; i++)
        n += m->tensors[i].kind == PDL_TENSOR_INPUT;
    return n;
}

bool train_is_constant(const struct pdl_plan *p, int tensor)
{
    int x = p->tensors[tensor].model_tensor;

    return p->tensors[tensor].kind == PDL_PLAN_INPUT && x >= 0 &&
           p->model->tensors[x].kind == PDL_TENSOR_CONST;
}

/* Text has a target for every token: of two sequences only those of the
 * second, the n last ones, count. */
bool train_is_tail(const struct pdl_dataset *d, const struct pdl_model *m,
                   int64_t n)
{
    return train_inputs(m) > 1 && d->target.rank == 1 &&
           d->target.dim[0] == d->input.dim[0] && n < d->target.dim[0];
}

/* ---- reading ---------------------------------------------------------- */

struct pdl_box train_sample_box(const struct pdl_box *part, bool label)
{
    int c = part->ndims >= 4 ? 1 : part->ndims - 1;
    struct pdl_box b = {.ndims = 0};

    for (int d = 1; d < part->ndims; d++) {
        if (label && d == c)
            continue;
        b.lo[b.ndims] = part->lo[d];
        b.hi[b.ndims++] = part->hi[d];
    }
    return b;
}

/* A model that says one thing of a sample may say it at one position: what the
 * data has no dimension for. */
static void drop_ones(struct pdl_box *b, int rank)
{
    for (int d = 0; d < b->ndims && b->ndims > rank;) {
        if (b->lo[d] != 0 || b->hi[d] != 1) {
            d++;
            continue;
        }
        for (int k = d; k + 1 < b->ndims; k++) {
            b->lo[k] = b->lo[k + 1];
            b->hi[k] = b->hi[k + 1];
        }
        b->ndims--;
    }
}

static void shift(struct pdl_box *b, int64_t by)
{
    b->lo[0] += by;
    b->hi[0] += by;
}

struct pdl_box train_target_box(const struct train_samples *s,
                                const struct pdl_box *part)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    struct pdl_box b = train_sample_box(part, !s->numbers);
    int64_t tokens = 0;

    for (int i = 0; i < s->model->ntensors; i++)
        if (s->model->tensors[i].kind == PDL_TENSOR_INPUT)
            tokens = s->model->tensors[i].dim[0];
    if (train_is_tail(d, s->model, tokens))
        shift(&b, d->target.dim[0] - tokens);
    if (s->mask.count == 0)
        drop_ones(&b, d->target.rank);
    return b;
}

static int64_t sample_at(const struct train_samples *s, int64_t position)
{
    int64_t x = s->list ? s->list[position] : position;

    if (s->sampler)
        return pdl_sampler_at(s->sampler, position);
    return x < 0 ? ~x : x; /* one that fills up */
}

int64_t train_sample_of(const struct train_samples *s, int64_t i)
{
    return s->known ? s->batch[i] : sample_at(s, s->first + i);
}

static void find_ids(struct train_samples *s, int64_t first,
                     const struct pdl_box *b)
{
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++) {
        int64_t at = s->first + first + i;

        s->ids[i - b->lo[0]] = at < s->end ? sample_at(s, at) : 0;
    }
}

/* A batch of images is more than one core copies in the time of a step of a
 * device. narrow: from floats. */
static void copy(char *to, const char *from, int64_t bytes, bool narrow)
{
    int64_t piece = INT64_C(4) << 20, n = (bytes + piece - 1) / piece;

#pragma omp parallel for if (n > 1)
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * piece, left = bytes - at;
        int64_t some = left < piece ? left : piece;

        if (narrow)
            pdl_narrow((const float *)(const void *)(from + 2 * at), some / 2,
                       (uint16_t *)(void *)(to + at));
        else
            memcpy(to + at, from + at, (size_t)some);
    }
}

/* The reader gives floats or int32, or what is asked for at once; a plan may
 * keep something else. */
static void convert(const struct pdl_train_part *part, const void *from,
                    enum pdl_dtype given)
{
    int64_t n = pdl_box_volume(&part->box);
    bool integer = given == PDL_I32;
    bool narrow = part->dtype == PDL_BF16 && given == PDL_F32;

    if (part->dtype == given || narrow) {
        copy(part->data, from, pdl_dtype_bits(part->dtype) / 8 * n, narrow);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = integer ? (double)((const int32_t *)from)[i]
                           : (double)((const float *)from)[i];

        if (part->dtype == PDL_F64)
            ((double *)part->data)[i] = v;
        else if (part->dtype == PDL_I32)
            ((int32_t *)part->data)[i] = (int32_t)v;
        else if (part->dtype == PDL_BF16)
            ((uint16_t *)part->data)[i] = pdl_to_bf16((float)v);
        else
            ((float *)part->data)[i] = (float)v;
    }
}

enum pdl_status train_samples_fill(void *ctx, int64_t first, int model_tensor,
                                   const struct pdl_train_part *part,
                                   struct pdl_err *err)
{
    struct train_samples *s = ctx;
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    bool label = model_tensor < 0;
    bool hidden = s->mask.count > 0; /* labels are what the mask hides */
    bool integer = label && !hidden ? d->target.integer : d->input.integer;
    enum pdl_dtype given = integer ? PDL_I32 : PDL_F32;
    bool direct = part->dtype == given;
    struct pdl_read r = {.split = s->split,
                         .samples = s->ids,
                         .nsamples = part->box.hi[0] - part->box.lo[0],
                         .box = label ? train_target_box(s, &part->box)
                                      : train_sample_box(&part->box, false),
                         .channels_last = part->channels_last && !label,
                         .augment = label ? NULL : s->augment};
    void *to = direct ? part->data : s->wide;
    const void *ahead = train_ahead_find(s, first, part, label);
    double from = pdl_clock_s();
    enum pdl_status st;

    if (!label && train_inputs(s->model) > 1)
        shift(&r.box, train_begins_at(s->model, model_tensor));
    if (!ahead || hidden)
        find_ids(s, first, &part->box);
    if (ahead) {
        convert(part, ahead, s->ahead.bytes[label] == 2 ? PDL_BF16 : given);
        train_mask(s, part, label);
        return PDL_OK;
    }
    if (!direct && 4 * pdl_box_volume(&part->box) > s->wide_bytes)
        return pdl_fail(err, PDL_EWRONG, "no room to convert samples");
    st = label && !hidden ? pdl_io_target(s->io, &r, to, err)
                          : pdl_io_input(s->io, &r, to, err);
    if (st == PDL_OK && !direct)
        convert(part, to, given);
    if (st == PDL_OK)
        train_mask(s, part, label);
    s->seconds += pdl_clock_s() - from;
    return st;
}
