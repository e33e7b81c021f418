/* SPDX-License-Identifier: Apache-2.0
 *
 * Two plans of one model, tensor by tensor (after TTrace, arXiv:2506.09280:
 * differential testing finds the first wrong tensor, not a wrong loss 1000
 * steps later). Results are matched by the operator, the pass and the output
 * that made them; a moved tensor is still the same result, a partial sum is
 * none until it is resolved. The reference is put together from its parts,
 * then every part of the other run is held against it. */
#include "train/train_priv.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { OUTPUTS = 16, PASSES = 3 };

/* Sums that cancel (the bias before a batch norm) leave only noise of what
 * was summed: a tensor this much smaller than the run's largest number is not
 * measured by its own size. */
static const double NOTHING = 1e-3;

struct value {
    int64_t n;
    double *at; /* row-major, whole tensor */
    double largest;
};

struct compare {
    const struct pdl_train_comparison *c;
    const struct pdl_plan *plan; /* the one that runs now */
    bool recording;
    enum train_fault fault; /* what to break in b, and where: tests */
    int fault_op;
    int *key;    /* plan tensor -> result, -1: none */
    bool *exact; /* plan tensor: no sum crossed ranks on the way */
    bool *added; /* plan tensor: a sum of gradients, wherever it went */
    int64_t nkeys, micros;
    struct value *values; /* [step][micro + 1][key] */
    double largest;       /* of all values */
    pthread_mutex_t lock;
    struct pdl_train_diff diff;
    bool no_memory;
    pdl_arena *arena;
};

/* ---- which result is a tensor? ---------------------------------------- */

static int key_of(const struct compare *x, int node, int pass, int k)
{
    (void)x;
    return k < OUTPUTS ? (node * PASSES + pass) * OUTPUTS + k : -1;
}

static int weight_key(const struct compare *x, int model_tensor)
{
    return x->c->a->model->nnodes * PASSES * OUTPUTS + model_tensor;
}

static int loss_key(const struct compare *x, int model_tensor)
{
    return weight_key(x, x->c->a->model->ntensors + model_tensor);
}

/* A bias that comes after a partial sum: the first part is no result. */
static bool bias_later(const struct pdl_plan *p, int op)
{
    for (int i = op + 1; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE &&
            p->ops[i].node == p->ops[op].node)
            return p->ops[i].pass == PDL_FORWARD && p->ops[i].part == 1;
    return false;
}

static int compute_key(const struct compare *x, int op, int k)
{
    const struct pdl_plan_op *o = &x->plan->ops[op];
    const struct pdl_plan_tensor *t = &x->plan->tensors[o->out[k]];

    if (t->kind == PDL_PLAN_STATISTIC)
        return -1;
    if (o->node < 0)
        return loss_key(x, t->model_tensor);
    if (o->pass == PDL_FORWARD && o->part == 0 && bias_later(x->plan, op))
        return -1;
    return key_of(x, o->node, (int)o->pass, k);
}

static bool is_sum(enum pdl_plan_op_kind k)
{
    return k == PDL_PLAN_OP_ALLREDUCE || k == PDL_PLAN_OP_REDUCE_SCATTER;
}

static bool is_partial(const struct compare *x, int tensor)
{
    for (int f = 0; f < x->plan->mesh->nfactors; f++)
        if (x->plan->tensors[tensor].place.at[f] == PDL_PARTIAL)
            return true;
    return false;
}

static void set_exact(struct compare *x, const struct pdl_plan_op *o)
{
    bool moves =
        o->kind != PDL_PLAN_OP_COMPUTE && o->kind != PDL_PLAN_OP_UPDATE;
    /* what turns is met block by block: sums in another order */
    bool exact = !is_sum(o->kind) && o->kind != PDL_PLAN_OP_ROTATE &&
                 !is_partial(x, o->in[0]),
         added = o->kind == PDL_PLAN_OP_ADD;

    for (int k = 0; k < o->nin; k++) {
        exact = exact && x->exact[o->in[k]];
        /* three terms may be added in another order */
        if (o->kind == PDL_PLAN_OP_ADD && x->added[o->in[k]])
            exact = false;
        added = added || (moves && x->added[o->in[k]]);
    }
    for (int k = 0; k < o->nout; k++) {
        x->exact[o->out[k]] = exact;
        x->added[o->out[k]] = added;
    }
}

/* Weights are as exact as their gradients: the next step starts from that. */
static void trace(struct compare *x)
{
    const struct pdl_plan *p = x->plan;

    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        if (o->kind == PDL_PLAN_OP_FREE || o->kind == PDL_PLAN_OP_RECV)
            continue;
        set_exact(x, o);
        for (int k = 0; k < o->nout; k++)
            x->key[o->out[k]] =
                o->kind == PDL_PLAN_OP_COMPUTE  ? compute_key(x, i, k)
                : o->kind == PDL_PLAN_OP_ADD    ? -1
                : o->kind == PDL_PLAN_OP_UPDATE ? x->key[o->out[k]]
                                                : x->key[o->in[k]];
    }
}

static bool begin(struct compare *x, const struct pdl_plan *p, bool recording)
{
    x->plan = p;
    x->recording = recording;
    x->key = PDL_NEW(x->arena, int, p->ntensors + 1);
    x->exact = PDL_NEW(x->arena, bool, p->ntensors + 1);
    x->added = PDL_NEW(x->arena, bool, p->ntensors + 1);
    if (!x->key || !x->exact || !x->added)
        return false;
    for (int t = 0; t < p->ntensors; t++) {
        x->exact[t] = true;
        x->key[t] = -1;
    }
    trace(x);
    for (int t = 0; t < p->ntensors; t++)
        if (p->tensors[t].kind == PDL_PLAN_WEIGHT ||
            p->tensors[t].kind == PDL_PLAN_STATE)
            x->key[t] = weight_key(x, p->tensors[t].model_tensor);
    return true;
}

/* ---- watching --------------------------------------------------------- */

static struct value *value_of(const struct compare *x,
                              const struct pdl_train_seen *s)
{
    enum pdl_plan_kind kind = x->plan->tensors[s->tensor].kind;
    bool weight = kind == PDL_PLAN_WEIGHT || kind == PDL_PLAN_STATE;
    int64_t micro = s->micro;

    if (x->key[s->tensor] < 0 || is_partial(x, s->tensor) ||
        x->plan->tensors[s->tensor].of > 0) /* some tokens only */
        return NULL;
    /* a resolved gradient is the one of backward, if there was only one */
    if (micro < 0 && !weight && x->micros > 1)
        return NULL;
    if (micro < 0 && !weight)
        micro = 0;
    return &x->values[(s->step * (x->micros + 1) + micro + 1) * x->nkeys +
                      x->key[s->tensor]];
}

/* Where an element stands in the whole tensor, whose positions are in order. */
static int64_t flat(const struct compare *x, const struct pdl_train_seen *s,
                    const int64_t *i)
{
    bool dealt = pdl_plan_dealt(x->plan, s->tensor);
    int64_t e = 0;

    for (int d = 0; d < s->part.ndims; d++)
        e = e * s->part.dim[d] +
            (d == 1 && dealt ? pdl_deal_position(&x->plan->deal, i[d]) : i[d]);
    return e;
}

static bool next(const struct pdl_box *b, int64_t *i)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++i[d] < b->hi[d])
            return true;
        i[d] = b->lo[d];
    }
    return false;
}

static void record(struct compare *x, struct value *v,
                   const struct pdl_train_seen *s)
{
    const struct pdl_train_part *p = &s->part;
    int64_t i[PDL_BOX_DIMS], n = 1;
    double largest = 0;

    for (int d = 0; d < p->ndims; d++)
        n *= p->dim[d];
    pthread_mutex_lock(&x->lock);
    if (!v->at)
        v->at = calloc((size_t)n + 1, sizeof v->at[0]);
    v->n = n;
    x->no_memory = x->no_memory || !v->at;
    pthread_mutex_unlock(&x->lock);
    if (!v->at || pdl_box_empty(&p->box))
        return;
    memcpy(i, p->box.lo, sizeof i);
    do {
        double got = pdl_train_get(p, i);

        v->at[flat(x, s, i)] = got; /* ranks with one box write one value */
        largest = fabs(got) > largest ? fabs(got) : largest;
    } while (next(&p->box, i));
    pthread_mutex_lock(&x->lock);
    v->largest = largest > v->largest ? largest : v->largest;
    x->largest = largest > x->largest ? largest : x->largest;
    pthread_mutex_unlock(&x->lock);
}

static void describe(const struct compare *x, const struct pdl_train_seen *s,
                     char *to, size_t size)
{
    static const char *const passes[] = {"forward", "backward-data",
                                         "backward-weights"};
    const struct pdl_plan_op *o = &x->plan->ops[s->op];
    const char *node =
        o->node >= 0 ? x->plan->model->nodes[o->node].name : "the loss";

    if (o->kind == PDL_PLAN_OP_COMPUTE)
        snprintf(to, size, "%s %s: %s", passes[o->pass], node, s->part.name);
    else
        snprintf(to, size, "%s: %s", pdl_plan_op_name(o->kind), s->part.name);
}

/* True when it is the first so far. */
static bool differ(struct compare *x, const struct pdl_train_seen *s,
                   const int64_t *i, double want, double got, bool exact)
{
    struct pdl_train_diff *d = &x->diff;
    int64_t order = s->micro < 0 ? INT32_MAX : s->micro;
    int64_t first = d->micro < 0 ? INT32_MAX : d->micro;

    /* the earliest in the order of one step of the whole plan */
    if (d->differs && (d->step < s->step ||
                       (d->step == s->step &&
                        (first < order || (first == order && d->op <= s->op)))))
        return false;
    d->differs = true;
    d->exact = exact;
    d->step = s->step;
    d->micro = s->micro;
    d->rank = s->rank;
    d->op = s->op;
    d->ndims = s->part.ndims;
    memcpy(d->index, i, sizeof d->index);
    d->want = want;
    d->got = got;
    d->forward = x->plan->ops[s->op].kind == PDL_PLAN_OP_COMPUTE &&
                 x->plan->ops[s->op].pass == PDL_FORWARD && s->step == 0;
    describe(x, s, d->what, sizeof d->what);
    return true;
}

static void check(struct compare *x, const struct value *v,
                  const struct pdl_train_seen *s)
{
    const struct pdl_train_part *p = &s->part;
    bool exact = x->c->exact && x->exact[s->tensor] && s->step == 0;
    double slack =
        exact ? 0 : x->c->tolerance * (v->largest + NOTHING * (1 + x->largest));
    int64_t i[PDL_BOX_DIMS], at[PDL_BOX_DIMS], bad = 0;
    double want = NAN, got = NAN;

    if (pdl_box_empty(&p->box))
        return;
    memcpy(i, p->box.lo, sizeof i);
    do {
        double a = v->at ? v->at[flat(x, s, i)] : NAN, b = pdl_train_get(p, i);

        if (fabs(b - a) <= slack) /* false for not-a-number */
            continue;
        if (bad++ == 0) {
            memcpy(at, i, sizeof at);
            want = a;
            got = b;
        }
    } while (next(&p->box, i));
    pthread_mutex_lock(&x->lock);
    x->diff.compared++;
    x->diff.bitwise += exact;
    if (bad > 0 && differ(x, s, at, want, got, exact))
        x->diff.share = (double)bad / (double)pdl_box_volume(&p->box);
    pthread_mutex_unlock(&x->lock);
}

static void watch(void *ctx, const struct pdl_train_seen *s)
{
    struct compare *x = ctx;
    struct value *v = value_of(x, s);

    if (!v)
        return;
    if (x->recording)
        record(x, v, s);
    else
        check(x, v, s);
}

/* ---- the two runs ----------------------------------------------------- */

static enum pdl_status run_rank(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct compare *x = ctx;
    struct pdl_train_options opt = x->c->opt;
    struct pdl_train_noise noise = {.plan = x->plan, .seed = opt.seed};
    struct pdl_train_feed feed = {.fill = pdl_train_noise, .ctx = &noise};
    struct pdl_train_result r;
    pdl_trainer *t = NULL;
    enum pdl_status st;

#ifdef _OPENMP
    omp_set_num_threads(1); /* ranks are threads already */
#endif
    opt.watch = watch;
    opt.watch_ctx = x;
    st = train_open(x->plan, comm, &opt,
                    x->recording ? TRAIN_FAULT_NONE : x->fault, x->fault_op, &t,
                    err);
    for (int64_t s = 0; s < x->c->steps && st == PDL_OK; s++) {
        noise.first = s * x->plan->batch;
        st = pdl_trainer_step(t, s, x->c->lr, &feed, &r, err);
    }
    pdl_trainer_close(t);
    return st;
}

static enum pdl_status run(struct compare *x, const struct pdl_plan *p,
                           bool recording, struct pdl_err *err)
{
    if (!begin(x, p, recording))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a comparison");
    return pdl_train_virtual((int)p->mesh->pes, 120, run_rank, x, err);
}

/* Batch norm over a part of the batch is another function. */
static enum pdl_status same_norms(const struct pdl_train_comparison *c,
                                  struct pdl_err *err)
{
    for (int i = 0; i < c->a->model->nnodes; i++) {
        int64_t a = train_norm_groups(c->a, i), b = train_norm_groups(c->b, i);

        if (a == b)
            continue;
        pdl_fail(err, PDL_EINVAL,
                 "%s: batch norm has %lld groups of samples in A, %lld in B: "
                 "two different networks",
                 c->a->model->nodes[i].name, (long long)a, (long long)b);
        pdl_hint(err, "batch norm is of each data rank's samples by default; "
                      "bn=sync takes those of all, as the serial run does");
        return PDL_EINVAL;
    }
    return PDL_OK;
}

static enum pdl_status comparable(const struct pdl_train_comparison *c,
                                  struct pdl_err *err)
{
    if (c->a->model->nnodes != c->b->model->nnodes ||
        c->a->model->ntensors != c->b->model->ntensors)
        return pdl_fail(err, PDL_EINVAL, "two different models");
    if (c->a->batch != c->b->batch ||
        c->a->micro_batches != c->b->micro_batches)
        return pdl_fail(
            err, PDL_EINVAL, "batches are cut into %lld and %lld micro-batches",
            (long long)c->a->micro_batches, (long long)c->b->micro_batches);
    return same_norms(c, err);
}

enum pdl_status train_compare_broken(const struct pdl_train_comparison *c,
                                     enum train_fault fault, int op,
                                     struct pdl_train_diff *out,
                                     struct pdl_err *err)
{
    struct compare x = {
        .c = c, .micros = c->a->micro_batches, .fault = fault, .fault_op = op};
    enum pdl_status st = comparable(c, err);
    int64_t n;

    if (st != PDL_OK)
        return st;
    x.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    x.nkeys = loss_key(&x, c->a->model->ntensors);
    n = c->steps * (x.micros + 1) * x.nkeys;
    x.values = calloc((size_t)n + 1, sizeof x.values[0]);
    pthread_mutex_init(&x.lock, NULL);
    if (!x.arena || !x.values)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for a comparison");
    if (st == PDL_OK)
        st = run(&x, c->a, true, err);
    if (st == PDL_OK && x.no_memory)
        st = pdl_fail(err, PDL_ENOMEM, "the run is too large to compare");
    if (st == PDL_OK)
        st = run(&x, c->b, false, err);
    if (st == PDL_OK)
        *out = x.diff;
    for (int64_t i = 0; x.values && i < n; i++)
        free(x.values[i].at);
    free(x.values);
    pthread_mutex_destroy(&x.lock);
    pdl_arena_destroy(x.arena);
    return st;
}

enum pdl_status pdl_train_compare(const struct pdl_train_comparison *c,
                                  struct pdl_train_diff *out,
                                  struct pdl_err *err)
{
    return train_compare_broken(c, TRAIN_FAULT_NONE, -1, out, err);
}
