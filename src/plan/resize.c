/* SPDX-License-Identifier: Apache-2.0
 *
 * The same plan for other numbers: of ranks along the data axis, of samples
 * and of micro-batches. Operations do not change with them, only the first
 * dimension of values, the mesh and the strategy do; where lowering would do
 * something else (statistics of batches, clauses for layers, parts of weights
 * that ranks would not all have) it is refused. Operations are shared with the
 * plan it is made from. Of a pipeline of three stages the lanes can be made
 * more: they then stand for the first, one of the middle and the last. */
#include "plan_priv.h"

#include <string.h>

struct pdl_plan_sizer {
    struct pdl_plan p;
    struct pdl_strategy strategy;
    struct pdl_mesh mesh;
    struct pdl_plan_tensor *tensors;
    int *samples, nsamples; /* tensors whose first dimension are these */
    int data, pipe;         /* terms of the mesh; -1: there is none */
    /* of what is cut over the data axis: ranks of it that have a part each; of
     * samples: how many each of them needs, and all of them */
    int64_t most, each, all;
};

/* What is no weight, nor made of one, has samples first. */
static bool has_samples(const struct pdl_plan *p,
                        const struct pdl_plan_tensor *t)
{
    enum pdl_tensor_kind kind = t->model_tensor < 0
                                    ? PDL_TENSOR_ACTIVATION
                                    : p->model->tensors[t->model_tensor].kind;

    return kind != PDL_TENSOR_WEIGHT &&
           (kind != PDL_TENSOR_BUFFER || t->kind == PDL_PLAN_INPUT);
}

static int find_axis(const struct pdl_mesh *m, enum pdl_axis axis)
{
    for (int t = 0; t < m->nterms[0]; t++)
        if (m->term[0][t].axis == axis && m->term[0][t].count > 0)
            return t;
    return -1;
}

static int64_t size_of(const struct pdl_mesh *m, int term)
{
    return term < 0 ? 1 : m->term[0][term].size;
}

/* Of an axis of two factors (groups that share states) the inner one stays;
 * there are no groups if it is the only one. */
static bool set_axis(struct pdl_mesh *m, int term, int64_t n)
{
    struct pdl_mesh_term *x = &m->term[0][term < 0 ? 0 : term];
    int64_t inner = x->count > 1 ? m->factor[x->first + 1] : 1;

    if (size_of(m, term) == n)
        return true;
    if (term < 0 || x->count > 2 || n < 2 || n % inner != 0 ||
        (inner > 1 && n == inner))
        return false;
    m->pes = m->pes / x->size * n;
    x->size = n;
    m->factor[x->first] = n / inner;
    return true;
}

/* The ranks that cut each dimension of a tensor, those of the data axis and
 * the others. */
static void count_parts(const struct pdl_plan_sizer *x,
                        const struct pdl_plan_tensor *t, int64_t *data,
                        int64_t *others)
{
    const struct pdl_mesh_term *d = &x->mesh.term[0][x->data < 0 ? 0 : x->data];

    for (int i = 0; i < t->ndims; i++) {
        data[i] = 1;
        others[i] = t->unit[i] > 1 ? t->unit[i] : 1;
    }
    for (int f = 0; f < x->mesh.nfactors; f++) {
        bool is_data = x->data >= 0 && f >= d->first && f < d->first + d->count;

        if (t->place.at[f] >= 0)
            (is_data ? data : others)[t->place.at[f]] *= x->mesh.factor[f];
    }
}

/* What it takes for every rank to have a part of a tensor. */
static void need_parts(struct pdl_plan_sizer *x,
                       const struct pdl_plan_tensor *t, bool samples)
{
    int64_t data[PDL_BOX_DIMS], others[PDL_BOX_DIMS];

    count_parts(x, t, data, others);
    for (int d = 0; d < t->ndims; d++) {
        bool whole = data[d] == size_of(&x->mesh, x->data);
        int64_t *need = data[d] > 1 ? &x->each : &x->all;

        if (samples && d == 0)
            *need = others[d] > *need ? others[d] : *need;
        else if (data[d] > 1 && whole && t->dim[d] / others[d] < x->most)
            x->most = t->dim[d] / others[d];
    }
}

static const char *look_at_tensors(struct pdl_plan_sizer *x)
{
    int64_t now = plan_samples(&x->p);

    for (int i = 0; i < x->p.ntensors; i++) {
        const struct pdl_plan_tensor *t = &x->tensors[i];
        bool samples = has_samples(&x->p, t);

        if (samples && (t->ndims < 1 || t->dim[0] != now))
            return "has a value without samples";
        if (samples)
            x->samples[x->nsamples++] = i;
        need_parts(x, t, samples);
    }
    return NULL;
}

/* Rows become samples where there are enough of these, and what filter and
 * channel cut is brought together where that is cheapest. */
static bool by_size(enum pdl_axis axis)
{
    return axis == PDL_AXIS_SPATIAL || axis == PDL_AXIS_FILTER ||
           axis == PDL_AXIS_CHANNEL;
}

/* Why its operations could be others; NULL: they are the same. */
static const char *differs(const struct pdl_plan *p)
{
    const struct pdl_strategy *s = p->strategy;

    if (s->nclauses != 1 || strcmp(s->clause[0].layers, "*") != 0)
        return "has clauses for layers";
    if (pdl_schedule_copies(s->schedule) > 1 ||
        s->schedule == PDL_SCHEDULE_INTERLEAVED || p->mesh->nparts > 0)
        return "depends on them in more ways";
    for (int t = 0; t < s->clause[0].nterms; t++)
        if (by_size(s->clause[0].term[t].axis))
            return "has moves that are chosen by size";
    for (int i = 0; i < p->model->nnodes; i++)
        if (plan_rule_has_statistics(&p->model->nodes[i]))
            return "has statistics of batches";
    return NULL;
}

static enum pdl_status refuse(const char *why, struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL,
                    "the plan for other numbers must be lowered: it %s", why);
}

enum pdl_status pdl_plan_sizer_open(pdl_arena *a, const struct pdl_plan *p,
                                    struct pdl_plan_sizer **out,
                                    struct pdl_err *err)
{
    struct pdl_plan_sizer *x = PDL_NEW(a, struct pdl_plan_sizer, 1);
    const char *why = differs(p);
    size_t n = (size_t)p->ntensors;

    *out = x;
    if (why)
        return refuse(why, err);
    if (x) {
        x->tensors =
            pdl_arena_grow(a, p->tensors, n, n + 1, sizeof *x->tensors);
        x->samples = PDL_NEW(a, int, p->ntensors + 1);
    }
    if (!x || !x->tensors || !x->samples)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    x->p = *p;
    x->strategy = *p->strategy;
    x->mesh = *p->mesh;
    x->p.strategy = &x->strategy;
    x->p.mesh = &x->mesh;
    x->p.tensors = x->tensors;
    x->data = find_axis(&x->mesh, PDL_AXIS_DATA);
    if (x->strategy.zero_group > 1 && x->data >= 0 &&
        x->mesh.term[0][x->data].count == 1)
        return refuse("has but one group that shares states", err);
    x->pipe = find_axis(&x->mesh, PDL_AXIS_PIPE);
    x->most = INT64_MAX;
    x->each = x->all = 1;
    why = look_at_tensors(x);
    return why ? refuse(why, err) : PDL_OK;
}

const struct pdl_plan *pdl_plan_sizer_plan(const struct pdl_plan_sizer *x)
{
    return &x->p;
}

static void set_strategy(struct pdl_plan_sizer *x,
                         const struct pdl_plan_size *to)
{
    struct pdl_clause *c = &x->strategy.clause[0];

    for (int t = 0; t < c->nterms; t++)
        if (c->term[t].axis == PDL_AXIS_DATA)
            c->term[t].size[0] = to->data;
    x->p.micro_batches = to->micro_batches;
    if (x->strategy.micro_batches > 0)
        x->strategy.micro_batches = to->micro_batches;
    else
        x->strategy.accumulate = to->micro_batches > 1 ? to->micro_batches : 0;
}

enum pdl_status pdl_plan_sizer_set(struct pdl_plan_sizer *x,
                                   const struct pdl_plan_size *to,
                                   struct pdl_err *err)
{
    int64_t data = size_of(&x->mesh, x->data);
    bool same = to->data == data && to->samples == plan_samples(&x->p);

    if (to->micro_batches < 1 || to->data < 1 ||
        (!same && to->samples < x->all))
        return refuse("has no such size", err);
    if (x->strategy.offload_activations &&
        (to->micro_batches > 1) != (x->p.micro_batches > 1))
        return refuse("leaves other activations to the host", err);
    if (!same && (to->data > x->most || to->samples < to->data * x->each))
        return refuse("would leave ranks without a part", err);
    if (!set_axis(&x->mesh, x->data, to->data))
        return refuse("has no data axis of its own", err);
    if (to->lanes > 0 && !set_axis(&x->mesh, x->pipe, to->lanes)) {
        set_axis(&x->mesh, x->data, data);
        return refuse("has no such pipeline", err);
    }
    set_strategy(x, to);
    for (int i = 0; i < x->nsamples; i++)
        x->tensors[x->samples[i]].dim[0] = to->samples;
    x->p.batch = to->samples * to->micro_batches;
    return PDL_OK;
}

enum pdl_status pdl_plan_resize(pdl_arena *a, const struct pdl_plan *p,
                                const struct pdl_plan_size *to,
                                const struct pdl_plan **out,
                                struct pdl_err *err)
{
    struct pdl_plan_sizer *x;
    enum pdl_status st = pdl_plan_sizer_open(a, p, &x, err);

    if (st == PDL_OK)
        st = pdl_plan_sizer_set(x, to, err);
    if (st == PDL_OK)
        *out = &x->p;
    return st;
}
