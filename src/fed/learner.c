/* SPDX-License-Identifier: Apache-2.0
 *
 * One learner for all clients that a worker serves: trainers whose weights are
 * set before a client's samples are trained and taken back after (lesson.c). A
 * model is a vector of floats (spans.c). A client has the ranks that a strategy
 * says, a thread each; a divided network is several networks of two ranks
 * (stems.c), its vector is theirs one after the other. */
#include "fed/learner.h"

#include <string.h>

/* ---- trainers ------------------------------------------------------- */

static enum pdl_status
open_trainer(struct fed_net *n, const struct pdl_plan *plan, pdl_comm *comm,
             void (*watch)(void *, const struct pdl_train_seen *),
             pdl_trainer **out, struct pdl_err *err)
{
    const struct fed_learner *l = n->l;
    const struct fed_learner_options *o = &l->opt;
    bool split = l->turns.taken && plan == l->plan && l->seat == 0;
    /* parts of a divided network begin from other weights */
    struct pdl_train_options opt = {
        .backend = o->backend,
        .optimizer = o->optimizer ? o->optimizer : "sgd:momentum=0",
        .seed = o->seed + (uint64_t)n->part * 7919,
        .mean_squares = !pdl_io_describe(o->io)->target.integer,
        .labels = l->masked,
        .watch = watch,
        .watch_ctx = n,
        .adjust = watch == fed_watch_step ? fed_watch_gradient : NULL,
        .adjust_ctx = n,
        .timed =
            split && (n->rank == 0 || n->part == 0) ? fed_stem_timed : NULL,
        .timed_ctx = n,
        .guest = split && n->rank > 0 ? l->turns.bytes : 0,
        .room = split && n->rank == 0 ? l->net[1].t : NULL,
        .apart = n->bell != NULL,
        .only_size = split && l->turns.bytes == 0};

    return pdl_trainer_open(plan, comm, &opt, out, err);
}

/* The ranks of a part open theirs together. */
static void open_both(struct fed_net *n)
{
    const fed_learner *l = n->l;

    n->st = open_trainer(n, l->plan, n->comm, fed_watch_step, &n->t, &n->err);
    if (n->st == PDL_OK && l->opt.distils)
        n->st = open_trainer(n, l->plan, n->comm, fed_watch_teacher,
                             &n->teacher, &n->err);
}

/* Stems that take turns in what others leave: how much, first; then those. */
static enum pdl_status open_turns(fed_learner *l, struct fed_net *part,
                                  struct pdl_err *err)
{
    struct pdl_train_memory m;
    enum pdl_status st = PDL_OK;

    if (l->turns.bytes == 0 && l->seat == 0) {
        st = open_trainer(part, l->plan, part->comm, NULL, &part->t, err);
        if (st != PDL_OK)
            return st;
        pdl_trainer_memory(part->t, &m);
        l->turns.bytes = m.taken - m.optimizer;
        pdl_trainer_close(part->t);
        part->t = NULL;
    }
    for (int r = l->ranks - 1; r >= 0 && st == PDL_OK; r--)
        if (fed_is_here(&part[r]))
            st = open_trainer(&part[r], l->plan, part[r].comm, fed_watch_step,
                              &part[r].t, err);
    return st;
}

static enum pdl_status open_comms(fed_learner *l, int part, struct pdl_err *err)
{
    struct fed_net *first = &l->net[(ptrdiff_t)part * l->ranks];
    pdl_comm **comm = l->comms + (ptrdiff_t)part * l->ranks;
    struct pdl_comm_options opt = {.fixed_order = true};
    enum pdl_status st = PDL_OK;

    for (int r = 0; r < l->ranks; r++)
        first[r] = (struct fed_net){.l = l, .part = part, .rank = r};
    if (fed_team_splits(l, part))
        return fed_team_link(l, part, err);
    if (fed_is_here(first))
        st = pdl_comm_create_memory(l->ranks, &opt, comm, err);
    for (int r = 0; r < l->ranks; r++)
        first[r].comm = comm[r];
    return st;
}

static enum pdl_status open_trainers(fed_learner *l, int part,
                                     struct pdl_err *err)
{
    struct fed_net *first = &l->net[(ptrdiff_t)part * l->ranks];
    enum pdl_status st = open_comms(l, part, err);

    if (st == PDL_OK && l->turns.taken)
        return open_turns(l, first, err);
    if (st == PDL_OK)
        st = fed_threads(l, first, l->ranks, open_both, err);
    for (int r = 0; r < l->ranks && st == PDL_OK; r++)
        if (first[r].st != PDL_OK)
            *err = first[r].err, st = first[r].st;
    return st;
}

/* Of a weight that several have (ZeRO, on the host), what is updated here. */
static int span_of(const struct fed_net *n, int model_tensor)
{
    for (int i = 0; i < n->nspans; i++) {
        const struct pdl_train_state *s =
            pdl_trainer_state(n->t, n->span[i].state);

        if (!s->cut && s->model_tensor == model_tensor)
            return i;
    }
    return -1;
}

/* What an update changes. */
static void map_weights(struct fed_net *n, const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        for (int k = 0; o->kind == PDL_PLAN_OP_UPDATE && k < o->nout; k++)
            n->in.span[o->in[k]] =
                span_of(n, p->tensors[o->in[k]].model_tensor);
    }
}

/* ---- rooms ---------------------------------------------------------- */

static enum pdl_status open_rooms(struct fed_net *n, struct pdl_err *err)
{
    fed_learner *l = n->l;
    struct fed_net *first = &l->net[(ptrdiff_t)n->part * l->ranks];
    int64_t b = l->opt.batch;

    n->weights = PDL_NEW(l->arena, double, b + 1);
    n->ids = PDL_NEW(l->arena, int64_t, b + 1);
    if (l->opt.distils) {
        n->features = n == first ? PDL_NEW(l->arena, float, b * l->width + 1)
                                 : first->features;
        n->taught = n == first ? PDL_NEW(l->arena, float, b * l->width + 1)
                               : first->taught;
        n->room = PDL_NEW(l->arena, double, 4 * b * b + 1);
        n->spread = PDL_NEW(l->arena, float, b * l->width + 1);
    }
    if (!n->weights || !n->ids ||
        (l->opt.distils &&
         (!n->features || !n->taught || !n->room || !n->spread)))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    return PDL_OK;
}

static enum pdl_status find_width(fed_learner *l, const struct fed_places *in,
                                  struct pdl_err *err)
{
    const struct pdl_plan_tensor *t;

    if (in->logits < 0 || in->features < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: has no last layer that classes come out of",
                        l->plan->model->name);
    t = &l->plan->tensors[in->features];
    l->width = 1;
    for (int d = 1; d < t->ndims; d++) /* all that a sample has */
        if (!pdl_mul64(l->width, t->dim[d], &l->width))
            return pdl_fail(err, PDL_EINVAL, "features are too large");
    return PDL_OK;
}

static enum pdl_status open_net(struct fed_net *n, struct pdl_err *err)
{
    fed_learner *l = n->l;
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    int train = pdl_dataset_split(d, "train");
    enum pdl_status st = fed_places_find(l->arena, l->plan, &n->in, err);

    if (st == PDL_OK && fed_is_here(n))
        st = fed_spans_make(l, n->t, n->part, &n->span, &n->nspans, err);
    if (st != PDL_OK || !fed_is_here(n))
        return st;
    map_weights(n, l->plan);
    if (l->opt.distils || l->parts > 1)
        st = find_width(l, &n->in, err);
    if (st == PDL_OK)
        st = open_rooms(n, err);
    if (st == PDL_OK)
        st = pdl_train_list_open(l->plan, l->opt.io, train < 0 ? 0 : train,
                                 l->opt.normalise, &n->list, err);
    if (st == PDL_OK && l->opt.distils)
        st = fed_spans_make(l, n->teacher, n->part, &n->teacher_span,
                            &n->nspans, err);
    if (st == PDL_OK && l->turns.taken && n->rank == 0)
        st = fed_stem_keep(n, err);
    return st;
}

static enum pdl_status open_part(fed_learner *l, int part, struct pdl_err *err)
{
    enum pdl_status st = open_trainers(l, part, err);

    if (st == PDL_OK && part == 0)
        st = fed_slots_make(l, err);
    for (int r = 0; r < l->ranks && st == PDL_OK; r++)
        st = open_net(&l->net[part * l->ranks + r], err);
    return st;
}

/* Logits of all parts lie side by side: each part reads the others'. */
static enum pdl_status open_logits(fed_learner *l, struct pdl_err *err)
{
    enum { MOST_CLASSES = 1024 };
    int64_t b =
        l->opt.batch > l->opt.test_batch ? l->opt.batch : l->opt.test_batch;
    float *all;

    if (l->parts < 2)
        return PDL_OK;
    l->classes = l->plan->tensors[l->net[0].in.logits].dim[1];
    if (l->classes > MOST_CLASSES)
        return pdl_fail(err, PDL_EINVAL, "more than %d classes are not divided",
                        (int)MOST_CLASSES);
    all = PDL_NEW(l->arena, float, l->parts *b * l->classes + 1);
    l->labels = PDL_NEW(l->arena, int32_t, b + 1);
    if (!all || !l->labels)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int i = 0; i < l->nets; i++)
        l->net[i].logits = all + l->net[i].part * b * l->classes;
    return PDL_OK;
}

static enum pdl_status open_meetings(fed_learner *l, struct pdl_err *err)
{
    pthread_barrier_t *at[] = {&l->meeting, &l->ending, &l->looking};
    int of[] = {0, 0, l->ranks};

    for (int i = 0; i < l->nets; i++) {
        of[0] += fed_is_here(&l->net[i]) && fed_net_ends(&l->net[i]);
        of[1] += fed_is_here(&l->net[i]);
    }
    of[0] += of[0] == 0; /* nobody meets */
    for (; l->meets < 3; l->meets++)
        if (pthread_barrier_init(at[l->meets], NULL, (unsigned)of[l->meets]) !=
            0)
            return pdl_fail(err, PDL_ENOENV, "no barrier");
    return PDL_OK;
}

static enum pdl_status open_judge(fed_learner *l, struct fed_net *n, int split,
                                  struct pdl_err *err)
{
    enum pdl_status st =
        open_trainer(n, l->wide, l->self, l->parts > 1 ? fed_watch_tests : NULL,
                     &n->judge, err);

    if (st == PDL_OK)
        st = fed_spans_make(l, n->judge, n->part, &n->judge_span, &n->njudge,
                            err);
    if (st == PDL_OK)
        st = pdl_train_list_open(l->wide, l->opt.io, split, l->opt.normalise,
                                 &n->tests, err);
    if (st == PDL_OK) /* the same tokens in every test */
        pdl_train_list_mask(n->tests, l->opt.seed, 0);
    return st;
}

static enum pdl_status open_tests(fed_learner *l, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->opt.io);
    int test = pdl_dataset_split(d, "test");
    enum pdl_status st;

    if (test < 0 || l->opt.untested)
        return PDL_OK;
    l->tests = d->split[test].samples;
    l->all = PDL_NEW(l->arena, int64_t, l->tests + 1);
    if (!l->all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int64_t i = 0; i < l->tests; i++)
        l->all[i] = i;
    st = fed_plan_lower(l, "data=1", l->opt.test_batch, &l->wide, err);
    if (st == PDL_OK)
        st = fed_places_find(l->arena, l->wide, &l->wide_in, err);
    for (int i = 0; i < l->nets && st == PDL_OK; i += l->ranks)
        st = open_judge(l, &l->net[i], test, err);
    return st;
}

/* ---- opening -------------------------------------------------------- */

static enum pdl_status open_all(fed_learner *l, struct pdl_err *err)
{
    enum pdl_status st = pdl_comm_create_memory(1, NULL, &l->self, err);

    fed_learner_threads(l);
    if (st == PDL_OK)
        st = pdl_train_masked(pdl_io_describe(l->opt.io), l->opt.model,
                              &l->masked, err);
    if (st == PDL_OK)
        st = fed_plan_make(l, err);
    st = fed_team_agree(l, st, err);
    for (int i = 0; i < l->parts && st == PDL_OK; i++)
        st = fed_team_agree(l, open_part(l, i, err), err);
    if (st == PDL_OK)
        st = open_logits(l, err);
    if (st == PDL_OK)
        st = open_meetings(l, err);
    return st == PDL_OK ? open_tests(l, err) : st;
}

enum pdl_status fed_learner_open(const struct fed_learner_options *o,
                                 fed_learner **out, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    fed_learner *l = a ? PDL_NEW(a, struct fed_learner, 1) : NULL;
    enum pdl_status st;

    if (!l) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    }
    *l = (struct fed_learner){.arena = a,
                              .opt = *o,
                              .gate = PTHREAD_MUTEX_INITIALIZER,
                              .turns = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                        .news = PTHREAD_COND_INITIALIZER}};
    l->opt.test_batch = o->test_batch > 0 ? o->test_batch : 100;
    l->seat = o->team ? pdl_comm_rank(o->team) : 0;
    l->seats = o->team ? pdl_comm_size(o->team) : 1;
    st = open_all(l, err);
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
    if (l->meets > 0)
        pthread_barrier_destroy(&l->meeting);
    if (l->meets > 1)
        pthread_barrier_destroy(&l->ending);
    if (l->meets > 2)
        pthread_barrier_destroy(&l->looking);
    for (int i = 0; l->comms && i < l->nets; i++)
        pdl_comm_destroy(l->comms[i]);
    for (int i = 0; l->bells && i < l->parts; i++)
        pdl_comm_destroy(l->bells[i]);
    pdl_comm_destroy(l->self);
    pdl_arena_destroy(l->arena);
}

/* ---- what it is ----------------------------------------------------- */

int64_t fed_learner_size(const fed_learner *l)
{
    return l->each * l->parts;
}

const struct pdl_train_state *fed_learner_tensor(const fed_learner *l, int i,
                                                 int64_t *offset)
{
    const struct fed_slot *s;

    if (i < 0 || i >= l->nslots * l->parts)
        return NULL;
    s = &l->slot[i % l->nslots];
    *offset = s->offset + i / l->nslots * l->each;
    return &s->is;
}

int fed_learner_parts(const fed_learner *l)
{
    return l->parts;
}

int64_t fed_learner_masked(const fed_learner *l)
{
    return l->masked;
}

static int64_t own_bytes(const pdl_trainer *t)
{
    struct pdl_train_memory m;

    pdl_trainer_memory(t, &m);
    return m.arena + m.optimizer + m.scratch;
}

/* A device has one part; whoever gives the samples has all stems, too: in what
 * the part leaves, but for what is kept of each, or beside it. Of a client with
 * a strategy: the device that has most. */
int64_t fed_learner_memory(const fed_learner *l)
{
    int64_t most = 0, stems = 0;
    struct pdl_train_memory m;

    for (int i = 0; i < l->nets; i++)
        if (l->net[i].t && own_bytes(l->net[i].t) > most)
            most = own_bytes(l->net[i].t);
    if (l->parts < 2 || l->ranks < 2 || l->seat > 0)
        return most;
    pdl_trainer_memory(l->net[0].t, &m);
    stems = l->turns.taken ? m.state + m.optimizer : own_bytes(l->net[0].t);
    return own_bytes(l->net[1].t) + l->parts * stems;
}

int64_t fed_learner_moved(const fed_learner *l)
{
    return atomic_load(&l->moved);
}

void fed_learner_last(const fed_learner *l, int64_t *from, int64_t *to)
{
    const struct fed_slot *s = l->slot;
    int last = 0;

    for (int i = 0; i < l->nslots; i++) /* a matrix; its bias may follow */
        if (s[i].is.learned && s[i].is.part.ndims > 1)
            last = i;
    *from = s[last].offset;
    *to = s[last].offset + s[last].n;
}

enum pdl_status fed_learner_start(const fed_learner *l, float *w,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < l->nets && st == PDL_OK; i++) {
        const struct fed_net *n = &l->net[i];

        if (fed_is_here(n))
            st = fed_spans_take(n->t, n->span, n->nspans, w, err);
    }
    return st == PDL_OK ? fed_team_bring(l, w, err) : st;
}
