/* Inside of the learner: the networks that it trains (one, or the parts of a
 * divided one), where their weights lie, and what is done to gradients on
 * their way. */
#ifndef FED_LEARNER_H
#define FED_LEARNER_H

#include "fed/fed_priv.h"

#include <pthread.h>
#include <stdatomic.h>

/* A tensor of a model, in a trainer and in the vector. */
struct fed_span {
    int state; /* of the trainer */
    float *at;
    int64_t n, offset;
    bool learned;
};

/* Where in a plan things are: tensors, and the operations that write them. */
struct fed_places {
    int logits, features; /* tensors */
    int loss_op, back_op; /* write the gradients of these two */
    int *span;            /* by tensor: of a weight's gradient; -1 */
    int *last_op;         /* by tensor: that writes it before the update */
};

/* One network. */
struct fed_net {
    fed_learner *l;
    int part;
    pdl_trainer *t, *teacher, *judge;
    pdl_train_list *list, *tests;
    struct fed_span *span, *judge_span, *teacher_span;
    struct fed_places in; /* of the plan that trains */
    /* of the step under way */
    const struct fed_pull *pull;
    double together;
    int64_t rows; /* samples; what follows them in the batch is padding */
    bool exchanged;
    float *features, *taught; /* of the batch */
    float *logits;            /* of the batch; of the tests */
    double *room, *weights;
    int64_t *ids; /* of the batch */
    struct fed_grade grade;
    enum pdl_status st;
    struct pdl_err err;
};

struct fed_learner {
    pdl_arena *arena;
    struct fed_learner_options opt;
    const struct pdl_plan *plan, *wide; /* of a step; of tests */
    pdl_comm *self;
    struct fed_net *net;
    int nets, nspans;
    int64_t each;           /* numbers of one network */
    int64_t width, classes; /* of the features; of the logits */
    int64_t *all;           /* ids of the test split */
    int64_t tests;
    int32_t *labels; /* of a batch of tests */
    /* parts that are trained together meet here, in every step */
    pthread_barrier_t meeting;
    bool meets;
    pthread_mutex_t gate; /* parts begin when all have been started */
    bool cancelled;
    const struct fed_lesson *lesson;
    atomic_bool bad;
};

/* places.c */
enum pdl_status fed_places_find(pdl_arena *a, const struct pdl_plan *p,
                                struct fed_places *out, struct pdl_err *err);
/* watch.c: what training, the teacher and tests show */
void fed_watch_step(void *ctx, const struct pdl_train_seen *seen);
void fed_watch_teacher(void *ctx, const struct pdl_train_seen *seen);
void fed_watch_tests(void *ctx, const struct pdl_train_seen *seen);
/* together.c: adds weight times the gradient of JS(p_1 .. p_S) to the rows of
 * one part's dlogits; logits are the parts', one after the other, a part
 * `stride` numbers long. */
double fed_together(int parts, int part, int64_t rows, int64_t classes,
                    const float *logits, int64_t stride, double weight,
                    float *dlogits);

#endif
