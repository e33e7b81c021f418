/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on rows of features (products, layer norm) whose operands happen
 * to be stored channels last, as every tensor of rank 3 is: operands are put
 * into logical order in scratch memory, the kernel runs, results are put back.
 * A pass over memory each, where the reference would take hundreds. */
#include "train/backends/cpu/cpu.h"

enum { MOST = 80 };

struct reordered_kernel {
    struct train_kernel base;
    struct train_call call, inner_call;
    struct train_kernel *inner;
    int64_t inner_offset, offset[MOST]; /* in scratch; -1: as it is */
};

static const struct train_array *operand(const struct train_call *c, int i)
{
    return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct reordered_kernel *k = (const struct reordered_kernel *)base;
    const struct train_call *c = &k->call, *n = &k->inner_call;
    void *flat[MOST];
    enum pdl_status st;

    for (int i = 0; i < c->nin + c->nout; i++) {
        void *mine = i < c->nin ? in[i] : out[i - c->nin];

        flat[i] = k->offset[i] < 0 ? mine : (char *)scratch + k->offset[i];
        if (i < c->nin && k->offset[i] >= 0)
            train_cpu_copy_common(operand(c, i), mine, operand(n, i), flat[i]);
    }
    st = k->inner->run(k->inner, flat, flat + c->nin,
                       (char *)scratch + k->inner_offset, when, err);
    for (int i = c->nin; i < c->nin + c->nout; i++)
        if (k->offset[i] >= 0)
            train_cpu_copy_common(operand(n, i), flat[i], operand(c, i),
                                  out[i - c->nin]);
    return st;
}

/* The call with all operands in logical order; false: they were. */
static bool put_in_order(struct cpu_state *s, struct reordered_kernel *k,
                         int64_t *scratch)
{
    const struct train_call *c = &k->call;
    struct train_array *flat =
        PDL_NEW(s->arena, struct train_array, c->nin + c->nout + 1);
    bool any = false;

    *scratch = 0;
    for (int i = 0; flat && i < c->nin + c->nout; i++) {
        flat[i] = *operand(c, i);
        k->offset[i] = -1;
        if (!flat[i].channels_last || flat[i].layout ||
            pdl_box_empty(&flat[i].box))
            continue;
        flat[i].channels_last = false;
        k->offset[i] = *scratch;
        *scratch += (train_array_bytes(&flat[i]) + 63) / 64 * 64;
        any = true;
    }
    k->inner_call = *c;
    k->inner_call.in = flat;
    k->inner_call.out = flat ? flat + c->nin : NULL;
    return any;
}

enum pdl_status train_cpu_reorder(struct cpu_state *s,
                                  const struct train_call *c, cpu_make_fn *make,
                                  struct train_kernel **out,
                                  struct pdl_err *err)
{
    struct reordered_kernel *k;
    struct train_call kept;
    enum pdl_status st;

    if (c->nin + c->nout > MOST)
        return PDL_OK;
    k = train_cpu_kernel(s, c, sizeof *k, &kept);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    k->call = kept;
    if (!put_in_order(s, k, &k->inner_offset))
        return PDL_OK;
    st = make(s, &k->inner_call, &k->inner, err);
    if (st != PDL_OK || !k->inner)
        return st;
    k->base.scratch_bytes = k->inner_offset + k->inner->scratch_bytes;
    k->base.implementation = k->inner->implementation;
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}
