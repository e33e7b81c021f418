/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise exchange of samples: in pairing t rank r swaps its buffer with rank
 * t-r mod P; over P pairings every two ranks meet once (the circle method of
 * round-robin tournaments). A rank that meets itself keeps its samples. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    (void)err;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, 1};
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)job, (void)rank;
    return 1;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int peer = (int)coll_mod(job->params.round - rank, job->nranks);

    (void)s;
    coll_send(out, peer, coll_run(0, 0, 1));
    coll_recv(out, peer, coll_run(1, 0, 1));
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    out->rounds =
        job->nranks > 2 || (job->nranks == 2 && job->params.round % 2);
    out->bytes = out->rounds * (double)job->count * job->elem_bytes;
    out->reduced = 0;
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(round, 0, 1 << 30, "which pairing (0)"),
};

const struct pdl_alg coll_exchange_pairwise = {
    .collective = &coll_exchange,
    .name = "pairwise",
    .summary = "swap buffers with one partner",
    .source = "partial shuffling (Nguyen et al., IPDPS 2022)",
    .steps = "1",
    .bytes = "N",
    .limits = "",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
