/* SPDX-License-Identifier: Apache-2.0
 *
 * Small plans: the same network with few blocks, one stage or three of them,
 * lowered as any other. They are kept and put on the mesh of one large plan
 * after another: with more ranks along the pipeline and the data axis, and
 * with more samples (pdl_plan_sizer). */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- small plans ------------------------------------------------------ */

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
    if (plan->roll && plan->roll->ngroups != plan->nstages && /* some are not */
        pdl_plan_unroll(g->scratch, plan, &plan, err) != PDL_OK)
        return NULL;
    return plan;
}

/* ---- other sizes ------------------------------------------------------ */

bool oracle_aim_block_form(struct oracle_mesh *p, struct block_form *m,
                           int64_t micro)
{
    struct block_plan *s = m->s;
    struct pdl_plan_size to = {
        .data = p->mesh.data,
        .samples = micro * oracle_point_replicas(&p->mesh),
        .micro_batches = s->plan.micro_batches,
        .lanes = m->key.staged ? p->mesh.pipe : 0};

    if (p->forms->last != m->id) /* what is remembered is another's */
        oracle_memo_forget(&s->o, false);
    p->forms->last = m->id;
    if (p->forms->at != p->id)
        memset(s->o.wires, 0, ORACLE_WIRES * sizeof *s->o.wires);
    p->forms->at = p->id;
    if (m->aim == p->id && m->micro == micro)
        return true;
    if (pdl_plan_sizer_set(s->sizer, &to, NULL) != PDL_OK)
        return false;
    oracle_memo_forget(&s->o, m->aim != p->id);
    s->plan.batch = to.samples * to.micro_batches;
    m->aim = p->id;
    m->micro = micro;
    s->o.alike = &p->alike[m->key.zero];
    return true;
}

/* ---- forms ------------------------------------------------------------ */

int64_t oracle_key_code(const struct key *k)
{
    return k->blocks << 16 | (int64_t)k->recompute << 11 |
           (int64_t)k->zero << 9 | k->update << 8 | k->many << 7 |
           k->staged << 6 | k->shared << 5 | k->activations << 4 |
           k->optimizer << 3 | k->split << 2 | k->folded << 1;
}

static struct block_form *find(const struct oracle_block_plans *g, struct key k)
{
    int64_t code;

    k.folded = false; /* the form is the same */
    code = oracle_key_code(&k);
    for (struct block_form *m = g->forms; m; m = m->next)
        if (m->code == code && m->key.micro == k.micro && m->key.data == k.data)
            return m;
    return NULL;
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

/* Lowered, with tensors of its own, which it can have other sizes of. */
static enum pdl_status fill(struct oracle_mesh *p, struct block_form *m,
                            const struct pdl_plan *plan, struct pdl_err *err)
{
    struct oracle_block_plans *g = p->forms;
    struct block_plan *s = m->s;
    struct pdl_plan_size to = {
        .data = p->mesh.data, .samples = 1000003, .micro_batches = 1};
    enum pdl_status st = oracle_keep_plan(g, s, plan, err);

    renew_scratch(g);
    if (st != PDL_OK)
        return st;
    /* operations that are alike for a prime number of samples always are */
    to.micro_batches = s->plan.micro_batches;
    if (m->key.micro == 0)
        pdl_plan_sizer_set(s->sizer, &to, NULL);
    return find_tensors(g, s) && prepare_oracle(g, s)
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

/* A form in the arena at hand, from a small plan in the scratch arena. */
static enum pdl_status keep_form(struct oracle_mesh *p, const struct key *k,
                                 const struct block_plan *s,
                                 const struct pdl_plan *plan,
                                 struct block_form **out, struct pdl_err *err)
{
    struct oracle_block_plans *g = p->forms;
    struct block_form *m = PDL_NEW(g->arena, struct block_form, 1);
    struct pdl_err why = {"out of memory", ""};
    enum pdl_status st;

    *out = m;
    if (!m || !(m->s = PDL_NEW(g->arena, struct block_plan, 1)))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *m->s = *s;
    m->s->model.segments = m->s->segments;
    m->key = *k;
    m->key.folded = false;
    m->id = ++g->made;
    m->code = oracle_key_code(&m->key);
    m->large = g->arena == g->large;
    m->next = g->forms;
    g->forms = m;
    if (!plan)
        return PDL_OK;
    st = fill(p, m, plan, &why);
    if (st != PDL_OK) /* if half of it is there: out of memory */
        m->refused = pdl_arena_strdup(g->arena, why.msg);
    else if (!(k->update ? oracle_form_number(g, m, UPDATE)
                         : oracle_form_work(g, m)))
        m->refused = "its blocks are not apart";
    return st == PDL_ENOMEM ? pdl_fail(err, st, "out of memory") : PDL_OK;
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
    st = keep_form(p, &k, s, plan, out, err);
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
    struct block_form *m = find(p->forms, k);

    k.data = p->mesh.data;
    return m ? m : find(p->forms, k);
}

const struct block_form *oracle_find_rolled_form(const struct oracle_mesh *p,
                                                 const struct key *k,
                                                 int64_t blocks)
{
    struct key like = *k;
    int64_t more;

    like.staged = p->mesh.pipe > 1;
    like.shared = p->mesh.data > 1;
    like.folded = false;
    for (const struct block_form *m = p->forms->forms; m; m = m->next) {
        like.blocks = m->key.blocks;
        if (!m->refused && m->s->plan.roll &&
            m->code == oracle_key_code(&like) && m->key.micro == 0 &&
            m->key.data == 0 && oracle_form_stretch(m, blocks, &more))
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
    exact = *k;
    exact.micro = micro;
    exact.data = p->mesh.data;
    if (st == PDL_OK && !m->refused && !oracle_aim_block_form(p, m, micro)) {
        m = find(p->forms, exact);
        st = m ? PDL_OK : make(p, exact, micro, &m, err);
        if (st == PDL_OK && !m->refused && !oracle_aim_block_form(p, m, micro))
            m->refused = "its ranks have no parts";
    }
    if (st != PDL_OK)
        return st;
    if (m->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", m->refused);
    *out = m;
    return PDL_OK;
}
