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
#include "coll_priv.h"

/* cut: rank r sums chunk r of P (else every rank sums all of it); gather: the
 * sums then go to all ranks. */
struct ordered {
    bool cut, gather;
};

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    const struct ordered *o = job->alg->family;

    (void)err;
    job->nbufs = 2;
    job->buf[0] = job->buf[1] =
        (struct pdl_coll_buf){job->count, o->cut ? job->nranks : 1};
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    const struct ordered *o = job->alg->family;
    int64_t p = job->nranks;

    (void)rank;
    if (p == 1)
        return 0;
    return coll_split_nsteps(job->nranks) + p + 1 + (o->gather ? p - 1 : 0);
}

static struct pdl_span part(const struct ordered *o, int buf, int rank)
{
    return coll_run(buf, o->cut ? rank : 0, 1);
}

static void give(const struct pdl_coll_job *job, const struct ordered *o,
                 int rank, int64_t s, struct pdl_step *out)
{
    struct coll_rounds r = {2, {job->nranks - 1, 0}};
    int64_t round, i;

    if (coll_rounds_locate(&r, s, &round, &i, out)) {
        int to = (int)((rank + 1 + i) % job->nranks);

        coll_send(out, to, part(o, 0, to));
    }
}

static void add_up(const struct ordered *o, int rank, int64_t first,
                   int64_t from, struct pdl_step *out)
{
    coll_recv(out, (int)from, part(o, 1, rank));
    if (from == rank)
        coll_send(out, rank, part(o, 0, rank));
    out->act = from == 0 ? PDL_ACT_COPY : PDL_ACT_REDUCE;
    if (from > 0)
        coll_after(out, first + from - 1);
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    const struct ordered *o = job->alg->family;
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

/* The sends of the first round can last until the sum goes back. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

/* Flat allreduce: every rank sends its vector to all and adds up all of them
 * in the order of ranks. One round; for short vectors and few ranks. */
static const struct ordered flat = {.cut = false, .gather = false};

static void cost_flat(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? 1 : 0;
    out->bytes = bytes * (p - 1);
    out->reduced = bytes * (p - 1);
}

const struct pdl_alg coll_allreduce_flat = {
    .collective = &coll_allreduce,
    .name = "flat",
    .summary = "everyone sends to everyone, adds in rank order; short",
    .source = "folklore",
    .steps = "2P and joins",
    .bytes = "N(P-1)",
    .limits = "",
    .family = &flat,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost_flat,
};

/* Ordered allreduce: rank r adds up chunk r in the order of ranks, then the
 * chunks go to all. As little traffic as the ring, and the same bits wherever
 * it runs. */
static const struct ordered gathered = {.cut = true, .gather = true};

static void cost_gathered(const struct pdl_coll_job *job,
                          struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? p : 0;
    out->bytes = 2 * bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

const struct pdl_alg coll_allreduce_ordered = {
    .collective = &coll_allreduce,
    .name = "ordered",
    .summary = "owners add in rank order: the same bits everywhere",
    .source = "folklore",
    .steps = "3P-1 and joins",
    .bytes = "2N(P-1)/P",
    .limits = "",
    .family = &gathered,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost_gathered,
};

/* Ordered reduce-scatter: rank r adds up block r in the order of ranks. */
static const struct ordered scattered = {.cut = true, .gather = false};

static void cost_scattered(const struct pdl_coll_job *job,
                           struct pdl_coll_cost *out)
{
    double p = job->nranks, bytes = (double)job->count * job->elem_bytes;

    out->rounds = p > 1 ? p - 1 : 0;
    out->bytes = bytes * (p - 1) / p;
    out->reduced = bytes * (p - 1) / p;
}

const struct pdl_alg coll_reduce_scatter_ordered = {
    .collective = &coll_reduce_scatter,
    .name = "ordered",
    .summary = "owners add in rank order: the same bits everywhere",
    .source = "folklore",
    .steps = "2P and joins",
    .bytes = "N(P-1)/P",
    .limits = "",
    .family = &scattered,
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .cost = cost_scattered,
};
