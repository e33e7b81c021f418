/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tables by token or position, the loss of each item, rotary positions. */
#include "device.cuh"

#include <cuda_pipeline.h>

static __device__ __forceinline__ int64_t row_of(const cuda_table &x,
                                                 const int32_t *row, int64_t m)
{
    int64_t r = row ? row[m] : m % x.period + x.first;

    return r >= x.lo && r < x.hi ? r - x.lo : -1;
}

template <class T>
__global__ void lookup(cuda_table x, const int32_t *row, const T *w, T *y)
{
    EACH(i, x.m * x.width)
    {
        int64_t r = row_of(x, row, i / x.width);

        put(y, i, r < 0 ? 0.0f : get(w, r * x.width + i % x.width));
    }
}

cudaError_t train_cuda_lookup(cudaStream_t s, enum cuda_type t,
                              const struct cuda_table *x, const int32_t *row,
                              const void *w, void *y)
{
    BY_TYPE(t, lookup<T><<<blocks_for(x->m * x->width), THREADS, 0, s>>>(
                   *x, row, (const T *)w, (T *)y));
    return cudaGetLastError();
}

template <class T>
__global__ void scatter(cuda_table x, const int32_t *row, const T *dy,
                        float *room)
{
    EACH(i, x.m * x.width)
    {
        int64_t r = row_of(x, row, i / x.width);

        if (r >= 0)
            atomicAdd(&room[r * x.width + i % x.width], get(dy, i));
    }
}

cudaError_t train_cuda_lookup_back(cudaStream_t s, enum cuda_type t,
                                   const struct cuda_table *x,
                                   const int32_t *row, const void *dy, void *dw,
                                   float *room)
{
    int64_t n = (x->hi - x->lo) * x->width;
    float *sum = t == CUDA_F32 ? (float *)dw : room;
    cudaError_t e = cudaMemsetAsync(sum, 0, (size_t)n * sizeof(float), s);

    if (e != cudaSuccess)
        return e;
    BY_TYPE(t, scatter<T><<<blocks_for(x->m * x->width), THREADS, 0, s>>>(
                   *x, row, (const T *)dy, sum));
    if (t != CUDA_F32)
        return train_cuda_narrow(s, n, sum, dw);
    return cudaGetLastError();
}

/* ---- losses ----------------------------------------------------------------------- */

struct best {
    float v;
    int i;
};

static __device__ best better(best a, best b)
{
    return b.v > a.v || (b.v == a.v && b.i < a.i) ? b : a;
}

static __device__ best warp_best(best b)
{
    for (int k = 16; k; k >>= 1)
        b = better(b, {__shfl_xor_sync(~0u, b.v, k),
                       __shfl_xor_sync(~0u, b.i, k)});
    return b;
}

/* Over a block: each value to all threads. Warps' results go to room and each
 * warp joins them. */
static __device__ float block_sum(float v, float *room)
{
    unsigned lane = threadIdx.x & 31;

    v = warp_sum(v);
    __syncthreads();
    if (lane == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? room[lane] : 0);
}

static __device__ best block_best(best b, best *room)
{
    unsigned lane = threadIdx.x & 31;

    b = warp_best(b);
    __syncthreads();
    if (lane == 0)
        room[threadIdx.x / 32] = b;
    __syncthreads();
    return warp_best(room[lane < blockDim.x / 32 ? lane : 0]);
}

enum { ROW_THREADS = 512 };

/* A row on its way into shared memory: each thread brings what it will read
 * itself, so that nobody waits for anybody. */
template <int V, class T>
static __device__ void bring(const T *p, int64_t classes, chunk<V, T> *row)
{
    for (int64_t c = threadIdx.x; c < classes / V; c += blockDim.x)
        __pipeline_memcpy_async(&row[c], p + c * V, sizeof *row);
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

/* A block a row, two passes over it: the largest with the sum of exponentials
 * below it, which shrinks when a larger one comes; then the gradient. HELD: a
 * row fits into shared memory. Two blocks share a processor: one reads while
 * the other writes. */
enum { MOST_HELD = 160 << 10 };
template <int V, bool HELD, class T>
__global__ void __launch_bounds__(ROW_THREADS)
    cross_entropy(int64_t items, int64_t classes, float smoothing, float share,
                  const T *y, const int32_t *label, T *dy, float *loss,
                  float *right)
{
    __shared__ float sums[ROW_THREADS / 32];
    __shared__ best tops[ROW_THREADS / 32];
    extern __shared__ uint4 held[];
    chunk<V, T> *row = (chunk<V, T> *)held;

    for (int64_t m = blockIdx.x; m < items; m += gridDim.x) {
        const T *p = y + m * classes;
        int32_t want = label[m];
        best own = {-INFINITY, 0x7fffffff}, b;
        float sum = 0, all = 0, uniform = smoothing / (float)classes, scale;
        bool counts = want >= 0 && want < classes;
        float right_one = counts ? get(p, want) : 0; /* dy may lie upon y */

        if (HELD)
            bring(p, classes, row);
#pragma unroll 2
        for (int64_t c = threadIdx.x * V; c < classes; c += blockDim.x * V) {
            float f[V], top = -INFINITY;

            open(HELD ? row[c / V] : fetch<V>(p, c), f);
            for (int k = 0; k < V; k++)
                top = fmaxf(top, f[k]);
            if (top > own.v) { /* seldom */
                sum *= power_of_sum(p, own.v, -top);
                own.v = top;
                for (int k = V - 1; k >= 0; k--)
                    own.i = f[k] == top ? (int)c + k : own.i;
            }
            for (int k = 0; k < V; k++)
                sum += power_of_sum(p, f[k], -own.v);
            if (smoothing > 0)
                for (int k = 0; k < V; k++)
                    all += f[k];
        }
        b = block_best(own, tops);
        sum = block_sum(own.v > -INFINITY
                            ? sum * power_of_sum(p, own.v, -b.v)
                            : sum,
                        sums);
        if (smoothing > 0)
            all = block_sum(all, sums) - (float)classes * b.v;
        scale = share / sum;
#pragma unroll 2
        for (int64_t c = threadIdx.x * V; c < classes; c += blockDim.x * V) {
            float f[V];

            open(HELD ? row[c / V] : fetch<V>(p, c), f);
            for (int k = 0; k < V; k++)
                f[k] = want < 0 ? 0
                                : power_of_sum(p, f[k], -b.v) * scale -
                                      uniform * share;
            if (counts && c <= want && want < c + V)
                for (int k = 0; k < V; k++)
                    f[k] -= c + k == want ? (1 - smoothing) * share : 0;
            store<V>(dy + m * classes, c, f);
        }
        if (threadIdx.x == 0 && loss) {
            float l = want < 0 ? 0 : NAN;

            if (counts)
                l = logf(sum) - (1 - smoothing) * (right_one - b.v) -
                    (smoothing > 0 ? smoothing * all / (float)classes : 0);
            loss[m] = l;
        }
        if (threadIdx.x == 0 && right)
            right[m] = counts && b.i == want;
        __syncthreads();
    }
}

template <int V, class T>
static cudaError_t entropy(cudaStream_t s, int64_t items, int64_t classes,
                           float smoothing, float share, const T *y,
                           const int32_t *label, T *dy, float *loss,
                           float *right)
{
    unsigned b = items < 65536 ? (unsigned)items : 65536;
    int n = classes > 4096 ? ROW_THREADS : classes > 256 ? 128 : 32;
    int64_t bytes = classes * (int64_t)sizeof(T);

    if (n == ROW_THREADS && V > 1 && bytes <= MOST_HELD &&
        cudaFuncSetAttribute((const void *)cross_entropy<V, true, T>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)bytes) == cudaSuccess) {
        cross_entropy<V, true><<<b, n, (size_t)bytes, s>>>(
            items, classes, smoothing, share, y, label, dy, loss, right);
        return cudaGetLastError();
    }
    (void)cudaGetLastError();
    cross_entropy<V, false><<<b, n, 0, s>>>(items, classes, smoothing, share,
                                            y, label, dy, loss, right);
    return cudaGetLastError();
}

cudaError_t train_cuda_cross_entropy(cudaStream_t s, enum cuda_type t,
                                     int64_t items, int64_t classes,
                                     float smoothing, float share,
                                     const void *y, const int32_t *label,
                                     void *dy, float *loss, float *right)
{
    cudaError_t e = cudaSuccess;

    BY_TYPE(t, BY_WIDTH(T, classes,
                        e = entropy<V>(s, items, classes, smoothing, share,
                                       (const T *)y, label, (T *)dy, loss,
                                       right)));
    return e;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    squares_loss(int64_t items, int64_t n, float share, const T *y,
                 const T *label, T *dy, float *loss)
{
    __shared__ float sums[THREADS / 32];

    for (int64_t m = blockIdx.x; m < items; m += gridDim.x) {
        float sum = 0;

        for (int64_t c = threadIdx.x; c < n; c += blockDim.x) {
            float e = get(y, m * n + c) - get(label, m * n + c);

            sum += e * e / (float)n;
            put(dy, m * n + c, 2 * e / (float)n * share);
        }
        sum = block_sum(sum, sums);
        if (threadIdx.x == 0 && loss)
            loss[m] = sum;
        __syncthreads();
    }
}

cudaError_t train_cuda_squares_loss(cudaStream_t s, enum cuda_type t,
                                    int64_t items, int64_t classes, float share,
                                    const void *y, const void *label, void *dy,
                                    float *loss)
{
    unsigned b = items < 65536 ? (unsigned)items : 65536;

    BY_TYPE(t, squares_loss<T><<<b, THREADS, 0, s>>>(
                   items, classes, share, (const T *)y, (const T *)label,
                   (T *)dy, loss));
    return cudaGetLastError();
}

/* ---- rotations --------------------------------------------------------------------- */

/* A block turns a position of many samples by angles that it works out once. */
template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    rope(cuda_rope r, const T *x, T *y)
{
    __shared__ float2 turn[CUDA_PAIRS];
    int half = (int)r.d / 2, groups = half / V;
    int64_t still = r.width - r.d, all = r.samples * r.heads * groups;
    int64_t at = blockIdx.x, step = (int64_t)gridDim.y * THREADS;
    int64_t first = (int64_t)blockIdx.y * THREADS + threadIdx.x;

    for (int p = threadIdx.x; p < half; p += THREADS) {
        double angle = (double)(at + r.first) * r.step[p];

        turn[p] = {(float)cos(angle), (float)(r.sense * sin(angle))};
    }
    __syncthreads();
    for (int64_t i = first; i < all; i += step) {
        int64_t head = i / groups, sample = head / r.heads;
        int e = (int)(i % groups) * V;
        int64_t to = ((sample * r.positions + at) * r.heads + head % r.heads) *
                         r.width + still + e;
        float a[V], b[V], f[V], g[V];

        load<V>(x, to, a);
        load<V>(x, to + half, b);
        for (int k = 0; k < V; k++) {
            f[k] = a[k] * turn[e + k].x - b[k] * turn[e + k].y;
            g[k] = b[k] * turn[e + k].x + a[k] * turn[e + k].y;
        }
        store<V>(y, to, f);
        store<V>(y, to + half, g);
    }
    for (int64_t i = first; i < r.samples * r.heads * still; i += step) {
        int64_t head = i / still, sample = head / r.heads;
        int64_t to = ((sample * r.positions + at) * r.heads + head % r.heads) *
                         r.width + i % still;

        y[to] = x[to];
    }
}

cudaError_t train_cuda_rope(cudaStream_t s, enum cuda_type t,
                            const struct cuda_rope *r, const void *x, void *y)
{
    int64_t work = r->samples * r->heads * r->d / 16 / THREADS + 1;
    int64_t parts = 132 * 8 / r->positions + 1;
    dim3 grid((unsigned)r->positions, (unsigned)(parts < work ? parts : work));

    BY_TYPE(t, {
        if (r->d / 2 % wide<T>::V == 0 && r->width % wide<T>::V == 0)
            rope<wide<T>::V, T>
                <<<grid, THREADS, 0, s>>>(*r, (const T *)x, (T *)y);
        else
            rope<1, T><<<grid, THREADS, 0, s>>>(*r, (const T *)x, (T *)y);
    });
    return cudaGetLastError();
}
