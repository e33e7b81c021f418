/* SPDX-License-Identifier: Apache-2.0
 *
 * Which send meets which receive: between two ranks the k-th send meets the
 * k-th receive, counted in the order of operations and not of readiness, so
 * that the segments of a pipeline cannot be taken for one another.
 *
 * A pair of ranks is remembered only while some of its messages counted have
 * not met; then both counts are equal and can start from 0 again. The memory
 * is so that of the messages waiting. */
#include "sim_priv.h"

#include <string.h>

void net_match_init(struct net_match *m, pdl_arena *a)
{
    *m = (struct net_match){.arena = a, .free_pair = -1, .free_post = -1};
}

void net_match_clear(struct net_match *m)
{
    m->npairs = m->live = m->nposts = m->waiting = 0;
    m->free_pair = m->free_post = -1;
    for (int i = 0; i < m->nheads; i++)
        m->heads[i] = -1;
}

static int *head_of(const struct net_match *m, int64_t key)
{
    uint64_t h = (uint64_t)key * 0x9E3779B97F4A7C15u;

    return &m->heads[(h >> 32) & (uint64_t)(m->nheads - 1)];
}

/* Twice the chains, when pairs outnumber them. */
static bool rehash(struct net_match *m)
{
    int n = m->nheads ? 2 * m->nheads : 1024;
    int *old = m->heads, nold = m->nheads;

    m->heads = PDL_NEW(m->arena, int, n);
    if (!m->heads)
        return false;
    m->nheads = n;
    for (int i = 0; i < n; i++)
        m->heads[i] = -1;
    for (int i = 0; i < nold; i++)
        for (int p = old[i], next; p >= 0; p = next) {
            int *head = head_of(m, m->pairs[p].key);

            next = m->pairs[p].next;
            m->pairs[p].next = *head;
            *head = p;
        }
    return true;
}

static int new_pair(struct net_match *m, int64_t key)
{
    int p = m->free_pair, *head, cap;

    if (m->live >= m->nheads && !rehash(m))
        return -1;
    if (p >= 0) {
        m->free_pair = m->pairs[p].next;
    } else {
        if (m->npairs == m->pair_cap) {
            cap = m->pair_cap ? 2 * m->pair_cap : 256;
            m->pairs = pdl_arena_grow(m->arena, m->pairs, (size_t)m->npairs,
                                      (size_t)cap, sizeof *m->pairs);
            if (!m->pairs)
                return -1;
            m->pair_cap = cap;
        }
        p = m->npairs++;
    }
    head = head_of(m, key);
    m->pairs[p] = (struct net_pair){.key = key, .posted = -1, .next = *head};
    *head = p;
    m->live++;
    return p;
}

int net_match_count(struct net_match *m, int src, int dst, bool send,
                    int64_t *ordinal)
{
    int64_t key = (int64_t)src << 32 | dst;
    int p = m->nheads ? *head_of(m, key) : -1;
    struct net_pair *pair;

    while (p >= 0 && m->pairs[p].key != key)
        p = m->pairs[p].next;
    if (p < 0)
        p = new_pair(m, key);
    if (p < 0) {
        m->failed = true;
        return -1;
    }
    pair = &m->pairs[p];
    *ordinal = send ? pair->sends++ : pair->recvs++;
    pair->open++;
    return p;
}

static void forget(struct net_match *m, int p)
{
    int *at = head_of(m, m->pairs[p].key);

    while (*at != p)
        at = &m->pairs[*at].next;
    *at = m->pairs[p].next;
    m->pairs[p].next = m->free_pair;
    m->free_pair = p;
    m->live--;
}

static void put_post(struct net_match *m, int pair, const struct net_post *post)
{
    int i = m->free_post, cap;

    if (i >= 0) {
        m->free_post = m->posts[i].next;
    } else {
        if (m->nposts == m->post_cap) {
            cap = m->post_cap ? 2 * m->post_cap : 256;
            m->posts = pdl_arena_grow(m->arena, m->posts, (size_t)m->nposts,
                                      (size_t)cap, sizeof *m->posts);
            if (!m->posts) {
                m->failed = true;
                return;
            }
            m->post_cap = cap;
        }
        i = m->nposts++;
    }
    m->posts[i] = *post;
    m->posts[i].next = m->pairs[pair].posted;
    m->pairs[pair].posted = i;
    m->waiting++;
}

bool net_match_post(struct net_match *m, int pair, const struct net_post *post,
                    struct net_post *other)
{
    int *at = &m->pairs[pair].posted, i;

    while (*at >= 0 && (m->posts[*at].send == post->send ||
                        m->posts[*at].ordinal != post->ordinal))
        at = &m->posts[*at].next;
    i = *at;
    if (i < 0) {
        put_post(m, pair, post);
        return false;
    }
    *other = m->posts[i];
    *at = m->posts[i].next;
    m->posts[i].next = m->free_post;
    m->free_post = i;
    m->waiting--;
    m->pairs[pair].open -= 2;
    if (m->pairs[pair].open == 0)
        forget(m, pair);
    return true;
}
