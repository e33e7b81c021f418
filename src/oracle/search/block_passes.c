/* SPDX-License-Identifier: Apache-2.0
 *
 * What forward and backward of a stage cost and hold, for one number of
 * samples on one mesh. Operations that only compute are priced once for every
 * number of samples, those that communicate for every mesh too; bytes are
 * walked on each rank that holds something of its own. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- prices ------------------------------------------------------------------ */

/* Ranks of a kind of lane, who does the same work as who. All stages of a
 * small plan are priced on them, so prices are remembered as of one. */
void oracle_lane_ranks(const struct lanes *x, const struct block_plan *s,
                       int kind, struct oracle_ranks *r)
{
    *r = *s->o.alike;
    r->stage = 0;
    oracle_block_plan_ranks(s, x->first[kind], r->rank);
}

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

/* Prices of what no mesh changes. */
static const struct known *find_known(struct oracle_block_plans *g,
                                      struct block_form *m, int64_t micro,
                                      const struct oracle_ranks *r)
{
    struct known *k = m->known;

    while (k && k->micro != micro)
        k = k->next;
    if (k)
        return k;
    k = PDL_NEW(g->arena, struct known, 1);
    if (!k || !price_those(g->arena, m, only_computes, r, k->price))
        return NULL;
    k->micro = micro;
    k->next = m->known;
    m->known = k;
    return k;
}

/* Prices of what no number of samples changes, for one kind of lane. */
static const struct carried *find_carried(struct oracle_mesh *p,
                                          struct block_form *m, int lane,
                                          const struct oracle_ranks *r)
{
    struct carried *k;

    if (m->carried_on != p->id)
        m->carried = NULL;
    m->carried_on = p->id;
    k = m->carried;
    while (k && k->lane != lane)
        k = k->next;
    if (k)
        return k;
    k = PDL_NEW(p->arena, struct carried, 1);
    if (!k || !price_those(p->arena, m, only_carries, r, k->price))
        return NULL;
    k->lane = lane;
    k->next = m->carried;
    m->carried = k;
    return k;
}

/* All kinds of forward and backward, for one kind of lane. */
static bool price_passes(struct oracle_mesh *p, struct block_form *m,
                         int64_t micro, int lane, struct stream_price *out[2])
{
    const struct carried *w = NULL;
    const struct known *k;
    struct oracle_ranks r;

    oracle_lane_ranks(&p->lanes[m->key.zero ? LANE_TRAFFIC : LANE_WORK], m->s,
                      lane, &r);
    k = find_known(p->forms, m, micro, &r);
    oracle_memo_forget(&m->s->o, false); /* prices of other ranks */
    if (k && m->key.zero && !(w = find_carried(p, m, lane, &r)))
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

/* ---- bytes -------------------------------------------------------------------- */

/* Bytes of every tensor on a rank, whatever its stage. */
int64_t *oracle_all_sizes(pdl_arena *a, const struct block_plan *s,
                          int64_t rank)
{
    int64_t *all = PDL_NEW(a, int64_t, s->plan.ntensors + 1);

    for (int i = 0; all && i < s->plan.ntensors; i++) {
        const struct pdl_plan_tensor *t = &s->plan.tensors[i];
        bool again = t->kind == PDL_PLAN_ACTIVATION && t->model_tensor >= 0 &&
                     s->inside[t->model_tensor];

        all[i] = again ? 0 : oracle_bytes(&s->o, i, rank);
    }
    return all;
}

/* Those of one stage. */
void oracle_sizes_of(const struct block_plan *s, int stage, const int64_t *all)
{
    for (int i = 0; i < s->plan.ntensors; i++)
        s->size[i] = s->plan.tensors[i].stage == stage ? all[i] : 0;
}

static bool live_stage(struct block_plan *s, int stage, int parts, int64_t rank,
                       struct stage_live *l)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    struct oracle_lived base = {.input = 0}; /* the rest changes no span */
    struct oracle_tally *t;

    for (int i = 0; i < s->plan.ntensors; i++) {
        base.input +=
            s->plan.tensors[i].kind == PDL_PLAN_INPUT ? s->size[i] : 0;
        base.label +=
            s->plan.tensors[i].kind == PDL_PLAN_LABEL ? s->size[i] : 0;
    }
    t = oracle_tally_make(&s->o, rank, s->size, &base);
    for (int j = 0; t && j < parts; j++)
        l->forward[j] =
            oracle_walk(&s->o, stage, x->first_forward + j, 1, false, t);
    for (int j = 0; t && j < parts; j++)
        l->backward[j] =
            oracle_walk(&s->o, stage, x->first_backward + j, 1, true, t);
    for (int j = 0; t && x->nbackward > parts && j < parts; j++)
        l->late[j] = oracle_walk(&s->o, stage, x->first_backward + parts + j, 1,
                                 true, t);
    l->input = base.input;
    l->label = base.label;
    l->written = oracle_written(&s->o, stage, s->size);
    l->ahead = oracle_fetched(&s->o, stage, s->size);
    return t != NULL;
}

/* Every rank that holds something of its own, at every stage. */
static bool live_ranks(struct oracle_block_plans *g, struct block_form *m,
                       const struct oracle_ranks *r,
                       const struct rank_slots *ranks, struct lived *l)
{
    int parts = m->shape[0].parts;
    bool ok = true;

    for (int k = 0; ok && k < m->s->plan.nstages; k++) {
        l->at[k] = PDL_NEW(g->arena, struct stage_live, ranks->slots);
        ok = l->at[k] != NULL;
    }
    for (int i = 0; ok && i < r->n; i++) {
        int64_t *all;

        if (r->like[i] != i)
            continue;
        all = oracle_all_sizes(g->scratch, m->s, r->rank[i]);
        ok = all != NULL;
        for (int k = 0; ok && k < m->s->plan.nstages; k++) {
            oracle_sizes_of(m->s, k, all);
            ok = live_stage(m->s, k, parts, r->rank[i],
                            &l->at[k][ranks->slot[i]]);
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
    int64_t mesh = zero ? p->id : 0;
    struct lived *l = m->lived;
    bool ok;

    while (l && (l->micro != micro || l->nranks != r->n || l->mesh != mesh))
        l = l->next;
    if (l)
        return l;
    l = PDL_NEW(g->arena, struct lived, 1);
    m->s->o.arena = g->scratch;
    ok = l && live_ranks(g, m, r, &p->ranks[zero], l);
    m->s->o.arena = g->arena;
    pdl_arena_reset(g->scratch);
    if (!ok)
        return NULL;
    l->micro = micro;
    l->mesh = mesh;
    l->nranks = r->n;
    l->next = m->lived;
    m->lived = l;
    return l;
}

/* ---- forward and backward ------------------------------------------------------------ */

static bool price_parts(pdl_arena *a, struct stage_work *w)
{
    const struct stage_passes *s = w->shape;
    bool ok = true;

    w->run = *s;
    for (int p = s->copies || s->traffic ? PASS_FORWARD : PASS_BACKWARD;
         p < PASSES; p++)
        for (int i = 0; ok && i < s->parts; i++)
            ok = oracle_price_list(a, &s->list[p][i], false, w->price[p > 0],
                                   &w->run.list[p][i]);
    return ok;
}

static void add_parts(struct stage_work *w)
{
    const struct stage_passes *s = w->shape;

    for (int i = 0; i < s->parts; i++) {
        struct stage_time *b = &w->backward[i];
        double before;

        oracle_add_list(&s->list[PASS_FORWARD][i], false, w->price[0],
                        &w->forward[i], &w->contention);
        oracle_add_list(&s->list[PASS_BACKWARD][i], true, w->price[1], b,
                        &w->contention);
        before = b->backward + b->backward_comm;
        oracle_add_list(&s->list[PASS_LATE][i], true, w->price[1], b,
                        &w->contention);
        b->weights = b->backward + b->backward_comm - before;
    }
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
        if (!x->price[back])
            return false;
        add_parts(x);
        if (!price_parts(p->arena, x))
            return false;
    }
    return true;
}

bool oracle_price_work(struct oracle_mesh *p, struct stage_works *w)
{
    struct block_form *m = w->form;
    struct stream_price *price[2];

    oracle_aim_block_form(p, m, w->micro);
    if (!price_passes(p, m, w->micro, w->lane, price))
        return false;
    for (int i = 0; i < m->s->plan.nstages; i++) {
        w->at[i].price[0] = price[0];
        w->at[i].price[1] = price[1];
        add_parts(&w->at[i]);
        if (!price_parts(p->arena, &w->at[i]))
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
    return m->key.zero || oracle_price_work(p, out)
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
