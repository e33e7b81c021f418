/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of a plan sends between nodes: for every kind of operation over
 * the same axes, before and after the end of backward, one demand of all its
 * groups at once. A pipeline's stages work at the same time, so each group has
 * what its own stages send, in as many equal parts as the stage with the most
 * such operations has of them. Sends that go the same way, as far, are a kind.
 */
#include "tune_priv.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 1 << 16 };

struct kind {
    int op; /* the first */
    bool update, back;
    int ahead;             /* sends: lanes from who sends to who receives */
    double *count, *bytes; /* of each lane */
};

struct counts {
    pdl_arena *arena;
    const struct pdl_plan *p;
    struct kind *kind;
    int n, cap;
    bool failed;
};

/* ---- what every lane sends ---------------------------------------------- */

static bool is_sent(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_SEND || kind == PDL_PLAN_OP_ROTATE;
}

static const char *collective_of(enum pdl_plan_op_kind kind)
{
    if (is_sent(kind))
        return "send";
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
    default:
        return NULL;
    }
}

static double bytes_of(const struct pdl_plan *p, const int *t, int n, int lane)
{
    int64_t rank = pdl_plan_lane_rank(p, lane);
    double sum = 0;

    for (int k = 0; k < n; k++)
        sum += (double)pdl_plan_elements(p, t[k], rank) *
               pdl_dtype_bits(p->tensors[t[k]].dtype) / 8;
    return sum;
}

static bool same(const struct pdl_plan *p, const struct kind *x,
                 const struct kind *y)
{
    return p->ops[x->op].kind == p->ops[y->op].kind &&
           p->ops[x->op].group == p->ops[y->op].group &&
           x->update == y->update && x->back == y->back && x->ahead == y->ahead;
}

/* The kind that is like this one; NULL: no memory for it. */
static struct kind *find(struct counts *c, const struct kind *like)
{
    size_t lanes = (size_t)c->p->lanes + 1;
    struct kind *k;
    int at = 0;

    while (at < c->n && !same(c->p, &c->kind[at], like))
        at++;
    if (at < c->n)
        return &c->kind[at];
    if (c->n == c->cap) {
        k = PDL_NEW(c->arena, struct kind, 2 * c->cap + 16);
        if (!k)
            return NULL;
        if (c->n > 0)
            memcpy(k, c->kind, (size_t)c->n * sizeof *k);
        c->kind = k;
        c->cap = 2 * c->cap + 16;
    }
    k = &c->kind[c->n];
    *k = *like;
    k->count = PDL_NEW(c->arena, double, lanes);
    k->bytes = PDL_NEW(c->arena, double, lanes);
    if (!k->count || !k->bytes)
        return NULL;
    c->n++;
    return k;
}

static void count_op(struct counts *c, int op, bool update, double times)
{
    const struct pdl_plan *p = c->p;
    const struct pdl_plan_op *x = &p->ops[op];
    struct kind like = {.op = op, .update = update}, *k;
    int from, lane;
    double in, out;

    if (!collective_of(x->kind) || x->group == 0)
        return;
    from = p->tensors[x->in[0]].stage;
    lane = pdl_plan_lane(p, from);
    in = bytes_of(p, x->in, x->nin, lane);
    out = bytes_of(p, x->out, x->nout, lane);
    if (x->kind == PDL_PLAN_OP_SEND) {
        int to = p->tensors[x->out[0]].stage;

        like.back = to < from;
        like.ahead = (pdl_plan_lane(p, to) - lane + p->lanes) % p->lanes;
        if (like.ahead == 0)
            return; /* stays where it is */
    } else if (x->kind == PDL_PLAN_OP_ROTATE) {
        int64_t n = pdl_mesh_group(p->mesh, 0, x->group, NULL, 0);

        /* a block goes to all others, or the sum for it and home */
        times *= (double)(p->tensors[x->in[0]].of > 0 ? n : n - 1);
        in = in < out ? in : out;
        like.ahead = 1;
    }
    k = find(c, &like);
    c->failed = c->failed || !k;
    if (!k)
        return;
    k->count[lane] += times;
    k->bytes[lane] += times * (x->kind == PDL_PLAN_OP_ALLGATHER ? out : in);
}

static void count_items(struct counts *c, int first, int n, bool update)
{
    for (int i = first; i < first + n; i++) {
        const struct pdl_plan_item *item = &c->p->items[i];
        double times =
            (double)item->repeat * (update ? 1 : (double)c->p->micro_batches);

        for (int op = 0; op < item->nops; op++)
            count_op(c, item->first_op + op, update, times);
    }
}

static void count(struct counts *c)
{
    const struct pdl_plan_stage *s = c->p->stages;
    int n = c->p->nstages;

    for (int i = 0; i < n; i++)
        count_items(c, s[i].first_forward, s[i].nforward, false);
    for (int i = 0; i < n; i++)
        count_items(c, s[i].first_backward, s[i].nbackward, false);
    for (int i = 0; i < n; i++)
        count_items(c, s[i].first_update, s[i].nupdate, true);
}

/* ---- as demands --------------------------------------------------------- */

/* One more group, of these ranks; a group that sends nothing is left out. */
static void add_group(const struct pdl_plan *p, const struct kind *k,
                      const int64_t *who, struct pdl_demand *d, int *host,
                      int64_t *each)
{
    bool send = is_sent(p->ops[k->op].kind);
    int64_t n = d->members, at = d->groups * n, most = 0;

    for (int64_t i = 0; i < n; i++) {
        double sum = k->bytes[pdl_plan_rank_lane(p, who[i])];
        int64_t bytes = (int64_t)(sum / d->times);

        host[at + i] = (int)who[i];
        each[send ? at + i : d->groups] = bytes;
        most = bytes > most ? bytes : most;
    }
    d->bytes = most > d->bytes ? most : d->bytes;
    d->groups += most > 0;
}

/* All groups over the kind's factors, in the order of their first ranks. */
static enum pdl_status place(pdl_arena *a, const struct pdl_plan *p,
                             const struct kind *k, int64_t node,
                             struct pdl_demand *d, struct pdl_err *err)
{
    uint32_t group = p->ops[k->op].group;
    int64_t pes = p->mesh->pes, n = pdl_mesh_group(p->mesh, 0, group, NULL, 0);
    int64_t *who = PDL_NEW(a, int64_t, n + 1),
            *each = PDL_NEW(a, int64_t, pes + 1);
    int *host = PDL_NEW(a, int, pes + 1);
    bool near = true;

    if (!who || !host || !each)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    d->members = (int)n;
    for (int64_t r = 0; r < pes; r++) {
        int before = d->groups;

        pdl_mesh_group(p->mesh, r, group, who, n);
        if (who[0] != r)
            continue;
        add_group(p, k, who, d, host, each);
        for (int64_t i = 0; i < n && d->groups > before; i++)
            near = near && who[i] / node == r / node;
    }
    d->host = n < pes ? host : NULL; /* all ranks are a group: in order */
    d->each = each;
    d->times = near ? 0 : d->times;
    return PDL_OK;
}

static enum pdl_status demand_of(pdl_arena *a, const struct pdl_plan *p,
                                 const struct kind *k, int64_t node,
                                 struct pdl_demand *out, struct pdl_err *err)
{
    const struct pdl_plan_op *x = &p->ops[k->op];
    struct pdl_demand d = {.collective = collective_of(x->kind),
                           .ahead = k->ahead};
    enum pdl_status st;

    for (int l = 0; l < p->lanes; l++)
        d.times = k->count[l] > d.times ? k->count[l] : d.times;
    st = place(a, p, k, node, &d, err);
    if (st != PDL_OK)
        return st;
    d.name = pdl_arena_printf(a, "%s%s%s over %d", pdl_plan_op_name(x->kind),
                              k->back ? " back" : "",
                              k->update ? " of gradients" : "", d.members);
    *out = d;
    return d.name ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
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
    struct counts c = {.arena = a, .p = plan};
    struct pdl_demand *d;
    enum pdl_status st = PDL_OK;

    *left = NULL;
    *n = 0;
    if (plan->mesh->pes > MOST_RANKS)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld ranks are more than %d that are simulated",
                        (long long)plan->mesh->pes, MOST_RANKS);
    count(&c);
    d = PDL_NEW(a, struct pdl_demand, c.n + 1);
    if (!d || c.failed)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c.n && st == PDL_OK; i++) {
        struct pdl_demand one = {.groups = 0};

        st = demand_of(a, plan, &c.kind[i], node, &one, err);
        if (st == PDL_OK && one.times > 0 && one.members > 1 && one.groups > 0)
            d[(*n)++] = one;
    }
    name_left(a, plan, left);
    *out = d;
    return st;
}
