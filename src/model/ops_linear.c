/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that multiply matrices: linear (the last dimension meets a
 * weight), matmul (both operands are activations), experts (the feed-forward
 * layers of a mixture of experts, of which each token visits topk), and the
 * embeddings, which are matrix products with one-hot rows and cost nothing. */
#include "model_priv.h"

static int64_t last(const struct pdl_tensor *t)
{
    return t->rank > 0 ? t->dim[t->rank - 1] : 1;
}

static int linear_weights(const struct pdl_attr *attr,
                          const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t dim[2] = {attr->features, last(x)};

    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 2, dim);
    if (attr->no_bias)
        return 1;
    model_weight(&w[1], "bias", PDL_TENSOR_WEIGHT, 1, dim);
    return 2;
}

static enum pdl_status linear_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    if (u->in[0]->rank < 1)
        return pdl_fail(err, PDL_EINVAL, "needs an input of rank 1 or more");
    if (u->attr->features < 1)
        return pdl_fail(err, PDL_EINVAL, "needs features (outputs)");
    if (u->nw < 1)
        return pdl_fail(err, PDL_EINVAL, "has no weight");
    out[0] = model_like(u->in[0]);
    out[0].dim[out[0].rank - 1] = u->attr->features;
    *nout = 1;
    return PDL_OK;
}

static bool linear_flops(const struct pdl_op_use *u,
                         const struct pdl_tensor *out, int64_t *flops)
{
    int64_t n = pdl_tensor_elements(out);

    return model_times(&n, last(u->in[0])) && pdl_mul64(n, 2, flops);
}

/* [...,M,K] x [...,K,N]; leading dimensions broadcast. */
static enum pdl_status matmul_infer(const struct pdl_op_use *u,
                                    struct pdl_tensor *out, int *nout,
                                    struct pdl_err *err)
{
    const struct pdl_tensor *a = u->in[0], *b = u->in[1];
    const struct pdl_tensor *deep = a->rank >= b->rank ? a : b;
    char ta[96], tb[96];

    if (a->rank < 2 || b->rank < 2 ||
        a->dim[a->rank - 1] != b->dim[b->rank - 2])
        goto mismatch;
    out[0] = model_like(deep);
    out[0].dtype = a->dtype;
    for (int i = 3; i <= deep->rank; i++) {
        int64_t x = a->rank >= i ? a->dim[a->rank - i] : 1;
        int64_t y = b->rank >= i ? b->dim[b->rank - i] : 1;

        if (x != y && x != 1 && y != 1)
            goto mismatch;
        out[0].dim[deep->rank - i] = x == 1 ? y : x;
    }
    out[0].dim[deep->rank - 2] = a->dim[a->rank - 2];
    out[0].dim[deep->rank - 1] = b->dim[b->rank - 1];
    *nout = 1;
    return PDL_OK;
mismatch:
    return pdl_fail(err, PDL_EINVAL, "cannot multiply %s by %s",
                    model_shape_text(a, ta, sizeof ta),
                    model_shape_text(b, tb, sizeof tb));
}

static enum pdl_status rows_infer(const struct pdl_op_use *u,
                                  struct pdl_tensor *out, int *nout,
                                  struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];

    if (u->attr->vocab < 1 || u->attr->features < 1)
        return pdl_fail(err, PDL_EINVAL,
                        "needs vocab (rows) and features (columns)");
    if (x->rank >= PDL_MAX_RANK)
        return pdl_fail(err, PDL_EINVAL, "the input has too many dimensions");
    out[0] = model_like(x);
    out[0].dim[out[0].rank++] = u->attr->features;
    out[0].dtype = u->nw > 0 ? u->w[0]->dtype : PDL_F32;
    *nout = 1;
    return PDL_OK;
}

static int table_weights(const struct pdl_attr *attr,
                         const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t dim[2] = {attr->vocab, attr->features};

    (void)x;
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 2, dim);
    return 1;
}

static enum pdl_status positions_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    struct pdl_tensor ids = model_like(u->in[0]);
    const struct pdl_tensor *p = &ids;
    struct pdl_op_use first = {u->attr, &p, u->w, 1, u->nw};

    if (ids.rank < 1 || ids.rank > 2)
        return pdl_fail(err, PDL_EINVAL, "needs an input [T] or [T,E]");
    if (ids.dim[0] > u->attr->vocab)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld positions, but the table has %lld rows",
                        (long long)ids.dim[0], (long long)u->attr->vocab);
    ids.rank = 1;
    return rows_infer(&first, out, nout, err);
}

static int class_weights(const struct pdl_attr *attr,
                         const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t dim[2] = {1, last(x)};

    (void)attr;
    model_weight(&w[0], "weight", PDL_TENSOR_WEIGHT, 2, dim);
    return 1;
}

static enum pdl_status class_infer(const struct pdl_op_use *u,
                                   struct pdl_tensor *out, int *nout,
                                   struct pdl_err *err)
{
    if (u->in[0]->rank != 2)
        return pdl_fail(err, PDL_EINVAL, "needs an input [T,E]");
    out[0] = model_like(u->in[0]);
    if (!pdl_add64(out[0].dim[0], 1, &out[0].dim[0]))
        return pdl_fail(err, PDL_EINVAL, "too many tokens");
    *nout = 1;
    return PDL_OK;
}

/* Rows of the first projection: gate and up side by side when gated. */
static bool ffn_rows(const struct pdl_attr *attr, int64_t *out)
{
    return pdl_mul64(attr->ffn, attr->gated ? 2 : 1, out);
}

static int experts_weights(const struct pdl_attr *attr,
                           const struct pdl_tensor *x, struct pdl_tensor *w)
{
    int64_t h = last(x), rows = 0;
    int64_t up[3], down[3] = {attr->experts, h, attr->ffn};

    if (!ffn_rows(attr, &rows))
        return 0;
    up[0] = attr->experts;
    up[1] = rows;
    up[2] = h;
    model_weight(&w[0], "gate_up_proj", PDL_TENSOR_WEIGHT, 3, up);
    model_weight(&w[1], "down_proj", PDL_TENSOR_WEIGHT, 3, down);
    if (attr->no_bias)
        return 2;
    model_weight(&w[2], "gate_up_proj_bias", PDL_TENSOR_WEIGHT, 2, up);
    model_weight(&w[3], "down_proj_bias", PDL_TENSOR_WEIGHT, 2, down);
    return 4;
}

static enum pdl_status experts_infer(const struct pdl_op_use *u,
                                     struct pdl_tensor *out, int *nout,
                                     struct pdl_err *err)
{
    const struct pdl_attr *attr = u->attr;
    int64_t rows;

    if (u->in[0]->rank < 1)
        return pdl_fail(err, PDL_EINVAL, "needs an input [T,E]");
    if (attr->experts < 1 || attr->ffn < 1 || !ffn_rows(attr, &rows))
        return pdl_fail(err, PDL_EINVAL, "needs experts and ffn");
    if (attr->topk < 1 || attr->topk > attr->experts)
        return pdl_fail(err, PDL_EINVAL,
                        "topk must be between 1 and %lld, the experts",
                        (long long)attr->experts);
    if (u->nw < 2)
        return pdl_fail(err, PDL_EINVAL, "has no weights");
    out[0] = model_like(u->in[0]);
    *nout = 1;
    return PDL_OK;
}

/* Each token: topk experts, each of (2 or 1) + 1 products H x ffn. */
static bool experts_flops(const struct pdl_op_use *u,
                          const struct pdl_tensor *out, int64_t *flops)
{
    int64_t n = pdl_tensor_elements(out);

    return model_times(&n, u->attr->topk) && model_times(&n, u->attr->ffn) &&
           model_times(&n, u->attr->gated ? 3 : 2) && pdl_mul64(n, 2, flops);
}

static const struct pdl_op rows[] = {
    {"linear", "matrix product of the last dimension with a weight", 1, 1,
     PDL_OP_SAVES_DW | PDL_OP_IS(LINEAR), linear_weights, linear_infer,
     linear_flops},
    {"matmul", "matrix product of two activations", 2, 2,
     PDL_OP_SAVES_X | PDL_OP_TWO_OPERANDS, NULL, matmul_infer, linear_flops},
    {"experts", "feed-forward layers of a mixture of experts", 1, 2,
     PDL_OP_SAVES_X | PDL_OP_SAVES_DW | PDL_OP_SPARSE_ROWS | PDL_OP_DW_READS_W |
         PDL_OP_IS(EXPERTS),
     experts_weights, experts_infer, experts_flops},
    {"embedding", "rows of a table, by token", 1, 1,
     PDL_OP_SPARSE_ROWS | PDL_OP_IS(EMBEDDING), table_weights, rows_infer,
     NULL},
    {"position_embedding", "rows of a table, by position", 1, 1,
     PDL_OP_SPARSE_ROWS | PDL_OP_IS(POSITION_EMBEDDING), table_weights,
     positions_infer, NULL},
    {"class_token", "one learned token put before the others", 1, 1, 0,
     class_weights, class_infer, NULL},
};

const struct model_ops model_ops_linear = {rows, sizeof rows / sizeof rows[0]};
