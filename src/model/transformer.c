/* SPDX-License-Identifier: Apache-2.0
 *
 * The transformer builder: embeddings, the runs of layers, the head. The
 * layers themselves are in tf_layer.c and tf_mixer.c.
 *
 * A run of equal layers becomes one repeated segment, so the graph's size does
 * not depend on the depth. Layers that share one set of weights (ALBERT) are
 * built twice: the first round makes the weights, a repeated segment for the
 * others uses them, and so they count once. */
#include "transformer.h"

#include <stdio.h>
#include <string.h>

struct model_label model_tf_name(const struct model_tf_ctx *c, const char *part)
{
    return model_label("%s%s", c->prefix, part);
}

/* A weight of this node, or the one the first round made. */
static int weight(struct model_tf_ctx *c, const char *node,
                  const struct pdl_tensor *w)
{
    int id;

    if (c->sharing == TF_REPLAY)
        return c->nshared < TF_MAX_SHARED ? c->shared[c->nshared++] : -1;
    id = pdl_build_tensor(c->b, model_label("%s.%s", node, w->name).s, w->kind,
                          c->tf->dtype, w->rank, w->dim);
    if (c->sharing == TF_RECORD) {
        if (c->nshared < TF_MAX_SHARED)
            c->shared[c->nshared++] = id;
        else
            pdl_build_fail(c->b, PDL_EINVAL,
                           "a shared layer has more than %d weights",
                           TF_MAX_SHARED);
    }
    return id;
}

int model_tf_op(struct model_tf_ctx *c, const char *op, const char *part,
                const struct pdl_attr *attr, const int *in, int nin)
{
    const struct pdl_op *row = pdl_op_find(op);
    const struct pdl_tensor *x = pdl_build_get(c->b, in[0]);
    struct pdl_tensor w[PDL_OP_MAX_WEIGHTS];
    int ids[PDL_OP_MAX_WEIGHTS], n = 0;
    struct model_label name = model_tf_name(c, part);

    if (!row || !x)
        return -1;
    memset(w, 0, sizeof w);
    if (row->weights)
        n = row->weights(attr, x, w);
    for (int i = 0; i < n; i++)
        ids[i] = weight(c, name.s, &w[i]);
    return pdl_build_node(c->b, &(struct pdl_build_spec){
                                    .op = op,
                                    .name = name.s,
                                    .attr = attr,
                                    .in = in,
                                    .nin = nin,
                                    .weights = ids,
                                    .nweights = n,
                                });
}

int model_tf_with(struct model_tf_ctx *c, const char *op, const char *part,
                  int x, int64_t n)
{
    struct pdl_tensor w = {.name = "weight", .kind = PDL_TENSOR_WEIGHT};
    struct model_label name = model_tf_name(c, part);
    int id;

    w.rank = 1;
    w.dim[0] = n;
    id = weight(c, name.s, &w);
    return pdl_build_node(c->b, &(struct pdl_build_spec){.op = op,
                                                         .name = name.s,
                                                         .in = &x,
                                                         .nin = 1,
                                                         .weights = &id,
                                                         .nweights = 1});
}

int model_tf_linear(struct model_tf_ctx *c, const char *part, int x,
                    int64_t features, int64_t bias)
{
    struct pdl_attr attr = {.features = features, .no_bias = !bias};

    return model_tf_op(c, "linear", part, &attr, &x, 1);
}

int model_tf_normed(struct model_tf_ctx *c, const char *part, int x,
                    int64_t kind, int64_t features)
{
    struct pdl_attr attr = {.features = features,
                            .no_bias = kind != TF_LAYER,
                            .epsilon = c->tf->epsilon};

    if (kind == TF_PLAIN)
        return pdl_build_node(
            c->b, &(struct pdl_build_spec){.op = "layer_norm",
                                           .name = model_tf_name(c, part).s,
                                           .attr = &attr,
                                           .in = &x,
                                           .nin = 1});
    return model_tf_op(c, kind == TF_RMS ? "rms_norm" : "layer_norm", part,
                       &attr, &x, 1);
}

int model_tf_unary(struct model_tf_ctx *c, const char *op, const char *part,
                   int x)
{
    struct pdl_attr attr = {.by_tanh =
                                c->tf->by_tanh && strcmp(op, "gelu") == 0};

    return model_tf_op(c, op, part, &attr, &x, 1);
}

int model_tf_rope(struct model_tf_ctx *c, const char *part,
                  struct pdl_attr attr, int x)
{
    if (attr.features == 0)
        attr.features = c->tf->rope.features;
    attr.theta = c->tf->rope.theta;
    attr.scale = c->tf->rope.scale;
    attr.alpha = c->tf->rope.alpha;
    attr.beta = c->tf->rope.beta;
    attr.offset = c->tf->rope.offset;
    return model_tf_op(c, "rope", part, &attr, &x, 1);
}

int model_tf_binary(struct model_tf_ctx *c, const char *op, const char *part,
                    int x, int y)
{
    struct pdl_attr attr = {0};
    int in[2] = {x, y};

    return model_tf_op(c, op, part, &attr, in, 2);
}

int model_tf_slice(struct model_tf_ctx *c, const char *part, int x,
                   int64_t from, int64_t n)
{
    struct pdl_attr attr = {.axis = 1, .ndims = 2};

    attr.dims[0] = from;
    if (!pdl_add64(from, n, &attr.dims[1]))
        return -1;
    return model_tf_op(c, "slice", part, &attr, &x, 1);
}

int model_tf_other(struct model_tf_ctx *c, const char *what, const char *part,
                   const int *in, int nin, int64_t n, const int64_t *weights,
                   int nweights)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    const struct pdl_tensor *x = pdl_build_get(c->b, in[0]);
    struct model_label name = model_tf_name(c, part);
    struct pdl_tensor out = {.kind = PDL_TENSOR_ACTIVATION, .rank = 2};
    int ids[4];

    if (!x || nweights > 4)
        return -1;
    out.dtype = x->dtype;
    out.dim[0] = x->dim[0];
    out.dim[1] = n;
    for (int i = 0; i < nweights; i++) {
        struct pdl_tensor w = {.name = names[i], .kind = PDL_TENSOR_WEIGHT};

        w.rank = 1;
        w.dim[0] = weights[i];
        ids[i] = weight(c, name.s, &w);
    }
    return pdl_build_node(c->b, &(struct pdl_build_spec){
                                    .op = "other",
                                    .name = name.s,
                                    .source_op = what,
                                    .in = in,
                                    .nin = nin,
                                    .weights = ids,
                                    .nweights = nweights,
                                    .out = &out,
                                    .nout = 1,
                                });
}

int model_tf_turn(struct model_tf_ctx *c, const char *part, int x)
{
    struct pdl_attr attr = {.ndims = 2, .dims = {1, 0}};

    return model_tf_op(c, "transpose", part, &attr, &x, 1);
}

int model_tf_conv(struct model_tf_ctx *c, const char *part, int x,
                  int64_t kernel, int64_t bias)
{
    const struct pdl_tensor *t = pdl_build_get(c->b, x);
    struct pdl_attr attr = {
        .kernel = {kernel}, .pad = {kernel - 1}, .no_bias = !bias};

    if (!t)
        return -1;
    attr.features = attr.groups = t->dim[1];
    x = model_tf_turn(c, "mixer.to_channels", x);
    x = model_tf_op(c, "conv", part, &attr, &x, 1);
    return model_tf_turn(c, "mixer.to_tokens", x);
}

int model_tf_table(struct model_tf_ctx *c, const char *part, const char *op,
                   int ids, int64_t rows, int64_t columns)
{
    struct pdl_attr attr = {.vocab = rows, .features = columns};

    return model_tf_op(c, op, part, &attr, &ids, 1);
}

/* ---- the layers ------------------------------------------------------- */

/* DeBERTa's table of relative positions: a vector for each. */
static int relative(struct model_tf_ctx *c)
{
    const struct model_tf_stack *s = c->stack;
    int ids;

    if (!s->rel_rows)
        return -1;
    ids = pdl_build_tensor(c->b, model_tf_name(c, "distances").s,
                           PDL_TENSOR_CONST, PDL_I32, 1, &s->rel_rows);
    ids =
        model_tf_table(c, "relative", "embedding", ids, s->rel_rows, s->hidden);
    return s->rel_norm ? model_tf_normed(c, "relative.norm", ids, s->norm, 0)
                       : ids;
}

/* T5's bias of the attention logits: a small table, read for every pair of
 * positions, the same for all layers of a stack. */
static int distances(struct model_tf_ctx *c)
{
    const struct model_tf_stack *s = c->stack;
    int64_t dim[2] = {s->rel_buckets, s->rel_heads};

    if (s->rel_rows || !s->rel_buckets)
        return -1;
    return pdl_build_tensor(c->b, model_tf_name(c, "relative.weight").s,
                            PDL_TENSOR_WEIGHT, c->tf->dtype, 2, dim);
}

static int rounds(struct model_tf_ctx *c, const struct model_tf_layer *l,
                  int64_t repeat, int64_t first, int x)
{
    pdl_build_repeat(c->b, repeat, first, x);
    x = model_tf_layer(c, l, x);
    return pdl_build_repeat_end(c->b, x);
}

static int all_layers(struct model_tf_ctx *c, int x)
{
    const struct model_tf_stack *s = c->stack;
    int64_t first = 0;

    snprintf(c->prefix, sizeof c->prefix, "%slayers.{i}.", s->prefix);
    for (int i = 0; i < s->nruns; i++) {
        const struct model_tf_run *run = &s->runs[i];
        int64_t left = run->repeat;

        if (s->shared_layers && left > 0) {
            c->sharing = TF_RECORD;
            c->nshared = 0;
            x = rounds(c, &run->layer, 1, first++, x);
            c->sharing = TF_REPLAY;
            c->nshared = 0;
            left--;
        }
        if (left > 0)
            x = rounds(c, &run->layer, left, first, x);
        c->sharing = TF_OWN;
        first += left;
    }
    snprintf(c->prefix, sizeof c->prefix, "%s", s->prefix);
    return x;
}

static int one_token(struct model_tf_ctx *c, int x)
{
    struct pdl_attr attr = {.axis = 0, .ndims = 2, .dims = {0, 1}};

    return model_tf_op(c, "slice", "pool", &attr, &x, 1);
}

/* Patches to tokens of the text. */
static int adapter(struct model_tf_ctx *c, int x)
{
    const struct model_tf_stack *s = c->stack;
    int64_t square = s->merge * s->merge;
    struct pdl_attr attr = {.ndims = 2};

    if (s->adapter_norm)
        x = model_tf_normed(c, "adapter.norm", x, s->adapter_norm_kind, 0);
    if (square > 1) {
        attr.dims[0] = s->tokens / square;
        attr.dims[1] = s->mean ? square : square * s->hidden;
        if (s->mean) { /* [squares, patches, hidden], then the mean */
            attr.ndims = 3;
            attr.dims[2] = s->hidden;
        }
        x = model_tf_op(c, "reshape", "adapter.squares", &attr, &x, 1);
    }
    if (square > 1 && s->mean) {
        attr = (struct pdl_attr){.ndims = 1, .dims = {1}};
        x = model_tf_op(c, "reduce_mean", "adapter.mean", &attr, &x, 1);
    }
    if (s->adapter_in)
        x = model_tf_other(c, "collect_layers", "adapter.features", &x, 1,
                           s->adapter_in, NULL, 0);
    if (s->adapter_hidden) {
        x = model_tf_linear(c, "adapter.up", x, s->adapter_hidden,
                            s->adapter_bias);
        x = model_tf_unary(c, "gelu", "adapter.act", x);
    }
    return model_tf_linear(c, "adapter.out", x, s->adapter_out,
                           s->adapter_bias);
}

static int stack(struct model_tf_ctx *c, int *shared)
{
    const struct model_tf_stack *s = c->stack;
    int x = model_tf_embed(c, shared);

    c->relative = relative(c);
    c->distances = distances(c);
    x = all_layers(c, x);
    if (s->final_norm)
        x = model_tf_normed(c, "norm", x, s->norm, 0);
    if (s->tiles)
        x = model_tf_tiles(c, x);
    if (s->pool)
        x = one_token(c, x);
    if (s->pooler) {
        x = model_tf_linear(c, "pooler", x, s->pooler, 1);
        x = model_tf_unary(c, "tanh", "pooler.tanh", x);
    }
    if (s->feature)
        x = model_tf_linear(c, "project", x, s->feature, 0);
    if (s->adapter_out)
        x = adapter(c, x);
    if (s->project_out)
        x = model_tf_linear(c, "project_out", x, s->embed_dim, 0);
    return x;
}

/* ---- what comes out --------------------------------------------------- */

static void tied_head(struct model_tf_ctx *c, int x, int embedding)
{
    const struct model_tf *tf = c->tf;
    struct pdl_attr attr = {.features = tf->head, .no_bias = !tf->head_bias};
    int w[2] = {embedding, -1};

    if (tf->head_bias)
        w[1] = pdl_build_tensor(c->b, "head.bias", PDL_TENSOR_WEIGHT, tf->dtype,
                                1, &tf->head);
    (void)pdl_build_node(c->b, &(struct pdl_build_spec){
                                   .op = "linear",
                                   .name = "head",
                                   .attr = &attr,
                                   .in = &x,
                                   .nin = 1,
                                   .weights = w,
                                   .nweights = tf->head_bias ? 2 : 1,
                               });
}

static void head(struct model_tf_ctx *c, int x, int embedding)
{
    const struct model_tf *tf = c->tf;

    c->prefix[0] = '\0';
    if (tf->head && tf->fills_in && c->stack) {
        x = model_tf_linear(c, "head.dense", x, c->stack->hidden, 1);
        x = model_tf_unary(c, "gelu", "head.act", x);
        x = model_tf_normed(c, "head.norm", x, c->stack->norm, 0);
    }
    if (tf->head && tf->tied)
        tied_head(c, x, embedding);
    else if (tf->head)
        x = model_tf_linear(c, "head", x, tf->head, tf->head_bias);
    if (tf->classes)
        x = model_tf_linear(c, "classifier", x, tf->classes, tf->class_bias);
    if (tf->logit_scale)
        (void)model_tf_with(c, "mul", "logit_scale", x, 1);
}

void model_tf_emit(pdl_build *b, const struct model_tf *tf)
{
    struct model_tf_ctx c = {.b = b, .tf = tf, .memory = -1};
    int x = -1, shared = -1;

    for (int i = 0; i < tf->nstacks; i++) {
        c.stack = &tf->stack[i];
        c.memory = x;
        snprintf(c.prefix, sizeof c.prefix, "%s", c.stack->prefix);
        x = stack(&c, &shared);
    }
    head(&c, x, shared);
    for (int i = 0; i < 4 && tf->unknown[i]; i++)
        pdl_build_unknown(b, tf->unknown[i]);
    pdl_build_meta(b, "transformer", tf->source, tf->tokens, -1);
    model_build_type(b, tf->type, tf->inexact, &tf->router, tf->most_tokens);
}

enum pdl_status model_tf_build(pdl_arena *a, const struct model_tf *tf,
                               const struct pdl_model **out,
                               struct pdl_err *err)
{
    pdl_build *b = pdl_build_begin(a, tf->name);

    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", tf->name);
    model_tf_emit(b, tf);
    return pdl_build_end(b, out, err);
}
