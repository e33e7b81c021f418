/* Inside of the learner: the ranks that it trains with, where their weights
 * lie, and what is done to gradients on their way. A network has as many ranks
 * as a client has devices (one, unless a strategy says more); a divided network
 * is several networks, each of two ranks: its stem, and the rest. */
#ifndef FED_LEARNER_H
#define FED_LEARNER_H

#include "fed/fed_priv.h"

#include <pthread.h>
#include <stdatomic.h>

/* A tensor of a model in the vector: whole, row-major. */
struct fed_slot {
    struct pdl_train_state is; /* its part is the whole tensor */
    int64_t offset, n;
};

/* A rank's part of such a tensor. */
struct fed_span {
    int state;   /* of the trainer */
    float *at;   /* the part: in the trainer, or kept while others run */
    float *room; /* in the trainer; NULL: `at` is */
    int64_t n, offset;
    const int64_t *index; /* of the vector; NULL: offset and what follows */
    bool owner;           /* it is taken from here */
};

/* Where in a plan things are: tensors, and the operations that write them. */
struct fed_places {
    int logits, features;        /* tensors */
    int loss_op, back_op;        /* write the gradients of these two */
    int out_op, in_op;           /* a stem's result, sent and received */
    int back_in_op, back_out_op; /* its gradient, received and sent */
    int *span;                   /* by tensor: of a weight; -1 */
};

/* One rank of one network, a thread while it trains. */
struct fed_net {
    fed_learner *l;
    int part, rank;
    pdl_comm *comm; /* of the part's ranks */
    pdl_comm *bell; /* of a stem and its rest in two processes; NULL */
    pdl_trainer *t, *teacher, *judge;
    pdl_train_list *list, *tests; /* judge, tests: of rank 0 */
    struct fed_span *span, *judge_span, *teacher_span;
    int nspans, njudge;
    struct fed_places in; /* of the plan that trains */
    /* of the step under way */
    const struct fed_pull *pull;
    double together;
    int64_t rows; /* samples; what follows them in the batch is padding */
    bool exchanged;
    float *features, *taught; /* of the batch: all ranks of a part have them */
    float *logits;            /* of the batch; of the tests */
    double *room, *weights;
    float *spread; /* of several ranks: what distillation adds to the batch */
    int64_t *ids;  /* of the batch */
    struct fed_grade grade;
    enum pdl_status st;
    struct pdl_err err;
    struct pdl_train_feed reads; /* of the step; what went wrong in it */
    enum pdl_status read_st;
    struct pdl_err read_err;
    /* a stem that shares its memory with the others */
    struct pdl_train_feed feed;  /* of the step */
    struct pdl_train_part input; /* what it filled */
    int input_tensor;
    int64_t sends, got; /* of its result, by the rank that it goes to */
    bool turned;        /* in this step the others had the memory */
};

/* Stems take turns in one memory (stems.c). */
struct fed_turns {
    bool taken; /* they do */
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool busy;
    bool left;         /* by the device that it is of, in this step */
    int64_t sent, all; /* results of stems, in the steps of the lesson */
    int64_t bytes;     /* that a stem takes */
};

struct fed_learner {
    pdl_arena *arena;
    struct fed_learner_options opt;
    const struct pdl_plan *plan, *wide; /* of a step; of tests */
    struct fed_places wide_in;
    pdl_comm *self;
    pdl_comm **comms;      /* by net; NULL: it is elsewhere */
    pdl_comm **bells;      /* by part */
    struct fed_net *net;   /* part after part, of each all ranks */
    struct fed_slot *slot; /* of one part */
    int nets, parts, ranks, nslots;
    int64_t each, stem;     /* numbers of one network; of them, its stem's */
    int64_t width, classes; /* of the features; of the logits */
    int64_t *all;           /* ids of the test split */
    int64_t tests;
    int64_t masked;  /* tokens of a sample; 0: none */
    int32_t *labels; /* of a batch of tests */
    /* parts that are trained together meet at their losses, all ranks at the
     * end of a step, and those of a part that distils where features are */
    pthread_barrier_t meeting, ending, looking;
    int meets;            /* how many of these there are */
    pthread_mutex_t gate; /* nobody begins before all have been started */
    void (*body)(struct fed_net *net); /* of these threads */
    bool cancelled;
    struct fed_turns turns;
    const struct fed_lesson *lesson;
    atomic_bool bad;
    atomic_llong moved; /* bytes of stems' results and their gradients */
    /* of a team (team.c): this rank, of so many; what went wrong there */
    int seat, seats;
    struct pdl_comm_message *mail;
    enum pdl_status team_st;
    struct pdl_err team_err;
};

/* Runs body on a thread for each of the n ranks (a fed_net each) that is here;
 * it begins when all have been started. */
enum pdl_status fed_threads(fed_learner *l, struct fed_net *net, int n,
                            void (*body)(struct fed_net *net),
                            struct pdl_err *err);
/* Of the calling thread: kernels are chosen, and sums cut, by how many. */
void fed_learner_threads(const fed_learner *l);
/* Whose operations come last: it has logits and loss. */
bool fed_net_ends(const struct fed_net *n);

/* client_plan.c: of a strategy; the one that trains, and its ranks */
enum pdl_status fed_plan_lower(fed_learner *l, const char *strategy,
                               int64_t batch, const struct pdl_plan **out,
                               struct pdl_err *err);
enum pdl_status fed_plan_make(fed_learner *l, struct pdl_err *err);
/* places.c */
enum pdl_status fed_places_find(pdl_arena *a, const struct pdl_plan *p,
                                struct fed_places *out, struct pdl_err *err);
/* spans.c: the vector's layout (of all ranks of a part), and a trainer's */
enum pdl_status fed_slots_make(fed_learner *l, struct pdl_err *err);
enum pdl_status fed_spans_make(const fed_learner *l, const pdl_trainer *t,
                               int part, struct fed_span **out, int *n,
                               struct pdl_err *err);
enum pdl_status fed_spans_put(pdl_trainer *t, const struct fed_span *s, int n,
                              const float *w, struct pdl_err *err);
enum pdl_status fed_spans_take(pdl_trainer *t, const struct fed_span *s, int n,
                               float *w, struct pdl_err *err);
/* stems.c: parts whose stems are computed elsewhere than the rest */
const char *fed_stem_strategy(pdl_arena *a, const struct fed_learner_options *o,
                              struct pdl_err *err);
int fed_stem_end(const struct pdl_model *m); /* the node */
enum pdl_status fed_stem_keep(struct fed_net *n, struct pdl_err *err);
void fed_stem_begin(fed_learner *l); /* of a lesson */
void fed_stem_enter(struct fed_net *n, struct pdl_train_feed *feed);
void fed_stem_leave(struct fed_net *n);
void fed_stem_fail(fed_learner *l); /* nobody waits any more */
void fed_stem_timed(void *ctx, int op, int64_t micro, double start_s,
                    double end_s);
void fed_stem_seen(struct fed_net *n, const struct pdl_train_seen *seen);
/* team.c: parts that are dealt to ranks; with one rank nothing is */
int fed_team_seat(const fed_learner *l, int part, int rank); /* of a net */
bool fed_is_here(const struct fed_net *n);
bool fed_team_splits(const fed_learner *l, int part); /* on two ranks */
enum pdl_status fed_team_link(fed_learner *l, int part, struct pdl_err *err);
enum pdl_status fed_team_slots(fed_learner *l, struct pdl_err *err);
void fed_team_ring(struct fed_net *n); /* a stem waits for it */
void fed_team_meet(fed_learner *l);    /* all parts know what all say */
void fed_team_end_step(fed_learner *l);
enum pdl_status fed_team_agree(const fed_learner *l, enum pdl_status st,
                               struct pdl_err *err);
enum pdl_status fed_team_bad(const fed_learner *l, bool *bad,
                             struct pdl_err *err);
/* All parts to the first rank. */
enum pdl_status fed_team_bring(const fed_learner *l, float *w,
                               struct pdl_err *err);
/* watch.c: what training, the teacher and tests show */
void fed_watch_step(void *ctx, const struct pdl_train_seen *seen);
void fed_watch_gradient(void *ctx, int weight,
                        const struct pdl_train_part *grad);
void fed_watch_teacher(void *ctx, const struct pdl_train_seen *seen);
void fed_watch_tests(void *ctx, const struct pdl_train_seen *seen);
/* together.c: adds weight times the gradient of JS(p_1 .. p_S) to the rows of
 * one part's dlogits; logits are the parts', one after the other, a part
 * `stride` numbers long. */
double fed_together(int parts, int part, int64_t rows, int64_t classes,
                    const float *logits, int64_t stride, double weight,
                    float *dlogits);

#endif
