/* SPDX-License-Identifier: Apache-2.0
 *
 * Is one step, on its own, well formed? What follows relies on it: numbers in
 * range, spans inside their buffers, waits only for earlier steps. */
#include "coll_priv.h"

#include <inttypes.h>

int64_t coll_cells(const struct pdl_coll_job *job, int b)
{
    int64_t n = 0;

    for (int i = 0; i < b; i++)
        n += job->buf[i].chunks;
    return n;
}

static bool spans_fit(const struct pdl_coll_job *job,
                      const struct pdl_span *spans, int n)
{
    if (n < 0 || n > PDL_STEP_SPANS)
        return false;
    for (int i = 0; i < n; i++) {
        const struct pdl_span *s = &spans[i];
        int64_t chunks, listed;

        if (s->buf < 0 || s->buf >= job->nbufs)
            return false;
        chunks = job->buf[s->buf].chunks;
        if (s->first < 0 || s->first >= chunks || s->run < 1 || s->n < 1 ||
            s->stride < -chunks || s->stride > chunks)
            return false;
        if (!pdl_mul64(s->run, s->n, &listed) || listed > chunks)
            return false;
    }
    return true;
}

enum pdl_status coll_check_step(const struct pdl_coll_job *job, int rank,
                                int64_t s, const struct pdl_step *step,
                                struct pdl_err *err)
{
    bool sends = step->send_to >= 0, receives = step->recv_from >= 0;

    if (step->send_to < -1 || step->send_to >= job->nranks ||
        step->recv_from < -1 || step->recv_from >= job->nranks)
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": no such peer", rank, s);
    if ((step->send_to == rank) != (step->recv_from == rank))
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": half of a local copy", rank,
                        s);
    if (!spans_fit(job, step->send, step->nsend) ||
        !spans_fit(job, step->recv, step->nrecv))
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": a span leaves its buffer",
                        rank, s);
    if (sends != (step->nsend > 0) || receives != (step->nrecv > 0))
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": a message of nothing", rank,
                        s);
    if (step->nafter < 0 || step->nafter > PDL_STEP_AFTER)
        return pdl_fail(err, PDL_EWRONG,
                        "rank %d step %" PRId64 ": waits for too many", rank,
                        s);
    for (int i = 0; i < step->nafter; i++)
        if (step->after[i] < 0 || step->after[i] >= s)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d step %" PRId64 ": waits for step %" PRId64
                            ", which is not before",
                            rank, s, step->after[i]);
    return PDL_OK;
}
