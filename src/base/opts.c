/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines from a table. Options may stand before or after the
 * arguments; "--" ends them; a value follows its option or its "=". Written
 * here and not with getopt_long, which keeps global state and accepts
 * abbreviations, so that a new option would break a script that used one: a
 * name must be whole. "-" and negative numbers are arguments. */
#include "base_priv.h"

#include <stdio.h>
#include <string.h>

enum { MOST_OPTIONS = 128 }; /* of a command: bits of pdl_args.given */

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

static void suggest_choice(const char *choices, const char *value,
                           struct pdl_err *err)
{
    char best[64] = "", word[64];
    struct pdl_suggest s;
    int distance;

    pdl_suggest_init(&s, value);
    for (const char *p = choices; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");

        distance = s.distance;
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        pdl_suggest_try(&s, word);
        if (s.distance < distance)
            memcpy(best, word, sizeof best);
        p += n;
    }
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", best);
}

static enum pdl_status store(const struct pdl_opt *o, void *base,
                             const char *value, struct pdl_err *err)
{
    void *field = (char *)base + o->offset;
    enum pdl_status st = PDL_OK;
    struct pdl_err inner = {"", ""};

    if (o->choices && value && !among(o->choices, value)) {
        pdl_fail(err, PDL_EINVAL, "--%s: '%.60s' is none of %s", o->name, value,
                 o->choices);
        suggest_choice(o->choices, value, err);
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
    case PDL_OPT_COUNT:
        st = pdl_int_parse(value, INT64_MIN, INT64_MAX, field, &inner);
        if (st == PDL_OK && *(int64_t *)field < 1)
            st = pdl_fail(&inner, PDL_EINVAL, "'%.60s' is less than 1", value);
        break;
    case PDL_OPT_NUM:
        st = pdl_unit_parse(value, PDL_UNIT_NONE, field, &inner);
        break;
    case PDL_OPT_AMOUNT:
        st = pdl_unit_parse(value, PDL_UNIT_NONE, field, &inner);
        if (st == PDL_OK && !(*(double *)field > 0))
            st = pdl_fail(&inner, PDL_EINVAL, "'%.60s' is not above 0", value);
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

/* The i-th option, the command's own first, then the common ones: from --json,
 * or from behind it. */
const struct pdl_opt *base_opt_at(const struct pdl_cmd *cmd, int i)
{
    return i < cmd->nopts ? &cmd->opts[i]
                          : &pdl_common_opts[i - cmd->nopts + cmd->no_json];
}

int base_nopts(const struct pdl_cmd *cmd)
{
    return cmd->nopts + pdl_ncommon_opts - cmd->no_json;
}

/* A command line being read. */
struct reader {
    const struct pdl_cmd *cmd;
    struct pdl_args *args;
    struct pdl_err *err;
    int argc, at;
    char **argv;
};

static enum pdl_status unknown(struct reader *r, const char *name, size_t len)
{
    const struct pdl_cmd *cmd = r->cmd;
    struct pdl_suggest s;
    const char *best, *bare;
    char word[64];

    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    bare = word + strspn(word, "-");
    if (cmd->no_json && strcmp(word, "--json") == 0)
        return pdl_fail(r->err, PDL_EINVAL,
                        "there is no --json: the result has a form of its own");
    pdl_fail(r->err, PDL_EINVAL, "unknown option '%s'", word);
    pdl_suggest_init(&s, bare);
    for (int i = 0; i < base_nopts(cmd); i++)
        pdl_suggest_try(&s, base_opt_at(cmd, i)->name);
    best = pdl_suggest_best(&s);
    for (int i = 0; !best && strlen(bare) > 1 && i < base_nopts(cmd); i++)
        if (strncmp(base_opt_at(cmd, i)->name, bare, strlen(bare)) == 0)
            best = base_opt_at(cmd, i)->name; /* an abbreviation */
    if (best)
        pdl_hint(r->err, "did you mean '--%s'?", best);
    else
        pdl_hint(r->err, "see 'paradl %s --help'", cmd->name);
    return PDL_EINVAL;
}

/* Stores an option; value NULL: it is the next word, if one is wanted. */
static enum pdl_status take(struct reader *r, int i, const char *value)
{
    const struct pdl_opt *o = base_opt_at(r->cmd, i);

    if (o->arg && !value) {
        if (r->at == r->argc)
            return pdl_fail(r->err, PDL_EINVAL, "option '--%s' needs a value",
                            o->name);
        value = r->argv[r->at++];
    }
    if (i < r->cmd->nopts && i < MOST_OPTIONS)
        r->args->given[i / 64] |= UINT64_C(1) << i % 64;
    return store(o, i < r->cmd->nopts ? r->args->opts : (void *)r->args, value,
                 r->err);
}

bool pdl_opt_given(const struct pdl_cmd *cmd, const struct pdl_args *args,
                   const char *name)
{
    for (int i = 0; i < cmd->nopts && i < MOST_OPTIONS; i++)
        if (strcmp(cmd->opts[i].name, name) == 0)
            return args->given[i / 64] >> i % 64 & 1;
    return false;
}

static enum pdl_status take_long(struct reader *r, const char *word)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);

    for (int i = 0; i < base_nopts(r->cmd); i++) {
        const struct pdl_opt *o = base_opt_at(r->cmd, i);

        if (strlen(o->name) != len || memcmp(o->name, name, len) != 0)
            continue;
        if (equals && !o->arg)
            return pdl_fail(r->err, PDL_EINVAL, "option '--%s' takes no value",
                            o->name);
        return take(r, i, equals ? equals + 1 : NULL);
    }
    return unknown(r, word, len + 2);
}

static int find_letter(const struct pdl_cmd *cmd, char letter)
{
    for (int i = 0; i < base_nopts(cmd); i++)
        if (base_opt_at(cmd, i)->letter == letter)
            return i;
    return -1;
}

/* "-qv" is "-q -v"; "-ofile" is "-o file". */
static enum pdl_status take_letters(struct reader *r, const char *word)
{
    enum pdl_status st = PDL_OK;

    for (const char *p = word + 1; *p && st == PDL_OK; p++) {
        int i = find_letter(r->cmd, *p);

        if (i < 0) {
            char name[3] = {'-', *p, '\0'};

            return unknown(r, p == word + 1 ? word : name,
                           p == word + 1 ? strlen(word) : 2);
        }
        if (base_opt_at(r->cmd, i)->arg)
            return take(r, i, p[1] ? p + 1 : NULL);
        st = take(r, i, NULL);
    }
    return st;
}

static enum pdl_status take_argument(struct reader *r, const char *word)
{
    struct pdl_args *args = r->args;

    if (args->npos == r->cmd->max_pos || args->npos == PDL_MAX_ARGS) {
        pdl_fail(r->err, PDL_EINVAL, "unexpected argument '%.80s'", word);
        pdl_hint(r->err, "for example: %s", r->cmd->example);
        return PDL_EINVAL;
    }
    args->pos[args->npos++] = word;
    return PDL_OK;
}

/* "-", "-5", "-.5": not options, unless a command has such a letter. */
static bool is_argument(const struct pdl_cmd *cmd, const char *word)
{
    if (word[0] != '-' || word[1] == '\0')
        return true;
    return strchr("0123456789.", word[1]) && find_letter(cmd, word[1]) < 0;
}

enum pdl_status pdl_opts_parse(const struct pdl_cmd *cmd, int argc, char **argv,
                               struct pdl_args *args, struct pdl_err *err)
{
    struct reader r = {cmd, args, err, argc, 0, argv};
    enum pdl_status st = PDL_OK;
    bool ended = false;

    args->npos = 0;
    memset(args->given, 0, sizeof args->given);
    while (r.at < argc && st == PDL_OK) {
        const char *word = argv[r.at++];

        if (ended || is_argument(cmd, word))
            st = take_argument(&r, word);
        else if (strcmp(word, "--") == 0)
            ended = true;
        else if (word[1] == '-')
            st = take_long(&r, word);
        else
            st = take_letters(&r, word);
    }
    if (st == PDL_OK && args->npos < cmd->min_pos && !args->help) {
        pdl_fail(err, PDL_EINVAL, "%s needs %s", cmd->name, cmd->args);
        pdl_hint(err, "for example: %s", cmd->example);
        st = PDL_EINVAL;
    }
    return st;
}
