/* Launch files of other programs: what we export comes back as the same job,
 * scripts as people write them are understood, nonsense is one line. */
#include "import.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static pdl_arena *arena;

static enum pdl_status read_text(const char *format, const char *text,
                                 int64_t pes, struct pdl_launch *out,
                                 struct pdl_err *err)
{
    return pdl_launch_read(arena, format,
                           (struct pdl_bytes){text, strlen(text)}, "run.sh",
                           pes, out, err);
}

static const char *canonical(const char *text)
{
    struct pdl_strategy *s = PDL_NEW(arena, struct pdl_strategy, 1);
    struct pdl_buf b;
    const char *out;

    assert_int_equal(pdl_strategy_parse(arena, text, s, NULL), PDL_OK);
    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    out = pdl_arena_strdup(arena, b.text);
    pdl_buf_free(&b);
    return out;
}

static void what_is_exported_comes_back(void **state)
{
    static const struct {
        const char *model, *strategy, *format;
        int64_t batch;
    } rows[] = {
        {"gpt2", "data=16", "megatron", 64},
        {"gpt3-175b", "pipe=8(1f1b,m=16),data=4,tensor=8+seq,recompute=full",
         "megatron", 64},
        {"gpt3-175b", "pipe=8(interleaved,m=16,v=2),data=4,tensor=8,zero=1",
         "megatron", 64},
        {"mixtral-8x7b", "data=4,expert=8,tensor=2+seq,zero=1,overlap=off",
         "megatron", 128},
        {"qwen3-30b-a3b", "data=2,expert=16,tensor=2+seq,zero=1,overlap=off",
         "megatron", 128},
        {"llama3-8b", "data=4,context=2,tensor=4+seq,accumulate=4,zero=3",
         "megatron", 64},
        {"llama3-8b", "data=4,pipe=4(1f1b,m=4),tensor=4+seq,zero=1", "megatron",
         64},
        {"gpt2", "data=8,accumulate=2,zero=2", "deepspeed", 64},
        {"llama3-8b", "data=8,tensor=8+seq,zero=3", "torchtitan-toml", 64},
        {"llama3-8b", "pipe=4(gpipe,m=8),data=8,zero=3,recompute=full",
         "torchtitan-toml", 64},
        {"llama3-8b", "data=8,tensor=8+seq,zero=3", "torchtitan", 64},
        {"llama3-8b", "data=4,context=2,zero=3,accumulate=8", "torchtitan", 64},
        {"llama3-8b",
         "pipe=4(1f1b,m=8),data=8,tensor=2,zero=3,recompute=selective-op",
         "torchtitan", 64},
        {"llama3-8b", "pipe=4(gpipe,m=8),data=8,zero=3,recompute=full",
         "torchtitan", 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_strategy strategy;
        struct pdl_system sys;
        struct pdl_export_job job = {.strategy = &strategy,
                                     .system = &sys,
                                     .batch = rows[i].batch,
                                     .precision = PDL_PREC_BF16};
        struct pdl_err err = {"", ""};
        struct pdl_launch back;
        struct pdl_mesh mesh;
        struct pdl_buf b;
        const char *reader =
            strcmp(rows[i].format, "megatron") == 0    ? "megatron-args"
            : strcmp(rows[i].format, "deepspeed") == 0 ? "deepspeed"
                                                       : "torchtitan";

        assert_int_equal(pdl_system_open(arena, "dgx-a100", &sys, NULL),
                         PDL_OK);
        assert_int_equal(
            pdl_strategy_parse(arena, rows[i].strategy, &strategy, NULL),
            PDL_OK);
        assert_int_equal(
            pdl_model_load(arena, rows[i].model, NULL, &job.model, NULL),
            PDL_OK);
        assert_int_equal(pdl_mesh_make(&strategy, &mesh, NULL), PDL_OK);
        pdl_buf_init(&b);
        if (pdl_export(&job, rows[i].format, &b.sink, &err) != PDL_OK ||
            read_text(reader, b.text, mesh.pes, &back, &err) != PDL_OK)
            fail_msg("%s: %s", rows[i].strategy, err.msg);
        assert_string_equal(canonical(back.strategy),
                            canonical(rows[i].strategy));
        assert_int_equal(back.batch, rows[i].batch);
        assert_int_equal(back.pes, mesh.pes);
        assert_int_equal(back.precision, PDL_PREC_BF16);
        pdl_buf_free(&b);
    }
}

/* The network that comes back has the weights that went out, but for the
 * padded vocabulary. */
static void sizes_come_back(void **state)
{
    static const char text[] =
        "TP=8\n"
        "HIDDEN=${HIDDEN:-12288} # default\n"
        "ARGS=(\n"
        "  --num-layers 96 --hidden-size $HIDDEN \\\n"
        "  \"--num-attention-heads=96\"\n"
        "  --tensor-model-parallel-size ${TP}\n"
        "  --pipeline-model-parallel-size 8 --sequence-parallel\n"
        "  --nnodes 16 --nproc-per-node 8 --vocab-size 50257\n"
        "  --micro-batch-size 1 --global-batch-size 64 --seq-length 2048 "
        "--bf16\n"
        ")\n"
        "torchrun pretrain_gpt.py ${ARGS[@]} # --num-layers 3\n";
    const struct pdl_model *m, *ours;
    struct pdl_model_totals t, u;
    struct pdl_launch out;

    (void)state;
    assert_int_equal(read_text("megatron-args", text, 0, &out, NULL), PDL_OK);
    assert_int_equal(out.pes, 128);
    assert_string_equal(out.strategy,
                        "pipe=8(1f1b,m=32),data=2,tensor=8+seq,overlap=off");
    assert_int_equal(pdl_model_load(arena, out.model, NULL, &m, NULL), PDL_OK);
    assert_int_equal(pdl_model_load(arena, "megatron-175b", NULL, &ours, NULL),
                     PDL_OK);
    assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
    assert_int_equal(pdl_model_totals(ours, &u, NULL), PDL_OK);
    assert_int_equal(t.parameters, u.parameters); /* 50257 -> 51200 */
}

/* Launch files in the manners in which people write them, and one thing that
 * each must say. */
#define NET "--num-layers 4 --hidden-size 64 --num-attention-heads 4 "
static const struct {
    const char *format, *text, *strategy;
    int64_t batch;
} scripts[] = {
    /* all flags in one quoted variable, and more of them added to it */
    {"megatron-args",
     "GPT_ARGS=\"\n  " NET "\\\n  --fp16 \\\n\"\n"
     "GPT_ARGS+=\" --use-distributed-optimizer\"\n"
     "torchrun $X pretrain_gpt.py \\\n $GPT_ARGS --save $DIR\n",
     "data=8,zero=1,overlap=off", 8},
    /* a command in a string */
    {"megatron-args",
     "O=\"" NET "\"; run=\"python -u pretrain_gpt.py ${O}\"\n"
     "srun sh -c \"${run}\"",
     "data=8,overlap=off", 8},
    /* flags that another file uses */
    {"megatron-args", "MODEL_ARGS=\" " NET "\"\n", "data=8,overlap=off", 8},
    /* sums */
    {"megatron-args",
     "N=2; G=\"16\"\n" NET "--global-batch-size $((16 * N + $G / (1+1)))\n",
     "data=8,overlap=off", 40},
    {"megatron-args",
     NET "--global-batch-size $(( (3 - 1) * 8 )) --nnodes $SLURM_NNODES "
         "--nproc_per_node ${N:-\"8\"}",
     "data=8,overlap=off", 16},
    /* a default with a default in it; a branch that reads a flag */
    {"megatron-args",
     "D=${D:-\"${PWD}/$(date +%s)-$$\"}\n"
     "case $1 in --tensor-model-parallel-size) shift ;; esac\n" NET,
     "data=8,overlap=off", 8},
    /* stages as they are counted, or written down */
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "--decoder-first-pipeline-num-layers 1",
     "pipe=2(1f1b,m=2,at=layers.1.attn.norm),data=4,overlap=off", 8},
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "--pipeline-model-parallel-layout 'E|(t|)*2,tt|L'",
     "pipe=2(1f1b,m=2),data=4,overlap=off", 8}, /* 5 stages: not for 2 */
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "--pipeline-model-parallel-layout \"Et*1|(t|)*2,tL\"",
     "pipe=2(interleaved,m=2,v=2),data=4,overlap=off", 8},
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "'--pipeline-model-parallel-layout=Et*3|tL'",
     "pipe=2(1f1b,m=2,at=layers.3.attn.norm),data=4,overlap=off", 8},
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "--account-for-loss-in-pipeline-split "
         "--account-for-embedding-in-pipeline-split",
     "pipe=2(1f1b,m=2),data=4,overlap=off", 8},
    /* experts span tensor ranks, or are cut by them */
    {"megatron-args",
     NET "--num-experts 8 --moe-router-topk 2 --sequence-parallel "
         "--tensor-model-parallel-size 2 --expert-model-parallel-size 8 "
         "--expert-tensor-parallel-size 1",
     "data=1,expert=4,tensor=2+seq,overlap=off", 4},
    {"megatron-args",
     NET "--num-experts 8 --moe-router-topk 2 --sequence-parallel "
         "--tensor-model-parallel-size 2 --expert-model-parallel-size 2",
     "data=2,expert=2,tensor=2+seq,overlap=off", 4},
    /* some layers of a stage recompute */
    {"megatron-args",
     NET "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
         "--global-batch-size 8 "
         "--recompute-granularity full --recompute-method block "
         "--recompute-num-layers 1",
     "*: pipe=2(1f1b,m=2),data=4,overlap=off; "
     "layers.0.attn.norm..layers.0.attn.norm: recompute=full; "
     "layers.2.attn.norm..layers.2.attn.norm: recompute=full",
     8},
    {"megatron-args",
     NET "--recompute-granularity full --recompute-method block "
         "--recompute-num-layers 4",
     "data=8,recompute=full,overlap=off", 8},
    /* TOML: tables in keys, numbers with underscores, lists of lines */
    {"torchtitan",
     "parallelism.tensor_parallel_degree = 2\nmodel.name = 'x'\n"
     "[training]\nlocal_batch_size = 1_6 # each\n"
     "[activation_checkpoint]\nmode = 'none'\n",
     "data=4,tensor=2+seq,zero=3", 64},
    /* its defaults: micro-batches of one, every second layer again */
    {"torchtitan",
     "[parallelism]\npipeline_parallel_degree = 2\n"
     "pipeline_parallel_schedule = \"InterleavedZeroBubble\"\n",
     "*: pipe=2(interleaved,m=8,v=2),data=4,zero=3; "
     "layers.*[13579].*: recompute=full",
     32},
    {"torchtitan",
     "[parallelism]\npipeline_parallel_degree = 2\n"
     "module_fqns_per_model_part = [\n  [\"tok_embeddings\", "
     "\"layers.0\"], # first\n  [\"layers.1\", \"layers.2\",\n"
     "   \"norm\", \"output\"],\n]\n"
     "[activation_checkpoint]\nmode = \"full\"\n",
     "pipe=2(1f1b,m=8,at=layers.1.attn.norm),data=4,zero=3,recompute=full", 32},
    {"deepspeed",
     "{ // ours\n # too\n \"train_batch_size\": 16, /* of \"8\" */\n"
     "\"zero_optimization\": {\"stage\": 2}, \"x\": \"http://a\\\"#\"}",
     "data=8,zero=2", 16},
};
#undef NET

static void scripts_are_read_as_people_write_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_launch out;

        if (read_text(scripts[i].format, scripts[i].text, 8, &out, &err) !=
            PDL_OK)
            fail_msg("refused: %s\n%s", err.msg, scripts[i].text);
        assert_string_equal(out.strategy, scripts[i].strategy);
        assert_int_equal(out.batch, scripts[i].batch);
    }
}

/* Nodes are asked of the scheduler, not of the launcher. */
static void the_scheduler_says_how_many_pes(void **state)
{
    static const struct {
        const char *text;
        int64_t pes;
    } rows[] = {
        {"#SBATCH --nodes=16\n#SBATCH --gpus-per-node=8\n", 128},
        {"#SBATCH -N 16\n#SBATCH --gres=gpu:h100:4\n", 64},
        {"#SBATCH -N 2\n#SBATCH --ntasks-per-node=8 # one each\n", 16},
        {"#SBATCH -N 2\n#SBATCH --gpus-per-node=a100:4\n"
         "#SBATCH --ntasks-per-node=1\n",
         8},
        {"##SBATCH -N 2\n#SBATCH --gpus-per-node=4\n", 0},
        {"#SBATCH -N 2\n#SBATCH --gpus-per-node=8\n--nnodes 4\n", 32},
        {"#SBATCH --nodes=\n#SBATCH --gpus-per-node", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text =
            pdl_arena_printf(arena,
                             "#!/bin/bash\n%s\n--num-layers 4 --hidden-size 64 "
                             "--num-attention-heads 4\n",
                             rows[i].text);
        struct pdl_launch out;
        enum pdl_status st = read_text("megatron-args", text, 0, &out, NULL);

        assert_int_equal(st == PDL_OK ? out.pes : 0, rows[i].pes);
    }
}

/* What costs time or memory and is not priced is said. */
static void what_is_left_out_is_said(void **state)
{
    static const struct {
        const char *format, *text, *note;
    } rows[] = {
        {"megatron-args", "--rampup-batch-size 16 16 5859375", "rampup"},
        {"megatron-args", "--moe-layer-recompute", "moe-layer-recompute"},
        {"megatron-args", "--moe-layer-freq 2", "experts"},
        {"megatron-args",
         "--nproc_per_node 4 --nnodes 2 --num-experts 8 "
         "--expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall",
         "to a node once"},
        {"deepspeed",
         "{\"zero_optimization\":{\"stage\":3,\"offload_param\":"
         "{\"device\":\"cpu\"}}}",
         "offload_param"},
        {"deepspeed",
         "{\"activation_checkpointing\":{\"cpu_checkpointing\":true}}",
         "cpu_checkpointing"},
        {"torchtitan", "[training]\nenable_cpu_offload = true\n",
         "enable_cpu_offload"},
        {"torchtitan",
         "[parallelism]\npipeline_parallel_degree = 2\n"
         "pipeline_parallel_schedule = \"DualPipeV\"\n",
         "DualPipeV"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text =
            strcmp(rows[i].format, "megatron-args") == 0
                ? pdl_arena_printf(arena,
                                   "--num-layers 4 --hidden-size 64 "
                                   "--num-attention-heads 4 %s",
                                   rows[i].text)
                : rows[i].text;
        struct pdl_launch out;
        int said = 0;

        assert_int_equal(read_text(rows[i].format, text, 8, &out, NULL),
                         PDL_OK);
        for (int k = 0; k < out.nnotes; k++)
            said += strstr(out.note[k], rows[i].note) != NULL;
        assert_int_equal(said, 1);
    }
    /* and what is off is not */
    {
        struct pdl_launch out;

        assert_int_equal(
            read_text("deepspeed",
                      "{\"zero_optimization\":{\"stage\":3,"
                      "\"zero_hpz_partition_size\":1,\"offload_param\":"
                      "{\"device\":\"none\"}}}",
                      8, &out, NULL),
            PDL_OK);
        assert_int_equal(out.nnotes, 2); /* pipe=1; no batch */
    }
}

static void torchtitan_says_precision_compiler_and_model(void **state)
{
    static const char text[] = "[model]\nname = \"llama3\"\nflavor = \"405B\"\n"
                               "converters = [\"float8\"] # a list\n"
                               "[parallelism]\ntensor_parallel_degree = 8\n"
                               "enable_async_tensor_parallel = true\n"
                               "[training]\nlocal_batch_size = 2\n"
                               "[compile]\nenable=true\n";
    struct pdl_launch out;

    (void)state;
    assert_int_equal(read_text("torchtitan", text, 128, &out, NULL), PDL_OK);
    assert_string_equal(out.model, "llama3.1-405b:seq=2048");
    assert_int_equal(out.precision, PDL_PREC_FP8);
    assert_true(out.compile && out.async_tensor);
    assert_int_equal(out.batch, 32);
    assert_int_equal(read_text("torchtitan",
                               "[model]\nconverters = []\n[compile]\n"
                               "enable = false\n",
                               8, &out, NULL),
                     PDL_OK);
    assert_int_equal(out.precision, PDL_PREC_BF16);
    assert_false(out.compile);
    assert_null(out.model);
}

/* A recipe of 2026 as somebody writes it; the rest is its base's. */
static void torchtitan_recipes_are_read_by_their_lines(void **state)
{
    static const char text[] =
        "from my_recipes import base\n\n\ndef job():\n"
        "    config = base()\n"
        "    config.training.max_context_length = 4_096\n"
        "    config.training.num_tokens_per_microbatch_per_dp_rank = 8192\n"
        "    config.training.num_tokens_per_train_step = 262144\n"
        "    config.parallelism.data_parallel_shard_degree = 8  # a node\n"
        "    config.parallelism.tensor_parallel_degree = 2\n"
        "    config.parallelism.enable_sequence_parallel = False\n"
        "    config.compile.enable = True\n"
        "    config.activation_checkpoint = FullAC.Config()\n"
        "    return config\n";
    struct pdl_launch out;

    (void)state;
    assert_int_equal(read_text("torchtitan", text, 0, &out, NULL), PDL_OK);
    assert_string_equal(
        canonical(out.strategy),
        canonical("data=8,tensor=2,accumulate=4,zero=3,recompute=full"));
    assert_int_equal(out.batch, 64);
    assert_int_equal(out.pes, 16);
    assert_true(out.compile && !out.async_tensor);
    assert_null(out.model);
}

/* Python is a recipe whatever its base says of the batch. */
static void a_recipe_without_a_batch_is_no_toml(void **state)
{
    static const char text[] =
        "    config.training.max_context_length = 4096\n"
        "    config.training.num_tokens_per_microbatch_per_dp_rank = 8192\n"
        "    config.parallelism.data_parallel_shard_degree = 8\n"
        "    config.activation_checkpoint = FullAC.Config()\n";
    struct pdl_launch out;
    int said = 0;

    (void)state;
    assert_int_equal(read_text("torchtitan", text, 0, &out, NULL), PDL_OK);
    assert_string_equal(canonical(out.strategy),
                        canonical("data=8,zero=3,recompute=full"));
    assert_int_equal(out.batch, 16);
    for (int k = 0; k < out.nnotes; k++)
        said += strstr(out.note[k], "takes over") != NULL ||
                strstr(out.note[k], "num_tokens_per_train_step") != NULL;
    assert_int_equal(said, 2);
}

static void nonsense_is_one_line(void **state)
{
    static const struct {
        const char *format, *text, *what;
        int64_t pes;
    } rows[] = {
        {"megatron-args", "", "no --num-layers", 8},
        {"megatron-args", "--num-layers many", "run.sh:1: --num-layers", 8},
        {"megatron-args", "\n--num-layers $N", "run.sh:2:", 8},
        {"megatron-args", "--num-layers", "no value", 8},
        {"megatron-args", "--num-layers 'x", "quote", 8},
        {"megatron-args", "--num-layers $((1/0))", "'$((1/0))'", 8},
        {"megatron-args", "--num-layers $((N*2))", "'$((N*2))'", 8},
        {"megatron-args", "--num-layers $((1+", "--num-layers", 8},
        {"megatron-args", "--num-layers 4 --nnodes $N", "how many PEs", 0},
        {"deepspeed", "{ /* never closed", "run.sh:1:", 8},
        {"megatron-args", "--num-layers 12", "how many PEs", 0},
        {"megatron-args", "--num-layers 12 --tensor-model-parallel-size 3",
         "no multiple", 8},
        {"megatron-args",
         "--num-layers 12 --tensor-model-parallel-size 281474976710656 "
         "--pipeline-model-parallel-size 281474976710656",
         "no multiple", 8},
        {"megatron-args",
         "--num-layers 12 --micro-batch-size 3 --global-batch-size 64",
         "no multiple", 8},
        {"deepspeed", "{\"zero_optimization\":{\"stage\":7}}", "0 to 3", 8},
        {"deepspeed", "[", "run.sh:1:", 8},
        {"deepspeed", "{\"train_batch_size\":\"x\"}", "train_batch_size", 8},
        {"torchtitan", "seq_len = 3", "section", 8},
        {"torchtitan", "[training]\nseq_len = many", "run.sh:2:", 8},
        {"torchtitan", "[model]\nname = llama3", "quotes", 8},
        {"nothing", "", "no import format", 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_launch out;

        if (read_text(rows[i].format, rows[i].text, rows[i].pes, &out, &err) ==
            PDL_OK)
            fail_msg("accepted: %s", rows[i].text);
        if (!strstr(err.msg, rows[i].what))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exported_comes_back),
        cmocka_unit_test(sizes_come_back),
        cmocka_unit_test(scripts_are_read_as_people_write_them),
        cmocka_unit_test(the_scheduler_says_how_many_pes),
        cmocka_unit_test(what_is_left_out_is_said),
        cmocka_unit_test(torchtitan_says_precision_compiler_and_model),
        cmocka_unit_test(torchtitan_recipes_are_read_by_their_lines),
        cmocka_unit_test(a_recipe_without_a_batch_is_no_toml),
        cmocka_unit_test(nonsense_is_one_line),
    };
    int rc;

    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pdl_arena_destroy(arena);
    return rc;
}
