/* SPDX-License-Identifier: Apache-2.0
 *
 * The span of a pipeline, quickly: the tasks of pipeline.c in an order that is
 * known beforehand, so that nobody has to ask whether a task may run.
 *
 * 1F1B: in round i every lane l runs the forward of micro-batch i + p - l - 1,
 * which needs results of round i - 1 only, and then the backward of
 * micro-batch i, which needs that of lane l + 1 in the same round.
 *
 * Zero-bubble (h1, h2): the same rounds with forwards one or two rounds ahead
 * for every lane that follows, and after each backward (of inputs) the
 * gradients of weights of an earlier micro-batch.
 *
 * Interleaved: lanes advance in turn as far as they can, with counters in
 * place of divisions. A test compares both with the simulation. */
#include "oracle/step/pieces.h"

static double max2(double a, double b)
{
    return a > b ? a : b;
}

/* Lanes begin when the first micro-batch has come through those before. */
static double take_starts(int64_t p, const double *f, double *spans)
{
    double start = 0, longest = 0;

    for (int64_t l = 0; l < p; l++) {
        spans[l] -= start;
        longest = max2(longest, spans[l]);
        start += f[l];
    }
    return longest;
}

/* done[l]: end of the lane's last forward; at[l]: when the lane is free. */
static double one_by_one(int64_t p, int64_t m, const double *f, const double *b,
                         double *scratch, double *spans)
{
    double *at = scratch, *done = scratch + p, end = 0;

    for (int64_t l = 0; l < p; l++)
        at[l] = done[l] = 0;
    /* before the first backward, lane l has run p - l - 1 forwards */
    for (int64_t i = 1 - p; i < m; i++) {
        for (int64_t l = p - 1; l >= 0; l--) {
            int64_t n = i + p - l - 1;

            if (n < 0 || n >= m)
                continue;
            at[l] = max2(at[l], l > 0 ? done[l - 1] : 0) + f[l];
            done[l] = at[l];
        }
        if (i < 0)
            continue;
        end = 0;
        for (int64_t l = p - 1; l >= 0; l--) {
            at[l] = max2(at[l], end) + b[l];
            end = at[l];
        }
    }
    for (int64_t l = 0; l < p; l++)
        spans[l] = at[l];
    return take_starts(p, f, spans);
}

/* The next forward and the next backward of a lane: micro-batches go p at a
 * time through one stage after another. */
struct cursor {
    int64_t group, chunk, in_group; /* micro-batch = group * p + in_group */
};

struct lane {
    struct cursor next[2];
    int64_t left[2]; /* tasks */
    int64_t warm;    /* forwards before the first backward */
    bool back;       /* the next task is a backward */
    double free_at;
};

static void step(struct cursor *c, int64_t p, int64_t v)
{
    if (++c->in_group < p)
        return;
    c->in_group = 0;
    if (++c->chunk < v)
        return;
    c->chunk = 0;
    c->group++;
}

/* Runs the lane's tasks while what they wait for is done; any? */
static bool advance(struct lane *x, int64_t l, int64_t p, int64_t v, int64_t m,
                    const double *const *seconds, double *done)
{
    int64_t stages = p * v;
    bool moved = false;

    while (x->left[x->back] > 0) {
        struct cursor *c = &x->next[x->back];
        int64_t chunk = x->back ? v - 1 - c->chunk : c->chunk;
        int64_t s = chunk * p + l, micro = c->group * p + c->in_group;
        double *mine = &done[(x->back * stages + s) * m + micro];
        double ready = x->back ? s < stages - 1 ? mine[m] : mine[-stages * m]
                       : s > 0 ? mine[-m]
                               : 0;

        if (ready < 0)
            return moved;
        x->free_at = max2(x->free_at, ready) + seconds[x->back][s];
        *mine = x->free_at;
        moved = true;
        step(c, p, v);
        x->left[x->back]--;
        if (x->warm > 0)
            x->back = --x->warm == 0;
        else if (x->left[!x->back] > 0)
            x->back = !x->back;
    }
    return moved;
}

/* Forwards of a lane before its first backward. */
static int64_t warm_up(int64_t p, int64_t v, int64_t m, int64_t lane)
{
    int64_t n = v == 1 ? p - lane : 2 * (p - 1 - lane) + (v - 1) * p + 1;

    return n < m * v ? n : m * v;
}

void oracle_quick_flight(int64_t lanes, int64_t chunks, int64_t micro_batches,
                         int64_t lane, int64_t *n)
{
    struct cursor c = {0, 0, 0};
    int64_t warm = warm_up(lanes, chunks, micro_batches, lane);

    for (int64_t k = 0; k < chunks; k++)
        n[k] = lanes == 1; /* accumulation: one after the other */
    for (int64_t i = 0; lanes > 1 && i < warm; i++) {
        n[c.chunk]++;
        step(&c, lanes, chunks);
    }
}

static double interleaved(int64_t p, int64_t v, int64_t m, const double *f,
                          const double *b, double *scratch, double *spans)
{
    const double *seconds[2] = {f, b};
    struct lane lanes[ORACLE_MAX_STAGES] = {{.warm = 0}};
    bool moved = true;

    for (int64_t i = 0; i < 2 * p * v * m; i++)
        scratch[i] = -1;
    for (int64_t l = 0; l < p; l++) {
        lanes[l].left[0] = lanes[l].left[1] = m * v;
        lanes[l].warm = warm_up(p, v, m, l);
    }
    while (moved) {
        moved = false;
        for (int64_t l = 0; l < p; l++)
            moved = advance(&lanes[l], l, p, v, m, seconds, scratch) || moved;
    }
    for (int64_t l = 0; l < p; l++) {
        if (lanes[l].left[0] + lanes[l].left[1] > 0)
            return -1; /* the order itself waits for ever */
        spans[l] = lanes[l].free_at;
    }
    return take_starts(p, f, spans);
}

double oracle_quick_makespan(int64_t lanes, int64_t chunks,
                             int64_t micro_batches, const double *forward,
                             const double *backward, double *scratch,
                             double *spans)
{
    return chunks == 1 ? one_by_one(lanes, micro_batches, forward, backward,
                                    scratch, spans)
                       : interleaved(lanes, chunks, micro_batches, forward,
                                     backward, scratch, spans);
}

int64_t oracle_zero_bubble_warm(int64_t lanes, int bubble, int64_t lane)
{
    return bubble * (lanes - lane) - (bubble - 1);
}

int64_t oracle_zero_bubble_defer(int bubble, int64_t lane)
{
    return bubble * lane;
}

/* Of each lane: when it is free, its first task could begin, and its last two
 * forwards ended. */
struct rounds {
    double *at, *start, *done[3];
};

/* The forward of micro-batch n, which the lane before ran `bubble` rounds
 * ago: since then it has run bubble - 1 more. */
static void run_forward(const struct rounds *r, int64_t l, int64_t n, int64_t m,
                        int bubble, double seconds)
{
    double ready = 0;

    if (l > 0) {
        int64_t later = bubble - 1; /* forwards of the lane before since */

        if (n + later >= m)
            later = m - 1 - n;
        ready = r->done[later][l - 1];
    }
    if (n == 0)
        r->start[l] = ready;
    r->at[l] = max2(r->at[l], ready) + seconds;
    r->done[2][l] = r->done[1][l];
    r->done[1][l] = r->done[0][l];
    r->done[0][l] = r->at[l];
}

double oracle_quick_zero_bubble(int64_t lanes, int bubble,
                                int64_t micro_batches, const double *forward,
                                const double *backward, const double *weights,
                                double *scratch, double *spans)
{
    struct rounds r = {
        scratch,
        scratch + lanes,
        {scratch + 2 * lanes, scratch + 3 * lanes, scratch + 4 * lanes}};
    int64_t m = micro_batches,
            first = -oracle_zero_bubble_warm(lanes, bubble, 0);
    double longest = 0;

    for (int64_t i = 0; i < 5 * lanes; i++)
        scratch[i] = 0;
    for (int64_t i = first; i < m; i++) {
        double end = 0;

        for (int64_t l = lanes - 1; l >= 0; l--) {
            int64_t n = i + oracle_zero_bubble_warm(lanes, bubble, l) - 1;

            if (n >= 0 && n < m)
                run_forward(&r, l, n, m, bubble, forward[l]);
        }
        for (int64_t l = lanes - 1; i >= 0 && l >= 0; l--) {
            r.at[l] = max2(r.at[l], end) + backward[l];
            end = r.at[l];
            if (i >= oracle_zero_bubble_defer(bubble, l))
                r.at[l] += weights[l];
        }
    }
    for (int64_t l = 0; l < lanes; l++) {
        int64_t defer = oracle_zero_bubble_defer(bubble, l);

        r.at[l] += (double)(defer < m ? defer : m) * weights[l];
        spans[l] = r.at[l] - r.start[l];
        longest = max2(longest, spans[l]);
    }
    return longest;
}
