/* Shared by onnx_build.c, onnx_layer.c and onnx_label.c: making the model of a
 * graph whose values have shapes and roles. */
#ifndef MODEL_ONNX_LAYER_H
#define MODEL_ONNX_LAYER_H

#include "model_priv.h"
#include "onnx_priv.h"

struct onnx_maker {
    struct onnx_graph *g;
    pdl_build *b;
    int *tensor;  /* of a value; -1: none yet */
    int *readers; /* how many read a value; outputs count as one */
    int *reader;  /* the one node that reads a value; -1: none, -2: several */
    bool *skip;   /* nodes that are no layer */
    bool *row;    /* values that say which row of a table, or lead to it */
    bool *merged; /* values that layers have in common by accident */
    int labels;   /* scope of names of layers */
    int parents;  /* scope of module paths: how many layers each has */
    int *lodgers; /* by index in that scope */
    int nlodgers, lcap;
    bool blind; /* FLOPs are missing for want of a shape */
    const char *blind_at;
    bool conv, attention;
};

/* A layer being made. */
struct onnx_layer {
    struct onnx_maker *m;
    const struct onnx_node *n;
    const char *op, *name;
    struct pdl_attr attr;
    int in[MODEL_MAX_IN], w[PDL_OP_MAX_WEIGHTS];
    int nin, nw;
    bool own; /* its weights are not in the file */
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    int nout;
};

/* ---- onnx_build.c ---- */
/* The shape of a value for one sample; unknown dimensions are 0. False: some
 * are unknown. *axis: where the batch was, -1: nowhere. */
bool model_onnx_sample(const struct onnx_graph *g, int id, struct pdl_tensor *t,
                       int *axis);
/* The tensor of a value, made when needed. */
int model_onnx_operand(struct onnx_maker *m, int id);
/* The stored tensor behind a constant value; -1: it is computed. */
int model_onnx_source(const struct onnx_graph *g, int id);
/* Adds value id as a weight with `want` elements (-1: any): its source, or,
 * where that is something else, a constant of its shape. */
void model_onnx_weight(struct onnx_layer *l, int id, int64_t want);
void model_onnx_input(struct onnx_layer *l, int id);
/* Makes the node; when inference refuses the operator, as "other". Returns
 * the first output's tensor. */
int model_onnx_emit(struct onnx_layer *l);
/* Notes that FLOPs of this node cannot be told. */
void model_onnx_blind(struct onnx_maker *m, const struct onnx_node *n);
/* Binds the node's outputs to the tensors of what was just made. */
void model_onnx_outputs(struct onnx_layer *l, int first);

/* ---- onnx_layer.c ---- */
void model_onnx_layer(struct onnx_maker *m, const struct onnx_node *n);
/* The product that an addition completes; NULL: it is a plain addition. */
const struct onnx_node *model_onnx_biased(const struct onnx_maker *m,
                                          const struct onnx_node *add);
/* The lookup of positions that an addition adds to tokens; NULL: none. */
const struct onnx_node *model_onnx_positions(const struct onnx_maker *m,
                                             const struct onnx_node *add);

/* Helpers of the files that make layers: of a node's type, inputs, names. */
static inline bool model_onnx_type_is(const struct onnx_node *n,
                                      const char *type)
{
    return strcmp(n->type, type) == 0;
}
static inline bool model_onnx_given(const struct onnx_layer *l, int i)
{
    return i >= 0 && i < l->n->nin && l->n->in[i] >= 0;
}
static inline bool model_onnx_constant_in(const struct onnx_layer *l, int i)
{
    return model_onnx_given(l, i) && l->m->g->values[l->n->in[i]].constant;
}
const struct onnx_shape *model_onnx_shape_in(const struct onnx_layer *l, int i);
/* Names another layer of the same node: "name.part". */
const char *model_onnx_part(const struct onnx_layer *l, const char *what);
/* A helper layer of the node: one input, one output. */
int model_onnx_step(struct onnx_layer *l, const char *op, const char *what,
                    int x, struct pdl_tensor out);

/* ---- onnx_product.c: products, attention, recurrences ---- */
typedef void onnx_layer_fn(struct onnx_layer *l);
onnx_layer_fn model_onnx_linear, model_onnx_einsum, model_onnx_attention,
    model_onnx_rnn;
/* x times a weight, with a bias (-1: none). */
void model_onnx_linear_of(struct onnx_layer *l, int x, int w, int bias);

/* ---- onnx_layer.c, onnx_move.c, onnx_function.c: makers ---- */
onnx_layer_fn model_onnx_plain, model_onnx_transpose, model_onnx_slice,
    model_onnx_split, model_onnx_reduce, model_onnx_resize, model_onnx_leaky,
    model_onnx_relu, model_onnx_elu, model_onnx_selu, model_onnx_hard_sigmoid,
    model_onnx_gelu, model_onnx_clip, model_onnx_dropout, model_onnx_compare,
    model_onnx_where, model_onnx_take, model_onnx_cumsum, model_onnx_expand,
    model_onnx_argmax;
/* onnx_move.c: for each dimension of a value the sample's; -1: the batch. */
bool model_onnx_sample_axes(const struct onnx_layer *l, int id, int *map);
/* A gather by stored indices that is a slice; false: it is none. */
bool model_onnx_gather_fixed(struct onnx_layer *l);
/* An element-wise operation with one stored number; false: it is none. */
bool model_onnx_with_number(struct onnx_layer *l);

/* ---- onnx_fuse.c: layers that are spelled out ---- */
struct onnx_fused {
    const char *op;
    int x, scale, shift; /* values; -1: none */
    struct pdl_attr attr;
    int node[10], n; /* the chain, without its last node */
};
bool model_onnx_fused(const struct onnx_maker *m, const struct onnx_node *n,
                      struct onnx_fused *f);
void model_onnx_fused_layer(struct onnx_layer *l, const struct onnx_fused *f);

/* ---- onnx_label.c ---- */
enum pdl_status model_onnx_lodge(struct onnx_maker *m,
                                 const struct onnx_node *n);
const char *model_onnx_label(struct onnx_maker *m, const struct onnx_node *n,
                             int index, const char *op);

#endif
