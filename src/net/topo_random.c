/* SPDX-License-Identifier: Apache-2.0
 *
 * Random shortcuts: a ring of switches (ring=1, Koibuchi et al., ISCA 2012) or
 * nothing (ring=0, Jellyfish, Singla et al., NSDI 2012) plus random perfect
 * matchings until every switch has the degree asked for. Seeded: the same seed
 * gives the same network everywhere. A matching that would repeat a cable is
 * mended by exchanging partners with a random other pair, and drawn anew when
 * that does not help. Shortest-path table. */
#include "topo_priv.h"

#include <string.h>

enum { SWITCHES, DEGREE, HOSTS, SEED, RING, ROUTING };
enum { TRIES = 200 };

struct draw {
    int n, ndegree; /* switches; cables of a switch so far */
    int *near;      /* n x max degree: neighbours */
    int max;
    int *order; /* the matching: order[2i] with order[2i+1] */
    struct pdl_rng rng;
};

// clang-format off
static const struct pdl_param params[] = {
    {"switches", PDL_PARAM_INT, NULL, 2, 8192, NULL, "switches, an even number"},
    {"degree", PDL_PARAM_INT, NULL, 1, 256, NULL, "cables to other switches"},
    {"hosts", PDL_PARAM_INT, "1", 1, 65535, NULL, "hosts of a switch"},
    {"seed", PDL_PARAM_INT, "1", 0, INT64_MAX, NULL, "of the random numbers"},
    {"ring", PDL_PARAM_INT, "1", 0, 1, NULL, "1: start from a ring"},
    {"routing", PDL_PARAM_CHOICE, "shortest", 0, 0, "shortest|ecmp",
     "one shortest path, or one of them by hash"},
};
// clang-format on

static bool joined(const struct draw *d, int u, int v)
{
    if (u == v)
        return true;
    for (int i = 0; i < d->ndegree; i++)
        if (d->near[(size_t)u * (size_t)d->max + (size_t)i] == v)
            return true;
    return false;
}

static void shuffle(struct draw *d)
{
    for (int i = 0; i < d->n; i++)
        d->order[i] = i;
    for (int i = d->n - 1; i > 0; i--) {
        int j = (int)pdl_rng_below(&d->rng, (uint64_t)i + 1);
        int t = d->order[i];

        d->order[i] = d->order[j];
        d->order[j] = t;
    }
}

/* Exchanges partners of pairs i and j when both new pairs are free. */
static bool exchange(struct draw *d, int i, int j)
{
    int *p = d->order + (size_t)i * 2, *q = d->order + (size_t)j * 2;
    int b = p[1];

    if (joined(d, p[0], q[1]) || joined(d, q[0], b))
        return false;
    p[1] = q[1];
    q[1] = b;
    return true;
}

static bool matching(struct draw *d)
{
    int pairs = d->n / 2;

    shuffle(d);
    for (int i = 0; i < pairs; i++) {
        const int *p = d->order + (size_t)i * 2;
        int tries = 0;

        while (joined(d, p[0], p[1])) {
            int j = (int)pdl_rng_below(&d->rng, (uint64_t)pairs);

            if (tries++ == TRIES)
                return false;
            if (j != i)
                exchange(d, i, j);
        }
    }
    return true;
}

static void keep(struct draw *d, int64_t first, struct net_cables *c)
{
    size_t max = (size_t)d->max, at = (size_t)d->ndegree;

    for (int i = 0; i < d->n; i += 2) {
        int u = d->order[i], v = d->order[i + 1];

        d->near[(size_t)u * max + at] = v;
        d->near[(size_t)v * max + at] = u;
        net_cable(c, first + u, first + v, 1);
    }
    d->ndegree++;
}

static void lay_ring(struct draw *d, int64_t first, struct net_cables *c)
{
    size_t max = (size_t)d->max;

    for (int i = 0; i < d->n; i++) {
        int next = (i + 1) % d->n;

        d->near[(size_t)i * max] = next;
        d->near[(size_t)next * max + 1] = i;
        net_cable(c, first + i, first + next, 1);
    }
    d->ndegree = 2;
}

static enum pdl_status lay_matchings(struct draw *d, int64_t first,
                                     struct net_cables *c, struct pdl_err *err)
{
    while (d->ndegree < d->max) {
        int tries = 0;

        while (!matching(d))
            if (++tries == TRIES)
                return pdl_fail(err, PDL_EINVAL,
                                "random: no %d cables without repeating one "
                                "among %d switches",
                                d->max, d->n);
        keep(d, first, c);
    }
    return PDL_OK;
}

static enum pdl_status fits(const struct pdl_topo_values *v,
                            struct pdl_err *err)
{
    int64_t n = v->v[SWITCHES].i, degree = v->v[DEGREE].i;
    bool ring = v->v[RING].i == 1;

    if (n % 2)
        return pdl_fail(err, PDL_EINVAL, "random: %lld switches, not even",
                        (long long)n);
    if (degree >= n)
        return pdl_fail(err, PDL_EINVAL,
                        "random: degree %lld needs more than %lld switches",
                        (long long)degree, (long long)n);
    if (ring && (degree < 2 || n < 4))
        return pdl_fail(err, PDL_EINVAL,
                        "random: a ring needs degree 2 and 4 switches");
    return PDL_OK;
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct net_graph *g = PDL_NEW(a, struct net_graph, 1);
    int64_t n = v->v[SWITCHES].i, hosts = n * v->v[HOSTS].i;
    struct draw d = {.n = (int)n, .max = (int)v->v[DEGREE].i};
    struct net_cables c;
    enum pdl_status st = fits(v, err);

    if (st != PDL_OK)
        return st;
    d.rng.key = (uint64_t)v->v[SEED].i;
    d.near = PDL_NEW(a, int, n *d.max);
    d.order = PDL_NEW(a, int, n);
    if (!g || !d.near || !d.order)
        return pdl_fail(err, PDL_ENOMEM, "random: out of memory");
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, n, hosts + n * d.max / 2);
    for (int64_t h = 0; h < hosts && c.status == PDL_OK; h++)
        net_cable(&c, h, hosts + h / v->v[HOSTS].i, 1);
    if (c.status == PDL_OK && v->v[RING].i)
        lay_ring(&d, hosts, &c);
    if (c.status == PDL_OK)
        c.status = lay_matchings(&d, hosts, &c, err);
    st = net_finish_graph(a, &c, g);
    net->route = net_route_table;
    net->shape = g;
    return st == PDL_OK ? net_graph_table(a, net, false, g, err) : st;
}

const struct pdl_topo net_random = {
    .name = "random",
    .group = PDL_TOPO_SHORT,
    .summary = "random regular graph of switches, from a ring or not",
    .source = "Koibuchi et al., ISCA 2012; Singla et al., NSDI 2012",
    .example = "random:switches=64,degree=7,hosts=4",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
