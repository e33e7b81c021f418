/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of few channels, as a convolution of stride two reads them: each two by
 * two pixels become one of four times the channels (and zeros up to a number
 * that fast engines take), the window half as large, the stride one. */
#include "device.cuh"

template <int C, class T>
__global__ void __launch_bounds__(THREADS)
    fold_images(cuda_fold f, const T *x, T *to)
{
    enum { WORDS = CUDA_FOLDED * sizeof(T) / 16 };
    union room {
        uint4 u[WORDS];
        T v[CUDA_FOLDED];
        __device__ room()
        {
        }
    };

    EACH(i, f.n * f.to[0] * f.to[1])
    {
        int64_t n = i / (f.to[0] * f.to[1]);
        int at = (int)(i - n * f.to[0] * f.to[1]), width = (int)f.to[1];
        int row = at / width, col = at - row * width;
        room r;

#pragma unroll
        for (int k = 0; k < CUDA_FOLDED; k++) {
            int q = k / C, y = 2 * row + q / 2 - (int)f.pad[0];
            int z = 2 * col + q % 2 - (int)f.pad[1];
            bool in = q < 4 && y >= 0 && z >= 0 && y < f.from[0] &&
                      z < f.from[1];

            r.v[k] = in ? x[((n * f.from[0] + y) * f.from[1] + z) * C + k % C]
                        : T(0.0f);
        }
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            ((uint4 *)(to + i * CUDA_FOLDED))[k] = r.u[k];
    }
}

/* Weights as stored, [f][c][kernel], and folded, [f][half kernel][channels]. */
template <bool BACK, class T>
__global__ void fold_weights(cuda_fold f, const T *from, T *to)
{
    int half[2] = {(int)(f.kernel[0] + 1) / 2, (int)(f.kernel[1] + 1) / 2};

    EACH(i, f.f * half[0] * half[1] * CUDA_FOLDED)
    {
        int k = (int)(i % CUDA_FOLDED), q = k / (int)f.c;
        int64_t at = i / CUDA_FOLDED;
        int z = 2 * (int)(at % half[1]) + q % 2;
        int y = 2 * (int)(at / half[1] % half[0]) + q / 2;
        int64_t o = at / half[1] / half[0];
        bool in = q < 4 && y < f.kernel[0] && z < f.kernel[1];
        int64_t w = ((o * f.c + k % f.c) * f.kernel[0] + y) * f.kernel[1] + z;

        if (!BACK)
            to[i] = in ? from[w] : T(0.0f);
        else if (in)
            to[w] = from[i];
    }
}

cudaError_t train_cuda_fold_images(cudaStream_t s, enum cuda_type t,
                                   const struct cuda_fold *f, const void *x,
                                   void *to)
{
    int b = blocks_for(f->n * f->to[0] * f->to[1]);

    if (f->c == 3)
        BY_TYPE(t, fold_images<3><<<b, THREADS, 0, s>>>(*f, (const T *)x,
                                                        (T *)to));
    else if (f->c == 1)
        BY_TYPE(t, fold_images<1><<<b, THREADS, 0, s>>>(*f, (const T *)x,
                                                        (T *)to));
    else if (f->c == 2)
        BY_TYPE(t, fold_images<2><<<b, THREADS, 0, s>>>(*f, (const T *)x,
                                                        (T *)to));
    else
        BY_TYPE(t, fold_images<4><<<b, THREADS, 0, s>>>(*f, (const T *)x,
                                                        (T *)to));
    return cudaGetLastError();
}

cudaError_t train_cuda_fold_weights(cudaStream_t s, enum cuda_type t,
                                    const struct cuda_fold *f, int back,
                                    const void *from, void *to)
{
    int b = blocks_for(f->f * 16 * CUDA_FOLDED);

    if (back)
        BY_TYPE(t, (fold_weights<true, T><<<b, THREADS, 0, s>>>(
                       *f, (const T *)from, (T *)to)));
    else
        BY_TYPE(t, (fold_weights<false, T><<<b, THREADS, 0, s>>>(
                       *f, (const T *)from, (T *)to)));
    return cudaGetLastError();
}

/* ---- weights, channels last -------------------------------------------------- */

/* A block has `n` channels of one filter. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    turn(int64_t c, int most, int pixels, int back, const T *from, T *to)
{
    extern __shared__ __align__(16) char room[];
    T *sm = (T *)room;
    int64_t first = (int64_t)blockIdx.y * most, f = blockIdx.x;
    int n = (int)(c - first < most ? c - first : most);
    int64_t rows = (f * c + first) * pixels, cols = f * pixels * c + first;

    for (int i = threadIdx.x; i < n * pixels; i += THREADS)
        if (back)
            sm[i % n * pixels + i / n] = from[cols + i / n * c + i % n];
        else
            sm[i] = from[rows + i];
    __syncthreads();
    for (int i = threadIdx.x; i < n * pixels; i += THREADS)
        if (back)
            to[rows + i] = sm[i];
        else
            to[cols + i / n * c + i % n] = sm[i % n * pixels + i / n];
}

cudaError_t train_cuda_turn(cudaStream_t s, int size, int64_t f, int64_t c,
                            int64_t pixels, int back, const void *from,
                            void *to)
{
    int64_t most = CUDA_TURNED / 4 / pixels;

    most = most < 1 ? 1 : most > c ? c : most;

    dim3 grid((unsigned)f, (unsigned)((c + most - 1) / most));
    size_t room = (size_t)(most * pixels * size);

    if (size == 2)
        turn<<<grid, THREADS, room, s>>>(c, (int)most, (int)pixels, back,
                                         (const uint16_t *)from,
                                         (uint16_t *)to);
    else
        turn<<<grid, THREADS, room, s>>>(c, (int)most, (int)pixels, back,
                                         (const uint32_t *)from,
                                         (uint32_t *)to);
    return cudaGetLastError();
}
