/* Sparse allreduce on virtual ranks, and the parts it is made of. */
#include "effort.h"
#include "sparse_checks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int ranks[] = {1, 2, 3, 4, 5, 7, 8};
enum { NRANKS = sizeof ranks / sizeof ranks[0] };

static int body(pdl_comm *c, void *ctx)
{
    const char *algorithm = ctx;

    return check_layouts(c, algorithm, algorithm && is_ring(algorithm), 1000) |
           check_sparse(c, algorithm,
                        (struct sample){.layout = RANDOM,
                                        .dim = 30011,
                                        .density = 0.02,
                                        .exact = true},
                        false);
}

static bool runs_on(const struct pdl_alg *alg, int n)
{
    struct pdl_coll_job job;

    return pdl_coll_job_make("allreduce", alg->name, n, 1000, 4, &job, NULL) ==
           PDL_OK;
}

static void every_sparse_algorithm_sums_what_the_ranks_give(void **state)
{
    int found = 0;

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);
        struct pdl_comm_options opt = {.algorithm = alg->name};

        for (int k = 0; alg->sparse && k < NRANKS; k += effort(2, 1, 1))
            if (runs_on(alg, ranks[k])) {
                assert_int_equal(on_ranks(ranks[k], &opt, body,
                                          (void *)(uintptr_t)alg->name),
                                 0);
                found++;
            }
    }
    /* ssar: powers of two */
    assert_int_equal(found, effort(4 * 4 - 2, 4 * NRANKS - 3, 4 * NRANKS - 3));
}

static void an_algorithm_is_found_for_any_number_of_ranks(void **state)
{
    (void)state;
    for (int k = 0; k < NRANKS; k += effort(2, 1, 1))
        assert_int_equal(on_ranks(ranks[k], NULL, body, NULL), 0);
}

/* What is sent is what the simulator is told: random positions, so within
 * what they differ. */
static int sends_what_is_said(pdl_comm *c, void *ctx)
{
    struct sample s = {.layout = RANDOM, .dim = 400000, .density = 0.02};
    struct pdl_coll_job job;
    struct pdl_err err = {"", ""};
    struct pdl_sparse out;
    pdl_comm_sparse *op;
    int64_t want = 0, sent = 0;
    int rank = pdl_comm_rank(c), bad;

    make_sample(&s, rank);
    bad = said(pdl_coll_job_make("allreduce", ctx, pdl_comm_size(c), s.dim, 4,
                                 &job, &err),
               "job", &err);
    job.density = s.density;
    for (int64_t i = 0; i < pdl_coll_nsteps(&job, rank); i++) {
        struct pdl_step step;

        pdl_coll_step(&job, rank, i, &step);
        want += step.send_to >= 0 ? pdl_coll_send_bytes(&job, &step) : 0;
    }
    bad |= said(pdl_comm_sparse_create(c, s.dim, s.x.n, ctx, &op, &err),
                "create", &err);
    bad |= said(pdl_comm_sparse_allreduce(op, &s.x, &out, &err), "sum", &err);
    sent = pdl_comm_sparse_sent(op);
    if (fabs((double)(sent - want)) > 0.02 * (double)want)
        bad = 1,
        fprintf(stderr, "%s sent %" PRId64 " bytes, said %" PRId64 "\n",
                (char *)ctx, sent, want);
    pdl_comm_sparse_destroy(op);
    drop_sample(&s);
    return bad;
}

static void messages_are_as_long_as_the_simulator_says(void **state)
{
    static const char *const algorithms[] = {
        "sparse-ring", "sparse-ring-ring:k=2", "ssar", "dsar"};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(on_ranks(8, NULL, sends_what_is_said,
                                  (void *)(uintptr_t)algorithms[i]),
                         0);
}

static int refuses(pdl_comm *c, void *ctx)
{
    uint32_t index[] = {1, 1};
    float value[] = {1, 1};
    struct pdl_sparse x = {10, 2, index, value}, out;
    struct pdl_err err = {"", ""};
    pdl_comm_sparse *op = NULL;
    int bad = 0;

    (void)ctx;
    bad |= pdl_comm_sparse_create(c, 10, 1, "ring", &op, &err) != PDL_EINVAL;
    bad |= strcmp(err.msg, "ring does not take sparse vectors") != 0;
    bad |= pdl_comm_sparse_create(c, 10, 11, NULL, &op, &err) != PDL_EINVAL;
    bad |= pdl_comm_sparse_create(c, 10, 1, "sprase-ring", &op, &err) == PDL_OK;
    bad |=
        said(pdl_comm_sparse_create(c, 10, 1, NULL, &op, &err), "create", &err);
    bad |= pdl_comm_sparse_allreduce(op, &x, &out, &err) != PDL_EINVAL;
    index[1] = 10;
    bad |= pdl_comm_sparse_allreduce(op, &x, &out, &err) != PDL_EINVAL;
    x.dim = 9;
    bad |= pdl_comm_sparse_allreduce(op, &x, &out, &err) != PDL_EINVAL;
    x = (struct pdl_sparse){10, 3, NULL, value};
    bad |= pdl_comm_sparse_allreduce(op, &x, &out, &err) != PDL_EINVAL;
    pdl_comm_sparse_destroy(op);
    pdl_comm_sparse_destroy(NULL);
    return bad;
}

static void wrong_vectors_and_algorithms_are_refused(void **state)
{
    (void)state;
    assert_int_equal(on_ranks(2, NULL, refuses, NULL), 0);
}

/* The checks above catch a wrong value and an index out of place. */
static void the_checks_see_a_wrong_sum(void **state)
{
    struct sample s = {
        .layout = RANDOM, .dim = 1000, .density = 0.05, .exact = true};

    (void)state;
    make_sample(&s, 0);
    assert_int_equal(check_exact(&s, 1, &s.x), 0);
    assert_int_equal(check_form(&s.x), 0);
    s.value[3] += 0.125F;
    assert_int_not_equal(check_exact(&s, 1, &s.x), 0);
    s.value[3] -= 0.125F;
    s.index[3] = s.index[2];
    assert_int_not_equal(check_form(&s.x), 0);
    drop_sample(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sparse_algorithm_sums_what_the_ranks_give),
        cmocka_unit_test(an_algorithm_is_found_for_any_number_of_ranks),
        cmocka_unit_test(messages_are_as_long_as_the_simulator_says),
        cmocka_unit_test(wrong_vectors_and_algorithms_are_refused),
        cmocka_unit_test(the_checks_see_a_wrong_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
