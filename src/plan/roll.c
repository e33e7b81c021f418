/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering a network of many equal blocks in the time and the memory of a few:
 * some rounds of the repeated segment are left out, the short network is
 * lowered as any other, and what its rounds became is compared (units.c). Where
 * they are alike one of them stands for those that were left out.
 *
 * Buckets of gradients have a memory: what was left in one at the end of a
 * block decides where the next is full. Whether they are full at the same
 * gradients in every round is found by filling the real ones, without tensors;
 * if they are after every so many rounds, a unit has that many. */
#include "units.h"

#include <string.h>

enum {
    MAX_PERIOD = 8,
    MAX_TAIL = 8,
    MAX_BUCKETS = 32 /* sets of factors over which gradients are partial */
};

struct roller {
    struct plan_lower lo; /* as it is to begin with */
    const struct pdl_model *model;
    const int *stage; /* of each node, all rounds; NULL: there is one stage */
    int nstages, segment;
    int first_node; /* of the segment, rounds written out */
    int width, period, tail;
};

/* ---- which rounds ----------------------------------------------------- */

/* The stage of a round, or -1: it has several. */
static int stage_of(const struct roller *r, int64_t round)
{
    int n = r->model->segments[r->segment].nnodes;
    const int *s;

    if (!r->stage)
        return 0;
    s = r->stage + r->first_node + round * n;
    for (int i = 1; i < n; i++)
        if (s[i] != s[0])
            return -1;
    return s[0];
}

/* Of n rounds of a stage from `first` on: the units, or none. What is no unit
 * lies before them, but for the tail. */
static bool find_units(const struct roller *r, int64_t first, int64_t n,
                       struct pdl_plan_units *out)
{
    int64_t sides = (int64_t)2 * r->width * r->period;
    int64_t repeat = (n - r->width - r->tail - sides) / r->period;

    if (n < r->width + r->tail + sides || repeat < 2)
        return false;
    out->repeat = repeat;
    out->first = (int)(first + n - r->tail - sides - repeat * r->period);
    return true;
}

static const struct pdl_plan_roll *choose(struct roller *r)
{
    pdl_arena *a = r->lo.arena;
    int64_t rounds = r->model->segments[r->segment].repeat, skipped = 0;
    struct pdl_plan_roll *roll = PDL_NEW(a, struct pdl_plan_roll, 1);
    struct pdl_plan_units *g =
        PDL_NEW(a, struct pdl_plan_units, r->nstages + 1);

    if (!roll || !g)
        return NULL;
    *roll = (struct pdl_plan_roll){.model = r->model,
                                   .segment = r->segment,
                                   .width = r->width,
                                   .period = r->period,
                                   .groups = g};
    for (int64_t i = 0, n; i < rounds; i += n) {
        int s = stage_of(r, i);

        for (n = 1; s >= 0 && i + n < rounds && stage_of(r, i + n) == s;)
            n++;
        if (s < 0 || roll->ngroups >= r->nstages ||
            !find_units(r, i, n, &g[roll->ngroups]))
            continue;
        g[roll->ngroups].first -= (int)skipped;
        skipped += (g[roll->ngroups++].repeat - 1) * r->period;
    }
    return roll->ngroups > 0 ? roll : NULL;
}

/* ---- buckets ---------------------------------------------------------- */

struct fills {
    int n;
    uint32_t group[MAX_BUCKETS];
    int64_t bytes[MAX_BUCKETS], count[MAX_BUCKETS];
    int64_t limit;
};

/* Is the bucket full with this one? */
static bool fill(struct fills *f, const struct pdl_plan_push *p)
{
    int i = 0;

    while (i < f->n && f->group[i] != p->group)
        i++;
    if (i == MAX_BUCKETS)
        return false;
    if (i == f->n) {
        f->group[f->n++] = p->group;
        f->bytes[i] = f->count[i] = 0;
    }
    f->bytes[i] += p->bytes;
    f->count[i]++;
    if (f->bytes[i] < f->limit && f->count[i] < PLAN_MAX_BUCKET)
        return false;
    f->bytes[i] = f->count[i] = 0;
    return true;
}

/* Fills the buckets of one stage as the whole network does. Returns whether
 * they are full where the short one's are; sums up, for each of the units of a
 * group (the last one first), where that is. */
static bool fill_stage(const struct plan_units *u, int first, int end,
                       uint64_t *where, int64_t *nwhere)
{
    const struct pdl_plan_push *pushes = u->roll->pushes;
    struct fills f = {.limit = pdl_plan_bucket_bytes(u->p->strategy)};
    bool same = true;

    *nwhere = 0;
    for (int i = first, n; i < end; i += n) {
        int unit = pushes[i].round < 0 ? -1 : u->of_round[pushes[i].round];
        int64_t times = plan_unit_repeats(u, unit)
                            ? u->roll->groups[plan_unit_group(u, unit)].repeat
                            : 1;

        for (n = 1; i + n < end && unit >= 0 && pushes[i + n].round >= 0 &&
                    u->of_round[pushes[i + n].round] == unit;)
            n++;
        for (int64_t k = 0; k < times; k++) {
            uint64_t code = UINT64_C(14695981039346656037);

            for (int j = i; j < i + n; j++) {
                bool full = fill(&f, &pushes[j]);

                code = (code ^ (full ? 2 : 1)) * UINT64_C(1099511628211);
                same = same && full == pushes[j].full;
            }
            if (unit >= 0 && where)
                where[(*nwhere)++] = code;
        }
    }
    return same;
}

/* The shortest period of what is left after a few. Units begin one period
 * later, so that a bucket of theirs holds nothing from before. */
static bool find_period(const uint64_t *where, int64_t n, int *period,
                        int *tail)
{
    for (int p = 1; p <= MAX_PERIOD; p++)
        for (int t = 0; t <= MAX_TAIL; t++) {
            int64_t i = t;

            while (i + p < n && where[i] == where[i + p])
                i++;
            if (i + p >= n && n > 4 * p + t) {
                *period = p;
                *tail += t + p;
                return true;
            }
        }
    return false;
}

/* Where the pushes of the stage end that begin with the first. */
static int end_of_stage(const struct pdl_plan_roll *roll, int first)
{
    int end = first;

    while (end < roll->npushes &&
           roll->pushes[end].stage == roll->pushes[first].stage)
        end++;
    return end;
}

/* True: as they are, or (better set) with another period. */
static bool check_buckets(struct roller *r, const struct plan_units *u,
                          bool *better)
{
    int64_t rounds = r->model->segments[r->segment].repeat, n;
    uint64_t *where = PDL_NEW(r->lo.arena, uint64_t, rounds + 1);
    int period = r->period, tail = r->tail;
    bool same = where != NULL;

    for (int i = 0, end; same && i < u->roll->npushes; i = end) {
        end = end_of_stage(u->roll, i);
        if (fill_stage(u, i, end, where, &n))
            continue;
        same = false;
        if (r->period == 1 && r->tail == r->width &&
            find_period(where, n, &period, &tail))
            *better = true;
    }
    r->period = period;
    r->tail = tail;
    return same;
}

/* ---- items ------------------------------------------------------------ */

/* Every run of the middle unit's operations becomes an item of its own, with
 * one before and one after. */
static int cut_item(const struct plan_units *u, struct pdl_plan_item it,
                    struct pdl_plan_item *out)
{
    int end = it.first_op + it.nops, n = 0;

    out[0] = it;
    for (int i = it.first_op, k; i < end; i += k) {
        bool repeats = plan_unit_repeats(u, u->op[i]);

        for (k = 1; i + k < end && u->op[i + k] == u->op[i];)
            k++;
        if (!repeats)
            continue;
        out[n].nops = i - out[n].first_op;
        out[++n] = (struct pdl_plan_item){
            i, k, u->roll->groups[plan_unit_group(u, u->op[i])].repeat,
            u->roll->segment};
        out[++n] = it;
        out[n].first_op = i + k;
    }
    out[n].nops = end - out[n].first_op;
    return n + 1;
}

static int cut_items(const struct plan_units *u, const struct pdl_plan_item *in,
                     int nin, struct pdl_plan_item *out)
{
    int n = 0;

    for (int k = 0; k < nin; k++)
        n += cut_item(u, in[k], &out[n]);
    return n;
}

static int count_runs(const struct plan_units *u)
{
    int n = 0;

    for (int i = 0; i < u->p->nops; i++)
        n += plan_unit_repeats(u, u->op[i]) &&
             (i == 0 || u->op[i - 1] != u->op[i]);
    return n;
}

/* Programs keep their order: forward by stage, backward from the last stage,
 * update by stage. */
static bool cut_programs(pdl_arena *a, const struct plan_units *u,
                         struct pdl_plan *p)
{
    struct pdl_plan_item *items =
        PDL_NEW(a, struct pdl_plan_item, p->nitems + 2 * count_runs(u) + 1);
    struct pdl_plan_stage *stages =
        PDL_NEW(a, struct pdl_plan_stage, p->nstages);
    int n = 0;

    if (!items || !stages)
        return false;
    memcpy(stages, p->stages, (size_t)p->nstages * sizeof *stages);
    for (int k = 0; k < 3 * p->nstages; k++) {
        int i = k % p->nstages,
            s = k / p->nstages == 1 ? p->nstages - 1 - i : i;
        struct pdl_plan_stage *x = &stages[s];
        int *first = k < p->nstages       ? &x->first_forward
                     : k < 2 * p->nstages ? &x->first_backward
                                          : &x->first_update;
        int *count = k < p->nstages       ? &x->nforward
                     : k < 2 * p->nstages ? &x->nbackward
                                          : &x->nupdate;
        int made = cut_items(u, &p->items[*first], *count, &items[n]);

        *first = n;
        *count = made;
        n += made;
    }
    p->items = items;
    p->nitems = n;
    p->stages = stages;
    return true;
}

/* ---- all of it -------------------------------------------------------- */

/* The round and the stage of each node of the short network. */
static bool describe(struct roller *r, const struct pdl_plan_roll *roll,
                     const struct pdl_model *few, struct plan_rolled *out)
{
    int *round = PDL_NEW(r->lo.arena, int, few->nnodes + 1);
    int *stage = PDL_NEW(r->lo.arena, int, few->nnodes + 1);
    int at = 0, whole = 0;

    *out = (struct plan_rolled){roll, round, stage};
    if (!round || !stage)
        return false;
    while (at < few->nnodes) {
        int n = r->model->segments[r->segment].nnodes, k = at - r->first_node;
        bool ours =
            k >= 0 &&
            whole < r->first_node + n * r->model->segments[r->segment].repeat;

        round[at] = ours ? k / n : -1;
        stage[at] = r->stage ? r->stage[whole] : 0;
        at++;
        whole++;
        if (ours && (k + 1) % n == 0)
            whole += n * (int)plan_roll_skip(roll, k / n);
    }
    return true;
}

/* OK with *out NULL: its rounds are not alike. */
static enum pdl_status try(struct roller *r, const struct pdl_plan **out,
                           bool *better)
{
    const struct pdl_plan_roll *roll = choose(r);
    struct pdl_plan_roll *kept = NULL;
    struct plan_lower lo = r->lo;
    struct plan_rolled rolled;
    struct plan_units u;
    struct pdl_plan *p;
    enum pdl_status st;
    bool made;

    *out = NULL;
    if (!roll)
        return PDL_OK;
    st = plan_expand_rounds(lo.arena, r->model, roll, &lo.model, lo.err);
    if (st != PDL_OK)
        return st;
    if (!describe(r, roll, lo.model, &rolled))
        return pdl_fail(lo.err, PDL_ENOMEM, "out of memory");
    lo.rolled = &rolled;
    st = plan_lower_as(&lo, out);
    if (st != PDL_OK)
        return st;
    p = PDL_NEW(lo.arena, struct pdl_plan, 1);
    kept = PDL_NEW(lo.arena, struct pdl_plan_roll, 1);
    if (!p || !kept)
        return pdl_fail(lo.err, PDL_ENOMEM, "out of memory");
    *p = **out;
    *kept = *roll;
    kept->fallback_round = lo.fallback_round;
    kept->pushes = lo.pushes;
    kept->npushes = lo.npushes;
    p->roll = kept;
    *out = NULL;
    made = plan_units_make(lo.arena, p, kept, &u);
    if (!u.of_round || !check_buckets(r, &u, better) || !made ||
        !plan_units_alike(&u) || !cut_programs(lo.arena, &u, p))
        return PDL_OK;
    *out = p;
    return PDL_OK;
}

/* The segment with the most rounds; -1: none has several. */
static int find_segment(const struct pdl_model *m)
{
    int best = -1;

    for (int s = 0; s < m->nsegments; s++)
        if (m->segments[s].repeat > 1 && m->segments[s].nnodes > 0 &&
            m->segments[s].repeat <= 1 << 22 &&
            (best < 0 || m->segments[s].repeat > m->segments[best].repeat))
            best = s;
    return best;
}

/* Where the stages lie in the whole network. */
static enum pdl_status find_stages(struct roller *r)
{
    struct plan_lower lo = r->lo;
    enum pdl_status st =
        plan_find_pipe(lo.strategy, lo.mesh, &lo.plan.pipe_factors,
                       &lo.plan.lanes, &lo.plan.nstages, lo.err);

    r->nstages = lo.plan.nstages;
    if (st != PDL_OK || lo.plan.nstages == 1)
        return st;
    st = plan_expand(lo.arena, r->model, &lo.model, lo.err);
    if (st != PDL_OK)
        return st;
    lo.stage = PDL_NEW(lo.arena, int, lo.model->nnodes + 1);
    if (!lo.stage)
        return pdl_fail(lo.err, PDL_ENOMEM, "out of memory");
    r->stage = lo.stage;
    return plan_choose_stages(&lo);
}

/* Clauses that name layers treat blocks differently. */
static bool may_roll(const struct pdl_strategy *s,
                     const struct pdl_plan_options *opt)
{
    /* an algorithm is refused in one place: lower.c */
    return (!plan_algorithm(s) || !opt->knows ||
            opt->knows("allreduce", plan_algorithm(s), NULL) == PDL_OK) &&
           s->nclauses == 1 && pdl_schedule_copies(s->schedule) == 1 &&
           strcmp(s->clause[0].layers, "*") == 0 && !opt->inner;
}

static enum pdl_status roll(struct roller *r, const struct pdl_plan **out)
{
    static const int periods[] = {1, 2};
    enum pdl_status st = find_stages(r);
    bool better = false;

    for (size_t i = 0; i < 2 && st == PDL_OK && !*out && !better; i++) {
        r->period = periods[i];
        r->tail = r->width;
        st = try(r, out, &better);
    }
    return better && st == PDL_OK ? try(r, out, &better) : st;
}

enum pdl_status pdl_plan_lower_rolled(pdl_arena *a,
                                      const struct pdl_model *model,
                                      const struct pdl_strategy *strategy,
                                      const struct pdl_plan_options *opt,
                                      const struct pdl_plan **out,
                                      struct pdl_err *err)
{
    struct roller r = {.model = model, .segment = find_segment(model)};
    struct pdl_mesh *mesh = PDL_NEW(a, struct pdl_mesh, 1);
    enum pdl_status st = plan_refuse_unbuilt(strategy, err);

    *out = NULL;
    if (r.segment < 0 || !may_roll(strategy, opt))
        return pdl_plan_lower(a, model, strategy, opt, out, err);
    if (!mesh)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = pdl_mesh_for(strategy, model, mesh, err);
    r.lo = (struct plan_lower){.arena = a,
                               .given = model,
                               .strategy = strategy,
                               .mesh = mesh,
                               .opt = opt,
                               .err = err,
                               .round_now = -1};
    r.width = strategy->offload_activations ? 2 : 1;
    for (int i = 0; i < r.segment; i++)
        r.first_node +=
            model->segments[i].nnodes * (int)model->segments[i].repeat;
    if (st == PDL_OK)
        st = roll(&r, out);
    if (st == PDL_ENOMEM || (st == PDL_OK && *out))
        return st;
    if (err) /* what is refused is said of the whole */
        *err = (struct pdl_err){"", ""};
    return pdl_plan_lower(a, model, strategy, opt, out, err);
}

/* ---- more rounds, or fewer -------------------------------------------- */

static bool fills_alike(pdl_arena *a, const struct pdl_plan *p)
{
    struct plan_units u = {
        .p = p, .roll = p->roll, .per = 2 * p->roll->width + 1};
    int64_t unused;

    plan_units_measure(&u);
    if (!plan_units_rounds(a, &u))
        return false;
    for (int i = 0, end; i < p->roll->npushes; i = end) {
        end = end_of_stage(p->roll, i);
        if (!fill_stage(&u, i, end, NULL, &unused))
            return false;
    }
    return true;
}

/* The network with so many more rounds. */
static const struct pdl_model *
lengthen(pdl_arena *a, const struct pdl_plan_roll *roll, int64_t more)
{
    size_t n = (size_t)roll->model->nsegments;
    struct pdl_model *m =
        pdl_arena_grow(a, roll->model, 1, 1, sizeof *roll->model);
    struct pdl_segment *s =
        pdl_arena_grow(a, roll->model->segments, n, n + 1, sizeof *s);

    if (!m || !s)
        return NULL;
    s[roll->segment].repeat += more;
    m->segments = s;
    return m;
}

enum pdl_status pdl_plan_stretch(pdl_arena *a, const struct pdl_plan *p,
                                 int64_t more, const struct pdl_plan **out,
                                 struct pdl_err *err)
{
    size_t n = p->roll ? (size_t)p->roll->ngroups : 0;
    struct pdl_plan *made = PDL_NEW(a, struct pdl_plan, 1);
    struct pdl_plan_roll *roll = PDL_NEW(a, struct pdl_plan_roll, 1);
    struct pdl_plan_units *groups;
    struct pdl_plan_item *items = pdl_arena_grow(
        a, p->items, (size_t)p->nitems, (size_t)p->nitems + 1, sizeof *items);

    if (!p->roll || !p->roll->pushes)
        return pdl_fail(err, PDL_EINVAL, "the plan's rounds are written out");
    groups = pdl_arena_grow(a, p->roll->groups, n, n + 1, sizeof *groups);
    if (!made || !roll || !items || !groups)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *made = *p;
    *roll = *p->roll;
    roll->groups = groups;
    roll->model =
        lengthen(a, p->roll, more * (int64_t)n * (int64_t)roll->period);
    if (!roll->model)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (size_t g = 0; g < n; g++) {
        groups[g].repeat += more;
        if (groups[g].repeat < 2)
            return pdl_fail(err, PDL_EINVAL, "the plan has no such rounds");
    }
    for (int i = 0; i < p->nitems; i++)
        items[i].repeat += items[i].repeat > 1 ? more : 0;
    made->roll = roll;
    made->items = items;
    *out = made;
    return fills_alike(a, made)
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "the plan for other numbers of rounds must be "
                          "lowered: it has other buckets");
}
