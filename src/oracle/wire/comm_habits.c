/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives as they were measured, and as frameworks run them: allreduces
 * inside a node from a table of the system, ZeRO 3 tensor by tensor, messages
 * between stages in shares, shards of a sequence in 8 bits or in pieces. Habits
 * are those of the framework (frameworks.c); without one, or with ideal
 * parameters, nothing here applies. */
#include "oracle/wire/wire.h"

#include <math.h>
#include <string.h>

/* An allreduce inside a node as it was measured: seconds of an empty one and
 * the bus bandwidth, between the nearest numbers of PEs by their logarithm.
 * Gathers and scatters are half of one. */
struct inside {
    double alpha_s, bytes_per_s;
};

static bool measured_inside(const struct oracle *o, double n,
                            struct inside *out)
{
    const struct pdl_collective_fit *low = NULL, *high = NULL;
    double at;

    for (int64_t i = 0; i < o->sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &o->sys->collectives[i];

        if (f->nodes != 1 || strcmp(f->op, "allreduce") != 0 ||
            !(f->alpha_s > 0 && f->bus_bytes_per_s > 0))
            continue;
        if ((double)f->pes <= n && (!low || f->pes > low->pes))
            low = f;
        if ((double)f->pes >= n && (!high || f->pes < high->pes))
            high = f;
    }
    low = low ? low : high;
    high = high ? high : low;
    if (!low)
        return false;
    at = high->pes > low->pes ? log(n / (double)low->pes) /
                                    log((double)high->pes / (double)low->pes)
                              : 0;
    out->alpha_s = low->alpha_s + at * (high->alpha_s - low->alpha_s);
    out->bytes_per_s = low->bus_bytes_per_s +
                       at * (high->bus_bytes_per_s - low->bus_bytes_per_s);
    return true;
}

/* A layer's collective inside a node by what was measured there, latency that
 * no step of a ring explains included; < 0: nothing was. Exchanges of gradients
 * are large and may choose their algorithm. */
double oracle_inside_measured(const struct oracle *o,
                              enum pdl_plan_op_kind kind, int level, double n,
                              double in, double out)
{
    const struct pdl_framework *f = o->opt->framework;
    const char *asked = o->p->strategy->allreduce;
    struct inside m;
    double parts = kind == PDL_PLAN_OP_ALLREDUCE ? 2 : 1;
    double bytes = kind == PDL_PLAN_OP_ALLGATHER ? out : in;

    if (level != 0 || o->opt->parameters == PDL_IDEAL ||
        (f && f->one_channel) || kind > PDL_PLAN_OP_ALLGATHER ||
        (asked && strcmp(asked, "auto") != 0) ||
        o->p->strategy->exchange_paper || !measured_inside(o, n, &m))
        return -1;
    if (oracle_without(o, ORACLE_LATENCY))
        m.alpha_s = 0;
    return parts * (m.alpha_s / 2 + (n - 1) / n * bytes / m.bytes_per_s);
}

/* Weights on their way to a layer, gradients to their parts (ZeRO 3). */
bool oracle_is_weight_traffic(const struct oracle *o, int op)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    enum pdl_plan_kind kind =
        x->nin > 0 ? o->p->tensors[x->in[0]].kind : PDL_PLAN_ACTIVATION;

    return (x->kind == PDL_PLAN_OP_ALLGATHER && kind == PDL_PLAN_WEIGHT) ||
           ((x->kind == PDL_PLAN_OP_REDUCE_SCATTER ||
             x->kind == PDL_PLAN_OP_ALLREDUCE) &&
            kind == PDL_PLAN_WEIGHT_GRADIENT);
}

/* Each tensor by a ring of its own, one after the other; < 0: no such habit. */
double oracle_zero_alone(const struct oracle *o, int op, int level, double n,
                         double bytes)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_nics *nics = &o->sys->node.nics;
    double one = nics->measured_bytes_per_s > 0 ? nics->measured_bytes_per_s
                                                : nics->bytes_per_s;

    if (!f || !(f->zero_adapters > 0) || level < 1 || !(one > 0) ||
        o->opt->parameters == PDL_IDEAL || o->p->strategy->zero != 3 ||
        !oracle_is_weight_traffic(o, op))
        return -1;
    return (n - 1) * ((double)o->p->ops[op].nin * f->zero_step_s +
                      bytes / n / (f->zero_adapters * one));
}

/* To the next stage: whole, or a share from each tensor rank that is gathered
 * there. Shards of a sequence are shares already. */
double oracle_send(const struct oracle *o, const struct oracle_wire *w,
                   double bytes)
{
    const struct pdl_framework *f = o->opt->framework;
    double t = (double)oracle_tensor_ranks(o), gather;

    if (!f || !f->scatters_sends || t < 2 || o->p->strategy->seq ||
        o->opt->parameters == PDL_IDEAL)
        return w->alpha_s + bytes / w->bytes_per_s;
    gather =
        oracle_inside_measured(o, PDL_PLAN_OP_ALLGATHER, 0, t, bytes, bytes);
    if (gather < 0)
        gather = (t - 1) / t * bytes / oracle_inside_node(o, false);
    return w->alpha_s + bytes / t / w->bytes_per_s + gather;
}

static uint32_t tensor_factors(const struct oracle *o)
{
    const struct pdl_mesh *m = o->p->mesh;
    uint32_t set = 0;

    for (int t = 0; t < m->nterms[0]; t++)
        for (int f = 0;
             m->term[0][t].axis == PDL_AXIS_TENSOR && f < m->term[0][t].count;
             f++)
            set |= UINT32_C(1) << (m->term[0][t].first + f);
    return set;
}

/* Shards of a sequence on their way into or out of a tensor rank's products. */
static bool is_sequence_traffic(const struct oracle *o,
                                const struct pdl_plan_op *x)
{
    enum pdl_plan_kind kind =
        x->nin > 0 ? o->p->tensors[x->in[0]].kind : PDL_PLAN_WEIGHT;

    return o->p->strategy->seq && o->opt->parameters != PDL_IDEAL &&
           (x->kind == PDL_PLAN_OP_ALLGATHER ||
            x->kind == PDL_PLAN_OP_REDUCE_SCATTER) &&
           (kind == PDL_PLAN_ACTIVATION || kind == PDL_PLAN_GRADIENT) &&
           x->group == tensor_factors(o);
}

bool oracle_in_pieces(const struct oracle *o, int op)
{
    return o->opt->async_tensor && is_sequence_traffic(o, &o->p->ops[op]);
}

/* What is gathered for 8-bit products travels in 8 bits, values that is, not
 * gradients. */
double oracle_sequence_part(const struct oracle *o, const struct pdl_plan_op *x)
{
    double part = 1;

    if (!is_sequence_traffic(o, x))
        return 1;
    if (oracle_is_narrow(o->opt->precision) &&
        x->kind == PDL_PLAN_OP_ALLGATHER &&
        o->p->tensors[x->in[0]].kind == PDL_PLAN_ACTIVATION)
        part /= 2;
    return part;
}

/* Copies of sharded weights and gradients beside the collectives, on the
 * device, of every micro-batch: weights out of the gathered buffer; gradients
 * joined into one, cast to what they travel in, divided. From PyTorch's source
 * (torch/distributed/fsdp/_runtime_utils.py, _post_backward_hook; fully_shard's
 * _fsdp_collectives.py). */
double oracle_shard_copies(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool gather = x->kind == PDL_PLAN_OP_ALLGATHER;
    double items = 0, bytes, own, wide;

    if (!f || o->opt->parameters == PDL_IDEAL ||
        (!gather && x->kind != PDL_PLAN_OP_REDUCE_SCATTER))
        return 0;
    for (int k = 0; k < (gather ? x->nout : x->nin); k++)
        items += (double)pdl_plan_elements(o->p, gather ? x->out[k] : x->in[k],
                                           rank);
    own = pdl_dtype_bits(o->p->tensors[x->in[0]].dtype) / 8.0;
    wide = own * oracle_travels(o, x);
    bytes = gather ? f->gather_copies * 2 * own
                   : f->scatter_copies * 2 * own +
                         (wide > own && f->scatter_casts ? own + wide : 0) +
                         f->scatter_scales * 2 * wide;
    return items * bytes / o->pe.bytes_per_s;
}
