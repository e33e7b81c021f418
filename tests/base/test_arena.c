/* The arena: zeroed, aligned, limited, and seen by AddressSanitizer. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void memory_is_zeroed_and_aligned(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *p = pdl_arena_alloc(a, n, 1);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    pdl_arena_destroy(a);
}

static void allocations_do_not_overlap(void **state)
{
    enum { N = 400 };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_rng rng = {.key = 1};
    unsigned char *p[N];
    size_t len[N];

    (void)state;
    for (int i = 0; i < N; i++) { /* small ones and ones larger than a block */
        len[i] = (size_t)pdl_rng_below(&rng, i % 10 ? 100 : 100000);
        p[i] = pdl_arena_alloc(a, len[i], 1);
        memset(p[i], i & 0xff, len[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < len[i]; k++)
            assert_int_equal(p[i][k], i & 0xff);
    pdl_arena_destroy(a);
}

static void the_limit_holds_to_the_byte(void **state)
{
    pdl_arena *a = pdl_arena_create(64);

    (void)state;
    assert_null(pdl_arena_alloc(a, 65, 1));
    assert_non_null(pdl_arena_alloc(a, 48, 1));
    assert_null(pdl_arena_alloc(a, 17, 1));
    assert_non_null(pdl_arena_alloc(a, 16, 1));
    assert_null(pdl_arena_alloc(a, 1, 1));
    assert_int_equal(pdl_arena_used(a), 64);
    pdl_arena_destroy(a);
}

static void many_empty_things_are_not_free(void **state)
{
    pdl_arena *a = pdl_arena_create(1600);
    int n = 0;

    (void)state;
    while (n < 1000 && pdl_arena_alloc(a, 0, 1))
        n++;
    assert_int_equal(n, 100);
    assert_null(pdl_arena_strdup(a, ""));
    pdl_arena_destroy(a);
}

static void sizes_that_overflow_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(SIZE_MAX);
    static const size_t big[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 2,
                                 (size_t)1 << 63};

    (void)state;
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        assert_null(pdl_arena_alloc(a, big[i], 2));
        assert_null(pdl_arena_alloc(a, 2, big[i]));
        assert_null(pdl_arena_alloc(a, big[i], big[i]));
    }
    assert_null(pdl_arena_strndup(a, "x", SIZE_MAX));
    pdl_arena_destroy(a);
}

static void growing_keeps_what_was_there(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int *v = NULL, cap = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        if (i == cap) {
            int more = cap ? 2 * cap : 1;

            v = pdl_arena_grow(a, v, (size_t)cap, (size_t)more, sizeof *v);
            cap = more;
        }
        v[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v[i], i);
    assert_null(pdl_arena_grow(a, v, 1000, 10, sizeof *v)); /* not smaller */
    pdl_arena_destroy(a);
}

static void text_is_copied_and_printed(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    char big[5000];

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_string_equal(pdl_arena_strndup(a, "hello", 3), "hel");
    assert_string_equal(pdl_arena_strndup(a, NULL, 0), "");
    assert_string_equal(pdl_arena_printf(a, "%d %s", 5, big) + 2, big);
    pdl_arena_destroy(a);
    pdl_arena_destroy(NULL);
}

static void an_emptied_arena_is_zeroed_and_has_all_its_limit(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            unsigned char *p = pdl_arena_alloc(a, 4000, 1);

            assert_non_null(p);
            for (int k = 0; k < 4000; k++)
                assert_int_equal(p[k], 0);
            memset(p, 0xa5, 4000);
        }
        pdl_arena_reset(a);
        assert_int_equal(pdl_arena_used(a), 0);
    }
    pdl_arena_destroy(a);
}

/* Blocks of every size that was once expected would be kept beside each other. */
static void a_larger_expectation_replaces_the_one_before(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    size_t before = mallinfo2().hblkhd + mallinfo2().arena, after;

    (void)state;
    for (size_t mib = 48; mib <= 64; mib++) {
        pdl_arena_expect(a, mib << 20);
        pdl_arena_reset(a);
    }
    after = mallinfo2().hblkhd + mallinfo2().arena;
    assert_true(after < before + ((size_t)130 << 20));
    pdl_arena_destroy(a);
}

#if defined(__SANITIZE_ADDRESS__)
static void an_overrun_inside_the_arena_is_found(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    child = fork();
    if (child == 0) {
        pdl_arena *a = pdl_arena_create(1 << 20);
        volatile char *p = pdl_arena_alloc(a, 32, 1);

        close(2);
        (void)pdl_arena_alloc(a, 32, 1);
        p[32] = 1; /* the byte between the two */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(allocations_do_not_overlap),
        cmocka_unit_test(the_limit_holds_to_the_byte),
        cmocka_unit_test(many_empty_things_are_not_free),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(growing_keeps_what_was_there),
        cmocka_unit_test(text_is_copied_and_printed),
        cmocka_unit_test(an_emptied_arena_is_zeroed_and_has_all_its_limit),
        cmocka_unit_test(a_larger_expectation_replaces_the_one_before),
#if defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(an_overrun_inside_the_arena_is_found),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
