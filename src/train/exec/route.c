/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens on their way to the experts they visit, and what those say on its way
 * back (alltoallv). Every rank of the group has the scores of all tokens, so
 * both ends know which rows a message has and nothing but rows is sent. A token
 * that visits none of a rank's experts is zero there; what comes back is added
 * in the order of ranks. */
#include "train/train_priv.h"

#include <string.h>

enum { MAX_GROUP = 4096, MAX_TOPK = 64 };

/* One member of the group, as this rank sees it. */
struct route_member {
    struct pdl_box send, recv; /* rows that may go there, and come from there */
    int64_t first, last;       /* its experts */
};

/* Where the bytes are: the tensors, or on the host what they hold. */
struct route_bytes {
    const char *scores, *from;
    char *to, *work;
};

struct train_route {
    bool back; /* results: sums */
    struct train_room room;
    struct route_bytes at_hand;
    int scores, n;
    int64_t experts, topk, width, bytes; /* columns; bytes of a row */
    struct route_member *member;
    int64_t *at; /* where a member's rows begin: sends, then receives */
    struct pdl_comm_message *message;
    double *score;
};

/* ---- preparing -------------------------------------------------------- */

/* The experts that take what op moves, or made it; -1: none. */
static int experts_of(const struct pdl_plan *p, int op)
{
    const struct pdl_plan_op *o = &p->ops[op];
    bool back = p->tensors[o->in[0]].of > 0;

    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_op *e = &p->ops[i];

        if (e->kind != PDL_PLAN_OP_COMPUTE || e->node < 0)
            continue;
        for (int k = 0; k < (back ? e->nout : e->nin); k++)
            if ((back ? e->out[k] : e->in[k]) == (back ? o->in[0] : o->out[0]))
                return i;
    }
    return -1;
}

int train_route_scores(const struct pdl_plan *p, int op)
{
    int e = experts_of(p, op), made = -1, scores;
    const struct pdl_node *n;

    if (e < 0)
        return -1;
    n = &p->model->nodes[p->ops[e].node];
    scores = p->ops[e].pass == PDL_BACKWARD_DATA
                 ? p->ops[e].in[n->nout + n->nweights + 1]
                 : p->ops[e].in[1];
    for (int i = 0; i < p->nops && made < 0; i++)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].kind != PDL_PLAN_OP_FREE &&
                p->ops[i].out[k] == scores)
                made = i;
    return made >= 0 && made < op ? scores : -1;
}

static enum pdl_status find_members(pdl_trainer *t, int op, const int64_t *rank,
                                    struct train_route *r, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    const struct pdl_plan_op *o = &p->ops[op];
    int node = p->ops[experts_of(p, op)].node;
    int weight = p->ops[p->forward_op[node]].in[p->model->nodes[node].nin];
    const struct train_array *in = &t->arrays[o->in[0]];
    const struct train_array *out = &t->arrays[o->out[0]];
    int64_t covered = 0;

    for (int g = 0; g < r->n; g++) {
        struct route_member *m = &r->member[g];
        struct pdl_box from, to, w;

        pdl_plan_box(p, o->in[0], rank[g], &from);
        pdl_plan_box(p, o->out[0], rank[g], &to);
        pdl_plan_box(p, weight, rank[g], &w);
        pdl_box_intersect(&in->box, &to, &m->send);
        pdl_box_intersect(&from, &out->box, &m->recv);
        m->first = pdl_box_empty(&w) ? 0 : w.lo[0];
        m->last = pdl_box_empty(&w) ? 0 : w.hi[0];
        covered += pdl_box_volume(&m->recv);
    }
    if (!r->back && covered != pdl_box_volume(&out->box))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: tokens that several ranks have are not routed",
                        p->tensors[o->out[0]].name);
    return PDL_OK;
}

static void find_room(struct train_route *r, int me, int64_t *bytes)
{
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < r->n; g++) {
            const struct route_member *m = &r->member[g];
            const struct pdl_box *b = pass == 0 ? &m->send : &m->recv;

            r->at[pass * r->n + g] = *bytes;
            if (g != me)
                *bytes += pdl_box_volume(b) / r->width * r->bytes;
        }
}

enum pdl_status train_prepare_route(pdl_trainer *t, int op, const int64_t *rank,
                                    struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    struct train_op *x = &t->ops[op];
    const struct train_array *in = &t->arrays[o->in[0]];
    struct train_route *r = PDL_NEW(t->arena, struct train_route, 1);
    int scores = train_route_scores(t->plan, op), last = in->box.ndims - 1;
    int64_t need = 0;
    enum pdl_status st;

    if (scores < 0 || in->box.ndims != 3)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: tokens travel before their scores are known",
                        t->plan->tensors[o->in[0]].name);
    if (!r)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for routes");
    *r = (struct train_route){
        .back = t->plan->tensors[o->in[0]].of > 0,
        .scores = scores,
        .n = x->ngroup,
        .experts = t->plan->tensors[scores].dim[2],
        .topk =
            t->plan->model->nodes[t->plan->ops[experts_of(t->plan, op)].node]
                .attr.topk,
        .width = t->plan->tensors[o->in[0]].dim[last]};
    r->bytes = r->width * pdl_dtype_bits(in->dtype) / 8;
    r->member = PDL_NEW(t->arena, struct route_member, r->n);
    r->at = PDL_NEW(t->arena, int64_t, 2 * r->n);
    r->message = PDL_NEW(t->arena, struct pdl_comm_message, 2 * r->n);
    r->score = PDL_NEW(t->arena, double, r->experts);
    if (!r->member || !r->at || !r->message || !r->score)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for routes");
    if (r->topk > MAX_TOPK)
        return pdl_fail(err, PDL_EINVAL, "a token visits %lld experts at most",
                        (long long)MAX_TOPK);
    r->room.next = t->rooms;
    t->rooms = &r->room;
    st = find_members(t, op, rank, r, err);
    find_room(r, x->me, &need);
    x->work_bytes = need;
    x->route = r;
    return st;
}

/* ---- running ---------------------------------------------------------- */

static int64_t row_of(const struct train_array *a, const int64_t *i)
{
    return (i[0] - a->box.lo[0]) * (a->box.hi[1] - a->box.lo[1]) + i[1] -
           a->box.lo[1];
}

static bool visits(const pdl_trainer *t, const struct train_route *r,
                   const int64_t *i, int member)
{
    const struct train_array *a = &t->arrays[r->scores];
    const char *data = r->at_hand.scores;
    int64_t which[MAX_TOPK], at = row_of(a, i) * r->experts;

    for (int64_t e = 0; e < r->experts; e++)
        r->score[e] = train_number(a->dtype, data, at + e);
    train_choose(r->score, r->experts, r->topk, which);
    for (int64_t k = 0; k < r->topk; k++)
        if (which[k] >= r->member[member].first &&
            which[k] < r->member[member].last)
            return true;
    return false;
}

/* Whose experts the rows must visit: those of where they go, or of whence the
 * results come. */
struct walk {
    pdl_trainer *t;
    const struct train_route *r;
    int member; /* whose experts */
    struct pdl_box box;
    int64_t i[PDL_BOX_DIMS];
    bool begun;
};

static bool next_row(struct walk *w)
{
    if (pdl_box_empty(&w->box))
        return false;
    do {
        int64_t *i = w->i;

        if (!w->begun) {
            i[0] = w->box.lo[0];
            i[1] = w->box.lo[1];
        } else if (++i[1] >= w->box.hi[1]) {
            i[1] = w->box.lo[1];
            i[0]++;
        }
        w->begun = true;
        if (i[0] >= w->box.hi[0])
            return false;
    } while (!visits(w->t, w->r, w->i, w->member));
    return true;
}

static struct walk walk_to(pdl_trainer *t, int op, int g, bool send)
{
    const struct train_route *r = t->ops[op].route;

    return (struct walk){.t = t,
                         .r = r,
                         .member = send != r->back ? g : t->ops[op].me,
                         .box = send ? r->member[g].send : r->member[g].recv};
}

/* Rows to every other member, packed, and room for those that come. */
static void make_messages(pdl_trainer *t, int op, int *nsends, int *nrecvs)
{
    const struct train_op *x = &t->ops[op];
    const struct train_route *r = x->route;
    const struct train_array *in = &t->arrays[x->in[0]];
    const char *from = r->at_hand.from;

    *nsends = *nrecvs = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < r->n; g++) {
            struct walk w = walk_to(t, op, g, pass == 0);
            char *to = r->at_hand.work + r->at[pass * r->n + g];
            int64_t n = 0;

            while (g != x->me && next_row(&w)) {
                if (pass == 0)
                    memcpy(to + n, from + row_of(in, w.i) * r->bytes,
                           (size_t)r->bytes);
                n += r->bytes;
            }
            if (n == 0)
                continue;
            r->message[*nsends + *nrecvs] =
                (struct pdl_comm_message){.peer = g, .data = to, .bytes = n};
            ++*(pass == 0 ? nsends : nrecvs);
        }
}

/* Rows of member g, this one's own where it belongs. */
static void take(pdl_trainer *t, int op, int g)
{
    const struct train_op *x = &t->ops[op];
    const struct train_route *r = x->route;
    const struct train_array *in = &t->arrays[x->in[0]];
    const struct train_array *out = &t->arrays[x->out[0]];
    const char *own = r->at_hand.from;
    const char *got = r->at_hand.work + r->at[r->n + g];
    char *to = r->at_hand.to;
    struct walk w = walk_to(t, op, g, false);

    while (next_row(&w)) {
        const char *from = g == x->me ? own + row_of(in, w.i) * r->bytes : got;

        if (r->back)
            train_plus(in->dtype, to + row_of(out, w.i) * r->bytes,
                       to + row_of(out, w.i) * r->bytes, from, r->width);
        else
            memcpy(to + row_of(out, w.i) * r->bytes, from, (size_t)r->bytes);
        got += r->bytes;
    }
}

/* Rows are chosen and packed by host code: a device gives the host its scores
 * and rows, and takes what the rows become. */
static enum pdl_status bring(pdl_trainer *t, int op, int micro,
                             struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];
    struct train_route *r = x->route;
    char *scores = train_data(t, r->scores, micro);
    char *from = train_data(t, x->in[0], micro);
    int64_t s = train_array_bytes(&t->arrays[r->scores]);
    int64_t f = train_array_bytes(&t->arrays[x->in[0]]);
    int64_t to = train_array_bytes(&t->arrays[x->out[0]]);
    char *p;

    r->at_hand =
        (struct route_bytes){scores, from, train_data(t, x->out[0], micro),
                             train_work(t, op, micro)};
    if (!t->device)
        return PDL_OK;
    if (!train_grow(t, &r->room, s + f + to + x->work_bytes + 1))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for routes");
    p = r->room.at;
    train_get_later(t, p, scores, s);
    train_get_later(t, p + s, from, f);
    r->at_hand = (struct route_bytes){p, p + s, p + s + f, p + s + f + to};
    return train_settled(t, err);
}

enum pdl_status train_run_route(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];
    const struct train_route *r = x->route;
    int64_t bytes = train_array_bytes(&t->arrays[x->out[0]]);
    enum pdl_status st = bring(t, op, micro, err);
    pdl_comm_request *req;
    int nsends, nrecvs;

    if (st != PDL_OK)
        return st;
    make_messages(t, op, &nsends, &nrecvs);
    st = train_transfer_flush(t, err);
    if (st == PDL_OK && nsends + nrecvs > 0) {
        st = pdl_comm_start_exchange(x->group, nsends, r->message, nrecvs,
                                     r->message + nsends, &req, err);
        if (st == PDL_OK)
            st = pdl_comm_wait(req, err);
    }
    if (st != PDL_OK)
        return st;
    memset(r->at_hand.to, 0, (size_t)bytes);
    for (int g = 0; g < r->n; g++)
        take(t, op, g);
    train_put(t, train_data(t, x->out[0], micro), r->at_hand.to, bytes);
    return PDL_OK;
}
