/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight bits a value and one scale for 256 of them: the largest is 127 (as
 * QSGD's blocks, Alistarh et al., NIPS 2017, but to nearest, since what is
 * lost is kept). A block with a NaN or an infinity is all NaN: it is seen. */
#include "comm_compress.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, SCALE = sizeof(float) };

static int64_t room(int64_t n)
{
    return n + (n + BLOCK - 1) / BLOCK * SCALE;
}

static float scale_of(const float *x, int64_t n)
{
    float most = 0;

    for (int64_t i = 0; i < n; i++) {
        float v = fabsf(x[i]);

        most = v > most || isnan(v) ? v : most;
        if (!isfinite(v))
            return NAN;
    }
    return most / 127;
}

static int64_t encode(const float *x, int64_t n, uint8_t *out)
{
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK;
        float scale = scale_of(x + at, k);
        float by = scale > 0 && isfinite(1 / scale) ? 1 / scale : 0;

        memcpy(out, &scale, SCALE);
        out += SCALE;
        for (int64_t i = 0; i < k; i++) {
            float v = isnan(scale) ? 0 : rintf(x[at + i] * by);

            *out++ = (uint8_t)(int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
        }
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
            x[at + i] = (float)(int8_t)*in++ * scale;
    }
    return true;
}

const struct comm_codec comm_codec_int8 = {room, encode, decode, false, false};
