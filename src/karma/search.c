/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions block by block, in the order of forward, as labels. Forward is run
 * as far as blocks have chosen. Of their backward, which comes last, the end of
 * the step is known as a function of when it is entered: a maximum of sums, of
 * the time at which computing gets there (+ A), at which each copy that is
 * already asked for is done (+ B) and at which the link is free (+ I). So a
 * label is a few numbers, and one that is not smaller than another in any of
 * them is dropped: what follows treats both alike. Labels whose lower bound
 * (bound.c) is not below the best step known are dropped, too. If more than
 * `width` are left at a block, those of lowest bounds go on; the lowest of
 * the others is what is proved. */
#include "karma_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = PDL_KARMA_AHEAD, COMPARED = 256, NUMBERS = 6 + 4 * AHEAD };

/* Numbers by which labels are compared, smaller is better. */
enum {
    NOW,  /* computing, after the last block that has chosen */
    LAST, /* the link to the host is free */
    ENTER,
    LINK,
    BYTES, /* that stay until backward */
    HOST,
    /* of the last blocks, the newest first */
    OUT,              /* its copy out is done; 0: none */
    AT = OUT + AHEAD, /* B */
    IN = AT + AHEAD,  /* seconds of its copy in */
    LEFT = IN + AHEAD /* bytes that are still here */
};

struct label {
    double x[NUMBERS];
    double bound;
    int parent;
    uint8_t choice;
};

struct work {
    struct karma_search *s;
    double *forward, *backward; /* sums from each block on */
    int64_t *top;               /* the most bytes of blocks from each on */
    int64_t *lean;              /* and where each gives what it can */
    int64_t base;               /* that are there anyway */
    int64_t *passing[2];
    struct label *level; /* not yet sorted */
    struct label *all;   /* kept: one run of labels for each block */
    int64_t *first;      /* of each block in all */
    int64_t nall, room;
};

static bool dominates(const struct label *a, const struct label *b)
{
    for (int i = 0; i < NUMBERS; i++)
        if (a->x[i] > b->x[i])
            return false;
    return true;
}

/* ---- one block more --- */

static bool fits(const struct work *w, const struct label *l, int j,
                 const struct pdl_karma_left *left)
{
    double all = (double)w->base + l->x[BYTES];
    double most = (double)w->s->k->capacity;

    for (int i = 0; i < w->s->ahead; i++)
        all += l->x[LEFT + i];
    return all + (double)(w->passing[0][j] + left->forward_bytes) <= most &&
           all + (double)(w->passing[1][j] + left->backward_bytes) <= most;
}

static void shift(struct label *l, int at, int n, double first)
{
    memmove(l->x + at + 1, l->x + at, (size_t)(n - 1) * sizeof l->x[0]);
    l->x[at] = first;
}

/* Backward of block j, which then asks for what block j - ahead left. */
static void add_backward(const struct work *w, struct label *l, int j,
                         enum pdl_karma_choice c)
{
    const struct pdl_karma_block *b = &w->s->k->block[j];
    int d = w->s->ahead;
    double work = b->backward_s + karma_left(b, c)->again_s;
    double on = work + fmax(w->s->update.tail[j], l->x[ENTER]);
    double copy = l->x[IN + d - 1], at = l->x[AT + d - 1];

    l->x[ENTER] = on + w->s->k->slow * copy;
    if (at > -INFINITY) {
        l->x[LINK] = copy + fmax(at, l->x[LINK]);
        l->x[ENTER] = fmax(l->x[ENTER], l->x[LINK]);
    }
    shift(l, AT, d, karma_moves(c) ? on : -INFINITY);
}

static void add_forward(const struct work *w, struct label *l, int j,
                        enum pdl_karma_choice c)
{
    const struct pdl_karma *k = w->s->k;
    int d = w->s->ahead;
    int64_t left = karma_left(&k->block[j], c)->bytes;
    double out = 0, in = 0;

    l->x[NOW] = fmax(l->x[NOW] + k->block[j].forward_s, l->x[OUT + d - 1]);
    if (karma_moves(c)) {
        double s = (double)left / k->out_bytes_per_s;

        out = l->x[LAST] = fmax(l->x[NOW], l->x[LAST]) + s;
        l->x[NOW] += k->slow * s;
        l->x[HOST] += (double)left;
        in = (double)left / k->in_bytes_per_s;
    } else {
        l->x[BYTES] += (double)left;
    }
    shift(l, OUT, d, out);
    shift(l, IN, d, in);
    shift(l, LEFT, d, karma_moves(c) ? (double)left : 0);
}

/* All have chosen: the step. */
static double finish(const struct work *w, const struct label *l)
{
    double now = fmax(l->x[NOW], l->x[LAST]), in = 0, end = 0;

    for (int i = 1; i < w->s->ahead; i++) {
        double s = l->x[IN + i];

        if (l->x[AT + i] == -INFINITY)
            continue;
        in = fmax(now, in) + s;
        now += w->s->k->slow * s;
        end = fmax(end, in + l->x[AT + i]);
    }
    return fmax(end, fmax(now + l->x[ENTER], in + l->x[LINK]));
}

static double bound_of(const struct work *w, const struct label *l, int next)
{
    double need = (double)w->base + l->x[BYTES] + (double)w->top[next] -
                  (double)w->s->k->capacity;
    double t[3] = {
        l->x[NOW] + w->forward[next] + w->backward[next] + l->x[ENTER],
        l->x[NOW] + w->forward[next] + l->x[LINK],
        fmax(l->x[NOW], l->x[LAST]) + w->backward[next] + l->x[ENTER]};

    for (int i = 0; i < w->s->ahead; i++)
        t[1] += l->x[IN + i];
    return karma_bound_at(w->s->missing, next, (int64_t)ceil(need), t);
}

static bool extend(struct work *w, const struct label *from, int j,
                   enum pdl_karma_choice c, struct label *to)
{
    const struct pdl_karma *k = w->s->k;

    if (!karma_may(k, j, c) || !fits(w, from, j, karma_left(&k->block[j], c)))
        return false;
    *to = *from;
    to->choice = (uint8_t)c;
    add_backward(w, to, j, c);
    add_forward(w, to, j, c);
    if (k->host_bytes > 0 && to->x[HOST] > (double)k->host_bytes)
        return false;
    w->s->looked++;
    if (j + 1 < k->nblocks &&
        (double)(w->base + w->lean[j + 1]) + to->x[BYTES] > (double)k->capacity)
        return false;
    to->bound = j + 1 == k->nblocks ? finish(w, to) : bound_of(w, to, j + 1);
    return to->bound < w->s->limit * (1 - 1e-12);
}

/* ---- all blocks --- */

static int by_bound(const void *a, const void *b)
{
    const struct label *x = a, *y = b;

    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return x->parent != y->parent ? (x->parent < y->parent ? -1 : 1)
                                  : x->choice - y->choice;
}

/* Of n labels, sorted, those that no other is better than. */
static int64_t keep(struct work *w, struct label *l, int64_t n)
{
    struct label *kept = w->all + w->nall;
    int64_t m = 0;

    for (int64_t i = 0; i < n; i++) {
        bool beaten = false;

        for (int64_t q = 0; q < m && q < COMPARED && !beaten; q++)
            beaten = dominates(&kept[q], &l[i]);
        if (beaten)
            continue;
        if (m == w->s->width) {
            w->s->bound = fmin(w->s->bound, l[i].bound);
            break;
        }
        kept[m++] = l[i];
    }
    return m;
}

static struct label nothing(const struct work *w)
{
    struct label l = {.parent = -1};

    l.x[ENTER] = w->s->update.device_s;
    l.x[LINK] = w->s->update.in_s;
    l.x[HOST] = (double)w->s->update.host_bytes;
    for (int i = 0; i < AHEAD; i++)
        l.x[AT + i] = -INFINITY;
    return l;
}

static bool more_room(struct work *w, int64_t n)
{
    struct label *p;

    if (w->nall + n <= w->room)
        return true;
    w->room = 2 * (w->nall + n);
    p = realloc(w->all, (size_t)w->room * sizeof *p);
    if (!p)
        return false;
    w->all = p;
    return true;
}

static bool grow(struct work *w, int64_t n, int64_t *room)
{
    struct label *p;

    if (n <= *room)
        return true;
    *room = 2 * n;
    p = realloc(w->level, (size_t)*room * sizeof *p);
    if (!p)
        return false;
    w->level = p;
    return true;
}

/* Labels of block j from those of the block before. */
static bool step(struct work *w, int j, int64_t before, int64_t *count,
                 int64_t *room)
{
    int64_t n = 0, first = w->first[j];

    for (int64_t i = 0; i < before; i++) {
        if (!grow(w, n + PDL_KARMA_NCHOICES, room))
            return false;
        for (int c = 0; c < PDL_KARMA_NCHOICES; c++) {
            struct label *to = &w->level[n];

            if (extend(w, &w->all[first + i], j, (enum pdl_karma_choice)c,
                       to)) {
                to->parent = (int)i;
                n++;
            }
        }
    }
    qsort(w->level, (size_t)n, sizeof(struct label), by_bound);
    if (!more_room(w, n))
        return false;
    w->first[j + 1] = w->nall;
    *count = keep(w, w->level, n);
    w->nall += *count;
    return true;
}

static void read_back(const struct work *w, enum pdl_karma_choice *choice)
{
    int64_t i = 0;

    for (int j = w->s->k->nblocks; j > 0; j--) {
        const struct label *l = &w->all[w->first[j] + i];

        choice[j - 1] = (enum pdl_karma_choice)l->choice;
        i = l->parent;
    }
}

/* Up to which of the blocks from j on memory must reach in any case: they move
 * if they may, but `ahead` of them are still there. */
static void find_lean(struct work *w, int j, int64_t own)
{
    const struct pdl_karma *k = w->s->k;
    int64_t sum = k->block[j].left[PDL_KARMA_NOTHING].bytes;

    w->lean[j] = own;
    if (j + 1 == k->nblocks)
        return;
    for (int i = 0; i < PDL_KARMA_NCHOICES; i++) {
        enum pdl_karma_choice c = (enum pdl_karma_choice)i;
        int64_t stays = karma_moves(c) ? 0 : karma_left(&k->block[j], c)->bytes;

        if (karma_may(k, j, c) && stays < sum)
            sum = stays;
    }
    sum += w->lean[j + 1];
    w->lean[j] = sum > own ? sum : own;
}

/* The least that a block's own tensors need while it computes. */
static int64_t least_own(const struct pdl_karma *k, int j)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < PDL_KARMA_NCHOICES; i++) {
        enum pdl_karma_choice c = (enum pdl_karma_choice)i;
        const struct pdl_karma_left *l = karma_left(&k->block[j], c);
        int64_t own = l->forward_bytes > l->backward_bytes ? l->forward_bytes
                                                           : l->backward_bytes;

        if (karma_may(k, j, c) && own < least)
            least = own;
    }
    return least;
}

static bool prepare(struct work *w, pdl_arena *a)
{
    const struct pdl_karma *k = w->s->k;
    int n = k->nblocks;

    w->forward = PDL_NEW(a, double, n + 1);
    w->backward = PDL_NEW(a, double, n + 1);
    w->top = PDL_NEW(a, int64_t, n + 1);
    w->lean = PDL_NEW(a, int64_t, n + 1);
    w->first = PDL_NEW(a, int64_t, n + 2);
    w->passing[0] = PDL_NEW(a, int64_t, n);
    w->passing[1] = PDL_NEW(a, int64_t, n);
    if (!w->forward || !w->backward || !w->top || !w->lean || !w->first ||
        !w->passing[0] || !w->passing[1])
        return false;
    w->base = k->fixed_bytes + w->s->update.device_bytes;
    for (int j = n - 1; j >= 0; j--) {
        const struct pdl_karma_block *b = &k->block[j];
        int64_t own = least_own(k, j);

        for (int i = 0; i < 2; i++)
            w->passing[i][j] = karma_passing(k, j, i == 1);
        find_lean(w, j, own);
        w->forward[j] = w->forward[j + 1] + b->forward_s;
        w->backward[j] = w->backward[j + 1] + b->backward_s;
        w->top[j] =
            j + 1 < n ? w->top[j + 1] + b->left[PDL_KARMA_NOTHING].bytes : 0;
        w->top[j] = w->top[j] > own ? w->top[j] : own;
    }
    return true;
}

enum pdl_status karma_search(struct karma_search *s,
                             enum pdl_karma_choice *choice, bool *found,
                             struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct work w = {.s = s};
    int64_t count = 1, room = 0;
    bool ok = a && prepare(&w, a) && more_room(&w, 1);

    *found = false;
    if (ok) {
        w.all[w.nall++] = nothing(&w);
        for (int j = 0; ok && j < s->k->nblocks && count > 0; j++)
            ok = step(&w, j, count, &count, &room);
    }
    if (ok && count > 0) {
        *found = true;
        s->limit = w.all[w.first[s->k->nblocks]].bound;
        read_back(&w, choice);
    }
    free(w.level);
    free(w.all);
    pdl_arena_destroy(a);
    return ok ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
