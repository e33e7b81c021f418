/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of attention that stores no scores (Dao et al., FlashAttention,
 * 2022): FLOPs at a part of the peak that grows with the length of the rows,
 * s / (s + HALF). Heads are padded to 64, 128 or 256; what the narrow and the
 * wide ones reach of the middle one, HALF and the loss of unaligned heads
 * come from kernel timings of an H200. Backward does 2.5 times the FLOPs. */
#include "oracle_priv.h"

#include <math.h>

enum { HALF_FORWARD = 600, HALF_BACKWARD = 900 };

// clang-format off
static const struct head {
    double size, forward, backward;
} heads[] = {{64, .72, .78}, {128, 1, 1}, {256, 1, .78}};
// clang-format on
static const double UNALIGNED = .39;

double oracle_attention(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    bool back = s->pass != PDL_FORWARD;
    double d = (double)s->c, q = (double)s->in[0], k = (double)s->out[0];
    const struct head *h = &heads[0];
    double flops, part;

    while (h < &heads[2] && d > h->size)
        h++;
    flops = 4.0 * (double)s->n * (double)s->groups * q * k *
            (d > h->size ? d : h->size) * (s->causal ? .5 : 1);
    if (!(flops > 0))
        return 0;
    part =
        back ? pe->k.attention_backward * h->backward * k / (k + HALF_BACKWARD)
             : pe->k.attention_forward * h->forward * k / (k + HALF_FORWARD);
    if (fmod(d * pe->item_bytes, 16) != 0)
        part *= UNALIGNED;
    return pe->launch_s + flops * (back ? 2.5 : 1) / (pe->peak * part);
}
