/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients in 16 bits, to nearest even. What is too large for an IEEE half
 * stays at its largest number, and the rest of it is kept; a NaN is sent. */
#include "comm_compress.h"
#include "comm_half.h"

#include <math.h>

static int64_t room(int64_t n)
{
    return 2 * n;
}

/* So many at a time: what lies anywhere in bytes is no vector of them. */
enum { SOME = 256 };

MANY_TARGETS static int64_t encode_bf16(const float *x, int64_t n, uint8_t *out)
{
    uint16_t h[SOME] = {0};

    for (int64_t at = 0; at < n; at += SOME) {
        int64_t k = n - at < SOME ? n - at : SOME;

        for (int64_t i = 0; i < k; i++)
            h[i] = to_bf16(x[at + i]);
        memcpy(out + 2 * at, h, (size_t)k * sizeof *h);
    }
    return room(n);
}

MANY_TARGETS static bool decode_bf16(const uint8_t *in, int64_t bytes,
                                     int64_t n, float *x)
{
    uint16_t h[SOME] = {0};

    if (bytes != room(n))
        return false;
    for (int64_t at = 0; at < n; at += SOME) {
        int64_t k = n - at < SOME ? n - at : SOME;

        memcpy(h, in + 2 * at, (size_t)k * sizeof *h);
        for (int64_t i = 0; i < k; i++)
            x[at + i] = from_bf16(h[i]);
    }
    return true;
}

MANY_TARGETS static int64_t encode_fp16(const float *x, int64_t n, uint8_t *out)
{
    const float most = 65504;
    uint16_t h[SOME] = {0};

    for (int64_t at = 0; at < n; at += SOME) {
        int64_t k = n - at < SOME ? n - at : SOME;

        for (int64_t i = 0; i < k; i++) {
            float v = x[at + i];

            h[i] = to_fp16(v > most ? most : v < -most ? -most : v);
        }
        memcpy(out + 2 * at, h, (size_t)k * sizeof *h);
    }
    return room(n);
}

MANY_TARGETS static bool decode_fp16(const uint8_t *in, int64_t bytes,
                                     int64_t n, float *x)
{
    uint16_t h[SOME] = {0};

    if (bytes != room(n))
        return false;
    for (int64_t at = 0; at < n; at += SOME) {
        int64_t k = n - at < SOME ? n - at : SOME;

        memcpy(h, in + 2 * at, (size_t)k * sizeof *h);
        for (int64_t i = 0; i < k; i++)
            x[at + i] = from_fp16(h[i]);
    }
    return true;
}

const struct comm_codec comm_codec_bf16 = {room, encode_bf16, decode_bf16,
                                           false, false};
const struct comm_codec comm_codec_fp16 = {room, encode_fp16, decode_fp16,
                                           false, false};
