/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job costs: the closed form of its algorithm, and the contention of
 * its rounds on a network.
 *
 * A message is in round n when the longest chain of messages that must end
 * before it begins has n messages; send and receive begin together. The
 * model lets the rounds follow each other; in each, the busiest link decides.
 * Its number of flows is the contention coefficient phi of the papers, from
 * routes and steps rather than from a table. It ignores that rounds overlap
 * where ranks differ; the simulator does not.
 *
 * Cost: every message once and its route; an algorithm that says which steps
 * are alike, or whose ranks are in step, is priced without listing them. */
#include "coll_priv.h"

#include <inttypes.h>

enum { MAX_MESSAGES = 1 << 26 };

bool pdl_coll_closed_form(const struct pdl_coll_job *job,
                          struct pdl_coll_cost *out)
{
    if (!job->alg->cost)
        return false;
    job->alg->cost(job, out);
    return true;
}

struct message {
    int round;
    int src, dst; /* hosts */
    int64_t bytes;
};

struct pricing {
    const struct pdl_coll_job *job;
    const struct pdl_net *net;
    const int *host_of_rank;
    pdl_arena *arena;
    int64_t *base;  /* first step of each rank */
    int32_t *ready; /* of each step: the round it can begin in, */
    int32_t *ended; /* and the one after its messages */
    struct message *list;
    int64_t count, cap;
    int rounds;
    int64_t *link_bytes, *link_flows;
    int *touched;
    int ntouched;
    struct pdl_coll_round *out;
    int64_t nout, outcap;
};

static enum pdl_status no_memory(struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "too many messages to price");
}

static int host(const struct pricing *p, int rank)
{
    return p->host_of_rank ? p->host_of_rank[rank] : rank;
}

/* ---- one round ----------------------------------------------------------- */

static void load_link(struct pricing *p, int link, int64_t bytes)
{
    if (p->link_flows[link]++ == 0)
        p->touched[p->ntouched++] = link;
    p->link_bytes[link] += bytes;
}

static void add_message(struct pricing *p, const struct message *m,
                        struct pdl_coll_round *round)
{
    int route[PDL_MAX_ROUTE];
    int n = pdl_net_route(p->net, m->src, m->dst, m->bytes, route);
    double latency = 0, slowest = 0;

    if (m->src == m->dst)
        return;
    round->flows++;
    for (int i = 0; i < n; i++) {
        const struct pdl_link *link = &p->net->links[route[i]];

        if (!link->fatpipe)
            load_link(p, route[i], m->bytes);
        latency += link->latency_s;
        if (1 / link->bytes_per_s > slowest)
            slowest = 1 / link->bytes_per_s;
        round->bytes += m->bytes;
    }
    if (latency > round->latency_s)
        round->latency_s = latency;
    if (slowest * (double)m->bytes > round->message_s)
        round->message_s = slowest * (double)m->bytes;
}

static enum pdl_status
end_round(struct pricing *p, struct pdl_coll_round *round, struct pdl_err *err)
{
    for (int i = 0; i < p->ntouched; i++) {
        int link = p->touched[i];
        double s =
            (double)p->link_bytes[link] / p->net->links[link].bytes_per_s;

        if (p->link_flows[link] > round->link_flows)
            round->link_flows = p->link_flows[link];
        if (s > round->link_s)
            round->link_s = s;
        p->link_bytes[link] = p->link_flows[link] = 0;
    }
    p->ntouched = 0;
    if (p->nout == p->outcap) {
        int64_t cap = p->outcap ? 2 * p->outcap : 64;
        struct pdl_coll_round *grown = pdl_arena_grow(
            p->arena, p->out, (size_t)p->nout, (size_t)cap, sizeof *grown);

        if (!grown)
            return no_memory(err);
        p->out = grown;
        p->outcap = cap;
    }
    p->out[p->nout++] = *round;
    return PDL_OK;
}

/* ---- algorithms whose steps are alike ------------------------------------ */

static enum pdl_status price_alike(struct pricing *p, struct pdl_err *err)
{
    const struct pdl_coll_job *job = p->job;
    struct pdl_coll_job idle = *job; /* only messages are priced */
    int64_t n = pdl_coll_nsteps(job, 0);
    enum pdl_status st = PDL_OK;
    struct pdl_traffic traffic;
    struct pdl_step step;

    idle.dense_s_per_byte = idle.pairs_s_per_byte = 0;
    pdl_coll_traffic(&idle, NULL, &traffic);
    for (int64_t s = 0; st == PDL_OK && s < n;) {
        struct pdl_coll_round round = {.repeat = traffic.alike(traffic.ctx, s)};

        for (int r = 0; r < job->nranks; r++) {
            struct message m;

            pdl_coll_step(job, r, s, &step);
            m = (struct message){.src = host(p, r),
                                 .dst = host(p, step.send_to),
                                 .bytes = pdl_coll_send_bytes(job, &step)};
            add_message(p, &m, &round);
        }
        st = end_round(p, &round, err);
        s += round.repeat;
    }
    return st;
}

/* ---- algorithms in step ------------------------------------------------ */

/* Step s of each rank as round s; false: it is none, because not every rank
 * sends and receives in it, messages are not matched within it, or a rank
 * does not wait for just its step before. */
static bool in_step(struct pricing *p, int64_t s, int *to, int *from,
                    struct pdl_coll_round *round)
{
    const struct pdl_coll_job *job = p->job;
    struct pdl_step step;

    for (int r = 0; r < job->nranks; r++) {
        struct message m;

        pdl_coll_step(job, r, s, &step);
        if (step.nafter != (s > 0) || (s > 0 && step.after[0] != s - 1) ||
            step.send_to < 0 || step.recv_from < 0 || step.send_to == r)
            return false;
        to[r] = step.send_to;
        from[r] = step.recv_from;
        m = (struct message){.src = host(p, r),
                             .dst = host(p, step.send_to),
                             .bytes = pdl_coll_send_bytes(job, &step)};
        add_message(p, &m, round);
    }
    for (int r = 0; r < job->nranks; r++)
        if (from[to[r]] != r)
            return false;
    return true;
}

/* *all: every step was such a round; else nothing is priced yet. */
static enum pdl_status price_in_step(struct pricing *p, bool *all,
                                     struct pdl_err *err)
{
    int n = p->job->nranks;
    int64_t steps = pdl_coll_nsteps(p->job, 0);
    int *to = PDL_NEW(p->arena, int, n), *from = PDL_NEW(p->arena, int, n);
    enum pdl_status st = PDL_OK;

    *all = true;
    if (!to || !from)
        return no_memory(err);
    for (int r = 0; r < n; r++)
        *all = *all && pdl_coll_nsteps(p->job, r) == steps;
    for (int64_t s = 0; *all && st == PDL_OK && s < steps; s++) {
        struct pdl_coll_round round = {.repeat = 1};

        *all = in_step(p, s, to, from, &round);
        st = end_round(p, &round, err);
    }
    if (!*all)
        p->nout = 0;
    return st;
}

/* ---- any other ----------------------------------------------------------- */

/* ended[] of a step is first the round it can begin in; its messages raise
 * it to the round after theirs. */
static void begin_step(void *ctx, int rank, int64_t s,
                       const struct pdl_step *step)
{
    struct pricing *p = ctx;
    int32_t *of_rank = p->ended + p->base[rank], round = 0;

    for (int i = 0; i < step->nafter; i++)
        if (of_rank[step->after[i]] > round)
            round = of_rank[step->after[i]];
    p->ready[p->base[rank] + s] = of_rank[s] = round;
}

static enum pdl_status transfer(void *ctx, const struct coll_message *m,
                                struct pdl_err *err)
{
    struct pricing *p = ctx;
    int64_t from = p->base[m->from] + m->send_step;
    int64_t to = p->base[m->to] + m->recv_step;
    int round = p->ready[from] > p->ready[to] ? p->ready[from] : p->ready[to];
    int32_t *out = &p->ended[from], *in = &p->ended[to];

    if (m->from == m->to)
        return PDL_OK;
    if (*out < round + 1)
        *out = round + 1;
    if (*in < round + 1)
        *in = round + 1;
    if (p->count == p->cap) {
        int64_t cap = p->cap ? 2 * p->cap : 1024;
        struct message *grown =
            cap > MAX_MESSAGES
                ? NULL
                : pdl_arena_grow(p->arena, p->list, (size_t)p->count,
                                 (size_t)cap, sizeof *grown);

        if (!grown)
            return no_memory(err);
        p->list = grown;
        p->cap = cap;
    }
    p->list[p->count++] =
        (struct message){round, host(p, m->from), host(p, m->to),
                         pdl_coll_send_bytes(p->job, m->send)};
    if (round >= p->rounds)
        p->rounds = round + 1;
    return PDL_OK;
}

/* Prices the listed messages round by round. */
static enum pdl_status price_list(struct pricing *p, struct pdl_err *err)
{
    int64_t *begin = PDL_NEW(p->arena, int64_t, p->rounds + 2);
    int64_t *order = PDL_NEW(p->arena, int64_t, p->count + 1);
    enum pdl_status st = PDL_OK;

    if (!begin || !order)
        return no_memory(err);
    for (int64_t i = 0; i < p->count; i++)
        begin[p->list[i].round + 2]++;
    for (int r = 2; r < p->rounds + 2; r++)
        begin[r] += begin[r - 1];
    for (int64_t i = 0; i < p->count; i++)
        order[begin[p->list[i].round + 1]++] = i;
    for (int r = 0; st == PDL_OK && r < p->rounds; r++) {
        struct pdl_coll_round round = {.repeat = 1};

        for (int64_t i = begin[r]; i < begin[r + 1]; i++)
            add_message(p, &p->list[order[i]], &round);
        st = end_round(p, &round, err);
    }
    return st;
}

static enum pdl_status price_all(struct pricing *p, struct pdl_err *err)
{
    const struct pdl_coll_job *job = p->job;
    struct coll_run run = {
        .job = job, .ctx = p, .begin = begin_step, .transfer = transfer};
    enum pdl_status st;

    p->base = PDL_NEW(p->arena, int64_t, job->nranks + 1);
    if (!p->base)
        return no_memory(err);
    for (int r = 0; r < job->nranks; r++)
        p->base[r + 1] = p->base[r] + pdl_coll_nsteps(job, r);
    p->ready = PDL_NEW(p->arena, int32_t, p->base[job->nranks] + 1);
    p->ended = PDL_NEW(p->arena, int32_t, p->base[job->nranks] + 1);
    if (!p->ready || !p->ended)
        return no_memory(err);
    st = coll_walk(&run, p->arena, err);
    return st == PDL_OK ? price_list(p, err) : st;
}

static enum pdl_status price(struct pricing *p, struct pdl_err *err)
{
    bool all;
    enum pdl_status st;

    if (p->job->alg->alike)
        return price_alike(p, err);
    st = price_in_step(p, &all, err);
    return st == PDL_OK && !all ? price_all(p, err) : st;
}

enum pdl_status pdl_coll_contention(const struct pdl_coll_job *job,
                                    const struct pdl_net *net,
                                    const int *host_of_rank, pdl_arena *a,
                                    struct pdl_coll_round **rounds,
                                    int64_t *nrounds, struct pdl_err *err)
{
    struct pricing p = {.job = job,
                        .net = net,
                        .host_of_rank = host_of_rank,
                        .arena = pdl_arena_create((size_t)8 << 30)};
    enum pdl_status st = PDL_OK;

    if (!host_of_rank && job->nranks > net->nhosts)
        st = pdl_fail(err, PDL_EINVAL, "%d ranks do not fit on %d hosts",
                      job->nranks, net->nhosts);
    if (st == PDL_OK && p.arena) {
        p.link_bytes = PDL_NEW(p.arena, int64_t, net->nlinks + 1);
        p.link_flows = PDL_NEW(p.arena, int64_t, net->nlinks + 1);
        p.touched = PDL_NEW(p.arena, int, net->nlinks + 1);
    }
    if (st == PDL_OK && (!p.link_bytes || !p.link_flows || !p.touched))
        st = no_memory(err);
    if (st == PDL_OK)
        st = price(&p, err);
    if (st == PDL_OK) {
        *rounds = PDL_NEW(a, struct pdl_coll_round, p.nout + 1);
        if (!*rounds)
            st = no_memory(err);
        else if (p.nout > 0)
            memcpy(*rounds, p.out, (size_t)p.nout * sizeof **rounds);
        *nrounds = p.nout;
    }
    pdl_arena_destroy(p.arena);
    return st;
}
