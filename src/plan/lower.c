/* SPDX-License-Identifier: Apache-2.0
 *
 * From model x strategy to the operations of one training step: bind clauses
 * to layers, cut stages, walk forward, take the loss, walk backward, exchange
 * gradients and update, free what is no longer read. */
#include "plan_priv.h"

#include <string.h>

/* ---- what is refused -------------------------------------------------- */

/* Notation that is no transformation: what to swap is decided elsewhere
 * (pdl_swap_settle), and written as clauses. */
enum pdl_status plan_refuse_unbuilt(const struct pdl_strategy *s,
                                    struct pdl_err *err)
{
    if (pdl_strategy_compresses(s) && s->zero)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: compress sums whole gradients, zero "
                        "scatters them: choose one");
    if (s->swap == PDL_SWAP_NONE)
        return plan_zero_check(s, err);
    pdl_fail(err, PDL_EINVAL,
             "strategy: swap=%s is for 'paradl project', which writes it as "
             "layers that offload",
             s->swap == PDL_SWAP_AUTO ? "auto" : "karma");
    pdl_hint(err, "'paradl train' decides with --memory SIZE");
    return PDL_EINVAL;
}

static enum pdl_status check_algorithm(const struct pdl_strategy *s,
                                       const struct pdl_plan_options *opt,
                                       struct pdl_err *err)
{
    const char *name = plan_algorithm(s);

    if (name && s->compress && strcmp(name, "ring") != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: compress= has a way of its own to sum, not "
                        "%.40s",
                        name);
    return name && opt->knows ? opt->knows("allreduce", name, err) : PDL_OK;
}

static int64_t axis_size(const struct pdl_mesh *m, int c, enum pdl_axis axis)
{
    int64_t n = 1;

    for (int t = 0; c >= 0 && t < m->nterms[c]; t++)
        if (m->term[c][t].axis == axis)
            n *= m->term[c][t].size;
    return n;
}

int64_t plan_micro_batches(const struct pdl_strategy *s)
{
    return s->micro_batches > 0 ? s->micro_batches
           : s->accumulate > 0  ? s->accumulate
                                : 1;
}

/* Of uneven shares the smallest needs a sample. */
static bool leaves_empty(const struct plan_lower *lo, int64_t samples)
{
    const struct pdl_mesh *m = lo->mesh;
    int64_t n = m->nparts > 0 ? m->factor[m->dealt] : 0, from, to;

    for (int64_t i = 0; i < n; i++) {
        pdl_mesh_split(m, UINT32_C(1) << m->dealt, samples, 1, n, i, &from,
                       &to);
        if (to == from)
            return true;
    }
    return false;
}

/* Every rank has as many groups of batch norm, all of one size. */
static void check_groups(struct plan_lower *lo, int64_t samples)
{
    const struct pdl_strategy *s = lo->strategy;

    if (s->bn_groups == 0)
        return;
    if (samples % s->bn_groups != 0)
        plan_fail(lo,
                  "bn-groups=%lld does not divide a micro-batch of %lld "
                  "samples",
                  (long long)s->bn_groups, (long long)samples);
    if (s->bn == PDL_BN_SYNC)
        plan_fail(lo, "bn-groups= and bn=sync contradict each other");
    for (int c = 0; c < s->nclauses; c++) {
        int64_t n = axis_size(lo->mesh, c, PDL_AXIS_DATA);

        if (s->bn_groups % n != 0)
            plan_fail(lo, "bn-groups=%lld cannot be dealt to data=%lld",
                      (long long)s->bn_groups, (long long)n);
        if (axis_size(lo->mesh, c, PDL_AXIS_SPATIAL) > 1)
            plan_fail(lo, "bn-groups= does not go with spatial=");
    }
}

static void check_batch(struct plan_lower *lo)
{
    int64_t m = plan_micro_batches(lo->strategy);
    int64_t largest = 1, copies = pdl_schedule_copies(lo->strategy->schedule);

    for (int c = 0; c < lo->strategy->nclauses; c++) {
        int64_t n = axis_size(lo->mesh, c, PDL_AXIS_DATA);

        largest = n > largest ? n : largest;
    }
    if (lo->opt->batch < 1)
        plan_fail(lo, "the batch must have at least 1 sample");
    else if (lo->opt->batch % m != 0)
        plan_fail(lo, "batch %lld cannot be cut into %lld micro-batches",
                  (long long)lo->opt->batch, (long long)m);
    else if (leaves_empty(lo, lo->opt->batch / m))
        plan_fail(lo,
                  "a micro-batch of %lld samples is smaller than the "
                  "shares of data=%lld need",
                  (long long)(lo->opt->batch / m), (long long)largest);
    else if (lo->opt->batch / m < largest && !lo->opt->allow_empty)
        plan_fail(lo, "a micro-batch of %lld samples is smaller than data=%lld",
                  (long long)(lo->opt->batch / m), (long long)largest);
    lo->plan.micro_batches = m / copies;
    lo->samples = lo->opt->batch / m;
    check_groups(lo, lo->samples);
}

/* ---- set-up ----------------------------------------------------------- */

static int room(int n)
{
    return n > 0 ? n : 1;
}

/* Where each node's operands will be noted, one block for all. */
static bool allocate_operands(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;
    int64_t all = 1;
    int *at;

    for (int i = 0; i < m->nnodes; i++)
        all += room(m->nodes[i].nin) + room(m->nodes[i].nout) +
               room(m->nodes[i].nweights);
    at = PDL_NEW(lo->arena, int, all);
    for (int i = 0; at && i < m->nnodes; i++) {
        lo->at[i].x = at;
        lo->at[i].w = lo->at[i].x + room(m->nodes[i].nin);
        lo->at[i].y = lo->at[i].w + room(m->nodes[i].nweights);
        at = lo->at[i].y + room(m->nodes[i].nout);
    }
    return at != NULL;
}

/* What a plan takes, by layers: eight tensors, the operations before and after
 * their lifetimes are known, names and lists of operands. */
static void expect(struct plan_lower *lo)
{
    size_t layer =
        8 * (sizeof(struct pdl_plan_tensor) + 2 * sizeof(struct pdl_plan_op)) +
        sizeof(struct plan_at) + 1152 +
        (size_t)lo->mesh->nfactors * sizeof(struct plan_cut);

    pdl_arena_expect(lo->arena,
                     (size_t)lo->model->nnodes * layer + (128 << 10));
}

static void allocate(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;
    struct plan_cut *cuts;

    lo->clause = PDL_NEW(lo->arena, int, m->nnodes + 1);
    lo->range = PDL_NEW(lo->arena, int, m->nnodes + 1);
    lo->stage = PDL_NEW(lo->arena, int, m->nnodes + 1);
    lo->at = PDL_NEW(lo->arena, struct plan_at, m->nnodes + 1);
    cuts = PDL_NEW(lo->arena, struct plan_cut,
                   (int64_t)m->nnodes * lo->mesh->nfactors + 1);
    lo->values = PDL_NEW(lo->arena, struct plan_value, m->ntensors + 1);
    lo->weight = PDL_NEW(lo->arena, struct plan_weight *, m->ntensors + 1);
    if (!lo->clause || !lo->range || !lo->stage || !lo->at || !cuts ||
        !lo->values || !lo->weight || !allocate_operands(lo)) {
        plan_fail(lo, "%s: out of memory", m->name);
        return;
    }
    for (int i = 0; i < m->nnodes; i++)
        lo->at[i].cut = cuts + (int64_t)i * lo->mesh->nfactors;
}

/* The lowering keeps operands in fixed arrays. */
static void check_operands(struct plan_lower *lo)
{
    for (int i = 0; i < lo->model->nnodes; i++) {
        const struct pdl_node *n = &lo->model->nodes[i];

        if (n->nin > PLAN_MAX_IN || n->nout > PLAN_MAX_OUT ||
            n->nweights > PDL_OP_MAX_WEIGHTS)
            plan_fail(lo, "%s: more operands than a plan can hold", n->name);
    }
}

/* A tensor needs a gradient when a learned weight stands behind it, and it is
 * no whole number. */
static void mark_gradients(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;

    for (int t = 0; lo->opt->inner && t < m->ntensors; t++)
        lo->values[t].needs_grad = lo->opt->inner[t];
    for (int i = 0; i < m->nnodes; i++) {
        bool needs = false;

        for (int j = 0; j < m->nodes[i].nweights; j++)
            needs = needs || m->tensors[m->nodes[i].weights[j]].kind ==
                                 PDL_TENSOR_WEIGHT;
        for (int k = 0; k < m->nodes[i].nin; k++)
            needs = needs || lo->values[m->nodes[i].in[k]].needs_grad;
        for (int k = 0; k < m->nodes[i].nout; k++)
            lo->values[m->nodes[i].out[k]].needs_grad =
                needs &&
                (m->nodes[i].nout > 1 ||
                 pdl_dtype_learns(m->tensors[m->nodes[i].out[k]].dtype));
    }
}

enum pdl_status plan_find_pipe(const struct pdl_strategy *s,
                               const struct pdl_mesh *m, uint32_t *factors,
                               int *lanes, int *nstages, struct pdl_err *err)
{
    int64_t n = 1, v = pdl_schedule_chunks(s);

    *factors = 0;
    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < m->nterms[c]; t++) {
            const struct pdl_mesh_term *x = &m->term[c][t];

            for (int f = 0; x->axis == PDL_AXIS_PIPE && f < x->count; f++)
                *factors |= UINT32_C(1) << (x->first + f);
        }
    for (int f = 0; f < m->nfactors; f++)
        if (*factors >> f & 1)
            n *= m->factor[f];
    if (n > 1 << 20 || v > 1 << 10)
        return pdl_fail(err, PDL_EINVAL, "strategy: too many stages");
    if (n == 1 && pdl_schedule_splits(s->schedule))
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: a schedule without bubbles needs at least "
                        "two stages");
    if (s->schedule == PDL_SCHEDULE_INTERLEAVED && v > 1 &&
        (n == 1 || plan_micro_batches(s) % n != 0))
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: interleaved stages need a multiple of "
                        "pipe=%lld micro-batches",
                        (long long)n);
    if (pdl_schedule_copies(s->schedule) > 1 &&
        (n % 2 != 0 || plan_micro_batches(s) % 2 != 0 ||
         plan_micro_batches(s) < 2 * n))
        return pdl_fail(err, PDL_EINVAL,
                        "strategy: dualpipe needs an even number of stages and "
                        "of micro-batches, and of these at least m=%lld",
                        (long long)(2 * n));
    *lanes = (int)n;
    *nstages = (int)(n * v);
    return PDL_OK;
}

/* ---- the walk --------------------------------------------------------- */

/* The copy of the network that a stage is of. */
int plan_copy_of(const struct plan_lower *lo, int stage)
{
    int copies = pdl_schedule_copies(lo->strategy->schedule);

    return stage / (lo->plan.nstages / copies);
}

static void forward(struct plan_lower *lo, struct pdl_plan_stage *stages)
{
    for (int s = 0; s < lo->plan.nstages; s++) {
        lo->stage_now = s;
        stages[s].first_forward = lo->plan.nitems;
        plan_begin_item(lo, 0, 1);
        plan_receive_forward(lo);
        for (int i = 0; i < lo->model->nnodes && lo->status == PDL_OK; i++)
            if (lo->stage[i] == s) {
                plan_at_node(lo, i);
                plan_forward_node(lo, i);
                if (lo->status == PDL_OK)
                    plan_send_forward(lo, i);
            }
        plan_at_node(lo, -1);
        if (plan_copy_of(lo, s + 1) > plan_copy_of(lo, s) &&
            lo->status == PDL_OK)
            plan_loss(lo);
        plan_end_item(lo);
        stages[s].nforward = lo->plan.nitems - stages[s].first_forward;
    }
}

static void backward(struct plan_lower *lo, struct pdl_plan_stage *stages)
{
    for (int s = lo->plan.nstages - 1; s >= 0; s--) {
        lo->stage_now = s;
        stages[s].first_backward = lo->plan.nitems;
        plan_begin_item(lo, 0, 1);
        plan_receive_gradients(lo);
        for (int i = lo->model->nnodes - 1; i >= 0 && lo->status == PDL_OK; i--)
            if (lo->stage[i] == s) {
                plan_at_node(lo, i);
                plan_backward_node(lo, i);
            }
        plan_at_node(lo, -1);
        plan_send_gradients(lo);
        plan_end_item(lo);
        stages[s].nbackward = lo->plan.nitems - stages[s].first_backward;
    }
}

static void update(struct plan_lower *lo, struct pdl_plan_stage *stages)
{
    plan_tie_prepare(lo);
    for (int s = 0; s < lo->plan.nstages; s++) {
        lo->stage_now = s;
        stages[s].first_update = lo->plan.nitems;
        plan_begin_item(lo, 0, 1);
        plan_tie_exchange(lo);
        plan_update(lo);
        plan_end_item(lo);
        stages[s].nupdate = lo->plan.nitems - stages[s].first_update;
    }
}

int *plan_index_forward(pdl_arena *a, const struct pdl_plan_op *ops, int nops,
                        int nnodes)
{
    int *first = PDL_NEW(a, int, nnodes + 1);

    for (int i = 0; first && i < nnodes; i++)
        first[i] = -1;
    for (int i = nops - 1; first && i >= 0; i--)
        if (ops[i].kind == PDL_PLAN_OP_COMPUTE && ops[i].node >= 0 &&
            ops[i].pass == PDL_FORWARD && ops[i].part == 0)
            first[ops[i].node] = i;
    return first;
}

static void index_forward(struct plan_lower *lo)
{
    lo->plan.forward_op = plan_index_forward(lo->arena, lo->ops, lo->plan.nops,
                                             lo->model->nnodes);
    if (!lo->plan.forward_op)
        plan_fail(lo, "out of memory");
}

static bool has_axis(const struct pdl_strategy *s, enum pdl_axis axis)
{
    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == axis)
                return true;
    return false;
}

/* Copies of the network are cut, and named by clauses, as the first is. */
static struct pdl_model first_copy(const struct plan_lower *lo)
{
    struct pdl_model m = *lo->model;

    m.nnodes /= pdl_schedule_copies(lo->strategy->schedule);
    return m;
}

enum pdl_status plan_choose_stages(struct plan_lower *lo)
{
    struct pdl_model m = first_copy(lo);
    int64_t stages =
        lo->plan.nstages / pdl_schedule_copies(lo->strategy->schedule);

    if (lo->rolled)
        memcpy(lo->stage, lo->rolled->stage,
               (size_t)lo->model->nnodes * sizeof *lo->stage);
    else if (lo->strategy->cuts)
        lo->status =
            plan_cut_stages(lo->strategy, &m, stages, lo->stage, lo->err);
    else
        lo->status = plan_stages(lo->arena, &m, stages, lo->opt->split,
                                 plan_speeds(lo), lo->stage, lo->err);
    for (int i = m.nnodes; i < lo->model->nnodes; i++)
        lo->stage[i] = lo->stage[i - m.nnodes] + (int)stages;
    return lo->status;
}

static void bind(struct plan_lower *lo)
{
    struct pdl_model m = first_copy(lo);

    lo->status = plan_bind(lo->strategy, &m, lo->clause, lo->range, lo->err);
    for (int i = m.nnodes; i < lo->model->nnodes; i++) {
        lo->clause[i] = lo->clause[i - m.nnodes];
        lo->range[i] = lo->range[i - m.nnodes];
    }
}

static void run(struct plan_lower *lo)
{
    struct pdl_plan_stage *stages;

    allocate(lo);
    if (lo->status == PDL_OK)
        bind(lo);
    if (lo->status == PDL_OK)
        check_batch(lo);
    if (lo->status != PDL_OK)
        return;
    lo->status = plan_find_pipe(lo->strategy, lo->mesh, &lo->plan.pipe_factors,
                                &lo->plan.lanes, &lo->plan.nstages, lo->err);
    if (lo->status != PDL_OK)
        return;
    plan_choose_stages(lo);
    stages = PDL_NEW(lo->arena, struct pdl_plan_stage, lo->plan.nstages);
    if (!stages || lo->status != PDL_OK)
        return;
    mark_gradients(lo);
    plan_find_readers(lo);
    check_operands(lo);
    if (lo->status != PDL_OK)
        return;
    plan_load_inputs(lo);
    forward(lo, stages);
    backward(lo, stages);
    update(lo, stages);
    if (has_axis(lo->strategy, PDL_AXIS_EXPERT))
        plan_route(lo);
    if (has_axis(lo->strategy, PDL_AXIS_CONTEXT) &&
        lo->strategy->context_kind == PDL_CONTEXT_RING)
        plan_ring(lo);
    plan_recompute(lo, stages);
    plan_offload(lo, stages);
    plan_split_backward(lo, stages);
    plan_zero_join(lo);
    plan_insert_frees(lo);
    if (lo->status == PDL_OK)
        index_forward(lo);
    lo->plan.stages = stages;
}

enum pdl_status plan_lower_as(struct plan_lower *lo,
                              const struct pdl_plan **out)
{
    struct pdl_plan *plan = PDL_NEW(lo->arena, struct pdl_plan, 1);

    if (!plan)
        return pdl_fail(lo->err, PDL_ENOMEM, "out of memory");
    expect(lo);
    lo->round_now = -1;
    run(lo);
    if (lo->status != PDL_OK)
        return lo->status;
    lo->plan.model = lo->model;
    lo->plan.given = lo->given;
    lo->plan.strategy = lo->strategy;
    lo->plan.mesh = lo->mesh;
    lo->plan.deal = plan_deal(lo->strategy, lo->model);
    lo->plan.batch = lo->opt->batch;
    lo->plan.tensors = lo->tensors;
    lo->plan.ops = lo->ops;
    lo->plan.items = lo->items;
    lo->plan.fallbacks = lo->fallbacks;
    *plan = lo->plan;
    if (!plan_index_groups(lo->arena, plan))
        return pdl_fail(lo->err, PDL_ENOMEM, "out of memory");
    *out = plan;
    return PDL_OK;
}

enum pdl_status pdl_plan_lower(pdl_arena *a, const struct pdl_model *model,
                               const struct pdl_strategy *strategy,
                               const struct pdl_plan_options *opt,
                               const struct pdl_plan **out, struct pdl_err *err)
{
    struct plan_lower lo = {.arena = a,
                            .given = model,
                            .strategy = strategy,
                            .opt = opt,
                            .err = err};
    struct pdl_mesh *mesh = PDL_NEW(a, struct pdl_mesh, 1);
    enum pdl_status st = plan_refuse_unbuilt(strategy, err);

    if (!mesh)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = check_algorithm(strategy, opt, err);
    if (st == PDL_OK)
        st = plan_expand(a, model, &lo.model, err);
    if (st == PDL_OK)
        st = pdl_mesh_for(strategy, lo.model, mesh, err);
    if (st == PDL_OK && pdl_schedule_copies(strategy->schedule) > 1)
        st = plan_twin(a, lo.model, &lo.model, err);
    lo.mesh = mesh;
    return st == PDL_OK ? plan_lower_as(&lo, out) : st;
}
