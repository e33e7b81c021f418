/* The explanation: every finding is found where it is true and not where it is
 * not, and a gain is what pricing on the better system gives. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

struct job {
    pdl_arena *a;
    struct pdl_system sys;
    struct pdl_strategy strategy;
    const struct pdl_plan *plan;
    struct pdl_oracle_options opt;
    struct pdl_projection x;
    struct pdl_explanation e;
};

static struct job *job(const char *model, const char *strategy, int64_t batch)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job *j = PDL_NEW(a, struct job, 1);
    struct pdl_plan_options po = {.batch = batch};
    const struct pdl_model *m;
    struct pdl_err err = {"", ""};

    j->a = a;
    j->opt = (struct pdl_oracle_options){.precision = PDL_PREC_FP32,
                                         .optimizer_slots = 1};
    if (pdl_zoo_build(a, model, &m, &err) != PDL_OK ||
        pdl_system_open(a, "abci-v100", &j->sys, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, &j->strategy, &err) != PDL_OK ||
        pdl_plan_lower(a, m, &j->strategy, &po, &j->plan, &err) != PDL_OK ||
        pdl_project(j->plan, &j->sys, &j->opt, &j->x, &err) != PDL_OK ||
        pdl_explain(a, j->plan, &j->sys, &j->opt, &j->x, &j->e, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
    return j;
}

static const struct pdl_limit *find(const struct job *j, const char *id)
{
    for (int i = 0; i < j->e.nlimits; i++)
        if (strcmp(j->e.limits[i].id, id) == 0)
            return &j->e.limits[i];
    return NULL;
}

static void each_finding_is_found_where_it_is_true(void **state)
{
    static const struct {
        const char *id, *model, *strategy;
        int64_t batch;
        const char *not_strategy;
        int64_t not_batch;
        enum pdl_limit_kind kind;
    } rows[] = {
        {"gradient-exchange", "vgg16", "data=64", 64, "data=1", 1, PDL_LIMIT},
        {"gradient-exchange", "vgg16", "data=64", 64, "filter=4", 4, PDL_LIMIT},
        {"layer-collectives", "vgg16", "filter=4", 4, "data=4", 4, PDL_LIMIT},
        {"p2p-staged", "resnet50", "spatial=4", 4, "data=4", 4, PDL_BOTTLENECK},
        {"congestion", "vgg16", "data=16,filter=4", 64, "data=16", 64,
         PDL_BOTTLENECK},
        {"memory-redundancy", "vgg16", "filter=4", 192, "data=4", 192,
         PDL_BOTTLENECK},
        {"weight-update", "vgg16", "data=1", 1, "data=1", 64, PDL_LIMIT},
        {"stage-imbalance", "vgg16", "pipe=4(gpipe,m=4)", 64, "data=4", 64,
         PDL_LIMIT},
        {"compute-redundancy", "resnet50", "filter=4,exchange=paper", 32,
         "data=4", 32, PDL_BOTTLENECK},
        {"pe-limit", "resnet50", "data=64", 64, "data=64", 2048, PDL_LIMIT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job *yes = job(rows[i].model, rows[i].strategy, rows[i].batch);
        struct job *no =
            job(rows[i].model, rows[i].not_strategy, rows[i].not_batch);
        const struct pdl_limit *l = find(yes, rows[i].id);

        if (!l)
            fail_msg("%s: not found", rows[i].id);
        if (find(no, rows[i].id))
            fail_msg("%s: found where it is not: %s", rows[i].id,
                     find(no, rows[i].id)->text);
        assert_int_equal(l->kind, rows[i].kind);
        assert_true(l->share > 0 && l->share <= 1);
        assert_true(l->text[strlen(l->text) - 1] == '.');
        assert_non_null(strpbrk(l->text, "0123456789"));
        pdl_arena_destroy(yes->a);
        pdl_arena_destroy(no->a);
    }
}

/* What pdl_project does not fill yet is read from the projection given. */
static void input_and_fragmentation_are_read_from_the_projection(void **state)
{
    struct job *j = job("lenet5", "data=2", 8);
    struct pdl_err err = {"", ""};

    (void)state;
    assert_null(find(j, "io-staging"));
    assert_null(find(j, "fragmentation"));
    j->x.io_s = 0.2 * j->x.step_s;
    j->x.reserved_bytes += j->x.peak_bytes / 4;
    assert_int_equal(
        pdl_explain(j->a, j->plan, &j->sys, &j->opt, &j->x, &j->e, &err),
        PDL_OK);
    assert_non_null(find(j, "io-staging"));
    assert_true(fabs(find(j, "io-staging")->share - 0.2) < 1e-12);
    assert_non_null(find(j, "fragmentation"));
    pdl_arena_destroy(j->a);
}

static void limits_come_largest_first(void **state)
{
    struct job *j = job("vgg16", "data=16,filter=4", 64);

    (void)state;
    assert_true(j->e.nlimits >= 3);
    for (int i = 1; i < j->e.nlimits; i++)
        assert_true(j->e.limits[i].share <= j->e.limits[i - 1].share);
    pdl_arena_destroy(j->a);
}

static const struct pdl_gain *gain(const struct job *j, const char *resource)
{
    for (int i = 0; i < j->e.ngains; i++)
        if (strcmp(j->e.gains[i].resource, resource) == 0)
            return &j->e.gains[i];
    return NULL;
}

static void a_gain_is_the_price_on_the_better_system(void **state)
{
    struct job *j = job("vgg16", "data=8", 8);
    struct pdl_system better = j->sys;
    struct pdl_projection y;

    (void)state;
    better.pe.memory_bytes_per_s *= 1.1;
    assert_int_equal(pdl_project(j->plan, &better, &j->opt, &y, NULL), PDL_OK);
    assert_true(gain(j, "memory_bw")->step_s == y.step_s);
    assert_true(gain(j, "flops")->step_s < j->x.step_s);
    assert_true(gain(j, "link:leaf")->step_s < j->x.step_s);
    assert_true(gain(j, "latency:leaf")->step_s <= j->x.step_s);
    assert_true(gain(j, "memory")->step_s == j->x.step_s);
    /* nothing crosses only that, but part of an allreduce may run inside */
    assert_true(gain(j, "link:node")->step_s <= j->x.step_s);
    for (int i = 0; i < j->e.ngains; i++) {
        assert_true(j->e.gains[i].step_s <= j->x.step_s * (1 + 1e-12));
        assert_true(j->e.gains[i].step_s >= j->x.step_s / 1.1 - 1e-12);
    }
    pdl_arena_destroy(j->a);
}

static void a_starved_explanation_fails_cleanly(void **state)
{
    struct job *j = job("lenet5", "data=2", 8);
    pdl_arena *small = pdl_arena_create(64);
    struct pdl_explanation e = {0};
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(
        pdl_explain(small, j->plan, &j->sys, &j->opt, &j->x, &e, &err),
        PDL_ENOMEM);
    assert_int_equal(e.nlimits, 0);
    pdl_arena_destroy(small);
    pdl_arena_destroy(j->a);
}

static void an_axis_that_could_stay_in_a_node_is_told_so(void **state)
{
    struct job *apart = job("vgg16", "filter=4,data=16", 512);
    struct job *inside = job("vgg16", "data=16,filter=4", 512);

    (void)state;
    assert_non_null(strstr(find(apart, "layer-collectives")->text,
                           "written last in the strategy, filter=4 stays"));
    assert_null(
        strstr(find(inside, "layer-collectives")->text, "written last"));
    assert_true(inside->x.step_s < apart->x.step_s); /* and it is true */
    pdl_arena_destroy(apart->a);
    pdl_arena_destroy(inside->a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_finding_is_found_where_it_is_true),
        cmocka_unit_test(input_and_fragmentation_are_read_from_the_projection),
        cmocka_unit_test(limits_come_largest_first),
        cmocka_unit_test(a_gain_is_the_price_on_the_better_system),
        cmocka_unit_test(a_starved_explanation_fails_cleanly),
        cmocka_unit_test(an_axis_that_could_stay_in_a_node_is_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
