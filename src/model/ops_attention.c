/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot-product attention: q [T, heads*head_dim], k [S, kv_heads*head_dim]
 * and v [S, kv_heads*v_head_dim] give [T, heads*v_head_dim]. S differs from T
 * in cross attention; fewer kv_heads than heads is grouped-query attention.
 *
 * FLOPs are those of the full T x S products QK' and PV, also when a causal
 * mask or a window would let a kernel skip some: the convention of the field,
 * so that figures can be compared. */
#include "model_priv.h"

struct sizes {
    int64_t heads, kv, d, dv;
};

static struct sizes sizes_of(const struct pdl_attr *attr)
{
    struct sizes s = {attr->heads, attr->kv_heads, attr->head_dim,
                      attr->v_head_dim};

    if (!s.kv)
        s.kv = s.heads;
    if (!s.dv)
        s.dv = s.d;
    return s;
}

static bool is_product(const struct pdl_tensor *t, int64_t a, int64_t b)
{
    int64_t want;

    return t->rank == 2 && pdl_mul64(a, b, &want) && t->dim[1] == want;
}

static enum pdl_status attention_infer(const struct pdl_op_use *u,
                                       struct pdl_tensor *out, int *nout,
                                       struct pdl_err *err)
{
    const struct pdl_tensor *q = u->in[0], *k = u->in[1], *v = u->in[2];
    struct sizes s = sizes_of(u->attr);
    char tq[64], tk[64], tv[64];

    if (s.heads < 1 || s.kv < 1 || s.d < 1 || s.dv < 1 || u->attr->window < 0)
        return pdl_fail(err, PDL_EINVAL, "needs heads and head_dim");
    if (s.heads % s.kv)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld kv_heads do not divide %lld "
                        "heads",
                        (long long)s.kv, (long long)s.heads);
    if (!is_product(q, s.heads, s.d) || !is_product(k, s.kv, s.d) ||
        !is_product(v, s.kv, s.dv) || k->dim[0] != v->dim[0])
        return pdl_fail(err, PDL_EINVAL,
                        "q %s, k %s, v %s do not fit %lld heads, %lld kv_heads "
                        "of %lld",
                        model_shape_text(q, tq, sizeof tq),
                        model_shape_text(k, tk, sizeof tk),
                        model_shape_text(v, tv, sizeof tv), (long long)s.heads,
                        (long long)s.kv, (long long)s.d);
    if (u->nw > 0 && (u->nw > 1 || u->w[0]->rank != 2 ||
                      u->w[0]->dim[1] != s.heads || u->w[0]->dim[0] < 4))
        return pdl_fail(err, PDL_EINVAL,
                        "its weight is a table of distances: at least 4 rows "
                        "of %lld heads",
                        (long long)s.heads);
    out[0] = model_like(q);
    if (!pdl_mul64(s.heads, s.dv, &out[0].dim[1]))
        return pdl_fail(err, PDL_EINVAL, "the output is too large to count");
    *nout = 1;
    return PDL_OK;
}

static bool attention_flops(const struct pdl_op_use *u,
                            const struct pdl_tensor *out, int64_t *flops)
{
    struct sizes s = sizes_of(u->attr);
    int64_t n;

    return pdl_add64(s.d, s.dv, &n) && model_times(&n, s.heads) &&
           model_times(&n, out->dim[0]) && model_times(&n, u->in[1]->dim[0]) &&
           pdl_mul64(n, 2, flops);
}

/* ---- features of heads ------------------------------------------------ */

/* Elements dims[0] to dims[1] of the features of each head. */
static enum pdl_status slice_heads_infer(const struct pdl_op_use *u,
                                         struct pdl_tensor *out, int *nout,
                                         struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0];
    const struct pdl_attr *a = u->attr;
    char tx[64];

    if (a->heads < 1 || x->rank != 2 || x->dim[1] % a->heads || a->ndims != 2 ||
        a->dims[0] < 0 || a->dims[1] <= a->dims[0] ||
        a->dims[1] > x->dim[1] / a->heads)
        return pdl_fail(err, PDL_EINVAL,
                        "dims must be start and end within a head's features; "
                        "%s has %lld heads",
                        model_shape_text(x, tx, sizeof tx),
                        (long long)a->heads);
    out[0] = model_like(x);
    out[0].dim[1] = a->heads * (a->dims[1] - a->dims[0]);
    *nout = 1;
    return PDL_OK;
}

/* To the features of each head of the first those of the second, which are
 * the same for all heads. */
static enum pdl_status join_heads_infer(const struct pdl_op_use *u,
                                        struct pdl_tensor *out, int *nout,
                                        struct pdl_err *err)
{
    const struct pdl_tensor *x = u->in[0], *all = u->in[1];
    int64_t heads = u->attr->heads, more;
    char tx[64], ta[64];

    if (heads < 1 || x->rank != 2 || all->rank != 2 || x->dim[1] % heads ||
        x->dim[0] != all->dim[0])
        return pdl_fail(err, PDL_EINVAL, "%s and %s do not fit %lld heads",
                        model_shape_text(x, tx, sizeof tx),
                        model_shape_text(all, ta, sizeof ta), (long long)heads);
    out[0] = model_like(x);
    if (!pdl_mul64(heads, all->dim[1], &more) ||
        !pdl_add64(x->dim[1], more, &out[0].dim[1]))
        return pdl_fail(err, PDL_EINVAL, "the output is too large to count");
    *nout = 1;
    return PDL_OK;
}

/* rope: pairs of the last `features` (0: all) of each `head_dim` features are
 * turned; head_dim 0: as wide as the attention that reads it says. */
static const struct pdl_op rows[] = {
    {"attention", "scaled dot-product attention of q, k, v", 3, 4,
     PDL_OP_SAVES_X | PDL_OP_SAVES_Y | PDL_OP_TWO_OPERANDS | PDL_OP_DW_READS_W |
         PDL_OP_IS(ATTENTION),
     NULL, attention_infer, attention_flops},
    {"rope", "rotary position embedding", 1, 3, PDL_OP_IS(ROPE), NULL, NULL,
     NULL},
    {"slice_heads", "from dims[0] to dims[1] of each head's features", 1, 1,
     PDL_OP_IS(SLICE_HEADS), NULL, slice_heads_infer, NULL},
    {"join_heads", "each head's features, then those of all heads", 2, 2,
     PDL_OP_IS(JOIN_HEADS), NULL, join_heads_infer, NULL},
};

const struct model_ops model_ops_attention = {rows,
                                              sizeof rows / sizeof rows[0]};
