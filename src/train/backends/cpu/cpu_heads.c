/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the features of [T,E]: slices of each head's,
 * and each head's joined with those that all heads share. Rows of features are
 * copied; only the gradient of what is shared is a sum, over the heads at
 * hand in their order. */
#include "train/backends/cpu/cpu.h"

#include <string.h>

struct heads_kernel {
    struct train_kernel base;
    int64_t rows, heads;   /* at hand */
    int64_t wide, from, n; /* a head of x, and what y has of it */
    int64_t own, all;      /* join: features of each, of all heads */
    int of_own, of_all;    /* join: outputs of backward; -1: none */
    bool forward;
};

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

static void copy(float *to, const float *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

/* ---- slices ----------------------------------------------------------- */

static enum pdl_status run_slice(const struct train_kernel *base,
                                 void *const *in, void *const *out,
                                 void *scratch, const struct train_moment *when,
                                 struct pdl_err *err)
{
    const struct heads_kernel *k = (const struct heads_kernel *)base;
    const float *from = in[0];
    float *to = out[0];
    int64_t count = k->rows * k->heads;

    (void)scratch;
    (void)when;
    (void)err;
    if (!k->forward)
        memset(to, 0, (size_t)(count * k->wide) * sizeof *to);
    for (int64_t i = 0; i < count; i++)
        if (k->forward)
            copy(to + i * k->n, from + i * k->wide + k->from, k->n);
        else
            copy(to + i * k->wide + k->from, from + i * k->n, k->n);
    return PDL_OK;
}

/* Both sides have the same rows, in whole heads. */
static bool fits(const struct train_array *x, const struct train_array *y,
                 int64_t wide, int64_t n)
{
    for (int d = 0; d < 2; d++)
        if (x->box.lo[d] != y->box.lo[d] || x->box.hi[d] != y->box.hi[d])
            return false;
    return x->box.lo[2] % wide == 0 && x->box.hi[2] % wide == 0 &&
           x->box.lo[2] / wide == y->box.lo[2] / n &&
           x->box.hi[2] / wide == y->box.hi[2] / n && y->box.lo[2] % n == 0 &&
           y->box.hi[2] % n == 0 && !pdl_box_empty(&y->box);
}

static enum pdl_status make_slice(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    const struct pdl_attr *a = &c->node->attr;
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    const struct train_array *x = forward ? &c->in[0] : &c->out[0];
    const struct train_array *y = forward ? &c->out[0] : &c->in[0];
    int64_t heads = a->heads > 0 ? a->heads : 1, wide, n;
    struct train_call kept;
    struct heads_kernel *k;

    if (!train_cpu_plain(c) || t->rank != 2 || c->nin != 1 || c->nout != 1 ||
        a->ndims != 2)
        return PDL_OK;
    wide = t->dim[1] / heads;
    n = a->dims[1] - a->dims[0];
    if (wide < 1 || n < 1 || !fits(x, y, wide, n))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->rows = extent(x, 0) * extent(x, 1);
    k->heads = extent(y, 2) / n;
    k->wide = wide;
    k->from = a->dims[0];
    k->n = n;
    k->forward = forward;
    k->base.implementation = "own";
    k->base.run = run_slice;
    *out = &k->base;
    return PDL_OK;
}

/* ---- joins ------------------------------------------------------------ */

static void join_row(const struct heads_kernel *k, const float *own,
                     const float *all, float *y)
{
    for (int64_t h = 0; h < k->heads; h++) {
        copy(y, own + h * k->own, k->own);
        copy(y + k->own, all, k->all);
        y += k->own + k->all;
    }
}

static void part_row(const struct heads_kernel *k, const float *dy, float *own,
                     float *all)
{
    if (all)
        memset(all, 0, (size_t)k->all * sizeof *all);
    for (int64_t h = 0; h < k->heads; h++) {
        if (own)
            copy(own + h * k->own, dy, k->own);
        dy += k->own;
        for (int64_t e = 0; all && e < k->all; e++)
            all[e] += dy[e];
        dy += k->all;
    }
}

static enum pdl_status run_join(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct heads_kernel *k = (const struct heads_kernel *)base;
    int64_t wide = k->heads * k->own, both = k->heads * (k->own + k->all);
    float *own = k->of_own >= 0 ? out[k->of_own] : NULL;
    float *all = k->of_all >= 0 ? out[k->of_all] : NULL;

    (void)scratch;
    (void)when;
    (void)err;
    for (int64_t r = 0; r < k->rows; r++)
        if (k->forward)
            join_row(k, (const float *)in[0] + r * wide,
                     (const float *)in[1] + r * k->all,
                     (float *)out[0] + r * both);
        else
            part_row(k, (const float *)in[0] + r * both,
                     own ? own + r * wide : NULL,
                     all ? all + r * k->all : NULL);
    return PDL_OK;
}

static enum pdl_status make_join(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    const struct pdl_tensor *t = c->model->tensors;
    int64_t heads = c->node->attr.heads;
    int64_t own = t[c->node->in[0]].dim[1] / heads,
            all = t[c->node->in[1]].dim[1];
    int g[2] = {forward ? 0 : train_gradient_of(c, 0),
                forward ? 1 : train_gradient_of(c, 1)};
    const struct train_array *y = forward ? &c->out[0] : &c->in[0];
    const struct train_array *x = forward ? c->in : c->out;
    struct train_call kept;
    struct heads_kernel *k;

    if (!train_cpu_plain(c) ||
        (g[0] >= 0 && !fits(&x[g[0]], y, own, own + all)) ||
        (g[1] >= 0 && extent(&x[g[1]], 2) != all) || pdl_box_empty(&y->box))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->rows = extent(y, 0) * extent(y, 1);
    k->heads = extent(y, 2) / (own + all);
    k->own = own;
    k->all = all;
    k->of_own = forward ? -1 : g[0];
    k->of_all = forward ? -1 : g[1];
    k->forward = forward;
    k->base.implementation = "own";
    k->base.run = run_join;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"slice_heads", make_slice},
    {"join_heads", make_join},
};

const struct cpu_ops train_cpu_heads = {rows, sizeof rows / sizeof rows[0]};
