/* Kernels: one pass of one operator on the parts of tensors a rank holds.
 *
 * A backend is asked once for each operation of a rank's program (make), so
 * that primitives are created, implementations chosen and scratch sizes known
 * before the first step; then it is run every step. What an operand means is
 * what the plan says (src/plan/symbolic_kernels.c runs the same calls in exact
 * arithmetic): the boxes carry global indices, so padding, halos and thin or
 * empty parts are arithmetic on boxes, and no kernel knows of ranks.
 *
 * Operands, in the plan's order:
 *   forward           x.. w..             -> y..        [aux]
 *   backward-data     dy.. w.. x.. y..    -> dx..       (see below)
 *   backward-weights  x.. dy.. [w..] [aux] -> dw..     (w: DW_READS_W)
 * backward-data gets only the weights that are no bias of a contraction, x
 * where the operator saves x, y where it saves y or a mask, and makes dx only
 * of operands that need one (train_wants_grad). Then [aux].
 *   forward, part 1 of conv, conv_transpose, linear: y bias -> y
 *   batch norm with an exchange, never with aux: forward x -> sums, part 1:
 *     x sums w.. -> y; backward-data dy x sums -> sums', part 1: dy sums' w..
 *     x sums -> dx; backward-weights sums' -> dw..
 *     sums are [1,2,C]: sum x, sum x*x; sums': sum dy, sum dy*xhat; float64
 *     is a good type for them
 *   the loss: y label -> dy [loss of each item] [1 where the guess is right];
 *     with classes on several ranks y -> largest, y label largest -> sums (of
 *     exponentials, of the right class), y label largest sums -> dy [..] [..]
 *
 * aux is what forward leaves for backward beyond the plan's tensors (the
 * position of a maximum, the statistics of a normalisation). A backend says
 * its shape (train_backend.aux); the executor that has room appends it to the
 * outputs of forward and to the inputs of both backward passes. Without it a
 * kernel computes again what it needs; only max pools must have it. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

#include "paradl/base.h"
#include "paradl/model.h"
#include "paradl/plan.h"

/* The part of a tensor that is at hand. Indices are logical, N first and then
 * the model's order (N,C,H,W), storage is channels last (N,H,W,C) for
 * activations with spatial dimensions and row-major for everything else
 * (weights: as in files, OIHW). */
struct train_array {
    enum pdl_dtype dtype;
    struct pdl_box box;
    bool channels_last;
    int layout; /* 0: as above; else the backend's own (blocked) */
};

/* Random numbers of a kernel depend on these and on global indices only. */
struct train_moment {
    uint64_t seed;
    int64_t step, first_sample; /* number of the micro-batch's sample 0 */
    bool evaluate;              /* no dropout, running statistics */
    bool again; /* a recomputation: running statistics are up to date */
};

enum train_loss_kind { TRAIN_SOFTMAX, TRAIN_MSE };

struct train_loss {
    enum train_loss_kind kind;
    double smoothing; /* of labels, 0: none */
    double scale;     /* of the gradient; 0 reads as 1 */
};

struct train_call {
    const struct pdl_model *model;
    const struct pdl_node *node; /* NULL: the loss */
    enum pdl_pass pass;
    int part;
    int nin, nout;
    const struct train_array *in, *out; /* shapes only */
    /* Over how many items a mean goes, where the box does not tell. Batch
     * norm with an exchange: elements of a channel over all ranks that share
     * the statistics. The loss: items (samples times positions) of the whole
     * step, all ranks and micro-batches. 0: those of the box. */
    int64_t population;
    /* Batch norm: runs of samples with statistics of their own, as ranks have
     * them; running statistics move by their mean. 0 reads as 1. */
    int64_t groups;
    const struct train_loss *loss; /* NULL: softmax cross-entropy */
    /* Attention may see the keys block by block: forward leaves the logarithm
     * of its sum of exponentials in aux, backward goes by it. */
    bool blocks;
    /* Which position stands at a place of dimension 1 (pdl_plan.deal); NULL:
     * the place is the position. Kernels want places whose positions ascend. */
    const struct pdl_deal *deal;
    bool keys_in_order; /* of attention only the queries are dealt */
    bool sums;          /* no node: the sum of two gradients, a b -> y */
};

/* Calls that follow each other, to be run as one kernel. What they read and
 * write has slots: first the inputs, then the outputs of the whole, in the
 * order in which its kernel gets them, then what only passes from one call to
 * the next and need not be stored. */
struct train_group {
    int n, nin, nout, ninner;
    const struct train_call *calls;
    int *const *in, *const *out; /* slots of each call's operands */
    const struct train_array *slots;
};

static inline int64_t train_position(const struct train_call *c, int64_t place)
{
    return c->deal ? pdl_deal_position(c->deal, place) : place;
}
/* The same of a key of attention. */
static inline int64_t train_key_position(const struct train_call *c,
                                         int64_t place)
{
    return c->keys_in_order ? place : train_position(c, place);
}
/* What a head of attention subtracts from a score for each position between
 * query and key (ALiBi: Press et al., ICLR 2022; heads that are no power of two
 * as in BLOOM and MPT). 0: nothing. */
double train_slope(const struct pdl_attr *a, int64_t head);
/* Attention: of the keys at places [s0,s1) those, [*first,*end), that the query
 * at place t sees. */
void train_visible(const struct train_call *c, int64_t s0, int64_t s1,
                   int64_t t, int64_t *first, int64_t *end);

/* One prepared call. */
struct train_kernel {
    int64_t scratch_bytes;
    const char *implementation; /* "ref", "jit:avx512_core" ... */
    bool in_place; /* the first output may lie where the first operand does */
    enum pdl_status (*run)(const struct train_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when,
                           struct pdl_err *err);
};

enum train_aux {
    TRAIN_AUX_NONE,
    TRAIN_AUX_LOCAL,  /* stays where it was made */
    TRAIN_AUX_LIKE_Y, /* has y's box, moves with y: halos */
};

struct train_backend {
    const char *name, *summary;
    enum pdl_status (*open)(pdl_arena *a, void **state, struct pdl_err *err);
    void (*close)(void *state);
    /* The kernel lives as long as the backend's state. */
    enum pdl_status (*make)(void *state, const struct train_call *call,
                            struct train_kernel **out, struct pdl_err *err);
    /* The aux array of a forward call (without aux among its outputs). */
    enum train_aux (*aux)(const struct train_call *forward,
                          struct train_array *aux);
    /* One kernel for a group; *out NULL: there is none, make has one for each
     * of them. NULL: no groups. */
    enum pdl_status (*join)(void *state, const struct train_group *g,
                            struct train_kernel **out, struct pdl_err *err);
};

extern const struct train_backend train_ref; /* plain C */
#ifdef PDL_HAVE_DNNL
extern const struct train_backend train_cpu; /* oneDNN */
#endif

/* A group as its calls one after the other, by a backend's own kernels: what
 * passes between them is in scratch memory. */
enum pdl_status train_in_turn(pdl_arena *a, const struct train_backend *b,
                              void *state, const struct train_group *g,
                              struct train_kernel **out, struct pdl_err *err);

/* known.c: what was found out by trying, kept between runs in a file of this
 * name in the user's cache. NULL: no memory; find: NULL: not known. */
struct train_known;
struct train_known *train_known_open(pdl_arena *a, const char *name);
const char *train_known_find(const struct train_known *k, const char *key);
void train_known_add(struct train_known *k, const char *key, const char *value);
/* A batch norm of several groups as a kernel of one group, run for each. aux
 * has the groups as its first dimension. */
enum pdl_status train_in_groups(pdl_arena *a, const struct train_backend *b,
                                void *state, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err);

/* NULL: no such backend. */
const struct train_backend *train_backend_find(const char *name);
const struct train_backend *train_backend_at(int i); /* NULL past the end */

/* Does the gradient of this tensor reach a weight? (As the plan has it.) */
bool train_wants_grad(const struct pdl_model *m, int tensor);
/* Comparisons and choices that have a number for their last operand. */
bool train_with_number(const struct pdl_node *n, double *number);
/* An element of an array of any type that kernels have. */
double train_number(enum pdl_dtype t, const void *p, int64_t i);
/* The topk largest of n scores, of equal ones the first; the largest first. */
void train_choose(const double *score, int64_t n, int64_t topk, int64_t *which);
/* Of backward-data: which output is the gradient of operand i of the node; -1:
 * nobody wants it. Walks the model: asked when a kernel is made. */
int train_gradient_of(const struct train_call *c, int i);
/* How many features of a head a rope turns, the last ones, and how wide the
 * head is; where the node does not say, the attention that reads it does. 0:
 * nobody. */
int64_t train_rotated(const struct train_call *c, int64_t *width);
/* By how much a rope turns pair e of d features from one position to the
 * next. */
double train_rope_step(const struct pdl_attr *a, int64_t e, int64_t d);
/* A resize between elements, of `from` to `to`: which of them element y is made
 * of, and the share of each. Two, or four where alpha is below zero: then it is
 * the coefficient of a cubic (R. Keys, Cubic convolution interpolation for
 * digital image processing, 1981), and the ends go on beyond the image. Returns
 * how many. */
enum { TRAIN_TAPS = 4 };
int train_resize_taps(const struct pdl_attr *a, int64_t from, int64_t to,
                      int64_t y, int64_t *at, double *share);
/* Which function a pointwise node is: its operator's name, or a form of it
 * ("gelu_tanh"). */
const char *train_function(const struct pdl_node *n);
/* What a norm adds to the variance. */
double train_epsilon(const struct pdl_node *n);
/* The share of a batch in running statistics. */
double train_momentum(const struct pdl_node *n);
/* Positions of maxima in their windows: bytes where they fit and images lie
 * channels last. */
enum pdl_dtype train_places_type(const struct train_call *c);
/* The row of attention's table of `rows` distances that a key reads which lies
 * `ahead` positions ahead of the query (T5: Raffel et al., 2020, 2.1). */
int64_t train_distance_row(int64_t rows, bool causal, int64_t ahead);
/* Elements and bytes of an array as it is stored; -1: too large. */
int64_t train_array_elements(const struct train_array *a);
int64_t train_array_bytes(const struct train_array *a);
bool train_same_box(const struct pdl_box *a, const struct pdl_box *b);
/* Distance in elements of neighbours in each logical dimension (layout 0). */
void train_array_strides(const struct train_array *a, int64_t *stride);
/* How a call is cut into groups of operands; -1 or 0 where there is none. */
struct train_operands {
    int x, nx, w, nw, dy, ndy, y, ny; /* first index in call->in, count */
    int sums, stats, aux;             /* index in call->in */
    int aux_out;                      /* index in call->out */
};
void train_operands(const struct train_call *call, struct train_operands *o);

#endif
