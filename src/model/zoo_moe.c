/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts with Llama's attention: Mixtral 8x7B (Jiang et al. 2024)
 * and Qwen3 (Yang et al. 2025). ffn is the width of one expert; every layer is
 * a mixture. */
#include "zoo_decoder.h"

static const char source[] = "Jiang et al. 2024; Yang et al. 2025";

// clang-format off
static const struct model_param params[DEC_NPARAMS] = {
    DEC_PARAMS(32, 4096, 32, 14336, 32000, 4096, 1, 0, 8, 2),
};

#define QWEN3 ",head_dim=128,qk_norm=1,vocab=151936,seq=4096,experts=128,topk=8"

static const struct pdl_zoo_entry entries[] = {
    {"mixtral-8x7b", "moe",
     "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=32000,experts=8,topk=2", "Mixtral 8x7B"},
    {"mixtral-8x22b", "moe",
     "layers=56,hidden=6144,heads=48,kv_heads=8,ffn=16384,vocab=32768,experts=8,topk=2", "Mixtral 8x22B v0.3"},
    {"qwen3-30b-a3b", "moe",
     "layers=48,hidden=2048,heads=32,kv_heads=4,ffn=768" QWEN3,
     "Qwen3 30B-A3B"},
    {"qwen3-235b-a22b", "moe",
     "layers=94,hidden=4096,heads=64,kv_heads=4,ffn=1536" QWEN3,
     "Qwen3 235B-A22B"},
};
// clang-format on

static void build(pdl_build *b, const int64_t *v)
{
    if (!v[DEC_EXPERTS])
        pdl_build_fail(b, PDL_EINVAL, "experts must be at least 1");
    model_zoo_decoder(b, v, false, source);
}

const struct model_family model_zoo_moe = {
    .self = {"moe", NULL, NULL, "mixture of experts with Llama's attention"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = DEC_NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
