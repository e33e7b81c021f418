/* Times of collectives between and beyond the measured ones. */
#include "paradl/system.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
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

/* ---- more ranks than processors ---------------------------------------- */

/* What the law says, for a collective whose ranks wait for 3 (P - 1) signals
 * and work on 2 N (P - 1)/P bytes, on 2 processors. */
static double law(double pes, double bytes)
{
    return pes / 2 *
           (3 * (pes - 1) * 1.5e-6 + 2 * bytes * (pes - 1) / pes / 5e9);
}

static void add_rows(struct pdl_buf *out, int pes, bool counted)
{
    pdl_printf(&out->sink, "  - {op: allreduce, pes: %d, nodes: 1, times: [",
               pes);
    for (int64_t n = 16; n <= 64 << 20; n *= 4) {
        pdl_printf(&out->sink, "%s[%lld, %.0f", n > 16 ? ", " : "",
                   (long long)n, 1e9 * law(pes, (double)n));
        if (counted)
            pdl_printf(&out->sink, ", %d, %.0f", 3 * (pes - 1),
                       2.0 * (double)n * (pes - 1) / pes);
        pdl_puts(&out->sink, "]");
    }
    pdl_puts(&out->sink, "]}\n");
}

/* The largest relative error over sizes, on so many ranks. */
static double worst(const struct pdl_system *sys, int pes)
{
    double most = 0;

    for (int64_t n = 1024; n <= 16 << 20; n *= 8) {
        double s = 0, want = law(pes, (double)n);

        assert_true(pdl_collective_seconds(sys, "allreduce", pes, n, &s));
        most = fmax(most, fabs(s - want) / want);
    }
    return most;
}

static void read_rows(pdl_arena *a, const int *pes, int n, bool counted,
                      struct pdl_system *out)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf rows;

    pdl_buf_init(&rows);
    pdl_puts(&rows.sink, "name: x\npe: {name: cpu}\nnode: {pes: 2, host: "
                         "{cores: 2}}\ncollectives:\n");
    for (int i = 0; i < n; i++)
        add_rows(&rows, pes[i], counted);
    if (pdl_system_read(a, (struct pdl_bytes){rows.text, rows.len}, "x.yaml",
                        out, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_buf_free(&rows);
}

static void ranks_that_share_processors_follow_the_law(void **state)
{
    static const int fitted[] = {3, 4}, unseen[] = {5, 6, 8, 12};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_system sys;

    (void)state;
    read_rows(a, fitted, 2, true, &sys);
    assert_true(fabs(pdl_collective_signal_s(&sys, "allreduce") - 1.5e-6) <
                1e-8);
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++)
        if (worst(&sys, unseen[i]) > .05)
            fail_msg("%d ranks: off by %g", unseen[i], worst(&sys, unseen[i]));
    read_rows(a, fitted + 1, 1, true, &sys); /* 4 alone tells about 3 */
    assert_true(worst(&sys, 3) < .15);
    /* without the counts it is a guess, and the test sees that */
    read_rows(a, fitted, 2, false, &sys);
    assert_true(worst(&sys, 8) > .3);
    assert_true(pdl_collective_signal_s(&sys, "allreduce") == 0);
    pdl_arena_destroy(a);
}

/* ---- the law against a machine ------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median error on one measured number of ranks when only those of a list
 * (digits) are known. */
static double median_error(const struct pdl_system *all, int pes,
                           const char *list)
{
    struct pdl_collective_fit known[8];
    struct pdl_system sys = *all;
    const struct pdl_collective_fit *f = &all->collectives[pes - 2];
    double e[32];

    sys.collectives = known;
    sys.ncollectives = 0;
    for (const char *p = list; *p; p++)
        known[sys.ncollectives++] = all->collectives[*p - '2'];
    assert_int_equal(f->pes, pes);
    assert_in_range(f->ntimes, 2, 32);
    for (int64_t i = 0; i < f->ntimes; i++) {
        double s = 0, want = 1e-9 * (double)f->times[i].v[1];

        assert_true(pdl_collective_seconds(&sys, "allreduce", pes,
                                           f->times[i].v[0], &s));
        e[i] = fabs(s - want) / want;
    }
    qsort(e, (size_t)f->ntimes, sizeof *e, ascending);
    return e[f->ntimes / 2];
}

static void numbers_of_ranks_not_measured_are_within_a_fifth(void **state)
{
    /* 2348 is what calibrate measures on two processors */
    static const struct {
        int pes;
        const char *known;
    } asked[] = {{5, "2348"}, {6, "2348"}, {7, "2348"}, {5, "234"}, {6, "234"},
                 {7, "234"},  {8, "234"},  {3, "4"},    {3, "45"},  {6, "5"}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    (void)state;
    if (pdl_system_open(a, PDL_SOURCE_DIR "/tests/data/system/two_cores.yaml",
                        &sys, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        double e = median_error(&sys, asked[i].pes, asked[i].known);

        print_message("%d ranks from %s: median error %.1f %%\n", asked[i].pes,
                      asked[i].known, 100 * e);
        if (e > .2)
            fail_msg("%d ranks from %s: off by %.1f %%", asked[i].pes,
                     asked[i].known, 100 * e);
    }
    /* without processors to share the old guess is far off */
    sys.node.host.cores = 0;
    assert_true(median_error(&sys, 8, "234") > .4);
    pdl_arena_destroy(a);
}

static void crowded_rows_say_nothing_of_fewer_ranks(void **state)
{
    static const char rows[] =
        "name: x\npe: {name: cpu}\nnode: {pes: 4, host: {cores: 4}}\n"
        "collectives:\n"
        "  - {op: allreduce, pes: 2, times: [[1000, 2000], [4000, 4000]]}\n"
        "  - {op: allreduce, pes: 8, times: [[1000, 900000], [4000, "
        "1000000]]}\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;
    double s;

    (void)state;
    assert_int_equal(pdl_system_read(a, (struct pdl_bytes){rows, strlen(rows)},
                                     "x.yaml", &sys, &err),
                     PDL_OK);
    assert_true(pdl_collective_seconds(&sys, "allreduce", 4, 1000, &s));
    assert_true(fabs(s - 2e-6 * 1.5) < 1e-9);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_between_measured_ones),
        cmocka_unit_test(ranks_that_share_processors_follow_the_law),
        cmocka_unit_test(numbers_of_ranks_not_measured_are_within_a_fifth),
        cmocka_unit_test(crowded_rows_say_nothing_of_fewer_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
