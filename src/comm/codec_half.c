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

static int64_t encode_bf16(const float *x, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = to_bf16(x[i]);

        memcpy(out + 2 * i, &h, sizeof h);
    }
    return room(n);
}

static bool decode_bf16(const uint8_t *in, int64_t bytes, int64_t n, float *x)
{
    for (int64_t i = 0; bytes == room(n) && i < n; i++) {
        uint16_t h;

        memcpy(&h, in + 2 * i, sizeof h);
        x[i] = from_bf16(h);
    }
    return bytes == room(n);
}

static int64_t encode_fp16(const float *x, int64_t n, uint8_t *out)
{
    const float most = 65504;

    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > most ? most : x[i] < -most ? -most : x[i];
        uint16_t h = to_fp16(v);

        memcpy(out + 2 * i, &h, sizeof h);
    }
    return room(n);
}

static bool decode_fp16(const uint8_t *in, int64_t bytes, int64_t n, float *x)
{
    for (int64_t i = 0; bytes == room(n) && i < n; i++) {
        uint16_t h;

        memcpy(&h, in + 2 * i, sizeof h);
        x[i] = from_fp16(h);
    }
    return bytes == room(n);
}

const struct comm_codec comm_codec_bf16 = {room, encode_bf16, decode_bf16,
                                           false, false};
const struct comm_codec comm_codec_fp16 = {room, encode_fp16, decode_fp16,
                                           false, false};
