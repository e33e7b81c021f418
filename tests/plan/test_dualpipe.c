/* DualPipe: a pipeline whose micro-batches enter at both ends is lowered,
 * checked, proved and read back; every weight is there twice, and the two get
 * the same gradient. */
#include "paradl/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct {
    const char *model, *strategy;
    int64_t batch;
} rows[] = {
    {"gpt:layers=4,hidden=4,heads=2,vocab=5,positions=4,seq=3",
     "pipe=2(dualpipe,m=4)", 8},
    {"gpt:layers=3,hidden=4,heads=2,vocab=5,positions=4,seq=3,tied=1",
     "pipe=2(dualpipe,m=6),data=2", 12},
    {"llama:layers=4,hidden=6,heads=2,kv_heads=1,head_dim=2,ffn=5,vocab=7,seq="
     "4",
     "pipe=4(dualpipe,m=8),tensor=2", 8},
    {"llama:layers=4,hidden=6,heads=2,kv_heads=2,head_dim=2,ffn=5,vocab=7,seq="
     "4",
     "pipe=2(dualpipe,m=4),tensor=2+seq,recompute=full", 8},
    {"llama:layers=4,hidden=6,heads=2,kv_heads=2,head_dim=2,ffn=5,vocab=7,"
     "seq=4,experts=4,topk=2",
     "pipe=2(dualpipe,m=4),data=2,expert=2,zero=1", 16},
    {"gpt:layers=4,hidden=4,heads=2,vocab=5,positions=4,seq=3",
     "pipe=2(dualpipe,m=4),data=2,zero=3", 8},
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static const struct pdl_plan *lower(pdl_arena *a, int i,
                                    const struct pdl_model **m)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = rows[i].batch};
    const struct pdl_plan *p = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_zoo_build(a, rows[i].model, m, &err) != PDL_OK ||
        pdl_strategy_parse(a, rows[i].strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, *m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s, %s: %s", rows[i].model, rows[i].strategy, err.msg);
    return p;
}

static void it_is_checked_and_proved(void **state)
{
    (void)state;
    for (int i = 0; i < NROWS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m;
        const struct pdl_plan *p = lower(a, i, &m);
        struct pdl_err err = {"", ""};
        struct pdl_tasks o;

        if (pdl_plan_check(p, &err) != PDL_OK ||
            pdl_plan_prove(p, 7, &err) != PDL_OK ||
            pdl_plan_tasks(a, p, &o, &err) != PDL_OK ||
            pdl_tasks_check(&o, &err) != PDL_OK)
            fail_msg("%s: %s", rows[i].strategy, err.msg);
        pdl_arena_destroy(a);
    }
}

static enum pdl_status same_model(void *ctx, pdl_arena *a,
                                  const struct pdl_plan_head *head,
                                  const struct pdl_model **out,
                                  struct pdl_err *err)
{
    (void)a, (void)head, (void)err;
    *out = ctx;
    return PDL_OK;
}

static void it_is_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < NROWS; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m;
        const struct pdl_plan *p = lower(a, i, &m), *q = NULL;
        struct pdl_plan_loader l = {same_model, (void *)(uintptr_t)m};
        struct pdl_plan_head head;
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        pdl_buf_init(&b);
        pdl_plan_print(p, NULL, &b.sink);
        if (pdl_plan_parse(a, (struct pdl_bytes){b.text, b.len}, "p.plan", &l,
                           &head, &q, &err) != PDL_OK)
            fail_msg("%s: %s", rows[i].strategy, err.msg);
        assert_true(pdl_plan_equal(p, q));
        pdl_buf_free(&b);
        pdl_arena_destroy(a);
    }
}

/* Elements of the weights that the ranks of a lane keep. */
static int64_t weights_of(const struct pdl_plan *p, int lane)
{
    int64_t n = 0;

    for (int t = 0; t < p->ntensors; t++)
        if (p->tensors[t].kind == PDL_PLAN_WEIGHT &&
            pdl_plan_lane(p, p->tensors[t].stage) == lane)
            n += pdl_plan_elements(p, t, pdl_plan_lane_rank(p, lane));
    return n;
}

/* As published: parameters twice, on lanes that are mirrored. */
static void weights_are_there_twice(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_strategy s;
    struct pdl_plan_options opt = {.batch = 8};
    const struct pdl_model *m;
    const struct pdl_plan *two = lower(a, 0, &m), *one;
    struct pdl_err err = {"", ""};
    int64_t all = 0, half = 0;

    (void)state;
    pdl_strategy_parse(a, "pipe=2(zb-h1,m=4)", &s, &err);
    assert_int_equal(pdl_plan_lower(a, m, &s, &opt, &one, &err), PDL_OK);
    for (int l = 0; l < 2; l++) {
        all += weights_of(two, l);
        half += weights_of(one, l);
    }
    assert_int_equal(all, 2 * half);
    assert_int_equal(weights_of(two, 0), weights_of(two, 1));
    pdl_arena_destroy(a);
}

/* Without what the other copy sends, weights drift apart. */
static void a_gradient_that_is_not_shared_is_found(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m;
    struct pdl_plan p = *lower(a, 0, &m);
    struct pdl_plan_op *ops = PDL_NEW(a, struct pdl_plan_op, p.nops);
    struct pdl_err err = {"", ""};
    int changed = 0;

    (void)state;
    memcpy(ops, p.ops, (size_t)p.nops * sizeof *ops);
    for (int i = p.items[p.stages[0].first_update].first_op;
         i < p.nops && !changed; i++)
        if (ops[i].kind == PDL_PLAN_OP_ADD) {
            int *twice = PDL_NEW(a, int, 2);

            twice[0] = twice[1] = ops[i].in[0];
            ops[i].in = twice;
            changed++;
        }
    assert_int_equal(changed, 1);
    p.ops = ops;
    assert_int_equal(pdl_plan_prove(&p, 7, &err), PDL_EWRONG);
    pdl_arena_destroy(a);
}

static void what_it_cannot_be_made_of_is_refused(void **state)
{
    static const char *const bad[] = {
        "pipe=3(dualpipe,m=6)", "pipe=4(dualpipe,m=6)", "pipe=2(dualpipe,m=5)"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_plan_options opt = {.batch = 30};
        struct pdl_strategy s;
        const struct pdl_model *m;
        const struct pdl_plan *p;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_zoo_build(a, rows[0].model, &m, &err), PDL_OK);
        assert_int_equal(pdl_strategy_parse(a, bad[i], &s, &err), PDL_OK);
        assert_int_equal(pdl_plan_lower(a, m, &s, &opt, &p, &err), PDL_EINVAL);
        assert_non_null(strstr(err.msg, "dualpipe needs"));
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_checked_and_proved),
        cmocka_unit_test(it_is_read_back),
        cmocka_unit_test(weights_are_there_twice),
        cmocka_unit_test(a_gradient_that_is_not_shared_is_found),
        cmocka_unit_test(what_it_cannot_be_made_of_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
