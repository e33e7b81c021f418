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
 * shared disk in each iteration. Chainer's optimizer calls a kernel for each
 * weight (GradientMethod.update), ChainerMN copies each gradient into one
 * buffer, divides there and copies it back (_multi_node_mean_grad_async). A
 * convolution adds its bias by cudnnAddTensor and sums its gradient by a
 * kernel. Concatenations of CuPy 7 are a kernel for each part; its launches took
 * the host 11 us (cupy pull request 3298). See tools/select-form.py and
 * doc/accuracy.md for what each is worth.
 *
 * megatron (Narayanan et al., SC 2021; Korthikanti et al. 2022): q, k and v,
 * and gate and up, are one product each; as many layers to every stage;
 * tensor ranks send shares between stages; gradients are exchanged after
 * backward; dropout 0.1 unless the job says otherwise (its arguments). The
 * optimizer step copies, unscales and clips besides Adam: 46 bytes a weight.
 * Gradients of micro-batches add up in 16 bits (6 bytes of traffic) or in the
 * kernel into 32 bits (4). Its theoretical_memory_usage has 6 + 12/D bytes a
 * weight; its modules and Transformer Engine's need 110 us of the host for an
 * operation (fitted to half of SimuMax's B200 runs, those with 8 tensor ranks);
 * Transformer Engine writes the gradients of a block besides, and the
 * loss is computed in 32 bits. ZeRO 3 beside it is DeepSpeed's of 2021: what
 * that paper's Table 2 leaves beside computation is explained by 1.5 adapters
 * of a node and 4 us a ring step, each tensor by itself, nothing hidden; fitted
 * to those six runs.
 *
 * megatron-deepspeed: the same with DeepSpeed's engine: layers are dealt
 * greedily, a buffer of 16 bits more, 32-bit sums unfused (10 bytes), and a
 * host that needs 3.2 ms for one layer, forward, again and back: 74 us for each
 * of 44 operations (step times of small models in vTrain's single-node set,
 * arXiv:2312.12391). nvidia-smi shows 5 GiB beside the allocator (bigscience
 * chronicles).
 *
 * torchtitan: blocks are dealt evenly to the stages, whatever their work (its
 * generate_split_points); eager operators stream 2.6 times what fused ones do
 * (its compile=true runs beside the others; norms and rotary positions are 32
 * bits wide); FSDP gathers into one buffer, copies the weights out of it and
 * casts gradients to the 32 bits they travel in; gradients stay whole, in 32 bits, while
 * a pipeline's micro-batches add up; the eager loss holds 15 bytes a logit; 8 %
 * of activations is what its reserved memory has beyond them. Settled with its
 * published H100 runs in view. Where classes are cut its loss is PyTorch's
 * loss_parallel (torch/distributed/tensor/parallel/loss.py), whose backward
 * holds four tensors of 32 bits at a time (log-softmax, the one-hot part, their
 * sum and the product), 16 bytes a logit; the segment of the 16-bit logits,
 * freed before, is too small for any of them and stays reserved: 18.
 * It calls FlashAttention 2. In 8 bits scales are those of the tensor at hand
 * (torchao, tensorwise): an operand is read for its largest value, read again
 * and written in both orders, 6 bytes; a weight is read for each order, 8 (the
 * kernels listed in torchao's roofline_utils.py).
 *
 * composer: MosaicML's Composer with llm-foundry's MPT models (its benchmark
 * script and README of 2023). Eager, with 16-bit layer norms: twice the bytes,
 * as torchtitan's first estimate was. Attention is FlashAttention in Triton
 * (attn_impl of its submit_benchmarks.py); what that reaches of an A100, 0.5
 * forward and 0.28 backward, is fitted to half of its runs there and lies where
 * Dao (FlashAttention-2, 2023) has it: 1.3 to 2.5 times slower than his.
 * DecoupledAdamW is a loop of simple kernels: 88 bytes for a weight, and 8 to
 * clip. FSDP joins the gradients of a unit, casts them and divides them in
 * place before they are scattered, in 32 bits unless the job says PURE.
 *
 * pytorch: eager steps on one GPU (PyTorch 2.11 on an H200, profiles of nine
 * convolutional networks, ViT, BERT, GPT-2 and Llama blocks;
 * bench/measure_torch.py):
 * 60 us of the host for an operation (42 to 79; faster in 32 bits), the loss
 * keeps 8 bytes more a logit, the allocator reserves a tenth of activations
 * more, and the kernels of compute_eager.c. Attention on a Hopper is cuDNN's,
 * so not FlashAttention 2. Images of 32-bit items lie channels first unless the
 * program asks for the other order (torch.contiguous_format): batch
 * normalisation by cuDNN has a block for a channel then, as of volumes, and
 * depthwise convolutions are PyTorch's own (compute_grouped.c). In 16 bits the
 * order is taken to be channels last, as recipes of mixed precision ask for it
 * (NVIDIA DeepLearningExamples, configs.yml; torchvision's references).
 *
 * pytorch-channels-last: the same with channels innermost in 32 bits, too, as
 * bench/measure_torch*.py run it.
 *
 * transformers: the same with Hugging Face's modules, which compute in steps
 * (compute_steps.c). pytorch takes them, too, for models that PyTorch has no
 * modules for: mixtures of experts, and relative positions (T5).
 *
 * tensorflow: graphs of NVIDIA's containers (compute_tensorflow.c); XLA where
 * the job says compile. Mixed precision unscales gradients and looks for what is
 * not finite before Adam (LossScaleOptimizer): 12 bytes more a weight. Gradients
 * of 32-bit variables add up by an operation of their own, 12 bytes
 * (GradientAccumulator). Horovod looks for gradients every millisecond; before
 * 0.21 (tensorflow-1: containers of 2020) it was five (horovod pull request
 * 2468).
 *
 * mxnet: NVIDIA's 16-bit containers have one kernel for batch normalisation,
 * sum and ReLU (DeepLearningExamples ResNet-50 README). */
#include "oracle/oracle_priv.h"

#include <string.h>

#define GIB 1073741824
// clang-format off
static const struct pdl_framework frameworks[] = {
    {.name = "own", .summary = "ParaDL's own runtime"},
    {.name = "pytorch", .summary = "eager PyTorch", .torch = true,
     .channels_first = true, .exchange_bytes = 4,
     .issue_s = 60e-6, .logit_bytes = 8, .fragments = .1},
    {.name = "pytorch-channels-last", .torch = true,
     .summary = "eager PyTorch, images with their channels innermost",
     .exchange_bytes = 4,
     .issue_s = 60e-6, .logit_bytes = 8, .fragments = .1},
    {.name = "transformers", .summary = "eager PyTorch, transformers' modules",
     .torch = true, .steps = true, .exchange_bytes = 4,
     .issue_s = 60e-6, .logit_bytes = 8, .fragments = .1},
    {.name = "megatron", .summary = "Megatron-LM",
     .no_overlap = true, .fused = true, .split = PDL_SPLIT_BLOCKS,
     .issue_s = 110e-6, .token_copies = true,
     .dropout = .1, .update_bytes = 46, .add_bytes = 6, .add_bytes32 = 4,
     .gradient_bytes = 4, .gradient_bytes32 = 4, .dummy_gradients = true,
     .logit_bytes = 4, .most_zero = 1,
     .scatters_sends = true,
     .zero_adapters = 1.5, .zero_step_s = 4e-6},
    {.name = "megatron-deepspeed", .summary = "Megatron with DeepSpeed, eager",
     .no_overlap = true, .fused = true, .split = PDL_SPLIT_GREEDY,
     .issue_s = 74e-6, .dropout = .1, .update_bytes = 46, .add_bytes = 6,
     .gradient_bytes = 4, .gradient_bytes32 = 8, .logit_bytes = 4,
     .context_bytes = 5.0 * GIB,
     .add_bytes32 = 10, .scatters_sends = true, .most_zero = 1,
     .zero_adapters = 1.5, .zero_step_s = 4e-6},
    {.name = "torchtitan", .summary = "torchtitan", .eager = 2.6, .flash2 = true,
     .split = PDL_SPLIT_BLOCKS, .exchange_bytes = 4,
     .gather_copies = 1, .scatter_casts = true,
     .gradient_bytes = 4, .gradient_bytes32 = 4, .logit_bytes = 11,
     .cut_logit_bytes = 14, .cast_bytes = 6, .cast_weight_bytes = 8,
     .fragments = .08},
    {.name = "composer", .summary = "MosaicML Composer", .eager = 2,
     .exchange_bytes = 4,
     .update_bytes = 96, .attention_forward = .5, .attention_backward = .28,
     .scatter_copies = 1, .scatter_scales = 1, .scatter_casts = true},
    {.name = "tensorflow", .summary = "TensorFlow 2 with Horovod; XLA if compiled",
     .graph = true, .cycle_s = 1e-3, .exchange_bytes = 4,
     .update_bytes = 40, .add_bytes = 12, .add_bytes32 = 12},
    {.name = "tensorflow-1", .summary = "TensorFlow 1 with Horovod before 0.21",
     .graph = true, .cycle_s = 5e-3, .exchange_bytes = 4,
     .update_bytes = 40, .add_bytes = 12, .add_bytes32 = 12},
    {.name = "mxnet", .summary = "MXNet", .fused_norm = true},
    {.name = "chainermnx", .summary = "the ParaDL authors' Chainer code",
     .host_call_s = 100e-6, .no_overlap = true, .convolutions_only = true,
     .staged_halo = true, .leaders = true, .folded_filter = true,
     .copies = true, .part_s = 11e-6, .bias_passes = true, .by_tensor = true,
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
