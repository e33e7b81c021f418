/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of what only streams memory.
 *
 * Element-wise: bytes at the memory's rate; what fits half of the last level
 * of cache (each half serves half of the units) moves at twice that rate.
 *
 * Batch normalisation: x is read for the sums and again to apply them, y is
 * written; backward reads x and dy twice and writes dx. How much of the
 * streaming rate its kernels reach depends on them (pe.kernels): those for
 * 32-bit items keep the data on chip between the two readings; those of PyTorch
 * for 16-bit items depend on the shape (compute_batch_norm.c).
 *
 * Layer normalisation: one block a row. A row costs a fixed time (two sums
 * over the block) beside its bytes; a row that the block's share of the first
 * cache holds is read once backward, longer rows are read again.
 *
 * Parameters from kernel timings of an H200 (tests/data/oracle/kernels.json),
 * none of them from a file of layer times. */
#include "oracle/kernel/kernel.h"

#include <math.h>

/* Profiled: additions and ReLUs of 22 sizes each (kernels.json). */
static const double CACHE_RATE = 2;
/* Rows of this many bytes stay in a block's share of the first cache: 256 KiB
 * for 16 blocks a unit; those of a quarter always do. */
static const double ROW_KEPT = 16384;
/* Profiled, 30 shapes; backward does one reduction for two forward. */
static const double ROW_BACKWARD = .45;

double oracle_out_of_cache(const struct oracle_pe *pe, double bytes)
{
    double x = pe->l2_bytes > 0 ? 2 * bytes / pe->l2_bytes - 1 : 1;

    return x < 0 ? 0 : x > 1 ? 1 : x;
}

double oracle_stream(const struct oracle_pe *pe, double bytes)
{
    double slow = oracle_out_of_cache(pe, bytes);

    return bytes / pe->bytes_per_s * (slow + (1 - slow) / CACHE_RATE);
}

static double batch_norm(const struct oracle_pe *pe, const struct pdl_shape *s,
                         bool back)
{
    double part = back ? pe->batch_norm_backward : pe->batch_norm_forward;
    double rows = (double)s->n, c = (double)s->c;
    enum oracle_norm_kernel first =
        back ? ORACLE_NORM_SUMS : ORACLE_NORM_STATISTICS;

    if (pe->item_bytes <= 2 && rows > 0 && c > 0 && pe->clock_hz > 0)
        return oracle_batch_norm(pe, first, rows, c) +
               oracle_batch_norm(pe, first + 1, rows, c);
    return (back ? 5 : 3) * s->bytes / (pe->bytes_per_s * part);
}

/* From 0 for rows of `least` bytes to 1 for those of `most`. */
static double long_row(double bytes, double least, double most)
{
    double x = log2(bytes / least) / log2(most / least);

    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double layer_norm(const struct oracle_pe *pe, const struct pdl_shape *s,
                         bool back)
{
    double row = (double)s->c * pe->item_bytes, passes;

    if (back)
        passes = 3 + 2 * long_row(row, ROW_KEPT / 4, ROW_KEPT);
    else
        passes = (3 + .5 * long_row(row, ROW_KEPT / 2, ROW_KEPT)) /
                 pe->layer_norm_forward;
    return (back ? ROW_BACKWARD : 1) * (double)s->n * pe->k.norm_row_s +
           passes * s->bytes / pe->bytes_per_s;
}

double oracle_norm(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    bool back = s->pass != PDL_FORWARD;

    if (!(s->bytes > 0))
        return 0;
    return pe->launch_s + (s->kind == PDL_SHAPE_BATCH_NORM
                               ? batch_norm(pe, s, back)
                               : layer_norm(pe, s, back));
}
