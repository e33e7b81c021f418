/* SPDX-License-Identifier: Apache-2.0
 *
 * One learner for all clients that a worker serves: the trainer of a plan for
 * one rank, whose weights are set before a client's samples are trained and
 * taken back after. A model is a vector of floats, tensor after tensor in the
 * order of the trainer's state. A divided network is several trainers of the
 * same plan, a thread each, that meet at every loss; its vector is theirs one
 * after the other. */
#include "fed/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening -------------------------------------------------------- */

static enum pdl_status lower(fed_learner *l, int64_t batch,
                             const struct pdl_plan **out, struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(l->arena, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = batch, .dtype = PDL_F32};
    enum pdl_status st =
        s ? pdl_strategy_parse(l->arena, "data=1", s, err)
          : pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");

    return st == PDL_OK
               ? pdl_plan_lower(l->arena, l->opt.model, s, &opt, out, err)
               : st;
}

/* Which states of a trainer are the model's, and where they lie. */
static enum pdl_status map_spans(fed_learner *l, const pdl_trainer *t, int part,
                                 struct fed_span **out, struct pdl_err *err)
{
    const struct pdl_train_state *s;
    int64_t at = 0;
    int n = 0;

    for (int i = 0; (s = pdl_trainer_state(t, i)); i++)
        n += s->weight;
    *out = PDL_NEW(l->arena, struct fed_span, n + 1);
    if (!*out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    l->nspans = n;
    n = 0;
    for (int i = 0; (s = pdl_trainer_state(t, i)); i++) {
        int64_t count = pdl_box_volume(&s->part.box);

        if (!s->weight)
            continue;
        if (s->part.dtype != PDL_F32)
            return pdl_fail(err, PDL_EINVAL, "%s: is not float32",
                            s->part.name);
        (*out)[n] = (struct fed_span){.state = i,
                                      .at = s->part.data,
                                      .n = count,
                                      .offset = at,
                                      .learned = s->learned};
        n++;
        at += count;
    }
    l->each = at;
    for (int i = 0; i < n; i++)
        (*out)[i].offset += part * at;
    return PDL_OK;
}

static int span_of(const struct fed_net *n, const char *weight)
{
    for (int i = 0; i < n->l->nspans; i++)
        if (strcmp(pdl_trainer_state(n->t, n->span[i].state)->part.name,
                   weight) == 0)
            return i;
    return -1;
}

/* The update reads weights, then as many gradients. */
static void map_gradients(struct fed_net *n, const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        for (int k = 0; o->kind == PDL_PLAN_OP_UPDATE && k < o->nout; k++)
            n->in.span[o->in[o->nout + k]] =
                span_of(n, p->tensors[o->in[k]].name);
    }
}

static enum pdl_status
open_trainer(struct fed_net *n, const struct pdl_plan *plan,
             void (*watch)(void *, const struct pdl_train_seen *),
             pdl_trainer **out, struct pdl_err *err)
{
    const struct fed_learner_options *o = &n->l->opt;
    /* parts of a divided network begin from other weights */
    struct pdl_train_options opt = {
        .backend = o->backend,
        .optimizer = o->optimizer ? o->optimizer : "sgd:momentum=0",
        .seed = o->seed + (uint64_t)n->part * 7919,
        .watch = watch,
        .watch_ctx = n};

    return pdl_trainer_open(plan, n->l->self, &opt, out, err);
}

static enum pdl_status open_rooms(struct fed_net *n, struct pdl_err *err)
{
    fed_learner *l = n->l;
    int64_t b = l->opt.batch;

    n->weights = PDL_NEW(l->arena, double, b + 1);
    n->ids = PDL_NEW(l->arena, int64_t, b + 1);
    if (l->opt.distils) {
        n->features = PDL_NEW(l->arena, float, b * l->width + 1);
        n->taught = PDL_NEW(l->arena, float, b * l->width + 1);
        n->room = PDL_NEW(l->arena, double, 4 * b * b + 1);
    }
    if (!n->weights || !n->ids ||
        (l->opt.distils && (!n->features || !n->taught || !n->room)))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    return PDL_OK;
}

static enum pdl_status open_net(fed_learner *l, int part, struct pdl_err *err)
{
    struct fed_net *n = &l->net[part];
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    int train = pdl_dataset_split(d, "train");
    enum pdl_status st;

    n->l = l;
    n->part = part;
    st = open_trainer(n, l->plan, fed_watch_step, &n->t, err);
    if (st == PDL_OK)
        st = map_spans(l, n->t, part, &n->span, err);
    if (st == PDL_OK)
        st = fed_places_find(l->arena, l->plan, &n->in, err);
    if (st != PDL_OK)
        return st;
    map_gradients(n, l->plan);
    l->width = l->plan->tensors[n->in.features].dim[1];
    st = open_rooms(n, err);
    if (st == PDL_OK)
        st = pdl_train_list_open(l->plan, l->opt.io, train < 0 ? 0 : train,
                                 l->opt.normalise, &n->list, err);
    if (st == PDL_OK && l->opt.distils)
        st = open_trainer(n, l->plan, fed_watch_teacher, &n->teacher, err);
    if (st == PDL_OK && l->opt.distils)
        st = map_spans(l, n->teacher, part, &n->teacher_span, err);
    return st;
}

/* Logits of all parts lie side by side: each part reads the others'. */
static enum pdl_status open_logits(fed_learner *l, struct pdl_err *err)
{
    enum { MOST_CLASSES = 1024 };
    int64_t b =
        l->opt.batch > l->opt.test_batch ? l->opt.batch : l->opt.test_batch;
    float *all;

    l->classes = l->plan->tensors[l->net[0].in.logits].dim[1];
    if (l->nets < 2)
        return PDL_OK;
    if (l->classes > MOST_CLASSES)
        return pdl_fail(err, PDL_EINVAL, "more than %d classes are not divided",
                        (int)MOST_CLASSES);
    all = PDL_NEW(l->arena, float, l->nets *b * l->classes + 1);
    l->labels = PDL_NEW(l->arena, int32_t, b + 1);
    if (!all || !l->labels)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int i = 0; i < l->nets; i++)
        l->net[i].logits = all + i * b * l->classes;
    l->meets = pthread_barrier_init(&l->meeting, NULL, (unsigned)l->nets) == 0;
    return l->meets ? PDL_OK : pdl_fail(err, PDL_ENOENV, "no barrier");
}

static enum pdl_status open_tests(fed_learner *l, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    int test = pdl_dataset_split(d, "test");
    enum pdl_status st;

    if (test < 0)
        return PDL_OK;
    l->tests = d->split[test].samples;
    l->all = PDL_NEW(l->arena, int64_t, l->tests + 1);
    if (!l->all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int64_t i = 0; i < l->tests; i++)
        l->all[i] = i;
    st = lower(l, l->opt.test_batch, &l->wide, err);
    for (int i = 0; i < l->nets && st == PDL_OK; i++) {
        struct fed_net *n = &l->net[i];

        st = open_trainer(n, l->wide, l->nets > 1 ? fed_watch_tests : NULL,
                          &n->judge, err);
        if (st == PDL_OK)
            st = map_spans(l, n->judge, i, &n->judge_span, err);
        if (st == PDL_OK)
            st = pdl_train_list_open(l->wide, l->opt.io, test, l->opt.normalise,
                                     &n->tests, err);
    }
    return st;
}

enum pdl_status fed_learner_open(const struct fed_learner_options *o,
                                 fed_learner **out, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    fed_learner *l = a ? PDL_NEW(a, struct fed_learner, 1) : NULL;
    enum pdl_status st = PDL_OK;

    if (!l) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    }
    *l = (struct fed_learner){
        .arena = a, .opt = *o, .gate = PTHREAD_MUTEX_INITIALIZER};
    l->nets = o->parts > 1 ? o->parts : 1;
    l->opt.test_batch = o->test_batch > 0 ? o->test_batch : 100;
    l->net = PDL_NEW(a, struct fed_net, l->nets);
    if (!l->net)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    if (st == PDL_OK)
        st = pdl_comm_create_memory(1, NULL, &l->self, err);
    if (st == PDL_OK)
        st = lower(l, o->batch, &l->plan, err);
    for (int i = 0; i < l->nets && st == PDL_OK; i++)
        st = open_net(l, i, err);
    if (st == PDL_OK)
        st = open_logits(l, err);
    if (st == PDL_OK)
        st = open_tests(l, err);
    if (st != PDL_OK) {
        fed_learner_close(l);
        return st;
    }
    *out = l;
    return PDL_OK;
}

void fed_learner_close(fed_learner *l)
{
    if (!l)
        return;
    for (int i = 0; l->net && i < l->nets; i++) {
        struct fed_net *n = &l->net[i];

        pdl_train_list_close(n->list);
        pdl_train_list_close(n->tests);
        pdl_trainer_close(n->t);
        pdl_trainer_close(n->teacher);
        pdl_trainer_close(n->judge);
    }
    if (l->meets)
        pthread_barrier_destroy(&l->meeting);
    pdl_comm_destroy(l->self);
    pdl_arena_destroy(l->arena);
}

/* ---- what it is ----------------------------------------------------- */

int64_t fed_learner_size(const fed_learner *l)
{
    return l->each * l->nets;
}

const struct pdl_train_state *fed_learner_tensor(const fed_learner *l, int i,
                                                 int64_t *offset)
{
    const struct fed_net *n;

    if (i < 0 || i >= l->nspans * l->nets)
        return NULL;
    n = &l->net[i / l->nspans];
    *offset = n->span[i % l->nspans].offset;
    return pdl_trainer_state(n->t, n->span[i % l->nspans].state);
}

int fed_learner_parts(const fed_learner *l)
{
    return l->nets;
}

static bool ends_stem(const struct pdl_node *n)
{
    return pdl_op_id(n->op) == PDL_ID_RELU || strcmp(n->op->name, "tanh") == 0;
}

int64_t fed_learner_stem(const fed_learner *l)
{
    const struct pdl_model *m = l->plan->model;
    int64_t n = 1;
    int at = 0;

    while (at + 1 < m->nnodes && !ends_stem(&m->nodes[at]))
        at++;
    for (int d = 0; d < m->tensors[m->nodes[at].out[0]].rank; d++)
        n *= m->tensors[m->nodes[at].out[0]].dim[d];
    return n;
}

/* A device has one part; whoever gives the samples has the stems of the others,
 * too: what a convolution, its norm and the ReLU write, and one gradient. Kept,
 * they are there beside the part. Computed again, they are there one at a time,
 * before the part's own activations are made and after these are gone. */
int64_t fed_learner_memory(const fed_learner *l)
{
    enum { STEM_TENSORS = 4 };
    struct pdl_train_memory m;
    int64_t stem = STEM_TENSORS * l->opt.batch * fed_learner_stem(l) *
                   (int64_t)sizeof(float);
    int64_t others = l->nets - 1, own;

    pdl_trainer_memory(l->net[0].t, &m);
    own = m.arena + m.optimizer + m.scratch;
    if (others == 0 || l->opt.keeps_stems)
        return own + others * stem;
    stem += m.state + m.optimizer + m.scratch;
    return own > stem ? own : stem;
}

void fed_learner_last(const fed_learner *l, int64_t *from, int64_t *to)
{
    const struct fed_span *s = l->net[0].span;
    int last = 0;

    for (int i = 0; i < l->nspans; i++) /* a matrix; its bias may follow */
        if (s[i].learned &&
            pdl_trainer_state(l->net[0].t, s[i].state)->part.ndims > 1)
            last = i;
    *from = s[last].offset;
    *to = s[last].offset + s[last].n;
}

/* ---- weights in and out --------------------------------------------- */

static enum pdl_status put(pdl_trainer *t, const struct fed_span *s, int n,
                           const float *w, struct pdl_err *err)
{
    for (int i = 0; i < n; i++)
        memcpy(s[i].at, w + s[i].offset, (size_t)s[i].n * sizeof w[0]);
    return pdl_trainer_send(t, err);
}

static enum pdl_status take(pdl_trainer *t, const struct fed_span *s, int n,
                            float *w, struct pdl_err *err)
{
    enum pdl_status st = pdl_trainer_fetch(t, err);

    for (int i = 0; i < n && st == PDL_OK; i++)
        memcpy(w + s[i].offset, s[i].at, (size_t)s[i].n * sizeof w[0]);
    return st;
}

void fed_learner_start(const fed_learner *l, float *w)
{
    for (int i = 0; i < l->nets; i++)
        (void)!take(l->net[i].t, l->net[i].span, l->nspans, w, NULL);
}

/* Momentum and the like are of one visit. */
static void forget(pdl_trainer *t)
{
    const struct pdl_train_state *s;

    for (int i = 0; (s = pdl_trainer_state(t, i)); i++)
        if (!s->weight)
            memset(s->part.data, 0,
                   (size_t)(pdl_box_volume(&s->part.box) *
                            pdl_dtype_bits(s->part.dtype) / 8));
}

/* ---- training ------------------------------------------------------- */

/* Batch `step` of the lesson: how many samples, and their ids. A pass over
 * them ends with what is left. */
static int64_t choose(const struct fed_lesson *x, int64_t step, int64_t batch,
                      int64_t *ids)
{
    int64_t each = (x->n + batch - 1) / batch;
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
    return x->steps > 0 ? x->steps : x->epochs * ((x->n + batch - 1) / batch);
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

static enum pdl_status one_step(struct fed_net *n, const struct fed_lesson *x,
                                int64_t step, struct pdl_err *err)
{
    int64_t rows = choose(x, step, n->l->opt.batch, n->ids);
    struct pdl_train_feed feed = pdl_train_list_feed(n->list, n->ids, rows);
    struct pdl_train_result r;
    enum pdl_status st = PDL_OK;

    n->rows = rows;
    n->exchanged = n->l->nets < 2;
    weigh(n, rows);
    if (n->teacher && n->pull && n->pull->distil > 0)
        st = pdl_trainer_evaluate(n->teacher, rows, &feed, &r, err);
    if (st == PDL_OK)
        st = pdl_trainer_step(n->t, x->step + step, x->lr, &feed, &r, err);
    if (st == PDL_OK)
        add_up(n, rows);
    return st;
}

/* Parts end together: one that cannot go on takes the others along. */
static bool all_well(struct fed_net *n)
{
    fed_learner *l = n->l;

    if (n->st != PDL_OK)
        atomic_store(&l->bad, true);
    if (l->nets < 2)
        return n->st == PDL_OK;
    if (!n->exchanged) /* it failed on its way to the others */
        pthread_barrier_wait(&l->meeting);
    pthread_barrier_wait(&l->meeting);
    return !atomic_load(&l->bad);
}

static void *learn(void *arg)
{
    struct fed_net *n = arg;
    const struct fed_lesson *x = n->l->lesson;
    int64_t steps = steps_of(x, n->l->opt.batch);

    pthread_mutex_lock(&n->l->gate);
    pthread_mutex_unlock(&n->l->gate);
    for (int64_t i = 0; i < steps && !n->l->cancelled; i++) {
        n->st = one_step(n, x, i, &n->err);
        if (!all_well(n))
            break;
    }
    pdl_trainer_weigh(n->t, NULL);
    return NULL;
}

static enum pdl_status begin(struct fed_net *n, const struct fed_lesson *x,
                             const float *w, struct pdl_err *err)
{
    enum pdl_status st;

    n->grade = (struct fed_grade){.bad = false};
    n->st = PDL_OK;
    n->err = (struct pdl_err){"", ""};
    n->pull = x->pull;
    n->together = x->together;
    forget(n->t);
    st = put(n->t, n->span, n->l->nspans, w, err);
    if (st == PDL_OK && n->teacher)
        st = put(n->teacher, n->teacher_span, n->l->nspans, w, err);
    return st;
}

/* A thread for each part but the first. */
static enum pdl_status learn_all(fed_learner *l, struct pdl_err *err)
{
    pthread_t *id = calloc((size_t)l->nets, sizeof id[0]);
    int started = 1;

    if (!id)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    pthread_mutex_lock(&l->gate); /* nobody begins before all are there */
    while (started < l->nets &&
           pthread_create(&id[started], NULL, learn, &l->net[started]) == 0)
        started++;
    l->cancelled = started < l->nets;
    pthread_mutex_unlock(&l->gate);
    learn(&l->net[0]);
    for (int i = 1; i < started; i++)
        pthread_join(id[i], NULL);
    free(id);
    return l->cancelled
               ? pdl_fail(err, PDL_ENOENV, "cannot start %d threads", l->nets)
               : PDL_OK;
}

static bool is_finite(const float *w, int64_t n)
{
    bool ok = true;

    for (int64_t i = 0; i < n; i++)
        ok = ok && isfinite(w[i]);
    return ok;
}

/* A loss that is no number is the client's, and no error of ours. */
static enum pdl_status conclude(fed_learner *l, float *w, struct fed_grade *out,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    *out = l->net[0].grade;
    for (int i = 0; i < l->nets && st == PDL_OK; i++) {
        if (l->net[i].st == PDL_EWRONG)
            out->bad = true;
        else if (l->net[i].st != PDL_OK)
            *err = l->net[i].err, st = l->net[i].st;
        else
            st = take(l->net[i].t, l->net[i].span, l->nspans, w, err);
    }
    out->bad = out->bad || !is_finite(w, fed_learner_size(l));
    return st;
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
    for (int i = 0; i < l->nets && st == PDL_OK; i++)
        st = begin(&l->net[i], x, w, err);
    if (st == PDL_OK)
        st = learn_all(l, err);
    return st == PDL_OK ? conclude(l, w, out, err) : st;
}

/* ---- tests ---------------------------------------------------------- */

/* Of one sample, by the mean of the parts' logits. */
static double vote(const fed_learner *l, int64_t row, int32_t label,
                   double *right)
{
    int64_t c = l->classes, best = 0;
    double mean[1024] = {0}, others = 0;

    for (int64_t i = 0; i < c; i++) {
        for (int k = 0; k < l->nets; k++)
            mean[i] += (double)l->net[k].logits[row * c + i] / l->nets;
        best = mean[i] > mean[best] ? i : best;
    }
    for (int64_t i = 0; i < c; i++)
        others += i == best ? 0 : exp(mean[i] - mean[best]);
    *right = best == label;
    return log1p(others) + mean[best] - mean[label];
}

static enum pdl_status count_votes(fed_learner *l, int64_t first, int64_t n,
                                   double *loss_sum, double *right,
                                   struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    struct pdl_read r = {.split = pdl_dataset_split(d, "test"),
                         .samples = l->all + first,
                         .nsamples = n,
                         .box = pdl_field_box(&d->target)};
    enum pdl_status st = pdl_io_target(l->opt.io, &r, l->labels, err);

    *loss_sum = 0;
    for (int64_t i = 0; i < n && st == PDL_OK; i++)
        *loss_sum += vote(l, i, l->labels[i], &right[i]);
    return st;
}

enum pdl_status fed_learner_test(fed_learner *l, const float *w, int64_t first,
                                 int64_t n, double *loss_sum, double *right,
                                 struct pdl_err *err)
{
    struct pdl_train_result r = {.loss = 0};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < l->nets && st == PDL_OK; i++) {
        struct fed_net *x = &l->net[i];
        struct pdl_train_feed feed =
            pdl_train_list_feed(x->tests, l->all + first, n);

        st = put(x->judge, x->judge_span, l->nspans, w, err);
        if (st == PDL_OK)
            st = pdl_trainer_evaluate(x->judge, n, &feed, &r, err);
    }
    if (st != PDL_OK)
        return st;
    if (l->nets > 1)
        return count_votes(l, first, n, loss_sum, right, err);
    *loss_sum = r.loss_sum;
    for (int64_t i = 0; i < n; i++) {
        double loss;

        pdl_trainer_saw(l->net[0].judge, i, &loss, &right[i]);
    }
    return PDL_OK;
}
