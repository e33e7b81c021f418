/* SPDX-License-Identifier: Apache-2.0
 *
 * A network twice, side by side, with one set of weights: what a pipeline runs
 * whose micro-batches enter at both ends. Half of the samples go through each;
 * as gradients add up over samples, so they do over the two, and what is known
 * of weights that several layers share (tied.c) brings them together. Layers
 * and values of the second have the names of the first with a '. */
#include "plan_priv.h"

static const char *second_name(pdl_arena *a, const char *name)
{
    return pdl_arena_printf(a, "%s'", name);
}

/* Values are made twice, what is stored is there once. */
static bool is_value(const struct pdl_tensor *t)
{
    return t->kind == PDL_TENSOR_INPUT || t->kind == PDL_TENSOR_ACTIVATION;
}

static const int *map_ids(pdl_arena *a, const int *map, const int *ids, int n)
{
    int *p = PDL_NEW(a, int, n + 1);

    for (int i = 0; p && i < n; i++)
        p[i] = map[ids[i]];
    return p;
}

static bool copy_nodes(pdl_arena *a, const struct pdl_model *m, const int *map,
                       struct pdl_node *nodes)
{
    for (int i = 0; i < m->nnodes; i++) {
        struct pdl_node *n = &nodes[m->nnodes + i];

        nodes[i] = *n = m->nodes[i];
        n->name = second_name(a, n->name);
        n->in = map_ids(a, map, n->in, n->nin);
        n->out = map_ids(a, map, n->out, n->nout);
        if (!n->name || !n->in || !n->out)
            return false;
    }
    return true;
}

static int copy_tensors(pdl_arena *a, const struct pdl_model *m, int *map,
                        struct pdl_tensor *tensors)
{
    int n = m->ntensors;

    for (int t = 0; t < m->ntensors; t++) {
        tensors[t] = m->tensors[t];
        map[t] = t;
        if (!is_value(&m->tensors[t]))
            continue;
        map[t] = n;
        tensors[n] = m->tensors[t];
        tensors[n].name = second_name(a, tensors[n].name);
        if (!tensors[n++].name)
            return -1;
    }
    return n;
}

enum pdl_status plan_twin(pdl_arena *a, const struct pdl_model *m,
                          const struct pdl_model **out, struct pdl_err *err)
{
    struct pdl_model *two = PDL_NEW(a, struct pdl_model, 1);
    struct pdl_segment *one = PDL_NEW(a, struct pdl_segment, 1);
    struct pdl_tensor *tensors =
        PDL_NEW(a, struct pdl_tensor, 2 * (int64_t)m->ntensors + 1);
    struct pdl_node *nodes =
        PDL_NEW(a, struct pdl_node, 2 * (int64_t)m->nnodes + 1);
    int *map = PDL_NEW(a, int, m->ntensors + 1);

    if (!two || !one || !tensors || !nodes || !map)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", m->name);
    *two = *m;
    two->ntensors = copy_tensors(a, m, map, tensors);
    two->nnodes = 2 * m->nnodes;
    *one = (struct pdl_segment){.nnodes = two->nnodes, .repeat = 1};
    two->tensors = tensors;
    two->nodes = nodes;
    two->segments = one;
    two->nsegments = 1;
    if (two->ntensors < 0 || !copy_nodes(a, m, map, nodes))
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", m->name);
    *out = two;
    return PDL_OK;
}

int64_t plan_samples(const struct pdl_plan *p)
{
    return p->batch / p->micro_batches /
           pdl_schedule_copies(p->strategy->schedule);
}
