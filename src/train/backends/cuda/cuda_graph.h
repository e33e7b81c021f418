/* Inside the cuda backend: graphs of cuDNN, descriptor by descriptor. */
#ifndef TRAIN_CUDA_GRAPH_H
#define TRAIN_CUDA_GRAPH_H

#include "train/backends/cuda/cuda.h"

enum { CUDA_OFFERS = 24, CUDA_MADE = 128 };

/* A convolution: a relation between a fine and a coarse side. */
enum cuda_way { CUDA_GATHER, CUDA_SCATTER, CUDA_WEIGHTS };
enum { CUDA_FINE, CUDA_COARSE, CUDA_WEIGHT, CUDA_CONV_DIMS = 5 };
struct cuda_conv {
    struct cuda_conv *next;
    enum cuda_way way;
    enum cuda_type t;
    int ns;
    int64_t dim[3][CUDA_CONV_DIMS]; /* fine, coarse, weight: n c s.. */
    int64_t pre[3], post[3], stride[3], dilation[3];
    cudnnBackendDescriptor_t plan;
    int64_t workspace;
    float ms;
    const struct cuda_product *product; /* one pixel: where that is faster */
};
/* cuda_plan.c: the fastest way to a convolution; NULL: none. */
const struct cuda_conv *train_cuda_conv(struct cuda_state *s,
                                        const struct cuda_conv *want);
int64_t train_cuda_conv_volume(const struct cuda_conv *c, int side);
/* at: fine, coarse, weight */
cudaError_t train_cuda_convolve(const struct cuda_state *s,
                                const struct cuda_conv *c, void *const *at,
                                void *work);

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
