/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches to come, read by a thread of their own while this one is computed
 * (src/io/loader.c). One loader gives the rank its part of the input and of
 * the labels; a plan whose ranks want more than one part of either (several
 * losses, say, or positions in a zigzag) has those read when they are
 * needed. */
#include "train/train_priv.h"

#include <string.h>

/* The part of inputs (k 0) or labels (k 1) that this rank reads; false: none,
 * or more than one kind. */
static bool only_part(const pdl_trainer *t, int k, struct train_array *out)
{
    const struct pdl_plan *p = t->plan;
    bool found = false;

    for (int i = 0; i < p->ntensors; i++) {
        const struct train_array *a = &t->arrays[i];
        bool label = p->tensors[i].kind == PDL_PLAN_LABEL;

        if (!t->loads[i] || label != (k == 1) || pdl_box_empty(&a->box) ||
            train_is_constant(p, i))
            continue;
        if ((!label && train_inputs(p->model) > 1) || pdl_plan_dealt(p, i))
            return false; /* several runs of positions */
        if (found &&
            (!train_same_box(&a->box, &out->box) ||
             a->channels_last != out->channels_last || a->dtype != out->dtype))
            return false;
        *out = *a;
        found = true;
    }
    return found;
}

/* Does this rank read inputs (k 0), or labels, at all? */
static bool reads(const pdl_trainer *t, int k)
{
    const struct pdl_plan *p = t->plan;

    for (int i = 0; i < p->ntensors; i++)
        if (t->loads[i] && (p->tensors[i].kind == PDL_PLAN_LABEL) == (k == 1) &&
            !pdl_box_empty(&t->arrays[i].box) && !train_is_constant(p, i))
            return true;
    return false;
}

static struct pdl_loader_options describe(const struct train_samples *s,
                                          const struct pdl_plan *p,
                                          uint64_t seed, int threads)
{
    bool plain = s->sampler && pdl_sampler_is_plain(s->sampler);

    return (struct pdl_loader_options){
        .io = s->io,
        .split = s->split,
        .shuffle = plain ? pdl_shuffle_find("global", NULL) : NULL,
        .sampler = plain ? NULL : s->sampler,
        .list = s->list,
        .nlist = s->sampler ? 0 : s->end,
        .seed = seed,
        .batch = p->batch,
        .micros = p->micro_batches,
        .augment = s->augment,
        .threads = threads};
}

enum pdl_status train_ahead_open(struct train_samples *s, pdl_trainer *t,
                                 int64_t first, int64_t last,
                                 struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    struct train_ahead *h = &s->ahead;
    /* where a device computes, the host's threads have nothing else to do */
    struct pdl_loader_options o =
        describe(s, t->plan, t->opt.seed, t->device ? s->threads : 1);
    enum pdl_status st = PDL_OK;

    train_staged_forget(t, s);
    h->advanced = false;
    h->left = last - first;
    h->complete = s->mask.count == 0;

    for (int k = 0; k < 2; k++) {
        struct train_array *a = &h->part[k];

        h->has[k] = only_part(t, k, a) && !(k == 1 && s->mask.count > 0);
        if (h->has[1] && h->has[0] &&
            (a->box.lo[0] != o.lo || a->box.hi[0] != o.hi))
            h->has[k] = false; /* other samples than the input's */
        h->complete = h->complete && (h->has[k] || !reads(t, k));
        if (!h->has[k])
            continue;
        o.lo = a->box.lo[0];
        o.hi = a->box.hi[0];
        if (k == 0)
            o.input_box = train_sample_box(&a->box, false);
        else
            o.target_box = train_target_box(s, &a->box);
    }
    o.input = h->has[0];
    o.target = h->has[1];
    o.channels_last = h->has[0] && h->part[0].channels_last;
    o.first_step = first;
    o.last_step = last;
    o.narrow = h->has[0] && h->part[0].dtype == PDL_BF16 && !d->input.integer;
    h->bytes[0] = o.narrow ? 2 : 4;
    h->bytes[1] = 4;
    h->lasting = t->device != NULL;
    if (h->lasting) {
        o.place = train_place;
        o.place_back = train_place_back;
        o.ctx = t;
    }
    h->samples = o.hi - o.lo;
    h->each = t->plan->batch / t->plan->micro_batches;
    if (first < last && (o.input || o.target))
        st = pdl_loader_create(&o, &h->loader, err);
    return st;
}

static enum pdl_status next(struct train_samples *s, struct pdl_err *err)
{
    double before;
    enum pdl_status st;

    s->ahead.left--;
    before = pdl_loader_waited_s(s->ahead.loader);
    st = pdl_loader_next(s->ahead.loader, &s->ahead.batch, err);
    s->seconds += pdl_loader_waited_s(s->ahead.loader) - before;
    return st;
}

/* An order takes longer to ask than to keep: the reader has asked already, and
 * goes on to the next batch before this one's losses are there. */
enum pdl_status train_ahead_next(struct train_samples *s, struct pdl_err *err)
{
    struct train_ahead *h = &s->ahead;
    enum pdl_status st = PDL_OK;

    if (h->loader && !h->advanced)
        st = next(s, err);
    h->advanced = false;
    s->known = h->loader && h->samples == h->each && st == PDL_OK;
    if (s->known)
        memcpy(s->batch, h->batch.samples,
               (size_t)h->batch.nsamples * sizeof s->batch[0]);
    return st;
}

bool train_ahead_advance(void *ctx)
{
    struct train_samples *s = ctx;
    struct pdl_err err;

    if (!s->ahead.loader || !s->ahead.complete || s->ahead.advanced ||
        s->ahead.left < 1)
        return false;
    /* an error stays with the loader and is told in its turn */
    s->ahead.advanced = next(s, &err) == PDL_OK;
    s->ahead.left += !s->ahead.advanced;
    return s->ahead.advanced;
}

const void *train_ahead_find(const struct train_samples *s, int64_t first,
                             const struct pdl_train_part *part, bool label)
{
    const struct train_ahead *h = &s->ahead;
    int k = label ? 1 : 0;
    const char *all = label ? h->batch.target : h->batch.input;
    struct pdl_box one = train_sample_box(&part->box, label && !s->numbers);

    if (!h->loader || !h->has[k] || !all ||
        !train_same_box(&part->box, &h->part[k].box))
        return NULL;
    return all +
           first / h->each * h->samples * pdl_box_volume(&one) * h->bytes[k];
}

/* What tokens are masked in, or another type is made of, is filled in. */
const void *train_ahead_at(void *ctx, int64_t first, int model_tensor,
                           const struct pdl_train_part *part)
{
    const struct train_samples *s = ctx;
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    bool label = model_tensor < 0;
    bool integer = label ? d->target.integer : d->input.integer;
    enum pdl_dtype given = integer                      ? PDL_I32
                           : s->ahead.bytes[label] == 2 ? PDL_BF16
                                                        : PDL_F32;

    if (!s->ahead.lasting || s->mask.count > 0 || part->dtype != given)
        return NULL;
    return train_ahead_find(s, first, part, label);
}

enum pdl_status train_pass_begin(struct train_samples *s, pdl_trainer *t,
                                 int64_t n, struct pdl_err *err)
{
    int64_t batch = t->plan->batch;

    s->end = n;
    return n > 0 ? train_ahead_open(s, t, 0, (n + batch - 1) / batch, err)
                 : PDL_OK;
}

enum pdl_status train_pass_batch(struct train_samples *s, pdl_trainer *t,
                                 int64_t at, struct pdl_train_result *out,
                                 struct pdl_err *err)
{
    struct pdl_train_feed feed = {train_samples_fill, s, train_ahead_advance,
                                  train_ahead_at};
    int64_t left = s->end - at, batch = t->plan->batch;
    enum pdl_status st = train_ahead_next(s, err);

    s->first = at;
    return st == PDL_OK ? pdl_trainer_evaluate(t, left < batch ? left : batch,
                                               &feed, out, err)
                        : st;
}

void train_ahead_close(struct train_samples *s)
{
    pdl_loader_destroy(s->ahead.loader);
    s->ahead.loader = NULL;
}
