/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer of a transformer: attention (grouped, latent or across stacks),
 * feed-forward (plain, gated, mixture of experts), norms and residuals in the
 * six arrangements of transformer.h. */
#include "transformer.h"

/* Norms of q and k, before the rotation. */
static int qk_normed(struct model_tf_ctx *c, const struct model_tf_layer *l,
                     const char *part, int x)
{
    if (l->qk_norm == TF_QK_NONE)
        return x;
    return model_tf_normed(c, part, x, l->qk_norm_kind,
                           l->qk_norm == TF_QK_HEAD ? l->head_dim : 0);
}

static struct model_label join(const char *a, const char *b)
{
    return model_label("%s.%s", a, b);
}

static int core(struct model_tf_ctx *c, const struct model_tf_layer *l,
                const char *part, const int qkv[3], bool self)
{
    struct pdl_attr attr = {.heads = l->heads,
                            .kv_heads = l->kv_heads,
                            .head_dim = l->head_dim,
                            .v_head_dim = l->v_head_dim,
                            .window = self ? l->window : 0,
                            .causal = self && l->causal,
                            .scale = l->unscaled ? 1 : 0,
                            .alpha = self ? c->tf->alibi : 0,
                            .beta = self ? c->tf->alibi_factor : 0};
    int in[4] = {qkv[0], qkv[1], qkv[2], c->relative};
    int x = pdl_build_node(c->b,
                           &(struct pdl_build_spec){
                               .op = "attention",
                               .name = model_tf_name(c, join(part, "core").s).s,
                               .attr = &attr,
                               .in = in,
                               .nin = self && c->relative >= 0 ? 4 : 3,
                               .weights = &c->distances,
                               .nweights = self && c->distances >= 0 ? 1 : 0});

    /* gpt-oss: a logit for each head that takes part in the softmax */
    if (l->sinks)
        x = model_tf_other(c, "attention_sink", join(part, "sinks").s, &x, 1,
                           l->heads * l->v_head_dim, &l->heads, 1);
    return x;
}

static int rotate(struct model_tf_ctx *c, const struct model_tf_layer *l,
                  const char *name, int x)
{
    return l->rope ? model_tf_rope(c, name, (struct pdl_attr){0}, x) : x;
}

/* k and v of one layer; Gemma 4 lets k stand for v. */
static void keys_values(struct model_tf_ctx *c, const struct model_tf_layer *l,
                        const char *part, int source, int qkv[3])
{
    int k;

    if (l->shared_kv) { /* those of an earlier layer */
        qkv[1] = model_tf_other(c, "shared_keys", join(part, "k").s, &source, 1,
                                l->kv_heads * l->head_dim, NULL, 0);
        qkv[2] = model_tf_other(c, "shared_values", join(part, "v").s, &source,
                                1, l->kv_heads * l->v_head_dim, NULL, 0);
        return;
    }
    k = model_tf_linear(c, join(part, "k").s, source, l->kv_heads * l->head_dim,
                        l->k_bias);

    qkv[2] = l->v_is_k
                 ? k
                 : model_tf_linear(c, join(part, "v").s, source,
                                   l->kv_heads * l->v_head_dim, l->v_bias);
    k = qk_normed(c, l, join(part, "k_norm").s, k);
    qkv[1] = rotate(c, l, join(part, "k_rope").s, k);
}

/* Queries through a narrow vector (DeepSeek). */
static int queries(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   const char *part, int x, int64_t width)
{
    if (l->q_lora) {
        x = model_tf_linear(c, join(part, "q_a").s, x, l->q_lora, 0);
        x = model_tf_normed(c, join(part, "q_a_norm").s, x, l->norm, 0);
    }
    return model_tf_linear(c, join(part, "q").s, x, width, l->q_bias);
}

enum { MOST_GROUPS = 16 };

/* Each group of heads to a narrow vector of its own (DeepSeek-V4). */
static int grouped_out(struct model_tf_ctx *c, const struct model_tf_layer *l,
                       const char *part, int x)
{
    int64_t wide = l->heads * l->v_head_dim / l->out_groups;
    struct pdl_attr attr = {.axis = 1};
    int y[MOST_GROUPS];

    for (int64_t g = 0; g < l->out_groups; g++) {
        struct model_label cut =
            model_label("%s.group%lld", part, (long long)g);
        struct model_label to = model_label("%s.out_a%lld", part, (long long)g);

        y[g] = model_tf_slice(c, cut.s, x, g * wide, wide);
        y[g] = model_tf_linear(c, to.s, y[g], l->out_lora, 0);
    }
    return model_tf_op(c, "concat", join(part, "out_joined").s, &attr, y,
                       (int)l->out_groups);
}

static int plain_attention(struct model_tf_ctx *c,
                           const struct model_tf_layer *l, const char *part,
                           int x, int memory)
{
    int64_t width = l->heads * l->head_dim;
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;
    int q = queries(c, l, part, x, l->gate ? 2 * width : width);
    int gate = -1, qkv[3];

    if (l->gate) {
        gate = model_tf_slice(c, join(part, "gate").s, q, width, width);
        q = model_tf_slice(c, join(part, "q_half").s, q, 0, width);
    }
    q = qk_normed(c, l, join(part, "q_norm").s, q);
    qkv[0] = rotate(c, l, join(part, "q_rope").s, q);
    keys_values(c, l, part, memory >= 0 ? memory : x, qkv);
    x = core(c, l, part, qkv, memory < 0);
    if (l->gate) {
        gate = model_tf_unary(c, "sigmoid", join(part, "sigmoid").s, gate);
        x = model_tf_binary(c, "mul", join(part, "gated").s, x, gate);
    }
    if (l->sub_norm)
        x = model_tf_normed(c, join(part, "sub_norm").s, x, l->norm, 0);
    if (l->out_lora)
        x = grouped_out(c, l, part, x);
    return model_tf_linear(c, join(part, "out").s, x, hidden, l->out_bias);
}

/* ---- feed-forward ----------------------------------------------------- */

static int feed_forward(struct model_tf_ctx *c, const struct model_tf_layer *l,
                        const char *part, int x, int64_t width)
{
    static const char *const gates[] = {
        [TF_USUAL] = "silu", [TF_RELU] = "relu", [TF_GELU] = "gelu"};
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;
    int gate = -1, y;

    if (l->gated)
        gate = model_tf_linear(c, join(part, "gate").s, x, width, l->ffn_bias);
    y = model_tf_linear(c, join(part, "up").s, x, width, l->ffn_bias);
    if (l->gated) {
        gate = model_tf_unary(c, gates[l->act], join(part, "act").s, gate);
        y = model_tf_binary(c, "mul", join(part, "gated").s, gate, y);
    } else {
        y = model_tf_unary(c, l->act == TF_RELU ? "relu" : "gelu",
                           join(part, "act").s, y);
    }
    if (l->ffn_norm)
        y = model_tf_normed(c, join(part, "sub_norm").s, y, l->norm, 0);
    return model_tf_linear(c, join(part, "down").s, y, hidden, l->ffn_bias);
}

static int mixture(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x)
{
    struct pdl_attr attr = {.experts = l->experts,
                            .topk = l->topk,
                            .ffn = l->moe_ffn,
                            .gated = l->gated,
                            .no_bias = !l->expert_bias};
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;
    int in[2], y, shared, gate;

    in[0] = l->moe_latent
                ? model_tf_linear(c, "moe.latent_in", x, l->moe_latent, 0)
                : x;
    in[1] = model_tf_linear(c, "moe.router", x, l->experts, l->router_bias);
    if (l->correction)
        in[1] = model_tf_with(c, "add", "moe.correction", in[1], l->experts);
    y = model_tf_op(c, "experts", "moe.experts", &attr, in, 2);
    if (l->moe_latent)
        y = model_tf_linear(c, "moe.latent_out", y, hidden, 0);
    if (l->shared_ffn) {
        shared = feed_forward(c, l, "moe.shared", x, l->shared_ffn);
        if (l->shared_gate) {
            gate = model_tf_linear(c, "moe.shared_gate", x, 1, 0);
            gate = model_tf_unary(c, "sigmoid", "moe.shared_sigmoid", gate);
            shared =
                model_tf_binary(c, "mul", "moe.shared_gated", shared, gate);
        }
        y = model_tf_binary(c, "add", "moe.add_shared", y, shared);
    }
    if (l->dense_too)
        y = model_tf_binary(c, "add", "moe.add_dense", y,
                            feed_forward(c, l, "ffn", x, l->ffn));
    return y;
}

/* Gemma 4: dense layer and experts side by side, each with a norm after it,
 * the experts with one before; the router scales its input and its output. */
static int beside(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;
    struct pdl_attr attr = {.experts = l->experts,
                            .topk = l->topk,
                            .ffn = l->moe_ffn,
                            .gated = l->gated,
                            .no_bias = true};
    int y = feed_forward(c, l, "ffn", x, l->ffn), in[2];

    y = model_tf_normed(c, "ffn.post_norm_1", y, l->norm, 0);
    in[1] = model_tf_with(c, "mul", "moe.router_scale", x, hidden);
    in[1] = model_tf_linear(c, "moe.router", in[1], l->experts, 0);
    in[1] = model_tf_with(c, "mul", "moe.expert_scale", in[1], l->experts);
    in[0] = model_tf_normed(c, "moe.norm", x, l->norm, 0);
    in[0] = model_tf_op(c, "experts", "moe.experts", &attr, in, 2);
    in[0] = model_tf_normed(c, "moe.post_norm", in[0], l->norm, 0);
    return model_tf_binary(c, "add", "moe.add_dense", y, in[0]);
}

/* ---- the layer -------------------------------------------------------- */

static int mix(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    if (l->mixer == TF_ATTENTION)
        return plain_attention(c, l, "attn", x, -1);
    if (l->mixer == TF_CROSS)
        return plain_attention(c, l, "cross", x, c->memory);
    return model_tf_mixer(c, l, x);
}

static int transform(struct model_tf_ctx *c, const struct model_tf_layer *l,
                     int x)
{
    if (l->beside)
        return beside(c, l, x);
    return l->experts ? mixture(c, l, x) : feed_forward(c, l, "ffn", x, l->ffn);
}

static int cross(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    return plain_attention(c, l, "cross", x, c->memory);
}

/* x + f(x) with the norms the arrangement asks for. */
static int branch(struct model_tf_ctx *c, const struct model_tf_layer *l,
                  const char *part, int x,
                  int (*f)(struct model_tf_ctx *, const struct model_tf_layer *,
                           int))
{
    bool before = l->order == TF_PRE || l->order == TF_SANDWICH;
    bool after = l->order == TF_SANDWICH || l->order == TF_BRANCH;
    bool skip = l->skip_norm && f == mix;
    int y = before && !skip
                ? model_tf_normed(c, join(part, "norm").s, x, l->norm, 0)
                : x;
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;

    y = f(c, l, y);
    if (after)
        y = model_tf_normed(c, join(part, "post_norm").s, y, l->norm, 0);
    if (l->layer_scale)
        y = model_tf_with(c, "mul", join(part, "scale").s, y, hidden);
    if (l->gates)
        y = model_tf_with(c, "mul", join(part, "damping").s, y, 1);
    x = model_tf_binary(c, "add", join(part, "add").s, x, y);
    if (l->order == TF_POST)
        x = model_tf_normed(c, join(part, "norm").s, x, l->norm, 0);
    return x;
}

static int side_by_side(struct model_tf_ctx *c, const struct model_tf_layer *l,
                        int x)
{
    int n = model_tf_normed(c, "attn.norm", x, l->norm, 0), m = n, in[3];

    if (l->order == TF_PARALLEL2)
        m = model_tf_normed(c, "ffn.norm", x, l->norm, 0);
    in[0] = x;
    in[1] = mix(c, l, n);
    in[2] = transform(c, l, m);
    return model_tf_op(c, "add", "add", &(struct pdl_attr){0}, in, 3);
}

/* Gemma 3n and 4: each layer has an embedding of its own for every token,
 * gated by the state and projected back. */
static int per_layer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                     int x)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    int64_t hidden = t ? t->dim[1] : 0;
    int y = model_tf_linear(c, "per_layer.gate", x, l->per_layer, 0);

    y = model_tf_unary(c, "gelu", "per_layer.act", y);
    if (c->per_layer >= 0)
        y = model_tf_binary(c, "mul", "per_layer.mul", y,
                            model_tf_slice(c, "per_layer.slice", c->per_layer,
                                           0, l->per_layer));
    y = model_tf_linear(c, "per_layer.out", y, hidden, 0);
    y = model_tf_normed(c, "per_layer.norm", y, l->norm, 0);
    return model_tf_binary(c, "add", "per_layer.add", x, y);
}

int model_tf_layer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x)
{
    if (l->order == TF_PARALLEL || l->order == TF_PARALLEL2)
        return side_by_side(c, l, x);
    x = branch(c, l, "attn", x, mix);
    if (l->cross)
        x = branch(c, l, "cross", x, cross);
    if (l->ffn || l->experts)
        x = branch(c, l, l->experts && !l->beside ? "moe" : "ffn", x,
                   transform);
    if (l->per_layer)
        x = per_layer(c, l, x);
    return x;
}
