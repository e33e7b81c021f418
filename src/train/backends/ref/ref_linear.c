/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products: linear (the last dimension meets a weight [F,C]), matmul
 * (two activations), and the tables whose rows tokens or positions pick, which
 * are products with one-hot rows. A table may hold only some of its rows: the
 * others add nothing, which makes the result a partial sum. */
#include "train/backends/ref/ref.h"

#include <string.h>

/* ---- linear ----------------------------------------------------------- */

/* An array as rows of its last dimension. */
struct rows {
    double *at;
    int64_t n, width, lo, hi; /* lo, hi: global index of the columns */
};

static struct rows rows_of(const struct ref_array *a)
{
    int d = a->box.ndims - 1;

    return (struct rows){a->at, a->n[d] ? a->count / a->n[d] : 0, a->n[d],
                         a->box.lo[d], a->box.hi[d]};
}

static void add_bias(const struct ref_array *b, const struct rows *y)
{
    for (int64_t m = 0; m < y->n; m++)
        for (int64_t f = y->lo; f < y->hi; f++)
            y->at[m * y->width + f - y->lo] += b->at[f - b->box.lo[0]];
}

static const double *weight(const struct ref_array *w, int64_t f, int64_t c)
{
    return w->at + (f - w->box.lo[0]) * w->stride[0] + c - w->box.lo[1];
}

static void linear_forward(struct ref_run *r)
{
    struct rows y = rows_of(&r->out[0]), x = rows_of(&r->in[0]);
    const struct ref_array *w = &r->in[1];

    if (r->call->part == 1) {
        memcpy(y.at, x.at, (size_t)(y.n * y.width) * sizeof(double));
        add_bias(&r->in[1], &y);
        return;
    }
    if (r->op.nw > 1)
        add_bias(&r->in[2], &y);
    for (int64_t m = 0; m < y.n; m++)
        for (int64_t f = y.lo; f < y.hi; f++) {
            const double *row = weight(w, f, w->box.lo[1]);
            const double *xs = x.at + m * x.width + w->box.lo[1] - x.lo;
            double sum = y.at[m * y.width + f - y.lo];

            for (int64_t c = 0; c < w->n[1]; c++)
                sum += xs[c] * row[c];
            y.at[m * y.width + f - y.lo] = sum;
        }
}

static void linear_data(struct ref_run *r)
{
    struct rows dx = rows_of(&r->out[0]), dy = rows_of(&r->in[0]);
    const struct ref_array *w = &r->in[1];

    for (int64_t m = 0; m < dx.n; m++)
        for (int64_t f = w->box.lo[0]; f < w->box.hi[0]; f++) {
            double d = dy.at[m * dy.width + f - dy.lo];
            const double *row = weight(w, f, dx.lo);

            for (int64_t c = 0; c < dx.width; c++)
                dx.at[m * dx.width + c] += d * row[c];
        }
}

static void linear_weights(struct ref_run *r)
{
    struct rows x = rows_of(&r->in[0]), dy = rows_of(&r->in[1]);
    struct ref_array *dw = &r->out[0], *db = &r->out[1];

    for (int64_t m = 0; m < dy.n; m++)
        for (int64_t f = dw->box.lo[0]; f < dw->box.hi[0]; f++) {
            double d = dy.at[m * dy.width + f - dy.lo];
            const double *xs = x.at + m * x.width + dw->box.lo[1] - x.lo;
            double *row = dw->at + (f - dw->box.lo[0]) * dw->stride[0];

            for (int64_t c = 0; c < dw->n[1]; c++)
                row[c] += d * xs[c];
        }
    for (int64_t m = 0; r->call->nout > 1 && m < dy.n; m++)
        for (int64_t f = db->box.lo[0]; f < db->box.hi[0]; f++)
            db->at[f - db->box.lo[0]] += dy.at[m * dy.width + f - dy.lo];
}

static void linear(struct ref_run *r)
{
    static void (*const passes[])(struct ref_run *) = {
        [PDL_FORWARD] = linear_forward,
        [PDL_BACKWARD_DATA] = linear_data,
        [PDL_BACKWARD_WEIGHTS] = linear_weights,
    };

    passes[r->call->pass](r);
}

/* ---- matmul ----------------------------------------------------------- */

/* The place of index i of y (n, ..., row, column) in an operand whose last two
 * dimensions are given; leading ones broadcast, aligned at the right. */
static void operand(const struct ref_array *a, const struct ref_array *y,
                    const int64_t *i, int64_t row, int64_t col, int64_t *out)
{
    int shift = y->box.ndims - a->box.ndims;

    out[0] = i[0];
    for (int d = 1; d < a->box.ndims - 2; d++)
        out[d] = a->box.hi[d] - a->box.lo[d] == 1 && a->box.lo[d] == 0
                     ? 0
                     : i[d + shift];
    out[a->box.ndims - 2] = row;
    out[a->box.ndims - 1] = col;
}

/* y[m,n] = sum_k a[m,k] b[k,n]; da = dy b', db = a' dy. In each pass every
 * element of y meets every k of the part at hand. */
static void matmul(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *y = forward ? &r->out[0] : &r->in[0];
    struct ref_array *a = &r->in[r->op.x], *b = &r->in[r->op.x + 1];
    int da = 0, db = 1, last = a->box.ndims - 1, n = y->box.ndims;
    int64_t i[PDL_BOX_DIMS] = {0}, ia[PDL_BOX_DIMS], ib[PDL_BOX_DIMS];

    if (!forward) {
        da = train_wants_grad(r->call->model, r->node->in[0]) ? 0 : -1;
        db = train_wants_grad(r->call->model, r->node->in[1]) ? da + 1 : -1;
    }
    REF_EACH(&y->box, i)
    for (int64_t k = a->box.lo[last]; k < a->box.hi[last]; k++) {
        double *py = &y->at[ref_offset(y, i)];
        int64_t oa, ob;

        operand(a, y, i, i[n - 2], k, ia);
        operand(b, y, i, k, i[n - 1], ib);
        oa = ref_offset(a, ia);
        ob = ref_offset(b, ib);
        if (forward) {
            *py += a->at[oa] * b->at[ob];
            continue;
        }
        if (da >= 0)
            r->out[da].at[ref_offset(&r->out[da], ia)] += *py * b->at[ob];
        if (db >= 0)
            r->out[db].at[ref_offset(&r->out[db], ib)] += *py * a->at[oa];
    }
}

/* ---- tables ----------------------------------------------------------- */

/* Rows of y or dy: (sample, positions...) each of the table's columns. */
static void table_row(const struct ref_array *y, int64_t m, int64_t row,
                      struct ref_array *w, bool forward)
{
    int d = y->box.ndims - 1;
    double *py = y->at + m * y->n[d];
    double *pw;

    if (row < w->box.lo[0] || row >= w->box.hi[0])
        return;
    pw = w->at + (row - w->box.lo[0]) * w->stride[0] + y->box.lo[d] -
         w->box.lo[1];
    for (int64_t e = 0; e < y->n[d]; e++)
        if (forward)
            py[e] = pw[e];
        else
            pw[e] += py[e];
}

static void embedding(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *y = forward ? &r->out[0] : &r->in[r->op.dy];
    struct ref_array *w = forward ? &r->in[r->op.w] : &r->out[0];

    if (r->call->pass == PDL_BACKWARD_DATA)
        return; /* nothing before a token learns */
    for (int64_t m = 0; m < r->in[0].count; m++)
        table_row(y, m, (int64_t)r->in[0].at[m], w, forward);
}

static void position_embedding(struct ref_run *r)
{
    bool forward = r->call->pass == PDL_FORWARD;
    struct ref_array *y = forward ? &r->out[0] : &r->in[r->op.dy];
    struct ref_array *w = forward ? &r->in[r->op.w] : &r->out[0];

    if (r->call->pass == PDL_BACKWARD_DATA)
        return; /* the input says only how many positions there are */
    for (int64_t n = 0; n < y->n[0]; n++)
        for (int64_t t = 0; t < y->n[1]; t++)
            table_row(y, n * y->n[1] + t,
                      train_position(r->call, y->box.lo[1] + t), w, forward);
}

static const struct ref_op rows[] = {
    {"linear", linear, NULL, NULL},
    {"matmul", matmul, NULL, NULL},
    {"embedding", embedding, NULL, NULL},
    {"position_embedding", position_embedding, NULL, NULL},
};

const struct ref_ops train_ref_linear = {rows, sizeof rows / sizeof rows[0]};
