/* SPDX-License-Identifier: Apache-2.0
 *
 * Own kernels on the threads a rank is given. Every piece of work writes what
 * no other piece writes, and takes its sums in an order of its own, so that the
 * number of threads does not show in the bits. */
#include "train/backends/cpu/cpu.h"

#ifdef _OPENMP
#include <omp.h>
#endif

void train_cpu_parallel(int64_t n, int64_t grain, cpu_piece_fn *piece,
                        const void *ctx)
{
    if (n <= 0)
        return;
#ifdef _OPENMP
    int64_t most = n / (grain > 0 ? grain : 1), threads = omp_get_max_threads();

    threads = threads < most ? threads : most;
    if (threads > 1) {
#pragma omp parallel for num_threads((int)threads) schedule(static, 1)
        for (int64_t t = 0; t < threads; t++)
            piece(ctx, n * t / threads, n * (t + 1) / threads);
        return;
    }
#endif
    piece(ctx, 0, n);
}
