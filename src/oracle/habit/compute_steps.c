/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of Hugging Face's transformers in eager PyTorch, which compute in
 * steps what PyTorch has one kernel for, most of them on 32-bit items whatever
 * autocast says: where the framework's file has `steps`, or `steps_if_missing`
 * and the model has experts or relative positions. From its sources (5.17)
 * and from profiles of PyTorch 2.11 on an H200: T5 with 12 layers (512 and 256
 * tokens, gated or not), Mixtral with 8 experts and Qwen3 with 64; bytes below
 * are those of one item through all kernels of a direction, kernels are what
 * the host issues.
 *
 * RMSNorm: square, mean, root and two products. Rotary positions: products with
 * 32-bit tables, halves turned and joined. GELU's formula with tanh.
 *
 * Attention with a bias that is learned: no fused kernel gives a gradient to
 * the bias, so scores are 32-bit tensors and products TF32: scale, bias (read
 * turned), softmax, and three kernels that look for rows without any key
 * (_safe_softmax); backward the softmax's two, and a sum over the samples.
 *
 * Experts (grouped_mm, the default): grouped products do not follow autocast,
 * so they read the 32-bit weights; for those PyTorch has a loop over experts, a
 * TF32 product each, not a grouped kernel. Tokens are sorted, gathered, masked,
 * weighted and put back in steps. Before each loop the host waits for the
 * loads, so that it gets no lead over the device: where both are busy their
 * times add up more (a norm of second power, seen in Mixtral's steps). Loads
 * are taken as equal. */
#include "oracle/habit/habit.h"

#include <math.h>

/* Bytes of an element by pass, and kernels. */
struct steps {
    enum pdl_op_id op;
    double bytes[3];
    int kernels[3];
    double keeps[2]; /* bytes of an element beside the plan's: 16 bits, 32 */
    bool biased;     /* only where positions are relative: T5's activation */
};

// clang-format off
static const struct steps table[] = {
    {PDL_ID_RMS_NORM, {28, 84, 16}, {6, 13, 2}, {6, 4}, false},
    {PDL_ID_ROPE, {90, 110, 0}, {6, 9, 0}, {0, 0}, false},
    {PDL_ID_GELU, {80, 130, 0}, {8, 13, 0}, {14, 12}, true},
};
// clang-format on

/* Of one score in 32 bits, and more if q, k and v are 16 bits wide; of the
 * bias, which all samples share; of one element of q. */
static const double SCORE[2] = {53, 31}, SCORE16[2] = {7, 0};
static const double BIAS_SHARED[2] = {30, 20};
static const double HEAD[2] = {80, 70}, HEAD16[2] = {30, 30};
enum { MATH = 16, MATH_BACK = 14, MATH16 = 6, MATH16_BACK = 4 };
/* Of a token on its way to one expert: each element of its hidden layer and of
 * the token itself; kernels beside the products; what strided halves and
 * masks of one column leave of the streaming rate. */
static const double INNER[2] = {52, 84}, OUTER[2] = {54, 90};
static const double STRIDED = .75;
enum { ORDER = 55, ORDER_BACK = 80 };
/* What backward needs of a score, of an element of q (16 bits: 32-bit copies of
 * q, k and v), and of a token's elements: the gate and what it is multiplied
 * with, both factors, their product; what goes in and what comes out. Weights
 * of experts have no 16-bit copies. */
static const double SCORE_KEPT = 4, HEAD_KEPT = 12, INNER_KEPT = 16,
                    OUTER_KEPT = 8;

static const struct pdl_node *node_of(const struct oracle *o, int op)
{
    int node = o->p->ops[op].node;

    return node >= 0 && o->p->forward_op[node] >= 0 ? &o->p->model->nodes[node]
                                                    : NULL;
}

/* A table of positions by heads. */
static bool is_biased(const struct pdl_model *m, const struct pdl_node *n)
{
    return pdl_op_id(n->op) == PDL_ID_ATTENTION && n->nweights > 0 &&
           m->tensors[n->weights[0]].rank == 2;
}

static bool is_experts(const struct pdl_node *n)
{
    return pdl_op_id(n->op) == PDL_ID_EXPERTS;
}

void oracle_steps_settle(struct oracle *o)
{
    const struct pdl_framework *f = o->opt->framework;
    const struct pdl_model *m = o->p->model;

    o->in_steps = o->relative = o->waits = false;
    if (!oracle_is_eager(o) || !(f->steps || f->steps_if_missing))
        return;
    for (int i = 0; i < m->nnodes; i++) {
        o->relative |= is_biased(m, &m->nodes[i]);
        o->in_steps |= is_experts(&m->nodes[i]);
    }
    o->waits |= o->in_steps;
    o->in_steps |= o->relative || f->steps;
    if (!o->in_steps)
        return;
    oracle_pe_settle(
        &o->sys->pe,
        o->opt->precision == PDL_PREC_FP32 ? PDL_PREC_FP32 : PDL_PREC_TF32,
        &o->pe32);
    o->pe32.flat = o->pe.flat;
}

static const struct steps *steps_of(const struct oracle *o,
                                    const struct pdl_node *n)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (pdl_op_id(n->op) == table[i].op &&
            (!table[i].biased || o->relative))
            return &table[i];
    return NULL;
}

/* ---- attention ----------------------------------------------------------- */

static double product(const struct oracle *o, double batch, double m, double n,
                      double k)
{
    return oracle_products(&o->pe32, batch, m, n, k, o->pe32.rate);
}

static double biased(const struct oracle *o, const struct pdl_shape *s)
{
    bool narrow = o->pe.item_bytes <= 2;
    int back = s->pass != PDL_FORWARD;
    double d = (double)s->c, q = (double)s->in[0], k = (double)s->out[0];
    double heads = (double)s->groups, batch = (double)s->n * heads;
    double bytes =
        batch * q * k * (SCORE[back] + (narrow ? SCORE16[back] : 0)) +
        batch * q * d * (HEAD[back] + (narrow ? HEAD16[back] : 0));
    int kernels = (back ? MATH_BACK : MATH) + (!narrow ? 0
                                               : back  ? MATH16_BACK
                                                       : MATH16);

    if (s->pass == PDL_BACKWARD_WEIGHTS)
        return heads * q * k * BIAS_SHARED[1] / o->pe.bytes_per_s;
    if (!back)
        bytes += heads * q * k * BIAS_SHARED[0];
    return (back ? 2 : 1) *
               (product(o, batch, q, k, d) + product(o, batch, q, d, k)) +
           kernels * o->pe.launch_s + bytes / o->pe.bytes_per_s;
}

/* ---- experts ------------------------------------------------------------- */

/* One expert's product of one pass: c items of a token become f. */
static double expert(const struct oracle *o, const struct oracle_load *l,
                     double c, double f, enum pdl_pass pass)
{
    struct pdl_shape s = {
        .kind = PDL_SHAPE_MATMUL,
        .pass = pass,
        .precision = PDL_PREC_TF32,
        .n = (int64_t)ceil(l->tokens / l->experts),
        .c = (int64_t)c,
        .f = (int64_t)f,
    };

    return oracle_matmul(&o->pe32, &s);
}

static double experts(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool gated = o->p->model->nodes[x->node].attr.gated;
    int back = x->pass != PDL_FORWARD;
    struct oracle_load l;
    double t;

    if (!oracle_load_of(o, op, rank, &l))
        return 0;
    t = l.experts *
        (expert(o, &l, l.hidden, (gated ? 2 : 1) * l.wide, x->pass) +
         expert(o, &l, l.wide, l.hidden, x->pass));
    if (x->pass == PDL_BACKWARD_WEIGHTS)
        return t;
    return t + (back ? ORDER_BACK : ORDER) * o->pe.launch_s +
           l.tokens * (INNER[back] * l.wide + OUTER[back] * l.hidden) /
               (o->pe.bytes_per_s * STRIDED);
}

/* ---- what others ask ----------------------------------------------------- */

double oracle_steps(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct pdl_node *n = o->in_steps ? node_of(o, op) : NULL;
    const struct steps *s;
    struct pdl_shape shape;

    if (!n || x->part > 0 || x->kind != PDL_PLAN_OP_COMPUTE)
        return -1;
    if (is_experts(n))
        return experts(o, op, rank);
    if (is_biased(o->p->model, n)) {
        shape = (struct pdl_shape){.pass = x->pass};
        return oracle_attention_shape(o, x->node, rank, &shape)
                   ? biased(o, &shape)
                   : -1;
    }
    s = steps_of(o, n);
    if (!s)
        return -1;
    return s->kernels[x->pass] * o->pe.launch_s +
           s->bytes[x->pass] *
               (double)pdl_plan_elements(
                   o->p, o->p->ops[o->p->forward_op[x->node]].out[0], rank) /
               o->pe.bytes_per_s;
}

static int kernels_of(const struct oracle *o, const struct pdl_node *n,
                      const struct pdl_plan_op *x)
{
    bool narrow = o->pe.item_bytes <= 2, back = x->pass != PDL_FORWARD;
    const struct steps *s = steps_of(o, n);

    if (x->pass == PDL_BACKWARD_WEIGHTS && !is_experts(n))
        return s ? s->kernels[x->pass] : 0;
    if (is_experts(n)) /* both products of every expert */
        return 2 * (int)n->attr.experts + (x->pass == PDL_FORWARD ? ORDER
                                           : x->pass == PDL_BACKWARD_DATA
                                               ? ORDER_BACK
                                               : 0);
    if (is_biased(o->p->model, n))
        return (back ? MATH_BACK : MATH) + (!narrow ? 0
                                            : back  ? MATH16_BACK
                                                    : MATH16);
    return s ? s->kernels[x->pass] : 0;
}

int oracle_steps_issued(const struct oracle *o, int op)
{
    const struct pdl_node *n = o->in_steps ? node_of(o, op) : NULL;
    int kernels = n ? kernels_of(o, n, &o->p->ops[op]) : 0;

    if (kernels == 0 || !(o->opt->framework->issue_s > 0)) /* left out */
        return 0;
    return (int)(kernels * o->opt->framework->kernel_s /
                     o->opt->framework->issue_s * ORACLE_CALL +
                 .5);
}

int64_t oracle_steps_keeps(const struct oracle *o, int op, int64_t rank)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;
    const struct pdl_node *n = o->in_steps ? node_of(o, op) : NULL;
    bool wide = o->pe.item_bytes > 2;
    struct pdl_shape a = {.pass = PDL_FORWARD};
    const struct steps *s;
    struct oracle_load l;

    if (!n || x->kind != PDL_PLAN_OP_COMPUTE || x->part > 0 ||
        x->pass == PDL_BACKWARD_WEIGHTS)
        return 0;
    f = &o->p->ops[o->p->forward_op[x->node]];
    s = steps_of(o, n);
    if (is_experts(n) && oracle_load_of(o, o->p->forward_op[x->node], rank, &l))
        return (int64_t)(l.tokens *
                             (INNER_KEPT * l.wide + OUTER_KEPT * l.hidden) -
                         (wide || o->p->strategy->zero == 3
                              ? 0 /* gathered: gone after the layer */
                              : l.weights * o->pe.item_bytes));
    if (is_biased(o->p->model, n) &&
        oracle_attention_shape(o, x->node, rank, &a))
        return (int64_t)((double)(a.n * a.groups * a.in[0]) *
                         (SCORE_KEPT * (double)a.out[0] +
                          (wide ? 0 : HEAD_KEPT) * (double)a.c));
    return s ? (int64_t)((double)pdl_plan_elements(o->p, f->out[0], rank) *
                         s->keeps[wide])
             : 0;
}

bool oracle_steps_flash(const struct oracle *o)
{
    return o->in_steps && o->relative;
}
