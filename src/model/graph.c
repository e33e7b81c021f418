/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder: tensors, nodes and segments grow in the caller's arena, and
 * the first failure sticks, so that whoever builds a network writes it down
 * like a list and checks once at the end.
 *
 * Segments: nodes are appended to the open one. A repeated block closes it and
 * opens its own; what follows opens another. Memory is what the nodes need,
 * whatever the repeat counts are. */
#include "model_priv.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct pdl_build {
    pdl_arena *arena;
    struct pdl_model model; /* what is known already; arrays are below */
    struct pdl_tensor *tensors;
    struct pdl_node *nodes;
    struct pdl_segment *segments;
    const char **unknown;
    int64_t *unknown_counts;
    int ntensors, nnodes, nsegments, nunknown;
    int cap_tensors, cap_nodes, cap_segments, cap_unknown;
    int segment_tensors; /* made in the open segment */
    bool repeating;
    enum pdl_status status;
    struct pdl_err err;
};

static bool ok(const pdl_build *b)
{
    return b && b->status == PDL_OK;
}

void pdl_build_fail(pdl_build *b, enum pdl_status st, const char *fmt, ...)
{
    char text[sizeof b->err.msg];
    va_list ap;

    if (!ok(b))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->status = pdl_fail(&b->err, st, "%s", text);
}

enum pdl_status model_build_status(const pdl_build *b, struct pdl_err *err)
{
    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the network");
    if (b->status != PDL_OK && err)
        *err = b->err;
    return b->status;
}

static int no_memory(pdl_build *b)
{
    pdl_build_fail(b, PDL_ENOMEM, "out of memory for the network");
    return -1;
}

/* Room for one more item; false when memory is out. */
static bool room(pdl_build *b, void **items, int count, int *cap, size_t size)
{
    void *grown;

    if (count < *cap)
        return true;
    if (count > INT_MAX / 4)
        return false;
    grown = pdl_arena_grow(b->arena, *items, (size_t)count,
                           count ? 2 * (size_t)count : 16, size);
    if (!grown)
        return false;
    *items = grown;
    *cap = count ? 2 * count : 16;
    return true;
}

static bool open_segment(pdl_build *b, int64_t repeat, int64_t first, int carry)
{
    void *p = b->segments;

    if (!room(b, &p, b->nsegments, &b->cap_segments, sizeof *b->segments)) {
        no_memory(b);
        return false;
    }
    b->segments = p;
    b->segments[b->nsegments++] = (struct pdl_segment){
        .first_node = b->nnodes,
        .repeat = repeat,
        .first_index = first,
        .carry_in = carry,
        .carry_out = -1,
    };
    b->segment_tensors = 0;
    return true;
}

pdl_build *pdl_build_begin(pdl_arena *a, const char *name)
{
    pdl_build *b = PDL_NEW(a, struct pdl_build, 1);

    if (!b)
        return NULL;
    b->arena = a;
    b->model = (struct pdl_model){
        .name = pdl_arena_strdup(a, name ? name : ""),
        .source = "",
        .kind = "other",
        .source_nodes = -1,
    };
    if (!b->model.name)
        no_memory(b);
    open_segment(b, 1, 0, -1);
    return b;
}

/* Appends a tensor whose name already lives in the arena. */
static int add_tensor(pdl_build *b, const struct pdl_tensor *t)
{
    void *p = b->tensors;
    char shape[128];

    if (!ok(b))
        return -1;
    if (!model_shape_valid(t)) {
        pdl_build_fail(b, PDL_EINVAL, "%.200s: %s is no shape, or too large",
                       t->name, model_shape_text(t, shape, sizeof shape));
        return -1;
    }
    if (!room(b, &p, b->ntensors, &b->cap_tensors, sizeof *b->tensors))
        return no_memory(b);
    b->tensors = p;
    b->tensors[b->ntensors] = *t;
    b->tensors[b->ntensors].segment = b->nsegments - 1;
    b->segment_tensors++;
    return b->ntensors++;
}

int pdl_build_tensor(pdl_build *b, const char *name, enum pdl_tensor_kind kind,
                     enum pdl_dtype dtype, int rank, const int64_t *dim)
{
    struct pdl_tensor t = {.dtype = dtype, .kind = kind, .rank = rank};

    if (!ok(b))
        return -1;
    if (rank < 0 || rank > PDL_MAX_RANK) {
        pdl_build_fail(b, PDL_EINVAL, "%.200s: rank %d is outside 0 to %d",
                       name, rank, PDL_MAX_RANK);
        return -1;
    }
    for (int i = 0; i < rank; i++)
        t.dim[i] = dim[i];
    t.name = pdl_arena_strdup(b->arena, name ? name : "");
    if (!t.name)
        return no_memory(b);
    return add_tensor(b, &t);
}

const struct pdl_tensor *pdl_build_get(const pdl_build *b, int t)
{
    return ok(b) && t >= 0 && t < b->ntensors ? &b->tensors[t] : NULL;
}

/* Only carry_out leaves a repeated segment: every other tensor of it exists
 * once a round. */
bool model_readable(const struct pdl_tensor *tensors,
                    const struct pdl_segment *segments, int reader, int t)
{
    int s = tensors[t].segment;

    return s == reader || segments[s].repeat == 1 || segments[s].carry_out == t;
}

static bool check_ids(pdl_build *b, const struct pdl_build_spec *spec,
                      const int *ids, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= b->ntensors) {
            pdl_build_fail(b, PDL_EINVAL, "%.100s (%s): no %s %d", spec->name,
                           spec->op, what, ids[i]);
            return false;
        }
        if (!model_readable(b->tensors, b->segments, b->nsegments - 1,
                            ids[i])) {
            pdl_build_fail(b, PDL_EINVAL,
                           "%.100s (%s): reads '%.100s' inside a repeated "
                           "block",
                           spec->name, spec->op, b->tensors[ids[i]].name);
            return false;
        }
    }
    return true;
}

static const struct pdl_op *find_op(pdl_build *b, const char *name,
                                    const char *node)
{
    const struct pdl_op *op = pdl_op_find(name);
    struct pdl_suggest s;

    if (op)
        return op;
    pdl_build_fail(b, PDL_EINVAL, "%.100s: no operator '%.60s'", node, name);
    pdl_suggest_init(&s, name);
    for (int i = 0; (op = pdl_op_at(i)) != NULL; i++)
        pdl_suggest_try(&s, op->name);
    if (pdl_suggest_best(&s))
        pdl_hint(&b->err, "did you mean '%s'?", pdl_suggest_best(&s));
    return NULL;
}

/* Puts "name (op): " before a message of the operator's. */
static void fail_at(pdl_build *b, const struct pdl_build_spec *spec,
                    enum pdl_status st, const struct pdl_err *inner)
{
    pdl_build_fail(b, st, "%.100s (%s): %s", spec->name, spec->op, inner->msg);
    if (*inner->hint)
        pdl_hint(&b->err, "%s", inner->hint);
}

/* The node's own copy of its ids, outputs behind the rest. */
static int *copy_ids(pdl_build *b, const struct pdl_build_spec *spec,
                     struct pdl_node *node, int nout)
{
    size_t n = (size_t)spec->nin + (size_t)spec->nweights;
    int *ids = PDL_NEW(b->arena, int, n + (size_t)nout);

    if (!ids) {
        no_memory(b);
        return NULL;
    }
    if (spec->nin)
        memcpy(ids, spec->in, (size_t)spec->nin * sizeof *ids);
    if (spec->nweights)
        memcpy(ids + spec->nin, spec->weights,
               (size_t)spec->nweights * sizeof *ids);
    node->in = ids;
    node->weights = ids + spec->nin;
    node->out = ids + n;
    node->nout = nout;
    return ids + n;
}

static enum pdl_status outputs(pdl_build *b, const struct pdl_build_spec *spec,
                               const struct pdl_node *node,
                               struct pdl_tensor *out, int *nout)
{
    struct model_operands operands;
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    model_operands(b->tensors, node, &operands);
    *nout = spec->nout;
    if (spec->nout)
        memcpy(out, spec->out, (size_t)spec->nout * sizeof *out);
    for (int i = 0; i < spec->nout; i++)
        if (!model_shape_valid(&out[i])) {
            pdl_build_fail(b, PDL_EINVAL,
                           "%.100s (%s): an output shape is too large",
                           spec->name, spec->op);
            return b->status;
        }
    st = model_infer(node->op, &operands.use, out, nout, &err);
    if (st != PDL_OK)
        fail_at(b, spec, st, &err);
    return st;
}

static bool add_outputs(pdl_build *b, const struct pdl_build_spec *spec,
                        struct pdl_node *node)
{
    struct pdl_tensor out[PDL_OP_MAX_OUT];
    int nout = 0, *ids;

    if (outputs(b, spec, node, out, &nout) != PDL_OK)
        return false;
    ids = copy_ids(b, spec, node, nout);
    if (!ids)
        return false;
    for (int i = 0; i < nout; i++) {
        const char *name = i < spec->nout ? out[i].name : NULL;
        char index[16] = "";

        if (i > 0)
            snprintf(index, sizeof index, "%d", i);
        name = name ? pdl_arena_strdup(b->arena, name)
                    : pdl_arena_printf(b->arena, "%s.y%s", node->name, index);
        if (!name) {
            no_memory(b);
            return false;
        }
        out[i].name = name;
        out[i].kind = PDL_TENSOR_ACTIVATION;
        ids[i] = add_tensor(b, &out[i]);
        if (ids[i] < 0)
            return false;
    }
    return true;
}

/* Of windows, 0 stands for 1: later readers find it spelled out. */
static void spell_out(struct pdl_attr *attr)
{
    for (int i = 0; i < PDL_MAX_SPATIAL && attr->kernel[i]; i++) {
        attr->stride[i] = model_or1(attr->stride[i]);
        attr->dilation[i] = model_or1(attr->dilation[i]);
    }
    if (attr->kernel[0] && attr->features)
        attr->groups = model_or1(attr->groups);
}

/* Fills a node except for its outputs. */
static bool describe(pdl_build *b, const struct pdl_build_spec *spec,
                     struct pdl_node *node)
{
    static const struct pdl_attr none;

    node->op = find_op(b, spec->op, spec->name);
    if (!node->op || !check_ids(b, spec, spec->in, spec->nin, "input") ||
        !check_ids(b, spec, spec->weights, spec->nweights, "weight"))
        return false;
    node->attr = spec->attr ? *spec->attr : none;
    spell_out(&node->attr);
    if (spec->nin > MODEL_MAX_IN || spec->nweights > PDL_OP_MAX_WEIGHTS ||
        spec->nout > PDL_OP_MAX_OUT || node->attr.ndims < 0 ||
        node->attr.ndims > PDL_MAX_RANK) {
        pdl_build_fail(b, PDL_EINVAL,
                       "%.100s (%s): too many operands, outputs or dims",
                       spec->name, spec->op);
        return false;
    }
    node->in = spec->in; /* for now: copied once the outputs are known */
    node->weights = spec->weights;
    node->nin = spec->nin;
    node->nweights = spec->nweights;
    node->name = pdl_arena_strdup(b->arena, spec->name);
    if (spec->source_op)
        node->source_op = pdl_arena_strdup(b->arena, spec->source_op);
    if (!node->name || (spec->source_op && !node->source_op)) {
        no_memory(b);
        return false;
    }
    return true;
}

int pdl_build_node(pdl_build *b, const struct pdl_build_spec *spec)
{
    struct pdl_node node = {.nin = 0};
    void *p;

    if (!ok(b))
        return -1;
    p = b->nodes;
    if (!room(b, &p, b->nnodes, &b->cap_nodes, sizeof *b->nodes))
        return no_memory(b);
    b->nodes = p;
    if (!describe(b, spec, &node) || !add_outputs(b, spec, &node))
        return -1;
    b->nodes[b->nnodes++] = node;
    b->segments[b->nsegments - 1].nnodes++;
    return node.out[0];
}

/* Makes the weights an operator asks for. */
static int make_weights(pdl_build *b, const struct pdl_op *op,
                        const struct pdl_build_spec *spec, int *ids)
{
    static const struct pdl_attr none;
    struct pdl_tensor w[PDL_OP_MAX_WEIGHTS], x;
    int n;

    if (!op->weights || spec->nin < 1)
        return 0;
    x = b->tensors[spec->in[0]];
    n = op->weights(spec->attr ? spec->attr : &none, &x, w);
    for (int i = 0; i < n; i++) {
        w[i].name = pdl_arena_printf(b->arena, "%s.%s", spec->name, w[i].name);
        /* token ids: the table is not made of integers */
        w[i].dtype = x.dtype > PDL_F4 ? PDL_F32 : x.dtype;
        if (!w[i].name)
            return no_memory(b);
        ids[i] = add_tensor(b, &w[i]);
        if (ids[i] < 0)
            return -1;
    }
    return n;
}

int model_build_own(pdl_build *b, const struct pdl_build_spec *spec)
{
    struct pdl_build_spec full = *spec;
    int weights[PDL_OP_MAX_WEIGHTS];
    const struct pdl_op *op;

    if (!ok(b))
        return -1;
    op = find_op(b, spec->op, spec->name);
    if (!op || !check_ids(b, spec, spec->in, spec->nin, "input"))
        return -1;
    full.weights = weights;
    full.nweights = make_weights(b, op, spec, weights);
    return full.nweights < 0 ? -1 : pdl_build_node(b, &full);
}

int pdl_build_op(pdl_build *b, const char *op, const char *name,
                 const struct pdl_attr *attr, const int *in, int nin)
{
    struct pdl_build_spec spec = {
        .op = op, .name = name, .attr = attr, .in = in, .nin = nin};

    return model_build_own(b, &spec);
}

int pdl_build_output(pdl_build *b, int t, int i)
{
    if (!ok(b))
        return -1;
    for (int n = b->nnodes - 1; n >= 0; n--)
        if (b->nodes[n].nout > 0 && b->nodes[n].out[0] == t && i >= 0 &&
            i < b->nodes[n].nout)
            return b->nodes[n].out[i];
    pdl_build_fail(b, PDL_EINVAL, "tensor %d has no output %d beside it", t, i);
    return -1;
}

void pdl_build_repeat(pdl_build *b, int64_t repeat, int64_t first_index,
                      int carry)
{
    const struct pdl_segment *open;

    if (!ok(b))
        return;
    if (b->repeating || repeat < 1 || first_index < 0 || carry < 0 ||
        carry >= b->ntensors) {
        pdl_build_fail(b, PDL_EINVAL,
                       b->repeating ? "a repeated block inside another"
                                    : "a repeated block needs a count of at "
                                      "least 1 and a tensor to carry");
        return;
    }
    open = &b->segments[b->nsegments - 1];
    if (!model_readable(b->tensors, b->segments, b->nsegments, carry)) {
        pdl_build_fail(b, PDL_EINVAL,
                       "'%.100s' cannot be carried out of the block that "
                       "makes it",
                       b->tensors[carry].name);
        return;
    }
    if (open->nnodes == 0 && b->segment_tensors == 0)
        b->nsegments--; /* nothing in between */
    b->repeating = open_segment(b, repeat, first_index, carry);
}

int pdl_build_repeat_end(pdl_build *b, int carry)
{
    struct pdl_segment *s;
    char in[96], out[96];

    if (!ok(b))
        return -1;
    s = &b->segments[b->nsegments - 1];
    if (!b->repeating || carry < 0 || carry >= b->ntensors ||
        b->tensors[carry].segment != b->nsegments - 1 ||
        b->tensors[carry].kind != PDL_TENSOR_ACTIVATION) {
        pdl_build_fail(b, PDL_EINVAL,
                       "a repeated block must end with a tensor it makes");
        return -1;
    }
    if (!model_same_shape(&b->tensors[s->carry_in], &b->tensors[carry])) {
        pdl_build_fail(
            b, PDL_EINVAL, "a repeated block begins with %s but ends with %s",
            model_shape_text(&b->tensors[s->carry_in], in, sizeof in),
            model_shape_text(&b->tensors[carry], out, sizeof out));
        return -1;
    }
    s->carry_out = carry;
    b->repeating = false;
    return open_segment(b, 1, 0, -1) ? carry : -1;
}

static bool more_unknown(pdl_build *b)
{
    void *names = b->unknown, *counts = b->unknown_counts;
    int cap = b->cap_unknown;

    if (!room(b, &names, b->nunknown, &cap, sizeof *b->unknown))
        return false;
    cap = b->cap_unknown;
    if (!room(b, &counts, b->nunknown, &cap, sizeof *b->unknown_counts))
        return false;
    b->unknown = names;
    b->unknown_counts = counts;
    b->cap_unknown = cap;
    return true;
}

void model_build_unknown(pdl_build *b, const char *op, int64_t count)
{
    if (!ok(b))
        return;
    for (int i = 0; i < b->nunknown; i++)
        if (strcmp(b->unknown[i], op) == 0) {
            b->unknown_counts[i] += count;
            return;
        }
    if (!more_unknown(b)) {
        no_memory(b);
        return;
    }
    b->unknown[b->nunknown] = pdl_arena_strdup(b->arena, op);
    if (!b->unknown[b->nunknown]) {
        no_memory(b);
        return;
    }
    b->unknown_counts[b->nunknown++] = count;
}

void pdl_build_unknown(pdl_build *b, const char *op)
{
    model_build_unknown(b, op, 1);
}

void pdl_build_meta(pdl_build *b, const char *kind, const char *source,
                    int64_t tokens, int64_t source_nodes)
{
    if (!ok(b))
        return;
    if (kind)
        b->model.kind = pdl_arena_strdup(b->arena, kind);
    if (source)
        b->model.source = pdl_arena_strdup(b->arena, source);
    b->model.tokens = tokens;
    b->model.source_nodes = source_nodes;
    if (!b->model.kind || !b->model.source)
        no_memory(b);
}

static struct pdl_model *finish(pdl_build *b)
{
    struct pdl_model *m = PDL_NEW(b->arena, struct pdl_model, 1);

    if (!m) {
        no_memory(b);
        return NULL;
    }
    if (b->nsegments > 1 && b->segment_tensors == 0 &&
        b->segments[b->nsegments - 1].nnodes == 0)
        b->nsegments--; /* nothing after the last block */
    *m = b->model;
    m->ntensors = b->ntensors;
    m->nnodes = b->nnodes;
    m->nsegments = b->nsegments;
    m->nunknown = b->nunknown;
    m->tensors = b->tensors;
    m->nodes = b->nodes;
    m->segments = b->segments;
    m->unknown_ops = b->unknown;
    m->unknown_counts = b->unknown_counts;
    return m;
}

enum pdl_status pdl_build_end(pdl_build *b, const struct pdl_model **out,
                              struct pdl_err *err)
{
    const struct pdl_model *m;

    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the network");
    if (b->repeating)
        pdl_build_fail(b, PDL_EINVAL, "a repeated block is not closed");
    m = ok(b) ? finish(b) : NULL;
    if (!ok(b)) {
        if (err)
            *err = b->err;
        return b->status;
    }
    *out = m;
    return PDL_OK;
}
