/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a local operation. Ideal: FLOPs at the peak, operators without
 * FLOPs by the bytes of their activations, both proportional to the samples:
 * the closed forms of the papers. Empirical: the kernel of the local shape
 * (compute_gemm.c, compute_conv.c, compute_attention.c), operators without a
 * contraction by the bytes they stream, plus the launch. The weight update
 * reads and writes weight, gradient and optimizer state at memory bandwidth
 * in both. */
#include "oracle/habit/habit.h"

/* Products of one operand lie within so many nodes. */
enum { NEAR = 6 };
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

static bool is_view(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 && o->p->model->nodes[node].op->flags & PDL_OP_VIEW;
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
    return fuses(o) || oracle_is_narrow(o->opt->precision) ? sharing(o, node)
                                                           : 1;
}

double oracle_cast_bytes(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    return f && f->cast_bytes > 0 ? f->cast_bytes : o->opt->compile ? 3 : 5;
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
    double each = oracle_cast_bytes(o);
    double weight = f && f->cast_bytes > 0 ? f->cast_weight_bytes : each;
    double bytes = s->pass == PDL_FORWARD         ? x * each + w * weight
                   : s->pass == PDL_BACKWARD_DATA ? dy * each
                                                  : 0;

    return bytes / o->pe.bytes_per_s;
}

/* Columns of the head as the framework has them: tiles are whole. */
static int64_t columns(const struct oracle *o, int node, int64_t n)
{
    int64_t unit = o->opt->framework ? o->opt->framework->pads_vocabulary : 0;

    return unit > 1 && is_head(o, node) ? (n + unit - 1) / unit * unit : n;
}

static double linear(const struct oracle *o, int op, struct pdl_shape *s)
{
    int node = o->p->ops[op].node;
    double shared = sharing(o, node), wider = fuses(o) ? shared : 1;
    bool eight = oracle_is_narrow(s->precision) && !is_head(o, node);

    double t = eight ? quantise(o, s, shared) : 0;

    s->f = columns(o, node, (int64_t)((double)s->f * wider + .5));
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
    double steps = oracle_steps(o, op, rank), experts, scan;
    struct pdl_shape s;

    if (steps >= 0)
        return steps + accumulate(o, op, rank);
    experts = oracle_experts_products(o, op, rank);
    if (experts >= 0)
        return experts + oracle_experts_more(o, op, rank) +
               accumulate(o, op, rank);
    if (!oracle_shape_of(o, op, rank, &s)) {
        scan = oracle_scan(o, op, rank);
        return scan >= 0 ? scan
                         : element_wise(o, op, rank) + accumulate(o, op, rank);
    }
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
