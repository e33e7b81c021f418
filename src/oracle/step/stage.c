/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of plans: the parts of their passes, what operations cost on their
 * streams on representative ranks (the slowest counts: collectives wait for
 * it), and what lists of them add up to. */
#include "oracle/step/stage.h"

#include <math.h>

/* ---- prices ----------------------------------------------------------- */

static double *comm_kind(struct stream_price *p, enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_HALO   ? &p->halo
           : kind == PDL_PLAN_OP_SEND ? &p->p2p
                                      : &p->layer_comm;
}

/* ---- collectives in pieces -------------------------------------------- */

static bool has_tensor(const int *list, int n, int tensor)
{
    for (int i = 0; i < n; i++)
        if (list[i] == tensor)
            return true;
    return false;
}

static bool is_product(const struct oracle *o, const struct pdl_plan_op *x)
{
    return x->kind == PDL_PLAN_OP_COMPUTE && x->node >= 0 &&
           pdl_op_id(o->p->model->nodes[x->node].op) == PDL_ID_LINEAR;
}

/* Seconds of the products that read a tensor, or whose sum it is. */
static double products_of(const struct oracle *o, int tensor, bool read,
                          const struct oracle_ranks *r)
{
    double sum = 0;

    for (int i = 0; i < o->p->nops; i++) {
        const struct pdl_plan_op *x = &o->p->ops[i];
        bool there = read ? has_tensor(x->in, x->nin, tensor)
                          : has_tensor(x->out, x->nout, tensor);

        if (there && is_product(o, x))
            sum += oracle_slowest(o, i, r, false)->seconds;
        else if (there && !read && x->kind == PDL_PLAN_OP_ADD)
            for (int k = 0; k < x->nin; k++)
                sum +=
                    x->in[k] == tensor ? 0 : products_of(o, x->in[k], false, r);
    }
    return sum;
}

/* What a collective in pieces adds to the products that it is sent behind. The
 * first piece (of a scatter the last) is alone; the others share the PE with
 * the products, which have the rest of it, and wait where they take longer. */
static double exposed(const struct oracle *o, int op,
                      const struct oracle_ranks *r, double seconds)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    bool gather = x->kind == PDL_PLAN_OP_ALLGATHER;
    double first = seconds / (double)oracle_tensor_ranks(o);
    double left = seconds - first;
    double held =
        oracle_without(o, ORACLE_INTERFERENCE) ? 0 : o->sys->pe.interference;
    double work = products_of(o, gather ? x->out[0] : x->in[0], gather, r);
    double slower =
        work < left * (1 - held) ? work / (1 - held) - work : left * held;

    return first + fmax(work + slower, left) - work;
}

void oracle_price_stream(const struct oracle *o, int op, enum phase phase,
                         const struct oracle_ranks *r, struct stream_price *p)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    const struct oracle_price *price =
        oracle_slowest(o, op, r, phase == UPDATE);
    double s = price->seconds;

    *p = (struct stream_price){.seconds = s,
                               .coding = price->coding,
                               .level = price->level,
                               .contention = price->flows,
                               .is_comm = oracle_is_comm(x->kind)};
    if (oracle_is_copy(x->kind)) {
        p->compute = phase == UPDATE ? 0 : s * oracle_copy_slows(o);
        return;
    }
    if (!p->is_comm) {
        p->compute = s;
        p->calls = s > 0 ? oracle_issued(o, op) : 0;
        if (phase == BACKWARD && x->kind == PDL_PLAN_OP_COMPUTE &&
            x->pass == PDL_FORWARD)
            p->recompute = s;
        return;
    }
    if (phase == UPDATE) {
        p->comm = s;
        return;
    }
    p->compute = oracle_copy(o, op, r->rank[0]); /* but no operation */
    *comm_kind(p, x->kind) = s;                  /* busy, whatever hides it */
    if (oracle_in_pieces(o, op))
        p->seconds = s = exposed(o, op, r, s);
    p->calls = oracle_issued_comm(o, op);
    p->layer_between = p->level > 0 ? p->layer_comm : 0;
    if (!oracle_is_weight_traffic(o, op)) /* else it shows as waiting */
        p->comm = s;
}

static bool price_list(pdl_arena *a, const struct stream_list *list, bool all,
                       const struct stream_price *price,
                       struct stream_list *out)
{
    struct stream_op *ops = PDL_NEW(a, struct stream_op, list->n + 1);

    out->n = 0;
    out->op = ops;
    for (int i = 0; ops && i < list->n; i++) {
        const struct stream_op *x = &list->op[i];
        const struct stream_price *p = &price[x->price];
        struct stream_op *to = &ops[out->n];

        if (!all && p->seconds <= 0 && p->compute <= 0 && x->nmade == 0 &&
            x->on == ON_COMPUTE && !oracle_op_waits(x) && !x->stops)
            continue;
        *to = *x;
        to->seconds = p->seconds;
        to->level = p->level;
        to->comm = p->is_comm;
        to->packing = x->on != ON_COMPUTE || p->is_comm ? p->compute : 0;
        out->n++;
    }
    return ops != NULL;
}

static void add_list(const struct stream_list *list, bool back,
                     const struct stream_price *price, struct stage_time *t,
                     double *contention)
{
    for (int k = 0; k < list->n; k++) {
        const struct stream_price *p = &price[list->op[k].price];

        *(back ? &t->backward : &t->forward) += p->compute;
        *(back ? &t->backward_comm : &t->forward_comm) += p->comm;
        *(back ? &t->backward_send : &t->forward_send) += p->p2p;
        t->recompute += p->recompute;
        t->layer_comm += p->layer_comm;
        t->layer_between += p->layer_between;
        t->halo += p->halo;
        t->p2p += p->p2p;
        t->calls += p->calls;
        *contention = p->contention > *contention ? p->contention : *contention;
    }
}

void oracle_add_times(struct stage_time *sum, const struct stage_time *t,
                      int64_t n)
{
    for (int i = 0; i < STAGE_TIMES; i++)
        sum->each[i] += (double)n * t->each[i];
}

void oracle_add_steps(struct stage_update *u)
{
    for (int i = 0; i < u->n; i++) {
        const struct stream_price *p = &u->price[u->steps[i].price];

        u->all += p->seconds;
        u->update += u->steps[i].on == ON_COMPUTE ? p->seconds : 0;
        u->gradient_comm += u->steps[i].on == ON_NETWORK ? p->seconds : 0;
        u->contention =
            p->contention > u->contention ? p->contention : u->contention;
    }
}

/* ---- passes in parts -------------------------------------------------- */

/* Of the items of backward those of its first task; it may have two. */
static int first_task(const struct pdl_plan *p, int first, int n, int blocks)
{
    int k = n > 0;

    if (blocks > 1)
        return blocks;
    while (p->roll && k + 1 < n && p->items[first + k].repeat > 1)
        k += 2;
    return k;
}

/* Every item of a rolled plan, and every block, is a part; else all of them
 * are one. */
static bool list_parts(const struct pdl_plan *p, int blocks, enum pass pass,
                       int first, int n, struct stage_passes *x)
{
    bool each = p->roll || blocks > 1;

    x->parts[pass] = each ? n : n > 0;
    for (int i = 0; i < x->parts[pass] && i < STAGE_PARTS; i++) {
        x->item[pass][i] = first + i;
        x->items[pass][i] = each ? 1 : n;
        x->times[pass][i] = blocks > 1 ? 0 : p->items[first + i].repeat;
    }
    return x->parts[pass] <= STAGE_PARTS;
}

bool oracle_list_passes(const struct pdl_plan *p, int stage, int blocks,
                        struct stage_passes *x)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    int n = first_task(p, s->first_backward, s->nbackward, blocks);

    x->split = n < s->nbackward;
    return list_parts(p, blocks, PASS_FORWARD, s->first_forward, s->nforward,
                      x) &&
           list_parts(p, blocks, PASS_BACKWARD, s->first_backward, n, x) &&
           list_parts(p, blocks, PASS_LATE, s->first_backward + n,
                      s->nbackward - n, x);
}

bool oracle_write_passes(struct program *p, int blocks, struct stage_passes *x)
{
    if (!oracle_list_passes(p->o->p, p->stage, blocks, x))
        return false;
    p->repeats = p->o->p->roll || blocks > 1;
    for (int k = 0; k < PASSES; k++) {
        int last = p->first_round + x->parts[k] - 1;

        for (int i = 0; i < x->parts[k]; i++)
            if (!oracle_program_part(p, k == PASS_FORWARD ? FORWARD : BACKWARD,
                                     x->item[k][i], x->items[k][i], last - i,
                                     &x->list[k][i]))
                return false;
        if (k == PASS_FORWARD)
            x->copies = p->count[ON_OUT] > 0;
    }
    x->traffic = p->count[ON_NETWORK] > 0;
    x->back = p->back;
    return true;
}

bool oracle_price_work(pdl_arena *a, bool all, bool forward,
                       struct stage_work *w)
{
    const struct stage_passes *s = w->shape;
    struct stage_passes run = *s;

    for (int k = 0; k < PASSES; k++)
        for (int i = 0; i < s->parts[k]; i++) {
            const struct stream_price *price = w->price[k > PASS_FORWARD];
            struct stage_time *t = &w->part[k][i];

            add_list(&s->list[k][i], k > PASS_FORWARD, price, t,
                     &w->contention);
            if (k == PASS_LATE)
                t->weights = t->backward + t->backward_comm;
            if ((forward || k > PASS_FORWARD) &&
                !price_list(a, &s->list[k][i], all, price, &run.list[k][i]))
                return false;
        }
    w->run = run;
    return true;
}

/* ---- of a whole plan -------------------------------------------------- */

static void price_items(const struct oracle *o, const struct oracle_ranks *r,
                        int first, int n, enum phase phase,
                        struct stream_price *price)
{
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < o->p->items[i].nops; k++) {
            int op = o->p->items[i].first_op + k;

            oracle_price_stream(o, op, phase, r, &price[op]);
        }
}

static bool write_update(const struct oracle *o, struct program *p,
                         const struct stream_price *price,
                         struct stage_update *u)
{
    struct stream_step *steps = PDL_NEW(
        p->keep, struct stream_step, oracle_update_steps(o->p, p->stage) + 1);

    u->n = steps ? oracle_program_update(p, steps) : -1;
    u->steps = steps;
    u->price = price;
    u->optimizer = pdl_strategy_hosts_states(o->p->strategy);
    if (u->n >= 0)
        oracle_add_steps(u);
    return u->n >= 0;
}

bool oracle_plan_stage(const struct oracle *o, pdl_arena *a, int stage,
                       struct stream_price *price, struct stage_work *w,
                       struct stage_exchange *u)
{
    const struct pdl_plan_stage *s = &o->p->stages[stage];
    struct program p = {.o = o,
                        .keep = a,
                        .scratch = a,
                        .all = o->record != NULL,
                        .stage = stage};
    struct oracle_ranks r;

    oracle_find_ranks(o, stage, &r);
    price_items(o, &r, s->first_forward, s->nforward, FORWARD, price);
    price_items(o, &r, s->first_backward, s->nbackward, BACKWARD, price);
    price_items(o, &r, s->first_update, s->nupdate, UPDATE, price);
    w->shape = &w->run;
    w->price[0] = w->price[1] = price;
    return oracle_program_begin(&p) && oracle_write_passes(&p, 1, &w->run) &&
           oracle_price_work(a, p.all, true, w) &&
           write_update(o, &p, price, &u->run);
}
