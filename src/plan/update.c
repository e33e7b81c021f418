/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient exchange and weight update. Gradients that are partial over the
 * same factors share buckets, filled in the order backward makes them; a
 * bucket is one allreduce and one update. Weights whose states the host keeps
 * have buckets of their own, and those whose gradients travel otherwise. */
#include "plan_priv.h"

#include <string.h>

static const int64_t DEFAULT_BUCKET = 25 << 20;

struct plan_bucket {
    struct plan_bucket *next;
    uint32_t group;
    bool host;            /* has the states */
    const char *compress; /* NULL: not */
    int64_t bytes;
    int n;
    int weight[PLAN_MAX_BUCKET], grad[PLAN_MAX_BUCKET];
    int whole[PLAN_MAX_BUCKET]; /* gathered from the updated part; -1: none */
};

static uint32_t partial_over(const struct plan_lower *lo, int t)
{
    uint32_t set = 0;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (lo->tensors[t].place.at[f] == PDL_PARTIAL)
            set |= UINT32_C(1) << f;
    return set;
}

static uint32_t gathered_over(const struct plan_lower *lo, int part, int whole)
{
    uint32_t set = 0;

    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (lo->tensors[part].place.at[f] != lo->tensors[whole].place.at[f])
            set |= UINT32_C(1) << f;
    return set;
}

/* ZeRO 1 and 2: whole weights from the parts just updated, those over the
 * same ranks together. */
static void gather_weights(struct plan_lower *lo, struct plan_bucket *b)
{
    for (int i = 0; i < b->n; i++) {
        uint32_t group = 0;
        int in[PLAN_MAX_BUCKET], out[PLAN_MAX_BUCKET], n = 0;

        if (b->whole[i] < 0)
            continue;
        group = gathered_over(lo, b->weight[i], b->whole[i]);
        for (int k = i; k < b->n; k++)
            if (b->whole[k] >= 0 &&
                gathered_over(lo, b->weight[k], b->whole[k]) == group) {
                in[n] = b->weight[k];
                out[n++] = b->whole[k];
                b->whole[k] = -1;
            }
        plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_ALLGATHER,
                                              .node = -1,
                                              .nin = n,
                                              .in = in,
                                              .nout = n,
                                              .out = out,
                                              .group = group});
    }
}

/* A tensor that is of the round in which its bucket was full; of those that
 * never were, of the round its gradient is of. */
static int add_for(struct plan_lower *lo, int grad, struct pdl_plan_tensor *t)
{
    int now = lo->round_now, made;

    if (now < 0)
        lo->round_now = lo->tensors[grad].round;
    made = plan_add_tensor(lo, t);
    lo->round_now = now;
    return made;
}

static bool is_hosted(const struct plan_lower *lo, int node)
{
    int c = lo->clause[node];

    return lo->strategy->offload_optimizer ||
           (c >= 0 && lo->strategy->clause[c].offload_optimizer);
}

/* offload=optimizer (ZeRO-Offload, Ren et al. 2021): gradients go to the host,
 * which keeps the optimizer's state and a copy of what it updates; the new
 * weights come back. */
static void update_on_host(struct plan_lower *lo, const struct plan_bucket *b,
                           const int *grad)
{
    int in[2 * PLAN_MAX_BUCKET];

    for (int i = 0; i < b->n; i++) {
        struct pdl_plan_tensor w = lo->tensors[b->weight[i]];
        struct pdl_plan_tensor g = lo->tensors[grad[i]];

        w.kind = PDL_PLAN_STATE;
        w.host = g.host = true;
        w.name = plan_name(lo, "host(", w.name, ")");
        g.name = plan_name(lo, "host(", g.name, ")");
        in[i] = add_for(lo, grad[i], &w);
        in[b->n + i] = add_for(lo, grad[i], &g);
    }
    plan_emit(lo, PDL_PLAN_OP_COPY_OUT, PDL_FORWARD, -1, grad, b->n, in + b->n,
              b->n);
    plan_emit(lo, PDL_PLAN_OP_UPDATE, PDL_FORWARD, -1, in, 2 * b->n, in, b->n);
    plan_emit(lo, PDL_PLAN_OP_COPY_IN, PDL_FORWARD, -1, in, b->n, b->weight,
              b->n);
}

static void update_here(struct plan_lower *lo, const struct plan_bucket *b,
                        const int *grad)
{
    int in[2 * PLAN_MAX_BUCKET];

    for (int i = 0; i < b->n; i++) {
        in[i] = b->weight[i];
        in[b->n + i] = grad[i];
    }
    plan_emit(lo, PDL_PLAN_OP_UPDATE, PDL_FORWARD, -1, in, 2 * b->n, b->weight,
              b->n);
}

static void flush(struct plan_lower *lo, struct plan_bucket *b)
{
    int out[PLAN_MAX_BUCKET];

    if (b->n == 0 || lo->status != PDL_OK)
        return;
    memcpy(out, b->grad, (size_t)b->n * sizeof out[0]);
    if (b->group) {
        for (int i = 0; i < b->n; i++) {
            struct pdl_plan_tensor t = lo->tensors[b->grad[i]];

            for (int f = 0; f < lo->mesh->nfactors; f++)
                if (b->group >> f & 1)
                    t.place.at[f] = PDL_REPLICATED;
            out[i] = add_for(lo, b->grad[i], &t);
        }
        plan_add_op(lo, &(struct pdl_plan_op){.kind = PDL_PLAN_OP_ALLREDUCE,
                                              .node = -1,
                                              .nin = b->n,
                                              .in = b->grad,
                                              .nout = b->n,
                                              .out = out,
                                              .group = b->group,
                                              .compress = b->compress});
    }
    if (b->host)
        update_on_host(lo, b, out);
    else
        update_here(lo, b, out);
    gather_weights(lo, b);
    b->n = 0;
    b->bytes = 0;
}

static int64_t tensor_bytes(const struct plan_lower *lo, int t)
{
    int64_t n = pdl_dtype_bits(lo->tensors[t].dtype) / 8;

    for (int d = 0; d < lo->tensors[t].ndims; d++)
        n *= lo->tensors[t].dim[d];
    return n;
}

static bool same_way(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The bucket of a set of factors; few sets exist, stages share them. */
static struct plan_bucket *bucket_for(struct plan_lower *lo, uint32_t group,
                                      bool host, const char *compress)
{
    struct plan_bucket *b = lo->buckets;

    while (b && (b->group != group || b->host != host ||
                 !same_way(b->compress, compress)))
        b = b->next;
    if (b)
        return b;
    b = PDL_NEW(lo->arena, struct plan_bucket, 1);
    if (!b) {
        plan_fail(lo, "out of memory");
        return NULL;
    }
    b->group = group;
    b->host = host;
    b->compress = compress;
    b->next = lo->buckets;
    lo->buckets = b;
    return b;
}

int64_t pdl_plan_bucket_bytes(const struct pdl_strategy *s)
{
    return s->exchange_paper ? INT64_MAX
           : s->bucket_bytes ? s->bucket_bytes
                             : DEFAULT_BUCKET;
}

/* For those who ask what a longer network does (roll.c). */
static void note(struct plan_lower *lo, uint32_t group, int64_t bytes,
                 bool full)
{
    if (lo->npushes == lo->push_cap) {
        int more = 2 * lo->push_cap + 256;
        void *p = pdl_arena_grow(lo->arena, lo->pushes, (size_t)lo->npushes,
                                 (size_t)more, sizeof *lo->pushes);

        if (!p) {
            plan_fail(lo, "out of memory");
            return;
        }
        lo->pushes = p;
        lo->push_cap = more;
    }
    lo->pushes[lo->npushes++] = (struct pdl_plan_push){
        lo->stage_now, lo->round_now, group, bytes, full};
}

static void update_weight(struct plan_lower *lo, int id, int node, bool host)
{
    int64_t limit = pdl_plan_bucket_bytes(lo->strategy);
    struct plan_weight *w = plan_weight_here(lo, id);
    struct plan_bucket *b;
    int64_t bytes;
    bool full;

    if (!w || w->grad < 0 || lo->status != PDL_OK)
        return;
    b = bucket_for(lo, partial_over(lo, w->grad), host,
                   pdl_strategy_compression(lo->strategy, lo->clause[node]));
    if (!b)
        return;
    b->weight[b->n] = w->state >= 0 ? w->state : w->tensor;
    b->whole[b->n] = w->state >= 0 ? w->tensor : -1;
    b->grad[b->n++] = w->grad;
    bytes = tensor_bytes(lo, w->grad);
    b->bytes += bytes;
    w->grad = -1; /* once, wherever else the weight is used */
    full = b->bytes >= limit || b->n == PLAN_MAX_BUCKET;
    if (lo->rolled)
        note(lo, b->group, bytes, full);
    if (full)
        flush(lo, b);
}

/* ZeRO 1: each rank gets the sum of its part (2 and 3 have it already). */
static void scatter_gradients(struct plan_lower *lo)
{
    for (int i = lo->model->nnodes - 1; i >= 0 && lo->strategy->zero; i--) {
        const struct pdl_node *n = &lo->model->nodes[i];

        plan_at_node(lo, i);
        for (int j = n->nweights - 1; lo->stage[i] == lo->stage_now && j >= 0;
             j--) {
            struct plan_weight *w = plan_weight_here(lo, n->weights[j]);

            if (w && w->grad >= 0)
                w->grad = plan_zero_scatter(lo, w);
        }
    }
}

/* The first layer of the stage that uses each tensor: backward makes the last
 * of a tied weight's gradient there. NULL: out of memory. */
static const int *first_users(struct plan_lower *lo)
{
    int *first = PDL_NEW(lo->arena, int, lo->model->ntensors + 1);

    for (int i = lo->model->nnodes - 1; first && i >= 0; i--)
        for (int j = 0; j < lo->model->nodes[i].nweights; j++)
            if (lo->stage[i] == lo->stage_now)
                first[lo->model->nodes[i].weights[j]] = i;
    return first;
}

/* Layers whose states stay come: what the host updates does not wait for the
 * next that go. */
static void flush_hosted(struct plan_lower *lo)
{
    for (struct plan_bucket *b = lo->buckets; b; b = b->next)
        if (b->host)
            flush(lo, b);
}

/* In the order of backward: last layers first. Tied weights once; those that
 * the host updates when all of their gradient is there, since copies of later
 * buckets wait for earlier ones. */
void plan_update(struct plan_lower *lo)
{
    const int *first = first_users(lo);

    if (!first) {
        plan_fail(lo, "out of memory");
        return;
    }
    scatter_gradients(lo);
    for (int i = lo->model->nnodes - 1; i >= 0; i--) {
        const struct pdl_node *n = &lo->model->nodes[i];

        if (lo->stage[i] != lo->stage_now)
            continue;
        plan_at_node(lo, i);
        if (n->nweights > 0 && !is_hosted(lo, i))
            flush_hosted(lo);
        for (int j = n->nweights - 1; j >= 0; j--) {
            bool host = is_hosted(lo, first[n->weights[j]]);

            if (!host || first[n->weights[j]] == i)
                update_weight(lo, n->weights[j], first[n->weights[j]], host);
        }
    }
    plan_at_node(lo, -1);
    for (struct plan_bucket *b = lo->buckets; b; b = b->next)
        flush(lo, b);
}
