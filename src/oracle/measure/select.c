/* SPDX-License-Identifier: Apache-2.0
 *
 * --select: which rows of a file of measurements to take. */
#include "oracle/oracle_priv.h"

#include <fnmatch.h>
#include <string.h>

enum { MAX_VALUE = 256 };

static enum pdl_status known(const char *key, const char *const *keys,
                             struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, key);
    for (int i = 0; keys[i]; i++) {
        if (strcmp(key, keys[i]) == 0)
            return PDL_OK;
        pdl_suggest_try(&s, keys[i]);
    }
    pdl_fail(err, PDL_EINVAL, "--select: no such key: '%s'", key);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

enum pdl_status pdl_row_filter_parse(pdl_arena *a, const char *text,
                                     const char *const *keys,
                                     struct pdl_row_filter *out,
                                     struct pdl_err *err)
{
    char *copy, *rest;

    *out = (struct pdl_row_filter){.n = 0};
    if (!text)
        return PDL_OK;
    copy = pdl_arena_strdup(a, text);
    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (char *part = strtok_r(copy, ",", &rest); part;
         part = strtok_r(NULL, ",", &rest)) {
        char *eq = strchr(part, '=');
        enum pdl_status st;

        if (!eq || eq == part || !eq[1])
            return pdl_fail(err, PDL_EINVAL,
                            "--select: expected KEY=VALUE, found '%s'", part);
        *eq = '\0';
        st = known(part, keys, err);
        if (st != PDL_OK)
            return st;
        if (out->n == (int)(sizeof out->key / sizeof out->key[0]))
            return pdl_fail(err, PDL_EINVAL, "--select: too many conditions");
        out->key[out->n] = part;
        out->value[out->n++] = eq + 1;
    }
    return PDL_OK;
}

static bool one_of(const char *list, const char *value)
{
    while (*list) {
        size_t n = strcspn(list, "|");
        char glob[MAX_VALUE];

        if (n < sizeof glob) {
            memcpy(glob, list, n);
            glob[n] = '\0';
            if (fnmatch(glob, value, 0) == 0)
                return true;
        }
        list += n + (list[n] == '|');
    }
    return false;
}

bool pdl_row_filter_has(const struct pdl_row_filter *s, const char *key,
                        const char *value)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->key[i], key) == 0 && !one_of(s->value[i], value))
            return false;
    return true;
}
