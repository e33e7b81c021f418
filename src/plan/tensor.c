/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism of transformers (Shoeybi et al. 2019): a pair of linear
 * layers with nothing but per-feature work between them is cut by outputs and
 * then by inputs, so that the ranks meet once, after the pair. Which layer is
 * the first of a pair is not written down anywhere: it is one whose readers
 * take a cut result as it is, down to a linear layer that contracts it, to
 * attention (which takes whole groups of heads, or, where an axis is a multiple
 * of them, the heads of one group dealt among ranks that have the same keys),
 * or to the loss. All others (routers, latent projections before a norm) stay
 * whole. */
#include "plan_priv.h"

enum { DEEPEST = 16 };

static int64_t last(const struct pdl_tensor *t)
{
    return t->rank > 0 ? t->dim[t->rank - 1] : 0;
}

/* What is asked of the readers. */
struct keep {
    const struct plan_lower *lo;
    int64_t parts;
    bool keys; /* some reader takes it as keys or values */
};

static int64_t kept(struct keep *k, int tensor, int depth);

/* A norm of each head keeps heads. */
static int64_t kept_by_norm(struct keep *k, const struct pdl_node *n, int depth)
{
    const struct pdl_tensor *x = &k->lo->model->tensors[n->in[0]];
    int64_t size = n->attr.features, items;

    if (size <= 0 || size >= last(x) || last(x) % size != 0)
        return -1;
    items = kept(k, n->out[0], depth);
    if (items == 0)
        return last(x) / size;
    return items > 0 && last(x) / items % size == 0 ? items : -1;
}

/* Parts of heads, and heads with what all share: whole heads. */
static int64_t kept_by_heads(struct keep *k, const struct plan_reader *r,
                             int depth)
{
    const struct pdl_node *n = &k->lo->model->nodes[r->node];
    int64_t items = r->operand == 0 ? kept(k, n->out[0], depth) : -1;

    if (items == 0)
        return n->attr.heads;
    return items > 0 && n->attr.heads % items == 0 ? items : -1;
}

static int64_t kept_by_attention(struct keep *k, const struct plan_reader *r)
{
    const struct pdl_node *n = &k->lo->model->nodes[r->node];
    int64_t groups = plan_key_groups(n);

    k->keys = k->keys || r->operand > 0;
    return r->operand == 0 && k->parts > groups && k->parts % groups == 0
               ? n->attr.heads
               : groups;
}

static int64_t kept_by(struct keep *k, const struct plan_reader *r, int depth)
{
    const struct pdl_node *n = &k->lo->model->nodes[r->node];

    if (plan_is(n, PDL_ID_LINEAR))
        return r->operand == 0 ? 0 : -1;
    if (plan_is(n, PDL_ID_ATTENTION) && n->nin == 3)
        return kept_by_attention(k, r);
    if (plan_is(n, PDL_ID_RMS_NORM) || plan_is(n, PDL_ID_LAYER_NORM))
        return kept_by_norm(k, n, depth);
    if (plan_is(n, PDL_ID_SLICE_HEADS) || plan_is(n, PDL_ID_JOIN_HEADS))
        return kept_by_heads(k, r, depth);
    if (plan_is(n, PDL_ID_ROPE) || plan_rule_is_pointwise(n))
        return kept(k, n->out[0], depth);
    return -1;
}

static int64_t kept(struct keep *k, int tensor, int depth)
{
    int64_t items = 0;

    if (depth == 0)
        return -1;
    for (const struct plan_reader *r = k->lo->values[tensor].readers; r;
         r = r->next) {
        int64_t n = kept_by(k, r, depth - 1);

        if (n < 0 || (n > 0 && items > 0 && n != items))
            return -1;
        items = n > 0 ? n : items;
    }
    return items;
}

int64_t plan_keeps_features(const struct plan_lower *lo, int tensor,
                            int64_t parts, bool *keys)
{
    struct keep k = {.lo = lo, .parts = parts};
    int64_t items = kept(&k, tensor, DEEPEST);
    int64_t n = last(&lo->model->tensors[tensor]);

    *keys = k.keys;
    return items > 0 && n % items != 0 ? -1 : items;
}
