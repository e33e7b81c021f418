/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows in exact arithmetic: convolution, transposed convolution and linear
 * layers are one contraction, in all its passes; and pools. */
#include "symbolic.h"

#include <string.h>

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

    if (!plan_is(n, PDL_ID_LINEAR)) {
        c.nspatial = x->rank - 1;
        c.transposed = plan_is(n, PDL_ID_CONV_TRANSPOSE);
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
                if (plan_part_offset(dw, wi) >= 0)
                    plan_part_add(dw, wi,
                                  plan_num_mul(d, plan_part_get(m, x, xi)));
            }
        if (k->nout > 1 && plan_part_offset(k->out[1], &yi[c.feature]) >= 0)
            plan_part_add(k->out[1], &yi[c.feature], d);
    }
}

void plan_kernel_contract(struct plan_machine *m, const struct plan_call *k)
{
    if (k->pass == PDL_FORWARD)
        contract_forward(m, k);
    else if (k->pass == PDL_BACKWARD_DATA)
        contract_data(m, k);
    else
        contract_weights(m, k);
}

/* ---- windows without weights ------------------------------------------ */

void plan_kernel_pool(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_tensor *xt = &m->model->tensors[k->node->in[0]];
    const struct pdl_tensor *yt = &m->model->tensors[k->node->out[0]];
    struct contraction c = {
        .attr = &k->node->attr, .nspatial = xt->rank - 1, .feature = 1};
    bool max = plan_is(k->node, PDL_ID_MAX_POOL);
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

void plan_kernel_global_pool(struct plan_machine *m, const struct plan_call *k)
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
