/* SPDX-License-Identifier: Apache-2.0
 *
 * What decides together. Operators without weights follow their input (plan
 * rules), so the choice is that of a weighted layer, and what follows it is
 * one unit with it: convolution, batch norm, activation, pooling, and the sum
 * of a residual block with the branch it names first. In a transformer the
 * layers of a Megatron pair only make sense together: there a unit is what
 * lies between two tensors through which everything passes, an attention or a
 * feed-forward block with its residual.
 *
 * A unit is also a small model of its own, whose inputs are what other units
 * make. Networks repeat themselves: equal units are of one class and are
 * priced once. */
#include "oracle/bylayer/bylayer.h"

#include <string.h>

struct build {
    pdl_arena *arena;
    const struct pdl_model *m;
    struct oracle_units *out;
    int *maker;  /* node that makes each tensor; -1: none */
    int *local;  /* of each tensor: its number in the part; -1: none */
    bool *wants; /* tensors that need a gradient */
    bool *read;  /* tensors that a layer reads */
    bool failed;
};

/* ---- which nodes are together ----------------------------------------- */

static bool decides(const struct pdl_node *n)
{
    return n->nweights > 0 && n->op->flops;
}

static void by_layers(struct build *b)
{
    const struct pdl_model *m = b->m;
    int n = 0, *unit = b->out->unit_of;

    for (int i = 0; i < m->nnodes; i++) {
        int lead = -1;

        for (int k = 0; k < m->nodes[i].nin && lead < 0; k++)
            lead = b->maker[m->nodes[i].in[k]];
        if (decides(&m->nodes[i]))
            unit[i] = n++;
        else /* what comes before the first layer goes with it */
            unit[i] = lead >= 0 ? unit[lead] : 0;
    }
    b->out->n = n > 0 ? n : 1;
}

static void by_blocks(struct build *b)
{
    const struct pdl_model *m = b->m;
    bool any = false;
    int n = 0;

    for (int i = 0; i < m->nnodes; i++) {
        b->out->unit_of[i] = n;
        any = any || decides(&m->nodes[i]);
        if (any && i + 1 < m->nnodes && b->out->narrow[i + 1]) {
            n++;
            any = false;
        }
    }
    b->out->n = n + 1;
}

/* ---- a unit as a model ------------------------------------------------ */

static int number(struct build *b, struct pdl_tensor *tensors, int *n, int t,
                  bool inside)
{
    if (b->local[t] >= 0)
        return b->local[t];
    tensors[*n] = b->m->tensors[t];
    tensors[*n].segment = 0;
    if (!inside && tensors[*n].kind == PDL_TENSOR_ACTIVATION)
        tensors[*n].kind = PDL_TENSOR_INPUT;
    return b->local[t] = (*n)++;
}

static const int *renumber(struct build *b, struct pdl_tensor *tensors, int *n,
                           const int *ids, int nids, int unit)
{
    int *p = PDL_NEW(b->arena, int, nids + 1);

    b->failed = b->failed || !p;
    for (int i = 0; p && i < nids; i++) {
        int from = b->maker[ids[i]];

        p[i] = number(b, tensors, n, ids[i],
                      from >= 0 && b->out->unit_of[from] == unit);
    }
    return p;
}

static void make_part(struct build *b, int unit)
{
    struct oracle_unit *u = &b->out->unit[unit];
    struct pdl_model *part = PDL_NEW(b->arena, struct pdl_model, 1);
    struct pdl_node *nodes = PDL_NEW(b->arena, struct pdl_node, u->nnodes);
    struct pdl_segment *one = PDL_NEW(b->arena, struct pdl_segment, 1);
    struct pdl_tensor *tensors;
    int64_t most = 1;
    bool *gradients;
    int n = 0;

    for (int i = 0; i < u->nnodes; i++) {
        const struct pdl_node *x = &b->m->nodes[u->node[i]];

        most += x->nin + x->nout + x->nweights;
    }
    tensors = PDL_NEW(b->arena, struct pdl_tensor, most);
    gradients = PDL_NEW(b->arena, bool, most);
    b->failed = b->failed || !part || !nodes || !one || !tensors || !gradients;
    if (b->failed)
        return;
    for (int i = 0; i < u->nnodes; i++) {
        struct pdl_node x = b->m->nodes[u->node[i]];

        x.in = renumber(b, tensors, &n, x.in, x.nin, unit);
        x.out = renumber(b, tensors, &n, x.out, x.nout, unit);
        x.weights = renumber(b, tensors, &n, x.weights, x.nweights, unit);
        nodes[i] = x;
        if (b->failed)
            return;
    }
    *one = (struct pdl_segment){.nnodes = u->nnodes, .repeat = 1};
    *part = *b->m;
    part->tensors = tensors;
    part->ntensors = n;
    part->nodes = nodes;
    part->nnodes = u->nnodes;
    part->segments = one;
    part->nsegments = 1;
    u->part = part;
    u->gradients = gradients;
    for (int i = 0; i < u->nnodes; i++)
        for (int k = 0; k < nodes[i].nin; k++) {
            int t = b->m->nodes[u->node[i]].in[k], from = b->maker[t];

            if (from >= 0 && b->out->unit_of[from] != unit)
                gradients[nodes[i].in[k]] = b->wants[t];
        }
}

/* Numbers of the part are those of the unit at hand only. */
static void forget(struct build *b, const struct oracle_unit *u)
{
    for (int i = 0; i < u->nnodes; i++) {
        const struct pdl_node *x = &b->m->nodes[u->node[i]];

        for (int k = 0; k < x->nin; k++)
            b->local[x->in[k]] = -1;
        for (int k = 0; k < x->nout; k++)
            b->local[x->out[k]] = -1;
        for (int k = 0; k < x->nweights; k++)
            b->local[x->weights[k]] = -1;
    }
}

/* The number that a unit's part has for one of its own tensors. */
static int number_there(const struct build *b, int unit, int tensor)
{
    const struct oracle_unit *u = &b->out->unit[unit];

    for (int i = 0; i < u->nnodes; i++)
        for (int k = 0; k < b->m->nodes[u->node[i]].nout; k++)
            if (b->m->nodes[u->node[i]].out[k] == tensor)
                return u->part->nodes[i].out[k];
    return -1;
}

static void make_ports(struct build *b, int unit)
{
    struct oracle_unit *u = &b->out->unit[unit];
    int most = 1;

    for (int i = 0; i < u->nnodes; i++)
        most += b->m->nodes[u->node[i]].nin;
    u->port = PDL_NEW(b->arena, struct oracle_port, most);
    b->failed = b->failed || !u->port;
    for (int i = 0; u->port && i < u->nnodes; i++)
        for (int k = 0; k < b->m->nodes[u->node[i]].nin; k++) {
            int t = b->m->nodes[u->node[i]].in[k], from = b->maker[t];

            if (from >= 0 && b->out->unit_of[from] != unit)
                u->port[u->nports++] = (struct oracle_port){
                    i, k, u->part->nodes[i].in[k], b->out->unit_of[from],
                    number_there(b, b->out->unit_of[from], t)};
        }
}

/* ---- classes ---------------------------------------------------------- */

static bool same_ids(const int *a, const int *b, int n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static bool same_tensor(const struct pdl_tensor *a, const struct pdl_tensor *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

static bool same_unit(const struct oracle_unit *a, const struct oracle_unit *b)
{
    const struct pdl_model *p = a->part, *q = b->part;

    if (p->nnodes != q->nnodes || p->ntensors != q->ntensors ||
        a->last != b->last || a->nports != b->nports)
        return false;
    for (int i = 0; i < p->nnodes; i++) {
        const struct pdl_node *x = &p->nodes[i], *y = &q->nodes[i];

        if (x->op != y->op || x->nin != y->nin || x->nout != y->nout ||
            x->nweights != y->nweights ||
            !oracle_same_attr(&x->attr, &y->attr) ||
            !same_ids(x->in, y->in, x->nin) ||
            !same_ids(x->out, y->out, x->nout) ||
            !same_ids(x->weights, y->weights, x->nweights))
            return false;
    }
    for (int t = 0; t < p->ntensors; t++)
        if (!same_tensor(&p->tensors[t], &q->tensors[t]) ||
            a->gradients[t] != b->gradients[t])
            return false;
    return true;
}

static void find_class(struct oracle_units *us, int unit)
{
    struct oracle_unit *u = &us->unit[unit];

    u->class = unit;
    for (int i = 0; i < unit; i++)
        if (us->unit[i].class == i && same_unit(&us->unit[i], u)) {
            u->class = i;
            return;
        }
}

/* ---- all of it -------------------------------------------------------- */

/* Is there but one tensor that earlier nodes make, and this or later ones
 * read? */
static bool find_narrow(struct build *b)
{
    const struct pdl_model *m = b->m;
    int *last = PDL_NEW(b->arena, int, m->ntensors + 1);

    b->out->narrow = PDL_NEW(b->arena, bool, m->nnodes + 1);
    if (!last || !b->out->narrow)
        return false;
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            last[m->nodes[i].in[k]] = i;
    for (int i = 1; i < m->nnodes; i++) {
        int crossing = 0;

        for (int t = 0; t < m->ntensors && crossing < 2; t++)
            crossing += b->maker[t] >= 0 && b->maker[t] < i && last[t] >= i;
        b->out->narrow[i] = crossing == 1;
    }
    return true;
}

static bool start(struct build *b)
{
    const struct pdl_model *m = b->m;

    b->maker = PDL_NEW(b->arena, int, m->ntensors + 1);
    b->local = PDL_NEW(b->arena, int, m->ntensors + 1);
    b->wants = PDL_NEW(b->arena, bool, m->ntensors + 1);
    b->read = PDL_NEW(b->arena, bool, m->ntensors + 1);
    b->out->unit_of = PDL_NEW(b->arena, int, m->nnodes + 1);
    if (!b->maker || !b->local || !b->wants || !b->read || !b->out->unit_of)
        return false;
    for (int t = 0; t < m->ntensors; t++)
        b->maker[t] = b->local[t] = -1;
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];
        bool wants = false;

        for (int k = 0; k < n->nin; k++)
            wants = wants || b->wants[n->in[k]];
        for (int k = 0; k < n->nweights; k++)
            wants =
                wants || m->tensors[n->weights[k]].kind == PDL_TENSOR_WEIGHT;
        for (int k = 0; k < n->nout; k++) {
            b->maker[n->out[k]] = i;
            b->wants[n->out[k]] = wants;
        }
    }
    return find_narrow(b);
}

static bool list_nodes(struct build *b)
{
    struct oracle_units *us = b->out;
    int *count;

    us->unit = PDL_NEW(b->arena, struct oracle_unit, us->n + 1);
    count = PDL_NEW(b->arena, int, b->m->nnodes + 1);
    if (!us->unit || !count)
        return false;
    for (int i = 0; i < b->m->nnodes; i++)
        us->unit[us->unit_of[i]].nnodes++;
    for (int u = 0; u < us->n; u++) {
        us->unit[u].node = count;
        count += us->unit[u].nnodes;
        us->unit[u].nnodes = 0;
    }
    for (int i = 0; i < b->m->nnodes; i++) {
        struct oracle_unit *u = &us->unit[us->unit_of[i]];

        u->node[u->nnodes++] = i;
    }
    return true;
}

/* The loss reads what no layer does. */
static void find_last(struct build *b)
{
    const struct pdl_model *m = b->m;
    bool *read = b->read;

    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            read[m->nodes[i].in[k]] = true;
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nout; k++)
            if (!read[m->nodes[i].out[k]])
                b->out->unit[b->out->unit_of[i]].last = true;
}

enum pdl_status oracle_units_make(pdl_arena *a, const struct pdl_model *model,
                                  struct oracle_units *out, struct pdl_err *err)
{
    struct build b = {.arena = a, .m = model, .out = out};

    *out = (struct oracle_units){.model = model};
    if (model->nnodes < 1)
        return pdl_fail(err, PDL_EINVAL, "%s has no layers", model->name);
    if (!start(&b))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (strcmp(model->kind, "transformer") == 0)
        by_blocks(&b);
    else
        by_layers(&b);
    if (b.failed || !list_nodes(&b))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    find_last(&b);
    for (int u = 0; u < out->n && !b.failed; u++) {
        make_part(&b, u);
        if (!b.failed)
            forget(&b, &out->unit[u]);
    }
    for (int u = 0; u < out->n && !b.failed; u++) {
        make_ports(&b, u);
        find_class(out, u);
    }
    return b.failed ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}
