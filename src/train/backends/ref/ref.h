/* Inside the reference backend: every operand is unpacked to float64 in
 * logical row-major order (N,C,H,W) over its box, the kernel works on that,
 * and the results are packed again. */
#ifndef TRAIN_REF_H
#define TRAIN_REF_H

#include "train/backends/kernels.h"

struct ref_array {
    struct pdl_box box;
    int64_t stride[PDL_BOX_DIMS], n[PDL_BOX_DIMS], count;
    double *at;
    bool changed; /* an input to be written back: running statistics */
};

enum { REF_MAX = 72 };

struct ref_run {
    const struct train_call *call;
    const struct pdl_node *node;
    const struct pdl_tensor *tensors; /* of the model */
    struct train_operands op;
    const struct train_moment *when;
    struct ref_array in[REF_MAX], out[REF_MAX];
    double *work;
};

/* A row: how to run an operator, the float64s of work space it wants, and
 * what it refuses (NULL: nothing). */
struct ref_op {
    const char *name;
    void (*run)(struct ref_run *r);
    int64_t (*work)(const struct train_call *c);
    enum pdl_status (*check)(const struct train_call *c, struct pdl_err *err);
};
struct ref_ops {
    const struct ref_op *rows;
    int n;
};

extern const struct ref_ops train_ref_conv, train_ref_linear, train_ref_norm,
    train_ref_pointwise, train_ref_broadcast, train_ref_pool, train_ref_shape,
    train_ref_attention, train_ref_loss, train_ref_lrn, train_ref_experts,
    train_ref_reduce;

/* Offset of a global index that is in the box. */
static inline int64_t ref_offset(const struct ref_array *a, const int64_t *i)
{
    int64_t o = 0;

    for (int d = 0; d < a->box.ndims; d++)
        o += (i[d] - a->box.lo[d]) * a->stride[d];
    return o;
}

static inline bool ref_inside(const struct ref_array *a, const int64_t *i)
{
    for (int d = 0; d < a->box.ndims; d++)
        if (i[d] < a->box.lo[d] || i[d] >= a->box.hi[d])
            return false;
    return true;
}

/* Row-major walk over a box. */
static inline bool ref_first(const struct pdl_box *b, int64_t *i)
{
    for (int d = 0; d < b->ndims; d++)
        i[d] = b->lo[d];
    return !pdl_box_empty(b);
}

static inline bool ref_next(const struct pdl_box *b, int64_t *i)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++i[d] < b->hi[d])
            return true;
        i[d] = b->lo[d];
    }
    return false;
}

#define REF_EACH(box, index)                                      \
    for (bool go_##index = ref_first((box), (index)); go_##index; \
         go_##index = ref_next((box), (index)))

static inline int64_t ref_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t ref_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
