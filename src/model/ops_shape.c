/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that change how a tensor is seen: the elements stay the same and
 * stay in order (reshape, flatten, squeeze, unsqueeze) or are permuted
 * (transpose). Their attributes say how; an importer that only knows the
 * result may give its shape instead. */
#include "model_priv.h"

static enum pdl_status same_elements(const struct pdl_tensor *x,
                                     const struct pdl_tensor *y,
                                     struct pdl_err *err)
{
    char a[96], b[96];

    if (pdl_tensor_elements(x) == pdl_tensor_elements(y))
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s and %s differ in size",
                    model_shape_text(x, a, sizeof a),
                    model_shape_text(y, b, sizeof b));
}

/* dims: the new shape; one -1 stands for what is left. */
static enum pdl_status reshape_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;
    int64_t total = pdl_tensor_elements(u->in[0]), known = 1;
    int hole = -1;

    if (attr->ndims == 0 && *nout == 1)
        return same_elements(u->in[0], &out[0], err);
    out[0] = model_like(u->in[0]);
    out[0].rank = attr->ndims;
    for (int i = 0; i < attr->ndims; i++) {
        out[0].dim[i] = attr->dims[i];
        if (attr->dims[i] == -1 && hole < 0)
            hole = i;
        else if (attr->dims[i] < 0 || !model_times(&known, attr->dims[i]))
            return pdl_fail(err, PDL_EINVAL, "the new shape makes no sense");
    }
    if (hole >= 0) {
        if (known == 0 || total % known)
            return pdl_fail(err, PDL_EINVAL,
                            "%lld elements cannot be cut into pieces of %lld",
                            (long long)total, (long long)known);
        out[0].dim[hole] = total / known;
    }
    *nout = 1;
    return same_elements(u->in[0], &out[0], err);
}

static enum pdl_status check_axis(int64_t axis, int64_t end,
                                  struct pdl_err *err)
{
    if (axis >= 0 && axis < end)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "axis %lld is outside 0 to %lld",
                    (long long)axis, (long long)end - 1);
}

/* axis: the first of the dimensions that are joined. */
static enum pdl_status flatten_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    enum pdl_status st = check_axis(u->attr->axis, x->rank + 1, err);
    int axis;

    if (st != PDL_OK)
        return st;
    axis = (int)u->attr->axis;
    if (axis >= PDL_MAX_RANK)
        return pdl_fail(err, PDL_EINVAL, "too many dimensions");
    out[0] = model_like(x);
    out[0].rank = axis + 1;
    out[0].dim[axis] = model_prod(x, axis, x->rank);
    *nout = 1;
    return PDL_OK;
}

/* dims: the permutation; none: the reverse order. */
static enum pdl_status transpose_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    const struct pdl_attr *attr = u->attr;
    unsigned seen = 0;

    if (attr->ndims == 0 && *nout == 1)
        return same_elements(x, &out[0], err);
    if (attr->ndims != 0 && attr->ndims != x->rank)
        return pdl_fail(err, PDL_EINVAL,
                        "the permutation has %d entries for rank %d",
                        attr->ndims, x->rank);
    out[0] = model_like(x);
    for (int i = 0; i < x->rank; i++) {
        int64_t from = attr->ndims ? attr->dims[i] : x->rank - 1 - i;

        if (from < 0 || from >= x->rank || (seen >> from & 1))
            return pdl_fail(err, PDL_EINVAL, "dims is not a permutation");
        seen |= 1U << from;
        out[0].dim[i] = x->dim[from];
    }
    *nout = 1;
    return PDL_OK;
}

/* The set of axes in dims as bits. */
static enum pdl_status axes(const struct pdl_attr *attr, int end, unsigned *out,
                            struct pdl_err *err)
{
    unsigned set = 0;

    for (int i = 0; i < attr->ndims; i++) {
        enum pdl_status st = check_axis(attr->dims[i], end, err);

        if (st != PDL_OK)
            return st;
        set |= 1U << attr->dims[i];
    }
    *out = set;
    return PDL_OK;
}

/* dims: the axes of extent 1 that go; none: all of them. */
static enum pdl_status squeeze_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    unsigned set;
    enum pdl_status st = axes(u->attr, x->rank, &set, err);
    struct pdl_tensor y = model_like(x);

    if (st != PDL_OK)
        return st;
    if (u->attr->ndims == 0 && *nout == 1)
        return same_elements(x, &out[0], err);
    y.rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool go = u->attr->ndims ? set >> i & 1 : x->dim[i] == 1;

        if (go && x->dim[i] != 1)
            return pdl_fail(err, PDL_EINVAL, "axis %d is %lld, not 1", i,
                            (long long)x->dim[i]);
        if (!go)
            y.dim[y.rank++] = x->dim[i];
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

/* dims: the axes of the result that are 1. */
static enum pdl_status unsqueeze_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    struct pdl_tensor y = model_like(x);
    unsigned set;
    int from = 0;
    enum pdl_status st;

    if (u->attr->ndims == 0 && *nout == 1)
        return same_elements(x, &out[0], err);
    y.rank = x->rank + u->attr->ndims;
    if (y.rank > PDL_MAX_RANK)
        return pdl_fail(err, PDL_EINVAL, "too many dimensions");
    st = axes(u->attr, y.rank, &set, err);
    if (st != PDL_OK)
        return st;
    for (int i = 0; i < y.rank; i++) {
        bool one = set >> i & 1;

        if (!one && from == x->rank)
            return pdl_fail(err, PDL_EINVAL, "an axis is named twice");
        y.dim[i] = one ? 1 : x->dim[from++];
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

/* dims: the axes that are summed away; none: all. */
static enum pdl_status reduce_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    struct pdl_tensor y = model_like(x);
    unsigned set;
    enum pdl_status st = axes(u->attr, x->rank, &set, err);

    if (st != PDL_OK)
        return st;
    if (u->attr->ndims == 0 && *nout == 1)
        return PDL_OK;
    y.rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool go = u->attr->ndims == 0 || set >> i & 1;

        if (!go || u->attr->keep_dims)
            y.dim[y.rank++] = go ? 1 : x->dim[i];
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

#define REDUCE(name, text, flags)                         \
    {                                                     \
        name, text, 1, 2, flags, NULL, reduce_infer, NULL \
    }

// clang-format off
static const struct pdl_op rows[] = {
    {"reshape", "another shape, dims, of the same elements", 1, 2, PDL_OP_VIEW,
     NULL, reshape_infer, NULL},
    {"flatten", "joins the dimensions from axis on", 1, 1, PDL_OP_VIEW | PDL_OP_IS(FLATTEN),
     NULL, flatten_infer, NULL},
    {"squeeze", "drops the axes dims of extent 1", 1, 2, PDL_OP_VIEW, NULL,
     squeeze_infer, NULL},
    {"unsqueeze", "adds the axes dims of extent 1", 1, 2, PDL_OP_VIEW, NULL,
     unsqueeze_infer, NULL},
    {"transpose", "permutes the dimensions by dims", 1, 1, 0, NULL,
     transpose_infer, NULL},
    REDUCE("reduce_mean", "mean over the axes dims", 0),
    REDUCE("reduce_sum", "sum over the axes dims", PDL_OP_IS(REDUCE_SUM)),
    REDUCE("reduce_max", "largest over the axes dims", PDL_OP_SAVES_X),
    REDUCE("reduce_min", "smallest over the axes dims", PDL_OP_SAVES_X),
    REDUCE("reduce_prod", "product over the axes dims", PDL_OP_SAVES_X),
    REDUCE("reduce_l2", "Euclidean norm over the axes dims", PDL_OP_SAVES_X),
};
// clang-format on

const struct model_ops model_ops_shape = {rows, sizeof rows / sizeof rows[0]};
