/* SPDX-License-Identifier: Apache-2.0
 *
 * The next of many events: a tree of minima, 16 children to a node. Moving an
 * event touches one node in most cases, because in most it is not the least
 * of 16; finding the least walks down from the top. For events that all move
 * at once, as the ends of flows do when links are shared anew, this beats a
 * binary heap by far. */
#include "sim_priv.h"

#include <math.h>

bool net_clock_reserve(struct net_clock *c, int nslots)
{
    double *old = c->level[0];
    int n = c->nslots ? c->nslots : NET_CLOCK_WAY, had = c->nslots;

    if (nslots <= c->nslots)
        return true;
    while (n < nslots)
        n *= 2;
    c->nslots = n;
    c->nlevels = 0;
    do {
        double *level;

        n = (n + NET_CLOCK_WAY - 1) / NET_CLOCK_WAY * NET_CLOCK_WAY;
        level = PDL_NEW(c->arena, double, n);
        if (!level)
            return false;
        for (int i = 0; i < n; i++)
            level[i] = INFINITY;
        c->level[c->nlevels++] = level;
        n /= NET_CLOCK_WAY;
    } while (n > 1);
    for (int i = 0; i < had; i++)
        if (old[i] < INFINITY)
            net_clock_set(c, i, old[i]);
    return true;
}

static double least_of(const double *v)
{
    double a = v[0], b = v[1];

    for (int i = 2; i < NET_CLOCK_WAY; i += 2) {
        a = v[i] < a ? v[i] : a;
        b = v[i + 1] < b ? v[i + 1] : b;
    }
    return a < b ? a : b;
}

void net_clock_set(struct net_clock *c, int slot, double time)
{
    double old = c->level[0][slot];

    c->level[0][slot] = time;
    for (int k = 1; k < c->nlevels; k++) {
        int node = slot / NET_CLOCK_WAY;
        double was = c->level[k][node];

        if (time < was)
            c->level[k][node] = time;
        else if (old > was)
            return; /* another child is the least */
        else
            c->level[k][node] =
                least_of(c->level[k - 1] + (size_t)node * NET_CLOCK_WAY);
        time = c->level[k][node];
        if (time == was)
            return;
        old = was;
        slot = node;
    }
}

double net_clock_time(const struct net_clock *c)
{
    return c->nlevels ? least_of(c->level[c->nlevels - 1]) : INFINITY;
}

int net_clock_slot(const struct net_clock *c, double time)
{
    int at = 0;

    for (int k = c->nlevels - 1; k >= 0; k--) {
        const double *v = c->level[k] + (size_t)at * NET_CLOCK_WAY;
        int i = 0;

        while (v[i] != time)
            i++;
        at = at * NET_CLOCK_WAY + i;
    }
    return at;
}
