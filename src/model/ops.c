/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator table: families one after another, and inference as all of
 * them share it: operands in number, weights in size, outputs as given. */
#include "model_priv.h"

#include <string.h>

static const struct model_ops *const families[] = {
    &model_ops_conv,      &model_ops_linear, &model_ops_attention,
    &model_ops_norm,      &model_ops_pool,   &model_ops_pointwise,
    &model_ops_broadcast, &model_ops_shape,  &model_ops_index,
    &model_ops_other,
};
enum { NFAMILIES = sizeof families / sizeof families[0] };

const struct pdl_op *pdl_op_at(int i)
{
    for (int f = 0; f < NFAMILIES && i >= 0; f++) {
        if (i < families[f]->count)
            return &families[f]->rows[i];
        i -= families[f]->count;
    }
    return NULL;
}

const struct pdl_op *pdl_op_find(const char *name)
{
    const struct pdl_op *op;

    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

enum pdl_op_id pdl_op_id(const struct pdl_op *op)
{
    return (enum pdl_op_id)(op->flags >> 16);
}

void model_operands(const struct pdl_tensor *tensors,
                    const struct pdl_node *node, struct model_operands *out)
{
    for (int i = 0; i < node->nin; i++)
        out->in[i] = &tensors[node->in[i]];
    for (int i = 0; i < node->nweights; i++)
        out->w[i] = &tensors[node->weights[i]];
    out->use = (struct pdl_op_use){&node->attr, out->in, out->w, node->nin,
                                   node->nweights};
}

/* Weights given by an importer may be laid out another way (a transposed
 * matrix), but must have the right number of elements. */
static enum pdl_status check_weights(const struct pdl_op *op,
                                     const struct pdl_op_use *u,
                                     struct pdl_err *err)
{
    struct pdl_tensor want[PDL_OP_MAX_WEIGHTS];
    int n;

    if (!op->weights || u->nin < 1)
        return PDL_OK;
    n = op->weights(u->attr, u->in[0], want);
    if (u->nw > n)
        return pdl_fail(err, PDL_EINVAL, "has %d weights, but uses %d", u->nw,
                        n);
    for (int i = 0; i < u->nw; i++) {
        char a[96], b[96];

        if (!model_shape_valid(&want[i]))
            return pdl_fail(err, PDL_EINVAL,
                            "the weight is too large to "
                            "count");
        if (pdl_tensor_elements(&want[i]) != pdl_tensor_elements(u->w[i]))
            return pdl_fail(err, PDL_EINVAL, "%s is %s, but should be %s",
                            want[i].name,
                            model_shape_text(u->w[i], a, sizeof a),
                            model_shape_text(&want[i], b, sizeof b));
    }
    return PDL_OK;
}

static enum pdl_status check_outputs(const struct pdl_tensor *given, int ngiven,
                                     const struct pdl_tensor *out, int nout,
                                     struct pdl_err *err)
{
    char a[96], b[96];

    for (int i = 0; i < nout; i++)
        if (!model_shape_valid(&out[i]))
            return pdl_fail(err, PDL_EINVAL,
                            "the output is too large to count");
    for (int i = 0; i < ngiven && i < nout; i++)
        if (!model_same_shape(&given[i], &out[i]))
            return pdl_fail(err, PDL_EINVAL,
                            "the output is %s, but %s was "
                            "given",
                            model_shape_text(&out[i], a, sizeof a),
                            model_shape_text(&given[i], b, sizeof b));
    if (ngiven > 0 && ngiven != nout)
        return pdl_fail(err, PDL_EINVAL, "has %d outputs, but %d were given",
                        nout, ngiven);
    return PDL_OK;
}

enum pdl_status model_infer(const struct pdl_op *op, const struct pdl_op_use *u,
                            struct pdl_tensor *out, int *nout,
                            struct pdl_err *err)
{
    struct pdl_tensor made[PDL_OP_MAX_OUT];
    enum pdl_status st;
    int n = *nout;

    if (u->nin < op->min_in || u->nin > op->max_in)
        return pdl_fail(err, PDL_EINVAL, "takes %d to %d inputs, found %d",
                        op->min_in, op->max_in, u->nin);
    st = check_weights(op, u, err);
    if (st != PDL_OK)
        return st;
    memcpy(made, out, (size_t)n * sizeof made[0]);
    if (op->infer) {
        st = op->infer(u, made, &n, err);
    } else {
        made[0] = model_like(u->in[0]);
        n = 1;
    }
    if (st == PDL_OK)
        st = check_outputs(out, *nout, made, n, err);
    if (st != PDL_OK)
        return st;
    if (*nout == 0)
        memcpy(out, made, (size_t)n * sizeof made[0]);
    *nout = n;
    return PDL_OK;
}
