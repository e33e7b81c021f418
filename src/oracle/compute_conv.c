/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a convolution by its local shape, seen as an implicit matrix
 * product (Chetlur et al., cuDNN, 2014): forward M = N Ho Wo, N = F,
 * K = C k^d; gradient of the data M = N H W, N = C, K = F k^d / stride^d;
 * gradient of the weights M = F, N = C k^d, K = N Ho Wo, cut along K.
 *
 * What a split does to it:
 *   - matrix units load channels in pieces of GRANULE bytes for every kernel
 *     element: a layer with fewer channels does not get faster;
 *   - tiles are at least 64 wide, pe.kernels.vector_tile without matrix units:
 *     nor one with fewer filters;
 *   - gradients of the weights take channels 128 at a time where there are more
 *     than 64: 160 cost what 256 do (WRN-28-10 on an H200; the channels of VGG
 *     and ResNet are all such multiples);
 *   - channels that are not a multiple of 16 bytes are padded by copies for
 *     matrix units;
 *   - a wave of tiles has a fixed time (compute_gemm.c).
 *
 * Without matrix units there is no granule and no padding; the width of the
 * tile was chosen by tools/select-form.py.
 *
 * The form was chosen by leaving one VGG-16 layer out at a time (H200); the
 * parameters are in the system description (pe.kernels). Winograd and FFT
 * kernels are in the efficiency where a library uses them. Groups with few
 * channels each (depthwise) are taken as bound by memory and by the vector
 * units. */
#include "oracle_priv.h"

#include <math.h>

enum { GRANULE = 64, ALIGN = 16, FEW = 16, WIDE = 128 };

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

static double grouped(const struct oracle_pe *pe, const struct extents *e)
{
    double x = e->n * e->c * e->in, y = e->n * e->f * e->out;
    double flops = 2 * y * e->kernel * e->c / e->groups;
    double bytes = pe->item_bytes * (x + y) / pe->bytes_per_s;

    flops /= pe->vector_rate;
    return pe->launch_s + (flops > bytes ? flops : bytes);
}

double oracle_conv(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    struct extents e = extents(s);
    double w = pe->item_bytes,
           granule = pe->vector || pe->core ? 1 : GRANULE / w;
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

    if (groups > 1 && (c < FEW || f < FEW))
        return grouped(pe, &e);
    if (pe->vector && s->pass == PDL_BACKWARD_WEIGHTS)
        g.least_m = pe->k.vector_tile;
    else if (pe->vector)
        g.least_n = pe->k.vector_tile;
    g.rate = pe->rate * pe->conv[s->pass];
    if (s->pass == PDL_BACKWARD_DATA) {
        g.m = e.n * e.in;
        g.n = c;
        g.k = e.kernel * up(f, granule) / e.stride;
        g.in_bytes = w * (y + weights) / groups;
        g.out_bytes = w * x;
    } else if (s->pass == PDL_BACKWARD_WEIGHTS) {
        g.m = f;
        g.n = e.kernel * up(c, 2 * c > WIDE && granule > 1 ? WIDE : granule);
        g.k = e.n * e.out;
        g.in_bytes = w * (x + y) / groups;
        g.out_bytes = 4 * g.m * g.n * groups;
    } else {
        g.m = e.n * e.out;
        g.n = f;
        g.k = e.kernel * up(c, granule);
        g.in_bytes = w * (x + weights) / groups;
        g.out_bytes = w * y;
    }
    return pe->launch_s + oracle_gemm_seconds(&g) +
           pe->k.pad_cost * pad_bytes(pe, &e) / pe->bytes_per_s;
}
