/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention where all positions are at hand in the order of their places
 * (keys that were gathered; whole sequences of layers that no context axis
 * cuts). Kernels want positions that ascend: such operands are put in order in
 * scratch memory, and results back to their places. What forward leaves for
 * backward (sums of exponentials) stays in the kernel's order. A ring needs
 * none of this: the positions of a rank ascend. */
#include "train/train_priv.h"

#include <string.h>

enum { OPERANDS = 16 };

struct in_order {
    struct train_kernel base;
    pdl_trainer *t;
    struct train_kernel *inner;
    const struct pdl_deal *deal;
    int nin, nout;
    int64_t inner_at;               /* its scratch memory */
    int64_t at[OPERANDS];           /* in scratch; -1: as it is */
    int64_t samples, row[OPERANDS]; /* bytes of a position */
};

struct dealt {
    struct pdl_deal deal;
    int64_t samples, row;
    bool back;
};

static void run_deal(const void *args, void *const *spans)
{
    const struct dealt *k = args;
    int64_t n = k->deal.positions, row = k->row;

    for (int64_t s = 0; s < k->samples; s++)
        for (int64_t at = 0, run; at < n; at += run) {
            int64_t p = pdl_deal_position(&k->deal, at);
            char *here = (char *)spans[0] + (s * n + at) * row;
            char *there = (char *)spans[1] + (s * n + p) * row;

            run = pdl_deal_run(&k->deal, at, n);
            memcpy(k->back ? here : there, k->back ? there : here,
                   (size_t)(run * row));
        }
}

static const struct train_work deal_work = {"deal", run_deal};

/* Between places and positions, of every sample. */
static void deal(const struct in_order *k, int i, void *by_place,
                 void *by_position, bool back)
{
    struct dealt a = {*k->deal, k->samples, k->row[i], back};
    int64_t bytes = k->samples * k->deal->positions * k->row[i];
    struct train_task task = {.work = &deal_work,
                              .args = &a,
                              .args_bytes = sizeof a,
                              .n = 2,
                              .span = {{by_place, bytes, !back, back},
                                       {by_position, bytes, back, !back}}};

    train_launch(k->t, &task);
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct in_order *k = (const struct in_order *)base;
    void *x[OPERANDS];
    enum pdl_status st;

    for (int i = 0; i < k->nin + k->nout; i++) {
        void *mine = i < k->nin ? in[i] : out[i - k->nin];

        x[i] = k->at[i] < 0 ? mine : (char *)scratch + k->at[i];
        if (i < k->nin && k->at[i] >= 0)
            deal(k, i, mine, x[i], false);
    }
    st = k->inner->run(k->inner, x, x + k->nin, (char *)scratch + k->inner_at,
                       when, err);
    for (int i = k->nin; i < k->nin + k->nout && st == PDL_OK; i++)
        if (k->at[i] >= 0)
            deal(k, i, out[i - k->nin], x[i], true);
    return st;
}

/* Does the operand have all positions, out of their order? */
static bool is_mixed(const struct pdl_deal *d, const struct train_array *a)
{
    return a->box.ndims == 3 && a->box.lo[1] == 0 &&
           a->box.hi[1] == d->positions &&
           !pdl_deal_ascends(d, 0, d->positions);
}

static void place(struct in_order *k, const struct train_call *c, int aux,
                  int aux_out)
{
    int64_t at = 0;

    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];

        k->at[i] = -1;
        if (i == aux || i == c->nin + aux_out || !is_mixed(c->deal, a))
            continue;
        k->samples = a->box.hi[0] - a->box.lo[0];
        k->row[i] =
            (a->box.hi[2] - a->box.lo[2]) * pdl_dtype_bits(a->dtype) / 8;
        k->at[i] = at;
        at += (train_array_bytes(a) + 63) / 64 * 64;
    }
    k->inner_at = at;
}

enum pdl_status train_in_order(pdl_trainer *t, const struct train_call *c,
                               struct train_kernel **out, struct pdl_err *err)
{
    bool attention =
        c->deal && c->node && pdl_op_id(c->node->op) == PDL_ID_ATTENTION;
    struct train_call inner = *c;
    struct train_operands o;
    struct in_order *k;
    enum pdl_status st;

    if (attention)
        train_operands(c, &o);
    if (!attention || !is_mixed(c->deal, &c->in[o.x + 1]))
        return t->backend->make(t->backend_state, c, out, err);
    if (c->nin + c->nout > OPERANDS)
        return pdl_fail(err, PDL_EWRONG, "%s: too many operands",
                        c->node->name);
    k = PDL_NEW(t->arena, struct in_order, 1);
    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    inner.keys_in_order = true;
    if (is_mixed(c->deal, &c->in[o.x]))
        inner.deal = NULL;
    st = t->backend->make(t->backend_state, &inner, &k->inner, err);
    if (st != PDL_OK)
        return st;
    *k = (struct in_order){.t = t,
                           .inner = k->inner,
                           .deal = c->deal,
                           .nin = c->nin,
                           .nout = c->nout};
    place(k, c, o.aux, o.aux_out < 0 ? -1 - c->nin : o.aux_out);
    k->base.scratch_bytes = k->inner_at + k->inner->scratch_bytes;
    k->base.implementation = k->inner->implementation;
    k->base.run = run;
    *out = &k->base;
    return PDL_OK;
}
