/* SPDX-License-Identifier: Apache-2.0
 *
 * A DeepSpeed configuration (JSON, 0.19). The pipeline degree is not part of
 * that file (PipelineModule says it in code) and excludes ZeRO 2 and 3, so
 * plans with stages are refused rather than half expressed. */
#include "export.h"

static const char *const NAME = "deepspeed";

static enum pdl_status check(const struct pdl_strategy *s,
                             const struct report_cut *c, enum pdl_precision p,
                             struct pdl_err *err)
{
    if (c->pipe > 1) {
        pdl_fail(err, PDL_EINVAL,
                 "deepspeed: the pipeline degree is not in "
                 "its JSON");
        pdl_hint(err,
                 "PipelineModule(num_stages=%lld) in the training code; "
                 "'--export megatron' writes pipelines",
                 (long long)c->pipe);
        return PDL_EINVAL;
    }
    if (c->expert > 1 && c->tensor > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "deepspeed: expert_parallel excludes "
                        "tensor_parallel");
    if (c->context > 1 && s->context_kind != PDL_CONTEXT_A2A)
        return pdl_fail(err, PDL_EINVAL,
                        "deepspeed: its sequence parallelism "
                        "is all-to-all: context=%lld(a2a)",
                        (long long)c->context);
    if (s->offload_activations || s->recompute == PDL_RECOMPUTE_SELECTIVE ||
        s->recompute == PDL_RECOMPUTE_SELECTIVE_OP)
        return pdl_fail(err, PDL_EINVAL, "deepspeed: no counterpart of %s",
                        s->offload_activations ? "offload=activations"
                                               : "selective recomputation");
    if (s->seq && c->tensor > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "deepspeed: its tensor parallelism keeps all "
                        "positions: tensor=%lld without +seq",
                        (long long)c->tensor);
    if (p == PDL_PREC_FP8 || p == PDL_PREC_FP4)
        return pdl_fail(err, PDL_EINVAL, "deepspeed: its JSON has no %s",
                        pdl_precision_name(p));
    return PDL_OK;
}

static void zero(struct pdl_json *j, const struct pdl_strategy *s)
{
    pdl_json_key(j, "zero_optimization");
    pdl_json_object(j);
    pdl_json_kint(j, "stage", s->zero);
    pdl_json_kbool(j, "overlap_comm", !s->no_overlap);
    pdl_json_kbool(j, "contiguous_gradients", true);
    pdl_json_kbool(j, "reduce_scatter", true);
    if (s->bucket_bytes > 0)
        pdl_json_kint(j, "reduce_bucket_size", s->bucket_bytes / 2);
    if (s->zero == 3 && s->zero_group > 0)
        pdl_json_kint(j, "mics_shard_size", s->zero_group);
    if (s->offload_optimizer) {
        pdl_json_key(j, "offload_optimizer");
        pdl_json_row(j);
        pdl_json_kstr(j, "device", "cpu");
        pdl_json_kbool(j, "pin_memory", true);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void enabled(struct pdl_json *j, const char *key, bool yes)
{
    if (!yes)
        return;
    pdl_json_key(j, key);
    pdl_json_row(j);
    pdl_json_kbool(j, "enabled", true);
    pdl_json_end(j);
}

static void degree(struct pdl_json *j, const char *section, const char *key,
                   int64_t n)
{
    if (n == 1)
        return;
    pdl_json_key(j, section);
    pdl_json_row(j);
    pdl_json_kint(j, key, n);
    pdl_json_end(j);
}

/* Its own habit depends on optimizer and version: said. */
static void gradients(struct pdl_json *j, const struct pdl_export_job *job)
{
    bool half =
        job->precision == PDL_PREC_BF16 || job->precision == PDL_PREC_FP16;

    if (job->gradient_bytes == 0 || !half)
        return;
    pdl_json_key(j, "data_types");
    pdl_json_row(j);
    pdl_json_kstr(j, "grad_accum_dtype",
                  job->gradient_bytes > 2           ? "fp32"
                  : job->precision == PDL_PREC_BF16 ? "bf16"
                                                    : "fp16");
    pdl_json_end(j);
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    struct report_cut c;
    struct pdl_json j;
    enum pdl_status st = report_cut_make(job, NAME, &c, err);

    if (st == PDL_OK)
        st = check(job->strategy, &c, job->precision, err);
    if (st != PDL_OK)
        return st;
    pdl_json_init(&j, out);
    pdl_json_object(&j);
    pdl_json_kint(&j, "train_batch_size", job->batch);
    pdl_json_kint(&j, "train_micro_batch_size_per_gpu", c.micro_batch);
    pdl_json_kint(&j, "gradient_accumulation_steps", c.micro_count);
    enabled(&j, "bf16", job->precision == PDL_PREC_BF16);
    enabled(&j, "fp16", job->precision == PDL_PREC_FP16);
    gradients(&j, job);
    zero(&j, job->strategy);
    degree(&j, "tensor_parallel", "autotp_size", c.tensor);
    degree(&j, "expert_parallel", "autoep_size", c.expert);
    if (c.context > 1)
        pdl_json_kint(&j, "sequence_parallel_size", c.context);
    if (job->strategy->recompute != PDL_RECOMPUTE_NONE) {
        pdl_json_key(&j, "activation_checkpointing");
        pdl_json_row(&j);
        pdl_json_kbool(&j, "partition_activations", c.tensor > 1);
        pdl_json_end(&j);
    }
    pdl_json_kint(&j, "steps_per_print", 10);
    pdl_json_kbool(&j, "wall_clock_breakdown", false);
    pdl_json_end(&j);
    return PDL_OK;
}

const struct pdl_exporter report_export_deepspeed = {
    .name = "deepspeed",
    .summary = "a DeepSpeed JSON configuration",
    .write = write,
};
