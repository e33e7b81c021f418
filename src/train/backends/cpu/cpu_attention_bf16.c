/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention in bfloat16: products of bfloat16 summed in float32, softmax in
 * float32, weights rounded to bfloat16 before they meet the values. Each block
 * of queries has its own plans of products, made once: their sizes differ by
 * how many keys the block sees. Gradients of keys and values are summed over
 * blocks, and over the heads that share them, in float32. */
#include "train/backends/cpu/cpu_attention.h"
#include "train/backends/cpu/simd.h"

#include <math.h>
#include <string.h>

enum product { SCORES, RESULT, DP, DQ, DK, DV, NPRODUCTS };

struct block_plans {
    struct attention_block at;
    struct cpu_matmul_plan *plan[NPRODUCTS];
};

struct bf16_kernel {
    struct train_kernel base;
    struct attention_kernel a;
    struct block_plans *blocks;
    int nblocks;
    int64_t scratch; /* bytes of a product's own */
};

/* Work space, in the order it lies. */
struct space {
    float *p, *dp, *part, *dk, *dv;
    uint16_t *p16, *ds16;
    void *rest;
};

static int64_t widest(const struct attention_kernel *a)
{
    return a->d > a->dv ? a->d : a->dv;
}

static int64_t keys(const struct attention_kernel *a)
{
    return a->s1 - a->s0;
}

static struct space space_of(const struct attention_kernel *a, void *scratch)
{
    int64_t block = ATTENTION_BLOCK * keys(a);
    struct space s = {.p = scratch};

    s.dp = s.p + block;
    s.part = s.dp + block;
    s.dk = s.part + keys(a) * widest(a);
    s.dv = s.dk + keys(a) * a->d;
    s.p16 = (void *)(s.dv + keys(a) * a->dv);
    s.ds16 = s.p16 + block;
    s.rest = (void *)(((uintptr_t)(s.ds16 + block) + 63) / 64 * 64);
    return s;
}

static int64_t space_bytes(const struct attention_kernel *a)
{
    int64_t block = ATTENTION_BLOCK * keys(a);
    int64_t wide = 2 * block + keys(a) * (widest(a) + a->d + a->dv);

    return 4 * wide + 4 * block + 64;
}

/* One head of one sample; NULL: not there. */
struct head {
    uint16_t *q, *k, *v, *y, *dy, *dq;
    float *lse;
    int64_t number;
};

static uint16_t *at(void *base, int64_t n, int64_t rows, int64_t ld,
                    int64_t col)
{
    return base ? (uint16_t *)base + n * rows * ld + col : NULL;
}

static struct head head_of(const struct bf16_kernel *b, int64_t n, int64_t h,
                           void *const *in, void *const *out)
{
    const struct attention_kernel *k = &b->a;
    bool forward = k->call.pass == PDL_FORWARD;
    int64_t kv = h / (k->heads / k->kv), t = k->t1 - k->t0, s = keys(k);
    int64_t q = h * k->d - k->q0, y = h * k->dv - k->y0;
    float *lse = forward ? (k->op.aux_out >= 0 ? out[k->op.aux_out] : NULL)
                         : (k->op.aux >= 0 ? in[k->op.aux] : NULL);
    int x = k->op.x;

    return (struct head){
        .number = h,
        .q = at(in[x], n, t, k->ldq, q),
        .k = at(in[x + 1], n, s, k->ldk, kv * k->d - k->k0),
        .v = at(in[x + 2], n, s, k->ldv, kv * k->dv - k->v0),
        .y = at(forward ? out[0] : in[k->op.y], n, t, k->ldy, y),
        .dy = forward ? NULL : at(in[0], n, t, k->ldy, y),
        .dq = forward || k->grad[0] < 0 ? NULL
                                        : at(out[k->grad[0]], n, t, k->ldq, q),
        .lse = lse ? lse + (n * (k->h1 - k->h0) + h - k->h0) * t : NULL,
    };
}

/* ---- forward ---------------------------------------------------------- */

static void softmax_rows(const struct attention_kernel *k, const struct head *h,
                         const struct attention_block *x, const struct space *s)
{
    int64_t n = x->hi - x->lo;

    for (int64_t t = x->a; t < x->b; t++) {
        float *row = s->p + (t - x->a) * n, lse = -INFINITY;
        int64_t first, end;

        train_attention_visible(k, x, t, &first, &end);
        train_simd_fill(row, 0, first);
        train_simd_fill(row + end, 0, n - end);
        train_simd_scale(row + first, k->scale, end - first);
        train_attention_distance(k, h->number, t, x->lo + first, row + first,
                                 end - first);
        if (end > first)
            lse = train_simd_softmax(row + first, end - first);
        if (h->lse)
            h->lse[t - k->t0] = lse;
    }
    train_simd_to_bf16(s->p, s->p16, (x->b - x->a) * n);
}

static enum pdl_status forward_block(const struct bf16_kernel *b,
                                     const struct head *h,
                                     const struct block_plans *x,
                                     const struct space *s, struct pdl_err *err)
{
    const struct attention_kernel *k = &b->a;
    int64_t q = (x->at.a - k->t0), u = x->at.lo - k->s0;
    enum pdl_status st =
        train_dnnl_matmul_run(x->plan[SCORES], h->q + q * k->ldq,
                              h->k + u * k->ldk, NULL, s->p, s->rest, err);

    if (st != PDL_OK)
        return st;
    softmax_rows(k, h, &x->at, s);
    return train_dnnl_matmul_run(x->plan[RESULT], s->p16, h->v + u * k->ldv,
                                 NULL, h->y + q * k->ldy, s->rest, err);
}

/* ---- backward --------------------------------------------------------- */

/* The sum of dy * y over a head's features. */
static float pull(const uint16_t *dy, const uint16_t *y, int64_t n)
{
    enum { PIECE = 64 };
    float a[PIECE], b[PIECE], sum = 0;

    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = n - i < PIECE ? n - i : PIECE;

        train_simd_from_bf16(dy + i, a, m);
        train_simd_from_bf16(y + i, b, m);
        sum += train_simd_dot(a, b, m);
    }
    return sum;
}

static void back_rows(const struct attention_kernel *k, const struct head *h,
                      const struct attention_block *x, const struct space *s)
{
    int64_t n = x->hi - x->lo;

    for (int64_t t = x->a; t < x->b; t++) {
        float *row = s->p + (t - x->a) * n, *drow = s->dp + (t - x->a) * n;
        int64_t o = (t - k->t0) * k->ldy, first, end;

        train_attention_visible(k, x, t, &first, &end);
        train_simd_fill(row, 0, first);
        train_simd_fill(row + end, 0, n - end);
        train_simd_scale(row + first, k->scale, end - first);
        train_attention_distance(k, h->number, t, x->lo + first, row + first,
                                 end - first);
        if (h->lse)
            train_simd_exp_minus(row + first, h->lse[t - k->t0], end - first);
        else if (end > first)
            train_simd_softmax(row + first, end - first);
        train_simd_softmax_back(row, drow, pull(h->dy + o, h->y + o, k->dv),
                                k->scale, n);
    }
    train_simd_to_bf16(s->p, s->p16, (x->b - x->a) * n);
    train_simd_to_bf16(s->dp, s->ds16, (x->b - x->a) * n);
}

/* A product into float32, added to what the blocks before gave. */
static enum pdl_status add_product(const struct block_plans *x,
                                   enum product which, const struct space *s,
                                   uint16_t *a, uint16_t *b, float *sum,
                                   int64_t width, struct pdl_err *err)
{
    enum pdl_status st = train_dnnl_matmul_run(x->plan[which], a, b, NULL,
                                               s->part, s->rest, err);

    if (st == PDL_OK)
        train_simd_add(sum, s->part, sum, (x->at.hi - x->at.lo) * width);
    return st;
}

static enum pdl_status backward_block(const struct bf16_kernel *b,
                                      const struct head *h,
                                      const struct block_plans *x,
                                      const struct space *s,
                                      struct pdl_err *err)
{
    const struct attention_kernel *k = &b->a;
    int64_t q = x->at.a - k->t0, u = x->at.lo - k->s0;
    uint16_t *dy = h->dy + q * k->ldy, *hq = h->q + q * k->ldq;
    enum pdl_status st = train_dnnl_matmul_run(
        x->plan[SCORES], hq, h->k + u * k->ldk, NULL, s->p, s->rest, err);

    if (st == PDL_OK)
        st = train_dnnl_matmul_run(x->plan[DP], dy, h->v + u * k->ldv, NULL,
                                   s->dp, s->rest, err);
    if (st != PDL_OK)
        return st;
    back_rows(k, h, &x->at, s);
    st = add_product(x, DV, s, s->p16, dy, s->dv + u * k->dv, k->dv, err);
    if (st == PDL_OK)
        st = add_product(x, DK, s, s->ds16, hq, s->dk + u * k->d, k->d, err);
    if (st == PDL_OK && h->dq)
        st = train_dnnl_matmul_run(x->plan[DQ], s->ds16, h->k + u * k->ldk,
                                   NULL, h->dq + q * k->ldq, s->rest, err);
    return st;
}

/* Rows of float32 into columns of a bfloat16 array. */
static void store(const float *x, int64_t rows, int64_t width, uint16_t *to,
                  int64_t ld)
{
    for (int64_t r = 0; to && r < rows; r++)
        train_simd_to_bf16(x + r * width, to + r * ld, width);
}

/* Heads that share a key come one after another. */
static void begin_group(const struct attention_kernel *k, int64_t h,
                        const struct space *s)
{
    if (h != k->h0 && h % (k->heads / k->kv) != 0)
        return;
    train_simd_fill(s->dk, 0, keys(k) * k->d);
    train_simd_fill(s->dv, 0, keys(k) * k->dv);
}

static void end_group(const struct attention_kernel *k, int64_t n, int64_t h,
                      const struct space *s, void *const *out)
{
    int64_t share = k->heads / k->kv, kv = h / share;

    if (h + 1 != k->h1 && (h + 1) % share != 0)
        return;
    store(s->dk, keys(k), k->d,
          at(k->grad[1] < 0 ? NULL : out[k->grad[1]], n, keys(k), k->ldk,
             kv * k->d - k->k0),
          k->ldk);
    store(s->dv, keys(k), k->dv,
          at(k->grad[2] < 0 ? NULL : out[k->grad[2]], n, keys(k), k->ldv,
             kv * k->dv - k->v0),
          k->ldv);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct bf16_kernel *b = (const struct bf16_kernel *)base;
    const struct attention_kernel *k = &b->a;
    bool forward = k->call.pass == PDL_FORWARD;
    struct space s = space_of(k, scratch);
    enum pdl_status st = PDL_OK;

    (void)when;
    for (int i = 0; i < k->call.nout && !forward; i++)
        if (train_array_bytes(&k->call.out[i]) > 0)
            memset(out[i], 0, (size_t)train_array_bytes(&k->call.out[i]));
    for (int64_t n = 0; n < k->n; n++)
        for (int64_t h = k->h0; h < k->h1 && st == PDL_OK; h++) {
            struct head x = head_of(b, n, h, in, out);

            if (!forward)
                begin_group(k, h, &s);
            for (int i = 0; i < b->nblocks && st == PDL_OK; i++)
                st = forward ? forward_block(b, &x, &b->blocks[i], &s, err)
                             : backward_block(b, &x, &b->blocks[i], &s, err);
            if (!forward)
                end_group(k, n, h, &s, out);
        }
    return st;
}

/* ---- making ----------------------------------------------------------- */

static struct cpu_matmul product(const struct attention_kernel *k,
                                 const struct attention_block *x,
                                 enum product which)
{
    int64_t m = x->b - x->a, n = x->hi - x->lo;
    const struct cpu_matmul all[NPRODUCTS] = {
        [SCORES] = {false, true, false, m, n, k->d, k->ldq, k->ldk, 0, PDL_BF16,
                    PDL_BF16, PDL_F32, PDL_F32},
        [RESULT] = {false, false, false, m, k->dv, n, 0, k->ldv, k->ldy,
                    PDL_BF16, PDL_BF16, PDL_BF16, PDL_F32},
        [DP] = {false, true, false, m, n, k->dv, k->ldy, k->ldv, 0, PDL_BF16,
                PDL_BF16, PDL_F32, PDL_F32},
        [DQ] = {false, false, false, m, k->d, n, 0, k->ldk, k->ldq, PDL_BF16,
                PDL_BF16, PDL_BF16, PDL_F32},
        [DK] = {true, false, false, n, k->d, m, 0, k->ldq, 0, PDL_BF16,
                PDL_BF16, PDL_F32, PDL_F32},
        [DV] = {true, false, false, n, k->dv, m, 0, k->ldy, 0, PDL_BF16,
                PDL_BF16, PDL_F32, PDL_F32},
    };

    return all[which];
}

/* False in *all: oneDNN has only a reference for one of the products. */
static enum pdl_status make_block(struct cpu_state *s, struct bf16_kernel *b,
                                  struct block_plans *x, bool *all,
                                  struct pdl_err *err)
{
    bool forward = b->a.call.pass == PDL_FORWARD;
    enum pdl_status st = PDL_OK;

    for (int w = 0; w < NPRODUCTS && st == PDL_OK && *all; w++) {
        struct cpu_matmul m = product(&b->a, &x->at, (enum product)w);
        int64_t bytes;

        if (forward ? w > RESULT : w == RESULT)
            continue;
        if (m.m == 0 || m.n == 0 || m.k == 0) {
            *all = false;
            continue;
        }
        st = train_dnnl_matmul(s->dnnl, &m, &x->plan[w], err);
        *all = st == PDL_OK && x->plan[w];
        bytes = *all ? train_dnnl_matmul_scratch(x->plan[w]) : 0;
        b->scratch = bytes > b->scratch ? bytes : b->scratch;
    }
    return st;
}

enum pdl_status train_attention_bf16(struct cpu_state *s,
                                     const struct attention_kernel *k,
                                     struct train_kernel **out,
                                     struct pdl_err *err)
{
    int64_t n = (k->t1 - k->t0 + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    struct bf16_kernel *b = PDL_NEW(s->arena, struct bf16_kernel, 1);
    enum pdl_status st = PDL_OK;
    bool all = true;

    if (b)
        b->blocks = PDL_NEW(s->arena, struct block_plans, n + 1);
    if (!b || !b->blocks)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    b->a = *k;
    b->nblocks = (int)n;
    for (int i = 0; i < b->nblocks && st == PDL_OK && all; i++) {
        b->blocks[i].at =
            train_attention_block(k, k->t0 + (int64_t)i * ATTENTION_BLOCK);
        st = make_block(s, b, &b->blocks[i], &all, err);
    }
    if (st != PDL_OK || !all)
        return st;
    b->base.scratch_bytes = space_bytes(k) + b->scratch;
    b->base.implementation = train_dnnl_matmul_name(b->blocks[0].plan[SCORES]);
    b->base.run = run;
    *out = &b->base;
    return PDL_OK;
}
