/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V4 (DeepSeek-AI 2026): latent queries, one wide head of keys that
 * are the values, an output projection in groups, mixtures in every layer. What
 * a token attends is sparse: a window, and at most topk tokens of a compressed
 * sequence; here it is a window as wide as both. The residual's four streams
 * (hyper-connections), the compressor and the indexer are not built: they are
 * 2 % of the parameters. Without the layer that predicts a second token. */
#include "zoo_decoder.h"

static const char source[] =
    "DeepSeek-AI 2026 (V4), one residual stream, no compressor, no MTP";

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    HEAD_DIM,
    Q_LORA,
    OUT_LORA,
    OUT_GROUPS,
    WINDOW,
    MOE_FFN,
    EXPERTS,
    TOPK,
    VOCAB,
    SEQ,
    NPARAMS
};

// clang-format off
static const struct model_param params[NPARAMS] = {
    [LAYERS] = {"layers", "layers", NULL, 43, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 4096, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 64, 1, ZOO_BIG},
    [HEAD_DIM] = {"head_dim", "width of a head", NULL, 512, 1, ZOO_BIG},
    [Q_LORA] = {"q_lora", "width of the latent queries", NULL, 1024, 1, ZOO_BIG},
    [OUT_LORA] = {"out_lora", "width of a group's latent output", NULL, 1024, 1, ZOO_BIG},
    [OUT_GROUPS] = {"out_groups", "groups of heads in the output", NULL, 8, 1, 16},
    [WINDOW] = {"window", "tokens that one attends", NULL, 640, 1, ZOO_BIG},
    [MOE_FFN] = {"moe_ffn", "width of an expert", NULL, 2048, 1, ZOO_BIG},
    [EXPERTS] = {"experts", "routed experts of a layer", NULL, 256, 1, ZOO_BIG},
    [TOPK] = {"topk", "experts a token visits", NULL, 6, 1, ZOO_BIG},
    [VOCAB] = {"vocab", "vocabulary", NULL, 129280, 1, ZOO_BIG},
    [SEQ] = {"seq", "tokens of a sample", NULL, 4096, 1, ZOO_BIG},
};

static const struct pdl_zoo_entry entries[] = {
    {"deepseekv4-flash", "deepseek4", "layers=43",
     "DeepSeek-V4-Flash, 284B-A13B"},
};
// clang-format on

static void build(pdl_build *b, const int64_t *v)
{
    struct model_tf_run run = {.repeat = v[LAYERS],
                               .layer = {.norm = TF_RMS,
                                         .heads = v[HEADS],
                                         .kv_heads = 1,
                                         .head_dim = v[HEAD_DIM],
                                         .v_head_dim = v[HEAD_DIM],
                                         .v_is_k = 1,
                                         .causal = 1,
                                         .rope = 1,
                                         .window = v[WINDOW],
                                         .q_lora = v[Q_LORA],
                                         .out_lora = v[OUT_LORA],
                                         .out_groups = v[OUT_GROUPS],
                                         .gated = 1,
                                         .experts = v[EXPERTS],
                                         .topk = v[TOPK],
                                         .moe_ffn = v[MOE_FFN],
                                         .shared_ffn = v[MOE_FFN],
                                         .correction = 1}};
    struct model_tf tf = {
        .source = source, .tokens = v[SEQ], .nstacks = 1, .head = v[VOCAB]};

    if (v[HEADS] % v[OUT_GROUPS] != 0) {
        pdl_build_fail(b, PDL_EINVAL, "out_groups must divide heads");
        return;
    }
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[HIDDEN],
        .tokens = v[SEQ],
        .norm = TF_RMS,
        .vocab = v[VOCAB],
        .embed_dim = v[HIDDEN],
        .runs = &run,
        .nruns = 1,
        .final_norm = 1,
    };
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_deepseek4 = {
    .self = {"deepseek4", NULL, NULL, "sparse attention, fine-grained experts"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
