/* Shared by the readers of other programs' launch configurations: they fill
 * a struct report_setup, and one place turns it into our notation. */
#ifndef REPORT_IMPORT_H
#define REPORT_IMPORT_H

#include "paradl/report.h"

/* As these programs count; 0 or false: not said. */
struct report_setup {
    const char *dropout; /* NULL: not said */
    int64_t world, nodes, per_node;
    int64_t tensor, pipe, virtual_stages, layers_per_virtual, context, expert;
    int64_t zero, zero_group;
    int64_t micro_batch, global_batch, accumulation;
    bool seq, overlap, fp16, bf16, fp8, fp32;
    bool recompute_full, recompute_selective, recompute_op, offload_optimizer;
    bool compile, async_tensor, bf16_gradients;
    bool context_a2a, context_gather, gpipe, zero_bubble_v, pipe_before_data;
    /* the model */
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, tokens, vocab;
    int64_t padded_vocab, vocab_multiple;
    int64_t experts, topk, moe_ffn;
    bool swiglu, rms, rope, untied, qk_norm, latent;
};

/* Settles the data axis and the micro-batches and writes the notation. */
enum pdl_status report_setup_finish(pdl_arena *a, struct report_setup *s,
                                    const char *name, struct pdl_launch *out,
                                    struct pdl_err *err);
void report_note(struct pdl_launch *out, const char *text);

/* ---- import_words.c: a shell script, read and not run --------------------------- */

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

extern const struct pdl_launch_reader report_import_megatron,
    report_import_deepspeed, report_import_torchtitan;

#endif
