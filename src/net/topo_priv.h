/* Shared by the topology generators: parsed parameters, the builder of
 * cables, the explicit graph with its shortest ways. A generator is one file
 * with one const struct pdl_topo; to add one: write the file, declare it
 * here, add one line in topo.c. */
#ifndef TOPO_PRIV_H
#define TOPO_PRIV_H

#include "paradl/net.h"

enum {
    NET_MAX_DIMS = 8,
    NET_MAX_PARAMS = 16,
    NET_MAX_HOSTS = 1 << 20,
    NET_MAX_LINKS = 1 << 24,
};

struct net_dims {
    int n;
    int64_t d[NET_MAX_DIMS];
};

struct net_value {
    bool given;
    int64_t i; /* INT; BYTES; CHOICE: its number */
    double x;  /* RATE, TIME */
    struct net_dims dims;
    const char *text;
};

struct pdl_topo_values {
    const struct pdl_topo *topo;
    struct net_value v[NET_MAX_PARAMS]; /* in the order of topo->params */
    double bytes_per_s, latency_s;      /* bw=, lat= */
    bool bw_given, lat_given;
    bool shared, duplex_given;   /* duplex=shared */
    enum pdl_path_spread spread; /* paths= */
    const char *fail, *slow;     /* "": nothing */
    int depth;                   /* of topologies in parentheses */
    double limiter_bytes_per_s;  /* net_limit() was applied; 0: not */
};

/* Parses "8x8x16". */
enum pdl_status net_dims_parse(const char *text, int64_t min, int64_t max,
                               struct net_dims *out, struct pdl_err *err);
/* Parses a whole TOPOLOGY; depth guards against nesting. */
enum pdl_status net_make_at(pdl_arena *a, const char *spec, int depth,
                            const struct pdl_net **out, struct pdl_err *err);
/* A parameter's value by name; NULL: the generator has none. */
const struct net_value *net_value(const struct pdl_topo_values *v,
                                  const char *name);
/* The same network with a link of that rate at every host (and switch). */
enum pdl_status net_limit(pdl_arena *a, const struct pdl_net *inner,
                          double bytes_per_s, bool switches,
                          const struct pdl_net **out, struct pdl_err *err);

/* ---- the builder of cables --------------------------------------------- */

/* Sticky: the first failure latches and later calls do nothing. Vertices are
 * hosts 0..nhosts-1, then switches. */
struct net_cables {
    pdl_arena *arena;
    struct pdl_net *net;
    struct pdl_link *links;
    int64_t nlinks, cap;
    double bytes_per_s, latency_s; /* of a plain cable */
    bool shared;
    enum pdl_status status;
    struct pdl_err *err;
};

/* Sets the counts of the net and reserves room for the cables; refuses what
 * is too large. */
void net_cables_init(struct net_cables *c, pdl_arena *a,
                     const struct pdl_topo_values *v, struct pdl_net *net,
                     struct pdl_err *err);
void net_cables_counts(struct net_cables *c, int64_t hosts, int64_t switches,
                       int64_t cables);
/* A cable from u to v of `width` plain ones: link 2k goes u->v and 2k+1 back,
 * or one link both ways when shared. Returns the first link's number. */
int net_cable(struct net_cables *c, int64_t u, int64_t v, int64_t width);
/* One with its own rate and latency. */
int net_cable_of(struct net_cables *c, int64_t u, int64_t v, double bytes_per_s,
                 double latency_s);
/* A link in one direction only, without a reverse. */
int net_arc(struct net_cables *c, int64_t u, int64_t v);
/* Marks a link and its reverse as wires inside a node. */
void net_inside(struct net_cables *c, int link);
/* A link at one vertex: what it costs to cross it. */
int net_crossing(struct net_cables *c, int64_t v, double bytes_per_s,
                 double latency_s);
enum pdl_status net_cables_done(struct net_cables *c);

static inline int net_width(const struct pdl_link *k)
{
    return k->cables > 0 ? k->cables : 1;
}

/* links of one cable */
static inline int net_per_cable(const struct pdl_topo_values *v)
{
    return v->shared ? 1 : 2;
}

/* ---- cables that fail ---------------------------------------------------- */

/* The same network without the cables of `fail`, those of `slow` with less
 * rate; ways that are gone become the shortest that are left. */
enum pdl_status net_harm(pdl_arena *a, const struct pdl_net *inner,
                         const char *fail, const char *slow,
                         const struct pdl_net **out, struct pdl_err *err);
/* Refuses networks that are more than cables with two directions; what: the
 * parameter and its only value. */
enum pdl_status net_plain_cables(const struct pdl_net *net, const char *what,
                                 struct pdl_err *err);

/* ---- turns --------------------------------------------------------------- */

/* Says that a digit of the hosts' numbers may be turned. */
void net_may_turn(struct pdl_net *net, int64_t stride, int64_t extent);
/* Where vertex i of those that each stand for `hosts` hosts in a row comes to
 * when hosts move on. */
static inline int64_t net_turned(int64_t i, int64_t hosts, int64_t by,
                                 int64_t within)
{
    if (within <= hosts)
        return i;
    by /= hosts;
    within /= hosts;
    return i - i % within + (i % within + by) % within;
}

/* ---- the explicit graph -------------------------------------------------- */

/* An arc is a way from one vertex to a neighbour: its cable's link and, where
 * a switch's crossing is a link of its own, that one too: after the cable
 * when the arc enters the switch, before it when it leaves. */
struct net_way {
    int to, link;
    int crossing; /* -1: none */
    bool crossing_first;
};

struct net_graph {
    int nverts;
    const int *first; /* nverts + 1: ways[first[v]..first[v+1]) leave v */
    const struct net_way *ways; /* of a vertex, by .to then .link */
    /* The table of next ways between the core vertices (all but the hosts
     * with a single way), made by net_graph_table(). */
    int ncore;
    const int *core;      /* vertex -> core number; -1: a host outside */
    const uint16_t *next; /* [goal * ncore + at]: way number at `at` */
    const uint8_t *dist;  /* the same for ecmp: link entries to the goal */
    /* Made by net_graph_floyd(): the order of the vertices and, by it, the
     * vertex before the last on the way from one to another. */
    const int *rank, *vertex;
    const uint16_t *pred; /* [from * nverts + to] */
};

/* Makes the graph of a net's links (links that start and end at one vertex
 * are no ways). crossing[link]: the crossing of that cable's upper end, entered
 * when the cable is walked from -> to; NULL: none. */
enum pdl_status net_graph_make(pdl_arena *a, const struct pdl_net *net,
                               const int *crossing, struct net_graph *g,
                               struct pdl_err *err);
/* The first way from u to v; NULL: none. */
const struct net_way *net_graph_way(const struct net_graph *g, int u, int v);
/* Shortest ways by number of link entries, for undirected graphs: the lowest
 * neighbour wins a tie, or with ecmp distances, for all shortest ways.
 * Refuses graphs that are not connected or too large. */
enum pdl_status net_graph_table(pdl_arena *a, const struct pdl_net *net,
                                bool ecmp, struct net_graph *g,
                                struct pdl_err *err);
/* Appends a way's links; returns their number. */
int net_way_links(const struct net_way *w, int *links);
static inline int net_way_weight(const struct net_way *w)
{
    return w->crossing >= 0 ? 2 : 1;
}
/* A route callback for nets whose shape starts with a struct net_graph. */
int net_route_table(const struct pdl_net *net, int src, int dst, int *links);
/* Shortest ways with the ties that Floyd's algorithm breaks in the order
 * rank[vertex]; and its route callback. */
enum pdl_status net_graph_floyd(pdl_arena *a, const struct pdl_net *net,
                                const int *rank, struct net_graph *g,
                                struct pdl_err *err);
int net_route_floyd(const struct pdl_net *net, int src, int dst, int *links);
/* The same network with several ways for a pair (paths.c). */
enum pdl_status net_spread(pdl_arena *a, const struct pdl_net *inner,
                           enum pdl_path_spread how, const struct pdl_net **out,
                           struct pdl_err *err);

/* Distances in cables from a vertex (-1: cannot be reached); queue has room
 * for nverts. */
void net_graph_bfs(const struct net_graph *g, int from, int *dist, int *queue);

/* A route that steps from vertex to vertex: next() gives the vertex after
 * `at` on the way to dst, and the graph its cable. */
int net_graph_walk(const struct pdl_net *net, const struct net_graph *g,
                   int (*next)(const struct pdl_net *net, int at, int dst),
                   int src, int dst, int *links);

/* The links along a list of vertices. */
int net_graph_path(const struct net_graph *g, const int *verts, int n,
                   int *links);

/* Sets m's bisection. */
enum pdl_status net_bisection(pdl_arena *a, const struct pdl_net *net,
                              const struct net_graph *g, struct pdl_metrics *m,
                              struct pdl_err *err);
/* Which half of the best cut found each vertex is in: 0 or 1. */
enum pdl_status net_halves(pdl_arena *a, const struct pdl_net *net,
                           const char **side, struct pdl_err *err);

/* The end of every generator that keeps a graph at the start of its shape. */
enum pdl_status net_finish_graph(pdl_arena *a, struct net_cables *c,
                                 struct net_graph *g);

/* ---- generators --------------------------------------------------------- */

extern const struct pdl_topo net_fat_tree, net_torus, net_mesh, net_dragonfly,
    net_dragonfly_direct, net_star, net_leaf_spine, net_rack_tree, net_rail,
    net_hyperx, net_full2d, net_hammingmesh, net_dln, net_dln2d, net_dln_x,
    net_random, net_kautz, net_hybrid_optical, net_tsubame3, net_nvcluster,
    net_dragonfly_gpu, net_dln_gpu, net_tree_gpu, net_abci, net_dgx1_cluster,
    net_dgx2_cluster, net_nodes;

/* trace.c: room for one more of a list in the arena. */
bool net_reserve(pdl_arena *a, void *list, int64_t n, int64_t *cap,
                 size_t size);

#endif
