/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan's text is known by: XXH3 of its bytes. */
#include "plan_priv.h"

#include <xxhash.h>

uint64_t pdl_plan_hash(struct pdl_bytes text)
{
    return XXH3_64bits(text.data, text.len);
}
