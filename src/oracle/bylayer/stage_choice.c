/* SPDX-License-Identifier: Apache-2.0
 *
 * One of k choices for each segment of a chain, together with the stages that
 * the chain is cut into. A step of a pipeline costs
 *     fill x (sum of all stages) + each x (slowest stage)
 * (1F1B: 1 and m - 1), and a stage has room for what its weights need once and
 * what its activations need for each micro-batch in flight. So a partial
 * answer is three numbers: seconds so far, seconds of the stage at hand, bytes
 * of the stage at hand; one that is worse in all three than another of the
 * same segment, stage and choice is dropped (labels, as in shortest paths with
 * resources: Desrochers and Soumis, INFOR 26, 1988; the stages are those of
 * Piper, Tarnawski et al., NeurIPS 2021).
 *
 * Labels from which no way leads to the end, within the room, the bound on a
 * stage and a limit on the sum (see below), are dropped. The limit is at first
 * little more than what no sum is below, and is raised until there is an
 * answer: the first is the least.
 *
 * The slowest stage is not known while labels grow: it is bounded, and the
 * bound is lowered to just below what the last answer needed until there is
 * none. Answers are all that no other beats in both sum and slowest stage, so
 * the best of them is the best of all. Where labels or bounds are too many
 * the answer is marked as not exact. */
#include "oracle/bylayer/stage_choice.h"

#include <math.h>
#include <string.h>

enum { MOST_LABELS = 24, FEW_LABELS = 8, MOST_BOUNDS = 400, FEW_BOUNDS = 12 };
/* Transitions of one bound, beyond which bounds and labels are few, and no
 * bound is tried that cannot gain so much: sums are no better than that. */
static const int64_t MANY = 400000;
static const double WORTH = .01;

/* ---- what the rest takes at least ------------------------------------- */

/* What the rest of a chain takes at least, after a segment and its choice: so
 * labels that lead nowhere are dropped at once.
 *
 * Seconds and bytes by themselves come from a pass from the end. Where bytes
 * are scarce the two together say more: a price for bytes (a Lagrange
 * multiplier; Handler and Zang, Networks 10, 1980) makes the least of
 *     seconds + price x (bytes - room)
 * a bound on seconds, for any price of zero or more. The best price is where
 * the cheapest way needs just the room; it is found by the crossing of
 * tangents. Where stages are decided each has its own price, elsewhere all have
 * one, and what they hold in flight is taken as the least of any. */
/* After a segment and its choice, at least so much: to the end
 * of the chain in seconds, and in seconds and priced bytes less the room of
 * later stages; to the end of the stage, where it is decided, otherwise of the
 * chain. INFINITY: there is no way on. */
struct rest {
    double total, priced;
    double seconds, bytes;
};
struct bounds {
    struct rest *rest; /* [n][k] */
    double *price;     /* [stages] seconds for a byte */
    double slowest;    /* no slowest stage takes less */
    bool roomy;        /* bytes do not count */
};
enum { MOST_TANGENTS = 10 };

/* The cheapest way to a choice at a price. */
struct way {
    double value, seconds, bytes;
};

struct ahead {
    const struct oracle_chain *c;
    struct bounds *out;
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

/* ---- prices ----------------------------------------------------------- */

/* One more segment, at this price. */
static void add_segment(struct ahead *x, int i, double price)
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
        add_segment(x, i, price);
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

/* ---- from the end ----------------------------------------------------- */

/* After segment i with this choice. */
static struct rest rest_of(const struct ahead *x, int i, int pick)
{
    const struct oracle_chain *c = x->c;
    bool over = i + 1 < c->n && begins(c, i + 1);
    struct rest least = {INFINITY, INFINITY, INFINITY, INFINITY};
    double price;

    if (i + 1 == c->n)
        return (struct rest){.total = 0};
    if (x->stage[i + 1] >= c->stages)
        return least;
    price = x->out->price[x->stage[i + 1]];
    for (int next = 0; next < c->k; next++) {
        const struct rest *r = &x->out->rest[(int64_t)(i + 1) * c->k + next];
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

static bool find_bounds(pdl_arena *a, const struct oracle_chain *c, bool roomy,
                        struct bounds *out)
{
    struct ahead x = {.c = c,
                      .out = out,
                      .in_flight = PDL_NEW(a, double, c->n + 1),
                      .stage = PDL_NEW(a, int, c->n + 1),
                      .now = PDL_NEW(a, struct way, c->k + 1),
                      .next = PDL_NEW(a, struct way, c->k + 1)};

    out->rest = PDL_NEW(a, struct rest, (int64_t)c->n * c->k + 1);
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

/* ---- labels ----------------------------------------------------------- */

struct label {
    double sum, stage_s, bytes;
    double least; /* sum of any answer from here */
    int from;     /* label before; -1: none */
    int pick, stage;
};

/* The labels of one segment, stage and choice. */
struct cell {
    int n;
    struct label label[MOST_LABELS];
};

struct solver {
    pdl_arena *arena;
    const struct oracle_chain *c;
    double bound;
    struct cell *cell;   /* [stages][k] of the segment at hand */
    int *first, *number; /* [stages][k] of the one before: in `all` */
    struct label *all;
    struct bounds ahead;
    double limit; /* on the sum */
    bool limited; /* something was dropped for it */
    int64_t n, cap;
    int most_labels; /* of a cell */
    bool roomy;      /* whatever is chosen fits: bytes do not count */
    bool full;       /* labels were dropped that others did not beat */
    bool lossy;      /* and nothing better could be found without */
    bool failed;
};

/* Sums in another order are equal up to this. */
static const double SLACK = 1 + 1e-9;
/* The first limit is so much above the least; the next ones so much more, or
 * where labels are too many already. */
static const double MARGIN = 1e-3, MORE = 2, MUCH_MORE = 8;

/* Without a bound on a stage its seconds do not count. */
static bool beats(const struct solver *s, const struct label *a,
                  const struct label *b)
{
    return a->sum <= b->sum && a->bytes <= b->bytes &&
           (a->stage_s <= b->stage_s || isinf(s->bound));
}

static void add_label(struct solver *s, struct cell *c, const struct label *l)
{
    int n = 0, worst = 0;

    for (int i = 0; i < c->n; i++)
        if (beats(s, &c->label[i], l))
            return;
    for (int i = 0; i < c->n; i++)
        if (!beats(s, l, &c->label[i]))
            c->label[n++] = c->label[i];
    c->n = n;
    if (n < s->most_labels) {
        c->label[c->n++] = *l;
        return;
    }
    s->full = true;
    for (int i = 1; i < n; i++)
        worst = c->label[i].least > c->label[worst].least ? i : worst;
    if (l->least < c->label[worst].least)
        c->label[worst] = *l;
}

/* Can label l of segment i be part of an answer? */
static bool leads_on(struct solver *s, int i, struct label *l)
{
    const struct oracle_chain *c = s->c;
    const struct rest *r = &s->ahead.rest[(int64_t)i * c->k + l->pick];
    double left = c->fixed ? 1 : c->stages - l->stage;
    double price = s->ahead.price[l->stage], spared = 0;

    if (!(l->stage_s < s->bound) || !(l->bytes <= c->room) ||
        !(l->stage_s + r->seconds <= s->bound * left * SLACK) ||
        !(l->bytes + r->bytes <= c->room * left * SLACK))
        return false;
    if (price > 0)
        spared = price * (c->room * left - l->bytes);
    l->least = l->sum + fmax(r->total, r->priced - spared);
    if (!(l->least <= s->limit * SLACK))
        s->limited = s->limited || isfinite(l->least);
    return l->least <= s->limit * SLACK && isfinite(l->least);
}

/* Segment i with choice `pick` after label `from`; begins: in a new stage. */
static void extend(struct solver *s, int i, int pick, int from, bool begins)
{
    const struct oracle_chain *c = s->c;
    const struct label *l = from >= 0 ? &s->all[from] : NULL;
    int64_t at = (int64_t)i * c->k + pick;
    int stage = l ? l->stage + begins : 0;
    double seconds = c->run[at];
    struct label next = {.from = from, .pick = pick, .stage = stage};

    if (l && c->pair[i])
        seconds += c->pair[i][(int64_t)l->pick * c->k + pick];
    if (!(seconds < s->bound))
        return;
    if (l && begins)
        seconds += c->send[i][l->pick];
    next.sum = (l ? l->sum : 0) + seconds;
    next.stage_s = (l && !begins ? l->stage_s : 0) + seconds;
    if (!s->roomy)
        next.bytes = (l && !begins ? l->bytes : 0) + c->state[at] +
                     c->in_flight[stage] * c->keep[at];
    if (leads_on(s, i, &next))
        add_label(s, &s->cell[stage * c->k + pick], &next);
}

static void store(struct solver *s, int cells)
{
    for (int i = 0; i < cells && !s->failed; i++) {
        struct cell *c = &s->cell[i];

        if (s->n + c->n > s->cap) {
            int64_t cap = 2 * s->cap + MOST_LABELS + 1024;
            void *more = pdl_arena_grow(s->arena, s->all, (size_t)s->n,
                                        (size_t)cap, sizeof *s->all);

            s->failed = !more || cap > INT32_MAX;
            if (s->failed)
                return;
            s->all = more;
            s->cap = cap;
        }
        s->first[i] = (int)s->n;
        s->number[i] = c->n;
        if (s->all && c->n > 0)
            memcpy(s->all + s->n, c->label, (size_t)c->n * sizeof *s->all);
        s->n += c->n;
        c->n = 0;
    }
}

static void extend_all(struct solver *s, int i)
{
    const struct oracle_chain *c = s->c;
    bool may = c->send[i] != NULL;

    for (int b = 0; b < c->stages * c->k; b++)
        for (int l = s->first[b]; l < s->first[b] + s->number[b]; l++)
            for (int pick = 0; pick < c->k; pick++) {
                if (!may || !c->fixed)
                    extend(s, i, pick, l, false);
                if (may && b / c->k + 1 < c->stages)
                    extend(s, i, pick, l, true);
            }
}

/* The least sum under the bound and the limit; false: there is none. */
static bool solve_below(struct solver *s, struct oracle_chain_answer *out)
{
    const struct oracle_chain *c = s->c;
    int cells = c->stages * c->k, best = -1;

    s->n = 0;
    s->full = s->limited = false;
    for (int pick = 0; pick < c->k; pick++)
        extend(s, 0, pick, -1, false);
    store(s, cells);
    for (int i = 1; i < c->n && !s->failed; i++) {
        extend_all(s, i);
        store(s, cells);
    }
    for (int b = cells - c->k; s->all && b < cells && !s->failed; b++)
        for (int l = s->first[b]; l < s->first[b] + s->number[b]; l++)
            if (best < 0 || s->all[l].sum < s->all[best].sum)
                best = l;
    if (best < 0 || !s->all)
        return false;
    out->sum = s->all[best].sum;
    out->slowest = 0;
    for (int i = c->n - 1; i >= 0; i--, best = s->all[best].from) {
        out->pick[i] = s->all[best].pick;
        out->stage[i] = s->all[best].stage;
        out->slowest = fmax(out->slowest, s->all[best].stage_s);
    }
    out->cost = c->fill * out->sum + c->each * out->slowest;
    return true;
}

/* The least sum under the bound. It is at least `least`, and not wanted where
 * it exceeds `most`. */
static bool solve(struct solver *s, double least, double most,
                  struct oracle_chain_answer *out)
{
    double margin = MARGIN;
    bool some = false, last = false;

    while (!some && !last && !s->failed) {
        last = margin >= 1 || least * (1 + margin) >= most;
        s->limit = last ? most : least * (1 + margin);
        some = solve_below(s, out);
        last = last || !s->limited;
        margin *= s->full ? MUCH_MORE : MORE;
    }
    s->lossy = s->lossy || s->full;
    return some;
}

/* ---- bounds ----------------------------------------------------------- */

static bool is_large(const struct oracle_chain *c)
{
    return (double)c->n * c->stages * c->k * c->k > (double)MANY;
}

/* Would everything in one stage fit, at its largest? */
static bool is_roomy(const struct oracle_chain *c)
{
    double sum = 0, held = 0;

    for (int i = 0; i < c->stages; i++)
        held = fmax(held, c->in_flight[i]);
    for (int i = 0; i < c->n; i++) {
        double most = 0;

        for (int64_t k = (int64_t)i * c->k; k < (int64_t)(i + 1) * c->k; k++)
            most = fmax(most, c->state[k] + held * c->keep[k]);
        sum += most;
    }
    return sum <= c->room;
}

static bool start(struct solver *s, pdl_arena *a, const struct oracle_chain *c)
{
    int64_t cells = (int64_t)c->stages * c->k;

    *s = (struct solver){
        .arena = a, .c = c, .bound = INFINITY, .roomy = is_roomy(c)};
    s->most_labels = is_large(c) ? FEW_LABELS : MOST_LABELS;
    s->cell = PDL_NEW(a, struct cell, cells);
    s->first = PDL_NEW(a, int, cells);
    s->number = PDL_NEW(a, int, cells);
    return s->cell && s->first && s->number &&
           find_bounds(a, c, s->roomy, &s->ahead);
}

/* No sum is below this. */
static double least_sum(const struct solver *s)
{
    const struct oracle_chain *c = s->c;
    double least = INFINITY, price = s->ahead.price[0];
    double room = price > 0 ? c->room * (c->fixed ? 1 : c->stages) : 0;

    for (int pick = 0; pick < c->k; pick++) {
        const struct rest *r = &s->ahead.rest[pick];
        double bytes = c->state[pick] + c->in_flight[0] * c->keep[pick];

        least =
            fmin(least, c->run[pick] +
                            fmax(r->total, r->priced + price * (bytes - room)));
    }
    return least;
}

/* The next bound: below what the last answer needed; of a large chain, a
 * twelfth of the way to what no pipeline can be below. */
static double lower(const struct oracle_chain *c,
                    const struct oracle_chain_answer *last, double floor)
{
    double step = fmax(last->slowest - floor, 0) / FEW_BOUNDS;

    return last->slowest - (is_large(c) ? step : 0);
}

int oracle_chain_solve(pdl_arena *a, const struct oracle_chain *c,
                       bool (*found)(void *ctx,
                                     const struct oracle_chain_answer *),
                       void *ctx, bool *exact)
{
    pdl_arena *own = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct oracle_chain_answer x = {.pick = PDL_NEW(a, int, c->n + 1),
                                    .stage = PDL_NEW(a, int, c->n + 1)};
    double best = INFINITY, floor = 0, most = INFINITY;
    struct solver s;
    int n = 0;

    *exact = true;
    if (!own || !x.pick || !x.stage || c->n < c->stages || !start(&s, own, c)) {
        pdl_arena_destroy(own);
        return c->n < c->stages ? 0 : -1;
    }
    x.sum = least_sum(&s);
    while (n < MOST_BOUNDS && solve(&s, x.sum, most, &x)) {
        if (n++ == 0)
            floor = fmax(s.ahead.slowest, x.sum / c->stages);
        best = fmin(best, x.cost);
        /* sums only grow, and no bound is below the floor */
        most = (best - c->each * floor) / c->fill;
        if (!found(ctx, &x) || c->stages == 1 || x.sum >= most)
            break;
        if (is_large(c) &&
            c->fill * x.sum + c->each * floor >= best * (1 - WORTH)) {
            *exact = false;
            break;
        }
        s.bound = lower(c, &x, floor);
        *exact = *exact && s.bound >= x.slowest;
    }
    *exact = *exact && !s.lossy && n < MOST_BOUNDS;
    n = s.failed ? -1 : n;
    pdl_arena_destroy(own);
    return n;
}
