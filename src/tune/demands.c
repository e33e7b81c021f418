/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of a plan sends between nodes: for every kind of operation over
 * the same axes, before and after the end of backward, one demand of all its
 * groups at once, as large as these operations are in the mean. The plan is the
 * same on all ranks, so that its groups do run at the same time. */
#include "tune_priv.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 32, MOST_RANKS = 1 << 16 };

struct kind {
    int op; /* the first */
    bool update;
    double count, bytes;
};

static bool in_update(const struct pdl_plan *p, int op)
{
    return op >= p->items[p->stages[0].first_update].first_op;
}

static double bytes_of(const struct pdl_plan *p, const int *t, int n)
{
    double sum = 0;

    for (int k = 0; k < n; k++)
        sum += (double)pdl_plan_elements(p, t[k], 0) *
               pdl_dtype_bits(p->tensors[t[k]].dtype) / 8;
    return sum;
}

static const char *collective_of(enum pdl_plan_op_kind kind)
{
    switch (kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        return "allreduce";
    case PDL_PLAN_OP_REDUCE_SCATTER:
        return "reduce-scatter";
    case PDL_PLAN_OP_ALLGATHER:
        return "allgather";
    case PDL_PLAN_OP_ALLTOALL:
    case PDL_PLAN_OP_ALLTOALLV:
        return "alltoall";
    case PDL_PLAN_OP_SEND:
    case PDL_PLAN_OP_ROTATE:
        return "send";
    default:
        return NULL;
    }
}

static void count(const struct pdl_plan *p, struct kind *k, int *n)
{
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *x = &p->ops[i];
        bool update = in_update(p, i);
        double times = update ? 1 : (double)p->micro_batches;
        int at = 0;

        if (!collective_of(x->kind) || x->group == 0)
            continue;
        while (at < *n &&
               (p->ops[k[at].op].kind != x->kind ||
                p->ops[k[at].op].group != x->group || k[at].update != update))
            at++;
        if (at == MOST)
            continue;
        if (at == *n)
            k[(*n)++] = (struct kind){i, update, 0, 0};
        k[at].count += times;
        k[at].bytes += times * (x->kind == PDL_PLAN_OP_ALLGATHER
                                    ? bytes_of(p, x->out, x->nout)
                                    : bytes_of(p, x->in, x->nin));
    }
}

/* All groups over these factors, in the order of their first ranks. */
static enum pdl_status place(pdl_arena *a, const struct pdl_plan *p,
                             uint32_t group, int64_t node, struct pdl_demand *d,
                             struct pdl_err *err)
{
    int64_t pes = p->mesh->pes, ranks[1], n, *who;
    bool near = true;
    int *host;

    n = pdl_mesh_group(p->mesh, 0, group, ranks, 1);
    who = PDL_NEW(a, int64_t, n + 1);
    host = PDL_NEW(a, int, pes + 1);
    if (!who || !host)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    d->members = (int)n;
    for (int64_t r = 0; r < pes; r++) {
        pdl_mesh_group(p->mesh, r, group, who, n);
        if (who[0] != r)
            continue;
        for (int64_t i = 0; i < n; i++) {
            host[(int64_t)d->groups * n + i] = (int)who[i];
            near = near && who[i] / node == r / node;
        }
        d->groups++;
    }
    d->host = host;
    d->times = near ? 0 : d->times;
    return PDL_OK;
}

/* Halos and other exchanges have no shape that is known here. */
static void name_left(pdl_arena *a, const struct pdl_plan *p, const char **left)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_HALO)
            *left = pdl_arena_strdup(a, "halo");
}

enum pdl_status pdl_plan_demands(pdl_arena *a, const struct pdl_plan *plan,
                                 int64_t node, struct pdl_demand **out, int *n,
                                 const char **left, struct pdl_err *err)
{
    struct pdl_demand *d = PDL_NEW(a, struct pdl_demand, MOST);
    struct kind kinds[MOST];
    int nkinds = 0;
    enum pdl_status st = PDL_OK;

    *left = NULL;
    *n = 0;
    if (plan->mesh->pes > MOST_RANKS)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld ranks are more than %d that are simulated",
                        (long long)plan->mesh->pes, MOST_RANKS);
    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    count(plan, kinds, &nkinds);
    for (int i = 0; i < nkinds && st == PDL_OK; i++) {
        const struct pdl_plan_op *x = &plan->ops[kinds[i].op];
        struct pdl_demand one = {
            .collective = collective_of(x->kind),
            .times = kinds[i].count,
            .bytes = (int64_t)(kinds[i].bytes / kinds[i].count)};

        st = place(a, plan, x->group, node, &one, err);
        one.name = pdl_arena_printf(
            a, "%s%s over %d", pdl_plan_op_name(x->kind),
            kinds[i].update ? " of gradients" : "", one.members);
        if (st == PDL_OK && one.times > 0 && one.members > 1 && one.bytes > 0)
            d[(*n)++] = one;
    }
    name_left(a, plan, left);
    *out = d;
    return st;
}
