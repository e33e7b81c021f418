/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates of a choice by layer, and the choice as a strategy. Axes of all
 * layers must nest in one mesh: candidates are those of one chain of divisors
 * of the number of PEs. A strategy has at most PDL_MAX_CLAUSES clauses: what
 * needs more is not written. */
#include "oracle/bylayer/bylayer.h"
#include "oracle/search/space.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CHAINS = 24, MOST_PRIMES = PDL_MAX_FACTORS };

/* ---- candidates ------------------------------------------------------- */

static void two(struct oracle_space *s, enum pdl_axis axis, int64_t most)
{
    char text[96];

    for (int64_t n = 2; n <= most && n <= s->opt->pes; n++) {
        if (s->opt->pes % n != 0 || !oracle_space_wants(s, axis))
            continue;
        if (n == s->opt->pes)
            snprintf(text, sizeof text, "%s=%lld", pdl_axis_name(axis),
                     (long long)n);
        else
            snprintf(text, sizeof text, "data=%lld,%s=%lld",
                     (long long)(s->opt->pes / n), pdl_axis_name(axis),
                     (long long)n);
        oracle_space_add(s, text);
    }
}

/* Transformers: data, and data with tensor inside a node or with context. */
static void transformer_space(struct oracle_space *s)
{
    char text[64];

    snprintf(text, sizeof text, "data=%lld", (long long)s->opt->pes);
    oracle_space_add(s, text);
    two(s, PDL_AXIS_TENSOR, s->sys->node.pes);
    two(s, PDL_AXIS_CONTEXT, s->opt->pes);
}

/* The primes of n, sorted; their number, or -1: more than a mesh has room
 * for. */
static int primes_of(int64_t n, int64_t *p)
{
    int k = 0;

    for (int64_t d = 2; n > 1; d += d * d > n ? n - d : 1)
        for (; n % d == 0; n /= d) {
            if (k == MOST_PRIMES)
                return -1;
            p[k++] = d;
        }
    return k;
}

/* The next order of the same primes; false: that was the last. */
static bool next_order(int64_t *p, int n)
{
    int i = n - 2, j = n - 1;
    int64_t t;

    while (i >= 0 && p[i] >= p[i + 1])
        i--;
    if (i < 0)
        return false;
    while (p[j] <= p[i])
        j--;
    t = p[i], p[i] = p[j], p[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--)
        t = p[a], p[a] = p[b], p[b] = t;
    return true;
}

/* Do all axes of the strategy end at suffix products of the mesh? */
static bool nests(const struct pdl_mesh *m, const struct pdl_strategy *s)
{
    const struct pdl_clause *c = &s->clause[0];
    int64_t product = 1, mesh = 1;
    int f = m->nfactors;

    for (int t = c->nterms - 1; t >= 0; t--)
        for (int k = c->term[t].nsizes - 1; k >= 0; k--) {
            product *= c->term[t].size[k];
            while (f > 0 && mesh < product)
                mesh *= m->factor[--f];
            if (mesh != product)
                return false;
        }
    return product == m->pes;
}

static enum pdl_status make_mesh(const struct oracle_layers *x, int which,
                                 struct pdl_mesh *m, bool *more,
                                 struct pdl_err *err)
{
    m->pes = x->opt->pes;
    m->nfactors = primes_of(m->pes, m->factor);
    if (m->nfactors < 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld PEs have more than %d mesh factors",
                        (long long)m->pes, PDL_MAX_FACTORS);
    *more = which < MOST_CHAINS;
    for (int i = 0; i < which && *more; i++)
        *more = next_order(m->factor, m->nfactors);
    return PDL_OK;
}

/* Those of the space that have no pipeline and nest in the mesh. */
static enum pdl_status take(struct oracle_layers *x,
                            const struct oracle_space *space,
                            struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    x->k = 0;
    x->strategy = space->failed
                      ? NULL
                      : PDL_NEW(x->arena, struct pdl_strategy, space->n + 1);
    if (!x->strategy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < space->n && st == PDL_OK; i++) {
        struct pdl_strategy *s = &x->strategy[x->k];

        if (strncmp(space->list[i], "pipe", 4) == 0)
            continue;
        st = pdl_strategy_parse(x->arena, space->list[i], s, err);
        x->k += st == PDL_OK && nests(&x->mesh, s);
    }
    return st;
}

enum pdl_status oracle_layers_space(struct oracle_layers *x, int which,
                                    bool *more, struct pdl_err *err)
{
    struct oracle_space space = {.model = x->units.model,
                                 .sys = x->sys,
                                 .opt = x->opt,
                                 .arena = x->arena};
    enum pdl_status st = make_mesh(x, which, &x->mesh, more, err);

    if (st != PDL_OK || !*more)
        return st;
    if (strcmp(x->units.model->kind, "transformer") == 0)
        transformer_space(&space);
    else
        oracle_space_pairs(&space);
    return take(x, &space, err);
}

/* ---- writing a choice ------------------------------------------------- */

/* The first node after `i` whose unit picks otherwise. */
static int end_of_range(const struct oracle_layers *x, const int *pick, int i)
{
    int c = pick[x->units.unit_of[i]];

    while (i < x->units.model->nnodes && pick[x->units.unit_of[i]] == c)
        i++;
    return i;
}

static bool is_plain(const char *name)
{
    return strpbrk(name, "*?[\\:;,() ") == NULL && !strstr(name, "..");
}

/* A single layer by its name: but an axis that finds nothing to cut is only
 * allowed to a range. */
static const char *range_text(const struct oracle_layers *x, int from, int to,
                              int c)
{
    const char *a = x->units.model->nodes[from].name;
    const char *b = x->units.model->nodes[to].name;
    int64_t at = (int64_t)x->units.unit_of[from] * x->k + c;

    if (from == to && is_plain(a) && !x->cost[at].falls_back)
        return a;
    return pdl_arena_printf(x->arena, "%s..%s", a, b);
}

static int most_ranges(const struct oracle_layers *x, const int *pick)
{
    int *ranges = PDL_NEW(x->arena, int, x->k + 1), best = 0;
    int n = x->units.model->nnodes;

    for (int i = 0; ranges && i < n; i = end_of_range(x, pick, i))
        ranges[pick[x->units.unit_of[i]]]++;
    for (int c = 0; ranges && c < x->k; c++)
        best = ranges[c] > ranges[best] ? c : best;
    return best;
}

static void add_clause(struct pdl_strategy *s, const char *layers,
                       const struct pdl_strategy *from)
{
    if (s->nclauses < PDL_MAX_CLAUSES) {
        s->clause[s->nclauses] = from->clause[0];
        s->clause[s->nclauses].layers = layers ? layers : "";
    }
    s->nclauses++;
}

/* One clause a range; where these are too many, one for the whole network,
 * and one for each range that is otherwise. */
static void add_ranges(const struct oracle_layers *x, const int *pick,
                       int usual, struct pdl_strategy *s)
{
    int n = x->units.model->nnodes;

    s->nclauses = 0;
    if (usual >= 0)
        add_clause(s, range_text(x, 0, n - 1, usual), &x->strategy[usual]);
    for (int i = 0, end; i < n; i = end) {
        int c = pick[x->units.unit_of[i]];

        end = end_of_range(x, pick, i);
        if (c != usual)
            add_clause(s, range_text(x, i, end - 1, c), &x->strategy[c]);
    }
}

const char *oracle_layers_write(const struct oracle_layers *x, const int *pick)
{
    struct pdl_strategy *s = PDL_NEW(x->arena, struct pdl_strategy, 1);

    if (!s)
        return NULL;
    *s = x->strategy[pick[0]];
    if (end_of_range(x, pick, 0) < x->units.model->nnodes)
        add_ranges(x, pick, -1, s);
    if (s->nclauses > PDL_MAX_CLAUSES)
        add_ranges(x, pick, most_ranges(x, pick), s);
    if (s->nclauses > PDL_MAX_CLAUSES)
        return NULL;
    return oracle_strategy_text(x->arena, s);
}

/* ---- the same of a pipeline ------------------------------------------- */

static bool same_pick(const struct oracle_layers *x, const int *pick, int i,
                      int j)
{
    return pick[x->units.unit_of[i]] == pick[x->units.unit_of[j]];
}

static const char *cuts_text(const struct oracle_layers *x,
                             const struct oracle_written *w)
{
    const char *text = NULL;

    for (int i = 0; i < w->ncuts; i++) {
        const char *name = x->units.model->nodes[w->cut[i]].name;

        if (!is_plain(name) || strchr(name, '+'))
            return NULL;
        text = text ? pdl_arena_printf(x->arena, "%s+%s", text, name) : name;
        if (!text)
            return NULL;
    }
    return text;
}

/* The clause of "*": the pipeline, and the axes of all layers where they have
 * the same; none where it would be empty (options follow the others then). */
static void add_star(struct pdl_strategy *s, const struct pdl_strategy *base,
                     const struct pdl_clause *all)
{
    struct pdl_clause *c = &s->clause[0];

    *s = *base;
    s->nclauses = 1;
    *c = (struct pdl_clause){.layers = "*"};
    for (int t = 0; t < base->clause[0].nterms; t++)
        if (base->clause[0].term[t].axis == PDL_AXIS_PIPE)
            c->term[c->nterms++] = base->clause[0].term[t];
    for (int t = 0; all && t < all->nterms; t++)
        c->term[c->nterms++] = all->term[t];
    s->nclauses = c->nterms > 0;
}

static void add_range(const struct oracle_layers *x,
                      const struct oracle_written *w, struct pdl_strategy *s,
                      int from, int to, int pick, bool terms)
{
    const struct oracle_saving *v = &w->saving[pick / (x->k / w->nsavings)];
    struct pdl_clause *c = &s->clause[s->nclauses];

    if (!terms && v->recompute == PDL_RECOMPUTE_NONE && !v->offload)
        return;
    if (s->nclauses++ >= PDL_MAX_CLAUSES)
        return;
    *c = (struct pdl_clause){.layers = range_text(x, from, to, pick)};
    if (terms) {
        memcpy(c->term, x->strategy[pick].clause[0].term, sizeof c->term);
        c->nterms = x->strategy[pick].clause[0].nterms;
    }
    c->own_recompute = v->recompute != PDL_RECOMPUTE_NONE;
    c->recompute = v->recompute;
    c->offload = v->offload;
}

static bool same_axes(const struct oracle_layers *x, int nsavings,
                      const int *pick)
{
    int each = x->k / nsavings;

    for (int u = 1; u < x->units.n; u++)
        if (pick[u] % each != pick[0] % each)
            return false;
    return true;
}

const char *oracle_layers_write_stages(const struct oracle_layers *x,
                                       const struct oracle_written *w,
                                       const int *pick)
{
    struct pdl_strategy *s = PDL_NEW(x->arena, struct pdl_strategy, 1);
    bool same = same_axes(x, w->nsavings, pick);
    int n = x->units.model->nnodes;

    if (!s)
        return NULL;
    add_star(s, w->base, same ? &x->strategy[pick[0]].clause[0] : NULL);
    s->recompute = PDL_RECOMPUTE_NONE;
    s->offload_activations = false;
    s->cuts = cuts_text(x, w);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_pick(x, pick, i, end);)
            end++;
        add_range(x, w, s, i, end - 1, pick[x->units.unit_of[i]], !same);
    }
    if (s->nclauses > PDL_MAX_CLAUSES || (w->ncuts > 0 && !s->cuts))
        return NULL;
    return oracle_strategy_text(x->arena, s);
}
