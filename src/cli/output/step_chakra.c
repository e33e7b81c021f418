/* SPDX-License-Identifier: Apache-2.0
 *
 * A step as execution traces of Chakra, a file a PE: computations take what
 * they are projected to, collectives and messages have their bytes, and a node
 * waits for what makes its inputs. What the network makes of it is the
 * reader's (ASTRA-sim, paradl simulate). PREFIX.groups.json has the ranks of
 * each group. */
#include "cli/output/projection.h"
#include "paradl/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 14, MOST_AFTER = 1 << 12 };

/* An operation of a micro-batch on the ranks of a lane. */
struct piece {
    int op, stage;
    int64_t micro; /* -1: once a step */
    double start_s, seconds;
    bool receives; /* the other end of a message */
};

struct step {
    const struct cli_job *j;
    const struct pdl_plan *p;
    pdl_arena *arena;
    const int *maker; /* of each tensor: the operation that makes it; -1 */
    int64_t micros;
    struct piece *all; /* of every operation and micro-batch */
    int64_t nall;
    int rank, lane;
    struct piece *list; /* of the lane, by their beginning */
    int64_t n;
    int64_t after[MOST_AFTER], last[2]; /* computed; went on beside it */
    struct pdl_json groups;
    struct pdl_err *err;
};

static enum pdl_status no_memory(const struct step *s)
{
    return pdl_fail(s->err, PDL_ENOMEM, "out of memory");
}

/* ---- what an operation is ------------------------------------------------ */

static const struct {
    enum pdl_plan_op_kind kind;
    const char *name;
} collectives[] = {
    {PDL_PLAN_OP_ALLREDUCE, "allreduce"},
    {PDL_PLAN_OP_REDUCE_SCATTER, "reduce-scatter"},
    {PDL_PLAN_OP_ALLGATHER, "allgather"},
    {PDL_PLAN_OP_ALLTOALL, "alltoall"},
    {PDL_PLAN_OP_ALLTOALLV, "alltoall"},
};

static const char *collective_of(const struct pdl_plan_op *o)
{
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        if (collectives[i].kind == o->kind && o->group)
            return collectives[i].name;
    return NULL;
}

static int from_lane(const struct step *s, const struct pdl_plan_op *o)
{
    return pdl_plan_lane(s->p, s->p->tensors[o->in[0]].stage);
}

static int to_lane(const struct step *s, const struct pdl_plan_op *o)
{
    return pdl_plan_lane(s->p, s->p->tensors[o->out[0]].stage);
}

static bool is_message(const struct step *s, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_SEND && from_lane(s, o) != to_lane(s, o);
}

/* What a rank puts in. */
static int64_t bytes_of(const struct step *s, const struct pdl_plan_op *o,
                        int64_t rank)
{
    double sum = 0;

    for (int k = 0; k < o->nin; k++)
        sum += (double)pdl_plan_elements(s->p, o->in[k], rank) *
               pdl_dtype_bits(s->p->tensors[o->in[k]].dtype) / 8;
    return (int64_t)sum;
}

static int64_t first_of(const struct step *s, uint32_t group)
{
    int64_t first = s->rank;

    pdl_mesh_group(s->p->mesh, s->rank, group, &first, 1);
    return first;
}

/* ---- all pieces ---------------------------------------------------------- */

static int64_t slot(const struct step *s, int op, int64_t micro)
{
    return op * (s->micros + 1) + micro + 1;
}

static int64_t id_of(const struct step *s, int op, int64_t micro, bool receives)
{
    return 2 * slot(s, op, micro) + receives;
}

/* A send has both ends. */
static bool is_left_out(const struct pdl_plan *p, int op)
{
    return p->ops[op].kind == PDL_PLAN_OP_FREE ||
           p->ops[op].kind == PDL_PLAN_OP_RECV;
}

static void add_items(struct step *s, int stage, int first, int n,
                      int64_t micro)
{
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < s->p->items[i].nops; k++) {
            int op = s->p->items[i].first_op + k;

            if (!is_left_out(s->p, op))
                s->all[slot(s, op, micro)] =
                    (struct piece){.op = op, .stage = stage, .micro = micro};
        }
}

static enum pdl_status list_all(struct step *s, const struct pdl_timeline *line)
{
    s->nall = (int64_t)s->p->nops * (s->micros + 1);
    s->all = PDL_NEW(s->arena, struct piece, s->nall + 1);
    s->list = PDL_NEW(s->arena, struct piece, s->nall + 1);
    if (!s->all || !s->list)
        return no_memory(s);
    for (int64_t i = 0; i < s->nall; i++)
        s->all[i].op = -1;
    for (int i = 0; i < s->p->nstages; i++) {
        const struct pdl_plan_stage *g = &s->p->stages[i];

        for (int64_t m = 0; m < s->micros; m++) {
            add_items(s, i, g->first_forward, g->nforward, m);
            add_items(s, i, g->first_backward, g->nbackward, m);
        }
        add_items(s, i, g->first_update, g->nupdate, -1);
    }
    for (int64_t i = 0; i < line->n; i++) {
        const struct pdl_event *e = &line->events[i];
        struct piece *x = &s->all[slot(s, e->op, e->micro)];

        x->start_s = e->start_s;
        x->seconds = e->seconds;
    }
    return PDL_OK;
}

static enum pdl_status find_makers(struct step *s)
{
    int *maker = PDL_NEW(s->arena, int, s->p->ntensors + 1);

    if (!maker)
        return no_memory(s);
    for (int t = 0; t < s->p->ntensors; t++)
        maker[t] = -1;
    for (int i = 0; i < s->p->nops; i++)
        for (int k = 0; k < s->p->ops[i].nout && !is_left_out(s->p, i); k++)
            maker[s->p->ops[i].out[k]] = i;
    s->maker = maker;
    return PDL_OK;
}

/* ---- of one rank --------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    if (x->micro != y->micro)
        return x->micro < y->micro ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

/* What the lane does, and the messages that it gets. */
static void list_lane(struct step *s)
{
    s->n = 0;
    for (int64_t i = 0; i < s->nall; i++) {
        struct piece x = s->all[i];
        const struct pdl_plan_op *o = x.op >= 0 ? &s->p->ops[x.op] : NULL;

        if (!o)
            continue;
        if (pdl_plan_lane(s->p, x.stage) == s->lane)
            s->list[s->n++] = x;
        if (is_message(s, o) && to_lane(s, o) == s->lane) {
            x.receives = true;
            x.start_s += x.seconds;
            s->list[s->n++] = x;
        }
    }
    if (s->n > 1)
        qsort(s->list, (size_t)s->n, sizeof *s->list, by_start);
}

/* What makes the inputs: of the same micro-batch, or of the last one. */
static int waits_of(struct step *s, const struct piece *x)
{
    const struct pdl_plan_op *o = &s->p->ops[x->op];
    int n = 0;

    for (int k = 0; k < o->nin && !x->receives && n < MOST_AFTER - 1; k++) {
        int m = s->maker[o->in[k]];
        int64_t micro = x->micro < 0 ? s->micros - 1 : x->micro;
        const struct piece *made;
        bool got; /* from another lane */

        if (m < 0 || m == x->op)
            continue;
        if (s->all[slot(s, m, micro)].op < 0)
            micro = -1;
        made = &s->all[slot(s, m, micro)];
        got = made->op >= 0 && is_message(s, &s->p->ops[m]) &&
              to_lane(s, &s->p->ops[m]) == s->lane;
        if (made->op < 0 || (x->micro >= 0 && micro < 0) ||
            (!got && pdl_plan_lane(s->p, made->stage) != s->lane))
            continue;
        s->after[n++] = id_of(s, m, micro, got);
    }
    return n;
}

static const char *group_name(const struct step *s, uint32_t group, char *buf,
                              size_t size)
{
    snprintf(buf, size, "axes%x.%lld", (unsigned)group,
             (long long)first_of(s, group));
    return buf;
}

static int64_t partner(const struct step *s, int lane)
{
    return s->rank + pdl_plan_lane_rank(s->p, lane) -
           pdl_plan_lane_rank(s->p, s->lane);
}

static void be_message(struct step *s, const struct piece *x,
                       struct pdl_chakra_node *n)
{
    const struct pdl_plan_op *o = &s->p->ops[x->op];

    n->kind = x->receives ? PDL_CHAKRA_RECV : PDL_CHAKRA_SEND;
    n->peer = (int)partner(s, x->receives ? from_lane(s, o) : to_lane(s, o));
    n->bytes = bytes_of(s, o, x->receives ? n->peer : s->rank);
    n->tag = x->op;
    n->seconds = 0;
}

static bool is_beside(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COPY_OUT || o->kind == PDL_PLAN_OP_COPY_IN;
}

/* Computations follow each other, and so do copies. */
static void follow(struct step *s, const struct piece *x,
                   struct pdl_chakra_node *n)
{
    int64_t *last = &s->last[is_beside(&s->p->ops[x->op])];

    if (x->seconds <= 0)
        return;
    n->kind = PDL_CHAKRA_COMPUTE;
    n->stream = is_beside(&s->p->ops[x->op]);
    if (*last >= 0)
        s->after[n->nafter++] = *last;
    *last = n->id;
}

static enum pdl_status put_piece(struct step *s, const struct piece *x,
                                 struct pdl_sink *out)
{
    const struct pdl_plan_op *o = &s->p->ops[x->op];
    char name[256], group[48];
    struct pdl_chakra_node n = {
        .id = id_of(s, x->op, x->micro, x->receives),
        .name = pdl_plan_op_text(s->p, x->op, name, sizeof name),
        .start_s = x->start_s > 0 ? x->start_s : 0,
        .seconds = x->seconds,
        .stream = -1,
        .rank = s->rank,
        .nafter = waits_of(s, x),
        .after = s->after,
    };

    if (collective_of(o) &&
        pdl_mesh_group(s->p->mesh, s->rank, o->group, NULL, 0) > 1) {
        n.kind = PDL_CHAKRA_COLLECTIVE;
        n.collective = collective_of(o);
        n.group = group_name(s, o->group, group, sizeof group);
        /* of all ranks as many: parts that do not divide differ by a bit */
        n.bytes = bytes_of(s, o, first_of(s, o->group));
        n.seconds = 0;
    } else if (is_message(s, o)) {
        be_message(s, x, &n);
    } else {
        follow(s, x, &n);
    }
    return pdl_chakra_put(&n, out, s->err);
}

static enum pdl_status write_rank(struct step *s, const char *prefix)
{
    char path[4096];
    struct pdl_buf b;
    enum pdl_status st;

    s->lane = pdl_plan_rank_lane(s->p, s->rank);
    s->last[0] = s->last[1] = -1;
    list_lane(s);
    pdl_buf_init(&b);
    st = pdl_chakra_begin(&b.sink, s->err);
    for (int64_t i = 0; i < s->n && st == PDL_OK; i++)
        st = put_piece(s, &s->list[i], &b.sink);
    snprintf(path, sizeof path, "%s.%d.et", prefix, s->rank);
    if (st == PDL_OK)
        st = pdl_file_write(path, b.text, b.len, s->err);
    pdl_buf_free(&b);
    return st;
}

/* ---- groups -------------------------------------------------------------- */

/* Has an operation before this one the same axes? */
static bool is_new(const struct pdl_plan *p, int op)
{
    for (int i = 0; i < op; i++)
        if (p->ops[i].group == p->ops[op].group && collective_of(&p->ops[i]))
            return false;
    return true;
}

static enum pdl_status write_groups(struct step *s, const char *prefix)
{
    int64_t pes = s->p->mesh->pes, *who = PDL_NEW(s->arena, int64_t, pes);
    char path[4096], name[48];
    struct pdl_buf b;
    enum pdl_status st;

    if (!who)
        return no_memory(s);
    pdl_buf_init(&b);
    pdl_json_init(&s->groups, &b.sink);
    pdl_json_object(&s->groups);
    for (int i = 0; i < s->p->nops; i++)
        for (s->rank = 0;
             collective_of(&s->p->ops[i]) && is_new(s->p, i) && s->rank < pes;
             s->rank++) {
            int64_t n = pdl_mesh_group(s->p->mesh, s->rank, s->p->ops[i].group,
                                       who, pes);

            if (who[0] != s->rank || n < 2)
                continue;
            pdl_json_key(&s->groups,
                         group_name(s, s->p->ops[i].group, name, sizeof name));
            pdl_json_flat(&s->groups);
            for (int64_t k = 0; k < n; k++)
                pdl_json_int(&s->groups, who[k]);
            pdl_json_end(&s->groups);
        }
    pdl_json_end(&s->groups);
    snprintf(path, sizeof path, "%s.groups.json", prefix);
    st = b.sink.failed ? no_memory(s)
                       : pdl_file_write(path, b.text, b.len, s->err);
    pdl_buf_free(&b);
    return st;
}

static enum pdl_status check(const struct step *s)
{
    if (s->p->mesh->pes > MOST_RANKS)
        return pdl_fail(s->err, PDL_EINVAL, "--chakra writes at most %d PEs",
                        MOST_RANKS);
    for (int i = 0; i < s->p->nops; i++) {
        const struct pdl_plan_op *o = &s->p->ops[i];

        if (o->kind == PDL_PLAN_OP_HALO || o->kind == PDL_PLAN_OP_ROTATE ||
            o->compress)
            return pdl_fail(s->err, PDL_EINVAL,
                            "--chakra: its traces have no %s",
                            o->compress ? "compressed gradients"
                                        : pdl_plan_op_name(o->kind));
    }
    return PDL_OK;
}

int cli_job_chakra(const struct cli_job *j, const char *prefix)
{
    struct pdl_err err = {"", ""};
    pdl_arena *a = pdl_arena_create((size_t)8 << 30);
    struct step *s = a ? PDL_NEW(a, struct step, 1) : NULL;
    struct pdl_timeline line;
    enum pdl_status st = PDL_OK;

    if (!s) {
        pdl_arena_destroy(a);
        return cli_fail(pdl_fail(&err, PDL_ENOMEM, "out of memory"), &err);
    }
    *s = (struct step){.j = j,
                       .p = j->plan,
                       .arena = a,
                       .micros = j->plan->micro_batches,
                       .err = &err};
    st = check(s);
    if (st == PDL_OK)
        st = pdl_timeline(a, j->plan, &j->sys, &j->oracle, &line, &err);
    if (st == PDL_OK)
        st = list_all(s, &line);
    if (st == PDL_OK)
        st = find_makers(s);
    if (st == PDL_OK)
        st = write_groups(s, prefix);
    for (s->rank = 0; s->rank < j->plan->mesh->pes && st == PDL_OK; s->rank++)
        st = write_rank(s, prefix);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}
