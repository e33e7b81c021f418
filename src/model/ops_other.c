/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators without a meaning of their own: constants, casts, and whatever an
 * importer knows the result of but we have no semantics for. */
#include "model_priv.h"

/* dims: the shape of a constant that no file describes. */
static enum pdl_status constant_infer(const struct pdl_op_use *u,
                                      struct pdl_tensor *out, int *nout,
                                      struct pdl_err *err)
{
    (void)err;
    if (*nout == 1)
        return PDL_OK;
    model_weight(&out[0], NULL, PDL_TENSOR_ACTIVATION, u->attr->ndims,
                 u->attr->dims);
    *nout = 1;
    return PDL_OK;
}

static enum pdl_status given_infer(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    (void)u;
    (void)out;
    if (*nout > 0)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "needs its output shapes spelled out");
}

static const struct pdl_op rows[] = {
    {"constant", "a value that no weight is", 0, 0, 0, NULL, constant_infer,
     NULL},
    {"cast", "another element type", 1, 1, 0, NULL, NULL, NULL},
    {"other", "an operator known by its output shapes only", 0, MODEL_MAX_IN,
     PDL_OP_UNKNOWN, NULL, given_infer, NULL},
};

const struct model_ops model_ops_other = {rows, sizeof rows / sizeof rows[0]};
