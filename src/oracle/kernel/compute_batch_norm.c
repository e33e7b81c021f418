/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation of bf16 images whose channels lie innermost, as PyTorch
 * does it with kernels of its own (aten/src/ATen/native/cuda/Normalization.cuh,
 * batch_norm_*_channels_last_kernel): forward one for the statistics and one to
 * apply them, backward one for the sums and one for the gradient.
 *
 * A block has at most 512 threads, at most 32 of them side by side along the
 * channels; there are at most 128 blocks along the rows (samples and pixels),
 * so that with few channels most of the device is idle: each thread walks rows
 * / (128 * 16) rows, one after the other, and as many walks as there are waves
 * of blocks. What a row costs is latency, so it is the same for 32 and for 96
 * channels; less where the activation is in the last level of cache. The
 * streaming rate is reached by wide layers alone.
 *
 * Volumes lie channels first. There a block has a channel, whatever its size:
 * in 16 bits statistics and backward walk all of it with one block, applying
 * them has one for each sample, too (batch_norm_collect_statistics_kernel,
 * _transform_input_, _backward_); in 32 bits cuDNN has one kernel each way
 * (bn_fw_tr_1C11, bn_bw_1C11), a block for a channel as well. With 32 channels
 * three quarters of the device are idle. Elements of a cycle: 3-D U-Net and
 * MC3-18 profiled there. Images of 32 bits that lie channels first are taken to
 * be the same (the kernels are the same; published steps of ResNet-50 and
 * EfficientNet on A100 and V100 agree, no kernel was timed).
 *
 * Cycles of a row and blocks that a unit holds: from MobileNetV2 and ResNeXt-50
 * profiled on an H200 and kernels timed alone (tests/data/oracle/kernels.json);
 * the least squares were done by hand, errors are up to 20 %. */
#include "oracle/kernel/kernel.h"

#include <math.h>

enum { THREADS = 512, ABREAST = 32, ROWS = 16, MOST = 128 };

/* Blocks that a unit holds; cycles of a row (from memory, from the cache) and
 * of a wave; times an element is moved, and at which part of the streaming
 * rate. */
static const struct kernel {
    double blocks, row, cached, wave, moves, part;
} kernels[] = {
    [ORACLE_NORM_STATISTICS] = {3, 911, 653, 4950, 1, .7},
    [ORACLE_NORM_APPLY] = {4, 554, 554, 0, 2, .6},
    [ORACLE_NORM_SUMS] = {3, 465, 465, 4950, 2, .7},
    [ORACLE_NORM_GRADIENT] = {4, 594, 594, 0, 3, .71},
};

/* Elements of a channel that its block does in a cycle, from memory and from
 * the cache; times an element is moved, and at which part of the streaming
 * rate. */
static const struct volume {
    double memory, cache, moves, part;
} volumes[2][4] = {
    {[ORACLE_NORM_STATISTICS] = {.63, 1.06, 1, .7},
     [ORACLE_NORM_APPLY] = {.65, 1.2, 2, .46},
     [ORACLE_NORM_SUMS] = {.59, .85, 2, .42},
     [ORACLE_NORM_GRADIENT] = {.59, .85, 3, .42}},
    {[ORACLE_NORM_STATISTICS] = {2, 2.3, 1, .8},
     [ORACLE_NORM_APPLY] = {2, 2.3, 2, .8},
     [ORACLE_NORM_SUMS] = {.69, .9, 2, .75},
     [ORACLE_NORM_GRADIENT] = {.69, .9, 3, .75}},
};
enum { HELD = 4 }; /* blocks of a unit */

static double power_below(double x)
{
    return x < 2 ? 1 : exp2(floor(log2(x)));
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

double oracle_batch_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                         double rows, double channels)
{
    const struct kernel *k = &kernels[i];
    double x = lesser(power_below(channels), ABREAST);
    double y = lesser(power_below(ceil(rows / ROWS)), THREADS / x);
    double down = lesser(ceil(rows / (y * ROWS)), MOST);
    double waves = ceil(ceil(channels / x) * down / (k->blocks * pe->units)),
           walk, stream;
    double bytes = rows * channels * pe->item_bytes;
    double slow = oracle_out_of_cache(pe, bytes);

    if (!(bytes > 0 && pe->clock_hz > 0))
        return 0;
    walk = waves *
           (rows / (down * y) * (k->cached + slow * (k->row - k->cached)) +
            k->wave) /
           pe->clock_hz;
    stream = k->moves * bytes / (pe->bytes_per_s * k->part);
    return walk > stream ? walk : stream;
}

double oracle_volume_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                          double samples, double voxels, double channels)
{
    bool wide = pe->item_bytes > 2, back = i >= ORACLE_NORM_SUMS;
    const struct volume *k = &volumes[wide][i];
    double bytes = samples * voxels * channels * pe->item_bytes;
    double slow = oracle_out_of_cache(pe, back ? 2 * bytes : bytes);
    double blocks = channels, walk = samples * voxels, stream;

    if (!(bytes > 0 && pe->clock_hz > 0))
        return 0;
    if (!wide && i == ORACLE_NORM_APPLY) {
        blocks *= samples;
        walk = voxels;
    }
    walk *= ceil(blocks / (HELD * pe->units)) /
            (pe->clock_hz * (k->cache + slow * (k->memory - k->cache)));
    stream = k->moves * bytes / (pe->bytes_per_s * k->part);
    return walk > stream ? walk : stream;
}
