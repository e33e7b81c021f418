/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums in the order of ranks, ((x0 + x1) + x2) + ..., so that every rank,
 * every machine and every mapping gets the same bits. Rank r, S being P-1
 * sends and the steps that join them:
 *
 *   0 .. S-1        its part for rank r+1+i goes to that rank, all at once
 *   S .. S+P-1      the parts of ranks 0, 1, ... for it are added up in
 *                   buffer 1, one after the other, its own at its turn
 *   S+P             the sum goes back to buffer 0
 *   S+P+1 ..        the sum goes to rank r+1+i; that of r-1-i arrives
 *
 * A part of buffer 0 is overwritten only after its message has left. */
#include "coll_ordered.h"

enum pdl_status coll_ordered_setup(struct pdl_coll_job *job,
                                   const struct coll_ordered *o)
{
    job->nbufs = 2;
    job->buf[0] = job->buf[1] =
        (struct pdl_coll_buf){job->count, o->cut ? job->nranks : 1};
    return PDL_OK;
}

int64_t coll_ordered_nsteps(const struct pdl_coll_job *job,
                            const struct coll_ordered *o)
{
    int64_t p = job->nranks;

    if (p == 1)
        return 0;
    return coll_split_nsteps(job->nranks) + p + 1 + (o->gather ? p - 1 : 0);
}

static struct pdl_span part(const struct coll_ordered *o, int buf, int rank)
{
    return coll_run(buf, o->cut ? rank : 0, 1);
}

static void give(const struct pdl_coll_job *job, const struct coll_ordered *o,
                 int rank, int64_t s, struct pdl_step *out)
{
    struct coll_rounds r = {2, {job->nranks - 1, 0}};
    int64_t round, i;

    if (coll_rounds_locate(&r, s, &round, &i, out)) {
        int to = (int)((rank + 1 + i) % job->nranks);

        coll_send(out, to, part(o, 0, to));
    }
}

static void add_up(const struct coll_ordered *o, int rank, int64_t first,
                   int64_t from, struct pdl_step *out)
{
    coll_recv(out, (int)from, part(o, 1, rank));
    if (from == rank)
        coll_send(out, rank, part(o, 0, rank));
    out->act = from == 0 ? PDL_ACT_COPY : PDL_ACT_REDUCE;
    if (from > 0)
        coll_after(out, first + from - 1);
}

void coll_ordered_step(const struct pdl_coll_job *job,
                       const struct coll_ordered *o, int rank, int64_t s,
                       struct pdl_step *out)
{
    int64_t p = job->nranks, sent = coll_split_nsteps(job->nranks);

    if (s < sent) {
        give(job, o, rank, s, out);
    } else if (s < sent + p) {
        add_up(o, rank, sent, s - sent, out);
    } else if (s == sent + p) {
        coll_send(out, rank, part(o, 1, rank));
        coll_recv(out, rank, part(o, 0, rank));
        coll_after(out, s - 1);
        coll_after(out, sent - 1);
    } else {
        int64_t i = s - (sent + p + 1);
        int from = (int)coll_mod(rank - 1 - i, p);

        coll_send(out, (int)((rank + 1 + i) % p), part(o, 0, rank));
        coll_recv(out, from, part(o, 0, from));
        coll_after(out, sent + p);
    }
}
