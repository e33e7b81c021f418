/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators in exact arithmetic. Linear ones are themselves; each non-linear
 * function is a fixed polynomial of the same operands, and its backward pass
 * a fixed polynomial of what the real one reads. Equality with the unsharded
 * graph then says that every rank had the right operands, at the right place,
 * exactly once: it tests the algebra, not the mathematics of training. */
#include "symbolic.h"

#include <string.h>

/* ---- element by element ----------------------------------------------- */

/* Broadcast operands: shapes align at the right, N in front. */
static void operand_index(const struct pdl_tensor *x,
                          const struct pdl_tensor *y, const int64_t *yi,
                          int64_t *xi)
{
    xi[0] = yi[0];
    for (int d = 1; d <= x->rank; d++) {
        int64_t v = yi[d + y->rank - x->rank];

        xi[d] = x->dim[d - 1] == 1 ? 0 : v;
    }
}

static void pointwise(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_tensor *t = m->model->tensors;
    const struct pdl_node *n = k->node;
    bool saves_x = n->op->flags & PDL_OP_SAVES_X;
    int64_t i[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0};

    if (k->pass == PDL_FORWARD) {
        PLAN_EACH(&k->out[0]->box, i)
        {
            plan_num v = 1, s = 3;

            for (int a = 0; a < n->nin; a++) {
                operand_index(&t[n->in[a]], &t[n->out[0]], i, xi);
                s = plan_num_add(s, plan_part_get(m, k->in[a], xi));
                v = plan_num_mul(v, plan_part_get(m, k->in[a], xi));
            }
            if (plan_is(n, PDL_ID_ADD))
                v = plan_num_add(s, PLAN_NUM_P - 3);
            else if (n->nin == 1)
                v = plan_num_mul(s, plan_num_square(s));
            plan_part_put(k->out[0], i, v);
        }
        return;
    }
    /* in: dy, then the saved inputs or output; operands of full shape only */
    for (int o = 0; o < k->nout; o++)
        PLAN_EACH(&k->out[o]->box, i)
        {
            plan_num d = plan_part_get(m, k->in[0], i);

            for (int a = 1; a < k->nin; a++)
                if (!saves_x || n->nin == 1 || a - 1 != o)
                    d = plan_num_mul(
                        d, plan_num_add(7, plan_part_get(m, k->in[a], i)));
            plan_part_put(k->out[o], i, d);
        }
}

/* ---- batch norm ------------------------------------------------------- */

/* Sums over a box of what ranks of one set hold: [1, 2, C]. */
static void bn_sums(struct plan_machine *m, const struct plan_part *x,
                    const struct plan_part *dy, const struct pdl_box *over,
                    struct plan_part *sums)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(over, i)
    {
        int64_t s0[3] = {sums->box.lo[0], 0, i[1]};
        int64_t s1[3] = {sums->box.lo[0], 1, i[1]};
        plan_num v = plan_part_get(m, x, i);

        if (plan_part_offset(sums, s0) < 0) {
            m->missing = "a statistic";
            return;
        }
        if (dy) {
            plan_num d = plan_part_get(m, dy, i);

            plan_part_add(sums, s0, d);
            plan_part_add(sums, s1, plan_num_mul(d, v));
        } else {
            plan_part_add(sums, s0, v);
            plan_part_add(sums, s1, plan_num_square(v));
        }
    }
}

static plan_num bn_stat(struct plan_machine *m, const struct plan_part *sums,
                        int which, int64_t c)
{
    int64_t i[3] = {sums->box.lo[0], which, c};

    return plan_part_get(m, sums, i);
}

static void bn_normalise(struct plan_machine *m, const struct plan_part *x,
                         const struct plan_part *sums,
                         const struct plan_part *scale,
                         const struct plan_part *shift,
                         const struct pdl_box *over, struct plan_part *y)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(over, i)
    {
        plan_num v =
            plan_num_add(plan_part_get(m, x, i), bn_stat(m, sums, 0, i[1]));

        v = plan_num_mul(v, plan_num_add(1, bn_stat(m, sums, 1, i[1])));
        v = plan_num_mul(v, plan_part_get(m, scale, &i[1]));
        plan_part_put(y, i, plan_num_add(v, plan_part_get(m, shift, &i[1])));
    }
}

static void bn_gradient(struct plan_machine *m, const struct plan_part *x,
                        const struct plan_part *dy,
                        const struct plan_part *sums,
                        const struct plan_part *back,
                        const struct plan_part *scale,
                        const struct pdl_box *over, struct plan_part *dx)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(over, i)
    {
        plan_num v = plan_num_mul(plan_part_get(m, dy, i),
                                  plan_part_get(m, scale, &i[1]));

        v = plan_num_mul(v, plan_num_add(1, bn_stat(m, sums, 1, i[1])));
        v = plan_num_add(
            v, plan_num_mul(plan_part_get(m, x, i), bn_stat(m, back, 0, i[1])));
        v = plan_num_add(v, bn_stat(m, back, 1, i[1]));
        plan_part_put(dx, i, v);
    }
}

static bool local_sums(struct plan_machine *m, const struct plan_part *x,
                       const struct plan_part *dy, const struct pdl_box *over,
                       struct plan_part *sums)
{
    *sums = (struct plan_part){.box = {.ndims = 3}};
    sums->box.hi[0] = 1;
    sums->box.hi[1] = 2;
    sums->box.lo[2] = x->box.lo[1];
    sums->box.hi[2] = x->box.hi[1];
    if (!plan_part_make(m, sums)) {
        m->missing = "memory";
        return false;
    }
    bn_sums(m, x, dy, over, sums);
    return true;
}

static void bn_weight_gradient(struct plan_machine *m,
                               const struct plan_part *back,
                               struct plan_part *scale, struct plan_part *shift)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&scale->box, i)
    {
        plan_part_add(shift, i, bn_stat(m, back, 0, i[0]));
        plan_part_add(scale, i, bn_stat(m, back, 1, i[0]));
    }
}

/* Operands: forward x w0 w1 .. / part 1: x sums w0 w1 ..; backward-data
 * dy w0 w1 .. x / part 0 with an exchange: dy x sums -> sums, part 1:
 * dy back w0 .. x sums; backward-weights x dy, or the exchanged sums. */
static void batch_norm(struct plan_machine *m, const struct plan_call *k)
{
    int nw = k->node->nweights;
    struct plan_part s, b;

    if (k->pass == PDL_FORWARD && k->part == 1) {
        bn_normalise(m, k->in[0], k->in[1], k->in[2], k->in[3], &k->out[0]->box,
                     k->out[0]);
    } else if (k->pass == PDL_FORWARD && k->nin == 1) {
        bn_sums(m, k->in[0], NULL, &k->in[0]->box, k->out[0]);
    } else if (k->pass == PDL_FORWARD) {
        if (local_sums(m, k->in[0], NULL, k->group, &s))
            bn_normalise(m, k->in[0], &s, k->in[1], k->in[2], k->group,
                         k->out[0]);
    } else if (k->pass == PDL_BACKWARD_DATA && k->part == 1) {
        bn_gradient(m, k->in[2 + nw], k->in[0], k->in[3 + nw], k->in[1],
                    k->in[2], &k->out[0]->box, k->out[0]);
    } else if (k->pass == PDL_BACKWARD_DATA && k->nin == 3) {
        bn_sums(m, k->in[1], k->in[0], &k->in[0]->box, k->out[0]);
    } else if (k->pass == PDL_BACKWARD_DATA) {
        if (local_sums(m, k->in[1 + nw], NULL, k->group, &s) &&
            local_sums(m, k->in[1 + nw], k->in[0], k->group, &b))
            bn_gradient(m, k->in[1 + nw], k->in[0], &s, &b, k->in[1], k->group,
                        k->out[0]);
    } else if (k->nin == 1) {
        bn_weight_gradient(m, k->in[0], k->out[0], k->out[1]);
    } else if (local_sums(m, k->in[0], k->in[1], k->group, &b)) {
        bn_weight_gradient(m, &b, k->out[0], k->out[1]);
    }
}

/* ---- shapes ----------------------------------------------------------- */

/* [n, c, s...] <-> [n, c*s...] by the global shape. */
static void flat_index(const struct pdl_tensor *x, const int64_t *i,
                       int64_t *flat)
{
    int64_t o = 0;

    for (int d = 0; d < x->rank; d++)
        o = o * x->dim[d] + i[d + 1];
    flat[0] = i[0];
    flat[1] = o;
}

static void flatten(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_tensor *xt = &m->model->tensors[k->node->in[0]];
    const struct plan_part *x = k->pass == PDL_FORWARD ? k->in[0] : k->out[0];
    int64_t i[PDL_BOX_DIMS] = {0}, f[2];

    PLAN_EACH(&x->box, i)
    {
        flat_index(xt, i, f);
        if (k->pass == PDL_FORWARD)
            plan_part_put(k->out[0], f, plan_part_get(m, k->in[0], i));
        else
            plan_part_put(k->out[0], i, plan_part_get(m, k->in[0], f));
    }
}

static void concat(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_node *n = k->node;
    int axis = (int)n->attr.axis + 1;
    int64_t i[PDL_BOX_DIMS] = {0}, y[PDL_BOX_DIMS] = {0}, base = 0;
    int o = 0;

    for (int a = 0; a < n->nin; a++) {
        const struct pdl_tensor *t = &m->model->tensors[n->in[a]];
        const struct plan_part *x =
            k->pass == PDL_FORWARD ? k->in[a] : k->out[o];

        if (k->pass == PDL_FORWARD || o < k->nout)
            PLAN_EACH(&x->box, i)
            {
                memcpy(y, i, sizeof y);
                y[axis] += base;
                if (k->pass == PDL_FORWARD)
                    plan_part_put(k->out[0], y, plan_part_get(m, k->in[a], i));
                else
                    plan_part_put(k->out[o], i, plan_part_get(m, k->in[0], y));
            }
        o++;
        base += t->dim[axis - 1];
    }
}

/* ---- table ------------------------------------------------------------ */

void plan_kernel(struct plan_machine *m, const struct plan_call *c)
{
    static const struct {
        const char *op;
        void (*run)(struct plan_machine *, const struct plan_call *);
    } kernels[] = {
        {"conv", plan_kernel_contract},
        {"conv_transpose", plan_kernel_contract},
        {"linear", plan_kernel_contract},
        {"batch_norm", batch_norm},
        {"max_pool", plan_kernel_pool},
        {"avg_pool", plan_kernel_pool},
        {"flatten", flatten},
        {"global_avg_pool", plan_kernel_global_pool},
        {"concat", concat},
        {"relu", pointwise},
        {"add", pointwise},
        {"gelu", pointwise},
        {"sigmoid", pointwise},
        {"tanh", pointwise},
        {"mul", pointwise},
        {"identity", pointwise},
        {"silu", pointwise},
    };

    if (!c->node) {
        plan_kernel_loss(m, c);
        return;
    }
    if (plan_kernel_transformer(m, c))
        return;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].op, c->node->op->name) == 0) {
            kernels[i].run(m, c);
            return;
        }
    m->missing = "an operator the symbolic executor does not have";
}
