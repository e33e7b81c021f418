/* SPDX-License-Identifier: Apache-2.0
 *
 * What eager PyTorch runs where the plan has one operation: pooling kernels
 * that count elements rather than bytes, a pass of its own for the bias of a
 * convolution and a sum for its gradient, a loss in 32 bits, and, in 16 bits,
 * the casts of autocast. Also batch normalisation in bf16 and of images
 * channels first (compute_batch_norm.c); activations in place whose backward
 * needs what they overwrite, which is copied before; kernels that broadcast or
 * read operands of different layout item by item; and what cutting an image
 * costs backward: cleared images, copies, and a sum of two layouts, as does the
 * gradient of a mean over the image. From kernels that a profile of
 * PyTorch 2.11 shows on an H200 (VGG-16, ResNet-18, ResNet-50 and AlexNet,
 * channels last; GPT-2 and Llama blocks; MobileNetV2, U-Net, EfficientNet-B0).
 * Element counts are in cycles of one multiprocessor, so that they follow the
 * units and the clock of another PE; nothing has tested them there. The numbers
 * are the framework's (frameworks/pytorch.yaml). */
#include "oracle/habit/habit.h"

#include <math.h>

/* Nodes of one block lie within so many of each other. */
enum { NEAR = 6 };

bool oracle_is_eager(const struct oracle *o)
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
               elements_per_s(o, o->opt->framework->pool_output +
                                     o->opt->framework->pool_tap * taps);
    return (double)pdl_plan_elements(o->p, f->in[0], rank) /
           elements_per_s(o, o->opt->framework->pool_input +
                                 o->opt->framework->pool_window * windows);
}

/* A product with one factor an image: a squeeze and excitation's scale.
 * Backward multiplies twice and sums. */
static double broadcast(const struct oracle *o, const struct pdl_plan_op *x,
                        int64_t rank)
{
    const struct pdl_plan_op *f = &o->p->ops[o->p->forward_op[x->node]];
    double y = (double)pdl_plan_elements(o->p, f->out[0], rank);

    if (f->nin < 2 || o->p->tensors[f->out[0]].ndims < 4 ||
        pdl_plan_elements(o->p, f->in[0], rank) ==
            pdl_plan_elements(o->p, f->in[1], rank))
        return 0;
    return (x->pass == PDL_FORWARD ? 1 : 2) * y /
           elements_per_s(o, o->opt->framework->broadcast);
}

double oracle_eager_floor(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_node *n = node_of(o, op);

    if (!oracle_is_eager(o) || !n || o->p->forward_op[o->p->ops[op].node] < 0)
        return 0;
    return pdl_op_id(n->op) == PDL_ID_MAX_POOL
               ? max_pool(o, n, &o->p->ops[op], rank)
           : pdl_op_id(n->op) == PDL_ID_MUL ? broadcast(o, &o->p->ops[op], rank)
                                            : 0;
}

bool oracle_eager_first(const struct oracle *o)
{
    return oracle_is_eager(o) && o->opt->framework->channels_first &&
           o->pe.item_bytes > 2 && !o->pe.core && o->pe.clock_hz > 0;
}

/* Of an image with its channels innermost, or channels first as volumes are. */
static double norm_kernel(const struct oracle *o, enum oracle_norm_kernel k,
                          const struct pdl_box *b)
{
    double c = (double)(b->hi[1] - b->lo[1]), n = (double)(b->hi[0] - b->lo[0]);
    double all = (double)pdl_box_volume(b);

    if (!(c > 0 && n > 0))
        return 0;
    return b->ndims == 4 && !oracle_eager_first(o)
               ? oracle_batch_norm(&o->pe, k, all / c, c)
               : oracle_volume_norm(&o->pe, k, n, all / (n * c), c);
}

/* PyTorch's own kernels are for bf16; other types go to cuDNN
 * (_select_batch_norm_backend of aten/src/ATen/native/Normalization.cpp). */
static bool is_own_norm(const struct oracle *o, const struct pdl_box *b)
{
    return b->ndims == 4 && o->pe.item_bytes <= 2 &&
           o->opt->precision != PDL_PREC_FP16;
}

double oracle_eager_norm(const struct oracle *o, int op, int64_t rank,
                         bool both)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = node_of(o, op);
    enum oracle_norm_kernel k =
        x->pass == PDL_BACKWARD_WEIGHTS ? ORACLE_NORM_SUMS
        : x->pass == PDL_BACKWARD_DATA  ? ORACLE_NORM_GRADIENT
        : x->part > 0                   ? ORACLE_NORM_APPLY
                                        : ORACLE_NORM_STATISTICS;
    struct pdl_box b;
    double t;

    if (!oracle_is_eager(o) || !n || x->nin < 1 || o->pe.core ||
        pdl_op_id(n->op) != PDL_ID_BATCH_NORM || !(o->pe.clock_hz > 0))
        return 0;
    pdl_plan_box(o->p, x->in[0], rank, &b);
    if (b.ndims != 5 && !oracle_eager_first(o) && !is_own_norm(o, &b))
        return 0;
    t = norm_kernel(o, k, &b);
    return t > 0 ? o->pe.launch_s + t +
                       (both ? norm_kernel(o, ORACLE_NORM_APPLY, &b) : 0)
                 : 0;
}

static bool is_crop(const struct pdl_node *n)
{
    return pdl_op_id(n->op) == PDL_ID_PAD &&
           (n->attr.pad[0] < 0 || n->attr.pad[1] < 0 || n->attr.pad[2] < 0);
}

bool oracle_eager_view(const struct oracle *o, int op)
{
    const struct pdl_node *n = node_of(o, op);

    return oracle_is_eager(o) && n && o->p->ops[op].pass == PDL_FORWARD &&
           is_crop(n);
}

/* Tokens, or an image whose blocks normalise pixel by pixel (ConvNeXt, Swin):
 * there, too, autocast keeps 32 bits between the products. */
static bool is_tokens(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int dims = x->nout > 0 ? o->p->tensors[x->out[0]].ndims : 0;

    if (dims != 4 || x->node < 0)
        return dims == 3;
    for (int i = x->node - NEAR; i <= x->node + NEAR; i++)
        if (i >= 0 && i < o->p->model->nnodes &&
            pdl_op_id(o->p->model->nodes[i].op) == PDL_ID_LAYER_NORM)
            return true;
    return false;
}

double oracle_eager_streams(const struct oracle *o, int op)
{
    const struct pdl_framework *f = o->opt->framework;
    double tokens = 0;

    if (!f || o->opt->compile)
        return 1;
    if (oracle_is_eager(o) && is_tokens(o, op))
        tokens = o->pe.item_bytes <= 2 ? f->token_streams16 : f->token_streams;
    if (tokens > 0)
        return tokens;
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
    return 2 * o->pe.launch_s +
           items * o->opt->framework->autocast_bytes / o->pe.bytes_per_s;
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
               items * o->pe.item_bytes /
                   (o->pe.bytes_per_s * o->opt->framework->bias_sum);
    return pdl_op_id(n->op) == PDL_ID_CONV
               ? o->pe.launch_s +
                     items / elements_per_s(o, o->opt->framework->bias_add)
               : 0; /* a matrix product adds it as it writes */
}

/* Does another node read what this one does? */
static bool is_shared(const struct oracle *o, const struct pdl_node *n)
{
    const struct pdl_model *m = o->p->model;
    int readers = 0;

    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            readers += m->nodes[i].in[k] == n->in[0];
    return readers > 1;
}

/* Two dimensions cut one after the other: each clears an image and copies into
 * it; what comes out lies by channels and is added to one that does not. */
static double uncrop(const struct oracle *o, const struct pdl_plan_op *x,
                     int64_t rank)
{
    double cut = (double)pdl_plan_elements(o->p, x->in[0], rank);
    double whole = (double)pdl_plan_elements(o->p, x->out[0], rank);

    return 3 * o->pe.launch_s +
           cut / elements_per_s(o, o->opt->framework->turn_copy) +
           whole / elements_per_s(o, o->opt->framework->turn_copy / 2 +
                                         o->opt->framework->turn_add) +
           2 * whole * o->pe.item_bytes / o->pe.bytes_per_s;
}

/* In place, but backward needs what was there. */
static bool is_copied(const struct oracle *o, const struct pdl_node *n,
                      const struct pdl_plan_op *x)
{
    return x->pass == PDL_FORWARD && x->nout > 0 &&
           o->p->tensors[x->out[0]].ndims > 3 &&
           (pdl_op_id(n->op) == PDL_ID_RELU6 ||
            pdl_op_id(n->op) == PDL_ID_SILU ||
            pdl_op_id(n->op) == PDL_ID_HARD_SWISH);
}

/* What images cost beside their operator's own kernel. */
static double of_images(const struct oracle *o, const struct pdl_node *n,
                        const struct pdl_plan_op *x, int64_t rank)
{
    if (x->nout < 1)
        return 0;
    if (is_copied(o, n, x))
        return o->pe.launch_s +
               2 * (double)pdl_plan_elements(o->p, x->out[0], rank) *
                   o->pe.item_bytes / o->pe.bytes_per_s;
    if (x->pass != PDL_BACKWARD_DATA)
        return 0;
    if (is_crop(n))
        return uncrop(o, x, rank);
    return pdl_op_id(n->op) == PDL_ID_GLOBAL_AVG_POOL && is_shared(o, n)
               ? (double)pdl_plan_elements(o->p, x->out[0], rank) /
                     elements_per_s(o, o->opt->framework->turn_add)
               : 0;
}

/* Encoders are PyTorch's own layers (nn.MultiheadAttention): tokens first, one
 * packed projection, taken apart and put together by copies, cleared tensors
 * and sums; 26 times the queries' elements a layer in profiles of ViT and BERT
 * in TF32. In 16 bits token_streams16 has them. */
static double heads(const struct oracle *o, const struct pdl_node *n,
                    const struct pdl_plan_op *x, int64_t rank)
{
    double q = (double)pdl_plan_elements(o->p, x->in[0], rank);

    if (n->attr.causal || o->pe.item_bytes <= 2 || o->opt->unfused)
        return 0;
    return q *
           (x->pass == PDL_FORWARD ? o->opt->framework->heads
                                   : o->opt->framework->heads_back) /
           elements_per_s(o, o->opt->framework->head_copy);
}

/* Beyond reading the logits and writing their gradient once. */
static double loss(const struct oracle *o, const struct pdl_plan_op *x,
                   int64_t rank)
{
    const struct pdl_framework *f = o->opt->framework;

    if (!f || o->opt->compile || o->opt->parameters == PDL_IDEAL)
        return 0;
    return (double)pdl_plan_elements(o->p, x->in[0], rank) * f->loss_bytes /
           o->pe.bytes_per_s;
}

double oracle_eager_more(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = node_of(o, op);

    if (x->part > 0 || x->nin < 1)
        return 0;
    if (!n)
        return loss(o, x, rank);
    if (!oracle_is_eager(o))
        return 0;
    if (pdl_op_id(n->op) == PDL_ID_ATTENTION)
        return heads(o, n, x, rank);
    if ((pdl_op_id(n->op) != PDL_ID_CONV &&
         pdl_op_id(n->op) != PDL_ID_LINEAR) ||
        o->p->forward_op[x->node] < 0)
        return of_images(o, n, x, rank);
    return casts(o, x, rank) + bias(o, n, x, rank);
}

int64_t oracle_eager_indices(const struct oracle *o,
                             const struct pdl_plan_op *x, int64_t rank)
{
    const struct pdl_plan_op *f;
    enum pdl_op_id id =
        x->node < 0 ? PDL_ID_OTHER : pdl_op_id(o->p->model->nodes[x->node].op);

    if (!oracle_is_eager(o) || x->kind != PDL_PLAN_OP_COMPUTE || x->node < 0 ||
        o->p->forward_op[x->node] < 0)
        return 0;
    if (id == PDL_ID_RELU6 && x->pass == PDL_FORWARD && x->nout > 0)
        return (int64_t)((double)pdl_plan_elements(o->p, x->out[0], rank) *
                         o->pe.item_bytes);
    if (id != PDL_ID_MAX_POOL)
        return 0;
    f = &o->p->ops[o->p->forward_op[x->node]];
    return pdl_plan_elements(o->p, f->out[0], rank) * (int64_t)sizeof(int64_t);
}

/* Beside its own call, in 16 bits a product casts its input and its bias, or
 * their gradients, and attention has its heads taken apart and put together
 * (GPT-2 medium with two samples and DeiT-S with 64, which the host paces). The
 * bias of a convolution is added, and its gradient summed, by a kernel of its
 * own, in 16 bits beside a cast; and what an activation overwrites is copied.
 * One kernel is a bit less than half a call. */
static int smaller_calls(const struct oracle *o, const struct pdl_node *n,
                         const struct pdl_plan_op *x)
{
    bool narrow = o->pe.item_bytes <= 2;
    int kernel = ORACLE_CALL * 9 / 20;

    if (!n || !oracle_is_eager(o))
        return 0;
    if (pdl_op_id(n->op) == PDL_ID_CONV)
        return n->attr.no_bias ? 0 : narrow ? 2 * kernel : kernel;
    if (is_copied(o, n, x))
        return kernel;
    if (!narrow)
        return 0;
    return pdl_op_id(n->op) == PDL_ID_LINEAR      ? ORACLE_CALL / 2
           : pdl_op_id(n->op) == PDL_ID_ATTENTION ? ORACLE_CALL
                                                  : 0;
}

/* Both gradients of an operator are one call; parts of a concatenation are
 * views. Gradients that meet are added by the engine itself, without the
 * interpreter and without a node of their own: a quarter of a call
 * (DenseNet-121's 477 of them; the one network that tells). A compiled network
 * has no fewer calls here: GPT-2 medium with two samples, which the host paces,
 * took 24 % less than eager. */
int oracle_issued(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = node_of(o, op);

    if (!o->opt->framework || !o->opt->framework->torch)
        return ORACLE_CALL;
    if (oracle_steps_issued(o, op) > 0)
        return oracle_steps_issued(o, op);
    if (x->kind == PDL_PLAN_OP_ADD)
        return ORACLE_CALL / 4;
    return x->kind != PDL_PLAN_OP_SLICE && x->pass != PDL_BACKWARD_WEIGHTS &&
                   !(n && x->pass != PDL_FORWARD &&
                     pdl_op_id(n->op) == PDL_ID_CONCAT)
               ? ORACLE_CALL + smaller_calls(o, n, x)
               : 0;
}

double oracle_eager_update(const struct oracle *o)
{
    /* p += g; with momentum m = m * mu, m += g, p += m: a kernel each */
    return oracle_is_eager(o) && o->opt->optimizer_slots < 2
               ? 12 + 20.0 * o->opt->optimizer_slots
               : 0;
}
