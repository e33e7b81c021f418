/* SPDX-License-Identifier: Apache-2.0
 *
 * Training of one client: steps of all ranks, a thread each. Parts of a divided
 * network meet at every loss, and all ranks at the end of every step. */
#include "fed/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

void fed_learner_threads(const fed_learner *l)
{
#ifdef _OPENMP
    omp_set_num_threads(l->opt.threads > 0 ? l->opt.threads : 1);
#else
    (void)l;
#endif
}

static void *begin_thread(void *arg)
{
    struct fed_net *n = arg;

    pthread_mutex_lock(&n->l->gate);
    pthread_mutex_unlock(&n->l->gate);
    fed_learner_threads(n->l);
    if (!n->l->cancelled)
        n->l->body(n);
    return NULL;
}

enum pdl_status fed_threads(fed_learner *l, struct fed_net *net, int n,
                            void (*body)(struct fed_net *net),
                            struct pdl_err *err)
{
    pthread_t *id = calloc((size_t)n, sizeof id[0]);
    struct fed_net *own = NULL; /* the calling thread's */
    int started = 0;

    if (!id)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    l->body = body;
    l->cancelled = false;
    pthread_mutex_lock(&l->gate); /* nobody begins before all are there */
    for (int i = 0; i < n && !l->cancelled; i++)
        if (fed_is_here(&net[i]) && !own)
            own = &net[i];
        else if (fed_is_here(&net[i]) &&
                 pthread_create(&id[started], NULL, begin_thread, &net[i]) == 0)
            started++;
        else
            l->cancelled = fed_is_here(&net[i]);
    pthread_mutex_unlock(&l->gate);
    if (own)
        begin_thread(own);
    for (int i = 0; i < started; i++)
        pthread_join(id[i], NULL);
    free(id);
    return l->cancelled
               ? pdl_fail(err, PDL_ENOENV, "cannot start %d threads", n)
               : PDL_OK;
}

bool fed_net_ends(const struct fed_net *n)
{
    const struct pdl_plan *p = n->l->plan;

    return n->in.logits >= 0 && n->l->parts > 1 &&
           pdl_plan_rank_lane(p, n->rank) == pdl_plan_lane(p, p->nstages - 1);
}

/* Of a pass over the samples; the last may be short. */
static int64_t batches(const struct fed_lesson *x, int64_t batch)
{
    return (x->n + batch - 1) / batch;
}

/* Batch `step` of the lesson: how many samples, and their ids. A pass over
 * them ends with what is left. */
static int64_t choose(const struct fed_lesson *x, int64_t step, int64_t batch,
                      int64_t *ids)
{
    int64_t each = batches(x, batch);
    int64_t first = step % each * batch, n = x->n - first;
    struct pdl_order o;

    n = n < batch ? n : batch;
    pdl_order_begin(&o, pdl_shuffle_find("global", NULL), x->key, step / each,
                    x->n);
    for (int64_t i = 0; i < n; i++)
        ids[i] = x->ids[pdl_order_at(&o, first + i)];
    return n;
}

static int64_t steps_of(const struct fed_lesson *x, int64_t batch)
{
    return x->steps > 0 ? x->steps : x->epochs * batches(x, batch);
}

/* The mean is over the samples that are there, not over the padding. */
static void weigh(struct fed_net *n, int64_t rows)
{
    int64_t batch = n->l->opt.batch;

    for (int64_t i = 0; i < batch; i++)
        n->weights[i] = i < rows ? (double)batch / (double)rows : 0;
    pdl_trainer_weigh(n->t, rows < batch ? n->weights : NULL);
}

static void add_up(struct fed_net *n, int64_t rows)
{
    double loss, right;

    for (int64_t i = 0; i < rows; i++) {
        pdl_trainer_saw(n->t, i, &loss, &right);
        n->grade.loss_sum += loss;
    }
    n->grade.samples += rows;
    n->grade.steps++;
}

/* Samples that cannot be read end the run when the step is over: in the middle
 * of it other ranks wait for what comes of them. */
static enum pdl_status read_on(void *ctx, int64_t first, int model_tensor,
                               const struct pdl_train_part *part,
                               struct pdl_err *err)
{
    struct fed_net *n = ctx;

    (void)err;
    if (n->read_st == PDL_OK)
        n->read_st = n->reads.fill(n->reads.ctx, first, model_tensor, part,
                                   &n->read_err);
    if (n->read_st != PDL_OK)
        memset(part->data, 0,
               (size_t)(pdl_box_volume(&part->box) *
                        pdl_dtype_bits(part->dtype) / 8));
    return PDL_OK;
}

static enum pdl_status one_step(struct fed_net *n, const struct fed_lesson *x,
                                int64_t step, struct pdl_err *err)
{
    int64_t rows = choose(x, step, n->l->opt.batch, n->ids);
    struct pdl_train_feed feed = {.fill = read_on, .ctx = n};
    struct pdl_train_result r;
    enum pdl_status st = PDL_OK;

    n->reads = pdl_train_list_feed(n->list, n->ids, rows);
    pdl_train_list_mask(n->list, x->key, step / batches(x, n->l->opt.batch));
    n->rows = rows;
    n->exchanged = !fed_net_ends(n);
    weigh(n, rows);
    if (n->teacher && n->pull && n->pull->distil > 0)
        st = pdl_trainer_evaluate(n->teacher, rows, &feed, &r, err);
    fed_stem_enter(n, &feed);
    if (st == PDL_OK)
        st = pdl_trainer_step(n->t, x->step + step, x->lr, &feed, &r, err);
    fed_stem_leave(n);
    if (n->read_st != PDL_OK) {
        *err = n->read_err;
        return n->read_st;
    }
    if (st == PDL_OK)
        add_up(n, rows);
    return st;
}

/* Ranks end together: one that cannot go on takes the others along. */
static bool all_well(struct fed_net *n)
{
    fed_learner *l = n->l;

    if (n->st != PDL_OK)
        fed_stem_fail(l);
    if (l->nets < 2)
        return n->st == PDL_OK;
    if (!n->exchanged) /* it failed on its way to the others */
        fed_team_meet(l);
    fed_team_end_step(l);
    return !atomic_load(&l->bad);
}

/* Several ranks have the same layers, and samples of their own. A stem and its
 * rest have not. */
static bool keeps_apart(const fed_learner *l)
{
    return l->parts < 2 ? l->ranks > 1 : l->ranks > 2;
}

static void learn(struct fed_net *n)
{
    const struct fed_lesson *x = n->l->lesson;
    int64_t steps = steps_of(x, n->l->opt.batch);
    bool well = true;

    for (int64_t i = 0; i < steps && well; i++) {
        n->st = one_step(n, x, i, &n->err);
        well = all_well(n);
    }
    pdl_trainer_weigh(n->t, NULL);
    if (well && keeps_apart(n->l)) /* running statistics */
        n->st = pdl_trainer_settle(n->t, &n->err);
}

static enum pdl_status begin(struct fed_net *n, const struct fed_lesson *x,
                             const float *w, struct pdl_err *err)
{
    enum pdl_status st;

    n->grade = (struct fed_grade){.bad = false};
    n->st = n->read_st = PDL_OK;
    n->err = n->read_err = (struct pdl_err){"", ""};
    n->pull = x->pull;
    n->together = x->together;
    pdl_trainer_forget(n->t); /* momentum and the like are of one visit */
    st = fed_spans_put(n->t, n->span, n->nspans, w, err);
    if (st == PDL_OK && n->teacher)
        st = fed_spans_put(n->teacher, n->teacher_span, n->nspans, w, err);
    return st;
}

static bool is_finite(const float *w, int64_t n)
{
    bool ok = true;

    for (int64_t i = 0; i < n; i++)
        ok = ok && isfinite(w[i]);
    return ok;
}

/* The cause, not its echo: who has lost another rank comes last. */
static enum pdl_status verdict(const fed_learner *l, struct pdl_err *err)
{
    const struct fed_net *worst = NULL;

    for (int i = 0; i < l->nets; i++) { /* elsewhere: nothing is said */
        const struct fed_net *n = &l->net[i];

        if (n->st != PDL_OK && n->st != PDL_EWRONG &&
            (!worst || worst->st == PDL_ENOENV))
            worst = n;
    }
    if (!worst && l->team_st != PDL_OK && err)
        *err = l->team_err;
    if (worst && err)
        *err = worst->err;
    return worst ? worst->st : l->team_st;
}

/* A loss that is no number is the client's, and no error of ours. */
static enum pdl_status conclude(fed_learner *l, float *w, struct fed_grade *out,
                                struct pdl_err *err)
{
    enum pdl_status st = fed_team_agree(l, verdict(l, err), err);

    *out = l->net[0].grade;
    for (int i = 0; i < l->nets && st == PDL_OK; i++) {
        struct fed_net *n = &l->net[i];

        out->bad = out->bad || n->st == PDL_EWRONG;
        if (n->st == PDL_OK && fed_is_here(n))
            st = fed_spans_take(n->t, n->span, n->nspans, w, err);
    }
    out->bad = out->bad || !is_finite(w, fed_learner_size(l));
    if (st == PDL_OK)
        st = fed_team_bad(l, &out->bad, err);
    return st == PDL_OK ? fed_team_bring(l, w, err) : st;
}

enum pdl_status fed_learner_train(fed_learner *l, const struct fed_lesson *x,
                                  float *w, struct fed_grade *out,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    *out = (struct fed_grade){.bad = false};
    if (x->n == 0)
        return PDL_OK;
    l->lesson = x;
    atomic_store(&l->bad, false);
    fed_stem_begin(l);
    for (int i = 0; i < l->nets && st == PDL_OK; i++)
        if (fed_is_here(&l->net[i]))
            st = begin(&l->net[i], x, w, err);
    st = fed_team_agree(l, st, err);
    if (st == PDL_OK)
        st = fed_threads(l, l->net, l->nets, learn, err);
    return st == PDL_OK ? conclude(l, w, out, err) : st;
}
