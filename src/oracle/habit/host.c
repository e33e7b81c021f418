/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's part in a step: copies between a PE and its host over PCIe (PEs
 * behind one switch share its uplink, all that are used copy at the same time;
 * ranks fill a node switch by switch), what computes beside them, and updates
 * of what the optimizer keeps there, as fast as the host's memory streams, one
 * share for each PE of the node (ZeRO-Offload, Ren et al. 2021). Both are rates
 * of the system; nothing is fitted. */
#include "oracle/habit/framework.h"
#include "oracle/habit/habit.h"

#include <math.h>
#include <string.h>

bool oracle_runs_plans(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;

    return !f || strcmp(f->name, "own") == 0;
}

void oracle_settle_pe(struct oracle *o)
{
    oracle_pe_settle(&o->sys->pe, o->opt->precision, &o->pe);
    if (o->pe.core || oracle_runs_plans(o))
        return;
    o->pe.own = o->pe.joins = false;
}

bool oracle_is_copy(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_COPY_OUT || kind == PDL_PLAN_OP_COPY_IN;
}

double oracle_on_switch(const struct oracle *o)
{
    int64_t used = o->p->mesh->pes, n = o->sys->node.host.pes_per_switch;

    return n < 1 ? 1 : (double)(used < n ? used : n);
}

/* A processor copies itself. */
double oracle_copy_slows(const struct oracle *o)
{
    double part = o->sys->node.host.copy_interference;

    if (o->opt->parameters == PDL_IDEAL ||
        oracle_without(o, ORACLE_INTERFERENCE))
        return 0;
    return part > 0 || !o->pe.core ? part : 1;
}

double oracle_copy_seconds(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_host *h = &o->sys->node.host;
    bool out = o->p->ops[op].kind == PDL_PLAN_OP_COPY_OUT;
    double rate = out && h->out_bytes_per_s > 0 ? h->out_bytes_per_s
                                                : h->pcie_bytes_per_s;
    double n = 0;

    for (int k = 0; k < o->p->ops[op].nin; k++)
        n += (double)oracle_bytes(o, o->p->ops[op].in[k], rank);
    return n > 0 ? h->pcie_latency_s + n * oracle_on_switch(o) / rate : 0;
}

bool oracle_on_host(const struct oracle *o, const struct pdl_plan_op *x)
{
    return x->nout > 0 && o->p->tensors[x->out[0]].host;
}

/* The own runtime updates a bucket when its gradients have come, while backward
 * still computes; frameworks wait for its end (a norm is asked for first). A
 * processor is its own host. */
bool oracle_host_beside(const struct oracle *o, int op)
{
    return !o->pe.core && oracle_on_host(o, &o->p->ops[op]) &&
           oracle_runs_plans(o);
}

double oracle_host_rate(const struct oracle *o)
{
    int64_t used = o->p->mesh->pes, node = o->sys->node.pes;

    return o->sys->node.host.memory_bytes_per_s /
           (double)(used < node ? used : node);
}

enum pdl_status oracle_host_known(const struct oracle *o, struct pdl_err *err)
{
    const struct pdl_strategy *s = o->p->strategy;
    const struct pdl_host *h = &o->sys->node.host;
    const char *what = NULL;

    if ((pdl_strategy_hosts_states(s) || pdl_strategy_offloads(s)) &&
        !(h->pcie_bytes_per_s > 0))
        what = "pcie_bandwidth";
    else if (pdl_strategy_hosts_states(s) && !(h->memory_bytes_per_s > 0))
        what = "memory_bandwidth";
    if (!what)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "offload: %s says nothing of node.host.%s",
             o->sys->name, what);
    pdl_hint(err, "give it: SYSTEM:node.host.%s=25GB/s", what);
    return PDL_EINVAL;
}

double oracle_times_memory(const struct pdl_system *sys, int64_t pes,
                           const struct pdl_projection *x)
{
    double used = (double)(pes < sys->node.pes ? pes : sys->node.pes);
    double host = (double)sys->node.host.memory_bytes;
    double over = (double)x->peak_bytes / (double)x->capacity_bytes;

    return host > 0 ? fmax(over, used * (double)x->host_bytes / host) : over;
}

bool oracle_host_fits(const struct oracle *o, const struct pdl_projection *x)
{
    int64_t used = o->p->mesh->pes, node = o->sys->node.pes, all;

    if (o->sys->node.host.memory_bytes <= 0)
        return true;
    return pdl_mul64(x->host_bytes, used < node ? used : node, &all) &&
           all <= o->sys->node.host.memory_bytes;
}

static double ranks_of(const struct oracle *o, uint32_t group)
{
    double n = 1;

    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if (group >> f & 1)
            n *= (double)o->p->mesh->factor[f];
    return n;
}

/* A collective of a layer is issued like a kernel, and takes longer: a call
 * into the library, a tensor for what arrives, an event to wait for. Messages
 * between stages are few and are not counted. */
int oracle_issued_comm(const struct oracle *o, int op)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool far = o->p->lanes > 1 && o->p->mesh->pes > o->sys->node.pes;
    double n = ranks_of(o, x->group), each;

    if (!f || !(f->issue_s > 0) || x->kind == PDL_PLAN_OP_SEND || n < 2 ||
        oracle_is_copy(x->kind))
        return 0;
    each = f->collective_s + (far ? (n - 1) * f->pipe_step_s : 0);
    return (int)(ORACLE_CALL * each / f->issue_s + .5);
}

/* Seconds of an operator that moves so many bytes, as networks have it here;
 * else each of `passes` over what is written streams. */
static double moved(const struct oracle *o, const char *as, int64_t read,
                    int64_t written, double passes)
{
    double t = oracle_profiled_bytes(o, as, read + written);

    return t >= 0
               ? t
               : ((double)read + passes * (double)written) / o->pe.bytes_per_s;
}

/* What a processor that sends and receives copies by itself: packed and
 * unpacked boxes and its own part, as a concatenation copies as many bytes; and
 * sums, as an addition. What was not measured streams, and a line of the cache
 * that is written is read before, for runs are short. Devices copy by kernels
 * of their own, which frameworks do in different ways (copies, below). */
double oracle_packing(const struct oracle *o, int op, int64_t rank)
{
    struct pdl_plan_copies c;
    struct pdl_work w = {.write_bytes = 0};

    if (!o->pe.core || o->opt->parameters == PDL_IDEAL ||
        oracle_without(o, ORACLE_COPIES))
        return 0;
    pdl_plan_copies(o->p, op, rank, &c);
    if (c.summed > 0)
        pdl_plan_op_work(o->p, op, rank, &w);
    return moved(o, "concat", c.bytes, c.bytes, 2) +
           moved(o, "add", c.summed, w.write_bytes, 2);
}
