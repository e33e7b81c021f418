/* One operator as a model of its own, and calls of kernels on it: operands are
 * put together here the way the plan does it, apart from the library. */
#ifndef TESTS_TRAIN_CALLS_H
#define TESTS_TRAIN_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "train/exec/device.h"

/* Every operand is learned from further up (an elementwise "scale" of an
 * input), unless it is whole numbers. */
struct op_case {
    const char *name, *op;
    int nin, rank[3];
    int64_t dim[3][4];
    struct pdl_attr attr;
    int64_t tokens;  /* > 0: the input is whole numbers below this */
    bool positive;   /* the function is not defined, or not smooth, below 0 */
    int64_t weight;  /* > 0: an operand of that many elements is a weight */
    int64_t columns; /* > 0: of so many such columns */
    int64_t batch;
    int64_t apart; /* > 0: groups of samples with statistics of their own */
    int64_t last;  /* > 0: the last operand is whole numbers from -last on below
                     this, which say where */
};

struct value {
    struct train_array a;
    void *at;
    int64_t n;
};

enum { MAX_VALUES = 8 };

struct one_op {
    pdl_arena *arena;
    const struct pdl_model *model;
    const struct pdl_node *node;
    const struct op_case *c;
    int64_t batch;
};

static inline double unit(uint64_t seed, uint64_t stream, int64_t i)
{
    struct pdl_rng4 r = pdl_philox(seed, stream, (uint64_t)i);

    return (double)r.v[0] * 0x1p-32;
}

/* Is operand i of whole numbers? Such have no gradient. */
static inline bool is_whole(const struct op_case *c, int i)
{
    return c->tokens > 0 || (c->last > 0 && i == c->nin - 1);
}

static inline void one_op_open(struct one_op *o, const struct op_case *c)
{
    struct pdl_err err = {{0}, {0}};
    pdl_build *b;
    int in[3], y;

    *o = (struct one_op){.arena = pdl_arena_create(PDL_ARENA_DEFAULT), .c = c};
    b = pdl_build_begin(o->arena, c->name);
    for (int i = 0; i < c->nin; i++) {
        char name[32];
        struct pdl_attr one = {.features = 1};

        snprintf(name, sizeof name, "in%d", i);
        in[i] = pdl_build_tensor(b, name, PDL_TENSOR_INPUT,
                                 is_whole(c, i) ? PDL_I32 : PDL_F32, c->rank[i],
                                 c->dim[i]);
        snprintf(name, sizeof name, "scale%d", i);
        if (!is_whole(c, i))
            in[i] = pdl_build_op(b, "scale", name, &one, &in[i], 1);
    }
    if (c->weight) {
        int64_t dim[2] = {c->weight, c->columns};
        int w = pdl_build_tensor(b, "operand", PDL_TENSOR_WEIGHT, PDL_F32,
                                 c->columns ? 2 : 1, dim);

        y = pdl_build_node(b, &(struct pdl_build_spec){.op = c->op,
                                                       .name = "op",
                                                       .attr = &c->attr,
                                                       .in = in,
                                                       .nin = c->nin,
                                                       .weights = &w,
                                                       .nweights = 1});
    } else {
        y = pdl_build_op(b, c->op, "op", &c->attr, in, c->nin);
    }
    if (strcmp(c->op, "rope") == 0) { /* somebody says how wide a head is */
        struct pdl_attr a = {.heads = c->dim[0][1] / 4, .head_dim = 4};
        int q[3] = {y, y, y};

        pdl_build_op(b, "attention", "reader", &a, q, 3);
    }
    if (pdl_build_end(b, &o->model, &err) != PDL_OK) {
        print_error("%s: %s\n", c->name, err.msg);
        fail();
    }
    for (int i = 0; i < o->model->nnodes; i++)
        if (strcmp(o->model->nodes[i].name, "op") == 0)
            o->node = &o->model->nodes[i];
    o->batch = c->batch ? c->batch : 2;
}

static inline void one_op_close(struct one_op *o)
{
    pdl_arena_destroy(o->arena);
}

static inline bool is_image(const struct pdl_tensor *t, bool activation)
{
    return activation && t->rank >= 2 && t->rank <= 4;
}

/* A whole tensor of the model. */
static inline struct train_array whole(const struct one_op *o, int tensor,
                                       bool activation, enum pdl_dtype dtype)
{
    const struct pdl_tensor *t = &o->model->tensors[tensor];
    struct train_array a = {.dtype = dtype};

    a.box.ndims = t->rank + activation;
    if (activation)
        a.box.hi[0] = o->batch;
    for (int d = 0; d < t->rank; d++)
        a.box.hi[d + activation] = t->dim[d];
    a.channels_last = activation && t->rank >= 3;
    return a;
}

static inline struct value value_of(const struct train_array *a)
{
    struct value v = {.a = *a, .n = train_array_elements(a)};

    v.at = calloc((size_t)v.n + 1, 8);
    if (!v.at)
        abort();
    return v;
}

static inline double get(const struct value *v, int64_t i)
{
    switch (v->a.dtype) {
    case PDL_F32:
        return ((const float *)v->at)[i];
    case PDL_F64:
        return ((const double *)v->at)[i];
    case PDL_I32:
        return ((const int32_t *)v->at)[i];
    case PDL_U8:
        return ((const uint8_t *)v->at)[i];
    default: {
        uint32_t u = (uint32_t)((const uint16_t *)v->at)[i] << 16;
        float f;

        memcpy(&f, &u, sizeof f);
        return f;
    }
    }
}

static inline void put(struct value *v, int64_t i, double x)
{
    switch (v->a.dtype) {
    case PDL_F32:
        ((float *)v->at)[i] = (float)x;
        break;
    case PDL_F64:
        ((double *)v->at)[i] = x;
        break;
    case PDL_I32:
        ((int32_t *)v->at)[i] = (int32_t)x;
        break;
    case PDL_U8:
        ((uint8_t *)v->at)[i] = (uint8_t)x;
        break;
    default: {
        float f = (float)x;
        uint32_t u;

        memcpy(&u, &f, sizeof u);
        ((uint16_t *)v->at)[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
        break;
    }
    }
}

/* The value at a global index of a part. */
static inline int64_t at_index(const struct value *v, const int64_t *i)
{
    int64_t stride[PDL_BOX_DIMS], o = 0;

    train_array_strides(&v->a, stride);
    for (int d = 0; d < v->a.box.ndims; d++) {
        assert_true(i[d] >= v->a.box.lo[d] && i[d] < v->a.box.hi[d]);
        o += (i[d] - v->a.box.lo[d]) * stride[d];
    }
    return o;
}

static inline bool next_index(const struct pdl_box *b, int64_t *i)
{
    for (int d = b->ndims - 1; d >= 0; d--) {
        if (++i[d] < b->hi[d])
            return true;
        i[d] = b->lo[d];
    }
    return false;
}

/* Copies the elements both have. */
static inline void copy_part(const struct value *from, struct value *to)
{
    struct pdl_box b;
    int64_t i[PDL_BOX_DIMS];

    if (!pdl_box_intersect(&from->a.box, &to->a.box, &b))
        return;
    memcpy(i, b.lo, sizeof i);
    do
        put(to, at_index(to, i), get(from, at_index(from, i)));
    while (next_index(&b, i));
}

/* Numbers by logical index, so that the layout does not matter. */
static inline void fill(struct value *v, uint64_t stream,
                        const struct op_case *c)
{
    int64_t i[PDL_BOX_DIMS], k = 0;

    if (v->n == 0)
        return;
    memcpy(i, v->a.box.lo, sizeof i);
    do {
        double u = unit(7, stream, k++);
        double x = u < 0.5 ? -0.1 - 1.8 * u : 0.1 + 1.8 * (u - 0.5);

        if (v->a.dtype == PDL_I32 && c->tokens)
            x = floor(u * (double)c->tokens);
        else if (v->a.dtype == PDL_I32 && c->last)
            x = floor((2 * u - 1) * (double)c->last);
        else if (c->positive)
            x = 0.5 + u;
        put(v, at_index(v, i), x);
    } while (next_index(&v->a.box, i));
}

/* All operands of one operator on whole tensors. In bfloat16 those of norms
 * are float32, as the runtime keeps them. */
struct operands {
    int nx, nw, ny;
    struct value x[3], w[PDL_OP_MAX_WEIGHTS], y[3], aux;
    struct value dx[3], dw[PDL_OP_MAX_WEIGHTS], dy[3];
    bool has_aux, learns_x, learned[PDL_OP_MAX_WEIGHTS];
};

static inline void operands_open(struct operands *p, const struct one_op *o,
                                 enum pdl_dtype dtype)
{
    const struct pdl_node *n = o->node;

    memset(p, 0, sizeof *p);
    p->nx = n->nin;
    p->nw = n->nweights;
    p->ny = n->nout;
    p->learns_x = o->c->tokens == 0;
    for (int i = 0; i < p->nx; i++) {
        struct train_array a = whole(o, n->in[i], true, dtype);

        p->dx[i] = value_of(&a);
        a.dtype = is_whole(o->c, i) ? PDL_I32 : dtype;
        p->x[i] = value_of(&a);
        fill(&p->x[i], (uint64_t)i, o->c);
    }
    for (int j = 0; j < p->nw; j++) {
        bool wide = strstr(o->c->op, "_norm") != NULL && dtype == PDL_BF16;
        struct train_array a =
            whole(o, n->weights[j], false, wide ? PDL_F32 : dtype);

        p->w[j] = value_of(&a);
        p->dw[j] = value_of(&a);
        fill(&p->w[j], 10 + (uint64_t)j, o->c);
        p->learned[j] =
            o->model->tensors[n->weights[j]].kind == PDL_TENSOR_WEIGHT;
    }
    for (int k = 0; k < p->ny; k++) {
        struct train_array a = whole(o, n->out[k], true, dtype);

        p->y[k] = value_of(&a);
        p->dy[k] = value_of(&a);
        fill(&p->dy[k], 20 + (uint64_t)k, o->c);
    }
}

static inline void operands_close(struct operands *p)
{
    for (int i = 0; i < 3; i++) {
        free(p->x[i].at);
        free(p->dx[i].at);
        free(p->y[i].at);
        free(p->dy[i].at);
    }
    for (int j = 0; j < PDL_OP_MAX_WEIGHTS; j++) {
        free(p->w[j].at);
        free(p->dw[j].at);
    }
    free(p->aux.at);
}

static inline bool is_contraction(const struct pdl_node *n)
{
    return strcmp(n->op->name, "conv") == 0 ||
           strcmp(n->op->name, "conv_transpose") == 0 ||
           strcmp(n->op->name, "linear") == 0;
}

struct list {
    int n;
    const struct value *v[40];
};

static inline void push(struct list *l, const struct value *v, int n)
{
    for (int i = 0; i < n; i++)
        l->v[l->n++] = &v[i];
}

/* The operands of a pass, in the plan's order. */
static inline void lists_of(struct operands *p, const struct one_op *o,
                            enum pdl_pass pass, struct list *in,
                            struct list *out)
{
    unsigned f = o->node->op->flags;

    in->n = out->n = 0;
    if (pass == PDL_FORWARD) {
        push(in, p->x, p->nx);
        push(in, p->w, p->nw);
        push(out, p->y, p->ny);
        push(out, &p->aux, p->has_aux);
        return;
    }
    if (pass == PDL_BACKWARD_WEIGHTS) {
        push(in, p->x, p->nx);
        push(in, p->dy, p->ny);
        if (f & PDL_OP_DW_READS_W)
            push(in, p->w, p->nw);
        for (int j = 0; j < p->nw; j++)
            push(out, &p->dw[j], p->learned[j]);
    } else {
        push(in, p->dy, p->ny);
        push(in, p->w, is_contraction(o->node) && p->nw > 1 ? 1 : p->nw);
        if (f & PDL_OP_SAVES_X)
            push(in, p->x, p->nx);
        if (f & (PDL_OP_SAVES_Y | PDL_OP_SAVES_MASK))
            push(in, p->y, p->ny);
        if (p->learns_x)
            push(out, p->dx, p->nx - (o->c->last > 0));
    }
    push(in, &p->aux, p->has_aux);
}

struct backend {
    const struct train_backend *b;
    const struct train_device *device; /* NULL: the host */
    pdl_arena *arena;
    void *state;
};

static inline void backend_open(struct backend *b,
                                const struct train_backend *which)
{
    struct pdl_err err = {{0}, {0}};

    *b = (struct backend){.b = which,
                          .arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
    assert_int_equal(which->open(b->arena, &b->state, &err), PDL_OK);
}

static inline void device_open(struct backend *b, const struct train_device *d)
{
    struct pdl_err err = {{0}, {0}};

    *b = (struct backend){.b = &d->kernels,
                          .device = d,
                          .arena = pdl_arena_create((size_t)1 << 30)};
    if (d->open(b->arena, NULL, 0, &b->state, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static inline void backend_close(struct backend *b)
{
    b->b->close(b->state);
    pdl_arena_destroy(b->arena);
}

/* ---- operands where the backend computes ---------------------------------- */

static inline void *room_of(struct backend *b, int64_t bytes)
{
    struct pdl_err err = {{0}, {0}};
    void *p = NULL;

    if (!b->device)
        p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    else if (b->device->alloc(b->state, bytes + 64, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_non_null(p);
    return p;
}

static inline void give_room(struct backend *b, void *p)
{
    if (b->device)
        b->device->free(b->state, p);
    else
        free(p);
}

static inline void settle(struct backend *b)
{
    struct pdl_err err = {{0}, {0}};

    if (b->device &&
        b->device->finish(b->state, b->device->record(b->state, TRAIN_COMPUTE),
                          &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static inline void copy_room(struct backend *b, enum train_way way, void *to,
                             const void *from, const struct train_array *a)
{
    struct pdl_err err = {{0}, {0}};

    if (b->device->copy(b->state, TRAIN_COMPUTE, way, to, from,
                        train_array_bytes(a), &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static inline void *lent(struct backend *b, const struct value *v)
{
    void *p;

    if (!b->device)
        return v->at;
    p = room_of(b, train_array_bytes(&v->a));
    copy_room(b, TRAIN_TO_DEVICE, p, v->at, &v->a);
    settle(b);
    return p;
}

/* Inputs, too: running statistics are changed in place. */
static inline void take_back(struct backend *b, const struct value *v, void *p)
{
    if (!b->device)
        return;
    copy_room(b, TRAIN_TO_HOST, v->at, p, &v->a);
    settle(b);
    give_room(b, p);
}

/* Makes and runs one call; its implementation's name. */
static inline const char *call_kernel(struct backend *b,
                                      const struct train_call *call,
                                      const struct list *in,
                                      const struct list *out,
                                      const struct train_moment *when)
{
    struct train_array ins[40], outs[40];
    void *pin[40], *pout[40];
    char *scratch;
    struct train_kernel *k = NULL;
    struct pdl_err err = {{0}, {0}};
    struct train_call c = *call;

    for (int i = 0; i < in->n; i++) {
        ins[i] = in->v[i]->a;
        pin[i] = lent(b, in->v[i]);
    }
    for (int i = 0; i < out->n; i++) {
        outs[i] = out->v[i]->a;
        pout[i] = lent(b, out->v[i]);
    }
    c.in = ins;
    c.out = outs;
    c.nin = in->n;
    c.nout = out->n;
    if (b->b->make(b->state, &c, &k, &err) != PDL_OK) {
        print_error("make: %s\n", err.msg);
        fail();
    }
    scratch =
        room_of(b, k->scratch_bytes + 64); /* it is of 64 bytes, no more */
    if (k->run(k, pin, pout, scratch + 64, when, &err) != PDL_OK) {
        print_error("run: %s\n", err.msg);
        fail();
    }
    settle(b);
    for (int i = 0; i < in->n; i++)
        take_back(b, in->v[i], pin[i]);
    for (int i = 0; i < out->n; i++)
        take_back(b, out->v[i], pout[i]);
    give_room(b, scratch);
    return k->implementation;
}

static inline const char *run_when(struct backend *b, struct operands *p,
                                   const struct one_op *o, enum pdl_pass pass,
                                   bool again)
{
    struct train_moment when = {
        .seed = 3, .step = 5, .first_sample = 40, .again = again};
    struct train_call c = {.model = o->model,
                           .node = o->node,
                           .pass = pass,
                           .groups = o->c->apart};
    struct list in, out;

    lists_of(p, o, pass, &in, &out);
    if (out.n == 0)
        return "nothing";
    return call_kernel(b, &c, &in, &out, &when);
}

static inline const char *run_pass(struct backend *b, struct operands *p,
                                   const struct one_op *o, enum pdl_pass pass)
{
    return run_when(b, p, o, pass, true);
}

/* Gives the operands the aux array this backend wants. */
static inline void add_aux(struct backend *b, struct operands *p,
                           const struct one_op *o)
{
    struct train_array ins[40], outs[40], a;
    struct train_call c = {.model = o->model,
                           .node = o->node,
                           .pass = PDL_FORWARD,
                           .groups = o->c->apart,
                           .in = ins,
                           .out = outs};
    struct list in, out;

    p->has_aux = false;
    lists_of(p, o, PDL_FORWARD, &in, &out);
    for (int i = 0; i < in.n; i++)
        ins[i] = in.v[i]->a;
    for (int i = 0; i < out.n; i++)
        outs[i] = out.v[i]->a;
    c.nin = in.n;
    c.nout = out.n;
    if (b->b->aux(&c, &a) == TRAIN_AUX_NONE)
        return;
    p->aux = value_of(&a);
    p->has_aux = true;
}

#endif
