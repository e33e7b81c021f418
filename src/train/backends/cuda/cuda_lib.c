/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLASLt and cuDNN, looked for when the first call needs them: one program
 * runs with and without them, and says which one is missing. */
#include "train/backends/cuda/cuda_graph.h"

#include <dlfcn.h>
#include <stdio.h>

static void *open_library(const char *const *names, struct pdl_err *err)
{
    void *p = NULL;

    for (int i = 0; names[i] && !p; i++)
        p = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!p) {
        pdl_fail(err, PDL_ENOENV, "device cuda: cannot load %s: %.200s",
                 names[0], dlerror());
        pdl_hint(err, "install it, or name its folder in LD_LIBRARY_PATH");
    }
    return p;
}

static bool find(void *library, const char *name, void *to, struct pdl_err *err)
{
    void *p = dlsym(library, name);

    if (!p)
        pdl_fail(err, PDL_ENOENV, "device cuda: the library has no %s", name);
    *(void **)to = p;
    return p != NULL;
}

enum pdl_status train_cuda_lt(struct cuda_state *s, struct pdl_err *err)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so",
                                        NULL};
    struct cuda_lt *x;

    if (s->lt)
        return PDL_OK;
    x = PDL_NEW(s->arena, struct cuda_lt, 1);
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    x->library = open_library(names, err);
    if (!x->library)
        return PDL_ENOENV;
#define FIND(f)                                    \
    if (!find(x->library, #f, (void *)&x->f, err)) \
        return PDL_ENOENV;
    CUDA_LT_FUNCTIONS(FIND)
    if (x->cublasLtCreate(&x->handle) != CUBLAS_STATUS_SUCCESS)
        return pdl_fail(err, PDL_ENOENV,
                        "device cuda: cuBLASLt does not start");
    s->lt = x;
    return PDL_OK;
}

enum pdl_status train_cuda_dnn(struct cuda_state *s, struct pdl_err *err)
{
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    struct cuda_dnn *x;
    cudnnStatus_t e;

    if (s->dnn)
        return PDL_OK;
    x = PDL_NEW(s->arena, struct cuda_dnn, 1);
    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    x->library = open_library(names, err);
    if (!x->library)
        return PDL_ENOENV;
    CUDA_DNN_FUNCTIONS(FIND)
#undef FIND
    e = s->described.len > 0 ? train_cuda_describe_dnn(x, s->described)
                             : x->cudnnCreate(&x->handle);
    if (e == CUDNN_STATUS_SUCCESS && s->described.len == 0)
        e = x->cudnnSetStream(x->handle, s->stream[TRAIN_COMPUTE]);
    if (e != CUDNN_STATUS_SUCCESS)
        return pdl_fail(err, PDL_ENOENV, "device cuda: cuDNN %zu: %s",
                        x->cudnnGetVersion(), x->cudnnGetErrorString(e));
    s->dnn = x;
    return PDL_OK;
}

void train_cuda_close_libraries(struct cuda_state *s)
{
    if (s->lt)
        (void)!s->lt->cublasLtDestroy(s->lt->handle);
    if (s->dnn && s->dnn->handle)
        (void)!s->dnn->cudnnDestroy(s->dnn->handle);
}
