/* SPDX-License-Identifier: Apache-2.0
 *
 * Input and output of a step that nothing hides.
 *
 * Samples: every step reads its input from the shared or the node's own
 * storage and stages it through the host to the PEs, as tensors. Reading and
 * staging are pipelined and run ahead (prefetch), so only what takes longer
 * than the rest of the step shows. Rates that a system does not give cost
 * nothing.
 *
 * Files: see open_seconds. */
#include "oracle_priv.h"

#include <string.h>

/* Every rank opens its log files on the shared disk, which serves one after
 * the other: a habit of the framework, not of the network. The locks of the
 * directory that they share go from client to client, so an open takes longer
 * the more of them there are. Layers that are split write theirs forward and
 * backward. */
static double open_seconds(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    bool spatial = oracle_has_axis(o, PDL_AXIS_SPATIAL);
    bool split = spatial || oracle_has_axis(o, PDL_AXIS_FILTER) ||
                 oracle_has_axis(o, PDL_AXIS_CHANNEL);
    double pes = (double)o->p->mesh->pes;
    int opens;

    if (!f || f->opens == 0 || o->opt->parameters == PDL_IDEAL)
        return 0;
    opens = f->opens;
    for (int i = 0; split && i < o->p->model->nnodes; i++) {
        const char *op = o->p->model->nodes[i].op->name;

        if (strcmp(op, "conv") == 0 || (spatial && strcmp(op, "max_pool") == 0))
            opens += 2;
    }
    return opens * pes *
           (o->sys->storage.latency_s +
            (pes - 1) * o->sys->storage.contention_s);
}

/* Bytes of the samples and labels that one PE takes in a step. */
static double input_bytes(const struct oracle *o)
{
    double n = 0;

    for (int t = 0; t < o->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = &o->p->tensors[t];

        if (x->kind == PDL_PLAN_INPUT || x->kind == PDL_PLAN_LABEL)
            n += (double)pdl_plan_elements(o->p, t, 0) *
                 pdl_dtype_bits(x->dtype) / 8;
    }
    return n * (double)o->p->micro_batches;
}

static double at_rate(double bytes, double rate)
{
    return rate > 0 ? bytes / rate : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double load_seconds(const struct oracle *o)
{
    const struct pdl_storage *shared = &o->sys->storage;
    const struct pdl_host *host = &o->sys->node.host;
    double pe = input_bytes(o), pes = (double)o->p->mesh->pes;
    double in_node = (double)o->sys->node.pes;
    double node = pe * (pes < in_node ? pes : in_node);
    double on_switch =
        host->pes_per_switch > 0 ? (double)host->pes_per_switch : 1;
    double read = larger(at_rate(pe * pes, shared->bytes_per_s),
                         at_rate(node, shared->node_bytes_per_s));
    double local = o->sys->node.storage.bytes_per_s;

    if (local > 0) /* the data set lies on the nodes */
        read = at_rate(node, local);
    return larger(read, at_rate(pe * on_switch, host->pcie_bytes_per_s));
}

struct oracle_loading oracle_loading(const struct oracle *o)
{
    if (o->opt->parameters == PDL_IDEAL)
        return (struct oracle_loading){0, 0};
    return (struct oracle_loading){open_seconds(o), load_seconds(o)};
}

double oracle_io(const struct oracle_loading *x, double rest_s)
{
    return x->open_s + (x->load_s > rest_s ? x->load_s - rest_s : 0);
}
