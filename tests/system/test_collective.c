/* Times of collectives between and beyond the measured ones. */
#include "paradl/system.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static const char text[] =
    "name: x\npe: {name: cpu}\nnode: {pes: 8}\n"
    "collectives:\n"
    "  - {op: allreduce, pes: 2, times: [[1000, 2000], [4000, 4000],"
    " [16000, 16000]]}\n"
    "  - {op: allreduce, pes: 8, times: [[1000, 8000], [4000, 16000],"
    " [16000, 64000]]}\n"
    "  - {op: broadcast, pes: 4, times: [[1000, 1000]]}\n";

static const struct {
    const char *op;
    int64_t pes, bytes;
    double want; /* 0: none */
} cases[] = {
    {"allreduce", 2, 1000, 2e-6},        /* measured */
    {"allreduce", 2, 2000, 2.828427e-6}, /* between two sizes */
    {"allreduce", 4, 4000, 8e-6},        /* between two numbers of PEs */
    {"allreduce", 4, 8000, 16e-6},       /* both */
    {"allreduce", 2, 10, 2e-6},          /* below: the smallest */
    {"allreduce", 2, 28000, 28e-6},      /* beyond: as the last stretch */
    {"allreduce", 16, 1000, 8e-6 * (15.0 / 16) / (7.0 / 8)},
    {"broadcast", 2, 5000, 1e-6 * .5 / .75},
    {"alltoall", 2, 5000, 0},
    {"allreduce", 1, 5000, 0},
};

static void times_are_read_between_measured_ones(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    (void)state;
    assert_int_equal(pdl_system_read(a, (struct pdl_bytes){text, strlen(text)},
                                     "x.yaml", &sys, &err),
                     PDL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double s = 0;
        bool found = pdl_collective_seconds(&sys, cases[i].op, cases[i].pes,
                                            cases[i].bytes, &s);

        assert_int_equal(found, cases[i].want > 0);
        assert_true(fabs(s - cases[i].want) <= 1e-6 * cases[i].want);
    }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_between_measured_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
