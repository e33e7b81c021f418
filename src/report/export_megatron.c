/* SPDX-License-Identifier: Apache-2.0
 *
 * A bash script that starts Megatron-LM (flags as of core 0.15 and main of
 * 2026-08; tests/report walks random plans and compares every flag with the
 * list of those that exist). Its own rules are checked here, so that a script
 * that cannot start is never written. */
#include "export.h"

#include <string.h>

static const char *const NAME = "megatron";

/* ---- what Megatron asserts --------------------------------------------- */

struct rule {
    bool broken;
    const char *what;
};

/* Rank order: tensor fastest, then context, expert, data, pipe (its default
 * tp-cp-ep-dp-pp) or with pipe and data changed (tp-cp-ep-pp-dp). */
static bool order_is(const struct pdl_strategy *s, const enum pdl_axis *axes,
                     int n)
{
    int at = 0;

    for (int i = 0; s->nclauses > 0 && i < s->clause[0].nterms; i++) {
        const struct pdl_term *t = &s->clause[0].term[i];

        if (t->size[0] == 1)
            continue;
        while (at < n && axes[at] != t->axis)
            at++;
        if (at == n)
            return false;
    }
    return true;
}

static bool default_order(const struct pdl_strategy *s)
{
    static const enum pdl_axis axes[] = {PDL_AXIS_PIPE, PDL_AXIS_DATA,
                                         PDL_AXIS_EXPERT, PDL_AXIS_CONTEXT,
                                         PDL_AXIS_TENSOR};

    return order_is(s, axes, 5);
}

static bool data_outermost(const struct pdl_strategy *s)
{
    static const enum pdl_axis axes[] = {PDL_AXIS_DATA, PDL_AXIS_PIPE,
                                         PDL_AXIS_EXPERT, PDL_AXIS_CONTEXT,
                                         PDL_AXIS_TENSOR};

    return order_is(s, axes, 5);
}

static enum pdl_status check(const struct report_launch *l, struct pdl_err *err)
{
    const struct pdl_strategy *s = l->job->strategy;
    const struct report_gpt *g = &l->gpt;
    const struct report_cut *c = &l->cut;
    // clang-format off
    const struct rule rules[] = {
        {g->heads % c->tensor != 0, "heads must divide by tensor"},
        {g->kv_heads % c->tensor != 0 && c->tensor % g->kv_heads != 0,
         "query groups must divide by tensor"},
        {g->ffn % c->tensor != 0 || g->moe_ffn % c->tensor != 0,
         "the feed-forward width must divide by tensor"},
        {s->seq && c->tensor == 1, "seq needs tensor > 1"},
        {s->seq && g->tokens % c->tensor != 0,
         "tokens must divide by tensor with seq"},
        {g->tokens % (2 * c->context) != 0 && c->context > 1,
         "tokens must divide by 2 x context"},
        {c->context > 1 && s->context_order == PDL_ORDER_PLAIN &&
             s->context_kind != PDL_CONTEXT_A2A,
         "its context parallelism deals positions in a zigzag, not plain"},
        {c->expert > 1 && g->experts == 0, "expert needs a model with experts"},
        {g->experts > 0 && g->experts % c->expert != 0,
         "experts must divide by expert"},
        {g->experts > 0 && c->tensor > 1 && !s->seq,
         "networks with experts want +seq with tensor"},
        {s->schedule == PDL_SCHEDULE_GPIPE && c->pipe > 1,
         "it runs 1f1b or interleaved, not gpipe"},
        {s->schedule > PDL_SCHEDULE_INTERLEAVED,
         "it has no zero-bubble schedule"},
        {c->virtual_stages > 1 && c->micro_count % c->pipe != 0,
         "interleaved needs m to divide by pipe"},
        {s->zero >= 2 && c->pipe > 1, "zero=2,3 (its FSDP) is not for pipe"},
        {s->zero_group > 0, "sharding within a group is not exported"},
        {s->recompute == PDL_RECOMPUTE_SELECTIVE_OP,
         "it has no recompute=selective-op"},
        {s->offload_activations, "offload=activations is not exported"},
        {l->job->compile, "it has no --compile"},
        {!default_order(s) && !data_outermost(s),
         "ranks must be ordered pipe,data,expert,context,tensor (or data "
         "first)"},
    };
    // clang-format on

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].broken)
            return pdl_fail(err, PDL_EINVAL, "megatron: %s", rules[i].what);
    return PDL_OK;
}

/* ---- flags ------------------------------------------------------------- */

static void flag(struct pdl_sink *out, const char *name)
{
    pdl_printf(out, "    %s\n", name);
}

static void flag_if(struct pdl_sink *out, bool yes, const char *name)
{
    if (yes)
        flag(out, name);
}

static void flag_int(struct pdl_sink *out, const char *name, int64_t v)
{
    pdl_printf(out, "    %s %lld\n", name, (long long)v);
}

static void flag_if_int(struct pdl_sink *out, bool yes, const char *name,
                        int64_t v)
{
    if (yes)
        flag_int(out, name, v);
}

/* Tables are padded so that every rank has as much, in whole tiles. */
static void vocab_args(const struct report_launch *l, struct pdl_sink *out)
{
    int64_t unit = 128 * l->cut.tensor, v = l->gpt.vocab;

    pdl_printf(out, "    --vocab-size %lld", (long long)v);
    if (v % unit != 0)
        pdl_printf(out, " # Megatron pads it to %lld",
                   (long long)(v + unit - v % unit));
    pdl_puts(out, "\n");
}

static void model_args(const struct report_launch *l, struct pdl_sink *out)
{
    const struct report_gpt *g = &l->gpt;
    bool grouped = g->kv_heads != g->heads && g->kv_lora == 0;

    pdl_puts(out, "MODEL_ARGS=(\n");
    flag_int(out, "--num-layers", g->layers);
    flag_int(out, "--hidden-size", g->hidden);
    flag_if_int(out, g->ffn > 0, "--ffn-hidden-size", g->ffn);
    flag_int(out, "--num-attention-heads", g->heads);
    flag_if(out, grouped, "--group-query-attention");
    flag_if_int(out, grouped, "--num-query-groups", g->kv_heads);
    flag_if_int(out, g->kv_lora == 0 && g->head_dim * g->heads != g->hidden,
                "--kv-channels", g->head_dim);
    flag_int(out, "--seq-length", g->tokens);
    flag_int(out, "--max-position-embeddings",
             g->positions > g->tokens ? g->positions : g->tokens);
    vocab_args(l, out);
    flag(out, "--tokenizer-type NullTokenizer"); /* EDIT note below */
    flag_if(out, g->gated, "--swiglu");
    flag_if(out, g->rms, "--normalization RMSNorm");
    if (g->epsilon > 0)
        pdl_printf(out, "    --norm-epsilon %.6g\n", g->epsilon);
    flag_if(out, !g->bias, "--disable-bias-linear");
    flag_if(out, !g->bias && g->qkv_bias, "--add-qkv-bias");
    flag_if(out, g->qk_norm, "--qk-layernorm");
    flag_if(out, !g->tied, "--untie-embeddings-and-output-weights");
    flag(out, g->rope ? "--position-embedding-type rope"
                      : "--position-embedding-type learned_absolute");
    flag_if_int(out, g->rope_base > 0, "--rotary-base", (int64_t)g->rope_base);
    flag_if(out, g->rope_scale > 0, "--use-rope-scaling");
    if (g->rope_scale > 0)
        pdl_printf(out, "    --rope-scaling-factor %.6g\n", g->rope_scale);
    /* its own defaults are 0.1 */
    pdl_printf(out, "    --hidden-dropout %.6g\n    --attention-dropout %.6g\n",
               l->job->dropout, l->job->dropout);
    flag_if(out, l->job->unfused, "--attention-backend unfused");
    pdl_puts(out, ")\n");
}

static void latent_args(const struct report_gpt *g, struct pdl_sink *out)
{
    if (g->kv_lora == 0)
        return;
    pdl_puts(out, "MODEL_ARGS+=(\n");
    flag(out, "--multi-latent-attention");
    flag_if_int(out, g->q_lora > 0, "--q-lora-rank", g->q_lora);
    flag_int(out, "--kv-lora-rank", g->kv_lora);
    flag_int(out, "--qk-head-dim", g->qk_nope);
    flag_int(out, "--qk-pos-emb-head-dim", g->qk_rope);
    flag_int(out, "--v-head-dim", g->v_head_dim);
    pdl_puts(out, ")\n");
}

/* Where the experts are: whole ones on all ranks, those of tensor too, of which
 * each sends its shards of sequences (so they are priced); or, where there are
 * too few for that, each cut over the tensor ranks. Between nodes a token goes
 * once to each. */
static void expert_ranks(const struct report_launch *l, struct pdl_sink *out)
{
    const struct report_cut *c = &l->cut;
    bool whole = c->expert > 1 && l->gpt.experts % (c->expert * c->tensor) == 0;
    bool far =
        c->expert > 1 && c->expert * c->tensor > l->job->system->node.pes;

    flag(out, far ? "--moe-token-dispatcher-type flex"
                  : "--moe-token-dispatcher-type alltoall");
    flag_if(out, far, "--moe-flex-dispatcher-backend hybridep");
    flag_int(out, "--expert-model-parallel-size",
             whole ? c->expert * c->tensor : c->expert);
    flag_int(out, "--expert-tensor-parallel-size", whole ? 1 : c->tensor);
}

static void expert_args(const struct report_launch *l, struct pdl_sink *out)
{
    const struct pdl_router *r = &l->job->model->router;
    const struct report_gpt *g = &l->gpt;

    if (g->experts == 0)
        return;
    pdl_puts(out, "MOE_ARGS=(\n");
    flag_int(out, "--num-experts", g->experts);
    flag_int(out, "--moe-router-topk", g->topk);
    /* the bias is for sigmoids alone */
    flag_if(out, g->correction, "--moe-router-score-function sigmoid");
    flag_if(out, g->correction, "--moe-router-enable-expert-bias");
    flag_if(out, r->softmax_first && !g->correction,
            "--moe-router-pre-softmax");
    if (r->scale > 0)
        pdl_printf(out, "    --moe-router-topk-scaling-factor %.6g\n",
                   r->scale);
    flag_if_int(out, r->groups > 0, "--moe-router-num-groups", r->groups);
    flag_if_int(out, r->groups > 0, "--moe-router-group-topk", r->of_groups);
    flag_int(out, "--moe-ffn-hidden-size", g->moe_ffn);
    flag_if_int(out, g->shared_ffn > 0, "--moe-shared-expert-intermediate-size",
                g->shared_ffn);
    if (g->dense_layers > 0)
        pdl_printf(out, "    --moe-layer-freq \"([0]*%lld+[1]*%lld)\"\n",
                   (long long)g->dense_layers,
                   (long long)(g->layers - g->dense_layers));
    flag(out, "--moe-grouped-gemm");
    expert_ranks(l, out);
    pdl_puts(out, ")\n");
}

/* Stages of unequally many layers: E the embedding, t a layer, L the loss. */
static void layout_args(const struct report_cut *c, struct pdl_sink *out)
{
    pdl_puts(out, "    --pipeline-model-parallel-layout \"E");
    for (int64_t s = 0; s < c->stages; s++) {
        if (c->layers_of[s] > 0)
            pdl_printf(out, "t*%lld", (long long)c->layers_of[s]);
        pdl_puts(out, s + 1 < c->stages ? "|" : "L\"\n");
    }
}

static void recompute_args(enum pdl_recompute r, struct pdl_sink *out)
{
    if (r == PDL_RECOMPUTE_SELECTIVE) {
        flag(out, "--recompute-granularity selective");
        flag(out, "--recompute-modules core_attn");
    } else if (r == PDL_RECOMPUTE_FULL) {
        flag(out, "--recompute-granularity full");
        flag(out, "--recompute-method uniform");
        flag(out, "--recompute-num-layers 1");
    }
}

static void zero_args(const struct pdl_strategy *s, struct pdl_sink *out)
{
    if (s->zero >= 2) {
        flag(out, "--use-megatron-fsdp");
        flag(out, s->zero == 2 ? "--data-parallel-sharding-strategy optim_grads"
                               : "--data-parallel-sharding-strategy "
                                 "optim_grads_params");
        flag(out, "--ckpt-format fsdp_dtensor");
    }
    flag_if(out, s->zero >= 1, "--use-distributed-optimizer");
    flag_if(out, !s->no_overlap, "--overlap-grad-reduce");
    flag_if(out, !s->no_overlap && s->zero >= 1, "--overlap-param-gather");
    if (s->offload_optimizer) {
        flag(out, "--optimizer-cpu-offload");
        flag(out, "--optimizer-offload-fraction 1.0");
        flag(out, "--use-precision-aware-optimizer");
    }
}

static void parallel_args(const struct report_launch *l, struct pdl_sink *out)
{
    const struct pdl_strategy *s = l->job->strategy;
    const struct report_cut *c = &l->cut;

    pdl_puts(out, "PARALLEL_ARGS=(\n");
    flag_int(out, "--tensor-model-parallel-size", c->tensor);
    flag_if(out, s->seq, "--sequence-parallel");
    flag_int(out, "--pipeline-model-parallel-size", c->pipe);
    if (c->stage_layers == 0)
        layout_args(c, out);
    flag_if_int(out, c->virtual_stages > 1 && c->stage_layers > 0,
                "--num-virtual-stages-per-pipeline-rank", c->virtual_stages);
    flag_int(out, "--context-parallel-size", c->context);
    if (c->context > 1)
        flag(out, s->context_kind == PDL_CONTEXT_A2A ? "--cp-comm-type a2a"
                  : s->context_kind == PDL_CONTEXT_GATHER
                      ? "--cp-comm-type allgather"
                      : "--cp-comm-type p2p");
    flag_if(out, c->pipe > 1 && c->data > 1 && !default_order(s),
            "--use-tp-pp-dp-mapping");
    flag_if(out, l->job->async_tensor && c->tensor > 1, "--tp-comm-overlap");
    recompute_args(s->recompute, out);
    zero_args(s, out);
    pdl_puts(out, ")\n");
}

static void training_args(const struct report_launch *l, struct pdl_sink *out)
{
    enum pdl_precision p = l->job->precision;
    bool mixed = p == PDL_PREC_BF16 || p == PDL_PREC_FP8 || p == PDL_PREC_FP4;

    pdl_puts(out, "TRAINING_ARGS=(\n");
    flag_int(out, "--micro-batch-size", l->cut.micro_batch);
    flag_int(out, "--global-batch-size", l->job->batch);
    flag(out, "--train-iters 100 # EDIT");
    flag(out, "--lr 1.0e-4 # EDIT");
    flag_if(out, mixed, "--bf16");
    flag_if(out, p == PDL_PREC_FP16, "--fp16");
    flag_if(out, p == PDL_PREC_FP8, "--fp8-format hybrid");
    flag_if(out, l->job->micro_scaling && p == PDL_PREC_FP8,
            "--fp8-recipe mxfp8");
    flag_if(out, p == PDL_PREC_FP4, "--fp4-format e2m1");
    flag_if(out, l->job->gradient_bytes == 2 && mixed,
            "--grad-reduce-in-bf16 # as projected: --gradient-dtype");
    flag_if(out, l->job->gradient_bytes == 4 && p == PDL_PREC_FP16,
            "--accumulate-allreduce-grads-in-fp32");
    flag_if(out, l->job->sgd, "--optimizer sgd");
    flag(out, "--mock-data # EDIT: --data-path, and the tokenizer above");
    pdl_puts(out, ")\n");
}

static void launcher(const struct report_cut *c, struct pdl_sink *out)
{
    pdl_printf(out,
               "DISTRIBUTED_ARGS=(\n"
               "    --nproc-per-node %lld\n"
               "    --nnodes %lld\n"
               "    --node-rank \"${NODE_RANK:-0}\"\n"
               "    --master-addr \"${MASTER_ADDR:-localhost}\"\n"
               "    --master-port \"${MASTER_PORT:-29500}\"\n"
               ")\n",
               (long long)c->pes_per_node, (long long)c->nodes);
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    struct report_launch l;
    enum pdl_status st = report_launch_make(job, NAME, &l, err);

    if (st == PDL_OK)
        st = check(&l, err);
    if (st != PDL_OK)
        return st;
    pdl_puts(out, "#!/bin/bash\n# Megatron-LM, made by ParaDL.\n");
    report_export_head(job, "# ", out);
    pdl_puts(out, "set -eu\n");
    if (l.cut.tensor > 1 && job->strategy->zero < 2)
        pdl_puts(out, "# asserted with tensor > 1 up to Hopper\n"
                      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
    if (job->precision == PDL_PREC_TF32)
        pdl_puts(out, "# products in TF32, which PyTorch leaves off\n"
                      "export TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1\n");
    pdl_puts(out, "MEGATRON=${MEGATRON:-.} # EDIT: a checkout\n\n");
    launcher(&l.cut, out);
    model_args(&l, out);
    latent_args(&l.gpt, out);
    expert_args(&l, out);
    parallel_args(&l, out);
    training_args(&l, out);
    pdl_printf(out,
               "torchrun \"${DISTRIBUTED_ARGS[@]}\" "
               "\"$MEGATRON/pretrain_gpt.py\" \\\n"
               "    \"${MODEL_ARGS[@]}\" %s\"${PARALLEL_ARGS[@]}\" "
               "\"${TRAINING_ARGS[@]}\" \"$@\"\n",
               l.gpt.experts > 0 ? "\"${MOE_ARGS[@]}\" " : "");
    return PDL_OK;
}

const struct pdl_exporter report_export_megatron = {
    .name = "megatron",
    .summary = "a bash script that starts Megatron-LM",
    .write = write,
    .suits = report_gpt_suits,
};
