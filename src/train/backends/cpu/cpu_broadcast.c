/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element, several operands, some of them stretched; a weight by
 * channel or feature; and sums over axes. All are jobs of one kind: results of
 * one array from the elements of others, which lie in a line or not. The
 * gradient of what was stretched is a sum over what it was stretched to. */
#include "train/backends/cpu/cpu_walk.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

enum { COLUMNS = 256, BLOCK = 64, DY = 1 };

/* Array 0 of the walk is the result, then dy (backward), then the operands. */
struct job {
    struct cpu_walk walk;
    enum pdl_dtype dtype[CPU_WALK_MOST];
    int from[CPU_WALK_MOST]; /* which input of the call an array is */
    int into;                /* which output array 0 is */
    int nv, towards;         /* operands; whose gradient, -1: forward */
    bool has_values, sums;   /* operands are at hand; a sum is taken */
    bool zero;               /* not every element gets a value */
    float scale;             /* of the result */
};

struct broadcast_kernel {
    struct train_kernel base;
    struct train_call call;
    const struct train_simd_nary *f;
    bool numbered; /* a number stands for the last operand */
    float number;
    int njobs;
    struct job *jobs;
};

struct task {
    const struct broadcast_kernel *k;
    const struct job *j;
    void *const *in;
    void *out;
};

/* ---- elements --------------------------------------------------------- */

static const float *load(const void *p, enum pdl_dtype t, int64_t at,
                         int64_t stride, float *space, int64_t n)
{
    const float *f = (const float *)p + at;
    const uint16_t *h = (const uint16_t *)p + at;

    if (t == PDL_F32 && (stride == 1 || n == 1))
        return f;
    if (t == PDL_F32 && stride == 0) {
        train_simd_fill(space, *f, n);
    } else if (t == PDL_F32) {
        for (int64_t i = 0; i < n; i++)
            space[i] = f[i * stride];
    } else if (stride == 1 || n == 1) {
        train_simd_from_bf16(h, space, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            train_simd_from_bf16(h + i * stride, space + i, 1);
    }
    return space;
}

static void store(void *p, enum pdl_dtype t, int64_t at, int64_t stride,
                  const float *y, int64_t n)
{
    float *f = (float *)p + at;
    uint16_t *h = (uint16_t *)p + at;

    if (t == PDL_F32)
        for (int64_t i = 0; f != y && i < n; i++)
            f[i * stride] = y[i];
    else if (stride == 1 || n == 1)
        train_simd_to_bf16(y, h, n);
    else
        for (int64_t i = 0; i < n; i++)
            train_simd_to_bf16(y + i, h + i * stride, 1);
}

/* n elements of the result's summands at these places, in y or beside it. */
static const float *values(const struct task *t, const int64_t *at, float *y,
                           int64_t n)
{
    const struct job *j = t->j;
    const struct cpu_walk *w = &j->walk;
    int run = w->ndims - 1, first = j->towards < 0 ? 1 : DY + 1;
    float space[CPU_WALK_MOST][CPU_WALK_PIECE];
    const float *v[CPU_WALK_MOST] = {NULL}, *dy;

    for (int i = 0; j->has_values && i < j->nv; i++) {
        int a = first + i;

        if (a < w->n)
            v[i] = load(t->in[j->from[a]], j->dtype[a], at[a],
                        w->stride[a][run], space[a], n);
    }
    if (t->k->numbered) {
        train_simd_fill(space[0], t->k->number, n);
        v[j->nv - 1] = space[0];
    }
    if (j->towards < 0 && j->nv == 1)
        return v[0];
    if (j->towards < 0) {
        t->k->f->f(v, j->nv, y, n);
        return y;
    }
    dy = load(t->in[j->from[DY]], j->dtype[DY], at[DY], w->stride[DY][run],
              space[DY], n);
    t->k->f->back(dy, v, j->nv, j->towards, y, n);
    return y;
}

static void one_by_one(const void *ctx, const int64_t *at, int64_t n)
{
    const struct task *t = ctx;
    const struct job *j = t->j;
    int64_t stride = j->walk.stride[0][j->walk.ndims - 1];
    float space[CPU_WALK_PIECE], *y = space;
    const float *got;

    if (j->dtype[0] == PDL_F32 && (stride == 1 || n == 1))
        y = (float *)t->out + at[0];
    got = values(t, at, y, n);
    if (j->scale != 1) {
        if (got != y)
            memcpy(y, got, (size_t)n * sizeof *y);
        train_simd_scale(y, j->scale, n);
        got = y;
    }
    if (got != (float *)t->out + at[0] || j->dtype[0] != PDL_F32)
        store(t->out, j->dtype[0], at[0], stride, got, n);
}

/* ---- sums: blocks in float32, blocks of them in float64 --------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* n neighbouring results: rows of summands one below the other. */
static void sum_columns(const struct task *t, const int64_t *base, int64_t n)
{
    const struct cpu_walk *w = &t->j->walk;
    int from = (int)w->kept, to = w->ndims - 1;
    int64_t rows = train_cpu_walk_count(w, from, to);
    double total[COLUMNS] = {0};
    float sum[COLUMNS] = {0}, space[CPU_WALK_PIECE];
    struct cpu_walk_at p;

    train_cpu_walk_start(w, from, to, 0, base, &p);
    for (int64_t r = 0; r < rows; r++) {
        const float *v = values(t, p.at, space, n);

        train_simd_add(sum, v, sum, n);
        if (r % BLOCK == BLOCK - 1 || r == rows - 1)
            for (int64_t i = 0; i < n; i++) {
                total[i] += (double)sum[i];
                sum[i] = 0;
            }
        train_cpu_walk_next(w, from, to, &p);
    }
    for (int64_t i = 0; i < n; i++)
        sum[i] = (float)total[i] * t->j->scale;
    store(t->out, t->j->dtype[0], base[0], w->stride[0][to], sum, n);
}

/* One result: runs of summands. */
static void sum_runs(const struct task *t, const int64_t *base)
{
    const struct cpu_walk *w = &t->j->walk;
    int from = (int)w->kept, run = w->ndims - 1;
    int64_t rows = train_cpu_walk_count(w, from, run);
    float space[CPU_WALK_PIECE], sum;
    struct cpu_walk_at p;
    double total = 0;

    train_cpu_walk_start(w, from, run, 0, base, &p);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < w->count[run]; i += CPU_WALK_PIECE) {
            int64_t n = least(w->count[run] - i, CPU_WALK_PIECE);
            int64_t at[CPU_WALK_MOST] = {0};

            for (int k = 0; k < w->n; k++)
                at[k] = p.at[k] + i * w->stride[k][run];
            total += (double)train_simd_sum(values(t, at, space, n), n);
        }
        train_cpu_walk_next(w, from, run, &p);
    }
    sum = (float)total * t->j->scale;
    store(t->out, t->j->dtype[0], base[0], 1, &sum, 1);
}

static int64_t pieces_of(const struct cpu_walk *w)
{
    return w->columns ? (w->count[w->ndims - 1] + COLUMNS - 1) / COLUMNS : 1;
}

static void some_sums(const void *ctx, int64_t from, int64_t to)
{
    const struct task *t = ctx;
    const struct cpu_walk *w = &t->j->walk;
    int run = w->ndims - 1;
    int64_t per = pieces_of(w);

    for (int64_t u = from; u < to; u++) {
        int64_t begin = u % per * COLUMNS;
        struct cpu_walk_at p;

        train_cpu_walk_start(w, 0, (int)w->kept, u / per, w->first, &p);
        if (!w->columns) {
            sum_runs(t, p.at);
            continue;
        }
        for (int k = 0; k < w->n; k++)
            p.at[k] += begin * w->stride[k][run];
        sum_columns(t, p.at, least(w->count[run] - begin, COLUMNS));
    }
}

static void take_sums(const struct task *t)
{
    const struct cpu_walk *w = &t->j->walk;
    int64_t all = train_cpu_walk_count(w, 0, w->ndims);
    int64_t units = train_cpu_walk_count(w, 0, (int)w->kept) * pieces_of(w);

    if (all > 0)
        train_cpu_parallel(units, 1 + CPU_GRAIN * units / all, some_sums, t);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct broadcast_kernel *k = (const struct broadcast_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    for (int i = 0; i < k->njobs; i++) {
        const struct job *j = &k->jobs[i];
        struct task t = {k, j, in, out[j->into]};

        if (j->zero)
            memset(t.out, 0, (size_t)train_array_bytes(&k->call.out[j->into]));
        if (j->sums)
            take_sums(&t);
        else
            train_cpu_walk(&j->walk, one_by_one, &t);
    }
    return PDL_OK;
}

/* ---- making ----------------------------------------------------------- */

/* Where dimension d of y is in an operand; -1: stretched. */
typedef void map_fn(const struct train_call *c, int operand,
                    const struct pdl_box *y, int *map);

/* Aligned at the last dimension; activations have N in front. */
static void aligned(const struct train_call *c, int operand,
                    const struct pdl_box *y, int *map)
{
    bool weight = operand >= c->node->nin;
    const struct pdl_tensor *t =
        &c->model->tensors[weight ? c->node->weights[operand - c->node->nin]
                                  : c->node->in[operand]];
    int shift = y->ndims - t->rank; /* of dimension 0 without N */

    for (int d = 0; d < y->ndims; d++) {
        int own = d - shift;

        map[d] = own < 0 || t->dim[own] == 1 ? -1 : own + (weight ? 0 : 1);
    }
    if (!weight)
        map[0] = 0;
}

/* A weight by channel of images (always: prelu) or by feature. */
static void by_channel(const struct train_call *c, int operand,
                       const struct pdl_box *y, int *map)
{
    bool channel = pdl_op_id(c->node->op) == PDL_ID_PRELU || y->ndims > 3;
    int64_t n = c->model->tensors[c->node->weights[0]].dim[0];

    for (int d = 0; d < y->ndims; d++)
        map[d] = operand == 0 ? d : d == (channel ? 1 : y->ndims - 1) ? 0 : -1;
    if (operand == 1 && n == 1)
        for (int d = 0; d < y->ndims; d++)
            map[d] = -1;
}

static bool is_float(const struct train_array *a)
{
    return a->layout == 0 && (a->dtype == PDL_F32 || a->dtype == PDL_BF16);
}

/* Has the array what the box meets? */
static bool covers(const struct train_array *a, const int *map,
                   const struct pdl_box *b)
{
    for (int d = 0; d < b->ndims; d++)
        if (map[d] >= 0 &&
            (a->box.lo[map[d]] > b->lo[d] || a->box.hi[map[d]] < b->hi[d]))
            return false;
    return true;
}

static bool add_array(struct job *j, const struct pdl_box *box,
                      const struct train_array *a, const int *map, int from)
{
    if (j->walk.n == CPU_WALK_MOST || !is_float(a) ||
        (!pdl_box_empty(box) && !covers(a, map, box)))
        return false;
    j->dtype[j->walk.n] = a->dtype;
    j->from[j->walk.n] = from;
    train_cpu_walk_add(&j->walk, box, a, map);
    return true;
}

/* Sums where the result is stretched; says whether it is filled. */
static void end_job(struct job *j, const struct train_array *result, int by)
{
    int64_t filled = 1;

    for (int d = 0; d < j->walk.ndims; d++) {
        if (j->walk.stride[0][d] == 0 && j->walk.count[d] > 1)
            j->sums = true;
        else if (j->walk.stride[0][d] != 0)
            filled *= j->walk.count[d];
        if (j->walk.count[d] == 0)
            filled = 0;
    }
    j->zero = filled != train_array_elements(result);
    if (j->sums)
        train_cpu_walk_sum(&j->walk, by, 0);
    else
        train_cpu_walk_end(&j->walk, by);
}

/* The operands of the call as arrays of a job. */
static bool add_operands(struct job *j, const struct train_call *c,
                         const struct train_operands *o,
                         const struct pdl_box *y, map_fn *map)
{
    int m[PDL_BOX_DIMS] = {0};

    for (int i = 0; i < c->node->nin && o->nx > 0; i++) {
        map(c, i, y, m);
        if (!add_array(j, y, &c->in[o->x + i], m, o->x + i))
            return false;
    }
    for (int i = 0; i < o->nw; i++) {
        map(c, c->node->nin + i, y, m);
        if (!add_array(j, y, &c->in[o->w + i], m, o->w + i))
            return false;
    }
    return true;
}

static int operands_of(const struct pdl_node *n)
{
    double number;

    return n->nin + n->nweights + train_with_number(n, &number);
}

static bool forward_job(struct job *j, const struct train_call *c, map_fn *map)
{
    struct train_operands o;
    static const int same[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

    train_operands(c, &o);
    *j = (struct job){.towards = -1, .has_values = true, .scale = 1};
    j->nv = operands_of(c->node);
    train_cpu_walk_begin(&j->walk, &c->out[0].box);
    if (!add_array(j, &c->out[0].box, &c->out[0], same, -1) ||
        !add_operands(j, c, &o, &c->out[0].box, map) ||
        j->walk.n != 1 + c->node->nin + c->node->nweights)
        return false;
    end_job(j, &c->out[0], 0);
    return true;
}

/* The gradient of operand i (weights after inputs) as output `out`. */
static bool gradient_job(struct job *j, const struct train_call *c, int i,
                         int out, map_fn *map)
{
    static const int same[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct train_operands o;
    const struct pdl_box *y;
    int m[PDL_BOX_DIMS] = {0};

    train_operands(c, &o);
    y = &c->in[o.dy].box;
    *j = (struct job){.towards = i, .into = out, .scale = 1};
    j->nv = operands_of(c->node);
    j->has_values = o.nx > 0;
    train_cpu_walk_begin(&j->walk, y);
    map(c, i, y, m);
    if (!add_array(j, y, &c->out[out], m, -1) ||
        !add_array(j, y, &c->in[o.dy], same, o.dy) ||
        (j->has_values && !add_operands(j, c, &o, y, map)))
        return false;
    end_job(j, &c->out[out], DY);
    return true;
}

static struct broadcast_kernel *new_kernel(struct cpu_state *s,
                                           const struct train_call *c)
{
    struct train_call kept;
    struct broadcast_kernel *k = train_cpu_kernel(s, c, sizeof *k, &kept);
    int most = c->nout > 0 ? c->nout : 1;
    double number;

    if (!k)
        return NULL;
    k->call = kept;
    k->f = train_simd_nary(c->node->op->name);
    k->numbered = train_with_number(c->node, &number);
    k->number = (float)number;
    k->jobs = PDL_NEW(s->arena, struct job, most);
    k->base.implementation = "own";
    k->base.run = run;
    return k->jobs ? k : NULL;
}

/* False: not in this form. */
static bool find_jobs(struct broadcast_kernel *k, map_fn *map)
{
    const struct train_call *c = &k->call;
    const struct pdl_node *n = c->node;
    int out = 0;

    if (c->pass == PDL_FORWARD) {
        k->njobs = 1;
        return c->nout == 1 && forward_job(&k->jobs[0], c, map);
    }
    if (c->pass == PDL_BACKWARD_DATA)
        for (int i = 0; i < n->nin && out < c->nout; i++) {
            int o = train_gradient_of(c, i);

            if (o >= 0 && !gradient_job(&k->jobs[out++], c, i, o, map))
                return false;
        }
    else
        for (int i = 0; i < n->nweights && out < c->nout; i++)
            if (c->model->tensors[n->weights[i]].kind == PDL_TENSOR_WEIGHT) {
                if (!gradient_job(&k->jobs[out], c, n->nin + i, out, map))
                    return false;
                out++;
            }
    k->njobs = out;
    return out == c->nout;
}

static enum pdl_status make_mapped(struct cpu_state *s,
                                   const struct train_call *c, map_fn *map,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    struct broadcast_kernel *k = new_kernel(s, c);

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (find_jobs(k, map))
        *out = &k->base;
    return PDL_OK;
}

/* Gradients of weights in quotients and extremes, and in products of several,
 * need values that are not at hand: the reference says so. */
static bool is_by_reference(const struct pdl_node *n)
{
    static const enum pdl_op_id ids[] = {PDL_ID_MAX, PDL_ID_MIN, PDL_ID_DIV,
                                         PDL_ID_POW, PDL_ID_WHERE};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (pdl_op_id(n->op) == ids[i])
            return true;
    return n->nweights != 1;
}

static enum pdl_status make_aligned(struct cpu_state *s,
                                    const struct train_call *c,
                                    struct train_kernel **out,
                                    struct pdl_err *err)
{
    if (c->pass == PDL_BACKWARD_WEIGHTS && is_by_reference(c->node))
        return PDL_OK;
    return make_mapped(s, c, aligned, out, err);
}

static enum pdl_status make_weighted(struct cpu_state *s,
                                     const struct train_call *c,
                                     struct train_kernel **out,
                                     struct pdl_err *err)
{
    return make_mapped(s, c, by_channel, out, err);
}

/* ---- sums over axes --------------------------------------------------- */

/* Which dimension of y a dimension of x is; -1: summed. Returns how many
 * elements are summed. */
static double reduced(const struct train_call *c, int *map)
{
    const struct pdl_attr *a = &c->node->attr;
    const struct pdl_tensor *t = &c->model->tensors[c->node->in[0]];
    double n = 1;
    int to = 1;

    map[0] = 0;
    for (int d = 0; d < t->rank; d++) {
        bool gone = a->ndims == 0;

        for (int k = 0; k < a->ndims; k++)
            gone = gone || a->dims[k] == d;
        n *= gone ? (double)t->dim[d] : 1;
        map[d + 1] = gone ? -1 : to;
        to += !gone || a->keep_dims;
    }
    return pdl_op_id(c->node->op) == PDL_ID_REDUCE_SUM ? 1 : n;
}

static enum pdl_status make_reduce(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    static const int same[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *x = forward ? &c->in[0] : &c->out[0];
    const struct train_array *y = forward ? &c->out[0] : &c->in[0];
    struct broadcast_kernel *k;
    int map[PDL_BOX_DIMS] = {0};
    struct job *j;
    double n;

    if (c->nin != 1 || c->nout != 1)
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    j = &k->jobs[0];
    n = reduced(c, map);
    *j = (struct job){.towards = -1, .nv = 1, .has_values = true};
    j->scale = (float)(1 / n);
    train_cpu_walk_begin(&j->walk, &x->box);
    if (!add_array(j, &x->box, forward ? y : x, forward ? map : same, -1) ||
        !add_array(j, &x->box, forward ? x : y, forward ? same : map, 0))
        return PDL_OK;
    end_job(j, &c->out[0], forward ? 1 : 0);
    k->njobs = 1;
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"add", make_aligned},       {"sub", make_aligned},
    {"mul", make_aligned},       {"div", make_aligned},
    {"max", make_aligned},       {"min", make_aligned},
    {"mean", make_aligned},      {"prelu", make_weighted},
    {"scale", make_weighted},    {"reduce_mean", make_reduce},
    {"reduce_sum", make_reduce}, {"pow", make_aligned},
    {"where", make_aligned},     {"equal", make_aligned},
    {"less", make_aligned},      {"less_equal", make_aligned},
    {"greater", make_aligned},   {"greater_equal", make_aligned},
    {"and", make_aligned},       {"or", make_aligned},
    {"xor", make_aligned},       {"not", make_aligned},
};

const struct cpu_ops train_cpu_broadcast = {rows, sizeof rows / sizeof rows[0]};
