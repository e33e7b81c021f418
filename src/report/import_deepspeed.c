/* SPDX-License-Identifier: Apache-2.0
 *
 * A DeepSpeed configuration. It says nothing of the model, of the number of
 * PEs or of pipeline stages: the first two are asked for, the third is 1.
 * "auto" (from Hugging Face's Trainer) reads as not said. */
#include "import.h"

#include <string.h>

static enum pdl_status get_int(const struct pdl_doc *map, const char *key,
                               int64_t *out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);
    const char *word;

    if (!d ||
        (pdl_doc_str(d, &word, NULL) == PDL_OK && strcmp(word, "auto") == 0))
        return PDL_OK;
    return pdl_doc_int(d, 0, (int64_t)1 << 40, out, err);
}

static enum pdl_status get_bool(const struct pdl_doc *map, const char *key,
                                bool *out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);
    const char *word;

    if (!d ||
        (pdl_doc_str(d, &word, NULL) == PDL_OK && strcmp(word, "auto") == 0))
        return PDL_OK;
    return pdl_doc_bool(d, out, err);
}

static enum pdl_status read_zero(const struct pdl_doc *top,
                                 struct report_setup *s, struct pdl_err *err)
{
    const struct pdl_doc *z = pdl_doc_get(top, "zero_optimization");
    const struct pdl_doc *offload =
        z ? pdl_doc_get(z, "offload_optimizer") : NULL;
    const struct pdl_doc *device =
        offload ? pdl_doc_get(offload, "device") : NULL;
    const char *word = "none";
    enum pdl_status st;

    s->overlap = true;
    if (!z)
        return PDL_OK;
    st = get_int(z, "stage", &s->zero, err);
    if (st == PDL_OK)
        st = get_int(z, "mics_shard_size", &s->zero_group, err);
    if (st == PDL_OK)
        st = get_bool(z, "overlap_comm", &s->overlap, err);
    if (st == PDL_OK && device)
        st = pdl_doc_str(device, &word, err);
    s->offload_optimizer = strcmp(word, "none") != 0;
    if (st == PDL_OK && s->zero > 3)
        return pdl_doc_fail(pdl_doc_get(z, "stage"), err, "stage is 0 to 3");
    return st;
}

static enum pdl_status read_section(const struct pdl_doc *top,
                                    const char *section, const char *key,
                                    int64_t *out, struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(top, section);

    return d ? get_int(d, key, out, err) : PDL_OK;
}

static enum pdl_status read_enabled(const struct pdl_doc *top,
                                    const char *section, bool *out,
                                    struct pdl_err *err)
{
    const struct pdl_doc *d = pdl_doc_get(top, section);

    return d ? get_bool(d, "enabled", out, err) : PDL_OK;
}

static enum pdl_status read_all(const struct pdl_doc *d, struct report_setup *s,
                                struct pdl_err *err)
{
    enum pdl_status st = get_int(d, "train_batch_size", &s->global_batch, err);

    if (st == PDL_OK)
        st = get_int(d, "train_micro_batch_size_per_gpu", &s->micro_batch, err);
    if (st == PDL_OK)
        st = get_int(d, "gradient_accumulation_steps", &s->accumulation, err);
    if (st == PDL_OK)
        st = get_int(d, "sequence_parallel_size", &s->context, err);
    if (st == PDL_OK)
        st = read_section(d, "tensor_parallel", "autotp_size", &s->tensor, err);
    if (st == PDL_OK)
        st = read_section(d, "expert_parallel", "autoep_size", &s->expert, err);
    if (st == PDL_OK)
        st = read_enabled(d, "bf16", &s->bf16, err);
    if (st == PDL_OK)
        st = read_enabled(d, "fp16", &s->fp16, err);
    return st == PDL_OK ? read_zero(d, s, err) : st;
}

/* DeepSpeed reads Hjson: comments after // and #, and between the two stars,
 * become blanks, so that places in messages stay right. */
static struct pdl_bytes plain(pdl_arena *a, struct pdl_bytes in)
{
    char *t = pdl_arena_strndup(a, in.data, in.len);
    size_t n = t ? strlen(t) : 0;
    bool quoted = false;

    if (n != in.len)
        return in; /* NUL bytes: the reader of JSON says so */
    for (size_t i = 0; i < n; i++) {
        bool line = t[i] == '#' || (t[i] == '/' && t[i + 1] == '/');
        bool block = t[i] == '/' && t[i + 1] == '*';

        if (quoted) {
            quoted = t[i] != '"';
            i += t[i] == '\\'; /* and what follows */
            continue;
        }
        quoted = t[i] == '"';
        while (line && i < n && t[i] != '\n')
            t[i++] = ' ';
        for (const char *end = block ? strstr(t + i + 2, "*/") : NULL;
             end && t + i < end + 2; i++)
            t[i] = t[i] == '\n' ? '\n' : ' ';
    }
    return (struct pdl_bytes){t, n};
}

/* "auto" is whatever the Trainer is told, which is hardly ever fp32. */
static bool is_auto(const struct pdl_doc *top, const char *section)
{
    const struct pdl_doc *d = pdl_doc_get(top, section);
    const struct pdl_doc *e = d ? pdl_doc_get(d, "enabled") : NULL;
    const char *word;

    return e && pdl_doc_str(e, &word, NULL) == PDL_OK &&
           strcmp(word, "auto") == 0;
}

/* What costs or saves and is not priced: said, not passed over. */
static const struct unpriced {
    const char *section, *key, *note;
} unpriced[] = {
    {"zero_optimization", "offload_param",
     "offload_param is left out: weights are taken to stay on the device"},
    {"zero_optimization", "zero_hpz_partition_size",
     "zero_hpz_partition_size is left out: weights are gathered over all "
     "ranks"},
    {"zero_optimization", "zero_quantized_weights",
     "zero_quantized_weights is left out: weights travel in full precision"},
    {"zero_optimization", "zero_quantized_gradients",
     "zero_quantized_gradients is left out: gradients travel in full "
     "precision"},
    {"activation_checkpointing", "cpu_checkpointing",
     "cpu_checkpointing is left out: offload=activations would say it"},
};

/* Said, and neither false nor 0, 1 nor {"device": "none"}. */
static bool is_on(const struct pdl_doc *d)
{
    const struct pdl_doc *device =
        d->kind == PDL_DOC_MAP ? pdl_doc_get(d, "device") : NULL;
    const char *word = "";
    bool yes = true;
    int64_t n = 2;

    if (device && pdl_doc_str(device, &word, NULL) == PDL_OK)
        return strcmp(word, "none") != 0;
    if (pdl_doc_int(d, 0, INT64_MAX, &n, NULL) == PDL_OK)
        return n > 1;
    return pdl_doc_bool(d, &yes, NULL) != PDL_OK || yes;
}

static void say_unpriced(const struct pdl_doc *top, struct pdl_launch *out)
{
    for (size_t i = 0; i < sizeof unpriced / sizeof unpriced[0]; i++) {
        const struct pdl_doc *s = pdl_doc_get(top, unpriced[i].section);
        const struct pdl_doc *d = s ? pdl_doc_get(s, unpriced[i].key) : NULL;

        if (d && is_on(d))
            report_note(out, unpriced[i].note);
    }
}

/* What gradients add up in, and the optimizer where the file makes it. */
static void read_words(const struct pdl_doc *top, struct report_setup *s)
{
    static const char *const types[][2] = {
        {"fp32", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}};
    const struct pdl_doc *t = pdl_doc_get(top, "data_types");
    const struct pdl_doc *g = t ? pdl_doc_get(t, "grad_accum_dtype") : NULL;
    const struct pdl_doc *o = pdl_doc_get(top, "optimizer");
    const struct pdl_doc *k = o ? pdl_doc_get(o, "type") : NULL;
    const char *word = "";

    if (g && pdl_doc_str(g, &word, NULL) == PDL_OK)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            if (strcmp(word, types[i][0]) == 0)
                s->gradient = types[i][1];
    if (k && pdl_doc_str(k, &word, NULL) == PDL_OK)
        s->sgd = strcmp(word, "SGD") == 0;
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct report_setup s = {.world = pes, .context_a2a = true};
    const struct pdl_doc *d;
    enum pdl_status st = pdl_doc_json(a, plain(a, in), name, &d, err);

    if (st == PDL_OK)
        st = read_all(d, &s, err);
    if (st != PDL_OK)
        return st;
    read_words(d, &s);
    say_unpriced(d, out);
    report_note(out, "DeepSpeed's file holds no pipeline stages: pipe=1");
    if (!s.bf16 && !s.fp16 && (is_auto(d, "bf16") || is_auto(d, "fp16"))) {
        s.bf16 = true;
        report_note(out, "the precision is \"auto\": bf16 is assumed");
    }
    if (s.global_batch == 0 && s.micro_batch == 0)
        report_note(out, "the file does not say the batch: one sample for each "
                         "PE is assumed; --batch says it");
    if (pdl_doc_get(d, "activation_checkpointing")) {
        s.recompute_full = true;
        report_note(out, "activation checkpointing is taken as every layer");
    }
    return report_setup_finish(a, &s, name, out, err);
}

const struct pdl_launch_reader report_import_deepspeed = {
    .name = "deepspeed",
    .summary = "a DeepSpeed JSON configuration",
    .read = read,
};
