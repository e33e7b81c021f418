/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama 2 (Touvron et al. 2023), Llama 3 and 3.1 (Grattafiori et al. 2024)
 * and Qwen3 (Yang et al. 2025): RMSNorm, rotary positions, gated
 * feed-forward, grouped queries, no biases. A sample has the number of tokens
 * of pre-training: 4096, 8192 (before Llama 3.1's stage of long contexts),
 * 4096 (Qwen3); seq= changes it, and no parameter depends on it. */
#include "zoo_decoder.h"

static const char source[] =
    "Touvron et al. 2023; Grattafiori et al. 2024; Yang et al. 2025";

// clang-format off
static const struct model_param params[DEC_NPARAMS] = {
    DEC_PARAMS(32, 4096, 32, 11008, 32000, 4096, 1, 0, 0, 0),
};

#define LLAMA3 ",kv_heads=8,vocab=128256,seq=8192"
#define QWEN3 ",kv_heads=8,head_dim=128,qk_norm=1,vocab=151936,seq=4096"

static const struct pdl_zoo_entry entries[] = {
    {"llama2-7b", "llama", "layers=32,hidden=4096,heads=32,ffn=11008",
     "Llama 2 7B"},
    {"llama2-13b", "llama", "layers=40,hidden=5120,heads=40,ffn=13824",
     "Llama 2 13B"},
    {"llama2-70b", "llama",
     "layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672", "Llama 2 70B"},
    {"llama3-8b", "llama", "layers=32,hidden=4096,heads=32,ffn=14336"
     LLAMA3, "Llama 3 8B"},
    {"llama3-70b", "llama", "layers=80,hidden=8192,heads=64,ffn=28672"
     LLAMA3, "Llama 3 70B"},
    {"llama3.1-8b", "llama", "layers=32,hidden=4096,heads=32,ffn=14336"
     LLAMA3, "Llama 3.1 8B"},
    {"llama3.1-70b", "llama", "layers=80,hidden=8192,heads=64,ffn=28672"
     LLAMA3, "Llama 3.1 70B"},
    {"llama3.1-405b", "llama", "layers=126,hidden=16384,heads=128,ffn=53248"
     LLAMA3, "Llama 3.1 405B"},
    {"qwen3-0.6b", "llama", "layers=28,hidden=1024,heads=16,ffn=3072,tied=1"
     QWEN3, "Qwen3 0.6B"},
    {"qwen3-1.7b", "llama", "layers=28,hidden=2048,heads=16,ffn=6144,tied=1"
     QWEN3, "Qwen3 1.7B"},
    {"qwen3-4b", "llama", "layers=36,hidden=2560,heads=32,ffn=9728,tied=1"
     QWEN3, "Qwen3 4B"},
    {"qwen3-8b", "llama", "layers=36,hidden=4096,heads=32,ffn=12288" QWEN3,
     "Qwen3 8B"},
    {"qwen3-14b", "llama", "layers=40,hidden=5120,heads=40,ffn=17408" QWEN3,
     "Qwen3 14B"},
    {"qwen3-32b", "llama", "layers=64,hidden=5120,heads=64,ffn=25600" QWEN3,
     "Qwen3 32B"},
};
// clang-format on

static void build(pdl_build *b, const int64_t *v)
{
    model_zoo_decoder(b, v, false, source);
}

const struct model_family model_zoo_llama = {
    .self = {"llama", NULL, NULL, "Llama: rotary positions, RMSNorm, gated"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = DEC_NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
