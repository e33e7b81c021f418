/* Inside the cuda backend. Its list of operators is in cuda.c, kernels are in
 * the .cu files (launch.h), convolutions are cuDNN's and matrix products
 * cuBLASLt's, both looked for when they are needed (cuda_lib.c). */
#ifndef TRAIN_CUDA_H
#define TRAIN_CUDA_H

#include "train/backends/cuda/launch.h"
#include "train/exec/device.h"

#include <cublasLt.h>
#include <cudnn.h>

enum { CUDA_TICKETS = 256, CUDA_SUMMED = 1024 };

// clang-format off
#define CUDA_LT_FUNCTIONS(X)                 \
    X(cublasLtCreate)                        \
    X(cublasLtDestroy)                       \
    X(cublasLtGetVersion)                    \
    X(cublasLtMatmul)                        \
    X(cublasLtMatmulDescCreate)              \
    X(cublasLtMatmulDescDestroy)             \
    X(cublasLtMatmulDescSetAttribute)        \
    X(cublasLtMatrixLayoutCreate)            \
    X(cublasLtMatrixLayoutDestroy)           \
    X(cublasLtMatrixLayoutSetAttribute)      \
    X(cublasLtMatmulPreferenceCreate)        \
    X(cublasLtMatmulPreferenceDestroy)       \
    X(cublasLtMatmulPreferenceSetAttribute)  \
    X(cublasLtMatmulAlgoGetHeuristic)

#define CUDA_DNN_FUNCTIONS(X)         \
    X(cudnnCreate)                    \
    X(cudnnDestroy)                   \
    X(cudnnSetStream)                 \
    X(cudnnGetErrorString)            \
    X(cudnnGetVersion)                \
    X(cudnnBackendCreateDescriptor)   \
    X(cudnnBackendDestroyDescriptor)  \
    X(cudnnBackendSetAttribute)       \
    X(cudnnBackendGetAttribute)       \
    X(cudnnBackendFinalize)           \
    X(cudnnBackendExecute)
// clang-format on

/* Prototypes are the headers', addresses the library's. */
#define CUDA_MEMBER(f) __typeof__(f) *f;
struct cuda_lt {
    CUDA_LT_FUNCTIONS(CUDA_MEMBER)
    cublasLtHandle_t handle;
    void *library;
};
struct cuda_dnn {
    CUDA_DNN_FUNCTIONS(CUDA_MEMBER)
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device; /* described, no handle; else NULL */
    void *library;
};
#undef CUDA_MEMBER

struct cuda_conv;
struct cuda_sdpa;
struct cuda_held;
struct cuda_updates;

enum { CUDA_PRODUCT_ROOM = 64 << 20 }; /* scratch bytes of a product */

/* d[m,n] = op(a) op(b), column-major. */
struct cuda_product {
    struct cuda_product *next;
    int64_t m, n, k, lda, ldb, ldc;
    bool ta, tb;
    bool bias, sums; /* added to rows of d; sums of b over k come out, too */
    enum cuda_type t;
    uint32_t alignment; /* bytes, of all operands */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    float ms;  /* of a few; 0: not tried */
    bool none; /* the library has no such product */
};

struct cuda_state {
    pdl_arena *arena;
    int device;
    bool tf32; /* products of float32 may be rounded to 10 bits */
    struct pdl_bytes described; /* a GPU that is not here: nothing can run */
    cudaStream_t stream[TRAIN_STREAMS];
    struct {
        uint64_t ticket;
        cudaEvent_t event;
    } tickets[CUDA_TICKETS];
    uint64_t issued;
    cudaEvent_t *marks; /* cuda_clock.c */
    int64_t nmarks, mark_room;
    struct cuda_lt *lt;
    struct cuda_dnn *dnn;
    struct train_known *known;     /* by this run and others */
    struct cuda_conv *convs;       /* plans found so far */
    struct cuda_product *products; /* likewise */
    struct cuda_sdpa *sdpas;       /* likewise */
    /* Batch norms whose backward sums stand in aux: both backward passes need
     * them, the first that runs makes them. Where aux is, and of which dy. */
    struct {
        const void *aux, *dy;
    } summed[CUDA_SUMMED];
    double *squares; /* room of sums */
    /* Work that is kept: a graph each. What depends on the step reads where
     * the stream is in training from the device. */
    struct cuda_held *held;
    bool holding, reads_now;
    struct train_moment held_when;
    struct cuda_now *now;
    struct cuda_updates *updates; /* gathered */
    void *ref;                    /* what runs on the host */
    struct train_room *rooms;
    char on_host[512]; /* operators that do */
    enum pdl_status st;
    struct pdl_err err;
};

struct cuda_kernel;
typedef cudaError_t cuda_go_fn(const struct cuda_kernel *k, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when);

struct cuda_kernel {
    struct train_kernel base;
    struct cuda_state *s;
    struct train_call call;
    struct train_operands op;
    enum cuda_type t; /* of the activations */
    cuda_go_fn *go;
    union {
        enum cuda_function function;
        struct cuda_walk walk[2];
        struct {
            struct cuda_walk *walk;
            int n;
        } parts;
        struct {
            int64_t n, pixels, c;
            int factor; /* input with one value for all pixels */
        } scaled;
        struct cuda_pool pool;
        struct cuda_table table;
        struct cuda_attention attention;
        const struct cuda_rope *rope;
        struct {
            const struct cuda_sdpa *plan;
        } sdpa;
        struct cuda_row_norm rows;
        struct {
            const struct cuda_product *product;
            int64_t offset[3]; /* elements: of a, b, c */
            int64_t m, n;      /* of y or dy */
        } linear;
        struct {
            const struct cuda_conv *conv;
            int fine, coarse, w, bias; /* operands, inputs first; -1: none */
            int64_t w_bytes;
            int64_t pixels; /* of a weight that is turned; 0: it is not */
            bool rectified; /* what it makes */
            const struct cuda_fold *fold; /* NULL: images as they are */
            int64_t x_bytes;              /* of folded or padded ones */
            struct cuda_walk padded;      /* n 0: images as they are */
        } conv;
        struct {
            const struct cuda_kernel *norm; /* forward, or backward-data */
            const struct train_group *group;
            int more, y;    /* inputs: added, result; -1: none */
            int result, dz; /* outputs; -1: not stored */
            int scale, shift;
            float most; /* of the rectifier */
        } batch;
        struct { /* operands as the group has them, -1: none */
            int64_t n;
            int x, with, kept, result; /* backward: kept is with's gradient */
        } gate;
        struct { /* a norm of rows, or a product, with additions */
            const struct cuda_kernel *norm, *weights;
            const struct train_group *group;
            int more, after; /* inputs: added before, behind; -1: none */
            int sum, result; /* outputs: of x and more; -1: not stored */
        } rows_of;
    } u;
};

/* Sets go and what it needs; false: the cuda backend does not have this
 * call. */
typedef bool cuda_make_fn(struct cuda_kernel *k);
struct cuda_op {
    const char *name;
    cuda_make_fn *make;
};

cuda_make_fn train_cuda_make_unary, train_cuda_make_add, train_cuda_make_mul,
    train_cuda_make_reshape, train_cuda_make_transpose, train_cuda_make_concat,
    train_cuda_make_split, train_cuda_make_slice, train_cuda_make_pad,
    train_cuda_make_class_token, train_cuda_make_dropout,
    train_cuda_make_batch_norm, train_cuda_make_row_norm, train_cuda_make_pool,
    train_cuda_make_image_mean, train_cuda_make_table, train_cuda_make_loss,
    train_cuda_make_rope, train_cuda_make_attention, train_cuda_make_sdpa,
    train_cuda_make_linear, train_cuda_make_conv;

/* F32 or BF16 as enum cuda_type; false: neither. */
bool train_cuda_type(enum pdl_dtype d, enum cuda_type *t);
/* All operands [first, first + n) of the inputs have type k->t. */
bool train_cuda_typed(const struct cuda_kernel *k);
int64_t train_cuda_extent(const struct train_array *a, int d);
bool train_cuda_same_box(const struct train_array *a,
                         const struct train_array *b);
bool train_cuda_aux(const struct train_call *c, struct train_array *a);
cudaStream_t train_cuda_stream(const struct cuda_kernel *k);

/* cuda_norm.c: batch norm, for cuda_group.c too. Of a forward call, whose
 * statistics go to stats; of a backward-data call. */
struct cuda_batch_norm train_cuda_batch(const struct cuda_kernel *k,
                                        void *const *in, float *stats,
                                        const struct train_moment *when);
struct cuda_batch_back train_cuda_back(const struct cuda_kernel *k,
                                       void *const *in);
/* cuda_gemm.c: the fastest way to a product, NULL: none; and the product. */
const struct cuda_product *train_cuda_product(struct cuda_state *s,
                                              const struct cuda_product *want);
cudaError_t train_cuda_multiply(const struct cuda_state *s,
                                const struct cuda_product *p, const void *a,
                                const void *b, const void *more, void *c,
                                void *scratch);
/* Of a backward-data call of linear: dx, and more where it is not NULL. */
cudaError_t train_cuda_linear_data(const struct cuda_kernel *k, void *const *in,
                                   const void *more, void *dx, void *scratch);
/* cuda_group.c */
enum pdl_status train_cuda_group(void *state, const struct train_group *g,
                                 struct train_kernel **out,
                                 struct pdl_err *err);
/* A kernel of a call, on the device or (NULL) not. */
struct cuda_kernel *train_cuda_kernel(struct cuda_state *s,
                                      const struct train_call *c);

/* cuda_lib.c: libraries that a run may not need */
enum pdl_status train_cuda_lt(struct cuda_state *s, struct pdl_err *err);
enum pdl_status train_cuda_dnn(struct cuda_state *s, struct pdl_err *err);
void train_cuda_close_libraries(struct cuda_state *s);

/* cuda_task.c: work of the executor */
enum pdl_status train_cuda_launch(void *state, enum train_stream stream,
                                  const struct train_task *task,
                                  struct pdl_err *err);
/* cuda_clock.c: when a stream has come so far, by the device's clock */
enum pdl_status train_cuda_mark(void *state, enum train_stream stream,
                                int64_t i, struct pdl_err *err);
double train_cuda_between(void *state, int64_t from, int64_t to);
void train_cuda_close_clock(struct cuda_state *s);
/* cuda_facts.c */
void train_cuda_describe(void *state, struct pdl_train_device *out);
/* cuda_update.c: the stream, to be given something: updates that were gathered
 * go before it. An update for them; false: it is not of their kind. */
cudaStream_t train_cuda_queue(struct cuda_state *s, enum train_stream stream);
bool train_cuda_take_update(struct cuda_state *s, const struct train_task *t);
void train_cuda_drop_updates(struct cuda_state *s);
/* cuda_held.c: work that is kept and done again */
enum pdl_status train_cuda_hold(void *state, const struct train_moment *when,
                                struct pdl_err *err);
enum pdl_status train_cuda_held(void *state, void **work, struct pdl_err *err);
enum pdl_status train_cuda_repeat(void *state, void *work,
                                  const struct train_moment *when,
                                  struct pdl_err *err);
void train_cuda_drop_held(struct cuda_state *s);
/* cuda_host.c: a call that the reference backend runs, on copies */
enum pdl_status train_cuda_on_host(struct cuda_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err);
enum cuda_said { CUDA_SAID_BLAS = 100000, CUDA_SAID_DNN = 200000 };
cudaError_t train_cuda_said(enum cuda_said by, int status);
enum pdl_status train_cuda_fail(struct pdl_err *err, cudaError_t e,
                                const char *what);

#endif
