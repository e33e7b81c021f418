/* SPDX-License-Identifier: Apache-2.0
 *
 * Small plans: the same network with few blocks, one stage or three of them,
 * lowered as any other. They are kept and put on the mesh of one large plan
 * after another: with more ranks along the pipeline and the data axis, and
 * with more samples, which are some dimensions made larger; which, the plan
 * for two samples shows. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- small plans ------------------------------------------------------------------ */

static void few_blocks(const struct oracle_family *f, int64_t blocks,
                       struct block_plan *s)
{
    s->model = *f->model;
    memcpy(s->segments, f->model->segments,
           (size_t)f->model->nsegments * sizeof s->segments[0]);
    s->segments[f->block].repeat = blocks;
    s->model.segments = s->segments;
}

/* Of each tensor written out, in the order of plan_expand. */
static bool find_tensors(struct oracle_block_plans *g, struct block_plan *s)
{
    const struct pdl_model *m = &s->model;
    int n = s->plan.model->ntensors, at = 0;

    s->round = PDL_NEW(g->arena, int, n + 1);
    s->tensor = PDL_NEW(g->arena, int, n + 1);
    if (!s->round || !s->tensor)
        return false;
    for (int i = 0; i < m->nsegments; i++)
        for (int64_t r = 0; r < m->segments[i].repeat; r++)
            for (int t = 0; t < m->ntensors; t++)
                if (m->tensors[t].segment == i && at < n) {
                    s->round[at] = i == g->f->block ? (int)r : -1;
                    s->tensor[at++] = t;
                }
    if (n == m->ntensors) /* nothing was repeated, nothing was moved */
        for (int t = 0; t < n; t++) {
            s->round[t] = m->tensors[t].segment == g->f->block ? 0 : -1;
            s->tensor[t] = t;
        }
    return at == n;
}

static bool prepare_oracle(struct oracle_block_plans *g, struct block_plan *s)
{
    struct oracle *o = &s->o;
    int n = s->plan.ntensors > s->plan.model->ntensors
                ? s->plan.ntensors
                : s->plan.model->ntensors;

    *o = (struct oracle){
        .p = &s->plan, .sys = g->f->sys, .opt = g->f->opt, .arena = g->arena};
    oracle_settle(o, &s->changed);
    o->wires = g->wires;
    o->quickest = g->quickest;
    s->size = PDL_NEW(g->arena, int64_t, n + 1);
    if (!s->size || !oracle_memo_make(o, g->seen))
        return false;
    s->inside = oracle_find_inside(o);
    return s->inside != NULL;
}

/* The strategy and the options of a small plan. */
static void describe(const struct oracle_mesh *p, const struct key *k,
                     int64_t micro, struct block_plan *s,
                     struct pdl_plan_options *po)
{
    const struct oracle_family *f = p->f;
    struct oracle_point x = p->mesh;
    int64_t stages = k->staged ? STAGES : 1, m = k->many ? STAGES : 1;

    few_blocks(f, k->blocks * stages, s);
    x.pipe = stages;
    x.chunks = 1;
    x.no_overlap = false;
    x.micro = micro;
    x.zero = k->zero;
    x.recompute = k->recompute;
    x.activations = k->activations;
    x.optimizer = k->optimizer;
    x.bubble = k->split;
    oracle_point_strategy(f, &x, &s->strategy);
    s->strategy.micro_batches = stages > 1 ? m : 0;
    s->strategy.accumulate = stages == 1 && m > 1 ? m : 0;
    *po = f->plan;
    po->batch = micro * oracle_point_replicas(&x) * m;
    po->split = PDL_SPLIT_BLOCKS;
}

/* The network of so many blocks, written out once. */
const struct pdl_model *oracle_written_out(struct oracle_block_plans *g,
                                           const struct pdl_model *few,
                                           int64_t blocks, struct pdl_err *err)
{
    const struct pdl_model *m = NULL;

    if (blocks < WRITTEN && g->written[blocks])
        return g->written[blocks];
    if (pdl_plan_expand(g->arena, few, &m, err) != PDL_OK)
        return NULL;
    /* what nothing is repeated in is the small plan's own */
    if (blocks < WRITTEN && m != few && g->arena != g->large)
        g->written[blocks] = m;
    return m;
}

/* Into the scratch arena, but for the network. */
static const struct pdl_plan *lower(struct oracle_mesh *p, const struct key *k,
                                    int64_t micro, struct block_plan *s,
                                    struct pdl_err *err)
{
    struct oracle_block_plans *g = p->forms;
    bool roll = k->update && k->blocks > UPDATE_BLOCKS;
    const struct pdl_model *model;
    struct pdl_plan_options po;
    const struct pdl_plan *plan = NULL;

    describe(p, k, micro, s, &po);
    g->effort.lowered++;
    model = roll ? &s->model
                 : oracle_written_out(g, &s->model,
                                      s->segments[g->f->block].repeat, err);
    if (!model ||
        (roll ? pdl_plan_lower_rolled : pdl_plan_lower)(
            g->scratch, model, &s->strategy, &po, &plan, err) != PDL_OK)
        return NULL;
    return plan;
}

/* ---- more samples ----------------------------------------------------------------- */

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

/* May the dimensions of a tensor be changed? */
static bool same_tensor(const struct pdl_plan_tensor *x,
                        const struct pdl_plan_tensor *y)
{
    return x->frame == pdl_no_frames && x->some == y->some && x->of == y->of &&
           memcmp(&x->place, &y->place, sizeof x->place) == 0 &&
           memcmp(x->unit, y->unit, sizeof x->unit) == 0;
}

/* Dimensions that double with the samples; false: something else changes. */
static bool find_grows(struct oracle_block_plans *g, struct block_plan *s,
                       int64_t each, const struct pdl_plan *two)
{
    const struct pdl_plan *one = &s->plan;

    s->grows = PDL_NEW(g->arena, struct grows, 2 * (int64_t)one->ntensors + 1);
    if (!s->grows || !two || !same_ops(one, two))
        return false;
    for (int t = 0; t < one->ntensors; t++) {
        const struct pdl_plan_tensor *x = &one->tensors[t];
        const struct pdl_plan_tensor *y = &two->tensors[t];

        for (int d = 0; d < x->ndims; d++) {
            if (y->dim[d] == x->dim[d])
                continue;
            if (y->dim[d] != 2 * x->dim[d] || x->dim[d] % each != 0 ||
                s->ngrows == 2 * one->ntensors)
                return false;
            s->grows[s->ngrows++] = (struct grows){t, d, x->dim[d] / each};
        }
        if (!same_tensor(x, y))
            return false;
    }
    return true;
}

static void grow(struct block_plan *s, int64_t samples)
{
    for (int i = 0; i < s->ngrows; i++)
        s->tensors[s->grows[i].tensor].dim[s->grows[i].dim] =
            s->grows[i].each * samples;
}

/* ---- another mesh ------------------------------------------------------------------- */

/* Of an axis of two factors the inner one stays. */
static void set_axis(struct pdl_mesh *m, enum pdl_axis axis, int64_t n)
{
    for (int t = 0; t < m->nterms[0]; t++) {
        struct pdl_mesh_term *x = &m->term[0][t];

        if (x->axis != axis)
            continue;
        x->size = n;
        if (x->count > 0)
            m->factor[x->first] =
                x->count > 1 ? n / m->factor[x->first + 1] : n;
    }
}

static void set_mesh(struct block_plan *s, const struct oracle_point *x)
{
    set_axis(&s->mesh, PDL_AXIS_PIPE, x->pipe);
    set_axis(&s->mesh, PDL_AXIS_DATA, x->data);
    s->mesh.pes = 1;
    for (int f = 0; f < s->mesh.nfactors; f++)
        s->mesh.pes *= s->mesh.factor[f];
}

/* Has every rank a part of what is cut? */
static bool is_cut_enough(const struct block_plan *s, int tensor)
{
    const struct pdl_plan_tensor *t = &s->tensors[tensor];
    int64_t parts[PDL_BOX_DIMS];

    for (int d = 0; d < t->ndims; d++)
        parts[d] = 1;
    for (int f = 0; f < s->mesh.nfactors; f++)
        if (t->place.at[f] >= 0)
            parts[t->place.at[f]] *= s->mesh.factor[f];
    for (int d = 0; d < t->ndims; d++)
        if (parts[d] > 1 &&
            t->dim[d] < parts[d] * (t->unit[d] > 1 ? t->unit[d] : 1))
            return false;
    return true;
}

static bool is_of_weights(enum pdl_plan_kind kind)
{
    return kind == PDL_PLAN_WEIGHT || kind == PDL_PLAN_STATE ||
           kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* Would its mesh be lowered to the same operations? Sharded states are cut
 * over the data axis; samples always are as many as ranks. */
static bool suits(struct block_form *m)
{
    const struct block_plan *s = m->s;

    if (m->fits == m->aim)
        return m->suitable;
    m->fits = m->aim;
    m->suitable = true;
    for (int t = 0; m->key.zero && m->suitable && t < s->plan.ntensors; t++)
        m->suitable = !is_of_weights(s->tensors[t].kind) || is_cut_enough(s, t);
    return m->suitable;
}

void oracle_aim_block_form(struct oracle_mesh *p, struct block_form *m,
                           int64_t micro)
{
    struct block_plan *s = m->s;

    if (p->forms->last != m->id) /* what is remembered is another's */
        oracle_memo_forget(&s->o, false);
    p->forms->last = m->id;
    if (p->forms->at != p->id)
        memset(s->o.wires, 0, ORACLE_WIRES * sizeof *s->o.wires);
    p->forms->at = p->id;
    if (m->aim == p->id && m->micro == micro)
        return;
    if (m->aim != p->id)
        set_mesh(s, &p->mesh);
    if (m->grown)
        grow(s, micro * oracle_point_replicas(&p->mesh));
    oracle_memo_forget(&s->o, m->aim != p->id);
    s->plan.batch =
        micro * oracle_point_replicas(&p->mesh) * (m->key.many ? STAGES : 1);
    m->aim = p->id;
    m->micro = micro;
    s->o.alike = &p->alike[m->key.zero];
}

/* ---- forms ----------------------------------------------------------------------------- */

static bool same_key(const struct key *a, const struct key *b)
{
    return a->blocks == b->blocks && a->micro == b->micro &&
           a->data == b->data && a->recompute == b->recompute &&
           a->zero == b->zero && a->update == b->update && a->many == b->many &&
           a->staged == b->staged && a->shared == b->shared &&
           a->activations == b->activations && a->optimizer == b->optimizer &&
           a->split == b->split;
}

/* Not of its samples and ranks: of a refused form these are set later. */
static uint64_t code_of(const struct key *k)
{
    uint64_t bits = (uint64_t)k->recompute << 10 | (uint64_t)k->zero << 8 |
                    (uint64_t)k->update << 7 | (uint64_t)k->many << 6 |
                    (uint64_t)k->staged << 5 | (uint64_t)k->shared << 4 |
                    (uint64_t)k->activations << 3 |
                    (uint64_t)k->optimizer << 2 | (uint64_t)k->split << 1;

    return (uint64_t)k->blocks << 32 | bits;
}

static struct block_form *find(const struct oracle_block_plans *g,
                               const struct key *k)
{
    uint64_t code = code_of(k);

    for (struct block_form *m = g->forms; m; m = m->next)
        if (m->code == code && same_key(&m->key, k))
            return m;
    return NULL;
}

/* Dimensions of samples that ranks of the data axis cut: what an update needs
 * to know of them. */
static bool find_samples(struct oracle_block_plans *g, struct block_plan *s,
                         int64_t each)
{
    int f = -1;

    for (int t = 0; t < s->mesh.nterms[0]; t++)
        if (s->mesh.term[0][t].axis == PDL_AXIS_DATA &&
            s->mesh.term[0][t].count > 0)
            f = s->mesh.term[0][t].first;
    s->grows = PDL_NEW(g->arena, struct grows, (int64_t)s->plan.ntensors + 1);
    for (int t = 0; s->grows && f >= 0 && t < s->plan.ntensors; t++) {
        const struct pdl_plan_tensor *x = &s->tensors[t];
        int d = x->place.at[f];

        if (d >= 0 && !is_of_weights(x->kind) && x->dim[d] % each == 0)
            s->grows[s->ngrows++] = (struct grows){t, d, x->dim[d] / each};
    }
    return s->grows != NULL;
}

/* Where weights travel, the same activations grow as where they do not; the
 * data axis cuts all of them in what grows. So it does in other small plans of
 * the network once it did in one with the same recomputation. */
static bool grows_as_known(const struct oracle_mesh *p,
                           const struct block_form *m)
{
    struct key base = m->key;
    const struct block_form *known;

    for (int t = 0; t < m->s->plan.ntensors; t++)
        if (m->s->tensors[t].frame != pdl_no_frames)
            return false;
    if (m->key.shared && p->forms->cut_grows[m->key.recompute])
        return true;
    base.zero = 0;
    known = m->key.zero > 1 && m->key.shared ? find(p->forms, &base) : NULL;
    return known && !known->refused && known->grown;
}

/* Is what doubled with the samples what the data axis cuts? */
static bool is_what_is_cut(struct oracle_block_plans *g, struct block_plan *s,
                           int64_t each)
{
    struct grows *seen = s->grows;
    int n = s->ngrows;
    bool same;

    s->ngrows = 0;
    same = find_samples(g, s, each) && s->ngrows == n;
    for (int i = 0; same && i < n; i++)
        same = seen[i].tensor == s->grows[i].tensor &&
               seen[i].dim == s->grows[i].dim &&
               seen[i].each == s->grows[i].each;
    s->grows = seen;
    s->ngrows = n;
    return same;
}

static const size_t MOST_LARGE = (size_t)8 << 20,
                    MOST_SCRATCH = (size_t)4 << 20;

/* An arena keeps the memory of what was largest. */
static void renew_scratch(struct oracle_block_plans *g)
{
    bool large = pdl_arena_used(g->scratch) > MOST_SCRATCH;
    pdl_arena *a =
        g->lent && large ? pdl_arena_create(PDL_ARENA_DEFAULT) : NULL;

    if (a) {
        pdl_arena_destroy(g->scratch);
        g->scratch = a;
    } else {
        pdl_arena_reset(g->scratch);
    }
}

/* Lowered, with tensors of its own; its plan for two samples shows what
 * grows. An update does not depend on samples. */
static bool fill(struct oracle_mesh *p, struct block_form *m, int64_t micro,
                 const struct pdl_plan *plan)
{
    struct oracle_block_plans *g = p->forms;
    struct block_plan *s = m->s, *twice;
    int64_t each = oracle_point_replicas(&p->mesh);

    if (!oracle_keep_plan(g, s, plan))
        return false;
    renew_scratch(g);
    if (m->key.update || (m->key.micro == 0 && grows_as_known(p, m))) {
        m->grown = find_samples(g, s, each);
    } else if (m->key.micro == 0) {
        twice = PDL_NEW(g->scratch, struct block_plan, 1);
        m->grown =
            twice &&
            find_grows(g, s, each, lower(p, &m->key, 2 * micro, twice, NULL));
        pdl_arena_reset(g->scratch);
        if (m->grown && m->key.shared)
            g->cut_grows[m->key.recompute] = is_what_is_cut(g, s, each);
    }
    /* operations that are alike for a prime number of samples always are */
    if (m->grown)
        grow(s, INT64_C(1000003));
    return find_tensors(g, s) && prepare_oracle(g, s);
}

/* A form in the arena at hand, from a small plan in the scratch arena. */
static enum pdl_status keep_form(struct oracle_mesh *p, const struct key *k,
                                 int64_t micro, const struct block_plan *s,
                                 const struct pdl_plan *plan,
                                 struct block_form **out, struct pdl_err *err)
{
    struct oracle_block_plans *g = p->forms;
    struct block_form *m = PDL_NEW(g->arena, struct block_form, 1);

    *out = m;
    if (!m || !(m->s = PDL_NEW(g->arena, struct block_plan, 1)))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *m->s = *s;
    m->s->model.segments = m->s->segments;
    m->key = *k;
    m->id = ++g->made;
    m->code = code_of(k);
    m->large = g->arena == g->large;
    m->next = g->forms;
    g->forms = m;
    if (!plan)
        return PDL_OK;
    if (!fill(p, m, micro, plan)) {
        m->refused = "out of memory"; /* half of it is there */
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    if (!(k->update ? oracle_form_number(g, m, UPDATE)
                    : oracle_form_work(g, m)))
        m->refused = "its blocks are not apart";
    m->samples = m->grown ? 0 : micro;
    m->ranks = m->grown ? 0 : p->mesh.data;
    return PDL_OK;
}

static void empty_large(struct oracle_block_plans *g)
{
    struct block_form **at = &g->forms;

    while (*at)
        if ((*at)->large)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    pdl_arena_reset(g->large);
}

/* For any samples and data ranks, if its plan can be changed to them; else
 * for these. A refusal holds for these data ranks. Of what many blocks are
 * written out for, no more is kept than there is room for. */
static enum pdl_status make(struct oracle_mesh *p, struct key k, int64_t micro,
                            struct block_form **out, struct pdl_err *err)
{
    struct oracle_block_plans *g = p->forms;
    struct block_plan *s = PDL_NEW(g->scratch, struct block_plan, 1);
    pdl_arena *kept = g->arena;
    const struct pdl_plan *plan;
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    plan = lower(p, &k, micro, s, &why);
    if (plan && k.update && k.blocks > 1) /* of one, lanes are told apart */
        plan = oracle_only_update(g->scratch, plan);
    if (g->large && plan && !plan->roll && k.update &&
        k.blocks > UPDATE_BLOCKS) {
        if (pdl_arena_used(g->large) > MOST_LARGE)
            empty_large(g);
        g->arena = g->large;
    }
    st = keep_form(p, &k, micro, s, plan, out, err);
    g->arena = kept;
    if (st == PDL_OK && !plan) {
        (*out)->refused = pdl_arena_strdup(g->arena, why.msg);
        (*out)->key.micro = 0;
        (*out)->key.data = p->mesh.data;
    }
    renew_scratch(g);
    return st;
}

static struct block_form *find_any(const struct oracle_mesh *p, struct key k)
{
    struct block_form *m = find(p->forms, &k);

    k.data = p->mesh.data;
    return m ? m : find(p->forms, &k);
}

const struct block_form *oracle_find_rolled_form(const struct oracle_mesh *p,
                                                 const struct key *k,
                                                 int64_t blocks)
{
    struct key like = *k;
    int64_t more;

    like.staged = p->mesh.pipe > 1;
    like.shared = p->mesh.data > 1;
    like.micro = like.data = 0;
    for (const struct block_form *m = p->forms->forms; m; m = m->next) {
        like.blocks = m->key.blocks;
        if (!m->refused && m->s->plan.roll && same_key(&m->key, &like) &&
            oracle_form_stretch(m, blocks, &more))
            return m;
    }
    return NULL;
}

enum pdl_status oracle_find_block_form(struct oracle_mesh *p, struct key *k,
                                       int64_t micro, struct block_form **out,
                                       struct pdl_err *err)
{
    struct key exact;
    struct block_form *m;
    enum pdl_status st = PDL_OK;

    k->staged = p->mesh.pipe > 1;
    k->shared = p->mesh.data > 1;
    k->micro = k->data = 0;
    m = find_any(p, *k);
    if (!m)
        st = make(p, *k, 1, &m, err);
    if (st == PDL_OK && !m->refused)
        oracle_aim_block_form(p, m, micro);
    exact = *k;
    exact.micro = micro;
    exact.data = p->mesh.data;
    if (st == PDL_OK && !m->refused &&
        (m->grown ? !suits(m)
                  : m->samples != micro || m->ranks != p->mesh.data)) {
        m = find(p->forms, &exact);
        st = m ? PDL_OK : make(p, exact, micro, &m, err);
        if (st == PDL_OK && !m->refused)
            oracle_aim_block_form(p, m, micro);
    }
    if (st != PDL_OK)
        return st;
    if (m->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", m->refused);
    *out = m;
    return PDL_OK;
}

/* A lane of the large plan is a stage of one with as many. */
int oracle_block_plan_ranks(const struct block_plan *s, int64_t lane,
                            int64_t *ranks)
{
    struct pdl_plan wide = s->plan;

    wide.lanes = wide.nstages = (int)lane + 1;
    return oracle_ranks(&wide, (int)lane, ranks);
}
