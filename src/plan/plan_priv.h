/* Shared inside the plan room: the rules of operators and the lowering. */
#ifndef PLAN_PRIV_H
#define PLAN_PRIV_H

#include "paradl/plan.h"

#include <string.h>

enum { PLAN_MAX_IN = 64, PLAN_MAX_OUT = 16 };

/* Is factor f in the set? */
static inline bool plan_has(uint32_t set, int f)
{
    return f >= 0 && f < PDL_MAX_FACTORS && (set >> f & 1);
}

static inline bool plan_is(const struct pdl_node *n, enum pdl_op_id id)
{
    return pdl_op_id(n->op) == id;
}

/* How one factor cuts an operator: the dimension of each operand that has the
 * index it shards, or PDL_REPLICATED where the operand lacks the index. An
 * output that lacks it is a partial sum. In the words of plan theory: one
 * index of the contraction. Dimension 0 of activations is N. */
struct plan_cut {
    int8_t x[PLAN_MAX_IN], w[PDL_OP_MAX_WEIGHTS], y[PLAN_MAX_OUT];
    /* how many items the index has; an operand's dimension is split in units
     * of dim / items (a head of attention, the rows of a flattened channel);
     * 0: every element is an item */
    int64_t items;
    /* keys and values that several heads share have fewer: so many groups; 0:
     * as many as the queries */
    int64_t groups;
};

/* Where a tensor lies: which factors cut which dimension, in which units. */
struct plan_layout {
    struct pdl_place place;
    int64_t unit[PDL_BOX_DIMS]; /* 0 reads as 1; only of cut dimensions */
};

/* A node with its shapes at hand. */
struct plan_site {
    const struct pdl_model *model;
    const struct pdl_node *node;
    const struct pdl_tensor *x, *y, *w; /* first of each; may be NULL */
    int64_t parts;                      /* ranks of the factor's axis */
};

/* The index a role cuts in this operator; false: it has none. */
bool plan_rule_role(const struct plan_site *s, enum pdl_axis axis, int dim,
                    struct plan_cut *cut);
/* The operand is sharded in dimension d: what the others do; false: the
 * operator cannot keep that shard. */
bool plan_rule_follow(const struct plan_site *s, int operand, int d,
                      struct plan_cut *cut);
/* The window along dimension d of x (for a transposed convolution: of y). */
bool plan_rule_window(const struct plan_site *s, int d, struct pdl_window *w,
                      bool *transposed);
/* Attention: the queries of one group are dealt, its keys stay whole. */
bool plan_rule_queries(const struct plan_site *s, struct plan_cut *cut);
/* Heads of keys that an attention has, each shared by a group of queries; 0:
 * it is no attention. */
int64_t plan_key_groups(const struct pdl_node *n);
/* Has it roles of its own (a weighted contraction), or does it follow? */
bool plan_rule_has_role(const struct pdl_node *n);
/* Batch norm: statistics cross the ranks that shard n or s. */
bool plan_rule_has_statistics(const struct pdl_node *n);
bool plan_rule_has_window(const struct pdl_node *n);
bool plan_rule_has_bias(const struct pdl_node *n);
/* The width of the heads that a rotation turns; 0: no attention reads it. */
int64_t plan_rule_head_width(const struct pdl_model *m,
                             const struct pdl_node *rope);
/* Element by element, with one operand or several of the same shape. */
bool plan_rule_is_pointwise(const struct pdl_node *n);

/* ---- the lowering in progress ------------------------------------------ */

struct plan_contribution {
    int tensor;
    struct plan_contribution *next;
};

/* What exists of one model tensor. */
struct plan_value {
    struct plan_version {
        int tensor; /* plan tensor */
        struct plan_version *next;
    } * versions;                  /* forward; the first as it was made */
    struct plan_version *received; /* sent to other stages */
    struct plan_version *again;    /* gathered once more in backward */
    struct plan_reader {
        int node, operand, stage;
        struct plan_reader *next;
    } * readers;
    int home_stage;
    struct plan_contribution *returned; /* gradients other stages sent */
    struct plan_contribution *grads;    /* towards its gradient */
    uint32_t shared; /* factors over which keys are the same (forward.c) */
    bool needs_grad;
};

struct plan_lower {
    pdl_arena *arena;
    const struct pdl_model *model; /* written out */
    const struct pdl_model *given;
    const struct pdl_strategy *strategy;
    const struct pdl_mesh *mesh;
    const struct pdl_plan_options *opt;
    struct pdl_err *err;
    enum pdl_status status; /* the first failure sticks */

    struct pdl_plan plan; /* counts and arrays under construction */
    struct pdl_plan_tensor *tensors;
    struct pdl_plan_op *ops;
    struct pdl_plan_item *items;
    int tensor_cap, op_cap, item_cap;
    const char **fallbacks;
    int fallback_cap;

    int *clause; /* of each node */
    int *range;  /* of each node: the range it is named by; -1: none */
    int *stage;  /* of each node */
    struct plan_value *values;
    /* of each node: its cut by each factor, and what forward used and made */
    struct plan_at {
        struct plan_cut *cut; /* [factor] */
        bool is_cut[PDL_MAX_FACTORS];
        /* factors over whose ranks keys are the same: there dy may come as
         * partial sums, and what follows from it (all of it linear) are such */
        uint32_t sums;
        int *x, *w, *y; /* as many as the node has, at least one */
        int stats;      /* batch norm: the resolved statistics */
    } * at;
    /* of each model tensor that is a weight: its copy in each stage that uses
     * it, the gradient made there (-1: none yet) */
    struct plan_weight {
        int stage, tensor, grad;
        int state;      /* the part that ZeRO 1 and 2 update; -1: none */
        int uses, made; /* layers that use it; contributions to grad so far */
        struct plan_weight *next;
    } * *weight;
    /* gradients of tied weights that stages send each other */
    struct plan_tie {
        int id, from, to, tensor;
        bool raw; /* as it was made; else as the weight lies */
        struct plan_tie *next;
    } * ties;
    struct plan_bucket *buckets; /* update.c */
    int64_t samples;             /* N: of one micro-batch, over all PEs */
    int stage_now;
    /* rolled: the round of each node, of each fallback and of the layer at
     * hand (-1: none), and what gradients were added to buckets */
    const struct plan_rolled *rolled; /* NULL: it is not */
    int round_now;
    int *fallback_round;
    struct pdl_plan_push *pushes;
    int npushes, push_cap;
};

/* What a rolled lowering is told. */
struct plan_rolled {
    const struct pdl_plan_roll *roll;
    const int *round; /* of each node of the short network; -1: none */
    const int *stage; /* of each node */
};

/* lower.c: what follows from the strategy alone; each node's first forward */
/* deal.c */
struct pdl_deal plan_deal(const struct pdl_strategy *s,
                          const struct pdl_model *m);
enum pdl_status plan_refuse_unbuilt(const struct pdl_strategy *s,
                                    struct pdl_err *err);
int64_t plan_micro_batches(const struct pdl_strategy *s);
enum pdl_status plan_find_pipe(const struct pdl_strategy *s,
                               const struct pdl_mesh *m, uint32_t *factors,
                               int *lanes, int *nstages, struct pdl_err *err);
/* groups.c: groups and inner tensors of a plan; false: out of memory */
bool plan_index_groups(pdl_arena *a, struct pdl_plan *p);
int *plan_index_forward(pdl_arena *a, const struct pdl_plan_op *ops, int nops,
                        int nnodes);
/* structure.c: are ids, shapes, counts of operands, items and programs such
 * that the rest of the room may look at the plan at all? EWRONG: no, and the
 * tensor or operation (-1: none) where it was seen */
struct plan_spot {
    int tensor, op;
};
enum pdl_status plan_structure(const struct pdl_plan *p, struct plan_spot *spot,
                               struct pdl_err *err);
/* expand.c: repeated blocks written out; the model itself when it has none */
enum pdl_status plan_expand(pdl_arena *a, const struct pdl_model *m,
                            const struct pdl_model **out, struct pdl_err *err);
/* the same with the rounds that a roll writes (NULL: all); rounds skipped
 * after the i-th that is written */
enum pdl_status plan_expand_rounds(pdl_arena *a, const struct pdl_model *m,
                                   const struct pdl_plan_roll *roll,
                                   const struct pdl_model **out,
                                   struct pdl_err *err);
int64_t plan_roll_skip(const struct pdl_plan_roll *roll, int64_t i);
/* twin.c: the network twice, with the same weights */
enum pdl_status plan_twin(pdl_arena *a, const struct pdl_model *m,
                          const struct pdl_model **out, struct pdl_err *err);
/* samples of a micro-batch, over all PEs */
int64_t plan_samples(const struct pdl_plan *p);
/* lower_values.c: inputs; who reads a value; what crosses stages */
void plan_load_inputs(struct plan_lower *lo);
void plan_find_readers(struct plan_lower *lo);
void plan_send_forward(struct plan_lower *lo, int node);
void plan_receive_forward(struct plan_lower *lo);
/* lower.c: with the short network and the stages of a roll; rolled NULL: as
 * pdl_plan_lower */
enum pdl_status plan_lower_as(struct plan_lower *lo,
                              const struct pdl_plan **out);
enum pdl_status plan_choose_stages(struct plan_lower *lo);
/* update.c: buckets are full from so many bytes or gradients on */
enum { PLAN_MAX_BUCKET = 4096 };
/* stages.c: the stage of each node, balanced by FLOPs */
enum pdl_status plan_stages(pdl_arena *a, const struct pdl_model *m,
                            int64_t stages, enum pdl_split split,
                            const double *speed, int *stage,
                            struct pdl_err *err);
/* cuts.c: the same where the strategy says where */
enum pdl_status plan_cut_stages(const struct pdl_strategy *s,
                                const struct pdl_model *m, int64_t stages,
                                int *stage, struct pdl_err *err);
/* schedule.c: the lane of a rank, before there is a plan */
int plan_lane_of(const struct pdl_mesh *m, uint32_t pipe, int64_t rank);
/* speeds.c: of each stage, the fastest 1; NULL: all are equal */
const double *plan_speeds(struct plan_lower *lo);
/* emit.c */
/* what follows is for a node (-1: none) */
void plan_at_node(struct plan_lower *lo, int node);
void plan_fail(struct plan_lower *lo, const char *fmt, ...) PDL_PRINTF(2, 3);
void plan_fallback(struct plan_lower *lo, int node, enum pdl_axis axis);
/* append; -1 after a failure */
int plan_add_tensor(struct plan_lower *lo, const struct pdl_plan_tensor *t);
int plan_add_op(struct plan_lower *lo, const struct pdl_plan_op *op);
/* of allreduces; NULL: auto */
const char *plan_algorithm(const struct pdl_strategy *s);
/* the same, its operands already in the arena */
int plan_push_op(struct plan_lower *lo, const struct pdl_plan_op *op);
const char *plan_name(struct plan_lower *lo, const char *before,
                      const char *name, const char *after);
const struct pdl_frame *plan_copy_frames(struct plan_lower *lo,
                                         const struct pdl_frame *frames);
int plan_emit(struct plan_lower *lo, enum pdl_plan_op_kind kind,
              enum pdl_pass pass, int node, const int *in, int nin,
              const int *out, int nout);
void plan_begin_item(struct plan_lower *lo, int segment, int64_t repeat);
void plan_end_item(struct plan_lower *lo);
/* move.c: a version of the tensor with that placement (and frames), made by
 * the cheapest legal redistribution; the tensor itself when it fits */
int plan_move_to(struct plan_lower *lo, int tensor,
                 const struct plan_layout *to);
/* the same; units stay where the dimension stays cut */
int plan_move(struct plan_lower *lo, int tensor, const struct pdl_place *to);
struct plan_layout plan_layout_of(const struct plan_lower *lo, int tensor);
bool plan_lies(const struct plan_lower *lo, int tensor,
               const struct plan_layout *at);
bool plan_lie_alike(const struct plan_lower *lo, int a, int b);
int plan_move_frames(struct plan_lower *lo, int tensor,
                     const struct pdl_frame *frames);
/* the ranks that take part in an exchange by boxes */
uint32_t plan_exchange_group(const struct pdl_mesh *m,
                             const struct plan_layout *now,
                             const struct plan_layout *to);
struct pdl_place plan_everywhere(void); /* replicated over all factors */
bool plan_same_place(const struct plan_lower *lo, const struct pdl_place *a,
                     const struct pdl_place *b);
/* tensor.c: the last dimension of a linear layer's result would be cut in
 * `parts`: in how many items its readers want it (0: any), or -1: they want it
 * whole; *keys: they are heads of keys */
int64_t plan_keeps_features(const struct plan_lower *lo, int tensor,
                            int64_t parts, bool *keys);
/* forward.c, backward.c, update.c */
/* the strategy's term that owns factor f at this node; NULL: none */
const struct pdl_mesh_term *plan_term_of(const struct plan_lower *lo, int node,
                                         int f);
int plan_value_place(const struct plan_lower *lo, int tensor, int f);
/* node_cut.c: filter and channel are axes that cut features */
bool plan_is_feature_axis(const struct pdl_mesh_term *t);
/* sets the cut of the node by factor f, and whether there is one */
void plan_find_cut(struct plan_lower *lo, int node, int f);
/* keys.c: does the node make, or hand on, keys that the ranks of factor f
 * share (noted, for its gradient); an attention of such */
bool plan_shares_keys(struct plan_lower *lo, int node, int f,
                      const struct pdl_mesh_term *t);
bool plan_cut_queries(struct plan_lower *lo, int node, int f,
                      const struct pdl_mesh_term *t, struct plan_cut *cut);
void plan_forward_node(struct plan_lower *lo, int node);
int plan_settle(struct plan_lower *lo, int node, int tensor);
int plan_framed(struct plan_lower *lo, int node, int tensor, bool forward);
int plan_new_activation(struct plan_lower *lo, int model_tensor,
                        enum pdl_plan_kind kind, const struct pdl_place *place);
uint32_t plan_statistics_group(const struct plan_lower *lo, int node);
int plan_new_statistics(struct plan_lower *lo, int node);
int plan_resolve_partial(struct plan_lower *lo, int tensor);
void plan_backward_node(struct plan_lower *lo, int node);
void plan_receive_gradients(struct plan_lower *lo);
void plan_send_gradients(struct plan_lower *lo);
void plan_contribute(struct plan_lower *lo, int tensor, int grad);
/* loss.c: the dimension of classes: C of [N, C, H, W], else the last */
int plan_loss_classes(int ndims);
void plan_loss(struct plan_lower *lo);
int plan_copy_of(const struct plan_lower *lo, int stage);
void plan_update(struct plan_lower *lo);
/* tied.c: a weight's copy in the stage at hand, NULL: none; gradients of one
 * weight used in several stages: made ready, then added in each of them */
struct plan_weight *plan_weight_here(const struct plan_lower *lo, int id);
struct plan_weight *plan_new_weight(struct plan_lower *lo, int id, int tensor);
void plan_tie_prepare(struct plan_lower *lo);
void plan_tie_exchange(struct plan_lower *lo);
/* zero.c: the layout of the part of a weight that a rank keeps or updates,
 * from the one it is used in; false: it stays whole */
bool plan_zero_part(const struct plan_lower *lo, int node, int id,
                    struct plan_layout *l);
struct plan_layout plan_zero_home(const struct plan_lower *lo,
                                  const struct plan_weight *w);
int plan_zero_scatter(struct plan_lower *lo, const struct plan_weight *w);
void plan_zero_join(struct plan_lower *lo);
/* b's operands join a's, and b is nothing; leave such operations out */
void plan_join(struct plan_lower *lo, struct pdl_plan_op *a,
               struct pdl_plan_op *b);
void plan_close_ranks(struct plan_lower *lo);
enum pdl_status plan_zero_check(const struct pdl_strategy *s,
                                struct pdl_err *err);
/* recompute.c: are two layers, by their names, of one block? */
bool plan_same_block(const char *a, const char *b);
/* bind.c: pdl_strategy_bind, and the range a node is named by (NULL: not asked
 * for; -1: by none) */
enum pdl_status plan_bind(const struct pdl_strategy *s,
                          const struct pdl_model *m, int *clause, int *range,
                          struct pdl_err *err);
void plan_recompute(struct plan_lower *lo, const struct pdl_plan_stage *stages);
/* offload.c: what backward reads waits in the host's memory */
void plan_offload(struct plan_lower *lo, const struct pdl_plan_stage *stages);
/* split.c: backward of inputs and of weights as two items */
void plan_split_backward(struct plan_lower *lo, struct pdl_plan_stage *stages);
/* route.c: tokens only to the experts they visit; where they lie outside */
bool plan_route_outside(const struct plan_lower *lo, int node,
                        struct pdl_place *p);
void plan_route(struct plan_lower *lo);
/* ring.c: keys travel from rank to rank; blocks that one has at a time */
enum { PLAN_RING_BLOCKS = 2 };
void plan_ring(struct plan_lower *lo);
/* one placement for two gradients (or other sums), then their sum */
int plan_add(struct plan_lower *lo, int a, int b);
/* free.c: FREE after the last use of every tensor that is not state */
void plan_insert_frees(struct plan_lower *lo);

/* local.c */
/* local.c: are the items of a dimension dealt by the shares of the mesh; the
 * factors that cut it */
bool plan_has_shares(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                     int d);
uint32_t plan_cutting(const struct pdl_mesh *m, const struct pdl_plan_tensor *t,
                      int d);
bool plan_same_shape(const struct pdl_plan_tensor *a,
                     const struct pdl_plan_tensor *b);

void plan_site_init(const struct pdl_model *m, int node, int64_t parts,
                    struct plan_site *s);

/* equal.c */
bool plan_same_frame(const struct pdl_frame *a, const struct pdl_frame *b);

#endif
