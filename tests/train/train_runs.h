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

/* A reader whose samples may be copied from where they lie until it goes on:
 * then they are others'. */
enum { MOST_READ = 64 };
struct reader {
    struct pdl_train_noise noise;
    char *at[MOST_READ];
    size_t bytes[MOST_READ];
    int n;
};

struct job {
    const struct pdl_plan *plan;
    struct pdl_train_options opt;
    enum train_fault fault;
    int fault_op;
    bool ahead; /* samples lie with a reader that goes on to the next */
    double loss[STEPS];
    struct pdl_buf state[MAX_RANKS];
    struct reader reader[MAX_RANKS];
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

static inline enum pdl_status reader_fill(void *ctx, int64_t first,
                                          int model_tensor,
                                          const struct pdl_train_part *part,
                                          struct pdl_err *err)
{
    return pdl_train_noise(&((struct reader *)ctx)->noise, first, model_tensor,
                           part, err);
}

static inline const void *reader_at(void *ctx, int64_t first, int model_tensor,
                                    const struct pdl_train_part *part)
{
    struct reader *r = ctx;
    struct pdl_train_part mine = *part;
    struct pdl_err err;

    assert_true(r->n < MOST_READ);
    r->bytes[r->n] =
        (size_t)(pdl_box_volume(&part->box) * pdl_dtype_bits(part->dtype) / 8);
    mine.data = r->at[r->n] = calloc(1, r->bytes[r->n] + 1);
    assert_non_null(mine.data);
    assert_int_equal(reader_fill(ctx, first, model_tensor, &mine, &err),
                     PDL_OK);
    return r->at[r->n++];
}

static inline bool reader_advance(void *ctx)
{
    struct reader *r = ctx;

    for (int i = 0; i < r->n; i++)
        memset(r->at[i], 0x01, r->bytes[i]);
    r->noise.first += r->noise.plan->batch;
    return true;
}

/* A trainer that has done its steps; the caller closes it. */
static inline enum pdl_status train_steps(struct job *j, pdl_comm *comm,
                                          pdl_trainer **out,
                                          struct pdl_err *err)
{
    struct reader *reader = &j->reader[pdl_comm_rank(comm)];
    struct pdl_train_feed feed = {.fill = reader_fill,
                                  .ctx = reader,
                                  .advance = j->ahead ? reader_advance : NULL,
                                  .at = j->ahead ? reader_at : NULL};
    enum pdl_status st =
        train_open(j->plan, comm, &j->opt, j->fault, j->fault_op, out, err);

    *reader = (struct reader){.noise = {.plan = j->plan, .seed = 3}};
    for (int k = 0; k < STEPS && st == PDL_OK; k++) {
        struct pdl_train_result r;

        reader->noise.first = k * j->plan->batch;
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
    for (int r = 0; r < MAX_RANKS; r++) {
        pdl_buf_init(&j->state[r]);
        j->reader[r].n = 0;
    }
    return pdl_train_virtual((int)j->plan->mesh->pes, 60, body, j, err);
}

static inline void forget(struct job *j)
{
    for (int r = 0; r < MAX_RANKS; r++) {
        pdl_buf_free(&j->state[r]);
        for (int i = 0; i < j->reader[r].n; i++)
            free(j->reader[r].at[i]);
        j->reader[r].n = 0;
    }
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
