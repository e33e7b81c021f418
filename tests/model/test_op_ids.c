/* Operators that others ask for by a number have it, and no other has. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char *const names[] = {NULL,
#define X(id, name) name,
                                    PDL_OP_ID_LIST(X)
#undef X
};

static void an_operator_has_the_number_of_its_name(void **st)
{
    const struct pdl_op *op;
    size_t found = 0;

    (void)st;
    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++) {
        enum pdl_op_id id = pdl_op_id(op);

        if (id == PDL_ID_OTHER)
            continue;
        assert_true(id < sizeof names / sizeof names[0]);
        assert_string_equal(op->name, names[id]);
        found++;
    }
    assert_int_equal(found, sizeof names / sizeof names[0] - 1);
}

static void norms_say_that_they_are(void **st)
{
    const struct pdl_op *op;

    (void)st;
    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++) {
        size_t n = strlen(op->name);
        bool norm = n > 5 && strcmp(op->name + n - 5, "_norm") == 0;

        assert_int_equal(norm, (op->flags & PDL_OP_NORM) != 0);
    }
}

static bool lists(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static void comparisons_and_what_nobody_knows_say_so(void **st)
{
    const struct pdl_op *op;

    (void)st;
    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++) {
        assert_int_equal(lists("equal less less_equal greater greater_equal "
                               "and or xor",
                               op->name),
                         (op->flags & PDL_OP_COMPARES) != 0);
        assert_int_equal(lists("other gather", op->name),
                         (op->flags & PDL_OP_UNKNOWN) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_has_the_number_of_its_name),
        cmocka_unit_test(norms_say_that_they_are),
        cmocka_unit_test(comparisons_and_what_nobody_knows_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
