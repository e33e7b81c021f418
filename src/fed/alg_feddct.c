/* SPDX-License-Identifier: Apache-2.0
 *
 * FedDCT (IEEE TNSM 21(1), 2024): a network is divided into S narrow ones that
 * clusters of S clients train together, the clients taking turns to give the
 * samples. The loss is the sum of the parts' cross-entropies and lambda times
 * the Jensen-Shannon divergence of what they say; lambda rises from 0 over the
 * first `warm` rounds (in the authors' script it never does). A device holds
 * one part; the owner of the samples computes the stems of all one after the
 * other, and exchanges their outputs and gradients (stems.c). The server
 * takes the plain mean over clusters; what is tested is the mean of the
 * logits. */
#include "fed/fed_priv.h"

enum { PARTS, TOGETHER, WARM, STEMS };

static double together(const struct fed *f)
{
    double share = (double)(f->plan.is.round + 1) / fed_value(f, WARM);

    return fed_value(f, TOGETHER) * (share < 1 ? share : 1);
}

/* Outputs of the other parts' stems, there and back, for every sample. */
static int64_t exchanged(const struct fed *f, const struct pdl_fed_visit *v)
{
    return 8 * (int64_t)fed_trained(f, v) * fed_learner_stem(f->learner) *
           ((int64_t)fed_value(f, PARTS) - 1);
}

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    int64_t parts = (int64_t)fed_value(f, PARTS), n = f->job->select;

    n = n > 0 && n < f->able ? n : f->able;
    return n >= parts ? PDL_OK
                      : pdl_fail(err, PDL_EINVAL,
                                 "feddct: %lld parts are on the devices of as "
                                 "many clients, but a round has %lld",
                                 (long long)parts, (long long)n);
}

/* Who is left over joins the last cluster: a part has its device. */
static void plan(struct fed *f, struct fed_plan *p)
{
    int64_t *c, n = fed_choose(f, p, &c);
    int64_t parts = (int64_t)fed_value(f, PARTS);

    for (int64_t i = 0; i < n && n >= parts; i++) {
        if (i % parts == 0 && n - i >= parts)
            fed_plan_task(p, PDL_FED_GLOBAL);
        fed_plan_visit(p, c[i], f->job->epochs);
    }
}

static void take(struct fed *f, const struct fed_back *b)
{
    fed_add(f, b->up, 1);
}

static const char *const stems[] = {"again", "keep", NULL};

const struct fed_alg fed_alg_feddct = {
    .is = {.name = "feddct",
           .summary = "a divided network, trained together by clusters",
           .keys = {{"parts", "networks, and clients of a cluster", 4, 2, 64,
                     pdl_sampling_whole},
                    {"together", "weight of their agreement", 0.5, 0, 1e3,
                     NULL},
                    {"warm", "rounds in which that rises", 40, 1, 1e6, NULL},
                    {"stems", "of all parts: computed again, or kept", 0, 0, 1,
                     stems}}},
    .parts_key = PARTS + 1,
    .stems_key = STEMS + 1,
    .open = begin,
    .exchanged = exchanged,
    .plan = plan,
    .take = take,
    .together = together,
};
