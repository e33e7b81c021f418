/* SPDX-License-Identifier: Apache-2.0
 *
 * What small plans consist of: operations that cost the same are of one kind,
 * so that a mesh or a number of samples has to price each kind once; what each
 * waits for on the streams; and how stages of many blocks follow from few.
 *
 * Forward and backward repeat block by block; updates: block_updates.c. */
#include "oracle/search/blocks.h"

/* ---- kinds ------------------------------------------------------------------ */

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

/* ---- forward and backward ------------------------------------------------------ */

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

struct program oracle_form_program(struct oracle_block_plans *g,
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
        .row = g->f->model->ntensors,
        .first_round = stage * (int)m->key.blocks};
}

/* How far operations of a part may look back. */
enum { FARTHEST = 32 };

static bool write_passes(struct oracle_block_plans *g, struct block_form *m,
                         int stage, struct stage_passes *x)
{
    const struct pdl_plan_stage *s = &m->s->stages[stage];
    struct program p = oracle_form_program(g, m, stage);
    bool ok = oracle_program_begin(&p);
    int last = p.first_round + (x->parts > 1 ? (int)m->key.blocks - 1 : 0);

    p.repeats = x->parts > 1;
    for (int j = 0; ok && j < x->parts; j++)
        ok = oracle_program_part(&p, FORWARD, s->first_forward + j, 1, last - j,
                                 &x->list[PASS_FORWARD][j]);
    for (int j = 0; ok && j < x->parts; j++)
        ok = oracle_program_part(&p, BACKWARD, s->first_backward + j, 1,
                                 last - j, &x->list[PASS_BACKWARD][j]);
    for (int j = 0; ok && x->split && j < x->parts; j++)
        ok = oracle_program_part(&p, BACKWARD, s->first_backward + x->parts + j,
                                 1, last - j, &x->list[PASS_LATE][j]);
    pdl_arena_reset(g->scratch);
    x->back = p.back;
    return ok && p.back <= FARTHEST;
}

bool oracle_form_work(struct oracle_block_plans *g, struct block_form *m)
{
    int most = m->key.activations ? WORK_BLOCKS + 1 : WORK_BLOCKS;
    int parts = m->key.blocks == most ? most : 1;
    bool ok = parts == 1 || cut_blocks(g, m->s, parts);

    ok = ok && oracle_form_number(g, m, FORWARD) &&
         oracle_form_number(g, m, BACKWARD);
    for (int i = 0; ok && i < m->s->plan.nstages; i++) {
        struct stage_passes *x = &m->shape[i];

        x->parts = parts;
        x->copies = m->key.activations;
        x->traffic = m->key.zero > 1;
        x->split = m->s->stages[i].nbackward > parts;
        ok = write_passes(g, m, i, x);
    }
    return ok;
}
