/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of an epoch: consecutive positions. Global ones: how a batch is
 * dealt to ranks is the plan's business and changes nothing here. */
#include "paradl/data.h"

#include <assert.h>

int64_t pdl_batch_count(const struct pdl_batching *b)
{
    assert(b->batch > 0 && b->samples >= 0);
    return b->samples / b->batch +
           (b->keep_last && b->samples % b->batch > 0 ? 1 : 0);
}

void pdl_batch_range(const struct pdl_batching *b, int64_t i, int64_t *lo,
                     int64_t *hi)
{
    assert(i >= 0 && i < pdl_batch_count(b));
    *lo = i * b->batch;
    *hi = b->batch < b->samples - *lo ? *lo + b->batch : b->samples;
}

void pdl_batch_locate(const struct pdl_batching *b, int64_t step,
                      int64_t *epoch, int64_t *index)
{
    int64_t n = pdl_batch_count(b);

    assert(n > 0 && step >= 0);
    *epoch = step / n;
    *index = step % n;
}
