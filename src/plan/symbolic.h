/* Exact arithmetic modulo 2^61 - 1 for the symbolic executor: tensors over
 * boxes, addressed by global index, every access checked. */
#ifndef PLAN_SYMBOLIC_H
#define PLAN_SYMBOLIC_H

#include "plan_priv.h"

typedef uint64_t plan_num; /* < 2^61 - 1 */
#define PLAN_NUM_P ((UINT64_C(1) << 61) - 1)

plan_num plan_num_add(plan_num a, plan_num b);
plan_num plan_num_mul(plan_num a, plan_num b);
/* A fixed random-looking number for (seed, tensor, element). */
plan_num plan_num_of(uint64_t seed, uint64_t tensor, uint64_t element);

/* The part of a tensor some rank holds. */
struct plan_part {
    struct pdl_box box;
    plan_num *at; /* row-major over the box; NULL: not there */
};

/* A computation on parts; an access outside a part sets `missing`. */
struct plan_machine {
    pdl_arena *arena;
    const struct pdl_model *model;
    const char *missing; /* what was read but is not there; NULL: nothing */
    const struct pdl_deal *deal; /* NULL: places are positions */
};

/* The position that stands at a place of dimension 1. */
static inline int64_t plan_position(const struct plan_machine *m, int64_t place)
{
    return m->deal ? pdl_deal_position(m->deal, place) : place;
}

plan_num plan_part_get(struct plan_machine *m, const struct plan_part *p,
                       const int64_t *index);
void plan_part_put(struct plan_part *p, const int64_t *index, plan_num v);
bool plan_part_make(struct plan_machine *m, struct plan_part *p);
/* Row-major walk: false when the index has run through the box. */
void plan_box_start(const struct pdl_box *b, int64_t *index);
bool plan_box_next(const struct pdl_box *b, int64_t *index);

void plan_part_add(struct plan_part *p, const int64_t *index, plan_num v);
/* -1: the index is not in the part */
int64_t plan_part_offset(const struct plan_part *p, const int64_t *index);
/* of [N, T, E] */
plan_num plan_part_element(struct plan_machine *m, const struct plan_part *p,
                           int64_t n, int64_t t, int64_t e);

#define PLAN_EACH(box, index)                                       \
    for (bool go_##index =                                          \
             (plan_box_start((box), (index)), !pdl_box_empty(box)); \
         go_##index; go_##index = plan_box_next((box), (index)))

static inline plan_num plan_num_square(plan_num a)
{
    return plan_num_mul(a, a);
}

/* One pass of one node on the parts at hand. Outputs are allocated with their
 * boxes set and zeroed. */
struct plan_call {
    const struct pdl_node *node; /* NULL: the loss */
    enum pdl_pass pass;
    int part;
    int nin, nout;
    const struct plan_part *const *in;
    struct plan_part *const *out;
    int classes; /* the loss: their dimension, and how many there are */
    int64_t nclasses;
    /* batch norm without exchange: its statistics are taken over these */
    const struct pdl_box *group;
};
void plan_kernel(struct plan_machine *m, const struct plan_call *c);
/* symbolic_loss.c, symbolic_transformer.c; false: not one of theirs */
void plan_kernel_loss(struct plan_machine *m, const struct plan_call *c);
bool plan_kernel_transformer(struct plan_machine *m, const struct plan_call *c);
/* symbolic_windows.c, symbolic_experts.c */
void plan_kernel_contract(struct plan_machine *m, const struct plan_call *k);
void plan_kernel_pool(struct plan_machine *m, const struct plan_call *k);
void plan_kernel_global_pool(struct plan_machine *m, const struct plan_call *k);
void plan_kernel_experts(struct plan_machine *m, const struct plan_call *k);

/* symbolic_graph.c: the weights after one step of the unsharded graph */
enum pdl_status plan_reference(struct plan_machine *m, const struct pdl_plan *p,
                               uint64_t seed, struct plan_part **weights,
                               struct pdl_err *err);

#endif
