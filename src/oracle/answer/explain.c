/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a step takes what it takes. Each finding of the ParaDL report's table of
 * limits and bottlenecks (Table V) is one row here: a function that looks at
 * the numbers of the projection and of the plan, says how large its share is,
 * and writes one sentence. What a resource is worth is never a formula: the
 * plan is priced again on a system that has more of it. */
#include "oracle/answer/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A finding below this share of the step is not worth a sentence. */
static const double WORTH = 0.03;

/* Text of numbers, good until the arena goes. */
static const char *seconds(const struct oracle_why *w, double s)
{
    char buf[32];

    return pdl_arena_strdup(
        w->arena, pdl_unit_format(s, PDL_UNIT_SECONDS, buf, sizeof buf));
}

static const char *bytes(const struct oracle_why *w, double n)
{
    char buf[32];

    return pdl_arena_strdup(
        w->arena, pdl_unit_format(n, PDL_UNIT_BYTES, buf, sizeof buf));
}

/* ---- who computes and keeps the same ---------------------------------- */

/* Ranks of the stage that hold the same part of a tensor. */
static double replicas(const struct oracle_why *w, int t)
{
    const struct pdl_plan_tensor *x = &w->p->tensors[t];
    double n = 1;

    for (int f = 0; f < w->p->mesh->nfactors; f++)
        if (!(w->p->pipe_factors >> f & 1) && x->place.at[f] < 0)
            n *= (double)w->p->mesh->factor[f];
    return n;
}

/* Ranks that do this very operation: no operand tells them apart. */
static double doers(const struct oracle_why *w, const struct pdl_plan_op *o)
{
    double n = 1;

    for (int f = 0; f < w->p->mesh->nfactors; f++) {
        bool same = !(w->p->pipe_factors >> f & 1);

        for (int k = 0; k < o->nin + o->nout && same; k++)
            same = w->p->tensors[k < o->nin ? o->in[k] : o->out[k - o->nin]]
                       .place.at[f] == PDL_REPLICATED;
        if (same)
            n *= (double)w->p->mesh->factor[f];
    }
    return n;
}

static double size_of(const struct oracle_why *w, int t)
{
    return (double)pdl_plan_elements(w->p, t, 0) *
           pdl_dtype_bits(w->p->tensors[t].dtype) / 8;
}

/* ---- findings: each returns its share and, where that counts, its text --- */

static double gradient_exchange(const struct oracle_why *w, const char **text)
{
    double hidden = w->x->layer_comm_s + w->x->halo_s + w->x->p2p_s;
    double exposed = w->x->exposed_comm_s - hidden, share;

    share = exposed / w->x->step_s;
    if (w->x->gradient_comm_s <= 0 || share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "Gradient exchange of %s costs %s (%.0f %% of the step) that backward "
        "does not hide, or is slower by: more samples per PE%s would hide or "
        "spread it.",
        seconds(w, w->x->gradient_comm_s), seconds(w, exposed), 100 * share,
        w->p->strategy->no_overlap || w->p->strategy->exchange_paper
            ? ", or overlap=on,"
            : "");
    return share;
}

/* The largest term whose axis needs collectives inside layers; NULL: none. */
static const struct pdl_term *layer_term(const struct pdl_strategy *s)
{
    static const enum pdl_axis axes[] = {PDL_AXIS_TENSOR, PDL_AXIS_FILTER,
                                         PDL_AXIS_CHANNEL, PDL_AXIS_CONTEXT,
                                         PDL_AXIS_EXPERT};
    const struct pdl_term *best = NULL;

    for (int c = 0; c < s->nclauses; c++)
        for (int i = 0; i < s->clause[c].nterms; i++)
            for (size_t k = 0; k < sizeof axes / sizeof axes[0]; k++) {
                const struct pdl_term *t = &s->clause[c].term[i];

                if (t->axis == axes[k] && (!best || t->size[0] > best->size[0]))
                    best = t;
            }
    return best;
}

/* Most of it leaves nodes, though the axis would fit into one (sharded weights
 * leave them whatever the order). */
static const char *placement(const struct oracle_why *w,
                             const struct pdl_term *t)
{
    if (!t || t->size[0] > w->sys->node.pes || w->p->strategy->zero == 3 ||
        w->x->layer_between_s < w->x->layer_comm_s / 2)
        return "";
    return pdl_arena_printf(
        w->arena,
        " %s of that leaves nodes: written last in the strategy, %s=%lld stays "
        "inside one.",
        seconds(w, w->x->layer_between_s), pdl_axis_name(t->axis),
        (long long)t->size[0]);
}

static double layer_collectives(const struct oracle_why *w, const char **text)
{
    double all = w->x->layer_comm_s, shown = fmin(all, w->x->exposed_comm_s);
    double share = shown / w->x->step_s;
    const struct pdl_term *t = layer_term(w->p->strategy);

    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "Collectives inside layers take %s (%.0f %% of the step)%s%s: a "
        "smaller %s axis, inside a node of %lld PEs, needs less of them.%s",
        seconds(w, shown), 100 * share,
        shown < .99 * all ? " that nothing hides, of "
                          : ", and nothing hides them",
        shown < .99 * all ? seconds(w, all) : "",
        t ? pdl_axis_name(t->axis) : "spatial", (long long)w->sys->node.pes,
        placement(w, t));
    return share;
}

static double p2p(const struct oracle_why *w, const char **text)
{
    double s = w->x->halo_s + w->x->p2p_s, share = s / w->x->step_s;

    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "Messages between neighbours and stages take %s (%.0f %% of the step): "
        "fewer parts, a cut in one dimension only, or a direct path between "
        "the PEs' memories would shorten them.",
        seconds(w, s), 100 * share);
    return share;
}

/* The system as one of `flows` rings would see it, were it alone on the
 * adapters that it leaves the node by. */
static bool alone(const struct oracle_why *w, double flows,
                  struct pdl_system *out)
{
    struct pdl_level *levels =
        PDL_NEW(w->arena, struct pdl_level, w->sys->nlevels);

    if (!levels)
        return false;
    memcpy(levels, w->sys->levels, (size_t)w->sys->nlevels * sizeof *levels);
    for (int i = 1; i < w->sys->nlevels; i++) {
        levels[i].bytes_per_s *= flows;
        levels[i].measured_bytes_per_s *= flows;
    }
    *out = *w->sys;
    out->levels = levels;
    return true;
}

static bool once_a_step(const struct oracle_why *w, int op)
{
    return op >= w->p->items[w->p->stages[0].first_update].first_op;
}

/* The next larger number of flows that a collective shares adapters with. */
static double more_flows(const struct oracle_why *w, double than)
{
    double next = 0;

    for (int i = 0; i < w->p->nops; i++)
        if (w->price[i].level > 0 && w->price[i].flows > than &&
            (next <= 0 || w->price[i].flows < next))
            next = w->price[i].flows;
    return next;
}

/* What sharing adapters costs, operation by operation. Time that backward
 * hides is not lost, so no more than what is exposed. */
static double congestion(const struct oracle_why *w, const char **text)
{
    struct pdl_op_price *then;
    double lost = 0, share;

    if (w->x->contention <= 1)
        return 0;
    then = PDL_NEW(w->arena, struct pdl_op_price, w->p->nops + 1);
    for (double flows = more_flows(w, 1); then && flows > 0;
         flows = more_flows(w, flows)) {
        struct pdl_system free_way;

        if (!alone(w, flows, &free_way) ||
            oracle_price_ops(w->p, &free_way, w->opt, true, then, w->err) !=
                PDL_OK)
            return 0;
        for (int i = 0; i < w->p->nops; i++)
            if (w->price[i].level > 0 && w->price[i].flows == flows)
                lost += (w->price[i].seconds - then[i].seconds) *
                        (once_a_step(w, i) ? 1 : (double)w->p->micro_batches);
    }
    lost = lost < w->x->exposed_comm_s ? lost : w->x->exposed_comm_s;
    share = lost / w->x->step_s;
    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "Up to %.0f groups share the adapters of a node, which costs up to %s "
        "(%.0f %% of the step): more adapters, or axes that keep traffic "
        "inside a node, relieve them.",
        w->x->contention, seconds(w, lost), 100 * share);
    return share;
}

static double io_staging(const struct oracle_why *w, const char **text)
{
    const struct pdl_strategy *s = w->p->strategy;
    double share = w->x->io_s / w->x->step_s;

    if (share < WORTH)
        return 0;
    if (pdl_strategy_hosts_states(s) || pdl_strategy_offloads(s)) {
        *text = pdl_arena_printf(
            w->arena,
            "Copies to and from the host's memory take %s that nothing hides "
            "(%.0f %% of the step): a faster link to the host, recomputation, "
            "or less offload help.",
            seconds(w, w->x->io_s), 100 * share);
        return share;
    }
    *text = pdl_arena_printf(
        w->arena,
        "Loading and staging samples takes %s that nothing hides (%.0f %% of "
        "the step): faster storage, prefetching, or readers on every PE help.",
        seconds(w, w->x->io_s), 100 * share);
    return share;
}

/* Weights that were gathered are there for one layer, and not copies that
 * stay. */
static bool is_gathered(const struct pdl_plan *p, int t)
{
    int of = p->tensors[t].model_tensor;

    return p->tensors[t].kind == PDL_PLAN_ACTIVATION && of >= 0 &&
           p->model->tensors[of].kind == PDL_TENSOR_WEIGHT;
}

/* Only where memory is short: half of it in use, or more. Gradients and
 * optimizer state lie like the weights. */
static double memory_redundancy(const struct oracle_why *w, const char **text)
{
    double state = 0, weights = 0, act = 0, all = 0, twice, share;
    double peak = (double)w->x->peak_bytes;

    for (int t = 0; t < w->p->ntensors; t++) {
        enum pdl_plan_kind k = w->p->tensors[t].kind;
        double n = w->p->tensors[t].stage == 0 && !is_gathered(w->p, t)
                       ? size_of(w, t)
                       : 0;
        double again = n * (1 - 1 / replicas(w, t));

        state += k == PDL_PLAN_WEIGHT ? again : 0;
        weights += k == PDL_PLAN_WEIGHT ? n : 0;
        act += k == PDL_PLAN_ACTIVATION ? again : 0;
        all += k == PDL_PLAN_ACTIVATION ? n : 0;
    }
    state = weights > 0
                ? state / weights *
                      (double)(w->x->weights_bytes + w->x->gradients_bytes +
                               w->x->optimizer_bytes)
                : 0;
    act = all > 0 ? act / all * (double)w->x->activations_bytes : 0;
    twice = state + act < peak ? state + act : peak;
    share = twice / peak;
    if (share < 0.25 || peak < 0.5 * (double)w->x->capacity_bytes)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "%s of the %s of a PE are copies of what other PEs hold too (%s of "
        "weights and their state, %s of activations): an axis that cuts "
        "them would free that.",
        bytes(w, twice), bytes(w, peak), bytes(w, state), bytes(w, act));
    return share;
}

static double fragmentation(const struct oracle_why *w, const char **text)
{
    double lost = (double)(w->x->reserved_bytes - w->x->allocated_bytes);
    double share = lost / (double)w->x->peak_bytes;

    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "The allocator holds %s (%.0f %%) more than tensors occupy: fewer "
        "different sizes, or a planned arena, would give it back.",
        bytes(w, lost), 100 * share);
    return share;
}

static double weight_update(const struct oracle_why *w, const char **text)
{
    double share = w->x->update_s / w->x->step_s;

    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "The weight update takes %s (%.0f %% of the step) at memory bandwidth "
        "on every PE: cutting the weights, or a larger batch per step, makes "
        "it rarer or smaller.",
        seconds(w, w->x->update_s), 100 * share);
    return share;
}

/* Forward and backward of one micro-batch in a stage. */
static double stage_seconds(const struct oracle_why *w, int stage)
{
    const struct pdl_plan_stage *s = &w->p->stages[stage];
    double sum = 0;

    for (int pass = 0; pass < 2; pass++) {
        int first = pass ? s->first_backward : s->first_forward;
        int n = pass ? s->nbackward : s->nforward;

        for (int i = first; i < first + n; i++)
            for (int k = 0; k < w->p->items[i].nops; k++) {
                int op = w->p->items[i].first_op + k;

                sum += w->price[op].seconds;
            }
    }
    return sum;
}

static double stage_imbalance(const struct oracle_why *w, const char **text)
{
    double mean = 0, worst = 0, share = w->x->bubble_s / w->x->step_s;
    int slowest = 0;

    if (w->p->nstages < 2 || share < WORTH)
        return 0;
    for (int s = 0; s < w->p->nstages; s++) {
        double t = stage_seconds(w, s);

        mean += t / w->p->nstages;
        slowest = t > worst ? s : slowest;
        worst = t > worst ? t : worst;
    }
    *text = pdl_arena_printf(
        w->arena,
        "The pipeline waits %s (%.0f %% of the step): stage %d takes %.0f %% "
        "longer than the mean of %d stages, and %lld micro-batches fill them; "
        "more micro-batches or other cuts help.",
        seconds(w, w->x->bubble_s), 100 * share, slowest,
        mean > 0 ? 100 * (worst / mean - 1) : 0.0, w->p->nstages,
        (long long)w->p->micro_batches);
    return share;
}

static double compute_redundancy(const struct oracle_why *w, const char **text)
{
    double again = 0, share;
    int layers = 0;

    for (int i = 0; i < w->p->nops; i++) {
        const struct pdl_plan_op *o = &w->p->ops[i];
        double n;

        if (o->kind != PDL_PLAN_OP_COMPUTE || o->node < 0)
            continue;
        n = doers(w, o);
        if (n <= 1)
            continue;
        again += w->price[i].seconds * (1 - 1 / n) / w->p->nstages;
        layers += o->pass == PDL_FORWARD && o->part == 0;
    }
    again *= (double)w->p->micro_batches;
    share = again / w->x->step_s;
    if (share < WORTH)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "%d layers are computed alike on several PEs, which costs %s (%.0f %% "
        "of the step): an axis that cuts them too would spread that work.",
        layers, seconds(w, again), 100 * share);
    return share;
}

/* The tightest cut: items a part has, in the units it is cut in. */
static double pe_limit(const struct oracle_why *w, const char **text)
{
    double tight = 1e300;
    int at = -1, dim = 0;
    int64_t parts_at = 1;

    for (int t = 0; t < w->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = &w->p->tensors[t];

        if (x->kind == PDL_PLAN_STATISTIC || x->kind == PDL_PLAN_LABEL)
            continue;
        for (int d = 0; d < x->ndims; d++) {
            int64_t parts = 1, unit = x->unit[d] > 1 ? x->unit[d] : 1;
            double each;

            for (int f = 0; f < w->p->mesh->nfactors; f++)
                if (x->place.at[f] == d)
                    parts *= w->p->mesh->factor[f];
            each = (double)x->dim[d] / (double)unit / (double)parts;
            if (parts > 1 && each < tight) {
                tight = each;
                at = t;
                dim = d;
                parts_at = parts;
            }
        }
    }
    if (at < 0 || tight >= 2)
        return 0;
    *text = pdl_arena_printf(
        w->arena,
        "No more PEs along this axis: %s is cut into %lld parts of %lld items "
        "already (%s).",
        w->p->tensors[at].name, (long long)parts_at,
        (long long)w->p->tensors[at].dim[dim],
        dim == 0 && w->p->tensors[at].kind != PDL_PLAN_WEIGHT
            ? "a larger batch lifts the limit"
            : "another axis must take the rest");
    return tight < 1 ? 1 : 1 / tight;
}

/* ---- the table -------------------------------------------------------- */

// clang-format off
static const struct {
    const char *id;
    enum pdl_limit_kind kind;
    const char *phase;
    double (*find)(const struct oracle_why *w, const char **text);
} findings[] = {
    {"gradient-exchange",  PDL_LIMIT,      "gradient exchange", gradient_exchange},
    {"layer-collectives",  PDL_LIMIT,      "forward, backward", layer_collectives},
    {"p2p-staged",         PDL_BOTTLENECK, "forward, backward", p2p},
    {"congestion",         PDL_BOTTLENECK, "communication",     congestion},
    {"io-staging",         PDL_BOTTLENECK, "input",             io_staging},
    {"memory-redundancy",  PDL_BOTTLENECK, "memory",            memory_redundancy},
    {"fragmentation",      PDL_BOTTLENECK, "memory",            fragmentation},
    {"weight-update",      PDL_LIMIT,      "update",            weight_update},
    {"stage-imbalance",    PDL_LIMIT,      "forward, backward", stage_imbalance},
    {"compute-redundancy", PDL_BOTTLENECK, "forward, backward", compute_redundancy},
    {"pe-limit",           PDL_LIMIT,      "scaling",           pe_limit},
};
// clang-format on
enum { NFINDINGS = sizeof findings / sizeof findings[0] };

static int by_share(const void *pa, const void *pb)
{
    const struct pdl_limit *a = pa, *b = pb;

    if (a->share != b->share)
        return a->share > b->share ? -1 : 1;
    return strcmp(a->id, b->id);
}

static enum pdl_status find_limits(const struct oracle_why *w,
                                   struct pdl_explanation *out)
{
    struct pdl_limit *list = PDL_NEW(w->arena, struct pdl_limit, NFINDINGS);
    int n = 0;

    if (!list)
        return pdl_fail(w->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < NFINDINGS; i++) {
        const char *text = NULL;
        double share = findings[i].find(w, &text);

        if (share > 0 && text)
            list[n++] = (struct pdl_limit){findings[i].id, findings[i].kind,
                                           findings[i].phase, share, text};
    }
    qsort(list, (size_t)n, sizeof *list, by_share);
    out->limits = list;
    out->nlimits = n;
    return PDL_OK;
}

enum pdl_status pdl_explain(pdl_arena *a, const struct pdl_plan *plan,
                            const struct pdl_system *sys,
                            const struct pdl_oracle_options *opt,
                            const struct pdl_projection *x,
                            struct pdl_explanation *out, struct pdl_err *err)
{
    struct pdl_op_price *price =
        PDL_NEW(a, struct pdl_op_price, plan->nops + 1);
    struct oracle_why w = {a, plan, sys, opt, x, err, price};
    struct pdl_explanation e = {0};
    enum pdl_status st = price ? pdl_price_ops(plan, sys, opt, price, err)
                               : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = find_limits(&w, &e);
    if (st == PDL_OK)
        st = oracle_find_gains(&w, &e);
    if (st == PDL_OK)
        *out = e;
    return st;
}
