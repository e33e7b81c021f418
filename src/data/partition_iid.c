/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions in which labels are spread evenly: every client has as many
 * samples as any other (within one), or as many as its share says. */
#include "data_priv.h"

/* A random order over all classes: the list itself is one class by class. */
static int64_t at(struct data_split *s, struct pdl_order *o, int64_t i)
{
    if (i == 0)
        pdl_order_begin(o, &data_shuffle_global, s->rng.key, 1,
                        s->opt->samples);
    return pdl_order_at(o, i);
}

static enum pdl_status iid(struct data_split *s, struct pdl_err *err)
{
    int64_t n = s->opt->samples, m = s->opt->clients;
    struct pdl_order o;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        s->owner[at(s, &o, i)] = i % m;
    return PDL_OK;
}

enum { ALPHA, LEAST };

static enum pdl_status quantity(struct data_split *s, struct pdl_err *err)
{
    int64_t n = s->opt->samples;
    struct pdl_order o;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        s->list[i] = at(s, &o, i);
    data_draw_shares(s, s->with.value[ALPHA]);
    data_deal_shares(s, 0, n);
    data_top_up(s, (int64_t)s->with.value[LEAST]);
    return PDL_OK;
}

const struct data_partition data_partition_iid = {
    .is = {.name = "iid", .summary = "as many samples each, at random"},
    .split = iid,
};

const struct data_partition data_partition_quantity = {
    .is = {.name = "quantity",
           .summary = "at random, but of unequal numbers",
           .keys = {{"alpha", "of the Dirichlet distribution of the sizes", 1,
                     1e-3, 1e6, NULL},
                    {"least", "samples of a client", 1, 0, 1e9,
                     pdl_sampling_whole}}},
    .split = quantity,
};
