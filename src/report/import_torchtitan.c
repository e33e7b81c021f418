/* SPDX-License-Identifier: Apache-2.0
 *
 * torchtitan's job files up to 0.2.2 (TOML). Only their flat form is read:
 * [section], key = value with a string, a whole number or a boolean; lists
 * (but for "float8" in one), nested tables and multi-line strings are passed
 * over.
 * Configurations since 2026 are Python and cannot be read without running
 * them. */
#include "import.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct titan {
    struct report_setup setup;
    int64_t shard, replicate, local_batch;
    bool shard_all; /* -1: all ranks that are left */
    char model[64], flavor[64], mode[32], option[32], schedule[40], type[32];
};

enum kind { COUNT, TEXT, YES, FLOAT8 };

struct key {
    const char *section, *name;
    enum kind kind;
    size_t offset, size;
};

#define AT(f)  offsetof(struct titan, f), 0
#define BUF(f) offsetof(struct titan, f), sizeof((struct titan *)0)->f
// clang-format off
static const struct key keys[] = {
    {"model", "name", TEXT, BUF(model)},
    {"model", "flavor", TEXT, BUF(flavor)},
    {"training", "seq_len", COUNT, AT(setup.tokens)},
    {"training", "local_batch_size", COUNT, AT(local_batch)},
    {"training", "batch_size", COUNT, AT(local_batch)},
    {"training", "global_batch_size", COUNT, AT(setup.global_batch)},
    {"training", "mixed_precision_param", TEXT, BUF(type)},
    {"training", "compile", YES, AT(setup.compile)},
    {"compile", "enable", YES, AT(setup.compile)},
    {"model", "converters", FLOAT8, AT(setup.fp8)},
    {"float8", "enable_float8_linear", YES, AT(setup.fp8)},
    {"parallelism", "enable_async_tensor_parallel", YES,
     AT(setup.async_tensor)},
    {"parallelism", "data_parallel_replicate_degree", COUNT, AT(replicate)},
    {"parallelism", "data_parallel_shard_degree", COUNT, AT(shard)},
    {"parallelism", "tensor_parallel_degree", COUNT, AT(setup.tensor)},
    {"parallelism", "pipeline_parallel_degree", COUNT, AT(setup.pipe)},
    {"parallelism", "context_parallel_degree", COUNT, AT(setup.context)},
    {"parallelism", "expert_parallel_degree", COUNT, AT(setup.expert)},
    {"parallelism", "pipeline_parallel_schedule", TEXT, BUF(schedule)},
    {"parallelism", "pipeline_parallel_microbatch_size", COUNT,
     AT(setup.micro_batch)},
    {"activation_checkpoint", "mode", TEXT, BUF(mode)},
    {"activation_checkpoint", "selective_ac_option", TEXT, BUF(option)},
};
// clang-format on
#undef AT
#undef BUF

/* ---- lines ------------------------------------------------------------------------- */

struct line {
    const char *file;
    int number;
    char section[64];
    char key[64], value[256];
};

/* Copies [s, e) without blanks at its ends. */
static void trimmed(const char *s, const char *e, char *out, size_t size)
{
    size_t n;

    while (s < e && isspace((unsigned char)*s))
        s++;
    while (e > s && isspace((unsigned char)e[-1]))
        e--;
    n = (size_t)(e - s) < size - 1 ? (size_t)(e - s) : size - 1;
    memcpy(out, s, n);
    out[n] = '\0';
}

/* A '#' outside quotes ends the line. */
static const char *before_comment(const char *s, const char *e)
{
    bool quoted = false;

    for (; s < e; s++) {
        if (*s == '"')
            quoted = !quoted;
        if (*s == '#' && !quoted)
            return s;
    }
    return e;
}

/* True when the line is key = value. */
static bool parse_line(struct line *l, const char *s, const char *e)
{
    const char *eq;

    e = before_comment(s, e);
    while (s < e && isspace((unsigned char)*s))
        s++;
    if (s < e && *s == '[') {
        const char *close = memchr(s, ']', (size_t)(e - s));

        trimmed(s + 1, close ? close : e, l->section, sizeof l->section);
        return false;
    }
    eq = s < e ? memchr(s, '=', (size_t)(e - s)) : NULL;
    if (!eq)
        return false;
    trimmed(s, eq, l->key, sizeof l->key);
    trimmed(eq + 1, e, l->value, sizeof l->value);
    return true;
}

static enum pdl_status bad(const struct line *l, const char *what,
                           struct pdl_err *err)
{
    return pdl_fail(err, PDL_EPARSE, "%s:%d: %s: '%.60s' is %s", l->file,
                    l->number, l->key, l->value, what);
}

static enum pdl_status set(struct titan *t, const struct key *k,
                           const struct line *l, struct pdl_err *err)
{
    size_t n = strlen(l->value);
    int64_t v;

    if (k->kind == TEXT) {
        char quote = l->value[0];

        if (n < 2 || (quote != '"' && quote != '\'') ||
            l->value[n - 1] != quote)
            return bad(l, "no text in quotes", err);
        trimmed(l->value + 1, l->value + n - 1, (char *)t + k->offset, k->size);
        return PDL_OK;
    }
    if (k->kind == YES || k->kind == FLOAT8) {
        bool yes = k->kind == YES ? strcmp(l->value, "true") == 0
                                  : strstr(l->value, "float8") != NULL;

        memcpy((char *)t + k->offset, &yes, sizeof yes);
        return PDL_OK;
    }
    if (strcmp(l->value, "-1") == 0) {
        t->shard_all =
            t->shard_all || strcmp(k->name, "data_parallel_shard_degree") == 0;
        return PDL_OK;
    }
    if (pdl_int_parse(l->value, 0, (int64_t)1 << 40, &v, NULL) != PDL_OK)
        return bad(l, "no whole number", err);
    memcpy((char *)t + k->offset, &v, sizeof v);
    return PDL_OK;
}

static enum pdl_status read_lines(struct titan *t, struct pdl_bytes in,
                                  const char *name, struct pdl_err *err)
{
    const char *p = in.data, *end = p + in.len;
    struct line l = {.file = name};

    while (p < end) {
        const char *e = memchr(p, '\n', (size_t)(end - p));

        e = e ? e : end;
        l.number++;
        if (parse_line(&l, p, e))
            for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
                enum pdl_status st;

                if (strcmp(keys[k].section, l.section) != 0 ||
                    strcmp(keys[k].name, l.key) != 0)
                    continue;
                st = set(t, &keys[k], &l, err);
                if (st != PDL_OK)
                    return st;
            }
        p = e < end ? e + 1 : end;
    }
    return l.section[0] ? PDL_OK
                        : pdl_fail(err, PDL_EPARSE,
                                   "%s: no [section] in it: not a torchtitan "
                                   "TOML file",
                                   name);
}

/* ---- meaning -------------------------------------------------------------------------- */

/* llama3 and 8B: llama3-8b of the zoo, but for these. A sequence that the file
 * does not say has torchtitan's 2048 tokens. */
static const char *zoo_name(pdl_arena *a, const struct titan *t)
{
    static const char *const others[][2] = {
        {"llama3-405b", "llama3.1-405b"}, {"deepseek_v3-671b", "deepseek-v3"}};
    char name[160];

    if (!t->model[0] || !t->flavor[0])
        return NULL;
    snprintf(name, sizeof name, "%s-%s", t->model, t->flavor);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i][0]) == 0)
            snprintf(name, sizeof name, "%s", others[i][1]);
    return pdl_arena_printf(
        a, "%s:seq=%lld", name,
        (long long)(t->setup.tokens > 0 ? t->setup.tokens : 2048));
}

static void settle(struct titan *t, int64_t pes, struct pdl_launch *out)
{
    struct report_setup *s = &t->setup;
    int64_t inner = (s->tensor ? s->tensor : 1) * (s->pipe ? s->pipe : 1) *
                    (s->context ? s->context : 1);

    s->overlap = true;
    s->seq = s->tensor > 1;
    s->bf16 = !t->type[0] || strcmp(t->type, "bfloat16") == 0;
    s->fp16 = strcmp(t->type, "float16") == 0;
    s->recompute_full = strcmp(t->mode, "full") == 0;
    s->recompute_op = strcmp(t->mode, "selective") == 0;
    if (t->option[0] && strcmp(t->option, "op") != 0)
        report_note(out, "selective checkpointing of every n-th layer is taken "
                         "as selective-op");
    s->gpipe = strcmp(t->schedule, "GPipe") == 0;
    s->zero_bubble_v = strcmp(t->schedule, "ZBVZeroBubble") == 0;
    if (strcmp(t->schedule, "Interleaved1F1B") == 0)
        s->virtual_stages = 2;
    t->replicate = t->replicate ? t->replicate : 1;
    if (t->shard > 1 || t->shard_all || t->shard == 0)
        s->zero = 3;
    if (s->zero == 3 && t->replicate > 1 && t->shard > 1)
        s->zero_group = t->shard;
    s->world = pes > 0        ? pes
               : t->shard > 0 ? inner * t->replicate * t->shard
                              : 0;
    /* one data-parallel rank's batch: with stages it is cut in micro-batches,
     * as many as there are stages unless the file says their size */
    if (s->micro_batch == 0)
        s->micro_batch = s->pipe > 1 && t->local_batch % s->pipe == 0
                             ? t->local_batch / s->pipe
                             : t->local_batch;
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct titan t = {.shard = 0};
    enum pdl_status st = read_lines(&t, in, name, err);
    const char *model;

    if (st != PDL_OK)
        return st;
    if (t.setup.tensor > 1 << 20 || t.setup.pipe > 1 << 20 ||
        t.setup.context > 1 << 20 || t.replicate > 1 << 20 ||
        t.shard > 1 << 20 || t.local_batch > 1 << 30)
        return pdl_fail(err, PDL_EPARSE, "%s: a degree is too large", name);
    settle(&t, pes, out);
    if (t.setup.global_batch == 0 && t.local_batch > 0)
        t.setup.accumulation = t.local_batch / t.setup.micro_batch;
    model = zoo_name(a, &t);
    st = report_setup_finish(a, &t.setup, name, out, err);
    out->model = model;
    return st;
}

const struct pdl_launch_reader report_import_torchtitan = {
    .name = "torchtitan",
    .summary = "a torchtitan TOML file (up to 0.2.2)",
    .read = read,
};
