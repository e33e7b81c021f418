/* Crops, flips and normalisation of samples against the plain ones. */
#include "datasets.h"

/* Crop and flip by hand, pixel by pixel, must be one of the possible ones. */
static void crops_and_flips_are_shifts_of_the_image(void **state)
{
    pdl_io *io = open_fixture(1);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {.pad = 2, .flip = true, .seed = 1};
    int64_t sample = 3, h = d->input.dim[1], w = d->input.dim[2];
    struct pdl_read r = {.samples = &sample,
                         .nsamples = 1,
                         .box = fx_all(&d->input),
                         .augment = &g};
    float plain[35], x[35];
    int seen[2][5][5] = {{{0}}}, kinds = 0;

    (void)state;
    input_of(io, 0, sample, plain);
    for (g.epoch = 0; g.epoch < 400; g.epoch++) {
        int fits = 0;

        assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
        for (int k = 0; k < 50; k++) {
            int64_t down = k / 10 - 2, right = k / 2 % 5 - 2;
            bool same = true;

            for (int64_t i = 0; i < h * w && same; i++) {
                int64_t y = i / w + down;
                int64_t c = (k % 2 ? w - 1 - i % w : i % w) + right;
                bool in = y >= 0 && y < h && c >= 0 && c < w;

                same = x[i] == (in ? plain[y * w + c] : 0);
            }
            fits += same;
            seen[k % 2][down + 2][right + 2] += same;
        }
        assert_int_equal(fits, 1);
    }
    for (int k = 0; k < 50; k++)
        kinds += seen[k % 2][k / 10][k / 2 % 5] > 0;
    assert_int_equal(kinds, 50); /* of 400 draws, all occur */
    pdl_io_close(io);
}

static void augmentation_does_not_depend_on_the_batch(void **state)
{
    pdl_io *io = open_fixture(2);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {.pad = 4, .flip = true, .seed = 5, .epoch = 2};
    int64_t samples[6] = {4, 1, 9, 0, 11, 3};
    struct pdl_read r = {.samples = samples,
                         .nsamples = 6,
                         .box = fx_all(&d->input),
                         .augment = &g};
    static float all[6 * 3072], one[3072], other[3072];

    (void)state;
    assert_int_equal(pdl_io_input(io, &r, all, NULL), PDL_OK);
    for (int i = 0; i < 6; i++) {
        r.samples = &samples[i];
        r.nsamples = 1;
        assert_int_equal(pdl_io_input(io, &r, one, NULL), PDL_OK);
        assert_memory_equal(one, all + (ptrdiff_t)i * 3072, sizeof one);
    }
    g.epoch++;
    assert_int_equal(pdl_io_input(io, &r, other, NULL), PDL_OK);
    assert_memory_not_equal(one, other, sizeof one);
    pdl_io_close(io);
}

static void normalised_samples_have_mean_0_and_deviation_1(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_augment g = {0};
    double sum = 0, square = 0;

    (void)state;
    assert_int_equal(pdl_io_moments(io, 0, 1 << 20, &g, NULL), PDL_OK);
    for (int64_t s = 0; s < d->split[0].samples; s++) {
        struct pdl_read r = {.samples = &s,
                             .nsamples = 1,
                             .box = fx_all(&d->input),
                             .augment = &g};
        float x[64];

        assert_int_equal(pdl_io_input(io, &r, x, NULL), PDL_OK);
        for (int e = 0; e < 64; e++) {
            sum += x[e];
            square += (double)x[e] * x[e];
        }
    }
    sum /= (double)d->split[0].samples * 64;
    square /= (double)d->split[0].samples * 64;
    assert_true(fabs(sum) < 1e-4 && fabs(square - 1) < 1e-4);
    pdl_io_close(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_and_flips_are_shifts_of_the_image),
        cmocka_unit_test(augmentation_does_not_depend_on_the_batch),
        cmocka_unit_test(normalised_samples_have_mean_0_and_deviation_1),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
