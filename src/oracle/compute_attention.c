/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of attention that stores no scores (Dao et al., FlashAttention,
 * 2022): FLOPs at a part of the peak that grows with the length of the rows,
 * s / (s + HALF). Heads are padded to 64, 128 or 256; what the narrow and the
 * wide ones reach of the middle one, and HALF, come from kernel timings of an
 * H200. Backward does 2.5 times the FLOPs.
 *
 * Heads that are not a multiple of 16 bytes take an earlier generation of
 * kernels (Dao, FlashAttention-2, 2023), which pads them to multiples of 32
 * and reaches half of the rate, and copies that pad the operands and cut the
 * results: three tensors forward, six backward, row by row in short pieces. */
#include "oracle_priv.h"

#include <math.h>

enum { HALF_FORWARD = 600, HALF_BACKWARD = 900, OLD_PAD = 32 };

// clang-format off
static const struct head {
    double size, forward, backward;
} heads[] = {{64, .72, .78}, {128, 1, 1}, {256, 1, .78}},
  old_heads[] = {{128, .48, .61}, {256, .38, .44}};
// clang-format on

/* Part of the streaming rate that copies of unaligned rows reach. */
static const double UNALIGNED_COPY = .37;

/* Each copied tensor is cleared (forward), read and written. */
static double copies(const struct oracle_pe *pe, double bytes, bool back)
{
    double move = 2 / UNALIGNED_COPY;

    return (back ? 6 * move + 1 : 3 * (move + 1)) * bytes / pe->bytes_per_s;
}

double oracle_attention(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    bool back = s->pass != PDL_FORWARD;
    double d = (double)s->c, q = (double)s->in[0], k = (double)s->out[0];
    bool aligned = fmod(d * pe->item_bytes, 16) == 0;
    const struct head *h = aligned ? &heads[0] : &old_heads[0];
    const struct head *last = aligned ? &heads[2] : &old_heads[1];
    double flops, part, heads_in = (double)s->n * (double)s->groups, width;

    while (h < last && d > h->size)
        h++;
    width = aligned ? h->size : ceil(d / OLD_PAD) * OLD_PAD;
    flops =
        4.0 * heads_in * q * k * (d > width ? d : width) * (s->causal ? .5 : 1);
    if (!(flops > 0))
        return 0;
    part =
        back ? pe->k.attention_backward * h->backward * k / (k + HALF_BACKWARD)
             : pe->k.attention_forward * h->forward * k / (k + HALF_FORWARD);
    return pe->launch_s + flops * (back ? 2.5 : 1) / (pe->peak * part) +
           (aligned ? 0 : copies(pe, heads_in * q * d * pe->item_bytes, back));
}
