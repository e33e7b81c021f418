/* Inside the cuda backend's kernels: sums over rows, in two steps: blocks leave
 * partial sums, one warp a column adds them in a fixed order, in float64; so a
 * result depends on nothing but its operands. A thread keeps to its columns,
 * 16 bytes at a time where they divide, and walks down the rows. What each
 * element adds to the two sums of its column is a functor; what a column has of
 * its own a thread reads once: at<V>. It reads several rows before it adds the
 * first. */
#ifndef TRAIN_CUDA_COLUMNS_CUH
#define TRAIN_CUDA_COLUMNS_CUH

#include "device.cuh"

enum { LANES = 32, MOST_BLOCKS = 1024, ROWS = 4 };

static int row_blocks(int64_t m, int64_t c)
{
    int64_t tiles = (c + 8 * LANES - 1) / (8 * LANES);
    int64_t b = (m + 63) / 64, most = 132 * 8 / tiles;

    b = b > most ? most : b;
    return (int)(b < 1 ? 1 : b > MOST_BLOCKS ? MOST_BLOCKS : b);
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

template <int V, class F>
__global__ void __launch_bounds__(THREADS)
    column_sums(F f, layout l, int64_t m, int64_t c, float *partial)
{
    __shared__ float sm[2][V][THREADS];
    int lane = threadIdx.x % l.lanes, r = threadIdx.x / l.lanes;
    int64_t col = ((int64_t)blockIdx.x * l.lanes + lane) * V;
    float a[2][V] = {};

    if (col < c) {
        typename F::template at<V> here(f, col);

        typename F::template raw<V> x[ROWS];
        int64_t step = (int64_t)gridDim.y * l.rows;
        int64_t row = (int64_t)blockIdx.y * l.rows + r;

        for (; row + (ROWS - 1) * step < m; row += ROWS * step) {
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                x[u] = here.get(f, row + u * step, col);
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                here.add(f, x[u], row + u * step, col, a);
        }
        for (; row < m; row += step)
            here.add(f, here.get(f, row, col), row, col, a);
        here.end(a);
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

template <int V, class F>
static int sum_columns(cudaStream_t s, const F &f, int64_t m, int64_t c,
                       float *partial)
{
    layout l = lay_out(m, c, V);
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks);

    column_sums<V><<<grid, THREADS, 0, s>>>(f, l, m, c, partial);
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

#endif
