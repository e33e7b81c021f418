/* SPDX-License-Identifier: Apache-2.0
 *
 * Do boxes tile a whole: every element in exactly one of them?
 *
 * The number of boxes over an element, as a function of the element, is
 * determined by its mixed differences, and those of one box are +1 or -1 at
 * its corners (the sign is the parity of the upper ends). So boxes tile the
 * whole exactly when the signed corners of all of them cancel but for those
 * of the whole. Points are summed by a 64-bit hash: one pass, n 2^d hashes,
 * where comparing every two boxes would take n^2; a false yes has probability
 * 2^-64. */
#include "ckpt_priv.h"

#include <string.h>
#include <xxhash.h>

static uint64_t corners(const struct pdl_box *b)
{
    int64_t at[PDL_BOX_DIMS];
    uint64_t sum = 0;

    for (unsigned k = 0; k < 1u << b->ndims; k++) {
        bool odd = false;
        uint64_t h;

        for (int d = 0; d < b->ndims; d++) {
            bool upper = k >> d & 1;

            at[d] = upper ? b->hi[d] : b->lo[d];
            odd ^= upper;
        }
        h = XXH3_64bits(at, (size_t)b->ndims * sizeof at[0]);
        sum += odd ? 0 - h : h;
    }
    return sum;
}

bool io_tiles(const struct io_shard *shard, int n, const int64_t *dim, int rank)
{
    struct pdl_box whole = {.ndims = rank};
    uint64_t sum = 0;

    memcpy(whole.hi, dim, (size_t)rank * sizeof dim[0]);
    if (pdl_box_empty(&whole)) /* nothing to hold */
        return true;
    for (int i = 0; i < n; i++)
        sum += corners(&shard[i].box);
    return sum == corners(&whole);
}
