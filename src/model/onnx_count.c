/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stored tensors are parameters and which are buffers.
 *
 * ONNX does not say: a weight may be an initializer, a Constant, the output of
 * ConstantOfShape or a graph input without a value, and reach its layer
 * through any number of reshapes. So the readers decide. Each operator says
 * what it takes each input for (the letters of onnx_ops.c); these demands run
 * backwards through operators that only move data, and what arrives at a
 * stored tensor settles it. A tensor counts once, however many read it.
 *
 *   parameter  weight of a layer, table of an embedding, or an element-wise
 *              operand of more than one element beside data
 *   buffer     running statistics, scales and zero points, masks (added before
 *              a softmax, or made a boolean), indices into a table (position
 *              ids), tables that meet positions instead of data (alibi slopes,
 *              rotary frequencies)
 *   neither    scalars, shapes, axes, bounds, constants nobody uses
 *
 * In a training graph the parameters are the inputs that have a gradient. */
#include "onnx_priv.h"

enum {
    D_WEIGHT = 1,  /* weight of a layer, of any size */
    D_OPERAND = 2, /* element-wise; a scalar is none */
    D_INTEGER = 4, /* a weight although it is of integers */
    D_BUFFER = 8,  /* a scalar is none */
    D_SCALE = 16,  /* buffer of any size */
    D_MASK = 32,
    D_INDEX = 64,
};

enum { U_MUL = 1, U_OTHER = 2, U_SOFTMAX = 4 };

char model_onnx_role(const struct onnx_node *n, int i)
{
    const char *r = n->op ? n->op->roles : "e";
    size_t len = strlen(r);

    return (size_t)i < len ? r[i] : r[len - 1];
}

static bool is(const struct onnx_node *n, const char *type)
{
    return strcmp(n->type, type) == 0;
}

static bool any_is(const struct onnx_node *n, const char *const *types)
{
    for (int i = 0; types[i]; i++)
        if (is(n, types[i]))
            return true;
    return false;
}

static struct onnx_value *value(const struct onnx_graph *g,
                                const struct onnx_node *n, int i)
{
    return i < n->nin && n->in[i] >= 0 ? &g->values[n->in[i]] : NULL;
}

static int64_t elements_of(const struct onnx_graph *g, int id)
{
    const struct onnx_value *v = &g->values[id];

    return v->elements >= 0 ? v->elements : model_onnx_elements(&g->shape[id]);
}

/* Tokens, positions and masks come in these types, quantised data does not. */
static bool positions(int type)
{
    return type == ONNX_INT64 || type == ONNX_INT32 || type == ONNX_BOOL ||
           type == ONNX_STRING;
}

/* ---- forward: what depends on what ------------------------------------ */

/* Constant by lineage: bounds and shapes may be computed, the data not. */
static bool constant_node(const struct onnx_graph *g, const struct onnx_node *n)
{
    bool any = false, side = true;

    if (n->nbodies > 0 || n->nin == 0)
        return false;
    for (int i = 0; i < n->nin; i++) {
        const struct onnx_value *v = value(g, n, i);
        char r = model_onnx_role(n, i);

        if (!v)
            continue;
        if (r == '.') {
            side = side && v->constant;
            continue;
        }
        if (!v->constant)
            return false;
        any = true;
    }
    return any || side;
}

/* Data, as opposed to positions and shapes computed beside it. */
static bool feature_node(const struct onnx_graph *g, const struct onnx_node *n)
{
    static const char *const none[] = {"Shape", "Size", "Range",
                                       "ConstantOfShape", NULL};
    const struct onnx_value *first = value(g, n, 0);

    if (any_is(n, none))
        return false;
    if (!n->op || n->nbodies > 0 || n->nin == 0 || is(n, "OneHot"))
        return true;
    if (model_onnx_role(n, 0) == 't' && first && first->constant)
        return !positions(g->shape[n->in[0]].type);
    for (int i = 0; i < n->nin; i++) {
        const struct onnx_value *v = value(g, n, i);

        if (v && v->feature && model_onnx_role(n, i) != '.')
            return true;
    }
    return false;
}

static void forward(struct onnx_graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        struct onnx_value *v = &g->values[i];

        v->constant =
            v->kind == ONNX_STORED || (v->kind == ONNX_INPUT && !v->data);
        v->feature = v->kind == ONNX_INPUT
                         ? v->data && !positions(g->shape[i].type)
                         : v->kind == ONNX_MADE && v->node < 0;
        v->demand = v->use = 0;
    }
    for (int i = 0; i < g->nnodes; i++) {
        const struct onnx_node *n = &g->nodes[i];
        bool constant = constant_node(g, n), feature = feature_node(g, n);

        for (int k = 0; k < n->nout; k++)
            if (n->out[k] >= 0) {
                g->values[n->out[k]].constant = constant;
                g->values[n->out[k]].feature = feature && !constant;
            }
    }
}

/* ---- backward: what is done with a value further on ------------------- */

static bool scalar_beside(const struct onnx_graph *g, const struct onnx_node *n,
                          int i)
{
    for (int k = 0; k < n->nin; k++)
        if (k != i && n->in[k] >= 0 && elements_of(g, n->in[k]) != 1)
            return false;
    return true;
}

static unsigned use_of(const struct onnx_graph *g, const struct onnx_node *n,
                       int i, unsigned after)
{
    static const char *const sums[] = {"Add", "Sub",  "Where", "Max",
                                       "Min", "Clip", "Sum",   NULL};
    static const char *const soft[] = {"Softmax", "LogSoftmax", "BiasSoftmax",
                                       NULL};
    char r = model_onnx_role(n, i);

    if (r == '.' || after == 0)
        return 0;
    if (any_is(n, soft))
        return U_OTHER | U_SOFTMAX;
    if (r == 'p' || r == 'd')
        return after;
    if (is(n, "Mul") || is(n, "Div"))
        return U_MUL | (scalar_beside(g, n, i) ? after & U_SOFTMAX : 0);
    return U_OTHER | (any_is(n, sums) ? after & U_SOFTMAX : 0);
}

/* What a graph or a body gives away is used; what ends as a bound or a shape
 * is not. */
static void backward_uses(struct onnx_graph *g)
{
    for (int i = 0; i < g->noutputs; i++)
        g->values[g->outputs[i]].use = U_OTHER;
    for (int i = 0; i < g->nnodes; i++)
        for (int b = 0; b < g->nodes[i].nbodies; b++)
            for (int k = 0; k < g->nodes[i].bodies[b].nout; k++)
                g->values[g->nodes[i].bodies[b].out[k]].use = U_OTHER;
    for (int k = 0; k < g->nnodes; k++) {
        const struct onnx_node *n = &g->nodes[g->nnodes - 1 - k];
        unsigned after = 0;

        for (int i = 0; i < n->nout; i++)
            if (n->out[i] >= 0)
                after |= g->values[n->out[i]].use;
        for (int i = 0; i < n->nin; i++)
            if (n->in[i] >= 0)
                g->values[n->in[i]].use |= use_of(g, n, i, after);
    }
}

/* ---- backward: demands ------------------------------------------------ */

/* One node on the way back. */
struct back {
    struct onnx_graph *g;
    const struct onnx_node *n;
    unsigned out, use; /* of its outputs */
    bool constant;
};

static bool beside_data(const struct back *b, int i)
{
    for (int k = 0; k < b->n->nin; k++) {
        const struct onnx_value *v = value(b->g, b->n, k);

        if (k != i && v && v->feature)
            return true;
    }
    return false;
}

/* The node that makes the other operand of an addition, behind casts. */
static const struct onnx_node *maker(const struct back *b, int i)
{
    int id = b->n->nin == 2 ? b->n->in[1 - i] : -1;

    for (int hops = 0; id >= 0 && hops < 8; hops++) {
        const struct onnx_node *m;

        if (b->g->values[id].node < 0)
            return NULL;
        m = &b->g->nodes[b->g->values[id].node];
        if (!is(m, "Cast") && !is(m, "Identity"))
            return m;
        id = m->nin > 0 ? m->in[0] : -1;
    }
    return NULL;
}

/* A bias: added to the product with a weight, as long as the product's last
 * dimension. */
static bool is_bias(const struct back *b, int i)
{
    const struct onnx_node *m = is(b->n, "Add") ? maker(b, i) : NULL;
    const struct onnx_shape *y, *bias = &b->g->shape[b->n->in[i]];
    const struct onnx_value *w = m && m->nin > 1 ? value(b->g, m, 1) : NULL;

    if (!w || !w->constant || !strstr(m->type, "MatMul") || m->nout < 1)
        return false;
    y = m->out[0] >= 0 ? &b->g->shape[m->out[0]] : bias;
    return bias->rank > 0 && y->rank > 0 &&
           bias->dim[bias->rank - 1] == y->dim[y->rank - 1] &&
           model_onnx_elements(bias) == bias->dim[bias->rank - 1];
}

/* The scale of a weight times the scale that dynamic quantisation found. */
static bool quantised_beside(const struct back *b, int i)
{
    const struct onnx_node *m = maker(b, i);

    return m && is(m, "DynamicQuantizeLinear");
}

static unsigned element_wise(const struct back *b, int i)
{
    const struct onnx_shape *s = &b->g->shape[b->n->in[i]];

    if (!b->g->values[b->n->in[i]].constant || b->use == 0)
        return 0;
    if (model_onnx_int_type(s->type))
        return b->out;
    if (is_bias(b, i))
        return D_WEIGHT;
    if (is(b->n, "Mul") && quantised_beside(b, i))
        return D_SCALE;
    if (b->use & U_SOFTMAX && s->rank != 1 &&
        (is(b->n, "Add") || is(b->n, "Sub") || is(b->n, "Where") ||
         is(b->n, "Sum")))
        return D_MASK;
    return beside_data(b, i) ? D_OPERAND : D_BUFFER;
}

/* inv_freq times positions: an outer product is no layer. */
static unsigned weight(const struct back *b, int i)
{
    const struct onnx_shape *s = &b->g->shape[b->n->in[i]];
    bool outer = is(b->n, "MatMul") && s->rank > 1 &&
                 s->dim[s->rank - (i == 0 ? 1 : 2)] == 1;

    return outer && !beside_data(b, i) ? D_BUFFER : D_WEIGHT;
}

/* The table of an embedding. A scalar index only picks a part; what is
 * multiplied on afterwards is a table of rotations. */
static unsigned table(const struct back *b, int i)
{
    int id = b->n->in[i];
    const struct onnx_value *index = value(b->g, b->n, 1);
    bool fused = strcmp(b->n->op->roles, "ti") != 0;

    if (fused)
        return D_WEIGHT;
    if (positions(b->g->shape[id].type) || !index)
        return b->out;
    if (index->constant && elements_of(b->g, b->n->in[1]) == 1)
        return b->out;
    if (model_onnx_int_type(b->g->shape[id].type))
        return D_WEIGHT | D_INTEGER; /* dequantised after the lookup */
    if (b->constant && b->out == 0)
        return 0;
    return (b->use & (U_MUL | U_OTHER)) == U_MUL ? D_BUFFER : D_WEIGHT;
}

static unsigned joined(const struct back *b, int i)
{
    const struct onnx_value *v = &b->g->values[b->n->in[i]];

    if (!v->constant || model_onnx_int_type(b->g->shape[b->n->in[i]].type))
        return b->out;
    return b->out | (beside_data(b, i) ? D_OPERAND : 0);
}

static unsigned to_boolean(const struct back *b)
{
    return is(b->n, "Cast") && model_onnx_int(b->n, "to", 0) == ONNX_BOOL
               ? D_MASK
               : 0;
}

static unsigned dequantised(const struct back *b)
{
    return b->out & (D_WEIGHT | D_OPERAND) ? b->out | D_INTEGER : b->out;
}

/* Comparisons make masks; a vector of integers there is a shape. */
static unsigned compared(const struct back *b, int i)
{
    const struct onnx_shape *s = &b->g->shape[b->n->in[i]];

    if (b->constant)
        return b->out ? D_MASK : 0;
    return model_onnx_int_type(s->type) && s->rank < 2 ? 0 : D_BUFFER;
}

/* Group norm before opset 18 is an instance norm of reshaped data with a
 * neutral scale and shift: these two are not learned. */
static bool neutral(const struct back *b, int i)
{
    const struct onnx_value *v = &b->g->values[b->n->in[i]];
    const struct onnx_shape *s = &v->stored;

    if (!is(b->n, "InstanceNormalization") || i < 1 || i > 2 ||
        v->kind != ONNX_STORED || s->nval < 1 || b->n->in[0] < 0 ||
        b->g->values[b->n->in[0]].node < 0 ||
        !is(&b->g->nodes[b->g->values[b->n->in[0]].node], "Reshape"))
        return false;
    for (int k = 0; k < s->nval; k++)
        if (s->val[k] != (i == 1 ? 1 : 0))
            return false;
    return true;
}

/* Stored coordinates that a small network turns into weights. */
static bool is_grid(const struct back *b, int i)
{
    return i == 0 && is(b->n, "MatMul") && b->out & D_WEIGHT &&
           b->g->shape[b->n->in[0]].rank > 2;
}

/* What node b wants its input i to be. */
static unsigned demand(const struct back *b, int i)
{
    const struct onnx_value *first = value(b->g, b->n, 0);
    char r = model_onnx_role(b->n, i);

    switch (r) {
    case '.':
    case 'o':
        return 0;
    case 's':
    case 'b':
        return D_SCALE;
    case 'd':
        return dequantised(b);
    case 't':
        return table(b, i);
    case 'i':
        return first && first->constant &&
                       !positions(b->g->shape[b->n->in[0]].type) &&
                       (!b->constant || b->out)
                   ? D_INDEX
                   : 0;
    case 'I':
        return D_INDEX;
    case 'k':
        return compared(b, i);
    case 'p':
        return b->out | to_boolean(b);
    default:
        break;
    }
    if (b->constant && (b->out || b->use == 0 || !strchr("wqn", r)))
        return is_grid(b, i) ? D_BUFFER : b->out;
    switch (r) {
    case 'w':
        return neutral(b, i) ? 0 : weight(b, i);
    case 'q':
    case 'n':
        return D_WEIGHT | D_INTEGER;
    case 'e':
        return b->n->op ? element_wise(b, i) : D_OPERAND;
    case 'c':
        return joined(b, i);
    case 'm':
        return D_MASK;
    default:
        return 0;
    }
}

/* Packed weights count by what they stand for. */
static void unpack(struct onnx_value *v, const struct onnx_node *n)
{
    int64_t k = model_onnx_int(n, "K", 0), m = model_onnx_int(n, "N", 0), e;

    if (k > 0 && m > 0 && pdl_mul64(k, m, &e))
        v->elements = e;
}

static void pass_bodies(struct onnx_graph *g, const struct onnx_node *n)
{
    int skip = is(n, "Loop") ? 1 : 0;

    for (int b = 0; b < n->nbodies; b++) {
        const struct onnx_body *body = &n->bodies[b];

        for (int k = 0; k < n->nout && k + skip < body->nout; k++)
            if (n->out[k] >= 0)
                g->values[body->out[k + skip]].demand |=
                    g->values[n->out[k]].demand;
        for (int k = 0; k < body->nin; k++) {
            const struct onnx_value *in = &g->values[body->in[k]];

            if (in->outer >= 0)
                g->values[in->outer].demand |= in->demand;
        }
    }
}

static void backward_demands(struct onnx_graph *g)
{
    for (int k = g->nnodes - 1; k >= 0; k--) {
        const struct onnx_node *n = &g->nodes[k];
        struct back b = {.g = g, .n = n};

        for (int i = 0; i < n->nout; i++)
            if (n->out[i] >= 0) {
                b.out |= g->values[n->out[i]].demand;
                b.use |= g->values[n->out[i]].use;
                b.constant = g->values[n->out[i]].constant;
            }
        for (int i = 0; i < n->nin; i++) {
            if (n->in[i] < 0)
                continue;
            g->values[n->in[i]].demand |= demand(&b, i);
            if (model_onnx_role(n, i) == 'n')
                unpack(&g->values[n->in[i]], n);
        }
        pass_bodies(g, n);
    }
}

/* ---- verdicts --------------------------------------------------------- */

static bool is_fill(const struct onnx_graph *g, const struct onnx_value *v)
{
    return v->node >= 0 && v->constant &&
           is(&g->nodes[v->node], "ConstantOfShape");
}

static enum pdl_tensor_kind verdict(const struct onnx_graph *g, int id)
{
    const struct onnx_value *v = &g->values[id];
    unsigned d = v->demand;
    bool whole = model_onnx_int_type(g->shape[id].type);
    bool many = elements_of(g, id) > 1;

    if (whole && g->shape[id].rank < 2) /* a shape on its way through a cast */
        d &= ~(unsigned)D_BUFFER;
    if (is_fill(g, v)) /* written, not stored: a mask of them is computed */
        d &= D_WEIGHT | D_OPERAND | D_SCALE;
    if (d & D_WEIGHT)
        return PDL_TENSOR_WEIGHT;
    if (d & D_OPERAND && many && (!whole || d & D_INTEGER))
        return PDL_TENSOR_WEIGHT;
    if (d & D_SCALE || (d & (D_BUFFER | D_MASK | D_INDEX) && many))
        return PDL_TENSOR_BUFFER;
    return PDL_TENSOR_CONST;
}

static void settle(struct onnx_graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        struct onnx_value *v = &g->values[i];
        bool source = v->kind == ONNX_STORED || is_fill(g, v) ||
                      (v->kind == ONNX_INPUT && !v->data);

        v->role = source ? verdict(g, i) : PDL_TENSOR_INPUT;
        if (source && elements_of(g, i) < 0)
            v->role = PDL_TENSOR_CONST;
    }
}

/* What the output called `name` is the gradient of; -1: it is none. */
static int gradient_of(const struct onnx_graph *g, const char *name)
{
    static const char *const ends[] = {"_grad", "_grad.accumulation.out"};
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t cut = strlen(ends[i]);
        ProtobufCBinaryData b = {0, (uint8_t *)(uintptr_t)name};
        int id;

        if (len <= cut || strcmp(name + len - cut, ends[i]) != 0)
            continue;
        b.len = len - cut;
        id = model_onnx_lookup(g, 0, b, false);
        if (id >= 0 && g->values[id].kind != ONNX_MADE)
            return id;
    }
    return -1;
}

/* In a training graph the gradients say what is learned. */
static void training(struct onnx_graph *g)
{
    bool any = false;

    for (int i = 0; i < g->noutputs; i++)
        any = any || gradient_of(g, g->values[g->outputs[i]].name) >= 0;
    g->training = any;
    if (!any)
        return;
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i].role == PDL_TENSOR_WEIGHT)
            g->values[i].role = PDL_TENSOR_CONST;
    for (int i = 0; i < g->noutputs; i++) {
        int id = gradient_of(g, g->values[g->outputs[i]].name);

        if (id >= 0 && elements_of(g, id) >= 0)
            g->values[id].role = PDL_TENSOR_WEIGHT;
    }
}

/* ---- which inputs are data -------------------------------------------- */

/* Back through what only moves data. */
static int lineage(const struct onnx_graph *g, int id)
{
    for (int hops = 0; hops < 64 && g->values[id].node >= 0; hops++) {
        const struct onnx_node *n = &g->nodes[g->values[id].node];

        if (n->nin < 1 || n->in[0] < 0 || model_onnx_role(n, 0) != 'p')
            break;
        id = n->in[0];
    }
    return id;
}

/* Marks what is read as the data of a layer that has weights of its own: of a
 * product of two candidates the first is the data. */
static void mark_layer_data(struct onnx_graph *g)
{
    static const char *const products[] = {"MatMul", "Gemm", "FusedMatMul",
                                           NULL};

    for (int i = 0; i < g->nnodes; i++) {
        const struct onnx_node *n = &g->nodes[i];
        bool product = any_is(n, products) && n->nin > 1 && n->in[1] >= 0 &&
                       g->values[lineage(g, n->in[1])].node < 0;

        for (int k = 0; k < n->nin && n->op; k++)
            if (n->in[k] >= 0 && strchr(n->op->roles, 'w') &&
                (model_onnx_role(n, k) == 'x' || (product && k == 0)))
                g->values[lineage(g, n->in[k])].layer_data = true;
    }
}

/* The first input that is not a switch. */
static int first_data(const struct onnx_graph *g)
{
    for (int i = 0; i < g->ninputs; i++) {
        const struct onnx_shape *s = &g->shape[g->inputs[i]];

        if (s->type != ONNX_BOOL && s->rank != 0)
            return g->inputs[i];
    }
    return g->ninputs > 0 ? g->inputs[0] : -1;
}

/* An input can be a weight when all its dimensions are known in the file, it
 * is not the first data, and it does not look like that. */
static bool may_be_weight(const struct onnx_graph *g, int id, int data)
{
    const struct onnx_value *v = &g->values[id];
    const struct onnx_shape *s = &g->shape[id], *first;
    const Onnx__Shape *declared =
        v->type && v->type->tensor_type ? v->type->tensor_type->shape : NULL;

    if (id == data || !declared || model_onnx_elements(s) < 0)
        return false;
    for (size_t i = 0; i < declared->n_dim; i++)
        if (!declared->dim[i]->has_value || declared->dim[i]->value < 0)
            return false;
    if (s->type == ONNX_INT64 || s->type == ONNX_INT32 ||
        s->type == ONNX_STRING)
        return strchr(v->name, '.') != NULL; /* a module's buffer */
    first = &g->shape[data];
    if (s->rank == first->rank && s->rank > 0 &&
        memcmp(s->dim, first->dim, (size_t)s->rank * sizeof *s->dim) == 0)
        return false;
    return !v->layer_data;
}

static void decide(struct onnx_graph *g)
{
    forward(g);
    backward_uses(g);
    backward_demands(g);
    for (int i = 0; i < g->nnodes; i++)
        if (g->nodes[i].nbodies > 0) { /* what enters a loop comes out late */
            backward_demands(g);
            break;
        }
    settle(g);
}

enum pdl_status model_onnx_count(struct onnx_graph *g)
{
    int stored = 0, given = 0, data = first_data(g);

    mark_layer_data(g);
    for (int i = 0; i < g->ninputs; i++)
        g->values[g->inputs[i]].data = !may_be_weight(g, g->inputs[i], data);
    decide(g);
    for (int i = 0; i < g->nvalues; i++) {
        const struct onnx_value *v = &g->values[i];

        if (v->role != PDL_TENSOR_WEIGHT)
            continue;
        stored += v->kind == ONNX_STORED && v->tensor;
        given += v->kind == ONNX_INPUT;
    }
    if (given > 0 && stored > given) { /* a file with its weights in it */
        for (int i = 0; i < g->ninputs; i++)
            g->values[g->inputs[i]].data = true;
        decide(g);
    }
    training(g);
    return PDL_OK;
}
