/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of images with channels last, a row of windows at a time.
 * aux of a maximum: its position, in a byte where windows are small. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { S = PDL_MAX_SPATIAL, WINDOW = 512 };

struct pool_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    int64_t c, n;
    int64_t x0[S], xn[S], y0[S], yn[S], size[S]; /* boxes, whole x */
    int64_t k[S], q[S], p[S], e[S], end[S];      /* end: of counted padding */
    bool max, count_pad, narrow;
    bool apart, covered; /* no element in two windows; none in no window */
};

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

static void geometry(struct pool_kernel *k, const struct train_array *x,
                     const struct train_array *y)
{
    const struct pdl_attr *a = &k->call.node->attr;
    const struct pdl_tensor *t = &k->call.model->tensors[k->call.node->in[0]];
    int ns = x->box.ndims - 2;

    k->n = extent(y, 0);
    k->c = extent(y, 1);
    for (int i = 0; i < S; i++) {
        int d = i - (S - ns);
        bool real = d >= 0;

        k->x0[i] = real ? x->box.lo[d + 2] : 0;
        k->xn[i] = real ? extent(x, d + 2) : 1;
        k->y0[i] = real ? y->box.lo[d + 2] : 0;
        k->yn[i] = real ? extent(y, d + 2) : 1;
        k->size[i] = real ? t->dim[d + 1] : 1;
        k->k[i] = real ? a->kernel[d] : 1;
        k->q[i] = real ? or1(a->stride[d]) : 1;
        k->e[i] = real ? or1(a->dilation[d]) : 1;
        k->p[i] = real ? a->pad[d] : 0;
        k->end[i] = real ? t->dim[d + 1] + a->pad_end[d] : 1;
    }
}

static void set_windows(struct pool_kernel *k)
{
    k->apart = k->covered = true;
    for (int i = 0; i < S; i++) {
        int64_t first = k->y0[i] * k->q[i] - k->p[i] - k->x0[i];

        k->apart = k->apart && k->e[i] == 1 && k->k[i] <= k->q[i];
        k->covered = k->covered && k->k[i] == k->q[i] && first <= 0 &&
                     first + k->yn[i] * k->q[i] >= k->xn[i];
    }
    k->covered = k->covered && k->apart && !k->max;
}

/* Elements along dimension i that window y's mean divides by, see
 * ref_pool.c. */
static int64_t counted(const struct pool_kernel *k, int i, int64_t y)
{
    int64_t lo = (k->y0[i] + y) * k->q[i] - k->p[i];
    int64_t hi = lo + k->k[i], end = k->count_pad ? k->end[i] : k->size[i];

    if (!k->count_pad && lo < 0)
        lo = 0;
    return (hi < end ? hi : end) - lo;
}

/* The rows of x that a row of windows covers. */
struct rows {
    float *at[WINDOW];
    int32_t position[WINDOW]; /* of the row's first element in the window */
    int n;
};

static void rows_of(const struct pool_kernel *k, const int64_t *y, float *x,
                    struct rows *r)
{
    int64_t o[2], v[2];

    r->n = 0;
    for (int i = 0; i < 2; i++)
        o[i] = (k->y0[i] + y[i]) * k->q[i] - k->p[i] - k->x0[i];
    for (int64_t a = 0; a < k->k[0]; a++)
        for (int64_t b = 0; b < k->k[1]; b++) {
            v[0] = o[0] + a * k->e[0];
            v[1] = o[1] + b * k->e[1];
            if (v[0] < 0 || v[0] >= k->xn[0] || v[1] < 0 || v[1] >= k->xn[1])
                continue;
            r->at[r->n] = x + (v[0] * k->xn[1] + v[1]) * k->xn[2] * k->c;
            r->position[r->n++] = (int32_t)((a * k->k[1] + b) * k->k[2]);
        }
}

/* Floats that a sample is worked on in: shares, and a line; whole lines of a
 * cache. */
static int64_t own_scratch(const struct pool_kernel *k)
{
    return (k->yn[2] + k->xn[2] * k->c + 15) / 16 * 16;
}

static void one_row(const struct pool_kernel *k, const struct rows *r, float *y,
                    void *where, int64_t at, float *share)
{
    bool forward = k->call.pass == PDL_FORWARD;
    struct train_simd_pool p = {k->c,
                                k->xn[2],
                                k->yn[2],
                                k->k[2],
                                k->q[2],
                                k->e[2],
                                k->y0[2] * k->q[2] - k->p[2] - k->x0[2],
                                k->apart};
    uint8_t *w8 = where && k->narrow ? (uint8_t *)where + at : NULL;
    int32_t *w32 = where && !k->narrow ? (int32_t *)where + at : NULL;
    const float *const *rows = (const float *const *)r->at;
    float *line = share + k->yn[2];

    if (k->max && forward)
        train_simd_max_row(&p, rows, r->position, r->n, y + at, w8, w32);
    else if (k->max)
        train_simd_max_row_back(&p, r->at, r->position, r->n, y + at, w8, w32);
    else if (forward)
        train_simd_mean_row(&p, rows, r->n, share, line, y + at);
    else
        train_simd_mean_row_back(&p, r->at, r->n, share, line, y + at);
}

struct task {
    const struct pool_kernel *k;
    void *const *in, *const *out;
    float *scratch; /* of each sample its own */
};

static void some_samples(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct pool_kernel *k = t->k;
    bool forward = k->call.pass == PDL_FORWARD;
    int64_t image = k->xn[0] * k->xn[1] * k->xn[2] * k->c, y[2];
    int64_t at = from * k->yn[0] * k->yn[1] * k->yn[2] * k->c;
    int64_t shared = 0; /* the outer count that share is for */
    float *x = forward ? t->in[0] : t->out[0];
    float *py = forward ? t->out[0] : t->in[0];
    float *share = t->scratch + from * own_scratch(k);
    void *where = forward && k->op.aux_out >= 0 ? t->out[k->op.aux_out]
                  : !forward && k->op.aux >= 0  ? t->in[k->op.aux]
                                                : NULL;
    struct rows r;

    if (!forward && !k->covered)
        memset(x + from * image, 0,
               (size_t)((to - from) * image) * sizeof(float));
    for (int64_t n = from; n < to; n++)
        for (y[0] = 0; y[0] < k->yn[0]; y[0]++)
            for (y[1] = 0; y[1] < k->yn[1]; y[1]++) {
                int64_t outer = counted(k, 0, y[0]) * counted(k, 1, y[1]);

                for (int64_t i = 0; !k->max && outer != shared && i < k->yn[2];
                     i++)
                    share[i] = 1 / (float)(outer * counted(k, 2, i));
                shared = outer;
                rows_of(k, y, x + n * image, &r);
                one_row(k, &r, py, where, at, share);
                at += k->yn[2] * k->c;
            }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct pool_kernel *k = (const struct pool_kernel *)base;
    int64_t image = k->xn[0] * k->xn[1] * k->xn[2] * k->c;

    (void)when;
    (void)err;
    train_cpu_parallel(k->n, 1 + CPU_GRAIN / (image + 1), some_samples,
                       &(struct task){k, in, out, scratch});
    return PDL_OK;
}

static bool fits(const struct train_call *c, const struct train_operands *o)
{
    const struct pdl_attr *a = &c->node->attr;
    int64_t volume = 1;

    for (int i = 0; i < S; i++)
        volume *= or1(a->kernel[i]);
    if (volume > WINDOW)
        return false;
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *t =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        bool aux = i == o->aux || (o->aux_out >= 0 && i == c->nin + o->aux_out);

        if (t->layout || !t->channels_last ||
            t->dtype != (!aux           ? PDL_F32
                         : volume < 256 ? PDL_U8
                                        : PDL_I32))
            return false;
    }
    return true;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    struct train_operands o;
    struct train_call kept;
    struct pool_kernel *k;

    train_operands(c, &o);
    if (!fits(c, &o))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->op = o;
    k->max = pdl_op_id(c->node->op) == PDL_ID_MAX_POOL;
    if (k->max && !forward && o.aux < 0)
        return PDL_OK; /* the reference says what is missing */
    k->count_pad = c->node->attr.count_pad;
    k->narrow = (forward && o.aux_out >= 0 ? c->out[o.aux_out].dtype
                 : o.aux >= 0              ? c->in[o.aux].dtype
                                           : PDL_U8) == PDL_U8;
    geometry(k, forward ? &c->in[0] : &c->out[0],
             forward ? &c->out[0] : &c->in[0]);
    set_windows(k);
    k->base.implementation = "own";
    k->base.scratch_bytes = k->n * own_scratch(k) * (int64_t)sizeof(float);
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

/* ---- whole images ----------------------------------------------------- */

static void some_images(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct pool_kernel *k = t->k;
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    int64_t rows =
        k->n * k->c > 0 ? train_array_elements(x) / (k->n * k->c) : 0;
    float part = 1 / (float)(k->size[0] * k->size[1] * k->size[2]);

    for (int64_t n = from; n < to; n++) {
        float *y = (float *)(forward ? t->out[0] : t->in[0]) + n * k->c;
        float *px = (float *)(forward ? t->in[0] : t->out[0]) + n * rows * k->c;

        if (forward)
            train_simd_sum_rows(px, y, rows, k->c);
        for (int64_t c = 0; forward && c < k->c; c++)
            y[c] *= part;
        for (int64_t r = 0; !forward && r < rows; r++)
            for (int64_t c = 0; c < k->c; c++)
                px[r * k->c + c] = y[c] * part;
    }
}

static enum pdl_status
run_global(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct pool_kernel *k = (const struct pool_kernel *)base;
    const struct train_array *x =
        k->call.pass == PDL_FORWARD ? &k->call.in[0] : &k->call.out[0];
    int64_t each = k->n > 0 ? train_array_elements(x) / k->n : 1;

    (void)when;
    (void)err;
    train_cpu_parallel(k->n, 1 + CPU_GRAIN / (each + 1), some_images,
                       &(struct task){k, in, out, scratch});
    return PDL_OK;
}

static enum pdl_status make_global(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    struct train_call kept;
    struct pool_kernel *k;

    if (!train_cpu_plain(c) || !c->in[0].channels_last ||
        !c->out[0].channels_last)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    geometry(k, c->pass == PDL_FORWARD ? &c->in[0] : &c->out[0],
             c->pass == PDL_FORWARD ? &c->out[0] : &c->in[0]);
    k->base.implementation = "own";
    k->base.run = run_global;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"max_pool", make},
    {"avg_pool", make},
    {"global_avg_pool", make_global},
};

const struct cpu_ops train_cpu_pool = {rows, sizeof rows / sizeof rows[0]};
