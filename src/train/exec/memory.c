/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory planner: every instance (a tensor of a micro-batch, the workspace
 * of an operation) lives from its first to its last step; instances whose lives
 * do not overlap may share memory. Offsets are known before the first step: the
 * largest instance first, each at the lowest offset that is free during its
 * life (greedy by size, as in Pisarchyk & Lee, arXiv:2001.03288). One arena per
 * rank.
 *
 * An allreduce whose input dies with it is done in place, as is what a kernel
 * can do there (a loss); the gradients
 * of one bucket lie side by side, so that a bucket is one message; each of them
 * takes its place when it is made, until then others use it. Workspaces that a
 * cache holds share one place of their own, where they stay in the cache. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

struct block {
    int64_t bytes, offset;
    int first, last;
    int from, to; /* of a guest: between these steps others have its place */
    bool far;     /* not in the arena */
};

/* Blocks that lie side by side, or one alone. */
struct bundle {
    int64_t bytes;
    struct block *b;
    int n;
};

/* Something to sort: a pointer in a struct. */
struct place {
    struct block *b;
};

struct planner {
    pdl_trainer *t;
    struct block *blocks;
    int nblocks;
    int *block_of; /* instance -> block, -1: none yet */
    struct bundle *bundles;
    int nbundles;
};

static int64_t align(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int root(const pdl_trainer *t, int tensor)
{
    while (t->alias[tensor] >= 0)
        tensor = t->alias[tensor];
    return tensor;
}

static int64_t instance(const pdl_trainer *t, int tensor, int micro)
{
    int64_t m = micro;

    tensor = root(t, tensor);
    if (train_is_state(t, tensor))
        m = 0;
    else if (micro == TRAIN_UPDATE)
        m = t->kept[tensor] && t->micros > 1 ? t->micros : 0;
    return tensor * (t->micros + 1) + m;
}

/* The workspace of an operation comes behind all tensors. */
static int64_t work_instance(const pdl_trainer *t, int op, int micro)
{
    return (t->ntensors + op) * (t->micros + 1) +
           (micro == TRAIN_UPDATE ? 0 : micro);
}

void *train_work(const pdl_trainer *t, int op, int micro)
{
    return t->ops[op].work_bytes > PDL_PLAN_SMALL_WORK
               ? t->memory + t->offset[work_instance(t, op, micro)]
               : t->scratch;
}

void *train_data(const pdl_trainer *t, int tensor, int micro)
{
    char *base = train_is_far(t, tensor) ? train_far_memory(t) : t->memory;

    return base + train_offset(t, tensor, micro);
}

int64_t train_offset(const pdl_trainer *t, int tensor, int micro)
{
    return t->offset[instance(t, tensor, micro)];
}

void train_release(pdl_trainer *t, int tensor, int micro)
{
    bool sent = t->sent[tensor] && t->fault != TRAIN_FAULT_EARLY_FREE;

    if (!t->opt.poison || t->handed[tensor] || sent || train_is_far(t, tensor))
        return;
    train_fill(t, train_data(t, tensor, micro), 0xff,
               train_array_bytes(&t->arrays[tensor]));
}

/* ---- in place --------------------------------------------------------- */

/* What the operation reads first dies with it, and its kernel may write there:
 * of a language model logits and their gradient are the largest tensors. */
static bool takes_over(const pdl_trainer *t, int op)
{
    const struct train_op *x = &t->ops[op];

    if (!x->mine || !x->kernel || !x->kernel->in_place ||
        train_is_far(t, x->in[0]) ||
        train_array_bytes(&t->arrays[x->in[0]]) !=
            train_array_bytes(&t->arrays[x->out[0]]))
        return false;
    for (int i = op + 1;
         i < t->plan->nops && t->plan->ops[i].kind == PDL_PLAN_OP_FREE; i++)
        for (int k = 0; k < t->ops[i].nin; k++)
            if (t->ops[i].in[k] == x->in[0])
                return true;
    return false;
}

static void lay_upon(pdl_trainer *t, int out, int in)
{
    t->alias[out] = in;
    t->handed[in] = true;
}

static void find_aliases(pdl_trainer *t)
{
    const struct pdl_plan *p = t->plan;

    for (int i = 0; i < t->ntensors; i++)
        t->alias[i] = -1;
    for (int i = 0; i + 1 < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        if (o->kind == PDL_PLAN_OP_SEND)
            t->sent[o->in[0]] = true;
        if (t->ops[i].route) /* results go back by scores the plan has freed */
            t->sent[train_route_scores(p, i)] = true;
        for (int k = 0; t->ops[i].mine && k < o->nin; k++)
            t->loads[o->in[k]] = train_is_loaded(&p->tensors[o->in[k]]);
        if (takes_over(t, i))
            lay_upon(t, t->ops[i].out[0], t->ops[i].in[0]);
        if (o->kind != PDL_PLAN_OP_ALLREDUCE || !t->ops[i].mine)
            continue;
        for (int k = 0; k < o->nout; k++)
            if (pdl_plan_in_place(p, i, k))
                lay_upon(t, o->out[k], o->in[k]);
    }
}

/* ---- lives ------------------------------------------------------------ */

static int new_block(struct planner *pl, int64_t bytes)
{
    pl->blocks[pl->nblocks] =
        (struct block){.bytes = align(bytes), .first = INT32_MAX, .last = -1};
    return pl->nblocks++;
}

/* The last n blocks lie side by side. */
static void new_bundle(struct planner *pl, int n)
{
    struct bundle x = {.b = pl->blocks + pl->nblocks - n, .n = n};

    for (int i = 0; i < n; i++)
        x.bytes += x.b[i].bytes;
    pl->bundles[pl->nbundles++] = x;
}

static struct block *touch_block(struct planner *pl, int64_t inst,
                                 int64_t bytes, int step)
{
    struct block *b;

    if (pl->block_of[inst] < 0) {
        pl->block_of[inst] = new_block(pl, bytes);
        new_bundle(pl, 1);
    }
    b = &pl->blocks[pl->block_of[inst]];
    b->first = step < b->first ? step : b->first;
    b->last = step > b->last ? step : b->last;
    return b;
}

static void touch(struct planner *pl, int tensor, int64_t inst, int step)
{
    struct block *b = touch_block(
        pl, inst, train_array_bytes(&pl->t->arrays[root(pl->t, tensor)]), step);

    b->far = train_is_far(pl->t, tensor);
    if (train_is_state(pl->t, tensor)) {
        b->first = 0;
        b->last = pl->t->nsteps;
    }
}

static void touch_op(struct planner *pl, int op, int micro, int step)
{
    const struct train_op *o = &pl->t->ops[op];
    bool sends = pl->t->plan->ops[op].kind == PDL_PLAN_OP_SEND;

    for (int k = 0; k < o->nin; k++)
        touch(pl, o->in[k], instance(pl->t, o->in[k], micro), step);
    for (int k = 0; !sends && k < o->nout; k++)
        touch(pl, o->out[k], instance(pl->t, o->out[k], micro), step);
    if (o->work_bytes > PDL_PLAN_SMALL_WORK)
        touch_block(pl, work_instance(pl->t, op, micro), o->work_bytes, step);
}

/* Inputs and labels live from the step that loads their micro-batch. */
static void touch_loads(struct planner *pl, int micro, int step)
{
    for (int i = 0; i < pl->t->plan->ntensors; i++)
        if (pl->t->loads[i])
            touch(pl, i, instance(pl->t, i, micro), step);
}

static bool in_update(const pdl_trainer *t, int op)
{
    for (int k = train_next_stage(t, -1); k >= 0; k = train_next_stage(t, k)) {
        const struct pdl_plan_stage *s = &t->plan->stages[k];

        for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
            if (op >= t->plan->items[i].first_op &&
                op < t->plan->items[i].first_op + t->plan->items[i].nops)
                return true;
    }
    return false;
}

/* What may still be on its way. */
static void touch_sends(struct planner *pl, int micro, int step)
{
    const struct pdl_plan *p = pl->t->plan;

    for (int i = 0; i < p->nops; i++) {
        if (!pl->t->ops[i].mine || p->ops[i].kind != PDL_PLAN_OP_SEND)
            continue;
        if (in_update(pl->t, i)) {
            if (micro == TRAIN_UPDATE)
                touch(pl, p->ops[i].in[0],
                      instance(pl->t, p->ops[i].in[0], micro), step);
            continue;
        }
        for (int m = 0; m < pl->t->micros; m++)
            if (micro == TRAIN_UPDATE || m == micro)
                touch(pl, p->ops[i].in[0], instance(pl->t, p->ops[i].in[0], m),
                      step);
    }
}

/* The gradients of a bucket are neighbours. */
static void bundle(struct planner *pl, int op)
{
    const struct pdl_plan_op *o = &pl->t->plan->ops[op];

    for (int k = 0; k < o->nin; k++)
        if (pl->block_of[instance(pl->t, o->in[k], TRAIN_UPDATE)] >= 0)
            return;
    for (int k = 0; k < o->nin; k++)
        pl->block_of[instance(pl->t, o->in[k], TRAIN_UPDATE)] =
            new_block(pl, train_array_bytes(&pl->t->arrays[o->in[k]]));
    new_bundle(pl, o->nin);
    pl->t->ops[op].bundled = true;
}

static void find_lives(struct planner *pl)
{
    pdl_trainer *t = pl->t;

    for (int i = 0; i < t->nsteps; i++) {
        const struct train_action *s = &t->steps[i];

        if (s->kind == TRAIN_OP && s->micro == TRAIN_UPDATE &&
            t->plan->ops[s->op].kind == PDL_PLAN_OP_ALLREDUCE)
            bundle(pl, s->op);
    }
    for (int i = 0; i < t->nsteps; i++) {
        const struct train_action *s = &t->steps[i];

        if (s->kind == TRAIN_LOAD) {
            touch_loads(pl, s->micro, i);
        } else if (s->kind == TRAIN_WAIT) {
            touch_sends(pl, s->micro, i);
        } else if (s->kind == TRAIN_START) {
            if (train_is_copy(&t->plan->ops[s->op])) /* begins there */
                touch_op(pl, s->op, TRAIN_UPDATE, i);
        } else if (s->kind == TRAIN_MEASURE) {
            continue;
        } else if (s->kind == TRAIN_ACCUMULATE) {
            touch(pl, s->op, instance(t, s->op, s->micro), i);
            touch(pl, s->op, instance(t, s->op, TRAIN_UPDATE), i);
        } else {
            touch_op(pl, s->op, s->micro, i);
        }
    }
}

/* What is left to another trainer: from the message that a stage begins with to
 * the one that it ends with, nothing. */
static struct block *add_guest(struct planner *pl)
{
    pdl_trainer *t = pl->t;
    struct block *b = &pl->blocks[new_block(pl, t->opt.guest)];

    b->first = b->from = b->to = 0;
    b->last = t->nsteps;
    new_bundle(pl, 1);
    for (int i = 0; i < t->nsteps; i++) {
        const struct train_action *s = &t->steps[i];

        if (s->kind != TRAIN_OP || s->micro == TRAIN_UPDATE)
            continue;
        if (t->plan->ops[s->op].kind == PDL_PLAN_OP_RECV && b->from == 0)
            b->from = i;
        if (t->plan->ops[s->op].kind == PDL_PLAN_OP_SEND)
            b->to = i;
    }
    return b;
}

/* ---- offsets ---------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct bundle *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->b->first != y->b->first ? (x->b->first > y->b->first ? 1 : -1)
                                      : (x->b > y->b ? 1 : -1);
}

static bool is_between(const struct block *b, const struct block *guest)
{
    return b->first > guest->from && b->last < guest->to;
}

static bool are_together(const struct block *a, const struct block *b)
{
    return a->last >= b->first && a->first <= b->last && !is_between(a, b) &&
           !is_between(b, a);
}

/* placed[] is sorted by offset: the first gap from `at` on that is large
 * enough. */
static int64_t lowest(const struct place *placed, int n, const struct block *b,
                      int64_t at)
{
    for (int i = 0; i < n; i++) {
        const struct block *o = placed[i].b;

        if (!are_together(o, b))
            continue;
        if (o->offset - at >= b->bytes)
            return at;
        if (o->offset + o->bytes > at)
            at = o->offset + o->bytes;
    }
    return at;
}

/* The lowest place where each of them is free in its own life. */
static void fit(const struct place *placed, int n, const struct bundle *x)
{
    int64_t at = 0, moved = -1;

    while (moved != at) {
        int64_t inside = 0;

        moved = at;
        for (int i = 0; i < x->n; i++) {
            struct block *b = &x->b[i];

            if (b->bytes > 0 && b->last >= 0)
                at = lowest(placed, n, b, at + inside) - inside;
            b->offset = at + inside;
            inside += b->bytes;
        }
    }
}

static void put(struct place *placed, int *n, struct block *b)
{
    int at = *n;

    while (at > 0 && placed[at - 1].b->offset > b->offset)
        at--;
    memmove(placed + at + 1, placed + at, (size_t)(*n - at) * sizeof *placed);
    placed[at].b = b;
    ++*n;
}

static int64_t assign(struct planner *pl, struct place *placed, bool far)
{
    int64_t top = 0;
    int n = 0;

    qsort(pl->bundles, (size_t)pl->nbundles, sizeof pl->bundles[0], by_size);
    for (int i = 0; i < pl->nbundles; i++) {
        const struct bundle *x = &pl->bundles[i];

        if (x->b->far != far)
            continue;
        fit(placed, n, x);
        for (int k = 0; k < x->n; k++) {
            if (x->b[k].bytes == 0 || x->b[k].last < 0)
                continue;
            put(placed, &n, &x->b[k]);
            if (x->b[k].offset + x->b[k].bytes > top)
                top = x->b[k].offset + x->b[k].bytes;
        }
    }
    return top;
}

static int64_t most_live(const struct planner *pl, int64_t *change)
{
    int64_t live = 0, most = 0;

    for (int i = 0; i < pl->nblocks; i++)
        if (pl->blocks[i].last >= 0 && !pl->blocks[i].far &&
            pl->blocks[i].to == 0) { /* a guest's may be another's, too */
            change[pl->blocks[i].first] += pl->blocks[i].bytes;
            change[pl->blocks[i].last + 1] -= pl->blocks[i].bytes;
        }
    for (int i = 0; i < pl->t->nsteps + 2; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    return most;
}

static int64_t state_bytes(const pdl_trainer *t)
{
    int64_t n = 0;

    for (int i = 0; i < t->plan->ntensors; i++)
        if (train_is_state(t, i) && !train_is_far(t, i) &&
            train_has_stage(t, t->plan->tensors[i].stage))
            n += align(train_array_bytes(&t->arrays[i]));
    return n;
}

static void write_offsets(struct planner *pl, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (pl->block_of[i] >= 0)
            pl->t->offset[i] = pl->blocks[pl->block_of[i]].offset;
}

/* One place for all workspaces that are small. */
static void find_scratch(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++)
        if (t->ops[i].work_bytes <= PDL_PLAN_SMALL_WORK &&
            t->ops[i].work_bytes > t->sizes.scratch)
            t->sizes.scratch = t->ops[i].work_bytes;
}

enum pdl_status train_plan_memory(pdl_trainer *t, struct pdl_err *err)
{
    int64_t n = (t->ntensors + t->plan->nops) * (t->micros + 1);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct planner pl = {.t = t};
    struct place *placed = NULL;
    struct block *guest = NULL;
    int64_t *change = NULL;

    t->alias = PDL_NEW(t->arena, int, t->capacity + 1);
    t->handed = PDL_NEW(t->arena, bool, t->capacity + 1);
    t->sent = PDL_NEW(t->arena, bool, t->capacity + 1);
    t->loads = PDL_NEW(t->arena, bool, t->capacity + 1);
    t->offset = PDL_NEW(t->arena, int64_t, n + 1);
    if (a) {
        pl.blocks = PDL_NEW(a, struct block, n + 2);
        pl.block_of = PDL_NEW(a, int, n + 1);
        pl.bundles = PDL_NEW(a, struct bundle, n + 2);
        placed = PDL_NEW(a, struct place, n + 2);
        change = PDL_NEW(a, int64_t, t->nsteps + 3);
    }
    if (!t->alias || !t->handed || !t->sent || !t->loads || !t->offset ||
        !pl.blocks || !pl.block_of || !pl.bundles || !placed || !change) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the planner");
    }
    for (int64_t i = 0; i < n; i++)
        pl.block_of[i] = -1;
    find_aliases(t);
    find_lives(&pl);
    if (t->opt.guest > 0)
        guest = add_guest(&pl);
    find_scratch(t);
    t->sizes.far = assign(&pl, placed, true);
    t->sizes.arena = assign(&pl, placed, false);
    t->sizes.live = most_live(&pl, change);
    t->sizes.state = state_bytes(t);
    write_offsets(&pl, n);
    t->guest = guest ? guest->offset : 0;
    pdl_arena_destroy(a);
    return PDL_OK;
}
