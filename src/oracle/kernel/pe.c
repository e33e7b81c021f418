/* SPDX-License-Identifier: Apache-2.0
 *
 * The rates of a PE at a precision, and the kernel of a shape. */
#include "oracle/kernel/kernel.h"

#include <string.h>

/* Numbers that stand in where the system gives none, and where from. */
#define VGG "fitted(VGG-16's layers on an H200)"
#define MATMUL \
    "part of the form that was chosen by leaving one of them out at a time"
#define AT(member) offsetof(struct pdl_kernels, member)
// clang-format off
static const struct default_number {
    const char *name;
    enum pdl_unit unit;
    size_t at; /* into struct pdl_kernels */
    double value;
    const char *kind, *source;
} kernels[] = {
    {"pe.kernels.conv_tile", PDL_UNIT_SECONDS, AT(conv_tile_s), 2.4e-6, VGG, "as h200, systems/pe/h200.yaml"},
    {"pe.kernels.matmul_tile", PDL_UNIT_SECONDS, AT(matmul_tile_s), .5e-6, VGG, MATMUL},
    {"pe.kernels.conv_epilogue", PDL_UNIT_NONE, AT(conv_epilogue), .14, VGG, "as h200, systems/pe/h200.yaml"},
    {"pe.kernels.matmul_epilogue", PDL_UNIT_NONE, AT(matmul_epilogue), .63, VGG, MATMUL},
    {"pe.kernels.tile_fill", PDL_UNIT_NONE, AT(tile_fill), .5, VGG, MATMUL},
    {"pe.kernels.vector_tile", PDL_UNIT_NONE, AT(vector_tile), 128, "fitted(VGG-16 on ABCI)", "chosen by tools/select-form.py"},
    {"pe.kernels.pad_cost", PDL_UNIT_NONE, AT(pad_cost), 4, VGG, "as h200, systems/pe/h200.yaml"},
    {"pe.kernels.attention_forward", PDL_UNIT_NONE, AT(attention_forward), .65, "profiled", "25 shapes on an H200, tests/data/oracle/kernels.json"},
    {"pe.kernels.attention_backward", PDL_UNIT_NONE, AT(attention_backward), .57, "profiled", "25 shapes on an H200, tests/data/oracle/kernels.json"},
};
// clang-format on
#undef AT
enum { NKERNELS = sizeof kernels / sizeof kernels[0] };

/* Of the peak and of the memory's rate; a launch; of a product's rate. */
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

bool oracle_is_narrow(enum pdl_precision p)
{
    return p == PDL_PREC_FP8 || p == PDL_PREC_FP4;
}

/* Rows that the runtime made of itself; those of groups have a + in the
 * name. */
static bool has_rows(const struct pdl_pe *pe, bool groups)
{
    for (int64_t i = 0; i < pe->nprofile; i++)
        if (strncmp(pe->profile[i].op, "run.", 4) == 0 &&
            (!groups || strchr(pe->profile[i].op, '+')))
            return true;
    return false;
}

void oracle_pe_settle(const struct pdl_pe *pe, enum pdl_precision p,
                      struct oracle_pe *out)
{
    struct pdl_kernels k = pe->kernels;
    double bytes = pdl_precision_bytes(p);
    double conv = or_guess(k.conv_forward[p], GUESS_CONV);

    for (int i = 0; i < NKERNELS; i++) {
        double *at = (double *)(void *)((char *)&k + kernels[i].at);

        *at = or_guess(*at, kernels[i].value);
    }
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
    out->own = out->core || has_rows(pe, false);
    out->joins = !out->core && has_rows(pe, true);
    out->watched_s = out->core ? 0 : oracle_watched(pe, pdl_precision_name(p));
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

/* ---- what a projection rests on ------------------------------------------ */

static struct pdl_basis basis(const char *name, enum pdl_unit unit,
                              double given, double used, const char *kind,
                              const char *source)
{
    bool own = given > 0;

    return (struct pdl_basis){name, used, unit, own ? "given" : kind,
                              own ? "the system" : source};
}

bool oracle_pe_basis(const struct pdl_pe *pe, enum pdl_precision p, int i,
                     struct pdl_basis *out)
{
    double part = pe->memory_efficiency < 1 ? pe->memory_efficiency : 0;
    struct oracle_pe r;

    oracle_pe_settle(pe, p, &r);
    if (i == 0)
        *out = basis("pe.matmul", PDL_UNIT_FLOP_S, pe->matmul_flop_per_s[p],
                     r.rate, "guessed", "0.7 of the peak");
    else if (i == 1)
        *out = basis("pe.memory_efficiency", PDL_UNIT_NONE, part,
                     r.bytes_per_s / pe->memory_bytes_per_s, "guessed",
                     "0.91 of an H200, 0.86 of a V100 in benchmarks");
    else if (i == 2)
        *out = basis("pe.launch", PDL_UNIT_SECONDS, pe->launch_s, r.launch_s,
                     "guessed", "2 us in graphs, 60 us of an eager host");
    else if (i - 3 < NKERNELS) {
        const struct default_number *d = &kernels[i - 3];
        size_t at = d->at / sizeof(double);

        *out = basis(
            d->name, d->unit, ((const double *)(const void *)&pe->kernels)[at],
            ((const double *)(const void *)&r.k)[at], d->kind, d->source);
    } else
        return false;
    return true;
}
