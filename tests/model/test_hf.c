/* config.json of Hugging Face: totals that are known, names that vary, and
 * what is refused and how. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA PDL_SOURCE_DIR "/tests/data/hf/"

struct answer {
    pdl_arena *arena;
    const struct pdl_model *model;
    struct pdl_model_totals totals;
    struct pdl_err err;
    enum pdl_status status;
};

static void ask(struct answer *r, const char *text, size_t len,
                const char *name, const char *dims)
{
    struct pdl_model_options opt = {.dims = dims};

    memset(r, 0, sizeof *r);
    r->arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    r->status = pdl_model_hf(r->arena, (struct pdl_bytes){text, len}, name,
                             &opt, &r->model, &r->err);
    if (r->status == PDL_OK)
        r->status = pdl_model_check(r->model, &r->err);
    if (r->status == PDL_OK)
        r->status = pdl_model_totals(r->model, &r->totals, &r->err);
}

static void ask_text(struct answer *r, const char *text, const char *dims)
{
    ask(r, text, strlen(text), "config.json", dims);
}

static struct pdl_bytes load(pdl_arena *a, const char *file)
{
    struct pdl_bytes in = {NULL, 0};
    struct pdl_err err = {"", ""};
    char path[512];

    snprintf(path, sizeof path, DATA "%s", file);
    if (pdl_file_read(a, path, (size_t)1 << 24, &in, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return in;
}

static int64_t parameters(const char *text, const char *name)
{
    struct answer r;
    int64_t n;

    ask_text(&r, text, NULL);
    if (r.status != PDL_OK)
        fail_msg("%s: %s", name, r.err.msg);
    n = r.totals.parameters;
    pdl_arena_destroy(r.arena);
    return n;
}

/* Cuts the next line off; false at the end. */
static bool next_line(char **rest, char **line)
{
    char *end;

    if (!**rest)
        return false;
    *line = *rest;
    end = strchr(*rest, '\n');
    if (end)
        *end = '\0';
    *rest = end ? end + 1 : *rest + strlen(*rest);
    return true;
}

static void golden_totals_come_out_exactly(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char *rest = pdl_arena_strdup(a, load(a, "golden_params.tsv").data), *line;
    int n = 0;

    (void)state;
    while (next_line(&rest, &line)) {
        char *tab = strchr(line, '\t');
        struct pdl_bytes in;
        struct answer r;

        if (!tab || tab[1] < '0' || tab[1] > '9')
            continue;
        *tab = '\0';
        in = load(a, line);
        ask(&r, in.data, in.len, line, NULL);
        if (r.status != PDL_OK)
            fail_msg("%s", r.err.msg);
        if (r.totals.parameters != strtoll(tab + 1, NULL, 10))
            fail_msg("%s: %lld, want %s", line, (long long)r.totals.parameters,
                     tab + 1);
        assert_int_equal(r.model->nunknown, 0);
        pdl_arena_destroy(r.arena);
        n++;
    }
    assert_int_equal(n, 19);
    pdl_arena_destroy(a);
}

static void published_totals_come_out_exactly(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char *rest = pdl_arena_strdup(a, load(a, "published.tsv").data), *line;
    int n = 0;

    (void)state;
    while (next_line(&rest, &line)) {
        char *how = strchr(line, '\t'), *name, *json;
        int64_t got;

        if (line[0] == '#' || !how)
            continue;
        name = strchr(how + 1, '\t') + 1;
        json = strchr(name, '\t');
        *json++ = '\0';
        got = parameters(json, name);
        if (got != strtoll(line, NULL, 10))
            fail_msg("%s: %lld, want %s", name, (long long)got, line);
        n++;
    }
    assert_true(n >= 114);
    pdl_arena_destroy(a);
}

/* Files of the collection that golden_params.tsv does not cover. Towers of
 * images count too; the totals are those of the published checkpoints. */
static void every_file_of_the_collection_is_read(void **state)
{
    static const struct {
        const char *file;
        int64_t parameters;
        const char *unknown;
    } files[] = {
        {"gemma-4-31b-it.json", 31273086512, NULL},
        {"gpt-oss-120b.json", 116829156672, NULL},
        {"gpt-oss-20b.json", 20914757184, NULL},
        {"ipextest-bloom.json", 564168704, NULL},
        {"ipextest-chatglm.json", 359932416, NULL},
        {"ipextest-codegen.json", 260116480, NULL},
        {"ipextest-deepseekv2.json", 1034805760, NULL},
        {"ipextest-falcon.json", 179318784, NULL},
        {"ipextest-gptbigcode.json", 227059968, NULL},
        {"ipextest-gptj.json", 614290656, NULL},
        {"ipextest-gptneox.json", 324057088, NULL},
        {"ipextest-jamba.json", 895707928, NULL},
        {"ipextest-llama.json", 464531456, NULL},
        {"ipextest-mixtral.json", 848320512, NULL},
        {"ipextest-mpt.json", 153622528, NULL},
        {"ipextest-opt.json", 157517824, NULL},
        {"ipextest-phi.json", 340871680, NULL},
        {"ipextest-t5.json", 23793664, NULL},
        {"ipextest-whisper.json", 120023040, NULL},
        {"llama-3.2-11b-vision-instruct.json", 10670220835, NULL},
        {"mpt-7b.json", 6649286656, NULL},
        {"qwen2.5-vl-3b-instruct.json", 3754622976, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in = load(a, files[i].file);
        struct answer r;

        ask(&r, in.data, in.len, files[i].file, NULL);
        if (r.status != PDL_OK)
            fail_msg("%s", r.err.msg);
        if (r.totals.parameters != files[i].parameters)
            fail_msg("%s: %lld", files[i].file, (long long)r.totals.parameters);
        assert_int_equal(r.model->nunknown, files[i].unknown != NULL);
        if (files[i].unknown)
            assert_string_equal(r.model->unknown_ops[0], files[i].unknown);
        pdl_arena_destroy(r.arena);
        pdl_arena_destroy(a);
    }
}

#define LLAMA                                                 \
    "{\"model_type\": \"llama\", \"hidden_size\": 64, "       \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "  \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 96, " \
    "\"vocab_size\": 100"

/* By hand: 2 x 100 x 64 tables, 64 the last norm, two layers of 2 x 64 norms,
 * (2 x 64 + 2 x 32) x 64 attention, 3 x 96 x 64 feed-forward. */
static void a_small_llama_is_counted_by_hand(void **state)
{
    (void)state;
    assert_int_equal(parameters(LLAMA "}", "llama"),
                     2 * 100 * 64 + 64 + 2 * (128 + 192 * 64 + 3 * 96 * 64));
    /* and the test notices a head of another width */
    assert_int_not_equal(parameters(LLAMA ", \"head_dim\": 32}", "llama"),
                         parameters(LLAMA "}", "llama"));
}

static void null_is_the_same_as_absent(void **state)
{
    (void)state;
    assert_int_equal(parameters(LLAMA ", \"head_dim\": null, "
                                      "\"sliding_window\": null, "
                                      "\"tie_word_embeddings\": null}",
                                "null"),
                     parameters(LLAMA "}", "absent"));
}

static void numbers_that_python_writes_are_read(void **state)
{
    (void)state;
    assert_int_equal(parameters(LLAMA ", \"time_step_limit\": [0.0, Infinity], "
                                      "\"rope_theta\": 1e6, \"eps\": NaN}",
                                "infinity"),
                     parameters(LLAMA "}", "plain"));
}

static void a_nested_language_model_is_found_with_its_defaults(void **state)
{
    struct answer r;

    (void)state;
    ask_text(&r,
             "{\"model_type\": \"fuyu\", \"vision_config\": {}, "
             "\"text_config\": {\"model_type\": \"llama\", "
             "\"vocab_size\": 32064}}",
             NULL);
    assert_int_equal(r.status, PDL_OK);
    assert_int_equal(r.totals.parameters, 6738415616 + 2 * 64 * INT64_C(4096));
    assert_int_equal(r.model->nunknown, 1);
    assert_string_equal(r.model->unknown_ops[0], "vision_config");
    pdl_arena_destroy(r.arena);
}

static void an_unknown_type_with_llama_keys_is_built_and_named(void **state)
{
    struct answer r;

    (void)state;
    ask_text(&r,
             "{\"model_type\": \"llamoid\", \"hidden_size\": 64, "
             "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": 2, \"intermediate_size\": 96, "
             "\"vocab_size\": 100}",
             NULL);
    assert_int_equal(r.status, PDL_OK);
    assert_int_equal(r.totals.parameters, parameters(LLAMA "}", "llama"));
    assert_int_equal(r.model->nunknown, 1);
    assert_string_equal(r.model->unknown_ops[0], "model_type:llamoid");
    pdl_arena_destroy(r.arena);
}

/* An unknown type with the keys of a known one has the same total. */
static void an_unknown_type_has_the_experts_its_keys_name(void **state)
{
    static const struct {
        const char *file, *type;
        int64_t parameters;
    } cases[] = {
        {"mixtral-8x7b-v0.1.json", "mixtral", 46702792704},
        /* without 256 corrections of the router in 58 layers */
        {"deepseek-v3.json", "deepseek_v3", 671026419200 - 58 * 256},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        char *text = pdl_arena_strdup(a, load(a, cases[i].file).data), *at;
        struct answer r;

        at = strstr(text, cases[i].type); /* the value of model_type */
        while (at) {
            at[0] = 'X';
            at = strstr(at, cases[i].type);
        }
        ask_text(&r, text, NULL);
        if (r.status != PDL_OK)
            fail_msg("%s", r.err.msg);
        assert_int_equal(r.totals.parameters, cases[i].parameters);
        assert_int_equal(r.model->nunknown, 1);
        pdl_arena_destroy(r.arena);
        pdl_arena_destroy(a);
    }
}

static void a_tied_head_is_one_tensor(void **state)
{
    struct answer r;
    const struct pdl_node *head;

    (void)state;
    ask_text(&r, LLAMA ", \"tie_word_embeddings\": true}", NULL);
    assert_int_equal(r.status, PDL_OK);
    head = &r.model->nodes[r.model->nnodes - 1];
    assert_string_equal(head->name, "head");
    assert_int_equal(head->weights[0], r.model->nodes[0].weights[0]);
    pdl_arena_destroy(r.arena);
    assert_int_equal(
        parameters(LLAMA "}", "untied") -
            parameters(LLAMA ", \"tie_word_embeddings\": true}", "tied"),
        100 * 64);
}

static void equal_layers_are_one_segment(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes in = load(a, "deepseek-v3.json");
    struct answer r;
    char name[128];

    (void)state;
    ask(&r, in.data, in.len, "deepseek-v3.json", NULL);
    assert_int_equal(r.status, PDL_OK);
    assert_int_equal(r.model->nsegments, 4);
    assert_int_equal(r.model->segments[1].repeat, 3);
    assert_int_equal(r.model->segments[2].repeat, 58);
    assert_int_equal(r.model->segments[2].first_index, 3);
    assert_string_equal(pdl_node_name(r.model, r.model->segments[2].first_node,
                                      57, name, sizeof name),
                        "layers.60.attn.norm");
    pdl_arena_destroy(r.arena);
    pdl_arena_destroy(a);
}

static void a_deep_model_needs_no_more_memory(void **state)
{
    size_t used[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct answer r;

        ask_text(&r,
                 i ? "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": "
                     "90000, \"n_head\": 4, \"vocab_size\": 100}"
                   : "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": "
                     "10002, \"n_head\": 4, \"vocab_size\": 100}",
                 NULL);
        assert_int_equal(r.status, PDL_OK);
        used[i] = pdl_arena_used(r.arena);
        pdl_arena_destroy(r.arena);
    }
    assert_int_equal(used[0], used[1]);
}

static void the_sequence_is_what_was_asked_for(void **state)
{
    static const struct {
        const char *more, *dims;
        int64_t tokens;
    } cases[] = {
        {"}", NULL, 2048},
        {", \"max_position_embeddings\": 131072}", NULL, 4096},
        {", \"max_position_embeddings\": 512}", NULL, 512},
        {"}", "seq=777", 777},
        {"}", "batch=8,seq=131072", 131072},
        {"}", "batch=8,sequence_length=9", 9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        struct answer r;

        snprintf(text, sizeof text, LLAMA "%s", cases[i].more);
        ask_text(&r, text, cases[i].dims);
        assert_int_equal(r.status, PDL_OK);
        assert_int_equal(r.model->tokens, cases[i].tokens);
        pdl_arena_destroy(r.arena);
    }
}

static void names_vary_and_mean_the_same(void **state)
{
    static const char *const same[] = {
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"
        "\"vocab_size\":50,\"n_positions\":32}",
        "{\"model_type\":\"gpt2\",\"hidden_size\":64,\"num_hidden_layers\":3,"
        "\"num_attention_heads\":4,\"vocab_size\":50,\"n_ctx\":32}",
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"
        "\"n_inner\":256,\"vocab_size\":50,\"n_positions\":32.0}",
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"
        "\"n_inner\":null,\"vocab_size\":50,\"n_positions\":32}",
    };
    int64_t want = 50 * 64 + 32 * 64 + 128 + 3 * (12 * 64 * 64 + 13 * 64);

    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_int_equal(parameters(same[i], same[i]), want);
}

static void the_architecture_decides_about_the_head(void **state)
{
    static const struct {
        const char *architecture;
        int64_t more; /* than the bare model */
    } cases[] = {
        {"LlamaModel", 0},
        {"LlamaForCausalLM", 6400},
        {"LlamaForSequenceClassification", 2 * 64},
        {"LlamaForTokenClassification", 2 * 64 + 2},
    };
    int64_t bare = parameters(LLAMA "}", "llama") - 6400;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];

        snprintf(text, sizeof text, LLAMA ", \"architectures\": [\"%s\"]}",
                 cases[i].architecture);
        assert_int_equal(parameters(text, cases[i].architecture),
                         bare + cases[i].more);
    }
}

static const struct {
    const char *text, *msg, *hint;
} bad_input[] = {
    {"", "config.json:1:1: unexpected token near end of file", NULL},
    {"[1]", "config.json:1:1: expected an object { }", ""},
    {"{}", "config.json:1:1: the key model_type is missing",
     "is this the config.json of a Hugging Face model?"},
    {"{\"model_type\": 7, \"hidden_size\": 64}",
     "config.json:1:16: model_type '7' is not known, and without "
     "num_hidden_layers it cannot be read like Llama",
     NULL},
    {"{\"model_type\": [\"llama\"]}",
     "config.json:1:16: model_type: expected text", ""},
    {"{\"model_type\": \"lama\"}",
     "config.json:1:16: model_type 'lama' is not known, and without "
     "hidden_size it cannot be read like Llama",
     "did you mean 'llama'?"},
    {"{\"model_type\": \"llama\"}",
     "config.json:1:1: the key hidden_size is missing", NULL},
    {"{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n "
     "\"num_hidden_layers\": 2,\n \"num_attention_heads\": 5,\n "
     "\"intermediate_size\": 96, \"vocab_size\": 100}",
     "config.json:4:25: hidden_size (64) is not divisible by "
     "num_attention_heads (5)",
     ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 3, \"intermediate_size\": 96, "
     "\"vocab_size\": 100}",
     "config.json:1:117: num_attention_heads (4) is not divisible by "
     "num_key_value_heads (3)",
     ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": -64}",
     "config.json:1:40: hidden_size: -64 is outside 0 to 1073741824", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 9223372036854775808}",
     "config.json:1:40: hidden_size: 9223372036854775808 is outside 0 to "
     "1073741824",
     ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 64.5}",
     "config.json:1:40: hidden_size: '64.5' is not a whole number", NULL},
    {"{\"model_type\": \"llama\", \"hidden_size\": \"64\"}",
     "config.json:1:40: hidden_size: expected a number, found text "
     "\"64\"",
     ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": [64]}",
     "config.json:1:40: hidden_size: expected a whole number, found a "
     "list",
     ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 0, "
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"intermediate_size\": 96, \"vocab_size\": 100}",
     "config.json:1:40: hidden_size must be at least 1", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 0, \"num_attention_heads\": 4, "
     "\"intermediate_size\": 96, \"vocab_size\": 100}",
     "config.json:1:65: num_hidden_layers must be at least 1", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 2000000, \"num_attention_heads\": 4, "
     "\"intermediate_size\": 96, \"vocab_size\": 100}",
     "config.json:1:65: num_hidden_layers is too large", ""},
    {LLAMA ", \"hidden_size\": 65}", NULL, NULL},
    {"{\"model_type\": \"mixtral\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
     "\"intermediate_size\": 96, \"vocab_size\": 100, "
     "\"num_local_experts\": 4, \"num_experts_per_tok\": 5}",
     "config.json:1:187: num_experts_per_tok (5) is not between 1 and "
     "num_local_experts (4)",
     ""},
    {"{\"model_type\": \"qwen3\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 3, \"num_attention_heads\": 8, "
     "\"intermediate_size\": 96, \"vocab_size\": 100, "
     "\"layer_types\": [\"full_attention\"]}",
     "config.json:1:153: layer_types has fewer entries than there are "
     "layers",
     ""},
    {"{\"model_type\": \"qwen3\", \"hidden_size\": 64, "
     "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
     "\"intermediate_size\": 96, \"vocab_size\": 100, "
     "\"layer_types\": [\"magic\"]}",
     "config.json:1:154: unknown layer type 'magic'", ""},
    {"{\"model_type\": \"odd\", \"text_config\": {}}",
     "config.json:1:16: model_type 'odd' is not known, and without "
     "hidden_size it cannot be read like Llama",
     NULL},
    {"{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"a\": \"b\"}}",
     "config.json:1:47: the index of a sharded checkpoint names tensors "
     "but not their shapes",
     "give the config.json beside it, or a shard"},
};

/* Every message is one line with the place of the fault. */
static void bad_input_is_refused_in_one_clear_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_input / sizeof bad_input[0]; i++) {
        struct answer r;

        ask_text(&r, bad_input[i].text, NULL);
        if (r.status == PDL_OK)
            fail_msg("accepted: %s", bad_input[i].text);
        if (bad_input[i].msg && strcmp(r.err.msg, bad_input[i].msg) != 0)
            fail_msg("%s\n  says: %s\n  want: %s", bad_input[i].text, r.err.msg,
                     bad_input[i].msg);
        if (bad_input[i].hint && strcmp(r.err.hint, bad_input[i].hint) != 0)
            fail_msg("%s\n  hints: %s", bad_input[i].text, r.err.hint);
        assert_null(strchr(r.err.msg, '\n'));
        pdl_arena_destroy(r.arena);
    }
}

static void a_sequence_longer_than_the_positions_is_refused(void **state)
{
    struct answer r;

    (void)state;
    ask_text(&r,
             "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,"
             "\"n_head\":4,\"vocab_size\":50,\"n_positions\":32}",
             "seq=33");
    assert_int_equal(r.status, PDL_EPARSE);
    assert_string_equal(r.err.msg,
                        "config.json:1:87: a sequence of 33 is longer than the "
                        "32 positions the model has learned");
    pdl_arena_destroy(r.arena);
    ask_text(&r, LLAMA "}", "seq=x");
    assert_int_equal(r.status, PDL_EINVAL);
    assert_string_equal(r.err.msg, "--dim seq: 'x' is not a whole number");
    pdl_arena_destroy(r.arena);
    ask_text(&r, LLAMA "}", "sqe=8");
    assert_string_equal(r.err.msg, "--dim: no dimension 'sqe'");
    assert_string_equal(r.err.hint, "a config.json has seq, the tokens of a "
                                    "sample, and head=1 for an encoder");
    pdl_arena_destroy(r.arena);
    ask_text(&r, LLAMA "}", "seq");
    assert_string_equal(r.err.msg, "--dim: 'seq' is not name=N");
    pdl_arena_destroy(r.arena);
}

/* MPT writes words where others write numbers. */
static void a_scale_that_is_a_word_is_named_not_refused(void **state)
{
    static const struct {
        const char *key;
        bool odd;
    } rows[] = {
        {", \"logit_scale\": \"inv_sqrt_d_model\"}", true},
        {", \"logit_scale\": 0.25}", true},
        {", \"logit_scale\": 1}", false},
        {", \"logit_scale\": null}", false},
        {", \"logit_scale\": false}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        char *text = pdl_arena_printf(a, "%s%s", LLAMA, rows[i].key);
        const struct pdl_model *m;

        assert_int_equal(pdl_model_hf(a, (struct pdl_bytes){text, strlen(text)},
                                      "config.json", NULL, &m, NULL),
                         PDL_OK);
        assert_true((m->inexact != NULL) == rows[i].odd);
        pdl_arena_destroy(a);
    }
}

/* What gates a layer is what the file says, or it is said that it is not. */
static void the_function_of_a_gate_is_the_files(void **state)
{
    static const struct {
        const char *act, *op;
        bool odd;
    } rows[] = {
        {"silu", "silu", false}, {"gelu", "gelu", false},
        {"relu", "relu", false}, {"gelu_new", "gelu", false},
        {"wurst", "silu", true}, {"relu2", "silu", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        char *text = pdl_arena_printf(a, "%s, \"hidden_act\": \"%s\"}", LLAMA,
                                      rows[i].act);
        const struct pdl_model *m;
        int n = 0;

        assert_int_equal(pdl_model_hf(a, (struct pdl_bytes){text, strlen(text)},
                                      "config.json", NULL, &m, NULL),
                         PDL_OK);
        for (int k = 0; k < m->nnodes; k++)
            n += strcmp(m->nodes[k].op->name, rows[i].op) == 0;
        assert_true(n > 0);
        assert_true((m->inexact != NULL) == rows[i].odd);
        pdl_arena_destroy(a);
    }
}

static void too_little_memory_is_said(void **state)
{
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;
    enum pdl_status st = PDL_ENOMEM;
    size_t limit;

    (void)state;
    for (limit = 0; st != PDL_OK && limit < (1 << 20); limit += 512) {
        pdl_arena *a = pdl_arena_create(limit);

        if (!a)
            continue;
        st = pdl_model_hf(a, (struct pdl_bytes){LLAMA "}", strlen(LLAMA "}")},
                          "config.json", NULL, &m, &err);
        assert_true(st == PDL_OK || st == PDL_ENOMEM);
        pdl_arena_destroy(a);
    }
    assert_int_equal(st, PDL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_totals_come_out_exactly),
        cmocka_unit_test(the_function_of_a_gate_is_the_files),
        cmocka_unit_test(published_totals_come_out_exactly),
        cmocka_unit_test(every_file_of_the_collection_is_read),
        cmocka_unit_test(a_small_llama_is_counted_by_hand),
        cmocka_unit_test(null_is_the_same_as_absent),
        cmocka_unit_test(numbers_that_python_writes_are_read),
        cmocka_unit_test(a_nested_language_model_is_found_with_its_defaults),
        cmocka_unit_test(an_unknown_type_with_llama_keys_is_built_and_named),
        cmocka_unit_test(an_unknown_type_has_the_experts_its_keys_name),
        cmocka_unit_test(a_tied_head_is_one_tensor),
        cmocka_unit_test(equal_layers_are_one_segment),
        cmocka_unit_test(a_deep_model_needs_no_more_memory),
        cmocka_unit_test(the_sequence_is_what_was_asked_for),
        cmocka_unit_test(names_vary_and_mean_the_same),
        cmocka_unit_test(the_architecture_decides_about_the_head),
        cmocka_unit_test(bad_input_is_refused_in_one_clear_line),
        cmocka_unit_test(a_sequence_longer_than_the_positions_is_refused),
        cmocka_unit_test(a_scale_that_is_a_word_is_named_not_refused),
        cmocka_unit_test(too_little_memory_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
