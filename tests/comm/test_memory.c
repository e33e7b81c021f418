/* Collectives on virtual ranks. */
#include "comm_checks.h"
#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const int ranks[] = {1, 2, 3, 4, 5, 7, 8};
enum { NRANKS = sizeof ranks / sizeof ranks[0] };
static const int64_t counts[] = {0, 1, 3, 1000};
enum { NCOUNTS = sizeof counts / sizeof counts[0] };

/* Every type with every operation, every type with every count, every operation
 * with every count; PDL_LONG=1: all three at once. */
static bool worth_it(int t, int op, int i)
{
    return (t + op + i) % NCOUNTS == 0 || effort(0, 0, 1);
}

static int every_type(pdl_comm *c, void *ctx)
{
    int bad = 0;

    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int op = PDL_COMM_SUM; op <= PDL_COMM_AVG; op++)
            for (int i = 0; i < NCOUNTS; i++)
                if (worth_it(t, op, i))
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
        for (int k = 0; k < NRANKS; k += effort(2, 1, 1))
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
    bad |= check_backwards(c, 0);
    bad |= check_backwards(c, 5000);
    bad |= check_backwards(c, 50000);
    return bad;
}

static void the_other_collectives_are_right(void **state)
{
    (void)state;
    for (int k = 0; k < NRANKS; k += effort(2, 1, 1)) {
        struct pdl_comm_options fixed = {.fixed_order = true};

        assert_int_equal(on_ranks(ranks[k], NULL, the_others, NULL), 0);
        assert_int_equal(on_ranks(ranks[k], &fixed, the_others, NULL), 0);
    }
}

static int the_bits(pdl_comm *c, void *ctx)
{
    return check_all_bits(c, ctx);
}

static void a_fixed_order_gives_the_bits_of_a_serial_sum(void **state)
{
    static const char *const ways[] = {"auto", "ordered", "flat"};

    (void)state;
    for (int k = 0; k < NRANKS; k += effort(2, 1, 1))
        for (int w = 0; w < 3; w++) {
            struct pdl_comm_options opt = {.fixed_order = true,
                                           .algorithm = ways[w]};

            assert_int_equal(
                on_ranks(ranks[k], &opt, the_bits, (void *)(uintptr_t)ways[w]),
                0);
        }
}

/* The check above can fail: a ring adds in another order. */
static int other_bits(pdl_comm *c, void *ctx)
{
    (void)ctx;
    return !check_bits(c, 1000, PDL_COMM_F32, PDL_COMM_SUM, "as expected");
}

static void a_ring_gives_other_bits(void **state)
{
    struct pdl_comm_options opt = {.algorithm = "ring"};

    (void)state;
    assert_int_equal(on_ranks(5, &opt, other_bits, NULL), 0);
}

static int with_a_twin(pdl_comm *c, void *ctx)
{
    pdl_comm *other = NULL;
    struct pdl_err err = {"", ""};
    int all[8] = {0, 1, 2, 3, 4, 5, 6, 7}, bad;

    (void)ctx;
    bad = said(pdl_comm_subset(c, pdl_comm_size(c), all, &other, &err),
               "subset", &err);
    if (!bad)
        bad = check_two_threads(c, other);
    pdl_comm_destroy(other);
    return bad;
}

static void two_threads_use_two_communicators(void **state)
{
    (void)state;
    assert_int_equal(on_ranks(2, NULL, with_a_twin, NULL), 0);
    assert_int_equal(on_ranks(3, NULL, with_a_twin, NULL), 0);
}

/* ---- a thread of its own --------------------------------------------------- */

/* Started, and then only computed: it is done when the caller looks. */
static int done_meanwhile(pdl_comm *c, void *ctx)
{
    static const int64_t lengths[] = {10, 100000};
    struct pdl_err err = {"", ""};
    int bad = the_others(c, ctx);

    for (int k = 0; k < 2; k++) {
        struct buffers b = take_buffers(lengths[k] * 8);
        double start = pdl_clock_s();
        pdl_comm_request *req;

        fill_values(b.in, lengths[k], pdl_comm_rank(c), 0, PDL_COMM_F32);
        bad |= said(
            pdl_comm_start_allreduce(c, b.in, b.out, lengths[k], PDL_COMM_F32,
                                     PDL_COMM_SUM, &req, &err),
            "start", &err);
        while (!bad && pdl_clock_s() - start < 5) {
            comm_lock(c); /* looks without moving anything */
            if (req->done)
                start = -10;
            comm_unlock(c);
            usleep(100);
        }
        if (start > 0)
            bad = 1, fprintf(stderr, "nothing moved meanwhile\n");
        bad |= said(pdl_comm_wait(req, &err), "wait", &err);
        bad |= check_reduced("meanwhile", c, b.out, 0, lengths[k], PDL_COMM_F32,
                             PDL_COMM_SUM);
        drop_buffers(b);
    }
    return bad;
}

static void a_thread_moves_what_is_started(void **state)
{
    struct pdl_comm_options opt = {.progress = true};

    (void)state;
    assert_int_equal(on_ranks(2, &opt, done_meanwhile, NULL), 0);
    assert_int_equal(on_ranks(3, &opt, done_meanwhile, NULL), 0);
}

/* ---- programs ------------------------------------------------------------ */

struct listed {
    pdl_arena *a;
    struct pdl_coll_program *prog;
};

static struct listed list_program(const char *spec, int n)
{
    struct listed l = {pdl_arena_create(PDL_ARENA_DEFAULT), NULL};
    struct pdl_err err = {"", ""};
    struct pdl_coll_job job;

    if (pdl_coll_job_make("allreduce", spec, n, 1200, 4, &job, &err) !=
            PDL_OK ||
        pdl_coll_list(&job, l.a, &l.prog, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return l;
}

static int run_program(pdl_comm *c, void *ctx)
{
    /* past the proof, to see that the checks of these tests find it too */
    if (ctx)
        c->program = ctx;
    return check_allreduce(c, 1200, PDL_COMM_F32, PDL_COMM_SUM, false,
                           "a program");
}

static void a_listed_program_runs(void **state)
{
    struct listed l = list_program("swing", 4);
    struct pdl_comm_options opt = {.program = l.prog};

    (void)state;
    assert_int_equal(on_ranks(4, &opt, run_program, NULL), 0);
    pdl_arena_destroy(l.a);
}

static void a_mutated_step_is_refused_and_would_be_seen(void **state)
{
    struct listed l = list_program("ring", 3);
    struct pdl_comm_options opt = {.program = l.prog};
    struct pdl_err err = {"", ""};
    pdl_comm *c[3];

    (void)state;
    l.prog->steps[1][1].act = PDL_ACT_COPY; /* loses what was there */
    assert_int_equal(pdl_comm_create_memory(3, &opt, c, &err), PDL_EWRONG);
    assert_int_equal(on_ranks(3, NULL, run_program, l.prog), 1);
    pdl_arena_destroy(l.a);
}

/* ---- faults -------------------------------------------------------------- */

static int one_stays_away(pdl_comm *c, void *ctx)
{
    struct pdl_err err = {"", ""}, again = {"", ""};
    double start = pdl_clock_s();
    /* they outlive the call: others may still read them */
    static float xs[3][5000], ys[3][5000];
    float *x = xs[pdl_comm_rank(c)], *y = ys[pdl_comm_rank(c)];
    int64_t n = *(const int64_t *)ctx;
    enum pdl_status st;

    if (pdl_comm_rank(c) == 1)
        return 0;
    st = pdl_comm_allreduce(c, x, y, n, PDL_COMM_F32, PDL_COMM_SUM, &err);
    if (st != PDL_ENOENV || pdl_clock_s() - start > 5 ||
        !(strstr(err.msg, "no answer within 0.2 s") ||
          strstr(err.msg, "gave up")))
        return 1;
    start = pdl_clock_s();
    st = pdl_comm_barrier(c, &again);
    return st != PDL_ENOENV || pdl_clock_s() - start > 0.1 ||
           !strstr(again.msg, "this communicator is broken");
}

static void a_rank_that_stays_away_is_a_time_out(void **state)
{
    static const char *const ways[] = {"auto", "ring", "recursive-doubling"};

    (void)state;
    for (int64_t n = 1; n < 5001; n += 4999)
        for (int w = 0; w < 3; w++) {
            struct pdl_comm_options opt = {.timeout_s = 0.2,
                                           .algorithm = ways[w]};

            assert_int_equal(on_ranks(3, &opt, one_stays_away, &n), 0);
        }
}

/* What the two ranks ask for. */
struct asked {
    int64_t count[2];
    enum pdl_comm_type type[2];
    enum pdl_comm_op op[2];
};

static int different_things(pdl_comm *c, void *ctx)
{
    const struct asked *a = ctx;
    struct pdl_err err = {"", ""};
    static float x[60000], ys[2][60000];
    int me = pdl_comm_rank(c);
    enum pdl_status st = PDL_OK;

    /* the second call: what the first left behind must not hide it */
    for (int turn = 0; turn < 2 && st == PDL_OK; turn++)
        st = pdl_comm_allreduce(c, x, ys[me], a->count[turn ? me : 0],
                                a->type[turn ? me : 0], a->op[turn ? me : 0],
                                &err);
    return st != PDL_ENOENV;
}

static void different_counts_are_found_out(void **state)
{
    // clang-format off
    static const struct asked asked[] = {
        {{50000, 50001}, {PDL_COMM_F32, PDL_COMM_F32}, {0, 0}},
        {{10, 20},       {PDL_COMM_F32, PDL_COMM_F32}, {0, 0}},
        {{20, 10},       {PDL_COMM_F32, PDL_COMM_F32}, {0, 0}},
        {{10, 50000},    {PDL_COMM_F32, PDL_COMM_F32}, {0, 0}},
        {{50000, 10},    {PDL_COMM_F32, PDL_COMM_F32}, {0, 0}},
        {{10, 10},       {PDL_COMM_F32, PDL_COMM_I32}, {0, 0}},
        {{10, 10},       {PDL_COMM_F32, PDL_COMM_F32},
                         {PDL_COMM_SUM, PDL_COMM_MAX}},
    };
    // clang-format on
    struct pdl_comm_options opt = {.timeout_s = 2, .algorithm = "auto"};

    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        assert_int_equal(
            on_ranks(2, &opt, different_things, (void *)(uintptr_t)&asked[i]),
            0);
    opt.algorithm = "ring";
    assert_int_equal(
        on_ranks(2, &opt, different_things, (void *)(uintptr_t)&asked[0]), 0);
}

static void mistakes_are_refused(void **state)
{
    static const struct pdl_comm_options bad[] = {
        {.algorithm = "rong"},
        {.transport = "pigeon"},
        {.algorithm = "ring", .fixed_order = true},
        {.algorithm = "halving-doubling"}, /* on 3 ranks */
    };
    struct pdl_err err = {"", ""};
    pdl_comm *c[3];
    float x = 1, y;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(pdl_comm_create_memory(3, &bad[i], c, &err),
                         PDL_EINVAL);
    assert_int_equal(pdl_comm_create_memory(0, NULL, c, &err), PDL_EINVAL);
    assert_int_equal(pdl_comm_create_memory(1, NULL, c, &err), PDL_OK);
    assert_int_equal(
        pdl_comm_allreduce(c[0], &x, &y, -1, PDL_COMM_F32, PDL_COMM_SUM, &err),
        PDL_EINVAL);
    assert_int_equal(
        pdl_comm_allreduce(c[0], NULL, &y, 1, PDL_COMM_F32, PDL_COMM_SUM, &err),
        PDL_EINVAL);
    assert_int_equal(pdl_comm_broadcast(c[0], &x, 1, PDL_COMM_F32, 1, &err),
                     PDL_EINVAL);
    assert_int_equal(
        pdl_comm_allreduce(c[0], &x, &y, 1, PDL_COMM_F32, PDL_COMM_SUM, &err),
        PDL_OK);
    pdl_comm_destroy(c[0]);
}

static int chosen_later(pdl_comm *c, void *ctx)
{
    struct pdl_err err = {"", ""};
    const char *before = pdl_comm_choice(c, "allreduce", 1 << 20);
    bool odd = pdl_comm_size(c) % 2;

    (void)ctx;
    if (pdl_comm_set_algorithm(c, "nonsense", &err) != PDL_EINVAL ||
        !strstr(err.msg, "no algorithm") ||
        (odd && pdl_comm_set_algorithm(c, "shd", &err) != PDL_EINVAL) ||
        strcmp(pdl_comm_choice(c, "allreduce", 1 << 20), before) != 0 ||
        pdl_comm_set_algorithm(c, "ring", &err) != PDL_OK ||
        strcmp(pdl_comm_choice(c, "allreduce", 1 << 20), "ring") != 0)
        return 1;
    return check_allreduce(c, 1000, PDL_COMM_F64, PDL_COMM_SUM, 0,
                           (void *)(uintptr_t) "ring");
}

static void an_algorithm_may_be_chosen_later(void **state)
{
    struct pdl_comm_options opt = {.fixed_order = true};

    (void)state;
    for (int k = 1; k < NRANKS; k++)
        assert_int_equal(on_ranks(ranks[k], &opt, chosen_later, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_sums_every_type),
        cmocka_unit_test(an_algorithm_may_be_chosen_later),
        cmocka_unit_test(the_other_collectives_are_right),
        cmocka_unit_test(a_fixed_order_gives_the_bits_of_a_serial_sum),
        cmocka_unit_test(a_ring_gives_other_bits),
        cmocka_unit_test(two_threads_use_two_communicators),
        cmocka_unit_test(a_thread_moves_what_is_started),
        cmocka_unit_test(a_listed_program_runs),
        cmocka_unit_test(a_mutated_step_is_refused_and_would_be_seen),
        cmocka_unit_test(a_rank_that_stays_away_is_a_time_out),
        cmocka_unit_test(different_counts_are_found_out),
        cmocka_unit_test(mistakes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
