/* SPDX-License-Identifier: Apache-2.0
 *
 * Recomputation (Chen et al. 2016): what a block's backward pass reads of its
 * forward pass is not kept but made again, just before. A pass over the
 * operations: forward operations of a block whose results backward wants are
 * written once more into its backward program, on new tensors, which backward
 * then reads; the old ones die in forward, because lifetimes are found
 * afterwards. A forward operation in a backward program is a recomputation.
 *   full          all of the block: only what enters it is kept; frameworks
 *                 run the whole block again, also the last layer's product,
 *                 which nobody reads, and published times include it;
 *   selective     attention (Korthikanti et al. 2022);
 *   selective-op  all but attention, every second linear layer and sums over
 *                 ranks, which are dear to make again (torchtitan).
 * Layers of a block may choose differently: the others keep what they make, and
 * what backward wants of the rest, with what that is made of, is made again.
 * A block is a repeated layer of a transformer or a residual block, by the
 * names of its layers. Layers alone are a block where a clause names them by a
 * range and chooses for them ("conv1..pool1: recompute=full"); others of them
 * are not recomputed. */
#include "plan_priv.h"

struct again {
    struct plan_lower *lo;
    int *block; /* of each node: its first; layers alone: -1 */
    bool *alone;
    int *maker;  /* of each tensor: the forward operation that wrote it */
    int *owner;  /* of each operation: its block, */
    int *layer;  /* and the layer that chooses for it */
    bool *whole; /* of each block: all of it is made again */
    /* in the block at hand, by tensor: the new one (-1: none), to be made
     * again, a weight's copy that has been gathered for it (-1: none) */
    int *copy, *gathered;
    bool *wants;
    int *touched, ntouched; /* those that are not as at first */
    int most;               /* tensors there is room for */
    bool *kept;             /* of each operation: dear, its results stay */
    struct pdl_plan_op *old;
};

/* ---- blocks ----------------------------------------------------------- */

/* "layers.17" of "layers.17.attn.q"; a name with fewer dots is its own. */
static size_t block_name(const char *name)
{
    size_t n = strcspn(name, ".");

    if (name[n] == '\0')
        return n;
    return n + 1 + strcspn(name + n + 1, ".");
}

bool plan_same_block(const char *a, const char *b)
{
    size_t n = block_name(b);

    return block_name(a) == n && memcmp(a, b, n) == 0;
}

/* Does the strategy make one block of these two layers? */
static bool is_asked(const struct again *a, int i, int k)
{
    const struct plan_lower *lo = a->lo;

    return lo->range[i] >= 0 && lo->range[k] == lo->range[i] &&
           lo->clause[k] == lo->clause[i] &&
           lo->strategy->clause[lo->clause[i]].own_recompute;
}

static void find_blocks(struct again *a)
{
    const struct pdl_model *m = a->lo->model;

    for (int i = 0, end; i < m->nnodes; i = end) {
        for (end = i + 1; end < m->nnodes &&
                          plan_same_block(m->nodes[i].name, m->nodes[end].name);
             end++)
            ;
        for (int k = i; k < end; k++)
            a->block[k] = end - i > 1 ? i : -1;
        if (end - i > 1 || !is_asked(a, i, i))
            continue;
        a->block[i] = i > 0 && a->alone[i - 1] && is_asked(a, i, i - 1)
                          ? a->block[i - 1]
                          : i;
        a->alone[i] = true;
    }
}

static bool is_sum(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_REDUCE_SCATTER ||
           o->kind == PDL_PLAN_OP_ALLREDUCE;
}

/* The block of each operation of a program: its layer's; of a sum over ranks
 * that of the layer that made it, of other moves that of the next layer, which
 * they serve. Sends leave the block. */
static void find_owners(struct again *a, int first, int end)
{
    int next = -1;

    for (int i = end - 1; i >= first; i--) {
        const struct pdl_plan_op *o = &a->old[i];

        if (o->kind == PDL_PLAN_OP_COMPUTE)
            next = o->node;
        a->layer[i] = o->kind == PDL_PLAN_OP_SEND ? -1 : next;
        a->owner[i] = a->layer[i] >= 0 ? a->block[a->layer[i]] : -1;
    }
    for (int i = first; i < end; i++)
        if (is_sum(&a->old[i]) && a->maker[a->old[i].in[0]] >= first) {
            a->owner[i] = a->owner[a->maker[a->old[i].in[0]]];
            a->layer[i] = a->layer[a->maker[a->old[i].in[0]]];
        }
}

/* ---- what is made again ----------------------------------------------- */

static enum pdl_recompute mode_of(const struct again *a, int layer)
{
    int c = layer >= 0 ? a->lo->clause[layer] : -1;

    return c >= 0 && a->lo->strategy->clause[c].own_recompute
               ? a->lo->strategy->clause[c].recompute
               : a->lo->strategy->recompute;
}

static bool is_dear(const struct again *a, const struct pdl_plan_op *o,
                    enum pdl_recompute mode, int *matmuls)
{
    const struct pdl_node *n =
        o->node >= 0 ? &a->lo->model->nodes[o->node] : NULL;
    bool attention = n && plan_is(n, PDL_ID_ATTENTION);

    if (o->kind == PDL_PLAN_OP_ROTATE) /* its blocks have passed by */
        return mode == PDL_RECOMPUTE_NONE;
    switch (mode) {
    case PDL_RECOMPUTE_NONE:
        return true;
    case PDL_RECOMPUTE_FULL:
        return false;
    case PDL_RECOMPUTE_SELECTIVE:
        return !attention;
    default:
        return is_sum(o) || attention ||
               (n && plan_is(n, PDL_ID_LINEAR) && o->part == 0 &&
                (*matmuls)++ % 2 == 0);
    }
}

static void note_makers(struct again *a, int first, int end)
{
    for (int i = first; i < end; i++)
        for (int k = 0; k < a->old[i].nout; k++)
            if (a->old[i].kind != PDL_PLAN_OP_SEND)
                a->maker[a->old[i].out[k]] = i;
}

static void note_dear(struct again *a, int first, int end)
{
    int matmuls = 0;

    for (int i = first; i < end; i++)
        a->kept[i] = is_dear(a, &a->old[i], mode_of(a, a->layer[i]), &matmuls);
}

static void find_whole(struct again *a)
{
    int n = a->lo->model->nnodes;

    for (int i = 0; i < n; i++)
        a->whole[i] = true;
    for (int i = 0; i < n; i++)
        if (a->block[i] >= 0 && mode_of(a, i) != PDL_RECOMPUTE_FULL)
            a->whole[a->block[i]] = false;
}

/* Is the tensor one that block b made in forward and may make again? */
static bool is_ours(const struct again *a, int t, int b)
{
    int i = a->maker[t];

    return i >= 0 && a->owner[i] == b && !a->kept[i] &&
           a->old[i].kind != PDL_PLAN_OP_RECV;
}

static void touch(struct again *a, int t)
{
    if (a->ntouched < 4 * a->most)
        a->touched[a->ntouched++] = t;
}

static void forget(struct again *a)
{
    while (a->ntouched > 0) {
        int t = a->touched[--a->ntouched];

        a->wants[t] = false;
        a->copy[t] = a->gathered[t] = -1;
    }
}

static void want(struct again *a, const struct pdl_plan_op *o, int b, int *last)
{
    for (int k = 0; k < o->nin; k++)
        if (is_ours(a, o->in[k], b)) {
            if (!a->wants[o->in[k]])
                touch(a, o->in[k]);
            a->wants[o->in[k]] = true;
            if (a->maker[o->in[k]] > *last)
                *last = a->maker[o->in[k]];
        }
}

static int new_copy(struct again *a, int t)
{
    if (a->lo->plan.ntensors >= a->most) {
        plan_fail(a->lo, "more to recompute than there is");
        return -1;
    }
    touch(a, t);
    a->copy[t] = plan_add_tensor(a->lo, &a->lo->tensors[t]);
    return a->copy[t];
}

static const int *renamed(struct again *a, const int *ids, int n)
{
    int *p = PDL_NEW(a->lo->arena, int, n + 1);

    if (!p) {
        plan_fail(a->lo, "out of memory");
        return ids;
    }
    for (int k = 0; k < n; k++)
        p[k] = a->copy[ids[k]] >= 0 ? a->copy[ids[k]] : ids[k];
    return p;
}

static bool is_weight_gather(const struct again *a, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_ALLGATHER && o->nin == 1 &&
           a->lo->tensors[o->in[0]].kind == PDL_PLAN_WEIGHT;
}

/* The operation once more, on new tensors. */
static void emit_again(struct again *a, int i)
{
    struct pdl_plan_op o = a->old[i];

    a->lo->round_now = o.round;
    o.in = renamed(a, o.in, o.nin);
    for (int k = 0; k < o.nout; k++)
        new_copy(a, o.out[k]);
    o.out = renamed(a, o.out, o.nout);
    plan_push_op(a->lo, &o);
    if (is_weight_gather(a, &o)) {
        touch(a, o.in[0]);
        a->gathered[o.in[0]] = o.out[0];
    }
}

/* Backward gathers a weight that has been gathered to recompute? */
static bool is_there(struct again *a, const struct pdl_plan_op *o)
{
    int t = is_weight_gather(a, o) ? a->gathered[o->in[0]] : -1;

    if (t < 0 || !plan_lie_alike(a->lo, t, o->out[0]))
        return false;
    touch(a, o->out[0]);
    a->copy[o->out[0]] = t;
    return true;
}

static bool is_wanted(const struct again *a, int i)
{
    if (a->whole[a->owner[i]])
        return a->old[i].kind != PDL_PLAN_OP_RECV;
    for (int k = 0; k < a->old[i].nout; k++)
        if (a->wants[a->old[i].out[k]])
            return true;
    return false;
}

/* Everything that backward of block b, operations [first, end), reads of its
 * forward, which begins at `from`, and what that is made of. */
static void make_again(struct again *a, int b, int first, int end, int from,
                       int to)
{
    bool full = a->whole[b];
    int last = -1;

    for (int i = first; i < end; i++)
        if (a->owner[i] == b)
            want(a, &a->old[i], b, &last);
    if (last < 0)
        return;
    for (int i = last; i >= from && !full; i--)
        if (a->owner[i] == b && is_wanted(a, i))
            want(a, &a->old[i], b, &last);
    for (int i = from; i < to && a->lo->status == PDL_OK; i++)
        if (a->owner[i] == b && is_wanted(a, i))
            emit_again(a, i);
}

/* ---- programs --------------------------------------------------------- */

/* The end of the block's operations; others' may lie between. */
static int block_end(const struct again *a, int b, int first, int end)
{
    int last = first;

    for (int i = first; i < end; i++)
        if (a->owner[i] == b)
            last = i + 1;
        else if (a->owner[i] >= 0 && a->owner[i] < b)
            break; /* blocks come in order: the next one has begun */
    return last;
}

static void rewrite_backward(struct again *a, int first, int end, int from,
                             int to)
{
    int open = -1;

    for (int i = first; i < end && a->lo->status == PDL_OK; i++) {
        struct pdl_plan_op o = a->old[i];

        if (a->owner[i] >= 0 && a->owner[i] != open) {
            int b = a->owner[i];

            forget(a);
            open = b;
            make_again(a, b, i, block_end(a, b, i, end), from, to);
        }
        if (a->owner[i] == open && open >= 0) {
            if (is_there(a, &o))
                continue;
            o.in = renamed(a, o.in, o.nin);
        }
        plan_push_op(a->lo, &o);
    }
}

static void rewrite_stage(struct again *a, const struct pdl_plan_stage *s,
                          const struct pdl_plan_item *items)
{
    const struct pdl_plan_item *f = &items[s->first_forward];
    const struct pdl_plan_item *b = &items[s->first_backward];
    int n = a->lo->plan.nops;

    forget(a);
    rewrite_backward(a, b->first_op, b->first_op + b->nops, f->first_op,
                     f->first_op + f->nops);
    a->lo->items[s->first_backward].first_op = n;
    a->lo->items[s->first_backward].nops = a->lo->plan.nops - n;
}

static bool allocate(struct again *a, int ntensors, int nops)
{
    pdl_arena *x = a->lo->arena;

    a->block = PDL_NEW(x, int, a->lo->model->nnodes + 1);
    a->alone = PDL_NEW(x, bool, a->lo->model->nnodes + 1);
    a->maker = PDL_NEW(x, int, ntensors);
    a->copy = PDL_NEW(x, int, ntensors);
    a->gathered = PDL_NEW(x, int, ntensors);
    a->touched = PDL_NEW(x, int, 4 * ntensors);
    a->most = ntensors;
    a->wants = PDL_NEW(x, bool, ntensors);
    a->whole = PDL_NEW(x, bool, a->lo->model->nnodes + 1);
    a->owner = PDL_NEW(x, int, nops + 1);
    a->layer = PDL_NEW(x, int, nops + 1);
    a->kept = PDL_NEW(x, bool, nops + 1);
    if (!a->block || !a->alone || !a->maker || !a->copy || !a->gathered ||
        !a->touched || !a->wants || !a->owner || !a->kept || !a->layer ||
        !a->whole) {
        plan_fail(a->lo, "out of memory");
        return false;
    }
    for (int t = 0; t < ntensors; t++)
        a->maker[t] = a->copy[t] = a->gathered[t] = -1;
    for (int i = 0; i < nops; i++)
        a->owner[i] = a->layer[i] = -1;
    return true;
}

static void find_all(struct again *a, const struct pdl_plan_stage *stages)
{
    for (int s = 0; s < a->lo->plan.nstages; s++) {
        const struct pdl_plan_item *f = &a->lo->items[stages[s].first_forward];
        const struct pdl_plan_item *b = &a->lo->items[stages[s].first_backward];

        note_makers(a, f->first_op, f->first_op + f->nops);
        find_owners(a, f->first_op, f->first_op + f->nops);
        note_dear(a, f->first_op, f->first_op + f->nops);
        find_owners(a, b->first_op, b->first_op + b->nops);
    }
}

static bool chosen(const struct pdl_strategy *s)
{
    for (int c = 0; c < s->nclauses; c++)
        if (s->clause[c].own_recompute &&
            s->clause[c].recompute != PDL_RECOMPUTE_NONE)
            return true;
    return s->recompute != PDL_RECOMPUTE_NONE;
}

/* Items keep their order: forward of all stages, backward from the last. */
void plan_recompute(struct plan_lower *lo, const struct pdl_plan_stage *stages)
{
    struct again a = {.lo = lo, .old = lo->ops};
    int nops = lo->plan.nops, item = 0;

    if (lo->status != PDL_OK || !chosen(lo->strategy))
        return;
    /* every tensor once more, and some that two blocks want */
    if (!allocate(&a, 3 * lo->plan.ntensors + 1, nops))
        return;
    find_blocks(&a);
    find_whole(&a);
    find_all(&a, stages);
    lo->ops = NULL;
    lo->op_cap = lo->plan.nops = 0;
    for (; item < lo->plan.nitems && lo->status == PDL_OK; item++) {
        struct pdl_plan_item *it = &lo->items[item];
        int stage = -1, n = lo->plan.nops;

        for (int s = 0; s < lo->plan.nstages; s++)
            if (stages[s].first_backward == item && stages[s].nbackward > 0)
                stage = s;
        lo->stage_now = stage;
        if (stage >= 0) {
            rewrite_stage(&a, &stages[stage], lo->items);
            continue;
        }
        for (int i = it->first_op; i < it->first_op + it->nops; i++)
            plan_push_op(lo, &a.old[i]);
        it->first_op = n;
    }
}
