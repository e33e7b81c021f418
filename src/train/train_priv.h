/* Shared inside the train room: one rank of a plan, prepared. */
#ifndef TRAIN_PRIV_H
#define TRAIN_PRIV_H

#include "train/backends/kernels.h"
#include "train/exec/device.h"
#include "paradl/train.h"

/* ---- array.c: parts of tensors in memory ------------------------------- */

/* Copies a region that both arrays hold. */
void train_copy(const struct train_array *to, void *dst,
                const struct train_array *from, const void *src,
                const struct pdl_box *region);
/* That copy as nested loops, adjacent ones joined where both sides allow it;
 * distances are elements. */
struct train_walk {
    int n;
    int64_t extent[PDL_BOX_DIMS], to[PDL_BOX_DIMS], from[PDL_BOX_DIMS];
    int64_t to_first, from_first;
};
void train_walk(struct train_walk *w, const struct train_array *to,
                const struct train_array *from, const struct pdl_box *region);
/* Is the region one run of bytes of the array? Its first byte. */
bool train_is_run(const struct train_array *a, const struct pdl_box *region,
                  int64_t *first);

void train_scale(enum pdl_dtype t, void *data, int64_t n, double by);
/* to = a + b, element by element; to may be one of them. */
void train_plus(enum pdl_dtype t, void *to, const void *a, const void *b,
                int64_t n);

/* ---- the program of one rank ------------------------------------------- */

enum train_action_kind {
    TRAIN_LOAD, /* inputs and labels of a micro-batch */
    TRAIN_OP,
    TRAIN_ACCUMULATE, /* a weight gradient joins those of earlier ones */
    TRAIN_WAIT,       /* until what forward sent has been received */
    TRAIN_START,      /* all gradients of a bucket are there: op exchanges it */
    TRAIN_MEASURE,    /* norms of all gradients, before the first update */
};

enum { TRAIN_UPDATE = -1 }; /* micro-batch of what is done once a step */

struct train_action {
    enum train_action_kind kind;
    int op;     /* TRAIN_ACCUMULATE: the tensor */
    int micro;  /* or TRAIN_UPDATE */
    bool first; /* TRAIN_ACCUMULATE: nothing is there yet */
};

/* A box that goes to or comes from a rank of the group. */
struct train_piece {
    int peer; /* in the group's communicator */
    struct train_array array;
    int64_t at, bytes; /* where in the buffer, or in the tensor itself */
    bool direct;
};

struct train_exchange {
    int nsends, nrecvs;
    struct train_piece *sends, *recvs;
    struct pdl_comm_message *out, *in; /* as the communicator takes them */
    struct pdl_box own;                /* what the rank has itself */
    int64_t send_bytes, spare, bytes;  /* of the buffer: sends, recvs, spare */
};

/* Of the one or three operations of a loss the one that makes the gradient:
 * y, label -> dy, or with the statistics of classes that are cut. */
static inline bool train_ends_loss(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node < 0 &&
           (o->nin == 2 || o->nin == 4);
}

/* An operation with what the backend and the loss add to its operands. */
struct train_op {
    bool mine;
    int nin, nout;
    int *in, *out; /* tensors: the plan's, then shadows */
    struct train_kernel *kernel;
    bool joined;        /* the kernel of an operation before it does its work */
    int64_t work_bytes; /* of the kernel, or of parts on their way */
    pdl_comm *group;
    enum pdl_comm_op reduce;   /* ALLREDUCE: sum, or the largest */
    int ngroup, me;            /* ranks of the group; this one among them */
    struct train_exchange *x;  /* of each output */
    int peer, tag;             /* SEND, RECV: a rank of the world */
    int source;                /* SEND, RECV: the tensor that is sent */
    bool forward;              /* SEND: an activation, not a gradient */
    bool again;                /* a forward operation made again in backward */
    bool counts;               /* the loss: this rank counts its items */
    struct train_taken *taken; /* its losses, on their way to the host */
    struct train_transfer **flying; /* SEND: by micro-batch */
    bool overlaps; /* ALLREDUCE of a bucket: begun in backward */
    bool bundled;  /* its gradients are neighbours on every rank */
    pdl_comm *behind;
    struct train_transfer **started;
    int nstarted, gradients; /* of a bucket: begun; there so far */
    int under_way;           /* of those begun */
    double begun_s;
    struct train_sparse *sparse; /* compressed; NULL: dense */
    struct train_route *route;   /* ALLTOALLV: tokens to experts and back */
    struct train_ring *ring;     /* ROTATE and its attention */
    bool begun;                  /* COPY_OUT of the update: in backward */
    bool slow;                   /* left to the reference kernels */
    double slow_s;               /* spent there so far */
};

/* What tests break on purpose: the result must be seen to be wrong. */
enum train_fault {
    TRAIN_FAULT_NONE,
    TRAIN_FAULT_SKIP_SUM,   /* an allreduce does nothing */
    TRAIN_FAULT_DROP_ROW,   /* a received halo loses its last item */
    TRAIN_FAULT_SWAP_RANKS, /* two ranks' pieces change places */
    TRAIN_FAULT_TURN_BACK,  /* an attention's blocks go the wrong way round */
    TRAIN_FAULT_DROP_BLOCK, /* it does not look at the second block */
    TRAIN_FAULT_KEEP_BLOCK, /* it goes on with the block it has */
    TRAIN_FAULT_DEAL,       /* a rank's runs of positions change places */
    TRAIN_FAULT_NO_EVENT,   /* copies do not wait for the work they follow */
    TRAIN_FAULT_EARLY_FREE, /* memory is freed while it is being sent */
    TRAIN_FAULT_HOST_READS, /* host code looks at a tensor of the device */
    TRAIN_FAULT_SWAP_FAR,   /* what comes from far memory is its neighbour */
};

/* Memory of the host between tensors of a device and the outside. */
struct train_room {
    void *at;
    int64_t bytes;
    uint64_t busy; /* the ticket of the copy that still needs it; 0: none */
    struct train_room *next;
};

/* Such memory that readers have for a while. */
struct train_place {
    struct train_room room;
    bool taken;
    struct train_place *next;
};

struct pdl_trainer {
    pdl_arena *arena;
    const struct pdl_plan *plan;
    pdl_comm *world;
    struct pdl_train_options opt;
    int64_t rank;
    int lane;
    int64_t micros;
    const struct train_backend *backend;
    void *backend_state;

    /* device.c, transfer.c; NULL: tensors are on the host */
    const struct train_device *device;
    enum pdl_status device_st; /* the first error, and what it said */
    struct pdl_err device_err;
    struct train_room view, *rooms; /* rooms: to be freed at the end */
    struct train_place *places;
    struct train_plain *plain;   /* locked.c */
    int64_t unlocked;            /* bytes that should have been locked so far */
    struct train_staged *staged; /* the samples of the next step */
    struct train_room *fed;      /* loaded tensors, by tensor and micro-batch */
    struct train_transfer *transfers, *waiting; /* free; not yet begun */

    /* The plan's tensors, then shadows: what a backend leaves for backward
     * (positions of maxima, statistics), the losses of single items. */
    int ntensors, capacity;
    struct train_array *arrays; /* this rank's part */
    struct train_op *ops;       /* of each plan operation */
    int nsteps;
    struct train_action *steps;
    struct train_stretch *stretches; /* of them, the same in every step */
    int nstretches;
    int64_t passes; /* over the program, to train */

    /* memory.c: instances are tensors x (micro-batches + 1); the last is the
     * sum of a weight gradient over micro-batches */
    bool *kept;      /* tensor: made in backward, read by the update */
    int *alias;      /* tensor: lives in the memory of this one, -1: own */
    int64_t *offset; /* of each instance */
    bool *handed;    /* tensor: its memory goes on under another name */
    bool *sent;      /* tensor: in use after the plan has freed it */
    bool *loads;     /* tensor: an input or label that this rank reads */
    bool *turning;   /* tensor: blocks of a ring, as many as the plan says */
    bool has_rings;
    struct train_far *far; /* what waits elsewhere; NULL: nothing */
    char *memory, *scratch;
    int64_t guest; /* where in it another's may be */
    struct pdl_train_memory sizes;

    struct train_groups {
        uint32_t factors;
        const char *algorithm; /* of its allreduces; NULL: auto */
        pdl_comm *comm;
    } * groups;
    int ngroups;

    /* optimizer */
    struct train_tuner *tuner;
    /* loss of each sample of the batch, and whether it was right */
    double *losses;
    uint64_t losses_there; /* ticket: the device has sent what it knows */
    const double *weights; /* of the batch's samples; NULL: all 1 */
    int64_t positions;     /* of one sample, over all outputs */
    struct train_loss loss;

    struct train_transfer **pending; /* sends and buckets under way */
    int npending, most_pending;
    struct train_sparse *sparse; /* sparse sums under way, in their order */

    const struct pdl_naming *naming; /* of the weights it loaded */
    struct pdl_train_state *states;
    void **state_at; /* of each: on the device; NULL: the host has it */
    int nstates;
    bool vote_stop, vote_save, vote_failed;
    bool hunting;
    bool skips; /* this step changes no weight: a gradient is not finite */
    double limit, grad_norm;
    double bad; /* micro-batch and operation of the first bad number */

    struct train_times { /* marks.c: operations of this step, on a device */
        struct train_time_of {
            int op;
            int64_t micro, from, to; /* marks; to < 0: not yet */
        } * of;
        int64_t n, room, marks, from;
        double base_s;
        bool off, updates; /* updates: the last ones, not ended yet */
    } times;

    enum train_fault fault;
    int fault_op;
    int64_t now; /* the step */
};

/* device.c: what the executor does to bytes of tensors. Errors stay with the
 * trainer until the host waits. */
void train_move(pdl_trainer *t, void *to, const void *from, int64_t bytes);
void train_fill(pdl_trainer *t, void *to, int byte, int64_t bytes);
void train_copy_part(pdl_trainer *t, const struct train_array *to, void *dst,
                     const struct train_array *from, const void *src,
                     const struct pdl_box *region);
void train_sum(pdl_trainer *t, enum pdl_dtype dtype, void *to, const void *from,
               int64_t n);
void train_sum_of(pdl_trainer *t, enum pdl_dtype dtype, void *to, const void *a,
                  const void *b, int64_t n);
/* bfloat16 to float32, and back. */
void train_widen(pdl_trainer *t, const void *from, void *to, int64_t n);
void train_narrow(pdl_trainer *t, const void *from, void *to, int64_t n);
void train_launch(pdl_trainer *t, const struct train_task *task);
/* Waits for all that the device has been given. */
enum pdl_status train_settled(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_take_memory(pdl_trainer *t, int64_t bytes, void **out,
                                  struct pdl_err *err); /* zeros */
/* So much more of the computing memory; more than the limit is an error. */
enum pdl_status train_take(pdl_trainer *t, int64_t bytes, struct pdl_err *err);
void train_give_memory(pdl_trainer *t, void *p);
/* To the device and back; they wait. The second of them does not: the bytes
 * are there after train_settled. */
void train_put(pdl_trainer *t, void *to, const void *from, int64_t bytes);
void train_get(pdl_trainer *t, void *to, const void *from, int64_t bytes);
void train_get_later(pdl_trainer *t, void *to, const void *from, int64_t bytes);
/* The bytes where the host can read them, until the next call; NULL: no
 * memory. */
void *train_view(pdl_trainer *t, void *at, int64_t bytes);
/* locked.c: memory of the host for copies; NULL: there is none. How much of it
 * could not be locked. */
void *train_take_host(pdl_trainer *t, int64_t bytes);
void train_give_host(pdl_trainer *t, void *at);
int64_t train_unlocked(const pdl_trainer *t);
bool train_grow(pdl_trainer *t, struct train_room *r, int64_t bytes);
void train_empty(pdl_trainer *t, struct train_room *r);
/* The room, as soon as nobody needs what is in it; and on to the device. */
enum pdl_status train_room_wait(pdl_trainer *t, struct train_room *r,
                                int64_t bytes, struct pdl_err *err);
/* Places of readers: ctx is the trainer. */
void *train_place(void *ctx, size_t bytes);
void train_place_back(void *ctx, void *at);
void train_room_send(pdl_trainer *t, struct train_room *r, void *to,
                     int64_t bytes);
void train_close_rooms(pdl_trainer *t);
/* Operators that the host runs for the device; NULL: none. */
const char *train_on_host(const pdl_trainer *t);

/* exec.c: what this rank has of a tensor. */
struct pdl_train_part train_part_of(const pdl_trainer *t, int tensor,
                                    int micro);
/* marks.c: how long operations take, in a step in which somebody asks; tell:
 * those that a device did in this one. */
bool train_is_timed(const pdl_trainer *t);
double train_time_begin(pdl_trainer *t, int op);
void train_time_end(pdl_trainer *t, int op, int64_t micro, double start);
enum pdl_status train_times_tell(pdl_trainer *t, struct pdl_err *err);
void train_times_close(pdl_trainer *t);
/* load.c: inputs and labels of a micro-batch. first: of its samples, in the
 * batch; staged: the micro-batch of those that may be on the device already. */
struct train_loading {
    const struct pdl_train_feed *feed;
    int micro;
    int64_t first, staged;
};
enum pdl_status train_load(pdl_trainer *t, const struct train_loading *l,
                           struct pdl_err *err);
/* staging.c: samples of the next step go to the device during this one.
 * train_staged_take: those of this step, if they were staged. */
enum pdl_status train_stage(pdl_trainer *t, const struct pdl_train_feed *feed,
                            struct pdl_err *err);
enum pdl_status train_staged_take(pdl_trainer *t, int tensor, int64_t micro,
                                  void *to, bool *taken, struct pdl_err *err);
/* A step begins; other samples of a feed come next. */
void train_staged_turn(pdl_trainer *t, const struct pdl_train_feed *feed);
void train_staged_forget(pdl_trainer *t, const void *whose);
void train_staged_close(pdl_trainer *t);

/* transfer.c: messages between tensors */
struct train_messages {
    int nsends, nrecvs;
    const struct pdl_comm_message *sends, *recvs;
};
struct train_run;
enum pdl_status train_start_exchange(pdl_trainer *t, pdl_comm *comm,
                                     const struct train_messages *m,
                                     struct train_transfer **out,
                                     struct pdl_err *err);
enum pdl_status train_start_sum(pdl_trainer *t, pdl_comm *comm,
                                const struct train_run *r, enum pdl_comm_op op,
                                struct train_transfer **out,
                                struct pdl_err *err);
enum pdl_status train_transfer_test(pdl_trainer *t, struct train_transfer *x,
                                    bool *done, struct pdl_err *err);
enum pdl_status train_transfer_wait(pdl_trainer *t, struct train_transfer *x,
                                    struct pdl_err *err);
/* Those whose bytes have reached the host begin; all begin, before a wait. */
enum pdl_status train_transfer_push(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_transfer_flush(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_exchange_now(pdl_trainer *t, pdl_comm *comm,
                                   const struct train_messages *m,
                                   struct pdl_err *err);
enum pdl_status train_sum_now(pdl_trainer *t, pdl_comm *comm,
                              const struct train_run *r, enum pdl_comm_op op,
                              struct pdl_err *err);

enum pdl_status train_open(const struct pdl_plan *plan, pdl_comm *comm,
                           const struct pdl_train_options *opt,
                           enum train_fault fault, int fault_op,
                           pdl_trainer **out, struct pdl_err *err);

/* program.c */
enum pdl_status train_program(pdl_trainer *t, struct pdl_err *err);
/* The stages of this rank: the first after -1, then the next; -1: no more. */
int train_next_stage(const pdl_trainer *t, int stage);
bool train_has_stage(const pdl_trainer *t, int stage);
bool train_is_state(const pdl_trainer *t, int tensor);
bool train_is_loaded(const struct pdl_plan_tensor *t);
/* stretch.c: work that a device keeps. A stretch that begins with this step of
 * the program and is to be held or done again; NULL: none. */
struct train_stretch;
enum pdl_status train_find_stretches(pdl_trainer *t, struct pdl_err *err);
struct train_stretch *train_stretch_at(pdl_trainer *t, int step);
int train_stretch_end(const struct train_stretch *s);
bool train_stretch_is_held(const struct train_stretch *s);
/* From now on the device keeps what it is given; the end of that: whole, if
 * nothing went wrong. */
bool train_stretch_hold(pdl_trainer *t, const struct train_stretch *s);
void train_stretch_held(pdl_trainer *t, struct train_stretch *s, bool whole);
/* False: the device has nothing of it. */
bool train_stretch_again(pdl_trainer *t, struct train_stretch *s,
                         enum pdl_status *st, struct pdl_err *err);
/* shadows.c */
enum pdl_status train_shadows(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_make_kernel(pdl_trainer *t, int op, struct pdl_err *err);
/* The call of an operation, in memory of the trainer's. */
enum pdl_status train_make_call(pdl_trainer *t, int op, struct train_call *c,
                                struct pdl_err *err);
/* groups.c: operations that are run as one kernel */
enum pdl_status train_join(pdl_trainer *t, struct pdl_err *err);
/* memory.c */
enum pdl_status train_plan_memory(pdl_trainer *t, struct pdl_err *err);
void *train_data(const pdl_trainer *t, int tensor, int micro);
int64_t train_offset(const pdl_trainer *t, int tensor, int micro);
/* Where the operation works, or packs what it sends. */
void *train_work(const pdl_trainer *t, int op, int micro);
void train_release(pdl_trainer *t, int tensor, int micro);
/* far.c: what waits on the host */
static inline bool train_is_copy(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COPY_OUT || o->kind == PDL_PLAN_OP_COPY_IN;
}
bool train_is_far(const pdl_trainer *t, int tensor);
enum pdl_status train_far_find(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_far_open(pdl_trainer *t, struct pdl_err *err);
void train_far_close(pdl_trainer *t);
char *train_far_memory(const pdl_trainer *t);
enum pdl_status train_far_copy(pdl_trainer *t, int op, int micro,
                               struct pdl_err *err);
/* A copy out of the update begins while backward goes on. */
enum pdl_status train_far_begin(pdl_trainer *t, int op, struct pdl_err *err);
/* The host waits until what was copied to it is there. */
enum pdl_status train_far_arrived(pdl_trainer *t, int tensor,
                                  struct pdl_err *err);
/* Until a copy out is done (freed: its source is to be another's), or what came
 * in is there. */
enum pdl_status train_far_wait(pdl_trainer *t, int tensor, int micro,
                               bool freed, struct pdl_err *err);
/* exchange.c */
enum pdl_status train_prepare_comm(pdl_trainer *t, int op, struct pdl_err *err);
enum pdl_status train_run_comm(pdl_trainer *t, int op, int micro,
                               struct pdl_err *err);
/* route.c: tokens to the experts they visit */
enum pdl_status train_prepare_route(pdl_trainer *t, int op, const int64_t *rank,
                                    struct pdl_err *err);
enum pdl_status train_run_route(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err);
/* The scores by which op moves tokens; -1: they come later. */
int train_route_scores(const struct pdl_plan *p, int op);
/* ring.c: keys go round, ring_attention.c: attention to each block */
enum pdl_status train_rings(pdl_trainer *t, struct pdl_err *err);
bool train_turns(const pdl_trainer *t, int tensor);
enum pdl_status train_rotate(pdl_trainer *t, int op, int micro,
                             struct pdl_err *err);
enum pdl_status train_ring_kernels(pdl_trainer *t, int op,
                                   const struct train_call *c,
                                   struct pdl_err *err);
enum pdl_status train_in_order(pdl_trainer *t, const struct train_call *c,
                               struct train_kernel **out, struct pdl_err *err);
enum pdl_status train_ring_run(pdl_trainer *t, int op, int micro,
                               const struct train_moment *when,
                               struct pdl_err *err);
/* stages.c: from one stage of a pipeline to another */
enum pdl_status train_prepare_p2p(pdl_trainer *t, int op, struct pdl_err *err);
enum pdl_status train_send(pdl_trainer *t, int op, int micro,
                           struct pdl_err *err);
enum pdl_status train_receive(pdl_trainer *t, int op, int micro,
                              struct pdl_err *err);
/* buckets.c: sums over ranks */
enum pdl_status train_allreduce(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err);
/* The next of an allreduce's tensors, with those that lie right behind it in
 * memory on every rank: they go together. (What is so by chance on this one
 * may not be on another, whose parts have other sizes.) */
struct train_run {
    char *from, *to;
    int64_t bytes;
    enum pdl_dtype dtype;
};
bool train_next_run(const pdl_trainer *t, int op, int micro, int *k,
                    struct train_run *r);
/* sparse.c: the largest of a bucket's gradients, and error feedback */
enum pdl_status train_sparse_open(pdl_trainer *t, struct pdl_err *err);
void train_sparse_close(pdl_trainer *t);
void train_sparse_forget(pdl_trainer *t); /* what is kept */
enum pdl_status train_sparse_begin(pdl_trainer *t, int op, int micro,
                                   struct pdl_err *err);
enum pdl_status train_sparse_push(pdl_trainer *t, struct pdl_err *err);
enum pdl_status train_sparse_finish(pdl_trainer *t, struct pdl_err *err);
/* Begun or not: the gradients become the sum. */
enum pdl_status train_sparse_run(pdl_trainer *t, int op, int micro,
                                 struct pdl_err *err);
/* What this rank keeps of a weight's gradient, and its place in the group;
 * NULL: nothing. */
void *train_sparse_kept(const pdl_trainer *t, int weight, int64_t *place,
                        int64_t *places);
int64_t train_sparse_place(const pdl_trainer *t, int weight, int64_t rank);
/* Buckets of gradients, begun while backward goes on. */
enum pdl_status train_start_bucket(pdl_trainer *t, int op, struct pdl_err *err);
enum pdl_status train_wait_buckets(pdl_trainer *t, struct pdl_err *err);
/* What is under way, and a push for all of it. */
void train_pend(pdl_trainer *t, struct train_transfer *r);
bool train_unpend(pdl_trainer *t, const struct train_transfer *r); /* was it? */
enum pdl_status train_poll(pdl_trainer *t, struct pdl_err *err);
/* Waits for sends: of the forward pass of one micro-batch, or all (-1). */
enum pdl_status train_wait_sends(pdl_trainer *t, int micro,
                                 struct pdl_err *err);
void train_close_groups(pdl_trainer *t);
enum pdl_status train_group(pdl_trainer *t, uint32_t factors,
                            const char *algorithm, pdl_comm **out,
                            struct pdl_err *err);
/* ... one of its own for what turns while a kernel runs. */
enum pdl_status train_group_turning(pdl_trainer *t, uint32_t factors,
                                    pdl_comm **out, struct pdl_err *err);
enum pdl_comm_type train_comm_type(enum pdl_dtype t);
/* init.c */
enum pdl_status train_init_weight(pdl_trainer *t, int tensor,
                                  enum pdl_dtype dtype, void *data,
                                  struct pdl_err *err);
/* loss.c */
enum pdl_status train_losses_open(pdl_trainer *t, struct pdl_err *err);
void train_losses_clear(pdl_trainer *t);
enum pdl_status train_losses_take(pdl_trainer *t, int op, int micro, int slot,
                                  struct pdl_err *err);
/* Gradients of the loss times the weights of their samples. */
void train_losses_weigh(pdl_trainer *t, int op, int micro, int slot);
enum pdl_status train_losses_sum(pdl_trainer *t, int64_t samples,
                                 struct pdl_train_result *out,
                                 struct pdl_err *err);
/* hunt.c: names the first operation whose result is not finite */
void train_hunt(pdl_trainer *t, int op, int micro);
enum pdl_status train_hunt_end(pdl_trainer *t, double loss,
                               struct pdl_err *err);
/* state.c */
enum pdl_status train_state_open(pdl_trainer *t, struct pdl_err *err);
void train_state_close(pdl_trainer *t);
/* What the host has of the state becomes the device's. */
enum pdl_status train_state_send(pdl_trainer *t, struct pdl_err *err);
/* The lowest rank that holds this very box speaks for it. */
bool train_owns(const struct pdl_plan *p, int tensor, int64_t rank);
bool train_is_owner(const pdl_trainer *t, int tensor);
/* Groups of ranks with statistics of their own in a batch norm; else 1. */
int64_t train_norm_groups(const struct pdl_plan *p, int node);
int64_t train_norm_groups_here(const struct pdl_plan *p, int node); /* a rank */
/* weights.c: whole tensors, to a file by rank 0; collective */
enum pdl_status train_write_weights(pdl_trainer *t, const char *path,
                                    const char *style, struct pdl_err *err);
/* ahead.c: the batches to come, by a thread */
struct train_ahead {
    pdl_loader *loader;     /* NULL: everything is read when needed */
    struct pdl_batch batch; /* of this step */
    bool has[2];            /* inputs, labels */
    struct train_array part[2];
    int64_t samples, each; /* of a micro-batch: this rank's, all */
    int bytes[2];          /* of a number, as the loader gives it */
    int64_t left;          /* batches that it has not given */
    bool complete;         /* nothing is read but by it */
    bool lasting;          /* batches lie where a device copies from */
    bool advanced;         /* batch is that of the next step already */
};
/* masking.c: tokens to be told */
struct train_masking {
    int64_t count; /* of a sample's positions; 0: no masking */
    int64_t positions, token, vocabulary;
    uint64_t seed;
    int64_t epoch; /* where there is no sampler that says it */
    void *draws;   /* room of one sample */
};
/* feed.c: samples of a data set */
struct train_samples {
    const pdl_io *io;
    int split;
    const pdl_sampler *sampler; /* which sample is where; NULL: */
    const int64_t *list;        /* these; NULL: in the order of the files */
    int64_t first;              /* position of the batch's first sample */
    int64_t end; /* positions from here on repeat sample 0: not counted */
    const struct pdl_augment *augment;
    const struct pdl_model *model;
    int64_t *ids;   /* of the part that is being read */
    int64_t *batch; /* of this step's whole batch, where the reader said it */
    bool known;
    void *wide; /* room for a part before it is converted */
    int64_t wide_bytes;
    bool numbers;   /* targets are numbers to meet, not classes */
    int threads;    /* that read for a device */
    double seconds; /* that the step waited for samples */
    struct train_ahead ahead;
    struct train_masking mask;
};
/* Decides whether tokens are masked; token: the mask's, 0: the last one. */
enum pdl_status train_mask_open(const struct pdl_dataset *d,
                                const struct pdl_model *m, int64_t token,
                                struct train_masking *out, struct pdl_err *err);
size_t train_mask_bytes(const struct train_masking *m); /* of draws */
/* Sample i of this step's batch. */
int64_t train_sample_of(const struct train_samples *s, int64_t i);
/* Samples that were just read become what the model sees, or labels. */
void train_mask(const struct train_samples *s,
                const struct pdl_train_part *part, bool label);
/* Classes of all samples of the split; left alone where they have none. */
enum pdl_status train_labels(const struct train_samples *s, pdl_arena *a,
                             const int32_t **out, struct pdl_err *err);
/* epochs.c: which samples, batch by batch, and what was seen of them */
enum { TRAIN_EPOCHS_SHARDS = 10 }; /* at most */
struct train_epochs {
    pdl_sampler *sampler;
    int64_t full;  /* batches of an epoch that hides nothing */
    int64_t index; /* of the next batch in its epoch */
    double *weights;
    const int32_t *labels;
};
enum pdl_status train_epochs_open(struct train_epochs *e,
                                  const struct pdl_train_job *job,
                                  struct train_samples *s, pdl_arena *a,
                                  struct pdl_err *err);
void train_epochs_close(struct train_epochs *e);
int64_t train_epochs_left(const struct train_epochs *e); /* batches */
int64_t train_epochs_progress(const struct train_epochs *e);
/* Before and after a step. */
void train_epochs_weigh(struct train_epochs *e, pdl_trainer *t,
                        const struct train_samples *s);
void train_epochs_step(struct train_epochs *e, const pdl_trainer *t,
                       const struct train_samples *s);
/* After the last step of an epoch; then the next one. */
enum pdl_status train_epochs_refresh(struct train_epochs *e, pdl_trainer *t,
                                     struct train_samples *s,
                                     struct pdl_err *err);
void train_epochs_next(struct train_epochs *e);
/* Leaves out n batches. */
enum pdl_status train_epochs_skip(struct train_epochs *e, int64_t n,
                                  struct pdl_err *err);
void train_epochs_where(const struct train_epochs *e, int64_t *epoch,
                        int64_t *index);
/* What a checkpoint keeps; without a name past the end. */
struct pdl_shard train_epochs_shard(const struct train_epochs *e, int i);
enum pdl_status train_epochs_resume(struct train_epochs *e, const pdl_ckpt *c,
                                    struct pdl_err *err);
/* The box of one sample: without N, of class numbers also without classes. */
struct pdl_box train_sample_box(const struct pdl_box *part, bool label);
/* ... of the targets, where they lie in the sample. */
struct pdl_box train_target_box(const struct train_samples *s,
                                const struct pdl_box *part);
int train_inputs(const struct pdl_model *m); /* how many it has */
/* Where input `tensor` begins in a sample of several. */
int64_t train_begins_at(const struct pdl_model *m, int tensor);
/* Are the n targets of the model the last ones of a sample's? */
bool train_is_tail(const struct pdl_dataset *d, const struct pdl_model *m,
                   int64_t n);
/* Whose values no file holds: they are 0. */
bool train_is_constant(const struct pdl_plan *p, int tensor);
/* Steps [first, last) will be asked for in turn. */
enum pdl_status train_ahead_open(struct train_samples *s, pdl_trainer *t,
                                 int64_t first, int64_t last,
                                 struct pdl_err *err);
enum pdl_status train_ahead_next(struct train_samples *s, struct pdl_err *err);
/* Samples [first, first + n) of the batch, if they were read ahead. */
const void *train_ahead_find(const struct train_samples *s, int64_t first,
                             const struct pdl_train_part *part, bool label);
void train_ahead_close(struct train_samples *s);
/* Numbers that a graph has beside its data stay in its file. */
enum pdl_status train_constants_check(const struct pdl_model *m,
                                      struct pdl_err *err);
/* One evaluation of n samples: of the list, or of the split's first; batch by
 * batch, of which the last is filled up. Then train_ahead_close. */
enum pdl_status train_pass_begin(struct train_samples *s, pdl_trainer *t,
                                 int64_t n, struct pdl_err *err);
enum pdl_status train_pass_batch(struct train_samples *s, pdl_trainer *t,
                                 int64_t at, struct pdl_train_result *out,
                                 struct pdl_err *err);
enum pdl_status train_samples_check(const struct pdl_dataset *d,
                                    const struct pdl_plan *p, bool numbers,
                                    struct pdl_err *err);
/* Of pdl_train_feed: train_samples are the context. */
bool train_ahead_advance(void *ctx);
const void *train_ahead_at(void *ctx, int64_t first, int model_tensor,
                           const struct pdl_train_part *part);
enum pdl_status train_samples_fill(void *ctx, int64_t first, int model_tensor,
                                   const struct pdl_train_part *part,
                                   struct pdl_err *err);
/* outputs.c: what the model said in the last step */
struct train_outputs {
    const struct pdl_plan *plan;
    int tensor;
    int64_t count;
    double *whole;
    bool on;
};
enum pdl_status train_outputs_open(struct train_outputs *o,
                                   const struct pdl_plan *p,
                                   struct pdl_err *err);
void train_outputs_watch(void *ctx, const struct pdl_train_seen *seen);
enum pdl_status train_outputs_write(struct train_outputs *o, pdl_comm *comm,
                                    const char *path, struct pdl_err *err);
void train_outputs_close(struct train_outputs *o);
/* slow.c: what a fast backend leaves to the reference */
bool train_is_slow(const pdl_trainer *t, const struct train_call *c,
                   const struct train_kernel *k);
void train_slow_reset(pdl_trainer *t);

/* timing.c: what operations took */
struct train_clock {
    const struct pdl_plan *plan;
    struct pdl_train_event *events; /* of the last step */
    int64_t nevents, most, steps;
    double *seconds; /* of each operation, in the fastest step so far */
    double base_s, fastest_s;
    bool own_times; /* a step takes what its operations do */
    double *paces;  /* of the last steps in which nobody looked at them */
    int64_t npaces;
};
enum pdl_status train_clock_open(struct train_clock *c, pdl_arena *a,
                                 const struct pdl_plan *p, struct pdl_err *err);
void train_clock_step(struct train_clock *c); /* a step begins */
/* A step that went by itself took so long; the middle one of the later half. */
void train_clock_pace(struct train_clock *c, double seconds);
double train_clock_median(const struct train_clock *c);
void train_clock_timed(void *ctx, int op, int64_t micro, double start_s,
                       double end_s);
enum pdl_status train_clock_report(struct train_clock *c,
                                   const struct pdl_train_job *job,
                                   pdl_comm *comm, struct pdl_err *err);
/* tune.c: the optimizer on this rank's weights. Choose before the program is
 * written: some want to see all gradients before the first update. */
enum pdl_status train_tuner_choose(pdl_trainer *t, struct pdl_err *err);
bool train_tuner_measures(const pdl_trainer *t);
/* Does it make the first values of this weight? */
bool train_tuner_draws(const pdl_trainer *t, int tensor);
enum pdl_status train_tuner_open(pdl_trainer *t, struct pdl_err *err);
/* What it will take, of the computing memory or of the far one. */
int64_t train_tuner_bytes(const pdl_trainer *t, bool far);
/* Updates a shard of the host's memory, which is no weight's. */
struct train_shard;
void train_tuner_try(pdl_trainer *t, const struct train_shard *s);
int train_tuner_states(const pdl_trainer *t);
enum pdl_status train_tuner_measure(pdl_trainer *t, double lr,
                                    struct pdl_err *err);
enum pdl_status train_tuner_update(pdl_trainer *t, int op, double lr,
                                   struct pdl_err *err);
void train_tuner_close(pdl_trainer *t);
void train_tuner_scale(const pdl_trainer *t, double *scale, double *good);
void train_tuner_set_scale(pdl_trainer *t, double scale, double good);
/* The k-th array the optimizer keeps for a weight; NULL: none. */
int train_tuner_states(const pdl_trainer *t);
void *train_tuner_state(const pdl_trainer *t, int tensor, int k,
                        enum pdl_dtype *dtype);

/* compare.c: pdl_train_compare, with a fault in one operation of b: what the
 * comparison is itself tested with. */
enum pdl_status train_compare_broken(const struct pdl_train_comparison *c,
                                     enum train_fault fault, int op,
                                     struct pdl_train_diff *out,
                                     struct pdl_err *err);

#endif
