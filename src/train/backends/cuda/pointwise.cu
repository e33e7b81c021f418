/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: functions and their slopes, sums and products of two,
 * biases, conversions, copies of boxes, dropout. Bound by memory: four elements
 * a thread and access. */
#include "device.cuh"

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __device__ __forceinline__ float value(enum cuda_function f, float x)
{
    switch (f) {
    case CUDA_RELU:
        return x > 0 ? x : (x != x ? x : 0);
    case CUDA_RELU6:
        return fminf(fmaxf(x, 0), 6);
    case CUDA_GELU:
        return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
    case CUDA_SILU:
        return x * sigmoid(x);
    case CUDA_SIGMOID:
        return sigmoid(x);
    case CUDA_TANH:
        return tanhf(x);
    case CUDA_HARD_SIGMOID:
        return fmaxf(0, fminf(1, x / 6 + 0.5f));
    case CUDA_HARD_SWISH:
        return x * fmaxf(0, fminf(1, x / 6 + 0.5f));
    default:
        return x;
    }
}

/* Of x or of y, as the operators save them. */
static __device__ __forceinline__ float slope(enum cuda_function f, float v)
{
    float s;

    switch (f) {
    case CUDA_RELU:
        return v > 0;
    case CUDA_RELU6:
        return v > 0 && v < 6;
    case CUDA_GELU:
        return 0.5f * (1 + erff(v * 0.70710678118654752f)) +
               v * 0.39894228040143268f * expf(-0.5f * v * v);
    case CUDA_SILU:
        s = sigmoid(v);
        return s * (1 + v * (1 - s));
    case CUDA_SIGMOID:
        return v * (1 - v);
    case CUDA_TANH:
        return 1 - v * v;
    case CUDA_HARD_SIGMOID:
        return v > 0 && v < 1 ? 1.0f / 6 : 0;
    case CUDA_HARD_SWISH:
        return v <= -3 ? 0 : v >= 3 ? 1 : v / 3 + 0.5f;
    default:
        return 1;
    }
}

template <class T>
__global__ void unary(enum cuda_function f, int64_t n, const T *x, T *y)
{
    EACH(i, n / 4)
    {
        four a = get4(x, i);

        for (int k = 0; k < 4; k++)
            a.v[k] = value(f, a.v[k]);
        put4(y, i, a);
    }
    EACH(i, n % 4)
    put(y, n / 4 * 4 + i, value(f, get(x, n / 4 * 4 + i)));
}

cudaError_t train_cuda_unary(cudaStream_t s, enum cuda_type t,
                             enum cuda_function f, int64_t n, const void *x,
                             void *y)
{
    BY_TYPE(t, unary<T><<<blocks_for(n / 4 + 1), THREADS, 0, s>>>(
                   f, n, (const T *)x, (T *)y));
    return cudaGetLastError();
}

template <class T>
__global__ void slopes(enum cuda_function f, int64_t n, const T *dy,
                       const T *saved, T *dx)
{
    EACH(i, n / 4)
    {
        four d = get4(dy, i), a = get4(saved, i);

        for (int k = 0; k < 4; k++)
            d.v[k] *= slope(f, a.v[k]);
        put4(dx, i, d);
    }
    EACH(i, n % 4)
    {
        int64_t j = n / 4 * 4 + i;

        put(dx, j, get(dy, j) * slope(f, get(saved, j)));
    }
}

cudaError_t train_cuda_slope(cudaStream_t s, enum cuda_type t,
                             enum cuda_function f, int64_t n, const void *dy,
                             const void *saved, void *dx)
{
    BY_TYPE(t, slopes<T><<<blocks_for(n / 4 + 1), THREADS, 0, s>>>(
                   f, n, (const T *)dy, (const T *)saved, (T *)dx));
    return cudaGetLastError();
}

template <class T>
__global__ void joined(int product, int64_t n, const T *a, const T *b, T *y)
{
    EACH(i, n / 4)
    {
        four p = get4(a, i), q = get4(b, i);

        for (int k = 0; k < 4; k++)
            p.v[k] = product ? p.v[k] * q.v[k] : p.v[k] + q.v[k];
        put4(y, i, p);
    }
    EACH(i, n % 4)
    {
        int64_t j = n / 4 * 4 + i;
        float p = get(a, j), q = get(b, j);

        put(y, j, product ? p * q : p + q);
    }
}

cudaError_t train_cuda_join(cudaStream_t s, enum cuda_type t, int product,
                            int64_t n, const void *a, const void *b, void *y)
{
    BY_TYPE(t, joined<T><<<blocks_for(n / 4 + 1), THREADS, 0, s>>>(
                   product, n, (const T *)a, (const T *)b, (T *)y));
    return cudaGetLastError();
}

__global__ void add_f64(int64_t n, const double *b, double *y)
{
    EACH(i, n)
    y[i] += b[i];
}

cudaError_t train_cuda_add(cudaStream_t s, enum cuda_type t, int64_t n,
                           void *to, const void *from)
{
    if (t != CUDA_F64)
        return train_cuda_join(s, t, 0, n, to, from, to);
    add_f64<<<blocks_for(n), THREADS, 0, s>>>(n, (const double *)from,
                                              (double *)to);
    return cudaGetLastError();
}

template <class T, class B>
__global__ void biased(int64_t m, int64_t c, const T *x, const B *bias, T *y)
{
    EACH(i, m * c)
    put(y, i, get(x, i) + get(bias, i % c));
}

cudaError_t train_cuda_bias(cudaStream_t s, enum cuda_type t,
                            enum cuda_type bias_t, int64_t m, int64_t c,
                            const void *x, const void *bias, void *y)
{
    int b = blocks_for(m * c);

    if (bias_t == CUDA_BF16)
        BY_TYPE(t, biased<T, bf16><<<b, THREADS, 0, s>>>(
                       m, c, (const T *)x, (const bf16 *)bias, (T *)y));
    else
        BY_TYPE(t, biased<T, float><<<b, THREADS, 0, s>>>(
                       m, c, (const T *)x, (const float *)bias, (T *)y));
    return cudaGetLastError();
}

__global__ void widen(int64_t n, const bf16 *from, float *to)
{
    EACH(i, n)
    to[i] = __bfloat162float(from[i]);
}

__global__ void narrow(int64_t n, const float *from, bf16 *to)
{
    EACH(i, n)
    to[i] = __float2bfloat16(from[i]);
}

cudaError_t train_cuda_widen(cudaStream_t s, int64_t n, const void *from,
                             void *to)
{
    widen<<<blocks_for(n), THREADS, 0, s>>>(n, (const bf16 *)from, (float *)to);
    return cudaGetLastError();
}

cudaError_t train_cuda_narrow(cudaStream_t s, int64_t n, const void *from,
                              void *to)
{
    narrow<<<blocks_for(n), THREADS, 0, s>>>(n, (const float *)from, (bf16 *)to);
    return cudaGetLastError();
}

/* ---- boxes ------------------------------------------------------------------ */

static __host__ __device__ int64_t volume(const cuda_walk &w)
{
    int64_t n = 1;

    for (int d = 0; d < w.n; d++)
        n *= w.extent[d];
    return n;
}

static __device__ __forceinline__ void places(const cuda_walk &w, int64_t i,
                                              int64_t *to, int64_t *from)
{
    *to = w.to_first;
    *from = w.from_first;
    for (int d = w.n - 1; d >= 0; d--) {
        int64_t k = i % w.extent[d];

        i /= w.extent[d];
        *to += k * w.to[d];
        *from += k * w.from[d];
    }
}

template <class T>
__global__ void copied(cuda_walk w, int64_t n, const T *from, T *to)
{
    EACH(i, n)
    {
        int64_t a, b;

        places(w, i, &a, &b);
        to[a] = from[b];
    }
}

cudaError_t train_cuda_copy(cudaStream_t s, const struct cuda_walk *w, int size,
                            const void *from, void *to)
{
    int64_t n = volume(*w);
    int b = blocks_for(n);

    if (size == 2)
        copied<<<b, THREADS, 0, s>>>(*w, n, (const uint16_t *)from,
                                     (uint16_t *)to);
    else if (size == 4)
        copied<<<b, THREADS, 0, s>>>(*w, n, (const uint32_t *)from,
                                     (uint32_t *)to);
    else if (size == 8)
        copied<<<b, THREADS, 0, s>>>(*w, n, (const uint64_t *)from,
                                     (uint64_t *)to);
    else
        copied<<<b, THREADS, 0, s>>>(*w, n, (const uint8_t *)from,
                                     (uint8_t *)to);
    return cudaGetLastError();
}

/* ---- dropout ------------------------------------------------------------------- */

/* Philox 4x32-10 (Salmon et al., SC 2011), as base has it. */
static __device__ uint32_t philox(uint64_t key, uint64_t lane, uint64_t counter,
                                  int which)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t v[4] = {(uint32_t)counter, (uint32_t)(counter >> 32),
                     (uint32_t)lane, (uint32_t)(lane >> 32)};

    for (int r = 0; r < 10; r++) {
        uint64_t p = (uint64_t)0xD2511F53u * v[0];
        uint64_t q = (uint64_t)0xCD9E8D57u * v[2];
        uint32_t a = (uint32_t)(q >> 32) ^ v[1] ^ k0;
        uint32_t c = (uint32_t)(p >> 32) ^ v[3] ^ k1;

        v[1] = (uint32_t)q;
        v[3] = (uint32_t)p;
        v[0] = a;
        v[2] = c;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return v[which];
}

template <class T>
__global__ void dropped(cuda_walk w, int64_t n, double p, uint64_t key,
                        uint64_t lane, const T *x, T *y)
{
    float keep = (float)(1 / (1 - p));

    EACH(i, n)
    {
        int64_t at, e;

        places(w, i, &at, &e);
        uint32_t u = philox(key, lane, (uint64_t)e / 4, (int)((uint64_t)e % 4));
        put(y, at, u * 0x1p-32 < p ? 0.0f : get(x, at) * keep);
    }
}

cudaError_t train_cuda_dropout(cudaStream_t s, enum cuda_type t,
                               const struct cuda_walk *w, double p,
                               uint64_t key, uint64_t lane, const void *x,
                               void *y)
{
    int64_t n = volume(*w);

    BY_TYPE(t, dropped<T><<<blocks_for(n), THREADS, 0, s>>>(
                   *w, n, p, key, lane, (const T *)x, (T *)y));
    return cudaGetLastError();
}
