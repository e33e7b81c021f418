/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies of one network priced one after the other. One that is a point of
 * the search's space is composed from pieces (point.c), and these are kept:
 * small plans for strategies that differ in pipe and data alone, and what they
 * cost on each mesh. Whatever a strategy says that no point has is not
 * composed: the point is written as a strategy again and must be the one that
 * was asked for. */
#include "oracle/search/point.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t MOST = (size_t)256 << 20; /* then all is forgotten */

struct mesh {
    struct mesh *next;
    struct oracle_point at;
    struct oracle_pricer *compose;
};

/* Meshes that share small plans. */
struct group {
    struct group *next;
    struct oracle_point at; /* but for pipe and data */
    struct oracle_block_plans *plans;
    struct mesh *meshes;
};

/* How many nodes there are and how full changes what PEs do: plans of one
 * place have it alike. */
struct place {
    struct place *next;
    int64_t used; /* PEs of a node */
    struct pdl_system sys;
    struct oracle_cuts cuts;
    struct oracle_family f;
    bool composes;
    struct group *groups;
};

struct pdl_pricer {
    const struct pdl_model *model;
    struct pdl_oracle_options opt;
    pdl_arena *arena, *scratch;
    struct place *places;
};

pdl_pricer *pdl_pricer_create(const struct pdl_model *model,
                              const struct pdl_oracle_options *opt)
{
    pdl_pricer *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->model = model;
    p->opt = *opt;
    p->arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    p->scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (p->arena && p->scratch)
        return p;
    pdl_pricer_destroy(p);
    return NULL;
}

void pdl_pricer_destroy(pdl_pricer *p)
{
    if (!p)
        return;
    pdl_arena_destroy(p->arena);
    pdl_arena_destroy(p->scratch);
    free(p);
}

/* ---- what is kept ----------------------------------------------------- */

static bool is_place(const struct place *x, int64_t nodes, int64_t used,
                     const struct pdl_plan_options *plan)
{
    return x->sys.nodes == nodes && x->used == used &&
           x->f.plan.batch == plan->batch &&
           x->f.plan.allow_empty == plan->allow_empty &&
           x->f.plan.gather_classes == plan->gather_classes;
}

static struct place *make_place(pdl_pricer *p, const struct pdl_system *sys,
                                const struct pdl_plan_options *plan,
                                int64_t pes)
{
    struct place *x = PDL_NEW(p->arena, struct place, 1);
    struct pdl_plan_options po = *plan;

    if (!x)
        return NULL;
    po.split = pdl_framework_split(p->opt.framework);
    po.dtype = pdl_precision_storage(p->opt.precision);
    x->sys = *sys;
    if (pdl_system_for_pes(p->arena, &x->sys, pes, NULL) != PDL_OK)
        return NULL;
    x->composes = oracle_family_make(p->model, &x->sys, &p->opt, &po, &x->f);
    x->cuts.arena = p->arena;
    x->cuts.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    x->f.cuts = &x->cuts;
    x->next = p->places;
    p->places = x;
    return x;
}

static struct place *find_place(pdl_pricer *p, const struct pdl_system *sys,
                                const struct pdl_plan_options *plan,
                                int64_t pes)
{
    int64_t node = sys->node.pes, nodes = (pes - 1) / node + 1;
    int64_t used = pes < node ? pes : node;
    struct place *x;

    nodes = nodes > sys->nodes ? nodes : sys->nodes;
    for (x = p->places; x; x = x->next)
        if (is_place(x, nodes, used, plan))
            return x;
    x = make_place(p, sys, plan, pes);
    if (x)
        x->used = used;
    return x;
}

static struct group *find_group(pdl_pricer *p, struct place *in,
                                const struct oracle_point *x)
{
    struct group *g;

    for (g = in->groups; g; g = g->next)
        if (oracle_point_alike(&g->at, x))
            return g;
    g = PDL_NEW(p->arena, struct group, 1);
    if (!g)
        return NULL;
    g->at = *x;
    g->plans = oracle_block_plans_make(p->arena, p->scratch, &in->f, x);
    if (!g->plans)
        return NULL;
    g->next = in->groups;
    in->groups = g;
    return g;
}

static struct oracle_pricer *find_mesh(pdl_pricer *p, struct place *in,
                                       const struct oracle_point *x)
{
    struct group *g = find_group(p, in, x);
    struct mesh *m;

    for (m = g ? g->meshes : NULL; m; m = m->next)
        if (m->at.pipe == x->pipe && m->at.data == x->data)
            return m->compose;
    m = g ? PDL_NEW(p->arena, struct mesh, 1) : NULL;
    if (!m)
        return NULL;
    m->at = *x;
    m->compose = oracle_pricer_make(p->arena, g->plans, &in->f, x);
    if (!m->compose)
        return NULL;
    m->next = g->meshes;
    g->meshes = m;
    return m->compose;
}

static void forget(pdl_pricer *p)
{
    p->places = NULL;
    pdl_arena_reset(p->arena);
    pdl_arena_reset(p->scratch);
}

/* ---- strategies as points --------------------------------------------- */

static int64_t *axis_of(struct oracle_point *x, enum pdl_axis axis)
{
    switch (axis) {
    case PDL_AXIS_PIPE:
        return &x->pipe;
    case PDL_AXIS_DATA:
        return &x->data;
    case PDL_AXIS_EXPERT:
        return &x->expert;
    case PDL_AXIS_CONTEXT:
        return &x->context;
    case PDL_AXIS_TENSOR:
        return &x->tensor;
    default:
        return NULL;
    }
}

/* Axes of one rank lie nowhere; the order of the rest, if it is not that of
 * the axes' numbers. */
static bool read_axes(const struct pdl_clause *c, struct oracle_point *x)
{
    bool sorted = true;
    int n = 0, last = -1;

    for (int i = 0; i < c->nterms; i++) {
        int64_t *size = axis_of(x, c->term[i].axis);

        if (!size)
            return false;
        if (c->term[i].size[0] == 1)
            continue;
        *size = c->term[i].size[0];
        sorted = sorted && (int)c->term[i].axis > last;
        last = (int)c->term[i].axis;
        x->order |= ((uint32_t)last + 1) << (4 * n++);
    }
    if (sorted)
        x->order = 0;
    /* the tensor axis is composed as the innermost */
    return x->tensor == 1 || last == PDL_AXIS_TENSOR;
}

static int bubble_of(enum pdl_schedule s)
{
    return s == PDL_SCHEDULE_ZB_H1   ? 1
           : s == PDL_SCHEDULE_ZB_H2 ? 2
           : s == PDL_SCHEDULE_ZB_V  ? ORACLE_BUBBLE_V
                                     : 0;
}

static void read_choices(const struct pdl_strategy *s, struct oracle_point *x)
{
    x->chunks = s->virtual_stages > 1 ? s->virtual_stages : 1;
    x->bubble = x->pipe > 1 ? bubble_of(s->schedule) : 0;
    x->group = s->zero_group;
    x->seq = s->seq;
    x->a2a = s->context_kind == PDL_CONTEXT_A2A;
    x->zero = (int)s->zero;
    x->recompute = s->recompute;
    x->no_overlap = s->no_overlap;
    x->activations = s->offload_activations;
    x->optimizer = s->offload_optimizer;
}

/* Does the point say all that the strategy does? */
static bool says(const struct oracle_family *f, const struct oracle_point *x,
                 const struct pdl_strategy *s)
{
    struct pdl_strategy asked = *s, mine;

    oracle_point_strategy(f, x, &mine);
    oracle_drop_ones(&asked.clause[0]);
    oracle_drop_ones(&mine.clause[0]);
    return pdl_strategy_equal(&asked, &mine);
}

/* PEs of a mesh; 0: too many to count. */
static int64_t count(const struct oracle_point *x)
{
    int64_t n = x->pipe;

    return pdl_mul64(n, x->data, &n) && pdl_mul64(n, x->expert, &n) &&
                   pdl_mul64(n, x->context, &n) && pdl_mul64(n, x->tensor, &n)
               ? n
               : 0;
}

static bool read_point(const struct pdl_strategy *s, int64_t batch,
                       struct oracle_point *x)
{
    int64_t m;

    *x = (struct oracle_point){
        .tensor = 1, .pipe = 1, .data = 1, .expert = 1, .context = 1};
    if (s->nclauses != 1 || strcmp(s->clause[0].layers, "*") != 0 ||
        !read_axes(&s->clause[0], x) || count(x) == 0)
        return false;
    read_choices(s, x);
    m = x->pipe > 1 ? s->micro_batches : s->accumulate > 0 ? s->accumulate : 1;
    if (m < 1 || !pdl_mul64(oracle_point_replicas(x), m, &m) || batch % m != 0)
        return false;
    x->micro = batch / m;
    /* selective-op counts products across blocks: those are not alike; copies
     * to the host beside weights that travel are composed to 1e-3 only */
    return s->recompute != PDL_RECOMPUTE_SELECTIVE_OP &&
           !(x->zero > 1 && (x->activations || oracle_point_copies(x) == 1));
}

bool pdl_pricer_project(pdl_pricer *p, const struct pdl_system *sys,
                        const struct pdl_plan_options *plan,
                        const struct pdl_strategy *s,
                        struct pdl_projection *out)
{
    struct pdl_strategy adapted = *s;
    struct pdl_projection y = {.reason = ""};
    struct oracle_pricer *compose;
    struct oracle_point x;
    struct place *in;

    if (pdl_arena_used(p->arena) > MOST)
        forget(p);
    pdl_framework_adapt(p->opt.framework, p->model, &adapted);
    if (!read_point(&adapted, plan->batch, &x))
        return false;
    in = find_place(p, sys, plan, count(&x));
    if (!in || !in->composes || !says(&in->f, &x, &adapted))
        return false;
    compose = find_mesh(p, in, &x);
    if (!compose || oracle_point_price(compose, &x, &y, NULL) != PDL_OK ||
        !isfinite(y.step_s))
        return false;
    y.gamma = NAN; /* is not composed */
    *out = y;
    return true;
}
