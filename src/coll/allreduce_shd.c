/* SPDX-License-Identifier: Apache-2.0
 *
 * Shifted halving-doubling by pairs, for DLN(q,p) networks (after T. T.
 * Nguyen et al., CCGrid 2021; reconstruction). Halving-doubling, near first,
 * uses of the shortcuts of length 2^k only those that start at switches whose
 * bit k is 0. Here half of the ranks of every switch go the other way round:
 * their partner is at s+2^k when bit k of s is 1 and at s-2^k when it is 0.
 * Lower bits are untouched by the carry, so partners hold the same interval;
 * that is why the order must be near first. */
#include "coll_priv.h"
#include "coll_shd.h"

static int64_t shd_partner(const struct coll_butterfly *b, int64_t i, int j)
{
    struct coll_shd n = coll_shd_shape(b->job);
    int64_t sw = i >> n.local, local = i & (((int64_t)1 << n.local) - 1);
    int k = j - n.local;

    if (k < 0 || !coll_shd_shifted(&n, i))
        return i ^ ((int64_t)1 << j);
    sw = coll_shd_hop(&n, sw, k, sw >> k & 1 ? 1 : -1);
    return sw << n.local | local;
}

static struct coll_fold body(const struct pdl_coll_job *job)
{
    return (struct coll_fold){
        .halve = true,
        .b = {.rounds = coll_log2(job->nranks),
              .job = job,
              .partner = shd_partner,
              .bit = coll_bit_near},
    };
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return 2 * (int64_t)coll_log2(job->nranks);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_fold f = body(job);
    struct coll_group g = {0, 1, job->nranks, rank};
    struct coll_view v = {0, 0, 1};

    coll_fold_step(&f, &g, &v, s, out);
    coll_chain(out, s);
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    struct coll_fold f = body(job);

    *out = (struct pdl_coll_cost){0, 0, 0};
    coll_fold_cost(&f, job->nranks, (double)job->count * job->elem_bytes, out);
}

static const struct pdl_alg_key keys[] = {COLL_SHD_KEYS};

const struct pdl_alg coll_allreduce_shd = {
    .collective = &coll_allreduce,
    .name = "shd",
    .summary = "shifted halving-doubling: uses every shortcut of a DLN",
    .source = "Nguyen et al., CCGrid 2021 (reconstruction)",
    .steps = "2 log2 P",
    .bytes = "2N(P-1)/P",
    .limits = "powers of two",
    COLL_KEYS(keys),
    .setup = coll_shd_settle,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
