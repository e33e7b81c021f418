/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools, a row of windows at a time, all channels side by side. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_vector.h"

#include <math.h>
#include <string.h>

/* Kernel positions [lo, hi) of window o that are inside. */
static inline int64_t inside(const struct train_simd_pool *p, int64_t o,
                             int64_t *lo, int64_t *hi)
{
    int64_t first = o * p->q + p->base;

    *lo = first >= 0 ? 0 : (-first + p->e - 1) / p->e;
    *hi = first + (p->k - 1) * p->e < p->xn ? p->k
                                            : (p->xn - first + p->e - 1) / p->e;
    return first;
}

enum { LANES = 16 };

/* The elements of one window: so many rows of x, kernel positions [lo, hi). */
struct window {
    const struct train_simd_pool *p;
    const float *const *x;
    const int32_t *position;
    int nrows;
    int64_t first, lo, hi;
};

/* The largest of a window and its position, n channels from c on; not a number
 * wins. Lanes stay in registers over the whole window, without a branch that
 * depends on what is compared. */
static inline void largest(const struct window *w, int64_t c, int n,
                           float *restrict best, int32_t *restrict at)
{
    for (int i = 0; i < n; i++) {
        best[i] = -INFINITY;
        at[i] = 0;
    }
    for (int r = 0; r < w->nrows; r++)
        for (int64_t j = w->lo; j < w->hi; j++) {
            const float *v = w->x[r] + (w->first + j * w->p->e) * w->p->c + c;
            int32_t here = w->position[r] + (int32_t)j;

            for (int i = 0; i < n; i++) {
                bool more = !(v[i] <= best[i]);

                at[i] = more ? here : at[i];
                best[i] = more ? v[i] : best[i];
            }
        }
}

typedef int32_t v8i __attribute__((vector_size(32)));

/* The same for 16 channels at a time: four registers over the whole window. */
static inline void largest_16(const struct window *w, int64_t c,
                              float *restrict y, int32_t *restrict where)
{
    v8 best[2] = {all(-INFINITY), all(-INFINITY)};
    v8i at[2] = {{0}, {0}};

    for (int r = 0; r < w->nrows; r++)
        for (int64_t j = w->lo; j < w->hi; j++) {
            const float *v = w->x[r] + (w->first + j * w->p->e) * w->p->c + c;
            int32_t p = w->position[r] + (int32_t)j;
            v8i here = {p, p, p, p, p, p, p, p};

            for (int h = 0; h < 2; h++) {
                v8 x = load(v + (int64_t)8 * h);
                v8i more = ~(v8i)(x <= best[h]);

                at[h] = (here & more) | (at[h] & ~more);
                best[h] = (v8)(((v8i)x & more) | ((v8i)best[h] & ~more));
            }
        }
    for (int h = 0; h < 2; h++) {
        store(y + (int64_t)8 * h, best[h]);
        memcpy(where + (int64_t)8 * h, &at[h], sizeof at[h]);
    }
}

static inline void put_most(const float *best, const int32_t *at, int n,
                            float *y, uint8_t *where8, int32_t *where32)
{
    for (int i = 0; i < n; i++)
        y[i] = best[i];
    for (int i = 0; where8 && i < n; i++)
        where8[i] = (uint8_t)at[i];
    for (int i = 0; where32 && i < n; i++)
        where32[i] = at[i];
}

void train_simd_max_row(const struct train_simd_pool *p, const float *const *x,
                        const int32_t *position, int nrows, float *y,
                        uint8_t *where8, int32_t *where32)
{
    struct window w = {.p = p, .x = x, .position = position, .nrows = nrows};
    float best[LANES];
    int32_t at[LANES];

    for (int64_t o = 0; o < p->yn; o++) {
        int64_t to = o * p->c, c = 0;

        w.first = inside(p, o, &w.lo, &w.hi);
        for (; c + LANES <= p->c; c += LANES) {
            largest_16(&w, c, best, at);
            put_most(best, at, LANES, y + to + c,
                     where8 ? where8 + to + c : NULL,
                     where32 ? where32 + to + c : NULL);
        }
        if (c < p->c) {
            largest(&w, c, (int)(p->c - c), best, at);
            put_most(best, at, (int)(p->c - c), y + to + c,
                     where8 ? where8 + to + c : NULL,
                     where32 ? where32 + to + c : NULL);
        }
    }
}

void train_simd_max_row_back(const struct train_simd_pool *p, float *const *dx,
                             const int32_t *position, int nrows,
                             const float *dy, const uint8_t *where8,
                             const int32_t *where32)
{
    for (int64_t o = 0; o < p->yn; o++) {
        int64_t lo, hi, first = inside(p, o, &lo, &hi), at = o * p->c;

        for (int r = 0; r < nrows; r++)
            for (int64_t j = lo; j < hi; j++) {
                float *v = dx[r] + (first + j * p->e) * p->c;
                int32_t here = position[r] + (int32_t)j;

                for (int64_t i = 0; where8 && i < p->c; i++)
                    v[i] += where8[at + i] == here ? dy[at + i] : 0;
                for (int64_t i = 0; where32 && i < p->c; i++)
                    v[i] += where32[at + i] == here ? dy[at + i] : 0;
            }
    }
}

/* y[i] = share times the sum over j of x[j * step + i]; few channels go one by
 * one. The order of the sum is the same either way. */
static inline void add_window(const float *x, int64_t c, int64_t step,
                              int64_t lo, int64_t hi, float share, float *y)
{
    if (c < 16 && hi - lo == 2) { /* the usual window, without a loop */
        const float *a = x + lo * step, *b = a + step;

        for (int64_t i = 0; i < c; i++)
            y[i] = (a[i] + b[i]) * share;
        return;
    }
    if (c < 16) {
        for (int64_t i = 0; i < c; i++) {
            float sum = 0;

            for (int64_t j = lo; j < hi; j++)
                sum += x[j * step + i];
            y[i] = sum * share;
        }
        return;
    }
    for (int64_t i = 0; i < c; i++)
        y[i] = 0;
    for (int64_t j = lo; j < hi; j++)
        for (int64_t i = 0; i < c; i++)
            y[i] += x[j * step + i];
    for (int64_t i = 0; i < c; i++)
        y[i] *= share;
}

static inline void spread_window(const float *dy, float share, int64_t c,
                                 int64_t step, int64_t lo, int64_t hi,
                                 float *dx)
{
    if (c < 16 && hi - lo == 2) {
        float *a = dx + lo * step, *b = a + step;

        for (int64_t i = 0; i < c; i++) {
            float d = dy[i] * share;

            a[i] += d;
            b[i] += d;
        }
        return;
    }
    if (c < 16) {
        for (int64_t i = 0; i < c; i++)
            for (int64_t j = lo; j < hi; j++)
                dx[j * step + i] += dy[i] * share;
        return;
    }
    for (int64_t j = lo; j < hi; j++)
        for (int64_t i = 0; i < c; i++)
            dx[j * step + i] += dy[i] * share;
}

/* ---- windows that share no element ------------------------------------ */

enum { VECTOR = 8 };

/* How many of the first windows can be done in whole vectors of channels: what
 * is too much of one the next ones write over, so they must be there, without
 * a gap. */
static int64_t whole_windows(const struct train_simd_pool *p)
{
    int64_t over = (VECTOR - p->c % VECTOR) % VECTOR, n = p->yn - 1;
    int64_t end = p->yn * p->q + p->base;

    if (over == 0)
        return p->yn;
    if (p->k != p->q)
        return 0;
    end = end < p->xn ? end : p->xn;
    while (n > 0 && (n * p->c + over > p->yn * p->c ||
                     (n * p->q + p->base) * p->c + over > end * p->c))
        n--;
    return n > 0 ? n : 0;
}

/* The sum of positions [lo, hi) of all rows, of which x points to the first. */
INLINE v8 window_sum(const float *const *x, int nrows, int64_t at, int64_t step,
                     int64_t n)
{
    v8 sum = {0};

    for (int64_t j = 0; j < n; j++, at += step) {
        v8 v = load(x[0] + at);

        for (int r = 1; r < nrows; r++)
            v += load(x[r] + at);
        sum = j == 0 ? v : sum + v;
    }
    return sum;
}

INLINE float element_sum(const float *const *x, int nrows, int64_t at,
                         int64_t step, int64_t n)
{
    float sum = 0;

    for (int64_t j = 0; j < n; j++, at += step) {
        float v = x[0][at];

        for (int r = 1; r < nrows; r++)
            v += x[r][at];
        sum = j == 0 ? v : sum + v;
    }
    return sum;
}

/* Of these, how many first ones are pairs of columns of one vector each: the
 * usual windows, without a loop. */
static int64_t pairs(const struct train_simd_pool *p)
{
    return p->c > 0 && p->c < VECTOR && p->k == 2 && p->q == 2 && p->base == 0
               ? whole_windows(p)
               : 0;
}

static int64_t mean_pairs(const struct train_simd_pool *p, const float *a,
                          const float *b, const float *share, float *y)
{
    int64_t n = pairs(p), c = p->c;

    for (int64_t o = 0; o < n; o++, a += 2 * c, b += 2 * c, y += c)
        store(y, (load(a) + load(b) + (load(a + c) + load(b + c))) * share[o]);
    return n;
}

static int64_t spread_pairs(const struct train_simd_pool *p, const float *dy,
                            const float *share, float *line)
{
    int64_t n = pairs(p), c = p->c;

    for (int64_t o = 0; o < n; o++, line += 2 * c, dy += c) {
        v8 d = load(dy) * share[o] + 0.0f;

        store(line, d);
        store(line + c, d);
    }
    return n;
}

INLINE void mean_window(const struct train_simd_pool *p, const float *const *x,
                        int nrows, int64_t at, int64_t n, bool whole,
                        float share, float *y)
{
    int64_t c = p->c, i = 0;

    for (; whole && i < c; i += VECTOR)
        store(y + i, window_sum(x, nrows, at + i, c, n) * share);
    for (; i < c; i++)
        y[i] = element_sum(x, nrows, at + i, c, n) * share;
}

static void mean_row_apart(const struct train_simd_pool *p,
                           const float *const *x, int nrows, const float *share,
                           float *y)
{
    int64_t whole = whole_windows(p), c = p->c;

    int64_t o = nrows == 2 ? mean_pairs(p, x[0], x[1], share, y) : 0;

    for (; o < p->yn; o++) {
        int64_t lo, hi, at = inside(p, o, &lo, &hi);

        at = (at + lo) * c;
        if (nrows == 2 && hi - lo == 2)
            mean_window(p, x, 2, at, 2, o < whole, share[o], y + o * c);
        else
            mean_window(p, x, nrows, at, hi - lo, o < whole, share[o],
                        y + o * c);
    }
}

/* Adding 0 leaves no negative zero: the bits of a sum that began with 0. What
 * is too much of a column the next one writes over. */
INLINE void spread_apart(const struct train_simd_pool *p, const float *dy,
                         int64_t n, bool whole, float share, float *dx)
{
    int64_t c = p->c;

    for (int64_t j = 0; j < n; j++, dx += c) {
        int64_t i = 0;

        for (; whole && i < c; i += VECTOR)
            store(dx + i, load(dy + i) * share + 0.0f);
        for (; i < c; i++)
            dx[i] = dy[i] * share + 0.0f;
    }
}

/* All rows are the same one: it is made once. */
static void mean_row_back_apart(const struct train_simd_pool *p,
                                float *const *dx, int nrows, const float *share,
                                float *line, const float *dy)
{
    int64_t whole = whole_windows(p), c = p->c;

    memset(line, 0, (size_t)(p->xn * c) * sizeof *line);
    for (int64_t o = spread_pairs(p, dy, share, line); o < p->yn; o++) {
        int64_t lo, hi, at = inside(p, o, &lo, &hi);

        at = (at + lo) * c;
        if (hi - lo == 2)
            spread_apart(p, dy + o * c, 2, o < whole, share[o], line + at);
        else
            spread_apart(p, dy + o * c, hi - lo, o < whole, share[o],
                         line + at);
    }
    for (int r = 0; r < nrows; r++)
        memcpy(dx[r], line, (size_t)(p->xn * c) * sizeof *line);
}

/* ---- windows that may overlap ----------------------------------------- */

/* Rows are added up first, whole rows at a time, windows then take their
 * share of the sum: channels may be too few to fill a vector. */
void train_simd_mean_row(const struct train_simd_pool *p, const float *const *x,
                         int nrows, const float *share, float *line, float *y)
{
    int64_t n = p->xn * p->c;

    if (p->apart && nrows > 0) {
        mean_row_apart(p, x, nrows, share, y);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        line[i] = nrows > 0 ? x[0][i] : 0;
    for (int r = 1; r < nrows; r++)
        for (int64_t i = 0; i < n; i++)
            line[i] += x[r][i];
    for (int64_t o = 0; o < p->yn; o++) {
        int64_t lo, hi, first = inside(p, o, &lo, &hi);

        add_window(line + first * p->c, p->c, p->e * p->c, lo, hi, share[o],
                   y + o * p->c);
    }
}

void train_simd_mean_row_back(const struct train_simd_pool *p, float *const *dx,
                              int nrows, const float *share, float *line,
                              const float *dy)
{
    int64_t n = p->xn * p->c;

    if (p->apart) {
        mean_row_back_apart(p, dx, nrows, share, line, dy);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        line[i] = 0;
    for (int64_t o = 0; o < p->yn; o++) {
        int64_t lo, hi, first = inside(p, o, &lo, &hi);

        spread_window(dy + o * p->c, share[o], p->c, p->e * p->c, lo, hi,
                      line + first * p->c);
    }
    for (int r = 0; r < nrows; r++)
        for (int64_t i = 0; i < n; i++)
            dx[r][i] += line[i];
}
