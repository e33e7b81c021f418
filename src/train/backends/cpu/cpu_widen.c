/* SPDX-License-Identifier: Apache-2.0
 *
 * bfloat16 for operators that have no kernel of their own for it: operands
 * are widened to float32 in scratch memory, the float32 kernel runs, results
 * are narrowed. Convolutions, matrix products and element-wise operators,
 * where the time goes, do not come here. */
#include "train/backends/cpu/cpu.h"
#include "train/backends/cpu/simd.h"

enum { MOST = 80 };

struct widened_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_kernel *inner;
    int64_t inner_offset, offset[MOST]; /* in scratch; -1: as it is */
    bool write_back[MOST];              /* an input that the kernel changes */
};

static const struct train_array *operand(const struct train_call *c, int i)
{
    return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

struct pair {
    uint16_t *narrow;
    float *wide;
};

static void from_bf16(const void *ctx, int64_t from, int64_t to)
{
    const struct pair *p = ctx;

    train_simd_from_bf16(p->narrow + from, p->wide + from, to - from);
}

static void to_bf16(const void *ctx, int64_t from, int64_t to)
{
    const struct pair *p = ctx;

    train_simd_to_bf16(p->wide + from, p->narrow + from, to - from);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct widened_kernel *k = (const struct widened_kernel *)base;
    const struct train_call *c = &k->call;
    void *wide[MOST];
    enum pdl_status st;

    for (int i = 0; i < c->nin + c->nout; i++) {
        void *mine = i < c->nin ? in[i] : out[i - c->nin];

        wide[i] = k->offset[i] < 0 ? mine : (char *)scratch + k->offset[i];
        if (i < c->nin && k->offset[i] >= 0)
            train_cpu_parallel(train_array_elements(operand(c, i)), CPU_GRAIN,
                               from_bf16, &(struct pair){mine, wide[i]});
    }
    st = k->inner->run(k->inner, wide, wide + c->nin,
                       (char *)scratch + k->inner_offset, when, err);
    for (int i = 0; i < c->nin + c->nout; i++)
        if (k->offset[i] >= 0 && (i >= c->nin || k->write_back[i]))
            train_cpu_parallel(
                train_array_elements(operand(c, i)), CPU_GRAIN, to_bf16,
                &(struct pair){i < c->nin ? in[i] : out[i - c->nin], wide[i]});
    return st;
}

/* Running statistics are inputs that change. */
static bool is_changed(const struct train_call *c, int i)
{
    struct train_operands o;

    train_operands(c, &o);
    return c->node && c->pass == PDL_FORWARD &&
           pdl_op_id(c->node->op) == PDL_ID_BATCH_NORM && o.nw > 0 &&
           i >= o.w && i < o.w + o.nw;
}

static int64_t place(struct widened_kernel *k)
{
    const struct train_call *c = &k->call;
    int64_t at = 0;

    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a = operand(c, i);

        k->offset[i] = -1;
        if (a->dtype != PDL_BF16)
            continue;
        k->offset[i] = at;
        k->write_back[i] = i < c->nin && is_changed(c, i);
        at += (train_array_elements(a) * 4 + 63) / 64 * 64;
    }
    return at;
}

enum pdl_status train_cpu_widen(struct cpu_state *s, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct train_array *wide;
    struct train_call kept, inner;
    struct widened_kernel *k;
    enum pdl_status st;

    if (c->nin + c->nout > MOST)
        return pdl_fail(err, PDL_EINVAL, "too many operands");
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    wide = PDL_NEW(s->arena, struct train_array, c->nin + c->nout + 1);
    if (!k || !wide)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    for (int i = 0; i < c->nin + c->nout; i++) {
        wide[i] = *operand(c, i);
        if (wide[i].dtype == PDL_BF16)
            wide[i].dtype = PDL_F32;
    }
    inner = *c;
    inner.in = wide;
    inner.out = wide + c->nin;
    st = train_cpu.make(s, &inner, &k->inner, err);
    if (st != PDL_OK)
        return st;
    k->inner_offset = place(k);
    k->base.scratch_bytes = k->inner_offset + k->inner->scratch_bytes;
    k->base.implementation = k->inner->implementation;
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}
