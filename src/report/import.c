/* SPDX-License-Identifier: Apache-2.0
 *
 * Today's job, read back: degrees as other programs count them become our
 * strategy, sizes become a network of the zoo. What a file leaves open is
 * asked for, or assumed and said. */
#include "import.h"

#include <string.h>

static const struct pdl_launch_reader *const importers[] = {
    &report_import_megatron,   &report_import_deepspeed,
    &report_import_torchtitan, &report_import_nanotron,
    &report_import_accelerate, &report_import_own,
};
enum { NIMPORTERS = sizeof importers / sizeof importers[0] };

const struct pdl_launch_reader *pdl_launch_reader_at(int i)
{
    return i >= 0 && i < NIMPORTERS ? importers[i] : NULL;
}

enum pdl_status pdl_launch_read(pdl_arena *a, const char *format,
                                struct pdl_bytes in, const char *name,
                                int64_t pes, struct pdl_launch *out,
                                struct pdl_err *err)
{
    *out = (struct pdl_launch){0};
    for (int i = 0; i < NIMPORTERS; i++)
        if (strcmp(importers[i]->name, format) == 0)
            return importers[i]->read(a, in, name, pes, out, err);
    return pdl_fail(err, PDL_EINVAL, "no import format '%.40s'", format);
}

void report_note(struct pdl_launch *out, const char *text)
{
    for (int i = 0; i < out->nnotes; i++)
        if (strcmp(out->note[i], text) == 0)
            return;
    if (out->nnotes < (int)(sizeof out->note / sizeof out->note[0]))
        out->note[out->nnotes++] = text;
}

bool report_has(struct pdl_bytes in, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = in.data, *end = p + in.len; p && p + n <= end; p++)
        if (memcmp(p, word, n) == 0)
            return true;
    return false;
}

/* ---- degrees ----------------------------------------------------------- */

static void at_least_one(int64_t *v)
{
    if (*v < 1)
        *v = 1;
}

/* The product of what is not data; 0: it overflows. */
static int64_t inner_degree(const struct report_setup *s)
{
    int64_t n = 1;

    if (!pdl_mul64(n, s->tensor, &n) || !pdl_mul64(n, s->pipe, &n) ||
        !pdl_mul64(n, s->context, &n))
        return 0;
    return n;
}

static enum pdl_status settle_data(struct report_setup *s, const char *name,
                                   int64_t *data, struct pdl_err *err)
{
    int64_t inner = inner_degree(s);

    if (s->world < 1) {
        pdl_fail(err, PDL_EINVAL, "%s: does not say how many PEs run it", name);
        pdl_hint(err, "add --pes N");
        return PDL_EINVAL;
    }
    if (inner < 1 || s->world % inner != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %lld PEs are no multiple of tensor x pipe x "
                        "context = %lld",
                        name, (long long)s->world, (long long)inner);
    *data = s->world / inner;
    if (*data % s->expert != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %lld data-parallel ranks are no multiple of %lld "
                        "expert groups",
                        name, (long long)*data, (long long)s->expert);
    return PDL_OK;
}

static enum pdl_status settle_batch(struct report_setup *s, int64_t data,
                                    const char *name, int64_t *m,
                                    struct pdl_err *err)
{
    int64_t at_once;

    /* where only the whole batch is said, it is not cut further */
    if (s->micro_batch < 1 && s->global_batch > 0) {
        at_least_one(&s->accumulation);
        s->micro_batch = s->global_batch / data / s->accumulation;
    }
    at_least_one(&s->micro_batch);
    if (!pdl_mul64(s->micro_batch, data, &at_once))
        return pdl_fail(err, PDL_EINVAL, "%s: the batch is too large", name);
    if (s->global_batch < 1) {
        at_least_one(&s->accumulation);
        if (!pdl_mul64(at_once, s->accumulation, &s->global_batch))
            return pdl_fail(err, PDL_EINVAL, "%s: the batch is too large",
                            name);
    }
    if (s->global_batch % at_once != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: a batch of %lld is no multiple of micro-batch x "
                        "data-parallel ranks = %lld",
                        name, (long long)s->global_batch, (long long)at_once);
    *m = s->global_batch / at_once;
    return PDL_OK;
}

static void settle_virtual(struct report_setup *s)
{
    int64_t per_stage = s->pipe > 0 ? s->layers / s->pipe : 0;

    if (s->layout)
        s->virtual_stages = 0; /* it says so itself */
    if (s->virtual_stages == 0 && s->layers_per_virtual > 0)
        s->virtual_stages = per_stage / s->layers_per_virtual;
    if (s->pipe == 1)
        s->virtual_stages = 0;
}

/* ---- notation ---------------------------------------------------------- */

static void put_pipe(const struct report_setup *s, int64_t m,
                     struct pdl_sink *out)
{
    if (s->pipe == 1)
        return;
    pdl_printf(out, "pipe=%lld(%s,m=%lld", (long long)s->pipe,
               s->virtual_stages > 1 ? "interleaved"
               : s->zero_bubble_v    ? "zb-v"
               : s->gpipe            ? "gpipe"
                                     : "1f1b",
               (long long)m);
    if (s->virtual_stages > 1)
        pdl_printf(out, ",v=%lld", (long long)s->virtual_stages);
    report_stages_put(s, out);
    pdl_puts(out, "),");
}

static void put_axes(const struct report_setup *s, int64_t data, int64_t m,
                     struct pdl_sink *out)
{
    if (!s->pipe_before_data)
        put_pipe(s, m, out);
    pdl_printf(out, "data=%lld,", (long long)(data / s->expert));
    if (s->pipe_before_data)
        put_pipe(s, m, out);
    if (s->expert > 1)
        pdl_printf(out, "expert=%lld,", (long long)s->expert);
    if (s->context > 1)
        pdl_printf(out, "context=%lld%s,", (long long)s->context,
                   s->context_a2a      ? "(a2a)"
                   : s->context_gather ? "(gather)"
                                       : "");
    if (s->tensor > 1)
        pdl_printf(out, "tensor=%lld%s,", (long long)s->tensor,
                   s->seq ? "+seq" : "");
}

static void put_options(const struct report_setup *s, int64_t m,
                        struct pdl_sink *out)
{
    if (s->zero > 0 && s->zero_group > 0)
        pdl_printf(out, "zero=%lld:%lld,", (long long)s->zero,
                   (long long)s->zero_group);
    else if (s->zero > 0)
        pdl_printf(out, "zero=%lld,", (long long)s->zero);
    if (s->recompute_full && !report_recompute_some(s))
        pdl_puts(out, "recompute=full,");
    else if (!s->recompute_full && s->recompute_op)
        pdl_puts(out, "recompute=selective-op,");
    else if (!s->recompute_full && s->recompute_selective)
        pdl_puts(out, "recompute=selective,");
    if (s->pipe == 1 && m > 1)
        pdl_printf(out, "accumulate=%lld,", (long long)m);
    if (s->offload_optimizer)
        pdl_puts(out, "offload=optimizer,");
    if (!s->overlap)
        pdl_puts(out, "overlap=off,");
}

/* Every term ends with a comma; the last one goes. */
static const char *text_of(pdl_arena *a, struct pdl_buf *b)
{
    size_t n = b->len > 0 && b->text[b->len - 1] == ',' ? b->len - 1 : b->len;
    const char *t = b->sink.failed ? NULL : pdl_arena_strndup(a, b->text, n);

    pdl_buf_free(b);
    return t;
}

static const char *strategy(pdl_arena *a, const struct report_setup *s,
                            int64_t data, int64_t m)
{
    struct pdl_buf b;
    const char *all;

    pdl_buf_init(&b);
    put_axes(s, data, m, &b.sink);
    put_options(s, m, &b.sink);
    all = text_of(a, &b);
    if (!all || !report_recompute_some(s))
        return all;
    pdl_buf_init(&b);
    pdl_printf(&b.sink, "*: %s", all);
    report_recompute_put(s, &b.sink);
    return text_of(a, &b);
}

/* ---- the model --------------------------------------------------------- */

static void put(struct pdl_sink *out, const char *key, int64_t v)
{
    if (v > 0)
        pdl_printf(out, ",%s=%lld", key, (long long)v);
}

/* The head and the embedding are padded so that every rank has as much. */
static int64_t padded(const struct report_setup *s)
{
    int64_t unit = (s->vocab_multiple ? s->vocab_multiple : 128), rest;

    if (s->padded_vocab > 0)
        return s->padded_vocab;
    if (s->vocab_multiple < 0 || s->vocab < 1 ||
        !pdl_mul64(unit, s->tensor, &unit))
        return s->vocab;
    rest = s->vocab % unit;
    return rest && s->vocab < INT64_MAX - unit ? s->vocab + unit - rest
                                               : s->vocab;
}

/* Latent attention: the family that has it, with its experts. */
static const char *latent_model(pdl_arena *a, const struct report_setup *s)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_printf(&b.sink, "deepseek:layers=%lld", (long long)s->layers);
    put(&b.sink, "hidden", s->hidden);
    put(&b.sink, "heads", s->heads);
    put(&b.sink, "ffn", s->ffn);
    put(&b.sink, "moe_ffn", s->moe_ffn);
    put(&b.sink, "experts", s->experts);
    put(&b.sink, "topk", s->topk ? s->topk : 2);
    pdl_printf(&b.sink, ",shared=%lld,dense=%lld,q_lora=%lld",
               (long long)(s->moe_ffn > 0 ? s->shared_ffn / s->moe_ffn : 0),
               (long long)s->dense, (long long)s->q_lora);
    put(&b.sink, "kv_lora", s->kv_lora);
    put(&b.sink, "nope", s->nope);
    put(&b.sink, "rope", s->rope_dim);
    put(&b.sink, "v_head_dim", s->v_dim);
    put(&b.sink, "vocab", padded(s));
    put(&b.sink, "seq", s->tokens);
    pdl_printf(&b.sink, ",tied=%d,correction=%d", !s->untied, s->correction);
    return text_of(a, &b);
}

static void model_notes(const struct report_setup *s, struct pdl_launch *out)
{
    bool llama = s->rope || s->rms;

    if (llama && (!s->rope || !s->rms))
        report_note(out, "rotary positions and RMSNorm come together in the "
                         "zoo: both are taken");
    if (s->latent)
        report_note(out, "latent attention is taken as ordinary attention");
    if (s->dense > 0)
        report_note(out, "every layer is taken as one of experts");
    if (s->shared_ffn > 0)
        report_note(out, "the experts that all tokens share are left out");
}

static const char *model(pdl_arena *a, const struct report_setup *s,
                         struct pdl_launch *out)
{
    bool llama = s->rope || s->rms;
    struct pdl_buf b;

    if (s->layers < 1 || s->hidden < 1 || s->heads < 1)
        return NULL;
    if (s->latent && s->experts > 0 && s->kv_lora > 0)
        return latent_model(a, s);
    model_notes(s, out);
    pdl_buf_init(&b);
    pdl_printf(&b.sink, "%s:layers=%lld",
               s->experts > 0 ? "moe"
               : llama        ? "llama"
                              : "gpt",
               (long long)s->layers);
    put(&b.sink, "hidden", s->hidden);
    put(&b.sink, "heads", s->heads);
    put(&b.sink, "kv_heads", s->kv_heads);
    put(&b.sink, "head_dim", s->head_dim);
    put(&b.sink, "ffn", s->experts > 0 && s->moe_ffn ? s->moe_ffn : s->ffn);
    put(&b.sink, "vocab", padded(s));
    put(&b.sink, "seq", s->tokens);
    if (!llama && s->positions > s->tokens)
        put(&b.sink, "positions", s->positions);
    put(&b.sink, "experts", s->experts);
    put(&b.sink, "topk", s->experts > 0 ? s->topk ? s->topk : 2 : 0);
    pdl_printf(&b.sink, ",gated=%d,tied=%d", s->swiglu, !s->untied);
    if (s->qk_norm)
        pdl_puts(&b.sink, ",qk_norm=1");
    if (s->qkv_bias && llama)
        pdl_puts(&b.sink, ",qkv_bias=1");
    return text_of(a, &b);
}

enum pdl_status report_setup_finish(pdl_arena *a, struct report_setup *s,
                                    const char *name, struct pdl_launch *out,
                                    struct pdl_err *err)
{
    enum pdl_status st;
    int64_t data = 1, m = 1;

    if (s->world == 0 && s->nodes > 0 && s->per_node > 0 &&
        !pdl_mul64(s->nodes, s->per_node, &s->world))
        return pdl_fail(err, PDL_EINVAL, "%s: too many PEs", name);
    at_least_one(&s->tensor);
    at_least_one(&s->pipe);
    at_least_one(&s->context);
    at_least_one(&s->expert);
    settle_virtual(s);
    st = settle_data(s, name, &data, err);
    if (st == PDL_OK)
        st = settle_batch(s, data, name, &m, err);
    if (st == PDL_OK)
        st = report_stages_read(a, s, out, err);
    if (s->recompute_block && s->recompute_layers > 0 &&
        !report_recompute_some(s) && s->recompute_layers < s->layers / s->pipe)
        report_note(out, "recomputing some layers of each stage is taken as "
                         "all of them");
    if (st != PDL_OK)
        return st;
    out->pes = s->world;
    out->batch = s->global_batch;
    out->dropout = s->dropout;
    out->compile = s->compile;
    out->async_tensor = s->async_tensor;
    out->gradient_dtype = s->gradient;
    out->attention = s->unfused ? "unfused" : NULL;
    out->optimizer = s->sgd ? "sgd" : NULL;
    out->precision = s->fp4    ? PDL_PREC_FP4
                     : s->fp8  ? PDL_PREC_FP8
                     : s->bf16 ? PDL_PREC_BF16
                     : s->fp16 ? PDL_PREC_FP16
                     : s->tf32 ? PDL_PREC_TF32
                               : PDL_PREC_FP32;
    out->model = model(a, s, out);
    out->strategy = strategy(a, s, data, m);
    return out->strategy ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
