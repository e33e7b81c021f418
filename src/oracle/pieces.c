/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of plans. A search over configurations of a network of equal blocks
 * prices the same things again and again: a block under so much tensor
 * parallelism, with this micro-batch and this recomputation; the exchange of
 * a stage's gradients over these data ranks. Here they are priced once. No
 * piece has a formula of its own: each is read off a plan that is lowered and
 * priced like any other, of the same network with few blocks (small.c),
 *   work    forward and backward of one, or of three stages;
 *   update  gradient exchange and update, which depend neither on
 *           micro-batches nor on recomputation.
 * Of a small plan each kind of operation is priced once (forms.c): one that
 * only computes for every number of samples, one that communicates for every
 * mesh too. The small plan gets the mesh of the large one, so that groups,
 * wires and contention are those of the large one. A stage's ranks are those
 * of its lane; lanes whose groups cross the same wires share pieces. */
#include "pieces_priv.h"

#include <string.h>

struct entry {
    struct entry *next;
    struct key key;
    int lane;
    void *piece;
    const char *refused; /* why there is none */
};

/* What a form costs on this mesh. */
struct priced {
    struct priced *next;
    const struct form *form;
    int64_t micro;
    struct piece_price *price[3][MAX_LANES]; /* by phase and kind of lane */
    int64_t *size[PIECE_RANKS];              /* of tensors */
    struct oracle_lived base[PIECE_WHERE][PIECE_RANKS];
    struct oracle_lived block[PIECE_WHERE][PIECE_RANKS];
};

/* ---- prices ------------------------------------------------------------------ */

/* One operation, in a plan of nothing else. */
static void price_op(struct small *s, int op, enum phase phase,
                     const struct oracle_ranks *r, struct piece_price *p)
{
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_stage *at = &s->stages[r->stage], whole = *at;
    struct pdl_plan_item one = {.first_op = op, .nops = 1};
    struct streams c = {.overlap = true, .ready = s->ready};
    struct pdl_projection out = {.reason = ""};
    struct stage_time t = {0};

    s->plan.items = &one;
    at->first_update = 0;
    oracle_add_items(&s->o, 0, 1, phase, r, &t, &c, &out);
    s->plan.items = items;
    *at = whole;
    for (int k = 0; k < s->plan.ops[op].nout; k++)
        s->ready[s->plan.ops[op].out[k]] = 0;
    for (int k = 0; k < s->plan.ops[op].nin; k++)
        s->ready[s->plan.ops[op].in[k]] = 0;
    *p = (struct piece_price){
        .compute = t.forward + t.backward + t.update,
        .comm = t.forward_comm + t.backward_comm + t.gradient_comm,
        .recompute = t.recompute,
        .layer_comm = t.layer_comm,
        .layer_between = t.layer_between,
        .halo = t.halo,
        .p2p = t.p2p,
        .contention = out.contention,
        .level = c.level,
        .calls = (int)t.calls,
        .is_comm = t.forward_comm + t.backward_comm > 0};
    p->seconds = oracle_is_copy(s->plan.ops[op].kind) ? c.out + c.in
                                                      : p->compute + p->comm;
}

/* Ranks of a kind of lane, who does the same work as who. All stages of a
 * small plan are priced on them, so prices are remembered as of one. */
static void ranks_of(const struct lanes *x, const struct small *s, int kind,
                     struct oracle_ranks *r)
{
    *r = *s->o.alike;
    r->stage = 0;
    oracle_small_ranks(s, x->first[kind], r->rank);
}

static bool only_computes(const struct small *s, int op)
{
    return s->plan.ops[op].kind == PDL_PLAN_OP_COMPUTE;
}

/* Prices of what no mesh changes. */
static const struct known *find_known(struct oracle_forms *g, struct form *m,
                                      int64_t micro,
                                      const struct oracle_ranks *r)
{
    struct known *k = m->known;

    while (k && k->micro != micro)
        k = k->next;
    if (k)
        return k;
    k = PDL_NEW(g->arena, struct known, 1);
    for (int b = 0; k && b < 2; b++) {
        const struct kinds *x = &m->kinds[b ? BACKWARD : FORWARD];

        k->price[b] = PDL_NEW(g->arena, struct piece_price, x->n + 1);
        for (int i = 0; k->price[b] && i < x->n; i++)
            if (only_computes(m->s, x->op[i]))
                price_op(m->s, x->op[i], b ? BACKWARD : FORWARD, r,
                         &k->price[b][i]);
    }
    if (!k || !k->price[0] || !k->price[1])
        return NULL;
    k->micro = micro;
    k->next = m->known;
    m->known = k;
    return k;
}

/* All kinds of forward and backward, for one kind of lane. */
static bool price_passes(struct oracle_pieces *p, struct form *m, int64_t micro,
                         int lane, struct piece_price *out[2])
{
    const struct known *k;
    struct oracle_ranks r;

    ranks_of(&p->lanes[0], m->s, lane, &r);
    k = find_known(p->forms, m, micro, &r);
    oracle_memo_forget(&m->s->o, false); /* prices of other ranks */
    for (int b = 0; k && b < 2; b++) {
        const struct kinds *x = &m->kinds[b ? BACKWARD : FORWARD];

        out[b] = PDL_NEW(p->arena, struct piece_price, x->n + 1);
        if (!out[b])
            return false;
        memcpy(out[b], k->price[b], (size_t)x->n * sizeof *out[b]);
        for (int i = 0; i < x->n; i++)
            if (!only_computes(m->s, x->op[i]))
                price_op(m->s, x->op[i], b ? BACKWARD : FORWARD, &r,
                         &out[b][i]);
    }
    return k != NULL;
}

/* ---- bytes -------------------------------------------------------------------- */

/* Bytes of every tensor on a rank, whatever its stage. */
static int64_t *all_sizes(pdl_arena *a, const struct small *s, int64_t rank)
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
static void sizes_of(const struct small *s, int stage, const int64_t *all)
{
    for (int i = 0; i < s->plan.ntensors; i++)
        s->size[i] = s->plan.tensors[i].stage == stage ? all[i] : 0;
}

static bool live_stage(struct small *s, int stage, int parts, int rank,
                       int64_t of, struct piece_lives *l)
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
    t = oracle_tally_make(&s->o, of, s->size, &base);
    for (int j = 0; t && j < parts; j++)
        l->forward[j][rank] =
            oracle_walk(&s->o, stage, x->first_forward + j, 1, false, t);
    for (int j = 0; t && j < parts; j++)
        l->backward[j][rank] =
            oracle_walk(&s->o, stage, x->first_backward + j, 1, true, t);
    for (int j = 0; t && x->nbackward > parts && j < parts; j++)
        l->late[j][rank] = oracle_walk(
            &s->o, stage, x->first_backward + parts + j, 1, true, t);
    l->input[rank] = base.input;
    l->label[rank] = base.label;
    l->written[rank] = oracle_written(&s->o, stage, s->size);
    l->ahead[rank] = oracle_fetched(&s->o, stage, s->size);
    return t != NULL;
}

static void copy_lives(struct piece_lives *l, int parts, int to, int from)
{
    for (int j = 0; j < parts; j++) {
        l->forward[j][to] = l->forward[j][from];
        l->backward[j][to] = l->backward[j][from];
        l->late[j][to] = l->late[j][from];
    }
    l->input[to] = l->input[from];
    l->label[to] = l->label[from];
    l->written[to] = l->written[from];
    l->ahead[to] = l->ahead[from];
}

/* No mesh changes them, only how many ranks are looked at. */
static const struct lived *find_lived(struct oracle_forms *g, struct form *m,
                                      int64_t micro,
                                      const struct oracle_ranks *r)
{
    struct lived *l = m->lived;
    int parts = m->shape[0].parts;
    bool ok;

    while (l && (l->micro != micro || l->nranks != r->n))
        l = l->next;
    if (l)
        return l;
    l = PDL_NEW(g->arena, struct lived, 1);
    ok = l != NULL;
    m->s->o.arena = g->scratch;
    for (int i = 0; ok && i < r->n; i++) {
        int64_t *all =
            r->like[i] == i ? all_sizes(g->scratch, m->s, r->rank[i]) : NULL;

        ok = r->like[i] != i || all;
        for (int k = 0; ok && k < m->s->plan.nstages; k++) {
            if (!all) {
                copy_lives(&l->at[k], parts, i, r->like[i]);
                continue;
            }
            sizes_of(m->s, k, all);
            ok = live_stage(m->s, k, parts, i, r->rank[i], &l->at[k]);
        }
    }
    m->s->o.arena = g->arena;
    pdl_arena_reset(g->scratch);
    if (!ok)
        return NULL;
    l->micro = micro;
    l->nranks = r->n;
    l->next = m->lived;
    m->lived = l;
    return l;
}

/* ---- forward and backward ------------------------------------------------------------ */

static void add_price(const struct piece_price *p, bool back,
                      struct stage_time *t)
{
    *(back ? &t->backward : &t->forward) += p->compute;
    *(back ? &t->backward_comm : &t->forward_comm) += p->comm;
    t->recompute += p->recompute;
    t->layer_comm += p->layer_comm;
    t->layer_between += p->layer_between;
    t->halo += p->halo;
    t->p2p += p->p2p;
    t->calls += p->calls;
}

static void add_list(struct piece_work *w, const struct piece_list *list,
                     bool back, struct stage_time *t)
{
    for (int k = 0; k < list->n; k++) {
        const struct piece_price *p = &w->price[back][list->op[k].kind];

        add_price(p, back, t);
        if (p->contention > w->contention)
            w->contention = p->contention;
    }
}

/* What matters on the streams. */
static bool shorten(pdl_arena *a, const struct piece_list *list,
                    const struct piece_price *price, struct piece_list *out)
{
    struct piece_op *ops = PDL_NEW(a, struct piece_op, list->n + 1);

    out->n = 0;
    out->op = ops;
    for (int i = 0; ops && i < list->n; i++) {
        const struct piece_op *x = &list->op[i];

        if (price[x->kind].seconds > 0 || x->nmade > 0 || x->in > 0 || x->out ||
            x->copy != PIECE_NO_COPY) {
            struct piece_op *to = &ops[out->n++];

            *to = *x;
            to->seconds = price[x->kind].seconds;
            to->level = price[x->kind].level;
            to->comm = price[x->kind].is_comm;
        }
    }
    return ops != NULL;
}

static bool shorten_parts(pdl_arena *a, struct piece_work *w)
{
    bool ok = true;

    for (int i = 0; ok && i < w->shape->parts; i++)
        ok = shorten(a, &w->shape->backward[i], w->price[1], &w->back[i]) &&
             (!w->shape->copies ||
              shorten(a, &w->shape->forward[i], w->price[0], &w->fore[i])) &&
             (!w->shape->split ||
              shorten(a, &w->shape->late[i], w->price[1], &w->late[i]));
    return ok;
}

static void add_parts(struct piece_work *w)
{
    const struct piece_shape *s = w->shape;

    for (int i = 0; i < s->parts; i++) {
        struct stage_time *b = &w->backward[i];
        double before;

        add_list(w, &s->forward[i], false, &w->forward[i]);
        add_list(w, &s->backward[i], true, b);
        before = b->backward + b->backward_comm;
        add_list(w, &s->late[i], true, b);
        b->weights = b->backward + b->backward_comm - before;
    }
}

static enum pdl_status make_work(struct oracle_pieces *p, struct key *k,
                                 int64_t micro, int lane,
                                 struct piece_works *out, struct pdl_err *err)
{
    struct piece_price *price[2];
    const struct lived *l;
    struct form *m;
    enum pdl_status st = oracle_find_form(p, k, micro, &m, err);

    if (st != PDL_OK)
        return st;
    if (p->alike[0].n > PIECE_RANKS)
        return pdl_fail(err, PDL_EINVAL, "too many kinds of ranks");
    l = find_lived(p->forms, m, micro, &p->alike[0]);
    if (!l || !price_passes(p, m, micro, lane, price))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    out->nranks = p->alike[0].n;
    for (int i = 0; i < out->nranks; i++)
        out->alike[i] = p->alike[0].like[i] != i;
    for (int i = 0; i < m->s->plan.nstages; i++) {
        struct piece_work *w = &out->at[i];

        w->shape = &m->shape[i];
        w->live = &l->at[i];
        w->price[0] = price[0];
        w->price[1] = price[1];
        add_parts(w);
        if (!shorten_parts(p->arena, w))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    out->load = oracle_loading(&m->s->o);
    out->load.load_s /= (double)m->s->plan.micro_batches;
    return PDL_OK;
}

/* ---- gradient exchange and update ------------------------------------------------------ */

/* The kinds of a form on every kind of lane, and what a rank keeps. */
static bool price_form(struct oracle_pieces *p, struct form *m,
                       struct priced *x)
{
    const struct kinds *k = &m->kinds[UPDATE];
    const struct oracle_ranks *like = &p->alike[m->key.zero];
    struct oracle_ranks r;

    for (int lane = 0; lane < p->lanes[1].n; lane++) {
        struct piece_price *to =
            PDL_NEW(p->arena, struct piece_price, k->n + 1);

        if (!to)
            return false;
        ranks_of(&p->lanes[1], m->s, lane, &r);
        oracle_memo_forget(&m->s->o, false); /* prices of the ranks before */
        for (int i = 0; i < k->n; i++)
            price_op(m->s, k->op[i], UPDATE, &r, &to[i]);
        x->price[UPDATE][lane] = to;
    }
    for (int i = 0; i < like->n; i++) {
        if (like->like[i] != i)
            continue;
        x->size[i] = all_sizes(p->arena, m->s, like->rank[i]);
        for (int w = 0; x->size[i] && w < m->s->plan.nstages; w++) {
            sizes_of(m->s, w, x->size[i]);
            oracle_lived_base(&m->s->o, w, m->s->size, &x->base[w][i]);
            oracle_form_block(p->forms, m, w, m->s->size, &x->block[w][i]);
        }
        if (!x->size[i])
            return false;
    }
    pdl_arena_reset(p->forms->scratch);
    return true;
}

static struct priced *find_priced(struct oracle_pieces *p, struct form *m)
{
    struct priced *x = p->priced;

    while (x && x->form != m)
        x = x->next;
    if (x)
        return x;
    x = PDL_NEW(p->arena, struct priced, 1);
    if (!x || !price_form(p, m, x))
        return NULL;
    x->form = m;
    x->next = p->priced;
    p->priced = x;
    return x;
}

/* Operations that gather from so many blocks are priced besides. */
static const struct piece_price *price_longer(struct oracle_pieces *p,
                                              struct form *m,
                                              const struct steps *s, int lane,
                                              const struct piece_price *known)
{
    const struct pdl_plan_op *ops = m->s->plan.ops;
    int n = m->kinds[UPDATE].n;
    struct piece_price *to;
    struct oracle_ranks r;

    if (s->nlonger == 0)
        return known;
    to = PDL_NEW(p->arena, struct piece_price, n + s->nlonger);
    if (!to)
        return NULL;
    memcpy(to, known, (size_t)n * sizeof *to);
    ranks_of(&p->lanes[1], m->s, lane, &r);
    oracle_memo_forget(&m->s->o, false);
    m->s->plan.ops = s->ops;
    for (int i = 0; i < s->nlonger; i++)
        price_op(m->s, s->longer[i], UPDATE, &r, &to[n + i]);
    m->s->plan.ops = ops;
    return to;
}

static void live_update(struct oracle_pieces *p, struct form *m,
                        const struct steps *s, const struct priced *x,
                        int stage, struct piece_update *u)
{
    const struct oracle_ranks *r = &p->alike[m->key.zero];
    int64_t more = s->blocks - m->key.blocks;

    m->s->o.arena = p->forms->scratch;
    for (int i = 0; i < r->n; i++) {
        struct oracle_lived *l = &u->lived[i];
        const struct oracle_lived *b = &x->block[stage][i];
        struct oracle_tally *t;

        if (r->like[i] != i) {
            *l = u->lived[r->like[i]];
            continue;
        }
        *l = x->base[stage][i];
        l->weights += more * b->weights;
        l->buffers += more * b->buffers;
        l->state += more * b->state;
        l->host += more * b->host;
        sizes_of(m->s, stage, x->size[i]);
        t = oracle_tally_make(&m->s->o, r->rank[i], m->s->size, l);
        if (t)
            l->update = oracle_form_walk(m, s, stage, t);
    }
    m->s->o.arena = p->forms->arena;
}

static bool fill_update(struct oracle_pieces *p, const struct steps *s,
                        int stage, const struct piece_price *price,
                        struct piece_update *u)
{
    double *end = PDL_NEW(p->forms->scratch, double, s->n[stage] + 1);

    u->blocks = s->blocks;
    u->n = s->n[stage];
    u->steps = s->list[stage];
    u->price = price;
    for (int i = 0; i < u->n; i++) {
        const struct piece_price *x = &price[u->steps[i].kind];

        u->all += x->seconds;
        u->update += u->steps[i].on == ON_COMPUTE ? x->seconds : 0;
        u->gradient_comm += u->steps[i].on == ON_NETWORK ? x->seconds : 0;
        if (x->contention > u->contention)
            u->contention = x->contention;
    }
    if (end)
        oracle_piece_apart(u, end);
    return end != NULL;
}

/* The form of few blocks, if more follow from them. */
static enum pdl_status form_of(struct oracle_pieces *p, struct key *k,
                               int64_t blocks, struct form **m,
                               const struct steps **s, struct pdl_err *err)
{
    enum pdl_status st;

    *s = NULL;
    k->blocks = blocks < UPDATE_BLOCKS ? blocks : UPDATE_BLOCKS;
    st = oracle_find_form(p, k, 1, m, err);
    if (st == PDL_OK)
        *s = oracle_form_steps(p->forms, *m, blocks);
    if (st != PDL_OK || *s)
        return st;
    k->blocks = blocks;
    st = oracle_find_form(p, k, 1, m, err);
    if (st == PDL_OK)
        *s = oracle_form_steps(p->forms, *m, blocks);
    return st == PDL_OK && !*s ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                               : st;
}

/* Of every kind of lane. */
static enum pdl_status make_update(struct oracle_pieces *p, struct key *k,
                                   int64_t blocks, struct piece_updates *out,
                                   struct pdl_err *err)
{
    const struct steps *s;
    struct priced *x;
    struct form *m;
    enum pdl_status st = form_of(p, k, blocks, &m, &s, err);

    if (st != PDL_OK)
        return st;
    x = find_priced(p, m);
    for (int lane = 0; x && lane < p->lanes[1].n; lane++) {
        const struct piece_price *price =
            price_longer(p, m, s, lane, x->price[UPDATE][lane]);

        for (int i = 0; i < p->alike[k->zero].n; i++)
            out[lane].alike[i] = p->alike[k->zero].like[i] != i;
        for (int i = 0; price && i < m->s->plan.nstages; i++) {
            struct piece_update *u = &out[lane].at[i];

            u->optimizer = k->optimizer;
            if (lane == 0)
                live_update(p, m, s, x, i, u);
            else
                memcpy(u->lived, out[0].at[i].lived, sizeof u->lived);
            if (!fill_update(p, s, i, price, u))
                price = NULL;
        }
        x = price ? x : NULL;
    }
    pdl_arena_reset(p->forms->scratch);
    return x ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

/* ---- lanes ----------------------------------------------------------------------------- */

/* Do the groups of two lanes cross the same wires, in the update or before? */
static bool same_wires(const struct small *s, int64_t a, int64_t b, bool update)
{
    int64_t ranks[2][ORACLE_MAX_RANKS];
    int n = oracle_small_ranks(s, a, ranks[0]);
    int first = s->plan.items[s->stages[0].first_update].first_op;
    uint32_t seen[8] = {0};
    int nseen = 0;

    oracle_small_ranks(s, b, ranks[1]);
    for (int i = update ? first : 0; i < (update ? s->plan.nops : first); i++) {
        bool again = s->plan.ops[i].group == 0;

        for (int k = 0; k < nseen; k++)
            again = again || seen[k] == s->plan.ops[i].group;
        if (again || nseen == 8)
            continue;
        seen[nseen++] = s->plan.ops[i].group;
        for (int k = 0; k < n; k++)
            if (!oracle_same_wire(&s->o, i, ranks[0][k], ranks[1][k], update))
                return false;
    }
    return true;
}

/* Who is like whom, by the form of one block, which all others repeat. */
static enum pdl_status find_alike(struct oracle_pieces *p, int zero,
                                  struct form **m, struct pdl_err *err)
{
    struct key k = {.blocks = 1, .update = true, .zero = zero};
    enum pdl_status st = oracle_find_form(p, &k, 1, m, err);

    if (st != PDL_OK)
        return st;
    if (!oracle_find_alike(&(*m)->s->o))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    p->alike[zero] = *(*m)->s->o.alike;
    (*m)->s->o.alike = &p->alike[zero];
    p->known[zero] = true;
    return p->alike[zero].n > PIECE_RANKS
               ? pdl_fail(err, PDL_EINVAL, "too many kinds of ranks")
               : PDL_OK;
}

static enum pdl_status find_lanes(struct oracle_pieces *p, struct pdl_err *err)
{
    struct form *m;
    enum pdl_status st = find_alike(p, 0, &m, err);

    for (int u = 0; st == PDL_OK && u < 2; u++)
        for (int64_t l = 0; l < p->mesh.pipe; l++) {
            struct lanes *x = &p->lanes[u];
            int kind = 0;

            while (kind < x->n && !same_wires(m->s, l, x->first[kind], u))
                kind++;
            if (kind == MAX_LANES)
                return pdl_fail(err, PDL_EINVAL, "too many kinds of lanes");
            if (kind == x->n)
                x->first[x->n++] = l;
            x->of[l] = kind;
        }
    return st;
}

int oracle_piece_lane(const struct oracle_pieces *p, int64_t lane, bool update)
{
    return p->lanes[update].of[lane];
}

enum pdl_status oracle_piece_lanes(struct oracle_pieces *p, struct pdl_err *err)
{
    double start = pdl_clock_s();
    enum pdl_status st;

    if (p->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", p->refused);
    if (p->lanes[1].n > 0)
        return PDL_OK;
    st = find_lanes(p, err);
    p->forms->effort.seconds += pdl_clock_s() - start;
    if (st != PDL_OK && st != PDL_ENOMEM)
        p->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    return st;
}

/* ---- tables --------------------------------------------------------------------------- */

struct oracle_forms *oracle_forms_make(pdl_arena *a, pdl_arena *scratch,
                                       const struct oracle_family *f,
                                       const struct oracle_point *x)
{
    struct oracle_forms *g = PDL_NEW(a, struct oracle_forms, 1);

    if (!g)
        return NULL;
    g->f = f;
    g->mesh = *x;
    g->arena = a;
    g->scratch = scratch;
    return g;
}

const struct oracle_effort *oracle_forms_effort(const struct oracle_forms *g)
{
    return &g->effort;
}

struct oracle_pieces *oracle_pieces_make(pdl_arena *a, struct oracle_forms *g,
                                         const struct oracle_point *x)
{
    struct oracle_pieces *p = PDL_NEW(a, struct oracle_pieces, 1);

    if (!p)
        return NULL;
    p->forms = g;
    p->id = ++g->meshes;
    p->f = g->f;
    p->mesh = *x;
    p->arena = a;
    p->lanes[0].of = PDL_NEW(a, int, x->pipe);
    p->lanes[1].of = PDL_NEW(a, int, x->pipe);
    return p->lanes[0].of && p->lanes[1].of ? p : NULL;
}

static bool same_entry(const struct entry *e, const struct key *k, int lane)
{
    return e->key.blocks == k->blocks && e->key.micro == k->micro &&
           e->key.recompute == k->recompute && e->key.zero == k->zero &&
           e->key.many == k->many && e->key.activations == k->activations &&
           e->key.optimizer == k->optimizer && e->key.split == k->split &&
           e->lane == lane;
}

static struct entry **bucket_of(struct entry **table, const struct key *k)
{
    uint64_t h = (uint64_t)k->micro * 1000003 + (uint64_t)k->blocks * 8191 +
                 (uint64_t)k->recompute * 4 + (uint64_t)k->zero * 2 +
                 (uint64_t)k->activations + (uint64_t)k->optimizer;

    return &table[(h * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
}

/* k: with the micro-batch, or the blocks of an update. */
static enum pdl_status get(struct oracle_pieces *p, struct key k, int lane,
                           const void **out, struct pdl_err *err)
{
    struct entry **at = bucket_of(k.update ? p->update : p->work, &k), *e = *at;
    double start;
    enum pdl_status st;

    while (e && !same_entry(e, &k, lane))
        e = e->next;
    if (e && e->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", e->refused);
    if (e) {
        *out = e->piece;
        return PDL_OK;
    }
    start = pdl_clock_s();
    e = PDL_NEW(p->arena, struct entry, 1);
    if (e)
        e->piece =
            pdl_arena_alloc(p->arena, k.update ? (size_t)p->lanes[1].n : 1,
                            k.update ? sizeof(struct piece_updates)
                                     : sizeof(struct piece_works));
    if (!e || !e->piece)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    e->key = k;
    e->lane = lane;
    st = k.update ? make_update(p, &k, e->key.blocks, e->piece, err)
                  : make_work(p, &k, e->key.micro, lane, e->piece, err);
    p->forms->effort.priced++;
    p->forms->effort.seconds += pdl_clock_s() - start;
    if (st == PDL_ENOMEM)
        return st;
    if (st != PDL_OK)
        e->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    e->next = *at;
    *at = e;
    *out = e->piece;
    return st;
}

enum pdl_status oracle_piece_work(struct oracle_pieces *p,
                                  const struct oracle_point *x,
                                  int64_t micro_batches, int64_t blocks,
                                  int lane, const struct piece_works **out,
                                  struct pdl_err *err)
{
    int64_t alone = x->activations ? 2 : 1; /* blocks lowered as they are */
    int64_t most = x->activations ? WORK_BLOCKS + 1 : WORK_BLOCKS;
    const void *piece = NULL;
    enum pdl_status st =
        get(p,
            (struct key){.micro = x->micro,
                         .blocks = blocks <= alone ? blocks : most,
                         .recompute = x->recompute,
                         .activations = x->activations,
                         .split = x->bubble > 0,
                         .many = micro_batches > 1},
            lane, &piece, err);

    *out = piece;
    return st;
}

enum pdl_status oracle_piece_update(struct oracle_pieces *p,
                                    const struct oracle_point *x,
                                    int64_t blocks, int lane,
                                    const struct piece_updates **out,
                                    struct pdl_err *err)
{
    const struct piece_updates *lanes;
    const void *piece = NULL;
    enum pdl_status st = PDL_OK;
    struct form *m;

    if (!p->known[x->zero])
        st = find_alike(p, x->zero, &m, err);
    if (st == PDL_OK)
        st = get(p,
                 (struct key){.blocks = blocks,
                              .zero = x->zero,
                              .optimizer = x->optimizer,
                              .split = x->bubble > 0,
                              .update = true},
                 0, &piece, err);
    lanes = piece;
    *out = st == PDL_OK ? &lanes[lane] : NULL;
    return st;
}
