/* Measured runs: reading them, ranking, error bars, effects left out, and the
 * contention that the mesh implies; and the bars on what was published for
 * ABCI (the profile in systems/ was fitted to VGG-16 and is tested on
 * ResNet-50). */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "plans.h"

static struct pdl_oracle_options chainer(void)
{
    return (struct pdl_oracle_options){
        .precision = PDL_PREC_FP32,
        .optimizer_slots = 2,
        .framework = open_framework("chainermnx")};
}

static struct pdl_projection project(const struct pdl_plan *p,
                                     const struct pdl_system *sys,
                                     const struct pdl_oracle_options *opt)
{
    struct pdl_projection x;
    struct pdl_err err = {"", ""};

    if (pdl_project(p, sys, opt, &x, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return x;
}

static void an_interval_holds_the_step_and_grows_with_what_is_unknown(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, "resnet50", "data=4,filter=4", 64);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = chainer();
    struct pdl_projection x = project(p, &sys, &opt), y = x, z = x;
    struct pdl_spread wide[] = {{"node.links.measured_bandwidth", 1, 0}};

    (void)st;
    pdl_interval(p, &sys, &opt, &x);
    assert_true(x.low_s > 0 && x.low_s < x.step_s && x.step_s < x.high_s);
    sys.nspreads = 0;
    pdl_interval(p, &sys, &opt, &y);
    assert_true(y.high_s < x.high_s); /* parameters add to the form */
    assert_true(fabs(log(y.high_s / y.step_s) - sys.projection_error) < 1e-12);
    sys.spreads = wide;
    sys.nspreads = 1;
    pdl_interval(p, &sys, &opt, &z);
    assert_true(z.high_s > y.high_s);
    opt.parameters = PDL_IDEAL; /* nothing is uncertain about a formula */
    x = project(p, &sys, &opt);
    pdl_interval(p, &sys, &opt, &x);
    assert_true(x.low_s == 0 && x.high_s == 0);
    pdl_arena_destroy(a);
}

static void congestion_stretches_the_interval(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, "vgg16", "data=16", 512);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = chainer();
    struct pdl_projection x = project(p, &sys, &opt), y;

    (void)st;
    pdl_interval(p, &sys, &opt, &x);
    opt.congestion = sqrt(2);
    opt.congestion_low = 1;
    opt.congestion_high = 2;
    y = project(p, &sys, &opt);
    pdl_interval(p, &sys, &opt, &y);
    assert_true(y.step_s > x.step_s);
    assert_true(y.high_s > 1.2 * x.high_s);
    assert_true(y.low_s < 1.02 * x.low_s);
    pdl_arena_destroy(a);
}

/* Every effect can be left out, and does something somewhere. */
static void every_effect_changes_some_step(void **st)
{
    static const struct {
        const char *model, *strategy;
        int64_t batch;
        bool habits;
    } cases[] = {
        {"resnet50", "data=4,filter=4,exchange=paper", 256, true},
        {"resnet50", "data=4,spatial=4,exchange=paper", 256, true},
        {"resnet50", "data=16,exchange=paper", 1024, true},
        {"resnet50", "data=16", 1024, false},
        {"vgg16", "data=4,exchange=paper", 128, true},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "abci-v100");

    (void)st;
    for (int e = 0; pdl_effect_at(e); e++) {
        bool changes = false;

        for (int i = 0; i < 5; i++) {
            const struct pdl_plan *p =
                lower(a, cases[i].model, cases[i].strategy, cases[i].batch);
            struct pdl_oracle_options opt = chainer();
            double whole;

            if (!cases[i].habits)
                opt.framework = NULL;
            whole = project(p, &sys, &opt).step_s;
            assert_int_equal(
                pdl_effect_find(pdl_effect_at(e)->name, &opt.without, NULL),
                PDL_OK);
            changes = changes || project(p, &sys, &opt).step_s != whole;
        }
        if (!changes)
            fail_msg("nothing changes without %s", pdl_effect_at(e)->name);
    }
    pdl_arena_destroy(a);
}

static void an_unknown_effect_is_refused_with_a_hint(void **st)
{
    struct pdl_err err = {"", ""};
    uint32_t bit;

    (void)st;
    assert_int_equal(pdl_effect_find("tile", &bit, &err), PDL_EINVAL);
    assert_non_null(strstr(err.hint, "tiles"));
}

static double files(pdl_arena *a, const char *strategy, double round_trip)
{
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = chainer();

    sys.storage = (struct pdl_storage){.round_trip_s = round_trip};
    return project(lower(a, "vgg16", strategy, 32), &sys, &opt).io_s;
}

/* 13 convolutions and 5 pools: filter's files are opened while the device
 * computes, spatial's while it waits, channel's layers have none. */
static void what_the_device_computes_hides_files_that_are_opened(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    double slow = 10;

    (void)st;
    assert_true(files(a, "filter=4", 10e-6) < 3.01 * 10e-6);
    assert_true(files(a, "filter=4", slow) < 29 * slow);
    assert_true(files(a, "filter=4", slow) > 29 * slow - 1);
    assert_true(fabs(files(a, "data=4", slow) / (3 * slow) - 1) < 1e-9);
    assert_true(fabs(files(a, "channel=2", slow) / (3 * slow) - 1) < 1e-9);
    assert_true(fabs(files(a, "spatial=4", slow) / (39 * slow) - 1) < 1e-9);
    pdl_arena_destroy(a);
}

/* Four groups of gradients leave a node of two adapters: phi is 2, as the
 * authors wrote by hand; one group has it for itself. */
static void contention_follows_from_the_mesh(void **st)
{
    static const struct {
        const char *strategy;
        double groups, phi;
    } cases[] = {
        {"data=16,filter=4,exchange=paper", 4, 2},
        {"data=16,filter=2,exchange=paper", 2, 1},
        {"data=64,exchange=paper", 1, 1},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = chainer();

    (void)st;
    for (int i = 0; i < 3; i++) {
        const struct pdl_plan *p = lower(a, "vgg16", cases[i].strategy, 512);
        struct pdl_contentions c;
        int seen = 0;

        assert_int_equal(pdl_contention(a, p, &sys, &opt, &c, NULL), PDL_OK);
        for (int k = 0; k < c.n; k++)
            if (c.row[k].gradient && c.row[k].level > 0 &&
                c.row[k].members == p->mesh->pes / (i == 0   ? 4
                                                    : i == 1 ? 2
                                                             : 1)) {
                assert_true(c.row[k].groups == cases[i].groups);
                assert_true(fabs(c.row[k].phi - cases[i].phi) < 1e-9);
                seen++;
            }
        assert_true(seen > 0);
    }
    pdl_arena_destroy(a);
}

static void pairs_are_ranked_by_samples_per_second(void **st)
{
    struct pdl_run r[] = {
        {.model = "m:x=1", .axes = "data", .batch = 10, .step_s = 1},
        {.model = "m", .axes = "filter", .batch = 10, .step_s = 2},
        {.model = "m", .axes = "channel", .batch = 20, .step_s = 4.1},
        {.model = "other", .axes = "filter", .batch = 10, .step_s = 9},
    };
    const struct pdl_run *run[] = {&r[0], &r[1], &r[2], &r[3]};
    int64_t pes[] = {4, 4, 4, 4};
    double right[] = {1, 3, 6, 1}, wrong[] = {3, 1, 2, 1};
    struct pdl_ranking x;

    (void)st;
    pdl_rank_pairs(run, pes, right, 4, .1, &x); /* 1 and 2 are a tie */
    assert_int_equal(x.pairs, 2);
    assert_int_equal(x.right, 2);
    pdl_rank_pairs(run, pes, wrong, 4, .1, &x);
    assert_int_equal(x.right, 0);
    pes[0] = 8;
    pdl_rank_pairs(run, pes, right, 4, .1, &x);
    assert_int_equal(x.pairs, 0);
}

/* What the rest of the step hides costs nothing; slower storage shows, and is
 * all that counts in the end. */
static void reading_samples_shows_when_it_is_slower_than_the_step(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, "resnet50", "data=8", 64);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32};
    struct pdl_projection x = project(p, &sys, &opt), y;
    double bytes = 64.0 * 3 * 224 * 224 * 4;

    (void)st;
    assert_true(x.io_s == 0);
    sys.storage.bytes_per_s = 10 * bytes / x.step_s;
    assert_true(project(p, &sys, &opt).io_s == 0);
    sys.storage.bytes_per_s = bytes / (3 * x.step_s);
    y = project(p, &sys, &opt);
    assert_true(fabs(y.step_s / (3 * x.step_s) - 1) < .01); /* and labels */
    assert_true(fabs(y.step_s - x.step_s - y.io_s) < 1e-12);
    opt.parameters = PDL_IDEAL;
    assert_true(project(p, &sys, &opt).io_s == 0);
    pdl_arena_destroy(a);
}

/* A part of the step with an uncertainty of its own: without it intervals of
 * filter and channel are far too narrow. */
static void layer_collectives_that_leave_nodes_are_told_apart(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = chainer();
    struct pdl_projection x =
        project(lower(a, "resnet50", "filter=4", 64), &sys, &opt);
    struct pdl_projection y =
        project(lower(a, "resnet50", "filter=8", 64), &sys, &opt);

    (void)st;
    assert_true(x.layer_comm_s > 0 && x.layer_between_s == 0);
    assert_true(y.layer_between_s > .9 * y.layer_comm_s);
    pdl_arena_destroy(a);
}

/* Other networks than the two measured: what no parameter can excuse. Weak
 * scaling never gets faster; no more FLOPs than the peak; gradients take at
 * least their bytes over all of a node's adapters; log files on the shared disk,
 * which take most of a step of many layers on 1024 PEs, not nearly all of it. */
static void other_networks_stay_within_what_is_possible(void **st)
{
    static const struct {
        const char *model;
        int64_t batch; /* of a data rank */
        double weights;
    } nets[] = {
        {"alexnet", 64, 61.1e6},     {"resnet152:stride=1x1", 32, 60.2e6},
        {"densenet121", 32, 7.98e6}, {"mobilenet-v2", 32, 3.5e6},
        {"vgg19", 16, 143.7e6},      {"cosmoflow:size=128", 4, 0},
    };
    static const struct {
        const char *more;
        int model_ranks;
    } kinds[] = {
        {"", 1}, {",filter=4", 4}, {",channel=4", 4}, {",spatial=4", 4}};

    (void)st;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            double before = 0;

            for (int p = 16; p <= 1024; p *= 4) {
                pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
                struct pdl_system sys = open_system(a, "abci-v100");
                struct pdl_oracle_options opt = chainer();
                int data = p / kinds[k].model_ranks;
                char text[64];
                struct pdl_projection x;
                double adapters = 25e9, bytes;

                snprintf(text, sizeof text, "data=%d%s", data, kinds[k].more);
                x = project(lower(a, nets[i].model, text, nets[i].batch * data),
                            &sys, &opt);
                pdl_interval(
                    lower(a, nets[i].model, text, nets[i].batch * data), &sys,
                    &opt, &x);
                bytes = 4 * nets[i].weights / kinds[k].model_ranks;
                if (!(x.step_s >= before && x.mfu > 0 && x.mfu < 1 &&
                      x.low_s < x.step_s && x.step_s < x.high_s &&
                      x.high_s < 2.5 * x.low_s &&
                      x.gradient_comm_s >= 1.8 * bytes / adapters &&
                      x.io_s < .9 * x.step_s))
                    fail_msg("%s %s: %g s after %g, of it files %g",
                             nets[i].model, text, x.step_s, before, x.io_s);
                before = x.step_s;
                pdl_arena_destroy(a);
            }
        }
}

static void bad_runs_are_refused(void **st)
{
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"[]", "no list of \"runs\""},
        {"{\"runs\":[1]}", "expected a run"},
        {"{\"runs\":[{\"id\":\"a\"}]}", "a run needs"},
        {"{\"runs\":[{\"id\":\"a\",\"model\":\"m\",\"strategy\":\"data=1\","
         "\"batch\":0,\"measured\":{\"step_s\":1}}]}",
         "batch"},
        {"{\"runs\":[{\"id\":\"a\",\"model\":\"m\",\"strategy\":\"data=1\","
         "\"batch\":1,\"measured\":{\"step_s\":\"x\"}}]}",
         "step_s"},
    };
    struct pdl_row_filter all = {.n = 0};

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in = {rows[i].json, strlen(rows[i].json)};
        struct pdl_err err = {"", ""};
        const struct pdl_doc *doc;
        struct pdl_runs runs;

        assert_int_equal(pdl_doc_json(a, in, "x", &doc, &err), PDL_OK);
        assert_int_not_equal(pdl_runs_read(a, doc, &all, &runs, &err), PDL_OK);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("%s", err.msg);
        pdl_arena_destroy(a);
    }
}

#define RUN                                                             \
    "\"id\":\"a\",\"model\":\"m\",\"strategy\":\"data=1\",\"batch\":1," \
    "\"system\":\"dgx-gb200:nodes=1\","                                 \
    "\"options\":{\"framework\":\"pytorch\"}"

static struct pdl_run only_run(pdl_arena *a, const char *json)
{
    struct pdl_row_filter all = {.n = 0};
    struct pdl_err err = {"", ""};
    const struct pdl_doc *doc;
    struct pdl_runs runs;

    assert_int_equal(pdl_doc_json(a, (struct pdl_bytes){json, strlen(json)},
                                  "x", &doc, &err),
                     PDL_OK);
    if (pdl_runs_read(a, doc, &all, &runs, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(runs.n, 1);
    return runs.run[0];
}

/* A flag says what stands for what, and is believed where there is such a
 * framework or PE. */
static void runs_are_of_what_their_flags_name(void **st)
{
    static const struct {
        const char *flag, *framework, *system;
    } rows[] = {
        {"framework nanotron: pytorch is the nearest", "nanotron",
         "dgx-gb200:nodes=1"},
        {"framework nobodys: pytorch is the nearest", "pytorch",
         "dgx-gb200:nodes=1"},
        {"system-missing: GB300, written as GB200", "pytorch",
         "dgx-gb200:nodes=1,pe=gb300"},
        {"system-missing: XY1, written as GB200", "pytorch",
         "dgx-gb200:nodes=1"},
        {"system-missing: GB300", "pytorch", "dgx-gb200:nodes=1"},
    };

    (void)st;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_run r = only_run(
            a, pdl_arena_printf(a,
                                "{\"runs\":[{" RUN ",\"flags\":[\"x\",\"%s\"],"
                                "\"measured\":{\"step_s\":1}}]}",
                                rows[i].flag));

        assert_string_equal(r.framework, rows[i].framework);
        assert_string_equal(r.system, rows[i].system);
        assert_false(r.tried);
        pdl_arena_destroy(a);
    }
}

/* A run that did not fit has no step, and is a measurement. */
static void a_verdict_on_memory_is_a_measurement(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_run out =
        only_run(a, "{\"runs\":[{" RUN ",\"measured\":{\"fits\":false}}]}");
    struct pdl_run ran =
        only_run(a, "{\"runs\":[{" RUN ",\"measured\":{\"fits\":true,"
                    "\"resident_bytes\":3,\"stage0_reserved_bytes\":4}}]}");

    (void)st;
    assert_true(out.tried && !out.fits && out.step_s == 0);
    assert_true(ran.tried && ran.fits && ran.resident_bytes == 3 &&
                ran.stage0_reserved_bytes == 4);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            an_interval_holds_the_step_and_grows_with_what_is_unknown),
        cmocka_unit_test(congestion_stretches_the_interval),
        cmocka_unit_test(every_effect_changes_some_step),
        cmocka_unit_test(an_unknown_effect_is_refused_with_a_hint),
        cmocka_unit_test(what_the_device_computes_hides_files_that_are_opened),
        cmocka_unit_test(contention_follows_from_the_mesh),
        cmocka_unit_test(pairs_are_ranked_by_samples_per_second),
        cmocka_unit_test(reading_samples_shows_when_it_is_slower_than_the_step),
        cmocka_unit_test(layer_collectives_that_leave_nodes_are_told_apart),
        cmocka_unit_test(other_networks_stay_within_what_is_possible),
        cmocka_unit_test(bad_runs_are_refused),
        cmocka_unit_test(runs_are_of_what_their_flags_name),
        cmocka_unit_test(a_verdict_on_memory_is_a_measurement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
