/* Constraints, the front, and recommendations that hold when what is uncertain
 * is drawn anew. */
#include "paradl/design.h"

#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct pdl_designs answer(pdl_arena *a, const char *text, uint64_t seed)
{
    struct pdl_question *q = PDL_NEW(a, struct pdl_question, 1);
    struct pdl_design_options opt = {.threads = 1, .draws = 1000, .seed = seed};
    struct pdl_designs d = {0};
    struct pdl_err err = {"", ""};

    if (pdl_question_read(a, (struct pdl_bytes){text, strlen(text)}, "q.yaml",
                          q, &err) != PDL_OK ||
        pdl_design(a, q, &opt, &d, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return d;
}

#define WORK "workloads: [{model: lenet5, batch: 1024, samples: 100M}]\n"
#define GRID \
    "designs: [{system: [dgx-h100, dgx-a100, dgx-b200], pes: [8, 16, 32]}]\n"

/* One key may begin as another does. */
static void what_costs_nothing_is_named_whole(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d = answer(a,
                                  WORK "designs: [{system: dgx-h100, pes: 8, "
                                       "set: {mem_bw: 4TB/s, mem: 120GiB}}]\n",
                                  1);

    (void)state;
    assert_string_equal(d.unpriced, "mem_bw, mem");
    pdl_arena_destroy(a);
}

static void constraints_exclude_and_say_by_how_much(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs free = answer(a, WORK GRID, 1);
    struct pdl_designs d = answer(a, WORK GRID "power: 30kW\n", 1);
    int broken = 0;

    (void)state;
    assert_int_equal(free.nfit, 9);
    for (int i = 0; i < d.n; i++) {
        const struct pdl_design_point *p = &d.point[i];
        bool over = p->bill.facility_w > 30e3;

        assert_int_equal(over, p->excluded != NULL);
        broken += over;
        if (over) {
            assert_non_null(strstr(p->excluded, "power: "));
            assert_non_null(strstr(p->excluded, "of 30 kW"));
            assert_true(fabs(p->excess - p->bill.facility_w / 30e3) < 1e-9);
        }
    }
    assert_true(broken > 0 && broken < 9);
    assert_int_equal(d.nfit, 9 - broken);
    /* of what breaks one, the nearest first */
    for (int i = d.nfit + 1; i < d.n; i++)
        assert_true(d.point[d.order[i - 1]].excess <=
                    d.point[d.order[i]].excess);
    pdl_arena_destroy(a);
}

/* Two constraints that no design keeps together: which would have to give, and
 * by how much. */
static void what_keeps_designs_out_is_counted(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs free = answer(a, WORK GRID, 1), d;
    double cheap = INFINITY, fast = INFINITY;
    char text[400];

    (void)state;
    for (int i = 0; i < free.n; i++) {
        cheap = fmin(cheap, free.point[i].bill.capital);
        fast = fmin(fast, free.point[i].time_s);
    }
    snprintf(text, sizeof text,
             "workloads: [{model: lenet5, batch: 1024, samples: 100M, "
             "deadline: %.6fs}]\nbudget: %.0f\n" GRID,
             1.01 * fast, 1.01 * cheap);
    d = answer(a, text, 1);
    assert_int_equal(d.nfit, 0);
    assert_true(d.point[d.order[0]].wins == 0);
    for (int k = 0; k < d.nlimits; k++) {
        const struct pdl_design_limit *l = &d.limit[k];
        bool budget = strcmp(l->name, "budget") == 0;
        int broken = 0, alone = 0;
        double nearest = INFINITY;

        if (!budget && strcmp(l->name, "deadline of lenet5") != 0)
            continue;
        for (int i = 0; i < d.n; i++) {
            double money = d.point[i].bill.capital / (1.01 * cheap);
            double late = d.point[i].time_s / (1.01 * fast);
            double of = budget ? money : late, other = budget ? late : money;

            broken += of > 1;
            alone += of > 1 && other <= 1;
            nearest = of > 1 && other <= 1 ? fmin(nearest, of) : nearest;
        }
        assert_int_equal(l->broken, broken);
        assert_int_equal(l->alone, alone);
        assert_true(alone > 0);
        assert_true(fabs(l->nearest / nearest - 1) < 1e-5);
    }
    pdl_arena_destroy(a);
}

static double keeps(pdl_arena *a, double budget)
{
    char text[256];

    snprintf(text, sizeof text,
             WORK "budget: %.0f\n"
                  "designs: [{system: dgx-h100, pes: [16]}]\n",
             budget);
    return answer(a, text, 1).point[0].keeps;
}

/* Prices are drawn on either side of their values. */
static void a_budget_that_is_just_kept_is_kept_by_chance(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d =
        answer(a, WORK "designs: [{system: dgx-h100, pes: 16}]\n", 1);
    double capital = d.point[0].bill.capital, chance;

    (void)state;
    assert_true(d.point[0].keeps == 1);
    chance = keeps(a, capital + 1);
    assert_true(chance > 0.4 && chance < 0.6);
    assert_true(keeps(a, 1.1 * capital) > chance);
    assert_true(keeps(a, 3 * capital) == 1);
    pdl_arena_destroy(a);
}

static void more_than_is_delivered_is_excluded(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d = answer(a, WORK GRID "delivery: 16\n", 1);

    (void)state;
    assert_int_equal(d.nfit, 6);
    for (int i = 6; i < 9; i++)
        assert_string_equal(d.point[d.order[i]].excluded,
                            "delivery: 32 of 16 (2 times)");
    pdl_arena_destroy(a);
}

static void the_front_is_what_nothing_beats(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d = answer(a, WORK GRID, 1);
    double wins = 0;

    (void)state;
    for (int i = 0; i < d.n; i++) {
        const struct pdl_design_point *p = &d.point[i];
        bool beaten = false;

        for (int k = 0; k < d.n; k++) {
            const struct pdl_design_point *x = &d.point[k];

            beaten = beaten || (x->time_s <= p->time_s && x->cost <= p->cost &&
                                x->kwh <= p->kwh && k != i &&
                                (x->time_s < p->time_s || x->cost < p->cost ||
                                 x->kwh < p->kwh));
        }
        assert_int_equal(p->front, !beaten);
        wins += p->wins;
    }
    assert_true(fabs(wins - 1) < 1e-9);
    assert_true(d.point[d.order[0]].front);
    pdl_arena_destroy(a);
}

static void accounts_add_up(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d = answer(
        a, WORK "designs: [{system: dgx-h100, pes: 16}]\nmoney: rent\n", 1);
    const struct pdl_design_point *p = &d.point[0];
    double hours = p->time_s / 3600;

    (void)state;
    assert_true(fabs(p->cost - 16 * hours * 4.916) < 1e-6 * p->cost);
    assert_true(p->kwh > 0 &&
                p->kwh * 1e3 / hours <= p->bill.facility_w * (1 + 1e-9));
    assert_true(fabs(p->co2_kg - p->kwh * 0.481) < 1e-9 * p->co2_kg);
    /* twice the runs, twice of everything */
    d = answer(a,
               "workloads: [{model: lenet5, batch: 1024, samples: 100M, "
               "weight: 2}]\ndesigns: [{system: dgx-h100, pes: 16}]\n"
               "money: rent\n",
               1);
    assert_true(fabs(d.point[0].cost - 2 * p->cost) < 1e-6 * p->cost);
    /* bought: the capital is the sum of its parts */
    d = answer(a, WORK "designs: [{system: dgx-h100, pes: 64}]\n", 1);
    p = &d.point[0];
    assert_true(fabs(p->bill.capital - p->bill.nodes_cost -
                     p->bill.switch_cost - p->bill.cable_cost -
                     p->bill.rack_cost) < 1);
    assert_true(p->bill.nodes_cost == 8 * 310000.0);
    pdl_arena_destroy(a);
}

/* All nodes together write no faster than the file system takes. */
static void a_slow_file_system_makes_checkpoints_long(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d =
        answer(a,
               "workloads: [{model: gpt3-125m, batch: 256, tokens: 10G}]\n"
               "designs: [{system: dgx-h100, pes: 64, set: {storage.bandwidth: "
               "[1TB/s, 10MB/s]}}]\n",
               1);

    (void)state;
    assert_string_equal(d.point[0].run[0].strategy, d.point[1].run[0].strategy);
    assert_true(d.point[0].time_s < d.point[1].time_s);
    assert_true(d.point[0].run[0].run.goodput >
                d.point[1].run[0].run.goodput + 0.01);
    pdl_arena_destroy(a);
}

/* They cost money and save the time that a run would wait for nodes. */
static void spares_are_worth_what_they_save(void **state)
{
    static const char text[] =
        "workloads: [{model: gpt3-1.3b, batch: 512, tokens: 300G}]\n"
        "designs: [{system: dgx-h100, pes: 128, spares: [0, 0.1, 0.5]}]\n"
        "goal: time\nrepair_time: 7d\nmoney: %s\n";
    char buy[256], rent[256];
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_designs d;
    const struct pdl_design_point *p;

    (void)state;
    snprintf(buy, sizeof buy, text, "buy");
    snprintf(rent, sizeof rent, text, "rent");
    d = answer(a, buy, 1);
    p = d.point;
    assert_int_equal(p[1].bill.spare_nodes, 2);
    assert_int_equal(p[2].bill.spare_nodes, 8);
    for (int i = 0; i < 3; i++) {
        const struct pdl_design_run *r = &p[i].run[0];
        double part =
            pdl_waiting_part(p[i].bill.spare_nodes, 7 * 86400.0, r->run.mtbf_s);

        assert_true(fabs(r->waiting - part) < 1e-12);
        assert_true(i == 0 || p[i].time_s < p[i - 1].time_s);
        assert_true(i == 0 || p[i].bill.capital > p[i - 1].bill.capital);
    }
    for (int i = 0; i < d.nflips; i++) /* all have the same projection */
        assert_string_not_equal(d.flip[i].what, "the projection of the best");
    assert_true(p[0].run[0].waiting > .1 && p[2].run[0].waiting < .001);
    assert_string_equal(d.point[d.order[0]].text->label,
                        "dgx-h100 x128 spares=0.5");
    d = answer(a, rent, 1);
    for (int i = 0; i < 3; i++) {
        p = &d.point[i];
        assert_true(fabs(p->cost / (p->time_s / 3600 * 4.916 * 8 *
                                    (double)(16 + p->bill.spare_nodes)) -
                         1) < 1e-9);
    }
    pdl_arena_destroy(a);
}

/* What is recommended without saying "tie" is within 5 % of the best in four of
 * five draws, also of draws that it was not chosen by. */
static void recommendations_hold_in_draws_they_have_not_seen(void **state)
{
    static const char *const systems[] = {"dgx-h100", "dgx-a100", "dgx-b200",
                                          "dgx-h200"};
    static const char *const networks[] = {
        "fat-tree", "rail-only", "'fat-tree:taper=4'", "'torus:dims=2'"};
    static const char *const goals[] = {"cost", "time", "energy", "carbon"};
    static const char *const works[] = {
        "{model: lenet5, batch: 1024, samples: 100M}",
        "{model: resnet50, batch: 2048, samples: 100M}",
        "{model: gpt3-125m, batch: 256, tokens: 10G}"};
    struct pdl_rng r = {.key = 11};
    int n = effort(5, 30, 30), sure = 0;
    double least = 1;

    (void)state;
    for (int i = 0; i < n; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_designs x, y;
        char text[512];
        int best;

        snprintf(
            text, sizeof text,
            "workloads: [%s]\ndesigns: [{system: [%s, %s], pes: [%d, %d], "
            "network: [%s, %s]}]\ngoal: %s\nmoney: %s\nregion: %s\n",
            works[pdl_rng_below(&r, (uint64_t)effort(2, 2, 3))],
            systems[pdl_rng_below(&r, 2)], systems[2 + pdl_rng_below(&r, 2)],
            8 << pdl_rng_below(&r, 2), 32 << pdl_rng_below(&r, 2),
            networks[pdl_rng_below(&r, 2)], networks[2 + pdl_rng_below(&r, 2)],
            goals[pdl_rng_below(&r, 4)], pdl_rng_below(&r, 2) ? "rent" : "buy",
            pdl_rng_below(&r, 2) ? "france" : "world");
        x = answer(a, text, 1);
        y = answer(a, text, 2);
        best = x.order[0];
        if (!x.tie && y.point[best].near_best < 0.78)
            fail_msg("%s: within 5 %% in %g of draws:\n%s",
                     x.point[best].text->label, y.point[best].near_best, text);
        sure += !x.tie;
        if (!x.tie)
            least = fmin(least, y.point[best].near_best);
        pdl_arena_destroy(a);
    }
    print_message("%d questions: %d ties; the others are within 5 %% of the "
                  "best in %.1f %% of other draws at least\n",
                  n, n - sure, 100 * least);
    assert_true(sure > n / 4); /* not by saying "tie" to everything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_costs_nothing_is_named_whole),
        cmocka_unit_test(constraints_exclude_and_say_by_how_much),
        cmocka_unit_test(what_keeps_designs_out_is_counted),
        cmocka_unit_test(a_budget_that_is_just_kept_is_kept_by_chance),
        cmocka_unit_test(more_than_is_delivered_is_excluded),
        cmocka_unit_test(the_front_is_what_nothing_beats),
        cmocka_unit_test(accounts_add_up),
        cmocka_unit_test(a_slow_file_system_makes_checkpoints_long),
        cmocka_unit_test(spares_are_worth_what_they_save),
        cmocka_unit_test(recommendations_hold_in_draws_they_have_not_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
