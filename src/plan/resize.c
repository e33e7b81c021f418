/* SPDX-License-Identifier: Apache-2.0
 *
 * The same plan for other numbers: of ranks along the data axis, of samples
 * and of micro-batches. Operations do not change with them, only the first
 * dimension of values, the mesh and the strategy do; where lowering would do
 * something else (statistics of batches, clauses for layers, parts of weights
 * that ranks would not all have) it is refused. Operations are shared with the
 * plan it is made from. */
#include "plan_priv.h"

#include <string.h>

struct resize {
    const struct pdl_plan *from;
    struct pdl_plan p;
    struct pdl_strategy *strategy;
    struct pdl_mesh *mesh;
    int factor; /* of the data axis */
};

/* What is no weight, nor made of one, has samples first. */
static bool has_samples(const struct resize *x, const struct pdl_plan_tensor *t)
{
    enum pdl_tensor_kind kind =
        t->model_tensor < 0 ? PDL_TENSOR_ACTIVATION
                            : x->from->model->tensors[t->model_tensor].kind;

    return kind != PDL_TENSOR_WEIGHT &&
           (kind != PDL_TENSOR_BUFFER || t->kind == PDL_PLAN_INPUT);
}

/* The data axis: one term, one factor, before and after. */
static bool set_data(struct resize *x, int64_t n)
{
    struct pdl_mesh *m = x->mesh;
    int found = 0;

    for (int t = 0; t < m->nterms[0]; t++)
        if (m->term[0][t].axis == PDL_AXIS_DATA && m->term[0][t].count == 1) {
            m->pes = m->pes / m->term[0][t].size * n;
            m->term[0][t].size = n;
            x->factor = m->term[0][t].first;
            m->factor[x->factor] = n;
            found++;
        }
    for (int t = 0; t < x->strategy->clause[0].nterms; t++)
        if (x->strategy->clause[0].term[t].axis == PDL_AXIS_DATA)
            x->strategy->clause[0].term[t].size[0] = n;
    return found == 1;
}

static void set_micro_batches(struct resize *x, int64_t n)
{
    x->p.micro_batches = n;
    if (x->strategy->micro_batches > 0)
        x->strategy->micro_batches = n;
    else
        x->strategy->accumulate = n > 1 ? n : 0;
}

/* Has every rank a part of what is cut? */
static bool is_cut_enough(const struct resize *x,
                          const struct pdl_plan_tensor *t)
{
    int64_t parts[PDL_BOX_DIMS];

    for (int d = 0; d < t->ndims; d++)
        parts[d] = 1;
    for (int f = 0; f < x->mesh->nfactors; f++)
        if (t->place.at[f] >= 0)
            parts[t->place.at[f]] *= x->mesh->factor[f];
    for (int d = 0; d < t->ndims; d++)
        if (parts[d] > 1 &&
            t->dim[d] < parts[d] * (t->unit[d] > 1 ? t->unit[d] : 1))
            return false;
    return true;
}

static const char *set_tensors(struct resize *x, pdl_arena *a, int64_t samples)
{
    int n = x->from->ntensors;
    struct pdl_plan_tensor *t = pdl_arena_grow(a, x->from->tensors, (size_t)n,
                                               (size_t)n + 1, sizeof *t);
    int64_t now = plan_samples(x->from);

    for (int i = 0; t && i < n; i++) {
        if (has_samples(x, &t[i])) {
            if (t[i].ndims < 1 || t[i].dim[0] != now)
                return "has a value without samples";
            t[i].dim[0] = samples;
        }
        if (!is_cut_enough(x, &t[i]))
            return "would leave ranks without a part";
    }
    x->p.tensors = t;
    return t ? NULL : "is too large";
}

/* Rows become samples where there are enough of these, and what filter and
 * channel cut is brought together where that is cheapest. */
static bool by_size(enum pdl_axis axis)
{
    return axis == PDL_AXIS_SPATIAL || axis == PDL_AXIS_FILTER ||
           axis == PDL_AXIS_CHANNEL;
}

/* Why its operations could be others; NULL: they are the same. */
static const char *differs(const struct pdl_plan *p,
                           const struct pdl_plan_size *to)
{
    const struct pdl_strategy *s = p->strategy;

    if (s->nclauses != 1 || strcmp(s->clause[0].layers, "*") != 0)
        return "has clauses for layers";
    if (s->zero_group > 0 || pdl_strategy_offloads(s) ||
        pdl_schedule_copies(s->schedule) > 1 ||
        s->schedule == PDL_SCHEDULE_INTERLEAVED)
        return "depends on them in more ways";
    for (int t = 0; t < s->clause[0].nterms; t++)
        if (by_size(s->clause[0].term[t].axis))
            return "has moves that are chosen by size";
    for (int i = 0; i < p->model->nnodes; i++)
        if (plan_rule_has_statistics(&p->model->nodes[i]))
            return "has statistics of batches";
    return to->data < 2 || to->samples < to->data || to->micro_batches < 1
               ? "has no such size"
               : NULL;
}

enum pdl_status pdl_plan_resize(pdl_arena *a, const struct pdl_plan *p,
                                const struct pdl_plan_size *to,
                                const struct pdl_plan **out,
                                struct pdl_err *err)
{
    struct resize x = {.from = p, .p = *p};
    const char *why = differs(p, to);
    struct pdl_plan *made = PDL_NEW(a, struct pdl_plan, 1);

    x.strategy = PDL_NEW(a, struct pdl_strategy, 1);
    x.mesh = PDL_NEW(a, struct pdl_mesh, 1);
    if (!made || !x.strategy || !x.mesh)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *x.strategy = *p->strategy;
    *x.mesh = *p->mesh;
    x.p.strategy = x.strategy;
    x.p.mesh = x.mesh;
    set_micro_batches(&x, to->micro_batches);
    if (!why && !set_data(&x, to->data))
        why = "has no data axis of its own";
    if (!why)
        why = set_tensors(&x, a, to->samples);
    if (why)
        return pdl_fail(err, PDL_EINVAL,
                        "the plan for other numbers must be lowered: it %s",
                        why);
    x.p.batch = to->samples * to->micro_batches;
    *made = x.p;
    *out = made;
    return PDL_OK;
}
