/* SPDX-License-Identifier: Apache-2.0
 *
 * The moving average of the weights over steps (Polyak and Juditsky 1992; as
 * exponential mean in most of today's image models): kept beside them in
 * float32 or float64, part of checkpoints as ema.NAME, tested and saved
 * instead of them. Of weights in bfloat16 the master is averaged. */
#include "train/exec/loop.h"

#include <string.h>

struct train_average {
    const struct pdl_train_state *weight, *from; /* from: the master, or it */
    const char *name;
    void *mean, *aside; /* aside: the weight while the mean is in its place */
    int64_t n;
};

static enum pdl_dtype mean_type(const struct train_average *a)
{
    return a->from->part.dtype == PDL_F64 ? PDL_F64 : PDL_F32;
}

static size_t mean_bytes(const struct train_average *a)
{
    return (size_t)a->n * (size_t)pdl_dtype_bits(mean_type(a)) / 8;
}

static size_t weight_bytes(const struct train_average *a)
{
    return (size_t)a->n * (size_t)pdl_dtype_bits(a->weight->part.dtype) / 8;
}

/* The float32 master of a weight follows it in the list of states. */
const struct pdl_train_state *train_master_of(const pdl_trainer *t, int weight)
{
    const struct pdl_train_state *w = pdl_trainer_state(t, weight), *s;

    for (int i = weight + 1; (s = pdl_trainer_state(t, i)) != NULL &&
                             !s->learned && s->model_tensor == w->model_tensor;
         i++)
        if (strncmp(s->part.name, "master.", 7) == 0)
            return s;
    return w;
}

static bool open_one(struct train_loop *l, int i)
{
    struct train_average *a = &l->averages[l->naverages];

    a->weight = pdl_trainer_state(l->t, i);
    a->from = train_master_of(l->t, i);
    a->n = pdl_box_volume(&a->weight->part.box);
    a->name = pdl_arena_printf(l->arena, "ema.%s", a->weight->part.name);
    a->mean = pdl_arena_alloc(l->arena, mean_bytes(a) + 1, 1);
    a->aside = pdl_arena_alloc(l->arena, weight_bytes(a) + 1, 1);
    if (!a->name || !a->mean || !a->aside)
        return false;
    l->naverages++;
    return true;
}

enum pdl_status train_average_open(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_train_state *s;
    int n = 0;

    if (!(l->job->ema > 0))
        return PDL_OK;
    while (pdl_trainer_state(l->t, n))
        n++;
    l->averages = PDL_NEW(l->arena, struct train_average, n + 1);
    for (int i = 0; l->averages && (s = pdl_trainer_state(l->t, i)); i++) {
        if (s->cut)
            return pdl_fail(err, PDL_EINVAL,
                            "--ema does not go with zero= or "
                            "offload=optimizer: a rank has no whole weights "
                            "to put the mean in");
        if (s->learned && !open_one(l, i))
            return pdl_fail(err, PDL_ENOMEM, "out of memory for averages");
    }
    return l->averages
               ? train_average_reset(l, err)
               : pdl_fail(err, PDL_ENOMEM, "out of memory for averages");
}

enum pdl_status train_average_reset(struct train_loop *l, struct pdl_err *err)
{
    enum pdl_status st =
        l->naverages > 0 ? pdl_trainer_fetch(l->t, err) : PDL_OK;

    for (int i = 0; i < l->naverages; i++)
        memcpy(l->averages[i].mean, l->averages[i].from->part.data,
               mean_bytes(&l->averages[i]));
    return st;
}

/* On a device every step brings the weights to the host. */
enum pdl_status train_average_step(struct train_loop *l, struct pdl_err *err)
{
    double keep = l->job->ema, take = 1 - keep;
    enum pdl_status st =
        l->naverages > 0 ? pdl_trainer_fetch(l->t, err) : PDL_OK;

    for (int i = 0; i < l->naverages; i++) {
        struct train_average *a = &l->averages[i];

        if (mean_type(a) == PDL_F64) {
            const double *w = a->from->part.data;
            double *m = a->mean;

            for (int64_t k = 0; k < a->n; k++)
                m[k] = keep * m[k] + take * w[k];
        } else {
            const float *w = a->from->part.data;
            float *m = a->mean, f = (float)take;

            for (int64_t k = 0; k < a->n; k++)
                m[k] += f * (w[k] - m[k]);
        }
    }
    return st;
}

enum pdl_status train_average_in(struct train_loop *l, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (l->naverages == 0)
        return st;
    st = pdl_trainer_fetch(l->t, err);
    for (int i = 0; i < l->naverages; i++) {
        struct train_average *a = &l->averages[i];
        const struct pdl_train_part *p = &a->weight->part;

        memcpy(a->aside, p->data, weight_bytes(a));
        if (p->dtype != PDL_BF16) {
            memcpy(p->data, a->mean, weight_bytes(a));
            continue;
        }
        for (int64_t k = 0; k < a->n; k++)
            ((uint16_t *)p->data)[k] = pdl_to_bf16(((float *)a->mean)[k]);
    }
    return st == PDL_OK ? train_state_send(l->t, err) : st;
}

enum pdl_status train_average_out(struct train_loop *l, struct pdl_err *err)
{
    if (l->naverages == 0)
        return PDL_OK;
    for (int i = 0; i < l->naverages; i++)
        memcpy(l->averages[i].weight->part.data, l->averages[i].aside,
               weight_bytes(&l->averages[i]));
    return train_state_send(l->t, err);
}

const struct pdl_train_state *train_average_shard(const struct train_loop *l,
                                                  int i, struct pdl_shard *x)
{
    const struct train_average *a = &l->averages[i];

    if (i >= l->naverages)
        return NULL;
    *x = (struct pdl_shard){.name = a->name,
                            .dtype = mean_type(a),
                            .rank = a->weight->part.ndims,
                            .box = a->weight->part.box,
                            .data = a->mean};
    memcpy(x->dim, a->weight->part.dim, (size_t)x->rank * sizeof x->dim[0]);
    return a->weight;
}

/* A checkpoint without means begins them with its weights. */
enum pdl_status train_average_restore(struct train_loop *l, const pdl_ckpt *c,
                                      struct pdl_err *err)
{
    enum pdl_status st = train_average_reset(l, err);

    for (int i = 0; i < l->naverages && st == PDL_OK; i++) {
        struct train_average *a = &l->averages[i];
        const struct pdl_ckpt_tensor *t;
        int k = pdl_ckpt_find(c, a->name);

        t = k < 0 ? NULL : pdl_ckpt_tensor(c, k);
        if (t && t->dtype == mean_type(a) &&
            !pdl_box_empty(&a->weight->part.box))
            st = pdl_ckpt_read(c, k, &a->weight->part.box, a->mean, err);
    }
    return st;
}
