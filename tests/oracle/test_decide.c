/* plan --offload: a search that decides block by block finds the best of all
 * its strategies decided on one by one, is never worse than one that may not,
 * and one that may not use the host does not. */
#include "paradl/oracle.h"

#include "../effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct question {
    pdl_arena *a;
    const struct pdl_model *m;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_search_options opt;
};

static void begin(struct question *q, const char *model, const char *system,
                  int64_t pes, int64_t batch)
{
    struct pdl_err err = {"", ""};

    *q = (struct question){
        .a = pdl_arena_create(PDL_ARENA_DEFAULT),
        .oracle = {.precision = PDL_PREC_FP32, .optimizer_slots = 1},
        .opt = {.pes = pes, .batch = batch, .threads = 1}};
    if (pdl_model_load(q->a, model, NULL, &q->m, &err) != PDL_OK ||
        pdl_system_open(q->a, system, &q->sys, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static struct pdl_search_result search(struct question *q,
                                       enum pdl_offload offload)
{
    struct pdl_search_result r;
    struct pdl_err err = {"", ""};

    q->opt.offload = offload;
    if (pdl_search(q->a, q->m, &q->sys, &q->oracle, &q->opt, &r, &err) !=
        PDL_OK)
        fail_msg("%s", err.msg);
    return r;
}

/* A step of a strategy that fits; else 0. */
static double step_of(struct question *q, const char *text)
{
    struct pdl_plan_options po = {.batch = q->opt.batch};
    struct pdl_strategy *s = PDL_NEW(q->a, struct pdl_strategy, 1);
    const struct pdl_plan *p;
    struct pdl_projection x = {0};
    struct pdl_err err = {"", ""};

    if (pdl_strategy_parse(q->a, text, s, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    if (pdl_oracle_lower(q->a, q->m, &q->sys, &q->oracle, &po, s, &p, &err) !=
            PDL_OK ||
        pdl_project(p, &q->sys, &q->oracle, &x, &err) != PDL_OK)
        return 0;
    return x.feasible ? x.step_s : 0;
}

static void less_of(double *best, double s)
{
    if (s > 0 && (*best <= 0 || s < *best))
        *best = s;
}

/* Every strategy of the space by itself. */
static double by_hand(struct question *q)
{
    struct pdl_search_result r = search(q, PDL_OFFLOAD_NONE);
    double best = 0;

    for (int64_t i = 0; i < r.n; i++) {
        if (r.list[i].priced)
            less_of(&best, step_of(q, r.list[i].strategy));
        if (!r.list[i].priced || strstr(r.list[i].strategy, "pipe"))
            continue;
        for (int zero = 0; zero <= (q->opt.pes > 1 ? 3 : 0); zero++)
            for (int how = 0; how < 4; how++) {
                char text[400];

                snprintf(text, sizeof text, "%s%s%.0d%s%s", r.list[i].strategy,
                         zero > 0 ? ",zero=" : "", zero,
                         how & 1 ? ",offload=optimizer" : "",
                         how & 2 ? ",swap=karma" : "");
                less_of(&best, step_of(q, text));
            }
    }
    return best;
}

static void as_by_hand(const char *model, const char *system, int64_t pes,
                       int64_t batch)
{
    struct question q;
    struct pdl_search_result r;
    double best;

    begin(&q, model, system, pes, batch);
    best = by_hand(&q);
    r = search(&q, PDL_OFFLOAD_AUTO);
    assert_true(r.n > 0 && best > 0 && r.list[0].x.feasible);
    if (r.list[0].x.step_s > best * (1 + 1e-9))
        fail_msg(
            "%s on %lld PEs, batch %lld: %s takes %.9g s, %.9g is possible",
            model, (long long)pes, (long long)batch, r.list[0].strategy,
            r.list[0].x.step_s, best);
    assert_true(r.list[0].x.step_s >= best * (1 - 1e-9));
    pdl_arena_destroy(q.a);
}

static void test_small_space(void **state)
{
    (void)state;
    as_by_hand("resnet50", "abci-v100", 1, 384);
    as_by_hand("vgg16", "abci-v100", 2, 512);
    as_by_hand("lenet5", "abci-v100:pe.memory=40MiB", 4, 4096);
    if (effort(0, 0, 1)) {
        as_by_hand("resnet50", "abci-v100", 4, 1536);
        as_by_hand("wrn-28-10", "abci-v100", 2, 3072);
        as_by_hand("unet", "abci-v100", 2, 56);
    }
}

/* Large space: not worse than without, and what does not fit otherwise does. */
static void test_large_space(void **state)
{
    static const int64_t batches[] = {4, 32};
    struct question q;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pdl_search_result none, all;

        begin(&q, "gpt2:layers=4,seq=256", "abci-v100:pe.memory=3GiB", 1,
              batches[i]);
        q.oracle.optimizer_slots = 2;
        none = search(&q, PDL_OFFLOAD_NONE);
        all = search(&q, PDL_OFFLOAD_AUTO);
        for (int64_t k = 0; k < none.n; k++)
            assert_true(!strstr(none.list[k].strategy, "offload") &&
                        !strstr(none.list[k].strategy, "swap"));
        assert_true(all.n > 0 && all.list[0].x.feasible);
        if (none.n > 0 && none.list[0].x.feasible)
            assert_true(all.list[0].x.step_s <=
                        none.list[0].x.step_s * (1 + 1e-9));
        pdl_arena_destroy(q.a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_space),
        cmocka_unit_test(test_large_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
