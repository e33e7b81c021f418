/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted max-min fair rates of flows that come and go.
 *
 * Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): a level
 * rises from 0 and every flow has rate weight * level until a link of it is
 * full or its own bound is met; then it keeps that level. When flows come or
 * go, few rates change, and there are two ways to find them exactly:
 *  - Near: fill only the flows held by a touched link, all others keeping
 *    their rates; then audit the links of those flows for the certificate of
 *    max-min (every flow is held by a full link where nobody has a higher
 *    level). Whoever breaks it is filled too, until nobody does. What the
 *    certificate holds for is the answer, however it was found.
 *  - Far: below the level at which the first change shows, the old filling
 *    and the new one are the same. For a flow that leaves this is its level;
 *    for flows that come to a link it is the level at which that link would
 *    now be full. So all flows at or above it and connected to a change by
 *    such flows are filled. This is for many changes at once, and for a near
 *    search that goes on too long.
 * A flow alone on its links needs neither.
 *
 * Cost: the uses of the flows visited, times a small constant and the rounds;
 * the queue adds little (queue.c). Rounding: weights and capacity left are
 * differences, and are summed afresh where little remains of them. */
#include "sim_queue.h"

#include <math.h>
#include <stdlib.h>

/* Levels closer than this, relatively, are equal to the audit. */
static const double same_level = 1e-12;
enum { FEW = 32 }; /* to be sorted in place */

/* The level at which a link with new flows would be full if the others went
 * on as before; approached from below, so that stopping early is safe. */
static double full_at(const struct net_share *s, int link)
{
    const struct net_ref *refs = net_share_refs(s, link);
    double level = 0;

    for (int round = 0; round < 4; round++) {
        double left = s->links[link].capacity, weight = 0, next;

        for (int i = 0; i < s->links[link].n; i++) {
            const struct net_share_flow *f = &s->flows[refs[i].flow];
            double amount = net_share_uses(s, refs[i].flow)[refs[i].use].amount;

            if (f->level < level)
                left -= amount * f->rate;
            else
                weight += amount * f->weight;
        }
        if (!(weight > 0))
            return level;
        next = left / weight;
        if (!(next > level))
            return level;
        level = next;
    }
    return level;
}

static void enter(struct net_share *s, int link)
{
    if (s->links[link].in)
        return;
    s->links[link].in = true;
    s->list[s->nlist++] = link;
}

/* Lets a flow take part in the filling, with its links. */
static void open_flow(struct net_share *s, int flow)
{
    struct net_share_flow *f = &s->flows[flow];
    const struct net_use *uses = net_share_uses(s, flow);

    if (f->in)
        return;
    f->in = true;
    s->changed[s->nchanged++] = flow;
    for (int k = 0; k < f->nuses; k++)
        enter(s, uses[k].link);
}

/* Counts what a link has left beside the flows that keep their rates. */
static void count_link(struct net_share *s, int link)
{
    const struct net_ref *refs = net_share_refs(s, link);
    struct net_left left = {.left = s->links[link].capacity};

    for (int i = 0; i < s->links[link].n; i++) {
        const struct net_share_flow *f = &s->flows[refs[i].flow];
        double amount = net_share_uses(s, refs[i].flow)[refs[i].use].amount;

        if (f->in) {
            left.weight += amount * f->weight;
            left.open++;
        } else {
            left.left -= amount * f->rate;
        }
    }
    left.all = left.weight;
    s->left[link] = left;
}

/* A flow has its level: takes its rate from its links. */
static void close_flow(struct net_share *s, int flow, double level,
                       int bottleneck)
{
    struct net_share_flow *f = &s->flows[flow];
    const struct net_use *uses = net_share_uses(s, flow);

    f->open = false;
    f->bottleneck = bottleneck;
    f->level = level;
    f->rate = f->weight * level;
    for (int k = 0; k < f->nuses; k++) {
        struct net_left *l = &s->left[uses[k].link];

        l->left -= uses[k].amount * f->rate;
        l->weight -= uses[k].amount * f->weight;
        l->open--;
    }
}

/* Sums a link afresh where differences have lost their digits. */
static void sum_again(struct net_share *s, int link)
{
    const struct net_ref *refs = net_share_refs(s, link);
    struct net_left *l = &s->left[link];

    l->left = s->links[link].capacity;
    l->weight = 0;
    for (int i = 0; i < s->links[link].n; i++) {
        const struct net_share_flow *f = &s->flows[refs[i].flow];
        double amount = net_share_uses(s, refs[i].flow)[refs[i].use].amount;

        if (f->open)
            l->weight += amount * f->weight;
        else
            l->left -= amount * f->rate;
    }
    l->all = l->weight;
}

static void saturate(struct net_share *s, int link, double level)
{
    int n = s->links[link].n;

    for (int i = 0; i < n && s->left[link].open > 0; i++) {
        int flow = net_share_refs(s, link)[i].flow;

        if (s->flows[flow].open)
            close_flow(s, flow, level, link);
    }
}

static int by_level(const void *a, const void *b)
{
    const struct net_bounded *x = a, *y = b;

    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return x->flow < y->flow ? -1 : x->flow > y->flow;
}

/* They are few and often in order already. */
static void sort_bounded(struct net_share *s)
{
    struct net_bounded *v = s->bounded;

    if (s->nbounded > FEW) {
        qsort(v, (size_t)s->nbounded, sizeof *v, by_level);
        return;
    }
    for (int i = 1; i < s->nbounded; i++) {
        struct net_bounded it = v[i];
        int k = i;

        for (; k > 0 && by_level(&v[k - 1], &it) > 0; k--)
            v[k] = v[k - 1];
        v[k] = it;
    }
}

static void fill(struct net_share *s)
{
    struct net_queue_item it;
    double level = 0, now;
    int b = 0;

    for (;;) {
        bool any = net_queue_least(s->queue, s->left, &it);

        while (b < s->nbounded && !s->flows[s->bounded[b].flow].open)
            b++;
        if (b < s->nbounded && (!any || s->bounded[b].level <= it.level)) {
            level = s->bounded[b].level;
            close_flow(s, s->bounded[b++].flow, level, -1);
            continue;
        }
        if (!any)
            return;
        if (s->left[it.link].open == 0) {
            net_queue_drop(s->queue);
            continue;
        }
        if (s->left[it.link].weight < 1e-3 * s->left[it.link].all)
            sum_again(s, it.link);
        now = net_max(level, net_level(&s->left[it.link]));
        if (now > it.level * (1 + 4e-16)) {
            net_queue_raise(s->queue, s->left, now);
            continue;
        }
        level = now;
        net_queue_drop(s->queue);
        saturate(s, it.link, level);
    }
}

/* Fills the flows that take part. */
static void fill_open(struct net_share *s)
{
    double least = INFINITY;

    s->nbounded = 0;
    for (int i = 0; i < s->nchanged; i++) {
        struct net_share_flow *f = &s->flows[s->changed[i]];

        f->open = true;
        if (f->bound_level < INFINITY)
            s->bounded[s->nbounded++] =
                (struct net_bounded){f->bound_level, s->changed[i]};
    }
    sort_bounded(s);
    for (int i = 0; i < s->nlist; i++) {
        count_link(s, s->list[i]);
        if (s->left[s->list[i]].open > 0)
            least = net_min(least, net_level(&s->left[s->list[i]]));
    }
    if (s->nchanged == 0)
        return;
    net_queue_start(s->queue, least);
    for (int i = 0; i < s->nlist; i++)
        if (s->left[s->list[i]].open > 0)
            net_queue_put(s->queue, s->left, s->list[i],
                          net_level(&s->left[s->list[i]]));
    fill(s);
}

/* Opens the flows of a link for which the certificate does not hold. */
static void audit_link(struct net_share *s, int link)
{
    const struct net_ref *refs = net_share_refs(s, link);
    int n = s->links[link].n;
    bool full = s->left[link].left <= same_level * s->links[link].capacity;
    double highest = 0, held = INFINITY; /* the lowest level held here */

    for (int i = 0; i < n; i++) {
        const struct net_share_flow *f = &s->flows[refs[i].flow];

        highest = net_max(highest, f->level);
        if (f->bottleneck == link)
            held = net_min(held, f->level);
    }
    if (held == INFINITY || (full && held >= highest * (1 - same_level)))
        return;
    for (int i = 0; i < n; i++) {
        const struct net_share_flow *f = &s->flows[refs[i].flow];

        bool low = f->bottleneck == link &&
                   (!full || f->level < highest * (1 - same_level));

        if (low || f->level > held * (1 + same_level))
            open_flow(s, refs[i].flow);
    }
}

/* True when the certificate holds for all that was touched. */
static bool solve_near(struct net_share *s)
{
    for (int round = 0; round < s->rounds; round++) {
        int links = s->nlist, flows = s->nchanged;

        fill_open(s);
        for (int i = 0; i < links; i++)
            audit_link(s, s->list[i]);
        if (s->nchanged == flows)
            return true;
    }
    return false;
}

/* Opens whatever a change can reach at or above the restart level. Levels that
 * are equal may have been found by different sums, so it starts a little
 * lower: to open more is only work. */
static void solve_far(struct net_share *s)
{
    double from = s->restart * (1 - 1e-9);

    for (int i = 0; i < s->nlist; i++) {
        int n = s->links[s->list[i]].n;

        for (int k = 0; k < n; k++) {
            int flow = net_share_refs(s, s->list[i])[k].flow;

            if (s->flows[flow].level >= from)
                open_flow(s, flow);
        }
    }
    fill_open(s);
}

/* New flows have no level yet. */
static void open_arrived(struct net_share *s, int link)
{
    const struct net_ref *refs = net_share_refs(s, link);

    for (int i = 0; i < s->links[link].n; i++)
        if (s->flows[refs[i].flow].level == INFINITY)
            open_flow(s, refs[i].flow);
}

void net_share_solve(struct net_share *s)
{
    bool near = s->ntouched <= s->near;

    s->nchanged = s->nlist = 0;
    if (s->ntouched == 0 || s->failed)
        return;
    s->solves++;
    for (int i = 0; i < s->ntouched; i++) {
        struct net_share_link *l = &s->links[s->touched[i]];

        if (l->added)
            s->restart = net_min(s->restart, full_at(s, s->touched[i]));
        enter(s, s->touched[i]);
    }
    for (int i = 0; i < s->ntouched; i++) {
        struct net_share_link *l = &s->links[s->touched[i]];

        if (l->added)
            open_arrived(s, s->touched[i]);
        l->touched = l->added = false;
    }
    if (!near || !solve_near(s))
        solve_far(s);
    for (int i = 0; i < s->nlist; i++)
        s->links[s->list[i]].in = false;
    for (int i = 0; i < s->nchanged; i++)
        s->flows[s->changed[i]].in = false;
    s->ntouched = 0;
    s->restart = INFINITY;
}
