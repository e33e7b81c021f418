/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax cross-entropy where classes lie side by side: all of them on this
 * rank, or a part of them in three steps (largest value, sums, gradient) with
 * exchanges between. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <math.h>

struct loss_kernel {
    struct train_kernel base;
    struct train_call call;
    int64_t items, classes, first; /* first: class of this rank's part */
    int64_t plane; /* items between the two sums of one: 1, beside each other */
    float smooth, share;
    void (*some)(const void *ctx, int64_t from, int64_t to);
};

static float share_of(const struct loss_kernel *k)
{
    const struct train_loss *l = k->call.loss; /* changes from step to step */

    return l && l->scale > 0 ? k->share * (float)l->scale : k->share;
}

static void put_loss(const struct loss_kernel *k, void *const *out, int64_t i,
                     double loss, float right)
{
    if (k->call.nout > 1 && k->call.out[1].dtype == PDL_F64)
        ((double *)out[1])[i] = loss;
    else if (k->call.nout > 1)
        ((float *)out[1])[i] = (float)loss;
    if (k->call.nout > 2)
        ((float *)out[2])[i] = right;
}

struct task {
    const struct loss_kernel *k;
    void *const *in, *const *out;
};

static void all_classes(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct loss_kernel *k = t->k;
    const float *y = t->in[0];
    const int32_t *label = t->in[1];
    float *dy = t->out[0], share = share_of(k);

    for (int64_t i = from; i < to; i++) {
        float right, v = train_simd_cross_entropy(
                         y + i * k->classes, k->classes, label[i], k->smooth,
                         share, dy + i * k->classes, &right);

        put_loss(k, t->out, i, (double)v, right);
    }
}

/* ---- a part of the classes -------------------------------------------- */

static void some_largest(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    int64_t n = t->k->classes;
    const float *y = t->in[0];
    double *top = t->out[0];

    for (int64_t i = from; i < to; i++)
        top[i] = (double)train_simd_largest(y + i * n, n);
}

/* Where the first sum of an item lies. */
static int64_t sum_at(const struct loss_kernel *k, int64_t item)
{
    return item + item / k->plane * k->plane;
}

/* Of an item the sum of exponentials and the value of the right class. */
static void some_sums(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct loss_kernel *k = t->k;
    const int32_t *label = t->in[1];
    const double *top = t->in[2];
    double *sums = t->out[0];

    for (int64_t i = from; i < to; i++) {
        const float *row = (const float *)t->in[0] + i * k->classes;
        int64_t at = label[i] - k->first;
        double *sum = sums + sum_at(k, i);
        bool mine = at >= 0 && at < k->classes;

        *sum = (double)train_simd_sum_exp(row, (float)top[i], k->classes);
        sum[k->plane] = mine ? (double)row[at] : 0;
    }
}

static void some_gradient(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct loss_kernel *k = t->k;
    const float *y = t->in[0];
    const int32_t *label = t->in[1];
    const double *top = t->in[2], *sums = t->in[3];
    float share = share_of(k);

    for (int64_t i = from; i < to; i++) {
        float *dy = (float *)t->out[0] + i * k->classes;
        int64_t at = label[i] - k->first;
        double sum = sums[sum_at(k, i)];
        double value = sums[sum_at(k, i) + k->plane];
        bool counts = label[i] >= 0;

        train_simd_exp_scaled(y + i * k->classes, (float)top[i],
                              counts ? share / (float)sum : 0, dy, k->classes);
        if (counts && at >= 0 && at < k->classes)
            dy[at] -= share;
        put_loss(k, t->out, i, counts ? log(sum) - (value - top[i]) : 0,
                 counts && value >= top[i]);
    }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct loss_kernel *k = (const struct loss_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    train_cpu_parallel(k->items, 1 + CPU_GRAIN / 4 / (k->classes + 1), k->some,
                       &(struct task){k, in, out});
    return PDL_OK;
}

/* Of images the classes are channels, else the last dimension. */
static bool side_by_side(const struct train_array *y)
{
    return y->channels_last ? y->box.ndims >= 4 : y->box.ndims < 4;
}

static bool is_statistic(const struct train_array *s, int64_t items, int64_t n)
{
    return s->dtype == PDL_F64 && !s->layout && !s->channels_last &&
           train_array_elements(s) == items * n;
}

/* Of images the two sums lie in planes, as the exchange keeps them. */
static int64_t plane_of(const struct train_array *y, int64_t items)
{
    return y->box.ndims < 4 ? 1 : items / (y->box.hi[0] - y->box.lo[0]);
}

static bool part_fits(const struct train_call *c, int64_t items)
{
    const struct train_array *y = &c->in[0];
    bool last = c->nin == 4;

    if ((c->loss &&
         (c->loss->kind != TRAIN_SOFTMAX || c->loss->smoothing > 0)) ||
        !side_by_side(y) || y->layout || y->dtype != PDL_F32 ||
        pdl_box_empty(&y->box))
        return false;
    if (c->nin == 1)
        return is_statistic(&c->out[0], items, 1);
    if (c->in[1].dtype != PDL_I32 || train_array_elements(&c->in[1]) != items ||
        !is_statistic(&c->in[2], items, 1))
        return false;
    if (c->nin == 3)
        return is_statistic(&c->out[0], items, 2);
    return last && is_statistic(&c->in[3], items, 2) &&
           c->out[0].dtype == PDL_F32 && !c->out[0].layout &&
           c->out[0].channels_last == y->channels_last &&
           (c->nout < 2 || c->out[1].dtype == PDL_F32 ||
            c->out[1].dtype == PDL_F64) &&
           (c->nout < 3 || c->out[2].dtype == PDL_F32);
}

/* ---- making ----------------------------------------------------------- */

static bool fits(const struct train_call *c)
{
    const struct train_array *y = &c->in[0];

    if (c->nin != 2 || (c->loss && c->loss->kind != TRAIN_SOFTMAX))
        return false;
    return c->in[1].dtype == PDL_I32 && y->dtype == PDL_F32 &&
           c->out[0].dtype == PDL_F32 && !y->layout && !c->out[0].layout &&
           y->channels_last == c->out[0].channels_last && side_by_side(y) &&
           (c->nout < 2 || c->out[1].dtype == PDL_F32 ||
            c->out[1].dtype == PDL_F64) &&
           (c->nout < 3 || c->out[2].dtype == PDL_F32) &&
           !pdl_box_empty(&y->box);
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    static void (*const steps[])(const void *, int64_t, int64_t) = {
        NULL, some_largest, all_classes, some_sums, some_gradient};
    const struct train_array *y = &c->in[0];
    int d = y->box.ndims >= 4 ? 1 : y->box.ndims - 1;
    struct train_call kept;
    struct loss_kernel *k;
    int64_t classes, items;

    classes = y->box.hi[d] - y->box.lo[d];
    items = classes > 0 ? train_array_elements(y) / classes : 0;
    if (c->nin == 2 ? !fits(c) : !part_fits(c, items))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->classes = classes;
    k->first = y->box.lo[d];
    k->items = items;
    k->plane = plane_of(y, items);
    if (c->nin == 2 && train_array_elements(&c->in[1]) != items)
        return PDL_OK; /* the reference says so */
    k->smooth = c->loss ? (float)c->loss->smoothing : 0;
    k->share =
        (float)(1 / (double)(c->population > 0 ? c->population : k->items));
    k->base.implementation = "own";
    k->base.run = run;
    k->some = steps[c->nin];
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"loss", make},
};

const struct cpu_ops train_cpu_loss = {rows, sizeof rows / sizeof rows[0]};
