/* SPDX-License-Identifier: Apache-2.0
 *
 * Is what was lowered of a few rounds lowered so of many? The rounds of a unit
 * leave a run in every list (tensors, operations of a program); runs of all
 * units of a group must follow each other, be as long, and say the same under
 * a shift by one unit. As an operation refers to tensors by their place, that
 * is a comparison of numbers. What a unit has at the edge of its group is not
 * compared: it may read what is no unit's. */
#include "units.h"

#include <string.h>

/* ---- where they are --------------------------------------------------- */

static bool alloc(pdl_arena *a, struct plan_units *u)
{
    u->tensor = PDL_NEW(a, int, u->p->ntensors + 1);
    u->tensor_step = PDL_NEW(a, int, u->p->ntensors + 1);
    u->op = PDL_NEW(a, int, u->p->nops + 1);
    u->op_step = PDL_NEW(a, int, u->p->nops + 1);
    u->fallback = PDL_NEW(a, int, u->p->nfallbacks + 1);
    u->fallback_step = PDL_NEW(a, int, u->p->nfallbacks + 1);
    return u->tensor && u->tensor_step && u->op && u->op_step && u->fallback &&
           u->fallback_step;
}

/* Segments before the rolled one are written out in full. */
void plan_units_measure(struct plan_units *u)
{
    const struct pdl_model *m = u->roll->model;
    int s = u->roll->segment;

    u->nodes = m->segments[s].nnodes;
    u->tensors = u->first_node = u->first_tensor = 0;
    u->nrounds = (int)m->segments[s].repeat;
    for (int g = 0; g < u->roll->ngroups; g++)
        u->nrounds -= (int)(u->roll->groups[g].repeat - 1) * u->roll->period;
    for (int i = 0; i < s; i++)
        u->first_node += m->segments[i].nnodes * (int)m->segments[i].repeat;
    for (int t = 0; t < m->ntensors; t++) {
        int at = m->tensors[t].segment;

        u->tensors += at == s;
        u->first_tensor += at < s ? (int)m->segments[at].repeat : 0;
    }
}

bool plan_units_rounds(pdl_arena *a, struct plan_units *u)
{
    u->of_round = PDL_NEW(a, int, u->nrounds + 1);
    for (int i = 0; u->of_round && i < u->nrounds; i++)
        u->of_round[i] = -1;
    for (int g = 0; u->of_round && g < u->roll->ngroups; g++)
        for (int i = 0; i < u->per * u->roll->period; i++) {
            int64_t r = u->roll->groups[g].first + (int64_t)i;

            if (r < 0 || r >= u->nrounds || u->of_round[r] >= 0)
                return false;
            u->of_round[r] = g * u->per + i / u->roll->period;
        }
    return u->of_round != NULL;
}

/* Do n elements from `first` on make the run of a unit, no less, no more? */
static bool is_run(const int *unit, int count, int first, int n, int which)
{
    if (first < 0 || first + n > count)
        return false;
    for (int i = first; i < first + n; i++)
        if (unit[i] != which)
            return false;
    return (first == 0 || unit[first - 1] != which) &&
           (first + n == count || unit[first + n] != which);
}

/* Units of a group follow each other up or down, in runs of equal length. */
static bool find_steps(const struct plan_units *u, const int *unit, int count,
                       int *step)
{
    int w = u->roll->width;

    for (int i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && unit[i + n] == unit[i];)
            n++;
        for (int dir = 1; plan_unit_repeats(u, unit[i]) && dir >= -1;
             dir -= 2) {
            bool all = true;

            for (int d = -w; d <= w && all; d++)
                all = is_run(unit, count, i + dir * d * n, n, unit[i] + d);
            for (int k = i - w * n; all && k < i + (w + 1) * n; k++)
                step[k] = dir * n;
        }
    }
    for (int i = 0; i < count; i++)
        if (unit[i] >= 0 && step[i] == 0)
            return false;
    return true;
}

static int unit_of(const struct plan_units *u, int round)
{
    return round < 0 || round >= u->nrounds ? -1 : u->of_round[round];
}

bool plan_units_make(pdl_arena *a, const struct pdl_plan *p,
                     const struct pdl_plan_roll *roll, struct plan_units *u)
{
    *u = (struct plan_units){.p = p, .roll = roll, .per = 2 * roll->width + 1};
    plan_units_measure(u);
    if (!plan_units_rounds(a, u) || !alloc(a, u))
        return false;
    for (int t = 0; t < p->ntensors; t++)
        u->tensor[t] = unit_of(u, p->tensors[t].round);
    for (int i = 0; i < p->nops; i++)
        u->op[i] = unit_of(u, p->ops[i].round);
    for (int i = 0; i < p->nfallbacks; i++)
        u->fallback[i] = unit_of(u, roll->fallback_round[i]);
    return find_steps(u, u->tensor, p->ntensors, u->tensor_step) &&
           find_steps(u, u->op, p->nops, u->op_step) &&
           find_steps(u, u->fallback, p->nfallbacks, u->fallback_step);
}

/* ---- names ------------------------------------------------------------ */

bool plan_unit_has_node(const struct plan_units *u, int node)
{
    return node >= u->first_node &&
           node < u->first_node + u->nodes * u->nrounds;
}

bool plan_unit_has_tensor(const struct plan_units *u, int tensor)
{
    return tensor >= u->first_tensor &&
           tensor < u->first_tensor + u->tensors * u->nrounds;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t number(const char *s, int *digits)
{
    int64_t n = 0;

    for (*digits = 0; is_digit(s[*digits]) && *digits < 18; ++*digits)
        n = 10 * n + (s[*digits] - '0');
    return n;
}

const char *plan_unit_name(pdl_arena *a, const struct plan_units *u,
                           const char *name, const char *next, int64_t later)
{
    struct pdl_buf out;
    const char *kept;

    pdl_buf_init(&out);
    while (*name && *next) {
        int n, m;
        int64_t x, y;

        if (!is_digit(*name) || !is_digit(*next)) {
            if (*name != *next)
                break;
            pdl_printf(&out.sink, "%c", *name++);
            next++;
            continue;
        }
        x = number(name, &n);
        y = number(next, &m);
        if (x == y)
            pdl_printf(&out.sink, "%.*s", n, name);
        else
            pdl_printf(&out.sink, "%lld",
                       (long long)x + (long long)later * u->roll->period);
        name += n;
        next += m;
    }
    kept = *name || *next || out.sink.failed
               ? NULL
               : pdl_arena_strdup(a, out.text ? out.text : "");
    pdl_buf_free(&out);
    return kept;
}

/* ---- are they alike --------------------------------------------------- */

static bool same_frames(const struct pdl_plan_tensor *x,
                        const struct pdl_plan_tensor *y)
{
    bool same = x->frame && y->frame;

    for (int d = 0; same && d < PDL_BOX_DIMS; d++)
        same = plan_same_frame(&x->frame[d], &y->frame[d]);
    return same || x->frame == y->frame;
}

/* Tensor y is d units after x. */
static bool same_tensor(const struct plan_units *u, int t, int d)
{
    const struct pdl_plan_tensor *x = &u->p->tensors[t];
    const struct pdl_plan_tensor *y = &u->p->tensors[t + d * u->tensor_step[t]];
    int shift = plan_unit_has_tensor(u, x->model_tensor)
                    ? d * u->roll->period * u->tensors
                    : 0;

    return plan_unit_has_tensor(u, x->model_tensor) ==
               plan_unit_has_tensor(u, y->model_tensor) &&
           x->kind == y->kind && x->dtype == y->dtype && x->ndims == y->ndims &&
           x->stage == y->stage && x->host == y->host && x->some == y->some &&
           x->of == y->of && y->model_tensor == x->model_tensor + shift &&
           memcmp(x->dim, y->dim, sizeof x->dim) == 0 &&
           memcmp(x->unit, y->unit, sizeof x->unit) == 0 &&
           memcmp(&x->place, &y->place, sizeof x->place) == 0 &&
           same_frames(x, y);
}

/* An operation of the middle unit reads t, the one d units later reads y. */
static bool same_operand(const struct plan_units *u, int group, int t, int y,
                         int d)
{
    int unit = u->tensor[t], place = plan_unit_place(u, unit) + d;

    if (unit < 0 || plan_unit_group(u, unit) != group)
        return y == t;
    return place < 0 || place >= u->per || y == t + d * u->tensor_step[t];
}

static bool same_op(const struct plan_units *u, int op, int d)
{
    const struct pdl_plan_op *x = &u->p->ops[op];
    const struct pdl_plan_op *y = &u->p->ops[op + d * u->op_step[op]];
    int group = plan_unit_group(u, u->op[op]);
    int shift =
        plan_unit_has_node(u, x->node) ? d * u->roll->period * u->nodes : 0;
    bool same = x->kind == y->kind && x->pass == y->pass &&
                x->part == y->part && x->group == y->group &&
                x->nin == y->nin && x->nout == y->nout &&
                y->node == x->node + shift;

    for (int k = 0; same && k < x->nin; k++)
        same = same_operand(u, group, x->in[k], y->in[k], d);
    for (int k = 0; same && k < x->nout; k++)
        same = same_operand(u, group, x->out[k], y->out[k], d);
    return same;
}

int plan_unit_gathers(const struct plan_units *u, const int *ids, int nids,
                      int k, bool *up)
{
    int unit = u->tensor[ids[k]], n = 1, w = u->roll->width;

    while (k + n < nids && u->tensor[ids[k + n]] == unit)
        n++;
    for (int dir = 1; dir >= -1; dir -= 2) {
        bool all = k - w * n >= 0 && k + (w + 1) * n <= nids;

        for (int d = -w; d <= w && all; d++)
            for (int i = 0; i < n && all; i++)
                all = ids[k + dir * d * n + i] ==
                      ids[k + i] + d * u->tensor_step[ids[k + i]];
        *up = dir > 0;
        if (all)
            return n;
    }
    return 0;
}

/* What is no unit's must not speak of the middle one: of which copy? */
static bool is_of_middle(const struct plan_units *u, int id, int first,
                         int each)
{
    return id >= first && id < first + each * u->nrounds &&
           plan_unit_repeats(u, u->of_round[(id - first) / each]);
}

/* What the middle unit made is read by its neighbours, or all of it. Returns
 * how many operands stand for all copies; -1: one stands for who knows
 * which. */
static int count_gathered(const struct plan_units *u, int op, const int *ids,
                          int n)
{
    int group = plan_unit_group(u, u->op[op]), sum = 0;
    bool up;

    for (int k = 0, all; k < n; k += all) {
        int unit = u->tensor[ids[k]];

        all = 1;
        if (!plan_unit_repeats(u, unit) || plan_unit_group(u, unit) == group)
            continue;
        all = plan_unit_gathers(u, ids, n, k, &up);
        if (all == 0)
            return -1;
        sum += all;
    }
    return sum;
}

/* Operands go in pairs, or (an update) a weight and a gradient make one. */
static bool reads_well(const struct plan_units *u, int op)
{
    const struct pdl_plan_op *o = &u->p->ops[op];
    int in = count_gathered(u, op, o->in, o->nin);
    int out = count_gathered(u, op, o->out, o->nout);

    if (in < 0 || out < 0)
        return false;
    return o->kind == PDL_PLAN_OP_FREE ||
           in == (o->kind == PDL_PLAN_OP_UPDATE ? 2 * out : out);
}

/* An item that repeats is a run of the middle unit, and no other has any. */
static bool is_item(const struct plan_units *u, const struct pdl_plan_item *it)
{
    int unit = it->nops > 0 ? u->op[it->first_op] : -1;
    int n = unit >= 0 ? u->op_step[it->first_op] : 0;

    if (it->repeat > 1)
        return plan_unit_repeats(u, unit) && it->nops == (n > 0 ? n : -n) &&
               u->op[it->first_op + it->nops - 1] == unit &&
               it->repeat == u->roll->groups[plan_unit_group(u, unit)].repeat;
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        if (plan_unit_repeats(u, u->op[i]))
            return false;
    return true;
}

bool plan_units_items(const struct plan_units *u)
{
    for (int i = 0; i < u->p->nitems; i++)
        if (!is_item(u, &u->p->items[i]))
            return false;
    return true;
}

bool plan_units_alike(const struct plan_units *u)
{
    int w = u->roll->width;
    bool same = true;

    for (int t = 0; t < u->p->ntensors && same; t++) {
        same =
            u->tensor[t] >= 0 || !is_of_middle(u, u->p->tensors[t].model_tensor,
                                               u->first_tensor, u->tensors);
        for (int d = -w; d <= w && same && plan_unit_repeats(u, u->tensor[t]);
             d++)
            same = same_tensor(u, t, d);
    }
    for (int i = 0; i < u->p->nops && same; i++) {
        const struct pdl_plan_op *o = &u->p->ops[i];

        for (int d = -w; d <= w && same && plan_unit_repeats(u, u->op[i]); d++)
            same = same_op(u, i, d);
        same = same &&
               (u->op[i] >= 0 ||
                !is_of_middle(u, o->node, u->first_node, u->nodes)) &&
               reads_well(u, i);
    }
    return same;
}
