/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a local operation. Ideal: FLOPs at the peak, operators without
 * FLOPs by the bytes of their activations, both proportional to the samples.
 * Empirical: the larger of sustained FLOPs and streamed bytes, plus the launch
 * of the kernel. The weight update reads and writes weight, gradient and
 * optimizer state at memory bandwidth in both. */
#include "oracle_priv.h"

/* Guesses used only where the system gives no measured value; the report
 * marks such a projection as resting on nominal rates. */
static const double GUESS_MATMUL = 0.7, GUESS_MEMORY = 0.8;
static const double GUESS_LAUNCH_S = 5e-6;

static double matmul_rate(const struct oracle *o)
{
    const struct pdl_pe *pe = &o->sys->pe;
    enum pdl_precision p = o->opt->precision;
    double peak = pe->peak_flop_per_s[p];

    if (peak <= 0)
        peak = pe->peak_flop_per_s[PDL_PREC_FP32];
    if (o->opt->parameters == PDL_IDEAL)
        return peak;
    return pe->matmul_flop_per_s[p] > 0 ? pe->matmul_flop_per_s[p]
                                        : peak * GUESS_MATMUL;
}

static double memory_rate(const struct oracle *o)
{
    const struct pdl_pe *pe = &o->sys->pe;

    if (o->opt->parameters == PDL_IDEAL)
        return pe->memory_bytes_per_s;
    return pe->memory_bytes_per_s *
           (pe->memory_efficiency > 0 ? pe->memory_efficiency : GUESS_MEMORY);
}

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

/* Reads w, dw and each slot, writes w and each slot. */
static double update_bytes(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    double n = 0;

    for (int k = 0; k < x->nout; k++)
        n += (double)pdl_plan_elements(o->p, x->out[k], rank) *
             pdl_dtype_bits(o->p->tensors[x->out[k]].dtype) / 8;
    return n * (3 + 2 * o->opt->optimizer_slots);
}

static bool is_view(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 && o->p->model->nodes[node].op->flags & PDL_OP_VIEW;
}

double oracle_compute(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool ideal = o->opt->parameters == PDL_IDEAL;
    const struct pdl_pe *pe = &o->sys->pe;
    double launch = ideal              ? 0
                    : pe->launch_s > 0 ? pe->launch_s
                                       : GUESS_LAUNCH_S;
    double by_flops, by_bytes;
    struct pdl_work w;

    if (x->kind == PDL_PLAN_OP_UPDATE)
        return launch + update_bytes(o, op, rank) / memory_rate(o);
    if (x->kind == PDL_PLAN_OP_ADD || x->kind == PDL_PLAN_OP_SLICE)
        return ideal ? 0
                     : launch + activation_bytes(o, op, rank) / memory_rate(o);
    if (x->kind != PDL_PLAN_OP_COMPUTE || is_view(o, op))
        return 0;
    pdl_plan_op_work(o->p, op, rank, &w);
    by_flops = (double)w.flops / matmul_rate(o);
    if (ideal)
        return w.flops > 0 ? by_flops
                           : activation_bytes(o, op, rank) / memory_rate(o);
    by_bytes = (double)(w.read_bytes + w.write_bytes) / memory_rate(o);
    return launch + (by_flops > by_bytes ? by_flops : by_bytes);
}
