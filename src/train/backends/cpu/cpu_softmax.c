/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and its logarithm along an axis. Where the axis is a run of storage
 * (features, channels of images) rows are taken one by one, else columns side
 * by side. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

struct softmax_kernel {
    struct train_kernel base;
    struct train_operands op;
    bool log_, forward;
    int64_t n, inner, outer; /* along the axis, inside it, outside it */
};

struct task {
    const struct softmax_kernel *k;
    const float *x, *y; /* or dy */
    float *out;
};

static void row(const struct softmax_kernel *k, const float *x, const float *y,
                float *out)
{
    int64_t n = k->n;

    if (k->forward && k->log_) {
        float top = train_simd_largest(x, n);
        float lse = top + logf(train_simd_sum_exp(x, top, n));

        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] - lse;
    } else if (k->forward) {
        if (out != x)
            memcpy(out, x, (size_t)n * sizeof *out);
        train_simd_softmax(out, n);
    } else if (k->log_) {
        train_simd_log_softmax_back(x, y, train_simd_sum(x, n), out, n);
    } else {
        float d = train_simd_dot(x, y, n);

        if (out != x)
            memcpy(out, x, (size_t)n * sizeof *out);
        train_simd_softmax_back(y, out, d, 1, n);
    }
}

static void some_rows(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct softmax_kernel *k = t->k;

    for (int64_t o = from; o < to; o++) {
        int64_t at = o * k->n * k->inner;

        if (k->inner == 1)
            row(k, t->x + at, t->y + at, t->out + at);
        else if (k->forward)
            train_simd_softmax_columns(t->x + at, t->out + at, k->n, k->inner,
                                       k->log_);
        else
            train_simd_softmax_columns_back(t->x + at, t->y + at, t->out + at,
                                            k->n, k->inner, k->log_);
    }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct softmax_kernel *k = (const struct softmax_kernel *)base;
    struct task t = {k, in[0], in[k->forward ? 0 : k->op.y], out[0]};

    (void)scratch;
    (void)when;
    (void)err;
    train_cpu_parallel(k->outer, 1 + CPU_GRAIN / 4 / (k->n * k->inner),
                       some_rows, &t);
    return PDL_OK;
}

/* All arrays have one box in one order of storage, the axis whole. */
static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    int axis = (int)c->node->attr.axis + 1;
    const struct train_array *a = &c->out[0];
    int64_t stride[PDL_BOX_DIMS] = {0};
    struct train_call kept;
    struct softmax_kernel *k;

    if (!train_cpu_plain(c) || pdl_box_empty(&a->box) || axis < 1 ||
        axis >= a->box.ndims)
        return PDL_OK;
    for (int i = 0; i < c->nin; i++)
        if (!train_same_box(&c->in[i].box, &a->box) ||
            c->in[i].channels_last != a->channels_last)
            return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    train_operands(c, &k->op);
    train_array_strides(a, stride);
    k->log_ = pdl_op_id(c->node->op) == PDL_ID_LOG_SOFTMAX;
    k->forward = c->pass == PDL_FORWARD;
    k->n = a->box.hi[axis] - a->box.lo[axis];
    k->inner = stride[axis];
    k->outer = train_array_elements(a) / (k->n * k->inner);
    k->base.implementation = "own";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"softmax", make},
    {"log_softmax", make},
};

const struct cpu_ops train_cpu_softmax = {rows, sizeof rows / sizeof rows[0]};
