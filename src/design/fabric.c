/* SPDX-License-Identifier: Apache-2.0
 *
 * A network for a machine: which topology has room for its nodes, how many
 * planes of it, and what every level of the machine gets of it.
 *
 * A level's oversubscription is what a block of nodes injects over what its
 * border carries when all of it goes out. Trees have it by their taper. Direct
 * networks (torus, HammingMesh, Kautz) have it by the border of a compact
 * block, as if traffic were spread evenly over it: an upper bound of their
 * rates. A dragonfly has half beyond a group (Valiant routing). Every other
 * topology is measured: all nodes send to the one 1, 2, 4, ... places on, by
 * the topology's own routes, and the most crowded link counts.
 *
 * The adapters of a node are one port each in as many planes; a fat tree joins
 * all ports in one plane; the ports of a direct network share what the adapters
 * of a node have. Switch and router hops take HOP_S, as the built-in systems
 * have it. */
#include "design_priv.h"

#include "paradl/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOP_S 0.13e-6

enum { MAX_LEVELS = 8, LARGE_MESSAGE = 1 << 30 };

/* What a family is told. */
struct ask {
    const struct pdl_system *sys;
    int64_t nodes, nics;
    int64_t radix, dims, board;
    double taper, rate;
    struct pdl_err *err;
};

struct family {
    struct pdl_family is;
    enum pdl_status (*make)(pdl_arena *a, const struct ask *q,
                            struct pdl_fabric *out);
};

static void level(struct pdl_fabric *f, const struct ask *q, int64_t nodes,
                  double oversubscription, double hops)
{
    static const char *const names[] = {"unit",  "pod",    "row",    "plane",
                                        "group", "level5", "level6", "level7"};
    struct pdl_tier *t;

    if (f->ntiers > 0 && f->tier[f->ntiers - 1].nodes >= nodes)
        return;
    if (f->ntiers == MAX_LEVELS)
        return;
    t = &f->tier[f->ntiers];
    *t = (struct pdl_tier){
        .name = names[f->ntiers],
        .nodes = nodes,
        .oversubscription = fmax(1, oversubscription),
        .latency_s = 2 * q->sys->node.nics.latency_s + HOP_S * hops};
    f->ntiers++;
}

static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- trees --------------------------------------------------------------- */

/* Groups of full pods; leaf: its endpoints, its uplinks, how many. */
static enum pdl_status four_levels(pdl_arena *a, const struct ask *q,
                                   const int64_t leaf[3], int *levels,
                                   const char **spec)
{
    int64_t half = q->radix / 2, pods = up(leaf[2], half);
    int64_t groups = up(pods, half), cables;

    if (groups > q->radix)
        return pdl_fail(q->err, PDL_EINVAL,
                        "fat-tree: %lld endpoints are more than four levels "
                        "of %lld ports have",
                        (long long)(leaf[0] * leaf[2]), (long long)q->radix);
    cables = q->radix / groups;
    *levels = 4;
    *spec = pdl_arena_printf(
        a,
        "fat-tree:down=%lldx%lldx%lldx%lld,up=1x%lldx%lldx%lld,links=1x1x1x"
        "%lld",
        (long long)leaf[0], (long long)half, (long long)up(pods, groups),
        (long long)groups, (long long)leaf[1], (long long)half,
        (long long)up(up(pods, groups), cables), (long long)cables);
    return PDL_OK;
}

/* A tree for so many endpoints: one switch, or two to four levels, by the
 * ports of a switch. `unit`: endpoints of a leaf. */
static enum pdl_status tree(pdl_arena *a, const struct ask *q, int64_t ends,
                            int64_t *unit, int *levels, const char **spec)
{
    int64_t r = q->radix,
            down = (int64_t)((double)r * q->taper / (q->taper + 1));
    int64_t leaves, uplinks, cables, pods;

    *levels = 1;
    *unit = ends;
    if (ends <= r) {
        *spec = pdl_arena_printf(a, "star:hosts=%lld", (long long)ends);
        return PDL_OK;
    }
    down = down < 1 ? 1 : down;
    leaves = up(ends, down);
    *unit = up(ends, leaves);
    uplinks = (int64_t)ceil((double)*unit / q->taper);
    *levels = 2;
    if (leaves <= r) {
        cables = r / leaves;
        cables = cables < uplinks ? cables : uplinks;
        *spec = pdl_arena_printf(
            a, "leaf-spine:leaves=%lld,hosts=%lld,spines=%lld,cables=%lld",
            (long long)leaves, (long long)*unit, (long long)up(uplinks, cables),
            (long long)cables);
        return PDL_OK;
    }
    *levels = 3;
    pods = up(leaves, r / 2);
    if (pods > r)
        return four_levels(a, q, (const int64_t[]){*unit, uplinks, leaves},
                           levels, spec);
    cables = r / pods;
    *spec = pdl_arena_printf(
        a, "fat-tree:down=%lldx%lldx%lld,up=1x%lldx%lld,links=1x1x%lld",
        (long long)*unit, (long long)up(leaves, pods), (long long)pods,
        (long long)uplinks, (long long)up(up(leaves, pods), cables),
        (long long)cables);
    return PDL_OK;
}

static void tree_levels(const struct ask *q, int64_t unit, int levels,
                        struct pdl_fabric *f)
{
    level(f, q, unit < q->nodes ? unit : q->nodes, 1, 1);
    if (levels > 1)
        level(f, q, q->nodes, q->taper, 2 * levels - 1);
}

static enum pdl_status fat_tree(pdl_arena *a, const struct ask *q,
                                struct pdl_fabric *f)
{
    int64_t unit = 0, ends = 0;
    int levels = 0;
    enum pdl_status st;

    if (!pdl_mul64(q->nodes, q->nics, &ends))
        return pdl_fail(q->err, PDL_EINVAL, "fat-tree: too many endpoints");
    st = tree(a, q, ends, &unit, &levels, &f->spec);
    f->planes = 1;
    tree_levels(q, unit, levels, f);
    return st;
}

static enum pdl_status rail_only(pdl_arena *a, const struct ask *q,
                                 struct pdl_fabric *f)
{
    int64_t unit = 0;
    int levels = 0;
    enum pdl_status st = tree(a, q, q->nodes, &unit, &levels, &f->spec);

    f->planes = q->nics;
    tree_levels(q, unit, levels, f);
    return st;
}

/* ---- direct networks --------------------------------------------------- */

/* Sides whose product is at least n, as equal as n's factors allow. */
static void sides(int64_t n, int dims, int64_t *side)
{
    for (int i = 0; i < dims; i++) {
        int left = dims - i;
        int64_t s = (int64_t)floor(pow((double)n, 1.0 / left) + 1e-9), best;

        best = s < 1 ? 1 : s;
        for (int64_t d = best; d >= 1 && d * 2 > best; d--)
            if (n % d == 0) {
                best = d;
                break;
            }
        if (left == 1)
            best = n;
        side[i] = best;
        n = up(n, best);
    }
}

static enum pdl_status torus(pdl_arena *a, const struct ask *q,
                             struct pdl_fabric *f)
{
    int64_t side[4], block = 1;
    int dims = (int)q->dims;
    char text[96] = "";

    sides(q->nodes, dims, side);
    for (int i = 0; i < dims; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld",
                 i ? "x" : "", (long long)side[i]);
    f->spec = pdl_arena_printf(a, "torus:%s", text);
    f->planes = 1;
    f->link_bytes_per_s = q->rate * (double)q->nics / (2 * dims);
    for (int64_t edge = 1; block < q->nodes; edge *= 2) {
        block = (int64_t)fmin(pow(2.0 * (double)edge, dims), (double)q->nodes);
        if (f->ntiers == 5)
            block = q->nodes;
        level(f, q, block, (double)edge, (double)(edge * dims));
    }
    return PDL_OK;
}

/* A switch takes so many at least. */
static enum pdl_status few_ports(const struct ask *q, const char *family,
                                 int64_t ports)
{
    if (ports <= q->radix)
        return PDL_OK;
    return pdl_fail(q->err, PDL_EINVAL,
                    "%s: %lld nodes take switches of %lld ports, radix is %lld",
                    family, (long long)q->nodes, (long long)ports,
                    (long long)q->radix);
}

/* A line has both ends of its boards on one switch. */
static enum pdl_status hammingmesh(pdl_arena *a, const struct ask *q,
                                   struct pdl_fabric *f)
{
    int64_t b = q->board, boards = up(q->nodes, b * b), side[2];

    sides(boards, 2, side);
    if (few_ports(q, "hammingmesh", 2 * side[1]) != PDL_OK)
        return PDL_EINVAL;
    f->spec = pdl_arena_printf(a, "hammingmesh:%lldx%lld,board=%lldx%lld",
                               (long long)side[1], (long long)side[0],
                               (long long)b, (long long)b);
    f->planes = 1;
    f->link_bytes_per_s = q->rate * (double)q->nics / 4;
    level(f, q, b * b < q->nodes ? b * b : q->nodes, 1, (double)b);
    level(f, q, side[1] * b * b < q->nodes ? side[1] * b * b : q->nodes,
          (double)b, (double)b + 1);
    level(f, q, q->nodes, 2 * (double)b, 2 * ((double)b + 1));
    return PDL_OK;
}

static enum pdl_status kautz(pdl_arena *a, const struct ask *q,
                             struct pdl_fabric *f)
{
    int64_t d = 2;

    while (d * (d + 1) < q->nodes)
        d++;
    f->spec = pdl_arena_printf(a, "kautz:d=%lld", (long long)d);
    f->planes = 1;
    f->link_bytes_per_s = q->rate * (double)q->nics / (double)d;
    level(f, q, q->nodes, 2, 2);
    return PDL_OK;
}

/* ---- switched networks ------------------------------------------------- */

/* Full groups of switches with at most half as many hosts as neighbours; the
 * shape with the fewest places that has room for all nodes. */
static enum pdl_status dragonfly(pdl_arena *a, const struct ask *q,
                                 struct pdl_fabric *f)
{
    int64_t routers = 0, groups = 0, hosts = 0, least = INT64_MAX;

    for (int64_t p = 1; 4 * p - 1 <= q->radix; p++)
        for (int64_t r = 2 * p; r <= q->radix - 2 * p + 1; r++) {
            int64_t g = up(q->nodes, p * r), places = g * p * r;

            if (g > r || places >= least)
                continue;
            least = places;
            routers = r;
            groups = g;
            hosts = p;
        }
    if (hosts == 0)
        return pdl_fail(q->err, PDL_EINVAL,
                        "dragonfly: %lld nodes are more than switches of "
                        "%lld ports join",
                        (long long)q->nodes, (long long)q->radix);
    f->spec = pdl_arena_printf(
        a,
        "dragonfly:groups=%lld,chassis=1,routers=%lld,nodes=%lld,routing="
        "minimal",
        (long long)groups, (long long)routers, (long long)hosts);
    f->planes = q->nics;
    level(f, q, hosts * routers < q->nodes ? hosts * routers : q->nodes, 1, 2);
    level(f, q, q->nodes, 2, 5);
    return PDL_OK;
}

static enum pdl_status by_routes(pdl_arena *a, const struct ask *q,
                                 struct pdl_fabric *f);

/* Hosts and switches are powers of two; ports of a switch 2^p + 2q - 1. */
static enum pdl_status dln(pdl_arena *a, const struct ask *q,
                           struct pdl_fabric *f)
{
    int64_t all = 1, p = 0, shift = 0;

    while ((1LL << shift) < q->nodes)
        shift++;
    all = shift;
    for (int64_t i = 1; i < all; i++)
        if ((1LL << i) + 2 * (all - i) - 1 <= q->radix)
            p = i;
    if (p == 0 && few_ports(q, "dln", 2 * all) != PDL_OK)
        return PDL_EINVAL;
    f->spec = pdl_arena_printf(a, "dln:q=%lld,p=%lld", (long long)(all - p),
                               (long long)p);
    f->planes = q->nics;
    return by_routes(a, q, f);
}

static enum pdl_status dln2d(pdl_arena *a, const struct ask *q,
                             struct pdl_fabric *f)
{
    int64_t all = 0, z = 0, x;

    while ((1LL << all) < q->nodes || all < 2)
        all++;
    for (int64_t i = 1; i + 2 <= all; i++)
        if ((1LL << i) + 2 * (all - i) - 2 <= q->radix)
            z = i;
    if (z == 0 && few_ports(q, "dln2d", 2 * all - 1) != PDL_OK)
        return PDL_EINVAL;
    x = (all - z + 1) / 2;
    f->spec = pdl_arena_printf(a, "dln2d:x=%lld,y=%lld,z=%lld", (long long)x,
                               (long long)(all - z - x), (long long)z);
    f->planes = q->nics;
    return by_routes(a, q, f);
}

static enum pdl_status hyperx(pdl_arena *a, const struct ask *q,
                              struct pdl_fabric *f)
{
    int64_t hosts = q->radix / 3, side[2];

    hosts = hosts < 1 ? 1 : hosts;
    sides(up(q->nodes, hosts), 2, side);
    if (few_ports(q, "hyperx", hosts + side[0] + side[1] - 2) != PDL_OK)
        return PDL_EINVAL;
    f->spec =
        pdl_arena_printf(a, "hyperx:%lldx%lld,hosts=%lld", (long long)side[1],
                         (long long)side[0], (long long)hosts);
    f->planes = q->nics;
    return by_routes(a, q, f);
}

static enum pdl_status hybrid(pdl_arena *a, const struct ask *q,
                              struct pdl_fabric *f)
{
    const char *eps = NULL;
    int64_t unit = 0;
    int levels = 0;
    enum pdl_status st = tree(a, q, q->nodes, &unit, &levels, &eps);

    if (st != PDL_OK)
        return st;
    f->spec = eps ? pdl_arena_printf(a, "hybrid-optical:eps=(%s)", eps) : NULL;
    f->planes = q->nics;
    return by_routes(a, q, f);
}

// clang-format off
static const struct family families[] = {
    {{"fat-tree", "any port to any port; one to four levels", "radix=64,taper=1"}, fat_tree},
    {{"rail-only", "a tree for each adapter of a node, nothing between them", "radix=64,taper=1"}, rail_only},
    {{"torus", "two to four dimensions of nodes", "dims=3"}, torus},
    {{"hammingmesh", "boards, a switch for each row and column", "board=2,radix=64"}, hammingmesh},
    {{"kautz", "two hops between any two nodes", ""}, kautz},
    {{"dragonfly", "full groups, one cable between two of them", "radix=64"}, dragonfly},
    {{"hyperx", "a grid of switches with full lines", "radix=64"}, hyperx},
    {{"dln", "switches of distributed loops (CCGrid 2021)", "radix=64"}, dln},
    {{"dln2d", "rows and columns of them (HPCAsia 2023)", "radix=64"}, dln2d},
    {{"hybrid-optical", "a tapered tree, and a circuit for each node", "radix=64,taper=1"}, hybrid},
};
// clang-format on
enum { NFAMILIES = sizeof families / sizeof families[0] };

const struct pdl_family *pdl_family_at(int i)
{
    return i >= 0 && i < NFAMILIES ? &families[i].is : NULL;
}

/* ---- measured levels --------------------------------------------------- */

/* Part of its rate that every node gets when each sends to the one `by`
 * places on; hops: links of the longest route. */
static double shifted(const struct pdl_net *net, int64_t nodes, int64_t by,
                      double *load, double *hops)
{
    int links[PDL_MAX_ROUTE];
    double most = 1;

    memset(load, 0, (size_t)net->nlinks * sizeof *load);
    for (int64_t i = 0; i < nodes; i++) {
        int to = pdl_net_seat(net, (int)((i + by) % nodes));
        int n = pdl_net_route(net, pdl_net_seat(net, (int)i), to, LARGE_MESSAGE,
                              links);

        *hops = fmax(*hops, n);
        for (int k = 0; k < n; k++) {
            load[links[k]] +=
                net->links[0].bytes_per_s / net->links[links[k]].bytes_per_s;
            most = fmax(most, load[links[k]]);
        }
    }
    return 1 / most;
}

static enum pdl_status by_routes(pdl_arena *a, const struct ask *q,
                                 struct pdl_fabric *f)
{
    const struct pdl_net *net = NULL;
    double *load, worst = 1, said = 0, hops = 0;
    int64_t block = 2;
    enum pdl_status st =
        f->spec ? pdl_net_make(a, f->spec, &net, q->err)
                : pdl_fail(q->err, PDL_ENOMEM, "design: out of memory");

    if (st != PDL_OK)
        return st;
    if (net->nhosts < q->nodes)
        return pdl_fail(q->err, PDL_EINVAL,
                        "%.80s: room for %d nodes, not %lld", f->spec,
                        net->nhosts, (long long)q->nodes);
    load = PDL_NEW(a, double, net->nlinks + 1);
    if (!load)
        return pdl_fail(q->err, PDL_ENOMEM, "design: out of memory");
    for (int64_t by = 1; by < q->nodes; by *= 2) {
        block = 2 * by < q->nodes ? 2 * by : q->nodes;
        worst = fmin(worst, shifted(net, q->nodes, by, load, &hops));
        if (said > 0 && worst > 0.8 * said && f->ntiers > 0) {
            f->tier[f->ntiers - 1].nodes = block; /* no worse than before */
            continue;
        }
        level(f, q, block, 1 / worst, fmax(hops - 1, 1));
        said = worst;
    }
    if (f->ntiers > 0)
        f->tier[f->ntiers - 1].nodes = q->nodes;
    return PDL_OK;
}

/* ---- texts ------------------------------------------------------------- */

static const struct family *find(const char *name, size_t len)
{
    for (int i = 0; i < NFAMILIES; i++)
        if (strlen(families[i].is.name) == len &&
            strncmp(families[i].is.name, name, len) == 0)
            return &families[i];
    return NULL;
}

/* Are all keys of a text the family's? Else it is a TOPOLOGY of its own. */
static bool is_of(const struct family *fam, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, ","), k = strcspn(text, "=");
        const char *at = fam->is.params;

        for (; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
            if (strcspn(at, "=") == k && strncmp(at, text, k) == 0)
                break;
        if (!*at)
            return false;
        text += n + (text[n] == ',');
    }
    return true;
}

static enum pdl_status set_one(const char *text, struct ask *q)
{
    static const double most_taper = 64;
    const char *value = strchr(text, '=');
    size_t n = value ? (size_t)(value - text) : 0;
    char key[16];
    int64_t *whole = NULL, top = 4096;

    snprintf(key, sizeof key, "%.*s", n < 15 ? (int)n : 15, text);
    if (!value)
        return pdl_fail(q->err, PDL_EINVAL, "'%.40s' is not key=value", text);
    if (strcmp(key, "taper") == 0) {
        if (pdl_unit_parse(value + 1, PDL_UNIT_NONE, &q->taper, NULL) ==
                PDL_OK &&
            q->taper >= 1 && q->taper <= most_taper)
            return PDL_OK;
        return pdl_fail(q->err, PDL_EINVAL, "taper '%.40s' is not 1 to 64",
                        value + 1);
    }
    whole = strcmp(key, "radix") == 0  ? &q->radix
            : strcmp(key, "dims") == 0 ? &q->dims
                                       : &q->board;
    top = whole == &q->dims ? 4 : whole == &q->board ? 64 : top;
    if (pdl_int_parse(value + 1, 2, top, whole, NULL) == PDL_OK)
        return PDL_OK;
    return pdl_fail(q->err, PDL_EINVAL, "%s '%.40s' is not 2 to %lld", key,
                    value + 1, (long long)top);
}

static enum pdl_status set_all(pdl_arena *a, const char *text, struct ask *q)
{
    enum pdl_status st = PDL_OK;

    while (*text && st == PDL_OK) {
        size_t n = strcspn(text, ",");
        const char *one = pdl_arena_strndup(a, text, n);

        st = one ? set_one(one, q)
                 : pdl_fail(q->err, PDL_ENOMEM, "design: out of memory");
        text += n + (text[n] == ',');
    }
    return st;
}

enum pdl_status pdl_fabric_make(pdl_arena *a, const char *network,
                                const struct pdl_system *sys, int64_t nodes,
                                struct pdl_fabric *out, struct pdl_err *err)
{
    size_t n = strcspn(network, ":");
    const struct family *fam = find(network, n);
    struct ask q = {.sys = sys,
                    .nodes = nodes,
                    .nics = sys->node.nics.count,
                    .radix = 64,
                    .dims = 3,
                    .board = 2,
                    .taper = 1,
                    .rate = sys->node.nics.bytes_per_s,
                    .err = err};
    struct pdl_fabric f = {.link_bytes_per_s = q.rate, .places = nodes};
    const char *text = network[n] ? network + n + 1 : "";
    const struct pdl_net *net;
    enum pdl_status st;

    if (q.nics < 1 || !(q.rate > 0))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: no adapters are described, so its network cannot "
                        "be another",
                        sys->name);
    if (fam && !is_of(fam, text))
        fam = NULL; /* a TOPOLOGY of its own */
    st = fam          ? set_all(a, text, &q)
         : nodes == 1 ? pdl_net_make(a, network, &net, err)
                      : PDL_OK;
    if (st == PDL_OK && nodes > 1 && fam) {
        st = fam->make(a, &q, &f);
    } else if (st == PDL_OK && nodes > 1) {
        f.spec = pdl_arena_strdup(a, network);
        f.planes = q.nics;
        st = by_routes(a, &q, &f);
    }
    if (st == PDL_OK && nodes > 1 && !f.spec)
        st = pdl_fail(err, PDL_ENOMEM, "design: out of memory");
    if (st == PDL_OK)
        *out = f;
    return st;
}
