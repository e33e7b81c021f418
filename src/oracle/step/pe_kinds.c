/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines with PEs of several kinds (groups, or pe_groups, of a system). A
 * stage of a pipeline runs as fast as the slowest kind of PE it has: with
 * equal shares that with the lowest rate, with uneven ones that which takes
 * longest for its share. A stage inside one group has its links and network;
 * what goes between stages, and stages on several groups, have the slowest.
 * Memory is asked lane by lane, and where shares are uneven kind by kind; the
 * tightest is reported. The peak rate is the mean of all. */
#include "oracle/step/step.h"

enum { MAX_KINDS = 64 };

static double rate(const struct pdl_pe *pe, enum pdl_precision p)
{
    return pdl_pe_matmul_rate(pe, p, 1);
}

static int64_t node_of(const struct oracle *o, int64_t rank)
{
    int64_t node = rank / o->sys->node.pes;

    return o->opt->nodes ? o->opt->nodes[node] : node;
}

static const struct pdl_pe *pe_of_rank(const struct oracle *o, int64_t rank)
{
    return pdl_system_pe(o->sys, node_of(o, rank));
}

/* The group of a rank, or which of the pe_groups it is in. */
int64_t oracle_kind(const struct oracle *o, int64_t rank)
{
    int64_t node = node_of(o, rank);

    if (o->sys->ngroups > 0)
        return pdl_system_group(o->sys, node);
    for (int64_t i = 0; i < o->sys->npe_groups; i++) {
        if (node < o->sys->pe_groups[i].nodes)
            return i;
        node -= o->sys->pe_groups[i].nodes;
    }
    return o->sys->npe_groups;
}

/* Kinds of PE of a lane, each with a rank that has it. */
struct kinds {
    int n;
    int64_t kind[MAX_KINDS], rank[MAX_KINDS];
};

static void find_kinds(const struct oracle *o, int lane, struct kinds *out)
{
    int64_t pes = o->p->mesh->pes, step = o->sys->node.pes;

    out->n = 0;
    for (int64_t r = 0; r < pes; r++) {
        int64_t kind;
        int i = 0;

        if (pdl_plan_rank_lane(o->p, r) != lane)
            continue;
        kind = oracle_kind(o, r);
        while (i < out->n && out->kind[i] != kind)
            i++;
        if (i == out->n && i < MAX_KINDS) {
            out->kind[i] = kind;
            out->rank[i] = r;
            out->n++;
        }
        if ((r / step + 1) * step <= pes &&
            pdl_plan_rank_lane(o->p, (r / step + 1) * step - 1) == lane)
            r = (r / step + 1) * step - 1; /* the rest of the node is alike */
    }
}

/* The oracle for the ranks of one kind in a lane; alone: there are no
 * others. */
static void settle_kind(const struct oracle *o, int64_t kind, int64_t rank,
                        bool alone, struct oracle_lane *own)
{
    const struct pdl_system *sys = o->sys;
    const struct pdl_system *whole =
        alone && sys->ngroups > 0 && kind >= 0 ? sys->groups[kind].whole : NULL;

    own->o = *o;
    own->sys = *sys;
    if (whole) {
        own->sys.node = whole->node;
        own->sys.network = whole->network;
        own->sys.levels = whole->levels;
        own->sys.nlevels = whole->nlevels;
        own->sys.collectives = whole->collectives;
        own->sys.ncollectives = whole->ncollectives;
    }
    own->sys.pe = *pe_of_rank(o, rank);
    own->o.sys = &own->sys;
    own->o.between = o;
    own->o.only = alone ? 0 : kind + 2;
    oracle_settle(&own->o, &own->changed);
}

/* What a stage's passes take on the ranks of a kind. */
static double passes_s(const struct oracle *mine, int stage)
{
    const struct pdl_plan_stage *s = &mine->p->stages[stage];
    int first[] = {s->first_forward, s->first_backward};
    int n[] = {s->nforward, s->nbackward};
    struct oracle fresh = *mine;
    struct oracle_ranks r;
    double sum = 0;

    oracle_memo_forget(&fresh, false);
    oracle_find_ranks(mine, stage, &r);
    for (int p = 0; p < 2; p++)
        for (int i = first[p]; i < first[p] + n[p]; i++) {
            const struct pdl_plan_item *it = &mine->p->items[i];

            for (int k = 0; k < it->nops; k++)
                sum +=
                    (double)it->repeat *
                    oracle_slowest(mine, it->first_op + k, &r, false)->seconds;
        }
    oracle_memo_forget(&fresh, false);
    return sum;
}

/* The kind that the others of a lane wait for. */
static int slowest(const struct oracle *o, int stage, const struct kinds *k,
                   struct oracle_lane *own)
{
    bool uneven = o->p->mesh->nparts > 0 && o->memo && !o->only;
    double worst = 0;
    int at = 0;

    for (int i = 0; i < k->n && k->n > 1; i++) {
        double s = 1 / rate(pe_of_rank(o, k->rank[i]), o->opt->precision);

        if (uneven) {
            settle_kind(o, k->kind[i], k->rank[i], false, own);
            s = passes_s(&own->o, stage);
        }
        at = s > worst ? i : at;
        worst = s > worst ? s : worst;
    }
    return at;
}

const struct oracle *oracle_on_stage(const struct oracle *o, int stage,
                                     struct oracle_lane *own)
{
    struct kinds k;
    int i;

    if (o->sys->npe_groups == 0)
        return o;
    find_kinds(o, pdl_plan_lane(o->p, stage), &k);
    i = slowest(o, stage, &k, own);
    settle_kind(o, k.kind[i], k.rank[i], k.n == 1, own);
    if (o->p->mesh->nparts == 0)
        own->o.only = 0; /* all have as much to do */
    return &own->o;
}

double oracle_peak(const struct oracle *o)
{
    double sum = 0;

    if (o->sys->npe_groups == 0)
        return o->sys->pe.peak_flop_per_s[o->opt->precision];
    for (int64_t r = 0; r < o->p->mesh->pes; r++)
        sum += pe_of_rank(o, r)->peak_flop_per_s[o->opt->precision];
    return sum / (double)o->p->mesh->pes;
}

/* ---- memory ----------------------------------------------------------- */

static int64_t usable(const struct oracle *o, const struct pdl_pe *pe)
{
    double n = (double)pe->memory_bytes *
               (pe->memory_usable > 0 ? pe->memory_usable : 1);

    return (int64_t)(n * (1 - o->opt->headroom));
}

int64_t oracle_capacity(const struct oracle *o)
{
    int64_t least = usable(o, &o->sys->pe);

    for (int64_t r = 0; o->sys->npe_groups > 0 && r < o->p->mesh->pes; r++) {
        int64_t n = usable(o, pe_of_rank(o, r));

        least = r == 0 || n < least ? n : least;
    }
    return least;
}

static double part_used(const struct pdl_projection *x)
{
    return (double)x->peak_bytes / (double)(x->capacity_bytes + 1);
}

/* Memory of the lane that comes closest to what its PEs have. */
static bool by_lane(const struct step *c, struct pdl_projection *out)
{
    struct pdl_projection worst = {.capacity_bytes = 0};
    struct kinds k;
    int at = -1;

    for (int l = 0; l < c->o->p->lanes; l++) {
        struct pdl_projection y = {.reason = ""};

        if (!oracle_plan_memory(c, l, &y))
            return false;
        find_kinds(c->o, l, &k);
        for (int i = 0; i < k.n; i++) {
            int64_t room = usable(c->o, pe_of_rank(c->o, k.rank[i]));

            y.capacity_bytes =
                i == 0 || room < y.capacity_bytes ? room : y.capacity_bytes;
        }
        if (at < 0 || part_used(&y) > part_used(&worst)) {
            worst = y;
            at = l;
        }
    }
    if (!oracle_plan_memory(c, at, out))
        return false;
    out->capacity_bytes = worst.capacity_bytes;
    return true;
}

bool oracle_kinds_memory(struct step *c, struct stage_work *w,
                         struct stage_exchange *u)
{
    const struct oracle *o = c->o;
    struct kinds k;

    c->tight = NULL;
    if (o->p->mesh->nparts == 0 || o->sys->npe_groups == 0)
        return true;
    c->tight = PDL_NEW(o->arena, struct pdl_projection, 1);
    find_kinds(o, 0, &k); /* an axis lies on groups: all lanes are alike */
    for (int i = 0; c->tight && i < k.n; i++) {
        struct oracle some = *o;
        struct step part = *c;
        struct pdl_projection y = {.reason = ""};

        some.only = k.kind[i] + 2;
        part.o = &some;
        if (!oracle_plan_lives(&part, w, u) ||
            !oracle_plan_memory(&part, -1, &y))
            return false;
        y.capacity_bytes = usable(o, pe_of_rank(o, k.rank[i]));
        if (i == 0 || part_used(&y) > part_used(c->tight))
            *c->tight = y;
    }
    return c->tight != NULL;
}

bool oracle_step_room(const struct step *c, struct pdl_projection *out)
{
    const struct pdl_projection *t = c->tight;

    if (c->o->sys->npe_groups == 0)
        return oracle_plan_memory(c, -1, out);
    if (!t)
        return by_lane(c, out);
    out->weights_bytes = t->weights_bytes;
    out->gradients_bytes = t->gradients_bytes;
    out->optimizer_bytes = t->optimizer_bytes;
    out->activations_bytes = t->activations_bytes;
    out->allocated_bytes = t->allocated_bytes;
    out->reserved_bytes = t->reserved_bytes;
    out->peak_bytes = t->peak_bytes;
    out->capacity_bytes = t->capacity_bytes;
    return true;
}

/* ---- speeds for lowering ---------------------------------------------- */

enum pdl_status pdl_speeds(pdl_arena *a, const struct pdl_system *sys,
                           enum pdl_precision precision,
                           struct pdl_plan_options *out, struct pdl_err *err)
{
    struct pdl_speed *list;

    if (sys->npe_groups == 0)
        return PDL_OK;
    list = PDL_NEW(a, struct pdl_speed, sys->npe_groups + 1);
    if (!list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < sys->npe_groups; i++)
        list[i] = (struct pdl_speed){sys->pe_groups[i].nodes * sys->node.pes,
                                     rate(&sys->pe_groups[i].pe, precision)};
    list[sys->npe_groups] =
        (struct pdl_speed){INT64_MAX, rate(&sys->pe, precision)};
    for (int64_t i = 0; i <= sys->npe_groups; i++)
        if (!(list[i].speed > 0))
            return pdl_fail(
                err, PDL_EINVAL, "%s has no %s arithmetic",
                i < sys->npe_groups ? sys->pe_groups[i].pe.name : sys->pe.name,
                pdl_precision_name(precision));
    out->speeds = list;
    out->nspeeds = (int)sys->npe_groups + 1;
    return PDL_OK;
}
