/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations in the memory of the host (vDNN, Rhu et al. 2016; SwapAdvisor):
 * what backward reads of forward is copied out after its last use in forward
 * and copied in again before its first use in backward. A pass over the
 * operations, after recomputation: what is made again is not copied.
 *
 * Layers go in groups (a repeated block; layers whose names say that they are
 * parts of one thing; otherwise layers up to the next that has weights). The
 * copies of a group are one operation at its end; the memory is given back at
 * the end of the next group, so a copy has as long as that one computes. A
 * group's copies come back one group ahead of it. (prefetch=2: two groups both
 * ways, and so on.) What the last group of the last stage makes is wanted again
 * at once and stays, unless the schedule runs all forwards first.
 *
 * What the optimizer keeps there is update.c's business. */
#include "plan_priv.h"

#include <string.h>

struct offload {
    struct plan_lower *lo;
    const struct pdl_plan_stage *stages;
    struct pdl_plan_op *old;
    int *group;       /* of each node */
    int *run;         /* of each operation: its run within its program */
    int *last, *next; /* of each tensor: runs of its last use in forward and
                         its first in backward; -1: none */
    bool *stays;      /* of each tensor: the layer that uses it last keeps it */
    int *host, *back; /* of each tensor: its copies; -1: none */
    int *ids, *to;    /* of the copy at hand */
    int ntensors;
    int ahead; /* groups that a copy has time for */
};

/* ---- groups ----------------------------------------------------------- */

/* "down1.conv1" and "down1.relu1": parts of one thing that are layers. */
static bool same_part(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");

    return a[n] && !strchr(a + n + 1, '.') && strncmp(a, b, n + 1) == 0 &&
           !strchr(b + n + 1, '.');
}

int pdl_plan_groups(const struct pdl_model *m, int *group)
{
    bool weighted = false;
    int now = 0;

    for (int i = 0; i < m->nnodes; i++) {
        if (i > 0 && weighted &&
            !plan_same_block(m->nodes[i - 1].name, m->nodes[i].name) &&
            !same_part(m->nodes[i - 1].name, m->nodes[i].name)) {
            now++;
            weighted = false;
        }
        group[i] = now;
        weighted = weighted || m->nodes[i].nweights > 0;
    }
    return m->nnodes > 0 ? now + 1 : 0;
}

static int group_of(const struct offload *f, int op)
{
    const struct pdl_plan_op *o = &f->old[op];

    return o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 ? f->group[o->node]
                                                          : -1;
}

/* Runs of operations of one group; what is not a layer's goes with the one
 * before it in forward and with the one after it in backward. */
static int find_runs(struct offload *f, const struct pdl_plan_item *it,
                     bool back)
{
    int runs = 0, at = -1;

    for (int k = 0; k < it->nops; k++) {
        int op = it->first_op + (back ? it->nops - 1 - k : k);
        int g = group_of(f, op);

        if (g >= 0 && at >= 0 && g != at)
            runs++;
        at = g >= 0 ? g : at;
        f->run[op] = runs;
    }
    for (int k = 0; back && k < it->nops; k++)
        f->run[it->first_op + k] = runs - f->run[it->first_op + k];
    return runs + 1;
}

/* ---- which ------------------------------------------------------------ */

static bool offloads(const struct pdl_strategy *s, int clause)
{
    return s->offload_activations || (clause >= 0 && s->clause[clause].offload);
}

bool pdl_strategy_offloads(const struct pdl_strategy *s)
{
    bool any = s->offload_activations;

    for (int c = 0; c < s->nclauses; c++)
        any = any || s->clause[c].offload;
    return any;
}

bool pdl_strategy_hosts_states(const struct pdl_strategy *s)
{
    bool any = s->offload_optimizer;

    for (int c = 0; c < s->nclauses; c++)
        any = any || s->clause[c].offload_optimizer;
    return any;
}

/* What is no layer's goes with the layer before it. */
static void note_forward(struct offload *f, const struct pdl_plan_item *it)
{
    int node = -1;

    for (int i = it->first_op; i < it->first_op + it->nops; i++) {
        const struct pdl_plan_op *o = &f->old[i];
        bool leaves;

        node = o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 ? o->node : node;
        leaves =
            offloads(f->lo->strategy, node >= 0 ? f->lo->clause[node] : -1);

        for (int k = 0; k < o->nin + o->nout; k++) {
            int t = k < o->nin ? o->in[k] : o->out[k - o->nin];

            if (o->kind == PDL_PLAN_OP_SEND && k >= o->nin)
                continue; /* the receiver's */
            if (f->lo->tensors[t].kind == PDL_PLAN_ACTIVATION) {
                f->last[t] = f->run[i];
                f->stays[t] = !leaves;
            }
        }
    }
}

static void note_backward(struct offload *f, const struct pdl_plan_item *it)
{
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        for (int k = 0; k < f->old[i].nin; k++) {
            int t = f->old[i].in[k];

            if (f->last[t] >= 0 && f->next[t] < 0)
                f->next[t] = f->run[i];
        }
}

static bool waits(const struct offload *f, int stage)
{
    return stage + 1 < f->lo->plan.nstages ||
           (f->lo->strategy->schedule == PDL_SCHEDULE_GPIPE &&
            f->lo->plan.nstages > 1 && f->lo->plan.micro_batches > 1);
}

static bool leaves(const struct offload *f, int t, int stage, int runs)
{
    return f->lo->tensors[t].stage == stage && f->last[t] >= 0 &&
           f->next[t] >= 0 && !f->stays[t] &&
           (waits(f, stage) || f->last[t] < runs - 1 || f->next[t] > 0);
}

/* ---- copies ----------------------------------------------------------- */

static int copy_of(struct offload *f, int t, bool host)
{
    struct pdl_plan_tensor x = f->lo->tensors[t];

    x.host = host;
    if (host)
        x.name = plan_name(f->lo, "host(", x.name, ")");
    return plan_add_tensor(f->lo, &x);
}

static void copy(struct offload *f, enum pdl_plan_op_kind kind, int n)
{
    if (n > 0)
        plan_emit(f->lo, kind, PDL_FORWARD, -1, f->ids, n, f->to, n);
}

/* At the end of forward run `run`: its tensors leave. */
static void copy_out(struct offload *f, int stage, int run, int runs)
{
    int n = 0;

    for (int t = 0; t < f->ntensors; t++)
        if (f->last[t] == run && leaves(f, t, stage, runs)) {
            f->host[t] = copy_of(f, t, true);
            f->ids[n] = t;
            f->to[n++] = f->host[t];
        }
    copy(f, PDL_PLAN_OP_COPY_OUT, n);
}

/* What has left at the end of `run` is gone. */
static void release(struct offload *f, int stage, int run)
{
    int n = 0;

    for (int t = 0; t < f->ntensors; t++)
        if (f->host[t] >= 0 && f->last[t] == run &&
            f->lo->tensors[t].stage == stage)
            f->ids[n++] = t;
    if (n > 0)
        plan_emit(f->lo, PDL_PLAN_OP_FREE, PDL_FORWARD, -1, f->ids, n, NULL, 0);
}

/* What backward run `run` reads comes back. */
static void copy_in_for(struct offload *f, int stage, int run)
{
    int n = 0;

    for (int t = 0; t < f->ntensors; t++)
        if (f->host[t] >= 0 && f->lo->tensors[t].stage == stage &&
            f->next[t] == run) {
            f->back[t] = copy_of(f, t, false);
            f->ids[n] = f->host[t];
            f->to[n++] = f->back[t];
        }
    copy(f, PDL_PLAN_OP_COPY_IN, n);
}

/* Before backward run `run`: what the next one reads (and, before the first,
 * what it reads itself). */
static void copy_in(struct offload *f, int stage, int run)
{
    int first = run == 0 ? 0 : run + f->ahead;

    for (int i = first; i <= run + f->ahead; i++)
        copy_in_for(f, stage, i);
}

/* ---- programs --------------------------------------------------------- */

static void rewrite_forward(struct offload *f, int stage,
                            const struct pdl_plan_item *it, int runs)
{
    for (int k = 0; k < it->nops; k++) {
        int i = it->first_op + k, run = f->run[i];

        f->lo->round_now = f->old[i].round;
        plan_push_op(f->lo, &f->old[i]);
        if (k + 1 == it->nops || f->run[i + 1] != run) {
            if (run >= f->ahead)
                release(f, stage, run - f->ahead);
            copy_out(f, stage, run, runs);
        }
    }
    for (int run = runs > f->ahead ? runs - f->ahead : 0; run < runs; run++)
        release(f, stage, run);
}

static const int *renamed(struct offload *f, const int *ids, int n)
{
    int *p = PDL_NEW(f->lo->arena, int, n + 1);

    if (!p) {
        plan_fail(f->lo, "out of memory");
        return ids;
    }
    for (int k = 0; k < n; k++)
        p[k] = ids[k] < f->ntensors && f->back[ids[k]] >= 0 ? f->back[ids[k]]
                                                            : ids[k];
    return p;
}

static void rewrite_backward(struct offload *f, int stage,
                             const struct pdl_plan_item *it)
{
    for (int k = 0; k < it->nops && f->lo->status == PDL_OK; k++) {
        int i = it->first_op + k;
        struct pdl_plan_op o = f->old[i];

        f->lo->round_now = o.round;
        if (k == 0 || f->run[i - 1] != f->run[i])
            copy_in(f, stage, f->run[i]);
        o.in = renamed(f, o.in, o.nin);
        plan_push_op(f->lo, &o);
    }
}

static bool allocate(struct offload *f)
{
    pdl_arena *a = f->lo->arena;
    int n = f->ntensors + 1;

    f->group = PDL_NEW(a, int, f->lo->model->nnodes + 1);
    f->run = PDL_NEW(a, int, f->lo->plan.nops + 1);
    f->last = PDL_NEW(a, int, n);
    f->next = PDL_NEW(a, int, n);
    f->stays = PDL_NEW(a, bool, n);
    f->host = PDL_NEW(a, int, n);
    f->back = PDL_NEW(a, int, n);
    f->ids = PDL_NEW(a, int, n);
    f->to = PDL_NEW(a, int, n);
    if (!f->group || !f->run || !f->last || !f->next || !f->stays || !f->host ||
        !f->back || !f->ids || !f->to) {
        plan_fail(f->lo, "out of memory");
        return false;
    }
    for (int t = 0; t < n; t++)
        f->last[t] = f->next[t] = f->host[t] = f->back[t] = -1;
    return true;
}

/* The stage whose program of this phase the item is; -1: none. */
static int stage_of(const struct offload *f, int item, bool back)
{
    for (int s = 0; s < f->lo->plan.nstages; s++)
        if ((back ? f->stages[s].first_backward : f->stages[s].first_forward) ==
                item &&
            (back ? f->stages[s].nbackward : f->stages[s].nforward) > 0)
            return s;
    return -1;
}

static void rewrite(struct offload *f, int item, const int *runs)
{
    struct pdl_plan_item it = f->lo->items[item];
    int forward = stage_of(f, item, false), back = stage_of(f, item, true);
    int first = f->lo->plan.nops;

    f->lo->stage_now = forward >= 0 ? forward : back >= 0 ? back : 0;
    if (forward >= 0)
        rewrite_forward(f, forward, &it, runs[forward]);
    else if (back >= 0)
        rewrite_backward(f, back, &it);
    else
        for (int k = 0; k < it.nops; k++)
            plan_push_op(f->lo, &f->old[it.first_op + k]);
    f->lo->items[item].first_op = first;
    f->lo->items[item].nops = f->lo->plan.nops - first;
}

/* Programs still are one item each. */
void plan_offload(struct plan_lower *lo, const struct pdl_plan_stage *stages)
{
    struct offload f = {.lo = lo,
                        .stages = stages,
                        .old = lo->ops,
                        .ntensors = lo->plan.ntensors,
                        .ahead = (int)lo->strategy->prefetch};
    int *runs;

    if (lo->status != PDL_OK || !pdl_strategy_offloads(lo->strategy))
        return;
    runs = PDL_NEW(lo->arena, int, lo->plan.nstages + 1);
    if (!runs || !allocate(&f)) {
        plan_fail(lo, "out of memory");
        return;
    }
    f.ahead = f.ahead > 0 ? f.ahead : 1;
    pdl_plan_groups(lo->model, f.group);
    for (int s = 0; s < lo->plan.nstages; s++) {
        runs[s] = find_runs(&f, &lo->items[stages[s].first_forward], false);
        find_runs(&f, &lo->items[stages[s].first_backward], true);
        note_forward(&f, &lo->items[stages[s].first_forward]);
        note_backward(&f, &lo->items[stages[s].first_backward]);
    }
    lo->ops = NULL;
    lo->op_cap = lo->plan.nops = 0;
    for (int i = 0; i < lo->plan.nitems && lo->status == PDL_OK; i++)
        rewrite(&f, i, runs);
}
