/* Searches that are asked less: whether anything fits is what the whole search
 * says, the best without counting is the best, and deep networks of small
 * blocks, whose updates are lowered as deep as they are, need no more memory
 * than a search has. */
#include "effort.h"
#include "paradl/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct question {
    const char *model;
    int64_t pes, batch;
    bool fits;
};

/* of machines with 80 GiB a PE: either side of what fits */
static const struct question questions[] = {
    {"gpt2", 8, 16, true},
    {"llama3-8b", 2, 4, true},
    {"llama3-8b:seq=1048576", 1, 1, false},
    {"llama-3-70b", 4, 8, true},
    {"gpt3-175b", 4, 8, false},
    {"gpt3-175b", 8, 16, false},
    {"gpt3-175b", 16, 16, true},
};

static void search(pdl_arena *a, const struct question *q,
                   struct pdl_search_options opt, struct pdl_search_result *r)
{
    struct pdl_oracle_options oracle = {.precision = PDL_PREC_BF16,
                                        .optimizer_slots = 2};
    const struct pdl_model *model;
    struct pdl_system sys;

    opt.pes = q->pes;
    opt.batch = q->batch;
    opt.top = 1;
    opt.one_order = true;
    assert_int_equal(pdl_model_load(a, q->model, NULL, &model, NULL), PDL_OK);
    assert_int_equal(pdl_system_open(a, "dgx-a100", &sys, NULL), PDL_OK);
    assert_int_equal(pdl_system_for_pes(a, &sys, q->pes, NULL), PDL_OK);
    assert_int_equal(pdl_search(a, model, &sys, &oracle, &opt, r, NULL),
                     PDL_OK);
}

static void what_fits_and_what_is_best_do_not_need_counting(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0];
         i += (size_t)effort(4, 1, 1)) {
        const struct question *q = &questions[i];
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_search_options all = {.exhaustive = false};
        struct pdl_search_options best = {.uncounted = true};
        struct pdl_search_options only = {.uncounted = true, .only_fits = true};
        struct pdl_search_result r[3];

        search(a, q, all, &r[0]);
        search(a, q, best, &r[1]);
        search(a, q, only, &r[2]);
        print_message("%s on %lld: %lld of %lld fit\n", q->model,
                      (long long)q->pes, (long long)r[0].feasible,
                      (long long)r[0].points);
        assert_int_equal(r[0].feasible > 0, q->fits);
        assert_int_equal(r[2].feasible > 0, q->fits);
        assert_int_equal(r[2].evaluated, 0);
        if (q->fits) {
            assert_true(r[1].n > 0 && r[0].n > 0);
            assert_string_equal(r[0].list[0].strategy, r[1].list[0].strategy);
            assert_true(r[0].list[0].x.step_s == r[1].list[0].x.step_s);
        }
        pdl_arena_destroy(a);
    }
}

/* Of blocks that differ, what needs least of every mesh says whether anything
 * fits; which plan was first is not said. */
static void blocks_that_differ_fit_as_the_whole_search_says(void **state)
{
    static const char model[] =
        "deepseek:layers=8,hidden=4096,heads=32,ffn=8192,moe_ffn=2048,"
        "experts=64,topk=4,shared=1,dense=2,q_lora=512,kv_lora=256,nope=64,"
        "rope=32,v_head_dim=64,vocab=32768,seq=1024";
    static const struct question cases[] = {
        {model, 1, 4, false}, {model, 2, 4, true}, {model, 4, 4, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_search_options all = {.top = 1}, only = {.only_fits = true};
        struct pdl_search_result r[2];

        search(a, &cases[i], all, &r[0]);
        search(a, &cases[i], only, &r[1]);
        assert_int_equal(r[0].feasible > 0, cases[i].fits);
        assert_int_equal(r[1].feasible > 0, cases[i].fits);
        assert_true(r[1].points < r[0].points);
        assert_true(!cases[i].fits || r[1].n == 0);
        pdl_arena_destroy(a);
    }
}

/* 96 numbers of chunks on two lanes, and updates that do not repeat. */
static void deep_networks_are_searched(void **state)
{
    const struct question q = {
        effort(0, 1, 1) ? "gpt2:layers=192" : "gpt2:layers=48", 2, 4, true};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_search_options opt = {.axes = "data,pipe"};
    struct pdl_search_result r;

    (void)state;
    search(a, &q, opt, &r);
    assert_true(r.feasible > 0);
    assert_true(r.n == 1 && r.list[0].x.step_s > 0);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_and_what_is_best_do_not_need_counting),
        cmocka_unit_test(blocks_that_differ_fit_as_the_whole_search_says),
        cmocka_unit_test(deep_networks_are_searched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
