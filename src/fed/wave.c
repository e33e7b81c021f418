/* SPDX-License-Identifier: Apache-2.0
 *
 * A wave: every worker trains one task, then rank 0 takes what came back, in
 * the order of the tasks. The order of all sums is thus the plan's, whoever
 * trained what, and a worker holds one model at a time. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DOWN = 1, UP = 2, HEAD = 3 };

/* What goes before a model that comes back. */
struct head {
    struct fed_grade grade;
    bool failed; /* no model follows: the run ends */
};

static enum pdl_status move(struct fed *f, bool send, int peer, int tag,
                            void *data, int64_t bytes, struct pdl_err *err)
{
    struct pdl_comm_message m = {peer, tag, data, bytes};
    pdl_comm_request *r = NULL;
    enum pdl_status st = pdl_comm_start_exchange(
        f->comm, send, send ? &m : NULL, !send, send ? NULL : &m, &r, err);

    return st == PDL_OK ? pdl_comm_wait(r, err) : st;
}

enum pdl_status fed_all_well(struct fed *f, enum pdl_status st,
                             struct pdl_err *err)
{
    return f->ranks > 1 ? fed_agree(f->comm, st, err) : st;
}

enum pdl_status fed_share(struct fed *f, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (f->ranks < 2)
        return PDL_OK;
    st = pdl_comm_broadcast(f->comm, f->model, f->n, PDL_COMM_F32, 0, err);
    for (int i = 0; i < f->alg->shared && st == PDL_OK; i++)
        st = pdl_comm_broadcast(f->comm, f->shared[i], f->n, PDL_COMM_F32, 0,
                                err);
    return st;
}

/* ---- the worker's part ---------------------------------------------- */

static int64_t samples_of(const struct fed *f, const struct pdl_fed_task *t)
{
    int64_t n = 0;

    for (int64_t i = t->first; i < t->first + t->nvisits; i++)
        n += fed_samples(f, f->plan.visit[i].client);
    return n;
}

/* The samples of all clients of the task. */
static void pool(struct fed *f, const struct pdl_fed_task *t,
                 struct fed_lesson *x)
{
    const struct pdl_partition *p = &f->job->partition;
    int64_t n = 0;

    for (int64_t i = t->first; i < t->first + t->nvisits; i++) {
        int64_t c = f->plan.visit[i].client;

        memcpy(f->pool + n, p->sample + p->first[c],
               (size_t)fed_samples(f, c) * sizeof f->pool[0]);
        n += fed_samples(f, c);
    }
    x->ids = f->pool;
    x->n = n;
}

static struct fed_lesson lesson_of(struct fed *f, int64_t task, int64_t visit,
                                   const struct fed_pull *pull)
{
    const struct pdl_fed_job *o = f->job;
    const struct pdl_fed_task *t = &f->plan.task[task];
    const struct pdl_fed_visit *v = &f->plan.visit[visit];
    int64_t round = fed_turn(&f->plan, t);
    struct fed_lesson x = {
        .ids = o->partition.sample + o->partition.first[v->client],
        .n = fed_samples(f, v->client),
        .epochs = v->epochs,
        .steps = o->steps,
        .lr = fed_rate(f),
        .together = f->alg->together ? f->alg->together(f) : 0,
        .key = fed_key(f, FED_DRAW_ORDER, round,
                       v->client << 8 | ((visit - t->first) & 255)),
        .pull = pull};

    /* Adam counts its steps; of others only dropout sees the number */
    if (!o->optimizer || strncmp(o->optimizer, "sgd", 3) == 0)
        x.step = (int64_t)((((uint64_t)round * (uint64_t)o->partition.clients +
                             (uint64_t)v->client)
                            << 20) &
                           INT64_MAX);
    if (t->pooled)
        pool(f, t, &x);
    return x;
}

static void add_grade(struct fed_grade *to, const struct fed_grade *g)
{
    to->loss_sum += g->loss_sum;
    to->samples += g->samples;
    to->steps += g->steps;
    to->bad = to->bad || g->bad;
}

static enum pdl_status train_client(struct fed *f, const struct fed_lesson *x,
                                    int64_t client, struct fed_grade *out,
                                    struct pdl_err *err)
{
    struct fed_grade g;
    enum pdl_status st = fed_learner_train(f->learner, x, f->up, &g, err);

    add_grade(out, &g);
    if (st == PDL_OK && f->job->visited) {
        st = f->job->visited(f->job->ctx, client, err);
        st = f->team ? fed_agree(f->team, st, err) : st;
    }
    out->bad = out->bad || st == PDL_EWRONG;
    return st == PDL_EWRONG ? PDL_OK : st;
}

/* Trains a task: the model is left in f->up. */
static enum pdl_status train(struct fed *f, int64_t task, struct fed_grade *out,
                             struct pdl_err *err)
{
    const struct pdl_fed_task *t = &f->plan.task[task];
    struct fed_pull pull = {.strength = 0};
    enum pdl_status st = PDL_OK;
    int64_t last = t->pooled ? t->first + 1 : t->first + t->nvisits;

    *out = (struct fed_grade){.bad = false};
    memcpy(f->up, t->start == PDL_FED_GLOBAL ? f->model : f->down,
           (size_t)f->n * sizeof f->up[0]);
    if (f->alg->teach)
        f->alg->teach(f, task, f->down, &pull);
    for (int64_t i = t->first; i < last && st == PDL_OK && !out->bad; i++) {
        struct fed_lesson x =
            lesson_of(f, task, i, f->alg->teach ? &pull : NULL);

        st = train_client(f, &x, f->plan.visit[i].client, out, err);
    }
    if (st == PDL_OK && f->alg->learned)
        f->alg->learned(f, task, out, f->down, f->up);
    return st;
}

/* ---- the server's part ---------------------------------------------- */

static void name_lost(struct fed *f, const struct pdl_fed_task *t)
{
    size_t at = strlen(f->lost);

    f->gone++;
    for (int64_t i = t->first; i < t->first + t->nvisits; i++) {
        if (at + 24 < sizeof f->lost) {
            snprintf(f->lost + at, sizeof f->lost - at, " %lld",
                     (long long)f->plan.visit[i].client);
            at = strlen(f->lost);
        } else {
            f->unnamed++;
        }
    }
}

static void take(struct fed *f, int64_t task, const struct fed_grade *grade)
{
    const struct pdl_fed_task *t = &f->plan.task[task];
    struct fed_back b = {.task = task,
                         .grade = *grade,
                         .samples = samples_of(f, t),
                         .up = f->up};

    f->done++;
    if (b.grade.bad) {
        name_lost(f, t);
        return;
    }
    f->came++;
    f->train_loss += b.grade.loss_sum;
    f->train_samples += (double)b.grade.samples;
    if (f->alg->take)
        f->alg->take(f, &b);
    else
        fed_add(f, b.up, (double)b.samples);
}

/* The rank of a worker that speaks with rank 0: of a team its first. */
static int rank_of(const struct fed *f, int64_t worker)
{
    return (int)((worker * f->ranks + f->workers - 1) / f->workers);
}

static bool leads(const struct fed *f)
{
    return f->rank == rank_of(f, f->worker);
}

/* Rank 0 gives worker r what the task begins from. */
static enum pdl_status send_down(struct fed *f, int64_t n, struct pdl_err *err)
{
    int64_t bytes = (1 + f->alg->down) * f->n * (int64_t)sizeof f->down[0];
    enum pdl_status st = PDL_OK;

    if (!f->alg->pack)
        return PDL_OK;
    for (int r = 1; r < n && f->rank == 0 && st == PDL_OK; r++) {
        f->alg->pack(f, f->live[f->next + r], f->down);
        st = move(f, true, rank_of(f, r), DOWN, f->down, bytes, err);
    }
    if (st == PDL_OK && f->rank > 0 && leads(f) && f->worker < n)
        st = move(f, false, 0, DOWN, f->down, bytes, err);
    if (f->rank == 0)
        f->alg->pack(f, f->live[f->next], f->down);
    return st;
}

static enum pdl_status gather(struct fed *f, int64_t n, struct head *head,
                              struct pdl_err *err)
{
    int64_t bytes = (1 + f->alg->up) * f->n * (int64_t)sizeof f->up[0];
    enum pdl_status st = PDL_OK;
    bool sends = f->rank > 0;

    if (f->worker >= n || !leads(f))
        return PDL_OK;
    if (!sends && !head->failed)
        take(f, f->live[f->next], &head->grade);
    for (int64_t r = sends ? 0 : 1; r < (sends ? 1 : n) && st == PDL_OK; r++) {
        st = move(f, sends, rank_of(f, r), HEAD, head, sizeof *head, err);
        if (st == PDL_OK && !head->failed)
            st = move(f, sends, rank_of(f, r), UP, f->up, bytes, err);
        if (st == PDL_OK && !head->failed && !sends)
            take(f, f->live[f->next + r], &head->grade);
    }
    return st;
}

enum pdl_status fed_wave(struct fed *f, struct pdl_err *err)
{
    int64_t left = f->nlive - f->next,
            n = left < f->workers ? left : f->workers;
    struct head head;
    enum pdl_status st = send_down(f, n, err), trained = PDL_OK;

    memset(&head, 0, sizeof head); /* what lies between is sent, too */
    if (st == PDL_OK && f->worker < n)
        trained = train(f, f->live[f->next + f->worker], &head.grade, err);
    head.failed = trained != PDL_OK;
    if (st == PDL_OK)
        st = gather(f, n, &head, trained == PDL_OK ? err : NULL);
    f->next += n;
    if (f->rank > 0)
        f->done += n;
    return fed_all_well(f, trained != PDL_OK ? trained : st, err);
}
