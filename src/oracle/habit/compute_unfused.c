/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention that stores its scores, as transformers were trained before
 * FlashAttention (Shoeybi et al., Megatron-LM, 2019): two batched products
 * forward and four backward over all scores, the causal mask saves nothing
 * there; and kernels that stream the scores: a fused scale, mask and softmax
 * (3 bytes a score forward, 6 backward: what the mask hides is not read), and
 * dropout (5 each way: read, mask, write) with one more pass backward. These
 * kernels reach a bit more than half of the memory's rate (1.7 times the
 * bytes): fitted, settled with Megatron-LM's runs of 2021 and vTrain's in view;
 * no such kernel was timed. The bytes are counted.
 *
 * Eager PyTorch (T5 as transformers implements it) has a kernel for each step
 * instead: a bias added in place (8 bytes a score), a cast to 32 bits (6), the
 * softmax (8), a cast back (6); backward both casts (12), the softmax (12) and
 * the gradient of the bias (4). Counted, not profiled.
 *
 * In 32 bits there is no fused kernel (Megatron-LM, fused_softmax.py:
 * is_kernel_available asks for 16 bits; nor has eager PyTorch one): scaled (8
 * bytes a score), masked (9), the softmax (8) and dropout (9), each a pass of
 * its own; backward dropout (9), the softmax (12), the mask (9) and the scale
 * (8). Counted.
 *
 * Heads whose rows are not a multiple of 16 bytes fall out of the matrix units
 * where the library has no kernel for them (pe.kernels.unaligned_batched). */
#include "oracle/habit/habit.h"

#include <math.h>

/* Kernels that a framework brings, or FlashAttention 2, on a PE whose matrix
 * units have newer instructions than these know: what they leave of the rate is
 * a property of the PE (pe.kernels). Own kernels reach theirs with heads of any
 * size. */
void oracle_older_attention(const struct oracle *o, struct oracle_pe *pe)
{
    const struct pdl_framework *f = o->opt->framework;
    struct pdl_kernels *k = &pe->k;
    double old = k->attention_older > 0 ? k->attention_older : 1;

    if (f && f->attention_forward > 0) {
        k->attention_forward = f->attention_forward * old;
        k->attention_backward = f->attention_backward * old;
        pe->any_head = true;
    } else if (f && f->flash2 && k->flash2_forward > 0) {
        k->attention_forward = fmin(k->attention_forward, k->flash2_forward);
        k->attention_backward = fmin(k->attention_backward, k->flash2_backward);
    }
}

static const double SLOW = 1.7;
enum { STEPS = 28, STEPS_BACK = 28 };
enum { WIDE = 25, WIDE_BACK = 29, WIDE_DROPOUT = 9 };
enum { SOFTMAX = 3, SOFTMAX_BACK = 6, DROPOUT = 5, COPY_BACK = 2 };

double oracle_score_bytes(const struct oracle *o)
{
    return o->opt->dropout > 0 ? 5 : 2;
}

double oracle_products(const struct oracle_pe *pe, double batch, double m,
                       double n, double k, double rate)
{
    double w = pe->item_bytes;
    struct oracle_gemm g = {
        .m = m * batch,
        .n = n,
        .k = k,
        .rate = rate,
        .batch = 1,
        .units = pe->units,
        .bytes_per_s = pe->bytes_per_s,
        .fill = pe->k.tile_fill,
        .tile_s = pe->k.matmul_tile_s,
        .epilogue = pe->k.matmul_epilogue,
        .in_bytes = w * batch * (m * k + k * n),
        .out_bytes = w * batch * m * n,
        .flat = pe->flat,
    };

    return pe->launch_s + oracle_gemm_seconds(&g);
}

/* Bytes of a score that pass through kernels between the products. */
static double streams(const struct oracle *o, bool back)
{
    const struct pdl_framework *f = o->opt->framework;
    bool drop = o->opt->dropout > 0, graph = f && f->graph;

    if (o->pe16.item_bytes > 2 && !graph) /* which counts its own */
        return (back ? WIDE_BACK : WIDE) + (drop ? WIDE_DROPOUT : 0);
    if (oracle_is_eager(o))
        return back ? STEPS_BACK : STEPS;
    return SLOW * (back ? SOFTMAX_BACK + (drop ? DROPOUT + COPY_BACK : 0)
                        : SOFTMAX + (drop ? DROPOUT : 0));
}

double oracle_unfused(const struct oracle *o, const struct pdl_shape *s)
{
    const struct oracle_pe *pe = &o->pe16;
    bool back = s->pass != PDL_FORWARD, drop = o->opt->dropout > 0;
    bool aligned = fmod((double)s->c * pe->item_bytes, 16) == 0;
    double d = (double)s->c, q = (double)s->in[0], k = (double)s->out[0];
    double batch = (double)s->n * (double)s->groups, scores = batch * q * k;
    double rate = aligned                       ? pe->rate
                  : pe->k.unaligned_batched > 0 ? pe->k.unaligned_batched
                                                : pe->rate * .39;

    if (!(scores > 0 && d > 0))
        return 0;
    return (back ? 2 : 1) * (oracle_products(pe, batch, q, k, d, rate) +
                             oracle_products(pe, batch, q, d, k, rate)) +
           (drop ? 2 : 1) * pe->launch_s +
           streams(o, back) * scores / pe->bytes_per_s;
}
