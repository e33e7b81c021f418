/* SPDX-License-Identifier: Apache-2.0
 *
 * What all backends share: the table of backends, how arrays are stored, and
 * which operand of a call is what. The order of operands is that in which
 * src/plan/forward.c and backward.c write them. */
#include "train/backends/kernels.h"

#include <math.h>
#include <string.h>

static const struct train_backend *const backends[] = {
    &train_ref,
#ifdef PDL_HAVE_DNNL
    &train_cpu,
#endif
};

const struct train_backend *train_backend_at(int i)
{
    int n = (int)(sizeof backends / sizeof backends[0]);

    return i >= 0 && i < n ? backends[i] : NULL;
}

const struct train_backend *train_backend_find(const char *name)
{
    for (int i = 0; train_backend_at(i); i++)
        if (strcmp(train_backend_at(i)->name, name) == 0)
            return train_backend_at(i);
    return NULL;
}

/* A tensor needs a gradient when a node that makes it, or one before that,
 * learns. Nodes are in topological order, so looking backwards from the maker
 * ends; models have a few hundred nodes and this is asked once a call. */
bool train_wants_grad(const struct pdl_model *m, int tensor)
{
    if (!pdl_dtype_learns(m->tensors[tensor].dtype))
        return false;
    for (int i = m->nnodes - 1; i >= 0; i--) {
        const struct pdl_node *n = &m->nodes[i];
        bool mine = false;

        for (int k = 0; k < n->nout; k++)
            mine = mine || n->out[k] == tensor;
        if (!mine)
            continue;
        for (int k = 0; k < n->nweights; k++)
            if (m->tensors[n->weights[k]].kind == PDL_TENSOR_WEIGHT)
                return true;
        for (int k = 0; k < n->nin; k++)
            if (train_wants_grad(m, n->in[k]))
                return true;
        return false;
    }
    return false;
}

int train_gradient_of(const struct train_call *c, int i)
{
    int o = 0;

    if (!train_wants_grad(c->model, c->node->in[i]))
        return -1;
    for (int k = 0; k < i; k++)
        o += train_wants_grad(c->model, c->node->in[k]);
    return o < c->nout ? o : -1;
}

static int64_t head_width(const struct train_call *c)
{
    const struct pdl_model *m = c->model;

    if (c->node->attr.head_dim > 0)
        return c->node->attr.head_dim;
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];

        if (pdl_op_id(n->op) == PDL_ID_ATTENTION &&
            (n->in[0] == c->node->out[0] || n->in[1] == c->node->out[0]))
            return n->attr.head_dim;
    }
    return 0;
}

int64_t train_rotated(const struct train_call *c, int64_t *width)
{
    *width = head_width(c);
    return c->node->attr.features > 0 ? c->node->attr.features : *width;
}

double train_rope_step(const struct pdl_attr *a, int64_t e, int64_t d)
{
    double theta = a->theta > 0 ? a->theta : 10000;
    double step = pow(theta, -2.0 * (double)e / (double)d), turns, keep;

    if (!(a->scale > 0))
        return step;
    if (!(a->offset > 0) || !(a->beta > a->alpha))
        return step / a->scale;
    turns = a->offset * step / 6.283185307179586;
    keep = (turns - a->alpha) / (a->beta - a->alpha);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return keep * step + (1 - keep) * step / a->scale;
}

static bool is(const struct pdl_node *n, enum pdl_op_id id)
{
    return pdl_op_id(n->op) == id;
}

/* where has three operands, comparisons two; not is a comparison with 0. */
bool train_with_number(const struct pdl_node *n, double *number)
{
    int operands = n->nin + n->nweights;

    *number = n->attr.alpha;
    return is(n, PDL_ID_NOT) || (is(n, PDL_ID_WHERE) && operands == 2) ||
           (n->op->flags & PDL_OP_COMPARES && operands == 1);
}

const char *train_function(const struct pdl_node *n)
{
    return n->attr.by_tanh && is(n, PDL_ID_GELU) ? "gelu_tanh" : n->op->name;
}

double train_epsilon(const struct pdl_node *n)
{
    if (n->attr.epsilon > 0)
        return n->attr.epsilon;
    return pdl_op_id(n->op) == PDL_ID_RMS_NORM ? 1e-6 : 1e-5;
}

double train_momentum(const struct pdl_node *n)
{
    return n->attr.momentum > 0 ? n->attr.momentum : 0.1;
}

enum pdl_dtype train_places_type(const struct train_call *c)
{
    int64_t volume = 1;

    for (int i = 0; i < PDL_MAX_SPATIAL; i++)
        if (c->node->attr.kernel[i] > 0)
            volume *= c->node->attr.kernel[i];
    return volume <= UINT8_MAX && c->out[0].channels_last ? PDL_U8 : PDL_I32;
}

/* Half of the rows (of each direction, where both are seen) are for distances
 * one by one, the others for ranges that grow geometrically up to FAR, the
 * last for all beyond. */
int64_t train_distance_row(int64_t rows, bool causal, int64_t ahead)
{
    enum { FAR = 128 };
    int64_t n = ahead < 0 ? -ahead : ahead, base = 0, near, row;

    if (causal) {
        n = ahead > 0 ? 0 : n;
    } else {
        rows /= 2;
        base = ahead > 0 ? rows : 0;
    }
    near = rows / 2;
    if (n < near || near < 1)
        return base + (n < rows ? n : rows - 1);
    row = near +
          (int64_t)(log((double)n / (double)near) /
                    log((double)FAR / (double)near) * (double)(rows - near));
    return base + (row < rows ? row : rows - 1);
}

/* ---- arrays ------------------------------------------------------------- */

int64_t train_array_elements(const struct train_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->box.ndims; d++) {
        int64_t e = a->box.hi[d] - a->box.lo[d];

        if (e <= 0)
            return 0;
        if (!pdl_mul64(n, e, &n))
            return -1;
    }
    return n;
}

int64_t train_array_bytes(const struct train_array *a)
{
    int64_t n = train_array_elements(a);

    if (n < 0 || !pdl_mul64(n, pdl_dtype_bits(a->dtype) / 8, &n))
        return -1;
    return n;
}

void train_array_strides(const struct train_array *a, int64_t *stride)
{
    int n = a->box.ndims;
    int64_t s = 1;

    if (a->channels_last && n > 2) {
        stride[1] = 1;
        s = a->box.hi[1] - a->box.lo[1];
    }
    for (int d = n - 1; d >= 0; d--) {
        if (d == 1 && a->channels_last && n > 2)
            continue;
        stride[d] = s;
        s *= a->box.hi[d] - a->box.lo[d];
    }
}

/* ---- operands --------------------------------------------------------- */

static bool has_bias(const struct pdl_node *n)
{
    return n->nweights > 1 &&
           (is(n, PDL_ID_CONV) || is(n, PDL_ID_CONV_TRANSPOSE) ||
            is(n, PDL_ID_LINEAR));
}

static void forward_operands(const struct train_call *c,
                             struct train_operands *o)
{
    const struct pdl_node *n = c->node;

    if (c->part == 1 && is(n, PDL_ID_BATCH_NORM)) {
        o->nx = 1;
        o->sums = 1;
        o->w = 2;
        o->nw = c->nin - 2;
    } else if (c->part == 1) { /* y bias */
        o->y = 0;
        o->ny = 1;
        o->w = 1;
        o->nw = 1;
    } else {
        o->nx = n->nin;
        o->w = n->nin;
        o->nw = c->nin - n->nin;
    }
    if (c->nout > n->nout)
        o->aux_out = n->nout;
}

static void data_operands(const struct train_call *c, struct train_operands *o)
{
    const struct pdl_node *n = c->node;
    int i = n->nout;

    o->ndy = n->nout;
    if (is(n, PDL_ID_BATCH_NORM) && c->part == 0 && c->nin == 3) {
        o->x = 1;
        o->nx = 1;
        o->stats = 2;
        return;
    }
    if (c->part == 1)
        o->sums = i++;
    o->w = i;
    o->nw = has_bias(n) ? 1 : n->nweights;
    i += o->nw;
    if (n->op->flags & PDL_OP_SAVES_X) {
        o->x = i;
        o->nx = n->nin;
        i += n->nin;
    }
    if (n->op->flags & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK)) {
        o->y = i;
        o->ny = n->nout;
        i += n->nout;
    }
    if (c->part == 1)
        o->stats = i++;
    if (c->nin > i)
        o->aux = i;
}

static void weight_operands(const struct train_call *c,
                            struct train_operands *o)
{
    const struct pdl_node *n = c->node;
    int i = n->nin + n->nout;

    if (is(n, PDL_ID_BATCH_NORM) && c->nin == 1) {
        o->sums = 0;
        return;
    }
    o->nx = n->nin;
    o->dy = n->nin;
    o->ndy = n->nout;
    if (n->op->flags & PDL_OP_DW_READS_W) {
        o->w = i;
        o->nw = n->nweights;
        i += n->nweights;
    }
    if (c->nin > i)
        o->aux = i;
}

void train_operands(const struct train_call *c, struct train_operands *o)
{
    *o = (struct train_operands){
        .sums = -1, .stats = -1, .aux = -1, .aux_out = -1};
    if (!c->node)
        return;
    if (c->pass == PDL_FORWARD)
        forward_operands(c, o);
    else if (c->pass == PDL_BACKWARD_DATA)
        data_operands(c, o);
    else
        weight_operands(c, o);
}

/* ---- between elements ------------------------------------------------- */

/* What an element at this distance counts. */
static double cubic(double a, double x)
{
    x = fabs(x);
    return x < 1   ? ((a + 2) * x - (a + 3)) * x * x + 1
           : x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a
                   : 0;
}

int train_resize_taps(const struct pdl_attr *a, int64_t from, int64_t to,
                      int64_t y, int64_t *at, double *share)
{
    bool four = a->alpha < 0;
    int64_t first;
    double x;

    if (a->offset > 0) /* ends lie on ends */
        x = to > 1 ? (double)y * (double)(from - 1) / (double)(to - 1) : 0;
    else
        x = ((double)y + a->beta) * (double)from / (double)to - a->beta;
    if (!four)
        x = x < 0 ? 0 : x > (double)(from - 1) ? (double)(from - 1) : x;
    first = (int64_t)floor(x) - four;
    for (int i = 0; i < (four ? 4 : 2); i++) {
        double far = fabs(x - (double)(first + i));

        at[i] = first + i < 0 ? 0 : first + i < from ? first + i : from - 1;
        share[i] = four ? cubic(a->alpha, far) : 1 - far;
    }
    return four ? 4 : 2;
}

/* ---- distances -------------------------------------------------------- */

double train_slope(const struct pdl_attr *a, int64_t head)
{
    int64_t whole = 1; /* heads up to a power of two; the others between them */
    double step;

    if (!(a->alpha > 0))
        return 0;
    while (2 * whole <= a->heads)
        whole *= 2;
    step = head < whole ? a->alpha * (double)(head + 1) / (double)whole
                        : a->alpha * (double)(2 * (head - whole) + 1) /
                              (double)(2 * whole);
    return exp2(-step) * (a->beta > 0 ? a->beta : 1);
}

/* ---- which keys a query sees ------------------------------------------ */

/* The first of the places [lo,hi) of keys whose position is not before this. */
static int64_t not_before(const struct train_call *c, int64_t lo, int64_t hi,
                          int64_t position)
{
    if (!c->deal || c->keys_in_order)
        return position < lo ? lo : position > hi ? hi : position;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (train_position(c, mid) < position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void train_visible(const struct train_call *c, int64_t s0, int64_t s1,
                   int64_t t, int64_t *first, int64_t *end)
{
    const struct pdl_attr *a = &c->node->attr;
    int64_t at = train_position(c, t);

    *first = a->window ? not_before(c, s0, s1, at - a->window + 1) : s0;
    *end = a->causal   ? not_before(c, s0, s1, at + 1)
           : a->window ? not_before(c, s0, s1, at + a->window)
                       : s1;
    if (*end < *first)
        *end = *first;
}
