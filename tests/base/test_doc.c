/* Both document readers: the same tree for the same text, places, refusals,
 * and bounds on what hostile input can cost. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum pdl_status reader(pdl_arena *, struct pdl_bytes, const char *,
                               const struct pdl_doc **, struct pdl_err *);

/* An exact-size copy: reading past the end is seen. */
static enum pdl_status read_text(reader *r, pdl_arena *a, const char *text,
                                 size_t len, const struct pdl_doc **out,
                                 struct pdl_err *err)
{
    char *copy = malloc(len ? len : 1);
    struct pdl_bytes in = {copy, len};
    enum pdl_status st;

    memcpy(copy, text, len);
    st = r(a, in, "f", out, err);
    free(copy);
    return st;
}

/* The tree as text: kinds, keys, values, and (places) where they stand. */
static void show(const struct pdl_doc *d, bool places, struct pdl_sink *out)
{
    static const char *const names[] = {"null", "", "list", "map"};

    if (places)
        pdl_printf(out, "%d:%d ", d->line, d->col);
    if (d->key)
        pdl_printf(out, "%s=", d->key);
    if (d->key && places)
        pdl_printf(out, "@%d:%d ", d->key_line, d->key_col);
    pdl_puts(out, names[d->kind]);
    if (d->kind == PDL_DOC_SCALAR)
        pdl_printf(out, d->quoted ? "'%s'" : "%s", d->text);
    if (d->kind >= PDL_DOC_LIST) {
        int n = 0;

        pdl_puts(out, "(");
        for (const struct pdl_doc *c = d->child; c; c = c->next, n++) {
            pdl_puts(out, n ? ", " : "");
            show(c, places, out);
        }
        pdl_puts(out, ")");
        assert_int_equal(n, d->count);
    }
}

static void assert_tree(reader *r, const char *text, bool places,
                        const char *want)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    const struct pdl_doc *d = NULL;
    struct pdl_err err = {"", ""};
    struct pdl_buf b;

    pdl_buf_init(&b);
    if (read_text(r, a, text, strlen(text), &d, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
    show(d, places, &b.sink);
    assert_string_equal(b.text, want);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

static void assert_refused(reader *r, const char *text, size_t len,
                           const char *msg)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    const struct pdl_doc *d = NULL;
    struct pdl_err err = {"", ""};

    if (read_text(r, a, text, len, &d, &err) != PDL_EPARSE)
        fail_msg("accepted: %s", text);
    assert_null(d);
    if (!strstr(err.msg, msg))
        fail_msg("'%s' does not say '%s'", err.msg, msg);
    pdl_arena_destroy(a);
}

static void equal_text_gives_equal_trees(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{}", "map()"},
        {"[]", "list()"},
        {"5", "5"},
        {"null", "null"},
        {"\"null\"", "'null'"},
        {"{\"a\": 1, \"b\": [true, null, \"x\"], \"c\": {\"d\": 1.50}}",
         "map(a=1, b=list(true, null, 'x'), c=map(d=1.50))"},
        {"{\"a\": \"\\u00e4\\n\\\"\\u20ac\"}",
         "map(a='\xc3\xa4\n\"\xe2\x82\xac')"},
        {"[NaN, -Infinity, Infinity]", "list(NaN, -Infinity, Infinity)"},
        {"[12345678901234567890123, 0.1000]",
         "list(12345678901234567890123, 0.1000)"},
        {"{\"\": 1, \"NaN\": \"Infinity NaN\"}", "map(=1, NaN='Infinity NaN')"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_tree(pdl_doc_json, cases[i].text, false, cases[i].want);
        assert_tree(pdl_doc_yaml, cases[i].text, false, cases[i].want);
    }
}

static void places_count_lines_and_characters(void **state)
{
    static const char json[] = "{\n  \"\xc3\xa4\": \"\xe2\x82\xac\", \"b\":\r\n"
                               "\t[1,\"x\" ,{}]}";
    static const char want[] = "1:1 map(2:8 \xc3\xa4=@2:3 '\xe2\x82\xac', "
                               "3:2 b=@2:13 list(3:3 1, 3:5 'x', 3:10 map()))";

    (void)state;
    assert_tree(pdl_doc_json, json, true, want);
    assert_tree(pdl_doc_yaml, json, true, want); /* flow style is JSON */
    assert_tree(pdl_doc_yaml, "a: 1\r\nb:\r\n  - x\r\n", true,
                "1:1 map(1:4 a=@1:1 1, 3:3 b=@2:1 list(3:5 x))");
    assert_tree(pdl_doc_yaml,
                "\xef\xbb\xbf"
                "a: 1",
                false, "map(a=1)");
    assert_tree(pdl_doc_json, "\xef\xbb\xbf{\"a\": 1}", true,
                "1:1 map(1:7 a=@1:2 1)");
}

static void json_escapes_become_utf8(void **state)
{
    (void)state;
    assert_tree(pdl_doc_json,
                "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00E4\\u20ac\", "
                "\"\\uD83D\\ude00\", \"\\udbff\\udfff\"]",
                false,
                "list('\"\\/\b\f\n\r\t', 'A\xc3\xa4\xe2\x82\xac', "
                "'\xf0\x9f\x98\x80', '\xf4\x8f\xbf\xbf')");
}

static void yaml_scalars_stay_text(void **state)
{
    (void)state;
    assert_tree(pdl_doc_yaml,
                "a: no\nb: 0o17\nc: ~\nd:\ne: '~'\nf: |\n  two\n  lines\n",
                false,
                "map(a=no, b=0o17, c=null, d=null, e='~', f='two\nlines\n')");
    assert_tree(pdl_doc_yaml, "a: &anchor 1\n", false, "map(a=1)");
    assert_tree(pdl_doc_yaml, "%YAML 1.1\n---\na: 1\n...\n", false, "map(a=1)");
}

static void json_that_is_none_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"", "f:1:1: "},
        {"{\"a\": 1,}", "f:1:9: "},
        {"[1 2]", "f:1:4: "},
        {"{\"a\": 1}\n}", "f:2:1: "},
        {"{\"a\": 1, \"b\": 2,\n \"a\": 3}", "f:2:2: 'a' is set twice"},
        {"{\"a\": \"\\u0000\"}", "f:1:"},
        {"[\"\\ud800\"]", "f:1:"},
        {"[\"\\udc00x\"]", "f:1:"},
        {"[\"a\tb\"]", "f:1:"},
        {"[\"\xff\"]", "f:1:"},
        {"[01]", "f:1:"},
        {"[1e999]", "f:1:"},
        {"// no\n1", "f:1:1: "},
        /* words that are no values, next to those Python writes */
        {"[1NaN]", "f:1:"},
        {"[-NaN]", "f:1:"},
        {"[1eNaN]", "f:1:"},
        {"[NaN1]", "f:1:"},
        {"[--Infinity]", "f:1:"},
        {"[Infinityx]", "f:1:"},
        {"[NaN \"a\"]", "f:1:"},
        {"{NaN: 1}", "f:1:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(pdl_doc_json, cases[i].text, strlen(cases[i].text),
                       cases[i].msg);
    assert_refused(pdl_doc_json, "[\"a\0b\"]", 7, "f:1:4: text with a NUL");
    assert_refused(pdl_doc_json, "1\0", 2, "f:1:2: text with a NUL byte");
    assert_refused(pdl_doc_json, "1\n\n \0 ", 6, "f:3:2: text with a NUL");
    assert_refused(pdl_doc_json, "\xef\xbb\xbf", 3, "f:1:1: ");
}

static void yaml_that_is_none_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"", "f: the file is empty"},
        {"# nothing\n", "f: the file is empty"},
        {"a: 1\nb: 2\na: 3\n", "f:3:1: 'a' is set twice"},
        {"a: &x 1\nb: *x\n", "f:2:4: aliases (*name) are not accepted"},
        {"a: &x {b: 1}\n<<: *x\n", "f:2:5: aliases (*name) are not accepted"},
        {"a: 1\n--- \nb: 2\n", "f:2:1: more than one document"},
        {"a: !!int 5\n", "f:1:4: tags (!name) are not accepted"},
        {"!m\na: 1\n", "f:1:1: tags (!name) are not accepted"},
        {"a:\n\tb: 1\n", "f:2:1: "},
        {"a: [1\nb: 2\n", "f:2:2: "},
        {"? [1]\n: 2\n", "f:1:3: a key must be text"},
        {"~: 1\n", "f:1:1: a key must be text"},
        {": 1\n", "f:1:1: "},
        {"ok: 1\nb\xc3\xa4: \xff\n", "f:2:5: "},
        {"a: \"\\0\"\n", "f:1:4: text with a NUL byte"},
        {"a: \x01\n", "f:1:4: control characters are not allowed"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(pdl_doc_yaml, cases[i].text, strlen(cases[i].text),
                       cases[i].msg);
    assert_refused(pdl_doc_yaml, "a: b\0c", 6, "f:1:5: ");
}

static void depth_is_bounded(void **state)
{
    static char text[200001];

    (void)state;
    for (int i = 0; i < 64; i++) {
        text[i] = '[';
        text[64 + i] = ']';
    }
    for (int k = 0; k < 2; k++) {
        reader *r = k ? pdl_doc_yaml : pdl_doc_json;
        pdl_arena *a = pdl_arena_create(1 << 20);
        const struct pdl_doc *d;

        assert_int_equal(read_text(r, a, text, 128, &d, NULL), PDL_OK);
        pdl_arena_destroy(a);
    }
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_refused(pdl_doc_json, text, 130, "f:1:65: nested deeper than 64");
    assert_refused(pdl_doc_yaml, text, 130, "f:1:65: nested deeper than 64");
    memset(text, '[', 200000);
    assert_refused(pdl_doc_json, text, 10000, "f:1:");
    assert_refused(pdl_doc_yaml, text, 200000, "f:1:65: nested deeper than 64");
    for (int i = 0; i < 100000; i++)
        memcpy(text + 2 * i, "- ", 2);
    assert_refused(pdl_doc_yaml, text, 200000, "nested deeper than 64");
}

/* Nine lines that stand for a billion values, and long single lines on which
 * a careless column count is quadratic. */
static void hostile_input_costs_little(void **state)
{
    enum { N = 200000 };
    struct pdl_buf b;
    double start = pdl_cpu_s();
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_doc *d;

    (void)state;
    pdl_buf_init(&b);
    pdl_puts(&b.sink, "a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c <= 'i'; c++)
        pdl_printf(&b.sink, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n",
                   c, c, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1,
                   c - 1);
    assert_refused(pdl_doc_yaml, b.text, b.len, "f:2:8: aliases");
    pdl_buf_free(&b);
    pdl_buf_init(&b);
    pdl_puts(&b.sink, "{");
    for (int i = 0; i < N; i++)
        pdl_printf(&b.sink, "%s\"k%d\": %d", i ? ", " : "", i, i);
    pdl_puts(&b.sink, "}");
    assert_int_equal(read_text(pdl_doc_json, a, b.text, b.len, &d, NULL),
                     PDL_OK);
    assert_int_equal(d->count, N);
    assert_int_equal(read_text(pdl_doc_yaml, a, b.text, b.len, &d, NULL),
                     PDL_OK);
    assert_int_equal(d->count, N);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
    assert_true(pdl_cpu_s() - start < 60); /* a fraction of a second, really */
}

/* jansson allocates outside the arena: it must not even start on a text whose
 * tree cannot fit. */
static void more_values_than_fit_are_refused_at_once(void **state)
{
    enum { N = 1 << 20 };
    static char text[2 * N + 1];
    pdl_arena *a = pdl_arena_create(16 << 20);
    const struct pdl_doc *d;
    struct pdl_err err;

    (void)state;
    for (int i = 0; i < N; i++)
        memcpy(text + 2 * i, i ? ",0" : "[0", 2);
    text[2 * N] = ']';
    assert_int_equal(read_text(pdl_doc_json, a, text, sizeof text, &d, &err),
                     PDL_ENOMEM);
    assert_string_equal(err.msg, "f: too large to hold in memory");
    assert_true(pdl_arena_used(a) < 5 << 20); /* copies, and no tree */
    pdl_arena_destroy(a);
}

static void both_readers_starve_cleanly(void **state)
{
    static const char text[] =
        "{\"a\": [1, 2, {\"b\": \"text\"}], \"c\": {\"d\": null}, \"e\": 1,"
        " \"f\": 1, \"g\": 1, \"h\": 1, \"i\": 1, \"j\": 1, \"k\": 1}";

    (void)state;
    for (int k = 0; k < 2; k++) {
        enum pdl_status st = PDL_ENOMEM;
        size_t limit = 0;

        for (; st != PDL_OK && limit < 1 << 16; limit += 16) {
            pdl_arena *a = pdl_arena_create(limit);
            const struct pdl_doc *d = NULL;
            struct pdl_err err = {"", ""};

            st = read_text(k ? pdl_doc_yaml : pdl_doc_json, a, text,
                           strlen(text), &d, &err);
            if (st != PDL_OK) {
                assert_int_equal(st, PDL_ENOMEM);
                assert_string_equal(err.msg, "f: too large to hold in memory");
                assert_null(d);
            }
            pdl_arena_destroy(a);
        }
        assert_int_equal(st, PDL_OK);
        assert_true(limit > 1000); /* it did starve before */
    }
}

/* ---- values -------------------------------------------------------------- */

static const char values[] = "int: 42\nbig: 99999999999999999999\nsize: 32MiB\n"
                             "yes: true\nno: no\nlist: [1]\nnothing: ~\n"
                             "neg: -1\n";

static void values_are_read_or_refused_with_key_and_place(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    const struct pdl_doc *d = NULL, *list;
    struct pdl_err err;
    const char *text = NULL;
    int64_t n = 0;
    double v = 0;
    bool flag = false;

    (void)state;
    assert_int_equal(
        read_text(pdl_doc_yaml, a, values, strlen(values), &d, &err), PDL_OK);
    list = pdl_doc_get(d, "list");
    assert_int_equal(pdl_doc_int(pdl_doc_get(d, "int"), 0, 100, &n, &err),
                     PDL_OK);
    assert_int_equal(n, 42);
    assert_int_equal(pdl_doc_int(pdl_doc_get(d, "int"), 0, 10, &n, &err),
                     PDL_EPARSE);
    assert_string_equal(err.msg, "f:1:6: int: 42 is outside 0 to 10");
    assert_int_equal(pdl_doc_int(pdl_doc_get(d, "big"), 0, INT64_MAX, &n, &err),
                     PDL_EPARSE);
    assert_int_equal(pdl_doc_int(list, 0, 10, &n, &err), PDL_EPARSE);
    assert_string_equal(err.msg,
                        "f:6:7: list: expected a whole number, found a list");
    assert_int_equal(n, 42);
    assert_int_equal(
        pdl_doc_num(pdl_doc_get(d, "size"), PDL_UNIT_BYTES, 0, 1e9, &v, &err),
        PDL_OK);
    assert_true(v == 33554432);
    assert_int_equal(
        pdl_doc_num(pdl_doc_get(d, "neg"), PDL_UNIT_NONE, 0, 1, &v, &err),
        PDL_EPARSE);
    assert_string_equal(err.msg, "f:8:6: neg: -1 is outside 0 to 1");
    assert_int_equal(
        pdl_doc_num(pdl_doc_get(d, "int"), PDL_UNIT_BYTES, 0, 1e9, &v, &err),
        PDL_EPARSE);
    assert_string_equal(err.msg, "f:1:6: int: '42' needs a unit");
    assert_string_equal(err.hint, "write it like 32MiB or 80GB");
    assert_int_equal(pdl_doc_bool(pdl_doc_get(d, "yes"), &flag, &err), PDL_OK);
    assert_true(flag);
    assert_int_equal(pdl_doc_bool(pdl_doc_get(d, "no"), &flag, &err),
                     PDL_EPARSE);
    assert_string_equal(err.msg, "f:5:5: no: 'no' is not true or false");
    assert_int_equal(pdl_doc_str(pdl_doc_get(d, "no"), &text, &err), PDL_OK);
    assert_string_equal(text, "no");
    assert_null(pdl_doc_get(d, "nothing"));
    assert_null(pdl_doc_get(d, "absent"));
    assert_null(pdl_doc_get(list, "x"));
    assert_null(pdl_doc_get(NULL, "x"));
    /* NULL for the error is allowed everywhere */
    assert_int_equal(pdl_doc_int(list, 0, 1, &n, NULL), PDL_EPARSE);
    assert_int_equal(pdl_doc_bool(pdl_doc_get(d, "no"), &flag, NULL),
                     PDL_EPARSE);
    pdl_arena_destroy(a);
}

static void unknown_keys_are_refused(void **state)
{
    static const char *const keys[] = {"nodes", "bandwidth", NULL};
    static const char text[] = "nodes: 1\nbandwith: 2\n", list[] = "[1, 2]";
    pdl_arena *a = pdl_arena_create(1 << 20);
    const struct pdl_doc *d = NULL;
    struct pdl_err err;

    (void)state;
    assert_int_equal(read_text(pdl_doc_yaml, a, text, strlen(text), &d, &err),
                     PDL_OK);
    assert_int_equal(pdl_doc_only(d, keys, &err), PDL_EPARSE);
    assert_string_equal(err.msg, "f:2:1: unknown key 'bandwith'");
    assert_string_equal(err.hint, "did you mean 'bandwidth'?");
    assert_int_equal(read_text(pdl_doc_yaml, a, list, strlen(list), &d, &err),
                     PDL_OK);
    assert_int_equal(pdl_doc_only(d, keys, &err), PDL_EPARSE);
    assert_string_equal(err.msg, "f:1:1: expected a map, found a list");
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_text_gives_equal_trees),
        cmocka_unit_test(places_count_lines_and_characters),
        cmocka_unit_test(json_escapes_become_utf8),
        cmocka_unit_test(yaml_scalars_stay_text),
        cmocka_unit_test(json_that_is_none_is_refused_with_its_place),
        cmocka_unit_test(yaml_that_is_none_is_refused_with_its_place),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(hostile_input_costs_little),
        cmocka_unit_test(more_values_than_fit_are_refused_at_once),
        cmocka_unit_test(both_readers_starve_cleanly),
        cmocka_unit_test(values_are_read_or_refused_with_key_and_place),
        cmocka_unit_test(unknown_keys_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
