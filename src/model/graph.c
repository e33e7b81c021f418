/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder: tensors, nodes and segments grow in the caller's arena, and
 * the first failure sticks, so that whoever builds a network writes it down
 * like a list and checks once at the end.
 *
 * Segments: nodes are appended to the open one. A repeated block closes it and
 * opens its own; what follows opens another. Memory is what the nodes need,
 * whatever the repeat counts are. */
#include "graph.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool model_build_ok(const pdl_build *b)
{
    return b && b->status == PDL_OK;
}

void pdl_build_fail(pdl_build *b, enum pdl_status st, const char *fmt, ...)
{
    char text[sizeof b->err.msg];
    va_list ap;

    if (!model_build_ok(b))
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

int model_build_no_memory(pdl_build *b)
{
    pdl_build_fail(b, PDL_ENOMEM, "out of memory for the network");
    return -1;
}

bool model_build_room(pdl_build *b, void **items, int count, int *cap,
                      size_t size)
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

    if (!model_build_room(b, &p, b->nsegments, &b->cap_segments,
                          sizeof *b->segments)) {
        model_build_no_memory(b);
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
    char *own = pdl_arena_strdup(a, name ? name : "");

    if (!b)
        return NULL;
    if (own) /* it is shown on terminals, and comes from files */
        pdl_tame(own);
    b->arena = a;
    b->model = (struct pdl_model){
        .name = own,
        .source = "",
        .kind = "other",
        .source_nodes = -1,
    };
    if (!b->model.name)
        model_build_no_memory(b);
    open_segment(b, 1, 0, -1);
    return b;
}

int model_build_add(pdl_build *b, const struct pdl_tensor *t)
{
    void *p = b->tensors;
    char shape[128];

    if (!model_build_ok(b))
        return -1;
    if (!model_shape_valid(t)) {
        pdl_build_fail(b, PDL_EINVAL, "%.200s: %s is no shape, or too large",
                       t->name, model_shape_text(t, shape, sizeof shape));
        return -1;
    }
    if (!model_build_room(b, &p, b->ntensors, &b->cap_tensors,
                          sizeof *b->tensors))
        return model_build_no_memory(b);
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

    if (!model_build_ok(b))
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
        return model_build_no_memory(b);
    return model_build_add(b, &t);
}

const struct pdl_tensor *pdl_build_get(const pdl_build *b, int t)
{
    return model_build_ok(b) && t >= 0 && t < b->ntensors ? &b->tensors[t]
                                                          : NULL;
}

int pdl_build_output(pdl_build *b, int t, int i)
{
    if (!model_build_ok(b))
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

    if (!model_build_ok(b))
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

    if (!model_build_ok(b))
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

    if (!model_build_room(b, &names, b->nunknown, &cap, sizeof *b->unknown))
        return false;
    cap = b->cap_unknown;
    if (!model_build_room(b, &counts, b->nunknown, &cap,
                          sizeof *b->unknown_counts))
        return false;
    b->unknown = names;
    b->unknown_counts = counts;
    b->cap_unknown = cap;
    return true;
}

void model_build_unknown(pdl_build *b, const char *op, int64_t count)
{
    if (!model_build_ok(b))
        return;
    for (int i = 0; i < b->nunknown; i++)
        if (strcmp(b->unknown[i], op) == 0) {
            b->unknown_counts[i] += count;
            return;
        }
    if (!more_unknown(b)) {
        model_build_no_memory(b);
        return;
    }
    b->unknown[b->nunknown] = pdl_arena_strdup(b->arena, op);
    if (!b->unknown[b->nunknown]) {
        model_build_no_memory(b);
        return;
    }
    b->unknown_counts[b->nunknown++] = count;
}

void pdl_build_unknown(pdl_build *b, const char *op)
{
    model_build_unknown(b, op, 1);
}

void pdl_build_unbound(pdl_build *b, const char *dim)
{
    void *p;

    if (!model_build_ok(b))
        return;
    p = b->unbound;
    if (!model_build_room(b, &p, b->nunbound, &b->cap_unbound,
                          sizeof *b->unbound)) {
        model_build_no_memory(b);
        return;
    }
    b->unbound = p;
    b->unbound[b->nunbound] = pdl_arena_strdup(b->arena, dim);
    if (b->unbound[b->nunbound])
        b->nunbound++;
    else
        model_build_no_memory(b);
}

void pdl_build_meta(pdl_build *b, const char *kind, const char *source,
                    int64_t tokens, int64_t source_nodes)
{
    if (!model_build_ok(b))
        return;
    if (kind)
        b->model.kind = pdl_arena_strdup(b->arena, kind);
    if (source)
        b->model.source = pdl_arena_strdup(b->arena, source);
    b->model.tokens = tokens;
    b->model.source_nodes = source_nodes;
    if (!b->model.kind || !b->model.source)
        model_build_no_memory(b);
}

void model_build_type(pdl_build *b, const char *type, const char *inexact,
                      const struct pdl_router *router, int64_t most_tokens)
{
    if (!model_build_ok(b) || !type)
        return;
    b->model.type = pdl_arena_strdup(b->arena, type);
    b->model.inexact = inexact;
    b->model.router = *router;
    b->model.most_tokens = most_tokens;
    if (!b->model.type)
        model_build_no_memory(b);
}

static struct pdl_model *finish(pdl_build *b)
{
    struct pdl_model *m = PDL_NEW(b->arena, struct pdl_model, 1);

    if (!m) {
        model_build_no_memory(b);
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
    m->unbound = b->unbound;
    m->nunbound = b->nunbound;
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
    m = model_build_ok(b) ? finish(b) : NULL;
    if (!model_build_ok(b)) {
        if (err)
            *err = b->err;
        return b->status;
    }
    *out = m;
    return PDL_OK;
}
