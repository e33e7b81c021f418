/* SPDX-License-Identifier: Apache-2.0
 *
 * What networks have on their main path: flatten and reshape (whole samples,
 * whose elements change place only where channels are last), concat, and
 * padding or cropping. Everything rarer is the reference's. */
#include "train/backends/cpu/cpu.h"

#include <string.h>

struct move_kernel {
    struct train_kernel base;
    struct train_call call;
    int64_t n, c, s; /* samples, channels, positions */
    bool last;       /* x has channels last, y has not */
    size_t size;     /* of an element */
};

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

/* from [n][s][c] to [n][c][s] for 4-byte and 2-byte elements. */
static void turn(const char *from, char *to, int64_t rows, int64_t columns,
                 size_t size)
{
    if (size == 4) {
        const uint32_t *f = (const uint32_t *)(const void *)from;
        uint32_t *t = (uint32_t *)(void *)to;

        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < rows; r++)
                t[c * rows + r] = f[r * columns + c];
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy(to + (size_t)(c * rows + r) * size,
                   from + (size_t)(r * columns + c) * size, size);
}

static enum pdl_status run_view(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct move_kernel *k = (const struct move_kernel *)base;
    size_t sample = (size_t)(k->c * k->s) * k->size;
    bool forward = k->call.pass == PDL_FORWARD;

    (void)scratch;
    (void)when;
    (void)err;
    if (!k->last || k->c == 1 || k->s == 1) {
        if (in[0] != out[0])
            memcpy(out[0], in[0], (size_t)k->n * sample);
        return PDL_OK;
    }
    for (int64_t n = 0; n < k->n; n++)
        turn((const char *)in[0] + (size_t)n * sample,
             (char *)out[0] + (size_t)n * sample, forward ? k->s : k->c,
             forward ? k->c : k->s, k->size);
    return PDL_OK;
}

/* A part of flatten's result is a run of its elements where x is cut in
 * samples or channels only. */
static bool is_a_run(const struct train_call *c, const struct train_array *x)
{
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    bool flat = c->model->tensors[c->node->out[0]].rank == 1;

    for (int d = 0; d < t->rank; d++)
        if ((x->box.lo[d + 1] != 0 || x->box.hi[d + 1] != t->dim[d]) &&
            !(d == 0 && flat))
            return false;
    return true;
}

static enum pdl_status make_view(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    const struct train_array *x =
        c->pass == PDL_FORWARD ? &c->in[0] : &c->out[0];
    const struct train_array *y =
        c->pass == PDL_FORWARD ? &c->out[0] : &c->in[0];
    struct train_call kept;
    struct move_kernel *k;

    if (x->layout || y->layout || x->dtype != y->dtype ||
        pdl_dtype_bits(x->dtype) < 8 || !is_a_run(c, x) ||
        (y->channels_last && y->box.ndims > 2) || pdl_box_empty(&x->box))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->n = extent(x, 0);
    k->c = extent(x, 1);
    k->s = k->n > 0 && k->c > 0 ? train_array_elements(x) / k->n / k->c : 0;
    k->last = x->channels_last && x->box.ndims > 2;
    k->size = (size_t)pdl_dtype_bits(x->dtype) / 8;
    k->base.implementation = "own";
    k->base.run = run_view;
    *out = &k->base;
    return PDL_OK;
}

/* ---- concat ------------------------------------------------------------------ */

/* Elements of one step of everything outside the axis, as stored. */
static int64_t inner(const struct train_array *a, int axis)
{
    int64_t stride[PDL_BOX_DIMS] = {0};

    train_array_strides(a, stride);
    return stride[axis] * extent(a, axis);
}

static enum pdl_status
run_concat(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct move_kernel *k = (const struct move_kernel *)base;
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *y = forward ? &c->out[0] : &c->in[0];
    int axis = (int)c->node->attr.axis + 1, o = 0;
    int64_t whole = inner(y, axis), at = 0;
    int64_t steps = whole > 0 ? train_array_elements(y) / whole : 0;
    int64_t along = extent(y, axis), each = along > 0 ? whole / along : 0;

    (void)scratch;
    (void)when;
    (void)err;
    for (int i = 0; i < c->node->nin; i++) {
        bool wanted = forward || train_wants_grad(c->model, c->node->in[i]);
        int64_t dim = c->model->tensors[c->node->in[i]].dim[axis - 1];
        size_t part = (size_t)(each * dim) * k->size;
        char *x = !wanted ? NULL : forward ? in[i] : out[o++];
        char *py = (char *)(forward ? out[0] : in[0]) + (size_t)at * k->size;

        for (int64_t n = 0; wanted && n < steps; n++) {
            char *p = py + (size_t)(n * whole) * k->size;

            if (forward)
                memcpy(p, x + (size_t)n * part, part);
            else
                memcpy(x + (size_t)n * part, p, part);
        }
        at += each * dim;
    }
    return PDL_OK;
}

static enum pdl_status make_concat(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    struct train_call kept;
    struct move_kernel *k;

    if (c->node->nweights > 0 || pdl_box_empty(&c->in[0].box))
        return PDL_OK;
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (a->layout || a->dtype != c->in[0].dtype ||
            pdl_dtype_bits(a->dtype) < 8 || pdl_box_empty(&a->box) ||
            a->channels_last != c->in[0].channels_last)
            return PDL_OK;
    }
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->size = (size_t)pdl_dtype_bits(c->in[0].dtype) / 8;
    k->base.implementation = "own";
    k->base.run = run_concat;
    *out = &k->base;
    return PDL_OK;
}

/* ---- boxes ---------------------------------------------------------------- */

void train_cpu_copy_common(const struct train_array *from, const void *src,
                           const struct train_array *to, void *dst)
{
    int64_t fs[PDL_BOX_DIMS], ts[PDL_BOX_DIMS], i[PDL_BOX_DIMS];
    size_t size = (size_t)pdl_dtype_bits(from->dtype) / 8;
    struct pdl_box b;
    size_t run;

    if (!pdl_box_intersect(&from->box, &to->box, &b))
        return;
    train_array_strides(from, fs);
    train_array_strides(to, ts);
    run = (size_t)(b.hi[1] - b.lo[1]) * size;
    memcpy(i, b.lo, sizeof i);
    for (;;) {
        int64_t f = 0, t = 0;
        int d = b.ndims - 1;

        for (int j = 0; j < b.ndims; j++) {
            f += (i[j] - from->box.lo[j]) * fs[j];
            t += (i[j] - to->box.lo[j]) * ts[j];
        }
        memcpy((char *)dst + (size_t)t * size,
               (const char *)src + (size_t)f * size, run);
        while (d >= 0 && (d == 1 || ++i[d] == b.hi[d])) {
            i[d] = b.lo[d];
            d--;
        }
        if (d < 0)
            return;
    }
}

/* ---- padding and cropping ---------------------------------------------------- */

/* Copies what x and y have in common, y shifted by the padding; a run is all
 * channels of a position. */
static enum pdl_status run_pad(const struct train_kernel *base, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct move_kernel *k = (const struct move_kernel *)base;
    const struct train_call *c = &k->call;
    const struct pdl_attr *a = &c->node->attr;
    struct train_array moved = c->in[0]; /* the source in the other's indices */
    int sense = c->pass == PDL_FORWARD ? 1 : -1;

    (void)scratch;
    (void)when;
    (void)err;
    for (int d = 2; d < moved.box.ndims; d++) {
        moved.box.lo[d] += sense * a->pad[d - 2];
        moved.box.hi[d] += sense * a->pad[d - 2];
    }
    memset(out[0], 0, (size_t)train_array_bytes(&c->out[0]));
    train_cpu_copy_common(&moved, in[0], &c->out[0], out[0]);
    return PDL_OK;
}

static enum pdl_status make_pad(struct cpu_state *s, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct train_call kept;
    struct move_kernel *k;

    if (c->nin != 1 || c->nout != 1 || c->in[0].layout || c->out[0].layout ||
        c->in[0].dtype != c->out[0].dtype || !c->in[0].channels_last ||
        !c->out[0].channels_last || pdl_box_empty(&c->out[0].box) ||
        pdl_dtype_bits(c->in[0].dtype) < 8 || c->in[0].box.ndims > 5)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    k->base.implementation = "own";
    k->base.run = run_pad;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"pad", make_pad},      {"flatten", make_view},   {"reshape", make_view},
    {"squeeze", make_view}, {"unsqueeze", make_view}, {"concat", make_concat},
};

const struct cpu_ops train_cpu_move = {rows, sizeof rows / sizeof rows[0]};
