/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm. Variances are of differences from the first row: no
 * cancellation. */
#include "columns.cuh"

int64_t train_cuda_column_room(int64_t m, int64_t c)
{
    return train_cuda_group_room(1, m, c);
}

int64_t train_cuda_group_room(int64_t groups, int64_t m, int64_t c)
{
    return groups * (2 * (int64_t)row_blocks(m, c, groups) * c + 2 * c);
}

/* ---- what is added up -------------------------------------------------------- */

template <class T> struct spread { /* differences from the first row */
    const T *x;
    int64_t m, c;
    template <int V> using raw = chunk<V, T>;
    template <int V> struct at {
        float z[V];
        __device__ at(const spread &f, int64_t col)
        {
            load<V>(f.x, blockIdx.z * f.m * f.c + col, z);
        }
        __device__ __forceinline__ raw<V> get(const spread &f, int64_t row,
                                              int64_t col) const
        {
            return fetch<V>(f.x, row * f.c + col);
        }
        __device__ __forceinline__ void add(const spread &, const raw<V> &x,
                                            int64_t, int64_t,
                                            float (*a)[V]) const
        {
            float v[V];

            open(x, v);
            for (int k = 0; k < V; k++) {
                float d = v[k] - z[k];

                a[0][k] += d;
                a[1][k] += d * d;
            }
        }
        __device__ void end(float (*)[V]) const
        {
        }
    };
};

/* Of a group: mean, 1/deviation, and two sums: of what came forward its mean
 * and variance, backward of dy and dy xhat. */
enum { STATS = 4 };

/* What a batch norm's backward gets: dy, or a sum of two (MORE), past the
 * rectifier behind the norm: by the sign of y, or of the norm's own result. */
enum sign { ALL, BY_Y, BY_X };

template <class T, sign S, bool MORE> struct arriving {
    const T *dy, *more, *y, *x;
    const float *stats, *scale, *shift;
    float most; /* of the result: from there on it does not move */
    int64_t c;
    template <int V> struct raw {
        chunk<V, T> dy, more, y, x;
    };
    template <int V> struct at {
        float mean[V], g[V], o[V];
        __device__ at(const arriving &f, int64_t col)
        {
            const float *stats = f.stats + blockIdx.z * STATS * f.c + col;

            for (int k = 0; k < V; k++) {
                mean[k] = stats[k];
                g[k] = stats[f.c + k] * (f.scale ? f.scale[col + k] : 1);
                o[k] = f.shift ? f.shift[col + k] : 0;
            }
        }
        __device__ __forceinline__ raw<V> get(const arriving &f,
                                              int64_t i) const
        {
            raw<V> r;

            r.dy = fetch<V>(f.dy, i);
            r.x = fetch<V>(f.x, i);
            if (MORE)
                r.more = fetch<V>(f.more, i);
            if (S == BY_Y)
                r.y = fetch<V>(f.y, i);
            return r;
        }
        /* What arrives, and x without its mean. */
        __device__ __forceinline__ void values(const arriving &f,
                                               const raw<V> &r, float *d,
                                               float *x) const
        {
            float e[V];

            open(r.dy, d);
            open(r.x, x);
            if (MORE) {
                open(r.more, e);
                for (int k = 0; k < V; k++)
                    d[k] = rounded(f.dy, d[k] + e[k]);
            }
            for (int k = 0; k < V; k++)
                x[k] -= mean[k];
            if (S == BY_Y)
                open(r.y, e);
            for (int k = 0; S == BY_X && k < V; k++)
                e[k] = x[k] * g[k] + o[k];
            for (int k = 0; S != ALL && k < V; k++)
                d[k] = e[k] > 0 && e[k] < f.most ? d[k] : 0;
        }
    };
};

template <class T, sign S, bool MORE> struct by_channel { /* dy, dy xhat */
    typedef arriving<T, S, MORE> source;
    source from;
    T *dz; /* dy as it arrives; NULL: nobody asks */
    template <int V> using raw = typename source::template raw<V>;
    template <int V> struct at {
        typename source::template at<V> here;
        float rstd[V];
        __device__ at(const by_channel &f, int64_t col) : here(f.from, col)
        {
            int64_t c = f.from.c, at = (blockIdx.z * STATS + 1) * c + col;

            for (int k = 0; k < V; k++)
                rstd[k] = f.from.stats[at + k];
        }
        __device__ __forceinline__ raw<V> get(const by_channel &f, int64_t row,
                                              int64_t col) const
        {
            return here.get(f.from, row * f.from.c + col);
        }
        __device__ __forceinline__ void add(const by_channel &f,
                                            const raw<V> &r, int64_t row,
                                            int64_t col, float (*a)[V]) const
        {
            float d[V], x[V];

            here.values(f.from, r, d, x);
            if (f.dz)
                store<V>(f.dz, row * f.from.c + col, d);
            for (int k = 0; k < V; k++) {
                a[0][k] += d[k];
                a[1][k] += d[k] * x[k];
            }
        }
        __device__ void end(float (*a)[V]) const
        {
            for (int k = 0; k < V; k++)
                a[1][k] *= rstd[k];
        }
    };
};

template <class T> struct plain {
    const T *x;
    int64_t c;
    template <int V> using raw = chunk<V, T>;
    template <int V> struct at {
        __device__ at(const plain &, int64_t)
        {
        }
        __device__ __forceinline__ raw<V> get(const plain &f, int64_t row,
                                              int64_t col) const
        {
            return fetch<V>(f.x, row * f.c + col);
        }
        __device__ __forceinline__ void add(const plain &, const raw<V> &x,
                                            int64_t, int64_t,
                                            float (*a)[V]) const
        {
            float v[V];

            open(x, v);
            for (int k = 0; k < V; k++)
                a[0][k] += v[k];
        }
        __device__ void end(float (*)[V]) const
        {
        }
    };
};

/* ---- batch norm ------------------------------------------------------------------ */

static __device__ __forceinline__ void follow(const cuda_batch_norm &b,
                                              int64_t i, double mean,
                                              double var)
{
    b.mean[i] = (float)(b.mean[i] + b.momentum * (mean - b.mean[i]));
    b.var[i] = (float)(b.var[i] + b.momentum * (var - b.var[i]));
}

template <class T>
__global__ void __launch_bounds__(LANES *DEEP)
    moments(cuda_batch_norm b, const T *x, const float *partial, int blocks)
{
    int64_t i = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES, c = b.c;
    float *stats = b.stats + blockIdx.y * STATS * c;
    double n = (double)b.m, of[2];

    partial += (int64_t)blockIdx.y * blocks * 2 * c;
    if (!column_totals(partial, blocks, c, 2 * c, i, of))
        return;

    double d = of[0] / n, var = of[1] / n - d * d;
    double mean = get(x, blockIdx.y * b.m * c + i) + d;

    var = var > 0 ? var : 0;
    stats[i] = (float)mean;
    stats[c + i] = (float)(1 / sqrt(var + (double)b.eps));
    var = n > 1 ? var * n / (n - 1) : var;
    if (b.remember && b.groups == 1) {
        follow(b, i, mean, var);
    } else if (b.remember) {
        stats[2 * c + i] = (float)mean;
        stats[3 * c + i] = (float)var;
    }
}

/* Running statistics of several groups: the mean of what each would make. */
__global__ void __launch_bounds__(LANES *DEEP) follow_all(cuda_batch_norm b)
{
    int64_t i = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES;
    double n = (double)b.groups, of[2];

    if (column_totals(b.stats + 2 * b.c, (int)b.groups, b.c, STATS * b.c, i,
                      of))
        follow(b, i, of[0] / n, of[1] / n);
}

__global__ void known_moments(cuda_batch_norm b)
{
    EACH(i, b.c)
    {
        b.stats[i] = b.mean[i];
        b.stats[b.c + i] = (float)(1 / sqrt((double)b.var[i] + (double)b.eps));
    }
}

template <int V, bool MORE, class T>
__global__ void __launch_bounds__(THREADS)
    normalise(layout l, cuda_batch_norm b, const T *x, const T *more, T *y)
{
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V;
    int64_t row = (int64_t)blockIdx.y * l.rows + r + blockIdx.z * b.m;
    int64_t step = (int64_t)gridDim.y * l.rows, end = (blockIdx.z + 1) * b.m;
    const float *stats = b.stats + blockIdx.z * STATS * b.c + col;
    float g[V], o[V], mean[V];

    if (col >= b.c)
        return;
    for (int k = 0; k < V; k++) {
        g[k] = stats[b.c + k] * (b.scale ? b.scale[col + k] : 1);
        o[k] = b.shift ? b.shift[col + k] : 0;
        mean[k] = stats[k];
    }
    for (; row < end; row += ROWS * step) {
        chunk<V, T> c[ROWS], m[ROWS];

#pragma unroll
        for (int u = 0; u < ROWS; u++)
            if (row + u * step < end) {
                c[u] = fetch<V>(x, (row + u * step) * b.c + col);
                if (MORE)
                    m[u] = fetch<V>(more, (row + u * step) * b.c + col);
            }
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            float f[V], e[V];

            if (row + u * step >= end)
                break;
            open(c[u], f);
            if (MORE)
                open(m[u], e);
            for (int k = 0; k < V; k++) {
                f[k] = (f[k] - mean[k]) * g[k] + o[k];
                f[k] += MORE ? e[k] : 0;
                if (b.rectified)
                    f[k] = f[k] != f[k] ? f[k] : fminf(fmaxf(f[k], 0), b.most);
            }
            store<V>(y, (row + u * step) * b.c + col, f);
        }
    }
}

template <int V, class T>
static void batch_norm(cudaStream_t s, const cuda_batch_norm *b, const T *x,
                       const T *more, T *y, float *partial)
{
    layout l = lay_out(b->m, b->c, V, b->groups);
    unsigned groups = (unsigned)b->groups;
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks, groups);

    if (b->running) {
        known_moments<<<blocks_for(b->c), THREADS, 0, s>>>(*b);
    } else {
        dim3 few((unsigned)total_blocks(b->c), groups);
        int n = sum_columns<V>(s, spread<T>{x, b->m, b->c}, b->m, b->c,
                               partial, b->groups);

        moments<T><<<few, LANES * DEEP, 0, s>>>(*b, x, partial, n);
        if (b->remember && groups > 1)
            follow_all<<<few.x, LANES * DEEP, 0, s>>>(*b);
    }
    if (more)
        normalise<V, true><<<grid, THREADS, 0, s>>>(l, *b, x, more, y);
    else
        normalise<V, false><<<grid, THREADS, 0, s>>>(l, *b, x, more, y);
}

cudaError_t train_cuda_batch_norm(cudaStream_t s, enum cuda_type t,
                                  const struct cuda_batch_norm *b,
                                  const void *x, const void *more, void *y,
                                  float *partial)
{
    BY_TYPE(t, BY_WIDTH(T, b->c,
                        batch_norm<V>(s, b, (const T *)x, (const T *)more,
                                      (T *)y, partial)));
    return cudaGetLastError();
}

template <class T, sign S, bool MORE>
static arriving<T, S, MORE> arriving_of(const cuda_batch_back *b)
{
    return {(const T *)b->dy, (const T *)b->more, (const T *)b->y,
            (const T *)b->x,  b->stats,           b->scale,
            b->shift,         b->most,            b->c};
}

/* Runs a statement with T, V, S and MORE as what arrives has them. */
#define BY_ARRIVAL(t, b, ...)                                        \
    BY_TYPE(t, BY_WIDTH(T, (b)->c, {                                 \
                if (!(b)->rectified && !(b)->more) {                 \
                    const sign S = ALL;                              \
                    const bool MORE = false;                         \
                    __VA_ARGS__;                                     \
                } else if ((b)->y && (b)->more) {                    \
                    const sign S = BY_Y;                             \
                    const bool MORE = true;                          \
                    __VA_ARGS__;                                     \
                } else if ((b)->y) {                                 \
                    const sign S = BY_Y;                             \
                    const bool MORE = false;                         \
                    __VA_ARGS__;                                     \
                } else if ((b)->more) {                              \
                    const sign S = BY_X;                             \
                    const bool MORE = true;                          \
                    __VA_ARGS__;                                     \
                } else {                                             \
                    const sign S = BY_X;                             \
                    const bool MORE = false;                         \
                    __VA_ARGS__;                                     \
                }                                                    \
            }))

cudaError_t train_cuda_batch_norm_sums(cudaStream_t s, enum cuda_type t,
                                       const struct cuda_batch_back *b,
                                       float *sums, void *dz, float *partial)
{
    bool one = b->groups == 1;
    sum_places<float> to = {sums,
                            sums + b->c,
                            {one ? b->dshift : NULL, one ? b->dscale : NULL},
                            STATS * b->c};
    dim3 few((unsigned)total_blocks(b->c), (unsigned)b->groups);
    int n = 0;

    BY_ARRIVAL(t, b,
               by_channel<T, S, MORE> f = {arriving_of<T, S, MORE>(b), (T *)dz};
               n = sum_columns<V>(s, f, b->m, b->c, partial, b->groups));
    totals<float><<<few, LANES * DEEP, 0, s>>>(partial, n, b->c, to);
    if (!one && (b->dscale || b->dshift))
        return train_cuda_batch_norm_weights(s, b, sums);
    return cudaGetLastError();
}

__global__ void __launch_bounds__(LANES *DEEP)
    all_groups(cuda_batch_back b, const float *sums)
{
    int64_t i = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES;
    double of[2];

    if (!column_totals(sums, (int)b.groups, b.c, STATS * b.c, i, of))
        return;
    if (b.dshift)
        b.dshift[i] = (float)of[0];
    if (b.dscale)
        b.dscale[i] = (float)of[1];
}

cudaError_t train_cuda_batch_norm_weights(cudaStream_t s,
                                          const struct cuda_batch_back *b,
                                          const float *sums)
{
    all_groups<<<total_blocks(b->c), LANES * DEEP, 0, s>>>(*b, sums);
    return cudaGetLastError();
}

template <int V, class T, sign S, bool MORE>
__global__ void __launch_bounds__(THREADS)
    batch_back(layout l, int64_t m, arriving<T, S, MORE> from,
               const float *sums, T *dx)
{
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V, c = from.c;
    int64_t row = (int64_t)blockIdx.y * l.rows + r + blockIdx.z * m;
    int64_t step = (int64_t)gridDim.y * l.rows, end = (blockIdx.z + 1) * m;
    int64_t group = blockIdx.z * STATS * c + col;
    float p[V], q[V];

    if (col >= c)
        return;

    typename arriving<T, S, MORE>::template at<V> here(from, col);

    for (int k = 0; k < V; k++) {
        p[k] = sums[group + k] / (float)m;
        q[k] = sums[group + c + k] / (float)m * from.stats[group + c + k];
    }
    for (; row < end; row += ROWS * step) {
        typename arriving<T, S, MORE>::template raw<V> raw[ROWS];

#pragma unroll
        for (int u = 0; u < ROWS; u++)
            if (row + u * step < end)
                raw[u] = here.get(from, (row + u * step) * c + col);
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            float d[V], x[V];

            if (row + u * step >= end)
                break;
            here.values(from, raw[u], d, x);
            for (int k = 0; k < V; k++)
                x[k] = here.g[k] * (d[k] - p[k] - x[k] * q[k]);
            store<V>(dx, (row + u * step) * c + col, x);
        }
    }
}

cudaError_t train_cuda_batch_norm_back(cudaStream_t s, enum cuda_type t,
                                       const struct cuda_batch_back *b,
                                       const float *sums, void *dx)
{
    BY_ARRIVAL(t, b, layout l = lay_out(b->m, b->c, V, b->groups);
               dim3 grid((unsigned)l.tiles, (unsigned)l.blocks,
                         (unsigned)b->groups);
               batch_back<V><<<grid, THREADS, 0, s>>>(
                   l, b->m, arriving_of<T, S, MORE>(b), sums, (T *)dx));
    return cudaGetLastError();
}

cudaError_t train_cuda_column_sums(cudaStream_t s, enum cuda_type t, int64_t m,
                                   int64_t c, const void *x, enum cuda_type to_t,
                                   void *to, float *partial)
{
    int n = 0, few = total_blocks(c), threads = LANES * DEEP;

    BY_TYPE(t, BY_WIDTH(T, c,
                        n = sum_columns<V>(s, plain<T>{(const T *)x, c}, m, c,
                                           partial)));
    if (to_t == CUDA_BF16)
        totals<bf16><<<few, threads, 0, s>>>(partial, n, c,
                                             sum_places<bf16>{(bf16 *)to});
    else
        totals<float><<<few, threads, 0, s>>>(partial, n, c,
                                              sum_places<float>{(float *)to});
    return cudaGetLastError();
}
