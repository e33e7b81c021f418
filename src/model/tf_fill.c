/* SPDX-License-Identifier: Apache-2.0
 *
 * From the fields of a configuration (family.h) to the description of a
 * transformer (transformer.h). What is asked for is always the same; the
 * families differ in their rows only.
 *
 * Layers of one model may differ. Each has a kind, a prefix of field names,
 * chosen by the lists and periods that configurations use:
 *   ""       attention, with a window where the family has one
 *   full_    attention without a window
 *   lin_     delta rule         conv_   short convolution
 *   mamba_   state space        cross_  attention to the other stack
 * and dense_ for layers whose feed-forward is not a mixture. full_heads, say,
 * stands for heads in such layers if the family has it. Equal neighbours
 * become one run. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RUNS = 4096 };

#define LAYER_FIELDS(X)                                                        \
    X(mixer)                                                                   \
    X(order)                                                                   \
    X(norm)                                                                    \
    X(heads)                                                                   \
    X(kv_heads)                                                                \
    X(head_dim)                                                                \
    X(v_head_dim)                                                              \
    X(window) X(causal) X(rope) X(q_bias) X(k_bias) X(v_bias) X(out_bias)      \
        X(qk_norm) X(qk_norm_kind) X(sinks) X(gate) X(v_is_k) X(shared_kv)     \
            X(sub_norm) X(q_lora) X(kv_lora) X(qk_nope) X(qk_rope)             \
                X(lora_bias) X(cross) X(inner) X(state) X(conv) X(dt_rank)     \
                    X(groups) X(in_bias) X(conv_bias) X(ssm_out) X(ssm_norms)  \
                        X(k_heads) X(ffn) X(gated) X(ffn_bias) X(ffn_norm)     \
                            X(experts) X(topk) X(moe_ffn) X(expert_bias)       \
                                X(router_bias) X(correction) X(shared_ffn)     \
                                    X(shared_gate) X(dense_too) X(layer_scale) \
                                        X(gates) X(per_layer)

#define STACK_FIELDS(X)                                                        \
    X(hidden)                                                                  \
    X(norm)                                                                    \
    X(vocab)                                                                   \
    X(embed_dim)                                                               \
    X(types)                                                                   \
    X(same_table)                                                              \
    X(positions)                                                               \
    X(embed_norm) X(project_last) X(shared_layers) X(rel_buckets) X(rel_heads) \
        X(rel_rows) X(rel_norm) X(image) X(channels) X(patch) X(patch_bias)    \
            X(class_tokens) X(pre_norm) X(mels) X(final_norm) X(pool)          \
                X(pooler) X(feature)

/* A stack being filled. */
struct fill {
    struct model_fields *f;
    pdl_arena *arena;
    const char *prefix; /* "", "dec_", "vis_" */
    struct model_tf_run *runs;
    int nruns, cap;
};

static int64_t get(struct fill *s, const char *kind, const char *field)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", kind, field);
    if (*kind && model_field_known(s->f, name))
        return model_field(s->f, name);
    return model_field_of(s->f, s->prefix, field);
}

/* ---- which kind a layer is -------------------------------------------- */

static const struct pdl_doc *entry(const struct model_fields *f,
                                   const char *key, int64_t i)
{
    const struct pdl_doc *d = model_field_doc(f, key, strlen(key));

    if (!d || d->kind != PDL_DOC_LIST)
        return NULL;
    for (d = d->child; d && i > 0; i--)
        d = d->next;
    return d;
}

static bool listed(const struct model_fields *f, const char *key, int64_t i)
{
    const struct pdl_doc *d = model_field_doc(f, key, strlen(key));
    int64_t v;

    if (!d || d->kind != PDL_DOC_LIST)
        return false;
    for (d = d->child; d; d = d->next)
        if (pdl_doc_int(d, 0, INT64_MAX, &v, NULL) == PDL_OK && v == i)
            return true;
    return false;
}

static bool has_list(const struct model_fields *f, const char *key)
{
    const struct pdl_doc *d = model_field_doc(f, key, strlen(key));

    return d && d->kind == PDL_DOC_LIST;
}

static const char *named_kind(struct model_fields *f, const struct pdl_doc *d)
{
    static const struct {
        const char *word, *kind;
    } words[] = {
        {"sliding_attention", ""}, {"chunked_attention", ""},
        {"attention", ""},         {"full_attention", "full_"},
        {"conv", "conv_"},         {"linear_attention", "lin_"},
        {"mamba", "mamba_"},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (d->kind == PDL_DOC_SCALAR && strcmp(d->text, words[i].word) == 0)
            return words[i].kind;
    if (f->status == PDL_OK)
        f->status = pdl_doc_fail(d, f->err, "unknown layer type '%.40s'",
                                 d->kind == PDL_DOC_SCALAR ? d->text : "");
    return "";
}

/* A period: the layers i with (i + shift) % every == 0. */
static bool due(int64_t i, int64_t shift, int64_t every)
{
    return every > 0 && (i + shift) % every == 0;
}

static const char *mixer_kind(struct fill *s, int64_t i)
{
    static const char *const lists[] = {"layer_types", "layers_block_type"};
    struct model_fields *f = s->f;

    if (listed(f, "cross_attention_layers", i))
        return "cross_";
    for (int k = 0; k < 2; k++) {
        if (!has_list(f, lists[k]))
            continue;
        if (!entry(f, lists[k], i)) {
            if (f->status == PDL_OK)
                f->status = pdl_doc_fail(
                    model_field_doc(f, lists[k], strlen(lists[k])), f->err,
                    "%s has fewer entries than there are layers", lists[k]);
            return "";
        }
        return named_kind(f, entry(f, lists[k], i));
    }
    if (has_list(f, "full_attn_idxs"))
        return listed(f, "full_attn_idxs", i) ? "" : "conv_";
    if (has_list(f, "attn_layer_indices"))
        return listed(f, "attn_layer_indices", i) ? "" : "mamba_";
    if (model_field(f, "attn_every"))
        return i % model_field(f, "attn_every") == model_field(f, "attn_offset")
                   ? ""
                   : "mamba_";
    if (model_field(f, "all_mamba")) /* unless a list says otherwise */
        return "mamba_";
    if (model_field(f, "lin_every"))
        return due(i, 1, model_field(f, "lin_every")) ? "full_" : "lin_";
    return due(i, 1, model_field(f, "window_every")) ? "full_" : "";
}

static bool mixture_here(struct fill *s, int64_t i)
{
    struct model_fields *f = s->f;
    const struct pdl_doc *d = entry(f, "mlp_layer_types", i);
    int64_t v = 0;

    if (d && d->kind == PDL_DOC_SCALAR)
        return strcmp(d->text, "dense") != 0;
    if (listed(f, "mlp_only_layers", i))
        return false;
    if (has_list(f, "moe_layers"))
        return listed(f, "moe_layers", i);
    d = entry(f, "moe_layer_freq", i);
    if (d)
        return pdl_doc_int(d, 0, 1, &v, NULL) == PDL_OK && v;
    if (has_list(f, "moe_layer_freq"))
        return false;
    return i >= model_field(f, "dense_first") &&
           due(i, model_field(f, "moe_shift"), model_field(f, "moe_freq"));
}

/* ---- one layer -------------------------------------------------------- */

/* LFM2: two thirds of the width, rounded up to a multiple. */
static int64_t adjusted(struct fill *s, int64_t ffn)
{
    int64_t m = model_field(s->f, "multiple");

    if (!model_field(s->f, "two_thirds") || m < 1)
        return ffn;
    ffn = 2 * ffn / 3;
    return (ffn + m - 1) / m * m;
}

/* Fields that mean nothing for such a layer are the same in all of them. */
static void settle(struct fill *s, const char *kind, bool mixture,
                   struct model_tf_layer *l)
{
    if (strcmp(kind, "full_") == 0 || strcmp(kind, "cross_") == 0)
        l->window = 0;
    if (!mixture)
        l->experts = 0;
    if (!l->experts)
        l->topk = l->moe_ffn = l->expert_bias = l->router_bias = l->correction =
            l->shared_ffn = l->shared_gate = l->dense_too = 0;
    else if (!l->dense_too)
        l->ffn = 0;
    l->ffn = adjusted(s, l->ffn);
    if (!l->dt_rank && l->mixer == TF_MAMBA)
        l->dt_rank = (get(s, "", "hidden") + 15) / 16;
}

static void fill_layer(struct fill *s, int64_t i, struct model_tf_layer *l)
{
    bool mixture = model_field(s->f, "experts") > 0 && mixture_here(s, i);
    const char *kind = mixer_kind(s, i);

    memset(l, 0, sizeof *l);
#define X(name) l->name = get(s, kind, #name);
    LAYER_FIELDS(X)
#undef X
    if (!mixture && model_field_known(s->f, "dense_ffn"))
        l->ffn = model_field(s->f, "dense_ffn");
    settle(s, kind, mixture, l);
    l->skip_norm = i == 0 && model_field(s->f, "first_plain");
}

static void refuse(struct fill *s, const char *field, const char *what)
{
    const struct pdl_doc *at = NULL;
    char name[64];
    const char *key;

    snprintf(name, sizeof name, "%s%s", s->prefix, field);
    if (model_field_known(s->f, name))
        field = name;
    key = model_field_key(s->f, field, &at);
    model_field_fail(s->f, field, "%s %s", key, what);
}

static void check_attention(struct fill *s, const struct model_tf_layer *l)
{
    const struct pdl_doc *at = NULL;

    if (l->heads < 1)
        refuse(s, "heads", "must be at least 1");
    else if (l->mixer != TF_MLA && l->mixer != TF_DELTA && l->kv_heads < 1)
        refuse(s, "kv_heads", "must be at least 1");
    else if (l->mixer == TF_ATTENTION && l->heads % l->kv_heads)
        model_field_fail(
            s->f, "kv_heads", "%s (%lld) is not divisible by %s (%lld)",
            model_field_key(s->f, "heads", &at), (long long)l->heads,
            model_field_key(s->f, "kv_heads", &at), (long long)l->kv_heads);
    else if (l->head_dim < 1 || l->v_head_dim < 1)
        refuse(s, "head_dim", "must be at least 1");
}

static void check_mixture(struct fill *s, const struct model_tf_layer *l)
{
    const struct pdl_doc *at = NULL;

    if (l->moe_ffn < 1)
        refuse(s, "moe_ffn", "must be at least 1");
    else if (l->topk < 1 || l->topk > l->experts)
        model_field_fail(
            s->f, "topk", "%s (%lld) is not between 1 and %s (%lld)",
            model_field_key(s->f, "topk", &at), (long long)l->topk,
            model_field_key(s->f, "experts", &at), (long long)l->experts);
}

/* Every number of a layer is small enough that products of two fit. */
static void check_sizes(struct fill *s, const struct model_tf_layer *l)
{
#define X(name)                          \
    if (l->name < 0)                     \
        refuse(s, #name, "is negative"); \
    else if (l->name > MODEL_FIELD_MAX)  \
        refuse(s, #name, "is too large");
    LAYER_FIELDS(X)
#undef X
}

static void check_layer(struct fill *s, const struct model_tf_layer *l)
{
    bool attends = l->mixer == TF_ATTENTION || l->mixer == TF_MLA ||
                   l->mixer == TF_CROSS || l->mixer == TF_DELTA;
    bool scans = l->mixer == TF_MAMBA || l->mixer == TF_MAMBA2;

    check_sizes(s, l);
    if (attends)
        check_attention(s, l);
    if (scans && (l->inner < 1 || l->state < 1 || l->conv < 1))
        refuse(s, "inner", "(or the state or kernel size) must be at least 1");
    if (l->mixer == TF_MLA && (l->kv_lora < 1 || l->qk_rope < 1))
        refuse(s, "kv_lora", "must be at least 1");
    if (l->experts)
        check_mixture(s, l);
    else if (l->ffn < 1 && attends)
        refuse(s, "ffn", "must be at least 1");
}

/* ---- one stack -------------------------------------------------------- */

static void append(struct fill *s, const struct model_tf_layer *l)
{
    struct model_tf_run *grown;

    if (s->nruns && memcmp(&s->runs[s->nruns - 1].layer, l, sizeof *l) == 0) {
        s->runs[s->nruns - 1].repeat++;
        return;
    }
    check_layer(s, l);
    if (s->nruns == MAX_RUNS)
        model_field_fail(s->f, "layers", "more than %d layers that differ",
                         MAX_RUNS);
    if (s->f->status != PDL_OK)
        return;
    if (s->nruns == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4;
        grown = pdl_arena_grow(s->arena, s->runs, (size_t)s->nruns,
                               (size_t)s->cap, sizeof *grown);
        if (!grown) {
            s->f->status = pdl_fail(s->f->err, PDL_ENOMEM, "out of memory");
            return;
        }
        s->runs = grown;
    }
    s->runs[s->nruns].layer = *l;
    s->runs[s->nruns++].repeat = 1;
}

/* Is every layer the same by construction? Then one look is enough. */
static bool uniform(const struct model_fields *f)
{
    static const char *const lists[] = {
        "layer_types",    "layers_block_type",      "mlp_only_layers",
        "moe_layers",     "cross_attention_layers", "moe_layer_freq",
        "full_attn_idxs", "attn_layer_indices",     "mlp_layer_types"};
    static const char *const fields[] = {
        "attn_every", "lin_every", "window_every", "dense_first",
        "moe_shift",  "moe_freq",  "first_plain"};
    static const int64_t usual[] = {0, 0, 0, 0, 0, 1, 0};
    struct model_fields copy = *f;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (has_list(f, lists[i]))
            return false;
    copy.err = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (model_field(&copy, fields[i]) != usual[i])
            return false;
    return true;
}

static void fill_runs(struct fill *s)
{
    int64_t layers = get(s, "", "layers");
    struct model_tf_layer l;

    if (s->f->status == PDL_OK && layers < 1)
        refuse(s, "layers", "must be at least 1");
    if (layers > MODEL_MAX_LAYERS)
        refuse(s, "layers", "is too large");
    for (int64_t i = 0; i < layers && s->f->status == PDL_OK; i++) {
        fill_layer(s, i, &l);
        if (s->f->status == PDL_OK)
            append(s, &l);
        if (i == 0 && s->f->status == PDL_OK && uniform(s->f)) {
            s->runs[0].repeat = layers;
            break;
        }
    }
}

/* The number of tokens: of an image its patches, of text what was asked for,
 * else what the positions allow, but no more than MODEL_SEQ_DEFAULT. */
static int64_t tokens_of(struct fill *s, const struct model_tf_choice *choice,
                         struct model_tf_stack *out)
{
    int64_t most = get(s, "", "max_pos") - get(s, "", "pos_lost"), side;

    if (out->mels)
        return out->positions;
    if (out->patch) {
        side = out->image / out->patch;
        if (out->image % out->patch)
            refuse(s, "image", "is not divisible by the patch size");
        return side * side + out->class_tokens;
    }
    if (choice->seq && out->positions && choice->seq > most)
        model_field_fail(s->f, "max_pos",
                         "a sequence of %lld is longer than the %lld positions "
                         "the model has learned",
                         (long long)choice->seq, (long long)most);
    if (choice->seq)
        return choice->seq;
    return most < MODEL_SEQ_DEFAULT ? most : MODEL_SEQ_DEFAULT;
}

static void check_stack(struct fill *s, const struct model_tf_stack *out)
{
    if (out->hidden < 1)
        refuse(s, "hidden", "must be at least 1");
    else if (!out->mels && !out->patch && out->vocab < 1)
        refuse(s, "vocab", "must be at least 1");
    else if (out->patch && (out->image < 1 || out->channels < 1))
        refuse(s, "image", "must be at least 1");
    else if (out->tokens < 1)
        refuse(s, "max_pos", "leaves no position for a token");
    else if (out->embed_dim < 1)
        refuse(s, "embed_dim", "must be at least 1");
#define X(name)                      \
    if (out->name > MODEL_FIELD_MAX) \
        refuse(s, #name, "is too large");
    STACK_FIELDS(X)
#undef X
}

static void fill_stack(struct model_fields *f, pdl_arena *a, const char *prefix,
                       const struct model_tf_choice *choice,
                       struct model_tf_stack *out)
{
    struct fill s = {.f = f, .arena = a, .prefix = prefix};

#define X(name) out->name = get(&s, "", #name);
    STACK_FIELDS(X)
#undef X
    if (f->status != PDL_OK)
        return;
    out->project = out->embed_dim != out->hidden;
    out->project_out = out->project && !out->project_last;
    out->tokens = tokens_of(&s, choice, out);
    if (out->patch && out->positions)
        out->positions = out->tokens;
    check_stack(&s, out);
    fill_runs(&s);
    out->runs = s.runs;
    out->nruns = s.nruns;
}

/* ---- the head the architecture's name asks for ------------------------ */

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static void classify(struct model_fields *f, const char *arch,
                     struct model_tf *tf)
{
    struct model_tf_stack *last = &tf->stack[tf->nstacks - 1];
    bool image = strstr(arch, "ForImageClassification") != NULL;
    bool pair = strstr(arch, "ForSequenceClassification") != NULL ||
                strstr(arch, "ForMultipleChoice") != NULL;
    bool token = strstr(arch, "ForTokenClassification") != NULL;
    bool answer = strstr(arch, "ForQuestionAnswering") != NULL;

    if (!image && !pair && !token && !answer)
        return;
    tf->head = 0;
    tf->classes = answer ? 2 : model_field(f, "labels");
    tf->class_bias = 1;
    if (model_field(f, "encoder")) {
        last->pooler = pair && (last->pooler || model_field(f, "cls_pooler"))
                           ? last->hidden
                           : 0;
        last->pool = pair;
    } else if (!image) {
        tf->class_bias = !pair;
    }
    if (tf->classes < 1)
        model_field_fail(f, "labels", "there must be at least one class");
}

static void fill_head(struct model_fields *f, const char *arch,
                      struct model_tf *tf)
{
    tf->head = model_field(f, "head");
    tf->tied = model_field(f, "tied");
    tf->head_bias = model_field(f, "head_bias");
    if (!arch)
        return;
    if (ends(arch, "Model") && !ends(arch, "HeadModel") &&
        !ends(arch, "HeadsModel") && !model_field(f, "always_head"))
        tf->head = 0;
    if (model_field(f, "vision") && ends(arch, "ViTModel"))
        tf->stack[0].pooler = tf->stack[0].hidden;
    classify(f, arch, tf);
}

enum pdl_status model_tf_fill(struct model_fields *f, pdl_arena *a,
                              const struct model_tf_choice *choice,
                              struct model_tf *tf)
{
    bool two = model_field(f, "encdec"), clip = model_field(f, "clip");
    const char *arch = choice->architecture;

    if (two && arch && ends(arch, "EncoderModel"))
        two = false;
    if (two && arch && ends(arch, "ForCausalLM"))
        tf->unknown[3] = "architecture:decoder only";
    tf->nstacks = two || clip ? 2 : 1;
    fill_stack(f, a, "", choice, &tf->stack[0]);
    if (tf->nstacks == 2)
        fill_stack(f, a, two ? "dec_" : "vis_", choice, &tf->stack[1]);
    tf->stack[0].prefix = two ? "encoder." : clip ? "text." : "";
    tf->stack[1].prefix = two ? "decoder." : "vision.";
    tf->tokens = tf->stack[two ? 1 : 0].tokens;
    if (model_field(f, "vision"))
        tf->tokens = 0;
    tf->logit_scale = clip;
    if (f->status == PDL_OK)
        fill_head(f, arch, tf);
    return f->status;
}
