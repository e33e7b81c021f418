/* SPDX-License-Identifier: Apache-2.0
 *
 * torchtitan's job files up to 0.2.2 (TOML). Read are [section], key = value
 * and section.key = value with a string, a whole number or a boolean; of lists,
 * which may have many lines, whether "float8" is in them and how many lists
 * they hold. Inline tables and multi-line strings are passed over. Defaults
 * are those of 0.2.2 (torchtitan/config/job_config.py).
 * Configurations since 2026 are Python, which is not run: of a recipe the lines
 * config.section.key = value are read alike; what it takes over from another
 * recipe is not known. */
#include "import.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 256 };

struct titan {
    struct report_setup setup;
    int64_t shard, replicate, local_batch;
    int64_t per_stage, first_less, last_less; /* of the pipeline */
    int64_t parts, part_layers[MAX_PARTS];
    bool shard_all; /* -1: all ranks that are left */
    bool offload;
    bool no_seq;                       /* of a recipe's tensor ranks */
    bool recipe;                       /* Python; else a TOML file */
    int64_t step_tokens, micro_tokens; /* a recipe's; 0: not in it */
    char checkpointing[40];
    char model[64], flavor[64], mode[32], option[32], schedule[40], type[32];
    char rotate[32], reshard[32];
};

enum kind { COUNT, TEXT, YES, NO, WORD, FLOAT8, LISTS };

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
    {"parallelism", "pipeline_parallel_layers_per_stage", COUNT,
     AT(per_stage)},
    {"parallelism", "pipeline_parallel_first_stage_less_layers", COUNT,
     AT(first_less)},
    {"parallelism", "pipeline_parallel_last_stage_less_layers", COUNT,
     AT(last_less)},
    {"parallelism", "module_fqns_per_model_part", LISTS, AT(parts)},
    {"parallelism", "context_parallel_rotate_method", TEXT, BUF(rotate)},
    {"parallelism", "fsdp_reshard_after_forward", TEXT, BUF(reshard)},
    {"training", "enable_cpu_offload", YES, AT(offload)},
    {"activation_checkpoint", "mode", TEXT, BUF(mode)},
    {"activation_checkpoint", "selective_ac_option", TEXT, BUF(option)},
    {"training", "max_context_length", COUNT, AT(setup.tokens)},
    {"training", "num_tokens_per_microbatch_per_dp_rank", COUNT,
     AT(micro_tokens)},
    {"training", "num_tokens_per_train_step", COUNT, AT(step_tokens)},
    {"parallelism", "enable_sequence_parallel", NO, AT(no_seq)},
    {"compile", "enable_async_tensor_parallel", YES, AT(setup.async_tensor)},
    {"", "activation_checkpoint", WORD, BUF(checkpointing)},
};
// clang-format on
#undef AT
#undef BUF

/* ---- lines ------------------------------------------------------------- */

struct line {
    const char *file;
    int number;
    bool recipe; /* it begins with "config." */
    char section[64];
    char table[64], key[64], value[256]; /* of this line: where, what */
    const char *from, *to;               /* the value, all of its lines */
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
    char quote = 0;

    for (; s < e; s++) {
        if (quote ? *s == quote : (*s == '"' || *s == '\''))
            quote = quote ? 0 : *s;
        if (*s == '#' && !quote)
            return s;
    }
    return e;
}

/* Brackets that are open after [s, e); comments and quotes do not count. */
static int open_brackets(const char *s, const char *e)
{
    char quote = 0;
    int n = 0;

    for (e = before_comment(s, e); s < e; s++) {
        if (quote ? *s == quote : (*s == '"' || *s == '\''))
            quote = quote ? 0 : *s;
        if (!quote)
            n += (*s == '[') - (*s == ']');
    }
    return n;
}

/* section.key = value: what is before the last dot belongs to the table. A
 * recipe's lines begin with "config.". */
static void split_key(struct line *l)
{
    static const char recipe[] = "config.";
    size_t n = sizeof recipe - 1;
    char *dot;

    l->recipe = strncmp(l->key, recipe, n) == 0;
    if (l->recipe)
        memmove(l->key, l->key + n, strlen(l->key + n) + 1);
    dot = strrchr(l->key, '.');
    snprintf(l->table, sizeof l->table, "%s", l->section);
    if (!dot)
        return;
    *dot = '\0';
    snprintf(l->table, sizeof l->table, "%.31s%s%.31s", l->section,
             l->section[0] ? "." : "", l->key);
    memmove(l->key, dot + 1, strlen(dot + 1) + 1);
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
    l->from = eq + 1;
    l->to = e;
    split_key(l);
    return true;
}

/* A list goes on to the line that closes it; returns the end of that. */
static const char *whole_list(struct line *l, const char *e, const char *end)
{
    int open = l->value[0] == '[' ? open_brackets(l->from, l->to) : 0;

    while (open > 0 && e < end) {
        const char *p = e + 1, *next = memchr(p, '\n', (size_t)(end - p));

        next = next ? next : end;
        open += open_brackets(p, next);
        l->number++;
        e = l->to = next;
    }
    return e;
}

static int64_t count_of(const struct line *l, const char *word)
{
    size_t n = strlen(word);
    int64_t found = 0;

    for (const char *p = l->from; p + n <= l->to; p++)
        found += memcmp(p, word, n) == 0;
    return found;
}

/* [["tok_embeddings", "layers.0"], ...]: how many layers each list names. */
static void read_parts(struct titan *t, const struct line *l)
{
    static const char word[] = "layers.";
    size_t n = sizeof word - 1;
    int depth = 0;

    t->parts = 0;
    for (const char *p = l->from; p < l->to; p++) {
        depth += (*p == '[') - (*p == ']');
        if (*p == '[' && depth == 2 && t->parts < MAX_PARTS)
            t->part_layers[t->parts++] = 0;
        if (t->parts > 0 && depth == 2 && p + n <= l->to &&
            memcmp(p, word, n) == 0)
            t->part_layers[t->parts - 1]++;
    }
}

/* 4_096 is a number of TOML. */
static void without_underscores(char *s)
{
    char *to = s;

    for (const char *p = s; *p; p++)
        if (*p != '_' || p == s || !isdigit((unsigned char)p[-1]) ||
            !isdigit((unsigned char)p[1]))
            *to++ = *p;
    *to = '\0';
}

static enum pdl_status bad(const struct line *l, const char *what,
                           struct pdl_err *err)
{
    return pdl_fail(err, PDL_EPARSE, "%s:%d: %s: '%.60s' is %s", l->file,
                    l->number, l->key, l->value, what);
}

static enum pdl_status set(struct titan *t, const struct key *k, struct line *l,
                           struct pdl_err *err)
{
    size_t n = strlen(l->value);
    int64_t v;

    if (k->kind == LISTS) {
        read_parts(t, l);
        return PDL_OK;
    }

    if (k->kind == TEXT) {
        char quote = l->value[0];

        if (n < 2 || (quote != '"' && quote != '\'') ||
            l->value[n - 1] != quote)
            return bad(l, "no text in quotes", err);
        trimmed(l->value + 1, l->value + n - 1, (char *)t + k->offset, k->size);
        return PDL_OK;
    }
    if (k->kind == WORD) {
        trimmed(l->value, l->value + n, (char *)t + k->offset, k->size);
        return PDL_OK;
    }
    if (k->kind == YES || k->kind == NO || k->kind == FLOAT8) {
        bool yes = k->kind == FLOAT8 ? count_of(l, "float8") > 0
                   : k->kind == NO   ? strcmp(l->value, "False") == 0
                                     : strcmp(l->value, "true") == 0 ||
                                         strcmp(l->value, "True") == 0;

        memcpy((char *)t + k->offset, &yes, sizeof yes);
        return PDL_OK;
    }
    without_underscores(l->value);
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
    bool known = false;

    while (p < end) {
        const char *e = memchr(p, '\n', (size_t)(end - p));

        e = e ? e : end;
        l.number++;
        if (parse_line(&l, p, e)) {
            e = whole_list(&l, e, end);
            for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
                enum pdl_status st;

                if (strcmp(keys[k].section, l.table) != 0 ||
                    strcmp(keys[k].name, l.key) != 0)
                    continue;
                known = true;
                t->recipe = t->recipe || l.recipe;
                st = set(t, &keys[k], &l, err);
                if (st != PDL_OK)
                    return st;
            }
        }
        p = e < end ? e + 1 : end;
    }
    return l.section[0] || known
               ? PDL_OK
               : pdl_fail(err, PDL_EPARSE,
                          "%s: no [section] and no line 'config.section.key = "
                          "value' in it: not a torchtitan file",
                          name);
}

/* ---- meaning ----------------------------------------------------------- */

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

/* How the schedule is called here; what is not there is a note. */
static void settle_schedule(struct titan *t, struct pdl_launch *out)
{
    static const struct {
        const char *name;
        bool gpipe, v, looped;
        const char *note;
    } rows[] = {
        {"", false, false, false, NULL},
        {"1F1B", false, false, false, NULL},
        {"GPipe", true, false, false, NULL},
        {"Interleaved1F1B", false, false, true, NULL},
        {"LoopedBFS", false, false, true,
         "LoopedBFS is taken as the interleaved schedule"},
        {"InterleavedZeroBubble", false, false, true,
         "InterleavedZeroBubble is taken as the interleaved schedule: its "
         "bubble is smaller"},
        {"ZBVZeroBubble", false, true, false, NULL},
        {"DualPipeV", false, true, false, "DualPipeV is taken as zb-v"},
    };
    struct report_setup *s = &t->setup;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, t->schedule) == 0) {
            s->gpipe = rows[i].gpipe;
            s->zero_bubble_v = rows[i].v;
            s->virtual_stages = rows[i].looped ? 2 : 0;
            if (rows[i].note && s->pipe > 1)
                report_note(out, rows[i].note);
            return;
        }
    report_note(out, "its pipeline schedule is taken as 1f1b");
}

/* Layers of the network, where it is one of the zoo; else 0. */
static int64_t layers_of(const char *model)
{
    struct pdl_zoo_param p;
    char name[80];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(model, ":"), model);
    for (int i = 0; pdl_zoo_param(name, i, &p); i++)
        if (strcmp(p.key, "layers") == 0)
            return p.value;
    return 0;
}

/* As pipeline_llm() counts: so many layers a stage, rounded up, embedding and
 * head counting as the layers that their stages have less. */
static enum pdl_status settle_stages(pdl_arena *a, struct titan *t,
                                     const char *model, struct pdl_err *err)
{
    struct report_setup *s = &t->setup;
    int64_t layers = model ? layers_of(model) : 0, n;
    int64_t all = layers + t->first_less + t->last_less;

    if (s->pipe < 2)
        return PDL_OK;
    if (t->parts > 0)
        return report_stages_given(a, s, t->part_layers, t->parts, err);
    if (layers == 0)
        return PDL_OK;
    n = s->pipe * (s->virtual_stages > 1 || s->zero_bubble_v ? 2 : 1);
    if (t->per_stage > 0 && s->virtual_stages > 1) {
        n = (all + t->per_stage - 1) / t->per_stage;
        n -= n % s->pipe; /* it refuses what does not divide */
        s->virtual_stages = n / s->pipe;
    }
    s->layers = layers;
    return report_stages_share(a, s, n, t->first_less, t->last_less, err);
}

/* Of a recipe: None, FullAC.Config(), SelectiveAC.Config(). */
static void settle_recipe(struct titan *t, struct pdl_launch *out)
{
    struct report_setup *s = &t->setup;

    s->recompute_full = strncmp(t->checkpointing, "FullAC", 6) == 0;
    s->recompute_op = strncmp(t->checkpointing, "SelectiveAC", 11) == 0;
    if (!t->checkpointing[0])
        report_note(out, "no activation_checkpoint in it: nothing is taken to "
                         "be recomputed");
    report_note(out, "what a recipe takes over from another is not known");
    if (t->step_tokens < 1)
        report_note(out, "no num_tokens_per_train_step in it: a step is taken "
                         "to be one micro-batch of each data rank");
    if (s->tokens < 1)
        return;
    s->micro_batch = t->micro_tokens / s->tokens;
    if (s->micro_batch > 0)
        t->local_batch = s->micro_batch;
    s->global_batch = t->step_tokens / s->tokens;
}

/* "2", its default, recomputes every second layer, as a whole. */
static void settle_recompute(struct titan *t, struct pdl_launch *out)
{
    struct report_setup *s = &t->setup;
    bool selective = !t->mode[0] || strcmp(t->mode, "selective") == 0;

    s->recompute_full = strcmp(t->mode, "full") == 0;
    s->recompute_second =
        selective && (!t->option[0] || strcmp(t->option, "2") == 0);
    s->recompute_op = selective && !s->recompute_second;
    if (s->recompute_op && strcmp(t->option, "op") != 0)
        report_note(out, "selective checkpointing of every n-th layer is taken "
                         "as selective-op");
    if (strcmp(t->mode, "memory_budget") == 0)
        report_note(out, "memory_budget checkpointing is taken as none");
}

static void settle(struct titan *t, int64_t pes, struct pdl_launch *out)
{
    struct report_setup *s = &t->setup;
    int64_t inner = (s->tensor ? s->tensor : 1) * (s->pipe ? s->pipe : 1) *
                    (s->context ? s->context : 1);

    s->overlap = true;
    s->seq = s->tensor > 1 && !t->no_seq;
    s->bf16 = !t->type[0] || strcmp(t->type, "bfloat16") == 0;
    s->fp16 = strcmp(t->type, "float16") == 0;
    if (t->local_batch == 0)
        t->local_batch = 8;
    if (t->recipe)
        settle_recipe(t, out);
    else
        settle_recompute(t, out);
    settle_schedule(t, out);
    s->context_gather = !t->recipe && strcmp(t->rotate, "alltoall") != 0;
    s->offload_optimizer = t->offload;
    if (t->offload)
        report_note(out, "enable_cpu_offload is taken as offload=optimizer: "
                         "weights stay on the device");
    if (strcmp(t->reshard, "never") == 0)
        report_note(out, "weights are taken to be gathered again in backward");
    t->replicate = t->replicate ? t->replicate : 1;
    if (t->shard > 1 || t->shard_all || t->shard == 0)
        s->zero = 3;
    if (s->zero == 3 && t->replicate > 1 && t->shard > 1)
        s->zero_group = t->shard;
    s->world = pes > 0        ? pes
               : t->shard > 0 ? inner * t->replicate * t->shard
                              : 0;
    /* one data-parallel rank's batch; with stages it is cut in micro-batches
     * of one sample unless the file says their size */
    if (t->step_tokens > 0)
        return;
    if (s->pipe < 2)
        s->micro_batch = t->local_batch;
    else if (s->micro_batch == 0)
        s->micro_batch = 1;
}

static enum pdl_status read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            int64_t pes, struct pdl_launch *out,
                            struct pdl_err *err)
{
    struct titan t = {.first_less = 1, .last_less = 1};
    enum pdl_status st = read_lines(&t, in, name, err);
    const char *model;

    if (st != PDL_OK)
        return st;
    if (t.setup.tensor > 1 << 20 || t.setup.pipe > 1 << 20 ||
        t.setup.context > 1 << 20 || t.replicate > 1 << 20 ||
        t.shard > 1 << 20 || t.local_batch > 1 << 30)
        return pdl_fail(err, PDL_EPARSE, "%s: a degree is too large", name);
    settle(&t, pes, out);
    if (t.recipe && report_has(in, "Float8LinearConverter"))
        t.setup.fp8 = true;
    if (t.setup.global_batch == 0)
        t.setup.accumulation = t.local_batch / t.setup.micro_batch;
    model = zoo_name(a, &t);
    st = settle_stages(a, &t, model, err);
    if (st == PDL_OK)
        st = report_setup_finish(a, &t.setup, name, out, err);
    out->model = model;
    return st;
}

const struct pdl_launch_reader report_import_torchtitan = {
    .name = "torchtitan",
    .summary = "a torchtitan recipe, or a TOML file (up to 0.2.2)",
    .read = read,
};
