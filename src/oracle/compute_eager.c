/* SPDX-License-Identifier: Apache-2.0
 *
 * What eager PyTorch runs where the plan has one operation: pooling kernels
 * that count elements rather than bytes, a pass of its own for the bias of a
 * convolution and a sum for its gradient, a loss in 32 bits, and, in 16 bits,
 * the casts of autocast. From kernels that a profile of PyTorch 2.11 shows on
 * an H200 (VGG-16, ResNet-18, ResNet-50 and AlexNet, channels last; GPT-2 and
 * Llama blocks). Element counts are in cycles of one multiprocessor, so that
 * they follow the units and the clock of another PE; nothing has tested them
 * there. */
#include "oracle_priv.h"

#include <math.h>
#include <string.h>

/* Cycles of max pooling: forward for an output and each of its taps, backward
 * for an input and each window it lies in (two sizes of windows seen). */
static const double POOL_OUTPUT = 2.2, POOL_TAP = .22;
static const double POOL_INPUT = .44, POOL_WINDOW = .84;
static const double BIAS_CYCLES = .73; /* one element, forward */
static const double BIAS_SUM = .45;    /* of the streaming rate, backward */
static const double CAST_BYTES = 6;    /* 32 bits to 16 or back */
/* Of one logit, beyond reading it and writing its gradient once: 32-bit
 * logarithms written and read, a cleared and a read 32-bit gradient. */
static const double LOGIT_BYTES = 16;
/* 16 bits: what tokens pass through between products is 32 bits wide, and
 * each operator is a kernel or two: four times the bytes of the plan. */
static const double TOKENS16 = 4, TOKENS = 2;

static bool is_torch(const struct oracle *o)
{
    return o->opt->framework && o->opt->framework->torch && !o->opt->compile &&
           o->opt->parameters != PDL_IDEAL;
}

static double elements_per_s(const struct oracle *o, double cycles)
{
    double clock = o->sys->pe.clock_hz;

    return clock > 0 ? o->pe.units * clock / cycles : INFINITY;
}

static const struct pdl_node *node_of(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 ? &o->p->model->nodes[node] : NULL;
}

static double max_pool(const struct oracle *o, const struct pdl_node *n,
                       const struct pdl_plan_op *x, int64_t rank)
{
    const struct pdl_plan_op *f = &o->p->ops[o->p->forward_op[x->node]];
    double taps = 1, windows = 1;

    for (int d = 0; d < o->p->tensors[f->in[0]].ndims - 2; d++) {
        taps *= (double)n->attr.kernel[d];
        windows *= (double)n->attr.kernel[d] / (double)n->attr.stride[d];
    }
    if (x->pass == PDL_FORWARD)
        return (double)pdl_plan_elements(o->p, f->out[0], rank) /
               elements_per_s(o, POOL_OUTPUT + POOL_TAP * taps);
    return (double)pdl_plan_elements(o->p, f->in[0], rank) /
           elements_per_s(o, POOL_INPUT + POOL_WINDOW * windows);
}

double oracle_eager_floor(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_node *n = node_of(o, op);

    return is_torch(o) && n && strcmp(n->op->name, "max_pool") == 0 &&
                   o->p->forward_op[o->p->ops[op].node] >= 0
               ? max_pool(o, n, &o->p->ops[op], rank)
               : 0;
}

double oracle_eager_streams(const struct oracle *o, int op)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_op *x = &o->p->ops[op];

    if (!f || o->opt->compile)
        return 1;
    if (is_torch(o) && x->nout > 0 && o->p->tensors[x->out[0]].ndims == 3)
        return o->pe.item_bytes <= 2 ? TOKENS16 : TOKENS;
    return f->eager > 0 ? f->eager : 1;
}

/* A weight as the products read it, and its gradient as the optimizer does. */
static double casts(const struct oracle *o, const struct pdl_plan_op *x,
                    int64_t rank)
{
    double items = 0;
    int first = x->pass == PDL_FORWARD ? 0 : x->nin;

    if (o->pe.item_bytes > 2 || x->pass == PDL_BACKWARD_DATA)
        return 0;
    for (int k = first; k < x->nin + x->nout; k++) {
        int t = k < x->nin ? x->in[k] : x->out[k - x->nin];

        if (o->p->tensors[t].kind == PDL_PLAN_WEIGHT ||
            x->pass == PDL_BACKWARD_WEIGHTS)
            items += (double)pdl_plan_elements(o->p, t, rank);
    }
    return 2 * o->pe.launch_s + items * CAST_BYTES / o->pe.bytes_per_s;
}

static double bias(const struct oracle *o, const struct pdl_node *n,
                   const struct pdl_plan_op *x, int64_t rank)
{
    const struct pdl_plan_op *f = &o->p->ops[o->p->forward_op[x->node]];
    double items = (double)pdl_plan_elements(o->p, f->out[0], rank);

    if (n->attr.no_bias || x->pass == PDL_BACKWARD_DATA)
        return 0;
    if (x->pass == PDL_BACKWARD_WEIGHTS)
        return o->pe.launch_s +
               items * o->pe.item_bytes / (o->pe.bytes_per_s * BIAS_SUM);
    return strcmp(n->op->name, "conv") == 0
               ? o->pe.launch_s + items / elements_per_s(o, BIAS_CYCLES)
               : 0; /* a matrix product adds it as it writes */
}

double oracle_eager_more(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = node_of(o, op);

    if (!is_torch(o) || x->part > 0 || x->nin < 1)
        return 0;
    if (!n) /* the loss */
        return (double)pdl_plan_elements(o->p, x->in[0], rank) * LOGIT_BYTES /
               o->pe.bytes_per_s;
    if ((strcmp(n->op->name, "conv") != 0 &&
         strcmp(n->op->name, "linear") != 0) ||
        o->p->forward_op[x->node] < 0)
        return 0;
    return casts(o, x, rank) + bias(o, n, x, rank);
}

int64_t oracle_eager_indices(const struct oracle *o,
                             const struct pdl_plan_op *x, int64_t rank)
{
    const struct pdl_plan_op *f;

    if (!is_torch(o) || x->kind != PDL_PLAN_OP_COMPUTE || x->node < 0 ||
        strcmp(o->p->model->nodes[x->node].op->name, "max_pool") != 0 ||
        o->p->forward_op[x->node] < 0)
        return 0;
    f = &o->p->ops[o->p->forward_op[x->node]];
    return pdl_plan_elements(o->p, f->out[0], rank) * (int64_t)sizeof(int64_t);
}

int oracle_eager_gradient(const struct oracle *o)
{
    return is_torch(o) ? 4 : 0;
}

/* Both gradients of an operator are one call; parts of a concatenation are
 * views. */
bool oracle_issued(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = node_of(o, op);

    return !is_torch(o) ||
           (x->kind != PDL_PLAN_OP_SLICE && x->pass != PDL_BACKWARD_WEIGHTS &&
            !(n && x->pass != PDL_FORWARD &&
              strcmp(n->op->name, "concat") == 0));
}

double oracle_eager_update(const struct oracle *o)
{
    /* p += g; with momentum m = m * mu, m += g, p += m: a kernel each */
    return is_torch(o) && o->opt->optimizer_slots < 2
               ? 12 + 20.0 * o->opt->optimizer_slots
               : 0;
}
