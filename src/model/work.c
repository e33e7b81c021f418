/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network costs: totals, and the work of one node in one pass.
 *
 * FLOPs of backward: a contraction y = sum x w has dx = sum dy w and
 * dw = sum x dy, each as dear as y. Where both operands are activations
 * (matmul, attention) both gradients belong to backward-data: twice forward,
 * and nothing in backward-weights.
 *
 * Bytes are the least an operator moves when nothing stays in a cache between
 * operators: each operand read once, each result written once, views none,
 * tables only the rows asked for. */
#include "model_priv.h"

#include <stdio.h>
#include <string.h>

/* Segments tile the nodes: the last one that starts at or before the node
 * holds it, since empty ones start where the next does. */
static int segment_of(const struct pdl_model *m, int node)
{
    int low = 0, high = m->nsegments - 1;

    while (low < high) {
        int mid = low + (high - low + 1) / 2;

        if (m->segments[mid].first_node <= node)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

int64_t pdl_node_repeat(const struct pdl_model *m, int node)
{
    return m->segments[segment_of(m, node)].repeat;
}

const char *pdl_node_name(const struct pdl_model *m, int node, int64_t round,
                          char *buf, size_t size)
{
    const struct pdl_segment *seg = &m->segments[segment_of(m, node)];
    const char *name = m->nodes[node].name, *mark = strstr(name, "{i}");

    if (size == 0)
        return buf;
    buf[0] = '\0';
    for (size_t n = 0; n < size; mark = strstr(name, "{i}")) {
        if (!mark) {
            snprintf(buf + n, size - n, "%s", name);
            break;
        }
        n += (size_t)snprintf(
            buf + n, size - n, "%.*s%llu", (int)(mark - name), name,
            (unsigned long long)seg->first_index + (unsigned long long)round);
        name = mark + 3;
    }
    return buf;
}

int64_t pdl_node_parameters(const struct pdl_model *m, int node)
{
    const struct pdl_node *n = &m->nodes[node];
    int64_t sum = 0;

    for (int i = 0; i < n->nweights; i++) {
        const struct pdl_tensor *t = &m->tensors[n->weights[i]];

        if (t->kind == PDL_TENSOR_WEIGHT &&
            !pdl_add64(sum, pdl_tensor_elements(t), &sum))
            return INT64_MAX;
    }
    return sum;
}

/* *sum += a * b, false on overflow. */
static bool add_product(int64_t *sum, int64_t a, int64_t b)
{
    int64_t p;

    return pdl_mul64(a, b, &p) && pdl_add64(*sum, p, sum);
}

static bool forward_flops(const struct pdl_model *m, int node, int64_t *flops)
{
    const struct pdl_node *n = &m->nodes[node];
    struct model_operands operands;

    *flops = 0;
    if (!n->op->flops)
        return true;
    model_operands(m->tensors, n, &operands);
    return n->op->flops(&operands.use, &m->tensors[n->out[0]], flops);
}

static bool add_tensors(const struct pdl_model *m, struct pdl_model_totals *t)
{
    int64_t *const sums[] = {
        [PDL_TENSOR_WEIGHT] = &t->parameters,
        [PDL_TENSOR_BUFFER] = &t->buffers,
        [PDL_TENSOR_ACTIVATION] = &t->activations,
        [PDL_TENSOR_CONST] = NULL,
    };

    for (int i = 0; i < m->ntensors; i++) {
        const struct pdl_tensor *x = &m->tensors[i];
        int64_t *sum = sums[x->kind];

        if (sum && !add_product(sum, pdl_tensor_elements(x),
                                m->segments[x->segment].repeat))
            return false;
    }
    return true;
}

static bool add_nodes(const struct pdl_model *m, struct pdl_model_totals *t)
{
    for (int s = 0; s < m->nsegments; s++) {
        const struct pdl_segment *seg = &m->segments[s];
        int64_t flops = 0, one;

        for (int i = 0; i < seg->nnodes; i++)
            if (!forward_flops(m, seg->first_node + i, &one) ||
                !pdl_add64(flops, one, &flops))
                return false;
        if (!add_product(&t->forward_flops, flops, seg->repeat) ||
            !add_product(&t->nodes, seg->nnodes, seg->repeat))
            return false;
    }
    return true;
}

enum pdl_status pdl_model_totals(const struct pdl_model *m,
                                 struct pdl_model_totals *out,
                                 struct pdl_err *err)
{
    struct pdl_model_totals t = {0};

    if (!add_tensors(m, &t) || !add_nodes(m, &t))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: its totals are too large to count", m->name);
    *out = t;
    return PDL_OK;
}

/* ---- one node --------------------------------------------------------- */

/* Elements, counted apart: those that come once a sample, once a batch. */
struct elements {
    int64_t inputs, outputs, weights;
    int64_t masks; /* one byte each */
};

/* Weights a pass touches: of a table or of experts only what is asked for. */
static bool touched(const struct pdl_node *n, int64_t batch, int64_t outputs,
                    const struct pdl_tensor *x, int64_t *weights)
{
    int64_t visits, all;

    if (!(n->op->flags & PDL_OP_SPARSE_ROWS) || n->nweights == 0)
        return true;
    if (n->attr.experts) {
        if (!pdl_mul64(batch, model_prod(x, 0, x->rank - 1), &visits) ||
            !pdl_mul64(visits, n->attr.topk, &visits))
            return false;
        all = *weights / n->attr.experts;
        if (visits < n->attr.experts)
            *weights = all * visits;
        return true;
    }
    if (outputs < *weights)
        *weights = outputs;
    return true;
}

static bool count_elements(const struct pdl_model *m, const struct pdl_node *n,
                           int64_t batch, struct elements *e)
{
    const struct pdl_tensor *x = n->nin ? &m->tensors[n->in[0]] : NULL;

    *e = (struct elements){0};
    for (int i = 0; i < n->nin; i++) {
        const struct pdl_tensor *t = &m->tensors[n->in[i]];
        bool data =
            t->kind == PDL_TENSOR_INPUT || t->kind == PDL_TENSOR_ACTIVATION;

        if (!add_product(&e->inputs, pdl_tensor_elements(t), data ? batch : 1))
            return false;
    }
    for (int i = 0; i < n->nout; i++)
        if (!add_product(&e->outputs,
                         pdl_tensor_elements(&m->tensors[n->out[i]]), batch))
            return false;
    for (int i = 0; i < n->nweights; i++)
        if (!pdl_add64(e->weights,
                       pdl_tensor_elements(&m->tensors[n->weights[i]]),
                       &e->weights))
            return false;
    e->masks = n->op->flags & PDL_OP_SAVES_MASK ? e->outputs : 0;
    return !x || touched(n, batch, e->outputs, x, &e->weights);
}

struct moved {
    int64_t read, written, masks;
};

static bool forward_moves(const struct pdl_node *n, const struct elements *e,
                          struct moved *mv)
{
    bool table = n->op->flags & PDL_OP_SPARSE_ROWS && n->nweights == 0;

    /* A gather reads of its input what it writes. */
    mv->read = table && e->outputs < e->inputs ? e->outputs : e->inputs;
    mv->written = e->outputs;
    return pdl_add64(mv->read, e->weights, &mv->read);
}

static bool data_moves(const struct pdl_node *n, const struct elements *e,
                       struct moved *mv)
{
    unsigned flags = n->op->flags;

    if (flags & PDL_OP_PASS)
        return true;
    mv->read = e->outputs;
    mv->written = e->inputs;
    mv->masks = e->masks;
    if (flags & PDL_OP_SPARSE_ROWS && n->nweights && !n->attr.experts) {
        *mv = (struct moved){0}; /* token ids have no gradient */
        return true;
    }
    return (!(flags & PDL_OP_SAVES_X) ||
            pdl_add64(mv->read, e->inputs, &mv->read)) &&
           (!(flags & PDL_OP_SAVES_Y) ||
            pdl_add64(mv->read, e->outputs, &mv->read)) &&
           pdl_add64(mv->read, e->weights, &mv->read);
}

static bool weight_moves(const struct pdl_node *n, const struct elements *e,
                         struct moved *mv)
{
    if (n->nweights == 0)
        return true;
    mv->written = e->weights;
    mv->read = e->outputs;
    return !(n->op->flags & (PDL_OP_SAVES_DW | PDL_OP_SAVES_X)) ||
           pdl_add64(mv->read, e->inputs, &mv->read);
}

static bool to_bytes(int64_t elements, int bits, int64_t *bytes)
{
    int64_t n;

    if (!pdl_mul64(elements, bits, &n) || !pdl_add64(n, 7, &n))
        return false;
    *bytes = n / 8;
    return true;
}

/* Times forward: how much of a contraction a pass is. */
static int64_t share(const struct pdl_node *n, enum pdl_pass pass)
{
    bool two = n->op->flags & PDL_OP_TWO_OPERANDS;

    if (pass == PDL_FORWARD)
        return 1;
    if (pass == PDL_BACKWARD_DATA)
        return two ? 2 : 1;
    return two || n->nweights == 0 ? 0 : 1;
}

enum pdl_status pdl_node_work(const struct pdl_model *m, int node,
                              enum pdl_pass pass, int64_t batch,
                              enum pdl_dtype dtype, struct pdl_work *out,
                              struct pdl_err *err)
{
    static bool (*const moves[])(const struct pdl_node *,
                                 const struct elements *, struct moved *) = {
        [PDL_FORWARD] = forward_moves,
        [PDL_BACKWARD_DATA] = data_moves,
        [PDL_BACKWARD_WEIGHTS] = weight_moves,
    };
    const struct pdl_node *n = &m->nodes[node];
    struct moved mv = {0};
    struct pdl_work w = {0};
    struct elements e;
    int bits = pdl_dtype_bits(dtype);

    if (!forward_flops(m, node, &w.flops) ||
        !pdl_mul64(w.flops, share(n, pass), &w.flops) ||
        !pdl_mul64(w.flops, batch, &w.flops) ||
        !count_elements(m, n, batch, &e))
        goto overflow;
    if (!(n->op->flags & PDL_OP_VIEW) &&
        (!moves[pass](n, &e, &mv) || !to_bytes(mv.read, bits, &w.read_bytes) ||
         !to_bytes(mv.written, bits, &w.write_bytes) ||
         !pdl_add64(w.read_bytes, mv.masks, &w.read_bytes)))
        goto overflow;
    *out = w;
    return PDL_OK;
overflow:
    return pdl_fail(err, PDL_EINVAL, "%.100s: its work is too large to count",
                    n->name);
}
