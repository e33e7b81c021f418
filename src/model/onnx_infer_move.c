/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move data without computing: shapes in, shapes out, and,
 * where the input is a small known tensor, its value too. Exporters spell
 * every reshape as arithmetic on Shape outputs, so folding these is what makes
 * transformers readable at all. */
#include "onnx_priv.h"

#include <math.h>

#define IN  model_onnx_in
#define OUT model_onnx_out

/* Negative axes count from the end; -1 when it is outside. */
static int norm_axis(int64_t axis, int rank)
{
    if (axis < 0)
        axis += rank;
    return axis < 0 || axis >= rank ? -1 : (int)axis;
}

/* Splits a flat index of a shape into coordinates. */
static void unravel(int64_t flat, const struct onnx_shape *s, int64_t *at)
{
    for (int i = s->rank - 1; i >= 0; i--) {
        at[i] = s->dim[i] > 0 ? flat % s->dim[i] : 0;
        flat = s->dim[i] > 0 ? flat / s->dim[i] : 0;
    }
}

static int64_t ravel(const int64_t *at, const struct onnx_shape *s)
{
    int64_t flat = 0;

    for (int i = 0; i < s->rank; i++)
        flat = flat * s->dim[i] + at[i];
    return flat;
}

/* The value stays the same, only the shape differs. */
static void keep_value(struct onnx_shape *y, const struct onnx_shape *x)
{
    if (x->nval >= 0 && model_onnx_elements(y) == x->nval) {
        y->nval = x->nval;
        y->val = x->val;
    }
}

void model_onnx_infer_shape(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t start = model_onnx_int(c->n, "start", 0), n;
    int64_t end = model_onnx_int(c->n, "end", INT64_MAX);
    double *val;

    y->type = ONNX_INT64;
    model_onnx_set(y, 1, NULL);
    if (x->rank < 0)
        return;
    start = start < 0 ? start + x->rank : start;
    start = start < 0 ? 0 : start > x->rank ? x->rank : start;
    end = end < 0 ? end + x->rank : end;
    end = end < start ? start : end > x->rank ? x->rank : end;
    n = y->dim[0] = end - start;
    val = model_onnx_room(c, y, n);
    for (int64_t i = 0; val && i < n; i++)
        val[i] =
            x->dim[start + i] < 0 ? (double)NAN : (double)x->dim[start + i];
}

void model_onnx_infer_size(struct onnx_call *c)
{
    int64_t n = model_onnx_elements(IN(c, 0));
    struct onnx_shape *y = OUT(c, 0);
    double *val;

    y->type = ONNX_INT64;
    model_onnx_set(y, 0, NULL);
    val = model_onnx_room(c, y, 1);
    if (val)
        val[0] = n < 0 ? (double)NAN : (double)n;
}

static void gather_value(struct onnx_call *c, const struct onnx_shape *x,
                         const struct onnx_shape *idx, int axis)
{
    struct onnx_shape *y = OUT(c, 0);
    int64_t n = model_onnx_elements(y);
    double *val;

    if (x->nval < 0 || idx->nval < 0 || n < 0)
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t k = 0; val && k < n; k++) {
        int64_t at[2 * PDL_MAX_RANK], from[PDL_MAX_RANK];
        int64_t flat = 0, w;

        unravel(k, y, at);
        for (int i = 0; i < idx->rank; i++)
            flat = flat * idx->dim[i] + at[axis + i];
        w = model_onnx_whole(idx->val[flat]);
        for (int i = 0; i < x->rank; i++)
            from[i] = i < axis ? at[i] : i > axis ? at[i + idx->rank - 1] : w;
        if (w != ONNX_ANY && w < 0)
            from[axis] += x->dim[axis];
        val[k] = w == ONNX_ANY || from[axis] < 0 || from[axis] >= x->dim[axis]
                     ? (double)NAN
                     : x->val[ravel(from, x)];
    }
}

void model_onnx_infer_gather(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *idx = IN(c, 1);
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[2 * PDL_MAX_RANK];
    int axis, n = 0;

    y->type = x->type;
    if (x->rank < 0 || idx->rank < 0)
        return;
    axis = norm_axis(model_onnx_int(c->n, "axis", 0), x->rank);
    if (axis < 0)
        return;
    for (int i = 0; i < axis; i++)
        dim[n++] = x->dim[i];
    for (int i = 0; i < idx->rank; i++)
        dim[n++] = idx->dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        dim[n++] = x->dim[i];
    model_onnx_set(y, n, dim);
    if (y->rank >= 0)
        gather_value(c, x, idx, axis);
}

void model_onnx_infer_gather_elements(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);

    y->type = IN(c, 0)->type;
    model_onnx_set(y, IN(c, 1)->rank, IN(c, 1)->dim);
}

void model_onnx_infer_gather_nd(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *idx = IN(c, 1);
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[2 * PDL_MAX_RANK], last;
    int n = 0, skip;

    y->type = x->type;
    if (x->rank < 0 || idx->rank < 1)
        return;
    last = idx->dim[idx->rank - 1];
    skip = (int)model_onnx_int(c->n, "batch_dims", 0);
    if (last < 0 || skip < 0 || skip > x->rank || last > x->rank - skip)
        return;
    for (int i = 0; i + 1 < idx->rank; i++)
        dim[n++] = idx->dim[i];
    for (int i = skip + (int)last; i < x->rank; i++)
        dim[n++] = x->dim[i];
    model_onnx_set(y, n, dim);
}

/* Vectors only: shapes are glued together from pieces. */
static void concat_value(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);
    double *val;
    int at = 0;

    if (y->rank != 1 || y->dim[0] < 0)
        return;
    for (int i = 0; i < c->n->nin; i++)
        if (IN(c, i)->nval < 0)
            return;
    val = model_onnx_room(c, y, y->dim[0]);
    for (int i = 0; val && i < c->n->nin; i++)
        for (int k = 0; k < IN(c, i)->nval && at < y->nval; k++)
            val[at++] = IN(c, i)->val[k];
}

void model_onnx_infer_concat(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int axis;

    y->type = x->type;
    if (x->rank < 0)
        return;
    axis = norm_axis(model_onnx_int(c->n, "axis", 1), x->rank);
    if (axis < 0)
        return;
    model_onnx_set(y, x->rank, x->dim);
    for (int i = 1; i < c->n->nin; i++) {
        const struct onnx_shape *p = IN(c, i);

        if (p->rank != x->rank) {
            model_onnx_set(y, p->rank < 0 ? x->rank : -1, NULL);
            return;
        }
        for (int k = 0; k < x->rank; k++)
            if (k != axis && y->dim[k] < 0)
                y->dim[k] = p->dim[k];
        if (y->dim[axis] < 0 || p->dim[axis] < 0 ||
            !pdl_add64(y->dim[axis], p->dim[axis], &y->dim[axis]))
            y->dim[axis] = -1;
    }
    concat_value(c);
}

struct cut {
    int64_t start, step, count;
};

/* What a slice takes of one axis; count -1: not known. */
static struct cut cut_axis(int64_t start, int64_t end, int64_t step,
                           int64_t dim)
{
    struct cut r = {0, step, -1};
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? dim - 1 : dim;

    if (dim < 0 || start == ONNX_ANY || end == ONNX_ANY || step == 0 ||
        step == ONNX_ANY)
        return r;
    start = start < 0 ? start + dim : start;
    end = end < 0 ? end + dim : end;
    start = start < (step < 0 ? 0 : low) ? (step < 0 ? 0 : low) : start;
    start = start > high ? high : start;
    end = end < low ? low : end > dim ? dim : end;
    r.start = start;
    if (step > 0)
        r.count = end <= start ? 0 : (end - start - 1) / step + 1;
    else
        r.count = end >= start ? 0 : (start - end - 1) / -step + 1;
    return r;
}

static void slice_value(struct onnx_call *c, const struct cut *cuts)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t n = model_onnx_elements(y);
    double *val = x->nval < 0 || n < 0 ? NULL : model_onnx_room(c, y, n);

    for (int64_t k = 0; val && k < n; k++) {
        int64_t at[PDL_MAX_RANK] = {0};

        unravel(k, y, at);
        for (int i = 0; i < x->rank; i++)
            at[i] = cuts[i].start + at[i] * cuts[i].step;
        val[k] = x->val[ravel(at, x)];
    }
}

/* Slicing from 0 to "the end" with step 1 keeps an unknown dimension whole
 * only when the end is not known to be smaller, so it stays unknown. */
void model_onnx_infer_slice(struct onnx_call *c)
{
    enum { MOST = PDL_MAX_RANK };
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t start[MOST], end[MOST], axes[MOST], step[MOST];
    struct cut cuts[MOST] = {{0}};
    int n = model_onnx_list(c, "starts", 1, start, MOST), m, given, steps;

    y->type = x->type;
    if (x->rank < 0)
        return;
    model_onnx_set(y, x->rank, x->dim);
    m = model_onnx_list(c, "ends", 2, end, MOST);
    given = model_onnx_list(c, "axes", 3, axes, MOST);
    steps = model_onnx_list(c, NULL, 4, step, MOST);
    for (int i = 0; i < x->rank; i++)
        cuts[i] = (struct cut){0, 1, x->dim[i]};
    if (n > MOST || m > MOST || (n < 0 && m < 0 && given < 0) ||
        (given < 0 && model_onnx_has(c, 3)) || given > MOST) {
        model_onnx_set(y, x->rank, NULL);
        return;
    }
    for (int i = 0; i < (given > 0 ? given : n > m ? n : m); i++) {
        int axis = norm_axis(given > 0 ? axes[i] : i, x->rank);
        bool whole = i < n && start[i] == 0 && i < m && end[i] > INT32_MAX;

        if (axis < 0)
            continue;
        if (x->dim[axis] < 0 && whole && steps < 0)
            continue;
        cuts[axis] =
            cut_axis(i < n ? start[i] : ONNX_ANY, i < m ? end[i] : ONNX_ANY,
                     i < steps                           ? step[i]
                     : model_onnx_has(c, 4) && steps < 0 ? ONNX_ANY
                                                         : 1,
                     x->dim[axis]);
        y->dim[axis] = cuts[axis].count;
    }
    slice_value(c, cuts);
}

/* 0 copies, -1 is what remains. */
static void reshape_dims(const struct onnx_shape *x, bool zero, int64_t *dim,
                         int n)
{
    int64_t total = model_onnx_elements(x), rest = 1;
    int open = -1, unknown = 0;

    for (int i = 0; i < n; i++) {
        if (dim[i] == 0 && !zero)
            dim[i] = i < x->rank ? x->dim[i] : -2;
        else if (dim[i] == -1)
            open = i;
        else if (dim[i] < 0)
            dim[i] = -2;
        if (i == open)
            continue;
        if (dim[i] < 0 || !pdl_mul64(rest, dim[i], &rest))
            unknown++;
    }
    if (open >= 0)
        dim[open] = total >= 0 && !unknown && rest > 0 && total % rest == 0
                        ? total / rest
                        : -1;
    else if (unknown == 1 && total >= 0 && rest > 0 && total % rest == 0)
        for (int i = 0; i < n; i++)
            if (dim[i] < 0)
                dim[i] = total / rest;
}

/* [a, b, c] to [0, 0, -1, k] with a, b unknown: what is not copied remains. */
static void reshape_tail(const struct onnx_shape *x, const int64_t *want,
                         int64_t *dim, int n)
{
    struct onnx_shape left = *x;
    int64_t total, rest = 1;
    int open = -1;

    for (int i = 0; i < n; i++) {
        bool copied = i < x->rank &&
                      (want[i] == 0 || (want[i] == ONNX_ANY && x->dim[i] < 0));
        if (copied)
            left.dim[i] = 1;
        else if (want[i] == -1)
            open = i;
        else if (want[i] < 0 || !pdl_mul64(rest, want[i], &rest))
            return;
    }
    total = model_onnx_elements(&left);
    if (open >= 0 && total >= 0 && rest > 0 && total % rest == 0)
        dim[open] = total / rest;
}

void model_onnx_infer_reshape(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *want = IN(c, 1);
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[PDL_MAX_RANK], asked[PDL_MAX_RANK];
    int n = model_onnx_list(c, "shape", 1, dim, PDL_MAX_RANK);
    int64_t total = model_onnx_elements(x), made;

    y->type = x->type;
    if (n < 0 && want->rank == 1 && want->dim[0] >= 0)
        model_onnx_set(y,
                       (int)(want->dim[0] > PDL_MAX_RANK ? PDL_MAX_RANK + 1
                                                         : want->dim[0]),
                       NULL);
    if (n < 0 || n > PDL_MAX_RANK)
        return;
    memcpy(asked, dim, sizeof asked);
    reshape_dims(x, model_onnx_int(c->n, "allowzero", 0) != 0, dim, n);
    if (total < 0 && x->rank >= 0)
        reshape_tail(x, asked, dim, n);
    model_onnx_set(y, n, dim);
    made = model_onnx_elements(y);
    if (total >= 0 && made >= 0 && made != total)
        model_onnx_set(y, n, NULL); /* contradicts itself: nothing is known */
    keep_value(y, x);
}

void model_onnx_infer_flatten(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t axis = model_onnx_int(c->n, "axis", 1), dim[2] = {1, 1};

    y->type = x->type;
    model_onnx_set(y, 2, NULL);
    if (x->rank < 0)
        return;
    axis = axis < 0 ? axis + x->rank : axis;
    for (int i = 0; i < x->rank; i++) {
        int64_t *d = &dim[i < axis ? 0 : 1];

        if (*d < 0 || x->dim[i] < 0 || !pdl_mul64(*d, x->dim[i], d))
            *d = -1;
    }
    model_onnx_set(y, 2, dim);
}

void model_onnx_infer_squeeze(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t axes[PDL_MAX_RANK], dim[PDL_MAX_RANK];
    int n = model_onnx_list(c, "axes", 1, axes, PDL_MAX_RANK), m = 0;
    bool drop[PDL_MAX_RANK] = {false};

    y->type = x->type;
    if (x->rank < 0 || n > PDL_MAX_RANK || (n < 0 && model_onnx_has(c, 1)))
        return;
    for (int i = 0; i < n; i++) {
        int axis = norm_axis(axes[i], x->rank);

        if (axis >= 0)
            drop[axis] = true;
    }
    for (int i = 0; i < x->rank; i++)
        if (n < 0 ? x->dim[i] != 1 : !drop[i])
            dim[m++] = x->dim[i];
    model_onnx_set(y, m, dim);
    keep_value(y, x);
}

void model_onnx_infer_unsqueeze(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t axes[PDL_MAX_RANK], dim[PDL_MAX_RANK];
    int n = model_onnx_list(c, "axes", 1, axes, PDL_MAX_RANK), from = 0;
    bool one[PDL_MAX_RANK] = {false};

    y->type = x->type;
    if (x->rank < 0 || n < 0 || n + x->rank > PDL_MAX_RANK)
        return;
    for (int i = 0; i < n; i++) {
        int axis = norm_axis(axes[i], x->rank + n);

        if (axis >= 0)
            one[axis] = true;
    }
    for (int i = 0; i < x->rank + n; i++)
        dim[i] = one[i] ? 1 : from < x->rank ? x->dim[from++] : 1;
    model_onnx_set(y, x->rank + n, dim);
    keep_value(y, x);
}

void model_onnx_infer_transpose(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t perm[PDL_MAX_RANK], dim[PDL_MAX_RANK], n;
    int given = model_onnx_ints(c->n, "perm", perm, PDL_MAX_RANK);
    double *val;

    y->type = x->type;
    if (x->rank < 0 || (given >= 0 && given != x->rank))
        return;
    for (int i = 0; i < x->rank; i++) {
        if (given < 0)
            perm[i] = x->rank - 1 - i;
        perm[i] = norm_axis(perm[i], x->rank);
        if (perm[i] < 0)
            return;
        dim[i] = x->dim[perm[i]];
    }
    model_onnx_set(y, x->rank, dim);
    n = model_onnx_elements(y);
    if (x->nval < 0 || n != x->nval)
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t k = 0; val && k < n; k++) {
        int64_t at[PDL_MAX_RANK] = {0}, from[PDL_MAX_RANK] = {0};

        unravel(k, y, at);
        for (int i = 0; i < x->rank; i++)
            from[perm[i]] = at[i];
        val[k] =
            ravel(from, x) < x->nval ? x->val[ravel(from, x)] : (double)NAN;
    }
}

void model_onnx_infer_split(struct onnx_call *c)
{
    enum { MOST = 64 };
    const struct onnx_shape *x = IN(c, 0);
    int64_t sizes[MOST], first = 0;
    int n = model_onnx_list(c, "split", 1, sizes, MOST), axis;

    axis =
        x->rank < 0 ? -1 : norm_axis(model_onnx_int(c->n, "axis", 0), x->rank);
    for (int k = 0; k < c->n->nout; k++) {
        struct onnx_shape *y = OUT(c, k);
        int64_t size = -1;

        y->type = x->type;
        if (axis < 0)
            continue;
        model_onnx_set(y, x->rank, x->dim);
        if (n < 0 && x->dim[axis] >= 0) {
            int64_t each = (x->dim[axis] + c->n->nout - 1) / c->n->nout;

            size = x->dim[axis] - first < each ? x->dim[axis] - first : each;
        } else if (k < n && k < MOST) {
            size = sizes[k];
        }
        y->dim[axis] = size < 0 ? -1 : size;
        if (x->nval >= 0 && x->rank == 1 && size >= 0 &&
            first + size <= x->nval) {
            y->nval = (int)size;
            y->val = x->val + first;
        }
        first += size < 0 || size > INT32_MAX ? 0 : size;
    }
}

void model_onnx_infer_tile(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t times[PDL_MAX_RANK];
    int n = model_onnx_list(c, NULL, 1, times, PDL_MAX_RANK);

    y->type = x->type;
    if (x->rank < 0)
        return;
    model_onnx_set(y, x->rank, NULL);
    for (int i = 0; i < x->rank && n == x->rank; i++)
        if (x->dim[i] < 0 || times[i] < 0 ||
            !pdl_mul64(x->dim[i], times[i], &y->dim[i]))
            y->dim[i] = -1;
}

void model_onnx_infer_pad(struct onnx_call *c)
{
    enum { MOST = 2 * PDL_MAX_RANK };
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t pads[MOST], axes[PDL_MAX_RANK];
    int n = model_onnx_list(c, c->n->opset < 2 ? "paddings" : "pads", 1, pads,
                            MOST),
        m = model_onnx_list(c, NULL, 3, axes, PDL_MAX_RANK);

    y->type = x->type;
    if (x->rank < 0)
        return;
    model_onnx_set(y, x->rank, m < 0 ? NULL : x->dim);
    if (m < 0)
        m = x->rank;
    for (int i = 0; i < m && n == 2 * m; i++) {
        int axis = model_onnx_has(c, 3) ? norm_axis(axes[i], x->rank) : i;

        if (axis < 0)
            continue;
        y->dim[axis] = -1;
        if (x->dim[axis] >= 0 && pads[i] != ONNX_ANY &&
            pads[m + i] != ONNX_ANY && pads[i] < INT32_MAX &&
            pads[m + i] < INT32_MAX &&
            x->dim[axis] + pads[i] + pads[m + i] >= 0)
            y->dim[axis] = x->dim[axis] + pads[i] + pads[m + i];
    }
}

void model_onnx_infer_depth_to_space(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t b = model_onnx_int(c->n, "blocksize", 1);

    y->type = x->type;
    if (x->rank != 4 || b < 1 || b > 4096)
        return;
    model_onnx_set(y, 4, x->dim);
    y->dim[1] = x->dim[1] < 0 ? -1 : x->dim[1] / (b * b);
    for (int i = 2; i < 4; i++)
        if (x->dim[i] < 0 || !pdl_mul64(x->dim[i], b, &y->dim[i]))
            y->dim[i] = -1;
}

void model_onnx_infer_space_to_depth(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t b = model_onnx_int(c->n, "blocksize", 1);

    y->type = x->type;
    if (x->rank != 4 || b < 1 || b > 4096)
        return;
    model_onnx_set(y, 4, x->dim);
    if (x->dim[1] < 0 || !pdl_mul64(x->dim[1], b * b, &y->dim[1]))
        y->dim[1] = -1;
    for (int i = 2; i < 4; i++)
        y->dim[i] = x->dim[i] < 0 ? -1 : x->dim[i] / b;
}

void model_onnx_infer_one_hot(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[PDL_MAX_RANK + 1], depth = -1;
    int axis, from = 0;

    y->type = IN(c, 2)->type;
    if (x->rank < 0 || x->rank >= PDL_MAX_RANK)
        return;
    axis = norm_axis(model_onnx_int(c->n, "axis", -1), x->rank + 1);
    if (IN(c, 1)->nval == 1)
        depth = model_onnx_whole(IN(c, 1)->val[0]);
    for (int i = 0; i <= x->rank; i++)
        dim[i] = i == axis ? depth : x->dim[from++];
    model_onnx_set(y, x->rank + 1, dim);
}

void model_onnx_infer_nonzero(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[2] = {IN(c, 0)->rank, -1};

    y->type = ONNX_INT64;
    model_onnx_set(y, 2, dim);
}

void model_onnx_infer_eye(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);

    y->type = (int)model_onnx_int(c->n, "dtype", IN(c, 0)->type);
    model_onnx_set(y, IN(c, 0)->rank, IN(c, 0)->dim);
}

/* Crop, long gone: border left, top, right, bottom; or border and extents. */
void model_onnx_infer_crop(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t border[4] = {0}, size[2];

    y->type = x->type;
    if (x->rank != 4)
        return;
    model_onnx_set(y, 4, x->dim);
    model_onnx_ints(c->n, "border", border, 4);
    for (int i = 0; i < 2; i++) {
        int64_t low = border[1 - i], high = border[3 - i], d = x->dim[2 + i];

        if (model_onnx_ints(c->n, "scale", size, 2) == 2)
            y->dim[2 + i] = size[i] < 0 ? -1 : size[i];
        else if (low < 0 || high < 0 || d < low || d - low < high)
            y->dim[2 + i] = -1;
        else
            y->dim[2 + i] = d - low - high;
    }
}
