/* SPDX-License-Identifier: Apache-2.0
 *
 * Backend cpu: the table of its kernels. What it does not have in bfloat16 it
 * does in float32; what it does not have at all, or not in this form (an odd
 * window), the reference backend runs, and the implementation's name says
 * so. */
#include "train/backends/cpu/cpu.h"

#include <string.h>

static const struct cpu_op *find(const char *name)
{
    static const struct cpu_ops *const all[] = {
        &train_cpu_conv,      &train_cpu_gemm,    &train_cpu_norm,
        &train_cpu_pointwise, &train_cpu_pool,    &train_cpu_move,
        &train_cpu_attention, &train_cpu_loss,    &train_cpu_heads,
        &train_cpu_fold,      &train_cpu_experts, &train_cpu_broadcast,
        &train_cpu_softmax,   &train_cpu_group,   &train_cpu_image,
        &train_cpu_take};

    for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
        for (int i = 0; i < all[t]->n; i++)
            if (strcmp(all[t]->rows[i].name, name) == 0)
                return &all[t]->rows[i];
    return NULL;
}

bool train_cpu_plain(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        if (a->layout != 0 || a->dtype != PDL_F32)
            return false;
    }
    return true;
}

void *train_cpu_kernel(struct cpu_state *s, const struct train_call *c,
                       size_t size, struct train_call *kept)
{
    struct train_array *p =
        PDL_NEW(s->arena, struct train_array, c->nin + c->nout + 1);

    if (!p)
        return NULL;
    memcpy(p, c->in, (size_t)c->nin * sizeof *p);
    memcpy(p + c->nin, c->out, (size_t)c->nout * sizeof *p);
    *kept = *c;
    kept->in = p;
    kept->out = p + c->nin;
    return pdl_arena_alloc(s->arena, 1, size);
}

static bool has_bf16(const struct train_call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++)
        if ((i < c->nin ? &c->in[i] : &c->out[i - c->nin])->dtype == PDL_BF16)
            return true;
    return false;
}

static enum pdl_status make(void *state, const struct train_call *c,
                            struct train_kernel **out, struct pdl_err *err)
{
    struct cpu_state *s = state;
    const struct cpu_op *row = find(c->node ? c->node->op->name : "loss");
    struct train_kernel *k = NULL;
    enum pdl_status st = PDL_OK;

    if (c->groups > 1)
        return train_in_groups(s->arena, &train_cpu, s, c, out, err);
    if (row)
        st = row->make(s, c, &k, err);
    if (st == PDL_OK && !k && has_bf16(c))
        st = train_cpu_widen(s, c, &k, err);
    if (st == PDL_OK && !k && row)
        st = train_cpu_reorder(s, c, row->make, &k, err);
    if (st == PDL_OK && !k)
        st = train_ref.make(s->ref, c, &k, err);
    if (st == PDL_OK)
        *out = k;
    return st;
}

static enum pdl_status open(pdl_arena *a, void **state, struct pdl_err *err)
{
    struct cpu_state *s = PDL_NEW(a, struct cpu_state, 1);
    enum pdl_status st;

    if (!s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return pdl_fail(err, PDL_ENOENV,
                        "the backend cpu needs a processor with AVX2");
    s->arena = a;
    st = train_dnnl_open(a, &s->dnnl, err);
    if (st == PDL_OK)
        st = train_ref.open(a, &s->ref, err);
    if (st == PDL_OK)
        *state = s;
    return st;
}

static void close(void *state)
{
    struct cpu_state *s = state;

    train_dnnl_close(s->dnnl);
}

/* Statistics and positions are the same for bfloat16: asked as if float32. */
static enum train_aux aux(const struct train_call *c, struct train_array *a)
{
    enum train_aux kind;

    if (!c->node || c->pass != PDL_FORWARD || c->nout < 1)
        return TRAIN_AUX_NONE;
    if (train_cpu_norm_aux(c, a) || train_cpu_attention_aux(c, a))
        return TRAIN_AUX_LOCAL;
    kind = train_ref.aux(c, a);
    if (kind == TRAIN_AUX_LIKE_Y && pdl_op_id(c->node->op) == PDL_ID_MAX_POOL)
        a->dtype = train_places_type(c);
    return kind;
}

const struct train_backend train_cpu = {
    .name = "cpu",
    .summary = "oneDNN's convolutions and matrix products, own kernels beside",
    .open = open,
    .close = close,
    .make = make,
    .aux = aux,
};
