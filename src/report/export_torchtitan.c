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
    bool text, yes; /* a word; a boolean */
    int64_t value;
    const char *word;
};

enum { MAX_FIELDS = 40 };

struct fields {
    struct field f[MAX_FIELDS];
    int n;
};

static void put_int(struct fields *t, const char *section, const char *name,
                    int64_t v)
{
    t->f[t->n++] = (struct field){.section = section, .name = name, .value = v};
}

static void put_bool(struct fields *t, const char *section, const char *name,
                     bool v)
{
    t->f[t->n++] = (struct field){
        .section = section, .name = name, .yes = true, .value = v};
}

static void put_word(struct fields *t, const char *section, const char *name,
                     const char *word)
{
    t->f[t->n++] = (struct field){
        .section = section, .name = name, .text = true, .word = word};
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

struct rule {
    bool broken;
    const char *what;
};

static enum pdl_status check(const struct report_launch *l, bool toml,
                             const char *format, struct pdl_err *err)
{
    const struct pdl_strategy *s = l->job->strategy;
    const struct report_cut *c = &l->cut;
    // clang-format off
    const struct rule rules[] = {
        {s->zero == 1 || s->zero == 2,
         "it shards weights too (zero=3) or nothing"},
        {c->pipe > 1 && !schedule_name(s),
         "it has no zb-h1 or zb-h2 schedule (--export pipeline-csv has)"},
        {s->context_kind == PDL_CONTEXT_A2A && c->context > 1,
         "its context parallelism is a ring"},
        {s->zero_group > 0 && c->data % s->zero_group != 0,
         "the sharding group must divide data"},
        {s->offload_activations, "it has no offload=activations"},
        {s->offload_optimizer,
         "its offload moves weights too, not offload=optimizer alone"},
        {s->seq && c->tensor == 1, "seq needs tensor > 1"},
        {toml && !s->seq && c->tensor > 1,
         "its tensor parallelism is tensor=N+seq"},
        {!toml && c->expert > 1 && c->tensor > 1,
         "it does not cut experts by tensor"},
        {l->gpt.tokens % (2 * c->context) != 0 && c->context > 1,
         "tokens must divide by 2 x context"},
        {s->recompute == PDL_RECOMPUTE_SELECTIVE,
         "its selective checkpointing is recompute=selective-op"},
        {s->no_overlap && c->data > 1, "it has no overlap=off"},
        {l->job->precision == PDL_PREC_FP16, "it has no fp16"},
        {l->job->sgd || l->job->dropout > 0 || l->job->unfused,
         "it has Adam, no dropout and flash attention"},
    };
    // clang-format on

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].broken)
            return pdl_fail(err, PDL_EINVAL, "%s: %s", format, rules[i].what);
    return PDL_OK;
}

/* Equal stages are counted, embedding and head taken as no layer; others are
 * named by write_parts, and where a rank has more than two, since how many
 * follows from the number of layers, which is the model's. */
static bool counted(const struct report_launch *l)
{
    return l->cut.pipe == 1 ||
           (l->cut.stage_layers > 0 && l->cut.virtual_stages <= 2);
}

static void stages(const struct report_launch *l, struct fields *t)
{
    if (l->cut.pipe == 1 || !counted(l))
        return;
    put_int(t, "parallelism", "pipeline_parallel_layers_per_stage",
            l->cut.stage_layers);
    put_int(t, "parallelism", "pipeline_parallel_first_stage_less_layers", 0);
    put_int(t, "parallelism", "pipeline_parallel_last_stage_less_layers", 0);
}

/* module_fqns_per_model_part: both syntaxes write lists alike. */
static void write_parts(const struct report_launch *l, const char *key,
                        const char *head, struct pdl_sink *out)
{
    int64_t layer = 0;

    if (counted(l))
        return;
    pdl_printf(out, "%s = [\n", key);
    for (int64_t s = 0; s < l->cut.stages; s++) {
        const char *comma = "";

        pdl_printf(out, "        [%s", s == 0 ? "\"tok_embeddings\"" : "");
        comma = s == 0 ? ", " : "";
        for (int64_t k = 0; k < l->cut.layers_of[s]; k++, comma = ", ")
            pdl_printf(out, "%s\"layers.%lld\"", comma, (long long)layer++);
        if (s == l->cut.stages - 1)
            pdl_printf(out, "%s\"norm\", \"%s\"", comma, head);
        pdl_puts(out, "],\n");
    }
    pdl_puts(out, "    ]\n");
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
    stages(l, t);
    put_int(t, "parallelism", "context_parallel_degree", l->cut.context);
    put_int(t, "parallelism", "expert_parallel_degree", l->cut.expert);
}

static const char *param_type(enum pdl_precision p)
{
    return p == PDL_PREC_BF16 || p == PDL_PREC_FP8 ? "bfloat16" : "float32";
}

/* ---- TOML, up to 0.2.2 ------------------------------------------------- */

static void fill_toml(const struct report_launch *l, struct fields *t)
{
    static const char *const modes[] = {
        [PDL_RECOMPUTE_NONE] = "none",
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
    if (l->cut.expert > 1 && l->cut.tensor > 1)
        put_int(t, "parallelism", "expert_tensor_parallel_degree",
                l->cut.tensor);
    if (l->cut.context > 1)
        put_word(
            t, "parallelism", "context_parallel_rotate_method",
            s->context_kind == PDL_CONTEXT_GATHER ? "allgather" : "alltoall");
    if (l->job->async_tensor)
        put_bool(t, "parallelism", "enable_async_tensor_parallel", true);
    if (l->cut.pipe > 1)
        put_int(t, "parallelism", "pipeline_parallel_microbatch_size",
                l->cut.micro_batch);
    put_word(t, "activation_checkpoint", "mode", modes[s->recompute]);
    if (s->recompute == PDL_RECOMPUTE_SELECTIVE_OP)
        put_word(t, "activation_checkpoint", "selective_ac_option", "op");
    if (l->job->compile)
        put_bool(t, "compile", "enable", true);
}

/* Networks that it ships under a name and a flavor; seq= changes neither. */
static void write_model(const struct report_launch *l, struct pdl_sink *out)
{
    static const char *const known[][3] = {
        {"llama-3-8b", "llama3", "8B"},
        {"llama3-8b", "llama3", "8B"},
        {"llama-3-70b", "llama3", "70B"},
        {"llama3-70b", "llama3", "70B"},
        {"llama3.1-405b", "llama3", "405B"},
        {"deepseek-v3", "deepseek_v3", "671B"},
        {"qwen3-8b", "qwen3", "8B"},
        {"qwen3-32b", "qwen3", "32B"},
    };
    const char *name = l->job->model->name;
    size_t n = strcspn(name, ":"), found = sizeof known / sizeof known[0];

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i][0]) == n && strncmp(known[i][0], name, n) == 0 &&
            (!name[n] ||
             (strncmp(name + n, ":seq=", 5) == 0 && !strchr(name + n, ','))))
            found = i;
    pdl_puts(out, "\n[model]\n");
    if (found < sizeof known / sizeof known[0])
        pdl_printf(out, "name = \"%s\"\nflavor = \"%s\"\n", known[found][1],
                   known[found][2]);
    else
        pdl_puts(out, "# EDIT: name and flavor of the model here\n");
    if (l->job->precision == PDL_PREC_FP8)
        pdl_puts(out, "converters = [\"float8\"]\n");
}

static void write_toml_field(const struct field *f, struct pdl_sink *out)
{
    if (f->yes)
        pdl_printf(out, "%s = %s\n", f->name, f->value ? "true" : "false");
    else if (f->text)
        pdl_printf(out, "%s = \"%s\"\n", f->name, f->word);
    else
        pdl_printf(out, "%s = %lld\n", f->name, (long long)f->value);
}

static enum pdl_status write_toml(const struct pdl_export_job *job,
                                  struct pdl_sink *out, struct pdl_err *err)
{
    struct report_launch l;
    struct fields t = {.n = 0};
    const char *section = "";
    enum pdl_status st = report_launch_make(job, "torchtitan-toml", &l, err);

    if (st == PDL_OK)
        st = check(&l, true, "torchtitan-toml", err);
    if (st != PDL_OK)
        return st;
    fill_toml(&l, &t);
    pdl_puts(out, "# torchtitan up to 0.2.2, made by ParaDL.\n");
    report_export_head(job, "# ", out);
    write_model(&l, out);
    for (int i = 0; i < t.n; i++) {
        if (strcmp(section, t.f[i].section) != 0) {
            pdl_printf(out, "\n[%s]\n", t.f[i].section);
            if (strcmp(t.f[i].section, "parallelism") == 0)
                write_parts(&l, "module_fqns_per_model_part", "output", out);
        }
        section = t.f[i].section;
        write_toml_field(&t.f[i], out);
    }
    return PDL_OK;
}

/* ---- a recipe, since 2026 ---------------------------------------------- */

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
    if (l->cut.tensor > 1)
        put_bool(t, "parallelism", "enable_sequence_parallel",
                 l->job->strategy->seq);
    if (l->job->compile)
        put_bool(t, "compile", "enable", true);
    if (l->job->async_tensor)
        put_bool(t, "compile", "enable_async_tensor_parallel", true);
}

static void write_recipe_field(const struct field *f, struct pdl_sink *out)
{
    pdl_printf(out, "    config.%s.%s = ", f->section, f->name);
    if (f->yes)
        pdl_puts(out, f->value ? "True\n" : "False\n");
    else if (f->text)
        pdl_printf(out, "\"%s\"\n", f->word);
    else
        pdl_printf(out, "%lld\n", (long long)f->value);
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
        st = check(&l, false, "torchtitan", err);
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
    if (job->precision == PDL_PREC_FP8)
        pdl_puts(out, "# EDIT: derive from a recipe with "
                      "Float8LinearConverter: the plan is fp8\n");
    pdl_puts(out, "\n\ndef paradl():\n    config = base()\n");
    for (int i = 0; i < t.n; i++)
        write_recipe_field(&t.f[i], out);
    write_parts(&l, "    config.parallelism.module_fqns_per_model_part",
                "lm_head", out);
    pdl_printf(out,
               "    config.activation_checkpoint = %s\n    return config\n",
               checkpointing(r));
    return PDL_OK;
}

const struct pdl_exporter report_export_torchtitan = {
    .name = "torchtitan",
    .summary = "a torchtitan recipe in Python (since 2026)",
    .write = write_recipe,
    .suits = report_gpt_suits,
};

const struct pdl_exporter report_export_torchtitan_toml = {
    .name = "torchtitan-toml",
    .summary = "a torchtitan TOML file (up to 0.2.2)",
    .write = write_toml,
    .suits = report_gpt_suits,
};
