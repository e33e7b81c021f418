/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron-LM's command line: a launch script or a file of flags. Scripts are
 * read, not run: words, quotes, comments and line continuations as in a shell,
 * and variables that the file itself sets to plain values. Flags that do not
 * change cost are passed over; one that does and has a value we cannot read is
 * an error with its line. */
#include "import.h"

#include <ctype.h>
#include <string.h>

enum { MAX_WORDS = 65536, MAX_VARIABLES = 512, MAX_VALUE = 4096 };

struct word {
    const char *text;
    int line;
};

struct variable {
    const char *name, *value;
};

struct script {
    pdl_arena *arena;
    const char *name; /* of the file */
    const char *p, *end;
    int line;
    struct word *word;
    int nwords;
    struct variable variable[MAX_VARIABLES];
    int nvariables;
};

/* ---- words ------------------------------------------------------------------------ */

static bool is_name(const char *s, size_t n)
{
    if (n == 0 || isdigit((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return false;
    return true;
}

static const char *value_of(const struct script *s, const char *name, size_t n)
{
    for (int i = s->nvariables - 1; i >= 0; i--)
        if (strlen(s->variable[i].name) == n &&
            memcmp(s->variable[i].name, name, n) == 0)
            return s->variable[i].value;
    return NULL;
}

/* $NAME, ${NAME}, ${NAME:-default}; anything else stays as it is. Returns how
 * many characters of the text it took. */
static size_t expand(const struct script *s, const char *t, size_t left,
                     struct pdl_sink *out)
{
    bool braced = left > 1 && t[1] == '{';
    size_t at = braced ? 2 : 1, n = 0, close;
    const char *v;

    while (at + n < left &&
           (isalnum((unsigned char)t[at + n]) || t[at + n] == '_'))
        n++;
    v = value_of(s, t + at, n);
    close = at + n;
    if (braced) {
        const char *b = memchr(t + close, '}', left - close);

        if (!b)
            return 0;
        if (!v && close + 2 < left && t[close] == ':' && t[close + 1] == '-')
            v = pdl_arena_strndup(s->arena, t + close + 2,
                                  (size_t)(b - (t + close + 2)));
        close = (size_t)(b - t) + 1;
    }
    if (!v || n == 0)
        return 0;
    pdl_puts(out, v);
    return close;
}

static bool ends_word(char c)
{
    return isspace((unsigned char)c) || strchr("();&|", c) != NULL;
}

static void skip_blanks(struct script *s)
{
    while (s->p < s->end) {
        if (*s->p == '\\' && s->p + 1 < s->end && s->p[1] == '\n') {
            s->p += 2;
            s->line++;
        } else if (*s->p == '#') {
            while (s->p < s->end && *s->p != '\n')
                s->p++;
        } else if (ends_word(*s->p)) {
            s->line += *s->p == '\n';
            s->p++;
        } else {
            return;
        }
    }
}

/* One word without its quotes, variables put in. */
static bool take_word(struct script *s, struct pdl_buf *b)
{
    char quote = 0;

    while (s->p < s->end && (quote || !ends_word(*s->p)) &&
           b->len < MAX_VALUE) {
        size_t used = 0;

        if (*s->p == '\n')
            s->line++;
        if (quote ? *s->p == quote : (*s->p == '"' || *s->p == '\'')) {
            quote = quote ? 0 : *s->p;
            s->p++;
            continue;
        }
        if (*s->p == '$' && quote != '\'')
            used = expand(s, s->p, (size_t)(s->end - s->p), &b->sink);
        if (used == 0 && *s->p != '\0')
            pdl_put(&b->sink, s->p, 1);
        s->p += used ? used : 1;
    }
    return !b->sink.failed && quote == 0;
}

/* NAME=value sets a variable: a later word may hold it. */
static bool set_variable(struct script *s, const char *text)
{
    const char *eq = strchr(text, '=');
    struct variable *v;

    if (!eq || !is_name(text, (size_t)(eq - text)))
        return false;
    if (s->nvariables == MAX_VARIABLES)
        return true;
    v = &s->variable[s->nvariables++];
    v->name = pdl_arena_strndup(s->arena, text, (size_t)(eq - text));
    v->value = pdl_arena_strdup(s->arena, eq + 1);
    if (!v->name || !v->value)
        s->nvariables--;
    return true;
}

static enum pdl_status split(struct script *s, struct pdl_err *err)
{
    struct pdl_buf b;

    for (skip_blanks(s); s->p < s->end; skip_blanks(s)) {
        int line = s->line;
        const char *text;
        bool ok;

        pdl_buf_init(&b);
        ok = take_word(s, &b);
        text = pdl_arena_strdup(s->arena, b.text ? b.text : "");
        pdl_buf_free(&b);
        if (!ok)
            return pdl_fail(err, PDL_EPARSE,
                            "%s:%d: a quote is not closed, or the word is "
                            "longer than %d characters",
                            s->name, line, MAX_VALUE);
        if (!text)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (set_variable(s, text))
            continue;
        if (s->nwords == MAX_WORDS)
            return pdl_fail(err, PDL_EPARSE, "%s:%d: more than %d words",
                            s->name, line, MAX_WORDS);
        s->word[s->nwords++] = (struct word){text, line};
    }
    return PDL_OK;
}

/* ---- flags ----------------------------------------------------------------------------- */

enum kind { COUNT, YES, WORDS };

struct flag {
    const char *name;
    enum kind kind;
    size_t offset;    /* into struct report_setup */
    const char *when; /* WORDS: sets the flag when the value is this */
};

#define AT(field) offsetof(struct report_setup, field)
// clang-format off
static const struct flag flags[] = {
    {"--nproc-per-node", COUNT, AT(per_node), NULL},
    {"--nproc_per_node", COUNT, AT(per_node), NULL},
    {"--nnodes", COUNT, AT(nodes), NULL},
    {"--tensor-model-parallel-size", COUNT, AT(tensor), NULL},
    {"--pipeline-model-parallel-size", COUNT, AT(pipe), NULL},
    {"--num-virtual-stages-per-pipeline-rank", COUNT, AT(virtual_stages), NULL},
    {"--num-layers-per-virtual-pipeline-stage", COUNT, AT(layers_per_virtual),
     NULL},
    {"--context-parallel-size", COUNT, AT(context), NULL},
    {"--expert-model-parallel-size", COUNT, AT(expert), NULL},
    {"--sequence-parallel", YES, AT(seq), NULL},
    {"--cp-comm-type", WORDS, AT(context_a2a), "a2a"},
    {"--use-tp-pp-dp-mapping", YES, AT(pipe_before_data), NULL},
    {"--micro-batch-size", COUNT, AT(micro_batch), NULL},
    {"--global-batch-size", COUNT, AT(global_batch), NULL},
    {"--use-distributed-optimizer", YES, AT(zero), NULL},
    {"--overlap-grad-reduce", YES, AT(overlap), NULL},
    {"--recompute-activations", YES, AT(recompute_selective), NULL},
    {"--recompute-granularity", WORDS, AT(recompute_full), "full"},
    {"--recompute-granularity", WORDS, AT(recompute_selective), "selective"},
    {"--optimizer-cpu-offload", YES, AT(offload_optimizer), NULL},
    {"--bf16", YES, AT(bf16), NULL},
    {"--fp16", YES, AT(fp16), NULL},
    {"--num-layers", COUNT, AT(layers), NULL},
    {"--hidden-size", COUNT, AT(hidden), NULL},
    {"--ffn-hidden-size", COUNT, AT(ffn), NULL},
    {"--num-attention-heads", COUNT, AT(heads), NULL},
    {"--num-query-groups", COUNT, AT(kv_heads), NULL},
    {"--kv-channels", COUNT, AT(head_dim), NULL},
    {"--seq-length", COUNT, AT(tokens), NULL},
    {"--vocab-size", COUNT, AT(vocab), NULL},
    {"--padded-vocab-size", COUNT, AT(padded_vocab), NULL},
    {"--make-vocab-size-divisible-by", COUNT, AT(vocab_multiple), NULL},
    {"--swiglu", YES, AT(swiglu), NULL},
    {"--normalization", WORDS, AT(rms), "RMSNorm"},
    {"--position-embedding-type", WORDS, AT(rope), "rope"},
    {"--use-rotary-position-embeddings", YES, AT(rope), NULL},
    {"--untie-embeddings-and-output-weights", YES, AT(untied), NULL},
    {"--qk-layernorm", YES, AT(qk_norm), NULL},
    {"--multi-latent-attention", YES, AT(latent), NULL},
    {"--num-experts", COUNT, AT(experts), NULL},
    {"--moe-router-topk", COUNT, AT(topk), NULL},
    {"--moe-ffn-hidden-size", COUNT, AT(moe_ffn), NULL},
};
// clang-format on
#undef AT

static enum pdl_status set(const struct script *s, const struct flag *f,
                           const struct word *w, const char *value,
                           struct report_setup *out, struct pdl_err *err)
{
    char *at = (char *)out + f->offset;
    struct pdl_err inner = {"", ""};
    int64_t v;

    if (f->kind == YES) {
        /* zero is a count: 1 for the distributed optimizer */
        if (f->offset == offsetof(struct report_setup, zero))
            out->zero = out->zero > 1 ? out->zero : 1;
        else
            *(bool *)at = true;
        return PDL_OK;
    }
    if (!value)
        return pdl_fail(err, PDL_EPARSE, "%s:%d: %s has no value", s->name,
                        w->line, f->name);
    if (f->kind == WORDS) {
        if (strcmp(value, f->when) == 0)
            *(bool *)at = true;
        return PDL_OK;
    }
    if (pdl_int_parse(value, 1, (int64_t)1 << 48, &v, &inner) != PDL_OK) {
        pdl_fail(err, PDL_EPARSE, "%s:%d: %s: '%.60s' is no number", s->name,
                 w->line, f->name, value);
        if (strchr(value, '$'))
            pdl_hint(err, "the file does not set that variable to a plain "
                          "value; put the number there");
        return PDL_EPARSE;
    }
    *(int64_t *)at = v;
    return PDL_OK;
}

/* --data-parallel-sharding-strategy and --fp8-format have values of their
 * own; a flag may be written --name=value too. */
static void set_other(const char *name, const char *value,
                      struct report_setup *out)
{
    if (strcmp(name, "--fp8-format") == 0 || strcmp(name, "--fp8-hybrid") == 0)
        out->fp8 = true;
    if (strcmp(name, "--hidden-dropout") == 0)
        out->dropout = value;
    if (strcmp(name, "--data-parallel-sharding-strategy") != 0 || !value)
        return;
    if (strcmp(value, "optim_grads_params") == 0)
        out->zero = 3;
    else if (strcmp(value, "optim_grads") == 0)
        out->zero = 2;
}

static enum pdl_status apply(const struct script *s, int i,
                             struct report_setup *out, struct pdl_err *err)
{
    const struct word *w = &s->word[i];
    const char *value = i + 1 < s->nwords ? s->word[i + 1].text : NULL;
    const char *name = w->text, *eq = strchr(name, '=');

    if (strncmp(name, "--", 2) != 0)
        return PDL_OK;
    if (eq) {
        value = eq + 1;
        name = pdl_arena_strndup(s->arena, name, (size_t)(eq - name));
        if (!name)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    set_other(name, value, out);
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
        enum pdl_status st;

        if (strcmp(flags[k].name, name) != 0)
            continue;
        st = set(s, &flags[k], w, value, out, err);
        if (st != PDL_OK)
            return st;
    }
    return PDL_OK;
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct script *s = PDL_NEW(a, struct script, 1);
    struct report_setup setup = {.world = 0};
    enum pdl_status st;

    if (s)
        s->word = PDL_NEW(a, struct word, MAX_WORDS);
    if (!s || !s->word)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    s->arena = a;
    s->name = name;
    s->p = in.data;
    s->end = s->p + in.len;
    s->line = 1;
    st = split(s, err);
    for (int i = 0; i < s->nwords && st == PDL_OK; i++)
        st = apply(s, i, &setup, err);
    if (st != PDL_OK)
        return st;
    if (pes > 0)
        setup.world = pes;
    if (setup.layers == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no --num-layers in it", name);
    if (setup.vocab == 0 && setup.padded_vocab == 0) {
        setup.padded_vocab = 51200;
        report_note(out, "the vocabulary is not in the file: 51200 is assumed");
    }
    return report_setup_finish(a, &setup, name, out, err);
}

const struct pdl_launch_reader report_import_megatron = {
    .name = "megatron-args",
    .summary = "a Megatron-LM launch script or its flags",
    .read = read,
};
