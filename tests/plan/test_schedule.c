/* Orders of pipelines: proved for every small shape, wrong ones refused, and
 * no lane holds more micro-batches than its schedule is known for. */
#include "paradl/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct {
    const char *name;
    enum pdl_schedule schedule;
    int least, chunks; /* lanes; stages of a lane (0: 2 to 4) */
} kinds[] = {
    {"gpipe", PDL_SCHEDULE_GPIPE, 1, 1},
    {"1f1b", PDL_SCHEDULE_1F1B, 1, 1},
    {"interleaved", PDL_SCHEDULE_INTERLEAVED, 2, 0},
    {"zb-h1", PDL_SCHEDULE_ZB_H1, 2, 1},
    {"zb-h2", PDL_SCHEDULE_ZB_H2, 2, 1},
    {"zb-v", PDL_SCHEDULE_ZB_V, 2, 2},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

static struct pdl_tasks order(pdl_arena *a, int i, int p, int v, int m)
{
    struct pdl_err err = {"", ""};
    struct pdl_tasks o;

    if (pdl_tasks_make(a, kinds[i].schedule, p, p * v, m, &o, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return o;
}

static void every_order_is_proved(void **state)
{
    int proved = 0;

    (void)state;
    for (int i = 0; i < NKINDS; i++)
        for (int p = kinds[i].least; p <= 9; p++)
            for (int m = 1; m <= 24; m++)
                for (int v = kinds[i].chunks ? kinds[i].chunks : 2;
                     v <= (kinds[i].chunks ? kinds[i].chunks : 4); v++) {
                    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
                    struct pdl_err err = {"", ""};
                    struct pdl_tasks o;

                    if (kinds[i].chunks || m % p == 0) {
                        o = order(a, i, p, v, m);
                        if (pdl_tasks_check(&o, &err) != PDL_OK)
                            fail_msg("%s p=%d m=%d v=%d: %s", kinds[i].name, p,
                                     m, v, err.msg);
                        proved++;
                    }
                    pdl_arena_destroy(a);
                }
    assert_true(proved > 1000);
}

/* Micro-batches of a lane between forward and the last backward. */
static int64_t held(const struct pdl_tasks *o, int lane)
{
    int64_t n = 0, most = 0;

    for (int64_t k = 0; k < o->n; k++) {
        enum pdl_task_kind t = o->task[lane][k].kind;

        n += t == PDL_TASK_FORWARD ? 1 : t == PDL_TASK_INPUT ? 0 : -1;
        most = n > most ? n : most;
    }
    return most;
}

/* GPipe m, 1F1B and zb-h1 p, zb-h2 2p - 1, zb-v p of two halves each. */
static void no_lane_holds_more_than_its_schedule_says(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int l = 0; l < p; l++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_tasks gpipe = order(a, 0, p, 1, 4 * p);
            struct pdl_tasks f1b1 = order(a, 1, p, 1, 4 * p);
            struct pdl_tasks h1 = order(a, 3, p, 1, 4 * p);
            struct pdl_tasks h2 = order(a, 4, p, 1, 4 * p);
            struct pdl_tasks v = order(a, 5, p, 2, 4 * p);

            assert_int_equal(held(&gpipe, l), 4 * p);
            assert_int_equal(held(&f1b1, l), p - l);
            assert_true(held(&h1, l) <= p);
            assert_true(held(&h2, l) <= 2 * p - 1);
            assert_true(held(&v, l) <= 2 * p);
            pdl_arena_destroy(a);
        }
}

static void every_stage_is_the_one_its_lane_says(void **state)
{
    (void)state;
    for (int i = 0; i < NKINDS; i++)
        for (int p = kinds[i].least; p <= 9; p++) {
            int v = kinds[i].chunks ? kinds[i].chunks : 3;
            struct pdl_strategy s = {.schedule = kinds[i].schedule,
                                     .virtual_stages = v};

            assert_int_equal(pdl_schedule_chunks(&s), v);
            for (int at = 0; at < p * v; at++) {
                int lane = pdl_schedule_lane(kinds[i].schedule, p, at), k = 0;

                while (k < v &&
                       pdl_schedule_stage(kinds[i].schedule, p, lane, k) != at)
                    k++;
                assert_true(k < v);
            }
        }
}

/* One task in place of another, on another lane, or before what it needs. */
static void a_wrong_order_is_refused(void **state)
{
    struct pdl_rng rng = {.key = 3};

    (void)state;
    for (int i = 0; i < NKINDS; i++)
        for (int n = 0; n < 200; n++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            int p = 2 + (int)pdl_rng_below(&rng, 4);
            struct pdl_tasks o =
                order(a, i, p, kinds[i].chunks ? kinds[i].chunks : 2, 2 * p);
            int lane = (int)pdl_rng_below(&rng, (uint64_t)p);
            struct pdl_task *t = o.task[lane];
            int64_t x = (int64_t)pdl_rng_below(&rng, (uint64_t)o.n);
            int64_t y = (int64_t)pdl_rng_below(&rng, (uint64_t)o.n);
            struct pdl_err err = {"", ""};

            if (n % 3 == 0 && x != y) { /* twice, and another not at all */
                t[x] = t[y];
            } else if (n % 3 == 1) { /* on the wrong lane */
                t[x] = o.task[(lane + 1) % p][x];
            } else { /* the last task first */
                struct pdl_task last = t[o.n - 1];

                memmove(t + 1, t, (size_t)(o.n - 1) * sizeof *t);
                t[0] = last;
            }
            if ((n % 3 != 0 || x != y) &&
                pdl_tasks_check(&o, &err) != PDL_EWRONG)
                fail_msg("%s: mutant %d is accepted", kinds[i].name, n);
            pdl_arena_destroy(a);
        }
}

static void impossible_shapes_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_tasks o;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_tasks_make(a, PDL_SCHEDULE_1F1B, 4, 6, 8, &o, &err),
                     PDL_EINVAL);
    assert_int_equal(pdl_tasks_make(a, PDL_SCHEDULE_1F1B, 0, 0, 8, &o, &err),
                     PDL_EINVAL);
    assert_int_equal(
        pdl_tasks_make(a, PDL_SCHEDULE_1F1B, 4, 4, INT64_C(1) << 31, &o, &err),
        PDL_EINVAL);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_proved),
        cmocka_unit_test(no_lane_holds_more_than_its_schedule_says),
        cmocka_unit_test(every_stage_is_the_one_its_lane_says),
        cmocka_unit_test(a_wrong_order_is_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
