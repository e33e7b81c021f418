/* SPDX-License-Identifier: Apache-2.0
 *
 * T5 (Raffel et al., JMLR 2020), version 1.0: encoder and decoder of equal
 * depth, RMSNorm, no biases, one table of 32 relative positions a stack, and
 * one vocabulary table for both stacks and the head. Scores are not divided
 * by the root of a head's width; version 1.0 has ReLU, 1.1 gated GELU. seq
 * tokens on either side. */
#include "zoo_decoder.h"

static const char source[] = "Raffel et al., JMLR 2020";

enum { LAYERS, HIDDEN, HEADS, HEAD_DIM, FFN, VOCAB, SEQ, GATED, TIED, NPARAMS };

static const struct model_param params[NPARAMS] = {
    [LAYERS] = {"layers", "layers of each stack", NULL, 12, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 768, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 12, 1, ZOO_BIG},
    [HEAD_DIM] = {"head_dim", "width of a head", NULL, 64, 1, ZOO_BIG},
    [FFN] = {"ffn", "width of the feed-forward layer", NULL, 3072, 1, ZOO_BIG},
    [VOCAB] = {"vocab", "vocabulary", NULL, 32128, 1, ZOO_BIG},
    [SEQ] = {"seq", "tokens of either side", NULL, 512, 1, 1 << 20},
    [GATED] = {"gated", "gated feed-forward (version 1.1)", "0|1", 0, 0, 1},
    [TIED] = {"tied", "head and embedding are one", "0|1", 1, 0, 1},
};

static const struct pdl_zoo_entry entries[] = {
    {"t5-small", "t5", "layers=6,hidden=512,heads=8,ffn=2048", "T5 small"},
    {"t5-base", "t5", "layers=12,hidden=768,heads=12,ffn=3072", "T5 base"},
    {"t5-large", "t5", "layers=24,hidden=1024,heads=16,ffn=4096", "T5 large"},
    {"t5-3b", "t5", "layers=24,hidden=1024,heads=32,head_dim=128,ffn=16384",
     "T5 3B"},
    {"t5-11b", "t5", "layers=24,hidden=1024,heads=128,head_dim=128,ffn=65536",
     "T5 11B"},
};

static struct model_tf_stack stack_of(const int64_t *v, const char *prefix,
                                      struct model_tf_run *run)
{
    return (struct model_tf_stack){
        .prefix = prefix,
        .hidden = v[HIDDEN],
        .tokens = v[SEQ],
        .norm = TF_RMS,
        .vocab = v[VOCAB],
        .embed_dim = v[HIDDEN],
        .same_table = 1,
        .rel_buckets = 32,
        .rel_heads = v[HEADS],
        .runs = run,
        .nruns = 1,
        .final_norm = 1,
    };
}

static void build(pdl_build *b, const int64_t *v)
{
    struct model_tf_run runs[2] = {{.repeat = v[LAYERS]},
                                   {.repeat = v[LAYERS]}};
    struct model_tf tf = {.source = source,
                          .tokens = v[SEQ],
                          .nstacks = 2,
                          .head = v[VOCAB],
                          .tied = v[TIED]};

    runs[0].layer = (struct model_tf_layer){
        .norm = TF_RMS,
        .heads = v[HEADS],
        .kv_heads = v[HEADS],
        .head_dim = v[HEAD_DIM],
        .v_head_dim = v[HEAD_DIM],
        .ffn = v[FFN],
        .gated = v[GATED],
        .act = v[GATED] ? TF_GELU : TF_RELU,
        .unscaled = 1,
    };
    runs[1].layer = runs[0].layer;
    runs[1].layer.causal = 1;
    runs[1].layer.cross = 1;
    tf.stack[0] = stack_of(v, "encoder.", &runs[0]);
    tf.stack[1] = stack_of(v, "decoder.", &runs[1]);
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_t5 = {
    .self = {"t5", NULL, NULL, "T5, encoder and decoder"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
