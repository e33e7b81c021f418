/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch, layer and RMS norm on rows of channels or features.
 *
 * Batch norm keeps in aux [1,5,C]: mean, 1/deviation, and, once the backward
 * pass of the weights has run, the sums it took (dy, dy*xhat) with a mark, so
 * that backward-data need not read everything again. Layer norm keeps mean
 * and 1/deviation of each row. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

struct norm_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    int64_t rows, c;             /* batch norm */
    double population;           /* elements of a channel, all ranks */
    int scale, shift, mean, var; /* weights among the inputs, -1: none */
    struct train_simd_ln ln;
};

enum { MEAN, RSTD, SUM_DY, SUM_DYX, MARK, NAUX };

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

/* ---- rows on threads; sums over rows stay in one order ---------------- */

struct rows_task {
    const struct norm_kernel *k;
    const float *x, *dy, *w, *b, *add; /* of a call below */
    float *y, *mean, *rstd;
};

static struct train_simd_ln some_of(const struct train_simd_ln *l, int64_t from,
                                    int64_t to)
{
    struct train_simd_ln part = *l;

    part.rows = to - from;
    return part;
}

static void apply_rows(const void *ctx, int64_t from, int64_t to)
{
    const struct rows_task *t = ctx;
    int64_t c = t->k->c;

    train_simd_bn_apply(t->x + from * c, t->w, t->b, t->y + from * c, to - from,
                        c);
}

static void back_rows(const void *ctx, int64_t from, int64_t to)
{
    const struct rows_task *t = ctx;
    int64_t c = t->k->c;

    train_simd_bn_back(t->dy + from * c, t->x + from * c, t->w, t->b, t->add,
                       t->y + from * c, to - from, c);
}

static void ln_rows(const void *ctx, int64_t from, int64_t to)
{
    const struct rows_task *t = ctx;
    struct train_simd_ln l = some_of(&t->k->ln, from, to);

    train_simd_ln(&l, t->x + from * l.n, t->w, t->b, t->y + from * l.n,
                  t->mean + from, t->rstd + from);
}

static void ln_back_rows(const void *ctx, int64_t from, int64_t to)
{
    const struct rows_task *t = ctx;
    struct train_simd_ln l = some_of(&t->k->ln, from, to);

    train_simd_ln_back(&l, t->dy + from * l.n, t->x + from * l.n, t->w,
                       t->mean + from, t->rstd + from, t->y + from * l.n);
}

static void on_rows(int64_t rows, int64_t width, cpu_piece_fn *piece,
                    const struct rows_task *t)
{
    train_cpu_parallel(rows, 1 + CPU_GRAIN / (width > 0 ? width : 1), piece, t);
}

/* ---- batch norm: sums of channels ------------------------------------- */

/* Threads share the channels, LANES at a time: the sum of one is taken in one
 * order however many there are. */
enum { LANES = 16 };

struct channels_task {
    const struct norm_kernel *k;
    const float *dy, *x, *mean, *rstd;
    float *mean_out, *var_out;
    double *sum, *dot;
};

static void moments_of(const void *ctx, int64_t from, int64_t to)
{
    const struct channels_task *t = ctx;
    int64_t c = from * LANES, end = to * LANES < t->k->c ? to * LANES : t->k->c;

    train_simd_bn_moments(t->x + c, t->k->rows, t->k->c, end - c,
                          t->mean_out + c, t->var_out + c);
}

static void sums_of(const void *ctx, int64_t from, int64_t to)
{
    const struct channels_task *t = ctx;
    int64_t c = from * LANES, end = to * LANES < t->k->c ? to * LANES : t->k->c;

    train_simd_bn_sums(t->x + c, t->k->rows, t->k->c, end - c, t->sum + c,
                       t->dot + c);
}

static void back_sums_of(const void *ctx, int64_t from, int64_t to)
{
    const struct channels_task *t = ctx;
    int64_t c = from * LANES, end = to * LANES < t->k->c ? to * LANES : t->k->c;

    train_simd_bn_back_sums(t->dy + c, t->x + c, t->mean + c, t->rstd + c,
                            t->k->rows, t->k->c, end - c, t->sum + c,
                            t->dot + c);
}

static void on_channels(cpu_piece_fn *piece, const struct channels_task *t)
{
    int64_t each = LANES * (t->k->rows + 1);

    train_cpu_parallel((t->k->c + LANES - 1) / LANES, 1 + CPU_GRAIN / each,
                       piece, t);
}

static void moments(const struct norm_kernel *k, const float *x, float *mean,
                    float *var)
{
    on_channels(moments_of,
                &(struct channels_task){
                    .k = k, .x = x, .mean_out = mean, .var_out = var});
}

static void back_sums(const struct norm_kernel *k, const float *dy,
                      const float *x, const float *mean, const float *rstd,
                      double *sum, double *dot)
{
    on_channels(back_sums_of, &(struct channels_task){.k = k,
                                                      .dy = dy,
                                                      .x = x,
                                                      .mean = mean,
                                                      .rstd = rstd,
                                                      .sum = sum,
                                                      .dot = dot});
}

/* ---- batch norm: coefficients ----------------------------------------- */

static void by_channel(const struct norm_kernel *k, void *const *in, int which,
                       float none, float *out)
{
    if (which >= 0)
        memcpy(out, in[which], (size_t)k->c * sizeof *out);
    else
        train_simd_fill(out, none, k->c);
}

static void from_sums(const struct norm_kernel *k, const double *sums,
                      float *mean, float *var)
{
    for (int64_t i = 0; i < k->c; i++) {
        double m = sums[i] / k->population;
        double v = sums[k->c + i] / k->population - m * m;

        mean[i] = (float)m;
        var[i] = (float)(v > 0 ? v : 0);
    }
}

static void remember(const struct norm_kernel *k, void *const *in,
                     const float *mean, const float *var)
{
    float *m = in[k->mean], *v = in[k->var];
    double n = k->population;
    float unbiased = (float)(n > 1 ? n / (n - 1) : 1);
    float share = (float)train_momentum(k->call.node);

    for (int64_t i = 0; i < k->c; i++) {
        m[i] += share * (mean[i] - m[i]);
        v[i] += share * (var[i] * unbiased - v[i]);
    }
}

static void reciprocal_deviation(const struct norm_kernel *k, const float *var,
                                 float *rstd)
{
    float eps = (float)train_epsilon(k->call.node);

    for (int64_t i = 0; i < k->c; i++)
        rstd[i] = 1 / sqrtf(var[i] + eps);
}

/* mean and rstd of the batch: from aux, sums, or the array itself. */
static void statistics(const struct norm_kernel *k, void *const *in,
                       const float *x, float *mean, float *rstd, float *var)
{
    if (k->op.aux >= 0) {
        const float *aux = in[k->op.aux];

        memcpy(mean, aux, (size_t)k->c * sizeof *mean);
        memcpy(rstd, aux + k->c, (size_t)k->c * sizeof *rstd);
        return;
    }
    if (k->op.stats >= 0)
        from_sums(k, in[k->op.stats], mean, var);
    else
        moments(k, x, mean, var);
    reciprocal_deviation(k, var, rstd);
}

/* ---- batch norm: passes ----------------------------------------------- */

static enum pdl_status
bn_forward(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    float *mean = scratch, *var = mean + k->c, *a = var + k->c, *b = a + k->c;
    const float *x = in[k->op.x];
    bool running = when->evaluate && k->mean >= 0 && k->var >= 0;

    (void)err;
    if (running) {
        by_channel(k, in, k->mean, 0, mean);
        by_channel(k, in, k->var, 1, var);
    } else if (k->op.sums >= 0) {
        from_sums(k, in[k->op.sums], mean, var);
    } else if (k->rows > 0) {
        moments(k, x, mean, var);
    } else {
        train_simd_fill(mean, 0, 2 * k->c); /* and var beside it */
    }
    if (!running && !when->again && k->mean >= 0 && k->var >= 0 &&
        (k->rows > 0 || k->op.sums >= 0))
        remember(k, in, mean, var);
    reciprocal_deviation(k, var, var);
    if (k->op.aux_out >= 0) {
        float *aux = out[k->op.aux_out];

        memcpy(aux + MEAN * k->c, mean, (size_t)k->c * sizeof *aux);
        memcpy(aux + RSTD * k->c, var, (size_t)k->c * sizeof *aux);
        train_simd_fill(aux + MARK * k->c, 0, k->c);
    }
    by_channel(k, in, k->scale, 1, a);
    by_channel(k, in, k->shift, 0, b);
    for (int64_t i = 0; i < k->c; i++) {
        a[i] *= var[i];
        b[i] -= mean[i] * a[i];
    }
    on_rows(k->rows, k->c, apply_rows,
            &(struct rows_task){.k = k, .x = x, .w = a, .b = b, .y = out[0]});
    return PDL_OK;
}

static enum pdl_status bn_sums(const struct train_kernel *base, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    double *sums = out[0];

    (void)scratch;
    (void)when;
    (void)err;
    on_channels(sums_of,
                &(struct channels_task){
                    .k = k, .x = in[0], .sum = sums, .dot = sums + k->c});
    return PDL_OK;
}

static enum pdl_status bn_back_sums(const struct train_kernel *base,
                                    void *const *in, void *const *out,
                                    void *scratch,
                                    const struct train_moment *when,
                                    struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    float *mean = scratch, *var = mean + k->c, *rstd = var + k->c;
    double *sums = out[0];

    (void)when;
    (void)err;
    statistics(k, in, in[1], mean, rstd, var);
    back_sums(k, in[0], in[1], mean, rstd, sums, sums + k->c);
    return PDL_OK;
}

/* Work space of the backward passes. */
struct space {
    double *sum, *dot;
    float *mean, *var, *rstd, *a, *b, *c;
};

static struct space space_of(const struct norm_kernel *k, void *scratch)
{
    struct space s = {.sum = scratch};

    s.dot = s.sum + k->c;
    s.mean = (void *)(s.dot + k->c);
    s.var = s.mean + k->c;
    s.rstd = s.var + k->c;
    s.a = s.rstd + k->c;
    s.b = s.a + k->c;
    s.c = s.b + k->c;
    return s;
}

static void widen(const float *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
}

/* The sums over dy: exchanged, left by the weights' pass, or taken now. */
static void find_sums(const struct norm_kernel *k, void *const *in,
                      const struct space *s, const float *dy, const float *x)
{
    const float *aux = k->op.aux >= 0 ? in[k->op.aux] : NULL;

    if (k->op.sums >= 0) {
        memcpy(s->sum, in[k->op.sums], (size_t)(2 * k->c) * sizeof *s->sum);
    } else if (aux && aux[MARK * k->c] != 0) {
        widen(aux + SUM_DY * k->c, s->sum, k->c);
        widen(aux + SUM_DYX * k->c, s->dot, k->c);
    } else {
        back_sums(k, dy, x, s->mean, s->rstd, s->sum, s->dot);
    }
}

static enum pdl_status bn_data(const struct train_kernel *base, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    struct space s = space_of(k, scratch);
    const float *dy = in[0], *x = in[k->op.x];

    (void)when;
    (void)err;
    if (k->rows == 0)
        return PDL_OK;
    statistics(k, in, x, s.mean, s.rstd, s.var);
    find_sums(k, in, &s, dy, x);
    by_channel(k, in, k->scale, 1, s.a);
    for (int64_t i = 0; i < k->c; i++) {
        double g = (double)s.a[i] * (double)s.rstd[i];
        double slope = g * s.dot[i] * (double)s.rstd[i] / k->population;

        s.a[i] = (float)g;
        s.b[i] = (float)-slope;
        s.c[i] =
            (float)(slope * (double)s.mean[i] - g * s.sum[i] / k->population);
    }
    on_rows(k->rows, k->c, back_rows,
            &(struct rows_task){.k = k,
                                .dy = dy,
                                .x = x,
                                .w = s.a,
                                .b = s.b,
                                .add = s.c,
                                .y = out[0]});
    return PDL_OK;
}

static enum pdl_status
bn_weights(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    struct space s = space_of(k, scratch);
    float *aux = k->op.aux >= 0 ? in[k->op.aux] : NULL;
    float *dscale = out[0], *dshift = k->call.nout > 1 ? out[1] : NULL;

    (void)when;
    (void)err;
    if (k->op.sums >= 0) {
        memcpy(s.sum, in[0], (size_t)(2 * k->c) * sizeof *s.sum);
    } else {
        train_simd_fill(s.rstd, 0, k->c); /* of an empty part nothing comes */
        if (k->rows > 0)
            statistics(k, in, in[0], s.mean, s.rstd, s.var);
        back_sums(k, in[1], in[0], s.mean, s.rstd, s.sum, s.dot);
    }
    for (int64_t i = 0; i < k->c; i++) {
        dscale[i] = (float)s.dot[i];
        if (dshift)
            dshift[i] = (float)s.sum[i];
        if (aux) {
            aux[SUM_DY * k->c + i] = (float)s.sum[i];
            aux[SUM_DYX * k->c + i] = (float)s.dot[i];
            aux[MARK * k->c + i] = 1;
        }
    }
    return PDL_OK;
}

/* ---- batch norm: making ----------------------------------------------- */

/* The activation whose rows are counted; NULL: the exchanged sums alone. */
static const struct train_array *bn_rows(const struct train_call *c)
{
    return c->pass == PDL_BACKWARD_WEIGHTS && c->nin == 1 ? NULL : &c->in[0];
}

/* Rows of channels: features, or images with channels last. */
static bool bn_fits(const struct train_call *c)
{
    const struct train_array *x = bn_rows(c);

    for (int i = 0; i < c->nin + c->nout; i++)
        if ((i < c->nin ? &c->in[i] : &c->out[i - c->nin])->layout)
            return false;
    return !x || x->box.ndims == 2 || x->channels_last;
}

static void find_weights(struct norm_kernel *k)
{
    const struct pdl_node *n = k->call.node;

    k->scale = k->shift = k->mean = k->var = -1;
    for (int j = 0; j < k->op.nw; j++) {
        int i = k->op.w + j;
        bool learned =
            k->call.model->tensors[n->weights[j]].kind == PDL_TENSOR_WEIGHT;

        if (learned && k->scale < 0)
            k->scale = i;
        else if (learned)
            k->shift = i;
        else if (k->mean < 0)
            k->mean = i;
        else
            k->var = i;
    }
}

static bool sums_are(const struct train_call *c, int in, enum pdl_dtype t)
{
    return in < 0 || c->in[in].dtype == t;
}

/* Only the operands that may be are float64. */
static bool types_are_right(const struct norm_kernel *k)
{
    const struct train_call *c = &k->call;
    bool makes_sums =
        (c->pass == PDL_FORWARD && c->part == 0 && c->nin == 1 &&
         c->node->nweights > 0) ||
        (c->pass == PDL_BACKWARD_DATA && c->part == 0 && c->nin == 3);

    for (int i = 0; i < c->nin; i++)
        if (i != k->op.sums && i != k->op.stats && c->in[i].dtype != PDL_F32)
            return false;
    for (int i = 0; i < c->nout; i++)
        if (c->out[i].dtype != (makes_sums ? PDL_F64 : PDL_F32))
            return false;
    return sums_are(c, k->op.sums, PDL_F64) &&
           sums_are(c, k->op.stats, PDL_F64);
}

static enum pdl_status make_batch_norm(struct cpu_state *s,
                                       const struct train_call *c,
                                       struct train_kernel **out,
                                       struct pdl_err *err)
{
    const struct train_array *x = bn_rows(c);
    struct train_call kept;
    struct norm_kernel *k;

    if (!bn_fits(c))
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    train_operands(c, &k->op);
    if (!types_are_right(k))
        return PDL_OK;
    find_weights(k);
    k->c = x ? extent(x, 1) : extent(&c->out[0], 0);
    k->rows = x && k->c > 0 ? train_array_elements(x) / k->c : 0;
    k->population = (double)(c->population > 0 ? c->population : k->rows);
    if (k->c == 0)
        return PDL_OK;
    k->base.implementation = "own";
    k->base.scratch_bytes = k->c * (2 * 8 + 6 * 4);
    if (c->pass == PDL_FORWARD)
        k->base.run = c->part == 0 && c->nin == 1 && c->node->nweights > 0
                          ? bn_sums
                          : bn_forward;
    else if (c->pass == PDL_BACKWARD_DATA)
        k->base.run = c->part == 0 && c->nin == 3 ? bn_back_sums : bn_data;
    else
        k->base.run = bn_weights;
    *out = &k->base;
    return PDL_OK;
}

/* ---- over rows -------------------------------------------------------- */

static enum pdl_status
ln_forward(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    float *stats = k->op.aux_out >= 0 ? out[k->op.aux_out] : scratch;

    (void)when;
    (void)err;
    on_rows(k->ln.rows, k->ln.n, ln_rows,
            &(struct rows_task){.k = k,
                                .x = in[0],
                                .w = k->op.nw > 0 ? in[k->op.w] : NULL,
                                .b = k->op.nw > 1 ? in[k->op.w + 1] : NULL,
                                .y = out[0],
                                .mean = stats,
                                .rstd = stats + k->ln.rows});
    return PDL_OK;
}

static const float *ln_stats(const struct norm_kernel *k, void *const *in,
                             const float *x, float *scratch)
{
    if (k->op.aux >= 0)
        return in[k->op.aux];
    train_simd_ln_stats(&k->ln, x, scratch, scratch + k->ln.rows);
    return scratch;
}

static enum pdl_status ln_data(const struct train_kernel *base, void *const *in,
                               void *const *out, void *scratch,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    const float *x = in[k->op.x];
    const float *stats = ln_stats(k, in, x, scratch);

    (void)when;
    (void)err;
    on_rows(
        k->ln.rows, k->ln.n, ln_back_rows,
        &(struct rows_task){.k = k,
                            .dy = in[0],
                            .x = x,
                            .w = in[k->op.w],
                            .y = out[0],
                            .mean = (float *)(uintptr_t)stats,
                            .rstd = (float *)(uintptr_t)(stats + k->ln.rows)});
    return PDL_OK;
}

static enum pdl_status
ln_weights(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct norm_kernel *k = (const struct norm_kernel *)base;
    const float *stats = ln_stats(k, in, in[0], scratch);

    (void)when;
    (void)err;
    train_simd_ln_weights(&k->ln, in[0], in[1], stats, stats + k->ln.rows,
                          out[0], k->call.nout > 1 ? out[1] : NULL);
    return PDL_OK;
}

static enum pdl_status make_layer_norm(struct cpu_state *s,
                                       const struct train_call *c,
                                       struct train_kernel **out,
                                       struct pdl_err *err)
{
    const struct train_array *x = &c->in[0];
    int64_t f = c->node->attr.features;
    bool rms = pdl_op_id(c->node->op) == PDL_ID_RMS_NORM;
    struct train_call kept;
    struct norm_kernel *k;

    f = f ? f : extent(x, x->box.ndims - 1);
    if (!train_cpu_plain(c) || x->channels_last || f == 0 ||
        c->node->nweights == 0)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    train_operands(c, &k->op);
    k->ln = (struct train_simd_ln){train_array_elements(x) / f, f,
                                   (float)train_epsilon(c->node), !rms};
    k->base.implementation = "own";
    k->base.scratch_bytes = 2 * k->ln.rows * (int64_t)sizeof(float);
    k->base.run = c->pass == PDL_FORWARD         ? ln_forward
                  : c->pass == PDL_BACKWARD_DATA ? ln_data
                                                 : ln_weights;
    *out = &k->base;
    return PDL_OK;
}

/* ---- aux -------------------------------------------------------------- */

bool train_cpu_norm_aux(const struct train_call *c, struct train_array *a)
{
    const struct train_array *x = &c->in[0];
    enum pdl_op_id id = pdl_op_id(c->node->op);
    int64_t f = c->node->attr.features;

    if (c->part != 0 || (x->dtype != PDL_F32 && x->dtype != PDL_BF16) ||
        x->layout)
        return false;
    *a = (struct train_array){.dtype = PDL_F32, .box = {.ndims = 3}};
    a->box.hi[0] = 1;
    if (id == PDL_ID_BATCH_NORM) {
        if (c->nin == 1 || (x->box.ndims > 2 && !x->channels_last))
            return false;
        a->box.hi[0] = c->groups > 1 ? c->groups : 1;
        a->box.hi[1] = NAUX;
        a->box.hi[2] = extent(x, 1);
        return true;
    }
    if ((id != PDL_ID_LAYER_NORM && id != PDL_ID_RMS_NORM) ||
        x->channels_last || c->node->nweights == 0)
        return false;
    f = f ? f : extent(x, x->box.ndims - 1);
    a->box.hi[1] = 2;
    a->box.hi[2] = f > 0 ? train_array_elements(x) / f : 0;
    return true;
}

static const struct cpu_op rows[] = {
    {"batch_norm", make_batch_norm},
    {"layer_norm", make_layer_norm},
    {"rms_norm", make_layer_norm},
};

const struct cpu_ops train_cpu_norm = {rows, sizeof rows / sizeof rows[0]};
