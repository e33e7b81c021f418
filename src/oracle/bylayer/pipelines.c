/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy for each layer of a pipeline, where it is cut into stages, and
 * what each block does to save memory: keep what backward reads, make it
 * again, or let it wait on the host. All three are chosen together
 * (stage_choice.c), from prices of units on the PEs of one stage for one
 * micro-batch (unit_prices.c). As everywhere in the search by layers, sums only
 * say which whole plans to price.
 *
 * A pipeline is cut where one tensor passes and between repeated blocks; what
 * lies between two such places is a segment of the chain. Where several
 * stages share a lane (interleaved), the slowest stage is not the slowest
 * lane, and they are cut as the plan for all layers cuts them. Layers of one
 * segment (a residual block) have one strategy: chains have one for each
 * layer. Gradient exchange counts half: some of it hides. What saves memory
 * is only looked at where without it nothing fits, as it always costs time. */
#include "oracle/bylayer/stage_choice.h"
#include "oracle/bylayer/bylayer.h"

#include <math.h>
#include <string.h>

enum { MOST_SAVINGS = 4, MOST_PRICES = 6, MOST_TOLD = 6 };

/* What is priced with one list of savings. */
struct segments {
    struct oracle_stages *s;
    struct oracle_layers x; /* candidates with savings */
    struct oracle_saving saving[MOST_SAVINGS];
    int nsavings, k; /* k: all candidates, with savings */
    int n;
    int *of;      /* of each unit */
    int *node;    /* first node of each segment, and one past all */
    bool *linked; /* the one before is of the same block */
    struct oracle_chain chain;
    double *run, *keep, *state;
    double **pair, **send;
    double *in_flight;
    double ends, switch_s;
    int *pick, *cut;
    int texts; /* answers that the notation holds: the best of them */
    struct {
        const char *text;
        double cost;
    } told[MOST_TOLD];
    double best;           /* the least cost of all */
    double *step;          /* of units, before any was left out */
    double limit;          /* what was left out costs more */
    struct segments *full; /* of this, with moves between all candidates */
    bool failed;
};

/* ---- segments --------------------------------------------------------- */

/* A segment begins where a unit does, all earlier nodes are of earlier units,
 * and one tensor passes. */
static void find_segments(struct segments *g)
{
    const struct oracle_units *us = &g->x.units;
    const struct pdl_model *m = us->model;
    pdl_arena *a = g->x.arena;
    int most = -1;

    g->of = PDL_NEW(a, int, us->n + 1);
    g->node = PDL_NEW(a, int, us->n + 2);
    g->linked = PDL_NEW(a, bool, us->n + 1);
    g->failed = !g->of || !g->node || !g->linked;
    for (int i = 0; !g->failed && i < m->nnodes; i++) {
        int u = us->unit_of[i];

        if (i == 0 || (u > most && us->unit[u].node[0] == i && us->narrow[i])) {
            g->linked[g->n] =
                i > 0 && pdl_same_block(m->nodes[i - 1].name, m->nodes[i].name);
            g->node[g->n++] = i;
        }
        most = u > most ? u : most;
        g->of[u] = g->n - 1;
        g->node[g->n] = m->nnodes;
    }
}

/* ---- what it costs ---------------------------------------------------- */

/* Seconds of a unit for one micro-batch, with its part of what is done once
 * and of the exchange of gradients. */
static double own_of(const struct segments *g, int64_t at)
{
    const struct oracle_unit_cost *x = &g->x.cost[at];

    return x->spare ? INFINITY
                    : x->step - x->once +
                          (x->once + .5 * x->exchange) / (double)g->s->micro;
}

static void add_units(struct segments *g)
{
    const struct oracle_layers *x = &g->x;

    for (int u = 0; u < x->units.n; u++)
        for (int c = 0; c < g->k; c++) {
            int64_t at = (int64_t)u * g->k + c;
            int64_t to = (int64_t)g->of[u] * g->k + c;

            g->run[to] += own_of(g, at);
            g->keep[to] += x->cost[at].keep;
            g->state[to] += x->cost[at].state;
        }
}

static void add_pairs(struct segments *g)
{
    const struct oracle_layers *x = &g->x;
    int k = g->k, each = k / g->nsavings;

    for (int e = 0; e < x->npairs; e++) {
        int u = g->of[x->pair[e].u], v = g->of[x->pair[e].v];

        for (int c = 0; u == v && c < k; c++)
            g->run[(int64_t)v * k + c] += x->pair[e].cost[(int64_t)c * k + c];
        for (int i = 0; u != v && i < k * k; i++)
            g->pair[v][i] += x->pair[e].cost[i];
    }
    for (int i = 1; i < g->n; i++)
        for (int c = 0; c < k * k; c++)
            if (g->linked[i] && c / k / each != c % k / each)
                g->pair[i][c] = INFINITY;
}

/* Switches cost so much: more of them than the notation holds are no answer,
 * and of equal blocks neighbours should choose alike. */
static void add_switches(struct segments *g, double seconds)
{
    int k = g->k;

    for (int i = 1; i < g->n; i++)
        for (int c = 0; c < k * k; c++)
            g->pair[i][c] += c / k == c % k ? 0 : seconds - g->switch_s;
    g->switch_s = seconds;
}

static double least_run(const struct segments *g)
{
    double sum = 0;

    for (int i = 0; i < g->n; i++) {
        double least = INFINITY;

        for (int c = 0; c < g->k; c++)
            least = fmin(least, g->run[(int64_t)i * g->k + c]);
        sum += least;
    }
    return isfinite(sum) ? sum / g->n : 0;
}

/* The seconds that a stage's hand-over takes, both ways: a plan of two stages
 * and one message. */
static double send_s(const struct segments *g, const struct oracle_layout *l,
                     const struct pdl_tensor *shape)
{
    const struct oracle_stages *s = g->s;
    struct pdl_plan_tensor t[2] = {
        {.name = shape->name,
         .kind = PDL_PLAN_ACTIVATION,
         .dtype = pdl_precision_storage(s->x.oracle->precision),
         .ndims = shape->rank + 1,
         .frame = pdl_no_frames,
         .model_tensor = -1}};
    int in = 0, out = 1;
    struct pdl_plan_op op = {.kind = PDL_PLAN_OP_SEND,
                             .node = -1,
                             .nin = 1,
                             .in = &in,
                             .nout = 1,
                             .out = &out,
                             .group = 1};
    struct pdl_plan_item item = {.nops = 1, .repeat = 1};
    struct pdl_plan_stage stages[2] = {{.nforward = 1}, {.first_node = 0}};
    struct pdl_mesh mesh = {.nfactors = g->x.mesh.nfactors + 1,
                            .pes = g->x.mesh.pes * s->lanes};
    struct pdl_plan p = {.model = g->x.units.model,
                         .strategy = &g->x.strategy[0],
                         .mesh = &mesh,
                         .batch = s->opt.batch,
                         .micro_batches = 1,
                         .ntensors = 2,
                         .nops = 1,
                         .nitems = 1,
                         .nstages = 2,
                         .tensors = t,
                         .ops = &op,
                         .items = &item,
                         .stages = stages,
                         .pipe_factors = 1,
                         .lanes = (int)s->lanes};
    struct pdl_op_price price;

    mesh.factor[0] = s->lanes;
    t[0].place.at[0] = PDL_REPLICATED;
    for (int f = 0; f < g->x.mesh.nfactors; f++) {
        mesh.factor[f + 1] = g->x.mesh.factor[f];
        t[0].place.at[f + 1] = l->place.at[f];
    }
    t[0].dim[0] = s->opt.batch;
    for (int d = 0; d < shape->rank; d++)
        t[0].dim[d + 1] = shape->dim[d];
    memcpy(t[0].unit, l->unit, sizeof l->unit);
    t[1] = t[0];
    t[1].stage = 1;
    pdl_price_op(&p, g->x.sys, g->x.oracle, 0, &price);
    return 2 * price.seconds;
}

/* The message into segment i, as its maker has it. */
static void price_sends(struct segments *g, int i)
{
    const struct oracle_layers *x = &g->x;

    for (int e = 0; e < x->npairs; e++) {
        const struct oracle_port *q = NULL;
        const struct oracle_unit *u = &x->units.unit[x->pair[e].v];
        const struct pdl_tensor *shape;
        int from = x->units.unit[x->pair[e].u].class;

        if (g->of[x->pair[e].v] != i || g->of[x->pair[e].u] == i)
            continue;
        for (int p = 0; p < u->nports && !q; p++)
            q = u->port[p].from == x->pair[e].u ? &u->port[p] : NULL;
        if (!q)
            continue;
        shape = &x->units.unit[from].part->tensors[q->from_tensor];
        for (int c = 0; c < g->k; c++) {
            const struct oracle_priced *p =
                &x->priced[(int64_t)from * g->k + c];

            g->send[i][c] =
                p->ok ? send_s(g, &p->made[q->from_tensor], shape) : INFINITY;
        }
        return;
    }
    memset(g->send[i], 0, (size_t)g->k * sizeof **g->send);
}

/* The chunks that a lane has share its room. What the two ends of the chain
 * (embedding, head) need beyond other segments is in one chunk: it is taken
 * off the room, not counted there. Returns the most of it in one place. */
static double take_ends(struct segments *g)
{
    double most = 0;

    for (int c = 0; c < g->k; c++) {
        double least = INFINITY;

        for (int i = 0; i < g->n; i++)
            least = fmin(least, g->state[(int64_t)i * g->k + c]);
        for (int i = 0; i<g->n; i += g->n> 1 ? g->n - 1 : 1) {
            double *end = &g->state[(int64_t)i * g->k + c];

            if (isfinite(g->run[(int64_t)i * g->k + c]))
                most = fmax(most, *end - least);
            *end = least;
        }
    }
    return most;
}

/* Micro-batches that a stage holds at once, on average over the stages of its
 * lane: those of the schedule's order. */
static bool find_flight(struct segments *g)
{
    const struct oracle_stages *s = g->s;
    struct oracle_order o = {.n = 0};
    struct pdl_tasks shape = {.schedule = s->base->schedule,
                              .lanes = (int)s->lanes,
                              .nstages = (int)s->stages,
                              .micro = s->micro};

    if (!oracle_order_fill(&o, g->x.arena, g->x.arena, &shape, false))
        return false;
    for (int i = 0; i < shape.nstages; i++) {
        int lane = pdl_schedule_lane(shape.schedule, shape.lanes, i);

        for (int k = 0; k < shape.nstages; k++)
            if (pdl_schedule_lane(shape.schedule, shape.lanes, k) == lane)
                g->in_flight[i] += (double)o.in_flight[k] * (double)s->lanes /
                                   (double)s->stages;
    }
    return true;
}

/* No stage begins within a block. */
static bool may_begin(const struct segments *g, int i)
{
    const int *cut = g->s->cut;

    for (int64_t k = 0; cut && k + 1 < g->s->stages; k++)
        if (cut[k] == g->node[i])
            return true;
    return !cut && !g->linked[i] && g->s->stages > 1;
}

static bool allocate(struct segments *g)
{
    pdl_arena *a = g->x.arena;
    int64_t n = (int64_t)g->n * g->k + 1, kk = (int64_t)g->k * g->k;

    g->run = PDL_NEW(a, double, n);
    g->keep = PDL_NEW(a, double, n);
    g->state = PDL_NEW(a, double, n);
    g->pair = PDL_NEW(a, double *, g->n + 1);
    g->send = PDL_NEW(a, double *, g->n + 1);
    g->in_flight = PDL_NEW(a, double, g->s->stages + 1);
    g->pick = PDL_NEW(a, int, g->x.units.n + 1);
    g->cut = PDL_NEW(a, int, g->s->stages + 1);
    if (!g->run || !g->keep || !g->state || !g->pair || !g->send ||
        !g->in_flight || !g->pick || !g->cut)
        return false;
    for (int i = 1; i < g->n; i++) {
        g->pair[i] = PDL_NEW(a, double, kk);
        if (!g->pair[i])
            return false;
        if (!may_begin(g, i))
            continue;
        g->send[i] = PDL_NEW(a, double, g->k);
        if (!g->send[i])
            return false;
    }
    return true;
}

static bool make_chain(struct segments *g)
{
    const struct oracle_stages *s = g->s;
    double lanes = (double)s->lanes, v = (double)s->stages / lanes;

    if (!allocate(g) || !find_flight(g))
        return false;
    add_units(g);
    add_pairs(g);
    for (int i = 1; i < g->n; i++)
        if (g->send[i])
            price_sends(g, i);
    if (v > 1)
        g->ends = take_ends(g);
    g->chain = (struct oracle_chain){
        .n = g->n,
        .k = g->k,
        .stages = (int)s->stages,
        .run = g->run,
        .keep = g->keep,
        .state = g->state,
        .pair = (const double *const *)g->pair,
        .send = (const double *const *)g->send,
        .fixed = s->cut != NULL,
        .in_flight = g->in_flight,
        .fill = v > 1 ? (lanes - 1) / (lanes * v) : 1,
        .each = v > 1 ? (double)s->micro * v : (double)s->micro - 1};
    return true;
}

/* ---- answers ---------------------------------------------------------- */

/* Keeps the best few, in order. */
static void tell(struct segments *g, const char *text, double cost)
{
    int i = g->texts < MOST_TOLD ? g->texts++ : MOST_TOLD;

    for (; i > 0 && g->told[i - 1].cost > cost; i--)
        if (i < MOST_TOLD)
            g->told[i] = g->told[i - 1];
    if (i < MOST_TOLD) {
        g->told[i].text = text;
        g->told[i].cost = cost;
    }
}

static bool found(void *ctx, const struct oracle_chain_answer *x)
{
    struct segments *g = ctx;
    struct oracle_written w = {
        .base = g->s->base, .saving = g->saving, .nsavings = g->nsavings};
    const char *text;
    int n = 0;

    for (int u = 0; u < g->x.units.n; u++)
        g->pick[u] = x->pick[g->of[u]];
    for (int i = 1; i < g->n; i++)
        if (!g->s->cut && x->stage[i] != x->stage[i - 1])
            g->cut[n++] = g->node[i];
    w.cut = g->cut;
    w.ncuts = n;
    text = oracle_layers_write_stages(&g->x, &w, g->pick);
    g->s->saves = g->nsavings > 1;
    g->best = fmin(g->best, x->cost);
    if (text)
        tell(g, text, x->cost);
    return true;
}

/* Answers for the room there is; more of them than the notation holds are
 * none, so switches cost more until one is. Their number; -1: no memory. */
static int solve(struct segments *g)
{
    double price = least_run(g) * 1e-6;
    bool exact = true;
    int n = 0;

    g->texts = 0;
    g->s->chain = &g->chain;
    g->best = INFINITY;
    g->chain.room =
        (g->s->room - g->ends) * (double)g->s->lanes / (double)g->s->stages;
    for (int i = 0; i < MOST_PRICES && g->texts == 0; i++) {
        add_switches(g, price);
        n = oracle_chain_solve(g->x.arena, &g->chain, found, g, &exact);
        if (n <= 0)
            return n;
        price *= 32;
    }
    g->s->exact = g->s->exact && exact;
    for (int i = 0; i < g->texts; i++)
        g->s->note(g->s->ctx, g->told[i].text);
    return n;
}

/* The ways to save memory that make sense here, the first: none. */
static int list_savings(const struct oracle_stages *s,
                        struct oracle_saving *out)
{
    const struct pdl_model *m = s->x.units.model;
    bool blocks = false;
    int n = 1;

    out[0] = (struct oracle_saving){.recompute = PDL_RECOMPUTE_NONE};
    for (int i = 1; i < m->nnodes && !blocks; i++)
        blocks = pdl_same_block(m->nodes[i - 1].name, m->nodes[i].name);
    if (blocks && strcmp(m->kind, "transformer") == 0)
        out[n++].recompute = PDL_RECOMPUTE_SELECTIVE;
    if (blocks)
        out[n++].recompute = PDL_RECOMPUTE_FULL;
    if (s->x.sys->node.host.pcie_bytes_per_s > 0)
        out[n++].offload = true;
    return n;
}

/* Each candidate once for each saving. */
static bool multiply(struct oracle_layers *x,
                     const struct oracle_saving *saving, int n)
{
    struct pdl_strategy *all =
        PDL_NEW(x->arena, struct pdl_strategy, (int64_t)x->k * n + 1);

    if (!all)
        return false;
    for (int i = 0; i < n * x->k; i++) {
        all[i] = x->strategy[i % x->k];
        all[i].recompute = saving[i / x->k].recompute;
        all[i].offload_activations = saving[i / x->k].offload;
    }
    x->strategy = all;
    x->k *= n;
    return true;
}

/* Units priced, and the moves of candidates with themselves. */
static struct segments *prepare(struct oracle_stages *s,
                                const struct oracle_saving *saving,
                                int nsavings)
{
    struct segments *g = PDL_NEW(s->x.arena, struct segments, 1);
    int64_t n;

    if (!g)
        return NULL;
    g->s = s;
    g->x = s->x;
    g->nsavings = nsavings;
    memcpy(g->saving, saving, (size_t)nsavings * sizeof *saving);
    if (!multiply(&g->x, saving, nsavings))
        return NULL;
    g->k = g->x.k;
    n = (int64_t)g->x.units.n * g->k;
    g->step = PDL_NEW(s->x.arena, double, n + 1);
    if (!g->step || oracle_layers_price_units(&g->x, NULL) != PDL_OK ||
        !oracle_layers_move(&g->x, s->x.k))
        return NULL;
    for (int64_t i = 0; i < n; i++)
        g->step[i] = g->x.cost[i].step;
    find_segments(g);
    s->x.lowered = g->x.lowered;
    s->x.moves = g->x.moves;
    return g->failed || !make_chain(g) ? NULL : g;
}

static double least_of(const struct segments *g, int u)
{
    double least = INFINITY;

    for (int c = 0; c < g->k; c++)
        least = fmin(least, own_of(g, (int64_t)u * g->k + c));
    return least;
}

/* Leaves out candidates of units that no answer below `limit` can have: every
 * unit at its least but this one, and all stages equal, would cost more. */
static void leave_out(struct segments *g, double limit)
{
    struct oracle_layers *x = &g->x;
    int64_t n = (int64_t)x->units.n * g->k;
    double scale = g->chain.fill + g->chain.each / (double)g->s->stages;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        x->cost[i].step = g->step[i];
    for (int u = 0; u < x->units.n; u++)
        sum += least_of(g, u);
    for (int u = 0; u < x->units.n; u++) {
        double rest = sum - least_of(g, u);

        for (int c = 0; c < g->k; c++) {
            int64_t at = (int64_t)u * g->k + c;

            if (scale * (rest + own_of(g, at)) > limit * (1 + 1e-9))
                x->cost[at].step = INFINITY;
            x->priced[at].ok = isfinite(x->cost[at].step);
        }
    }
    g->limit = limit;
}

/* The same with moves between all candidates. */
static struct segments *widen(struct segments *g)
{
    struct segments *f = PDL_NEW(g->x.arena, struct segments, 1);

    if (!f)
        return NULL;
    *f = *g;
    f->switch_s = 0;
    leave_out(f, g->best);
    g->limit = f->limit;
    if (!oracle_layers_move(&f->x, 0) || !make_chain(f))
        return NULL;
    g->s->x.moves = f->x.moves;
    return f;
}

static int search(struct segments *g)
{
    int n = solve(g), more;

    if (n < 0 || g->k == g->nsavings)
        return n;
    if (!g->full || !(g->best <= g->limit))
        g->full = widen(g);
    more = g->full ? solve(g->full) : -1;
    return more < 0 ? more : n + more;
}

enum pdl_status oracle_layers_stages(struct oracle_stages *s,
                                     struct pdl_err *err)
{
    struct oracle_saving saving[MOST_SAVINGS] = {{.offload = false}};
    int n = list_savings(s, saving), answers = 0;

    for (int i = 0; i < 2 && answers == 0 && (i == 0 || n > 1); i++) {
        if (!s->priced[i])
            s->priced[i] = prepare(s, saving, i ? n : 1);
        answers = s->priced[i] ? search(s->priced[i]) : -1;
    }
    return answers < 0 ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}
