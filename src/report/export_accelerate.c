/* SPDX-License-Identifier: Apache-2.0
 *
 * Hugging Face accelerate: a YAML file for `accelerate launch`, FSDP2 with its
 * parallelism_config. It has no pipelines, and replicas need shards: a plan
 * of plain data parallelism is MULTI_GPU. */
#include "export.h"

static const char *const NAME = "accelerate";

static enum pdl_status check(const struct pdl_strategy *s,
                             const struct report_cut *c, struct pdl_err *err)
{
    const char *what = NULL;

    if (c->pipe > 1)
        what = "it has no pipelines";
    else if (c->expert > 1)
        what = "it has no expert parallelism";
    else if (s->zero == 1 || s->zero == 2)
        what = "its FSDP shards weights too (zero=3) or nothing";
    else if (s->zero == 0 && (c->tensor > 1 || c->context > 1))
        what = "tensor and context need zero=3 there (dp_shard > 1)";
    else if (s->zero_group > 0 && c->data % s->zero_group != 0)
        what = "the sharding group must divide data";
    else if (s->offload_activations)
        what = "it has no offload=activations";
    else if (c->context > 1 && s->context_kind == PDL_CONTEXT_A2A)
        what = "its context parallelism is a ring";
    else if (s->seq && c->tensor > 1)
        what = "its tensor parallelism keeps all positions (no +seq)";
    else if (s->recompute == PDL_RECOMPUTE_SELECTIVE ||
             s->recompute == PDL_RECOMPUTE_SELECTIVE_OP)
        what = "it recomputes all of a layer or nothing";
    else if (s->no_overlap && c->data > 1)
        what = "it has no overlap=off";
    else if (s->offload_optimizer && s->zero != 3)
        what = "offload=optimizer needs zero=3 there";
    if (what)
        return pdl_fail(err, PDL_EINVAL, "accelerate: %s", what);
    return PDL_OK;
}

static const char *precision(enum pdl_precision p)
{
    return p == PDL_PREC_BF16   ? "bf16"
           : p == PDL_PREC_FP16 ? "fp16"
           : p == PDL_PREC_FP8  ? "fp8"
                                : "no";
}

static void sharding(const struct pdl_strategy *s, const struct report_cut *c,
                     struct pdl_sink *out)
{
    int64_t shard = s->zero_group ? s->zero_group : c->data;

    if (s->offload_optimizer)
        pdl_puts(out, "# fsdp_offload_params keeps the weights on the host "
                      "too; projected: the optimizer alone\n");
    pdl_printf(out,
               "fsdp_config:\n"
               "  fsdp_version: 2\n"
               "  fsdp_reshard_after_forward: true\n"
               "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
               "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
               "  fsdp_cpu_ram_efficient_loading: true\n"
               "  fsdp_offload_params: %s\n"
               "  fsdp_activation_checkpointing: %s\n",
               s->offload_optimizer ? "true" : "false",
               s->recompute == PDL_RECOMPUTE_NONE ? "false" : "true");
    pdl_printf(out,
               "parallelism_config:\n"
               "  parallelism_config_dp_replicate_size: %lld\n"
               "  parallelism_config_dp_shard_size: %lld\n"
               "  parallelism_config_tp_size: %lld\n"
               "  parallelism_config_cp_size: %lld\n",
               (long long)(c->data / shard), (long long)shard,
               (long long)c->tensor, (long long)c->context);
    if (c->context > 1)
        pdl_printf(
            out, "  parallelism_config_cp_comm_strategy: %s\n",
            s->context_kind == PDL_CONTEXT_GATHER ? "allgather" : "alltoall");
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    struct report_cut c;
    enum pdl_status st = report_cut_make(job, NAME, &c, err);

    if (st == PDL_OK)
        st = check(job->strategy, &c, err);
    if (st != PDL_OK)
        return st;
    pdl_puts(out, "# accelerate launch --config_file THIS, made by ParaDL.\n");
    report_export_head(job, "# ", out);
    pdl_printf(out,
               "# in the script: batch of a PE %lld, "
               "gradient_accumulation_steps %lld\n",
               (long long)c.micro_batch, (long long)c.micro_count);
    pdl_printf(out,
               "compute_environment: LOCAL_MACHINE\n"
               "distributed_type: %s\n"
               "mixed_precision: '%s'\n"
               "num_machines: %lld\n"
               "num_processes: %lld\n"
               "machine_rank: 0 # EDIT on every node\n"
               "main_process_ip: localhost # EDIT\n"
               "main_process_port: 29500\n"
               "rdzv_backend: c10d\n",
               job->strategy->zero == 3 ? "FSDP" : "MULTI_GPU",
               precision(job->precision), (long long)c.nodes, (long long)c.pes);
    if (job->compile)
        pdl_puts(out, "dynamo_config:\n  dynamo_backend: INDUCTOR\n");
    if (job->precision == PDL_PREC_FP8)
        pdl_puts(out, "fp8_config:\n  backend: TE\n");
    if (job->precision == PDL_PREC_TF32)
        pdl_puts(out, "# TF32 is the script's: "
                      "torch.backends.cuda.matmul.allow_tf32 = True\n");
    if (job->strategy->zero == 3)
        sharding(job->strategy, &c, out);
    return PDL_OK;
}

const struct pdl_exporter report_export_accelerate = {
    .name = "accelerate",
    .summary = "a YAML file for Hugging Face accelerate",
    .write = write,
};
