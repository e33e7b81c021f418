/* SPDX-License-Identifier: Apache-2.0
 *
 * swap=karma: which blocks keep their activations, make them again, or let them
 * wait on the host (paradl/karma.h). The chain of blocks is read off four
 * plans: as it is, with every block made again, with every block made again in
 * part (part.c), and with every block on the host. Seconds are those that the
 * projection's own simulation recorded, bytes those of the plans' tensors in
 * the order of their programs, the rates of the link what the copies were
 * priced at. What is decided becomes clauses, and the whole plan is priced: if
 * it does not fit (the chain knows nothing of workspaces that overlap), the
 * chain gets as much less room, and half of that back where that is too little;
 * eight times at most. Every block the same is tried as a whole plan, too, so
 * that the answer is never slower. States that are much of the memory go to the
 * host in groups of units (states.c), where the strategy does not send them
 * all. Limits: one stage; weights stay; at most 60 blocks, neighbours of longer
 * chains decide alike. */
#include "oracle/offload/chain.h"

#include <string.h>

/* FEW: part of the memory below which states are not looked at; SPARE: which
 * may be left */
enum { MOST_UNITS = 60, TRIES = 8, FEW = 16, SPARE = 128 };

/* One plan, priced, and what its units take. */
struct look {
    const struct pdl_plan *plan;
    struct pdl_projection x;
    const double *seconds; /* of each operation */
    double *forward_s, *backward_s, *again_s;
    int64_t *left, *forward_bytes, *backward_bytes;
    double copy_s[2], copy_slows;
    int64_t copy_bytes[2];
};

/* ---- units --------------------------------------------------------------- */

static enum pdl_status find_units(struct chain *c, struct pdl_err *err)
{
    const struct pdl_plan *p;
    int *group, groups;
    enum pdl_status st =
        pdl_plan_lower(c->arena, c->model, c->plain, c->po, &p, err);

    if (st != PDL_OK)
        return st;
    if (p->nstages > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "swap=karma decides for one stage: not with pipe=");
    c->whole = p->model;
    group = PDL_NEW(c->arena, int, p->model->nnodes + 1);
    c->unit = PDL_NEW(c->arena, int, p->model->nnodes + 1);
    c->first = PDL_NEW(c->arena, int, p->model->nnodes + 1);
    c->last = PDL_NEW(c->arena, int, p->model->nnodes + 1);
    if (!group || !c->unit || !c->first || !c->last)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    groups = pdl_plan_groups(p->model, group);
    c->each = (groups + MOST_UNITS - 1) / MOST_UNITS;
    for (int i = 0; i < p->model->nnodes; i++) {
        c->unit[i] = group[i] / c->each;
        if (i == 0 || c->unit[i] != c->unit[i - 1])
            c->first[c->n++] = i;
        c->last[c->unit[i]] = i;
    }
    return PDL_OK;
}

/* ---- what a plan's units take -------------------------------------------- */

/* Gradients of weights come with the blocks of backward, but where they are
 * sums over micro-batches: those are there all the time. */
static int64_t bytes_of(const struct pdl_plan *p, int tensor)
{
    const struct pdl_plan_tensor *t = &p->tensors[tensor];
    bool comes = t->kind == PDL_PLAN_WEIGHT_GRADIENT && p->micro_batches == 1;
    struct pdl_box b;

    if (t->host || (t->kind != PDL_PLAN_ACTIVATION &&
                    t->kind != PDL_PLAN_GRADIENT && !comes))
        return 0;
    pdl_plan_box(p, tensor, 0, &b);
    return pdl_box_volume(&b) * pdl_dtype_bits(t->dtype) / 8;
}

/* A pass over the operations of forward or backward, unit by unit. */
struct pass {
    const struct chain *c;
    struct look *l;
    bool back;
    int64_t live, most; /* in the unit at hand */
    int at;             /* the unit; what is no layer's goes with it */
    int *last;          /* of each tensor: the unit of its last forward use */
};

static void enter(struct pass *w, int op)
{
    const struct pdl_plan_op *o = &w->l->plan->ops[op];
    int64_t *peak = w->back ? w->l->backward_bytes : w->l->forward_bytes;

    if (o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 &&
        w->c->unit[o->node] != w->at) {
        w->at = w->c->unit[o->node];
        w->most = w->live;
    }
    w->most = w->live > w->most ? w->live : w->most;
    if (w->most > peak[w->at])
        peak[w->at] = w->most;
}

static void count_op(struct pass *w, int op)
{
    const struct pdl_plan *p = w->l->plan;
    const struct pdl_plan_op *o = &p->ops[op];
    bool frees = o->kind == PDL_PLAN_OP_FREE;

    for (int k = 0; k < o->nout && !frees && o->kind != PDL_PLAN_OP_SEND; k++)
        w->live += bytes_of(p, o->out[k]);
    enter(w, op);
    for (int k = 0; k < o->nin; k++) {
        if (frees)
            w->live -= bytes_of(p, o->in[k]);
        else if (!w->back)
            w->last[o->in[k]] = w->at;
        else if (w->last[o->in[k]] >= 0 &&
                 p->tensors[o->in[k]].kind == PDL_PLAN_ACTIVATION) {
            w->l->left[w->last[o->in[k]]] += bytes_of(p, o->in[k]);
            w->last[o->in[k]] = -1;
        }
    }
    for (int k = 0; k < o->nout && !w->back && !frees; k++)
        w->last[o->out[k]] = w->at;
}

static void add_time(struct pass *w, int op, double seconds)
{
    const struct pdl_plan_op *o = &w->l->plan->ops[op];

    if (o->kind == PDL_PLAN_OP_COPY_OUT || o->kind == PDL_PLAN_OP_COPY_IN) {
        struct pdl_work x;
        bool in = o->kind == PDL_PLAN_OP_COPY_IN;

        pdl_plan_op_work(w->l->plan, op, 0, &x);
        w->l->copy_s[in] += seconds;
        w->l->copy_bytes[in] += x.write_bytes;
    } else if (!w->back) {
        w->l->forward_s[w->at] += seconds;
    } else if (o->kind == PDL_PLAN_OP_COMPUTE && o->pass == PDL_FORWARD &&
               o->node >= 0) {
        w->l->again_s[w->at] += seconds;
    } else {
        w->l->backward_s[w->at] += seconds;
    }
}

static void walk(struct pass *w, int first, int n, const double *seconds)
{
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < w->l->plan->items[i].nops; k++) {
            int op = w->l->plan->items[i].first_op + k;

            count_op(w, op);
            add_time(w, op, seconds[op]);
        }
}

static bool allocate(const struct chain *c, struct look *l)
{
    pdl_arena *a = c->arena;

    l->forward_s = PDL_NEW(a, double, c->n + 1);
    l->backward_s = PDL_NEW(a, double, c->n + 1);
    l->again_s = PDL_NEW(a, double, c->n + 1);
    l->left = PDL_NEW(a, int64_t, c->n + 1);
    l->forward_bytes = PDL_NEW(a, int64_t, c->n + 1);
    l->backward_bytes = PDL_NEW(a, int64_t, c->n + 1);
    return l->forward_s && l->backward_s && l->again_s && l->left &&
           l->forward_bytes && l->backward_bytes;
}

static enum pdl_status look_at(const struct chain *c,
                               const struct pdl_strategy *s, struct look *l,
                               struct pdl_err *err)
{
    struct oracle_record r = {.alone = true};
    enum pdl_status st =
        pdl_plan_lower(c->arena, c->model, s, c->po, &l->plan, err);
    struct pass w = {.c = c, .l = l};
    int64_t tasks;

    if (st != PDL_OK)
        return st;
    tasks = 3 * l->plan->micro_batches;
    r.start = PDL_NEW(c->arena, double, l->plan->nops + 1);
    r.seconds = PDL_NEW(c->arena, double, l->plan->nops + 1);
    r.done = PDL_NEW(c->arena, double, tasks + 1);
    w.last = PDL_NEW(c->arena, int, l->plan->ntensors + 1);
    if (!allocate(c, l) || !r.start || !r.seconds || !r.done || !w.last)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = oracle_project(l->plan, c->sys, c->oracle, &r, &l->x, err);
    if (st != PDL_OK)
        return st;
    l->seconds = r.seconds;
    l->copy_slows = r.copy_slows;
    for (int t = 0; t < l->plan->ntensors; t++)
        w.last[t] = -1;
    walk(&w, l->plan->stages[0].first_forward, l->plan->stages[0].nforward,
         r.seconds);
    w.back = true;
    walk(&w, l->plan->stages[0].first_backward, l->plan->stages[0].nbackward,
         r.seconds);
    return PDL_OK;
}

/* ---- the chain ----------------------------------------------------------- */

/* A unit's own bytes are what is live beside what units before it left. */
static void fill_way(struct chain *c, const struct look *l,
                     enum pdl_karma_again way)
{
    int64_t before = 0;

    for (int i = 0; i < c->n; i++) {
        int64_t most = c->block[i].left[PDL_KARMA_NOTHING].bytes;
        int64_t left = l->left[i], f = l->forward_bytes[i] - before,
                b = l->backward_bytes[i] - before;

        c->block[i].left[way] = (struct pdl_karma_left){
            .again_s = way == PDL_KARMA_NOTHING ? 0 : l->again_s[i],
            .bytes = way != PDL_KARMA_NOTHING && left > most ? most : left,
            .forward_bytes = f > 0 ? f : 0,
            .backward_bytes = b > 0 ? b : 0};
        before += left;
    }
}

static void fill_blocks(struct chain *c, const struct look *keep,
                        const struct look *again, const struct look *part)
{
    fill_way(c, keep, PDL_KARMA_NOTHING);
    fill_way(c, again, PDL_KARMA_ALL);
    fill_way(c, part, PDL_KARMA_SOME);
    for (int i = 0; i < c->n; i++) {
        struct pdl_karma_block *b = &c->block[i];

        b->forward_s = keep->forward_s[i];
        b->backward_s = keep->backward_s[i];
        b->may = 1u << PDL_KARMA_KEEP | 1u << PDL_KARMA_RECOMPUTE |
                 1u << PDL_KARMA_SWAP | 1u << PDL_KARMA_BOTH;
        if (b->left[PDL_KARMA_SOME].bytes < b->left[PDL_KARMA_NOTHING].bytes)
            b->may |= 1u << PDL_KARMA_PART | 1u << PDL_KARMA_REST;
        for (int n = c->first[i]; n <= c->last[i]; n++)
            b->heavy = b->heavy || oracle_is_heavy(&c->whole->nodes[n]);
    }
}

static int64_t most(const struct look *l, int n)
{
    int64_t top = 0;

    for (int i = 0; i < n; i++) {
        top = l->forward_bytes[i] > top ? l->forward_bytes[i] : top;
        top = l->backward_bytes[i] > top ? l->backward_bytes[i] : top;
    }
    return top;
}

static double sum(const double *x, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += x[i];
    return s;
}

/* The host's memory for one PE, less what is there already; 0: not known. */
static int64_t host_room(const struct chain *c, const struct pdl_projection *x)
{
    int64_t node = c->sys->node.pes, pes = x->pes < node ? x->pes : node;
    int64_t all = c->sys->node.host.memory_bytes / (pes > 0 ? pes : 1);

    if (all <= 0)
        return 0;
    return all > x->host_bytes ? all - x->host_bytes : 1;
}

/* Where the states of a group are is decided, too. */
static enum pdl_status fill_states(struct chain *c, const struct look *keep,
                                   struct pdl_strategy *s, struct pdl_err *err)
{
    const struct pdl_host *h = &c->sys->node.host;
    struct pdl_karma *k = &c->out->karma;
    struct look there = {0};
    enum pdl_status st;

    if (c->plain->offload_optimizer || !(h->pcie_bytes_per_s > 0) ||
        !(h->memory_bytes_per_s > 0) || keep->x.feasible ||
        keep->x.optimizer_bytes < keep->x.capacity_bytes / FEW)
        return PDL_OK;
    *s = *c->plain;
    s->offload_optimizer = true;
    st = look_at(c, s, &there, err);
    if (st == PDL_OK)
        st = oracle_state_groups(
            c->arena,
            &(struct states_in){.here = {keep->plan, keep->seconds},
                                .there = {there.plan, there.seconds},
                                .unit = c->unit,
                                .nunits = c->n,
                                .state_bytes = keep->x.optimizer_bytes},
            &c->states, err);
    k->group = c->states.group;
    k->ngroups = st == PDL_OK ? c->states.n : 0;
    for (int g = 0; g < k->ngroups; g++) {
        k->fixed_bytes -= k->group[g].state_bytes;
        c->out->rest_s -= k->group[g].device_s;
    }
    return st;
}

static enum pdl_status fill(struct chain *c, struct pdl_err *err)
{
    struct pdl_outofcore *out = c->out;
    struct pdl_strategy *s = PDL_NEW(c->arena, struct pdl_strategy, 1);
    struct look keep = {0}, again = {0}, part = {0}, far = {0};
    enum pdl_status st = PDL_ENOMEM;

    c->block = PDL_NEW(c->arena, struct pdl_karma_block, c->n + 1);
    if (s && c->block)
        st = look_at(c, c->plain, &keep, err);
    if (st == PDL_OK)
        st = oracle_chain_all(c, PDL_KARMA_RECOMPUTE, s, err);
    if (st == PDL_OK)
        st = look_at(c, s, &again, err);
    if (st == PDL_OK)
        st = oracle_chain_part(c, keep.plan, keep.seconds, again.again_s, err);
    if (st == PDL_OK)
        st = oracle_chain_all(c, PDL_KARMA_PART, s, err);
    if (st == PDL_OK)
        st = look_at(c, s, &part, err);
    if (st == PDL_OK)
        st = oracle_chain_all(c, PDL_KARMA_SWAP, s, err);
    if (st == PDL_OK)
        st = look_at(c, s, &far, err);
    if (st != PDL_OK)
        return st;
    fill_blocks(c, &keep, &again, &part);
    out->in_core = keep.x;
    out->karma = (struct pdl_karma){
        .nblocks = c->n,
        .block = c->block,
        .out_bytes_per_s =
            far.copy_s[0] > 0 ? (double)far.copy_bytes[0] / far.copy_s[0] : 1,
        .in_bytes_per_s =
            far.copy_s[1] > 0 ? (double)far.copy_bytes[1] / far.copy_s[1] : 1,
        .slow = far.copy_slows,
        .capacity = keep.x.capacity_bytes};
    out->karma.host_bytes = host_room(c, &keep.x);
    out->karma.fixed_bytes = keep.x.peak_bytes - most(&keep, c->n);
    out->karma.passes = keep.plan->micro_batches;
    out->rest_s = keep.x.step_s -
                  (double)out->karma.passes *
                      (sum(keep.forward_s, c->n) + sum(keep.backward_s, c->n));
    for (int i = 0; far.copy_s[0] <= 0 && i < c->n; i++)
        c->block[i].may &= ~(1u << PDL_KARMA_SWAP | 1u << PDL_KARMA_BOTH |
                             1u << PDL_KARMA_REST);
    return fill_states(c, &keep, s, err);
}

/* ---- deciding ------------------------------------------------------------ */

static enum pdl_status price(const struct chain *c,
                             const struct pdl_strategy *s,
                             struct pdl_projection *x, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p;
    enum pdl_status st = a ? pdl_plan_lower(a, c->model, s, c->po, &p, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = pdl_project(p, c->sys, c->oracle, x, err);
    pdl_arena_destroy(a);
    return st;
}

static void take(struct pdl_outofcore *out, const struct pdl_projection *x,
                 const struct pdl_karma_plan *p, const struct pdl_strategy *s,
                 struct pdl_strategy *best)
{
    bool better = x->feasible != out->x.feasible
                      ? x->feasible
                      : (x->feasible ? x->step_s < out->x.step_s
                                     : x->peak_bytes < out->x.peak_bytes);

    if (out->x.step_s > 0 && !better)
        return;
    out->x = *x;
    out->plan = *p;
    *best = *s;
}

/* Runs the decisions in the chain, and as a whole plan. */
static enum pdl_status try_plan(const struct chain *c,
                                const struct pdl_karma_plan *p,
                                struct pdl_strategy *best, int64_t *over,
                                struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(c->arena, struct pdl_strategy, 1);
    struct pdl_projection x;
    enum pdl_status st = s ? oracle_chain_write(c, p, s, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = price(c, s, &x, err);
    if (st != PDL_OK)
        return st;
    *over = x.peak_bytes - x.capacity_bytes;
    take(c->out, &x, p, s, best);
    return PDL_OK;
}

static enum pdl_status try_uniform(const struct chain *c,
                                   struct pdl_strategy *best,
                                   struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int64_t over;

    for (int i = 0; pdl_karma_policy_at(i) && st == PDL_OK; i++) {
        struct pdl_karma_plan p;

        if (!pdl_karma_policy_at(i)->uniform)
            continue;
        st = pdl_karma_follow(c->arena, &c->out->karma, pdl_karma_policy_at(i),
                              &p, err);
        if (st == PDL_OK)
            st = try_plan(c, &p, best, &over, err);
    }
    return st;
}

/* The whole plan of changed decisions may not fit: it has to be tried. */
static enum pdl_status polish(struct chain *c, struct pdl_strategy *best,
                              struct pdl_err *err)
{
    struct pdl_karma_plan p = c->out->plan;
    int64_t over;

    if (!c->out->x.feasible || !p.step.fits)
        return PDL_OK;
    p.choice = PDL_NEW(c->arena, enum pdl_karma_choice, c->n + 1);
    if (!p.choice)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    memcpy(p.choice, c->out->plan.choice, (size_t)c->n * sizeof *p.choice);
    pdl_karma_polish(&c->out->karma, &p);
    return p.step.step_s < c->out->plan.step.step_s
               ? try_plan(c, &p, best, &over, err)
               : PDL_OK;
}

/* With the room that the chain has; less, while whole plans need more, but not
 * so much less that nothing fits, or that much room is left. */
static enum pdl_status decide(struct chain *c, struct pdl_strategy *best,
                              struct pdl_err *err)
{
    struct pdl_karma *k = &c->out->karma;
    enum pdl_status st = try_uniform(c, best, err);
    int64_t low = -1, high = -1, at = k->fixed_bytes, found = at, over = 0;

    for (int i = 0; i < TRIES && st == PDL_OK && !c->out->in_core.feasible;
         i++) {
        struct pdl_karma_plan p;

        k->fixed_bytes = at;
        st = pdl_karma_solve(c->arena, k, &p, err);
        if (st == PDL_OK && p.step.fits)
            st = try_plan(c, &p, best, &over, err);
        if (st != PDL_OK)
            break;
        *(p.step.fits && over > 0 ? &low : &high) = at;
        if (p.step.fits && over <= 0) {
            found = at;
            if (-over <= k->capacity / SPARE)
                break;
        }
        if (low < 0 || (high >= 0 && high - low <= k->capacity / SPARE))
            break;
        /* so much that the chain has these decisions as large as they are */
        at = high < 0 ? low + over + k->capacity - p.step.peak_bytes
                      : low + (high - low) / 2;
    }
    k->fixed_bytes = found;
    return st == PDL_OK ? polish(c, best, err) : st;
}

enum pdl_status pdl_outofcore(pdl_arena *a, const struct pdl_model *model,
                              const struct pdl_system *sys,
                              const struct pdl_oracle_options *oracle,
                              const struct pdl_plan_options *po,
                              struct pdl_strategy *s, struct pdl_outofcore *out,
                              struct pdl_err *err)
{
    struct pdl_strategy *plain = PDL_NEW(a, struct pdl_strategy, 1);
    struct chain c = {.arena = a,
                      .model = model,
                      .sys = sys,
                      .oracle = oracle,
                      .po = po,
                      .plain = plain,
                      .out = out};
    const char **names;
    enum pdl_status st;

    if (!plain)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (s->nclauses > 1 || s->offload_activations ||
        s->recompute != PDL_RECOMPUTE_NONE)
        return pdl_fail(err, PDL_EINVAL,
                        "swap=karma chooses what is made again and what waits: "
                        "it goes with one clause, not with recompute= or "
                        "offload=activations");
    *out = (struct pdl_outofcore){.nunits = 0};
    s->swap = PDL_SWAP_NONE;
    *plain = *s;
    st = find_units(&c, err);
    if (st == PDL_OK)
        st = fill(&c, err);
    if (out->karma.fixed_bytes < 0)
        out->karma.fixed_bytes = 0;
    if (st == PDL_OK)
        st = decide(&c, s, err);
    if (st != PDL_OK)
        return st;
    names = PDL_NEW(a, const char *, 2 * c.n + 1);
    if (!names)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0, k = 0; i < c.n; i++) {
        names[k++] = c.whole->nodes[c.first[i]].name;
        names[k++] = c.whole->nodes[c.last[i]].name;
    }
    out->nunits = c.n;
    out->names = names;
    return PDL_OK;
}
