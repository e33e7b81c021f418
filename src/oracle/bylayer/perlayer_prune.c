/* SPDX-License-Identifier: Apache-2.0
 *
 * What no best choice can have. If every unit took the same candidate, moves
 * were those of a candidate with itself: the best of these is an answer, so no
 * best answer costs more. On the other side no answer costs less than the
 * least of every unit, without any moves. A unit's candidate that exceeds its
 * least by more than the difference of the two is in no best answer, and the
 * moves from and to it (most of what pricing takes) need no price. It must be
 * so for every share of gradient exchange that is asked for. */
#include "oracle/bylayer/perlayer.h"

#include <math.h>

const double oracle_shares[ORACLE_SHARES] = {1, .5, .25, 0};

static double own(const struct oracle_layers *x, int64_t at, double exposed)
{
    return x->step[at] + exposed * x->exchange[at];
}

static double least_of(const struct oracle_layers *x, int u, double exposed)
{
    double least = INFINITY;

    for (int c = 0; c < x->k; c++)
        least = fmin(least, own(x, (int64_t)u * x->k + c, exposed));
    return least;
}

/* All units take candidate c; INFINITY: one of them cannot. */
static double all_of(const struct oracle_layers *x, int c, double exposed)
{
    double sum = 0;

    for (int u = 0; u < x->units.n; u++)
        sum += x->spare[(int64_t)u * x->k + c]
                   ? INFINITY
                   : own(x, (int64_t)u * x->k + c, exposed);
    for (int e = 0; e < x->npairs; e++)
        sum += x->pair[e].cost[(int64_t)c * x->k + c];
    return sum;
}

/* What a choice may exceed the least by. */
static double slack_of(const struct oracle_layers *x, double exposed)
{
    double best = INFINITY, least = 0;

    for (int c = 0; c < x->k; c++)
        best = fmin(best, all_of(x, c, exposed));
    for (int u = 0; u < x->units.n; u++)
        least += least_of(x, u, exposed);
    return best - least;
}

void oracle_layers_prune(struct oracle_layers *x, struct oracle_priced *priced)
{
    double slack[ORACLE_SHARES];
    bool known = true;

    for (int i = 0; i < ORACLE_SHARES; i++) {
        slack[i] = slack_of(x, oracle_shares[i]);
        known = known && isfinite(slack[i]);
    }
    for (int u = 0; u < x->units.n; u++)
        for (int c = 0; c < x->k; c++) {
            int64_t at = (int64_t)u * x->k + c;
            bool out = known;

            for (int i = 0; i < ORACLE_SHARES; i++)
                out = out && own(x, at, oracle_shares[i]) -
                                     least_of(x, u, oracle_shares[i]) >
                                 slack[i] * (1 + 1e-9);
            if (out) {
                x->step[at] = INFINITY;
                priced[at].ok = false;
            }
        }
}
