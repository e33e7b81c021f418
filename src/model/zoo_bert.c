/* SPDX-License-Identifier: Apache-2.0
 *
 * BERT (Devlin et al., NAACL 2019), uncased, as it is published: embeddings
 * with two kinds of tokens, norms after the residuals, the pooler, and no
 * pre-training heads. To train it, head=1 puts the head in the pooler's place
 * that fills in masked tokens, and classes=N a classifier on the pooler. */
#include "zoo_decoder.h"

static const char source[] = "Devlin et al., NAACL 2019";

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    FFN,
    VOCAB,
    SEQ,
    POSITIONS,
    TYPES,
    HEAD,
    CLASSES,
    TIED,
    NPARAMS
};

static const struct model_param params[NPARAMS] = {
    [LAYERS] = {"layers", "layers", NULL, 12, 1, ZOO_LAYERS},
    [HIDDEN] = {"hidden", "width", NULL, 768, 1, ZOO_BIG},
    [HEADS] = {"heads", "attention heads", NULL, 12, 1, ZOO_BIG},
    [FFN] = {"ffn", "width of the feed-forward layer; 0: 4 hidden", NULL, 0, 0,
             ZOO_BIG},
    [VOCAB] = {"vocab", "vocabulary", NULL, 30522, 1, ZOO_BIG},
    [SEQ] = {"seq", "tokens of a sample", NULL, 512, 1, ZOO_BIG},
    [POSITIONS] = {"positions", "rows of learned positions, at least seq", NULL,
                   512, 0, ZOO_BIG},
    [TYPES] = {"types", "kinds of tokens", NULL, 2, 0, ZOO_BIG},
    [HEAD] = {"head", "1: fills in masked tokens", NULL, 0, 0, 1},
    [CLASSES] = {"classes", "of a classifier; 0: none", NULL, 0, 0, ZOO_BIG},
    [TIED] = {"tied", "1: head=1 has the embedding's weights", NULL, 1, 0, 1},
};

static const struct pdl_zoo_entry entries[] = {
    {"bert-base", "bert", "layers=12,hidden=768,heads=12", "BERT base, 110M"},
    {"bert-large", "bert", "layers=24,hidden=1024,heads=16",
     "BERT large, 335M"},
};

static void build(pdl_build *b, const int64_t *v)
{
    struct model_tf_run run = {.repeat = v[LAYERS]};
    struct model_tf tf = {.source = source, .tokens = v[SEQ], .nstacks = 1};
    int64_t rows = v[POSITIONS] < v[SEQ] ? v[SEQ] : v[POSITIONS];

    if (v[HEAD] && v[CLASSES])
        pdl_build_fail(b, PDL_EINVAL, "either head=1 or classes, not both");
    tf.epsilon = 1e-12;
    tf.head = v[HEAD] ? v[VOCAB] : 0;
    tf.fills_in = tf.head_bias = v[HEAD];
    tf.tied = v[HEAD] && v[TIED];
    tf.classes = v[CLASSES];
    tf.class_bias = 1;

    run.layer = (struct model_tf_layer){
        .order = TF_POST,
        .norm = TF_LAYER,
        .heads = v[HEADS],
        .kv_heads = v[HEADS],
        .head_dim = model_zoo_head_dim(b, v[HIDDEN], v[HEADS]),
        .q_bias = 1,
        .k_bias = 1,
        .v_bias = 1,
        .out_bias = 1,
        .ffn = v[FFN] ? v[FFN] : 4 * v[HIDDEN],
        .ffn_bias = 1,
    };
    run.layer.v_head_dim = run.layer.head_dim;
    tf.stack[0] = (struct model_tf_stack){
        .prefix = "",
        .hidden = v[HIDDEN],
        .tokens = v[SEQ],
        .norm = TF_LAYER,
        .vocab = v[VOCAB],
        .embed_dim = v[HIDDEN],
        .types = v[TYPES],
        .positions = rows,
        .embed_norm = 1,
        .runs = &run,
        .nruns = 1,
        .pool = !v[HEAD],
        .pooler = v[HEAD] ? 0 : v[HIDDEN],
    };
    model_tf_emit(b, &tf);
}

const struct model_family model_zoo_bert = {
    .self = {"bert", NULL, NULL, "BERT with its pooler"},
    .source = source,
    .kind = "transformer",
    .params = params,
    .nparams = NPARAMS,
    .build = build,
    .entries = entries,
    .nentries = sizeof entries / sizeof entries[0],
};
