/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes into a stack of layers: tokens, patches of an image, or a
 * spectrum, each with its positions. */
#include "transformer.h"

/* Tokens, and the table that a tied head uses again. */
static int embed_tokens(struct model_tf_ctx *c, int ids, int *shared)
{
    const struct model_tf_stack *s = c->stack;
    struct pdl_attr attr = {.vocab = s->vocab, .features = s->embed_dim};
    int64_t dim[2] = {s->vocab, s->embed_dim};

    if (!s->same_table || *shared < 0)
        *shared =
            pdl_build_tensor(c->b, model_tf_name(c, "embed.tokens.weight").s,
                             PDL_TENSOR_WEIGHT, c->tf->dtype, 2, dim);
    return pdl_build_node(c->b, &(struct pdl_build_spec){
                                    .op = "embedding",
                                    .name = model_tf_name(c, "embed.tokens").s,
                                    .attr = &attr,
                                    .in = &ids,
                                    .nin = 1,
                                    .weights = shared,
                                    .nweights = 1});
}

static int add_positions(struct model_tf_ctx *c, int x, int64_t columns)
{
    int p;

    if (!c->stack->positions)
        return x;
    p = model_tf_table(c, "embed.positions", "position_embedding", x,
                       c->stack->positions, columns);
    return model_tf_binary(c, "add", "embed.add_positions", x, p);
}

/* Gemma 3n and 4: a second, wide embedding, a slice for each layer, with a
 * projection of the first added. */
static int per_layer_inputs(struct model_tf_ctx *c, int ids, int x)
{
    const struct model_tf_stack *s = c->stack;
    int y = model_tf_table(c, "embed.per_layer", "embedding", ids, s->per_vocab,
                           s->per_width);

    x = model_tf_linear(c, "embed.per_layer_project", x, s->per_width, 0);
    x = model_tf_normed(c, "embed.per_layer_norm", x, s->norm,
                        s->runs[0].layer.per_layer);
    return model_tf_binary(c, "add", "embed.per_layer_add", x, y);
}

static int embed_text(struct model_tf_ctx *c, int *shared)
{
    const struct model_tf_stack *s = c->stack;
    int64_t width = s->project && !s->project_last ? s->hidden : s->embed_dim;
    int ids = pdl_build_tensor(c->b, model_tf_name(c, "ids").s,
                               PDL_TENSOR_INPUT, PDL_I32, 1, &s->tokens);
    int x = embed_tokens(c, ids, shared);

    if (s->project && !s->project_last)
        x = model_tf_linear(c, "embed.project", x, s->hidden, 0);
    x = add_positions(c, x, width);
    if (s->types) {
        int t = pdl_build_tensor(c->b, model_tf_name(c, "types").s,
                                 PDL_TENSOR_CONST, PDL_I32, 1, &s->tokens);

        t = model_tf_table(c, "embed.types", "embedding", t, s->types, width);
        x = model_tf_binary(c, "add", "embed.add_types", x, t);
    }
    if (s->embed_norm)
        x = model_tf_normed(c, "embed.norm", x, s->norm, 0);
    if (s->project && s->project_last)
        x = model_tf_linear(c, "embed.project", x, s->hidden, 1);
    if (s->images && c->memory >= 0) {
        int in[2] = {x, c->memory};

        x = model_tf_other(c, "insert_images", "embed.images", in, 2, s->hidden,
                           NULL, 0);
    }
    c->per_layer = s->per_width ? per_layer_inputs(c, ids, x) : -1;
    return x;
}

/* mllama cuts an image into tiles, whose arrangement is embedded before and
 * after the layers, and again for each position; scalars damp all three. */
static int tile_positions(struct model_tf_ctx *c, int x)
{
    const struct model_tf_stack *s = c->stack;
    int64_t table = s->aspects * s->tiles * s->hidden, w[4];

    w[0] = table;
    w[1] = w[3] = 1;
    if (!pdl_mul64(table, s->tokens, &w[2]))
        pdl_build_fail(c->b, PDL_EINVAL, "the tile tables are too large");
    return model_tf_other(c, "tile_positions", "embed.tiles", &x, 1, s->hidden,
                          w, 4);
}

int model_tf_tiles(struct model_tf_ctx *c, int x)
{
    const struct model_tf_stack *s = c->stack;
    int64_t w[2] = {s->aspects * s->tiles * s->hidden, 1};

    return model_tf_other(c, "tile_positions", "tiles", &x, 1, s->hidden, w, 2);
}

static int embed_image(struct model_tf_ctx *c)
{
    const struct model_tf_stack *s = c->stack;
    int64_t dim[4] = {s->channels, s->frames, s->image, s->image};
    struct pdl_attr conv = {.kernel = {s->frames, s->patch, s->patch},
                            .stride = {s->frames, s->patch, s->patch},
                            .features = s->hidden,
                            .no_bias = !s->patch_bias};
    struct pdl_attr flat = {.axis = 1};
    int skip = s->frames ? 0 : 1, x;

    if (skip) { /* a still image has two dimensions */
        dim[1] = s->image;
        conv.kernel[0] = conv.stride[0] = s->patch;
        conv.kernel[2] = conv.stride[2] = 0;
    }
    x = pdl_build_tensor(c->b, model_tf_name(c, "image").s, PDL_TENSOR_INPUT,
                         PDL_F32, 4 - skip, dim);

    x = model_tf_op(c, "conv", "embed.patches", &conv, &x, 1);
    x = model_tf_op(c, "flatten", "embed.flatten", &flat, &x, 1);
    x = model_tf_turn(c, "embed.to_tokens", x);
    for (int64_t i = 0; i < s->class_tokens; i++)
        x = model_tf_unary(c, "class_token",
                           i ? "embed.distillation" : "embed.class", x);
    x = add_positions(c, x, s->hidden);
    if (s->tiles)
        x = tile_positions(c, x);
    if (s->pre_norm)
        x = model_tf_normed(c, "embed.norm", x, s->norm, 0);
    return x;
}

/* Whisper: two convolutions over the spectrum, the second halves the time. */
static int embed_sound(struct model_tf_ctx *c)
{
    const struct model_tf_stack *s = c->stack;
    int64_t dim[2] = {s->mels, 2 * s->tokens};
    struct pdl_attr one = {.kernel = {3},
                           .pad = {1},
                           .pad_end = {1},
                           .features = s->hidden},
                    two = one;
    int x = pdl_build_tensor(c->b, model_tf_name(c, "spectrum").s,
                             PDL_TENSOR_INPUT, PDL_F32, 2, dim);

    two.stride[0] = 2;
    x = model_tf_op(c, "conv", "embed.conv1", &one, &x, 1);
    x = model_tf_unary(c, "gelu", "embed.gelu1", x);
    x = model_tf_op(c, "conv", "embed.conv2", &two, &x, 1);
    x = model_tf_unary(c, "gelu", "embed.gelu2", x);
    x = model_tf_turn(c, "embed.to_tokens", x);
    return add_positions(c, x, s->hidden);
}

int model_tf_embed(struct model_tf_ctx *c, int *shared)
{
    if (c->stack->mels)
        return embed_sound(c);
    return c->stack->patch ? embed_image(c) : embed_text(c, shared);
}
