/* Layer times: parameters fitted to VGG-16 predict ResNet-50, on the part of
 * the measurements kept here and on all of them where they are found; a fit
 * finds parameters it is told to forget; bad files are refused. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define PART    PDL_SOURCE_DIR "/tests/data/oracle/layers.json"
#define KERNELS PDL_SOURCE_DIR "/tests/data/oracle/kernels.json"
#define FULL    PDL_SOURCE_DIR "/../shared/data/h200/layers.json"

static const char *const keys[] = {"model", "op", NULL};

static bool load(pdl_arena *a, const char *path, const char *select,
                 struct pdl_layer_times *out)
{
    struct pdl_bytes in;
    struct pdl_row_filter s;
    struct pdl_err err = {"", ""};
    const struct pdl_doc *doc;

    if (pdl_file_read(a, path, 64 << 20, &in, &err) != PDL_OK)
        return false;
    assert_int_equal(pdl_doc_json(a, in, path, &doc, &err), PDL_OK);
    assert_int_equal(pdl_row_filter_parse(a, select, keys, &s, &err), PDL_OK);
    assert_int_equal(pdl_layers_read(a, doc, &s, out, &err), PDL_OK);
    return true;
}

static double cost(const struct pdl_system *sys, void *ctx)
{
    const struct pdl_layer_times *t = ctx;
    double sum = 0;

    for (int i = 0; i < t->n; i++)
        sum += fabs(log(pdl_layer_seconds(&sys->pe, &t->row[i]) /
                        t->row[i].measured_s));
    return sum / t->n;
}

static struct pdl_time_match match(pdl_arena *a, const struct pdl_system *sys,
                                   const struct pdl_layer_times *t)
{
    double *p = PDL_NEW(a, double, t->n), *m = PDL_NEW(a, double, t->n);
    struct pdl_time_match x;

    for (int i = 0; i < t->n; i++) {
        p[i] = pdl_layer_seconds(&sys->pe, &t->row[i]);
        m[i] = t->row[i].measured_s;
    }
    assert_int_equal(pdl_match_times(a, p, m, t->n, &x), PDL_OK);
    return x;
}

/* Forgets every parameter, fits to VGG-16, and looks at ResNet-50. */
static void fit_and_look(pdl_arena *a, const char *path, double most)
{
    const struct pdl_fit_param *param = pdl_fit_layer_param(0);
    struct pdl_layer_times vgg, resnet;
    struct pdl_fit_result r;
    struct pdl_system sys;
    struct pdl_err err;
    struct pdl_time_match x;
    int n = 0;

    assert_true(load(a, path, "model=vgg16", &vgg));
    assert_true(load(a, path, "model=resnet50", &resnet));
    assert_int_equal(pdl_system_open(a, "dgx-h200", &sys, &err), PDL_OK);
    for (; pdl_fit_layer_param(n); n++)
        *(double *)(void *)((char *)&sys + param[n].offset) = 0;
    assert_true(match(a, &sys, &resnet).median > most); /* can fail */
    pdl_fit_system(&sys, param, n, cost, &vgg, vgg.n, false, &r);
    assert_true(r.after < r.before / 2);
    x = match(a, &sys, &resnet);
    printf("%d rows not fitted: median |error| %.1f %%, bias %+.1f %%\n", x.n,
           100 * x.median, 100 * x.bias);
    assert_true(x.median <= most);
    assert_true(fabs(x.bias) <= .05);
}

static void vgg_predicts_resnet_on_the_part_kept_here(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    fit_and_look(a, PART, .15);
    pdl_arena_destroy(a);
}

static void vgg_predicts_resnet_on_all_measurements(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_layer_times t;

    (void)state;
    if (!load(a, FULL, "model=vgg16", &t)) {
        pdl_arena_destroy(a);
        printf("SKIPPED: no %s\n", FULL);
        skip();
    }
    fit_and_look(a, FULL, .15);
    pdl_arena_destroy(a);
}

static void the_library_has_the_fitted_values(void **state)
{
    static const struct {
        const char *select;
        double most;
    } rows[] = {
        {"model=vgg16", .12}, {"model=resnet50", .15}, {"op=gemm", .15},
        {"op=update", .15},   {"op=gelu", .15},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_layer_times t;
    struct pdl_system sys;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_system_open(a, "dgx-h200", &sys, &err), PDL_OK);
    for (int i = 0; i < 5; i++) {
        assert_true(load(a, PART, rows[i].select, &t));
        assert_true(match(a, &sys, &t).median <= rows[i].most);
    }
    pdl_arena_destroy(a);
}

/* Kernels alone: what the normalisation, streaming and attention parameters
 * were read from. */
static void kernels_alone_are_matched(void **state)
{
    static const struct {
        const char *op;
        double most;
    } rows[] = {{"batch_norm", .15},
                {"layer_norm", .12},
                {"relu", .15},
                {"add", .15},
                {"sdpa", .15}};
    static const double passes[][2] = {{1, 1}, {1, 1}, {2, 3}, {3, 0}, {1, 1}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_system_open(a, "dgx-h200", &sys, &err), PDL_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *select = pdl_arena_printf(a, "op=%s", rows[i].op);
        struct pdl_layer_times t;
        struct pdl_time_match x;
        double *p, *m;

        assert_true(load(a, KERNELS, select, &t));
        p = PDL_NEW(a, double, t.n);
        m = PDL_NEW(a, double, t.n);
        for (int k = 0; k < t.n; k++) {
            t.row[k].shape.bytes *=
                passes[i][t.row[k].shape.pass != PDL_FORWARD];
            p[k] = pdl_shape_seconds(&sys.pe, &t.row[k].shape);
            m[k] = t.row[k].measured_s;
        }
        assert_int_equal(pdl_match_times(a, p, m, t.n, &x), PDL_OK);
        printf("%s, %d kernels: median |error| %.1f %%, bias %+.1f %%\n",
               rows[i].op, t.n, 100 * x.median, 100 * x.bias);
        assert_true(x.median <= rows[i].most);
    }
    pdl_arena_destroy(a);
}

/* The bar of every operator: 15 % of error, 5 % of bias. */
static void every_operator_of_all_measurements_is_matched(void **state)
{
    static const char *const ops[] = {
        "conv", "gemm", "sdpa", "batch_norm", "layer_norm",
        "relu", "add",  "gelu", "update",     "launch"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_layer_times t;
    struct pdl_system sys;
    struct pdl_err err;

    (void)state;
    if (!load(a, FULL, NULL, &t)) {
        pdl_arena_destroy(a);
        printf("SKIPPED: no %s\n", FULL);
        skip();
    }
    assert_int_equal(pdl_system_open(a, "dgx-h200", &sys, &err), PDL_OK);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct pdl_time_match x;

        assert_true(load(a, FULL, pdl_arena_printf(a, "op=%s", ops[i]), &t));
        x = match(a, &sys, &t);
        printf("%-10s %4d times: median |error| %4.1f %%, bias %+.1f %%\n",
               ops[i], x.n, 100 * x.median, 100 * x.bias);
        assert_true(x.median <= .15);
        assert_true(fabs(x.bias) <= .05);
    }
    pdl_arena_destroy(a);
}

static void bad_records_are_refused(void **state)
{
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"{}", "no list of \"records\""},
        {"{\"records\":[1]}", "expected a record"},
        {"{\"records\":[{\"op\":\"cnv\"}]}", "unknown operator 'cnv'"},
        {"{\"records\":[{\"op\":\"conv\",\"n\":1,\"c\":6,\"f\":6,"
         "\"groups\":4}]}",
         "groups must divide"},
        {"{\"records\":[{\"op\":\"conv\",\"n\":1,\"c\":6,\"f\":6,"
         "\"d\":4,\"h\":4}]}",
         "no \"w\""},
        {"{\"records\":[{\"op\":\"batch_norm\",\"n\":1000000000,"
         "\"c\":6,\"h\":1000000000}]}",
         "more rows"},
        {"{\"records\":[{\"op\":\"conv\",\"n\":1}]}", "no \"c\""},
        {"{\"records\":[{\"op\":\"launch\",\"update_s\":0}]}", "above 0"},
        {"{\"records\":[{\"op\":\"launch\",\"update_s\":\"x\"}]}", "update_s"},
        {"{\"records\":[{\"op\":\"gemm\",\"m\":-1}]}", "m"},
    };
    struct pdl_row_filter all = {.n = 0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in = {rows[i].json, strlen(rows[i].json)};
        struct pdl_layer_times t;
        struct pdl_err err = {"", ""};
        const struct pdl_doc *doc;

        assert_int_equal(pdl_doc_json(a, in, "x", &doc, &err), PDL_OK);
        assert_int_not_equal(pdl_layers_read(a, doc, &all, &t, &err), PDL_OK);
        if (!strstr(err.msg, rows[i].message))
            printf("%s\n", err.msg);
        assert_non_null(strstr(err.msg, rows[i].message));
        pdl_arena_destroy(a);
    }
}

static void select_is_and_of_ors_of_globs(void **state)
{
    static const struct {
        const char *select, *model, *op;
        bool has;
    } rows[] = {
        {NULL, "vgg16", "conv", true},
        {"model=vgg*", "vgg16:input=226", "conv", true},
        {"model=vgg16", "vgg16:input=226", "conv", false},
        {"model=a|vgg16,op=conv", "vgg16", "conv", true},
        {"model=a|vgg16,op=gemm", "vgg16", "conv", false},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_row_filter s;
    struct pdl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(
            pdl_row_filter_parse(a, rows[i].select, keys, &s, &err), PDL_OK);
        assert_int_equal(pdl_row_filter_has(&s, "model", rows[i].model) &&
                             pdl_row_filter_has(&s, "op", rows[i].op),
                         rows[i].has);
    }
    assert_int_equal(pdl_row_filter_parse(a, "modle=x", keys, &s, &err),
                     PDL_EINVAL);
    assert_int_equal(pdl_row_filter_parse(a, "model", keys, &s, &err),
                     PDL_EINVAL);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg_predicts_resnet_on_the_part_kept_here),
        cmocka_unit_test(vgg_predicts_resnet_on_all_measurements),
        cmocka_unit_test(the_library_has_the_fitted_values),
        cmocka_unit_test(kernels_alone_are_matched),
        cmocka_unit_test(every_operator_of_all_measurements_is_matched),
        cmocka_unit_test(bad_records_are_refused),
        cmocka_unit_test(select_is_and_of_ors_of_globs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
