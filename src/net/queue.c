/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of links by level for progressive filling, where a link's level
 * only ever rises. Levels fall into buckets by the first bits of the double
 * (512 to an octave, 16 octaves, then one for the rest), and the bucket being
 * emptied is a binary heap. A link whose level has risen is noticed when its
 * turn comes and moves on. Most links so cost a few steps in place of a
 * logarithm's. */
#include "sim_queue.h"

#include <string.h>

static uint64_t order_of(double level)
{
    uint64_t bits;

    memcpy(&bits, &level, sizeof bits); /* ordered as the double is, >= 0 */
    return bits >> (52 - NET_QUEUE_BITS);
}

static int bucket_of(const struct net_queue *q, double level)
{
    uint64_t o = order_of(level);

    if (o <= q->first)
        return 0;
    o -= q->first;
    return o < NET_QUEUE_BUCKETS - 1 ? (int)o : NET_QUEUE_BUCKETS - 1;
}

void net_queue_start(struct net_queue *q, double least)
{
    q->first = order_of(least);
    q->at = -1;
    q->nheap = 0;
}

static void heap_up(struct net_queue *q, struct net_queue_item it)
{
    int i = q->nheap++;

    while (i > 0 && q->heap[(i - 1) / 2].level > it.level) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = it;
}

static void heap_down(struct net_queue *q, struct net_queue_item it)
{
    int i = 0;

    for (;;) {
        int c = 2 * i + 1;

        if (c >= q->nheap)
            break;
        if (c + 1 < q->nheap && q->heap[c + 1].level < q->heap[c].level)
            c++;
        if (q->heap[c].level >= it.level)
            break;
        q->heap[i] = q->heap[c];
        i = c;
    }
    q->heap[i] = it;
}

void net_queue_put(struct net_queue *q, struct net_left *links, int link,
                   double level)
{
    int b = bucket_of(q, level);

    if (b <= q->at) {
        heap_up(q, (struct net_queue_item){level, link});
        return;
    }
    links[link].next = q->used[b / 64] >> (b % 64) & 1 ? q->head[b] : -1;
    q->head[b] = link;
    q->used[b / 64] |= (uint64_t)1 << (b % 64);
}

/* Empties the next bucket in use into the heap. */
static bool refill(struct net_queue *q, struct net_left *links)
{
    int w = q->at < 0 ? 0 : q->at / 64;

    while (w < NET_QUEUE_BUCKETS / 64 && !q->used[w])
        w++;
    if (w == NET_QUEUE_BUCKETS / 64)
        return false;
    q->at = 64 * w + __builtin_ctzll(q->used[w]);
    q->used[w] &= q->used[w] - 1;
    for (int l = q->head[q->at], next; l >= 0; l = next) {
        next = links[l].next;
        if (links[l].open > 0)
            net_queue_put(q, links, l, net_level(&links[l]));
    }
    return true;
}

bool net_queue_least(struct net_queue *q, struct net_left *links,
                     struct net_queue_item *out)
{
    while (q->nheap == 0)
        if (!refill(q, links))
            return false;
    *out = q->heap[0];
    return true;
}

void net_queue_drop(struct net_queue *q)
{
    struct net_queue_item last = q->heap[--q->nheap];

    if (q->nheap > 0)
        heap_down(q, last);
}

void net_queue_raise(struct net_queue *q, struct net_left *links, double level)
{
    int link = q->heap[0].link;

    if (bucket_of(q, level) <= q->at) {
        heap_down(q, (struct net_queue_item){level, link});
        return;
    }
    net_queue_drop(q);
    net_queue_put(q, links, link, level);
}
