/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as the simulator sees it: who sends how many bytes to whom, and what
 * waits for what. */
#include "coll_priv.h"

#include <limits.h>

static bool works(const struct pdl_coll_job *job)
{
    return job->dense_s_per_byte > 0 || job->pairs_s_per_byte > 0;
}

/* A rank that works has something to do after the last step, too. */
static int64_t nops(void *ctx, int rank)
{
    return pdl_coll_nsteps(ctx, rank) + works(ctx);
}

/* The step that this one waits for, the last if there are several; -1: none. */
static int64_t waits_for(const struct pdl_step *step)
{
    int64_t last = -1;

    for (int k = 0; k < step->nafter; k++)
        last = step->after[k] > last ? step->after[k] : last;
    return last;
}

static double work_on(const struct pdl_coll_job *job,
                      const struct pdl_step *step)
{
    int64_t bytes = pdl_coll_recv_bytes(job, step);
    bool pairs = coll_is_pairs(job, step->recv_terms);

    if (step->recv_from < 0)
        return 0;
    return (double)bytes *
           (pairs ? job->pairs_s_per_byte : job->dense_s_per_byte);
}

/* Cutting the own vector into streams. */
static double work_at_first(const struct pdl_coll_job *job)
{
    struct pdl_step own = {.recv_terms = 1, .nrecv = 1};

    own.recv[0] = coll_run(0, 0, job->buf[0].chunks);
    return coll_is_pairs(job, 1) ? work_on(job, &own) : 0;
}

/* The steps that end with the one waited for and began with it. */
static double work_after(const struct pdl_coll_job *job, int rank, int64_t last)
{
    int64_t before;
    struct pdl_step done;
    double s = 0;

    if (!works(job))
        return 0;
    if (last < 0)
        return work_at_first(job);
    pdl_coll_step(job, rank, last, &done);
    before = waits_for(&done);
    for (int64_t i = last; i > before; i--) {
        pdl_coll_step(job, rank, i, &done);
        s += work_on(job, &done);
    }
    return s;
}

static void last_work(const struct pdl_coll_job *job, int rank, int64_t i,
                      struct pdl_traffic_op *out)
{
    *out = (struct pdl_traffic_op){
        .send_to = -1,
        .recv_from = -1,
        .nafter = i > 0,
        .after = {i - 1},
        .compute_s = work_after(job, rank, i - 1),
    };
}

static void op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct pdl_coll_job *job = ctx;
    struct pdl_step step;

    if (i == pdl_coll_nsteps(job, rank)) {
        last_work(job, rank, i, out);
        return;
    }
    pdl_coll_step(job, rank, i, &step);
    *out = (struct pdl_traffic_op){
        .send_to = step.send_to,
        .recv_from = step.recv_from,
        .send_bytes = pdl_coll_send_bytes(job, &step),
        .recv_bytes = pdl_coll_recv_bytes(job, &step),
        .nafter = step.nafter,
        .compute_s = work_after(job, rank, waits_for(&step)),
    };
    for (int k = 0; k < step.nafter; k++)
        out->after[k] = step.after[k];
}

/* Equal numbers of chunks are equal bytes only where the chunks are equal. */
static bool equal_chunks(const struct pdl_coll_job *job)
{
    for (int b = 0; b < job->nbufs; b++)
        if (job->buf[b].count % job->buf[b].chunks != 0)
            return false;
    return true;
}

static int64_t alike(void *ctx, int64_t i)
{
    const struct pdl_coll_job *job = ctx;

    return equal_chunks(job) ? job->alg->alike(job, i) : 1;
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
        .alike = job->alg->alike && !works(job) ? alike : NULL,
        .host_of_rank = host_of_rank,
        .window = window(job),
    };
    if (job->alg->turns && equal_chunks(job))
        job->alg->turns(job, &out->turns);
}
