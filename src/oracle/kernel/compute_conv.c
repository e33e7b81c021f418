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
 *     and ResNet are all such multiples); and 64 at a time where there are
 * fewer (parts of VGG-16's layers by channel), unless other kernels run because
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
 * channels each: below. */
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

/* ---- groups ----------------------------------------------------------- */

/* Seconds of a convolution whose groups have few channels each.
 *
 * Depthwise (one channel a group): cuDNN's kernels for it (conv2d_c1_k1 and its
 * two gradients) do a fixed number of products a second on the vector units,
 * whatever the kernel's size: forward 14 TFLOP/s in 16 bits and 7.6 in 32; the
 * gradient of the data 5.6, and it visits every tap of every input, also those
 * that the stride skips; or they stream, forward at 0.71 (16 bits) and 0.9 of
 * the memory's rate, gradients of the weights, with a kernel that adds up
 * parts, at half of it. In 32 bits there is none for the gradient of the
 * weights of kernels above 5x5: what runs instead reaches 0.6 TFLOP/s.
 *
 * Other groups: kernels for matrix units take BLOCK bytes of channels at a time
 * however few the group has, and the gradient of the data visits every tap,
 * too; in 32 bits that of the weights converts its operands in passes of their
 * own.
 *
 * Groups that are not a power of two wide (RegNet's 24, 48, 56, 80 channels)
 * have no kernels of their own. Either the library cuts each group out of x and
 * y, runs a plain convolution on it, with kernels of an older generation, and
 * puts the result back, group after group; or it pads every group to a power of
 * two by generic copies and calls the kernels for those. The quicker one
 * counts. From kernels of nine such layers on the same H200, 24 to 120 channels
 * wide; the rates are of them, and it is the library's choice that is the least
 * certain (it took the slower way in one of three).
 *
 * From MobileNetV2 and ResNeXt-50 profiled on an H200 (PyTorch 2.11, channels
 * last) and from layers of 3x3, 5x5 and 7x7 timed alone there; rates are parts
 * of what the vector or matrix units sustain, so that they follow another PE,
 * where nothing has tested them. Without matrix units, and for processor cores,
 * groups are taken as bound by memory and by the vector units. */
enum { BLOCK = 128, LARGEST = 25 };

/* Parts of the vector units' rate and of the streaming rate by pass: 16 bits,
 * 32 bits. */
static const double DEPTHWISE[2][3] = {{.21, .084, .30}, {.113, .084, .12}};
static const double STREAMS[2][3] = {{.71, .71, .48}, {.9, .9, .7}};
static const double FALLBACK = .009;
/* Channels first in 32 bits PyTorch has kernels of its own: instructions of a
 * tap by pass, read off aten/src/ATen/native/cuda/DepthwiseConv2d.cu (places
 * and bounds, two loads, a product; gradients of the weights have a block for
 * every channel and tap, and divide for each element to find its place), and
 * integer lanes of a unit (V100, A100 and H100). Counted, not measured. */
static const double FIRST[3] = {10, 12, 38}, LANES = 64;
/* Part of the matrix units' rate of other groups. */
static const double BLOCKED[2][3] = {{.46, .42, .43}, {.32, .30, .08}};

/* Cycles of an element that is cut out and put back, or padded; part of the
 * plain convolution's rate that the older kernels reach by pass; seconds
 * between kernels of a loop that the host issues. */
static const double CUT[2] = {.75, 1}, PAD = 2.6;
static const double OLDER[2][3] = {{.45, .45, .3}, {.55, .55, .5}};
static const double ISSUE_S = 3.5e-6;
enum { LOOP = 3, WIDEST = 256 }; /* kernels of one group */

struct grouped {
    double x, y, taps, channels, groups; /* elements; a group's channels */
    bool depthwise;
};

static struct grouped read_shape(const struct pdl_shape *s)
{
    struct grouped g = {.x = (double)s->n * (double)s->c,
                        .y = (double)s->n * (double)s->f,
                        .taps = 1,
                        .groups = (double)s->groups};
    double c = (double)s->c / g.groups, f = (double)s->f / g.groups;

    for (int d = 0; d < s->nspatial; d++) {
        g.x *= (double)s->in[d];
        g.y *= (double)s->out[d];
        g.taps *= (double)s->kernel[d];
    }
    g.channels = c > f ? c : f;
    g.depthwise = c <= 1 && f <= 1;
    return g;
}

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* No kernel for groups of this width. */
static bool is_odd_one(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    int64_t c = s->groups > 0 ? s->c / s->groups : 0;

    return !pe->vector && !pe->core && pe->clock_hz > 0 && s->groups > 1 &&
           s->c == s->f && c > 1 && c <= WIDEST && !is_power_of_two(c);
}

static bool is_grouped(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    double few = pe->vector || pe->core ? 16 : BLOCK / pe->item_bytes;

    if (is_odd_one(pe, s))
        return true;
    return s->groups > 1 && ((double)s->c < few * (double)s->groups ||
                             (double)s->f < few * (double)s->groups);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double depthwise(const struct oracle_pe *pe, const struct grouped *g,
                        enum pdl_pass pass)
{
    int wide = pe->item_bytes > 2;
    double part = DEPTHWISE[wide][pass];
    double outputs = pass == PDL_BACKWARD_DATA ? g->x : g->y;
    bool weights = pass == PDL_BACKWARD_WEIGHTS;

    if (weights && wide && g->taps > LARGEST)
        part = FALLBACK;
    return (weights ? 5 : 1) * pe->launch_s +
           larger(2 * outputs * g->taps / (pe->vector_rate * part),
                  pe->item_bytes * (g->x + g->y) /
                      (pe->bytes_per_s * STREAMS[wide][pass]));
}

bool oracle_is_depthwise(const struct pdl_shape *s)
{
    return s->kind == PDL_SHAPE_CONV && s->groups > 1 && s->nspatial == 2 &&
           s->c == s->groups && s->f == s->groups;
}

double oracle_depthwise_first(const struct oracle_pe *pe,
                              const struct pdl_shape *s)
{
    struct grouped g = read_shape(s);
    double outputs = s->pass == PDL_BACKWARD_DATA ? g.x : g.y;

    return pe->launch_s +
           larger(outputs * g.taps * FIRST[s->pass] /
                      (LANES * pe->units * pe->clock_hz),
                  pe->item_bytes * (g.x + g.y) / pe->bytes_per_s);
}

static double blocked(const struct oracle_pe *pe, const struct grouped *g,
                      enum pdl_pass pass)
{
    double channels = larger(g->channels, BLOCK / pe->item_bytes);
    double outputs = pass == PDL_BACKWARD_DATA ? g->x : g->y;

    return pe->launch_s +
           larger(2 * outputs * g->taps * channels /
                      (pe->rate * BLOCKED[pe->item_bytes > 2][pass]),
                  pe->item_bytes * (g->x + g->y) / pe->bytes_per_s);
}

/* Group after group: a plain convolution each. */
static double sliced(const struct oracle_pe *pe, const struct grouped *g,
                     const struct pdl_shape *s)
{
    int wide = pe->item_bytes > 2;
    struct pdl_shape one = *s;
    double t;

    one.c = s->c / s->groups;
    one.f = s->f / s->groups;
    one.groups = 1;
    t = g->groups * (oracle_conv(pe, &one) - pe->launch_s) /
            OLDER[wide][s->pass] +
        (g->x + g->y) * CUT[wide] / (pe->units * pe->clock_hz);
    return larger(t, g->groups * LOOP * ISSUE_S) + pe->launch_s;
}

static double padded(const struct oracle_pe *pe, const struct grouped *g,
                     enum pdl_pass pass)
{
    struct grouped wider = *g;

    wider.channels = exp2(ceil(log2(g->channels)));
    return 2 * LOOP * pe->launch_s + blocked(pe, &wider, pass) +
           (g->x + g->y) * PAD / (pe->units * pe->clock_hz);
}

static double odd_one(const struct oracle_pe *pe, const struct grouped *g,
                      const struct pdl_shape *s)
{
    double cut = sliced(pe, g, s), pad = padded(pe, g, s->pass);

    return cut < pad ? cut : pad;
}

static double grouped(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    struct grouped g = read_shape(s);

    if (pe->core || (pe->vector && !g.depthwise))
        return pe->launch_s +
               larger(
                   2 * g.y * g.taps * (double)s->c / g.groups / pe->vector_rate,
                   pe->item_bytes * (g.x + g.y) / pe->bytes_per_s);
    if (is_odd_one(pe, s))
        return odd_one(pe, &g, s);
    return g.depthwise ? depthwise(pe, &g, s->pass) : blocked(pe, &g, s->pass);
}

/* ---- all of them ------------------------------------------------------ */

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

    if (is_grouped(pe, s))
        return grouped(pe, s);
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
