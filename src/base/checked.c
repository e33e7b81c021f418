/* SPDX-License-Identifier: Apache-2.0
 *
 * int64 arithmetic that says when it overflows. */
#include "paradl/base.h"

bool pdl_add64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

bool pdl_mul64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

bool pdl_prod64(const int64_t *dims, int n, int64_t *out)
{
    int64_t r = 1;
    bool fits = true, zero = false;

    for (int i = 0; i < n; i++) {
        if (dims[i] < 0)
            return false;
        zero = zero || dims[i] == 0;
        fits = fits && pdl_mul64(r, dims[i], &r);
    }
    if (!fits && !zero) /* 0 anywhere makes 0, in whatever order */
        return false;
    *out = zero ? 0 : r;
    return true;
}
