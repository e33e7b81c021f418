/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a SimGrid platform: a hash table that doubles when half full. */
#include "simgrid_priv.h"

#include <string.h>
#include <xxhash.h>

struct entry {
    const char *name; /* NULL: free */
    int number;
    enum net_name_kind kind;
};

struct net_names {
    pdl_arena *arena;
    struct entry *at;
    size_t n, cap; /* cap: a power of two */
};

enum pdl_status net_names_create(pdl_arena *a, struct net_names **out)
{
    struct net_names *n = PDL_NEW(a, struct net_names, 1);

    if (!n)
        return PDL_ENOMEM;
    *n = (struct net_names){.arena = a, .cap = 64};
    n->at = PDL_NEW(a, struct entry, n->cap);
    *out = n;
    return n->at ? PDL_OK : PDL_ENOMEM;
}

static struct entry *seek(const struct net_names *n, enum net_name_kind kind,
                          const char *name)
{
    size_t i = (size_t)XXH3_64bits_withSeed(name, strlen(name), kind);

    for (i &= n->cap - 1; n->at[i].name; i = (i + 1) & (n->cap - 1))
        if (n->at[i].kind == kind && strcmp(n->at[i].name, name) == 0)
            break;
    return &n->at[i];
}

static bool grow(struct net_names *n)
{
    struct net_names more = {n->arena, NULL, n->n, 2 * n->cap};

    more.at = PDL_NEW(n->arena, struct entry, more.cap);
    if (!more.at)
        return false;
    for (size_t i = 0; i < n->cap; i++)
        if (n->at[i].name)
            *seek(&more, n->at[i].kind, n->at[i].name) = n->at[i];
    *n = more;
    return true;
}

int net_names_add(struct net_names *n, enum net_name_kind kind,
                  const char *name, int number)
{
    struct entry *e;

    if (2 * n->n >= n->cap && !grow(n))
        return -1;
    e = seek(n, kind, name);
    if (e->name)
        return 0;
    *e = (struct entry){pdl_arena_strdup(n->arena, name), number, kind};
    n->n++;
    return e->name ? 1 : -1;
}

int net_names_find(const struct net_names *n, enum net_name_kind kind,
                   const char *name)
{
    const struct entry *e = seek(n, kind, name);

    return e->name ? e->number : -1;
}
