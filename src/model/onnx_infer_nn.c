/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of the layers proper: products, convolutions, pools, norms,
 * recurrences, resizing. Formulas are those of the ONNX operator texts. */
#include "onnx_priv.h"

#include <math.h>

#define IN  model_onnx_in
#define OUT model_onnx_out

enum { SPACE = PDL_MAX_RANK - 2 };

/* An unknown dimension of an operand that its partner settles. */
static void settle(struct onnx_call *c, int i, int axis, int64_t value)
{
    struct onnx_shape *s;

    if (!model_onnx_has(c, i) || value < 0)
        return;
    s = &c->all[c->n->in[i]];
    if (axis >= 0 && axis < s->rank && s->dim[axis] < 0)
        s->dim[axis] = value;
}

static void product(struct onnx_call *c, const struct onnx_shape *a,
                    const struct onnx_shape *b, bool ta, bool tb)
{
    struct onnx_shape *y = OUT(c, 0);
    int64_t dim[PDL_MAX_RANK];
    int rank = a->rank > b->rank ? a->rank : b->rank, n = 0;

    if (a->rank < 1 || b->rank < 1)
        return;
    for (int i = 0; i < rank - 2; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        int64_t p = ia < 0 ? 1 : a->dim[ia], q = ib < 0 ? 1 : b->dim[ib];

        dim[n++] = p == 1 ? q : q == 1 || q < 0 || p == q ? p : p < 0 ? q : -1;
    }
    if (a->rank > 1)
        dim[n++] = a->dim[a->rank - (ta ? 1 : 2)];
    if (b->rank > 1)
        dim[n++] = b->dim[b->rank - (tb ? 2 : 1)];
    model_onnx_set(y, n, dim);
}

void model_onnx_infer_matmul(struct onnx_call *c)
{
    OUT(c, 0)->type = IN(c, 0)->type ? IN(c, 0)->type : IN(c, 1)->type;
    if (strstr(c->n->type, "Integer"))
        OUT(c, 0)->type =
            strcmp(c->n->type, "MatMulInteger") == 0 ? ONNX_INT32 : ONNX_FLOAT;
    if (IN(c, 1)->rank == 2 && !model_onnx_int(c->n, "transA", 0))
        settle(c, 0, IN(c, 0)->rank - 1,
               IN(c, 1)->dim[model_onnx_int(c->n, "transB", 0) ? 1 : 0]);
    product(c, IN(c, 0), IN(c, 1), model_onnx_int(c->n, "transA", 0) != 0,
            model_onnx_int(c->n, "transB", 0) != 0);
}

/* x, scale, zero, y, scale, zero, ... */
void model_onnx_infer_qlinear_matmul(struct onnx_call *c)
{
    OUT(c, 0)->type = IN(c, 7)->type;
    product(c, IN(c, 0), IN(c, 3), false, false);
}

void model_onnx_infer_gemm(struct onnx_call *c)
{
    const struct onnx_shape *a = IN(c, 0), *b = IN(c, 1);
    bool q = strcmp(c->n->type, "QGemm") == 0;
    int64_t dim[2] = {-1, -1};

    if (q)
        b = IN(c, 3);
    if (b->rank == 2)
        settle(c, 0, model_onnx_int(c->n, "transA", 0) ? 0 : 1,
               b->dim[model_onnx_int(c->n, "transB", 0) ? 1 : 0]);
    if (a->rank == 2)
        dim[0] = a->dim[model_onnx_int(c->n, "transA", 0) ? 1 : 0];
    if (b->rank == 2)
        dim[1] = b->dim[model_onnx_int(c->n, "transB", 0) ? 0 : 1];
    OUT(c, 0)->type = a->type;
    model_onnx_set(OUT(c, 0), 2, dim);
}

void model_onnx_infer_matmul_nbits(struct onnx_call *c)
{
    const struct onnx_shape *a = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);

    y->type = a->type;
    if (a->rank < 1)
        return;
    model_onnx_set(y, a->rank, a->dim);
    y->dim[a->rank - 1] = model_onnx_int(c->n, "N", -1);
}

/* How a window moves: read once, used by convolutions and pools. */
struct window {
    int n;
    int64_t kernel[SPACE], stride[SPACE], dilation[SPACE], pad[2 * SPACE];
    bool same_upper, same_lower, ceil;
};

static void ones(int64_t *v, int n, int64_t value)
{
    for (int i = 0; i < n; i++)
        v[i] = value;
}

static bool sane(const int64_t *v, int n, int64_t low)
{
    for (int i = 0; i < n; i++)
        if (v[i] < low || v[i] > INT32_MAX)
            return false;
    return true;
}

static bool read_window(const struct onnx_node *n, int space,
                        const struct onnx_shape *w, struct window *win)
{
    int k;

    *win = (struct window){.n = space};
    if (space < 1 || space > SPACE)
        return false;
    ones(win->stride, space, 1);
    ones(win->dilation, space, 1);
    k = model_onnx_ints(n, "kernel_shape", win->kernel, space);
    if (k != space) {
        if (!w || w->rank != space + 2)
            return false;
        memcpy(win->kernel, w->dim + 2, (size_t)space * sizeof *win->kernel);
    }
    model_onnx_ints(n, "strides", win->stride, space);
    model_onnx_ints(n, "dilations", win->dilation, space);
    model_onnx_ints(n, "pads", win->pad, 2 * space);
    win->same_upper = model_onnx_is(n, "auto_pad", "SAME_UPPER");
    win->same_lower = model_onnx_is(n, "auto_pad", "SAME_LOWER");
    win->ceil = model_onnx_int(n, "ceil_mode", 0) != 0;
    return sane(win->kernel, space, 1) && sane(win->stride, space, 1) &&
           sane(win->dilation, space, 1) && sane(win->pad, 2 * space, -65536);
}

/* Where the last window of a ceil_mode pool would start in the padding it is
 * left out. */
static int64_t window_out(const struct window *w, int i, int64_t x)
{
    int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1, room, y;

    if (x < 0 || x > INT32_MAX)
        return -1;
    if (w->same_upper || w->same_lower)
        return (x + w->stride[i] - 1) / w->stride[i];
    room = x + w->pad[i] + w->pad[w->n + i] - reach;
    if (room < 0)
        return w->ceil && room + w->stride[i] > 0 ? 1 : 0;
    y = room / w->stride[i] + 1;
    if (w->ceil && room % w->stride[i] != 0 && y * w->stride[i] < x + w->pad[i])
        y++;
    return y;
}

static void conv_like(struct onnx_call *c, const struct onnx_shape *x,
                      const struct onnx_shape *w, int64_t features)
{
    struct onnx_shape *y = OUT(c, 0);
    struct window win;

    if (x->rank < 3)
        return;
    model_onnx_set(y, x->rank, NULL);
    y->dim[0] = x->dim[0];
    y->dim[1] = features;
    if (!read_window(c->n, x->rank - 2, w, &win))
        return;
    for (int i = 0; i < win.n; i++)
        y->dim[2 + i] = window_out(&win, i, x->dim[2 + i]);
}

void model_onnx_infer_conv(struct onnx_call *c)
{
    const struct onnx_shape *w = IN(c, 1);
    int64_t groups = model_onnx_int(c->n, "group", 1), channels;

    if (w->rank > 1 && w->dim[1] >= 0 && groups > 0 &&
        pdl_mul64(w->dim[1], groups, &channels))
        settle(c, 0, 1, channels);
    OUT(c, 0)->type = IN(c, 0)->type;
    conv_like(c, IN(c, 0), w, w->rank > 0 ? w->dim[0] : -1);
}

void model_onnx_infer_conv_integer(struct onnx_call *c)
{
    model_onnx_infer_conv(c);
    OUT(c, 0)->type = ONNX_INT32;
}

void model_onnx_infer_qlinear_conv(struct onnx_call *c)
{
    const struct onnx_shape *w = IN(c, 3);

    OUT(c, 0)->type = IN(c, 7)->type;
    conv_like(c, IN(c, 0), w, w->rank > 0 ? w->dim[0] : -1);
}

void model_onnx_infer_deconv(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *w = IN(c, 1);
    struct onnx_shape *y = OUT(c, 0);
    int64_t extra[SPACE] = {0}, want[SPACE], groups;
    struct window win;
    int given;

    y->type = x->type;
    if (x->rank < 3 || w->rank != x->rank)
        return;
    model_onnx_set(y, x->rank, NULL);
    groups = model_onnx_int(c->n, "group", 1);
    y->dim[0] = x->dim[0];
    if (w->dim[1] < 0 || groups < 1 ||
        !pdl_mul64(w->dim[1], groups, &y->dim[1]))
        y->dim[1] = -1;
    if (!read_window(c->n, x->rank - 2, w, &win))
        return;
    model_onnx_ints(c->n, "output_padding", extra, win.n);
    given = model_onnx_ints(c->n, "output_shape", want, win.n);
    for (int i = 0; i < win.n; i++) {
        int64_t d = x->dim[2 + i];

        if (given == win.n)
            y->dim[2 + i] = want[i] < 0 ? -1 : want[i];
        else if (d < 0 || d > INT32_MAX || !sane(extra, win.n, 0))
            continue;
        else if (win.same_upper || win.same_lower)
            y->dim[2 + i] = d * win.stride[i];
        else
            y->dim[2 + i] = win.stride[i] * (d - 1) + extra[i] +
                            win.dilation[i] * (win.kernel[i] - 1) + 1 -
                            win.pad[i] - win.pad[win.n + i];
        if (y->dim[2 + i] < 0)
            y->dim[2 + i] = -1;
    }
}

void model_onnx_infer_pool(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);

    y->type = x->type;
    conv_like(c, x, NULL, x->rank > 1 ? x->dim[1] : -1);
    if (model_onnx_out(c, 1) != c->spare && c->n->nout > 1) {
        *OUT(c, 1) = *y;
        OUT(c, 1)->type = ONNX_INT64;
    }
}

void model_onnx_infer_global_pool(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);

    y->type = x->type;
    if (x->rank < 2)
        return;
    model_onnx_set(y, x->rank, x->dim);
    for (int i = 2; i < x->rank; i++)
        y->dim[i] = 1;
}

void model_onnx_infer_batch_norm(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    for (int i = 1; i < c->n->nout; i++) {
        OUT(c, i)->type = IN(c, 3)->type;
        model_onnx_set(OUT(c, i), IN(c, 3)->rank, IN(c, 3)->dim);
    }
}

/* LayerNormalization also gives mean and deviation over what it kept. */
void model_onnx_infer_norm(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    int64_t axis = model_onnx_int(c->n, "axis", -1);

    model_onnx_infer_same(c);
    if (x->rank < 0)
        return;
    axis = axis < 0 ? axis + x->rank : axis;
    for (int k = 1; k < c->n->nout; k++) {
        OUT(c, k)->type = ONNX_FLOAT;
        model_onnx_set(OUT(c, k), x->rank, x->dim);
        for (int i = (int)(axis < 0 ? 0 : axis); i < x->rank; i++)
            OUT(c, k)->dim[i] = 1;
    }
}

void model_onnx_infer_dropout(struct onnx_call *c)
{
    model_onnx_infer_same(c);
    if (c->n->nout > 1) {
        *OUT(c, 1) = *OUT(c, 0);
        OUT(c, 1)->type = ONNX_BOOL;
    }
}

static const struct onnx_shape *resize_arg(struct onnx_call *c, int i)
{
    return model_onnx_has(c, i) && IN(c, i)->nval > 0 ? IN(c, i) : NULL;
}

/* Resize: (x, roi, scales, sizes); opset 10 and Upsample: (x, scales). */
void model_onnx_infer_resize(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *scales, *sizes;
    struct onnx_shape *y = OUT(c, 0);
    bool two = strcmp(c->n->type, "Upsample") == 0 || c->n->opset < 11;
    const Onnx__Attribute *a = model_onnx_attr(c->n, "scales");
    int64_t axes[PDL_MAX_RANK];
    int m = model_onnx_ints(c->n, "axes", axes, PDL_MAX_RANK);

    y->type = x->type;
    if (x->rank < 0)
        return;
    model_onnx_set(y, x->rank, m > 0 ? x->dim : NULL);
    scales = resize_arg(c, two ? 1 : 2);
    sizes = two ? NULL : resize_arg(c, 3);
    if (m <= 0)
        m = x->rank;
    for (int i = 0; i < m && i < PDL_MAX_RANK; i++) {
        int64_t k = m == x->rank ? i : axes[i];
        double s = (double)NAN;

        k = k < 0 ? k + x->rank : k;
        if (k < 0 || k >= x->rank)
            continue;
        y->dim[k] = -1;
        if (sizes && sizes->nval == m) {
            y->dim[k] =
                isnan(sizes->val[i]) ? -1 : model_onnx_whole(sizes->val[i]);
            continue;
        }
        if (scales && scales->nval == m)
            s = scales->val[i];
        else if (a && a->n_floats == (size_t)m)
            s = (double)a->floats[i];
        if (x->dim[k] >= 0 && s > 0 && s < 1e6)
            y->dim[k] = model_onnx_whole(floor((double)x->dim[k] * s));
    }
    for (int i = 0; i < x->rank; i++)
        if (y->dim[i] < 0)
            y->dim[i] = -1;
}

void model_onnx_infer_topk(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    int64_t axis = model_onnx_int(c->n, "axis", -1), k;

    k = model_onnx_int(c->n, "k", -1);
    if (IN(c, 1)->nval == 1)
        k = model_onnx_whole(IN(c, 1)->val[0]);
    for (int i = 0; i < 2; i++) {
        struct onnx_shape *y = OUT(c, i);

        y->type = i ? ONNX_INT64 : x->type;
        if (x->rank < 0)
            continue;
        model_onnx_set(y, x->rank, x->dim);
        if (axis < 0)
            axis += x->rank;
        if (axis >= 0 && axis < x->rank)
            y->dim[axis] = k < 0 ? -1 : k;
    }
}

/* LSTM, GRU, RNN: Y [T, dirs, N, H], Y_h and Y_c [dirs, N, H]; layout 1 puts
 * the batch first. */
void model_onnx_infer_rnn(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *r = IN(c, 2);
    int64_t h = model_onnx_int(c->n, "hidden_size", -1), dirs, t, b;
    bool batch_first = model_onnx_int(c->n, "layout", 0) != 0;

    for (int i = 0; i < c->n->nout && i < 3; i++)
        OUT(c, i)->type = x->type;
    if (x->rank != 3)
        return;
    dirs = model_onnx_is(c->n, "direction", "bidirectional") ? 2 : 1;
    if (h < 0 && r->rank == 3)
        h = r->dim[2];
    t = x->dim[batch_first ? 1 : 0];
    b = x->dim[batch_first ? 0 : 1];
    model_onnx_set(
        OUT(c, 0), 4,
        batch_first ? (int64_t[]){b, t, dirs, h} : (int64_t[]){t, dirs, b, h});
    for (int i = 1; i < c->n->nout && i < 3; i++)
        model_onnx_set(
            OUT(c, i), 3,
            batch_first ? (int64_t[]){b, dirs, h} : (int64_t[]){dirs, b, h});
}

/* Explicit subscripts without an ellipsis; implicit output: the letters that
 * occur once, sorted. */
void model_onnx_infer_einsum(struct onnx_call *c)
{
    size_t len;
    const char *eq = model_onnx_str(c->n, "equation", &len);
    int64_t size[128], dim[PDL_MAX_RANK];
    int seen[128] = {0}, input = 0, at = 0, n = 0;
    bool output = false;

    OUT(c, 0)->type = IN(c, 0)->type;
    for (int i = 0; i < 128; i++)
        size[i] = -1;
    for (size_t i = 0; eq && i < len; i++) {
        unsigned char ch = (unsigned char)eq[i];

        if (ch == '.' || ch > 127)
            return;
        if (ch == ',') {
            input++;
            at = 0;
        } else if (ch == '>') {
            output = true;
        } else if (ch > ' ' && ch != '-' && output) {
            if (n == PDL_MAX_RANK)
                return;
            dim[n++] = size[ch];
        } else if (ch > ' ' && ch != '-') {
            const struct onnx_shape *x = IN(c, input);

            if (at < x->rank && size[ch] < 0)
                size[ch] = x->dim[at];
            at++;
            seen[ch]++;
        }
    }
    for (int i = 'A'; i <= 'z' && !output; i++)
        if (seen[i] == 1 && n < PDL_MAX_RANK)
            dim[n++] = size[i];
    if (eq)
        model_onnx_set(OUT(c, 0), n, dim);
}

void model_onnx_infer_roi(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *r = IN(c, 1);
    int64_t dim[4], two[2] = {-1, -1};

    OUT(c, 0)->type = x->type;
    if (x->rank != 4 || r->rank < 1)
        return;
    model_onnx_ints(c->n, "pooled_shape", two, 2);
    dim[0] = r->dim[0];
    dim[1] = x->dim[1];
    dim[2] = model_onnx_int(c->n, "output_height", two[0] > 0 ? two[0] : 1);
    dim[3] = model_onnx_int(c->n, "output_width", two[1] > 0 ? two[1] : 1);
    model_onnx_set(OUT(c, 0), 4, dim);
}

void model_onnx_infer_grid(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *g = IN(c, 1);

    OUT(c, 0)->type = x->type;
    if (x->rank != 4 || g->rank != 4)
        return;
    model_onnx_set(OUT(c, 0), 4,
                   (int64_t[]){x->dim[0], x->dim[1], g->dim[1], g->dim[2]});
}

/* Reduced to a scalar unless they are told not to; the second output is the
 * logarithm of the probabilities. */
void model_onnx_infer_loss(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0), *target = IN(c, 1);
    struct onnx_shape *y = OUT(c, 0);

    y->type = x->type;
    if (model_onnx_is(c->n, "reduction", "none"))
        model_onnx_set(y, target->rank, target->dim);
    else
        model_onnx_set(y, 0, NULL);
    if (c->n->nout > 1) {
        OUT(c, 1)->type = x->type;
        model_onnx_set(OUT(c, 1), x->rank, x->dim);
    }
}

/* The last two dimensions are the matrix. */
void model_onnx_infer_det(struct onnx_call *c)
{
    OUT(c, 0)->type = IN(c, 0)->type;
    if (IN(c, 0)->rank > 1)
        model_onnx_set(OUT(c, 0), IN(c, 0)->rank - 2, IN(c, 0)->dim);
}
