/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that is the same in every step as CUDA graphs: the stream is captured
 * while it is given, and launched as one from then on. Other threads may go on
 * meanwhile. What cannot be captured (a kernel that waits for the host) ends
 * the capture with an error, and is then given piece by piece. */
#include "train/backends/cuda/cuda.h"

#include <string.h>

struct cuda_held {
    struct cuda_held *next;
    cudaGraphExec_t graph;
};

enum pdl_status train_cuda_hold(void *state, const struct train_moment *when,
                                struct pdl_err *err)
{
    struct cuda_state *s = state;
    cudaError_t e = cudaStreamBeginCapture(train_cuda_queue(s, TRAIN_COMPUTE),
                                           cudaStreamCaptureModeThreadLocal);

    if (e != cudaSuccess)
        return train_cuda_fail(err, e, "capture");
    s->holding = true;
    s->held_when = *when;
    return PDL_OK;
}

enum pdl_status train_cuda_held(void *state, void **work, struct pdl_err *err)
{
    struct cuda_state *s = state;
    struct cuda_held *h = PDL_NEW(s->arena, struct cuda_held, 1);
    cudaGraph_t g = NULL;
    cudaError_t e = cudaStreamEndCapture(s->stream[TRAIN_COMPUTE], &g);

    s->holding = false;
    memset(s->summed, 0, sizeof s->summed); /* those sums were not made */
    if (e == cudaSuccess && h)
        e = cudaGraphInstantiate(&h->graph, g, 0);
    if (g)
        (void)!cudaGraphDestroy(g);
    if (e == cudaSuccess && h) {
        h->next = s->held;
        s->held = h;
        *work = h;
        return PDL_OK;
    }
    (void)cudaGetLastError();
    return h ? train_cuda_fail(err, e, "capture")
             : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status train_cuda_repeat(void *state, void *work,
                                  const struct train_moment *when,
                                  struct pdl_err *err)
{
    struct cuda_state *s = state;
    const struct cuda_held *h = work;
    cudaStream_t st = train_cuda_queue(s, TRAIN_COMPUTE);
    cudaError_t e = cudaSuccess;

    memset(s->summed, 0, sizeof s->summed); /* its norms go forward again */
    if (s->reads_now)
        e = train_cuda_set_now(st, when->step, when->first_sample, s->now);
    if (e == cudaSuccess)
        e = cudaGraphLaunch(h->graph, st);
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "a graph");
}

void train_cuda_drop_held(struct cuda_state *s)
{
    for (struct cuda_held *h = s->held; h; h = h->next)
        (void)!cudaGraphExecDestroy(h->graph);
}
