/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole-model configuration as a step (step/step.c) of stages whose work and
 * update are pieces of its mesh. A test compares every figure with that of the
 * lowered plan.
 *
 * What points have in common is kept: the work of stages and the span of the
 * pipeline hold for every choice of sharded states, overlap and the like. */
#include "oracle/search/blocks.h"
#include "oracle/search/point_kinds.h"

#include <math.h>
#include <string.h>

enum { KEPT_PASSES = 256, KEPT_ORDERS = 16 };

/* Passes of stages that have the same work, blocks and kind of lane. They do
 * not depend on how many chunks there are, and stages of as many blocks come
 * with many numbers of chunks: they are kept until points have another
 * micro-batch. */
struct passes {
    struct passes *next;
    const struct stage_work *work;
    int64_t blocks;
    int update;   /* kind of lane */
    bool overlap; /* where something runs beside them */
    bool folded;  /* zb-v: other messages between lanes */
    struct stage_found found;
};

struct oracle_pricer {
    const struct oracle_family *f;
    struct oracle_point mesh, now;
    bool ready; /* `now` is prepared */
    pdl_arena *arena;
    struct oracle_block_plans *forms;
    struct oracle_mesh *pieces;
    struct oracle lite; /* options and system; no plan */
    struct oracle_changed changed;
    struct pdl_plan plan; /* its pipeline only */
    struct pdl_mesh pes;  /* how many */
    struct pdl_strategy strategy;
    struct split *splits, *split; /* all, and that of `now` */
    struct step step;             /* of `now` */
    struct passes *passes[KEPT_PASSES], *spare;
    int64_t passes_of; /* micro-batch */
    struct pdl_projection memory[STEP_UPDATES];
    bool known[STEP_UPDATES];
    /* ranks of which none holds the same, by zero: slots */
    struct {
        int n;
        uint8_t work[ORACLE_MAX_RANKS], update[ORACLE_MAX_RANKS];
    } held_by[ZERO_KINDS];
    double least;
    /* the same of points without sharded weights, by overlap where activations
     * leave; of those like `floor_of` */
    double floor[2];
    struct oracle_point floor_of;
    /* passes like those of this point hold more than there is (1: yes, -1:
     * no, 0: not asked), whatever becomes of weights */
    struct oracle_point hopeless_of;
    int hopeless;
    struct oracle_order order[KEPT_ORDERS];
};

static int64_t pes_of(const struct oracle_point *x)
{
    return x->pipe * oracle_point_copies(x) * x->tensor;
}

static int64_t chunks_of(const struct oracle_point *x)
{
    return x->bubble == ORACLE_BUBBLE_V ? 2 : x->chunks;
}

static int update_of(const struct oracle_point *x)
{
    return 2 * x->zero + x->optimizer;
}

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
    c->pes.pes = pes_of(mesh);
    c->plan.mesh = &c->pes;
    c->plan.model = f->model;
    c->plan.strategy = &c->strategy;
    c->plan.lanes = (int)mesh->pipe;
    c->lite = (struct oracle){
        .p = &c->plan, .sys = f->sys, .opt = f->opt, .arena = a};
    oracle_settle(&c->lite, &c->changed);
    c->step = (struct step){
        .o = &c->lite,
        .arena = a,
        .lanes = (int)mesh->pipe,
        .spans = PDL_NEW(a, double, ORACLE_MAX_STAGES),
        .made = PDL_NEW(a, double, 2 * (f->layers + 1) * f->model->ntensors),
        .back = PDL_NEW(a, double,
                        oracle_run_back(&(struct stage_passes){.back = 32})),
        .lived =
            PDL_NEW(a, struct oracle_lived, 2 * MAX_KINDS + ORACLE_MAX_STAGES)};
    return c->pieces && c->step.spans && c->step.made && c->step.back &&
                   c->step.lived
               ? c
               : NULL;
}

/* ---- stages ----------------------------------------------------------- */

static enum pdl_status find_split(struct oracle_pricer *c, int64_t chunks,
                                  bool bubble, struct pdl_err *err)
{
    enum pdl_status st;

    c->split = c->splits;
    while (c->split &&
           (c->split->chunks != chunks || c->split->bubble != bubble))
        c->split = c->split->next;
    if (c->split)
        return PDL_OK;
    c->split = PDL_NEW(c->arena, struct split, 1);
    if (!c->split)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    c->split->chunks = chunks;
    c->split->bubble = bubble;
    st = oracle_split_stages(
        c->arena, c->forms, c->f, c->pieces,
        &(struct pdl_tasks){.schedule = c->strategy.schedule,
                            .lanes = c->plan.lanes,
                            .nstages = c->plan.nstages},
        c->split, err);
    if (st == PDL_OK) {
        c->split->next = c->splits;
        c->splits = c->split;
    }
    return st;
}

/* The order of the point's tasks, or (brief) of no more micro-batches than it
 * takes to hold all that is ever held; NULL: out of memory. */
static struct oracle_order *find_order(struct oracle_pricer *c, bool brief)
{
    pdl_arena *scratch = c->forms->scratch;
    int64_t m = c->plan.micro_batches, most = c->split->enough;
    struct pdl_tasks shape = {.schedule = c->strategy.schedule,
                              .lanes = c->plan.lanes,
                              .nstages = c->plan.nstages,
                              .micro = brief && m > most ? most : m};
    struct oracle_order *o =
        &c->order[(2 * (int)shape.schedule + brief) % KEPT_ORDERS];
    bool ok = true;

    if (o->schedule != shape.schedule || o->lanes != shape.lanes ||
        o->nstages != shape.nstages || o->asked != shape.micro)
        ok = oracle_order_fill(o, c->arena, scratch, &shape, false);
    if (ok && brief && pdl_schedule_splits(shape.schedule))
        ok = oracle_order_runs(o, c->arena, scratch);
    pdl_arena_reset(scratch);
    if (!ok)
        o->asked = 0;
    return ok ? o : NULL;
}

/* The step of these stages; false: out of memory. */
static bool begin_step(struct oracle_pricer *c)
{
    struct split *s = c->split;
    struct step *x = &c->step;
    int64_t m = c->plan.micro_batches;
    bool same = s->schedule == c->strategy.schedule &&
                (s->micro == m || (s->micro >= s->enough && m >= s->enough));

    x->n = s->n;
    x->stage = s->stage;
    x->of = s->of;
    x->chunks = (int)s->chunks;
    x->in_flight = s->in_flight;
    x->full = s->full;
    x->nfull = s->nfull;
    x->splits = pdl_schedule_splits(c->strategy.schedule);
    x->ran = -1;
    x->span = -1;
    x->order = NULL;
    if (same && !x->splits)
        return true;
    x->brief = find_order(c, true);
    if (!x->brief)
        return false;
    if (!same)
        oracle_step_lanes(x);
    s->schedule = c->strategy.schedule;
    s->micro = m;
    s->nfull = x->nfull;
    return true;
}

/* ---- passes ----------------------------------------------------------- */

static void forget_passes(struct oracle_pricer *c, int64_t micro)
{
    for (int i = 0; i < KEPT_PASSES; i++)
        for (struct passes *p = c->passes[i], *next; p; p = next) {
            next = p->next;
            p->next = c->spare;
            c->spare = p;
        }
    memset(c->passes, 0, sizeof c->passes);
    c->passes_of = micro;
}

static struct passes *take_passes(struct oracle_pricer *c)
{
    struct passes *p = c->spare;

    if (!p)
        return PDL_NEW(c->arena, struct passes, 1);
    c->spare = p->next;
    return p;
}

/* Passes of stages like these, made or found; false: out of memory. */
static bool find_passes(struct oracle_pricer *c, const struct oracle_point *x,
                        const struct kind *k, struct step_stage *s)
{
    struct passes like = {
        .work = s->work,
        .blocks = k->blocks,
        .update = k->lane[LANE_UPDATE],
        .overlap = (s->work->shape->copies || c->step.runs) && c->step.overlap,
        .folded = x->bubble == ORACLE_BUBBLE_V};
    uint64_t h = (uint64_t)(uintptr_t)like.work + (uint64_t)k->blocks * 8191;
    struct passes **at = &c->passes[(h * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    struct passes *p = *at;

    while (p && (p->work != like.work || p->blocks != like.blocks ||
                 p->update != like.update || p->overlap != like.overlap ||
                 p->folded != like.folded))
        p = p->next;
    if (p) {
        s->found = &p->found;
        return true;
    }
    p = take_passes(c);
    if (!p)
        return false;
    like.found = p->found; /* its memory */
    like.next = *at;
    *p = like;
    *at = p;
    s->found = &p->found;
    if (!c->step.runs) /* else with its update */
        oracle_time_kind(&c->step, s);
    return oracle_live_kind(&c->step, s, k->works->ranks->slots);
}

static enum pdl_status find_works(struct oracle_pricer *c,
                                  const struct oracle_point *x,
                                  struct pdl_err *err)
{
    int64_t m = c->plan.micro_batches;

    if (c->passes_of != x->micro)
        forget_passes(c, x->micro);
    for (int i = 0; i < c->split->n; i++) {
        struct kind *k = &c->split->kind[i];
        struct step_stage *s = &c->split->stage[i];
        enum pdl_status st = oracle_mesh_work(
            c->pieces, x, m, k->blocks,
            k->lane[c->step.runs ? LANE_TRAFFIC : LANE_WORK], &k->works, err);

        if (st != PDL_OK)
            return st;
        s->work = &k->works->at[k->where];
        c->step.load = k->works->load;
        c->step.load.load_s *= (double)m;
        if (!find_passes(c, x, k, s))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    return PDL_OK;
}

static enum pdl_status find_updates(struct oracle_pricer *c,
                                    const struct oracle_point *x,
                                    struct pdl_err *err)
{
    int which = update_of(x);

    c->step.which = which;
    for (int i = 0; i < c->split->n; i++) {
        struct kind *k = &c->split->kind[i];
        const struct stage_exchanges *u;
        enum pdl_status st = PDL_OK;

        if (!k->update[which]) {
            st = oracle_mesh_update(c->pieces, x, k->blocks,
                                    k->lane[LANE_UPDATE], &u, err);
            if (st != PDL_OK)
                return st;
            k->update[which] =
                &u->at[k->where < PLACES_WITH_WORK ? k->where : PLACE_MIDDLE];
            k->update_ranks[x->zero] = u->ranks;
        }
        c->split->stage[i].update = k->update[which];
    }
    return PDL_OK;
}

/* ---- what no step is shorter than ------------------------------------- */

/* Are two points of a mesh alike, but for sharding, overlap and optimizer? */
static bool same_passes(const struct oracle_point *a,
                        const struct oracle_point *b)
{
    return a->micro == b->micro && a->chunks == b->chunks &&
           a->recompute == b->recompute && a->bubble == b->bubble &&
           a->activations == b->activations;
}

/* Where weights travel, stages take no less time than where they do not. */
static void keep_floor(struct oracle_pricer *c, const struct oracle_point *x)
{
    if (!same_passes(&c->floor_of, x))
        c->floor[0] = c->floor[1] = 0;
    c->floor_of = *x;
    c->floor[x->no_overlap] = c->least;
    if (!x->activations)
        c->floor[!x->no_overlap] = c->least;
}

/* Are exchanges hidden because weights are sharded? Then the same without is no
 * bound. */
static bool hides_sharded(const struct oracle_pricer *c,
                          const struct oracle_point *x)
{
    return oracle_overlaps(&c->lite, x->zero) != oracle_overlaps(&c->lite, 0);
}

static double floor_of(const struct oracle_pricer *c,
                       const struct oracle_point *x)
{
    return same_passes(&c->floor_of, x) && !hides_sharded(c, x)
               ? c->floor[x->no_overlap]
               : 0;
}

/* ---- preparing -------------------------------------------------------- */

static bool hides(const struct oracle_pricer *c, const struct oracle_point *x)
{
    return !x->no_overlap && oracle_overlaps(&c->lite, x->zero);
}

/* Is what is prepared of the same bytes? */
static bool has_bytes_of(const struct oracle_pricer *c,
                         const struct oracle_point *x)
{
    return c->ready && same_passes(&c->now, x) &&
           oracle_work_zero(&c->now) == oracle_work_zero(x);
}

static enum pdl_status describe(struct oracle_pricer *c,
                                const struct oracle_point *x,
                                struct pdl_err *err)
{
    int64_t m = c->f->plan.batch / (oracle_point_replicas(x) * x->micro);

    c->strategy.offload_activations = x->activations;
    c->strategy.offload_optimizer = false;
    c->strategy.zero = oracle_work_zero(x);
    c->strategy.schedule = oracle_point_schedule(x);
    c->plan.nstages = (int)(x->pipe * chunks_of(x));
    c->plan.micro_batches = m;
    c->step.runs = oracle_work_zero(x) > 0;
    c->step.overlap = hides(c, x);
    if (x->activations && oracle_host_known(&c->lite, err) != PDL_OK)
        return PDL_EINVAL;
    if (x->chunks > 1 && m % x->pipe != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: interleaved stages need a multiple of "
                        "pipe=%lld micro-batches",
                        (long long)x->pipe);
    return PDL_OK;
}

static enum pdl_status prepare(struct oracle_pricer *c,
                               const struct oracle_point *x,
                               struct pdl_err *err)
{
    enum pdl_status st = oracle_mesh_lanes(c->pieces, err);

    if (!has_bytes_of(c, x))
        memset(c->known, 0, sizeof c->known);
    c->ready = false;
    if (st == PDL_OK)
        st = describe(c, x, err);
    if (st == PDL_OK)
        st = find_split(c, chunks_of(x), x->bubble > 0, err);
    for (int i = 0; st == PDL_OK && i < c->split->n; i++)
        c->split->stage[i].held = oracle_held(&c->lite, x->zero);
    if (st == PDL_OK && !begin_step(c))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = find_works(c, x, err);
    if (st != PDL_OK)
        return st;
    c->now = *x;
    if (c->step.runs) {
        c->least = floor_of(c, x);
    } else {
        /* a lane's own work, after the forwards and before the backwards of the
         * lanes before it */
        c->least = oracle_step_least(&c->step, !x->bubble);
        keep_floor(c, x);
    }
    c->ready = true;
    return PDL_OK;
}

/* Passes do not depend on overlap, unless something runs beside them. */
static enum pdl_status make_ready(struct oracle_pricer *c,
                                  const struct oracle_point *x,
                                  struct pdl_err *err)
{
    bool ready = has_bytes_of(c, x) && (!(x->activations || c->step.runs) ||
                                        c->now.no_overlap == x->no_overlap);

    return ready ? PDL_OK : prepare(c, x, err);
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
    base.activations = x->activations && !hides_sharded(c, x);
    st = make_ready(c, &base, err);
    *least_s = c->least;
    return st;
}

/* ---- memory ----------------------------------------------------------- */

/* Ranks that hold what none before them does. */
static void find_held(struct oracle_pricer *c, int zero,
                      const struct rank_slots *work,
                      const struct rank_slots *update)
{
    uint8_t *w = c->held_by[zero].work, *u = c->held_by[zero].update;
    int n = 0;

    for (int r = 0; r < work->n; r++) {
        int k = 0;

        while (k < n && (w[k] != work->slot[r] || u[k] != update->slot[r]))
            k++;
        if (k < n)
            continue;
        w[n] = work->slot[r];
        u[n++] = update->slot[r];
    }
    c->held_by[zero].n = n;
}

/* Overlap or not, it is the same. */
static void fill_memory(struct oracle_pricer *c, const struct oracle_point *x,
                        struct pdl_projection *out)
{
    struct pdl_projection *known = &c->memory[update_of(x)];
    const struct kind *k = &c->split->kind[0];

    if (!c->known[update_of(x)]) {
        *known = (struct pdl_projection){.reason = ""};
        if (c->held_by[x->zero].n == 0)
            find_held(c, x->zero, k->works->ranks, k->update_ranks[x->zero]);
        c->step.nranks = c->held_by[x->zero].n;
        c->step.held_work = c->held_by[x->zero].work;
        c->step.held_update = c->held_by[x->zero].update;
        oracle_step_memory(&c->step, -1, known);
        c->known[update_of(x)] = true;
    }
    *out = *known;
}

/* Sharded states leave passes as they are, and gather weights and scatter
 * gradients besides: what the same passes hold with whole weights, less weights
 * and their gradients, any of them holds. */
enum pdl_status oracle_point_least_bytes(struct oracle_pricer *c,
                                         const struct oracle_point *x,
                                         struct pdl_projection *out,
                                         struct pdl_err *err)
{
    struct oracle_point base = *x;
    enum pdl_status st;

    base.zero = 0;
    base.optimizer = false;
    *out = (struct pdl_projection){.reason = ""};
    st = make_ready(c, &base, err);
    if (st == PDL_OK)
        oracle_step_passes(&c->step, c->split->kind[0].works->ranks->slots,
                           out);
    return st;
}

bool oracle_point_hopeless(struct oracle_pricer *c,
                           const struct oracle_point *x)
{
    struct pdl_projection y;
    struct pdl_err err;

    if (c->hopeless && same_passes(&c->hopeless_of, x))
        return c->hopeless > 0;
    c->hopeless_of = *x;
    c->hopeless = -1;
    if (oracle_point_least_bytes(c, x, &y, &err) == PDL_OK &&
        (y.allocated_bytes > oracle_capacity(&c->lite) ||
         !oracle_host_fits(&c->lite, &y)))
        c->hopeless = 1;
    return c->hopeless > 0;
}

enum pdl_status oracle_point_memory(struct oracle_pricer *c,
                                    const struct oracle_point *x,
                                    struct pdl_projection *out, double *least_s,
                                    struct pdl_err *err)
{
    enum pdl_status st = make_ready(c, x, err);

    c->strategy.offload_optimizer = x->optimizer;
    if (st == PDL_OK && x->optimizer)
        st = oracle_host_known(&c->lite, err);
    if (st == PDL_OK)
        st = find_updates(c, x, err);
    if (st != PDL_OK)
        return st;
    fill_memory(c, x, out);
    oracle_find_fit(&c->lite, out);
    *least_s = c->least;
    return PDL_OK;
}

/* ---- time ------------------------------------------------------------- */

enum pdl_status oracle_point_time(struct oracle_pricer *c,
                                  const struct oracle_point *x,
                                  struct pdl_projection *out,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; st == PDL_OK && c->step.runs && i < c->split->n; i++)
        st = oracle_mesh_price(c->pieces, c->split->kind[i].works, err);
    if (st != PDL_OK)
        return st;
    c->step.hides = hides(c, x);
    if (!c->step.order)
        c->step.order = find_order(c, false);
    if (!c->step.order || !oracle_step_time(&c->step, out))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    out->pes = pes_of(&c->mesh);
    out->batch = c->f->plan.batch;
    oracle_fill_rates(&c->lite, c->f->model, c->f->forward_flops, out);
    return PDL_OK;
}

enum pdl_status oracle_point_price(struct oracle_pricer *c,
                                   const struct oracle_point *x,
                                   struct pdl_projection *out,
                                   struct pdl_err *err)
{
    double least;
    enum pdl_status st = oracle_point_memory(c, x, out, &least, err);

    return st == PDL_OK ? oracle_point_time(c, x, out, err) : st;
}
