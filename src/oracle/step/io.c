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
#include "oracle/oracle_priv.h"

#include <math.h>

/* Every rank opens its log files on the shared disk: a habit of the framework,
 * not of the network. An open is a round trip to the server, which serves one
 * after the other; the locks of the directory that they share go from client to
 * client, so that it takes longer the more of them there are. */
static double one_open(const struct oracle *o)
{
    const struct pdl_storage *s = &o->sys->storage;
    double pes = (double)o->p->mesh->pes;

    return s->round_trip_s + pes * (s->latency_s + (pes - 1) * s->contention_s);
}

/* Layers that are split open two more. Filter's wait for nothing but the host,
 * which has issued the convolution before: what the device computes meanwhile
 * hides them. Spatial's come before. */
static double layer_opens(const struct oracle *o, int node, double open)
{
    enum pdl_op_id id = pdl_op_id(o->p->model->nodes[node].op);
    bool conv = id == PDL_ID_CONV;
    int op = o->p->forward_op[node];

    if (oracle_has_axis(o, PDL_AXIS_SPATIAL))
        return conv || id == PDL_ID_MAX_POOL ? 2 * open : 0;
    if (!conv || op < 0 || !oracle_has_axis(o, PDL_AXIS_FILTER))
        return 0;
    return fmax(0, 2 * open - oracle_compute(o, op, 0));
}

static double open_seconds(const struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    double open, sum;

    if (!f || f->opens == 0 || o->opt->parameters == PDL_IDEAL)
        return 0;
    open = one_open(o);
    sum = (double)f->opens * open;
    for (int i = 0; i < o->p->model->nnodes; i++)
        sum += layer_opens(o, i, open);
    return sum;
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

static double load_seconds(const struct oracle *o)
{
    const struct pdl_storage *shared = &o->sys->storage;
    double pe = input_bytes(o), pes = (double)o->p->mesh->pes;
    double in_node = (double)o->sys->node.pes;
    double node = pe * (pes < in_node ? pes : in_node);
    double read = fmax(at_rate(pe * pes, shared->bytes_per_s),
                       at_rate(node, shared->node_bytes_per_s));
    double local = o->sys->node.storage.bytes_per_s;

    if (local > 0) /* the data set lies on the nodes */
        read = at_rate(node, local);
    return fmax(read, at_rate(pe * oracle_on_switch(o),
                              o->sys->node.host.pcie_bytes_per_s));
}

struct oracle_loading oracle_loading(const struct oracle *o)
{
    if (o->opt->parameters == PDL_IDEAL)
        return (struct oracle_loading){0, 0};
    return (struct oracle_loading){open_seconds(o), load_seconds(o)};
}
