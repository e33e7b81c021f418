/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from lifetimes: what is live at the worst operation of the worst
 * rank. Weights and optimizer state live for ever, a gradient of a weight
 * until its update, everything else until the plan frees it; an allreduce whose
 * input dies with it is done in place. On processors an operation has the
 * workspace that was measured, a move the buffers that its boxes need; small
 * ones share a place (the runtime's, src/train/exec/memory.c). Weights of 16
 * bits have a 32-bit copy beside the optimizer's slots. What frameworks keep
 * besides (gradient buffers, scores of attention, masks, 32-bit logits) is
 * their habit or the job's option. A stage is walked here, pass by pass; what a
 * lane of them holds: step_memory.c. memory=paper is in project.c. */
#include "oracle/step/stage.h"

#include <string.h>

/* ---- sizes ------------------------------------------------------------ */

/* Values that a fused kernel makes again for backward: the activation inside
 * a gated feed-forward. */
bool *oracle_find_inside(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_model *m = o->p->model;
    bool *inside = PDL_NEW(o->arena, bool, m->ntensors + 1);

    for (int i = 0; inside && f && f->fused && i + 1 < m->nnodes; i++)
        if (pdl_op_id(m->nodes[i].op) == PDL_ID_SILU &&
            pdl_op_id(m->nodes[i + 1].op) == PDL_ID_MUL)
            inside[m->nodes[i].out[0]] = true;
    return inside;
}

void oracle_all_sizes(const struct oracle *o, int64_t rank, const bool *inside,
                      int64_t *all)
{
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];

        all[i] = (t->kind == PDL_PLAN_ACTIVATION && t->model_tensor >= 0 &&
                  inside[t->model_tensor]) ||
                         (o->pe.joins && o->p->inner && o->p->inner[i])
                     ? 0
                     : oracle_bytes(o, i, rank);
    }
}

void oracle_sizes_of(const struct oracle *o, int stage, const int64_t *all,
                     int64_t *size)
{
    for (int i = 0; i < o->p->ntensors; i++)
        size[i] = o->p->tensors[i].stage == stage ? all[i] : 0;
}

/* ---- what is live ----------------------------------------------------- */

struct tally {
    int64_t state; /* bytes that the optimizer keeps for what it updates */
    int64_t extra; /* what no tensor of the plan stands for, at this moment */
    int64_t work, buffers; /* the same: of a kernel, of a move */
    int64_t small;         /* the largest workspace that is not in `work` */
    int64_t host;          /* bytes in the host's memory */
    int64_t rank;
    const int64_t *size; /* bytes of each tensor on this rank */
    int64_t live[8];     /* by enum pdl_plan_kind */
};

/* Everything that is live at this moment. */
static int64_t sum(const struct tally *t)
{
    int64_t n = t->state + t->extra + t->work + t->buffers;

    for (int k = 0; k < 8; k++)
        n += t->live[k];
    return n;
}

static bool in_stage(const struct oracle *o, int t, int stage)
{
    return o->p->tensors[t].stage == stage;
}

/* Weights are there all the time: an update or a gather only renews them. */
static bool is_kept(const struct oracle *o, int t)
{
    return o->p->tensors[t].kind == PDL_PLAN_WEIGHT ||
           o->p->tensors[t].kind == PDL_PLAN_STATE;
}

/* ---- buffers of gradients --------------------------------------------- */

/* Bytes for one weight in buffers of gradients; 0: the plan's own. */
static double buffer_bytes(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    double own;

    if (!f || o->opt->parameters == PDL_IDEAL || o->p->strategy->zero == 3)
        return 0;
    own = o->opt->gradient_bytes > 2 ? f->gradient_bytes32 : f->gradient_bytes;
    if (o->opt->gradient_bytes == 2 && own > 2) /* as the job says */
        own = 2;
    return own > 0 && o->p->strategy->zero > 0 ? own + f->zero_bytes : own;
}

static int64_t gradient_size(const struct oracle *o, int t, int64_t bytes)
{
    int own = pdl_dtype_bits(o->p->tensors[t].dtype) / 8;

    int asked = o->opt->gradient_bytes > 0 ? o->opt->gradient_bytes
                : oracle_is_eager(o)       ? 4
                                           : 0;

    if (buffer_bytes(o) > 0)
        return 0;
    return asked > 0 && own > 0 ? bytes / own * asked : bytes;
}

/* Is the layer's operation run again before backward? */
static bool recomputes_attention(const struct oracle *o,
                                 const struct pdl_plan_op *op)
{
    if (o->again && op->node >= 0)
        return o->again[op->node];
    return o->p->strategy->recompute == PDL_RECOMPUTE_SELECTIVE ||
           o->p->strategy->recompute == PDL_RECOMPUTE_FULL;
}

static bool recomputes_add(const struct oracle *o, const struct pdl_plan_op *op)
{
    return o->again && op->node >= 0
               ? o->again[op->node]
               : o->p->strategy->recompute == PDL_RECOMPUTE_FULL;
}

/* Before and after an operation: what it keeps stays from the forward operation
 * that backward uses to backward itself. */
static void begin_extra(const struct oracle *o, const struct pdl_plan_op *op,
                        bool back, struct tally *t)
{
    int64_t n = oracle_keeps(o, (int)(op - o->p->ops), t->rank);

    t->extra = oracle_logits(o, op, t->size);
    if (op->pass == PDL_FORWARD && !back && recomputes_attention(o, op))
        t->extra += n;
    else if (op->pass == PDL_FORWARD)
        t->live[PDL_PLAN_ACTIVATION] += n;
    if (op->pass == PDL_FORWARD && !back && o->opt->dropout > 0 &&
        !recomputes_add(o, op) && op->kind == PDL_PLAN_OP_COMPUTE &&
        oracle_op_id(o, (int)(op - o->p->ops)) == PDL_ID_ADD)
        t->live[PDL_PLAN_ACTIVATION] += t->size[op->out[0]] / 2; /* mask */
}

static void end_extra(const struct oracle *o, const struct pdl_plan_op *op,
                      struct tally *t)
{
    t->extra = t->work = t->buffers = 0;
    if (op->pass == PDL_BACKWARD_DATA)
        t->live[PDL_PLAN_ACTIVATION] -=
            oracle_keeps(o, (int)(op - o->p->ops), t->rank);
}

/* A tensor comes (1) or goes (-1). */
static void count(const struct oracle *o, int x, int sign, struct tally *t)
{
    enum pdl_plan_kind kind = o->p->tensors[x].kind;
    bool base = kind == PDL_PLAN_WEIGHT_GRADIENT && oracle_runs_plans(o);
    int64_t n = kind == PDL_PLAN_WEIGHT_GRADIENT
                    ? gradient_size(o, x, t->size[x])
                    : t->size[x];

    if (!o->p->tensors[x].host)
        t->live[kind] += sign * n;
    else if (!base) /* state_of_op has them */
        t->host += sign * t->size[x];
}

static void make(const struct oracle *o, int i, int stage, struct tally *t)
{
    const struct pdl_plan_op *op = &o->p->ops[i];

    for (int j = 0; j < op->nout; j++)
        if (in_stage(o, op->out[j], stage) && !is_kept(o, op->out[j])) {
            count(o, op->out[j], 1, t);
            if (pdl_plan_in_place(o->p, i, j))
                count(o, op->in[j], -1, t);
        }
}

/* Has the sum before taken the memory of operand k over? Operands are mostly
 * freed in the order in which they were summed. */
static bool is_handed(const struct oracle *o, int i, int k)
{
    const struct pdl_plan_op *before = &o->p->ops[i - (i > 0)];
    int tensor = o->p->ops[i].in[k], n = before->nout;

    if (before->kind != PDL_PLAN_OP_ALLREDUCE)
        return false;
    n = before->nin < n ? before->nin : n;
    if (k < n && before->in[k] == tensor)
        return !is_kept(o, before->out[k]);
    for (int j = 0; j < n; j++)
        if (before->in[j] == tensor)
            return !is_kept(o, before->out[j]);
    return false;
}

static void drop(const struct oracle *o, int i, struct tally *t)
{
    const struct pdl_plan_op *op = &o->p->ops[i];

    for (int j = 0; j < op->nin; j++)
        if (!is_handed(o, i, j))
            count(o, op->in[j], -1, t);
}

/* In a place of its own, if it is small. */
static int64_t placed(struct tally *t, int64_t n)
{
    if (n > PDL_PLAN_SMALL_WORK)
        return n;
    t->small = n > t->small ? n : t->small;
    return 0;
}

/* What the operation works in, while it runs. */
static void begin_work(const struct oracle *o, int i, struct tally *t)
{
    struct pdl_plan_copies c = {.buffer = 0};

    if (!o->pe.own || o->opt->parameters == PDL_IDEAL)
        return;
    t->work = placed(t, oracle_workspace(o, i, t->rank));
    if (o->p->ops[i].kind != PDL_PLAN_OP_COMPUTE)
        pdl_plan_copies(o->p, i, t->rank, &c);
    t->buffers = placed(t, c.buffer);
}

static void compare(const struct tally *t, const struct tally *start,
                    int64_t start_sum, struct oracle_span *s)
{
    struct oracle_moment now = {
        .all = sum(t) - start_sum,
        .gradients = t->live[PDL_PLAN_WEIGHT_GRADIENT] -
                     start->live[PDL_PLAN_WEIGHT_GRADIENT],
        .weights = t->live[PDL_PLAN_WEIGHT] - start->live[PDL_PLAN_WEIGHT],
        .work = t->work,
        .buffers = t->buffers};

    if (t->host - start->host > s->top_host)
        s->top_host = t->host - start->host;
    if (now.all > s->top.all)
        s->top = now;
    if (now.all - now.gradients > s->rest.all - s->rest.gradients)
        s->rest = now;
}

static int64_t saved(const struct tally *t)
{
    return t->live[PDL_PLAN_ACTIVATION] + t->live[PDL_PLAN_STATISTIC];
}

static struct oracle_span walk_item(const struct oracle *o, int stage,
                                    const struct pdl_plan_item *it, bool back,
                                    struct tally *t)
{
    struct tally start = *t;
    struct oracle_span s = {.top = {.all = INT64_MIN / 4},
                            .rest = {.all = INT64_MIN / 4}};
    int64_t start_sum = sum(&start);

    t->small = 0;

    for (int at = it->first_op; at < it->first_op + it->nops; at++) {
        const struct pdl_plan_op *op = &o->p->ops[at];

        if (op->kind == PDL_PLAN_OP_FREE) {
            if (s.top.all < 0) /* it begins with what goes */
                compare(t, &start, start_sum, &s);
            drop(o, at, t);
            continue;
        }
        make(o, at, stage, t);
        begin_extra(o, op, back, t);
        begin_work(o, at, t);
        compare(t, &start, start_sum, &s);
        end_extra(o, op, t);
    }
    s.all = sum(t) - start_sum;
    s.gradients = t->live[PDL_PLAN_WEIGHT_GRADIENT] -
                  start.live[PDL_PLAN_WEIGHT_GRADIENT];
    s.weights = t->live[PDL_PLAN_WEIGHT] - start.live[PDL_PLAN_WEIGHT];
    s.saved = saved(t) - saved(&start);
    s.input = t->live[PDL_PLAN_INPUT] - start.live[PDL_PLAN_INPUT];
    s.host = t->host - start.host;
    s.small = t->small;
    return s;
}

static struct oracle_span walk(const struct oracle *o, int stage, int first,
                               int nitems, bool back, struct tally *t)
{
    struct oracle_span s = {.top = {.all = INT64_MIN / 4},
                            .rest = {.all = INT64_MIN / 4}};

    for (int i = first; i < first + nitems; i++) {
        const struct pdl_plan_item *it = &o->p->items[i];
        struct oracle_span one = walk_item(o, stage, it, back, t);

        if (it->repeat > 1)
            one = oracle_span_repeat(&one, it->repeat);
        s = i == first ? one : oracle_span_join(&s, &one);
    }
    return s;
}

/* ZeRO 1 and 2: the part that a rank updates is a tensor of its own in plans,
 * which our runtime runs as they are; others update a part of the weights. */
static bool is_own_part(const struct oracle *o, const struct pdl_plan_tensor *x)
{
    return x->kind == PDL_PLAN_STATE && oracle_runs_plans(o);
}

/* Optimizer state goes with what the rank updates: its weights, or with ZeRO
 * its parts of them; in the PE's memory or the host's, which then has a copy
 * of the weights too (frameworks have the 32-bit one alone). */
static int64_t state_of_op(const struct oracle *o, const struct pdl_plan_op *op,
                           const int64_t *size, bool host)
{
    int64_t n = 0, slots = o->opt->optimizer_slots;

    /* what error feedback keeps of gradients */
    for (int j = 0; op->kind == PDL_PLAN_OP_ALLREDUCE && op->compress &&
                    strcmp(op->compress, "lossless") != 0 && j < op->nin;
         j++)
        n += size[op->in[j]];
    for (int j = 0; op->kind == PDL_PLAN_OP_UPDATE && j < op->nout; j++) {
        const struct pdl_plan_tensor *x = &o->p->tensors[op->out[j]];
        bool master =
            pdl_dtype_bits(x->dtype) == 16 && o->opt->parameters != PDL_IDEAL;

        if (x->host != host)
            continue;
        n += master ? size[op->out[j]] *
                          (2 * (slots + 1) + (host && oracle_runs_plans(o)))
                    : size[op->out[j]] * (slots + (host || is_own_part(o, x)));
        if (host &&
            oracle_runs_plans(o)) /* all leave before the first is used */
            n += size[op->in[op->nout + j]];
    }
    return n;
}

static int64_t state_of(const struct oracle *o, const struct pdl_plan_stage *s,
                        const int64_t *size, bool host)
{
    int64_t n = 0;

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        for (int k = 0; k < o->p->items[i].nops; k++)
            n += o->p->items[i].repeat *
                 state_of_op(o, &o->p->ops[o->p->items[i].first_op + k], size,
                             host);
    return n;
}

/* What stays there of a stage. */
static void find_base(const struct oracle *o, int stage, const int64_t *size,
                      struct oracle_lived *l)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];

    *l = (struct oracle_lived){.state = state_of(o, s, size, false),
                               .host = state_of(o, s, size, true)};
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        int bits = pdl_dtype_bits(t->dtype);

        if (t->kind != PDL_PLAN_WEIGHT || t->stage != stage)
            continue;
        l->weights += oracle_times(o, t->round) * size[i];
        if (bits > 0)
            l->buffers +=
                oracle_times(o, t->round) *
                (int64_t)((double)size[i] * 8 * buffer_bytes(o) / bits);
    }
}

/* "layers.17" of "layers.17.attn.q.weight" */
static size_t block_name(const char *name)
{
    size_t n = strcspn(name, ".");

    return name[n] ? n + 1 + strcspn(name + n + 1, ".") : n;
}

/* Gradients of the largest block of several weights, before they join the
 * buffers. */
static int64_t written(const struct oracle *o, int stage, const int64_t *size)
{
    const char *block = "";
    size_t same = 0;
    int64_t most = 0, sum_of = 0;
    int n = 0;

    if (!o->opt->framework || !o->opt->framework->dummy_gradients ||
        o->opt->gradient_bytes <= 2 || !(buffer_bytes(o) > 0))
        return 0;
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        size_t len = block_name(t->name);

        if (t->kind != PDL_PLAN_WEIGHT || t->stage != stage || t->ndims < 2)
            continue;
        if (len != same || strncmp(t->name, block, len) != 0)
            sum_of = n = 0;
        block = t->name;
        same = len;
        sum_of += size[i];
        most = ++n > 1 && sum_of > most ? sum_of : most;
    }
    return most;
}

/* Offload: what backward begins with comes back while the task before still
 * runs, where there is one. */
static int64_t fetched(const struct oracle *o, int stage, const int64_t *size)
{
    const struct pdl_plan_item *it =
        &o->p->items[o->p->stages[stage].first_backward];
    const struct pdl_plan_op *x = &o->p->ops[it->first_op];
    int64_t n = 0;

    if (!pdl_strategy_offloads(o->p->strategy))
        return 0;
    for (int k = 0; k < it->nops && x[k].kind == PDL_PLAN_OP_COPY_IN; k++)
        for (int j = 0; j < x[k].nout; j++)
            n += size[x[k].out[j]];
    return n;
}

/* The runtime's sends do not wait: what forward sent is there until its
 * gradient comes back, what backward sent until the update. */
static int64_t sent_by(const struct oracle *o, int first_item, int nitems,
                       const int64_t *size)
{
    int64_t n = 0;

    for (int i = first_item; o->pe.own && i < first_item + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *x =
                &o->p->ops[o->p->items[i].first_op + k];

            if (x->kind == PDL_PLAN_OP_SEND && x[1].kind == PDL_PLAN_OP_FREE)
                n += size[x->in[0]];
        }
    return n;
}

/* Samples of the next step, which a device of the runtime gets during this one:
 * two places of each, as readers give them (numbers of 32 bits), and one more
 * where they become numbers of 16 (src/train/exec/staging.c). */
static int64_t staged(const struct oracle *o, int tensor, int64_t rank)
{
    const struct pdl_plan_tensor *t = &o->p->tensors[tensor];
    int64_t n = pdl_plan_elements(o->p, tensor, rank);

    if (!o->pe.own || o->pe.core || o->opt->parameters == PDL_IDEAL)
        return 0;
    if (t->kind == PDL_PLAN_LABEL && t->ndims > 1)
        n /= t->dim[t->ndims >= 4 ? 1 : t->ndims - 1];
    return 4 * n * (2 * o->p->micro_batches + (t->dtype == PDL_BF16));
}

void oracle_live_passes(const struct oracle *o, int stage,
                        const struct stage_passes *x, int64_t rank,
                        const int64_t *size, struct stage_live *l)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct tally t = {.rank = rank, .size = size}; /* spans are differences */

    for (int i = 0; i < o->p->ntensors; i++) {
        l->input += o->p->tensors[i].kind == PDL_PLAN_INPUT ? size[i] : 0;
        l->label += o->p->tensors[i].kind == PDL_PLAN_LABEL ? size[i] : 0;
        if (o->p->tensors[i].stage == stage &&
            (o->p->tensors[i].kind == PDL_PLAN_INPUT ||
             o->p->tensors[i].kind == PDL_PLAN_LABEL))
            l->label += staged(o, i, rank);
    }
    for (int k = 0; k < PASSES; k++)
        for (int i = 0; i < x->parts[k]; i++)
            l->part[k][i] = walk(o, stage, x->item[k][i], x->items[k][i],
                                 k > PASS_FORWARD, &t);
    l->written = written(o, stage, size);
    l->ahead = fetched(o, stage, size);
    if (o->p->nstages > 1 && o->opt->parameters != PDL_IDEAL && !x->split) {
        l->sent[0] = sent_by(o, s->first_forward, s->nforward, size);
        l->sent[1] = sent_by(o, s->first_backward, s->nbackward, size);
    }
}

void oracle_live_update(const struct oracle *o, int stage, int64_t rank,
                        const int64_t *size, struct oracle_lived *l)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct tally t = {.rank = rank, .size = size};

    find_base(o, stage, size, l);
    l->update = walk(o, stage, s->first_update, s->nupdate, true, &t);
}

static bool blocks_choose(const struct pdl_strategy *s)
{
    for (int c = 0; c < s->nclauses; c++)
        if (s->clause[c].own_recompute)
            return true;
    return false;
}

bool oracle_find_again(struct oracle *o)
{
    bool *again = PDL_NEW(o->arena, bool, o->p->model->nnodes + 1);

    if (!again || !blocks_choose(o->p->strategy))
        return again != NULL;
    for (int s = 0; s < o->p->nstages; s++) {
        const struct pdl_plan_item *it =
            &o->p->items[o->p->stages[s].first_backward];

        for (int k = 0; k < it->nops; k++) {
            const struct pdl_plan_op *op = &o->p->ops[it->first_op + k];

            if (op->kind == PDL_PLAN_OP_COMPUTE && op->node >= 0 &&
                op->pass == PDL_FORWARD)
                again[op->node] = true;
        }
    }
    o->again = again;
    return true;
}
