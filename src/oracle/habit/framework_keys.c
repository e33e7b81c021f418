/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys that `adds` of a framework's file may have: name, kind, unit,
 * largest value, place in the struct, and what it means. A habit is one line
 * here, one member, and one place that asks for it. */
#include "oracle/habit/framework.h"

#define AT(member) offsetof(struct pdl_framework, member)
#define FLAG(name, what)                                        \
    {                                                           \
#name, FRAMEWORK_FLAG, PDL_UNIT_NONE, AT(name), 0, what \
    }
#define PART(name, what)                                       \
    {                                                          \
#name, FRAMEWORK_NUM, PDL_UNIT_NONE, AT(name), 1, what \
    }
#define TIMES(name, max, what)                                   \
    {                                                            \
#name, FRAMEWORK_NUM, PDL_UNIT_NONE, AT(name), max, what \
    }
#define TIME(name, what)                                              \
    {                                                                 \
#name, FRAMEWORK_NUM, PDL_UNIT_SECONDS, AT(name##_s), 1, what \
    }
#define SIZE(name, what)                                           \
    {                                                              \
#name, FRAMEWORK_NUM, PDL_UNIT_BYTES, AT(name), 1e12, what \
    }

// clang-format off
static const struct framework_key keys[] = {
    /* the host */
    TIME(host_call, "to issue one kernel, which the device waits for, unless the PE says it"),
    TIME(issue, "of the host for the kernels of one operation, ahead of the device"),
    TIME(collective, "the same for one collective of a layer"),
    TIME(pipe_step, "and for each step of its ring while stages on other nodes send"),
    TIME(part, "for each part that is put together, up to 8 or from 2 MiB: a kernel each"),
    TIME(cycle, "exchanges of gradients begin at the ticks of a thread (Horovod)"),
    /* kernels */
    FLAG(torch, "eager PyTorch's kernels (compute_eager.c)"),
    FLAG(steps, "modules of Hugging Face's transformers, in steps (compute_steps.c)"),
    FLAG(steps_if_missing, "the same of models that have experts or relative positions"),
    FLAG(graph, "TensorFlow's kernels (compute_tensorflow.c)"),
    FLAG(channels_first, "images of 32-bit items lie channels first"),
    FLAG(fused, "products of one operand are one: q, k, v; gate, up"),
    FLAG(fused_norm, "16 bits: ReLU and sums are part of the normalisation before them"),
    FLAG(bias_passes, "biases of convolutions are added by a pass, and summed by another"),
    FLAG(flash2, "attention without the matrix units' newest instructions (FlashAttention 2)"),
    PART(attention_forward, "of the peak without those instructions, on long rows"),
    PART(attention_backward, "the same, backward"),
    TIMES(eager, 100, "times what element-wise operators stream, unless compiled"),
    TIMES(loss_bytes, 1000, "traffic of the loss for one logit beyond reading it and writing its gradient"),
    TIMES(cast_bytes, 100, "8 bits: traffic to make an operand of one value"),
    TIMES(cast_weight_bytes, 100, "the same of one weight"),
    {"pads_vocabulary", FRAMEWORK_COUNT, PDL_UNIT_NONE, AT(pads_vocabulary), 65536, "the columns of the head on a rank are made a multiple of it"},
    PART(dropout, "its probability, unless the job says it"),
    /* eager kernels */
    TIME(kernel, "of the host for one kernel of those steps"),
    TIMES(pool_output, 100, "cycles of an output of max pooling"),
    TIMES(pool_tap, 100, "and of each of its taps"),
    TIMES(pool_input, 100, "backward, of an input"),
    TIMES(pool_window, 100, "and of each window it lies in"),
    TIMES(bias_add, 100, "cycles of an element to which a bias is added"),
    PART(bias_sum, "of the streaming rate where its gradient is summed"),
    TIMES(autocast_bytes, 100, "16 bits: traffic to cast a weight or its gradient"),
    TIMES(broadcast, 100, "cycles of an element of a product with one factor an image"),
    TIMES(turn_copy, 100, "cycles of an element copied to another layout"),
    TIMES(turn_add, 100, "cycles of an element added to one that lies differently"),
    TIMES(heads, 100, "32 bits: times the queries that an encoder's layer copies"),
    TIMES(heads_back, 100, "the same, backward"),
    TIMES(head_copy, 100, "cycles of an element of these"),
    TIMES(token_streams, 100, "times the bytes of the plan that operators on tokens stream"),
    TIMES(token_streams16, 100, "the same in 16 bits"),
    /* the optimizer */
    FLAG(by_tensor, "a call for each weight's update, a copy for each gradient's exchange"),
    TIMES(update_bytes, 1000, "traffic of Adam for one 16-bit weight, with unscaling, norm and copies"),
    TIMES(add_bytes, 100, "traffic to add a gradient to those of earlier micro-batches, in 16 bits"),
    TIMES(add_bytes32, 100, "the same in 32 bits"),
    /* exchange */
    FLAG(no_overlap, "gradients wait for the end of backward"),
    FLAG(sharded_overlap, "ZeRO 2 and 3 gather and scatter beside computation, whatever no_overlap says"),
    FLAG(one_channel, "a gradient ring uses one cable, one adapter"),
    FLAG(leaders, "spatial: leaders of nodes exchange gradients"),
    FLAG(convolutions_only, "feature and spatial axes split these alone, and gather after each"),
    FLAG(folded_filter, "filter: backward sums its own part of y only"),
    FLAG(staged_halo, "halos are blocking messages through the host, up and then down"),
    {"halo_calls", FRAMEWORK_COUNT, PDL_UNIT_NONE, AT(halo_calls), 100, "of the host for one of these messages, beside what the system says of it"},
    FLAG(copies, "results of layer collectives are copied into place"),
    FLAG(scatters_sends, "tensor ranks send a share each between stages and gather it there"),
    FLAG(token_copies, "a token travels once for every expert it visits, copied into order"),
    FLAG(node_tokens, "between nodes it travels once for every node, and is passed on there"),
    FLAG(experts_span, "experts span tensor ranks, whole: each sends its shards of sequences"),
    TIMES(exchange_bytes, 16, "of one gradient on the wires, unless the job says what they add up in"),
    TIMES(zero_adapters, 1024, "ZeRO 3, each tensor by itself, nothing hidden: so many adapters are busy"),
    TIME(zero_step, "of one step of its rings"),
    TIMES(gather_copies, 100, "ZeRO 3: how often gathered weights are copied"),
    TIMES(scatter_copies, 100, "ZeRO 3: how often gradients are copied before they are scattered"),
    TIMES(scatter_scales, 100, "ZeRO 3: how often they are scaled in place"),
    FLAG(scatter_casts, "ZeRO 3: they are cast to what they travel in"),
    {"most_zero", FRAMEWORK_COUNT, PDL_UNIT_NONE, AT(most_zero), 3, "the highest stage of ZeRO that plans are searched with; 0: all"},
    /* pipelines and memory */
    {"split", FRAMEWORK_SPLIT, PDL_UNIT_NONE, AT(split), 0, "where pipelines are cut: by work; blocks dealt evenly where that can be, else by work; or greedily"},
    TIMES(gradient_bytes, 16, "of one weight in buffers that are there all the time, adding up in 16 bits"),
    TIMES(gradient_bytes32, 16, "the same in 32 bits"),
    TIMES(zero_bytes, 16, "of one weight beside them where ZeRO 1 or 2 shards the optimizer"),
    FLAG(dummy_gradients, "beside them, those of one block as written"),
    TIMES(logit_bytes, 100, "of the loss for one logit beyond the plan's"),
    TIMES(cut_logit_bytes, 100, "the same where classes are cut"),
    SIZE(context_bytes, "of the device beside the allocator: context, libraries, communicators"),
    PART(fragments, "memory reserved over allocated, less 1"),
    {"opens", FRAMEWORK_COUNT, PDL_UNIT_NONE, AT(opens), 1000, "files every rank opens in a step, and two more for each split layer"},
};
// clang-format on

const struct framework_key *oracle_framework_key(int i)
{
    return i >= 0 && i < (int)(sizeof keys / sizeof keys[0]) ? &keys[i] : NULL;
}
