/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole-model configuration from pieces. Seconds of a stage add up over its
 * blocks, what is live adds up along them, gradient exchange is run on the
 * streams as project.c does, the pipeline has the span of its tasks: the
 * functions are those that price a lowered plan, only their arguments come
 * from pieces. A test compares every figure with that plan's.
 *
 * What points have in common is kept: the work of stages and the span of the
 * pipeline hold for every choice of sharded states, overlap and the like. */
#include "pieces.h"

#include <math.h>
#include <string.h>

enum { MAX_CLASSES = 24, MAX_SPLITS = 64 };

/* Stages that are alike. */
struct class
{
    enum piece_where where;
    int64_t blocks;
    int lane[2]; /* its kinds, for work and for updates */
    const struct piece_work *work;
    const struct piece_update *update[2]; /* by zero */
    struct stage_time time;
    double forward_s, back_s; /* as the streams count them, without the host */
    struct oracle_span forward[PIECE_RANKS], backward[PIECE_RANKS];
};

/* The stages of one number of chunks. */
struct split {
    int64_t chunks;
    int nclasses;
    struct class classes[MAX_CLASSES];
    int *of;            /* class of each stage */
    int64_t full;       /* micro-batches from which in_flight stays */
    int64_t micro;      /* that in_flight and lanes are of; 0: none */
    int64_t *in_flight; /* [lane][chunk] */
    int *lanes, nlanes; /* of which none is fuller than an earlier one */
};

struct oracle_compose {
    const struct oracle_family *f;
    struct oracle_point mesh, now;
    bool ready; /* `now` is prepared */
    pdl_arena *arena;
    struct oracle_pieces *pieces;
    struct oracle lite; /* options and system; no plan */
    struct oracle_changed changed;
    struct pdl_plan plan; /* its pipeline only */
    struct pdl_strategy strategy;
    struct split *splits[MAX_SPLITS];
    int nsplits;
    struct split *split; /* of `now` */
    struct oracle_loading load;
    double micro_batches, span, least;
    struct stage_time lane; /* the busiest */
    int worst;
    double contention;
    double *forward, *backward, *scratch, *end, *made;
    int64_t room, steps;
};

struct oracle_compose *oracle_compose_make(pdl_arena *a, pdl_arena *scratch,
                                           const struct oracle_family *f,
                                           const struct oracle_point *mesh)
{
    struct oracle_compose *c = PDL_NEW(a, struct oracle_compose, 1);

    if (!c)
        return NULL;
    c->f = f;
    c->mesh = *mesh;
    c->arena = a;
    c->pieces = oracle_pieces_make(a, scratch, f, mesh);
    c->lite = (struct oracle){
        .p = &c->plan, .sys = f->sys, .opt = f->opt, .arena = a};
    c->plan.strategy = &c->strategy;
    oracle_settle(&c->lite, &c->changed);
    c->forward = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->backward = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->made = PDL_NEW(a, double, (f->layers + 1) * f->model->ntensors);
    return c->pieces && c->forward && c->backward && c->made ? c : NULL;
}

int64_t oracle_compose_pieces(const struct oracle_compose *c, double *seconds)
{
    return oracle_piece_count(c->pieces, seconds);
}

/* ---- stages ---------------------------------------------------------------------- */

static enum piece_where where_is(int64_t stage, int64_t stages)
{
    return stage == 0            ? PIECE_FIRST
           : stage == stages - 1 ? PIECE_LAST
                                 : PIECE_MIDDLE;
}

static int class_of(struct split *s, const struct class *x)
{
    for (int i = 0; i < s->nclasses; i++)
        if (s->classes[i].where == x->where &&
            s->classes[i].blocks == x->blocks &&
            s->classes[i].lane[0] == x->lane[0] &&
            s->classes[i].lane[1] == x->lane[1])
            return i;
    if (s->nclasses == MAX_CLASSES)
        return -1;
    s->classes[s->nclasses] = *x;
    return s->nclasses++;
}

static enum pdl_status make_split(struct oracle_compose *c, struct split *s,
                                  struct pdl_err *err)
{
    int64_t stages = c->mesh.pipe * s->chunks, blocks[ORACLE_MAX_STAGES];
    pdl_arena *scratch;
    enum pdl_status st;

    if (stages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (stages > c->f->layers)
        return pdl_fail(err, PDL_EINVAL, "%lld stages, but %lld blocks",
                        (long long)stages, (long long)c->f->layers);
    scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    s->of = PDL_NEW(c->arena, int, stages);
    s->in_flight = PDL_NEW(c->arena, int64_t, stages);
    s->lanes = PDL_NEW(c->arena, int, c->mesh.pipe);
    st = scratch && s->of && s->in_flight && s->lanes
             ? pdl_plan_blocks(scratch, c->f->model, stages, c->f->plan.split,
                               blocks, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
    pdl_arena_destroy(scratch);
    for (int64_t i = 0; st == PDL_OK && i < stages; i++) {
        int64_t l = i % c->mesh.pipe;

        s->of[i] = class_of(
            s,
            &(struct class){.where = where_is(i, stages),
                            .blocks = blocks[i],
                            .lane = {oracle_piece_lane(c->pieces, l, false),
                                     oracle_piece_lane(c->pieces, l, true)}});
        if (s->of[i] < 0 || blocks[i] < 1)
            st = pdl_fail(err, PDL_EINVAL, "too many kinds of stages");
    }
    s->full = 2 * c->mesh.pipe + stages + 1;
    return st;
}

static enum pdl_status find_split(struct oracle_compose *c, int64_t chunks,
                                  struct pdl_err *err)
{
    enum pdl_status st;

    for (int i = 0; i < c->nsplits; i++)
        if (c->splits[i]->chunks == chunks) {
            c->split = c->splits[i];
            return PDL_OK;
        }
    c->split = PDL_NEW(c->arena, struct split, 1);
    if (!c->split || c->nsplits == MAX_SPLITS)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    c->split->chunks = chunks;
    st = make_split(c, c->split, err);
    if (st == PDL_OK)
        c->splits[c->nsplits++] = c->split;
    return st;
}

/* Is lane b made of the same stages as a, with no more of them in flight? */
static bool no_fuller(const struct split *s, int64_t pipe, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < s->chunks; k++)
        if (s->of[k * pipe + a] != s->of[k * pipe + b] ||
            s->in_flight[a * s->chunks + k] < s->in_flight[b * s->chunks + k])
            return false;
    return true;
}

static void find_lanes(struct oracle_compose *c, int64_t m)
{
    struct split *s = c->split;
    int64_t pipe = c->mesh.pipe;

    if (s->micro == m || (s->micro >= s->full && m >= s->full))
        return;
    s->micro = m;
    s->nlanes = 0;
    for (int64_t l = 0; l < pipe; l++) {
        bool again = false;

        oracle_quick_flight(pipe, s->chunks, m, l,
                            &s->in_flight[l * s->chunks]);
        for (int k = 0; k < s->nlanes && !again; k++)
            again = no_fuller(s, pipe, s->lanes[k], l);
        if (!again)
            s->lanes[s->nlanes++] = (int)l;
    }
}

/* ---- the work of a stage ------------------------------------------------------------ */

static void add_times(struct stage_time *sum, const struct stage_time *t,
                      int64_t n)
{
    double k = (double)n;

    sum->forward += k * t->forward;
    sum->backward += k * t->backward;
    sum->recompute += k * t->recompute;
    sum->layer_comm += k * t->layer_comm;
    sum->layer_between += k * t->layer_between;
    sum->halo += k * t->halo;
    sum->p2p += k * t->p2p;
    sum->forward_comm += k * t->forward_comm;
    sum->backward_comm += k * t->backward_comm;
    sum->calls += n * t->calls;
}

/* How often part i of a pass comes in a stage of so many blocks. */
static int64_t times(const struct piece_work *w, int i, int64_t blocks)
{
    return w->parts > 1 && i == 1 ? blocks - 2 : 1;
}

static void time_class(const struct oracle_compose *c, struct class *x)
{
    const struct piece_work *w = x->work;
    struct stage_time t = {0};

    for (int i = 0; i < w->parts; i++)
        add_times(&t, &w->forward.time[i], times(w, i, x->blocks));
    x->forward_s = t.forward + t.forward_comm;
    t.forward += oracle_host_wait(&c->lite, x->forward_s, t.calls);
    t.calls = 0;
    for (int i = 0; i < w->parts; i++)
        add_times(&t, &w->backward.time[i], times(w, i, x->blocks));
    x->back_s = t.backward + t.backward_comm;
    t.backward += oracle_host_wait(&c->lite, x->back_s, t.calls);
    x->time = t;
}

static struct oracle_span pass_span(const struct piece_work *w,
                                    const struct piece_pass *p, int rank,
                                    int64_t blocks)
{
    struct oracle_span s = p->span[0][rank], middle;

    for (int i = 1; i < w->parts; i++) {
        middle = oracle_span_repeat(&p->span[i][rank], times(w, i, blocks));
        s = oracle_span_join(&s, &middle);
    }
    return s;
}

static enum pdl_status work_classes(struct oracle_compose *c,
                                    const struct oracle_point *x, int64_t m,
                                    struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct piece_works *w;
        enum pdl_status st =
            oracle_piece_work(c->pieces, x, m, k->blocks, k->lane[0], &w, err);

        if (st != PDL_OK)
            return st;
        k->work = &w->at[k->where];
        c->load = w->load;
        c->load.load_s *= (double)m;
        time_class(c, k);
        for (int r = 0; r < k->work->nranks; r++) {
            k->forward[r] = pass_span(k->work, &k->work->forward, r, k->blocks);
            k->backward[r] =
                pass_span(k->work, &k->work->backward, r, k->blocks);
        }
    }
    return PDL_OK;
}

/* The busiest lane, and what no schedule of these stages can be quicker than:
 * a lane's own work, after the forwards and before the backwards of the lanes
 * before it. */
static void find_worst(struct oracle_compose *c)
{
    const struct split *s = c->split;
    double before = 0;

    c->worst = 0;
    c->least = 0;
    for (int64_t l = 0; l < c->mesh.pipe; l++) {
        struct stage_time lane = {0};
        const struct stage_time *first = &s->classes[s->of[l]].time;
        double busy;

        for (int64_t k = 0; k < s->chunks; k++)
            oracle_add_stage(&lane,
                             &s->classes[s->of[k * c->mesh.pipe + l]].time);
        busy = oracle_stage_busy(&lane);
        if (l == 0 || busy > oracle_stage_busy(&c->lane)) {
            c->lane = lane;
            c->worst = (int)l;
        }
        c->least = fmax(c->least, before + c->micro_batches * busy);
        before += oracle_stage_busy(first);
    }
}

static enum pdl_status prepare(struct oracle_compose *c,
                               const struct oracle_point *x,
                               struct pdl_err *err)
{
    int64_t m = c->f->plan.batch / (x->data * x->micro);
    enum pdl_status st = oracle_piece_lanes(c->pieces, err);

    c->ready = false;
    if (x->chunks > 1 && m % x->pipe != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: interleaved stages need a multiple of "
                        "pipe=%lld micro-batches",
                        (long long)x->pipe);
    if (st == PDL_OK)
        st = find_split(c, x->chunks, err);
    if (st != PDL_OK)
        return st;
    c->strategy.schedule =
        x->chunks > 1 ? PDL_SCHEDULE_INTERLEAVED : PDL_SCHEDULE_1F1B;
    c->plan.lanes = (int)x->pipe;
    c->plan.nstages = (int)(x->pipe * x->chunks);
    c->plan.micro_batches = m;
    c->micro_batches = (double)m;
    find_lanes(c, m);
    st = work_classes(c, x, m, err);
    if (st != PDL_OK)
        return st;
    find_worst(c);
    c->span = -1;
    c->now = *x;
    c->ready = true;
    return PDL_OK;
}

static bool is_prepared(const struct oracle_compose *c,
                        const struct oracle_point *x)
{
    return c->ready && c->now.micro == x->micro && c->now.chunks == x->chunks &&
           c->now.recompute == x->recompute;
}

static enum pdl_status find_updates(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct piece_updates *u;
        enum pdl_status st;

        if (k->update[x->zero])
            continue;
        st = oracle_piece_update(c->pieces, x, k->blocks, k->lane[1], &u, err);
        if (st != PDL_OK)
            return st;
        k->update[x->zero] = &u->at[k->where];
    }
    return PDL_OK;
}

/* ---- memory -------------------------------------------------------------------------- */

/* Is rank r like an earlier one in all that counts? */
static bool is_alike(const struct split *s, int zero, int r)
{
    for (int i = 0; i < s->nclasses; i++)
        if (!s->classes[i].work->alike[r] ||
            !s->classes[i].update[zero]->alike[r])
            return false;
    return true;
}

static struct oracle_lived live(const struct class *k, int zero, int r)
{
    struct oracle_lived l = k->update[zero]->lived[r];

    l.input = k->work->input[r];
    l.label = k->work->label[r];
    l.written = k->work->written[r];
    l.forward = k->forward[r];
    l.backward = k->backward[r];
    return l;
}

static void fill_memory(const struct oracle_compose *c, int zero,
                        struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived stages[ORACLE_MAX_STAGES];

    for (int i = 0; i < s->nlanes; i++)
        for (int r = s->classes[0].work->nranks - 1; r >= 0; r--) {
            int64_t l = s->lanes[i];

            if (is_alike(s, zero, r))
                continue;
            for (int64_t k = 0; k < s->chunks; k++)
                stages[k] =
                    live(&s->classes[s->of[k * c->mesh.pipe + l]], zero, r);
            oracle_lane_memory(stages, &s->in_flight[l * s->chunks],
                               (int)s->chunks, out);
        }
    oracle_fill_device(&c->lite, out);
}

enum pdl_status oracle_compose_least(struct oracle_compose *c,
                                     const struct oracle_point *x,
                                     double *least_s, struct pdl_err *err)
{
    enum pdl_status st = is_prepared(c, x) ? PDL_OK : prepare(c, x, err);

    *least_s = c->least;
    return st;
}

enum pdl_status oracle_compose_memory(struct oracle_compose *c,
                                      const struct oracle_point *x,
                                      struct pdl_projection *out,
                                      double *least_s, struct pdl_err *err)
{
    enum pdl_status st = is_prepared(c, x) ? PDL_OK : prepare(c, x, err);

    if (st == PDL_OK)
        st = find_updates(c, x, err);
    if (st != PDL_OK)
        return st;
    *out = (struct pdl_projection){.reason = ""};
    fill_memory(c, x->zero, out);
    out->feasible = out->peak_bytes <= out->capacity_bytes;
    if (!out->feasible)
        out->reason = "more memory than a PE has";
    *least_s = c->least;
    return PDL_OK;
}

/* ---- time ---------------------------------------------------------------------------- */

/* The streams of a stage's last micro-batch. */
struct walk {
    const struct class *k;
    const struct piece_update *u;
    struct streams s;
    double *end;  /* of each step of the update */
    double *made; /* [block][tensor]; the last row is outside blocks */
    int tensors, next;
};

static double ready_at(const struct walk *w, const struct piece_step *x)
{
    int64_t row = x->block < 0 ? w->k->blocks : x->block;
    double t = x->wait >= 0 ? w->end[x->wait] : 0;

    if (x->after >= 0)
        t = fmax(t, w->end[x->after]);
    if (x->run.exchange && x->block > -2)
        t = fmax(t, w->made[row * w->tensors + x->tensor]);
    return t;
}

static void run_step(struct walk *w, int i)
{
    const struct piece_step *x = &w->u->steps[i];
    double took;

    w->end[i] = oracle_stream_step(&w->s, &x->run, ready_at(w, x), &took);
    w->end[i] += took;
}

/* Exchanges start in order, as soon as their gradients are there. */
static void start_exchanges(struct walk *w)
{
    for (; w->next < w->u->n; w->next++) {
        const struct piece_step *x = &w->u->steps[w->next];

        if (!x->run.exchange)
            continue;
        if (ready_at(w, x) > w->s.compute)
            return;
        run_step(w, w->next);
    }
}

/* One part of backward; first: the block of its stage that it starts with. */
static void run_part(struct walk *w, int part, int64_t first)
{
    const struct piece_work *p = w->k->work;

    for (int i = 0; i < p->nops[part]; i++) {
        const struct piece_op *x = &p->ops[part][i];
        struct stream_op run = {
            .seconds = x->seconds, .level = x->level, .comm = x->comm};
        double took;

        start_exchanges(w);
        oracle_stream_step(&w->s, &run, 0, &took);
        for (int k = 0; k < x->nmade; k++) {
            int64_t row =
                x->made[k].outside ? w->k->blocks : first + x->made[k].back;

            w->made[row * w->tensors + x->made[k].tensor] = w->s.compute;
        }
    }
}

static void run_backward(struct walk *w)
{
    int64_t n = w->k->blocks;

    if (w->k->work->parts == 1) {
        run_part(w, 0, 0);
        return;
    }
    run_part(w, 0, n - 1);
    for (int64_t i = n - 2; i > 0; i--)
        run_part(w, 1, i);
    run_part(w, 2, 0);
}

static double exposed(struct oracle_compose *c, const struct class *k, int zero)
{
    struct walk w = {.k = k,
                     .u = k->update[zero],
                     .s = {.compute = k->forward_s,
                           .overlap = true,
                           .shares = !oracle_without(&c->lite, ORACLE_SHARING),
                           .held = oracle_held(&c->lite)},
                     .end = c->end,
                     .made = c->made,
                     .tensors = c->f->model->ntensors};
    double backward_end;

    for (int i = 0; i < w.u->n; i++)
        w.end[i] = INFINITY;
    for (int64_t i = 0; i < (k->blocks + 1) * w.tensors; i++)
        w.made[i] = INFINITY;
    run_backward(&w);
    backward_end = w.s.compute - w.s.slowed;
    for (int i = 0; i < w.u->n; i++)
        if (!w.u->steps[i].run.exchange || i >= w.next)
            run_step(&w, i);
    return oracle_exposed(&w.s, backward_end, w.u->update);
}

static bool make_room(struct oracle_compose *c, int64_t tasks, int64_t steps)
{
    if (tasks > c->room) {
        c->room = 2 * tasks;
        c->scratch = PDL_NEW(c->arena, double, c->room);
    }
    if (steps > c->steps) {
        c->steps = 2 * steps;
        c->end = PDL_NEW(c->arena, double, c->steps);
    }
    return c->scratch && c->end;
}

static bool find_span(struct oracle_compose *c)
{
    const struct split *s = c->split;
    int64_t p = c->mesh.pipe, m = (int64_t)c->micro_batches;

    if (c->span >= 0)
        return true;
    if (!make_room(c, 2 * p * s->chunks * m + 8 * p, 1))
        return false;
    for (int64_t i = 0; i < p * s->chunks; i++) {
        const struct stage_time *t = &s->classes[s->of[i]].time;

        c->forward[i] = t->forward + t->forward_comm;
        c->backward[i] = t->backward + t->backward_comm;
    }
    c->span = oracle_quick_makespan(p, s->chunks, m, c->forward, c->backward,
                                    c->scratch);
    return c->span >= 0;
}

static bool overlaps(const struct oracle_compose *c,
                     const struct oracle_point *x)
{
    return !x->no_overlap && oracle_overlaps(&c->lite);
}

enum pdl_status oracle_compose_time(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out,
                                    struct pdl_err *err)
{
    const struct split *s = c->split;
    struct stage_time lane = c->lane;
    bool hides = overlaps(c, x);

    if (!find_span(c))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    out->contention = 0;
    for (int i = 0; i < s->nclasses; i++)
        out->contention = fmax(out->contention,
                               fmax(s->classes[i].work->contention,
                                    s->classes[i].update[x->zero]->contention));
    for (int64_t k = 0; k < s->chunks; k++) {
        const struct class *v = &s->classes[s->of[k * c->mesh.pipe + c->worst]];
        const struct piece_update *u = v->update[x->zero];

        if (!make_room(c, 1, u->n + 1))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        lane.update += u->update;
        lane.gradient_comm += u->gradient_comm;
        lane.exposed_gradients += hides ? exposed(c, v, x->zero) : u->apart;
    }
    oracle_fill_times(c->micro_batches, &lane, c->span, &c->load, out);
    out->pes = c->mesh.pipe * c->mesh.data * c->mesh.tensor;
    out->batch = c->f->plan.batch;
    oracle_fill_rates(&c->lite, c->f->model, c->f->forward_flops, out);
    return PDL_OK;
}

enum pdl_status oracle_compose(struct oracle_compose *c,
                               const struct oracle_point *x,
                               struct pdl_projection *out, struct pdl_err *err)
{
    double least;
    enum pdl_status st = oracle_compose_memory(c, x, out, &least, err);

    return st == PDL_OK ? oracle_compose_time(c, x, out, err) : st;
}
