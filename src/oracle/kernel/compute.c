/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a local operation. Ideal: FLOPs at the peak, operators without
 * FLOPs by the bytes of their activations, both proportional to the samples:
 * the closed forms of the papers. Empirical: the kernel of the local shape
 * (compute_gemm.c, compute_conv.c, compute_attention.c), operators without a
 * contraction by the bytes they stream, plus the launch. The weight update
 * reads and writes weight, gradient and optimizer state at memory bandwidth
 * in both. */
#include "oracle/oracle_priv.h"

#include <string.h>

/* Used where the system gives no measured value. */
static const double GUESS_MATMUL = 0.7, GUESS_MEMORY = 0.8;
static const double GUESS_LAUNCH_S = 5e-6;
/* Products of one operand lie within so many nodes. */
enum { NEAR = 6 };
static const double GUESS_CONV = 1, GUESS_CONV_WEIGHTS_TF32 = .6;

static double or_guess(double x, double guess)
{
    return x > 0 ? x : guess;
}

static double peak_of(const struct pdl_pe *pe, enum pdl_precision p)
{
    return pe->peak_flop_per_s[p] > 0 ? pe->peak_flop_per_s[p]
                                      : pe->peak_flop_per_s[PDL_PREC_FP32];
}

void oracle_pe_settle(const struct pdl_pe *pe, enum pdl_precision p,
                      struct oracle_pe *out)
{
    struct pdl_kernels k = pe->kernels;
    double bytes = pdl_precision_bytes(p);
    double conv = or_guess(k.conv_forward[p], GUESS_CONV);

    k.conv_tile_s = or_guess(k.conv_tile_s, 2.4e-6);
    k.matmul_tile_s = or_guess(k.matmul_tile_s, .5e-6);
    k.conv_epilogue = or_guess(k.conv_epilogue, .14);
    k.matmul_epilogue = or_guess(k.matmul_epilogue, .63);
    k.tile_fill = or_guess(k.tile_fill, .5);
    k.vector_tile = or_guess(k.vector_tile, 128);
    k.pad_cost = or_guess(k.pad_cost, 4);
    k.attention_forward = or_guess(k.attention_forward, .65);
    k.attention_backward = or_guess(k.attention_backward, .57);
    *out = (struct oracle_pe){
        .peak = peak_of(pe, p),
        .rate =
            or_guess(pe->matmul_flop_per_s[p], peak_of(pe, p) * GUESS_MATMUL),
        .vector_rate =
            or_guess(pe->peak_flop_per_s[PDL_PREC_FP32], peak_of(pe, p)),
        .bytes_per_s = pe->memory_bytes_per_s *
                       (pe->memory_efficiency > 0 && pe->memory_efficiency < 1
                            ? pe->memory_efficiency
                            : GUESS_MEMORY),
        .item_bytes = bytes < 1 ? 1 : bytes,
        .units = pe->units > 0 ? (double)pe->units : 1,
        .launch_s = or_guess(pe->launch_s, GUESS_LAUNCH_S),
        .conv = {conv, or_guess(k.conv_data[p], conv),
                 or_guess(k.conv_weights[p],
                          p == PDL_PREC_TF32 ? GUESS_CONV_WEIGHTS_TF32 : conv)},
        .batch_norm_forward = or_guess(k.batch_norm_forward[p], 1),
        .batch_norm_backward = or_guess(k.batch_norm_backward[p], 1),
        .layer_norm_forward = or_guess(k.layer_norm_forward[p], 1),
        .l2_bytes = (double)pe->l2_bytes,
        .clock_hz = pe->clock_hz,
        .vector = p == PDL_PREC_FP32 || p == PDL_PREC_FP64,
        .core = pe->arch && strcmp(pe->arch, "cpu") == 0,
        .k = k,
    };
}

double oracle_shape(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    switch (s->kind) {
    case PDL_SHAPE_MATMUL:
        return oracle_matmul(pe, s);
    case PDL_SHAPE_CONV:
        return oracle_conv(pe, s);
    case PDL_SHAPE_ATTENTION:
        return oracle_attention(pe, s);
    case PDL_SHAPE_BATCH_NORM:
    case PDL_SHAPE_LAYER_NORM:
        return oracle_norm(pe, s);
    case PDL_SHAPE_STREAM:
        break;
    }
    return s->bytes > 0 ? pe->launch_s + oracle_stream(pe, s->bytes) : 0;
}

double pdl_shape_seconds(const struct pdl_pe *pe, const struct pdl_shape *s)
{
    struct oracle_pe r;

    oracle_pe_settle(pe, s->precision, &r);
    return oracle_shape(&r, s);
}

/* ---- from a plan's operation --------------------------------------------- */

/* Bytes of what is proportional to the samples. */
static double activation_bytes(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = 0;

    for (int k = 0; k < x->nin + x->nout; k++) {
        int t = k < x->nin ? x->in[k] : x->out[k - x->nin];
        const struct pdl_plan_tensor *pt = &o->p->tensors[t];

        if (pt->kind == PDL_PLAN_ACTIVATION || pt->kind == PDL_PLAN_GRADIENT ||
            pt->kind == PDL_PLAN_INPUT)
            n += (double)pdl_plan_elements(o->p, t, rank) *
                 pdl_dtype_bits(pt->dtype) / 8;
    }
    return n;
}

/* Of one weight: reads w, dw and each slot, writes w and each slot. Sixteen-bit
 * weights have a 32-bit copy that the slots belong to. */
static double weight_bytes(const struct oracle *o, int tensor)
{
    const struct pdl_framework *f = o->opt->framework;
    double slots = o->opt->optimizer_slots, eager = oracle_eager_update(o);
    int bytes = pdl_dtype_bits(o->p->tensors[tensor].dtype) / 8;

    if (eager > 0)
        return eager;
    if (bytes > 2 || slots < 2 || o->opt->parameters == PDL_IDEAL)
        return bytes * (3 + 2 * slots);
    return f && f->update_bytes > 0 ? f->update_bytes : 4 * (2 + 2 * slots) + 4;
}

static double update_bytes(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = 0;

    for (int k = 0; k < x->nout; k++)
        n += (double)pdl_plan_elements(o->p, x->out[k], rank) *
             weight_bytes(o, x->out[k]);
    return n;
}

/* All weights by one kernel, or each by a call, which the host makes one after
 * the other. */
static double update(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double host = oracle_host_call(o), sum = 0;

    if (!o->opt->framework || !o->opt->framework->by_tensor)
        return o->pe.launch_s + update_bytes(o, op, rank) / o->pe.bytes_per_s;
    for (int k = 0; k < x->nout; k++) {
        double n = (double)pdl_plan_elements(o->p, x->out[k], rank);
        double t =
            o->pe.launch_s + n * weight_bytes(o, x->out[k]) / o->pe.bytes_per_s;

        sum += t > host ? t : host;
    }
    return sum;
}

enum pdl_op_id oracle_op_id(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 ? pdl_op_id(o->p->model->nodes[node].op) : PDL_ID_OTHER;
}

static bool is_view(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 && o->p->model->nodes[node].op->flags & PDL_OP_VIEW;
}

static int64_t extent(const struct pdl_box *b, int d)
{
    return d >= 0 && d < b->ndims ? b->hi[d] - b->lo[d] : 1;
}

static void conv_shape(const struct pdl_attr *attr, const struct pdl_box *x,
                       const struct pdl_box *y, struct pdl_shape *s)
{
    s->n = extent(y, 0);
    s->c = extent(x, 1);
    s->f = extent(y, 1);
    s->nspatial = y->ndims - 2 > 3 ? 3 : y->ndims - 2;
    for (int d = 0; d < s->nspatial; d++) {
        s->in[d] = extent(x, d + 2);
        s->out[d] = extent(y, d + 2);
        s->kernel[d] = attr->kernel[d];
        s->stride[d] = attr->stride[d];
    }
}

/* Rows of the last dimension; its own extents. */
static void linear_shape(const struct pdl_box *x, const struct pdl_box *y,
                         struct pdl_shape *s)
{
    s->c = extent(x, x->ndims - 1);
    s->f = extent(y, y->ndims - 1);
    s->n = s->f > 0 ? pdl_box_volume(y) / s->f : 0;
}

/* The shape of the contraction, from the boxes of the forward operation (all
 * passes contract the same indices); false: the operator has none known. */
static bool shape_of(const struct oracle *o, int op, int64_t rank,
                     struct pdl_shape *s)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;
    const struct pdl_node *n;
    struct pdl_box in, out;

    if (x->node < 0 || x->part > 0 || o->p->forward_op[x->node] < 0)
        return false;
    n = &o->p->model->nodes[x->node];
    f = &o->p->ops[o->p->forward_op[x->node]];
    if (f->nin < 1 || f->nout < 1)
        return false;
    pdl_plan_box(o->p, f->in[0], rank, &in);
    pdl_plan_box(o->p, f->out[0], rank, &out);
    *s = (struct pdl_shape){.pass = x->pass, .precision = o->opt->precision};
    if (pdl_op_id(n->op) == PDL_ID_CONV && in.ndims > 2) {
        s->kind = PDL_SHAPE_CONV;
        conv_shape(&n->attr, &in, &out, s);
        s->groups = n->attr.groups > 1
                        ? n->attr.groups * s->c / o->p->tensors[f->in[0]].dim[1]
                        : 1;
        return s->groups >= 1;
    }
    if (pdl_op_id(n->op) == PDL_ID_LINEAR) {
        s->kind = PDL_SHAPE_MATMUL;
        linear_shape(&in, &out, s);
        return true;
    }
    return pdl_op_id(n->op) == PDL_ID_ATTENTION &&
           oracle_attention_shape(o, x->node, rank, s);
}

/* A normalisation reads its input once for the sums and once more to apply
 * them; the plan shows both only where an exchange lies between. Backward
 * needs no such care: the gradient of the weights is the first reading. */
static bool reads_twice(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];

    if (oracle_without(o, ORACLE_REREAD) || x->node < 0 || x->part > 0 ||
        !(o->p->model->nodes[x->node].op->flags & PDL_OP_NORM) ||
        x->pass != PDL_FORWARD)
        return false;
    for (int i = op + 1; i < o->p->nops && i < op + 6; i++)
        if (o->p->ops[i].node == x->node && o->p->ops[i].pass == x->pass &&
            o->p->ops[i].part > 0)
            return false;
    return true;
}

/* Part of the streaming rate that the operator's kernels reach. */
static double streams_at(const struct oracle *o, int op)
{
    if (oracle_op_id(o, op) != PDL_ID_BATCH_NORM)
        return 1;
    return o->p->ops[op].pass == PDL_FORWARD ? o->pe.batch_norm_forward
                                             : o->pe.batch_norm_backward;
}

static double by_roofline(const struct oracle *o, int op,
                          const struct pdl_work *w)
{
    double flops = (double)w->flops / o->pe.rate;
    double bytes = (double)(w->read_bytes + w->write_bytes) /
                   (o->pe.bytes_per_s * streams_at(o, op));

    return o->pe.launch_s + (flops > bytes ? flops : bytes);
}

static double ideal(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double bytes_per_s = o->sys->pe.memory_bytes_per_s;
    struct pdl_work w;

    if (x->kind == PDL_PLAN_OP_UPDATE)
        return update_bytes(o, op, rank) /
               (oracle_on_host(o, x) ? oracle_host_rate(o) : bytes_per_s);
    if (x->kind != PDL_PLAN_OP_COMPUTE || is_view(o, op))
        return 0;
    pdl_plan_op_work(o->p, op, rank, &w);
    return w.flops > 0 ? (double)w.flops / o->pe.peak
                       : activation_bytes(o, op, rank) / bytes_per_s;
}

/* The head of a transformer stays in 16 bits. */
static bool is_head(const struct oracle *o, int node)
{
    return node == o->p->model->nnodes - 1;
}

static bool is_linear(const struct oracle *o, int node)
{
    return node >= 0 && node < o->p->model->nnodes &&
           pdl_op_id(o->p->model->nodes[node].op) == PDL_ID_LINEAR;
}

static bool fuses(const struct oracle *o)
{
    return o->opt->framework && o->opt->framework->fused;
}

/* Products that read what this one reads: how wide they are together over its
 * own width. */
static double sharing(const struct oracle *o, int node)
{
    const struct pdl_node *n = &o->p->model->nodes[node];
    int64_t all = 0;

    if (n->attr.features <= 0 || n->nin < 1)
        return 1;
    for (int i = node - NEAR; i <= node + NEAR; i++)
        if (is_linear(o, i) && o->p->model->nodes[i].in[0] == n->in[0])
            all += o->p->model->nodes[i].attr.features;
    return all > 0 ? (double)all / (double)n->attr.features : 1;
}

double oracle_shared(const struct oracle *o, int node)
{
    return fuses(o) || o->opt->precision == PDL_PREC_FP8 ? sharing(o, node) : 1;
}

/* Eight bits: operands are read for their largest value, read again and
 * written; what several products read, once, and what is gathered, before. */
static double quantise(const struct oracle *o, const struct pdl_shape *s,
                       double wider)
{
    double t = o->p->strategy->seq ? (double)oracle_tensor_ranks(o) : 1;
    double x = (double)s->n * (double)s->c / t / wider;
    double w = (double)s->c * (double)s->f, dy = (double)s->n * (double)s->f;
    const struct pdl_framework *f = o->opt->framework;
    bool own = f && f->cast_bytes > 0;
    double each = own ? f->cast_bytes : o->opt->compile ? 3 : 5;
    double weight = own ? f->cast_weight_bytes : each;
    double bytes = s->pass == PDL_FORWARD         ? x * each + w * weight
                   : s->pass == PDL_BACKWARD_DATA ? dy * each
                                                  : 0;

    return bytes / o->pe.bytes_per_s;
}

static double linear(const struct oracle *o, int op, struct pdl_shape *s)
{
    int node = o->p->ops[op].node;
    double shared = sharing(o, node), wider = fuses(o) ? shared : 1;
    bool eight = s->precision == PDL_PREC_FP8 && !is_head(o, node);

    double t = eight ? quantise(o, s, shared) : 0;

    s->f = (int64_t)((double)s->f * wider + .5);
    return t + oracle_matmul(eight ? &o->pe : &o->pe16, s) / wider;
}

/* Gradients of a weight join those of the micro-batches before. */
static double accumulate(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = 0;

    if (!f || x->pass != PDL_BACKWARD_WEIGHTS || o->p->micro_batches < 2)
        return 0;
    for (int k = 0; k < x->nout; k++)
        n += (double)pdl_plan_elements(o->p, x->out[k], rank);
    return n * (o->opt->gradient_bytes > 2 ? f->add_bytes32 : f->add_bytes) /
           o->pe.bytes_per_s;
}

bool oracle_joins_fused(const struct oracle *o, const struct pdl_plan_op *add)
{
    if (!fuses(o))
        return false;
    for (const struct pdl_plan_op *x = add - 1;
         x >= o->p->ops && x > add - NEAR; x--)
        if (x->kind == PDL_PLAN_OP_COMPUTE && x->pass == PDL_BACKWARD_DATA)
            return is_linear(o, x->node) && sharing(o, x->node) > 1;
    return false;
}

/* Masks of dropout around a residual: written forward, applied backward. */
static double mask_bytes(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool back = x->kind == PDL_PLAN_OP_ADD;

    if (!(o->opt->dropout > 0) || x->nout < 1 ||
        (!back &&
         (oracle_op_id(o, op) != PDL_ID_ADD || x->pass != PDL_FORWARD)))
        return 0;
    return (double)pdl_plan_elements(o->p, x->out[0], rank) * (back ? 5 : 1);
}

/* Is the operator part of the normalisation before it? */
static bool in_norm(const struct oracle *o, int op)
{
    enum pdl_op_id id = oracle_op_id(o, op);

    if (oracle_graph_fuses(o, op))
        return true;
    return o->opt->framework && o->opt->framework->fused_norm &&
           o->pe.item_bytes <= 2 && (id == PDL_ID_RELU || id == PDL_ID_ADD);
}

static double element_wise(const struct oracle *o, int op, int64_t rank)
{
    double floor = oracle_eager_floor(o, op, rank), t;
    double norm = oracle_eager_norm(o, op, rank, reads_twice(o, op));
    double graph = oracle_graph(o, op, rank);
    struct pdl_work w;

    if (norm > 0)
        return norm;
    if (graph >= 0)
        return graph;

    pdl_plan_op_work(o->p, op, rank, &w);
    if (in_norm(o, op)) /* the other summand is still to be read */
        return (double)(w.read_bytes - w.write_bytes) / o->pe.bytes_per_s;
    if (reads_twice(o, op))
        w.read_bytes *= 2;
    w.read_bytes += (int64_t)mask_bytes(o, op, rank);
    t = by_roofline(o, op, &w) *
        (w.flops > 0 ? 1 : oracle_eager_streams(o, op));
    return t > floor ? t : floor;
}

/* Added by a pass over y after the convolution, and its gradient summed by a
 * pass over that of y. */
static double bias_passes(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int forward = x->node >= 0 ? o->p->forward_op[x->node] : -1;
    double passes = x->pass == PDL_FORWARD            ? 2
                    : x->pass == PDL_BACKWARD_WEIGHTS ? 1
                                                      : 0;

    if (!o->opt->framework || !o->opt->framework->bias_passes || forward < 0 ||
        passes == 0 || o->p->model->nodes[x->node].attr.no_bias)
        return 0;
    return o->pe.launch_s + passes * o->pe.item_bytes *
                                (double)pdl_plan_elements(
                                    o->p, o->p->ops[forward].out[0], rank) /
                                o->pe.bytes_per_s;
}

static double kernel(const struct oracle *o, int op, int64_t rank)
{
    double steps = oracle_steps(o, op, rank);
    struct pdl_shape s;

    if (steps >= 0)
        return steps + accumulate(o, op, rank);
    if (!shape_of(o, op, rank, &s))
        return element_wise(o, op, rank) + accumulate(o, op, rank) +
               oracle_experts_more(o, op, rank);
    if (s.kind == PDL_SHAPE_MATMUL)
        return linear(o, op, &s) + accumulate(o, op, rank);
    if (s.kind == PDL_SHAPE_ATTENTION && o->opt->unfused &&
        !oracle_steps_flash(o))
        return oracle_unfused(o, &s);
    if ((oracle_eager_first(o) || oracle_graph_first(o)) &&
        oracle_is_depthwise(&s))
        return oracle_depthwise_first(&o->pe, &s);
    return oracle_shape(s.kind == PDL_SHAPE_ATTENTION ? &o->pe16 : &o->pe, &s) +
           (s.kind == PDL_SHAPE_CONV ? bias_passes(o, op, rank) : 0);
}

static double empirical(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double measured = oracle_profiled(o, op, rank);

    if (x->kind == PDL_PLAN_OP_UPDATE && oracle_on_host(o, x))
        return update_bytes(o, op, rank) / oracle_host_rate(o);
    if (measured >= 0)
        return measured;
    if (x->kind == PDL_PLAN_OP_UPDATE)
        return update(o, op, rank);
    if (x->kind == PDL_PLAN_OP_ADD && oracle_joins_fused(o, x))
        return 0;
    if (x->kind == PDL_PLAN_OP_SLICE && o->pe.core)
        return o->pe.launch_s + oracle_packing(o, op, rank);
    if (x->kind == PDL_PLAN_OP_ADD || x->kind == PDL_PLAN_OP_SLICE)
        return o->pe.launch_s +
               (activation_bytes(o, op, rank) + mask_bytes(o, op, rank)) /
                   o->pe.bytes_per_s;
    if (x->kind != PDL_PLAN_OP_COMPUTE || is_view(o, op) ||
        oracle_eager_view(o, op))
        return 0;
    return kernel(o, op, rank) + oracle_eager_more(o, op, rank) +
           oracle_graph_more(o, op, rank);
}

double oracle_host_call(const struct oracle *o)
{
    double host = o->opt->framework ? o->opt->framework->host_call_s : 0;

    return host > 0 && o->sys->pe.host_call_s > 0 ? o->sys->pe.host_call_s
                                                  : host;
}

/* The device does not run ahead of a host that is slower than it. */
double oracle_compute(const struct oracle *o, int op, int64_t rank)
{
    double host = oracle_host_call(o), t;

    if (oracle_is_copy(o->p->ops[op].kind))
        return oracle_copy_seconds(o, op, rank);
    if (o->opt->parameters == PDL_IDEAL)
        return ideal(o, op, rank);
    t = empirical(o, op, rank);
    return t > 0 && t < host ? host : t;
}
