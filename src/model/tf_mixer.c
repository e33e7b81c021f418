/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in the place of attention in some layers: latent attention
 * (DeepSeek-AI 2024), Mamba and Mamba-2 (Gu and Dao 2023, 2024), the gated
 * short convolution of LFM2 and the gated delta rule (Yang et al. 2025).
 *
 * Projections and convolutions are ordinary nodes; the recurrences themselves
 * are nodes of the operator "other": they hold their weights, and their work,
 * small beside the projections', is not counted. */
#include "transformer.h"

static int64_t width_of(struct model_tf_ctx *c, int x)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, x);

    return t ? t->dim[1] : 0;
}

/* Sparse attention of DeepSeek-V3.2: small heads score all tokens, and the
 * best of them are attended. FLOPs of attention stay those of all T x T. */
static int indexer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x, int q_latent)
{
    int in[3];

    in[0] = model_tf_linear(c, "attn.index_q", q_latent,
                            l->index_heads * l->index_dim, 0);
    in[1] = model_tf_linear(c, "attn.index_k", x, l->index_dim, 0);
    in[1] = model_tf_normed(c, "attn.index_k_norm", in[1], TF_LAYER, 0);
    in[2] = model_tf_linear(c, "attn.index_weights", x, l->index_heads, 0);
    return model_tf_other(c, "choose_tokens", "attn.index", in, 3, 1, NULL, 0);
}

/* n features of every head, beginning with feature `from` of the head. */
static int of_heads(struct model_tf_ctx *c, const char *part, int x,
                    int64_t heads, int64_t from, int64_t n)
{
    struct pdl_attr attr = {.heads = heads, .ndims = 2};

    attr.dims[0] = from;
    attr.dims[1] = from + n;
    return model_tf_op(c, "slice_heads", part, &attr, &x, 1);
}

/* Queries and keys have a part without and a part with rotation; the rotated
 * key is one for all heads, the rest comes out of a narrow latent vector, for
 * each head its key and then its value. */
static int latent(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    int64_t hidden = width_of(c, x), qk = l->qk_nope + l->qk_rope;
    struct pdl_attr attr = {.heads = l->heads,
                            .kv_heads = l->heads,
                            .head_dim = qk,
                            .v_head_dim = l->v_head_dim,
                            .causal = l->causal};
    struct pdl_attr turn_q = {.head_dim = qk, .features = l->qk_rope};
    struct pdl_attr turn_k = {.head_dim = l->qk_rope};
    struct pdl_attr join = {.heads = l->heads};
    int q = x, kv, k[2], qkv[4];

    if (l->q_lora) {
        q = model_tf_linear(c, "attn.q_a", x, l->q_lora, l->lora_bias);
        q = model_tf_normed(c, "attn.q_a_norm", q, l->norm, 0);
    }
    if (l->index_heads)
        qkv[3] = indexer(c, l, x, q);
    q = model_tf_linear(c, "attn.q_b", q, l->heads * qk, 0);
    kv = model_tf_linear(c, "attn.kv_a", x, l->kv_lora + l->qk_rope,
                         l->lora_bias);
    k[1] = model_tf_slice(c, "attn.k_shared", kv, l->kv_lora, l->qk_rope);
    k[1] = model_tf_rope(c, "attn.k_rope", turn_k, k[1]);
    kv = model_tf_slice(c, "attn.latent", kv, 0, l->kv_lora);
    kv = model_tf_normed(c, "attn.kv_a_norm", kv, l->norm, 0);
    kv = model_tf_linear(c, "attn.kv_b", kv,
                         l->heads * (l->qk_nope + l->v_head_dim), 0);
    k[0] = of_heads(c, "attn.k_nope", kv, l->heads, 0, l->qk_nope);
    qkv[2] = of_heads(c, "attn.v", kv, l->heads, l->qk_nope, l->v_head_dim);
    qkv[0] = model_tf_rope(c, "attn.q_rope", turn_q, q);
    qkv[1] = model_tf_op(c, "join_heads", "attn.k", &join, k, 2);
    x = model_tf_op(c, "attention", "attn.core", &attr, qkv,
                    l->index_heads ? 4 : 3);
    return model_tf_linear(c, "attn.out", x, hidden, l->out_bias);
}

/* Jamba normalises dt, B and C, which the others use as they are. */
static int mamba(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    int64_t hidden = width_of(c, x), n = l->inner;
    int64_t weights[2] = {n * l->state, n};
    int in = model_tf_linear(c, "mixer.in", x, 2 * n, l->in_bias);
    int z = model_tf_slice(c, "mixer.z", in, n, n), dt, bc, parts[3];

    x = model_tf_slice(c, "mixer.x", in, 0, n);
    x = model_tf_conv(c, "mixer.conv", x, l->conv, l->conv_bias);
    x = model_tf_unary(c, "silu", "mixer.silu", x);
    bc = model_tf_linear(c, "mixer.x_proj", x, l->dt_rank + 2 * l->state, 0);
    dt = model_tf_slice(c, "mixer.dt_low", bc, 0, l->dt_rank);
    if (l->ssm_norms) {
        int b = model_tf_slice(c, "mixer.b", bc, l->dt_rank, l->state);
        int g =
            model_tf_slice(c, "mixer.c", bc, l->dt_rank + l->state, l->state);

        dt = model_tf_normed(c, "mixer.dt_norm", dt, l->norm, 0);
        b = model_tf_normed(c, "mixer.b_norm", b, l->norm, 0);
        g = model_tf_normed(c, "mixer.c_norm", g, l->norm, 0);
        bc = model_tf_binary(c, "add", "mixer.bc", b, g);
    }
    dt = model_tf_linear(c, "mixer.dt", dt, n, 1);
    parts[0] = x;
    parts[1] = dt;
    parts[2] = bc;
    x = model_tf_other(c, "selective_scan", "mixer.scan", parts, 3, n, weights,
                       2);
    z = model_tf_unary(c, "silu", "mixer.z_silu", z);
    x = model_tf_binary(c, "mul", "mixer.gated", x, z);
    return model_tf_linear(c, "mixer.out", x, hidden, l->ssm_out);
}

static int mamba2(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    int64_t hidden = width_of(c, x), n = l->inner;
    int64_t wide = n + 2 * l->groups * l->state;
    int64_t weights[3] = {l->heads, l->heads, l->heads};
    int in = model_tf_linear(c, "mixer.in", x, n + wide + l->heads, l->in_bias);
    int z = model_tf_slice(c, "mixer.z", in, 0, n), parts[2];

    x = model_tf_slice(c, "mixer.xbc", in, n, wide);
    parts[1] = model_tf_slice(c, "mixer.dt", in, n + wide, l->heads);
    x = model_tf_conv(c, "mixer.conv", x, l->conv, l->conv_bias);
    parts[0] = model_tf_unary(c, "silu", "mixer.silu", x);
    x = model_tf_other(c, "selective_scan", "mixer.scan", parts, 2, n, weights,
                       3);
    z = model_tf_unary(c, "silu", "mixer.z_silu", z);
    x = model_tf_binary(c, "mul", "mixer.gated", x, z);
    if (l->ssm_norms)
        x = model_tf_normed(c, "mixer.norm", x, TF_RMS, 0);
    return model_tf_linear(c, "mixer.out", x, hidden, l->ssm_out);
}

static int short_conv(struct model_tf_ctx *c, const struct model_tf_layer *l,
                      int x)
{
    int64_t h = width_of(c, x);
    int in = model_tf_linear(c, "mixer.in", x, 3 * h, l->in_bias);
    int b = model_tf_slice(c, "mixer.b", in, 0, h);
    int g = model_tf_slice(c, "mixer.c", in, h, h);

    x = model_tf_slice(c, "mixer.x", in, 2 * h, h);
    x = model_tf_binary(c, "mul", "mixer.bx", b, x);
    x = model_tf_conv(c, "mixer.conv", x, l->conv, l->conv_bias);
    x = model_tf_binary(c, "mul", "mixer.cx", g, x);
    return model_tf_linear(c, "mixer.out", x, h, l->in_bias);
}

/* heads value heads of v_head_dim, k_heads key heads of head_dim. */
static int delta(struct model_tf_ctx *c, const struct model_tf_layer *l, int x)
{
    int64_t hidden = width_of(c, x);
    int64_t k = l->k_heads * l->head_dim, v = l->heads * l->v_head_dim;
    int64_t weights[2] = {l->heads, l->heads};
    int qkv = model_tf_linear(c, "mixer.qkv", x, 2 * k + v, 0);
    int z = model_tf_linear(c, "mixer.z", x, v, 0), parts[2];

    parts[1] = model_tf_linear(c, "mixer.beta_alpha", x, 2 * l->heads, 0);
    parts[0] = model_tf_conv(c, "mixer.conv", qkv, l->conv, 0);
    x = model_tf_other(c, "gated_delta_rule", "mixer.scan", parts, 2, v,
                       weights, 2);
    x = model_tf_normed(c, "mixer.norm", x, TF_RMS, l->v_head_dim);
    z = model_tf_unary(c, "silu", "mixer.z_silu", z);
    x = model_tf_binary(c, "mul", "mixer.gated", x, z);
    return model_tf_linear(c, "mixer.out", x, hidden, 0);
}

int model_tf_mixer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x)
{
    static int (*const how[])(struct model_tf_ctx *,
                              const struct model_tf_layer *, int) = {
        [TF_MLA] = latent,    [TF_MAMBA] = mamba,
        [TF_MAMBA2] = mamba2, [TF_SHORT_CONV] = short_conv,
        [TF_DELTA] = delta,
    };

    return how[l->mixer](c, l, x);
}
