/* Shared by the exporters: what a transformer is made of and how it is cut,
 * as the launchers of other programs ask for it. */
#ifndef REPORT_EXPORT_H
#define REPORT_EXPORT_H

#include "paradl/report.h"

/* A decoder of equal layers, read from its graph. */
struct report_gpt {
    int64_t layers, hidden, heads, kv_heads, head_dim;
    int64_t ffn; /* 0: every layer has experts */
    int64_t vocab, tokens;
    int64_t positions;            /* rows of learned ones; 0: none */
    double rope_base, rope_scale; /* of Llama 3.1; 0: not said, none */
    double epsilon;               /* of norms; 0: not said */
    bool rms, rope, gated, tied, causal;
    bool bias, qkv_bias, qk_norm;
    bool correction; /* of the router's scores */
    int64_t experts, topk, moe_ffn, shared_ffn, dense_layers;
    int64_t q_lora, kv_lora, qk_nope, qk_rope, v_head_dim; /* MLA; else 0 */
};

enum { REPORT_STAGES = 1024 };

/* The strategy as degrees. data holds expert too where experts have it. */
struct report_cut {
    int64_t pes, pipe, data, context, expert, tensor;
    int64_t micro_batch;              /* samples */
    int64_t micro_count;              /* micro-batches of a step */
    int64_t stage_layers;             /* of one virtual stage; 0: uneven */
    int64_t virtual_stages;           /* of a rank; zb-v has two */
    int64_t stages;                   /* of all ranks */
    int64_t layers_of[REPORT_STAGES]; /* transformer layers of each */
    int64_t nodes, pes_per_node;
};

struct report_launch {
    const struct pdl_export_job *job;
    struct report_gpt gpt;
    struct report_cut cut;
};

/* Fills all of it; EINVAL where the model is no such transformer, or an axis
 * of the strategy has no counterpart in launchers (spatial, filter, channel,
 * per-layer clauses), or the batch does not divide. */
enum pdl_status report_launch_make(const struct pdl_export_job *job,
                                   const char *format,
                                   struct report_launch *out,
                                   struct pdl_err *err);
/* The model alone. */
enum pdl_status report_gpt_make(const struct pdl_model *m, const char *format,
                                struct report_gpt *out, struct pdl_err *err);
enum pdl_status report_gpt_suits(const struct pdl_model *m, const char *format,
                                 struct pdl_err *err);
/* The first node of this name, or of a layer if it begins with a dot; NULL.
 * Has it a bias? */
const struct pdl_node *report_node(const struct pdl_model *m, const char *name);
bool report_biased(const struct pdl_model *m, const char *name);
/* export_unusual.c: refuses networks with parts that launchers are not told
 * of, and names them all. */
enum pdl_status report_usual(const struct pdl_model *m, const char *format,
                             struct pdl_err *err);
/* How many machines start so many PEs, and how many each of them. */
enum pdl_status report_machines(const struct pdl_system *sys,
                                const char *format, int64_t pes, int64_t *n,
                                int64_t *each, struct pdl_err *err);
/* The strategy alone, for any model. */
enum pdl_status report_cut_make(const struct pdl_export_job *job,
                                const char *format, struct report_cut *out,
                                struct pdl_err *err);
/* The opening comment: what is projected, and the command. prefix: "# ". */
void report_export_head(const struct pdl_export_job *job, const char *prefix,
                        struct pdl_sink *out);

extern const struct pdl_exporter report_export_megatron,
    report_export_deepspeed, report_export_torchtitan,
    report_export_torchtitan_toml, report_export_accelerate,
    report_export_nanotron, report_export_own, report_export_sbatch,
    report_export_pipeline;

#endif
