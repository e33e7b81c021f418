/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes from one stage of a pipeline to another. Sends do not wait: what
 * forward sent has arrived when its gradient comes back. Two stages of one
 * rank copy. */
#include "train/train_priv.h"

enum { MAX_GROUP = 4096 };

/* ---- across stages ---------------------------------------------------- */

/* The rank with my coordinates in another stage. */
static int peer_in(const pdl_trainer *t, int stage)
{
    int64_t ranks[MAX_GROUP];
    int64_t n = pdl_mesh_group(t->plan->mesh, t->rank, t->plan->pipe_factors,
                               ranks, MAX_GROUP);

    for (int64_t i = 0; i < n && i < MAX_GROUP; i++)
        if (pdl_plan_rank_lane(t->plan, ranks[i]) ==
            pdl_plan_lane(t->plan, stage))
            return (int)ranks[i];
    return -1;
}

enum pdl_status train_prepare_p2p(pdl_trainer *t, int op, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    const struct pdl_plan_op *o = &p->ops[op];
    struct train_op *x = &t->ops[op];
    int other = -1, tag = 0;

    for (int i = 0; i < p->nops; i++) {
        if (p->ops[i].kind != PDL_PLAN_OP_SEND)
            continue;
        if (p->ops[i].out[0] == o->out[0]) {
            other = o->kind == PDL_PLAN_OP_SEND
                        ? p->tensors[o->out[0]].stage
                        : p->tensors[p->ops[i].in[0]].stage;
            x->forward = p->tensors[o->out[0]].kind != PDL_PLAN_GRADIENT;
            x->source = p->ops[i].in[0];
            break;
        }
        tag++;
    }
    x->tag = tag;
    x->peer = other < 0 ? -1 : peer_in(t, other);
    x->flying = PDL_NEW(t->arena, struct train_transfer *, t->micros + 1);
    if (x->peer < 0)
        return pdl_fail(err, PDL_EWRONG, "%s: nobody to exchange with",
                        p->tensors[o->out[0]].name);
    return x->flying ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status train_send(pdl_trainer *t, int op, int micro,
                           struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    int in = t->plan->ops[op].in[0];
    struct pdl_comm_message m = {.peer = x->peer,
                                 .tag = x->tag,
                                 .data = train_data(t, in, micro),
                                 .bytes = train_array_bytes(&t->arrays[in])};
    enum pdl_status st;
    int64_t at;

    if (m.bytes == 0 || x->peer == t->rank)
        return PDL_OK;
    at = micro == TRAIN_UPDATE ? t->micros : micro;
    st = train_start_exchange(
        t, t->world, &(struct train_messages){.nsends = 1, .sends = &m},
        &x->flying[at], err);
    if (st == PDL_OK)
        train_pend(t, x->flying[at]);
    return st;
}

enum pdl_status train_receive(pdl_trainer *t, int op, int micro,
                              struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    int out = t->plan->ops[op].out[0];
    struct pdl_comm_message m = {.peer = x->peer,
                                 .tag = x->tag,
                                 .data = train_data(t, out, micro),
                                 .bytes = train_array_bytes(&t->arrays[out])};

    if (m.bytes == 0)
        return PDL_OK;
    if (x->peer == t->rank) { /* another stage of this very rank */
        train_move(t, m.data, train_data(t, x->source, micro), m.bytes);
        return PDL_OK;
    }
    return train_exchange_now(
        t, t->world, &(struct train_messages){.nrecvs = 1, .recvs = &m}, err);
}

enum pdl_status train_wait_sends(pdl_trainer *t, int micro, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->nops; i++) {
        struct train_op *x = &t->ops[i];

        if (!x->flying || (micro >= 0 && !x->forward))
            continue;
        for (int m = 0; m <= t->micros && st == PDL_OK; m++)
            if (x->flying[m] && (micro < 0 || m == micro)) {
                train_unpend(t, x->flying[m]);
                st = train_transfer_wait(t, x->flying[m], err);
                x->flying[m] = NULL;
            }
    }
    return st;
}
