/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a few-channel convolution's input. As a convolution of the
 * padded gradient it multiplies zeros wherever the kernel looks beyond the
 * border: for LeNet's second layer as many as numbers that count. So each pixel
 * of dy gives its products instead: those of one kernel row are kw * cf floats
 * side by side, and sums over kernel rows and channels of dy stay in registers.
 * A row of dx then adds up the columns that meet in each of its pixels. An
 * element's terms come in an order that its place in the image alone decides:
 * by kernel column, in each by row of dy and channel. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_vector.h"

#include <string.h>

/* Floats of products made at once, in registers for three pixels. */
enum { LANES = 8, VECTORS = 4, BLOCK = LANES * VECTORS, PIXELS = 3 };

static int64_t blocks(const struct train_simd_conv *s)
{
    return (s->kw * s->cf + BLOCK - 1) / BLOCK;
}

int64_t train_simd_conv_back_packed(const struct train_simd_conv *s)
{
    return s->kh * s->cc * blocks(s) * BLOCK;
}

int64_t train_simd_conv_back_scratch(const struct train_simd_conv *s)
{
    return s->ow * blocks(s) * BLOCK + LANES;
}

/* w[c][f][kh][kw] to [block][kh][c][kw, f, zeros]. */
void train_simd_conv_back_pack(const struct train_simd_conv *s, const float *w,
                               float *to)
{
    memset(to, 0, (size_t)train_simd_conv_back_packed(s) * sizeof *to);
    for (int64_t c = 0; c < s->cc; c++)
        for (int64_t f = 0; f < s->cf; f++)
            for (int64_t a = 0; a < s->kh; a++)
                for (int64_t b = 0; b < s->kw; b++) {
                    int64_t i = b * s->cf + f, block = i / BLOCK;

                    to[((block * s->kh + a) * s->cc + c) * BLOCK + i % BLOCK] =
                        w[((c * s->cf + f) * s->kh + a) * s->kw + b];
                }
}

/* The rows of dy that a row of dx meets, and with which kernel row: `rows` of
 * them, dy going up as the kernel goes down. */
struct meeting {
    const float *dy; /* row of dy */
    const float *w;  /* its kernel row in block 0 */
    int64_t rows;
};

/* A block of products of m neighbours, v vectors each. */
INLINE void products(const struct train_simd_conv *s, const struct meeting *at,
                     int64_t pixel, int64_t skip, int m, int v, float *to)
{
    int64_t width = blocks(s) * BLOCK;
    v8 sum[PIXELS][VECTORS];

    for (int i = 0; i < m; i++)
        for (int j = 0; j < v; j++)
            sum[i][j] = (v8){0};
    for (int64_t r = 0; r < at->rows; r++) {
        const float *d = at->dy + (r * s->ow + pixel) * s->cc;
        const float *w = at->w + skip - r * s->cc * BLOCK;

        for (int64_t c = 0; c < s->cc; c++, w += BLOCK)
            for (int j = 0; j < v; j++) {
                v8 u = load(w + (int64_t)j * LANES);

                for (int i = 0; i < m; i++)
                    sum[i][j] += d[i * s->cc + c] * u;
            }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < v; j++)
            store(to + (pixel + i) * width + (int64_t)j * LANES, sum[i][j]);
}

/* A single pixel has too few sums in flight: two and two instead of three and
 * one. */
INLINE void all_products(const struct train_simd_conv *s,
                         const struct meeting *at, int64_t skip, int v,
                         float *to)
{
    int64_t left;

    for (int64_t o = 0; (left = s->ow - o) > 0;) {
        int m = left == 3 || left > 4 ? 3 : left > 1 ? 2 : 1;

        if (m == 3)
            products(s, at, o, skip, 3, v, to);
        else if (m == 2)
            products(s, at, o, skip, 2, v, to);
        else
            products(s, at, o, skip, 1, v, to);
        o += m;
    }
}

static void columns(const struct train_simd_conv *s, const struct meeting *at,
                    float *to)
{
    int64_t n = s->kw * s->cf;

    for (int64_t b = 0; b < blocks(s); b++) {
        int64_t skip = b * s->kh * s->cc * BLOCK, left = n - b * BLOCK;

        if (left > 3 * (int64_t)LANES)
            all_products(s, at, skip, 4, to + b * BLOCK);
        else if (left > 2 * (int64_t)LANES)
            all_products(s, at, skip, 3, to + b * BLOCK);
        else
            all_products(s, at, skip, 2, to + b * BLOCK);
    }
}

/* A pixel of dx from the columns that meet there. Whole vectors are stored,
 * each over the surplus of the one before; the array's last ones mind its
 * end. */
static inline void add_up(const struct train_simd_conv *s, const float *from,
                          int64_t width, int64_t column, int64_t room,
                          float *dx)
{
    int64_t lo = column - s->ow + 1, hi = s->kw;
    v8 sum = {0};

    lo = lo > 0 ? lo : 0;
    hi = hi < column + 1 ? hi : column + 1;
    for (int64_t b = lo; b < hi; b++)
        sum += load(from + (column - b) * width + b * s->cf);
    if (room >= LANES)
        store(dx, sum);
    else
        for (int64_t f = 0; f < s->cf; f++)
            dx[f] = sum[f];
}

void train_simd_conv_back(const struct train_simd_conv *s, const float *dy,
                          const float *packed, float *dx, float *scratch)
{
    int64_t room = s->n * s->h * s->w * s->cf, width = blocks(s) * BLOCK;

    for (int64_t n = 0; n < s->n; n++)
        for (int64_t i = 0; i < s->h; i++) {
            int64_t row = i + s->top, lo = row - s->kh + 1, hi = row + 1;
            struct meeting at = {.dy = dy, .w = packed};

            lo = lo > 0 ? lo : 0;
            hi = hi < s->oh ? hi : s->oh;
            if (hi > lo) {
                at.dy += (n * s->oh + lo) * s->ow * s->cc;
                at.w += (row - lo) * s->cc * BLOCK;
                at.rows = hi - lo;
            }
            columns(s, &at, scratch);
            for (int64_t j = 0; j < s->w; j++, dx += s->cf, room -= s->cf)
                add_up(s, scratch, width, j + s->left, room, dx);
        }
}
