/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of sparse vectors in the mixed representation of SparCML (Renggli et
 * al., SC 2019) with the rules of T. T. Nguyen et al. (IPCCC 2019): a part is
 * dense when the pairs would take as much, a sum of two lists of pairs is
 * dense when the two lengths together would.
 *
 * Cost of a sum: of pairs a step for each element of the union, without a
 * branch that depends on the data; of pairs into a dense part one scattered
 * addition each; of dense parts memory speed. */
#include "comm_sparse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void give_back(struct comm_stream *s)
{
    s->words = NULL;
    s->cap = 0;
    s->lent = false;
}

static enum pdl_status room_of(struct comm_stream *s, int64_t words,
                               struct pdl_err *err)
{
    uint32_t *p;

    if (words == 0)
        words = 1; /* pairs have an address even when there are none */
    if (s->lent)
        give_back(s);
    if (s->words && words <= s->cap)
        return PDL_OK;
    p = malloc((size_t)words * sizeof *p);
    if (!p)
        return pdl_fail(err, PDL_ENOMEM,
                        "no memory for a sparse vector of %" PRId64 " words",
                        words);
    free(s->words);
    s->words = p;
    s->cap = words;
    return PDL_OK;
}

enum pdl_status comm_stream_room(struct comm_stream *s, int64_t n,
                                 struct pdl_err *err)
{
    return room_of(s, comm_stream_words(n, s->dim), err);
}

void comm_stream_free(struct comm_stream *s)
{
    if (!s->lent)
        free(s->words);
    *s = (struct comm_stream){0};
}

void comm_stream_lend(struct comm_stream *s, float *vector)
{
    if (!s->lent)
        free(s->words);
    s->words = (uint32_t *)(void *)(vector + s->begin);
    s->cap = s->dim;
    s->lent = true;
}

static void swap_words(struct comm_stream *a, struct comm_stream *b)
{
    struct comm_stream t = *a;

    a->words = b->words;
    a->cap = b->cap;
    a->lent = b->lent;
    b->words = t.words;
    b->cap = t.cap;
    b->lent = t.lent;
}

/* ---- a part of a vector ----------------------------------------------- */

/* The first of the ascending indices that is at least `at`. */
static int64_t lower_bound(const struct pdl_sparse *x, int64_t at)
{
    int64_t lo = 0, hi = x->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (x->index[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void scatter(float *dense, int64_t begin, const uint32_t *index,
                    const float *value, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dense[(int64_t)index[i] - begin] += value[i];
}

enum pdl_status comm_stream_cut(struct comm_stream *s,
                                const struct pdl_sparse *x, struct pdl_err *err)
{
    int64_t from = x->index ? lower_bound(x, s->begin) : s->begin;
    int64_t to = x->index ? lower_bound(x, s->begin + s->dim) : from + s->dim;
    bool fills = comm_stream_goes_dense(s, to - from);
    enum pdl_status st;

    s->n = fills ? s->dim : to - from;
    st = comm_stream_room(s, s->n, err);
    if (st != PDL_OK || s->n == 0)
        return st;
    if (x->index && fills) {
        memset(s->words, 0, (size_t)s->dim * sizeof(float));
        scatter(comm_stream_values(s), s->begin, x->index + from,
                x->value + from, to - from);
        return PDL_OK;
    }
    if (x->index)
        memcpy(s->words, x->index + from, (size_t)s->n * sizeof *s->words);
    memcpy(comm_stream_values(s), x->value + from,
           (size_t)s->n * sizeof *x->value);
    return PDL_OK;
}

void comm_stream_place(struct comm_stream *s, float *vector)
{
    float *to = vector + s->begin, *from = comm_stream_values(s);

    if (s->lent)
        return;
    if (comm_stream_dense(s)) {
        memcpy(to, from, (size_t)s->dim * sizeof *to);
    } else {
        memset(to, 0, (size_t)s->dim * sizeof *to);
        scatter(to, s->begin, s->words, from, s->n);
    }
    comm_stream_lend(s, vector);
    s->n = s->dim;
}

static enum pdl_status densify(struct comm_stream *s, struct comm_stream *spare,
                               struct pdl_err *err)
{
    enum pdl_status st;

    if (comm_stream_dense(s))
        return PDL_OK;
    spare->begin = s->begin;
    spare->dim = spare->n = s->dim;
    st = comm_stream_room(spare, s->dim, err);
    if (st != PDL_OK)
        return st;
    memset(spare->words, 0, (size_t)s->dim * sizeof(float));
    scatter(comm_stream_values(spare), s->begin, s->words,
            comm_stream_values(s), s->n);
    swap_words(s, spare);
    s->n = s->dim;
    return PDL_OK;
}

/* ---- sums ------------------------------------------------------------- */

/* The bits of f when `which`, else of +0. */
static inline float if_so(float f, bool which)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    u &= 0 - (uint32_t)which;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Writes indices to `index` and values to `value`; returns how many. */
static int64_t merge(const struct comm_stream *s, const struct comm_stream *t,
                     uint32_t *index, float *value)
{
    const uint32_t *is = s->words, *it = t->words;
    const float *vs = comm_stream_values(s), *vt = comm_stream_values(t);
    int64_t i = 0, j = 0, n = 0, left;

    while (i < s->n && j < t->n) {
        uint32_t x = is[i], y = it[j];

        index[n] = x < y ? x : y;
        value[n++] = if_so(vs[i], x <= y) + if_so(vt[j], y <= x);
        i += x <= y;
        j += y <= x;
    }
    left = s->n - i + t->n - j;
    if (i < s->n) {
        is += i;
        vs += i;
    } else {
        is = it + j;
        vs = vt + j;
    }
    if (left > 0) {
        memcpy(index + n, is, (size_t)left * sizeof *index);
        memcpy(value + n, vs, (size_t)left * sizeof *value);
    }
    return n + left;
}

/* The values follow the indices, whose number is known only afterwards; those
 * of a full one are all there is. */
static enum pdl_status sum_pairs(struct comm_stream *s,
                                 const struct comm_stream *t,
                                 struct comm_stream *spare, struct pdl_err *err)
{
    int64_t most = s->n + t->n, n;
    enum pdl_status st;

    spare->begin = s->begin;
    spare->dim = s->dim;
    st = room_of(spare, 2 * most, err);
    if (st != PDL_OK)
        return st;
    n = merge(s, t, spare->words, (float *)(void *)(spare->words + most));
    memmove(spare->words + (n < s->dim ? n : 0), spare->words + most,
            (size_t)n * sizeof(float));
    swap_words(s, spare);
    s->n = n;
    return PDL_OK;
}

enum pdl_status comm_stream_sum(struct comm_stream *s, struct comm_stream *t,
                                struct comm_stream *spare, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (t->n == 0)
        return PDL_OK;
    if (!comm_stream_dense(s) && !comm_stream_dense(t) &&
        (s->pairs || !comm_stream_fills(s->n + t->n, s->dim)))
        return sum_pairs(s, t, spare, err);
    if (!comm_stream_dense(s) && !comm_stream_dense(t))
        st = densify(s, spare, err);
    if (st != PDL_OK)
        return st;
    if (comm_stream_dense(s) && comm_stream_dense(t)) {
        comm_reduce(s->words, t->words, s->dim, PDL_COMM_F32, PDL_COMM_SUM);
        return PDL_OK;
    }
    if (!comm_stream_dense(s)) { /* into the dense one, and that is the sum */
        int64_t n = s->n;

        swap_words(s, t);
        s->n = s->dim;
        t->n = n;
    }
    scatter(comm_stream_values(s), s->begin, t->words, comm_stream_values(t),
            t->n);
    return PDL_OK;
}
