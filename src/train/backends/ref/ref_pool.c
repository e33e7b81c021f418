/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. A maximum leaves its position in the window (row-major, the first
 * of equals) for backward, which hands each dy to that position: positions
 * travel with dy where a window crosses the border of a part. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

static struct pdl_box kernel_box(const struct ref_run *r)
{
    struct pdl_box b = {.ndims = r->in[0].box.ndims - 2};

    for (int s = 0; s < b.ndims; s++)
        b.hi[s] = r->node->attr.kernel[s];
    return b;
}

/* The x index of window y at kernel position k; false: padding. */
static bool partner(const struct ref_run *r, const int64_t *y, const int64_t *k,
                    int64_t *x)
{
    const struct pdl_attr *a = &r->node->attr;
    const struct pdl_tensor *t = &r->tensors[r->node->in[0]];

    x[0] = y[0];
    x[1] = y[1];
    for (int s = 0; s < t->rank - 1; s++) {
        x[s + 2] = y[s + 2] * or1(a->stride[s]) - a->pad[s] +
                   k[s] * or1(a->dilation[s]);
        if (x[s + 2] < 0 || x[s + 2] >= t->dim[s + 1])
            return false;
    }
    return true;
}

/* ---- maximum ---------------------------------------------------------- */

static void max_forward(struct ref_run *r)
{
    struct pdl_box kb = kernel_box(r);
    struct ref_array *x = &r->in[0], *y = &r->out[0];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            k[PDL_BOX_DIMS] = {0}, o = 0;

    REF_EACH(&y->box, yi)
    {
        double best = -INFINITY;
        int64_t where = 0, p = 0;

        REF_EACH(&kb, k)
        {
            if (partner(r, yi, k, xi)) {
                double v = x->at[ref_offset(x, xi)];

                if (v > best || isnan(v)) {
                    best = v;
                    where = p;
                }
            }
            p++;
        }
        y->at[o] = best;
        if (r->op.aux_out >= 0)
            r->out[r->op.aux_out].at[o] = (double)where;
        o++;
    }
}

static void max_backward(struct ref_run *r)
{
    struct ref_array *dy = &r->in[0], *dx = &r->out[0];
    const struct ref_array *where = &r->in[r->op.aux];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            k[PDL_BOX_DIMS] = {0}, o = 0;

    REF_EACH(&dy->box, yi)
    {
        int64_t p = (int64_t)where->at[o];

        for (int s = dy->box.ndims - 3; s >= 0; s--) {
            k[s] = p % r->node->attr.kernel[s];
            p /= r->node->attr.kernel[s];
        }
        if (partner(r, yi, k, xi) && ref_inside(dx, xi))
            dx->at[ref_offset(dx, xi)] += dy->at[o];
        o++;
    }
}

static void max_pool(struct ref_run *r)
{
    if (r->call->pass == PDL_FORWARD)
        max_forward(r);
    else
        max_backward(r);
}

static enum pdl_status max_check(const struct train_call *c,
                                 struct pdl_err *err)
{
    struct train_operands o;

    train_operands(c, &o);
    if (c->pass == PDL_BACKWARD_DATA && o.aux < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: backward needs the positions that forward left",
                        c->node->name);
    return PDL_OK;
}

/* ---- mean ------------------------------------------------------------- */

/* How many elements window y has: with count_pad those of the padded input
 * (ceil_mode may hang over even that), else those inside. */
static double window_size(const struct ref_run *r, const int64_t *y)
{
    const struct pdl_attr *a = &r->node->attr;
    const struct pdl_tensor *t = &r->tensors[r->node->in[0]];
    double n = 1;

    for (int s = 0; s < t->rank - 1; s++) {
        int64_t lo = y[s + 2] * or1(a->stride[s]) - a->pad[s];
        int64_t hi = lo + a->kernel[s], end = t->dim[s + 1];

        if (a->count_pad)
            hi = ref_min(hi, end + a->pad_end[s]);
        else
            hi = ref_min(hi, end), lo = ref_max(lo, 0);
        n *= (double)(hi - lo);
    }
    return n;
}

static void avg_pool(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct pdl_box kb = kernel_box(r);
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            k[PDL_BOX_DIMS] = {0}, o = 0;

    REF_EACH(&y->box, yi)
    {
        double n = window_size(r, yi), sum = 0;

        REF_EACH(&kb, k)
        if (partner(r, yi, k, xi) && ref_inside(x, xi)) {
            if (forward)
                sum += x->at[ref_offset(x, xi)];
            else
                x->at[ref_offset(x, xi)] += y->at[o] / n;
        }
        if (forward)
            y->at[o] = sum / n;
        o++;
    }
}

/* ---- whole images ----------------------------------------------------- */

static double image_size(const struct ref_run *r)
{
    const struct pdl_tensor *t = &r->tensors[r->node->in[0]];
    double n = 1;

    for (int d = 1; d < t->rank; d++)
        n *= (double)t->dim[d];
    return n;
}

/* The mean over a part of the image, divided by the size of the whole. */
static void global_avg_pool(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    double n = image_size(r);
    int64_t planes = x->n[0] * x->n[1], size = x->stride[1];

    for (int64_t p = 0; p < planes; p++) {
        double sum = 0;

        for (int64_t i = 0; i < size; i++)
            if (forward)
                sum += x->at[p * size + i];
            else
                x->at[p * size + i] = y->at[p] / n;
        if (forward)
            y->at[p] = sum / n;
    }
}

/* Whole images only: positions count from the part's first element. */
static void global_max_pool(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    int64_t planes = x->n[0] * x->n[1], size = x->stride[1];

    for (int64_t p = 0; p < planes; p++) {
        int64_t best = 0;

        if (!forward) {
            best = (int64_t)r->in[r->op.aux].at[p];
            x->at[p * size + best] = r->in[0].at[p];
            continue;
        }
        for (int64_t i = 1; i < size; i++)
            if (x->at[p * size + i] > x->at[p * size + best])
                best = i;
        r->out[0].at[p] = x->at[p * size + best];
        if (r->op.aux_out >= 0)
            r->out[r->op.aux_out].at[p] = (double)best;
    }
}

/* Bin i of Y over X elements: [floor(i X / Y), ceil((i + 1) X / Y)). */
static struct pdl_box bin(const struct ref_run *r, const int64_t *y)
{
    const struct pdl_tensor *xt = &r->tensors[r->node->in[0]];
    const struct pdl_tensor *yt = &r->tensors[r->node->out[0]];
    struct pdl_box b = {.ndims = xt->rank + 1};

    for (int d = 0; d < 2; d++) {
        b.lo[d] = y[d];
        b.hi[d] = y[d] + 1;
    }
    for (int d = 2; d < b.ndims; d++) {
        int64_t x = xt->dim[d - 1], n = yt->dim[d - 1];

        b.lo[d] = y[d] * x / n;
        b.hi[d] = ((y[d] + 1) * x + n - 1) / n;
    }
    return b;
}

static void adaptive_avg_pool(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0}, o = 0;

    REF_EACH(&y->box, yi)
    {
        struct pdl_box b = bin(r, yi);
        double n = (double)pdl_box_volume(&b), sum = 0;

        REF_EACH(&b, xi)
        if (forward)
            sum += x->at[ref_offset(x, xi)];
        else
            x->at[ref_offset(x, xi)] += y->at[o] / n;
        if (forward)
            y->at[o] = sum / n;
        o++;
    }
}

static const struct ref_op rows[] = {
    {"max_pool", max_pool, NULL, max_check},
    {"avg_pool", avg_pool, NULL, NULL},
    {"global_avg_pool", global_avg_pool, NULL, NULL},
    {"global_max_pool", global_max_pool, NULL, max_check},
    {"adaptive_avg_pool", adaptive_avg_pool, NULL, NULL},
};

const struct ref_ops train_ref_pool = {rows, sizeof rows / sizeof rows[0]};
