/* Kernels by their shape: what a split does to them, and that no shape, not
 * even a hostile one, gives nonsense. */
#include "paradl/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

enum { NCASES = 375 }; /* 5 values of n, c, f each, three passes */
static const enum pdl_pass passes[] = {PDL_FORWARD, PDL_BACKWARD_DATA,
                                       PDL_BACKWARD_WEIGHTS};

static struct pdl_pe h200(pdl_arena *a)
{
    struct pdl_pe pe;
    struct pdl_err err;

    assert_int_equal(pdl_pe_open(a, "h200", &pe, &err), PDL_OK);
    return pe;
}

static struct pdl_shape conv(int64_t n, int64_t c, int64_t f, int64_t h,
                             int64_t w)
{
    return (struct pdl_shape){.kind = PDL_SHAPE_CONV,
                              .precision = PDL_PREC_BF16,
                              .n = n,
                              .c = c,
                              .f = f,
                              .groups = 1,
                              .nspatial = 2,
                              .in = {h, w},
                              .out = {h, w},
                              .kernel = {3, 3},
                              .stride = {1, 1}};
}

static struct pdl_shape product(enum pdl_precision precision, int64_t n,
                                int64_t c, int64_t f)
{
    return (struct pdl_shape){.kind = PDL_SHAPE_MATMUL,
                              .precision = precision,
                              .n = n,
                              .c = c,
                              .f = f};
}

static double all_passes(const struct pdl_pe *pe, struct pdl_shape s)
{
    double t = 0;

    for (int i = 0; i < 3; i++) {
        s.pass = passes[i];
        t += pdl_shape_seconds(pe, &s);
    }
    return t;
}

/* VGG-16's conv6 with the calls around its kernels, as an H200 measured it. */
static void split_convolutions_take_what_was_measured(void **state)
{
    static const struct {
        int64_t n, f, h;
        double measured_s;
    } rows[] = {
        {32, 256, 56, 538e-6}, /* whole */
        {4, 256, 56, 149e-6},  /* data=8 */
        {32, 32, 56, 229e-6},  /* filter=8 */
        {32, 256, 9, 162e-6},  /* spatial=8, with the halo */
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    double calls = pe.kernels.call_conv_s + pe.kernels.call_conv_data_s +
                   pe.kernels.call_conv_weights_s;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pdl_shape s = conv(rows[i].n, 256, rows[i].f, rows[i].h, 56);
        double t = all_passes(&pe, s) + calls;

        assert_true(fabs(t / rows[i].measured_s - 1) < .1);
    }
    pdl_arena_destroy(a);
}

static void splitting_filters_further_stops_helping(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a), ideal = pe;
    double whole = all_passes(&pe, conv(32, 256, 256, 56, 56));
    double eighth = all_passes(&pe, conv(32, 256, 32, 56, 56));
    double least = all_passes(&pe, conv(32, 256, 8, 56, 56));

    (void)state;
    assert_true(eighth > whole / 6);
    assert_true(least > eighth * .9);
    /* the fixed time of a tile is one of the reasons, not the only one */
    ideal.kernels.conv_tile_s = 1e-12;
    assert_true(all_passes(&ideal, conv(4, 256, 256, 56, 56)) <
                all_passes(&pe, conv(4, 256, 256, 56, 56)));
    pdl_arena_destroy(a);
}

static void more_work_never_takes_less_time(void **state)
{
    static const int64_t widths[] = {1, 3, 16, 64, 100, 512};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);

    (void)state;
    for (int i = 0; i < 6; i++)
        for (int p = 0; p < 3; p++)
            for (int64_t n = 1; n < 512; n *= 2) {
                struct pdl_shape s = conv(n, 64, widths[i], 28, 28);
                struct pdl_shape twice = conv(2 * n, 64, widths[i], 28, 28);

                s.pass = twice.pass = passes[p];
                assert_true(pdl_shape_seconds(&pe, &twice) >=
                            pdl_shape_seconds(&pe, &s) * (1 - 1e-12));
            }
    pdl_arena_destroy(a);
}

static void unaligned_products_are_slow(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    struct pdl_shape s = product(PDL_PREC_BF16, 4096, 4096, 4096);
    double aligned = pdl_shape_seconds(&pe, &s);

    (void)state;
    assert_true(fabs(aligned / 202e-6 - 1) < .1); /* measured: 185 to 204 us */
    s.f = 4100;
    assert_true(fabs(pdl_shape_seconds(&pe, &s) / 540e-6 - 1) < .15);
    s.f = 4097;
    assert_true(fabs(pdl_shape_seconds(&pe, &s) / 1102e-6 - 1) < .15);
    pdl_arena_destroy(a);
}

static void attention_takes_what_was_measured(void **state)
{
    static const struct {
        int64_t n, heads, t, d;
        double forward_s, backward_s;
    } rows[] = {
        {8, 16, 1024, 128, 86e-6, 288e-6},
        {4, 16, 2048, 64, 101e-6, 294e-6},
        {1, 16, 8192, 128, 475e-6, 1335e-6},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pdl_shape s = {.kind = PDL_SHAPE_ATTENTION,
                              .precision = PDL_PREC_BF16,
                              .n = rows[i].n,
                              .c = rows[i].d,
                              .groups = rows[i].heads,
                              .in = {rows[i].t},
                              .out = {rows[i].t},
                              .causal = true};

        assert_true(fabs(pdl_shape_seconds(&pe, &s) / rows[i].forward_s - 1) <
                    .15);
        s.pass = PDL_BACKWARD_DATA;
        assert_true(fabs(pdl_shape_seconds(&pe, &s) / rows[i].backward_s - 1) <
                    .15);
    }
    pdl_arena_destroy(a);
}

static void hostile_shapes_give_a_number_or_infinity(void **state)
{
    static const int64_t v[] = {0, 1, 7, 4096, INT64_MAX};
    static const struct pdl_pe nothing = {.name = "nothing"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);

    (void)state;
    for (int kind = 0; kind <= PDL_SHAPE_LAYER_NORM; kind++)
        for (int i = 0; i < NCASES; i++) {
            struct pdl_shape s = conv(v[i % 5], v[i / 5 % 5], v[i / 25 % 5],
                                      v[i % 5], v[i / 5 % 5]);
            double t;

            s.kind = (enum pdl_shape_kind)kind;
            s.groups = v[i / 25 % 5];
            s.pass = passes[i / 125];
            t = pdl_shape_seconds(&pe, &s);
            assert_true(t >= 0); /* so it is a number */
            t = pdl_shape_seconds(&nothing, &s);
            assert_true(!(t < 0)); /* not a number at most; no crash */
        }
    pdl_arena_destroy(a);
}

/* Thin products waste a GPU's tiles, not a core's registers. */
static void cores_keep_their_rate_for_thin_products(void **state)
{
    struct pdl_pe pe = {.name = "cpu",
                        .arch = "cpu",
                        .memory_bytes_per_s = 1e12,
                        .launch_s = 1e-9,
                        .units = 1};
    struct pdl_shape s = {.kind = PDL_SHAPE_MATMUL,
                          .precision = PDL_PREC_FP32,
                          .n = 8,
                          .c = 1000,
                          .f = 10,
                          .groups = 1};
    double flops = 2.0 * 8 * 1000 * 10, core, tiled;

    (void)state;
    pe.peak_flop_per_s[PDL_PREC_FP32] = 1e8; /* slow: nothing else shows */
    pe.matmul_flop_per_s[PDL_PREC_FP32] = 1e8;
    core = pdl_shape_seconds(&pe, &s);
    pe.arch = "volta";
    tiled = pdl_shape_seconds(&pe, &s);
    assert_true(fabs(core - flops / 1e8) < .01 * core);
    assert_true(tiled > 10 * core);
}

/* Rows that nobody measured: every PE of the library, every kind of kernel,
 * every pass and precision, whole and split, from tiny to large. */
static struct pdl_shape any_shape(enum pdl_shape_kind kind, int64_t n,
                                  int64_t c, int64_t rows)
{
    struct pdl_shape s = conv(n, c, c, rows, rows);

    s.kind = kind;
    s.bytes = (double)(n * c * rows * rows) * 2;
    if (kind == PDL_SHAPE_ATTENTION) {
        s.groups = c;
        s.c = 64;
        s.in[0] = s.out[0] = rows * rows;
    }
    if (kind == PDL_SHAPE_LAYER_NORM)
        s.n = n * rows * rows;
    return s;
}

static void twice_the_work_never_takes_less_anywhere(void **state)
{
    static const enum pdl_precision precisions[] = {
        PDL_PREC_FP32, PDL_PREC_TF32, PDL_PREC_FP16, PDL_PREC_BF16};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int cases = 0;

    (void)state;
    for (int i = 0; pdl_pe_builtin(i); i++) {
        struct pdl_pe pe;

        assert_int_equal(pdl_pe_open(a, pdl_pe_builtin(i)->name, &pe, NULL),
                         PDL_OK);
        for (int k = PDL_SHAPE_STREAM; k <= PDL_SHAPE_LAYER_NORM; k++)
            for (int v = 0; v < 12 * 64; v++) { /* 8 n, 8 c, 12 others */
                int64_t n = INT64_C(1) << v / 12 % 8;
                int64_t c = INT64_C(8) << v / 96 % 8, rows = 14;
                struct pdl_shape s, more;
                double t, twice;

                s = any_shape((enum pdl_shape_kind)k, n, c, rows);
                s.pass = passes[v % 3];
                s.precision = precisions[v / 3 % 4];
                if (!(pe.peak_flop_per_s[s.precision] > 0 ||
                      pe.peak_flop_per_s[PDL_PREC_FP32] > 0))
                    continue; /* it has no such arithmetic */
                more = any_shape((enum pdl_shape_kind)k, 2 * n, c, rows);
                more.pass = s.pass;
                more.precision = s.precision;
                t = pdl_shape_seconds(&pe, &s);
                twice = pdl_shape_seconds(&pe, &more);
                if (!(isfinite(t) && t > 0 && isfinite(twice)) ||
                    twice < t * (1 - 1e-9))
                    fail_msg("%s, kind %d, pass %d, precision %d, n %lld, c "
                             "%lld: %g, twice %g",
                             pdl_pe_builtin(i)->name, k, s.pass, s.precision,
                             (long long)n, (long long)c, t, twice);
                cases++;
            }
    }
    assert_true(cases > 30000);
    pdl_arena_destroy(a);
}

/* Layers of MobileNetV2 and ConvNeXt, timed alone on an H200 less the call. */
static void depthwise_layers_take_what_was_measured(void **state)
{
    static const struct {
        enum pdl_precision precision;
        enum pdl_pass pass;
        int64_t n, c, h, k;
        double seconds;
    } rows[] = {
        {PDL_PREC_BF16, PDL_FORWARD, 256, 144, 56, 3, 147e-6},
        {PDL_PREC_BF16, PDL_BACKWARD_DATA, 256, 144, 56, 3, 381e-6},
        {PDL_PREC_BF16, PDL_BACKWARD_WEIGHTS, 256, 144, 56, 3, 235e-6},
        {PDL_PREC_TF32, PDL_FORWARD, 256, 144, 56, 3, 233e-6},
        {PDL_PREC_TF32, PDL_BACKWARD_DATA, 256, 144, 56, 3, 370e-6},
        {PDL_PREC_BF16, PDL_FORWARD, 128, 96, 56, 7, 268e-6},
        {PDL_PREC_BF16, PDL_BACKWARD_DATA, 128, 96, 56, 7, 650e-6},
        {PDL_PREC_TF32, PDL_BACKWARD_WEIGHTS, 128, 96, 56, 7, 6230e-6},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_shape s =
            conv(rows[i].n, rows[i].c, rows[i].c, rows[i].h, rows[i].h);
        double t;

        s.precision = rows[i].precision;
        s.pass = rows[i].pass;
        s.groups = s.c;
        s.kernel[0] = s.kernel[1] = rows[i].k;
        t = pdl_shape_seconds(&pe, &s);
        if (fabs(t / rows[i].seconds - 1) > .2)
            fail_msg("row %zu: %g, measured %g", i, t, rows[i].seconds);
    }
    pdl_arena_destroy(a);
}

/* A group of 4 channels costs what one of 64 (16 bits) does. */
static void channels_of_a_group_are_taken_together(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    struct pdl_shape s = conv(128, 128, 128, 56, 56);
    double few, more;

    (void)state;
    s.groups = 32;
    few = pdl_shape_seconds(&pe, &s);
    s.groups = 4;
    more = pdl_shape_seconds(&pe, &s);
    assert_true(fabs(few / more - 1) < 1e-9);
    assert_true(fabs(few / 181e-6 - 1) < .1); /* ResNeXt-50, profiled */
    pdl_arena_destroy(a);
}

/* Sums over rows, not bytes: a third of the channels takes as long. */
static void batch_norms_of_few_channels_leave_units_idle(void **state)
{
    static const struct {
        int64_t c, h;
        double seconds; /* forward, MobileNetV2 of 256 images, profiled */
    } rows[] = {{32, 112, 1111e-6}, {96, 112, 1268e-6}, {144, 56, 610e-6},
                {576, 14, 139e-6},  {384, 14, 87e-6},   {16, 112, 560e-6}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_shape s = {.kind = PDL_SHAPE_BATCH_NORM,
                              .precision = PDL_PREC_BF16,
                              .n = 256 * rows[i].h * rows[i].h,
                              .c = rows[i].c};
        double t;

        s.bytes = 2. * (double)s.n * (double)s.c;
        t = pdl_shape_seconds(&pe, &s);
        if (fabs(t / rows[i].seconds - 1) > .2)
            fail_msg("%d channels: %g, measured %g", (int)rows[i].c, t,
                     rows[i].seconds);
    }
    pdl_arena_destroy(a);
}

/* Tiles of 64: ViT's 197 tokens cost what 256 do; without FlashAttention. */
static void attention_in_32_bits_is_in_whole_tiles(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    struct pdl_shape s = {.kind = PDL_SHAPE_ATTENTION,
                          .precision = PDL_PREC_TF32,
                          .n = 64,
                          .groups = 12,
                          .c = 64,
                          .in = {197},
                          .out = {197}};
    double vit = pdl_shape_seconds(&pe, &s), back;

    (void)state;
    s.pass = PDL_BACKWARD_DATA;
    back = pdl_shape_seconds(&pe, &s);
    assert_true(fabs(vit / 394e-6 - 1) < .05);
    assert_true(fabs(back / 901e-6 - 1) < .05);
    s.in[0] = s.out[0] = 256;
    assert_true(fabs(pdl_shape_seconds(&pe, &s) / back - 1) < 1e-9);
    pdl_arena_destroy(a);
}

/* BERT's products in TF32, 16384 tokens, profiled. */
static void tf32_products_turn_their_operands(void **state)
{
    static const double seconds[] = {206e-6, 236e-6, 362e-6};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    struct pdl_shape s = product(PDL_PREC_TF32, 16384, 768, 3072);

    (void)state;
    for (int i = 0; i < 3; i++) {
        s.pass = passes[i];
        if (fabs(pdl_shape_seconds(&pe, &s) / seconds[i] - 1) > .15)
            fail_msg("pass %d: %g, measured %g", i, pdl_shape_seconds(&pe, &s),
                     seconds[i]);
    }
    pdl_arena_destroy(a);
}

/* Channels first: passes beside the kernel, which images do not have. */
static void volumes_are_turned_for_matrix_units(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_pe pe = h200(a);
    struct pdl_shape image = conv(2, 64, 64, 48 * 48, 48), volume = image;

    (void)state;
    volume.nspatial = 3;
    volume.in[0] = volume.out[0] = 48;
    volume.in[1] = volume.out[1] = 48;
    volume.in[2] = volume.out[2] = 48;
    volume.kernel[2] = volume.stride[2] = 1;
    assert_true(pdl_shape_seconds(&pe, &volume) >
                pdl_shape_seconds(&pe, &image) + 50e-6);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depthwise_layers_take_what_was_measured),
        cmocka_unit_test(channels_of_a_group_are_taken_together),
        cmocka_unit_test(batch_norms_of_few_channels_leave_units_idle),
        cmocka_unit_test(attention_in_32_bits_is_in_whole_tiles),
        cmocka_unit_test(tf32_products_turn_their_operands),
        cmocka_unit_test(volumes_are_turned_for_matrix_units),
        cmocka_unit_test(twice_the_work_never_takes_less_anywhere),
        cmocka_unit_test(cores_keep_their_rate_for_thin_products),
        cmocka_unit_test(split_convolutions_take_what_was_measured),
        cmocka_unit_test(splitting_filters_further_stops_helping),
        cmocka_unit_test(more_work_never_takes_less_time),
        cmocka_unit_test(unaligned_products_are_slow),
        cmocka_unit_test(attention_takes_what_was_measured),
        cmocka_unit_test(hostile_shapes_give_a_number_or_infinity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
