/* doc/collectives.md has one row for every algorithm, in the order of the
 * table and with its words, and no other. */
#include "paradl/coll.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void the_manual_lists_exactly_the_algorithms(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 22);
    struct pdl_bytes text;
    const char *at;
    int i = 0;

    (void)state;
    assert_int_equal(pdl_file_read(a, PDL_SOURCE_DIR "/doc/collectives.md",
                                   1 << 20, &text, NULL),
                     PDL_OK);
    at = strstr(text.data, "|---|");
    assert_non_null(at);
    for (at = strchr(at, '\n') + 1; *at == '|'; at = strchr(at, '\n') + 1) {
        const struct pdl_alg *alg = pdl_alg_at(i++);
        char want[512];
        const char *end = strchr(at, '\n');

        assert_non_null(alg);
        snprintf(want, sizeof want, "| %s | %s | %s | %s | %s |",
                 alg->collective->name, alg->name, alg->steps, alg->bytes,
                 *alg->limits ? alg->limits : "any");
        if (strncmp(at, want, strlen(want)) != 0)
            fail_msg("row %d is not \"%s ...\"", i, want);
        snprintf(want, sizeof want, "| %s |", alg->source);
        if (strncmp(end - strlen(want), want, strlen(want)) != 0)
            fail_msg("%s: the row does not end with its source", alg->name);
    }
    assert_null(pdl_alg_at(i));
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manual_lists_exactly_the_algorithms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
