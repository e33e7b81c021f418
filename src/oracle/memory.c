/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from lifetimes: what is live at the worst operation of the worst
 * rank. Weights and optimizer state live for ever, a gradient of a weight
 * until its update, everything else until the plan frees it. Weights of 16 bits
 * have a 32-bit copy beside the optimizer's slots. What frameworks keep besides
 * (gradient buffers, scores of attention, masks, 32-bit logits) is their habit
 * or the job's option. memory=paper is memory_paper.c. */
#include "oracle_priv.h"

#include <string.h>

struct tally {
    int64_t state; /* bytes that the optimizer keeps for what it updates */
    int64_t extra; /* what no tensor of the plan stands for, at this moment */
    int64_t rank;
    const int64_t *size; /* bytes of each tensor on this rank */
    int64_t live[8];     /* by enum pdl_plan_kind */
};

static int64_t size_of(const struct oracle *o, int t, int64_t rank)
{
    return oracle_bytes(o, t, rank);
}

static int64_t sum(const struct tally *t)
{
    int64_t n = 0;

    for (int k = 0; k < 8; k++)
        n += t->live[k];
    return n;
}

static bool in_stage(const struct oracle *o, int t, int stage)
{
    return o->p->tensors[t].stage == stage;
}

static void note(const struct tally *t, struct pdl_projection *out)
{
    int64_t weights = t->live[PDL_PLAN_WEIGHT];
    int64_t all = sum(t) + t->state + t->extra;

    if (all <= out->allocated_bytes)
        return;
    out->allocated_bytes = all;
    out->weights_bytes = weights;
    out->optimizer_bytes = t->state;
    out->gradients_bytes = t->live[PDL_PLAN_WEIGHT_GRADIENT];
    out->activations_bytes = all - weights - t->state - out->gradients_bytes;
}

/* Weights are there all the time: an update or a gather only renews them. */
static bool is_kept(const struct oracle *o, int t)
{
    return o->p->tensors[t].kind == PDL_PLAN_WEIGHT ||
           o->p->tensors[t].kind == PDL_PLAN_STATE;
}

/* ---- what no tensor of the plan stands for ----------------------------------- */

/* Bytes for one weight in buffers of gradients; 0: the plan's own. */
static double buffer_bytes(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    if (!f || o->opt->parameters == PDL_IDEAL || o->p->strategy->zero == 3)
        return 0;
    return o->opt->gradient_bytes > 2 ? f->gradient_bytes32 : f->gradient_bytes;
}

static int64_t gradient_size(const struct oracle *o, int t, int64_t bytes)
{
    int own = pdl_dtype_bits(o->p->tensors[t].dtype) / 8;

    if (buffer_bytes(o) > 0)
        return 0;
    return o->opt->gradient_bytes > 0 && own > 0
               ? bytes / own * o->opt->gradient_bytes
               : bytes;
}

static const char *node_op(const struct oracle *o, const struct pdl_plan_op *op)
{
    return op->node >= 0 ? o->p->model->nodes[op->node].op->name : "";
}

/* Scores that attention stores for backward. */
static int64_t scores(const struct oracle *o, const struct pdl_plan_op *op,
                      int64_t rank)
{
    struct pdl_shape s = {.kind = PDL_SHAPE_ATTENTION};

    if (!o->opt->unfused || op->kind != PDL_PLAN_OP_COMPUTE ||
        strcmp(node_op(o, op), "attention") != 0 ||
        !oracle_attention_shape(o, op->node, rank, &s))
        return 0;
    return (int64_t)((double)(s.n * s.groups * s.in[0] * s.out[0]) *
                     oracle_score_bytes(o));
}

/* The loss of 16-bit logits is computed in more. */
static int64_t logits(const struct oracle *o, const struct pdl_plan_op *op,
                      const int64_t *size)
{
    const struct pdl_framework *f = o->opt->framework;

    if (!f || op->kind != PDL_PLAN_OP_COMPUTE || op->node >= 0 || op->nin < 1)
        return 0;
    return (int64_t)((double)size[op->in[0]] / 2 * f->logit_bytes);
}

static bool recomputes_attention(const struct oracle *o)
{
    return o->p->strategy->recompute == PDL_RECOMPUTE_SELECTIVE ||
           o->p->strategy->recompute == PDL_RECOMPUTE_FULL;
}

/* Before and after an operation: scores stay from the forward operation that
 * backward uses to backward itself. */
static void begin_extra(const struct oracle *o, const struct pdl_plan_op *op,
                        bool back, struct tally *t)
{
    int64_t n = scores(o, op, t->rank);

    t->extra = logits(o, op, t->size);
    if (op->pass == PDL_FORWARD && !back && recomputes_attention(o))
        t->extra += n;
    else if (op->pass == PDL_FORWARD)
        t->live[PDL_PLAN_ACTIVATION] += n;
    if (op->pass == PDL_FORWARD && !back && o->opt->dropout > 0 &&
        o->p->strategy->recompute != PDL_RECOMPUTE_FULL &&
        op->kind == PDL_PLAN_OP_COMPUTE && strcmp(node_op(o, op), "add") == 0)
        t->live[PDL_PLAN_ACTIVATION] += t->size[op->out[0]] / 2; /* mask */
}

static void end_extra(const struct oracle *o, const struct pdl_plan_op *op,
                      struct tally *t)
{
    t->extra = 0;
    if (op->pass == PDL_BACKWARD_DATA)
        t->live[PDL_PLAN_ACTIVATION] -= scores(o, op, t->rank);
}

static void make(const struct oracle *o, const struct pdl_plan_op *op,
                 int stage, struct tally *t)
{
    for (int j = 0; j < op->nout; j++) {
        int x = op->out[j];
        enum pdl_plan_kind kind = o->p->tensors[x].kind;

        if (!in_stage(o, x, stage) || is_kept(o, x))
            continue;
        t->live[kind] += kind == PDL_PLAN_WEIGHT_GRADIENT
                             ? gradient_size(o, x, t->size[x])
                             : t->size[x];
    }
}

static void drop(const struct oracle *o, const struct pdl_plan_op *op,
                 struct tally *t)
{
    for (int j = 0; j < op->nin; j++) {
        int x = op->in[j];
        enum pdl_plan_kind kind = o->p->tensors[x].kind;

        t->live[kind] -= kind == PDL_PLAN_WEIGHT_GRADIENT
                             ? gradient_size(o, x, t->size[x])
                             : t->size[x];
    }
}

static void walk(const struct oracle *o, int stage, int first_item, int nitems,
                 bool back, struct tally *t, struct pdl_projection *out)
{
    for (int i = first_item; i < first_item + nitems; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *op =
                &o->p->ops[o->p->items[i].first_op + k];

            make(o, op, stage, t);
            begin_extra(o, op, back, t);
            note(t, out);
            end_extra(o, op, t);
            if (op->kind == PDL_PLAN_OP_FREE)
                drop(o, op, t);
        }
}

/* Optimizer state goes with what the rank updates: its weights, or with ZeRO
 * its parts of them. */
static int64_t state_of(const struct oracle *o, const struct pdl_plan_stage *s,
                        const int64_t *size)
{
    int64_t n = 0, slots = o->opt->optimizer_slots;

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            const struct pdl_plan_op *op =
                &o->p->ops[o->p->items[i].first_op + k];

            for (int j = 0; op->kind == PDL_PLAN_OP_UPDATE && j < op->nout;
                 j++) {
                int bits = pdl_dtype_bits(o->p->tensors[op->out[j]].dtype);

                n += bits == 16 && o->opt->parameters != PDL_IDEAL
                         ? size[op->out[j]] * 2 * (slots + 1)
                         : size[op->out[j]] * slots;
            }
        }
    return n;
}

/* What stays while other stages of the lane run. */
struct held {
    int64_t saved, gradients;
};

static struct tally start_tally(const struct oracle *o, int lane, int64_t rank,
                                const int64_t *size)
{
    struct tally t = {.size = size, .rank = rank};

    for (int i = 0; i < o->p->ntensors; i++) {
        enum pdl_plan_kind k = o->p->tensors[i].kind;

        if (o->p->tensors[i].stage % o->p->lanes == lane &&
            (k == PDL_PLAN_WEIGHT || k == PDL_PLAN_INPUT ||
             k == PDL_PLAN_LABEL))
            t.live[k] += size[i];
        if (o->p->tensors[i].stage % o->p->lanes == lane &&
            k == PDL_PLAN_WEIGHT && pdl_dtype_bits(o->p->tensors[i].dtype) > 0)
            t.live[PDL_PLAN_WEIGHT_GRADIENT] +=
                (int64_t)((double)size[i] * 8 * buffer_bytes(o) /
                          pdl_dtype_bits(o->p->tensors[i].dtype));
    }
    for (int s = lane; s < o->p->nstages; s += o->p->lanes)
        t.state += state_of(o, &o->p->stages[s], size);
    return t;
}

/* "layers.17" of "layers.17.attn.q.weight" */
static size_t block_name(const char *name)
{
    size_t n = strcspn(name, ".");

    return name[n] ? n + 1 + strcspn(name + n + 1, ".") : n;
}

/* Gradients of the largest block of several weights, before they join the
 * buffers. */
static int64_t dummy_bytes(const struct oracle *o, int stage,
                           const int64_t *size)
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

/* One stage of the lane, the others holding what they hold. */
static struct held walk_stage(const struct oracle *o, int stage,
                              const struct tally *start,
                              const struct held *others,
                              struct pdl_projection *out)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct tally t = *start;
    int64_t before = t.live[PDL_PLAN_ACTIVATION] + t.live[PDL_PLAN_STATISTIC];
    int64_t buffers = t.live[PDL_PLAN_WEIGHT_GRADIENT];
    int64_t written = dummy_bytes(o, stage, t.size);
    struct held mine;

    t.live[PDL_PLAN_ACTIVATION] += others->saved;
    t.live[PDL_PLAN_WEIGHT_GRADIENT] += others->gradients;
    walk(o, stage, s->first_forward, s->nforward, false, &t, out);
    mine.saved = t.live[PDL_PLAN_ACTIVATION] + t.live[PDL_PLAN_STATISTIC] -
                 before - others->saved + t.live[PDL_PLAN_INPUT];
    t.live[PDL_PLAN_ACTIVATION] +=
        mine.saved * (oracle_in_flight(o, stage) - 1);
    t.live[PDL_PLAN_WEIGHT_GRADIENT] += written;
    walk(o, stage, s->first_backward, s->nbackward, true, &t, out);
    t.live[PDL_PLAN_WEIGHT_GRADIENT] -= written;
    mine.gradients =
        t.live[PDL_PLAN_WEIGHT_GRADIENT] - others->gradients - buffers;
    walk(o, stage, s->first_update, s->nupdate, true, &t, out);
    mine.saved *= oracle_in_flight(o, stage);
    return mine;
}

static void by_lifetimes(const struct oracle *o, int lane, int64_t rank,
                         const int64_t *size, struct pdl_projection *out)
{
    struct pdl_projection ignored = {.allocated_bytes = INT64_MAX};
    struct held nothing = {0, 0}, all = {0, 0}, one[ORACLE_MAX_STAGES];
    struct tally start = start_tally(o, lane, rank, size);
    int n = o->p->nstages / o->p->lanes;

    if (n == 1) {
        walk_stage(o, lane, &start, &nothing, out);
        return;
    }
    for (int k = 0; k < n; k++) {
        one[k] =
            walk_stage(o, lane + k * o->p->lanes, &start, &nothing, &ignored);
        all.saved += one[k].saved;
        all.gradients += one[k].gradients;
    }
    for (int k = 0; k < n; k++) {
        struct held others = {all.saved - one[k].saved,
                              all.gradients - one[k].gradients};

        walk_stage(o, lane + k * o->p->lanes, &start, &others, out);
    }
}

/* ---- all ranks ---------------------------------------------------------------- */

/* Values that a fused kernel makes again for backward: the activation inside
 * a gated feed-forward. */
static bool *find_inside(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_model *m = o->p->model;
    bool *inside = PDL_NEW(o->arena, bool, m->ntensors + 1);

    for (int i = 0; inside && f && f->fused && i + 1 < m->nnodes; i++)
        if (strcmp(m->nodes[i].op->name, "silu") == 0 &&
            strcmp(m->nodes[i + 1].op->name, "mul") == 0)
            inside[m->nodes[i].out[0]] = true;
    return inside;
}

static void sizes(const struct oracle *o, int stage, int64_t rank,
                  const bool *inside, int64_t *size)
{
    for (int i = 0; i < o->p->ntensors; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        bool mine = t->stage % o->p->lanes == stage % o->p->lanes;
        bool again = t->kind == PDL_PLAN_ACTIVATION && t->model_tensor >= 0 &&
                     inside[t->model_tensor];

        size[i] = mine && !again ? size_of(o, i, rank) : 0;
    }
}

/* What the allocator reserves, and what the device holds beside it. */
static void fill_device(const struct oracle *o, struct pdl_projection *out)
{
    const struct pdl_framework *f =
        o->opt->parameters == PDL_IDEAL ? NULL : o->opt->framework;

    out->reserved_bytes = out->allocated_bytes;
    if (f)
        out->reserved_bytes +=
            (int64_t)((double)out->activations_bytes * f->fragments);
    out->peak_bytes = out->reserved_bytes + (f ? (int64_t)f->context_bytes : 0);
}

bool oracle_memory(const struct oracle *o, struct pdl_projection *out)
{
    int most = o->p->ntensors > o->p->model->ntensors ? o->p->ntensors
                                                      : o->p->model->ntensors;
    int64_t *size = PDL_NEW(o->arena, int64_t, most + 1);
    const bool *inside = find_inside(o);
    struct oracle_ranks r;

    if (!size || !inside)
        return false;
    for (int s = 0; s < o->p->nstages; s++) {
        oracle_find_ranks(o, s, &r);
        for (int i = 0; i < r.n; i++) {
            if (r.like[i] != i)
                continue;
            if (o->p->strategy->memory_paper) {
                oracle_memory_paper(o, s, r.rank[i], size, out);
            } else if (s < o->p->lanes) {
                sizes(o, s, r.rank[i], inside, size);
                by_lifetimes(o, s, r.rank[i], size, out);
            }
        }
    }
    oracle_find_ranks(o, 0, &r);
    out->workspace_bytes = oracle_workspace(o, r.n > 0 ? r.rank[0] : 0);
    out->allocated_bytes += out->workspace_bytes;
    fill_device(o, out);
    out->capacity_bytes =
        (int64_t)((double)o->sys->pe.memory_bytes *
                  (o->sys->pe.memory_usable > 0 ? o->sys->pe.memory_usable
                                                : 1));
    return true;
}
