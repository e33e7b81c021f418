/* SPDX-License-Identifier: Apache-2.0
 *
 * torchtitan, twice: up to 0.2.2 a job was a TOML file; since February 2026 it
 * is a Python function that returns a configuration. Both set the same fields,
 * from one table of sections. Its mesh rule is dp_shard*cp*tp = efsdp*ep, with
 * pipe and dp_replicate outside. */
#include "export.h"

#include <string.h>

struct field {
    const char *section, *name;
    bool text;
    int64_t value;
    const char *word;
};

enum { MAX_FIELDS = 32 };

struct fields {
    struct field f[MAX_FIELDS];
    int n;
};

static void put_int(struct fields *t, const char *section, const char *name,
                    int64_t v)
{
    t->f[t->n++] = (struct field){section, name, false, v, NULL};
}

static void put_word(struct fields *t, const char *section, const char *name,
                     const char *word)
{
    t->f[t->n++] = (struct field){section, name, true, 0, word};
}

static const char *schedule_name(const struct pdl_strategy *s)
{
    static const char *const names[] = {
        [PDL_SCHEDULE_1F1B] = "1F1B",
        [PDL_SCHEDULE_GPIPE] = "GPipe",
        [PDL_SCHEDULE_INTERLEAVED] = "Interleaved1F1B",
        [PDL_SCHEDULE_ZB_H1] = NULL,
        [PDL_SCHEDULE_ZB_H2] = NULL,
        [PDL_SCHEDULE_ZB_V] = "ZBVZeroBubble",
    };

    return names[s->schedule];
}

static enum pdl_status check(const struct report_launch *l, const char *format,
                             struct pdl_err *err)
{
    const struct pdl_strategy *s = l->job->strategy;
    const char *what = NULL;

    if (s->zero == 1 || s->zero == 2)
        what = "it shards weights too (zero=3) or nothing";
    else if (l->cut.pipe > 1 && !schedule_name(s))
        what = "it has no zb-h1 or zb-h2 schedule (--export "
               "pipeline-csv has)";
    else if (s->context_kind == PDL_CONTEXT_A2A && l->cut.context > 1)
        what = "its context parallelism is a ring";
    else if (s->zero_group > 0 && l->cut.data % s->zero_group != 0)
        what = "the sharding group must divide data";
    else if (s->offload_activations)
        what = "it has no offload=activations";
    else if (s->seq && l->cut.tensor == 1)
        what = "seq needs tensor > 1";
    else if (l->gpt.tokens % (2 * l->cut.context) != 0 && l->cut.context > 1)
        what = "tokens must divide by 2 x context";
    if (what)
        return pdl_fail(err, PDL_EINVAL, "%s: %s", format, what);
    return PDL_OK;
}

/* Replicas outside, shards inside: zero=3:8 shards within 8 ranks. */
static void degrees(const struct report_launch *l, struct fields *t)
{
    const struct pdl_strategy *s = l->job->strategy;
    int64_t shard =
        s->zero == 3 ? s->zero_group ? s->zero_group : l->cut.data : 1;

    put_int(t, "parallelism", "data_parallel_replicate_degree",
            l->cut.data / shard);
    put_int(t, "parallelism", "data_parallel_shard_degree", shard);
    put_int(t, "parallelism", "tensor_parallel_degree", l->cut.tensor);
    put_int(t, "parallelism", "pipeline_parallel_degree", l->cut.pipe);
    if (l->cut.pipe > 1)
        put_word(t, "parallelism", "pipeline_parallel_schedule",
                 schedule_name(s));
    if (l->cut.pipe > 1 && l->cut.stage_layers > 0)
        put_int(t, "parallelism", "pipeline_parallel_layers_per_stage",
                l->cut.stage_layers);
    put_int(t, "parallelism", "context_parallel_degree", l->cut.context);
    put_int(t, "parallelism", "expert_parallel_degree", l->cut.expert);
}

static const char *param_type(enum pdl_precision p)
{
    return p == PDL_PREC_FP16   ? "float16"
           : p == PDL_PREC_BF16 ? "bfloat16"
                                : "float32";
}

/* ---- TOML, up to 0.2.2 ------------------------------------------------------- */

static void fill_toml(const struct report_launch *l, struct fields *t)
{
    static const char *const modes[] = {
        [PDL_RECOMPUTE_NONE] = "none",
        [PDL_RECOMPUTE_SELECTIVE] = "selective",
        [PDL_RECOMPUTE_SELECTIVE_OP] = "selective",
        [PDL_RECOMPUTE_FULL] = "full",
    };
    const struct pdl_strategy *s = l->job->strategy;

    put_int(t, "training", "seq_len", l->gpt.tokens);
    /* of one data-parallel rank: all its micro-batches */
    put_int(t, "training", "local_batch_size",
            l->cut.micro_batch * (l->cut.pipe > 1 ? l->cut.micro_count : 1));
    put_int(t, "training", "global_batch_size", l->job->batch);
    put_int(t, "training", "steps", 100);
    put_word(t, "training", "mixed_precision_param",
             param_type(l->job->precision));
    put_word(t, "training", "mixed_precision_reduce", "float32");
    degrees(l, t);
    if (l->cut.pipe > 1)
        put_int(t, "parallelism", "pipeline_parallel_microbatch_size",
                l->cut.micro_batch);
    put_word(t, "activation_checkpoint", "mode", modes[s->recompute]);
    if (s->recompute == PDL_RECOMPUTE_SELECTIVE_OP)
        put_word(t, "activation_checkpoint", "selective_ac_option", "op");
}

static enum pdl_status write_toml(const struct pdl_export_job *job,
                                  struct pdl_sink *out, struct pdl_err *err)
{
    struct report_launch l;
    struct fields t = {.n = 0};
    const char *section = "";
    enum pdl_status st = report_launch_make(job, "torchtitan-toml", &l, err);

    if (st == PDL_OK)
        st = check(&l, "torchtitan-toml", err);
    if (st != PDL_OK)
        return st;
    fill_toml(&l, &t);
    pdl_puts(out, "# torchtitan up to 0.2.2, made by ParaDL.\n");
    report_export_head(job, "# ", out);
    pdl_puts(out, "\n[model]\n# EDIT: name and flavor of the model here\n");
    for (int i = 0; i < t.n; i++) {
        if (strcmp(section, t.f[i].section) != 0)
            pdl_printf(out, "\n[%s]\n", t.f[i].section);
        section = t.f[i].section;
        if (t.f[i].text)
            pdl_printf(out, "%s = \"%s\"\n", t.f[i].name, t.f[i].word);
        else
            pdl_printf(out, "%s = %lld\n", t.f[i].name,
                       (long long)t.f[i].value);
    }
    return PDL_OK;
}

/* ---- a recipe, since 2026 ------------------------------------------------------ */

static void fill_recipe(const struct report_launch *l, struct fields *t)
{
    int64_t here = l->cut.micro_batch * l->gpt.tokens;

    put_int(t, "training", "max_context_length", l->gpt.tokens);
    put_int(t, "training", "num_tokens_per_microbatch_per_dp_rank", here);
    put_int(t, "training", "num_tokens_per_train_step",
            l->job->batch * l->gpt.tokens);
    put_int(t, "training", "steps", 100);
    put_word(t, "training", "mixed_precision_param",
             param_type(l->job->precision));
    put_word(t, "training", "mixed_precision_reduce", "float32");
    degrees(l, t);
    if (l->cut.pipe > 1)
        put_int(t, "parallelism", "num_pp_microbatches", l->cut.micro_count);
}

static const char *checkpointing(enum pdl_recompute r)
{
    return r == PDL_RECOMPUTE_FULL   ? "FullAC.Config()"
           : r == PDL_RECOMPUTE_NONE ? "None"
                                     : "SelectiveAC.Config()";
}

static enum pdl_status write_recipe(const struct pdl_export_job *job,
                                    struct pdl_sink *out, struct pdl_err *err)
{
    struct report_launch l;
    struct fields t = {.n = 0};
    enum pdl_recompute r = job->strategy->recompute;
    enum pdl_status st = report_launch_make(job, "torchtitan", &l, err);

    if (st == PDL_OK)
        st = check(&l, "torchtitan", err);
    if (st != PDL_OK)
        return st;
    fill_recipe(&l, &t);
    pdl_puts(out, "# torchtitan recipe, made by ParaDL.\n");
    report_export_head(job, "# ", out);
    pdl_puts(out, "# Derives from a recipe that torchtitan ships.\n"
                  "from my_recipes import base # EDIT: the shipped recipe of "
                  "this model\n");
    if (r != PDL_RECOMPUTE_NONE)
        pdl_printf(out,
                   "from torchtitan.distributed.activation_checkpoint import "
                   "%s # EDIT where your version keeps it\n",
                   r == PDL_RECOMPUTE_FULL ? "FullAC" : "SelectiveAC");
    pdl_puts(out, "\n\ndef paradl():\n    config = base()\n");
    for (int i = 0; i < t.n; i++)
        if (t.f[i].text)
            pdl_printf(out, "    config.%s.%s = \"%s\"\n", t.f[i].section,
                       t.f[i].name, t.f[i].word);
        else
            pdl_printf(out, "    config.%s.%s = %lld\n", t.f[i].section,
                       t.f[i].name, (long long)t.f[i].value);
    pdl_printf(out,
               "    config.activation_checkpoint = %s\n    return config\n",
               checkpointing(r));
    return PDL_OK;
}

const struct pdl_exporter report_export_torchtitan = {
    .name = "torchtitan",
    .summary = "a torchtitan recipe in Python (since 2026)",
    .write = write_recipe,
};

const struct pdl_exporter report_export_torchtitan_toml = {
    .name = "torchtitan-toml",
    .summary = "a torchtitan TOML file (up to 0.2.2)",
    .write = write_toml,
};
