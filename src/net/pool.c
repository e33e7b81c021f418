/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of 2^k elements with free lists, in one array that grows by
 * doubling. What is handed out are offsets; pointers made from them die with
 * the next take. */
#include "sim_priv.h"

#include <string.h>

int net_log2_up(int n)
{
    int k = 0;

    while (k < 31 && ((int64_t)1 << k) < n)
        k++;
    return k;
}

void net_pool_init(struct net_pool *p, pdl_arena *a, size_t size)
{
    *p = (struct net_pool){.arena = a, .size = size};
}

int64_t net_pool_take(struct net_pool *p, int k)
{
    int64_t n = (int64_t)1 << k, block = p->free[k] - 1, cap = p->cap;
    char *grown;

    if (block >= 0) {
        memcpy(&p->free[k], p->base + (size_t)block * p->size,
               sizeof p->free[k]);
        return block;
    }
    if (p->used + n > cap) {
        cap = cap ? 2 * cap : 256;
        while (p->used + n > cap)
            cap *= 2;
        grown = pdl_arena_grow(p->arena, p->base, (size_t)p->used, (size_t)cap,
                               p->size);
        if (!grown)
            return -1;
        p->base = grown;
        p->cap = cap;
    }
    block = p->used;
    p->used += n;
    return block;
}

void net_pool_give(struct net_pool *p, int64_t block, int k)
{
    memcpy(p->base + (size_t)block * p->size, &p->free[k], sizeof p->free[k]);
    p->free[k] = block + 1;
}
