/* SPDX-License-Identifier: Apache-2.0
 *
 * No shuffling: samples in the order of the files, in every epoch. For tests,
 * validation and data that were shuffled when they were written. */
#include "data_priv.h"

static void none_begin(struct pdl_order *o)
{
    (void)o;
}

static int64_t none_at(const struct pdl_order *o, int64_t i)
{
    (void)o;
    return i;
}

const struct pdl_shuffle data_shuffle_none = {
    .name = "none",
    .summary = "the order of the files, every epoch",
    .begin = none_begin,
    .at = none_at,
    .find = none_at,
};
