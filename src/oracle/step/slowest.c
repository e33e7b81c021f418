/* SPDX-License-Identifier: Apache-2.0
 *
 * The price of an operation: that of the slowest rank, for which all others
 * wait. Of the representatives (ranks.c) those are looked at that differ from
 * the ones before in what a price depends on: the extents of their parts, and
 * for a collective the wires; messages by boxes also depend on where the parts
 * lie. Equal operations are priced once (memo.c). */
#include "oracle/oracle_priv.h"

bool oracle_is_comm(enum pdl_plan_op_kind kind)
{
    return kind >= PDL_PLAN_OP_ALLREDUCE && kind <= PDL_PLAN_OP_SEND &&
           kind != PDL_PLAN_OP_SLICE;
}

/* The same place in the group and in the node? What an alltoall leaves where
 * it is, and what of the rest stays in the node, depends on it even where all
 * parts are equal. */
static bool same_place(const struct oracle *o, uint32_t group, int64_t a,
                       int64_t b)
{
    if (a % o->sys->node.pes != b % o->sys->node.pes)
        return false;
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if ((group >> f & 1) && pdl_mesh_coord(o->p->mesh, a, f) !=
                                    pdl_mesh_coord(o->p->mesh, b, f))
            return false;
    return true;
}

/* Ranks that do what an earlier one does add nothing; a collective must also
 * cross the same wires. */
static bool is_new(const struct oracle *o, int op, const struct oracle_ranks *r,
                   int i, bool comm, bool gradient)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int64_t rank = r->rank[i], twin = r->rank[r->twin[i]];

    if (!comm)
        return r->like[i] == i;
    return r->twin[i] == i ||
           (x->kind == PDL_PLAN_OP_ALLTOALL &&
            !same_place(o, x->group, rank, twin)) ||
           !oracle_same_wire(o, op, rank, twin, gradient);
}

static void price_on(const struct oracle *o, int op, int64_t rank, bool comm,
                     bool gradient, struct oracle_price *p)
{
    struct oracle_price how = {.level = -1};
    double t = comm ? oracle_comm(o, op, rank, gradient, &how)
                    : oracle_compute(o, op, rank);

    p->seconds = t > p->seconds ? t : p->seconds;
    if (how.flows > p->flows) {
        p->flows = how.flows;
        p->at = how.at;
    }
    p->level = how.level > p->level ? how.level : p->level;
}

/* Messages by boxes also depend on where the parts lie. */
static bool by_boxes(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_HALO || kind == PDL_PLAN_OP_ALLTOALL;
}

/* Does a rank before it, of those that are priced, cost the same: parts of the
 * same extents, and of a collective the same wires? */
static bool is_priced(const struct oracle *o, int op,
                      const struct oracle_ranks *r, int i, const uint8_t *as,
                      const bool *priced, bool comm, bool gradient)
{
    for (int k = 0; k < i; k++)
        if (priced[k] && as[k] == as[i] &&
            (!comm ||
             oracle_same_wire(o, op, r->rank[k], r->rank[i], gradient)))
            return true;
    return false;
}

/* Is a twin of representative i that crosses the same wires among the ranks of
 * a group that are all priced? */
static bool is_listed(const struct oracle *o, int op,
                      const struct oracle_ranks *r, int i, const int64_t *more,
                      int n, bool gradient)
{
    for (int k = 0; n > 0 && k < r->n; k++) {
        bool listed = false;

        if (r->twin[k] != r->twin[i])
            continue;
        for (int j = 0; j < n && !listed; j++)
            listed = more[j] == r->rank[k];
        if (listed &&
            (o->p->ops[op].kind != PDL_PLAN_OP_ALLTOALL ||
             same_place(o, o->p->ops[op].group, r->rank[i], r->rank[k])) &&
            oracle_same_wire(o, op, r->rank[i], r->rank[k], gradient))
            return true;
    }
    return false;
}

static void price_ranks(const struct oracle *o, int op,
                        const struct oracle_ranks *r, bool comm, bool gradient,
                        struct oracle_price *p)
{
    int64_t more[ORACLE_MORE];
    int n = oracle_more_ranks(o, op, r->rank, r->n, more);
    uint8_t as[ORACLE_MAX_RANKS];
    bool priced[ORACLE_MAX_RANKS] = {false};
    bool known = r->n > 1 && !by_boxes(o->p->ops[op].kind) &&
                 !oracle_is_copy(o->p->ops[op].kind) &&
                 oracle_same_parts(o, op, r, as);

    for (int i = 0; i < r->n; i++) {
        if (!is_new(o, op, r, i, comm, gradient) ||
            (known && is_priced(o, op, r, i, as, priced, comm, gradient)) ||
            (comm && is_listed(o, op, r, i, more, n, gradient)))
            continue;
        price_on(o, op, r->rank[i], comm, gradient, p);
        priced[i] = true;
    }
    for (int i = 0; i < n; i++)
        price_on(o, op, more[i], comm, gradient, p);
}

const struct oracle_price *oracle_slowest(const struct oracle *o, int op,
                                          const struct oracle_ranks *r,
                                          bool gradient)
{
    static const struct oracle_price nothing = {.level = -1};
    bool comm = oracle_is_comm(o->p->ops[op].kind);
    struct oracle_price *p;

    if (o->p->ops[op].kind == PDL_PLAN_OP_FREE)
        return &nothing;
    if (!oracle_recall(o, op, r->stage, gradient, &p)) {
        p->level = -1;
        price_ranks(o, op, r, comm, gradient, p);
    }
    return p;
}
