/* SPDX-License-Identifier: Apache-2.0
 *
 * The flows on the links: they come and go here, fill.c finds their rates. A
 * flow alone on its links has their rate at once. What changes is noted:
 * which links were touched, and the lowest level at which something left. */
#include "sim_queue.h"

#include <math.h>
#include <stdlib.h>

enum { NEAR_LINKS = 64, NEAR_ROUNDS = 24 };

static struct net_use *uses_of(struct net_share *s, int flow)
{
    return (struct net_use *)(void *)s->uses.base + s->flows[flow].uses;
}

enum pdl_status net_share_init(struct net_share *s, pdl_arena *a,
                               const double *capacity, int nlinks,
                               struct pdl_err *err)
{
    size_t n = (size_t)nlinks + 1;

    *s = (struct net_share){.arena = a,
                            .nlinks = nlinks,
                            .near = NEAR_LINKS,
                            .rounds = NEAR_ROUNDS,
                            .restart = INFINITY};
    s->links = PDL_NEW(a, struct net_share_link, n);
    s->left = PDL_NEW(a, struct net_left, n);
    s->touched = PDL_NEW(a, int, n);
    s->list = PDL_NEW(a, int, n);
    s->queue = PDL_NEW(a, struct net_queue, 1);
    if (s->queue)
        s->queue->heap = PDL_NEW(a, struct net_queue_item, n);
    if (!s->links || !s->left || !s->touched || !s->list || !s->queue ||
        !s->queue->heap)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d links", nlinks);
    for (int l = 0; l < nlinks; l++) {
        s->links[l].capacity = capacity[l];
        s->links[l].log = -1;
    }
    net_pool_init(&s->uses, a, sizeof(struct net_use));
    net_pool_init(&s->refs, a, sizeof(struct net_ref));
    return PDL_OK;
}

void net_share_reserve(struct net_share *s, int n)
{
    size_t have = (size_t)s->nflows, cap;

    if (n <= s->nflows || s->failed)
        return;
    cap = n > 2 * s->nflows ? (size_t)n : 2 * have;
    s->flows = pdl_arena_grow(s->arena, s->flows, have, cap, sizeof *s->flows);
    s->changed = PDL_NEW(s->arena, int, cap);
    s->bounded = PDL_NEW(s->arena, struct net_bounded, cap);
    s->nflows = (int)cap;
    s->nchanged = 0;
    s->failed = !s->flows || !s->changed || !s->bounded;
}

/* ---- coming and going ---------------------------------------------------- */

static void touch(struct net_share *s, int link)
{
    if (s->links[link].touched)
        return;
    s->links[link].touched = true;
    s->touched[s->ntouched++] = link;
}

/* Puts a use on its link's list. */
static void enlist_use(struct net_share *s, int flow, int use)
{
    struct net_use *u = &uses_of(s, flow)[use];
    struct net_share_link *l = &s->links[u->link];
    int64_t old = l->refs;

    if (l->log < 0 || l->n == 1 << l->log) {
        int64_t grown = net_pool_take(&s->refs, l->log + 1);
        struct net_ref *base = (struct net_ref *)(void *)s->refs.base;

        if (grown < 0) {
            s->failed = true;
            return;
        }
        for (int i = 0; i < l->n; i++)
            base[grown + i] = base[old + i];
        if (l->log >= 0)
            net_pool_give(&s->refs, old, l->log);
        l->refs = grown;
        l->log++;
    }
    u->pos = l->n;
    net_share_refs(s, u->link)[l->n++] = (struct net_ref){flow, use};
}

void net_share_hold(struct net_share *s, int flow,
                    const struct pdl_maxmin_use *uses, int nuses, double weight,
                    double bound)
{
    struct net_share_flow *f;

    net_share_reserve(s, flow + 1);
    if (s->failed)
        return;
    f = &s->flows[flow];
    *f = (struct net_share_flow){.weight = weight, .level = INFINITY};
    f->bound_level = bound > 0 ? bound / weight : INFINITY;
    f->log = net_log2_up(nuses);
    f->uses = net_pool_take(&s->uses, f->log);
    f->nuses = nuses;
    if (f->uses < 0) {
        s->failed = true;
        return;
    }
    for (int i = 0; i < nuses; i++)
        uses_of(s, flow)[i] = (struct net_use){uses[i].amount, uses[i].link, 0};
}

void net_share_join(struct net_share *s, int flow)
{
    struct net_share_flow *f = &s->flows[flow];
    struct net_use *uses = uses_of(s, flow);
    double alone = INFINITY;
    bool first = true;
    int tightest = -1;

    f->joined = true;
    for (int i = 0; i < f->nuses; i++) {
        const struct net_share_link *l = &s->links[uses[i].link];

        first = first && l->n == 0;
        if (l->capacity / uses[i].amount < alone) {
            alone = l->capacity / uses[i].amount;
            tightest = uses[i].link;
        }
    }
    if (f->bound_level * f->weight >= alone)
        f->bound_level = INFINITY; /* never the first to be met */
    for (int i = 0; i < f->nuses; i++) {
        enlist_use(s, flow, i);
        if (!first) {
            touch(s, uses[i].link);
            s->links[uses[i].link].added = true;
        }
    }
    if (first) {
        f->level = net_min(f->bound_level, alone / f->weight);
        f->rate = net_min(f->bound_level * f->weight, alone);
        f->bottleneck = f->bound_level < INFINITY ? -1 : tightest;
    }
}

void net_share_add(struct net_share *s, int flow,
                   const struct pdl_maxmin_use *uses, int nuses, double weight,
                   double bound)
{
    net_share_hold(s, flow, uses, nuses, weight, bound);
    if (!s->failed)
        net_share_join(s, flow);
}

void net_share_remove(struct net_share *s, int flow)
{
    struct net_share_flow *f = &s->flows[flow];
    struct net_use *uses = uses_of(s, flow);

    for (int i = 0; i < f->nuses && f->joined; i++) {
        struct net_share_link *l = &s->links[uses[i].link];
        struct net_ref *refs = net_share_refs(s, uses[i].link);
        struct net_ref last = refs[--l->n];

        refs[uses[i].pos] = last;
        uses_of(s, last.flow)[last.use].pos = uses[i].pos;
        if (l->n > 0) {
            touch(s, uses[i].link);
            s->restart = net_min(s->restart, f->level);
        }
    }
    net_pool_give(&s->uses, f->uses, f->log);
    f->nuses = 0;
    f->rate = 0;
    f->joined = false;
}
