/* Ring attention: two blocks of keys in memory instead of all, and of each
 * step the longer of travel and attention. */
#include "oracle/habit/framework.h"
#include "plans.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define LLAMA                                                       \
    "llama:layers=2,hidden=1024,heads=8,kv_heads=8,ffn=2048,gated=" \
    "1,vocab=128,seq=65536"

static const struct pdl_plan_options options = {.batch = 1, .dtype = PDL_BF16};

static struct pdl_projection project(const char *strategy)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "dgx-a100");
    struct pdl_oracle_options opt = {.optimizer_slots = 2,
                                     .precision = PDL_PREC_BF16};
    const struct pdl_plan *p = lower_as(a, LLAMA, strategy, &options);
    struct pdl_err err = {"", ""};
    struct pdl_projection x;

    if (pdl_project(p, &sys, &opt, &x, &err) != PDL_OK)
        fail_msg("%s: %s", strategy, err.msg);
    pdl_arena_destroy(a);
    return x;
}

struct prices {
    double keys, home, attention; /* of one pass */
};

/* Of the first layer's forward, or of its backward. */
static struct prices prices_of(const char *strategy, enum pdl_pass pass,
                               bool waits)
{
    static const struct pdl_framework never = {.name = "never",
                                               .no_overlap = true};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "dgx-a100");
    struct pdl_oracle_options opt = {.optimizer_slots = 2,
                                     .precision = PDL_PREC_BF16,
                                     .framework = waits ? &never : NULL};
    const struct pdl_plan *p = lower_as(a, LLAMA, strategy, &options);
    struct prices out = {0, 0, 0};
    struct pdl_op_price x;

    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        if (o->kind != PDL_PLAN_OP_ROTATE || o->pass != pass)
            continue;
        pdl_price_op(p, &sys, &opt, i, &x);
        if (p->tensors[o->in[0]].of > 0)
            out.home = x.seconds;
        else
            out.keys = x.seconds;
        pdl_price_op(p, &sys, &opt, pdl_plan_rotates_for(p, i), &x);
        out.attention = x.seconds;
    }
    pdl_arena_destroy(a);
    return out;
}

static double longer(double step, double each)
{
    return step > each ? step - each : 0;
}

/* From the prices of a framework that waits follow those of one that does
 * not. */
static void each_step_shows_the_longer_of_the_two(void **state)
{
    static const int sizes[] = {2, 4, 8, 64};
    bool hidden = false, shows = false;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double n = sizes[i], step, each;
        struct prices on, off;
        char text[64];

        snprintf(text, sizeof text, "context=%d", sizes[i]);
        off = prices_of(text, PDL_FORWARD, true);
        on = prices_of(text, PDL_FORWARD, false);
        assert_true(off.keys > 0 && off.attention > 0 && off.home == 0);
        step = off.keys / (n - 1);
        each = on.attention / n;
        assert_true(fabs(on.keys - (n - 1) * longer(step, each)) <=
                    1e-9 * off.keys);
        hidden = hidden || on.keys == 0;
        shows = shows || on.keys > 0;

        off = prices_of(text, PDL_BACKWARD_DATA, true);
        on = prices_of(text, PDL_BACKWARD_DATA, false);
        step = off.home / n;
        each = longer(on.attention / n, step);
        assert_true(fabs(off.keys / (n - 1) - step) <= 1e-9 * step);
        assert_true(fabs(on.home - (n - 1) * longer(step, each) - step) <=
                    1e-9 * off.home);
    }
    assert_true(hidden && shows);
}

static void a_ring_has_two_blocks_of_keys(void **state)
{
    struct pdl_projection ring = project("context=8");
    struct pdl_projection all = project("context=8(gather)");
    /* keys and values: 65536 positions of 1024 features in 16 bits each; 2 of
     * 8 blocks in place of all; in backward with their gradients */
    double keys = 2 * 65536.0 * 1024 * 2, less = .75 * keys;

    (void)state;
    assert_true((double)(all.allocated_bytes - ring.allocated_bytes) >= less);
    assert_true((double)(all.allocated_bytes - ring.allocated_bytes) <=
                2 * less);
    assert_true(ring.step_s < all.step_s);
}

/* In order the last rank has 2 - 1/P of the mean; in a zigzag all have it. */
static void attention_is_priced_by_where_positions_stand(void **state)
{
    static const int sizes[] = {2, 4, 8};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char zigzag[64], plain[64];
        double ratio;

        snprintf(zigzag, sizeof zigzag, "context=%d", sizes[i]);
        snprintf(plain, sizeof plain, "context=%d(plain)", sizes[i]);
        ratio = prices_of(plain, PDL_FORWARD, true).attention /
                prices_of(zigzag, PDL_FORWARD, true).attention;
        assert_true(fabs(ratio - (2 - 1. / sizes[i])) < .01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_shows_the_longer_of_the_two),
        cmocka_unit_test(a_ring_has_two_blocks_of_keys),
        cmocka_unit_test(attention_is_priced_by_where_positions_stand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
