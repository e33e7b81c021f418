/* SPDX-License-Identifier: Apache-2.0
 *
 * The pathological partition of McMahan et al. (AISTATS 2017): samples in the
 * order of their labels are cut into k shards for each client, of equal size,
 * and every client gets k of them at random. A client sees about k classes: a
 * shard may hold the end of one class and the beginning of the next. */
#include "data_priv.h"

static enum pdl_status split(struct data_split *s, struct pdl_err *err)
{
    int64_t k = (int64_t)s->with.value[0], n = s->opt->samples, shards;
    struct pdl_order o;

    if (!pdl_mul64(k, s->opt->clients, &shards) || shards > n)
        return pdl_fail(err, PDL_EINVAL,
                        "pathological: %lld clients with %lld shards each, "
                        "but %lld samples",
                        (long long)s->opt->clients, (long long)k, (long long)n);
    pdl_order_begin(&o, &data_shuffle_global, s->rng.key, 1, shards);
    for (int64_t i = 0; i < n; i++) {
        int64_t shard = i / (n / shards);

        shard = shard < shards ? shard : shards - 1; /* the last takes more */
        s->owner[s->list[i]] = pdl_order_at(&o, shard) / k;
    }
    return PDL_OK;
}

const struct data_partition data_partition_pathological = {
    .is = {.name = "pathological",
           .summary = "samples by label, in shards; a few for each client",
           .keys = {{"classes", "shards of a client", 2, 1, 1e6,
                     pdl_sampling_whole}}},
    .by_class = true,
    .split = split,
};
