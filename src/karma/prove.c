/* SPDX-License-Identifier: Apache-2.0
 *
 * A better proof for long chains. Memory is paid for instead of being bounded
 * (Lagrange): whatever a byte costs, the fastest step, with what it pays for
 * the bytes that are there when the last block computes, less what all memory
 * is worth, is below every decision that fits. Time is kept as it is: labels
 * block by block, but where there are too many of them, those that are alike
 * become one that is the better of both in every number (a relaxed decision
 * diagram, Bergman et al. 2016). So nothing is dropped, and what is found is
 * proved. Prices are tried: more where more memory is used than there is. */
#include "karma_label.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More labels than copies may be under way in different ways: those differ. */
enum { WIDTH = 1500, PRICES = 10 };

struct node {
    struct karma_label at;
    double offset; /* of what is still to come: prices, and what has been moved
                      to what has been */
    double used;   /* bytes */
    uint64_t key;
};

struct proof {
    struct karma_way way;
    struct karma_price *price;
    double *forward, *backward;
    double per_byte, worth, limit;
    double grain; /* what is alike differs by less */
    struct node *now, *next;
    int64_t n, m;
};

/* ---- what is alike --- */

/* Forward and backward may be moved against each other: all of backward's part
 * goes to forward's, so that labels with the same waits look the same. What is
 * no longer waited for is set to what nobody waits for. */
static void settle(const struct proof *p, struct node *a)
{
    double *x = a->at.x, on = x[KARMA_ENTER], least = 0;

    x[KARMA_NOW] += on;
    x[KARMA_LAST] = fmax(x[KARMA_LAST] + on, x[KARMA_NOW]);
    x[KARMA_ENTER] = 0;
    a->offset -= on;
    for (int i = 0; i < p->way.ahead; i++) {
        x[KARMA_OUTS + i] = fmax(x[KARMA_OUTS + i] + on, x[KARMA_NOW]);
        x[KARMA_ATS + i] -= on;
        if (x[KARMA_ATS + i] > -INFINITY)
            least = fmin(least, x[KARMA_ATS + i]);
    }
    x[KARMA_LINK] = fmax(x[KARMA_LINK] - on, least);
    x[KARMA_BYTES] = x[KARMA_HOST] = 0;
    memset(x + KARMA_LEFT, 0, PDL_KARMA_AHEAD * sizeof *x);
}

static uint64_t mixed(uint64_t key, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    key = (key ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 29;
}

/* Of the copies that are under way, and of all waits, to the grain. */
static void find_key(const struct proof *p, struct node *a)
{
    const double *x = a->at.x;
    double wait[2 + 2 * PDL_KARMA_AHEAD] = {x[KARMA_LAST] - x[KARMA_NOW],
                                            x[KARMA_LINK]};
    int n = 2;

    a->key = 0;
    for (int i = 0; i < p->way.ahead; i++) {
        a->key = mixed(a->key, x[KARMA_INS + i]);
        wait[n++] = x[KARMA_OUTS + i] - x[KARMA_NOW];
        wait[n++] = x[KARMA_ATS + i] > -INFINITY ? x[KARMA_ATS + i] : -1e30;
    }
    for (int i = 0; i < n; i++)
        a->key = mixed(a->key, trunc(wait[i] / p->grain));
}

static int by_key(const void *a, const void *b)
{
    const struct node *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->at.x[KARMA_NOW] > y->at.x[KARMA_NOW]) -
           (x->at.x[KARMA_NOW] < y->at.x[KARMA_NOW]);
}

static void join(struct node *to, const struct node *from)
{
    for (int i = 0; i < KARMA_NUMBERS; i++)
        to->at.x[i] = fmin(to->at.x[i], from->at.x[i]);
    to->offset = fmin(to->offset, from->offset);
}

static void join_alike(struct proof *p)
{
    int64_t n = 0;

    for (int64_t i = 0; i < p->m; i++)
        find_key(p, &p->next[i]);
    qsort(p->next, (size_t)p->m, sizeof *p->next, by_key);
    for (int64_t i = 0; i < p->m; i++)
        if (n > 0 && p->next[n - 1].key == p->next[i].key)
            join(&p->next[n - 1], &p->next[i]);
        else
            p->next[n++] = p->next[i];
    p->m = n;
}

/* ---- a price --- */

static void extend(struct proof *p, const struct node *from, int j,
                   enum pdl_karma_choice c)
{
    struct node *to = &p->next[p->m];
    double bytes = (double)karma_there(p->way.k, p->way.ahead, j, c);
    double t[KARMA_CLOCKS], paid = p->per_byte * bytes, bound;

    if (!karma_may(p->way.k, j, c))
        return;
    *to = *from;
    karma_label_add(&p->way, &to->at, j, c, from->offset);
    for (int i = 0; i < p->way.ahead; i++)
        to->at.x[KARMA_ATS + i] += paid;
    to->at.x[KARMA_ENTER] += paid;
    to->at.x[KARMA_LINK] += paid;
    to->offset += paid;
    to->used += bytes;
    settle(p, to);
    karma_label_clocks(&p->way, &to->at, p->forward[j + 1], p->backward[j + 1],
                       t);
    bound = j + 1 == p->way.k->nblocks ? karma_label_end(&p->way, &to->at)
                                       : karma_price_at(p->price, j + 1, t);
    p->m += bound - p->worth < p->limit;
}

static void step(struct proof *p, int j)
{
    struct node *swap = p->now;

    p->m = 0;
    for (int64_t i = 0; i < p->n; i++)
        for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
            extend(p, &p->now[i], j, (enum pdl_karma_choice)c);
    for (p->grain = 1e-7 * p->limit; p->m > WIDTH; p->grain *= 2)
        join_alike(p);
    p->now = p->next;
    p->next = swap;
    p->n = p->m;
}

/* The least step at this price, or the limit; over: bytes that it uses beyond
 * those there are. */
static double least_step(struct proof *p, double *over, double room)
{
    double best = p->limit;

    memset(&p->now[0], 0, sizeof p->now[0]);
    karma_label_begin(&p->way, &p->now[0].at);
    settle(p, &p->now[0]);
    p->n = 1;
    *over = 0;
    for (int j = 0; j < p->way.k->nblocks; j++)
        step(p, j);
    for (int64_t i = 0; i < p->n; i++) {
        double end = karma_label_end(&p->way, &p->now[i].at) - p->worth;

        if (end >= best)
            continue;
        best = end;
        *over = p->now[i].used - room;
    }
    return best;
}

/* ---- prices --- */

static bool prepare(struct proof *p, pdl_arena *a)
{
    int n = p->way.k->nblocks;

    p->forward = PDL_NEW(a, double, n + 1);
    p->backward = PDL_NEW(a, double, n + 1);
    p->now = PDL_NEW(a, struct node, WIDTH * PDL_KARMA_NCHOICES + 1);
    p->next = PDL_NEW(a, struct node, WIDTH * PDL_KARMA_NCHOICES + 1);
    if (!p->forward || !p->backward || !p->now || !p->next)
        return false;
    for (int j = n - 1; j >= 0; j--) {
        p->forward[j] = p->forward[j + 1] + p->way.k->block[j].forward_s;
        p->backward[j] = p->backward[j + 1] + p->way.k->block[j].backward_s;
    }
    return true;
}

/* Where prices begin: what is lost to missing memory, for each byte of it. */
static double first_price(const struct proof *p, double room)
{
    double all = 0;

    for (int j = 0; j < p->way.k->nblocks; j++)
        all += (double)karma_there(p->way.k, p->way.ahead, j, PDL_KARMA_KEEP);
    if (all <= room)
        return 0;
    return fmax(1e-3 * p->limit, p->limit - p->forward[0] - p->backward[0]) /
           (all - room);
}

/* Between a price at which more is used than there is, and one that is too
 * high (negative: none is known). */
static double next_price(double low, double high, double first)
{
    if (high < 0)
        return low > 0 ? 2 * low : first;
    return low > 0 ? (low + high) / 2 : high / 4;
}

/* No pass is faster with these copies so far ahead; more than the limit is not
 * asked for. */
static enum pdl_status prove(const struct pdl_karma *k,
                             const struct karma_update *u, int ahead,
                             double limit, double *below, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct proof p = {.way = {k, u, ahead}, .limit = limit};
    double room = (double)(k->capacity - k->fixed_bytes);
    double low = 0, high = -1, over;
    bool ok = a && prepare(&p, a);

    *below = 0; /* at first memory costs nothing */
    for (int i = 0; i < PRICES && ok && *below < limit; i++) {
        p.worth = p.per_byte * room;
        p.price = karma_price_make(a, k, ahead, p.per_byte);
        ok = p.price != NULL;
        if (!ok)
            break;
        *below = fmax(*below, least_step(&p, &over, room));
        if (over <= 0 && i == 0)
            break;
        *(over > 0 ? &low : &high) = p.per_byte;
        p.per_byte = next_price(low, high, first_price(&p, room));
    }
    pdl_arena_destroy(a);
    return ok ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status pdl_karma_prove(pdl_arena *a, const struct pdl_karma *k,
                                struct pdl_karma_plan *p, struct pdl_err *err)
{
    struct karma_update u = {.tail = PDL_NEW(a, double, k->nblocks + 1)};
    double n = (double)karma_passes(k), limit = p->step.step_s / n;
    double least = limit;
    enum pdl_status st =
        u.tail ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
    int first = k->least_ahead > 0 ? k->least_ahead : 1;
    int last = k->most_ahead > 0 ? k->most_ahead : PDL_KARMA_AHEAD;

    if (st != PDL_OK || !p->step.fits || p->exact || k->ngroups > 0)
        return st;
    karma_update(k, p->host, &u);
    for (int d = first; d <= last && st == PDL_OK && least * n > p->bound_s;
         d++) {
        double below;

        st = prove(k, &u, d, limit, &below, err);
        least = fmin(least, below);
    }
    if (st == PDL_OK)
        p->bound_s = fmax(p->bound_s, n * least);
    return st;
}
