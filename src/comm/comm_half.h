/* 16-bit floats as bits: to nearest even, a NaN stays one. Written without
 * branches, so that loops over them become vectors. */
#ifndef COMM_HALF_H
#define COMM_HALF_H

#include "comm_simd.h"

#include <stdint.h>
#include <string.h>

INLINE float as_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

INLINE uint32_t as_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

/* u < limit ? yes : no, for u and limit below 2^31; written so that the
 * compiler sees no branch and vectorises. */
INLINE uint32_t below(uint32_t u, uint32_t limit, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0 - ((u - limit) >> 31);

    return (yes & mask) | (no & ~mask);
}

INLINE float from_bf16(uint16_t h)
{
    return as_float((uint32_t)h << 16);
}

INLINE uint16_t to_bf16(float f)
{
    uint32_t u = as_bits(f);
    uint32_t nearest = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t quiet = u >> 16 | 0x40;

    return (uint16_t)below(u & 0x7fffffff, 0x7f800001, nearest, quiet);
}

/* The exponent is moved from bias 15 to 127; a subnormal is made a normal
 * number with one bit too much, which a subtraction takes off again. */
INLINE float from_fp16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t u = (uint32_t)(h & 0x7fff) << 13;
    uint32_t normal = u + ((127u - 15) << 23);
    uint32_t special = u + ((255u - 31) << 23);
    float small = as_float(u + (113u << 23)) - as_float(113u << 23);

    u = u < (1u << 23) ? as_bits(small) : (u >= (31u << 23) ? special : normal);
    return as_float(u | sign);
}

/* A subnormal is rounded by the adder: added to a number whose last bit has
 * the subnormal's weight. Too large ones carry into the exponent: infinity. */
INLINE uint16_t to_fp16(float f)
{
    uint32_t u = as_bits(f), sign = u >> 16 & 0x8000;
    uint32_t magic = (127u - 15 + 23 - 10 + 1) << 23;
    uint32_t small, normal, large;

    u &= 0x7fffffff;
    small = as_bits(as_float(u) + as_float(magic)) - magic;
    normal = (u - ((127u - 15) << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    large = below(u, 0x7f800001, 0x7c00, 0x7e00);
    u = below(u, 113u << 23, small, below(u, 143u << 23, normal, large));
    return (uint16_t)(u | sign);
}

#endif
