/* The last cache, from folders like the kernel's. */
#include "base_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void put(const char *folder, int index, const char *file,
                const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/index%d", folder, index);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/index%d/%s", folder, index, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void put_cache(const char *folder, int index, const char *level,
                      const char *size, const char *cpus)
{
    put(folder, index, "level", level);
    put(folder, index, "size", size);
    put(folder, index, "shared_cpu_list", cpus);
}

static void drop(const char *folder)
{
    static const char *const files[] = {"/level", "/size", "/shared_cpu_list",
                                        ""};
    char path[256];

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "%s/index%d%s", folder, i, files[k]);
            remove(path);
        }
    rmdir(folder);
}

static struct pdl_cache last_of(const char *size, const char *cpus)
{
    char folder[] = "/tmp/paradl-cache-XXXXXX";
    struct pdl_cache c;

    assert_non_null(mkdtemp(folder));
    put_cache(folder, 0, "1", "48K", "0");
    put_cache(folder, 1, "3", size, cpus);
    put_cache(folder, 2, "2", "1024K", "0");
    c = pdl_last_cache(folder);
    drop(folder);
    return c;
}

static void the_highest_level_counts(void **state)
{
    struct pdl_cache c = last_of("32768K", "0-1");

    (void)state;
    assert_int_equal(c.bytes, 32 << 20);
    assert_int_equal(c.cpus, 2);
}

static void lists_of_processors_are_counted(void **state)
{
    (void)state;
    assert_int_equal(last_of("36M", "0-3,8-11").cpus, 8);
    assert_int_equal(last_of("36M", "0-3,8-11").bytes, 36 << 20);
    assert_int_equal(last_of("8192K", "5").cpus, 1);
    assert_int_equal(last_of("8192K", "").cpus, 1);
}

static void a_cache_without_a_size_is_none(void **state)
{
    struct pdl_cache c = last_of("0K", "0-1");

    (void)state;
    assert_int_equal(c.bytes, 1 << 20);
    assert_int_equal(c.cpus, 1);
}

static void without_a_folder_the_library_is_asked(void **state)
{
    struct pdl_cache c = pdl_last_cache("/nonexistent");
    long n = sysconf(_SC_LEVEL3_CACHE_SIZE);

    (void)state;
    assert_int_equal(c.bytes, n > 0 ? n : 0);
    assert_int_equal(c.cpus, pdl_cores());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_level_counts),
        cmocka_unit_test(lists_of_processors_are_counted),
        cmocka_unit_test(a_cache_without_a_size_is_none),
        cmocka_unit_test(without_a_folder_the_library_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
