/* JSON as a stream: the same answer as jansson on what is JSON and what is
 * not, in chunks of any size, plain and gzip. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static const char marks[] = ".{[)k\"#w";

/* One letter for each token, with its text. */
static enum pdl_status tokens(const char *text, size_t len, struct pdl_buf *b,
                              struct pdl_err *err)
{
    char *copy = malloc(len ? len : 1);
    struct pdl_bytes in = {copy, len};
    struct pdl_pull *p;
    enum pdl_token kind = PDL_TOKEN_OBJECT;
    const char *word;
    enum pdl_status st;

    assert_non_null(copy);
    memcpy(copy, text, len);
    assert_int_equal(pdl_pull_bytes(in, "f", &p, err), PDL_OK);
    do {
        st = pdl_pull_next(p, &kind, &word, err);
        if (st == PDL_OK && b)
            pdl_printf(&b->sink, "%c%s", marks[kind], word);
    } while (st == PDL_OK && kind != PDL_TOKEN_END);
    pdl_pull_close(p);
    free(copy);
    return st;
}

static void tokens_come_in_order(void **state)
{
    const char *text = "{\"a\\n\\u0041\\u00e9\" : [1, -2.5e+3,\ttrue],\n"
                       "\"b\":{} , \"c\": [ ], \"d\": NaN, \"e\":\"\"}";
    struct pdl_buf b;
    struct pdl_err err = {"", ""};

    (void)state;
    pdl_buf_init(&b);
    assert_int_equal(tokens(text, strlen(text), &b, &err), PDL_OK);
    assert_string_equal(b.text, "{ka\nA?[#1#-2.5e+3wtrue)kb{)kc[)kdwNaNke\").");
    pdl_buf_free(&b);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    static const struct {
        const char *text, *msg;
    } wrong[] = {
        {"", "f:1:0: the text ends early"},
        {"[1,]", "f:1:3: a value is expected here"},
        {"[1 2]", "f:1:3: a comma is expected here"},
        {"{\"a\" 1}", "f:1:5: a colon is expected here"},
        {"{1:2}", "f:1:1: a key in quotes is expected here"},
        {"[01]", "f:1:3: a value is expected here"},
        {"[1.]", "f:1:3: a value is expected here"},
        {"[tru]", "f:1:4: a value is expected here"},
        {"[\"a\\q\"]", "f:1:5: a string that cannot be read"},
        {"[\"a", "f:1:3: the text ends inside a string"},
        {"[\"a\nb\"]", "f:1:3: a control character in a string"},
        {"{}\n{}", "f:2:0: text after the value"},
        {"[}", "f:1:1: a value is expected here"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pdl_err err = {"", ""};

        assert_int_equal(
            tokens(wrong[i].text, strlen(wrong[i].text), NULL, &err),
            PDL_EPARSE);
        assert_string_equal(err.msg, wrong[i].msg);
    }
}

/* Random edits of a document: accepted exactly when jansson accepts. */
static void it_agrees_with_jansson(void **state)
{
    const char *seed = "{\"a\": [1, 2.5, {\"b\": \"x\\ty\"}], \"c\": -1e-7}";
    const char *alphabet = "{}[]\",:\\ 0123.e-atrufn";
    struct pdl_rng r = {7, 0, 0};
    int valid = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[80];
        size_t n = strlen(seed);
        struct pdl_err err = {"", ""};
        json_t *j;

        memcpy(text, seed, n + 1);
        for (uint64_t k = pdl_rng_below(&r, 4); k > 0; k--)
            text[pdl_rng_below(&r, n)] =
                alphabet[pdl_rng_below(&r, strlen(alphabet))];
        j = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        if ((tokens(text, n, NULL, &err) == PDL_OK) != (j != NULL))
            fail_msg("%s: %s", text, err.msg);
        valid += j != NULL;
        json_decref(j);
    }
    assert_in_range(valid, 3000, 17000);
}

static void depth_is_bounded(void **state)
{
    char text[70];
    struct pdl_err err = {"", ""};

    (void)state;
    memset(text, '[', sizeof text);
    assert_int_equal(tokens(text, sizeof text, NULL, &err), PDL_EPARSE);
    assert_string_equal(err.msg, "f:1:65: nested deeper than 64");
}

/* A file of several chunks, gzip and plain, whose values are skipped. */
static void files_are_read_plain_and_packed(void **state)
{
    char path[] = "/tmp/paradl-pull-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int packed = 0; packed < 2; packed++) {
        gzFile f = gzopen(path, packed ? "wb" : "wbT");
        struct pdl_pull *p;
        struct pdl_err err = {"", ""};
        enum pdl_token kind;
        const char *text;
        int keys = 0;

        gzprintf(f, "{");
        for (int i = 0; i < 20000; i++)
            gzprintf(f, "%s\"k%d\": {\"x\": [%d, {}], \"y\": \"z\"}",
                     i ? ",\n" : "", i, i);
        gzprintf(f, "}");
        gzclose(f);
        assert_int_equal(pdl_pull_open(path, &p, &err), PDL_OK);
        assert_int_equal(pdl_pull_next(p, &kind, NULL, &err), PDL_OK);
        while (pdl_pull_next(p, &kind, &text, &err) == PDL_OK &&
               kind == PDL_TOKEN_KEY) {
            assert_int_equal(strtol(text + 1, NULL, 10), keys++);
            assert_int_equal(pdl_pull_skip(p, &err), PDL_OK);
        }
        assert_int_equal(keys, 20000);
        assert_int_equal(kind, PDL_TOKEN_CLOSE);
        assert_int_equal(pdl_pull_next(p, &kind, NULL, &err), PDL_OK);
        assert_int_equal(kind, PDL_TOKEN_END);
        pdl_pull_close(p);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_in_order),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(it_agrees_with_jansson),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(files_are_read_plain_and_packed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
