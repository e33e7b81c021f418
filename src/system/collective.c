/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a collective from the times that were measured.
 *
 * Sizes. Between two measured sizes the logarithm of the time is taken to be
 * linear in the logarithm of the size: a line alpha + bytes/rate cannot follow
 * the steps that caches, transports and algorithms make over five decades of
 * sizes, the measured points can. Beyond the largest size the time of a byte
 * stays that of the last stretch; below the smallest it is the smallest one's.
 *
 * Numbers of ranks, one processor each: between two measured ones the time is
 * linear, as the number of steps is; beyond them it scales as the bytes that
 * each rank of a ring moves.
 *
 * More ranks than processors: what P ranks do takes P/C turns of C processors,
 *
 *     t(P, N) = P/C (signals(P, N) s + worked(P, N) g)
 *
 * with the signals of others that a rank waits for (each makes it give way and
 * be scheduled again: s, a switch of contexts and what the caches lose by it)
 * and the bytes that it copies or combines (g seconds each, which depends on
 * how much memory all ranks touch together, P N: in the shared cache or not).
 * signals and worked are counted where the times are measured; s comes from
 * the shortest vectors, where nothing else matters, and g from the rest of the
 * time of the size at which another number of ranks touches as much. */
#include "system_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES, NANOSECONDS, SIGNALS, WORKED };

static double log_between(double x0, double y0, double x1, double y1, double x)
{
    double t = (log(x) - log(x0)) / (log(x1) - log(x0));

    return exp(log(y0) + t * (log(y1) - log(y0)));
}

/* Seconds of one row at a size; its times ascend. */
static double at_size(const struct pdl_collective_fit *f, double bytes)
{
    int64_t last = f->ntimes - 1, i = 0;
    double rate, x0, x1, y0, y1;

    if (f->ntimes == 0)
        return f->alpha_s + (f->bytes_per_s > 0 ? bytes / f->bytes_per_s : 0);
    while (i < last && (double)f->times[i + 1].v[BYTES] < bytes)
        i++;
    y0 = 1e-9 * (double)f->times[i].v[NANOSECONDS];
    x0 = (double)f->times[i].v[BYTES];
    if (bytes <= x0 || last == 0)
        return y0;
    if (i == last) {
        x1 = x0;
        y1 = y0;
        x0 = (double)f->times[last - 1].v[BYTES];
        y0 = 1e-9 * (double)f->times[last - 1].v[NANOSECONDS];
        rate = (y1 - y0) / (x1 - x0);
        return y1 + (rate > 0 ? rate : 0) * (bytes - x1);
    }
    x1 = (double)f->times[i + 1].v[BYTES];
    y1 = 1e-9 * (double)f->times[i + 1].v[NANOSECONDS];
    if (x0 <= 0)
        return y0 + (y1 - y0) * bytes / x1;
    return log_between(x0, y0, x1, y1, bytes);
}

static bool ascending(const struct pdl_collective_fit *f)
{
    for (int64_t i = 1; i < f->ntimes; i++)
        if (f->times[i].v[BYTES] <= f->times[i - 1].v[BYTES])
            return false;
    return true;
}

static double ring_share(double pes)
{
    return (pes - 1) / pes;
}

/* ---- one processor a rank ---------------------------------------------- */

/* The measured numbers of ranks nearest to the one asked for. */
struct nearest {
    const struct pdl_collective_fit *below, *above;
};

static double between_ranks(const struct nearest *n, double pes, double bytes)
{
    const struct pdl_collective_fit *one = n->below ? n->below : n->above;

    if (!n->below || !n->above || n->below->pes == n->above->pes)
        return at_size(one, bytes) * ring_share(pes) /
               ring_share((double)one->pes);
    return at_size(n->below, bytes) +
           (at_size(n->above, bytes) - at_size(n->below, bytes)) *
               (pes - (double)n->below->pes) /
               (double)(n->above->pes - n->below->pes);
}

/* ---- more ranks than processors ---------------------------------------- */

static bool is_counted(const struct pdl_collective_fit *f)
{
    for (int64_t i = 0; i < f->ntimes; i++)
        if (f->times[i].n < 4 || f->times[i].v[SIGNALS] < 1 ||
            f->times[i].v[WORKED] < 1 || f->times[i].v[BYTES] < 1)
            return false;
    return f->ntimes > 1;
}

/* Signals or worked bytes at a size: counts, so linear between sizes and
 * proportional beyond. */
static double count_at(const struct pdl_collective_fit *f, int column,
                       double bytes)
{
    int64_t last = f->ntimes - 1, i = 0;
    double x0, x1, y0, y1;

    while (i < last && (double)f->times[i + 1].v[BYTES] < bytes)
        i++;
    x0 = (double)f->times[i].v[BYTES];
    y0 = (double)f->times[i].v[column];
    if (i == last)
        return y0 * bytes / x0;
    if (bytes <= x0)
        return column == WORKED ? y0 * bytes / x0 : y0;
    x1 = (double)f->times[i + 1].v[BYTES];
    y1 = (double)f->times[i + 1].v[column];
    return y0 + (y1 - y0) * (bytes - x0) / (x1 - x0);
}

static double turns(const struct pdl_system *sys, double pes)
{
    return pes / (double)sys->node.host.cores;
}

static bool is_crowded(const struct pdl_system *sys, int64_t pes)
{
    return sys->node.host.cores > 0 && pes > sys->node.host.cores;
}

double pdl_collective_signal_s(const struct pdl_system *sys, const char *op)
{
    double sum = 0;
    int n = 0;

    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &sys->collectives[i];
        double least = INFINITY;

        if (strcmp(f->op, op) != 0 || f->nodes > 1 ||
            !is_crowded(sys, f->pes) || !is_counted(f))
            continue;
        for (int64_t k = 0; k < f->ntimes; k++)
            least = fmin(least, 1e-9 * (double)f->times[k].v[NANOSECONDS] /
                                    (double)f->times[k].v[SIGNALS]);
        sum += log(least / turns(sys, (double)f->pes));
        n++;
    }
    return n > 0 ? exp(sum / n) : 0;
}

/* The counts of another number of ranks: signals grow with it, and of the
 * bytes of a vector each rank works on a + b/P. */
static double count_for(const struct pdl_collective_fit *f,
                        const struct pdl_collective_fit *g, int column,
                        double pes, double bytes)
{
    double p = (double)f->pes, q = g ? (double)g->pes : p;
    double at = count_at(f, column, bytes), other, t;

    if (!g || p == q)
        return column == SIGNALS ? at * (pes - 1) / (p - 1) : at;
    other = count_at(g, column, bytes);
    t = column == SIGNALS ? (pes - p) / (q - p)
                          : (1 / pes - 1 / p) / (1 / q - 1 / p);
    at += t * (other - at);
    return at > 0 ? at : 0;
}

/* What the time of f says about another number of ranks; g: a second one to
 * see how counts grow, or NULL. */
static double transfer(const struct pdl_system *sys, double s,
                       const struct pdl_collective_fit *f,
                       const struct pdl_collective_fit *g, double pes,
                       double bytes)
{
    double p = (double)f->pes, same = bytes * pes / p;
    double one = at_size(f, same) / turns(sys, p);
    double rest = one - s * count_at(f, SIGNALS, same);

    if (rest < one / 20) /* the shortest: all of it was waiting */
        rest = one / 20;
    return turns(sys, pes) * (s * count_for(f, g, SIGNALS, pes, bytes) +
                              rest / count_at(f, WORKED, same) *
                                  count_for(f, g, WORKED, pes, bytes));
}

/* The nearest crowded row, not `other`: of as many ranks or fewer (side -1),
 * as many or more (1), any (0). */
static const struct pdl_collective_fit *
crowded_row(const struct pdl_system *sys, const char *op, int64_t pes, int side,
            const struct pdl_collective_fit *other)
{
    const struct pdl_collective_fit *best = NULL;

    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &sys->collectives[i];

        if (strcmp(f->op, op) != 0 || f->nodes > 1 || f == other ||
            side * (f->pes - pes) < 0 || !is_crowded(sys, f->pes) ||
            !ascending(f) || !is_counted(f))
            continue;
        if (!best || llabs(f->pes - pes) < llabs(best->pes - pes))
            best = f;
    }
    return best;
}

/* The two nearest crowded ones: on either side, else on one. */
static struct nearest crowded_rows(const struct pdl_system *sys, const char *op,
                                   int64_t pes)
{
    struct nearest n;

    n.below = crowded_row(sys, op, pes, -1, NULL);
    n.above = crowded_row(sys, op, pes, 1, n.below);
    if (!n.below) {
        n.below = n.above;
        n.above = NULL;
    }
    if (n.below && !n.above)
        n.above = crowded_row(sys, op, pes, 0, n.below);
    return n;
}

static bool crowded_seconds(const struct pdl_system *sys, const char *op,
                            int64_t pes, double bytes, double *out)
{
    struct nearest n = crowded_rows(sys, op, pes);
    double s = pdl_collective_signal_s(sys, op), p = (double)pes, a, b, share;

    if (!is_crowded(sys, pes) || !n.below || !(s > 0) || bytes < 1)
        return false;
    if (n.below->pes == pes || (n.above && n.above->pes == pes)) {
        *out = at_size(n.below->pes == pes ? n.below : n.above, bytes);
        return true;
    }
    if (!n.above) {
        *out = transfer(sys, s, n.below, NULL, p, bytes);
        return true;
    }
    a = transfer(sys, s, n.below, n.above, p, bytes);
    b = transfer(sys, s, n.above, n.below, p, bytes);
    /* between the two by distance; beyond both, the two together */
    share = fabs(p - (double)n.below->pes) /
            fabs((double)(n.above->pes - n.below->pes));
    if ((n.below->pes - pes) * (n.above->pes - pes) > 0 && share > .5)
        share = .5;
    *out = exp((1 - share) * log(a) + share * log(b));
    return true;
}

/* ---- either ------------------------------------------------------------ */

/* Rows of more ranks than processors say nothing about fewer. */
static struct nearest nearest_rows(const struct pdl_system *sys, const char *op,
                                   int64_t pes, bool crowded_too)
{
    struct nearest n = {NULL, NULL};

    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &sys->collectives[i];

        if (strcmp(f->op, op) != 0 || f->pes < 2 || !ascending(f) ||
            (!crowded_too && is_crowded(sys, f->pes)))
            continue;
        if (f->pes <= pes && (!n.below || f->pes > n.below->pes))
            n.below = f;
        if (f->pes >= pes && (!n.above || f->pes < n.above->pes))
            n.above = f;
    }
    return n;
}

bool pdl_collective_seconds(const struct pdl_system *sys, const char *op,
                            int64_t pes, int64_t bytes, double *out)
{
    struct nearest n;

    if (pes < 2 || bytes < 0)
        return false;
    if (crowded_seconds(sys, op, pes, (double)bytes, out))
        return true;
    n = nearest_rows(sys, op, pes, is_crowded(sys, pes));
    if (!n.below && !n.above)
        n = nearest_rows(sys, op, pes, true);
    if (!n.below && !n.above)
        return false;
    *out = between_ranks(&n, (double)pes, (double)bytes);
    return true;
}
