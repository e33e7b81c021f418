/* SPDX-License-Identifier: Apache-2.0
 *
 * What a configuration says that changes results but no size: the epsilon of
 * norms, the function of feed-forward layers, the wavelengths of rotary
 * positions. A key that is absent means what the family's class has. What the
 * graph cannot express is named in tf->inexact: weights of such a model can be
 * loaded, but its results are not the published ones. */
#include "hf.h"

#include <math.h>
#include <string.h>

/* Defaults of the configuration classes of transformers, and what these classes
 * do that the graph does not. `rotated`: part of each head, 0 all of it. */
static const struct usual {
    const char *type, *act;
    double epsilon, rotated;
    const char *odd;
} usual[] = {
    {"bert", "gelu", 1e-12, 0, NULL},
    {"roberta", "gelu", 1e-12, 0, NULL},
    {"vit", "gelu", 1e-12, 0, NULL},
    {"deit", "gelu", 1e-12, 0, NULL},
    {"gpt2", "gelu_new", 1e-5, 0, NULL},
    {"gpt_bigcode", "gelu_pytorch_tanh", 1e-5, 0, NULL},
    {"gpt_neo", "gelu_new", 1e-5, 0, "scores that are not scaled"},
    {"t5", "relu", 1e-6, 0, NULL},
    {"opt", "relu", 1e-5, 0, NULL},
    {"llama", "silu", 1e-6, 0, NULL},
    {"mistral", "silu", 1e-6, 0, NULL},
    {"qwen2", "silu", 1e-6, 0, NULL},
    {"qwen3", "silu", 1e-6, 0, NULL},
    {"mixtral", "silu", 1e-5, 0, NULL},
    {"smollm3", "silu", 1e-6, 0, "layers without positions"},
    {"gemma", "gelu_pytorch_tanh", 1e-6, 0, "its scaling of embeddings"},
    {"gemma2", "gelu_pytorch_tanh", 1e-6, 0, "its scaling of embeddings"},
    {"gemma3_text", "gelu_pytorch_tanh", 1e-6, 0, "its scaling of embeddings"},
    {"gpt_neox", "gelu", 1e-5, .25, NULL},
    {"phi", "gelu_new", 1e-5, .5, NULL},
    {"phi3", "silu", 1e-5, 0, NULL},
    {"phimoe", "silu", 1e-5, 0, "its router (a sparse mixer)"},
    {"glm", "silu", 1.5625e-7, .5, NULL},
    {"glm4", "silu", 1.5625e-7, .5, NULL},
    {"glm4_moe", "silu", 1e-5, .5, NULL},
    {"chatglm", "silu", 1e-5, .5, NULL},
    {"minimax_m2", "silu", 1e-6, .5, NULL},
    {"stablelm", "silu", 1e-5, .25, NULL},
    {"nemotron", "relu2", 1e-5, .5, NULL},
    {"starcoder2", "gelu_pytorch_tanh", 1e-5, 0, NULL},
    {"falcon", "gelu", 1e-5, 0, NULL},
    {"bloom", "gelu_new", 1e-5, 0, NULL},
    {"mpt", "gelu", 1e-5, 0, NULL},
};

enum function { NONE, GELU, GELU_TANH, RELU, SILU };

static const struct {
    const char *name;
    enum function f;
} functions[] = {
    {"gelu", GELU},
    {"gelu_python", GELU},
    {"gelu_new", GELU_TANH},
    {"gelu_fast", GELU_TANH},
    {"gelu_pytorch_tanh", GELU_TANH},
    {"gelu_accurate", GELU_TANH},
    {"gated-gelu", GELU_TANH}, /* of T5 */
    {"relu", RELU},
    {"silu", SILU},
    {"swish", SILU},
};

static const struct pdl_doc *first_of(const struct model_fields *f,
                                      const char *const *keys)
{
    const struct pdl_doc *d = NULL;

    for (; *keys && !d; keys++)
        d = model_field_doc(f, *keys, strlen(*keys));
    return d && d->kind == PDL_DOC_SCALAR && strcmp(d->text, "null") != 0
               ? d
               : NULL;
}

/* One more thing that is computed otherwise. */
static void odd(pdl_arena *a, struct model_tf *tf, const char *what)
{
    if (tf->inexact)
        what = pdl_arena_printf(a, "%s, %s", tf->inexact, what);
    if (what)
        tf->inexact = what;
}

/* The number at a key, 0 when it is not there. */
static double number(struct model_fields *f, const char *const *keys)
{
    const struct pdl_doc *d = first_of(f, keys);
    double v = 0;

    if (!d || f->status != PDL_OK)
        return 0;
    f->status = pdl_doc_num(d, PDL_UNIT_NONE, 0, 1e12, &v, f->err);
    return v;
}

static enum function function_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].f;
    return NONE;
}

/* All layers of a network have one function. */
static void set_function(pdl_arena *a, struct model_tf *tf, enum function f)
{
    bool silu = false;

    tf->by_tanh = f == GELU_TANH;
    for (int s = 0; s < tf->nstacks; s++)
        for (int r = 0; r < tf->stack[s].nruns; r++) {
            struct model_tf_layer *l = &tf->stack[s].runs[r].layer;

            if (f == RELU)
                l->act = TF_RELU;
            else if (l->gated && f != SILU)
                l->act = TF_GELU;
            else if (!l->gated && f == SILU && l->ffn)
                silu = true;
        }
    if (silu)
        odd(a, tf, "a feed-forward layer of SiLU without gate");
}

static void read_function(pdl_arena *a, struct model_fields *f,
                          const struct usual *u, struct model_tf *tf)
{
    static const char *const keys[] = {
        "hidden_act", "hidden_activation", "activation_function",
        "activation", "feed_forward_proj", NULL};
    const struct pdl_doc *d = first_of(f, keys);
    const char *name = d ? d->text : u ? u->act : NULL;

    if (function_of(name) != NONE)
        set_function(a, tf, function_of(name));
    else if (name)
        odd(a, tf, "its activation function");
}

/* rope_scaling of older files, rope_parameters of newer ones. */
static void read_rope(pdl_arena *a, struct model_fields *f, struct model_tf *tf)
{
#define BOTH(key)                                         \
    {                                                     \
        "rope_scaling." key, "rope_parameters." key, NULL \
    }
    static const char *const theta[] = {
        "rope_theta", "rope_parameters.rope_theta", "rotary_emb_base", NULL};
    static const char *const kind[] = {"rope_scaling.rope_type",
                                       "rope_scaling.type",
                                       "rope_parameters.rope_type", NULL};
    static const char *const factor[] = BOTH("factor");
    static const char *const low[] = BOTH("low_freq_factor");
    static const char *const high[] = BOTH("high_freq_factor");
    static const char *const old[] = BOTH("original_max_position_embeddings");
#undef BOTH
    const struct pdl_doc *d = first_of(f, kind);
    bool llama3 = d && strcmp(d->text, "llama3") == 0;

    tf->rope.theta = number(f, theta);
    if (!d || strcmp(d->text, "default") == 0)
        return;
    if (!llama3 && strcmp(d->text, "linear") != 0) {
        odd(a, tf, "its scaling of rotary positions");
        return;
    }
    tf->rope.scale = number(f, factor);
    if (llama3) {
        tf->rope.alpha = number(f, low);
        tf->rope.beta = number(f, high);
        tf->rope.offset = number(f, old);
    }
}

/* Some rotate a part of each head only. Which
 * part does not matter, as queries and keys have the same: ours is the last. */
static void read_rotated(pdl_arena *a, struct model_fields *f,
                         const struct usual *u, struct model_tf *tf)
{
    static const char *const keys[] = {"rotary_pct", "partial_rotary_factor",
                                       "rope_parameters.partial_rotary_factor",
                                       NULL};
    const struct model_tf_layer *l = &tf->stack[0].runs[0].layer;
    bool said = first_of(f, keys) != NULL;
    double part = number(f, keys);

    if (!said && u)
        part = u->rotated;
    if (!(part > 0 && part < 1) || l->head_dim < 2 || l->mixer != TF_ATTENTION)
        return;
    tf->rope.features = (int64_t)(part * (double)l->head_dim);
    if (tf->rope.features < 2 || tf->rope.features % 2) {
        tf->rope.features = 0;
        odd(a, tf, "its rotation of an odd part of each head");
    }
}

/* Attention subtracts what is proportional to distances (ALiBi). Falcon does so
 * before it divides scores by the root of a head's width, and in bfloat16,
 * which is not done here. */
static void read_alibi(pdl_arena *a, struct model_fields *f, const char *type,
                       struct model_tf *tf)
{
    static const char *const keys[] = {"alibi", "attn_config.alibi", NULL};
    static const char *const most[] = {"attn_config.alibi_bias_max", NULL};
    const struct pdl_doc *d = first_of(f, keys);
    const struct model_tf_layer *l = &tf->stack[0].runs[0].layer;

    if (!(type && strcmp(type, "bloom") == 0) &&
        !(d && strcmp(d->text, "true") == 0))
        return;
    tf->alibi = number(f, most);
    if (!(tf->alibi > 0))
        tf->alibi = 8;
    if (type &&
        (strcmp(type, "falcon") == 0 || strncmp(type, "RefinedWeb", 10) == 0)) {
        tf->alibi_factor = 1 / sqrt((double)l->head_dim);
        odd(a, tf, "its distances (ALiBi) rounded to bfloat16");
    }
}

static bool is_said(const struct model_fields *f, const char *key)
{
    const char *const keys[] = {key, NULL};
    const struct pdl_doc *d = first_of(f, keys);

    return d && strcmp(d->text, "false") != 0;
}

/* Is it said, and another number than most networks have, or a word? */
static bool is_unusual(struct model_fields *f, const char *key, double most)
{
    const char *const keys[] = {key, NULL};
    double v;

    if (!is_said(f, key))
        return false;
    return pdl_doc_num(first_of(f, keys), PDL_UNIT_NONE, -1e12, 1e12, &v,
                       NULL) != PDL_OK ||
           (v > 0 && v != most);
}

/* Numbers and lists that networks are published with and the graph has not. */
static void read_odd(pdl_arena *a, struct model_fields *f, struct model_tf *tf)
{
    static const struct {
        const char *key, *what;
        double usual;
    } odds[] = {
        {"embedding_multiplier", "its scaling of embeddings", 1},
        {"scale_emb", "its scaling of embeddings", 1},
        {"residual_multiplier", "its scaling of branches", 1},
        {"scale_depth", "its scaling of branches", 0},
        {"attention_multiplier", "its scaling of scores", 0},
        {"logits_scaling", "its scaling of logits", 1},
        {"logit_scale", "its scaling of logits", 1},
        {"attn_config.clip_qkv", "clipped queries, keys and values", 0},
        {"clip_qkv", "clipped queries, keys and values", 0},
        {"attn_logit_softcapping", "capped scores", 0},
        {"final_logit_softcapping", "capped logits", 0},
    };
    static const char local[] = "attention_types";
    const struct pdl_doc *d = model_field_doc(f, local, sizeof local - 1);

    for (size_t i = 0; i < sizeof odds / sizeof odds[0]; i++)
        if (is_unusual(f, odds[i].key, odds[i].usual))
            odd(a, tf, odds[i].what);
    /* [[["global", "local"], 12]] */
    if (d && d->kind == PDL_DOC_LIST && d->child && d->child->child &&
        d->child->child->count > 1)
        odd(a, tf, "layers that attend nearby");
}

/* Router of the experts: what launchers have flags for. */
static void read_router(struct model_fields *f, const char *type,
                        struct model_tf *tf)
{
    static const char *const first[] = {"deepseek_v2", "olmoe", "qwen2_moe",
                                        "qwen3_moe"};
    static const char *const adds_up[] = {"norm_topk_prob", NULL};
    static const char *const scale[] = {"routed_scaling_factor", NULL};
    static const char *const groups[] = {"n_group", NULL};
    static const char *const of[] = {"topk_group", NULL};
    static const char *const how[] = {"topk_method", NULL};
    const struct pdl_doc *d = first_of(f, adds_up), *greedy = first_of(f, how);

    for (size_t i = 0; i < sizeof first / sizeof first[0] && !d; i++)
        if (type && strcmp(first[i], type) == 0)
            tf->router.softmax_first = true;
    if (d)
        tf->router.softmax_first = strcmp(d->text, "true") != 0;
    tf->router.scale = number(f, scale);
    if (greedy && strcmp(greedy->text, "greedy") == 0)
        return;
    tf->router.groups = (int64_t)number(f, groups);
    tf->router.of_groups = (int64_t)number(f, of);
    if (tf->router.groups < 2 || tf->router.of_groups < 1 ||
        tf->router.of_groups > tf->router.groups)
        tf->router.groups = tf->router.of_groups = 0;
}

void model_hf_numbers(pdl_arena *a, struct model_fields *f, const char *type,
                      struct model_tf *tf)
{
    static const char *const epsilon[] = {"rms_norm_eps",
                                          "layer_norm_eps",
                                          "layer_norm_epsilon",
                                          "layernorm_epsilon",
                                          "norm_epsilon",
                                          "norm_eps",
                                          NULL};
    const struct usual *u = NULL;

    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (type && strcmp(usual[i].type, type) == 0)
            u = &usual[i];
    tf->epsilon = number(f, epsilon);
    if (!(tf->epsilon > 0) && u)
        tf->epsilon = u->epsilon;
    read_function(a, f, u, tf);
    read_rope(a, f, tf);
    read_rotated(a, f, u, tf);
    read_alibi(a, f, type, tf);
    read_odd(a, f, tf);
    read_router(f, type, tf);
    if (u && u->odd)
        odd(a, tf, u->odd);
}
