/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight bits a value and one scale for 256 of them: the largest is 127 (as
 * QSGD's blocks, Alistarh et al., NIPS 2017, but to nearest, since what is
 * lost is kept). A block with a NaN or an infinity is all NaN: it is seen. */
#include "comm_compress.h"
#include "comm_half.h"

#include <math.h>

enum { BLOCK = 256, SCALE = sizeof(float) };

static int64_t room(int64_t n)
{
    return n + (n + BLOCK - 1) / BLOCK * SCALE;
}

/* Magnitudes are ordered as their bits are, those of no number above all. */
INLINE float scale_of(const float *x, int64_t n)
{
    const uint32_t infinite = 0x7f800000;
    uint32_t most = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t u = as_bits(x[i]) & 0x7fffffff;

        most = u > most ? u : most;
    }
    return most < infinite ? as_float(most) / 127 : NAN;
}

INLINE void encode_block(const float *x, int64_t n, uint8_t *out)
{
    float scale = scale_of(x, n);
    float by = scale > 0 && isfinite(1 / scale) ? 1 / scale : 0;

    memcpy(out, &scale, SCALE);
    out += SCALE;
    if (isnan(scale))
        memset(out, 0, (size_t)n);
    for (int64_t i = 0; !isnan(scale) && i < n; i++)
        out[i] = (uint8_t)(int8_t)(int32_t)rintf(x[i] * by);
}

MANY_TARGETS static int64_t encode(const float *x, int64_t n, uint8_t *out)
{
    int64_t bytes = room(n);

    for (; n >= BLOCK; x += BLOCK, n -= BLOCK, out += room(BLOCK))
        encode_block(x, BLOCK, out);
    if (n > 0)
        encode_block(x, n, out);
    return bytes;
}

INLINE void decode_block(const uint8_t *in, int64_t n, float *x)
{
    float scale;

    memcpy(&scale, in, SCALE);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(int8_t)in[SCALE + i] * scale;
}

MANY_TARGETS static bool decode(const uint8_t *in, int64_t bytes, int64_t n,
                                float *x)
{
    if (bytes != room(n))
        return false;
    for (; n >= BLOCK; x += BLOCK, n -= BLOCK, in += room(BLOCK))
        decode_block(in, BLOCK, x);
    if (n > 0)
        decode_block(in, n, x);
    return true;
}

const struct comm_codec comm_codec_int8 = {room, encode, decode, false, false};
