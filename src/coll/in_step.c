/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs whose ranks are in step: operation s of every rank waits just for
 * its operation s-1, and every message is sent and received in operations of
 * one number. Round after round is then a legal order, and each rank's steps
 * are ordered, so that nothing that run.c and hazards.c look for can go wrong
 * but inside a step. Every step is made once instead of seven times. */
#include "coll_priv.h"

/* One run of chunks, or none. */
static bool plain(const struct pdl_span *spans, int n)
{
    return n == 0 || (n == 1 && spans[0].n == 1);
}

/* Does it receive into a chunk that it sends? Both are one run. */
static bool meets(const struct pdl_coll_job *job, const struct pdl_step *s)
{
    const struct pdl_span *a = &s->send[0], *b = &s->recv[0];
    int64_t n = job->buf[a->buf].chunks;

    if (s->nsend == 0 || s->nrecv == 0 || a->buf != b->buf)
        return false;
    return coll_mod(b->first - a->first, n) < a->run ||
           coll_mod(a->first - b->first, n) < b->run;
}

static bool is_simple(const struct pdl_coll_job *job, int rank, int64_t s,
                      const struct pdl_step *step)
{
    return step->nafter == (s > 0) && (s == 0 || step->after[0] == s - 1) &&
           step->send_to != rank && plain(step->send, step->nsend) &&
           plain(step->recv, step->nrecv) &&
           coll_check_step(job, rank, s, step, NULL) == PDL_OK &&
           !meets(job, step);
}

static bool read_round(const struct pdl_coll_job *job, int64_t s,
                       struct pdl_step *steps)
{
    for (int r = 0; r < job->nranks; r++) {
        pdl_coll_step(job, r, s, &steps[r]);
        if (!is_simple(job, r, s, &steps[r]))
            return false;
    }
    for (int r = 0; r < job->nranks; r++)
        if ((steps[r].send_to >= 0 && steps[steps[r].send_to].recv_from != r) ||
            (steps[r].recv_from >= 0 && steps[steps[r].recv_from].send_to != r))
            return false;
    return true;
}

static enum pdl_status move_round(struct coll_run *run, int64_t s,
                                  const struct pdl_step *steps, int64_t *sent,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int r = 0; st == PDL_OK && r < run->job->nranks; r++) {
        int to = steps[r].send_to;
        struct coll_message m = {r, to, s, s, &steps[r], NULL, false};

        if (to < 0)
            continue;
        m.recv = &steps[to];
        run->messages++;
        if (!pdl_add64(sent[r], pdl_coll_send_bytes(run->job, &steps[r]),
                       &sent[r]))
            sent[r] = INT64_MAX;
        st = run->transfer(run->ctx, &m, err);
    }
    return st;
}

enum pdl_status coll_walk_in_step(struct coll_run *run, pdl_arena *a, bool *all,
                                  struct pdl_err *err)
{
    const struct pdl_coll_job *job = run->job;
    int64_t n = pdl_coll_nsteps(job, 0);
    struct pdl_step *steps = PDL_NEW(a, struct pdl_step, job->nranks);
    int64_t *sent = PDL_NEW(a, int64_t, job->nranks);
    enum pdl_status st = PDL_OK;

    *all = true;
    if (!steps || !sent)
        return pdl_fail(err, PDL_ENOMEM, "the job is too large to run here");
    for (int r = 0; r < job->nranks; r++)
        *all = *all && pdl_coll_nsteps(job, r) == n;
    for (int64_t s = 0; st == PDL_OK && *all && s < n; s++) {
        *all = read_round(job, s, steps);
        if (*all)
            st = move_round(run, s, steps, sent, err);
    }
    run->steps = n;
    run->ports = run->messages > 0;
    for (int r = 0; r < job->nranks; r++)
        run->rank_bytes = sent[r] > run->rank_bytes ? sent[r] : run->rank_bytes;
    return st;
}
