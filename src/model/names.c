/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from names to numbers, open addressing, in an arena. Names are not
 * copied. */
#include "model_priv.h"

#include <string.h>
#include <xxhash.h>

struct model_name {
    const char *name; /* NULL: free */
    int value;
};

static struct model_name *slot(struct model_name *slots, size_t cap,
                               const char *name)
{
    size_t i = XXH3_64bits(name, strlen(name)) & (cap - 1);

    while (slots[i].name && strcmp(slots[i].name, name) != 0)
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

int *model_names_find(const struct model_names *n, const char *name)
{
    struct model_name *s;

    if (n->cap == 0)
        return NULL;
    s = slot(n->slots, n->cap, name);
    return s->name ? &s->value : NULL;
}

static bool grow(struct model_names *n, pdl_arena *a)
{
    size_t cap = n->cap ? 4 * n->cap : 64;
    struct model_name *slots = PDL_NEW(a, struct model_name, cap);

    if (!slots)
        return false;
    for (size_t i = 0; i < n->cap; i++)
        if (n->slots[i].name)
            *slot(slots, cap, n->slots[i].name) = n->slots[i];
    n->slots = slots;
    n->cap = cap;
    return true;
}

bool model_names_add(struct model_names *n, pdl_arena *a, const char *name,
                     int value)
{
    struct model_name *s;

    if (2 * n->count >= n->cap && !grow(n, a))
        return false;
    s = slot(n->slots, n->cap, name);
    if (!s->name) {
        *s = (struct model_name){name, value};
        n->count++;
    }
    return true;
}
