/* SPDX-License-Identifier: Apache-2.0
 *
 * The rates of a PE at a precision, and the kernel of a shape. */
#include "oracle/kernel/kernel.h"

#include <string.h>

/* Used where the system gives no measured value. */
static const double GUESS_MATMUL = 0.7, GUESS_MEMORY = 0.8;
static const double GUESS_LAUNCH_S = 5e-6;
static const double GUESS_CONV = 1, GUESS_CONV_WEIGHTS_TF32 = .6;

static double or_guess(double x, double guess)
{
    return x > 0 ? x : guess;
}

static double peak_of(const struct pdl_pe *pe, enum pdl_precision p)
{
    return pe->peak_flop_per_s[p] > 0 ? pe->peak_flop_per_s[p]
                                      : pe->peak_flop_per_s[PDL_PREC_FP32];
}

void oracle_pe_settle(const struct pdl_pe *pe, enum pdl_precision p,
                      struct oracle_pe *out)
{
    struct pdl_kernels k = pe->kernels;
    double bytes = pdl_precision_bytes(p);
    double conv = or_guess(k.conv_forward[p], GUESS_CONV);

    k.conv_tile_s = or_guess(k.conv_tile_s, 2.4e-6);
    k.matmul_tile_s = or_guess(k.matmul_tile_s, .5e-6);
    k.conv_epilogue = or_guess(k.conv_epilogue, .14);
    k.matmul_epilogue = or_guess(k.matmul_epilogue, .63);
    k.tile_fill = or_guess(k.tile_fill, .5);
    k.vector_tile = or_guess(k.vector_tile, 128);
    k.pad_cost = or_guess(k.pad_cost, 4);
    k.attention_forward = or_guess(k.attention_forward, .65);
    k.attention_backward = or_guess(k.attention_backward, .57);
    *out = (struct oracle_pe){
        .peak = peak_of(pe, p),
        .rate =
            or_guess(pe->matmul_flop_per_s[p], peak_of(pe, p) * GUESS_MATMUL),
        .vector_rate =
            or_guess(pe->peak_flop_per_s[PDL_PREC_FP32], peak_of(pe, p)),
        .bytes_per_s = pe->memory_bytes_per_s *
                       (pe->memory_efficiency > 0 && pe->memory_efficiency < 1
                            ? pe->memory_efficiency
                            : GUESS_MEMORY),
        .item_bytes = bytes < 1 ? 1 : bytes,
        .units = pe->units > 0 ? (double)pe->units : 1,
        .launch_s = or_guess(pe->launch_s, GUESS_LAUNCH_S),
        .conv = {conv, or_guess(k.conv_data[p], conv),
                 or_guess(k.conv_weights[p],
                          p == PDL_PREC_TF32 ? GUESS_CONV_WEIGHTS_TF32 : conv)},
        .batch_norm_forward = or_guess(k.batch_norm_forward[p], 1),
        .batch_norm_backward = or_guess(k.batch_norm_backward[p], 1),
        .layer_norm_forward = or_guess(k.layer_norm_forward[p], 1),
        .l2_bytes = (double)pe->l2_bytes,
        .clock_hz = pe->clock_hz,
        .vector = p == PDL_PREC_FP32 || p == PDL_PREC_FP64,
        .core = pe->arch && strcmp(pe->arch, "cpu") == 0,
        .k = k,
    };
}

double oracle_shape(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    switch (s->kind) {
    case PDL_SHAPE_MATMUL:
        return oracle_matmul(pe, s);
    case PDL_SHAPE_CONV:
        return oracle_conv(pe, s);
    case PDL_SHAPE_ATTENTION:
        return oracle_attention(pe, s);
    case PDL_SHAPE_BATCH_NORM:
    case PDL_SHAPE_LAYER_NORM:
        return oracle_norm(pe, s);
    case PDL_SHAPE_STREAM:
        break;
    }
    return s->bytes > 0 ? pe->launch_s + oracle_stream(pe, s->bytes) : 0;
}

double pdl_shape_seconds(const struct pdl_pe *pe, const struct pdl_shape *s)
{
    struct oracle_pe r;

    oracle_pe_settle(pe, s->precision, &r);
    return oracle_shape(&r, s);
}
