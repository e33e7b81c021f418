/* SPDX-License-Identifier: Apache-2.0
 *
 * The same traffic several times in a row, as a program calls a collective in
 * a loop: a rank begins again as soon as all its own operations are complete,
 * without a barrier.
 *
 * "All its own operations" needs no list of them: with a window of w nothing
 * is looked at before the operations up to w places back are complete, so w-1
 * empty operations between two turns keep them apart. */
#include "sim_priv.h"

#include <math.h>

enum { JITTER_KEY = 0x6a697474, WORK_KEY = 0x776f726b };

static int64_t turn_length(const struct pdl_traffic_loop *l, int rank)
{
    return l->once.nops(l->once.ctx, rank) + l->once.window - 1;
}

static int64_t loop_nops(void *ctx, int rank)
{
    const struct pdl_traffic_loop *l = ctx;

    return l->once.nops(l->once.ctx, rank) > 0 ? l->times * turn_length(l, rank)
                                               : 0;
}

/* Exponentially distributed: work measured on a machine that does other
 * things too. */
static double draw(double mean, uint64_t key, int rank, int64_t i)
{
    struct pdl_rng4 h;

    if (!(mean > 0))
        return 0;
    h = pdl_philox(key, (uint64_t)rank, (uint64_t)i);
    return -mean * log((h.v[0] + 0.5) / 4294967296.0);
}

static double pause_before(const struct pdl_traffic_loop *l, int rank,
                           int64_t turn)
{
    double mean = turn == 0 && l->start_s > 0 ? l->start_s : l->jitter_s;

    return draw(mean, JITTER_KEY + l->seed, rank, turn);
}

/* Without the pauses. */
static void calm_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct pdl_traffic_loop *l = ctx;
    int64_t turn = turn_length(l, rank), at = i % turn, base = i - at;

    if (at >= l->once.nops(l->once.ctx, rank)) {
        *out = (struct pdl_traffic_op){.send_to = -1, .recv_from = -1};
    } else {
        l->once.op(l->once.ctx, rank, at, out);
        for (int k = 0; k < out->nafter && k < 4; k++)
            out->after[k] += base;
    }
    /* with a window of 1 it is said, not only implied, so that the turns are
     * a chain that rounds understand */
    if (out->nafter == 0 && i > 0 && l->once.window == 1) {
        out->nafter = 1;
        out->after[0] = i - 1;
    }
}

static void loop_op(void *ctx, int rank, int64_t i, struct pdl_traffic_op *out)
{
    const struct pdl_traffic_loop *l = ctx;
    int64_t turn = turn_length(l, rank), base = i / turn * turn;

    calm_op(ctx, rank, i, out);
    if (out->send_to < 0 && out->recv_from < 0 &&
        i - base >= l->once.nops(l->once.ctx, rank))
        return;
    /* everything a turn can begin with waits for nothing in it */
    if (out->nafter == 0 || out->after[0] < base)
        out->compute_s += pause_before(l, rank, i / turn);
    if (out->send_to != rank) /* a copy is not a message */
        out->compute_s += draw(l->work_s, WORK_KEY + l->seed, rank, i);
}

static int64_t calm_alike(void *ctx, int64_t i)
{
    const struct pdl_traffic_loop *l = ctx;
    int64_t at = i % turn_length(l, 0);

    return at < l->once.nops(l->once.ctx, 0) ? l->once.alike(l->once.ctx, at)
                                             : 1;
}

static int64_t loop_alike(void *ctx, int64_t i)
{
    const struct pdl_traffic_loop *l = ctx;

    return l->jitter_s > 0 || l->start_s > 0 || l->work_s > 0
               ? 1
               : calm_alike(ctx, i);
}

/* Places in the loop are places in the turn only where all turns are equally
 * long. */
static bool equal_turns(const struct pdl_traffic *t)
{
    for (int r = 1; r < t->nranks; r++)
        if (t->nops(t->ctx, r) != t->nops(t->ctx, 0))
            return false;
    return true;
}

void pdl_traffic_repeat(struct pdl_traffic_loop *loop, struct pdl_traffic *out)
{
    if (loop->once.window == 0)
        loop->once.window = PDL_TRAFFIC_WINDOW;
    *out = loop->once;
    out->ctx = loop;
    out->nops = loop_nops;
    out->op = loop_op;
    out->calm_op = calm_op;
    out->alike = out->calm_alike = NULL;
    if (loop->jitter_s > 0 || loop->start_s > 0 || loop->work_s > 0)
        out->turns = (struct pdl_turns){.n = 0}; /* no rank is as another */
    if (loop->once.alike && equal_turns(&loop->once)) {
        out->alike = loop_alike;
        out->calm_alike = calm_alike;
    }
}
