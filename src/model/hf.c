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
 * model with its pooler, as their published totals are; with --dim head=1 they
 * have the head that fills in masked tokens instead, to be trained. Layers for
 * predicting several tokens (DeepSeek's MTP) are not part of it.
 *
 * A model_type that no row describes is built like Llama (with experts or
 * latent attention where the usual keys ask for them) when it has Llama's keys,
 * and "model_type:NAME" stands among the unknown operators; otherwise it is
 * refused. A tower for images beside the language model is built where a row
 * "<model_type>_vision" describes it (with one image a sample, of the size the
 * file or the row names); other towers are named there too: "vision_config",
 * "audio_config". */
#include "hf.h"

#include <stdio.h>
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
    const struct model_row *tower; /* of images, beside the language model */
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

/* One "name=N" of the dimensions: seq is the tokens of a sample; batch is
 * allowed and means nothing here. */
static enum pdl_status read_dim(struct reader *r, char *pair)
{
    static const char *const names[] = {"seq", "sequence", "sequence_length",
                                        "batch", "head"};
    struct pdl_err inner = {"", ""};
    char *value = strchr(pair, '=');
    int64_t n = 0;
    int i = 0;

    if (!value)
        return pdl_fail(r->f.err, PDL_EINVAL, "--dim: '%.40s' is not name=N",
                        pair);
    *value++ = '\0';
    while (i < 5 && strcmp(names[i], pair) != 0)
        i++;
    if (i == 5) {
        pdl_fail(r->f.err, PDL_EINVAL, "--dim: no dimension '%.40s'", pair);
        pdl_hint(r->f.err, "a config.json has seq, the tokens of a sample, and "
                           "head=1 for an encoder");
        return PDL_EINVAL;
    }
    if (pdl_int_parse(value, 1, MODEL_FIELD_MAX, &n, &inner) != PDL_OK)
        return pdl_fail(r->f.err, PDL_EINVAL, "--dim %s: %s", pair, inner.msg);
    if (i < 3)
        r->choice.seq = n;
    r->choice.head |= i == 4;
    return PDL_OK;
}

static enum pdl_status read_dims(struct reader *r, const char *dims)
{
    enum pdl_status st = PDL_OK;

    while (dims && *dims && st == PDL_OK) {
        size_t n = strcspn(dims, ",");
        char *pair = pdl_arena_strndup(r->arena, dims, n);

        st = pair ? read_dim(r, pair)
                  : pdl_fail(r->f.err, PDL_ENOMEM, "out of memory");
        dims += n + (dims[n] == ',');
    }
    return st;
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
    const struct pdl_doc *at = pdl_doc_get(r->f.map, "model_type");
    struct pdl_suggest s;

    if (!at)
        at = pdl_doc_get(r->f.outer, "model_type");
    for (size_t i = 0; i < sizeof canonical / sizeof canonical[0]; i++) {
        if (pdl_doc_get(r->f.map, canonical[i]))
            continue;
        pdl_suggest_init(&s, type);
        for (const struct model_row *m = model_hf_families + 1; m->name; m++)
            if (strcmp(m->name, "unknown") != 0)
                pdl_suggest_try(&s, m->name);
        pdl_doc_fail(at, r->f.err,
                     "model_type '%.60s' is not known, and without %s it "
                     "cannot be read like Llama",
                     type, canonical[i]);
        if (pdl_suggest_best(&s))
            pdl_hint(r->f.err, "did you mean '%s'?", pdl_suggest_best(&s));
        return PDL_EPARSE;
    }
    unknown(r, "model_type:", type);
    r->f.row = model_row_find(model_hf_families, "unknown");
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

/* The row "<model_type>_vision" where we know how images come in. */
static const struct model_row *tower_of(const struct reader *r)
{
    const struct pdl_doc *d = pdl_doc_get(r->f.outer, "vision_config");
    const char *arch = r->choice.architecture;
    char name[80];

    if (!d || d->kind != PDL_DOC_MAP || !r->type ||
        (arch && strstr(arch, "ForCausalLM"))) /* the language model alone */
        return NULL;
    snprintf(name, sizeof name, "%.60s_vision", r->type);
    return model_row_find(model_hf_families, name);
}

static enum pdl_status add_tower(struct reader *r)
{
    struct model_fields f = r->f;

    f.row = r->tower;
    f.map = pdl_doc_get(r->f.outer, "vision_config");
    f.nested = true;
    return model_tf_tower(&f, r->arena, &r->tf);
}

static void note_sides(struct reader *r)
{
    if (model_field(&r->f, "clip"))
        return;
    r->tower = tower_of(r);
    for (size_t i = 0; i < sizeof side_maps / sizeof side_maps[0]; i++)
        if (pdl_doc_get(r->f.outer, side_maps[i]) && !(r->tower && i == 0))
            unknown(r, side_maps[i], "");
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
    st = read_dims(&r, opt ? opt->dims : NULL);
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
    if (st == PDL_OK && r.tower && r.tf.nstacks == 1)
        st = add_tower(&r);
    if (st != PDL_OK)
        return st;
    model_hf_numbers(a, &r.f, r.type, &r.tf);
    if (r.f.status != PDL_OK)
        return r.f.status;
    r.tf.name = base_name(&r);
    r.tf.dtype = dtype_of(&r);
    r.tf.type = r.type;
    r.tf.source = pdl_arena_printf(
        a, "config.json of Hugging Face, %.60s",
        r.choice.architecture ? r.choice.architecture : r.type);
    if (!r.tf.name || !r.tf.source)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    return model_tf_build(a, &r.tf, out, err);
}
