/* Three allreduces written as traffic, so that the tests of the simulator need
 * no other room; an exchange that follows the one before it, and a run that
 * must not fail. */
#ifndef NET_ALLREDUCE_TRAFFIC_H
#define NET_ALLREDUCE_TRAFFIC_H

#include "net_cases.h"

struct allreduce {
    int n;
    int64_t bytes;
    bool chain_only; /* no alike(): every operation is asked for */
};

static inline int log2_of(int n)
{
    int k = 0;

    while (1 << k < n)
        k++;
    return k;
}

static inline void exchange(int64_t i, int peer_to, int peer_from, int64_t sent,
                            int64_t received, struct pdl_traffic_op *out)
{
    *out = (struct pdl_traffic_op){peer_to, peer_from, sent, received,
                                   i > 0,   {i - 1},   0};
}

/* Chunk c of n bytes on p ranks: the first ones are a byte longer. */
static inline int64_t chunk(const struct allreduce *a, int64_t c)
{
    c = (c % a->n + a->n) % a->n;
    return a->bytes / a->n + (c < a->bytes % a->n);
}

static inline int64_t ring_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * (((struct allreduce *)ctx)->n - 1);
}

static inline void ring_op(void *ctx, int rank, int64_t i,
                           struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;

    exchange(i, rank + 1 == a->n ? 0 : rank + 1,
             rank == 0 ? a->n - 1 : rank - 1, chunk(a, rank - i),
             chunk(a, rank - 1 - i), out);
}

static inline int64_t ring_alike(void *ctx, int64_t i)
{
    const struct allreduce *a = ctx;

    return a->bytes % a->n ? 1 : 2 * (a->n - 1) - i;
}

static inline int64_t doubling_nops(void *ctx, int rank)
{
    (void)rank;
    return log2_of(((struct allreduce *)ctx)->n);
}

static inline void doubling_op(void *ctx, int rank, int64_t i,
                               struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;
    int peer = rank ^ 1 << i;

    exchange(i, peer, peer, a->bytes, a->bytes, out);
}

static inline int64_t halving_nops(void *ctx, int rank)
{
    (void)rank;
    return 2 * log2_of(((struct allreduce *)ctx)->n);
}

static inline void halving_op(void *ctx, int rank, int64_t i,
                              struct pdl_traffic_op *out)
{
    const struct allreduce *a = ctx;
    int k = log2_of(a->n), d = i < k ? a->n >> (i + 1) : 1 << (i - k);

    exchange(i, rank ^ d, rank ^ d, a->bytes / a->n * d, a->bytes / a->n * d,
             out);
}

static const struct {
    const char *name;
    int64_t (*nops)(void *, int);
    void (*op)(void *, int, int64_t, struct pdl_traffic_op *);
    int64_t (*alike)(void *, int64_t);
} algorithms[] = {
    {"ring", ring_nops, ring_op, ring_alike},
    {"recursive-doubling", doubling_nops, doubling_op, NULL},
    {"halving-doubling-far", halving_nops, halving_op, NULL},
};
enum { NALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

static inline struct pdl_traffic traffic_of(const char *name,
                                            struct allreduce *a)
{
    for (int i = 0; i < NALGORITHMS; i++)
        if (strcmp(algorithms[i].name, name) == 0)
            return (struct pdl_traffic){
                .nranks = a->n,
                .ctx = a,
                .nops = algorithms[i].nops,
                .op = algorithms[i].op,
                .alike = a->chain_only ? NULL : algorithms[i].alike,
                .window = 1};
    fail_msg("no algorithm '%s'", name);
    return (struct pdl_traffic){.nranks = 0};
}

static inline struct pdl_sim_result run(pdl_arena *a, const struct pdl_net *net,
                                        const struct pdl_traffic *t,
                                        const struct pdl_sim_config *config)
{
    struct pdl_sim_result out;
    struct pdl_err err = {"", ""};

    if (pdl_sim_run(a, net, t, config, &out, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return out;
}

#endif
