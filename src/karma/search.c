/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions block by block as labels (label.c). One that is not smaller than
 * another in any number is dropped: what follows treats both alike. Labels
 * whose lower bound (bound.c) is not below the best step known are dropped,
 * too. If more than `width` are left at a block, those of lowest bounds go on;
 * the lowest of the others is what is proved. */
#include "karma_label.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARED = 256 };

struct label {
    struct karma_label at;
    double bound;
    int parent;
    uint8_t choice;
};

struct work {
    struct karma_search *s;
    struct karma_way way;
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
    for (int i = 0; i < KARMA_NUMBERS; i++)
        if (a->at.x[i] > b->at.x[i])
            return false;
    return true;
}

/* ---- one block more --- */

static bool fits(const struct work *w, const struct label *l, int j,
                 const struct pdl_karma_left *left)
{
    double all = (double)w->base + l->at.x[KARMA_BYTES];
    double most = (double)w->s->k->capacity;

    for (int i = 0; i < w->s->ahead; i++)
        all += l->at.x[KARMA_LEFT + i];
    return all + (double)(w->passing[0][j] + left->forward_bytes) <= most &&
           all + (double)(w->passing[1][j] + left->backward_bytes) <= most;
}

static double bound_of(const struct work *w, const struct label *l, int next)
{
    double need = (double)w->base + l->at.x[KARMA_BYTES] +
                  (double)w->top[next] - (double)w->s->k->capacity;
    double t[KARMA_CLOCKS];

    karma_label_clocks(&w->way, &l->at, w->forward[next], w->backward[next], t);
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
    karma_label_add(&w->way, &to->at, j, c, 0);
    if (k->host_bytes > 0 && to->at.x[KARMA_HOST] > (double)k->host_bytes)
        return false;
    w->s->looked++;
    if (j + 1 < k->nblocks &&
        (double)(w->base + w->lean[j + 1]) + to->at.x[KARMA_BYTES] >
            (double)k->capacity)
        return false;
    to->bound = j + 1 == k->nblocks ? karma_label_end(&w->way, &to->at)
                                    : bound_of(w, to, j + 1);
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

    karma_label_begin(&w->way, &l.at);
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
    struct work w = {.s = s, .way = {s->k, &s->update, s->ahead}};
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
