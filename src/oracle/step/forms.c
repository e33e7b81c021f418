/* SPDX-License-Identifier: Apache-2.0
 *
 * What small plans consist of: operations that cost the same are of one kind,
 * so that a mesh or a number of samples has to price each kind once; what each
 * waits for on the streams; and how stages of many blocks follow from few.
 *
 * Forward and backward repeat block by block; updates: updates.c. */
#include "oracle/step/pieces_priv.h"

/* ---- kinds ------------------------------------------------------------------ */

bool oracle_form_number(struct oracle_forms *g, struct form *m,
                        enum phase phase)
{
    struct small *s = m->s;
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

int64_t oracle_part_times(const struct piece_shape *s, bool back, int i,
                          int64_t blocks)
{
    return s->parts > 1 && i == (back ? 1 : s->parts - 2)
               ? blocks - (s->parts - 1)
               : 1;
}

/* The block of the small plan that an operation computes; -1: none. */
static int64_t block_of(const struct oracle_forms *g, const struct small *s,
                        int op)
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
static int first_of(const struct oracle_forms *g, const struct small *s,
                    const struct pdl_plan_item *it, int64_t block)
{
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        if (block_of(g, s, i) == block)
            return i;
    return -1;
}

/* Cuts an item where the second, the third, ... of its n blocks begin. */
static bool cut_item(const struct oracle_forms *g, const struct small *s,
                     const struct pdl_plan_item *it, int n, int64_t first,
                     bool back, struct pdl_plan_item *out)
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
static bool cut_blocks(const struct oracle_forms *g, struct small *s, int parts)
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

bool oracle_form_makers(struct oracle_forms *g, const struct small *s,
                        int stage, struct makers *m)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    const struct pdl_plan_item *b = &s->plan.items[x->first_backward];
    const struct pdl_plan_item *e = &b[x->nbackward - 1];
    int n = s->plan.ntensors + 1;

    m->by = PDL_NEW(g->scratch, int, n);
    m->in = PDL_NEW(g->scratch, int, n);
    m->out = PDL_NEW(g->scratch, int, n);
    m->net = PDL_NEW(g->scratch, int, n);
    m->mark = PDL_NEW(g->scratch, int, n);
    m->nin = m->nout = m->nnet = m->nmark = m->waited = 0;
    m->far = false;
    if (!m->by || !m->in || !m->out || !m->net || !m->mark)
        return false;
    for (int t = 0; t < n; t++)
        m->by[t] = -1;
    for (int i = b->first_op; i < e->first_op + e->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nout; k++)
            m->by[s->plan.ops[i].out[k]] = i;
    return true;
}

enum { MAX_MADE = 64 };

/* The gradients that the update reads, by the operation that makes them. */
static const struct piece_made *gradients_of(struct oracle_forms *g,
                                             const struct small *s, int stage,
                                             int base, int op, const int *by,
                                             int *n)
{
    const struct pdl_plan_item *it =
        &s->plan.items[s->stages[stage].first_update];
    struct piece_made list[MAX_MADE];

    *n = 0;
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nin; k++) {
            int t = s->plan.ops[i].in[k], id = s->plan.tensors[t].model_tensor;

            if (by[t] != op || id < 0 || *n == MAX_MADE)
                continue;
            list[(*n)++] = (struct piece_made){
                s->tensor[id], s->round[id] - base, s->round[id] < 0};
        }
    return *n > 0 ? pdl_arena_grow(g->arena, list, (size_t)*n, (size_t)*n,
                                   sizeof list[0])
                  : NULL;
}

static bool makes_gradient(const struct small *s, int op)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];

    return x->nout > 0 &&
           s->plan.tensors[x->out[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* Copies are numbered from 1; what waits for them looks back. */
static void note_copies(const struct small *s, int op, bool back,
                        struct makers *m, struct piece_op *out)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int in = 0, gone = 0;

    for (int k = 0; k < x->nin; k++) {
        in = m->in[x->in[k]] > in ? m->in[x->in[k]] : in;
        gone = m->out[x->in[k]] > gone ? m->out[x->in[k]] : gone;
    }
    if (x->kind == PDL_PLAN_OP_COPY_OUT || x->kind == PDL_PLAN_OP_COPY_IN) {
        bool leaves = x->kind == PDL_PLAN_OP_COPY_OUT;

        out->copy = leaves ? PIECE_OUT : PIECE_IN;
        if (leaves)
            m->nout++;
        else
            m->nin++;
        out->out = !leaves && back && gone > 0 && gone == m->nout;
        for (int k = 0; k < x->nout; k++) {
            *(leaves ? &m->out[x->out[k]] : &m->in[x->out[k]]) =
                leaves ? m->nout : m->nin;
            if (leaves)
                m->out[x->in[k]] = m->nout;
        }
        return;
    }
    out->in = in > 0 ? m->nin - in + 1 : 0;
    out->out = gone > 0 && gone == m->nout;
}

static int latest(const int *number, const int *ids, int n)
{
    int last = 0;

    for (int k = 0; k < n; k++)
        last = number[ids[k]] > last ? number[ids[k]] : last;
    return last;
}

/* How far back number `at` of `n` is; 0: it is none. */
static int8_t look_back(struct makers *m, int at, int n)
{
    int back = at > 0 ? n - at + 1 : 0;

    m->far = m->far || back > PIECE_BACK;
    return (int8_t)(back > PIECE_BACK ? 0 : back);
}

/* Weights that travel, the gradients they wait for, and what waits for them.
 * The network does one thing after the other, so whoever has waited for one
 * has waited for those before. */
static void note_traffic(const struct small *s, int op, struct makers *m,
                         struct piece_op *out)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int net = latest(m->net, x->in, x->nin);

    if (oracle_is_weight_traffic(&s->o, op)) {
        bool gathers = x->kind == PDL_PLAN_OP_ALLGATHER;

        out->net = gathers ? PIECE_GATHER : PIECE_SCATTER;
        if (!gathers)
            out->after = look_back(m, latest(m->mark, x->in, x->nin), m->nmark);
        m->nnet++;
        for (int k = 0; k < x->nout; k++)
            m->net[x->out[k]] = m->nnet;
        return;
    }
    if (net > m->waited) {
        out->waits = look_back(m, net, m->nnet);
        m->waited = net;
    }
    if (makes_gradient(s, op)) {
        out->marks = true;
        m->nmark++;
        for (int k = 0; k < x->nout; k++)
            m->mark[x->out[k]] = m->nmark;
    }
}

/* Nothing is computed from here to the end of forward: memory may come back
 * while the next task runs. */
static bool is_over(const struct small *s, const struct pdl_plan_item *last,
                    int op)
{
    for (; op < last->first_op + last->nops; op++)
        if (s->plan.ops[op].kind != PDL_PLAN_OP_FREE &&
            !oracle_is_copy(s->plan.ops[op].kind))
            return false;
    return true;
}

enum pass { PASS_FORWARD, PASS_BACKWARD, PASS_LATE };

static bool list_part(struct oracle_forms *g, struct form *m, int stage,
                      int part, enum pass pass, struct makers *mk,
                      struct piece_list *out)
{
    struct small *s = m->s;
    const struct pdl_plan_stage *x = &s->stages[stage];
    int parts = m->shape[stage].parts;
    bool back = pass != PASS_FORWARD;
    int first = !back               ? x->first_forward
                : pass == PASS_LATE ? x->first_backward + parts
                                    : x->first_backward;
    const struct pdl_plan_item *it = &s->plan.items[first + part];
    const struct pdl_plan_item *last = &s->plan.items[first + parts - 1];
    struct piece_op *list = PDL_NEW(g->arena, struct piece_op, it->nops + 1);
    int base = stage * (int)m->key.blocks +
               (m->shape[stage].parts > 1 ? (int)m->key.blocks - 1 - part : 0);

    out->n = 0;
    out->op = list;
    for (int i = it->first_op; list && i < it->first_op + it->nops; i++) {
        struct piece_op *o = &list[out->n];
        bool frees = s->plan.ops[i].kind == PDL_PLAN_OP_FREE;

        *o = (struct piece_op){.kind =
                                   m->kinds[back ? BACKWARD : FORWARD].kind[i]};
        if (m->key.activations)
            note_copies(s, i, back, mk, o);
        if (m->shape[stage].traffic)
            note_traffic(s, i, mk, o);
        if (!back && frees && is_over(s, last, i))
            continue;
        if (back && makes_gradient(s, i))
            o->made = gradients_of(g, s, stage, base, i, mk->by, &o->nmade);
        out->n += !frees || o->in > 0 || o->out || o->waits > 0;
    }
    return list != NULL;
}

bool oracle_form_work(struct oracle_forms *g, struct form *m)
{
    int most = m->key.activations ? WORK_BLOCKS + 1 : WORK_BLOCKS;
    int parts = m->key.blocks == most ? most : 1;
    bool ok = parts == 1 || cut_blocks(g, m->s, parts);

    ok = ok && oracle_form_number(g, m, FORWARD) &&
         oracle_form_number(g, m, BACKWARD);
    for (int i = 0; ok && i < m->s->plan.nstages; i++) {
        struct piece_shape *x = &m->shape[i];
        struct makers mk;

        x->blocks = (int)m->key.blocks;
        x->parts = parts;
        x->copies = m->key.activations;
        x->traffic = m->key.zero > 1;
        x->split = m->s->stages[i].nbackward > parts;
        ok = oracle_form_makers(g, m->s, i, &mk);
        for (int j = 0; ok && j < parts; j++)
            ok = list_part(g, m, i, j, PASS_FORWARD, &mk, &x->forward[j]);
        for (int j = 0; ok && j < parts; j++)
            ok = list_part(g, m, i, j, PASS_BACKWARD, &mk, &x->backward[j]);
        for (int j = 0; ok && x->split && j < parts; j++)
            ok = list_part(g, m, i, j, PASS_LATE, &mk, &x->late[j]);
        ok = ok && !mk.far;
        pdl_arena_reset(g->scratch);
    }
    return ok;
}
