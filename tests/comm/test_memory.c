/* Collectives on virtual ranks. */
#include "comm_checks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int ranks[] = {1, 2, 3, 4, 5, 7, 8};
enum { NRANKS = sizeof ranks / sizeof ranks[0] };
static const int64_t counts[] = {0, 1, 3, 1000};
enum { NCOUNTS = sizeof counts / sizeof counts[0] };

static int every_type(pdl_comm *c, void *ctx)
{
    int bad = 0;

    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int op = PDL_COMM_SUM; op <= PDL_COMM_AVG; op++)
            for (int i = 0; i < NCOUNTS; i++)
                bad |= check_allreduce(c, counts[i], (enum pdl_comm_type)t,
                                       (enum pdl_comm_op)op, i % 2, ctx);
    return bad;
}

static bool runs_on(const struct pdl_alg *alg, int n)
{
    struct pdl_coll_job job;

    return pdl_coll_job_make("allreduce", alg->name, n, 1000, 4, &job, NULL) ==
           PDL_OK;
}

static void every_algorithm_sums_every_type(void **state)
{
    (void)state;
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);
        struct pdl_comm_options opt = {.algorithm = alg->name};

        if (strcmp(alg->collective->name, "allreduce") != 0)
            continue;
        for (int k = 0; k < NRANKS; k++)
            if (runs_on(alg, ranks[k]))
                assert_int_equal(on_ranks(ranks[k], &opt, every_type,
                                          (void *)(uintptr_t)alg->name),
                                 0);
    }
}

static int the_others(pdl_comm *c, void *ctx)
{
    int bad = 0;

    (void)ctx;
    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int i = 0; i < NCOUNTS; i++)
            bad |= check_others(c, counts[i], (enum pdl_comm_type)t);
    bad |= check_others(c, 100003, PDL_COMM_F32);
    bad |= check_exchange(c, 0);
    bad |= check_exchange(c, 100);
    bad |= check_exchange(c, 100000);
    bad |= check_started(c, 10);
    bad |= check_started(c, 50000);
    bad |= check_subset(c);
    bad |= check_subset(c);
    return bad;
}

static void the_other_collectives_are_right(void **state)
{
    (void)state;
    for (int k = 0; k < NRANKS; k++) {
        struct pdl_comm_options fixed = {.fixed_order = true};

        assert_int_equal(on_ranks(ranks[k], NULL, the_others, NULL), 0);
        assert_int_equal(on_ranks(ranks[k], &fixed, the_others, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_sums_every_type),
        cmocka_unit_test(the_other_collectives_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
