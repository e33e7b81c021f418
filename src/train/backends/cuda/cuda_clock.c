/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks in the streams, by events that keep the device's time. */
#include "train/backends/cuda/cuda.h"

#include <math.h>
#include <stdlib.h>

static enum pdl_status make_room(struct cuda_state *s, int64_t n,
                                 struct pdl_err *err)
{
    cudaEvent_t *more;
    cudaError_t e = cudaSuccess;

    if (n > s->mark_room) {
        int64_t room = 2 * n + 256;

        more = realloc(s->marks, (size_t)room * sizeof(cudaEvent_t));
        if (!more)
            return pdl_fail(err, PDL_ENOMEM, "out of memory for marks");
        s->marks = more;
        s->mark_room = room;
    }
    while (s->nmarks < n && e == cudaSuccess) {
        e = cudaEventCreate(&s->marks[s->nmarks]);
        s->nmarks += e == cudaSuccess;
    }
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "marks");
}

enum pdl_status train_cuda_mark(void *state, enum train_stream stream,
                                int64_t i, struct pdl_err *err)
{
    struct cuda_state *s = state;
    enum pdl_status st = make_room(s, i + 1, err);
    cudaError_t e;

    if (st != PDL_OK)
        return st;
    e = cudaEventRecord(s->marks[i], train_cuda_queue(s, stream));
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "marks");
}

double train_cuda_between(void *state, int64_t from, int64_t to)
{
    const struct cuda_state *s = state;
    float ms = 0;

    if (from >= s->nmarks || to >= s->nmarks ||
        cudaEventElapsedTime(&ms, s->marks[from], s->marks[to]) != cudaSuccess)
        return NAN;
    return (double)ms * 1e-3;
}

void train_cuda_close_clock(struct cuda_state *s)
{
    for (int64_t i = 0; i < s->nmarks; i++)
        (void)!cudaEventDestroy(s->marks[i]);
    free(s->marks);
}
