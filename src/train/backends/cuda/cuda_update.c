/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of weights come one by one and go in one launch: they are gathered
 * until anything else is given to their stream. Where all of them lie is a
 * table on the device, which is sent again when it changes: as good as
 * never. */
#include "train/backends/cuda/cuda.h"
#include "train/optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cuda_updates {
    struct cuda_update how;
    int n, room, sent;
    struct cuda_weight *weights; /* gathered: n */
    struct cuda_weight *there;   /* on the device: sent */
    void *table;                 /* there: weights, then pieces */
    int64_t pieces;
};

static struct cuda_update numbers(const struct train_tuning *x)
{
    const struct train_hyper *h = &x->hyper;
    bool adamw = x->how == &train_optim_adamw, sgd = x->how == &train_optim_sgd;
    double t = (double)x->step.t;
    double lr = sgd ? x->step.lr : x->step.lr / (1 - pow(h->beta1, t));
    double fresh = x->step.t == 1 ? 1 : 1 - h->dampening;

    return (struct cuda_update){
        .adam = !sgd,
        .nesterov = h->nesterov,
        .lr = (float)lr,
        .scale = (float)x->step.grad_scale,
        .decay = (float)h->weight_decay,
        .momentum = (float)h->momentum,
        .fresh = (float)(h->momentum != 0 ? fresh : 1),
        .beta1 = (float)h->beta1,
        .beta2 = (float)h->beta2,
        .eps = (float)h->eps,
        .coupled = adamw ? 0 : (float)h->weight_decay,
        .shrink = adamw ? (float)(x->step.lr * h->weight_decay) : 0,
        .root = (float)sqrt(1 - pow(h->beta2, t))};
}

static struct cuda_weight weight_of(const struct train_tuning *x,
                                    const struct train_task *t)
{
    bool sgd = x->how == &train_optim_sgd;
    int k = 2;
    void *state[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++)
        state[i] = x->has[i] ? t->span[k++].at : NULL;
    return (struct cuda_weight){
        .w = t->span[0].at,
        .g = t->span[1].at,
        .m = sgd && !(x->hyper.momentum > 0) ? NULL : state[0],
        .v = state[1],
        .copy = x->has[2] ? t->span[k].at : NULL,
        .n = x->shard.n,
        .wide = x->shard.grad_dtype == PDL_F32,
        .decays = !x->shard.no_decay};
}

static bool grow(struct cuda_updates *u)
{
    int room = 2 * u->room + 64;
    struct cuda_weight *w =
        realloc(u->weights, (size_t)room * sizeof u->weights[0]);

    if (w)
        u->weights = w;
    u->room = w ? room : u->room;
    return w != NULL;
}

static bool same(const struct cuda_update *x, const struct cuda_update *y)
{
    return x->adam == y->adam && x->nesterov == y->nesterov && x->lr == y->lr &&
           x->scale == y->scale && x->decay == y->decay &&
           x->momentum == y->momentum && x->fresh == y->fresh &&
           x->beta1 == y->beta1 && x->beta2 == y->beta2 && x->eps == y->eps &&
           x->coupled == y->coupled && x->shrink == y->shrink &&
           x->root == y->root;
}

bool train_cuda_take_update(struct cuda_state *s, const struct train_task *t)
{
    const struct train_tuning *x = t->args;
    struct cuda_update how = numbers(x);
    struct cuda_updates *u = s->updates;

    if (x->shard.dtype != PDL_F32 || x->shard.grad_dtype == PDL_F64 ||
        (x->how != &train_optim_sgd && x->how != &train_optim_adam &&
         x->how != &train_optim_adamw))
        return false;
    if (!u)
        u = s->updates = PDL_NEW(s->arena, struct cuda_updates, 1);
    if (!u)
        return false;
    if (u->n > 0 && !same(&u->how, &how))
        (void)train_cuda_queue(s, TRAIN_COMPUTE);
    if (u->n == u->room && !grow(u))
        return false;
    u->how = how;
    u->weights[u->n++] = weight_of(x, t);
    return true;
}

static int64_t pieces_of(const struct cuda_weight *w)
{
    return (w->n + CUDA_PIECE - 1) / CUDA_PIECE;
}

/* The table as it is to be on the device. */
static cudaError_t send(struct cuda_updates *u, cudaStream_t st)
{
    size_t head = (size_t)u->n * sizeof u->weights[0], bytes;
    struct cuda_piece *piece;
    cudaError_t e;
    char *table;

    u->sent = 0;
    u->pieces = 0;
    for (int i = 0; i < u->n; i++)
        u->pieces += pieces_of(&u->weights[i]);
    bytes = head + (size_t)u->pieces * sizeof *piece;
    table = realloc(u->there, bytes);
    if (!table)
        return cudaErrorMemoryAllocation;
    u->there = (struct cuda_weight *)table;
    memcpy(table, u->weights, head);
    piece = (struct cuda_piece *)(table + head);
    for (int i = 0; i < u->n; i++)
        for (int32_t k = 0; k < pieces_of(&u->weights[i]); k++)
            *piece++ = (struct cuda_piece){i, k};
    e = cudaStreamSynchronize(st); /* nobody reads the old one */
    (void)!cudaFree(u->table);
    u->table = NULL;
    if (e == cudaSuccess)
        e = cudaMalloc(&u->table, bytes);
    if (e == cudaSuccess)
        e = cudaMemcpy(u->table, table, bytes, cudaMemcpyHostToDevice);
    if (e == cudaSuccess)
        u->sent = u->n;
    return e;
}

static cudaError_t flush(struct cuda_updates *u, cudaStream_t st)
{
    size_t head = (size_t)u->n * sizeof u->weights[0];
    cudaError_t e = cudaSuccess;

    if (u->sent != u->n || memcmp(u->weights, u->there, head) != 0)
        e = send(u, st);
    u->n = 0;
    return e == cudaSuccess && u->pieces > 0
               ? train_cuda_update(
                     st, &u->how, u->table,
                     (const struct cuda_piece *)((const char *)u->table + head),
                     u->pieces)
               : e;
}

cudaStream_t train_cuda_queue(struct cuda_state *s, enum train_stream stream)
{
    cudaStream_t st = s->stream[stream];
    cudaError_t e = cudaSuccess;

    if (stream == TRAIN_COMPUTE && s->updates && s->updates->n > 0)
        e = flush(s->updates, st);
    if (e != cudaSuccess && s->st == PDL_OK)
        s->st = train_cuda_fail(&s->err, e, "update");
    return st;
}

void train_cuda_drop_updates(struct cuda_state *s)
{
    if (!s->updates)
        return;
    (void)!cudaFree(s->updates->table);
    free(s->updates->weights);
    free(s->updates->there);
}
