/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology, routing and algorithms for a traffic: every network is priced by
 * its switches and cables, and every demand is simulated with all its groups
 * at once, flow by flow, under every algorithm of its collective. Demands come
 * one after the other; a demand's ranks begin together.
 *
 * What counts is the front of cost and time, of each cost the fastest. Networks
 * are looked at from the cheapest on; a simulation ends when it has taken
 * longer than a network that costs less takes for everything, and an algorithm
 * whose rounds and bytes alone do is not begun. So nothing of the front is
 * lost, and the rest is known only as not on it. Which of them came to an end
 * depends on threads and their speed; what is answered does not. */
#include "tune_priv.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTICED  1e-3 /* what is faster by less is not */
#define ROUNDING 1e-9 /* bounds and simulations add up in other orders */
#define MEMORY   ((size_t)8 << 30)

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

/* ---- one demand, one algorithm ------------------------------------------- */

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

static bool stopped(const struct search *s)
{
    const volatile int *by_asker = s->ask->interrupt;

    return atomic_load(&s->stop) || (by_asker && *by_asker);
}

/* Seconds of a demand once; INFINITY: refused, or it takes longer than until_s.
 * What takes as long is told: of equals the first is taken, on any thread. */
static double simulate(struct search *s, const struct pdl_network_point *n,
                       const struct pdl_net *net, const struct pdl_demand *d,
                       const char *algorithm, double until_s)
{
    double until = until_s * (1 + ROUNDING);
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR,
                                    .until_s = isfinite(until) ? until : 0,
                                    .interrupt = s->ask->interrupt};
    pdl_arena *own = pdl_arena_create(MEMORY), *a = pdl_arena_create(MEMORY);
    struct pdl_sim_result r = {.time_s = INFINITY};
    struct tune_traffic t;
    bool runs = own && a && tune_traffic_make(own, d, net, algorithm, &t);

    for (int k = 0; runs && k < t.njobs; k++)
        runs = least_s(s, n, &t.job[k]) <= until;
    if (runs && t.whole && isfinite(until))
        runs = floor_s(net, t.job, until) <= until;
    if (runs) {
        atomic_fetch_add(&s->simulated, 1);
        if (pdl_sim_run(a, net, &t.all, &config, &r, NULL) != PDL_OK)
            r.time_s = INFINITY;
    }
    pdl_arena_destroy(a);
    pdl_arena_destroy(own);
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

    if (tune_is_send(d))
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
    int best = 0, first = atomic_load(&s->first);

    n->each[k] = INFINITY;
    n->by[k] = NULL;
    if (tune_is_send(d)) {
        n->each[k] = simulate(s, n, net, d, NULL, until_s);
        n->by[k] = "";
        return;
    }
    /* what was the fastest on another network goes first */
    for (int i = -1; !stopped(s); i++) {
        int at = i < 0 ? first : i;
        double limit =
            s->ask->exhaustive ? INFINITY : fmin(until_s, n->each[k]);
        double t;

        w = way(d, at);
        if (!w && i >= 0)
            break;
        if (!w || !*w || i == first) /* not again */
            continue;
        t = simulate(s, n, net, d, w, limit);
        if (t < n->each[k] || (t == n->each[k] && n->by[k] && at < best)) {
            n->each[k] = t;
            n->by[k] = w;
            best = at;
        }
    }
    if (n->by[k])
        atomic_store(&s->first, best);
}

/* Costs are sums over cables in any order. */
static int64_t cents(const struct pdl_network_point *n)
{
    return llround(n->cost * 100);
}

/* Of those that cost less, the least that is known by now. (One that costs as
 * much is no bound: of two that are equally fast each would leave out the
 * other, or neither, as threads have it.) */
static double bound(struct search *s, const struct pdl_network_point *n)
{
    double least = INFINITY;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !s->ask->exhaustive; i++)
        if (cents(&s->list[i]) < cents(n))
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

        if (algorithm && !tune_is_send(d)) {
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

/* Of what is bought, and of so many ports of hosts that pass messages on. */
static double by_prices(const struct pdl_network_ask *ask,
                        const struct pdl_net_bill *b, int64_t more)
{
    const struct pdl_network_prices *p = ask->prices;

    return ask->bytes_per_s / 1e9 *
               (p->port * (double)(b->ports + more) +
                p->near * (double)b->near_cables +
                p->far * (double)b->far_cables) +
           p->metre * b->far_m;
}

/* A host with several ports passes messages on: it is charged a switch of its
 * ports and one for itself. */
static enum pdl_status price(const struct pdl_network_ask *ask, pdl_arena *a,
                             const struct pdl_net *net,
                             struct pdl_network_point *n, struct pdl_err *err)
{
    int all = net->nhosts + net->nswitches;
    int *ports = PDL_NEW(a, int, all + 1);
    int64_t more = 0;
    struct pdl_metrics m;
    struct pdl_net_bill b;
    enum pdl_status st = pdl_net_metrics(a, net, &m, err);

    if (st == PDL_OK && ask->prices)
        st = pdl_net_bill(a, net, &b, err);
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
            n->cost += pdl_net_switch_cost(ports[v] + 1);
        more += router ? ports[v] + 1 : 0;
        if (router || v >= net->nhosts)
            n->radix = ports[v] > n->radix ? ports[v] : n->radix;
    }
    if (ask->prices)
        n->cost = by_prices(ask, &b, more);
    return PDL_OK;
}

static enum pdl_status describe(struct search *s, const char *spec,
                                struct pdl_network_point *n,
                                struct pdl_err *err)
{
    int demands = s->ask->ndemands;
    pdl_arena *a = pdl_arena_create(MEMORY);
    const struct pdl_net *net = a ? open_net(s, a, spec, err) : NULL;
    enum pdl_status st = net ? price(s->ask, a, net, n, err) : PDL_EINVAL;

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

    if (cents(a) != cents(b))
        return cents(a) < cents(b) ? -1 : 1;
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
    for (int i = 0; i < specs->n && st == PDL_OK && !stopped(s); i++) {
        struct pdl_network_point *n = &s->list[s->n];

        *n = (struct pdl_network_point){.spec = NULL};
        if (describe(s, specs->spec[i], n, NULL) == PDL_OK &&
            n->radix <= ask->radix)
            s->n++;
    }
    free(specs);
    for (int i = 0; i < ask->nmore && st == PDL_OK && !stopped(s); i++) {
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
    n->seconds = stopped(s) ? INFINITY : seconds; /* perhaps not all ways */
    s->failed = s->failed || !net;
    s->done++;
    if (s->ask->progress && !s->ask->progress(s->ask->ctx, s->done, s->n))
        atomic_store(&s->stop, true);
    pthread_mutex_unlock(&s->lock);
    return !stopped(s);
}

/* Those that are faster than all that cost less, the fastest of each cost. */
static void find_front(struct search *s)
{
    double least = INFINITY;

    for (int i = 0, end; i < s->n; i = end) {
        int best = i;

        for (end = i; end < s->n && cents(&s->list[end]) == cents(&s->list[i]);
             end++)
            if (s->list[end].seconds < s->list[best].seconds)
                best = end;
        s->list[best].front = s->list[best].seconds < least * (1 - NOTICED);
        least = fmin(least, s->list[best].seconds);
    }
    /* whether others came to an end depends on what was known by then */
    for (int i = 0; i < s->n && !s->ask->exhaustive; i++)
        if (!s->list[i].front)
            s->list[i].seconds = INFINITY;
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
        if (stopped(s))
            r->is.seconds = INFINITY;
        else if (!isfinite(r->is.seconds))
            st = pdl_fail(err, PDL_EINVAL, "%.100s: %.40s does not run there",
                          r->spec, algorithm ? algorithm : "no algorithm");
    } else if (st == PDL_OK) {
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    pdl_arena_destroy(a);
    for (int i = 0; i < s->n && st == PDL_OK && isfinite(r->is.seconds); i++)
        if (s->list[i].front && cents(&s->list[i]) <= cents(&r->is) &&
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
        if (!tune_is_send(&ask->demand[k]) &&
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
    find_front(&s);
    for (int i = 0; i < n && st == PDL_OK; i++) {
        rivals[i].winner = -1;
        rivals[i].is.seconds = INFINITY;
        if (!stopped(&s))
            st = look_at_rival(&s, &rivals[i], err);
    }
    pthread_mutex_destroy(&s.lock);
    *out = (struct pdl_networks){.list = s.list,
                                 .n = s.n,
                                 .simulated = atomic_load(&s.simulated),
                                 .stopped = stopped(&s)};
    return st;
}
