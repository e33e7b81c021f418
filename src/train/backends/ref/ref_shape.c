/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements: each is a map from an index of one side to
 * one of the other, run forwards to copy and backwards to add up. */
#include "train/backends/ref/ref.h"

#include <string.h>

/* Where element i of y comes from in operand *k; false: from nowhere. */
typedef bool source_fn(const struct ref_run *r, const int64_t *y, int *k,
                       int64_t *x);

static const struct pdl_tensor *in_shape(const struct ref_run *r, int k)
{
    return &r->tensors[r->node->in[k]];
}

static const struct pdl_tensor *out_shape(const struct ref_run *r, int k)
{
    return &r->tensors[r->node->out[k]];
}

/* The other side of the call's y: operands, or their gradients (NULL: not
 * wanted). */
static void sides(struct ref_run *r, struct ref_array **x)
{
    for (int i = 0; i < r->node->nin; i++) {
        int o =
            r->call->pass == PDL_FORWARD ? i : train_gradient_of(r->call, i);

        x[i] = o < 0                          ? NULL
               : r->call->pass == PDL_FORWARD ? &r->in[r->op.x + o]
                                              : &r->out[o];
    }
}

static void move(struct ref_run *r, source_fn *source)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    struct ref_array *side[REF_MAX] = {NULL};
    int64_t yi[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0}, o = 0;

    sides(r, side);
    REF_EACH(&y->box, yi)
    {
        int k = 0;
        bool found = source(r, yi, &k, xi);
        struct ref_array *x = found ? side[k] : NULL;

        if (x && ref_inside(x, xi)) {
            if (forward)
                y->at[o] = x->at[ref_offset(x, xi)];
            else
                x->at[ref_offset(x, xi)] += y->at[o];
        }
        o++;
    }
}

/* ---- the same elements in the same order ------------------------------ */

static bool from_flat(const struct ref_run *r, const int64_t *y, int *k,
                      int64_t *x)
{
    const struct pdl_tensor *yt = out_shape(r, 0), *xt = in_shape(r, 0);
    int64_t o = 0;

    *k = 0;
    for (int d = 0; d < yt->rank; d++)
        o = o * yt->dim[d] + y[d + 1];
    x[0] = y[0];
    for (int d = xt->rank - 1; d >= 0; d--) {
        x[d + 1] = o % xt->dim[d];
        o /= xt->dim[d];
    }
    return true;
}

static void reshape(struct ref_run *r)
{
    move(r, from_flat);
}

/* ---- permutations, parts, joins --------------------------------------- */

static bool from_permuted(const struct ref_run *r, const int64_t *y, int *k,
                          int64_t *x)
{
    const struct pdl_attr *a = &r->node->attr;
    int n = in_shape(r, 0)->rank;

    *k = 0;
    x[0] = y[0];
    for (int d = 0; d < n; d++)
        x[(a->ndims ? a->dims[d] : n - 1 - d) + 1] = y[d + 1];
    return true;
}

static void transpose(struct ref_run *r)
{
    move(r, from_permuted);
}

static bool from_joined(const struct ref_run *r, const int64_t *y, int *k,
                        int64_t *x)
{
    int axis = (int)r->node->attr.axis + 1;
    int64_t at = y[axis];

    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    for (*k = 0; *k < r->node->nin; ++*k) {
        int64_t n = in_shape(r, *k)->dim[axis - 1];

        if (at < n)
            break;
        at -= n;
    }
    x[axis] = at;
    return *k < r->node->nin;
}

static void concat(struct ref_run *r)
{
    move(r, from_joined);
}

static bool from_slice(const struct ref_run *r, const int64_t *y, int *k,
                       int64_t *x)
{
    const struct pdl_attr *a = &r->node->attr;
    int axis = (int)a->axis + 1;

    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    x[axis] = a->dims[0] + y[axis] * (a->ndims > 2 ? a->dims[2] : 1);
    return true;
}

static void slice(struct ref_run *r)
{
    move(r, from_slice);
}

static bool from_heads(const struct ref_run *r, const int64_t *y, int *k,
                       int64_t *x)
{
    const struct pdl_attr *a = &r->node->attr;
    int64_t size = out_shape(r, 0)->dim[1] / a->heads;
    int64_t own = in_shape(r, 0)->dim[1] / a->heads;

    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    x[2] = y[2] / size * own + a->dims[0] + y[2] % size;
    return true;
}

static void slice_heads(struct ref_run *r)
{
    move(r, from_heads);
}

static bool from_own_or_all(const struct ref_run *r, const int64_t *y, int *k,
                            int64_t *x)
{
    int64_t heads = r->node->attr.heads;
    int64_t size = out_shape(r, 0)->dim[1] / heads;
    int64_t own = in_shape(r, 0)->dim[1] / heads, e = y[2] % size;

    *k = e < own ? 0 : 1;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    x[2] = e < own ? y[2] / size * own + e : e - own;
    return true;
}

static void join_heads(struct ref_run *r)
{
    move(r, from_own_or_all);
}

/* The only operator of several outputs. */
static void split(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    int axis = (int)r->node->attr.axis + 1;
    int64_t base = 0, i[PDL_BOX_DIMS] = {0}, xi[PDL_BOX_DIMS] = {0};

    for (int k = 0; k < r->node->nout; k++) {
        struct ref_array *y = forward ? &r->out[k] : &r->in[k];
        int64_t o = 0;

        REF_EACH(&y->box, i)
        {
            memcpy(xi, i, sizeof xi);
            xi[axis] += base;
            if (forward)
                y->at[o++] = x->at[ref_offset(x, xi)];
            else
                x->at[ref_offset(x, xi)] += y->at[o++];
        }
        base += out_shape(r, k)->dim[axis - 1];
    }
}

/* ---- by numbers of the data ------------------------------------------- */

/* The index is the last operand of either pass. */
static bool taken(const struct ref_run *r, const int64_t *at, int axis,
                  int64_t *x)
{
    const struct ref_array *index = &r->in[r->op.x + 1];
    int64_t n = in_shape(r, 0)->dim[axis - 1], v;

    if (!ref_inside(index, at))
        return false;
    v = (int64_t)index->at[ref_offset(index, at)];
    x[axis] = v < 0 ? v + n : v;
    return x[axis] >= 0 && x[axis] < n;
}

static bool from_taken(const struct ref_run *r, const int64_t *y, int *k,
                       int64_t *x)
{
    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    return taken(r, y, (int)r->node->attr.axis + 1, x);
}

static bool from_rows(const struct ref_run *r, const int64_t *y, int *k,
                      int64_t *x)
{
    int axis = (int)r->node->attr.axis + 1, n = in_shape(r, 1)->rank;
    int64_t at[PDL_BOX_DIMS] = {y[0]};

    *k = 0;
    memcpy(at + 1, y + axis, (size_t)n * sizeof *at);
    memcpy(x, y, (size_t)axis * sizeof *x);
    for (int d = axis; d < in_shape(r, 0)->rank; d++)
        x[d + 1] = y[d + n];
    return taken(r, at, axis, x);
}

static void take(struct ref_run *r)
{
    move(r, from_taken);
}

static void take_rows(struct ref_run *r)
{
    move(r, from_rows);
}

static bool from_stretched(const struct ref_run *r, const int64_t *y, int *k,
                           int64_t *x)
{
    const struct pdl_tensor *t = in_shape(r, 0);

    *k = 0;
    x[0] = y[0];
    for (int d = 0; d < t->rank; d++)
        x[d + 1] = t->dim[d] == 1 ? 0 : y[d + 1];
    return true;
}

static void expand(struct ref_run *r)
{
    move(r, from_stretched);
}

/* No gradient goes through a place. */
static void argmax(struct ref_run *r)
{
    const struct ref_array *x = &r->in[0];
    struct ref_array *y = &r->out[0];
    int axis = (int)r->node->attr.axis + 1;
    int64_t n = x->n[axis], s = x->stride[axis];

    for (int64_t line = 0;
         r->call->pass == PDL_FORWARD && n > 0 && line < y->count; line++) {
        const double *at = &x->at[line / s * s * n + line % s];
        int64_t best = 0;

        for (int64_t i = 1; i < n; i++)
            best = at[i * s] > at[best * s] ? i : best;
        y->at[line] = (double)best;
    }
}

/* Backward goes the other way. */
static void cumsum(struct ref_run *r)
{
    const struct pdl_attr *a = &r->node->attr;
    bool back = (a->ndims > 0 && a->dims[0]) != (r->call->pass != PDL_FORWARD);
    bool others = a->ndims > 1 && a->dims[1];
    const struct ref_array *x = &r->in[0];
    struct ref_array *y = &r->out[0];
    int axis = (int)a->axis + 1;
    int64_t n = x->n[axis], s = x->stride[axis];

    for (int64_t line = 0; n > 0 && line < x->count / n; line++) {
        int64_t o = line / s * s * n + line % s;
        double sum = 0;

        for (int64_t i = 0; i < n; i++) {
            int64_t at = o + (back ? n - 1 - i : i) * s;

            y->at[at] = others ? sum : sum + x->at[at];
            sum += x->at[at];
        }
    }
}

/* ---- images ----------------------------------------------------------- */

static bool from_padded(const struct ref_run *r, const int64_t *y, int *k,
                        int64_t *x)
{
    const struct pdl_tensor *t = in_shape(r, 0);

    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    for (int s = 0; s < t->rank - 1; s++) {
        x[s + 2] -= r->node->attr.pad[s];
        if (x[s + 2] < 0 || x[s + 2] >= t->dim[s + 1])
            return false;
    }
    return true;
}

static void pad(struct ref_run *r)
{
    move(r, from_padded);
}

/* The nearest element, rounding down. */
static bool from_nearest(const struct ref_run *r, const int64_t *y, int *k,
                         int64_t *x)
{
    const struct pdl_tensor *xt = in_shape(r, 0), *yt = out_shape(r, 0);

    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    for (int d = 1; d < xt->rank; d++)
        x[d + 1] = y[d + 1] * xt->dim[d] / yt->dim[d];
    return true;
}

/* The sum of the elements around, each by how near it is. */
static void between(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *x = forward ? &r->in[0] : &r->out[0];
    struct ref_array *y = forward ? &r->out[0] : &r->in[r->op.dy];
    const struct pdl_tensor *xt = in_shape(r, 0), *yt = out_shape(r, 0);
    int64_t i[PDL_BOX_DIMS] = {0};

    REF_EACH(&y->box, i)
    {
        int64_t from[PDL_BOX_DIMS][TRAIN_TAPS], at[PDL_BOX_DIMS] = {i[0], i[1]};
        double share[PDL_BOX_DIMS][TRAIN_TAPS];
        int taps = 1, all = 1;

        for (int d = 1; d < xt->rank; d++, all *= taps)
            taps = train_resize_taps(&r->node->attr, xt->dim[d], yt->dim[d],
                                     i[d + 1], from[d], share[d]);
        for (int k = 0; k < all; k++) {
            double part = 1;

            for (int d = 1, rest = k; d < xt->rank; d++, rest /= taps) {
                at[d + 1] = from[d][rest % taps];
                part *= share[d][rest % taps];
            }
            if (part == 0 || !ref_inside(x, at))
                continue;
            if (forward)
                y->at[ref_offset(y, i)] += part * x->at[ref_offset(x, at)];
            else
                x->at[ref_offset(x, at)] += part * y->at[ref_offset(y, i)];
        }
    }
}

static void resize(struct ref_run *r)
{
    if (r->node->attr.alpha != 0)
        between(r);
    else
        move(r, from_nearest);
}

/* ---- one token in front ----------------------------------------------- */

static bool after_token(const struct ref_run *r, const int64_t *y, int *k,
                        int64_t *x)
{
    (void)r;
    *k = 0;
    memcpy(x, y, sizeof(int64_t) * PDL_BOX_DIMS);
    x[1] = y[1] - 1;
    return x[1] >= 0;
}

static void class_token(struct ref_run *r)
{
    struct ref_array *y = &r->out[0], *w = &r->in[r->op.w];

    if (r->call->pass == PDL_BACKWARD_WEIGHTS) {
        y = &r->in[r->op.dy];
        w = &r->out[0];
    } else {
        move(r, after_token);
    }
    if (r->call->pass == PDL_BACKWARD_DATA || y->box.lo[1] > 0)
        return;
    for (int64_t n = 0; n < y->n[0]; n++)
        for (int64_t e = 0; e < y->n[2]; e++) {
            double *py = &y->at[n * y->stride[0] + e];
            double *pw = &w->at[e + y->box.lo[2] - w->box.lo[1]];

            if (r->call->pass == PDL_FORWARD)
                *py = *pw;
            else
                *pw += *py;
        }
}

/* ---- what is refused -------------------------------------------------- */

/* Shapes an importer knew, without the attributes that say how. */
static enum pdl_status needs_dims(const struct train_call *c,
                                  struct pdl_err *err)
{
    if (c->node->attr.ndims > 0)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "%s: the model does not say how %s cuts its input",
                    c->node->name, c->node->op->name);
}

static const struct ref_op rows[] = {
    {"reshape", reshape, NULL, NULL},
    {"flatten", reshape, NULL, NULL},
    {"squeeze", reshape, NULL, NULL},
    {"unsqueeze", reshape, NULL, NULL},
    {"transpose", transpose, NULL, NULL},
    {"concat", concat, NULL, NULL},
    {"split", split, NULL, NULL},
    {"slice", slice, NULL, needs_dims},
    {"slice_heads", slice_heads, NULL, NULL},
    {"join_heads", join_heads, NULL, NULL},
    {"pad", pad, NULL, NULL},
    {"resize", resize, NULL, NULL},
    {"class_token", class_token, NULL, NULL},
    {"take", take, NULL, NULL},
    {"take_rows", take_rows, NULL, NULL},
    {"expand", expand, NULL, NULL},
    {"cumsum", cumsum, NULL, NULL},
    {"argmax", argmax, NULL, NULL},
};

const struct ref_ops train_ref_shape = {rows, sizeof rows / sizeof rows[0]};
