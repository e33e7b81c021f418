/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rest of a chain takes at least, after a segment and its choice: so
 * labels (chain.c) that lead nowhere are dropped at once.
 *
 * Seconds and bytes by themselves come from a pass from the end. Where bytes
 * are scarce the two together say more: a price for bytes (a Lagrange
 * multiplier; Handler and Zang, Networks 10, 1980) makes the least of
 *     seconds + price x (bytes - room)
 * a bound on seconds, for any price of zero or more. The best price is where
 * the cheapest way needs just the room; it is found by the crossing of
 * tangents. Where stages are decided each has its own price, elsewhere all have
 * one, and what they hold in flight is taken as the least of any. */
#include "oracle/bylayer/chain.h"

#include <math.h>
#include <string.h>

enum { MOST_TANGENTS = 10 };

/* The cheapest way to a choice at a price. */
struct way {
    double value, seconds, bytes;
};

struct ahead {
    const struct oracle_chain *c;
    struct oracle_ahead *out;
    double
        *in_flight; /* [n] of the stage of the segment, or the least of any */
    int *stage;     /* [n], 0 where it is not decided */
    struct way *now, *next;
};

static bool is_free(const struct oracle_chain *c)
{
    return !c->fixed && c->stages > 1;
}

/* Does a stage begin with segment i, for certain? */
static bool begins(const struct oracle_chain *c, int i)
{
    return c->fixed && c->stages > 1 && c->send[i];
}

static double bytes_of(const struct ahead *x, int i, int pick)
{
    int64_t at = (int64_t)i * x->c->k + pick;

    return x->out->roomy ? 0
                         : x->c->state[at] + x->in_flight[i] * x->c->keep[at];
}

/* Seconds of a segment after the one before and its choice. */
static double seconds_of(const struct oracle_chain *c, int i, int before,
                         int pick)
{
    double s = c->run[(int64_t)i * c->k + pick];

    if (c->pair[i])
        s += c->pair[i][(int64_t)before * c->k + pick];
    return begins(c, i) ? s + c->send[i][before] : s;
}

/* ---- prices ---------------------------------------------------------------------- */

/* One more segment, at this price. */
static void step(struct ahead *x, int i, double price)
{
    const struct oracle_chain *c = x->c;
    struct way *t = x->now;

    for (int pick = 0; pick < c->k; pick++) {
        double bytes = bytes_of(x, i, pick);
        struct way best = {.value = INFINITY};

        for (int before = 0; before < c->k; before++) {
            double s = seconds_of(c, i, before, pick);

            if (x->now[before].value + s < best.value)
                best = (struct way){x->now[before].value + s,
                                    x->now[before].seconds + s,
                                    x->now[before].bytes};
        }
        best.value += price * bytes;
        best.bytes += bytes;
        x->next[pick] = best;
    }
    x->now = x->next;
    x->next = t;
}

/* The cheapest way through segments first .. end - 1 at this price. */
static struct way cheapest(struct ahead *x, int first, int end, double price)
{
    const struct oracle_chain *c = x->c;
    struct way best = {.value = INFINITY};

    for (int pick = 0; pick < c->k; pick++) {
        double s = c->run[(int64_t)first * c->k + pick];
        double b = bytes_of(x, first, pick);

        x->now[pick] = (struct way){s + price * b, s, b};
    }
    for (int i = first + 1; i < end; i++)
        step(x, i, price);
    for (int pick = 0; pick < c->k; pick++)
        if (x->now[pick].value < best.value)
            best = x->now[pick];
    return best;
}

/* The price of bytes that says most, and what it says: the least seconds.
 * Where the ways found need more than there
 * is at one price and less at another, the price at which both cost the same is
 * between. Any price is a bound, so to stop early is safe. */
static double price_of(struct ahead *x, int first, int end, double room,
                       double *least)
{
    struct way over = cheapest(x, first, end, 0), under, at;
    double price = 0;

    *least = over.value;
    if (!isfinite(over.value) || !(over.bytes > room))
        return 0;
    /* as if bytes were all that counts: a million times what seconds cost */
    under =
        cheapest(x, first, end, 1e6 * (over.seconds + 1e-9) / (over.bytes + 1));
    for (int i = 0; i < MOST_TANGENTS && under.bytes < over.bytes; i++) {
        price = (under.seconds - over.seconds) / (over.bytes - under.bytes);
        at = cheapest(x, first, end, price);
        *least = fmax(*least, at.value - price * room);
        if (at.bytes == under.bytes || at.bytes == over.bytes)
            break;
        *(at.bytes > room ? &over : &under) = at;
    }
    return fmax(price, 0);
}

static void set_prices(struct ahead *x)
{
    const struct oracle_chain *c = x->c;
    double room = c->room * (is_free(c) ? c->stages : 1), least = 0;
    int first = 0;

    for (int i = 1; i <= c->n; i++) {
        if (i < c->n && !begins(c, i))
            continue;
        if (x->stage[first] < c->stages)
            x->out->price[x->stage[first]] =
                price_of(x, first, i, room, &least);
        x->out->slowest =
            fmax(x->out->slowest, is_free(c) ? least / c->stages : least);
        first = i;
    }
    for (int s = 1; s < c->stages && is_free(c); s++)
        x->out->price[s] = x->out->price[0];
}

/* ---- from the end ------------------------------------------------------------------ */

/* After segment i with this choice. */
static struct oracle_rest rest_of(const struct ahead *x, int i, int pick)
{
    const struct oracle_chain *c = x->c;
    bool over = i + 1 < c->n && begins(c, i + 1);
    struct oracle_rest least = {INFINITY, INFINITY, INFINITY, INFINITY};
    double price;

    if (i + 1 == c->n)
        return (struct oracle_rest){.total = 0};
    if (x->stage[i + 1] >= c->stages)
        return least;
    price = x->out->price[x->stage[i + 1]];
    for (int next = 0; next < c->k; next++) {
        const struct oracle_rest *r =
            &x->out->rest[(int64_t)(i + 1) * c->k + next];
        double s = seconds_of(c, i + 1, pick, next);
        double b = bytes_of(x, i + 1, next);

        if (!isfinite(s + r->total))
            continue;
        least.total = fmin(least.total, s + r->total);
        least.priced =
            fmin(least.priced,
                 s + r->priced +
                     (price > 0 ? price * (b - (over ? c->room : 0)) : 0));
        least.seconds = fmin(least.seconds, s + r->seconds);
        least.bytes = fmin(least.bytes, b + r->bytes);
    }
    if (over && isfinite(least.total)) /* of the stage at hand nothing */
        least.seconds = least.bytes = 0;
    return least;
}

static void set_stages(struct ahead *x)
{
    const struct oracle_chain *c = x->c;
    double fewest = INFINITY;

    for (int s = 0; s < c->stages; s++)
        fewest = fmin(fewest, c->in_flight[s]);
    for (int i = 0; i < c->n; i++) {
        x->stage[i] = i > 0 ? x->stage[i - 1] + begins(c, i) : 0;
        x->in_flight[i] = is_free(c)                ? fewest
                          : x->stage[i] < c->stages ? c->in_flight[x->stage[i]]
                                                    : 0;
    }
}

bool oracle_chain_ahead(pdl_arena *a, const struct oracle_chain *c, bool roomy,
                        struct oracle_ahead *out)
{
    struct ahead x = {.c = c,
                      .out = out,
                      .in_flight = PDL_NEW(a, double, c->n + 1),
                      .stage = PDL_NEW(a, int, c->n + 1),
                      .now = PDL_NEW(a, struct way, c->k + 1),
                      .next = PDL_NEW(a, struct way, c->k + 1)};

    out->rest = PDL_NEW(a, struct oracle_rest, (int64_t)c->n * c->k + 1);
    out->price = PDL_NEW(a, double, c->stages + 1);
    out->roomy = roomy;
    if (!x.in_flight || !x.stage || !x.now || !x.next || !out->rest ||
        !out->price)
        return false;
    set_stages(&x);
    set_prices(&x);
    for (int i = c->n - 1; i >= 0; i--)
        for (int pick = 0; pick < c->k; pick++)
            out->rest[(int64_t)i * c->k + pick] = rest_of(&x, i, pick);
    return true;
}
