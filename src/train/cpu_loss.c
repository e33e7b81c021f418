/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax cross-entropy where classes lie side by side. */
#include "cpu.h"
#include "simd.h"

struct loss_kernel {
    struct train_kernel base;
    struct train_call call;
    int64_t items, classes;
    float smooth, share;
};

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct loss_kernel *k = (const struct loss_kernel *)base;
    const float *y = in[0];
    const int32_t *label = in[1];
    float *dy = out[0], share = k->share;

    if (k->call.loss &&
        k->call.loss->scale > 0) /* may change from step to step */
        share *= (float)k->call.loss->scale;
    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t i = 0; i < k->items; i++) {
        float right, v = train_simd_cross_entropy(
                         y + i * k->classes, k->classes, label[i], k->smooth,
                         share, dy + i * k->classes, &right);

        if (k->call.nout > 1 && k->call.out[1].dtype == PDL_F64)
            ((double *)out[1])[i] = (double)v;
        else if (k->call.nout > 1)
            ((float *)out[1])[i] = v;
        if (k->call.nout > 2)
            ((float *)out[2])[i] = right;
    }
    return PDL_OK;
}

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

    if (!fits(c))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->classes = y->box.hi[d] - y->box.lo[d];
    k->items = train_array_elements(y) / k->classes;
    if (train_array_elements(&c->in[1]) != k->items)
        return PDL_OK; /* the reference says so */
    k->smooth = c->loss ? (float)c->loss->smoothing : 0;
    k->share =
        (float)(1 / (double)(c->population > 0 ? c->population : k->items));
    k->base.implementation = "own";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"loss", make},
};

const struct cpu_ops train_cpu_loss = {rows, sizeof rows / sizeof rows[0]};
