/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums that switches make on the way (NVLink SHARP, SHARP on InfiniBand): what
 * comes up the links of a tree is added at its switches, and the sum comes down
 * the same links. A vector streams through its tree, which is so one flow that
 * has the same rate on every link, up and down; trees that carry parts of a
 * buffer at the same time share links max-min fairly.
 *
 * The root is the switch nearest to the farthest of sixteen ranks. Where
 * ranks have nodes, and there are several, tree c joins the c-th ranks of all
 * nodes, which the others reach inside theirs, as NCCL's NVLSTree and CollNet
 * do. How fast a switch adds and how many trees it holds are no limit here. */
#include "coll_priv.h"

#include <math.h>

enum { SOURCES = 16, MOST_TREES = 64 };

struct trees {
    pdl_arena *arena;
    const struct pdl_net *net;
    int nverts, nranks, per; /* per: ranks of a node; 1: each is one */
    int *first, *out;        /* links that leave vertex v: first[v].. */
    int *far, *away, *queue; /* of each vertex */
    double *amount, *load;   /* of each link: by this tree, by all */
    bool *up;                /* the tree has it, towards the root */
    struct pdl_maxmin_flow flow[MOST_TREES];
    double up_s, down_s; /* the longest way of any rank */
};

/* ---- the network as a graph ---------------------------------------------- */

static enum pdl_status make_room(struct trees *t, struct pdl_err *err)
{
    const struct pdl_net *net = t->net;
    pdl_arena *a = t->arena;

    t->nverts = net->nhosts + net->nswitches;
    t->first = PDL_NEW(a, int, t->nverts + 2);
    t->out = PDL_NEW(a, int, 2 * (int64_t)net->nlinks + 1);
    t->far = PDL_NEW(a, int, t->nverts);
    t->away = PDL_NEW(a, int, t->nverts);
    t->queue = PDL_NEW(a, int, t->nverts);
    t->amount = PDL_NEW(a, double, net->nlinks + 1);
    t->load = PDL_NEW(a, double, net->nlinks + 1);
    t->up = PDL_NEW(a, bool, net->nlinks + 1);
    if (!t->first || !t->out || !t->far || !t->away || !t->queue ||
        !t->amount || !t->load || !t->up)
        return pdl_fail(err, PDL_ENOMEM, "in-network: no memory for %d links",
                        net->nlinks);
    return PDL_OK;
}

static int other_way(const struct pdl_net *net, int link)
{
    return net->links[link].shared ? link : net->links[link].reverse;
}

static enum pdl_status list_links(struct trees *t, struct pdl_err *err)
{
    const struct pdl_net *net = t->net;

    for (int i = 0; i < net->nlinks; i++) {
        const struct pdl_link *l = &net->links[i];

        if (l->from == l->to || other_way(net, i) < 0)
            return pdl_fail(err, PDL_EINVAL,
                            "in-network: the network has links that are no "
                            "cables, or one way only");
        t->first[l->from + 2]++;
        if (l->shared)
            t->first[l->to + 2]++;
    }
    for (int v = 0; v < t->nverts; v++)
        t->first[v + 2] += t->first[v + 1];
    return PDL_OK;
}

static void place_links(struct trees *t)
{
    for (int i = 0; i < t->net->nlinks; i++) {
        const struct pdl_link *l = &t->net->links[i];

        t->out[t->first[l->from + 1]++] = i;
        if (l->shared)
            t->out[t->first[l->to + 1]++] = i;
    }
}

static int end_of(const struct trees *t, int link, int from)
{
    const struct pdl_link *l = &t->net->links[link];

    return l->from == from ? l->to : l->from;
}

/* Cables from a vertex to every other by switches alone; -1: none. */
static void spread(struct trees *t, int from)
{
    int n = 1;

    for (int v = 0; v < t->nverts; v++)
        t->away[v] = -1;
    t->away[from] = 0;
    t->queue[0] = from;
    for (int i = 0; i < n; i++) {
        int v = t->queue[i];

        if (v < t->net->nhosts && v != from)
            continue;
        for (int k = t->first[v]; k < t->first[v + 1]; k++) {
            int to = end_of(t, t->out[k], v);

            if (t->away[to] < 0) {
                t->away[to] = t->away[v] + 1;
                t->queue[n++] = to;
            }
        }
    }
}

/* ---- a tree -------------------------------------------------------------- */

/* Ranks of tree c that the tree itself joins: i-th of them. */
static int joined(const struct trees *t, int c, int i)
{
    return pdl_net_seat(t->net, i * t->per + c % t->per);
}

/* The c-th of the switches that are nearest to the farthest; -1: no switch
 * reaches all. */
static int root_of(struct trees *t, int c)
{
    int n = t->nranks / t->per, sources = n < SOURCES ? n : SOURCES;
    int least = INT32_MAX, count = 0, root = -1;

    memset(t->far, 0, (size_t)t->nverts * sizeof *t->far);
    for (int i = 0; i < sources; i++) {
        spread(t, joined(t, c, (int)((int64_t)i * n / sources)));
        for (int v = 0; v < t->nverts; v++)
            if (t->away[v] < 0 || t->far[v] == INT32_MAX)
                t->far[v] = INT32_MAX;
            else if (t->away[v] > t->far[v])
                t->far[v] = t->away[v];
    }
    for (int v = t->net->nhosts; v < t->nverts; v++) {
        count = t->far[v] < least ? 1 : count + (t->far[v] == least);
        least = t->far[v] < least ? t->far[v] : least;
    }
    for (int v = t->net->nhosts, k = 0; v < t->nverts; v++)
        if (least < INT32_MAX && t->far[v] == least && k++ == c % count)
            root = v;
    return root;
}

/* A link towards the root; the sum comes back by the other way. */
static void take(struct trees *t, int link, double *up_s, double *down_s)
{
    int back = other_way(t->net, link);

    *up_s += t->net->links[link].latency_s;
    *down_s += t->net->links[back].latency_s;
    if (t->up[link])
        return;
    t->up[link] = true;
    t->amount[link]++;
    t->amount[back]++;
}

/* From a vertex to the root: of several cables that lead nearer the c-th. */
static bool climb(struct trees *t, int c, int v, double *up_s, double *down_s)
{
    while (t->away[v] > 0) {
        int n = 0, link = -1;

        for (int k = t->first[v]; k < t->first[v + 1]; k++)
            n += t->away[end_of(t, t->out[k], v)] == t->away[v] - 1;
        if (n == 0)
            return false;
        for (int k = t->first[v], i = 0; k < t->first[v + 1]; k++)
            if (t->away[end_of(t, t->out[k], v)] == t->away[v] - 1 &&
                i++ == c % n)
                link = t->out[k];
        take(t, link, up_s, down_s);
        v = end_of(t, link, v);
    }
    return t->away[v] == 0;
}

/* From a rank to that of its node which the tree joins. */
static void inside(struct trees *t, int rank, int leader, double *up_s,
                   double *down_s)
{
    int links[PDL_MAX_ROUTE];
    int n = t->net->route(t->net, rank, leader, links);

    for (int i = 0; i < n; i++)
        take(t, links[i], up_s, down_s);
}

static enum pdl_status grow(struct trees *t, int c, struct pdl_err *err)
{
    int root = root_of(t, c);

    memset(t->amount, 0, (size_t)t->net->nlinks * sizeof *t->amount);
    memset(t->up, 0, (size_t)t->net->nlinks * sizeof *t->up);
    if (root >= 0)
        spread(t, root);
    for (int r = 0; root >= 0 && r < t->nranks; r++) {
        int leader = joined(t, c, r / t->per);
        double up_s = 0, down_s = 0;

        inside(t, pdl_net_seat(t->net, r), leader, &up_s, &down_s);
        if (!climb(t, c, leader, &up_s, &down_s))
            root = -1;
        t->up_s = fmax(t->up_s, up_s);
        t->down_s = fmax(t->down_s, down_s);
    }
    if (root >= 0)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "in-network: no switch joins all ranks");
    pdl_hint(err, "star, fat-tree, rail and nodes have switches that can add");
    return PDL_EINVAL;
}

/* As a flow: what it takes of every link. */
static bool keep(struct trees *t, int c)
{
    struct pdl_maxmin_use *uses;
    int n = 0;

    for (int i = 0; i < t->net->nlinks; i++)
        n += t->amount[i] > 0;
    uses = PDL_NEW(t->arena, struct pdl_maxmin_use, n + 1);
    if (!uses)
        return false;
    t->flow[c] = (struct pdl_maxmin_flow){.uses = uses, .weight = 1};
    for (int i = 0; i < t->net->nlinks; i++)
        if (t->amount[i] > 0)
            uses[t->flow[c].nuses++] = (struct pdl_maxmin_use){i, t->amount[i]};
    return true;
}

/* ---- all of them --------------------------------------------------------- */

/* So many bytes through each tree, at the same time. */
static enum pdl_status stream(const struct trees *t, int n, double bytes,
                              double *seconds, struct pdl_err *err)
{
    struct pdl_maxmin_flow flows[MOST_TREES];
    double *capacity = PDL_NEW(t->arena, double, t->net->nlinks + 1);
    double rate[MOST_TREES] = {0}, left[MOST_TREES] = {0};
    struct pdl_maxmin p = {capacity, t->net->nlinks, flows, n};

    if (!capacity)
        return pdl_fail(err, PDL_ENOMEM, "in-network: out of memory");
    for (int i = 0; i < t->net->nlinks; i++)
        capacity[i] =
            t->net->links[i].fatpipe ? 1e30 : t->net->links[i].bytes_per_s;
    for (int i = 0; i < n; i++) {
        flows[i] = t->flow[i];
        left[i] = bytes;
    }
    for (*seconds = 0; p.nflows > 0;) {
        enum pdl_status st = pdl_maxmin_solve(&p, rate, err);
        double next = INFINITY;
        int k = 0;

        if (st != PDL_OK)
            return st;
        for (int i = 0; i < p.nflows; i++)
            next = fmin(next, left[i] / rate[i]);
        for (int i = 0; i < p.nflows; i++) {
            left[k] = left[i] - next * rate[i];
            flows[k] = flows[i];
            k += left[k] > 1e-12 * bytes;
        }
        p.nflows = k;
        *seconds += next;
    }
    return PDL_OK;
}

/* A tree by itself. */
static double alone(const struct trees *t, int c, double bytes)
{
    const struct pdl_maxmin_flow *f = &t->flow[c];
    double s = 0;

    for (int i = 0; i < f->nuses; i++) {
        const struct pdl_link *l = &t->net->links[f->uses[i].link];

        if (!l->fatpipe)
            s = fmax(s, f->uses[i].amount * bytes / l->bytes_per_s);
    }
    return s;
}

static void fill(const struct trees *t, int n, double bytes, double seconds,
                 struct pdl_sim_result *out)
{
    double latency = t->up_s + t->down_s, sum = 0, most = 0;

    *out = (struct pdl_sim_result){.max_link = -1, .time_s = latency + seconds};
    out->bounds =
        (struct pdl_bounds){.latency_s = latency, .link = -1, .host = -1};
    for (int i = 0; i < t->net->nlinks; i++) {
        double busy = t->load[i] * bytes / t->net->links[i].bytes_per_s;

        sum += t->load[i] * bytes;
        if (t->load[i] * bytes > most) {
            most = t->load[i] * bytes;
            out->max_link = i;
        }
        if (!t->net->links[i].fatpipe && busy > out->bounds.link_s) {
            out->bounds.link_s = busy;
            out->bounds.link = i;
        }
    }
    for (int c = 0; c < n; c++)
        out->bounds.alone_s =
            fmax(out->bounds.alone_s, latency + alone(t, c, bytes));
    out->bytes_on_wire = llround(sum);
    out->max_link_bytes = llround(most);
    out->bounds.lower_s = fmax(out->bounds.alone_s, out->bounds.link_s);
}

enum pdl_status pdl_coll_in_network(pdl_arena *a, const struct pdl_net *net,
                                    int nranks, int64_t bytes, int *trees,
                                    struct pdl_sim_result *out,
                                    struct pdl_err *err)
{
    bool nodes = net->node > 1 && nranks > net->node && nranks % net->node == 0;
    struct trees *t = PDL_NEW(a, struct trees, 1);
    double seconds = 0;
    enum pdl_status st;

    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "in-network: out of memory");
    *t = (struct trees){.arena = a, .net = net, .nranks = nranks};
    t->per = nodes ? net->node : 1;
    if (*trees == 0)
        *trees = t->per < MOST_TREES ? t->per : MOST_TREES;
    if (nranks < 2 || nranks > net->nhosts || *trees > MOST_TREES)
        return pdl_fail(err, PDL_EINVAL,
                        "in-network: 2 to %d ranks, and at most %d trees",
                        net->nhosts, MOST_TREES);
    st = make_room(t, err);
    if (st == PDL_OK)
        st = list_links(t, err);
    if (st == PDL_OK)
        place_links(t);
    for (int c = 0; c < *trees && st == PDL_OK; c++) {
        st = grow(t, c, err);
        if (st == PDL_OK && !keep(t, c))
            st = pdl_fail(err, PDL_ENOMEM, "in-network: out of memory");
        for (int i = 0; i < net->nlinks && st == PDL_OK; i++)
            t->load[i] += t->amount[i];
    }
    if (st == PDL_OK)
        st = stream(t, *trees, (double)bytes / *trees, &seconds, err);
    if (st == PDL_OK)
        fill(t, *trees, (double)bytes / *trees, seconds, out);
    return st;
}
