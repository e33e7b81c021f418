/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and matrix products by oneDNN: activations channels last, as
 * they are kept, weights in the library's own layout. A reference kernel (the
 * library's way of saying that it has none) counts as none. */
#include "operator.h"

#include <stdlib.h>
#include <string.h>

#ifdef PDL_HAVE_DNNL
#include "paradl/train.h"

#include <dnnl.h>

enum { MAX_ARGS = 3 };

struct run_operator {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t hint, desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[MAX_ARGS];
    dnnl_exec_arg_t arg[MAX_ARGS];
};

/* ---- descriptions ----------------------------------------------------- */

struct tensors {
    dnnl_memory_desc_t in, weights, out;
};

static bool describe_conv(const struct run_shape *s, struct tensors *t)
{
    const int64_t *d = s->dims;
    int64_t h = (d[2] + 2 * d[7] - d[5]) / d[6] + 1;
    int64_t w = (d[3] + 2 * d[7] - d[5]) / d[6] + 1;
    const dnnl_dims_t in = {d[0], d[1], d[2], d[3]};
    const dnnl_dims_t weights = {d[4], d[1], d[5], d[5]};
    const dnnl_dims_t out = {d[0], d[4], h, w};
    dnnl_data_type_t type = s->bf16 ? dnnl_bf16 : dnnl_f32;

    return dnnl_memory_desc_init_by_tag(&t->in, 4, in, type, dnnl_nhwc) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->weights, 4, weights, type,
                                        dnnl_format_tag_any) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->out, 4, out, type, dnnl_nhwc) ==
               dnnl_success;
}

static bool forward_desc(run_operator *op, const struct run_shape *s,
                         const struct tensors *t, dnnl_primitive_desc_t *pd)
{
    const dnnl_dims_t stride = {s->dims[6], s->dims[6]};
    const dnnl_dims_t pad = {s->dims[7], s->dims[7]};
    dnnl_convolution_desc_t c;

    return dnnl_convolution_forward_desc_init(
               &c, dnnl_forward_training, dnnl_convolution_direct, &t->in,
               &t->weights, NULL, &t->out, stride, pad, pad) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &c, NULL, op->engine, NULL) ==
               dnnl_success;
}

static bool conv_desc(run_operator *op, const struct run_shape *s)
{
    const dnnl_dims_t stride = {s->dims[6], s->dims[6]};
    const dnnl_dims_t pad = {s->dims[7], s->dims[7]};
    dnnl_convolution_desc_t c;
    struct tensors t;
    dnnl_status_t st;

    if (!describe_conv(s, &t))
        return false;
    if (s->pass == RUN_FORWARD)
        return forward_desc(op, s, &t, &op->desc);
    if (!forward_desc(op, s, &t, &op->hint))
        return false;
    st = s->pass == RUN_BACKWARD_DATA
             ? dnnl_convolution_backward_data_desc_init(
                   &c, dnnl_convolution_direct, &t.in, &t.weights, &t.out,
                   stride, pad, pad)
             : dnnl_convolution_backward_weights_desc_init(
                   &c, dnnl_convolution_direct, &t.in, &t.weights, NULL, &t.out,
                   stride, pad, pad);
    return st == dnnl_success &&
           dnnl_primitive_desc_create(&op->desc, &c, NULL, op->engine,
                                      op->hint) == dnnl_success;
}

static bool matmul_desc(run_operator *op, const struct run_shape *s)
{
    const dnnl_dims_t a = {s->dims[0], s->dims[2]};
    const dnnl_dims_t b = {s->dims[2], s->dims[1]};
    const dnnl_dims_t c = {s->dims[0], s->dims[1]};
    dnnl_data_type_t type = s->bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_matmul_desc_t m;
    struct tensors t;

    memset(&t, 0, sizeof t);
    return dnnl_memory_desc_init_by_tag(&t.in, 2, a, type, dnnl_ab) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t.weights, 2, b, type, dnnl_ab) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t.out, 2, c, type, dnnl_ab) ==
               dnnl_success &&
           dnnl_matmul_desc_init(&m, &t.in, &t.weights, NULL, &t.out) ==
               dnnl_success &&
           dnnl_primitive_desc_create(&op->desc, &m, NULL, op->engine, NULL) ==
               dnnl_success;
}

/* ---- memory ----------------------------------------------------------- */

struct argument {
    dnnl_query_t query;
    int arg;
};
static const struct argument arguments[][MAX_ARGS] = {
    [RUN_FORWARD] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                     {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                     {dnnl_query_dst_md, DNNL_ARG_DST}},
    [RUN_BACKWARD_DATA] = {{dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC},
                           {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                           {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST}},
    [RUN_BACKWARD_WEIGHTS] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                              {dnnl_query_diff_weights_md,
                               DNNL_ARG_DIFF_WEIGHTS},
                              {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST}},
};

/* Zeros would do: the kernels do not look. But not what memory held before,
 * which may be subnormal and slow. */
static bool take_memory(run_operator *op, enum run_pass pass)
{
    for (int i = 0; i < MAX_ARGS; i++) {
        const struct argument *a = &arguments[pass][i];
        const dnnl_memory_desc_t *md =
            dnnl_primitive_desc_query_md(op->desc, a->query, 0);
        void *data = NULL;

        if (!md ||
            dnnl_memory_create(&op->memory[i], md, op->engine,
                               DNNL_MEMORY_ALLOCATE) != dnnl_success ||
            dnnl_memory_get_data_handle(op->memory[i], &data) != dnnl_success)
            return false;
        memset(data, 0, dnnl_memory_desc_get_size(md));
        op->arg[i] = (dnnl_exec_arg_t){a->arg, op->memory[i]};
    }
    return true;
}

static bool is_reference(run_operator *op)
{
    const char *info = "";

    dnnl_primitive_desc_query(op->desc, dnnl_query_impl_info_str, 0,
                              (void *)&info);
    return strncmp(info, "ref", 3) == 0;
}

run_operator *run_operator_open(const struct run_shape *shape)
{
    run_operator *op = calloc(1, sizeof *op);

    if (!op)
        return NULL;
    pdl_train_prepare_dnnl();
    if (dnnl_engine_create(&op->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&op->stream, op->engine,
                           dnnl_stream_default_flags) == dnnl_success &&
        (shape->conv ? conv_desc(op, shape) : matmul_desc(op, shape)) &&
        !is_reference(op) &&
        dnnl_primitive_create(&op->primitive, op->desc) == dnnl_success &&
        take_memory(op, shape->pass))
        return op;
    run_operator_close(op);
    return NULL;
}

void run_operator_run(run_operator *op)
{
    dnnl_primitive_execute(op->primitive, op->stream, MAX_ARGS, op->arg);
    dnnl_stream_wait(op->stream);
}

void run_operator_close(run_operator *op)
{
    if (!op)
        return;
    for (int i = 0; i < MAX_ARGS; i++)
        if (op->memory[i])
            dnnl_memory_destroy(op->memory[i]);
    if (op->primitive)
        dnnl_primitive_destroy(op->primitive);
    if (op->desc)
        dnnl_primitive_desc_destroy(op->desc);
    if (op->hint)
        dnnl_primitive_desc_destroy(op->hint);
    if (op->stream)
        dnnl_stream_destroy(op->stream);
    if (op->engine)
        dnnl_engine_destroy(op->engine);
    free(op);
}

const char *run_operator_library(void)
{
    return "oneDNN";
}

#else

run_operator *run_operator_open(const struct run_shape *shape)
{
    (void)shape;
    return NULL;
}

void run_operator_run(run_operator *op)
{
    (void)op;
}

void run_operator_close(run_operator *op)
{
    (void)op;
}

const char *run_operator_library(void)
{
    return NULL;
}
#endif
