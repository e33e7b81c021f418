/* Shared by the readers of other programs' launch configurations: they fill
 * a struct report_setup, and one place turns it into our notation. */
#ifndef REPORT_IMPORT_H
#define REPORT_IMPORT_H

#include "paradl/report.h"

/* As these programs count; 0 or false: not said. */
struct report_setup {
    const char *dropout;  /* NULL: not said */
    const char *gradient; /* "bf16": what gradients add up in */
    const char *layout;   /* of Megatron's pipeline, as it is written */
    int64_t world, nodes, per_node;
    int64_t tensor, pipe, virtual_stages, layers_per_virtual, context, expert;
    int64_t expert_tensor; /* ranks that cut an expert; 0: as tensor */
    bool tokens_once;      /* a token travels to a node once */
    int64_t zero, zero_group;
    int64_t micro_batch, global_batch, accumulation;
    bool seq, overlap, fp16, bf16, fp8, fp4, tf32, fp32;
    bool recompute_full, recompute_selective, recompute_op, offload_optimizer;
    bool compile, async_tensor, unfused, sgd;
    bool context_a2a, context_gather, gpipe, zero_bubble_v, pipe_before_data;
    int64_t first_layers, last_layers; /* of these stages; 0: as the others */
    bool count_embedding, count_loss;  /* each as a layer of its stage */
    int64_t recompute_layers;          /* of a stage or at a time */
    bool recompute_block, recompute_second; /* of every two layers */
    const int64_t *stage_layers; /* NULL: equally many; see import_stages.c */
    int64_t nstages;
    /* the model */
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, tokens, vocab;
    int64_t positions;
    int64_t padded_vocab, vocab_multiple;
    int64_t experts, topk, moe_ffn;
    int64_t shared_ffn, dense, q_lora, kv_lora, nope, rope_dim, v_dim;
    bool swiglu, rms, rope, untied, qk_norm, latent;
    bool qkv_bias, correction;
};

/* Settles the data axis and the micro-batches and writes the notation. */
enum pdl_status report_setup_finish(pdl_arena *a, struct report_setup *s,
                                    const char *name, struct pdl_launch *out,
                                    struct pdl_err *err);
void report_note(struct pdl_launch *out, const char *text);
/* Does the file have that word, wherever? */
bool report_has(struct pdl_bytes in, const char *word);

/* ---- import_stages.c: where pipelines are cut, which layers recompute ---- */

/* Megatron's layout, its first and last stage, layers that the embedding and
 * the loss count as: settles stage_layers. What cannot be taken is a note. */
enum pdl_status report_stages_read(pdl_arena *a, struct report_setup *s,
                                   struct pdl_launch *out, struct pdl_err *err);
/* As many layers to each of n stages, the embedding and the head counting as
 * `first` and `last` of them, what is left to the earliest (torchtitan). */
enum pdl_status report_stages_share(pdl_arena *a, struct report_setup *s,
                                    int64_t n, int64_t first, int64_t last,
                                    struct pdl_err *err);
/* So many to each of n stages; as equal ones where one in the middle has
 * none. */
enum pdl_status report_stages_given(pdl_arena *a, struct report_setup *s,
                                    const int64_t *of, int64_t n,
                                    struct pdl_err *err);
/* ",at=layers.8.attn.norm+..." of unequal stages; nothing of equal ones. */
void report_stages_put(const struct report_setup *s, struct pdl_sink *out);
/* True where some layers of a stage recompute and others do not; puts the
 * clauses that say so. */
bool report_recompute_some(const struct report_setup *s);
void report_recompute_put(const struct report_setup *s, struct pdl_sink *out);

/* ---- import_words.c: a shell script, read and not run ------------------ */

struct report_word {
    const char *text;
    int line;
    bool closed; /* a bracket follows: no value does */
};

struct report_words {
    pdl_arena *arena;
    const char *name; /* of the file */
    struct report_word *word;
    int n;
};

/* All words but assignments, quotes and comments gone, variables and sums that
 * the file itself sets put in. What it does not set stays as it is written. */
enum pdl_status report_words(pdl_arena *a, struct pdl_bytes in,
                             const char *name, struct report_words *out,
                             struct pdl_err *err);

/* Nodes and PEs of a node that the lines #SBATCH of a script ask for; what they
 * do not say stays as it is. */
void report_sbatch(struct pdl_bytes in, int64_t *nodes, int64_t *per_node);

extern const struct pdl_launch_reader report_import_megatron,
    report_import_deepspeed, report_import_torchtitan, report_import_nanotron,
    report_import_accelerate, report_import_own;

#endif
