/* Random chains for tests of the karma room and for tests/peers/karma_cbc.c. */
#ifndef KARMA_RANDOM_H
#define KARMA_RANDOM_H

#include "paradl/karma.h"

enum { MOST_BLOCKS = 64, MOST_SKIPS = 3, MOST_GROUPS = 3 };

struct chain {
    struct pdl_karma k;
    struct pdl_karma_block block[MOST_BLOCKS];
    struct pdl_karma_skip skip[MOST_SKIPS];
    struct pdl_karma_group group[MOST_GROUPS];
};

static inline int64_t size_below(struct pdl_rng *r, int64_t n)
{
    return 1 + (int64_t)pdl_rng_below(r, (uint64_t)n);
}

static inline struct pdl_karma_block random_block(struct pdl_rng *r)
{
    struct pdl_karma_block b = {.forward_s = .1 + pdl_rng_unit(r)};
    int64_t work = size_below(r, 300), grads = size_below(r, 400);
    int64_t whole, n;

    b.backward_s = b.forward_s * (1 + 2 * pdl_rng_unit(r));
    b.left[PDL_KARMA_ALL].again_s = b.forward_s * (.5 + .5 * pdl_rng_unit(r));
    b.left[PDL_KARMA_SOME].again_s =
        b.left[PDL_KARMA_ALL].again_s * pdl_rng_unit(r);
    whole = n = size_below(r, 1000);
    b.left[PDL_KARMA_NOTHING].bytes = whole;
    n = b.left[PDL_KARMA_SOME].bytes = size_below(r, n);
    b.left[PDL_KARMA_ALL].bytes = size_below(r, n);
    for (int i = 0; i < PDL_KARMA_AGAINS; i++) {
        struct pdl_karma_left *l = &b.left[i];

        l->forward_bytes = l->bytes + work + (i ? size_below(r, 100) : 0);
        l->backward_bytes = whole + grads + (i ? size_below(r, 100) : 0);
    }
    b.may = (unsigned)pdl_rng_below(r, 1 << PDL_KARMA_NCHOICES);
    if (pdl_rng_below(r, 4) > 0)
        b.may |= 15;
    b.heavy = pdl_rng_below(r, 3) > 0;
    return b;
}

static inline void random_group(struct chain *c, struct pdl_rng *r, int g)
{
    int n = c->k.nblocks;

    c->group[g] = (struct pdl_karma_group){
        .block =
            g == 0 ? (int)pdl_rng_below(r, (uint64_t)n)
                   : (int)pdl_rng_below(r, (uint64_t)c->group[g - 1].block + 1),
        .state_bytes = size_below(r, 1500),
        .out_bytes = size_below(r, 300),
        .in_bytes = size_below(r, 300),
        .device_s = .1 * pdl_rng_unit(r),
        .host_s = pdl_rng_unit(r)};
}

/* The memory of a step where everything stays, and of the leanest policy. */
static inline void memory_range(const struct pdl_karma *k, int64_t *least,
                                int64_t *most)
{
    *least = INT64_MAX;
    *most = 0;
    for (int i = 0; pdl_karma_policy_at(i); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_karma_plan p;

        if (a && pdl_karma_follow(a, k, pdl_karma_policy_at(i), &p, NULL) ==
                     PDL_OK) {
            int64_t x = p.step.peak_bytes;

            *least = x < *least ? x : *least;
            *most = x > *most ? x : *most;
        }
        pdl_arena_destroy(a);
    }
}

/* share: of the way from the leanest policy to all that stays; below 0: by
 * chance. */
static inline void random_chain(struct chain *c, uint64_t seed, int nblocks,
                                int ngroups, double share)
{
    struct pdl_rng r = {.key = seed};
    int64_t least, most;

    *c = (struct chain){
        .k = {.nblocks = nblocks,
              .nskips = nblocks > 3 ? (int)pdl_rng_below(&r, 3) : 0,
              .ngroups = ngroups,
              .block = c->block,
              .skip = c->skip,
              .group = c->group}};
    for (int i = 0; i < nblocks; i++)
        c->block[i] = random_block(&r);
    for (int i = 0; i < c->k.nskips; i++) {
        c->skip[i].from = (int)pdl_rng_below(&r, (uint64_t)nblocks - 2);
        c->skip[i].to =
            c->skip[i].from + 2 +
            (int)pdl_rng_below(&r, (uint64_t)(nblocks - c->skip[i].from - 2));
        c->skip[i].forward_bytes = size_below(&r, 300);
        c->skip[i].backward_bytes = size_below(&r, 300);
    }
    for (int g = 0; g < ngroups; g++)
        random_group(c, &r, g);
    c->k.fixed_bytes = size_below(&r, 500);
    c->k.out_bytes_per_s = 200 + 3000 * pdl_rng_unit(&r);
    c->k.in_bytes_per_s = 200 + 3000 * pdl_rng_unit(&r);
    c->k.slow = pdl_rng_below(&r, 2) ? .1 * pdl_rng_unit(&r) : 0;
    if (pdl_rng_below(&r, 8) == 0) /* a processor copies itself */
        c->k.slow = 1;
    c->k.least_ahead = c->k.most_ahead = 1 + (int)pdl_rng_below(&r, 2);
    memory_range(&c->k, &least, &most);
    share = share < 0 ? pdl_rng_unit(&r) : share;
    c->k.capacity = least + (int64_t)(share * (double)(most - least));
    if (pdl_rng_below(&r, 3) == 0)
        c->k.host_bytes = size_below(&r, 500 * nblocks);
}

#endif
