/* Copies to the host and back in plans: decisions for each block, how far ahead
 * they are asked for, ranges that are one block, and what the checker and the
 * symbolic executor say to a copy that is dropped, a buffer that is swapped and
 * memory that is freed too early. */
#include "mutant.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define GPT "gpt:layers=5,hidden=8,heads=2,ffn=12,vocab=11,seq=4"

static const struct pdl_plan *lower(pdl_arena *a, const char *model,
                                    const char *strategy)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 2};
    const struct pdl_model *m = NULL;
    const struct pdl_plan *p = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_model_load(a, model, NULL, &m, &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK ||
        pdl_plan_check(p, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
    return p;
}

static bool is_good(const struct pdl_plan *p)
{
    struct pdl_err err = {"", ""};

    return pdl_plan_check(p, &err) == PDL_OK &&
           pdl_plan_prove(p, 7, &err) == PDL_OK;
}

static int count(const struct pdl_plan *p, enum pdl_plan_op_kind kind)
{
    int n = 0;

    for (int i = 0; i < p->nops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

static int first(const struct pdl_plan *p, enum pdl_plan_op_kind kind)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind && p->ops[i].nin > 1)
            return i;
    return -1;
}

static void decisions_for_each_block_are_proved(void **state)
{
    static const char *const strategies[] = {
        "serial,offload=activations",
        "serial,offload=activations,prefetch=2",
        "serial,offload=activations,prefetch=9",
        "data=2,offload=activations,recompute=full,prefetch=3",
        "*: data=1; layers.0.*+layers.2.*: offload=activations; layers.1.*: "
        "recompute=full",
        "*: data=2,prefetch=2; layers.0.*+layers.3.*: recompute=full; "
        "layers.1.*: recompute=full,offload=activations; layers.2.*: "
        "offload=activations",
        "pipe=2(m=2),offload=activations,prefetch=2",
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        const struct pdl_plan *p = lower(a, GPT, strategies[i]);

        assert_true(count(p, PDL_PLAN_OP_COPY_OUT) > 0);
        if (!is_good(p))
            fail_msg("%s: not proved", strategies[i]);
    }
    pdl_arena_destroy(a);
}

/* What is live when forward of the fourth block begins. */
static int freed_before(const struct pdl_plan *p, int copy)
{
    int n = 0;

    for (int i = 0; i < copy; i++)
        n += p->ops[i].kind == PDL_PLAN_OP_FREE;
    return n;
}

static int copy_out(const struct pdl_plan *p, int n)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COPY_OUT && n-- == 0)
            return i;
    return -1;
}

static void copies_have_as_long_as_the_strategy_says(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *one = lower(a, GPT, "serial,offload=activations");
    const struct pdl_plan *two =
        lower(a, GPT, "serial,offload=activations,prefetch=2");
    int third = copy_out(one, 2);

    (void)state;
    assert_int_equal(count(one, PDL_PLAN_OP_COPY_OUT),
                     count(two, PDL_PLAN_OP_COPY_OUT));
    assert_true(third > 0 &&
                freed_before(two, copy_out(two, 2)) < freed_before(one, third));
    pdl_arena_destroy(a);
}

/* Layers alone, named by a range, are one block to make again. */
static void a_range_of_layers_is_one_block(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *none = lower(a, "lenet5", "serial,recompute=full");
    const struct pdl_plan *some = lower(
        a, "lenet5", "*: data=1; conv1..pool1+conv2..pool2: recompute=full");
    const struct pdl_plan *one =
        lower(a, "lenet5", "*: data=1; conv1..pool2: recompute=full");

    (void)state;
    assert_true(count(some, PDL_PLAN_OP_COMPUTE) >
                count(none, PDL_PLAN_OP_COMPUTE));
    assert_int_equal(count(some, PDL_PLAN_OP_COMPUTE),
                     count(one, PDL_PLAN_OP_COMPUTE));
    assert_true(is_good(some) && is_good(one));
    pdl_arena_destroy(a);
}

static void a_dropped_copy_is_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, GPT, "serial,offload=activations");

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct mutant m = copy(a, p);
        int i = first(p, k ? PDL_PLAN_OP_COPY_IN : PDL_PLAN_OP_COPY_OUT);

        m.ops[i].nin--;
        m.ops[i].nout--;
        assert_false(is_good(&m.p));
    }
    pdl_arena_destroy(a);
}

static bool lie_alike(const struct pdl_plan *p, int a, int b)
{
    const struct pdl_plan_tensor *x = &p->tensors[a], *y = &p->tensors[b];

    if (x->ndims != y->ndims || a == b)
        return false;
    for (int d = 0; d < x->ndims; d++)
        if (x->dim[d] != y->dim[d])
            return false;
    return true;
}

static void a_swapped_buffer_is_found(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, GPT, "serial,offload=activations");
    int swapped = 0;

    (void)state;
    for (int i = 0; i < p->nops && swapped < 3; i++)
        for (int k = 1; p->ops[i].kind == PDL_PLAN_OP_COPY_IN &&
                        k < p->ops[i].nin && swapped < 3;
             k++) {
            struct mutant m = copy(a, p);
            int *in = PDL_NEW(a, int, p->ops[i].nin);

            if (!lie_alike(p, p->ops[i].in[0], p->ops[i].in[k]))
                continue;
            memcpy(in, p->ops[i].in, (size_t)p->ops[i].nin * sizeof *in);
            in[0] = p->ops[i].in[k];
            in[k] = p->ops[i].in[0];
            m.ops[i].in = in;
            assert_false(is_good(&m.p));
            swapped++;
        }
    assert_true(swapped > 0);
    pdl_arena_destroy(a);
}

/* Before its copy, what has left is no longer there to be copied. */
static void memory_freed_too_early_is_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, GPT, "serial,offload=activations");
    struct mutant m = copy(a, p);
    int out = first(p, PDL_PLAN_OP_COPY_OUT), gone = -1;
    struct pdl_plan_op o;

    (void)state;
    for (int i = out; i < p->nops && gone < 0; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_FREE &&
            p->ops[i].in[0] == p->ops[out].in[0])
            gone = i;
    assert_true(gone > out);
    o = m.ops[gone];
    memmove(&m.ops[out + 1], &m.ops[out],
            (size_t)(gone - out) * sizeof m.ops[0]);
    m.ops[out] = o;
    assert_false(is_good(&m.p));
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_for_each_block_are_proved),
        cmocka_unit_test(copies_have_as_long_as_the_strategy_says),
        cmocka_unit_test(a_range_of_layers_is_one_block),
        cmocka_unit_test(a_dropped_copy_is_refused),
        cmocka_unit_test(a_swapped_buffer_is_found),
        cmocka_unit_test(memory_freed_too_early_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
