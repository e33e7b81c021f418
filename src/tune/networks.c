/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology, routing and algorithms for a traffic: every network is priced by
 * its switches and cables, and every demand is simulated with all its groups
 * at once, flow by flow, under every algorithm of its collective. Demands come
 * one after the other; a demand's ranks begin together.
 *
 * What counts is the front of cost and time. Networks are looked at from the
 * cheapest on; a simulation ends when it has taken longer than a network that
 * costs no more takes for everything, and an algorithm whose rounds and bytes
 * alone do is not begun. So nothing of the front is lost, and the rest is known
 * only as not faster. */
#include "tune_priv.h"

#include "paradl/coll.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTICED 1e-3 /* what is faster by less is not */
#define MEMORY  ((size_t)8 << 30)

struct search {
    const struct pdl_network_ask *ask;
    pdl_arena *arena;
    struct pdl_network_point *list;
    int n;
    pthread_mutex_t lock; /* of the arena and what follows */
    int64_t done;
    bool failed;
    atomic_llong simulated;
    atomic_bool stop;
    atomic_int first; /* the way that is tried first */
};

/* ---- a demand as the simulator sees it ---------------------------------- */

/* Member j of group g is rank g * members + j. */
struct groups {
    struct pdl_coll_job job;
    struct pdl_traffic one; /* of a group; not for "send" */
    int members;
    int64_t bytes;
};

static int64_t group_nops(void *ctx, int rank)
{
    struct groups *g = ctx;

    return g->one.nops ? g->one.nops(g->one.ctx, rank % g->members) : 1;
}

static void group_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    struct groups *g = ctx;
    int j = rank % g->members, base = rank - j;

    if (!g->one.op) {
        bool last = j == g->members - 1;

        *out = (struct pdl_traffic_op){
            .send_to = last ? -1 : rank + 1,
            .recv_from = j == 0 ? -1 : rank - 1,
            .send_bytes = last ? 0 : g->bytes,
            .recv_bytes = j == 0 ? 0 : g->bytes,
        };
        return;
    }
    g->one.op(g->one.ctx, j, i, out);
    out->send_to += out->send_to < 0 ? 0 : base;
    out->recv_from += out->recv_from < 0 ? 0 : base;
}

static int64_t group_alike(void *ctx, int64_t i)
{
    struct groups *g = ctx;

    return g->one.alike(g->one.ctx, i);
}

static bool is_send(const struct pdl_demand *d)
{
    return strcmp(d->collective, "send") == 0;
}

/* The job of one group on this network; false: the algorithm refuses. */
static bool make_job(const struct pdl_demand *d, const struct pdl_net *net,
                     const char *algorithm, struct pdl_coll_job *job)
{
    int64_t count = (d->bytes + 3) / 4;

    count = (count + d->members - 1) / d->members * d->members;
    *job = (struct pdl_coll_job){
        .nranks = d->members, .count = count, .elem_bytes = 4};
    if (pdl_alg_parse(d->collective, algorithm, job, NULL) != PDL_OK)
        return false;
    if (d->groups == 1 && strncmp(algorithm, "kautz", 5) == 0) {
        job->nranks = net->nhosts; /* runs on d(d+1) ranks only */
        job->count = (count + net->nhosts - 1) / net->nhosts * net->nhosts;
    }
    if (d->groups == 1)
        pdl_coll_suit(job, net);
    return pdl_coll_setup(job, NULL) == PDL_OK;
}

/* Where there are more messages than this, what links carry is added up before
 * they are simulated. */
enum { FEW_MESSAGES = 200000, MANY_MESSAGES = 30000000 };

/* What the network's links and the first and last rank need. */
static double floor_s(const struct pdl_net *net, const struct pdl_coll_job *job,
                      double until_s)
{
    int64_t messages = pdl_coll_nsteps(job, 0) * job->nranks;
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    double s = a ? pdl_coll_ranks_floor(net, job, a) : 0;

    if (a && s < until_s && messages > FEW_MESSAGES &&
        messages < MANY_MESSAGES && !(job->alg->turns && net->turns.n > 0))
        s = fmax(s, pdl_coll_links_floor(net, job, a));
    pdl_arena_destroy(a);
    return s;
}

/* No algorithm is faster than its rounds and what its busiest rank sends. */
static double least_s(const struct search *s, const struct pdl_network_point *n,
                      const struct pdl_coll_job *job)
{
    double rate = s->ask->bytes_per_s * (n->direct ? n->radix : 1);
    struct pdl_coll_cost c;

    if (!pdl_coll_closed_form(job, &c))
        return 0;
    return c.rounds * (n->direct ? 1 : 2) * s->ask->latency_s +
           (s->ask->shared ? 2 : 1) * c.bytes / rate;
}

/* Seconds of a demand once; INFINITY: refused, or until_s is not enough. */
static double simulate(struct search *s, const struct pdl_network_point *n,
                       const struct pdl_net *net, const struct pdl_demand *d,
                       const char *algorithm, double until_s)
{
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR,
                                    .until_s = isfinite(until_s) ? until_s : 0};
    struct groups g = {.members = d->members, .bytes = d->bytes};
    struct pdl_traffic all;
    struct pdl_sim_result r = {.time_s = INFINITY};
    pdl_arena *a = NULL;
    bool whole;

    if (algorithm && (!make_job(d, net, algorithm, &g.job) ||
                      least_s(s, n, &g.job) >= until_s))
        return INFINITY;
    if (algorithm)
        pdl_coll_traffic(&g.job, NULL, &g.one);
    whole = algorithm && d->groups == 1 && !d->host;
    if (whole && isfinite(until_s) && floor_s(net, &g.job, until_s) > until_s)
        return INFINITY;
    all = whole
              ? g.one
              : (struct pdl_traffic){.nranks = d->members * d->groups,
                                     .ctx = &g,
                                     .nops = group_nops,
                                     .op = group_op,
                                     .alike = g.one.alike ? group_alike : NULL,
                                     .host_of_rank = d->host,
                                     .window = g.one.window};
    a = pdl_arena_create(MEMORY);
    atomic_fetch_add(&s->simulated, 1);
    if (!a || pdl_sim_run(a, net, &all, &config, &r, NULL) != PDL_OK)
        r.time_s = INFINITY;
    pdl_arena_destroy(a);
    return r.time_s;
}

/* ---- the fastest algorithms of a network -------------------------------- */

/* A small message and a pipelined one want different segments. */
static const char *const further[] = {"double-tree:segments=32"};
enum { FURTHER = sizeof further / sizeof further[0] };

/* The i-th way of a collective; NULL past the end, "" none of it. */
static const char *way(const struct pdl_demand *d, int i)
{
    const struct pdl_alg *alg;

    if (is_send(d))
        return NULL;
    if (i < FURTHER)
        return strcmp(d->collective, "allreduce") == 0 ? further[i] : "";
    alg = pdl_alg_at(i - FURTHER);
    if (!alg)
        return NULL;
    return strcmp(alg->collective->name, d->collective) == 0 && !alg->sparse
               ? alg->name
               : "";
}

static void try_ways(struct search *s, struct pdl_network_point *n,
                     const struct pdl_net *net, int k, double until_s)
{
    const struct pdl_demand *d = &s->ask->demand[k];
    const char *w;
    int best = 0;

    n->each[k] = INFINITY;
    n->by[k] = NULL;
    if (is_send(d)) {
        n->each[k] = simulate(s, n, net, d, NULL, until_s);
        n->by[k] = "";
        return;
    }
    /* what was the fastest on another network goes first */
    for (int i = -1; !atomic_load(&s->stop); i++) {
        int at = i < 0 ? atomic_load(&s->first) : i;
        double limit =
            s->ask->exhaustive ? INFINITY : fmin(until_s, n->each[k]);
        double t;

        w = way(d, at);
        if (!w && i >= 0)
            break;
        t = w && *w ? simulate(s, n, net, d, w, limit) : INFINITY;
        if (t < n->each[k] || (t == n->each[k] && n->by[k] && at < best)) {
            n->each[k] = t;
            n->by[k] = w;
            best = at;
        }
    }
    if (n->by[k])
        atomic_store(&s->first, best);
}

/* Of those that cost no more, the least that is known by now. */
static double bound(struct search *s, const struct pdl_network_point *n)
{
    double least = INFINITY;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !s->ask->exhaustive; i++)
        if (s->list[i].cost <= n->cost && &s->list[i] != n)
            least = fmin(least, s->list[i].seconds);
    pthread_mutex_unlock(&s->lock);
    return least;
}

/* Demands one after the other; INFINITY: slower than `limit`. algorithm: of
 * all of them, or NULL. */
static double serve(struct search *s, struct pdl_network_point *n,
                    const struct pdl_net *net, const char *algorithm,
                    double limit)
{
    double sum = 0;

    for (int k = 0; k < s->ask->ndemands && sum < limit; k++) {
        const struct pdl_demand *d = &s->ask->demand[k];
        double until = (limit - sum) / d->times;

        if (algorithm && !is_send(d)) {
            n->each[k] = simulate(s, n, net, d, algorithm, until);
            n->by[k] = algorithm;
        } else {
            try_ways(s, n, net, k, until);
        }
        sum += d->times * n->each[k];
    }
    return sum < limit ? sum : INFINITY;
}

/* ---- networks ----------------------------------------------------------- */

static const struct pdl_net *open_net(const struct search *s, pdl_arena *a,
                                      const char *spec, struct pdl_err *err)
{
    const struct pdl_net *net = NULL;
    char text[256];

    snprintf(text, sizeof text, "%s,duplex=%s,bw=%.9gB/s,lat=%.9gs", spec,
             s->ask->shared ? "shared" : "full", s->ask->bytes_per_s,
             s->ask->latency_s);
    return pdl_net_make(a, text, &net, err) == PDL_OK ? net : NULL;
}

/* A host with several ports passes messages on: it is charged a switch of its
 * ports and one for itself, at the price `topology show` has for switches. */
#define PORT_COST   350.4
#define SWITCH_COST (-892.3)

static enum pdl_status price(pdl_arena *a, const struct pdl_net *net,
                             struct pdl_network_point *n, struct pdl_err *err)
{
    int all = net->nhosts + net->nswitches;
    int *ports = PDL_NEW(a, int, all + 1);
    struct pdl_metrics m;
    enum pdl_status st = pdl_net_metrics(a, net, &m, err);

    if (st != PDL_OK || !ports)
        return st != PDL_OK ? st : pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *l = &net->links[i];

        /* one of two directions stands for a cable */
        if (l->reverse >= 0 && l->reverse < i && !l->shared)
            continue;
        ports[l->from] += l->cables ? l->cables : 1;
        ports[l->to] += l->cables ? l->cables : 1;
    }
    n->cost = m.cost;
    n->cables = m.cables;
    n->switches = m.switches;
    for (int v = 0; v < all; v++) {
        bool router = v < net->nhosts && ports[v] > 1;

        n->direct = n->direct || router;
        if (router)
            n->cost += PORT_COST * (ports[v] + 1) + SWITCH_COST;
        if (router || v >= net->nhosts)
            n->radix = ports[v] > n->radix ? ports[v] : n->radix;
    }
    return PDL_OK;
}

static enum pdl_status describe(struct search *s, const char *spec,
                                struct pdl_network_point *n,
                                struct pdl_err *err)
{
    int demands = s->ask->ndemands;
    pdl_arena *a = pdl_arena_create(MEMORY);
    const struct pdl_net *net = a ? open_net(s, a, spec, err) : NULL;
    enum pdl_status st = net ? price(a, net, n, err) : PDL_EINVAL;

    if (st == PDL_OK && net->nhosts < s->ask->hosts)
        st = pdl_fail(err, PDL_EINVAL, "%.100s: %d hosts are less than %d",
                      spec, net->nhosts, s->ask->hosts);
    pdl_arena_destroy(a);
    if (st != PDL_OK)
        return st;
    n->spec = pdl_arena_strdup(s->arena, spec);
    n->seconds = INFINITY;
    n->each = PDL_NEW(s->arena, double, demands + 1);
    n->by = PDL_NEW(s->arena, const char *, demands + 1);
    return n->spec && n->each && n->by
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

static int by_cost(const void *x, const void *y)
{
    const struct pdl_network_point *a = x, *b = y;

    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return strcmp(a->spec, b->spec);
}

/* What can be made with these switches; of networks named by the asker what
 * cannot be made is an error. */
static enum pdl_status list_networks(struct search *s, struct pdl_err *err)
{
    const struct pdl_network_ask *ask = s->ask;
    struct tune_specs *specs = malloc(sizeof *specs);
    enum pdl_status st = PDL_OK;

    if (!specs)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    tune_candidates(ask->hosts, ask->radix, specs);
    s->list =
        PDL_NEW(s->arena, struct pdl_network_point, specs->n + ask->nmore + 1);
    if (!s->list)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < specs->n && st == PDL_OK; i++) {
        struct pdl_network_point *n = &s->list[s->n];

        *n = (struct pdl_network_point){.spec = NULL};
        if (describe(s, specs->spec[i], n, NULL) == PDL_OK &&
            n->radix <= ask->radix)
            s->n++;
    }
    free(specs);
    for (int i = 0; i < ask->nmore && st == PDL_OK; i++) {
        s->list[s->n] = (struct pdl_network_point){.spec = NULL};
        st = describe(s, ask->more[i], &s->list[s->n], err);
        s->n += st == PDL_OK;
    }
    if (st == PDL_OK)
        qsort(s->list, (size_t)s->n, sizeof *s->list, by_cost);
    return st;
}

static bool look_at(void *ctx, int64_t i)
{
    struct search *s = ctx;
    struct pdl_network_point *n = &s->list[i];
    pdl_arena *a = pdl_arena_create(MEMORY);
    const struct pdl_net *net = a ? open_net(s, a, n->spec, NULL) : NULL;
    double seconds = net ? serve(s, n, net, NULL, bound(s, n)) : INFINITY;

    pdl_arena_destroy(a);
    pthread_mutex_lock(&s->lock);
    n->seconds = seconds;
    s->failed = s->failed || !net;
    s->done++;
    if (s->ask->progress && !s->ask->progress(s->ask->ctx, s->done, s->n))
        atomic_store(&s->stop, true);
    pthread_mutex_unlock(&s->lock);
    return !atomic_load(&s->stop);
}

static enum pdl_status look_at_rival(struct search *s,
                                     struct pdl_network_rival *r,
                                     struct pdl_err *err)
{
    const char *algorithm = r->algorithm && *r->algorithm ? r->algorithm : NULL;
    enum pdl_status st = describe(s, r->spec, &r->is, err);
    pdl_arena *a = pdl_arena_create(MEMORY);
    const struct pdl_net *net =
        st == PDL_OK && a ? open_net(s, a, r->spec, err) : NULL;

    if (net) {
        r->is.seconds = serve(s, &r->is, net, algorithm, INFINITY);
        if (!isfinite(r->is.seconds))
            st = pdl_fail(err, PDL_EINVAL, "%.100s: %.40s does not run there",
                          r->spec, algorithm ? algorithm : "no algorithm");
    } else if (st == PDL_OK) {
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    pdl_arena_destroy(a);
    r->winner = -1;
    for (int i = 0; i < s->n && st == PDL_OK; i++)
        if (s->list[i].front && s->list[i].cost <= r->is.cost &&
            s->list[i].seconds < r->is.seconds)
            r->winner = i; /* the dearer the faster */
    return st;
}

static enum pdl_status check(const struct pdl_network_ask *ask,
                             struct pdl_err *err)
{
    if (ask->hosts < 2 || ask->hosts > 1 << 16)
        return pdl_fail(err, PDL_EINVAL, "%d hosts are not 2 to 65536",
                        ask->hosts);
    if (ask->radix < 4 || ask->radix > 4096)
        return pdl_fail(err, PDL_EINVAL,
                        "switches of %d ports are not of 4 to "
                        "4096",
                        ask->radix);
    if (ask->ndemands < 1)
        return pdl_fail(err, PDL_EINVAL, "no traffic between nodes");
    for (int k = 0; k < ask->ndemands; k++)
        if (!is_send(&ask->demand[k]) &&
            !pdl_collective_find(ask->demand[k].collective)) {
            pdl_fail(err, PDL_EINVAL, "no collective '%.40s'",
                     ask->demand[k].collective);
            pdl_hint(err, "'paradl collective list' has them");
            return PDL_EINVAL;
        }
    for (int k = 0; k < ask->ndemands; k++)
        if (ask->demand[k].members * ask->demand[k].groups > ask->hosts)
            return pdl_fail(err, PDL_EINVAL, "%.60s: %d ranks on %d hosts",
                            ask->demand[k].name,
                            ask->demand[k].members * ask->demand[k].groups,
                            ask->hosts);
    return PDL_OK;
}

enum pdl_status pdl_network_search(pdl_arena *a,
                                   const struct pdl_network_ask *ask,
                                   struct pdl_network_rival *rivals, int n,
                                   struct pdl_networks *out,
                                   struct pdl_err *err)
{
    struct search s = {.ask = ask, .arena = a};
    double least = INFINITY;
    enum pdl_status st = check(ask, err);

    if (st != PDL_OK)
        return st;
    pthread_mutex_init(&s.lock, NULL);
    atomic_init(&s.stop, false);
    atomic_init(&s.simulated, 0);
    atomic_init(&s.first, 0);
    st = list_networks(&s, err);
    if (st == PDL_OK)
        pdl_parallel(s.n, ask->threads, look_at, &s);
    if (st == PDL_OK && s.failed)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < s.n; i++) {
        s.list[i].front = s.list[i].seconds < least * (1 - NOTICED);
        least = fmin(least, s.list[i].seconds);
    }
    for (int i = 0; i < n && st == PDL_OK; i++)
        st = look_at_rival(&s, &rivals[i], err);
    pthread_mutex_destroy(&s.lock);
    *out = (struct pdl_networks){.list = s.list,
                                 .n = s.n,
                                 .simulated = atomic_load(&s.simulated),
                                 .stopped = atomic_load(&s.stop)};
    return st;
}
