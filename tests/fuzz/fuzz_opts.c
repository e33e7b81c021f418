/* Command lines, one argument a line: refused in one line, or every option is
 * of its kind and the arguments are as many as allowed. */
#include "paradl/base.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct options {
    bool flag;
    const char *text, *choice;
    int64_t count, bytes;
    double number, time;
};

// clang-format off
#define AT(field) offsetof(struct options, field)
static const struct pdl_opt opts[] = {
    {"flag", 'f', PDL_OPT_FLAG, AT(flag), NULL, NULL, "a flag"},
    {"text", 't', PDL_OPT_TEXT, AT(text), "TEXT", NULL, "a text"},
    {"choice", 0, PDL_OPT_TEXT, AT(choice), "NAME", "one|two", "one of two"},
    {"count", 'n', PDL_OPT_INT, AT(count), "N", NULL, "a count"},
    {"bytes", 0, PDL_OPT_SIZE, AT(bytes), "BYTES", NULL, "a size"},
    {"number", 0, PDL_OPT_NUM, AT(number), "X", NULL, "a number"},
    {"time", 0, PDL_OPT_TIME, AT(time), "TIME", NULL, "a time"},
};
#undef AT
// clang-format on

enum { MOST = 24 };

static int split(char *text, char **argv)
{
    int n = 0;

    for (char *p = text; p && n < MOST; n++) {
        char *end = strchr(p, '\n');

        if (end)
            *end++ = '\0';
        argv[n] = p;
        p = end;
    }
    argv[n] = NULL;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pdl_cmd cmd = {.name = "fuzz",
                                       .args = "A [B]",
                                       .min_pos = 1,
                                       .max_pos = 2,
                                       .opts = opts,
                                       .nopts = sizeof opts / sizeof opts[0],
                                       .opts_size = sizeof(struct options)};
    struct options o = {.flag = false};
    struct pdl_args args = {.opts = &o};
    struct pdl_err err = {"", ""};
    char *text = strndup((const char *)data, size), *argv[MOST + 1];

    if (!text)
        return 0;
    if (pdl_opts_parse(&cmd, split(text, argv), argv, &args, &err) != PDL_OK) {
        if (!*err.msg || strchr(err.msg, '\n'))
            abort();
    } else if (!args.help &&
               (args.npos < cmd.min_pos || args.npos > cmd.max_pos ||
                (o.choice && strcmp(o.choice, "one") != 0 &&
                 strcmp(o.choice, "two") != 0))) {
        abort();
    }
    free(text);
    return 0;
}
