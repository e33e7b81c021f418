/* SPDX-License-Identifier: Apache-2.0
 *
 * One bit a value and the mean magnitude of 256 of them (1-bit SGD, Seide et
 * al., Interspeech 2014; signSGD with error feedback, Karimireddy et al., ICML
 * 2019). A block with a NaN or an infinity is all NaN. */
#include "comm_compress.h"
#include "comm_half.h"

#include <math.h>

enum { BLOCK = 256, SCALE = sizeof(float), LANES = 16 };

static int64_t room(int64_t n)
{
    return n / BLOCK * (BLOCK / 8 + SCALE) +
           (n % BLOCK ? (n % BLOCK + 7) / 8 + SCALE : 0);
}

/* In the order of lanes, whatever a vector holds. */
INLINE float mean_of(const float *x, int64_t n)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += fabsf(x[i + k]);
    for (; i < n; i++)
        sum += fabsf(x[i]);
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return isfinite(sum) ? sum / (float)n : NAN;
}

INLINE uint8_t signs_of(const float *x, int64_t n)
{
    unsigned bits = 0;

    for (int64_t i = 0; i < n; i++)
        bits |= (unsigned)(x[i] < 0) << i;
    return (uint8_t)bits;
}

INLINE void encode_block(const float *x, int64_t n, uint8_t *out)
{
    float scale = mean_of(x, n);
    int64_t i = 0;

    memcpy(out, &scale, SCALE);
    out += SCALE;
    for (; i + 8 <= n; i += 8)
        *out++ = signs_of(x + i, 8);
    if (i < n)
        *out = signs_of(x + i, n - i);
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

/* The mean with the sign of each bit. */
INLINE void decode_block(const uint8_t *in, int64_t n, float *x)
{
    uint32_t scale;
    int64_t i = 0;

    memcpy(&scale, in, SCALE);
    in += SCALE;
    for (; i + 8 <= n; i += 8, in++)
        for (int k = 0; k < 8; k++)
            x[i + k] = as_float(scale ^ (uint32_t)(*in >> k & 1) << 31);
    for (; i < n; i++)
        x[i] = as_float(scale ^ (uint32_t)(*in >> i % 8 & 1) << 31);
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

const struct comm_codec comm_codec_sign = {room, encode, decode, false, false};
