/* Inside the cuda backend: what the .cu files launch. No types of the project:
 * nvcc reads this too. Everything goes into the given stream; t says what the
 * numbers are. The result is the launch's own error. */
#ifndef TRAIN_CUDA_LAUNCH_H
#define TRAIN_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_type { CUDA_F32, CUDA_BF16, CUDA_F64, CUDA_I32 };

/* ---- pointwise.cu ----------------------------------------------------- */

enum cuda_function {
    CUDA_IDENTITY,
    CUDA_RELU,
    CUDA_RELU6,
    CUDA_GELU,
    CUDA_GELU_TANH,
    CUDA_SILU,
    CUDA_SIGMOID,
    CUDA_TANH,
    CUDA_HARD_SWISH,
    CUDA_HARD_SIGMOID
};

cudaError_t train_cuda_unary(cudaStream_t s, enum cuda_type t,
                             enum cuda_function f, int64_t n, const void *x,
                             void *y);
/* dx = dy f'(saved); saved: x or y, as the operator saves it. */
cudaError_t train_cuda_slope(cudaStream_t s, enum cuda_type t,
                             enum cuda_function f, int64_t n, const void *dy,
                             const void *saved, void *dx);
/* y = a + b, or a b. */
cudaError_t train_cuda_join(cudaStream_t s, enum cuda_type t, int product,
                            int64_t n, const void *a, const void *b, void *y);
/* y = silu(x) with; kept: silu(x), NULL: not stored. Of as many as fit. */
int train_cuda_gate_fits(enum cuda_type t, int64_t n);
cudaError_t train_cuda_gate(cudaStream_t s, enum cuda_type t, int64_t n,
                            const void *x, const void *with, void *kept,
                            void *y);
cudaError_t train_cuda_gate_back(cudaStream_t s, enum cuda_type t, int64_t n,
                                 const void *dy, const void *x,
                                 const void *with, void *dx, void *dwith);
/* Numbers without a pattern, to try a library's kernels on: how fast they are
 * depends on it. */
cudaError_t train_cuda_noise(cudaStream_t s, enum cuda_type t, int64_t n,
                             void *to);
/* y[m,c] = x[m,c] + bias[c], rectified or not */
cudaError_t train_cuda_bias(cudaStream_t s, enum cuda_type t,
                            enum cuda_type bias_t, int64_t m, int64_t c,
                            int rectified, const void *x, const void *bias,
                            void *y);
cudaError_t train_cuda_widen(cudaStream_t s, int64_t n, const void *from,
                             void *to);
cudaError_t train_cuda_narrow(cudaStream_t s, int64_t n, const void *from,
                              void *to);

/* An element's number among all of the tensor's, by its place in the part. */
enum { CUDA_DIMS = 9 };
struct cuda_walk {
    int n;
    int64_t extent[CUDA_DIMS], to[CUDA_DIMS], from[CUDA_DIMS];
    int64_t to_first, from_first;
};
/* size: bytes of an element */
cudaError_t train_cuda_copy(cudaStream_t s, const struct cuda_walk *w, int size,
                            const void *from, void *to);
/* Where training is, for work that is done again in later steps. */
struct cuda_now {
    int64_t step, first_sample;
};
cudaError_t train_cuda_set_now(cudaStream_t s, int64_t step,
                               int64_t first_sample, struct cuda_now *to);
/* now: on the device, added to the step and the first sample; NULL: nothing. */
struct cuda_dropout {
    double p;
    uint64_t key, node;
    struct cuda_now at;
    const struct cuda_now *now;
};
/* walk: `to` is the place in memory, `from` the global number of the element,
 * from_first that of the first of sample 0. */
cudaError_t train_cuda_dropout(cudaStream_t s, enum cuda_type t,
                               const struct cuda_walk *w,
                               const struct cuda_dropout *d, const void *x,
                               void *y);

/* ---- norm.cu ---------------------------------------------------------- */

/* Rows of channels, in groups of m with statistics of their own: [mean c,
 * 1/deviation c, room for two sums]. partial: room for
 * train_cuda_column_room(m, c) floats, of groups train_cuda_group_room(). */
int64_t train_cuda_column_room(int64_t m, int64_t c);
int64_t train_cuda_group_room(int64_t groups, int64_t m, int64_t c);
enum { CUDA_GROUPS = 65535 }; /* at most */
struct cuda_batch_norm {
    int64_t groups, m, c;
    float eps, momentum;
    int running, remember; /* use, change the running statistics */
    int rectified;         /* negative results become 0, */
    float most;            /* and larger ones this */
    const float *scale, *shift;
    float *mean, *var; /* running; NULL: none */
    float *stats;
};
/* more: added to the result before it is rectified; NULL: nothing */
cudaError_t train_cuda_batch_norm(cudaStream_t s, enum cuda_type t,
                                  const struct cuda_batch_norm *b,
                                  const void *x, const void *more, void *y,
                                  float *partial);
/* What arrives is dy, or dy + more; of a norm that is rectified only where the
 * result is positive: y, or NULL where it is that of the norm itself. */
struct cuda_batch_back {
    int64_t groups, m, c;
    const void *dy, *more, *y, *x;
    int rectified;
    float most; /* and below this */
    const float *stats, *scale, *shift;
    float *dscale, *dshift; /* the sums once more; NULL: nowhere */
};
/* sums: of what arrives, of that times xhat; each c floats, behind the group's
 * statistics. dz: what arrives; NULL: it is not stored. */
cudaError_t train_cuda_batch_norm_sums(cudaStream_t s, enum cuda_type t,
                                       const struct cuda_batch_back *b,
                                       float *sums, void *dz, float *partial);
/* dshift and dscale: the sums of all groups. */
cudaError_t train_cuda_batch_norm_weights(cudaStream_t s,
                                          const struct cuda_batch_back *b,
                                          const float *sums);
cudaError_t train_cuda_batch_norm_back(cudaStream_t s, enum cuda_type t,
                                       const struct cuda_batch_back *b,
                                       const float *sums, void *dx);
/* to[c] = sum over m of x[m,c] */
cudaError_t train_cuda_column_sums(cudaStream_t s, enum cuda_type t, int64_t m,
                                   int64_t c, const void *x,
                                   enum cuda_type to_t, void *to,
                                   float *partial);

/* ---- fold.cu ---------------------------------------------------------- */

/* n images [from][c] to [to][CUDA_FOLDED], which begin `pad` pixels before
 * them; weights [f][c][kernel]. */
enum { CUDA_FOLDED = 16 };
struct cuda_fold {
    int64_t n, c, f, from[2], to[2], pad[2], kernel[2];
};
cudaError_t train_cuda_fold_images(cudaStream_t s, enum cuda_type t,
                                   const struct cuda_fold *f, const void *x,
                                   void *to);
/* Weights [f][c][pixels] to [f][pixels][c], or back. Size: bytes of an element;
 * of at most CUDA_TURNED pixels. */
enum { CUDA_TURNED = 8192 };
cudaError_t train_cuda_turn(cudaStream_t s, int size, int64_t f, int64_t c,
                            int64_t pixels, int back, const void *from,
                            void *to);
/* back: from folded ones */
cudaError_t train_cuda_fold_weights(cudaStream_t s, enum cuda_type t,
                                    const struct cuda_fold *f, int back,
                                    const void *from, void *to);

/* ---- rows.cu ---------------------------------------------------------- */

/* Rows of features: stats [rows][2]; centre 0: RMS norm. */
struct cuda_row_norm {
    int64_t rows, width;
    float eps;
    int centre;
};
/* What arrives is dy, or dy + more; after is added to dx. Gradients of scale
 * and shift (dw NULL: not now, db NULL: none) are added up in partial, which
 * has train_cuda_row_room() floats. */
struct cuda_row_back {
    const void *dy, *more, *x, *after;
    const float *stats;
    float *dw, *db, *partial;
};
int64_t train_cuda_row_room(int64_t rows, int64_t width);
/* Are there kernels for more than x and dy? */
int train_cuda_row_fits(enum cuda_type t, int64_t width);
/* The norm of x, or of sum = x + more. */
cudaError_t train_cuda_row_norm(cudaStream_t s, enum cuda_type t,
                                const struct cuda_row_norm *r, const void *x,
                                const void *more, void *sum, const float *w,
                                const float *b, void *y, float *stats);
cudaError_t train_cuda_row_norm_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_row_norm *r,
                                     const struct cuda_row_back *b,
                                     const float *w, void *dx);
cudaError_t train_cuda_row_norm_weights(cudaStream_t s, enum cuda_type t,
                                        const struct cuda_row_norm *r,
                                        const struct cuda_row_back *b);

/* ---- pool.cu ---------------------------------------------------------- */

/* Images [n,h,w,c] of one or two spatial dimensions: parts of the whole, with
 * their first rows and columns. */
struct cuda_pool {
    int64_t n, c;
    int64_t x[2], y[2], x_lo[2], y_lo[2], whole[2];
    int64_t k[2], stride[2], pad[2], pad_end[2], dilation[2];
    int count_pad;
};
cudaError_t train_cuda_max_pool(cudaStream_t s, enum cuda_type t,
                                const struct cuda_pool *p, const void *x,
                                void *y, uint8_t *where);
cudaError_t train_cuda_max_pool_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_pool *p, const void *dy,
                                     const uint8_t *where, void *dx);
cudaError_t train_cuda_avg_pool(cudaStream_t s, enum cuda_type t,
                                const struct cuda_pool *p, const void *x,
                                void *y);
cudaError_t train_cuda_avg_pool_back(cudaStream_t s, enum cuda_type t,
                                     const struct cuda_pool *p, const void *dy,
                                     void *dx);
/* y[n,c] = sum of a b over pixels / of; b NULL: of a. */
cudaError_t train_cuda_image_sums(cudaStream_t s, enum cuda_type t, int64_t n,
                                  int64_t pixels, int64_t c, float of,
                                  const void *a, const void *b, void *y);
/* y of each pixel = x g[n,c]; x NULL: g[n,c] / of. */
cudaError_t train_cuda_image_spread(cudaStream_t s, enum cuda_type t, int64_t n,
                                    int64_t pixels, int64_t c, float of,
                                    const void *x, const void *g, void *y);

/* ---- table.cu: embeddings, losses, rotations -------------------------- */

/* y[m] = w[row[m]]; row NULL: (m % period + first). Rows outside [lo,hi): 0. */
struct cuda_table {
    int64_t m, width, lo, hi, period, first;
};
cudaError_t train_cuda_lookup(cudaStream_t s, enum cuda_type t,
                              const struct cuda_table *x, const int32_t *row,
                              const void *w, void *y);
/* dw += dy by rows; room: floats of dw, zeroed here. */
cudaError_t train_cuda_lookup_back(cudaStream_t s, enum cuda_type t,
                                   const struct cuda_table *x,
                                   const int32_t *row, const void *dy, void *dw,
                                   float *room);
cudaError_t train_cuda_cross_entropy(cudaStream_t s, enum cuda_type t,
                                     int64_t items, int64_t classes,
                                     float smoothing, float share,
                                     const void *y, const int32_t *label,
                                     void *dy, float *loss, float *right);
cudaError_t train_cuda_squares_loss(cudaStream_t s, enum cuda_type t,
                                    int64_t items, int64_t classes, float share,
                                    const void *y, const void *label, void *dy,
                                    float *loss);
/* Pairs (e, e + d/2) of the last d features of each head turn by position, each
 * by its step from one position to the next. */
enum { CUDA_PAIRS = 256 };
struct cuda_rope {
    int64_t samples, positions, first, heads, width, d;
    double sense, step[CUDA_PAIRS];
};
cudaError_t train_cuda_rope(cudaStream_t s, enum cuda_type t,
                            const struct cuda_rope *r, const void *x, void *y);

/* ---- attention.cu ----------------------------------------------------- */

/* q [n,t,heads d], k [n,s,kv d], v [n,s,kv dv], y [n,t,heads dv], sums
 * [n,heads,t]. first_q, first_k: positions of the parts. */
struct cuda_attention {
    int64_t n, t, s, heads, kv, d, dv, first_q, first_k, window;
    int causal;
    float scale;
};
cudaError_t train_cuda_attention(cudaStream_t st, enum cuda_type t,
                                 const struct cuda_attention *a, const void *q,
                                 const void *k, const void *v, void *y,
                                 float *sums);
/* delta: room for n heads t floats; gradients may be NULL. */
cudaError_t train_cuda_attention_back(cudaStream_t st, enum cuda_type t,
                                      const struct cuda_attention *a,
                                      const void *const *qkvy, const void *dy,
                                      const float *sums, float *delta, void *dq,
                                      void *dk, void *dv);

/* ---- optim.cu --------------------------------------------------------- */

/* A step of sgd, or of Adam, on many weights at once. Of m and v those that the
 * optimizer keeps; copy: in bfloat16, NULL: none. */
struct cuda_weight {
    float *w, *m, *v;
    const void *g;
    void *copy;
    int64_t n;
    int64_t wide, decays; /* a gradient in float32; it is drawn to 0 */
};
struct cuda_update {
    int adam, nesterov;
    float lr, scale, decay, momentum, fresh;        /* sgd */
    float beta1, beta2, eps, coupled, shrink, root; /* adam: of the decay */
};
/* Blocks have a piece each: part `part` of a weight, of CUDA_PIECE elements. */
enum { CUDA_PIECE = 1 << 14 };
struct cuda_piece {
    int32_t weight, part;
};
cudaError_t train_cuda_update(cudaStream_t s, const struct cuda_update *u,
                              const struct cuda_weight *w,
                              const struct cuda_piece *pieces, int64_t n);
/* *to = sum of squares; room: train_cuda_squares_room() doubles. */
int64_t train_cuda_squares_room(void);
cudaError_t train_cuda_squares(cudaStream_t s, enum cuda_type t, int64_t n,
                               const void *g, double *to, double *room);
cudaError_t train_cuda_add(cudaStream_t s, enum cuda_type t, int64_t n,
                           void *to, const void *from);

#ifdef __cplusplus
}
#endif
#endif
