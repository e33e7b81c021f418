/* SPDX-License-Identifier: Apache-2.0
 *
 * Label skew by a Dirichlet distribution (Yurochkin et al., ICML 2019; Hsu et
 * al., 2019): of each class the clients get shares drawn from Dirichlet(alpha).
 * A small alpha gives most of a class to few clients. */
#include "data_priv.h"

enum { ALPHA, LEAST };

static enum pdl_status split(struct data_split *s, struct pdl_err *err)
{
    (void)err;
    for (int64_t c = 0; c < s->opt->classes; c++) {
        data_draw_shares(s, s->with.value[ALPHA]);
        data_deal_shares(s, s->begin[c], s->begin[c + 1]);
    }
    data_top_up(s, (int64_t)s->with.value[LEAST]);
    return PDL_OK;
}

const struct data_partition data_partition_dirichlet = {
    .is = {.name = "dirichlet",
           .summary = "shares of each class drawn from Dirichlet(alpha)",
           .keys = {{"alpha", "small: few classes a client", 0.5, 1e-3, 1e6,
                     NULL},
                    {"least", "samples of a client", 1, 0, 1e9,
                     pdl_sampling_whole}}},
    .by_class = true,
    .split = split,
};
