/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of plans. A search over configurations of a network of equal blocks
 * prices the same things again and again: a block under so much tensor
 * parallelism, with this micro-batch and this recomputation; the exchange of
 * a stage's gradients over these data ranks. Here they are priced once. No
 * piece has a formula of its own: each is read off a plan that is lowered and
 * priced like any other, of the same network with few blocks (block_plans.c),
 *   work    forward and backward of one, or of three stages;
 *   update  gradient exchange and update, which depend neither on
 *           micro-batches nor on recomputation.
 * Of a small plan each kind of operation is priced once (block_program.c): one
 * that only computes for every number of samples, one that communicates for
 * every mesh too. The small plan gets the mesh of the large one, so that
 * groups, wires and contention are those of the large one. A stage's ranks are
 * those of its lane; lanes whose groups cross the same wires share pieces, and
 * ranks that hold the same are looked at once. */
#include "oracle/search/blocks.h"

#include <string.h>

/* ---- what was made once ----------------------------------------------- */

static bool same_of(const struct made_of *a, const struct made_of *b)
{
    return a->what == b->what && a->second == b->second &&
           a->third == b->third && a->kind == b->kind;
}

struct made *oracle_made(struct memo *m, pdl_arena *a, struct made_of of)
{
    uint64_t h = (uint64_t)of.what * 8191 + (uint64_t)of.second * 1000003 +
                 (uint64_t)of.third * 127 + (uint64_t)of.kind;
    struct made **at = &m->slot[(h * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
    struct made *e = *at;

    while (e && !same_of(&e->of, &of))
        e = e->next;
    if (e || !(e = PDL_NEW(a, struct made, 1)))
        return e;
    e->of = of;
    e->next = *at;
    *at = e;
    return e;
}

/* ---- tables ----------------------------------------------------------- */

struct oracle_block_plans *
oracle_block_plans_make(pdl_arena *a, pdl_arena *scratch,
                        const struct oracle_family *f,
                        const struct oracle_point *x)
{
    struct oracle_block_plans *g = PDL_NEW(a, struct oracle_block_plans, 1);

    if (!g)
        return NULL;
    g->f = f;
    g->mesh = *x;
    g->arena = a;
    g->scratch = scratch;
    g->cuts =
        (struct oracle_cuts){.lock = PTHREAD_MUTEX_INITIALIZER, .arena = a};
    g->wires = PDL_NEW(a, struct oracle_wire, ORACLE_WIRES);
    g->quickest = PDL_NEW(a, struct oracle_quickest, ORACLE_QUICKEST);
    g->seen = oracle_seen_make(a);
    return g->wires && g->quickest && g->seen ? g : NULL;
}

void oracle_block_plans_lend(struct oracle_block_plans *g, pdl_arena *kept,
                             pdl_arena *large)
{
    g->lent = kept != NULL;
    g->arena = kept ? kept : g->arena;
    g->large = large;
}

/* A mesh that has pipelines or data ranks where others had none finds none of
 * their small plans. */
static void change_mesh(struct oracle_block_plans *g,
                        const struct oracle_point *x)
{
    if (g->lent && ((g->mesh.pipe > 1) != (x->pipe > 1) ||
                    (g->mesh.data > 1) != (x->data > 1))) {
        g->forms = NULL;
        g->whole = NULL;
        g->memo = (struct memo){.slot = {NULL}};
        memset(g->written, 0, sizeof g->written);
        pdl_arena_reset(g->arena);
        if (g->large)
            pdl_arena_reset(g->large);
    }
    g->mesh = *x;
}

struct oracle_mesh *oracle_mesh_make(pdl_arena *a, struct oracle_block_plans *g,
                                     const struct oracle_point *x)
{
    struct oracle_mesh *p = PDL_NEW(a, struct oracle_mesh, 1);

    if (!p)
        return NULL;
    change_mesh(g, x);
    p->forms = g;
    p->id = ++g->meshes;
    p->f = g->f;
    p->mesh = *x;
    p->arena = a;
    for (int k = 0; k < LANE_KINDS; k++) {
        p->lanes[k].of = PDL_NEW(a, int, x->pipe);
        if (!p->lanes[k].of)
            return NULL;
    }
    return p;
}

/* ---- lanes ------------------------------------------------------------ */

/* A lane of the large plan is a stage of one with as many. */
static int ranks_of(const struct block_plan *s, int64_t lane, int64_t *ranks)
{
    struct pdl_plan wide = s->plan;

    wide.lanes = wide.nstages = (int)lane + 1;
    return oracle_ranks(&wide, (int)lane, ranks);
}

/* Ranks of a kind of lane, who does the same work as who. All stages of a
 * small plan are priced on them, so prices are remembered as of one. */
void oracle_lane_ranks(const struct lanes *x, const struct block_plan *s,
                       int kind, struct oracle_ranks *r)
{
    *r = *s->o.alike;
    r->stage = 0;
    ranks_of(s, x->first[kind], r->rank);
}

enum { MAX_GROUPS = 16 };

/* Do the groups of two lanes cross the same wires: those before the update,
 * those in it, or all of them before it, where weights travel there? */
static bool same_wires(const struct block_plan *s, int64_t a, int64_t b,
                       enum lane_kind kind)
{
    bool update = kind == LANE_UPDATE;

    int64_t ranks[2][ORACLE_MAX_RANKS];
    int n = ranks_of(s, a, ranks[0]);
    int first = s->plan.items[s->stages[0].first_update].first_op;
    uint32_t seen[MAX_GROUPS] = {0};
    int nseen = 0;

    ranks_of(s, b, ranks[1]);
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
static enum pdl_status mesh_alike(struct oracle_mesh *p, int zero,
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
    enum pdl_status st = mesh_alike(p, p->mesh.group > 0, &m, err);

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

/* ---- pieces ----------------------------------------------------------- */

static enum pdl_status make(struct oracle_mesh *p, struct key k, int lane,
                            struct made *e, struct pdl_err *err)
{
    double start = pdl_clock_s();
    void *piece = pdl_arena_alloc(
        p->arena, k.update ? (size_t)p->lanes[LANE_UPDATE].n : 1,
        k.update ? sizeof(struct stage_exchanges) : sizeof(struct stage_works));
    enum pdl_status st;

    if (!piece)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = k.update ? oracle_make_update(p, &k, k.blocks, piece, err)
                  : oracle_make_work(p, &k, k.micro, lane, piece, err);
    p->forms->effort.priced++;
    p->forms->effort.seconds += pdl_clock_s() - start;
    if (st == PDL_OK)
        e->it = piece;
    else if (st != PDL_ENOMEM)
        e->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    return st;
}

/* k: with the micro-batch, or the blocks of an update. */
static enum pdl_status get(struct oracle_mesh *p, struct key k, int lane,
                           const void **out, struct pdl_err *err)
{
    struct made *e =
        oracle_made(&p->memo, p->arena,
                    (struct made_of){k.update ? MADE_UPDATE : MADE_WORK,
                                     oracle_key_code(&k), k.micro, lane});
    enum pdl_status st = PDL_OK;

    if (!e)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (e->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", e->refused);
    if (!e->it)
        st = make(p, k, lane, e, err);
    *out = e->it;
    return st;
}

enum pdl_status oracle_mesh_work(struct oracle_mesh *p,
                                 const struct oracle_point *x,
                                 int64_t micro_batches, int64_t blocks,
                                 int lane, const struct stage_works **out,
                                 struct pdl_err *err)
{
    int64_t alone = x->activations ? 2 : 1; /* blocks lowered as they are */
    int64_t most = x->activations ? WORK_BLOCKS + 1 : WORK_BLOCKS;
    const void *piece = NULL;
    enum pdl_status st = mesh_alike(p, oracle_work_zero(x), NULL, err);

    if (st != PDL_OK)
        return st;
    st = get(p,
             (struct key){.micro = x->micro,
                          .zero = oracle_work_zero(x),
                          .blocks = blocks <= alone ? blocks : most,
                          .recompute = x->recompute,
                          .activations = x->activations,
                          .split = x->bubble > 0,
                          .many = micro_batches > 1},
             lane, &piece, err);

    *out = piece;
    return st;
}

enum pdl_status oracle_mesh_price(struct oracle_mesh *p,
                                  const struct stage_works *w,
                                  struct pdl_err *err)
{
    double start;
    bool ok;

    if (w->priced)
        return PDL_OK;
    start = pdl_clock_s();
    /* it lies in a table of ours */
    ok = oracle_price_works(p, (struct stage_works *)w);
    p->forms->effort.seconds += pdl_clock_s() - start;
    return ok ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status oracle_mesh_update(struct oracle_mesh *p,
                                   const struct oracle_point *x, int64_t blocks,
                                   int lane, const struct stage_exchanges **out,
                                   struct pdl_err *err)
{
    const struct stage_exchanges *lanes;
    const void *piece = NULL;
    enum pdl_status st = mesh_alike(p, x->zero, NULL, err);
    if (st == PDL_OK)
        st = get(p,
                 (struct key){.blocks = blocks,
                              .zero = x->zero,
                              .optimizer = x->optimizer,
                              .split = x->bubble > 0,
                              .folded = x->bubble == ORACLE_BUBBLE_V,
                              .update = true},
                 0, &piece, err);
    lanes = piece;
    *out = st == PDL_OK ? &lanes[lane] : NULL;
    return st;
}
