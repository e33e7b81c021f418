/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes: the one intersection under halos, resharding, checkpoints, data
 * loading and byte counts. tests/plan/test_box.c compares it with an
 * item-by-item count. */
#include "paradl/base.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool pdl_box_empty(const struct pdl_box *b)
{
    for (int d = 0; d < b->ndims; d++)
        if (b->hi[d] <= b->lo[d])
            return true;
    return false;
}

int64_t pdl_box_volume(const struct pdl_box *b)
{
    int64_t v = 1;

    if (pdl_box_empty(b))
        return 0;
    for (int d = 0; d < b->ndims; d++)
        v *= b->hi[d] - b->lo[d];
    return v;
}

bool pdl_box_intersect(const struct pdl_box *a, const struct pdl_box *b,
                       struct pdl_box *out)
{
    struct pdl_box r = {.ndims = a->ndims};

    for (int d = 0; d < a->ndims; d++) {
        r.lo[d] = max64(a->lo[d], b->lo[d]);
        r.hi[d] = max64(r.lo[d], min64(a->hi[d], b->hi[d]));
    }
    *out = r;
    return !pdl_box_empty(&r);
}

int64_t pdl_box_run(const struct pdl_box *whole, const struct pdl_box *part,
                    bool channels_last)
{
    bool last = channels_last && whole->ndims > 2;
    int64_t run = 1;

    for (int i = 0; i < whole->ndims; i++) { /* from the innermost on */
        int d = whole->ndims - 1 - i;

        if (last)
            d = i == 0 ? 1 : d >= 1 ? d + 1 : d;
        run *= max64(0, part->hi[d] - part->lo[d]);
        if (part->hi[d] - part->lo[d] != whole->hi[d] - whole->lo[d])
            break;
    }
    return run;
}
