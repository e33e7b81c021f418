/* Schedules: stages of equal length take what theory says, others at least
 * as long as any lane is busy and any micro-batch needs alone. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

struct lane {
    struct pdl_plan plan;
    struct pdl_strategy strategy;
    struct oracle o;
};

static void set(struct lane *l, enum pdl_schedule schedule, int p, int v, int m)
{
    pdl_arena_destroy(l->o.arena);
    l->strategy.schedule = schedule;
    l->plan = (struct pdl_plan){.strategy = &l->strategy,
                                .nstages = p * v,
                                .lanes = p,
                                .micro_batches = m};
    l->o = (struct oracle){.p = &l->plan,
                           .arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
}

static void find_order(struct oracle *o)
{
    o->order = oracle_plan_order(o->arena, o->p, false);
    assert_non_null(o->order);
}

static double span3(struct lane *l, const double *forward,
                    const double *backward, const double *weights)
{
    double t;

    find_order(&l->o);
    t = oracle_order_span(l->o.order,
                          (const double *[]){forward, backward, weights}, NULL);
    pdl_arena_destroy(l->o.arena);
    l->o.arena = NULL;
    return t;
}

static double span(struct lane *l, const double *forward,
                   const double *backward)
{
    return span3(l, forward, backward, NULL);
}

static void equal_stages_leave_the_bubble_of_theory(void **state)
{
    static struct lane l;
    double f[64], b[64];

    (void)state;
    for (int i = 0; i < 64; i++) {
        f[i] = 1;
        b[i] = 2;
    }
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 12; m++) {
            set(&l, PDL_SCHEDULE_GPIPE, p, 1, m);
            assert_true(fabs(span(&l, f, b) - 3 * (m + p - 1)) < 1e-9);
            set(&l, PDL_SCHEDULE_1F1B, p, 1, m);
            assert_true(fabs(span(&l, f, b) - 3 * (m + p - 1)) < 1e-9);
            for (int v = 2; v <= 4 && m % p == 0 && p > 1; v++) {
                set(&l, PDL_SCHEDULE_INTERLEAVED, p, v, m);
                assert_true(fabs(span(&l, f, b) - 3 * (m * v + p - 1)) < 1e-9);
            }
        }
}

static void no_schedule_beats_its_bounds(void **state)
{
    static struct lane l;
    struct pdl_rng rng = {.key = 7};

    (void)state;
    for (int i = 0; i < 500; i++) {
        int p = 1 + (int)pdl_rng_below(&rng, 5), v = 1, m;
        double f[64], b[64], busy[8] = {0}, alone = 0, got;
        enum pdl_schedule s = (enum pdl_schedule)pdl_rng_below(&rng, 3);

        m = p * (1 + (int)pdl_rng_below(&rng, 4));
        if (s == PDL_SCHEDULE_INTERLEAVED && p > 1)
            v = 2 + (int)pdl_rng_below(&rng, 3);
        for (int k = 0; k < p * v; k++) {
            f[k] = (double)(1 + pdl_rng_below(&rng, 9));
            b[k] = (double)(1 + pdl_rng_below(&rng, 9));
            busy[k % p] += m * (f[k] + b[k]);
            alone += f[k] + b[k];
        }
        set(&l, s, p, v, m);
        got = span(&l, f, b);
        assert_true(got >= alone - 1e-9);
        for (int k = 0; k < p; k++)
            assert_true(got >= busy[k] - 1e-9);
    }
}

/* Qi et al. 2023, table 1 and section 2: bubbles of F + I - W and F + I - 2 W
 * a lane with W <= I, W <= F; none in zb-v when all are equal. A step is the
 * time of a lane between its first and its last task. */
static void zero_bubble_schedules_leave_the_published_bubbles(void **state)
{
    static const double times[][3] = {{1, 1, 1}, {1, 1.1, .9}, {1, 1.3, .7}};
    static struct lane l;
    double f[64], b[64], w[64];

    (void)state;
    for (int k = 0; k < 3; k++)
        for (int p = 2; p <= 8; p++)
            for (int m = 2 * p; m <= 5 * p; m++) {
                double work = 0, h1, h2, v;

                for (int i = 0; i < 64; i++) {
                    f[i] = times[k][0];
                    b[i] = times[k][1];
                    w[i] = times[k][2];
                }
                work = m * (f[0] + b[0] + w[0]);
                set(&l, PDL_SCHEDULE_ZB_H1, p, 1, m);
                h1 = span3(&l, f, b, w) - work;
                set(&l, PDL_SCHEDULE_ZB_H2, p, 1, m);
                h2 = span3(&l, f, b, w) - work;
                set(&l, PDL_SCHEDULE_ZB_V, p, 2, m);
                v = span3(&l, f, b, w) - 2 * work;
                assert_true(fabs(h1 - (p - 1) * (f[0] + b[0] - w[0])) < 1e-9);
                assert_true(fabs(h2 - (p - 1) * (f[0] + b[0] - 2 * w[0])) <
                            1e-9);
                if (k == 0)
                    assert_true(fabs(v) < 1e-9);
                else /* less than half a stage's difference a lane */
                    assert_true(v <= (p - 1) * 2 * (b[0] - w[0]) + 1e-9);
            }
}

/* GPipe m, 1F1B min(m, p - i), interleaved p (v - 1) + 2 (p - 1) + 1 on the
 * first lane, over all its stages. */
static void activations_in_flight_are_those_of_the_order(void **state)
{
    static struct lane l;
    int64_t n = 0;

    (void)state;
    set(&l, PDL_SCHEDULE_GPIPE, 4, 1, 16);
    find_order(&l.o);
    assert_int_equal(l.o.order->in_flight[2], 16);
    set(&l, PDL_SCHEDULE_1F1B, 4, 1, 16);
    find_order(&l.o);
    for (int s = 0; s < 4; s++)
        assert_int_equal(l.o.order->in_flight[s], 4 - s);
    set(&l, PDL_SCHEDULE_INTERLEAVED, 4, 3, 16);
    find_order(&l.o);
    for (int s = 0; s < 12; s += 4)
        n += l.o.order->in_flight[s];
    assert_int_equal(n, 4 * 2 + 2 * 3 + 1);
    pdl_arena_destroy(l.o.arena);
}

/* ---- against the tasks themselves ------------------------------------------ */

struct clock {
    int64_t next;
    double start, at;
};

/* Asks task by task what it waits for, until nothing moves. */
static void simulate(const struct pdl_tasks *o, double work[3][64],
                     struct clock *c)
{
    double *done = malloc((size_t)(3 * o->nstages * o->micro) * sizeof *done);
    bool moved = true;

    assert_non_null(done);
    for (int64_t i = 0; i < 3 * o->nstages * o->micro; i++)
        done[i] = -1;
    while (moved) {
        moved = false;
        for (int l = 0; l < o->lanes; l++)
            while (c[l].next < o->n) {
                const struct pdl_task *t = &o->task[l][c[l].next];
                int pass = pdl_task_pass(t->kind), needs, from;
                double ready = 0;

                if (pdl_task_needs(o, t, &needs, &from))
                    ready =
                        done[(needs * o->nstages + from) * o->micro + t->micro];
                if (ready < 0)
                    break;
                if (c[l].next++ == 0)
                    c[l].start = ready;
                c[l].at = fmax(c[l].at, ready) + work[pass][t->stage];
                done[(pass * o->nstages + t->stage) * o->micro + t->micro] =
                    c[l].at;
                moved = true;
            }
    }
    free(done);
}

/* A lane's runs, written out, are its tasks. */
static void runs_are_the_tasks(const struct pdl_tasks *o,
                               const struct order_runs *runs)
{
    int chunks = o->nstages / o->lanes;

    for (int l = 0; l < o->lanes; l++) {
        int64_t at = 0;

        for (int r = 0; r < runs[l].n; r++)
            for (int64_t k = 0; k < runs[l].run[r].n; k++)
                for (int i = 0; i < runs[l].run[r].length; i++, at++) {
                    const struct pdl_task *t = &o->task[l][at];

                    assert_true(at < o->n);
                    assert_int_equal(
                        runs[l].run[r].of[i],
                        pdl_task_pass(t->kind) * chunks + t->stage / o->lanes);
                }
        assert_int_equal(at, o->n);
        /* as few as memory is looked at for */
        assert_true(runs[l].n <= 20 || !pdl_schedule_splits(o->schedule));
    }
}

/* One order, filled again and again, as a search does. */
static void sequences_take_as_long_as_their_tasks(void **state)
{
    static const enum pdl_schedule all[] = {
        PDL_SCHEDULE_1F1B,  PDL_SCHEDULE_GPIPE, PDL_SCHEDULE_INTERLEAVED,
        PDL_SCHEDULE_ZB_H1, PDL_SCHEDULE_ZB_H2, PDL_SCHEDULE_ZB_V};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_arena *scratch = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct oracle_order o = {.n = 0};
    struct pdl_rng rng = {.key = 11};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        enum pdl_schedule s = all[pdl_rng_below(&rng, 6)];
        int p = 1 + (int)pdl_rng_below(&rng, 12), v = 1;
        struct clock c[12] = {{0}};
        double work[3][64], lanes[12];
        struct pdl_tasks tasks;

        if (s == PDL_SCHEDULE_INTERLEAVED)
            v = 1 + (int)pdl_rng_below(&rng, 5);
        if (s == PDL_SCHEDULE_ZB_V)
            v = 2;
        assert_int_equal(
            pdl_tasks_make(scratch, s, p, p * v,
                           p * (int64_t)(1 + pdl_rng_below(&rng, 5)), &tasks,
                           NULL),
            PDL_OK);
        for (int k = 0; k < 3 * 64; k++)
            work[k / 64][k % 64] = (double)pdl_rng_below(&rng, 100) / 16;
        simulate(&tasks, work, c);
        assert_true(oracle_order_fill(&o, a, scratch, &tasks, false));
        oracle_order_span(&o, (const double *[]){work[0], work[1], work[2]},
                          lanes);
        for (int l = 0; l < p; l++)
            assert_true(lanes[l] == c[l].at - c[l].start);
        assert_non_null(oracle_order_runs(&o, a, scratch));
        runs_are_the_tasks(&tasks, o.runs);
        pdl_arena_reset(scratch);
    }
    pdl_arena_destroy(scratch);
    pdl_arena_destroy(a);
}

/* Spans of lanes, all written out and with rounds left out; where stages are
 * interleaved whole rounds alone have an order. */
static void rounds_left_out_take_as_long(void **state)
{
    static const enum pdl_schedule all[] = {
        PDL_SCHEDULE_1F1B,    PDL_SCHEDULE_GPIPE, PDL_SCHEDULE_INTERLEAVED,
        PDL_SCHEDULE_ZB_H1,   PDL_SCHEDULE_ZB_H2, PDL_SCHEDULE_ZB_V,
        PDL_SCHEDULE_DUALPIPE};
    struct pdl_rng rng = {.key = 13};

    (void)state;
    for (int i = 0; i < 42; i++) {
        enum pdl_schedule s = all[i % 7];
        int p = 2 + 2 * (int)pdl_rng_below(&rng, 4);
        int v = s == PDL_SCHEDULE_INTERLEAVED                          ? 3
                : s == PDL_SCHEDULE_ZB_V || s == PDL_SCHEDULE_DUALPIPE ? 2
                                                                       : 1;
        struct pdl_tasks shape = {
            s, p, p * v, 4500 + (int64_t)pdl_rng_below(&rng, 9000), 0, NULL};
        struct oracle_order some = {.n = 0}, each = {.n = 0};
        double work[3][64], a[64], b[64];
        pdl_arena *arena = pdl_arena_create(PDL_ARENA_DEFAULT);
        int part = s == PDL_SCHEDULE_INTERLEAVED ? p : 1;
        const double *const w[] = {work[0], work[1], work[2]};

        shape.micro -= shape.micro % part;
        for (int k = 0; k < 3 * 64; k++)
            work[k / 64][k % 64] = 1 + (double)pdl_rng_below(&rng, 100) / 16;
        assert_true(oracle_order_fill(&some, arena, arena, &shape, false));
        assert_true(oracle_order_fill(&each, arena, arena, &shape, true));
        assert_int_equal(some.rounds > 0, s != PDL_SCHEDULE_GPIPE);
        assert_memory_equal(some.in_flight, each.in_flight,
                            (size_t)(p * v) * sizeof *each.in_flight);
        oracle_order_span(&some, w, a);
        oracle_order_span(&each, w, b);
        for (int l = 0; l < p; l++)
            assert_true(fabs(a[l] / b[l] - 1) < 1e-9);
        pdl_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_left_out_take_as_long),
        cmocka_unit_test(equal_stages_leave_the_bubble_of_theory),
        cmocka_unit_test(no_schedule_beats_its_bounds),
        cmocka_unit_test(zero_bubble_schedules_leave_the_published_bubbles),
        cmocka_unit_test(activations_in_flight_are_those_of_the_order),
        cmocka_unit_test(sequences_take_as_long_as_their_tasks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
