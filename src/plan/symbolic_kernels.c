/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators in exact arithmetic. Linear ones are themselves; each non-linear
 * function is a fixed polynomial of the same operands, and its backward pass
 * a fixed polynomial of what the real one reads. Equality with the unsharded
 * graph then says that every rank had the right operands, at the right place,
 * exactly once: it tests the algebra, not the mathematics of training. */
#include "symbolic.h"

#include <string.h>

/* ---- numbers ------------------------------------------------------------- */

static const plan_num P = (UINT64_C(1) << 61) - 1;

plan_num plan_num_add(plan_num a, plan_num b)
{
    plan_num r = a + b;

    return r >= P ? r - P : r;
}

/* 61 x 61 bits by halves: no 128-bit type in C11. a = a1*2^31 + a0. */
plan_num plan_num_mul(plan_num a, plan_num b)
{
    uint64_t a1 = a >> 31, a0 = a & 0x7fffffff;
    uint64_t b1 = b >> 31, b0 = b & 0x7fffffff;
    uint64_t mid = a1 * b0 + a0 * b1; /* < 2^62 */
    uint64_t hi = a1 * b1;            /* times 2^62 = times 2 mod P */
    uint64_t m1 = mid >> 30, m0 = mid & 0x3fffffff; /* mid*2^31 */
    uint64_t r = 2 * hi + m1 + (m0 << 31) + a0 * b0;

    r = (r & P) + (r >> 61);
    return r >= P ? r - P : r;
}

plan_num plan_num_of(uint64_t seed, uint64_t tensor, uint64_t element)
{
    struct pdl_rng4 x = pdl_philox(seed, tensor, element);

    return ((uint64_t)x.v[1] << 32 | x.v[0]) % P;
}

/* ---- parts ----------------------------------------------------------------- */

/* -1: the index is not in the part */
static int64_t part_offset(const struct plan_part *p, const int64_t *index)
{
    int64_t o = 0;

    for (int d = 0; d < p->box.ndims; d++) {
        if (index[d] < p->box.lo[d] || index[d] >= p->box.hi[d])
            return -1;
        o = o * (p->box.hi[d] - p->box.lo[d]) + index[d] - p->box.lo[d];
    }
    return o;
}

plan_num plan_part_get(struct plan_machine *m, const struct plan_part *p,
                       const int64_t *index)
{
    int64_t o = p->at ? part_offset(p, index) : -1;

    if (o < 0) {
        if (!m->missing)
            m->missing = "an operand";
        return 0;
    }
    return p->at[o];
}

void plan_part_put(struct plan_part *p, const int64_t *index, plan_num v)
{
    p->at[part_offset(p, index)] = v;
}

bool plan_part_make(struct plan_machine *m, struct plan_part *p)
{
    p->at = PDL_NEW(m->arena, plan_num, pdl_box_volume(&p->box) + 1);
    return p->at != NULL;
}

void plan_box_start(const struct pdl_box *b, int64_t *index)
{
    memcpy(index, b->lo, sizeof b->lo);
}

bool plan_box_next(const struct pdl_box *b, int64_t *index)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++index[d] < b->hi[d])
            return true;
        index[d] = b->lo[d];
    }
    return false;
}

void plan_part_add(struct plan_part *p, const int64_t *i, plan_num v)
{
    int64_t o = part_offset(p, i);

    p->at[o] = plan_num_add(p->at[o], v);
}

/* ---- convolution, linear: one contraction ----------------------------------- */

/* A window position: y index and kernel index give the x index. For a linear
 * layer there is no kernel and positions pass through. */
struct contraction {
    const struct pdl_attr *attr;
    int nspatial;    /* 0: linear */
    bool transposed; /* x and y change places in the window */
    int64_t per_group_in, per_group_out; /* channels of x and y a group has */
    int feature; /* dimension of channels: 1, linear: the last */
};

static struct contraction contraction_of(const struct plan_machine *m,
                                         const struct pdl_node *n)
{
    const struct pdl_tensor *x = &m->model->tensors[n->in[0]];
    const struct pdl_tensor *y = &m->model->tensors[n->out[0]];
    int64_t groups = n->attr.groups > 1 ? n->attr.groups : 1;
    struct contraction c = {.attr = &n->attr, .feature = x->rank};

    if (!plan_is(n, "linear")) {
        c.nspatial = x->rank - 1;
        c.transposed = plan_is(n, "conv_transpose");
        c.feature = 1;
    }
    c.per_group_in = x->dim[c.feature - 1] / groups;
    c.per_group_out = y->dim[c.feature - 1] / groups;
    return c;
}

/* Does (outer index o, kernel k) meet inner index i in dimension s? */
static int64_t inner_index(const struct pdl_attr *a, int s, int64_t o,
                           int64_t k)
{
    int64_t q = a->stride[s] ? a->stride[s] : 1;
    int64_t e = a->dilation[s] ? a->dilation[s] : 1;

    return o * q - a->pad[s] + k * e;
}

/* Finds the x index for y index and kernel position; false: no such x. */
static bool meet(const struct contraction *c, const struct plan_machine *m,
                 const struct pdl_node *n, const int64_t *y, const int64_t *k,
                 int64_t *x)
{
    const struct pdl_tensor *xt = &m->model->tensors[n->in[0]];

    for (int s = 0; s < c->nspatial; s++) {
        int d = s + 2;

        if (!c->transposed) {
            x[d] = inner_index(c->attr, s, y[d], k[s]);
        } else {
            int64_t q = c->attr->stride[s] ? c->attr->stride[s] : 1;
            int64_t r = y[d] - inner_index(c->attr, s, 0, k[s]);

            if (r % q != 0)
                return false;
            x[d] = r / q;
        }
        if (x[d] < 0 || x[d] >= xt->dim[d - 1])
            return false;
    }
    return true;
}

/* Weight index of output channel f, channel c within the group, kernel k. */
static void weight_index(const struct contraction *c, int64_t f, int64_t ci,
                         const int64_t *k, int64_t *w)
{
    if (c->transposed) {
        w[0] = ci;
        w[1] = f % c->per_group_out;
    } else {
        w[0] = f;
        w[1] = ci % c->per_group_in;
    }
    for (int s = 0; s < c->nspatial; s++)
        w[2 + s] = k[s];
}

static struct pdl_box kernel_box(const struct contraction *c)
{
    struct pdl_box b = {.ndims = c->nspatial};

    for (int s = 0; s < c->nspatial; s++)
        b.hi[s] = c->attr->kernel[s];
    return b;
}

/* Channels of x that meet channel f of y and are in the weight's part. */
static void channel_range(const struct contraction *c,
                          const struct plan_part *w, int64_t f, int64_t *lo,
                          int64_t *hi)
{
    int64_t base = f / c->per_group_out * c->per_group_in;

    if (c->transposed) {
        *lo = w->box.lo[0] > base ? w->box.lo[0] : base;
        *hi = base + c->per_group_in;
        *hi = w->box.hi[0] < *hi ? w->box.hi[0] : *hi;
    } else {
        *lo = base + w->box.lo[1];
        *hi = base + w->box.hi[1];
    }
}

static void contract_forward(struct plan_machine *m, const struct plan_call *k)
{
    struct contraction c = contraction_of(m, k->node);
    struct pdl_box kb = kernel_box(&c);
    struct plan_part *y = k->out[0];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            ki[PDL_BOX_DIMS] = {0};
    int64_t wi[PDL_BOX_DIMS] = {0}, lo, hi;

    if (k->part == 1) { /* the bias, after the partial sums have met */
        PLAN_EACH(&y->box, yi)
        plan_part_put(y, yi,
                      plan_num_add(plan_part_get(m, k->in[0], yi),
                                   plan_part_get(m, k->in[1], &yi[c.feature])));
        return;
    }
    PLAN_EACH(&y->box, yi)
    {
        plan_num sum =
            k->nin > 2 ? plan_part_get(m, k->in[2], &yi[c.feature]) : 0;

        memcpy(xi, yi, sizeof xi);
        channel_range(&c, k->in[1], yi[c.feature], &lo, &hi);
        for (int64_t ch = lo; ch < hi; ch++)
            PLAN_EACH(&kb, ki)
            {
                if (!meet(&c, m, k->node, yi, ki, xi))
                    continue;
                xi[c.feature] = ch;
                weight_index(&c, yi[c.feature], ch, ki, wi);
                sum = plan_num_add(
                    sum, plan_num_mul(plan_part_get(m, k->in[0], xi),
                                      plan_part_get(m, k->in[1], wi)));
            }
        plan_part_put(y, yi, sum);
    }
}

/* dx gathers: for every x of ours, all y that read it, over the channels f
 * the weight part has. */
static void contract_data(struct plan_machine *m, const struct plan_call *k)
{
    struct contraction c = contraction_of(m, k->node);
    const struct pdl_tensor *yt = &m->model->tensors[k->node->out[0]];
    struct pdl_box kb = kernel_box(&c), all = {.ndims = c.nspatial};
    struct plan_part *dx = k->out[0];
    const struct plan_part *w = k->in[1];
    int64_t xi[PDL_BOX_DIMS] = {0}, yi[PDL_BOX_DIMS] = {0},
            si[PDL_BOX_DIMS] = {0};
    int64_t ki[PDL_BOX_DIMS] = {0}, wi[PDL_BOX_DIMS] = {0},
            got[PDL_BOX_DIMS] = {0}, lo, hi;

    for (int s = 0; s < c.nspatial; s++)
        all.hi[s] = yt->dim[s + 1];
    PLAN_EACH(&dx->box, xi)
    {
        plan_num sum = 0;
        int64_t group = xi[c.feature] / c.per_group_in;

        lo = c.transposed ? group * c.per_group_out + w->box.lo[1]
                          : group * c.per_group_out;
        hi = c.transposed ? group * c.per_group_out + w->box.hi[1]
                          : (group + 1) * c.per_group_out;
        if (!c.transposed) {
            lo = w->box.lo[0] > lo ? w->box.lo[0] : lo;
            hi = w->box.hi[0] < hi ? w->box.hi[0] : hi;
        }
        memcpy(yi, xi, sizeof yi);
        PLAN_EACH(&all, si)
        PLAN_EACH(&kb, ki)
        {
            bool hit = true;

            memcpy(&yi[2], si, (size_t)c.nspatial * sizeof si[0]);
            memcpy(got, xi, sizeof got);
            if (!meet(&c, m, k->node, yi, ki, got))
                continue;
            for (int s = 0; s < c.nspatial; s++)
                hit = hit && got[s + 2] == xi[s + 2];
            for (int64_t f = lo; hit && f < hi; f++) {
                yi[c.feature] = f;
                weight_index(&c, f, xi[c.feature], ki, wi);
                sum = plan_num_add(sum,
                                   plan_num_mul(plan_part_get(m, k->in[0], yi),
                                                plan_part_get(m, w, wi)));
            }
        }
        plan_part_put(dx, xi, sum);
    }
}

/* dw over the y this rank owns: x comes with the halo of forward. */
static void contract_weights(struct plan_machine *m, const struct plan_call *k)
{
    struct contraction c = contraction_of(m, k->node);
    struct pdl_box kb = kernel_box(&c);
    const struct plan_part *x = k->in[0], *dy = k->in[1];
    struct plan_part *dw = k->out[0];
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            ki[PDL_BOX_DIMS] = {0};
    int64_t wi[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&dy->box, yi)
    {
        plan_num d = plan_part_get(m, dy, yi);
        int64_t base = yi[c.feature] / c.per_group_out * c.per_group_in;

        memcpy(xi, yi, sizeof xi);
        for (int64_t ch = base; ch < base + c.per_group_in; ch++)
            PLAN_EACH(&kb, ki)
            {
                if (!meet(&c, m, k->node, yi, ki, xi))
                    continue;
                xi[c.feature] = ch;
                weight_index(&c, yi[c.feature], ch, ki, wi);
                if (part_offset(dw, wi) >= 0)
                    plan_part_add(dw, wi,
                                  plan_num_mul(d, plan_part_get(m, x, xi)));
            }
        if (k->nout > 1 && part_offset(k->out[1], &yi[c.feature]) >= 0)
            plan_part_add(k->out[1], &yi[c.feature], d);
    }
}

static void contract(struct plan_machine *m, const struct plan_call *k)
{
    if (k->pass == PDL_FORWARD)
        contract_forward(m, k);
    else if (k->pass == PDL_BACKWARD_DATA)
        contract_data(m, k);
    else
        contract_weights(m, k);
}

/* ---- element by element -------------------------------------------------------- */

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
            if (plan_is(n, "add"))
                v = plan_num_add(s, P - 3);
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

/* ---- batch norm ------------------------------------------------------------------ */

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

        if (part_offset(sums, s0) < 0) {
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

/* ---- windows without weights ------------------------------------------------------- */

static void pool(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_tensor *xt = &m->model->tensors[k->node->in[0]];
    const struct pdl_tensor *yt = &m->model->tensors[k->node->out[0]];
    struct contraction c = {
        .attr = &k->node->attr, .nspatial = xt->rank - 1, .feature = 1};
    bool max = plan_is(k->node, "max_pool");
    struct pdl_box kb = kernel_box(&c), all = {.ndims = c.nspatial};
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0},
            ki[PDL_BOX_DIMS] = {0};
    int64_t si[PDL_BOX_DIMS] = {0}, got[PDL_BOX_DIMS] = {0};

    if (k->pass == PDL_FORWARD) {
        PLAN_EACH(&k->out[0]->box, yi)
        {
            plan_num sum = 0;

            memcpy(xi, yi, sizeof xi);
            PLAN_EACH(&kb, ki)
            if (meet(&c, m, k->node, yi, ki, xi)) {
                plan_num v = plan_part_get(m, k->in[0], xi);

                sum = plan_num_add(sum, max ? plan_num_square(v) : v);
            }
            plan_part_put(k->out[0], yi, sum);
        }
        return;
    }
    for (int s = 0; s < c.nspatial; s++)
        all.hi[s] = yt->dim[s + 1];
    PLAN_EACH(&k->out[0]->box, xi)
    {
        plan_num sum = 0;

        memcpy(yi, xi, sizeof yi);
        PLAN_EACH(&all, si)
        PLAN_EACH(&kb, ki)
        {
            bool hit = true;

            memcpy(&yi[2], si, (size_t)c.nspatial * sizeof si[0]);
            memcpy(got, xi, sizeof got);
            if (!meet(&c, m, k->node, yi, ki, got))
                continue;
            for (int s = 0; s < c.nspatial; s++)
                hit = hit && got[s + 2] == xi[s + 2];
            if (!hit)
                continue;
            /* the position of the largest travels with dy */
            sum = plan_num_add(
                sum, max ? plan_num_mul(plan_part_get(m, k->in[0], yi),
                                        plan_part_get(m, k->in[1], yi))
                         : plan_part_get(m, k->in[0], yi));
        }
        plan_part_put(k->out[0], xi, sum);
    }
}

static void global_pool(struct plan_machine *m, const struct plan_call *k)
{
    const struct plan_part *x = k->pass == PDL_FORWARD ? k->in[0] : k->out[0];
    int64_t i[PDL_BOX_DIMS] = {0}, y[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&x->box, i)
    {
        y[0] = i[0];
        y[1] = i[1];
        if (k->pass == PDL_FORWARD)
            plan_part_add(k->out[0], y, plan_part_get(m, k->in[0], i));
        else
            plan_part_put(k->out[0], i, plan_part_get(m, k->in[0], y));
    }
}

/* ---- shapes ------------------------------------------------------------------------- */

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

/* ---- table --------------------------------------------------------------------------- */

void plan_kernel(struct plan_machine *m, const struct plan_call *c)
{
    static const struct {
        const char *op;
        void (*run)(struct plan_machine *, const struct plan_call *);
    } kernels[] = {
        {"conv", contract},     {"conv_transpose", contract},
        {"linear", contract},   {"batch_norm", batch_norm},
        {"max_pool", pool},     {"avg_pool", pool},
        {"flatten", flatten},   {"global_avg_pool", global_pool},
        {"concat", concat},     {"relu", pointwise},
        {"add", pointwise},     {"gelu", pointwise},
        {"sigmoid", pointwise}, {"tanh", pointwise},
        {"mul", pointwise},     {"identity", pointwise},
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
