/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: the mean over all items of the step, so that a rank's gradient is
 * its share of the whole and shares only have to be added. Softmax
 * cross-entropy takes one class number an item (a negative one: the item does
 * not count), the mean squared error a label for each element.
 *
 * Where ranks have only some of the classes, cross-entropy comes in three
 * parts with exchanges between them: largest value, sums, gradient. */
#include "train/backends/ref/ref.h"

#include <math.h>
#include <string.h>

static const struct train_loss plain = {TRAIN_SOFTMAX, 0, 1};

static const struct train_loss *loss_of(const struct train_call *c)
{
    return c->loss ? c->loss : &plain;
}

/* The class dimension: of images C, else the last (as the plan has it). */
static int classes(const struct ref_array *y)
{
    return y->box.ndims >= 4 ? 1 : y->box.ndims - 1;
}

struct item {
    const double *y;
    double *dy;
    int64_t n, step;
    double share; /* 1 / items of the step, times the loss scale */
};

static double softmax_item(const struct item *i, int64_t label, double smooth,
                           double *right)
{
    double top = -INFINITY, sum = 0, loss, all = 0;
    int64_t best = 0;

    *right = 0;
    if (label < 0)
        return 0;
    if (label >= i->n)
        return NAN; /* no such class: seen by who watches the loss */
    for (int64_t c = 0; c < i->n; c++)
        if (i->y[c * i->step] > top) {
            top = i->y[c * i->step];
            best = c;
        }
    for (int64_t c = 0; c < i->n; c++) {
        sum += exp(i->y[c * i->step] - top);
        all += i->y[c * i->step] - top;
    }
    for (int64_t c = 0; c < i->n; c++) {
        double want = smooth / (double)i->n + (c == label ? 1 - smooth : 0);
        double p = exp(i->y[c * i->step] - top) / sum;

        i->dy[c * i->step] = (p - want) * i->share;
    }
    *right = best == label;
    loss = log(sum) - (1 - smooth) * (i->y[label * i->step] - top);
    return loss - smooth * all / (double)i->n;
}

static double squares_item(const struct item *i, const double *label)
{
    double loss = 0;

    for (int64_t c = 0; c < i->n; c++) {
        double e = i->y[c * i->step] - label[c * i->step];

        loss += e * e / (double)i->n;
        i->dy[c * i->step] = 2 * e / (double)i->n * i->share;
    }
    return loss;
}

/* ---- classes on several ranks ----------------------------------------- */

/* Where item (an index of y, any class) lies in a statistic beside y. */
static double *beside(const struct ref_array *s, int d, const int64_t *item,
                      int which)
{
    int64_t i[PDL_BOX_DIMS];

    memcpy(i, item, sizeof i);
    i[d] = which;
    return &s->at[ref_offset(s, i)];
}

static void largest(struct ref_run *r, int d)
{
    const struct ref_array *y = &r->in[0];
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;

    for (int64_t j = 0; j < r->out[0].count; j++)
        r->out[0].at[j] = -INFINITY;
    REF_EACH(&y->box, i)
    {
        double *top = beside(&r->out[0], d, i, 0);

        *top = fmax(*top, y->at[k++]);
    }
}

/* The sum of exponentials, and the value of the right class. */
static void sums(struct ref_run *r, int d)
{
    const struct ref_array *y = &r->in[0];
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;

    REF_EACH(&y->box, i)
    {
        double v = y->at[k++];

        *beside(&r->out[0], d, i, 0) += exp(v - *beside(&r->in[2], d, i, 0));
        if ((int64_t)*beside(&r->in[1], d, i, 0) == i[d])
            *beside(&r->out[0], d, i, 1) += v;
    }
}

static void gradient(struct ref_run *r, int d, double share)
{
    const struct ref_array *y = &r->in[0];
    int64_t i[PDL_BOX_DIMS] = {0}, k = 0;

    REF_EACH(&y->box, i)
    {
        int64_t label = (int64_t)*beside(&r->in[1], d, i, 0);
        double top = *beside(&r->in[2], d, i, 0);
        double sum = *beside(&r->in[3], d, i, 0);
        double value = *beside(&r->in[3], d, i, 1);
        double p = exp(y->at[k] - top) / sum;

        r->out[0].at[k] = label < 0 ? 0 : (p - (label == i[d] ? 1 : 0)) * share;
        if (r->call->nout > 1)
            *beside(&r->out[1], d, i, 0) =
                label < 0 ? 0 : log(sum) - (value - top);
        if (r->call->nout > 2)
            *beside(&r->out[2], d, i, 0) = label >= 0 && value >= top;
        k++;
    }
}

/* Operands y; y label largest; y label largest sums. */
static void in_parts(struct ref_run *r)
{
    const struct train_loss *how = loss_of(r->call);
    const struct ref_array *y = &r->in[0];
    int d = classes(y);
    int64_t items = y->n[d] ? y->count / y->n[d] : 0;
    int64_t of = r->call->population > 0 ? r->call->population : items;

    if (r->call->nin == 1)
        largest(r, d);
    else if (r->call->nin == 3)
        sums(r, d);
    else
        gradient(r, d, (how->scale > 0 ? how->scale : 1) / (double)of);
}

/* ---- classes on one rank ---------------------------------------------- */

static void whole(struct ref_run *r)
{
    const struct train_loss *how = loss_of(r->call);
    const struct ref_array *y = &r->in[0], *label = &r->in[1];
    int d = classes(y);
    int64_t items = y->n[d] ? y->count / y->n[d] : 0, k = 0;
    int64_t of = r->call->population > 0 ? r->call->population : items;
    double scale = how->scale > 0 ? how->scale : 1;

    for (int64_t o = 0; o < y->count && y->n[d] > 0; o++) {
        struct item i = {y->at + o, r->out[0].at + o, y->n[d], y->stride[d],
                         scale / (double)of};
        double value, right = 0;

        if (o / y->stride[d] % y->n[d] != 0)
            continue;
        value = how->kind == TRAIN_MSE ? squares_item(&i, label->at + o)
                                       : softmax_item(&i, (int64_t)label->at[k],
                                                      how->smoothing, &right);
        if (r->call->nout > 1)
            r->out[1].at[k] = value;
        if (r->call->nout > 2)
            r->out[2].at[k] = right;
        k++;
    }
}

static void loss(struct ref_run *r)
{
    if (r->call->nin == 2)
        whole(r);
    else
        in_parts(r);
}

static enum pdl_status check_parts(const struct train_call *c,
                                   struct pdl_err *err)
{
    const struct train_loss *how = loss_of(c);

    if (how->kind != TRAIN_SOFTMAX || how->smoothing > 0)
        return pdl_fail(err, PDL_EINVAL,
                        "a loss other than plain cross-entropy needs all "
                        "classes on one rank");
    return PDL_OK;
}

static enum pdl_status check_whole(const struct train_call *c,
                                   struct pdl_err *err)
{
    int64_t y = train_array_elements(&c->in[0]);
    int64_t label = train_array_elements(&c->in[1]);
    int d = c->in[0].box.ndims >= 4 ? 1 : c->in[0].box.ndims - 1;
    int64_t n = c->in[0].box.hi[d] - c->in[0].box.lo[d];

    if (loss_of(c)->kind == TRAIN_SOFTMAX && n > 0)
        y /= n;
    if (y != label)
        return pdl_fail(err, PDL_EINVAL,
                        "the loss wants %lld labels, found %lld", (long long)y,
                        (long long)label);
    return PDL_OK;
}

static enum pdl_status check(const struct train_call *c, struct pdl_err *err)
{
    return c->nin == 2 ? check_whole(c, err) : check_parts(c, err);
}

static const struct ref_op rows[] = {
    {"loss", loss, NULL, check},
};

const struct ref_ops train_ref_loss = {rows, sizeof rows / sizeof rows[0]};
