/* Our own kernels on float32, compiled for AVX2 and FMA. They know pointers
 * and counts only. Sums run in a fixed order that depends on the count, never
 * on how work is cut, so that parts equal the whole where no sum is cut. */
#ifndef TRAIN_SIMD_H
#define TRAIN_SIMD_H

#include <stdbool.h>
#include <stdint.h>

/* ---- simd_rows.c: rows [rows, width] ------------------------------------- */

/* y[r,c] = x[r,c] + b[c]; x may be y. */
void train_simd_add_bias(const float *x, const float *b, float *y, int64_t rows,
                         int64_t width);
/* out[c] = sum over r of x[r,c]. */
void train_simd_sum_rows(const float *x, float *out, int64_t rows,
                         int64_t width);
/* y[r,c] = x[r,c] * s[c]; out[c] = sum of a[r,c] * b[r,c]. */
void train_simd_scale_rows(const float *x, const float *s, float *y,
                           int64_t rows, int64_t width);
/* The same sum of bfloat16. */
void train_simd_sum_rows_bf16(const uint16_t *x, float *out, int64_t rows,
                              int64_t width);
void train_simd_dot_rows(const float *a, const float *b, float *out,
                         int64_t rows, int64_t width);
void train_simd_add(const float *a, const float *b, float *y, int64_t n);
void train_simd_sub(const float *a, const float *b, float *y, int64_t n);
void train_simd_mul(const float *a, const float *b, float *y, int64_t n);
void train_simd_scale(float *y, float s, int64_t n);
/* y -= slope |at - here|, at a vector */
void train_simd_minus_distance(const float *at, float here, float slope,
                               float *y, int64_t n);
void train_simd_fill(float *y, float v, int64_t n);
void train_simd_from_bf16(const uint16_t *x, float *y, int64_t n);
void train_simd_to_bf16(const float *x, uint16_t *y, int64_t n);

/* ---- simd_pointwise.c ------------------------------------------------- */

/* y = f(x); dx = dy times the slope at `saved`: x, or y where the operator
 * saves its output. a and b: pdl_function_numbers. */
struct train_simd_function {
    const char *op;
    void (*f)(const float *x, float *y, int64_t n, float a, float b);
    void (*back)(const float *dy, const float *saved, float *dx, int64_t n,
                 float a, float b);
};
const struct train_simd_function *train_simd_find(const char *op);
/* y = silu(a) * u; of that times scale, for the gradient dy: a and u become
 * their own gradients. */
void train_simd_gated(const float *a, const float *u, float *y, int64_t n);
void train_simd_gated_back(const float *dy, float scale, float *a, float *u,
                           int64_t n);

/* ---- simd_nary.c ------------------------------------------------------ */

/* y = f(v[0], v[1], ...); dx = dy times the slope towards v[k]. */
struct train_simd_nary {
    const char *op;
    void (*f)(const float *const *v, int nv, float *y, int64_t n);
    void (*back)(const float *dy, const float *const *v, int nv, int k,
                 float *dx, int64_t n);
};
const struct train_simd_nary *train_simd_nary(const char *op);

/* ---- simd_norm.c ------------------------------------------------------ */

/* Batch norm on [rows, c] (of c channels in rows of `width`). Moments by
 * channel, and plain sums. */
void train_simd_bn_moments(const float *x, int64_t rows, int64_t width,
                           int64_t c, float *mean, float *var);
void train_simd_bn_sums(const float *x, int64_t rows, int64_t width, int64_t c,
                        double *sum, double *squares);
/* y = x * a[c] + b[c]. */
void train_simd_bn_apply(const float *x, const float *a, const float *b,
                         float *y, int64_t rows, int64_t c);
/* Sums of dy and of dy * (x - mean) * rstd. */
void train_simd_bn_back_sums(const float *dy, const float *x, const float *mean,
                             const float *rstd, int64_t rows, int64_t width,
                             int64_t c, double *sum, double *dot);
/* dx = a[c] dy + b[c] x + k[c]. */
void train_simd_bn_back(const float *dy, const float *x, const float *a,
                        const float *b, const float *k, float *dx, int64_t rows,
                        int64_t c);

/* Layer and RMS norm over rows of n; w, b may be NULL; mean is 0 for RMS. */
struct train_simd_ln {
    int64_t rows, n;
    float eps;
    bool centre;
};
void train_simd_ln(const struct train_simd_ln *l, const float *x,
                   const float *w, const float *b, float *y, float *mean,
                   float *rstd);
void train_simd_ln_stats(const struct train_simd_ln *l, const float *x,
                         float *mean, float *rstd);
void train_simd_ln_back(const struct train_simd_ln *l, const float *dy,
                        const float *x, const float *w, const float *mean,
                        const float *rstd, float *dx);
void train_simd_ln_weights(const struct train_simd_ln *l, const float *x,
                           const float *dy, const float *mean,
                           const float *rstd, float *dw, float *db);

/* ---- simd_pool.c ------------------------------------------------------ */

/* Windows along the last dimension: window o meets x[o * q + base + j * e],
 * j < k, where that is in [0, xn); the rest is padding. */
struct train_simd_pool {
    int64_t c, xn, yn, k, q, e, base;
    bool apart; /* no element of x is in two windows */
};
/* One row of results from the rows of x that its windows cover. position: of
 * each row's first element in the window. Either where8 or where32. */
void train_simd_max_row(const struct train_simd_pool *p, const float *const *x,
                        const int32_t *position, int nrows, float *y,
                        uint8_t *where8, int32_t *where32);
void train_simd_max_row_back(const struct train_simd_pool *p, float *const *dx,
                             const int32_t *position, int nrows,
                             const float *dy, const uint8_t *where8,
                             const int32_t *where32);
/* share[o]: what each element of window o counts; line: room for a row of x.
 * Backward adds to dx; where windows are apart it writes. */
void train_simd_mean_row(const struct train_simd_pool *p, const float *const *x,
                         int nrows, const float *share, float *line, float *y);
void train_simd_mean_row_back(const struct train_simd_pool *p, float *const *dx,
                              int nrows, const float *share, float *line,
                              const float *dy);

/* ---- simd_image.c ----------------------------------------------------- */

/* The larger of each, and where it came from: place `at` where x is larger. */
void train_simd_take_larger(const float *x, int32_t at, float *best,
                            int32_t *where, int64_t n);
/* y += x * s. */
void train_simd_add_scaled(const float *x, float s, float *y, int64_t n);
/* Local response normalisation of c channels: s = k + a * sum of squares of
 * the window [i - before, i + after]. */
struct train_simd_lrn {
    int64_t c, before, after;
    float alpha, beta, offset;
};
void train_simd_lrn(const struct train_simd_lrn *l, const float *x, float *y,
                    float *space);
void train_simd_lrn_back(const struct train_simd_lrn *l, const float *dy,
                         const float *x, float *dx, float *space);

/* ---- simd_conv.c ------------------------------------------------------ */

/* A convolution of n images [h,w,cf] to [oh,ow,cc], cc <= 16, kernel kh x kw,
 * stride q; image row 0 is row `top` of the padded image [ph,pw]. */
struct train_simd_conv {
    int64_t n, h, w, cf, oh, ow, cc, kh, kw, q, top, left, ph, pw;
};
int64_t train_simd_conv_lanes(const struct train_simd_conv *s);
/* float32s of scratch that either function wants. */
int64_t train_simd_conv_scratch(const struct train_simd_conv *s);
/* [kh*kw*cf, lanes] from [cc,cf,kh,kw]. */
void train_simd_conv_pack(const struct train_simd_conv *s, const float *w,
                          float *to);
void train_simd_conv(const struct train_simd_conv *s, const float *x,
                     const float *packed, const float *bias, float *y,
                     float *scratch);
void train_simd_conv_weights(const struct train_simd_conv *s, const float *x,
                             const float *dy, float *dw, float *scratch);

/* ---- simd_conv_one.c -------------------------------------------------- */

/* The same of stride 1, one input channel and cc <= 8; w as it is stored. */
int64_t train_simd_conv_one_scratch(const struct train_simd_conv *s);
void train_simd_conv_one(const struct train_simd_conv *s, const float *x,
                         const float *w, const float *bias, float *y,
                         float *scratch);

/* ---- simd_conv_back.c ------------------------------------------------- */

/* dx of stride 1, cf <= 8, from dy and packed weights; float32s of both. */
int64_t train_simd_conv_back_packed(const struct train_simd_conv *s);
int64_t train_simd_conv_back_scratch(const struct train_simd_conv *s);
void train_simd_conv_back_pack(const struct train_simd_conv *s, const float *w,
                               float *to);
void train_simd_conv_back(const struct train_simd_conv *s, const float *dy,
                          const float *packed, float *dx, float *scratch);

/* ---- simd_softmax.c --------------------------------------------------- */

/* x[i] = exp(x[i] - lse), lse = log of the sum of exp: returned. In place. */
float train_simd_softmax(float *x, int64_t n);
/* x[i] = exp(x[i] - lse). */
void train_simd_exp_minus(float *x, float lse, int64_t n);
/* ds = p * (dp - d) * scale, in dp's place. */
void train_simd_softmax_back(const float *p, float *dp, float d, float scale,
                             int64_t n);
float train_simd_dot(const float *a, const float *b, int64_t n);
float train_simd_sum(const float *a, int64_t n);
/* dx = dy - e^y sum */
void train_simd_log_softmax_back(const float *dy, const float *y, float sum,
                                 float *dx, int64_t n);
/* Softmax, or its logarithm, of [n][width] along n. */
void train_simd_softmax_columns(const float *x, float *y, int64_t n,
                                int64_t width, bool log_);
void train_simd_softmax_columns_back(const float *dy, const float *y, float *dx,
                                     int64_t n, int64_t width, bool log_);
float train_simd_largest(const float *x, int64_t n);
float train_simd_sum_exp(const float *x, float top, int64_t n); /* e^(x-top) */
/* y = e^(x-top) scale */
void train_simd_exp_scaled(const float *x, float top, float scale, float *y,
                           int64_t n);
/* Softmax cross-entropy of one row: dy and the loss. label < 0: nothing. */
float train_simd_cross_entropy(const float *y, int64_t n, int64_t label,
                               float smooth, float share, float *dy,
                               float *right);

#endif
