/* SPDX-License-Identifier: Apache-2.0
 *
 * What two neighbouring units cost each other: the redistribution of the
 * tensor between them from how the one makes it to how the other needs it, and
 * of its gradient the other way, each a plan of its own. Boundaries between
 * equal units are one, and a move that occurs again (the same shape from the
 * same layout to the same) is priced once; those that are new are priced on
 * all cores. */
#include "oracle/bylayer/bylayer.h"

#include <math.h>
#include <string.h>

struct move {
    struct pdl_plan_tensor tensor; /* as it lies first */
    struct oracle_layout to;
    double seconds;
    int next; /* of the same hash; -1: none */
};

enum { SLOTS = 1 << 14 };
struct pricing {
    struct oracle_layers *x;
    int alike;
    struct move *move;
    int nmoves, cap;
    int slot[SLOTS];
    bool failed; /* no memory */
};

/* ---- moves ------------------------------------------------------------ */

static uint64_t hash_of(const void *data, size_t n, uint64_t h)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 31;
}

static bool same_layout(const struct oracle_layout *a,
                        const struct oracle_layout *b)
{
    return memcmp(&a->place, &b->place, sizeof a->place) == 0 &&
           memcmp(a->unit, b->unit, sizeof a->unit) == 0;
}

static bool same_move(const struct move *m, const struct pdl_plan_tensor *t,
                      const struct oracle_layout *to)
{
    return m->tensor.kind == t->kind && m->tensor.ndims == t->ndims &&
           memcmp(m->tensor.dim, t->dim, sizeof t->dim) == 0 &&
           memcmp(m->tensor.unit, t->unit, sizeof t->unit) == 0 &&
           memcmp(&m->tensor.place, &t->place, sizeof t->place) == 0 &&
           same_layout(&m->to, to);
}

/* The index of a move, noted to be priced if it is new; -1: none is needed. */
static int note_move(struct pricing *p, const struct pdl_plan_tensor *shape,
                     const struct oracle_layout *from,
                     const struct oracle_layout *to)
{
    struct pdl_plan_tensor t = *shape;
    uint64_t h;
    int i;

    if (p->failed || same_layout(from, to))
        return -1;
    t.place = from->place;
    memcpy(t.unit, from->unit, sizeof t.unit);
    h = hash_of(&t.place, sizeof t.place, (uint64_t)t.kind + 7);
    h = hash_of(t.dim, sizeof t.dim, h);
    h = hash_of(&to->place, sizeof to->place, h) % SLOTS;
    for (i = p->slot[h] - 1; i >= 0; i = p->move[i].next)
        if (same_move(&p->move[i], &t, to))
            return i;
    if (p->nmoves == p->cap) {
        int cap = p->cap ? 2 * p->cap : 1024;
        void *more = pdl_arena_grow(p->x->arena, p->move, (size_t)p->nmoves,
                                    (size_t)cap, sizeof *p->move);

        p->failed = !more;
        if (p->failed)
            return -1;
        p->move = more;
        p->cap = cap;
    }
    p->move[p->nmoves] = (struct move){t, *to, INFINITY, p->slot[h] - 1};
    p->slot[h] = p->nmoves + 1;
    return p->nmoves++;
}

/* Neighbouring factors that the tensor takes no notice of, before or after,
 * are one: ranks keep their numbers, and boxes are found faster. */
static void coarsen(const struct pdl_mesh *fine, const struct move *m,
                    struct pdl_mesh *mesh, struct pdl_plan_tensor *t,
                    struct pdl_place *to)
{
    mesh->pes = fine->pes;
    *t = m->tensor;
    for (int f = 0; f < fine->nfactors; f++) {
        int g = mesh->nfactors;
        int8_t from = m->tensor.place.at[f], next = m->to.place.at[f];

        if (g > 0 && t->place.at[g - 1] == from && to->at[g - 1] == next) {
            mesh->factor[g - 1] *= fine->factor[f];
            continue;
        }
        mesh->factor[g] = fine->factor[f];
        t->place.at[g] = from;
        to->at[g] = next;
        mesh->nfactors++;
    }
}

static bool move_body(void *ctx, int64_t i)
{
    struct pricing *p = ctx;
    struct move *m = &p->move[i];
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_mesh *mesh = a ? PDL_NEW(a, struct pdl_mesh, 1) : NULL;
    struct pdl_place to = m->to.place;
    const struct pdl_plan *plan;
    struct pdl_plan_tensor t;
    bool ok = mesh != NULL;

    if (ok)
        coarsen(&p->x->mesh, m, mesh, &t, &to);
    if (ok && pdl_plan_move(a, &p->x->strategy[0], mesh, &t, &to, m->to.unit,
                            &plan, NULL) == PDL_OK) {
        m->seconds = oracle_forward_s(plan, p->x->sys, p->x->oracle);
        ok = m->seconds >= 0;
    }
    pdl_arena_destroy(a);
    return ok;
}

/* ---- neighbours ------------------------------------------------------- */

/* One port of one class of units, read from one class: its moves by candidate
 * pair, forward and of the gradient; -1: nothing moves, -2: not together. */
struct boundary {
    int from, from_tensor, to, port;
    int *forward, *back;
    double *cost;
};

static struct pdl_plan_tensor tensor_of(const struct oracle_layers *x,
                                        const struct boundary *b,
                                        enum pdl_plan_kind kind)
{
    const struct pdl_tensor *m =
        &x->units.unit[b->from].part->tensors[b->from_tensor];
    struct pdl_plan_tensor t = {
        .name = m->name,
        .kind = kind,
        .dtype = pdl_precision_storage(x->oracle->precision),
        .ndims = m->rank + 1,
        .frame = pdl_no_frames,
        .model_tensor = -1};

    t.dim[0] = x->opt->batch;
    for (int d = 0; d < m->rank; d++)
        t.dim[d + 1] = m->dim[d];
    return t;
}

/* Does an earlier port of the unit read the same tensor, in this way? */
static bool is_shared(const struct oracle_unit *u, int port,
                      const struct oracle_layout *layouts)
{
    for (int i = 0; i < port; i++)
        if (u->port[i].tensor == u->port[port].tensor &&
            same_layout(&layouts[i], &layouts[port]))
            return true;
    return false;
}

/* A linear layer cuts what it contracts in the units in which its input is
 * cut already: those of a flattened channel. */
static void adopt_units(const struct pdl_mesh *m,
                        const struct oracle_layout *made,
                        struct oracle_layout *need)
{
    for (int f = 0; f < m->nfactors; f++) {
        int d = need->place.at[f];

        if (d > 0 && made->place.at[f] == d && need->unit[d] == 0)
            need->unit[d] = made->unit[d];
    }
}

static void note_boundary(struct pricing *p, struct boundary *b)
{
    const struct oracle_unit *u = &p->x->units.unit[b->to];
    struct pdl_plan_tensor y = tensor_of(p->x, b, PDL_PLAN_ACTIVATION);
    struct pdl_plan_tensor dy = tensor_of(p->x, b, PDL_PLAN_GRADIENT);
    bool back = u->gradients[u->port[b->port].tensor];
    int k = p->x->k;

    for (int i = 0; i < k * k; i++) {
        const struct oracle_priced *f =
            &p->x->priced[(int64_t)b->from * k + i / k];
        const struct oracle_priced *t =
            &p->x->priced[(int64_t)b->to * k + i % k];
        struct oracle_layout need, grad;

        b->forward[i] = b->back[i] = -1;
        if (!f->ok || !t->ok ||
            (p->alike && i / k % p->alike != i % k % p->alike)) {
            b->forward[i] = -2;
            continue;
        }
        need = t->need[b->port];
        grad = t->grad[b->port];
        adopt_units(&p->x->mesh, &f->made[b->from_tensor], &need);
        adopt_units(&p->x->mesh, &f->made[b->from_tensor], &grad);
        if (!is_shared(u, b->port, t->need))
            b->forward[i] = note_move(p, &y, &f->made[b->from_tensor], &need);
        if (back && !is_shared(u, b->port, t->grad))
            b->back[i] = note_move(p, &dy, &grad, &f->wants[b->from_tensor]);
    }
}

static void price_boundary(const struct pricing *p, struct boundary *b)
{
    int n = p->x->k * p->x->k;

    for (int i = 0; i < n; i++)
        b->cost[i] =
            b->forward[i] < -1
                ? INFINITY
                : (b->forward[i] >= 0 ? p->move[b->forward[i]].seconds : 0) +
                      (b->back[i] >= 0 ? p->move[b->back[i]].seconds : 0);
}

static struct boundary *find_boundary(struct pricing *p, struct boundary *list,
                                      int *n, int unit, int port)
{
    const struct oracle_units *us = &p->x->units;
    const struct oracle_port *q = &us->unit[unit].port[port];
    int from = us->unit[q->from].class, to = us->unit[unit].class;
    int64_t kk = (int64_t)p->x->k * p->x->k;
    struct boundary *b;

    for (int i = 0; i < *n; i++)
        if (list[i].from == from && list[i].to == to && list[i].port == port &&
            list[i].from_tensor == q->from_tensor)
            return &list[i];
    b = &list[(*n)++];
    *b = (struct boundary){.from = from,
                           .from_tensor = q->from_tensor,
                           .to = to,
                           .port = port,
                           .forward = PDL_NEW(p->x->arena, int, kk),
                           .back = PDL_NEW(p->x->arena, int, kk),
                           .cost = PDL_NEW(p->x->arena, double, kk)};
    p->failed = p->failed || !b->forward || !b->back || !b->cost;
    if (!p->failed)
        note_boundary(p, b);
    return b;
}

bool oracle_layers_move(struct oracle_layers *x, int alike)
{
    struct pricing *p = PDL_NEW(x->arena, struct pricing, 1);
    struct boundary *list;
    int n = 0, most = 1;

    if (!p)
        return false;
    p->x = x;
    p->alike = alike;
    x->npairs = 0;
    for (int u = 0; u < x->units.n; u++)
        most += x->units.unit[u].nports;
    list = PDL_NEW(x->arena, struct boundary, most);
    x->pair = PDL_NEW(x->arena, struct oracle_pair, most);
    if (!list || !x->pair)
        return false;
    for (int u = 0; u < x->units.n; u++)
        for (int i = 0; i < x->units.unit[u].nports && !p->failed; i++) {
            struct boundary *b = find_boundary(p, list, &n, u, i);

            x->pair[x->npairs++] =
                (struct oracle_pair){x->units.unit[u].port[i].from, u, b->cost};
        }
    if (p->failed || !pdl_parallel(p->nmoves, x->opt->threads, move_body, p))
        return false;
    for (int i = 0; i < n; i++)
        price_boundary(p, &list[i]);
    x->moves += p->nmoves;
    return true;
}

/* ---- what no best choice can have ------------------------------------- */

/* If every unit took the same candidate, moves
 * were those of a candidate with itself: the best of these is an answer, so no
 * best answer costs more. On the other side no answer costs less than the
 * least of every unit, without any moves. A unit's candidate that exceeds its
 * least by more than the difference of the two is in no best answer, and the
 * moves from and to it (most of what pricing takes) need no price. It must be
 * so for every share of gradient exchange that is asked for. */
const double oracle_shares[ORACLE_SHARES] = {1, .5, .25, 0};

static double own(const struct oracle_layers *x, int64_t at, double exposed)
{
    return x->cost[at].step + exposed * x->cost[at].exchange;
}

static double least_of(const struct oracle_layers *x, int u, double exposed)
{
    double least = INFINITY;

    for (int c = 0; c < x->k; c++)
        least = fmin(least, own(x, (int64_t)u * x->k + c, exposed));
    return least;
}

/* All units take candidate c; INFINITY: one of them cannot. */
static double all_of(const struct oracle_layers *x, int c, double exposed)
{
    double sum = 0;

    for (int u = 0; u < x->units.n; u++)
        sum += x->cost[(int64_t)u * x->k + c].spare
                   ? INFINITY
                   : own(x, (int64_t)u * x->k + c, exposed);
    for (int e = 0; e < x->npairs; e++)
        sum += x->pair[e].cost[(int64_t)c * x->k + c];
    return sum;
}

/* What a choice may exceed the least by. */
static double slack_of(const struct oracle_layers *x, double exposed)
{
    double best = INFINITY, least = 0;

    for (int c = 0; c < x->k; c++)
        best = fmin(best, all_of(x, c, exposed));
    for (int u = 0; u < x->units.n; u++)
        least += least_of(x, u, exposed);
    return best - least;
}

static void prune(struct oracle_layers *x)
{
    double slack[ORACLE_SHARES];
    bool known = true;

    for (int i = 0; i < ORACLE_SHARES; i++) {
        slack[i] = slack_of(x, oracle_shares[i]);
        known = known && isfinite(slack[i]);
    }
    for (int u = 0; u < x->units.n; u++)
        for (int c = 0; c < x->k; c++) {
            int64_t at = (int64_t)u * x->k + c;
            bool out = known;

            for (int i = 0; i < ORACLE_SHARES; i++)
                out = out && own(x, at, oracle_shares[i]) -
                                     least_of(x, u, oracle_shares[i]) >
                                 slack[i] * (1 + 1e-9);
            if (out) {
                x->cost[at].step = INFINITY;
                x->priced[at].ok = false;
            }
        }
}

enum pdl_status oracle_layers_price(struct oracle_layers *x,
                                    struct pdl_err *err)
{
    enum pdl_status st = oracle_layers_price_units(x, err);
    bool ok = true;

    if (st != PDL_OK)
        return st;
    if (x->prune) {
        ok = oracle_layers_move(x, x->k);
        if (ok)
            prune(x);
    }
    return ok && oracle_layers_move(x, 0)
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
