/* Command lines: what is understood, and the exact words when it is not. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    bool links;
    const char *out, *share;
    int64_t batch, ranks, size;
    double rate, wait, part;
};

#define AT(field) offsetof(struct options, field)
static const struct pdl_opt opts[] = {
    {"links", 'l', PDL_OPT_FLAG, AT(links), NULL, NULL, "list the links"},
    {"output", 'o', PDL_OPT_TEXT, AT(out), "FILE", NULL, "where it goes"},
    {"share", 0, PDL_OPT_TEXT, AT(share), "HOW", "fair|rtt",
     "a help text that is so long that it must be broken into two lines, and "
     "then into three, because it goes on and on until the reader is tired"},
    {"ranks", 'n', PDL_OPT_INT, AT(ranks), "P", NULL, "how many"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL, "samples"},
    {"share-of", 0, PDL_OPT_AMOUNT, AT(part), "X", NULL, "how much"},
    {"rate", 0, PDL_OPT_NUM, AT(rate), "X", NULL, "learning rate"},
    {"size", 0, PDL_OPT_SIZE, AT(size), "BYTES", NULL, "message size"},
    {"wait", 0, PDL_OPT_TIME, AT(wait), "T", NULL, "how long"},
};

static const struct pdl_cmd cmd = {
    .name = "test it",
    .args = "THING [OTHER]",
    .min_pos = 1,
    .max_pos = 2,
    .summary = "try things - and 'more'",
    .text = "First paragraph.\n\n.Second one starts with a dot, has a "
            "back\\slash and is longer than one line of eighty columns.",
    .example = "paradl test it x",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
};

/* Splits line at blanks and parses it. */
static enum pdl_status parse(const char *line, struct options *o,
                             struct pdl_args *args, struct pdl_err *err)
{
    static char text[256];
    char *argv[20];
    int argc = 0;

    snprintf(text, sizeof text, "%s", line);
    for (char *p = text; *p;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    *o = (struct options){0};
    *args = (struct pdl_args){.opts = o};
    *err = (struct pdl_err){"", ""};
    return pdl_opts_parse(&cmd, argc, argv, args, err);
}

static void every_way_to_write_an_option(void **state)
{
    static const char *const lines[] = {
        "x -l -o f -n 5 --json",    "--links --output f --ranks 5 x --json",
        "-lof -n5 --json x",        "x --output=f --links --ranks=5 --json",
        "-n 4 -n 5 -lo f x --json", "--json -n5 -l -of -- x",
    };
    struct options o;
    struct pdl_args args;
    struct pdl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (parse(lines[i], &o, &args, &err) != PDL_OK)
            fail_msg("%s: %s", lines[i], err.msg);
        assert_true(o.links && args.json && o.ranks == 5);
        assert_string_equal(o.out, "f");
        assert_int_equal(args.npos, 1);
        assert_string_equal(args.pos[0], "x");
    }
    assert_int_equal(
        parse("x --size 32MiB --wait 5us --share rtt", &o, &args, &err),
        PDL_OK);
    assert_true(o.size == 33554432 && o.wait == 5e-6);
    assert_string_equal(o.share, "rtt");
}

static void what_was_given_is_known(void **state)
{
    struct options o;
    struct pdl_args args;
    struct pdl_err err;

    (void)state;
    assert_int_equal(parse("x --batch 3 --rate 0", &o, &args, &err), PDL_OK);
    assert_int_equal(o.batch, 3);
    assert_true(pdl_opt_given(&cmd, &args, "batch"));
    assert_true(pdl_opt_given(&cmd, &args, "rate")); /* 0 is not nothing */
    assert_false(pdl_opt_given(&cmd, &args, "ranks"));
    assert_false(pdl_opt_given(&cmd, &args, "nothing"));
    for (int i = 0; i < 3; i++) {
        static const char *const lines[] = {"x --batch 0", "x --batch -7",
                                            "x --batch many"};

        assert_int_equal(parse(lines[i], &o, &args, &err), PDL_EINVAL);
        assert_non_null(strstr(err.msg, "--batch: '"));
    }
    assert_int_equal(parse("x --share-of 1e-3", &o, &args, &err), PDL_OK);
    assert_true(o.part == 1e-3);
    for (int i = 0; i < 3; i++) {
        static const char *const lines[] = {"x --share-of 0", "x --share-of -1",
                                            "x --share-of much"};

        assert_int_equal(parse(lines[i], &o, &args, &err), PDL_EINVAL);
        assert_non_null(strstr(err.msg, "--share-of: '"));
    }
}

static void dashes_and_negative_numbers_are_arguments(void **state)
{
    struct options o;
    struct pdl_args args;
    struct pdl_err err;

    (void)state;
    assert_int_equal(parse("-5 -", &o, &args, &err), PDL_OK);
    assert_string_equal(args.pos[0], "-5");
    assert_string_equal(args.pos[1], "-");
    assert_int_equal(parse("-- --json -l", &o, &args, &err), PDL_OK);
    assert_string_equal(args.pos[0], "--json");
    assert_string_equal(args.pos[1], "-l");
    assert_false(args.json || o.links);
    assert_int_equal(parse("x --rate -0.5 -n -3 --output=", &o, &args, &err),
                     PDL_OK);
    assert_true(o.rate == -0.5 && o.ranks == -3);
    assert_string_equal(o.out, "");
}

static void what_has_a_form_of_its_own_has_no_json(void **state)
{
    struct pdl_cmd plain = cmd;
    char words[][8] = {"x", "-l", "-q", "--json"};
    char *argv[] = {words[0], words[1], words[2], words[3]};
    struct options o = {0};
    struct pdl_args args = {.opts = &o};
    struct pdl_err err;
    struct pdl_buf b;

    (void)state;
    plain.no_json = true;
    assert_int_equal(pdl_opts_parse(&plain, 4, argv, &args, &err), PDL_EINVAL);
    assert_string_equal(err.msg,
                        "there is no --json: the result has a form of its own");
    assert_int_equal(pdl_opts_parse(&plain, 3, argv, &args, &err), PDL_OK);
    assert_true(o.links && args.quiet && !args.json);
    assert_true(pdl_opt_given(&plain, &args, "links"));
    pdl_buf_init(&b);
    pdl_help_print("paradl", &plain, &b.sink);
    assert_null(strstr(b.text, "--json"));
    assert_non_null(strstr(b.text, "--help"));
    pdl_buf_free(&b);
}

static void mistakes_get_one_clear_line(void **state)
{
    static const struct {
        const char *line, *msg, *hint;
    } cases[] = {
        {"x --jsn", "unknown option '--jsn'", "did you mean '--json'?"},
        {"x --jso=1", "unknown option '--jso'", "did you mean '--json'?"},
        /* abbreviations would break when an option is added */
        {"x --out f", "unknown option '--out'", "did you mean '--output'?"},
        {"x --link", "unknown option '--link'", "did you mean '--links'?"},
        {"x -z", "unknown option '-z'", "see 'paradl test it --help'"},
        {"x -lz", "unknown option '-z'", "see 'paradl test it --help'"},
        {"x -zl", "unknown option '-zl'", "see 'paradl test it --help'"},
        {"x -links", "unknown option '-i'", "see 'paradl test it --help'"},
        {"x --json=1", "option '--json' takes no value", ""},
        {"x --output", "option '--output' needs a value", ""},
        {"x -o", "option '--output' needs a value", ""},
        {"x --share fare", "--share: 'fare' is none of fair|rtt",
         "did you mean 'fair'?"},
        {"x --share", "option '--share' needs a value", ""},
        {"x --share=", "--share: '' is none of fair|rtt", ""},
        {"x -n 1.5", "--ranks: '1.5' is not a whole number", ""},
        {"x --size 32", "--size: '32' needs a unit",
         "write it like 32MiB or 80GB"},
        {"x --wait 5", "--wait: '5' needs a unit", "write it like 5us or 1.5s"},
        {"x --rate fast", "--rate: 'fast' is not a number",
         "write it like 1000"},
        {"", "test it needs THING [OTHER]", "for example: paradl test it x"},
        {"x y z", "unexpected argument 'z'", "for example: paradl test it x"},
    };
    struct options o;
    struct pdl_args args;
    struct pdl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (parse(cases[i].line, &o, &args, &err) != PDL_EINVAL)
            fail_msg("accepted: %s", cases[i].line);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
    }
    assert_int_equal(parse("--help", &o, &args, &err), PDL_OK);
    assert_true(args.help);
}

#define INDENT "                          "

static void help_keeps_to_80_columns(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    pdl_help_print("paradl", &cmd, &b.sink);
    for (const char *p = b.text; *p; p += strcspn(p, "\n") + 1) {
        size_t n = strcspn(p, "\n");

        assert_true(n <= 80);
        assert_true(n == 0 || p[n - 1] != ' ');
    }
    assert_non_null(strstr(b.text, "Usage: paradl test it THING [OTHER] "));
    assert_non_null(
        strstr(b.text, "  -o, --output FILE       where it goes\n"));
    assert_non_null(strstr(b.text, "\n" INDENT "into two lines"));
    /* what an option can be stands there once */
    assert_non_null(strstr(b.text, "tired: fair, rtt\n"));
    assert_null(strstr(b.text, "always or never: "));
    pdl_buf_free(&b);
}

static void the_man_page_escapes_what_roff_would_obey(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    pdl_man_print("paradl", &cmd, &b.sink);
    assert_non_null(strstr(b.text, ".TH \"paradl-test-it\" 1"));
    assert_non_null(strstr(b.text, "paradl\\-test\\-it \\- try things \\- "));
    assert_non_null(strstr(b.text, "First paragraph.\n.PP\n\\&.Second"));
    assert_non_null(strstr(b.text, "back\\eslash"));
    assert_null(strstr(b.text, "\n\n"));
    pdl_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_an_option),
        cmocka_unit_test(what_was_given_is_known),
        cmocka_unit_test(dashes_and_negative_numbers_are_arguments),
        cmocka_unit_test(what_has_a_form_of_its_own_has_no_json),
        cmocka_unit_test(mistakes_get_one_clear_line),
        cmocka_unit_test(help_keeps_to_80_columns),
        cmocka_unit_test(the_man_page_escapes_what_roff_would_obey),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
