/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all on the Kautz network K(d,2). Round 1 sends (b,c) the block for
 * (b,c) and those for all (c,*); (b,c) keeps the latter in buffer 2, chunk
 * [port they came in][port they leave by]; round 2 sends them on, d blocks
 * from d sources on each port (after Nguyen et al., IPDPS 2022). Step 0
 * copies the own block. */
#include "coll_priv.h"
#include "coll_kautz.h"

static enum pdl_status setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    enum pdl_status st = coll_kautz_settle(job, err);

    if (st != PDL_OK)
        return st;
    st = coll_need_multiple(job, job->nranks, err);
    if (st != PDL_OK)
        return st;
    job->nbufs = 3;
    job->buf[0] = job->buf[1] = (struct pdl_coll_buf){job->count, job->nranks};
    job->buf[2].chunks = job->params.d * job->params.d;
    job->buf[2].count = job->count / job->nranks * job->buf[2].chunks;
    return PDL_OK;
}

static int64_t nsteps(const struct pdl_coll_job *job, int rank)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);

    (void)rank;
    return 1 + coll_rounds_nsteps(&r);
}

static void direct(struct coll_vertex v, int64_t i, int me, int dst, int src,
                   struct pdl_step *out)
{
    struct coll_vertex to = coll_kautz_out(v, i);
    struct pdl_span row[2];
    int n, first = v.b * v.d;

    coll_send(out, dst, coll_run(0, dst, 1));
    coll_recv(out, src, coll_run(1, src, 1));
    n = coll_kautz_row(v.d, to.b, me, 0, row);
    for (int k = 0; k < n; k++)
        coll_send(out, dst, row[k]);
    n = coll_kautz_row(v.d, v.b, src, 2, row);
    for (int k = 0; k < n; k++) {
        row[k].first += i * v.d - first; /* chunk per vertex -> [in][out] */
        coll_recv(out, src, row[k]);
    }
}

/* Row `port in` of the blocks kept, without the one from dst itself, which
 * entered by the port that comes from dst. */
static void onward(struct coll_vertex v, int64_t i, int me, int dst, int src,
                   struct pdl_step *out)
{
    struct coll_vertex from = coll_kautz_in(v, i), to = coll_kautz_out(v, i);
    int64_t d = v.d, skip = d;

    if (to.b == v.a)
        skip = to.a - (to.a > v.a);
    coll_send(out, dst, (struct pdl_span){2, i, 1, d, skip});
    coll_send(out, dst,
              (struct pdl_span){2, i + (skip + 1) * d, 1, d, d - skip - 1});
    out->recv_from = src;
    out->nrecv = coll_kautz_column(v.d, from.a, me, 1, out->recv);
    if (out->nsend == 0)
        out->send_to = -1;
    if (out->nrecv == 0)
        out->recv_from = -1;
}

static void step(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out)
{
    struct coll_rounds r = coll_even_rounds(2, job->params.d);
    struct coll_vertex v = coll_kautz_vertex(job, rank), to, from;
    int64_t round, port;

    if (s == 0) {
        coll_send(out, rank, coll_run(0, rank, 1));
        coll_recv(out, rank, coll_run(1, rank, 1));
        return;
    }
    if (coll_rounds_locate(&r, s - 1, &round, &port, out)) {
        to = coll_kautz_out(v, port);
        from = coll_kautz_in(v, port);
        (round ? onward : direct)(v, port, rank,
                                  coll_kautz_rank(v.d, to.a, to.b),
                                  coll_kautz_rank(v.d, from.a, from.b), out);
    }
    for (int i = 0; i < out->nafter; i++)
        out->after[i]++; /* step 0 is before the rounds */
}

static void cost(const struct pdl_coll_job *job, struct pdl_coll_cost *out)
{
    double d = (double)job->params.d;

    out->rounds = 2;
    out->bytes =
        (2 * d + 1) * (double)job->count * job->elem_bytes / job->nranks;
    out->reduced = 0;
}

/* All ports of a round at once. */
static int64_t window(const struct pdl_coll_job *job)
{
    return nsteps(job, 0);
}

static const struct pdl_alg_key keys[] = {
    COLL_KEY(d, 1, 2048, "degree of the Kautz graph"),
};

const struct pdl_alg coll_alltoall_kautz = {
    .collective = &coll_alltoall,
    .name = "kautz",
    .summary = "two rounds on all d ports of a Kautz network",
    .source = "Nguyen et al., IPDPS 2022 (reconstruction)",
    .steps = "2 rounds of d ports",
    .bytes = "N(2d+1)/P on each of d ports",
    .limits = "P = d(d+1); P divides the count",
    COLL_KEYS(keys),
    .setup = setup,
    .nsteps = nsteps,
    .step = step,
    .window = window,
    .turns = coll_turn_letters,
    .cost = cost,
};
