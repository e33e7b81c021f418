/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of few channels by our own kernel (simd_conv.c). */
#include "cpu.h"
#include "simd.h"

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

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct few_kernel *k = (const struct few_kernel *)base;
    float *fine = pointer(k, k->at.fine, in, out);
    float *coarse = pointer(k, k->at.coarse, in, out);
    float *w = pointer(k, k->at.w, in, out);
    float *bias = pointer(k, k->at.bias, in, out);
    float *packed = scratch, *rest = packed + k->packed;

    (void)when;
    (void)err;
    if (k->pass == CPU_WEIGHTS) {
        train_simd_conv_weights(&k->s, fine, coarse, w, rest);
        if (bias)
            train_simd_sum_rows(coarse, bias, k->s.n * k->s.oh * k->s.ow,
                                k->s.cc);
        return PDL_OK;
    }
    train_simd_conv_pack(&k->s, w, k->pass == CPU_SCATTER, packed);
    if (k->pass == CPU_GATHER)
        train_simd_conv(&k->s, fine, packed, bias, coarse, rest);
    else
        train_simd_conv(&k->s, coarse, packed, NULL, fine, rest);
    return PDL_OK;
}

/* The convolution that the pass is: backward-data of stride 1 goes from the
 * coarse side, padded by what is left of the kernel. */
static bool shape(const struct cpu_conv *c, struct train_simd_conv *s)
{
    bool turned = c->pass == CPU_SCATTER;
    const int64_t *from = turned ? c->coarse : c->fine;
    const int64_t *to = turned ? c->fine : c->coarse;

    if (c->ns != 2 || c->groups != 1 || c->dtype != PDL_F32 ||
        c->w_dtype != PDL_F32 || !c->fine_last || !c->coarse_last ||
        c->e[0] != 1 || c->e[1] != 1 || c->q[0] != c->q[1] ||
        (turned && c->q[0] != 1))
        return false;
    *s = (struct train_simd_conv){
        .n = c->n,
        .h = from[0],
        .w = from[1],
        .cf = turned ? c->cc : c->cf,
        .oh = to[0],
        .ow = to[1],
        .cc = turned ? c->cf : c->cc,
        .kh = c->k[0],
        .kw = c->k[1],
        .q = c->q[0],
        .top = turned ? c->k[0] - 1 - c->lo[0] : c->lo[0],
        .left = turned ? c->k[1] - 1 - c->lo[1] : c->lo[1],
    };
    s->ph = (s->oh - 1) * s->q + s->kh;
    s->pw = (s->ow - 1) * s->q + s->kw;
    return s->top >= 0 && s->left >= 0 && s->left <= s->pw;
}

/* Where it is the faster one, by measurement: one input channel or so, or few
 * outputs. */
static bool is_few(const struct cpu_conv *c, const struct train_simd_conv *s)
{
    return c->pass == CPU_SCATTER ? s->cc <= 8 && s->cf <= 16
                                  : s->cf <= 2 && s->cc <= 16;
}

enum pdl_status train_cpu_few(struct cpu_state *s, const struct cpu_conv *c,
                              const struct cpu_few_operands *at, int nin,
                              struct train_kernel **out, struct pdl_err *err)
{
    struct train_simd_conv conv;
    struct few_kernel *k;

    if (!shape(c, &conv) || !is_few(c, &conv))
        return PDL_OK;
    k = PDL_NEW(s->arena, struct few_kernel, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->s = conv;
    k->pass = c->pass;
    k->at = *at;
    k->nin = nin;
    k->packed = conv.kh * conv.kw * conv.cf * train_simd_conv_lanes(&conv);
    k->base.scratch_bytes = 4 * (k->packed + train_simd_conv_scratch(&conv));
    k->base.implementation = "own";
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}
