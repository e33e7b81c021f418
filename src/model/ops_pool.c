/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling and the other operators over the spatial dimensions of [C,...]:
 * windows, whole images, resizing and padding. */
#include "model_priv.h"

#include <math.h>

static enum pdl_status pool_infer(const struct pdl_op_use *u,
                                  struct pdl_tensor *out, int *nout,
                                  struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    enum pdl_status st = model_check_spatial(u->attr, x, err);

    out[0] = model_like(x);
    for (int i = 1; i < x->rank && st == PDL_OK; i++)
        st = model_windows(u->attr, i - 1, x->dim[i], &out[0].dim[i], err);
    *nout = 1;
    return st;
}

static enum pdl_status global_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    if (u->in[0]->rank < 2)
        return pdl_fail(err, PDL_EINVAL,
                        "needs an input [C,...], found rank "
                        "%d",
                        u->in[0]->rank);
    out[0] = model_like(u->in[0]);
    for (int i = 1; i < out[0].rank; i++)
        out[0].dim[i] = 1;
    *nout = 1;
    return PDL_OK;
}

/* dims: the spatial extents of the result. */
static enum pdl_status set_extents(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;

    if (attr->ndims != u->in[0]->rank - 1)
        return pdl_fail(err, PDL_EINVAL,
                        "needs one extent in dims for each of %d spatial "
                        "dimensions, found %d",
                        u->in[0]->rank - 1, attr->ndims);
    out[0] = model_like(u->in[0]);
    for (int i = 0; i < attr->ndims; i++) {
        if (attr->dims[i] < 1)
            return pdl_fail(err, PDL_EINVAL, "extents must be at least 1");
        out[0].dim[1 + i] = attr->dims[i];
    }
    *nout = 1;
    return PDL_OK;
}

/* dims: the extents; else scale: their factor; else the caller knows. */
static enum pdl_status resize_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    if (u->attr->ndims > 0)
        return set_extents(u, out, nout, err);
    if (*nout == 1 && u->attr->scale == 0)
        return PDL_OK;
    if (!(u->attr->scale > 0))
        return pdl_fail(err, PDL_EINVAL, "needs dims or a positive scale");
    out[0] = model_like(u->in[0]);
    for (int i = 1; i < out[0].rank; i++) {
        double v = floor((double)out[0].dim[i] * u->attr->scale);

        if (!(v >= 1 && v < 9e15))
            return pdl_fail(err, PDL_EINVAL,
                            "the scale makes the output "
                            "empty or too large");
        out[0].dim[i] = (int64_t)v;
    }
    *nout = 1;
    return PDL_OK;
}

/* pad, pad_end: of the spatial dimensions; negative ones crop. All zero: the
 * caller may know the shape (padding of channels). */
static enum pdl_status pad_infer(const struct pdl_op_use *u,
                                 struct pdl_tensor *out, int *nout,
                                 struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;
    struct pdl_tensor y = model_like(u->in[0]);
    bool any = false;

    for (int i = 0; i < PDL_MAX_SPATIAL; i++) {
        int64_t *d = &y.dim[1 + i];

        if (!attr->pad[i] && !attr->pad_end[i])
            continue;
        any = true;
        if (i >= y.rank - 1)
            return pdl_fail(err, PDL_EINVAL,
                            "pads more dimensions than the input has");
        if (!pdl_add64(*d, attr->pad[i], d) ||
            !pdl_add64(*d, attr->pad_end[i], d) || *d < 0)
            return pdl_fail(err, PDL_EINVAL, "the padding does not fit");
    }
    if (!any && *nout == 1)
        return PDL_OK;
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

static const struct pdl_op rows[] = {
    {"max_pool", "largest of each window", 1, 1,
     PDL_OP_SAVES_MASK | PDL_OP_IS(MAX_POOL), NULL, pool_infer, NULL},
    {"avg_pool", "mean of each window", 1, 1, PDL_OP_IS(AVG_POOL), NULL,
     pool_infer, NULL},
    {"global_avg_pool", "mean of each channel", 1, 1,
     PDL_OP_IS(GLOBAL_AVG_POOL), NULL, global_infer, NULL},
    {"global_max_pool", "largest of each channel", 1, 1,
     PDL_OP_SAVES_MASK | PDL_OP_IS(GLOBAL_MAX_POOL), NULL, global_infer, NULL},
    {"adaptive_avg_pool", "mean pooling to the extents in dims", 1, 1,
     PDL_OP_IS(ADAPTIVE_AVG_POOL), NULL, set_extents, NULL},
    {"resize", "interpolation to the extents in dims, or by scale", 1, 4,
     PDL_OP_IS(RESIZE), NULL, resize_infer, NULL},
    {"pad", "padding of the spatial dimensions", 1, 4, PDL_OP_IS(PAD), NULL,
     pad_infer, NULL},
};

const struct model_ops model_ops_pool = {rows, sizeof rows / sizeof rows[0]};
