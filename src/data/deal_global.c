/* SPDX-License-Identifier: Apache-2.0
 *
 * Every worker can have every sample: the order is one of all of them. */
#include "data_priv.h"

const struct data_deal data_deal_global = {
    .is = {.name = "global",
           .summary = "a new random order of all samples every epoch"},
    .how = &data_shuffle_global,
};

const struct data_deal data_deal_none = {
    .is = {.name = "none", .summary = "the order of the files, every epoch"},
    .how = &data_shuffle_none,
};
