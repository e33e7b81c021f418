/* SPDX-License-Identifier: Apache-2.0
 *
 * One bit a value and the mean magnitude of 256 of them (1-bit SGD, Seide et
 * al., Interspeech 2014; signSGD with error feedback, Karimireddy et al., ICML
 * 2019). A block with a NaN or an infinity is all NaN. */
#include "comm_compress.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, SCALE = sizeof(float) };

static int64_t room(int64_t n)
{
    return n / BLOCK * (BLOCK / 8 + SCALE) +
           (n % BLOCK ? (n % BLOCK + 7) / 8 + SCALE : 0);
}

static int64_t encode(const float *x, int64_t n, uint8_t *out)
{
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK;
        float sum = 0, scale;

        for (int64_t i = 0; i < k; i++)
            sum += fabsf(x[at + i]);
        scale = isfinite(sum) ? sum / (float)k : NAN;
        memcpy(out, &scale, SCALE);
        out += SCALE;
        memset(out, 0, (size_t)(k + 7) / 8);
        for (int64_t i = 0; i < k; i++)
            out[i / 8] |= (uint8_t)((x[at + i] < 0) << i % 8);
        out += (k + 7) / 8;
    }
    return room(n);
}

static bool decode(const uint8_t *in, int64_t bytes, int64_t n, float *x)
{
    if (bytes != room(n))
        return false;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK;
        float scale;

        memcpy(&scale, in, SCALE);
        in += SCALE;
        for (int64_t i = 0; i < k; i++)
            x[at + i] = in[i / 8] >> i % 8 & 1 ? -scale : scale;
        in += (k + 7) / 8;
    }
    return true;
}

const struct comm_codec comm_codec_sign = {room, encode, decode, false, false};
