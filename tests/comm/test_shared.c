/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes without MPI: allreduces of all sizes and types of way, the same
 * bits on all ranks; who does not come; names. */
#include "paradl/comm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 3, LARGEST = 1 << 20 };

static float input(int rank, int64_t i)
{
    return (float)((i * 7 + (int64_t)rank * 13) % 97) / 8;
}

/* Exact in float: eighths. In place and not. */
static int sums(pdl_comm *c, int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    float *y = calloc((size_t)n + 1, sizeof *y);
    struct pdl_err err = {"", ""};
    int bad = !x || !y;

    for (int64_t i = 0; i < n && !bad; i++)
        x[i] = input(pdl_comm_rank(c), i);
    for (int twice = 0; twice < 2 && !bad; twice++) {
        bad = pdl_comm_allreduce(c, x, twice ? x : y, n, PDL_COMM_F32,
                                 PDL_COMM_SUM, &err) != PDL_OK;
        for (int64_t i = 0; i < n && !bad; i++) {
            float want = 0;

            for (int r = 0; r < RANKS; r++)
                want += input(r, i);
            bad = (twice ? x : y)[i] != want;
        }
    }
    if (bad)
        fprintf(stderr, "%lld: %s\n", (long long)n, err.msg);
    free(x);
    free(y);
    return bad;
}

/* A rank's whole life, for its exit code. */
static int live(const char *name, int rank, const char *transport)
{
    struct pdl_comm_options opt = {.transport = transport, .timeout_s = 60};
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;
    int bad = 0;

    if (pdl_comm_create_shared(name, rank, RANKS, &opt, &c, &err) != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    for (int64_t n = 1; n <= LARGEST && !bad; n = n * 5 + 1)
        bad = sums(c, n);
    bad = bad || pdl_comm_subset(c, 1, &rank, &c, &err) == PDL_OK;
    pdl_comm_destroy(c);
    return bad;
}

static int all_of(const char *name, const char *transport)
{
    int bad = 0, status;
    pid_t pid[RANKS];

    for (int r = 0; r < RANKS; r++) {
        pid[r] = fork();
        if (pid[r] == 0)
            _exit(live(name, r, transport));
    }
    for (int r = 0; r < RANKS; r++)
        bad |= waitpid(pid[r], &status, 0) < 0 || status != 0;
    return bad;
}

static void processes_sum(void **state)
{
    static const char *const transports[] = {NULL, "staged"};
    char name[64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "test-%d-%d", (int)getpid(), i);
        assert_int_equal(all_of(name, transports[i]), 0);
        /* the name is gone: it can be used again */
        assert_int_equal(all_of(name, transports[i]), 0);
    }
}

static void who_does_not_come_is_missed(void **state)
{
    struct pdl_comm_options opt = {.timeout_s = .2};
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;
    char name[64];

    (void)state;
    snprintf(name, sizeof name, "late-%d", (int)getpid());
    for (int rank = 0; rank < 2; rank++) { /* rank 0 leaves no file behind */
        assert_int_equal(pdl_comm_create_shared(name, rank, 2, &opt, &c, &err),
                         PDL_ENOENV);
        assert_non_null(strstr(
            err.msg, rank ? "rank 0 has not come" : "not all ranks have come"));
    }
}

static void wrong_names_and_ranks(void **state)
{
    static const char *const names[] = {"", "../x", "a/b", "a b", "a.b"};
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(pdl_comm_create_shared(names[i], 0, 1, NULL, &c, &err),
                         PDL_EINVAL);
    assert_int_equal(pdl_comm_create_shared("x", 2, 2, NULL, &c, &err),
                     PDL_EINVAL);
    assert_int_equal(pdl_comm_create_shared("x", 0, 0, NULL, &c, &err),
                     PDL_EINVAL);
}

static void one_rank_is_alone(void **state)
{
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;
    float x = 3, y = 0;
    char name[64];

    (void)state;
    snprintf(name, sizeof name, "alone-%d", (int)getpid());
    assert_int_equal(pdl_comm_create_shared(name, 0, 1, NULL, &c, &err),
                     PDL_OK);
    assert_int_equal(
        pdl_comm_allreduce(c, &x, &y, 1, PDL_COMM_F32, PDL_COMM_SUM, &err),
        PDL_OK);
    assert_true(y == 3);
    pdl_comm_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_sum),
        cmocka_unit_test(who_does_not_come_is_missed),
        cmocka_unit_test(wrong_names_and_ranks),
        cmocka_unit_test(one_rank_is_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
