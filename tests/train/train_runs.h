/* Runs of a few steps whose bits are compared: on the host, on the twin. */
#ifndef TRAIN_RUNS_H
#define TRAIN_RUNS_H

#include "train/train_priv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 3, MAX_RANKS = 8 };

struct job {
    const struct pdl_plan *plan;
    struct pdl_train_options opt;
    enum train_fault fault;
    int fault_op;
    double loss[STEPS];
    struct pdl_buf state[MAX_RANKS];
};

static inline const struct pdl_plan *lowered(pdl_arena *a, const char *model,
                                             const char *strategy,
                                             int64_t batch,
                                             enum pdl_dtype dtype)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = batch,
                                   .dtype = dtype,
                                   .allow_empty = true,
                                   .gather_classes = dtype != PDL_F64};
    const struct pdl_model *m = NULL;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_load(a, model, NULL, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
    return p;
}

static inline void keep_state(pdl_trainer *t, struct pdl_buf *to)
{
    for (int i = 0; pdl_trainer_state(t, i); i++) {
        const struct pdl_train_part *p = &pdl_trainer_state(t, i)->part;

        pdl_put(
            &to->sink, p->data,
            (size_t)(pdl_box_volume(&p->box) * pdl_dtype_bits(p->dtype) / 8));
    }
}

/* A trainer that has done its steps; the caller closes it. */
static inline enum pdl_status train_steps(struct job *j, pdl_comm *comm,
                                          pdl_trainer **out,
                                          struct pdl_err *err)
{
    struct pdl_train_noise noise = {.plan = j->plan, .seed = 3};
    struct pdl_train_feed feed = {.fill = pdl_train_noise, .ctx = &noise};
    enum pdl_status st =
        train_open(j->plan, comm, &j->opt, j->fault, j->fault_op, out, err);

    for (int k = 0; k < STEPS && st == PDL_OK; k++) {
        struct pdl_train_result r;

        noise.first = k * j->plan->batch;
        st = pdl_trainer_step(*out, k, 0.05, &feed, &r, err);
        if (st == PDL_OK && pdl_comm_rank(comm) == 0)
            j->loss[k] = r.loss;
    }
    return st == PDL_OK ? pdl_trainer_fetch(*out, err) : st;
}

static inline enum pdl_status body(void *ctx, pdl_comm *comm,
                                   struct pdl_err *err)
{
    struct job *j = ctx;
    pdl_trainer *t = NULL;
    enum pdl_status st = train_steps(j, comm, &t, err);

    if (st == PDL_OK)
        keep_state(t, &j->state[pdl_comm_rank(comm)]);
    pdl_trainer_close(t);
    return st;
}

static inline enum pdl_status run(struct job *j, struct pdl_err *err)
{
    for (int r = 0; r < MAX_RANKS; r++)
        pdl_buf_init(&j->state[r]);
    return pdl_train_virtual((int)j->plan->mesh->pes, 60, body, j, err);
}

static inline void forget(struct job *j)
{
    for (int r = 0; r < MAX_RANKS; r++)
        pdl_buf_free(&j->state[r]);
}

static inline bool same(const struct job *a, const struct job *b)
{
    if (memcmp(a->loss, b->loss, sizeof a->loss) != 0)
        return false;
    for (int r = 0; r < (int)a->plan->mesh->pes; r++)
        if (a->state[r].len != b->state[r].len ||
            memcmp(a->state[r].text, b->state[r].text, a->state[r].len) != 0)
            return false;
    return true;
}

#endif
