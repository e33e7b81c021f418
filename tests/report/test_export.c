/* Exports: thousands of random plans, each either refused with one line or
 * written as something whose own rules hold. The rules are checked on the
 * text that came out, not on what went in. */
#include "export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static pdl_arena *arena;

/* ---- random plans ------------------------------------------------------------- */

static int64_t pick(struct pdl_rng *r, const int64_t *of, int n)
{
    return of[pdl_rng_below(r, (uint64_t)n)];
}

static void random_strategy(struct pdl_rng *r, char *text, size_t size)
{
    static const int64_t small[] = {1, 1, 1, 2, 4, 8}, any[] = {1, 2, 3, 4, 8};
    static const char *const schedules[] = {"1f1b", "1f1b", "gpipe",
                                            "interleaved,v=2", "zb-h1"};
    static const char *const extras[] = {
        "",        ",recompute=full", ",recompute=selective", ",overlap=off",
        ",zero=1", ",zero=3",         ",offload=optimizer",   ",zero=2"};
    int64_t pipe = pick(r, small, 6), tensor = pick(r, small, 6);
    char first[64] = "";

    if (pipe > 1)
        snprintf(first, sizeof first, "pipe=%lld(%s,m=%lld),", (long long)pipe,
                 schedules[pdl_rng_below(r, 5)],
                 (long long)pick(r, any, 5) * 4);
    snprintf(text, size, "%sdata=%lld,expert=%lld,context=%lld,tensor=%lld%s%s",
             first, (long long)pick(r, any, 5), (long long)pick(r, small, 6),
             (long long)pick(r, small, 6), (long long)tensor,
             tensor > 1 && pdl_rng_below(r, 2) ? "+seq" : "",
             extras[pdl_rng_below(r, 8)]);
}

struct draw {
    struct pdl_system sys;
    struct pdl_strategy strategy;
    struct pdl_export_job job;
};

static bool draw_job(struct pdl_rng *r, struct draw *d)
{
    static const char *const models[] = {"gpt2",         "llama3-8b",
                                         "mixtral-8x7b", "gpt3-175b",
                                         "deepseek-v3",  "qwen3-8b"};
    static const int64_t batches[] = {64, 96, 192, 512, 1536, 60};
    char text[256];

    random_strategy(r, text, sizeof text);
    if (pdl_strategy_parse(arena, text, &d->strategy, NULL) != PDL_OK)
        return false;
    d->job = (struct pdl_export_job){.strategy = &d->strategy,
                                     .system = &d->sys,
                                     .batch = pick(r, batches, 6),
                                     .precision = PDL_PREC_BF16,
                                     .step_s = 1.5};
    assert_int_equal(pdl_model_load(arena, models[pdl_rng_below(r, 6)], NULL,
                                    &d->job.model, NULL),
                     PDL_OK);
    return true;
}

/* ---- reading what was written --------------------------------------------------- */

static int64_t number(const char *text, const char *name)
{
    const char *p = strstr(text, name);

    return p ? strtoll(p + strlen(name), NULL, 10) : 0;
}

static char *flags; /* "\n--a\n--b\n" */

static void load_flags(void)
{
    struct pdl_bytes in;

    assert_int_equal(
        pdl_file_read(arena,
                      PDL_SOURCE_DIR "/tests/data/report/megatron_flags.txt",
                      1 << 20, &in, NULL),
        PDL_OK);
    flags = malloc(in.len + 2);
    assert_non_null(flags);
    flags[0] = '\n';
    memcpy(flags + 1, in.data, in.len);
    flags[in.len + 1] = '\0';
}

static void every_flag_exists(const char *script)
{
    const char *p = strstr(script, "MODEL_ARGS=(");

    while (p && (p = strstr(p, "\n    --")) != NULL) {
        size_t n = strcspn(p + 5, " \n");
        char line[128];

        snprintf(line, sizeof line, "\n%.*s\n", (int)n, p + 5);
        if (!strstr(flags, line))
            fail_msg("no such flag:%s", line);
        p += 5;
    }
}

static void megatron_rules_hold(const char *s)
{
    int64_t world = number(s, "--nproc-per-node ") * number(s, "--nnodes ");
    int64_t tp = number(s, "--tensor-model-parallel-size ");
    int64_t pp = number(s, "--pipeline-model-parallel-size ");
    int64_t cp = number(s, "--context-parallel-size ");
    int64_t ep = number(s, "--expert-model-parallel-size ");
    int64_t b = number(s, "--micro-batch-size ");
    int64_t v = number(s, "--num-virtual-stages-per-pipeline-rank ");
    int64_t layers = number(s, "--num-layers ");
    int64_t batch = number(s, "--global-batch-size ");
    int64_t dp = world / (tp * pp * cp), m;

    assert_int_equal(dp * tp * pp * cp, world);
    assert_int_equal(batch % (b * dp), 0);
    m = batch / (b * dp);
    assert_int_equal(layers % (pp * (v ? v : 1)), 0);
    assert_true(v == 0 || m % pp == 0);
    assert_true(!strstr(s, "--sequence-parallel") || tp > 1);
    assert_true(cp == 1 || number(s, "--seq-length ") % (2 * cp) == 0);
    assert_int_equal(number(s, "--num-attention-heads ") % tp, 0);
    if (ep > 0) {
        int64_t etp = number(s, "--expert-tensor-parallel-size ");

        assert_int_equal(number(s, "--num-experts ") % ep, 0);
        assert_int_equal(dp * tp % (ep * etp), 0);
        assert_true(tp == 1 || strstr(s, "--sequence-parallel"));
        assert_int_equal(strstr(s, "-type flex") != NULL,
                         ep > 1 && ep * etp > number(s, "--nproc-per-node "));
    }
    assert_true(!strstr(s, "--overlap-param-gather") ||
                (strstr(s, "--overlap-grad-reduce") &&
                 strstr(s, "--use-distributed-optimizer")));
}

static void scripts_for_megatron_obey_its_rules(void **state)
{
    struct pdl_rng r = {.key = 7};
    struct draw d;
    int written = 0, refused = 0;

    (void)state;
    load_flags();
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    for (int i = 0; i < 6000; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        if (!draw_job(&r, &d))
            continue;
        pdl_buf_init(&b);
        if (pdl_export(&d.job, "megatron", &b.sink, &err) == PDL_OK) {
            every_flag_exists(b.text);
            megatron_rules_hold(b.text);
            written++;
        } else {
            assert_true(*err.msg && !strchr(err.msg, '\n'));
            assert_int_equal(b.len, 0);
            refused++;
        }
        pdl_buf_free(&b);
    }
    assert_true(written > 300);
    assert_true(refused > 300);
    free(flags);
}

static void deepspeed_batches_multiply(void **state)
{
    struct pdl_rng r = {.key = 8};
    struct draw d;
    int written = 0;

    (void)state;
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    for (int i = 0; i < 2000; i++) {
        struct pdl_buf b;
        struct pdl_mesh mesh;
        int64_t model;

        if (!draw_job(&r, &d))
            continue;
        pdl_buf_init(&b);
        if (pdl_export(&d.job, "deepspeed", &b.sink, NULL) == PDL_OK) {
            assert_int_equal(pdl_mesh_make(&d.strategy, &mesh, NULL), PDL_OK);
            model = (number(b.text, "\"autotp_size\": ") + 0);
            model = model ? model : 1;
            if (strstr(b.text, "sequence_parallel_size"))
                model *= number(b.text, "\"sequence_parallel_size\": ");
            assert_int_equal(
                number(b.text, "\"train_batch_size\": "),
                number(b.text, "\"train_micro_batch_size_per_gpu\": ") *
                    number(b.text, "\"gradient_accumulation_steps\": ") *
                    (mesh.pes / model));
            written++;
        }
        pdl_buf_free(&b);
    }
    assert_true(written > 50);
}

static void torchtitan_degrees_multiply_to_the_world(void **state)
{
    struct pdl_rng r = {.key = 9};
    struct draw d;
    int written = 0;

    (void)state;
    assert_int_equal(pdl_system_open(arena, "dgx-h100", &d.sys, NULL), PDL_OK);
    for (int i = 0; i < 2000; i++) {
        struct pdl_buf b;
        struct pdl_mesh mesh;

        if (!draw_job(&r, &d))
            continue;
        pdl_buf_init(&b);
        if (pdl_export(&d.job, "torchtitan-toml", &b.sink, NULL) == PDL_OK) {
            assert_int_equal(pdl_mesh_make(&d.strategy, &mesh, NULL), PDL_OK);
            assert_int_equal(
                number(b.text, "data_parallel_replicate_degree = ") *
                    number(b.text, "data_parallel_shard_degree = ") *
                    number(b.text, "tensor_parallel_degree = ") *
                    number(b.text, "\npipeline_parallel_degree = ") *
                    number(b.text, "context_parallel_degree = "),
                mesh.pes);
            written++;
        }
        pdl_buf_free(&b);
    }
    assert_true(written > 50);
}

/* ---- one by one ------------------------------------------------------------------- */

static void what_cannot_be_said_is_refused(void **state)
{
    static const struct {
        const char *model, *strategy, *format, *what;
    } rows[] = {
        {"resnet50", "data=8", "megatron", "decoder-only"},
        {"gpt2", "filter=8", "megatron", "filter"},
        {"gpt2", "data=8", "nothing", "no export format"},
        {"gpt2", "pipe=4(1f1b,m=4),data=2", "deepspeed", "pipeline"},
        {"gpt2", "pipe=5(1f1b,m=4),data=8", "megatron", "into 5 stages"},
        {"gpt2", "data=4,tensor=2+seq", "deepspeed", "+seq"},
        {"gpt2", "data=8,recompute=selective", "deepspeed", "selective"},
        {"gpt2", "data=8,zero=3,recompute=selective", "torchtitan-toml",
         "selective-op"},
        {"gpt2", "data=8,zero=3,offload=optimizer", "torchtitan", "offload"},
        {"gpt2", "data=8,zero=3,overlap=off", "torchtitan", "overlap"},
        {"gpt2", "data=4,tensor=2,zero=3", "torchtitan-toml", "+seq"},
        {"gpt2", "data=4,context=2(a2a),zero=3", "accelerate", "ring"},
        {"gpt2", "data=8,zero=3,recompute=selective", "accelerate", "layer"},
        {"gpt2", "data=8,zero=1", "torchtitan", "zero=3"},
        {"gpt2", "pipe=2(1f1b,m=4),data=4", "accelerate", "pipelines"},
        {"gpt2", "tensor=2,data=4", "megatron", "ordered"},
    };
    struct draw d;

    (void)state;
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        assert_int_equal(
            pdl_strategy_parse(arena, rows[i].strategy, &d.strategy, NULL),
            PDL_OK);
        d.job = (struct pdl_export_job){
            .strategy = &d.strategy, .system = &d.sys, .batch = 64};
        assert_int_equal(
            pdl_model_load(arena, rows[i].model, NULL, &d.job.model, NULL),
            PDL_OK);
        pdl_buf_init(&b);
        assert_int_equal(pdl_export(&d.job, rows[i].format, &b.sink, &err),
                         PDL_EINVAL);
        if (!strstr(err.msg, rows[i].what))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].what);
        pdl_buf_free(&b);
    }
}

/* A config.json of this type and with these keys as Megatron's script, or why
 * there is none. */
static void export_config(const char *keys, struct pdl_buf *b,
                          struct pdl_err *err)
{
    struct draw d;
    const char *text = pdl_arena_printf(
        arena,
        "{\"hidden_size\": 64, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
        "\"intermediate_size\": 128, \"vocab_size\": 256, "
        "\"max_position_embeddings\": 64, %s}",
        keys);

    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    assert_int_equal(pdl_strategy_parse(arena, "data=8", &d.strategy, NULL),
                     PDL_OK);
    d.job = (struct pdl_export_job){
        .strategy = &d.strategy, .system = &d.sys, .batch = 64};
    if (pdl_model_hf(arena, (struct pdl_bytes){text, strlen(text)},
                     "config.json", NULL, &d.job.model, err) != PDL_OK)
        fail_msg("%s: %s", keys, err->msg);
    *err = (struct pdl_err){"", ""};
    (void)pdl_export(&d.job, "megatron", &b->sink, err);
}

#define MOE "\"num_experts\": 4, \"num_experts_per_tok\": 2"

/* What a configuration has and the script cannot say is named, also where the
 * file leaves it to its class. */
static void configurations_are_exported_whole_or_not(void **state)
{
    static const struct {
        const char *keys, *what;
    } rows[] = {
        {"\"model_type\": \"opt\", \"ffn_dim\": 128, "
         "\"word_embed_proj_dim\": 64, \"do_layer_norm_before\": true",
         "ReLU"},
        {"\"model_type\": \"gemma\", \"head_dim\": 16", "gates of GELU"},
        {"\"model_type\": \"gemma\", \"head_dim\": 16", "of embeddings"},
        {"\"model_type\": \"olmo\"", "norms without weights"},
        {"\"model_type\": \"olmoe\", " MOE, "over all heads"},
        {"\"model_type\": \"granite\", \"logits_scaling\": 8", "of logits"},
        {"\"model_type\": \"glm\", \"head_dim\": 16, "
         "\"attention_bias\": true",
         "a part of each head"},
        {"\"model_type\": \"nemotron\"", "activation function"},
        {"\"model_type\": \"smollm3\"", "layers without positions"},
        {"\"model_type\": \"llama\", \"mlp_bias\": true", "some layers"},
        {"\"model_type\": \"llamb\"", "model_type that is not known"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        pdl_buf_init(&b);
        export_config(rows[i].keys, &b, &err);
        if (!strstr(err.msg, rows[i].what))
            fail_msg("%s: '%s' does not say '%s'", rows[i].keys, err.msg,
                     rows[i].what);
        pdl_buf_free(&b);
    }
}

/* What it can say stands there. */
static void routers_and_norms_are_written(void **state)
{
    static const struct {
        const char *keys, *has, *has_not;
    } rows[] = {
        {"\"model_type\": \"llama\", \"rms_norm_eps\": 1e-5",
         "--norm-epsilon 1e-05", "--moe-"},
        {"\"model_type\": \"qwen3_moe\", \"head_dim\": 16, "
         "\"norm_topk_prob\": true, \"moe_intermediate_size\": 64, " MOE,
         "--moe-router-topk 2", "--moe-router-pre-softmax"},
        {"\"model_type\": \"qwen3_moe\", \"head_dim\": 16, "
         "\"norm_topk_prob\": false, \"moe_intermediate_size\": 64, " MOE,
         "--moe-router-pre-softmax", "--moe-router-num-groups"},
        {"\"model_type\": \"deepseek\", \"n_routed_experts\": 4, "
         "\"num_experts_per_tok\": 2, \"routed_scaling_factor\": 2.5, "
         "\"n_group\": 2, \"topk_group\": 1",
         "--moe-router-topk-scaling-factor 2.5\n"
         "    --moe-router-num-groups 2\n    --moe-router-group-topk 1\n",
         "sigmoid"},
    };

    (void)state;
    load_flags();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        pdl_buf_init(&b);
        export_config(rows[i].keys, &b, &err);
        if (!b.text || !strstr(b.text, rows[i].has) ||
            strstr(b.text, rows[i].has_not))
            fail_msg("%s: %s%s", rows[i].keys, err.msg, b.text ? b.text : "");
        every_flag_exists(b.text);
        pdl_buf_free(&b);
    }
    free(flags);
}

/* Reads a schedule back: the tasks of each row, and whether each comes after
 * what it needs by the columns alone. */
static int64_t read_csv(const char *text, const struct pdl_tasks *want)
{
    static int64_t column[3][64][64];
    int64_t n = 0;

    memset(column, 0xff, sizeof column);
    for (int lane = 0; *text; lane++, text++) {
        int64_t k = 0, at = 0;

        for (; *text && *text != '\n'; at++) {
            int stage, micro, used = 0;
            char letter;

            if (sscanf(text, "%d%c%d%n", &stage, &letter, &micro, &used) == 3 &&
                used > 0) {
                const struct pdl_task *t = &want->task[lane][k++];

                assert_int_equal(stage, t->stage);
                assert_int_equal(micro, t->micro);
                assert_int_equal(letter, "FBIW"[t->kind]);
                column[pdl_task_pass(t->kind)][stage][micro] = at;
                text += used;
                n++;
            }
            text += *text == ',';
        }
        assert_int_equal(k, want->n);
    }
    for (int l = 0; l < want->lanes; l++)
        for (int64_t k = 0; k < want->n; k++) {
            const struct pdl_task *t = &want->task[l][k];
            int pass, stage;

            if (pdl_task_needs(want, t, &pass, &stage))
                assert_true(column[pass][stage][t->micro] <
                            column[pdl_task_pass(t->kind)][t->stage][t->micro]);
        }
    return n;
}

static void schedules_read_back_as_they_were_written(void **state)
{
    static const char *const schedules[] = {"1f1b",  "gpipe", "interleaved",
                                            "zb-h1", "zb-h2", "zb-v"};
    struct draw d;

    (void)state;
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    for (int i = 0; i < 6; i++)
        for (int p = 2; p <= 8; p *= 2) {
            struct pdl_err err = {"", ""};
            struct pdl_tasks want;
            struct pdl_buf b;
            char text[64];
            int v = i == 2 || i == 5 ? 2 : 1;

            snprintf(text, sizeof text, "pipe=%d(%s,m=16)", p, schedules[i]);
            assert_int_equal(pdl_strategy_parse(arena, text, &d.strategy, &err),
                             PDL_OK);
            d.job = (struct pdl_export_job){
                .strategy = &d.strategy, .system = &d.sys, .batch = 16};
            pdl_buf_init(&b);
            if (pdl_export(&d.job, "pipeline-csv", &b.sink, &err) != PDL_OK)
                fail_msg("%s: %s", text, err.msg);
            assert_int_equal(pdl_tasks_make(arena, d.strategy.schedule, p,
                                            p * v, 16, &want, &err),
                             PDL_OK);
            assert_int_equal(read_csv(b.text, &want), want.n * p);
            pdl_buf_free(&b);
        }
}

/* A command line with a line break stays a comment. */
static void names_cannot_become_commands(void **state)
{
    const struct pdl_exporter *e;
    struct draw d;

    (void)state;
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &d.sys, NULL), PDL_OK);
    d.job = (struct pdl_export_job){.strategy = &d.strategy,
                                    .system = &d.sys,
                                    .batch = 64,
                                    .precision = pdl_precision_find("bf16"),
                                    .command = "paradl\nrm -rf x"};
    assert_int_equal(
        pdl_model_load(arena, "llama3-8b", NULL, &d.job.model, NULL), PDL_OK);
    for (int i = 0; (e = pdl_exporter_at(i)) != NULL; i++) {
        struct pdl_buf b;

        assert_int_equal(pdl_strategy_parse(arena,
                                            strcmp(e->name, "pipeline-csv") == 0
                                                ? "pipe=2(m=4),data=4"
                                                : "data=8",
                                            &d.strategy, NULL),
                         PDL_OK);
        pdl_buf_init(&b);
        assert_int_equal(e->write(&d.job, &b.sink, NULL), PDL_OK);
        assert_null(strstr(b.text, "\nrm"));
        pdl_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_for_megatron_obey_its_rules),
        cmocka_unit_test(deepspeed_batches_multiply),
        cmocka_unit_test(torchtitan_degrees_multiply_to_the_world),
        cmocka_unit_test(what_cannot_be_said_is_refused),
        cmocka_unit_test(configurations_are_exported_whole_or_not),
        cmocka_unit_test(routers_and_norms_are_written),
        cmocka_unit_test(schedules_read_back_as_they_were_written),
        cmocka_unit_test(names_cannot_become_commands),
    };
    int rc;

    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pdl_arena_destroy(arena);
    return rc;
}
