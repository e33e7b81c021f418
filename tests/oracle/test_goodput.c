/* Time of a training: the closed form of failures and checkpoints against a
 * simulation of them, the expected slowest PE against drawn ones, and that the
 * parts add up. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct pdl_projection step = {
    .step_s = 2, .batch = 100, .pes = 64};

static struct pdl_goodput ask(const struct pdl_goodput_options *o)
{
    struct pdl_goodput g;

    pdl_goodput(&step, o, &g);
    assert_true(fabs(g.train_s - g.ideal_s - g.ramp_s - g.stragglers_s -
                     g.checkpoints_s - g.lost_s) <= 1e-9 * g.train_s);
    assert_true(g.ramp_s >= 0 && g.stragglers_s >= 0 && g.lost_s >= -1e-9);
    return g;
}

static double uniform(struct pdl_rng *rng)
{
    return ((double)pdl_rng_below(rng, UINT64_C(1) << 52) + .5) / 0x1p52;
}

/* Pieces of work and a checkpoint after each; a failure takes the piece away
 * and costs a restart, which may fail too. */
static double simulate(struct pdl_rng *rng, double work, double every,
                       double cost, double restart, double mtbf)
{
    double now = 0, failure = -mtbf * log(uniform(rng));

    for (double done = 0; done < work - 1e-9 * work; done += every) {
        double need = every + cost;

        while (now + need > failure) {
            now = failure;
            failure = now - mtbf * log(uniform(rng));
            need = restart + every + cost;
        }
        now += need;
    }
    return now;
}

static void failures_cost_what_a_simulation_says(void **state)
{
    static const double cases[][4] = {/* mtbf of a node, cost, restart, every */
                                      {4e6, 60, 300, 1800},
                                      {4e5, 60, 300, 600},
                                      {1e5, 30, 100, 300}};
    struct pdl_rng rng = {.key = 11};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pdl_goodput_options o = {.samples = 1e8, /* 2e6 s of steps */
                                        .nodes = 64,
                                        .mtbf_s = cases[i][0],
                                        .checkpoint_s = cases[i][1],
                                        .restart_s = cases[i][2],
                                        .every_s = cases[i][3]};
        struct pdl_goodput g = ask(&o);
        double sum = 0;

        for (int k = 0; k < 200; k++)
            sum += simulate(&rng, 2e6, o.every_s, o.checkpoint_s, o.restart_s,
                            o.mtbf_s / 64);
        assert_true(fabs(g.ideal_s - 2e6) < 1e-3);
        assert_true(fabs(sum / 200 / g.train_s - 1) < .01);
        assert_true(fabs(g.failures - g.train_s * 64 / o.mtbf_s) < 1e-6);
    }
}

static void the_interval_is_the_best_one(void **state)
{
    struct pdl_goodput_options o = {.samples = 1e9,
                                    .nodes = 512,
                                    .mtbf_s = 1e7,
                                    .checkpoint_s = 45,
                                    .restart_s = 600};
    struct pdl_goodput best = ask(&o);

    (void)state;
    for (double x = .25; x <= 4; x *= 1.25) {
        o.every_s = x * best.interval_s;
        assert_true(ask(&o).train_s >= best.train_s * (1 - 1e-4));
    }
}

static void without_trouble_a_training_is_its_steps(void **state)
{
    struct pdl_goodput_options o = {.samples = 1e6, .nodes = 8};
    struct pdl_goodput g = ask(&o);

    (void)state;
    assert_true(g.train_s == 2e4 && g.goodput == 1);
    o.checkpoint_s = 10;
    o.every_s = 1000;
    assert_true(fabs(ask(&o).train_s - 2e4 * 1.01) < 1e-6);
}

static void steps_wait_for_the_slowest_pe(void **state)
{
    static const int pes[] = {2, 16, 256};
    struct pdl_rng rng = {.key = 5};

    (void)state;
    assert_true(pdl_straggler_factor(.1, 1) == 1);
    for (int i = 0; i < 3; i++) {
        double sum = 0, want = pdl_straggler_factor(.05, pes[i]);
        int draws = 2000000 / pes[i] > 20000 ? 20000 : 2000000 / pes[i];

        for (int k = 0; k < draws; k++) {
            double most = -1e9;

            for (int n = 0; n < pes[i]; n++) {
                double r = sqrt(-2 * log(uniform(&rng)));
                double x = r * cos(2 * acos(-1) * uniform(&rng));

                most = x > most ? x : most;
            }
            sum += 1 + .05 * most;
        }
        assert_true(fabs(sum / draws - want) < .002);
    }
}

static void smaller_batches_take_their_own_steps(void **state)
{
    struct pdl_ramp ramp[] = {{10, 1000, .5}, {50, 1000, 1.2}};
    struct pdl_goodput_options o = {
        .samples = 1e4, .nodes = 8, .nramp = 2, .ramp = ramp};
    struct pdl_goodput g = ask(&o);

    (void)state;
    assert_true(fabs(g.train_s - (100 * .5 + 20 * 1.2 + 80 * 2)) < 1e-9);
    o.samples = 500; /* over before it has begun */
    assert_true(fabs(ask(&o).train_s - 50 * .5) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_cost_what_a_simulation_says),
        cmocka_unit_test(the_interval_is_the_best_one),
        cmocka_unit_test(without_trouble_a_training_is_its_steps),
        cmocka_unit_test(steps_wait_for_the_slowest_pe),
        cmocka_unit_test(smaller_batches_take_their_own_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
