/* SPDX-License-Identifier: Apache-2.0
 *
 * Which clause of a strategy a layer obeys. A clause names one layer, a range
 * "conv1..pool5" in the order of the network, a glob, or several of them joined
 * by '+'; the later clause wins, and "*" is what is left. */
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

    if (m->nnodes == 0)
        return pdl_fail(err, PDL_EINVAL, "%s has no layers", m->name);
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

/* What layers obey: the clause, and of a range which one it is (-1: none). */
struct bound {
    int *clause, *range;
    int now, nranges;
};

static enum pdl_status bind_range(const struct pdl_model *m, const char *layers,
                                  const char *dots, struct bound *b,
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
    for (int i = from; i <= to; i++) {
        b->clause[i] = b->now;
        if (b->range)
            b->range[i] = b->nranges;
    }
    b->nranges++;
    return PDL_OK;
}

/* "@conv": by operator; else a glob of names. */
static bool is_named(const struct pdl_node *n, const char *layers)
{
    return *layers == '@' ? strcmp(layers + 1, n->op->name) == 0
                          : fnmatch(layers, n->name, 0) == 0;
}

static enum pdl_status bind_glob(const struct pdl_model *m, const char *layers,
                                 struct bound *b, struct pdl_err *err)
{
    bool any = false;

    for (int i = 0; i < m->nnodes; i++)
        if (is_named(&m->nodes[i], layers)) {
            b->clause[i] = b->now;
            if (b->range)
                b->range[i] = -1;
            any = true;
        }
    return any ? PDL_OK : no_layer(m, layers, err);
}

/* A layer of an imported graph may have a '+' in its name. */
static enum pdl_status bind_layers(const struct pdl_model *m,
                                   const char *layers, struct bound *b,
                                   struct pdl_err *err)
{
    char part[512];
    enum pdl_status st = PDL_OK;

    for (const char *p = layers; st == PDL_OK; p++) {
        size_t n = find_node(m, p) >= 0 ? strlen(p) : strcspn(p, "+");
        const char *dots;

        if (n >= sizeof part)
            return no_layer(m, p, err);
        snprintf(part, sizeof part, "%.*s", (int)n, p);
        dots = strstr(part, "..");
        st = dots ? bind_range(m, part, dots, b, err)
                  : bind_glob(m, part, b, err);
        p += n;
        if (!*p)
            break;
    }
    return st;
}

enum pdl_status plan_bind(const struct pdl_strategy *s,
                          const struct pdl_model *m, int *clause, int *range,
                          struct pdl_err *err)
{
    struct bound b = {.clause = clause, .range = range};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < m->nnodes; i++) {
        clause[i] = -1;
        if (range)
            range[i] = -1;
    }
    for (b.now = 0; b.now < s->nclauses && st == PDL_OK; b.now++)
        st = bind_layers(m, s->clause[b.now].layers, &b, err);
    return st;
}

enum pdl_status pdl_strategy_bind(const struct pdl_strategy *s,
                                  const struct pdl_model *m, int *clause,
                                  struct pdl_err *err)
{
    return plan_bind(s, m, clause, NULL, err);
}
