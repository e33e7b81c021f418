/* Shared inside the model room: the operator families and what their files
 * have in common. */
#ifndef MODEL_PRIV_H
#define MODEL_PRIV_H

#include "paradl/model.h"

/* A family of operators: one file, one array. */
struct model_ops {
    const struct pdl_op *rows;
    int count;
};
extern const struct model_ops model_ops_conv, model_ops_pool, model_ops_linear,
    model_ops_attention, model_ops_norm, model_ops_pointwise,
    model_ops_broadcast, model_ops_shape, model_ops_index, model_ops_other;

/* "[64,56,56]", cut with an ellipsis where buf is too small. */
const char *model_shape_text(const struct pdl_tensor *t, char *buf,
                             size_t size);
/* The same shape; names, kinds and types do not matter. */
bool model_same_shape(const struct pdl_tensor *a, const struct pdl_tensor *b);
/* All dimensions >= 0 and every product of some of them fits, so that the
 * functions below need no checks. */
bool model_shape_valid(const struct pdl_tensor *t);
/* Writes a weight's description. */
void model_weight(struct pdl_tensor *w, const char *name,
                  enum pdl_tensor_kind kind, int rank, const int64_t *dim);
/* An output like t, ready to have its dimensions changed. */
struct pdl_tensor model_like(const struct pdl_tensor *t);
/* Attributes where 0 stands for 1. */
int64_t model_or1(int64_t v);
/* The product of dimensions [from, to) of a checked shape. */
int64_t model_prod(const struct pdl_tensor *t, int from, int to);

/* Sliding windows, shared by convolution and pooling: the number of windows
 * along spatial dimension i of extent x, or an error. */
enum pdl_status model_windows(const struct pdl_attr *attr, int i, int64_t x,
                              int64_t *out, struct pdl_err *err);
/* x is [C, 1 to 3 spatial dimensions] and the attributes fit that rank. */
enum pdl_status model_check_spatial(const struct pdl_attr *attr,
                                    const struct pdl_tensor *x,
                                    struct pdl_err *err);
/* *total *= factor, false on overflow. */
bool model_times(int64_t *total, int64_t factor);

/* Operands of a node, looked up. */
enum { MODEL_MAX_IN = 64 };
struct model_operands {
    struct pdl_op_use use;
    const struct pdl_tensor *in[MODEL_MAX_IN];
    const struct pdl_tensor *w[PDL_OP_MAX_WEIGHTS];
};
void model_operands(const struct pdl_tensor *tensors,
                    const struct pdl_node *node, struct model_operands *out);
/* Whether a node of segment `reader` may read tensor t. */
bool model_readable(const struct pdl_tensor *tensors,
                    const struct pdl_segment *segments, int reader, int t);
/* Output shapes of a node; *nout and out as for pdl_op.infer. Given shapes
 * that disagree with inference are refused. */
enum pdl_status model_infer(const struct pdl_op *op, const struct pdl_op_use *u,
                            struct pdl_tensor *out, int *nout,
                            struct pdl_err *err);

#endif
