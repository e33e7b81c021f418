/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's step on a system: its stages (stage.c) are those of a step (step.c),
 * each of a kind of its own. Of the representative ranks, the bytes of those
 * are walked (memory.c) of which some tensor is larger than on every rank
 * before. memory=paper: the closed form of the papers. Every layer keeps its
 * own x, y and w, and the gradients of each (factor 2); nothing is reused. */
#include "oracle/step/step.h"

#include <math.h>
#include <string.h>

static bool find_order(struct oracle *o)
{
    o->order = oracle_plan_order(o->arena, o->p, o->record && o->record->done);
    return o->order && (!pdl_schedule_splits(o->order->schedule) ||
                        oracle_order_runs(o->order, o->arena, o->arena));
}

void oracle_fill_rates(const struct oracle *o, const struct pdl_model *model,
                       int64_t forward_flops, struct pdl_projection *out)
{
    double peak = oracle_peak(o);

    out->samples_per_s = (double)out->batch / out->step_s;
    out->tokens_per_s = out->samples_per_s * (double)model->tokens;
    if (o->opt->dataset > 0)
        out->epoch_s =
            out->step_s * (double)o->opt->dataset / (double)out->batch;
    if (peak > 0)
        out->mfu = 3.0 * (double)forward_flops * (double)out->batch /
                   (out->step_s * (double)out->pes * peak);
}

static void fill_rates(const struct oracle *o, struct pdl_projection *out)
{
    struct pdl_model_totals totals = {.forward_flops = 0};
    const struct pdl_model *m = o->p->given  ? o->p->given
                                : o->p->roll ? o->p->roll->model
                                             : o->p->model;

    if (pdl_model_totals(m, &totals, NULL) != PDL_OK)
        totals.forward_flops = 0;
    out->pes = o->p->mesh->pes;
    out->batch = o->p->batch;
    oracle_fill_rates(o, m, totals.forward_flops, out);
}

/* Lanes of the pipeline at work on the mean, where each stage takes as long as
 * any other and backward twice as long as forward: the schedule's own. */
static double busy_lanes(const struct oracle *o)
{
    double pass[3][ORACLE_MAX_STAGES], span = -1;
    bool split = pdl_schedule_splits(o->p->strategy->schedule);
    const struct oracle_order *order;
    pdl_arena *a;

    if (o->p->nstages < 2 || o->p->nstages > ORACLE_MAX_STAGES ||
        !oracle_has_profile(o))
        return o->p->lanes;
    for (int s = 0; s < o->p->nstages; s++) {
        pass[0][s] = pass[2][s] = 1;
        pass[1][s] = split ? 1 : 2;
    }
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    order = a ? oracle_plan_order(a, o->p, false) : NULL;
    if (order)
        span = oracle_order_span(
            order, (const double *[]){pass[0], pass[1], pass[2]}, NULL);
    pdl_arena_destroy(a);
    return span > 0 ? 3 * (double)(o->p->nstages * o->p->micro_batches) / span
                    : o->p->lanes;
}

void oracle_settle(struct oracle *o, struct oracle_changed *c)
{
    bool eight = oracle_is_narrow(o->opt->precision);

    oracle_settle_pe(o);
    if (eight)
        oracle_pe_settle(&o->sys->pe, PDL_PREC_BF16, &o->pe16);
    oracle_leave_out(o, c);
    if (eight)
        o->pe16.flat = o->pe.flat;
    else
        o->pe16 = o->pe;
    oracle_older_attention(o, &o->pe16);
    oracle_steps_settle(o);
    o->busy = oracle_busy(o, busy_lanes(o));
}

int64_t oracle_times(const struct oracle *o, int round)
{
    const struct pdl_plan_roll *r = o->p->roll;

    for (int g = 0; r && g < r->ngroups; g++) {
        int first = r->groups[g].first + r->width * r->period;

        if (round >= first && round < first + r->period)
            return r->groups[g].repeat;
    }
    return 1;
}

/* Rounds of a rolled plan are counted, not written; false: out of memory. */
static bool unfold(struct oracle *o)
{
    const struct pdl_plan *p = o->p;
    bool parts = p->roll != NULL && !o->record;
    struct stage_passes unused;

    for (int s = 0; s < p->nstages; s++)
        parts = parts && oracle_list_passes(p, s, 1, &unused);
    if (!parts)
        return pdl_plan_unroll(o->arena, p, &o->p, NULL) == PDL_OK;
    return pdl_plan_rounds_open(o->arena, p, &o->rounds, NULL) == PDL_OK &&
           pdl_plan_write_gathers(o->arena, p, &o->p, NULL) == PDL_OK;
}

static enum pdl_status check(const struct oracle *o, struct pdl_err *err)
{
    const struct pdl_plan *plan = o->p;

    if (plan->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    if (plan->mesh->pes > pdl_system_pes(o->sys))
        return pdl_fail(err, PDL_EINVAL,
                        "the strategy needs %lld PEs, %s has %lld",
                        (long long)plan->mesh->pes, o->sys->name,
                        (long long)pdl_system_pes(o->sys));
    return oracle_allreduce_known(o, err) == PDL_OK &&
                   oracle_host_known(o, err) == PDL_OK
               ? PDL_OK
               : PDL_EINVAL;
}

/* ---- its bytes -------------------------------------------------------- */

/* Ranks that are looked at, and sizes of all tensors there. */
struct looked_at {
    int n;
    int rank[ORACLE_MAX_RANKS];
    int64_t *size[ORACLE_MAX_RANKS];
};

/* Is no tensor larger than on one of the ranks before? Then it needs no
 * more. */
static bool fits_into(const struct looked_at *x, const int64_t *size, int n)
{
    for (int k = 0; k < x->n; k++) {
        int i = 0;

        while (i < n && size[i] <= x->size[k][i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

/* The last parts of a split are the largest: they come first. */
static bool choose_ranks(const struct oracle *o, struct looked_at *x)
{
    const bool *inside = oracle_find_inside(o);
    struct oracle_ranks r;
    int n = o->p->ntensors;

    oracle_find_ranks(o, 0, &r);
    for (int i = r.n - 1; inside && i >= 0; i--) {
        int64_t **size = &x->size[x->n];

        if (r.like[i] != i ||
            (o->only && oracle_kind(o, r.rank[i]) + 2 != o->only))
            continue;
        if (!*size && !(*size = PDL_NEW(o->arena, int64_t, n + 1)))
            return false;
        oracle_all_sizes(o, r.rank[i], inside, *size);
        if (!fits_into(x, *size, n))
            x->rank[x->n++] = i;
    }
    return inside != NULL;
}

static bool live_stage(const struct oracle *o, const struct looked_at *x,
                       int stage, int64_t *size, struct stage_work *w,
                       struct stage_exchange *u)
{
    struct stage_live *live = PDL_NEW(o->arena, struct stage_live, x->n + 1);
    struct oracle_lived *lived =
        PDL_NEW(o->arena, struct oracle_lived, x->n + 1);
    struct oracle_ranks r;

    oracle_find_ranks(o, stage, &r);
    for (int k = 0; live && lived && k < x->n; k++) {
        int64_t rank = r.rank[x->rank[k]];

        oracle_sizes_of(o, stage, x->size[k], size);
        oracle_live_passes(o, stage, w->shape, rank, size, &live[k]);
        oracle_live_update(o, stage, rank, size, &lived[k]);
    }
    w->live = live;
    u->lived = lived;
    return live && lived;
}

bool oracle_plan_lives(struct step *c, struct stage_work *work,
                       struct stage_exchange *update)
{
    const struct oracle *o = c->o;
    struct looked_at x = {.n = 0};
    uint8_t *slot = PDL_NEW(o->arena, uint8_t, ORACLE_MAX_RANKS);
    int64_t *size = PDL_NEW(o->arena, int64_t, o->p->ntensors + 1);

    if (!slot || !size || !choose_ranks(o, &x))
        return false;
    for (int s = 0; s < o->p->nstages; s++)
        if (!live_stage(o, &x, s, size, &work[s], &update[s]) ||
            !oracle_live_kind(c, &c->stage[s], x.n))
            return false;
    for (int i = 0; i < x.n; i++)
        slot[i] = (uint8_t)(x.n - 1 - i); /* the first is looked at last */
    c->nranks = x.n;
    c->held_work = c->held_update = slot;
    return true;
}

/* ---- the papers' closed form ------------------------------------------ */

static bool is_framed(const struct pdl_plan_tensor *t)
{
    for (int d = 0; d < t->ndims; d++)
        if (t->frame[d].kind != PDL_FRAME_NONE)
            return true;
    return false;
}

/* The buffer of each value on this rank: what its producer hands over, the
 * largest form of it without a halo. */
static void buffers(const struct oracle *o, int stage, int64_t rank,
                    int64_t *size)
{
    memset(size, 0, (size_t)o->p->model->ntensors * sizeof *size);
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        bool value =
            t->kind == PDL_PLAN_ACTIVATION || t->kind == PDL_PLAN_INPUT;
        int64_t n;

        if (!value || t->model_tensor < 0 || t->stage != stage || is_framed(t))
            continue;
        n = oracle_bytes(o, i, rank);
        if (n > size[t->model_tensor])
            size[t->model_tensor] = n;
    }
}

/* x + y of every layer of the stage: each has buffers of its own. */
static int64_t layer_buffers(const struct oracle *o, int stage,
                             const int64_t *size)
{
    int64_t sum = 0;

    for (int i = 0; i < o->p->model->nnodes; i++) {
        const struct pdl_node *n = &o->p->model->nodes[i];
        int op = o->p->forward_op[i];

        if (op < 0 || o->p->tensors[o->p->ops[op].out[0]].stage != stage)
            continue;
        for (int k = 0; k < n->nin; k++)
            sum += oracle_times(o, o->p->ops[op].round) * size[n->in[k]];
        for (int k = 0; k < n->nout; k++)
            sum += oracle_times(o, o->p->ops[op].round) * size[n->out[k]];
    }
    return sum;
}

/* 2 * (B (x + y) + w): every layer keeps its own, values and gradients, of
 * all micro-batches that are in flight; nothing is reused. */
static void by_layers(const struct oracle *o, int stage, int64_t rank,
                      int64_t *size, struct pdl_projection *out)
{
    int64_t act, weights = 0;

    buffers(o, stage, rank, size);
    act = layer_buffers(o, stage, size) * o->order->in_flight[stage];
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];

        if (t->kind == PDL_PLAN_WEIGHT && t->stage == stage &&
            o->p->model->tensors[t->model_tensor].kind == PDL_TENSOR_WEIGHT)
            weights += oracle_times(o, t->round) * oracle_bytes(o, i, rank);
    }
    if (2 * (act + weights) <= out->allocated_bytes)
        return;
    out->allocated_bytes = 2 * (act + weights);
    out->activations_bytes = 2 * act;
    out->weights_bytes = weights;
    out->gradients_bytes = weights;
}

/* On every rank, or those with the last parts, of a lane (-1: of all); false:
 * out of memory. */
static bool by_paper(const struct oracle *o, int lane, bool all,
                     struct pdl_projection *out)
{
    int64_t *size = PDL_NEW(o->arena, int64_t, o->p->model->ntensors + 1);
    struct oracle_ranks r;

    for (int s = 0; size && s < o->p->nstages; s++) {
        int last = 0;

        if (lane >= 0 && pdl_plan_lane(o->p, s) != lane)
            continue;
        oracle_find_ranks(o, s, &r);
        for (int i = r.n - 1; i >= 0; i--) {
            last = r.rank[i] > r.rank[last] ? i : last;
            if (all && r.like[i] == i)
                by_layers(o, s, r.rank[i], size, out);
        }
        if (!all)
            by_layers(o, s, r.rank[last], size, out);
    }
    return size != NULL;
}

bool oracle_plan_memory(const struct step *c, int lane,
                        struct pdl_projection *out)
{
    struct pdl_projection kept = {.allocated_bytes = 0};

    if (!c->o->p->strategy->memory_paper)
        oracle_step_memory(c, lane, out);
    else if (by_paper(c->o, lane, true, out))
        oracle_fill_device(c->o, out);
    else
        return false;
    if (lane >= 0)
        return true;
    if (!by_paper(c->o, lane, false, &kept))
        return false;
    out->gamma = kept.allocated_bytes > 0
                     ? (double)(out->allocated_bytes - out->optimizer_bytes) /
                           (double)kept.allocated_bytes
                     : 0;
    return true;
}

/* ---- a plan as a step ------------------------------------------------- */

/* Where all stages are run: the farthest that is looked back at, and times of
 * gradients. */
static bool make_room(struct step *c, const struct stage_work *w, int64_t slots)
{
    int64_t back = oracle_run_back(&w->run);

    if (!c->made)
        c->made = PDL_NEW(c->arena, double, slots + 1);
    if (back > c->nback) {
        c->back = PDL_NEW(c->arena, double, back);
        c->nback = back;
    }
    return c->made && c->back;
}

/* Prices a stage and runs it; what that lies in is the next one's. */
static bool run_stage(struct step *c, pdl_arena *a, int s,
                      struct stream_price *price, struct stage_work *w,
                      struct stage_exchange *u)
{
    const struct oracle *o = c->o;
    struct step_stage *k = &c->stage[s];
    struct oracle_lane own;
    const struct oracle *mine = oracle_on_stage(o, s, &own);
    int64_t slots =
        o->rounds ? pdl_plan_rounds_tensors(o->rounds) : o->p->ntensors;

    *k = (struct step_stage){.work = w,
                             .update = u,
                             .blocks = 1,
                             .slots = slots,
                             .held = oracle_held(mine, mine->p->strategy->zero),
                             .found = PDL_NEW(o->arena, struct stage_found, 1)};
    if (!k->found || !oracle_plan_stage(mine, a, s, price, w, u) ||
        !make_room(c, w, slots))
        return false;
    for (int f = 0; f < 2; f++) {
        k->found->made[f] = c->made;
        k->found->nmade[f] = slots;
    }
    return oracle_run_kind(c, k, false);
}

/* Each stage is of a kind of its own. */
static bool begin_step(struct step *c, const struct oracle *o)
{
    int n = o->p->nstages, lanes = o->p->lanes;
    int *of = PDL_NEW(o->arena, int, n);

    *c = (struct step){.o = o,
                       .arena = o->arena,
                       .n = n,
                       .of = of,
                       .lanes = lanes,
                       .chunks = n / lanes,
                       .order = o->order,
                       .brief = o->order,
                       .splits = pdl_schedule_splits(o->order->schedule),
                       .load = oracle_loading(o),
                       .runs = true,
                       .overlap = oracle_overlaps(o, o->p->strategy->zero),
                       .span = -1};
    c->stage = PDL_NEW(o->arena, struct step_stage, n);
    c->in_flight = PDL_NEW(o->arena, int64_t, n);
    c->full = PDL_NEW(o->arena, int, lanes);
    c->lived = PDL_NEW(o->arena, struct oracle_lived, 2 * n + c->chunks);
    c->spans = PDL_NEW(o->arena, double, lanes);
    for (int l = 0; of && l < lanes; l++)
        for (int k = 0; k < c->chunks; k++)
            of[k * lanes + l] =
                pdl_schedule_stage(o->order->schedule, lanes, l, k);
    return of && c->stage && c->in_flight && c->full && c->lived && c->spans;
}

static bool run_stages(struct step *c)
{
    const struct oracle *o = c->o;
    int n = o->p->nstages;
    struct stage_work *w = PDL_NEW(o->arena, struct stage_work, n);
    struct stage_exchange *u = PDL_NEW(o->arena, struct stage_exchange, n);
    struct stream_price *price =
        PDL_NEW(o->arena, struct stream_price, o->p->nops + 1);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    bool ok = w && u && price && a;

    oracle_step_lanes(c);
    for (int s = 0; ok && s < n; s++) {
        ok = run_stage(c, a, s, price, &w[s], &u[s]);
        pdl_arena_reset(a);
    }
    pdl_arena_destroy(a);
    return ok && (o->p->strategy->memory_paper ||
                  (oracle_kinds_memory(c, w, u) && oracle_plan_lives(c, w, u)));
}

static void note_ends(const struct oracle *o)
{
    double *done = o->record ? o->record->done : NULL;
    int passes = pdl_schedule_splits(o->order->schedule) ? 3 : 2;

    for (int p = 0; done && p < passes; p++)
        for (int s = 0; s < o->p->nstages; s++)
            for (int64_t m = 0; m < o->p->micro_batches; m++)
                *done++ = oracle_order_end(o->order, p, s, m);
}

/* False: out of memory. */
static bool make_step(struct oracle *o, struct step *c)
{
    return unfold(o) && oracle_prepare(o) && find_order(o) &&
           oracle_find_again(o) && begin_step(c, o) && run_stages(c);
}

static bool price(struct oracle *o, struct pdl_projection *x)
{
    struct step c;

    if (!make_step(o, &c) || !oracle_step_time(&c, x))
        return false;
    note_ends(o);
    fill_rates(o, x);
    return oracle_step_room(&c, x);
}

enum pdl_status oracle_project(const struct pdl_plan *plan,
                               const struct pdl_system *sys,
                               const struct pdl_oracle_options *opt,
                               struct oracle_record *record,
                               struct pdl_projection *out, struct pdl_err *err)
{
    struct oracle o = {
        .p = plan, .sys = sys, .opt = opt, .err = err, .record = record};
    struct pdl_projection x = {.reason = ""};
    struct oracle_changed changed;
    bool filled;

    if (check(&o, err) != PDL_OK)
        return PDL_EINVAL;
    oracle_settle(&o, &changed);
    if (record)
        record->copy_slows = oracle_copy_slows(&o);
    o.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    filled = o.arena && price(&o, &x);
    oracle_find_fit(&o, &x);
    pdl_arena_destroy(o.arena);
    if (!filled)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!isfinite(x.step_s))
        return pdl_fail(
            err, PDL_EINVAL, "allreduce=%s does not run on groups of this size",
            plan->strategy->allreduce ? plan->strategy->allreduce : "auto");
    *out = x;
    return PDL_OK;
}

enum pdl_status pdl_project(const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            struct pdl_projection *out, struct pdl_err *err)
{
    return oracle_project(plan, sys, opt, NULL, out, err);
}

enum pdl_status pdl_lane_memory(pdl_arena *a, const struct pdl_plan *plan,
                                const struct pdl_system *sys,
                                const struct pdl_oracle_options *opt,
                                struct pdl_lane_memory *out,
                                struct pdl_err *err)
{
    struct oracle o = {.p = plan, .sys = sys, .opt = opt, .err = err};
    struct pdl_projection *lane =
        PDL_NEW(a, struct pdl_projection, plan->lanes + 1);
    struct oracle_changed changed;
    struct step c;
    bool filled;

    if (plan->nstages > ORACLE_MAX_STAGES)
        return pdl_fail(err, PDL_EINVAL, "more than %d stages",
                        ORACLE_MAX_STAGES);
    oracle_settle(&o, &changed);
    o.arena = lane ? pdl_arena_create(PDL_ARENA_DEFAULT) : NULL;
    filled = o.arena && make_step(&o, &c);
    for (int l = 0; filled && l < plan->lanes; l++) {
        lane[l].reason = "";
        filled = oracle_plan_memory(&c, l, &lane[l]);
    }
    pdl_arena_destroy(o.arena);
    if (!filled)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *out = (struct pdl_lane_memory){plan->lanes, lane};
    return PDL_OK;
}
