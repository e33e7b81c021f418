/* SPDX-License-Identifier: Apache-2.0
 *
 * SEM (CANDAR 2023): before models are put together, each is trained on the
 * data of two randomly paired clients. There is no public code; this is the
 * round as the abstract has it: all begin from the model, client a trains on
 * its own samples, the models of a pair are swapped, and each goes on with the
 * partner's samples; weights are the samples of both. What the paper leaves
 * open is chosen: as many epochs at both clients, nothing frozen, the rate is
 * not reset, and of an odd number the last one stays alone. */
#include "fed/fed_priv.h"

static void plan(struct fed *f, struct fed_plan *p)
{
    int64_t *c, n = fed_choose(f, p, &c);

    for (int64_t i = 0; i < n; i++) {
        int64_t partner = i ^ 1;

        fed_plan_task(p, PDL_FED_GLOBAL);
        fed_plan_visit(p, c[i], f->job->epochs);
        if (partner < n)
            fed_plan_visit(p, c[partner], f->job->epochs);
    }
}

const struct fed_alg fed_alg_sem = {
    .is = {.name = "sem",
           .summary = "models visit two clients before they are put together"},
    .plan = plan,
};
