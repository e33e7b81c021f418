/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the config.json of a Hugging Face model: the sizes of a network whose
 * structure its model_type names. hf_families.c knows the structures; here
 * the file is opened, the part that describes the language model is found
 * (multimodal files nest it), and what cannot be built is written down.
 *
 * What is counted: the parameters of the architecture the file names: the
 * language model with its head (a tied one once), a classifier with its
 * labels. Encoders named ForMaskedLM or ForPreTraining are counted as the bare
 * model with its pooler, as their published totals are. Layers for predicting
 * several tokens (DeepSeek's MTP) are not part of it.
 *
 * A model_type that no row describes is built like Llama when it has Llama's
 * keys, and "model_type:NAME" stands among the unknown operators; otherwise
 * it is refused. Towers for images or sound that stand beside the language
 * model are named there too: "vision_config". */
#include "hf.h"

#include <string.h>

/* Where multimodal files keep the language model. */
static const char *const text_maps[] = {"text_config", "llm_config",
                                        "language_config", "thinker_config"};
static const char *const side_maps[] = {"vision_config", "audio_config",
                                        "speech_config", "vision_encoder"};

struct reader {
    pdl_arena *arena;
    const char *name;
    struct model_fields f;
    struct model_tf tf;
    struct model_tf_choice choice;
    const char *type;
    int nunknown;
};

static const char *text_of(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d && d->kind == PDL_DOC_SCALAR ? d->text : NULL;
}

static void unknown(struct reader *r, const char *what, const char *more)
{
    if (r->nunknown < 4)
        r->tf.unknown[r->nunknown++] =
            pdl_arena_printf(r->arena, "%s%.60s", what, more);
}

/* seq=N of "batch=8,seq=2048". */
static enum pdl_status read_seq(struct reader *r, const char *dims)
{
    static const char *const names[] = {"seq", "sequence", "sequence_length"};

    while (dims && *dims) {
        size_t n = strcspn(dims, ",");
        const char *eq = memchr(dims, '=', n);
        size_t len = eq ? (size_t)(eq - dims) : 0;

        for (int i = 0; eq && i < 3; i++) {
            struct pdl_err inner = {"", ""};
            char *text;

            if (strlen(names[i]) != len || memcmp(names[i], dims, len) != 0)
                continue;
            text = pdl_arena_strndup(r->arena, eq + 1, n - len - 1);
            if (!text)
                return pdl_fail(r->f.err, PDL_ENOMEM, "out of memory");
            if (pdl_int_parse(text, 1, MODEL_FIELD_MAX, &r->choice.seq,
                              &inner) != PDL_OK)
                return pdl_fail(r->f.err, PDL_EINVAL, "--dim %s: %s", names[i],
                                inner.msg);
        }
        dims += n + (dims[n] == ',');
    }
    return PDL_OK;
}

/* The map that describes the network: nested, or the whole file. */
static void find_map(struct reader *r, const struct pdl_doc *root)
{
    r->f.map = r->f.outer = root;
    for (size_t i = 0; i < sizeof text_maps / sizeof text_maps[0]; i++) {
        const struct pdl_doc *d = pdl_doc_get(root, text_maps[i]);

        if (!d || d->kind != PDL_DOC_MAP)
            continue;
        r->f.map = d;
        r->f.nested = true;
        if (pdl_doc_get(d, "text_config")) /* once more: Qwen-Omni */
            r->f.map = pdl_doc_get(d, "text_config");
        return;
    }
}

static enum pdl_status no_row(struct reader *r, const char *type)
{
    static const char *const canonical[] = {"hidden_size", "num_hidden_layers",
                                            "num_attention_heads",
                                            "intermediate_size", "vocab_size"};
    struct pdl_suggest s;

    for (size_t i = 0; i < sizeof canonical / sizeof canonical[0]; i++) {
        if (pdl_doc_get(r->f.map, canonical[i]))
            continue;
        pdl_suggest_init(&s, type);
        for (const struct model_row *m = model_hf_families + 1; m->name; m++)
            pdl_suggest_try(&s, m->name);
        pdl_doc_fail(pdl_doc_get(r->f.map, "model_type"), r->f.err,
                     "model_type '%.60s' is not known, and without %s it "
                     "cannot be read like Llama",
                     type, canonical[i]);
        if (pdl_suggest_best(&s))
            pdl_hint(r->f.err, "did you mean '%s'?", pdl_suggest_best(&s));
        return PDL_EPARSE;
    }
    unknown(r, "model_type:", type);
    r->f.row = model_row_find(model_hf_families, "llama");
    return PDL_OK;
}

/* The row of a combination that is not its text part's: CLIP. */
static bool whole(const char *type)
{
    return type && strcmp(type, "clip") == 0;
}

static enum pdl_status find_row(struct reader *r)
{
    const struct pdl_doc *inner = pdl_doc_get(r->f.map, "model_type");
    const struct pdl_doc *outer = pdl_doc_get(r->f.outer, "model_type");
    const char *type = text_of(r->f.map, "model_type");
    const char *top = text_of(r->f.outer, "model_type");

    if ((inner && inner->kind != PDL_DOC_SCALAR) ||
        (outer && outer->kind != PDL_DOC_SCALAR))
        return pdl_doc_fail(
            inner && inner->kind != PDL_DOC_SCALAR ? inner : outer, r->f.err,
            "model_type: expected text");
    if (whole(top))
        type = top;
    r->type = top ? top : type;
    if (type)
        r->f.row = model_row_find(model_hf_families, type);
    if (!r->f.row && top)
        r->f.row = model_row_find(model_hf_families, top);
    if (r->f.row && r->f.row->name[0])
        return PDL_OK;
    if (!type && !top && pdl_doc_get(r->f.outer, "weight_map")) {
        pdl_doc_fail(pdl_doc_get(r->f.outer, "weight_map"), r->f.err,
                     "the index of a sharded checkpoint names tensors but not "
                     "their shapes");
        pdl_hint(r->f.err, "give the config.json beside it, or a shard");
        return PDL_EPARSE;
    }
    if (!type && !top) {
        pdl_doc_fail(r->f.map, r->f.err, "the key model_type is missing");
        pdl_hint(r->f.err, "is this the config.json of a Hugging Face model?");
        return PDL_EPARSE;
    }
    return no_row(r, type ? type : top);
}

static enum pdl_dtype dtype_of(const struct reader *r)
{
    static const struct {
        const char *name;
        enum pdl_dtype dtype;
    } names[] = {{"float32", PDL_F32},
                 {"float16", PDL_F16},
                 {"bfloat16", PDL_BF16},
                 {"float64", PDL_F64}};
    const char *text = text_of(r->f.map, "torch_dtype");

    if (!text)
        text = text_of(r->f.map, "dtype");
    if (!text)
        text = text_of(r->f.outer, "torch_dtype");
    if (!text)
        text = text_of(r->f.outer, "dtype");
    for (size_t i = 0; text && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, text) == 0)
            return names[i].dtype;
    return PDL_F32;
}

static void note_sides(struct reader *r)
{
    if (model_field(&r->f, "clip"))
        return;
    for (size_t i = 0; i < sizeof side_maps / sizeof side_maps[0]; i++)
        if (pdl_doc_get(r->f.outer, side_maps[i]))
            unknown(r, side_maps[i], "");
    if (model_field(&r->f, "partial"))
        unknown(r, "model_type:", r->type);
    if (model_field(&r->f, "moe"))
        unknown(r, "enable_moe_block", "");
}

/* "architectures": ["LlamaForCausalLM"] */
static void find_architecture(struct reader *r)
{
    const struct pdl_doc *d = pdl_doc_get(r->f.outer, "architectures");

    if (d && d->kind == PDL_DOC_LIST && d->child &&
        d->child->kind == PDL_DOC_SCALAR)
        r->choice.architecture = d->child->text;
}

static const char *base_name(const struct reader *r)
{
    const char *slash = strrchr(r->name, '/');
    const char *base = slash ? slash + 1 : r->name, *dot = strrchr(base, '.');
    const char *full = text_of(r->f.outer, "_name_or_path");

    if (strcmp(base, "config.json") == 0 && full && *full)
        return full;
    return pdl_arena_strndup(r->arena, base,
                             dot ? (size_t)(dot - base) : strlen(base));
}

enum pdl_status pdl_model_hf(pdl_arena *a, struct pdl_bytes in,
                             const char *name,
                             const struct pdl_model_options *opt,
                             const struct pdl_model **out, struct pdl_err *err)
{
    struct reader r = {.arena = a, .name = name};
    const struct pdl_doc *root = NULL;
    enum pdl_status st = pdl_doc_json(a, in, name, &root, err);

    if (st != PDL_OK)
        return st;
    if (root->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, err, "expected an object { }");
    r.f = (struct model_fields){.rows = model_hf_families, .err = err};
    st = read_seq(&r, opt ? opt->dims : NULL);
    if (st != PDL_OK)
        return st;
    find_map(&r, root);
    st = find_row(&r);
    if (st != PDL_OK)
        return st;
    find_architecture(&r);
    note_sides(&r);
    st = r.f.status == PDL_OK ? model_tf_fill(&r.f, a, &r.choice, &r.tf)
                              : r.f.status;
    if (st != PDL_OK)
        return st;
    r.tf.name = base_name(&r);
    r.tf.dtype = dtype_of(&r);
    r.tf.source = pdl_arena_printf(
        a, "config.json of Hugging Face, %.60s",
        r.choice.architecture ? r.choice.architecture : r.type);
    if (!r.tf.name || !r.tf.source)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    return model_tf_build(a, &r.tf, out, err);
}
