/* Between topk.c and topk_collect.c. */
#ifndef COMM_TOPK_H
#define COMM_TOPK_H

#include "comm_priv.h"

#include <string.h>

enum { COMM_TOPK_BLOCK = 16 };

/* Elements of magnitude m or more of n, in order. */
struct comm_collect {
    const float *x;
    float *sum;       /* x, where it is to be added to first */
    const float *add; /* or NULL */
    int64_t n, cap;
    uint32_t magnitude; /* 0 to 2^31 - 1 */
    uint32_t *index;    /* room for two blocks more than cap */
    float *value;
};

/* How many; -1: they do not fit. */
int64_t comm_collect(const struct comm_collect *c);

/* Larger numbers have larger ones. */
static inline uint32_t comm_magnitude(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u & 0x7fffffff;
}

#endif
