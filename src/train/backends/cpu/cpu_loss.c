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
    float smooth, share;
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

static void some_items(const void *ctx, int64_t from, int64_t to)
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

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct loss_kernel *k = (const struct loss_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    train_cpu_parallel(k->items, 1 + CPU_GRAIN / 4 / (k->classes + 1),
                       some_items, &(struct task){k, in, out});
    return PDL_OK;
}

/* ---- a part of the classes ------------------------------------------------------ */

static void run_largest(const struct loss_kernel *k, const float *y,
                        double *top)
{
    for (int64_t i = 0; i < k->items; i++)
        top[i] = (double)train_simd_largest(y + i * k->classes, k->classes);
}

/* Of an item the sum of exponentials and the value of the right class. */
static void run_sums(const struct loss_kernel *k, const float *y,
                     const int32_t *label, const double *top, double *sums)
{
    for (int64_t i = 0; i < k->items; i++) {
        const float *row = y + i * k->classes;
        int64_t at = label[i] - k->first;
        bool mine = at >= 0 && at < k->classes;

        sums[2 * i] =
            (double)train_simd_sum_exp(row, (float)top[i], k->classes);
        sums[2 * i + 1] = mine ? (double)row[at] : 0;
    }
}

static void run_gradient(const struct loss_kernel *k, void *const *in,
                         void *const *out)
{
    const float *y = in[0];
    const int32_t *label = in[1];
    const double *top = in[2], *sums = in[3];
    float share = share_of(k);

    for (int64_t i = 0; i < k->items; i++) {
        float *dy = (float *)out[0] + i * k->classes;
        int64_t at = label[i] - k->first;
        double sum = sums[2 * i], value = sums[2 * i + 1];
        bool counts = label[i] >= 0;

        train_simd_exp_scaled(y + i * k->classes, (float)top[i],
                              counts ? share / (float)sum : 0, dy, k->classes);
        if (counts && at >= 0 && at < k->classes)
            dy[at] -= share;
        put_loss(k, out, i, counts ? log(sum) - (value - top[i]) : 0,
                 counts && value >= top[i]);
    }
}

static enum pdl_status run_part(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct loss_kernel *k = (const struct loss_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    if (k->call.nin == 1)
        run_largest(k, in[0], out[0]);
    else if (k->call.nin == 3)
        run_sums(k, in[0], in[1], in[2], out[0]);
    else
        run_gradient(k, in, out);
    return PDL_OK;
}

static bool is_statistic(const struct train_array *s, int64_t items, int64_t n)
{
    return s->dtype == PDL_F64 && !s->channels_last && !s->layout &&
           train_array_elements(s) == items * n;
}

/* Statistics lie item by item; anything else the reference knows. */
static bool part_fits(const struct train_call *c, int64_t items)
{
    const struct train_array *y = &c->in[0];
    bool last = c->nin == 4;

    if ((c->loss &&
         (c->loss->kind != TRAIN_SOFTMAX || c->loss->smoothing > 0)) ||
        y->box.ndims > 3 || y->channels_last || y->layout ||
        y->dtype != PDL_F32 || pdl_box_empty(&y->box))
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
           !c->out[0].channels_last &&
           (c->nout < 2 || c->out[1].dtype == PDL_F32 ||
            c->out[1].dtype == PDL_F64) &&
           (c->nout < 3 || c->out[2].dtype == PDL_F32);
}

/* ---- making ---------------------------------------------------------------------- */

static bool fits(const struct train_call *c)
{
    const struct train_array *y = &c->in[0];

    if (c->nin != 2 || (c->loss && c->loss->kind != TRAIN_SOFTMAX))
        return false;
    return c->in[1].dtype == PDL_I32 && y->dtype == PDL_F32 &&
           c->out[0].dtype == PDL_F32 && !y->layout && !c->out[0].layout &&
           y->channels_last == c->out[0].channels_last &&
           (y->box.ndims < 4 || y->channels_last) &&
           (y->box.ndims != 3 || !y->channels_last) &&
           (c->nout < 2 || c->out[1].dtype == PDL_F32 ||
            c->out[1].dtype == PDL_F64) &&
           (c->nout < 3 || c->out[2].dtype == PDL_F32) &&
           !pdl_box_empty(&y->box);
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
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
    if (c->nin == 2 && train_array_elements(&c->in[1]) != items)
        return PDL_OK; /* the reference says so */
    k->smooth = c->loss ? (float)c->loss->smoothing : 0;
    k->share =
        (float)(1 / (double)(c->population > 0 ? c->population : k->items));
    k->base.implementation = "own";
    k->base.run = c->nin == 2 ? run : run_part;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"loss", make},
};

const struct cpu_ops train_cpu_loss = {rows, sizeof rows / sizeof rows[0]};
