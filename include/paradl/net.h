/* paradl/net.h - networks of hosts and switches, and how long flows take.
 *
 * A network is a list of links and a route between any two hosts. A link is
 * one capacity: a full-duplex cable is two links, one a direction; a shared
 * cable is one link that both directions use. A route is a list of link
 * numbers, computed on demand; a link listed twice counts twice.
 *
 * The simulator knows flows, not collectives: it asks a pdl_traffic for what
 * each rank sends and receives next. */
#ifndef PARADL_NET_H
#define PARADL_NET_H

#include "paradl/base.h"

PDL_BEGIN

/* ---- topology --------------------------------------------------------- */

struct pdl_link {
    int from, to; /* vertices: hosts 0..nhosts-1, then switches */
    double bytes_per_s, latency_s;
    bool shared;  /* both directions use it */
    bool fatpipe; /* every flow has it to itself: SimGrid's FATPIPE */
    bool optical;
    double length_m; /* 0: the floor plan's; below 0: no cable, in a node */
    double idle_w, peak_w; /* 0: not modelled */
    int reverse; /* the other direction's link; itself when shared; -1 none */
    int cables;  /* a trunk of so many; 0: one */
};

enum { PDL_MAX_ROUTE = 4096, PDL_MAX_TURNS = 8 };

/* From how many hosts a network, or what is sent on it, looks the same. Level
 * i is the digit (h / stride) % extent of a host's number h; adding one to it,
 * modulo its extent, for all hosts at once changes nothing. letters is d + 1
 * where hosts are the words of K(d,2): so does adding one to every letter. */
struct pdl_turns {
    int n;
    struct pdl_turn {
        int64_t stride, extent;
    } level[PDL_MAX_TURNS];
    int letters; /* 0: not words */
};

/* How the messages of one pair of hosts are spread over several ways. */
enum pdl_path_spread {
    PDL_SPREAD_NONE,     /* one way */
    PDL_SPREAD_HASH,     /* by a hash of the flow: ECMP */
    PDL_SPREAD_ADAPTIVE, /* the least crowded shortest one, in a simulation */
    PDL_SPREAD_VALIANT,  /* over a vertex drawn for each message */
    PDL_SPREAD_UGAL,     /* so, or adaptive: where less waits in a simulation */
};

struct pdl_topo;        /* a generator */
struct pdl_topo_values; /* what its parameters were set to */

struct pdl_net {
    const char *spec; /* "fat-tree:down=8x8,up=1x8,links=1x1" */
    int nhosts, nswitches, nlinks;
    const struct pdl_link *links;
    /* Writes the links from host src to host dst in order and returns their
     * number (0 when src == dst), at most PDL_MAX_ROUTE. A pure function:
     * threads may share a net. */
    int (*route)(const struct pdl_net *net, int src, int dst, int *links);
    const void *shape; /* the generator's own data */
    /* The same where the way depends on the size of the message (a circuit
     * for the large ones); NULL: it does not. */
    int (*route_sized)(const struct pdl_net *net, int src, int dst,
                       int64_t bytes, int *links);
    /* Paid once before the first message: circuits being set up. */
    double setup_s;
    /* Consecutive links of a route need not meet: set only for the routes of
     * SimGrid's dragonfly, which see. */
    bool jumps;
    const struct pdl_topo *topo;
    const struct pdl_topo_values *values;
    /* Names a link ("blue_0_3_up"); NULL: "h3->s0". */
    void (*link_name)(const struct pdl_net *net, int link, char *buf,
                      size_t size);
    /* More than one way: that of a flow between the two hosts (flow 0:
     * route()); also a pure function. NULL: route() is all. */
    int (*path)(const struct pdl_net *net, int src, int dst, uint64_t flow,
                int *links);
    enum pdl_path_spread spread;
    int node; /* hosts of a node, numbered one after the other; 0: no nodes */
    /* These in the order in which its ranks sit on them; NULL: as numbered. */
    const int *order;
    /* What may be turned: ways, rates and latencies turn with the hosts. */
    struct pdl_turns turns;
    /* Where a switch comes to when hosts move on by `by` in each block of
     * `within`; NULL: there are no switches. */
    int (*turn)(const struct pdl_net *net, int64_t by, int64_t within,
                int vertex);
    /* Is the way between these two one of several that are equally long, of
     * which turning takes another? NULL: never. */
    bool (*tied)(const struct pdl_net *net, int64_t within, int src, int dst);
    bool harmed; /* some cables failed or are slow: no formula holds */
};

/* The host of the i-th rank when ranks fill the network in its own order. */
int pdl_net_seat(const struct pdl_net *net, int i);

/* Makes the network that a TOPOLOGY text describes: "name:key=value,...", or
 * the name of a SimGrid platform file ending in .xml. Everything lives in the
 * arena. */
enum pdl_status pdl_net_make(pdl_arena *a, const char *spec,
                             const struct pdl_net **out, struct pdl_err *err);

/* SimGrid platform files: in, the ones with a single <cluster>, or with hosts,
 * routers, links, flat clusters and routes (Full, Floyd) in zones; any network,
 * out (as a <cluster> where SimGrid has it, else with every route listed,
 * which is refused for more than 512 hosts). */
enum pdl_status pdl_net_read_simgrid(pdl_arena *a, struct pdl_bytes in,
                                     const char *name,
                                     const struct pdl_net **out,
                                     struct pdl_err *err);
enum pdl_status pdl_net_write_simgrid(const struct pdl_net *net,
                                      struct pdl_sink *out,
                                      struct pdl_err *err);

/* The route a message of that size takes. */
int pdl_net_route(const struct pdl_net *net, int src, int dst, int64_t bytes,
                  int *links);
/* Which way a message goes round a ring of d hosts of a torus. */
bool pdl_torus_goes_up(int64_t from, int64_t to, int64_t d);
/* Link i's name; returns buf. */
const char *pdl_net_link_name(const struct pdl_net *net, int link, char *buf,
                              size_t size);

/* The generators. */
enum pdl_param_kind {
    PDL_PARAM_INT,
    PDL_PARAM_DIMS, /* 8x8x16 */
    PDL_PARAM_RATE,
    PDL_PARAM_TIME,
    PDL_PARAM_BYTES,
    PDL_PARAM_CHOICE,
    PDL_PARAM_TEXT, /* a TOPOLOGY in parentheses */
};

struct pdl_param {
    const char *name;
    enum pdl_param_kind kind;
    const char *value; /* the default; NULL: must be given */
    int64_t min, max;  /* INT and each of DIMS */
    const char *choices;
    const char *help;
};

/* What kind of network a generator makes, for lists. */
enum pdl_topo_group {
    PDL_TOPO_TREE,
    PDL_TOPO_GRID,
    PDL_TOPO_SHORT,
    PDL_TOPO_OPTICAL,
    PDL_TOPO_CLUSTER,
    PDL_NTOPO_GROUPS
};
const char *pdl_topo_group_name(enum pdl_topo_group group);

struct pdl_topo {
    const char *name, *summary, *source, *example;
    enum pdl_topo_group group;
    const struct pdl_param *params; /* the first may be given bare */
    int nparams;
    bool calls; /* every message of its paper's programs was a call to MPI */
    enum pdl_status (*build)(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err);
};

const struct pdl_topo *pdl_topo_at(int i);       /* NULL past the end */
extern const struct pdl_param pdl_topo_common[]; /* bw, lat, ... */
extern const int pdl_ntopo_common;

/* What a network costs and what it can do. A distance is the number of cables
 * on the shortest path between two hosts (switch-to-switch hops are two
 * fewer where hosts hang on switches), a trunk is one hop but counts as many
 * cables as it has. Switches are those of the network, not the PCIe switches
 * inside nodes. */
struct pdl_metrics {
    int hosts, switches;
    int64_t cables; /* a pair of arcs back and forth is one */
    int diameter;
    double average_hops;
    int sources;        /* hosts measured from: all, or a random sample */
    double route_links; /* links listed by a route, on average; of all routes */
    int longest_route;  /* up to 1024 hosts, else of a random sample */
    int64_t bisection_cables; /* of the best cut into equal halves found */
    double bisection_bytes_per_s;
    bool bisection_exact; /* by formula; else an upper bound */
    double cable_m, cost, power_w;
};

enum pdl_status pdl_net_metrics(pdl_arena *a, const struct pdl_net *net,
                                struct pdl_metrics *out, struct pdl_err *err);
/* Dollars, as these figures have it. */
double pdl_net_switch_cost(int64_t ports);

/* What has to be bought for a network, on the same floor plan: near cables are
 * those up to 3 m, which copper reaches; far ones need optics at both ends. */
struct pdl_net_bill {
    int64_t hosts, switches;
    int64_t ports, most_ports; /* of all switches; of the largest */
    int64_t host_ports;        /* of all hosts */
    int64_t near_cables, far_cables;
    double near_m, far_m, longest_m;
};
enum pdl_status pdl_net_bill(pdl_arena *a, const struct pdl_net *net,
                             struct pdl_net_bill *out, struct pdl_err *err);

/* K(d,2), the network "kautz": through which host the credits of the arc u->v
 * return (u itself when v->u is an arc too); -1 when u->v is no arc. */
int pdl_kautz_credit(int d, int u, int v);
/* Its d + 1 waveguide gratings: which one the arc u->v passes and on which of
 * d wavelengths. False when u->v is no arc. */
bool pdl_kautz_wave(int d, int u, int v, int *grating, int *wavelength);

/* Proves what everyone relies on: links join vertices that exist, reverses
 * match, every route is a walk from its source to its destination. All pairs
 * up to max_pairs of them, else a seeded sample. PDL_EWRONG says what is
 * not so. */
enum pdl_status pdl_net_check(const struct pdl_net *net, int64_t max_pairs,
                              struct pdl_err *err);

/* ---- what ranks do, as the network sees it ----------------------------- */

/* Operation i of a rank: send to a peer and receive from a peer (either may
 * be -1), once the listed earlier operations of the same rank are complete.
 * It is complete when its own send and its own receive are. The k-th send of
 * rank a to rank b, counted in the order of operations, meets the k-th
 * receive of b from a, whenever either becomes ready. A message to oneself
 * takes no time. */
struct pdl_traffic_op {
    int send_to, recv_from;
    int64_t send_bytes, recv_bytes;
    int nafter;
    int64_t after[4];
    double compute_s; /* time between that and the operation's beginning */
};

/* Operations are pure functions of (rank, i), made when they are needed: a
 * ring on 4096 ranks has 33 million messages and nobody lists them. */
struct pdl_traffic {
    int nranks;
    void *ctx;
    int64_t (*nops)(void *ctx, int rank);
    void (*op)(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out);
    /* How many operations from i on, i itself included, are on every rank the
     * same as operation i in peers and bytes, each waiting exactly for the
     * one before. NULL: unknown (1). */
    int64_t (*alike)(void *ctx, int64_t i);
    /* The same two without random pauses, which the bounds leave out: a pause
     * only delays. NULL: there are none. */
    void (*calm_op)(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out);
    int64_t (*calm_alike)(void *ctx, int64_t i);
    const int *host_of_rank; /* NULL: rank r on host r */
    /* Operation i of a rank is looked at only when every operation up to
     * i - window is complete: bounds what a rank can have under way, and so
     * the memory. 1 for plain chains; 0: PDL_TRAFFIC_WINDOW. */
    int window;
    /* Turned ranks do what they did before to turned peers, in an order that
     * may differ only among operations between the same waits. */
    struct pdl_turns turns;
};

enum { PDL_TRAFFIC_WINDOW = 16 };

/* Traffic to run `times` times in a row. */
struct pdl_traffic_loop {
    struct pdl_traffic once;
    int64_t times;
    /* Mean of a random pause of a rank before each time, each drawn from the
     * seed, exponentially distributed; 0: none. Real ranks are never quite in
     * step, and some collectives are faster if they are. */
    double jitter_s;
    double start_s; /* the same before the first; 0: as the others */
    double work_s;  /* the same before each message */
    uint64_t seed;
};

/* A rank begins again as soon as its own operations are complete: no barrier.
 * The loop must outlive *out. */
void pdl_traffic_repeat(struct pdl_traffic_loop *loop, struct pdl_traffic *out);

/* A trace put together: pdl_trace_rank begins a rank, pdl_trace_op adds one of
 * its operations (whose own waits are not read) and returns its number,
 * pdl_trace_wait makes one wait for another, _like for what another waits for
 * so far. A send must meet a receive of its bytes and tag. Memory that runs out
 * is said by the next call that can. */
struct pdl_trace;
struct pdl_trace *pdl_trace_create(pdl_arena *a, const char *name, int nranks);
enum pdl_status pdl_trace_rank(struct pdl_trace *t, int rank,
                               struct pdl_err *err);
int64_t pdl_trace_op(struct pdl_trace *t, const struct pdl_traffic_op *op,
                     int64_t tag);
void pdl_trace_wait(struct pdl_trace *t, int64_t op, int64_t before);
void pdl_trace_wait_like(struct pdl_trace *t, int64_t op, int64_t like);
enum pdl_status pdl_trace_done(struct pdl_trace *t, struct pdl_traffic *out,
                               struct pdl_err *err);

/* A trace of all ranks in the text of GOAL (doc/simulator.md). */
enum pdl_status pdl_traffic_read_goal(pdl_arena *a, struct pdl_bytes in,
                                      const char *name, struct pdl_traffic *out,
                                      struct pdl_err *err);

/* ---- sharing: weighted max-min rates ----------------------------------- */

/* A flow of rate r takes amount * r of each link it uses (2 where its route
 * passes twice). */
struct pdl_maxmin_use {
    int link;
    double amount;
};

struct pdl_maxmin_flow {
    const struct pdl_maxmin_use *uses; /* a link at most once */
    int nuses;
    double weight; /* flows on one bottleneck get rates in this proportion */
    double bound;  /* its rate is never above; 0: no bound */
};

struct pdl_maxmin {
    const double *capacity;
    int nlinks;
    const struct pdl_maxmin_flow *flows;
    int nflows;
};

/* The rates: none can be raised without lowering one that is smaller or
 * equal in rate / weight. A flow without uses and without a bound has none
 * and is refused. */
enum pdl_status pdl_maxmin_solve(const struct pdl_maxmin *p, double *rates,
                                 struct pdl_err *err);
/* Proves rates to be the max-min ones: no link carries more than it can and
 * every flow is at its bound or has a bottleneck, a full link where no other
 * flow has more for its weight. PDL_EWRONG says what is not so. */
enum pdl_status pdl_maxmin_check(const struct pdl_maxmin *p,
                                 const double *rates, double tolerance,
                                 struct pdl_err *err);

/* ---- the flow-level simulator ------------------------------------------- */

enum pdl_share {
    PDL_SHARE_FAIR, /* flows on a bottleneck get the same */
    PDL_SHARE_RTT,  /* in proportion to 1 / route latency: SimGrid's CM02 */
    PDL_SHARE_NONE, /* flows do not see each other: a lower bound */
};

enum pdl_wire {
    PDL_WIRE_PLAIN, /* latency, then bytes at the shared rate */
    PDL_WIRE_SMPI,  /* SMPI's factors, cross traffic and detached sends */
};

enum pdl_energy {
    PDL_ENERGY_OFF,
    PDL_ENERGY_INTEGRATE, /* power follows the utilisation */
    PDL_ENERGY_PLUGIN,    /* as SimGrid's plugin: sampled at messages' ends */
};

/* Weight-S of SimGrid's SMPI model, for pdl_sim_config.weight_s. */
#define PDL_WEIGHT_S_SMPI 8775.0

/* All zero is the plain fair model and nothing collected. */
struct pdl_sim_config {
    enum pdl_share share;
    enum pdl_wire wire;
    enum pdl_energy energy;
    double weight_s; /* rtt: latency counts as latency + sum of this / B */
    /* rtt: events less than this after an instant happen in it, SimGrid's
     * surf/precision; 0: its default, 1e-9; below 0: none, times are exact */
    double precision_s;
    bool zero_bytes;     /* latencies only: a lower bound */
    bool time_only;      /* fill nothing but result.time_s */
    bool links;          /* fill result.links */
    bool bounds;         /* fill the lower bounds: may simulate again */
    bool critical_path;  /* fill result.path */
    int timeline;        /* at least so many buckets over time; 0: none */
    size_t memory_limit; /* bytes of scratch; 0: 8 GiB */
    bool events_only;    /* no short cuts: for tests of the short cuts */
    bool unfolded;       /* every rank for itself: for tests of folding */
    uint64_t seed;       /* of the hash that spreads flows over ways */
    /* Called now and then with the number of messages so far. */
    void (*progress)(void *ctx, int64_t messages);
    void *progress_ctx;
    const volatile int *interrupt; /* not 0: stop with PDL_EINTR */
    double until_s; /* above 0: PDL_EINTR when it is seen to take longer */
};

struct pdl_link_use {
    int64_t bytes;  /* that messages brought over it */
    double load;    /* the same with cross traffic */
    double first_s; /* first message that uses it; < 0: never */
    double busy_s;  /* time with at least one flow */
    double energy_j;
};

/* The chain of messages that made the last rank finish when it did. */
struct pdl_path {
    int64_t messages;
    double latency_s; /* paid on the chain */
    double wire_s;    /* what its bytes would take alone on their links */
    double shared_s;  /* more than that, because links were shared */
    struct pdl_path_step {
        int from, to; /* ranks */
        int64_t op;   /* of the receiving rank */
        double start_s, end_s;
    } * steps; /* the last PDL_PATH_STEPS of them, in time */
    int nsteps;
};

enum { PDL_PATH_STEPS = 64 };

struct pdl_bounds {
    double latency_s; /* all messages empty */
    double alone_s;   /* links not shared: latency and bytes of the chain */
    double link_s;    /* busiest link: its bytes / its rate */
    int link;         /* which one; -1: none used */
    double host_s;    /* busiest host: bytes out or in / its links' rates */
    int host;         /* which one; -1: none */
    /* bytes between two halves of the hosts / the rate of the links there */
    double bisection_s;
    double lower_s; /* the largest of these */
};

struct pdl_sim_result {
    double time_s;                   /* the last rank is done */
    int64_t messages, bytes_on_wire; /* a byte counts once for each link */
    int64_t max_link_bytes;
    int max_link; /* -1: none */
    double energy_j;
    const double *finish_s;           /* of each rank */
    const struct pdl_link_use *links; /* or NULL */
    struct pdl_bounds bounds;
    struct pdl_path path;
    double *timeline; /* mean share of all links' capacity in use */
    int ntimeline;
    double timeline_s;  /* length of a bucket */
    int64_t solves;     /* how often rates were shared anew */
    int64_t short_cuts; /* messages that took no event */
    int folded;         /* so many ranks were simulated as one; 1: each */
    double wall_s;
};

/* Runs the traffic; everything in *out lives in the arena. Traffic that can
 * not finish is PDL_EINVAL with the rank and operation that wait. */
enum pdl_status pdl_sim_run(pdl_arena *a, const struct pdl_net *net,
                            const struct pdl_traffic *traffic,
                            const struct pdl_sim_config *config,
                            struct pdl_sim_result *out, struct pdl_err *err);

struct pdl_flow {
    int src, dst; /* hosts */
    int64_t bytes;
    double start_s;
};

/* Independent flows; finish_s[i] is when flow i's last byte arrives. out may
 * be NULL; its finish_s, path and bounds stay empty. */
enum pdl_status pdl_sim_flows(pdl_arena *a, const struct pdl_net *net,
                              const struct pdl_flow *flows, int nflows,
                              const struct pdl_sim_config *config,
                              double *finish_s, struct pdl_sim_result *out,
                              struct pdl_err *err);

/* For each operation number up to max_steps: how many messages of that number
 * the busiest link carries (a collective's contention step by step). Returns
 * the number of steps written to out. */
enum pdl_status pdl_traffic_contention(pdl_arena *a, const struct pdl_net *net,
                                       const struct pdl_traffic *traffic,
                                       int max_steps, int *out, int *nsteps,
                                       struct pdl_err *err);

PDL_END
#endif
