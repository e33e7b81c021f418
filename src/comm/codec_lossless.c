/* SPDX-License-Identifier: Apache-2.0
 *
 * Floats bit by bit, with exponents in four bits: gradients of one place have
 * exponents that lie together, mantissas are noise. A block of 512 is its
 * largest exponent, three planes of eight bits of sign and mantissa, and four
 * bits a value of how far below the exponent is; 14 says that it is 0 (what a
 * rectifier leaves), 15 that it is listed after them. A block in which too many
 * are listed is sent as it is. At best 28.06 bits of 32: all that float32
 * gradients give away. */
#include "comm_compress.h"
#include "comm_simd.h"

#include <string.h>

enum { BLOCK = 512, NONE = 14, FAR = 15, PLAIN = 1, HEAD = 4 };

/* A head is: plain or not, the largest exponent, 16 bits of how many follow. */
static int64_t room(int64_t n)
{
    return 4 * n + (n + BLOCK - 1) / BLOCK * HEAD;
}

static int64_t coded(int64_t n, int64_t far)
{
    return 3 * n + (n + 1) / 2 + far;
}

INLINE uint32_t exponent(uint32_t u)
{
    return u >> 23 & 255;
}

/* Four bits of each exponent; returns how many are to be listed. */
INLINE int64_t code(const uint32_t *u, int64_t n, uint32_t most, uint8_t *four)
{
    int64_t nfar = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t below = most - exponent(u[i]);
        uint32_t c = below < NONE ? below : FAR;

        c = exponent(u[i]) ? c : NONE;
        four[i] = (uint8_t)c;
        nfar += c == FAR;
    }
    return nfar;
}

INLINE int64_t encode_block(const uint32_t *u, int64_t n, uint8_t *out)
{
    uint8_t *low = out + HEAD, *near = low + 3 * n, *far = near + (n + 1) / 2;
    uint8_t four[BLOCK + 1];
    uint32_t most = 0;
    int64_t nfar;

    for (int64_t i = 0; i < n; i++)
        most = exponent(u[i]) > most ? exponent(u[i]) : most;
    nfar = code(u, n, most, four);
    four[n] = 0;
    out[0] = coded(n, nfar) >= 4 * n ? PLAIN : 0;
    out[1] = (uint8_t)most;
    out[2] = (uint8_t)nfar;
    out[3] = (uint8_t)(nfar >> 8);
    if (out[0]) {
        memcpy(low, u, (size_t)n * 4);
        return HEAD + 4 * n;
    }
    for (int64_t i = 0; i < n; i++) {
        low[i] = (uint8_t)u[i];
        low[n + i] = (uint8_t)(u[i] >> 8);
        low[2 * n + i] = (uint8_t)((u[i] >> 16 & 127) | u[i] >> 31 << 7);
    }
    for (int64_t i = 0; i < (n + 1) / 2; i++)
        near[i] = (uint8_t)(four[2 * i] | four[2 * i + 1] << 4);
    for (int64_t i = 0; nfar > 0 && i < n; i++)
        if (four[i] == FAR)
            *far++ = (uint8_t)exponent(u[i]);
    return HEAD + coded(n, nfar);
}

/* Exponents of n values; false: they are none. */
INLINE bool exponents(const uint8_t *in, int64_t n, int64_t nfar, uint8_t *e)
{
    const uint8_t *near = in + HEAD + 3 * n, *far = near + (n + 1) / 2;
    uint8_t four[BLOCK + 1] = {0}, most = in[1], bad = 0;
    int64_t found = 0;

    for (int64_t i = 0; i < (n + 1) / 2; i++) {
        four[2 * i] = near[i] & 15;
        four[2 * i + 1] = near[i] >> 4;
    }
    for (int64_t i = 0; i < n; i++) {
        uint8_t c = four[i];

        bad |= (uint8_t)(c < NONE && c > most);
        found += c == FAR;
        e[i] = c < NONE ? (uint8_t)(most - c) : 0;
    }
    if (bad || found != nfar)
        return false;
    for (int64_t i = 0; nfar > 0 && i < n; i++)
        if (four[i] == FAR)
            e[i] = *far++;
    return true;
}

/* Bytes of the block; 0: it is none. */
INLINE int64_t decode_block(const uint8_t *in, int64_t bytes, int64_t n,
                            uint32_t *u)
{
    const uint8_t *low = in + HEAD;
    int64_t nfar = bytes >= HEAD ? in[2] | in[3] << 8 : 0;
    uint8_t e[BLOCK];

    if (bytes < HEAD || bytes < HEAD + (in[0] ? 4 * n : coded(n, nfar)))
        return 0;
    if (in[0]) {
        memcpy(u, low, (size_t)n * 4);
        return HEAD + 4 * n;
    }
    if (!exponents(in, n, nfar, e))
        return 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t high = low[2 * n + i];

        u[i] = high >> 7 << 31 | (uint32_t)e[i] << 23 | (high & 127) << 16 |
               (uint32_t)low[n + i] << 8 | low[i];
    }
    return HEAD + coded(n, nfar);
}

MANY_TARGETS static int64_t encode(const float *x, int64_t n, uint8_t *out)
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

MANY_TARGETS static bool decode(const uint8_t *in, int64_t bytes, int64_t n,
                                float *x)
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
