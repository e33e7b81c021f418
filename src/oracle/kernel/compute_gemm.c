/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a matrix product by its shape. A kernel cuts the output into
 * tiles; `units` of them run at a time (a wave); each takes its inner loop at
 * the unit's share of the sustained rate, and a fixed time to fill and drain
 * its pipeline. So a product that is split keeps paying for whole tiles and
 * whole waves, which is why split layers stop getting faster.
 *
 *   t = max(waves * (2 Tm Tn ceil(K / s) / (R / units * e) + tile), in / BW)
 *       + sums of the s parts of K + epilogue * out / BW
 *   waves = full + (rest > 0 ? fill * rest / units + 1 - fill : 0)
 *
 * smallest over the tiles and the splits s of K: libraries choose by trial.
 * The rest wave is part hidden (fill): not all units finish together.
 *
 * Processor cores (pe.arch: cpu) work in register tiles too small to matter
 * and one after the other: their rate holds for every shape, and `tile` is paid
 * once.
 *
 * In TF32 matrix units read operands along the inner dimension only (PTX ISA,
 * wgmma: it transposes 16-bit types alone): where one operand lies the other
 * way (the plain product that gives the rate; gradient of the data) or both do
 * (gradient of the weights), kernels turn them on the way; forward none does.
 * Parts of the rate from products of BERT and ViT profiled on an H200: 372 to
 * 378, 312 to 342 and 208 to 214 TFLOP/s.
 *
 * Limits: no power or clock effects, no cache model beyond "operands are read
 * once". Operands that are not 16-byte aligned take slower loads: factors
 * 0.39 (4-byte aligned rows) and 0.19 (2-byte), profiled on an H200 with 16-bit
 * products; used for every PE. */
#include "oracle/kernel/kernel.h"

#include <math.h>

/* Part of the rate of TF32 products by pass. */
static const double TURNED[] = {[PDL_FORWARD] = 1.27,
                                [PDL_BACKWARD_DATA] = 1,
                                [PDL_BACKWARD_WEIGHTS] = .76};

/* Tm, Tn, part of the rate: small tiles load more for each product. Fitted:
 * part of the form that was chosen by leaving one of VGG-16's layers on an H200
 * out at a time; no kernel of one tile was timed by itself, nor on another
 * PE. */
static const struct tile {
    double m, n, rate;
} tiles[] = {
    {256, 128, 1}, {128, 256, 1}, {128, 128, .98}, {128, 64, .9},
    {256, 64, .8}, {64, 256, .8}, {64, 64, .6},
};

enum { NTILES = sizeof tiles / sizeof tiles[0], MAX_SPLIT = 64, MIN_K = 64 };

static double waves(double n, double units, double fill)
{
    double full = floor(n / units), rest = n - full * units;

    return full + (rest > 0 ? fill * rest / units + 1 - fill : 0);
}

static double joint(const struct oracle_gemm *g)
{
    return g->joint > 1 ? g->joint : 1;
}

static double one_tile(const struct oracle_gemm *g, const struct tile *t)
{
    double n = joint(g) * ceil(g->m / t->m) * ceil(g->n / t->n);
    double best = INFINITY;
    double unit_rate = g->rate / g->units * t->rate;

    for (int split = 1; split <= MAX_SPLIT; split *= 2) {
        double s = split, x;

        if (s > 1 && (n * s > 2 * g->units || g->k / s < MIN_K))
            break;
        x = waves(n * s, g->units, g->fill) *
            (2 * t->m * t->n * ceil(g->k / s) / unit_rate + g->tile_s);
        if (s > 1) /* partial sums in 32 bits */
            x += 4 * s * joint(g) * g->m * g->n / g->bytes_per_s;
        best = x < best ? x : best;
    }
    return best;
}

double oracle_gemm_seconds(const struct oracle_gemm *g)
{
    double best = INFINITY, in = g->in_bytes / g->bytes_per_s;

    if (!(g->m > 0 && g->n > 0 && g->k > 0))
        return 0;
    if (g->flat || g->core)
        best = 2 * joint(g) * g->m * g->n * g->k / g->rate +
               (g->core ? g->tile_s : 0);
    for (int i = 0; i < NTILES && !g->flat && !g->core; i++) {
        double x;

        if (tiles[i].m < g->least_m || tiles[i].n < g->least_n)
            continue;
        x = one_tile(g, &tiles[i]);

        best = x < best ? x : best;
    }
    best = best > in ? best : in;
    return g->batch * best + g->epilogue * g->out_bytes / g->bytes_per_s;
}

/* Rows of n items of this many bytes. */
static double alignment(double n, double bytes)
{
    double row = n * bytes;

    return fmod(row, 16) == 0 ? 1 : fmod(row, 4) == 0 ? .39 : .19;
}

double oracle_matmul(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    double rows = (double)s->n, c = (double)s->c, f = (double)s->f;
    double w = pe->item_bytes;
    double a = pe->core ? 1 : alignment(f, w),
           b = pe->core ? 1 : alignment(c, w);
    struct oracle_gemm g = {
        .m = rows,
        .n = f,
        .k = c,
        .rate = pe->rate * (a < b ? a : b),
        .units = pe->units,
        .batch = s->groups > 1 ? (double)s->groups : 1,
        .bytes_per_s = pe->bytes_per_s,
        .fill = pe->k.tile_fill,
        .tile_s = pe->k.matmul_tile_s,
        .epilogue = pe->k.matmul_epilogue,
        .core = pe->core,
        .flat = pe->flat,
    };

    if (s->precision == PDL_PREC_TF32 && !pe->core)
        g.rate *= TURNED[s->pass];
    if (s->pass == PDL_BACKWARD_DATA) {
        g.n = c;
        g.k = f;
    } else if (s->pass == PDL_BACKWARD_WEIGHTS) {
        g.m = f;
        g.n = c;
        g.k = rows;
    }
    g.in_bytes = w * (g.m * g.k + g.k * g.n);
    g.out_bytes = w * g.m * g.n * g.batch;
    g.in_bytes *= g.batch;
    g.joint = g.batch;
    g.batch = 1;
    return pe->launch_s + oracle_gemm_seconds(&g);
}
