/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of ranks that collectives of a Chakra trace name: of a file as
 * ASTRA-sim has it, or as PyTorch says them in the trace, in a node called
 * "## process_group:init ##"; the file counts first. */
#include "chakra.h"

#include <stdlib.h>

static int by_member(const void *a, const void *b)
{
    const struct chakra_member *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

int coll_chakra_member(const struct chakra_group *g, int rank)
{
    struct chakra_member key = {rank, 0}, *at;

    if (!g->members)
        return rank;
    at = bsearch(&key, g->members, (size_t)g->n, sizeof key, by_member);
    return at ? at->at : -1;
}

static enum pdl_status add_group(struct chakra_trace *t,
                                 const struct chakra_group *g)
{
    if (!coll_chakra_reserve(t->arena, &t->groups, t->ngroups, &t->groups_cap,
                             sizeof *t->groups))
        return coll_chakra_no_room(t);
    t->groups[t->ngroups] = *g;
    t->groups[t->ngroups].order = t->ngroups;
    t->ngroups++;
    return PDL_OK;
}

static enum pdl_status read_group(struct chakra_trace *t,
                                  const struct pdl_doc *d, const char *name)
{
    int *ranks = PDL_NEW(t->arena, int, d->count + 1);
    struct chakra_member *m =
        PDL_NEW(t->arena, struct chakra_member, d->count + 1);
    int n = 0;

    if (!ranks || !m)
        return coll_chakra_no_room(t);
    if (d->kind != PDL_DOC_LIST || d->count == 0)
        return pdl_doc_fail(d, t->err, "'%.40s' is no list of ranks", name);
    for (const struct pdl_doc *c = d->child; c; c = c->next, n++) {
        int64_t r;
        enum pdl_status st = pdl_doc_int(c, 0, t->nranks - 1, &r, t->err);

        if (st != PDL_OK)
            return st;
        ranks[n] = (int)r;
        m[n] = (struct chakra_member){(int)r, n};
    }
    qsort(m, (size_t)n, sizeof *m, by_member);
    for (int i = 1; i < n; i++)
        if (m[i].rank == m[i - 1].rank)
            return pdl_doc_fail(d, t->err, "rank %d is twice in '%.40s'",
                                m[i].rank, name);
    return add_group(t, &(struct chakra_group){name, n, 0, ranks, m});
}

enum pdl_status coll_chakra_groups(struct chakra_trace *t, struct pdl_bytes in,
                                   const char *name)
{
    const struct pdl_doc *doc = NULL;
    enum pdl_status st =
        in.data ? pdl_doc_json(t->arena, in, name, &doc, t->err) : PDL_OK;
    int *all = PDL_NEW(t->arena, int, t->nranks);

    if (st != PDL_OK)
        return st;
    if (doc && doc->kind != PDL_DOC_MAP)
        return pdl_doc_fail(doc, t->err, "no map of names to lists of ranks");
    if (!all)
        return coll_chakra_no_room(t);
    for (int r = 0; r < t->nranks; r++)
        all[r] = r;
    st = add_group(t, &(struct chakra_group){NULL, t->nranks, 0, all, NULL});
    for (const struct pdl_doc *d = doc ? doc->child : NULL; d && st == PDL_OK;
         d = d->next)
        st = read_group(t, d, d->key);
    return st;
}

static enum pdl_status init_group(struct chakra_trace *t,
                                  const struct pdl_doc *d)
{
    bool map = d->kind == PDL_DOC_MAP;
    const struct pdl_doc *of = map ? pdl_doc_get(d, "pg_name") : NULL;
    const struct pdl_doc *ranks = map ? pdl_doc_get(d, "ranks") : NULL;
    const struct chakra_group *all = &t->groups[0];

    if (!of || of->kind != PDL_DOC_SCALAR || !ranks)
        return PDL_OK;
    if (ranks->kind == PDL_DOC_LIST && ranks->count == 0)
        return add_group(
            t, &(struct chakra_group){of->text, all->n, 0, all->ranks, NULL});
    return read_group(t, ranks, of->text);
}

/* "['[{"pg_name": "0", "ranks": [0, 1], ...}]']": a list as Python prints it,
 * of a JSON text. No ranks: all. */
enum pdl_status coll_chakra_init_groups(struct chakra_trace *t,
                                        const char *values, const char *name)
{
    const char *from = strstr(values, "[{"), *to = NULL;
    const struct pdl_doc *doc = NULL;
    struct pdl_err *said = t->err;
    enum pdl_status st;

    for (const char *p = from; p && (p = strstr(p, "}]")); p++)
        to = p + 2;
    if (!from || !to || to <= from)
        return PDL_OK;
    t->err = NULL; /* who names a group that is not read is told so */
    st = pdl_doc_json(t->arena, (struct pdl_bytes){from, (size_t)(to - from)},
                      name, &doc, t->err);
    for (const struct pdl_doc *d = st == PDL_OK ? doc->child : NULL;
         d && st != PDL_ENOMEM; d = d->next)
        st = init_group(t, d);
    t->err = said;
    return st == PDL_ENOMEM ? coll_chakra_no_room(t) : PDL_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct chakra_group *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->order > y->order) - (x->order < y->order);
}

void coll_chakra_sort_groups(struct chakra_trace *t)
{
    int64_t n = 2;

    if (t->ngroups < 3)
        return;
    qsort(t->groups + 1, (size_t)t->ngroups - 1, sizeof *t->groups, by_name);
    for (int64_t i = 2; i < t->ngroups; i++)
        if (strcmp(t->groups[i].name, t->groups[n - 1].name) != 0)
            t->groups[n++] = t->groups[i];
    t->ngroups = n;
}

static int by_name_only(const void *a, const void *b)
{
    return strcmp(((const struct chakra_group *)a)->name,
                  ((const struct chakra_group *)b)->name);
}

const struct chakra_group *coll_chakra_group(const struct chakra_trace *t,
                                             const struct chakra_node *node)
{
    struct chakra_group key = {.name = node->group};

    if (!node->group)
        return &t->groups[0];
    return bsearch(&key, t->groups + 1, (size_t)t->ngroups - 1, sizeof key,
                   by_name_only);
}
