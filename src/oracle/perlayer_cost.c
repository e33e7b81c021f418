/* SPDX-License-Identifier: Apache-2.0
 *
 * What a unit costs under a candidate, and what two neighbours cost each
 * other. Nothing is estimated: a unit is lowered as a small plan of its own
 * and its operations are priced as those of any plan; where two units lie
 * differently, the redistribution of the tensor between them (and of its
 * gradient, backwards) is a plan too. Equal units, and equal moves, are priced
 * once; both on all cores.
 *
 * Two things of a whole step are not sums over layers. Gradients are
 * exchanged in buckets: a unit counts for its part of a full one (the price of
 * a bucket of equal exchanges, divided), so that latencies are shared as they
 * will be. And exchange hides behind backward: it is kept apart, and the
 * caller counts it as far as it may show. Moves that several readers of one
 * tensor share are shared inside a unit, but counted once for each unit. */
#include "perlayer.h"

#include <math.h>
#include <string.h>

/* What the default of plans is: gradients of this many bytes together. */
static const int64_t BUCKET = INT64_C(25) << 20;
enum { MOST_COPIES = 1024 };

struct layout {
    struct pdl_place place; /* on the common mesh */
    int64_t unit[PDL_BOX_DIMS];
};

/* A unit of one class under one candidate. */
struct priced {
    bool ok;
    /* of each tensor of the part that it makes: as made, and as its gradient
     * is needed; of each port: as needed, and as the gradient is made */
    struct layout *made, *wants, *need, *grad;
};

struct move {
    struct pdl_plan_tensor tensor; /* as it lies first */
    struct layout to;
    double seconds;
    int next; /* of the same hash; -1: none */
};

enum { SLOTS = 1 << 14 };
struct pricing {
    struct oracle_layers *x;
    struct priced *priced; /* [unit][k]; those of classes are filled */
    int *class;            /* units that are the first of their class */
    int nclasses;
    struct move *move;
    int nmoves, cap;
    int slot[SLOTS];
    bool failed; /* no memory */
};

/* ---- layouts -------------------------------------------------------------------- */

/* Both meshes number ranks alike; factors of the finer one between the same
 * suffix products are one factor of the other. */
static struct layout on_mesh(const struct pdl_mesh *fine,
                             const struct pdl_mesh *m,
                             const struct pdl_plan_tensor *t)
{
    struct layout l;
    int g = fine->nfactors;

    memset(&l, 0, sizeof l);
    memset(&l.place, PDL_REPLICATED, sizeof l.place);
    for (int f = m->nfactors - 1; f >= 0; f--)
        for (int64_t n = 1; n < m->factor[f] && g > 0;) {
            n *= fine->factor[--g];
            l.place.at[g] = t->place.at[f];
        }
    for (int d = 0; d < t->ndims; d++)
        for (int f = 0; f < m->nfactors; f++)
            if (t->place.at[f] == d)
                l.unit[d] = t->unit[d] > 1 ? t->unit[d] : 0;
    return l;
}

static bool any_partial(const struct pdl_plan *p, int tensor)
{
    for (int f = 0; f < p->mesh->nfactors; f++)
        if (p->tensors[tensor].place.at[f] == PDL_PARTIAL)
            return true;
    return false;
}

/* A gradient is needed whole where the result is a partial sum. */
static struct layout whole(struct layout l)
{
    for (int f = 0; f < PDL_MAX_FACTORS; f++)
        if (l.place.at[f] <= PDL_PARTIAL)
            l.place.at[f] = PDL_REPLICATED;
    return l;
}

/* ---- one unit, one candidate ------------------------------------------------------ */

struct look {
    const struct oracle_layers *x;
    const struct oracle_unit *u;
    const struct pdl_plan *p;
    const double *seconds;
    struct priced *out;
    int *raw, *value;   /* of each tensor of the part: plan tensors; -1: none */
    bool *outer, *read; /* made elsewhere; read in this part */
    int loss;           /* the first operation of the loss */
};

static bool is_move(const struct pdl_plan_op *op)
{
    return op->node < 0 && op->kind != PDL_PLAN_OP_COMPUTE &&
           op->kind != PDL_PLAN_OP_HALO && op->kind != PDL_PLAN_OP_FREE &&
           op->kind != PDL_PLAN_OP_ADD && op->nin == 1;
}

/* Follows a result from what the operator makes to what its readers get:
 * partial sums meet, a bias is added. */
static void follow(struct look *k, int op, int before)
{
    const struct pdl_plan_op *x = &k->p->ops[op];
    int t = x->nout > 0 ? k->p->tensors[x->out[0]].model_tensor : -1;

    if (x->kind == PDL_PLAN_OP_COMPUTE && x->node < 0 && op < k->loss)
        k->loss = op;
    if (x->kind == PDL_PLAN_OP_COMPUTE && x->node >= 0)
        for (int i = 0; i < x->nout; i++) {
            t = k->p->tensors[x->out[i]].model_tensor;
            if (t < 0)
                continue;
            if (k->raw[t] < 0)
                k->raw[t] = x->out[i];
            k->value[t] = x->out[i];
        }
    else if (is_move(x) && t >= 0 && k->value[t] == x->in[0] &&
             (any_partial(k->p, x->in[0]) ||
              (x->kind == PDL_PLAN_OP_SLICE && any_partial(k->p, k->raw[t]) &&
               k->p->ops[before].kind == PDL_PLAN_OP_ALLREDUCE &&
               k->p->ops[before].out[0] == x->in[0])))
        k->value[t] = x->out[0];
}

static void find_values(struct look *k)
{
    const struct pdl_plan_stage *s = k->p->stages;
    int before = 0;

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int j = 0; j < k->p->items[i].nops; j++) {
            int op = k->p->items[i].first_op + j;

            if (k->p->ops[op].kind == PDL_PLAN_OP_FREE)
                continue;
            follow(k, op, before);
            before = op;
        }
}

static struct layout layout_of(const struct look *k, int tensor)
{
    return on_mesh(&k->x->mesh, k->p->mesh, &k->p->tensors[tensor]);
}

/* The gradient of a port's tensor as the node makes it; a sum hands on what it
 * gets. */
static struct layout port_gradient(const struct look *k,
                                   const struct oracle_port *port)
{
    const struct pdl_plan_stage *s = k->p->stages;
    int y = k->u->part->nodes[port->node].out[0];

    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++)
        for (int j = 0; j < k->p->items[i].nops; j++) {
            const struct pdl_plan_op *op =
                &k->p->ops[k->p->items[i].first_op + j];

            if (op->kind != PDL_PLAN_OP_COMPUTE || op->node != port->node ||
                op->pass != PDL_BACKWARD_DATA)
                continue;
            for (int o = 0; o < op->nout; o++)
                if (k->p->tensors[op->out[o]].model_tensor == port->tensor)
                    return layout_of(k, op->out[o]);
        }
    return k->out->wants[y];
}

static void find_layouts(struct look *k)
{
    for (int t = 0; t < k->u->part->ntensors; t++)
        if (k->raw[t] >= 0) {
            k->out->made[t] = layout_of(k, k->value[t]);
            k->out->wants[t] = whole(layout_of(k, k->raw[t]));
        }
    for (int i = 0; i < k->u->nports; i++) {
        const struct oracle_port *port = &k->u->port[i];
        int op = k->p->forward_op[port->node];

        if (op >= 0 && port->operand < k->p->ops[op].nin)
            k->out->need[i] = layout_of(k, k->p->ops[op].in[port->operand]);
        k->out->grad[i] = port_gradient(k, port);
    }
}

/* Does the operation belong to a boundary of the unit, or to a loss that the
 * network does not have here? */
static bool is_outside(const struct look *k, int op, bool forward)
{
    const struct pdl_plan_op *x = &k->p->ops[op];
    const struct pdl_plan_tensor *in =
        x->nin > 0 ? &k->p->tensors[x->in[0]] : NULL;
    int t = in ? in->model_tensor : -1;

    if (forward && op >= k->loss)
        return !k->u->last;
    if (!is_move(x) || t < 0)
        return false;
    if (forward)
        return k->outer[t];
    return in->kind == PDL_PLAN_GRADIENT && !k->read[t] && !k->u->last;
}

static double sum_of(const struct look *k, int first, int nitems, bool forward)
{
    double sum = 0;

    for (int i = first; i < first + nitems; i++)
        for (int j = 0; j < k->p->items[i].nops; j++) {
            int op = k->p->items[i].first_op + j;

            if (!is_outside(k, op, forward))
                sum += k->seconds[op];
        }
    return sum;
}

static int64_t bytes_of(const struct pdl_plan *p, const struct pdl_plan_op *op)
{
    int64_t sum = 0;

    for (int i = 0; i < op->nin; i++) {
        const struct pdl_plan_tensor *t = &p->tensors[op->in[i]];
        int64_t n = pdl_dtype_bits(t->dtype) / 8;

        for (int d = 0; d < t->ndims; d++)
            n *= t->dim[d];
        sum += n;
    }
    return sum;
}

/* The price of one exchange as a part of a bucket of equal ones. */
static double in_bucket(struct look *k, pdl_arena *a, int op)
{
    const struct pdl_plan_op *x = &k->p->ops[op];
    int64_t limit = k->p->strategy->bucket_bytes;
    int64_t bytes = bytes_of(k->p, x), n;
    struct pdl_plan_item item = {.nops = 1, .repeat = 1};
    struct pdl_plan_stage stage = {.nupdate = 1};
    struct pdl_plan_op many = *x;
    struct pdl_plan p = *k->p;
    struct pdl_price price;
    int *ids;

    n = bytes > 0 ? (limit > 0 ? limit : BUCKET) / bytes : 1;
    n = n < 1 ? 1 : n > MOST_COPIES ? MOST_COPIES : n;
    ids = PDL_NEW(a, int, n *(x->nin + x->nout));
    if (!ids)
        return INFINITY;
    for (int64_t c = 0; c < n; c++) {
        for (int i = 0; i < x->nin; i++)
            ids[c * x->nin + i] = x->in[i];
        for (int i = 0; i < x->nout; i++)
            ids[n * x->nin + c * x->nout + i] = x->out[i];
    }
    many.in = ids;
    many.nin = (int)n * x->nin;
    many.out = ids + many.nin;
    many.nout = (int)n * x->nout;
    p.ops = &many;
    p.nops = p.nitems = 1;
    p.items = &item;
    p.stages = &stage;
    pdl_price_op(&p, k->x->sys, k->x->oracle, 0, &price);
    return price.seconds / (double)n;
}

/* UPDATE is computing, the rest of the phase exchange. */
static void add_update(struct look *k, pdl_arena *a, double *step,
                       double *exchange)
{
    const struct pdl_plan_stage *s = k->p->stages;

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        for (int j = 0; j < k->p->items[i].nops; j++) {
            int op = k->p->items[i].first_op + j;
            enum pdl_plan_op_kind kind = k->p->ops[op].kind;

            if (kind == PDL_PLAN_OP_UPDATE || kind == PDL_PLAN_OP_ADD)
                *step += k->seconds[op];
            else if (k->seconds[op] > 0)
                *exchange += in_bucket(k, a, op);
        }
}

static bool look_at(struct look *k, pdl_arena *a)
{
    const struct pdl_model *part = k->u->part;
    int n = part->ntensors + 1;

    k->raw = PDL_NEW(a, int, n);
    k->value = PDL_NEW(a, int, n);
    k->outer = PDL_NEW(a, bool, n);
    k->read = PDL_NEW(a, bool, n);
    if (!k->raw || !k->value || !k->outer || !k->read)
        return false;
    for (int t = 0; t < part->ntensors; t++)
        k->raw[t] = k->value[t] = -1;
    for (int i = 0; i < k->u->nports; i++)
        k->outer[k->u->port[i].tensor] = true;
    for (int i = 0; i < part->nnodes; i++)
        for (int j = 0; j < part->nodes[i].nin; j++)
            k->read[part->nodes[i].in[j]] = true;
    k->loss = k->p->nops;
    find_values(k);
    find_layouts(k);
    return true;
}

/* Does an axis find nothing to cut in a weighted layer? Such a layer follows
 * its input instead. Blocks of transformers have such layers anyway. */
static bool falls_back(const struct look *k)
{
    const struct pdl_model *m = k->u->part;

    for (int i = 0; i < k->p->nfallbacks; i++)
        for (int n = 0; n < m->nnodes; n++) {
            size_t len = strlen(m->nodes[n].name);

            if (m->nodes[n].op->flops &&
                strncmp(k->p->fallbacks[i], m->nodes[n].name, len) == 0 &&
                k->p->fallbacks[i][len] == ':')
                return true;
        }
    return false;
}

/* Lowers, projects with every operation's seconds recorded, and adds up;
 * false: no memory. What cannot be lowered stays infinite. */
static bool price_unit(struct oracle_layers *x, pdl_arena *a, int unit, int c,
                       struct priced *out)
{
    const struct oracle_unit *u = &x->units.unit[unit];
    struct pdl_plan_options po = {.batch = x->opt->batch,
                                  .dtype = x->opt->dtype,
                                  .allow_empty = x->opt->allow_empty,
                                  .inner = u->gradients};
    struct look k = {.x = x, .u = u, .out = out};
    struct oracle_record record = {0};
    struct pdl_projection projection;
    int64_t at = (int64_t)unit * x->k + c;
    const struct pdl_plan_stage *s;
    struct pdl_err err;
    enum pdl_status st;
    double step = 0, exchange = 0;

    st = pdl_plan_lower(a, u->part, &x->strategy[c], &po, &k.p, &err);
    if (st != PDL_OK)
        return st != PDL_ENOMEM;
    record.start = PDL_NEW(a, double, k.p->nops + 1);
    record.seconds = PDL_NEW(a, double, k.p->nops + 1);
    record.done = PDL_NEW(a, double, 2 * k.p->micro_batches);
    if (!record.start || !record.seconds || !record.done)
        return false;
    st = oracle_project(k.p, x->sys, x->oracle, &record, &projection, &err);
    if (st != PDL_OK)
        return st != PDL_ENOMEM;
    k.seconds = record.seconds;
    if (!look_at(&k, a))
        return false;
    s = k.p->stages;
    step = sum_of(&k, s->first_forward, s->nforward, true) +
           sum_of(&k, s->first_backward, s->nbackward, false);
    step *= (double)k.p->micro_batches;
    add_update(&k, a, &step, &exchange);
    x->step[at] = step;
    x->exchange[at] = exchange;
    x->bytes[at] = (double)projection.allocated_bytes;
    x->falls_back[at] = falls_back(&k);
    out->ok = true;
    return true;
}

static bool unit_body(void *ctx, int64_t i)
{
    struct pricing *p = ctx;
    int unit = p->class[i / p->x->k], c = (int)(i % p->x->k);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    bool ok = a && price_unit(p->x, a, unit, c,
                              &p->priced[(int64_t)unit * p->x->k + c]);

    pdl_arena_destroy(a);
    return ok;
}

/* ---- moves ------------------------------------------------------------------------- */

static uint64_t hash_of(const void *data, size_t n, uint64_t h)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 31;
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
    return memcmp(&a->place, &b->place, sizeof a->place) == 0 &&
           memcmp(a->unit, b->unit, sizeof a->unit) == 0;
}

static bool same_move(const struct move *m, const struct pdl_plan_tensor *t,
                      const struct layout *to)
{
    return m->tensor.kind == t->kind && m->tensor.ndims == t->ndims &&
           memcmp(m->tensor.dim, t->dim, sizeof t->dim) == 0 &&
           memcmp(m->tensor.unit, t->unit, sizeof t->unit) == 0 &&
           memcmp(&m->tensor.place, &t->place, sizeof t->place) == 0 &&
           same_layout(&m->to, to);
}

/* The index of a move, noted to be priced if it is new; -1: none is needed. */
static int note_move(struct pricing *p, const struct pdl_plan_tensor *shape,
                     const struct layout *from, const struct layout *to)
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

/* ---- neighbours -------------------------------------------------------------------- */

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
    struct pdl_plan_tensor t = {.name = m->name,
                                .kind = kind,
                                .dtype = x->opt->dtype,
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
                      const struct layout *layouts)
{
    for (int i = 0; i < port; i++)
        if (u->port[i].tensor == u->port[port].tensor &&
            same_layout(&layouts[i], &layouts[port]))
            return true;
    return false;
}

/* A linear layer cuts what it contracts in the units in which its input is
 * cut already: those of a flattened channel. */
static void adopt_units(const struct pdl_mesh *m, const struct layout *made,
                        struct layout *need)
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
        const struct priced *f = &p->priced[(int64_t)b->from * k + i / k];
        const struct priced *t = &p->priced[(int64_t)b->to * k + i % k];
        struct layout need, grad;

        b->forward[i] = b->back[i] = -1;
        if (!f->ok || !t->ok) {
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

static bool price_pairs(struct pricing *p)
{
    struct oracle_layers *x = p->x;
    struct boundary *list;
    int n = 0, most = 1;

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

/* ---- all of it ----------------------------------------------------------------------- */

static bool allocate(struct pricing *p)
{
    struct oracle_layers *x = p->x;
    int64_t all = (int64_t)x->units.n * x->k + 1;

    x->step = PDL_NEW(x->arena, double, all);
    x->exchange = PDL_NEW(x->arena, double, all);
    x->bytes = PDL_NEW(x->arena, double, all);
    x->falls_back = PDL_NEW(x->arena, bool, all);
    x->spare = PDL_NEW(x->arena, bool, all);
    p->priced = PDL_NEW(x->arena, struct priced, all);
    p->class = PDL_NEW(x->arena, int, x->units.n + 1);
    if (!x->step || !x->exchange || !x->bytes || !x->falls_back || !x->spare ||
        !p->priced || !p->class)
        return false;
    for (int64_t i = 0; i < all; i++)
        x->step[i] = INFINITY;
    for (int u = 0; u < x->units.n; u++) {
        const struct oracle_unit *unit = &x->units.unit[u];
        int64_t nt = unit->part->ntensors, np = unit->nports + 1;
        struct layout *l;

        if (unit->class != u)
            continue;
        p->class[p->nclasses++] = u;
        l = PDL_NEW(x->arena, struct layout, x->k * (2 * nt + 2 * np));
        if (!l)
            return false;
        for (int c = 0; c < x->k; c++, l += 2 * nt + 2 * np)
            p->priced[(int64_t)u * x->k + c] =
                (struct priced){false, l, l + nt, l + 2 * nt, l + 2 * nt + np};
    }
    return true;
}

/* What a unit that follows its input costs depends on how that lies: it can
 * do without where it has another choice. */
static void find_spare(struct oracle_layers *x, int unit)
{
    int64_t first = (int64_t)unit * x->k;
    bool other = false;

    for (int c = 0; c < x->k; c++)
        other = other ||
                (isfinite(x->step[first + c]) && !x->falls_back[first + c]);
    for (int c = 0; c < x->k; c++)
        x->spare[first + c] = other && x->falls_back[first + c];
}

enum pdl_status oracle_layers_price(struct oracle_layers *x,
                                    struct pdl_err *err)
{
    struct pricing *p = PDL_NEW(x->arena, struct pricing, 1);

    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->x = x;
    x->npairs = 0;
    if (!allocate(p) || !pdl_parallel((int64_t)p->nclasses * x->k,
                                      x->opt->threads, unit_body, p))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    x->lowered += (int64_t)p->nclasses * x->k;
    for (int u = 0; u < x->units.n; u++)
        for (int c = 0; c < x->k; c++) {
            int64_t at = (int64_t)u * x->k + c;
            int64_t from = (int64_t)x->units.unit[u].class * x->k + c;

            x->step[at] = x->step[from];
            x->exchange[at] = x->exchange[from];
            x->bytes[at] = x->bytes[from];
            x->falls_back[at] = x->falls_back[from];
        }
    for (int u = 0; u < x->units.n; u++)
        find_spare(x, u);
    return price_pairs(p) ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
