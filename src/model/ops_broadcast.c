/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators of several operands. Shapes are aligned at the last
 * dimension; a dimension of 1, or one that is missing, is stretched. A weight
 * may be an operand (a learned offset or factor that an importer met). */
#include "model_priv.h"

static bool stretch(struct pdl_tensor *y, const struct pdl_tensor *t)
{
    struct pdl_tensor wide = y->rank >= t->rank ? *y : model_like(t);

    for (int i = 1; i <= wide.rank; i++) {
        int64_t a = y->rank >= i ? y->dim[y->rank - i] : 1;
        int64_t b = t->rank >= i ? t->dim[t->rank - i] : 1;

        if (a != b && a != 1 && b != 1)
            return false;
        wide.dim[wide.rank - i] = a == 1 ? b : a;
    }
    wide.dtype = y->dtype;
    *y = wide;
    return true;
}

static enum pdl_status broadcast_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    struct pdl_tensor y = model_like(u->in[0]);

    if (u->nin + u->nw < 2)
        return pdl_fail(err, PDL_EINVAL, "needs two operands");
    for (int i = 1; i < u->nin + u->nw; i++) {
        const struct pdl_tensor *t = i < u->nin ? u->in[i] : u->w[i - u->nin];
        char have[96], more[96];

        if (!stretch(&y, t))
            return pdl_fail(err, PDL_EINVAL, "shapes %s and %s do not fit",
                            model_shape_text(&y, have, sizeof have),
                            model_shape_text(t, more, sizeof more));
    }
    out[0] = y;
    *nout = 1;
    return PDL_OK;
}

static enum pdl_status compare_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (u->nin + u->nw == 1) { /* with a number */
        out[0] = model_like(u->in[0]);
        *nout = 1;
    } else {
        st = broadcast_infer(u, out, nout, err);
    }
    if (st == PDL_OK)
        out[0].dtype = PDL_BOOL;
    return st;
}

/* Of the type of what is chosen, not of the condition. */
static enum pdl_status where_infer(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    enum pdl_status st = broadcast_infer(u, out, nout, err);

    if (st == PDL_OK)
        out[0].dtype = u->nin > 1 ? u->in[1]->dtype : u->w[0]->dtype;
    return st;
}

enum { MANY = MODEL_MAX_IN };

// clang-format off
static const struct pdl_op rows[] = {
    {"add", "sum", 1, MANY, PDL_OP_PASS | PDL_OP_IS(ADD), NULL, broadcast_infer, NULL},
    {"sub", "difference", 1, 2, PDL_OP_PASS | PDL_OP_IS(SUB), NULL, broadcast_infer, NULL},
    {"mul", "product", 1, MANY, PDL_OP_SAVES_X | PDL_OP_IS(MUL), NULL, broadcast_infer, NULL},
    {"div", "quotient", 1, 2, PDL_OP_SAVES_X | PDL_OP_IS(DIV), NULL, broadcast_infer, NULL},
    {"pow", "power", 1, 2, PDL_OP_SAVES_X | PDL_OP_IS(POW), NULL, broadcast_infer, NULL},
    {"mod", "remainder", 1, 2, 0, NULL, broadcast_infer, NULL},
    {"min", "smallest", 1, MANY, PDL_OP_SAVES_X | PDL_OP_IS(MIN), NULL, broadcast_infer, NULL},
    {"max", "largest", 1, MANY, PDL_OP_SAVES_X | PDL_OP_IS(MAX), NULL, broadcast_infer, NULL},
    {"mean", "mean of the operands", 1, MANY, PDL_OP_IS(MEAN), NULL, broadcast_infer, NULL},
    {"where", "second operand where the first is true, else third (none: alpha)",
     2, 3, PDL_OP_SAVES_X | PDL_OP_IS(WHERE), NULL, where_infer, NULL},
    /* without b: alpha */
    {"equal", "a = b", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"less", "a < b", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"less_equal", "a <= b", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"greater", "a > b", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"greater_equal", "a >= b", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"and", "logical and", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"or", "logical or", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
    {"xor", "logical exclusive or", 1, 2, PDL_OP_COMPARES, NULL, compare_infer, NULL},
};
// clang-format on

const struct model_ops model_ops_broadcast = {rows,
                                              sizeof rows / sizeof rows[0]};
