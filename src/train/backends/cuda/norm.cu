/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations. Sums over rows go in two steps: blocks leave partial sums,
 * one warp a column adds them in a fixed order, in float64; so a result depends
 * on nothing but its operands. Variances are of differences from the first row:
 * no cancellation. A thread keeps to its columns, four at a time where they
 * divide, and walks down the rows. */
#include "device.cuh"

enum { LANES = 32, MOST_BLOCKS = 1024 };

static int row_blocks(int64_t m, int64_t c)
{
    int64_t tiles = (c + 4 * LANES - 1) / (4 * LANES);
    int64_t b = (m + 63) / 64, most = 132 * 8 / tiles;

    b = b > most ? most : b;
    return (int)(b < 1 ? 1 : b > MOST_BLOCKS ? MOST_BLOCKS : b);
}

int64_t train_cuda_column_room(int64_t m, int64_t c)
{
    return 2 * (int64_t)row_blocks(m, c) * c + 2 * c;
}

/* Threads of a block: `lanes` groups of V columns by 256/lanes rows. */
struct layout {
    int lanes, rows, tiles, blocks;
};

static layout lay_out(int64_t m, int64_t c, int v)
{
    int64_t groups = c / v;
    int lanes = 1;

    while (lanes < LANES && lanes < groups)
        lanes *= 2;
    return {lanes, THREADS / lanes, (int)((groups + lanes - 1) / lanes),
            row_blocks(m, c)};
}

template <int V, class T>
static __device__ __forceinline__ void load(const T *p, int64_t at, float *f)
{
    if (V == 4) {
        four a = get4(p, at / 4);

        for (int k = 0; k < 4; k++)
            f[k] = a.v[k];
    } else {
        f[0] = get(p, at);
    }
}

template <int V, class T>
static __device__ __forceinline__ void store(T *p, int64_t at, const float *f)
{
    if (V == 4)
        put4(p, at / 4, {{f[0], f[1], f[2], f[3]}});
    else
        put(p, at, f[0]);
}

/* ---- sums over rows ------------------------------------------------------------ */

/* What each element adds to the two sums of its column. */
template <class T> struct spread { /* differences from the first row */
    const T *x;
    int64_t c;
    template <int V>
    __device__ void operator()(int64_t row, int64_t col, float (*a)[V]) const
    {
        float f[V], z[V];

        load<V>(x, row * c + col, f);
        load<V>(x, col, z);
        for (int k = 0; k < V; k++) {
            float d = f[k] - z[k];

            a[0][k] += d;
            a[1][k] += d * d;
        }
    }
};

template <class T> struct by_channel { /* dy, dy xhat */
    const T *dy, *x;
    const float *stats;
    int64_t c;
    template <int V>
    __device__ void operator()(int64_t row, int64_t col, float (*a)[V]) const
    {
        float d[V], f[V];

        load<V>(dy, row * c + col, d);
        load<V>(x, row * c + col, f);
        for (int k = 0; k < V; k++) {
            a[0][k] += d[k];
            a[1][k] += d[k] * (f[k] - stats[col + k]) * stats[c + col + k];
        }
    }
};

template <class T> struct by_feature { /* dy, dy xhat; statistics of rows */
    const T *dy, *x;
    const float *stats;
    int64_t c;
    template <int V>
    __device__ void operator()(int64_t row, int64_t col, float (*a)[V]) const
    {
        float d[V], f[V], mean = stats[2 * row], rstd = stats[2 * row + 1];

        load<V>(dy, row * c + col, d);
        load<V>(x, row * c + col, f);
        for (int k = 0; k < V; k++) {
            a[0][k] += d[k];
            a[1][k] += d[k] * (f[k] - mean) * rstd;
        }
    }
};

template <class T> struct plain {
    const T *x;
    int64_t c;
    template <int V>
    __device__ void operator()(int64_t row, int64_t col, float (*a)[V]) const
    {
        float f[V];

        load<V>(x, row * c + col, f);
        for (int k = 0; k < V; k++)
            a[0][k] += f[k];
    }
};

template <int V, class F>
__global__ void __launch_bounds__(THREADS)
    column_sums(F f, layout l, int64_t m, int64_t c, float *partial)
{
    __shared__ float sm[2][V][THREADS];
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V;
    float a[2][V] = {};

    if (col < c) {
#pragma unroll 4
        for (int64_t row = (int64_t)blockIdx.y * l.rows + r; row < m;
             row += (int64_t)gridDim.y * l.rows)
            f(row, col, a);
    }
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < V; k++)
            sm[s][k][threadIdx.x] = a[s][k];
    __syncthreads();
    if (r > 0 || col >= c)
        return;
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < V; k++) {
            float sum = 0;

            for (int i = 0; i < l.rows; i++)
                sum += sm[s][k][i * l.lanes + lane];
            partial[((int64_t)blockIdx.y * 2 + s) * c + col + k] = sum;
        }
}

template <class F>
static int sum_columns(cudaStream_t s, const F &f, int64_t m, int64_t c,
                       float *partial)
{
    layout l = lay_out(m, c, c % 4 ? 1 : 4);
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks);

    if (c % 4)
        column_sums<1><<<grid, THREADS, 0, s>>>(f, l, m, c, partial);
    else
        column_sums<4><<<grid, THREADS, 0, s>>>(f, l, m, c, partial);
    return l.blocks;
}

/* By all lanes of a warp, for all of them. */
static __device__ double total(const float *partial, int blocks, int which,
                               int64_t c, int64_t col)
{
    double sum = 0;

    for (int b = threadIdx.x & 31; b < blocks; b += 32)
        sum += partial[((int64_t)b * 2 + which) * c + col];
    for (int k = 16; k; k >>= 1)
        sum += __shfl_xor_sync(~0u, sum, k);
    return sum;
}

#define EACH_COLUMN(i, c)                                                    \
    for (int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; \
         i < (c); i += (int64_t)gridDim.x * blockDim.x / 32)

template <class D>
__global__ void totals(const float *partial, int blocks, int64_t c, D *first,
                       D *second)
{
    bool speaks = (threadIdx.x & 31) == 0;

    EACH_COLUMN(i, c)
    {
        float a = first ? (float)total(partial, blocks, 0, c, i) : 0;
        float b = second ? (float)total(partial, blocks, 1, c, i) : 0;

        if (first && speaks)
            put(first, i, a);
        if (second && speaks)
            put(second, i, b);
    }
}

/* ---- batch norm ------------------------------------------------------------------ */

template <class T>
__global__ void moments(cuda_batch_norm b, const T *x, const float *partial,
                        int blocks)
{
    EACH_COLUMN(i, b.c)
    {
        double n = (double)b.m;
        double d = total(partial, blocks, 0, b.c, i) / n;
        double var = total(partial, blocks, 1, b.c, i) / n - d * d;
        double mean = get(x, i) + d;

        if (threadIdx.x & 31)
            continue;
        var = var > 0 ? var : 0;
        b.stats[i] = (float)mean;
        b.stats[b.c + i] = (float)(1 / sqrt(var + (double)b.eps));
        if (b.remember) {
            double all = n > 1 ? var * n / (n - 1) : var;

            b.mean[i] = (float)(b.mean[i] + b.momentum * (mean - b.mean[i]));
            b.var[i] = (float)(b.var[i] + b.momentum * (all - b.var[i]));
        }
    }
}

__global__ void known_moments(cuda_batch_norm b)
{
    EACH(i, b.c)
    {
        b.stats[i] = b.mean[i];
        b.stats[b.c + i] = (float)(1 / sqrt((double)b.var[i] + (double)b.eps));
    }
}

template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    normalise(layout l, cuda_batch_norm b, const T *x, T *y)
{
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V;
    float g[V], o[V], mean[V];

    if (col >= b.c)
        return;
    for (int k = 0; k < V; k++) {
        g[k] = b.stats[b.c + col + k] * (b.scale ? b.scale[col + k] : 1);
        o[k] = b.shift ? b.shift[col + k] : 0;
        mean[k] = b.stats[col + k];
    }
#pragma unroll 4
    for (int64_t row = (int64_t)blockIdx.y * l.rows + r; row < b.m;
         row += (int64_t)gridDim.y * l.rows) {
        float f[V];

        load<V>(x, row * b.c + col, f);
        for (int k = 0; k < V; k++)
            f[k] = (f[k] - mean[k]) * g[k] + o[k];
        store<V>(y, row * b.c + col, f);
    }
}

cudaError_t train_cuda_batch_norm(cudaStream_t s, enum cuda_type t,
                                  const struct cuda_batch_norm *b,
                                  const void *x, void *y, float *partial)
{
    int few = blocks_for(b->c);
    layout l = lay_out(b->m, b->c, b->c % 4 ? 1 : 4);
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks);

    if (b->running)
        known_moments<<<few, THREADS, 0, s>>>(*b);
    else
        BY_TYPE(t, int n = sum_columns(s, spread<T>{(const T *)x, b->c}, b->m,
                                       b->c, partial);
                moments<T><<<blocks_for(32 * b->c), THREADS, 0, s>>>(
                    *b, (const T *)x, partial, n));
    BY_TYPE(t, if (b->c % 4) normalise<1, T><<<grid, THREADS, 0, s>>>(
                   l, *b, (const T *)x, (T *)y);
            else normalise<4, T><<<grid, THREADS, 0, s>>>(l, *b, (const T *)x,
                                                          (T *)y));
    return cudaGetLastError();
}

cudaError_t train_cuda_batch_norm_sums(cudaStream_t s, enum cuda_type t,
                                       int64_t m, int64_t c, const void *dy,
                                       const void *x, const float *stats,
                                       float *sums, float *partial)
{
    BY_TYPE(t, int n = sum_columns(
                   s, by_channel<T>{(const T *)dy, (const T *)x, stats, c}, m,
                   c, partial);
            totals<float><<<blocks_for(32 * c), THREADS, 0, s>>>(partial, n, c, sums,
                                                            sums + c));
    return cudaGetLastError();
}

template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    batch_back(layout l, int64_t m, int64_t c, const T *dy, const T *x,
               const float *stats, const float *scale, const float *sums, T *dx)
{
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V;
    float g[V], p[V], q[V], mean[V];

    if (col >= c)
        return;
    for (int k = 0; k < V; k++) {
        float rstd = stats[c + col + k];

        g[k] = rstd * (scale ? scale[col + k] : 1);
        p[k] = sums[col + k] / (float)m;
        q[k] = sums[c + col + k] / (float)m * rstd;
        mean[k] = stats[col + k];
    }
#pragma unroll 4
    for (int64_t row = (int64_t)blockIdx.y * l.rows + r; row < m;
         row += (int64_t)gridDim.y * l.rows) {
        float d[V], f[V];

        load<V>(dy, row * c + col, d);
        load<V>(x, row * c + col, f);
        for (int k = 0; k < V; k++)
            f[k] = g[k] * (d[k] - p[k] - (f[k] - mean[k]) * q[k]);
        store<V>(dx, row * c + col, f);
    }
}

cudaError_t train_cuda_batch_norm_back(cudaStream_t s, enum cuda_type t,
                                       int64_t m, int64_t c, const void *dy,
                                       const void *x, const float *stats,
                                       const float *scale, const float *sums,
                                       void *dx)
{
    layout l = lay_out(m, c, c % 4 ? 1 : 4);
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks);

    BY_TYPE(t, if (c % 4) batch_back<1, T><<<grid, THREADS, 0, s>>>(
                   l, m, c, (const T *)dy, (const T *)x, stats, scale, sums,
                   (T *)dx);
            else batch_back<4, T><<<grid, THREADS, 0, s>>>(
                l, m, c, (const T *)dy, (const T *)x, stats, scale, sums,
                (T *)dx));
    return cudaGetLastError();
}

/* ---- rows ------------------------------------------------------------------------- */

static __device__ __forceinline__ float weight(const void *w, cuda_type t,
                                               int64_t i, float none)
{
    return !w               ? none
           : t == CUDA_BF16 ? get((const bf16 *)w, i)
                            : get((const float *)w, i);
}

/* A warp a row. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    row_norm(cuda_row_norm r, const T *x, const void *w, const void *b, T *y,
             float *stats)
{
    int lane = threadIdx.x & 31;

    for (int64_t row = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32;
         row < r.rows; row += (int64_t)gridDim.x * THREADS / 32) {
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
                (get(p, i) - mean) * rstd * weight(w, r.wt, i, 1) +
                    weight(b, r.wt, i, 0));
        if (lane == 0) {
            stats[2 * row] = mean;
            stats[2 * row + 1] = rstd;
        }
    }
}

cudaError_t train_cuda_row_norm(cudaStream_t s, enum cuda_type t,
                                const struct cuda_row_norm *r, const void *x,
                                const void *w, const void *b, void *y,
                                float *stats)
{
    BY_TYPE(t, row_norm<T><<<blocks_for(r->rows * 32), THREADS, 0, s>>>(
                   *r, (const T *)x, w, b, (T *)y, stats));
    return cudaGetLastError();
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    row_back(cuda_row_norm r, const T *dy, const T *x, const void *w,
             const float *stats, T *dx)
{
    int lane = threadIdx.x & 31;

    for (int64_t row = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32;
         row < r.rows; row += (int64_t)gridDim.x * THREADS / 32) {
        const T *px = x + row * r.width, *pd = dy + row * r.width;
        float mean = stats[2 * row], rstd = stats[2 * row + 1];
        float sd = 0, sdx = 0;

        for (int64_t i = lane; i < r.width; i += 32) {
            float d = get(pd, i) * weight(w, r.wt, i, 1);

            sd += r.centre ? d : 0;
            sdx += d * (get(px, i) - mean) * rstd;
        }
        sd = warp_sum(sd) / (float)r.width;
        sdx = warp_sum(sdx) / (float)r.width;
        for (int64_t i = lane; i < r.width; i += 32) {
            float d = get(pd, i) * weight(w, r.wt, i, 1);

            put(dx + row * r.width, i,
                rstd * (d - sd - (get(px, i) - mean) * rstd * sdx));
        }
    }
}

cudaError_t train_cuda_row_norm_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_row_norm *r,
                                     const void *dy, const void *x,
                                     const void *w, const float *stats,
                                     void *dx)
{
    BY_TYPE(t, row_back<T><<<blocks_for(r->rows * 32), THREADS, 0, s>>>(
                   *r, (const T *)dy, (const T *)x, w, stats, (T *)dx));
    return cudaGetLastError();
}

cudaError_t train_cuda_row_norm_weights(cudaStream_t s, enum cuda_type t,
                                        const struct cuda_row_norm *r,
                                        const void *x, const void *dy,
                                        const float *stats, void *dw, void *db,
                                        float *partial)
{
    int n = 0, few = blocks_for(32 * r->width);

    BY_TYPE(t, n = sum_columns(s,
                               by_feature<T>{(const T *)dy, (const T *)x, stats,
                                             r->width},
                               r->rows, r->width, partial));
    if (r->wt == CUDA_BF16)
        totals<bf16><<<few, THREADS, 0, s>>>(partial, n, r->width, (bf16 *)db,
                                             (bf16 *)dw);
    else
        totals<float><<<few, THREADS, 0, s>>>(partial, n, r->width, (float *)db,
                                              (float *)dw);
    return cudaGetLastError();
}

cudaError_t train_cuda_column_sums(cudaStream_t s, enum cuda_type t, int64_t m,
                                   int64_t c, const void *x, enum cuda_type to_t,
                                   void *to, float *partial)
{
    int n = 0, few = blocks_for(32 * c);

    BY_TYPE(t, n = sum_columns(s, plain<T>{(const T *)x, c}, m, c, partial));
    if (to_t == CUDA_BF16)
        totals<bf16><<<few, THREADS, 0, s>>>(partial, n, c, (bf16 *)to,
                                             (bf16 *)NULL);
    else
        totals<float><<<few, THREADS, 0, s>>>(partial, n, c, (float *)to,
                                              (float *)NULL);
    return cudaGetLastError();
}
