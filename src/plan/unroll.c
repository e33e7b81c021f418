/* SPDX-License-Identifier: Apache-2.0
 *
 * A rolled plan with all its rounds: lists are copied in order, the middle
 * unit's part of each as often as it is repeated. An operation of unit x that
 * reads the one after it reads, once copied, the copy after its own, which may
 * be the middle unit's or the next one that is written. */
#include "units.h"

#include <string.h>

struct unroll {
    pdl_arena *arena;
    struct plan_units u;
    struct pdl_plan p; /* being made */
    int *new_tensor;   /* of each: its id; of the middle unit's: of the first
                          copy that is written */
    int ntensors;      /* of all copies */
    struct pdl_plan_tensor *tensors;
    struct pdl_plan_op *ops;
    bool failed;
};

/* ---- which copy ------------------------------------------------------- */

static int64_t repeat_of(const struct unroll *x, int unit)
{
    return x->u.roll->groups[plan_unit_group(&x->u, unit)].repeat;
}

/* Units of a group, all written: the first copy of the middle one is 0. */
static int64_t where(const struct unroll *x, int unit, int64_t copy)
{
    int d = plan_unit_place(&x->u, unit) - x->u.roll->width;

    return d < 0 ? d : d == 0 ? copy : repeat_of(x, unit) - 1 + d;
}

/* A copy of a tensor of the middle unit; step: of its list. */
static int copy_id(const struct unroll *x, int t, int64_t copy)
{
    int64_t n = repeat_of(x, x->u.tensor[t]);
    int step = x->u.tensor_step[t];

    return x->new_tensor[t] +
           (int)(step > 0 ? copy * step : (n - 1 - copy) * -step);
}

/* The same as tensor t of the short plan, of the unit that is at q. */
static int at(const struct unroll *x, int t, int64_t q)
{
    int unit = x->u.tensor[t], w = x->u.roll->width;
    int64_t n = repeat_of(x, unit);
    int place = q < 0 ? (int)q + w : q < n ? w : (int)(q - n) + 1 + w;
    int same = t + (place - plan_unit_place(&x->u, unit)) * x->u.tensor_step[t];

    return place == w ? copy_id(x, same, q) : x->new_tensor[same];
}

/* Rounds of the segment left out before a node or tensor of the network. */
static int64_t left_out(const struct unroll *x, int at, int first, int each)
{
    int64_t n = 0;

    for (int64_t i = 0; i < (at - first) / each && i < x->u.nrounds; i++)
        n += plan_roll_skip(x->u.roll, i);
    return at >= first ? n * each : 0;
}

/* Names of the short network are right as far as the first copy of the middle
 * unit. So what a unit says is told from what the first of its group says, so
 * many units before. */
static int64_t later_than_first(const struct unroll *x, int unit, int64_t copy)
{
    return where(x, unit, copy) + x->u.roll->width;
}

static int whole(const struct unroll *x, int id, int first, int each,
                 int64_t later)
{
    bool ours = id >= first && id < first + each * x->u.nrounds;

    if (id < first)
        return id;
    return id + (int)(left_out(x, id, first, each) +
                      (ours ? later * x->u.roll->period * each : 0));
}

/* ---- tensors ---------------------------------------------------------- */

static void put_tensor(struct unroll *x, int t, int64_t copy)
{
    const struct pdl_plan_tensor *from = x->u.p->tensors;
    struct pdl_plan_tensor *to = &x->tensors[x->p.ntensors++];
    int unit = x->u.tensor[t], step = x->u.tensor_step[t];
    int first = unit < 0 ? t : t - plan_unit_place(&x->u, unit) * step;
    int64_t later = unit < 0 ? 0 : later_than_first(x, unit, copy);

    *to = from[t];
    to->round = -1;
    to->model_tensor = whole(x, from[first].model_tensor, x->u.first_tensor,
                             x->u.tensors, later);
    if (later > 0)
        to->name = plan_unit_name(x->arena, &x->u, from[first].name,
                                  from[first + step].name, later);
    x->failed = x->failed || !to->name;
}

/* The tensors of a run, how often they come, and (put) each of them. */
static void go_through(struct unroll *x, bool put)
{
    int count = x->u.p->ntensors;

    x->ntensors = 0;
    for (int t = 0, n; t < count; t += n) {
        int step = x->u.tensor_step[t];
        int64_t times = 1;

        n = 1;
        if (plan_unit_repeats(&x->u, x->u.tensor[t])) {
            n = step > 0 ? step : -step;
            times = repeat_of(x, x->u.tensor[t]);
        }
        for (int i = 0; i < n; i++)
            x->new_tensor[t + i] = x->ntensors + i;
        x->ntensors += n * (int)times;
        for (int64_t k = 0; put && k < times; k++)
            for (int i = 0; i < n; i++)
                put_tensor(x, t + i, step > 0 ? k : times - 1 - k);
    }
}

/* ---- operations ------------------------------------------------------- */

/* How long a list becomes; ids NULL: only that. */
static int write_ids(const struct unroll *x, int op, int64_t copy,
                     const int *from, int nfrom, int *ids)
{
    int unit = x->u.op[op], n = 0;
    int group = plan_unit_group(&x->u, unit);
    bool up;

    for (int k = 0, all; k < nfrom; k += all) {
        int t = from[k], of = x->u.tensor[t];
        int64_t times = 1;

        all = 1;
        if (of >= 0 && plan_unit_group(&x->u, of) == group) {
            if (ids) /* as far away as the unit itself is */
                ids[n] = at(x, t, where(x, unit, copy) + of - unit);
            n++;
            continue;
        }
        if (plan_unit_repeats(&x->u, of)) {
            all = plan_unit_gathers(&x->u, from, nfrom, k, &up);
            times = repeat_of(x, of);
        }
        for (int64_t c = 0; c < times; c++)
            for (int i = 0; i < all; i++, n++)
                if (ids)
                    ids[n] = times == 1 ? x->new_tensor[from[k + i]]
                                        : copy_id(x, from[k + i],
                                                  up ? c : times - 1 - c);
    }
    return n;
}

static const int *map_ids(struct unroll *x, int op, int64_t copy,
                          const int *from, int *n)
{
    int count = write_ids(x, op, copy, from, *n, NULL);
    int *ids = PDL_NEW(x->arena, int, count + 1);

    if (ids)
        write_ids(x, op, copy, from, *n, ids);
    x->failed = x->failed || !ids;
    *n = count;
    return ids;
}

static void put_op(struct unroll *x, int op, int64_t copy)
{
    struct pdl_plan_op *to = &x->ops[x->p.nops++];
    int unit = x->u.op[op];
    int first =
        op - (unit < 0 ? 0 : plan_unit_place(&x->u, unit)) * x->u.op_step[op];

    *to = x->u.p->ops[op];
    to->round = -1;
    to->node = whole(x, x->u.p->ops[first].node, x->u.first_node, x->u.nodes,
                     unit < 0 ? 0 : later_than_first(x, unit, copy));
    to->in = map_ids(x, op, copy, to->in, &to->nin);
    to->out = map_ids(x, op, copy, to->out, &to->nout);
}

static void put_item(struct unroll *x, const struct pdl_plan_item *it)
{
    bool up = it->nops == 0 || x->u.op_step[it->first_op] > 0;

    for (int64_t k = 0; k < it->repeat; k++)
        for (int i = 0; i < it->nops; i++)
            put_op(x, it->first_op + i, up ? k : it->repeat - 1 - k);
}

/* What lies before, between and after repeated items becomes one with them. */
static void put_items(struct unroll *x, int *first, int *count,
                      struct pdl_plan_item *items)
{
    const struct pdl_plan_item *from = &x->u.p->items[*first];
    int n = *count, made = 0;

    *first = x->p.nitems;
    for (int i = 0, all; i < n; i += all) {
        struct pdl_plan_item *it = &items[x->p.nitems++];

        for (all = 1; i + all + 1 < n && from[i + all].repeat > 1;)
            all += 2;
        *it = (struct pdl_plan_item){.first_op = x->p.nops, .repeat = 1};
        for (int k = 0; k < all; k++)
            put_item(x, &from[i + k]);
        it->nops = x->p.nops - it->first_op;
        made++;
    }
    *count = made;
}

static bool put_programs(struct unroll *x)
{
    int n = x->p.nstages;
    struct pdl_plan_item *items =
        PDL_NEW(x->arena, struct pdl_plan_item, x->u.p->nitems + 1);
    struct pdl_plan_stage *s = PDL_NEW(x->arena, struct pdl_plan_stage, n);

    if (!items || !s)
        return false;
    memcpy(s, x->u.p->stages, (size_t)n * sizeof *s);
    for (int i = 0; i < n; i++)
        put_items(x, &s[i].first_forward, &s[i].nforward, items);
    for (int i = n - 1; i >= 0; i--)
        put_items(x, &s[i].first_backward, &s[i].nbackward, items);
    for (int i = 0; i < n; i++)
        put_items(x, &s[i].first_update, &s[i].nupdate, items);
    x->p.items = items;
    x->p.stages = s;
    return true;
}

static bool put_fallbacks(struct unroll *x, int64_t most)
{
    const char **list = PDL_NEW(x->arena, const char *, most + 1);
    const char *const *from = x->u.p->fallbacks;

    for (int i = 0, n; list && i < x->u.p->nfallbacks; i += n) {
        int step = x->u.fallback_step[i];
        bool many = plan_unit_repeats(&x->u, x->u.fallback[i]);
        int64_t times = many ? repeat_of(x, x->u.fallback[i]) : 1;

        n = many ? step : 1;
        for (int64_t k = 0; k < times; k++)
            for (int j = i; j < i + n; j++) {
                const char *text = from[j];

                if (k > 0) /* every layer names itself */
                    text = plan_unit_name(x->arena, &x->u, from[j],
                                          from[j + step], k);
                x->failed = x->failed || !text;
                list[x->p.nfallbacks++] = text;
            }
    }
    x->p.fallbacks = list;
    return list != NULL;
}

/* ---- all of it -------------------------------------------------------- */

static int64_t grown(const struct unroll *x, const int *unit, int n)
{
    int64_t all = 0;

    for (int i = 0; i < n; i++)
        all += plan_unit_repeats(&x->u, unit[i]) ? repeat_of(x, unit[i]) : 1;
    return all;
}

static bool allocate(struct unroll *x)
{
    int64_t tensors = grown(x, x->u.tensor, x->u.p->ntensors);
    int64_t ops = grown(x, x->u.op, x->u.p->nops);

    if (tensors > INT32_MAX / 2 || ops > INT32_MAX / 2)
        return false;
    x->new_tensor = PDL_NEW(x->arena, int, x->u.p->ntensors + 1);
    x->tensors = PDL_NEW(x->arena, struct pdl_plan_tensor, tensors + 1);
    x->ops = PDL_NEW(x->arena, struct pdl_plan_op, ops + 1);
    return x->new_tensor && x->tensors && x->ops;
}

static bool unroll(struct unroll *x)
{
    x->p.ntensors = x->p.nops = x->p.nitems = x->p.nfallbacks = 0;
    x->p.roll = NULL;
    if (!allocate(x))
        return false;
    go_through(x, true);
    if (!put_programs(x) ||
        !put_fallbacks(x, grown(x, x->u.fallback, x->u.p->nfallbacks)))
        return false;
    x->p.tensors = x->tensors;
    x->p.ops = x->ops;
    x->p.forward_op =
        plan_index_forward(x->arena, x->ops, x->p.nops, x->p.model->nnodes);
    return x->p.forward_op && !x->failed && plan_index_groups(x->arena, &x->p);
}

enum pdl_status pdl_plan_unroll(pdl_arena *a, const struct pdl_plan *p,
                                const struct pdl_plan **out,
                                struct pdl_err *err)
{
    struct unroll x = {.arena = a, .p = *p};
    struct pdl_plan *made;
    enum pdl_status st;

    if (!p->roll) {
        *out = p;
        return PDL_OK;
    }
    st = plan_expand(a, p->roll->model, &x.p.model, err);
    if (st != PDL_OK)
        return st;
    if (!plan_units_make(a, p, p->roll, &x.u) || !plan_units_alike(&x.u) ||
        !plan_units_items(&x.u))
        return pdl_fail(err, PDL_EWRONG,
                        "the plan's repeated rounds are not alike");
    made = PDL_NEW(a, struct pdl_plan, 1);
    if (!made || !unroll(&x))
        return pdl_fail(err, PDL_ENOMEM, "the plan is too large");
    *made = x.p;
    *out = made;
    return PDL_OK;
}

/* ---- rounds without unrolling ----------------------------------------- */

struct pdl_plan_rounds {
    struct unroll x;
};

enum pdl_status pdl_plan_rounds_open(pdl_arena *a, const struct pdl_plan *p,
                                     const struct pdl_plan_rounds **out,
                                     struct pdl_err *err)
{
    struct pdl_plan_rounds *r = PDL_NEW(a, struct pdl_plan_rounds, 1);

    *out = r;
    if (!r)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    r->x = (struct unroll){.arena = a, .p = *p};
    r->x.u.p = p;
    r->x.ntensors = p->ntensors;
    if (!p->roll)
        return PDL_OK;
    if (!plan_units_make(a, p, p->roll, &r->x.u) ||
        !(r->x.new_tensor = PDL_NEW(a, int, p->ntensors + 1)) ||
        grown(&r->x, r->x.u.tensor, p->ntensors) > INT32_MAX / 2)
        return pdl_fail(err, PDL_ENOMEM, "the plan is too large");
    go_through(&r->x, false);
    return PDL_OK;
}

int pdl_plan_rounds_tensors(const struct pdl_plan_rounds *r)
{
    return r->x.ntensors;
}

int pdl_plan_rounds_ids(const struct pdl_plan_rounds *r, int op, int64_t visit,
                        bool outputs, int *ids)
{
    const struct pdl_plan_op *o = &r->x.u.p->ops[op];
    const int *from = outputs ? o->out : o->in;
    int n = outputs ? o->nout : o->nin;
    bool repeats;

    if (!r->x.u.roll) {
        if (ids && n > 0)
            memcpy(ids, from, (size_t)n * sizeof *ids);
        return n;
    }
    repeats = plan_unit_repeats(&r->x.u, r->x.u.op[op]);
    if (repeats && r->x.u.op_step[op] < 0)
        visit = repeat_of(&r->x, r->x.u.op[op]) - 1 - visit;
    return write_ids(&r->x, op, repeats ? visit : 0, from, n, ids);
}

/* Operands of all rounds, each by the name of the one that is written. */
static const int *name_all(pdl_arena *a, const struct plan_units *u, int op,
                           const int *from, int *n)
{
    int group = plan_unit_group(u, u->op[op]), count = 0, *ids = NULL;

    for (int pass = 0; pass < 2; pass++) {
        count = 0;
        for (int k = 0, all; k < *n; k += all) {
            int of = u->tensor[from[k]];
            int64_t times = 1;
            bool up;

            all = 1;
            if (plan_unit_repeats(u, of) && plan_unit_group(u, of) != group) {
                all = plan_unit_gathers(u, from, *n, k, &up);
                times = u->roll->groups[plan_unit_group(u, of)].repeat;
            }
            for (int64_t c = 0; c < times; c++)
                for (int i = 0; i < all; i++, count++)
                    if (ids)
                        ids[count] = from[k + i];
        }
        if (count == *n)
            return from;
        if (pass == 0 && !(ids = PDL_NEW(a, int, count + 1)))
            return NULL;
    }
    *n = count;
    return ids;
}

enum pdl_status pdl_plan_write_gathers(pdl_arena *a, const struct pdl_plan *p,
                                       const struct pdl_plan **out,
                                       struct pdl_err *err)
{
    struct pdl_plan *made = PDL_NEW(a, struct pdl_plan, 1);
    struct pdl_plan_op *ops = NULL;
    size_t n = (size_t)p->nops;
    struct plan_units u;
    bool ok = made && plan_units_make(a, p, p->roll, &u);

    for (int i = 0; ok && i < p->nops; i++) {
        struct pdl_plan_op x = p->ops[i];

        x.in = name_all(a, &u, i, x.in, &x.nin);
        x.out = name_all(a, &u, i, x.out, &x.nout);
        ok = x.in && x.out;
        if (x.in == p->ops[i].in && x.out == p->ops[i].out)
            continue;
        if (!ops)
            ops = pdl_arena_grow(a, p->ops, n, n + 1, sizeof *p->ops);
        ok = ok && ops;
        if (ok)
            ops[i] = x;
    }
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *out = p;
    if (!ops)
        return PDL_OK;
    *made = *p;
    made->ops = ops;
    *out = made;
    return PDL_OK;
}
