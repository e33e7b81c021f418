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

/* A stage's passes; with copies to the host it matters whether several
 * micro-batches are in flight. */
struct timed {
    struct stage_time time;
    struct piece_ran ran; /* without the host's calls */
    bool shown[2][2];     /* by zero and optimizer: what follows is known */
    double exposed[2][2], copy[2][2];
};

/* Stages that are alike. */
struct class
{
    enum piece_where where;
    int64_t blocks;
    int lane[2]; /* its kinds, for work and for updates */
    const struct piece_works *works;
    const struct piece_work *work;
    const struct piece_updates *updates[2][2]; /* by zero and optimizer */
    const struct piece_update *update[2][2];
    struct timed timed[2];
    struct oracle_span forward[PIECE_RANKS], backward[PIECE_RANKS];
    struct oracle_span late[PIECE_RANKS];
};

/* The stages of one number of chunks. */
struct split {
    int64_t chunks;
    bool bubble; /* backward in two tasks */
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
    struct oracle_forms *forms;
    struct oracle_pieces *pieces;
    struct oracle lite; /* options and system; no plan */
    struct oracle_changed changed;
    struct pdl_plan plan; /* its pipeline only */
    struct pdl_mesh pes;  /* how many */
    struct pdl_strategy strategy;
    struct split *splits[MAX_SPLITS];
    int nsplits;
    struct split *split; /* of `now` */
    struct oracle_loading load;
    struct pdl_projection memory[2][2]; /* by zero and optimizer */
    bool known[2][2];
    double micro_batches, span, least;
    double *spans; /* of each lane */
    int bubble;
    bool overlap; /* of what is prepared, where activations leave */
    double held;
    double *forward, *backward, *weights, *scratch, *end, *made;
    int64_t room, steps;
};

struct oracle_compose *oracle_compose_make(pdl_arena *a, struct oracle_forms *g,
                                           const struct oracle_family *f,
                                           const struct oracle_point *mesh)
{
    struct oracle_compose *c = PDL_NEW(a, struct oracle_compose, 1);

    if (!c)
        return NULL;
    c->f = f;
    c->mesh = *mesh;
    c->arena = a;
    c->forms = g;
    c->pieces = oracle_pieces_make(a, g, mesh);
    c->pes.pes = mesh->tensor * mesh->pipe * mesh->data;
    c->plan.mesh = &c->pes;
    c->lite = (struct oracle){
        .p = &c->plan, .sys = f->sys, .opt = f->opt, .arena = a};
    c->plan.strategy = &c->strategy;
    oracle_settle(&c->lite, &c->changed);
    c->held = oracle_held(&c->lite);
    c->forward = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->backward = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->weights = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->spans = PDL_NEW(a, double, ORACLE_MAX_STAGES);
    c->made = PDL_NEW(a, double, (f->layers + 1) * f->model->ntensors);
    return c->pieces && c->forward && c->backward && c->weights && c->spans &&
                   c->made
               ? c
               : NULL;
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
    int64_t stages = c->mesh.pipe * s->chunks;
    const int64_t *blocks;
    enum pdl_status st;

    if (stages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (stages > c->f->layers)
        return pdl_fail(err, PDL_EINVAL, "%lld stages, but %lld blocks",
                        (long long)stages, (long long)c->f->layers);
    s->of = PDL_NEW(c->arena, int, stages);
    s->in_flight = PDL_NEW(c->arena, int64_t, stages);
    s->lanes = PDL_NEW(c->arena, int, c->mesh.pipe);
    st = s->of && s->in_flight && s->lanes
             ? oracle_form_blocks(c->forms, stages, &blocks, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
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
                                  bool bubble, struct pdl_err *err)
{
    enum pdl_status st;

    for (int i = 0; i < c->nsplits; i++)
        if (c->splits[i]->chunks == chunks && c->splits[i]->bubble == bubble) {
            c->split = c->splits[i];
            return PDL_OK;
        }
    c->split = PDL_NEW(c->arena, struct split, 1);
    if (!c->split || c->nsplits == MAX_SPLITS)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    c->split->chunks = chunks;
    c->split->bubble = bubble;
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
    sum->weights += k * t->weights;
}

/* Seconds as the host lets them be. */
static void wait_for_host(const struct oracle_compose *c, struct timed *x,
                          int64_t forward, int64_t backward)
{
    x->time.forward += oracle_host_wait(&c->lite, x->ran.forward, forward);
    x->time.backward += oracle_host_wait(&c->lite, x->ran.backward, backward);
}

static struct piece_run run_of(struct oracle_compose *c, const struct class *k,
                               bool flying)
{
    return (struct piece_run){
        .work = k->work,
        .blocks = k->blocks,
        .overlap = c->overlap,
        .shares = !oracle_without(&c->lite, ORACLE_SHARING),
        .flying = flying,
        .held = c->overlap ? c->held : 0,
        .tensors = c->f->model->ntensors,
        .end = c->end,
        .made = c->made};
}

static void time_class(struct oracle_compose *c, struct class *k)
{
    const struct piece_work *w = k->work;
    struct stage_time t = {0};
    int flights = w->shape->copies ? 2 : 1; /* alone, and one of several */
    int64_t calls;

    for (int i = 0; i < w->shape->parts; i++)
        add_times(&t, &w->forward[i],
                  oracle_part_times(w->shape, false, i, k->blocks));
    calls = t.calls;
    for (int i = 0; i < w->shape->parts; i++)
        add_times(&t, &w->backward[i],
                  oracle_part_times(w->shape, true, i, k->blocks));
    for (int f = 0; f < flights; f++) {
        struct timed *x = &k->timed[f];

        *x = (struct timed){.time = t};
        x->ran = (struct piece_ran){.forward = t.forward + t.forward_comm,
                                    .backward = t.backward + t.backward_comm};
        if (w->shape->copies) {
            struct piece_run run = run_of(c, k, f);

            oracle_piece_run(&run, &x->ran);
            x->time.forward_copy = x->ran.forward_copy;
            x->time.backward_copy = x->ran.backward_copy;
        }
        wait_for_host(c, x, calls, t.calls - calls);
        x->time.calls = 0;
    }
}

/* Stage k of lane l. */
static struct timed *timed_of(const struct oracle_compose *c, int64_t l,
                              int64_t k)
{
    struct split *s = c->split;
    struct class *x = &s->classes[s->of[k * c->mesh.pipe + l]];

    return &x->timed[x->work->shape->copies &&
                     s->in_flight[l * s->chunks + k] > 1];
}

static struct oracle_span
pass_span(const struct class *k, const struct oracle_span (*parts)[PIECE_RANKS],
          bool back, int rank)
{
    const struct piece_shape *x = k->work->shape;
    struct oracle_span s = parts[0][rank], more;

    for (int i = 1; i < x->parts; i++) {
        more = oracle_span_repeat(&parts[i][rank],
                                  oracle_part_times(x, back, i, k->blocks));
        s = oracle_span_join(&s, &more);
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
        k->works = w;
        k->work = &w->at[k->where];
        c->load = w->load;
        c->load.load_s *= (double)m;
        time_class(c, k);
        for (int r = 0; r < w->nranks; r++) {
            k->forward[r] = pass_span(k, k->work->live->forward, false, r);
            k->backward[r] = pass_span(k, k->work->live->backward, true, r);
            if (k->work->shape->split)
                k->late[r] = pass_span(k, k->work->live->late, true, r);
        }
    }
    return PDL_OK;
}

/* All stages of a lane, one micro-batch. */
static struct stage_time lane_time(struct oracle_compose *c, int64_t l)
{
    struct stage_time lane = {0};

    for (int64_t k = 0; k < c->split->chunks; k++)
        oracle_add_stage(&lane, &timed_of(c, l, k)->time);
    return lane;
}

/* What no schedule of these stages can be quicker than: a lane's own work,
 * after the forwards and before the backwards of the lanes before it. */
static void find_least(struct oracle_compose *c)
{
    double before = 0;

    c->least = 0;
    for (int64_t l = 0; l < c->mesh.pipe; l++) {
        struct stage_time lane = lane_time(c, l);

        c->least = fmax(c->least,
                        before + c->micro_batches * oracle_stage_busy(&lane));
        if (!c->bubble) /* else steps begin and end one after the other */
            before += oracle_stage_busy(&timed_of(c, l, 0)->time);
    }
}

static bool overlaps(const struct oracle_compose *c,
                     const struct oracle_point *x)
{
    return !x->no_overlap && oracle_overlaps(&c->lite);
}

/* Is what is prepared of the same bytes? */
static bool has_bytes_of(const struct oracle_compose *c,
                         const struct oracle_point *x)
{
    return c->ready && c->now.micro == x->micro && c->now.chunks == x->chunks &&
           c->now.recompute == x->recompute && c->now.bubble == x->bubble &&
           c->now.activations == x->activations;
}

static enum pdl_status prepare(struct oracle_compose *c,
                               const struct oracle_point *x,
                               struct pdl_err *err)
{
    int64_t m = c->f->plan.batch / (x->data * x->micro);
    enum pdl_status st = oracle_piece_lanes(c->pieces, err);

    if (!has_bytes_of(c, x))
        memset(c->known, 0, sizeof c->known);
    c->ready = false;
    c->strategy.offload_activations = x->activations;
    c->strategy.offload_optimizer = false;
    if (x->activations && oracle_host_known(&c->lite, err) != PDL_OK)
        return PDL_EINVAL;
    if (x->chunks > 1 && m % x->pipe != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: interleaved stages need a multiple of "
                        "pipe=%lld micro-batches",
                        (long long)x->pipe);
    if (st == PDL_OK)
        st = find_split(c, x->chunks, x->bubble > 0, err);
    if (st != PDL_OK)
        return st;
    c->bubble = x->bubble;
    c->strategy.schedule =
        x->chunks > 1 ? PDL_SCHEDULE_INTERLEAVED : PDL_SCHEDULE_1F1B;
    c->plan.lanes = (int)x->pipe;
    c->plan.nstages = (int)(x->pipe * x->chunks);
    c->plan.micro_batches = m;
    c->micro_batches = (double)m;
    c->overlap = overlaps(c, x);
    find_lanes(c, m);
    st = work_classes(c, x, m, err);
    if (st != PDL_OK)
        return st;
    find_least(c);
    c->span = -1;
    c->now = *x;
    c->ready = true;
    return PDL_OK;
}

static bool is_prepared(const struct oracle_compose *c,
                        const struct oracle_point *x)
{
    return has_bytes_of(c, x) &&
           (!x->activations || c->now.no_overlap == x->no_overlap);
}

static enum pdl_status find_updates(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct piece_updates *u;
        enum pdl_status st;

        if (k->update[x->zero][x->optimizer])
            continue;
        st = oracle_piece_update(c->pieces, x, k->blocks, k->lane[1], &u, err);
        if (st != PDL_OK)
            return st;
        k->updates[x->zero][x->optimizer] = u;
        k->update[x->zero][x->optimizer] = &u->at[k->where];
    }
    return PDL_OK;
}

/* ---- memory -------------------------------------------------------------------------- */

/* Is rank r like an earlier one in all that counts? */
static bool is_alike(const struct split *s, const struct oracle_point *x, int r)
{
    return s->classes[0].works->alike[r] &&
           s->classes[0].updates[x->zero][x->optimizer]->alike[r];
}

static void live(const struct class *k, const struct oracle_point *x, int r,
                 bool flying, struct oracle_lived *l)
{
    const struct piece_lives *w = k->work->live;

    *l = k->update[x->zero][x->optimizer]->lived[r];
    l->input = w->input[r];
    l->label = w->label[r];
    l->written = w->written[r];
    l->ahead = flying ? w->ahead[r] : 0;
    l->forward = k->forward[r];
    l->backward = k->backward[r];
    l->late = k->late[r];
}

/* One rank of every lane that none is fuller than. */
static void live_rank(const struct oracle_compose *c,
                      const struct oracle_point *x, int r,
                      struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived lived[2 * MAX_CLASSES];
    const struct oracle_lived *stages[ORACLE_MAX_STAGES];
    bool done[2 * MAX_CLASSES] = {false};

    for (int i = 0; i < s->nlanes; i++) {
        int64_t l = s->lanes[i];

        for (int64_t k = 0; k < s->chunks; k++) {
            int class = s->of[k * c->mesh.pipe + l];
            bool flying = x->activations && s->in_flight[l * s->chunks + k] > 1;
            int at = 2 * class + flying;

            if (!done[at])
                live(&s->classes[class], x, r, flying, &lived[at]);
            done[at] = true;
            stages[k] = &lived[at];
        }
        oracle_lane_memory(stages, &s->in_flight[l * s->chunks], (int)s->chunks,
                           out);
    }
}

/* With backward in two tasks no two lanes hold the same. */
static void live_apart(const struct oracle_compose *c,
                       const struct oracle_point *x, int r,
                       struct pdl_projection *out)
{
    const struct split *s = c->split;
    struct oracle_lived lived[MAX_CLASSES];

    for (int i = 0; i < s->nclasses; i++)
        live(&s->classes[i], x, r, false, &lived[i]);
    for (int64_t l = 0; l < c->mesh.pipe; l++)
        oracle_zero_bubble_memory(
            &lived[s->of[l]],
            oracle_zero_bubble_warm(c->mesh.pipe, x->bubble, l),
            oracle_zero_bubble_defer(x->bubble, l), c->plan.micro_batches, out);
}

/* Overlap or not, it is the same. */
static void fill_memory(struct oracle_compose *c, const struct oracle_point *x,
                        struct pdl_projection *out)
{
    struct pdl_projection *known = &c->memory[x->zero][x->optimizer];

    if (!c->known[x->zero][x->optimizer]) {
        *known = (struct pdl_projection){.reason = ""};
        for (int r = c->split->classes[0].works->nranks - 1; r >= 0; r--)
            if (!is_alike(c->split, x, r) && x->bubble)
                live_apart(c, x, r, known);
            else if (!is_alike(c->split, x, r))
                live_rank(c, x, r, known);
        oracle_fill_device(&c->lite, known);
        c->known[x->zero][x->optimizer] = true;
    }
    *out = *known;
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
    bool fits;

    c->strategy.offload_optimizer = x->optimizer;
    if (st == PDL_OK && x->optimizer)
        st = oracle_host_known(&c->lite, err);
    if (st == PDL_OK)
        st = find_updates(c, x, err);
    if (st != PDL_OK)
        return st;
    fill_memory(c, x, out);
    fits = oracle_host_fits(&c->lite, out);
    out->feasible = out->peak_bytes <= out->capacity_bytes;
    if (!out->feasible)
        out->reason = "more memory than a PE has";
    else if (!fits)
        out->reason = "more memory than a host has";
    out->feasible = out->feasible && fits;
    *least_s = c->least;
    return PDL_OK;
}

/* ---- time ---------------------------------------------------------------------------- */

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
        const struct stage_time *t = &timed_of(c, i % p, i / p)->time;

        c->forward[i] = t->forward + t->forward_comm + t->forward_copy;
        c->backward[i] = t->backward + t->backward_comm + t->backward_copy;
        c->weights[i] = fmin(t->weights, c->backward[i]);
    }
    if (c->bubble) {
        for (int64_t i = 0; i < p; i++)
            c->backward[i] -= c->weights[i];
        c->span =
            oracle_quick_zero_bubble(p, c->bubble, m, c->forward, c->backward,
                                     c->weights, c->scratch, c->spans);
        return true;
    }
    c->span = oracle_quick_makespan(p, s->chunks, m, c->forward, c->backward,
                                    c->scratch, c->spans);
    return c->span >= 0;
}

/* What exchange and the optimizer's copies show of a stage. */
static bool show(struct oracle_compose *c, const struct oracle_point *x,
                 const struct class *k, bool flying, struct timed *t)
{
    int z = x->zero, o = x->optimizer;
    const struct piece_update *u = k->update[z][o];
    struct piece_run run;

    if (t->shown[z][o])
        return true;
    if (!make_room(c, 1, u->n + 1))
        return false;
    run = run_of(c, k, flying);
    run.overlap = true;
    run.held = c->held;
    t->exposed[z][o] = oracle_piece_exposed(&run, u, &t->ran, &t->copy[z][o]);
    t->shown[z][o] = true;
    return true;
}

/* Exchange and update of a lane, added to it; false: out of memory. */
static bool add_update(struct oracle_compose *c, const struct oracle_point *x,
                       int64_t l, struct stage_time *lane)
{
    const struct split *s = c->split;
    bool hides = overlaps(c, x);

    for (int64_t k = 0; k < s->chunks; k++) {
        const struct class *v = &s->classes[s->of[k * c->mesh.pipe + l]];
        const struct piece_update *u = v->update[x->zero][x->optimizer];
        struct timed *t = timed_of(c, l, k);

        if (hides && !show(c, x, v, t == &v->timed[1], t))
            return false;
        lane->update += u->update;
        lane->gradient_comm += u->gradient_comm;
        lane->exposed_gradients +=
            hides ? t->exposed[x->zero][x->optimizer] : u->apart;
        lane->update_copy +=
            hides ? t->copy[x->zero][x->optimizer] : u->apart_copy;
    }
    return true;
}

/* What a lane's exchange and update show at most: all of it after backward,
 * which was slowed as much as it can be, kernels by what exchange holds of the
 * PE, collectives (and exchange by them) by half of the adapters. */
static double most_tail(const struct oracle_compose *c,
                        const struct oracle_point *x, int64_t l)
{
    const struct split *s = c->split;
    double slower = c->held / (1 - c->held), sum = 0;

    for (int64_t k = 0; k < s->chunks; k++) {
        const struct class *v = &s->classes[s->of[k * c->mesh.pipe + l]];
        const struct stage_time *t = &timed_of(c, l, k)->time;

        sum += v->update[x->zero][x->optimizer]->all + slower * t->backward +
               2 * t->backward_comm;
    }
    return sum;
}

/* The lane that takes longest, as project.c has it; < 0: out of memory. */
static int64_t critical(struct oracle_compose *c, const struct oracle_point *x)
{
    double longest = -1;
    int64_t worst = 0;

    for (int64_t l = 0; l < c->mesh.pipe; l++) {
        struct stage_time tail = {0};

        if (c->spans[l] + most_tail(c, x, l) < longest)
            continue;
        if (!add_update(c, x, l, &tail))
            return -1;
        if (c->spans[l] + oracle_stage_tail(&tail) > longest) {
            longest = c->spans[l] + oracle_stage_tail(&tail);
            worst = l;
        }
    }
    return worst;
}

enum pdl_status oracle_compose_time(struct oracle_compose *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out,
                                    struct pdl_err *err)
{
    const struct split *s = c->split;
    struct stage_time lane;
    int64_t worst = find_span(c) ? critical(c, x) : -1;

    if (worst < 0)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    lane = lane_time(c, worst);
    add_update(c, x, worst, &lane);
    out->contention = 0;
    for (int i = 0; i < s->nclasses; i++) {
        const struct class *k = &s->classes[i];

        out->contention =
            fmax(out->contention,
                 fmax(k->work->contention,
                      k->update[x->zero][x->optimizer]->contention));
    }
    oracle_fill_times(c->micro_batches, &lane, c->spans[worst], &c->load, out);
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
