/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of one model may differ. Each has a kind, a prefix of field names,
 * chosen by the lists and periods that configurations use:
 *   ""       attention, with a window where the family has one
 *   full_    attention without a window
 *   lin_     delta rule         conv_   short convolution
 *   mamba_   state space        cross_  attention to the other stack
 *   global_  the last layers of mllama's tower
 * and dense_ for layers whose feed-forward is not a mixture. full_heads, say,
 * stands for heads in such layers if the family has it. Equal neighbours
 * become one run. */
#include "hf.h"

#include <string.h>

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

const char *model_tf_kind(struct model_fields *f, int64_t layers, int64_t i)
{
    static const char *const lists[] = {"layer_types", "layers_block_type"};

    if (listed(f, "cross_attention_layers", i))
        return "cross_";
    if (i >= layers - model_field(f, "globals"))
        return "global_";
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

bool model_tf_mixture(struct model_fields *f, int64_t i)
{
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

bool model_tf_uniform(struct model_fields *f)
{
    static const char *const lists[] = {
        "layer_types",    "layers_block_type",      "mlp_only_layers",
        "moe_layers",     "cross_attention_layers", "moe_layer_freq",
        "full_attn_idxs", "attn_layer_indices",     "mlp_layer_types"};
    static const char *const fields[] = {
        "attn_every", "lin_every",   "window_every", "dense_first", "moe_shift",
        "moe_freq",   "first_plain", "kv_shared",    "globals"};
    static const int64_t usual[] = {0, 0, 0, 0, 0, 1, 0, 0, 0};
    bool same = true;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct pdl_doc *d =
            model_field_doc(f, lists[i], strlen(lists[i]));

        if (!d || d->kind != PDL_DOC_LIST)
            continue;
        same = false;
        if (d->count > MODEL_MAX_DIFFERENT && f->status == PDL_OK)
            f->status = pdl_doc_fail(d, f->err, "%s has more than %d entries",
                                     lists[i], MODEL_MAX_DIFFERENT);
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && same; i++)
        same = model_field(f, fields[i]) == usual[i];
    return same;
}
