/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that go element by element, or move elements. */
#include "train/backends/cuda/cuda.h"

#include <string.h>

/* ---- functions -------------------------------------------------------- */

static const struct {
    const char *op;
    enum cuda_function f;
} functions[] = {
    {"relu", CUDA_RELU},
    {"relu6", CUDA_RELU6},
    {"gelu", CUDA_GELU},
    {"gelu_tanh", CUDA_GELU_TANH},
    {"silu", CUDA_SILU},
    {"sigmoid", CUDA_SIGMOID},
    {"tanh", CUDA_TANH},
    {"hard_swish", CUDA_HARD_SWISH},
    {"hard_sigmoid", CUDA_HARD_SIGMOID},
    {"identity", CUDA_IDENTITY},
};

static cudaError_t unary(const struct cuda_kernel *k, void *const *in,
                         void *const *out, void *scratch,
                         const struct train_moment *when)
{
    int64_t n = train_array_elements(&k->call.out[0]);
    int saved = k->op.nx > 0 ? k->op.x : k->op.ny > 0 ? k->op.y : 0;

    (void)scratch, (void)when;
    if (k->call.pass == PDL_FORWARD)
        return train_cuda_unary(train_cuda_stream(k), k->t, k->u.function, n,
                                in[0], out[0]);
    return train_cuda_slope(train_cuda_stream(k), k->t, k->u.function, n, in[0],
                            in[saved], out[0]);
}

bool train_cuda_make_unary(struct cuda_kernel *k)
{
    double a = 0, b = 0;
    size_t i = 0;

    while (strcmp(functions[i].op, train_function(k->call.node)) != 0)
        i++; /* the list of operators names only what is in this one */
    if (pdl_function_numbers(k->call.node, &a, &b) &&
        (a != 1.0 / 6 || b != 0.5))
        return false; /* the device has the usual hard_sigmoid only */
    k->u.function = functions[i].f;
    k->go = unary;
    return train_cuda_typed(k) &&
           train_cuda_same_box(&k->call.in[0], &k->call.out[0]);
}

/* ---- sums and products of two ----------------------------------------- */

static cudaError_t copy_all(const struct cuda_kernel *k, void *const *in,
                            void *const *out, void *scratch,
                            const struct train_moment *when)
{
    cudaError_t e = cudaSuccess;

    (void)scratch, (void)when;
    for (int i = 0; i < k->call.nout && e == cudaSuccess; i++)
        e = cudaMemcpyAsync(out[i], in[0],
                            (size_t)train_array_bytes(&k->call.out[i]),
                            cudaMemcpyDeviceToDevice, train_cuda_stream(k));
    return e;
}

static cudaError_t sum(const struct cuda_kernel *k, void *const *in,
                       void *const *out, void *scratch,
                       const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_join(train_cuda_stream(k), k->t, 0,
                           train_array_elements(&k->call.out[0]), in[0], in[1],
                           out[0]);
}

static bool all_alike(const struct cuda_kernel *k)
{
    for (int i = 0; i < k->call.nin + k->call.nout; i++)
        if (!train_cuda_same_box(i < k->call.nin
                                     ? &k->call.in[i]
                                     : &k->call.out[i - k->call.nin],
                                 &k->call.out[0]))
            return false;
    return train_cuda_typed(k) && k->call.node->nin == 2 &&
           k->call.node->nweights == 0;
}

/* No dimension is stretched: shapes of a sample are equal. */
static bool same_shapes(const struct cuda_kernel *k)
{
    const struct pdl_tensor *t = k->call.model->tensors;
    const struct pdl_tensor *y = &t[k->call.node->out[0]];

    for (int i = 0; i < k->call.node->nin; i++) {
        const struct pdl_tensor *x = &t[k->call.node->in[i]];

        if (x->rank != y->rank ||
            memcmp(x->dim, y->dim, (size_t)y->rank * sizeof y->dim[0]) != 0)
            return false;
    }
    return true;
}

bool train_cuda_make_add(struct cuda_kernel *k)
{
    k->go = k->call.pass == PDL_FORWARD ? sum : copy_all;
    return all_alike(k) && same_shapes(k);
}

static cudaError_t product(const struct cuda_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when)
{
    int64_t n = train_array_elements(&k->call.out[0]);
    cudaError_t e = cudaSuccess;

    (void)scratch, (void)when;
    if (k->call.pass == PDL_FORWARD)
        return train_cuda_join(train_cuda_stream(k), k->t, 1, n, in[0], in[1],
                               out[0]);
    for (int i = 0; i < 2 && e == cudaSuccess; i++) {
        int o = train_gradient_of(&k->call, i);

        if (o >= 0)
            e = train_cuda_join(train_cuda_stream(k), k->t, 1, n, in[0],
                                in[k->op.x + 1 - i], out[o]);
    }
    return e;
}

static bool is_whole(const struct cuda_kernel *k, const struct train_array *a,
                     int tensor)
{
    const struct pdl_tensor *t = &k->call.model->tensors[tensor];

    for (int d = 0; d < t->rank; d++)
        if (a->box.lo[d + 1] != 0 || a->box.hi[d + 1] != t->dim[d])
            return false;
    return a->box.ndims == t->rank + 1;
}

static cudaError_t scaled(const struct cuda_kernel *k, void *const *in,
                          void *const *out, void *scratch,
                          const struct train_moment *when)
{
    int64_t n = k->u.scaled.n, pixels = k->u.scaled.pixels, c = k->u.scaled.c;
    bool forward = k->call.pass == PDL_FORWARD;
    int factor = k->u.scaled.factor, x = forward ? 0 : k->op.x;
    int y = forward ? 0 : train_gradient_of(&k->call, 1 - factor);
    int d = forward ? -1 : train_gradient_of(&k->call, factor);
    const void *spread = in[forward ? 1 - factor : k->op.dy];
    cudaError_t e = cudaSuccess;

    (void)scratch, (void)when;
    if (y >= 0)
        e = train_cuda_image_spread(train_cuda_stream(k), k->t, n, pixels, c, 1,
                                    spread, in[x + factor], out[y]);
    if (d >= 0 && e == cudaSuccess)
        e = train_cuda_image_sums(train_cuda_stream(k), k->t, n, pixels, c, 1,
                                  spread, in[x + 1 - factor], out[d]);
    return e;
}

/* A value for each channel of an image. */
static bool is_factor(const struct pdl_tensor *x, const struct pdl_tensor *y)
{
    for (int d = 0; d < y->rank && x->rank == y->rank; d++)
        if (x->dim[d] != (d == 0 ? y->dim[0] : 1))
            return false;
    return x->rank == y->rank && y->rank > 1;
}

static bool is_image(const struct cuda_kernel *k, const struct train_array *a,
                     int tensor)
{
    return a->channels_last && a->box.ndims > 2 && is_whole(k, a, tensor);
}

/* All of them whole: inputs or their gradients, one of which is spread. */
static bool is_pair(const struct cuda_kernel *k, const struct train_array *x,
                    int factor)
{
    const int *id = k->call.node->in;

    return is_whole(k, &x[factor], id[factor]) &&
           is_image(k, &x[1 - factor], id[1 - factor]);
}

static bool make_scaled(struct cuda_kernel *k)
{
    const struct pdl_node *n = k->call.node;
    const struct pdl_tensor *t = k->call.model->tensors, *y = &t[n->out[0]];
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *whole =
        forward ? &k->call.out[0] : &k->call.in[k->op.dy];
    int factor = n->nin == 2 && is_factor(&t[n->in[1]], y);
    bool both = n->nin == 2 && n->nweights == 0 && (forward || k->op.nx == 2);

    if (!both || !train_cuda_typed(k) || !is_factor(&t[n->in[factor]], y) ||
        memcmp(t[n->in[1 - factor]].dim, y->dim,
               (size_t)y->rank * sizeof y->dim[0]) != 0 ||
        !is_image(k, whole, n->out[0]) ||
        !is_pair(k, &k->call.in[forward ? 0 : k->op.x], factor))
        return false;
    k->u.scaled.n = train_cuda_extent(whole, 0);
    k->u.scaled.c = train_cuda_extent(whole, 1);
    k->u.scaled.pixels =
        train_array_elements(whole) / (k->u.scaled.n * k->u.scaled.c);
    k->u.scaled.factor = factor;
    k->go = scaled;
    return true;
}

bool train_cuda_make_mul(struct cuda_kernel *k)
{
    k->go = product;
    return make_scaled(k) || (all_alike(k) && same_shapes(k) &&
                              (k->call.pass == PDL_FORWARD || k->op.nx == 2));
}

/* ---- moves ------------------------------------------------------------ */

static cudaError_t walk(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_copy(train_cuda_stream(k), &k->u.walk[0],
                           k->t == CUDA_BF16 ? 2 : 4, in[0], out[0]);
}

/* One side is the whole, the other has the parts. */
static cudaError_t move_parts(const struct cuda_kernel *k, void *const *in,
                              void *const *out, void *scratch,
                              const struct train_moment *when)
{
    cudaError_t e = cudaSuccess;

    (void)scratch, (void)when;
    for (int i = 0; i < k->u.parts.n && e == cudaSuccess; i++)
        e = train_cuda_copy(train_cuda_stream(k), &k->u.parts.walk[i],
                            k->t == CUDA_BF16 ? 2 : 4,
                            in[k->call.nin > 1 ? i : 0],
                            out[k->call.nout > 1 ? i : 0]);
    return e;
}

static bool in_rows(const struct train_array *a)
{
    return !a->channels_last || a->box.ndims < 3;
}

/* The elements of `cut` in its logical order, which has these strides in a flat
 * array. */
static struct cuda_walk flat_walk(const struct train_array *cut, bool to)
{
    struct cuda_walk w = {.n = cut->box.ndims};
    int64_t stride[PDL_BOX_DIMS] = {0}, row = 1;

    train_array_strides(cut, stride);
    for (int d = w.n - 1; d >= 0; d--) {
        w.extent[d] = train_cuda_extent(cut, d);
        w.to[d] = to ? stride[d] : row;
        w.from[d] = to ? row : stride[d];
        row *= w.extent[d];
    }
    return w;
}

bool train_cuda_make_reshape(struct cuda_kernel *k)
{
    const struct pdl_node *n = k->call.node;
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *from = &k->call.in[0], *to = &k->call.out[0];

    if (!train_cuda_typed(k) || k->call.nout != 1 ||
        !is_whole(k, from, forward ? n->in[0] : n->out[0]) ||
        !is_whole(k, to, forward ? n->out[0] : n->in[0]))
        return false;
    k->go = walk;
    if (in_rows(from) && in_rows(to)) {
        k->go = copy_all;
        return true;
    }
    if (!in_rows(from) && !in_rows(to))
        return false;
    k->u.walk[0] = flat_walk(in_rows(to) ? from : to, in_rows(from));
    return true;
}

bool train_cuda_make_transpose(struct cuda_kernel *k)
{
    const struct pdl_attr *a = &k->call.node->attr;
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    const struct train_array *y = forward ? &k->call.out[0] : &k->call.in[0];
    int64_t xs[PDL_BOX_DIMS] = {0}, ys[PDL_BOX_DIMS] = {0};
    struct cuda_walk w = {.n = y->box.ndims};
    int n = y->box.ndims - 1;

    if (!train_cuda_typed(k) || k->call.nout != 1 ||
        !is_whole(k, x, k->call.node->in[0]) ||
        !is_whole(k, y, k->call.node->out[0]))
        return false;
    train_array_strides(x, xs);
    train_array_strides(y, ys);
    for (int d = 0; d <= n; d++) { /* over y: x[perm d] = y[d] */
        int p = d == 0 ? 0 : a->ndims ? (int)a->dims[d - 1] + 1 : n + 1 - d;

        w.extent[d] = train_cuda_extent(y, d);
        w.to[d] = forward ? ys[d] : xs[p];
        w.from[d] = forward ? xs[p] : ys[d];
    }
    k->u.walk[0] = w;
    k->go = walk;
    return true;
}

/* Between the whole and its parts along an axis, part i beginning at `at`. */
static struct cuda_walk part_walk(const struct train_array *whole,
                                  const struct train_array *part, int axis,
                                  int64_t at, bool to_whole)
{
    struct cuda_walk w = {.n = part->box.ndims};
    int64_t ws[PDL_BOX_DIMS] = {0}, ps[PDL_BOX_DIMS] = {0}, first;
    int order = 0;

    train_array_strides(whole, ws);
    train_array_strides(part, ps);
    first = at * ws[axis];
    for (int d = 0; d < w.n; d++) {
        int dim = d;

        if (part->channels_last && w.n > 2)
            dim = d == 0 ? 0 : d == w.n - 1 ? 1 : d + 1;
        w.extent[order] = train_cuda_extent(part, dim);
        w.to[order] = to_whole ? ws[dim] : ps[dim];
        w.from[order++] = to_whole ? ps[dim] : ws[dim];
    }
    w.to_first = to_whole ? first : 0;
    w.from_first = to_whole ? 0 : first;
    return w;
}

/* parts: of the node's inputs (concat) or outputs (split). */
static bool make_parts(struct cuda_kernel *k, bool concat)
{
    const struct pdl_node *n = k->call.node;
    bool forward = k->call.pass == PDL_FORWARD, to_whole = forward == concat;
    int count = concat ? n->nin : n->nout, axis = (int)n->attr.axis + 1;
    const int *ids = concat ? n->in : n->out;
    const struct train_array *whole =
        to_whole ? &k->call.out[0] : &k->call.in[0];
    int64_t at = 0;

    k->u.parts.n = count;
    k->u.parts.walk = PDL_NEW(k->s->arena, struct cuda_walk, count);
    if (!k->u.parts.walk || !train_cuda_typed(k) ||
        (to_whole ? k->call.nin : k->call.nout) != count ||
        !is_whole(k, whole, concat ? n->out[0] : n->in[0]))
        return false;
    for (int i = 0; i < count; i++) {
        const struct train_array *part =
            to_whole ? &k->call.in[i] : &k->call.out[i];

        if (!is_whole(k, part, ids[i]) ||
            part->channels_last != whole->channels_last)
            return false;
        k->u.parts.walk[i] = part_walk(whole, part, axis, at, to_whole);
        at += k->call.model->tensors[ids[i]].dim[axis - 1];
    }
    k->go = move_parts;
    return true;
}

bool train_cuda_make_concat(struct cuda_kernel *k)
{
    return make_parts(k, true);
}

bool train_cuda_make_split(struct cuda_kernel *k)
{
    return make_parts(k, false);
}

/* ---- slices, and a token in front ------------------------------------- */

static struct cuda_walk reversed(const struct cuda_walk *w)
{
    struct cuda_walk r = *w;

    memcpy(r.to, w->from, sizeof r.to);
    memcpy(r.from, w->to, sizeof r.from);
    r.to_first = w->from_first;
    r.from_first = w->to_first;
    return r;
}

static int64_t volume(const struct cuda_walk *w)
{
    int64_t n = 1;

    for (int d = 0; d < w->n; d++)
        n *= w->extent[d];
    return n;
}

/* Zeros where nothing comes from. */
static cudaError_t slice(const struct cuda_kernel *k, void *const *in,
                         void *const *out, void *scratch,
                         const struct train_moment *when)
{
    cudaStream_t st = train_cuda_stream(k);
    cudaError_t e = cudaSuccess;

    (void)scratch, (void)when;
    if (volume(&k->u.walk[0]) < train_array_elements(&k->call.out[0]))
        e = cudaMemsetAsync(out[0], 0,
                            (size_t)train_array_bytes(&k->call.out[0]), st);
    return e == cudaSuccess
               ? train_cuda_copy(st, &k->u.walk[0], k->t == CUDA_BF16 ? 2 : 4,
                                 in[0], out[0])
               : e;
}

bool train_cuda_make_slice(struct cuda_kernel *k)
{
    const struct pdl_attr *a = &k->call.node->attr;
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    const struct train_array *y = forward ? &k->call.out[0] : &k->call.in[0];
    int64_t xs[PDL_BOX_DIMS] = {0}, ys[PDL_BOX_DIMS] = {0};
    struct cuda_walk w = {.n = y->box.ndims};
    int axis = (int)a->axis + 1;

    if (!train_cuda_typed(k) || k->call.nout != 1 || a->ndims < 1 ||
        axis >= w.n || !is_whole(k, x, k->call.node->in[0]) ||
        !is_whole(k, y, k->call.node->out[0]))
        return false;
    train_array_strides(x, xs);
    train_array_strides(y, ys);
    for (int d = 0; d < w.n; d++) {
        w.extent[d] = train_cuda_extent(y, d);
        w.to[d] = ys[d];
        w.from[d] = xs[d];
    }
    w.from_first = a->dims[0] * xs[axis];
    w.from[axis] *= a->ndims > 2 ? a->dims[2] : 1;
    k->u.walk[0] = forward ? w : reversed(&w);
    k->go = slice;
    return true;
}

/* Padding, or (negative) what is cut off: the region that both sides have. */
bool train_cuda_make_pad(struct cuda_kernel *k)
{
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    const struct train_array *y = forward ? &k->call.out[0] : &k->call.in[0];
    int64_t xs[PDL_BOX_DIMS] = {0}, ys[PDL_BOX_DIMS] = {0};
    struct cuda_walk w = {.n = y->box.ndims};

    if (!train_cuda_typed(k) || k->call.nout != 1 ||
        x->channels_last != y->channels_last)
        return false;
    train_array_strides(x, xs);
    train_array_strides(y, ys);
    for (int i = 0; i < w.n; i++) { /* channels inside */
        int d = !y->channels_last || i == 0 ? i : i == w.n - 1 ? 1 : i + 1;
        int64_t by = d > 1 ? k->call.node->attr.pad[d - 2] : 0;
        int64_t lo = x->box.lo[d] + by, hi = x->box.hi[d] + by;

        lo = lo > y->box.lo[d] ? lo : y->box.lo[d];
        hi = hi < y->box.hi[d] ? hi : y->box.hi[d];
        if (lo >= hi)
            return false;
        w.extent[i] = hi - lo;
        w.to[i] = ys[d];
        w.from[i] = xs[d];
        w.to_first += (lo - y->box.lo[d]) * ys[d];
        w.from_first += (lo - by - x->box.lo[d]) * xs[d];
    }
    k->u.walk[0] = forward ? w : reversed(&w);
    k->go = slice;
    return true;
}

/* The token of all samples, then what they are; its gradient goes by way of
 * scratch memory: the tokens side by side, and partial sums. */
static cudaError_t class_token(const struct cuda_kernel *k, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when)
{
    cudaStream_t st = train_cuda_stream(k);
    int size = k->t == CUDA_BF16 ? 2 : 4;
    const struct cuda_walk *w = k->u.walk;
    bool weights = k->call.pass == PDL_BACKWARD_WEIGHTS;
    cudaError_t e = cudaSuccess;

    (void)when;
    if (!weights)
        e = train_cuda_copy(st, &w[0], size, in[0], out[0]);
    if (e == cudaSuccess && k->call.pass == PDL_FORWARD)
        e = train_cuda_copy(st, &w[1], size, in[k->op.w], out[0]);
    if (weights)
        e = train_cuda_copy(st, &w[1], size, in[k->op.dy], scratch);
    if (e == cudaSuccess && weights)
        e = train_cuda_column_sums(
            st, k->t, w[1].extent[0], w[1].extent[1], scratch, k->t, out[0],
            (float *)((char *)scratch +
                      (w[1].extent[0] * w[1].extent[1] * size + 63) / 64 * 64));
    return e;
}

bool train_cuda_make_class_token(struct cuda_kernel *k)
{
    const struct train_call *c = &k->call;
    const struct train_array *y = c->pass == PDL_FORWARD ? &c->out[0]
                                  : c->pass == PDL_BACKWARD_DATA
                                      ? &c->in[0]
                                      : &c->in[k->op.dy];
    int64_t n = train_cuda_extent(y, 0), t = train_cuda_extent(y, 1);
    int64_t width = train_cuda_extent(y, 2);
    struct cuda_walk x = {.n = 3,
                          .extent = {n, t - 1, width},
                          .to = {t * width, width, 1},
                          .from = {(t - 1) * width, width, 1},
                          .to_first = width};
    struct cuda_walk token = {
        .n = 2, .extent = {n, width}, .to = {t * width, 1}, .from = {0, 1}};

    if (!train_cuda_typed(k) || y->box.ndims != 3 || c->deal ||
        !is_whole(k, y, c->node->out[0]))
        return false;
    k->u.walk[0] = c->pass == PDL_FORWARD ? x : reversed(&x);
    if (c->pass == PDL_BACKWARD_WEIGHTS) {
        token.from[0] = t * width;
        token.to[0] = width;
        k->base.scratch_bytes =
            8 * n * width + 64 + 4 * train_cuda_column_room(n, width);
    }
    k->u.walk[1] = token;
    k->go = class_token;
    return true;
}

/* ---- dropout ---------------------------------------------------------- */

static cudaError_t dropout(const struct cuda_kernel *k, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when)
{
    const struct pdl_node *n = k->call.node;
    struct cuda_dropout d = {.p = n->attr.scale > 0 ? n->attr.scale : 0.5,
                             .key = when->seed,
                             .node = (uint64_t)(n - k->call.model->nodes),
                             .at = {when->step, when->first_sample}};

    if (when->evaluate)
        return copy_all(k, in, out, scratch, when);
    if (k->s->holding) { /* for other steps too */
        d.at.step -= k->s->held_when.step;
        d.at.first_sample -= k->s->held_when.first_sample;
        d.now = k->s->now;
        k->s->reads_now = true;
    }
    return train_cuda_dropout(train_cuda_stream(k), k->t, &k->u.walk[0], &d,
                              in[0], out[0]);
}

bool train_cuda_make_dropout(struct cuda_kernel *k)
{
    const struct train_array *x = &k->call.in[0];
    const struct pdl_tensor *shape =
        &k->call.model->tensors[k->call.node->in[0]];
    int64_t stride[PDL_BOX_DIMS] = {0}, number = 1;
    struct cuda_walk w = {.n = x->box.ndims};

    if (!train_cuda_typed(k) || k->call.deal ||
        !train_cuda_same_box(x, &k->call.out[0]))
        return false;
    train_array_strides(x, stride);
    for (int d = w.n - 1; d >= 0; d--) {
        w.extent[d] = train_cuda_extent(x, d);
        w.to[d] = stride[d];
        w.from[d] = number;
        w.from_first += x->box.lo[d] * number;
        number *= d > 0 ? shape->dim[d - 1] : 1;
    }
    k->u.walk[0] = w;
    k->go = dropout;
    return true;
}
