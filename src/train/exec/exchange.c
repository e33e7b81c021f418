/* SPDX-License-Identifier: Apache-2.0
 *
 * What crosses ranks. A move (allgather, alltoall, halo, slice) is a list of
 * box intersections: every item of this rank's result comes from the rank
 * itself if it has it, else from the first rank of the group that has it.
 * Sums are taken in the order of the group's ranks, so that the bits do not
 * depend on the transport: reduce-scatter here, allreduce by the
 * communicator's fixed order. */
#include "train/train_priv.h"

#include <string.h>

enum { MAX_GROUP = 4096, SUM_BYTES = 65536 };

/* Marks the communicator for what goes on behind backward. */
static const uint32_t BEHIND = UINT32_C(1) << 31;
/* ... and that for keys that turn while attention works. */
static const uint32_t TURNING = UINT32_C(1) << 30;

static bool is_sum(const struct pdl_plan *p, int op)
{
    const struct pdl_plan_op *o = &p->ops[op];

    return o->kind == PDL_PLAN_OP_ALLREDUCE ||
           o->kind == PDL_PLAN_OP_REDUCE_SCATTER;
}

enum pdl_comm_type train_comm_type(enum pdl_dtype t)
{
    return t == PDL_F64    ? PDL_COMM_F64
           : t == PDL_BF16 ? PDL_COMM_BF16
                           : PDL_COMM_F32;
}

/* ---- groups ----------------------------------------------------------- */

static bool same_algorithm(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Groups that sum by an algorithm have a communicator of their own. */
static enum pdl_status group_comm(pdl_trainer *t, uint32_t factors,
                                  const char *algorithm, const int64_t *ranks,
                                  int n, pdl_comm **out, struct pdl_err *err)
{
    int members[MAX_GROUP];
    enum pdl_status st;

    *out = NULL;
    for (int i = 0; i < t->ngroups; i++)
        if (t->groups[i].factors == factors &&
            same_algorithm(t->groups[i].algorithm, algorithm)) {
            *out = t->groups[i].comm;
            return PDL_OK;
        }
    for (int i = 0; i < n; i++)
        members[i] = (int)ranks[i];
    st = pdl_comm_subset(t->world, n, members, out, err);
    if (st == PDL_OK)
        t->groups[t->ngroups++] =
            (struct train_groups){factors, algorithm, *out};
    return st == PDL_OK && algorithm
               ? pdl_comm_set_algorithm(*out, algorithm, err)
               : st;
}

/* The communicator of this rank's group over some factors, NULL: alone. */
enum pdl_status train_group(pdl_trainer *t, uint32_t factors,
                            const char *algorithm, pdl_comm **out,
                            struct pdl_err *err)
{
    int64_t ranks[MAX_GROUP];
    int64_t n =
        pdl_mesh_group(t->plan->mesh, t->rank, factors, ranks, MAX_GROUP);

    *out = NULL;
    if (n > MAX_GROUP)
        return pdl_fail(err, PDL_EINVAL, "a group of %lld ranks is too large",
                        (long long)n);
    return n > 1 ? group_comm(t, factors, algorithm, ranks, (int)n, out, err)
                 : PDL_OK;
}

enum pdl_status train_group_turning(pdl_trainer *t, uint32_t factors,
                                    pdl_comm **out, struct pdl_err *err)
{
    int64_t ranks[MAX_GROUP];
    int64_t n =
        pdl_mesh_group(t->plan->mesh, t->rank, factors, ranks, MAX_GROUP);
    int known = t->ngroups;
    enum pdl_status st =
        group_comm(t, factors | TURNING, NULL, ranks, (int)n, out, err);

    if (st == PDL_OK && t->ngroups > known && t->opt.comm_threads)
        st = pdl_comm_move_behind(*out, err);
    return st;
}

void train_close_groups(pdl_trainer *t)
{
    for (int i = 0; i < t->ngroups; i++)
        pdl_comm_destroy(t->groups[i].comm);
    t->ngroups = 0;
}

/* ---- pieces ----------------------------------------------------------- */

static void add_piece(struct train_piece *list, int *n, int64_t *bytes,
                      const struct train_array *of, int peer,
                      const struct pdl_box *box)
{
    struct train_piece *p = &list[(*n)++];

    *p = (struct train_piece){.peer = peer, .array = *of};
    p->array.box = *box;
    p->bytes = train_array_bytes(&p->array);
    p->direct = train_is_run(of, box, &p->at);
    if (!p->direct) {
        p->at = *bytes;
        *bytes += (p->bytes + 63) / 64 * 64;
    }
}

static void find_pieces(struct train_exchange *x,
                        const struct pdl_plan_members *m, bool sum,
                        const struct train_array *in,
                        const struct train_array *out)
{
    struct pdl_box box;
    int64_t recv = 0;

    for (int g = 0; g < m->n; g++)
        if (g != m->me && pdl_plan_gives(m, sum, m->me, g, &box))
            add_piece(x->sends, &x->nsends, &x->send_bytes, in, g, &box);
    for (int g = 0; g < m->n; g++)
        if (g != m->me && pdl_plan_gives(m, sum, g, m->me, &box)) {
            add_piece(x->recvs, &x->nrecvs, &recv, out, g, &box);
            if (sum && x->recvs[x->nrecvs - 1].direct) { /* added, not put */
                x->recvs[x->nrecvs - 1].direct = false;
                x->recvs[x->nrecvs - 1].at = recv;
                recv += (x->recvs[x->nrecvs - 1].bytes + 63) / 64 * 64;
            }
        }
    pdl_box_intersect(&m->in[m->me], &m->out[m->me], &x->own);
    x->bytes = x->send_bytes + recv;
}

static enum pdl_status covers(const struct train_exchange *x,
                              const struct pdl_plan_members *m, bool sum,
                              const char *name, struct pdl_err *err)
{
    int64_t need = pdl_box_volume(&m->out[m->me]);
    int64_t got = pdl_box_volume(&x->own);

    for (int i = 0; i < x->nrecvs; i++) {
        if (sum && pdl_box_volume(&x->recvs[i].array.box) != need)
            return pdl_fail(err, PDL_EWRONG,
                            "%s: a rank lacks a term of the sum", name);
        if (!sum)
            got += pdl_box_volume(&x->recvs[i].array.box);
    }
    if (got != need)
        return pdl_fail(err, PDL_EWRONG, "%s: no rank of the group has an item",
                        name);
    return PDL_OK;
}

static enum pdl_status prepare_exchange(pdl_trainer *t, int op, int k,
                                        struct pdl_plan_members *m,
                                        struct pdl_err *err)
{
    const struct pdl_plan_op *p = &t->plan->ops[op];
    const struct train_op *o = &t->ops[op];
    struct train_exchange *x = &t->ops[op].x[k];
    int like = k < p->nout ? k : 0; /* a shadow has the boxes of the first */
    bool sum = is_sum(t->plan, op);
    int64_t at;

    pdl_plan_members(t->plan, op, like, m);
    x->sends = PDL_NEW(t->arena, struct train_piece, m->n);
    x->recvs = PDL_NEW(t->arena, struct train_piece, m->n);
    x->out = PDL_NEW(t->arena, struct pdl_comm_message, m->n);
    x->in = PDL_NEW(t->arena, struct pdl_comm_message, m->n);
    if (!x->sends || !x->recvs || !x->out || !x->in)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for exchanges");
    find_pieces(x, m, sum, &t->arrays[o->in[k]], &t->arrays[o->out[k]]);
    x->spare = x->bytes; /* for the rank's own term, or what a test spoils */
    if ((sum && !train_is_run(&t->arrays[o->in[k]], &x->own, &at)) || t->fault)
        x->bytes += train_array_bytes(&t->arrays[o->out[k]]);
    if (x->bytes > t->ops[op].work_bytes)
        t->ops[op].work_bytes = x->bytes;
    return covers(x, m, sum, t->plan->tensors[p->out[like]].name, err);
}

enum pdl_status train_prepare_comm(pdl_trainer *t, int op, struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    struct train_op *x = &t->ops[op];
    int64_t ranks[MAX_GROUP];
    struct pdl_plan_members m = {.rank = ranks};
    enum pdl_status st = PDL_OK;
    int64_t n;

    if (o->kind == PDL_PLAN_OP_SEND || o->kind == PDL_PLAN_OP_RECV)
        return train_prepare_p2p(t, op, err);
    if (o->kind == PDL_PLAN_OP_ROTATE)
        return PDL_OK; /* its attention has the ring */
    n = pdl_mesh_group(t->plan->mesh, t->rank, o->group, ranks, MAX_GROUP);
    if (n > MAX_GROUP)
        return pdl_fail(err, PDL_EINVAL, "a group of %lld ranks is too large",
                        (long long)n);
    m.n = x->ngroup = (int)n;
    while (m.me < m.n && ranks[m.me] != t->rank)
        m.me++;
    x->me = m.me;
    st = train_group(t, o->group, o->algorithm, &x->group, err);
    for (int f = 0; f < t->plan->mesh->nfactors; f++)
        if (t->plan->tensors[o->in[0]].place.at[f] == PDL_PARTIAL_MAX)
            x->reduce = PDL_COMM_MAX;
    if (st == PDL_OK && x->overlaps && x->group && !t->fault) {
        x->started = PDL_NEW(t->arena, struct train_transfer *, o->nout + 1);
        st = x->started ? group_comm(t, o->group | BEHIND, o->algorithm, ranks,
                                     m.n, &x->behind, err)
                        : pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (st == PDL_OK && t->opt.comm_threads)
            st = pdl_comm_move_behind(x->behind, err);
    }
    if (st != PDL_OK || o->kind == PDL_PLAN_OP_ALLREDUCE)
        return st;
    if (o->kind == PDL_PLAN_OP_ALLTOALLV)
        return train_prepare_route(t, op, ranks, err);
    x->x = PDL_NEW(t->arena, struct train_exchange, x->nout);
    m.in = PDL_NEW(t->arena, struct pdl_box, n);
    m.out = PDL_NEW(t->arena, struct pdl_box, n);
    if (!x->x || !m.in || !m.out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for exchanges");
    for (int k = 0; k < x->nout && st == PDL_OK; k++)
        st = prepare_exchange(t, op, k, &m, err);
    return st;
}

/* ---- running ---------------------------------------------------------- */

static void pack(pdl_trainer *t, struct train_exchange *x,
                 const struct train_array *in, char *data, char *buffer)
{
    for (int i = 0; i < x->nsends; i++) {
        const struct train_piece *p = &x->sends[i];
        char *at = p->direct ? data + p->at : buffer + p->at;

        if (!p->direct)
            train_copy_part(t, &p->array, at, in, data, &p->array.box);
        x->out[i] = (struct pdl_comm_message){
            .peer = p->peer, .data = at, .bytes = p->bytes};
    }
}

static void post(struct train_exchange *x, char *data, char *buffer)
{
    for (int i = 0; i < x->nrecvs; i++) {
        const struct train_piece *p = &x->recvs[i];

        x->in[i] = (struct pdl_comm_message){
            .peer = p->peer,
            .data = p->direct ? data + p->at : buffer + x->send_bytes + p->at,
            .bytes = p->bytes};
    }
}

static void unpack(pdl_trainer *t, struct train_exchange *x,
                   const struct train_array *out, char *data)
{
    for (int i = 0; i < x->nrecvs; i++)
        if (!x->recvs[i].direct)
            train_copy_part(t, out, data, &x->recvs[i].array, x->in[i].data,
                            &x->recvs[i].array.box);
}

/* This rank's term of a part of the sum. */
static void sum_own(pdl_trainer *t, const struct train_array *in,
                    const char *from, const struct train_array *to, char *sum,
                    bool first, char *spare)
{
    int64_t at, n = train_array_elements(to);

    if (first) {
        train_copy_part(t, to, sum, in, from, &to->box);
    } else if (train_is_run(in, &to->box, &at)) {
        train_sum(t, in->dtype, sum, from + at, n);
    } else {
        train_copy_part(t, to, spare, in, from, &to->box);
        train_sum(t, in->dtype, sum, spare, n);
    }
}

/* In the order of the group's ranks, this one where it belongs. */
static void sum_part(pdl_trainer *t, int op, struct train_exchange *x,
                     const struct train_array *in, const char *from,
                     const struct train_array *part, char *to, int64_t at,
                     char *spare)
{
    int64_t n = train_array_elements(part), bytes = train_array_bytes(part);
    bool first = true;
    int next = 0;

    for (int g = 0; g < t->ops[op].ngroup; g++) {
        if (g == t->ops[op].me) {
            sum_own(t, in, from, part, to + at, first, spare);
            first = false;
        } else if (next < x->nrecvs && x->recvs[next].peer == g) {
            const char *term = (const char *)x->in[next].data + at;

            if (first)
                train_move(t, to + at, term, bytes);
            else
                train_sum(t, in->dtype, to + at, term, n);
            first = false;
            next++;
        }
    }
}

/* A few samples at a time, whose sum stays in the cache until all terms are
 * there. */
static void sum_up(pdl_trainer *t, int op, struct train_exchange *x,
                   const struct train_array *in, const char *from,
                   const struct train_array *out, char *to, char *spare)
{
    struct train_array part = *out;
    int64_t lo = out->box.lo[0];
    int64_t n = out->box.ndims > 0 ? out->box.hi[0] - lo : 1;
    int64_t one = n > 0 ? train_array_bytes(out) / n : 0;
    int64_t few = one > 0 && one < SUM_BYTES ? SUM_BYTES / one : 1;

    for (int64_t i = 0; i < n; i += few) {
        part.box.lo[0] = lo + i;
        part.box.hi[0] = lo + (i + few < n ? i + few : n);
        sum_part(t, op, x, in, from, &part, to, i * one, spare);
    }
}

static enum pdl_status swap_messages(pdl_trainer *t, const struct train_op *x,
                                     struct train_exchange *e,
                                     struct pdl_err *err)
{
    struct train_messages m = {e->nsends, e->nrecvs, e->out, e->in};

    if (e->nsends == 0 && e->nrecvs == 0)
        return PDL_OK;
    return train_exchange_now(t, x->group, &m, err);
}

/* Breaks a result on purpose (tests only): a received row becomes zero, or
 * what came from a rank is put where this rank's own items belong. */
static void spoil(pdl_trainer *t, int op, const struct train_exchange *x,
                  const struct train_array *out, char *data, char *spare)
{
    struct train_array piece;

    if (t->fault_op != op || t->fault == TRAIN_FAULT_NONE || x->nrecvs == 0)
        return;
    piece = x->recvs[0].array;
    if (t->fault == TRAIN_FAULT_DROP_ROW) {
        for (int d = 0; d < piece.box.ndims; d++)
            if (t->plan->tensors[t->plan->ops[op].out[0]].frame[d].kind)
                piece.box.lo[d] = piece.box.hi[d] - 1;
        train_fill(t, spare, 0, train_array_bytes(&piece));
        train_copy_part(t, out, data, &piece, spare, &piece.box);
    } else if (t->fault == TRAIN_FAULT_SWAP_RANKS &&
               pdl_box_volume(&x->own) == pdl_box_volume(&piece.box)) {
        train_copy_part(t, &piece, spare, out, data, &piece.box);
        piece.box = x->own;
        train_copy_part(t, out, data, &piece, spare, &piece.box);
    }
}

static enum pdl_status exchange(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err)
{
    const struct train_op *o = &t->ops[op];
    bool sum = is_sum(t->plan, op);
    enum pdl_status st = PDL_OK;

    for (int k = 0; k < o->nout && st == PDL_OK; k++) {
        struct train_exchange *x = &t->ops[op].x[k];
        const struct train_array *in = &t->arrays[o->in[k]];
        const struct train_array *out = &t->arrays[o->out[k]];
        char *from = train_data(t, o->in[k], micro);
        char *to = train_data(t, o->out[k], micro);
        char *buffer = train_work(t, op, micro);

        pack(t, x, in, from, buffer);
        post(x, to, buffer);
        st = swap_messages(t, &t->ops[op], x, err);
        if (st != PDL_OK)
            return st;
        if (sum) {
            sum_up(t, op, x, in, from, out, to, buffer + x->spare);
        } else {
            train_copy_part(t, out, to, in, from, &x->own);
            unpack(t, x, out, to);
        }
        spoil(t, op, x, out, to, buffer + x->spare);
    }
    return st;
}

enum pdl_status train_run_comm(pdl_trainer *t, int op, int micro,
                               struct pdl_err *err)
{
    switch (t->plan->ops[op].kind) {
    case PDL_PLAN_OP_ALLREDUCE:
        return train_allreduce(t, op, micro, err);
    case PDL_PLAN_OP_ALLTOALLV:
        return train_run_route(t, op, micro, err);
    case PDL_PLAN_OP_ROTATE:
        return train_rotate(t, op, micro, err);
    case PDL_PLAN_OP_SEND:
        return train_send(t, op, micro, err);
    case PDL_PLAN_OP_RECV:
        return train_receive(t, op, micro, err);
    default:
        return exchange(t, op, micro, err);
    }
}
