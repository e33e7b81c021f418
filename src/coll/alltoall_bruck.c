/* SPDX-License-Identifier: Apache-2.0
 *
 * Bruck all-to-all (Bruck et al., TPDS 1997): block j of buffer 2 is for the
 * rank j ahead; round k moves the blocks whose bit k is set 2^k ranks on. The
 * first step rotates the blocks into that order, the last one turns them
 * round: what arrived in block j is from the rank j behind. */
#include "coll_priv.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_need_multiple(job, job->nranks, err);

    if (st != PDL_OK)
        return st;
    job->nbufs = 3;
    job->buf[0] = job->buf[1] = job->buf[2] =
        (struct pdl_coll_buf){job->count, job->nranks};
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    (void)rank;
    return coll_log2(2 * (int64_t)job->nranks - 1) + 2;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    int64_t p = job->nranks, last = nsteps(job, rank) - 1;
    int64_t bit = (int64_t)1 << (s > 0 ? s - 1 : 0), whole, left;
    struct pdl_span move = {2, bit, bit, 2 * bit, 0};

    coll_chain(out, s);
    if (s == 0) {
        coll_send(out, rank, coll_run(0, rank, p));
        coll_recv(out, rank, coll_run(2, 0, p));
    } else if (s == last) {
        coll_send(out, rank, coll_run(2, 0, p));
        coll_recv(out, rank, (struct pdl_span){1, rank, 1, -1, p});
    } else {
        int to = (int)((rank + bit) % p), from = (int)coll_mod(rank - bit, p);

        whole = p / (2 * bit);
        left = p % (2 * bit) - bit; /* of the run that the end cuts off */
        move.n = whole;
        coll_send(out, to, move);
        coll_recv(out, from, move);
        if (left > 0) {
            move = coll_run(2, whole * 2 * bit + bit, left);
            coll_send(out, to, move);
            coll_recv(out, from, move);
        }
    }
}

/* Blocks whose number below P has bit k set, over all k. */
static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    int64_t p = job->nranks, blocks = 0;

    for (int64_t bit = 1; bit < p; bit *= 2) {
        int64_t left = p % (2 * bit) - bit;

        blocks += p / (2 * bit) * bit + (left > 0 ? left : 0);
    }
    out->rounds = coll_log2(2 * p - 1);
    out->bytes =
        (double)blocks * (double)job->count * job->elem_bytes / (double)p;
    out->reduced = 0;
}

const struct pdl_alg coll_alltoall_bruck = {
    .collective = &coll_alltoall,
    .name = "bruck",
    .summary = "blocks travel along the bits of their distance; short blocks",
    .source = "Bruck et al., TPDS 1997",
    .steps = "ceil(log2 P)",
    .bytes = "about N/2 log2 P",
    .limits = "P divides the count",
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .cost = cost,
};
