/* Prices and questions as text: what is read, what is refused and where. */
#include "paradl/design.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define HEAD "name: mine\ncurrency: EUR\nitems:\n"
#define ITEM(x) \
    "  - {item: " x ", value: 2, kind: list, date: 2026, source: me}\n"

static enum pdl_status read_prices(pdl_arena *a, const char *text,
                                   struct pdl_prices *out, struct pdl_err *err)
{
    return pdl_prices_read(a, (struct pdl_bytes){text, strlen(text)}, "p.yaml",
                           out, err);
}

static void the_built_in_ones_are_whole(void **state)
{
    (void)state;
    for (int i = 0; pdl_prices_builtin(i); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_prices p;
        struct pdl_err err = {"", ""};

        if (pdl_prices_open(a, pdl_prices_builtin(i)->name, &p, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        for (int k = 0; k < p.n; k++) {
            assert_true(strlen(p.item[k].source) > 5);
            assert_true(p.item[k].low <= p.item[k].value);
            assert_true(p.item[k].value <= p.item[k].high);
        }
        /* whatever the table has of single items */
        for (int k = 0; pdl_price_key_at(k); k++) {
            const char *name = pdl_price_key_at(k)->name;

            if (name[strlen(name) - 1] != '.')
                assert_non_null(pdl_price_find(&p, name));
        }
        pdl_arena_destroy(a);
    }
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {HEAD ITEM("pue") ITEM("pue"), "p.yaml:5:5: pue: given twice"},
        {HEAD ITEM("pie"), "p.yaml:4:12: item: no design asks for 'pie'"},
        {HEAD ITEM("rent."), "no design asks for 'rent.'"},
        {HEAD "  - {item: pue, value: 2, kind: list, date: 2026}\n",
         "'source' is missing"},
        {HEAD "  - {item: pue, value: 2, kind: list, date: 2026, source: ''}\n",
         "source: empty"},
        {HEAD "  - {item: pue, value: 2, kind: rumour, date: 1, source: x}\n",
         "kind: 'rumour' is none"},
        {HEAD "  - {item: pue, value: -2, kind: list, date: 1, source: x}\n",
         "value"},
        {HEAD "  - {item: pue, value: 0.9, kind: list, date: 1, source: x}\n",
         "0.9 is outside 1 to"},
        {HEAD "  - {item: storage, value: 0, kind: list, date: 1, source: x}\n",
         "0 is outside"},
        {HEAD "  - {item: mtbf, value: 9, low: 0, kind: list, date: 1, source: "
              "x}\n",
         "0 is outside"},
        {HEAD "  - {item: pue, value: 2, low: 3, kind: list, date: 1, source: "
              "x}\n",
         "low"},
        {HEAD "  - {item: pue, kind: list, date: 1, source: x}\n",
         "'value' is missing"},
        {"name: mine\nitems: []\n", "'currency' is missing"},
        {"name: mine\ncurrency: EUR\n", "'items' is missing"},
        {"- a\n", "expected a map"},
        {"name: mine\ncurrency: EUR\nitem: []\n", "item"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_prices p;
        struct pdl_err err = {"", ""};

        assert_int_equal(read_prices(a, cases[i].text, &p, &err), PDL_EPARSE);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("case %zu: '%s' lacks '%s'", i, err.msg, cases[i].says);
        pdl_arena_destroy(a);
    }
}

/* ---- questions ---------------------------------------------------------- */

#define WORK "workloads: [{model: resnet50, batch: 8, steps: 10}]\n"

static enum pdl_status read_question(pdl_arena *a, const char *text,
                                     struct pdl_question *out,
                                     struct pdl_err *err)
{
    return pdl_question_read(a, (struct pdl_bytes){text, strlen(text)},
                             "q.yaml", out, err);
}

static void a_grid_is_the_product_of_its_lists(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_question q;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(
        read_question(a,
                      WORK "designs:\n"
                           "  - {system: [a, 'b:nodes=2'], pes: [8, 16], set: "
                           "{nic: [1x1GB/s, 2x1GB/s], mem: 3GB}, network: [x, "
                           "y]}\n"
                           "  - {system: c, pes: 4}\n"
                           "budget: 3M\npower: 2MW\nmoney: rent\n",
                      &q, &err),
        PDL_OK);
    assert_int_equal(q.ndesigns, 17);
    assert_string_equal(q.design[0].system, "a:nic=1x1GB/s,mem=3GB");
    assert_string_equal(q.design[0].label, "a x8 nic=1x1GB/s mem=3GB x");
    assert_string_equal(q.design[15].system, "b:nodes=2,nic=2x1GB/s,mem=3GB");
    assert_string_equal(q.design[15].network, "y");
    assert_int_equal(q.design[15].pes, 16);
    assert_null(q.design[16].network);
    assert_true(q.rent);
    assert_true(q.budget == 3e6);
    assert_true(q.power_w == 2e6);
    pdl_arena_destroy(a);
}

static void wrong_questions_are_refused_where_they_are_wrong(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"designs: [{system: a, pes: 1}]\n", "workloads: expected a list"},
        {WORK, "designs: expected a list"},
        {WORK "designs: [{system: a}]\n", "a design without 'pes'"},
        {WORK "designs: [{system: [], pes: 1}]\n", "system: an empty list"},
        {WORK "designs: [{system: a, pes: 0}]\n", "q.yaml:2:28"},
        {WORK "designs: [{system: a, pes: 1, sets: 3}]\n", "sets"},
        {WORK "designs: [{system: a, pes: 1}]\nmoney: steal\n",
         "money: 'steal' is none"},
        {WORK "designs: [{system: a, pes: 1}]\nutilisation: 2\n",
         "utilisation"},
        {"workloads: [{model: a, batch: 8}]\ndesigns: [{system: a, pes: 1}]\n",
         "one of tokens, samples and steps"},
        {"workloads: [{model: a, batch: 8, steps: 1, tokens: 2}]\n",
         "one of tokens, samples and steps"},
        {"workloads: [{batch: 8, steps: 1}]\n", "a workload without 'model'"},
        {"workloads: [{model: a, steps: 1}]\n", "'batch' is missing"},
        {"workloads: 3\n", "workloads: expected a list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_question q;
        struct pdl_err err = {"", ""};

        assert_int_not_equal(read_question(a, cases[i].text, &q, &err), PDL_OK);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("case %zu: '%s' lacks '%s'", i, err.msg, cases[i].says);
        pdl_arena_destroy(a);
    }
}

static void grids_too_large_are_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_question q;
    struct pdl_err err = {"", ""};
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    pdl_puts(&b.sink, WORK "designs:\n  - system: a\n    pes: [1");
    for (int i = 0; i < 999; i++)
        pdl_puts(&b.sink, ", 1");
    pdl_puts(&b.sink, "]\n    network: [x");
    for (int i = 0; i < 999; i++)
        pdl_puts(&b.sink, ", x");
    pdl_puts(&b.sink, "]\n");
    assert_int_not_equal(read_question(a, b.text, &q, &err), PDL_OK);
    assert_non_null(strstr(err.msg, "more than 100000 designs"));
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

static void starved_readers_say_so(void **state)
{
    const char *text = WORK "designs: [{system: [a, b], pes: [1, 2]}]\n";
    struct pdl_err err;
    struct pdl_question q;
    struct pdl_prices p;

    (void)state;
    for (size_t limit = 0; limit < 6000; limit += 16) {
        pdl_arena *a = pdl_arena_create(limit);
        enum pdl_status st;

        if (!a)
            continue;
        err = (struct pdl_err){"", ""};
        st = read_question(a, text, &q, &err);
        assert_true(st == PDL_OK || (st == PDL_ENOMEM && *err.msg));
        pdl_arena_reset(a);
        err = (struct pdl_err){"", ""};
        st = read_prices(a, HEAD ITEM("pue") ITEM("host"), &p, &err);
        assert_true(st == PDL_OK || (st == PDL_ENOMEM && *err.msg));
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_ones_are_whole),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(a_grid_is_the_product_of_its_lists),
        cmocka_unit_test(wrong_questions_are_refused_where_they_are_wrong),
        cmocka_unit_test(grids_too_large_are_refused),
        cmocka_unit_test(starved_readers_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
