/* What the oracle knows of transformers: attention with and without stored
 * scores, what frameworks do besides the plan, and how they cut a pipeline.
 * Each effect must show, in the right direction. */
#include "oracle/habit/framework.h"
#include "plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GPT "gpt:layers=4,hidden=1024,heads=16,ffn=4096,vocab=51200,seq=1024"

static const struct pdl_plan *lower_split(pdl_arena *a, const char *model,
                                          const char *strategy, int64_t batch,
                                          enum pdl_split split)
{
    return lower_as(a, model, strategy,
                    &(struct pdl_plan_options){
                        .batch = batch, .dtype = PDL_BF16, .split = split});
}

static struct pdl_projection project(const char *model, const char *strategy,
                                     int64_t batch,
                                     const struct pdl_oracle_options *opt)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options o = *opt;
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    struct pdl_system sys;

    o.optimizer_slots = 2;
    if (o.precision == 0)
        o.precision = PDL_PREC_BF16;
    if (pdl_system_open(a, "dgx-h100", &sys, &err) != PDL_OK ||
        pdl_project(lower_split(a, model, strategy, batch,
                                pdl_framework_split(o.framework)),
                    &sys, &o, &x, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    x.reason = "";
    pdl_arena_destroy(a);
    return x;
}

static void stored_scores_cost_time_and_memory(void **st)
{
    struct pdl_oracle_options flash = {.optimizer_slots = 2}, unfused = flash;
    struct pdl_projection x, y, z;
    const double scores = 4.0 * 16 * 1024 * 1024 * 4; /* layers, heads, batch */

    (void)st;
    unfused.unfused = true;
    x = project(GPT, "serial", 4, &flash);
    y = project(GPT, "serial", 4, &unfused);
    assert_true(y.step_s > 1.05 * x.step_s);
    assert_true(fabs((double)(y.allocated_bytes - x.allocated_bytes) -
                     2 * scores) < .02 * scores);
    unfused.dropout = .1; /* and its mask and its result */
    z = project(GPT, "serial", 4, &unfused);
    assert_true(z.step_s > y.step_s);
    assert_true((double)(z.allocated_bytes - y.allocated_bytes) > 3 * scores);
    y = project(GPT, "recompute=selective,data=1", 4, &unfused);
    assert_true((double)(z.allocated_bytes - y.allocated_bytes) > 3 * scores);
}

static void the_host_sets_the_pace_of_small_models(void **st)
{
    struct pdl_framework slow = *open_framework("megatron-deepspeed"),
                         quick = slow;
    struct pdl_oracle_options opt = {.framework = &slow}, none = {0};
    double small, large;

    (void)st;
    quick.issue_s = 0;
    none.framework = &quick;
    small = project(GPT, "recompute=full,data=1", 1, &opt).step_s /
            project(GPT, "recompute=full,data=1", 1, &none).step_s;
    large = project(GPT, "recompute=full,data=1", 64, &opt).step_s /
            project(GPT, "recompute=full,data=1", 64, &none).step_s;
    assert_true(small > 1.5);
    assert_true(large < 1.01 && large >= 1);
    assert_int_equal(pdl_effect_find("host", &opt.without, NULL), PDL_OK);
    assert_true(project(GPT, "recompute=full,data=1", 1, &opt).step_s ==
                project(GPT, "recompute=full,data=1", 1, &none).step_s);
}

static int stage_of(const struct pdl_plan *p, int node)
{
    return p->tensors[p->ops[p->forward_op[node]].out[0]].stage;
}

static int layers_of(const struct pdl_plan *p, int stage)
{
    int n = 0;

    for (int i = 0; i < p->model->nnodes; i++)
        n += strstr(p->model->nodes[i].name, "attn.core") &&
             stage_of(p, i) == stage;
    return n;
}

static void frameworks_deal_layers_their_way(void **st)
{
    static const struct {
        const char *sizes;
        enum pdl_split split;
        int layers[4];
    } cases[] = {
        {"layers=10,vocab=512", PDL_SPLIT_BLOCKS, {2, 3, 3, 2}},
        {"layers=10,vocab=512", PDL_SPLIT_GREEDY, {3, 3, 3, 1}},
        {"layers=11,vocab=2048", PDL_SPLIT_GREEDY, {3, 3, 3, 2}},
        /* the head is 2.6 blocks of work */
        {"layers=11,vocab=2048", PDL_SPLIT_BLOCKS, {3, 4, 3, 1}},
        {"layers=12,vocab=2048", PDL_SPLIT_BLOCKS, {3, 3, 3, 3}},
        {"layers=12,vocab=2048", PDL_SPLIT_WORK, {3, 4, 4, 1}},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)st;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct pdl_plan *p;
        char model[96];

        snprintf(model, sizeof model, "gpt:hidden=64,heads=4,ffn=256,seq=16,%s",
                 cases[c].sizes);
        p = lower_split(a, model, "pipe=4(1f1b,m=4)", 4, cases[c].split);
        assert_int_equal(p->nstages, 4);
        assert_int_equal(pdl_plan_check(p, NULL), PDL_OK);
        for (int s = 0; s < 4; s++)
            assert_int_equal(layers_of(p, s), cases[c].layers[s]);
        /* what is before and after goes to the ends */
        assert_int_equal(stage_of(p, 0), 0);
        assert_int_equal(stage_of(p, p->model->nnodes - 1), 3);
    }
    pdl_arena_destroy(a);
}

static void more_stages_than_layers_are_cut_by_work(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower_split(
        a, "gpt:layers=2,hidden=64,heads=4,ffn=256,vocab=512,seq=16",
        "pipe=4(1f1b,m=4)", 4, PDL_SPLIT_BLOCKS);

    (void)st;
    assert_int_equal(p->nstages, 4);
    assert_int_equal(stage_of(p, p->model->nnodes - 1), 3);
    assert_int_equal(pdl_plan_check(p, NULL), PDL_OK);
    pdl_arena_destroy(a);
}

/* Megatron: 6 + 12 / D bytes a weight with sums of 32 bits, 4 + 12 / D with
 * sums of 16. */
static void weights_have_the_bytes_that_the_framework_says(void **st)
{
    static const struct {
        const char *strategy;
        int gradient;
        double bytes;
    } cases[] = {
        {"data=1", 4, 18},
        {"data=4,zero=1", 4, 9},
        {"data=4,zero=1", 2, 7},
    };

    (void)st;
    for (int i = 0; i < 3; i++) {
        struct pdl_oracle_options opt = {
            .framework = open_framework("megatron"),
            .gradient_bytes = cases[i].gradient};
        struct pdl_projection x = project(GPT, cases[i].strategy, 4, &opt);
        double weights = (double)x.weights_bytes / 2;
        double all =
            (double)(x.weights_bytes + x.gradients_bytes + x.optimizer_bytes);
        double dummy = cases[i].gradient == 4 ? 2 * 12 * 1024.0 * 1024 : 0;

        assert_true(fabs(all - weights * cases[i].bytes) < dummy + .01 * all);
    }
}

static void eight_bits_are_quicker_but_not_twice(void **st)
{
    const char *llama = "llama:layers=2,hidden=4096,heads=32,kv_heads=8,"
                        "ffn=14336,gated=1,vocab=32000,seq=4096";
    struct pdl_oracle_options eight = {.precision = PDL_PREC_FP8,
                                       .compile = true};
    struct pdl_oracle_options sixteen = {.precision = PDL_PREC_BF16,
                                         .compile = true};
    double x = project(llama, "data=1", 2, &eight).step_s;
    double y = project(llama, "data=1", 2, &sixteen).step_s;

    (void)st;
    assert_true(x < .95 * y && x > .5 * y);
}

static void positions_in_order_make_the_last_rank_wait(void **st)
{
    const char *llama = "llama:layers=2,hidden=1024,heads=8,kv_heads=8,"
                        "ffn=2048,gated=1,vocab=32000,seq=65536";
    struct pdl_oracle_options opt = {.compile = true};
    double plain = project(llama, "context=8(ring,plain)", 1, &opt).step_s;
    double even = project(llama, "context=8(ring,zigzag)", 1, &opt).step_s;

    (void)st;
    assert_true(plain > 1.4 * even && plain < 1.9 * even);
}

static void unaligned_heads_are_slow(void **st)
{
    struct pdl_oracle_options opt = {.unfused = true};
    double odd = project("gpt:layers=2,hidden=1728,heads=16,ffn=6912,"
                         "vocab=51200,seq=2048",
                         "data=1", 4, &opt)
                     .step_s; /* heads of 108 */
    double even = project("gpt:layers=2,hidden=1728,heads=12,ffn=6912,"
                          "vocab=51200,seq=2048",
                          "data=1", 4, &opt)
                      .step_s; /* of 144, so fewer of them */

    (void)st;
    assert_true(odd > 1.05 * even);
}

/* Two of four blocks: half of what all of them save and cost. */
static void blocks_choose_what_is_made_again(void **st)
{
    struct pdl_oracle_options o = {.optimizer_slots = 2};
    struct pdl_projection none = project(GPT, "serial", 4, &o);
    struct pdl_projection full = project(GPT, "serial,recompute=full", 4, &o);
    struct pdl_projection some =
        project(GPT, "*: data=1; layers.[01].*: recompute=full", 4, &o);
    struct pdl_projection rest = project(
        GPT, "*: data=1,recompute=full; layers.[01].*: recompute=none", 4, &o);

    (void)st;
    assert_true(none.recompute_s == 0);
    assert_true(fabs(2 * some.recompute_s - full.recompute_s) <
                1e-9 * full.recompute_s);
    assert_true(fabs(some.recompute_s + rest.recompute_s - full.recompute_s) <
                1e-9 * full.recompute_s);
    assert_true(some.allocated_bytes < none.allocated_bytes);
    assert_true(some.allocated_bytes > full.allocated_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_choose_what_is_made_again),
        cmocka_unit_test(stored_scores_cost_time_and_memory),
        cmocka_unit_test(the_host_sets_the_pace_of_small_models),
        cmocka_unit_test(frameworks_deal_layers_their_way),
        cmocka_unit_test(more_stages_than_layers_are_cut_by_work),
        cmocka_unit_test(weights_have_the_bytes_that_the_framework_says),
        cmocka_unit_test(eight_bits_are_quicker_but_not_twice),
        cmocka_unit_test(positions_in_order_make_the_last_rank_wait),
        cmocka_unit_test(unaligned_heads_are_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
