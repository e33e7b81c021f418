/* SPDX-License-Identifier: Apache-2.0
 *
 * Habits of training frameworks: what their code does besides the plan. Only
 * what is published or read from their code; a name without a known habit
 * adds nothing.
 *
 * chainermnx: the ParaDL authors' code (2020): synchronous exchange after
 * backward; filter, channel and spatial split convolutions only and gather
 * the activations after each; halos by blocking MPI through the host; node
 * leaders under data + spatial only; every rank reopens log files on the
 * shared disk in each iteration. */
#include "oracle_priv.h"

#include <string.h>

#define GIB 1073741824
// clang-format off
static const struct pdl_framework frameworks[] = {
    {.name = "own", .summary = "ParaDL's own runtime"},
    {.name = "pytorch", .summary = "eager PyTorch"},
    {.name = "megatron", .summary = "Megatron-LM",
     .no_overlap = true, .fused = true, .split = PDL_SPLIT_BLOCKS,
     .dropout = .1, .update_bytes = 46, .add_bytes = 6, .add_bytes32 = 4,
     .gradient_bytes = 4, .gradient_bytes32 = 4, .dummy_gradients = true,
     .logit_bytes = 4,
     .scatters_sends = true,
     .zero_adapters = 1.5, .zero_step_s = 4e-6},
    {.name = "megatron-deepspeed", .summary = "Megatron with DeepSpeed, eager",
     .no_overlap = true, .fused = true, .split = PDL_SPLIT_GREEDY,
     .issue_s = 65e-6, .dropout = .1, .update_bytes = 46, .add_bytes = 6,
     .gradient_bytes = 4, .gradient_bytes32 = 8, .logit_bytes = 4,
     .context_bytes = 5.0 * GIB,
     .add_bytes32 = 10, .scatters_sends = true,
     .zero_adapters = 1.5, .zero_step_s = 4e-6},
    {.name = "torchtitan", .summary = "torchtitan", .eager = 2,
     .gradient_bytes = 4, .gradient_bytes32 = 4, .logit_bytes = 11,
     .fragments = .08},
    {.name = "composer", .summary = "MosaicML Composer"},
    {.name = "mxnet", .summary = "MXNet", .fused_norm = true},
    {.name = "chainermnx", .summary = "the ParaDL authors' Chainer code",
     .host_call_s = 100e-6, .no_overlap = true, .convolutions_only = true,
     .staged_halo = true, .leaders = true, .folded_filter = true,
     .copies = true,
     .one_channel = true, .opens = 3},
};
// clang-format on

const struct pdl_framework *pdl_framework_at(int i)
{
    return i >= 0 && i < (int)(sizeof frameworks / sizeof frameworks[0])
               ? &frameworks[i]
               : NULL;
}

enum pdl_status pdl_framework_find(const char *name,
                                   const struct pdl_framework **out,
                                   struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; pdl_framework_at(i); i++) {
        if (strcmp(name, frameworks[i].name) == 0) {
            *out = &frameworks[i];
            return PDL_OK;
        }
        pdl_suggest_try(&s, frameworks[i].name);
    }
    pdl_fail(err, PDL_EINVAL, "no such framework: '%s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}
