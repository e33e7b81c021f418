/* Shared inside the model room: the operator families and what their files
 * have in common. */
#ifndef MODEL_PRIV_H
#define MODEL_PRIV_H

#include "paradl/model.h"

/* A family of operators: one file, one array. */
struct model_ops {
    const struct pdl_op *rows;
    int count;
};
extern const struct model_ops model_ops_conv, model_ops_pool, model_ops_linear,
    model_ops_attention, model_ops_norm, model_ops_pointwise,
    model_ops_broadcast, model_ops_shape, model_ops_index, model_ops_other;

/* "[64,56,56]", cut with an ellipsis where buf is too small. */
const char *model_shape_text(const struct pdl_tensor *t, char *buf,
                             size_t size);
/* The same shape; names, kinds and types do not matter. */
bool model_same_shape(const struct pdl_tensor *a, const struct pdl_tensor *b);
/* All dimensions >= 0 and every product of some of them fits, so that the
 * functions below need no checks. */
bool model_shape_valid(const struct pdl_tensor *t);
/* Writes a weight's description. */
void model_weight(struct pdl_tensor *w, const char *name,
                  enum pdl_tensor_kind kind, int rank, const int64_t *dim);
/* An output like t, ready to have its dimensions changed. */
struct pdl_tensor model_like(const struct pdl_tensor *t);
/* Attributes where 0 stands for 1. */
int64_t model_or1(int64_t v);
/* The product of dimensions [from, to) of a checked shape. */
int64_t model_prod(const struct pdl_tensor *t, int from, int to);

/* Sliding windows, shared by convolution and pooling: the number of windows
 * along spatial dimension i of extent x, or an error. */
enum pdl_status model_windows(const struct pdl_attr *attr, int i, int64_t x,
                              int64_t *out, struct pdl_err *err);
/* x is [C, 1 to 3 spatial dimensions] and the attributes fit that rank. */
enum pdl_status model_check_spatial(const struct pdl_attr *attr,
                                    const struct pdl_tensor *x,
                                    struct pdl_err *err);
/* *total *= factor, false on overflow. */
bool model_times(int64_t *total, int64_t factor);

/* Operands of a node, looked up. */
enum { MODEL_MAX_IN = 64 };
struct model_operands {
    struct pdl_op_use use;
    const struct pdl_tensor *in[MODEL_MAX_IN];
    const struct pdl_tensor *w[PDL_OP_MAX_WEIGHTS];
};
void model_operands(const struct pdl_tensor *tensors,
                    const struct pdl_node *node, struct model_operands *out);
/* Whether a node of segment `reader` may read tensor t. */
bool model_readable(const struct pdl_tensor *tensors,
                    const struct pdl_segment *segments, int reader, int t);
/* The same model, or one without a softmax at its end. */
enum pdl_status model_logits(pdl_arena *a, const struct pdl_model **model,
                             struct pdl_err *err);
/* Output shapes of a node; *nout and out as for pdl_op.infer. Given shapes
 * that disagree with inference are refused. */
enum pdl_status model_infer(const struct pdl_op *op, const struct pdl_op_use *u,
                            struct pdl_tensor *out, int *nout,
                            struct pdl_err *err);

/* The builder's first failure, for readers that know where in a file it is. */
enum pdl_status model_build_status(const pdl_build *b, struct pdl_err *err);

/* Which configuration it was read from, what differs (NULL: nothing), and how
 * many tokens it allows where nobody chose (0: somebody did). */
void model_build_type(pdl_build *b, const char *type, const char *inexact,
                      const struct pdl_router *router, int64_t most_tokens);

/* A node that makes its weights itself, with everything else as given. */
int model_build_own(pdl_build *b, const struct pdl_build_spec *spec);
void model_build_unknown(pdl_build *b, const char *op, int64_t count);

/* ---- our own format --------------------------------------------------- */

/* Names to numbers; zeroed to begin with. A name that is there keeps its
 * value. find returns where the value is, NULL when there is none. */
struct model_names {
    struct model_name *slots;
    size_t count, cap;
};
bool model_names_add(struct model_names *n, pdl_arena *a, const char *name,
                     int value);
int *model_names_find(const struct model_names *n, const char *name);

/* Fails at a node that is not of the kind; what says what was expected. */
enum pdl_status model_yaml_want(const struct pdl_doc *d, enum pdl_doc_kind kind,
                                const char *what, struct pdl_err *err);
/* The value of a key that must be there. */
enum pdl_status model_yaml_need(const struct pdl_doc *map, const char *key,
                                const struct pdl_doc **out,
                                struct pdl_err *err);
/* {name, dtype, shape} and, where asked for, kind, into a zeroed tensor. The
 * name may be absent. */
enum pdl_status model_yaml_tensor(const struct pdl_doc *map, bool kind,
                                  struct pdl_tensor *t, struct pdl_err *err);
/* Attributes; spatial is how many spatial dimensions the first input has. */
const char *model_attr_key(int i); /* NULL past the end */
enum pdl_status model_attr_read(const struct pdl_doc *map, int spatial,
                                struct pdl_attr *attr, struct pdl_err *err);
void model_attr_write(struct pdl_sink *out, const struct pdl_attr *attr,
                      int spatial); /* ", key: value" ... */
void model_write_list(struct pdl_sink *out, const int64_t *v, int n);

/* ---- the zoo ---------------------------------------------------------- */

/* A parameter of a family. Values are whole numbers; where choices is set
 * ("18|34|50", "3x3|1x1") only those are accepted, and a choice that is not a
 * number counts from 0. unset: the value when nobody gives one. */
struct model_param {
    const char *key, *help, *choices;
    int64_t unset, min, max;
};

/* One family: one file, one row in zoo.c. build writes the network with the
 * values v in the order of params; failures stick to b. entries are the named
 * networks of the family: (name, family, parameters, summary). */
struct model_family {
    struct pdl_zoo_entry self; /* {name, NULL, NULL, summary} */
    const char *source, *kind;
    const struct model_param *params;
    int nparams;
    void (*build)(pdl_build *b, const int64_t *v);
    const struct pdl_zoo_entry *entries;
    int nentries;
    /* one with a parameter "width" can be divided into narrow ones: added
     * before the narrow width is rounded down; 0: it cannot */
    double divide_up;
};
enum { MODEL_MAX_PARAMS = 32 };
extern const struct model_family model_zoo_lenet, model_zoo_alexnet,
    model_zoo_vgg, model_zoo_resnet, model_zoo_wrn, model_zoo_densenet,
    model_zoo_mobilenet, model_zoo_efficientnet, model_zoo_unet,
    model_zoo_unet3d, model_zoo_cosmoflow, model_zoo_deepcam,
    model_zoo_mobilenet3, model_zoo_googlenet, model_zoo_squeezenet,
    model_zoo_regnet, model_zoo_resnet_cifar, model_zoo_resnet9,
    model_zoo_preact;
extern const struct model_family model_zoo_gpt, model_zoo_llama, model_zoo_moe,
    model_zoo_deepseek, model_zoo_deepseek4, model_zoo_nemotron, model_zoo_bert,
    model_zoo_vit, model_zoo_t5;

/* What builders of networks share. Names are made with model_label("...").s,
 * which lives until the end of the statement. */
struct model_label {
    char s[128];
};
struct model_label model_label(const char *fmt, ...) PDL_PRINTF(1, 2);

/* A convolution with the same extents in all spatial dimensions of x; zero
 * fields read as kernel 1, stride 1, dilation 1, one group. */
struct model_conv {
    int64_t f, k, s, p, dilation, groups;
    bool bias;
    double epsilon, momentum; /* of the norm that follows; 0: the usual */
};
int model_conv(pdl_build *b, const char *name, int x, struct model_conv c);
int model_conv_transpose(pdl_build *b, const char *name, int x,
                         struct model_conv c);
int model_pool(pdl_build *b, const char *op, const char *name, int x, int64_t k,
               int64_t s, int64_t p);
/* Largest of k x k, stride 2; a window that begins inside counts. */
int model_pool_ceil(pdl_build *b, const char *name, int x, int64_t k);
/* Convolution, norm and, unless it is NULL, activation: name.0, .1, .2 */
int model_conv_norm(pdl_build *b, const char *name, int x, struct model_conv c,
                    const char *act);
/* Squeeze and excitation (Hu et al., CVPR 2018): channels weighed by a
 * function of their means. */
int model_squeeze(pdl_build *b, const char *name, int x, int64_t narrow,
                  const char *act, const char *gate);
int model_dropout(pdl_build *b, const char *name, int x, int64_t percent);
int64_t model_channels(const pdl_build *b, int x);
int model_linear(pdl_build *b, const char *name, int x, int64_t features);
int model_unary(pdl_build *b, const char *op, const char *name, int x);
int model_binary(pdl_build *b, const char *op, const char *name, int x, int y);
int model_concat(pdl_build *b, const char *name, const int *in, int nin);
/* An image [channels, size, size], or a volume for rank 3. */
int model_image(pdl_build *b, int64_t channels, int64_t size, int rank);

#endif
