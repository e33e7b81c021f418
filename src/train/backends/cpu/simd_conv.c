/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of few channels (LeNet's): a library made for blocks of 16
 * channels spends its time on padding there. Output channels, at most 16, are
 * one or two vectors; input elements are broadcast; a few neighbouring output
 * pixels are computed together. An element's terms come in the order of kernel
 * row, column, channel, whatever the part. */
#include "train/backends/cpu/simd.h"
#include "train/backends/cpu/simd_vector.h"

#include <string.h>

/* Sums in flight: as many as 16 registers hold, beside weights and input. */
enum { LANES = 8, PIXELS = 7 };

int64_t train_simd_conv_lanes(const struct train_simd_conv *s)
{
    return s->cc > LANES ? 2 * LANES : LANES;
}

int64_t train_simd_conv_scratch(const struct train_simd_conv *s)
{
    int64_t lanes = train_simd_conv_lanes(s), k = s->kh * s->kw * s->cf;
    int64_t image = (s->ph + 1) * (s->pw + PIXELS * s->q) * s->cf;

    return image + 2 * k * lanes + lanes * (s->ow + 6) +
           2 * k * lanes; /* the last for sums in float64 */
}

/* The image inside its padding. */
static void pad_image(const struct train_simd_conv *s, const float *x,
                      float *to)
{
    int64_t row = s->pw * s->cf;

    memset(to, 0, (size_t)(s->ph * row) * sizeof *to);
    for (int64_t i = 0; i < s->h; i++)
        if (i + s->top >= 0 && i + s->top < s->ph)
            memcpy(to + (i + s->top) * row + s->left * s->cf,
                   x + i * s->w * s->cf,
                   (size_t)(s->pw - s->left < s->w ? s->pw - s->left : s->w) *
                       (size_t)s->cf * sizeof *to);
}

/* w[c][f][k] to [k][f][lanes of c]. */
void train_simd_conv_pack(const struct train_simd_conv *s, const float *w,
                          float *to)
{
    int64_t lanes = train_simd_conv_lanes(s), nk = s->kh * s->kw;

    memset(to, 0, (size_t)(nk * s->cf * lanes) * sizeof *to);
    for (int64_t c = 0; c < s->cc; c++)
        for (int64_t f = 0; f < s->cf; f++)
            for (int64_t k = 0; k < nk; k++)
                to[(k * s->cf + f) * lanes + c] = w[(c * s->cf + f) * nk + k];
}

/* m neighbours, v vectors of channels each. The sums live in an array of
 * their own that never has its address taken: in registers. */
INLINE void pixels(const struct train_simd_conv *s, const float *x,
                   const float *w, int64_t first, int64_t end, int m, int v,
                   v8 (*acc)[2])
{
    int64_t step = s->q * s->cf, n = s->kw * s->cf;
    v8 r[PIXELS][2];

    for (int i = 0; i < m; i++) {
        r[i][0] = acc[i][0];
        r[i][1] = acc[i][1];
    }
    for (int64_t a = first; a < end; a++) {
        const float *p = x + a * s->pw * s->cf;
        const float *q = w + a * n * v * LANES;

        for (int64_t j = 0; j < n; j++, p++, q += (int64_t)v * LANES) {
            v8 w0 = load(q), w1 = v > 1 ? load(q + LANES) : w0;

            for (int i = 0; i < m; i++) {
                v8 b = all(p[i * step]);

                r[i][0] += b * w0;
                if (v > 1)
                    r[i][1] += b * w1;
            }
        }
    }
    for (int i = 0; i < m; i++) {
        acc[i][0] = r[i][0];
        acc[i][1] = r[i][1];
    }
}

/* Whole vectors are stored, each over the surplus of the one before; only the
 * very last pixel of the array minds its end. */
INLINE void put(const struct train_simd_conv *s, const v8 *acc, int v, float *y,
                const float *last)
{
    float t[2 * LANES];

    if (y < last && v == 1) {
        memcpy(y, &acc[0], sizeof(v8));
        return;
    }
    memcpy(t, acc, (size_t)v * sizeof(v8));
    for (int64_t c = 0; c < s->cc; c++)
        y[c] = t[c];
}

INLINE void row(const struct train_simd_conv *s, const float *x, const float *w,
                const float *bias, int64_t first, int64_t end, int v, float *y,
                const float *last)
{
    v8 acc[PIXELS][2], b[2] = {load(bias), load(bias + LANES)};
    const int m = v > 1 ? PIXELS - 1 : PIXELS;

    for (int64_t o = 0; o < s->ow; o += m) {
        int n = s->ow - o < m ? (int)(s->ow - o) : m;

        for (int i = 0; i < PIXELS; i++) {
            acc[i][0] = b[0];
            acc[i][1] = b[1];
        }
        pixels(s, x + o * s->q * s->cf, w, first, end, m, v, acc);
        for (int i = 0; i < n; i++)
            put(s, acc[i], v, y + (o + i) * s->cc, last);
    }
}

void train_simd_conv(const struct train_simd_conv *s, const float *x,
                     const float *w, const float *bias, float *y,
                     float *scratch)
{
    int64_t lanes = train_simd_conv_lanes(s);
    float *image = scratch + 2 * (int64_t)LANES;
    const float *last = y + (s->n * s->oh * s->ow - LANES) * s->cc;

    memset(scratch, 0, 2 * (size_t)LANES * sizeof *scratch);
    if (bias)
        memcpy(scratch, bias, (size_t)s->cc * sizeof *bias);
    for (int64_t n = 0; n < s->n; n++) {
        pad_image(s, x + n * s->h * s->w * s->cf, image);
        for (int64_t o = 0; o < s->oh; o++) {
            int64_t top = o * s->q, first = s->top - top, end;

            first = first > 0 ? first : 0;
            end = s->top + s->h - top < s->kh ? s->top + s->h - top : s->kh;
            end = end > first ? end : first;
            if (lanes == LANES)
                row(s, image + top * s->pw * s->cf, w, scratch, first, end, 1,
                    y + (n * s->oh + o) * s->ow * s->cc, last);
            else
                row(s, image + top * s->pw * s->cf, w, scratch, first, end, 2,
                    y + (n * s->oh + o) * s->ow * s->cc, last);
        }
    }
}

/* ---- gradient of the weights ------------------------------------------ */

enum { TAPS = 5 };

/* n weights side by side in each of m kernel rows, against one row of dy, whose
 * pixels are `apart` floats from each other. */
INLINE void taps(const struct train_simd_conv *s, const float *x,
                 const float *dy, int64_t apart, int m, int n, int v,
                 float *sum)
{
    int64_t row = s->kw * s->cf * v * LANES, line = s->pw * s->cf;
    v8 acc[2][TAPS][2];

    for (int a = 0; a < m; a++)
        for (int i = 0; i < n; i++) {
            const float *p = sum + a * row + (int64_t)i * v * LANES;

            acc[a][i][0] = load(p);
            acc[a][i][1] = v > 1 ? load(p + LANES) : all(0);
        }
    for (int64_t o = 0; o < s->ow; o++) {
        const float *d = dy + o * apart, *p = x + o * s->q * s->cf;
        v8 d0 = load(d), d1 = v > 1 ? load(d + LANES) : d0;

        for (int a = 0; a < m; a++)
            for (int i = 0; i < n; i++) {
                v8 b = all(p[a * line + i]);

                acc[a][i][0] += b * d0;
                if (v > 1)
                    acc[a][i][1] += b * d1;
            }
    }
    for (int a = 0; a < m; a++)
        for (int i = 0; i < n; i++) {
            float *p = sum + a * row + (int64_t)i * v * LANES;

            store(p, acc[a][i][0]);
            if (v > 1)
                store(p + LANES, acc[a][i][1]);
        }
}

/* m kernel rows (one, or two where registers suffice) from row a on. */
INLINE void row_taps(const struct train_simd_conv *s, const float *x,
                     const float *dy, int64_t apart, int m, int v, float *sum)
{
    int64_t n = s->kw * s->cf, j = 0;

    for (; j + TAPS <= n; j += TAPS)
        taps(s, x + j, dy, apart, m, TAPS, v, sum + j * v * LANES);
    for (; j < n; j++)
        taps(s, x + j, dy, apart, m, 1, v, sum + j * v * LANES);
}

INLINE void row_weights(const struct train_simd_conv *s, const float *x,
                        const float *dy, int64_t apart, int v, float *sum)
{
    int64_t row = s->kw * s->cf * v * LANES, line = s->pw * s->cf, a = 0;

    for (; v == 1 && a + 2 <= s->kh; a += 2)
        row_taps(s, x + a * line, dy, apart, 2, v, sum + a * row);
    for (; a < s->kh; a++)
        row_taps(s, x + a * line, dy, apart, 1, v, sum + a * row);
}

static void spread(const struct train_simd_conv *s, const float *dy,
                   int64_t lanes, float *to)
{
    for (int64_t o = 0; o < s->ow; o++)
        for (int64_t c = 0; c < s->cc; c++)
            to[o * lanes + c] = dy[o * s->cc + c];
}

void train_simd_conv_weights(const struct train_simd_conv *s, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    int64_t lanes = train_simd_conv_lanes(s), nk = s->kh * s->kw;
    int64_t n = nk * s->cf * lanes;
    double *total = (double *)(void *)scratch;
    float *sum = scratch + 2 * n, *line = sum + n;
    float *image = line + lanes * (s->ow + 1);

    memset(total, 0, (size_t)n * sizeof *total);
    memset(line, 0, (size_t)(lanes * s->ow) * sizeof *line);
    for (int64_t i = 0; i < s->n; i++) {
        pad_image(s, x + i * s->h * s->w * s->cf, image);
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t o = 0; o < s->oh; o++) {
            const float *top = image + o * s->q * s->pw * s->cf;
            const float *d = dy + (i * s->oh + o) * s->ow * s->cc;
            int64_t apart = s->cc;

            /* surplus lanes read the next pixel, and are not looked at; the
             * very last pixels have none */
            if (i + 1 == s->n && o + 1 == s->oh && s->cc != lanes) {
                spread(s, d, lanes, line);
                d = line;
                apart = lanes;
            }
            if (lanes == LANES)
                row_weights(s, top, d, apart, 1, sum);
            else
                row_weights(s, top, d, apart, 2, sum);
        }
        for (int64_t k = 0; k < n; k++)
            total[k] += (double)sum[k];
    }
    for (int64_t c = 0; c < s->cc; c++)
        for (int64_t f = 0; f < s->cf; f++)
            for (int64_t k = 0; k < nk; k++)
                dw[(c * s->cf + f) * nk + k] =
                    (float)total[(k * s->cf + f) * lanes + c];
}
