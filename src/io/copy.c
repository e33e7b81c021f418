/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of elements between row-major arrays: what checkpoints and weights
 * are resharded with. The last dimension is one memcpy. */
#include "ckpt_priv.h"

#include <string.h>

bool io_box_bytes(const struct pdl_box *b, enum pdl_dtype t, int64_t *out)
{
    int64_t side[PDL_BOX_DIMS], n;

    for (int d = 0; d < b->ndims; d++)
        if (!pdl_add64(b->hi[d], -b->lo[d], &side[d]) || side[d] < 0)
            return false;
    if (!pdl_prod64(side, b->ndims, &n) ||
        !pdl_mul64(n, pdl_dtype_bits(t), &n) || n % 8 != 0)
        return false;
    *out = n / 8;
    return true;
}

static int64_t index_in(const struct pdl_box *b, const int64_t *at)
{
    int64_t i = 0;

    for (int d = 0; d < b->ndims; d++)
        i = i * (b->hi[d] - b->lo[d]) + at[d] - b->lo[d];
    return i;
}

void io_part_span(const struct pdl_box *part, const struct pdl_box *box,
                  int64_t *first, int64_t *end)
{
    int64_t last[PDL_BOX_DIMS] = {0};

    for (int d = 0; d < part->ndims; d++)
        last[d] = part->hi[d] - 1;
    *first = index_in(box, part->lo);
    *end = index_in(box, last) + 1;
}

void io_copy_part(const struct pdl_box *part, int64_t bytes,
                  const struct pdl_box *from, const void *src, int64_t skip,
                  const struct pdl_box *to, void *dst)
{
    int64_t at[PDL_BOX_DIMS] = {0}, run = 1;
    int d, n = part->ndims;

    if (pdl_box_empty(part))
        return;
    memcpy(at, part->lo, (size_t)n * sizeof at[0]);
    if (n > 0)
        run = part->hi[n - 1] - part->lo[n - 1];
    do {
        memcpy((char *)dst + index_in(to, at) * bytes,
               (const char *)src + (index_in(from, at) - skip) * bytes,
               (size_t)(run * bytes));
        for (d = n - 2; d >= 0 && ++at[d] == part->hi[d]; d--)
            at[d] = part->lo[d];
    } while (d >= 0);
}
