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
    struct pdl_shape s = {.kind = PDL_SHAPE_MATMUL,
                          .precision = PDL_PREC_BF16,
                          .n = 4096,
                          .c = 4096,
                          .f = 4096};
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
    for (int i = 0; pdl_pe_builtin(i); i++)
        for (int k = PDL_SHAPE_STREAM; k <= PDL_SHAPE_LAYER_NORM; k++)
            for (int v = 0; v < 12 * 64; v++) { /* 8 n, 8 c, 12 others */
                int64_t n = INT64_C(1) << v / 12 % 8;
                int64_t c = INT64_C(8) << v / 96 % 8, rows = 14;
                struct pdl_shape s, more;
                struct pdl_pe pe;
                double t, twice;

                assert_int_equal(
                    pdl_pe_open(a, pdl_pe_builtin(i)->name, &pe, NULL), PDL_OK);
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
    assert_true(cases > 30000);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
