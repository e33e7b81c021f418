/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of a pipeline whose groups cross the same wires share pieces, and
 * ranks that hold the same are looked at once. */
#include "oracle/search/blocks.h"

enum { MAX_GROUPS = 16 };

/* Do the groups of two lanes cross the same wires: those before the update,
 * those in it, or all of them before it, where weights travel there? */
static bool same_wires(const struct block_plan *s, int64_t a, int64_t b,
                       enum lane_kind kind)
{
    bool update = kind == LANE_UPDATE;

    int64_t ranks[2][ORACLE_MAX_RANKS];
    int n = oracle_block_plan_ranks(s, a, ranks[0]);
    int first = s->plan.items[s->stages[0].first_update].first_op;
    uint32_t seen[MAX_GROUPS] = {0};
    int nseen = 0;

    oracle_block_plan_ranks(s, b, ranks[1]);
    for (int i = update ? first : 0;
         i < (kind == LANE_WORK ? first : s->plan.nops); i++) {
        bool again = s->plan.ops[i].group == 0;

        for (int k = 0; k < nseen; k++)
            again = again || seen[k] == s->plan.ops[i].group;
        if (again || nseen == MAX_GROUPS)
            continue;
        seen[nseen++] = s->plan.ops[i].group;
        for (int k = 0; k < n; k++)
            if (!oracle_same_wire(&s->o, i, ranks[0][k], ranks[1][k], update))
                return false;
    }
    return true;
}

/* Those that hold the same share a slot. */
static void give_slots(const struct oracle_ranks *r, struct rank_slots *out)
{
    *out = (struct rank_slots){.n = r->n};
    for (int i = 0; i < r->n; i++)
        out->slot[i] =
            r->like[i] == i ? (uint8_t)out->slots++ : out->slot[r->like[i]];
}

/* Who is like whom, by the form of one block, which all others repeat. */
enum pdl_status oracle_mesh_alike(struct oracle_mesh *p, int zero,
                                  struct block_form **m, struct pdl_err *err)
{
    struct key k = {.blocks = 1, .update = true, .zero = zero};
    struct block_form *unasked = NULL;
    enum pdl_status st;

    if (p->known[zero] && !m)
        return PDL_OK;
    st = oracle_find_block_form(p, &k, 1, m ? m : &unasked, err);
    if (st != PDL_OK)
        return st;
    if (!m)
        m = &unasked;
    if (!oracle_find_alike(&(*m)->s->o))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->alike[zero] = *(*m)->s->o.alike;
    (*m)->s->o.alike = &p->alike[zero];
    give_slots(&p->alike[zero], &p->ranks[zero]);
    p->known[zero] = true;
    return PDL_OK;
}

static enum pdl_status find_lanes(struct oracle_mesh *p, struct pdl_err *err)
{
    struct block_form *m;
    /* where states are shared by groups of ranks, those cross wires too */
    enum pdl_status st = oracle_mesh_alike(p, p->mesh.group > 0, &m, err);

    for (int u = 0; st == PDL_OK && u < LANE_KINDS; u++)
        for (int64_t l = 0; l < p->mesh.pipe; l++) {
            struct lanes *x = &p->lanes[u];
            int kind = 0;

            while (kind < x->n &&
                   !same_wires(m->s, l, x->first[kind], (enum lane_kind)u))
                kind++;
            if (kind == MAX_LANES)
                return pdl_fail(err, PDL_EINVAL, "too many kinds of lanes");
            if (kind == x->n)
                x->first[x->n++] = l;
            x->of[l] = kind;
        }
    return st;
}

int oracle_mesh_lane(const struct oracle_mesh *p, int64_t lane,
                     enum lane_kind kind)
{
    return p->lanes[kind].of[lane];
}

enum pdl_status oracle_mesh_lanes(struct oracle_mesh *p, struct pdl_err *err)
{
    double start = pdl_clock_s();
    enum pdl_status st;

    if (p->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", p->refused);
    if (p->lanes[LANE_KINDS - 1].n > 0)
        return PDL_OK;
    st = find_lanes(p, err);
    p->forms->effort.seconds += pdl_clock_s() - start;
    if (st != PDL_OK && st != PDL_ENOMEM)
        p->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    return st;
}
