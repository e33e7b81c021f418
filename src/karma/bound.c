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

enum { GRID = 6, MIXES = (GRID + 1) * (GRID + 2) / 2 };
enum { WAYS = PDL_KARMA_NCHOICES - 1 }; /* of a block to give bytes */

struct item {
    double per_byte;
    int64_t bytes; /* up to and with this one */
    double cost;
};

/* Weights of the clocks: computing, copies in, copies out. The last has what is
 * made again behind it as well. */
struct mix {
    double w[3];
};

struct karma_bound {
    const struct pdl_karma *k;
    struct mix mix[MIXES];
    struct item *item; /* [mix][from][] */
    int *items;        /* [mix][from] */
};

static struct item *list(const struct karma_bound *b, int mix, int from)
{
    int n = b->k->nblocks;

    return b->item + ((int64_t)mix * (n + 1) + from) * (WAYS * (int64_t)n + 1);
}

static void list_mixes(struct mix *m)
{
    for (int i = 0, n = 0; i <= GRID; i++)
        for (int j = 0; i + j <= GRID; j++, n++) {
            m[n].w[0] = (double)i / GRID;
            m[n].w[1] = (double)j / GRID;
            m[n].w[2] = (double)(GRID - i - j) / GRID;
        }
}

/* One way of a block to give bytes, at these weights. */
static struct item option(const struct pdl_karma *k, int i, const struct mix *m,
                          enum pdl_karma_choice c)
{
    const struct pdl_karma_block *b = &k->block[i];
    const struct pdl_karma_left *l = karma_left(b, c);
    struct item x = {.bytes = b->left[PDL_KARMA_NOTHING].bytes -
                              (karma_moves(c) ? 0 : l->bytes),
                     .cost = (m->w[0] + m->w[2]) * l->again_s};

    if (karma_moves(c))
        x.cost += (double)l->bytes *
                  ((m->w[1] + m->w[0] * k->slow) / k->in_bytes_per_s +
                   (m->w[2] + m->w[0] * k->slow) / k->out_bytes_per_s);
    return x;
}

/* The cheapest way on from `at`, by the price of a byte; false: none. */
static bool cheapest(const struct pdl_karma *k, int i, const struct mix *m,
                     const struct item *at, struct item *out)
{
    bool any = false;

    for (int c = 1; c < PDL_KARMA_NCHOICES; c++) {
        struct item x = option(k, i, m, (enum pdl_karma_choice)c);

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
        while (cheapest(b->k, i, &b->mix[mix], &at, &to)) {
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
    b->items[mix * (b->k->nblocks + 1) + from] = n;
}

struct karma_bound *karma_bound_make(pdl_arena *a, const struct pdl_karma *k)
{
    struct karma_bound *b = PDL_NEW(a, struct karma_bound, 1);
    int64_t n = k->nblocks + 1;

    if (!b)
        return NULL;
    b->k = k;
    list_mixes(b->mix);
    b->item = PDL_NEW(a, struct item, MIXES * n * WAYS * n);
    b->items = PDL_NEW(a, int, MIXES *n);
    for (int m = 0; b->item && b->items && m < MIXES; m++)
        for (int from = 0; from <= k->nblocks; from++)
            fill(b, m, from);
    return b->item && b->items ? b : NULL;
}

static double knapsack(const struct item *x, int n, int64_t need)
{
    int low = 0, high = n; /* items before low are not enough */

    while (low < high) {
        int mid = low + (high - low) / 2;

        if (x[mid].bytes >= need)
            high = mid;
        else
            low = mid + 1;
    }
    if (low == n)
        return INFINITY;
    return low == 0 ? x[0].per_byte * (double)need
                    : x[low - 1].cost +
                          x[low].per_byte * (double)(need - x[low - 1].bytes);
}

double karma_bound_at(const struct karma_bound *b, int from, int64_t need,
                      const double t[3])
{
    double best = fmax(t[0], fmax(t[1], t[2]));

    if (need <= 0)
        return best;
    for (int m = 0; m < MIXES; m++) {
        const double *w = b->mix[m].w;
        int n = b->items[m * (b->k->nblocks + 1) + from];

        best = fmax(best, w[0] * t[0] + w[1] * t[1] + w[2] * t[2] +
                              knapsack(list(b, m, from), n, need));
    }
    return best;
}
