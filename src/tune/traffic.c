/* SPDX-License-Identifier: Apache-2.0
 *
 * A demand as the simulator sees it: all its groups at once, each under the
 * same algorithm with its own bytes. Groups of as many bytes share a job. */
#include "tune_priv.h"

#include <string.h>

/* Member j of group g is rank g * members + j. */
struct groups {
    const struct pdl_demand *d;
    struct pdl_coll_job *job;
    struct pdl_traffic *one; /* of each job */
    int n, *of;              /* jobs; the job of each group */
};

bool tune_is_send(const struct pdl_demand *d)
{
    return strcmp(d->collective, "send") == 0;
}

/* ---- sends -------------------------------------------------------------- */

static int64_t sent(const struct pdl_demand *d, int rank)
{
    if (d->each)
        return d->each[rank];
    return rank % d->members < d->members - 1 ? d->bytes : 0;
}

static int64_t send_nops(void *ctx, int rank)
{
    (void)ctx;
    (void)rank;
    return 1;
}

static void send_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct groups *g = ctx;
    const struct pdl_demand *d = g->d;
    int j = rank % d->members, base = rank - j, ahead = d->each ? d->ahead : 1;
    int to = base + (j + ahead) % d->members,
        from = base + (j + d->members - ahead) % d->members;

    (void)i;
    *out = (struct pdl_traffic_op){.send_to = -1, .recv_from = -1};
    out->send_bytes = sent(d, rank);
    out->recv_bytes = sent(d, from);
    if (out->send_bytes > 0)
        out->send_to = to;
    if (out->recv_bytes > 0)
        out->recv_from = from;
}

/* ---- collectives -------------------------------------------------------- */

static const struct pdl_traffic *one_of(const struct groups *g, int rank)
{
    return &g->one[g->of[rank / g->d->members]];
}

static int64_t group_nops(void *ctx, int rank)
{
    struct groups *g = ctx;
    const struct pdl_traffic *one = one_of(g, rank);

    return one->nops(one->ctx, rank % g->d->members);
}

static void group_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    struct groups *g = ctx;
    const struct pdl_traffic *one = one_of(g, rank);
    int j = rank % g->d->members, base = rank - j;

    one->op(one->ctx, j, i, out);
    out->send_to += out->send_to < 0 ? 0 : base;
    out->recv_from += out->recv_from < 0 ? 0 : base;
}

static int64_t group_alike(void *ctx, int64_t i)
{
    struct groups *g = ctx;
    int64_t least = INT64_MAX;

    for (int k = 0; k < g->n; k++) {
        int64_t n = g->one[k].alike(g->one[k].ctx, i);

        least = n < least ? n : least;
    }
    return least;
}

/* Do all jobs know how long they go on, and end together? */
static bool in_step(const struct groups *g)
{
    for (int k = 0; k < g->n; k++)
        if (!g->one[k].alike || g->one[k].nops(g->one[k].ctx, 0) !=
                                    g->one[0].nops(g->one[0].ctx, 0))
            return false;
    return true;
}

/* The job of a group of so many bytes; false: the algorithm refuses. */
static bool make_job(const struct pdl_demand *d, int64_t bytes,
                     const struct pdl_net *net, const char *algorithm,
                     struct pdl_coll_job *job)
{
    bool whole = d->groups == 1 && !d->host;
    int64_t count = (bytes + 3) / 4;

    count = (count + d->members - 1) / d->members * d->members;
    *job = (struct pdl_coll_job){
        .nranks = d->members, .count = count, .elem_bytes = 4};
    if (pdl_alg_parse(d->collective, algorithm, job, NULL) != PDL_OK)
        return false;
    if (whole && strncmp(algorithm, "kautz", 5) == 0) {
        job->nranks = net->nhosts; /* runs on d(d+1) ranks only */
        job->count = (count + net->nhosts - 1) / net->nhosts * net->nhosts;
    }
    if (whole)
        pdl_coll_suit(job, net);
    return pdl_coll_setup(job, NULL) == PDL_OK;
}

static bool make_jobs(struct groups *g, const struct pdl_net *net,
                      const char *algorithm)
{
    const struct pdl_demand *d = g->d;

    for (int i = 0; i < d->groups; i++) {
        int64_t bytes = d->each ? d->each[i] : d->bytes;
        int k = 0, like = 0;

        /* the first group of each job has its bytes */
        while (like < i && (d->each ? d->each[like] : d->bytes) != bytes)
            like++;
        if (like < i) {
            g->of[i] = g->of[like];
            continue;
        }
        k = g->n;
        if (!make_job(d, bytes, net, algorithm, &g->job[k]))
            return false;
        pdl_coll_traffic(&g->job[k], NULL, &g->one[k]);
        g->of[i] = k;
        g->n++;
    }
    return true;
}

bool tune_traffic_make(pdl_arena *a, const struct pdl_demand *d,
                       const struct pdl_net *net, const char *algorithm,
                       struct tune_traffic *out)
{
    struct groups *g = PDL_NEW(a, struct groups, 1);

    if (!g)
        return false;
    *g = (struct groups){.d = d};
    *out = (struct tune_traffic){.whole = false};
    out->all = (struct pdl_traffic){.nranks = d->members * d->groups,
                                    .ctx = g,
                                    .nops = send_nops,
                                    .op = send_op,
                                    .host_of_rank = d->host};
    if (!algorithm)
        return true;
    g->job = PDL_NEW(a, struct pdl_coll_job, d->groups + 1);
    g->one = PDL_NEW(a, struct pdl_traffic, d->groups + 1);
    g->of = PDL_NEW(a, int, d->groups + 1);
    if (!g->job || !g->one || !g->of || !make_jobs(g, net, algorithm))
        return false;
    out->job = g->job;
    out->njobs = g->n;
    out->whole = d->groups == 1 && !d->host;
    if (out->whole) {
        out->all = g->one[0];
        return true;
    }
    out->all.nops = group_nops;
    out->all.op = group_op;
    out->all.alike = in_step(g) ? group_alike : NULL;
    for (int k = 0; k < g->n; k++)
        if (g->one[k].window > out->all.window)
            out->all.window = g->one[k].window;
    return true;
}
