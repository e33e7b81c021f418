/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as the simulator sees it: who sends how many bytes to whom, and what
 * waits for what. */
#include "coll_priv.h"

#include <limits.h>

static int64_t nops(void *ctx, int rank)
{
    return pdl_coll_nsteps(ctx, rank);
}

static void op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct pdl_coll_job *job = ctx;
    struct pdl_step step;

    pdl_coll_step(job, rank, i, &step);
    *out = (struct pdl_traffic_op){
        .send_to = step.send_to,
        .recv_from = step.recv_from,
        .send_bytes = pdl_coll_send_bytes(job, &step),
        .recv_bytes = pdl_coll_recv_bytes(job, &step),
        .nafter = step.nafter,
    };
    for (int k = 0; k < step.nafter; k++)
        out->after[k] = step.after[k];
}

/* Equal numbers of chunks are equal bytes only where the chunks are equal. */
static int64_t alike(void *ctx, int64_t i)
{
    const struct pdl_coll_job *job = ctx;

    for (int b = 0; b < job->nbufs; b++)
        if (job->buf[b].count % job->buf[b].chunks != 0)
            return 1;
    return job->alg->alike(job, i);
}

static int window(const struct pdl_coll_job *job)
{
    int64_t steps = job->alg->window ? job->alg->window(job) : 1;

    return steps < 1 ? 1 : steps < INT_MAX ? (int)steps : INT_MAX;
}

void pdl_coll_traffic(const struct pdl_coll_job *job, const int *host_of_rank,
                      struct pdl_traffic *out)
{
    *out = (struct pdl_traffic){
        .nranks = job->nranks,
        /* the simulator hands it back to the functions above, which only
         * read it */
        .ctx = (void *)(uintptr_t)job,
        .nops = nops,
        .op = op,
        .alike = job->alg->alike ? alike : NULL,
        .host_of_rank = host_of_rank,
        .window = window(job),
    };
}
