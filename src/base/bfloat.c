/* SPDX-License-Identifier: Apache-2.0
 *
 * bfloat16: the upper half of a float, rounded to the nearest, ties to even. */
#include "base_priv.h"

#include <string.h>

/* Without a branch, and with comparisons that vectors have. */
static inline uint16_t half(float f)
{
    uint32_t u, up;

    memcpy(&u, &f, sizeof u);
    up = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    /* not a number stays so */
    return (uint16_t)((int32_t)(u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40
                                                             : up);
}

uint16_t pdl_to_bf16(float f)
{
    return half(f);
}

void pdl_narrow(const float *from, int64_t n, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = half(from[i]);
}
