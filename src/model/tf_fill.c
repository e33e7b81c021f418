/* SPDX-License-Identifier: Apache-2.0
 *
 * From the fields of a configuration (family.h) to the description of a
 * transformer (transformer.h). What is asked for is always the same; the
 * families differ in their rows only.
 *
 * Layers of one model may differ; their kinds are in tf_kind.c. Equal
 * neighbours become one run. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define LAYER_FIELDS(X)                                                       \
    X(mixer) X(order) X(norm) X(heads) X(kv_heads) X(head_dim) X(v_head_dim)  \
    X(window) X(causal) X(rope) X(q_bias) X(k_bias) X(v_bias) X(out_bias)     \
    X(qk_norm) X(qk_norm_kind) X(sinks) X(gate) X(v_is_k) X(shared_kv)        \
    X(sub_norm) X(q_lora) X(kv_lora) X(qk_nope) X(qk_rope) X(lora_bias)       \
    X(cross) X(inner) X(state) X(conv) X(dt_rank) X(groups) X(in_bias)        \
    X(conv_bias) X(ssm_out) X(ssm_norms) X(k_heads) X(ffn) X(gated)           \
    X(ffn_bias) X(ffn_norm) X(experts) X(topk) X(moe_ffn) X(expert_bias)      \
    X(router_bias) X(correction) X(shared_ffn) X(shared_gate) X(dense_too)    \
    X(layer_scale) X(gates) X(per_layer) X(beside) X(index_heads)             \
    X(index_dim) X(unscaled)

#define STACK_FIELDS(X)                                                       \
    X(hidden) X(norm) X(vocab) X(embed_dim) X(types) X(same_table)            \
    X(positions) X(embed_norm) X(project_last) X(shared_layers)               \
    X(rel_buckets) X(rel_heads) X(rel_rows) X(rel_norm) X(image) X(channels)  \
    X(patch) X(patch_bias) X(class_tokens) X(pre_norm) X(mels) X(final_norm)  \
    X(pool) X(pooler) X(feature) X(per_vocab) X(per_width)  \
    X(frames) X(merge) X(mean) X(adapter_norm) X(adapter_norm_kind)           \
    X(adapter_hidden) X(adapter_out) X(adapter_bias) X(adapter_in) X(tiles)    \
    X(aspects)
// clang-format on

/* What makes a layer different from others of its stack. */
struct kind {
    const char *mixer; /* model_tf_kind */
    bool mixture, first, shared;
};

enum { MAX_KINDS = 16 };

/* A stack being filled. */
struct fill {
    struct model_fields *f;
    pdl_arena *arena;
    const char *prefix; /* "", "dec_", "vis_" */
    int64_t layers, experts;
    struct kind kinds[MAX_KINDS];
    struct model_tf_layer known[MAX_KINDS];
    int nkinds;
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
            l->shared_ffn = l->shared_gate = l->dense_too = l->beside = 0;
    else if (!l->dense_too && !l->beside)
        l->ffn = 0;
    l->ffn = adjusted(s, l->ffn);
    if (!l->dt_rank && l->mixer == TF_MAMBA)
        l->dt_rank = (get(s, "", "hidden") + 15) / 16;
}

static void fill_kind(struct fill *s, const struct kind *k,
                      struct model_tf_layer *l)
{
    memset(l, 0, sizeof *l);
#define X(name) l->name = get(s, k->mixer, #name);
    LAYER_FIELDS(X)
#undef X
    if (!k->mixture && model_field_known(s->f, "dense_ffn"))
        l->ffn = model_field(s->f, "dense_ffn");
    settle(s, k->mixer, k->mixture, l);
    l->skip_norm = k->first;
    l->shared_kv = k->shared;
    if (k->shared && model_field(s->f, "double_wide"))
        l->ffn *= 2;
}

/* Layers of a kind are alike, so that each kind is filled once. */
static void fill_layer(struct fill *s, int64_t i, struct model_tf_layer *l)
{
    struct kind k = {
        .mixer = model_tf_kind(s->f, s->layers, i),
        .mixture = s->experts && model_tf_mixture(s->f, i),
        .first = i == 0 && model_field(s->f, "first_plain"),
        .shared = i >= s->layers - model_field(s->f, "kv_shared"),
    };

    for (int n = 0; n < s->nkinds; n++)
        if (strcmp(s->kinds[n].mixer, k.mixer) == 0 &&
            s->kinds[n].mixture == k.mixture && s->kinds[n].first == k.first &&
            s->kinds[n].shared == k.shared) {
            *l = s->known[n];
            return;
        }
    fill_kind(s, &k, l);
    if (s->nkinds < MAX_KINDS) {
        s->kinds[s->nkinds] = k;
        s->known[s->nkinds++] = *l;
    }
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

static void fill_runs(struct fill *s)
{
    bool same = model_tf_uniform(s->f);
    struct model_tf_layer l;

    s->layers = get(s, "", "layers");
    s->experts = model_field(s->f, "experts");
    if (s->f->status == PDL_OK && s->layers < 1)
        refuse(s, "layers", "must be at least 1");
    if (s->layers > (same ? MODEL_MAX_LAYERS : MODEL_MAX_DIFFERENT))
        refuse(s, "layers", "is too large");
    for (int64_t i = 0; i < s->layers && s->f->status == PDL_OK; i++) {
        fill_layer(s, i, &l);
        if (s->f->status == PDL_OK)
            append(s, &l);
        if (same && s->f->status == PDL_OK) {
            s->runs[0].repeat = s->layers;
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
    if (!choice->seq && most <= MODEL_SEQ_DEFAULT)
        return most;
    /* rotary positions go on, but nobody trained them; ALiBi's do */
    if (!choice->seq || (choice->seq > most && get(s, "", "rope")))
        out->most_tokens = most;
    return choice->seq ? choice->seq : MODEL_SEQ_DEFAULT;
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
    if (out->patch && out->positions && out->positions < out->tokens)
        out->positions = out->tokens;
    check_stack(&s, out);
    fill_runs(&s);
    out->runs = s.runs;
    out->nruns = s.nruns;
}

enum pdl_status model_tf_tower(struct model_fields *f, pdl_arena *a,
                               struct model_tf *tf)
{
    struct model_tf_choice none = {.seq = 0};
    struct model_tf_stack tower = {.prefix = "vision."};
    int64_t square;

    fill_stack(f, a, "", &none, &tower);
    square = tower.merge * tower.merge;
    if (f->status == PDL_OK && square > 1 && tower.tokens % square)
        model_field_fail(f, "merge", "the patches are no whole squares");
    if (f->status != PDL_OK)
        return f->status;
    if (!tower.adapter_out)
        tower.adapter_out = tf->stack[0].hidden;
    if (model_field(f, "adapter_two"))
        tower.adapter_hidden = tower.adapter_out;
    tf->stack[1] = tf->stack[0];
    tf->stack[0] = tower;
    tf->stack[1].images = !model_field(f, "not_inserted");
    tf->nstacks = 2;
    return PDL_OK;
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
    tf->most_tokens = tf->stack[two ? 1 : 0].most_tokens;
    if (model_field(f, "vision"))
        tf->tokens = 0;
    tf->logit_scale = clip;
    if (f->status == PDL_OK)
        fill_head(f, arch, tf);
    if (f->status == PDL_OK && choice->head && model_field(f, "encoder")) {
        tf->head = tf->stack[0].vocab;
        tf->fills_in = tf->tied = tf->head_bias = 1;
        tf->stack[0].pool = tf->stack[0].pooler = 0;
        tf->classes = 0;
    }
    return f->status;
}
