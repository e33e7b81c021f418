/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of normalisations and pools. Forward leaves mean and 1/deviation. */
#include "train/backends/cuda/cuda.h"

static bool is(const struct train_call *c, enum pdl_op_id id)
{
    return pdl_op_id(c->node->op) == id;
}

static int64_t or1(int64_t v)
{
    return v > 0 ? v : 1;
}

static int64_t row_width(const struct train_call *c,
                         const struct train_array *x)
{
    int64_t f = c->node->attr.features;

    return f ? f : train_cuda_extent(x, x->box.ndims - 1);
}

bool train_cuda_aux(const struct train_call *c, struct train_array *a)
{
    const struct train_array *x = &c->in[0];
    enum cuda_type t;

    if (c->part != 0 || !train_cuda_type(x->dtype, &t) || x->layout)
        return false;
    *a = (struct train_array){.dtype = PDL_F32, .box = {.ndims = 3}};
    a->box.hi[0] = 1;
    a->box.hi[1] = 2;
    if (is(c, PDL_ID_BATCH_NORM)) { /* mean, 1/deviation, sums of backward */
        a->box.hi[0] = or1(c->groups);
        a->box.hi[1] = 4;
        a->box.hi[2] = train_cuda_extent(x, 1);
        return c->nin > 1 && (x->box.ndims < 3 || x->channels_last);
    }
    if (is(c, PDL_ID_LAYER_NORM) || is(c, PDL_ID_RMS_NORM)) {
        int64_t f = row_width(c, x);

        a->box.hi[2] = f > 0 ? train_array_elements(x) / f : 0;
        return !x->channels_last;
    }
    if (is(c, PDL_ID_ATTENTION)) {
        const struct pdl_attr *n = &c->node->attr;
        int64_t dv = n->v_head_dim ? n->v_head_dim : n->head_dim;

        a->box.hi[0] = train_cuda_extent(&c->out[0], 0);
        a->box.hi[1] = train_cuda_extent(&c->out[0], 2) / dv;
        a->box.hi[2] = train_cuda_extent(&c->out[0], 1);
        return true;
    }
    return false;
}

/* ---- batch norm ------------------------------------------------------- */

struct batch_weights {
    float *scale, *shift, *mean, *var;
};

static struct batch_weights batch_weights(const struct cuda_kernel *k,
                                          void *const *in)
{
    struct batch_weights w = {NULL, NULL, NULL, NULL};

    for (int j = 0; j < k->op.nw; j++) {
        bool learned = k->call.model->tensors[k->call.node->weights[j]].kind ==
                       PDL_TENSOR_WEIGHT;
        float **first = learned ? &w.scale : &w.mean;
        float **second = learned ? &w.shift : &w.var;

        *(*first ? second : first) = in[k->op.w + j];
    }
    return w;
}

static int64_t channels(const struct cuda_kernel *k)
{
    return train_cuda_extent(&k->call.in[0], 1);
}

static int64_t groups(const struct cuda_kernel *k)
{
    return or1(k->call.groups);
}

/* Of a group. */
static int64_t pixels(const struct cuda_kernel *k)
{
    return train_array_elements(&k->call.in[0]) / channels(k) / groups(k);
}

static size_t summed_at(const void *aux)
{
    return (size_t)((uintptr_t)aux / 64 % CUDA_SUMMED);
}

struct cuda_batch_norm train_cuda_batch(const struct cuda_kernel *k,
                                        void *const *in, float *stats,
                                        const struct train_moment *when)
{
    struct batch_weights w = batch_weights(k, in);
    bool has = w.mean && w.var, running = when->evaluate && has;
    int64_t n = running ? 1 : groups(k); /* all run by the same statistics */

    k->s->summed[summed_at(stats)].aux = NULL;
    return (struct cuda_batch_norm){
        .groups = n,
        .m = groups(k) / n * pixels(k),
        .c = channels(k),
        .eps = (float)train_epsilon(k->call.node),
        .momentum = (float)train_momentum(k->call.node),
        .running = running,
        .remember = !running && !when->again && has,
        .scale = w.scale,
        .shift = w.shift,
        .mean = w.mean,
        .var = w.var,
        .stats = stats};
}

static cudaError_t batch_forward(const struct cuda_kernel *k, void *const *in,
                                 void *const *out, void *scratch,
                                 const struct train_moment *when)
{
    struct cuda_batch_norm b =
        train_cuda_batch(k, in, out[k->op.aux_out], when);

    return train_cuda_batch_norm(train_cuda_stream(k), k->t, &b, in[0], NULL,
                                 out[0], scratch);
}

static struct cuda_batch_back back_of(const struct cuda_kernel *k,
                                      const void *dy, const void *x,
                                      const float *aux)
{
    return (struct cuda_batch_back){.groups = groups(k),
                                    .m = pixels(k),
                                    .c = channels(k),
                                    .dy = dy,
                                    .x = x,
                                    .stats = aux};
}

/* Of a backward-data call, as if nothing stood behind the norm. */
struct cuda_batch_back train_cuda_back(const struct cuda_kernel *k,
                                       void *const *in)
{
    struct batch_weights w = batch_weights(k, in);
    struct cuda_batch_back b = back_of(k, in[0], in[k->op.x], in[k->op.aux]);

    b.scale = w.scale;
    b.shift = w.shift;
    return b;
}

/* Sums of dy and dy xhat behind the statistics in aux, unless they are
 * there. */
static cudaError_t sums(const struct cuda_kernel *k, const void *dy,
                        const void *x, float *aux, void *scratch)
{
    struct cuda_batch_back b = back_of(k, dy, x, aux);
    size_t at = summed_at(aux);

    if (k->s->summed[at].aux == aux && k->s->summed[at].dy == dy)
        return cudaSuccess;
    k->s->summed[at].aux = aux;
    k->s->summed[at].dy = dy;
    return train_cuda_batch_norm_sums(train_cuda_stream(k), k->t, &b,
                                      aux + 2 * channels(k), NULL, scratch);
}

static cudaError_t batch_data(const struct cuda_kernel *k, void *const *in,
                              void *const *out, void *scratch,
                              const struct train_moment *when)
{
    struct cuda_batch_back b = train_cuda_back(k, in);
    float *aux = in[k->op.aux];
    cudaError_t e = sums(k, in[0], in[k->op.x], aux, scratch);

    (void)when;
    if (e != cudaSuccess)
        return e;
    return train_cuda_batch_norm_back(train_cuda_stream(k), k->t, &b,
                                      aux + 2 * channels(k), out[0]);
}

static cudaError_t batch_weights_back(const struct cuda_kernel *k,
                                      void *const *in, void *const *out,
                                      void *scratch,
                                      const struct train_moment *when)
{
    float *aux = in[k->op.aux];
    struct cuda_batch_back b = back_of(k, in[k->op.dy], in[0], aux);
    cudaError_t e = sums(k, in[k->op.dy], in[0], aux, scratch);

    (void)when;
    b.dscale = out[0];
    b.dshift = k->call.nout > 1 ? out[1] : NULL;
    return e != cudaSuccess
               ? e
               : train_cuda_batch_norm_weights(train_cuda_stream(k), &b,
                                               aux + 2 * channels(k));
}

static bool are_floats(const struct train_array *a, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].dtype != PDL_F32)
            return false;
    return true;
}

bool train_cuda_make_batch_norm(struct cuda_kernel *k)
{
    static cuda_go_fn *const passes[] = {
        [PDL_FORWARD] = batch_forward,
        [PDL_BACKWARD_DATA] = batch_data,
        [PDL_BACKWARD_WEIGHTS] = batch_weights_back};
    const struct train_call *c = &k->call;
    const struct train_array *x = &c->in[0];

    if (c->part != 0 || c->population > 0 ||
        (x->box.ndims > 2 && !x->channels_last) || groups(k) > CUDA_GROUPS ||
        (c->pass == PDL_FORWARD ? k->op.aux_out < 0 : k->op.aux < 0))
        return false;
    if (c->pass != PDL_BACKWARD_WEIGHTS &&
        !are_floats(&c->in[k->op.w], k->op.nw))
        return false;
    if (c->pass == PDL_BACKWARD_WEIGHTS && !are_floats(c->out, c->nout))
        return false;
    k->base.scratch_bytes =
        4 * (train_cuda_group_room(groups(k), pixels(k), channels(k)) +
             2 * channels(k));
    k->go = passes[c->pass];
    return true;
}

/* ---- rows ------------------------------------------------------------- */

static cudaError_t row_forward(const struct cuda_kernel *k, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when)
{
    (void)scratch, (void)when;
    return train_cuda_row_norm(train_cuda_stream(k), k->t, &k->u.rows, in[0],
                               NULL, NULL, k->op.nw > 0 ? in[k->op.w] : NULL,
                               k->op.nw > 1 ? in[k->op.w + 1] : NULL, out[0],
                               out[k->op.aux_out]);
}

static cudaError_t row_data(const struct cuda_kernel *k, void *const *in,
                            void *const *out, void *scratch,
                            const struct train_moment *when)
{
    struct cuda_row_back b = {
        .dy = in[0], .x = in[k->op.x], .stats = in[k->op.aux]};

    (void)scratch, (void)when;
    return train_cuda_row_norm_back(train_cuda_stream(k), k->t, &k->u.rows, &b,
                                    k->op.nw > 0 ? in[k->op.w] : NULL, out[0]);
}

static cudaError_t row_weights(const struct cuda_kernel *k, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when)
{
    struct cuda_row_back b = {.dy = in[k->op.dy],
                              .x = in[0],
                              .stats = in[k->op.aux],
                              .dw = out[0],
                              .db = k->call.nout > 1 ? out[1] : NULL,
                              .partial = scratch};

    (void)when;
    return train_cuda_row_norm_weights(train_cuda_stream(k), k->t, &k->u.rows,
                                       &b);
}

bool train_cuda_make_row_norm(struct cuda_kernel *k)
{
    static cuda_go_fn *const passes[] = {[PDL_FORWARD] = row_forward,
                                         [PDL_BACKWARD_DATA] = row_data,
                                         [PDL_BACKWARD_WEIGHTS] = row_weights};
    const struct train_call *c = &k->call;
    const struct train_array *x = &c->in[0];
    bool rms = is(c, PDL_ID_RMS_NORM),
         weights = c->pass == PDL_BACKWARD_WEIGHTS;
    int64_t width = row_width(c, x);

    if (x->channels_last ||
        (c->pass == PDL_FORWARD ? k->op.aux_out < 0 : k->op.aux < 0) ||
        train_cuda_extent(x, x->box.ndims - 1) % width)
        return false;
    if (!are_floats(weights ? c->out : &c->in[k->op.w],
                    weights ? c->nout : k->op.nw))
        return false;
    k->u.rows = (struct cuda_row_norm){.rows = train_array_elements(x) / width,
                                       .width = width,
                                       .eps = (float)train_epsilon(c->node),
                                       .centre = !rms};
    if (weights)
        k->base.scratch_bytes = 4 * train_cuda_row_room(k->u.rows.rows, width);
    k->go = passes[c->pass];
    return true;
}

/* ---- pools ------------------------------------------------------------ */

static cudaError_t pool(const struct cuda_kernel *k, void *const *in,
                        void *const *out, void *scratch,
                        const struct train_moment *when)
{
    cudaStream_t s = train_cuda_stream(k);

    (void)scratch, (void)when;
    if (is(&k->call, PDL_ID_AVG_POOL))
        return k->call.pass == PDL_FORWARD
                   ? train_cuda_avg_pool(s, k->t, &k->u.pool, in[0], out[0])
                   : train_cuda_avg_pool_back(s, k->t, &k->u.pool, in[0],
                                              out[0]);
    if (k->call.pass == PDL_FORWARD)
        return train_cuda_max_pool(
            s, k->t, &k->u.pool, in[0], out[0],
            k->op.aux_out >= 0 ? out[k->op.aux_out] : NULL);
    return train_cuda_max_pool_back(s, k->t, &k->u.pool, in[0], in[k->op.aux],
                                    out[0]);
}

/* A byte for each result, or for each gradient of one: neighbours' too. */
static bool has_places(const struct cuda_kernel *k)
{
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *a = forward ? k->call.out : k->call.in;
    int i = forward ? k->op.aux_out : k->op.aux;
    struct train_array y = a[0];

    y.dtype = PDL_U8;
    return i < 0 ? forward : train_cuda_same_box(&a[i], &y);
}

bool train_cuda_make_pool(struct cuda_kernel *k)
{
    const struct pdl_attr *a = &k->call.node->attr;
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    const struct train_array *y = forward ? &k->call.out[0] : &k->call.in[0];
    const struct pdl_tensor *t = &k->call.model->tensors[k->call.node->in[0]];
    int ns = x->box.ndims - 2;
    struct cuda_pool p = {.n = train_cuda_extent(x, 0),
                          .c = train_cuda_extent(x, 1),
                          .count_pad = a->count_pad};

    if (ns < 1 || ns > 2 || !x->channels_last || !y->channels_last ||
        x->dtype != y->dtype ||
        (is(&k->call, PDL_ID_MAX_POOL) && !has_places(k)))
        return false;
    for (int i = 0; i < 2; i++) { /* one dimension: rows of one column */
        int d = i - (2 - ns);
        bool real = d >= 0;

        p.x[i] = real ? train_cuda_extent(x, d + 2) : 1;
        p.y[i] = real ? train_cuda_extent(y, d + 2) : 1;
        p.x_lo[i] = real ? x->box.lo[d + 2] : 0;
        p.y_lo[i] = real ? y->box.lo[d + 2] : 0;
        p.whole[i] = real ? t->dim[d + 1] : 1;
        p.k[i] = real ? a->kernel[d] : 1;
        p.stride[i] = real ? or1(a->stride[d]) : 1;
        p.dilation[i] = real ? or1(a->dilation[d]) : 1;
        p.pad[i] = real ? a->pad[d] : 0;
        p.pad_end[i] = real ? a->pad_end[d] : 0;
        if (is(&k->call, PDL_ID_AVG_POOL) && p.dilation[i] != 1)
            return false;
    }
    k->u.pool = p;
    k->go = pool;
    return true;
}

static cudaError_t image_mean(const struct cuda_kernel *k, void *const *in,
                              void *const *out, void *scratch,
                              const struct train_moment *when)
{
    const struct pdl_tensor *t = &k->call.model->tensors[k->call.node->in[0]];
    bool forward = k->call.pass == PDL_FORWARD;
    const struct train_array *x = forward ? &k->call.in[0] : &k->call.out[0];
    int64_t n = train_cuda_extent(x, 0), c = train_cuda_extent(x, 1);
    int64_t here = train_array_elements(x) / (n * c);
    float of = 1;

    (void)scratch, (void)when;
    for (int d = 1; d < t->rank; d++)
        of *= (float)t->dim[d];
    return forward ? train_cuda_image_sums(train_cuda_stream(k), k->t, n, here,
                                           c, of, in[0], NULL, out[0])
                   : train_cuda_image_spread(train_cuda_stream(k), k->t, n,
                                             here, c, of, NULL, in[0], out[0]);
}

bool train_cuda_make_image_mean(struct cuda_kernel *k)
{
    const struct train_array *x =
        k->call.pass == PDL_FORWARD ? &k->call.in[0] : &k->call.out[0];

    k->go = image_mean;
    return train_cuda_typed(k) && x->channels_last && x->box.ndims > 2;
}
