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

enum { GRID = 6, MIXES = (GRID + 1) * (GRID + 1) };
enum { WAYS = PDL_KARMA_NCHOICES - 1 }; /* of a block to give bytes */

struct item {
    double per_byte;
    int64_t bytes; /* up to and with this one */
    double cost;
};

/* Weights of the clocks: forward ends no earlier than computing or copies out
 * do, what is behind it takes as long as computing or copies in; so four ways
 * through both, of which the weights are products. */
struct mix {
    double w[KARMA_CLOCKS];
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
    for (int i = 0; i <= GRID; i++)
        for (int j = 0; j <= GRID; j++, m++) {
            double forward = (double)i / GRID, backward = (double)j / GRID;

            m->w[KARMA_COMPUTING] = forward * backward;
            m->w[KARMA_IN] = forward * (1 - backward);
            m->w[KARMA_OUT] = (1 - forward) * backward;
            m->w[KARMA_BOTH] = (1 - forward) * (1 - backward);
        }
}

/* What a choice of a block costs at these weights. */
static double cost_of(const struct pdl_karma *k, int i, const struct mix *m,
                      enum pdl_karma_choice c)
{
    const struct pdl_karma_left *l = karma_left(&k->block[i], c);
    double forward = m->w[KARMA_COMPUTING] + m->w[KARMA_IN];
    double backward = m->w[KARMA_COMPUTING] + m->w[KARMA_OUT];
    double cost = backward * l->again_s;

    if (karma_moves(c))
        cost += (double)l->bytes *
                ((1 - forward + forward * k->slow) / k->out_bytes_per_s +
                 (1 - backward + backward * k->slow) / k->in_bytes_per_s);
    return cost;
}

/* One way of a block to give bytes, at these weights. */
static struct item option(const struct pdl_karma *k, int i, const struct mix *m,
                          enum pdl_karma_choice c)
{
    const struct pdl_karma_block *b = &k->block[i];

    return (struct item){
        .bytes = b->left[PDL_KARMA_NOTHING].bytes -
                 (karma_moves(c) ? 0 : karma_left(b, c)->bytes),
        .cost = cost_of(k, i, m, c)};
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

static double by_clocks(const struct mix *m, const double *t)
{
    double sum = 0;

    for (int i = 0; i < KARMA_CLOCKS; i++)
        sum += m->w[i] * t[i];
    return sum;
}

static double longest(const double *t)
{
    double most = t[0];

    for (int i = 1; i < KARMA_CLOCKS; i++)
        most = fmax(most, t[i]);
    return most;
}

double karma_bound_at(const struct karma_bound *b, int from, int64_t need,
                      const double *t)
{
    double best = longest(t);

    if (need <= 0)
        return best;
    for (int m = 0; m < MIXES; m++) {
        int n = b->items[m * (b->k->nblocks + 1) + from];

        best = fmax(best, by_clocks(&b->mix[m], t) +
                              knapsack(list(b, m, from), n, need));
    }
    return best;
}

/* ---- memory that is paid for --- */

struct karma_price {
    int n;
    struct mix mix[MIXES];
    double *rest; /* [mix][from]: the least that blocks from there on cost */
};

/* Bytes that are there when the last block computes: what stays, what has not
 * left yet, and its own. */
int64_t karma_there(const struct pdl_karma *k, int ahead, int i,
                    enum pdl_karma_choice c)
{
    const struct pdl_karma_left *l = karma_left(&k->block[i], c);
    int64_t f = l->forward_bytes + karma_passing(k, i, false);
    int64_t b = l->backward_bytes + karma_passing(k, i, true);

    if (i == k->nblocks - 1)
        return f > b ? f : b;
    return karma_moves(c) && k->nblocks - 1 - i > ahead ? 0 : l->bytes;
}

static double least(const struct pdl_karma *k, int ahead, int i,
                    const struct mix *m, double per_byte)
{
    double best = INFINITY;

    for (int c = 0; c < PDL_KARMA_NCHOICES; c++) {
        enum pdl_karma_choice x = (enum pdl_karma_choice)c;

        if (karma_may(k, i, x))
            best =
                fmin(best, cost_of(k, i, m, x) +
                               per_byte * (double)karma_there(k, ahead, i, x));
    }
    return best;
}

struct karma_price *karma_price_make(pdl_arena *a, const struct pdl_karma *k,
                                     int ahead, double per_byte)
{
    struct karma_price *p = PDL_NEW(a, struct karma_price, 1);
    int n = k->nblocks + 1;

    if (p)
        p->rest = PDL_NEW(a, double, MIXES *(int64_t)n);
    if (!p || !p->rest)
        return NULL;
    p->n = n;
    list_mixes(p->mix);
    for (int m = 0; m < MIXES; m++)
        for (int i = k->nblocks - 1; i >= 0; i--)
            p->rest[m * n + i] = p->rest[m * n + i + 1] +
                                 least(k, ahead, i, &p->mix[m], per_byte);
    return p;
}

double karma_price_at(const struct karma_price *p, int from, const double *t)
{
    double best = -INFINITY;

    for (int m = 0; m < MIXES; m++)
        best = fmax(best, by_clocks(&p->mix[m], t) + p->rest[m * p->n + from]);
    return best;
}
