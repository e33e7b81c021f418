/* Shared by the files of the ONNX reader, and by nobody else.
 *
 * The way through: onnx_wire.c leaves the weights out, onnx_read.c unpacks and
 * makes one flat list of values and nodes (subgraphs and model functions
 * included), onnx_infer*.c and onnx_fold.c give every value a shape and small
 * integers a value, onnx_count.c says which stored tensors are parameters and
 * which are buffers, onnx_build.c makes the model. onnx_ops.c is the one table
 * of operators they all read. */
#ifndef MODEL_ONNX_PRIV_H
#define MODEL_ONNX_PRIV_H

#include "paradl/model.h"
#include "onnx.pb-c.h"

enum { ONNX_DROPPED_BYTES = 100001, ONNX_DROPPED_FIELD = 100002 };

/* Element types, as ONNX numbers them. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_COMPLEX64,
    ONNX_COMPLEX128,
    ONNX_BFLOAT16,
    ONNX_F8E4M3FN,
    ONNX_F8E4M3FNUZ,
    ONNX_F8E5M2,
    ONNX_F8E5M2FNUZ,
    ONNX_UINT4,
    ONNX_INT4,
    ONNX_F4E2M1,
    ONNX_NTYPES
};

enum { ONNX_MAX_FOLD = 512 }; /* elements of a constant that is folded */

/* What is known of a value. dim -1: not known; val NaN: that one element is
 * not known. Numbers are doubles: integers beyond 2^53 only occur as "to the
 * end" of a slice. */
struct onnx_shape {
    int type; /* 0: not known */
    int rank; /* -1: not known */
    int64_t dim[PDL_MAX_RANK];
    int nval;    /* -1: no value */
    double *val; /* row-major */
};

enum onnx_kind {
    ONNX_MADE,   /* by a node, or an input of a body */
    ONNX_INPUT,  /* of the main graph, without a value */
    ONNX_STORED, /* an initializer or a Constant */
};

struct onnx_value {
    const char *name;
    int scope;
    int node, slot; /* who makes it; -1: nobody */
    enum onnx_kind kind;
    const Onnx__Tensor *tensor; /* stored; NULL for value_ints and the like */
    const Onnx__Type *type;     /* as declared; NULL: not */
    struct onnx_shape stored;   /* of a stored value */
    int64_t elements;           /* of a stored value; -1: not known */
    int outer;                  /* of a body's input: what it stands for; -1 */
    /* onnx_count.c */
    bool constant;             /* depends on stored values alone */
    bool feature;              /* depends on data, not on positions alone */
    bool layer_data;           /* read as the data of a layer with weights */
    bool data;                 /* an input that is data, not a weight */
    bool backward;             /* follows from a gradient */
    unsigned demand;           /* what its readers want it to be */
    unsigned use;              /* how it is used further on */
    enum pdl_tensor_kind role; /* of a source; INPUT: it is none */
};

/* A call of a model function, for attributes that refer to the caller's. */
struct onnx_frame {
    const Onnx__Node *call;
    const Onnx__Function *function;
    const struct onnx_frame *up;
};

/* A subgraph of a node: ids of its inputs and outputs. */
struct onnx_body {
    const char *attr;
    int nin, nout;
    int *in, *out;
    int first, nodes; /* its nodes in the list */
};

struct onnx_op;

struct onnx_node {
    const Onnx__Node *src;
    const struct onnx_frame *frame;
    const struct onnx_op *op; /* NULL: not known */
    const char *name, *type;
    int64_t opset;
    int nin, nout, nbodies;
    int *in, *out; /* -1: left out */
    struct onnx_body *bodies;
    bool top; /* in the main graph */
};

/* A name in a scope. */
struct onnx_entry {
    const char *name;
    size_t len;
    int scope, value, next;
};

struct onnx_graph {
    pdl_arena *arena;
    const char *name; /* for messages */
    struct pdl_err *err;
    Onnx__Model *model;
    struct onnx_value *values;
    int nvalues, vcap;
    struct onnx_node *nodes; /* bodies stand before their node */
    int nnodes, ncap;
    int *inputs, *outputs; /* of the main graph */
    int ninputs, noutputs;
    struct onnx_entry *entries; /* names, chained in buckets */
    int nentries, ecap;
    int *buckets;
    int nbuckets;
    int *parents; /* of scopes; -1: none */
    int nscopes, scap;
    int functions;         /* scope of the names of model functions */
    struct onnx_dim *dims; /* symbolic dimensions, --dim first */
    int ndims, dcap;
    int dim_names;                  /* scope of their names */
    const struct onnx_shape *shape; /* inference with the batch as bound */
    const struct onnx_shape *twice; /* with twice the batch; NULL: not made */
    int64_t batch;
    bool training; /* it has outputs that are gradients */
};

/* A symbolic dimension. */
struct onnx_dim {
    const char *name;
    int64_t value; /* -1: nobody bound it */
    bool batch;    /* leads a graph input: bound to 1 unless the user says */
    bool given;    /* by the user */
    bool used;     /* the file has it */
};

/* ---- onnx_wire.c ---- */
enum pdl_status model_onnx_strip(struct pdl_bytes in, const char *name,
                                 struct pdl_buf *out, struct pdl_err *err);

/* ---- onnx_read.c, onnx_names.c ---- */
enum pdl_status model_onnx_unpack(struct onnx_graph *g, struct pdl_bytes in);
enum pdl_status model_onnx_flatten(struct onnx_graph *g);
enum pdl_status model_onnx_oom(const struct onnx_graph *g);
/* A name as a string; a NUL byte inside fails. */
enum pdl_status model_onnx_text(const struct onnx_graph *g,
                                ProtobufCBinaryData b, const char **out);
int model_onnx_scope(struct onnx_graph *g, int parent); /* -1: no memory */
/* The value of a name in this scope alone, or also around it; -1: none. */
int model_onnx_lookup(const struct onnx_graph *g, int scope,
                      ProtobufCBinaryData name, bool around);
/* A new value of that name; fails when the scope has one. */
enum pdl_status model_onnx_declare(struct onnx_graph *g, int scope,
                                   ProtobufCBinaryData name, int *id);
/* Another name for a value (the inputs of a function). */
enum pdl_status model_onnx_alias(struct onnx_graph *g, int scope,
                                 ProtobufCBinaryData name, int id);

/* ---- onnx_order.c ---- */
enum pdl_status model_onnx_order(struct onnx_graph *g, Onnx__Node *const *nodes,
                                 size_t count, const int **out);

/* ---- onnx_attr.c ---- */
const Onnx__Attribute *model_onnx_attr(const struct onnx_node *n,
                                       const char *name);
int64_t model_onnx_int(const struct onnx_node *n, const char *name,
                       int64_t otherwise);
double model_onnx_float(const struct onnx_node *n, const char *name,
                        double otherwise);
/* The number of integers, at most cap are written; -1: no such attribute. */
int model_onnx_ints(const struct onnx_node *n, const char *name, int64_t *out,
                    int cap);
/* Is a string attribute this one? */
bool model_onnx_is(const struct onnx_node *n, const char *name,
                   const char *value);
const char *model_onnx_str(const struct onnx_node *n, const char *name,
                           size_t *len);

/* ---- onnx_tensor.c ---- */
bool model_onnx_int_type(int type);
enum pdl_dtype model_onnx_dtype(int type);
/* Shape, element count and, when it is small, the value of a stored tensor. */
enum pdl_status model_onnx_tensor(struct onnx_graph *g, const Onnx__Tensor *t,
                                  const char *name, struct onnx_value *v);
enum pdl_status model_onnx_sparse(struct onnx_graph *g,
                                  const Onnx__SparseTensor *sp,
                                  struct onnx_value *v);
enum pdl_status model_onnx_constant(struct onnx_graph *g,
                                    const struct onnx_node *n,
                                    struct onnx_value *v);

/* ---- onnx_dims.c ---- */
/* Reads "batch=8,seq=2048" and the graph's own names. */
enum pdl_status model_onnx_bind(struct onnx_graph *g, const char *text);
/* The declared shape of a value, names bound, the batch times `times`. */
void model_onnx_declared(const struct onnx_graph *g, int value, int64_t times,
                         struct onnx_shape *out);

/* ---- onnx_infer.c ---- */
/* One operator being inferred: what its function sees. */
struct onnx_call {
    struct onnx_graph *g;
    const struct onnx_node *n;
    struct onnx_shape *all;   /* of every value */
    struct onnx_shape *spare; /* for outputs that are left out */
    bool starved;             /* out of memory */
};
/* Its i-th input or output; an unknown shape when it is left out. */
const struct onnx_shape *model_onnx_in(const struct onnx_call *c, int i);
struct onnx_shape *model_onnx_out(const struct onnx_call *c, int i);
bool model_onnx_has(const struct onnx_call *c, int i);
/* Sets a shape (dim NULL: rank unknown dimensions); the value is dropped. */
void model_onnx_set(struct onnx_shape *s, int rank, const int64_t *dim);
/* A list of integers from an attribute, or from input i when it has a value:
 * their number, or -1. */
int model_onnx_list(const struct onnx_call *c, const char *attr, int i,
                    int64_t *out, int cap);
int64_t model_onnx_whole(double v); /* clamped; ONNX_ANY for NaN */
#define ONNX_ANY INT64_MIN
double *model_onnx_room(struct onnx_call *c, struct onnx_shape *s, int64_t n);
/* Counts of elements; -1 when a dimension is not known or on overflow. */
int64_t model_onnx_elements(const struct onnx_shape *s);
enum pdl_status model_onnx_infer(struct onnx_graph *g);

/* ---- onnx_ops.c ---- */
typedef void onnx_infer_fn(struct onnx_call *c);

/* One row for each ONNX operator. roles has a letter for each input, the last
 * one holds for all that follow:
 *   x data              w weight               q weight of integers
 *   e element-wise      p passes through       c joined with others
 *   t table             i index into a table   n weight in packed bits
 *   b buffer            s scale, zero point    k buffer if not a scalar
 *   m mask              d dequantised          o enters a loop
 *   . shape, axis, index, bound ...: not counted */
struct onnx_op {
    const char *name;
    const char *domain; /* "": the standard one */
    const char *roles;
    const char *op; /* ours; NULL: never a layer */
    onnx_infer_fn *infer;
};
const struct onnx_op *model_onnx_op(const char *domain, const char *name);
const struct onnx_op *model_onnx_op_at(int i);
/* The letter of input i: e where the operator is not known. */
char model_onnx_role(const struct onnx_node *n, int i);

/* the functions of the table: onnx_infer_*.c and onnx_fold.c */
// clang-format off
#define ONNX_INFER(X)                                                        \
    X(same) X(cast) X(unary) X(binary) X(compare) X(where) X(shape) X(size)  \
    X(gather) X(concat) X(slice) X(reshape) X(flatten) X(squeeze)            \
    X(unsqueeze) X(transpose) X(expand) X(range) X(fill) X(split) X(tile)    \
    X(pad) X(reduce) X(arg) X(matmul) X(gemm) X(conv) X(deconv) X(pool)      \
    X(global_pool) X(batch_norm) X(norm) X(resize) X(einsum) X(rnn)          \
    X(depth_to_space) X(space_to_depth) X(one_hot) X(topk) X(gather_nd)      \
    X(gather_elements) X(dropout) X(quantize) X(dequantize)                  \
    X(dynamic_quantize) X(qlinear_conv) X(qlinear_matmul) X(qlinear_same)    \
    X(conv_integer) X(attention) X(embed_norm) X(skip_norm) X(fixed)         \
    X(branch) X(loop) X(nonzero) X(roi) X(matmul_nbits) X(mha) X(gqa)        \
    X(eye) X(loss) X(det) X(crop) X(qlinear_binary) X(sequence)              \
    X(grid)
#define X(name) onnx_infer_fn model_onnx_infer_##name;
ONNX_INFER(X)
#undef X
// clang-format on

/* ---- onnx_count.c ---- */
enum pdl_status model_onnx_count(struct onnx_graph *g);

/* ---- onnx_build.c ---- */
enum pdl_status model_onnx_build(struct onnx_graph *g,
                                 const struct pdl_model **out);

#endif
