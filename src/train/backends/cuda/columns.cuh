/* Inside the cuda backend's kernels: sums over rows, in two steps: blocks leave
 * partial sums, which one block adds in a fixed order, in float64; so a
 * result depends on nothing but its operands. A thread keeps to its columns,
 * 16 bytes at a time where they divide, and walks down the rows. What each
 * element adds to the two sums of its column is a functor; what a column has of
 * its own a thread reads once: at<V>. It reads several rows before it adds the
 * first, and the last rows first: what was just written ends with them, and
 * the cache still has that; who reads the rows after this begins with the
 * first. Rows may be in groups of m, each with sums of its own: blockIdx.z
 * counts them, in what adds up the blocks' blockIdx.y. */
#ifndef TRAIN_CUDA_COLUMNS_CUH
#define TRAIN_CUDA_COLUMNS_CUH

#include "device.cuh"

enum { LANES = 32, MOST_BLOCKS = 1024, ROWS = 4 };

static int row_blocks(int64_t m, int64_t c, int64_t groups)
{
    int64_t tiles = (c + 8 * LANES - 1) / (8 * LANES);
    int64_t b = (m + 63) / 64, most = 132 * 4 / tiles / groups;

    b = b > most ? most : b;
    return (int)(b < 1 ? 1 : b > MOST_BLOCKS ? MOST_BLOCKS : b);
}

/* Threads of a block: `lanes` groups of V columns by 256/lanes rows. */
struct layout {
    int lanes, rows, tiles, blocks;
};

static layout lay_out(int64_t m, int64_t c, int v, int64_t groups = 1)
{
    int64_t chunks = c / v;
    int lanes = 1;

    while (lanes < LANES && lanes < chunks)
        lanes *= 2;
    return {lanes, THREADS / lanes, (int)((chunks + lanes - 1) / lanes),
            row_blocks(m, c, groups)};
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
        int64_t at = blockIdx.z * m * c + col; /* the group's */

        for (row = m - 1 - row; row >= (ROWS - 1) * step; row -= ROWS * step) {
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                x[u] = here.get(f, row - u * step, at);
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                here.add(f, x[u], row - u * step, at, a);
        }
        for (; row >= 0; row -= step)
            here.add(f, here.get(f, row, at), row, at, a);
        here.end(a);
    }
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < V; k++)
            sm[s][k][threadIdx.x] = a[s][k];
    __syncthreads();
    if (r > 0 || col >= c)
        return;
    partial += (int64_t)blockIdx.z * gridDim.y * 2 * c;
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
                       float *partial, int64_t groups = 1)
{
    layout l = lay_out(m, c, V, groups);
    dim3 grid((unsigned)l.tiles, (unsigned)l.blocks, (unsigned)groups);

    column_sums<V><<<grid, THREADS, 0, s>>>(f, l, m, c, partial);
    return l.blocks;
}

/* Both sums of LANES columns, by a block of LANES x DEEP threads: true for the
 * thread that has those of its column. What is added lies `apart`. */
enum { DEEP = 32 };
static __device__ __forceinline__ bool column_totals(const float *partial,
                                                     int blocks, int64_t c,
                                                     int64_t apart, int64_t col,
                                                     double *of)
{
    __shared__ double sm[2][DEEP][LANES];
    int lane = threadIdx.x % LANES, deep = threadIdx.x / LANES;

    of[0] = of[1] = 0;
    if (col < c)
#pragma unroll 4
        for (int b = deep; b < blocks; b += DEEP) {
            of[0] += partial[b * apart + col];
            of[1] += partial[b * apart + c + col];
        }
    for (int s = 0; s < 2; s++)
        sm[s][deep][lane] = of[s];
    for (int k = DEEP / 2; k; k /= 2) {
        __syncthreads();
        for (int s = 0; s < 2 && deep < k; s++)
            sm[s][deep][lane] += sm[s][deep + k][lane];
    }
    for (int s = 0; s < 2; s++)
        of[s] = sm[s][0][lane];
    return deep == 0 && col < c;
}

static inline int total_blocks(int64_t c)
{
    return (int)((c + LANES - 1) / LANES);
}

/* Where the sums go; NULL: nowhere. Those of groups lie `apart`. */
template <class D> struct sum_places {
    D *first, *second, *too[2];
    int64_t apart;
};

template <class D>
__global__ void __launch_bounds__(LANES *DEEP)
    totals(const float *partial, int blocks, int64_t c, sum_places<D> to)
{
    int64_t col = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES;
    int64_t at = blockIdx.y * to.apart + col;
    double of[2];

    partial += (int64_t)blockIdx.y * blocks * 2 * c;
    if (!column_totals(partial, blocks, c, 2 * c, col, of))
        return;
    if (to.first)
        put(to.first, at, (float)of[0]);
    if (to.second)
        put(to.second, at, (float)of[1]);
    for (int k = 0; k < 2; k++)
        if (to.too[k])
            put(to.too[k], col, (float)of[k]);
}

#endif
