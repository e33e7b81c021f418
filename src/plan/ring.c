/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring attention (Liu, Zaharia, Abbeel 2023). Placement alone gathers keys and
 * values over the ranks that cut the positions, and adds up their gradients
 * there: right, but every rank then has all of them at once. This pass turns
 * such a gather, and such a sum, into a rotation: blocks go from each rank to
 * the next while the queries at hand meet the block that has just come, so
 * that a rank has two of them, the one in use and the one on its way. What the
 * operands are and what comes out is the same; how much of it is there at a
 * time (`some` of `of`) and what the travel costs is not.
 * Keys and values travel together, forward and once more backward, where their
 * gradients go with them and come home with one step more.
 *
 * Limits: a step of the ring is not an operation of its own, so that one
 * attention and its rotations are checked and executed as a whole. Keys that
 * anything but one attention reads stay gathered. */
#include "plan_priv.h"

struct ring {
    struct plan_lower *lo;
    int *writer, *reader, *readers; /* of each tensor: the last one, how many */
};

static bool is_attention(const struct pdl_model *m, const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 &&
           plan_key_groups(&m->nodes[o->node]) > 0;
}

static bool is_keys(const struct pdl_node *n, const struct pdl_plan_tensor *t)
{
    return n->nin >= 3 && t->model_tensor >= 0 &&
           (t->model_tensor == n->in[1] || t->model_tensor == n->in[2]);
}

static uint32_t context_factors(const struct plan_lower *lo, int node)
{
    uint32_t set = 0;

    for (int f = 0; f < lo->mesh->nfactors; f++) {
        const struct pdl_mesh_term *t = plan_term_of(lo, node, f);

        if (t && t->axis == PDL_AXIS_CONTEXT)
            set |= UINT32_C(1) << f;
    }
    return set;
}

static bool look(struct ring *r)
{
    struct plan_lower *lo = r->lo;
    int n = lo->plan.ntensors + 1;

    r->writer = PDL_NEW(lo->arena, int, n);
    r->reader = PDL_NEW(lo->arena, int, n);
    r->readers = PDL_NEW(lo->arena, int, n);
    if (!r->writer || !r->reader || !r->readers) {
        plan_fail(lo, "out of memory");
        return false;
    }
    for (int t = 0; t < n; t++)
        r->writer[t] = r->reader[t] = -1;
    for (int i = 0; i < lo->plan.nops; i++) {
        const struct pdl_plan_op *o = &lo->ops[i];

        for (int k = 0; k < o->nin; k++) {
            r->reader[o->in[k]] = i;
            r->readers[o->in[k]]++;
        }
        for (int k = 0; k < o->nout; k++)
            r->writer[o->out[k]] = i;
    }
    return true;
}

/* Operation `op` moves t, which attention x reads or makes: it turns. */
static bool turn(struct ring *r, int op, int t, enum pdl_plan_op_kind kind,
                 const struct pdl_plan_op *x)
{
    struct plan_lower *lo = r->lo;
    uint32_t group = context_factors(lo, x->node);
    struct pdl_plan_op *o = op >= 0 ? &lo->ops[op] : NULL;
    int64_t n = 1;

    if (!o || !group || o->kind != kind || o->group != group || o->nin != 1 ||
        r->readers[t] != 1)
        return false;
    for (int f = 0; f < lo->mesh->nfactors; f++)
        if (plan_has(group, f))
            n *= lo->mesh->factor[f];
    if (n < 2)
        return false;
    o->kind = PDL_PLAN_OP_ROTATE;
    o->pass = x->pass;
    lo->tensors[t].some = PLAN_RING_BLOCKS;
    lo->tensors[t].of = n;
    return true;
}

/* Keys with values: where the later of the two is needed; their gradients
 * where the first is. */
static void turn_operands(struct ring *r, int op)
{
    struct pdl_plan_op *ops = r->lo->ops;
    const struct pdl_plan_op x = ops[op];
    const struct pdl_node *n = &r->lo->model->nodes[x.node];
    int first = -1;

    for (int k = 0; k < x.nin; k++) {
        int t = x.in[k], w = r->writer[t];

        if (!is_keys(n, &r->lo->tensors[t]) ||
            !turn(r, w, t, PDL_PLAN_OP_ALLGATHER, &x))
            continue;
        if (first >= 0)
            plan_join(r->lo, &ops[first > w ? first : w],
                      &ops[first > w ? w : first]);
        first = first > w ? first : w;
    }
}

static void turn_gradients(struct ring *r, int op)
{
    struct pdl_plan_op *ops = r->lo->ops;
    const struct pdl_plan_op x = ops[op];
    const struct pdl_node *n = &r->lo->model->nodes[x.node];
    int first = -1;

    for (int k = 0; k < x.nout; k++) {
        int t = x.out[k], w = r->reader[t];

        if (!is_keys(n, &r->lo->tensors[t]) ||
            !turn(r, w, t, PDL_PLAN_OP_REDUCE_SCATTER, &x))
            continue;
        if (first >= 0)
            plan_join(r->lo, &ops[first < w ? first : w],
                      &ops[first < w ? w : first]);
        first = first >= 0 && first < w ? first : w;
    }
}

void plan_ring(struct plan_lower *lo)
{
    struct ring r = {.lo = lo};

    if (lo->status != PDL_OK || !look(&r))
        return;
    for (int i = 0; i < lo->plan.nops; i++) {
        const struct pdl_plan_op *o = &lo->ops[i];

        if (!is_attention(lo->model, o) || o->pass == PDL_BACKWARD_WEIGHTS)
            continue;
        turn_operands(&r, i);
        if (o->pass == PDL_BACKWARD_DATA)
            turn_gradients(&r, i);
    }
    plan_close_ranks(lo);
}

/* ---- whom it serves --------------------------------------------------- */

static bool has(const int *ids, int n, int t)
{
    for (int k = 0; k < n; k++)
        if (ids[k] == t)
            return true;
    return false;
}

enum { NEAR = 1024 }; /* operations between the two, more than there are */

int pdl_plan_rotates_for(const struct pdl_plan *p, int op)
{
    const struct pdl_plan_op *o = &p->ops[op];
    bool home;

    if (o->kind != PDL_PLAN_OP_ROTATE || o->nin < 1 || o->nout < 1)
        return -1;
    home = p->tensors[o->in[0]].of > 0;
    for (int far = 1; far < NEAR; far++) {
        int i = home ? op - far : op + far;
        const struct pdl_plan_op *x;

        if (i < 0 || i >= p->nops)
            break;
        x = &p->ops[i];
        if (is_attention(p->model, x) && (home ? has(x->out, x->nout, o->in[0])
                                               : has(x->in, x->nin, o->out[0])))
            return i;
    }
    return -1;
}
