/* What a user may ask of a run beyond a strategy: sparse gradients, a loss
 * scale, mean squared error of several outputs, bfloat16, gradients that move
 * during backward; and that the networks of the zoo and imported graphs train.
 * PDL_LONG=1 trains the large ones too. */
#include "effort.h"
#include "paradl/train.h"
#include "train/train_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct pdl_plan *lowered(pdl_arena *a, const struct pdl_model *m,
                                      const char *text, int64_t batch,
                                      enum pdl_dtype dtype)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = batch, .dtype = dtype};
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_strategy_parse(a, text, s, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    s->bn = PDL_BN_SYNC;
    if (pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

static const struct pdl_model *loaded(pdl_arena *a, const char *name)
{
    const struct pdl_model *m = NULL;
    struct pdl_err err;

    if (pdl_model_load(a, name, NULL, &m, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    return m;
}

/* ---- one small run ----------------------------------------------------------- */

enum { STEPS = 6, MOST = 4096 };

struct small_run {
    const struct pdl_plan *plan;
    struct pdl_train_options opt;
    double lr, losses[STEPS];
    float weights[MOST]; /* of rank 0, after the last step */
    int64_t nweights;
};

static void keep_weights(struct small_run *r, pdl_trainer *t)
{
    for (int i = 0; pdl_trainer_state(t, i); i++) {
        const struct pdl_train_state *s = pdl_trainer_state(t, i);
        int64_t n = pdl_box_volume(&s->part.box);

        if (s->part.dtype != PDL_F32 || r->nweights + n > MOST)
            continue;
        memcpy(r->weights + r->nweights, s->part.data,
               (size_t)n * sizeof(float));
        r->nweights += n;
    }
}

static enum pdl_status small_body(void *ctx, pdl_comm *comm,
                                  struct pdl_err *err)
{
    struct small_run *r = ctx;
    struct pdl_train_noise noise = {.plan = r->plan, .seed = 3};
    struct pdl_train_feed feed = {.fill = pdl_train_noise, .ctx = &noise};
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(r->plan, comm, &r->opt, &t, err);

    for (int k = 0; k < STEPS && st == PDL_OK; k++) {
        struct pdl_train_result out;

        st = pdl_trainer_step(t, k, r->lr, &feed, &out, err);
        if (st == PDL_OK && pdl_comm_rank(comm) == 0)
            r->losses[k] = out.loss;
    }
    if (st == PDL_OK && pdl_comm_rank(comm) == 0)
        keep_weights(r, t);
    pdl_trainer_close(t);
    return st;
}

static void run_small(struct small_run *r)
{
    struct pdl_err err;

    if (pdl_train_virtual((int)r->plan->mesh->pes, 60, small_body, r, &err) !=
        PDL_OK)
        fail_msg("%s", err.msg);
}

static const char tiny[] = "lenet5";

/* ---- sparse gradients ----------------------------------------------------------- */

/* All elements are among the largest: the sum of a dense exchange. */
static void everything_sent_equals_a_dense_exchange(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);
    struct small_run dense = {.plan = lowered(a, m, "data=3", 6, PDL_F32),
                              .opt = {.backend = "ref", .seed = 1},
                              .lr = 0.05},
                     sparse = dense;

    (void)state;
    sparse.plan = lowered(a, m, "data=3,compress=topk:1", 6, PDL_F32);
    run_small(&dense);
    run_small(&sparse);
    for (int k = 0; k < STEPS; k++)
        assert_true(fabs(dense.losses[k] - sparse.losses[k]) <
                    1e-5 * fabs(dense.losses[k]));
    pdl_arena_destroy(a);
}

/* No bit is lost, and sums have the order of ranks: the dense run, bit by bit.
 * The others learn, by another way. */
static void every_compression_learns(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);
    struct small_run dense = {.plan = lowered(a, m, "data=3", 6, PDL_F32),
                              .opt = {.backend = "ref", .seed = 1},
                              .lr = 0.05};

    (void)state;
    run_small(&dense);
    for (int i = 0; pdl_compressor_at(i); i++) {
        const struct pdl_compressor *c = pdl_compressor_at(i);
        struct small_run run = dense;
        const char *more = !c->value ? "" : c->least >= 1 ? ":4" : ":0.05";

        run.plan = lowered(
            a, m, pdl_arena_printf(a, "data=3,compress=%s%s", c->name, more), 6,
            PDL_F32);
        run_small(&run);
        assert_true(run.losses[0] == dense.losses[0]);
        assert_true(run.losses[STEPS - 1] < run.losses[0]);
        assert_true(c->exact ==
                    (run.losses[STEPS - 1] == dense.losses[STEPS - 1]));
    }
    pdl_arena_destroy(a);
}

/* Layers that have a way of their own: without loss the dense run, and with it
 * the run of all layers where all are named. */
static void layers_travel_as_they_say(void **state)
{
    static const char *const ways[][2] = {
        {"*: data=3; conv1: compress=lossless", "data=3"},
        {"*: data=3,compress=topk:0.1; conv1..fc5: compress=none", "data=3"},
        {"*: data=3,bucket=1B; conv1..fc5: compress=topk:0.1",
         "data=3,bucket=1B,compress=topk:0.1"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct small_run some = {.plan = lowered(a, m, ways[i][0], 6, PDL_F32),
                                 .opt = {.backend = "ref", .seed = 1},
                                 .lr = 0.05},
                         all = some;

        all.plan = lowered(a, m, ways[i][1], 6, PDL_F32);
        run_small(&some);
        run_small(&all);
        assert_memory_equal(some.losses, all.losses, sizeof all.losses);
    }
    pdl_arena_destroy(a);
}

/* A hundredth of the gradient, the rest kept and sent later: it still learns,
 * by another way than the dense run. */
static void error_feedback_learns(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);
    struct small_run dense = {.plan = lowered(a, m, "data=2", 4, PDL_F32),
                              .opt = {.backend = "ref", .seed = 1},
                              .lr = 0.05},
                     sparse = dense;

    (void)state;
    sparse.plan = lowered(a, m, "data=2,compress=topk:0.01", 4, PDL_F32);
    run_small(&dense);
    run_small(&sparse);
    assert_true(sparse.losses[0] == dense.losses[0]);
    assert_true(sparse.losses[STEPS - 1] != dense.losses[STEPS - 1]);
    assert_true(sparse.losses[STEPS - 1] < sparse.losses[0]);
    pdl_arena_destroy(a);
}

static void sparse_sums_of_other_types_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct small_run r = {
        .plan =
            lowered(a, loaded(a, tiny), "data=2,compress=topk:0.1", 4, PDL_F64),
        .opt = {.backend = "ref"}};
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(pdl_train_virtual(2, 60, small_body, &r, &err),
                     PDL_EINVAL);
    assert_non_null(strstr(err.msg, "float32 only"));
    pdl_arena_destroy(a);
}

/* ---- loss scale -------------------------------------------------------------------- */

/* A power of two changes exponents only. */
static void a_loss_scale_changes_no_bit(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);
    struct small_run plain = {.plan = lowered(a, m, "data=2", 4, PDL_F32),
                              .opt = {.backend = "ref", .seed = 1},
                              .lr = 0.05},
                     scaled = plain;

    (void)state;
    scaled.opt.loss_scale = 1024;
    run_small(&plain);
    run_small(&scaled);
    assert_memory_equal(plain.losses, scaled.losses, sizeof plain.losses);
    assert_int_equal(plain.nweights, scaled.nweights);
    assert_true(plain.nweights > 100);
    assert_memory_equal(plain.weights, scaled.weights,
                        (size_t)plain.nweights * sizeof(float));
    pdl_arena_destroy(a);
}

/* Gradients overflow float32: the steps are left out until the scale has
 * halved often enough. */
static void an_overflow_leaves_the_step_out(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = loaded(a, tiny);
    struct small_run r = {.plan = lowered(a, m, "serial", 4, PDL_F32),
                          .opt = {.backend = "ref",
                                  .seed = 1,
                                  .loss_scale = 0x1p127,
                                  .loss_scale_steps = 1000},
                          .lr = 1e-6},
                     fixed = r;

    (void)state;
    run_small(&r);
    for (int k = 0; k < STEPS; k++)
        assert_true(isfinite(r.losses[k]));
    fixed.opt.loss_scale_steps = 0; /* never halves: no step is ever made */
    fixed.lr = 1;
    fixed.opt.loss_scale = INFINITY;
    run_small(&fixed);
    for (int64_t i = 0; i < r.nweights; i++)
        assert_true(isfinite((double)fixed.weights[i]));
    pdl_arena_destroy(a);
}

/* ---- mean squared error ----------------------------------------------------------- */

static void mean_squares_of_several_outputs_equal_serial(void **state)
{
    static const char *const strategies[] = {"data=2", "data=2,spatial=2",
                                             "pipe=2(1f1b,m=2)"};

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = loaded(a, tiny);
        struct pdl_train_diff d = {.differs = false};
        struct pdl_err err;
        struct pdl_train_comparison c = {
            .a = lowered(a, m, i == 2 ? "accumulate=2" : "serial", 4, PDL_F64),
            .b = lowered(a, m, strategies[i], 4, PDL_F64),
            .opt = {.backend = "ref", .seed = 2, .mean_squares = true},
            .steps = 2,
            .lr = 0.01,
            .tolerance = 1e-9,
            .exact = true};

        if (pdl_train_compare(&c, &d, &err) != PDL_OK)
            fail_msg("%s: %s", strategies[i], err.msg);
        if (d.differs)
            fail_msg("%s: %s differs", strategies[i], d.what);
        pdl_arena_destroy(a);
    }
}

/* ---- bfloat16 ------------------------------------------------------------------------ */

static enum pdl_status types_body(void *ctx, pdl_comm *comm,
                                  struct pdl_err *err)
{
    struct small_run *r = ctx;
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(r->plan, comm, &r->opt, &t, err);
    int norms = 0, masters = 0, narrow = 0;

    for (int i = 0; st == PDL_OK && pdl_trainer_state(t, i); i++) {
        const struct pdl_train_part *p = &pdl_trainer_state(t, i)->part;
        bool norm = strstr(p->name, "bn") || strstr(p->name, "running");

        if (strncmp(p->name, "optimizer", 9) == 0)
            continue;
        masters += strncmp(p->name, "master.", 7) == 0;
        narrow += p->dtype == PDL_BF16;
        norms += norm;
        if (norm && p->dtype != PDL_F32)
            st = pdl_fail(err, PDL_EWRONG, "%s is narrow", p->name);
    }
    if (st == PDL_OK && (norms < 20 || narrow != masters || narrow < 20))
        st = pdl_fail(err, PDL_EWRONG, "%d norms, %d narrow, %d masters", norms,
                      narrow, masters);
    pdl_trainer_close(t);
    return st;
}

static void norms_stay_float32_in_bfloat16(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct small_run r = {.plan = lowered(a, loaded(a, "resnet18:input=32"),
                                          "serial", 2, PDL_BF16)};
    struct pdl_err err;

    (void)state;
    if (pdl_train_virtual(1, 60, types_body, &r, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
}

/* ---- gradients move during backward --------------------------------------------------- */

struct watch {
    const struct pdl_plan *plan;
    double last_backward; /* when the last of backward began */
    double first_behind;  /* when the first bucket began */
    int behind;
};

static void timed(void *ctx, int op, int64_t micro, double start, double end)
{
    struct watch *w = ctx;
    const struct pdl_plan_op *o = &w->plan->ops[op];

    if (micro == PDL_TRAIN_BEHIND) {
        assert_true(end >= start);
        if (w->behind++ == 0 || start < w->first_behind)
            w->first_behind = start;
    } else if (o->kind == PDL_PLAN_OP_COMPUTE && o->pass != PDL_FORWARD) {
        w->last_backward = start;
    }
}

static enum pdl_status watched_body(void *ctx, pdl_comm *comm,
                                    struct pdl_err *err)
{
    struct small_run r = *(struct small_run *)ctx;
    struct watch w = {.plan = r.plan};
    enum pdl_status st;

    r.opt.timed = timed;
    r.opt.timed_ctx = &w;
    st = small_body(&r, comm, err);
    if (st == PDL_OK && w.behind < 2 * STEPS)
        st = pdl_fail(err, PDL_EWRONG, "%d buckets", w.behind);
    if (st == PDL_OK && !(w.first_behind < w.last_backward))
        st = pdl_fail(err, PDL_EWRONG, "no bucket began before backward ended");
    if (pdl_comm_rank(comm) == 0)
        memcpy(((struct small_run *)ctx)->losses, r.losses, sizeof r.losses);
    return st;
}

static void buckets_go_while_backward_does(void **state)
{
    static const char *const strategies[] = {
        "data=2,bucket=8KiB", "data=2,bucket=8KiB,compress=topk:0.1"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = loaded(a, tiny);
        struct small_run r = {.plan = lowered(a, m, strategies[i], 4, PDL_F32),
                              .opt = {.backend = "ref", .seed = 1},
                              .lr = 0.05},
                         threads = r, after = r;
        char text[64];
        struct pdl_err err;

        if (pdl_train_virtual(2, 60, watched_body, &r, &err) != PDL_OK)
            fail_msg("%s: %s", strategies[i], err.msg);
        threads.opt.comm_threads = true;
        if (pdl_train_virtual(2, 60, watched_body, &threads, &err) != PDL_OK)
            fail_msg("%s with threads: %s", strategies[i], err.msg);
        assert_memory_equal(r.losses, threads.losses, sizeof r.losses);
        snprintf(text, sizeof text, "%s,overlap=off", strategies[i]);
        after.plan = lowered(a, m, text, 4, PDL_F32);
        run_small(&after);
        assert_memory_equal(r.losses, after.losses, sizeof r.losses);
        pdl_arena_destroy(a);
    }
}

/* ---- the zoo, and imported graphs ------------------------------------------------------ */

struct one_step {
    const struct pdl_plan *plan;
    double lr;
};

static double weigh(pdl_trainer *t)
{
    double sum = 0;

    for (int i = 0; pdl_trainer_state(t, i); i++) {
        const struct pdl_train_part *p = &pdl_trainer_state(t, i)->part;

        if (p->dtype != PDL_F32 || strncmp(p->name, "optimizer", 9) == 0)
            continue;
        for (int64_t k = 0; k < pdl_box_volume(&p->box); k++)
            sum += fabs((double)((const float *)p->data)[k]);
    }
    return sum;
}

static enum pdl_status step_body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    const struct one_step *one = ctx;
    const struct pdl_plan *p = one->plan;
    struct pdl_train_noise noise = {.plan = p, .seed = 3};
    struct pdl_train_feed feed = {.fill = pdl_train_noise, .ctx = &noise};
    struct pdl_train_options opt = {.seed = 1};
    struct pdl_train_result first, then;
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(p, comm, &opt, &t, err);
    double before = st == PDL_OK ? weigh(t) : 0;

    if (st == PDL_OK)
        st = pdl_trainer_step(t, 0, one->lr, &feed, &first, err);
    if (st == PDL_OK)
        st = pdl_trainer_step(t, 1, one->lr, &feed, &then, err);
    if (st == PDL_OK && !(first.loss > 0 && weigh(t) != before))
        st = pdl_fail(err, PDL_EWRONG, "loss %g, then %g: no weight has moved",
                      first.loss, then.loss);
    pdl_trainer_close(t);
    return st;
}

static void trains(const char *name, double lr)
{
    pdl_arena *a = pdl_arena_create((size_t)4 << 30);
    struct one_step one = {lowered(a, loaded(a, name), "serial", 2, PDL_F32),
                           lr};
    struct pdl_err err;

    if (pdl_train_virtual(1, 0, step_body, &one, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    pdl_arena_destroy(a);
}

/* Every family and every size of block; full images where they are small. */
static void every_kind_of_network_of_the_zoo_trains(void **state)
{
    static const char *const small[] = {
        "lenet5",
        "resnet18:input=32",
        "resnet50:input=32",
        "wrn:depth=10,width=1",
        "densenet121:input=32",
        "mobilenet-v2:input=32",
        "efficientnet-b0:input=32",
        "mobilenet-v3-small:input=32",
        "googlenet:input=32",
        "squeezenet1.1:input=32",
        "regnet-y-400mf:input=32",
        "cosmoflow-mlperf:size=64",
        "gpt:layers=2,hidden=32,heads=4,ffn=64,vocab=65,seq=16",
        "llama:layers=2,hidden=32,heads=4,ffn=64,vocab=65,seq=16",
        "qwen3-0.6b:layers=1,hidden=64,ffn=64,vocab=65,seq=8",
        "moe:layers=1,hidden=32,heads=4,ffn=64,vocab=65,seq=16",
        "deepseek:layers=2,dense=1,hidden=32,heads=4,ffn=64,moe_ffn=16,"
        "experts=8,topk=2,q_lora=24,kv_lora=16,nope=8,rope=4,v_head_dim=8,"
        "vocab=65,seq=16",
        "t5:layers=2,hidden=32,heads=4,head_dim=8,ffn=64,vocab=65,seq=16",
        "t5:layers=1,hidden=32,heads=4,ffn=64,vocab=65,seq=8,gated=1,tied=0",
        "bert:layers=2,hidden=32,heads=4,ffn=64,vocab=65,seq=16",
        "vit:layers=2,hidden=32,heads=4,ffn=64,input=64",
    };
    static const char *const large[] = {
        "alexnet:input=64",
        "vgg16:input=32",
        "vgg19:input=32",
        "resnet34:input=64",
        "resnet50",
        "resnet101:input=64",
        "resnet152:input=64",
        "wrn-28-10",
        "densenet161:input=64",
        "densenet169:input=64",
        "densenet201:input=64",
        "mobilenet-v2",
        "mobilenet-v3-large",
        "googlenet",
        "squeezenet1.0",
        "regnet-x-800mf:input=64",
        "efficientnet-b0",
        "unet:input=188",
        "unet3d:input=92",
        "cosmoflow:size=64",
        "deepcam:height=64,width=96",
        "gpt2:seq=32",
        "gpt3-125m:seq=16",
        "qwen3-0.6b:seq=16",
        "deit-tiny",
        "bert-base:seq=16",
    };

    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof small[0];
         i += (size_t)effort(3, 1, 1))
        trains(small[i], 1e-4);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        if (effort(0, 0, 1))
            trains(large[i], 1e-4);
}

/* They end with a softmax, of which the loss takes another: gradients are
 * small, and the rate is large. */
static void imported_graphs_train(void **state)
{
    static const char *const small[] = {"light_squeezenet.onnx",
                                        "light_bvlc_alexnet.onnx"};
    static const char *const large[] = {
        "mobilenet_v2.onnx",       "resnet50.onnx",       "light_resnet50.onnx",
        "light_inception_v1.onnx", "light_zfnet512.onnx", "vgg16.onnx"};
    char path[512];

    (void)state;
    for (int i = 0; i < effort(1, 2, 2); i++) {
        snprintf(path, sizeof path, PDL_SOURCE_DIR "/tests/data/onnx/%s",
                 small[i]);
        trains(path, 100);
    }
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        snprintf(path, sizeof path, PDL_SOURCE_DIR "/tests/data/onnx/%s",
                 large[i]);
        if (effort(0, 0, 1))
            trains(path, 100);
    }
}

/* What has no kernel says so in one line. */
static void what_does_not_train_is_named(void **state)
{
    static const struct {
        const char *model, *strategy, *want;
    } rows[] = {
        {PDL_SOURCE_DIR "/tests/data/hf/ipextest-jamba.json", "serial",
         "no kernel for"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create((size_t)4 << 30);
        struct one_step one = {
            lowered(a, loaded(a, rows[i].model), rows[i].strategy, 2, PDL_F32),
            1e-4};
        int ranks = (int)one.plan->mesh->pes;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_train_virtual(ranks, 0, step_body, &one, &err),
                         PDL_EINVAL);
        if (!strstr(err.msg, rows[i].want))
            fail_msg("%s: %s", rows[i].model, err.msg);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_sent_equals_a_dense_exchange),
        cmocka_unit_test(every_compression_learns),
        cmocka_unit_test(layers_travel_as_they_say),
        cmocka_unit_test(error_feedback_learns),
        cmocka_unit_test(sparse_sums_of_other_types_are_refused),
        cmocka_unit_test(a_loss_scale_changes_no_bit),
        cmocka_unit_test(an_overflow_leaves_the_step_out),
        cmocka_unit_test(mean_squares_of_several_outputs_equal_serial),
        cmocka_unit_test(norms_stay_float32_in_bfloat16),
        cmocka_unit_test(buckets_go_while_backward_does),
        cmocka_unit_test(every_kind_of_network_of_the_zoo_trains),
        cmocka_unit_test(imported_graphs_train),
        cmocka_unit_test(what_does_not_train_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
