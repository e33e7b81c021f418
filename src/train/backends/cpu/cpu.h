/* Inside the cpu backend. Convolutions and matrix products are oneDNN's, all
 * calls of it are in cpu_dnnl.c; the rest is our own (simd_*.c). */
#ifndef TRAIN_CPU_H
#define TRAIN_CPU_H

#include "train/backends/kernels.h"

struct cpu_dnnl; /* engine, stream, and what must be destroyed */

struct cpu_state {
    pdl_arena *arena;
    struct cpu_dnnl *dnnl;
    void *ref; /* state of the backend that does what this one does not */
};

/* A row of the table: makes a kernel, or leaves *out NULL where it does not
 * have this call (the reference then runs it). */
typedef enum pdl_status cpu_make_fn(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct train_kernel **out,
                                    struct pdl_err *err);
struct cpu_op {
    const char *name;
    cpu_make_fn *make;
};
struct cpu_ops {
    const struct cpu_op *rows;
    int n;
};
extern const struct cpu_ops train_cpu_conv, train_cpu_gemm, train_cpu_norm,
    train_cpu_pointwise, train_cpu_pool, train_cpu_move, train_cpu_attention,
    train_cpu_loss, train_cpu_heads, train_cpu_experts, train_cpu_broadcast,
    train_cpu_softmax, train_cpu_group, train_cpu_image, train_cpu_fold,
    train_cpu_take;

/* Does [0, n) in pieces [from, to), at least `grain` of it on a thread. A piece
 * writes what no other piece writes. */
typedef void cpu_piece_fn(const void *ctx, int64_t from, int64_t to);
void train_cpu_parallel(int64_t n, int64_t grain, cpu_piece_fn *piece,
                        const void *ctx);
/* Elements that are worth a thread: tens of microseconds. */
enum { CPU_GRAIN = 65536 };

/* All arrays of the call are float32 in layout 0. */
bool train_cpu_plain(const struct train_call *c);
/* A kernel with room for `size` bytes, base first; the call's arrays kept. */
void *train_cpu_kernel(struct cpu_state *s, const struct train_call *c,
                       size_t size, struct train_call *kept);

/* The float32 kernel of a call, with bfloat16 operands converted around it. */
enum pdl_status train_cpu_widen(struct cpu_state *s, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err);
/* The kernel that `make` has once operands are in logical order, with them put
 * so around it. */
enum pdl_status train_cpu_reorder(struct cpu_state *s,
                                  const struct train_call *c, cpu_make_fn *make,
                                  struct train_kernel **out,
                                  struct pdl_err *err);
/* Copies what both boxes have, each stored in its own order. */
void train_cpu_copy_common(const struct train_array *from, const void *src,
                           const struct train_array *to, void *dst);
/* What operators leave for backward. */
bool train_cpu_norm_aux(const struct train_call *c, struct train_array *a);
bool train_cpu_attention_aux(const struct train_call *c, struct train_array *a);

/* ---- cpu_dnnl.c ------------------------------------------------------- */

enum pdl_status train_dnnl_open(pdl_arena *a, struct cpu_dnnl **out,
                                struct pdl_err *err);
void train_dnnl_close(struct cpu_dnnl *d);

enum cpu_conv_pass { CPU_GATHER, CPU_SCATTER, CPU_WEIGHTS };

/* A convolution between a fine and a coarse side (see ref_conv.c), all sizes
 * of the part at hand: GATHER makes coarse, SCATTER fine, WEIGHTS w. */
struct cpu_conv {
    enum cpu_conv_pass pass;
    int ns;                    /* spatial dimensions */
    int64_t n, groups, cf, cc; /* samples, channels of fine and coarse */
    int64_t fine[PDL_MAX_SPATIAL], coarse[PDL_MAX_SPATIAL];
    int64_t k[PDL_MAX_SPATIAL], q[PDL_MAX_SPATIAL], e[PDL_MAX_SPATIAL];
    int64_t lo[PDL_MAX_SPATIAL], hi[PDL_MAX_SPATIAL]; /* padding */
    bool bias;
    bool fine_few; /* the whole layer has fewer channels on the fine side */
    bool fine_last, coarse_last; /* channels last */
    bool winograd;               /* allowed */
    enum pdl_dtype dtype, w_dtype;
};

/* Operand numbers of a call, inputs first; bias -1: none. */
struct cpu_few_operands {
    int fine, coarse, w, bias;
};
/* Leaves *out as it is where another kernel is the better one. */
enum pdl_status train_cpu_few(struct cpu_state *s, const struct cpu_conv *c,
                              const struct cpu_few_operands *at, int nin,
                              struct train_kernel **out, struct pdl_err *err);

struct cpu_conv_plan;
/* *out NULL: no implementation but a reference one. */
enum pdl_status train_dnnl_conv(struct cpu_dnnl *d, const struct cpu_conv *c,
                                struct cpu_conv_plan **out,
                                struct pdl_err *err);
int64_t train_dnnl_conv_scratch(const struct cpu_conv_plan *p);
const char *train_dnnl_conv_name(const struct cpu_conv_plan *p);
enum pdl_status train_dnnl_conv_run(const struct cpu_conv_plan *p, void *fine,
                                    void *w, void *bias, void *coarse,
                                    void *scratch, struct pdl_err *err);

/* C[m,n] = A B + bias, multiplied in bfloat16; operands of other types are
 * converted first. */
struct cpu_matmul {
    bool ta, tb, has_bias;          /* transposed as stored */
    int64_t m, n, k, lda, ldb, ldc; /* rows' distances, 0: dense */
    enum pdl_dtype a, b, c, bias;
};
struct cpu_matmul_plan;
/* *out NULL: no implementation but a reference one. */
enum pdl_status train_dnnl_matmul(struct cpu_dnnl *d,
                                  const struct cpu_matmul *m,
                                  struct cpu_matmul_plan **out,
                                  struct pdl_err *err);
int64_t train_dnnl_matmul_scratch(const struct cpu_matmul_plan *p);
const char *train_dnnl_matmul_name(const struct cpu_matmul_plan *p);
enum pdl_status train_dnnl_matmul_run(const struct cpu_matmul_plan *p, void *a,
                                      void *b, void *bias, void *c,
                                      void *scratch, struct pdl_err *err);

/* C[m,n] = A B (+ C where add), row-major; ta, tb: transposed as stored. */
struct cpu_gemm {
    bool ta, tb, add;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha;
};
enum pdl_status train_dnnl_gemm(const struct cpu_gemm *g, const float *a,
                                const float *b, float *c, struct pdl_err *err);

#endif
