/* SPDX-License-Identifier: Apache-2.0
 *
 * From the parameters of a zoo decoder to a transformer. The position table
 * of a GPT has as many rows as a sample has tokens unless positions= says
 * otherwise, and never fewer. */
#include "zoo_decoder.h"

int64_t model_zoo_head_dim(pdl_build *b, int64_t hidden, int64_t heads)
{
    if (hidden % heads == 0)
        return hidden / heads;
    pdl_build_fail(b, PDL_EINVAL,
                   "hidden (%lld) is not divisible by heads "
                   "(%lld)",
                   (long long)hidden, (long long)heads);
    return 1;
}

static struct model_tf_layer layer_of(pdl_build *b, const int64_t *v, bool gpt)
{
    struct model_tf_layer l = {
        .order = TF_PRE,
        .norm = gpt ? TF_LAYER : TF_RMS,
        .heads = v[DEC_HEADS],
        .kv_heads = v[DEC_KV_HEADS] ? v[DEC_KV_HEADS] : v[DEC_HEADS],
        .head_dim = v[DEC_HEAD_DIM],
        .causal = 1,
        .rope = !gpt,
        .q_bias = gpt || v[DEC_QKV_BIAS],
        .k_bias = gpt || v[DEC_QKV_BIAS],
        .v_bias = gpt || v[DEC_QKV_BIAS],
        .out_bias = gpt,
        .qk_norm = v[DEC_QK_NORM] ? TF_QK_HEAD : TF_QK_NONE,
        .ffn = v[DEC_FFN] ? v[DEC_FFN] : 4 * v[DEC_HIDDEN],
        .gated = v[DEC_GATED],
        .ffn_bias = gpt,
        .experts = v[DEC_EXPERTS],
    };

    if (!l.head_dim)
        l.head_dim = model_zoo_head_dim(b, v[DEC_HIDDEN], v[DEC_HEADS]);
    l.v_head_dim = l.head_dim;
    l.qk_norm_kind = l.norm;
    if (!l.experts)
        return l;
    l.topk = v[DEC_TOPK] ? v[DEC_TOPK] : 2;
    l.moe_ffn = l.ffn;
    l.expert_bias = gpt;
    return l;
}

void model_zoo_decoder(pdl_build *b, const int64_t *v, bool gpt,
                       const char *source)
{
    struct model_tf_run run = {layer_of(b, v, gpt), v[DEC_LAYERS]};
    struct model_tf tf = {.source = source,
                          .tokens = v[DEC_SEQ],
                          .nstacks = 1,
                          .head = v[DEC_VOCAB],
                          .tied = v[DEC_TIED]};
    int64_t rows = v[DEC_POSITIONS];

    if (rows < v[DEC_SEQ])
        rows = v[DEC_SEQ];
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[DEC_HIDDEN],
        .tokens = v[DEC_SEQ],
        .norm = run.layer.norm,
        .vocab = v[DEC_VOCAB],
        .embed_dim = v[DEC_HIDDEN],
        .positions = gpt ? rows : 0,
        .runs = &run,
        .nruns = 1,
        .final_norm = 1,
    };
    model_tf_emit(b, &tf);
}
