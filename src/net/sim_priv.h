/* Shared by the files of the simulator.
 *
 *   share.c   the flows that are on the wire, fill.c their rates (max-min)
 *   paths.c   the way of a message where there are several
 *   clock.c   which flow has the next event
 *   wire.c    flows in time: latency, bytes at the shared rate, link counters
 *   model.c   what a message takes alone, by the wire model
 *   rounds.c  short cut: rounds of messages that never share a link; lanes.c
 *             reads them
 *   events.c  ranks and their operations, event by event; window.c which
 *             of them are looked at
 *   match.c   which send meets which receive
 *   fold.c    ranks that do the same on links that are the same, as one
 *   sim.c     puts them together; flows.c the same for bare flows
 *   energy.c, bounds.c, path.c, timeline.c: what is read off a run */
#ifndef SIM_PRIV_H
#define SIM_PRIV_H

#include "paradl/net.h"

/* Times closer than this, relatively, are one instant: rounding must not tear
 * apart what happens together. It moves an event by less than it rounds off
 * in a thousand additions. */
#define NET_SAME_INSTANT 1e-13

/* Of two numbers, neither of them a NaN: without the call that fmin is. */
static inline double net_min(double a, double b)
{
    return a < b ? a : b;
}

static inline double net_max(double a, double b)
{
    return a > b ? a : b;
}

/* ---- blocks of 2^k elements with free lists ----------------------------- */

/* Grows by doubling in an arena; blocks are offsets, so they survive it. */
struct net_pool {
    pdl_arena *arena;
    char *base;
    size_t size; /* of an element, at least 8 */
    int64_t used, cap;
    int64_t free[32]; /* offset + 1 of the first free block of 2^k */
};
void net_pool_init(struct net_pool *p, pdl_arena *a, size_t size);
/* A block of 2^k elements; -1: no memory. */
int64_t net_pool_take(struct net_pool *p, int k);
void net_pool_give(struct net_pool *p, int64_t block, int k);
int net_log2_up(int n); /* least k with 2^k >= n */

/* ---- share: the max-min core ------------------------------------------- */

struct net_use {
    double amount;
    int link, pos; /* pos: where the link's list names this use */
};

struct net_ref {
    int flow, use;
};

/* A link and its flows. */
struct net_share_link {
    double capacity;
    int64_t refs; /* block in refs */
    int n, log;
    bool touched, added, in;
};

/* What is left of a link while solving. */
struct net_left {
    double left, weight, all; /* weight: of the open flows; all: at first */
    int open;                 /* flows not yet given their rate */
    int next;                 /* in a bucket of the queue */
};

/* level = rate / weight. */
struct net_share_flow {
    double weight, rate, level, bound_level;
    int64_t uses; /* block in uses */
    int nuses, log;
    int bottleneck; /* the link that holds it; -1: its bound */
    bool joined, in, open;
};

struct net_share {
    pdl_arena *arena;
    bool failed; /* latches: no memory */
    int nlinks;
    struct net_share_link *links;
    struct net_left *left;
    struct net_share_flow *flows;
    int nflows; /* room for this many */
    struct net_pool uses, refs;
    int *touched, ntouched;
    int near;       /* up to this many touched links the near search is tried */
    int rounds;     /* this many times; then the far one */
    double restart; /* nothing below this level has changed */
    /* solver's scratch */
    int *list, nlist;       /* links being solved */
    int *changed, nchanged; /* flows that may have a new rate */
    struct net_queue *queue;
    struct net_bounded *bounded; /* of those, the ones with a bound */
    int nbounded;
    int64_t solves;
};

enum pdl_status net_share_init(struct net_share *s, pdl_arena *a,
                               const double *capacity, int nlinks,
                               struct pdl_err *err);
/* Makes room for flow numbers below n. */
void net_share_reserve(struct net_share *s, int n);
/* Adds a flow with its uses (no link twice). Its rate is set at once when it
 * is alone on its links, else by the next solve. */
void net_share_add(struct net_share *s, int flow,
                   const struct pdl_maxmin_use *uses, int nuses, double weight,
                   double bound);
/* The same in two steps: what it will use, then from now on it does. */
void net_share_hold(struct net_share *s, int flow,
                    const struct pdl_maxmin_use *uses, int nuses, double weight,
                    double bound);
void net_share_join(struct net_share *s, int flow);
/* Takes a flow away, joined or only held. */
void net_share_remove(struct net_share *s, int flow);
/* Shares anew after adds and removes. changed[0..nchanged) may have got
 * another rate; the rest kept theirs. */
void net_share_solve(struct net_share *s);

static inline const struct net_use *net_share_uses(const struct net_share *s,
                                                   int flow)
{
    return (const struct net_use *)(const void *)s->uses.base +
           s->flows[flow].uses;
}

static inline struct net_ref *net_share_refs(const struct net_share *s,
                                             int link)
{
    return (struct net_ref *)(void *)s->refs.base + s->links[link].refs;
}

/* ---- clock: the next of many events ------------------------------------ */

enum { NET_CLOCK_LEVELS = 8, NET_CLOCK_WAY = 16 };

/* A tree of minima, 16 children to a node, over slots' times. */
struct net_clock {
    pdl_arena *arena;
    int nslots; /* room */
    int nlevels;
    double *level[NET_CLOCK_LEVELS]; /* [0]: the times; INFINITY: none */
};
bool net_clock_reserve(struct net_clock *c, int nslots);
void net_clock_set(struct net_clock *c, int slot, double time);
double
net_clock_time(const struct net_clock *c); /* the least; INFINITY: none */
int net_clock_slot(const struct net_clock *c, double time); /* that has it */

/* ---- paths: ways that are chosen for each message ----------------------- */

static inline bool net_by_message(const struct pdl_net *net)
{
    return net->spread > PDL_SPREAD_HASH;
}

struct net_least_vertex {
    int search, from, link; /* of which search; how one comes there */
    double crowd, latency_s;
};

struct net_least {
    const struct pdl_net *net;
    const struct net_graph *graph;
    int *flying; /* messages under way on each link */
    struct net_least_vertex *seen;
    int search, *list[2];
    uint64_t seed, drawn; /* of what is drawn, and how often it was */
};
struct net_graph;
enum pdl_status net_least_init(struct net_least *s, pdl_arena *a,
                               const struct pdl_net *net, uint64_t seed,
                               struct pdl_err *err);
int net_least_route(struct net_least *s, int src, int dst, int *links);

/* ---- fold: many ranks as one -------------------------------------------- */

enum { NET_MAX_FOLDS = 4 };

/* Ranks that turns of the network take to one another are one rank here, and
 * so are their links. */
struct net_fold {
    int size;              /* ranks of each */
    int nranks, nlinks;    /* that are left */
    const int *host;       /* of each rank left: the one that is asked */
    const int *place, *at; /* host -> rank * size + turns, and back */
    int nturns;
    int order[NET_MAX_FOLDS];                         /* of each turn */
    int64_t by[NET_MAX_FOLDS], within[NET_MAX_FOLDS]; /* by 0: of letters */
    const int *link;                                  /* link -> link left */
    const int *first; /* and back: one of them */
    const int *times; /* of a link left: ranks of one whose ways share it */
    bool meet;        /* some link is so shared */
    bool broken;      /* a way was met that does not turn */
};

/* NULL in *out: nothing can be folded. */
enum pdl_status net_fold_make(struct net_fold **out, pdl_arena *a,
                              const struct pdl_net *net,
                              const struct pdl_traffic *traffic,
                              const struct pdl_sim_config *config,
                              struct pdl_err *err);
/* The host that b is seen at from where host a is asked. */
int net_fold_seen(const struct net_fold *f, int a, int b);

/* ---- model: what a message is ------------------------------------------ */

struct net_model {
    const struct pdl_net *net;
    const struct pdl_sim_config *config;
    struct net_fold *fold; /* NULL: none */
    int nlinks;
    double *capacity;        /* of each link, for sharing */
    int *mark;               /* scratch of net_model_message */
    struct net_least *least; /* ways by message; NULL: by pair */
    double instant_s;        /* what comes less than this later comes at once */
};

/* Who sends what to whom: hosts, and the number of the flow between them
 * (several ranks on a host have several). */
struct net_send {
    int src, dst;
    int64_t bytes;
    uint64_t flow;
};

struct net_message {
    int nlinks, *links; /* the way it goes */
    int nuses;          /* with cross traffic, no link twice */
    struct pdl_maxmin_use *uses;
    int *times;     /* of a use: passes on the way there */
    int room, most; /* for links; for uses */
    double latency_s, weight, bound;
    double rate; /* alone on its links; INFINITY: no links */
};

enum pdl_status net_model_init(struct net_model *m, pdl_arena *a,
                               const struct pdl_net *net,
                               const struct pdl_sim_config *config,
                               struct net_fold *fold, struct pdl_err *err);
void net_model_message(const struct net_model *m, const struct net_send *send,
                       struct net_message *out);
/* Does a sender go on without waiting for the message to arrive? */
bool net_model_detached(const struct net_model *m, int64_t bytes);

/* ---- timeline ---------------------------------------------------------- */

/* Load over time in a fixed number of buckets, which double in length when
 * time runs out of them. */
struct net_timeline {
    int n; /* 0: off */
    double width;
    double *bytes;
};
enum pdl_status net_timeline_init(struct net_timeline *t, pdl_arena *a, int n,
                                  struct pdl_err *err);
void net_timeline_add(struct net_timeline *t, double from, double to,
                      double bytes);

/* ---- wire: flows in time ----------------------------------------------- */

struct net_wire_flow {
    double left, since, rate; /* bytes left at that time, at that rate */
    double start, latency, alone_s, alone_rate;
    double amount; /* sum over its uses: load of a byte on all links */
    bool on;       /* past its latency */
    int next_free; /* or the next that has just been put on */
};

/* A message looked up before. Programs send the same few again and again. */
struct net_kept {
    int src, dst;
    int64_t bytes;
    struct net_message *msg; /* NULL: none yet */
};

struct net_wire {
    pdl_arena *arena;
    struct net_model model;
    struct net_share share;
    struct net_clock clock;
    struct net_timeline timeline;
    struct net_wire_flow *flows;
    int nslots, used, free; /* free: first of the list, -1: none */
    int nflying;            /* slots in use */
    double now;
    int *done, ndone;
    struct pdl_link_use *use; /* of each link */
    double *busy_since;
    double *sampled; /* plugin energy: until when a link is charged */
    int64_t messages, bytes_on_wire;
    struct net_kept *kept; /* what messages are, by pair and size */
    int nkept;             /* a power of two; 0: ways change */
    struct net_message msg;
    bool failed;
};

enum { NET_WIRE_INSTANT = -1 }; /* it takes no time */

enum pdl_status net_wire_init(struct net_wire *w, pdl_arena *a,
                              const struct pdl_net *net,
                              const struct pdl_sim_config *config,
                              struct net_fold *fold, struct pdl_err *err);
/* Starts a message now; its slot, or NET_WIRE_INSTANT. */
int net_wire_start(struct net_wire *w, const struct net_send *send);
/* Nothing on the wire, but done only after so long; its slot. */
int net_wire_pause(struct net_wire *w, double seconds);
/* Shares the links after starts and ends of this instant. */
void net_wire_share(struct net_wire *w);
double net_wire_next(const struct net_wire *w); /* INFINITY: nothing flies */
/* Goes to the instant t, at most the next one; done[0..ndone) have arrived
 * and their slots are free after the next start. */
void net_wire_go(struct net_wire *w, double t);

/* Fills what the wire knows of a result. */
enum pdl_status net_result(pdl_arena *a, struct net_wire *w, double end_s,
                           struct pdl_sim_result *out, struct pdl_err *err);

/* ---- energy ------------------------------------------------------------ */

/* Plugin accounting: charges a link up to now at its present use. */
void net_energy_sample(struct net_wire *w, int link);
/* Joules of every link at the end, their sum returned. */
double net_energy_finish(struct net_wire *w, double end_s);

/* ---- match: the k-th send meets the k-th receive ----------------------- */

struct net_post {
    int rank, next;
    int64_t op, ordinal, bytes;
    bool send;
};

struct net_pair {
    int64_t key, sends, recvs; /* counted so far */
    int open;                  /* sides that have not met theirs */
    int posted, next;          /* first post; next in the hash chain */
};

struct net_match {
    pdl_arena *arena;
    struct net_pair *pairs;
    struct net_post *posts;
    int npairs, pair_cap, free_pair, live;
    int nposts, post_cap, free_post, waiting;
    int *heads, nheads;
    bool failed;
};

void net_match_init(struct net_match *m, pdl_arena *a);
void net_match_clear(struct net_match *m);
/* Counts a send from src to dst, or a receive there; the pair, or -1. */
int net_match_count(struct net_match *m, int src, int dst, bool send,
                    int64_t *ordinal);
/* One side is ready. True: the other was, and *other is it; else it waits. */
bool net_match_post(struct net_match *m, int pair, const struct net_post *post,
                    struct net_post *other);

/* ---- path: the chain that makes the end -------------------------------- */

struct net_path_sum {
    int64_t messages;
    double latency_s, wire_s, shared_s;
};

struct net_path_node {
    struct net_path_sum sum;
    struct pdl_path_step step;
    int parent; /* -1: none */
};

struct net_path {
    bool on;
    struct net_path_node *nodes;
    int n, cap;
    int nranks, *tips; /* the last message that a rank waited for; -1 */
};

enum pdl_status net_path_init(struct net_path *p, pdl_arena *a, int nranks,
                              bool on, struct pdl_err *err);
/* A message that took latency and, alone, wire seconds; its node. */
int net_path_add(struct net_path *p, int parent,
                 const struct pdl_path_step *step, double latency_s,
                 double wire_s);
/* Room for n more nodes? Otherwise forgets what nobody can ask for; live are
 * nodes to keep beside the tips, and are renumbered. */
void net_path_trim(struct net_path *p, int n, int **live, int nlive);
enum pdl_status net_path_result(const struct net_path *p, pdl_arena *a,
                                int rank, struct pdl_path *out,
                                struct pdl_err *err);

/* ---- a run of traffic -------------------------------------------------- */

struct net_sim {
    struct net_wire wire;
    struct net_path path;
    const struct pdl_traffic *traffic;
    const struct pdl_sim_config *config;
    int nranks, window;
    int *port; /* of each rank: how many ranks before it are on its host; NULL
                  where ranks are folded */
    int64_t *nops;
    double *finish_s; /* of each rank */
    /* Every rank has completed all operations before this one at that time,
     * and nothing is under way. */
    int64_t round;
    double time_s;
    bool done;
    bool by_rounds; /* rounds are worth trying */
    int64_t stay;   /* events: meetings of all ranks to pass before that */
    int64_t short_cuts;
};

static inline int net_sim_host(const struct net_sim *s, int rank)
{
    return s->traffic->host_of_rank ? s->traffic->host_of_rank[rank] : rank;
}

/* Whom an operation sends to, and as whom it receives, where ranks are folded
 * seen from the rank that is asked; else ranks. */
struct net_ends {
    int to, as;
};

/* Operation i of a rank, its peers among the ranks that are left. */
void net_sim_op(const struct net_sim *s, int rank, int64_t i,
                struct pdl_traffic_op *op, struct net_ends *ends);
/* A message between two ranks; `seen`: the end of a folded one. */
struct net_send net_sim_send(const struct net_sim *s, int from, int to,
                             int seen, int64_t bytes);
/* Is it one to itself? */
static inline bool net_sim_to_itself(const struct net_sim *s, int from, int to,
                                     int seen)
{
    const struct net_fold *f = s->wire.model.fold;

    return f ? f->host[from] == seen : from == to;
}
/* PDL_EINTR when asked to stop; reports progress. */
enum pdl_status net_sim_pulse(const struct net_sim *s, struct pdl_err *err);

/* Fills the lower bounds of a run. */
enum pdl_status net_bounds(struct net_sim *s, struct pdl_sim_result *out,
                           struct pdl_err *err);

struct net_rounds;
enum pdl_status net_rounds_create(struct net_rounds **out, struct net_sim *sim,
                                  pdl_arena *a, struct pdl_err *err);
/* Goes on by rounds while messages share no link; stops at the end or before
 * what it cannot do, where every rank is at one time. */
enum pdl_status net_rounds_run(struct net_rounds *r, struct pdl_err *err);

struct net_events;
enum pdl_status net_events_create(struct net_events **out, struct net_sim *sim,
                                  pdl_arena *a, struct pdl_err *err);
/* Goes on event by event to the end, or until every rank has completed the
 * same number of operations at one time. */
enum pdl_status net_events_run(struct net_events *e, struct pdl_err *err);

#endif
