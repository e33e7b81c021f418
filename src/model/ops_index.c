/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that take tensors apart and put them together along an axis. */
#include "model_priv.h"

#include <string.h>

static enum pdl_status axis_of(const struct pdl_op_use *u, int *axis,
                               struct pdl_err *err)
{
    if (u->attr->axis < 0 || u->attr->axis >= u->in[0]->rank)
        return pdl_fail(err, PDL_EINVAL, "axis %lld is outside rank %d",
                        (long long)u->attr->axis, u->in[0]->rank);
    *axis = (int)u->attr->axis;
    return PDL_OK;
}

static enum pdl_status concat_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    struct pdl_tensor y = model_like(u->in[0]);
    int axis = 0;
    enum pdl_status st = axis_of(u, &axis, err);

    if (st != PDL_OK)
        return st;
    for (int i = 1; i < u->nin + u->nw; i++) {
        const struct pdl_tensor *t = i < u->nin ? u->in[i] : u->w[i - u->nin];
        struct pdl_tensor other = *t;
        char a[96], b[96];

        other.dim[axis] = y.dim[axis];
        if (!model_same_shape(&y, &other))
            return pdl_fail(err, PDL_EINVAL, "cannot join %s and %s at axis %d",
                            model_shape_text(&y, a, sizeof a),
                            model_shape_text(t, b, sizeof b), axis);
        if (!pdl_add64(y.dim[axis], t->dim[axis], &y.dim[axis]))
            return pdl_fail(err, PDL_EINVAL, "the output is too large");
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

static enum pdl_status uneven(const struct pdl_op_use *u, int axis,
                              struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL,
                    "the parts do not add up to the %lld along axis %d",
                    (long long)u->in[0]->dim[axis], axis);
}

/* dims: the extents of the parts along axis. */
static enum pdl_status split_infer(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;
    int64_t left;
    int axis = 0;
    enum pdl_status st;

    if (attr->ndims == 0 && *nout > 0)
        return PDL_OK;
    st = axis_of(u, &axis, err);
    if (st != PDL_OK)
        return st;
    left = u->in[0]->dim[axis];
    for (int i = 0; i < attr->ndims; i++) {
        if (attr->dims[i] < 0 || attr->dims[i] > left)
            return uneven(u, axis, err);
        left -= attr->dims[i];
        out[i] = model_like(u->in[0]);
        out[i].dim[axis] = attr->dims[i];
    }
    if (left != 0 || attr->ndims == 0)
        return uneven(u, axis, err);
    *nout = attr->ndims;
    return PDL_OK;
}

/* dims: start, end (not included) and step along axis. */
static enum pdl_status slice_infer(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;
    int64_t step = attr->ndims > 2 ? attr->dims[2] : 1;
    int axis = 0;
    enum pdl_status st;

    if (attr->ndims == 0 && *nout == 1)
        return PDL_OK;
    st = axis_of(u, &axis, err);
    if (st != PDL_OK)
        return st;
    if (attr->ndims < 2 || attr->ndims > 3 || attr->dims[0] < 0 ||
        attr->dims[1] < attr->dims[0] || step < 1 ||
        attr->dims[1] > u->in[0]->dim[axis])
        return pdl_fail(err, PDL_EINVAL,
                        "dims must be start, end and step within the %lld "
                        "along axis %d",
                        (long long)u->in[0]->dim[axis], axis);
    out[0] = model_like(u->in[0]);
    out[0].dim[axis] = (attr->dims[1] - attr->dims[0]) / step +
                       ((attr->dims[1] - attr->dims[0]) % step != 0);
    *nout = 1;
    return PDL_OK;
}

/* The axis gives way to the shape of the indices: the second operand, or
 * dims. No index dimensions: one element is taken and the axis is gone. */
static enum pdl_status gather_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    const int64_t *index = u->nin > 1 ? u->in[1]->dim : u->attr->dims;
    int n = u->nin > 1 ? u->in[1]->rank : u->attr->ndims, axis = 0;
    struct pdl_tensor y = model_like(x);
    enum pdl_status st;

    if (u->nin == 1 && n == 0 && *nout == 1)
        return PDL_OK;
    st = axis_of(u, &axis, err);
    if (st != PDL_OK)
        return st;
    if (x->rank - 1 + n > PDL_MAX_RANK)
        return pdl_fail(err, PDL_EINVAL, "too many dimensions");
    y.rank = x->rank - 1 + n;
    memcpy(y.dim + axis, index, (size_t)n * sizeof *index);
    memcpy(y.dim + axis + n, x->dim + axis + 1,
           (size_t)(x->rank - axis - 1) * sizeof *index);
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

/* The second operand says of each element of y where along axis it is. */
static enum pdl_status take_infer(const struct pdl_op_use *u,
                                  struct pdl_tensor *out, int *nout,
                                  struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0], *at = u->in[1];
    struct pdl_tensor y = model_like(x);
    int axis = 0;
    enum pdl_status st = axis_of(u, &axis, err);

    if (st != PDL_OK)
        return st;
    if (at->rank != x->rank)
        return pdl_fail(err, PDL_EINVAL, "%d indices of an element of rank %d",
                        at->rank, x->rank);
    for (int i = 0; i < x->rank; i++)
        if (i != axis && at->dim[i] > x->dim[i])
            return pdl_fail(err, PDL_EINVAL,
                            "indices go beyond the %lld of dimension %d",
                            (long long)x->dim[i], i);
    memcpy(y.dim, at->dim, sizeof y.dim);
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

static enum pdl_status cumsum_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    int axis;
    enum pdl_status st = axis_of(u, &axis, err);

    if (st == PDL_OK) {
        out[0] = model_like(u->in[0]);
        *nout = 1;
    }
    return st;
}

/* The axis goes, or (keep_dims) stays as 1; a place is a whole number. */
static enum pdl_status arg_infer(const struct pdl_op_use *u,
                                 struct pdl_tensor *out, int *nout,
                                 struct pdl_err *err)
{
    struct pdl_tensor y = model_like(u->in[0]);
    int axis = 0;
    enum pdl_status st = axis_of(u, &axis, err);

    if (st != PDL_OK)
        return st;
    y.dtype = PDL_I64;
    y.dim[axis] = 1;
    if (!u->attr->keep_dims) {
        memmove(y.dim + axis, y.dim + axis + 1,
                (size_t)(y.rank - axis - 1) * sizeof *y.dim);
        y.rank--;
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

/* dims: the shape; an extent of 1 becomes any other. */
static enum pdl_status expand_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    struct pdl_tensor y = model_like(x);

    for (int i = 0; i < x->rank; i++) {
        if (u->attr->ndims != x->rank ||
            (x->dim[i] != 1 && u->attr->dims[i] != x->dim[i]))
            return pdl_fail(err, PDL_EINVAL,
                            "dims are no shape that the input is stretched to");
        y.dim[i] = u->attr->dims[i];
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

static const struct pdl_op rows[] = {
    {"concat", "joins tensors along axis", 1, MODEL_MAX_IN, PDL_OP_IS(CONCAT),
     NULL, concat_infer, NULL},
    {"split", "cuts along axis into parts of extents dims", 1, 2,
     PDL_OP_IS(SPLIT), NULL, split_infer, NULL},
    {"slice", "from dims[0] to dims[1] along axis", 1, 5, PDL_OP_IS(SLICE),
     NULL, slice_infer, NULL},
    {"gather", "elements along axis, by index", 1, 2,
     PDL_OP_SPARSE_ROWS | PDL_OP_UNKNOWN, NULL, gather_infer, NULL},
    {"take", "elements along axis, each by an index of its own", 2, 2,
     PDL_OP_SPARSE_ROWS | PDL_OP_SAVES_X, NULL, take_infer, NULL},
    {"take_rows", "rows along axis, by the second operand", 2, 2,
     PDL_OP_SPARSE_ROWS | PDL_OP_SAVES_X, NULL, gather_infer, NULL},
    {"cumsum", "sums along axis so far; dims: from the end, without itself", 1,
     1, PDL_OP_IS(CUMSUM), NULL, cumsum_infer, NULL},
    {"argmax", "where along axis the largest is, of equals the first", 1, 1, 0,
     NULL, arg_infer, NULL},
    {"expand", "dimensions of 1 stretched to dims", 1, 1, 0, NULL, expand_infer,
     NULL},
};

const struct model_ops model_ops_index = {rows, sizeof rows / sizeof rows[0]};
