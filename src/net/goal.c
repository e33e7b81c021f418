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
 * for what b waits for. */
#include "topo_priv.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

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

struct goal {
    pdl_arena *arena;
    const char *name;
    struct pdl_err *err;
    char *at; /* the rest of the text */
    int line, nranks;
    struct pdl_trace *trace;
    /* of the rank that is read */
    struct name *names; /* of operations; then by label */
    int64_t nops, names_cap;
    struct demand *demands;
    int64_t ndemands, demands_cap;
};

static enum pdl_status wrong_at(struct goal *g, int line, const char *what,
                                const char *word)
{
    return pdl_fail(g->err, PDL_EPARSE, "%s:%d: '%.40s' %s", g->name, line,
                    word, what);
}

static enum pdl_status wrong(struct goal *g, const char *what, const char *word)
{
    return wrong_at(g, g->line, what, word);
}

static enum pdl_status no_room(struct goal *g)
{
    return pdl_fail(g->err, PDL_ENOMEM, "%s: out of memory", g->name);
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
                               int64_t *tag, int *peer, int64_t *bytes)
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
            st = number(g, w->w[i + 1], INT64_MAX, tag);
    return st;
}

static enum pdl_status operation(struct goal *g, struct words *w, int from,
                                 const char *label)
{
    struct pdl_traffic_op op = {.send_to = -1, .recv_from = -1};
    enum pdl_status st = PDL_OK;
    int64_t ns, tag = 0;

    if (w->n <= from)
        return wrong(g, "is a label of nothing", label);
    if (strcmp(w->w[from], "calc") == 0 && w->n > from + 1) {
        st = number(g, w->w[from + 1], INT64_C(1) << 60, &ns);
        op.compute_s = st == PDL_OK ? (double)ns * 1e-9 : 0;
    } else if (strcmp(w->w[from], "send") == 0) {
        st = message(g, w, from, &tag, &op.send_to, &op.send_bytes);
    } else if (strcmp(w->w[from], "recv") == 0) {
        st = message(g, w, from, &tag, &op.recv_from, &op.recv_bytes);
    } else {
        return wrong(g, "is not send, recv or calc", w->w[from]);
    }
    if (st == PDL_OK && !net_reserve(g->arena, &g->names, g->nops,
                                     &g->names_cap, sizeof *g->names))
        return no_room(g);
    if (st == PDL_OK)
        g->names[g->nops++] =
            (struct name){label, pdl_trace_op(g->trace, &op, tag)};
    return st;
}

static enum pdl_status demand(struct goal *g, struct words *w)
{
    bool starts = strcmp(w->w[1], "irequires") == 0;

    if (!starts && strcmp(w->w[1], "requires") != 0)
        return wrong(g, "is not requires or irequires", w->w[1]);
    if (!net_reserve(g->arena, &g->demands, g->ndemands, &g->demands_cap,
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
    if (!at)
        return wrong_at(g, line, "is no label of this rank", label);
    *out = at->op;
    return PDL_OK;
}

/* Labels become numbers; what begins with another waits for what that one
 * waits for, so far. */
static enum pdl_status resolve(struct goal *g)
{
    enum pdl_status st = PDL_OK;

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
            if (st == PDL_OK && d->starts)
                pdl_trace_wait_like(g->trace, a, b);
            else if (st == PDL_OK)
                pdl_trace_wait(g->trace, a, b);
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
    g->nops = g->ndemands = 0;
    st = pdl_trace_rank(g->trace, (int)rank, g->err);
    if (st != PDL_OK)
        return st;
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
    return st == PDL_OK ? resolve(g) : st;
}

enum pdl_status pdl_traffic_read_goal(pdl_arena *a, struct pdl_bytes in,
                                      const char *name, struct pdl_traffic *out,
                                      struct pdl_err *err)
{
    struct goal g = {.arena = a, .name = name, .err = err};
    struct words w;
    int64_t n = 0;
    enum pdl_status st;

    g.at = pdl_arena_strndup(a, in.data, in.len);
    if (!g.at)
        return no_room(&g);
    next_line(&g, &w);
    if (w.n != 2 || strcmp(w.w[0], "num_ranks") != 0)
        return wrong(&g, "is not 'num_ranks N'", w.n ? w.w[0] : "");
    st = number(&g, w.w[1], MOST_RANKS, &n);
    if (st == PDL_OK && n == 0)
        return wrong(&g, "is no number of ranks", w.w[1]);
    g.nranks = (int)n;
    g.trace = pdl_trace_create(a, name, g.nranks);
    if (st == PDL_OK && !g.trace)
        return no_room(&g);
    for (next_line(&g, &w); st == PDL_OK && w.n > 0; next_line(&g, &w))
        st = read_rank(&g, &w);
    return st == PDL_OK ? pdl_trace_done(g.trace, out, err) : st;
}
