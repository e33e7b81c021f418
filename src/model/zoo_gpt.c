/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT: GPT-2 (Radford et al. 2019), GPT-3 (Brown et al., NeurIPS 2020, table
 * 2.1) and Megatron's (Narayanan et al., SC 2021; Korthikanti et al., MLSys
 * 2023). Learned positions, biases, a tied head.
 *
 * GPT-3 has GPT-2's vocabulary of 50257 and 2048 positions. Two rows of its
 * table do not multiply out: 1.3B says 24 heads of 128 for a width of 2048,
 * here 16; 13B says a width of 5140, here 5120 = 40 heads of 128. Megatron
 * pads the vocabulary to 51200. */
#include "zoo_decoder.h"

static const char source[] =
    "Radford et al. 2019; Brown et al. 2020; Narayanan et al. 2021";

// clang-format off
static const struct model_param params[DEC_NPARAMS] = {
    DEC_PARAMS(12, 768, 12, 0, 50257, 1024, 0, 1, 0, 0),
};

#define GPT3 ",vocab=50257,seq=2048,positions=2048"
#define MEGATRON ",vocab=51200,seq=2048,positions=2048"

static const struct pdl_zoo_entry entries[] = {
    {"gpt2", "gpt", "layers=12,hidden=768,heads=12,positions=1024",
     "GPT-2, 124M"},
    {"gpt2-medium", "gpt", "layers=24,hidden=1024,heads=16,positions=1024",
     "GPT-2, 355M"},
    {"gpt2-large", "gpt", "layers=36,hidden=1280,heads=20,positions=1024",
     "GPT-2, 774M"},
    {"gpt2-xl", "gpt", "layers=48,hidden=1600,heads=25,positions=1024",
     "GPT-2, 1558M"},
    {"gpt3-125m", "gpt", "layers=12,hidden=768,heads=12" GPT3, "GPT-3 small"},
    {"gpt3-350m", "gpt", "layers=24,hidden=1024,heads=16" GPT3, "GPT-3 medium"},
    {"gpt3-760m", "gpt", "layers=24,hidden=1536,heads=16" GPT3, "GPT-3 large"},
    {"gpt3-1.3b", "gpt", "layers=24,hidden=2048,heads=16" GPT3, "GPT-3 XL"},
    {"gpt3-2.7b", "gpt", "layers=32,hidden=2560,heads=32" GPT3, "GPT-3 2.7B"},
    {"gpt3-6.7b", "gpt", "layers=32,hidden=4096,heads=32" GPT3, "GPT-3 6.7B"},
    {"gpt3-13b", "gpt", "layers=40,hidden=5120,heads=40" GPT3, "GPT-3 13B"},
    {"gpt3-175b", "gpt", "layers=96,hidden=12288,heads=96" GPT3, "GPT-3 175B"},
    {"megatron-22b", "gpt", "layers=48,hidden=6144,heads=64" MEGATRON,
     "Megatron 22B"},
    {"megatron-175b", "gpt", "layers=96,hidden=12288,heads=96" MEGATRON,
     "Megatron 175B, vocabulary 51200"},
    {"megatron-530b", "gpt", "layers=105,hidden=20480,heads=128" MEGATRON,
     "Megatron-Turing NLG 530B"},
    {"megatron-1t", "gpt", "layers=128,hidden=25600,heads=160" MEGATRON,
     "Megatron 1T"},
};
// clang-format on

static void build(pdl_build *b, const int64_t *v)
{
    model_zoo_decoder(b, v, true, source);
}

const struct model_family model_zoo_gpt = {
    .self = {"gpt", NULL, NULL, "GPT: learned positions, LayerNorm, biases"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = DEC_NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
