/* SPDX-License-Identifier: Apache-2.0
 *
 * Backend ref: plain C, float64 inside, every sum in an order that depends on
 * global indices only. So a part computes exactly what the whole computes
 * there, bit for bit, wherever no sum crosses ranks. It is the truth that
 * other backends are compared with, not a fast thing. */
#include "train/backends/ref/ref.h"
#include "train/train_priv.h"

#include <string.h>

struct ref_kernel {
    struct train_kernel base;
    struct train_call call;
    const struct ref_op *row;
    struct train_operands op;
    int64_t work; /* float64s */
};

/* ---- elements ------------------------------------------------------------ */

static double bf16_to_double(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* To the nearest, ties to even. */
static uint16_t double_to_bf16(double v)
{
    float f = (float)v;
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* stays not a number */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

double train_number(enum pdl_dtype t, const void *p, int64_t i)
{
    switch (t) {
    case PDL_F32:
        return ((const float *)p)[i];
    case PDL_F64:
        return ((const double *)p)[i];
    case PDL_BF16:
        return bf16_to_double(((const uint16_t *)p)[i]);
    case PDL_I32:
        return ((const int32_t *)p)[i];
    case PDL_I64:
        return (double)((const int64_t *)p)[i];
    default: /* PDL_U8 */
        return ((const uint8_t *)p)[i];
    }
}

static void store(enum pdl_dtype t, void *p, int64_t i, double v)
{
    switch (t) {
    case PDL_F32:
        ((float *)p)[i] = (float)v;
        break;
    case PDL_F64:
        ((double *)p)[i] = v;
        break;
    case PDL_BF16:
        ((uint16_t *)p)[i] = double_to_bf16(v);
        break;
    case PDL_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case PDL_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    default:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    }
}

static bool has_type(enum pdl_dtype t)
{
    return t == PDL_F32 || t == PDL_F64 || t == PDL_BF16 || t == PDL_I32 ||
           t == PDL_I64 || t == PDL_U8;
}

/* ---- arrays ----------------------------------------------------------- */

static void describe(const struct train_array *a, struct ref_array *r)
{
    int64_t s = 1;

    r->box = a->box;
    r->changed = false;
    for (int d = a->box.ndims - 1; d >= 0; d--) {
        r->stride[d] = s;
        r->n[d] = ref_max(a->box.hi[d] - a->box.lo[d], 0);
        s *= r->n[d];
    }
    r->count = s;
}

/* Calls in storage order, so that one side is walked in a line. */
static void unpack(const struct train_array *a, const void *from,
                   struct ref_array *r)
{
    int64_t stride[PDL_BOX_DIMS] = {0}, i[PDL_BOX_DIMS] = {0}, to = 0;

    train_array_strides(a, stride);
    REF_EACH(&r->box, i)
    {
        int64_t o = 0;

        for (int d = 0; d < r->box.ndims; d++)
            o += (i[d] - r->box.lo[d]) * stride[d];
        r->at[to++] = train_number(a->dtype, from, o);
    }
}

static void pack(const struct train_array *a, const struct ref_array *r,
                 void *into)
{
    int64_t stride[PDL_BOX_DIMS] = {0}, i[PDL_BOX_DIMS] = {0}, from = 0;

    train_array_strides(a, stride);
    REF_EACH(&r->box, i)
    {
        int64_t o = 0;

        for (int d = 0; d < r->box.ndims; d++)
            o += (i[d] - r->box.lo[d]) * stride[d];
        store(a->dtype, into, o, r->at[from++]);
    }
}

/* ---- running ---------------------------------------------------------- */

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct ref_kernel *k = (const struct ref_kernel *)base;
    const struct train_call *c = &k->call;
    double *at = scratch;
    struct ref_run r = {.call = c,
                        .node = c->node,
                        .tensors = c->model ? c->model->tensors : NULL,
                        .op = k->op,
                        .when = when};

    (void)err;
    for (int i = 0; i < c->nin; i++) {
        describe(&c->in[i], &r.in[i]);
        r.in[i].at = at;
        at += r.in[i].count;
        unpack(&c->in[i], in[i], &r.in[i]);
    }
    for (int i = 0; i < c->nout; i++) {
        describe(&c->out[i], &r.out[i]);
        r.out[i].at = at;
        at += r.out[i].count;
        memset(r.out[i].at, 0, (size_t)r.out[i].count * sizeof(double));
    }
    r.work = at;
    k->row->run(&r);
    for (int i = 0; i < c->nout; i++)
        pack(&c->out[i], &r.out[i], out[i]);
    for (int i = 0; i < c->nin; i++)
        if (r.in[i].changed)
            pack(&c->in[i], &r.in[i], in[i]);
    return PDL_OK;
}

/* ---- making ----------------------------------------------------------- */

static const struct ref_op *find(const char *name)
{
    static const struct ref_ops *const all[] = {
        &train_ref_conv,      &train_ref_linear,    &train_ref_norm,
        &train_ref_pointwise, &train_ref_broadcast, &train_ref_pool,
        &train_ref_shape,     &train_ref_attention, &train_ref_loss,
        &train_ref_lrn,       &train_ref_reduce,    &train_ref_experts,
    };

    for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
        for (int i = 0; i < all[t]->n; i++)
            if (strcmp(all[t]->rows[i].name, name) == 0)
                return &all[t]->rows[i];
    return NULL;
}

static enum pdl_status check_arrays(const struct train_call *c,
                                    const char *name, struct pdl_err *err)
{
    if (c->nin > REF_MAX || c->nout > REF_MAX)
        return pdl_fail(err, PDL_EINVAL, "%s: too many operands", name);
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (!has_type(a->dtype))
            return pdl_fail(err, PDL_EINVAL, "%s: has no arithmetic for %s",
                            name, pdl_dtype_name(a->dtype));
        if (a->layout != 0)
            return pdl_fail(err, PDL_EINVAL, "%s: an unknown layout", name);
    }
    return PDL_OK;
}

static enum pdl_status scratch_size(struct ref_kernel *k, struct pdl_err *err)
{
    const struct train_call *c = &k->call;
    int64_t n = k->work;

    for (int i = 0; i < c->nin + c->nout; i++) {
        int64_t e =
            train_array_elements(i < c->nin ? &c->in[i] : &c->out[i - c->nin]);

        if (e < 0 || !pdl_add64(n, e, &n))
            return pdl_fail(err, PDL_EINVAL, "an array is too large");
    }
    if (!pdl_mul64(n, (int64_t)sizeof(double), &k->base.scratch_bytes))
        return pdl_fail(err, PDL_EINVAL, "an array is too large");
    return PDL_OK;
}

static bool keep_arrays(pdl_arena *a, struct train_call *c)
{
    struct train_array *p =
        PDL_NEW(a, struct train_array, c->nin + c->nout + 1);

    if (!p)
        return false;
    memcpy(p, c->in, (size_t)c->nin * sizeof *p);
    memcpy(p + c->nin, c->out, (size_t)c->nout * sizeof *p);
    c->in = p;
    c->out = p + c->nin;
    return true;
}

/* As the executor adds what no kernel adds. */
static enum pdl_status run_sum(const struct train_kernel *base, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct train_array *y =
        &((const struct ref_kernel *)base)->call.out[0];

    (void)scratch, (void)when, (void)err;
    train_plus(y->dtype, out[0], in[0], in[1], train_array_elements(y));
    return PDL_OK;
}

static enum pdl_status make_sum(void *state, const struct train_call *call,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct ref_kernel *k = PDL_NEW((pdl_arena *)state, struct ref_kernel, 1);

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *k = (struct ref_kernel){.base = {.implementation = "ref", .run = run_sum},
                             .call = *call};
    *out = &k->base;
    return keep_arrays(state, &k->call)
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

static enum pdl_status make(void *state, const struct train_call *call,
                            struct train_kernel **out, struct pdl_err *err)
{
    const char *name = call->node ? call->node->name : "loss";
    const struct ref_op *row = find(call->node ? call->node->op->name : "loss");
    struct ref_kernel *k;
    enum pdl_status st = PDL_OK;

    if (call->sums)
        return make_sum(state, call, out, err);
    if (call->groups > 1)
        return train_in_groups(state, &train_ref, state, call, out, err);
    if (!row)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %s: the runtime has no kernel for %s",
                        call->model ? call->model->name : "", name,
                        !call->node             ? name
                        : call->node->source_op ? call->node->source_op
                                                : call->node->op->name);
    st = check_arrays(call, name, err);
    if (st == PDL_OK && row->check)
        st = row->check(call, err);
    if (st != PDL_OK)
        return st;
    k = PDL_NEW((pdl_arena *)state, struct ref_kernel, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->base.implementation = "ref";
    k->base.run = run;
    k->call = *call;
    k->row = row;
    k->work = row->work ? row->work(call) : 0;
    train_operands(call, &k->op);
    if (!keep_arrays(state, &k->call))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = scratch_size(k, err);
    if (st == PDL_OK)
        *out = &k->base;
    return st;
}

static enum pdl_status open(pdl_arena *a, void **state, struct pdl_err *err)
{
    (void)err;
    *state = a;
    return PDL_OK;
}

static void close(void *state)
{
    (void)state;
}

/* The logarithm of each query's sum of exponentials: [N, heads, T]. */
static void log_sums(const struct train_call *c, struct train_array *a)
{
    const struct pdl_attr *t = &c->node->attr;
    const struct pdl_box *y = &c->out[0].box;
    int64_t dv = t->v_head_dim ? t->v_head_dim : t->head_dim;

    *a = (struct train_array){.dtype = PDL_F64, .box = {.ndims = 3}};
    a->box.hi[0] = ref_max(y->hi[0] - y->lo[0], 0);
    a->box.hi[1] = ref_max(y->hi[2] - y->lo[2], 0) / dv;
    a->box.hi[2] = ref_max(y->hi[1] - y->lo[1], 0);
}

/* Positions of maxima; the rest is computed again, unless what it is computed
 * from comes in blocks. */
static enum train_aux aux(const struct train_call *c, struct train_array *a)
{
    if (c->node && c->pass == PDL_FORWARD && c->blocks &&
        pdl_op_id(c->node->op) == PDL_ID_ATTENTION) {
        log_sums(c, a);
        return TRAIN_AUX_LOCAL;
    }
    if (!c->node || c->pass != PDL_FORWARD || c->nout < 1 ||
        (pdl_op_id(c->node->op) != PDL_ID_MAX_POOL &&
         pdl_op_id(c->node->op) != PDL_ID_GLOBAL_MAX_POOL))
        return TRAIN_AUX_NONE;
    *a = c->out[0];
    a->dtype = PDL_I32;
    return TRAIN_AUX_LIKE_Y;
}

const struct train_backend train_ref = {
    .name = "ref",
    .summary = "plain C, float64 inside, the same bits for every split",
    .open = open,
    .close = close,
    .make = make,
    .aux = aux,
};
