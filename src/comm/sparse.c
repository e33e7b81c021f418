/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a sparse allreduce, and what to do with its result.
 *
 * Where no algorithm is asked for, the one whose busiest rank needs least time
 * is taken, each round of messages costing a start and its expected bytes
 * (pdl_coll_sparse_bytes: the union of random positions). The two constants
 * are those of messages between two processes of a node; only their ratio
 * matters: 10 KB take as long as a start. */
#include "comm_sparse.h"

#include <inttypes.h>
#include <stdlib.h>

static const double start_s = 2e-6, s_per_byte = 1 / 5e9;

/* ---- choosing --------------------------------------------------------- */

/* Expected time of a rank's steps; those of one round start together. */
static double rank_time(const struct pdl_coll_job *job, int rank)
{
    int64_t nsteps = pdl_coll_nsteps(job, rank), round = 0;
    double time = 0;

    for (int64_t i = 0; i < nsteps; i++) {
        struct pdl_step step;
        bool waits = i == 0;

        pdl_coll_step(job, rank, i, &step);
        for (int k = 0; k < step.nafter; k++)
            waits = waits || step.after[k] >= round;
        if (waits) {
            round = i;
            time += start_s;
        }
        time += (double)pdl_coll_send_bytes(job, &step) * s_per_byte;
    }
    return time;
}

static enum pdl_status choose(struct pdl_coll_job *job, struct pdl_err *err)
{
    double best = -1;

    for (int i = 0; pdl_alg_at(i); i++) {
        struct pdl_coll_job try = *job;
        double time;

        try.alg = pdl_alg_at(i);
        if (!try.alg->sparse || pdl_coll_setup(&try, NULL) != PDL_OK)
            continue;
        time = rank_time(&try, 0);
        if (best < 0 || time < best) {
            best = time;
            *job = try;
        }
    }
    return best >= 0
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "no sparse allreduce runs on %d ranks", job->nranks);
}

static enum pdl_status make_job(const pdl_comm *c, int64_t dim, int64_t entries,
                                const char *algorithm, struct pdl_coll_job *job,
                                struct pdl_err *err)
{
    enum pdl_status st;

    *job = (struct pdl_coll_job){
        .nranks = pdl_comm_size(c), .count = dim, .elem_bytes = sizeof(float)};
    if (dim < 0 || dim > UINT32_MAX || entries < 0 || entries > dim)
        return pdl_fail(err, PDL_EINVAL,
                        "a sparse allreduce of %" PRId64 " of %" PRId64
                        " elements",
                        entries, dim);
    job->density = dim > 0 ? (double)entries / (double)dim : 0;
    if (!algorithm)
        return choose(job, err);
    st = pdl_alg_parse("allreduce", algorithm, job, err);
    if (st != PDL_OK)
        return st;
    if (!job->alg->sparse)
        return pdl_fail(err, PDL_EINVAL, "%s does not take sparse vectors",
                        job->alg->name);
    return pdl_coll_setup(job, err);
}

/* Does the program send sums as they are, all values? */
static bool sends_dense(const struct pdl_coll_job *job, int rank)
{
    int64_t nsteps = pdl_coll_nsteps(job, rank);

    for (int64_t i = 0; i < nsteps; i++) {
        struct pdl_step step;

        pdl_coll_step(job, rank, i, &step);
        if (step.send_to >= 0 && step.send_terms == 0)
            return true;
    }
    return false;
}

/* A result that others read parts of is in a window: they take them from where
 * they are, without the kernel. */
static enum pdl_status take_result(pdl_comm_sparse *s, struct pdl_err *err)
{
    int64_t words = s->job.count > 0 ? s->job.count : 1;
    void *p = NULL;
    enum pdl_status st =
        pdl_comm_alloc(s->comm, words * (int64_t)sizeof(uint32_t), &p, err);

    s->result.dim = s->job.count;
    s->result.words = p;
    s->result.cap = words;
    return st;
}

/* ---- life ------------------------------------------------------------- */

enum pdl_status pdl_comm_sparse_create(pdl_comm *c, int64_t dim,
                                       int64_t entries, const char *algorithm,
                                       pdl_comm_sparse **out,
                                       struct pdl_err *err)
{
    struct pdl_coll_job job;
    enum pdl_status st = make_job(c, dim, entries, algorithm, &job, err);
    pdl_comm_sparse *s;

    if (st != PDL_OK)
        return st;
    s = calloc(1, sizeof *s);
    if (s)
        s->chunk = calloc((size_t)job.buf[0].chunks + 1, sizeof *s->chunk);
    if (!s || !s->chunk) {
        free(s);
        return pdl_fail(err, PDL_ENOMEM, "no memory for a sparse allreduce");
    }
    s->comm = c;
    s->job = job;
    s->ends_dense = sends_dense(&job, pdl_comm_rank(c));
    st = s->ends_dense ? take_result(s, err) : PDL_OK;
    if (st == PDL_OK)
        *out = s;
    else
        pdl_comm_sparse_destroy(s);
    return st;
}

void pdl_comm_sparse_destroy(pdl_comm_sparse *s)
{
    if (!s)
        return;
    if (s->flying) /* its messages lie in what is freed here */
        pdl_comm_wait(s->flying, NULL);
    for (int64_t i = 0; i < s->job.buf[0].chunks; i++)
        comm_stream_free(&s->chunk[i]);
    for (int64_t i = 0; i < s->ninbox; i++)
        comm_stream_free(&s->inbox[i]);
    comm_stream_free(&s->spare);
    if (s->ends_dense) {
        pdl_comm_free(s->comm, s->result.words, NULL);
        s->result.words = NULL;
    }
    comm_stream_free(&s->result);
    free(s->chunk);
    free(s->inbox);
    free(s->out.at);
    free(s->in.at);
    free(s->lengths);
    free(s->message);
    free(s);
}

const char *pdl_comm_sparse_algorithm(const pdl_comm_sparse *s)
{
    return s->job.alg->name;
}

int64_t pdl_comm_sparse_sent(const pdl_comm_sparse *s)
{
    return s->sent;
}

void pdl_sparse_add(const struct pdl_sparse *x, float scale, float *y)
{
    if (x->index)
        for (int64_t i = 0; i < x->n; i++)
            y[x->index[i]] += scale * x->value[i];
    else
        for (int64_t i = 0; i < x->n; i++)
            y[i] += scale * x->value[i];
}
