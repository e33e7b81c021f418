/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of images [n,h,w,c], 16 bytes of channels a thread where they divide.
 * Backward asks, for each element of dx, which windows it was in: nothing is
 * added by two threads. Sizes of one image are 32 bits. */
#include "device.cuh"

static __device__ __forceinline__ void place(const cuda_pool &p,
                                             const int64_t *size, int64_t i,
                                             int64_t *at)
{
    at[3] = i % p.c;
    i /= p.c;
    at[2] = i % size[1];
    i /= size[1];
    at[1] = i % size[0];
    at[0] = i / size[0];
}

/* Pixel i of images of this size, and V of its channels. */
struct pixel {
    int64_t n;
    int y, x, c;
};

template <int V>
static __device__ __forceinline__ pixel pixel_of(const cuda_pool &p,
                                                 const int64_t *size, int64_t i)
{
    uint32_t groups = (uint32_t)(p.c / V), w = (uint32_t)size[1];
    uint32_t h = (uint32_t)size[0];

    if (i >> 32 == 0) { /* numbers of 32 bits divide faster */
        uint32_t row = (uint32_t)i / groups, image = row / w;

        return {image / h, (int)(image % h), (int)(row - image * w),
                (int)((uint32_t)i - row * groups) * V};
    }

    int64_t row = i / groups;

    return {row / w / h, (int)(row / w % h), (int)(row % w),
            (int)(i % groups) * V};
}

/* V positions of maxima at once. */
template <int V> struct bytes {
    uint8_t v[V];
};
template <> struct bytes<4> {
    uint32_t v;
};
template <> struct bytes<8> {
    uint2 v;
};

template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    max_pool(cuda_pool p, const T *x, T *y, uint8_t *where)
{
    EACH(i, p.n * p.y[0] * p.y[1] * (p.c / V))
    {
        pixel at = pixel_of<V>(p, p.y, i);
        int top = (int)((at.y + p.y_lo[0]) * p.stride[0] - p.pad[0]);
        int left = (int)((at.x + p.y_lo[1]) * p.stride[1] - p.pad[1]);
        float best[V];
        __align__(8) uint8_t which[V];

        for (int k = 0; k < V; k++) {
            best[k] = -INFINITY;
            which[k] = 0;
        }
        for (int a = 0; a < (int)p.k[0]; a++)
            for (int b = 0; b < (int)p.k[1]; b++) {
                int h = top + a * (int)p.dilation[0];
                int w = left + b * (int)p.dilation[1];
                int64_t row = (at.n * p.x[0] + h - p.x_lo[0]) * p.x[1] + w -
                              p.x_lo[1];
                float v[V];

                if (h < 0 || w < 0 || h >= p.whole[0] || w >= p.whole[1])
                    continue;
                load<V>(x, row * p.c + at.c, v);
                for (int k = 0; k < V; k++)
                    if (v[k] > best[k] || v[k] != v[k]) {
                        best[k] = v[k];
                        which[k] = (uint8_t)(a * (int)p.k[1] + b);
                    }
            }
        store<V>(y, i * V, best);
        if (where)
            *(bytes<V> *)(where + i * V) = *(bytes<V> *)which;
    }
}

cudaError_t train_cuda_max_pool(cudaStream_t s, enum cuda_type t,
                                const struct cuda_pool *p, const void *x,
                                void *y, uint8_t *where)
{
    int64_t n = p->n * p->y[0] * p->y[1] * p->c;

    BY_TYPE(t, BY_WIDTH(T, p->c,
                        max_pool<V><<<blocks_for(n / V), THREADS, 0, s>>>(
                            *p, (const T *)x, (T *)y, where)));
    return cudaGetLastError();
}

/* Windows [*lo, *hi] of the part at hand that x may be in. */
static __device__ __forceinline__ void windows(const cuda_pool &p, int d,
                                               int x, int *lo, int *hi)
{
    int at = x + (int)(p.x_lo[d] + p.pad[d]), q = (int)p.stride[d];
    int first = at - (int)((p.k[d] - 1) * p.dilation[d]);

    *lo = (first > 0 ? (int)((uint32_t)(first + q - 1) / (uint32_t)q) : 0) -
          (int)p.y_lo[d];
    *hi = (int)((uint32_t)at / (uint32_t)q) - (int)p.y_lo[d];
    *lo = *lo < 0 ? 0 : *lo;
    *hi = *hi >= p.y[d] ? (int)p.y[d] - 1 : *hi;
}

/* Where x stands in window y; < 0: between its elements. */
static __device__ __forceinline__ int position(const cuda_pool &p, int d, int x,
                                               int y)
{
    int off = x + (int)(p.x_lo[d] + p.pad[d]) -
              (y + (int)p.y_lo[d]) * (int)p.stride[d];

    if (p.dilation[d] == 1)
        return off;
    return off % (int)p.dilation[d] ? -1 : off / (int)p.dilation[d];
}

/* Elements of window y of dimension d that a mean is over. */
static __device__ __forceinline__ float span_of(const cuda_pool &p, int d,
                                                int y)
{
    int from = (int)((y + p.y_lo[d]) * p.stride[d] - p.pad[d]);
    int to = from + (int)p.k[d];
    int end = (int)(p.whole[d] + (p.count_pad ? p.pad_end[d] : 0));

    return (float)(min(to, end) - (!p.count_pad && from < 0 ? 0 : from));
}

/* MAX: where it was the largest; else its share of the mean. */
template <bool MAX, int V, class T>
__global__ void __launch_bounds__(THREADS)
    pool_back(cuda_pool p, const T *dy, const uint8_t *where, T *dx)
{
    EACH(i, p.n * p.x[0] * p.x[1] * (p.c / V))
    {
        pixel at = pixel_of<V>(p, p.x, i);
        float sum[V] = {};
        __align__(8) uint8_t at_max[V];
        int lo[2], hi[2];

        windows(p, 0, at.y, &lo[0], &hi[0]);
        windows(p, 1, at.x, &lo[1], &hi[1]);
        for (int h = lo[0]; h <= hi[0]; h++)
            for (int w = lo[1]; w <= hi[1]; w++) {
                int64_t o =
                    ((at.n * p.y[0] + h) * p.y[1] + w) * p.c + at.c;
                int a = position(p, 0, at.y, h), b = position(p, 1, at.x, w);
                float d[V], size = MAX ? 1 : span_of(p, 0, h) * span_of(p, 1, w);

                if (a < 0 || b < 0)
                    continue;
                load<V>(dy, o, d);
                if (MAX)
                    *(bytes<V> *)at_max = *(const bytes<V> *)(where + o);
                for (int k = 0; k < V; k++) {
                    if (!MAX)
                        sum[k] += d[k] / size;
                    else if (at_max[k] == a * (int)p.k[1] + b)
                        sum[k] += d[k];
                }
            }
        store<V>(dx, i * V, sum);
    }
}

cudaError_t train_cuda_max_pool_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_pool *p, const void *dy,
                                     const uint8_t *where, void *dx)
{
    int64_t n = p->n * p->x[0] * p->x[1] * p->c;

    BY_TYPE(t, BY_WIDTH(T, p->c,
                        (pool_back<true, V>
                         <<<blocks_for(n / V), THREADS, 0, s>>>(
                             *p, (const T *)dy, where, (T *)dx))));
    return cudaGetLastError();
}

cudaError_t train_cuda_avg_pool_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_pool *p, const void *dy,
                                     void *dx)
{
    int64_t n = p->n * p->x[0] * p->x[1] * p->c;

    BY_TYPE(t, BY_WIDTH(T, p->c,
                        (pool_back<false, V>
                         <<<blocks_for(n / V), THREADS, 0, s>>>(
                             *p, (const T *)dy, NULL, (T *)dx))));
    return cudaGetLastError();
}

template <class T> __global__ void avg_pool(cuda_pool p, const T *x, T *y)
{
    EACH(i, p.n * p.y[0] * p.y[1] * p.c)
    {
        int64_t at[4], lo[2], hi[2];
        float sum = 0, n = 1;

        place(p, p.y, i, at);
        for (int d = 0; d < 2; d++) {
            int64_t end = p.whole[d] + (p.count_pad ? p.pad_end[d] : 0), e;

            lo[d] = (at[1 + d] + p.y_lo[d]) * p.stride[d] - p.pad[d];
            hi[d] = lo[d] + p.k[d];
            e = hi[d] < end ? hi[d] : end;
            n *= (float)(e - (!p.count_pad && lo[d] < 0 ? 0 : lo[d]));
            lo[d] = lo[d] < 0 ? 0 : lo[d];
            hi[d] = hi[d] < p.whole[d] ? hi[d] : p.whole[d];
        }
        for (int64_t h = lo[0]; h < hi[0]; h++)
            for (int64_t w = lo[1]; w < hi[1]; w++)
                sum += get(x, ((at[0] * p.x[0] + h - p.x_lo[0]) * p.x[1] + w -
                               p.x_lo[1]) *
                                      p.c +
                                  at[3]);
        put(y, i, sum / n);
    }
}

cudaError_t train_cuda_avg_pool(cudaStream_t s, enum cuda_type t,
                                const struct cuda_pool *p, const void *x,
                                void *y)
{
    BY_TYPE(t, avg_pool<T>
            <<<blocks_for(p->n * p->y[0] * p->y[1] * p->c), THREADS, 0, s>>>(
                *p, (const T *)x, (T *)y));
    return cudaGetLastError();
}

/* A block has an image and some neighbouring channels: a row of threads for
 * each stripe of pixels. */
template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    image_sums(int64_t pixels, int64_t c, float of, const T *a, const T *b,
               T *y)
{
    __shared__ float part[THREADS][V];
    int64_t group = blockIdx.y * (int64_t)blockDim.x + threadIdx.x;
    int me = threadIdx.y * blockDim.x + threadIdx.x;
    float sum[V] = {0}, u[V], v[V];

    for (int64_t p = threadIdx.y; p < pixels && group * V < c;
         p += blockDim.y) {
        int64_t at = (blockIdx.x * pixels + p) * c + group * V;

        load<V>(a, at, u);
        if (b)
            load<V>(b, at, v);
        for (int k = 0; k < V; k++)
            sum[k] += b ? u[k] * v[k] : u[k];
    }
    for (int k = 0; k < V; k++)
        part[me][k] = sum[k];
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int k = 0; k < V && threadIdx.y < half; k++)
            part[me][k] += part[me + half * blockDim.x][k];
    }
    if (threadIdx.y == 0 && group * V < c) {
        for (int k = 0; k < V; k++)
            sum[k] = part[me][k] / of;
        store<V>(y, blockIdx.x * c + group * V, sum);
    }
}

cudaError_t train_cuda_image_sums(cudaStream_t s, enum cuda_type t, int64_t n,
                                  int64_t pixels, int64_t c, float of,
                                  const void *a, const void *b, void *y)
{
    BY_TYPE(t, BY_WIDTH(T, c, {
                unsigned groups = (unsigned)(c / V), lanes = 1;

                while (lanes < 32 && lanes < groups)
                    lanes *= 2;
                image_sums<V>
                    <<<dim3((unsigned)n, (groups + lanes - 1) / lanes),
                       dim3(lanes, THREADS / lanes), 0, s>>>(
                        pixels, c, of, (const T *)a, (const T *)b, (T *)y);
            }));
    return cudaGetLastError();
}

template <int V, class T>
__global__ void __launch_bounds__(THREADS)
    image_spread(int64_t n, int64_t pixels, int64_t c, float of, const T *x,
                 const T *g, T *y)
{
    uint32_t groups = (uint32_t)(c / V), area = (uint32_t)pixels;

    EACH(i, n * pixels * groups)
    {
        int64_t row = i >> 32 ? i / groups : (uint32_t)i / groups;
        int64_t image = row >> 32 ? row / area : (uint32_t)row / area;
        float d[V], u[V];

        load<V>(g, image * c + (i - row * groups) * V, d);
        if (x)
            load<V>(x, i * V, u);
        for (int k = 0; k < V; k++)
            d[k] = x ? d[k] * u[k] : d[k] / of;
        store<V>(y, i * V, d);
    }
}

cudaError_t train_cuda_image_spread(cudaStream_t s, enum cuda_type t, int64_t n,
                                    int64_t pixels, int64_t c, float of,
                                    const void *x, const void *g, void *y)
{
    BY_TYPE(t, BY_WIDTH(T, c,
                        image_spread<V>
                        <<<blocks_for(n * pixels * c / V), THREADS, 0, s>>>(
                            n, pixels, c, of, (const T *)x, (const T *)g,
                            (T *)y)));
    return cudaGetLastError();
}
