/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products: linear, matmul, and the tables. oneDNN's sgemm gives the
 * same bits for parts of M and N (measured), so parts equal the whole. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

#include <string.h>

struct gemm_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    int64_t rows, f, c;           /* linear */
    struct cpu_matmul_plan *plan; /* bfloat16 */
    int64_t wide;                 /* offset of db in float32 in scratch */
};

static int last(const struct train_array *a)
{
    return a->box.ndims - 1;
}

static int64_t extent(const struct train_array *a, int d)
{
    int64_t n = a->box.hi[d] - a->box.lo[d];

    return n > 0 ? n : 0;
}

static bool same_range(const struct train_array *a, int da,
                       const struct train_array *b, int db)
{
    return a->box.lo[da] == b->box.lo[db] && a->box.hi[da] == b->box.hi[db];
}

static struct gemm_kernel *new_kernel(struct cpu_state *s,
                                      const struct train_call *c)
{
    struct train_call kept;
    struct gemm_kernel *k = train_cpu_kernel(s, c, sizeof *k, &kept);

    if (!k)
        return NULL;
    k->call = kept;
    k->base.implementation = "own";
    train_operands(c, &k->op);
    return k;
}

/* ---- linear ----------------------------------------------------------- */

static enum pdl_status
run_forward(const struct train_kernel *base, void *const *in, void *const *out,
            void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    struct cpu_gemm g = {false, true, false, k->rows, k->f,
                         k->c,  k->c, k->c,  k->f,    1};
    enum pdl_status st = train_dnnl_gemm(&g, in[0], in[1], out[0], err);

    (void)scratch;
    (void)when;
    if (st == PDL_OK && k->call.nin > 2)
        train_simd_add_bias(out[0], in[2], out[0], k->rows, k->f);
    return st;
}

static enum pdl_status run_bias(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;

    (void)scratch;
    (void)when;
    (void)err;
    train_simd_add_bias(in[0], in[1], out[0], k->rows, k->f);
    return PDL_OK;
}

static enum pdl_status run_data(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    struct cpu_gemm g = {false, false, false, k->rows, k->c,
                         k->f,  k->f,  k->c,  k->c,    1};

    (void)scratch;
    (void)when;
    return train_dnnl_gemm(&g, in[0], in[1], out[0], err);
}

static enum pdl_status
run_weights(const struct train_kernel *base, void *const *in, void *const *out,
            void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    struct cpu_gemm g = {true,    false, false, k->f, k->c,
                         k->rows, k->f,  k->c,  k->c, 1};
    enum pdl_status st = train_dnnl_gemm(&g, in[1], in[0], out[0], err);

    (void)scratch;
    (void)when;
    if (st == PDL_OK && k->call.nout > 1)
        train_simd_sum_rows(in[1], out[1], k->rows, k->f);
    return st;
}

/* ---- linear in bfloat16 ----------------------------------------------- */

/* y = x w', dx = dy w, dw = dy' x: which operands a product takes. */
static enum pdl_status run_bf16(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    bool weights = k->call.pass == PDL_BACKWARD_WEIGHTS;
    bool bias = k->call.pass == PDL_FORWARD && k->call.nin > 2;
    enum pdl_status st =
        train_dnnl_matmul_run(k->plan, in[weights ? 1 : 0], in[weights ? 0 : 1],
                              bias ? in[2] : NULL, out[0], scratch, err);

    (void)when;
    if (st == PDL_OK && weights && k->call.nout > 1) {
        float *db = (void *)((char *)scratch + k->wide);

        train_simd_sum_rows_bf16(in[1], db, k->rows, k->f);
        if (k->call.out[1].dtype == PDL_BF16)
            train_simd_to_bf16(db, out[1], k->f);
        else
            memcpy(out[1], db, (size_t)k->f * sizeof *db);
    }
    return st;
}

static enum pdl_status make_bf16(struct cpu_state *s, struct gemm_kernel *k,
                                 struct train_kernel **out, struct pdl_err *err)
{
    const struct train_call *c = &k->call;
    bool data = c->pass == PDL_BACKWARD_DATA,
         weights = c->pass == PDL_BACKWARD_WEIGHTS;
    struct cpu_matmul m = {
        .ta = weights,
        .tb = c->pass == PDL_FORWARD,
        .has_bias = c->pass == PDL_FORWARD && c->nin > 2,
        .m = weights ? k->f : k->rows,
        .n = c->pass == PDL_FORWARD ? k->f : k->c,
        .k = weights ? k->rows
             : data  ? k->f
                     : k->c,
        .a = c->in[weights ? 1 : 0].dtype,
        .b = c->in[weights ? 0 : 1].dtype,
        .c = c->out[0].dtype,
        .bias = c->nin > 2 ? c->in[2].dtype : PDL_F32,
    };
    enum pdl_status st;

    if (m.m == 0 || m.k == 0 || m.n == 0)
        return PDL_OK;
    st = train_dnnl_matmul(s->dnnl, &m, &k->plan, err);
    if (st != PDL_OK || !k->plan)
        return st;
    k->wide = (train_dnnl_matmul_scratch(k->plan) + 63) / 64 * 64;
    k->base.scratch_bytes = k->wide;
    if (weights && c->nout > 1)
        k->base.scratch_bytes += k->f * 4;
    k->base.implementation = train_dnnl_matmul_name(k->plan);
    k->base.run = run_bf16;
    *out = &k->base;
    return PDL_OK;
}

static bool is_bf16(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (a->layout || (a->dtype != PDL_BF16 && a->dtype != PDL_F32))
            return false;
    }
    return c->in[0].dtype == PDL_BF16 && c->part == 0 &&
           (c->pass != PDL_BACKWARD_WEIGHTS || c->in[1].dtype == PDL_BF16);
}

/* ---- linear: making --------------------------------------------------- */

/* The part's operands meet each other's ranges; else the reference knows. */
static bool linear_fits(const struct train_call *c, const struct train_array *x,
                        const struct train_array *y,
                        const struct train_array *w)
{
    bool ok = same_range(w, 0, y, last(y)) && same_range(w, 1, x, last(x));

    if (c->pass == PDL_FORWARD && c->nin > 2)
        ok = ok && same_range(&c->in[2], 0, y, last(y));
    if (c->pass == PDL_BACKWARD_WEIGHTS && c->nout > 1)
        ok = ok && same_range(&c->out[1], 0, y, last(y));
    return ok && extent(w, 0) > 0 && extent(w, 1) > 0;
}

static enum pdl_status make_linear(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    const struct train_array *x = &c->in[0], *y = &c->out[0], *w = &c->in[1];
    struct gemm_kernel *k;

    if ((!train_cpu_plain(c) && !is_bf16(c)) || x->channels_last ||
        y->channels_last)
        return PDL_OK;
    if (c->pass == PDL_BACKWARD_DATA) {
        x = &c->out[0];
        y = &c->in[0];
    } else if (c->pass == PDL_BACKWARD_WEIGHTS) {
        y = &c->in[1];
        w = &c->out[0];
    }
    if (c->part == 1 ? !same_range(w, 0, y, last(y)) : !linear_fits(c, x, y, w))
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->f = extent(y, last(y));
    k->c = extent(x, last(x));
    k->rows = k->f > 0 ? train_array_elements(y) / k->f : 0;
    if (is_bf16(c))
        return make_bf16(s, k, out, err);
    k->base.implementation = c->part == 1 ? "own" : "sgemm";
    k->base.run = c->part == 1                   ? run_bias
                  : c->pass == PDL_FORWARD       ? run_forward
                  : c->pass == PDL_BACKWARD_DATA ? run_data
                                                 : run_weights;
    *out = &k->base;
    return PDL_OK;
}

/* ---- matmul ----------------------------------------------------------- */

/* One product after another; all leading dimensions equal. */
static enum pdl_status
run_matmul(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    const float *a = in[k->op.x], *b = in[k->op.x + 1], *dy = in[0];
    const struct train_array *at = &c->in[k->op.x], *bt = &c->in[k->op.x + 1];
    int64_t m = extent(at, last(at) - 1), kk = extent(at, last(at));
    int64_t n = extent(bt, last(bt));
    int64_t batches = m * kk > 0 ? train_array_elements(at) / (m * kk) : 0;
    int o = 0, da = -1, db = -1;
    enum pdl_status st = PDL_OK;

    (void)scratch;
    (void)when;
    if (!forward && train_wants_grad(c->model, c->node->in[0]))
        da = o++;
    if (!forward && train_wants_grad(c->model, c->node->in[1]))
        db = o++;
    for (int64_t i = 0; i < batches && st == PDL_OK; i++) {
        struct cpu_gemm y = {false, false, false, m, n, kk, kk, n, n, 1};
        struct cpu_gemm ga = {false, true, false, m, kk, n, n, n, kk, 1};
        struct cpu_gemm gb = {true, false, false, kk, n, m, kk, n, n, 1};

        if (forward)
            st = train_dnnl_gemm(&y, a + i * m * kk, b + i * kk * n,
                                 (float *)out[0] + i * m * n, err);
        if (da >= 0)
            st = train_dnnl_gemm(&ga, dy + i * m * n, b + i * kk * n,
                                 (float *)out[da] + i * m * kk, err);
        if (db >= 0 && st == PDL_OK)
            st = train_dnnl_gemm(&gb, a + i * m * kk, dy + i * m * n,
                                 (float *)out[db] + i * kk * n, err);
    }
    return st;
}

static enum pdl_status make_matmul(struct cpu_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    struct train_operands o;
    const struct train_array *a, *b;
    struct gemm_kernel *k;

    train_operands(c, &o);
    a = &c->in[o.x];
    b = &c->in[o.x + 1];
    if (!train_cpu_plain(c) || a->box.ndims != b->box.ndims)
        return PDL_OK;
    for (int i = 0; i < c->nin + c->nout; i++)
        if ((i < c->nin ? &c->in[i] : &c->out[i - c->nin])->channels_last)
            return PDL_OK;
    for (int d = 0; d < last(a) - 1; d++)
        if (!same_range(a, d, b, d))
            return PDL_OK;
    if (!same_range(a, last(a), b, last(b) - 1))
        return PDL_OK;
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->base.implementation = "sgemm";
    k->base.run = run_matmul;
    *out = &k->base;
    return PDL_OK;
}

/* ---- tables ----------------------------------------------------------- */

static void table_row(const struct gemm_kernel *k, const struct train_array *wt,
                      int64_t row, float *w, float *y, int64_t n, int64_t col)
{
    float *p;

    if (row < wt->box.lo[0] || row >= wt->box.hi[0]) {
        if (k->call.pass == PDL_FORWARD)
            memset(y, 0, (size_t)n * sizeof *y);
        return;
    }
    p = w + (row - wt->box.lo[0]) * extent(wt, 1) + col - wt->box.lo[1];
    if (k->call.pass == PDL_FORWARD)
        memcpy(y, p, (size_t)n * sizeof *y);
    else
        train_simd_add(p, y, p, n);
}

static int64_t row_of(const struct train_call *c, const struct train_array *yt,
                      const void *ids, int64_t m)
{
    int64_t per = extent(yt, 1) ? extent(yt, 1) : 1;

    return pdl_op_id(c->node->op) == PDL_ID_EMBEDDING
               ? ((const int32_t *)ids)[m]
               : train_position(c, yt->box.lo[1] + m % per);
}

static enum pdl_status run_table(const struct train_kernel *base,
                                 void *const *in, void *const *out,
                                 void *scratch, const struct train_moment *when,
                                 struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *yt = forward ? &c->out[0] : &c->in[k->op.dy];
    const struct train_array *wt = forward ? &c->in[k->op.w] : &c->out[0];
    float *y = forward ? out[0] : in[k->op.dy];
    float *w = forward ? in[k->op.w] : out[0];
    int64_t n = extent(yt, last(yt));
    int64_t rows = n > 0 ? train_array_elements(yt) / n : 0;

    (void)scratch;
    (void)when;
    (void)err;
    if (!forward)
        memset(w, 0, (size_t)train_array_bytes(wt));
    for (int64_t m = 0; m < rows; m++)
        table_row(k, wt, row_of(c, yt, in[0], m), w, y + m * n, n,
                  yt->box.lo[last(yt)]);
    return PDL_OK;
}

/* The same in bfloat16, where the rows that are read are copied, and gradients
 * are added up in float32, row by row, each row's in the order of tokens. */
struct row_lists {
    int32_t *first, *next; /* by row, by token; -1: no more */
    float *sum, *one;
};

static struct row_lists lists_in(void *scratch, int64_t table, int64_t tokens)
{
    struct row_lists l = {.first = scratch};

    l.next = l.first + table;
    l.sum = (float *)(void *)(l.next + tokens);
    return l;
}

static int64_t lists_bytes(const struct train_array *wt,
                           const struct train_array *yt)
{
    int64_t n = extent(yt, last(yt));
    int64_t tokens = n > 0 ? train_array_elements(yt) / n : 0;

    return 4 * (extent(wt, 0) + tokens + 2 * n);
}

static void add_rows(const struct row_lists *l, int64_t row, const uint16_t *dy,
                     uint16_t *dw, int64_t n)
{
    if (l->first[row] < 0)
        return;
    memset(l->sum, 0, (size_t)n * sizeof *l->sum);
    for (int32_t m = l->first[row]; m >= 0; m = l->next[m]) {
        train_simd_from_bf16(dy + m * n, l->one, n);
        train_simd_add(l->sum, l->one, l->sum, n);
    }
    train_simd_to_bf16(l->sum, dw, n);
}

static enum pdl_status
run_narrow(const struct train_kernel *base, void *const *in, void *const *out,
           void *scratch, const struct train_moment *when, struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    const struct train_call *c = &k->call;
    bool forward = c->pass == PDL_FORWARD;
    const struct train_array *yt = forward ? &c->out[0] : &c->in[k->op.dy];
    const struct train_array *wt = forward ? &c->in[k->op.w] : &c->out[0];
    uint16_t *y = forward ? out[0] : in[k->op.dy];
    uint16_t *w = forward ? in[k->op.w] : out[0];
    int64_t n = extent(yt, last(yt)), table = extent(wt, 0);
    int64_t tokens = n > 0 ? train_array_elements(yt) / n : 0;
    int64_t width = extent(wt, 1), col = yt->box.lo[last(yt)] - wt->box.lo[1];
    struct row_lists l = {.first = NULL}; /* forward has no scratch */

    (void)when;
    (void)err;
    if (!forward) {
        l = lists_in(scratch, table, tokens);
        memset(w, 0, (size_t)train_array_bytes(wt));
        memset(l.first, -1, (size_t)table * sizeof *l.first);
        l.one = l.sum + n;
    }
    for (int64_t i = 0; i < tokens; i++) {
        int64_t m = forward ? i : tokens - 1 - i;
        int64_t row = row_of(c, yt, in[0], m) - wt->box.lo[0];
        bool here = row >= 0 && row < table;

        if (!forward && here) {
            l.next[m] = l.first[row];
            l.first[row] = (int32_t)m;
        } else if (here) {
            memcpy(y + m * n, w + row * width + col, (size_t)n * sizeof *y);
        } else if (forward) {
            memset(y + m * n, 0, (size_t)n * sizeof *y);
        }
    }
    for (int64_t row = 0; !forward && row < table; row++)
        add_rows(&l, row, y, w + row * width + col, n);
    return PDL_OK;
}

/* Nothing flows back through a number of a row. */
static enum pdl_status run_zero(const struct train_kernel *base,
                                void *const *in, void *const *out,
                                void *scratch, const struct train_moment *when,
                                struct pdl_err *err)
{
    const struct gemm_kernel *k = (const struct gemm_kernel *)base;
    int64_t n = train_array_bytes(&k->call.out[0]);

    (void)in;
    (void)scratch;
    (void)when;
    (void)err;
    if (n > 0)
        memset(out[0], 0, (size_t)n);
    return PDL_OK;
}

static enum pdl_status make_zero(struct cpu_state *s,
                                 const struct train_call *c,
                                 struct train_kernel **out, struct pdl_err *err)
{
    struct gemm_kernel *k = c->nout == 1 ? new_kernel(s, c) : NULL;

    if (!k)
        return c->nout == 1 ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                            : PDL_OK;
    k->base.run = run_zero;
    *out = &k->base;
    return PDL_OK;
}

static enum pdl_status make_table(struct cpu_state *s,
                                  const struct train_call *c,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    bool tokens = pdl_op_id(c->node->op) == PDL_ID_EMBEDDING;
    enum pdl_dtype type = c->out[0].dtype == PDL_BF16 ? PDL_BF16 : PDL_F32;
    struct gemm_kernel *k;

    if (c->pass == PDL_BACKWARD_DATA)
        return make_zero(s, c, out, err);
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        bool ids = i == 0 && tokens;

        if (a->layout || a->channels_last ||
            (i == 0 && !tokens ? 0 : a->dtype != (ids ? PDL_I32 : type)))
            return PDL_OK;
    }
    k = new_kernel(s, c);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->base.run = type == PDL_BF16 ? run_narrow : run_table;
    if (type == PDL_BF16 && c->pass == PDL_BACKWARD_WEIGHTS)
        k->base.scratch_bytes = lists_bytes(&c->out[0], &c->in[k->op.dy]);
    *out = &k->base;
    return PDL_OK;
}

static const struct cpu_op rows[] = {
    {"linear", make_linear},
    {"matmul", make_matmul},
    {"embedding", make_table},
    {"position_embedding", make_table},
};

const struct cpu_ops train_cpu_gemm = {rows, sizeof rows / sizeof rows[0]};
