/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: the steps of a job listed, and a list of steps as an algorithm. */
#include "coll_priv.h"
#include "coll_text.h"

#include <inttypes.h>

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    const struct pdl_coll_program *prog = job->program;
    int64_t was = prog->buf[0].count;

    if (job->nranks != prog->nranks)
        return pdl_fail(err, PDL_EINVAL, "the program is for %d ranks",
                        prog->nranks);
    job->nbufs = prog->nbufs;
    job->params = prog->params;
    for (int b = 0; b < prog->nbufs; b++) {
        int64_t product;

        job->buf[b] = prog->buf[b];
        if (job->count == was)
            continue;
        if (was == 0 || !pdl_mul64(prog->buf[b].count, job->count, &product) ||
            product % was != 0)
            return pdl_fail(err, PDL_EINVAL,
                            "buffer %d of the program does not scale from "
                            "%" PRId64 " to %" PRId64 " elements",
                            b, was, job->count);
        job->buf[b].count = product / was;
    }
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    return job->program->nsteps[rank];
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    *out = job->program->steps[rank][s];
}

static int64_t window(const struct pdl_coll_job *job)
{
    int64_t most = 1;

    for (int r = 0; r < job->nranks; r++)
        if (job->program->nsteps[r] > most)
            most = job->program->nsteps[r];
    return most;
}

void coll_program_alg(struct pdl_coll_program *prog,
                      const struct pdl_collective *collective, const char *name,
                      bool sparse)
{
    prog->alg = (struct pdl_alg){
        .collective = collective,
        .name = name,
        .summary = "a program read from text",
        .source = "",
        .steps = "",
        .bytes = "",
        .limits = "",
        .sparse = sparse,
        .setup = setup,
        .nsteps = nsteps,
        .step = step,
        .window = window,
    };
}

enum pdl_status pdl_coll_list(const struct pdl_coll_job *job, pdl_arena *a,
                              struct pdl_coll_program **out,
                              struct pdl_err *err)
{
    struct pdl_coll_program *prog = PDL_NEW(a, struct pdl_coll_program, 1);
    const char *name = pdl_arena_strdup(a, job->alg->name);

    if (!prog || !name)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the program");
    coll_program_alg(prog, job->alg->collective, name, job->alg->sparse);
    prog->nranks = job->nranks;
    prog->nbufs = job->nbufs;
    memcpy(prog->buf, job->buf, sizeof prog->buf);
    prog->params = job->params;
    prog->elem_bytes = job->elem_bytes;
    prog->density = job->density;
    prog->nsteps = PDL_NEW(a, int64_t, job->nranks);
    prog->steps = PDL_NEW(a, struct pdl_step *, job->nranks);
    if (!prog->nsteps || !prog->steps)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the program");
    for (int r = 0; r < job->nranks; r++) {
        int64_t n = prog->nsteps[r] = pdl_coll_nsteps(job, r);

        prog->steps[r] = PDL_NEW(a, struct pdl_step, n + 1);
        if (!prog->steps[r])
            return pdl_fail(err, PDL_ENOMEM, "no memory for the program");
        for (int64_t s = 0; s < n; s++)
            pdl_coll_step(job, r, s, &prog->steps[r][s]);
    }
    *out = prog;
    return PDL_OK;
}

void pdl_coll_program_job(const struct pdl_coll_program *prog,
                          struct pdl_coll_job *job)
{
    *job = (struct pdl_coll_job){
        .alg = &prog->alg,
        .nranks = prog->nranks,
        .count = prog->buf[0].count,
        .elem_bytes = prog->elem_bytes,
        .density = prog->density,
        .params = prog->params,
        .program = prog,
        .nbufs = prog->nbufs,
    };
    memcpy(job->buf, prog->buf, sizeof job->buf);
}
