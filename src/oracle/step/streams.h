/* The streams of a PE (streams.c): computation with the collectives it waits
 * for, gradient exchange and weights that travel, copies to and from the host,
 * and what the host updates.
 * Programs for them come from plans (program.c). */
#ifndef ORACLE_STREAMS_H
#define ORACLE_STREAMS_H

#include "oracle/oracle_priv.h"

enum phase { FORWARD, BACKWARD, UPDATE };

enum stream { ON_COMPUTE, ON_NETWORK, ON_OUT, ON_IN, ON_HOST, STREAMS };

/* ---- programs --------------------------------------------------------- */

/* A gradient that an operation of backward makes and the update reads: where
 * the time is kept, and how much further each time that its part is run. */
struct stream_made {
    int slot, stride;
};

/* An operation of forward or backward. It waits for the last one of a stream
 * (1), the one before (2), ...; 0: for none. Gradients that are scattered wait
 * for whoever made them. */
struct stream_op {
    int price; /* number of its price; in a whole plan, of the operation */
    int back[STREAMS];
    enum stream on;
    bool gathers; /* weights, one block ahead */
    bool stops;   /* copies that began ahead of their task end here */
    bool comm;
    int nmade, nreads, level;
    const struct stream_made *made, *reads;
    /* packing: computed before a collective, lacked beside a copy */
    double seconds, packing;
};
static inline bool oracle_op_waits(const struct stream_op *x)
{
    return x->back[ON_NETWORK] + x->back[ON_OUT] + x->back[ON_IN] > 0;
}
struct stream_list {
    int n;
    const struct stream_op *op;
};

/* Forward and backward of a stage in parts. They come as often as is said, or
 * (times 0) once but for one of each pass, which comes as often as the stage
 * has blocks like it: the last but one in forward, the second in backward. */
enum { STAGE_PARTS = 4 };
enum pass { PASS_FORWARD, PASS_BACKWARD, PASS_LATE, PASSES };
struct stage_passes {
    /* by enum pass; late: gradients of weights, if apart */
    int parts[PASSES];
    struct stream_list list[PASSES][STAGE_PARTS];
    int64_t times[PASSES][STAGE_PARTS];
    int item[PASSES][STAGE_PARTS], items[PASSES][STAGE_PARTS]; /* of the plan */
    bool copies, split;
    bool traffic; /* weights travel */
    int back;     /* the farthest that is looked back */
};
/* How often part i of a pass comes in a stage of so many blocks. */
static inline int64_t oracle_part_times(const struct stage_passes *s,
                                        enum pass pass, int i, int64_t blocks)
{
    int n = s->parts[pass], many = pass == PASS_FORWARD ? n - 2 : 1;

    if (s->times[pass][i] > 0)
        return s->times[pass][i];
    return n > 1 && i == many ? blocks - (n - 1) : 1;
}

/* An operation of gradient exchange and update. */
struct stream_step {
    int price;
    enum stream on;
    bool gradients;     /* what it exchanges is made by backward */
    int after[STREAMS]; /* latest steps of each stream that it needs; -1 */
    /* slots of the gradients that backward made last, of those that it reads:
     * computed, and brought by the network; -1: none */
    int computed, brought;
};

/* What it costs, in its pass, on the slowest rank. */
struct stream_price {
    double seconds; /* on its stream */
    double coding;  /* of these: the PE computes, which delays backward */
    double compute, comm, recompute, layer_comm, layer_between, halo, p2p;
    double contention;
    int level, calls;
    bool is_comm;
};
struct stage_update {
    int n;
    const struct stream_step *steps;
    const struct stream_price *price;
    bool optimizer; /* on the host */
    double update, gradient_comm, contention;
    double all; /* seconds of all steps, one after another */
};

/* ---- running them ----------------------------------------------------- */

/* An exchange starts when its gradients are made (or, without overlap, when
 * backward is over) and the exchange before it is done. */
enum { ORACLE_SCATTERS = 8 };
struct streams {
    double compute, network;
    double network_from; /* start of what the network did last */
    int network_level;   /* that it crossed */
    bool exchange;       /* it was gradients, once a step */
    double prefetch;     /* compute was here when weights were last gathered */
    /* what went on the network since: when the first began, and when the
     * network was free before */
    int nscatters;
    double scatter_start, before_scatter;
    bool overlap;
    bool shares;   /* collectives share the adapters of a node */
    double held;   /* part of a PE that a hidden collective holds */
    double slowed; /* backward by the exchange of gradients */
    bool alone;    /* which slows nothing */
    /* copies between the PE and its host: one stream each way */
    double out, in, out_busy, in_busy;
    double host; /* updates there */
    double late; /* what compute waited for them so far */
    bool ahead;  /* copies in began while the task before ran */
};

/* Gradients went on the network, which was free before. */
void oracle_scattered(struct streams *c, double start, double before);
/* Do weights that are gathered now go in front of them? Then it is said when,
 * and how much later those are. */
bool oracle_gathers_ahead(struct streams *c, double ready, double seconds,
                          double *start, double *later);

/* A stage of so many blocks on the streams of one PE. */
struct stage_run {
    const struct stage_passes *passes;
    const struct stage_update *update;
    int64_t blocks;
    bool overlap, shares;
    bool flying; /* several micro-batches are in flight */
    bool alone;  /* the exchange slows nothing */
    double held;
    double *end;  /* [steps] of the update */
    double *made; /* [slots], of gradients */
    int64_t slots;
    double *back; /* ends that are looked back at: oracle_run_back doubles */
    struct oracle_record
        *record; /* by number of the price; NULL: nobody asks */
};
/* Passes take so long: forward, and backward alone, the gradients of weights
 * of it; of these, waiting for copies. */
struct stage_ran {
    double forward, forward_copy, backward, backward_copy, weights;
};

int64_t oracle_run_back(const struct stage_passes *p);
/* Forward and backward alone. */
void oracle_run_passes(const struct stage_run *x, struct stage_ran *out);
/* All of it. Returned: what exchange shows of the step, and what the
 * optimizer's copies do (copy); end: how backward ended, its gradients in
 * x->made. */
double oracle_run_stage(const struct stage_run *x, struct stage_ran *out,
                        struct streams *end, double *copy);
/* The same where passes take what they take whatever is exchanged (neither
 * copies nor weights travel, or they were run before). */
double oracle_run_beside(const struct stage_run *x,
                         const struct stage_ran *alone, double *copy);
/* The same with another update, where no update is exchanged beside backward:
 * both end as they did. */
double oracle_run_update(const struct stage_run *x, const struct stage_ran *ran,
                         const struct streams *end, double *copy);
/* The same where nothing overlaps: the update after a stage. */
double oracle_run_apart(const struct stage_update *u, double *end,
                        double *copy);

/* ---- seconds ---------------------------------------------------------- */

/* Seconds of one stage for one micro-batch, and once a step. */
enum { STAGE_TIMES = 19 };
struct stage_time {
    union {
        struct {
            double forward, backward, update;
            double recompute; /* of backward: forward operations once more */
            double layer_comm, halo, p2p, gradient_comm;
            double layer_between; /* of layer_comm: leaves nodes */
            /* inside forward and backward; of these, to other stages */
            double forward_comm, backward_comm, forward_send, backward_send;
            double exposed_gradients; /* exchange that backward does not hide */
            double weights; /* of backward, with what it waits: its second
                               task */
            /* waiting for copies to and from the host (offload) */
            double forward_copy, backward_copy, update_copy;
            double calls; /* of the host for kernels, in ORACLE_CALL ths, not
                             counting collectives, which are one call */
        };
        double each[STAGE_TIMES];
    };
};
_Static_assert(sizeof(struct stage_time) == STAGE_TIMES * sizeof(double),
               "each time has a name");

/* ---- program.c -------------------------------------------------------- */

/* Writes the programs of one stage of a plan. Gradients are kept apart by the
 * tensors of the plan, of all its rounds; or, where parts stand for blocks of
 * any number, by those of the model's block (slots of the first row are outside
 * blocks). */
struct program {
    const struct oracle *o;
    pdl_arena *keep, *scratch;
    int stage;
    const int *price[3]; /* by phase: of each operation the number of its price;
                            NULL: its own */
    /* of each tensor of the model: which of a block's it is, and the round of
     * its block, -1: outside; NULL: gradients are tensors of the plan */
    const int *tensor, *round;
    int row;         /* slots of a block: of its tensors, and of those as they
                        are before they are scattered */
    int first_round; /* of the stage, as written */
    bool repeats;    /* parts come several times */
    bool all;        /* what neither runs nor waits is listed too */
    /* while it is written: of each tensor of all rounds where in backward it
     * is made, by which operation, and where its time is kept; of each that is
     * written whether its time is wanted, by a scatter, and the number, on its
     * stream, of what made it */
    int tensors; /* of all rounds, at most */
    int *by, *maker, *slot, *number[STREAMS], *zeros;
    bool *read, *raw;
    int count[STREAMS], waited[STREAMS], in_waited, back;
};
bool oracle_program_begin(struct program *p);
/* Operations of some items; base: the round of the part's block. */
bool oracle_program_part(struct program *p, enum phase phase, int first_item,
                         int nitems, int base, struct stream_list *out);
/* The update's. Returns how many there are; < 0: out of memory. */
int oracle_program_update(struct program *p, struct stream_step *steps);
/* Operations of all rounds of an update. */
int64_t oracle_update_steps(const struct pdl_plan *p, int stage);

/* ---- stage.c ---------------------------------------------------------- */

/* One operation in its pass. */
void oracle_price_stream(const struct oracle *o, int op, enum phase phase,
                         const struct oracle_ranks *r, struct stream_price *p);
/* Adds up; so many times. */
void oracle_add_times(struct stage_time *sum, const struct stage_time *t,
                      int64_t n);
/* Adds up the steps of an update. */
void oracle_add_steps(struct stage_update *u);

#endif
