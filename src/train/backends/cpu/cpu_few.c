/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of few channels by our own kernels (simd_conv*.c), and the
 * gradients of 1 x 1 weights, and of their few inputs, as the matrix products
 * they are: oneDNN's convolution takes up to five times as long where channels
 * are few. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

struct few_kernel {
    struct train_kernel base;
    struct train_simd_conv s;
    enum cpu_conv_pass pass;
    struct cpu_few_operands at;
    int nin;
    int64_t packed; /* float32s */
};

static void *pointer(const struct few_kernel *k, int i, void *const *in,
                     void *const *out)
{
    return i < 0 ? NULL : i < k->nin ? in[i] : out[i - k->nin];
}

static bool is_one(const struct few_kernel *k)
{
    return k->pass == CPU_GATHER && k->s.cf == 1 && k->s.q == 1 && k->s.cc <= 8;
}

static void run_forward(const struct few_kernel *k, const float *x,
                        const float *w, const float *bias, float *y,
                        float *scratch)
{
    if (is_one(k)) {
        train_simd_conv_one(&k->s, x, w, bias, y, scratch);
        return;
    }
    train_simd_conv_pack(&k->s, w, scratch);
    train_simd_conv(&k->s, x, scratch, bias, y, scratch + k->packed);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct few_kernel *k = (const struct few_kernel *)base;
    float *fine = pointer(k, k->at.fine, in, out);
    float *coarse = pointer(k, k->at.coarse, in, out);
    float *w = pointer(k, k->at.w, in, out);
    float *bias = pointer(k, k->at.bias, in, out);
    float *packed = scratch;

    (void)when;
    (void)err;
    if (k->pass == CPU_GATHER) {
        run_forward(k, fine, w, bias, coarse, scratch);
    } else if (k->pass == CPU_WEIGHTS) {
        train_simd_conv_weights(&k->s, fine, coarse, w, scratch);
        if (bias)
            train_simd_sum_rows(coarse, bias, k->s.n * k->s.oh * k->s.ow,
                                k->s.cc);
    } else {
        train_simd_conv_back_pack(&k->s, w, packed);
        train_simd_conv_back(&k->s, coarse, packed, fine, packed + k->packed);
    }
    return PDL_OK;
}

static bool shape(const struct cpu_conv *c, struct train_simd_conv *s)
{
    if (c->ns != 2 || c->groups != 1 || c->dtype != PDL_F32 ||
        c->w_dtype != PDL_F32 || !c->fine_last || !c->coarse_last ||
        c->e[0] != 1 || c->e[1] != 1 || c->q[0] != c->q[1])
        return false;
    *s = (struct train_simd_conv){
        .n = c->n,
        .h = c->fine[0],
        .w = c->fine[1],
        .cf = c->cf,
        .oh = c->coarse[0],
        .ow = c->coarse[1],
        .cc = c->cc,
        .kh = c->k[0],
        .kw = c->k[1],
        .q = c->q[0],
        .top = c->lo[0],
        .left = c->lo[1],
    };
    s->ph = (s->oh - 1) * s->q + s->kh;
    s->pw = (s->ow - 1) * s->q + s->kw;
    return s->top >= 0 && s->left >= 0 && s->left <= s->pw;
}

/* Where it is the faster one, by measurement: one input channel or so, or few
 * outputs. */
static bool is_few(const struct cpu_conv *c)
{
    return c->pass == CPU_SCATTER ? c->q[0] == 1 && c->cf <= 8 && c->cc <= 16
                                  : c->cf <= 2 && c->cc <= 16;
}

static void set_scratch(struct few_kernel *k)
{
    const struct train_simd_conv *s = &k->s;
    int64_t rest;

    if (k->pass == CPU_SCATTER) {
        k->packed = train_simd_conv_back_packed(s);
        rest = train_simd_conv_back_scratch(s);
    } else if (is_one(k)) {
        rest = train_simd_conv_one_scratch(s);
    } else {
        if (k->pass == CPU_GATHER)
            k->packed = s->kh * s->kw * s->cf * train_simd_conv_lanes(s);
        rest = train_simd_conv_scratch(s);
    }
    k->base.scratch_bytes = 4 * (k->packed + rest);
}

/* ---- 1 x 1 ------------------------------------------------------------ */

struct product_kernel {
    struct train_kernel base;
    int fine, coarse, w; /* inputs */
    int64_t pixels, cf, cc;
    bool turned, bias;
};

static enum pdl_status run_data(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct product_kernel *k = (const struct product_kernel *)base;
    struct cpu_gemm g = {.m = k->pixels,
                         .n = k->cf,
                         .k = k->cc,
                         .lda = k->cc,
                         .ldb = k->cf,
                         .ldc = k->cf,
                         .alpha = 1};

    (void)scratch;
    (void)when;
    return train_dnnl_gemm(&g, in[k->coarse], in[k->w], out[0], err);
}

/* The side of fewer channels is the left one, of a part that of the whole: it
 * has the same bits. */
static enum pdl_status
run_product(const struct train_kernel *base, void *const *in, void *const *out,
            void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct product_kernel *k = (const struct product_kernel *)base;
    bool turned = k->turned;
    int64_t m = turned ? k->cf : k->cc, n = turned ? k->cc : k->cf;
    struct cpu_gemm g = {true, false, false, m, n, k->pixels, m, n, n, 1};
    const float *fine = in[k->fine], *coarse = in[k->coarse], *to = scratch;
    float *w = out[0];
    enum pdl_status st =
        train_dnnl_gemm(&g, turned ? fine : coarse, turned ? coarse : fine,
                        turned ? scratch : w, err);

    (void)when;
    for (int64_t c = 0; turned && c < k->cc; c++)
        for (int64_t f = 0; f < k->cf; f++)
            w[c * k->cf + f] = to[f * k->cc + c];
    if (k->bias)
        train_simd_sum_rows(coarse, out[1], k->pixels, k->cc);
    return st;
}

/* Backward to fewer channels than a vector has oneDNN's kernel reads dy again
 * for every one of them: 96 to 8 channels of 112 x 112 pixels took 10 ms, to 16
 * 1.8, and this product 2.3. */
static bool is_product(const struct cpu_conv *c)
{
    enum { VECTOR = 16 };
    bool few = c->pass == CPU_SCATTER && c->cf < VECTOR;
    bool one = (c->pass == CPU_WEIGHTS || few) && c->groups == 1 &&
               c->dtype == PDL_F32 && c->w_dtype == PDL_F32 && c->fine_last &&
               c->coarse_last;

    for (int i = 0; i < c->ns; i++)
        one = one && c->k[i] == 1 && c->q[i] == 1 && c->lo[i] == 0 &&
              c->hi[i] == 0;
    return one;
}

static enum pdl_status make_product(struct cpu_state *s,
                                    const struct cpu_conv *c,
                                    const struct cpu_few_operands *at,
                                    struct train_kernel **out,
                                    struct pdl_err *err)
{
    struct product_kernel *k = PDL_NEW(s->arena, struct product_kernel, 1);

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *k = (struct product_kernel){.fine = at->fine,
                                 .coarse = at->coarse,
                                 .w = at->w,
                                 .pixels = c->n,
                                 .cf = c->cf,
                                 .cc = c->cc,
                                 .turned = c->fine_few,
                                 .bias = at->bias >= 0};
    for (int i = 0; i < c->ns; i++)
        k->pixels *= c->coarse[i];
    if (k->turned && c->pass == CPU_WEIGHTS)
        k->base.scratch_bytes = 4 * k->cc * k->cf;
    k->base.implementation = "sgemm";
    k->base.run = c->pass == CPU_WEIGHTS ? run_product : run_data;
    *out = &k->base;
    return PDL_OK;
}

enum pdl_status train_cpu_few(struct cpu_state *s, const struct cpu_conv *c,
                              const struct cpu_few_operands *at, int nin,
                              struct train_kernel **out, struct pdl_err *err)
{
    struct train_simd_conv conv;
    struct few_kernel *k;

    if (c->pass == CPU_WEIGHTS && is_product(c))
        return make_product(s, c, at, out, err);
    if (!shape(c, &conv) || !is_few(c))
        return is_product(c) ? make_product(s, c, at, out, err) : PDL_OK;
    k = PDL_NEW(s->arena, struct few_kernel, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->s = conv;
    k->pass = c->pass;
    k->at = *at;
    k->nin = nin;
    set_scratch(k);
    k->base.implementation = "own";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}
