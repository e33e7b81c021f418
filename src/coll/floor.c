/* SPDX-License-Identifier: Apache-2.0
 *
 * What a collective takes at least, from its steps and routes alone: so that
 * what cannot be the fastest need not be simulated. */
#include "coll_priv.h"

#include <math.h>

/* What one rank takes at least by itself: its messages as if they were alone,
 * each after those it waits for; and where all that follows a step waits for
 * it, the bytes that are then still to be sent over all links of its host. */
struct one_rank {
    const struct pdl_net *net;
    const struct pdl_coll_job *job;
    int rank;
    int64_t steps;
    double *done_s, *bytes; /* of each step */
    int64_t *after;         /* the last that a step waits for; -1: none */
};

static double message_s(const struct pdl_net *net, int src, int dst,
                        int64_t bytes)
{
    int links[PDL_MAX_ROUTE], n = pdl_net_route(net, src, dst, bytes, links);
    double latency = 0, rate = INFINITY;

    for (int i = 0; i < n; i++) {
        latency += net->links[links[i]].latency_s;
        rate = fmin(rate, net->links[links[i]].bytes_per_s);
    }
    return latency + (double)bytes / rate;
}

static void follow_rank(struct one_rank *f)
{
    const struct pdl_net *net = f->net;
    int host = pdl_net_seat(net, f->rank);

    for (int64_t s = 0; s < f->steps; s++) {
        struct pdl_step step;
        double begin = 0, takes = 0;

        pdl_coll_step(f->job, f->rank, s, &step);
        f->after[s] = -1;
        for (int k = 0; k < step.nafter; k++) {
            begin = fmax(begin, f->done_s[step.after[k]]);
            f->after[s] =
                step.after[k] > f->after[s] ? step.after[k] : f->after[s];
        }
        if (step.send_to >= 0 && step.send_to != f->rank) {
            f->bytes[s] = (double)pdl_coll_send_bytes(f->job, &step);
            takes = message_s(net, host, pdl_net_seat(net, step.send_to),
                              (int64_t)f->bytes[s]);
        }
        if (step.recv_from >= 0 && step.recv_from != f->rank)
            takes = fmax(takes,
                         message_s(net, pdl_net_seat(net, step.recv_from), host,
                                   pdl_coll_recv_bytes(f->job, &step)));
        f->done_s[s] = begin + takes;
    }
}

static double leaving_rate(const struct pdl_net *net, int host)
{
    double rate = 0;

    for (int i = 0; i < net->nlinks; i++)
        if (net->links[i].from == host ||
            (net->links[i].shared && net->links[i].to == host))
            rate +=
                net->links[i].fatpipe ? INFINITY : net->links[i].bytes_per_s;
    return rate;
}

static double one_rank_s(const struct pdl_net *net,
                         const struct pdl_coll_job *job, int rank, pdl_arena *a)
{
    int64_t n = pdl_coll_nsteps(job, rank), waits = n;
    double rate = leaving_rate(net, pdl_net_seat(net, rank));
    double least = 0, left = 0;
    struct one_rank f = {net,
                         job,
                         rank,
                         n,
                         PDL_NEW(a, double, n + 1),
                         PDL_NEW(a, double, n + 1),
                         PDL_NEW(a, int64_t, n + 1)};

    /* one rank on a host: what is said of the host is said of the rank */
    if (!f.done_s || !f.bytes || !f.after || job->nranks > net->nhosts ||
        net->path || !(rate > 0))
        return 0;
    follow_rank(&f);
    for (int64_t s = n - 1; s >= 0; s--) {
        least = fmax(least, f.done_s[s]);
        if (waits >= s) /* all that come later */
            least = fmax(least, f.done_s[s] + left / rate);
        waits = f.after[s] < waits ? f.after[s] : waits;
        left += f.bytes[s];
    }
    return fmax(least, left / rate);
}

double pdl_coll_ranks_floor(const struct pdl_net *net,
                            const struct pdl_coll_job *job, pdl_arena *a)
{
    return fmax(one_rank_s(net, job, 0, a),
                one_rank_s(net, job, job->nranks - 1, a));
}

double pdl_coll_links_floor(const struct pdl_net *net,
                            const struct pdl_coll_job *job, pdl_arena *a)
{
    double *load = PDL_NEW(a, double, net->nlinks + 1), most = 0;
    int links[PDL_MAX_ROUTE];

    if (!load || net->path || job->nranks > net->nhosts)
        return 0;
    for (int r = 0; r < job->nranks; r++)
        for (int64_t s = 0, n = pdl_coll_nsteps(job, r); s < n; s++) {
            struct pdl_step step;
            int64_t bytes;
            int count;

            pdl_coll_step(job, r, s, &step);
            if (step.send_to < 0 || step.send_to == r)
                continue;
            bytes = pdl_coll_send_bytes(job, &step);
            count =
                pdl_net_route(net, pdl_net_seat(net, r),
                              pdl_net_seat(net, step.send_to), bytes, links);
            for (int i = 0; i < count; i++)
                load[links[i]] += (double)bytes;
        }
    for (int i = 0; i < net->nlinks; i++)
        if (!net->links[i].fatpipe)
            most = fmax(most, load[i] / net->links[i].bytes_per_s);
    return most;
}
