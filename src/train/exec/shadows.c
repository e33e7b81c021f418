/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands that the plan does not know: what a backend leaves for backward
 * (the position of a maximum, the statistics of a normalisation) and the
 * losses of single items. They are tensors of this rank like the plan's, with
 * ids behind them, so that memory and halos need no special case; and the
 * calls that the backend is asked to make. */
#include "train/train_priv.h"

enum { EXTRA = 3 }; /* operands added to one operation at most */

/* Scales, shifts and running statistics of normalisations: a few numbers
 * that bfloat16 would spoil (a running mean moves by a tenth of a rounding).
 * Whatever the plan makes of them is as wide: parts, wholes that zero=3
 * gathers, gradients. */
static bool is_of_norm(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int j = 0; j < m->nodes[i].nweights; j++)
            if (m->nodes[i].weights[j] == tensor)
                return m->nodes[i].op->flags & PDL_OP_NORM;
    return false;
}

/* Class numbers, tokens and what is counted from them are integers, sums of
 * statistics are wide. */
static enum pdl_dtype stored_as(const pdl_trainer *t,
                                const struct pdl_plan_tensor *p)
{
    enum pdl_dtype m = p->model_tensor >= 0
                           ? t->plan->model->tensors[p->model_tensor].dtype
                           : p->dtype;

    if (p->kind == PDL_PLAN_STATISTIC)
        return PDL_F64;
    if (p->kind == PDL_PLAN_LABEL && t->loss.kind == TRAIN_SOFTMAX)
        return PDL_I32;
    if ((p->kind == PDL_PLAN_INPUT || p->kind == PDL_PLAN_ACTIVATION) &&
        m >= PDL_I8 && m <= PDL_U64)
        return PDL_I32;
    if (p->dtype == PDL_BF16 && p->model_tensor >= 0 &&
        is_of_norm(t->plan->model, p->model_tensor))
        return PDL_F32;
    return p->dtype;
}

static void make_arrays(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->ntensors; i++) {
        const struct pdl_plan_tensor *p = &t->plan->tensors[i];

        t->arrays[i].dtype = stored_as(t, p);
        t->arrays[i].channels_last = pdl_plan_channels_last(t->plan, i);
        pdl_plan_box(t->plan, i, t->rank, &t->arrays[i].box);
    }
    t->ntensors = t->plan->ntensors;
    /* a class number stands for all classes; numbers to meet do not */
    for (int i = 0; i < t->plan->nops && t->loss.kind == TRAIN_MSE; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];

        if (train_ends_loss(o))
            t->arrays[o->in[1]].box = t->arrays[o->in[0]].box;
    }
}

static enum pdl_status copy_operands(pdl_trainer *t, struct pdl_err *err)
{
    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];
        struct train_op *x = &t->ops[i];

        x->in = PDL_NEW(t->arena, int, o->nin + EXTRA);
        x->out = PDL_NEW(t->arena, int, o->nout + EXTRA);
        if (!x->in || !x->out)
            return pdl_fail(err, PDL_ENOMEM, "out of memory for operands");
        x->nin = o->nin;
        x->nout = o->nout;
        for (int k = 0; k < o->nin; k++)
            x->in[k] = o->in[k];
        for (int k = 0; k < o->nout; k++)
            x->out[k] = o->out[k];
    }
    return PDL_OK;
}

static int new_shadow(pdl_trainer *t, const struct train_array *a)
{
    t->arrays[t->ntensors] = *a;
    return t->ntensors++;
}

/* ---- calls ------------------------------------------------------------ */

/* Elements of a channel over the ranks that share a batch norm's statistics;
 * 0 where each rank has its own. */
static int64_t statistics_population(const pdl_trainer *t, int node)
{
    const struct pdl_plan *p = t->plan;
    const struct pdl_plan_op *o;
    int64_t ranks[4096], n, sum = 0;
    uint32_t group = 0;

    if (p->forward_op[node] < 0)
        return 0;
    o = &p->ops[p->forward_op[node]];
    if (p->tensors[o->out[0]].kind != PDL_PLAN_STATISTIC)
        return 0;
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (p->tensors[o->out[0]].place.at[f] == PDL_PARTIAL)
            group |= UINT32_C(1) << f;
    n = pdl_mesh_group(p->mesh, t->rank, group, ranks, 4096);
    for (int64_t i = 0; i < n && i < 4096; i++) {
        struct pdl_box b;

        pdl_plan_box(p, o->in[0], ranks[i], &b);
        b.lo[1] = 0;
        b.hi[1] = 1;
        sum += pdl_box_volume(&b);
    }
    return sum;
}

/* Items of the whole step: samples times positions of a sample. */
static int64_t loss_population(const pdl_trainer *t, int op)
{
    const struct pdl_plan_tensor *y = &t->plan->tensors[t->plan->ops[op].in[0]];
    int classes = y->ndims >= 4 ? 1 : y->ndims - 1;
    int64_t n = t->plan->batch;

    if (t->opt.labels > 0)
        return n * t->opt.labels;
    for (int d = 1; d < y->ndims; d++)
        n *= d == classes ? 1 : y->dim[d];
    return n;
}

enum pdl_status train_make_call(pdl_trainer *t, int op, struct train_call *c,
                                struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    const struct train_op *x = &t->ops[op];
    struct train_array *in = PDL_NEW(t->arena, struct train_array, x->nin + 1);
    struct train_array *out =
        PDL_NEW(t->arena, struct train_array, x->nout + 1);

    if (!in || !out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a call");
    for (int k = 0; k < x->nin; k++)
        in[k] = t->arrays[x->in[k]];
    for (int k = 0; k < x->nout; k++)
        out[k] = t->arrays[x->out[k]];
    *c = (struct train_call){
        .model = t->plan->model,
        .node = o->node >= 0 ? &t->plan->model->nodes[o->node] : NULL,
        .pass = o->pass,
        .part = o->part,
        .nin = x->nin,
        .nout = x->nout,
        .in = in,
        .out = out,
        .population = o->kind == PDL_PLAN_OP_ADD ? 0
                      : o->node >= 0 ? statistics_population(t, o->node)
                                     : loss_population(t, op),
        .groups = o->node >= 0 ? train_norm_groups_here(t->plan, o->node) : 1,
        .loss = &t->loss,
        .blocks = t->has_rings,
        .deal = t->plan->deal.ranks > 1 ? &t->plan->deal : NULL,
        .sums = o->kind == PDL_PLAN_OP_ADD,
    };
    return PDL_OK;
}

enum pdl_status train_make_kernel(pdl_trainer *t, int op, struct pdl_err *err)
{
    struct train_call c;
    enum pdl_status st = train_make_call(t, op, &c, err);

    if (st == PDL_OK && t->ops[op].ring)
        return train_ring_kernels(t, op, &c, err);
    if (st == PDL_OK)
        st = train_in_order(t, &c, &t->ops[op].kernel, err);
    if (st == PDL_OK)
        t->ops[op].work_bytes = t->ops[op].kernel->scratch_bytes;
    t->ops[op].slow = train_is_slow(t, &c, t->ops[op].kernel);
    return st;
}

/* ---- what forward leaves for backward --------------------------------- */

static bool is_backward(const struct pdl_plan_op *o, int node)
{
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node == node &&
           o->pass != PDL_FORWARD;
}

static int maker_of(const struct pdl_plan *p, int tensor)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].out[k] == tensor &&
                p->ops[i].kind == PDL_PLAN_OP_HALO)
                return i;
    return -1;
}

/* What has waited elsewhere and come back is what left. */
static int origin(const struct pdl_plan *p, int tensor)
{
    int host = -1;

    for (int i = p->nops - 1; i >= 0; i--)
        for (int k = 0; k < p->ops[i].nout && train_is_copy(&p->ops[i]); k++) {
            if (host < 0 && p->ops[i].out[k] == tensor &&
                p->ops[i].kind == PDL_PLAN_OP_COPY_IN)
                host = p->ops[i].in[k];
            else if (host >= 0 && p->ops[i].out[k] == host)
                return p->ops[i].in[k];
        }
    return tensor;
}

/* Backward reads y with a halo: the shadow goes through the same halo. */
static int halo_shadow(pdl_trainer *t, int shadow, int y, int framed)
{
    int op = maker_of(t->plan, framed), made;
    struct train_array a = t->arrays[shadow];

    if (op < 0 || origin(t->plan, t->plan->ops[op].in[0]) != y)
        return -1;
    a.box = t->arrays[framed].box;
    made = new_shadow(t, &a);
    t->ops[op].in[t->ops[op].nin++] = shadow;
    t->ops[op].out[t->ops[op].nout++] = made;
    return made;
}

/* The operand of a backward pass that is y, as it is or with a halo. */
static int y_operand(const pdl_trainer *t, const struct pdl_plan_op *o, int y)
{
    for (int k = 0; k < o->nin; k++) {
        int op = o->in[k] == y ? -1 : maker_of(t->plan, o->in[k]);

        if (o->in[k] == y ||
            (op >= 0 && origin(t->plan, t->plan->ops[op].in[0]) == y))
            return o->in[k];
    }
    return y;
}

/* Recomputation runs forward operations once more in backward. */
static int last_forward(const struct pdl_plan *p, int op)
{
    int last = op;

    for (int i = op + 1; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE &&
            p->ops[i].node == p->ops[op].node &&
            p->ops[i].pass == PDL_FORWARD && p->ops[i].part == 0)
            last = i;
    return last;
}

static void add_aux(pdl_trainer *t, int op, enum train_aux kind,
                    const struct train_array *a)
{
    const struct pdl_plan *p = t->plan;
    int node = p->ops[op].node, y = p->ops[op].out[0];
    int shadow = new_shadow(t, a);

    t->ops[op].out[t->ops[op].nout++] = shadow;
    if (last_forward(p, op) != op)
        return; /* made again later: backward reads that one */
    for (int i = op + 1; i < p->nops; i++) {
        int mine = shadow, of;

        if (!is_backward(&p->ops[i], node) || !t->ops[i].mine)
            continue;
        of = kind == TRAIN_AUX_LIKE_Y ? y_operand(t, &p->ops[i], y) : y;
        if (of != y)
            mine = halo_shadow(t, shadow, y, of);
        if (mine >= 0)
            t->ops[i].in[t->ops[i].nin++] = mine;
    }
}

/* The loss also says what each item cost and whether it was right. */
static void add_losses(pdl_trainer *t, int op)
{
    struct train_array a = t->arrays[t->ops[op].in[1]];
    int d = a.box.ndims >= 4 ? 1 : a.box.ndims - 1;

    a.dtype = t->arrays[t->ops[op].in[0]].dtype == PDL_F64 ? PDL_F64 : PDL_F32;
    if (!pdl_box_empty(&a.box)) { /* one number an item */
        a.box.lo[d] = 0;
        a.box.hi[d] = 1;
    }
    for (int k = 0; k < 2; k++)
        t->ops[op].out[t->ops[op].nout++] = new_shadow(t, &a);
}

/* Tokens travel by their scores. */
static void add_scores(pdl_trainer *t, int op)
{
    struct train_op *x = &t->ops[op];

    if (t->plan->ops[op].kind == PDL_PLAN_OP_ALLTOALLV &&
        train_route_scores(t->plan, op) >= 0)
        x->in[x->nin++] = train_route_scores(t->plan, op);
}

/* Imported products may have their weight the other way round. */
static enum pdl_status check_linear(const struct pdl_model *m,
                                    struct pdl_err *err)
{
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];
        const struct pdl_tensor *x, *w;

        if (pdl_op_id(n->op) != PDL_ID_LINEAR || n->nweights < 1)
            continue;
        x = &m->tensors[n->in[0]];
        w = &m->tensors[n->weights[0]];
        if (w->rank != 2 || w->dim[0] != n->attr.features ||
            w->dim[1] != x->dim[x->rank - 1])
            return pdl_fail(err, PDL_EINVAL,
                            "%s: the runtime has products with weights "
                            "[outputs, inputs] only, not as %s lies",
                            n->name, w->name);
    }
    return PDL_OK;
}

static enum pdl_status add_shadows(pdl_trainer *t, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < p->nops && st == PDL_OK; i++) {
        const struct pdl_plan_op *o = &p->ops[i];
        struct train_array a = {.layout = 0};
        struct train_call c;
        enum train_aux kind;

        if (t->ops[i].mine && train_ends_loss(o))
            add_losses(t, i);
        if (t->ops[i].mine)
            add_scores(t, i);
        if (o->kind != PDL_PLAN_OP_COMPUTE || o->pass != PDL_FORWARD ||
            o->part != 0 || o->node < 0 || !t->ops[i].mine || st != PDL_OK)
            continue;
        t->ops[i].again = p->forward_op[o->node] != i;
        st = train_make_call(t, i, &c, err);
        if (st != PDL_OK || p->tensors[o->out[0]].kind == PDL_PLAN_STATISTIC)
            continue;
        kind = t->backend->aux ? t->backend->aux(&c, &a) : TRAIN_AUX_NONE;
        if (kind != TRAIN_AUX_NONE)
            add_aux(t, i, kind, &a);
    }
    return st;
}

enum pdl_status train_shadows(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st;

    make_arrays(t);
    st = train_constants_check(t->plan->model, err);
    if (st == PDL_OK)
        st = check_linear(t->plan->model, err);
    if (st == PDL_OK)
        st = copy_operands(t, err);
    if (st == PDL_OK)
        st = train_rings(t, err);
    return st == PDL_OK ? add_shadows(t, err) : st;
}
