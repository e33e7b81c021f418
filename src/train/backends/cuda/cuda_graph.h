/* Inside the cuda backend: graphs of cuDNN, descriptor by descriptor. */
#ifndef TRAIN_CUDA_GRAPH_H
#define TRAIN_CUDA_GRAPH_H

#include "train/backends/cuda/cuda.h"

enum { CUDA_OFFERS = 24, CUDA_MADE = 128 };

/* The first failure stays; what was made is destroyed in one go. */
struct cuda_maker {
    const struct cuda_dnn *d;
    cudnnStatus_t st;
    cudnnBackendDescriptor_t made[CUDA_MADE];
    int n;
};

/* Plans are for a GPU as it describes itself. */
cudnnStatus_t train_cuda_describe_dnn(struct cuda_dnn *d,
                                      struct pdl_bytes described);
cudnnBackendDescriptor_t train_cuda_create(struct cuda_maker *m,
                                           cudnnBackendDescriptorType_t type);
void train_cuda_set(struct cuda_maker *m, cudnnBackendDescriptor_t x,
                    cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t n, const void *v);
void train_cuda_done(struct cuda_maker *m, cudnnBackendDescriptor_t x);
void train_cuda_destroy(struct cuda_maker *m);
cudnnBackendDescriptor_t train_cuda_graph(struct cuda_maker *m,
                                          const cudnnBackendDescriptor_t *ops,
                                          int n);
/* Engine configurations that the heuristic offers, at most CUDA_OFFERS. */
int train_cuda_offers(const struct cuda_dnn *d, cudnnBackendDescriptor_t g,
                      cudnnBackendHeurMode_t mode,
                      cudnnBackendDescriptor_t *config);
/* NULL: it does not work, or wants a larger workspace. */
cudnnBackendDescriptor_t train_cuda_plan(const struct cuda_dnn *d,
                                         cudnnBackendDescriptor_t config,
                                         int64_t most, int64_t *workspace);
/* A plan as text, to be freed, and back; NULL: that does not go. */
char *train_cuda_plan_text(const struct cuda_dnn *d,
                           cudnnBackendDescriptor_t plan);
cudnnBackendDescriptor_t train_cuda_plan_of(const struct cuda_dnn *d,
                                            const char *text,
                                            int64_t *workspace);
cudnnStatus_t train_cuda_execute(const struct cuda_dnn *d,
                                 cudnnBackendDescriptor_t plan, int n,
                                 const int64_t *ids, void *const *at,
                                 void *workspace);

#endif
