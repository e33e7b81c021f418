/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic dimensions. A name that leads a graph input, or is called batch, is
 * the batch and is bound to 1; other names stay unknown until the user binds
 * them with
 * --dim name=value. A dimension without a name is called "input.axis".
 *
 * A name that leads one input but follows another symbolic name elsewhere
 * ([seq] beside [batch, seq]) is not a batch. */
#include "onnx_priv.h"

#include <stdio.h>
#include <strings.h>

static const Onnx__Shape *shape_of(const Onnx__Type *t)
{
    return t && t->tensor_type ? t->tensor_type->shape : NULL;
}

static bool nameless(const Onnx__Dim *d)
{
    return !d->has_param || d->param.len == 0 ||
           (d->param.len == 1 && d->param.data[0] == '?');
}

/* Unknown: named, or nothing at all, or the -1 that some exporters write. */
static bool symbolic(const Onnx__Dim *d)
{
    return !d->has_value || d->value < 0;
}

static struct onnx_dim *find(const struct onnx_graph *g, const char *name,
                             size_t len)
{
    ProtobufCBinaryData key = {len, (uint8_t *)(uintptr_t)name};
    int i = model_onnx_lookup(g, g->dim_names, key, false);

    return i < 0 ? NULL : &g->dims[i];
}

/* The key of a dimension, as a user would write it. */
static const char *key(const struct onnx_value *v, const Onnx__Dim *d,
                       size_t axis, char *buf, size_t size, size_t *len)
{
    if (!nameless(d)) {
        *len = d->param.len;
        return (const char *)d->param.data;
    }
    snprintf(buf, size, "%s.%zu", v->name, axis);
    *len = strlen(buf);
    return buf;
}

static struct onnx_dim *dim_of(const struct onnx_graph *g,
                               const struct onnx_value *v, const Onnx__Dim *d,
                               size_t axis)
{
    char buf[512];
    size_t len;
    const char *name = key(v, d, axis, buf, sizeof buf, &len);

    return find(g, name, len);
}

static enum pdl_status add(struct onnx_graph *g, const char *name, size_t len,
                           struct onnx_dim **out)
{
    ProtobufCBinaryData key = {len, (uint8_t *)(uintptr_t)name};

    if (!g->dims || g->ndims == g->dcap) {
        int cap = g->dcap ? 2 * g->dcap : 16;
        struct onnx_dim *p = pdl_arena_grow(g->arena, g->dims, (size_t)g->ndims,
                                            (size_t)cap, sizeof *p);

        if (!p)
            return model_onnx_oom(g);
        g->dims = p;
        g->dcap = cap;
    }
    *out = &g->dims[g->ndims];
    **out = (struct onnx_dim){.value = -1};
    (*out)->name = pdl_arena_strndup(g->arena, name, len);
    if (!(*out)->name)
        return model_onnx_oom(g);
    return model_onnx_alias(g, g->dim_names, key, g->ndims++);
}

/* "batch=8,seq=2048" */
static enum pdl_status parse(struct onnx_graph *g, const char *text)
{
    while (*text) {
        size_t item = strcspn(text, ","), name = strcspn(text, "=,");
        struct onnx_dim *d;
        char *number;
        enum pdl_status st;

        if (text[name] != '=' || name == 0)
            return pdl_fail(g->err, PDL_EINVAL,
                            "--dim: '%.*s' is not name=value", (int)item, text);
        number = pdl_arena_strndup(g->arena, text + name + 1, item - name - 1);
        if (!number)
            return model_onnx_oom(g);
        st = find(g, text, name) ? PDL_OK : add(g, text, name, &d);
        if (st)
            return st;
        d = find(g, text, name);
        d->given = true;
        st = pdl_int_parse(number, 1, INT32_MAX, &d->value, g->err);
        if (st)
            return pdl_fail(g->err, PDL_EINVAL,
                            "--dim: '%.*s' needs a whole number from 1",
                            (int)item, text);
        text += item + (text[item] == ',');
    }
    return PDL_OK;
}

/* Some layouts have the batch second; its name tells. */
static bool called_batch(const char *name)
{
    static const char *const whole[] = {"N", "n", "B", "b", "bs"};

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    return strncasecmp(name, "batch", 5) == 0;
}

static enum pdl_status collect_value(struct onnx_graph *g,
                                     const struct onnx_value *v, bool all)
{
    const Onnx__Shape *s = shape_of(v->type);
    enum { MOST = 4096 }; /* names; more is no model */

    for (size_t i = 0; s && i < s->n_dim; i++) {
        struct onnx_dim *d;
        enum pdl_status st;
        char buf[512];
        size_t len;
        const char *name;

        if (!symbolic(s->dim[i]))
            continue;
        d = dim_of(g, v, s->dim[i], i);
        if (!d) {
            if (!all || g->ndims >= MOST)
                continue;
            name = key(v, s->dim[i], i, buf, sizeof buf, &len);
            st = add(g, name, len, &d);
            if (st)
                return st;
        }
        if (!d)
            continue;
        d->used = true;
        if (i == 0 || called_batch(d->name))
            d->batch = true;
    }
    return PDL_OK;
}

/* [seq] beside [batch, seq]: seq is not the batch. */
static void unmark(struct onnx_graph *g, const struct onnx_value *v)
{
    const Onnx__Shape *s = shape_of(v->type);

    for (size_t i = 1; s && i < s->n_dim; i++) {
        struct onnx_dim *d, *first;

        if (!symbolic(s->dim[i]) || !symbolic(s->dim[0]))
            continue;
        d = dim_of(g, v, s->dim[i], i);
        first = dim_of(g, v, s->dim[0], 0);
        if (d && d != first && !called_batch(d->name))
            d->batch = false;
    }
}

static enum pdl_status no_such(const struct onnx_graph *g, const char *name)
{
    struct pdl_suggest s;
    const char *any = NULL;

    pdl_say(g->err, "%s has no symbolic dimension '%.100s'", g->name, name);
    pdl_suggest_init(&s, name);
    for (int i = 0; i < g->ndims; i++)
        if (g->dims[i].used) {
            pdl_suggest_try(&s, g->dims[i].name);
            any = any ? any : g->dims[i].name;
        }
    if (pdl_suggest_best(&s))
        pdl_hint(g->err, "did you mean '%s'?", pdl_suggest_best(&s));
    else if (any)
        pdl_hint(g->err, "it has '%s'", any);
    return PDL_EINVAL;
}

enum pdl_status model_onnx_bind(struct onnx_graph *g, const char *text)
{
    enum pdl_status st;

    g->dim_names = model_onnx_scope(g, -1);
    if (g->dim_names < 0)
        return model_onnx_oom(g);
    st = text ? parse(g, text) : PDL_OK;

    for (int i = 0; i < g->ninputs && st == PDL_OK; i++)
        st = collect_value(g, &g->values[g->inputs[i]], true);
    if (st)
        return st;
    for (int i = 0; i < g->ninputs; i++)
        unmark(g, &g->values[g->inputs[i]]);
    for (int i = 0; i < g->ndims; i++) {
        struct onnx_dim *d = &g->dims[i];

        if (d->given && !d->used)
            return no_such(g, d->name);
        if (d->batch && !d->given)
            d->value = 1;
    }
    return PDL_OK;
}

void model_onnx_declared(const struct onnx_graph *g, int value, int64_t times,
                         struct onnx_shape *out)
{
    const struct onnx_value *v = &g->values[value];
    const Onnx__Shape *s = shape_of(v->type);

    *out = (struct onnx_shape){.rank = -1, .nval = -1};
    if (v->type && v->type->tensor_type)
        out->type = v->type->tensor_type->elem_type;
    if (!s || s->n_dim > PDL_MAX_RANK)
        return;
    out->rank = (int)s->n_dim;
    for (int i = 0; i < out->rank; i++) {
        const struct onnx_dim *d;

        out->dim[i] = -1;
        if (!symbolic(s->dim[i])) {
            out->dim[i] = s->dim[i]->value;
            continue;
        }
        d = dim_of(g, v, s->dim[i], (size_t)i);
        if (d && d->value >= 0 &&
            !pdl_mul64(d->value, d->batch ? times : 1, &out->dim[i]))
            out->dim[i] = -1;
    }
}
