/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements: each is a list of copies between boxes, made
 * when the kernel is made; backward is the same list the other way round, and
 * what nothing is copied to is 0. A copy is a walk over what two arrays have in
 * common, whichever way each is stored. */
#include "train/backends/cpu/cpu_walk.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { X, Y, TILE = 16 };

struct copy {
    struct cpu_walk walk; /* arrays X and Y */
    int of[2];            /* operand of the call on each side */
    bool from_weight;     /* forward only */
};

struct move_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    size_t size; /* of an element */
    int ncopies;
    struct copy *copies;
    bool *zero; /* of each output: not all of it is written */
};

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

/* ---- copying ---------------------------------------------------------- */

struct task {
    const struct copy *c;
    const char *from;
    char *to;
    size_t size;
    int f, t; /* which array is which */
};

static void copy_run(const char *from, char *to, int64_t fs, int64_t ts,
                     int64_t n, size_t size)
{
    if (size == 4) {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * ts * 4, from + i * fs * 4, 4);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)(i * ts) * size, from + (size_t)(i * fs) * size,
               size);
}

static void copy_piece(const void *ctx, const int64_t *at, int64_t n)
{
    const struct task *t = ctx;
    const struct cpu_walk *w = &t->c->walk;
    int run = w->ndims - 1;
    int64_t fs = w->stride[t->f][run], ts = w->stride[t->t][run];
    const char *from = t->from + (size_t)at[t->f] * t->size;
    char *to = t->to + (size_t)at[t->t] * t->size;

    if ((fs == 1 && ts == 1) || n == 1)
        memmove(to, from, (size_t)n * t->size);
    else
        copy_run(from, to, fs, ts, n, t->size);
}

/* The two innermost dimensions turned: tiles that fit the cache. */
static void turn_planes(const void *ctx, int64_t first, int64_t end)
{
    const struct task *t = ctx;
    const struct cpu_walk *w = &t->c->walk;
    int a = w->ndims - 2, b = w->ndims - 1;
    int64_t rows = w->count[a], cols = w->count[b];
    int64_t bands = (rows + TILE - 1) / TILE;

    for (int64_t u = first; u < end; u++) {
        int64_t r0 = u % bands * TILE, r1 = r0 + TILE < rows ? r0 + TILE : rows;
        struct cpu_walk_at p;

        train_cpu_walk_start(w, 0, a, u / bands, w->first, &p);
        for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
            int64_t n = cols - c0 < TILE ? cols - c0 : TILE;

            for (int64_t r = r0; r < r1; r++) {
                int64_t f = p.at[t->f] + r * w->stride[t->f][a] +
                            c0 * w->stride[t->f][b];
                int64_t o = p.at[t->t] + r * w->stride[t->t][a] +
                            c0 * w->stride[t->t][b];

                copy_run(t->from + (size_t)f * t->size,
                         t->to + (size_t)o * t->size, w->stride[t->f][b],
                         w->stride[t->t][b], n, t->size);
            }
        }
    }
}

/* Does a neighbour on one side lie far away on the other? Then the dimension
 * that is a run on the other side becomes the second innermost one. */
static bool is_turned(const struct cpu_walk *w)
{
    int a = w->ndims - 2, b = w->ndims - 1;

    return w->ndims >= 2 && (w->stride[X][b] != 1 || w->stride[Y][b] != 1) &&
           (w->stride[X][a] == 1 || w->stride[Y][a] == 1) && w->count[a] >= 4 &&
           w->count[b] >= 4;
}

static void run_copy(const struct copy *c, bool forward, const void *from,
                     void *to, size_t size)
{
    const struct cpu_walk *w = &c->walk;
    struct task t = {c, from, to, size, forward ? X : Y, forward ? Y : X};
    int64_t all = train_cpu_walk_count(w, 0, w->ndims);

    if (all == 0)
        return;
    if (is_turned(w)) {
        int64_t units = train_cpu_walk_count(w, 0, w->ndims - 2) *
                        ((w->count[w->ndims - 2] + TILE - 1) / TILE);

        train_cpu_parallel(units, 1 + CPU_GRAIN * units / all, turn_planes, &t);
    } else {
        train_cpu_walk(w, copy_piece, &t);
    }
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct move_kernel *k = (const struct move_kernel *)base;
    bool forward = k->call.pass == PDL_FORWARD;

    (void)scratch;
    (void)when;
    (void)err;
    for (int i = 0; i < k->call.nout; i++)
        if (k->zero[i] && out[i] != in[0])
            memset(out[i], 0, (size_t)train_array_bytes(&k->call.out[i]));
    for (int i = 0; i < k->ncopies; i++) {
        const struct copy *c = &k->copies[i];
        const void *from = in[c->of[forward ? X : Y]];
        void *to = out[c->of[forward ? Y : X]];

        if (from != to) /* a view of what is there already */
            run_copy(c, forward, from, to, k->size);
    }
    return PDL_OK;
}

/* ---- making ----------------------------------------------------------- */

static const struct train_array *array_of(const struct move_kernel *k, int side,
                                          int i)
{
    bool input = (k->call.pass == PDL_FORWARD) == (side == X);

    return input ? &k->call.in[i] : &k->call.out[i];
}

/* Arrays in layout 0, of one type of whole bytes. */
static bool all_of_one_type(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (a->layout || a->dtype != c->in[0].dtype ||
            pdl_dtype_bits(a->dtype) < 8)
            return false;
    }
    return true;
}

static struct move_kernel *new_kernel(struct cpu_state *s,
                                      const struct train_call *c, int ncopies)
{
    struct train_call kept;
    struct move_kernel *k = train_cpu_kernel(s, c, sizeof *k, &kept);

    if (!k)
        return NULL;
    k->call = kept;
    train_operands(c, &k->op);
    k->size = (size_t)pdl_dtype_bits(c->in[0].dtype) / 8;
    k->copies = PDL_NEW(s->arena, struct copy, ncopies + 1);
    k->zero = PDL_NEW(s->arena, bool, c->nout + 1);
    k->base.implementation = "own";
    k->base.run = run;
    return k->copies && k->zero ? k : NULL;
}

/* How an index of y is one of x: x[dim[d]] = first[d] + y[d] * step[d]. */
struct mapping {
    int dim[PDL_BOX_DIMS];
    int64_t first[PDL_BOX_DIMS], step[PDL_BOX_DIMS];
};

static struct mapping straight(void)
{
    struct mapping m = {.dim = {0}};

    for (int d = 0; d < PDL_BOX_DIMS; d++) {
        m.dim[d] = d;
        m.first[d] = 0;
        m.step[d] = 1;
    }
    return m;
}

/* The elements y has whose places x has. */
static bool common(const struct train_array *x, const struct train_array *y,
                   const struct mapping *m, struct pdl_box *b)
{
    *b = y->box;
    for (int d = 0; d < b->ndims; d++) {
        int64_t lo = x->box.lo[m->dim[d]] - m->first[d];
        int64_t hi = x->box.hi[m->dim[d]] - m->first[d];

        lo = lo > 0 ? (lo + m->step[d] - 1) / m->step[d] : 0;
        hi = hi > 0 ? (hi + m->step[d] - 1) / m->step[d] : 0;
        b->lo[d] = lo > b->lo[d] ? lo : b->lo[d];
        b->hi[d] = hi < b->hi[d] ? hi : b->hi[d];
    }
    return !pdl_box_empty(b);
}

/* The second innermost dimension: the one that is a run on the other side. */
static void order(struct cpu_walk *w)
{
    int last = w->ndims - 1, other = -1;

    for (int d = 0; d < last; d++)
        if (w->stride[X][d] == 1 || w->stride[Y][d] == 1)
            other = d;
    for (int d = other; other >= 0 && d + 1 < last; d++) {
        int64_t t = w->count[d];

        w->count[d] = w->count[d + 1];
        w->count[d + 1] = t;
        for (int k = 0; k < 2; k++) {
            t = w->stride[k][d];
            w->stride[k][d] = w->stride[k][d + 1];
            w->stride[k][d + 1] = t;
        }
    }
}

/* Walked in the order of storage of what is written. */
static void end_copy(struct move_kernel *k, struct copy *c)
{
    train_cpu_walk_end(&c->walk, k->call.pass == PDL_FORWARD ? Y : X);
    order(&c->walk);
    k->ncopies++;
}

/* Operand i of x's side and operand o of y's. */
static void add_copy(struct move_kernel *k, int i, int o,
                     const struct mapping *m)
{
    struct copy *c = &k->copies[k->ncopies];
    const struct train_array *x = array_of(k, X, i), *y = array_of(k, Y, o);
    int64_t sx[PDL_BOX_DIMS] = {0}, sy[PDL_BOX_DIMS] = {0};
    struct pdl_box b;

    *c = (struct copy){.of = {i, o}};
    if (!common(x, y, m, &b))
        return;
    train_array_strides(x, sx);
    train_array_strides(y, sy);
    train_cpu_walk_begin(&c->walk, &b);
    c->walk.n = 2;
    for (int d = 0; d < b.ndims; d++) {
        int64_t at = m->first[d] + b.lo[d] * m->step[d];

        c->walk.stride[X][d] = sx[m->dim[d]] * m->step[d];
        c->walk.stride[Y][d] = sy[d];
        c->walk.first[X] += (at - x->box.lo[m->dim[d]]) * sx[m->dim[d]];
        c->walk.first[Y] += (b.lo[d] - y->box.lo[d]) * sy[d];
    }
    end_copy(k, c);
}

/* Outputs that the copies do not fill begin as zeros. */
static void find_zeros(struct move_kernel *k)
{
    bool forward = k->call.pass == PDL_FORWARD;

    for (int o = 0; o < k->call.nout; o++) {
        int64_t filled = 0;

        for (int i = 0; i < k->ncopies; i++)
            if (k->copies[i].of[forward ? Y : X] == o)
                filled += train_cpu_walk_count(&k->copies[i].walk, 0,
                                               k->copies[i].walk.ndims);
        k->zero[o] = filled != train_array_elements(&k->call.out[o]);
    }
}

/* ---- one to one ------------------------------------------------------- */

static enum pdl_status one_copy(struct cpu_state *s, const struct train_call *c,
                                const struct mapping *m,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct move_kernel *k;

    if (c->nin != 1 || c->nout != 1 || !all_of_one_type(c))
        return PDL_OK;
    k = new_kernel(s, c, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    add_copy(k, 0, 0, m);
    find_zeros(k);
    *out = &k->base;
    return PDL_OK;
}

static enum pdl_status make_pad(struct cpu_state *s, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct mapping m = straight();

    for (int d = 2; d < c->in[0].box.ndims && d - 2 < PDL_MAX_SPATIAL; d++)
        m.first[d] = -c->node->attr.pad[d - 2];
    return one_copy(s, c, &m, out, err);
}

static enum pdl_status make_transpose(struct cpu_state *s,
                                      const struct train_call *c,
                                      struct train_kernel **out,
                                      struct pdl_err *err)
{
    const struct pdl_attr *a = &c->node->attr;
    int n = c->model->tensors[c->node->in[0]].rank;
    struct mapping m = straight();

    for (int d = 0; d < n; d++)
        m.dim[d + 1] = (int)(a->ndims ? a->dims[d] : n - 1 - d) + 1;
    return one_copy(s, c, &m, out, err);
}

static enum pdl_status make_slice(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    const struct pdl_attr *a = &c->node->attr;
    struct mapping m = straight();

    if (a->ndims < 2 || (a->ndims > 2 && a->dims[2] < 1))
        return PDL_OK; /* the reference says what is missing */
    m.first[a->axis + 1] = a->dims[0];
    m.step[a->axis + 1] = a->ndims > 2 ? a->dims[2] : 1;
    return one_copy(s, c, &m, out, err);
}

/* ---- several to one, one to several ----------------------------------- */

static enum pdl_status make_concat(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    int axis = (int)c->node->attr.axis + 1;
    struct mapping m = straight();
    struct move_kernel *k;

    if (c->node->nweights > 0 || !all_of_one_type(c))
        return PDL_OK;
    k = new_kernel(s, c, c->node->nin);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->node->nin; i++) {
        int at = c->pass == PDL_FORWARD ? i : train_gradient_of(c, i);

        if (at >= 0)
            add_copy(k, at, 0, &m);
        m.first[axis] -= c->model->tensors[c->node->in[i]].dim[axis - 1];
    }
    find_zeros(k);
    *out = &k->base;
    return PDL_OK;
}

static enum pdl_status make_split(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    int axis = (int)c->node->attr.axis + 1;
    struct mapping m = straight();
    struct move_kernel *k;

    if (!all_of_one_type(c) ||
        (c->pass == PDL_FORWARD ? c->nout : c->nin) != c->node->nout)
        return PDL_OK;
    k = new_kernel(s, c, c->node->nout);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->node->nout; i++) {
        add_copy(k, 0, i, &m);
        m.first[axis] += c->model->tensors[c->node->out[i]].dim[axis - 1];
    }
    find_zeros(k);
    *out = &k->base;
    return PDL_OK;
}

/* ---- the same elements in the same order ------------------------------ */

/* Both shapes cut into factors that both are made of: [6,4] and [2,12] are
 * [2,3,4]. What has none (an extent across another's border) is left. */
static int factors(const struct pdl_tensor *x, const struct pdl_tensor *y,
                   int64_t *f)
{
    int i = 0, j = 0, n = 0;
    int64_t a = 1, b = 1;

    for (;;) {
        int64_t least;

        while (a == 1 && i < x->rank)
            a = x->dim[i++];
        while (b == 1 && j < y->rank)
            b = y->dim[j++];
        if (a == 1 && b == 1)
            return n;
        least = a < b ? a : b;
        if (least < 2 || n == PDL_BOX_DIMS - 1)
            return -1;
        f[n++] = least;
        if (a % least || b % least)
            return -1;
        a /= least;
        b /= least;
    }
}

/* The distance of neighbours in each factor. */
static bool strides_of(const struct pdl_tensor *t, const struct train_array *a,
                       const int64_t *f, int n, int64_t *out)
{
    int64_t stride[PDL_BOX_DIMS] = {0}, left = 1;
    int k = n - 1;

    train_array_strides(a, stride);
    for (int d = t->rank - 1; d >= 0; d--) {
        if (a->box.lo[d + 1] != 0 || a->box.hi[d + 1] != t->dim[d])
            return false;
        for (left = 1; left < t->dim[d]; left *= f[k--])
            out[k] = left * stride[d + 1];
    }
    return true;
}

/* Factors from the front need divisors that may only show from the back, so
 * the larger of two is cut by the smaller where it divides it. */
static bool whole_view(struct move_kernel *k, const struct train_array *x,
                       const struct train_array *y)
{
    const struct train_call *c = &k->call;
    const struct pdl_tensor *xt = &c->model->tensors[c->node->in[0]];
    const struct pdl_tensor *yt = &c->model->tensors[c->node->out[0]];
    int64_t f[PDL_BOX_DIMS] = {0}, sx[PDL_BOX_DIMS] = {0},
            sy[PDL_BOX_DIMS] = {0};
    struct pdl_box b = {.ndims = 1};
    struct copy *p = &k->copies[0];
    int n = factors(xt, yt, f);

    if (n < 0 || x->box.lo[0] != y->box.lo[0] || x->box.hi[0] != y->box.hi[0] ||
        !strides_of(xt, x, f, n, sx) || !strides_of(yt, y, f, n, sy))
        return false;
    b.ndims = n + 1;
    b.hi[0] = extent(x, 0);
    memcpy(b.hi + 1, f, (size_t)n * sizeof f[0]);
    train_cpu_walk_begin(&p->walk, &b);
    p->walk.n = 2;
    for (int d = 0; d < n; d++) {
        p->walk.stride[X][d + 1] = sx[d];
        p->walk.stride[Y][d + 1] = sy[d];
    }
    p->walk.stride[X][0] =
        extent(x, 0) > 0 ? train_array_elements(x) / extent(x, 0) : 0;
    p->walk.stride[Y][0] = p->walk.stride[X][0];
    end_copy(k, p);
    return true;
}

/* Of flatten a cut in channels is a run of its result. */
static bool flat_view(struct move_kernel *k, const struct train_array *x,
                      const struct train_array *y)
{
    const struct train_call *c = &k->call;
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    struct copy *p = &k->copies[0];
    int64_t sx[PDL_BOX_DIMS] = {0}, s = 1;
    struct pdl_box b = x->box;

    for (int d = 1; d < t->rank; d++) {
        if (x->box.lo[d + 1] != 0 || x->box.hi[d + 1] != t->dim[d])
            return false;
        s *= t->dim[d];
    }
    if (y->box.ndims != 2 || x->box.lo[0] != y->box.lo[0] ||
        x->box.hi[0] != y->box.hi[0] || y->box.lo[1] != x->box.lo[1] * s ||
        y->box.hi[1] != x->box.hi[1] * s)
        return false;
    train_array_strides(x, sx);
    train_cpu_walk_begin(&p->walk, &b);
    p->walk.n = 2;
    memcpy(p->walk.stride[X], sx, sizeof sx);
    p->walk.stride[Y][b.ndims - 1] = 1;
    for (int d = b.ndims - 2; d >= 0; d--)
        p->walk.stride[Y][d] = p->walk.stride[Y][d + 1] * extent(x, d + 1);
    end_copy(k, p);
    return true;
}

static bool is_whole(const struct pdl_tensor *t, const struct train_array *a)
{
    for (int d = 0; d < t->rank; d++)
        if (a->box.lo[d + 1] != 0 || a->box.hi[d + 1] != t->dim[d])
            return false;
    return !a->channels_last || t->rank < 2;
}

/* Whole samples in logical order on both sides: a run. */
static bool plain_view(struct move_kernel *k, const struct train_array *x,
                       const struct train_array *y)
{
    const struct pdl_tensor *t = k->call.model->tensors;
    const struct pdl_node *n = k->call.node;
    struct copy *p = &k->copies[0];
    struct pdl_box b = {.ndims = 1};

    if (!is_whole(&t[n->in[0]], x) || !is_whole(&t[n->out[0]], y) ||
        x->box.lo[0] != y->box.lo[0] || x->box.hi[0] != y->box.hi[0])
        return false;
    b.hi[0] = train_array_elements(x);
    train_cpu_walk_begin(&p->walk, &b);
    p->walk.n = 2;
    p->walk.stride[X][0] = p->walk.stride[Y][0] = 1;
    end_copy(k, p);
    return true;
}

static enum pdl_status make_view(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *x = forward ? &c->in[0] : &c->out[0];
    const struct train_array *y = forward ? &c->out[0] : &c->in[0];
    struct move_kernel *k;

    if (c->nin != 1 || c->nout != 1 || !all_of_one_type(c))
        return PDL_OK;
    k = new_kernel(s, c, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!plain_view(k, x, y) && !flat_view(k, x, y) && !whole_view(k, x, y))
        return PDL_OK;
    *out = &k->base;
    return PDL_OK;
}

/* ---- one token in front ----------------------------------------------- */

/* dw: the sum of what the first positions get. */
static enum pdl_status run_token_weights(const struct train_kernel *base,
                                         void *const *in, void *const *out,
                                         void *scratch,
                                         const struct train_moment *when,
                                         struct pdl_err *err)
{
    const struct move_kernel *k = (const struct move_kernel *)base;
    const struct train_array *dy = &k->call.in[k->op.dy];
    const struct train_array *w = &k->call.out[0];
    int64_t stride[PDL_BOX_DIMS] = {0}, e = extent(dy, 2);
    const float *p = in[k->op.dy];
    float *dw = out[0];

    (void)scratch;
    (void)when;
    (void)err;
    train_array_strides(dy, stride);
    memset(dw, 0, (size_t)train_array_bytes(w));
    dw += dy->box.lo[2] - w->box.lo[1];
    for (int64_t n = 0; n < extent(dy, 0) && dy->box.lo[1] <= 0; n++)
        train_simd_add(dw, p + n * stride[0], dw, extent(dy, 1) > 0 ? e : 0);
    return PDL_OK;
}

static void add_token(struct move_kernel *k)
{
    const struct train_array *y = &k->call.out[0];
    const struct train_array *w = &k->call.in[k->op.w];
    struct copy *c = &k->copies[k->ncopies];
    int map[] = {-1, -1, 1};
    struct pdl_box b = y->box;

    *c = (struct copy){.of = {k->op.w, 0}};
    if (b.lo[1] > 0 || pdl_box_empty(&b))
        return;
    b.hi[1] = 1;
    train_cpu_walk_begin(&c->walk, &b);
    train_cpu_walk_add(&c->walk, &b, w, map);
    train_cpu_walk_add(&c->walk, &b, y, NULL);
    end_copy(k, c);
}

static enum pdl_status make_token(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    struct mapping m = straight();
    struct move_kernel *k;

    if (!all_of_one_type(c) || c->in[0].box.ndims != 3 || c->deal ||
        (c->pass == PDL_BACKWARD_WEIGHTS && !train_cpu_plain(c)))
        return PDL_OK;
    k = new_kernel(s, c, 2);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    m.first[1] = -1;
    if (c->pass == PDL_BACKWARD_WEIGHTS) {
        k->base.run = run_token_weights;
    } else {
        add_copy(k, 0, 0, &m);
        if (c->pass == PDL_FORWARD)
            add_token(k);
        find_zeros(k);
    }
    *out = &k->base;
    return PDL_OK;
}

/* ---- boxes ------------------------------------------------------------ */

void train_cpu_copy_common(const struct train_array *from, const void *src,
                           const struct train_array *to, void *dst)
{
    struct copy c = {.of = {0, 0}};
    struct pdl_box b;

    if (!pdl_box_intersect(&from->box, &to->box, &b))
        return;
    train_cpu_walk_begin(&c.walk, &b);
    train_cpu_walk_add(&c.walk, &b, from, NULL);
    train_cpu_walk_add(&c.walk, &b, to, NULL);
    train_cpu_walk_end(&c.walk, Y);
    order(&c.walk);
    run_copy(&c, true, src, dst, (size_t)pdl_dtype_bits(from->dtype) / 8);
}

static const struct cpu_op rows[] = {
    {"pad", make_pad},        {"flatten", make_view},
    {"reshape", make_view},   {"squeeze", make_view},
    {"unsqueeze", make_view}, {"concat", make_concat},
    {"split", make_split},    {"transpose", make_transpose},
    {"slice", make_slice},    {"class_token", make_token},
};

const struct cpu_ops train_cpu_move = {rows, sizeof rows / sizeof rows[0]};
