/* SPDX-License-Identifier: Apache-2.0
 *
 * Which clause of a strategy a layer obeys. A clause names one layer, a range
 * "conv1..pool5" in the order of the network, or a glob; the later clause
 * wins, and "*" is what is left. */
#include "plan_priv.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static int find_node(const struct pdl_model *m, const char *name)
{
    for (int i = 0; i < m->nnodes; i++)
        if (strcmp(m->nodes[i].name, name) == 0)
            return i;
    return -1;
}

static enum pdl_status no_layer(const struct pdl_model *m, const char *name,
                                struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_fail(err, PDL_EINVAL, "strategy: %s has no layer '%.80s'", m->name,
             name);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < m->nnodes; i++)
        pdl_suggest_try(&s, m->nodes[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl model show %s --layers' lists them", m->name);
    return PDL_EINVAL;
}

static enum pdl_status bind_range(const struct pdl_model *m, const char *layers,
                                  const char *dots, int clause, int *out,
                                  struct pdl_err *err)
{
    char first[256];
    int from, to;

    snprintf(first, sizeof first, "%.*s", (int)(dots - layers), layers);
    from = find_node(m, first);
    to = find_node(m, dots + 2);
    if (from < 0 || to < 0)
        return no_layer(m, from < 0 ? first : dots + 2, err);
    if (to < from) {
        pdl_fail(err, PDL_EINVAL, "strategy: %s comes after %s", first,
                 dots + 2);
        pdl_hint(err, "write the range as %s..%s", dots + 2, first);
        return PDL_EINVAL;
    }
    for (int i = from; i <= to; i++)
        out[i] = clause;
    return PDL_OK;
}

/* "@conv": by operator; else a glob of names. */
static bool is_named(const struct pdl_node *n, const char *layers)
{
    return *layers == '@' ? strcmp(layers + 1, n->op->name) == 0
                          : fnmatch(layers, n->name, 0) == 0;
}

static enum pdl_status bind_glob(const struct pdl_model *m, const char *layers,
                                 int clause, int *out, struct pdl_err *err)
{
    bool any = false;

    for (int i = 0; i < m->nnodes; i++)
        if (is_named(&m->nodes[i], layers)) {
            out[i] = clause;
            any = true;
        }
    return any ? PDL_OK : no_layer(m, layers, err);
}

enum pdl_status pdl_strategy_bind(const struct pdl_strategy *s,
                                  const struct pdl_model *m, int *clause,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < m->nnodes; i++)
        clause[i] = -1;
    for (int c = 0; c < s->nclauses && st == PDL_OK; c++) {
        const char *layers = s->clause[c].layers;
        const char *dots = strstr(layers, "..");

        st = dots ? bind_range(m, layers, dots, c, clause, err)
                  : bind_glob(m, layers, c, clause, err);
    }
    return st;
}
