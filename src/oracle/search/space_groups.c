/* SPDX-License-Identifier: Apache-2.0
 *
 * On a machine with nodes of several kinds: which of them get the first stages
 * of a pipeline, and samples dealt by speed. Every strategy of a space that has
 * such an axis comes once more for each. */
#include "oracle/search/space.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ORDERED = 3, MAX_TEXT = 1024 };

/* "pipe=4(m=8),data=8" with "@old+new" after the number of the axis. */
static void add_laid(struct oracle_space *s, const char *text,
                     enum pdl_axis axis, const int64_t *order)
{
    const char *name = pdl_axis_name(axis), *at = strstr(text, name);
    char out[MAX_TEXT];
    size_t n, digits;

    if (!at || (at > text && at[-1] != ',') || at[strlen(name)] != '=')
        return;
    at += strlen(name) + 1;
    digits = strspn(at, "0123456789");
    if (digits == 0 || (digits == 1 && *at == '1'))
        return;
    n = (size_t)(at - text) + digits;
    n = (size_t)snprintf(out, sizeof out, "%.*s", (int)n, text);
    for (int64_t i = 0; i < s->sys->ngroups && i < MAX_ORDERED; i++) {
        if (n >= sizeof out)
            return;
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? "+" : "@",
                              s->sys->groups[order[i]].name);
    }
    if (n < sizeof out)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s", at + digits);
    if (n < sizeof out)
        oracle_space_add(s, out);
}

/* The next order, as in a dictionary; false: it was the last. */
static bool next_order(int64_t *x, int64_t n)
{
    int64_t i = n - 1, k = n - 1, t;

    while (i > 0 && x[i - 1] > x[i])
        i--;
    if (i <= 0)
        return false;
    while (x[k] < x[i - 1])
        k--;
    t = x[i - 1];
    x[i - 1] = x[k];
    x[k] = t;
    for (k = n - 1; i < k; i++, k--) {
        t = x[i];
        x[i] = x[k];
        x[k] = t;
    }
    return true;
}

void oracle_space_groups(struct oracle_space *s)
{
    int64_t n = s->sys->ngroups, first = s->n, order[MAX_ORDERED] = {0};

    if (n < 2 || n > MAX_ORDERED || s->opt->pes != pdl_system_pes(s->sys))
        return;
    for (int64_t i = 0; i < first && !s->failed; i++) {
        for (int64_t k = 0; k < n; k++)
            order[k] = k;
        add_laid(s, s->list[i], PDL_AXIS_DATA, order);
        while (next_order(order, n))
            add_laid(s, s->list[i], PDL_AXIS_PIPE, order);
    }
}
