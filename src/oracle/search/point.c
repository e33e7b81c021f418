/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole-model configuration from pieces. Seconds of a stage add up over its
 * blocks, what is live adds up along them, gradient exchange is run on the
 * streams (streams.c), the pipeline has the span of its tasks: the
 * functions are those that price a lowered plan, only their arguments come
 * from pieces. A test compares every figure with that plan's.
 *
 * What points have in common is kept: the work of stages and the span of the
 * pipeline hold for every choice of sharded states, overlap and the like. */
#include "oracle/search/point_priv.h"

#include <math.h>
#include <string.h>

struct oracle_pricer *oracle_pricer_make(pdl_arena *a,
                                         struct oracle_block_plans *g,
                                         const struct oracle_family *f,
                                         const struct oracle_point *mesh)
{
    struct oracle_pricer *c = PDL_NEW(a, struct oracle_pricer, 1);

    if (!c)
        return NULL;
    c->f = f;
    c->mesh = *mesh;
    c->arena = a;
    c->forms = g;
    c->pieces = oracle_mesh_make(a, g, mesh);
    c->pes.pes = oracle_point_pes(mesh);
    c->plan.mesh = &c->pes;
    c->plan.model = f->model;
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
    c->made = PDL_NEW(a, double, 2 * (f->layers + 1) * f->model->ntensors);
    c->back =
        PDL_NEW(a, double, oracle_run_back(&(struct stage_passes){.back = 32}));
    return c->pieces && c->forward && c->backward && c->weights && c->spans &&
                   c->made && c->back
               ? c
               : NULL;
}

/* ---- stages ---------------------------------------------------------------------- */

static int lane_of(const struct oracle_pricer *c, int64_t stage)
{
    return pdl_schedule_lane(c->strategy.schedule, c->plan.lanes, (int)stage);
}

static enum stage_place where_is(const struct oracle_pricer *c,
                                 const struct split *s, int64_t stage)
{
    if (stage == 0)
        return PLACE_FIRST;
    if (stage == c->mesh.pipe * s->chunks - 1)
        return PLACE_LAST;
    if (lane_of(c, stage) == lane_of(c, stage + 1))
        return PLACE_DOWN;
    return lane_of(c, stage) == lane_of(c, stage - 1) ? PLACE_UP : PLACE_MIDDLE;
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

static enum pdl_status make_split(struct oracle_pricer *c, struct split *s,
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
             ? oracle_stage_blocks(c->forms, stages, &blocks, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; st == PDL_OK && i < stages; i++) {
        int64_t l = i % c->mesh.pipe;
        int64_t stage = oracle_stage_of(c, l, i / c->mesh.pipe);

        s->of[i] = class_of(
            s, &(struct class){
                   .where = where_is(c, s, stage),
                   .blocks = blocks[stage],
                   .lane = {oracle_mesh_lane(c->pieces, l, LANE_WORK),
                            oracle_mesh_lane(c->pieces, l, LANE_UPDATE),
                            oracle_mesh_lane(c->pieces, l, LANE_TRAFFIC)}});
        if (s->of[i] < 0 || blocks[stage] < 1)
            st = pdl_fail(err, PDL_EINVAL, "too many kinds of stages");
    }
    /* interleaved stages take as many micro-batches as lanes at a time */
    s->full = 3 * c->mesh.pipe + stages;
    return st;
}

static enum pdl_status find_split(struct oracle_pricer *c, int64_t chunks,
                                  bool bubble, struct pdl_err *err)
{
    enum pdl_status st;

    for (struct split *s = c->splits; s; s = s->next)
        if (s->chunks == chunks && s->bubble == bubble) {
            c->split = s;
            return PDL_OK;
        }
    c->split = PDL_NEW(c->arena, struct split, 1);
    if (!c->split)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    c->split->chunks = chunks;
    c->split->bubble = bubble;
    st = make_split(c, c->split, err);
    if (st == PDL_OK) {
        c->split->next = c->splits;
        c->splits = c->split;
    }
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

struct oracle_order *oracle_point_order(struct oracle_pricer *c, bool brief)
{
    const struct split *s = c->split;
    int64_t m = c->plan.micro_batches;
    struct pdl_tasks shape = {.schedule = c->strategy.schedule,
                              .lanes = c->plan.lanes,
                              .nstages = c->plan.nstages,
                              .micro = brief && m > s->full ? s->full : m};
    struct oracle_order *o =
        &c->order[(2 * (int)shape.schedule + brief) % KEPT_ORDERS];
    bool ok = true;

    if (o->schedule != shape.schedule || o->lanes != shape.lanes ||
        o->nstages != shape.nstages || o->micro != shape.micro)
        ok = oracle_order_fill(o, c->arena,
                               oracle_block_plans_scratch(c->forms), &shape);
    if (ok && brief && pdl_schedule_splits(shape.schedule))
        ok = oracle_order_runs(o, c->arena,
                               oracle_block_plans_scratch(c->forms));
    pdl_arena_reset(oracle_block_plans_scratch(c->forms));
    if (!ok)
        o->micro = 0;
    return ok ? o : NULL;
}

/* False: out of memory. */
static bool find_lanes(struct oracle_pricer *c, int64_t m)
{
    struct split *s = c->split;
    const struct oracle_order *o;
    int64_t pipe = c->mesh.pipe;

    if (s->schedule == c->strategy.schedule &&
        (s->micro == m || (s->micro >= s->full && m >= s->full)))
        return true;
    o = oracle_point_order(c, true);
    if (!o)
        return false;
    s->schedule = c->strategy.schedule;
    s->micro = m;
    s->nlanes = 0;
    for (int64_t l = 0; l < pipe; l++) {
        bool again = false;

        for (int64_t k = 0; k < s->chunks; k++)
            s->in_flight[l * s->chunks + k] =
                o->in_flight[oracle_stage_of(c, l, k)];
        for (int k = 0; k < s->nlanes && !again; k++)
            again = no_fuller(s, pipe, s->lanes[k], l);
        if (!again)
            s->lanes[s->nlanes++] = (int)l;
    }
    return true;
}

/* ---- the work of stages -------------------------------------------------------------- */

static enum pdl_status work_classes(struct oracle_pricer *c,
                                    const struct oracle_point *x, int64_t m,
                                    struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct stage_works *w;
        enum pdl_status st = oracle_mesh_work(
            c->pieces, x, m, k->blocks,
            k->lane[c->traffic ? LANE_TRAFFIC : LANE_WORK], &w, err);

        if (st != PDL_OK)
            return st;
        k->works = w;
        k->work = &w->at[k->where];
        c->load = w->load;
        c->load.load_s *= (double)m;
        if (!oracle_find_passes(c, x, k))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    return PDL_OK;
}

/* All stages of a lane, one micro-batch. */
struct stage_time oracle_lane_time(const struct oracle_pricer *c, int64_t l)
{
    struct stage_time lane = {0};

    for (int64_t k = 0; k < c->split->chunks; k++)
        oracle_add_stage(&lane, &oracle_timed_of(c, l, k)->time);
    return lane;
}

/* What no schedule of these stages can be quicker than: a lane's own work,
 * after the forwards and before the backwards of the lanes before it. */
static void find_least(struct oracle_pricer *c)
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

bool oracle_point_overlaps(const struct oracle_pricer *c,
                           const struct oracle_point *x)
{
    return !x->no_overlap && oracle_overlaps(&c->lite);
}

bool oracle_same_passes(const struct oracle_point *a,
                        const struct oracle_point *b)
{
    return a->micro == b->micro && a->chunks == b->chunks &&
           a->recompute == b->recompute && a->bubble == b->bubble &&
           a->activations == b->activations;
}

/* Is what is prepared of the same bytes? */
static bool has_bytes_of(const struct oracle_pricer *c,
                         const struct oracle_point *x)
{
    return c->ready && oracle_same_passes(&c->now, x) &&
           oracle_work_zero(&c->now) == oracle_work_zero(x);
}

/* Where weights travel, stages take no less time than where they do not. */
static void keep_floor(struct oracle_pricer *c, const struct oracle_point *x)
{
    if (!oracle_same_passes(&c->floor_of, x))
        c->floor[0] = c->floor[1] = 0;
    c->floor_of = *x;
    c->floor[x->no_overlap] = c->least;
    if (!x->activations)
        c->floor[!x->no_overlap] = c->least;
}

static double floor_of(const struct oracle_pricer *c,
                       const struct oracle_point *x)
{
    return oracle_same_passes(&c->floor_of, x) ? c->floor[x->no_overlap] : 0;
}

static enum pdl_status prepare(struct oracle_pricer *c,
                               const struct oracle_point *x,
                               struct pdl_err *err)
{
    int64_t m = c->f->plan.batch / (oracle_point_replicas(x) * x->micro);
    enum pdl_status st = oracle_mesh_lanes(c->pieces, err);

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
    c->strategy.schedule = oracle_point_schedule(x);
    c->plan.lanes = (int)x->pipe;
    if (st == PDL_OK)
        st = find_split(c, oracle_point_chunks(x), x->bubble > 0, err);
    if (st != PDL_OK)
        return st;
    c->bubble = x->bubble;
    c->plan.nstages = (int)(x->pipe * oracle_point_chunks(x));
    c->plan.micro_batches = m;
    c->micro_batches = (double)m;
    c->overlap = oracle_point_overlaps(c, x);
    if (!find_lanes(c, m))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
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
static bool is_prepared(const struct oracle_pricer *c,
                        const struct oracle_point *x)
{
    return has_bytes_of(c, x) && (!(x->activations || c->traffic) ||
                                  c->now.no_overlap == x->no_overlap);
}

enum pdl_status oracle_point_prepare(struct oracle_pricer *c,
                                     const struct oracle_point *x,
                                     struct pdl_err *err)
{
    return is_prepared(c, x) ? PDL_OK : prepare(c, x, err);
}

enum pdl_status oracle_point_floor(struct oracle_pricer *c,
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
    st = oracle_point_prepare(c, &base, err);
    *least_s = c->least;
    return st;
}

enum pdl_status oracle_point_updates(struct oracle_pricer *c,
                                     const struct oracle_point *x,
                                     struct pdl_err *err)
{
    for (int i = 0; i < c->split->nclasses; i++) {
        struct class *k = &c->split->classes[i];
        const struct stage_exchanges *u;
        enum pdl_status st;

        if (k->update[x->zero][x->optimizer])
            continue;
        st = oracle_mesh_update(c->pieces, x, k->blocks, k->lane[LANE_UPDATE],
                                &u, err);
        if (st != PDL_OK)
            return st;
        k->update[x->zero][x->optimizer] =
            &u->at[k->where < PLACES_WITH_WORK ? k->where : PLACE_MIDDLE];
        k->update_ranks[x->zero] = u->ranks;
    }
    return PDL_OK;
}
