/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all on the 2-D fully connected network, whole blocks: a block from
 * (x,y) for (u,v) goes x first when x+y+u+v is even, else y first. The load of
 * half-split (for even sizes) without cutting blocks. */
#include "coll_priv.h"
#include "coll_full2d.h"

static const struct coll_full2d variant = {.orders = {true, true},
                                           .parity = true};

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    return coll_full2d_setup(job, &variant, err);
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_full2d_nsteps(job, &variant);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    coll_full2d_step(job, &variant, rank, s, out);
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {COLL_FULL2D_KEYS};

const struct pdl_alg coll_alltoall_parity = {
    .collective = &coll_alltoall,
    .name = "parity",
    .summary = "whole blocks, x or y first by parity; no splitting",
    .source = "Nguyen et al., CCGrid 2024 (reconstruction)",
    .steps = "2 rounds",
    .bytes = "about max(x,y)N/P on the busiest link",
    .limits = "xy = P; P divides the count",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
};
