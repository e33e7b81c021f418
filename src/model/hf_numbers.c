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

/* Defaults of the configuration classes of transformers. */
static const struct usual {
    const char *type, *act;
    double epsilon;
} usual[] = {
    {"bert", "gelu", 1e-12},    {"roberta", "gelu", 1e-12},
    {"vit", "gelu", 1e-12},     {"deit", "gelu", 1e-12},
    {"gpt2", "gelu_new", 1e-5}, {"t5", "relu", 1e-6},
    {"llama", "silu", 1e-6},    {"mistral", "silu", 1e-6},
    {"qwen2", "silu", 1e-6},    {"qwen3", "silu", 1e-6},
    {"mixtral", "silu", 1e-5},  {"gpt_neox", "gelu", 1e-5},
    {"falcon", "gelu", 1e-5},   {"bloom", "gelu_new", 1e-5},
    {"mpt", "gelu", 1e-5},
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
static void set_function(struct model_tf *tf, enum function f)
{
    tf->by_tanh = f == GELU_TANH;
    for (int s = 0; s < tf->nstacks; s++)
        for (int r = 0; r < tf->stack[s].nruns; r++) {
            struct model_tf_layer *l = &tf->stack[s].runs[r].layer;

            if (f == RELU)
                l->act = TF_RELU;
            else if (l->gated && f != SILU)
                l->act = TF_GELU;
            else if (!l->gated && f == SILU && l->ffn)
                tf->inexact = "a feed-forward layer of SiLU without gate";
        }
}

static void read_function(struct model_fields *f, const struct usual *u,
                          struct model_tf *tf)
{
    static const char *const keys[] = {
        "hidden_act", "hidden_activation", "activation_function",
        "activation", "feed_forward_proj", NULL};
    const struct pdl_doc *d = first_of(f, keys);
    const char *name = d ? d->text : u ? u->act : NULL;

    if (function_of(name) != NONE)
        set_function(tf, function_of(name));
    else if (name)
        tf->inexact = "its activation function";
}

/* rope_scaling of older files, rope_parameters of newer ones. */
static void read_rope(struct model_fields *f, struct model_tf *tf)
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
        tf->inexact = "its scaling of rotary positions";
        return;
    }
    tf->rope.scale = number(f, factor);
    if (llama3) {
        tf->rope.alpha = number(f, low);
        tf->rope.beta = number(f, high);
        tf->rope.offset = number(f, old);
    }
}

/* Some rotate a part of each head only; GPT-NeoX a quarter unless told. Which
 * part does not matter, as queries and keys have the same: ours is the last. */
static void read_rotated(struct model_fields *f, const char *type,
                         struct model_tf *tf)
{
    static const char *const keys[] = {"rotary_pct", "partial_rotary_factor",
                                       "rope_parameters.partial_rotary_factor",
                                       NULL};
    const struct model_tf_layer *l = &tf->stack[0].runs[0].layer;
    bool said = first_of(f, keys) != NULL;
    double part = number(f, keys);

    if (!said && type && strcmp(type, "gpt_neox") == 0)
        part = 0.25;
    if (!(part > 0 && part < 1) || l->head_dim < 2 || l->mixer != TF_ATTENTION)
        return;
    tf->rope.features = (int64_t)(part * (double)l->head_dim);
    if (tf->rope.features < 2 || tf->rope.features % 2) {
        tf->rope.features = 0;
        tf->inexact = "its rotation of an odd part of each head";
    }
}

/* Attention subtracts what is proportional to distances (ALiBi). Falcon does so
 * before it divides scores by the root of a head's width, and in bfloat16,
 * which is not done here. */
static void read_alibi(struct model_fields *f, const char *type,
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
        tf->inexact = "its distances (ALiBi) rounded to bfloat16";
    }
}

void model_hf_numbers(struct model_fields *f, const char *type,
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
    read_function(f, u, tf);
    read_rope(f, tf);
    read_rotated(f, type, tf);
    read_alibi(f, type, tf);
}
