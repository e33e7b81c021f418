/* The same plan for other numbers of ranks, samples and micro-batches is what
 * lowering makes of them. */
#include "effort.h"
#include "random_plan.h"

static void set(struct pdl_strategy *s, int64_t data, int64_t m)
{
    for (int t = 0; t < s->clause[0].nterms; t++)
        if (s->clause[0].term[t].axis == PDL_AXIS_DATA)
            s->clause[0].term[t].size[0] = data;
    if (s->micro_batches > 0)
        s->micro_batches = m;
    else
        s->accumulate = m > 1 ? m : 0;
}

static bool try(pdl_arena *a, const struct plan_triple *x, const char *what,
                struct pdl_rng *rng)
{
    const struct pdl_plan *p, *q, *want;
    struct pdl_plan_size to = {.data = pick(rng, 2, 6),
                               .micro_batches = pick(rng, 1, 4)};
    struct pdl_plan_options opt = x->opt;
    struct pdl_strategy s = *x->strategy;
    struct pdl_err err = {"", ""};

    to.samples = to.data * pick(rng, 1, 4) + pick(rng, 0, 1);
    if (pdl_plan_lower(a, x->model, x->strategy, &x->opt, &p, &err) != PDL_OK ||
        pdl_plan_resize(a, p, &to, &q, &err) != PDL_OK)
        return false;
    opt.batch = to.samples * to.micro_batches;
    set(&s, to.data, to.micro_batches);
    if (pdl_plan_lower(a, x->model, &s, &opt, &want, &err) != PDL_OK)
        fail_msg("%s: resized, but %s", what, err.msg);
    if (!pdl_plan_equal(q, want))
        fail_msg("%s: data=%lld, %lld samples, m=%lld differs", what,
                 (long long)to.data, (long long)to.samples,
                 (long long)to.micro_batches);
    return true;
}

static void a_resized_plan_is_what_is_lowered(void **state)
{
    int made = 0;

    (void)state;
    for (int i = 0; i < effort(200, 800, 8000); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_rng rng = {.key = (uint64_t)i};
        struct pdl_err err;
        struct plan_triple x;
        char what[900];

        if (random_plan_triple(a, (uint64_t)(i % 2 ? i : 4 * i), &x, what,
                               sizeof what, &err))
            made += try(a, &x, what, &rng);
        pdl_arena_destroy(a);
    }
    print_message("%d resized\n", made);
    assert_true(made >= effort(200, 800, 8000) / 40);
}

/* What searches ask for; also of a rolled plan. */
static void searched_plans_are_resized(void **state)
{
    static const char *const models[] = {
        "gpt:layers=9,hidden=8,heads=4,vocab=16,positions=8,seq=8,tied=1",
        "llama:layers=8,hidden=16,heads=4,kv_heads=2,head_dim=4,ffn=12,"
        "vocab=16,seq=8,experts=4,topk=2",
    };
    static const char *const strategies[] = {
        "data=2",
        "data=2,zero=1",
        "data=2,zero=2,recompute=full",
        "data=2,tensor=2+seq,zero=3",
        "pipe=2(1f1b,m=2),data=2,tensor=2",
        "pipe=2(zb-h1,m=4),data=2,zero=1",
        "data=2,context=2,recompute=selective",
        "data=2,expert=2",
        "data=4,zero=3:2",
        "data=2,offload=activations,accumulate=2",
        "data=2,zero=2,offload=optimizer",
        "pipe=2(1f1b,m=2),data=2,offload=activations,recompute=selective",
    };

    (void)state;
    for (int i = 0; i < 2 * 12 * 4; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_rng rng = {.key = (uint64_t)i};
        struct pdl_strategy s, t;
        struct plan_triple x = {.strategy = &s, .opt = {.batch = 16}};
        struct pdl_plan_size to = {.data = 4 + 2 * (i % 3), .micro_batches = 4};
        struct pdl_plan_options opt = {.batch = 8 * 4 * to.data};
        const struct pdl_plan *rolled, *whole, *want;
        struct pdl_err err = {"", ""};

        to.samples = 8 * to.data;
        if (pdl_zoo_build(a, models[i % 2], &x.model, &err) != PDL_OK ||
            pdl_strategy_parse(a, strategies[i / 2 % 12], &s, &err) != PDL_OK ||
            pdl_plan_lower_rolled(a, x.model, &s, &x.opt, &rolled, &err) !=
                PDL_OK ||
            pdl_plan_resize(a, rolled, &to, &rolled, &err) != PDL_OK ||
            pdl_plan_unroll(a, rolled, &whole, &err) != PDL_OK)
            fail_msg("%s: %s", strategies[i / 2 % 12], err.msg);
        t = s;
        set(&t, to.data, to.micro_batches);
        assert_int_equal(pdl_plan_lower(a, x.model, &t, &opt, &want, &err),
                         PDL_OK);
        assert_true(pdl_plan_equal(whole, want));
        try(a, &x, strategies[i / 2 % 12], &rng);
        pdl_arena_destroy(a);
    }
}

static void what_depends_on_size_is_refused(void **state)
{
    static const char *const bad[] = {"data=2,spatial=2", "data=2,filter=2",
                                      "*: data=2; conv1: recompute=full",
                                      "filter=2", "data=2,zero=1"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(pdl_zoo_build(a, "lenet5", &m, &err), PDL_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pdl_plan_options opt = {.batch = 8};
        /* of the last: weights that so many ranks cannot share */
        struct pdl_plan_size to = {
            .data = 4096, .samples = 8192, .micro_batches = 1};
        struct pdl_strategy s;
        const struct pdl_plan *p;

        assert_int_equal(pdl_strategy_parse(a, bad[i], &s, &err), PDL_OK);
        assert_int_equal(pdl_plan_lower(a, m, &s, &opt, &p, &err), PDL_OK);
        assert_int_equal(pdl_plan_resize(a, p, &to, &p, &err), PDL_EINVAL);
    }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resized_plan_is_what_is_lowered),
        cmocka_unit_test(searched_plans_are_resized),
        cmocka_unit_test(what_depends_on_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
