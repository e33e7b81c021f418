/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces in GOAL (Group Operation Assembly Language, Hoefler, Siebert and
 * Lumsdaine, ICPP 2009), as LogGOPSim and its converters write them:
 *
 *   num_ranks 2
 *   rank 0 {
 *   l1: calc 1000
 *   l2: send 64b to 1 tag 3
 *   l2 requires l1
 *   }
 *
 * calc is in nanoseconds. 'cpu' and 'nic' are read over: what nothing orders
 * may be done at once. 'a irequires b', a may begin when b does, makes a wait
 * for what b waits for. A message meets the next of its pair, so that two ranks
 * must send and receive tags in one order; else the trace is refused. */
#include "topo_priv.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20, MOST_OPS = 1 << 26, MOST_AFTER = 4 };

struct goal_op {
    const char *label;
    int64_t first_after; /* chain of waits; -1: none */
    int64_t place;       /* in the traffic; -1: not yet, -2: being placed */
    struct pdl_traffic_op op;
    int64_t tag;
};

/* `op` waits for `before`, both numbered in their rank. */
struct wait {
    int64_t before, next;
};

/* "a requires b", until all labels of the rank are known. */
struct demand {
    const char *a, *b;
    bool starts;
    int line;
};

struct name {
    const char *label;
    int64_t op;
};

struct rank_ops {
    struct pdl_traffic_op *op;
    int64_t n, cap, *tag;
};

struct goal {
    pdl_arena *arena;
    const char *name;
    struct pdl_err *err;
    char *at; /* the rest of the text */
    int line, rank, nranks;
    struct rank_ops *ranks;
    /* of the rank that is read */
    struct goal_op *ops;
    int64_t nops, ops_cap;
    struct wait *waits;
    int64_t nwaits, waits_cap;
    struct demand *demands;
    int64_t ndemands, demands_cap;
    struct name *names; /* by label */
};

static enum pdl_status wrong(struct goal *g, const char *what, const char *word)
{
    return pdl_fail(g->err, PDL_EPARSE, "%s:%d: '%.40s' %s", g->name, g->line,
                    word, what);
}

static enum pdl_status no_room(struct goal *g)
{
    return pdl_fail(g->err, PDL_ENOMEM, "%s: out of memory", g->name);
}

/* Room for one more. */
static bool reserve(struct goal *g, void *list, int64_t n, int64_t *cap,
                    size_t size)
{
    void **at = list;
    int64_t more = *cap ? 2 * *cap : 64;

    if (n < *cap)
        return true;
    if (n >= MOST_OPS)
        return false;
    *at = pdl_arena_grow(g->arena, *at, (size_t)n, (size_t)more, size);
    *cap = *at ? more : 0;
    return *at != NULL;
}

/* ---- words --------------------------------------------------------------- */

enum { MOST_WORDS = 12 };
struct words {
    char *w[MOST_WORDS];
    int n;
};

/* The next line that is not empty, cut into words; n 0: the end. */
static void next_line(struct goal *g, struct words *out)
{
    out->n = 0;
    while (*g->at && out->n == 0) {
        size_t len = strcspn(g->at, "\n");
        char *p = g->at, *end = p + len, *note;

        g->at = *end ? end + 1 : end;
        *end = '\0';
        g->line++;
        note = strstr(p, "//");
        if (note)
            *note = '\0';
        for (p += strspn(p, " \t\r"); *p && *p != '#' && out->n < MOST_WORDS;) {
            char *stop = p + strcspn(p, " \t\r");

            out->w[out->n++] = p;
            p = *stop ? stop + 1 : stop;
            *stop = '\0';
            p += strspn(p, " \t\r");
        }
    }
}

static enum pdl_status number(struct goal *g, const char *word, int64_t most,
                              int64_t *out)
{
    return pdl_int_parse(word, 0, most, out, NULL) == PDL_OK
               ? PDL_OK
               : wrong(g, "is no number that can be here", word);
}

/* "64b", and the peer and the tag behind. */
static enum pdl_status message(struct goal *g, struct words *w, int from,
                               struct goal_op *op, int *peer, int64_t *bytes)
{
    bool sends = strcmp(w->w[from], "send") == 0;
    int64_t r = 0;
    enum pdl_status st;
    size_t len;

    if (w->n < from + 4 || strcmp(w->w[from + 2], sends ? "to" : "from") != 0)
        return wrong(g, "is not followed by BYTESb to|from RANK", w->w[from]);
    len = strlen(w->w[from + 1]);
    if (w->w[from + 1][len - 1] == 'b')
        w->w[from + 1][len - 1] = '\0';
    st = number(g, w->w[from + 1], INT64_C(1) << 50, bytes);
    if (st == PDL_OK)
        st = number(g, w->w[from + 3], g->nranks - 1, &r);
    *peer = (int)r;
    for (int i = from + 4; i + 1 < w->n && st == PDL_OK; i += 2)
        if (strcmp(w->w[i], "tag") == 0)
            st = number(g, w->w[i + 1], INT64_MAX, &op->tag);
    return st;
}

static enum pdl_status operation(struct goal *g, struct words *w, int from,
                                 const char *label)
{
    struct goal_op op = {.label = label, .first_after = -1, .place = -1};
    enum pdl_status st = PDL_OK;
    int64_t ns;

    op.op = (struct pdl_traffic_op){.send_to = -1, .recv_from = -1};
    if (w->n <= from)
        return wrong(g, "is a label of nothing", label);
    if (strcmp(w->w[from], "calc") == 0 && w->n > from + 1) {
        st = number(g, w->w[from + 1], INT64_C(1) << 60, &ns);
        op.op.compute_s = st == PDL_OK ? (double)ns * 1e-9 : 0;
    } else if (strcmp(w->w[from], "send") == 0) {
        st = message(g, w, from, &op, &op.op.send_to, &op.op.send_bytes);
    } else if (strcmp(w->w[from], "recv") == 0) {
        st = message(g, w, from, &op, &op.op.recv_from, &op.op.recv_bytes);
    } else {
        return wrong(g, "is not send, recv or calc", w->w[from]);
    }
    if (st == PDL_OK &&
        !reserve(g, &g->ops, g->nops, &g->ops_cap, sizeof *g->ops))
        return no_room(g);
    if (st == PDL_OK)
        g->ops[g->nops++] = op;
    return st;
}

static enum pdl_status demand(struct goal *g, struct words *w)
{
    bool starts = strcmp(w->w[1], "irequires") == 0;

    if (!starts && strcmp(w->w[1], "requires") != 0)
        return wrong(g, "is not requires or irequires", w->w[1]);
    if (!reserve(g, &g->demands, g->ndemands, &g->demands_cap,
                 sizeof *g->demands))
        return no_room(g);
    g->demands[g->ndemands++] =
        (struct demand){w->w[0], w->w[2], starts, g->line};
    return PDL_OK;
}

/* ---- one rank ------------------------------------------------------------ */

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->label,
                  ((const struct name *)b)->label);
}

static enum pdl_status find(struct goal *g, const char *label, int line,
                            int64_t *out)
{
    struct name key = {label, 0}, *at;

    at = bsearch(&key, g->names, (size_t)g->nops, sizeof key, by_label);
    g->line = line;
    if (!at)
        return wrong(g, "is no label of this rank", label);
    *out = at->op;
    return PDL_OK;
}

static enum pdl_status wait_for(struct goal *g, int64_t op, int64_t before)
{
    if (!reserve(g, &g->waits, g->nwaits, &g->waits_cap, sizeof *g->waits))
        return no_room(g);
    g->waits[g->nwaits] = (struct wait){before, g->ops[op].first_after};
    g->ops[op].first_after = g->nwaits++;
    return PDL_OK;
}

/* Labels become numbers; what begins with another waits for what that one
 * waits for, so far. */
static enum pdl_status resolve(struct goal *g)
{
    enum pdl_status st = PDL_OK;

    g->names = PDL_NEW(g->arena, struct name, g->nops + 1);
    if (!g->names)
        return no_room(g);
    for (int64_t i = 0; i < g->nops; i++)
        g->names[i] = (struct name){g->ops[i].label, i};
    if (g->nops > 1)
        qsort(g->names, (size_t)g->nops, sizeof *g->names, by_label);
    for (int64_t i = 1; i < g->nops; i++)
        if (*g->names[i].label && by_label(&g->names[i - 1], &g->names[i]) == 0)
            return wrong(g, "names two operations of this rank",
                         g->names[i].label);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < g->ndemands && st == PDL_OK; i++) {
            const struct demand *d = &g->demands[i];
            int64_t a, b;

            if (d->starts != (pass == 1))
                continue;
            st = find(g, d->a, d->line, &a);
            if (st == PDL_OK)
                st = find(g, d->b, d->line, &b);
            if (st == PDL_OK && !d->starts)
                st = wait_for(g, a, b);
            for (int64_t w = st == PDL_OK && d->starts ? g->ops[b].first_after
                                                       : -1;
                 w >= 0 && st == PDL_OK; w = g->waits[w].next)
                st = wait_for(g, a, g->waits[w].before);
        }
    return st;
}

/* Writes an operation of the traffic; after: places of what it waits for. */
static enum pdl_status put(struct goal *g, struct pdl_traffic_op op,
                           int64_t tag)
{
    struct rank_ops *r = &g->ranks[g->rank];
    int64_t cap = r->cap;

    if (!reserve(g, &r->op, r->n, &r->cap, sizeof *r->op) ||
        !reserve(g, &r->tag, r->n, &cap, sizeof *r->tag))
        return no_room(g);
    r->tag[r->n] = tag;
    r->op[r->n++] = op;
    return PDL_OK;
}

/* What waits for more than an operation can has operations that do nothing but
 * wait before it. */
static enum pdl_status place(struct goal *g, struct goal_op *o)
{
    struct pdl_traffic_op join = {.send_to = -1, .recv_from = -1};
    enum pdl_status st = PDL_OK;

    for (int64_t w = o->first_after; w >= 0 && st == PDL_OK;
         w = g->waits[w].next) {
        if (join.nafter == MOST_AFTER) {
            st = put(g, join, 0);
            join.nafter = 1;
            join.after[0] = g->ranks[g->rank].n - 1;
        }
        join.after[join.nafter++] = g->ops[g->waits[w].before].place;
    }
    o->op.nafter = join.nafter;
    memcpy(o->op.after, join.after, sizeof o->op.after);
    if (st == PDL_OK)
        st = put(g, o->op, o->tag);
    o->place = g->ranks[g->rank].n - 1;
    return st;
}

/* In the order of the file, but for what they wait for: that before. */
static enum pdl_status place_all(struct goal *g)
{
    int64_t *stack = PDL_NEW(g->arena, int64_t, g->nops + 1);
    enum pdl_status st = stack ? PDL_OK : no_room(g);

    for (int64_t i = 0; i < g->nops && st == PDL_OK; i++) {
        int64_t n = 0;

        if (g->ops[i].place >= 0)
            continue;
        stack[n++] = i;
        g->ops[i].place = -2;
        while (n > 0 && st == PDL_OK) {
            struct goal_op *o = &g->ops[stack[n - 1]];
            int64_t w = o->first_after, b = -1;

            for (; w >= 0; w = g->waits[w].next) {
                b = g->waits[w].before;
                if (g->ops[b].place < 0)
                    break;
            }
            if (w >= 0 && g->ops[b].place == -2)
                return wrong(g, "waits for itself", g->ops[b].label);
            if (w >= 0) {
                stack[n++] = b;
                g->ops[b].place = -2;
            } else {
                st = place(g, o);
                n--;
            }
        }
    }
    return st;
}

static enum pdl_status read_rank(struct goal *g, struct words *w)
{
    int64_t rank;
    enum pdl_status st;

    if (w->n != 3 || strcmp(w->w[0], "rank") != 0 || strcmp(w->w[2], "{") != 0)
        return wrong(g, "is not 'rank R {'", w->w[0]);
    st = number(g, w->w[1], g->nranks - 1, &rank);
    if (st != PDL_OK)
        return st;
    g->rank = (int)rank;
    g->nops = g->nwaits = g->ndemands = 0;
    if (g->ranks[rank].n > 0)
        return wrong(g, "is a rank that was read before", w->w[1]);
    for (next_line(g, w); st == PDL_OK; next_line(g, w)) {
        size_t len = w->n > 0 ? strlen(w->w[0]) : 0;

        if (w->n == 0)
            return wrong(g, "has no end", "rank");
        if (strcmp(w->w[0], "}") == 0)
            break;
        if (w->w[0][len - 1] == ':') {
            w->w[0][len - 1] = '\0';
            st = operation(g, w, 1, w->w[0]);
        } else if (w->n == 3 && strstr(w->w[1], "requires")) {
            st = demand(g, w);
        } else {
            st = operation(g, w, 0, "");
        }
    }
    if (st == PDL_OK)
        st = resolve(g);
    return st == PDL_OK ? place_all(g) : st;
}

/* ---- who meets whom ------------------------------------------------------ */

struct half {
    int from, to;
    int64_t nth, bytes, tag;
};

static int by_pair(const void *a, const void *b)
{
    const struct half *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->nth > y->nth) - (x->nth < y->nth);
}

/* All sends, or all receives, by pair and in order. */
static int64_t halves(const struct goal *g, bool sends, struct half *out)
{
    int64_t n = 0;

    for (int r = 0; r < g->nranks; r++)
        for (int64_t i = 0; i < g->ranks[r].n; i++) {
            const struct pdl_traffic_op *o = &g->ranks[r].op[i];

            if ((sends ? o->send_to : o->recv_from) < 0)
                continue;
            if (out)
                out[n] = (struct half){
                    sends ? r : o->recv_from, sends ? o->send_to : r, i,
                    sends ? o->send_bytes : o->recv_bytes, g->ranks[r].tag[i]};
            n++;
        }
    if (out && n > 1)
        qsort(out, (size_t)n, sizeof *out, by_pair);
    return n;
}

static enum pdl_status check_pairs(struct goal *g)
{
    int64_t n = halves(g, true, NULL), m = halves(g, false, NULL);
    struct half *s = PDL_NEW(g->arena, struct half, n + 1);
    struct half *r = PDL_NEW(g->arena, struct half, m + 1);

    if (!s || !r)
        return no_room(g);
    halves(g, true, s);
    halves(g, false, r);
    for (int64_t i = 0; i < n || i < m; i++) {
        const struct half *x = i < n ? &s[i] : &r[i], *y = i < m ? &r[i] : x;

        if (i >= n || i >= m || x->from != y->from || x->to != y->to)
            return pdl_fail(g->err, PDL_EPARSE,
                            "%s: from %d to %d are not as many sends as "
                            "receives",
                            g->name, x->from, x->to);
        if (x->bytes != y->bytes || x->tag != y->tag)
            return pdl_fail(g->err, PDL_EPARSE,
                            "%s: from %d to %d a message of %lld bytes, tag "
                            "%lld meets a receive of %lld, tag %lld: pairs "
                            "must be in one order",
                            g->name, x->from, x->to, (long long)x->bytes,
                            (long long)x->tag, (long long)y->bytes,
                            (long long)y->tag);
    }
    return PDL_OK;
}

/* ---- as traffic ---------------------------------------------------------- */

static int64_t nops(void *ctx, int rank)
{
    return ((const struct rank_ops *)ctx)[rank].n;
}

static void op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    *out = ((const struct rank_ops *)ctx)[rank].op[i];
}

enum pdl_status pdl_traffic_read_goal(pdl_arena *a, struct pdl_bytes in,
                                      const char *name, struct pdl_traffic *out,
                                      struct pdl_err *err)
{
    struct goal g = {.arena = a, .name = name, .err = err};
    struct words w;
    int64_t n = 0, most = 1;
    enum pdl_status st;

    g.at = pdl_arena_strndup(a, in.data, in.len);
    if (!g.at)
        return no_room(&g);
    next_line(&g, &w);
    if (w.n != 2 || strcmp(w.w[0], "num_ranks") != 0)
        return wrong(&g, "is not 'num_ranks N'", w.n ? w.w[0] : "");
    st = number(&g, w.w[1], MOST_RANKS, &n);
    g.nranks = (int)n;
    g.ranks = PDL_NEW(a, struct rank_ops, n + 1);
    if (st == PDL_OK && n == 0)
        return wrong(&g, "is no number of ranks", w.w[1]);
    if (st == PDL_OK && !g.ranks)
        return no_room(&g);
    for (next_line(&g, &w); st == PDL_OK && w.n > 0; next_line(&g, &w))
        st = read_rank(&g, &w);
    if (st == PDL_OK)
        st = check_pairs(&g);
    if (st != PDL_OK)
        return st;
    for (int r = 0; r < g.nranks; r++)
        most = g.ranks[r].n > most ? g.ranks[r].n : most;
    *out = (struct pdl_traffic){
        .nranks = g.nranks,
        .ctx = g.ranks,
        .nops = nops,
        .op = op,
        .window = most < INT32_MAX ? (int)most : INT32_MAX};
    return PDL_OK;
}
