/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines from a table, parsed by getopt_long. Options may stand before
 * or after the arguments; "--" ends them. */
#include "base_priv.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct pdl_args, field)
// clang-format off
const struct pdl_opt pdl_common_opts[] = {
    {"json", 0, PDL_OPT_FLAG, AT(json), NULL, NULL,
     "print one JSON object instead of text"},
    {"color", 0, PDL_OPT_TEXT, AT(color), "WHEN", "auto|always|never",
     "colours: auto (on a terminal), always or never"},
    {"quiet", 'q', PDL_OPT_FLAG, AT(quiet), NULL, NULL,
     "no messages and no progress, only the result"},
    {"verbose", 'v', PDL_OPT_FLAG, AT(verbose), NULL, NULL,
     "say more"},
    {"help", 'h', PDL_OPT_FLAG, AT(help), NULL, NULL,
     "show this help"},
};
// clang-format on
const int pdl_ncommon_opts = sizeof pdl_common_opts / sizeof pdl_common_opts[0];
#undef AT

enum { MAX_OPTS = 64, FIRST_LONG = 1000 };

static bool among(const char *choices, const char *value)
{
    size_t n = strlen(value);

    for (const char *p = choices; p; p = strchr(p, '|')) {
        if (*p == '|')
            p++;
        if (strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == '\0'))
            return true;
    }
    return false;
}

static enum pdl_status store(const struct pdl_opt *o, void *base,
                             const char *value, struct pdl_err *err)
{
    void *field = (char *)base + o->offset;
    enum pdl_status st = PDL_OK;
    struct pdl_err inner = {"", ""};

    if (o->choices && !among(o->choices, value)) {
        pdl_fail(err, PDL_EINVAL, "--%s: '%.60s' is none of %s", o->name, value,
                 o->choices);
        return PDL_EINVAL;
    }
    switch (o->kind) {
    case PDL_OPT_FLAG:
        *(bool *)field = true;
        break;
    case PDL_OPT_TEXT:
        *(const char **)field = value;
        break;
    case PDL_OPT_INT:
        st = pdl_int_parse(value, INT64_MIN, INT64_MAX, field, &inner);
        break;
    case PDL_OPT_NUM:
        st = pdl_unit_parse(value, PDL_UNIT_NONE, field, &inner);
        break;
    case PDL_OPT_SIZE:
        st = pdl_bytes_parse(value, field, &inner);
        break;
    case PDL_OPT_TIME:
        st = pdl_unit_parse(value, PDL_UNIT_SECONDS, field, &inner);
        break;
    }
    if (st == PDL_OK)
        return st;
    pdl_fail(err, PDL_EINVAL, "--%s: %s", o->name, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return PDL_EINVAL;
}

/* The i-th option, the command's own first. */
static const struct pdl_opt *opt_at(const struct pdl_cmd *cmd, int i)
{
    return i < cmd->nopts ? &cmd->opts[i] : &pdl_common_opts[i - cmd->nopts];
}

static enum pdl_status unknown(const struct pdl_cmd *cmd, const char *word,
                               struct pdl_err *err)
{
    struct pdl_suggest s;
    char name[64];
    size_t n = strcspn(word, "=");

    n = n < sizeof name ? n : sizeof name - 1;
    memcpy(name, word, n);
    name[n] = '\0';
    pdl_fail(err, PDL_EINVAL, "unknown option '%s'", name);
    pdl_suggest_init(&s, name + strspn(name, "-"));
    for (int i = 0; i < cmd->nopts + pdl_ncommon_opts; i++)
        pdl_suggest_try(&s, opt_at(cmd, i)->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '--%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "see 'paradl %s --help'", cmd->name);
    return PDL_EINVAL;
}

struct tables {
    struct option longs[MAX_OPTS + 1];
    char shorts[3 * MAX_OPTS];
    int count;
};

static void build(const struct pdl_cmd *cmd, struct tables *t)
{
    char *s = t->shorts;

    t->count = cmd->nopts + pdl_ncommon_opts;
    if (t->count > MAX_OPTS)
        abort(); /* our own table, not input */
    *s++ = ':';
    for (int i = 0; i < t->count; i++) {
        const struct pdl_opt *o = opt_at(cmd, i);

        t->longs[i] =
            (struct option){o->name, o->arg ? 1 : 0, NULL, FIRST_LONG + i};
        if (o->letter) {
            *s++ = o->letter;
            if (o->arg)
                *s++ = ':';
        }
    }
    *s = '\0';
}

static int index_of(const struct pdl_cmd *cmd, const struct tables *t, int c)
{
    if (c >= FIRST_LONG)
        return c - FIRST_LONG;
    for (int i = 0; i < t->count; i++)
        if (opt_at(cmd, i)->letter == c)
            return i;
    return -1;
}

static enum pdl_status positional(const struct pdl_cmd *cmd, int argc,
                                  char **argv, int first, struct pdl_args *args,
                                  struct pdl_err *err)
{
    args->npos = 0;
    for (int i = first; i < argc; i++) {
        if (args->npos == cmd->max_pos || args->npos == PDL_MAX_ARGS)
            return pdl_fail(err, PDL_EINVAL, "unexpected argument '%.80s'",
                            argv[i]);
        args->pos[args->npos++] = argv[i];
    }
    if (args->npos < cmd->min_pos && !args->help) {
        pdl_fail(err, PDL_EINVAL, "%s needs %s", cmd->name, cmd->args);
        pdl_hint(err, "for example: %s", cmd->example);
        return PDL_EINVAL;
    }
    return PDL_OK;
}

enum pdl_status pdl_opts_parse(const struct pdl_cmd *cmd, int argc, char **argv,
                               struct pdl_args *args, struct pdl_err *err)
{
    /* getopt wants a program name in front, and permutes what it is given */
    char **copy = calloc((size_t)argc + 2, sizeof *copy);
    enum pdl_status st = PDL_OK;
    struct tables t = {.count = 0};
    int c;

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    copy[0] = (char *)(uintptr_t) "paradl";
    for (int i = 0; i < argc; i++)
        copy[i + 1] = argv[i];
    build(cmd, &t);
    optind = 0; /* restart */
    opterr = 0;
    while (st == PDL_OK &&
           (c = getopt_long(argc + 1, copy, t.shorts, t.longs, NULL)) != -1) {
        int i = index_of(cmd, &t, c);

        if (c == ':')
            st = pdl_fail(err, PDL_EINVAL, "option '%.60s' needs a value",
                          copy[optind - 1]);
        else if (i < 0)
            st = unknown(cmd, copy[optind - 1], err);
        else
            st = store(opt_at(cmd, i), i < cmd->nopts ? args->opts : args,
                       optarg, err);
    }
    if (st == PDL_OK)
        st = positional(cmd, argc + 1, copy, optind, args, err);
    free(copy);
    return st;
}
