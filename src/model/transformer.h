/* One description of a transformer and one builder that makes the graph.
 *
 * A model is one to three stacks (an encoder and a decoder; a vision tower
 * and a text tower) of layers. Layers that follow each other and are the same
 * are one run, and one repeated segment of the graph: DeepSeek-V3 is a dense
 * run of 3 and a mixture run of 58.
 *
 * Names are ours and the same for every family: embed.tokens,
 * layers.{i}.attn.{norm,q,k,v,core,out}, layers.{i}.ffn.{norm,gate,up,down},
 * layers.{i}.moe.{router,experts,shared.gate ...}, norm, head; stacks other
 * than a lone one have a prefix: encoder., decoder., vision., text.
 *
 * Everything is an int64_t so that layers can be compared byte by byte and
 * filled from a table. */
#ifndef MODEL_TRANSFORMER_H
#define MODEL_TRANSFORMER_H

#include "model_priv.h"

/* PLAIN has no weights at all (OLMo 1). */
enum model_tf_norm { TF_RMS, TF_LAYER, TF_LAYER_NO_BIAS, TF_PLAIN };

/* Where a layer normalises. PRE: x + f(n(x)). POST: n(x + f(x)). SANDWICH:
 * x + n(f(n(x))). BRANCH: x + n(f(x)). PARALLEL: x + a(n(x)) + f(n(x));
 * PARALLEL2 has a norm for each. */
enum model_tf_order {
    TF_PRE,
    TF_POST,
    TF_SANDWICH,
    TF_BRANCH,
    TF_PARALLEL,
    TF_PARALLEL2,
};

enum model_tf_mixer {
    TF_ATTENTION,
    TF_MLA,        /* multi-head latent attention (DeepSeek-V2) */
    TF_MAMBA,      /* selective state space (Gu and Dao 2023) */
    TF_MAMBA2,     /* state space duality (Dao and Gu 2024) */
    TF_SHORT_CONV, /* gated short convolution (LFM2) */
    TF_DELTA,      /* gated delta rule (Qwen3-Next) */
    TF_CROSS,      /* attends the other stack only (Llama 3.2 vision) */
};

enum model_tf_qk_norm {
    TF_QK_NONE,
    TF_QK_HEAD, /* one weight vector for all heads (Qwen3) */
    TF_QK_FULL, /* over the whole projection, or each head its own */
};

/* The function of a feed-forward layer: SiLU where it is gated, else GELU,
 * unless one is named. */
enum model_tf_act { TF_USUAL, TF_RELU, TF_GELU };

struct model_tf_layer {
    int64_t mixer, order, norm;
    int64_t skip_norm; /* no norm before the mixer (first of ModernBERT) */
    /* attention */
    int64_t heads, kv_heads, head_dim, v_head_dim, window, causal, rope;
    int64_t q_bias, k_bias, v_bias, out_bias;
    int64_t qk_norm, qk_norm_kind; /* the latter an enum model_tf_norm */
    int64_t sinks;                 /* a learned logit for each head */
    int64_t gate;                  /* output gate, from a twice as wide q */
    int64_t v_is_k, shared_kv;     /* no v projection; neither k nor v */
    int64_t sub_norm;              /* a norm before the output projection */
    int64_t unscaled;              /* scores as they are (T5) */
    int64_t q_lora, kv_lora, qk_nope, qk_rope, lora_bias; /* MLA */
    int64_t out_lora, out_groups;   /* the output through groups of heads */
    int64_t index_heads, index_dim; /* DeepSeek-V3.2 chooses what to attend */
    int64_t cross;                  /* a second attention, to the other stack */
    /* state spaces, short convolution, delta rule */
    int64_t inner, state, conv, dt_rank, groups, in_bias, conv_bias, ssm_out;
    int64_t ssm_norms; /* Jamba's norms of dt, B and C */
    int64_t k_heads;   /* delta rule: key heads; heads are the values' */
    /* feed-forward */
    int64_t ffn, gated, ffn_bias, ffn_norm; /* ffn 0: none */
    int64_t act;                            /* an enum model_tf_act */
    int64_t experts, topk, moe_ffn, expert_bias, router_bias, correction;
    int64_t shared_ffn, shared_gate;
    int64_t moe_latent;  /* routed experts work on so many features */
    int64_t dense_too;   /* the dense feed-forward stands beside the experts */
    int64_t layer_scale; /* a factor for each feature of both branches */
    int64_t gates;       /* scalars that damp the branches (mllama) */
    int64_t per_layer;   /* width of Gemma's per-layer inputs */
    int64_t beside;      /* Gemma 4: experts beside the dense layer */
};

struct model_tf_run {
    struct model_tf_layer layer;
    int64_t repeat;
};

struct model_tf_stack {
    const char *prefix;
    int64_t hidden, tokens, most_tokens, norm;
    /* text */
    int64_t vocab, embed_dim, types, same_table; /* the first stack's table */
    int64_t positions;                           /* rows; 0: none learned */
    int64_t embed_norm, project, project_last;
    int64_t shared_layers; /* all rounds use one set of weights (ALBERT) */
    int64_t rel_buckets, rel_heads; /* T5's table of relative positions */
    int64_t rel_rows, rel_norm;     /* DeBERTa's: rows as wide as hidden */
    int64_t per_vocab, per_width;   /* Gemma's embedding for each layer */
    /* images and sound */
    int64_t image, channels, patch, patch_bias, class_tokens, pre_norm;
    int64_t frames; /* images that a patch spans: video (Qwen-VL) */
    int64_t mels;
    /* layers */
    struct model_tf_run *runs;
    int nruns;
    /* after them */
    int64_t final_norm, project_out; /* to embed_dim, before the head */
    int64_t pool, pooler, feature;   /* one token; its layer; a projection */
    /* from a tower of images to the text: a norm, squares of merge x merge
     * patches side by side (or their mean), one or two linear layers */
    int64_t merge, mean, adapter_norm, adapter_norm_kind, adapter_hidden;
    int64_t adapter_out, adapter_bias;
    int64_t adapter_in;     /* width with features of inner layers */
    int64_t tiles, aspects; /* mllama: tables for the parts of an image */
    int64_t images;         /* takes in the result of the stack before it */
};

struct model_tf {
    const char *name, *source;
    enum pdl_dtype dtype;
    int64_t tokens, most_tokens; /* as of struct pdl_model */
    struct model_tf_stack stack[3];
    int nstacks;
    int64_t head, tied, head_bias; /* head: vocabulary of the last stack */
    int64_t fills_in; /* BERT's: a layer and a norm before the head */
    int64_t classes, class_bias; /* of a classifier; 0: none */
    int64_t logit_scale;         /* CLIP's temperature */
    double epsilon;              /* of all norms; 0: the operator's */
    struct pdl_attr rope;        /* theta and what stretches wavelengths */
    double alibi, alibi_factor;  /* alpha and beta of attention; 0: none */
    int64_t by_tanh;             /* GELU is the approximation */
    const char *type;            /* of the configuration; NULL: of the zoo */
    const char *inexact;         /* what the graph has not as published; NULL */
    struct pdl_router router;
    const char *unknown[4]; /* parts that are not built, for the reader */
};

enum pdl_status model_tf_build(pdl_arena *a, const struct model_tf *tf,
                               const struct pdl_model **out,
                               struct pdl_err *err);
/* The same into a graph already begun. */
void model_tf_emit(pdl_build *b, const struct model_tf *tf);

/* ---- between the builder's files -------------------------------------- */

enum { TF_MAX_SHARED = 64 };

/* A stack under construction. */
struct model_tf_ctx {
    pdl_build *b;
    const struct model_tf *tf;
    const struct model_tf_stack *stack;
    char prefix[64]; /* "decoder.layers.{i}." */
    int memory;      /* what cross attention reads, or -1 */
    int relative;    /* bias of the attention logits, or -1 */
    int distances;   /* T5's table of them, a weight, or -1 */
    int per_layer;   /* inputs of each layer, or -1 */
    /* one set of weights for all rounds: recorded in the first, then given */
    enum { TF_OWN, TF_RECORD, TF_REPLAY } sharing;
    int shared[TF_MAX_SHARED], nshared;
};

struct model_label model_tf_name(const struct model_tf_ctx *c,
                                 const char *part);
/* A node whose weights the operator's own convention describes. */
int model_tf_op(struct model_tf_ctx *c, const char *op, const char *part,
                const struct pdl_attr *attr, const int *in, int nin);
/* x op w, w a fresh weight [n] (or [1] for a scalar). */
int model_tf_with(struct model_tf_ctx *c, const char *op, const char *part,
                  int x, int64_t n);
int model_tf_linear(struct model_tf_ctx *c, const char *part, int x,
                    int64_t features, int64_t bias);
int model_tf_normed(struct model_tf_ctx *c, const char *part, int x,
                    int64_t kind, int64_t features);
int model_tf_unary(struct model_tf_ctx *c, const char *op, const char *part,
                   int x);
/* Rotary positions; attr says of which features. */
int model_tf_rope(struct model_tf_ctx *c, const char *part,
                  struct pdl_attr attr, int x);
int model_tf_binary(struct model_tf_ctx *c, const char *op, const char *part,
                    int x, int y);
/* The part of the last dimension from `from` on, n wide. */
int model_tf_slice(struct model_tf_ctx *c, const char *part, int x,
                   int64_t from, int64_t n);
/* An operator known by its result [T, n] only. */
int model_tf_other(struct model_tf_ctx *c, const char *what, const char *part,
                   const int *in, int nin, int64_t n, const int64_t *weights,
                   int nweights);
/* A depth-wise convolution along the tokens that looks back only. */
int model_tf_conv(struct model_tf_ctx *c, const char *part, int x,
                  int64_t kernel, int64_t bias);

/* Rows of a table of weights, by the operator op. */
int model_tf_table(struct model_tf_ctx *c, const char *part, const char *op,
                   int ids, int64_t rows, int64_t columns);
int model_tf_turn(struct model_tf_ctx *c, const char *part, int x); /* [A,B] */

/* tf_embed.c; *shared is the table that a tied head uses again. */
int model_tf_embed(struct model_tf_ctx *c, int *shared);
int model_tf_tiles(struct model_tf_ctx *c, int x); /* after the layers */

int model_tf_layer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x);
int model_tf_mixer(struct model_tf_ctx *c, const struct model_tf_layer *l,
                   int x); /* tf_mixer.c: everything but attention */

#endif
