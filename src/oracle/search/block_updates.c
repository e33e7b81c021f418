/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient exchange and update of small plans, and how those of many blocks
 * follow from those of four. An update repeats where buckets do: the second
 * and the third block that it comes to must be exchanged alike, and then, as a
 * bucket's fill after a block decides what the next one does, so are all that
 * follow. Buckets that a stage never fills gather from all its blocks and are
 * emptied at its end: their operations are written out with as many tensors as
 * there are blocks, as long as the bucket holds them. What does not repeat so
 * is lowered as it is. */
#include "oracle/search/blocks.h"

#include <string.h>

/* A stretch of operations of an update; the middle one of its kind comes once
 * for each block but three. */
struct stretch {
    int first, n; /* operations of the item */
    bool middle;
    int before; /* first operation of the stretch that does the same for the
                   block before */
};
enum { MAX_STRETCHES = 16 };

struct cut {
    int first, n; /* operations of the plan */
    int *q;       /* of each: in which place backward came to the block of its
                     last gradient; -1: of none */
    int *step;    /* of each: its number; -1: nothing waits and nothing runs */
    int nsteps;
    struct stream_step *steps;
    bool repeats;
    int nstretches;
    struct stretch stretch[MAX_STRETCHES];
};

/* In which place backward comes to the block of a tensor; -1: of none. */
static int place_of(const struct block_form *m, int stage, int t)
{
    int id = m->s->plan.tensors[t].model_tensor;
    int T = (int)m->key.blocks;

    return id < 0 || m->s->round[id] < 0
               ? -1
               : T - 1 - (m->s->round[id] - stage * T);
}

static bool list_update(struct oracle_block_plans *g, struct block_form *m,
                        int stage, struct cut *c)
{
    struct program p = oracle_form_program(g, m, stage);

    oracle_update_ops(&m->s->plan, stage, &c->first, &c->n);
    c->q = PDL_NEW(g->arena, int, c->n + 1);
    c->step = PDL_NEW(g->arena, int, c->n + 1);
    c->steps = PDL_NEW(g->arena, struct stream_step, c->n + 1);
    if (!c->q || !c->step || !c->steps || !oracle_program_begin(&p))
        return false;
    c->nsteps = oracle_program_update(&p, c->steps, c->step);
    for (int i = 0; i < c->n; i++) {
        const struct pdl_plan_op *x = &m->s->plan.ops[c->first + i];

        c->q[i] = -1;
        for (int k = 0; k < x->nin + x->nout; k++) {
            int q =
                place_of(m, stage, k < x->nin ? x->in[k] : x->out[k - x->nin]);

            c->q[i] = q > c->q[i] ? q : c->q[i];
        }
    }
    pdl_arena_reset(g->scratch);
    return c->nsteps >= 0;
}

/* Tensors of each place among those of an operation. */
static void count_places(const struct block_form *m, int stage, const int *ids,
                         int n, int count[UPDATE_BLOCKS])
{
    memset(count, 0, UPDATE_BLOCKS * sizeof count[0]);
    for (int k = 0; k < n; k++) {
        int q = place_of(m, stage, ids[k]);

        if (q >= 0)
            count[q]++;
    }
}

/* Does it gather from all blocks? */
static bool is_longer(const struct block_form *m, int stage,
                      const struct pdl_plan_op *x)
{
    int count[UPDATE_BLOCKS];

    count_places(m, stage, x->in, x->nin, count);
    return count[1] > 0 && count[1] == count[2] && count[3] > 0;
}

static bool same_shifted(const struct block_form *m, int stage, const int *a,
                         const int *b, int n)
{
    const struct block_plan *s = m->s;

    for (int k = 0; k < n; k++) {
        int x = s->plan.tensors[a[k]].model_tensor;
        int y = s->plan.tensors[b[k]].model_tensor;
        int p = place_of(m, stage, a[k]), q = place_of(m, stage, b[k]);

        if (p < 0 || q != p + 1 || s->tensor[x] != s->tensor[y])
            return false;
    }
    return true;
}

/* Does operation b do to a block what a does to the one before? */
static bool does_the_same(const struct block_form *m, int stage,
                          const struct cut *c, int a, int b)
{
    const struct pdl_plan_op *x = &m->s->plan.ops[c->first + a];
    const struct pdl_plan_op *y = &m->s->plan.ops[c->first + b];

    return c->q[a] + 1 == c->q[b] && (c->step[a] < 0) == (c->step[b] < 0) &&
           x->nin == y->nin && x->nout == y->nout &&
           m->kinds[UPDATE].kind[c->first + a] ==
               m->kinds[UPDATE].kind[c->first + b] &&
           same_shifted(m, stage, x->in, y->in, x->nin) &&
           same_shifted(m, stage, x->out, y->out, x->nout);
}

/* Cuts where operations of the third block begin and end. */
static bool find_stretches(struct cut *c)
{
    for (int i = 0; i < c->n; i++) {
        bool middle = c->q[i] == 2;
        struct stretch *x =
            c->nstretches > 0 ? &c->stretch[c->nstretches - 1] : NULL;

        if (!x || x->middle != middle) {
            if (c->nstretches == MAX_STRETCHES)
                return false;
            c->stretch[c->nstretches++] =
                (struct stretch){.first = i, .n = 1, .middle = middle};
        } else {
            x->n++;
        }
    }
    return true;
}

/* The stretches of the second block are those of the third, in turn. */
static bool find_before(const struct block_form *m, int stage, struct cut *c)
{
    int at = 0;

    for (int i = 0; i < c->nstretches; i++) {
        struct stretch *x = &c->stretch[i];

        if (!x->middle)
            continue;
        while (at < c->n && c->q[at] != 1)
            at++;
        x->before = at;
        for (int k = 0; k < x->n; k++, at++)
            if (at >= c->n || !does_the_same(m, stage, c, at, x->first + k))
                return false;
        if (at < c->n && c->q[at] == 1)
            return false;
    }
    while (at < c->n && c->q[at] != 1)
        at++;
    return at == c->n;
}

static int stretch_of(const struct cut *c, int op)
{
    for (int i = 0; i < c->nstretches; i++)
        if (op >= c->stretch[i].first &&
            op < c->stretch[i].first + c->stretch[i].n)
            return i;
    return -1;
}

/* The stretch of the third block whose twin has the operation; -1: none. */
static int twin_of(const struct cut *c, int op)
{
    for (int i = 0; i < c->nstretches; i++)
        if (c->stretch[i].middle && op >= c->stretch[i].before &&
            op < c->stretch[i].before + c->stretch[i].n)
            return i;
    return -1;
}

static const int *ops_of_steps(struct oracle_block_plans *g,
                               const struct cut *c)
{
    int *op = PDL_NEW(g->scratch, int, c->nsteps + 1);

    for (int i = 0; op && i < c->n; i++)
        if (c->step[i] >= 0)
            op[c->step[i]] = i;
    return op;
}

/* Steps of the third block wait for those of its own and of the one before. */
static bool waits_near(struct oracle_block_plans *g, const struct cut *c)
{
    const int *op = ops_of_steps(g, c);
    bool near = op != NULL;

    for (int i = 0; near && i < c->nsteps; i++)
        for (int k = 0; near && c->q[op[i]] == 2 && k < STREAMS; k++) {
            int at = c->steps[i].after[k] < 0 ? -1 : op[c->steps[i].after[k]];

            near = at < 0 || c->q[at] == 2 || twin_of(c, at) >= 0;
        }
    pdl_arena_reset(g->scratch);
    return near;
}

bool oracle_form_update(struct oracle_block_plans *g, struct block_form *m)
{
    if (!oracle_form_number(g, m, UPDATE))
        return false;
    for (int i = 0; i < m->s->plan.nstages; i++) {
        struct cut *c = PDL_NEW(g->arena, struct cut, 1);

        if (!c || m->s->stages[i].nupdate != 1 || !list_update(g, m, i, c))
            return false;
        m->cut[i] = c;
        c->repeats = m->key.blocks == UPDATE_BLOCKS && find_stretches(c) &&
                     find_before(m, i, c) && waits_near(g, c);
    }
    return true;
}

/* ---- updates of more blocks ------------------------------------------------------- */

static int64_t bytes_of(const struct pdl_plan_tensor *t)
{
    int64_t n = pdl_dtype_bits(t->dtype) / 8;

    for (int d = 0; d < t->ndims; d++)
        n *= t->dim[d];
    return n;
}

/* Is a bucket that gathers from so many blocks filled by the same gradient? */
static bool holds(const struct block_form *m, int stage,
                  const struct pdl_plan_op *x, int64_t blocks)
{
    int64_t limit = pdl_plan_bucket_bytes(&m->s->strategy), few = 0, all = 0;
    int n = x->nin / 2, last = 0;

    for (int k = n; k < x->nin; k++) {
        const struct pdl_plan_tensor *t = &m->s->plan.tensors[x->in[k]];
        bool middle = place_of(m, stage, x->in[k]) == 2;

        few += bytes_of(t);
        all += bytes_of(t) * (middle ? blocks - 3 : 1);
        last = x->in[k];
    }
    all -= bytes_of(&m->s->plan.tensors[last]);
    few -= bytes_of(&m->s->plan.tensors[last]);
    if (all >= limit || n * blocks > 4000)
        return false;
    all += bytes_of(&m->s->plan.tensors[last]);
    few += bytes_of(&m->s->plan.tensors[last]);
    return (all >= limit) == (few >= limit);
}

/* Tensors of the third block as often as there are such. */
static const int *repeat_ids(struct oracle_block_plans *g,
                             const struct block_form *m, int stage,
                             const int *ids, int n, int64_t blocks, int *out_n)
{
    int *list = PDL_NEW(g->arena, int, n *blocks + 1);

    *out_n = 0;
    for (int k = 0; list && k < n; k++)
        for (int64_t r = place_of(m, stage, ids[k]) == 2 ? blocks - 3 : 1;
             r > 0; r--)
            list[(*out_n)++] = ids[k];
    return list;
}

/* Operations that gather from all blocks, written out; false: buckets fill
 * otherwise. */
static bool write_longer(struct oracle_block_plans *g, struct block_form *m,
                         struct steps *x)
{
    const struct block_plan *s = m->s;

    for (int i = 0; i < s->plan.nstages; i++)
        for (int k = m->cut[i]->first; k < m->cut[i]->first + m->cut[i]->n;
             k++) {
            const struct pdl_plan_op *op = &s->plan.ops[k];
            struct pdl_plan_op *to;

            if (!is_longer(m, i, op))
                continue;
            if (op->kind == PDL_PLAN_OP_UPDATE && !holds(m, i, op, x->blocks))
                return false;
            if (!x->ops) {
                x->ops = PDL_NEW(g->arena, struct pdl_plan_op, s->plan.nops);
                x->longer = PDL_NEW(g->arena, int, s->plan.nops);
                if (!x->ops || !x->longer)
                    return false;
                memcpy(x->ops, s->plan.ops,
                       (size_t)s->plan.nops * sizeof *x->ops);
            }
            to = &x->ops[k];
            to->in = repeat_ids(g, m, i, op->in, op->nin, x->blocks, &to->nin);
            to->out =
                repeat_ids(g, m, i, op->out, op->nout, x->blocks, &to->nout);
            if (!to->in || !to->out)
                return false;
            if (op->kind != PDL_PLAN_OP_FREE)
                x->longer[x->nlonger++] = k;
        }
    return true;
}

static int longer_kind(const struct block_form *m, const struct steps *x,
                       int op, int kind)
{
    for (int i = 0; i < x->nlonger; i++)
        if (x->longer[i] == op)
            return m->kinds[UPDATE].n + i;
    return kind;
}

/* Where steps of a stage go when its blocks are written out. */
struct layout {
    const struct cut *c;
    const int *op;           /* of each step */
    int64_t more;            /* blocks like the third, beyond it */
    int at[MAX_STRETCHES];   /* first step of each stretch */
    int each[MAX_STRETCHES]; /* steps of it */
    int base[MAX_STRETCHES]; /* its first in the form */
};

static int lay_out(struct layout *y)
{
    int n = 0, base = 0;

    for (int i = 0; i < y->c->nstretches; i++) {
        const struct stretch *x = &y->c->stretch[i];

        y->at[i] = n;
        y->base[i] = base;
        y->each[i] = 0;
        for (int k = x->first; k < x->first + x->n; k++)
            y->each[i] += y->c->step[k] >= 0;
        base += y->each[i];
        n += y->each[i] * (x->middle ? (int)y->more + 1 : 1);
    }
    return n;
}

/* Step `step` of the form, as one of copy `copy` (-1: of none) finds it. */
static int find_step(const struct layout *y, int step, int64_t copy)
{
    int op = y->op[step], i = stretch_of(y->c, op), twin, before = 0;
    const struct stretch *x = &y->c->stretch[i];

    if (x->middle) /* of its own block; what comes later, of the last */
        return y->at[i] + (int)(copy >= 0 ? copy : y->more) * y->each[i] +
               (step - y->base[i]);
    twin = copy > 0 ? twin_of(y->c, op) : -1;
    if (twin < 0)
        return y->at[i] + step - y->base[i];
    /* of the block before, which is a copy too */
    for (int k = y->c->stretch[twin].before; k < op; k++)
        before += y->c->step[k] >= 0;
    return y->at[twin] + (int)(copy - 1) * y->each[twin] + before;
}

static void write_step(const struct block_form *m, const struct layout *y,
                       const struct steps *x, int step, int64_t copy,
                       struct stream_step *out)
{
    int q = y->c->q[y->op[step]], row = m->s->model.ntensors, shift;

    *out = y->c->steps[step];
    out->price = longer_kind(m, x, y->c->first + y->op[step], out->price);
    for (int k = 0; k < STREAMS; k++)
        if (out->after[k] >= 0)
            out->after[k] = find_step(y, out->after[k], copy);
    if (q > 2) /* counted from the first of the stage */
        return;
    shift = (int)(y->more - (copy > 0 ? copy : 0)) * row;
    out->computed += out->computed >= row ? shift : 0;
    out->brought += out->brought >= row ? shift : 0;
}

static bool write_steps(struct oracle_block_plans *g,
                        const struct block_form *m, struct steps *x, int stage)
{
    struct layout y = {.c = m->cut[stage],
                       .op = ops_of_steps(g, m->cut[stage]),
                       .more = x->blocks - m->key.blocks};
    int n = lay_out(&y);

    x->n[stage] = n;
    x->list[stage] = PDL_NEW(g->arena, struct stream_step, n + 1);
    for (int i = 0; y.op && x->list[stage] && i < y.c->nstretches; i++)
        for (int64_t r = 0; r < (y.c->stretch[i].middle ? y.more + 1 : 1); r++)
            for (int k = 0; k < y.each[i]; k++)
                write_step(m, &y, x, y.base[i] + k,
                           y.c->stretch[i].middle ? r : -1,
                           &x->list[stage][y.at[i] + (int)r * y.each[i] + k]);
    pdl_arena_reset(g->scratch);
    return x->list[stage] != NULL;
}

const struct steps *oracle_form_steps(struct oracle_block_plans *g,
                                      struct block_form *m, int64_t blocks)
{
    struct steps *x;
    bool ok = true;

    for (x = m->steps; x; x = x->next)
        if (x->blocks == blocks)
            return x;
    x = PDL_NEW(g->arena, struct steps, 1);
    if (!x)
        return NULL;
    x->blocks = blocks;
    for (int i = 0; ok && i < m->s->plan.nstages; i++) {
        x->n[i] = m->cut[i]->nsteps;
        x->list[i] = m->cut[i]->steps;
        ok = blocks == m->key.blocks || m->cut[i]->repeats;
    }
    ok = ok && (blocks == m->key.blocks || write_longer(g, m, x));
    for (int i = 0; ok && blocks != m->key.blocks && i < m->s->plan.nstages;
         i++)
        ok = write_steps(g, m, x, i);
    x->next = m->steps;
    if (ok)
        m->steps = x;
    return ok ? x : NULL;
}

struct oracle_span oracle_form_walk(struct block_form *m, const struct steps *x,
                                    int stage, struct oracle_tally *t)
{
    struct block_plan *s = m->s;
    const struct cut *c = m->cut[stage];
    const struct pdl_plan_op *ops = s->plan.ops;
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_item it = items[s->stages[stage].first_update];
    struct oracle_span sum = {.top_all = INT64_MIN / 4}, one;
    bool whole = x->blocks == m->key.blocks;

    s->plan.ops = x->ops ? x->ops : ops;
    s->plan.items = &it;
    for (int i = 0; i < (whole ? 1 : c->nstretches); i++) {
        if (!whole) {
            it.first_op = c->first + c->stretch[i].first;
            it.nops = c->stretch[i].n;
        }
        one = oracle_walk(&s->o, stage, 0, 1, true, t);
        if (!whole && c->stretch[i].middle)
            one = oracle_span_repeat(&one, x->blocks - 3);
        sum = oracle_span_join(&sum, &one);
    }
    s->plan.items = items;
    s->plan.ops = ops;
    return sum;
}

void oracle_form_block(struct oracle_block_plans *g, struct block_form *m,
                       int stage, const int64_t *size, struct oracle_lived *out)
{
    int n = m->s->plan.ntensors;
    int64_t *one = PDL_NEW(g->scratch, int64_t, n + 1);

    for (int t = 0; one && t < n; t++)
        one[t] = place_of(m, stage, t) == 2 ? size[t] : 0;
    if (one)
        oracle_lived_base(&m->s->o, stage, one, out);
}
