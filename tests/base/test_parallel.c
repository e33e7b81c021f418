/* Loops on threads: every index once, whatever their number; a body can stop
 * the loop. */
#include "base_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 10000 };

struct work {
    atomic_int ran[N];
    atomic_int_fast64_t total;
    int64_t stop_at;
};

static bool count(void *ctx, int64_t i)
{
    struct work *w = ctx;

    atomic_fetch_add(&w->ran[i], 1);
    atomic_fetch_add(&w->total, 1);
    return i != w->stop_at;
}

static void every_index_runs_once(void **state)
{
    static const int threads[] = {0, 1, 2, 7, 1000};

    (void)state;
    for (size_t k = 0; k < sizeof threads / sizeof threads[0]; k++) {
        static struct work w;

        w.stop_at = -1;
        assert_true(pdl_parallel(N, threads[k], count, &w));
        for (int i = 0; i < N; i++)
            assert_int_equal(atomic_load(&w.ran[i]), k + 1);
    }
}

static void a_body_can_stop_the_loop(void **state)
{
    static struct work w;

    (void)state;
    w.stop_at = 3;
    assert_false(pdl_parallel(N, 1, count, &w));
    assert_int_equal(atomic_load(&w.total), 4);
    assert_false(pdl_parallel(N, 2, count, &w));
    assert_true(pdl_parallel(0, 2, count, &w)); /* nothing to do */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(a_body_can_stop_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
