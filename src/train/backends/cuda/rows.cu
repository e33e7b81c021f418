/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms of rows: layer norm and RMS norm, with the addition before and the sums
 * of gradients around them. A warp a row, which it holds in registers: R times
 * 16 bytes a lane; rows that are longer, or do not divide, are read again. */
#include "columns.cuh"

enum { MOST_R = 8 };

/* A warp's rows, from the end (see EACH_DOWN). */
#define ROWS_DOWN(row, n)                                              \
    for (int64_t row = (n) - 1 -                                       \
                       (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32; \
         row >= 0; row -= (int64_t)gridDim.x * THREADS / 32)

/* V of dy, and of what is added to it: all of a row is asked for before the
 * first of it is used. */
template <int V, class T> struct pair {
    chunk<V, T> d, e;
    __device__ __forceinline__ void ask(const T *dy, const T *more, int64_t at)
    {
        d = fetch<V>(dy, at);
        if (more)
            e = fetch<V>(more, at);
    }
    /* dy, or the sum of the two as it would be stored */
    __device__ __forceinline__ void arrive(const T *dy, bool sums,
                                           float *f) const
    {
        float g[V];

        open(d, f);
        if (!sums)
            return;
        open(e, g);
        for (int k = 0; k < V; k++)
            f[k] = rounded(dy, f[k] + g[k]);
    }
};

/* How often 32 lanes of V go into a row; 0: more often than registers hold. */
static int rounds(int64_t width, int v)
{
    int64_t r = (width + 32 * v - 1) / (32 * v);

    return width % v ? 0 : r <= 6 ? (int)r : r <= MOST_R ? MOST_R : 0;
}

/* Runs a statement with R the rounds of a row; else it is 0. */
#define BY_ROUNDS(r, ...)                            \
    switch (r) {                                     \
        ONE_ROUND(1, __VA_ARGS__)                    \
        ONE_ROUND(2, __VA_ARGS__)                    \
        ONE_ROUND(3, __VA_ARGS__)                    \
        ONE_ROUND(4, __VA_ARGS__)                    \
        ONE_ROUND(5, __VA_ARGS__)                    \
        ONE_ROUND(6, __VA_ARGS__)                    \
        ONE_ROUND(MOST_R, __VA_ARGS__)               \
    }
#define ONE_ROUND(n, ...)  \
    case n: {              \
        enum { R = n };    \
        __VA_ARGS__;       \
        break;             \
    }

/* ---- forward ------------------------------------------------------------------- */

template <int R, class T>
__global__ void __launch_bounds__(THREADS)
    row_norm(cuda_row_norm r, const T *x, const T *more, T *sum,
             const float *__restrict__ w, const float *__restrict__ b, T *y,
             float *stats)
{
    enum { V = wide<T>::V };
    int lane = threadIdx.x & 31;

    ROWS_DOWN(row, r.rows)
    {
        float f[R][V], all = 0, var = 0, mean, rstd;
        int64_t at = row * r.width;
        pair<V, T> raw[R];

#pragma unroll
        for (int j = 0; j < R; j++)
            if ((j * 32 + lane) * V < r.width)
                raw[j].ask(x, more, at + (j * 32 + lane) * V);
#pragma unroll
        for (int j = 0; j < R; j++) {
            int64_t c = (j * 32 + lane) * V;

            for (int k = 0; k < V; k++)
                f[j][k] = 0;
            if (c >= r.width)
                continue;
            raw[j].arrive(x, more != NULL, f[j]);
            if (sum)
                store<V>(sum, at + c, f[j]);
            for (int k = 0; k < V; k++)
                all += f[j][k];
        }
        mean = r.centre ? warp_sum(all) / (float)r.width : 0;
        for (int j = 0; j < R; j++)
            for (int k = 0; k < V; k++) {
                f[j][k] -= mean;
                var += (j * 32 + lane) * V < r.width ? f[j][k] * f[j][k] : 0;
            }
        rstd = 1 / sqrtf(warp_sum(var) / (float)r.width + r.eps);
        for (int j = 0; j < R; j++) {
            int64_t c = (j * 32 + lane) * V;

            if (c >= r.width)
                continue;
            for (int k = 0; k < V; k++)
                f[j][k] = f[j][k] * rstd * (w ? w[c + k] : 1) +
                          (b ? b[c + k] : 0);
            store<V>(y, at + c, f[j]);
        }
        if (lane == 0) {
            stats[2 * row] = mean;
            stats[2 * row + 1] = rstd;
        }
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    any_row_norm(cuda_row_norm r, const T *x, const float *w, const float *b,
                 T *y, float *stats)
{
    int lane = threadIdx.x & 31;

    ROWS_DOWN(row, r.rows)
    {
        const T *p = x + row * r.width;
        float sum = 0, var = 0, mean, rstd;

        for (int64_t i = lane; r.centre && i < r.width; i += 32)
            sum += get(p, i);
        mean = r.centre ? warp_sum(sum) / (float)r.width : 0;
        for (int64_t i = lane; i < r.width; i += 32) {
            float d = get(p, i) - mean;

            var += d * d;
        }
        rstd = 1 / sqrtf(warp_sum(var) / (float)r.width + r.eps);
        for (int64_t i = lane; i < r.width; i += 32)
            put(y + row * r.width, i,
                (get(p, i) - mean) * rstd * (w ? w[i] : 1) + (b ? b[i] : 0));
        if (lane == 0) {
            stats[2 * row] = mean;
            stats[2 * row + 1] = rstd;
        }
    }
}

int train_cuda_row_fits(enum cuda_type t, int64_t width)
{
    return rounds(width, t == CUDA_BF16 ? 8 : 4) > 0;
}

cudaError_t train_cuda_row_norm(cudaStream_t s, enum cuda_type t,
                                const struct cuda_row_norm *r, const void *x,
                                const void *more, void *sum, const float *w,
                                const float *b, void *y, float *stats)
{
    int g = blocks_for(r->rows * 32);

    if (train_cuda_row_fits(t, r->width))
        BY_TYPE(t, BY_ROUNDS(rounds(r->width, wide<T>::V),
                             row_norm<R><<<g, THREADS, 0, s>>>(
                                 *r, (const T *)x, (const T *)more, (T *)sum, w,
                                 b, (T *)y, stats)));
    else
        BY_TYPE(t, any_row_norm<<<g, THREADS, 0, s>>>(*r, (const T *)x, w, b,
                                                      (T *)y, stats));
    return cudaGetLastError();
}

/* ---- backward ------------------------------------------------------------------ */

/* The sums of a block's warps, one warp after the other. */
template <int R, int V>
static __device__ void add_up(float (&a)[2][R][V], int64_t width,
                              float *partial)
{
    __shared__ float sm[2][R * 32 * V];
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31;

    for (int w = 0; w < THREADS / 32; w++) {
        for (int i = 0; i < 2 * R && w == warp; i++)
            for (int k = 0; k < V; k++) {
                float *at = &sm[i / R][(i % R * 32 + lane) * V + k];

                *at = a[i / R][i % R][k] + (w > 0 ? *at : 0);
            }
        __syncthreads();
    }
    for (int64_t c = threadIdx.x; c < width; c += THREADS)
        for (int s = 0; s < 2; s++)
            partial[(blockIdx.x * (int64_t)2 + s) * width + c] = sm[s][c];
}

/* after: added to the result; NULL: nothing. partial: of the gradients of shift
 * and scale, 2 width a block. */
template <int R, bool SUMS, class T>
__global__ void __launch_bounds__(THREADS)
    row_back(cuda_row_norm r, cuda_row_back b, const float *__restrict__ w,
             T *dx, float *partial)
{
    enum { V = wide<T>::V };
    const T *after = (const T *)b.after;
    int lane = threadIdx.x & 31;
    float a[2][R][V] = {};

    ROWS_DOWN(row, r.rows)
    {
        float d[R][V], x[R][V], sd = 0, sdx = 0;
        float mean = b.stats[2 * row], rstd = b.stats[2 * row + 1];
        int64_t at = row * r.width;
        pair<V, T> raw[R], rest[R];

#pragma unroll
        for (int j = 0; j < R; j++)
            if ((j * 32 + lane) * V < r.width) {
                int64_t c = at + (j * 32 + lane) * V;

                raw[j].ask((const T *)b.dy, (const T *)b.more, c);
                rest[j].ask((const T *)b.x, after, c);
            }
#pragma unroll
        for (int j = 0; j < R; j++) {
            int64_t c = (j * 32 + lane) * V;

            if (c >= r.width)
                continue;
            raw[j].arrive(dx, b.more != NULL, d[j]);
            open(rest[j].d, x[j]);
            for (int k = 0; k < V; k++) {
                x[j][k] = (x[j][k] - mean) * rstd;
                if (SUMS) {
                    a[0][j][k] += d[j][k];
                    a[1][j][k] += d[j][k] * x[j][k];
                }
                d[j][k] *= w ? w[c + k] : 1;
                sd += d[j][k];
                sdx += d[j][k] * x[j][k];
            }
        }
        sd = r.centre ? warp_sum(sd) / (float)r.width : 0;
        sdx = warp_sum(sdx) / (float)r.width;
#pragma unroll
        for (int j = 0; j < R; j++) {
            int64_t c = (j * 32 + lane) * V;
            float e[V];

            if (c >= r.width)
                continue;
            for (int k = 0; k < V; k++)
                d[j][k] = rstd * (d[j][k] - sd - x[j][k] * sdx);
            if (after) {
                open(rest[j].e, e);
                for (int k = 0; k < V; k++)
                    d[j][k] = rounded(dx, d[j][k]) + e[k];
            }
            store<V>(dx, at + c, d[j]);
        }
    }
    if (SUMS)
        add_up<R, V>(a, r.width, partial);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    any_row_back(cuda_row_norm r, cuda_row_back b, const float *w, T *dx)
{
    int lane = threadIdx.x & 31;

    ROWS_DOWN(row, r.rows)
    {
        const T *px = (const T *)b.x + row * r.width;
        const T *pd = (const T *)b.dy + row * r.width;
        float mean = b.stats[2 * row], rstd = b.stats[2 * row + 1];
        float sd = 0, sdx = 0;

        for (int64_t i = lane; i < r.width; i += 32) {
            float d = get(pd, i) * (w ? w[i] : 1);

            sd += r.centre ? d : 0;
            sdx += d * (get(px, i) - mean) * rstd;
        }
        sd = warp_sum(sd) / (float)r.width;
        sdx = warp_sum(sdx) / (float)r.width;
        for (int64_t i = lane; i < r.width; i += 32) {
            float d = get(pd, i) * (w ? w[i] : 1);

            put(dx + row * r.width, i,
                rstd * (d - sd - (get(px, i) - mean) * rstd * sdx));
        }
    }
}

/* dy, or a sum of two, and that times xhat; statistics of rows */
template <class T, bool MORE> struct by_feature {
    const T *dy, *more, *x;
    const float *stats;
    int64_t c;
    template <int V> struct raw {
        chunk<V, T> dy, more, x;
        float2 stats;
    };
    template <int V> struct at {
        __device__ at(const by_feature &, int64_t)
        {
        }
        __device__ __forceinline__ raw<V> get(const by_feature &f, int64_t row,
                                              int64_t col) const
        {
            raw<V> r;

            r.dy = fetch<V>(f.dy, row * f.c + col);
            r.x = fetch<V>(f.x, row * f.c + col);
            if (MORE)
                r.more = fetch<V>(f.more, row * f.c + col);
            r.stats = ((const float2 *)f.stats)[row];
            return r;
        }
        __device__ __forceinline__ void add(const by_feature &f,
                                            const raw<V> &r, int64_t, int64_t,
                                            float (*a)[V]) const
        {
            float d[V], e[V], x[V];

            open(r.dy, d);
            open(r.x, x);
            if (MORE)
                open(r.more, e);
            for (int k = 0; k < V; k++) {
                d[k] = MORE ? rounded(f.dy, d[k] + e[k]) : d[k];
                a[0][k] += d[k];
                a[1][k] += d[k] * (x[k] - r.stats.x) * r.stats.y;
            }
        }
        __device__ void end(float (*)[V]) const
        {
        }
    };
};

template <int V, class T, bool MORE>
static int by_features(cudaStream_t s, const cuda_row_norm *r,
                       const cuda_row_back *b, float *partial)
{
    by_feature<T, MORE> f = {(const T *)b->dy, (const T *)b->more,
                             (const T *)b->x, b->stats, r->width};

    return sum_columns<V>(s, f, r->rows, r->width, partial);
}

cudaError_t train_cuda_row_norm_weights(cudaStream_t s, enum cuda_type t,
                                        const struct cuda_row_norm *r,
                                        const struct cuda_row_back *b)
{
    int n = 0;

    if (b->more)
        BY_TYPE(t, BY_WIDTH(T, r->width,
                            n = by_features<V, T, true>(s, r, b, b->partial)));
    else
        BY_TYPE(t, BY_WIDTH(T, r->width,
                            n = by_features<V, T, false>(s, r, b, b->partial)));
    totals<float><<<total_blocks(r->width), LANES * DEEP, 0, s>>>(
        b->partial, n, r->width, sum_places<float>{b->db, b->dw});
    return cudaGetLastError();
}

/* Blocks of a pass that also adds up the weights' gradients: one or two on a
 * multiprocessor have its registers. */
static int sum_blocks(int64_t rows)
{
    int64_t b = (rows + THREADS / 32 - 1) / (THREADS / 32);

    return (int)(b < 132 * 2 ? b : 132 * 2);
}

int64_t train_cuda_row_room(int64_t rows, int64_t width)
{
    int64_t n = 2 * width * sum_blocks(rows);
    int64_t columns = train_cuda_column_room(rows, width);

    return n > columns ? n : columns;
}

/* Sums of more columns a lane has no registers for. */
template <int R, class T>
static cudaError_t back_and_sums(cudaStream_t s, const cuda_row_norm *r,
                                 const cuda_row_back *b, const float *w, T *dx)
{
    enum { MOST = 40, FITS = R * wide<T>::V <= MOST };

    if (FITS && b->dw) {
        int g = sum_blocks(r->rows);

        row_back<FITS ? R : 1, true>
            <<<g, THREADS, 0, s>>>(*r, *b, w, dx, b->partial);
        totals<float><<<total_blocks(r->width), LANES * DEEP, 0, s>>>(
            b->partial, g, r->width, sum_places<float>{b->db, b->dw});
        return cudaGetLastError();
    }

    cudaError_t e = b->dw ? train_cuda_row_norm_weights(
                                s, sizeof(T) == 2 ? CUDA_BF16 : CUDA_F32, r, b)
                          : cudaSuccess;

    row_back<R, false>
        <<<blocks_for(r->rows * 32), THREADS, 0, s>>>(*r, *b, w, dx, NULL);
    return e == cudaSuccess ? cudaGetLastError() : e;
}

cudaError_t train_cuda_row_norm_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_row_norm *r,
                                     const struct cuda_row_back *b,
                                     const float *w, void *dx)
{
    cudaError_t e = cudaSuccess;

    if (train_cuda_row_fits(t, r->width))
        BY_TYPE(t, BY_ROUNDS(rounds(r->width, wide<T>::V),
                             e = back_and_sums<R>(s, r, b, w, (T *)dx)));
    else
        BY_TYPE(t, any_row_back<<<blocks_for(r->rows * 32), THREADS, 0, s>>>(
                       *r, *b, w, (T *)dx));
    return e == cudaSuccess ? cudaGetLastError() : e;
}
