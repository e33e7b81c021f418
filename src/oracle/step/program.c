/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs for the streams of a PE from a stage of a plan: on which stream an
 * operation runs, what of the others it waits for, and which gradients it
 * makes (what it costs: stage.c). Streams run one thing after the
 * other, so it is enough to wait for the last of each; how far back that is is
 * the same in every block, so that parts can be repeated. A whole plan is one
 * part. */
#include "oracle/step/streams.h"

#include <string.h>

/* ---- who makes what --------------------------------------------------- */

static enum stream stream_of(const struct oracle *o, int op, enum phase phase)
{
    enum pdl_plan_op_kind kind = o->p->ops[op].kind;

    if (kind == PDL_PLAN_OP_COPY_OUT)
        return ON_OUT;
    if (kind == PDL_PLAN_OP_COPY_IN)
        return ON_IN;
    if (phase != UPDATE)
        return oracle_is_weight_traffic(o, op) ? ON_NETWORK : ON_COMPUTE;
    if (kind == PDL_PLAN_OP_UPDATE && oracle_host_beside(o, op))
        return ON_HOST;
    return oracle_is_comm(kind) || kind == PDL_PLAN_OP_RECV ? ON_NETWORK
                                                            : ON_COMPUTE;
}

static void range_of(const struct pdl_plan *p, int first_item, int nitems,
                     int *first, int *n)
{
    const struct pdl_plan_item *it = &p->items[first_item];

    *first = nitems > 0 ? it->first_op : 0;
    *n =
        nitems > 0 ? it[nitems - 1].first_op + it[nitems - 1].nops - *first : 0;
}

int64_t oracle_update_steps(const struct pdl_plan *p, int stage)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    int64_t n = 0;

    for (int i = s->first_update; i < s->first_update + s->nupdate; i++)
        n += p->items[i].repeat * p->items[i].nops;
    return n;
}

/* What an operation reads and makes: the first time that its item is run, and
 * how much further on each time after that. */
struct visits {
    int nin, nout;
    const int *in, *out, *in_step, *out_step;
};

/* One side of it; NULL: out of memory. */
static const int *list_visits(struct program *p, int op, bool many,
                              bool outputs, int *n, const int **step)
{
    const struct pdl_plan_op *x = &p->o->p->ops[op];
    const struct pdl_plan_rounds *r = p->o->rounds;
    int *ids;

    *n = outputs ? x->nout : x->nin; /* all rounds are named */
    *step = p->zeros;
    if (!r)
        return outputs ? x->out : x->in;
    ids = PDL_NEW(p->scratch, int, 2 * (int64_t)*n + 1);
    if (!ids)
        return NULL;
    pdl_plan_rounds_ids(r, op, 0, outputs, ids);
    if (many) {
        pdl_plan_rounds_ids(r, op, 1, outputs, ids + *n);
        for (int k = 0; k < *n; k++)
            ids[*n + k] -= ids[k];
        *step = ids + *n;
    }
    return ids;
}

static bool find_visits(struct program *p, int op, bool many, struct visits *v)
{
    v->in = list_visits(p, op, many, false, &v->nin, &v->in_step);
    v->out = list_visits(p, op, many, true, &v->nout, &v->out_step);
    return v->in && v->out;
}

/* Gradients that wait in backward for the network. */
static bool is_scatter(const struct oracle *o, int op)
{
    return o->p->ops[op].kind != PDL_PLAN_OP_ALLGATHER &&
           stream_of(o, op, BACKWARD) == ON_NETWORK;
}

/* Tensors of the plan whose times are wanted: what the update reads, and what
 * backward scatters. */
static void find_read(struct program *p)
{
    const struct pdl_plan *plan = p->o->p;
    const struct pdl_plan_stage *s = &plan->stages[p->stage];
    int first, n;

    range_of(plan, s->first_update, s->nupdate, &first, &n);
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < plan->ops[i].nin; k++)
            p->read[plan->ops[i].in[k]] = true;
    range_of(plan, s->first_backward, s->nbackward, &first, &n);
    for (int i = first; i < first + n; i++)
        for (int k = 0; is_scatter(p->o, i) && k < plan->ops[i].nin; k++)
            p->read[plan->ops[i].in[k]] = p->raw[plan->ops[i].in[k]] = true;
}

/* Rounds left out before what is made the first time that an item is run, and
 * how many fewer each time after that: of the stage's rolled ones. */
static int left_out(const struct program *p, const struct pdl_plan_item *it,
                    int round, int *fewer)
{
    const struct pdl_plan_roll *r = p->o->p->roll;
    const struct pdl_plan_units *g;

    *fewer = 0;
    if (!r)
        return 0;
    g = &r->groups[p->stage];
    *fewer = it->repeat > 1 ? r->period : 0;
    return it->repeat > 1 || round >= g->first + (r->width + 1) * r->period
               ? (int)(g->repeat - 1) * r->period
               : 0;
}

/* Where the time of a gradient is kept; -1: nowhere. base: the round that
 * slots are counted from; later: rounds that are not written before it. */
static int slot_of(const struct program *p, int t, int base, int later)
{
    int id = p->o->p->tensors[t].model_tensor, at;

    if (id < 0)
        return -1;
    at = p->tensor[id] + (p->raw[t] ? p->row / 2 : 0);
    return p->round[id] < 0 ? at
                            : at + (1 + p->round[id] + later - base) * p->row;
}

/* The tensors that an operation of backward makes, every time. */
static bool note_maker(struct program *p, int op,
                       const struct pdl_plan_item *it, int at)
{
    const struct pdl_plan_op *x = &p->o->p->ops[op];
    struct visits v;

    for (int k = 0; k < x->nout; k++)
        if (p->read[x->out[k]]) {
            if (!find_visits(p, op, it->repeat > 1, &v))
                return false;
            break;
        } else if (k + 1 == x->nout) {
            return true;
        }
    for (int k = 0; k < x->nout; k++) {
        int round = p->o->p->tensors[x->out[k]].round, fewer;
        int later = p->tensor ? left_out(p, it, round, &fewer) : 0;

        for (int64_t i = 0; i < it->repeat; i++) {
            int id = v.out[k] + (int)i * v.out_step[k];

            p->by[id] = at + (int)i * it->nops;
            p->maker[id] = op;
            p->slot[id] = p->tensor ? slot_of(p, x->out[k], p->first_round,
                                              later - (int)i * fewer)
                                    : id;
        }
    }
    return true;
}

static bool find_makers(struct program *p)
{
    const struct pdl_plan *plan = p->o->p;
    const struct pdl_plan_stage *s = &plan->stages[p->stage];
    int at = 0;

    for (int t = 0; t < p->tensors; t++)
        p->by[t] = -1;
    for (int i = s->first_backward; i < s->first_backward + s->nbackward; i++) {
        const struct pdl_plan_item *it = &plan->items[i];

        for (int k = 0; k < it->nops; k++)
            if (plan->ops[it->first_op + k].nout > 0 &&
                !note_maker(p, it->first_op + k, it, at + k))
                return false;
        at += (int)it->repeat * it->nops;
    }
    return true;
}

static int most_operands(const struct pdl_plan *p)
{
    int most = 0;

    for (int i = 0; i < p->nops; i++) {
        most = p->ops[i].nin > most ? p->ops[i].nin : most;
        most = p->ops[i].nout > most ? p->ops[i].nout : most;
    }
    return most;
}

bool oracle_program_begin(struct program *p)
{
    int n = p->o->p->ntensors + 1, all;

    p->tensors = all = p->o->rounds ? pdl_plan_rounds_tensors(p->o->rounds) : n;
    p->by = PDL_NEW(p->scratch, int, all);
    p->maker = PDL_NEW(p->scratch, int, all);
    p->slot = PDL_NEW(p->scratch, int, all);
    p->read = PDL_NEW(p->scratch, bool, n);
    p->raw = PDL_NEW(p->scratch, bool, n);
    p->zeros = PDL_NEW(p->scratch, int, most_operands(p->o->p) + 1);
    for (int k = 0; k < STREAMS; k++) {
        p->number[k] = PDL_NEW(p->scratch, int, n);
        if (!p->number[k])
            return false;
    }
    if (!p->by || !p->maker || !p->slot || !p->read || !p->raw || !p->zeros)
        return false;
    find_read(p);
    return find_makers(p);
}

static int price_of(const struct program *p, enum phase phase, int op)
{
    return p->price[phase] ? p->price[phase][op] : op;
}

/* ---- forward and backward --------------------------------------------- */

/* Times that are kept or looked at, of tensors of one side of an operation; n:
 * how many. NULL: there is no memory, or (n 0) none. */
static const struct stream_made *note_times(struct program *p, int op, int base,
                                            bool many, bool outputs, int *n)
{
    const struct pdl_plan_op *x = &p->o->p->ops[op];
    int count = outputs ? x->nout : x->nin, unused;
    const int *written = outputs ? x->out : x->in, *step, *ids;
    struct stream_made *list = PDL_NEW(p->keep, struct stream_made, count + 1);

    *n = 0;
    ids = list ? list_visits(p, op, many, outputs, &unused, &step) : NULL;
    for (int k = 0; ids && k < count; k++) {
        int slot = p->tensor ? slot_of(p, written[k], base, 0) : ids[k];

        if (p->read[written[k]] && slot >= 0 && p->by[ids[k]] >= 0 &&
            (!outputs || p->maker[ids[k]] == op))
            list[(*n)++] = (struct stream_made){slot, !p->tensor      ? step[k]
                                                      : slot < p->row ? 0
                                                                      : p->row};
    }
    return ids ? list : NULL;
}

/* The gradients that the update or a scatter reads. */
static bool note_made(struct program *p, int op, int base, bool many,
                      struct stream_op *out)
{
    const struct pdl_plan_op *x = &p->o->p->ops[op];
    bool any = false;

    for (int k = 0; k < x->nout; k++)
        any = any || p->read[x->out[k]];
    if (any && !(out->made = note_times(p, op, base, many, true, &out->nmade)))
        return false;
    return !is_scatter(p->o, op) ||
           (out->reads = note_times(p, op, base, many, false, &out->nreads));
}

static int latest(const int *number, const struct pdl_plan_op *x)
{
    int last = 0;

    for (int k = 0; k < x->nin; k++)
        last = number[x->in[k]] > last ? number[x->in[k]] : last;
    return last;
}

/* How far back number `at` of a stream is; 0: it is none. */
static int look_back(struct program *p, enum stream s, int at)
{
    int back = at > 0 ? p->count[s] - at + 1 : 0;

    p->back = back > p->back ? back : p->back;
    return back;
}

/* Whoever has waited for one of a stream has waited for those before. Weights
 * may go in front of gradients, which nobody who computes waits for. */
static void wait_for(struct program *p, enum stream s, int at, int *waited,
                     struct stream_op *out)
{
    bool again = at <= *waited;

    if (again && (p->repeats || s == ON_NETWORK))
        return;
    out->back[s] = look_back(p, s, at);
    *waited = again ? *waited : at;
}

static void number(struct program *p, enum stream s, const int *ids, int n)
{
    for (int k = 0; k < n; k++)
        p->number[s][ids[k]] = p->count[s];
}

/* What it waits for, and what is numbered for those that wait for it. */
static void note_waits(struct program *p, int op, struct stream_op *out)
{
    const struct pdl_plan_op *x = &p->o->p->ops[op];

    if (out->on == ON_IN)
        wait_for(p, ON_OUT, latest(p->number[ON_OUT], x), &p->in_waited, out);
    if (out->on == ON_NETWORK)
        out->gathers = x->kind == PDL_PLAN_OP_ALLGATHER;
    if (out->on != ON_COMPUTE) {
        p->count[out->on]++;
        number(p, out->on, x->out, x->nout);
        if (out->on == ON_OUT) /* keeps its memory until it is copied */
            number(p, ON_OUT, x->in, x->nin);
        return;
    }
    for (int s = ON_NETWORK; s < STREAMS; s++)
        wait_for(p, (enum stream)s, latest(p->number[s], x), &p->waited[s],
                 out);
}

/* Nothing is computed from here to the end of forward: memory may come back
 * while the next task runs. */
static bool is_over(const struct program *p, int op)
{
    const struct pdl_plan_stage *s = &p->o->p->stages[p->stage];
    int first, n;

    range_of(p->o->p, s->first_forward, s->nforward, &first, &n);
    for (; op < first + n; op++)
        if (p->o->p->ops[op].kind != PDL_PLAN_OP_FREE &&
            !oracle_is_copy(p->o->p->ops[op].kind))
            return false;
    return true;
}

/* A free runs nowhere, but may wait; and copies begin ahead until something
 * else comes. */
static bool is_listed(const struct program *p, enum phase phase, int op,
                      const struct stream_op *x)
{
    if (p->o->p->ops[op].kind != PDL_PLAN_OP_FREE)
        return true;
    if (phase == FORWARD && p->count[ON_OUT] > 0 && is_over(p, op))
        return false;
    return p->all || oracle_op_waits(x) || (phase == BACKWARD && x->stops);
}

/* One operation; true: it is listed. */
static bool write_op(struct program *p, enum phase phase, int op, bool begun,
                     struct stream_op *x)
{
    int waited[STREAMS];

    memcpy(waited, p->waited, sizeof waited);
    *x = (struct stream_op){.price = price_of(p, phase, op),
                            .on = stream_of(p->o, op, phase)};
    note_waits(p, op, x);
    x->stops = x->on == ON_COMPUTE && !begun && p->count[ON_OUT] > 0;
    if (is_listed(p, phase, op, x))
        return true;
    memcpy(p->waited, waited, sizeof waited);
    return false;
}

bool oracle_program_part(struct program *p, enum phase phase, int first_item,
                         int nitems, int base, struct stream_list *out)
{
    struct stream_op *list;
    bool begun = false, ok = true;
    bool many = nitems == 1 && p->o->p->items[first_item].repeat > 1;
    int first, n;

    range_of(p->o->p, first_item, nitems, &first, &n);
    list = PDL_NEW(p->keep, struct stream_op, n + 1);
    out->n = 0;
    out->op = list;
    for (int i = first; ok && list && i < first + n; i++) {
        struct stream_op *x = &list[out->n];

        if (!write_op(p, phase, i, begun, x))
            continue;
        if (phase == BACKWARD)
            ok = note_made(p, i, base, many, x);
        begun = begun || x->on == ON_COMPUTE;
        out->n++;
    }
    return ok && list;
}

/* ---- the update ------------------------------------------------------- */

/* The latest of each stream, and the gradients that backward makes last. */
static void find_waits(const struct program *p, const struct visits *v,
                       int visit, const int *made,
                       const struct stream_step *steps, struct stream_step *out)
{
    int last[2] = {-1, -1};

    for (int k = 0; k < STREAMS; k++)
        out->after[k] = -1;
    for (int k = 0; k < v->nin; k++) {
        int t = v->in[k] + visit * v->in_step[k];

        if (made[t] > 0) {
            int *at = &out->after[steps[made[t] - 1].on];

            *at = made[t] - 1 > *at ? made[t] - 1 : *at;
        } else if (p->by[t] >= 0 && p->slot[t] >= 0) {
            bool net = oracle_is_weight_traffic(p->o, p->maker[t]);

            if (p->by[t] <= last[net])
                continue;
            last[net] = p->by[t];
            *(net ? &out->brought : &out->computed) = p->slot[t];
        }
    }
}

/* Is anything else than its own stream waited for? */
static bool step_waits(const struct stream_step *x)
{
    for (int k = 0; k < STREAMS; k++)
        if (k != (int)x->on && x->after[k] >= 0)
            return true;
    return x->brought >= 0;
}

static struct stream_step begin_step(const struct program *p, int op)
{
    const struct pdl_plan *plan = p->o->p;
    const struct pdl_plan_op *x = &plan->ops[op];

    return (struct stream_step){
        .price = price_of(p, UPDATE, op),
        .on = stream_of(p->o, op, UPDATE),
        .gradients = x->nin == 0 ||
                     plan->tensors[x->in[0]].kind == PDL_PLAN_WEIGHT_GRADIENT,
        .computed = -1,
        .brought = -1};
}

/* One step; true: it is one. Frees wait, and nobody waits for them. */
static bool write_step(const struct program *p, int op, const struct visits *v,
                       int visit, int *made, struct stream_step *steps, int n)
{
    struct stream_step *out = &steps[n];

    *out = begin_step(p, op);
    find_waits(p, v, visit, made, steps, out);
    if (p->o->p->ops[op].kind == PDL_PLAN_OP_FREE) {
        out->after[ON_HOST] = -1; /* its memory, not the PE's */
        if (!step_waits(out))
            return false;
    }
    for (int k = 0; out->on == ON_OUT && k < v->nin; k++)
        made[v->in[k] + visit * v->in_step[k]] = n + 1;
    for (int k = 0; k < v->nout; k++)
        made[v->out[k] + visit * v->out_step[k]] = n + 1;
    return true;
}

/* What is waited for lies where it lay the time before, or as much further on
 * as it did then. */
static int next_of(int a, int b)
{
    return a < 0 || b < 0 ? b : b + (b - a);
}

/* The steps of an item once more: as different from the last as those were from
 * the ones before, which were as many. */
static int repeat_steps(struct stream_step *steps, int n, int each)
{
    for (int i = 0; i < each; i++) {
        const struct stream_step *x = &steps[n + i - 2 * each],
                                 *y = &steps[n + i - each];
        struct stream_step *to = &steps[n + i];

        *to = *y;
        for (int k = 0; k < STREAMS; k++)
            to->after[k] = next_of(x->after[k], y->after[k]);
        to->computed = next_of(x->computed, y->computed);
        to->brought = next_of(x->brought, y->brought);
    }
    return n + each;
}

/* Who made what in a visit, whose steps begin with the first. */
static void note_steps(const struct program *p, const struct pdl_plan_item *it,
                       const struct visits *v, int visit, const int *step,
                       int first, int *made)
{
    for (int k = 0; k < it->nops; k++) {
        bool out = stream_of(p->o, it->first_op + k, UPDATE) == ON_OUT;

        for (int j = 0; step[k] >= 0 && out && j < v[k].nin; j++)
            made[v[k].in[j] + visit * v[k].in_step[j]] = first + step[k] + 1;
        for (int j = 0; step[k] >= 0 && j < v[k].nout; j++)
            made[v[k].out[j] + visit * v[k].out_step[j]] = first + step[k] + 1;
    }
}

/* One visit of an item; step: of each operation, counted from its first. */
static int write_visit(const struct program *p, const struct pdl_plan_item *it,
                       const struct visits *v, int visit, int *step, int *made,
                       struct stream_step *steps, int first)
{
    int n = first;

    for (int k = 0; k < it->nops; k++) {
        bool is = write_step(p, it->first_op + k, &v[k], visit, made, steps, n);

        step[k] = is ? n - first : -1;
        n += is;
    }
    return n;
}

/* An item every time that it is run; < 0: out of memory. Blocks are alike: what
 * the third time differs in from the second, later ones differ in too. */
static int write_item(struct program *p, const struct pdl_plan_item *it,
                      int *made, struct stream_step *steps, int n)
{
    struct visits *v = PDL_NEW(p->scratch, struct visits, it->nops + 1);
    int *step = PDL_NEW(p->scratch, int, it->nops + 1), last = 0, each = 0;

    if (!v || !step)
        return -1;
    for (int k = 0; k < it->nops; k++)
        if (!find_visits(p, it->first_op + k, it->repeat > 1, &v[k]))
            return -1;
    for (int i = 0; i < it->repeat; i++) {
        if (i > 2 && each == last) {
            note_steps(p, it, v, i, step, n, made);
            n = repeat_steps(steps, n, each);
            continue;
        }
        last = each;
        each = write_visit(p, it, v, i, step, made, steps, n) - n;
        n += each;
    }
    return n;
}

int oracle_program_update(struct program *p, struct stream_step *steps)
{
    const struct pdl_plan *plan = p->o->p;
    const struct pdl_plan_stage *s = &plan->stages[p->stage];
    int *made = PDL_NEW(p->scratch, int, p->tensors), n = 0;

    for (int i = s->first_update;
         made && n >= 0 && i < s->first_update + s->nupdate; i++)
        n = write_item(p, &plan->items[i], made, steps, n);
    return made ? n : -1;
}
