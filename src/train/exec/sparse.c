/* SPDX-License-Identifier: Apache-2.0
 *
 * compress=: gradients of a bucket travel as less than their floats (comm.h);
 * what a rank does not send it keeps for the next step (error feedback). What
 * is kept is a state of the rank: it is saved under the weight's name with the
 * rank's place in its group as first dimension. A run that goes on with other
 * groups starts from nothing kept.
 *
 * A bucket's sum begins while backward goes on, one after the other in the
 * order of the program, and is put in place of the gradients at the update.
 *
 * Sums are float32, so a plan in another precision is refused. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

/* A run of a bucket's gradients that lie side by side. */
struct bundle {
    float *data;
    int64_t n;
    pdl_compress *sum;
};

struct train_sparse {
    struct bundle *bundles;
    int op, n, done;           /* bundles; summed so far */
    bool begun, running;       /* the one after those is under way */
    struct train_sparse *next; /* of those begun */
};

/* Outputs [from, to) of an operation, which lie side by side: matrices of as
 * many rows as a weight has outputs. */
static enum pdl_status tell_shape(pdl_trainer *t, int op, int from, int to,
                                  const struct bundle *b, struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    struct pdl_compress_part *part =
        PDL_NEW(t->arena, struct pdl_compress_part, to - from);
    int n = 0;

    if (!part)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    for (int k = from; k < to; k++) {
        const struct train_array *a = &t->arrays[o->in[k]];
        int64_t all = train_array_elements(a), rows = 1;

        if (a->box.ndims > 1)
            rows = a->box.hi[0] - a->box.lo[0];
        if (all > 0)
            part[n++] = (struct pdl_compress_part){
                (float *)train_data(t, o->out[k], TRAIN_UPDATE) - b->data, rows,
                all / rows};
    }
    return pdl_compress_shape(b->sum, n, part, err);
}

static enum pdl_status open_bundle(pdl_trainer *t, int op,
                                   const struct train_run *r,
                                   struct bundle *out, struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];
    int64_t n = r->bytes / (int64_t)sizeof(float);
    struct pdl_compression c;
    enum pdl_status st;

    *out = (struct bundle){.data = (void *)r->to, .n = n};
    if (!pdl_compress_parse(t->plan->ops[op].compress, &c))
        return pdl_fail(err, PDL_EINVAL, "no compression '%.40s'",
                        t->plan->ops[op].compress);
    st = pdl_compress_create(x->behind ? x->behind : x->group, n,
                             pdl_compress_name(c.kind), c.value, t->opt.seed,
                             &out->sum, err);
    if (st == PDL_OK && pdl_compress_residual(out->sum))
        t->sizes.optimizer += n * (int64_t)sizeof(float);
    return st;
}

static enum pdl_status open_op(pdl_trainer *t, int op, struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    struct train_sparse *s = PDL_NEW(t->arena, struct train_sparse, 1);
    enum pdl_status st = PDL_OK;
    struct train_run r;
    int k = 0;

    if (s)
        s->bundles = PDL_NEW(t->arena, struct bundle, x->nout + 1);
    if (!s || !s->bundles)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    x->sparse = s;
    s->op = op;
    for (int from = 0;
         st == PDL_OK && train_next_run(t, op, TRAIN_UPDATE, &k, &r);
         from = k) {
        if (r.bytes == 0)
            continue;
        if (r.dtype != PDL_F32)
            return pdl_fail(err, PDL_EINVAL,
                            "compress= sums float32 only: "
                            "use --precision fp32");
        st = open_bundle(t, op, &r, &s->bundles[s->n], err);
        if (st == PDL_OK)
            st = tell_shape(t, op, from, k, &s->bundles[s->n], err);
        s->n++;
    }
    return st;
}

static bool compresses(const pdl_trainer *t, int op)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];

    return o->compress && t->ops[op].mine && o->kind == PDL_PLAN_OP_ALLREDUCE &&
           t->ops[op].group && t->kept[o->in[0]];
}

enum pdl_status train_sparse_open(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->nops && st == PDL_OK; i++)
        if (compresses(t, i))
            st = open_op(t, i, err);
    return st;
}

void train_sparse_close(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++) {
        struct train_sparse *s = t->ops[i].sparse;

        for (int k = 0; s && k < s->n; k++)
            pdl_compress_destroy(s->bundles[k].sum);
    }
}

void train_sparse_forget(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++) {
        struct train_sparse *s = t->ops[i].sparse;

        for (int k = 0; s && k < s->n; k++)
            pdl_compress_forget(s->bundles[k].sum);
    }
}

/* ---- sums ------------------------------------------------------------- */

static void queue(pdl_trainer *t, struct train_sparse *s)
{
    struct train_sparse **at = &t->sparse;

    while (*at)
        at = &(*at)->next;
    *at = s;
    s->next = NULL;
}

/* A sum has come: was it the bucket's last? */
static enum pdl_status arrived(pdl_trainer *t, struct train_sparse *s,
                               struct pdl_err *err)
{
    struct bundle *x = &s->bundles[s->done++];
    const struct train_op *o = &t->ops[s->op];

    s->running = false;
    if (s->done == s->n)
        t->sparse = s->next;
    if (s->done == s->n && o->behind && t->opt.timed)
        t->opt.timed(t->opt.timed_ctx, s->op, PDL_TRAIN_BEHIND, o->begun_s,
                     pdl_clock_s());
    return pdl_compress_wait(x->sum, err);
}

/* Moves the first in the queue as far as it goes, or (wait) to its end. */
static enum pdl_status push(pdl_trainer *t, bool wait, bool *moved,
                            struct pdl_err *err)
{
    struct train_sparse *s = t->sparse;
    struct bundle *x = &s->bundles[s->done];
    enum pdl_status st = PDL_OK;

    *moved = true;
    if (!s->running)
        st = pdl_compress_start(x->sum, err);
    s->running = true;
    if (st == PDL_OK && !wait)
        st = pdl_compress_test(x->sum, moved, err);
    return st == PDL_OK && *moved ? arrived(t, s, err) : st;
}

enum pdl_status train_sparse_push(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    bool moved = true;

    while (st == PDL_OK && moved && t->sparse)
        st = push(t, false, &moved, err);
    return st;
}

enum pdl_status train_sparse_finish(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    bool moved;

    while (st == PDL_OK && t->sparse)
        st = push(t, true, &moved, err);
    return st;
}

/* Between tensors of a run lie up to 60 bytes that are nobody's: nothing of
 * what happens to be there may be summed with the gradients. */
static void clear_gaps(const pdl_trainer *t, int op, int first, int end,
                       char *run)
{
    int64_t at = 0;

    for (int k = first; k + 1 < end; k++) {
        int64_t behind =
            at + train_array_bytes(&t->arrays[t->plan->ops[op].in[k]]);

        at = (behind + 63) / 64 * 64;
        memset(run + behind, 0, (size_t)(at - behind));
    }
}

enum pdl_status train_sparse_begin(pdl_trainer *t, int op, int micro,
                                   struct pdl_err *err)
{
    struct train_sparse *s = t->ops[op].sparse;
    struct train_run r;
    void *from;
    int k = 0, b = 0;

    if (s->begun)
        return PDL_OK;
    for (int first = 0; train_next_run(t, op, micro, &k, &r); first = k) {
        if (r.bytes == 0)
            continue;
        from = train_view(t, r.from, r.bytes);
        if (!from)
            return train_settled(t, err);
        clear_gaps(t, op, first, k, from);
        pdl_compress_take(s->bundles[b++].sum, from);
    }
    s->begun = true;
    s->done = 0;
    if (s->n > 0)
        queue(t, s);
    return train_sparse_push(t, err);
}

static enum pdl_status put_sum(pdl_trainer *t, const struct bundle *x,
                               struct pdl_err *err)
{
    size_t bytes = (size_t)x->n * sizeof *x->data;
    float *sum = t->device ? malloc(bytes + 1) : x->data;

    if (!sum)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    pdl_compress_put(x->sum, sum);
    if (t->device) {
        train_put(t, x->data, sum, (int64_t)bytes);
        free(sum);
    }
    return PDL_OK;
}

enum pdl_status train_sparse_run(pdl_trainer *t, int op, int micro,
                                 struct pdl_err *err)
{
    struct train_sparse *s = t->ops[op].sparse;
    enum pdl_status st = train_sparse_begin(t, op, micro, err);
    bool moved;

    while (st == PDL_OK && s->done < s->n)
        st = push(t, true, &moved, err);
    s->begun = false;
    for (int b = 0; b < s->n && st == PDL_OK; b++) {
        st = put_sum(t, &s->bundles[b], err);
    }
    return st;
}

/* ---- what is kept, for checkpoints ------------------------------------ */

/* The bucket that sums the gradient of a weight, and which of its items. */
static int bucket_of(const pdl_trainer *t, int weight, int *item)
{
    const struct pdl_plan *p = t->plan;

    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *o = &p->ops[i];

        for (int k = 0; t->ops[i].sparse && k < o->nout; k++)
            if (p->tensors[o->out[k]].model_tensor ==
                    p->tensors[weight].model_tensor &&
                p->tensors[o->out[k]].stage == p->tensors[weight].stage) {
                *item = k;
                return i;
            }
    }
    return -1;
}

int64_t train_sparse_place(const pdl_trainer *t, int weight, int64_t rank)
{
    int64_t ranks[4096], n;
    int k = 0, op = bucket_of(t, weight, &k);

    if (op < 0)
        return -1;
    n = pdl_mesh_group(t->plan->mesh, rank, t->plan->ops[op].group, ranks,
                       4096);
    for (int64_t i = 0; i < n && i < 4096; i++)
        if (ranks[i] == rank)
            return i;
    return -1;
}

void *train_sparse_kept(const pdl_trainer *t, int weight, int64_t *place,
                        int64_t *places)
{
    int k = 0, op = bucket_of(t, weight, &k);
    const struct train_op *x = op >= 0 ? &t->ops[op] : NULL;
    const float *at;

    if (!x || t->plan->tensors[weight].kind != PDL_PLAN_WEIGHT)
        return NULL;
    at = train_data(t, x->out[k], TRAIN_UPDATE);
    *place = x->me;
    *places = x->ngroup;
    for (int b = 0; b < x->sparse->n; b++) {
        const struct bundle *u = &x->sparse->bundles[b];

        float *kept = pdl_compress_residual(u->sum);

        if (kept && at >= u->data && at < u->data + u->n)
            return kept + (at - u->data);
    }
    return NULL;
}
