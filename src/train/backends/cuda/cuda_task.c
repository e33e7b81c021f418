/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of the executor on the GPU: the list by name. What is not in it is done
 * by the host on copies of its spans. */
#include "train/backends/cuda/cuda.h"
#include "train/optim/optim.h"
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

typedef cudaError_t task_fn(struct cuda_state *s, cudaStream_t st,
                            const struct train_task *t, bool *done);

static enum cuda_type type_of(enum pdl_dtype d)
{
    return d == PDL_BF16  ? CUDA_BF16
           : d == PDL_F64 ? CUDA_F64
           : d == PDL_I32 ? CUDA_I32
                          : CUDA_F32;
}

static cudaError_t copy(struct cuda_state *s, cudaStream_t st,
                        const struct train_task *t, bool *done)
{
    const struct train_copy_args *a = t->args;
    struct train_walk w;
    struct cuda_walk c;

    (void)s;
    train_walk(&w, &a->to, &a->from, &a->region);
    c = (struct cuda_walk){
        .n = w.n, .to_first = w.to_first, .from_first = w.from_first};
    memcpy(c.extent, w.extent, sizeof c.extent);
    memcpy(c.to, w.to, sizeof c.to);
    memcpy(c.from, w.from, sizeof c.from);
    *done = true;
    return train_cuda_copy(st, &c, (int)pdl_dtype_bits(a->to.dtype) / 8,
                           t->span[1].at, t->span[0].at);
}

static cudaError_t add(struct cuda_state *s, cudaStream_t st,
                       const struct train_task *t, bool *done)
{
    const struct train_add_args *a = t->args;

    (void)s;
    *done = true;
    return train_cuda_add(st, type_of(a->dtype), a->n, t->span[0].at,
                          t->span[1].at);
}

static cudaError_t plus(struct cuda_state *s, cudaStream_t st,
                        const struct train_task *t, bool *done)
{
    const struct train_add_args *a = t->args;
    enum cuda_type type = type_of(a->dtype);

    (void)s;
    *done = type == CUDA_F32 || type == CUDA_BF16;
    if (!*done)
        return cudaSuccess;
    return train_cuda_join(st, type, 0, a->n, t->span[1].at, t->span[2].at,
                           t->span[0].at);
}

static cudaError_t widen(struct cuda_state *s, cudaStream_t st,
                         const struct train_task *t, bool *done)
{
    (void)s;
    *done = true;
    return train_cuda_widen(st, *(const int64_t *)t->args, t->span[1].at,
                            t->span[0].at);
}

static cudaError_t narrow(struct cuda_state *s, cudaStream_t st,
                          const struct train_task *t, bool *done)
{
    (void)s;
    *done = true;
    return train_cuda_narrow(st, *(const int64_t *)t->args, t->span[1].at,
                             t->span[0].at);
}

/* ---- the optimizer ---------------------------------------------------- */

static cudaError_t update(struct cuda_state *s, cudaStream_t st,
                          const struct train_task *t, bool *done)
{
    (void)st;
    *done = train_cuda_take_update(s, t);
    return cudaSuccess;
}

static cudaError_t squares(struct cuda_state *s, cudaStream_t st,
                           const struct train_task *t, bool *done)
{
    const struct train_tuning *x = t->args;

    if (x->shard.grad_dtype == PDL_F64)
        return cudaSuccess;
    *done = true;
    return train_cuda_squares(st, type_of(x->shard.grad_dtype), x->shard.n,
                              t->span[2].at, t->span[0].at, s->squares);
}

// clang-format off
static const struct {
    const char *name;
    task_fn *go;
} tasks[] = {
    {"copy",    copy},
    {"add",     add},
    {"plus",    plus},
    {"widen",   widen},
    {"narrow",  narrow},
    {"update",  update},
    {"squares", squares},
};
// clang-format on

/* ---- by the host ------------------------------------------------------ */

static enum pdl_status by_host(struct cuda_state *s, cudaStream_t st,
                               const struct train_task *t, struct pdl_err *err)
{
    char *room, *host[TRAIN_SPANS];
    int64_t total = 64;
    cudaError_t e = cudaSuccess;

    for (int i = 0; i < t->n; i++)
        total += (t->span[i].bytes + 63) / 64 * 64;
    room = aligned_alloc(64, (size_t)total / 64 * 64);
    if (!room)
        return pdl_fail(err, PDL_ENOMEM, "out of memory on the host");
    total = 0;
    for (int i = 0; i < t->n && e == cudaSuccess; i++) {
        host[i] = room + total;
        total += (t->span[i].bytes + 63) / 64 * 64;
        if (t->span[i].read)
            e = cudaMemcpyAsync(host[i], t->span[i].at,
                                (size_t)t->span[i].bytes,
                                cudaMemcpyDeviceToHost, st);
    }
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(st);
    if (e == cudaSuccess)
        t->work->run(t->args, (void *const *)host);
    for (int i = 0; i < t->n && e == cudaSuccess; i++)
        if (t->span[i].written)
            e = cudaMemcpyAsync(t->span[i].at, host[i],
                                (size_t)t->span[i].bytes,
                                cudaMemcpyHostToDevice, st);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(st);
    free(room);
    (void)s;
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, t->work->name);
}

enum pdl_status train_cuda_launch(void *state, enum train_stream stream,
                                  const struct train_task *task,
                                  struct pdl_err *err)
{
    struct cuda_state *s = state;
    bool updates = strcmp(task->work->name, "update") == 0;
    cudaStream_t st = updates ? NULL : train_cuda_queue(s, stream);
    cudaError_t e = cudaSuccess;
    bool done = false;

    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(tasks[i].name, task->work->name) == 0)
            e = tasks[i].go(s, st, task, &done);
    if (e != cudaSuccess)
        return train_cuda_fail(err, e, task->work->name);
    return done ? PDL_OK : by_host(s, train_cuda_queue(s, stream), task, err);
}
