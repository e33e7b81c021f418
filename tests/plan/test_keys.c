/* A tensor axis wider than the groups of heads that share keys: ranks with the
 * same keys project them each, deal the queries, and add what they say of the
 * gradient. What is left out of that sum, or lies elsewhere, is found. */
#include "paradl/plan.h"
#include "mutant.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char grouped[] = "llama:layers=2,hidden=8,heads=8,kv_heads=2,"
                              "head_dim=2,ffn=8,vocab=16,seq=8,qk_norm=1";
static const char one_key[] = "llama:layers=2,hidden=8,heads=8,kv_heads=1,"
                              "head_dim=2,ffn=8,vocab=16,seq=8";

static const struct pdl_plan *lowered(pdl_arena *a, const char *model,
                                      const char *strategy, struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 4};
    const struct pdl_model *m;
    const struct pdl_plan *p;

    if (pdl_zoo_build(a, model, &m, err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, err) != PDL_OK)
        fail_msg("%s", err->msg);
    return pdl_plan_lower(a, m, s, &opt, &p, err) == PDL_OK ? p : NULL;
}

static const struct pdl_plan_tensor *named(const struct pdl_plan *p,
                                           const char *name)
{
    for (int t = 0; t < p->ntensors; t++)
        if (strcmp(p->tensors[t].name, name) == 0)
            return &p->tensors[t];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void keys_are_cut_by_groups_and_replicated_within(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const struct pdl_plan *p = lowered(a, grouped, "data=2,tensor=8", &err);
    const struct pdl_plan_tensor *q, *k, *dk;

    (void)state;
    assert_non_null(p);
    assert_int_equal(p->mesh->nfactors, 3);
    assert_int_equal(p->mesh->factor[1], 2); /* groups */
    assert_int_equal(p->mesh->factor[2], 4); /* heads of one */
    q = named(p, "layers.0.attn.q.weight");
    k = named(p, "layers.0.attn.k.weight");
    dk = named(p, "d(layers.0.attn.k.weight)");
    assert_int_equal(q->place.at[1], 0);
    assert_int_equal(q->place.at[2], 0);
    assert_int_equal(k->place.at[1], 0);
    assert_int_equal(k->place.at[2], PDL_REPLICATED);
    assert_int_equal(dk->place.at[1], 0);
    assert_int_equal(dk->place.at[2], PDL_PARTIAL);
    pdl_arena_destroy(a);
}

/* Nothing but gradients of weights is added over ranks with the same keys by
 * itself: activations meet once, with what the queries say. */
static void activations_meet_once_for_queries_and_keys(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const struct pdl_plan *wide = lowered(a, grouped, "tensor=8", &err);
    const struct pdl_plan *narrow = lowered(a, grouped, "tensor=2", &err);
    int n[2] = {0, 0};

    (void)state;
    assert_non_null(wide);
    assert_non_null(narrow);
    for (int i = 0; i < wide->nops; i++)
        n[0] +=
            wide->ops[i].kind == PDL_PLAN_OP_ALLREDUCE &&
            wide->tensors[wide->ops[i].in[0]].kind != PDL_PLAN_WEIGHT_GRADIENT;
    for (int i = 0; i < narrow->nops; i++)
        n[1] += narrow->ops[i].kind == PDL_PLAN_OP_ALLREDUCE &&
                narrow->tensors[narrow->ops[i].in[0]].kind !=
                    PDL_PLAN_WEIGHT_GRADIENT;
    assert_int_equal(n[0], n[1]);
    pdl_arena_destroy(a);
}

static void wide_axes_are_proved(void **state)
{
    static const char *const strategies[] = {
        "tensor=4",
        "tensor=6", /* 3 ranks for the 4 heads of a group */
        "tensor=8",
        "tensor=8+seq",
        "data=2,tensor=4,zero=1",
        "data=2,tensor=4+seq,zero=3",
        "pipe=2(1f1b,m=2,at=layers.0.attn.core),tensor=4",
        "pipe=2(zb-h1,m=2),tensor=4,recompute=full",
        "context=2,tensor=4",
    };
    static const char *const models[] = {grouped, one_key};

    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_err err = {"", ""};
            const struct pdl_plan *p =
                lowered(a, models[m], strategies[i], &err);

            if (!p || pdl_plan_check(p, &err) != PDL_OK ||
                pdl_plan_prove(p, 7, &err) != PDL_OK)
                fail_msg("%s: %s", strategies[i], err.msg);
            pdl_arena_destroy(a);
        }
}

static void axes_that_cannot_be_dealt_are_refused(void **state)
{
    static const struct {
        const char *strategy, *why;
    } cases[] = {
        {"tensor=3", "cuts only 2 groups of heads and is no multiple of them"},
        {"tensor=16", "tensor=16 cuts only 8 heads"},
        {"context=2(a2a),tensor=4", "of which tensor=4 leaves none"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};

        assert_null(lowered(a, grouped, cases[i].strategy, &err));
        if (!strstr(err.msg, cases[i].why))
            fail_msg("%s: %s", cases[i].strategy, err.msg);
        pdl_arena_destroy(a);
    }
}

/* ---- mutations -------------------------------------------------------------- */

static bool sums_keys(const struct mutant *m, int i)
{
    const struct pdl_plan_op *o = &m->ops[i];

    return o->kind == PDL_PLAN_OP_ALLREDUCE &&
           strstr(m->tensors[o->in[0]].name, "attn.v.weight");
}

/* The gradients of the keys' weights are not added over the ranks that share
 * them: a slice by nothing in place of the sum. */
static void omit_the_sum(struct mutant *m)
{
    for (int i = 0; i < m->p.nops; i++)
        if (sums_keys(m, i)) {
            m->ops[i].kind = PDL_PLAN_OP_SLICE;
            m->ops[i].group = 0;
            return;
        }
    fail_msg("nothing is summed");
}

/* They are added over the groups instead. */
static void sum_over_the_groups(struct mutant *m)
{
    for (int i = 0; i < m->p.nops; i++)
        if (sums_keys(m, i)) {
            m->ops[i].group = 1;
            return;
        }
    fail_msg("nothing is summed");
}

/* Ranks take the keys of another group: those cut by the close factor. */
static void take_other_keys(struct mutant *m)
{
    for (int t = 0; t < m->p.ntensors; t++)
        if (strstr(m->tensors[t].name, "attn.k.") ||
            strstr(m->tensors[t].name, "attn.k_") ||
            strstr(m->tensors[t].name, "attn.v.")) {
            int8_t *at = m->tensors[t].place.at, far = at[0];

            at[0] = at[1];
            at[1] = far;
        }
}

static void what_is_wrong_with_keys_is_found(void **state)
{
    static void (*const mutations[])(struct mutant *) = {
        omit_the_sum, sum_over_the_groups, take_other_keys};

    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        const struct pdl_plan *p = lowered(a, grouped, "tensor=4", &err);
        struct mutant m;

        assert_non_null(p);
        m = copy(a, p);
        mutations[i](&m);
        assert_int_equal(pdl_plan_check(&m.p, &err), PDL_EWRONG);
        assert_int_equal(pdl_plan_prove(&m.p, 7, &err), PDL_EWRONG);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_cut_by_groups_and_replicated_within),
        cmocka_unit_test(activations_meet_once_for_queries_and_keys),
        cmocka_unit_test(wide_axes_are_proved),
        cmocka_unit_test(axes_that_cannot_be_dealt_are_refused),
        cmocka_unit_test(what_is_wrong_with_keys_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
