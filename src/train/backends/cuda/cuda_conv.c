/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of convolutions. As in the other backends a convolution is a relation
 * between a fine and a coarse side; a transposed one has them the other way
 * round. Weights are stored as in files (OIHW) and turned to channels last in
 * scratch memory. One of stride two over a few channels (the first of most
 * networks) may read folded images (fold.cu), if that is faster. How it is done
 * is found in cuda_plan.c. */
#include "train/backends/cuda/cuda_graph.h"

#include <string.h>

static cudaError_t add_bias(const struct cuda_kernel *k, void *const *in,
                            void *const *out)
{
    const struct train_array *y = &k->call.out[0];
    int64_t c = train_cuda_extent(y, 1);
    int at = k->call.part == 1 ? 1 : 2;
    enum cuda_type t;

    (void)train_cuda_type(k->call.in[at].dtype, &t);
    return train_cuda_bias(train_cuda_stream(k), k->t, t,
                           train_array_elements(y) / c, c, k->u.conv.rectified,
                           k->call.part == 1 ? in[0] : out[0], in[at], out[0]);
}

static cudaError_t bias_sums(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch)
{
    const struct train_array *dy = &k->call.in[1];
    int64_t c = train_cuda_extent(dy, 1);
    enum cuda_type t;

    (void)train_cuda_type(k->call.out[1].dtype, &t);
    return train_cuda_column_sums(train_cuda_stream(k), k->t,
                                  train_array_elements(dy) / c, c, in[1], t,
                                  out[1], scratch);
}

static int64_t bias_room(const struct train_array *dy)
{
    int64_t c = train_cuda_extent(dy, 1);

    return 4 * train_cuda_column_room(train_array_elements(dy) / c, c);
}

static void *operand(const struct cuda_kernel *k, int i, void *const *in,
                     void *const *out)
{
    return i < k->call.nin ? in[i] : out[i - k->call.nin];
}

/* In scratch: weights, images, what the engine works in. */
static cudaError_t run_folded(const struct cuda_kernel *k, void *const *in,
                              void *const *out, void *scratch)
{
    const struct cuda_fold *f = k->u.conv.fold;
    bool weights = k->u.conv.conv->way == CUDA_WEIGHTS;
    cudaStream_t st = train_cuda_stream(k);
    void *w = operand(k, k->u.conv.w, in, out);
    char *images = (char *)scratch + k->u.conv.w_bytes;
    void *at[] = {images, operand(k, k->u.conv.coarse, in, out), scratch};
    cudaError_t e = train_cuda_fold_images(
        st, k->t, f, operand(k, k->u.conv.fine, in, out), images);

    if (e == cudaSuccess && !weights)
        e = train_cuda_fold_weights(st, k->t, f, 0, w, scratch);
    if (e == cudaSuccess)
        e = train_cuda_convolve(k->s, k->u.conv.conv, at,
                                images + k->u.conv.x_bytes);
    if (e == cudaSuccess && weights)
        e = train_cuda_fold_weights(st, k->t, f, 1, scratch, w);
    return e;
}

static cudaError_t run_plain(const struct cuda_kernel *k, void *const *in,
                             void *const *out, void *scratch)
{
    const struct cuda_conv *c = k->u.conv.conv;
    void *w = operand(k, k->u.conv.w, in, out);
    void *krsc = k->u.conv.pixels ? scratch : w;
    char *images = (char *)scratch + k->u.conv.w_bytes;
    void *work = images + k->u.conv.x_bytes;
    void *at[] = {operand(k, k->u.conv.fine, in, out),
                  operand(k, k->u.conv.coarse, in, out), krsc};
    int size = k->t == CUDA_BF16 ? 2 : 4;
    cudaStream_t st = train_cuda_stream(k);
    cudaError_t e = cudaSuccess;

    if (k->u.conv.padded.n > 0) {
        e = cudaMemsetAsync(images, 0, (size_t)k->u.conv.x_bytes, st);
        if (e == cudaSuccess)
            e = train_cuda_copy(st, &k->u.conv.padded, size, at[CUDA_FINE],
                                images);
        at[CUDA_FINE] = images;
    }
    if (e == cudaSuccess && k->u.conv.pixels && c->way != CUDA_WEIGHTS)
        e = train_cuda_turn(st, size, c->dim[CUDA_WEIGHT][0],
                            c->dim[CUDA_WEIGHT][1], k->u.conv.pixels, 0, w,
                            krsc);
    if (e == cudaSuccess)
        e = train_cuda_convolve(k->s, c, at, work);
    if (e == cudaSuccess && k->u.conv.pixels && c->way == CUDA_WEIGHTS)
        e = train_cuda_turn(st, size, c->dim[CUDA_WEIGHT][0],
                            c->dim[CUDA_WEIGHT][1], k->u.conv.pixels, 1, krsc,
                            w);
    return e;
}

static cudaError_t run(const struct cuda_kernel *k, void *const *in,
                       void *const *out, void *scratch,
                       const struct train_moment *when)
{
    void *work = (char *)scratch + k->u.conv.w_bytes;
    cudaError_t e;

    (void)when;
    if (k->call.part == 1)
        return add_bias(k, in, out);
    e = k->u.conv.fold ? run_folded(k, in, out, scratch)
                       : run_plain(k, in, out, scratch);
    if (e == cudaSuccess && k->call.pass == PDL_FORWARD && k->op.nw > 1)
        e = add_bias(k, in, out);
    else if (e == cudaSuccess && k->u.conv.rectified)
        e = train_cuda_unary(train_cuda_stream(k), k->t, CUDA_RELU,
                             train_array_elements(&k->call.out[0]), out[0],
                             out[0]);
    if (e == cudaSuccess && k->call.pass == PDL_BACKWARD_WEIGHTS &&
        k->call.nout > 1)
        e = bias_sums(k, in, out, work);
    return e;
}

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

/* Padding of the parts at hand; false: cuDNN has no such window. */
static bool pad(const struct pdl_attr *a, int i, const struct train_array *fine,
                const struct train_array *coarse, struct cuda_conv *c)
{
    int64_t fn = train_cuda_extent(fine, i + 2);
    int64_t cn = train_cuda_extent(coarse, i + 2), span, last;

    c->stride[i] = or1(a->stride[i]);
    c->dilation[i] = or1(a->dilation[i]);
    c->pre[i] =
        a->pad[i] + fine->box.lo[i + 2] - coarse->box.lo[i + 2] * c->stride[i];
    span = (a->kernel[i] - 1) * c->dilation[i] + 1;
    last = (cn - 1) * c->stride[i] + span - c->pre[i]; /* fine needed */
    c->post[i] = c->pre[i];
    if ((fn + 2 * c->pre[i] - span) / c->stride[i] + 1 != cn)
        c->post[i] = last > fn ? last - fn : 0;
    return c->pre[i] >= 0 &&
           (fn + c->pre[i] + c->post[i] - span) / c->stride[i] + 1 == cn;
}

static void find_operands(struct cuda_kernel *k, bool swap)
{
    const struct train_call *c = &k->call;
    int x = 0, y = c->nin, w = 1;

    if (c->pass == PDL_BACKWARD_DATA) {
        x = c->nin;
        y = 0;
    } else if (c->pass == PDL_BACKWARD_WEIGHTS) {
        y = 1;
        w = c->nin;
    }
    k->u.conv.fine = swap ? y : x;
    k->u.conv.coarse = swap ? x : y;
    k->u.conv.w = w;
}

static const struct train_array *array(const struct cuda_kernel *k, int i)
{
    return i < k->call.nin ? &k->call.in[i] : &k->call.out[i - k->call.nin];
}

static bool shape(struct cuda_kernel *k, struct cuda_conv *c)
{
    const struct pdl_attr *a = &k->call.node->attr;
    const struct train_array *side[3] = {array(k, k->u.conv.fine),
                                         array(k, k->u.conv.coarse),
                                         array(k, k->u.conv.w)};

    for (int i = 0; i < 3; i++) {
        enum cuda_type t;

        if (!train_cuda_type(side[i]->dtype, &t) || t != k->t ||
            (i != CUDA_WEIGHT && !side[i]->channels_last))
            return false;
        for (int d = 0; d < c->ns + 2; d++)
            c->dim[i][d] = train_cuda_extent(side[i], d);
    }
    for (int i = 0; i < c->ns; i++)
        if (!pad(a, i, side[CUDA_FINE], side[CUDA_COARSE], c))
            return false;
    /* channels: all that the weight has, groups whole */
    if (c->dim[CUDA_WEIGHT][0] != c->dim[CUDA_COARSE][1] ||
        c->dim[CUDA_WEIGHT][1] * or1(a->groups) != c->dim[CUDA_FINE][1])
        return false;
    return or1(a->groups) == 1 || (side[CUDA_FINE]->box.lo[1] == 0 &&
                                   side[CUDA_COARSE]->box.lo[1] == 0);
}

static int64_t up(int64_t n)
{
    return (n + 255) / 256 * 256;
}

/* Between OI.. as stored and O..I; false: too many pixels. */
static bool turn_weights(struct cuda_kernel *k, const struct cuda_conv *c)
{
    int64_t pixels = 1;

    for (int i = 0; i < c->ns; i++)
        pixels *= c->dim[CUDA_WEIGHT][i + 2];
    if (pixels == 1 || c->dim[CUDA_WEIGHT][1] == 1)
        return true;
    k->u.conv.pixels = pixels;
    k->u.conv.w_bytes = up(train_cuda_conv_volume(c, CUDA_WEIGHT) *
                           (k->t == CUDA_BF16 ? 2 : 4));
    return pixels <= CUDA_TURNED;
}

/* Of cuDNN's engines some make gradients of weights with other padding behind
 * than before as if it were not there (9.19, float32): images that are padded
 * beforehand have none. */
static void pad_before(struct cuda_kernel *k, struct cuda_conv *c)
{
    struct cuda_walk *w = &k->u.conv.padded;
    bool even = true;
    int64_t to = c->dim[CUDA_FINE][1], from = c->dim[CUDA_FINE][1];

    for (int i = 0; i < c->ns; i++)
        even = even && c->pre[i] == c->post[i];
    if (even || c->way != CUDA_WEIGHTS)
        return;
    w->n = c->ns + 2;
    w->extent[w->n - 1] = c->dim[CUDA_FINE][1];
    w->to[w->n - 1] = w->from[w->n - 1] = 1;
    for (int i = c->ns - 1; i >= 0; i--) {
        w->extent[i + 1] = c->dim[CUDA_FINE][i + 2];
        w->to[i + 1] = to;
        w->from[i + 1] = from;
        w->to_first += c->pre[i] * to;
        from *= c->dim[CUDA_FINE][i + 2];
        c->dim[CUDA_FINE][i + 2] += c->pre[i] + c->post[i];
        to *= c->dim[CUDA_FINE][i + 2];
        c->pre[i] = c->post[i] = 0;
    }
    w->extent[0] = c->dim[CUDA_FINE][0];
    w->to[0] = to;
    w->from[0] = from;
    k->u.conv.x_bytes =
        up(train_cuda_conv_volume(c, CUDA_FINE) * (k->t == CUDA_BF16 ? 2 : 4));
}

/* The convolution of folded images, where there is one and it is faster. */
static void fold(struct cuda_kernel *k, const struct cuda_conv *c)
{
    struct cuda_conv folded = *c;
    const struct cuda_conv *found;
    struct cuda_fold *f = PDL_NEW(k->s->arena, struct cuda_fold, 1);
    int64_t size = k->t == CUDA_BF16 ? 2 : 4;

    if (!f || c->ns != 2 || c->way == CUDA_SCATTER ||
        4 * c->dim[CUDA_FINE][1] > CUDA_FOLDED ||
        c->dim[CUDA_WEIGHT][1] != c->dim[CUDA_FINE][1])
        return;
    *f = (struct cuda_fold){.n = c->dim[CUDA_FINE][0],
                            .c = c->dim[CUDA_FINE][1],
                            .f = c->dim[CUDA_WEIGHT][0]};
    folded.dim[CUDA_FINE][1] = folded.dim[CUDA_WEIGHT][1] = CUDA_FOLDED;
    for (int i = 0; i < 2; i++) {
        if (c->stride[i] != 2 || c->dilation[i] != 1 ||
            c->dim[CUDA_WEIGHT][i + 2] > 8)
            return;
        f->kernel[i] = c->dim[CUDA_WEIGHT][i + 2];
        f->from[i] = c->dim[CUDA_FINE][i + 2];
        f->pad[i] = c->pre[i];
        folded.dim[CUDA_WEIGHT][i + 2] = (f->kernel[i] + 1) / 2;
        f->to[i] =
            c->dim[CUDA_COARSE][i + 2] + folded.dim[CUDA_WEIGHT][i + 2] - 1;
        folded.dim[CUDA_FINE][i + 2] = f->to[i];
        folded.stride[i] = 1;
        folded.pre[i] = folded.post[i] = 0;
    }
    found = train_cuda_conv(k->s, &folded);
    if (!found || found->ms * 1.1f > k->u.conv.conv->ms)
        return;
    k->u.conv.conv = found;
    k->u.conv.fold = f;
    k->u.conv.w_bytes = up(train_cuda_conv_volume(&folded, CUDA_WEIGHT) * size);
    k->u.conv.x_bytes = up(train_cuda_conv_volume(&folded, CUDA_FINE) * size);
}

bool train_cuda_make_conv(struct cuda_kernel *k)
{
    bool swap = pdl_op_id(k->call.node->op) == PDL_ID_CONV_TRANSPOSE;
    struct cuda_conv c = {.t = k->t, .ns = k->call.in[0].box.ndims - 2};
    int64_t room = 0;

    k->go = run;
    if (k->call.part == 1)
        return k->call.out[0].channels_last &&
               k->call.in[1].box.lo[0] == k->call.out[0].box.lo[1] &&
               k->call.in[1].box.hi[0] == k->call.out[0].box.hi[1];
    if (c.ns < 2 || c.ns > 3)
        return false;
    c.way = k->call.pass == PDL_BACKWARD_WEIGHTS    ? CUDA_WEIGHTS
            : (k->call.pass == PDL_FORWARD) != swap ? CUDA_GATHER
                                                    : CUDA_SCATTER;
    find_operands(k, swap);
    if (!shape(k, &c))
        return false;
    pad_before(k, &c);
    k->u.conv.conv = train_cuda_conv(k->s, &c);
    if (!k->u.conv.conv)
        return false;
    if (!turn_weights(k, &c))
        return false;
    if (k->u.conv.padded.n == 0)
        fold(k, &c);
    if (k->call.pass == PDL_BACKWARD_WEIGHTS && k->call.nout > 1)
        room = bias_room(&k->call.in[1]);
    if (k->u.conv.conv->workspace > room)
        room = k->u.conv.conv->workspace;
    if (k->u.conv.conv->product && room < CUDA_PRODUCT_ROOM)
        room = CUDA_PRODUCT_ROOM;
    k->base.scratch_bytes = k->u.conv.w_bytes + k->u.conv.x_bytes + room;
    k->base.implementation = "cudnn";
    return true;
}
