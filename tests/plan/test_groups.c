/* Operations that may be one kernel: which of two networks, and what nobody else
 * sees of them. */
#include "paradl/plan.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct pdl_plan *plan_of(pdl_arena *a, const char *model)
{
    struct pdl_plan_options opt = {.batch = 4, .dtype = PDL_F32};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p;
    struct pdl_err err;

    assert_int_equal(pdl_model_load(a, model, NULL, &m, &err), PDL_OK);
    assert_int_equal(pdl_strategy_parse(a, "data=1", s, &err), PDL_OK);
    assert_int_equal(pdl_plan_lower(a, m, s, &opt, &p, &err), PDL_OK);
    return p;
}

static int count(const struct pdl_plan *p, const char *name)
{
    int n = 0;

    for (int i = 0; i < p->nops; i++)
        n += p->group[i] >= 0 && p->groups[p->group[i]].op[0] == i &&
             strcmp(p->groups[p->group[i]].name, name) == 0;
    return n;
}

/* Depth 8: a convolution and its norm, three blocks of two, each ends with an
 * addition; two of them have a norm on the way past. */
static void norms_go_with_what_is_around_them(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = plan_of(a, "resnet-cifar:depth=8,input=8");

    (void)state;
    assert_int_equal(count(p, "batch_norm+relu"), 4);
    assert_int_equal(count(p, "batch_norm+add+relu"), 3);
    assert_int_equal(
        count(p, "relu+batch_norm") + count(p, "sum+relu+batch_norm"), 7);
    p = plan_of(a, "gpt:layers=2,hidden=12,heads=3,ffn=20,vocab=17,seq=8");
    assert_true(count(p, "add+layer_norm") >= 4);
    assert_true(count(p, "sum+layer_norm+sum") + count(p, "sum+layer_norm") >=
                2);
    assert_true(count(p, "linear+sum") >= 2);
    pdl_arena_destroy(a);
}

static bool is_in(const struct pdl_plan *p, int op, int tensor, bool out)
{
    const struct pdl_plan_op *o = &p->ops[op];

    for (int k = 0; k < (out ? o->nout : o->nin); k++)
        if ((out ? o->out[k] : o->in[k]) == tensor)
            return true;
    return false;
}

static void nobody_else_reads_what_is_inner(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = plan_of(a, "resnet-cifar:depth=8,input=8");
    int inner = 0;

    (void)state;
    for (int t = 0; t < p->ntensors; t++) {
        int maker = -1;

        if (!p->inner[t])
            continue;
        inner++;
        for (int i = 0; i < p->nops; i++)
            if (is_in(p, i, t, true))
                maker = p->group[i];
        assert_true(maker >= 0);
        for (int i = 0; i < p->nops; i++)
            if (p->ops[i].kind != PDL_PLAN_OP_FREE && is_in(p, i, t, false))
                assert_int_equal(p->group[i], maker);
    }
    assert_true(inner >= 14);
    pdl_arena_destroy(a);
}

/* Bytes of what comes in and goes out: less than those of all together. */
static void a_group_has_a_key(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = plan_of(a, "resnet-cifar:depth=8,input=8");
    struct pdl_plan_key k, one;
    int n = 0;

    (void)state;
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_group *g =
            p->group[i] < 0 ? NULL : &p->groups[p->group[i]];
        int64_t all = 0;

        if (!g || g->op[0] != i)
            continue;
        assert_true(pdl_plan_group_key(p, g, 0, &k));
        assert_string_equal(k.op, g->name);
        for (int m = 0; m < g->n; m++) {
            assert_true(pdl_plan_op_key(p, g->op[m], 0, &one));
            all += one.dims[PDL_KEY_BYTES];
        }
        assert_true(k.dims[PDL_KEY_BYTES] > 0 && k.dims[PDL_KEY_BYTES] < all);
        n++;
    }
    assert_true(n >= 14);
    pdl_arena_destroy(a);
}

/* The end of a group that belongs to another is no group. */
static void what_is_taken_is_not_taken_again(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = plan_of(a, "resnet-cifar:depth=8,input=8");
    bool *taken = PDL_NEW(a, bool, p->nops + 1);
    struct pdl_plan_group g;

    (void)state;
    assert_non_null(taken);
    for (int i = 0; i < p->nitems; i++)
        for (int op = p->items[i].first_op;
             op < p->items[i].first_op + p->items[i].nops; op++)
            for (int k = 0; k < pdl_plan_group_kinds(); k++) {
                if (!pdl_plan_group_at(p, &p->items[i], op, k, NULL, &g))
                    continue;
                taken[g.op[g.n - 1]] = true;
                assert_false(
                    pdl_plan_group_at(p, &p->items[i], op, k, taken, &g));
                taken[g.op[g.n - 1]] = false;
            }
    assert_false(
        pdl_plan_group_at(p, p->items, 0, pdl_plan_group_kinds(), NULL, &g));
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_go_with_what_is_around_them),
        cmocka_unit_test(nobody_else_reads_what_is_inner),
        cmocka_unit_test(a_group_has_a_key),
        cmocka_unit_test(what_is_taken_is_not_taken_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
