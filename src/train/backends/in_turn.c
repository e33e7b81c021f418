/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of calls by kernels of one call each, one after the other. What
 * passes between them stands in the group's scratch memory, before that of the
 * kernels. */
#include "train/backends/kernels.h"

#include <string.h>

enum { OPERANDS = 24, ALIGN = 64 };

struct in_turn {
    struct train_kernel base;
    struct train_group g;
    struct train_kernel **kernels;
    int64_t *at; /* of each inner slot, in scratch */
    int64_t work;
};

static void *slot_at(const struct in_turn *k, int slot, void *const *in,
                     void *const *out, char *scratch)
{
    if (slot < k->g.nin)
        return in[slot];
    if (slot < k->g.nin + k->g.nout)
        return out[slot - k->g.nin];
    return scratch + k->at[slot - k->g.nin - k->g.nout];
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct in_turn *k = (const struct in_turn *)base;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < k->g.n && st == PDL_OK; i++) {
        const struct train_call *c = &k->g.calls[i];
        void *from[OPERANDS], *to[OPERANDS];

        for (int j = 0; j < c->nin; j++)
            from[j] = slot_at(k, k->g.in[i][j], in, out, scratch);
        for (int j = 0; j < c->nout; j++)
            to[j] = slot_at(k, k->g.out[i][j], in, out, scratch);
        st = k->kernels[i]->run(k->kernels[i], from, to,
                                (char *)scratch + k->work, when, err);
    }
    return st;
}

static enum pdl_status make_each(struct in_turn *k,
                                 const struct train_backend *b, void *state,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int64_t most = 0;

    for (int i = 0; i < k->g.n && st == PDL_OK; i++) {
        st = b->make(state, &k->g.calls[i], &k->kernels[i], err);
        if (st == PDL_OK && k->kernels[i]->scratch_bytes > most)
            most = k->kernels[i]->scratch_bytes;
    }
    k->base.scratch_bytes = k->work + most;
    return st;
}

enum pdl_status train_in_turn(pdl_arena *a, const struct train_backend *b,
                              void *state, const struct train_group *g,
                              struct train_kernel **out, struct pdl_err *err)
{
    struct in_turn *k = PDL_NEW(a, struct in_turn, 1);
    enum pdl_status st;

    if (k) {
        *k = (struct in_turn){.base = {.implementation = b->name, .run = run},
                              .g = *g};
        k->kernels = PDL_NEW(a, struct train_kernel *, g->n);
        k->at = PDL_NEW(a, int64_t, g->ninner + 1);
    }
    if (!k || !k->kernels || !k->at)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a group");
    for (int i = 0; i < g->n; i++)
        if (g->calls[i].nin > OPERANDS || g->calls[i].nout > OPERANDS)
            return PDL_OK;
    for (int i = 0; i < g->ninner; i++) {
        const struct train_array *x = &g->slots[g->nin + g->nout + i];

        k->at[i] = k->work;
        k->work += (train_array_bytes(x) + ALIGN - 1) / ALIGN * ALIGN;
    }
    st = make_each(k, b, state, err);
    if (st == PDL_OK)
        *out = &k->base;
    return st;
}
