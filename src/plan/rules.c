/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as contractions: for each, which index a role cuts and how a
 * shard of one operand goes on to the others. A factor that shards an index
 * shards every operand that has it; operands that lack it are replicated, an
 * output that lacks it is a partial sum. This, applied to y, to dx and to dw,
 * makes data, spatial, filter and channel parallelism of the papers, forward
 * and backward: nothing else is written down per strategy.
 *
 * Dimension 0 of an activation is N, 1 is C (or T), spatial ones follow. */
#include "plan_priv.h"

#include <string.h>

static void none(struct plan_cut *cut)
{
    memset(cut, PDL_REPLICATED, sizeof *cut);
    cut->items = cut->groups = 0;
}

static int last_dim(const struct pdl_tensor *t)
{
    return t->rank; /* N is in front */
}

/* n: every activation has it, weights never do. */
static bool cut_samples(const struct plan_site *s, struct plan_cut *cut)
{
    none(cut);
    for (int i = 0; i < s->node->nin; i++)
        cut->x[i] = 0;
    for (int i = 0; i < s->node->nout; i++)
        cut->y[i] = 0;
    return true;
}

/* t: of what has positions and features. */
static bool cut_positions(const struct plan_site *s, struct plan_cut *cut)
{
    none(cut);
    for (int i = 0; i < s->node->nin; i++)
        cut->x[i] = 1;
    for (int i = 0; i < s->node->nout; i++)
        cut->y[i] = 1;
    return s->y->rank >= 2;
}

/* ---- convolution and linear: the weighted contractions ------------------ */

/* Weight dimensions: [f, c, k...], transposed convolution [c, f, k...]. */
static bool conv_features(const struct plan_site *s, bool filter, bool swapped,
                          struct plan_cut *cut)
{
    int64_t groups = s->node->attr.groups > 1 ? s->node->attr.groups : 1;

    none(cut);
    if (groups > 1) { /* the group index: x, w and y all have it */
        if (groups % s->parts != 0)
            return false;
        cut->x[0] = cut->y[0] = 1;
        cut->w[0] = cut->w[1] = 0;
        cut->items = groups;
        return true;
    }
    if (filter) {
        cut->y[0] = 1;
        cut->w[0] = swapped ? 1 : 0;
        cut->w[1] = 0;
    } else {
        cut->x[0] = 1;
        cut->w[0] = swapped ? 0 : 1;
    }
    return true;
}

static bool spatial_dim(const struct plan_site *s, int dim,
                        struct plan_cut *cut)
{
    none(cut);
    if (dim + 2 > last_dim(s->x))
        return false;
    cut->x[0] = cut->y[0] = (int8_t)(dim + 2);
    return true;
}

static bool conv_role(const struct plan_site *s, enum pdl_axis axis, int dim,
                      struct plan_cut *cut)
{
    bool swapped = plan_is(s->node, PDL_ID_CONV_TRANSPOSE);

    switch (axis) {
    case PDL_AXIS_DATA:
    case PDL_AXIS_EXPERT: /* outside of experts */
        return cut_samples(s, cut);
    case PDL_AXIS_SPATIAL:
        return spatial_dim(s, dim, cut);
    case PDL_AXIS_FILTER:
    case PDL_AXIS_CHANNEL:
        return conv_features(s, axis == PDL_AXIS_FILTER, swapped, cut);
    default:
        return false;
    }
}

static bool follow_samples(const struct plan_site *s, int operand, int d,
                           struct plan_cut *cut)
{
    (void)operand;
    return d == 0 && cut_samples(s, cut);
}

static bool linear_role(const struct plan_site *s, enum pdl_axis axis, int dim,
                        struct plan_cut *cut)
{
    (void)dim;
    none(cut);
    switch (axis) {
    case PDL_AXIS_DATA:
    case PDL_AXIS_EXPERT:
        return cut_samples(s, cut);
    case PDL_AXIS_CONTEXT:
        return cut_positions(s, cut);
    case PDL_AXIS_FILTER:
        cut->y[0] = (int8_t)last_dim(s->y);
        cut->w[0] = cut->w[1] = 0;
        return true;
    case PDL_AXIS_CHANNEL:
        cut->x[0] = (int8_t)last_dim(s->x);
        cut->w[0] = 1;
        return true;
    default:
        return false;
    }
}

/* Positions pass through; the contracted dimension does not. */
static bool linear_follow(const struct plan_site *s, int operand, int d,
                          struct plan_cut *cut)
{
    (void)operand;
    if (d >= last_dim(s->x))
        return false;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    return true;
}

/* ---- element by element -------------------------------------------------- */

/* Dimension d of the output in an operand that may be broadcast: shapes align
 * at the right, N stays in front. */
static int operand_dim(const struct pdl_tensor *x, const struct pdl_tensor *y,
                       int d)
{
    int i = d - 1 - (y->rank - x->rank);

    if (d == 0)
        return x->kind == PDL_TENSOR_ACTIVATION || x->kind == PDL_TENSOR_INPUT
                   ? 0
                   : PDL_REPLICATED;
    return i >= 0 && x->dim[i] == y->dim[d - 1] ? i + 1 : PDL_REPLICATED;
}

/* The dimension of a weight that runs along dimension `out` of y: prelu and
 * scale have one by channel of [C,H,W] (scale: by feature of [T,E]), others
 * lie against the last dimensions of y. */
static int weight_dim(const struct plan_site *s, const struct pdl_tensor *w,
                      int out)
{
    bool scale = plan_is(s->node, PDL_ID_SCALE);
    int d = out - 1 - (s->y->rank - w->rank);

    if (plan_is(s->node, PDL_ID_PRELU) || (scale && s->y->rank > 2))
        d = out - 1;
    if (out < 1 || d < 0 || d >= w->rank || w->dim[d] != s->y->dim[out - 1])
        return PDL_REPLICATED;
    return d;
}

static bool pointwise_follow(const struct plan_site *s, int operand, int d,
                             struct plan_cut *cut)
{
    const struct pdl_tensor *t = s->model->tensors;
    const struct pdl_tensor *mine = &t[s->node->in[operand]];
    int out = d == 0 ? 0 : d + (s->y->rank - mine->rank);

    none(cut);
    if (out > 0 && mine->dim[d - 1] != s->y->dim[out - 1])
        return false; /* the operand is broadcast along it */
    for (int i = 0; i < s->node->nin; i++)
        cut->x[i] = (int8_t)operand_dim(&t[s->node->in[i]], s->y, out);
    for (int i = 0; i < s->node->nout; i++)
        cut->y[i] = (int8_t)out;
    for (int i = 0; i < s->node->nweights; i++)
        cut->w[i] = (int8_t)weight_dim(s, &t[s->node->weights[i]], out);
    return true;
}

/* ---- normalisation ---------------------------------------------------- */

static bool batch_norm_follow(const struct plan_site *s, int operand, int d,
                              struct plan_cut *cut)
{
    (void)operand;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    for (int i = 0; d == 1 && i < s->node->nweights; i++)
        cut->w[i] = 0;
    return true;
}

/* Over the last dimension, or over each head of it. */
static bool layer_norm_follow(const struct plan_site *s, int operand, int d,
                              struct plan_cut *cut)
{
    int64_t size = s->node->attr.features;
    int64_t n = s->x->rank > 0 ? s->x->dim[s->x->rank - 1] : 0;

    (void)operand;
    if (d >= last_dim(s->x) && (size <= 0 || size >= n || n % size != 0))
        return false;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    if (d >= last_dim(s->x))
        cut->items = n / size;
    return true;
}

/* ---- transformers ----------------------------------------------------- */

/* A table's rows: a token finds its row on one rank, the others give 0. */
static bool embedding_role(const struct plan_site *s, enum pdl_axis axis,
                           int dim, struct plan_cut *cut)
{
    (void)dim;
    none(cut);
    if (axis == PDL_AXIS_DATA || axis == PDL_AXIS_EXPERT)
        return cut_samples(s, cut);
    if (axis == PDL_AXIS_CONTEXT)
        return cut_positions(s, cut);
    if (axis != PDL_AXIS_TENSOR)
        return false;
    cut->w[0] = 0;
    return true;
}

/* The sum over experts is cut: a rank has some of them, sees all tokens, and
 * adds what its own say of those that visit them. */
static bool experts_role(const struct plan_site *s, enum pdl_axis axis, int dim,
                         struct plan_cut *cut)
{
    (void)dim;
    none(cut);
    if (axis == PDL_AXIS_DATA)
        return cut_samples(s, cut);
    if (axis == PDL_AXIS_CONTEXT)
        return cut_positions(s, cut);
    if (axis != PDL_AXIS_TENSOR && axis != PDL_AXIS_EXPERT)
        return false;
    for (int j = 0; j < s->node->nweights; j++)
        cut->w[j] = 0;
    cut->items = s->node->attr.experts;
    return true;
}

static bool experts_follow(const struct plan_site *s, int operand, int d,
                           struct plan_cut *cut)
{
    (void)operand;
    return d == 1 && cut_positions(s, cut);
}

static bool embedding_follow(const struct plan_site *s, int operand, int d,
                             struct plan_cut *cut)
{
    (void)operand;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    return d <= last_dim(s->x);
}

/* The row of a position; features of the table go with those of x. */
static bool positions_follow(const struct plan_site *s, int operand, int d,
                             struct plan_cut *cut)
{
    (void)operand;
    none(cut);
    if (d > 1)
        return false;
    (void)s;
    cut->x[0] = cut->y[0] = (int8_t)d;
    return true;
}

/* Heads: q, k, v and the result, in groups that share keys. Positions: those
 * of the queries; keys and values are then needed whole. */
static bool attention_follow(const struct plan_site *s, int operand, int d,
                             struct plan_cut *cut)
{
    none(cut);
    if (s->node->nin != 3)
        return false;
    if (d == 1 && operand == 0) {
        cut->x[0] = cut->y[0] = 1;
        return true;
    }
    if (d != 2)
        return false;
    cut->x[0] = cut->x[1] = cut->x[2] = cut->y[0] = 2;
    if (s->node->nweights > 0) /* the table of distances: a column a head */
        cut->w[0] = 1;
    cut->items = plan_key_groups(s->node);
    return true;
}

bool plan_rule_queries(const struct plan_site *s, struct plan_cut *cut)
{
    none(cut);
    if (!plan_is(s->node, PDL_ID_ATTENTION) || s->node->nin != 3)
        return false;
    cut->x[0] = cut->y[0] = 2;
    if (s->node->nweights > 0)
        cut->w[0] = 1;
    cut->items = s->node->attr.heads;
    return true;
}

int64_t plan_key_groups(const struct pdl_node *n)
{
    if (!plan_is(n, PDL_ID_ATTENTION))
        return 0;
    return n->attr.kv_heads > 0 ? n->attr.kv_heads : n->attr.heads;
}

/* The attention that reads what is rotated is among the next nodes. */
int64_t plan_rule_head_width(const struct pdl_model *m,
                             const struct pdl_node *rope)
{
    enum { NEAR = 32 };
    const struct pdl_node *end = m->nodes + m->nnodes;

    if (rope->attr.head_dim > 0)
        return rope->attr.head_dim;

    for (const struct pdl_node *n = rope + 1; n < end && n < rope + NEAR; n++)
        for (int k = 0; k < 2 && k < n->nin && plan_is(n, PDL_ID_ATTENTION);
             k++)
            if (n->in[k] == rope->out[0])
                return n->attr.head_dim;
    return 0;
}

/* A rotation turns pairs of features of a head: whole heads stay together. */
static bool rope_follow(const struct plan_site *s, int operand, int d,
                        struct plan_cut *cut)
{
    int64_t n = s->x->rank > 0 ? s->x->dim[s->x->rank - 1] : 0, width;

    (void)operand;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    if (d < last_dim(s->x))
        return s->node->nin == 1;
    width = plan_rule_head_width(s->model, s->node);
    cut->items = width > 0 ? n / width : 0;
    return s->node->nin == 1 && width > 0 && n % width == 0;
}

/* Whole heads; what is the same for all of them is not cut. */
static bool heads_follow(const struct plan_site *s, int operand, int d,
                         struct plan_cut *cut)
{
    none(cut);
    if (d == 1)
        return cut_positions(s, cut);
    if (d != 2 || operand > 0)
        return false;
    cut->x[0] = cut->y[0] = 2;
    if (s->node->nweights > 0)
        cut->w[0] = 1;
    cut->items = s->node->attr.heads;
    return true;
}

/* ---- windows without weights --------------------------------------------- */

static bool pool_follow(const struct plan_site *s, int operand, int d,
                        struct plan_cut *cut)
{
    (void)operand;
    (void)s;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    return true;
}

/* A mean over s is a partial sum over the ranks that shard s. */
static bool global_avg_follow(const struct plan_site *s, int operand, int d,
                              struct plan_cut *cut)
{
    (void)operand;
    (void)s;
    none(cut);
    cut->x[0] = (int8_t)d;
    if (d < 2)
        cut->y[0] = (int8_t)d;
    return true;
}

/* ---- shapes ----------------------------------------------------------- */

/* Joined dimensions keep a shard of the outermost only. */
static bool flatten_follow(const struct plan_site *s, int operand, int d,
                           struct plan_cut *cut)
{
    (void)operand;
    if (d > 1 || (d == 1 && s->y->rank != 1))
        return false;
    none(cut);
    cut->x[0] = cut->y[0] = (int8_t)d;
    return true;
}

static bool concat_follow(const struct plan_site *s, int operand, int d,
                          struct plan_cut *cut)
{
    (void)operand;
    if (d == s->node->attr.axis + 1)
        return false;
    none(cut);
    for (int i = 0; i < s->node->nin; i++)
        cut->x[i] = (int8_t)d;
    for (int i = 0; i < s->node->nout; i++)
        cut->y[i] = (int8_t)d;
    return true;
}

/* One that says where it cuts; imported ones may know their shapes only. */
static bool slice_follow(const struct plan_site *s, int operand, int d,
                         struct plan_cut *cut)
{
    return s->node->attr.ndims >= 2 && s->node->nin == 1 &&
           concat_follow(s, operand, d, cut);
}

/* ---- table ------------------------------------------------------------ */

enum { WINDOW = 1, STATISTICS = 2, BIAS = 4 };

static const struct rule {
    const char *op;
    bool (*role)(const struct plan_site *, enum pdl_axis, int,
                 struct plan_cut *);
    bool (*follow)(const struct plan_site *, int, int, struct plan_cut *);
    unsigned flags;
} rules[] = {
    // clang-format off
    {"conv",             conv_role,   follow_samples,    WINDOW | BIAS},
    {"conv_transpose",   conv_role,   follow_samples,    WINDOW | BIAS},
    {"linear",           linear_role, linear_follow,     BIAS},
    {"batch_norm",       NULL,        batch_norm_follow, STATISTICS},
    {"layer_norm",       NULL,        layer_norm_follow, 0},
    {"rms_norm",         NULL,        layer_norm_follow, 0},
    {"embedding",        embedding_role, embedding_follow, 0},
    {"position_embedding", NULL,      positions_follow,  0},
    {"experts",          experts_role, experts_follow,   0},
    {"attention",        NULL,        attention_follow,  0},
    {"rope",             NULL,        rope_follow,       0},
    {"slice_heads",      NULL,        heads_follow,      0},
    {"join_heads",       NULL,        heads_follow,      0},
    {"max_pool",         NULL,        pool_follow,       WINDOW},
    {"avg_pool",         NULL,        pool_follow,       WINDOW},
    {"global_avg_pool",  NULL,        global_avg_follow, 0},
    {"flatten",          NULL,        flatten_follow,    0},
    {"concat",           NULL,        concat_follow,     0},
    {"slice",            NULL,        slice_follow,      0},
    {"softmax",          NULL,        concat_follow,     0},
    {"cumsum",           NULL,        concat_follow,     0},
    {"lrn",              NULL,        NULL,              0},
    // clang-format on
};

/* Operators that work element by element, by name. */
static const char *const pointwise[] = {
    "relu",       "relu6",        "gelu",   "silu",       "sigmoid",
    "tanh",       "add",          "sub",    "mul",        "div",
    "hard_swish", "hard_sigmoid", "elu",    "dropout",    "identity",
    "leaky_relu", "softplus",     "prelu",  "scale",      "cast",
    "exp",        "sqrt",         "affine", "power",      "clip",
    "where",      "equal",        "less",   "less_equal", "greater",
    "and",        "or",           "xor",    "not",        "greater_equal",
    NULL};

static bool is_pointwise(const char *op)
{
    for (int i = 0; pointwise[i]; i++)
        if (pointwise[i][0] == op[0] && strcmp(pointwise[i], op) == 0)
            return true;
    return false;
}

static const struct rule *find(const char *op)
{
    static const struct rule each = {"", NULL, pointwise_follow, 0};
    static const struct rule other = {"", NULL, follow_samples, 0};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].op[0] == op[0] && strcmp(rules[i].op, op) == 0)
            return &rules[i];
    return is_pointwise(op) ? &each : &other;
}

void plan_site_init(const struct pdl_model *m, int node, int64_t parts,
                    struct plan_site *s)
{
    const struct pdl_node *n = &m->nodes[node];

    *s = (struct plan_site){
        .model = m,
        .node = n,
        .x = n->nin > 0 ? &m->tensors[n->in[0]] : NULL,
        .y = n->nout > 0 ? &m->tensors[n->out[0]] : NULL,
        .w = n->nweights > 0 ? &m->tensors[n->weights[0]] : NULL,
        .parts = parts,
    };
}

bool plan_rule_role(const struct plan_site *s, enum pdl_axis axis, int dim,
                    struct plan_cut *cut)
{
    const struct rule *r = find(s->node->op->name);

    return r->role && r->role(s, axis, dim, cut);
}

bool plan_rule_follow(const struct plan_site *s, int operand, int d,
                      struct plan_cut *cut)
{
    const struct rule *r = find(s->node->op->name);

    if (d == 0)
        return cut_samples(s, cut);
    return r->follow && r->follow(s, operand, d, cut);
}

bool plan_rule_window(const struct plan_site *s, int d, struct pdl_window *w,
                      bool *transposed)
{
    const struct rule *r = find(s->node->op->name);
    const struct pdl_attr *a = &s->node->attr;
    bool swap = pdl_op_id(s->node->op) == PDL_ID_CONV_TRANSPOSE;
    const struct pdl_tensor *in = swap ? s->y : s->x;
    const struct pdl_tensor *out = swap ? s->x : s->y;
    int k = d - 2;

    if (!(r->flags & WINDOW) || k < 0 || k >= PDL_MAX_SPATIAL)
        return false;
    *w = (struct pdl_window){
        .kernel = a->kernel[k],
        .stride = a->stride[k] ? a->stride[k] : 1,
        .dilation = a->dilation[k] ? a->dilation[k] : 1,
        .pad = a->pad[k],
        .in = in->dim[d - 1],
        .out = out->dim[d - 1],
    };
    *transposed = swap;
    return true;
}

bool plan_rule_is_pointwise(const struct pdl_node *n)
{
    return is_pointwise(n->op->name);
}

bool plan_rule_has_role(const struct pdl_node *n)
{
    return find(n->op->name)->role != NULL;
}

bool plan_rule_has_statistics(const struct pdl_node *n)
{
    return find(n->op->name)->flags & STATISTICS;
}

bool plan_rule_has_window(const struct pdl_node *n)
{
    return find(n->op->name)->flags & WINDOW;
}

bool plan_rule_has_bias(const struct pdl_node *n)
{
    return find(n->op->name)->flags & BIAS && n->nweights > 1;
}
