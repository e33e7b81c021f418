/* Completions of a table with everything in it: groups, a group that is also
 * a command ("plan"), the same second word in two groups, choices, quotes.
 * bash is asked by calling its function, fish by its own "complete -C". */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct pdl_opt show_opts[] = {
    {"layers", 'l', PDL_OPT_FLAG, 0, NULL, NULL, "it's [all]: of $them `x`"},
    {"share", 0, PDL_OPT_TEXT, 0, "HOW", "fair|rtt", "how to \\ share"},
    {"output", 'o', PDL_OPT_TEXT, 0, "FILE", NULL, "where it goes"},
};

// clang-format off
static const struct pdl_cmd
    model_show  = {.name = "model show", .args = "MODEL", .summary = "a: b",
                   .opts = show_opts, .nopts = 3},
    model_list  = {.name = "model list", .args = "", .summary = "it's"},
    system_show = {.name = "system show", .args = "SYSTEM", .summary = "s"},
    plan        = {.name = "plan", .args = "MODEL", .summary = "p"},
    plan_show   = {.name = "plan show", .args = "FILE", .summary = "q",
                   .opts = show_opts, .nopts = 1},
    help        = {.name = "help", .args = "[COMMAND]", .summary = "h"},
    completion  = {.name = "completion", .args = "bash|zsh|fish",
                   .summary = "c"};
// clang-format on
static const struct pdl_cmd *const cmds[] = {
    &model_show, &model_list, &system_show, &plan,
    &plan_show,  &help,       &completion};
enum { NCMDS = sizeof cmds / sizeof cmds[0] };

static void script(const char *shell, struct pdl_buf *b)
{
    pdl_buf_init(b);
    assert_true(pdl_completion_print("paradl", cmds, NCMDS, shell, &b->sink));
}

/* Runs the shell on the text and returns what it printed, blanks for lines. */
static void run(const char *shell, const char *text, char *out, size_t size)
{
    char name[] = "/tmp/pdl-test-XXXXXX", cmd[64];
    int fd = mkstemp(name);
    size_t n;
    FILE *f;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    snprintf(cmd, sizeof cmd, "%s %s 2>&1", shell, name);
    f = popen(cmd, "r");
    n = fread(out, 1, size - 1, f);
    pclose(f);
    unlink(name);
    out[n] = '\0';
    for (char *p = out; *p; p++)
        if (*p == '\n')
            *p = p[1] ? ' ' : '\0';
}

static const struct {
    const char *typed, *want; /* the word being typed is the last */
} cases[] = {
    {"paradl ", "model system plan help completion"},
    {"paradl mo", "model"},
    {"paradl model ", "show list"},
    {"paradl model s", "show"},
    {"paradl system ", "show"},
    {"paradl plan ", "show"},
    {"paradl model list --", "--json --color --quiet --verbose --help"},
    {"paradl model show --l", "--layers"},
    {"paradl system show --l", ""},
    {"paradl plan --l", ""},
    {"paradl plan show --l", "--layers"},
    {"paradl model show x --share ", "fair rtt"},
    {"paradl model show x --share f", "fair"},
    {"paradl completion ", "bash zsh fish"},
    {"paradl help c", "completion"},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static void bash_offers_what_fits(void **state)
{
    struct pdl_buf b;
    char got[1000];

    (void)state;
    for (int i = 0; i < NCASES; i++) {
        script("bash", &b);
        pdl_printf(&b.sink,
                   "line='%s'; COMP_WORDS=($line)\n"
                   "[ \"${line%% }\" = \"$line\" ] || COMP_WORDS+=('')\n"
                   "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_paradl\n"
                   "echo \"${COMPREPLY[@]}\"\n",
                   cases[i].typed);
        run("bash", b.text, got, sizeof got);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s: %s", cases[i].typed, got);
        pdl_buf_free(&b);
    }
}

/* Sorted, as fish prints them; where we say nothing it offers files. */
static bool same_words(const char *a, const char *b)
{
    char word[64];
    int n = 0, m = 0;

    for (const char *p = a; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");

        snprintf(word, sizeof word, " %.*s ", (int)len, p);
        n++;
        char padded[1100];
        snprintf(padded, sizeof padded, " %s ", b);
        if (!strstr(padded, word))
            return false;
        p += len;
    }
    for (const char *p = b; *p; p += strspn(p, " ")) {
        m++;
        p += strcspn(p, " ");
    }
    return n == m;
}

static void fish_offers_what_fits(void **state)
{
    struct pdl_buf b;
    char got[1000];

    (void)state;
    if (system("command -v fish >/dev/null") != 0) {
        print_message("SKIPPED: fish is not installed\n");
        skip();
    }
    for (int i = 0; i < NCASES; i++) {
        if (!*cases[i].want || strcmp(cases[i].typed, "paradl plan ") == 0)
            continue;
        script("fish", &b);
        pdl_printf(&b.sink, "complete -C '%s' | string split -f1 \\t\n",
                   cases[i].typed);
        run("fish", b.text, got, sizeof got);
        if (!same_words(got, cases[i].want))
            fail_msg("%s: %s", cases[i].typed, got);
        pdl_buf_free(&b);
    }
}

static void every_script_is_valid_in_its_shell(void **state)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    struct pdl_buf b;
    char got[1000], cmd[64];

    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(cmd, sizeof cmd, "command -v %s >/dev/null", shells[i]);
        if (system(cmd) != 0) {
            print_message("SKIPPED: %s is not installed\n", shells[i]);
            continue;
        }
        script(shells[i], &b);
        snprintf(cmd, sizeof cmd, "%s -n", shells[i]);
        run(cmd, b.text, got, sizeof got);
        assert_string_equal(got, "");
        pdl_buf_free(&b);
    }
}

static void zsh_gets_words_and_texts_quoted(void **state)
{
    struct pdl_buf b;

    (void)state;
    script("zsh", &b);
    assert_non_null(strstr(b.text, "'model:show list'"));
    assert_non_null(strstr(b.text, "'show:a\\: b'"));
    assert_non_null(strstr(b.text, "'list:it'\\''s'"));
    assert_non_null(strstr(b.text, "'--layers[it'\\''s \\[all\\]\\: of"));
    assert_non_null(
        strstr(b.text, "'--share=[how to \\\\ share]:HOW:(fair rtt)'"));
    assert_non_null(strstr(b.text, "'*:argument:(bash zsh fish)'"));
    pdl_buf_free(&b);
}

static void other_shells_are_refused(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    assert_false(pdl_completion_print("paradl", cmds, NCMDS, "tcsh", &b.sink));
    assert_int_equal(b.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bash_offers_what_fits),
        cmocka_unit_test(fish_offers_what_fits),
        cmocka_unit_test(every_script_is_valid_in_its_shell),
        cmocka_unit_test(zsh_gets_words_and_texts_quoted),
        cmocka_unit_test(other_shells_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
