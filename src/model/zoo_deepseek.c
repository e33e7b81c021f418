/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3 (DeepSeek-AI 2024): latent attention, first layers dense, then
 * mixtures with one shared expert and a correction of the router's scores,
 * which counts as a parameter. Without the layer that predicts a second token.
 * Kimi K2 (2025) has the same structure with more experts and fewer heads. */
#include "zoo_decoder.h"

static const char source[] =
    "DeepSeek-AI 2024 (V3), Moonshot AI 2025 (Kimi K2), no MTP";

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    FFN,
    MOE_FFN,
    EXPERTS,
    TOPK,
    SHARED,
    DENSE,
    Q_LORA,
    KV_LORA,
    NOPE,
    ROPE,
    V_DIM,
    VOCAB,
    SEQ,
    TIED,
    CORRECTION,
    NPARAMS
};

// clang-format off
static const struct model_param params[NPARAMS] = {
    [LAYERS] = {"layers", "layers", NULL, 61, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 7168, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 128, 1, ZOO_BIG},
    [FFN] = {"ffn", "width of a dense feed-forward layer", NULL, 18432, 1,
     ZOO_BIG},
    [MOE_FFN] = {"moe_ffn", "width of an expert", NULL, 2048, 1, ZOO_BIG},
    [EXPERTS] = {"experts", "routed experts of a layer", NULL, 256, 1, ZOO_BIG},
    [TOPK] = {"topk", "experts a token visits", NULL, 8, 1, ZOO_BIG},
    [SHARED] = {"shared", "experts every token visits", NULL, 1, 0, 1024},
    [DENSE] = {"dense", "dense layers at the beginning", NULL, 3, 0,
     ZOO_LAYERS},
    [Q_LORA] = {"q_lora", "width of the latent queries; 0: none", NULL,
     1536, 0, ZOO_BIG},
    [KV_LORA] = {"kv_lora", "width of the latent keys and values", NULL,
     512, 1, ZOO_BIG},
    [NOPE] = {"nope", "part of a head without rotation", NULL, 128, 1, ZOO_BIG},
    [ROPE] = {"rope", "part of a head with rotation", NULL, 64, 1, ZOO_BIG},
    [V_DIM] = {"v_head_dim", "width of a head's values", NULL, 128, 1, ZOO_BIG},
    [VOCAB] = {"vocab", "vocabulary", NULL, 129280, 1, ZOO_BIG},
    [SEQ] = {"seq", "tokens of a sample", NULL, 4096, 1, ZOO_BIG},
    [TIED] = {"tied", "head and embedding are one", "0|1", 0, 0, 1},
    [CORRECTION] = {"correction", "the router's scores are corrected", "0|1", 1,
     0, 1},
};

static const struct pdl_zoo_entry entries[] = {
    {"deepseek-v3", "deepseek", "layers=61", "DeepSeek-V3 and R1, 671B"},
    {"kimi-k2", "deepseek", "heads=64,experts=384,dense=1,vocab=163840",
     "Kimi K2, 1T"},
};
// clang-format on

static void build(pdl_build *b, const int64_t *v)
{
    int64_t dense = v[DENSE] < v[LAYERS] ? v[DENSE] : v[LAYERS];
    struct model_tf_run runs[2] = {{.repeat = dense},
                                   {.repeat = v[LAYERS] - dense}};
    struct model_tf tf = {.source = source,
                          .tokens = v[SEQ],
                          .nstacks = 1,
                          .head = v[VOCAB],
                          .tied = v[TIED]};

    runs[0].layer = (struct model_tf_layer){
        .mixer = TF_MLA,
        .norm = TF_RMS,
        .heads = v[HEADS],
        .head_dim = v[NOPE] + v[ROPE],
        .v_head_dim = v[V_DIM],
        .causal = 1,
        .q_lora = v[Q_LORA],
        .kv_lora = v[KV_LORA],
        .qk_nope = v[NOPE],
        .qk_rope = v[ROPE],
        .ffn = v[FFN],
        .gated = 1,
    };
    runs[1].layer = runs[0].layer;
    runs[1].layer.ffn = 0;
    runs[1].layer.experts = v[EXPERTS];
    runs[1].layer.topk = v[TOPK];
    runs[1].layer.moe_ffn = v[MOE_FFN];
    runs[1].layer.shared_ffn = v[SHARED] * v[MOE_FFN];
    runs[1].layer.correction = v[CORRECTION];
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[HIDDEN],
        .tokens = v[SEQ],
        .norm = TF_RMS,
        .vocab = v[VOCAB],
        .embed_dim = v[HIDDEN],
        .runs = runs,
        .nruns = 2,
        .final_norm = 1,
    };
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_deepseek = {
    .self = {"deepseek", NULL, NULL, "latent attention, fine-grained experts"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
