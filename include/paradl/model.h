/* paradl/model.h - networks as data.
 *
 * A model is a graph: tensors, and nodes (operators) that read and write
 * them, in topological order. Shapes are per sample, without the batch
 * dimension N: [C,H,W], [C,D,H,W], [T,E] or [E].
 *
 * A block that occurs many times in a row (a transformer layer) is stored
 * once, as a segment with a repeat count: a model of a trillion parameters is
 * a few dozen nodes. Inside a repeated segment the tensor carry_in of one
 * round is carry_out of the round before; tensors of earlier segments may be
 * read too and are the same in every round. "{i}" in a name inside a repeated
 * segment stands for the round, counted from first_index.
 *
 * FLOPs are 2 per multiply-add of convolution, linear, matmul and attention
 * (full T x T), padding counted; everything else is 0. */
#ifndef PARADL_MODEL_H
#define PARADL_MODEL_H

#include "paradl/base.h"

PDL_BEGIN

enum { PDL_MAX_RANK = 8, PDL_MAX_SPATIAL = 3 };

#define PDL_DTYPE_LIST(X) \
    X(F32, "f32", 32)     \
    X(F64, "f64", 64)     \
    X(F16, "f16", 16)     \
    X(BF16, "bf16", 16)   \
    X(F8, "f8", 8)        \
    X(F4, "f4", 4)        \
    X(I8, "i8", 8)        \
    X(U8, "u8", 8)        \
    X(I16, "i16", 16)     \
    X(U16, "u16", 16)     \
    X(I32, "i32", 32)     \
    X(U32, "u32", 32)     \
    X(I64, "i64", 64)     \
    X(U64, "u64", 64)     \
    X(BOOL, "bool", 8)    \
    X(OTHER, "other", 0)

enum pdl_dtype {
#define X(name, text, bits) PDL_##name,
    PDL_DTYPE_LIST(X)
#undef X
};
const char *pdl_dtype_name(enum pdl_dtype t);
int pdl_dtype_bits(enum pdl_dtype t);
/* Have numbers of this type a gradient? Not whole ones, nor true and false. */
static inline bool pdl_dtype_learns(enum pdl_dtype t)
{
    return t < PDL_I8 || t == PDL_OTHER;
}
bool pdl_dtype_find(const char *name, enum pdl_dtype *out);

enum pdl_tensor_kind {
    PDL_TENSOR_INPUT,
    PDL_TENSOR_ACTIVATION,
    PDL_TENSOR_WEIGHT, /* learnable: counted as parameters */
    PDL_TENSOR_BUFFER, /* running statistics, masks, position ids ... */
    PDL_TENSOR_CONST,  /* shapes, indices, scalars: not counted */
};

struct pdl_tensor {
    const char *name;
    enum pdl_dtype dtype;
    enum pdl_tensor_kind kind;
    int rank;
    int segment;               /* that makes it; its repeat multiplies it */
    int64_t dim[PDL_MAX_RANK]; /* activations: without N */
};

/* All attributes of all operators; 0 where an operator has no use for one.
 * Spatial ones are in the order of the shape, [D,]H,W. The builder turns the
 * 0 of stride, dilation and groups of a window into 1. */
struct pdl_attr {
    int64_t kernel[PDL_MAX_SPATIAL], stride[PDL_MAX_SPATIAL],
        dilation[PDL_MAX_SPATIAL];
    int64_t pad[PDL_MAX_SPATIAL], pad_end[PDL_MAX_SPATIAL]; /* low, high */
    int64_t output_pad[PDL_MAX_SPATIAL]; /* transposed convolution */
    int64_t groups;                      /* 0 reads as 1 */
    int64_t features;                    /* F: outputs of conv, linear */
    bool no_bias, ceil_mode, count_pad;  /* count_pad: average pool */
    bool keep_dims;                      /* reduce: keeps the axes as 1 */
    int64_t heads, kv_heads, head_dim, v_head_dim, window; /* attention */
    bool causal;
    int64_t experts, topk, ffn; /* mixture of experts, feed-forward */
    bool gated;
    int64_t vocab; /* rows of an embedding */
    int64_t axis;  /* concat, softmax: index into the per-sample shape. linear:
                      1 where files have its weight as [inputs, outputs] */
    double scale;  /* resize factor */
    double alpha, beta, offset; /* lrn; 0 reads as 1e-4, 0.75, 1. Of functions
                                   (alpha, beta): pdl_function_numbers. Of
                                   attention: beta (0 reads as 1) times ALiBi's
                                   slopes, of which 2^-alpha is the least. Of
                                   resize: alpha 1 is linear, not the nearest;
                                   element i lies at i + beta; offset 1: ends
                                   lie on ends */
    double epsilon;  /* of norms; 0 reads as 1e-5, of rms_norm as 1e-6 */
    double momentum; /* of running statistics; 0 reads as 0.1 */
    /* rope: the base of its wavelengths, 0 reads as 10000. With scale they
     * are stretched: all of them, or (Llama 3.1) those that turn less than
     * alpha times in offset positions wholly, beta times and more not. */
    double theta;
    bool by_tanh; /* gelu: the approximation by tanh (GPT-2) */
    int ndims;    /* reshape target, transpose permutation, slice ... */
    int64_t dims[PDL_MAX_RANK]; /* each row of the operator table says what */
};

/* How a configuration's router weighs experts, where the graph, whose softmax
 * is over those that are chosen, has less: launch files say it. */
struct pdl_router {
    bool softmax_first;        /* over all experts; weights need not add to 1 */
    double scale;              /* of their sum; 0 reads as 1 */
    int64_t groups, of_groups; /* experts are of so many of the groups; 0 */
};

struct pdl_op;

struct pdl_node {
    const char *name;
    const struct pdl_op *op;
    const char *source_op; /* as the file called it: "Gemm"; NULL: op->name */
    struct pdl_attr attr;
    int nin, nout, nweights;
    const int *in;      /* tensor ids: activations and constants */
    const int *out;     /* tensor ids */
    const int *weights; /* tensor ids: weights and buffers, op's order */
};

struct pdl_segment {
    int first_node, nnodes;
    int64_t repeat;      /* 1: an ordinary stretch of nodes */
    int64_t first_index; /* what {i} starts at */
    int carry_in, carry_out;
};

struct pdl_model {
    const char *name;   /* "resnet50" */
    const char *source; /* where it comes from, for people */
    const char *kind;   /* "cnn", "transformer", "other" */
    int ntensors, nnodes, nsegments;
    const struct pdl_tensor *tensors;
    const struct pdl_node *nodes;
    const struct pdl_segment *segments;
    const char *type;    /* model_type of its config.json; NULL: none */
    const char *inexact; /* what is computed otherwise than there; NULL */
    struct pdl_router router;
    int64_t tokens;       /* sequence length of a sample, 0 for images */
    int64_t most_tokens;  /* its file allows so many, and nobody chose fewer, or
                             more were asked for; 0: 'tokens' is what was asked
                             for or the file's own */
    int64_t source_nodes; /* nodes as the file counts them; -1: ours */
    int nunknown;         /* operators we do not know, each name once */
    const char *const *unknown_ops;
    const int64_t *unknown_counts; /* how often each occurs */
    /* Symbolic dimensions nobody bound, or else the first tensor whose shape
     * cannot be told: FLOPs are incomplete where there are any. */
    int nunbound;
    const char *const *unbound;
};

/* ---- operators -------------------------------------------------------- */

/* What a pass over the operator touches: the ground of memory lifetimes and
 * of the bytes in pdl_node_work. */
enum pdl_op_flags {
    PDL_OP_VIEW = 1,          /* moves no data: reshape, identity */
    PDL_OP_PASS = 2,          /* backward hands dy on as it is: add */
    PDL_OP_SAVES_X = 4,       /* backward-data reads the inputs again */
    PDL_OP_SAVES_Y = 8,       /* ... the output */
    PDL_OP_SAVES_MASK = 16,   /* ... one byte an output element: dropout */
    PDL_OP_SAVES_DW = 32,     /* backward-weights reads the input */
    PDL_OP_TWO_OPERANDS = 64, /* both operands are activations: matmul */
    PDL_OP_SPARSE_ROWS = 128, /* reads only the rows it is asked for */
    PDL_OP_DW_READS_W = 256,  /* backward-weights reads the weights */
    PDL_OP_NORM = 512,        /* sums over its input, then applies them to it */
    PDL_OP_COMPARES = 1024,   /* two operands; where there is one: with alpha */
    PDL_OP_UNKNOWN = 2048,    /* its output shapes are all that is known */
};

/* Operators that others ask for one by one, in the upper half of the flags: one
 * word instead of a comparison of texts. */
#define PDL_OP_ID_LIST(X)                       \
    X(CONV, "conv")                             \
    X(LINEAR, "linear")                         \
    X(ATTENTION, "attention")                   \
    X(EXPERTS, "experts")                       \
    X(ROPE, "rope")                             \
    X(BATCH_NORM, "batch_norm")                 \
    X(LAYER_NORM, "layer_norm")                 \
    X(RMS_NORM, "rms_norm")                     \
    X(MAX_POOL, "max_pool")                     \
    X(GLOBAL_AVG_POOL, "global_avg_pool")       \
    X(RELU, "relu")                             \
    X(RELU6, "relu6")                           \
    X(SILU, "silu")                             \
    X(GELU, "gelu")                             \
    X(HARD_SWISH, "hard_swish")                 \
    X(ADD, "add")                               \
    X(MUL, "mul")                               \
    X(CONCAT, "concat")                         \
    X(PAD, "pad")                               \
    X(CONV_TRANSPOSE, "conv_transpose")         \
    X(AVG_POOL, "avg_pool")                     \
    X(EMBEDDING, "embedding")                   \
    X(DROPOUT, "dropout")                       \
    X(SPLIT, "split")                           \
    X(POSITION_EMBEDDING, "position_embedding") \
    X(FLATTEN, "flatten")                       \
    X(SLICE, "slice")                           \
    X(SLICE_HEADS, "slice_heads")               \
    X(JOIN_HEADS, "join_heads")                 \
    X(SOFTMAX, "softmax")                       \
    X(LOG_SOFTMAX, "log_softmax")               \
    X(PRELU, "prelu")                           \
    X(SCALE, "scale")                           \
    X(SUB, "sub")                               \
    X(DIV, "div")                               \
    X(POW, "pow")                               \
    X(MIN, "min")                               \
    X(MAX, "max")                               \
    X(MEAN, "mean")                             \
    X(WHERE, "where")                           \
    X(NOT, "not")                               \
    X(REDUCE_SUM, "reduce_sum")                 \
    X(GLOBAL_MAX_POOL, "global_max_pool")       \
    X(ADAPTIVE_AVG_POOL, "adaptive_avg_pool")   \
    X(RESIZE, "resize")                         \
    X(LRN, "lrn")                               \
    X(INSTANCE_NORM, "instance_norm")           \
    X(TANH, "tanh")                             \
    X(CUMSUM, "cumsum")

enum pdl_op_id {
    PDL_ID_OTHER,
#define X(id, name) PDL_ID_##id,
    PDL_OP_ID_LIST(X)
#undef X
};
#define PDL_OP_IS(id) ((unsigned)PDL_ID_##id << 16)

/* What an operator is asked about: its attributes and operands. */
struct pdl_op_use {
    const struct pdl_attr *attr;
    const struct pdl_tensor *const *in; /* activations and constants */
    const struct pdl_tensor *const *w;  /* weights and buffers */
    int nin, nw;
};

/* One row of the operator table. To add an operator: one row (and its
 * functions) in src/model/ops_*.c; the tests walk the table. */
struct pdl_op {
    const char *name, *summary;
    int min_in, max_in; /* activations */
    unsigned flags;     /* enum pdl_op_flags */
    /* Shapes of the weights it needs, by its own convention; NULL: none.
     * Sets name ("weight", "bias" ...), kind and shape and returns how many;
     * never fails: infer refuses what makes no sense. */
    int (*weights)(const struct pdl_attr *attr, const struct pdl_tensor *x,
                   struct pdl_tensor *w);
    /* Output shapes from input shapes. NULL: the same as the first input.
     * Where the caller already knows the shapes (an importer), *nout > 0 on
     * entry and out holds them: operators that move data around without
     * attributes to say how (reshape, slice, gather ...) then only check. */
    enum pdl_status (*infer)(const struct pdl_op_use *u, struct pdl_tensor *out,
                             int *nout, struct pdl_err *err);
    /* Forward FLOPs of one sample; NULL: 0. False on overflow. */
    bool (*flops)(const struct pdl_op_use *u, const struct pdl_tensor *out,
                  int64_t *flops);
};
enum { PDL_OP_MAX_WEIGHTS = 8, PDL_OP_MAX_OUT = 64 };

const struct pdl_op *pdl_op_find(const char *name);
enum pdl_op_id pdl_op_id(const struct pdl_op *op);
const struct pdl_op *pdl_op_at(int i); /* NULL past the end */

/* ---- building --------------------------------------------------------- */

/* Builds a model in an arena. The first failure sticks, later calls do
 * nothing and return -1, and pdl_build_end reports it. */
typedef struct pdl_build pdl_build;

pdl_build *pdl_build_begin(pdl_arena *a, const char *name);
/* A tensor that no node makes: an input, a weight, a buffer, a constant. */
int pdl_build_tensor(pdl_build *b, const char *name, enum pdl_tensor_kind kind,
                     enum pdl_dtype dtype, int rank, const int64_t *dim);
/* A node that makes its own weights ("<name>.weight", "<name>.bias", ...) by
 * the operator's convention. Returns its first output. */
int pdl_build_op(pdl_build *b, const char *op, const char *name,
                 const struct pdl_attr *attr, const int *in, int nin);
/* A node with everything given: weights already made (tied, imported), and,
 * where nout > 0, outputs whose shapes the importer already knows. */
struct pdl_build_spec {
    const char *op, *name, *source_op;
    const struct pdl_attr *attr; /* NULL: all zero */
    const int *in, *weights;
    int nin, nweights;
    const struct pdl_tensor *out; /* name may be NULL */
    int nout;
};
int pdl_build_node(pdl_build *b, const struct pdl_build_spec *spec);
/* The i-th output of the node that made tensor t as its first output. */
int pdl_build_output(pdl_build *b, int t, int i);
/* A tensor made so far, valid until the next call; NULL after a failure. */
const struct pdl_tensor *pdl_build_get(const pdl_build *b, int t);
/* Lets a reader's own failure stick, with its message. */
void pdl_build_fail(pdl_build *b, enum pdl_status st, const char *fmt, ...)
    PDL_PRINTF(3, 4);

/* Everything between the two calls is one repeated block. carry is the tensor
 * that goes round; repeat_end names what the next round starts from and
 * returns the tensor that leaves the last round. */
void pdl_build_repeat(pdl_build *b, int64_t repeat, int64_t first_index,
                      int carry);
int pdl_build_repeat_end(pdl_build *b, int carry);

void pdl_build_unknown(pdl_build *b, const char *op);  /* counts an operator */
void pdl_build_unbound(pdl_build *b, const char *dim); /* FLOPs need it */
/* What is known of the whole; NULL leaves kind or source as they are. */
void pdl_build_meta(pdl_build *b, const char *kind, const char *source,
                    int64_t tokens, int64_t source_nodes);
enum pdl_status pdl_build_end(pdl_build *b, const struct pdl_model **out,
                              struct pdl_err *err);

/* ---- asking ----------------------------------------------------------- */

struct pdl_model_totals {
    int64_t parameters, buffers, nodes;
    int64_t forward_flops; /* per sample */
    int64_t activations;   /* elements made per sample */
};
enum pdl_status pdl_model_totals(const struct pdl_model *m,
                                 struct pdl_model_totals *out,
                                 struct pdl_err *err);

enum pdl_pass { PDL_FORWARD, PDL_BACKWARD_DATA, PDL_BACKWARD_WEIGHTS };

/* Work of one node in one pass for a batch, tensors stored as dtype: FLOPs,
 * and the bytes it must read and write at least. */
struct pdl_work {
    int64_t flops, read_bytes, write_bytes;
};
enum pdl_status pdl_node_work(const struct pdl_model *m, int node,
                              enum pdl_pass pass, int64_t batch,
                              enum pdl_dtype dtype, struct pdl_work *out,
                              struct pdl_err *err);
/* Elements of a node's weights / buffers, once (not times the repeat). */
int64_t pdl_node_parameters(const struct pdl_model *m, int node);
int64_t pdl_node_repeat(const struct pdl_model *m, int node);
/* The node's name in round `round` of its segment, "{i}" replaced. */
const char *pdl_node_name(const struct pdl_model *m, int node, int64_t round,
                          char *buf, size_t size);
int64_t pdl_tensor_elements(const struct pdl_tensor *t); /* per sample */
/* alpha and beta of a function of one operand: the node's, or, where they are
 * 0, the usual ones (leaky_relu 0.01, elu 1, hard_sigmoid 1/6 and 1/2, affine
 * and power 1). False: it has none. */
bool pdl_function_numbers(const struct pdl_node *n, double *alpha,
                          double *beta);

/* Proves the invariants: ids in range, every input made before it is read,
 * segments that tile the nodes, shapes that agree with inference. */
enum pdl_status pdl_model_check(const struct pdl_model *m, struct pdl_err *err);

/* ---- what others call its weights ------------------------------------- */

/* A family of names: those of transformers for Llama, of torchvision for
 * VGG-16 ... NULL stands for our own. */
struct pdl_naming;
const struct pdl_naming *pdl_naming_at(int i); /* NULL past the end */
const char *pdl_naming_name(const struct pdl_naming *n);
/* The first family of the style ("hf", "torchvision", "timm", "meta") that has
 * a name for every weight; NULL: none. */
const struct pdl_naming *pdl_naming_for(pdl_arena *a, const char *style,
                                        const struct pdl_model *m);

/* Rows [to, to + n) of a weight (of one expert where there are several) in a
 * tensor of theirs. */
struct pdl_weight_place {
    const char *name, *bare; /* bare: without the family's prefix */
    int rank;
    int64_t dim[PDL_MAX_RANK];
    int lead;        /* dimensions of 1 before ours */
    bool transposed; /* rows are their columns */
    bool copy;       /* the weight is there twice: this is the second */
    int64_t expert;  /* -1: none */
    int64_t to, n;
    int64_t from, pair, block, roll, group, stride; /* see pdl_weight_row */
};
/* Which row of theirs is row to + i of ours. */
int64_t pdl_weight_row(const struct pdl_weight_place *p, int64_t i);
/* All places of a weight; none where the family has no name for it. Repeated
 * segments must be written out. */
enum pdl_status pdl_weight_places(pdl_arena *a, const struct pdl_naming *naming,
                                  const struct pdl_model *m, int tensor,
                                  const struct pdl_weight_place **out, int *n,
                                  struct pdl_err *err);

/* ---- where models come from ------------------------------------------- */

/* name[:key=value,...] of the zoo, or a file; the suffix (or the content)
 * decides the reader. dims binds symbolic dimensions: "batch=8,seq=2048". */
struct pdl_model_options {
    const char *dims; /* NULL: none */
    bool logits;      /* up to a softmax at its end (pdl_model_load) */
    bool families;    /* a graph that is a network of a family is read as that
                         (pdl_model_load of an ONNX file) */
};
/* The network of a family of the zoo that a graph is, node for node in another
 * spelling: as many parameters and FLOPs, blocks of the same widths. NULL: it
 * is none that is known. */
enum pdl_status pdl_model_family(pdl_arena *a, const struct pdl_model *m,
                                 const struct pdl_model **out,
                                 struct pdl_err *err);

enum pdl_status pdl_model_load(pdl_arena *a, const char *spec,
                               const struct pdl_model_options *opt,
                               const struct pdl_model **out,
                               struct pdl_err *err);

/* The readers, from memory; name is for messages. */
enum pdl_status pdl_model_onnx(pdl_arena *a, struct pdl_bytes in,
                               const char *name,
                               const struct pdl_model_options *opt,
                               const struct pdl_model **out,
                               struct pdl_err *err);
enum pdl_status pdl_model_hf(pdl_arena *a, struct pdl_bytes in,
                             const char *name,
                             const struct pdl_model_options *opt,
                             const struct pdl_model **out, struct pdl_err *err);
/* in holds the file's beginning (at least the header); file_bytes is the
 * length of the whole file. */
enum pdl_status pdl_model_safetensors(pdl_arena *a, struct pdl_bytes in,
                                      int64_t file_bytes, const char *name,
                                      const struct pdl_model **out,
                                      struct pdl_err *err);
/* The header of such a file as it stands: what weights are read with. */
struct pdl_safetensor {
    const char *name;
    enum pdl_dtype dtype;
    int rank;
    int64_t dim[PDL_MAX_RANK];
    int64_t begin, end; /* bytes of the data */
};
struct pdl_safetensors {
    const struct pdl_safetensor *tensor; /* in the order of the header */
    int ntensors;
    int64_t data_at, data_bytes; /* in the file */
};
enum pdl_status pdl_safetensors_header(pdl_arena *a, struct pdl_bytes in,
                                       int64_t file_bytes, const char *name,
                                       struct pdl_safetensors *out,
                                       struct pdl_err *err);
/* The format's name of a type ("BF16"); false when it has none. */
bool pdl_safetensors_type(enum pdl_dtype t, const char **name);
enum pdl_status pdl_model_yaml(pdl_arena *a, struct pdl_bytes in,
                               const char *name, const struct pdl_model **out,
                               struct pdl_err *err);
void pdl_model_yaml_write(const struct pdl_model *m, struct pdl_sink *out);

/* The zoo: a table of named networks and of families with parameters. */
struct pdl_zoo_entry {
    const char *name;    /* "resnet50" */
    const char *family;  /* "resnet", NULL when it is itself a family */
    const char *params;  /* "depth=50": the family's parameters it sets */
    const char *summary; /* which variant it is */
};
const struct pdl_zoo_entry *pdl_zoo_at(int i); /* NULL past the end */
/* The i-th parameter that a name of the zoo takes, and its value when nobody
 * sets it (0 often means that it follows from others). False past the end, and
 * for a name that is not there. */
struct pdl_zoo_param {
    const char *key, *help;
    const char *choices; /* "18|34|50" or NULL: any number in the range */
    int64_t value, min, max;
};
bool pdl_zoo_param(const char *name, int i, struct pdl_zoo_param *out);
enum pdl_status pdl_zoo_build(pdl_arena *a, const char *spec,
                              const struct pdl_model **out,
                              struct pdl_err *err);
/* One of `parts` narrow networks that have about as many weights together
 * (FedDCT): the same spec with its width divided by sqrt(parts). Refused: a
 * network without a width. */
enum pdl_status pdl_zoo_divide(pdl_arena *a, const char *spec, int parts,
                               const char **out, struct pdl_err *err);

PDL_END
#endif
