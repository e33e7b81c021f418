/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of measured layer times (schema paradl.layers/1): one record a local
 * shape, one row here a pass of it. The times are of one layer called alone
 * through an eager framework, so the call is added to the kernel: the device
 * waits for the host. Float32 convolutions and products are TF32, which is
 * the default of the framework that measured.
 *
 * The kernels' parameters do not come from such a file (compute_norm.c,
 * compute_attention.c). What the calls around them cost does, in part:
 * UPDATE_STREAMS, BACKWARD_CALLS and call_backward were read off the
 * element-wise and update rows of an H200's file, and the table of further
 * calls, though counted in a profile on another host, was settled with that
 * file's rows in view (the ratio of host times on that host gave 10 us more
 * for batch normalisation). On those rows of that file the match is not a
 * blind test of the calls. */
#include "oracle/oracle_priv.h"

#include <math.h>
#include <string.h>

static const double UPDATE_STREAMS = 1.2;
enum { BACKWARD_CALLS = 3, MAX_DIM = 1 << 30 };

/* Times an element-wise operator reads or writes the tensor: forward,
 * backward. */
static const struct stream {
    const char *op;
    double forward, backward;
} streams[] = {
    {"relu", 2, 3},
    {"add", 3, 0},
    {"gelu", 2, 3},
};

/* Calls beyond the first, as a profile of the framework shows them: forward,
 * what it issues besides the operator (the counter of batches, a cleared
 * workspace; two more results are half a call); backward, one for every further
 * kernel. Batch normalisation clears a workspace more with 16-bit items, both
 * ways. */
static const struct calls {
    const char *op;
    double forward, forward16, backward, backward16;
} calls[] = {
    {"batch_norm", 1, 2, 1, 2},
    {"layer_norm", .5, .5, 0, 0},
    {"sdpa", 1, 1, 3, 3},
};

struct record {
    const struct pdl_doc *doc;
    const struct pdl_row_filter *select;
    struct pdl_layer_times *out;
    struct pdl_layer_time row;
    int room;
    struct pdl_err *err;
};

static enum pdl_status integer(const struct record *r, const char *key,
                               int64_t *out)
{
    const struct pdl_doc *d = pdl_doc_get(r->doc, key);

    if (!d)
        return pdl_doc_fail(r->doc, r->err, "no \"%s\"", key);
    return pdl_doc_int(d, 0, MAX_DIM, out, r->err);
}

static const char *text_of(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d && d->kind == PDL_DOC_SCALAR ? d->text : "";
}

/* Keeps the row of one pass, if the record has its time. */
static enum pdl_status keep(struct record *r, const char *pass, const char *key)
{
    const struct pdl_doc *d = pdl_doc_get(r->doc, key);
    enum pdl_status st;

    if (!d)
        return PDL_OK;
    r->row.pass = pass;
    st = pdl_doc_num(d, PDL_UNIT_NONE, 0, 1e6, &r->row.measured_s, r->err);
    if (st != PDL_OK)
        return st;
    if (!(r->row.measured_s > 0))
        return pdl_doc_fail(d, r->err, "%s: expected a time above 0", key);
    if (r->out->n < r->room && pdl_row_filter_has(r->select, "pass", pass))
        r->out->row[r->out->n++] = r->row;
    return PDL_OK;
}

static enum pdl_status keep_passes(struct record *r)
{
    static const struct {
        enum pdl_pass pass;
        const char *name, *key;
    } passes[] = {
        {PDL_FORWARD, "forward", "forward_s"},
        {PDL_BACKWARD_DATA, "backward-data", "backward_data_s"},
        {PDL_BACKWARD_WEIGHTS, "backward-weights", "backward_weights_s"},
        {PDL_FORWARD, "update", "update_s"},
    };
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < 4 && st == PDL_OK; i++) {
        r->row.shape.pass = passes[i].pass;
        st = keep(r, passes[i].name, passes[i].key);
    }
    return st;
}

/* The extents of an image, or of a volume where there is a "d". */
static enum pdl_status extents(struct record *r)
{
    static const char *const names[] = {"d", "h", "w"};
    struct pdl_shape *s = &r->row.shape;
    int first = pdl_doc_get(r->doc, "d") ? 0 : 1;
    enum pdl_status st = PDL_OK;

    s->nspatial = 3 - first;
    for (int i = first; i < 3 && st == PDL_OK; i++)
        st = integer(r, names[i], &s->in[i - first]);
    return st;
}

static enum pdl_status channels(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    enum pdl_status st = integer(r, "n", &s->n);

    s->groups = 1;
    if (st == PDL_OK)
        st = integer(r, "c", &s->c);
    if (st == PDL_OK)
        st = integer(r, "f", &s->f);
    if (st == PDL_OK && pdl_doc_get(r->doc, "groups"))
        st = integer(r, "groups", &s->groups);
    if (st == PDL_OK &&
        (s->groups < 1 || s->c % s->groups != 0 || s->f % s->groups != 0))
        st = pdl_doc_fail(r->doc, r->err, "groups must divide c and f");
    return st;
}

static enum pdl_status conv(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    int64_t k = 1, stride = 1, pad = 0;
    enum pdl_status st = channels(r);

    s->kind = PDL_SHAPE_CONV;
    if (st == PDL_OK)
        st = extents(r);
    if (st == PDL_OK)
        st = integer(r, "k", &k);
    if (st == PDL_OK)
        st = integer(r, "stride", &stride);
    if (st == PDL_OK)
        st = integer(r, "pad", &pad);
    if (st == PDL_OK && (k < 1 || stride < 1))
        st = pdl_doc_fail(r->doc, r->err, "k and stride must be at least 1");
    for (int d = 0; d < s->nspatial && st == PDL_OK; d++) {
        s->kernel[d] = k;
        s->stride[d] = stride;
        s->out[d] =
            s->in[d] + 2 * pad < k ? 0 : (s->in[d] + 2 * pad - k) / stride + 1;
    }
    return st;
}

static enum pdl_status gemm(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    enum pdl_status st = integer(r, "m", &s->n);

    s->kind = PDL_SHAPE_MATMUL;
    if (st == PDL_OK)
        st = integer(r, "n", &s->f);
    if (st == PDL_OK)
        st = integer(r, "k", &s->c);
    return st;
}

static enum pdl_status sdpa(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    enum pdl_status st = integer(r, "b", &s->n);

    s->kind = PDL_SHAPE_ATTENTION;
    s->causal = strcmp(text_of(r->doc, "causal"), "true") == 0;
    if (st == PDL_OK)
        st = integer(r, "heads", &s->groups);
    if (st == PDL_OK)
        st = integer(r, "d", &s->c);
    if (st == PDL_OK)
        st = integer(r, "t", &s->in[0]);
    s->out[0] = s->in[0];
    return st;
}

/* Weight, gradient and state: 28 bytes a parameter of Adam, 20 of momentum. */
static enum pdl_status update(struct record *r)
{
    bool adam = strncmp(text_of(r->doc, "optimizer"), "adam", 4) == 0;
    int64_t n = 0;
    const struct pdl_doc *d = pdl_doc_get(r->doc, "parameters");
    enum pdl_status st = d ? pdl_doc_int(d, 0, INT64_MAX / 64, &n, r->err)
                           : pdl_doc_fail(r->doc, r->err, "no \"parameters\"");

    r->row.shape.bytes = UPDATE_STREAMS * (adam ? 28 : 20) * (double)n;
    return st;
}

static enum pdl_status elements(struct record *r)
{
    bool rows = pdl_doc_get(r->doc, "rows") != NULL;
    int64_t a = 1, b = 1, c = 1;
    enum pdl_status st = integer(r, rows ? "rows" : "n", &a);

    if (st == PDL_OK)
        st = integer(r, rows ? "e" : "c", &b);
    if (st == PDL_OK && !rows)
        st = integer(r, "h", &c);
    r->row.shape.bytes = (double)a * (double)b * (double)c * (double)c *
                         pdl_precision_bytes(r->row.shape.precision);
    return st;
}

static enum pdl_status batch_norm(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    enum pdl_status st = elements(r);
    int64_t side = 1;

    s->kind = PDL_SHAPE_BATCH_NORM;
    if (st != PDL_OK || pdl_doc_get(r->doc, "rows"))
        return st;
    st = integer(r, "n", &s->n);
    if (st == PDL_OK)
        st = integer(r, "c", &s->c);
    if (st == PDL_OK)
        st = integer(r, "h", &side);
    if (s->n > 0 && side > MAX_DIM / s->n)
        return pdl_doc_fail(r->doc, r->err, "more rows than %d", MAX_DIM);
    s->n *= side * side;
    return st;
}

static enum pdl_status layer_norm(struct record *r)
{
    struct pdl_shape *s = &r->row.shape;
    enum pdl_status st = elements(r);

    s->kind = PDL_SHAPE_LAYER_NORM;
    if (st == PDL_OK)
        st = integer(r, "rows", &s->n);
    return st == PDL_OK ? integer(r, "e", &s->c) : st;
}

static enum pdl_status no_shape(struct record *r)
{
    (void)r;
    return PDL_OK;
}

static const struct family {
    const char *op;
    enum pdl_status (*read)(struct record *r);
} families[] = {
    {"conv", conv},
    {"gemm", gemm},
    {"sdpa", sdpa},
    {"update", update},
    {"relu", elements},
    {"add", elements},
    {"gelu", elements},
    {"batch_norm", batch_norm},
    {"layer_norm", layer_norm},
    {"launch", no_shape},
};

static bool wanted(const struct record *r)
{
    const struct pdl_layer_time *x = &r->row;
    const struct {
        const char *key, *value;
    } has[] = {{"model", x->model},
               {"layer", x->layer},
               {"op", x->op},
               {"split", x->split},
               {"dtype", x->dtype}};

    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++)
        if (!pdl_row_filter_has(r->select, has[i].key, has[i].value))
            return false;
    return true;
}

static enum pdl_status read_record(struct record *r)
{
    enum pdl_status st;

    r->row = (struct pdl_layer_time){
        .model = text_of(r->doc, "model"),
        .layer = text_of(r->doc, "layer"),
        .op = text_of(r->doc, "op"),
        .split = text_of(r->doc, "split"),
        .dtype = text_of(r->doc, "dtype"),
        .parts = 1,
    };
    r->row.shape.precision =
        strcmp(r->row.dtype, "bfloat16") == 0  ? PDL_PREC_BF16
        : strcmp(r->row.dtype, "float16") == 0 ? PDL_PREC_FP16
        : strcmp(r->row.dtype, "ieee32") == 0  ? PDL_PREC_FP32
                                               : PDL_PREC_TF32;
    if (!wanted(r))
        return PDL_OK;
    if (pdl_doc_get(r->doc, "parts")) {
        st = integer(r, "parts", &r->row.parts);
        if (st != PDL_OK)
            return st;
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].op, r->row.op) == 0) {
            st = families[i].read(r);
            return st == PDL_OK ? keep_passes(r) : st;
        }
    return pdl_doc_fail(r->doc, r->err, "op: unknown operator '%s'", r->row.op);
}

enum pdl_status pdl_layers_read(pdl_arena *a, const struct pdl_doc *doc,
                                const struct pdl_row_filter *select,
                                struct pdl_layer_times *out,
                                struct pdl_err *err)
{
    const struct pdl_doc *list = pdl_doc_get(doc, "records");
    struct record r = {.select = select, .out = out, .err = err};

    *out = (struct pdl_layer_times){.n = 0};
    if (!list || list->kind != PDL_DOC_LIST)
        return pdl_doc_fail(doc, err, "no list of \"records\"");
    r.room = 3 * list->count;
    out->row = PDL_NEW(a, struct pdl_layer_time, r.room + 1);
    if (!out->row)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (r.doc = list->child; r.doc; r.doc = r.doc->next) {
        enum pdl_status st =
            r.doc->kind == PDL_DOC_MAP
                ? read_record(&r)
                : pdl_doc_fail(r.doc, err, "expected a record");

        if (st != PDL_OK)
            return st;
    }
    return PDL_OK;
}

/* ---- as measured ------------------------------------------------------ */

static double streamed(const struct pdl_pe *pe, const struct pdl_layer_time *x,
                       bool backward)
{
    struct pdl_shape s = x->shape;

    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        if (strcmp(streams[i].op, x->op) == 0)
            s.bytes *= backward ? streams[i].backward : streams[i].forward;
    return pdl_shape_seconds(pe, &s);
}

/* Beyond those of an operator that is one kernel. */
static double further_calls(const struct pdl_layer_time *x, bool backward)
{
    bool narrow = pdl_precision_bytes(x->shape.precision) <= 2;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const struct calls *c = &calls[i];

        if (strcmp(c->op, x->op) == 0)
            return backward ? (narrow ? c->backward16 : c->backward)
                            : (narrow ? c->forward16 : c->forward);
    }
    return 0;
}

/* The call was measured with an empty kernel, so a kernel's launch is in it. */
double pdl_layer_seconds(const struct pdl_pe *pe,
                         const struct pdl_layer_time *x)
{
    const struct pdl_kernels *k = &pe->kernels;
    double conv_call[] = {k->call_conv_s, k->call_conv_data_s,
                          k->call_conv_weights_s};
    bool backward = x->shape.pass != PDL_FORWARD;
    double kernel, more = further_calls(x, backward) * k->call_s;

    if (x->shape.kind == PDL_SHAPE_CONV)
        return conv_call[x->shape.pass] + pdl_shape_seconds(pe, &x->shape);
    if (strcmp(x->pass, "update") == 0)
        return (x->shape.bytes > 0 ? BACKWARD_CALLS : 1) * k->call_s +
               pdl_shape_seconds(pe, &x->shape);
    kernel = x->shape.kind == PDL_SHAPE_STREAM
                 ? streamed(pe, x, backward)
                 : pdl_shape_seconds(pe, &x->shape);
    kernel = kernel > pe->launch_s ? kernel - pe->launch_s : kernel;
    if (!backward)
        return k->call_s + more + kernel;
    kernel += BACKWARD_CALLS * k->call_s;
    return more + (kernel > k->call_backward_s ? kernel : k->call_backward_s);
}

/* ---- what layer times identify ---------------------------------------- */

#define AT(field) offsetof(struct pdl_system, pe.kernels.field)
#define BF16      (PDL_PREC_BF16 * sizeof(double))
#define TF32      (PDL_PREC_TF32 * sizeof(double))
#define FP32      (PDL_PREC_FP32 * sizeof(double))
// clang-format off
static const struct pdl_fit_param layer_params[] = {
    {"pe.kernels.conv_forward.bf16", AT(conv_forward) + BF16, .2, 1.37, .8, 0, 0},
    {"pe.kernels.conv_data.bf16", AT(conv_data) + BF16, .2, 1.37, .8, 0, 0},
    {"pe.kernels.conv_weights.bf16", AT(conv_weights) + BF16, .2, 1.37, .8, 0, 0},
    {"pe.kernels.conv_forward.tf32", AT(conv_forward) + TF32, .2, 1.37, .8, 0, 0},
    {"pe.kernels.conv_data.tf32", AT(conv_data) + TF32, .2, 1.37, .8, 0, 0},
    {"pe.kernels.conv_weights.tf32", AT(conv_weights) + TF32, .1, 1.37, .5, 0, 0},
    {"pe.kernels.conv_forward.fp32", AT(conv_forward) + FP32, .2, 4, 1, 0, 0},
    {"pe.kernels.conv_data.fp32", AT(conv_data) + FP32, .2, 4, 1, 0, 0},
    {"pe.kernels.conv_weights.fp32", AT(conv_weights) + FP32, .2, 4, 1, 0, 0},
    {"pe.kernels.call_conv", AT(call_conv_s), 2e-6, 60e-6, 20e-6, 0, 0},
    {"pe.kernels.call_conv_data", AT(call_conv_data_s), 2e-6, 60e-6, 28e-6, 0, 0},
    {"pe.kernels.call_conv_weights", AT(call_conv_weights_s), 2e-6, 60e-6, 30e-6, 0, 0},
    {"pe.kernels.conv_tile", AT(conv_tile_s), .05e-6, 10e-6, .5e-6, 0, 0},
    {"pe.kernels.pad_cost", AT(pad_cost), .05, 4, 1, 0, 0},
    {"pe.kernels.conv_epilogue", AT(conv_epilogue), .1, 4, .63, 0, 0},
};
// clang-format on
#undef AT

const struct pdl_fit_param *pdl_fit_layer_param(int i)
{
    return i < (int)(sizeof layer_params / sizeof layer_params[0])
               ? &layer_params[i]
               : NULL;
}
