/* SPDX-License-Identifier: Apache-2.0
 *
 * The truth for the symbolic executor: the unsharded graph, node by node
 * forward and backward, every tensor whole. It knows nothing of plans but the
 * sets of samples and rows that share batch-norm statistics: "equal to
 * serial" means a serial run with the same sets. */
#include "symbolic.h"

#include <string.h>

struct graph {
    struct plan_machine *m;
    const struct pdl_plan *p;
    uint64_t seed;
    int64_t samples;
    struct plan_part *value, *grad, *weight, *dweight; /* by model tensor */
    bool *needs;
};

static bool make(struct graph *g, int tensor, bool activation,
                 struct plan_part *p)
{
    const struct pdl_tensor *t = &g->m->model->tensors[tensor];
    int first = activation ? 1 : 0;

    *p = (struct plan_part){.box = {.ndims = t->rank + first}};
    if (activation)
        p->box.hi[0] = g->samples;
    for (int d = 0; d < t->rank; d++)
        p->box.hi[d + first] = t->dim[d];
    return plan_part_make(g->m, p);
}

static void fill(struct graph *g, uint64_t id, int64_t micro,
                 struct plan_part *p)
{
    int64_t n = pdl_box_volume(&p->box);

    for (int64_t i = 0; i < n; i++)
        p->at[i] = plan_num_of(g->seed, id, (uint64_t)(micro * n + i));
}

/* ---- batch norm's sets ------------------------------------------------ */

/* The operation that reads x of this node in forward: its placement tells who
 * shares statistics. Calls back with each distinct set's box. */
static int find_input(const struct pdl_plan *p, int node)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE && p->ops[i].node == node &&
            p->ops[i].pass == PDL_FORWARD)
            return p->ops[i].in[0];
    return -1;
}

static bool shares(const struct pdl_plan *p, int d)
{
    return (d >= 2 && p->strategy->bn != PDL_BN_LOCAL) ||
           (d == 0 && p->strategy->bn == PDL_BN_SYNC);
}

/* Boxes of the sets: the split by the factors that do not share, and never by
 * channel. Walks the parts of N and of each spatial dimension. */
static int64_t set_boxes(const struct graph *g, int node,
                         const struct pdl_box *whole, struct pdl_box *boxes,
                         int64_t max)
{
    const struct pdl_plan *p = g->p;
    const struct pdl_plan_tensor *t = &p->tensors[find_input(p, node)];
    int64_t parts[PDL_BOX_DIMS], index[PDL_BOX_DIMS] = {0}, n = 0;
    uint32_t cut = plan_cutting(p->mesh, t, 0);

    for (int d = 0; d < whole->ndims; d++) {
        parts[d] = 1;
        for (int f = 0; f < p->mesh->nfactors; f++)
            if (t->place.at[f] == d && d != 1 && !shares(p, d))
                parts[d] *= p->mesh->factor[f];
    }
    for (;;) {
        int d = 0;

        if (n == max)
            return n;
        boxes[n] = *whole;
        for (int k = 0; k < whole->ndims; k++)
            if (parts[k] > 1)
                pdl_mesh_split(p->mesh, k == 0 ? cut : 0, whole->hi[k], 1,
                               parts[k], index[k], &boxes[n].lo[k],
                               &boxes[n].hi[k]);
        n++;
        while (d < whole->ndims && ++index[d] == parts[d])
            index[d++] = 0;
        if (d == whole->ndims)
            return n;
    }
}

enum { MAX_SETS = 1024, MAX_OPERANDS = 64 };

static void call(struct graph *g, int node, const struct plan_call *operands)
{
    struct plan_call c = *operands;
    struct pdl_box boxes[MAX_SETS];
    int64_t n = 1;

    c.node = &g->m->model->nodes[node];
    if (plan_rule_has_statistics(c.node))
        n = set_boxes(g, node, &g->value[c.node->in[0]].box, boxes, MAX_SETS);
    for (int64_t i = 0; i < n; i++) {
        c.group = &boxes[i];
        plan_kernel(g->m, &c);
    }
}

/* ---- forward and backward --------------------------------------------- */

static bool forward(struct graph *g, int node)
{
    const struct pdl_node *n = &g->m->model->nodes[node];
    const struct plan_part *in[MAX_OPERANDS];
    struct plan_part *out[MAX_OPERANDS];
    struct plan_call c = {.pass = PDL_FORWARD, .in = in, .out = out};

    for (int i = 0; i < n->nin; i++)
        in[c.nin++] = &g->value[n->in[i]];
    for (int j = 0; j < n->nweights; j++)
        in[c.nin++] = &g->weight[n->weights[j]];
    for (int k = 0; k < n->nout; k++) {
        if (!make(g, n->out[k], true, &g->value[n->out[k]]) ||
            !make(g, n->out[k], true, &g->grad[n->out[k]]))
            return false;
        out[c.nout++] = &g->value[n->out[k]];
    }
    call(g, node, &c);
    return true;
}

static void add_into(struct plan_part *to, const struct plan_part *from)
{
    int64_t n = pdl_box_volume(&to->box);

    for (int64_t i = 0; i < n; i++)
        to->at[i] = plan_num_add(to->at[i], from->at[i]);
}

static bool backward_weights(struct graph *g, int node)
{
    const struct pdl_node *n = &g->m->model->nodes[node];
    const struct plan_part *in[MAX_OPERANDS];
    struct plan_part made[PDL_OP_MAX_WEIGHTS], *out[MAX_OPERANDS];
    struct plan_call c = {.pass = PDL_BACKWARD_WEIGHTS, .in = in, .out = out};
    int which[PDL_OP_MAX_WEIGHTS];

    for (int i = 0; i < n->nin; i++)
        in[c.nin++] = &g->value[n->in[i]];
    for (int k = 0; k < n->nout; k++)
        in[c.nin++] = &g->grad[n->out[k]];
    for (int j = 0; n->op->flags & PDL_OP_DW_READS_W && j < n->nweights; j++)
        in[c.nin++] = &g->weight[n->weights[j]];
    for (int j = 0; j < n->nweights; j++)
        if (g->m->model->tensors[n->weights[j]].kind == PDL_TENSOR_WEIGHT) {
            if (!make(g, n->weights[j], false, &made[c.nout]))
                return false;
            which[c.nout] = n->weights[j];
            out[c.nout] = &made[c.nout];
            c.nout++;
        }
    if (c.nout == 0)
        return true;
    call(g, node, &c);
    for (int j = 0; j < c.nout; j++)
        add_into(&g->dweight[which[j]], &made[j]);
    return true;
}

/* The same operands, in the same order, that a plan's operation has. */
static bool backward_data(struct graph *g, int node)
{
    const struct pdl_node *n = &g->m->model->nodes[node];
    const struct plan_part *in[MAX_OPERANDS];
    struct plan_part made[PLAN_MAX_IN], *out[MAX_OPERANDS];
    struct plan_call c = {.pass = PDL_BACKWARD_DATA, .in = in, .out = out};
    int which[PLAN_MAX_IN];

    for (int k = 0; k < n->nout; k++)
        in[c.nin++] = &g->grad[n->out[k]];
    for (int j = 0; j < n->nweights; j++)
        if (j == 0 || !plan_rule_has_bias(n))
            in[c.nin++] = &g->weight[n->weights[j]];
    if (n->op->flags & PDL_OP_SAVES_X)
        for (int i = 0; i < n->nin; i++)
            in[c.nin++] = &g->value[n->in[i]];
    if (n->op->flags & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK))
        for (int k = 0; k < n->nout; k++)
            in[c.nin++] = &g->value[n->out[k]];
    for (int i = 0; i < n->nin; i++)
        if (g->needs[n->in[i]]) {
            if (!make(g, n->in[i], true, &made[c.nout]))
                return false;
            which[c.nout] = n->in[i];
            out[c.nout] = &made[c.nout];
            c.nout++;
        }
    if (c.nout > 0)
        call(g, node, &c);
    for (int i = 0; i < c.nout; i++)
        add_into(&g->grad[which[i]], &made[i]);
    return true;
}

static void loss(struct graph *g, int tensor, int64_t micro)
{
    const struct pdl_tensor *t = &g->m->model->tensors[tensor];
    int classes = plan_loss_classes(t->rank + 1);
    struct plan_part label = {.box = g->value[tensor].box};
    const struct plan_part *in[2] = {&g->value[tensor], &label};
    struct plan_part dy = {.box = g->value[tensor].box}, *out[1] = {&dy};
    struct plan_call c = {.nin = 2, .nout = 1, .in = in, .out = out};

    label.box.hi[classes] = 1;
    if (!plan_part_make(g->m, &label) || !plan_part_make(g->m, &dy)) {
        g->m->missing = "memory";
        return;
    }
    fill(g, (uint64_t)g->m->model->ntensors, micro, &label);
    c.classes = classes;
    c.nclasses = t->dim[classes - 1];
    plan_kernel(g->m, &c);
    add_into(&g->grad[tensor], &dy);
}

/* ---- one step --------------------------------------------------------- */

static bool is_read(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            if (m->nodes[i].in[k] == tensor)
                return true;
    return false;
}

static bool micro_step(struct graph *g, int64_t micro)
{
    const struct pdl_model *m = g->m->model;

    for (int t = 0; t < m->ntensors; t++)
        if (m->tensors[t].kind == PDL_TENSOR_INPUT) {
            if (!make(g, t, true, &g->value[t]) ||
                !make(g, t, true, &g->grad[t]))
                return false;
            fill(g, (uint64_t)t, micro, &g->value[t]);
        }
    for (int i = 0; i < m->nnodes; i++)
        if (!forward(g, i))
            return false;
    for (int t = 0; t < m->ntensors; t++)
        if (g->value[t].at && g->needs[t] && !is_read(m, t))
            loss(g, t, micro);
    for (int i = m->nnodes - 1; i >= 0; i--)
        if (!backward_weights(g, i) || !backward_data(g, i))
            return false;
    return !g->m->missing;
}

static void mark(struct graph *g)
{
    const struct pdl_model *m = g->m->model;

    for (int i = 0; i < m->nnodes; i++) {
        bool needs = false;

        for (int j = 0; j < m->nodes[i].nweights; j++)
            needs = needs || m->tensors[m->nodes[i].weights[j]].kind ==
                                 PDL_TENSOR_WEIGHT;
        for (int k = 0; k < m->nodes[i].nin; k++)
            needs = needs || g->needs[m->nodes[i].in[k]];
        for (int k = 0; k < m->nodes[i].nout; k++)
            g->needs[m->nodes[i].out[k]] = needs;
    }
}

static bool prepare(struct graph *g)
{
    const struct pdl_model *m = g->m->model;
    pdl_arena *a = g->m->arena;

    g->value = PDL_NEW(a, struct plan_part, m->ntensors);
    g->grad = PDL_NEW(a, struct plan_part, m->ntensors);
    g->weight = PDL_NEW(a, struct plan_part, m->ntensors);
    g->dweight = PDL_NEW(a, struct plan_part, m->ntensors);
    g->needs = PDL_NEW(a, bool, m->ntensors);
    if (!g->value || !g->grad || !g->weight || !g->dweight || !g->needs)
        return false;
    for (int t = 0; t < m->ntensors; t++)
        if (m->tensors[t].kind == PDL_TENSOR_WEIGHT ||
            m->tensors[t].kind == PDL_TENSOR_BUFFER) {
            if (!make(g, t, false, &g->weight[t]) ||
                !make(g, t, false, &g->dweight[t]))
                return false;
            fill(g, (uint64_t)t, 0, &g->weight[t]);
        }
    mark(g);
    return true;
}

enum pdl_status plan_reference(struct plan_machine *m, const struct pdl_plan *p,
                               uint64_t seed, struct plan_part **weights,
                               struct pdl_err *err)
{
    struct graph g = {.m = m, .p = p, .seed = seed, .samples = plan_samples(p)};

    if (!prepare(&g))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < p->micro_batches; i++)
        if (!micro_step(&g, i))
            return pdl_fail(err, PDL_EWRONG, "the unsharded graph: %s",
                            m->missing ? m->missing : "out of memory");
    for (int t = 0; t < m->model->ntensors; t++) {
        int64_t n = g.weight[t].at ? pdl_box_volume(&g.weight[t].box) : 0;

        for (int64_t i = 0; i < n; i++)
            if (m->model->tensors[t].kind == PDL_TENSOR_WEIGHT)
                g.weight[t].at[i] = plan_num_add(
                    g.weight[t].at[i], plan_num_mul(7, g.dweight[t].at[i]));
    }
    *weights = g.weight;
    return PDL_OK;
}
