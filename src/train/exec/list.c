/* SPDX-License-Identifier: Apache-2.0
 *
 * A trainer that is lent: whoever has several sets of samples (clients of a
 * federation) gives it weights, a list of samples for every step, and takes
 * the weights back. Nothing of a trainer outlives that but the optimizer's
 * state, which is among the parts that the caller may set. */
#include "train/train_priv.h"

#include <string.h>

struct pdl_train_list {
    pdl_arena *arena;
    struct train_samples samples;
    int64_t *ids; /* a whole batch */
    int64_t batch;
};

enum pdl_status pdl_trainer_send(pdl_trainer *t, struct pdl_err *err)
{
    return train_state_send(t, err);
}

void pdl_trainer_forget(pdl_trainer *t)
{
    for (int i = 0; i < t->nstates; i++) {
        const struct pdl_train_part *p = &t->states[i].part;

        if (!t->states[i].weight)
            memset(p->data, 0,
                   (size_t)(pdl_box_volume(&p->box) * pdl_dtype_bits(p->dtype) /
                            8));
    }
    train_sparse_forget(t);
}

void pdl_trainer_weigh(pdl_trainer *t, const double *weights)
{
    t->weights = weights;
}

void pdl_trainer_saw(const pdl_trainer *t, int64_t i, double *loss,
                     double *right)
{
    *loss = t->losses[2 * i];
    *right = t->losses[2 * i + 1];
}

/* The largest part that is read: room to convert it. */
static int64_t largest(const struct pdl_plan *p)
{
    int64_t most = 0;

    for (int i = 0; i < p->ntensors; i++)
        if (train_is_loaded(&p->tensors[i])) {
            struct pdl_box b;

            pdl_plan_box(p, i, 0, &b);
            most = pdl_box_volume(&b) > most ? pdl_box_volume(&b) : most;
        }
    return most;
}

enum pdl_status pdl_train_list_open(const struct pdl_plan *plan,
                                    const pdl_io *io, int split,
                                    const struct pdl_augment *normalise,
                                    pdl_train_list **out, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    bool numbers = !d->target.integer;
    int64_t most = largest(plan);
    struct train_masking mask;
    enum pdl_status st = train_samples_check(d, plan, numbers, err);
    pdl_arena *a = pdl_arena_create((size_t)1 << 32);
    pdl_train_list *l = a ? PDL_NEW(a, struct pdl_train_list, 1) : NULL;

    if (st == PDL_OK)
        st = train_mask_open(d, plan->model, 0, &mask, err);
    if (st == PDL_OK && l) {
        *l = (struct pdl_train_list){.arena = a, .batch = plan->batch};
        l->ids = PDL_NEW(a, int64_t, plan->batch + 1);
        l->samples = (struct train_samples){.io = io,
                                            .split = split,
                                            .model = plan->model,
                                            .augment = normalise,
                                            .numbers = numbers,
                                            .mask = mask,
                                            .wide_bytes = 4 * most};
        l->samples.ids = PDL_NEW(a, int64_t, plan->batch + 1);
        l->samples.wide = PDL_NEW(a, float, most + 1);
        l->samples.mask.draws =
            pdl_arena_alloc(a, 1, train_mask_bytes(&mask) + 1);
    }
    if (st == PDL_OK && (!l || !l->ids || !l->samples.ids || !l->samples.wide ||
                         !l->samples.mask.draws))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    if (st != PDL_OK) {
        pdl_arena_destroy(a);
        return st;
    }
    *out = l;
    return PDL_OK;
}

void pdl_train_list_close(pdl_train_list *l)
{
    if (l)
        pdl_arena_destroy(l->arena);
}

void pdl_train_list_mask(pdl_train_list *l, uint64_t seed, int64_t epoch)
{
    l->samples.mask.seed = seed;
    l->samples.mask.epoch = epoch;
}

struct pdl_train_feed pdl_train_list_feed(pdl_train_list *l, const int64_t *ids,
                                          int64_t n)
{
    for (int64_t i = 0; i < l->batch; i++)
        l->ids[i] = ids[i % n];
    l->samples.list = l->ids;
    l->samples.end = l->batch;
    return (struct pdl_train_feed){.fill = train_samples_fill,
                                   .ctx = &l->samples};
}
