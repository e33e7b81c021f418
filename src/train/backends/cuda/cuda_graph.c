/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of cuDNN: descriptors, engine configurations, plans. */
#include "train/backends/cuda/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

/* It lasts as long as the library. */
cudnnStatus_t train_cuda_describe_dnn(struct cuda_dnn *d,
                                      struct pdl_bytes described)
{
    struct cuda_maker m = {.d = d, .st = CUDNN_STATUS_SUCCESS};
    int64_t n = (int64_t)described.len;

    while (n > 0 && described.data[n - 1] == '\n')
        n--;
    d->device = train_cuda_create(&m, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    train_cuda_set(&m, d->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                   CUDNN_TYPE_CHAR, n, described.data);
    train_cuda_done(&m, d->device);
    return m.st;
}

cudnnBackendDescriptor_t train_cuda_create(struct cuda_maker *m,
                                           cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t x = NULL;

    if (m->st == CUDNN_STATUS_SUCCESS)
        m->st = m->d->cudnnBackendCreateDescriptor(type, &x);
    if (x && m->n < CUDA_MADE)
        m->made[m->n++] = x;
    return x;
}

void train_cuda_set(struct cuda_maker *m, cudnnBackendDescriptor_t x,
                    cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *v)
{
    if (m->st == CUDNN_STATUS_SUCCESS)
        m->st = m->d->cudnnBackendSetAttribute(x, name, type, n, v);
}

void train_cuda_done(struct cuda_maker *m, cudnnBackendDescriptor_t x)
{
    if (m->st == CUDNN_STATUS_SUCCESS)
        m->st = m->d->cudnnBackendFinalize(x);
}

void train_cuda_destroy(struct cuda_maker *m)
{
    while (m->n > 0)
        (void)!m->d->cudnnBackendDestroyDescriptor(m->made[--m->n]);
}

cudnnBackendDescriptor_t train_cuda_graph(struct cuda_maker *m,
                                          const cudnnBackendDescriptor_t *ops,
                                          int n)
{
    cudnnBackendDescriptor_t g =
        train_cuda_create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

    train_cuda_set(m, g, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    if (m->d->handle)
        train_cuda_set(m, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                       CUDNN_TYPE_HANDLE, 1, &m->d->handle);
    train_cuda_done(m, g);
    return g;
}

int train_cuda_offers(const struct cuda_dnn *d, cudnnBackendDescriptor_t g,
                      cudnnBackendHeurMode_t mode,
                      cudnnBackendDescriptor_t *config)
{
    struct cuda_maker m = {.d = d, .st = CUDNN_STATUS_SUCCESS};
    cudnnBackendDescriptor_t h =
        train_cuda_create(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;

    train_cuda_set(&m, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g);
    train_cuda_set(&m, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                   &mode);
    if (d->device)
        train_cuda_set(&m, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->device);
    train_cuda_done(&m, h);
    for (int i = 0; i < CUDA_OFFERS && m.st == CUDNN_STATUS_SUCCESS; i++)
        m.st = d->cudnnBackendCreateDescriptor(
            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]);
    if (m.st == CUDNN_STATUS_SUCCESS)
        m.st = d->cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           CUDA_OFFERS, &n, config);
    if (h)
        (void)!d->cudnnBackendDestroyDescriptor(h);
    return m.st == CUDNN_STATUS_SUCCESS
               ? (int)(n < CUDA_OFFERS ? n : CUDA_OFFERS)
               : 0;
}

cudnnBackendDescriptor_t train_cuda_plan(const struct cuda_dnn *d,
                                         cudnnBackendDescriptor_t config,
                                         int64_t most, int64_t *workspace)
{
    cudnnBackendDescriptor_t p = NULL;
    int64_t n = 0;

    if (d->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                                        &p) != CUDNN_STATUS_SUCCESS)
        return NULL;
    if ((d->device ? d->cudnnBackendSetAttribute(
                         p, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->device)
                   : d->cudnnBackendSetAttribute(
                         p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                         1, &d->handle)) == 0 &&
        d->cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                    &config) == 0 &&
        d->cudnnBackendFinalize(p) == 0 &&
        d->cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &n, workspace) == 0 &&
        *workspace <= most)
        return p;
    (void)!d->cudnnBackendDestroyDescriptor(p);
    return NULL;
}

char *train_cuda_plan_text(const struct cuda_dnn *d,
                           cudnnBackendDescriptor_t plan)
{
    const cudnnBackendAttributeName_t name =
        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t n = 0;
    char *text = NULL;

    if (d->cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, 0, &n, NULL) ==
            0 &&
        n > 0)
        text = calloc((size_t)n + 1, 1);
    if (text && d->cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, n, &n,
                                            text) == 0)
        return text;
    free(text);
    return NULL;
}

static cudnnBackendDescriptor_t plan_of(const struct cuda_dnn *d,
                                        const char *text, int64_t length,
                                        int64_t *workspace)
{
    cudnnBackendDescriptor_t p = NULL;
    int64_t n = 0;

    if (d->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                                        &p) != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (d->cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                    CUDNN_TYPE_HANDLE, 1, &d->handle) == 0 &&
        d->cudnnBackendSetAttribute(
            p, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
            length, text) == 0 &&
        d->cudnnBackendFinalize(p) == 0 &&
        d->cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &n, workspace) == 0)
        return p;
    (void)!d->cudnnBackendDestroyDescriptor(p);
    return NULL;
}

/* Versions differ in whether the end counts. */
cudnnBackendDescriptor_t train_cuda_plan_of(const struct cuda_dnn *d,
                                            const char *text,
                                            int64_t *workspace)
{
    int64_t n = (int64_t)strlen(text);
    cudnnBackendDescriptor_t p = plan_of(d, text, n, workspace);

    return p ? p : plan_of(d, text, n + 1, workspace);
}

cudnnStatus_t train_cuda_execute(const struct cuda_dnn *d,
                                 cudnnBackendDescriptor_t plan, int n,
                                 const int64_t *ids, void *const *at,
                                 void *workspace)
{
    struct cuda_maker m = {.d = d, .st = CUDNN_STATUS_SUCCESS};
    cudnnBackendDescriptor_t pack =
        train_cuda_create(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    train_cuda_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                   CUDNN_TYPE_INT64, n, ids);
    train_cuda_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                   CUDNN_TYPE_VOID_PTR, n, at);
    train_cuda_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                   CUDNN_TYPE_VOID_PTR, 1, &workspace);
    train_cuda_done(&m, pack);
    if (m.st == CUDNN_STATUS_SUCCESS)
        m.st = d->cudnnBackendExecute(d->handle, plan, pack);
    train_cuda_destroy(&m);
    return m.st;
}
