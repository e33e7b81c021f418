/* SPDX-License-Identifier: Apache-2.0
 *
 * Images with channels last, a position at a time: resizing to the nearest
 * element or between elements, pooling to given extents, the largest of a whole
 * image, and local response normalisation. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { S = 3 }; /* spatial dimensions, missing ones are 1 */

struct image {
    int64_t lo[S], n[S], whole[S];
};

struct image_kernel {
    struct train_kernel base;
    struct train_operands op;
    bool forward;
    int64_t n, c;      /* samples, channels */
    struct image x, y; /* the part at hand, and the whole tensor's extents */
    struct train_simd_lrn lrn;
    const struct pdl_attr *attr;
    void (*one)(const struct image_kernel *k, int64_t sample, void *const *in,
                void *const *out);
};

struct task {
    const struct image_kernel *k;
    void *const *in, *const *out;
};

static int64_t volume(const struct image *i)
{
    return i->n[0] * i->n[1] * i->n[2];
}

static void some_samples(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;

    for (int64_t n = from; n < to; n++)
        t->k->one(t->k, n, t->in, t->out);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct image_kernel *k = (const struct image_kernel *)base;
    struct task t = {k, in, out};

    (void)scratch;
    (void)when;
    (void)err;
    train_cpu_parallel(k->n, 1 + CPU_GRAIN / 4 / (k->c * (volume(&k->x) + 1)),
                       some_samples, &t);
    return PDL_OK;
}

/* Of sample n the part's position with these global indices; NULL: not here. */
static float *at(const struct image_kernel *k, const struct image *i, void *p,
                 int64_t n, const int64_t *g)
{
    int64_t o = n;

    for (int d = 0; d < S; d++) {
        if (g[d] < i->lo[d] || g[d] >= i->lo[d] + i->n[d])
            return NULL;
        o = o * i->n[d] + g[d] - i->lo[d];
    }
    return (float *)p + o * k->c;
}

static void global_index(const struct image *i, int64_t number, int64_t *g)
{
    for (int d = S - 1; d >= 0; d--) {
        g[d] = i->lo[d] + number % i->n[d];
        number /= i->n[d];
    }
}

/* ---- the nearest element, rounding down ------------------------------- */

static void resize(const struct image_kernel *k, int64_t n, void *const *in,
                   void *const *out)
{
    int64_t g[S], from[S], sample = volume(&k->x) * k->c;

    if (!k->forward)
        memset((float *)out[0] + n * sample, 0, (size_t)sample * 4);
    for (int64_t i = 0; i < volume(&k->y); i++) {
        float *y = (float *)(k->forward ? out[0] : in[0]) +
                   (n * volume(&k->y) + i) * k->c;
        float *x;

        global_index(&k->y, i, g);
        for (int d = 0; d < S; d++)
            from[d] = g[d] * k->x.whole[d] / k->y.whole[d];
        x = at(k, &k->x, k->forward ? in[0] : out[0], n, from);
        if (k->forward && x)
            memcpy(y, x, (size_t)k->c * sizeof *y);
        else if (k->forward)
            memset(y, 0, (size_t)k->c * sizeof *y);
        else if (x)
            train_simd_add(x, y, x, k->c);
    }
}

/* ---- between elements ------------------------------------------------- */

static void one_between(const struct image_kernel *k, int64_t n, float *x,
                        float *y, const int64_t *g)
{
    int64_t from[S][TRAIN_TAPS], place[S];
    double share[S][TRAIN_TAPS];
    int taps = 1, all = 1;

    for (int d = 0; d < S; d++, all *= taps)
        taps = train_resize_taps(k->attr, k->x.whole[d], k->y.whole[d], g[d],
                                 from[d], share[d]);
    for (int i = 0; i < all; i++) {
        double part = 1;
        float *p;

        for (int d = 0, rest = i; d < S; d++, rest /= taps) {
            place[d] = from[d][rest % taps];
            part *= share[d][rest % taps];
        }
        p = part != 0 ? at(k, &k->x, x, n, place) : NULL;
        if (p && k->forward)
            train_simd_add_scaled(p, (float)part, y, k->c);
        else if (p)
            train_simd_add_scaled(y, (float)part, p, k->c);
    }
}

static void between(const struct image_kernel *k, int64_t n, void *const *in,
                    void *const *out)
{
    int64_t g[S], from = volume(&k->x) * k->c, to = volume(&k->y) * k->c;

    if (k->forward)
        memset((float *)out[0] + n * to, 0, (size_t)to * 4);
    else
        memset((float *)out[0] + n * from, 0, (size_t)from * 4);
    for (int64_t i = 0; i < volume(&k->y); i++) {
        float *y = (float *)(k->forward ? out[0] : in[0]) + n * to + i * k->c;

        global_index(&k->y, i, g);
        one_between(k, n, k->forward ? in[0] : out[0], y, g);
    }
}

/* ---- the mean of bins ------------------------------------------------- */

/* Bin g of Y over X elements: [floor(g X / Y), ceil((g + 1) X / Y)). */
static void adaptive(const struct image_kernel *k, int64_t n, void *const *in,
                     void *const *out)
{
    int64_t g[S], lo[S], size[S], sample = volume(&k->x) * k->c;

    if (!k->forward)
        memset((float *)out[0] + n * sample, 0, (size_t)sample * 4);
    for (int64_t i = 0; i < volume(&k->y); i++) {
        float *y = (float *)(k->forward ? out[0] : in[0]) +
                   (n * volume(&k->y) + i) * k->c;
        int64_t all = 1;

        global_index(&k->y, i, g);
        for (int d = 0; d < S; d++) {
            int64_t x = k->x.whole[d], m = k->y.whole[d];

            lo[d] = g[d] * x / m;
            size[d] = ((g[d] + 1) * x + m - 1) / m - lo[d];
            all *= size[d];
        }
        if (k->forward)
            memset(y, 0, (size_t)k->c * sizeof *y);
        for (int64_t j = 0; j < all; j++) {
            int64_t place[S] = {lo[0] + j / (size[1] * size[2]),
                                lo[1] + j / size[2] % size[1],
                                lo[2] + j % size[2]};
            float *x = at(k, &k->x, k->forward ? in[0] : out[0], n, place);

            if (x)
                train_simd_add_scaled(k->forward ? x : y, 1 / (float)all,
                                      k->forward ? y : x, k->c);
        }
    }
}

/* ---- the largest of an image: places count from the part's first ------ */

static void largest(const struct image_kernel *k, int64_t n, void *const *in,
                    void *const *out)
{
    int64_t size = volume(&k->x), sample = size * k->c;

    if (k->forward) {
        const float *x = (const float *)in[0] + n * sample;
        float *y = (float *)out[0] + n * k->c;
        int32_t none[1024], *where = none;

        for (int64_t c = 0; c < k->c; c += 1024) {
            int64_t m = k->c - c < 1024 ? k->c - c : 1024;

            if (k->op.aux_out >= 0)
                where = (int32_t *)out[k->op.aux_out] + n * k->c + c;
            memcpy(y + c, x + c, (size_t)m * sizeof *y);
            memset(where, 0, (size_t)m * sizeof *where);
            for (int64_t i = 1; i < size; i++)
                train_simd_take_larger(x + i * k->c + c, (int32_t)i, y + c,
                                       where, m);
        }
    } else {
        const int32_t *where = (const int32_t *)in[k->op.aux] + n * k->c;
        float *x = (float *)out[0] + n * sample;

        memset(x, 0, (size_t)sample * sizeof *x);
        for (int64_t c = 0; c < k->c; c++)
            x[where[c] * k->c + c] = ((const float *)in[0])[n * k->c + c];
    }
}

/* ---- local response normalisation ------------------------------------- */

enum { LRN_MOST = 4096 };

static void response(const struct image_kernel *k, int64_t n, void *const *in,
                     void *const *out)
{
    int64_t size = volume(&k->x);
    float space[4 * LRN_MOST];

    for (int64_t i = n * size; i < (n + 1) * size; i++) {
        const float *x = (const float *)in[k->op.x] + i * k->c;
        float *y = (float *)out[0] + i * k->c;

        if (k->forward)
            train_simd_lrn(&k->lrn, x, y, space);
        else
            train_simd_lrn_back(&k->lrn, (const float *)in[0] + i * k->c, x, y,
                                space);
    }
}

static void set_response(struct image_kernel *k, const struct pdl_attr *a)
{
    int64_t n = a->window > 0 ? a->window : 5;

    k->lrn = (struct train_simd_lrn){
        .c = k->c,
        .before = (n - 1) / 2,
        .after = n / 2,
        .alpha = (float)((a->alpha > 0 ? a->alpha : 1e-4) / (double)n),
        .beta = (float)(a->beta > 0 ? a->beta : 0.75),
        .offset = (float)(a->offset > 0 ? a->offset : 1)};
}

/* ---- making ----------------------------------------------------------- */

static void describe(const struct train_array *a, const struct pdl_tensor *t,
                     struct image *i)
{
    for (int d = 0; d < S; d++) {
        bool has = d + 2 < a->box.ndims;

        i->lo[d] = has ? a->box.lo[d + 2] : 0;
        i->n[d] = has ? a->box.hi[d + 2] - a->box.lo[d + 2] : 1;
        i->whole[d] = has ? t->dim[d + 1] : 1;
    }
}

/* float32 (positions: 32-bit integers), channels last, the same samples and
 * channels on both sides, nothing empty. */
static bool fits(const struct train_call *c, const struct train_operands *o)
{
    const struct train_array *a = &c->in[0], *b = &c->out[0];

    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *t =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        bool aux = i < c->nin ? i == o->aux : i - c->nin == o->aux_out;

        if (t->layout || t->dtype != (aux ? PDL_I32 : PDL_F32) ||
            !t->channels_last || t->box.ndims > S + 2 || t->box.ndims < 3 ||
            pdl_box_empty(&t->box))
            return false;
    }
    for (int d = 0; d < 2; d++)
        if (a->box.lo[d] != b->box.lo[d] || a->box.hi[d] != b->box.hi[d])
            return false;
    return true;
}

static bool whole(const struct image *i)
{
    for (int d = 0; d < S; d++)
        if (i->lo[d] != 0 || i->n[d] != i->whole[d])
            return false;
    return true;
}

static enum pdl_status make(struct cpu_state *s, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    enum pdl_op_id op = pdl_op_id(c->node->op);
    const struct pdl_tensor *t = c->model->tensors;
    bool forward = c->pass == PDL_FORWARD;
    struct train_operands o;
    struct train_call kept;
    struct image_kernel *k;

    train_operands(c, &o);
    if (!fits(c, &o))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->op = o;
    k->forward = forward;
    k->attr = &c->node->attr;
    k->n = c->in[0].box.hi[0] - c->in[0].box.lo[0];
    k->c = c->in[0].box.hi[1] - c->in[0].box.lo[1];
    describe(forward ? &c->in[0] : &c->out[0], &t[c->node->in[0]], &k->x);
    describe(forward ? &c->out[0] : &c->in[0], &t[c->node->out[0]], &k->y);
    if (op == PDL_ID_GLOBAL_MAX_POOL && (forward || o.aux >= 0))
        k->one = largest;
    else if (op == PDL_ID_ADAPTIVE_AVG_POOL)
        k->one = adaptive;
    else if (op == PDL_ID_RESIZE)
        k->one = c->node->attr.alpha != 0 ? between : resize;
    else if (op == PDL_ID_LRN && k->c <= LRN_MOST && whole(&k->x))
        k->one = response;
    set_response(k, &c->node->attr);
    k->base.implementation = "own";
    k->base.run = run;
    if (k->one)
        *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"resize", make},
    {"adaptive_avg_pool", make},
    {"global_max_pool", make},
    {"lrn", make},
};

const struct cpu_ops train_cpu_image = {rows, sizeof rows / sizeof rows[0]};
