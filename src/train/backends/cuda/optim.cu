/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of weights, all in one launch: most weights of most networks are
 * small. In float32, unlike those of the host: divisions and roots in float64
 * would take longer than the memory does. */
#include "device.cuh"

enum { SUM_BLOCKS = 528 };

static __device__ __forceinline__ void tune(const cuda_update &u, bool decays,
                                            float g, float *w, float *m,
                                            float *v)
{
    float d = g * u.scale;

    if (u.adam) {
        d += decays ? u.coupled * *w : 0;
        *m = u.beta1 * *m + (1 - u.beta1) * d;
        *v = u.beta2 * *v + (1 - u.beta2) * d * d;
        *w -= decays ? u.shrink * *w : 0;
        *w -= u.lr * *m / (sqrtf(*v) / u.root + u.eps);
        return;
    }
    d += decays ? u.decay * *w : 0;
    *m = u.momentum * *m + u.fresh * d;
    *w -= u.lr * (u.nesterov ? d + u.momentum * *m : *m);
}

/* Four elements; what a weight does not have is 0. */
template <class G>
static __device__ __forceinline__ void tune_four(const cuda_update &u,
                                                 const cuda_weight &x,
                                                 int64_t i)
{
    four w = get4(x.w, i), g = get4((const G *)x.g, i), m = {}, v = {};

    if (x.m)
        m = get4(x.m, i);
    if (x.v)
        v = get4(x.v, i);
#pragma unroll
    for (int k = 0; k < 4; k++)
        tune(u, x.decays, g.v[k], &w.v[k], &m.v[k], &v.v[k]);
    put4(x.w, i, w);
    if (x.m)
        put4(x.m, i, m);
    if (x.v)
        put4(x.v, i, v);
    if (x.copy)
        put4((bf16 *)x.copy, i, w);
}

template <class G>
static __device__ __forceinline__ void tune_one(const cuda_update &u,
                                                const cuda_weight &x, int64_t i)
{
    float w = x.w[i], m = x.m ? x.m[i] : 0, v = x.v ? x.v[i] : 0;

    tune(u, x.decays, get((const G *)x.g, i), &w, &m, &v);
    x.w[i] = w;
    if (x.m)
        x.m[i] = m;
    if (x.v)
        x.v[i] = v;
    if (x.copy)
        put((bf16 *)x.copy, i, w);
}

template <class G>
static __device__ __forceinline__ void tune_piece(const cuda_update &u,
                                                  const cuda_weight &x,
                                                  int64_t from)
{
    int64_t to = from + CUDA_PIECE < x.n ? from + CUDA_PIECE : x.n;

    for (int64_t i = from / 4 + threadIdx.x; i < to / 4; i += THREADS)
        tune_four<G>(u, x, i);
    if (to / 4 * 4 + threadIdx.x < to) /* the end of a weight */
        tune_one<G>(u, x, to / 4 * 4 + threadIdx.x);
}

__global__ void __launch_bounds__(THREADS)
    update(cuda_update u, const cuda_weight *weights, const cuda_piece *pieces)
{
    cuda_piece p = pieces[blockIdx.x];
    cuda_weight x = weights[p.weight];
    int64_t from = (int64_t)p.part * CUDA_PIECE;

    if (x.wide)
        tune_piece<float>(u, x, from);
    else
        tune_piece<bf16>(u, x, from);
}

cudaError_t train_cuda_update(cudaStream_t s, const struct cuda_update *u,
                              const struct cuda_weight *w,
                              const struct cuda_piece *pieces, int64_t n)
{
    update<<<(unsigned)n, THREADS, 0, s>>>(*u, w, pieces);
    return cudaGetLastError();
}

/* ---- sums of squares ---------------------------------------------------------------- */

static __device__ double block_sum(double v)
{
    __shared__ double room[THREADS];

    room[threadIdx.x] = v;
    __syncthreads();
    for (int k = THREADS / 2; k; k /= 2) {
        if (threadIdx.x < k)
            room[threadIdx.x] += room[threadIdx.x + k];
        __syncthreads();
    }
    return room[0];
}

template <class T> __global__ void squares(int64_t n, const T *g, double *room)
{
    double sum = 0;

    EACH(i, n)
    {
        double v = get(g, i);

        sum += v * v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        room[blockIdx.x] = sum;
}

__global__ void add_up(const double *room, double *to)
{
    double sum = 0;

    for (int i = threadIdx.x; i < SUM_BLOCKS; i += THREADS)
        sum += room[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *to = sum;
}

int64_t train_cuda_squares_room(void)
{
    return SUM_BLOCKS;
}

cudaError_t train_cuda_squares(cudaStream_t s, enum cuda_type t, int64_t n,
                               const void *g, double *to, double *room)
{
    BY_TYPE(t, squares<T><<<SUM_BLOCKS, THREADS, 0, s>>>(n, (const T *)g, room));
    add_up<<<1, THREADS, 0, s>>>(room, to);
    return cudaGetLastError();
}
