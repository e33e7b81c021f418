/* SPDX-License-Identifier: Apache-2.0
 *
 * What TensorFlow runs where the plan has one operation. Counted from sources,
 * not profiled and not fitted:
 *
 *   - transformers as NVIDIA's and the official models write them
 *     (DeepLearningExamples TensorFlow2/LanguageModeling/BERT, transformer.py,
 *     attention.py, gelu.py): sums, layer norms and GELU of a 16-bit network
 *     are computed in 32 bits between casts; queries, keys, values and contexts
 *     are turned by passes of their own; a layer norm with so small an epsilon
 *     is no fused kernel (keras LayerNormalization) but mean, squared
 *     difference, mean, and a chain of products;
 *   - 32-bit variables are cast for each use in 16 bits, gradients cast back;
 *   - dropout draws a tensor of random numbers first: auto-clustering leaves
 *     stateful random operators out (mark_for_compilation_pass.cc), so it is
 *     written and read even where XLA compiles what uses it;
 *   - XLA (`compile`) fuses chains of element-wise operators, but reductions
 *     end a chain: a layer norm reads its input for the mean, for the variance
 *     and to apply them; and what is expensive is computed once and kept
 *     (instruction_fusion.cc: tanh of GELU). After a normalisation or a
 *     convolution ReLU and sums are part of its kernel (batch norms are
 *     expanded into reductions; conv_bias_activation). Gradients of biases are
 *     reductions of their own;
 *   - without XLA every operator of these chains is a kernel;
 *   - XLA lays images of 32 bits channels first (gpu_layout_assignment.cc);
 *     depthwise convolutions are then taken to cost what PyTorch's kernels for
 *     that order do, which it prefers to the library's that XLA calls.
 *
 * Bytes are of one element of the operator's output. Not modelled: the host's
 * pace, the input pipeline, passes that change a layout. */
#include "oracle/habit/habit.h"

enum { WIDE = 4 };

/* By width (16 bits, 32), and by operator or compiled. */
static const struct chain {
    enum pdl_op_id op;
    enum pdl_pass pass;
    double bytes[2][2], dropout[2][2]; /* the latter beside them */
    int kernels[2];
} chains[] = {
    {PDL_ID_LAYER_NORM, PDL_FORWARD, {{62, 17}, {60, 16}}, {{0}}, {8, 3}},
    {PDL_ID_LAYER_NORM,
     PDL_BACKWARD_DATA,
     {{122, 30}, {120, 28}},
     {{0}},
     {16, 4}},
    {PDL_ID_LAYER_NORM,
     PDL_BACKWARD_WEIGHTS,
     {{24, 8}, {24, 8}},
     {{0}},
     {4, 1}},
    {PDL_ID_GELU, PDL_FORWARD, {{84, 14}, {72, 20}}, {{0}}, {10, 2}},
    {PDL_ID_GELU, PDL_BACKWARD_DATA, {{116, 10}, {104, 16}}, {{0}}, {13, 1}},
    {PDL_ID_ADD, PDL_FORWARD, {{28, 9}, {20, 12}}, {{18, 4}, {34, 8}}, {3, 1}},
};

static bool is_graph(const struct oracle *o)
{
    return o->opt->framework && o->opt->framework->graph &&
           o->opt->parameters != PDL_IDEAL;
}

static bool is_tokens(const struct oracle *o, const struct pdl_plan_op *x)
{
    return x->nin > 0 && o->p->tensors[x->in[0]].ndims == 3;
}

double oracle_graph(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int wide = o->pe.item_bytes > 2, compiled = o->opt->compile;

    if (!is_graph(o) || !is_tokens(o, x) || x->part > 0)
        return -1;
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        const struct chain *c = &chains[i];
        double bytes = c->bytes[wide][compiled];

        if (c->pass != x->pass || c->op != oracle_op_id(o, op))
            continue;
        if (o->opt->dropout > 0)
            bytes += c->dropout[wide][compiled];
        return c->kernels[compiled] * o->pe.launch_s +
               bytes * (double)pdl_plan_elements(o->p, x->in[0], rank) /
                   o->pe.bytes_per_s;
    }
    return -1;
}

static double weights_of(const struct oracle *o, const struct pdl_plan_op *f,
                         int64_t rank)
{
    double n = 0;

    for (int k = 0; k < f->nin; k++)
        if (o->p->tensors[f->in[k]].kind == PDL_PLAN_WEIGHT)
            n += (double)pdl_plan_elements(o->p, f->in[k], rank);
    return n;
}

/* Casts of the weights and of their gradients; the bias, and its gradient. */
static double of_product(const struct oracle *o, const struct pdl_plan_op *x,
                         const struct pdl_plan_op *f, int64_t rank)
{
    const struct pdl_node *n = &o->p->model->nodes[x->node];
    double y = (double)pdl_plan_elements(o->p, f->out[0], rank);
    double w = o->pe.item_bytes, bytes = 0;

    if (x->pass == PDL_BACKWARD_DATA)
        return 0;
    if (w <= 2)
        bytes += (w + WIDE) * weights_of(o, f, rank);
    if (!n->attr.no_bias && x->pass == PDL_BACKWARD_WEIGHTS)
        bytes += w * y;
    else if (!n->attr.no_bias && !o->opt->compile)
        bytes += 2 * w * y;
    return (bytes > 0 ? o->pe.launch_s : 0) + bytes / o->pe.bytes_per_s;
}

double oracle_graph_more(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;
    enum pdl_op_id id = oracle_op_id(o, op);

    if (!is_graph(o) || x->node < 0 || x->part > 0 ||
        o->p->forward_op[x->node] < 0)
        return 0;
    f = &o->p->ops[o->p->forward_op[x->node]];
    if (id == PDL_ID_CONV || id == PDL_ID_LINEAR)
        return of_product(o, x, f, rank);
    if (id != PDL_ID_ATTENTION || f->nin < 1)
        return 0;
    return 4 * (o->pe.launch_s +
                2 * o->pe.item_bytes *
                    (double)pdl_plan_elements(o->p, f->in[0], rank) /
                    o->pe.bytes_per_s);
}

bool oracle_graph_first(const struct oracle *o)
{
    return is_graph(o) && o->pe.item_bytes > 2 && !o->pe.core &&
           o->pe.clock_hz > 0;
}

static bool has_norm(const struct oracle *o)
{
    for (int i = 0; i < o->p->model->nnodes; i++)
        if (pdl_op_id(o->p->model->nodes[i].op) == PDL_ID_BATCH_NORM)
            return true;
    return false;
}

/* Backward there is something before it to be part of only after a norm. */
bool oracle_graph_fuses(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    enum pdl_op_id id = oracle_op_id(o, op);

    if (!is_graph(o) || !o->opt->compile || x->nout < 1 ||
        o->p->tensors[x->out[0]].ndims < 4 ||
        (x->pass != PDL_FORWARD && !has_norm(o)))
        return false;
    return id == PDL_ID_RELU || id == PDL_ID_RELU6 || id == PDL_ID_SILU ||
           id == PDL_ID_ADD;
}

/* Horovod's thread looks for tensors that are ready once a cycle: half of one
 * goes by before each exchange; they are copied into one buffer and back. */
double oracle_graph_cycle(const struct oracle *o, double bytes)
{
    const struct pdl_framework *f = o->opt->framework;

    if (!is_graph(o) || !(f->cycle_s > 0))
        return 0;
    return f->cycle_s / 2 + 4 * bytes / o->pe.bytes_per_s;
}
