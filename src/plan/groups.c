/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that may be run as one kernel. Memory-bound as they are, each pass
 * over a tensor that is saved is time saved, and what only passes between them
 * is never stored. The plan stays as it is; the table here is all the groups
 * there are, longer ones first. */
#include "plan_priv.h"

#include <string.h>

enum link_kind { NODE, SUM };

struct link {
    enum link_kind kind;
    enum pdl_op_id id; /* of a node */
    enum pdl_pass pass;
};

// clang-format off
#define F(id)     {NODE, PDL_ID_##id, PDL_FORWARD}
#define DATA(id)  {NODE, PDL_ID_##id, PDL_BACKWARD_DATA}
#define WEIGHT(id) {NODE, PDL_ID_##id, PDL_BACKWARD_WEIGHTS}
#define PLUS      {SUM, PDL_ID_OTHER, PDL_BACKWARD_DATA}
static const struct pattern {
    const char *name;
    int n;
    struct link link[PDL_GROUP_OPS];
} patterns[] = {
    {"batch_norm+add+relu", 3, {F(BATCH_NORM), F(ADD), F(RELU)}},
    {"batch_norm+relu",     2, {F(BATCH_NORM), F(RELU)}},
    {"batch_norm+relu6",    2, {F(BATCH_NORM), F(RELU6)}},
    {"relu6+batch_norm",    3, {DATA(RELU6), WEIGHT(BATCH_NORM), DATA(BATCH_NORM)}},
    {"sum+relu+batch_norm", 4, {PLUS, DATA(RELU), WEIGHT(BATCH_NORM), DATA(BATCH_NORM)}},
    {"relu+batch_norm",     3, {DATA(RELU), WEIGHT(BATCH_NORM), DATA(BATCH_NORM)}},
    {"conv+relu",           2, {F(CONV), F(RELU)}},
    {"add+layer_norm",      2, {F(ADD), F(LAYER_NORM)}},
    {"add+rms_norm",        2, {F(ADD), F(RMS_NORM)}},
    {"sum+layer_norm+sum",  4, {PLUS, WEIGHT(LAYER_NORM), DATA(LAYER_NORM), PLUS}},
    {"sum+layer_norm",      3, {PLUS, WEIGHT(LAYER_NORM), DATA(LAYER_NORM)}},
    {"sum+rms_norm+sum",    4, {PLUS, WEIGHT(RMS_NORM), DATA(RMS_NORM), PLUS}},
    {"sum+rms_norm",        3, {PLUS, WEIGHT(RMS_NORM), DATA(RMS_NORM)}},
    {"linear+sum",          2, {DATA(LINEAR), PLUS}},
    {"silu+mul",            2, {F(SILU), F(MUL)}},
    {"mul+silu",            2, {DATA(MUL), DATA(SILU)}},
};
// clang-format on
enum { NPATTERNS = sizeof patterns / sizeof patterns[0] };

int pdl_plan_group_kinds(void)
{
    return NPATTERNS;
}

static bool fits(const struct pdl_plan *p, int op, const struct link *l)
{
    const struct pdl_plan_op *o = &p->ops[op];

    if (l->kind == SUM)
        return o->kind == PDL_PLAN_OP_ADD && o->nin == 2 && o->nout == 1;
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 && o->part == 0 &&
           o->pass == l->pass &&
           pdl_op_id(p->model->nodes[o->node].op) == l->id;
}

static bool has(const int *list, int n, int x)
{
    while (n-- > 0)
        if (list[n] == x)
            return true;
    return false;
}

static bool follows(const struct pdl_plan *p, const struct pdl_plan_group *g,
                    int op)
{
    const struct pdl_plan_op *o = &p->ops[op];

    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < o->nin; k++)
            if (has(p->ops[g->op[i]].out, p->ops[g->op[i]].nout, o->in[k]))
                return true;
    return g->n == 0;
}

/* The next operation of the item, past what is freed. */
static int next_of(const struct pdl_plan *p, const struct pdl_plan_item *item,
                   int op)
{
    for (op++; op < item->first_op + item->nops; op++)
        if (p->ops[op].kind != PDL_PLAN_OP_FREE)
            return op;
    return -1;
}

bool pdl_plan_group_at(const struct pdl_plan *p,
                       const struct pdl_plan_item *item, int op, int kind,
                       const bool *taken, struct pdl_plan_group *out)
{
    struct pdl_plan_group g = {.n = 0};

    if (kind < 0 || kind >= NPATTERNS)
        return false;
    g.name = patterns[kind].name;
    for (int i = 0; i < patterns[kind].n; i++) {
        if (op < 0 || (taken && taken[op]) ||
            !fits(p, op, &patterns[kind].link[i]) || !follows(p, &g, op))
            return false;
        g.op[g.n++] = op;
        op = next_of(p, item, op);
    }
    *out = g;
    return true;
}

/* ---- of a whole plan -------------------------------------------------- */

static void count_readers(const struct pdl_plan *p, int *readers)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; p->ops[i].kind != PDL_PLAN_OP_FREE && k < p->ops[i].nin;
             k++)
            readers[p->ops[i].in[k]]++;
}

/* What one of them makes, and nobody reads but the others. */
static void find_inner(const struct pdl_plan *p, const struct pdl_plan_group *g,
                       const int *readers, bool *inner)
{
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < p->ops[g->op[i]].nout; k++) {
            int t = p->ops[g->op[i]].out[k], read = 0;

            for (int j = 0; j < g->n; j++)
                for (int m = 0; m < p->ops[g->op[j]].nin; m++)
                    read += p->ops[g->op[j]].in[m] == t;
            inner[t] = read > 0 && read == readers[t];
        }
}

/* The first kind that fits: longer ones come first. */
static bool find_group(const struct pdl_plan *p,
                       const struct pdl_plan_item *item, int op,
                       const bool *taken, struct pdl_plan_group *g)
{
    for (int k = 0; k < NPATTERNS; k++)
        if (pdl_plan_group_at(p, item, op, k, taken, g))
            return true;
    return false;
}

bool plan_index_groups(pdl_arena *a, struct pdl_plan *p)
{
    int *group = PDL_NEW(a, int, p->nops + 1), n = 0;
    int *readers = PDL_NEW(a, int, p->ntensors + 1);
    bool *inner = PDL_NEW(a, bool, p->ntensors + 1);
    bool *taken = PDL_NEW(a, bool, p->nops + 1);
    struct pdl_plan_group *g =
        PDL_NEW(a, struct pdl_plan_group, p->nops / 2 + 1);

    if (!group || !readers || !inner || !taken || !g)
        return false;
    count_readers(p, readers);
    for (int i = 0; i < p->nops; i++)
        group[i] = -1;
    for (int i = 0; i < p->nitems; i++) {
        const struct pdl_plan_item *item = &p->items[i];

        for (int op = item->first_op; op < item->first_op + item->nops; op++) {
            if (!find_group(p, item, op, taken, &g[n]))
                continue;
            for (int m = 0; m < g[n].n; m++) {
                taken[g[n].op[m]] = true;
                group[g[n].op[m]] = n;
            }
            find_inner(p, &g[n++], readers, inner);
        }
    }
    p->groups = g;
    p->group = group;
    p->inner = inner;
    return true;
}

/* ---- what one costs --------------------------------------------------- */

static int64_t outside(const struct pdl_plan *p, const struct pdl_plan_group *g,
                       int64_t rank)
{
    int64_t bytes = 0;

    for (int i = 0; i < g->n; i++) {
        const struct pdl_plan_op *o = &p->ops[g->op[i]];

        for (int k = 0; k < o->nin + o->nout; k++) {
            int t = k < o->nin ? o->in[k] : o->out[k - o->nin];
            bool again = p->inner[t];

            for (int j = 0; j < i && k < o->nin && !again; j++)
                again = has(p->ops[g->op[j]].in, p->ops[g->op[j]].nin, t) ||
                        has(p->ops[g->op[j]].out, p->ops[g->op[j]].nout, t);
            bytes += again ? 0
                           : pdl_plan_elements(p, t, rank) *
                                 pdl_dtype_bits(p->tensors[t].dtype) / 8;
        }
    }
    return bytes;
}

bool pdl_plan_group_key(const struct pdl_plan *p,
                        const struct pdl_plan_group *g, int64_t rank,
                        struct pdl_plan_key *out)
{
    struct pdl_plan_key k = {.ndims = 0};
    int64_t flops = 0;

    for (int i = 0; i < g->n; i++) {
        struct pdl_plan_key one;

        if (!pdl_plan_op_key(p, g->op[i], rank, &one))
            return false;
        flops += one.dims[PDL_KEY_FLOPS];
        if (i == 0)
            k = one;
    }
    k.op = g->name;
    k.dims[PDL_KEY_FLOPS] = flops;
    k.dims[PDL_KEY_BYTES] = outside(p, g, rank);
    *out = k;
    return true;
}
