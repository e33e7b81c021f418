/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward convolution of one input channel, stride 1, to at most eight channels
 * (LeNet's first layer). With channels in the lanes a quarter of them would be
 * idle and every product would need a broadcast; here neighbouring pixels are
 * the lanes, weights are broadcast for two vectors of pixels, and rows of
 * channels are turned to channels last eight pixels at a time. An element's
 * terms come in the order of kernel row and column, as in simd_conv.c: the bits
 * are the same. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_vector.h"

#include <string.h>

enum { LANES = 8, PAIR = 2 * LANES, CHANNELS = 6 };

static int64_t round_up(int64_t n)
{
    return (n + PAIR - 1) / PAIR * PAIR;
}

/* Floats from a padded image's row to the next. */
static int64_t pitch(const struct train_simd_conv *s)
{
    return round_up(s->ow) + s->kw;
}

int64_t train_simd_conv_one_scratch(const struct train_simd_conv *s)
{
    return s->ph * pitch(s) + LANES * (round_up(s->ow) + 1);
}

/* The image inside its padding. */
static void pad_image(const struct train_simd_conv *s, const float *x,
                      float *to)
{
    int64_t n = s->pw - s->left < s->w ? s->pw - s->left : s->w;

    memset(to, 0, (size_t)(s->ph * pitch(s)) * sizeof *to);
    for (int64_t i = 0; i < s->h && i + s->top < s->ph; i++)
        memcpy(to + (i + s->top) * pitch(s) + s->left, x + i * s->w,
               (size_t)n * sizeof *to);
}

#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Eight rows of eight, turned. */
INLINE void turn(v8 *r)
{
    v8 a[LANES], b[LANES];

    for (int i = 0; i < LANES; i += 2) {
        a[i] = PICK(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[i + 1] = PICK(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] =
                PICK(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[i + 2 * j + 1] =
                PICK(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = PICK(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = PICK(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Kernel rows [first, end) that meet the image. */
struct span {
    int64_t first, end;
};

/* Two vectors of pixels, m channels. w: [c][kh*kw]. */
INLINE void pixels(const struct train_simd_conv *s, const float *x,
                   const float *w, const float *bias, struct span rows, int m,
                   float *to)
{
    int64_t taps = s->kh * s->kw, width = round_up(s->ow);
    v8 sum[CHANNELS][2];

    for (int c = 0; c < m; c++)
        sum[c][0] = sum[c][1] = all(bias[c]);
    for (int64_t a = rows.first; a < rows.end; a++) {
        const float *p = x + a * pitch(s), *q = w + a * s->kw;

        for (int64_t b = 0; b < s->kw; b++, p++, q++) {
            v8 x0 = load(p), x1 = load(p + LANES);

            for (int c = 0; c < m; c++) {
                v8 u = all(q[c * taps]);

                sum[c][0] += x0 * u;
                sum[c][1] += x1 * u;
            }
        }
    }
    for (int c = 0; c < m; c++) {
        store(to + c * width, sum[c][0]);
        store(to + c * width + LANES, sum[c][1]);
    }
}

/* A row of m channels, one after the other. */
INLINE void some_channels(const struct train_simd_conv *s, const float *x,
                          const float *w, const float *bias, struct span rows,
                          int m, float *to)
{
    for (int64_t o = 0; o < s->ow; o += PAIR)
        pixels(s, x + o, w, bias, rows, m, to + o);
}

static void all_channels(const struct train_simd_conv *s, const float *x,
                         const float *w, const float *bias, struct span rows,
                         float *to)
{
    int64_t taps = s->kh * s->kw, width = round_up(s->ow), c = 0;

    for (; c + CHANNELS <= s->cc; c += CHANNELS)
        some_channels(s, x, w + c * taps, bias + c, rows, CHANNELS,
                      to + c * width);
    for (; c + 2 <= s->cc; c += 2)
        some_channels(s, x, w + c * taps, bias + c, rows, 2, to + c * width);
    for (; c < s->cc; c++)
        some_channels(s, x, w + c * taps, bias + c, rows, 1, to + c * width);
}

/* Eight pixels to channels last. Whole vectors are stored where there is room,
 * each over the surplus of the one before, and pixels beyond the row, which the
 * next row writes over. */
static void put(const struct train_simd_conv *s, const float *from,
                int64_t left, int64_t room, float *y)
{
    int64_t width = round_up(s->ow);
    float t[LANES][LANES];
    v8 r[LANES];

    for (int i = 0; i < LANES; i++)
        r[i] = i < s->cc ? load(from + i * width) : all(0);
    turn(r);
    if (room >= (LANES - 1) * s->cc + LANES) {
        for (int i = 0; i < LANES; i++)
            store(y + i * s->cc, r[i]);
        return;
    }
    for (int i = 0; i < LANES; i++)
        store(t[i], r[i]);
    for (int64_t i = 0; i < LANES && i < left; i++)
        memcpy(y + i * s->cc, t[i], (size_t)s->cc * sizeof *y);
}

void train_simd_conv_one(const struct train_simd_conv *s, const float *x,
                         const float *w, const float *bias, float *y,
                         float *scratch)
{
    float *image = scratch + LANES;
    float *row = image + s->ph * pitch(s);
    int64_t room = s->n * s->oh * s->ow * s->cc;

    memset(scratch, 0, LANES * sizeof *scratch);
    if (bias)
        memcpy(scratch, bias, (size_t)s->cc * sizeof *bias);
    for (int64_t n = 0; n < s->n; n++) {
        pad_image(s, x + n * s->h * s->w, image);
        for (int64_t o = 0; o < s->oh; o++) {
            struct span rows = {s->top - o, s->top + s->h - o};

            rows.first = rows.first > 0 ? rows.first : 0;
            rows.end = rows.end < s->kh ? rows.end : s->kh;
            all_channels(s, image + o * pitch(s), w, scratch, rows, row);
            for (int64_t j = 0; j < s->ow; j += LANES)
                put(s, row + j, s->ow - j, room - j * s->cc, y + j * s->cc);
            y += s->ow * s->cc;
            room -= s->ow * s->cc;
        }
    }
}
