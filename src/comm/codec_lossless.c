/* SPDX-License-Identifier: Apache-2.0
 *
 * Floats bit by bit, with exponents in four bits: gradients of one place have
 * exponents that lie together, mantissas are noise. A block of 512 is its
 * largest exponent, 24 bits of sign and mantissa a value, and four bits of how
 * far below the exponent is; 15 says that it is listed after them. A block in
 * which too many are far below is sent as it is. At best 28.06 bits of 32: all
 * that float32 gradients give away. */
#include "comm_compress.h"

#include <string.h>

enum { BLOCK = 512, FAR = 15, PLAIN = 1, HEAD = 4 };

/* A head is: plain or not, the largest exponent, 16 bits of how many follow. */
static int64_t room(int64_t n)
{
    return 4 * n + (n + BLOCK - 1) / BLOCK * HEAD;
}

static int64_t coded(int64_t n, int64_t far)
{
    return 3 * n + (n + 1) / 2 + far;
}

static int64_t encode_block(const uint32_t *u, int64_t n, uint8_t *out)
{
    uint8_t *low = out + HEAD, *near = low + 3 * n, *far = near + (n + 1) / 2;
    uint32_t most = 0;
    int64_t nfar = 0;

    for (int64_t i = 0; i < n; i++)
        most = (u[i] >> 23 & 255) > most ? u[i] >> 23 & 255 : most;
    for (int64_t i = 0; i < n; i++)
        nfar += most - (u[i] >> 23 & 255) >= FAR;
    out[0] = coded(n, nfar) >= 4 * n ? PLAIN : 0;
    out[1] = (uint8_t)most;
    out[2] = (uint8_t)nfar;
    out[3] = (uint8_t)(nfar >> 8);
    if (out[0]) {
        memcpy(low, u, (size_t)n * 4);
        return HEAD + 4 * n;
    }
    memset(near, 0, (size_t)(n + 1) / 2);
    for (int64_t i = 0; i < n; i++) {
        uint32_t below = most - (u[i] >> 23 & 255);
        uint32_t part = (u[i] >> 31 << 23) | (u[i] & 0x7fffff);

        low[3 * i] = (uint8_t)part;
        low[3 * i + 1] = (uint8_t)(part >> 8);
        low[3 * i + 2] = (uint8_t)(part >> 16);
        if (below >= FAR)
            *far++ = (uint8_t)(u[i] >> 23);
        near[i / 2] |= (uint8_t)((below < FAR ? below : FAR) << i % 2 * 4);
    }
    return HEAD + coded(n, nfar);
}

/* Bytes of the block; 0: it is none. */
static int64_t decode_block(const uint8_t *in, int64_t bytes, int64_t n,
                            uint32_t *u)
{
    const uint8_t *low = in + HEAD, *near = low + 3 * n;
    const uint8_t *far = near + (n + 1) / 2;
    int64_t nfar = bytes >= HEAD ? in[2] | in[3] << 8 : 0, found = 0;

    if (bytes < HEAD || bytes < HEAD + (in[0] ? 4 * n : coded(n, nfar)))
        return 0;
    if (in[0]) {
        memcpy(u, low, (size_t)n * 4);
        return HEAD + 4 * n;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t below = near[i / 2] >> i % 2 * 4 & 15, e;
        uint32_t part = (uint32_t)low[3 * i] | (uint32_t)low[3 * i + 1] << 8 |
                        (uint32_t)low[3 * i + 2] << 16;

        if ((below == FAR && found == nfar) || (below != FAR && below > in[1]))
            return 0;
        e = below == FAR ? far[found++] : in[1] - below;
        u[i] = part >> 23 << 31 | e << 23 | (part & 0x7fffff);
    }
    return found == nfar ? HEAD + coded(n, nfar) : 0;
}

static int64_t encode(const float *x, int64_t n, uint8_t *out)
{
    uint8_t *to = out;
    uint32_t u[BLOCK];

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK;

        memcpy(u, x + at, (size_t)k * sizeof *u);
        to += encode_block(u, k, to);
    }
    return to - out;
}

static bool decode(const uint8_t *in, int64_t bytes, int64_t n, float *x)
{
    uint32_t u[BLOCK];

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK;
        int64_t used = decode_block(in, bytes, k, u);

        if (used == 0)
            return false;
        memcpy(x + at, u, (size_t)k * sizeof *u);
        in += used;
        bytes -= used;
    }
    return bytes == 0;
}

const struct comm_codec comm_codec_lossless = {room, encode, decode, true,
                                               true};
