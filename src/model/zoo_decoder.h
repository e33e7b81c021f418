/* Decoders of the zoo: GPT, Llama and mixtures differ in defaults and in the
 * norms and biases of a style; their parameters are the same. */
#ifndef MODEL_ZOO_DECODER_H
#define MODEL_ZOO_DECODER_H

#include "transformer.h"

enum {
    DEC_LAYERS,
    DEC_HIDDEN,
    DEC_HEADS,
    DEC_KV_HEADS,
    DEC_HEAD_DIM,
    DEC_FFN,
    DEC_VOCAB,
    DEC_SEQ,
    DEC_POSITIONS,
    DEC_GATED,
    DEC_TIED,
    DEC_QK_NORM,
    DEC_QKV_BIAS,
    DEC_EXPERTS,
    DEC_TOPK,
    DEC_NPARAMS
};

enum { ZOO_BIG = 1 << 26, ZOO_LAYERS = 100000 };

/* The rows of a parameter table, with a family's defaults. */
#define DEC_PARAMS(layers, hidden, heads, ffn, vocab, seq, gated, tied,        \
                   experts, topk)                                              \
    [DEC_LAYERS] = {"layers", "layers", NULL, layers, 1, ZOO_LAYERS},          \
    [DEC_HIDDEN] = {"hidden", "width", NULL, hidden, 1, ZOO_BIG},              \
    [DEC_HEADS] = {"heads", "attention heads", NULL, heads, 1, ZOO_BIG},       \
    [DEC_KV_HEADS] = {"kv_heads", "heads of keys and values; 0: as heads",     \
                      NULL,       0,                                           \
                      0,          ZOO_BIG},                                    \
    [DEC_HEAD_DIM] = {"head_dim", "width of a head; 0: hidden/heads",          \
                      NULL,       0,                                           \
                      0,          ZOO_BIG},                                    \
    [DEC_FFN] = {"ffn", "width of the feed-forward layer; 0: 4 hidden",        \
                 NULL,  ffn,                                                   \
                 0,     ZOO_BIG},                                              \
    [DEC_VOCAB] = {"vocab", "vocabulary", NULL, vocab, 1, ZOO_BIG},            \
    [DEC_SEQ] = {"seq", "tokens of a sample", NULL, seq, 1, ZOO_BIG},          \
    [DEC_POSITIONS] = {"positions", "rows of learned positions; 0: seq",       \
                       NULL,        0,                                         \
                       0,           ZOO_BIG},                                  \
    [DEC_GATED] = {"gated", "gated feed-forward", "0|1", gated, 0, 1},         \
    [DEC_TIED] = {"tied", "head and embedding are one", "0|1", tied, 0, 1},    \
    [DEC_QK_NORM] = {"qk_norm", "norms of queries and keys", "0|1", 0, 0, 1},  \
    [DEC_QKV_BIAS] =                                                           \
        {                                                                      \
            "qkv_bias", "1: biases of q, k and v alone; GPT has all",          \
            "0|1",      0,                                                     \
            0,          1},                                                    \
    [DEC_EXPERTS] =                                                            \
        {"experts", "experts of a layer; 0: none", NULL, experts, 0, ZOO_BIG}, \
    [DEC_TOPK] = {"topk", "experts a token visits", NULL, topk, 0, ZOO_BIG}

/* hidden / heads, or the failure that it leaves a rest. */
int64_t model_zoo_head_dim(pdl_build *b, int64_t hidden, int64_t heads);
/* GPT: LayerNorm, biases, learned positions. Otherwise Llama: RMSNorm, no
 * biases, rotary positions. */
void model_zoo_decoder(pdl_build *b, const int64_t *v, bool gpt,
                       const char *source);

#endif
