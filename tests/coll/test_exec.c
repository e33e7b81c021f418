/* Every algorithm computes the right numbers on real buffers, whatever order
 * its steps take. */
#include "coll_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void every_algorithm_computes_the_right_numbers(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 20, 32};

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            struct pdl_coll_job job;
            struct pdl_err err = {"", ""};

            for (int more = 0; more < 2; more++) {
                if (pdl_coll_job_make(alg->collective->name, alg->name,
                                      sizes[k], sizes[k] * 12 + more, 4, &job,
                                      &err) != PDL_OK)
                    continue;
                for (uint64_t seed = 1; seed <= 3; seed++)
                    if (!runs_right(&job, seed, &err))
                        fail_msg("%s/%s on %d ranks, seed %d: %s",
                                 alg->collective->name, alg->name, sizes[k],
                                 (int)seed, err.msg);
            }
        }
}

static void floats_are_added_too(void **state)
{
    struct pdl_coll_job job;
    double data[3][4];
    void *bufs[3];

    (void)state;
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 4; i++)
            data[r][i] = r + i / 8.0;
        bufs[r] = data[r];
    }
    assert_int_equal(
        pdl_coll_job_make("allreduce", "ring", 3, 4, 8, &job, NULL), PDL_OK);
    assert_int_equal(pdl_coll_exec(&job, PDL_COLL_FLOAT64, bufs, 7, NULL),
                     PDL_OK);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 4; i++)
            assert_true(data[r][i] == 3 + 3 * i / 8.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_computes_the_right_numbers),
        cmocka_unit_test(floats_are_added_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
