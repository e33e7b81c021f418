/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of plans: the parts of their passes, and what operations cost on
 * representative ranks (the slowest counts: collectives wait for it). */
#include "oracle/step/stage.h"

#include <math.h>

/* ---- passes in parts ----------------------------------------------------------- */

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

            oracle_add_list(&s->list[k][i], k > PASS_FORWARD, price, t,
                            &w->contention);
            if (k == PASS_LATE)
                t->weights = t->backward + t->backward_comm;
            if ((forward || k > PASS_FORWARD) &&
                !oracle_price_list(a, &s->list[k][i], all, price,
                                   &run.list[k][i]))
                return false;
        }
    w->run = run;
    return true;
}

/* ---- of a whole plan ----------------------------------------------------------- */

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
    u->optimizer = o->p->strategy->offload_optimizer;
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
