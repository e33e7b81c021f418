/* SPDX-License-Identifier: Apache-2.0
 *
 * ZeRO (Rajbhandari et al. 2020): what ranks of the data and spatial axes hold
 * in common is cut over them instead.
 *   1  gradients are reduce-scattered, each rank updates its part of the
 *      weight (the state) and the weight is gathered from the parts;
 *   2  the same, but a gradient is scattered as soon as backward has made it;
 *   3  only the part is kept: the weight is gathered before forward and
 *      again before backward, and freed after each.
 * All of it is placement: a weight's part is the weight cut in one more
 * dimension, and what moves follows from the table of redistributions. A
 * weight is cut in its longest dimension that nothing else cuts, as FSDP2
 * does, not in a flat buffer: a weight without such a dimension (a bias that
 * tensor parallelism cuts already) stays whole. What a block of layers
 * gathers or scatters over the same ranks travels together. */
#include "plan_priv.h"

/* ---- where the part lies ---------------------------------------------- */

/* The innermost ranks of an axis that multiply to `group` (0: all of it). */
static uint32_t inner_factors(const struct pdl_mesh *m,
                              const struct pdl_mesh_term *t, int64_t group)
{
    uint32_t set = 0;
    int64_t n = 1;

    for (int f = t->first + t->count - 1; f >= t->first; f--)
        if (group == 0 || n < group) {
            set |= UINT32_C(1) << f;
            n *= m->factor[f];
        }
    return set;
}

static uint32_t zero_factors(const struct plan_lower *lo, int node)
{
    int64_t group = lo->strategy->zero_group;
    int c = lo->clause[node];
    uint32_t set = 0;

    for (int i = 0; c >= 0 && i < lo->mesh->nterms[c]; i++) {
        const struct pdl_mesh_term *t = &lo->mesh->term[c][i];

        bool beside = t->axis == PDL_AXIS_SPATIAL ||
                      t->axis == PDL_AXIS_CONTEXT || t->axis == PDL_AXIS_EXPERT;

        if (t->axis == PDL_AXIS_DATA || (beside && group == 0))
            set |= inner_factors(lo->mesh, t, group);
    }
    return set;
}

bool plan_zero_part(const struct plan_lower *lo, int node, int id,
                    struct plan_layout *l)
{
    const struct pdl_tensor *w = &lo->model->tensors[id];
    uint32_t set = zero_factors(lo, node);
    bool any = false;
    int best = -1;

    if (!lo->strategy->zero || w->kind != PDL_TENSOR_WEIGHT || !set)
        return false;
    for (int d = 0; d < w->rank; d++) {
        bool cut = false;

        for (int f = 0; f < lo->mesh->nfactors; f++)
            cut = cut || l->place.at[f] == d;
        if (!cut && (best < 0 || w->dim[d] > w->dim[best]))
            best = d;
    }
    for (int f = 0; f < lo->mesh->nfactors && best >= 0; f++)
        if (set >> f & 1 && l->place.at[f] == PDL_REPLICATED) {
            l->place.at[f] = (int8_t)best;
            any = true;
        }
    return any;
}

/* The layout in which a weight's gradient is wanted. */
struct plan_layout plan_zero_home(const struct plan_lower *lo,
                                  const struct plan_weight *w)
{
    return plan_layout_of(lo, w->state >= 0 ? w->state : w->tensor);
}

/* To that layout: summed over what does not cut it first (the norms of
 * sequence parallelism), then scattered. Groups (zero=3:8) scatter first, so
 * that only parts are summed over the groups (Zhao et al., PyTorch FSDP, VLDB
 * 2023, hybrid sharding). */
int plan_zero_scatter(struct plan_lower *lo, const struct plan_weight *w)
{
    struct plan_layout home = plan_zero_home(lo, w);
    struct pdl_place p = lo->tensors[w->grad].place;

    if (lo->strategy->zero_group > 0)
        return plan_move_to(lo, w->grad, &home);
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (p.at[f] == PDL_PARTIAL && home.place.at[f] < 0)
            p.at[f] = home.place.at[f];
    return plan_move_to(lo, plan_move(lo, w->grad, &p), &home);
}

/* ---- blocks travel together ------------------------------------------- */

static int *find_blocks(struct plan_lower *lo)
{
    const struct pdl_model *m = lo->model;
    int *block = PDL_NEW(lo->arena, int, m->ntensors + 1);
    int now = 0;

    for (int i = 0; block && i < m->nnodes; i++) {
        const char *a = m->nodes[i > 0 ? i - 1 : 0].name, *b = m->nodes[i].name;

        now += !plan_same_block(a, b);
        for (int j = 0; j < m->nodes[i].nweights; j++)
            block[m->nodes[i].weights[j]] = now;
    }
    return block;
}

static bool is_gather(const struct plan_lower *lo, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_ALLGATHER &&
           lo->tensors[o->in[0]].kind == PDL_PLAN_WEIGHT;
}

static bool is_scatter(const struct plan_lower *lo, const struct pdl_plan_op *o)
{
    return (o->kind == PDL_PLAN_OP_REDUCE_SCATTER ||
            o->kind == PDL_PLAN_OP_ALLREDUCE) &&
           lo->tensors[o->in[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

static bool go_together(const struct plan_lower *lo, const int *block,
                        const struct pdl_plan_op *a,
                        const struct pdl_plan_op *b)
{
    return a->kind == b->kind && a->group == b->group &&
           block[lo->tensors[a->in[0]].model_tensor] ==
               block[lo->tensors[b->in[0]].model_tensor];
}

static const int *joined(struct plan_lower *lo, const int *a, int na,
                         const int *b, int nb)
{
    int *p = PDL_NEW(lo->arena, int, na + nb + 1);

    if (!p) {
        plan_fail(lo, "out of memory");
        return a;
    }
    memcpy(p, a, (size_t)na * sizeof *p);
    memcpy(p + na, b, (size_t)nb * sizeof *p);
    return p;
}

void plan_join(struct plan_lower *lo, struct pdl_plan_op *a,
               struct pdl_plan_op *b)
{
    a->in = joined(lo, a->in, a->nin, b->in, b->nin);
    a->out = joined(lo, a->out, a->nout, b->out, b->nout);
    a->nin += b->nin;
    a->nout += b->nout;
    b->nin = b->nout = 0;
}

/* Does an operation from `first` on, before `end`, read a result of o? */
static bool is_read(const struct plan_lower *lo, const struct pdl_plan_op *o,
                    int first, int end)
{
    for (int i = first; i < end; i++)
        for (int k = 0; k < lo->ops[i].nin; k++)
            for (int j = 0; j < o->nout; j++)
                if (lo->ops[i].in[k] == o->out[j])
                    return true;
    return false;
}

static int block_of(const struct plan_lower *lo, const int *block, int op)
{
    return block[lo->tensors[lo->ops[op].in[0]].model_tensor];
}

/* Of each block the last gather, or the first scatter. */
static void find_ends(const struct plan_lower *lo, const int *block, int first,
                      int end, bool gathers, int *ends)
{
    for (int i = 0; i < end - first; i++) {
        int op = gathers ? first + i : end - 1 - i;
        const struct pdl_plan_op *o = &lo->ops[op];

        if (o->nin > 0 && (gathers ? is_gather : is_scatter)(lo, o))
            ends[block_of(lo, block, op)] = op;
    }
}

/* Weights are always there: gather at the first of the block. Gradients are
 * there when the last is made: scatter then. */
static void join_item(struct plan_lower *lo, const int *block, int *ends,
                      int first, int end)
{
    find_ends(lo, block, first, end, true, ends);
    for (int i = first; i < end; i++) {
        if (lo->ops[i].nin == 0 || !is_gather(lo, &lo->ops[i]))
            continue;
        for (int j = i + 1; j <= ends[block_of(lo, block, i)]; j++)
            if (lo->ops[j].nin > 0 && is_gather(lo, &lo->ops[j]) &&
                go_together(lo, block, &lo->ops[i], &lo->ops[j]))
                plan_join(lo, &lo->ops[i], &lo->ops[j]);
    }
    find_ends(lo, block, first, end, false, ends);
    for (int i = end - 1; i >= first; i--) {
        if (lo->ops[i].nin == 0 || !is_scatter(lo, &lo->ops[i]))
            continue;
        for (int j = i - 1; j >= ends[block_of(lo, block, i)]; j--)
            if (lo->ops[j].nin > 0 && is_scatter(lo, &lo->ops[j]) &&
                go_together(lo, block, &lo->ops[i], &lo->ops[j]) &&
                !is_read(lo, &lo->ops[j], j + 1, i))
                plan_join(lo, &lo->ops[i], &lo->ops[j]);
    }
}

void plan_close_ranks(struct plan_lower *lo)
{
    int n = 0;

    for (int i = 0; i < lo->plan.nitems; i++) {
        int first = lo->items[i].first_op, end = first + lo->items[i].nops;

        lo->items[i].first_op = n;
        for (int o = first; o < end; o++)
            if (lo->ops[o].nin > 0 || lo->ops[o].nout > 0)
                lo->ops[n++] = lo->ops[o];
        lo->items[i].nops = n - lo->items[i].first_op;
    }
    lo->plan.nops = n;
}

void plan_zero_join(struct plan_lower *lo)
{
    int *block, *ends;

    if (!lo->strategy->zero || lo->status != PDL_OK)
        return;
    block = find_blocks(lo);
    ends = PDL_NEW(lo->arena, int, lo->model->nnodes + 1);
    if (!block || !ends) {
        plan_fail(lo, "out of memory");
        return;
    }
    for (int i = 0; i < lo->plan.nitems; i++)
        join_item(lo, block, ends, lo->items[i].first_op,
                  lo->items[i].first_op + lo->items[i].nops);
    plan_close_ranks(lo);
}

/* zero=3:8 needs groups of 8 in every data axis. */
enum pdl_status plan_zero_check(const struct pdl_strategy *s,
                                struct pdl_err *err)
{
    if (s->zero_group <= 1)
        return PDL_OK;
    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < s->clause[c].nterms; t++)
            if (s->clause[c].term[t].axis == PDL_AXIS_DATA &&
                s->clause[c].term[t].size[0] % s->zero_group != 0)
                return pdl_fail(err, PDL_EINVAL,
                                "strategy: data=%lld has no groups of %lld "
                                "for zero",
                                (long long)s->clause[c].term[t].size[0],
                                (long long)s->zero_group);
    return PDL_OK;
}
