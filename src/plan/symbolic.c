/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic executor: every rank's part of every tensor in one process.
 * Collectives follow from boxes alone: a moved tensor's item is taken from
 * whichever rank of the group owns it, a summed one is added over the group.
 * A FREE takes the data away, so that a later read is found. Beside it the
 * unsharded graph is run in the plainest way, and the updated weights must be
 * equal number for number. */
#include "symbolic.h"

#include <string.h>

struct exec {
    struct plan_machine m;
    const struct pdl_plan *p;
    uint64_t seed;
    int64_t ranks;
    struct plan_part *parts; /* [tensor][rank] */
    struct plan_part *sums;  /* weight gradients over micro-batches, likewise */
    struct pdl_err *err;
};

static struct plan_part *part(struct exec *x, int tensor, int64_t rank)
{
    return &x->parts[(int64_t)tensor * x->ranks + rank];
}

static bool here(const struct exec *x, int tensor, int64_t rank)
{
    return pdl_plan_lane(x->p, x->p->tensors[tensor].stage) ==
           pdl_plan_rank_lane(x->p, rank);
}

static enum pdl_status wrong(struct exec *x, int op, int64_t rank,
                             const char *what)
{
    const struct pdl_plan_op *o = &x->p->ops[op];

    return pdl_fail(x->err, PDL_EWRONG,
                    "operation %d (%s%s%s) on rank %lld: %s", op,
                    pdl_plan_op_name(o->kind), o->node >= 0 ? " " : "",
                    o->node >= 0 ? x->p->model->nodes[o->node].name : "",
                    (long long)rank, what);
}

static bool fresh(struct exec *x, int tensor, int64_t rank)
{
    struct plan_part *p = part(x, tensor, rank);

    pdl_plan_box(x->p, tensor, rank, &p->box);
    return plan_part_make(&x->m, p);
}

/* ---- where numbers come from ------------------------------------------ */

static uint64_t element(const struct exec *x, int tensor, const int64_t *i,
                        int64_t micro)
{
    const struct pdl_plan_tensor *t = &x->p->tensors[tensor];
    bool dealt = pdl_plan_dealt(x->p, tensor);
    uint64_t e = (uint64_t)micro;

    for (int d = 0; d < t->ndims; d++)
        e = e * (uint64_t)t->dim[d] +
            (uint64_t)(d == 1 && dealt ? plan_position(&x->m, i[d]) : i[d]);
    return e;
}

/* Labels have no model tensor: they get a number above all of them. */
static uint64_t identity(const struct exec *x, const struct pdl_plan_tensor *t)
{
    return t->model_tensor >= 0 ? (uint64_t)t->model_tensor
                                : (uint64_t)x->p->model->ntensors;
}

static void fill(struct exec *x, int tensor, struct plan_part *p, int64_t micro)
{
    const struct pdl_plan_tensor *t = &x->p->tensors[tensor];
    int64_t i[PDL_BOX_DIMS];

    if (pdl_box_empty(&p->box))
        return;
    plan_box_start(&p->box, i);
    do
        plan_part_put(
            p, i,
            plan_num_of(x->seed, identity(x, t), element(x, tensor, i, micro)));
    while (plan_box_next(&p->box, i));
}

static enum pdl_status load(struct exec *x, int64_t micro)
{
    for (int t = 0; t < x->p->ntensors; t++) {
        enum pdl_plan_kind k = x->p->tensors[t].kind;
        bool once = k == PDL_PLAN_WEIGHT || k == PDL_PLAN_STATE;

        if (k != PDL_PLAN_INPUT && k != PDL_PLAN_LABEL && !once)
            continue;
        for (int64_t r = 0; r < x->ranks; r++) {
            if (!(here(x, t, r) || k == PDL_PLAN_INPUT) || (once && micro > 0))
                continue;
            if (!fresh(x, t, r))
                return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
            fill(x, t, part(x, t, r), once ? 0 : micro);
        }
    }
    return PDL_OK;
}

/* ---- operations ------------------------------------------------------- */

/* The value of an item over a group: the sum, or the first owner's. */
static bool over_group(struct exec *x, const struct pdl_plan_op *o, int t,
                       int64_t rank, const int64_t *i, bool sum, plan_num *out)
{
    int64_t group[1024];
    int64_t n = pdl_mesh_group(x->p->mesh, rank, o->group, group, 1024);
    struct plan_machine probe = x->m;
    bool found = false;

    *out = 0;
    for (int64_t g = 0; g < n; g++) {
        plan_num v;

        probe.missing = NULL;
        v = plan_part_get(&probe, part(x, t, group[g]), i);
        if (probe.missing && sum)
            return false;
        if (probe.missing)
            continue;
        found = true;
        *out = sum ? plan_num_add(*out, v) : v;
        if (!sum)
            return true;
    }
    return found;
}

static enum pdl_status communicate(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];
    bool sum =
        o->kind == PDL_PLAN_OP_ALLREDUCE ||
        o->kind == PDL_PLAN_OP_REDUCE_SCATTER ||
        ((o->kind == PDL_PLAN_OP_ALLTOALLV || o->kind == PDL_PLAN_OP_ROTATE) &&
         x->p->tensors[o->in[0]].of > 0);
    int64_t i[PDL_BOX_DIMS];

    for (int k = 0; k < o->nout; k++) {
        struct plan_part *out = part(x, o->out[k], rank);

        if (!fresh(x, o->out[k], rank))
            return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
        if (pdl_box_empty(&out->box))
            continue;
        plan_box_start(&out->box, i);
        do {
            plan_num v;

            if (!over_group(x, o, o->in[k], rank, i, sum, &v))
                return wrong(x, op, rank, "no rank of the group has an item");
            plan_part_put(out, i, v);
        } while (plan_box_next(&out->box, i));
    }
    return PDL_OK;
}

/* To the rank with the same coordinates in the receiver's stage. */
static enum pdl_status send(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];
    int64_t group[1024], i[PDL_BOX_DIMS];
    int64_t n =
        pdl_mesh_group(x->p->mesh, rank, x->p->pipe_factors, group, 1024);

    for (int64_t g = 0; g < n; g++) {
        struct plan_part *out = part(x, o->out[0], group[g]);

        if (!here(x, o->out[0], group[g]))
            continue;
        if (!fresh(x, o->out[0], group[g]))
            return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
        if (pdl_box_empty(&out->box))
            continue;
        plan_box_start(&out->box, i);
        do
            plan_part_put(out, i,
                          plan_part_get(&x->m, part(x, o->in[0], rank), i));
        while (plan_box_next(&out->box, i));
    }
    return x->m.missing ? wrong(x, op, rank, "sends what is not there")
                        : PDL_OK;
}

static enum pdl_status add(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];
    struct plan_part *out = part(x, o->out[0], rank);
    int64_t i[PDL_BOX_DIMS];

    if (!fresh(x, o->out[0], rank))
        return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
    if (pdl_box_empty(&out->box))
        return PDL_OK;
    plan_box_start(&out->box, i);
    do
        plan_part_put(
            out, i,
            plan_num_add(plan_part_get(&x->m, part(x, o->in[0], rank), i),
                         plan_part_get(&x->m, part(x, o->in[1], rank), i)));
    while (plan_box_next(&out->box, i));
    return x->m.missing ? wrong(x, op, rank, "adds what is not there") : PDL_OK;
}

enum { MAX_OPERANDS = 64 };

static enum pdl_status compute(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];
    const struct plan_part *in[MAX_OPERANDS];
    struct plan_part *out[MAX_OPERANDS];
    const struct pdl_box *group = NULL;
    struct plan_call call;

    for (int k = 0; k < o->nin; k++) {
        in[k] = part(x, o->in[k], rank);
        if (!in[k]->at)
            return wrong(x, op, rank, "reads a tensor that is not there");
        if (x->p->tensors[o->in[k]].ndims >= 2 && !group &&
            x->p->tensors[o->in[k]].kind != PDL_PLAN_WEIGHT)
            group = &in[k]->box;
    }
    for (int k = 0; k < o->nout; k++) {
        if (!fresh(x, o->out[k], rank))
            return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
        out[k] = part(x, o->out[k], rank);
    }
    call = (struct plan_call){
        .node = o->node >= 0 ? &x->p->model->nodes[o->node] : NULL,
        .pass = o->pass,
        .part = o->part,
        .nin = o->nin,
        .nout = o->nout,
        .in = in,
        .out = out,
        .group = group,
    };
    if (o->node < 0) {
        const struct pdl_plan_tensor *y = &x->p->tensors[o->in[0]];

        call.classes = plan_loss_classes(y->ndims);
        call.nclasses = y->dim[call.classes];
    }
    plan_kernel(&x->m, &call);
    return x->m.missing ? wrong(x, op, rank, x->m.missing) : PDL_OK;
}

/* w + 7 dw, dw summed over the micro-batches. */
static enum pdl_status update(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];

    for (int k = 0; k < o->nout; k++) {
        struct plan_part *w = part(x, o->in[k], rank);
        struct plan_part *dw = part(x, o->in[o->nout + k], rank);
        int64_t i[PDL_BOX_DIMS];

        if (!w->at || !dw->at)
            return wrong(x, op, rank, "updates what is not there");
        if (pdl_box_empty(&w->box))
            continue;
        plan_box_start(&w->box, i);
        do
            plan_part_put(
                w, i,
                plan_num_add(plan_part_get(&x->m, w, i),
                             plan_num_mul(7, plan_part_get(&x->m, dw, i))));
        while (plan_box_next(&w->box, i));
    }
    return x->m.missing ? wrong(x, op, rank,
                                "a gradient does not cover its "
                                "weight")
                        : PDL_OK;
}

static enum pdl_status release(struct exec *x, int op, int64_t rank)
{
    const struct pdl_plan_op *o = &x->p->ops[op];

    for (int k = 0; k < o->nin; k++) {
        struct plan_part *p = part(x, o->in[k], rank);

        if (!p->at)
            return wrong(x, op, rank, "frees what is not there");
        p->at = NULL;
    }
    return PDL_OK;
}

static enum pdl_status slice(struct exec *x, int op, int64_t rank)
{
    return communicate(x, op, rank); /* the group is the rank itself */
}

static enum pdl_status receive(struct exec *x, int op, int64_t rank)
{
    return part(x, x->p->ops[op].out[0], rank)->at
               ? PDL_OK
               : wrong(x, op, rank, "receives what nobody sent");
}

/* A tensor of the stage that the operation belongs to. Inputs are everywhere
 * and say nothing. */
static int whose(const struct exec *x, const struct pdl_plan_op *o)
{
    if (o->kind == PDL_PLAN_OP_RECV || o->nin == 0)
        return o->out[0];
    for (int k = 0; k < o->nin; k++)
        if (x->p->tensors[o->in[k]].kind != PDL_PLAN_INPUT)
            return o->in[k];
    return o->nout > 0 ? o->out[0] : o->in[0];
}

static enum pdl_status run_op(struct exec *x, int op)
{
    static enum pdl_status (*const run[])(struct exec *, int, int64_t) = {
        [PDL_PLAN_OP_COMPUTE] = compute,
        [PDL_PLAN_OP_ALLREDUCE] = communicate,
        [PDL_PLAN_OP_REDUCE_SCATTER] = communicate,
        [PDL_PLAN_OP_ALLGATHER] = communicate,
        [PDL_PLAN_OP_ALLTOALL] = communicate,
        [PDL_PLAN_OP_ALLTOALLV] = communicate,
        [PDL_PLAN_OP_HALO] = communicate,
        [PDL_PLAN_OP_ROTATE] = communicate,
        [PDL_PLAN_OP_SLICE] = slice,
        [PDL_PLAN_OP_SEND] = send,
        [PDL_PLAN_OP_RECV] = receive,
        [PDL_PLAN_OP_ADD] = add,
        [PDL_PLAN_OP_UPDATE] = update,
        [PDL_PLAN_OP_COPY_OUT] = slice,
        [PDL_PLAN_OP_COPY_IN] = slice,
        [PDL_PLAN_OP_FREE] = release,
    };
    const struct pdl_plan_op *o = &x->p->ops[op];
    int first = whose(x, o);
    enum pdl_status st = PDL_OK;

    for (int64_t r = 0; r < x->ranks && st == PDL_OK; r++)
        if (here(x, first, r) ||
            (x->p->nstages == 1 && pdl_plan_rank_lane(x->p, r) == 0))
            st = run[o->kind](x, op, r);
    return st;
}

/* ---- the whole step --------------------------------------------------- */

static enum pdl_status run_items(struct exec *x, int first, int n)
{
    enum pdl_status st = PDL_OK;

    for (int i = first; i < first + n && st == PDL_OK; i++) {
        const struct pdl_plan_item *it = &x->p->items[i];

        for (int o = 0; o < it->nops && st == PDL_OK; o++)
            st = run_op(x, it->first_op + o);
    }
    return st;
}

/* Weight gradients that reach the update are added up over micro-batches. */
static enum pdl_status keep_gradients(struct exec *x)
{
    for (int t = 0; t < x->p->ntensors; t++) {
        if (x->p->tensors[t].kind != PDL_PLAN_WEIGHT_GRADIENT)
            continue;
        for (int64_t r = 0; r < x->ranks; r++) {
            struct plan_part *p = part(x, t, r);
            struct plan_part *s = &x->sums[(int64_t)t * x->ranks + r];
            int64_t n;

            if (!p->at)
                continue;
            n = pdl_box_volume(&p->box);
            if (!s->at) {
                s->box = p->box;
                if (!plan_part_make(&x->m, s))
                    return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
            }
            for (int64_t i = 0; i < n; i++)
                s->at[i] = plan_num_add(s->at[i], p->at[i]);
            memcpy(p->at, s->at, (size_t)n * sizeof p->at[0]);
        }
    }
    return PDL_OK;
}

/* The operations of a stage's update program are one run. */
static void update_program(const struct pdl_plan *p, int stage, int *first,
                           int *end)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    const struct pdl_plan_item *last;

    *first = *end = 0;
    if (s->nupdate == 0)
        return;
    last = &p->items[s->first_update + s->nupdate - 1];
    *first = p->items[s->first_update].first_op;
    *end = last->first_op + last->nops;
}

/* Has everything arrived that the operation receives? */
static bool arrived(struct exec *x, int op)
{
    const struct pdl_plan_op *o = &x->p->ops[op];

    for (int64_t r = 0; o->kind == PDL_PLAN_OP_RECV && r < x->ranks; r++)
        if (here(x, o->out[0], r) && !part(x, o->out[0], r)->at)
            return false;
    return true;
}

/* Stages exchange gradients of tied weights: a receive waits, the others go
 * on. */
static enum pdl_status run_updates(struct exec *x)
{
    int *next = PDL_NEW(x->m.arena, int, x->p->nstages), first, end;
    enum pdl_status st = next ? PDL_OK : PDL_ENOMEM;
    bool moved = true, waits = false;

    for (int s = 0; st == PDL_OK && s < x->p->nstages; s++)
        update_program(x->p, s, &next[s], &end);
    while (moved && st == PDL_OK) {
        moved = waits = false;
        for (int s = 0; s < x->p->nstages; s++) {
            update_program(x->p, s, &first, &end);
            for (; next[s] < end && st == PDL_OK && arrived(x, next[s]);
                 next[s]++) {
                st = run_op(x, next[s]);
                moved = true;
            }
            waits = waits || next[s] < end;
        }
    }
    if (st == PDL_OK && waits)
        st = pdl_fail(x->err, PDL_EWRONG,
                      "the updates of stages wait for each other");
    return st;
}

static enum pdl_status run_step(struct exec *x)
{
    enum pdl_status st = PDL_OK;

    for (int64_t m = 0; m < x->p->micro_batches && st == PDL_OK; m++) {
        st = load(x, m);
        for (int s = 0; s < x->p->nstages && st == PDL_OK; s++)
            st = run_items(x, x->p->stages[s].first_forward,
                           x->p->stages[s].nforward);
        for (int s = x->p->nstages - 1; s >= 0 && st == PDL_OK; s--)
            st = run_items(x, x->p->stages[s].first_backward,
                           x->p->stages[s].nbackward);
        if (st == PDL_OK)
            st = keep_gradients(x);
    }
    return st == PDL_OK ? run_updates(x) : st;
}

static enum pdl_status compare(struct exec *x, const struct plan_part *truth)
{
    for (int t = 0; t < x->p->ntensors; t++) {
        const struct pdl_plan_tensor *pt = &x->p->tensors[t];
        int64_t i[PDL_BOX_DIMS];

        if ((pt->kind != PDL_PLAN_WEIGHT && pt->kind != PDL_PLAN_STATE) ||
            pt->model_tensor < 0)
            continue;
        for (int64_t r = 0; r < x->ranks; r++) {
            struct plan_part *p = part(x, t, r);

            if (!here(x, t, r) || !p->at || pdl_box_empty(&p->box))
                continue;
            plan_box_start(&p->box, i);
            do
                if (plan_part_get(&x->m, p, i) !=
                    plan_part_get(&x->m, &truth[pt->model_tensor], i))
                    return pdl_fail(x->err, PDL_EWRONG,
                                    "%s on rank %lld differs from the "
                                    "unsharded graph",
                                    pt->name, (long long)r);
            while (plan_box_next(&p->box, i));
        }
    }
    return PDL_OK;
}

/* Every weight of the model must be in the plan: nothing is proved by
 * comparing nothing. */
static enum pdl_status covered(const struct exec *x)
{
    for (int t = 0; t < x->p->model->ntensors; t++) {
        bool found = x->p->model->tensors[t].kind != PDL_TENSOR_WEIGHT;

        for (int k = 0; k < x->p->ntensors && !found; k++)
            found = x->p->tensors[k].kind == PDL_PLAN_WEIGHT &&
                    x->p->tensors[k].model_tensor == t;
        if (!found)
            return pdl_fail(x->err, PDL_EWRONG, "%s is in no operation",
                            x->p->model->tensors[t].name);
    }
    return PDL_OK;
}

static enum pdl_status prove(const struct pdl_plan *p, uint64_t seed,
                             struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct exec x = {.m = {.arena = a, .model = p->model, .deal = &p->deal},
                     .p = p,
                     .seed = seed,
                     .ranks = p->mesh->pes,
                     .err = err};
    struct plan_part *truth = NULL;
    enum pdl_status st = PDL_OK;

    if (x.ranks > 1024)
        st = pdl_fail(err, PDL_EINVAL, "too many ranks to execute");
    if (a && st == PDL_OK) {
        x.parts = PDL_NEW(a, struct plan_part, p->ntensors * x.ranks);
        x.sums = PDL_NEW(a, struct plan_part, p->ntensors * x.ranks);
    }
    if (st == PDL_OK && (!x.parts || !x.sums))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = covered(&x);
    if (st == PDL_OK)
        st = run_step(&x);
    x.m.deal = NULL; /* the unsharded graph has its positions in order */
    if (st == PDL_OK)
        st = plan_reference(&x.m, p, seed, &truth, err);
    if (st == PDL_OK)
        st = compare(&x, truth);
    pdl_arena_destroy(a);
    return st;
}

enum pdl_status pdl_plan_prove(const struct pdl_plan *p, uint64_t seed,
                               struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    enum pdl_status st = a ? pdl_plan_unroll(a, p, &p, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = prove(p, seed, err);
    pdl_arena_destroy(a);
    return st;
}
