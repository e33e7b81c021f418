/* SPDX-License-Identifier: Apache-2.0
 *
 * A safetensors file as a model: names, types and shapes of tensors, and
 * never the data. The result has weights and no nodes: exact counts of what a
 * checkpoint holds.
 *
 * What is no parameter: scales and zero points of quantised weights, masks,
 * position ids, running statistics. Blocks of MXFP4 hold two values a byte and
 * are counted as values. Packed integers of GPTQ and AWQ (qweight) are counted
 * as they are stored and named among the unknown operators. */
#include "model_priv.h"

#include <string.h>

/* Ends of names of tensors that nobody learns. */
static const char *const not_learned[] = {
    "_scale_inv",    "_scales",       ".scales",
    ".weight_scale", ".input_scale",  ".k_scale",
    ".v_scale",      ".qzeros",       ".g_idx",
    ".zeros",        ".running_mean", ".absmax",
    ".quant_map",    ".running_var",  ".num_batches_tracked",
    ".inv_freq",     ".masked_bias",  ".position_ids",
};

struct reader {
    const char *name;
    struct pdl_err *err;
    pdl_build *b;
    bool head, embedding;
};

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_float(enum pdl_dtype t)
{
    return t <= PDL_F4 || t == PDL_OTHER;
}

static enum pdl_tensor_kind kind_of(const char *name, enum pdl_dtype dtype,
                                    int rank)
{
    bool packed = ends(name, "_blocks") || ends(name, ".qweight") ||
                  ends(name, ".weight");

    for (size_t i = 0; i < sizeof not_learned / sizeof not_learned[0]; i++)
        if (ends(name, not_learned[i]))
            return PDL_TENSOR_BUFFER;
    if (rank == 4 && ends(name, ".attn.bias")) /* GPT-2's causal mask */
        return PDL_TENSOR_BUFFER;
    return is_float(dtype) || packed ? PDL_TENSOR_WEIGHT : PDL_TENSOR_BUFFER;
}

static enum pdl_status add(struct reader *r, const struct pdl_safetensor *s)
{
    enum pdl_tensor_kind kind = kind_of(s->name, s->dtype, s->rank);
    enum pdl_dtype dtype = s->dtype;
    int64_t dim[PDL_MAX_RANK];

    memcpy(dim, s->dim, sizeof dim);
    if (s->rank > 0 && dtype == PDL_U8 && ends(s->name, "_blocks")) {
        dtype = PDL_F4;
        if (!pdl_mul64(dim[s->rank - 1], 2, &dim[s->rank - 1]))
            return pdl_fail(r->err, PDL_EPARSE, "%s: '%.60s' is too large",
                            r->name, s->name);
    }
    if (ends(s->name, ".qweight"))
        pdl_build_unknown(r->b, "qweight");
    r->head |=
        ends(s->name, "lm_head.weight") || ends(s->name, "output.weight");
    r->embedding |= ends(s->name, "embed_tokens.weight") ||
                    ends(s->name, "wte.weight") ||
                    ends(s->name, "word_embeddings.weight");
    (void)pdl_build_tensor(r->b, s->name, kind, dtype, s->rank, dim);
    return PDL_OK;
}

static const char *source_of(const struct reader *r)
{
    if (r->head || !r->embedding)
        return "safetensors header: weights only";
    return "safetensors header: weights only; no lm_head, so the embedding "
           "is tied or there is none";
}

enum pdl_status pdl_model_safetensors(pdl_arena *a, struct pdl_bytes in,
                                      int64_t file_bytes, const char *name,
                                      const struct pdl_model **out,
                                      struct pdl_err *err)
{
    struct reader r = {.name = name, .err = err};
    struct pdl_safetensors h;
    const char *slash = strrchr(name, '/');
    enum pdl_status st =
        pdl_safetensors_header(a, in, file_bytes, name, &h, err);

    if (st != PDL_OK)
        return st;
    r.b = pdl_build_begin(a, slash ? slash + 1 : name);
    if (!r.b)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    for (int i = 0; i < h.ntensors && st == PDL_OK; i++)
        st = add(&r, &h.tensor[i]);
    if (st != PDL_OK)
        return st;
    pdl_build_meta(r.b, "other", source_of(&r), 0, 0);
    return pdl_build_end(r.b, out, err);
}
