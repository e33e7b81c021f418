/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions: from boxes to the sizes and paddings of the part at hand. The
 * border of a part that is not the border of the image has no padding but a
 * halo; a fine side that reaches beyond what the coarse side meets (a stride
 * wider than the kernel) is trimmed, which oneDNN cannot say. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

struct conv_kernel {
    struct train_kernel base;
    struct train_call call;
    struct cpu_conv_plan *plan;     /* NULL: nothing to compute, only zeros */
    int fine, coarse, w, bias;      /* operand numbers: inputs, then outputs */
    bool add_bias, sum_bias;        /* of a transposed convolution */
    bool trimmed, turned;           /* the fine side, the weights: in scratch */
    int64_t trim_bytes;             /* of either */
    struct train_array fine_, trim; /* as stored, as computed on */
};

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

static const struct train_array *operand(const struct train_call *c, int i)
{
    return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

static int64_t pixels(const struct train_array *a)
{
    int64_t c = extent(a, 1);

    return c > 0 ? train_array_elements(a) / c : 0;
}

static bool is_transposed(const struct train_call *c)
{
    return pdl_op_id(c->node->op) == PDL_ID_CONV_TRANSPOSE;
}

/* Which operand is which side, and which sum the pass is. */
static enum cpu_conv_pass sides(const struct train_call *c,
                                struct conv_kernel *k)
{
    bool swap = is_transposed(c);
    int first = c->nin; /* number of the first output */

    k->bias = -1;
    if (c->pass == PDL_FORWARD) {
        k->fine = swap ? first : 0;
        k->coarse = swap ? 0 : first;
        k->w = 1;
        k->bias = c->nin > 2 ? 2 : -1;
        k->add_bias = swap && k->bias >= 0;
        return swap ? CPU_SCATTER : CPU_GATHER;
    }
    if (c->pass == PDL_BACKWARD_DATA) {
        k->fine = swap ? 0 : first;
        k->coarse = swap ? first : 0;
        k->w = 1;
        return swap ? CPU_GATHER : CPU_SCATTER;
    }
    k->fine = swap ? 1 : 0;
    k->coarse = swap ? 0 : 1;
    k->w = first;
    k->bias = c->nout > 1 ? first + 1 : -1;
    k->sum_bias = swap && k->bias >= 0;
    return CPU_WEIGHTS;
}

/* Channels of both sides are those the weight's part has. */
static bool set_channels(const struct train_call *c,
                         const struct conv_kernel *k, struct cpu_conv *s)
{
    const struct train_array *f = operand(c, k->fine),
                             *o = operand(c, k->coarse), *w = operand(c, k->w);
    const struct pdl_tensor *t = c->model->tensors;
    bool swap = is_transposed(c);
    int64_t g = or1(c->node->attr.groups);
    int64_t cf = t[swap ? c->node->out[0] : c->node->in[0]].dim[0] / g;
    int64_t cc = t[swap ? c->node->in[0] : c->node->out[0]].dim[0] / g;

    s->cf = extent(f, 1);
    s->cc = extent(o, 1);
    s->fine_few = cf < cc;
    s->groups = g > 1 ? s->cc / cc : 1;
    if (w->box.lo[0] != o->box.lo[1] || w->box.hi[0] != o->box.hi[1])
        return false;
    if (g > 1)
        return extent(w, 1) == cf && s->cc % cc == 0 &&
               f->box.lo[1] == o->box.lo[1] / cc * cf &&
               s->cf == s->groups * cf;
    return w->box.lo[1] == f->box.lo[1] && w->box.hi[1] == f->box.hi[1];
}

/* Sizes and paddings; the fine side without what nothing meets. */
static void set_space(const struct train_call *c, struct conv_kernel *k,
                      struct cpu_conv *s)
{
    const struct pdl_attr *a = &c->node->attr;
    const struct train_array *o = operand(c, k->coarse);

    k->fine_ = k->trim = *operand(c, k->fine);
    s->ns = o->box.ndims - 2;
    s->n = extent(o, 0);
    for (int i = 0; i < s->ns; i++) {
        int d = i + 2;
        int64_t *lo = &k->trim.box.lo[d], *hi = &k->trim.box.hi[d];
        int64_t q = or1(a->stride[i]), e = or1(a->dilation[i]);
        int64_t first = o->box.lo[d] * q - a->pad[i];
        int64_t last =
            (o->box.hi[d] - 1) * q - a->pad[i] + (a->kernel[i] - 1) * e + 1;

        *lo = *lo < first ? first : *lo;
        *hi = *hi - q >= last ? last : *hi;
        s->k[i] = a->kernel[i];
        s->q[i] = q;
        s->e[i] = e;
        s->coarse[i] = extent(o, d);
        s->fine[i] = *hi - *lo;
        s->lo[i] = *lo - first;
        s->hi[i] = last - *hi;
        k->trimmed = k->trimmed || *lo != k->fine_.box.lo[d] ||
                     *hi != k->fine_.box.hi[d];
    }
}

/* 3x3, stride 1, and result tiles of 4 that lie as those of the whole do, so
 * that a part has the same bits. Backward-data of oneDNN 2.6 is wrong where the
 * paddings of the two sides differ. */
static bool may_use_winograd(const struct train_call *c,
                             const struct conv_kernel *k,
                             const struct cpu_conv *s)
{
    const struct pdl_tensor *t = c->model->tensors;
    bool swap = is_transposed(c);
    int y = s->pass == CPU_SCATTER ? k->fine : k->coarse;
    const struct pdl_tensor *yt =
        &t[(s->pass == CPU_SCATTER) != swap ? c->node->in[0] : c->node->out[0]];

    if (s->ns != 2 || s->groups != 1 || s->dtype != PDL_F32 ||
        s->cf < PDL_KEY_WIDE || s->cc < PDL_KEY_WIDE)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct pdl_box *b = &operand(c, y)->box;

        if (s->k[i] != 3 || s->q[i] != 1 || s->e[i] != 1 || s->lo[i] > 1 ||
            s->hi[i] > 1 || (s->pass == CPU_SCATTER && s->lo[i] != s->hi[i]))
            return false;
        if (s->pass != CPU_WEIGHTS &&
            (b->lo[i + 2] % 4 ||
             (b->hi[i + 2] % 4 && b->hi[i + 2] != yt->dim[i + 1])))
            return false;
    }
    return true;
}

/* Backward to a part whose neighbours gave a halo: oneDNN's Winograd knows no
 * padding of 2. With stride 1 it is the forward sum of the gradient with the
 * weights turned by half a turn, whose padding is 2 less that of the other. */
static bool may_turn(const struct train_call *c, const struct conv_kernel *k,
                     const struct cpu_conv *s)
{
    struct cpu_conv x = *s;
    bool halo = false;

    if (s->pass != CPU_SCATTER || k->trimmed || k->add_bias || k->sum_bias)
        return false;
    for (int i = 0; i < s->ns; i++) {
        halo = halo || s->lo[i] == 2 || s->hi[i] == 2;
        if (s->k[i] != 3 || s->lo[i] < 1 || s->hi[i] < 1 || s->lo[i] > 2 ||
            s->hi[i] > 2)
            return false;
        x.lo[i] = x.hi[i] = 1;
    }
    return halo && may_use_winograd(c, k, &x);
}

static void turn(const struct train_call *c, struct conv_kernel *k,
                 struct cpu_conv *s)
{
    const struct cpu_conv was = *s;

    for (int i = 0; i < s->ns; i++) {
        s->fine[i] = was.coarse[i];
        s->coarse[i] = was.fine[i];
        s->lo[i] = s->k[i] - 1 - was.lo[i];
        s->hi[i] = s->k[i] - 1 - was.hi[i];
    }
    s->pass = CPU_GATHER;
    s->cf = was.cc;
    s->cc = was.cf;
    s->fine_last = was.coarse_last;
    s->coarse_last = was.fine_last;
    s->winograd = k->turned = true;
    k->trim_bytes = (train_array_bytes(operand(c, k->w)) + 63) / 64 * 64;
}

/* Filters and channels change places, taps are last first; of a few filters
 * at a time, so that what is written is whole lines of the cache. */
static void turn_weights(const struct train_array *w, const float *from,
                         float *to)
{
    int64_t taps = extent(w, 2) * extent(w, 3);
    int64_t nf = extent(w, 0), nc = extent(w, 1), few = 16;

    for (int64_t first = 0; first < nf; first += few)
        for (int64_t c = 0; c < nc; c++)
            for (int64_t f = first; f < nf && f < first + few; f++)
                for (int64_t i = 0; i < taps; i++)
                    to[(c * nf + f) * taps + i] =
                        from[(f * nc + c) * taps + taps - 1 - i];
}

/* ---- running ---------------------------------------------------------- */

static void zero(const struct train_array *a, void *p)
{
    int64_t n = train_array_bytes(a);

    if (n > 0)
        memset(p, 0, (size_t)n);
}

static void *pointer(const struct conv_kernel *k, int i, void *const *in,
                     void *const *out)
{
    return i < 0 ? NULL : i < k->call.nin ? in[i] : out[i - k->call.nin];
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct conv_kernel *k = (const struct conv_kernel *)base;
    void *fine = pointer(k, k->fine, in, out), *used = fine;
    bool made = k->fine >= k->call.nin; /* the fine side is the result */
    const struct train_array *f = &k->fine_;
    enum pdl_status st = PDL_OK;

    (void)when;
    if (k->turned) {
        turn_weights(operand(&k->call, k->w), in[k->w], scratch);
        return train_dnnl_conv_run(k->plan, in[k->coarse], scratch, NULL, fine,
                                   (char *)scratch + k->trim_bytes, err);
    }
    if (!k->plan || (made && k->trimmed))
        zero(&k->call.out[0], out[0]);
    if (!k->plan && k->call.nout > 1)
        zero(&k->call.out[1], out[1]);
    if (k->trimmed) {
        used = scratch;
        if (!made)
            train_cpu_copy_common(f, fine, &k->trim, used);
    }
    if (k->plan)
        st = train_dnnl_conv_run(
            k->plan, used, pointer(k, k->w, in, out),
            k->add_bias || k->sum_bias ? NULL : pointer(k, k->bias, in, out),
            pointer(k, k->coarse, in, out), (char *)scratch + k->trim_bytes,
            err);
    if (k->trimmed && made)
        train_cpu_copy_common(&k->trim, used, f, fine);
    if (k->add_bias)
        train_simd_add_bias(fine, in[k->bias], fine, pixels(f), extent(f, 1));
    if (k->sum_bias && k->plan)
        train_simd_sum_rows(fine, out[1], pixels(f), extent(f, 1));
    return st;
}

/* ---- a bias after a partial sum --------------------------------------- */

static enum pdl_status run_bias(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct conv_kernel *k = (const struct conv_kernel *)base;
    const struct train_array *y = &k->call.out[0];

    (void)scratch;
    (void)when;
    (void)err;
    train_simd_add_bias(in[0], in[1], out[0], pixels(y), extent(y, 1));
    return PDL_OK;
}

/* ---- making ----------------------------------------------------------- */

static bool types_fit(const struct train_call *c)
{
    enum pdl_dtype x = c->in[0].dtype;

    if (x != PDL_F32 && x != PDL_BF16)
        return false;
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a = operand(c, i);
        bool weight = c->pass == PDL_BACKWARD_WEIGHTS ? i >= c->nin
                                                      : i >= 1 && i < c->nin;

        if (a->layout != 0 ||
            (a->dtype != x && !(weight && a->dtype == PDL_F32)))
            return false;
    }
    return true;
}

/* Of one channel a group oneDNN has kernels in bfloat16 for some windows only;
 * the others it runs as 16 channels a group, fifteen of them zeros. In float32
 * it has all of them. */
static bool is_padded(const struct cpu_conv *c, const struct cpu_conv_plan *p)
{
    return c->dtype == PDL_BF16 && c->groups > 1 && c->groups == c->cf &&
           c->groups == c->cc && !strstr(train_dnnl_conv_name(p), "_dw");
}

static enum pdl_status make_bias(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    struct train_call kept;
    struct conv_kernel *k;
    bool same = c->in[1].box.lo[0] == c->out[0].box.lo[1] &&
                c->in[1].box.hi[0] == c->out[0].box.hi[1];

    if (!train_cpu_plain(c) || !c->out[0].channels_last || !same)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->base.implementation = "own";
    k->base.run = run_bias;
    *out = &k->base;
    return PDL_OK;
}

static bool nothing_to_do(const struct train_call *c,
                          const struct conv_kernel *k, const struct cpu_conv *s)
{
    if (pdl_box_empty(&operand(c, k->fine)->box) ||
        pdl_box_empty(&operand(c, k->coarse)->box) ||
        pdl_box_empty(&operand(c, k->w)->box))
        return true;
    for (int i = 0; i < s->ns; i++)
        if (s->fine[i] <= 0 || s->coarse[i] <= 0)
            return true;
    return false;
}

static void settings(const struct train_call *c, const struct conv_kernel *k,
                     struct cpu_conv *s)
{
    s->bias = k->bias >= 0 && !k->add_bias && !k->sum_bias;
    s->fine_last = operand(c, k->fine)->channels_last;
    s->coarse_last = operand(c, k->coarse)->channels_last;
    s->dtype = operand(c, k->fine)->dtype;
    s->w_dtype = operand(c, k->w)->dtype;
    s->winograd = may_use_winograd(c, k, s);
}

static enum pdl_status finish(struct conv_kernel *k, struct train_kernel **out)
{
    if (k->trimmed)
        k->trim_bytes = (train_array_bytes(&k->trim) + 63) / 64 * 64;
    k->base.scratch_bytes =
        k->trim_bytes + (k->plan ? train_dnnl_conv_scratch(k->plan) : 0);
    k->base.implementation = k->plan ? train_dnnl_conv_name(k->plan) : "zero";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct cpu_conv conv = {.ns = 0};
    struct train_call kept;
    struct conv_kernel *k;
    enum pdl_status st;

    if (c->pass == PDL_FORWARD && c->part == 1)
        return make_bias(s, c, out, err);
    if (!types_fit(c))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    conv.pass = sides(c, k);
    set_space(c, k, &conv);
    if (nothing_to_do(c, k, &conv)) {
        /* where a bias is left to do the reference does it */
        if (k->bias >= 0)
            return PDL_OK;
        k->trimmed = k->add_bias = k->sum_bias = false;
        return finish(k, out);
    }
    if (!set_channels(c, k, &conv))
        return PDL_OK;
    settings(c, k, &conv);
    if ((k->trimmed || k->add_bias || k->sum_bias) &&
        (!conv.fine_last || conv.dtype != PDL_F32))
        return PDL_OK;
    if (!k->trimmed && !k->add_bias && !k->sum_bias) {
        struct cpu_few_operands at = {k->fine, k->coarse, k->w, k->bias};

        st = train_cpu_few(s, &conv, &at, c->nin, out, err);
        if (st != PDL_OK || *out)
            return st;
    }
    if (may_turn(c, k, &conv))
        turn(c, k, &conv);
    st = train_dnnl_conv(s->dnnl, &conv, &k->plan, err);
    if (st != PDL_OK || !k->plan || is_padded(&conv, k->plan))
        return st;
    return finish(k, out);
}

static const struct cpu_op rows[] = {
    {"conv", make},
    {"conv_transpose", make},
};

const struct cpu_ops train_cpu_conv = {rows, sizeof rows / sizeof rows[0]};
