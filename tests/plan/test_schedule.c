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
    {"dualpipe", PDL_SCHEDULE_DUALPIPE, 2, 2},
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

/* Is it made for so many lanes, stages of each, and micro-batches? */
static bool suits(int i, int p, int m)
{
    if (kinds[i].schedule == PDL_SCHEDULE_DUALPIPE)
        return p % 2 == 0 && m >= p;
    return kinds[i].chunks || m % p == 0;
}

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

                    if (suits(i, p, m)) {
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

/* GPipe m, 1F1B and zb-h1 p, zb-h2 2p - 1, zb-v p of two halves each, DualPipe
 * p + 1. */
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
            if (p % 2 == 0) {
                struct pdl_tasks dual = order(a, NKINDS - 1, p, 2, 4 * p);

                assert_true(held(&dual, l) <= p + 1);
            }
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
            int p = 2 + 2 * (int)pdl_rng_below(&rng, 2);
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

struct run {
    const struct pdl_tasks *o;
    double seconds[4]; /* by kind of task */
    double *end;       /* of each task: [pass][stage][micro] */
    bool chunks;       /* what is published: see chunk() */
};

static double *end_of(const struct run *x, int pass, int stage, int64_t micro)
{
    return &x->end[((int64_t)pass * x->o->nstages + stage) * x->o->micro +
                   micro];
}

static bool is_backward(const struct run *x, const struct pdl_task *t,
                        int64_t n)
{
    return n >= 2 && t[0].kind == PDL_TASK_INPUT &&
           t[1].kind == PDL_TASK_WEIGHTS && t[0].stage == t[1].stage &&
           t[0].micro == t[1].micro && x->chunks;
}

/* DualPipe as published: a forward beside a backward of the other copy is one
 * chunk, and so is a backward whose weights do not wait. Returns its tasks. */
static int chunk(const struct run *x, const struct pdl_task *t, int64_t n)
{
    bool beside = n >= 3 && t[0].kind == PDL_TASK_FORWARD &&
                  is_backward(x, t + 1, n - 1) && t[0].stage != t[1].stage;

    if (beside)
        return 3;
    /* in the warm-up inputs go ahead of weights: a forward follows that stands
     * alone */
    return is_backward(x, t, n) && !(n >= 3 && t[2].kind == PDL_TASK_FORWARD &&
                                     chunk(x, t + 2, n - 2) == 1)
               ? 2
               : 1;
}

/* Runs a chunk once all it needs is there; false: it is not yet. */
static bool run_chunk(const struct run *x, const struct pdl_task *t, int n,
                      double *now)
{
    double ready = *now, takes = 0;

    for (int i = 0; i < n; i++) {
        int pass, stage;
        double at = 0;

        takes += x->seconds[t[i].kind];
        if (t[i].kind != PDL_TASK_WEIGHTS &&
            pdl_task_needs(x->o, &t[i], &pass, &stage))
            at = *end_of(x, pass, stage, t[i].micro);
        if (at < 0)
            return false;
        ready = at > ready ? at : ready;
    }
    *now = ready + takes;
    for (int i = 0; i < n; i++)
        *end_of(x, pdl_task_pass(t[i].kind), t[i].stage, t[i].micro) = *now;
    return true;
}

/* When the last lane is done. */
static double span(pdl_arena *a, struct run *x)
{
    const struct pdl_tasks *o = x->o;
    int64_t slots = 3 * (int64_t)o->nstages * o->micro;
    int64_t *k = PDL_NEW(a, int64_t, o->lanes), left = o->n * o->lanes;
    double *now = PDL_NEW(a, double, o->lanes), last = 0;

    x->end = PDL_NEW(a, double, slots);
    for (int64_t i = 0; i < slots; i++)
        x->end[i] = -1;
    while (left > 0)
        for (int l = 0; l < o->lanes; l++)
            while (k[l] < o->n) {
                const struct pdl_task *t = &o->task[l][k[l]];
                int n = chunk(x, t, o->n - k[l]);

                if (!run_chunk(x, t, n, &now[l]))
                    break;
                k[l] += n;
                left -= n;
                last = now[l] > last ? now[l] : last;
            }
    return last;
}

/* (p/2 - 1)(F&B + B - 3W), B = I + W (DeepSeek-V3, table 2), where F&B takes as
 * long as one after the other; with tasks apart nobody waits longer. */
static void dualpipe_waits_as_long_as_is_published(void **state)
{
    static const double times[][3] = {{1, 1, 1}, {2, 3, 1}, {3, 3, 2}};

    (void)state;
    for (int p = 2; p <= 12; p += 2)
        for (int m = p; m <= 3 * p; m += p / 2)
            for (int i = 0; i < 3; i++) {
                pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
                double f = times[i][0], w = times[i][2], b = times[i][1] + w;
                struct pdl_tasks o = order(a, NKINDS - 1, p, 2, m);
                struct run x = {&o, {f, b, times[i][1], w}, NULL, true};
                double busy = 2 * m * (f + b), published = span(a, &x) - busy;

                assert_true(published == (p / 2 - 1) * (f + b + b - 3 * w));
                x.chunks = false;
                assert_true(span(a, &x) - busy <= published);
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
        cmocka_unit_test(dualpipe_waits_as_long_as_is_published),
        cmocka_unit_test(impossible_shapes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
