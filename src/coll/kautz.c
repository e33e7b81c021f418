/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-port collectives on the switchless Kautz network K(d,2) of d(d+1)
 * nodes (after Nguyen, Hirayama, Takano et al., IPDPS 2022; reconstruction).
 * Between any two nodes there is one path of at most two arcs, so a
 * collective is two rounds on all d ports at once.
 *
 * Reduce-scatter: round 1 sends (b,c) the chunk of (b,c) and the chunks of
 * all (c,*); it adds the first to its own and the rest in a second buffer;
 * round 2 sends these sums to their owners. Allgather: own block, then the
 * blocks received. A block never travels back to where it came from. */
#include "coll_priv.h"
#include "coll_kautz.h"

enum pdl_status coll_kautz_settle(struct pdl_coll_job *job, struct pdl_err *err)
{
    int64_t d = 1;

    while (d * (d + 1) < job->nranks)
        d++;
    if (d * (d + 1) != job->nranks)
        return pdl_fail(err, PDL_EINVAL, "%d ranks are not d(d+1)",
                        job->nranks);
    if (job->params.d && job->params.d != d)
        return pdl_fail(err, PDL_EINVAL, "%d ranks have degree d=%d",
                        job->nranks, (int)d);
    job->params.d = d;
    return PDL_OK;
}

int coll_kautz_rank(int d, int a, int b)
{
    return a * d + b - (b > a);
}

struct coll_vertex coll_kautz_vertex(const struct pdl_coll_job *job, int rank)
{
    int d = (int)job->params.d, a = rank / d, b = rank % d;

    return (struct coll_vertex){d, a, b + (b >= a)};
}

struct coll_vertex coll_kautz_out(struct coll_vertex v, int64_t i)
{
    int c = (int)i + (i >= v.b);

    return (struct coll_vertex){v.d, v.b, c};
}

struct coll_vertex coll_kautz_in(struct coll_vertex v, int64_t i)
{
    int x = (int)i + (i >= v.a);

    return (struct coll_vertex){v.d, x, v.a};
}

static int rank_of(struct coll_vertex v)
{
    return coll_kautz_rank(v.d, v.a, v.b);
}

/* Adds chunks first, first+stride ... n of them, leaving out `but`. */
static int without(int64_t first, int64_t stride, int64_t n, int but, int buf,
                   struct pdl_span *out)
{
    int64_t skip = but - first;
    int used = 0;

    if (n > 0 && but >= first && skip % stride == 0 && skip / stride < n) {
        int64_t head = skip / stride, tail = n - head - 1;

        if (head > 0)
            out[used++] = (struct pdl_span){buf, first, 1, stride, head};
        if (tail > 0)
            out[used++] = (struct pdl_span){buf, but + stride, 1, stride, tail};
        return used;
    }
    if (n > 0)
        out[used++] = (struct pdl_span){buf, first, 1, stride, n};
    return used;
}

int coll_kautz_row(int d, int a, int but, int buf, struct pdl_span *out)
{
    return without((int64_t)a * d, 1, d, but, buf, out);
}

int coll_kautz_column(int d, int b, int but, int buf, struct pdl_span *out)
{
    int n = without(b - 1, d, b, but, buf, out);

    return n + without((int64_t)(b + 1) * d + b, d, d - b, but, buf, out + n);
}

void coll_kautz_scatter(struct coll_vertex v, int64_t round, int64_t i,
                        struct pdl_step *out)
{
    struct coll_vertex to = coll_kautz_out(v, i), from = coll_kautz_in(v, i);
    int me = rank_of(v), dst = rank_of(to), src = rank_of(from);

    out->act = PDL_ACT_REDUCE;
    out->send_to = dst;
    out->recv_from = src;
    if (round == 0) {
        out->nsend = coll_kautz_row(v.d, to.b, me, 0, out->send);
        coll_send(out, dst, coll_run(0, dst, 1));
        out->nrecv = coll_kautz_row(v.d, v.b, src, 1, out->recv);
        coll_recv(out, src, coll_run(0, me, 1));
    } else {
        coll_send(out, dst, coll_run(1, dst, 1));
        coll_recv(out, src, coll_run(0, me, 1));
    }
}

void coll_kautz_gather(struct coll_vertex v, int64_t round, int64_t i,
                       struct pdl_step *out)
{
    struct coll_vertex to = coll_kautz_out(v, i), from = coll_kautz_in(v, i);
    int me = rank_of(v), dst = rank_of(to), src = rank_of(from);

    out->act = PDL_ACT_COPY;
    out->send_to = dst;
    out->recv_from = src;
    if (round == 0) {
        coll_send(out, dst, coll_run(0, me, 1));
        coll_recv(out, src, coll_run(0, src, 1));
    } else {
        out->nsend = coll_kautz_column(v.d, v.a, dst, 0, out->send);
        out->nrecv = coll_kautz_column(v.d, from.a, me, 0, out->recv);
        if (out->nsend == 0)
            out->send_to = -1;
        if (out->nrecv == 0)
            out->recv_from = -1;
    }
}
