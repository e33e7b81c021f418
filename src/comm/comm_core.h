/* Shared by the files that run collectives: messages, the area that ranks of
 * one node share, operations under way. */
#ifndef COMM_CORE_H
#define COMM_CORE_H

#include "comm_priv.h"

#include <stdatomic.h>

/* ---- messages --------------------------------------------------------- */

/* Messages of collectives and of exchanges never meet. */
enum comm_channel { COMM_COLLECTIVE, COMM_EXCHANGE, COMM_NCHANNELS };
enum { COMM_TAG_SETUP = -1 }; /* ours, on the exchange channel */

struct comm_combine {
    enum pdl_comm_type type;
    enum pdl_comm_op op;
};

/* One side of a message. The caller fills the first part and keeps it until
 * done is set. */
struct comm_msg {
    int peer, tag;
    enum comm_channel channel;
    bool send;
    char *data;
    int64_t bytes;
    const struct comm_combine *combine; /* receive; NULL: overwrite */

    bool done;
    int64_t moved;
    char *aside; /* p2p: arrived here, to be combined */
    MPI_Request request;
    struct comm_kept *kept; /* p2p: whose request this is; NULL: its own */
    bool started;
    struct comm_entry *entry; /* area: waits for its reader */
    struct comm_msg *next;
};

/* A list of messages, first in first out. */
struct comm_list {
    struct comm_msg *first, **last;
};
void comm_list_init(struct comm_list *l);
void comm_list_add(struct comm_list *l, struct comm_msg *m);
void comm_list_remove(struct comm_list *l, struct comm_msg **at);

/* ---- the area --------------------------------------------------------- */

/* How a long message gets from one rank of a node to another. */
enum comm_reach {
    COMM_REACH_POINTER, /* one process */
    COMM_REACH_WINDOW,  /* windows where they are used, else as below */
    COMM_REACH_CMA,
    COMM_REACH_STAGED,
};

/* A slot; what may be summed out of slots, as its elements are in a tag. */
enum { COMM_FLAT_BYTES = 131072, COMM_FLAT_SUM = 32768 };
enum { COMM_LINE = 64, COMM_ENTRIES = 8 };

/* Where a rank's buffers are: an address of its own, or a place in a window
 * (id not 0). */
struct comm_place {
    uint64_t window, at;
};

/* A message, or a part of one, on its way: one cache line, then its bytes. */
struct comm_entry {
    _Alignas(COMM_LINE) _Atomic uint32_t state;
    int32_t tag;
    int64_t total, offset, length;
    int64_t whole;             /* all of it is at: */
    struct comm_place address; /* else this part follows */
};

/* What a rank shows the others. Written by it alone. Operations of all ranks
 * together (direct.c) are numbered; what belongs to number i is overwritten by
 * number i + 2, when everyone is known to have left i. */
struct comm_seat {
    _Alignas(COMM_LINE) _Atomic uint64_t arrived;
    _Alignas(COMM_LINE) _Atomic uint64_t finished;
    _Alignas(COMM_LINE) struct {
        struct comm_place in, out;
        int64_t check; /* what the operation is: the same on all */
        /* of the rank that decides: rather by the kernel than through
         * stages; into stages past the cache */
        bool kernel, streams;
        double at_s; /* when it came; 0: it is too short to be timed */
    } post[2];
    _Alignas(COMM_LINE) _Atomic uint64_t ping;
    /* Rung by others when something changed; the rank may sleep on it. */
    _Alignas(COMM_LINE) _Atomic uint32_t bell;
    _Atomic uint32_t asleep;
    _Alignas(COMM_LINE) int32_t pid;
    uint64_t probe; /* a word that others try to read */
};

struct comm_area {
    _Alignas(COMM_LINE) _Atomic int broken;
    _Atomic int users;                     /* memory: who frees it, and */
    _Atomic(pdl_comm_request *) abandoned; /* what was under way */
    /* processes without MPI: it may be used; how many have come, and how many
     * can read their neighbour's memory */
    _Atomic int ready, joined, reached;
    int n;
    int64_t slot_bytes, stage_bytes, bytes;
    /* Of operations of all ranks together, where they may sleep: how many
     * have come to the next point. */
    _Alignas(COMM_LINE) _Atomic uint64_t met;
    /* then the seats, the flat slots, the lanes, the stages */
};

/* staged: with room to pass long vectors through. */
int64_t comm_area_bytes(int n, bool staged);
void comm_area_init(struct comm_area *a, int n, bool staged);
struct comm_seat *comm_area_seat(struct comm_area *a, int i);
char *comm_area_flat(struct comm_area *a, int i, int half);
/* stage_bytes of input, and as much for sums. */
char *comm_area_stage(struct comm_area *a, int i, int half);
char *comm_area_sums(struct comm_area *a, int i, int half);
/* Before they are used: a page that is looked at for the first time costs as
 * much as copying it, so that a way that is tried looks slow until all of its
 * memory was used. Where the kernel cannot, nothing. */
void comm_area_touch_stages(struct comm_area *a);
struct comm_entry *comm_area_entry(struct comm_area *a, enum comm_channel ch,
                                   int from, int to, uint32_t i);

/* ---- a communicator --------------------------------------------------- */

/* A message nobody asked for yet, taken in because its lane was full. */
struct comm_early {
    int tag;
    int64_t total, have;
    char *data;
    struct comm_early *next;
};

struct comm_out {
    struct comm_list queue; /* not yet in the lane */
    uint32_t next;
};
struct comm_in {
    struct comm_list wanted;
    struct comm_early *early;
    uint32_t tail;
    uint32_t taken; /* bit i: entry tail + i is done with */
};

/* What two ways have cost, by size: copies into slots and into stages, kept in
 * the cache and past it; vectors through stages and by the kernel. */
enum comm_habits {
    COMM_SLOT,
    COMM_STAGE,
    COMM_KERNEL,
    /* of each of four other collectives: into stages, out of them, kernel */
    COMM_MOVE_IN,
    COMM_MOVE_OUT,
    COMM_MOVE_KERNEL,
    COMM_NHABITS = COMM_MOVE_IN + 4 * 3,
    COMM_HABITS = 40 /* sizes */
};
struct comm_habit {
    double seconds[2];
    uint32_t uses;
};

struct pdl_comm {
    int rank, size;
    bool fixed_order;
    int ranks_per_node;
    bool progress;
    double timeout_s;
    const char *transport; /* as asked for */
    char *asked;           /* for an algorithm, or NULL */
    const char *algorithm; /* of those words, and of which collective */
    const char *algorithm_for;
    const struct pdl_coll_program *program;
    struct pdl_comm_table table;
    char by_node[32]; /* an algorithm for nodes of equal size, or "" */
    const char *used; /* how the last allreduce went */
    char broken[256];

    /* MPI messages */
    bool mpi;
    MPI_Comm lane[COMM_NCHANNELS];
    struct comm_list p2p;         /* under way */
    struct comm_kept_table *kept; /* persistent requests; NULL: none yet */

    /* ranks that share an area */
    struct comm_area *area;
    bool mapped; /* it is of processes that have no MPI */
    enum comm_reach reach;
    int node_rank, node_size, nodes;
    bool in_line;      /* ranks of a node are neighbours, nodes in order */
    int *seat_of_rank; /* -1: on another node */
    int *rank_of_seat;
    struct comm_out *out[COMM_NCHANNELS]; /* by seat */
    struct comm_in *in[COMM_NCHANNELS];
    struct comm_list posted; /* sends that wait for their reader */
    MPI_Comm node;           /* its ranks; MPI_COMM_NULL: one process */
    bool cma;                /* permitted */
    struct comm_windows *windows;
    uint64_t number; /* of operations of all ranks together */
    bool staged;     /* some have gone through stages */
    struct comm_habit habit[COMM_NHABITS][COMM_HABITS];
    char *scratch; /* COMM_SCRATCH bytes; NULL until needed */
    struct comm_spare {
        char *data;
        int64_t bytes;
    } spare[PDL_COLL_BUFS]; /* buffers of the last program, for the next */
    char note[256];         /* why it is not the transport one would expect */

    uint64_t moves; /* counts whatever moved: somebody is alive */
    bool crowded;   /* more ranks than processors: give way when waiting */
    int64_t signals, worked; /* so far: see struct pdl_comm_info */
    pdl_comm_request *first, *last;
    pdl_comm_request *abandoned; /* of a broken one: others may use them */
    struct comm_engine *engine;  /* NULL: no thread of its own */
};

enum pdl_status comm_usable(const pdl_comm *c, struct pdl_err *err);
/* The communicator is lost: remembers why, tells the node. */
enum pdl_status comm_break(pdl_comm *c, struct pdl_err *err, const char *fmt,
                           ...) PDL_PRINTF(3, 4);
/* Sits down in an area: seat i is rank rank_of_seat[i] (NULL: i). */
enum pdl_status comm_sit(pdl_comm *c, struct comm_area *a, int n,
                         const int *rank_of_seat, struct pdl_err *err);

/* Starts a message, and moves whatever can move. */
enum pdl_status comm_post(pdl_comm *c, struct comm_msg *m, struct pdl_err *err);
enum pdl_status comm_progress(pdl_comm *c, struct pdl_err *err);
/* The two carriers (mail.c: the area; p2p.c: MPI). */
enum pdl_status comm_mail_post(pdl_comm *c, struct comm_msg *m,
                               struct pdl_err *err);
enum pdl_status comm_mail_progress(pdl_comm *c, struct pdl_err *err);
void comm_mail_close(pdl_comm *c);
enum pdl_status comm_p2p_post(pdl_comm *c, struct comm_msg *m,
                              struct pdl_err *err);
enum pdl_status comm_p2p_progress(pdl_comm *c, struct pdl_err *err);
void comm_p2p_close(pdl_comm *c);
enum pdl_status comm_mpi_fail(pdl_comm *c, int rc, const char *what,
                              struct pdl_err *err);
/* Persistent requests (kept.c). Starts the message where it is known already:
 * its kept is set then. Returns what MPI says. */
int comm_kept_start(pdl_comm *c, struct comm_msg *m, int tag);
void comm_kept_done(struct comm_msg *m);     /* it may be started again */
int64_t comm_kept_starts(const pdl_comm *c); /* so far */
void comm_kept_close(pdl_comm *c, bool finalized);

/* ---- ranks of one node (node.c, window.c, cma.c) ----------------------- */

/* Finds the ranks of this node, makes them an area, tries what is permitted.
 * Where that fails the communicator stays with MPI messages and its note says
 * why; an error only when a transport was asked for by name. */
enum pdl_status comm_find_node(pdl_comm *c, const struct pdl_comm_options *opt,
                               bool crowded, struct pdl_err *err);
void comm_leave_node(pdl_comm *c);
/* How long messages go; what was asked for by name must be there. */
enum pdl_status comm_settle_reach(pdl_comm *c, struct pdl_err *err);
/* create.c: one without ranks beside it yet; NULL: no memory, or the options
 * make no sense (*st). */
pdl_comm *comm_begin(int rank, int size, const struct pdl_comm_options *opt,
                     enum pdl_status *st, struct pdl_err *err);
/* Memory that the processes of a node share: collective over it. NULL on all
 * of them, with a reason, when one has none. */
void *comm_shared_map(MPI_Comm node, int64_t bytes, char *why, size_t size);
void comm_shared_unmap(void *p, int64_t bytes);
/* A file of that name for it, with room reserved; -1 and a reason. */
int comm_shared_open(const char *name, int64_t bytes, char *why, size_t size);

/* Windows are known to all communicators made from one. */
struct comm_windows *comm_windows_create(void);
struct comm_windows *comm_windows_share(struct comm_windows *w);
void comm_windows_drop(struct comm_windows *w);
/* Where memory is for the ranks of c; a plain address when in no window. */
struct comm_place comm_place_of(const pdl_comm *c, const void *p,
                                int64_t bytes);
/* The other way, for a place in a window; NULL: not a window we know. */
char *comm_place_here(const pdl_comm *c, struct comm_place at);

enum { COMM_SCRATCH = 1 << 19 };
char *comm_scratch(pdl_comm *c); /* NULL: no memory */
/* Another process's memory. */
enum pdl_status comm_cma_read(pdl_comm *c, int seat, void *to, uint64_t from,
                              int64_t bytes, struct pdl_err *err);
enum pdl_status comm_cma_write(pdl_comm *c, int seat, uint64_t to,
                               const void *from, int64_t bytes,
                               struct pdl_err *err);
bool comm_cma_works(pdl_comm *c, int seat);

/* Copies past the cache (stream.c). */
void comm_stream_copy(void *restrict to, const void *restrict from, int64_t n);
/* The second of two ways? And what it took. */
bool comm_habit_choose(pdl_comm *c, enum comm_habits what, int64_t bytes);
void comm_habit_learn(pdl_comm *c, enum comm_habits what, int64_t bytes,
                      bool second, double seconds);

/* Puts n bytes that arrived where the message wants them. */
void comm_deliver(const struct comm_msg *m, int64_t offset, const void *from,
                  int64_t n);

/* ---- waiting ---------------------------------------------------------- */

/* How long somebody has waited since something moved; starts as zeros. */
struct comm_patience {
    int64_t turns;
    uint64_t moves;
    double since_s;
    uint32_t bell; /* as it was before the last look */
    bool listens;
    bool is_long; /* others compute for long: not worth looking again */
};
/* From so many bytes on, where ranks share processors: what they do with them
 * takes longer than to sleep and be woken. */
enum { COMM_LONG_BYTES = 2 << 20 };
/* One turn of waiting: PDL_ENOENV and a broken communicator after the
 * time-out, or when another rank broke it. */
enum pdl_status comm_wait_turn(pdl_comm *c, struct comm_patience *p,
                               const char *what, struct pdl_err *err);
/* Something changed for a rank of this node, or for all of them: whoever
 * sleeps gets up (bell.c). Nothing where ranks never sleep. */
void comm_ring(const pdl_comm *c, int seat);
void comm_ring_all(const pdl_comm *c);
/* This rank has come to a point where all ranks of the node meet. */
void comm_meet(const pdl_comm *c);
/* May a rank of c sleep until it is rung? And a turn of that: false: it slept
 * its time out. */
bool comm_may_sleep(const pdl_comm *c);
bool comm_listen(const pdl_comm *c, struct comm_patience *p);

/* ---- operations ------------------------------------------------------- */

/* What a collective was asked to do. */
struct comm_call {
    const char *collective;
    const void *in;
    void *out;
    int64_t count; /* elements of buffer 0 of the program */
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    int root;
};

struct pdl_comm_request {
    pdl_comm *comm;
    const char *what;
    bool unordered; /* does not wait for the operations before it */
    bool is_long;   /* COMM_LONG_BYTES or more */
    bool done;
    enum pdl_status status;
    struct pdl_err why;
    enum pdl_status (*advance)(pdl_comm_request *r, bool *done,
                               struct pdl_err *err);
    /* False: it must stay, somebody may still use its memory (unless it is
     * known that nobody does: force). */
    bool (*release)(pdl_comm_request *r, bool force);
    pdl_comm_request *next;
};

/* Puts it in the queue and lets it begin. Frees it when that fails. */
enum pdl_status comm_enqueue(pdl_comm_request *r, pdl_comm_request **out,
                             struct pdl_err *err);
/* Frees a list of abandoned ones. */
void comm_free_abandoned(pdl_comm_request *first);
/* Moves every operation that may move. */
void comm_advance_all(pdl_comm *c);

/* The thread that does so meanwhile (engine.c); the lock is nothing where
 * there is none. */
enum pdl_status comm_engine_start(pdl_comm *c, struct pdl_err *err);
void comm_engine_stop(pdl_comm *c);
void comm_engine_wake(pdl_comm *c);
void comm_lock(pdl_comm *c);
void comm_unlock(pdl_comm *c);

/* A request that runs a program of coll.h (program.c): the one of this name,
 * or (spec NULL) the communicator's own. */
enum pdl_status comm_program(pdl_comm *c, const struct comm_call *call,
                             const char *spec, pdl_comm_request **out,
                             struct pdl_err *err);
/* All ranks of one area at once (direct.c, direct_move.c): the programs flat
 * and ordered, and linear where nothing is added, their messages being reads
 * of each other's memory. */
bool comm_direct_fits(const pdl_comm *c, const struct comm_call *call,
                      const char *spec);
enum pdl_status comm_direct_run(pdl_comm *c, const struct comm_call *call,
                                const char *spec, struct pdl_err *err);
enum pdl_status comm_direct_start(pdl_comm *c, const struct comm_call *call,
                                  const char *spec, pdl_comm_request **out,
                                  struct pdl_err *err);
/* A table from text in memory; name is for messages. */
enum pdl_status comm_table_parse(pdl_arena *a, struct pdl_bytes bytes,
                                 const char *name, struct pdl_comm_table *out,
                                 struct pdl_err *err);
/* The algorithm a table names; NULL: none. What tells two tables apart. */
const char *comm_table_find(const struct pdl_comm_table *t,
                            const char *collective, int size, int64_t bytes);
uint64_t comm_table_mark(const struct pdl_comm_table *t);
/* The collectives, NULL after the last. */
extern const char *const comm_collectives[];
/* "ring", "allgather/bruck": the collective's name as coll.h keeps it, and the
 * algorithm in *spec; NULL: no such collective (select.c). */
const char *comm_algorithm_for(const char *asked, const char **spec);
/* Which algorithm to run; NULL: the communicator's program. */
const char *comm_select(const pdl_comm *c, const struct comm_call *call);

#endif
