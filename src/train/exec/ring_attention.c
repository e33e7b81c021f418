/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to keys that come block by block. Forward has of each block a
 * result of its own and the logarithm of its sum of exponentials; two of them
 * are joined by these logarithms, in the order in which the blocks come (online
 * softmax: Milakov and Gimelshein 2018, as Liu, Zaharia and Abbeel 2023 use it
 * around a ring). Backward has the logarithm over all keys, so the shares of
 * the blocks are simply added: those of the queries here, those of keys and
 * values on their way round, by each rank in turn. So the order of every sum
 * is that of the ranks of the ring, whatever carries the messages.
 *
 * While a block is worked on it travels to the next rank already, and so do
 * the gradients of the block before: a rank has two blocks of each, and in its
 * workspace what it says of one. Blocks that no query sees (causal, a window)
 * are passed on only. bfloat16 results are joined as float32. */
#include "train/exec/ring.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, OPERANDS = 16 };

struct turn {
    pdl_trainer *t;
    int op, micro, nkeys, ngrads;
    struct train_ring *r;
    const struct train_moment *when;
    int keys[RING_OPERANDS], grads[RING_OPERANDS]; /* tensors that turn */
    void *in[OPERANDS], *out[OPERANDS];
    char *work;
    int joined; /* blocks so far */
    bool narrow;
};

/* ---- making ----------------------------------------------------------- */

/* Does a query at the places [t0,t1) see a key at [s0,s1)? Both ascend: asked
 * of each query, since a window may lie between two runs of keys. */
static bool sees(const struct train_call *c, int64_t t0, int64_t t1, int64_t s0,
                 int64_t s1)
{
    int64_t first, end;

    for (int64_t t = t1 - 1; t >= t0 && s1 > s0; t--) {
        train_visible(c, s0, s1, t, &first, &end);
        if (end > first)
            return true;
    }
    return false;
}

static int64_t reserve(int64_t *bytes, int64_t n)
{
    int64_t at = *bytes;

    *bytes += (n + 63) / 64 * 64;
    return at;
}

static bool is_narrow(const pdl_trainer *t, int tensor)
{
    return t->arrays[tensor].dtype == PDL_BF16;
}

/* The largest block of a tensor. */
static int64_t block_bytes(const pdl_trainer *t, const struct train_ring *r,
                           int tensor)
{
    int64_t most = 0;

    for (int b = 0; b < r->n; b++) {
        struct train_array a = train_ring_part(t, r, tensor, b);

        if (train_array_bytes(&a) > most)
            most = train_array_bytes(&a);
    }
    return most;
}

static void lay_out(pdl_trainer *t, int op, int64_t bytes)
{
    struct train_op *x = &t->ops[op];
    struct train_ring *r = x->ring;
    const struct train_operands *at = &r->at;
    const int *grad = r->grad;
    bool forward = t->plan->ops[op].pass == PDL_FORWARD;
    int first = forward ? 0 : grad[Q];

    for (int k = 0; k < RING_OPERANDS; k++)
        if (!train_turns(t, x->in[at->x + K + k]))
            r->whole[k] =
                reserve(&bytes, block_bytes(t, r, x->in[at->x + K + k]));
    if (first >= 0) {
        const struct train_array *a = &t->arrays[x->out[first]];

        r->part[0] = reserve(&bytes, train_array_bytes(a));
        for (int k = 0; k < 2 && is_narrow(t, x->out[first]); k++)
            r->wide[k] = reserve(&bytes, 4 * train_array_elements(a));
    }
    if (forward)
        r->part[1] =
            reserve(&bytes, train_array_bytes(&t->arrays[x->out[at->aux_out]]));
    for (int k = K; k <= V && !forward; k++)
        if (grad[k] >= 0)
            r->part[k] = reserve(&bytes, block_bytes(t, r, x->out[grad[k]]));
    x->work_bytes = bytes;
}

static enum pdl_status check(const struct train_call *c, struct train_ring *r,
                             struct pdl_err *err)
{
    train_operands(c, &r->at);
    for (int k = Q; k <= V; k++)
        r->grad[k] = c->pass == PDL_FORWARD ? -1 : train_gradient_of(c, k);
    if (c->nin > OPERANDS || c->nout > OPERANDS || c->node->nin != 3)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the runtime has no ring for such an attention",
                        c->node->name);
    if (c->pass == PDL_FORWARD ? r->at.aux_out < 0 : r->at.aux < 0)
        return pdl_fail(err, PDL_EWRONG, "%s: no sums of exponentials",
                        c->node->name);
    return PDL_OK;
}

enum pdl_status train_ring_kernels(pdl_trainer *t, int op,
                                   const struct train_call *c,
                                   struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    struct train_ring *r = x->ring;
    struct train_array in[OPERANDS], out[OPERANDS];
    struct train_call one = *c;
    int64_t scratch = 0;
    enum pdl_status st = check(c, r, err);

    if (st == PDL_OK)
        st = train_group_turning(t, r->group, &r->comm, err);
    if (st != PDL_OK)
        return st;
    memcpy(in, c->in, (size_t)c->nin * sizeof *in);
    memcpy(out, c->out, (size_t)c->nout * sizeof *out);
    one.in = in;
    one.out = out;
    for (int b = 0; b < r->n && st == PDL_OK; b++) {
        const struct pdl_box *q = &c->in[r->at.x].box;

        if (!sees(c, q->lo[1], q->hi[1], r->first[b], r->end[b]))
            continue;
        for (int k = K; k <= V; k++) {
            int i = r->at.x + k, g = r->grad[k];

            in[i] = train_ring_part(t, r, x->in[i], b);
            if (g >= 0)
                out[g] = train_ring_part(t, r, x->out[g], b);
        }
        st = t->backend->make(t->backend_state, &one, &r->kernel[b], err);
        if (st == PDL_OK && r->kernel[b]->scratch_bytes > scratch)
            scratch = r->kernel[b]->scratch_bytes;
        if (st == PDL_OK)
            x->kernel = r->kernel[b];
    }
    if (st == PDL_OK)
        lay_out(t, op, (scratch + 63) / 64 * 64);
    return st;
}

/* ---- joining ---------------------------------------------------------- */

static void put_number(enum pdl_dtype t, void *p, int64_t i, double v)
{
    if (t == PDL_F64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* y = a y + b part, of one query and head. */
static void mix(enum pdl_dtype t, void *y, const void *part, int64_t n,
                double a, double b)
{
    if (t == PDL_F64) {
        double *to = y;
        const double *from = part;

        for (int64_t i = 0; i < n; i++)
            to[i] = a * to[i] + b * from[i];
    } else {
        float *to = y, fa = (float)a, fb = (float)b;
        const float *from = part;

        for (int64_t i = 0; i < n; i++)
            to[i] = fa * to[i] + fb * from[i];
    }
}

/* y [N,T,heads*dv] and logarithms [N,heads,T] of what came before and of one
 * block more. -INFINITY: saw nothing yet. */
struct join {
    struct train_array y, log_sum;
};

static void run_join(const void *args, void *const *span)
{
    const struct train_array *y = &((const struct join *)args)->y;
    const struct train_array *log_sum = &((const struct join *)args)->log_sum;
    void *to = span[0], *sum = span[2];
    const void *part = span[1], *more = span[3];
    int64_t samples = y->box.hi[0] - y->box.lo[0];
    int64_t queries = y->box.hi[1] - y->box.lo[1];
    int64_t width = y->box.hi[2] - y->box.lo[2];
    int64_t heads = log_sum->box.hi[1] - log_sum->box.lo[1];
    int64_t dv = heads > 0 ? width / heads : 0;
    enum pdl_dtype t = y->dtype == PDL_F64 ? PDL_F64 : PDL_F32;
    int64_t size = pdl_dtype_bits(t) / 8;

    for (int64_t i = 0; i < samples * heads * queries; i++) {
        int64_t n = i / (heads * queries), h = i / queries % heads;
        int64_t at = ((n * queries + i % queries) * width + h * dv) * size;
        double a = train_number(log_sum->dtype, sum, i);
        double b = train_number(log_sum->dtype, more, i);
        double top = a > b ? a : b, both;

        if (b == -INFINITY)
            continue;
        both = exp(a - top) + exp(b - top);
        mix(t, (char *)to + at, (const char *)part + at, dv,
            exp(a - top) / both, exp(b - top) / both);
        put_number(log_sum->dtype, sum, i, top + log(both));
    }
}

static const struct train_work join_work = {"join", run_join};

static void join(pdl_trainer *t, const struct join *a, void *to, void *part,
                 void *sum, void *more)
{
    int64_t wide = a->y.dtype == PDL_F64 ? 8 : 4;
    int64_t n = wide * train_array_elements(&a->y);
    int64_t m = train_array_bytes(&a->log_sum);
    struct train_task task = {.work = &join_work,
                              .args = a,
                              .args_bytes = sizeof *a,
                              .n = 4,
                              .span = {{to, n, true, true},
                                       {part, n, true, false},
                                       {sum, m, true, true},
                                       {more, m, true, false}}};

    if (m > 0)
        train_launch(t, &task);
}

struct numbers {
    enum pdl_dtype dtype;
    int64_t n;
};

static void run_nothing_seen(const void *args, void *const *at)
{
    const struct numbers *a = args;

    for (int64_t i = 0; i < a->n; i++)
        put_number(a->dtype, at[0], i, -INFINITY);
}

static const struct train_work nothing_seen = {"nothing-seen",
                                               run_nothing_seen};

/* ---- running ---------------------------------------------------------- */

static bool is_dropped(const struct turn *x, int step)
{
    return x->t->fault == TRAIN_FAULT_DROP_BLOCK && x->t->fault_op == x->op &&
           step == 1;
}

/* The block of keys of this step as the kernel takes it. */
static void bring(struct turn *x, int step)
{
    const struct train_op *o = &x->t->ops[x->op];
    int b = train_ring_block(x->r, step);

    for (int k = 0; k < RING_OPERANDS; k++) {
        int i = x->r->at.x + K + k, tensor = o->in[i];
        struct train_array part;

        if (train_turns(x->t, tensor)) {
            x->in[i] = train_ring_slot(x->t, tensor, step, x->micro);
            continue;
        }
        part = train_ring_part(x->t, x->r, tensor, b);
        x->in[i] = x->work + x->r->whole[k];
        train_copy_part(x->t, &part, x->in[i], &x->t->arrays[tensor],
                        train_data(x->t, tensor, x->micro), &part.box);
    }
}

static enum pdl_status run_kernel(struct turn *x, int step, struct pdl_err *err)
{
    const struct train_kernel *k = x->r->kernel[train_ring_block(x->r, step)];

    bring(x, step);
    return k->run(k, x->in, x->out, x->work, x->when, err);
}

static enum pdl_status forward_step(struct turn *x, int step,
                                    struct pdl_err *err)
{
    const struct train_op *o = &x->t->ops[x->op];
    const struct train_array *y = &x->t->arrays[o->out[0]];
    const struct train_array *s = &x->t->arrays[o->out[x->r->at.aux_out]];
    void *to = train_data(x->t, o->out[0], x->micro);
    void *sum = train_data(x->t, o->out[x->r->at.aux_out], x->micro);
    void *wide = x->work + x->r->wide[0];
    enum pdl_status st;

    if (!x->r->kernel[train_ring_block(x->r, step)] || is_dropped(x, step))
        return PDL_OK;
    x->out[0] = x->joined ? x->work + x->r->part[0] : to;
    x->out[x->r->at.aux_out] = x->joined ? x->work + x->r->part[1] : sum;
    st = run_kernel(x, step, err);
    if (st != PDL_OK)
        return st;
    if (x->narrow) {
        void *as = x->joined ? x->work + x->r->wide[1] : wide;

        train_widen(x->t, x->out[0], as, train_array_elements(y));
        x->out[0] = as;
    }
    if (x->joined)
        join(x->t, &(struct join){*y, *s}, x->narrow ? wide : to, x->out[0],
             sum, x->out[x->r->at.aux_out]);
    x->joined++;
    return PDL_OK;
}

/* What this rank says of the keys of a block joins what others said. */
static void deposit(struct turn *x, int step, bool seen)
{
    const struct train_op *o = &x->t->ops[x->op];
    int b = train_ring_block(x->r, step);

    for (int k = K; k <= V; k++) {
        int tensor = x->r->grad[k] < 0 ? -1 : o->out[x->r->grad[k]];
        struct train_array part;
        char *to, *from = x->work + x->r->part[k];

        if (tensor < 0)
            continue;
        part = train_ring_part(x->t, x->r, tensor, b);
        if (pdl_box_empty(&part.box))
            continue;
        if (!train_turns(x->t, tensor)) {
            if (seen)
                train_copy_part(x->t, &x->t->arrays[tensor],
                                train_data(x->t, tensor, x->micro), &part, from,
                                &part.box);
            continue;
        }
        to = train_ring_slot(x->t, tensor, step, x->micro);
        if (step > 0 && seen)
            train_sum(x->t, part.dtype, to, from, train_array_elements(&part));
        else if (step == 0 && seen)
            train_move(x->t, to, from, train_array_bytes(&part));
        else if (step == 0)
            train_fill(x->t, to, 0, train_array_bytes(&part));
    }
}

/* The share of a block in the gradient of the queries. */
static void add_queries(struct turn *x)
{
    const struct train_op *o = &x->t->ops[x->op];
    const struct train_array *a;
    float *wide = (float *)(void *)(x->work + x->r->wide[0]);
    int64_t n;

    if (x->r->grad[Q] < 0)
        return;
    a = &x->t->arrays[o->out[x->r->grad[Q]]];
    n = train_array_elements(a);
    if (x->narrow) {
        void *as = x->joined ? x->work + x->r->wide[1] : (char *)wide;

        train_widen(x->t, x->out[x->r->grad[Q]], as, n);
        if (x->joined)
            train_sum(x->t, PDL_F32, wide, as, n);
    } else if (x->joined) {
        train_sum(x->t, a->dtype,
                  train_data(x->t, o->out[x->r->grad[Q]], x->micro),
                  x->out[x->r->grad[Q]], n);
    }
}

static enum pdl_status backward_step(struct turn *x, int step, bool *seen,
                                     struct pdl_err *err)
{
    const struct train_op *o = &x->t->ops[x->op];
    enum pdl_status st;

    *seen = x->r->kernel[train_ring_block(x->r, step)] && !is_dropped(x, step);
    if (!*seen)
        return PDL_OK;
    if (x->r->grad[Q] >= 0)
        x->out[x->r->grad[Q]] =
            x->joined ? x->work + x->r->part[0]
                      : train_data(x->t, o->out[x->r->grad[Q]], x->micro);
    for (int k = K; k <= V; k++)
        if (x->r->grad[k] >= 0)
            x->out[x->r->grad[k]] = x->work + x->r->part[k];
    st = run_kernel(x, step, err);
    if (st == PDL_OK) {
        add_queries(x);
        x->joined++;
    }
    return st;
}

static void forget(pdl_trainer *t, const struct train_array *a, void *at)
{
    struct numbers n = {a->dtype, train_array_elements(a)};
    struct train_task task = {
        .work = &nothing_seen,
        .args = &n,
        .args_bytes = sizeof n,
        .n = 1,
        .span = {{at, train_array_bytes(a), false, true}}};

    if (n.n > 0)
        train_launch(t, &task);
}

/* Joined as float32, or nothing was seen at all. */
static void finish(struct turn *x, int tensor, int sums)
{
    struct train_array *a = &x->t->arrays[tensor];
    void *to = train_data(x->t, tensor, x->micro);

    if (x->narrow && x->joined > 1)
        train_narrow(x->t, x->work + x->r->wide[0], to,
                     train_array_elements(a));
    if (x->joined > 0)
        return;
    train_fill(x->t, to, 0, train_array_bytes(a));
    if (sums >= 0)
        forget(x->t, &x->t->arrays[sums], train_data(x->t, sums, x->micro));
}

static enum pdl_status wait_for(pdl_trainer *t, struct train_transfer **req,
                                enum pdl_status st, struct pdl_err *err)
{
    enum pdl_status got = *req ? train_transfer_wait(t, *req, err) : PDL_OK;

    *req = NULL;
    return st == PDL_OK ? got : st;
}

static enum pdl_status forward(struct turn *x, struct pdl_err *err)
{
    const struct train_op *o = &x->t->ops[x->op];
    enum pdl_status st = PDL_OK;

    for (int s = 0; s < x->r->n && st == PDL_OK; s++) {
        struct train_transfer *req = NULL;

        if (s + 1 < x->r->n)
            st = train_ring_pass(x->t, x->op, x->micro, x->keys, x->nkeys, s,
                                 &req, err);
        if (st == PDL_OK)
            st = forward_step(x, s, err);
        st = wait_for(x->t, &req, st, err);
    }
    finish(x, o->out[0], o->out[x->r->at.aux_out]);
    return st;
}

static enum pdl_status backward(struct turn *x, struct pdl_err *err)
{
    const struct train_op *o = &x->t->ops[x->op];
    struct train_transfer *late = NULL; /* gradients of the block before */
    enum pdl_status st = PDL_OK;

    for (int k = K; k <= V; k++)
        if (x->r->grad[k] >= 0 && !train_turns(x->t, o->out[x->r->grad[k]]))
            train_fill(x->t, train_data(x->t, o->out[x->r->grad[k]], x->micro),
                       0,
                       train_array_bytes(&x->t->arrays[o->out[x->r->grad[k]]]));
    for (int s = 0; s < x->r->n && st == PDL_OK; s++) {
        struct train_transfer *req = NULL;
        bool more = s + 1 < x->r->n, seen = false;

        if (more)
            st = train_ring_pass(x->t, x->op, x->micro, x->keys, x->nkeys, s,
                                 &req, err);
        if (st == PDL_OK)
            st = backward_step(x, s, &seen, err);
        st = wait_for(x->t, &late, st, err);
        if (st == PDL_OK)
            deposit(x, s, seen);
        if (st == PDL_OK && more)
            st = train_ring_pass(x->t, x->op, x->micro, x->grads, x->ngrads, s,
                                 &late, err);
        st = wait_for(x->t, &req, st, err);
    }
    st = wait_for(x->t, &late, st, err);
    if (x->r->grad[Q] >= 0)
        finish(x, o->out[x->r->grad[Q]], -1);
    return st;
}

enum pdl_status train_ring_run(pdl_trainer *t, int op, int micro,
                               const struct train_moment *when,
                               struct pdl_err *err)
{
    const struct train_op *o = &t->ops[op];
    const struct train_ring *r = o->ring;
    bool onward = t->plan->ops[op].pass == PDL_FORWARD;
    int first = onward ? 0 : r->grad[Q];
    struct turn x = {.t = t,
                     .op = op,
                     .micro = micro,
                     .r = o->ring,
                     .when = when,
                     .work = train_work(t, op, micro)};

    for (int k = 0; k < o->nin; k++)
        x.in[k] = train_data(t, o->in[k], micro);
    for (int k = K; k <= V; k++) {
        int i = o->in[r->at.x + k],
            g = r->grad[k] < 0 ? -1 : o->out[r->grad[k]];

        if (train_turns(t, i))
            x.keys[x.nkeys++] = i;
        if (g >= 0 && train_turns(t, g))
            x.grads[x.ngrads++] = g;
    }
    x.narrow = first >= 0 && is_narrow(t, o->out[first]);
    return onward ? forward(&x, err) : backward(&x, err);
}
