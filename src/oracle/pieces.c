/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of plans. A search over configurations of a network of equal blocks
 * prices the same things again and again: a block under so much tensor
 * parallelism, with this micro-batch and this recomputation; the exchange of
 * a stage's gradients over these data ranks. Here they are priced once. No
 * piece has a formula of its own: each is read off a plan that is lowered and
 * priced like any other, of the same network with few blocks,
 *   work    one, or three stages of one or three blocks: forward and backward.
 *           Of three blocks the middle one stands for all between the first
 *           and the last. Micro-batches of another size need no lowering: the
 *           plans of one and of two samples show which dimensions grow;
 *   update  one, or three stages of as many blocks as asked for: gradient
 *           exchange and update, which do not depend on micro-batches and
 *           recomputation. Buckets do not end where blocks do, so nothing is
 *           inferred from fewer blocks.
 * The small plan gets the mesh of the large one (more ranks along the
 * pipeline), so that groups, wires and contention are those of the large one.
 * A stage's ranks are those of its lane; lanes whose groups cross the same
 * wires share pieces. */
#include "pieces.h"

#include <string.h>

enum { STAGES = 3, TABLE = 256, MAX_KINDS = 8 };

/* Lanes whose groups cross the same wires are of one kind. */
struct kinds {
    int n;
    int *of;                  /* of each lane */
    int64_t first[MAX_KINDS]; /* lane of each kind */
};

/* Which pieces: a small plan, priced on the ranks of a kind of lane. */
struct key {
    int64_t micro, blocks;
    enum pdl_recompute recompute;
    int zero, lane;
    bool many; /* micro-batches */
};

struct entry {
    struct key key;
    bool used;
    void *piece;
    const char *refused; /* why there is none */
};

/* A small plan of one sample, and the dimensions of its tensors that grow with
 * the samples (bits). */
struct grows {
    struct key key;
    const struct pdl_plan *plan;
    const uint8_t *dims; /* NULL: others must be lowered */
};
enum { MAX_GROWS = 32 };

struct oracle_pieces {
    const struct oracle_family *f;
    struct oracle_point mesh;
    pdl_arena *arena, *scratch;
    struct entry work[TABLE], update[TABLE];
    struct grows grows[MAX_GROWS];
    int ngrows;
    int64_t count; /* small plans priced */
    double seconds;
    struct kinds kinds[2]; /* of lanes, for work and for updates */
    const char *refused;   /* why lanes could not be told */
};

/* A small plan, on the mesh of the large one. */
struct small {
    struct pdl_model model;
    struct pdl_segment segments[8];
    struct pdl_strategy strategy;
    struct pdl_mesh mesh;
    struct pdl_plan plan;
    struct pdl_plan_stage stages[STAGES];
    struct pdl_plan_item items[STAGES * (2 * PIECE_BLOCKS + 1)];
    struct oracle_changed changed;
    struct oracle o;
    const bool *inside;
    int64_t *size;
    int *round, *tensor; /* of each tensor of the written-out model: the round
                            of its block (-1: outside) and the model's tensor */
};

static bool same_key(const struct key *a, const struct key *b)
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
        if (same_key(&p->grows[i].key, &one))
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

static struct small *lower_small(struct oracle_pieces *p, const struct key *k,
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
static bool cut_stages(const struct oracle_pieces *p, struct small *s)
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

/* ---- forward and backward ------------------------------------------------------------ */

/* Operations of a stage's backward that make what its update reads. */
static int *find_makers(struct oracle_pieces *p, const struct small *s,
                        int stage)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    const struct pdl_plan_item *b = &s->plan.items[x->first_backward];
    const struct pdl_plan_item *e = &b[x->nbackward - 1];
    int *by = PDL_NEW(p->scratch, int, s->plan.ntensors + 1);

    for (int t = 0; by && t < s->plan.ntensors; t++)
        by[t] = -1;
    for (int i = b->first_op; by && i < e->first_op + e->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nout; k++)
            by[s->plan.ops[i].out[k]] = i;
    return by;
}

/* The gradients that the update reads, by the operation that makes them. */
static struct piece_made *gradients_of(struct oracle_pieces *p,
                                       const struct small *s, int stage,
                                       const struct piece_work *w, int part,
                                       int op, const int *by, int *n)
{
    const struct pdl_plan_item *it =
        &s->plan.items[s->stages[stage].first_update];
    int base = stage * w->blocks + (w->parts > 1 ? PIECE_BLOCKS - 1 - part : 0);
    struct piece_made *list = NULL;

    *n = 0;
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nin; k++) {
            int t = s->plan.ops[i].in[k], id = s->plan.tensors[t].model_tensor;

            if (by[t] != op || id < 0 || *n == 16)
                continue;
            if (!list)
                list = PDL_NEW(p->arena, struct piece_made, 16);
            if (!list)
                return NULL;
            list[(*n)++] = (struct piece_made){
                s->tensor[id], s->round[id] - base, s->round[id] < 0};
        }
    return list;
}

static bool makes_gradient(const struct small *s, int op)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];

    return x->nout > 0 &&
           s->plan.tensors[x->out[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* One part of backward, operation by operation. */
static bool price_part(struct oracle_pieces *p, struct small *s, int stage,
                       int part, const struct oracle_ranks *r, const int *by,
                       struct streams *c, struct pdl_projection *out,
                       struct piece_work *w)
{
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_item it = items[s->stages[stage].first_backward + part];
    struct pdl_plan_item one = it;
    struct piece_op *list = PDL_NEW(p->arena, struct piece_op, it.nops + 1);
    int n = 0;

    one.nops = 1;
    s->plan.items = &one;
    for (int i = it.first_op; list && i < it.first_op + it.nops; i++) {
        struct stage_time *t = &w->backward.time[part], before = *t;
        struct piece_op *x = &list[n];

        one.first_op = i;
        oracle_add_items(&s->o, 0, 1, BACKWARD, r, t, c, out);
        x->comm = t->backward_comm > before.backward_comm;
        x->seconds = t->backward - before.backward + t->backward_comm -
                     before.backward_comm;
        x->level = c->level;
        s->plan.items = items;
        if (makes_gradient(s, i))
            x->made = gradients_of(p, s, stage, w, part, i, by, &x->nmade);
        s->plan.items = &one;
        n += x->seconds > 0 || x->nmade > 0;
    }
    s->plan.items = items;
    w->ops[part] = list;
    w->nops[part] = n;
    return list != NULL;
}

static bool price_work(struct oracle_pieces *p, struct small *s, int stage,
                       const struct oracle_ranks *r, struct piece_work *w)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    struct pdl_projection out = {.reason = ""};
    struct streams c = {.overlap = true};
    const int *by = find_makers(p, s, stage);
    bool ok;

    c.ready = PDL_NEW(p->scratch, double, s->plan.ntensors + 1);
    ok = by && c.ready;
    for (int i = 0; ok && i < w->parts; i++)
        oracle_add_items(&s->o, x->first_forward + i, 1, FORWARD, r,
                         &w->forward.time[i], &c, &out);
    for (int i = 0; ok && i < w->parts; i++)
        ok = price_part(p, s, stage, i, r, by, &c, &out, w);
    w->contention = out.contention;
    return ok;
}

static void live_work(struct small *s, int stage, const struct oracle_ranks *r,
                      struct piece_work *w)
{
    const struct pdl_plan_stage *x = &s->stages[stage];

    w->nranks = r->n;
    for (int i = 0; i < r->n; i++) {
        struct oracle_lived base;
        struct oracle_tally *t;

        w->alike[i] = r->like[i] != i;
        if (w->alike[i]) {
            int k = r->like[i];

            for (int j = 0; j < w->parts; j++) {
                w->forward.span[j][i] = w->forward.span[j][k];
                w->backward.span[j][i] = w->backward.span[j][k];
            }
            w->input[i] = w->input[k];
            w->label[i] = w->label[k];
            w->written[i] = w->written[k];
            continue;
        }
        oracle_sizes(&s->o, stage, r->rank[i], s->inside, s->size);
        oracle_lived_base(&s->o, stage, s->size, &base);
        t = oracle_tally_make(&s->o, r->rank[i], s->size, &base);
        for (int j = 0; t && j < w->parts; j++)
            w->forward.span[j][i] =
                oracle_walk(&s->o, stage, x->first_forward + j, 1, false, t);
        for (int j = 0; t && j < w->parts; j++)
            w->backward.span[j][i] =
                oracle_walk(&s->o, stage, x->first_backward + j, 1, true, t);
        w->input[i] = base.input;
        w->label[i] = base.label;
        w->written[i] = oracle_written(&s->o, stage, s->size);
    }
}

/* Ranks of a kind of lane, who does the same work as who. All stages of a
 * small plan are priced on them, so prices are remembered as of one. */
static void ranks_of(const struct kinds *x, const struct small *s, int kind,
                     struct oracle_ranks *r)
{
    *r = *s->o.alike;
    r->stage = 0;
    oracle_ranks(&s->plan, (int)x->first[kind], r->rank);
}

static enum pdl_status make_work(struct oracle_pieces *p, const struct key *k,
                                 struct piece_works *out, struct pdl_err *err)
{
    struct small *s = lower_small(p, k, true, err);
    int parts = k->blocks == PIECE_BLOCKS ? PIECE_BLOCKS : 1;
    enum pdl_status st = PDL_OK;
    struct oracle_ranks r;

    if (!s)
        return PDL_EINVAL;
    ranks_of(&p->kinds[0], s, k->lane, &r);
    if (r.n > PIECE_RANKS || (parts > 1 && !cut_stages(p, s)))
        return pdl_fail(err, PDL_EINVAL, "%s: its blocks are not apart",
                        p->f->model->name);
    for (int i = 0; st == PDL_OK && i < s->plan.nstages; i++) {
        out->at[i].blocks = (int)k->blocks;
        out->at[i].parts = parts;
        if (!price_work(p, s, i, &r, &out->at[i]))
            st = pdl_fail(err, PDL_ENOMEM, "out of memory");
        live_work(s, i, &r, &out->at[i]);
    }
    out->load = oracle_loading(&s->o);
    out->load.load_s /= (double)s->plan.micro_batches;
    return st;
}

/* ---- gradient exchange and update ------------------------------------------------------ */

/* What an operation of the update waits for: the latest of its inputs. step:
 * of the update that made a tensor; by: operation of backward. */
static void find_waits(const struct small *s, int op, int stage, int64_t blocks,
                       const int *step, const int *by,
                       const struct piece_step *steps, struct piece_step *out)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int latest = -1;

    out->wait = out->after = -1;
    out->block = -2;
    for (int k = 0; k < x->nin; k++) {
        int t = x->in[k], id = s->plan.tensors[t].model_tensor;

        if (step[t] > 0) {
            int *at = steps[step[t] - 1].run.exchange != out->run.exchange
                          ? &out->wait
                          : &out->after;

            *at = step[t] - 1 > *at ? step[t] - 1 : *at;
        } else if (by[t] > latest && id >= 0) {
            latest = by[t];
            out->block =
                s->round[id] < 0 ? -1 : (int)(s->round[id] - stage * blocks);
            out->tensor = s->tensor[id];
        }
    }
}

static bool price_update(struct oracle_pieces *p, struct small *s, int stage,
                         const struct oracle_ranks *r, struct piece_update *u)
{
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_stage *at = &s->stages[r->stage], whole = *at;
    struct pdl_plan_item it = items[s->stages[stage].first_update], one = it;
    const int *by = find_makers(p, s, stage);
    int *step = PDL_NEW(p->scratch, int, s->plan.ntensors + 1);
    struct streams c = {.overlap = false};
    struct pdl_projection out = {.reason = ""};
    struct stage_time sum = {0};

    c.ready = PDL_NEW(p->scratch, double, s->plan.ntensors + 1);
    u->steps = PDL_NEW(p->arena, struct piece_step, it.nops + 1);
    if (!c.ready || !u->steps || !by || !step)
        return false;
    s->plan.items = &one;
    at->first_update = 0; /* a plan of one operation after another */
    one.nops = 1;
    for (int i = it.first_op; i < it.first_op + it.nops; i++) {
        struct piece_step *x = &u->steps[u->n];
        double before = sum.update + sum.gradient_comm;

        one.first_op = i;
        oracle_add_items(&s->o, 0, 1, UPDATE, r, &sum, &c, &out);
        x->run = (struct stream_op){
            .seconds = sum.update + sum.gradient_comm - before,
            .level = c.level,
            .exchange = oracle_is_exchange(&s->o, i, UPDATE),
            .update = true};
        find_waits(s, i, stage, u->blocks, step, by, u->steps, x);
        for (int k = 0; k < s->plan.ops[i].nout; k++)
            step[s->plan.ops[i].out[k]] = u->n + 1;
        /* frees wait, and nobody waits for them */
        u->n += x->run.seconds > 0 || x->run.exchange || x->wait >= 0 ||
                s->plan.ops[i].nout > 0;
    }
    s->plan.items = items;
    *at = whole;
    u->update = sum.update;
    u->gradient_comm = sum.gradient_comm;
    u->contention = out.contention;
    u->apart = oracle_exposed(&c, 0, sum.update);
    return true;
}

static void live_update(struct small *s, int stage,
                        const struct oracle_ranks *r, struct piece_update *u)
{
    const struct pdl_plan_stage *x = &s->stages[stage];

    u->nranks = r->n;
    for (int i = 0; i < r->n; i++) {
        struct oracle_lived *l = &u->lived[i];
        struct oracle_tally *t;

        u->alike[i] = r->like[i] != i;
        if (u->alike[i]) {
            *l = u->lived[r->like[i]];
            continue;
        }
        oracle_sizes(&s->o, stage, r->rank[i], s->inside, s->size);
        oracle_lived_base(&s->o, stage, s->size, l);
        t = oracle_tally_make(&s->o, r->rank[i], s->size, l);
        if (t)
            l->update =
                oracle_walk(&s->o, stage, x->first_update, x->nupdate, true, t);
    }
}

static enum pdl_status make_update(struct oracle_pieces *p, const struct key *k,
                                   struct piece_updates *out,
                                   struct pdl_err *err)
{
    struct small *s = lower_small(p, k, false, err);
    struct oracle_ranks r;

    if (!s)
        return PDL_EINVAL;
    ranks_of(&p->kinds[1], s, k->lane, &r);
    if (r.n > PIECE_RANKS)
        return pdl_fail(err, PDL_EINVAL, "too many kinds of ranks");
    for (int i = 0; i < s->plan.nstages; i++) {
        struct piece_update *u = &out->at[i];

        u->blocks = k->blocks;
        live_update(s, i, &r, u);
        if (!price_update(p, s, i, &r, u))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    return PDL_OK;
}

/* ---- lanes ----------------------------------------------------------------------------- */

/* Do the groups of two lanes cross the same wires, in the update or before? */
static bool same_wires(const struct small *s, int64_t a, int64_t b, bool update)
{
    int64_t ranks[2][ORACLE_MAX_RANKS];
    int n = oracle_ranks(&s->plan, (int)a, ranks[0]);
    int first = s->plan.items[s->stages[0].first_update].first_op;
    uint32_t seen[8] = {0};
    int nseen = 0;

    oracle_ranks(&s->plan, (int)b, ranks[1]);
    for (int i = update ? first : 0; i < (update ? s->plan.nops : first); i++) {
        bool again = s->plan.ops[i].group == 0;

        for (int k = 0; k < nseen; k++)
            again = again || seen[k] == s->plan.ops[i].group;
        if (again || nseen == 8)
            continue;
        seen[nseen++] = s->plan.ops[i].group;
        for (int k = 0; k < n; k++)
            if (!oracle_same_wire(&s->o, i, ranks[0][k], ranks[1][k], update))
                return false;
    }
    return true;
}

static enum pdl_status find_kinds(struct oracle_pieces *p, struct pdl_err *err)
{
    struct key k = {.micro = 1, .blocks = 1};
    struct small *s = lower_small(p, &k, false, err);

    if (!s)
        return PDL_EINVAL;
    for (int u = 0; u < 2; u++)
        for (int64_t l = 0; l < p->mesh.pipe; l++) {
            struct kinds *x = &p->kinds[u];
            int kind = 0;

            while (kind < x->n && !same_wires(s, l, x->first[kind], u))
                kind++;
            if (kind == MAX_KINDS)
                return pdl_fail(err, PDL_EINVAL, "too many kinds of lanes");
            if (kind == x->n)
                x->first[x->n++] = l;
            x->of[l] = kind;
        }
    return PDL_OK;
}

int oracle_piece_lane(const struct oracle_pieces *p, int64_t lane, bool update)
{
    return p->kinds[update].of[lane];
}

/* ---- tables --------------------------------------------------------------------------- */

static uint64_t hash(const struct key *k)
{
    uint64_t h = (uint64_t)k->micro * 1000003 + (uint64_t)k->blocks;

    h = h * 31 + (uint64_t)k->recompute;
    h = h * 31 + (uint64_t)k->lane * 4 + (uint64_t)k->zero * 2 + k->many;
    return h * UINT64_C(0x9e3779b97f4a7c15);
}

/* The entry of a key; a full table forgets. */
static struct entry *find(struct entry *table, const struct key *k)
{
    size_t h = (size_t)(hash(k) >> 40) % TABLE;

    for (int i = 0; i < TABLE; i++, h = (h + 1) % TABLE)
        if (!table[h].used || same_key(&table[h].key, k))
            return &table[h];
    memset(table, 0, TABLE * sizeof *table);
    return &table[(size_t)(hash(k) >> 40) % TABLE];
}

struct oracle_pieces *oracle_pieces_make(pdl_arena *a,
                                         const struct oracle_family *f,
                                         const struct oracle_point *x)
{
    struct oracle_pieces *p = PDL_NEW(a, struct oracle_pieces, 1);

    if (!p)
        return NULL;
    p->f = f;
    p->mesh = *x;
    p->arena = a;
    p->kinds[0].of = PDL_NEW(a, int, x->pipe);
    p->kinds[1].of = PDL_NEW(a, int, x->pipe);
    return p->kinds[0].of && p->kinds[1].of ? p : NULL;
}

enum what { LANES, WORK, PIECES_UPDATE };

/* The arena of a small plan is there for one question. */
static enum pdl_status with_scratch(struct oracle_pieces *p, enum what what,
                                    const struct key *k, void *piece,
                                    struct pdl_err *err)
{
    enum pdl_status st;

    double start = pdl_clock_s();

    p->scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (!p->scratch)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = what == LANES  ? find_kinds(p, err)
         : what == WORK ? make_work(p, k, piece, err)
                        : make_update(p, k, piece, err);
    pdl_arena_destroy(p->scratch);
    p->scratch = NULL;
    p->count++;
    p->seconds += pdl_clock_s() - start;
    return st;
}

int64_t oracle_piece_count(const struct oracle_pieces *p, double *seconds)
{
    *seconds = p->seconds;
    return p->count;
}

enum pdl_status oracle_piece_lanes(struct oracle_pieces *p, struct pdl_err *err)
{
    enum pdl_status st;

    if (p->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", p->refused);
    if (p->kinds[1].n > 0)
        return PDL_OK;
    st = with_scratch(p, LANES, NULL, NULL, err);
    if (st != PDL_OK && st != PDL_ENOMEM)
        p->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    return st;
}

static enum pdl_status get(struct oracle_pieces *p, enum what what,
                           const struct key *k, size_t size, const void **out,
                           struct pdl_err *err)
{
    struct entry *e = find(what == WORK ? p->work : p->update, k);
    enum pdl_status st = PDL_OK;

    if (!e->used) {
        void *piece = pdl_arena_alloc(p->arena, 1, size);

        st = piece ? with_scratch(p, what, k, piece, err)
                   : pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (st == PDL_ENOMEM)
            return st;
        *e = (struct entry){.key = *k, .used = true, .piece = piece};
        if (st != PDL_OK)
            e->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    } else if (e->refused) {
        return pdl_fail(err, PDL_EINVAL, "%s", e->refused);
    }
    *out = e->piece;
    return st;
}

enum pdl_status oracle_piece_work(struct oracle_pieces *p,
                                  const struct oracle_point *x,
                                  int64_t micro_batches, int64_t blocks,
                                  int lane, const struct piece_works **out,
                                  struct pdl_err *err)
{
    struct key k = {.micro = x->micro,
                    .blocks = blocks > 1 ? PIECE_BLOCKS : 1,
                    .recompute = x->recompute,
                    .lane = lane,
                    .many = micro_batches > 1};
    const void *piece = NULL;
    enum pdl_status st =
        get(p, WORK, &k, sizeof(struct piece_works), &piece, err);

    *out = piece;
    return st;
}

enum pdl_status oracle_piece_update(struct oracle_pieces *p,
                                    const struct oracle_point *x,
                                    int64_t blocks, int lane,
                                    const struct piece_updates **out,
                                    struct pdl_err *err)
{
    struct key k = {
        .micro = 1, .blocks = blocks, .zero = x->zero, .lane = lane};
    const void *piece = NULL;
    enum pdl_status st =
        get(p, PIECES_UPDATE, &k, sizeof(struct piece_updates), &piece, err);

    *out = piece;
    return st;
}
