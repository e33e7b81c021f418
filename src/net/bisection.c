/* SPDX-License-Identifier: Apache-2.0
 *
 * Bisection: the least capacity whose removal parts the hosts into two equal
 * halves (one host more on one side when they are odd), switches falling on
 * either side.
 *
 * By formula for: the torus and the mesh whose longest side is even (2N/k and
 * N/k; Leighton 1992), full2d with an even shorter side (N*s/4, the cut
 * between halves of the lines of that dimension), the star, and fat trees
 * that never taper, which route any permutation without conflict and so have
 * N/2. Otherwise the best of a few cuts, each improved by passes of Fiduccia
 * and Mattheyses' kind: always move the vertex that gains most, keep the best
 * balanced prefix (more than MAX_WAYS ways: only switches are moved). That is
 * an upper bound and is reported as such.
 *
 * A cut's capacity counts each cable once (the arcs of a one-way network: the
 * sum of both directions, halved). */
#include "topo_priv.h"

#include <string.h>

enum { MAX_WAYS = 1 << 20, STARTS = 6, PASSES = 8 };

/* ---- formulas ---------------------------------------------------------- */

static int64_t product(const struct net_dims *d)
{
    int64_t n = 1;

    for (int i = 0; i < d->n; i++)
        n *= d->d[i];
    return n;
}

static int64_t longest(const struct net_dims *d)
{
    int64_t k = 1;

    for (int i = 0; i < d->n; i++)
        k = d->d[i] > k ? d->d[i] : k;
    return k;
}

static int64_t of_torus(const struct pdl_topo_values *v)
{
    const struct net_dims *d = &net_value(v, "dims")->dims;
    int64_t k = longest(d);

    return k % 2 ? -1 : 2 * product(d) / k;
}

static int64_t of_mesh(const struct pdl_topo_values *v)
{
    const struct net_dims *d = &net_value(v, "dims")->dims;
    int64_t k = longest(d);

    return k % 2 ? -1 : product(d) / k;
}

static int64_t of_full2d(const struct pdl_topo_values *v)
{
    const struct net_dims *d = &net_value(v, "dims")->dims;
    int64_t s = d->d[0] < d->d[1] ? d->d[0] : d->d[1];

    return s % 2 ? -1 : product(d) * s / 4;
}

static int64_t of_star(const struct pdl_topo_values *v)
{
    return net_value(v, "hosts")->i / 2;
}

static int64_t of_fat_tree(const struct pdl_topo_values *v)
{
    const struct net_dims *down = &net_value(v, "down")->dims;
    const struct net_dims *up = &net_value(v, "up")->dims;
    const struct net_dims *links = &net_value(v, "links")->dims;
    int64_t below = 1;

    for (int l = 0; l < down->n; l++) {
        int64_t c = links->d[links->n == 1 ? 0 : l];

        if (up->d[l] * c < below) /* cables up of a vertex, and down */
            return -1;
        if (l == 0 && up->d[l] * c != 1)
            return -1;
        below = down->d[l] * c;
    }
    return product(down) / 2;
}

static const struct formula {
    const struct pdl_topo *topo;
    int64_t (*cables)(const struct pdl_topo_values *v); /* -1: not known */
} formulas[] = {
    {&net_torus, of_torus},       {&net_mesh, of_mesh},
    {&net_full2d, of_full2d},     {&net_star, of_star},
    {&net_fat_tree, of_fat_tree},
};

static int64_t by_formula(const struct pdl_net *net)
{
    if (!net->harmed && net->values && net->values->limiter_bytes_per_s == 0)
        for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++)
            if (formulas[i].topo == net->topo)
                return formulas[i].cables(net->values);
    return -1;
}

/* ---- cuts -------------------------------------------------------------- */

struct entry;
struct queue;

struct cut {
    const struct pdl_net *net;
    const struct net_graph *g, *back; /* arcs out of a vertex; and into it */
    int n;
    char *side, *best, *locked;
    double *gain;
    int *moved;
    double value; /* of side */
    struct queue *queue;
};

/* What moving v to the other side saves. */
static double gain_over(const struct cut *c, const struct net_graph *g, int v)
{
    double sum = 0;

    for (int k = g->first[v]; k < g->first[v + 1]; k++)
        sum += (c->side[g->ways[k].to] != c->side[v] ? 1 : -1) *
               c->net->links[g->ways[k].link].bytes_per_s;
    return sum / 2;
}

static double gain_of(const struct cut *c, int v)
{
    return gain_over(c, c->g, v) + gain_over(c, c->back, v);
}

static double value_of(const struct cut *c)
{
    double sum = 0;

    for (int i = 0; i < c->net->nlinks; i++) {
        const struct pdl_link *k = &c->net->links[i];

        if (c->side[k->from] != c->side[k->to])
            sum += k->shared ? k->bytes_per_s : k->bytes_per_s / 2;
    }
    return sum;
}

/* ---- queues of moves, best first; entries of vertices that have changed since
 * are passed over
 * ------------------------------------------------------------- */

struct entry {
    double gain;
    int v;
};

struct queue {
    struct entry *at;
    int n;
};

enum { HOST0, HOST1, SWITCH, NQUEUES };
enum { NOWHERE = 2 }; /* of side */

static bool before(const struct entry *a, const struct entry *b)
{
    return a->gain != b->gain ? a->gain > b->gain : a->v < b->v;
}

static void push(struct queue *q, struct entry e)
{
    int i = q->n++;

    for (; i > 0 && before(&e, &q->at[(i - 1) / 2]); i = (i - 1) / 2)
        q->at[i] = q->at[(i - 1) / 2];
    q->at[i] = e;
}

static void pop(struct queue *q)
{
    struct entry e = q->at[--q->n];
    int i = 0;

    for (;;) {
        int k = 2 * i + 1;

        if (k + 1 < q->n && before(&q->at[k + 1], &q->at[k]))
            k++;
        if (k >= q->n || !before(&q->at[k], &e))
            break;
        q->at[i] = q->at[k];
        i = k;
    }
    q->at[i] = e;
}

static struct queue *queue_of(struct cut *c, int v)
{
    if (v >= c->net->nhosts)
        return &c->queue[SWITCH];
    return &c->queue[c->side[v] ? HOST1 : HOST0];
}

/* The best entry still true; NULL: none. */
static const struct entry *top(struct cut *c, struct queue *q)
{
    while (q->n > 0 &&
           (c->locked[q->at[0].v] || c->gain[q->at[0].v] != q->at[0].gain))
        pop(q);
    return q->n > 0 ? &q->at[0] : NULL;
}

/* After v has moved, each neighbour's gain changes by twice the cable. */
static void touch(struct cut *c, const struct net_graph *g, int v)
{
    for (int k = g->first[v]; k < g->first[v + 1]; k++) {
        int u = g->ways[k].to;
        double w = c->net->links[g->ways[k].link].bytes_per_s;

        if (c->locked[u])
            continue;
        c->gain[u] += c->side[u] != c->side[v] ? w : -w;
        push(queue_of(c, u), (struct entry){c->gain[u], u});
    }
}

/* The vertex that gains most; a host only from the larger side, or, when they
 * are equal, from any. lead: hosts on side 0 less those on side 1. */
static int best_move(struct cut *c, int lead, int odd)
{
    const struct entry *best = NULL;

    for (int i = 0; i < NQUEUES; i++) {
        const struct entry *e;

        if ((i == HOST1 && lead > odd) || (i == HOST0 && lead < -odd))
            continue;
        e = top(c, &c->queue[i]);
        if (e && (!best || before(e, best)))
            best = e;
    }
    return best ? best->v : -1;
}

static int fill(struct cut *c)
{
    int lead = 0;

    for (int i = 0; i < NQUEUES; i++)
        c->queue[i].n = 0;
    for (int v = 0; v < c->n; v++) {
        c->locked[v] = 0;
        c->gain[v] = gain_of(c, v);
        push(queue_of(c, v), (struct entry){c->gain[v], v});
        if (v < c->net->nhosts)
            lead += c->side[v] ? -1 : 1;
    }
    return lead;
}

/* One pass; true when it found a better balanced cut. */
static bool pass(struct cut *c)
{
    int lead = fill(c), count = 0, keep = 0, odd = c->net->nhosts % 2;
    double now = c->value, least = c->value;

    while (count < c->n) {
        int v = best_move(c, lead, odd);

        if (v < 0)
            break;
        now -= c->gain[v];
        c->side[v] ^= 1;
        c->locked[v] = 1;
        if (v < c->net->nhosts)
            lead += c->side[v] ? -2 : 2;
        c->moved[count++] = v;
        touch(c, c->g, v);
        touch(c, c->back, v);
        if (now < least * (1 - 1e-9) && lead >= -odd && lead <= odd) {
            least = now;
            keep = count;
        }
    }
    while (count > keep)
        c->side[c->moved[--count]] ^= 1;
    c->value = value_of(c);
    return keep > 0;
}

/* Start s: hosts by number; every second host; by distance from a host; at
 * random. Switches follow. */
static void start(struct cut *c, int s, int *dist, int *queue)
{
    int half = c->net->nhosts / 2, put = 0;
    struct pdl_rng rng = {.key = 77, .stream = (uint64_t)s};

    memset(c->side, 0, (size_t)c->n);
    if (s == 0) {
        for (int h = 0; h < half; h++)
            c->side[h] = 1;
    } else if (s == 1) {
        for (int h = 0; h < half; h++)
            c->side[(size_t)h * 2] = 1;
    } else if (s < 4) {
        net_graph_bfs(c->g, s == 2 ? 0 : c->net->nhosts / 2, dist, queue);
        for (int i = 0; i < c->n && put < half; i++)
            if (queue[i] < c->net->nhosts) {
                c->side[queue[i]] = 1;
                put++;
            }
    } else {
        while (put < half) {
            uint64_t n = (uint64_t)c->net->nhosts;
            int h = (int)pdl_rng_below(&rng, n);

            put += !c->side[h];
            c->side[h] = 1;
        }
    }
}

/* Puts the switches, nearest to the hosts first, where most of their cables to
 * what has a place lead. */
static void follow(struct cut *c)
{
    for (int v = c->net->nhosts; v < c->n; v++)
        c->side[v] = NOWHERE;
    for (bool more = true; more;) {
        int put = 0;

        for (int v = c->net->nhosts; v < c->n; v++) {
            double pull[3] = {0, 0, 0};

            for (int k = c->g->first[v];
                 c->side[v] == NOWHERE && k < c->g->first[v + 1]; k++)
                pull[(int)c->side[c->g->ways[k].to]] +=
                    c->net->links[c->g->ways[k].link].bytes_per_s;
            if (pull[0] + pull[1] > 0) {
                c->locked[v] = pull[1] > pull[0];
                c->moved[put++] = v;
            }
        }
        for (int i = 0; i < put; i++)
            c->side[c->moved[i]] = c->locked[c->moved[i]];
        more = put > 0;
    }
    for (int v = c->net->nhosts; v < c->n; v++)
        if (c->side[v] == NOWHERE)
            c->side[v] = 0;
}

/* Moves switches while that gains; hosts stay. */
static void settle(struct cut *c)
{
    bool again = true;

    for (int round = 0; again && round < 64; round++) {
        again = false;
        for (int v = c->net->nhosts; v < c->n; v++)
            if (gain_of(c, v) > 0) {
                c->side[v] ^= 1;
                again = true;
            }
    }
    c->value = value_of(c);
}

static bool alloc(pdl_arena *a, struct cut *c)
{
    size_t n = (size_t)c->n;
    size_t entries = n + 1 + (size_t)c->g->first[n] + (size_t)c->back->first[n];

    c->side = PDL_NEW(a, char, n);
    c->best = PDL_NEW(a, char, n);
    c->locked = PDL_NEW(a, char, n);
    c->gain = PDL_NEW(a, double, n);
    c->moved = PDL_NEW(a, int, n);
    c->queue = PDL_NEW(a, struct queue, NQUEUES);
    for (int i = 0; c->queue && i < NQUEUES; i++) {
        c->queue[i].at = PDL_NEW(a, struct entry, entries);
        if (!c->queue[i].at)
            return false;
    }
    return c->side && c->best && c->locked && c->gain && c->moved && c->queue;
}

/* A cut as small as the formula says need not be bettered. */
static void search(struct cut *c, int *dist, int *queue)
{
    int64_t cables = by_formula(c->net);
    double known =
        cables < 0 ? 0 : (double)cables * c->net->values->bytes_per_s;
    double least = -1;

    for (int s = 0; s < STARTS && (s == 0 || least > known * (1 + 1e-9)); s++) {
        start(c, s, dist, queue);
        follow(c);
        settle(c);
        for (int p = 0; c->g->first[c->n] <= MAX_WAYS && p < PASSES &&
                        c->value > known * (1 + 1e-9) && pass(c);
             p++)
            settle(c);
        if (least < 0 || c->value < least) {
            least = c->value;
            memcpy(c->best, c->side, (size_t)c->n);
        }
    }
    memcpy(c->side, c->best, (size_t)c->n);
    c->value = value_of(c);
}

/* Is every way as wide back? Then the reversed graph is the graph itself. */
static bool is_symmetric(const struct pdl_net *net)
{
    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *l = &net->links[i];

        if (!l->shared &&
            (l->reverse < 0 ||
             net->links[l->reverse].bytes_per_s != l->bytes_per_s))
            return false;
    }
    return true;
}

/* The reversed graph, for one-way networks. */
static enum pdl_status reversed(pdl_arena *a, const struct pdl_net *net,
                                struct net_graph *out, struct pdl_err *err)
{
    struct pdl_net back = *net;
    struct pdl_link *links = PDL_NEW(a, struct pdl_link, net->nlinks);

    if (!links)
        return pdl_fail(err, PDL_ENOMEM, "bisection: out of memory");
    for (int i = 0; i < net->nlinks; i++) {
        links[i] = net->links[i];
        links[i].from = net->links[i].to;
        links[i].to = net->links[i].from;
    }
    back.links = links;
    return net_graph_make(a, &back, NULL, out, err);
}

static void count(const struct cut *c, struct pdl_metrics *m)
{
    int64_t twice = 0;

    for (int i = 0; i < c->net->nlinks; i++) {
        const struct pdl_link *k = &c->net->links[i];

        if (c->side[k->from] != c->side[k->to])
            twice += (int64_t)net_width(k) * (k->shared ? 2 : 1);
    }
    m->bisection_cables = (twice + 1) / 2;
    m->bisection_bytes_per_s = c->value;
}

/* The best cut found, in c->side. */
static enum pdl_status best_cut(pdl_arena *a, const struct pdl_net *net,
                                const struct net_graph *g, struct cut *c,
                                struct pdl_err *err)
{
    int n = net->nhosts + net->nswitches;
    int *dist = PDL_NEW(a, int, n), *queue = PDL_NEW(a, int, n);
    struct net_graph *back = PDL_NEW(a, struct net_graph, 1);
    enum pdl_status st;

    *c = (struct cut){.net = net, .g = g, .back = back, .n = n};
    if (!dist || !queue || !back)
        return pdl_fail(err, PDL_ENOMEM, "bisection: out of memory");
    st = is_symmetric(net) ? PDL_OK : reversed(a, net, back, err);
    if (st != PDL_OK)
        return st;
    if (!back->first)
        c->back = g;
    if (!alloc(a, c))
        return pdl_fail(err, PDL_ENOMEM, "bisection: out of memory");
    search(c, dist, queue);
    return PDL_OK;
}

enum pdl_status net_bisection(pdl_arena *a, const struct pdl_net *net,
                              const struct net_graph *g, struct pdl_metrics *m,
                              struct pdl_err *err)
{
    int64_t cables = by_formula(net);
    struct cut c;
    enum pdl_status st;

    m->bisection_exact = cables >= 0;
    if (cables >= 0) {
        m->bisection_cables = cables;
        m->bisection_bytes_per_s = (double)cables * net->values->bytes_per_s;
        return PDL_OK;
    }
    st = best_cut(a, net, g, &c, err);
    if (st == PDL_OK)
        count(&c, m);
    return st;
}

enum pdl_status net_halves(pdl_arena *a, const struct pdl_net *net,
                           const char **side, struct pdl_err *err)
{
    /* the graph of a million hosts is as large as its links */
    pdl_arena *scratch = pdl_arena_create((size_t)16 << 30);
    struct net_graph g;
    struct cut c;
    enum pdl_status st =
        scratch ? net_graph_make(scratch, net, NULL, &g, err)
                : pdl_fail(err, PDL_ENOMEM, "bisection: out of memory");

    if (st == PDL_OK)
        st = best_cut(scratch, net, &g, &c, err);
    if (st == PDL_OK) {
        char *keep = PDL_NEW(a, char, c.n);

        if (keep)
            *side = memcpy(keep, c.side, (size_t)c.n);
        else
            st = pdl_fail(err, PDL_ENOMEM, "bisection: out of memory");
    }
    pdl_arena_destroy(scratch);
    return st;
}
