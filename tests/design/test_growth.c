/* Machines that grow: the mix goes on, on more PEs, from a day on. */
#include "paradl/design.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORK "workloads: [{model: lenet5, batch: 1024, samples: 1000G}]\n"

static enum pdl_status ask(pdl_arena *a, const char *text,
                           struct pdl_designs *d, struct pdl_err *err)
{
    struct pdl_design_options opt = {.threads = 1, .draws = 50};
    struct pdl_question *q = PDL_NEW(a, struct pdl_question, 1);
    enum pdl_status st = pdl_question_read(
        a, (struct pdl_bytes){text, strlen(text)}, "q.yaml", q, err);

    return st == PDL_OK ? pdl_design(a, q, &opt, d, err) : st;
}

/* The only design of a question that says so much more. */
static struct pdl_designs answer(pdl_arena *a, const char *more)
{
    struct pdl_designs d = {0};
    struct pdl_err err = {"", ""};
    char text[512];

    snprintf(text, sizeof text, WORK "%s\n", more);
    if (ask(a, text, &d, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return d;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void what_is_left_is_done_on_the_larger_machine(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_point small =
        answer(a, "designs: [{system: dgx-h100, pes: 8}]").point[0];
    struct pdl_design_point large =
        answer(a, "designs: [{system: dgx-h100, pes: 16}]").point[0];
    double after = floor(small.time_s / 4), part = after / small.time_s;
    struct pdl_designs d;
    char text[256];

    (void)state;
    snprintf(text, sizeof text,
             "designs: [{system: dgx-h100, pes: 8, then: [{after: %.0fs, pes: "
             "16}]}]",
             after);
    d = answer(a, text);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.nfit, 1);
    assert_true(near(d.point[0].time_s, after + (1 - part) * large.time_s));
    assert_true(
        near(d.point[0].cost, part * small.cost + (1 - part) * large.cost));
    assert_true(
        near(d.point[0].kwh, part * small.kwh + (1 - part) * large.kwh));
    assert_true(near(d.point[0].part, part));
    assert_true(near(d.point[1].part, 1 - part));
    assert_int_equal(d.point[1].bill.nodes, 2);
    assert_non_null(strstr(d.point[0].text->label, "+x8@"));
    pdl_arena_destroy(a);
}

static void what_is_done_before_it_grows_is_the_small_machines(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_point small =
        answer(a, "designs: [{system: dgx-h100, pes: 8}]").point[0];
    struct pdl_designs d =
        answer(a, "designs: [{system: dgx-h100, pes: 8, then: [{after: 9000d, "
                  "pes: 16}]}]");

    (void)state;
    assert_true(near(d.point[0].time_s, small.time_s));
    assert_true(near(d.point[0].cost, small.cost));
    assert_true(d.point[1].part == 0);
    pdl_arena_destroy(a);
}

/* The limit on power is broken by what it grows to, and so is the capital. */
static void constraints_look_at_every_stage(void **state)
{
    static const char *const limits[] = {"power: 20kW", "budget: 400k",
                                         "delivery: 8"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char text[256];

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int grows = 0; grows < 2; grows++) {
            struct pdl_designs d;

            snprintf(text, sizeof text,
                     "%s\ndesigns: [{system: dgx-h100, pes: 8%s}]", limits[i],
                     grows ? ", then: [{after: 1h, pes: 16}]" : "");
            d = answer(a, text);
            assert_int_equal(d.nfit, !grows);
            assert_int_equal(d.point[0].excluded != NULL, grows);
        }
    pdl_arena_destroy(a);
}

static void what_does_not_grow_is_one_line(void **state)
{
    static const struct {
        const char *then, *says;
    } cases[] = {
        {"[{after: 10d, pes: 8}]", "does not grow: 8 PEs, then 8"},
        {"[{after: 10d, pes: 12}]", "12 PEs are no whole number of nodes"},
        {"[{after: 10d}]", "expected {after: TIME, pes: N}"},
        {"[]", "expected a list"},
        {"[{after: 2d, pes: 16}, {after: 1d, pes: 32}]",
         "not after what stands before"},
        {"[{after: 2d, pes: 16, network: torus}]", "network"},
        {"later", "expected a list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_designs d = {0};
        struct pdl_err err = {"", ""};
        char text[256];

        snprintf(text, sizeof text,
                 WORK "designs: [{system: dgx-h100, pes: 8, then: %s}]\n",
                 cases[i].then);
        assert_true(ask(a, text, &d, &err) != PDL_OK);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_done_on_the_larger_machine),
        cmocka_unit_test(what_is_done_before_it_grows_is_the_small_machines),
        cmocka_unit_test(constraints_look_at_every_stage),
        cmocka_unit_test(what_does_not_grow_is_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
