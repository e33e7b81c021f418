/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of all ranks' traces as events: a computation of one rank, a
 * message of two, a collective of a group. The k-th collective of a rank in a
 * group meets the k-th of the others, and messages meet likewise by sender,
 * receiver and tag. Events are put in one order in which each comes after
 * what any of its nodes waits for (Kahn 1962; of those that can be next the
 * one that stands first in the files), so that all ranks send and receive in
 * the same order. Where there is none, ranks wait for each other in a circle.
 *
 * O(n log n) in nodes and waits. */
#include "chakra.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- who meets whom ------------------------------------------------------ */

/* A node that others take part in. */
struct part {
    int64_t key[3]; /* a group; or sender, receiver and tag */
    int64_t nth, node;
    int rank;
    bool receives;
};

static struct chakra_node *node_of(const struct chakra_trace *t,
                                   const struct part *p)
{
    return &t->ranks[p->rank].nodes[p->node];
}

static int compare(const int64_t *a, const int64_t *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int64_t p[3] = {x->receives, x->rank, x->node};
    const int64_t q[3] = {y->receives, y->rank, y->node};
    int c = compare(x->key, y->key, 3);

    return c ? c : compare(p, q, 3);
}

static int by_turn(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int64_t p[3] = {x->nth, x->rank, x->receives};
    const int64_t q[3] = {y->nth, y->rank, y->receives};
    int c = compare(x->key, y->key, 3);

    return c ? c : compare(p, q, 3);
}

static enum pdl_status wrong(const struct chakra_trace *t, const struct part *p,
                             const char *what)
{
    return pdl_fail(t->err, PDL_EPARSE, "%s: node %" PRIu64 " %s",
                    t->ranks[p->rank].name, (uint64_t)node_of(t, p)->id, what);
}

static enum pdl_status key_of(const struct chakra_trace *t, struct part *p)
{
    const struct chakra_node *n = node_of(t, p);
    const struct chakra_group *g;

    if (n->type != CHAKRA_COLLECTIVE) {
        p->key[0] = n->type == CHAKRA_SEND ? p->rank : n->peer;
        p->key[1] = n->type == CHAKRA_SEND ? n->peer : p->rank;
        p->key[2] = n->tag;
        return PDL_OK;
    }
    g = coll_chakra_group(t, n);
    if (!g) {
        pdl_fail(t->err, PDL_EPARSE,
                 "%s: node %" PRIu64 " is of group '%.40s', which is not "
                 "described",
                 t->ranks[p->rank].name, (uint64_t)n->id, n->group);
        pdl_hint(t->err, "--comm-groups FILE.json: {\"%.20s\": [0, 1, ...]}",
                 n->group);
        return PDL_EPARSE;
    }
    if (coll_chakra_member(g, p->rank) < 0)
        return wrong(t, p, "is of a group that its rank is not in");
    p->key[0] = -1;
    p->key[1] = g - t->groups;
    p->key[2] = 0;
    return PDL_OK;
}

static enum pdl_status list_parts(struct chakra_trace *t, struct part **out,
                                  int64_t *out_n)
{
    struct part *list = NULL;
    int64_t n = 0, cap = 0;
    enum pdl_status st = PDL_OK;

    for (int r = 0; r < t->nranks; r++)
        for (int64_t i = 0; i < t->ranks[r].n && st == PDL_OK; i++) {
            if (t->ranks[r].nodes[i].type < CHAKRA_SEND)
                continue;
            if (!coll_chakra_reserve(t->arena, &list, n, &cap, sizeof *list))
                return coll_chakra_no_room(t);
            list[n] = (struct part){
                .rank = r,
                .node = i,
                .receives = t->ranks[r].nodes[i].type == CHAKRA_RECV};
            st = key_of(t, &list[n++]);
        }
    *out = list;
    *out_n = n;
    return st;
}

static bool is_same_turn(const struct part *a, const struct part *b)
{
    return compare(a->key, b->key, 3) == 0 && a->nth == b->nth;
}

/* The parts of one event, side by side. */
static enum pdl_status meet(struct chakra_trace *t, const struct part *p,
                            int64_t n)
{
    const struct chakra_node *first = node_of(t, p);
    bool collective = first->type == CHAKRA_COLLECTIVE;
    int64_t sends = 0, wanted = collective ? t->groups[p->key[1]].n : 2;

    for (int64_t i = 0; i < n; i++) {
        struct chakra_node *x = node_of(t, &p[i]);

        sends += x->type == CHAKRA_SEND;
        if (collective && (x->coll != first->coll || x->bytes != first->bytes))
            return wrong(t, &p[i],
                         "is another collective, or of another size, than "
                         "that of other ranks of its group");
        x->event = t->nevents;
    }
    if (n < wanted || (!collective && sends != 1))
        return wrong(t, p,
                     collective ? "is a collective that not all of its group "
                                  "take part in"
                                : "is a message that is not both sent and "
                                  "received");
    t->nevents++;
    return PDL_OK;
}

static enum pdl_status match(struct chakra_trace *t)
{
    struct part *p = NULL;
    int64_t n = 0;
    enum pdl_status st = list_parts(t, &p, &n);

    if (st == PDL_OK && n > 1)
        qsort(p, (size_t)n, sizeof *p, by_rank);
    for (int64_t i = 1; i < n && st == PDL_OK; i++)
        if (p[i].rank == p[i - 1].rank && p[i].receives == p[i - 1].receives &&
            compare(p[i].key, p[i - 1].key, 3) == 0)
            p[i].nth = p[i - 1].nth + 1;
    if (st == PDL_OK && n > 1)
        qsort(p, (size_t)n, sizeof *p, by_turn);
    for (int64_t i = 0, k; i < n && st == PDL_OK; i = k) {
        for (k = i + 1; k < n && is_same_turn(&p[i], &p[k]);)
            k++;
        st = meet(t, &p[i], k - i);
    }
    return st;
}

/* Whatever nobody else takes part in. */
static void number_the_rest(struct chakra_trace *t)
{
    for (int r = 0; r < t->nranks; r++)
        for (int64_t i = 0; i < t->ranks[r].n; i++)
            if (t->ranks[r].nodes[i].event < 0)
                t->ranks[r].nodes[i].event = t->nevents++;
}

/* ---- one order ----------------------------------------------------------- */

struct sort {
    struct chakra_trace *t;
    int64_t *waits; /* of each event: what it still waits for */
    int64_t *place; /* in its rank's file, of its first node */
    int64_t *first; /* events that wait for an event: CSR */
    int64_t *waiter;
    int64_t *heap, nheap;
    int64_t *when; /* the order */
};

static bool comes_before(const struct sort *s, int64_t a, int64_t b)
{
    return s->place[a] != s->place[b] ? s->place[a] < s->place[b] : a < b;
}

static void push(struct sort *s, int64_t e)
{
    int64_t i = s->nheap++;

    for (; i > 0 && comes_before(s, e, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static int64_t pop(struct sort *s)
{
    int64_t top = s->heap[0], e = s->heap[--s->nheap], i = 0, k;

    for (; (k = 2 * i + 1) < s->nheap; i = k) {
        if (k + 1 < s->nheap && comes_before(s, s->heap[k + 1], s->heap[k]))
            k++;
        if (!comes_before(s, s->heap[k], e))
            break;
        s->heap[i] = s->heap[k];
    }
    s->heap[i] = e;
    return top;
}

static bool has_room(struct sort *s)
{
    pdl_arena *a = s->t->arena;
    int64_t n = s->t->nevents + 2, edges = 1;

    for (int r = 0; r < s->t->nranks; r++)
        edges += s->t->ranks[r].nafter;
    s->waits = PDL_NEW(a, int64_t, n);
    s->place = PDL_NEW(a, int64_t, n);
    s->first = PDL_NEW(a, int64_t, n);
    s->heap = PDL_NEW(a, int64_t, n);
    s->when = PDL_NEW(a, int64_t, n);
    s->waiter = PDL_NEW(a, int64_t, edges);
    return s->waits && s->place && s->first && s->heap && s->when && s->waiter;
}

/* Every wait, as event before and event after. */
static void each_wait(struct sort *s,
                      void (*f)(struct sort *, int64_t, int64_t))
{
    for (int r = 0; r < s->t->nranks; r++) {
        const struct chakra_rank *k = &s->t->ranks[r];

        for (int64_t i = 0; i < k->n; i++)
            for (int64_t w = 0; w < k->nodes[i].nafter; w++)
                f(s, k->nodes[k->after[k->nodes[i].first_after + w]].event,
                  k->nodes[i].event);
    }
}

static void count_wait(struct sort *s, int64_t before, int64_t after)
{
    s->waits[after]++;
    s->first[before + 1]++;
}

/* Fills each event's list from its end. */
static void list_wait(struct sort *s, int64_t before, int64_t after)
{
    s->waiter[--s->first[before + 1]] = after;
}

static void list_all(struct sort *s)
{
    struct chakra_trace *t = s->t;

    for (int64_t e = 0; e < t->nevents; e++)
        s->place[e] = INT64_MAX;
    for (int r = 0; r < t->nranks; r++)
        for (int64_t i = 0; i < t->ranks[r].n; i++) {
            int64_t e = t->ranks[r].nodes[i].event;

            s->place[e] = i < s->place[e] ? i : s->place[e];
        }
    each_wait(s, count_wait);
    for (int64_t e = 0; e < t->nevents; e++)
        s->first[e + 1] += s->first[e];
    s->first[t->nevents + 1] = s->first[t->nevents];
    each_wait(s, list_wait);
}

static enum pdl_status circle(const struct sort *s)
{
    const struct chakra_trace *t = s->t;

    for (int r = 0; r < t->nranks; r++)
        for (int64_t i = 0; i < t->ranks[r].n; i++)
            if (s->waits[t->ranks[r].nodes[i].event] > 0)
                return pdl_fail(t->err, PDL_EPARSE,
                                "%s: node %" PRIu64 " never begins: ranks or "
                                "nodes wait for each other in a circle",
                                t->ranks[r].name,
                                (uint64_t)t->ranks[r].nodes[i].id);
    return pdl_fail(t->err, PDL_EPARSE, "ranks wait for each other");
}

static enum pdl_status sort_events(struct sort *s)
{
    int64_t done = 0;

    list_all(s);
    for (int64_t e = 0; e < s->t->nevents; e++)
        if (s->waits[e] == 0)
            push(s, e);
    for (; s->nheap > 0; done++) {
        int64_t e = pop(s);
        int64_t end = s->first[e + 2];

        s->when[e] = done;
        for (int64_t i = s->first[e + 1]; i < end; i++)
            if (--s->waits[s->waiter[i]] == 0)
                push(s, s->waiter[i]);
    }
    return done == s->t->nevents ? PDL_OK : circle(s);
}

struct turn {
    int64_t when, node;
};

static int by_when(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    return (x->when > y->when) - (x->when < y->when);
}

/* The order, rank by rank. */
static enum pdl_status hand_out(const struct sort *s)
{
    for (int r = 0; r < s->t->nranks; r++) {
        struct chakra_rank *k = &s->t->ranks[r];
        struct turn *turns = PDL_NEW(s->t->arena, struct turn, k->n + 1);

        k->order = PDL_NEW(s->t->arena, int64_t, k->n + 1);
        if (!turns || !k->order)
            return coll_chakra_no_room(s->t);
        for (int64_t i = 0; i < k->n; i++)
            turns[i] = (struct turn){s->when[k->nodes[i].event], i};
        if (k->n > 1)
            qsort(turns, (size_t)k->n, sizeof *turns, by_when);
        for (int64_t i = 0; i < k->n; i++)
            k->order[i] = turns[i].node;
    }
    return PDL_OK;
}

enum pdl_status coll_chakra_order(struct chakra_trace *t)
{
    struct sort s = {.t = t};
    enum pdl_status st = match(t);

    if (st != PDL_OK)
        return st;
    number_the_rest(t);
    if (!has_room(&s))
        return coll_chakra_no_room(t);
    st = sort_events(&s);
    return st == PDL_OK ? hand_out(&s) : st;
}
