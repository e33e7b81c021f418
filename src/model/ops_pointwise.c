/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators of one operand: the output has the input's shape.
 * Where backward can use the output instead of the input it does (relu,
 * sigmoid, tanh, exp, softmax), as frameworks do, because the output is often
 * kept anyway. */
#include "model_priv.h"

#include <string.h>

static int prelu_weights(const struct pdl_attr *attr,
                         const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t n = attr->features ? attr->features : 1;

    if (!attr->features && x->rank > 1)
        n = x->dim[0];
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 1, &n);
    return 1;
}

/* A learned factor by channel of [C,H,W], by feature of [T,E]. */
static int scale_weights(const struct pdl_attr *attr,
                         const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t n = attr->features;

    if (!n && x->rank > 0)
        n = x->rank > 2 ? x->dim[0] : x->dim[x->rank - 1];
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 1, &n);
    return 1;
}

#define FROM_X(name, text) FROM_X_AS(OTHER, name, text)
#define FROM_X_AS(id, name, text)                                          \
    {                                                                      \
        name, text, 1, 1, PDL_OP_SAVES_X | PDL_OP_IS(id), NULL, NULL, NULL \
    }
#define FROM_Y(name, text) FROM_Y_AS(OTHER, name, text)
#define FROM_Y_AS(id, name, text)                                          \
    {                                                                      \
        name, text, 1, 1, PDL_OP_SAVES_Y | PDL_OP_IS(id), NULL, NULL, NULL \
    }
#define FLAT(name, text)                      \
    {                                         \
        name, text, 1, 1, 0, NULL, NULL, NULL \
    }

// clang-format off
static const struct pdl_op rows[] = {
    FROM_Y_AS(RELU, "relu", "max(x, 0)"),
    FROM_Y_AS(RELU6, "relu6", "min(max(x, 0), 6)"),
    FROM_Y("clip", "x held between alpha and beta"),
    FLAT("affine", "alpha x + beta"),
    FROM_X("power", "x to the power of alpha"),
    FROM_X_AS(GELU, "gelu", "x times the normal distribution's integral"),
    FROM_X_AS(SILU, "silu", "x times sigmoid(x)"),
    FROM_X("mish", "x times tanh(softplus(x))"),
    FROM_X_AS(HARD_SWISH, "hard_swish", "x times hard_sigmoid(x)"),
    FROM_Y("hard_sigmoid", "alpha x + beta held between 0 and 1"),
    FROM_Y("sigmoid", "1 / (1 + exp(-x))"),
    FROM_Y_AS(TANH, "tanh", "hyperbolic tangent"),
    FROM_Y("leaky_relu", "max(x, alpha x)"),
    FROM_Y("elu", "x, or alpha (exp(x) - 1) below 0"),
    FROM_Y("selu", "scaled elu"),
    FROM_X("softplus", "log(1 + exp(x))"),
    FROM_X("softsign", "x / (1 + |x|)"),
    FROM_Y_AS(SOFTMAX, "softmax", "exp(x) normalised along axis"),
    FROM_Y_AS(LOG_SOFTMAX, "log_softmax", "logarithm of softmax"),
    FROM_Y("exp", "exponential"),
    FROM_X("log", "natural logarithm"),
    FROM_Y("sqrt", "square root"),
    FROM_Y("reciprocal", "1 / x"),
    FROM_X("erf", "error function"),
    FROM_X("sin", "sine"),
    FROM_X("cos", "cosine"),
    FROM_X("abs", "absolute value"),
    FLAT("neg", "-x"),
    FLAT("floor", "largest whole number not above x"),
    FLAT("ceil", "smallest whole number not below x"),
    FLAT("round", "nearest whole number"),
    FLAT("sign", "-1, 0 or 1"),
    {"not", "logical not", 1, 1, PDL_OP_IS(NOT), NULL, NULL, NULL},
    {"prelu", "max(x, 0) + a min(x, 0), a learned by channel", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_IS(PRELU), prelu_weights, NULL, NULL},
    {"scale", "x times a learned factor by channel or feature", 1, 1,
     PDL_OP_SAVES_X | PDL_OP_IS(SCALE), scale_weights, NULL, NULL},
    {"dropout", "zeroes elements at random", 1, 3,
     PDL_OP_SAVES_MASK | PDL_OP_IS(DROPOUT), NULL,
     NULL, NULL},
    {"identity", "x", 1, 1, PDL_OP_VIEW, NULL, NULL, NULL},
};
// clang-format on

bool pdl_function_numbers(const struct pdl_node *n, double *alpha, double *beta)
{
    static const struct {
        const char *op;
        double alpha, beta;
    } usual[] = {
        {"leaky_relu", 0.01, 0},
        {"elu", 1, 0},
        {"hard_sigmoid", 1.0 / 6, 0.5},
        {"clip", 0, 0},
        {"affine", 1, 0},
        {"power", 1, 0},
    };

    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (strcmp(usual[i].op, n->op->name) == 0) {
            *alpha = n->attr.alpha != 0 ? n->attr.alpha : usual[i].alpha;
            *beta = n->attr.beta != 0 ? n->attr.beta : usual[i].beta;
            return true;
        }
    return false;
}

const struct model_ops model_ops_pointwise = {rows,
                                              sizeof rows / sizeof rows[0]};
