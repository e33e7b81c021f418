/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks. The gradients of a bucket lie side by side, so a bucket is
 * one message; its exchange begins while backward goes on, on a communicator
 * of its own, and moves when somebody pushes it: between operations, or by a
 * thread of that communicator. */
#include "train/train_priv.h"

bool train_next_run(const pdl_trainer *t, int op, int micro, int *k,
                    struct train_run *r)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];

    if (*k >= o->nout)
        return false;
    *r = (struct train_run){.from = train_data(t, o->in[*k], micro),
                            .to = train_data(t, o->out[*k], micro),
                            .bytes = train_array_bytes(&t->arrays[o->in[*k]]),
                            .dtype = t->arrays[o->in[*k]].dtype};
    for (++*k; *k < o->nout && t->ops[op].bundled && micro == TRAIN_UPDATE;
         ++*k) {
        int64_t next = (r->bytes + 63) / 64 * 64;

        if ((char *)train_data(t, o->in[*k], micro) != r->from + next ||
            (char *)train_data(t, o->out[*k], micro) != r->to + next ||
            t->arrays[o->in[*k]].dtype != r->dtype)
            break;
        r->bytes = next + train_array_bytes(&t->arrays[o->in[*k]]);
    }
    return true;
}

/* The exchange of a bucket begins while backward goes on; in place only, and
 * on a communicator of its own, where nothing else is in its way. */
enum pdl_status train_start_bucket(pdl_trainer *t, int op, struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    enum pdl_status st = PDL_OK;
    struct train_run r;
    int k = 0;

    if (!x->behind || x->nstarted > 0)
        return PDL_OK;
    x->begun_s = t->opt.timed ? pdl_clock_s() : 0;
    if (x->sparse)
        return train_sparse_begin(t, op, TRAIN_UPDATE, err);
    while (st == PDL_OK && train_next_run(t, op, TRAIN_UPDATE, &k, &r)) {
        struct train_transfer **req = &x->started[x->nstarted];

        if (r.bytes == 0)
            continue;
        st = train_start_sum(t, x->behind, &r, x->reduce, req, err);
        if (st == PDL_OK) {
            x->nstarted++;
            x->under_way++;
            train_pend(t, *req);
        }
    }
    return st;
}

/* One message of a bucket has arrived: was it the last? */
static void arrived(pdl_trainer *t, struct train_op *x)
{
    if (--x->under_way == 0 && t->opt.timed)
        t->opt.timed(t->opt.timed_ctx, (int)(x - t->ops), PDL_TRAIN_BEHIND,
                     x->begun_s, pdl_clock_s());
}

static struct train_op *bucket_of(pdl_trainer *t,
                                  const struct train_transfer *r)
{
    for (int i = 0; i < t->plan->nops; i++)
        for (int k = 0; k < t->ops[i].nstarted; k++)
            if (t->ops[i].started[k] == r)
                return &t->ops[i];
    return NULL;
}

static enum pdl_status wait_bucket(pdl_trainer *t, struct train_op *x,
                                   struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < x->nstarted; i++) {
        enum pdl_status one;
        bool open = train_unpend(t, x->started[i]);

        one = train_transfer_wait(t, x->started[i], st == PDL_OK ? err : NULL);
        if (open)
            arrived(t, x);
        st = st == PDL_OK ? one : st;
    }
    x->nstarted = 0;
    return st;
}

enum pdl_status train_wait_buckets(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = train_sparse_finish(t, err);

    for (int i = 0; i < t->plan->nops && st == PDL_OK; i++)
        st = wait_bucket(t, &t->ops[i], err);
    return st;
}

enum pdl_status train_allreduce(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    bool skip = t->fault == TRAIN_FAULT_SKIP_SUM && t->fault_op == op;
    enum pdl_status st = PDL_OK;
    struct train_run r;
    int k = 0;

    if (x->nstarted > 0)
        return wait_bucket(t, x, err);
    if (x->sparse && !skip)
        return train_sparse_run(t, op, micro, err);
    while (st == PDL_OK && train_next_run(t, op, micro, &k, &r)) {
        if (r.bytes == 0)
            continue;
        if (!x->group || skip)
            train_move(t, r.to, r.from, r.bytes);
        else
            st = train_sum_now(t, x->group, &r, x->reduce, err);
    }
    return st;
}

/* ---- under way -------------------------------------------------------- */

void train_pend(pdl_trainer *t, struct train_transfer *r)
{
    if (t->npending < t->most_pending)
        t->pending[t->npending++] = r;
}

bool train_unpend(pdl_trainer *t, const struct train_transfer *r)
{
    for (int i = 0; i < t->npending; i++)
        if (t->pending[i] == r) {
            t->pending[i] = t->pending[--t->npending];
            return true;
        }
    return false;
}

/* Nothing moves by itself: between operations everything that is under way is
 * given a push. */
enum pdl_status train_poll(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = t->sparse ? train_sparse_push(t, err) : PDL_OK;

    for (int i = 0; i < t->npending && st == PDL_OK; i++) {
        bool done = false;

        st = train_transfer_test(t, t->pending[i], &done, err);
        if (st == PDL_OK && done) {
            struct train_op *x = bucket_of(t, t->pending[i]);

            if (x)
                arrived(t, x);
            t->pending[i--] = t->pending[--t->npending];
        }
    }
    return st;
}
