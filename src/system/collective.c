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
 * with the signals of others that a rank waits for (they make it give way and
 * be scheduled again: s, a switch of contexts and what the caches lose by it)
 * and the bytes that it copies or combines (g seconds each, which depends on
 * how much memory all ranks touch together, P N: in the shared cache or not).
 * signals and worked are counted where the times are measured; s comes from
 * the shortest vectors, where nothing else matters (a part of it is paid once
 * for all P - 1 signals of a wait), and g from the rest of the time of the size
 * at which another number of ranks touches as much. */
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

/* What one signal costs a turn of this row: of its shortest vectors, whose
 * time is all waiting. 0: the row does not say. */
static double row_signal_s(const struct pdl_system *sys, const char *op,
                           const struct pdl_collective_fit *f)
{
    double least = INFINITY;

    if (strcmp(f->op, op) != 0 || f->nodes > 1 || !is_crowded(sys, f->pes) ||
        !is_counted(f))
        return 0;
    for (int64_t k = 0; k < f->ntimes; k++)
        least = fmin(least, 1e-9 * (double)f->times[k].v[NANOSECONDS] /
                                (double)f->times[k].v[SIGNALS]);
    return least / turns(sys, (double)f->pes);
}

double pdl_collective_signal_s(const struct pdl_system *sys, const char *op)
{
    double sum = 0;
    int n = 0;

    for (int64_t i = 0; i < sys->ncollectives; i++) {
        double s = row_signal_s(sys, op, &sys->collectives[i]);

        if (s > 0) {
            sum += log(s);
            n++;
        }
    }
    return n > 0 ? exp(sum / n) : 0;
}

/* A rank that waits for all others waits once and then looks at each of them:
 * s = wait / (P - 1) + look. Least squares of the relative errors; neither is
 * less than 0, and one measured number of ranks tells only their sum. */
static double signal_at(const struct pdl_system *sys, const char *op,
                        double pes)
{
    double xx = 0, x1 = 0, n1 = 0, x = 0, n = 0, det, wait, look;
    int rows = 0;

    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *f = &sys->collectives[i];
        double s = row_signal_s(sys, op, f), a, b;

        if (!(s > 0))
            continue;
        a = 1 / ((double)f->pes - 1) / s; /* of wait and look, for s = 1 */
        b = 1 / s;
        xx += a * a;
        x1 += a * b;
        n1 += b * b;
        x += a;
        n += b;
        rows++;
    }
    det = xx * n1 - x1 * x1;
    if (rows < 2 || !(det > 1e-9 * xx * n1))
        return pdl_collective_signal_s(sys, op);
    wait = (x * n1 - n * x1) / det;
    look = (n * xx - x * x1) / det;
    if (wait < 0)
        return pdl_collective_signal_s(sys, op);
    if (look < 0) {
        look = 0;
        wait = x / xx;
    }
    return wait / (pes - 1) + look;
}

/* How a count goes on from two numbers of ranks to another: along P, or along
 * 1/P (what each rank has of a vector that is cut into P parts). */
static double along(double p, double at, double q, double other, double pes,
                    bool inverse)
{
    double t =
        inverse ? (1 / pes - 1 / p) / (1 / q - 1 / p) : (pes - p) / (q - p);

    return at + t * (other - at);
}

/* Another row of the same collective, crowded or not, to tell the two apart:
 * counts do not depend on who shares a processor. */
static const struct pdl_collective_fit *
third_row(const struct pdl_system *sys, const struct pdl_collective_fit *f,
          const struct pdl_collective_fit *g)
{
    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *h = &sys->collectives[i];

        if (strcmp(h->op, f->op) == 0 && h->nodes == f->nodes &&
            h->pes != f->pes && h->pes != g->pes && h->pes > 1 && is_counted(h))
            return h;
    }
    return NULL;
}

/* The counts of another number of ranks: signals grow with it, worked bytes as
 * a third measured number says, else along 1/P. */
static double count_for(const struct pdl_system *sys,
                        const struct pdl_collective_fit *f,
                        const struct pdl_collective_fit *g, int column,
                        double pes, double bytes)
{
    double p = (double)f->pes, q = g ? (double)g->pes : p;
    double at = count_at(f, column, bytes), other;
    const struct pdl_collective_fit *h;
    bool inverse = column == WORKED;

    if (!g || p == q)
        return column == SIGNALS ? at * (pes - 1) / (p - 1) : at;
    other = count_at(g, column, bytes);
    h = inverse ? third_row(sys, f, g) : NULL;
    if (h) {
        double r = (double)h->pes, is = count_at(h, column, bytes);

        inverse = fabs(along(p, at, q, other, r, true) - is) <=
                  fabs(along(p, at, q, other, r, false) - is);
    }
    at = along(p, at, q, other, pes, inverse);
    return at > 0 ? at : 0;
}

/* What the time of f says about another number of ranks; g: a second one to
 * see how counts grow, or NULL. */
static double transfer(const struct pdl_system *sys,
                       const struct pdl_collective_fit *f,
                       const struct pdl_collective_fit *g, double pes,
                       double bytes)
{
    double p = (double)f->pes, same = bytes * pes / p;
    double one = at_size(f, same) / turns(sys, p);
    double rest = one - signal_at(sys, f->op, p) * count_at(f, SIGNALS, same);

    if (rest < one / 20) /* the shortest: all of it was waiting */
        rest = one / 20;
    return turns(sys, pes) * (signal_at(sys, f->op, pes) *
                                  count_for(sys, f, g, SIGNALS, pes, bytes) +
                              rest / count_at(f, WORKED, same) *
                                  count_for(sys, f, g, WORKED, pes, bytes));
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
    double p = (double)pes, a, b, share;

    if (!is_crowded(sys, pes) || !n.below || bytes < 1 ||
        !(pdl_collective_signal_s(sys, op) > 0))
        return false;
    if (n.below->pes == pes || (n.above && n.above->pes == pes)) {
        *out = at_size(n.below->pes == pes ? n.below : n.above, bytes);
        return true;
    }
    if (!n.above) {
        *out = transfer(sys, n.below, NULL, p, bytes);
        return true;
    }
    a = transfer(sys, n.below, n.above, p, bytes);
    b = transfer(sys, n.above, n.below, p, bytes);
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
