/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of weights, with the arithmetic of src/train/optim: float64 inside,
 * which costs nothing where memory is the limit. */
#include "device.cuh"

enum { SUM_BLOCKS = 528 };

template <class G>
__global__ void sgd(cuda_update u, float *w, const G *g, float *m, bf16 *copy)
{
    EACH(i, u.n)
    {
        double x = w[i], d = (double)get(g, i) * u.scale + u.decay * x;

        if (m) {
            double v = u.momentum * (double)m[i] + u.fresh * d;

            m[i] = (float)v;
            d = u.nesterov ? d + u.momentum * v : v;
        }
        x -= u.lr * d;
        w[i] = (float)x;
        if (copy)
            copy[i] = __float2bfloat16((float)x);
    }
}

cudaError_t train_cuda_sgd(cudaStream_t s, const struct cuda_update *u,
                           float *w, const void *g, float *m, void *copy)
{
    BY_TYPE(u->grad, sgd<T><<<blocks_for(u->n), THREADS, 0, s>>>(
                         *u, w, (const T *)g, m, (bf16 *)copy));
    return cudaGetLastError();
}

template <class G>
__global__ void adam(cuda_update u, float *w, const G *g, float *m, float *v,
                     bf16 *copy)
{
    EACH(i, u.n)
    {
        double x = w[i], d = (double)get(g, i) * u.scale + u.coupled * x;
        double a = u.beta1 * (double)m[i] + (1 - u.beta1) * d;
        double b = u.beta2 * (double)v[i] + (1 - u.beta2) * d * d;

        x -= u.shrink * x;
        m[i] = (float)a;
        v[i] = (float)b;
        x -= u.lr * a / (sqrt(b) / u.root + u.eps);
        w[i] = (float)x;
        if (copy)
            copy[i] = __float2bfloat16((float)x);
    }
}

cudaError_t train_cuda_adam(cudaStream_t s, const struct cuda_update *u,
                            float *w, const void *g, float *m, float *v,
                            void *copy)
{
    BY_TYPE(u->grad, adam<T><<<blocks_for(u->n), THREADS, 0, s>>>(
                         *u, w, (const T *)g, m, v, (bf16 *)copy));
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
