/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats at a time, wherever they lie: a register of AVX2, in which the
 * loops of our own convolutions and pools are written. */
#ifndef TRAIN_SIMD_VECTOR_H
#define TRAIN_SIMD_VECTOR_H

#include <string.h>

/* Constant arguments must reach the loops they count. */
#define INLINE __attribute__((always_inline)) static inline

typedef float v8 __attribute__((vector_size(32)));

static inline v8 load(const float *p)
{
    v8 v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, v8 v)
{
    memcpy(p, &v, sizeof v);
}

static inline v8 all(float x)
{
    return (v8){x, x, x, x, x, x, x, x};
}

#endif
