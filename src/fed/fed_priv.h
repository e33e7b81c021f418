/* Shared inside the room: the one trainer that clients are lent (learner.c),
 * plans of rounds (round.c), what the server keeps (shelves.c), and algorithms
 * (one file each, table in algs.c). */
#ifndef FED_PRIV_H
#define FED_PRIV_H

#include "paradl/fed.h"
#include "paradl/train.h"

/* ---- learner.c: weights in, samples of a client, weights out -------- */

/* What is added to the gradient g of weight w in local training:
 * add[i] + strength * stiff[i] * (w[i] - anchor[i]). */
struct fed_pull {
    const float *add;    /* NULL: nothing */
    const float *anchor; /* NULL: no spring */
    const float *stiff;  /* NULL: all 1 */
    double strength;
    double distil;  /* weight of what the first model says; 0: none */
    float *squares; /* gets the mean square of the gradient; NULL */
};

typedef struct fed_learner fed_learner;

/* Of a part, its first layers up to a ReLU: computed by who owns the samples,
 * and again for their gradients, or kept until then; or by the part's device
 * like the rest, to compare with. */
enum fed_stems { FED_STEMS_AGAIN, FED_STEMS_KEPT, FED_STEMS_WHOLE };

struct fed_learner_options {
    const struct pdl_model *model;
    const pdl_io *io;
    int64_t batch, test_batch;
    bool untested; /* nothing is opened for tests */
    const char *optimizer, *backend;
    const struct pdl_augment *normalise; /* NULL: none; outlives it */
    uint64_t seed;
    const char *strategy; /* of a client's devices; NULL: it has one */
    bool distils;         /* will be asked to */
    int parts;            /* networks that are trained together; 0 is 1 */
    enum fed_stems stems; /* of the parts */
    int threads;          /* of each rank; 0: 1 */
    pdl_comm *team;       /* parts are dealt to its ranks; NULL: all are here */
};
/* With a team: what follows is collective in it, but for tests. */
enum pdl_status fed_learner_open(const struct fed_learner_options *o,
                                 fed_learner **out, struct pdl_err *err);
void fed_learner_close(fed_learner *l); /* NULL: nothing */
/* Numbers of a model: weights and running statistics, tensor by tensor. */
int64_t fed_learner_size(const fed_learner *l);
/* Tensors of the vector, NULL past the end: where, and what they are called. */
const struct pdl_train_state *fed_learner_tensor(const fed_learner *l, int i,
                                                 int64_t *offset);
/* First values. */
enum pdl_status fed_learner_start(const fed_learner *l, float *w,
                                  struct pdl_err *err);
int64_t fed_learner_memory(const fed_learner *l); /* bytes of a client */
int fed_learner_parts(const fed_learner *l);
/* Bytes that stems and the rest of their parts have sent each other. */
int64_t fed_learner_moved(const fed_learner *l);
/* Numbers of a sample that leave the stem: the first layers up to a ReLU. */
int64_t fed_learner_stem(const fed_learner *l);
/* Tokens of a sample that an encoder is to tell; 0: none is masked. */
int64_t fed_learner_masked(const fed_learner *l);
/* The weights of the last layer: [*from, *to) of the vector. */
void fed_learner_last(const fed_learner *l, int64_t *from, int64_t *to);

struct fed_lesson {
    const int64_t *ids; /* samples */
    int64_t n;
    int64_t epochs, steps;       /* steps > 0: so many, whatever the epochs */
    double lr, together;         /* weight of agreement between parts */
    uint64_t key;                /* of the order of samples */
    int64_t step;                /* number of the first step: for dropout */
    const struct fed_pull *pull; /* NULL: none */
};
struct fed_grade {
    double loss_sum;
    int64_t samples, steps;
    bool bad; /* a loss or a weight was no number */
};
/* Trains w in place; what the optimizer keeps begins from nothing. Of a team
 * the first rank has all of it, the others what is theirs. */
enum pdl_status fed_learner_train(fed_learner *l, const struct fed_lesson *x,
                                  float *w, struct fed_grade *out,
                                  struct pdl_err *err);
/* One batch of the test split: [first, first + n) of it, n at most the batch.
 * right[i] becomes 0 or 1. */
enum pdl_status fed_learner_test(fed_learner *l, const float *w, int64_t first,
                                 int64_t n, double *loss_sum, double *right,
                                 struct pdl_err *err);

/* distil.c: gradient of the distance between two batches of features (rows of
 * c numbers), weight times it added to dz; returns the distance. room: 4 n n
 * doubles. */
double fed_distil(int64_t n, int64_t c, const float *teacher,
                  const float *student, double weight, double *room, float *dz);

/* ---- a run ---------------------------------------------------------- */

enum { FED_SHELVES = 2, FED_TABLES = 2, FED_VECTORS = 3 };

/* Vectors of a model's size that the server keeps from round to round, each
 * from when it is first asked for: of clients, or travelling models. */
struct fed_shelf {
    const char *name; /* NULL: none */
    int64_t slots;
    float **at;
};
struct fed_table { /* numbers that it keeps */
    const char *name;
    int64_t count;
    double *at;
};

/* Being written: tasks and visits of a round. */
struct fed_plan {
    pdl_arena *arena;
    struct pdl_fed_round is;
    struct pdl_fed_task *task;
    struct pdl_fed_visit *visit;
    int64_t tasks, visits; /* that there is room for */
    bool failed;           /* latches */
};

/* What came back of a task. */
struct fed_back {
    int64_t task; /* of the round */
    struct fed_grade grade;
    int64_t samples; /* that its clients have */
    const float *up; /* the model, then what else the algorithm sends */
};

struct fed {
    const struct pdl_fed_job *job;
    pdl_comm *comm;
    int rank, ranks;
    /* workers that train a task each: ranks, or teams of them, and which one
     * this rank is of */
    int64_t workers, worker;
    pdl_comm *team; /* of its ranks; NULL: it is alone */
    bool dry;       /* plans alone: no table of what comes back is kept */
    pdl_arena *arena, *plans; /* of the run; of a round */
    const struct fed_alg *alg;
    struct pdl_sampling_setting with;
    fed_learner *learner;
    struct pdl_augment normalise;
    int64_t n;    /* numbers of a model */
    int64_t able; /* clients that have samples */
    float *model;
    float *shared[FED_VECTORS]; /* of the algorithm: known to all workers */
    float *down, *up, *squares;
    int64_t *pool; /* ids of several clients */
    /* the server's, rank 0 */
    struct fed_shelf shelf[FED_SHELVES];
    struct fed_table table[FED_TABLES];
    double *sum, weight; /* of the round so far */
    double train_loss, train_samples;
    int64_t came, gone;
    char lost[200];  /* clients whose models were no numbers */
    int64_t unnamed; /* ... that had no room there */
    /* where the run is */
    struct fed_plan plan;
    int64_t *live, nlive; /* tasks that something comes back of */
    int64_t next;         /* of them */
    int64_t done;         /* models trained in the run */
    int64_t saved;        /* of them, in the last checkpoint */
    double clusters;
    int32_t *cluster;
    float *similarity;
    void *own;       /* the algorithm's; derived from the seed alone */
    double *history; /* a row a round */
    int64_t nhistory;
    struct pdl_fed_summary sum_up;
    pdl_ckpt_lock *lock;
    double start_s;
};

/* An algorithm. All but `is` may be left out: one task for each chosen client,
 * nothing pulls, results are a mean weighed by samples. */
struct fed_alg {
    struct pdl_sampling is;
    int shared;   /* vectors that all workers know */
    int down, up; /* vectors beside the model that go to a task, and back */
    bool distils;
    bool apart;    /* models that are not one: each client's is tested */
    bool waits;    /* what is trained may be added in a later round */
    int parts_key; /* which parameter says how many networks; 0: one */
    int stems_key; /* which says that their stems are kept; 0: none */
    enum pdl_status (*open)(struct fed *f, struct pdl_err *err);
    /* Writes the round's tasks; a function of the seed and the rounds before,
     * not of results: every rank has the same. */
    void (*plan)(struct fed *f, struct fed_plan *p);
    /* Server: down[0] is the model that the task begins from, if its start is
     * no PDL_FED_GLOBAL; what follows is the algorithm's. */
    void (*pack)(struct fed *f, int64_t task, float *down);
    /* Worker: before and after the task is trained. */
    void (*teach)(struct fed *f, int64_t task, const float *down,
                  struct fed_pull *pull);
    void (*learned)(struct fed *f, int64_t task, const struct fed_grade *g,
                    const float *down, float *up);
    /* Server: one result, in the order of the tasks; all are in. */
    void (*take)(struct fed *f, const struct fed_back *b);
    void (*end)(struct fed *f);
    /* Server: what `end` found in the last round of a run that is over. */
    void (*recall)(struct fed *f);
    /* Bytes that clients exchange while samples of this one are trained. All
     * clients of a task then hold parts of the model at the same time. */
    int64_t (*exchanged)(const struct fed *f, const struct pdl_fed_visit *v);
    /* Weight of agreement between parts in this round. */
    double (*together)(const struct fed *f);
};
extern const struct fed_alg fed_alg_fedavg, fed_alg_fedprox, fed_alg_fedadam,
    fed_alg_fedyogi, fed_alg_scaffold, fed_alg_fedbuff, fed_alg_cadis,
    fed_alg_sem, fed_alg_safa, fed_alg_feddct, fed_alg_central, fed_alg_local;
const struct fed_alg *fed_alg_at(int i);

/* ---- round.c: plans ------------------------------------------------- */

/* A task, and one visit more of the last task. */
void fed_plan_task(struct fed_plan *p, int64_t start);
void fed_plan_visit(struct fed_plan *p, int64_t client, int64_t epochs);
/* The round's clients in a random order, those with samples; how many. No
 * memory latches. */
int64_t fed_choose(const struct fed *f, struct fed_plan *p, int64_t **clients);
/* Whom a task visits first. */
int64_t fed_client_of(const struct fed *f, int64_t task);
/* Whether a client can be asked: it has samples and is not away. */
bool fed_is_there(const struct fed *f, int64_t round, int64_t client);
/* A random number in [0, 1): of a client, or whatever i is, in a round. */
enum fed_draw {
    FED_DRAW_CHOOSE,
    FED_DRAW_DROP,
    FED_DRAW_SPEED,
    FED_DRAW_PAIR,
    FED_DRAW_ORDER,
    FED_DRAW_START,
    FED_DRAW_LINK,
    FED_DRAW_AWAY
};
uint64_t fed_key(const struct fed *f, enum fed_draw why, int64_t round,
                 int64_t i);
double fed_unit(const struct fed *f, enum fed_draw why, int64_t round,
                int64_t i);
int64_t fed_samples(const struct fed *f, int64_t client);
/* Samples that a visit trains, as often as it does. */
double fed_trained(const struct fed *f, const struct pdl_fed_visit *v);
int64_t fed_down_bytes(const struct fed *f); /* to a task, and back */
int64_t fed_up_bytes(const struct fed *f);
/* The round's number, another one each time that it asks a client again. */
int64_t fed_turn(const struct fed_plan *p, const struct pdl_fed_task *t);
/* Seconds of a task, and why nothing comes back of it. */
void fed_judge_task(const struct fed *f, const struct fed_plan *p,
                    struct pdl_fed_task *t);
enum pdl_status fed_plan_round(struct fed *f, struct pdl_err *err);
double fed_value(const struct fed *f, int key); /* of the algorithm */
double fed_rate(const struct fed *f);           /* of clients in this round */

/* ---- server.c ------------------------------------------------------- */

/* Is a sample of one class, not of many positions or of numbers to meet? */
bool fed_has_classes(const struct fed *f);

/* A line that is no round's, on rank 0. */
void PDL_PRINTF(2, 3) fed_note(struct fed *f, const char *fmt, ...);

/* All that a run needs before its first round; closing what was opened is the
 * caller's, whatever came of it. */
enum pdl_status fed_open(struct fed *f, struct pdl_err *err);
void fed_close(struct fed *f);

/* ---- shelves.c ------------------------------------------------------ */

/* The vector of a slot, zeros at first; NULL: no memory, which latches. */
float *fed_slot(struct fed *f, int shelf, int64_t i);
bool fed_has_slot(const struct fed *f, int shelf, int64_t i);
enum pdl_status fed_shelf_open(struct fed *f, int shelf, const char *name,
                               int64_t slots, struct pdl_err *err);
enum pdl_status fed_table_open(struct fed *f, int table, const char *name,
                               int64_t count, struct pdl_err *err);
void fed_add(struct fed *f, const float *w, double weight); /* to the sum */
void fed_mean(struct fed *f); /* model = sum / weight */
void fed_shelves_close(struct fed *f);

/* ---- wave.c, judge.c, keep.c ---------------------------------------- */

/* Where all ranks come to, however they fared: the first that failed, and why,
 * is what all of them return. */
enum pdl_status fed_all_well(struct fed *f, enum pdl_status st,
                             struct pdl_err *err);
enum pdl_status fed_agree(pdl_comm *c, enum pdl_status st,
                          struct pdl_err *err); /* the same; team.c */
/* Trains the next tasks, one a worker, and takes them in order. Collective. */
enum pdl_status fed_wave(struct fed *f, struct pdl_err *err);
/* The model and shared vectors, from rank 0 to all. */
enum pdl_status fed_share(struct fed *f, struct pdl_err *err);
enum pdl_status fed_test(struct fed *f, struct pdl_fed_line *line,
                         struct pdl_err *err);
enum pdl_status fed_keep_open(struct fed *f, struct pdl_err *err);
enum pdl_status fed_keep_save(struct fed *f, struct pdl_err *err);
void fed_keep_close(struct fed *f);
/* history.c, rank 0: a row of numbers for each round that is over */
int64_t fed_history_width(const struct fed *f);
double *fed_history_room(struct fed *f, int64_t rows); /* NULL latches */
void fed_history_add(struct fed *f, const struct pdl_fed_line *l);
/* All of them, again; of a run that is over, last: the last one's tests. */
void fed_history_tell(struct fed *f, const struct pdl_fed_line *last);
double fed_history_last(const struct fed *f);
/* weights.c: by name; of job.weights_in */
enum pdl_status fed_weights_read(struct fed *f, struct pdl_err *err);
enum pdl_status fed_weights_write(struct fed *f, const char *path,
                                  struct pdl_err *err);

#endif
