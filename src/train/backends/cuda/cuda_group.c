/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of calls as one kernel: a batch norm with the addition and the
 * rectifier behind it, and backward the way back; a norm of rows with the
 * additions around it; a product with the addition behind it; a convolution and
 * its rectifier; a gate and what it lets through. The groups that may come are
 * in src/plan/groups.c. */
#include "train/backends/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { MOST = 24 };

/* Operands of call i of the group where its slots are. */
static void *operand(const struct train_group *g, int slot, void *const *in,
                     void *const *out)
{
    if (slot < g->nin)
        return in[slot];
    return slot < g->nin + g->nout ? out[slot - g->nin] : NULL;
}

static void operands(const struct train_group *g, int call, void *const *in,
                     void *const *out, void **from, void **to)
{
    for (int k = 0; k < g->calls[call].nin; k++)
        from[k] = operand(g, g->in[call][k], in, out);
    for (int k = 0; k < g->calls[call].nout; k++)
        to[k] = operand(g, g->out[call][k], in, out);
}

static bool is(const struct train_group *g, int i, enum pdl_op_id id)
{
    return g->calls[i].node && pdl_op_id(g->calls[i].node->op) == id;
}

/* The slot as an input, as an output of the whole; -1: it is none. */
static int as_input(const struct train_group *g, int slot)
{
    return slot < g->nin ? slot : -1;
}

static int as_output(const struct train_group *g, int slot)
{
    return slot >= g->nin && slot < g->nin + g->nout ? slot - g->nin : -1;
}

static bool same_box(const struct train_group *g, int a, int b)
{
    return train_cuda_same_box(&g->slots[a], &g->slots[b]);
}

/* most: what it lets through. */
static bool is_rectifier(const struct train_group *g, int i, float *most)
{
    *most = is(g, i, PDL_ID_RELU6) ? 6 : INFINITY;
    return is(g, i, PDL_ID_RELU) || is(g, i, PDL_ID_RELU6);
}

/* ---- forward ---------------------------------------------------------- */

static cudaError_t norm_forward(const struct cuda_kernel *k, void *const *in,
                                void *const *out, void *scratch,
                                const struct train_moment *when)
{
    const struct cuda_kernel *n = k->u.batch.norm;
    void *from[MOST], *to[MOST];
    struct cuda_batch_norm b;

    operands(k->u.batch.group, 0, in, out, from, to);
    b = train_cuda_batch(n, from, to[n->op.aux_out], when);
    b.rectified = 1;
    b.most = k->u.batch.most;
    return train_cuda_batch_norm(
        train_cuda_stream(k), k->t, &b, from[0],
        k->u.batch.more >= 0 ? in[k->u.batch.more] : NULL,
        out[k->u.batch.result], scratch);
}

/* norm [add] relu; nobody else wants what passes between them. */
static bool make_forward(struct cuda_kernel *k, const struct train_group *g)
{
    int last = g->n - 1, y = g->out[0][0];

    k->u.batch.more = -1;
    if (g->n == 3) {
        int other = g->in[1][0] == y ? 1 : 0;

        if (!is(g, 1, PDL_ID_ADD) || g->calls[1].nin != 2 ||
            g->in[1][1 - other] != y || g->in[1][other] == y ||
            as_input(g, g->in[1][other]) < 0 ||
            !same_box(g, g->in[1][other], y) || as_output(g, g->out[1][0]) >= 0)
            return false;
        k->u.batch.more = as_input(g, g->in[1][other]);
    }
    k->u.batch.result = as_output(g, g->out[last][0]);
    k->go = norm_forward;
    return is_rectifier(g, last, &k->u.batch.most) && as_output(g, y) < 0 &&
           k->u.batch.result >= 0 && same_box(g, y, g->out[last][0]);
}

/* ---- backward --------------------------------------------------------- */

static cudaError_t norm_back(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch,
                             const struct train_moment *when)
{
    const struct train_group *g = k->u.batch.group;
    const struct cuda_kernel *n = k->u.batch.norm;
    cudaStream_t st = train_cuda_stream(k);
    void *from[MOST], *to[MOST], *dz, *dx = out[k->u.batch.result];
    struct cuda_batch_back b;
    float *aux, *sums;
    cudaError_t e;

    (void)when;
    operands(g, g->n - 1, in, out, from, to);
    b = train_cuda_back(n, from);
    aux = from[n->op.aux];
    sums = aux + 2 * b.c;
    b.dy = operand(g, g->in[0][0], in, out);
    b.more = k->u.batch.more >= 0 ? in[k->u.batch.more] : NULL;
    b.y = k->u.batch.y >= 0 ? in[k->u.batch.y] : NULL;
    b.rectified = 1;
    b.most = k->u.batch.most;
    b.dscale = out[k->u.batch.scale];
    b.dshift = k->u.batch.shift >= 0 ? out[k->u.batch.shift] : NULL;
    dz = k->u.batch.dz >= 0 ? out[k->u.batch.dz] : NULL;
    e = train_cuda_batch_norm_sums(st, k->t, &b, sums, dz, scratch);
    if (e != cudaSuccess)
        return e;
    if (dz) { /* what arrived stands there */
        b.dy = dz;
        b.more = b.y = NULL;
        b.rectified = 0;
    }
    return train_cuda_batch_norm_back(st, k->t, &b, sums, dx);
}

/* [sum] relu' norm's weights, norm's data */
static bool make_back(struct cuda_kernel *k, const struct train_group *g)
{
    bool sum = g->calls[0].sums;
    int relu = sum, weights = relu + 1, data = relu + 2, dz;
    const struct pdl_node *r = g->calls[relu].node;

    if (g->n != relu + 3 || !is_rectifier(g, relu, &k->u.batch.most) ||
        !is(g, weights, PDL_ID_BATCH_NORM) ||
        g->calls[weights].node != g->calls[data].node ||
        (sum && g->in[relu][0] != g->out[0][0]))
        return false;
    dz = g->out[relu][0];
    if (g->in[data][0] != dz || g->in[weights][1] != dz ||
        (sum && as_output(g, g->out[0][0]) >= 0))
        return false;
    for (int i = 0; i <= relu; i++)
        for (int j = 0; j < g->calls[i].nin; j++)
            if (!same_box(g, g->in[i][j], dz))
                return false;
    k->u.batch.more = sum ? as_input(g, g->in[0][1]) : -1;
    /* the norm's own sign is the rectifier's, unless something was added */
    k->u.batch.y = r->in[0] == g->calls[data].node->out[0]
                       ? -1
                       : as_input(g, g->in[relu][1]);
    k->u.batch.dz = as_output(g, dz);
    k->u.batch.result = as_output(g, g->out[data][0]);
    k->u.batch.scale = as_output(g, g->out[weights][0]);
    k->u.batch.shift =
        g->calls[weights].nout > 1 ? as_output(g, g->out[weights][1]) : -1;
    k->go = norm_back;
    return k->u.batch.result >= 0 && k->u.batch.scale >= 0 &&
           (k->u.batch.y >= 0 || r->in[0] == g->calls[data].node->out[0]) &&
           (!sum || (as_input(g, g->in[0][0]) >= 0 && k->u.batch.more >= 0));
}

/* ---- norms of rows ---------------------------------------------------- */

/* Of an addition of two the operand that is not `one`, an input of the group;
 * -1: there is none such. */
static int other_of(const struct train_group *g, int call, int one)
{
    int k = g->calls[call].nin == 2 && g->in[call][0] == one ? 1 : 0;
    int slot = g->in[call][k];

    if (g->calls[call].nin != 2 || g->in[call][1 - k] != one || slot == one ||
        !same_box(g, slot, one))
        return -1;
    return as_input(g, slot);
}

static cudaError_t rows_forward(const struct cuda_kernel *k, void *const *in,
                                void *const *out, void *scratch,
                                const struct train_moment *when)
{
    const struct train_group *g = k->u.rows_of.group;
    const struct cuda_kernel *n = k->u.rows_of.norm;
    void *from[MOST], *to[MOST];

    (void)scratch, (void)when;
    operands(g, 1, in, out, from, to);
    return train_cuda_row_norm(
        train_cuda_stream(k), k->t, &n->u.rows,
        operand(g, g->in[0][0], in, out), operand(g, g->in[0][1], in, out),
        operand(g, g->out[0][0], in, out), n->op.nw > 0 ? from[n->op.w] : NULL,
        n->op.nw > 1 ? from[n->op.w + 1] : NULL, to[0], to[n->op.aux_out]);
}

/* add norm */
static bool make_rows(struct cuda_kernel *k, const struct train_group *g)
{
    k->go = rows_forward;
    return g->n == 2 && g->calls[0].nin == 2 &&
           train_cuda_row_fits(k->t, k->u.rows_of.norm->u.rows.width) &&
           g->in[1][0] == g->out[0][0] &&
           same_box(g, g->in[0][0], g->out[0][0]) &&
           same_box(g, g->in[0][1], g->out[0][0]);
}

static cudaError_t rows_back(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch,
                             const struct train_moment *when)
{
    const struct train_group *g = k->u.rows_of.group;
    const struct cuda_kernel *n = k->u.rows_of.norm, *w = k->u.rows_of.weights;
    bool sum = g->calls[0].sums;
    int data = sum + 1;
    void *from[MOST], *to[MOST];
    struct cuda_row_back b;

    (void)when;
    operands(g, sum, in, out, from, to);
    b = (struct cuda_row_back){
        .dw = to[0], .db = w->call.nout > 1 ? to[1] : NULL, .partial = scratch};
    operands(g, data, in, out, from, to);
    b.dy = operand(g, g->in[0][sum ? 0 : w->op.dy], in, out);
    b.more = k->u.rows_of.more >= 0 ? in[k->u.rows_of.more] : NULL;
    b.x = from[n->op.x];
    b.after = k->u.rows_of.after >= 0 ? in[k->u.rows_of.after] : NULL;
    b.stats = from[n->op.aux];
    return train_cuda_row_norm_back(train_cuda_stream(k), k->t, &n->u.rows, &b,
                                    n->op.nw > 0 ? from[n->op.w] : NULL,
                                    out[k->u.rows_of.result]);
}

/* [sum] norm's weights, norm's data [sum] */
static bool make_rows_back(struct cuda_kernel *k, const struct train_group *g)
{
    bool sum = g->calls[0].sums, after = g->calls[g->n - 1].sums;
    int weights = sum, data = sum + 1, dy = g->in[data][0];
    const struct cuda_kernel *w = k->u.rows_of.weights;

    if (g->n != 2 + sum + after || (!sum && !after) ||
        g->in[weights][w->op.dy] != dy ||
        !train_cuda_row_fits(k->t, k->u.rows_of.norm->u.rows.width))
        return false;
    k->u.rows_of.more = k->u.rows_of.after = -1;
    if (sum) {
        if (g->out[0][0] != dy || as_output(g, dy) >= 0 ||
            !same_box(g, g->in[0][0], dy) || !same_box(g, g->in[0][1], dy))
            return false;
        k->u.rows_of.more = as_input(g, g->in[0][1]);
    }
    if (after) {
        if (as_output(g, g->out[data][0]) >= 0)
            return false;
        k->u.rows_of.after = other_of(g, g->n - 1, g->out[data][0]);
        if (k->u.rows_of.after < 0)
            return false;
    }
    k->u.rows_of.result = as_output(g, g->out[g->n - 1][0]);
    k->go = rows_back;
    return k->u.rows_of.result >= 0 && (!sum || k->u.rows_of.more >= 0);
}

/* ---- products --------------------------------------------------------- */

/* dx of a product, and what it is added to. */
static cudaError_t product_and_sum(const struct cuda_kernel *k, void *const *in,
                                   void *const *out, void *scratch,
                                   const struct train_moment *when)
{
    const struct train_group *g = k->u.rows_of.group;
    void *from[MOST], *to[MOST];

    (void)when;
    operands(g, 0, in, out, from, to);
    return train_cuda_linear_data(k->u.rows_of.norm, from,
                                  in[k->u.rows_of.after],
                                  out[k->u.rows_of.result], scratch);
}

static bool make_product(struct cuda_kernel *k, const struct train_group *g)
{
    if (g->n != 2 || as_output(g, g->out[0][0]) >= 0)
        return false;
    k->u.rows_of.after = other_of(g, 1, g->out[0][0]);
    k->u.rows_of.result = as_output(g, g->out[1][0]);
    k->go = product_and_sum;
    return k->u.rows_of.after >= 0 && k->u.rows_of.result >= 0;
}

/* ---- convolutions ----------------------------------------------------- */

/* conv relu: what it adds its bias with also rectifies. */
static bool make_conv(struct cuda_kernel *k, const struct train_group *g)
{
    for (int i = 0; i < g->calls[0].nin; i++)
        if (g->in[0][i] != i)
            return false;
    k->u.conv.rectified = true;
    return g->n == 2 && g->nout == 1 && as_output(g, g->out[1][0]) == 0 &&
           same_box(g, g->out[0][0], g->out[1][0]);
}

/* ---- gates ------------------------------------------------------------ */

static cudaError_t gate(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_gate(train_cuda_stream(k), k->t, k->u.gate.n,
                           in[k->u.gate.x], in[k->u.gate.with],
                           k->u.gate.kept >= 0 ? out[k->u.gate.kept] : NULL,
                           out[k->u.gate.result]);
}

/* silu mul */
static bool make_gate(struct cuda_kernel *k, const struct train_group *g)
{
    int x = g->in[0][0], s = g->out[0][0];

    k->u.gate.n = train_array_elements(&g->slots[s]);
    k->u.gate.x = as_input(g, x);
    k->u.gate.with = other_of(g, 1, s);
    k->u.gate.kept = as_output(g, s);
    k->u.gate.result = as_output(g, g->out[1][0]);
    k->go = gate;
    return k->u.gate.x >= 0 && k->u.gate.with >= 0 && k->u.gate.result >= 0 &&
           same_box(g, x, s) && same_box(g, g->out[1][0], s) &&
           train_cuda_gate_fits(k->t, k->u.gate.n);
}

static cudaError_t gate_back(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch,
                             const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_gate_back(train_cuda_stream(k), k->t, k->u.gate.n, in[0],
                                in[k->u.gate.x], in[k->u.gate.with],
                                out[k->u.gate.result], out[k->u.gate.kept]);
}

/* mul's data, silu's data: of the product the operand that is not the gate goes
 * with it. */
static bool make_gate_back(struct cuda_kernel *k, const struct train_group *g)
{
    const struct train_call *mul = &g->calls[0];
    int first = train_gradient_of(mul, 0), second = train_gradient_of(mul, 1);
    int ds = g->in[1][0], of = k->op.x, which, dwith, with;
    struct train_operands o;

    if (!is(g, 0, PDL_ID_MUL) || first < 0 || second < 0 || k->op.nx < 1)
        return false;
    which = g->out[0][first] == ds ? 0 : 1;
    dwith = g->out[0][which == 0 ? second : first];
    train_operands(mul, &o);
    if (g->out[0][which == 0 ? first : second] != ds || o.nx != 2 ||
        o.dy != 0 || as_output(g, ds) >= 0)
        return false;
    with = g->in[0][o.x + 1 - which];
    k->u.gate.n = train_array_elements(&g->slots[ds]);
    k->u.gate.x = as_input(g, g->in[1][of]);
    k->u.gate.with = as_input(g, with);
    k->u.gate.kept = as_output(g, dwith);
    k->u.gate.result = as_output(g, g->out[1][0]);
    k->go = gate_back;
    return g->in[0][0] == 0 && k->u.gate.x >= 0 && k->u.gate.with >= 0 &&
           k->u.gate.kept >= 0 && k->u.gate.result >= 0 && same_box(g, 0, ds) &&
           same_box(g, g->in[1][of], ds) && same_box(g, with, ds) &&
           same_box(g, dwith, ds) && same_box(g, g->out[1][0], ds) &&
           train_cuda_gate_fits(k->t, k->u.gate.n);
}

/* ---- the list --------------------------------------------------------- */

typedef bool join_fn(struct cuda_kernel *k, const struct train_group *g);

// clang-format off
static const struct {
    enum pdl_op_id id;
    enum pdl_pass pass; /* of the call that the kernel is made of */
    join_fn *join;
} joins[] = {
    {PDL_ID_BATCH_NORM, PDL_FORWARD,       make_forward},
    {PDL_ID_BATCH_NORM, PDL_BACKWARD_DATA, make_back},
    {PDL_ID_LAYER_NORM, PDL_FORWARD,       make_rows},
    {PDL_ID_RMS_NORM,   PDL_FORWARD,       make_rows},
    {PDL_ID_LAYER_NORM, PDL_BACKWARD_DATA, make_rows_back},
    {PDL_ID_RMS_NORM,   PDL_BACKWARD_DATA, make_rows_back},
    {PDL_ID_LINEAR,     PDL_BACKWARD_DATA, make_product},
    {PDL_ID_CONV,       PDL_FORWARD,       make_conv},
    {PDL_ID_SILU,       PDL_FORWARD,       make_gate},
    {PDL_ID_SILU,       PDL_BACKWARD_DATA, make_gate_back},
};
// clang-format on

static join_fn *find(const struct train_group *g, int *call)
{
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        for (*call = 0; *call < g->n; ++*call)
            if (is(g, *call, joins[i].id) &&
                g->calls[*call].pass == joins[i].pass)
                return joins[i].join;
    return NULL;
}

/* The kernel is that of its main call, and knows how the others join in. */
static struct cuda_kernel *kernel_of(struct cuda_state *s,
                                     const struct train_group *g, int call)
{
    struct cuda_kernel *n = train_cuda_kernel(s, &g->calls[call]), *w = NULL;
    struct cuda_kernel *k = n ? PDL_NEW(s->arena, struct cuda_kernel, 1) : NULL;
    struct train_group *own =
        k ? PDL_NEW(s->arena, struct train_group, 1) : NULL;
    bool batch = is(g, call, PDL_ID_BATCH_NORM);

    if (!own || is(g, call, PDL_ID_CONV))
        return own ? n : NULL;
    if (!batch && call > 0 && g->calls[call - 1].pass == PDL_BACKWARD_WEIGHTS) {
        w = train_cuda_kernel(s, &g->calls[call - 1]);
        if (!w)
            return NULL;
    }
    *own = *g;
    *k = *n;
    if (w)
        k->base.scratch_bytes = w->base.scratch_bytes;
    if (batch) {
        k->u.batch.norm = n;
        k->u.batch.group = own;
    } else {
        k->u.rows_of.norm = n;
        k->u.rows_of.weights = w;
        k->u.rows_of.group = own;
    }
    return k;
}

enum pdl_status train_cuda_group(void *state, const struct train_group *g,
                                 struct train_kernel **out, struct pdl_err *err)
{
    struct cuda_state *s = state;
    struct cuda_kernel *k;
    join_fn *join;
    int call;

    for (int i = 0; i < g->n; i++)
        if (g->calls[i].nin > MOST || g->calls[i].nout > MOST)
            return PDL_OK;
    join = find(g, &call);
    k = join ? kernel_of(s, g, call) : NULL;
    if (k && join(k, g))
        *out = &k->base;
    if (s->st != PDL_OK && err)
        *err = s->err;
    return s->st;
}
