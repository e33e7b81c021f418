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
#include "compose_priv.h"

#include <math.h>
#include <string.h>

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
    c->pes.pes = oracle_point_pes(mesh);
    c->plan.mesh = &c->pes;
    c->lite = (struct oracle){
        .p = &c->plan, .sys = f->sys, .opt = f->opt, .arena = a};
    c->plan.strategy = &c->strategy;
    c->plan.model = f->model;
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
            memcmp(s->classes[i].lane, x->lane, sizeof x->lane) == 0)
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
            s, &(struct class){
                   .where = where_is(i, stages),
                   .blocks = blocks[i],
                   .lane = {oracle_piece_lane(c->pieces, l, LANE_WORK),
                            oracle_piece_lane(c->pieces, l, LANE_UPDATE),
                            oracle_piece_lane(c->pieces, l, LANE_TRAFFIC)}});
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

/* What a pass took beyond its work; 0: what rounding leaves. */
static double waiting(double took, double work)
{
    return took - work > 1e-9 * took ? took - work : 0;
}

/* Seconds as the network, copies and the host's calls let them be. */
void oracle_time_ran(const struct oracle_compose *c, const struct class *k,
                     struct timed *x)
{
    struct stage_time *t = &x->time;

    *t = k->sums;
    t->forward_copy = x->ran.forward_copy;
    t->backward_copy = x->ran.backward_copy;
    if (c->traffic) {
        t->forward_comm += waiting(
            x->ran.forward, t->forward + t->forward_comm + t->forward_copy);
        t->backward_comm += waiting(
            x->ran.backward, t->backward + t->backward_comm + t->backward_copy);
        t->weights = k->work->shape->split ? x->ran.weights : 0;
    }
    t->forward += oracle_host_wait(&c->lite, x->ran.forward, k->calls[0]);
    t->backward += oracle_host_wait(&c->lite, x->ran.backward, k->calls[1]);
    t->calls = 0;
}

struct piece_run oracle_run_of(struct oracle_compose *c, const struct class *k,
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

void oracle_time_class(struct oracle_compose *c, struct class *k)
{
    const struct piece_work *w = k->work;
    struct stage_time t = {0};
    int flights = w->shape->copies ? 2 : 1; /* alone, and one of several */

    for (int i = 0; i < w->shape->parts; i++)
        add_times(&t, &w->forward[i],
                  oracle_part_times(w->shape, false, i, k->blocks));
    k->calls[0] = t.calls;
    for (int i = 0; i < w->shape->parts; i++)
        add_times(&t, &w->backward[i],
                  oracle_part_times(w->shape, true, i, k->blocks));
    k->calls[1] = t.calls - k->calls[0];
    k->sums = t;
    for (int f = 0; f < flights; f++) {
        struct timed *x = &k->timed[f];

        *x = (struct timed){.ran = {.forward = t.forward + t.forward_comm,
                                    .backward = t.backward + t.backward_comm,
                                    .weights = t.weights}};
        if (w->shape->copies && !c->traffic) {
            struct piece_run run = oracle_run_of(c, k, f);

            oracle_piece_run(&run, &x->ran);
        }
        oracle_time_ran(c, k, x);
    }
}

/* Stage k of lane l. */
struct timed *oracle_timed_of(const struct oracle_compose *c, int64_t l,
                              int64_t k)
{
    struct split *s = c->split;
    struct class *x = &s->classes[s->of[k * c->mesh.pipe + l]];

    return &x->timed[x->work->shape->copies &&
                     s->in_flight[l * s->chunks + k] > 1];
}

static struct oracle_span pass_span(const struct class *k,
                                    const struct oracle_span *parts, bool back)
{
    const struct piece_shape *x = k->work->shape;
    struct oracle_span s = parts[0], more;

    for (int i = 1; i < x->parts; i++) {
        more = oracle_span_repeat(&parts[i],
                                  oracle_part_times(x, back, i, k->blocks));
        s = oracle_span_join(&s, &more);
    }
    return s;
}

/* Live bytes of its passes; false: out of memory. */
static bool live_class(struct oracle_compose *c, struct class *k)
{
    int slots = k->works->ranks->slots;

    if (slots > k->slots) {
        k->live = PDL_NEW(c->arena, struct class_live, slots);
        k->slots = k->live ? slots : 0;
    }
    for (int r = 0; k->live && r < slots; r++) {
        const struct piece_live *l = &k->work->live[r];
        struct class_live *x = &k->live[r];

        x->forward = pass_span(k, l->forward, false);
        x->backward = pass_span(k, l->backward, true);
        if (k->work->shape->split)
            x->late = pass_span(k, l->late, true);
    }
    return k->live != NULL;
}

static enum pdl_status work_classes(struct oracle_compose *c,
                                    const struct oracle_point *x, int64_t m,
                                    struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct piece_works *w;
        enum pdl_status st = oracle_piece_work(
            c->pieces, x, m, k->blocks,
            k->lane[c->traffic ? LANE_TRAFFIC : LANE_WORK], &w, err);

        if (st != PDL_OK)
            return st;
        k->works = w;
        k->work = &w->at[k->where];
        c->load = w->load;
        c->load.load_s *= (double)m;
        if (!c->traffic)
            oracle_time_class(c, k);
        if (!live_class(c, k))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    return PDL_OK;
}

/* All stages of a lane, one micro-batch. */
struct stage_time oracle_lane_time(const struct oracle_compose *c, int64_t l)
{
    struct stage_time lane = {0};

    for (int64_t k = 0; k < c->split->chunks; k++)
        oracle_add_stage(&lane, &oracle_timed_of(c, l, k)->time);
    return lane;
}

/* What no schedule of these stages can be quicker than: a lane's own work,
 * after the forwards and before the backwards of the lanes before it. */
static void find_least(struct oracle_compose *c)
{
    double before = 0;

    c->least = 0;
    for (int64_t l = 0; l < c->mesh.pipe; l++) {
        struct stage_time lane = oracle_lane_time(c, l);

        c->least = fmax(c->least,
                        before + c->micro_batches * oracle_stage_busy(&lane));
        if (!c->bubble) /* else steps begin and end one after the other */
            before += oracle_stage_busy(&oracle_timed_of(c, l, 0)->time);
    }
}

bool oracle_point_overlaps(const struct oracle_compose *c,
                           const struct oracle_point *x)
{
    return !x->no_overlap && oracle_overlaps(&c->lite);
}

/* Are two points of a mesh alike, but for sharding, overlap and optimizer? */
static bool same_passes(const struct oracle_point *a,
                        const struct oracle_point *b)
{
    return a->micro == b->micro && a->chunks == b->chunks &&
           a->recompute == b->recompute && a->bubble == b->bubble &&
           a->activations == b->activations;
}

/* Is what is prepared of the same bytes? */
static bool has_bytes_of(const struct oracle_compose *c,
                         const struct oracle_point *x)
{
    return c->ready && same_passes(&c->now, x) &&
           oracle_work_zero(&c->now) == oracle_work_zero(x);
}

/* Where weights travel, stages take no less time than where they do not. */
static void keep_floor(struct oracle_compose *c, const struct oracle_point *x)
{
    if (!same_passes(&c->floor_of, x))
        c->floor[0] = c->floor[1] = 0;
    c->floor_of = *x;
    c->floor[x->no_overlap] = c->least;
    if (!x->activations)
        c->floor[!x->no_overlap] = c->least;
}

static double floor_of(const struct oracle_compose *c,
                       const struct oracle_point *x)
{
    return same_passes(&c->floor_of, x) ? c->floor[x->no_overlap] : 0;
}

static enum pdl_status prepare(struct oracle_compose *c,
                               const struct oracle_point *x,
                               struct pdl_err *err)
{
    int64_t m = c->f->plan.batch / (oracle_point_replicas(x) * x->micro);
    enum pdl_status st = oracle_piece_lanes(c->pieces, err);

    if (!has_bytes_of(c, x))
        memset(c->known, 0, sizeof c->known);
    c->ready = false;
    c->strategy.offload_activations = x->activations;
    c->strategy.offload_optimizer = false;
    c->strategy.zero = oracle_work_zero(x);
    c->traffic = oracle_work_zero(x) > 0;
    c->ran = false;
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
    c->overlap = oracle_point_overlaps(c, x);
    find_lanes(c, m);
    st = work_classes(c, x, m, err);
    if (st != PDL_OK)
        return st;
    if (c->traffic) {
        c->least = floor_of(c, x);
    } else {
        find_least(c);
        keep_floor(c, x);
    }
    c->span = -1;
    c->now = *x;
    c->ready = true;
    return PDL_OK;
}

/* Passes do not depend on overlap, unless something runs beside them. */
static bool is_prepared(const struct oracle_compose *c,
                        const struct oracle_point *x)
{
    return has_bytes_of(c, x) && (!(x->activations || c->traffic) ||
                                  c->now.no_overlap == x->no_overlap);
}

enum pdl_status oracle_compose_prepare(struct oracle_compose *c,
                                       const struct oracle_point *x,
                                       struct pdl_err *err)
{
    return is_prepared(c, x) ? PDL_OK : prepare(c, x, err);
}

enum pdl_status oracle_compose_least(struct oracle_compose *c,
                                     const struct oracle_point *x,
                                     double *least_s, struct pdl_err *err)
{
    struct oracle_point base = *x;
    enum pdl_status st = PDL_OK;

    if (oracle_work_zero(x) > 0 && floor_of(c, x) > 0) {
        *least_s = floor_of(c, x);
        return PDL_OK;
    }
    base.zero = oracle_work_zero(x) > 0 ? 0 : x->zero;
    st = oracle_compose_prepare(c, &base, err);
    *least_s = c->least;
    return st;
}

enum pdl_status oracle_compose_updates(struct oracle_compose *c,
                                       const struct oracle_point *x,
                                       struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct piece_updates *u;
        enum pdl_status st;

        if (k->update[x->zero][x->optimizer])
            continue;
        st = oracle_piece_update(c->pieces, x, k->blocks, k->lane[LANE_UPDATE],
                                 &u, err);
        if (st != PDL_OK)
            return st;
        k->update[x->zero][x->optimizer] = &u->at[k->where];
        k->update_ranks[x->zero] = u->ranks;
    }
    return PDL_OK;
}
