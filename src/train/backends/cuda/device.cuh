/* Inside the cuda backend's kernels: numbers of several types as floats. */
#ifndef TRAIN_CUDA_DEVICE_CUH
#define TRAIN_CUDA_DEVICE_CUH

#include "launch.h"

#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

enum { THREADS = 256 };

static __device__ __forceinline__ float get(const float *p, int64_t i)
{
    return p[i];
}
static __device__ __forceinline__ float get(const bf16 *p, int64_t i)
{
    return __bfloat162float(p[i]);
}
static __device__ __forceinline__ void put(float *p, int64_t i, float v)
{
    p[i] = v;
}
static __device__ __forceinline__ void put(bf16 *p, int64_t i, float v)
{
    p[i] = __float2bfloat16(v);
}

/* Four neighbours at once; arrays begin at multiples of 64 bytes. */
struct four {
    float v[4];
};
static __device__ __forceinline__ four get4(const float *p, int64_t i)
{
    float4 f = ((const float4 *)p)[i];

    return {{f.x, f.y, f.z, f.w}};
}
static __device__ __forceinline__ four get4(const bf16 *p, int64_t i)
{
    uint2 u = ((const uint2 *)p)[i];
    float2 a = __bfloat1622float2(*(__nv_bfloat162 *)&u.x);
    float2 b = __bfloat1622float2(*(__nv_bfloat162 *)&u.y);

    return {{a.x, a.y, b.x, b.y}};
}
static __device__ __forceinline__ void put4(float *p, int64_t i, four f)
{
    ((float4 *)p)[i] = make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
}
static __device__ __forceinline__ void put4(bf16 *p, int64_t i, four f)
{
    __nv_bfloat162 a = __floats2bfloat162_rn(f.v[0], f.v[1]);
    __nv_bfloat162 b = __floats2bfloat162_rn(f.v[2], f.v[3]);
    uint2 u = make_uint2(*(unsigned *)&a, *(unsigned *)&b);

    ((uint2 *)p)[i] = u;
}

/* As many neighbours as 16 bytes hold, or one: as they lie in memory, so that
 * many can be under way, and as floats. */
template <class T> struct wide {
    enum { V = 16 / sizeof(T) };
};
template <int V, class T> struct chunk {
    uint4 u;
};
template <class T> struct chunk<1, T> {
    T u;
};
template <int V, class T>
static __device__ __forceinline__ chunk<V, T> fetch(const T *p, int64_t at)
{
    return *(const chunk<V, T> *)(p + at);
}
template <int V, class T>
static __device__ __forceinline__ void open(const chunk<V, T> &c, float *f)
{
    if (V == 1) {
        f[0] = get((const T *)&c.u, 0);
    } else if (sizeof(T) == 4) {
        const float *v = (const float *)&c.u;

        for (int k = 0; k < V; k++)
            f[k] = v[k];
    } else {
        const __nv_bfloat162 *h = (const __nv_bfloat162 *)&c.u;

        for (int k = 0; k < V / 2; k++) {
            float2 v = __bfloat1622float2(h[k]);

            f[2 * k] = v.x;
            f[2 * k + 1] = v.y;
        }
    }
}
template <int V, class T>
static __device__ __forceinline__ void load(const T *p, int64_t at, float *f)
{
    open(fetch<V>(p, at), f);
}
template <int V, class T>
static __device__ __forceinline__ void store(T *p, int64_t at, const float *f)
{
    chunk<V, T> c;

    if (V == 1) {
        put((T *)&c.u, 0, f[0]);
    } else if (sizeof(T) == 4) {
        float *v = (float *)&c.u;

        for (int k = 0; k < V; k++)
            v[k] = f[k];
    } else {
        __nv_bfloat162 *h = (__nv_bfloat162 *)&c.u;

        for (int k = 0; k < V / 2; k++)
            h[k] = __floats2bfloat162_rn(f[2 * k], f[2 * k + 1]);
    }
    *(chunk<V, T> *)(p + at) = c;
}
static __device__ __forceinline__ float rounded(const float *, float v)
{
    return v;
}
static __device__ __forceinline__ float rounded(const bf16 *, float v)
{
    return __bfloat162float(__float2bfloat16(v));
}

/* e to the x, and a quotient: of bfloat16 as exact as they are. */
static __device__ __forceinline__ float power(const float *, float x)
{
    return expf(x);
}
static __device__ __forceinline__ float power(const bf16 *, float x)
{
    return __expf(x);
}
/* e to the x + y, where y is the same for many. */
static __device__ __forceinline__ float power_of_sum(const float *, float x,
                                                     float y)
{
    return expf(x + y);
}
static __device__ __forceinline__ float power_of_sum(const bf16 *, float x,
                                                     float y)
{
    const float log2_e = 1.44269504088896341f;
    float two_to;

    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(two_to)
        : "f"(fmaf(x, log2_e, y * log2_e)));
    return two_to;
}
static __device__ __forceinline__ float quotient(const float *, float a,
                                                 float b)
{
    return a / b;
}
static __device__ __forceinline__ float quotient(const bf16 *, float a, float b)
{
    return __fdividef(a, b);
}

static __device__ __forceinline__ float warp_sum(float v)
{
    for (int k = 16; k; k >>= 1)
        v += __shfl_xor_sync(~0u, v, k);
    return v;
}
static __device__ __forceinline__ float warp_max(float v)
{
    for (int k = 16; k; k >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, k));
    return v;
}

/* As many blocks as the work wants, few enough to stay on the chip. */
static inline int blocks_for(int64_t work)
{
    int64_t b = (work + THREADS - 1) / THREADS;

    return (int)(b < 1 ? 1 : b > 132 * 16 ? 132 * 16 : b);
}

/* One access a thread, where little else is done: 3 to 6 % faster. */
static inline int blocks_of(int64_t accesses)
{
    int64_t b = (accesses + THREADS - 1) / THREADS;

    return (int)(b < 1 ? 1 : b > 1 << 30 ? 1 << 30 : b);
}

#define EACH(i, n)                                                      \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n); \
         i += (int64_t)gridDim.x * blockDim.x)

/* From the end: what was just written is read while the cache has it, and what
 * is written begins where the next reader does. */
#define EACH_DOWN(i, n)                                                  \
    for (int64_t i = (n) - 1 -                                           \
                     (blockIdx.x * (int64_t)blockDim.x + threadIdx.x);   \
         i >= 0; i -= (int64_t)gridDim.x * blockDim.x)

/* Runs a statement with V the neighbours that go at once, where n divides. */
#define BY_WIDTH(T, n, ...)                \
    do {                                   \
        if ((n) % wide<T>::V == 0) {       \
            enum { V = wide<T>::V };       \
            __VA_ARGS__;                   \
        } else {                           \
            enum { V = 1 };                \
            __VA_ARGS__;                   \
        }                                  \
    } while (0)

/* Runs a statement with T the type that t names. */
#define BY_TYPE(t, ...)                  \
    do {                                 \
        if ((t) == CUDA_BF16) {          \
            typedef bf16 T;              \
            __VA_ARGS__;                 \
        } else {                         \
            typedef float T;             \
            __VA_ARGS__;                 \
        }                                \
    } while (0)

#endif
