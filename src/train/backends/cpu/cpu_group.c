/* SPDX-License-Identifier: Apache-2.0
 *
 * Group and instance norm of images, one sample after the other: moments by
 * channel, joined to those of a group, and then what batch norm does. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <math.h>

struct group_kernel {
    struct train_kernel base;
    struct train_operands op;
    enum pdl_pass pass;
    int nout;
    double epsilon;
    int64_t n, rows, c, each; /* samples, positions, channels, of a group */
};

/* Room for one sample: eight floats and two doubles a channel. */
struct space {
    double *sum, *dot;
    float *mean, *rstd, *a, *b, *k, *var;
};

static int64_t space_bytes(const struct group_kernel *k)
{
    return (k->c * (2 * 8 + 6 * 4) + 63) / 64 * 64;
}

static struct space space_of(const struct group_kernel *k, void *scratch,
                             int64_t sample)
{
    struct space s;

    s.sum = (void *)((char *)scratch + sample * space_bytes(k));
    s.dot = s.sum + k->c;
    s.mean = (void *)(s.dot + k->c);
    s.rstd = s.mean + k->c;
    s.a = s.rstd + k->c;
    s.b = s.a + k->c;
    s.k = s.b + k->c;
    s.var = s.k + k->c;
    return s;
}

/* mean and 1/deviation of its group for every channel. */
static void statistics(const struct group_kernel *k, const float *x,
                       const struct space *s)
{
    train_simd_bn_moments(x, k->rows, k->c, k->c, s->mean, s->var);
    for (int64_t g = 0; g < k->c; g += k->each) {
        double mean = 0, var = 0;

        for (int64_t c = g; c < g + k->each; c++)
            mean += (double)s->mean[c] / (double)k->each;
        for (int64_t c = g; c < g + k->each; c++) {
            double d = (double)s->mean[c] - mean;

            var += ((double)s->var[c] + d * d) / (double)k->each;
        }
        for (int64_t c = g; c < g + k->each; c++) {
            s->mean[c] = (float)mean;
            s->rstd[c] = (float)(1 / sqrt(var + k->epsilon));
        }
    }
}

struct task {
    const struct group_kernel *k;
    void *const *in, *const *out;
    void *scratch;
};

static void forward(const struct task *t, int64_t n)
{
    const struct group_kernel *k = t->k;
    struct space s = space_of(k, t->scratch, n);
    const float *w = k->op.nw > 0 ? t->in[k->op.w] : NULL;
    const float *b = k->op.nw > 1 ? t->in[k->op.w + 1] : NULL;
    const float *x = (const float *)t->in[0] + n * k->rows * k->c;

    statistics(k, x, &s);
    for (int64_t c = 0; c < k->c; c++) {
        s.a[c] = s.rstd[c] * (w ? w[c] : 1);
        s.b[c] = (b ? b[c] : 0) - s.mean[c] * s.a[c];
    }
    train_simd_bn_apply(x, s.a, s.b, (float *)t->out[0] + n * k->rows * k->c,
                        k->rows, k->c);
}

/* dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)), as a dy + b x + k. */
static void data(const struct task *t, int64_t n)
{
    const struct group_kernel *k = t->k;
    struct space s = space_of(k, t->scratch, n);
    const float *w = k->op.nw > 0 ? t->in[k->op.w] : NULL;
    const float *dy = (const float *)t->in[0] + n * k->rows * k->c;
    const float *x = (const float *)t->in[k->op.x] + n * k->rows * k->c;
    double count = (double)(k->each * k->rows);

    statistics(k, x, &s);
    train_simd_bn_back_sums(dy, x, s.mean, s.rstd, k->rows, k->c, k->c, s.sum,
                            s.dot);
    for (int64_t g = 0; g < k->c; g += k->each) {
        double rstd = (double)s.rstd[g], sd = 0, sdx = 0;

        for (int64_t c = g; c < g + k->each; c++) {
            sd += s.sum[c] * (w ? (double)w[c] : 1);
            sdx += s.dot[c] * (w ? (double)w[c] : 1);
        }
        for (int64_t c = g; c < g + k->each; c++) {
            double slope = rstd * rstd * sdx / count;

            s.a[c] = (float)(rstd * (w ? (double)w[c] : 1));
            s.b[c] = (float)-slope;
            s.k[c] = (float)(slope * (double)s.mean[c] - rstd * sd / count);
        }
    }
    train_simd_bn_back(dy, x, s.a, s.b, s.k,
                       (float *)t->out[0] + n * k->rows * k->c, k->rows, k->c);
}

/* Leaves the sample's sums in its space. */
static void sums(const struct task *t, int64_t n)
{
    const struct group_kernel *k = t->k;
    struct space s = space_of(k, t->scratch, n);
    const float *x = (const float *)t->in[0] + n * k->rows * k->c;
    const float *dy = (const float *)t->in[1] + n * k->rows * k->c;

    statistics(k, x, &s);
    train_simd_bn_back_sums(dy, x, s.mean, s.rstd, k->rows, k->c, k->c, s.sum,
                            s.dot);
}

static void some_samples(const void *ctx, int64_t from, int64_t to)
{
    static void (*const passes[])(const struct task *, int64_t) = {
        [PDL_FORWARD] = forward,
        [PDL_BACKWARD_DATA] = data,
        [PDL_BACKWARD_WEIGHTS] = sums,
    };
    const struct task *t = ctx;

    for (int64_t n = from; n < to; n++)
        passes[t->k->pass](t, n);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct group_kernel *k = (const struct group_kernel *)base;
    struct task t = {k, in, out, scratch};

    (void)when;
    (void)err;
    train_cpu_parallel(k->n, 1 + CPU_GRAIN / 4 / (k->rows * k->c), some_samples,
                       &t);
    for (int64_t c = 0; k->pass == PDL_BACKWARD_WEIGHTS && c < k->c; c++) {
        double sum = 0, dot = 0;

        for (int64_t n = 0; n < k->n; n++) {
            struct space s = space_of(k, scratch, n);

            sum += s.sum[c];
            dot += s.dot[c];
        }
        ((float *)out[0])[c] = (float)dot;
        if (k->nout > 1)
            ((float *)out[1])[c] = (float)sum;
    }
    return PDL_OK;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    bool instance = pdl_op_id(c->node->op) == PDL_ID_INSTANCE_NORM;
    const struct train_array *x = &c->in[0];
    int64_t channels = x->box.hi[1] - x->box.lo[1];
    int64_t groups = instance                   ? channels
                     : c->node->attr.groups > 0 ? c->node->attr.groups
                                                : 1;
    struct train_call kept;
    struct group_kernel *k;

    if (!train_cpu_plain(c) || (x->box.ndims > 2 && !x->channels_last) ||
        pdl_box_empty(&x->box) || channels % groups != 0)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    train_operands(c, &k->op);
    k->pass = c->pass;
    k->nout = c->nout;
    k->n = x->box.hi[0] - x->box.lo[0];
    k->c = channels;
    k->each = channels / groups;
    k->epsilon = train_epsilon(c->node);
    k->rows = train_array_elements(x) / (k->n * k->c);
    k->base.scratch_bytes = k->n * space_bytes(k);
    k->base.implementation = "own";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"group_norm", make},
    {"instance_norm", make},
};

const struct cpu_ops train_cpu_group = {rows, sizeof rows / sizeof rows[0]};
