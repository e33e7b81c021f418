/* SPDX-License-Identifier: Apache-2.0
 *
 * Small plans: the same network with few blocks, one stage or three of them,
 * lowered as any other and put on the mesh of the large plan. A plan for more
 * samples is one for one sample with some dimensions larger; which, the plan
 * for two samples shows. */
#include "pieces_priv.h"

#include <string.h>

bool oracle_same_key(const struct key *a, const struct key *b)
{
    return a->micro == b->micro && a->blocks == b->blocks &&
           a->recompute == b->recompute && a->zero == b->zero &&
           a->lane == b->lane && a->many == b->many;
}

/* ---- the family ----------------------------------------------------------------- */

bool oracle_family_make(const struct pdl_model *model,
                        const struct pdl_system *sys,
                        const struct pdl_oracle_options *opt,
                        const struct pdl_plan_options *plan,
                        struct oracle_family *out)
{
    struct pdl_model_totals totals;
    int repeated = 0;

    *out = (struct oracle_family){
        .model = model, .sys = sys, .opt = opt, .plan = *plan, .block = -1};
    if (sys->npe_groups > 0)
        return false; /* stages are not alike */
    for (int s = 0; s < model->nsegments; s++) {
        if (model->segments[s].repeat > 1) {
            repeated++;
            out->block = s;
            out->layers = model->segments[s].repeat;
        }
        out->first_node += out->block < 0 ? model->segments[s].nnodes : 0;
    }
    if (pdl_model_totals(model, &totals, NULL) == PDL_OK)
        out->forward_flops = totals.forward_flops;
    return repeated == 1 && model->nsegments <= 8 && !plan->inner &&
           sys->npe_groups == 0 && !opt->nodes &&
           strcmp(model->kind, "transformer") == 0;
}

static void add_term(struct pdl_clause *c, enum pdl_axis axis, int64_t n)
{
    c->term[c->nterms++] =
        (struct pdl_term){.axis = axis, .nsizes = 1, .size = {n}};
}

void oracle_point_strategy(const struct oracle_family *f,
                           const struct oracle_point *x,
                           struct pdl_strategy *out)
{
    int64_t m = f->plan.batch / (x->data * x->micro);
    struct pdl_clause *c = &out->clause[0];

    *out = (struct pdl_strategy){.nclauses = 1};
    c->layers = "*";
    if (x->pipe > 1) {
        add_term(c, PDL_AXIS_PIPE, x->pipe);
        out->micro_batches = m;
    } else if (m > 1) {
        out->accumulate = m;
    }
    if (x->chunks > 1) {
        out->schedule = PDL_SCHEDULE_INTERLEAVED;
        out->virtual_stages = x->chunks;
    }
    add_term(c, PDL_AXIS_DATA, x->data);
    if (x->tensor > 1)
        add_term(c, PDL_AXIS_TENSOR, x->tensor);
    out->seq = x->seq && x->tensor > 1;
    out->zero = x->zero;
    out->recompute = x->recompute;
    out->no_overlap = x->no_overlap;
}

/* ---- small plans ------------------------------------------------------------------ */

static void few_blocks(const struct oracle_family *f, int64_t blocks,
                       struct small *s)
{
    s->model = *f->model;
    memcpy(s->segments, f->model->segments,
           (size_t)f->model->nsegments * sizeof s->segments[0]);
    s->segments[f->block].repeat = blocks;
    s->model.segments = s->segments;
}

/* As many ranks along the pipeline as the large plan has. */
static void widen(struct small *s, int64_t pipe)
{
    s->mesh = *s->plan.mesh;
    for (int i = 0; i < s->mesh.nfactors; i++)
        if (s->plan.pipe_factors >> i & 1)
            s->mesh.factor[i] = pipe;
    for (int t = 0; t < s->mesh.nterms[0]; t++)
        if (s->mesh.term[0][t].axis == PDL_AXIS_PIPE)
            s->mesh.term[0][t].size = pipe;
    if (s->plan.pipe_factors)
        s->mesh.pes = s->mesh.pes / STAGES * pipe;
    s->plan.mesh = &s->mesh;
}

/* Of each tensor written out, in the order of plan_expand. */
static bool find_tensors(struct oracle_pieces *p, struct small *s)
{
    const struct pdl_model *m = &s->model;
    int n = s->plan.model->ntensors, at = 0;

    s->round = PDL_NEW(p->scratch, int, n + 1);
    s->tensor = PDL_NEW(p->scratch, int, n + 1);
    if (!s->round || !s->tensor)
        return false;
    for (int g = 0; g < m->nsegments; g++)
        for (int64_t r = 0; r < m->segments[g].repeat; r++)
            for (int t = 0; t < m->ntensors; t++)
                if (m->tensors[t].segment == g && at < n) {
                    s->round[at] = g == p->f->block ? (int)r : -1;
                    s->tensor[at++] = t;
                }
    if (n == m->ntensors) /* nothing was repeated, nothing was moved */
        for (int t = 0; t < n; t++) {
            s->round[t] = m->tensors[t].segment == p->f->block ? 0 : -1;
            s->tensor[t] = t;
        }
    return at == n;
}

static bool prepare_oracle(struct oracle_pieces *p, struct small *s)
{
    struct oracle *o = &s->o;
    int n = s->plan.ntensors > s->plan.model->ntensors
                ? s->plan.ntensors
                : s->plan.model->ntensors;

    *o = (struct oracle){
        .p = &s->plan, .sys = p->f->sys, .opt = p->f->opt, .arena = p->scratch};
    oracle_settle(o, &s->changed);
    o->wires = PDL_NEW(p->scratch, struct oracle_wire, ORACLE_WIRES);
    s->size = PDL_NEW(p->scratch, int64_t, n + 1);
    if (!o->wires || !s->size || !oracle_find_alike(o) || !oracle_memo_make(o))
        return false;
    s->inside = oracle_find_inside(o);
    return s->inside != NULL;
}

/* The options and the strategy of a small plan. */
static struct small *new_small(struct oracle_pieces *p, pdl_arena *a,
                               const struct key *k, struct pdl_plan_options *po)
{
    const struct oracle_family *f = p->f;
    struct small *s = PDL_NEW(a, struct small, 1);
    struct oracle_point x = p->mesh;
    int64_t stages = p->mesh.pipe > 1 ? STAGES : 1, m = k->many ? STAGES : 1;

    if (!s)
        return NULL;
    few_blocks(f, k->blocks * stages, s);
    x.pipe = stages;
    x.micro = k->micro;
    x.zero = k->zero;
    x.recompute = k->recompute;
    oracle_point_strategy(f, &x, &s->strategy);
    s->strategy.micro_batches = stages > 1 ? m : 0;
    s->strategy.accumulate = stages == 1 && m > 1 ? m : 0;
    *po = f->plan;
    po->batch = k->micro * x.data * m;
    po->split = PDL_SPLIT_BLOCKS;
    return s;
}

static const struct pdl_plan *lower_now(struct oracle_pieces *p, pdl_arena *a,
                                        const struct key *k,
                                        struct pdl_err *err)
{
    struct pdl_plan_options po;
    struct small *s = new_small(p, a, k, &po);
    const struct pdl_plan *plan = NULL;

    if (!s)
        pdl_fail(err, PDL_ENOMEM, "out of memory");
    else if (pdl_plan_lower(a, &s->model, &s->strategy, &po, &plan, err) !=
             PDL_OK)
        return NULL;
    return plan;
}

static bool same_ids(const int *a, const int *b, int n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Do two plans have the same operations? */
static bool same_ops(const struct pdl_plan *a, const struct pdl_plan *b)
{
    if (a->nops != b->nops || a->ntensors != b->ntensors ||
        a->nitems != b->nitems)
        return false;
    for (int i = 0; i < a->nops; i++) {
        const struct pdl_plan_op *x = &a->ops[i], *y = &b->ops[i];

        if (x->kind != y->kind || x->pass != y->pass || x->part != y->part ||
            x->node != y->node || x->group != y->group || x->nin != y->nin ||
            x->nout != y->nout || !same_ids(x->in, y->in, x->nin) ||
            !same_ids(x->out, y->out, x->nout))
            return false;
    }
    return true;
}

/* Dimensions that double with the samples; NULL: something else changes. */
static const uint8_t *find_dims(pdl_arena *a, const struct pdl_plan *one,
                                const struct pdl_plan *two)
{
    uint8_t *dims = PDL_NEW(a, uint8_t, one->ntensors + 1);

    if (!dims || !two || !same_ops(one, two))
        return NULL;
    for (int t = 0; t < one->ntensors; t++) {
        const struct pdl_plan_tensor *x = &one->tensors[t];
        const struct pdl_plan_tensor *y = &two->tensors[t];

        for (int d = 0; d < x->ndims; d++)
            if (y->dim[d] == 2 * x->dim[d])
                dims[t] |= (uint8_t)(1 << d);
            else if (y->dim[d] != x->dim[d])
                return NULL;
        if (x->frame != pdl_no_frames || x->some != y->some || x->of != y->of ||
            memcmp(&x->place, &y->place, sizeof x->place) != 0 ||
            memcmp(x->unit, y->unit, sizeof x->unit) != 0)
            return NULL;
    }
    return dims;
}

/* The plan of one sample of a kind; NULL: it is refused. */
static const struct grows *find_grows(struct oracle_pieces *p,
                                      const struct key *k, struct pdl_err *err)
{
    struct key one = *k, two = *k;
    struct grows *g = &p->grows[p->ngrows];

    one.micro = 1;
    two.micro = 2;
    one.lane = 0;
    for (int i = 0; i < p->ngrows; i++)
        if (oracle_same_key(&p->grows[i].key, &one))
            return &p->grows[i];
    if (p->ngrows == MAX_GROWS)
        return NULL;
    *g = (struct grows){.key = one, .plan = lower_now(p, p->arena, &one, err)};
    if (!g->plan)
        return NULL;
    g->dims =
        find_dims(p->arena, g->plan, lower_now(p, p->scratch, &two, NULL));
    p->ngrows++;
    return g;
}

/* The plan for more samples; NULL: it has to be lowered. */
static const struct pdl_plan *grown(struct oracle_pieces *p,
                                    const struct key *k)
{
    const struct grows *g = find_grows(p, k, NULL);
    struct pdl_plan *plan = PDL_NEW(p->scratch, struct pdl_plan, 1);
    struct pdl_plan_tensor *tensors;

    if (!g || !plan || !g->dims)
        return NULL;
    *plan = *g->plan;
    tensors = PDL_NEW(p->scratch, struct pdl_plan_tensor, plan->ntensors + 1);
    if (!tensors)
        return NULL;
    memcpy(tensors, plan->tensors, (size_t)plan->ntensors * sizeof tensors[0]);
    for (int t = 0; t < plan->ntensors; t++)
        for (int d = 0; d < tensors[t].ndims; d++)
            if (g->dims[t] >> d & 1)
                tensors[t].dim[d] *= k->micro;
    plan->tensors = tensors;
    plan->batch *= k->micro;
    return plan;
}

struct small *oracle_small(struct oracle_pieces *p, const struct key *k,
                           bool grow, struct pdl_err *err)
{
    struct pdl_plan_options po;
    struct small *s = new_small(p, p->scratch, k, &po);
    const struct pdl_plan *plan = grow && s ? grown(p, k) : NULL;

    if (!plan && s)
        plan = lower_now(p, p->scratch, k, err);
    if (!plan || !s)
        return NULL;
    s->plan = *plan;
    s->plan.strategy = &s->strategy;
    memcpy(s->stages, plan->stages,
           (size_t)plan->nstages * sizeof s->stages[0]);
    s->plan.stages = s->stages;
    widen(s, p->mesh.pipe);
    if (!find_tensors(p, s) || !prepare_oracle(p, s)) {
        pdl_fail(err, PDL_ENOMEM, "out of memory");
        return NULL;
    }
    return s;
}

/* A lane of the large plan is a stage of one with as many. */
int oracle_small_ranks(const struct small *s, int64_t lane, int64_t *ranks)
{
    struct pdl_plan wide = s->plan;

    wide.lanes = wide.nstages = (int)lane + 1;
    return oracle_ranks(&wide, (int)lane, ranks);
}

/* The block of the small plan that an operation computes; -1: none. */
static int64_t block_of(const struct oracle_pieces *p, const struct small *s,
                        int op)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int64_t nodes = p->f->model->segments[p->f->block].nnodes;
    int64_t repeat = s->segments[p->f->block].repeat;
    int64_t at = x->node - p->f->first_node;

    return x->kind == PDL_PLAN_OP_COMPUTE && at >= 0 && at < nodes * repeat
               ? at / nodes
               : -1;
}

/* The first operation of an item that computes the block; -1: none. */
static int first_of(const struct oracle_pieces *p, const struct small *s,
                    const struct pdl_plan_item *it, int64_t block)
{
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        if (block_of(p, s, i) == block)
            return i;
    return -1;
}

/* Cuts an item where the second and the third of a stage's blocks begin. */
static bool cut_item(const struct oracle_pieces *p, const struct small *s,
                     const struct pdl_plan_item *it, int64_t first,
                     int64_t second, struct pdl_plan_item *out)
{
    int a = first_of(p, s, it, first), b = first_of(p, s, it, second);
    int end = it->first_op + it->nops;

    for (int i = 0; i < PIECE_BLOCKS; i++)
        out[i] = *it;
    out[0].nops = a - it->first_op;
    out[1].first_op = a;
    out[1].nops = b - a;
    out[2].first_op = b;
    out[2].nops = end - b;
    return a > it->first_op && b > a;
}

/* The same operations, in one item for each block of three. */
bool oracle_small_cut(const struct oracle_pieces *p, struct small *s)
{
    int n = 0;

    for (int i = 0; i < s->plan.nstages; i++) {
        struct pdl_plan_stage *x = &s->stages[i];
        const struct pdl_plan_item *items = s->plan.items;
        int64_t first = (int64_t)i * PIECE_BLOCKS;

        if (x->nforward != 1 || x->nbackward != 1 || x->nupdate != 1 ||
            !cut_item(p, s, &items[x->first_forward], first + 1, first + 2,
                      &s->items[n]) ||
            !cut_item(p, s, &items[x->first_backward], first + 1, first,
                      &s->items[n + PIECE_BLOCKS]))
            return false;
        s->items[n + 2 * PIECE_BLOCKS] = items[x->first_update];
        *x = (struct pdl_plan_stage){.first_forward = n,
                                     .nforward = PIECE_BLOCKS,
                                     .first_backward = n + PIECE_BLOCKS,
                                     .nbackward = PIECE_BLOCKS,
                                     .first_update = n + 2 * PIECE_BLOCKS,
                                     .nupdate = 1};
        n += 2 * PIECE_BLOCKS + 1;
    }
    s->plan.items = s->items;
    return true;
}
