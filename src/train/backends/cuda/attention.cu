/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention for every shape and type, a warp a query (backward also a warp a
 * key): keys 32 at a time, softmax as they come (Milakov and Gimelshein 2018),
 * float32 inside. No matrix units: what cuDNN takes is faster there. */
#include "device.cuh"

enum { PARTS = 8 }; /* heads up to 32 * PARTS wide */

/* Keys [*lo, *hi) of the part that the query t sees. */
static __device__ __forceinline__ void keys_of(const cuda_attention &a,
                                               int64_t t, int64_t *lo,
                                               int64_t *hi)
{
    int64_t q = t + a.first_q - a.first_k;

    *lo = a.window ? q - a.window + 1 : 0;
    *hi = a.causal ? q + 1 : a.window ? q + a.window : a.s;
    *lo = *lo < 0 ? 0 : *lo;
    *hi = *hi > a.s ? a.s : *hi;
}

template <class T>
static __device__ __forceinline__ float dot(const float *q, const T *k,
                                            int64_t n)
{
    float s = 0;

    for (int64_t e = 0; e < n; e++)
        s += q[e] * get(k, e);
    return s;
}

template <class T>
__global__ void __launch_bounds__(128)
    attend(cuda_attention a, const T *q, const T *k, const T *v, T *y,
           float *sums)
{
    extern __shared__ float room[];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float *mine = room + warp * a.d;
    int64_t all = a.n * a.heads * a.t;

    for (int64_t i = blockIdx.x * 4 + warp; i < all; i += gridDim.x * 4) {
        int64_t t = i % a.t, h = i / a.t % a.heads, n = i / (a.t * a.heads);
        int64_t g = h / (a.heads / a.kv), lo, hi;
        float top = -INFINITY, sum = 0, acc[PARTS] = {};

        __syncwarp();
        for (int64_t e = lane; e < a.d; e += 32)
            mine[e] = get(q, ((n * a.t + t) * a.heads + h) * a.d + e) * a.scale;
        __syncwarp();
        keys_of(a, t, &lo, &hi);
        for (int64_t j = lo; j < hi; j += 32) {
            int64_t key = j + lane;
            float s = -INFINITY, best, p, old;

            if (key < hi)
                s = dot(mine, k + ((n * a.s + key) * a.kv + g) * a.d, a.d);
            best = fmaxf(top, warp_max(s));
            old = expf(top - best);
            p = key < hi ? expf(s - best) : 0;
            sum = sum * old + warp_sum(p);
            for (int c = 0; c < PARTS; c++)
                acc[c] *= old;
            top = best;
            for (int w = 0; w < 32 && j + w < hi; w++) {
                float pw = __shfl_sync(~0u, p, w);
                const T *row = v + ((n * a.s + j + w) * a.kv + g) * a.dv;

                for (int c = 0; c < PARTS; c++)
                    if (c * 32 + lane < a.dv)
                        acc[c] += pw * get(row, c * 32 + lane);
            }
        }
        for (int c = 0; c < PARTS; c++)
            if (c * 32 + lane < a.dv)
                put(y, ((n * a.t + t) * a.heads + h) * a.dv + c * 32 + lane,
                    sum > 0 ? acc[c] / sum : 0.0f);
        if (lane == 0 && sums)
            sums[i] = sum > 0 ? top + logf(sum) : -INFINITY;
    }
}

static int attention_blocks(int64_t rows)
{
    int64_t b = (rows + 3) / 4;

    return (int)(b > 132 * 64 ? 132 * 64 : b < 1 ? 1 : b);
}

cudaError_t train_cuda_attention(cudaStream_t st, enum cuda_type t,
                                 const struct cuda_attention *a, const void *q,
                                 const void *k, const void *v, void *y,
                                 float *sums)
{
    size_t room = 4 * (size_t)a->d * sizeof(float);

    BY_TYPE(t, attend<T>
            <<<attention_blocks(a->n * a->heads * a->t), 128, room, st>>>(
                *a, (const T *)q, (const T *)k, (const T *)v, (T *)y, sums));
    return cudaGetLastError();
}

/* delta = dy y, of each query and head. */
template <class T>
__global__ void deltas(cuda_attention a, const T *y, const T *dy, float *delta)
{
    EACH(i, a.n * a.heads * a.t)
    {
        int64_t t = i % a.t, h = i / a.t % a.heads, n = i / (a.t * a.heads);
        int64_t at = ((n * a.t + t) * a.heads + h) * a.dv;
        float s = 0;

        for (int64_t e = 0; e < a.dv; e++)
            s += get(y, at + e) * get(dy, at + e);
        delta[i] = s;
    }
}

template <class T>
__global__ void __launch_bounds__(128)
    back_query(cuda_attention a, const T *q, const T *k, const T *v,
               const T *dy, const float *sums, const float *delta, T *dq)
{
    extern __shared__ float room[];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float *mine = room + warp * (a.d + a.dv), *grad = mine + a.d;
    int64_t all = a.n * a.heads * a.t;

    for (int64_t i = blockIdx.x * 4 + warp; i < all; i += gridDim.x * 4) {
        int64_t t = i % a.t, h = i / a.t % a.heads, n = i / (a.t * a.heads);
        int64_t g = h / (a.heads / a.kv), lo, hi;
        int64_t row = (n * a.t + t) * a.heads + h;
        float acc[PARTS] = {};

        __syncwarp();
        for (int64_t e = lane; e < a.d; e += 32)
            mine[e] = get(q, row * a.d + e) * a.scale;
        for (int64_t e = lane; e < a.dv; e += 32)
            grad[e] = get(dy, row * a.dv + e);
        __syncwarp();
        keys_of(a, t, &lo, &hi);
        for (int64_t j = lo; j < hi; j += 32) {
            int64_t key = j + lane;
            float ds = 0;

            if (key < hi) {
                int64_t at = (n * a.s + key) * a.kv + g;
                float p = expf(dot(mine, k + at * a.d, a.d) - sums[i]);

                ds = p * (dot(grad, v + at * a.dv, a.dv) - delta[i]) * a.scale;
            }
            for (int w = 0; w < 32 && j + w < hi; w++) {
                float d = __shfl_sync(~0u, ds, w);
                const T *kr = k + ((n * a.s + j + w) * a.kv + g) * a.d;

                for (int c = 0; c < PARTS; c++)
                    if (c * 32 + lane < a.d)
                        acc[c] += d * get(kr, c * 32 + lane);
            }
        }
        for (int c = 0; c < PARTS; c++)
            if (c * 32 + lane < a.d)
                put(dq, row * a.d + c * 32 + lane, acc[c]);
    }
}

/* Queries [*lo, *hi) that see the key. */
static __device__ __forceinline__ void queries_of(const cuda_attention &a,
                                                  int64_t key, int64_t *lo,
                                                  int64_t *hi)
{
    int64_t at = key + a.first_k - a.first_q;

    *lo = a.causal ? at : a.window ? at - a.window + 1 : 0;
    *hi = a.window ? at + a.window : a.t;
    *lo = *lo < 0 ? 0 : *lo;
    *hi = *hi > a.t ? a.t : *hi;
}

template <class T>
__global__ void __launch_bounds__(128)
    back_key(cuda_attention a, const T *q, const T *k, const T *v, const T *dy,
             const float *sums, const float *delta, T *dk, T *dv)
{
    extern __shared__ float room[];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float *mine = room + warp * (a.d + a.dv), *value = mine + a.d;
    int64_t all = a.n * a.kv * a.s, group = a.heads / a.kv;

    for (int64_t i = blockIdx.x * 4 + warp; i < all; i += gridDim.x * 4) {
        int64_t key = i % a.s, g = i / a.s % a.kv, n = i / (a.s * a.kv);
        int64_t row = (n * a.s + key) * a.kv + g, lo, hi;
        float ak[PARTS] = {}, av[PARTS] = {};

        __syncwarp();
        for (int64_t e = lane; e < a.d; e += 32)
            mine[e] = get(k, row * a.d + e) * a.scale;
        for (int64_t e = lane; e < a.dv; e += 32)
            value[e] = get(v, row * a.dv + e);
        __syncwarp();
        queries_of(a, key, &lo, &hi);
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t j = lo; j < hi; j += 32) {
                int64_t t = j + lane;
                float p = 0, ds = 0;

                if (t < hi) {
                    int64_t at = (n * a.t + t) * a.heads + h;
                    int64_t stat = (n * a.heads + h) * a.t + t;

                    p = expf(dot(mine, q + at * a.d, a.d) - sums[stat]);
                    ds = p *
                         (dot(value, dy + at * a.dv, a.dv) - delta[stat]) *
                         a.scale;
                }
                for (int w = 0; w < 32 && j + w < hi; w++) {
                    int64_t at = (n * a.t + j + w) * a.heads + h;
                    float pw = __shfl_sync(~0u, p, w);
                    float dw = __shfl_sync(~0u, ds, w);

                    for (int c = 0; c < PARTS; c++) {
                        if (c * 32 + lane < a.d)
                            ak[c] += dw * get(q, at * a.d + c * 32 + lane);
                        if (c * 32 + lane < a.dv)
                            av[c] += pw * get(dy, at * a.dv + c * 32 + lane);
                    }
                }
            }
        for (int c = 0; c < PARTS; c++) {
            if (dk && c * 32 + lane < a.d)
                put(dk, row * a.d + c * 32 + lane, ak[c]);
            if (dv && c * 32 + lane < a.dv)
                put(dv, row * a.dv + c * 32 + lane, av[c]);
        }
    }
}

cudaError_t train_cuda_attention_back(cudaStream_t st, enum cuda_type t,
                                      const struct cuda_attention *a,
                                      const void *const *qkvy, const void *dy,
                                      const float *sums, float *delta, void *dq,
                                      void *dk, void *dv)
{
    size_t room = 4 * (size_t)(a->d + a->dv) * sizeof(float);
    int64_t rows = a->n * a->heads * a->t;

    BY_TYPE(t, {
        const T *q = (const T *)qkvy[0], *k = (const T *)qkvy[1];
        const T *v = (const T *)qkvy[2], *y = (const T *)qkvy[3];

        deltas<T><<<blocks_for(rows), THREADS, 0, st>>>(*a, y, (const T *)dy,
                                                        delta);
        if (dq)
            back_query<T><<<attention_blocks(rows), 128, room, st>>>(
                *a, q, k, v, (const T *)dy, sums, delta, (T *)dq);
        if (dk || dv)
            back_key<T>
                <<<attention_blocks(a->n * a->kv * a->s), 128, room, st>>>(
                    *a, q, k, v, (const T *)dy, sums, delta, (T *)dk, (T *)dv);
    });
    return cudaGetLastError();
}
