/* SPDX-License-Identifier: Apache-2.0
 *
 * A lower bound on the step. Memory that is missing when backward begins must
 * be given by blocks: made again (seconds of computing) or moved (seconds of a
 * link each way). Whatever the clock that ends last, it ends no earlier than a
 * weighted mean of the clocks, and for fixed weights the cheapest way to give
 * the bytes is a fractional knapsack with several ways a block: steps of their
 * convex hulls in the order of seconds per byte.
 * Weights are tried on a grid; each is a proof. */
#include "karma_priv.h"

#include <math.h>
#include <stdlib.h>

enum { GRID = 9, KINDS = 2, MIXES = GRID * KINDS };

struct item {
    double per_byte;
    int64_t bytes; /* up to and with this one */
    double cost;
};

struct karma_bound {
    const struct pdl_karma *k;
    struct item *item; /* [mix][from][] */
};

static struct item *list(const struct karma_bound *b, int mix, int from)
{
    int n = b->k->nblocks;

    return b->item + ((int64_t)mix * (n + 1) + from) * (3 * (int64_t)n + 1);
}

/* Weight of computing; the rest is on a link: in, or out (whose clock has what
 * is made again behind it as well). */
static double weight(int mix)
{
    return (double)(mix % GRID) / (GRID - 1);
}

static bool is_out(int mix)
{
    return mix >= GRID;
}

/* One way of a block to give bytes, at these weights. */
static struct item option(const struct pdl_karma *k, int i, int mix,
                          enum pdl_karma_choice c)
{
    const struct pdl_karma_block *b = &k->block[i];
    double w = weight(mix);
    double rate = is_out(mix) ? k->out_bytes_per_s : k->in_bytes_per_s;
    struct item x = {.bytes = b->whole_bytes -
                              (karma_moves(c) ? 0 : b->input_bytes)};

    if (karma_again(c))
        x.cost = (is_out(mix) ? 1 : w) * b->recompute_s;
    if (karma_moves(c))
        x.cost += (1 - w) * (double)karma_left(b, c) / rate;
    return x;
}

/* The cheapest way on from `at`, by the price of a byte; false: none. */
static bool cheapest(const struct pdl_karma *k, int i, int mix,
                     const struct item *at, struct item *out)
{
    bool any = false;

    for (int c = 1; c < PDL_KARMA_NCHOICES; c++) {
        struct item x = option(k, i, mix, (enum pdl_karma_choice)c);

        if (!karma_may(k, i, (enum pdl_karma_choice)c) || x.bytes <= at->bytes)
            continue;
        x.per_byte = fmax(0, x.cost - at->cost) / (double)(x.bytes - at->bytes);
        if (!any || x.per_byte < out->per_byte)
            *out = x;
        any = true;
    }
    return any;
}

static int by_price(const void *a, const void *b)
{
    double x = ((const struct item *)a)->per_byte;
    double y = ((const struct item *)b)->per_byte;

    return x < y ? -1 : x > y;
}

static void fill(struct karma_bound *b, int mix, int from)
{
    struct item *x = list(b, mix, from);
    int n = 0;
    struct item sum = {0};

    for (int i = from; i < b->k->nblocks - 1; i++) {
        struct item at = {0}, to;

        /* the convex hull of its ways: a price for each further byte */
        while (cheapest(b->k, i, mix, &at, &to)) {
            x[n].per_byte = to.per_byte;
            x[n++].bytes = to.bytes - at.bytes;
            at = to;
        }
    }
    qsort(x, (size_t)n, sizeof *x, by_price);
    for (int i = 0; i < n; i++) {
        sum.cost += x[i].per_byte * (double)x[i].bytes;
        sum.bytes += x[i].bytes;
        x[i].bytes = sum.bytes;
        x[i].cost = sum.cost;
    }
    x[n].bytes = -1; /* the end */
}

struct karma_bound *karma_bound_make(pdl_arena *a, const struct pdl_karma *k)
{
    struct karma_bound *b = PDL_NEW(a, struct karma_bound, 1);
    int64_t n = k->nblocks + 1;

    if (!b)
        return NULL;
    b->k = k;
    b->item = PDL_NEW(a, struct item, MIXES * n * 3 * n);
    for (int m = 0; b->item && m < MIXES; m++)
        for (int from = 0; from <= k->nblocks; from++)
            fill(b, m, from);
    return b->item ? b : NULL;
}

static double knapsack(const struct item *x, int64_t need)
{
    double before = 0;
    int64_t bytes = 0;

    if (need <= 0)
        return 0;
    for (int i = 0; x[i].bytes >= 0; i++) {
        if (x[i].bytes >= need)
            return before + x[i].per_byte * (double)(need - bytes);
        before = x[i].cost;
        bytes = x[i].bytes;
    }
    return INFINITY;
}

double karma_bound_at(const struct karma_bound *b, int from, int64_t need,
                      const double t[3])
{
    double best = fmax(t[0], fmax(t[1], t[2]));

    if (need <= 0)
        return best;
    for (int m = 0; m < MIXES; m++) {
        double w = weight(m);
        double clocks = w * t[0] + (1 - w) * t[is_out(m) ? 2 : 1];

        best = fmax(best, clocks + knapsack(list(b, m, from), need));
    }
    return best;
}
