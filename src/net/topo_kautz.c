/* SPDX-License-Identifier: Apache-2.0
 *
 * Kautz graph K(d,k) of hosts without switches (the inter-FPGA network of
 * IPDPS 2022 and JPDC 2023, k = 2; Kautz 1968). A host is a word of k symbols
 * 0..d, neighbours in the word different; an arc drops the first symbol and
 * appends another: d out, d in, d^k + d^(k-1) hosts, diameter k. Word
 * (s0, s1, ...) has number s0*d^(k-1) + c1*d^(k-2) + ... where ci counts the
 * symbols other than s(i-1). Arc j of host u is link u*d + j.
 *
 * The route appends the symbols of the destination that its start does not
 * share with the source's end; it is the only shortest one.
 *
 * For k = 2 the arcs are pairs (a,b)<->(b,a) and triangles (a,b)->(b,c)->(c,a);
 * credits of a triangle's arc return along the two others. All arcs (.,b)->
 * (b,.) go through one d x d arrayed waveguide grating, in which input i
 * reaches output j on wavelength (i + j) mod d: a Latin square, so d
 * wavelengths suffice. Reconstruction from the abstracts. */
#include "topo_priv.h"

enum { D, K };
enum { MAX_K = 16 };

struct kautz {
    int64_t d;
    int k;
    int64_t top; /* d^(k-1) */
};

// clang-format off
static const struct pdl_param params[] = {
    {"d", PDL_PARAM_INT, NULL, 1, 1024, NULL, "arcs out of a host"},
    {"k", PDL_PARAM_INT, "2", 1, MAX_K, NULL, "length of a word: the diameter"},
};
// clang-format on

static void word(const struct kautz *z, int64_t id, int64_t *s)
{
    int64_t unit = z->top;

    s[0] = id / unit;
    for (int i = 1; i < z->k; i++) {
        int64_t c;

        id %= unit;
        unit /= z->d;
        c = id / unit;
        s[i] = c + (c >= s[i - 1]);
    }
}

static int64_t number(const struct kautz *z, const int64_t *s)
{
    int64_t id = s[0];

    for (int i = 1; i < z->k; i++)
        id = id * z->d + s[i] - (s[i] > s[i - 1]);
    return id;
}

/* The host after u when symbol c is appended; s is u's word and becomes that
 * of the next. Returns the link. */
static int64_t append(const struct kautz *z, int64_t *u, int64_t *s, int64_t c)
{
    int64_t link = *u * z->d + c - (c > s[z->k - 1]);

    for (int i = 0; i + 1 < z->k; i++)
        s[i] = s[i + 1];
    s[z->k - 1] = c;
    *u = number(z, s);
    return link;
}

/* How many last symbols of u are the first of v, at most k - 1. */
static int overlap(const struct kautz *z, const int64_t *u, const int64_t *v)
{
    for (int n = z->k - 1; n > 0; n--) {
        int i = 0;

        while (i < n && u[z->k - n + i] == v[i])
            i++;
        if (i == n)
            return n;
    }
    return 0;
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct kautz *z = net->shape;
    int64_t u[MAX_K], v[MAX_K], at = src;
    int n = 0;

    if (src == dst)
        return 0;
    word(z, src, u);
    word(z, dst, v);
    for (int i = overlap(z, u, v); i < z->k; i++)
        links[n++] = (int)append(z, &at, u, v[i]);
    return n;
}

/* Two arcs between the same hosts are each other's reverse. */
static void pair_up(const struct kautz *z, struct pdl_link *links, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t s[MAX_K], last, v = links[k].to, back;

        word(z, links[k].from, s);
        last = s[z->k - 1];
        word(z, v, s);
        if (s[z->k - 1] == last)
            continue;
        back = append(z, &v, s, last);
        if (v == links[k].from)
            links[k].reverse = (int)back;
    }
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    struct kautz *z = PDL_NEW(a, struct kautz, 1);
    int64_t hosts, s[MAX_K];
    struct net_cables c;

    if (!z)
        return pdl_fail(err, PDL_ENOMEM, "kautz: out of memory");
    if (v->shared)
        return pdl_fail(err, PDL_EINVAL,
                        "kautz: arcs have one direction, duplex=shared is not "
                        "possible");
    z->d = v->v[D].i;
    z->k = (int)v->v[K].i;
    z->top = 1;
    for (int i = 1; i < z->k && z->top <= NET_MAX_HOSTS; i++)
        z->top *= z->d;
    hosts = z->top * (z->d + 1);
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, hosts, 0, (hosts * z->d + 1) / 2);
    for (int64_t u = 0; u < hosts && c.status == PDL_OK; u++)
        for (int64_t j = 0; j < z->d; j++) {
            int64_t to = u;

            word(z, u, s);
            append(z, &to, s, j + (j >= s[z->k - 1]));
            net_arc(&c, u, to);
        }
    if (c.status == PDL_OK)
        pair_up(z, c.links, c.nlinks);
    net->route = route;
    net->shape = z;
    net->turns.letters = z->k == 2 ? (int)z->d + 1 : 0;
    return net_cables_done(&c);
}

/* ---- what K(d,2) offers besides routes --------------------------------- */

static bool arc_of(int d, int u, int v, int64_t *s, int64_t *t)
{
    struct kautz z = {.d = d, .k = 2, .top = d};
    int hosts = d * (d + 1);

    if (d < 1 || u < 0 || v < 0 || u >= hosts || v >= hosts)
        return false;
    word(&z, u, s);
    word(&z, v, t);
    return s[1] == t[0];
}

int pdl_kautz_credit(int d, int u, int v)
{
    struct kautz z = {.d = d, .k = 2, .top = d};
    int64_t s[2], t[2], third[2];

    if (!arc_of(d, u, v, s, t))
        return -1;
    if (t[1] == s[0])
        return u;
    third[0] = t[1];
    third[1] = s[0];
    return (int)number(&z, third);
}

bool pdl_kautz_wave(int d, int u, int v, int *grating, int *wavelength)
{
    int64_t s[2], t[2];

    if (!arc_of(d, u, v, s, t))
        return false;
    *grating = (int)s[1];
    /* ranks of input and output among the symbols other than the grating's */
    *wavelength = (int)((s[0] - (s[0] > s[1]) + t[1] - (t[1] > s[1])) % d);
    return true;
}

const struct pdl_topo net_kautz = {
    .name = "kautz",
    .group = PDL_TOPO_OPTICAL,
    .summary = "switchless Kautz graph K(d,k) of one-way optical arcs",
    .source = "IPDPS 2022, JPDC 2023 (reconstruction from abstracts)",
    .example = "kautz:d=16,k=2",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
