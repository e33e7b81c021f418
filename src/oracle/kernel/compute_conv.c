/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a convolution by its local shape, seen as an implicit matrix
 * product (Chetlur et al., cuDNN, 2014): forward M = N Ho Wo, N = F,
 * K = C k^d; gradient of the data M = N H W, N = C, K = F k^d / stride^d;
 * gradient of the weights M = F, N = C k^d, K = N Ho Wo, cut along K.
 *
 * What a split does to it:
 *   - matrix units load channels in pieces of GRANULE for every kernel
 *     element (of PADDED bytes where they are not aligned): a layer with fewer
 *     channels does not get faster;
 *   - tiles are at least 64 wide, pe.kernels.vector_tile without matrix units:
 *     nor one with fewer filters;
 *   - gradients of the weights take channels 128 at a time where there are more
 *     than 64: 160 cost what 256 do (WRN-28-10 on an H200; the channels of VGG
 *     and ResNet are all such multiples); and 64 at a time where there are fewer
 *     (parts of VGG-16's layers by channel), unless other kernels run because
 *     the channels are not aligned;
 *   - channels that are not a multiple of 16 bytes are padded by copies for
 *     matrix units;
 *   - volumes lie channels first in PyTorch, matrix units want channels last:
 *     x and y are turned by passes of their own, VOLUME cycles an element
 *     (48^3 and 16^3 voxels on an H200, both precisions);
 *   - a wave of tiles has a fixed time (compute_gemm.c).
 *
 * Without matrix units there is no granule and no padding; the width of the
 * tile was chosen by tools/select-form.py.
 *
 * The form was chosen by leaving one VGG-16 layer out at a time (H200); the
 * parameters are in the system description (pe.kernels). Winograd and FFT
 * kernels are in the efficiency where a library uses them. Groups with few
 * channels each: compute_grouped.c. */
#include "oracle/kernel/kernel.h"

#include <math.h>

enum {
    GRANULE = 32,
    PADDED = 64,
    FEW = 8,
    NARROW = 64,
    ALIGN = 16,
    WIDE = 128
};

static const double VOLUME = .85;

static double up(double n, double unit)
{
    return ceil(n / unit) * unit;
}

struct extents {
    double n, c, f, groups;
    double in, out, kernel, stride; /* products over the dimensions */
};

static struct extents extents(const struct pdl_shape *s)
{
    struct extents e = {(double)s->n,
                        (double)s->c,
                        (double)s->f,
                        s->groups > 1 ? (double)s->groups : 1,
                        1,
                        1,
                        1,
                        1};

    for (int d = 0; d < s->nspatial; d++) {
        e.in *= (double)s->in[d];
        e.out *= (double)s->out[d];
        e.kernel *= (double)s->kernel[d];
        e.stride *= (double)(s->stride[d] > 0 ? s->stride[d] : 1);
    }
    return e;
}

/* Channels that matrix units take together: those that are not aligned are
 * padded, and other kernels run. */
static double pieces(const struct oracle_pe *pe, double channels)
{
    if (pe->vector || pe->core)
        return 1;
    return fmod(channels * pe->item_bytes, ALIGN) != 0 ? PADDED / pe->item_bytes
                                                       : GRANULE;
}

/* The same of a gradient of the weights. */
static double wide_pieces(const struct oracle_pe *pe, double c)
{
    double piece = pieces(pe, c);

    if (piece != GRANULE || fmod(c * pe->item_bytes, ALIGN) != 0)
        return piece;
    return c > NARROW ? WIDE : c > FEW ? NARROW : GRANULE;
}

/* Copies of x and y with the channels padded. */
static double pad_bytes(const struct oracle_pe *pe, const struct extents *e)
{
    double unit = pe->vector || pe->core ? 1 : ALIGN / pe->item_bytes, n = 0;

    if (fmod(e->c, unit) != 0)
        n += e->n * e->in * (e->c + up(e->c, unit));
    if (fmod(e->f, unit) != 0)
        n += e->n * e->out * (e->f + up(e->f, unit));
    return n * pe->item_bytes;
}

static double turn_volumes(const struct oracle_pe *pe,
                           const struct pdl_shape *s, const struct extents *e)
{
    if (s->nspatial < 3 || pe->vector || pe->core || !(pe->clock_hz > 0))
        return 0;
    return e->n * (e->c * e->in + e->f * e->out) * VOLUME /
           (pe->units * pe->clock_hz);
}

double oracle_conv(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    struct extents e = extents(s);
    double w = pe->item_bytes;
    double groups = e.groups;
    double c = e.c / groups, f = e.f / groups;
    double x = e.n * e.c * e.in, y = e.n * e.f * e.out;
    double weights = e.kernel * c * f * groups;
    struct oracle_gemm g = {
        .units = pe->units,
        .batch = groups,
        .bytes_per_s = pe->bytes_per_s,
        .fill = pe->k.tile_fill,
        .tile_s = pe->k.conv_tile_s,
        .epilogue = pe->k.conv_epilogue,
        .core = pe->core,
        .flat = pe->flat,
    };

    if (oracle_is_grouped(pe, s))
        return oracle_grouped(pe, s);
    if (pe->vector && s->pass == PDL_BACKWARD_WEIGHTS)
        g.least_m = pe->k.vector_tile;
    else if (pe->vector)
        g.least_n = pe->k.vector_tile;
    g.rate = pe->rate * pe->conv[s->pass];
    if (s->pass == PDL_BACKWARD_DATA) {
        g.m = e.n * e.in;
        g.n = c;
        g.k = e.kernel * up(f, pieces(pe, f)) / e.stride;
        g.in_bytes = w * (y + weights) / groups;
        g.out_bytes = w * x;
    } else if (s->pass == PDL_BACKWARD_WEIGHTS) {
        g.m = f;
        g.n = e.kernel * up(c, wide_pieces(pe, c));
        g.k = e.n * e.out;
        g.in_bytes = w * (x + y) / groups;
        g.out_bytes = 4 * g.m * g.n * groups;
    } else {
        g.m = e.n * e.out;
        g.n = f;
        g.k = e.kernel * up(c, pieces(pe, c));
        g.in_bytes = w * (x + weights) / groups;
        g.out_bytes = w * y;
    }
    return pe->launch_s + oracle_gemm_seconds(&g) + turn_volumes(pe, s, &e) +
           pe->k.pad_cost * pad_bytes(pe, &e) / pe->bytes_per_s;
}
