/* SPDX-License-Identifier: Apache-2.0
 *
 * What forward and backward of a stage cost and hold, for one number of
 * samples on one mesh. Operations that only compute are priced once for every
 * number of samples, those that communicate for every mesh too; bytes are
 * walked on each rank that holds something of its own. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- prices ----------------------------------------------------------- */

static bool only_computes(const struct block_plan *s, int op)
{
    return s->plan.ops[op].kind == PDL_PLAN_OP_COMPUTE;
}

static bool only_carries(const struct block_plan *s, int op)
{
    return oracle_is_weight_traffic(&s->o, op);
}

/* Forward's and backward's operations of one sort; false: out of memory. */
static bool price_those(pdl_arena *a, struct block_form *m,
                        bool (*wanted)(const struct block_plan *, int),
                        const struct oracle_ranks *r,
                        struct stream_price *price[2])
{
    for (int b = 0; b < 2; b++) {
        const struct kinds *x = &m->kinds[b ? BACKWARD : FORWARD];

        price[b] = PDL_NEW(a, struct stream_price, x->n + 1);
        if (!price[b])
            return false;
        for (int i = 0; i < x->n; i++)
            if (wanted(m->s, x->op[i]))
                oracle_price_stream(&m->s->o, x->op[i], b ? BACKWARD : FORWARD,
                                    r, &price[b][i]);
    }
    return true;
}

/* The same, made or found. */
static const struct pass_prices *
find_prices(struct memo *memo, pdl_arena *a, struct made_of of,
            struct block_form *m,
            bool (*wanted)(const struct block_plan *, int),
            const struct oracle_ranks *r)
{
    struct made *known = oracle_made(memo, a, of);
    struct pass_prices *x;

    if (!known || known->it)
        return known ? known->it : NULL;
    x = PDL_NEW(a, struct pass_prices, 1);
    if (x && price_those(a, m, wanted, r, x->price))
        known->it = x;
    return known->it;
}

/* All kinds of forward and backward, for one kind of lane. */
static bool price_passes(struct oracle_mesh *p, struct block_form *m,
                         int64_t micro, int lane, struct stream_price *out[2])
{
    struct oracle_block_plans *g = p->forms;
    const struct pass_prices *k, *w = NULL;
    struct oracle_ranks r;

    oracle_lane_ranks(&p->lanes[m->key.zero ? LANE_TRAFFIC : LANE_WORK], m->s,
                      lane, &r);
    k = find_prices(&g->memo, g->arena,
                    (struct made_of){MADE_COMPUTED, m->id, micro, 0}, m,
                    only_computes, &r);
    oracle_memo_forget(&m->s->o, false); /* prices of other ranks */
    if (k && m->key.zero &&
        !(w = find_prices(&p->memo, p->arena,
                          (struct made_of){MADE_CARRIED, m->id, lane, 0}, m,
                          only_carries, &r)))
        return false;
    for (int b = 0; k && b < 2; b++) {
        const struct kinds *x = &m->kinds[b ? BACKWARD : FORWARD];

        out[b] = PDL_NEW(p->arena, struct stream_price, x->n + 1);
        if (!out[b])
            return false;
        memcpy(out[b], k->price[b], (size_t)x->n * sizeof *out[b]);
        for (int i = 0; i < x->n; i++)
            if (w && only_carries(m->s, x->op[i]))
                out[b][i] = w->price[b][i];
            else if (!only_computes(m->s, x->op[i]))
                oracle_price_stream(&m->s->o, x->op[i], b ? BACKWARD : FORWARD,
                                    &r, &out[b][i]);
    }
    return k != NULL;
}

/* ---- bytes ------------------------------------------------------------ */

/* Every rank that holds something of its own, at every stage. */
static bool live_ranks(struct oracle_block_plans *g, struct block_form *m,
                       const struct oracle_ranks *r,
                       const struct rank_slots *ranks, struct lived *l)
{
    int64_t *all = PDL_NEW(g->scratch, int64_t, m->s->plan.ntensors + 1);
    bool ok = all != NULL;

    for (int k = 0; ok && k < m->s->plan.nstages; k++) {
        l->at[k] = PDL_NEW(g->arena, struct stage_live, ranks->slots);
        ok = l->at[k] != NULL;
    }
    for (int i = 0; ok && i < r->n; i++) {
        if (r->like[i] != i)
            continue;
        oracle_all_sizes(&m->s->o, r->rank[i], m->s->inside, all);
        for (int k = 0; k < m->s->plan.nstages; k++) {
            oracle_sizes_of(&m->s->o, k, all, m->s->size);
            oracle_live_passes(&m->s->o, k, &m->shape[k], r->rank[i],
                               m->s->size, &l->at[k][ranks->slot[i]]);
        }
    }
    return ok;
}

/* Where ranks keep whole weights no mesh changes them, only how many ranks are
 * looked at. */
static const struct lived *find_lived(struct oracle_mesh *p,
                                      struct block_form *m, int64_t micro)
{
    struct oracle_block_plans *g = p->forms;
    int zero = m->key.zero;
    const struct oracle_ranks *r = &p->alike[zero];
    struct made *known = oracle_made(
        &g->memo, g->arena,
        (struct made_of){MADE_LIVED, m->id, micro,
                         (zero ? p->id : 0) * ORACLE_MAX_RANKS + r->n - 1});
    struct lived *l;

    if (!known || known->it)
        return known ? known->it : NULL;
    l = PDL_NEW(g->arena, struct lived, 1);
    if (l && live_ranks(g, m, r, &p->ranks[zero], l))
        known->it = l;
    pdl_arena_reset(g->scratch);
    return known->it;
}

/* ---- forward and backward --------------------------------------------- */

static bool price_stage(struct oracle_mesh *p, struct stage_work *w)
{
    return oracle_price_work(p->arena, false,
                             w->shape->copies || w->shape->traffic, w);
}

/* The prices of a pass whose messages stay on their lane. */
static struct stream_price *price_turn(struct oracle_mesh *p,
                                       struct block_form *m, int lane,
                                       bool back,
                                       const struct stream_price *known)
{
    const struct kinds *x = &m->kinds[back ? BACKWARD : FORWARD];
    struct stream_price *to = PDL_NEW(p->arena, struct stream_price, x->n + 1);
    struct oracle_ranks r;

    if (!to)
        return NULL;
    memcpy(to, known, (size_t)x->n * sizeof *to);
    oracle_lane_ranks(&p->lanes[m->key.zero ? LANE_TRAFFIC : LANE_WORK], m->s,
                      lane, &r);
    oracle_memo_forget(&m->s->o, false);
    m->s->o.on_lane = true;
    for (int i = 0; i < x->n; i++)
        if (m->s->plan.ops[x->op[i]].kind == PDL_PLAN_OP_SEND)
            oracle_price_stream(&m->s->o, x->op[i], back ? BACKWARD : FORWARD,
                                &r, &to[i]);
    m->s->o.on_lane = false;
    oracle_memo_forget(&m->s->o, false);
    return to;
}

/* zb-v: where stages turn, they are those of the middle but for a message. */
static bool add_turns(struct oracle_mesh *p, struct block_form *m,
                      struct stage_works *w, struct stream_price *const *price)
{
    for (int back = 0; back <= 1; back++) {
        struct stage_work *x = &w->at[back ? PLACE_UP : PLACE_DOWN];

        x->price[back] = price_turn(p, m, w->lane, back, price[back]);
        x->price[!back] = price[!back];
        if (!x->price[back] || !price_stage(p, x))
            return false;
    }
    return true;
}

bool oracle_price_works(struct oracle_mesh *p, struct stage_works *w)
{
    struct block_form *m = w->form;
    struct stream_price *price[2];

    oracle_aim_block_form(p, m, w->micro);
    if (!price_passes(p, m, w->micro, w->lane, price))
        return false;
    for (int i = 0; i < m->s->plan.nstages; i++) {
        w->at[i].price[0] = price[0];
        w->at[i].price[1] = price[1];
        if (!price_stage(p, &w->at[i]))
            return false;
    }
    w->priced =
        m->s->plan.nstages == 1 || !m->key.split || add_turns(p, m, w, price);
    return w->priced;
}

enum pdl_status oracle_make_work(struct oracle_mesh *p, struct key *k,
                                 int64_t micro, int lane,
                                 struct stage_works *out, struct pdl_err *err)
{
    const struct lived *l;
    struct block_form *m;
    enum pdl_status st = oracle_find_block_form(p, k, micro, &m, err);

    if (st != PDL_OK)
        return st;
    l = find_lived(p, m, micro);
    if (!l)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    out->ranks = &p->ranks[m->key.zero];
    out->form = m;
    out->micro = micro;
    out->lane = lane;
    for (int i = 0; i < m->s->plan.nstages; i++) {
        out->at[i].shape = &m->shape[i];
        out->at[i].live = l->at[i];
    }
    out->at[PLACE_DOWN] = out->at[PLACE_UP] = out->at[PLACE_MIDDLE];
    out->load = oracle_loading(&m->s->o);
    out->load.load_s /= (double)m->s->plan.micro_batches;
    return m->key.zero || oracle_price_works(p, out)
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
