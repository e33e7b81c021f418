/* SPDX-License-Identifier: Apache-2.0
 *
 * What small plans consist of: operations that cost the same are of one kind,
 * so that a mesh or a number of samples has to price each kind once; what each
 * waits for on the streams; and how stages of many blocks follow from few.
 *
 * Forward and backward repeat block by block; updates as rolled plans do. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- kinds ------------------------------------------------------------ */

bool oracle_form_number(struct oracle_block_plans *g, struct block_form *m,
                        enum phase phase)
{
    struct block_plan *s = m->s;
    struct kinds *k = &m->kinds[phase];
    int nslots = 64, *table;

    while (nslots < 2 * s->plan.nops)
        nslots *= 2;
    table = PDL_NEW(g->scratch, int, nslots);
    k->op = PDL_NEW(g->arena, int, s->plan.nops + 1);
    k->kind = PDL_NEW(g->arena, int, s->plan.nops + 1);
    for (int i = 0; table && k->op && k->kind && i < s->plan.nstages; i++) {
        const struct pdl_plan_stage *x = &s->stages[i];
        int first = phase == FORWARD    ? x->first_forward
                    : phase == BACKWARD ? x->first_backward
                                        : x->first_update;
        int n = phase == FORWARD    ? x->nforward
                : phase == BACKWARD ? x->nbackward
                                    : x->nupdate;

        for (int j = first; j < first + n; j++)
            k->n = oracle_number_ops(&s->o, s->plan.items[j].first_op,
                                     s->plan.items[j].nops, k->kind, k->op,
                                     k->n, table, nslots);
    }
    pdl_arena_reset(g->scratch);
    return k->kind != NULL && k->op != NULL;
}

/* ---- forward and backward --------------------------------------------- */

/* The block of the small plan that an operation computes; -1: none. */
static int64_t block_of(const struct oracle_block_plans *g,
                        const struct block_plan *s, int op)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int64_t nodes = g->f->model->segments[g->f->block].nnodes;
    int64_t repeat = s->segments[g->f->block].repeat;
    int64_t at = x->node - g->f->first_node;

    return x->kind == PDL_PLAN_OP_COMPUTE && at >= 0 && at < nodes * repeat
               ? at / nodes
               : -1;
}

/* The first operation of an item that computes the block; -1: none. */
static int first_of(const struct oracle_block_plans *g,
                    const struct block_plan *s, const struct pdl_plan_item *it,
                    int64_t block)
{
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        if (block_of(g, s, i) == block)
            return i;
    return -1;
}

/* Cuts an item where the second, the third, ... of its n blocks begin. */
static bool cut_item(const struct oracle_block_plans *g,
                     const struct block_plan *s, const struct pdl_plan_item *it,
                     int n, int64_t first, bool back, struct pdl_plan_item *out)
{
    int from = it->first_op;

    for (int i = 0; i < n; i++) {
        int to = it->first_op + it->nops;

        if (i + 1 < n)
            to = first_of(g, s, it, back ? first + n - 2 - i : first + i + 1);
        if (to <= from)
            return false;
        out[i] = *it;
        out[i].first_op = from;
        out[i].nops = to - from;
        from = to;
    }
    return true;
}

/* The same operations, in one item for each block. */
static bool cut_blocks(const struct oracle_block_plans *g, struct block_plan *s,
                       int parts)
{
    int n = 0;

    for (int i = 0; i < s->plan.nstages; i++) {
        struct pdl_plan_stage *x = &s->stages[i];
        const struct pdl_plan_item *items = s->plan.items;
        int64_t first = (int64_t)i * parts;
        int back = x->nbackward, at = n + parts;

        if (x->nforward != 1 || back < 1 || back > 2 || x->nupdate != 1 ||
            !cut_item(g, s, &items[x->first_forward], parts, first, false,
                      &s->items[n]))
            return false;
        for (int k = 0; k < back; k++, at += parts)
            if (!cut_item(g, s, &items[x->first_backward + k], parts, first,
                          true, &s->items[at]))
                return false;
        s->items[at] = items[x->first_update];
        *x = (struct pdl_plan_stage){.first_forward = n,
                                     .nforward = parts,
                                     .first_backward = n + parts,
                                     .nbackward = parts * back,
                                     .first_update = at,
                                     .nupdate = 1};
        n = at + 1;
    }
    s->plan.items = s->items;
    return true;
}

static struct program program_of(struct oracle_block_plans *g,
                                 const struct block_form *m, int stage)
{
    const struct block_plan *s = m->s;

    return (struct program){
        .o = &s->o,
        .keep = g->arena,
        .scratch = g->scratch,
        .stage = stage,
        .price = {m->kinds[FORWARD].kind, m->kinds[BACKWARD].kind,
                  m->kinds[UPDATE].kind},
        .tensor = s->tensor,
        .round = s->round,
        .row = 2 * g->f->model->ntensors,
        .first_round = stage * s->rounds};
}

/* How far operations of a part may look back. */
enum { FARTHEST = 32 };

bool oracle_form_work(struct oracle_block_plans *g, struct block_form *m)
{
    int most = m->key.activations ? WORK_BLOCKS + 1 : WORK_BLOCKS;
    int blocks = m->key.blocks == most ? most : 1;
    bool ok = blocks == 1 || cut_blocks(g, m->s, blocks);

    ok = ok && oracle_form_number(g, m, FORWARD) &&
         oracle_form_number(g, m, BACKWARD);
    for (int i = 0; ok && i < m->s->plan.nstages; i++) {
        struct program p = program_of(g, m, i);

        ok = oracle_program_begin(&p) &&
             oracle_write_passes(&p, blocks, &m->shape[i]) &&
             p.back <= FARTHEST;
        pdl_arena_reset(g->scratch);
    }
    return ok;
}

/* ---- updates ---------------------------------------------------------- */

bool oracle_form_stretch(const struct block_form *m, int64_t blocks,
                         int64_t *more)
{
    const struct pdl_plan_roll *r = m->s->plan.roll;
    int64_t n = blocks - m->key.blocks;

    *more = r ? n / r->period : 0;
    return r ? n % r->period == 0 && r->groups[0].repeat + *more >= 2 : n == 0;
}

/* Operations that name tensors of all blocks; what they name is kept. */
static bool keep_longer(struct oracle_block_plans *g,
                        const struct block_form *m, struct steps *x)
{
    const struct pdl_plan_op *few = m->s->plan.ops;
    size_t n = (size_t)x->plan.nops;
    struct pdl_plan_op *ops;

    if (x->plan.ops == few)
        return true;
    ops = pdl_arena_grow(g->arena, x->plan.ops, n, n + 1, sizeof *ops);
    x->longer = PDL_NEW(g->arena, int, x->plan.nops);
    if (!ops || !x->longer)
        return false;
    for (int i = 0; i < x->plan.nops; i++) {
        size_t in = (size_t)ops[i].nin, out = (size_t)ops[i].nout;

        if (ops[i].in == few[i].in && ops[i].out == few[i].out)
            continue;
        ops[i].in =
            pdl_arena_grow(g->arena, ops[i].in, in, in + 1, sizeof *ops[i].in);
        ops[i].out = pdl_arena_grow(g->arena, ops[i].out, out, out + 1,
                                    sizeof *ops[i].out);
        if (!ops[i].in || !ops[i].out)
            return false;
        if (ops[i].kind != PDL_PLAN_OP_FREE)
            x->longer[x->nlonger++] = i;
    }
    x->plan.ops = ops;
    return true;
}

/* The plan of so many blocks. */
static bool stretch(struct oracle_block_plans *g, const struct block_form *m,
                    struct steps *x, const struct pdl_plan_rounds **rounds)
{
    const struct pdl_plan *p = &m->s->plan;
    int64_t more;

    x->plan = *p;
    if (!oracle_form_stretch(m, x->blocks, &more))
        return false;
    if (!p->roll)
        return true;
    if (pdl_plan_stretch(g->arena, p, more, &p, NULL) != PDL_OK ||
        pdl_plan_rounds_open(g->scratch, p, rounds, NULL) != PDL_OK ||
        pdl_plan_write_gathers(g->scratch, p, &p, NULL) != PDL_OK)
        return false;
    x->plan = *p;
    return keep_longer(g, m, x);
}

/* Numbers of prices: those of the form, and after them the longer ones'. */
static const int *number_longer(struct oracle_block_plans *g,
                                const struct block_form *m,
                                const struct steps *x)
{
    size_t n = (size_t)x->plan.nops;
    int *kind;

    if (x->nlonger == 0)
        return m->kinds[UPDATE].kind;
    kind = pdl_arena_grow(g->scratch, m->kinds[UPDATE].kind, n, n + 1,
                          sizeof *kind);
    for (int i = 0; kind && i < x->nlonger; i++)
        kind[x->longer[i]] = m->kinds[UPDATE].n + i;
    return kind;
}

static bool write_steps(struct oracle_block_plans *g, struct block_form *m,
                        struct steps *x, int stage,
                        const struct pdl_plan_rounds *rounds, const int *kind)
{
    struct oracle o = m->s->o;
    struct program p = program_of(g, m, stage);
    size_t n = (size_t)oracle_update_steps(&x->plan, stage);
    struct stream_step *steps = PDL_NEW(g->scratch, struct stream_step, n + 1);

    o.p = &x->plan;
    o.rounds = rounds;
    p.o = &o;
    p.price[UPDATE] = kind;
    if (!steps || !oracle_program_begin(&p))
        return false;
    x->n[stage] = oracle_program_update(&p, steps);
    if (x->n[stage] < 0)
        return false;
    n = (size_t)x->n[stage];
    x->list[stage] = pdl_arena_grow(g->arena, steps, n, n + 1, sizeof *steps);
    return x->list[stage] != NULL;
}

const struct steps *oracle_form_steps(struct oracle_block_plans *g,
                                      struct block_form *m, int64_t blocks)
{
    struct made *known = oracle_made(
        &g->memo, g->arena, (struct made_of){MADE_STEPS, m->id, blocks, 0});
    const struct pdl_plan_rounds *rounds = NULL;
    const int *kind = NULL;
    struct steps *x;
    bool ok;

    if (!known || known->it)
        return known ? known->it : NULL;
    x = PDL_NEW(g->arena, struct steps, 1);
    if (!x)
        return NULL;
    x->blocks = blocks;
    ok = stretch(g, m, x, &rounds) && (kind = number_longer(g, m, x));
    for (int i = 0; ok && i < m->s->plan.nstages; i++)
        ok = write_steps(g, m, x, i, rounds, kind);
    pdl_arena_reset(g->scratch);
    known->it = ok ? x : NULL;
    return known->it;
}
