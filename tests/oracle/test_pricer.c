/* Strategies priced one after the other from what they share equal their
 * plans, figure by figure; those that cannot be are left to plans. */
#include "effort.h"
#include "figures.h"

#include <stdio.h>

struct question {
    const char *model, *system, *framework;
    int64_t most, batch;
    enum pdl_precision precision;
};
static const struct question questions[] = {
    {"gpt3-175b:layers=24", "dgx-a100", NULL, 2048, 1536, PDL_PREC_BF16},
    {"llama3-8b:layers=12", "dgx-h100", "megatron", 128, 256, PDL_PREC_BF16},
    {"llama3-8b:layers=8", "dgx-h100", "torchtitan", 64, 128, PDL_PREC_FP8},
    {"mixtral-8x7b:layers=6", "jean-zay-a100", NULL, 64, 192, PDL_PREC_BF16},
};
enum { NQUESTIONS = sizeof questions / sizeof questions[0] };

static uint64_t seed = 7;

static int64_t draw(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t power(int most)
{
    return INT64_C(1) << draw(most + 1);
}

static const char *const words[] = {",zero=1",           ",zero=2",
                                    ",zero=3",           ",recompute=full",
                                    ",overlap=off",      ",recompute=selective",
                                    ",offload=optimizer"};

/* Any order of the axes, any number of PEs up to the most. */
static void random_strategy(const struct question *q, char *text, size_t size)
{
    char axes[4][48];
    int at = 0, first = (int)draw(2);
    int64_t pipe, data, tensor, context, m = power(3);

    do {
        pipe = power(3);
        data = power(5);
        tensor = power(3);
        context = draw(3) ? 1 : power(2);
    } while (pipe * data * tensor * context > q->most);
    snprintf(axes[0], sizeof axes[0], "pipe=%lld(m=%lld)", (long long)pipe,
             (long long)m);
    if (pipe == 1)
        axes[0][0] = '\0';
    snprintf(axes[1], sizeof axes[1], "data=%lld", (long long)data);
    snprintf(axes[2], sizeof axes[2], "context=%lld", (long long)context);
    snprintf(axes[3], sizeof axes[3], "tensor=%lld%s", (long long)tensor,
             tensor > 1 && draw(2) ? "+seq" : "");
    for (int i = 0; i < 4; i++) {
        const char *axis = axes[i < 2 ? i ^ first : i];

        if (*axis)
            at += snprintf(text + at, size - (size_t)at, "%s%s",
                           at > 0 ? "," : "", axis);
    }
    at += snprintf(text + at, size - (size_t)at, "%s", words[draw(3)]);
    if (draw(2))
        at += snprintf(text + at, size - (size_t)at, "%s", words[3 + draw(4)]);
    if (pipe == 1 && m > 1)
        snprintf(text + at, size - (size_t)at, ",accumulate=%lld",
                 (long long)m);
}

struct asked {
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_oracle_options opt;
    struct pdl_plan_options plan;
};

static void ask(pdl_arena *a, const struct question *q, struct asked *x)
{
    x->opt = (struct pdl_oracle_options){.precision = q->precision,
                                         .optimizer_slots = 2};
    x->plan = (struct pdl_plan_options){.batch = q->batch};
    if (q->framework)
        assert_int_equal(
            pdl_framework_open(a, q->framework, &x->opt.framework, NULL),
            PDL_OK);
    assert_int_equal(pdl_model_load(a, q->model, NULL, &x->model, NULL),
                     PDL_OK);
    assert_int_equal(pdl_system_open(a, q->system, &x->sys, NULL), PDL_OK);
}

static enum pdl_status in_full(const struct asked *x, struct pdl_strategy s,
                               struct pdl_projection *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = x->sys;
    const struct pdl_plan *plan;
    enum pdl_status st =
        pdl_oracle_lower(a, x->model, &sys, &x->opt, &x->plan, &s, &plan, NULL);

    if (st == PDL_OK)
        st = pdl_system_for_pes(a, &sys, plan->mesh->pes, NULL);
    if (st == PDL_OK)
        st = pdl_project(plan, &sys, &x->opt, out, NULL);
    pdl_arena_destroy(a);
    return st;
}

/* -1: it is left to plans; 0: right. */
static int try_strategy(pdl_pricer *p, const struct asked *x, const char *text)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_projection mine, full = {0};
    struct pdl_strategy s;
    const char *what = "the answer";
    int out = -1;

    assert_int_equal(pdl_strategy_parse(a, text, &s, NULL), PDL_OK);
    if (pdl_pricer_project(p, &x->sys, &x->plan, &s, &mine)) {
        if (in_full(x, s, &full) == PDL_OK)
            what = differs(&mine, &full);
        if (what) {
            print_message("%s %s: %s\n", x->model->name, text, what);
            every(&mine, &full);
        }
        out = what != NULL;
    }
    pdl_arena_destroy(a);
    return out;
}

static void composed_strategies_equal_their_plans(void **state)
{
    int n = effort(6, 24, 400), wrong = 0, composed = 0;

    (void)state;
    for (int i = 0; i < NQUESTIONS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct asked x;
        pdl_pricer *p;

        ask(a, &questions[i], &x);
        p = pdl_pricer_create(x.model, &x.opt);
        assert_non_null(p);
        for (int k = 0; k < n; k++) {
            char text[256];
            int got;

            random_strategy(&questions[i], text, sizeof text);
            got = try_strategy(p, &x, text);
            composed += got >= 0;
            wrong += got > 0;
        }
        pdl_pricer_destroy(p);
        pdl_arena_destroy(a);
    }
    print_message("%d of %d composed\n", composed, n * NQUESTIONS);
    assert_int_equal(wrong, 0);
    assert_true(2 * composed > n * NQUESTIONS);
}

/* Whatever no point of the search says. */
static void other_strategies_are_left_to_plans(void **state)
{
    static const char *const left[] = {
        "data=8,allreduce=ring",
        "pipe=4(gpipe,m=8),data=2",
        "tensor=2,data=4",
        "data=8,bucket=1MiB",
        "data=8,memory=paper",
        "data=8,recompute=selective-op",
        "data=8,compress=topk:0.01",
        "data=8,zero=2,offload=activations",
        "tensor=8,zero=2",    /* nobody to share with */
        "pipe=4,data=2",      /* how many micro-batches is not said */
        "pipe=4(m=7),data=2", /* not as many each */
        "data=4,context=2(plain)",
        "*: data=8; block0_*: tensor=2",
        "data=1099511627776,tensor=1099511627776",
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct asked x;
    pdl_pricer *p;

    (void)state;
    ask(a, &questions[0], &x);
    p = pdl_pricer_create(x.model, &x.opt);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        struct pdl_projection out;
        struct pdl_strategy s;
        struct pdl_err err;

        if (pdl_strategy_parse(a, left[i], &s, &err) != PDL_OK)
            fail_msg("%s: %s", left[i], err.msg);
        if (pdl_pricer_project(p, &x.sys, &x.plan, &s, &out))
            fail_msg("%s is composed", left[i]);
    }
    assert_int_equal(try_strategy(p, &x, "data=8"), 0);
    pdl_pricer_destroy(p);
    pdl_pricer_destroy(NULL);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composed_strategies_equal_their_plans),
        cmocka_unit_test(other_strategies_are_left_to_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
