/* SPDX-License-Identifier: Apache-2.0
 *
 * What others call the weights that we have, a table a family; loading and
 * saving read the same rows (naming.c). Names are those of the state_dict of
 * the class a user has: transformers, torchvision, timm, and Meta's release of
 * Llama. To add a family: one array, one line in the list.
 *
 *   ours:    `*` is the number of a layer, `@` the last word (weight, bias)
 *   theirs:  the same signs; `#` is the number of an expert; a leading slash
 *            means that the family's prefix does not go before it
 *   how:     t    stored transposed (GPT-2's Conv1D)
 *            k/n  rows of part k of n, which lie one after the other
 *            ^    a dimension of 1 goes before those we have
 *            p    the two of a rotated pair are neighbours, not half a head
 *                 apart
 *            r    what is rotated of a head comes first, not last
 *            g    parts of a fused tensor by group of heads: queries of the
 *                 first group, its key, its value, queries of the second
 *            >    the first position is row 2; ours begin with it
 *            e    one tensor for each expert
 *            +    a second copy: written for a tied head, read where the
 *                 first is not there */
#include "naming.h"

#include <stddef.h>

// clang-format off
#define END {NULL, NULL, NULL}

static const struct model_naming_row llama[] = {
    {"embed.tokens.weight", "embed_tokens.weight", ""},
    {"layers.*.attn.norm.@", "layers.*.input_layernorm.@", ""},
    {"layers.*.attn.q.@", "layers.*.self_attn.q_proj.@", ""},
    {"layers.*.attn.k.@", "layers.*.self_attn.k_proj.@", ""},
    {"layers.*.attn.v.@", "layers.*.self_attn.v_proj.@", ""},
    {"layers.*.attn.out.@", "layers.*.self_attn.o_proj.@", ""},
    {"layers.*.attn.q_norm.@", "layers.*.self_attn.q_norm.@", ""},
    {"layers.*.attn.k_norm.@", "layers.*.self_attn.k_norm.@", ""},
    {"layers.*.ffn.norm.@", "layers.*.post_attention_layernorm.@", ""},
    {"layers.*.ffn.gate.@", "layers.*.mlp.gate_proj.@", ""},
    {"layers.*.ffn.up.@", "layers.*.mlp.up_proj.@", ""},
    {"layers.*.ffn.down.@", "layers.*.mlp.down_proj.@", ""},
    {"norm.@", "norm.@", ""},
    {"head.@", "/lm_head.@", ""},
    {"embed.tokens.weight", "/lm_head.weight", "+"},
    END};

static const struct model_naming_row phi3[] = {
    {"layers.*.attn.q.@", "layers.*.self_attn.qkv_proj.@", "r 0/3"},
    {"layers.*.attn.k.@", "layers.*.self_attn.qkv_proj.@", "r 1/3"},
    {"layers.*.attn.v.@", "layers.*.self_attn.qkv_proj.@", "2/3"},
    {"layers.*.ffn.gate.@", "layers.*.mlp.gate_up_proj.@", "0/2"},
    {"layers.*.ffn.up.@", "layers.*.mlp.gate_up_proj.@", "1/2"},
    END};

static const struct model_naming_row mixtral[] = {
    {"layers.*.moe.norm.@", "layers.*.post_attention_layernorm.@", ""},
    {"layers.*.moe.router.@", "layers.*.block_sparse_moe.gate.@", ""},
    {"layers.*.moe.experts.gate_up_proj",
     "layers.*.block_sparse_moe.experts.#.w1.weight", "e 0/2"},
    {"layers.*.moe.experts.gate_up_proj",
     "layers.*.block_sparse_moe.experts.#.w3.weight", "e 1/2"},
    {"layers.*.moe.experts.down_proj",
     "layers.*.block_sparse_moe.experts.#.w2.weight", "e"},
    END};

static const struct model_naming_row qwen_moe[] = {
    {"layers.*.moe.norm.@", "layers.*.post_attention_layernorm.@", ""},
    {"layers.*.moe.router.@", "layers.*.mlp.gate.@", ""},
    {"layers.*.moe.experts.gate_up_proj",
     "layers.*.mlp.experts.#.gate_proj.weight", "e 0/2"},
    {"layers.*.moe.experts.gate_up_proj",
     "layers.*.mlp.experts.#.up_proj.weight", "e 1/2"},
    {"layers.*.moe.experts.down_proj",
     "layers.*.mlp.experts.#.down_proj.weight", "e"},
    {"layers.*.moe.shared.gate.@", "layers.*.mlp.shared_expert.gate_proj.@", ""},
    {"layers.*.moe.shared.up.@", "layers.*.mlp.shared_expert.up_proj.@", ""},
    {"layers.*.moe.shared.down.@", "layers.*.mlp.shared_expert.down_proj.@", ""},
    {"layers.*.moe.shared_gate.@", "layers.*.mlp.shared_expert_gate.@", ""},
    END};

/* Meta's consolidated.00.pth */
static const struct model_naming_row meta[] = {
    {"embed.tokens.weight", "tok_embeddings.weight", ""},
    {"layers.*.attn.norm.@", "layers.*.attention_norm.@", ""},
    {"layers.*.attn.q.@", "layers.*.attention.wq.@", "p"},
    {"layers.*.attn.k.@", "layers.*.attention.wk.@", "p"},
    {"layers.*.attn.v.@", "layers.*.attention.wv.@", ""},
    {"layers.*.attn.out.@", "layers.*.attention.wo.@", ""},
    {"layers.*.ffn.norm.@", "layers.*.ffn_norm.@", ""},
    {"layers.*.ffn.gate.@", "layers.*.feed_forward.w1.@", ""},
    {"layers.*.ffn.up.@", "layers.*.feed_forward.w3.@", ""},
    {"layers.*.ffn.down.@", "layers.*.feed_forward.w2.@", ""},
    {"norm.@", "norm.@", ""},
    {"head.@", "output.@", ""},
    {"embed.tokens.weight", "output.weight", "+"},
    END};

static const struct model_naming_row gpt2[] = {
    {"embed.tokens.weight", "wte.weight", ""},
    {"embed.positions.weight", "wpe.weight", ""},
    {"layers.*.attn.norm.@", "h.*.ln_1.@", ""},
    {"layers.*.attn.q.@", "h.*.attn.c_attn.@", "t 0/3"},
    {"layers.*.attn.k.@", "h.*.attn.c_attn.@", "t 1/3"},
    {"layers.*.attn.v.@", "h.*.attn.c_attn.@", "t 2/3"},
    {"layers.*.attn.out.@", "h.*.attn.c_proj.@", "t"},
    {"layers.*.ffn.norm.@", "h.*.ln_2.@", ""},
    {"layers.*.ffn.up.@", "h.*.mlp.c_fc.@", "t"},
    {"layers.*.ffn.down.@", "h.*.mlp.c_proj.@", "t"},
    {"norm.@", "ln_f.@", ""},
    {"head.@", "/lm_head.@", ""},
    {"embed.tokens.weight", "/lm_head.weight", "+"},
    END};

#define FUSED_HEADS(at)                                                       \
    {"layers.*.attn.q.@", at ".query_key_value.@", "gr 0/3"},                   \
    {"layers.*.attn.k.@", at ".query_key_value.@", "gr 1/3"},                   \
    {"layers.*.attn.v.@", at ".query_key_value.@", "g 2/3"},                    \
    {"layers.*.attn.out.@", at ".dense.@", ""}
#define FOUR_TIMES(at)                                                        \
    {"layers.*.ffn.up.@", at ".dense_h_to_4h.@", ""},                         \
    {"layers.*.ffn.down.@", at ".dense_4h_to_h.@", ""}

static const struct model_naming_row neox[] = {
    {"embed.tokens.weight", "embed_in.weight", ""},
    {"layers.*.attn.norm.@", "layers.*.input_layernorm.@", ""},
    {"layers.*.ffn.norm.@", "layers.*.post_attention_layernorm.@", ""},
    FUSED_HEADS("layers.*.attention"),
    FOUR_TIMES("layers.*.mlp"),
    {"norm.@", "final_layer_norm.@", ""},
    {"head.@", "/embed_out.@", ""},
    {"embed.tokens.weight", "/embed_out.weight", "+"},
    END};

/* BLOOM, and Falcon where both halves of a layer share a norm or follow one
 * another */
static const struct model_naming_row bloom[] = {
    {"embed.tokens.weight", "word_embeddings.weight", ""},
    {"embed.norm.@", "word_embeddings_layernorm.@", ""},
    {"layers.*.attn.norm.@", "h.*.input_layernorm.@", ""},
    {"layers.*.ffn.norm.@", "h.*.post_attention_layernorm.@", ""},
    FUSED_HEADS("h.*.self_attention"),
    FOUR_TIMES("h.*.mlp"),
    {"norm.@", "ln_f.@", ""},
    {"head.@", "/lm_head.@", ""},
    {"embed.tokens.weight", "/lm_head.weight", "+"},
    END};

/* Falcon with a norm for each half */
static const struct model_naming_row falcon[] = {
    {"layers.*.attn.norm.@", "h.*.ln_attn.@", ""},
    {"layers.*.ffn.norm.@", "h.*.ln_mlp.@", ""},
    END};

static const struct model_naming_row mpt[] = {
    {"embed.tokens.weight", "wte.weight", ""},
    {"embed.positions.weight", "wpe.weight", ""},
    {"layers.*.attn.norm.@", "blocks.*.norm_1.@", ""},
    {"layers.*.attn.q.@", "blocks.*.attn.Wqkv.@", "0/3"},
    {"layers.*.attn.k.@", "blocks.*.attn.Wqkv.@", "1/3"},
    {"layers.*.attn.v.@", "blocks.*.attn.Wqkv.@", "2/3"},
    {"layers.*.attn.out.@", "blocks.*.attn.out_proj.@", ""},
    {"layers.*.ffn.norm.@", "blocks.*.norm_2.@", ""},
    {"layers.*.ffn.up.@", "blocks.*.ffn.up_proj.@", ""},
    {"layers.*.ffn.down.@", "blocks.*.ffn.down_proj.@", ""},
    {"norm.@", "norm_f.@", ""},
    {"head.@", "/lm_head.@", ""},
    {"embed.tokens.weight", "/lm_head.weight", "+"},
    END};

#define ENCODER_LAYER(attention)                                              \
    {"layers.*.attn.q.@", "encoder.layer.*.attention." attention ".query.@",  \
     ""},                                                                     \
    {"layers.*.attn.k.@", "encoder.layer.*.attention." attention ".key.@",    \
     ""},                                                                     \
    {"layers.*.attn.v.@", "encoder.layer.*.attention." attention ".value.@",  \
     ""},                                                                     \
    {"layers.*.attn.out.@", "encoder.layer.*.attention.output.dense.@", ""},  \
    {"layers.*.ffn.up.@", "encoder.layer.*.intermediate.dense.@", ""},        \
    {"layers.*.ffn.down.@", "encoder.layer.*.output.dense.@", ""}

static const struct model_naming_row bert[] = {
    {"embed.tokens.weight", "embeddings.word_embeddings.weight", ""},
    {"embed.positions.weight", "embeddings.position_embeddings.weight", ""},
    {"embed.types.weight", "embeddings.token_type_embeddings.weight", ""},
    {"embed.norm.@", "embeddings.LayerNorm.@", ""},
    ENCODER_LAYER("self"),
    {"layers.*.attn.norm.@", "encoder.layer.*.attention.output.LayerNorm.@", ""},
    {"layers.*.ffn.norm.@", "encoder.layer.*.output.LayerNorm.@", ""},
    {"pooler.@", "pooler.dense.@", ""},
    {"classifier.@", "/classifier.@", ""},
    {"head.dense.@", "/cls.predictions.transform.dense.@", ""},
    {"head.norm.@", "/cls.predictions.transform.LayerNorm.@", ""},
    {"head.bias", "/cls.predictions.bias", ""},
    {"head.bias", "/cls.predictions.decoder.bias", "+"},
    {"embed.tokens.weight", "/cls.predictions.decoder.weight", "+"},
    END};

/* Positions count from the number of the padding token, 1. */
static const struct model_naming_row roberta[] = {
    {"embed.positions.weight", "embeddings.position_embeddings.weight", ">"},
    {"head.dense.@", "/lm_head.dense.@", ""},
    {"head.norm.@", "/lm_head.layer_norm.@", ""},
    {"head.bias", "/lm_head.bias", ""},
    {"head.bias", "/lm_head.decoder.bias", "+"},
    {"embed.tokens.weight", "embeddings.word_embeddings.weight", ""},
    {"embed.tokens.weight", "/lm_head.decoder.weight", "+"},
    END};

/* RobertaForSequenceClassification */
static const struct model_naming_row roberta_classes[] = {
    {"embed.positions.weight", "embeddings.position_embeddings.weight", ">"},
    {"pooler.@", "/classifier.dense.@", ""},
    {"classifier.@", "/classifier.out_proj.@", ""},
    END};

#define T5_LAYER(side, ffn)                                                   \
    {side ".layers.*.attn.norm.@", side ".block.*.layer.0.layer_norm.@", ""}, \
    {side ".layers.*.attn.q.@", side ".block.*.layer.0.SelfAttention.q.@",    \
     ""},                                                                     \
    {side ".layers.*.attn.k.@", side ".block.*.layer.0.SelfAttention.k.@",    \
     ""},                                                                     \
    {side ".layers.*.attn.v.@", side ".block.*.layer.0.SelfAttention.v.@",    \
     ""},                                                                     \
    {side ".layers.*.attn.out.@", side ".block.*.layer.0.SelfAttention.o.@",  \
     ""},                                                                     \
    {side ".relative.weight",                                                 \
     side ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",    \
     ""},                                                                     \
    {side ".layers.*.ffn.norm.@", side ".block.*.layer." ffn ".layer_norm.@", \
     ""},                                                                     \
    {side ".layers.*.ffn.up.@",                                               \
     side ".block.*.layer." ffn ".DenseReluDense.wi.@", ""},                  \
    {side ".layers.*.ffn.down.@",                                             \
     side ".block.*.layer." ffn ".DenseReluDense.wo.@", ""},                  \
    {side ".norm.@", side ".final_layer_norm.@", ""}

static const struct model_naming_row t5[] = {
    {"encoder.embed.tokens.weight", "shared.weight", ""},
    {"encoder.embed.tokens.weight", "encoder.embed_tokens.weight", "+"},
    {"encoder.embed.tokens.weight", "decoder.embed_tokens.weight", "+"},
    T5_LAYER("encoder", "1"),
    T5_LAYER("decoder", "2"),
    {"decoder.layers.*.cross.norm.@", "decoder.block.*.layer.1.layer_norm.@",
     ""},
    {"decoder.layers.*.cross.q.@", "decoder.block.*.layer.1.EncDecAttention.q.@",
     ""},
    {"decoder.layers.*.cross.k.@", "decoder.block.*.layer.1.EncDecAttention.k.@",
     ""},
    {"decoder.layers.*.cross.v.@", "decoder.block.*.layer.1.EncDecAttention.v.@",
     ""},
    {"decoder.layers.*.cross.out.@",
     "decoder.block.*.layer.1.EncDecAttention.o.@", ""},
    {"head.@", "lm_head.@", ""},
    {"encoder.embed.tokens.weight", "lm_head.weight", "+"},
    END};

/* T5 1.1, mT5: gated */
static const struct model_naming_row t5_gated[] = {
    {"encoder.layers.*.ffn.gate.@",
     "encoder.block.*.layer.1.DenseReluDense.wi_0.@", ""},
    {"encoder.layers.*.ffn.up.@",
     "encoder.block.*.layer.1.DenseReluDense.wi_1.@", ""},
    {"decoder.layers.*.ffn.gate.@",
     "decoder.block.*.layer.2.DenseReluDense.wi_0.@", ""},
    {"decoder.layers.*.ffn.up.@",
     "decoder.block.*.layer.2.DenseReluDense.wi_1.@", ""},
    END};

static const struct model_naming_row vit[] = {
    {"embed.class.weight", "embeddings.cls_token", "^"},
    {"embed.positions.weight", "embeddings.position_embeddings", "^"},
    {"embed.patches.@", "embeddings.patch_embeddings.projection.@", ""},
    ENCODER_LAYER("attention"),
    {"layers.*.attn.norm.@", "encoder.layer.*.layernorm_before.@", ""},
    {"layers.*.ffn.norm.@", "encoder.layer.*.layernorm_after.@", ""},
    {"norm.@", "layernorm.@", ""},
    {"pooler.@", "pooler.dense.@", ""},
    {"classifier.@", "/classifier.@", ""},
    END};

/* timm's VisionTransformer, and the release of DeiT */
static const struct model_naming_row timm[] = {
    {"embed.class.weight", "cls_token", "^"},
    {"embed.positions.weight", "pos_embed", "^"},
    {"embed.patches.@", "patch_embed.proj.@", ""},
    {"layers.*.attn.norm.@", "blocks.*.norm1.@", ""},
    {"layers.*.attn.q.@", "blocks.*.attn.qkv.@", "0/3"},
    {"layers.*.attn.k.@", "blocks.*.attn.qkv.@", "1/3"},
    {"layers.*.attn.v.@", "blocks.*.attn.qkv.@", "2/3"},
    {"layers.*.attn.out.@", "blocks.*.attn.proj.@", ""},
    {"layers.*.ffn.norm.@", "blocks.*.norm2.@", ""},
    {"layers.*.ffn.up.@", "blocks.*.mlp.fc1.@", ""},
    {"layers.*.ffn.down.@", "blocks.*.mlp.fc2.@", ""},
    {"norm.@", "norm.@", ""},
    {"classifier.@", "head.@", ""},
    END};

#define TV_LAYER "encoder.layers.encoder_layer_*."
static const struct model_naming_row tv_vit[] = {
    {"embed.class.weight", "class_token", "^"},
    {"embed.positions.weight", "encoder.pos_embedding", "^"},
    {"embed.patches.@", "conv_proj.@", ""},
    {"layers.*.attn.norm.@", TV_LAYER "ln_1.@", ""},
    {"layers.*.attn.q.@", TV_LAYER "self_attention.in_proj_@", "0/3"},
    {"layers.*.attn.k.@", TV_LAYER "self_attention.in_proj_@", "1/3"},
    {"layers.*.attn.v.@", TV_LAYER "self_attention.in_proj_@", "2/3"},
    {"layers.*.attn.out.@", TV_LAYER "self_attention.out_proj.@", ""},
    {"layers.*.ffn.norm.@", TV_LAYER "ln_2.@", ""},
    {"layers.*.ffn.up.@", TV_LAYER "mlp.0.@", ""},
    {"layers.*.ffn.down.@", TV_LAYER "mlp.3.@", ""},
    {"norm.@", "encoder.ln.@", ""},
    {"classifier.@", "heads.head.@", ""},
    END};

static const struct model_naming_row alexnet[] = {
    {"conv1.@", "features.0.@", ""}, {"conv2.@", "features.3.@", ""},
    {"conv3.@", "features.6.@", ""}, {"conv4.@", "features.8.@", ""},
    {"conv5.@", "features.10.@", ""}, {"fc6.@", "classifier.1.@", ""},
    {"fc7.@", "classifier.4.@", ""}, {"fc8.@", "classifier.6.@", ""},
    END};

#define VGG_HEAD                                                              \
    {"fc6.@", "classifier.0.@", ""}, {"fc7.@", "classifier.3.@", ""},         \
    {"fc8.@", "classifier.6.@", ""}
#define VGG_FIRST                                                             \
    {"conv1.@", "features.0.@", ""}, {"conv2.@", "features.2.@", ""},         \
    {"conv3.@", "features.5.@", ""}, {"conv4.@", "features.7.@", ""},         \
    {"conv5.@", "features.10.@", ""}, {"conv6.@", "features.12.@", ""},       \
    {"conv7.@", "features.14.@", ""}

static const struct model_naming_row vgg16[] = {
    VGG_FIRST, {"conv8.@", "features.17.@", ""},
    {"conv9.@", "features.19.@", ""}, {"conv10.@", "features.21.@", ""},
    {"conv11.@", "features.24.@", ""}, {"conv12.@", "features.26.@", ""},
    {"conv13.@", "features.28.@", ""}, VGG_HEAD, END};

static const struct model_naming_row vgg19[] = {
    VGG_FIRST, {"conv8.@", "features.16.@", ""},
    {"conv9.@", "features.19.@", ""}, {"conv10.@", "features.21.@", ""},
    {"conv11.@", "features.23.@", ""}, {"conv12.@", "features.25.@", ""},
    {"conv13.@", "features.28.@", ""}, {"conv14.@", "features.30.@", ""},
    {"conv15.@", "features.32.@", ""}, {"conv16.@", "features.34.@", ""},
    VGG_HEAD, END};

const struct pdl_naming model_namings[] = {
    {"hf", "llama", "Llama, Mistral, Qwen in transformers",
     "llama mistral qwen2 qwen3 smollm3", "model.", llama, NULL},
    {"hf", "mixtral", "Mixtral in transformers", "mixtral", "model.", mixtral,
     llama},
    {"hf", "qwen_moe", "Qwen's mixtures in transformers",
     "qwen3_moe qwen2_moe", "model.", qwen_moe, llama},
    {"hf", "phi3", "Phi-3 in transformers: fused projections", "phi3",
     "model.", phi3, llama},
    {"hf", "gpt2", "GPT-2 in transformers", "gpt2", "transformer.", gpt2, NULL},
    {"hf", "gpt_neox", "GPT-NeoX and Pythia in transformers", "gpt_neox",
     "gpt_neox.", neox, NULL},
    {"hf", "falcon", "Falcon in transformers, a norm for each half", "falcon",
     "transformer.", falcon, bloom},
    {"hf", "bloom", "BLOOM, and other Falcons, in transformers",
     "bloom falcon", "transformer.", bloom, NULL},
    {"hf", "mpt", "MPT in transformers", "mpt", "transformer.", mpt, NULL},
    {"hf", "bert", "BERT in transformers", "bert", "bert.", bert, NULL},
    {"hf", "roberta", "RoBERTa in transformers",
     "roberta xlm-roberta camembert", "roberta.", roberta, bert},
    {"hf", "roberta-classes", "RoBERTa in transformers, that tells classes",
     "roberta xlm-roberta camembert", "roberta.", roberta_classes, bert},
    {"hf", "t5", "T5 in transformers", "t5", "", t5, NULL},
    {"hf", "t5_gated", "T5 1.1 and mT5 in transformers", "mt5", "", t5_gated,
     t5},
    {"hf", "vit", "ViT in transformers", "vit", "vit.", vit, NULL},
    {"meta", "meta-llama", "Llama as Meta releases it", "", "", meta, NULL},
    {"timm", "timm-vit", "ViT and DeiT of timm", "", "", timm, NULL},
    {"torchvision", "torchvision-vit", "ViT of torchvision", "", "", tv_vit,
     NULL},
    {"torchvision", "torchvision-alexnet", "AlexNet of torchvision", "", "",
     alexnet, NULL},
    {"torchvision", "torchvision-vgg16", "VGG-16 of torchvision", "", "", vgg16,
     NULL},
    {"torchvision", "torchvision-vgg19", "VGG-19 of torchvision", "", "", vgg19,
     NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL},
};
// clang-format on
