/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools, a row of windows at a time, all channels side by side. */
#include "simd.h"

#include <math.h>

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

static inline void store(const float *best, const int32_t *at, int n, float *y,
                         uint8_t *where8, int32_t *where32)
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
            largest(&w, c, LANES, best, at);
            store(best, at, LANES, y + to + c, where8 ? where8 + to + c : NULL,
                  where32 ? where32 + to + c : NULL);
        }
        if (c < p->c) {
            largest(&w, c, (int)(p->c - c), best, at);
            store(best, at, (int)(p->c - c), y + to + c,
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

/* Windows of two without a gap, few channels: how many of them can be done in
 * whole vectors, whose surplus the next one writes over. */
enum { VECTOR = 8 };

static int64_t whole_pairs(const struct train_simd_pool *p)
{
    int64_t n = p->yn * p->c - VECTOR, end = (p->xn - 1) * p->c - VECTOR;
    int64_t most, other;

    if (p->k != 2 || p->q != 2 || p->e != 1 || p->base != 0 || p->c > VECTOR ||
        n < 0 || end < 0)
        return 0;
    most = n / p->c + 1;          /* o * c + VECTOR <= yn * c */
    other = end / (2 * p->c) + 1; /* (2 * o + 1) * c + VECTOR <= xn * c */
    most = most < other ? most : other;
    return most < p->yn - 1 ? most : p->yn - 1;
}

static int64_t pairs(const struct train_simd_pool *p, const float *line,
                     const float *share, float *y)
{
    int64_t n = whole_pairs(p), c = p->c;

    for (int64_t o = 0; o < n; o++) {
        const float *a = line + 2 * o * c, *b = a + c;
        float sum[VECTOR];

        for (int i = 0; i < VECTOR; i++)
            sum[i] = (a[i] + b[i]) * share[o];
        for (int i = 0; i < VECTOR; i++)
            y[o * c + i] = sum[i];
    }
    return n;
}

static int64_t pairs_back(const struct train_simd_pool *p, const float *dy,
                          const float *share, float *line)
{
    int64_t n = whole_pairs(p), c = p->c;

    for (int64_t o = 0; o < n; o++) {
        float d[VECTOR];

        for (int i = 0; i < VECTOR; i++)
            d[i] = dy[o * c + i] * share[o];
        for (int i = 0; i < VECTOR; i++)
            line[2 * o * c + i] = d[i];
        for (int i = 0; i < VECTOR; i++)
            line[(2 * o + 1) * c + i] = d[i];
    }
    for (int64_t i = 2 * n * c; n > 0 && i < 2 * n * c + VECTOR; i++)
        if (i < p->xn * c)
            line[i] = 0; /* the surplus of the last one */
    return n;
}

/* Rows are added up first, whole rows at a time, windows then take their
 * share of the sum: channels may be too few to fill a vector. */
void train_simd_mean_row(const struct train_simd_pool *p, const float *const *x,
                         int nrows, const float *share, float *line, float *y)
{
    int64_t n = p->xn * p->c;

    for (int64_t i = 0; i < n; i++)
        line[i] = nrows > 0 ? x[0][i] : 0;
    for (int r = 1; r < nrows; r++)
        for (int64_t i = 0; i < n; i++)
            line[i] += x[r][i];
    for (int64_t o = pairs(p, line, share, y); o < p->yn; o++) {
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

    for (int64_t i = 0; i < n; i++)
        line[i] = 0;
    for (int64_t o = pairs_back(p, dy, share, line); o < p->yn; o++) {
        int64_t lo, hi, first = inside(p, o, &lo, &hi);

        spread_window(dy + o * p->c, share[o], p->c, p->e * p->c, lo, hi,
                      line + first * p->c);
    }
    for (int r = 0; r < nrows; r++)
        for (int64_t i = 0; i < n; i++)
            dx[r][i] += line[i];
}
