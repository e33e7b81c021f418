/* SPDX-License-Identifier: Apache-2.0
 *
 * What gradient exchange and update of a stage cost and hold, on every kind of
 * lane of a mesh. Which operations they are: block_program.c. */
#include "oracle/search/blocks.h"

#include <string.h>

/* What a form costs on this mesh. */
struct priced {
    bool folded;                           /* its messages stay on their lane */
    struct stream_price *price[MAX_LANES]; /* by kind of lane */
    int64_t **size;                        /* by slot: of tensors */
};

/* ---- gradient exchange and update ------------------------------------- */

/* Sizes of all tensors on every rank that has something of its own. */
static bool keep_sizes(struct oracle_mesh *p, struct block_form *m,
                       struct priced *x)
{
    const struct oracle_ranks *like = &p->alike[m->key.zero];
    const struct rank_slots *ranks = &p->ranks[m->key.zero];

    x->size = PDL_NEW(p->arena, int64_t *, ranks->slots);
    for (int i = 0; x->size && i < like->n; i++) {
        int k = ranks->slot[i];

        if (like->like[i] != i)
            continue;
        x->size[k] = PDL_NEW(p->arena, int64_t, m->s->plan.ntensors + 1);
        if (!x->size[k])
            return false;
        oracle_all_sizes(&m->s->o, like->rank[i], m->s->inside, x->size[k]);
    }
    return x->size != NULL;
}

/* The kinds of a form on every kind of lane, and what a rank keeps. */
static bool price_form(struct oracle_mesh *p, struct block_form *m,
                       struct priced *x)
{
    const struct kinds *k = &m->kinds[UPDATE];
    struct oracle_ranks r;

    for (int lane = 0; lane < p->lanes[LANE_UPDATE].n; lane++) {
        struct stream_price *to =
            PDL_NEW(p->arena, struct stream_price, k->n + 1);

        if (!to)
            return false;
        oracle_lane_ranks(&p->lanes[LANE_UPDATE], m->s, lane, &r);
        oracle_memo_forget(&m->s->o, false); /* prices of the ranks before */
        m->s->o.on_lane = x->folded;
        for (int i = 0; i < k->n; i++)
            oracle_price_stream(&m->s->o, k->op[i], UPDATE, &r, &to[i]);
        m->s->o.on_lane = false;
        x->price[lane] = to;
    }
    return keep_sizes(p, m, x);
}

static struct priced *find_priced(struct oracle_mesh *p, struct block_form *m,
                                  bool folded)
{
    struct made *known = oracle_made(
        &p->memo, p->arena, (struct made_of){MADE_PRICED, m->id, folded, 0});
    struct priced *x;

    if (!known || known->it)
        return known ? known->it : NULL;
    x = PDL_NEW(p->arena, struct priced, 1);
    if (!x)
        return NULL;
    x->folded = folded;
    if (price_form(p, m, x))
        known->it = x;
    return known->it;
}

/* The form's oracle, of its plan with as many blocks. */
static struct oracle oracle_of(const struct block_form *m,
                               const struct steps *s)
{
    struct oracle o = m->s->o;

    o.p = &s->plan;
    return o;
}

/* Operations that gather from so many blocks are priced besides. */
static const struct stream_price *price_longer(struct oracle_mesh *p,
                                               struct block_form *m,
                                               const struct steps *s, int lane,
                                               const struct priced *x)
{
    struct oracle o = oracle_of(m, s);
    int n = m->kinds[UPDATE].n;
    struct stream_price *to;
    struct oracle_ranks r;

    if (s->nlonger == 0)
        return x->price[lane];
    to = PDL_NEW(p->arena, struct stream_price, n + s->nlonger);
    if (!to)
        return NULL;
    memcpy(to, x->price[lane], (size_t)n * sizeof *to);
    oracle_lane_ranks(&p->lanes[LANE_UPDATE], m->s, lane, &r);
    oracle_memo_forget(&m->s->o, false);
    o.on_lane = x->folded;
    for (int i = 0; i < s->nlonger; i++)
        oracle_price_stream(&o, s->longer[i], UPDATE, &r, &to[n + i]);
    oracle_memo_forget(&m->s->o, false);
    return to;
}

static bool live_update(struct oracle_mesh *p, struct block_form *m,
                        const struct steps *s, const struct priced *x,
                        int stage, struct stage_exchange *u)
{
    const struct oracle_ranks *r = &p->alike[m->key.zero];
    const struct rank_slots *ranks = &p->ranks[m->key.zero];
    struct oracle_lived *lived =
        PDL_NEW(p->arena, struct oracle_lived, ranks->slots);
    struct oracle o = oracle_of(m, s);

    u->lived = lived;
    for (int i = 0; lived && i < r->n; i++) {
        int slot = ranks->slot[i];

        if (r->like[i] != i)
            continue;
        oracle_sizes_of(&m->s->o, stage, x->size[slot], m->s->size);
        oracle_live_update(&o, stage, r->rank[i], m->s->size, &lived[slot]);
    }
    return lived != NULL;
}

/* Exchanges start in order: may the first, with gradients alone? */
static bool starts_early(const struct stage_update *u)
{
    for (int i = 0; i < u->n; i++)
        if (u->steps[i].on == ON_NETWORK)
            return u->steps[i].after[ON_COMPUTE] < 0 &&
                   u->steps[i].after[ON_OUT] < 0 &&
                   u->steps[i].after[ON_IN] < 0;
    return false;
}

/* The steps of a form, or of one that will go: ours. */
static const struct stream_step *steps_of(struct oracle_mesh *p,
                                          const struct block_form *m,
                                          const struct steps *s, int stage)
{
    size_t n = (size_t)s->n[stage];

    return m->large ? pdl_arena_grow(p->arena, s->list[stage], n, n + 1,
                                     sizeof s->list[stage][0])
                    : s->list[stage];
}

static bool fill_update(struct oracle_mesh *p, const struct steps *s, int stage,
                        const struct stream_price *price,
                        struct stage_exchange *u)
{
    double *end = PDL_NEW(p->forms->scratch, double, s->n[stage] + 1);

    u->run.n = s->n[stage];
    u->run.price = price;
    oracle_add_steps(&u->run);
    u->early = starts_early(&u->run);
    if (end)
        u->apart = oracle_run_apart(&u->run, end, &u->apart_copy);
    return end != NULL;
}

/* The steps of so many blocks by a form of few; *s NULL: they do not follow. */
static enum pdl_status try_form(struct oracle_mesh *p, struct key *k,
                                int64_t blocks, struct block_form **m,
                                const struct steps **s, struct pdl_err *err)
{
    enum pdl_status st = oracle_find_block_form(p, k, 1, m, err);
    int64_t more;

    *s = st == PDL_OK && oracle_form_stretch(*m, blocks, &more)
             ? oracle_form_steps(p->forms, *m, blocks)
             : NULL;
    return st;
}

/* A form that so many blocks follow from (most often the fewest that can be
 * rolled are one), or one of as many. */
static enum pdl_status form_of(struct oracle_mesh *p, struct key *k,
                               int64_t blocks, struct block_form **m,
                               const struct steps **s, struct pdl_err *err)
{
    const struct block_form *rolled = oracle_find_rolled_form(p, k, blocks);
    enum pdl_status st = PDL_OK;

    *s = NULL;
    k->blocks = rolled ? rolled->key.blocks : UPDATE_BLOCKS + 1;
    if (rolled || blocks > k->blocks)
        st = try_form(p, k, blocks, m, s, err);
    if (st != PDL_OK || *s)
        return st;
    k->blocks = blocks;
    st = try_form(p, k, blocks, m, s, err);
    return st == PDL_OK && !*s ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                               : st;
}

/* Of every kind of lane. */
enum pdl_status oracle_make_update(struct oracle_mesh *p, struct key *k,
                                   int64_t blocks, struct stage_exchanges *out,
                                   struct pdl_err *err)
{
    const struct steps *s;
    struct priced *x;
    struct block_form *m;
    enum pdl_status st = form_of(p, k, blocks, &m, &s, err);

    if (st != PDL_OK)
        return st;
    x = find_priced(p, m, k->folded);
    for (int lane = 0; x && lane < p->lanes[LANE_UPDATE].n; lane++) {
        const struct stream_price *price = price_longer(p, m, s, lane, x);

        out[lane].ranks = &p->ranks[k->zero];
        for (int i = 0; price && i < m->s->plan.nstages; i++) {
            struct stage_exchange *u = &out[lane].at[i];

            u->run.optimizer = k->optimizer;
            u->lived = out[0].at[i].lived;
            u->run.steps =
                lane == 0 ? steps_of(p, m, s, i) : out[0].at[i].run.steps;
            if (!u->run.steps ||
                (lane == 0 && !live_update(p, m, s, x, i, u)) ||
                !fill_update(p, s, i, price, u))
                price = NULL;
        }
        x = price ? x : NULL;
    }
    pdl_arena_reset(p->forms->scratch);
    return x ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
