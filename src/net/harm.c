/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks of which something is broken: fail= takes cables away, slow= their
 * rate. Both are lists joined by '+'. An item is two vertices (s0-s5: all
 * cables between them), one (s4: all of its), or how many cables are drawn, of
 * those whose loss cuts no host off at once (3@SEED); slow= adds by what the
 * rate is divided (s0-s5/10). A route that loses a cable becomes the shortest
 * that is left; all others stay. */
#include "topo_priv.h"

#include <string.h>

struct harmed {
    struct net_graph graph; /* first: the table's callbacks want it there */
    const struct pdl_net *inner;
    int *now, *was; /* inner link -> ours, -1: gone; and back */
};

struct harm {
    pdl_arena *arena;
    const struct pdl_net *net;
    bool slow;       /* which parameter */
    double *divided; /* of each link: its rate by so much; 0: gone */
    struct pdl_err *err;
};

/* ---- the list ----------------------------------------------------------- */

static enum pdl_status refuse(struct harm *h, const char *what,
                              const char *text)
{
    return pdl_fail(h->err, PDL_EPARSE, "%s: %s: '%.40s' %s",
                    h->net->topo->name, h->slow ? "slow" : "fail", text, what);
}

static enum pdl_status vertex(struct harm *h, const char *text, int *out)
{
    int64_t v, n = *text == 'h' ? h->net->nhosts : h->net->nswitches;

    if ((*text != 'h' && *text != 's') ||
        pdl_int_parse(text + 1, 0, n - 1, &v, NULL) != PDL_OK)
        return refuse(h, "is no host (h0, h1, ...) or switch (s0, ...) of it",
                      text);
    *out = (int)v + (*text == 's' ? h->net->nhosts : 0);
    return PDL_OK;
}

static void mark(struct harm *h, int link, double by)
{
    int back = h->net->links[link].reverse;

    h->divided[link] *= by;
    if (back != link)
        h->divided[back] *= by;
}

/* A cable is met at the lower of its two links. */
static bool is_first(const struct pdl_net *net, int link)
{
    return link <= net->links[link].reverse;
}

/* All cables between u and v, or of u where v is below 0. */
static enum pdl_status between(struct harm *h, int u, int v, double by,
                               const char *text)
{
    int n = 0;

    for (int l = 0; l < h->net->nlinks; l++) {
        const struct pdl_link *k = &h->net->links[l];
        bool from = k->from == u || k->to == u;
        bool to = v < 0 || k->from == v || k->to == v;

        if (!is_first(h->net, l) || !from || !to || (u == v))
            continue;
        mark(h, l, by);
        n++;
    }
    return n > 0 ? PDL_OK : refuse(h, "has no cable", text);
}

static enum pdl_status draw(struct harm *h, int64_t n, uint64_t seed, double by,
                            const char *text)
{
    const struct pdl_net *net = h->net;
    struct pdl_rng rng = {.key = seed};
    int *degree = PDL_NEW(h->arena, int, net->nhosts + net->nswitches + 1);
    int *left = PDL_NEW(h->arena, int, net->nlinks + 1), nleft = 0;

    if (!degree || !left)
        return pdl_fail(h->err, PDL_ENOMEM, "network: out of memory");
    for (int l = 0; l < net->nlinks; l++)
        if (is_first(net, l)) {
            degree[net->links[l].from]++;
            degree[net->links[l].to]++;
        }
    for (int l = 0; l < net->nlinks; l++)
        if (is_first(net, l) && degree[net->links[l].from] > 1 &&
            degree[net->links[l].to] > 1)
            left[nleft++] = l;
    if (n > nleft)
        return refuse(h, "are more cables than can be drawn", text);
    for (; n > 0; n--) {
        int at = (int)pdl_rng_below(&rng, (uint64_t)nleft);

        mark(h, left[at], by);
        left[at] = left[--nleft];
    }
    return PDL_OK;
}

/* Cuts text behind the first `c`, if there is one. */
static char *behind(char *text, char c)
{
    char *at = strchr(text, c);

    if (at)
        *at++ = '\0';
    return at;
}

/* The last "/FACTOR" of an item of slow=. */
static enum pdl_status factor(struct harm *h, char *text, double *by)
{
    char *at = behind(text, '/');

    *by = 0;
    if (!h->slow)
        return at ? refuse(h, "divides what is gone", at) : PDL_OK;
    if (!at || pdl_unit_parse(at, PDL_UNIT_NONE, by, NULL) != PDL_OK ||
        !(*by >= 1 && *by <= 1e9))
        return refuse(h, "is not followed by / and 1 to 1e9", text);
    return PDL_OK;
}

static enum pdl_status item(struct harm *h, char *text)
{
    char *seed, *second;
    int64_t n, key = 0;
    int u = -1, v = -1;
    double by;
    enum pdl_status st;

    seed = behind(text, '@');
    st = factor(h, text, &by);
    if (st != PDL_OK)
        return st;
    if (seed && pdl_int_parse(seed, 0, INT64_MAX, &key, NULL) != PDL_OK)
        return refuse(h, "is no seed", seed);
    if (pdl_int_parse(text, 1, INT32_MAX, &n, NULL) == PDL_OK)
        return draw(h, n, (uint64_t)key, by, text);
    if (seed)
        return refuse(h, "is no number of cables to draw", text);
    second = behind(text, '-');
    st = vertex(h, text, &u);
    if (st == PDL_OK && second)
        st = vertex(h, second, &v);
    if (second)
        second[-1] = '-'; /* for messages */
    return st == PDL_OK ? between(h, u, v, by, text) : st;
}

static enum pdl_status list(struct harm *h, const char *text)
{
    char *at = pdl_arena_strdup(h->arena, text);
    enum pdl_status st = PDL_OK;

    if (!at)
        return pdl_fail(h->err, PDL_ENOMEM, "network: out of memory");
    while (at && *text && st == PDL_OK) {
        char *next = behind(at, '+');

        st = item(h, at);
        at = next;
    }
    return st;
}

/* ---- what is left ------------------------------------------------------- */

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct harmed *x = net->shape;
    int n = x->inner->route(x->inner, src, dst, links);

    for (int i = 0; i < n; i++)
        if (x->now[links[i]] < 0)
            return net_route_table(net, src, dst, links);
    for (int i = 0; i < n; i++)
        links[i] = x->now[links[i]];
    return n;
}

static void link_name(const struct pdl_net *net, int link, char *buf,
                      size_t size)
{
    const struct harmed *x = net->shape;

    pdl_net_link_name(x->inner, x->was[link], buf, size);
}

static void take_over(const struct harm *h, struct harmed *x,
                      struct pdl_net *net, struct pdl_link *links)
{
    const struct pdl_net *inner = x->inner;
    int n = 0;

    for (int l = 0; l < inner->nlinks; l++)
        if (h->divided[l] > 0)
            n++;
    net->nlinks = n;
    n = 0;
    for (int l = 0; l < inner->nlinks; l++) {
        x->now[l] = h->divided[l] > 0 ? n : -1;
        if (h->divided[l] > 0) {
            x->was[n] = l;
            links[n] = inner->links[l];
            links[n++].bytes_per_s /= h->divided[l];
        }
    }
    for (int l = 0; l < net->nlinks; l++)
        links[l].reverse = x->now[links[l].reverse];
    net->links = links;
    net->turns = (struct pdl_turns){.n = 0};
    net->harmed = true;
    net->route = route;
    net->link_name = link_name;
    net->shape = x;
}

static enum pdl_status read_lists(struct harm *h, const char *fail,
                                  const char *slow)
{
    enum pdl_status st =
        net_plain_cables(h->net, "fail and slow need plain cables", h->err);

    if (st == PDL_OK && *fail && h->net->jumps)
        return pdl_fail(h->err, PDL_EINVAL,
                        "%s: fail needs routing=minimal: SimGrid's routes are "
                        "not walks",
                        h->net->topo->name);
    for (int l = 0; l < h->net->nlinks; l++)
        h->divided[l] = 1;
    h->slow = true;
    if (st == PDL_OK)
        st = list(h, slow);
    h->slow = false;
    return st == PDL_OK ? list(h, fail) : st;
}

enum pdl_status net_harm(pdl_arena *a, const struct pdl_net *inner,
                         const char *fail, const char *slow,
                         const struct pdl_net **out, struct pdl_err *err)
{
    size_t room = (size_t)inner->nlinks + 1;
    struct harm h = {a, inner, false, PDL_NEW(a, double, room), err};
    struct harmed *x = PDL_NEW(a, struct harmed, 1);
    struct pdl_net *net = PDL_NEW(a, struct pdl_net, 1);
    struct pdl_link *links = PDL_NEW(a, struct pdl_link, room);
    enum pdl_status st;

    if (x) {
        x->inner = inner;
        x->now = PDL_NEW(a, int, room);
        x->was = PDL_NEW(a, int, room);
    }
    if (!x || !x->now || !x->was || !net || !links || !h.divided)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory",
                        inner->topo->name);
    st = read_lists(&h, fail, slow);
    if (st != PDL_OK)
        return st;
    *net = *inner;
    take_over(&h, x, net, links);
    *out = net;
    if (!*fail)
        return PDL_OK;
    st = net_graph_make(a, net, NULL, &x->graph, err);
    return st == PDL_OK ? net_graph_table(a, net, false, &x->graph, err) : st;
}
