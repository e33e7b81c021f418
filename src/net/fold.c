/* SPDX-License-Identifier: Apache-2.0
 *
 * Many ranks as one. Where a turn of the network (adding one to a digit of all
 * hosts' numbers) takes ways to ways, and what is sent on them to what is
 * sent, ranks that turns take to one another do the same at the same time: the
 * max-min rates are unique, so they turn too, and so does everything that
 * follows from them. It is enough to simulate one rank of each orbit, on one
 * link of each orbit of links.
 *
 * With a group of n turns, a rank left stands for n flows at a time. A link
 * whose orbit has m links carries n/m of them for each that passes it: that
 * many times its rate. Nothing is approximate.
 *
 * Two ranks of an orbit may send to one another, or one rank to several of
 * another orbit, so a message keeps the host that it goes to, seen from the
 * rank that is asked; the same number, seen from its sender, is what its
 * receiver receives it as.
 *
 * Where networks and traffic say what turns are allowed (struct pdl_turns), a
 * turn must be one of both: adding `by` to numbers in blocks of `within`. What
 * a network says is checked here for its links, by tests for its ways; ways
 * that are one of two equally long ones are found out when they are met, and
 * then nothing is folded. */
#include "sim_priv.h"

#include <string.h>

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* ---- which turns --------------------------------------------------------- */

static void add_turn(struct net_fold *f, int64_t by, int64_t within, int order)
{
    if (f->nturns == NET_MAX_FOLDS || order < 2)
        return;
    f->by[f->nturns] = by;
    f->within[f->nturns] = within;
    f->order[f->nturns++] = order;
    f->size *= order;
}

/* A level (stride, extent) allows adding any multiple of the stride within
 * blocks of stride * extent. */
static void common_turns(const struct pdl_turns *a, const struct pdl_turns *b,
                         struct net_fold *f)
{
    f->size = 1;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            int64_t s = a->level[i].stride, t = b->level[k].stride;
            int64_t within = s * a->level[i].extent;
            int64_t by = s > 0 && t > 0 ? s / gcd(s, t) * t : 0;

            if (by > 0 && within == t * b->level[k].extent && within % by == 0)
                add_turn(f, by, within, (int)(within / by));
        }
    if (f->nturns == 0 && a->letters == b->letters)
        add_turn(f, 0, 0, a->letters);
}

/* Words of two different letters, (a,b) being a*d + b less one where b > a. */
static int turn_word(int letters, int host)
{
    int d = letters - 1, a = host / d, c = host % d;
    int b = c + (c >= a);

    a = (a + 1) % letters;
    b = (b + 1) % letters;
    return a * d + b - (b > a);
}

static int turn_vertex(const struct net_fold *f, const struct pdl_net *net,
                       int k, int vertex)
{
    int64_t by = f->by[k], in = f->within[k];

    if (vertex >= net->nhosts)
        return net->turn ? net->turn(net, by, in, vertex) : vertex;
    if (by == 0)
        return turn_word(f->order[k], vertex);
    return (int)(vertex - vertex % in + (vertex % in + by) % in);
}

/* ---- hosts --------------------------------------------------------------- */

/* Numbers the hosts of every orbit; false: some turn leaves one in place. */
static bool place_hosts(struct net_fold *f, const struct pdl_net *net,
                        int *place, int *at, int *host)
{
    int ranks = 0;

    for (int h = 0; h < net->nhosts; h++)
        place[h] = -1;
    for (int h = 0; h < net->nhosts; h++) {
        int base = ranks * f->size, n = 1;

        if (place[h] >= 0)
            continue;
        if (base > net->nhosts - f->size)
            return false;
        at[base] = h;
        for (int k = 0; k < f->nturns; n *= f->order[k++])
            for (int i = base + n; i < base + n * f->order[k]; i++)
                at[i] = turn_vertex(f, net, k, at[i - n]);
        for (int i = base; i < base + f->size; i++) {
            if (place[at[i]] >= 0)
                return false;
            place[at[i]] = i;
        }
        host[ranks++] = h;
    }
    f->nranks = ranks;
    return true;
}

int net_fold_seen(const struct net_fold *f, int a, int b)
{
    int from = f->place[a] % f->size, to = f->place[b] % f->size;
    int place = f->place[b] - to, unit = 1;

    for (int k = 0; k < f->nturns; k++) {
        int n = f->order[k];

        place += (to % n - from % n + n) % n * unit;
        unit *= n;
        from /= n;
        to /= n;
    }
    return f->at[place];
}

/* ---- links --------------------------------------------------------------- */

/* Links by the vertex they start at, then by where they end; a shared one
 * starts at the lower. */
struct starts {
    int *first, *links;
};

static int begins(const struct pdl_link *l)
{
    return l->shared && l->to < l->from ? l->to : l->from;
}

static int ends(const struct pdl_link *l)
{
    return l->shared && l->to < l->from ? l->from : l->to;
}

/* Sorts by one end, keeping the order of what is equal. */
static void sort_links(const struct pdl_net *net,
                       int (*end)(const struct pdl_link *), const int *in,
                       int *first, int *out)
{
    int n = net->nhosts + net->nswitches;

    memset(first, 0, (size_t)(n + 2) * sizeof *first);
    for (int l = 0; l < net->nlinks; l++)
        first[end(&net->links[l]) + 2]++;
    for (int v = 0; v < n; v++)
        first[v + 2] += first[v + 1];
    for (int i = 0; i < net->nlinks; i++)
        out[first[end(&net->links[in ? in[i] : i]) + 1]++] = in ? in[i] : i;
}

static bool list_starts(struct starts *s, pdl_arena *a,
                        const struct pdl_net *net)
{
    int *by_end = PDL_NEW(a, int, net->nlinks + 1);

    s->first = PDL_NEW(a, int, net->nhosts + net->nswitches + 2);
    s->links = PDL_NEW(a, int, net->nlinks + 1);
    if (!by_end || !s->first || !s->links)
        return false;
    sort_links(net, ends, NULL, s->first, by_end);
    sort_links(net, begins, by_end, s->first, s->links);
    return true;
}

static bool alike(const struct pdl_link *a, const struct pdl_link *b)
{
    return a->bytes_per_s == b->bytes_per_s && a->latency_s == b->latency_s &&
           a->shared == b->shared && a->idle_w == b->idle_w &&
           a->peak_w == b->peak_w && !a->fatpipe && !b->fatpipe;
}

/* The link that a turn takes link l to; -1: there is none like it, or there
 * are several. */
static int turn_link(const struct net_fold *f, const struct pdl_net *net,
                     const struct starts *s, int k, int l)
{
    const struct pdl_link *link = &net->links[l];
    struct pdl_link moved = *link;
    int low, high, end, to;

    moved.from = turn_vertex(f, net, k, link->from);
    moved.to = turn_vertex(f, net, k, link->to);
    low = s->first[begins(&moved)];
    high = end = s->first[begins(&moved) + 1];
    to = ends(&moved);
    while (low < high) {
        int mid = low + (high - low) / 2;

        if (ends(&net->links[s->links[mid]]) < to)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == end || ends(&net->links[s->links[low]]) != to ||
        (low + 1 < end && ends(&net->links[s->links[low + 1]]) == to))
        return -1;
    return alike(link, &net->links[s->links[low]]) ? s->links[low] : -1;
}

/* The lowest link of an orbit, along a chain that gets shorter. */
static int lowest(int *up, int l)
{
    while (up[l] != l)
        l = up[l] = up[up[l]];
    return l;
}

static bool join_links(struct net_fold *f, const struct pdl_net *net,
                       const struct starts *s, int *up)
{
    for (int l = 0; l < net->nlinks; l++)
        up[l] = l;
    for (int k = 0; k < f->nturns; k++)
        for (int l = 0; l < net->nlinks; l++) {
            int other = turn_link(f, net, s, k, l), a, b;

            if (other < 0)
                return false;
            a = lowest(up, l);
            b = lowest(up, other);
            up[a > b ? a : b] = a < b ? a : b;
        }
    return true;
}

/* Numbers the orbits of links and counts how many flows of one share each. */
static bool number_links(struct net_fold *f, const struct pdl_net *net, int *up,
                         int *first, int *times)
{
    int n = 0;

    for (int l = 0; l < net->nlinks; l++) {
        int low = lowest(up, l);

        if (low == l)
            first[n++] = l;
    }
    /* numbers from here on, lowest first: links before are numbered already */
    for (int i = n - 1; i >= 0; i--)
        times[i] = 0;
    for (int l = net->nlinks - 1; l >= 0; l--)
        up[l] = lowest(up, l);
    for (int l = 0, i = 0; l < net->nlinks; l++)
        up[l] = up[l] == l ? i++ : up[up[l]];
    for (int l = 0; l < net->nlinks; l++)
        times[up[l]]++;
    for (int i = 0; i < n; i++) {
        if (f->size % times[i])
            return false;
        times[i] = f->size / times[i];
        f->meet = f->meet || times[i] > 1;
    }
    f->nlinks = n;
    return true;
}

static bool fold_links(struct net_fold *f, pdl_arena *a,
                       const struct pdl_net *net, bool *failed)
{
    pdl_arena *scratch = pdl_arena_create((size_t)1 << 32);
    struct starts s = {NULL, NULL};
    int *up = PDL_NEW(a, int, net->nlinks + 1);
    int *first = PDL_NEW(a, int, net->nlinks + 1);
    int *times = PDL_NEW(a, int, net->nlinks + 1);
    bool ok = false;

    *failed =
        !scratch || !up || !first || !times || !list_starts(&s, scratch, net);
    if (!*failed)
        ok = join_links(f, net, &s, up) &&
             number_links(f, net, up, first, times);
    pdl_arena_destroy(scratch);
    f->link = up;
    f->first = first;
    f->times = times;
    return ok;
}

/* ---- all together -------------------------------------------------------- */

/* Rank r on host r, and one on each? */
static bool in_order(const struct pdl_net *net,
                     const struct pdl_traffic *traffic)
{
    if (traffic->nranks != net->nhosts)
        return false;
    for (int r = 0; r < traffic->nranks && traffic->host_of_rank; r++)
        if (traffic->host_of_rank[r] != r)
            return false;
    return net->nhosts > 1;
}

static bool may_fold(const struct pdl_net *net,
                     const struct pdl_traffic *traffic,
                     const struct pdl_sim_config *config)
{
    return !config->unfolded && !config->critical_path && !config->timeline &&
           config->wire == PDL_WIRE_PLAIN &&
           config->energy != PDL_ENERGY_PLUGIN &&
           net->spread == PDL_SPREAD_NONE && !net->path && !net->route_sized &&
           in_order(net, traffic);
}

enum pdl_status net_fold_make(struct net_fold **out, pdl_arena *a,
                              const struct pdl_net *net,
                              const struct pdl_traffic *traffic,
                              const struct pdl_sim_config *config,
                              struct pdl_err *err)
{
    struct net_fold *f;
    int *place, *at, *host;
    bool failed = false;

    *out = NULL;
    if (!may_fold(net, traffic, config))
        return PDL_OK;
    f = PDL_NEW(a, struct net_fold, 1);
    if (f)
        common_turns(&net->turns, &traffic->turns, f);
    if (f && f->nturns == 0)
        return PDL_OK;
    place = PDL_NEW(a, int, net->nhosts + 1);
    at = PDL_NEW(a, int, net->nhosts + 1);
    host = PDL_NEW(a, int, net->nhosts + 1);
    if (!f || !place || !at || !host)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d hosts", net->nhosts);
    f->place = place;
    f->at = at;
    f->host = host;
    if (place_hosts(f, net, place, at, host) && fold_links(f, a, net, &failed))
        *out = f;
    return failed ? pdl_fail(err, PDL_ENOMEM, "no memory for %d links",
                             net->nlinks)
                  : PDL_OK;
}
