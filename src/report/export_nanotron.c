/* SPDX-License-Identifier: Apache-2.0
 *
 * Hugging Face's nanotron: the YAML file of its run_train.py. It trains Llamas
 * in bf16 with Adam, and cuts pipelines by its own estimate of each block's
 * work (get_block_compute_costs). Keys of huggingface/nanotron @2411b022,
 * config/config.py and config/parallelism_config.py. */
#include "export.h"

static const char *const NAME = "nanotron";

struct rule {
    bool broken;
    const char *what;
};

static enum pdl_status check_model(const struct report_gpt *g,
                                   struct pdl_err *err)
{
    const struct rule rules[] = {
        {!g->rms || !g->rope || !g->gated || g->bias || g->qkv_bias ||
             g->qk_norm,
         "its model is Llama's: RMSNorm, rotary positions, gated, no biases"},
        {g->experts > 0 || g->kv_lora > 0,
         "its model has neither experts nor latent attention"},
        {g->heads * g->head_dim != g->hidden, "heads are hidden / heads wide"},
        {g->rope_scale > 0, "it does not stretch rotary positions"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].broken)
            return pdl_fail(err, PDL_EINVAL, "%s: %s", NAME, rules[i].what);
    return PDL_OK;
}

static enum pdl_status suits(const struct pdl_model *m, const char *format,
                             struct pdl_err *err)
{
    struct report_gpt g;
    enum pdl_status st = report_gpt_make(m, format, &g, err);

    return st == PDL_OK ? check_model(&g, err) : st;
}

static enum pdl_status check(const struct report_launch *l, struct pdl_err *err)
{
    const struct pdl_strategy *s = l->job->strategy;
    const struct rule rules[] = {
        {l->job->precision != PDL_PREC_BF16, "it computes in bf16"},
        {l->job->sgd || l->job->dropout > 0 || l->job->unfused ||
             l->job->compile || l->job->async_tensor,
         "it has Adam, no dropout, flash attention and no compiler"},
        {l->job->gradient_bytes == 2, "gradients add up in 32 bits there"},
        {s->zero > 1, "it shards the optimizer alone (zero=1)"},
        {l->cut.pipe > 1 && s->schedule != PDL_SCHEDULE_1F1B &&
             s->schedule != PDL_SCHEDULE_GPIPE,
         "its schedules are 1f1b and gpipe (afab)"},
        {l->cut.virtual_stages > 1, "it does not interleave stages"},
        {l->cut.context > 1, "it has no context parallelism in its releases"},
        {l->cut.expert > 1, "it has no experts"},
        {s->recompute != PDL_RECOMPUTE_NONE &&
             s->recompute != PDL_RECOMPUTE_FULL,
         "it recomputes all of a layer or nothing"},
        {s->offload_optimizer || s->offload_activations, "it has no offload"},
        {s->no_overlap && l->cut.data > 1, "it has no overlap=off"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].broken)
            return pdl_fail(err, PDL_EINVAL, "%s: %s", NAME, rules[i].what);
    return PDL_OK;
}

static void write_model(const struct report_gpt *g, struct pdl_sink *out)
{
    pdl_printf(out,
               "model:\n"
               "  ddp_bucket_cap_mb: 25\n"
               "  dtype: bfloat16\n"
               "  init_method:\n"
               "    std: 0.02\n"
               "  make_vocab_size_divisible_by: 1\n"
               "  model_config:\n"
               "    is_llama_config: true\n"
               "    hidden_act: silu\n"
               "    hidden_size: %lld\n"
               "    intermediate_size: %lld\n"
               "    num_hidden_layers: %lld\n"
               "    num_attention_heads: %lld\n"
               "    num_key_value_heads: %lld\n"
               "    max_position_embeddings: %lld\n"
               "    vocab_size: %lld\n"
               "    tie_word_embeddings: %s\n"
               "    rope_theta: %.6g\n"
               "    rms_norm_eps: %.6g\n"
               "    bos_token_id: 1\n"
               "    eos_token_id: 2\n",
               (long long)g->hidden, (long long)g->ffn, (long long)g->layers,
               (long long)g->heads, (long long)g->kv_heads,
               (long long)g->tokens, (long long)g->vocab,
               g->tied ? "true" : "false",
               g->rope_base > 0 ? g->rope_base : 10000,
               g->epsilon > 0 ? g->epsilon : 1e-5);
}

static void write_parallelism(const struct report_launch *l,
                              struct pdl_sink *out)
{
    const struct pdl_strategy *s = l->job->strategy;

    pdl_printf(out,
               "parallelism:\n"
               "  dp: %lld\n"
               "  pp: %lld\n"
               "  pp_engine: %s\n"
               "  tp: %lld\n"
               "  tp_mode: %s\n"
               "  tp_linear_async_communication: %s\n"
               "  recompute_layer: %s\n"
               "  expert_parallel_size: 1\n",
               (long long)l->cut.data, (long long)l->cut.pipe,
               s->schedule == PDL_SCHEDULE_GPIPE ? "afab" : "1f1b",
               (long long)l->cut.tensor,
               s->seq ? "REDUCE_SCATTER" : "ALL_REDUCE",
               s->seq ? "true" : "false",
               s->recompute == PDL_RECOMPUTE_FULL ? "true" : "false");
}

static void write_rest(const struct report_launch *l, struct pdl_sink *out)
{
    pdl_printf(out,
               "optimizer:\n"
               "  accumulate_grad_in_fp32: true\n"
               "  clip_grad: 1.0\n"
               "  weight_decay: 0.1\n"
               "  zero_stage: %lld\n"
               "  optimizer_factory:\n"
               "    name: adamW\n"
               "    adam_beta1: 0.9\n"
               "    adam_beta2: 0.95\n"
               "    adam_eps: 1.0e-08\n"
               "    torch_adam_is_fused: true\n"
               "  learning_rate_scheduler: # EDIT\n"
               "    learning_rate: 0.0003\n"
               "    lr_warmup_steps: 100\n"
               "    lr_warmup_style: linear\n"
               "    lr_decay_style: cosine\n"
               "    min_decay_lr: 1.0e-05\n",
               (long long)l->job->strategy->zero);
    pdl_printf(out,
               "tokens:\n"
               "  sequence_length: %lld\n"
               "  micro_batch_size: %lld\n"
               "  batch_accumulation_per_replica: %lld\n"
               "  train_steps: 100\n"
               "  val_check_interval: -1\n",
               (long long)l->gpt.tokens, (long long)l->cut.micro_batch,
               (long long)l->cut.micro_count);
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    struct report_launch l;
    enum pdl_status st = report_launch_make(job, NAME, &l, err);

    if (st == PDL_OK)
        st = check_model(&l.gpt, err);
    if (st == PDL_OK)
        st = check(&l, err);
    if (st != PDL_OK)
        return st;
    pdl_puts(out, "# nanotron, made by ParaDL; run_train.py --config-file "
                  "THIS\n");
    report_export_head(job, "# ", out);
    pdl_printf(out,
               "# torchrun --nnodes %lld --nproc-per-node %lld; data and "
               "checkpoints are to be added\n"
               "general:\n"
               "  project: paradl\n"
               "  run: plan\n"
               "  seed: 42\n",
               (long long)l.cut.nodes, (long long)l.cut.pes_per_node);
    write_model(&l.gpt, out);
    write_parallelism(&l, out);
    write_rest(&l, out);
    return PDL_OK;
}

const struct pdl_exporter report_export_nanotron = {
    .name = "nanotron",
    .summary = "a YAML file for Hugging Face's nanotron",
    .write = write,
    .suits = suits,
};
