/* Traces of PyTorch's profiler: kernels by what they do, exposed network time,
 * idle time; a real trace of an H200 against sums made by another program. */
#include "paradl/oracle.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static void near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within))
        fail_msg("%.17g is not %.17g", a, b);
}

#define REAL PDL_SOURCE_DIR "/tests/data/oracle/kineto_gpt.json.gz"

static enum pdl_status read_text(const char *text, struct pdl_kineto *k,
                                 struct pdl_err *err)
{
    struct pdl_bytes in = {text, strlen(text)};

    return pdl_kineto_bytes(in, "t.json", k, err);
}

static const struct pdl_kineto_class *find(const struct pdl_kineto *k,
                                           const char *name)
{
    for (int i = 0; i < k->nclasses; i++)
        if (strcmp(k->of[i].name, name) == 0)
            return &k->of[i];
    fail_msg("no class %s", name);
    return NULL;
}

/* Two steps of 100 us. A product for 40 us each, an allreduce that starts
 * 10 us before the end of the first and takes 30: 20 us are exposed. */
static const char two_steps[] =
    "{\"schemaVersion\": 1, \"traceEvents\": ["
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": "
    "\"ProfilerStep#3\", \"pid\": 9, \"ts\": 0, \"dur\": 100},"
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": "
    "\"ProfilerStep#4\", \"pid\": 9, \"ts\": 100, \"dur\": 100},"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"nvjet_tst\", \"pid\": "
    "0, \"ts\": 5.0, \"dur\": 40, \"args\": {\"stream\": [7, {}]}},"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"nvjet_tst\", \"pid\": "
    "0, \"ts\": 105, \"dur\": 40},"
    "{\"dur\": 30, \"ts\": 35, \"pid\": 0, \"name\": "
    "\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\", \"cat\": \"kernel\", "
    "\"ph\": \"X\"},"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 1, "
    "\"ts\": 0, \"dur\": 1000},"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 9, "
    "\"ts\": 0, \"dur\": 99},"
    "{\"ph\": \"f\", \"id\": 3, \"cat\": \"ac2g\", \"ts\": 5}]}";

static void network_time_is_exposed_where_nothing_else_runs(void **state)
{
    struct pdl_kineto k;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(read_text(two_steps, &k, &err), PDL_OK);
    assert_int_equal(k.events, 8);
    assert_int_equal(k.kernels, 3); /* not the other device's */
    assert_int_equal(k.steps, 2);
    assert_true(k.marked);
    near(k.step_s, 100e-6, 1e-12);
    near(k.phase_s[PDL_KINETO_COMPUTE], 40e-6, 1e-12);
    near(k.phase_s[PDL_KINETO_COLLECTIVE], 15e-6, 1e-12);
    near(k.exposed_s, 10e-6, 1e-12);
    near(k.idle_s, 50e-6, 1e-12);
}

static void a_real_trace_gives_the_sums_of_another_program(void **state)
{
    struct pdl_kineto k;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(pdl_kineto_read(REAL, &k, &err), PDL_OK);
    assert_int_equal(k.events, 472);
    assert_int_equal(k.kernels, 430);
    assert_int_equal(k.steps, 2);
    near(k.step_s, 6778.9015e-6, 1e-12);
    near(k.idle_s, 4488.078e-6, 1e-8);
    assert_int_equal(find(&k, "matrix product")->calls, 102);
    near(find(&k, "matrix product")->seconds, 744.4835e-6, 1e-12);
    /* hardly anything is unknown */
    assert_true(find(&k, "other")->seconds < .01 * (k.step_s - k.idle_s));
}

static void kernels_are_told_apart_by_name(void **state)
{
    static const struct {
        const char *kernel, *kind;
    } cases[] = {
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce-scatter"},
        {"ncclKernel_AllGather_RING_LL_Sum_int8_t", "allgather"},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)",
         "send and receive"},
        {"ncclDevKernel_Broadcast_RING_LL", "other collectives"},
        {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f", "matrix product"},
        {"flash_fwd_kernel", "attention"},
        {"sm80_xmma_dgrad_implicit_gemm_tf32f32", "convolution"},
        {"void multi_tensor_apply_kernel<AdamFunctor>", "update"},
        {"void cudnn::bn_fw_tr_1C11_kernel_NCHW", "normalisation"},
        {"something_new", "other"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_kineto k;
        struct pdl_err err = {"", ""};
        struct pdl_buf b;

        pdl_buf_init(&b);
        pdl_printf(&b.sink,
                   "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", "
                   "\"name\": \"%s\", \"ts\": 1, \"dur\": 2}]}",
                   cases[i].kernel);
        assert_int_equal(read_text(b.text, &k, &err), PDL_OK);
        pdl_buf_free(&b);
        if (find(&k, cases[i].kind)->calls != 1)
            fail_msg("%s is no %s", cases[i].kernel, cases[i].kind);
        assert_false(k.marked);
        near(k.step_s, 2e-6, 1e-15);
    }
}

/* As PyTorch without Kineto writes it: a list, no categories. Two steps of 50 us
 * in 110; another thread exchanges for 20, of which 12 are beside a product. */
static const char of_host[] =
    "[{\"name\": \"aten::linear\", \"ph\": \"X\", \"ts\": 0, \"dur\": 30, "
    "\"tid\": 1, \"pid\": \"CPU functions\", \"args\": {}},"
    "{\"name\": \"aten::t\", \"ph\": \"X\", \"ts\": 0, \"dur\": 2, \"tid\": 1},"
    "{\"name\": \"aten::addmm\", \"ph\": \"X\", \"ts\": 2, \"dur\": 28, "
    "\"tid\": 1},"
    "{\"name\": \"gloo:all_reduce\", \"ph\": \"X\", \"ts\": 18, \"dur\": 20, "
    "\"tid\": 2},"
    "{\"name\": \"Optimizer.step#SGD.step\", \"ph\": \"X\", \"ts\": 40, "
    "\"dur\": 10, \"tid\": 1},"
    "{\"name\": \"aten::add_\", \"ph\": \"X\", \"ts\": 42, \"dur\": 5, "
    "\"tid\": 1},"
    "{\"name\": \"ProfilerStep#3\", \"ph\": \"X\", \"ts\": 0, \"dur\": 500, "
    "\"tid\": 1},"
    "{\"name\": \"aten::mm\", \"ph\": \"X\", \"ts\": 60, \"dur\": 30, \"tid\": "
    "1},"
    "{\"name\": \"Optimizer.step#SGD.step\", \"ph\": \"X\", \"ts\": 100, "
    "\"dur\": 10, \"tid\": 1}]";

static void operators_of_a_processor_stand_for_kernels(void **state)
{
    struct pdl_kineto k;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(read_text(of_host, &k, &err), PDL_OK);
    assert_int_equal(k.events, 9);
    assert_int_equal(k.steps, 2);
    assert_true(k.marked);
    near(k.step_s, 55e-6, 1e-12);
    near(find(&k, "matrix product")->seconds, 29e-6, 1e-12);
    assert_int_equal(find(&k, "matrix product")->calls, 2);
    near(find(&k, "other")->seconds, 1e-6, 1e-12);
    near(k.phase_s[PDL_KINETO_COMPUTE], 30e-6, 1e-12);
    near(k.phase_s[PDL_KINETO_UPDATE], 10e-6, 1e-12);
    near(k.phase_s[PDL_KINETO_COLLECTIVE], 10e-6, 1e-12);
    near(k.exposed_s, 4e-6, 1e-12);
    near(k.idle_s, 11e-6, 1e-12);
}

static void a_projection_stands_beside_it(void **state)
{
    struct pdl_projection x = {.forward_s = 1,
                               .backward_s = 2,
                               .recompute_s = .75,
                               .update_s = .5,
                               .gradient_comm_s = .25,
                               .exposed_comm_s = .125,
                               .bubble_s = 1,
                               .step_s = 5.375};
    struct pdl_kineto k = {.step_s = 5, .exposed_s = .5, .idle_s = 2};
    struct pdl_kineto_row row[PDL_KINETO_ROWS];
    int n = pdl_kineto_join(&k, &x, row);

    (void)state;
    k.phase_s[PDL_KINETO_COMPUTE] = 2;
    assert_in_range(n, 5, PDL_KINETO_ROWS);
    near(row[0].projected_s, 3.75, 0);
    /* what a step is made of adds up to it: busy rows are beside it */
    near(row[0].projected_s + row[1].projected_s + row[n - 3].projected_s +
             row[n - 2].projected_s,
         row[n - 1].projected_s, 1e-15);
    assert_string_equal(row[n - 1].name, "step");
    near(row[n - 1].measured_s, 5, 0);
    near(row[n - 1].projected_s, 5.375, 0);
}

static void what_is_no_trace_is_refused(void **state)
{
    static const struct {
        const char *text, *msg;
    } wrong[] = {
        {"3", "t.json:1:1: a trace is an object with traceEvents"},
        {"[3]", "t.json:1:2: an event is an object"},
        {"[]", "t.json: no kernel and no operator in 0 events"},
        {"{\"traceEvents\": 3}", "t.json:1:17: traceEvents is a list"},
        {"{\"traceEvents\": [3]}", "t.json:1:18: an event is an object"},
        {"{\"traceEvents\": [{\"ts\": []}]}",
         "t.json:1:25: an event's ts is text or a number"},
        {"{}", "t.json: no kernel and no operator in 0 events"},
        {"{\"traceEvents\": [", "t.json:1:17: the text ends early"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pdl_kineto k;
        struct pdl_err err = {"", ""};

        assert_int_equal(read_text(wrong[i].text, &k, &err), PDL_EPARSE);
        assert_string_equal(err.msg, wrong[i].msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_time_is_exposed_where_nothing_else_runs),
        cmocka_unit_test(a_real_trace_gives_the_sums_of_another_program),
        cmocka_unit_test(kernels_are_told_apart_by_name),
        cmocka_unit_test(operators_of_a_processor_stand_for_kernels),
        cmocka_unit_test(a_projection_stands_beside_it),
        cmocka_unit_test(what_is_no_trace_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
