/* What is searched: what the framework runs and its launch file can say, all of
 * it and nothing else; and the best of a better machine is never slower. */
#include "effort.h"
#include "oracle/better.h"
#include "oracle/plans.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const llama = "llama:layers=4,hidden=1024,heads=16,ffn=4096,"
                                 "vocab=2048,seq=1024",
                         *const moe =
                             "moe:layers=2,hidden=1024,heads=16,ffn=512,"
                             "vocab=2048,seq=1024,experts=16,topk=2";

struct asked {
    const char *model, *framework;
    int change; /* of better[]; -1: none */
    int64_t pes, batch;
};

static struct pdl_search_result search(pdl_arena *a, const struct asked *q,
                                       const struct pdl_search_options *more)
{
    struct pdl_oracle_options oracle = {
        .precision = PDL_PREC_BF16,
        .optimizer_slots = 2,
        .framework = q->framework ? open_framework(q->framework) : NULL};
    struct pdl_search_options opt = *more;
    struct pdl_system sys = open_system(a, "dgx-h100:nodes=2");
    struct pdl_search_result r = {0};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m;

    opt.pes = q->pes;
    opt.batch = q->batch;
    if (q->change >= 0)
        better[q->change].make(&sys);
    if (pdl_zoo_build(a, q->model, &m, &err) != PDL_OK ||
        pdl_system_update(a, &sys, &err) != PDL_OK ||
        pdl_search(a, m, &sys, &oracle, &opt, &r, &err) != PDL_OK)
        fail_msg("%s, %s: %s", q->model, q->framework, err.msg);
    return r;
}

/* Every point, so that none is left out for being slow. */
static void plans_are_what_the_framework_runs_and_exports(void **st)
{
    const struct pdl_search_options all = {
        .exhaustive = true, .top = 300, .one_order = true};
    const struct pdl_builtin *b;
    int found = 0;

    (void)st;
    for (int i = 0; (b = pdl_framework_builtin(i)) != NULL; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_framework *f = open_framework(b->name);
        struct pdl_search_result r = search(
            a, &(struct asked){i % 2 ? moe : llama, b->name, -1, 4, 8}, &all);

        for (int64_t k = 0; k < r.n; k++) {
            struct pdl_err err = {"", ""};
            struct pdl_strategy s;

            assert_int_equal(
                pdl_strategy_parse(a, r.list[k].strategy, &s, &err), PDL_OK);
            if (pdl_framework_plans(f, &s, &err) != PDL_OK ||
                pdl_framework_can(f, &s, &err) != PDL_OK)
                fail_msg("%s: %s", r.list[k].strategy, err.msg);
        }
        if (r.n == 0 || !r.list[0].x.feasible)
            fail_msg("%s: nothing found", b->name);
        found += (int)r.n;
        pdl_arena_destroy(a);
    }
    assert_true(found > 200);
}

/* A plan that only one framework runs is found for it and for no other. */
static void every_kind_of_plan_is_found_where_it_runs(void **st)
{
    static const struct {
        const char *framework, *has;
        bool found;
    } cases[] = {
        {"megatron", "interleaved", true},
        {"megatron", "zb-", false},
        {"megatron", "recompute=selective-op", false},
        {"megatron", "zero=3", false},
        {"torchtitan", "zb-v", true},
        {"torchtitan", "zb-h1", false},
        {"torchtitan", "recompute=selective-op", true},
        {"torchtitan", "zero=1", false},
        {"torchtitan", "zero=3", true},
        {"nanotron", "interleaved", false},
        {"nanotron", "zero=1", true},
        {"pytorch", "pipe", false}, /* accelerate's file has none */
        {"pytorch", "tensor=2,zero=3", true},
        {"pytorch", "+seq", false},
        {"megatron-deepspeed", "zero=3", true},
        {"composer", "tensor", false},
        {"own", "zb-h2", true},
        {"own", "offload", true},
        {NULL, "offload=activations", true},
    };
    const struct pdl_search_options all = {
        .exhaustive = true, .top = 1000, .one_order = true};

    (void)st;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0];) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const char *framework = cases[i].framework;
        struct pdl_search_result r =
            search(a, &(struct asked){llama, framework, -1, 4, 4}, &all);

        for (; i < sizeof cases / sizeof cases[0] &&
               cases[i].framework == framework;
             i++) {
            bool found = false;

            for (int64_t k = 0; k < r.n; k++)
                found = found || strstr(r.list[k].strategy, cases[i].has);
            if (found != cases[i].found)
                fail_msg("%s: %s", framework, cases[i].has);
        }
        pdl_arena_destroy(a);
    }
}

/* Layers that do not divide: interleaved where the launch file says how many
 * each stage has, and no lane gets more. Experts: tensor ranks share
 * sequences. */
static void what_launch_files_say(void **st)
{
    static const char seven[] = "llama:layers=7,hidden=1024,heads=16,ffn=4096,"
                                "vocab=2048,seq=1024";
    const struct {
        const char *model, *framework, *has;
        bool found;
    } cases[] = {
        {seven, "megatron", "v=2", true},
        {seven, "megatron", "v=3", false},
        {seven, "torchtitan", "v=2", true},
        {moe, "megatron", "tensor=2+seq", true},
        {moe, "megatron", "tensor=2,", false},
        {llama, "megatron", "tensor=2,", true},
    };
    const struct pdl_search_options all = {
        .exhaustive = true, .top = 1000, .one_order = true};

    (void)st;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_search_result r = search(
            a, &(struct asked){cases[i].model, cases[i].framework, -1, 2, 4},
            &all);
        bool found = false;

        for (int64_t k = 0; k < r.n; k++)
            found = found || strstr(r.list[k].strategy, cases[i].has);
        if (found != cases[i].found)
            fail_msg("%s: %s", cases[i].framework, cases[i].has);
        pdl_arena_destroy(a);
    }
}

/* Blocks that differ are lowered one by one, with the same choices: one or two
 * dense layers before those with experts. */
static void choices_with(int dense)
{
    char model[256];
    static const struct {
        const char *framework, *has;
        bool found;
    } cases[] = {
        {"megatron", "pipe=2", true},
        {"megatron", "expert=4", true},
        {"megatron", "expert=2,context=2", true},
        {"megatron", "zero=3", false},
        {"pytorch", "zero=3,recompute=full", true},
        {"pytorch", "expert", false},
        {"pytorch", "zero=1", false}, /* accelerate's file has none */
        {"torchtitan", "recompute=selective-op", true},
        {"torchtitan", "recompute=selective,", false},
    };
    const struct pdl_search_options all = {.one_order = true};

    snprintf(model, sizeof model,
             "deepseek:layers=4,hidden=1024,heads=16,ffn=2048,moe_ffn=512,"
             "experts=16,topk=2,shared=1,dense=%d,q_lora=256,kv_lora=128,"
             "nope=64,rope=32,v_head_dim=64,vocab=2048,seq=8192",
             dense);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_search_result r = search(
            a, &(struct asked){model, cases[i].framework, -1, 4, 8}, &all);
        bool found = false;

        for (int64_t k = 0; k < r.n; k++)
            found = found || strstr(r.list[k].strategy, cases[i].has);
        if (found != cases[i].found)
            fail_msg("%s, dense=%d: %s", cases[i].framework, dense,
                     cases[i].has);
        pdl_arena_destroy(a);
    }
}

static void blocks_that_differ_have_the_same_choices(void **st)
{
    (void)st;
    choices_with(1);
    choices_with(2);
}

/* Streams that overlap are run event by event, where one that ends earlier may
 * let another begin that is in the way (Graham 1969). */
static const double ANOMALY = 1e-3;

static double best_step(const struct asked *q)
{
    const struct pdl_search_options opt = {.top = 1, .uncounted = true};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_search_result r = search(a, q, &opt);
    double best =
        r.n > 0 && r.list[0].x.feasible ? r.list[0].x.step_s : INFINITY;

    pdl_arena_destroy(a);
    return best;
}

static void the_best_of_a_better_machine_is_never_slower(void **st)
{
    static const struct asked questions[] = {
        {NULL, NULL, -1, 16, 32},         {NULL, "megatron", -1, 16, 32},
        {NULL, "torchtitan", -1, 16, 32}, {NULL, "nanotron", -1, 16, 32},
        {NULL, "pytorch", -1, 8, 32},
    };
    enum { NQUESTIONS = sizeof questions / sizeof questions[0] };

    (void)st;
    for (int i = 0; i < effort(1, 3, NQUESTIONS); i++)
        for (int m = 0; m < effort(1, 1, 2); m++) {
            struct asked q = questions[i];
            double before;

            q.model = m == i % 2 ? llama : moe;
            before = best_step(&q);
            assert_true(isfinite(before));
            for (q.change = 0; q.change < NBETTER; q.change++) {
                double after = best_step(&q);

                if (after > before * (1 + ANOMALY))
                    fail_msg("%s, %s: %g s, with better %s %g s", q.model,
                             q.framework ? q.framework : "none", before,
                             better[q.change].name, after);
            }
        }
}

struct course {
    int64_t done, total;
    bool back; /* it went backwards, or past the end */
};

static bool follow(void *ctx, int64_t done, int64_t total)
{
    struct course *c = ctx;

    c->back = c->back || done < c->done || (total > 0 && done > total);
    c->done = done;
    c->total = total;
    return true;
}

/* Who waits is told of how many points. */
static void progress_ends_at_its_total(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct course c = {0};
    const struct pdl_search_options opt = {
        .top = 3, .one_order = true, .progress = follow, .ctx = &c};
    struct pdl_search_result r =
        search(a, &(struct asked){llama, "megatron", -1, 4, 8}, &opt);

    (void)st;
    assert_false(c.back);
    assert_true(c.total > 0);
    assert_int_equal(c.total, r.points);
    assert_int_equal(c.done, r.points);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_what_the_framework_runs_and_exports),
        cmocka_unit_test(every_kind_of_plan_is_found_where_it_runs),
        cmocka_unit_test(what_launch_files_say),
        cmocka_unit_test(blocks_that_differ_have_the_same_choices),
        cmocka_unit_test(the_best_of_a_better_machine_is_never_slower),
        cmocka_unit_test(progress_ends_at_its_total),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
