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
#include "oracle/bylayer/bylayer.h"

#include <math.h>
#include <string.h>

/* What the default of plans is: gradients of this many bytes together. */
static const int64_t BUCKET = INT64_C(25) << 20;
enum { MOST_COPIES = 1024 };

struct pricing {
    struct oracle_layers *x;
    int *class; /* units that are the first of their class */
    int nclasses;
};

/* ---- layouts ---------------------------------------------------------- */

/* Both meshes number ranks alike; factors of the finer one between the same
 * suffix products are one factor of the other. */
static struct oracle_layout on_mesh(const struct pdl_mesh *fine,
                                    const struct pdl_mesh *m,
                                    const struct pdl_plan_tensor *t)
{
    struct oracle_layout l;
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
static struct oracle_layout whole(struct oracle_layout l)
{
    for (int f = 0; f < PDL_MAX_FACTORS; f++)
        if (l.place.at[f] <= PDL_PARTIAL)
            l.place.at[f] = PDL_REPLICATED;
    return l;
}

/* ---- one unit, one candidate ------------------------------------------ */

struct look {
    const struct oracle_layers *x;
    const struct oracle_unit *u;
    const struct pdl_plan *p;
    const double *seconds;
    struct oracle_priced *out;
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

static struct oracle_layout layout_of(const struct look *k, int tensor)
{
    return on_mesh(&k->x->mesh, k->p->mesh, &k->p->tensors[tensor]);
}

/* The gradient of a port's tensor as the node makes it; a sum hands on what it
 * gets. */
static struct oracle_layout port_gradient(const struct look *k,
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

/* What operations of backward read, or not what they make themselves. */
static void mark_backward(const struct look *k, bool reads, bool *seen)
{
    const struct pdl_plan_stage *s = k->p->stages;

    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++)
        for (int j = 0; j < k->p->items[i].nops; j++) {
            const struct pdl_plan_op *x =
                &k->p->ops[k->p->items[i].first_op + j];

            for (int n = 0; n < (reads ? x->nin : x->nout); n++)
                seen[reads ? x->in[n] : x->out[n]] = reads;
        }
}

/* What forward makes (or the unit is given) and backward reads: its number,
 * and its bytes. What the unit hands on is its readers' to count, as what they
 * are given. */
static int find_kept(const struct look *k, bool *seen, int *list, double *bytes)
{
    int n = 0;

    *bytes = 0;
    mark_backward(k, true, seen);
    mark_backward(k, false, seen);
    for (int t = 0; t < k->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = &k->p->tensors[t];
        int m = x->model_tensor;

        if (seen[t] && !x->host && (m < 0 || k->read[m] || k->u->last) &&
            (x->kind == PDL_PLAN_ACTIVATION ||
             (x->kind == PDL_PLAN_INPUT && m >= 0 && k->outer[m]))) {
            *bytes += (double)pdl_plan_elements(k->p, t, 0) *
                      pdl_dtype_bits(x->dtype) / 8;
            list[n++] = t;
        }
    }
    return n;
}

/* One operation of the unit's plan, but on these tensors. */
static double price_of(const struct look *k, struct pdl_plan_op *op)
{
    struct pdl_plan_item item = {.nops = 1, .repeat = 1};
    struct pdl_plan_stage stage = {.nupdate = 1};
    struct pdl_plan p = *k->p;
    struct pdl_op_price price;

    p.ops = op;
    p.nops = p.nitems = 1;
    p.items = &item;
    p.stages = &stage;
    pdl_price_op(&p, k->x->sys, k->x->oracle, 0, &price);
    return price.seconds;
}

/* Seconds of forward and backward with what is kept; where it waits on the
 * host, copies each way hide behind what is computed, as far as that goes. A
 * unit alone would keep what it makes last, so its copies are priced here. */
static double run_of(struct look *k, pdl_arena *a, bool offload, double *keep)
{
    const struct pdl_plan_stage *s = k->p->stages;
    double forward = sum_of(k, s->first_forward, s->nforward, true);
    double back = sum_of(k, s->first_backward, s->nbackward, false), copy;
    bool *seen = PDL_NEW(a, bool, k->p->ntensors + 1);
    int *list = PDL_NEW(a, int, k->p->ntensors + 1), n;
    struct pdl_plan_op op = {.kind = PDL_PLAN_OP_COPY_OUT, .node = -1};

    if (!seen || !list)
        return INFINITY;
    n = find_kept(k, seen, list, keep);
    if (!offload || n == 0)
        return forward + back;
    op.in = op.out = list;
    op.nin = op.nout = n;
    copy = price_of(k, &op);
    *keep = 0;
    return fmax(forward, copy) + fmax(back, copy);
}

/* The price of one exchange as a part of a bucket of equal ones. */
static double in_bucket(struct look *k, pdl_arena *a, int op)
{
    const struct pdl_plan_op *x = &k->p->ops[op];
    int64_t limit = k->p->strategy->bucket_bytes;
    int64_t bytes = bytes_of(k->p, x), n;
    struct pdl_plan_op many = *x;
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
    return price_of(k, &many) / (double)n;
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
                       struct oracle_priced *out)
{
    const struct oracle_unit *u = &x->units.unit[unit];
    struct pdl_plan_options po = {
        .batch = x->opt->batch,
        .dtype = pdl_precision_storage(x->oracle->precision),
        .allow_empty = x->opt->allow_empty,
        .inner = u->gradients};
    struct look k = {.x = x, .u = u, .out = out};
    struct oracle_record record = {0};
    struct pdl_projection projection;
    struct oracle_unit_cost *cost = &x->cost[(int64_t)unit * x->k + c];
    struct pdl_strategy plain = x->strategy[c];
    bool offload = plain.offload_activations;
    struct pdl_err err;
    enum pdl_status st;

    plain.offload_activations = false;
    st = pdl_plan_lower(a, u->part, &plain, &po, &k.p, &err);
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
    cost->step =
        run_of(&k, a, offload, &cost->keep) * (double)k.p->micro_batches;
    add_update(&k, a, &cost->once, &cost->exchange);
    cost->step += cost->once;
    cost->state =
        (double)(projection.weights_bytes + projection.gradients_bytes +
                 projection.optimizer_bytes);
    cost->bytes = (double)projection.allocated_bytes;
    cost->falls_back = falls_back(&k);
    out->ok = true;
    return true;
}

static bool unit_body(void *ctx, int64_t i)
{
    struct pricing *p = ctx;
    int unit = p->class[i / p->x->k], c = (int)(i % p->x->k);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    bool ok = a && price_unit(p->x, a, unit, c,
                              &p->x->priced[(int64_t)unit * p->x->k + c]);

    pdl_arena_destroy(a);
    return ok;
}

/* ---- all of it -------------------------------------------------------- */

static bool allocate(struct pricing *p)
{
    struct oracle_layers *x = p->x;
    int64_t all = (int64_t)x->units.n * x->k + 1;

    x->cost = PDL_NEW(x->arena, struct oracle_unit_cost, all);
    x->priced = PDL_NEW(x->arena, struct oracle_priced, all);
    p->class = PDL_NEW(x->arena, int, x->units.n + 1);
    if (!x->cost || !x->priced || !p->class)
        return false;
    for (int64_t i = 0; i < all; i++)
        x->cost[i].step = INFINITY;
    for (int u = 0; u < x->units.n; u++) {
        const struct oracle_unit *unit = &x->units.unit[u];
        int64_t nt = unit->part->ntensors, np = unit->nports + 1;
        struct oracle_layout *l;

        if (unit->class != u)
            continue;
        p->class[p->nclasses++] = u;
        l = PDL_NEW(x->arena, struct oracle_layout, x->k * (2 * nt + 2 * np));
        if (!l)
            return false;
        for (int c = 0; c < x->k; c++, l += 2 * nt + 2 * np)
            x->priced[(int64_t)u * x->k + c] = (struct oracle_priced){
                false, l, l + nt, l + 2 * nt, l + 2 * nt + np};
    }
    return true;
}

/* What a unit that follows its input costs depends on how that lies: it can
 * do without where it has another choice. */
static void find_spare(struct oracle_layers *x, int unit)
{
    struct oracle_unit_cost *at = &x->cost[(int64_t)unit * x->k];
    bool other = false;

    for (int c = 0; c < x->k; c++)
        other = other || (isfinite(at[c].step) && !at[c].falls_back);
    for (int c = 0; c < x->k; c++)
        at[c].spare = other && at[c].falls_back;
}

enum pdl_status oracle_layers_price_units(struct oracle_layers *x,
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
    for (int64_t i = 0; i < (int64_t)x->units.n * x->k; i++)
        x->cost[i] =
            x->cost[x->units.unit[i / x->k].class * (int64_t)x->k + i % x->k];
    for (int u = 0; u < x->units.n; u++)
        find_spare(x, u);
    return PDL_OK;
}
