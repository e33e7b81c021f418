/* swap=karma: what it decides fits where everything the same does not, is never
 * slower than every block made again or on the host, reads back from its
 * notation, and takes as long as the chain of blocks said. */
#include "paradl/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct question {
    pdl_arena *a;
    const struct pdl_model *m;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_plan_options po;
};

static void begin(struct question *q, const char *model, const char *system,
                  int64_t batch)
{
    struct pdl_err err = {"", ""};

    *q = (struct question){
        .a = pdl_arena_create(PDL_ARENA_DEFAULT),
        .oracle = {.precision = PDL_PREC_FP32, .optimizer_slots = 1},
        .po = {.batch = batch, .dtype = PDL_F32}};
    if (pdl_model_load(q->a, model, NULL, &q->m, &err) != PDL_OK ||
        pdl_system_open(q->a, system, &q->sys, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static struct pdl_projection project(struct question *q,
                                     const struct pdl_strategy *s)
{
    const struct pdl_plan *p;
    struct pdl_projection x = {0};
    struct pdl_err err = {"", ""};

    if (pdl_plan_lower(q->a, q->m, s, &q->po, &p, &err) != PDL_OK ||
        pdl_plan_check(p, &err) != PDL_OK ||
        pdl_project(p, &q->sys, &q->oracle, &x, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return x;
}

static struct pdl_strategy *parsed(struct question *q, const char *text)
{
    struct pdl_strategy *s = PDL_NEW(q->a, struct pdl_strategy, 1);
    struct pdl_err err = {"", ""};

    if (pdl_strategy_parse(q->a, text, s, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    return s;
}

static struct pdl_outofcore decide(struct question *q, struct pdl_strategy *s)
{
    struct pdl_outofcore x;
    struct pdl_err err = {"", ""};

    if (pdl_outofcore(q->a, q->m, &q->sys, &q->oracle, &q->po, s, &x, &err) !=
        PDL_OK)
        fail_msg("%s", err.msg);
    return x;
}

static void reads_back(struct question *q, const struct pdl_strategy *s)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    assert_true(pdl_strategy_equal(s, parsed(q, b.text)));
    pdl_buf_free(&b);
}

static const struct {
    const char *model, *system;
    int64_t batch;
    double share; /* of the memory that it needs in core */
} cases[] = {
    {"resnet18", "abci-v100", 256, .7},
    {"resnet18", "abci-v100:node.host.copy_interference=0.4", 256, .75},
    {"resnet50", "abci-v100", 64, .5},
    {"vgg16", "abci-v100", 64, .92},
    {"gpt:layers=12,hidden=768,heads=12,ffn=3072,vocab=8000,seq=512",
     "dgx-a100", 16, .5},
};

static void decisions_fit_and_no_block_the_same_is_faster(void **state)
{
    static const char *const same[] = {"serial,recompute=full",
                                       "serial,offload=activations",
                                       "serial,swap=auto"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question q;
        struct pdl_strategy *s;
        struct pdl_outofcore x;
        double error;

        begin(&q, cases[i].model, cases[i].system, cases[i].batch);
        q.sys.pe.memory_bytes =
            (int64_t)(cases[i].share *
                      (double)project(&q, parsed(&q, "serial")).peak_bytes);
        s = parsed(&q, "serial,swap=karma");
        x = decide(&q, s);
        assert_true(x.x.feasible && !x.in_core.feasible);
        /* the host's update may be beside backward */
        assert_true(x.x.step_s >
                    (x.in_core.step_s - x.in_core.update_s) * .999);
        assert_true(fabs(project(&q, s).step_s / x.x.step_s - 1) < 1e-12);
        reads_back(&q, s);
        for (int k = 0; k < 3; k++) {
            struct pdl_strategy *t = parsed(&q, same[k]);
            struct pdl_projection y;

            assert_int_equal(
                pdl_swap_settle(q.a, q.m, &q.sys, &q.oracle, &q.po, t, NULL),
                PDL_OK);
            y = project(&q, t);
            assert_true(!y.feasible || x.x.step_s <= y.step_s * (1 + 1e-9));
        }
        error = (x.plan.step.step_s + x.rest_s) / x.x.step_s - 1;
        printf("%s: %.1f %% of in-core speed, planned %+.2f %%\n",
               cases[i].model, 100 * x.in_core.step_s / x.x.step_s,
               100 * error);
        assert_true(fabs(error) < .03);
        pdl_arena_destroy(q.a);
    }
}

/* Neither the PE nor the host has room for all that the optimizer keeps; sums
 * of gradients over micro-batches are there all the time. */
static void divide_states(const char *plain, double here, double there)
{
    struct question q;
    struct pdl_projection all;
    struct pdl_strategy *s;
    struct pdl_outofcore x;
    double error;
    bool some = false;

    begin(&q, "gpt:layers=12,hidden=1024,heads=16,ffn=4096,vocab=4000,seq=512",
          "dgx-a100:node.pes=1", 16);
    q.oracle.precision = PDL_PREC_BF16;
    q.oracle.optimizer_slots = 2;
    q.po.dtype = PDL_BF16;
    all = project(&q, parsed(&q, plain));
    q.sys.pe.memory_bytes = (int64_t)(here * (double)all.peak_bytes);
    q.sys.node.host.memory_bytes =
        (int64_t)(there * (double)all.optimizer_bytes);
    assert_false(project(&q, parsed(&q, plain)).feasible);
    s = parsed(&q, pdl_arena_printf(q.a, "%s,offload=optimizer", plain));
    assert_false(project(&q, s).feasible);
    s = parsed(&q, pdl_arena_printf(q.a, "%s,swap=karma", plain));
    x = decide(&q, s);
    assert_true(x.x.feasible);
    assert_true(x.x.optimizer_bytes > 0 &&
                x.x.optimizer_bytes < all.optimizer_bytes);
    assert_true(x.x.host_bytes <= q.sys.node.host.memory_bytes);
    for (int c = 0; c < s->nclauses; c++)
        some = some || s->clause[c].offload_optimizer;
    assert_true(some);
    assert_true(x.x.step_s == project(&q, s).step_s);
    error = (x.plan.step.step_s + x.rest_s) / x.x.step_s - 1;
    printf("%s: planned %+.2f %%\n", plain, 100 * error);
    assert_true(fabs(error) < .03);
    reads_back(&q, s);
    pdl_arena_destroy(q.a);
}

static void states_are_divided(void **state)
{
    (void)state;
    divide_states("serial", .8, 1);
    divide_states("serial,accumulate=16", .6, .85);
}

static void more_memory_is_not_slower(void **state)
{
    double before = INFINITY;
    int64_t whole;
    struct question q;

    (void)state;
    begin(&q, "resnet18", "abci-v100", 128);
    whole = project(&q, parsed(&q, "serial")).peak_bytes;
    for (int share = 4; share <= 10; share++) {
        struct pdl_outofcore x;

        q.sys.pe.memory_bytes = whole * share / 10;
        x = decide(&q, parsed(&q, "serial,swap=karma"));
        if (!x.x.feasible)
            continue;
        assert_true(x.x.step_s <= before * 1.005);
        before = x.x.step_s;
    }
    assert_true(isfinite(before));
    pdl_arena_destroy(q.a);
}

/* The chain's memory is a little off that of whole plans: what it thinks fits
 * does not, and is not asked for again. */
static void what_just_fits_is_found(void **state)
{
    static const int64_t batches[] = {480, 512};
    struct question q;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pdl_projection again;
        struct pdl_outofcore x;

        begin(&q, "resnet50", "abci-v100:node.host.pes_per_switch=1",
              batches[i]);
        again = project(&q, parsed(&q, "serial,recompute=full"));
        x = decide(&q, parsed(&q, "serial,swap=karma"));
        if (!x.x.feasible || x.x.step_s > .9 * again.step_s)
            fail_msg("%lld: %s, %.3f of made again", (long long)batches[i],
                     x.x.feasible ? "fits" : "does not fit",
                     x.x.step_s / again.step_s);
        pdl_arena_destroy(q.a);
    }
}

static void what_it_does_not_go_with_is_one_line(void **state)
{
    static const char *const bad[] = {"pipe=2(m=2),swap=karma",
                                      "serial,swap=karma,recompute=full",
                                      "*: data=1,swap=karma; fc: data=1"};
    struct question q;

    (void)state;
    begin(&q, "resnet18", "abci-v100", 8);
    for (int i = 0; i < 3; i++) {
        struct pdl_outofcore x;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_outofcore(q.a, q.m, &q.sys, &q.oracle, &q.po,
                                       parsed(&q, bad[i]), &x, &err),
                         PDL_EINVAL);
        assert_non_null(strstr(err.msg, "swap=karma"));
    }
    pdl_arena_destroy(q.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_fit_and_no_block_the_same_is_faster),
        cmocka_unit_test(states_are_divided),
        cmocka_unit_test(more_memory_is_not_slower),
        cmocka_unit_test(what_just_fits_is_found),
        cmocka_unit_test(what_it_does_not_go_with_is_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
