/* What backends found out by trying is kept between runs: it comes back, the
 * last of equal keys counts, damaged lines and a place that cannot be written
 * harm nobody, processes may add at the same time. */
#include "train/backends/kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/paradl-known-XXXXXX";

static int open_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static int close_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *read_one(pdl_arena *a, const char *name, const char *key)
{
    return train_known_find(train_known_open(a, name), key);
}

static void what_is_added_comes_back(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct train_known *k = train_known_open(a, "one");

    (void)state;
    assert_null(train_known_find(k, "conv 1 2"));
    train_known_add(k, "conv 1 2", "{\n \"a\": 1}");
    train_known_add(k, "conv 1 23", "other");
    assert_string_equal(train_known_find(k, "conv 1 2"), "{\n \"a\": 1}");
    assert_string_equal(read_one(a, "one", "conv 1 2"), "{  \"a\": 1}");
    train_known_add(k, "conv 1 2", "new");
    assert_string_equal(read_one(a, "one", "conv 1 2"), "new");
    assert_string_equal(read_one(a, "one", "conv 1 23"), "other");
    assert_null(read_one(a, "two", "conv 1 2"));
    pdl_arena_destroy(a);
}

static void damaged_lines_are_nobodys(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char path[128];
    FILE *f;

    (void)state;
    train_known_add(train_known_open(a, "hurt"), "first", "1");
    snprintf(path, sizeof path, "%s/paradl/hurt", folder);
    f = fopen(path, "a");
    assert_non_null(f);
    fputs("no tab here\n\n\tno key\ncut off\t12", f);
    fclose(f);
    assert_string_equal(read_one(a, "hurt", "first"), "1");
    assert_null(read_one(a, "hurt", "no tab here"));
    assert_null(read_one(a, "hurt", "cut off"));
    pdl_arena_destroy(a);
}

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Of a line that lost or changed a byte nothing is believed: a plan of fewer or
 * other numbers may still look like one. Nor of two that ran into each other. */
static void a_line_is_whole_or_nobodys(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char path[128], line[256], hurt[256];
    struct train_known *k;
    FILE *f;
    size_t n;

    (void)state;
    snprintf(path, sizeof path, "%s/paradl/whole", folder);
    train_known_add(train_known_open(a, "whole"), "key", "0.5 12 34");
    f = fopen(path, "r");
    assert_non_null(f);
    n = fread(line, 1, sizeof line, f);
    fclose(f);
    assert_string_equal(read_one(a, "whole", "key"), "0.5 12 34");
    for (size_t i = 4; i + 1 < n; i++) {
        memcpy(hurt, line, i); /* one byte is not there */
        memcpy(hurt + i, line + i + 1, n - i - 1);
        write_text(path, hurt, n - 1);
        assert_null(read_one(a, "whole", "key"));
        memcpy(hurt, line, n); /* one is another */
        hurt[i] ^= 1;
        write_text(path, hurt, n);
        assert_null(read_one(a, "whole", "key"));
        memcpy(hurt, line, i); /* the rest is the next line's */
        memcpy(hurt + i, line, n);
        write_text(path, hurt, i + n);
        assert_null(read_one(a, "whole", "key"));
    }
    k = train_known_open(a, "whole"); /* what is found again counts */
    train_known_add(k, "key", "new");
    assert_string_equal(read_one(a, "whole", "key"), "new");
    pdl_arena_destroy(a);
}

static void processes_add_at_the_same_time(void **state)
{
    enum { PROCESSES = 4, LINES = 200 };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct train_known *k;
    char key[32];
    int status;

    (void)state;
    for (int p = 0; p < PROCESSES; p++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child > 0)
            continue;
        k = train_known_open(a, "many");
        for (int i = 0; i < LINES; i++) {
            snprintf(key, sizeof key, "%d of %d", i, p);
            train_known_add(k, key, key);
        }
        _exit(0);
    }
    while (wait(&status) > 0)
        assert_int_equal(status, 0);
    k = train_known_open(a, "many");
    for (int i = 0; i < PROCESSES * LINES; i++) {
        snprintf(key, sizeof key, "%d of %d", i % LINES, i / LINES);
        assert_non_null(train_known_find(k, key));
        assert_string_equal(train_known_find(k, key), key);
    }
    pdl_arena_destroy(a);
}

static void without_a_place_it_is_for_this_run(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct train_known *k;

    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    k = train_known_open(a, "one");
    train_known_add(k, "key", "value");
    assert_string_equal(train_known_find(k, "key"), "value");
    assert_null(read_one(a, "one", "key"));
    assert_null(train_known_find(NULL, "key"));
    train_known_add(NULL, "key", "value");
    setenv("XDG_CACHE_HOME", folder, 1);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_comes_back),
        cmocka_unit_test(damaged_lines_are_nobodys),
        cmocka_unit_test(a_line_is_whole_or_nobodys),
        cmocka_unit_test(processes_add_at_the_same_time),
        cmocka_unit_test(without_a_place_it_is_for_this_run),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
