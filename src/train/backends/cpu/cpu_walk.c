/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over boxes: see cpu_walk.h. */
#include "train/backends/cpu/cpu_walk.h"

#include <string.h>

void train_cpu_walk_begin(struct cpu_walk *w, const struct pdl_box *box)
{
    memset(w, 0, sizeof *w);
    w->ndims = box->ndims;
    for (int d = 0; d < box->ndims; d++)
        w->count[d] = box->hi[d] > box->lo[d] ? box->hi[d] - box->lo[d] : 0;
}

void train_cpu_walk_add(struct cpu_walk *w, const struct pdl_box *box,
                        const struct train_array *a, const int *map)
{
    int64_t stride[PDL_BOX_DIMS] = {0}, *mine = w->stride[w->n];

    train_array_strides(a, stride);
    w->first[w->n] = 0;
    for (int d = 0; d < w->ndims; d++) {
        int m = map ? map[d] : d;

        mine[d] = m < 0 ? 0 : stride[m];
        if (m >= 0)
            w->first[w->n] += (box->lo[d] - a->box.lo[m]) * stride[m];
    }
    w->n++;
}

static void swap_dims(struct cpu_walk *w, int a, int b)
{
    int64_t t = w->count[a];

    w->count[a] = w->count[b];
    w->count[b] = t;
    for (int k = 0; k < w->n; k++) {
        t = w->stride[k][a];
        w->stride[k][a] = w->stride[k][b];
        w->stride[k][b] = t;
    }
}

static void drop_dim(struct cpu_walk *w, int d)
{
    for (; d + 1 < w->ndims; d++)
        swap_dims(w, d, d + 1);
    w->ndims--;
}

/* Ones go; the rest by falling stride of array `by` (an insertion sort). */
static void sort_dims(struct cpu_walk *w, int by)
{
    for (int d = w->ndims - 1; d >= 0; d--)
        if (w->count[d] == 1)
            drop_dim(w, d);
    for (int i = 1; i < w->ndims; i++)
        for (int d = i; d > 0 && w->stride[by][d - 1] < w->stride[by][d]; d--)
            swap_dims(w, d - 1, d);
}

static bool joins(const struct cpu_walk *w, int d)
{
    for (int k = 0; k < w->n; k++)
        if (w->stride[k][d] != w->count[d + 1] * w->stride[k][d + 1])
            return false;
    return true;
}

static void join_dims(struct cpu_walk *w, int from, int to)
{
    for (int d = to - 2; d >= from; d--)
        if (joins(w, d)) {
            w->count[d + 1] *= w->count[d];
            drop_dim(w, d);
        }
}

static void never_none(struct cpu_walk *w)
{
    if (w->ndims > 0)
        return;
    w->ndims = 1;
    w->count[0] = 1;
    for (int k = 0; k < w->n; k++)
        w->stride[k][0] = 1;
}

void train_cpu_walk_end(struct cpu_walk *w, int by)
{
    sort_dims(w, by);
    join_dims(w, 0, w->ndims);
    never_none(w);
}

void train_cpu_walk_sum(struct cpu_walk *w, int by, int into)
{
    int kept = 0;
    bool none;

    sort_dims(w, by);
    none = w->ndims == 0;
    never_none(w);
    w->columns = none || w->stride[into][w->ndims - 1] != 0;
    for (int d = 0; d + 1 < w->ndims; d++) {
        if (w->stride[into][d] == 0)
            continue;
        for (int i = d; i > kept; i--)
            swap_dims(w, i - 1, i);
        kept++;
    }
    w->kept = kept;
    join_dims(w, kept, w->columns ? w->ndims - 1 : w->ndims);
}

int64_t train_cpu_walk_count(const struct cpu_walk *w, int from, int to)
{
    int64_t n = 1;

    for (int d = from; d < to; d++)
        n *= w->count[d];
    return n;
}

void train_cpu_walk_start(const struct cpu_walk *w, int from, int to,
                          int64_t number, const int64_t *base,
                          struct cpu_walk_at *p)
{
    memcpy(p->at, base, (size_t)w->n * sizeof p->at[0]);
    for (int d = to - 1; d >= from; d--) {
        p->index[d] = number % w->count[d];
        number /= w->count[d];
        for (int k = 0; k < w->n; k++)
            p->at[k] += p->index[d] * w->stride[k][d];
    }
}

void train_cpu_walk_next(const struct cpu_walk *w, int from, int to,
                         struct cpu_walk_at *p)
{
    for (int d = to - 1; d >= from; d--) {
        bool wraps = ++p->index[d] == w->count[d];

        for (int k = 0; k < w->n; k++)
            p->at[k] +=
                wraps ? (1 - w->count[d]) * w->stride[k][d] : w->stride[k][d];
        if (!wraps)
            return;
        p->index[d] = 0;
    }
}

/* ---- pieces of runs --------------------------------------------------- */

struct job {
    const struct cpu_walk *w;
    cpu_walk_fn *fn;
    const void *ctx;
};

static int64_t pieces_of(int64_t n)
{
    return (n + CPU_WALK_PIECE - 1) / CPU_WALK_PIECE;
}

static void run_pieces(const void *ctx, int64_t from, int64_t to)
{
    const struct job *j = ctx;
    const struct cpu_walk *w = j->w;
    int run = w->ndims - 1;
    int64_t per = pieces_of(w->count[run]), part = from % per;
    struct cpu_walk_at p;

    train_cpu_walk_start(w, 0, run, from / per, w->first, &p);
    for (int64_t u = from; u < to; u++) {
        int64_t begin = part * CPU_WALK_PIECE, n = w->count[run] - begin;
        int64_t at[CPU_WALK_MOST];

        for (int k = 0; k < w->n; k++)
            at[k] = p.at[k] + begin * w->stride[k][run];
        j->fn(j->ctx, at, n < CPU_WALK_PIECE ? n : CPU_WALK_PIECE);
        if (++part == per) {
            part = 0;
            train_cpu_walk_next(w, 0, run, &p);
        }
    }
}

void train_cpu_walk(const struct cpu_walk *w, cpu_walk_fn *fn, const void *ctx)
{
    struct job j = {w, fn, ctx};
    int run = w->ndims - 1;
    int64_t outer = train_cpu_walk_count(w, 0, run), n = w->count[run];

    if (outer > 0 && n > 0)
        train_cpu_parallel(
            outer * pieces_of(n),
            1 + CPU_GRAIN / (n < CPU_WALK_PIECE ? n : CPU_WALK_PIECE),
            run_pieces, &j);
}
