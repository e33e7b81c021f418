/* Sites far apart: what crosses their links, and sites that train by
 * themselves. */
#include "paradl/design.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINK "site_link: 10GB/s\nsite_latency: 20ms\n"

static enum pdl_status ask(pdl_arena *a, const char *text,
                           struct pdl_designs *d, struct pdl_err *err)
{
    struct pdl_design_options opt = {.threads = 1, .draws = 1};
    struct pdl_question *q = PDL_NEW(a, struct pdl_question, 1);
    enum pdl_status st = pdl_question_read(
        a, (struct pdl_bytes){text, strlen(text)}, "q.yaml", q, err);

    return st == PDL_OK ? pdl_design(a, q, &opt, d, err) : st;
}

/* The design of so many PEs, a batch and sites as written. */
static struct pdl_design_point one(pdl_arena *a, const char *link, int pes,
                                   int batch, const char *sites)
{
    struct pdl_designs d = {0};
    struct pdl_err err = {"", ""};
    char text[512];

    snprintf(text, sizeof text,
             "%sworkloads: [{model: vgg16, batch: %d, steps: 1000}]\n"
             "designs: [{system: dgx-h100, pes: %d, network: fat-tree, sites: "
             "%s}]\n",
             link, batch, pes, sites);
    if (ask(a, text, &d, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(d.n, 1);
    assert_non_null(d.point[0].run[0].strategy);
    return d.point[0];
}

static bool near(double a, double b, double part)
{
    return fabs(a - b) <= part * fabs(b);
}

static void what_crosses_takes_its_time(void **state)
{
    static const char wide[] = "site_link: 10TB/s\nsite_latency: 0\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    double together = one(a, "", 32, 1024, "1").run[0].x.step_s;
    struct pdl_design_point far = one(a, LINK, 32, 1024, "2");

    (void)state;
    assert_true(
        near(one(a, wide, 32, 1024, "2").run[0].x.step_s, together, 0.1));
    assert_true(far.run[0].x.step_s > 1.05 * together);
    assert_true(far.jobs == 1 && far.run[0].exchange_s == 0);
    /* a link twice as wide is no worse */
    assert_true(one(a, "site_link: 20GB/s\nsite_latency: 20ms\n", 32, 1024, "2")
                    .run[0]
                    .x.step_s <= far.run[0].x.step_s * (1 + 1e-9));
    pdl_arena_destroy(a);
}

static void sites_by_themselves_meet_now_and_then(void **state)
{
    const double parameters = 138357544, link = 10e9, latency = 20e-3;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_point alone = one(a, "", 16, 512, "1");
    struct pdl_design_point ten = one(a, LINK, 32, 1024, "'2:local=10'");
    struct pdl_design_point many = one(a, LINK, 32, 1024, "'2:local=1000'");
    double meet = parameters * 4 / link + 2 * latency;

    (void)state;
    assert_true(ten.jobs == 2);
    assert_string_equal(ten.run[0].strategy, alone.run[0].strategy);
    assert_true(near(ten.run[0].x.step_s, alone.run[0].x.step_s, 1e-9));
    assert_true(near(ten.run[0].exchange_s, meet / 10, 1e-9));
    assert_true(near(many.run[0].exchange_s, meet / 1000, 1e-9));
    assert_true(many.run[0].run.train_s < ten.run[0].run.train_s);
    /* as many nodes and twice the networks of one site; all of them at work */
    assert_true(ten.bill.nodes == 2 * alone.bill.nodes &&
                ten.bill.switches == 2 * alone.bill.switches);
    assert_true(many.kwh > 1.99 * alone.kwh);
    pdl_arena_destroy(a);
}

static void what_cannot_be_is_one_line(void **state)
{
    static const struct {
        const char *link, *sites, *says;
    } cases[] = {
        {LINK, "0", "'0' is no number of sites"},
        {LINK, "'2:local=0'", "'2:local=0' is no number of sites"},
        {LINK, "'2:global=3'", "'2:global=3' is no number of sites"},
        {LINK, "2000", "'2000' is no number of sites"},
        {"", "2", "what joins its sites is not said"},
        {LINK, "3", "4 nodes are not dealt to 3 sites equally"},
        {LINK, "'4:local=2'", "a batch of 1026 of vgg16 is not dealt to 4"},
        {"site_link: 10\n", "2", "site_link"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_designs d = {0};
        struct pdl_err err = {"", ""};
        char text[512];

        snprintf(text, sizeof text,
                 "%sworkloads: [{model: vgg16, batch: 1026, steps: 10}]\n"
                 "designs: [{system: dgx-h100, pes: 32, sites: %s}]\n",
                 cases[i].link, cases[i].sites);
        assert_true(ask(a, text, &d, &err) != PDL_OK);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_crosses_takes_its_time),
        cmocka_unit_test(sites_by_themselves_meet_now_and_then),
        cmocka_unit_test(what_cannot_be_is_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
