/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch files in YAML: nanotron's, which says all of a job, and accelerate's,
 * which says how FSDP shards and leaves model and batch to the script. A table
 * a format: where a number or a flag stands, and where it goes. */
#include "import.h"

#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(struct report_setup, member)

enum kind { COUNT, YES, IS }; /* IS: yes where the word is the row's */

struct row {
    const char *section, *inner, *key; /* inner: a map in it; NULL */
    enum kind kind;
    size_t at;
    const char *word;
};

static const struct pdl_doc *in_map(const struct pdl_doc *d, const char *key)
{
    return d && d->kind == PDL_DOC_MAP ? pdl_doc_get(d, key) : NULL;
}

static enum pdl_status read_row(const struct pdl_doc *top, const struct row *r,
                                struct report_setup *s, struct pdl_err *err)
{
    const struct pdl_doc *d = r->section ? in_map(top, r->section) : top;
    char *to = (char *)s + r->at;
    const char *word = "";
    enum pdl_status st;

    if (r->inner)
        d = in_map(d, r->inner);
    d = in_map(d, r->key);
    if (!d || (d->kind == PDL_DOC_SCALAR && strcmp(d->text, "null") == 0))
        return PDL_OK;
    if (r->kind == COUNT)
        return pdl_doc_int(d, 0, (int64_t)1 << 40, (int64_t *)(void *)to, err);
    if (r->kind == YES)
        return pdl_doc_bool(d, (bool *)(void *)to, err);
    st = pdl_doc_str(d, &word, err);
    if (st == PDL_OK && strcmp(word, r->word) == 0)
        *(bool *)(void *)to = true;
    return st;
}

static enum pdl_status read_rows(const struct pdl_doc *top, const struct row *r,
                                 int n, struct report_setup *s,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (top->kind != PDL_DOC_MAP)
        return pdl_doc_fail(top, err, "expected a map");
    for (int i = 0; i < n && st == PDL_OK; i++)
        st = read_row(top, &r[i], s, err);
    return st;
}

/* ---- nanotron ---------------------------------------------------------- */

#define PAR "parallelism", NULL
#define NET "model", "model_config"
#define TOK "tokens", NULL
// clang-format off
static const struct row nanotron[] = {
    {PAR, "pp", COUNT, AT(pipe), NULL},
    {PAR, "tp", COUNT, AT(tensor), NULL},
    {PAR, "context_parallel_size", COUNT, AT(context), NULL},
    {PAR, "expert_parallel_size", COUNT, AT(expert), NULL},
    {PAR, "pp_engine", IS, AT(gpipe), "afab"},
    {PAR, "tp_mode", IS, AT(seq), "REDUCE_SCATTER"},
    {PAR, "recompute_layer", YES, AT(recompute_full), NULL},
    {NET, "num_hidden_layers", COUNT, AT(layers), NULL},
    {NET, "hidden_size", COUNT, AT(hidden), NULL},
    {NET, "intermediate_size", COUNT, AT(ffn), NULL},
    {NET, "num_attention_heads", COUNT, AT(heads), NULL},
    {NET, "num_key_value_heads", COUNT, AT(kv_heads), NULL},
    {NET, "vocab_size", COUNT, AT(padded_vocab), NULL},
    {"model", NULL, "dtype", IS, AT(bf16), "bfloat16"},
    {"optimizer", NULL, "zero_stage", COUNT, AT(zero), NULL},
    {TOK, "sequence_length", COUNT, AT(tokens), NULL},
    {TOK, "micro_batch_size", COUNT, AT(micro_batch), NULL},
    {TOK, "batch_accumulation_per_replica", COUNT, AT(accumulation), NULL},
};
// clang-format on

static enum pdl_status read_nanotron(pdl_arena *a, struct pdl_bytes in,
                                     const char *name, int64_t pes,
                                     struct pdl_launch *out,
                                     struct pdl_err *err)
{
    struct report_setup s = {
        .overlap = true, .rms = true, .rope = true, .swiglu = true};
    const struct pdl_doc *top = NULL, *net, *tied;
    enum pdl_status st = pdl_doc_yaml(a, in, name, &top, err);
    int64_t data = 1;
    bool is_tied = false;

    if (st == PDL_OK)
        st = read_rows(top, nanotron,
                       (int)(sizeof nanotron / sizeof nanotron[0]), &s, err);
    if (st != PDL_OK)
        return st;
    if (in_map(in_map(top, "parallelism"), "dp"))
        st = pdl_doc_int(in_map(in_map(top, "parallelism"), "dp"), 1,
                         (int64_t)1 << 40, &data, err);
    net = in_map(in_map(top, "model"), "model_config");
    tied = in_map(net, "tie_word_embeddings");
    if (st == PDL_OK && tied)
        st = pdl_doc_bool(tied, &is_tied, err);
    if (st != PDL_OK)
        return st;
    s.untied = !is_tied;
    s.world = pes;
    s.pipe = s.pipe < 1 ? 1 : s.pipe;
    s.tensor = s.tensor < 1 ? 1 : s.tensor;
    s.context = s.context < 1 ? 1 : s.context;
    if (s.world < 1 && (!pdl_mul64(data, s.pipe, &s.world) ||
                        !pdl_mul64(s.world, s.tensor, &s.world) ||
                        !pdl_mul64(s.world, s.context, &s.world)))
        return pdl_fail(err, PDL_EINVAL, "%s: too many PEs", name);
    s.gradient = "fp32";
    return report_setup_finish(a, &s, name, out, err);
}

const struct pdl_launch_reader report_import_nanotron = {
    .name = "nanotron",
    .summary = "a YAML file of Hugging Face's nanotron",
    .read = read_nanotron,
};

/* ---- accelerate -------------------------------------------------------- */

#define FSDP "fsdp_config", NULL
#define PC   "parallelism_config", NULL
// clang-format off
static const struct row accelerate[] = {
    {NULL, NULL, "num_processes", COUNT, AT(world), NULL},
    {NULL, NULL, "mixed_precision", IS, AT(bf16), "bf16"},
    {NULL, NULL, "mixed_precision", IS, AT(fp16), "fp16"},
    {NULL, NULL, "mixed_precision", IS, AT(fp8), "fp8"},
    {"dynamo_config", NULL, "dynamo_backend", IS, AT(compile), "INDUCTOR"},
    {FSDP, "fsdp_offload_params", YES, AT(offload_optimizer), NULL},
    {FSDP, "fsdp_activation_checkpointing", YES, AT(recompute_full), NULL},
    {PC, "parallelism_config_tp_size", COUNT, AT(tensor), NULL},
    {PC, "parallelism_config_cp_size", COUNT, AT(context), NULL},
    {PC, "parallelism_config_cp_comm_strategy", IS, AT(context_gather),
     "allgather"},
    {PC, "parallelism_config_dp_shard_size", COUNT, AT(zero_group), NULL},
};
// clang-format on

static enum pdl_status read_accelerate(pdl_arena *a, struct pdl_bytes in,
                                       const char *name, int64_t pes,
                                       struct pdl_launch *out,
                                       struct pdl_err *err)
{
    struct report_setup s = {.overlap = true};
    const struct pdl_doc *top = NULL, *type, *copies;
    enum pdl_status st = pdl_doc_yaml(a, in, name, &top, err);
    int64_t replicas = 1;

    if (st == PDL_OK)
        st =
            read_rows(top, accelerate,
                      (int)(sizeof accelerate / sizeof accelerate[0]), &s, err);
    if (st != PDL_OK)
        return st;
    type = in_map(top, "distributed_type");
    copies = in_map(in_map(top, "parallelism_config"),
                    "parallelism_config_dp_replicate_size");
    if (copies)
        st = pdl_doc_int(copies, 0, (int64_t)1 << 40, &replicas, err);
    if (st != PDL_OK)
        return st;
    if (type && type->kind == PDL_DOC_SCALAR && strcmp(type->text, "FSDP") == 0)
        s.zero = 3;
    s.tf32 = report_has(in, "matmul.allow_tf32 = True");
    if (s.zero != 3 || replicas < 2) /* one group of all is no group */
        s.zero_group = 0;
    if (pes > 0)
        s.world = pes;
    out->script_batch = true;
    report_note(out, "batch and accumulation are the script's: 1 sample a PE "
                     "is taken unless --batch says it");
    return report_setup_finish(a, &s, name, out, err);
}

const struct pdl_launch_reader report_import_accelerate = {
    .name = "accelerate",
    .summary = "a YAML file of Hugging Face accelerate (FSDP)",
    .read = read_accelerate,
};
