/* Every algorithm is right on every number of ranks it accepts, at sizes that
 * divide, that do not, and that leave chunks empty; and what it refuses it
 * refuses with a reason. */
#include "effort.h"
#include "paradl/coll.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Proves one job; returns whether the algorithm accepted it. */
static bool proved(const struct pdl_alg *alg, const char *params, int p,
                   int64_t count)
{
    struct pdl_coll_job job;
    struct pdl_err err = {"", ""};
    char spec[128];
    enum pdl_status st;

    snprintf(spec, sizeof spec, "%s%s", alg->name, params);
    st =
        pdl_coll_job_make(alg->collective->name, spec, p, count, 4, &job, &err);
    if (st == PDL_EINVAL) {
        assert_true(strlen(err.msg) > 10);
        return false;
    }
    assert_int_equal(st, PDL_OK);
    st = pdl_coll_verify(&job, NULL, &err);
    if (st != PDL_OK)
        fail_msg("%s count=%lld: %s", spec, (long long)count, err.msg);
    return true;
}

static void every_algorithm_is_right_on_every_size_it_accepts(void **state)
{
    int jobs = 0;

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++) {
        int accepted = 0;

        for (int p = 1; p <= effort(24, 64, 64); p++) {
            /* a multiple of everything that all-to-alls ask for */
            accepted += proved(pdl_alg_at(i), "", p, (int64_t)p * 12);
            jobs += proved(pdl_alg_at(i), "", p, 1009);
            if (p <= 24)
                jobs += proved(pdl_alg_at(i), "", p, 3);
        }
        jobs += accepted;
        if (accepted < effort(1, 7, 7))
            fail_msg("%s accepts only %d sizes", pdl_alg_at(i)->name, accepted);
    }
    print_message("%d jobs proved\n", jobs);
}

static void parameters_are_honoured(void **state)
{
    static const struct {
        const char *coll, *alg, *params;
        int p;
        bool accepted;
    } cases[] = {
        // clang-format off
        {"allreduce", "ring-ring", ":k=3", 12, true},
        {"allreduce", "ring-ring", ":k=12", 12, true},
        {"allreduce", "ring-ring", ":k=5", 12, false},
        {"allreduce", "ring-rab", ":k=2", 22, true},
        {"allreduce", "ring-rdb", ":k=2", 14, true},
        {"allreduce", "binomial-ring", ":k=5", 35, true},
        {"allreduce", "binomial-binomial", ":k=5", 35, true},
        {"allreduce", "ring-ring-pipelined", ":k=4,segments=1", 16, true},
        {"allreduce", "ring-ring-pipelined", ":k=1,segments=3", 5, true},
        {"allreduce", "ring-ring-pipelined", ":k=5,segments=3", 5, true},
        {"allreduce", "segmented-ring", ":segments=1", 7, true},
        {"allreduce", "segmented-ring", ":segments=2", 7, true},
        {"allreduce", "segmented-ring", ":segments=9", 7, true},
        {"allreduce", "double-tree", ":segments=1", 13, true},
        {"allreduce", "double-tree", ":segments=5", 13, true},
        {"allreduce", "torus", ":x=4,y=3,z=2", 24, true},
        {"allreduce", "torus", ":x=4,y=3", 24, false},
        {"allreduce", "torus", ":x=1,y=1,z=24", 24, true},
        {"allreduce", "shd", ":q=3,p=2", 32, true},
        {"allreduce", "shd", ":q=5", 32, true},
        {"allreduce", "shd", ":q=3,p=2,g=2", 64, true},
        {"allreduce", "shd", ":q=3,p=2,g=2,shift=2", 64, true},
        {"allreduce", "shd", ":q=3,p=2,g=2,shift=3", 64, false},
        {"allreduce", "shd", ":q=3,p=2", 64, false},
        {"allreduce", "shd", ":q=4,p=2,y=2", 64, true},
        {"allreduce", "shd", ":q=5,p=1,y=2", 64, true},
        {"allreduce", "shd-circulant", ":q=3,p=2,g=2", 64, true},
        {"allreduce", "shd-circulant", ":q=6", 64, true},
        {"allreduce", "shd-circulant", ":q=1,p=4,g=2", 64, true},
        {"allreduce", "shd-circulant", ":q=4,p=2,y=2", 64, false},
        {"allreduce", "shd", "", 24, false},
        {"allreduce", "kautz", ":d=4", 20, true},
        {"allreduce", "kautz", ":d=4", 30, false},
        {"allreduce", "kautz", "", 21, false},
        {"broadcast", "binomial", ":root=6", 7, true},
        {"broadcast", "binomial", ":root=7", 7, false},
        {"broadcast", "scatter-allgather", ":root=5", 11, true},
        {"broadcast", "chain", ":root=3,segments=5", 6, true},
        {"alltoall", "half-split", ":x=3,y=4", 12, true},
        {"alltoall", "parity", ":x=5,y=4", 20, true},
        {"alltoall", "parity", ":x=1,y=7", 7, true},
        {"alltoall", "direct", ":x=7,y=1", 7, true},
        {"alltoall", "direct", ":x=5,y=3", 15, true},
        {"alltoall", "xy", ":x=5,y=3", 15, true},
        {"alltoall", "xy", ":x=5,y=3", 16, false},
        {"halo", "neighbours", ":x=3,y=2,z=2", 12, true},
        {"halo", "neighbours", ":x=3,y=4", 12, true},
        {"exchange", "pairwise", ":round=5", 12, true},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pdl_alg *alg = pdl_alg_find(cases[i].coll, cases[i].alg);
        bool got = proved(alg, cases[i].params, cases[i].p, cases[i].p * 12);

        if (got != cases[i].accepted)
            fail_msg("%s%s on %d ranks: %d", cases[i].alg, cases[i].params,
                     cases[i].p, got);
    }
}

static void large_jobs_are_proved_by_labels(void **state)
{
    static const char *const names[] = {
        "halving-doubling", "swing",        "shd",
        "shd-circulant",    "rabenseifner", "ring-ring:k=32"};
    int p = effort(1024, 1024, 4096), n = sizeof names / sizeof names[0];

    (void)state;
    for (int i = 0; i < effort(1, n, n); i++) {
        struct pdl_coll_job job;
        struct pdl_coll_proof proof;
        struct pdl_err err = {"", ""};

        assert_int_equal(
            pdl_coll_job_make("allreduce", names[i], p, 1 << 20, 4, &job, &err),
            PDL_OK);
        if (pdl_coll_verify(&job, &proof, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        assert_false(proof.exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right_on_every_size_it_accepts),
        cmocka_unit_test(parameters_are_honoured),
        cmocka_unit_test(large_jobs_are_proved_by_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
